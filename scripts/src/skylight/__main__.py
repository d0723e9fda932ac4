# SPDX-License-Identifier: GPL-2.0
"""Find out the properties of a drive from outside; see Documentation/skylight.rst."""

import sys

from common import libraries


def main() -> int:
    libraries.have("skylight", "jinja2", "matplotlib", "numpy", "scipy")
    # These libraries are imported there.
    from skylight import cli
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
