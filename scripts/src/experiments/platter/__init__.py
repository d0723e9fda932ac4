# SPDX-License-Identifier: GPL-2.0
"""Compare dm-platter's mechanics with real drives measured for DiskSim.

disksim_compare.py has the program, the other modules read DiskSim's files."""


def main():
    from experiments.platter import disksim_compare
    return disksim_compare.main()
