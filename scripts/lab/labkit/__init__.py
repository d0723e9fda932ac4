# SPDX-License-Identifier: GPL-2.0
"""The modules behind the lab's commands; see Documentation/lab.rst."""
