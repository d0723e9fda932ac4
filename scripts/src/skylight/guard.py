# SPDX-License-Identifier: GPL-2.0
"""Quotients and statistics of what was measured.

A request can take no time where the clock is virtual, and a selection can be empty.  numpy makes
NaN of both, and every comparison with NaN is false.  The functions here raise NoNumber instead;
Session.run() makes "cannot tell" of it, with its text as the reason.  @what names the quantity in
that text."""

import numpy as np


class NoNumber(Exception):
    """A quotient or a statistic is no number; the text says which."""


def _number(value, what, how):
    if not np.isfinite(value).all():
        raise NoNumber(f"{what}: {how} is no number")
    return value


def ratio(over, under, what):
    """@over / @under, element by element for arrays."""
    with np.errstate(all="ignore"):
        value = np.divide(over, under)
        # A finite number divided by infinity is 0, which says nothing.
        bad = np.flatnonzero(~np.isfinite(value) | ~np.isfinite(under))
    if len(bad):
        one, other = (float(side.ravel()[bad[0]]) for side in np.broadcast_arrays(over, under))
        raise NoNumber(f"{what}: {one:g} / {other:g} is no number")
    return value if np.ndim(value) else float(value)


def _statistic(function, values, what, **more):
    values = np.asarray(values)
    if not values.size:
        raise NoNumber(f"{what}: there are none")
    with np.errstate(all="ignore"):
        value = _number(function(values, **more), what, f"their {NAMES[function]}")
    return value if np.ndim(value) else float(value)


NAMES = {np.mean: "mean", np.median: "median", np.quantile: "quantile", np.var: "variance",
         np.std: "deviation", np.ptp: "span", np.max: "maximum"}


def mean(values, what, axis=None):
    """Arithmetic mean, of all or along an @axis."""
    return _statistic(np.mean, values, what, axis=axis)


def median(values, what, axis=None):
    """Median, of all or along an @axis."""
    return _statistic(np.median, values, what, axis=axis)


def quantile(values, share, what):
    """The value below which a @share of all lies."""
    return _statistic(np.quantile, values, what, q=share)


def variance(values, what):
    """Variance of the values themselves, not of what they are a sample of."""
    return _statistic(np.var, values, what)


def deviation(values, what):
    """Standard deviation of what the values are a sample of; of one value there is none."""
    if np.size(values) == 1:
        raise NoNumber(f"{what}: one value has no deviation")
    return _statistic(np.std, values, what, ddof=1)


def span(values, what):
    """From the least to the largest."""
    return _statistic(np.ptp, values, what)


def peak(values, what):
    """By how much the largest exceeds the median."""
    return _statistic(np.max, values, what) - median(values, what)
