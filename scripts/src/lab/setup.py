# SPDX-License-Identifier: GPL-2.0
"""Install what the lab needs; with kernel names, prepare those kernels, too.

scripts/lab/setup [KERNEL...|all]
"""

import sys

from lab import kernels, packages
from lab.cache import LabError, say

GUESTS = [n for n in kernels.NAMES if n != "host"]


def main(names):
    if not set(names) <= {*GUESTS, "all"}:
        print(__doc__ + "Kernels: " + " ".join(GUESTS), file=sys.stderr)
        return 2
    try:
        packages.setup()
        for name in GUESTS if "all" in names else names:
            kernels.get(name)
    except LabError as error:
        say(str(error))
        return 125
    return 0


sys.exit(main(sys.argv[1:]))
