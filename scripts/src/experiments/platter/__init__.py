# SPDX-License-Identifier: GPL-2.0
"""Compare dm-platter's mechanics with real drives measured for DiskSim: disksim_compare.py."""
