# SPDX-License-Identifier: GPL-2.0
"""Loads to compare translation layers with; see Documentation/loads.rst."""

import sys

from common import libraries


def main() -> int:
    libraries.have("loads", "numpy")
    from loads import cli
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
