# SPDX-License-Identifier: GPL-2.0
"""Decisions with a stated error rate, over numpy alone."""

import math

import numpy as np
