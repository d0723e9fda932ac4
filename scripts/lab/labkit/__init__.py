# SPDX-License-Identifier: GPL-2.0
"""What the lab's commands are made of; see Documentation/lab.rst."""
