# SPDX-License-Identifier: GPL-2.0
"""The parts of experiments that run in a guest of the lab: python3 -m experiments.in_guest.NAME."""
