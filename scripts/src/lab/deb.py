# SPDX-License-Identifier: GPL-2.0
"""Make and try Debian packages of this checkout; see Documentation/lab.rst.

build   to build/deb/SUITE, in a fresh Debian without a network; ends with lintian try     install
them into a fresh Debian and remove them, which must leave no trace guest   both, for Debian 12 and
13 unless one is named, and then boot that Debian under QEMU: the
        quick start, a device of shingletab after a reboot, and the removal of the packages
"""

import argparse
import os
import signal
import sys

from lab import debian, packages
from lab.cache import LabError, say


def main():
    p = argparse.ArgumentParser(prog="scripts/lab/debian", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--suite", choices=debian.SUITES,
                   help="which Debian (default: bookworm)")
    p.add_argument("what", choices=("build", "try", "guest"))
    options = p.parse_args()
    try:
        if os.geteuid():
            raise LabError("to make a Debian in a directory takes root: sudo "
                           + " ".join(sys.argv))
        packages.need("mmdebstrap")
        if options.what != "build":
            packages.need("autopkgtest")
        suites = [options.suite or "bookworm"]
        if options.what == "guest":
            packages.need("qemu-system-x86_64", "qemu-system-x86")
            suites = [options.suite] if options.suite else debian.SUITES
        for suite in suites:
            if options.what != "try":
                debian.build(suite)
            if options.what != "build":
                debian.trial(suite, options.what == "guest")
        return 0
    except LabError as error:
        say(str(error))
        return 125
    except KeyboardInterrupt:
        return 130


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
sys.exit(main())
