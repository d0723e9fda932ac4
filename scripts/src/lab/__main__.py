# SPDX-License-Identifier: GPL-2.0
"""Run a command under a kernel of the lab; see Documentation/lab.rst."""

import signal
import sys

from lab.main import main


def told_to_end(number, _):
    # A caller with many threads sends the signal again as each of them ends.
    signal.signal(number, signal.SIG_IGN)
    sys.exit(143)


# The handler is set here because tests call main(), and their process must keep its own.
signal.signal(signal.SIGTERM, told_to_end)
sys.exit(main())
