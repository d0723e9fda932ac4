# SPDX-License-Identifier: GPL-2.0
"""The experiments behind the documents' figures; see Documentation/results.rst."""
