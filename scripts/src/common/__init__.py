# SPDX-License-Identifier: GPL-2.0
"""Code that the other packages share."""
