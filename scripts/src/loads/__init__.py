# SPDX-License-Identifier: GPL-2.0
"""Loads: lists of reads and writes with times.  Generate, convert, measure and replay them."""
