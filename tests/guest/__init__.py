# SPDX-License-Identifier: GPL-2.0
"""The suites, which run in a guest of the lab; see tests/README.md."""
