# SPDX-License-Identifier: GPL-2.0
"""Decisions with a stated error rate, over numpy alone.

Error rates are those of noise, which is counted.  Nothing counts what a drive may
do that nobody has thought of, so no answer claims to be surer than SURE; and where a
decision is more than noise, no surer than it was borne out on drives by lot."""

import math

import numpy as np

ALPHA = 1e-3            # chance of a wrong decision that is put up with
SURE = 0.999
SLACK = 0.15            # of the blocks may do otherwise for reasons of their own
# How many answers were wrong, and of how many, on drives by lot: what
# scripts/shows/confidence --drives 400 --seed 2 prints at its end.
MEASURED = {
    "cleaning_type": (0, 354),
    "cleaning_order": (0, 254),
    "zone_profile": (2, 220),
    "serpentine": (0, 348),
    "track_bytes": (0, 243),
    "streaming_bytes": (0, 269),
}


def borne_out(wrong, answers):
    """How sure an answer may be of which so many of so many were wrong: the next one
    is wrong with a probability of (wrong + 1) / (answers + 2) (Laplace)."""
    return 1 - (wrong + 1) / (answers + 2)


def measured(name):
    """How sure a test may be of that answer."""
    return min(SURE, borne_out(*MEASURED[name]))


def upper_tail(k, n, p):
    """Chance of @k or more successes in @n trials of chance @p."""
    if k <= 0:
        return 1.0
    if k > n or p <= 0:
        return 0.0
    if p >= 1:
        return 1.0
    i = np.arange(k, n + 1)
    lgamma = np.vectorize(math.lgamma)
    log_mass = (math.lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) +
                i * math.log(p) + (n - i) * math.log1p(-p))
    return float(min(1.0, np.exp(log_mass).sum()))


def lower_tail(k, n, p):
    """Chance of @k or fewer successes in @n trials of chance @p."""
    return upper_tail(n - k, n, 1 - p)


def most(k, n, share=1 - SLACK, none=SLACK):
    """Of @n things @k are so.  Is it all of them (at least @share) or none (at most
    @none)?  Returns (True, False or None, confidence)."""
    if not n:
        return None, 0.0
    all_of_them, none_of_them = lower_tail(k, n, share), upper_tail(k, n, none)
    if none_of_them < ALPHA <= all_of_them:
        return True, min(SURE, 1 - none_of_them)
    if all_of_them < ALPHA <= none_of_them:
        return False, min(SURE, 1 - all_of_them)
    return None, 0.0


def flat(values, width=0.1, share=0.6):
    """Are latencies constant, as those of a log are?

    (verdict, confidence, middle): True if significantly more than @share of them
    are within @width of their median.  Of a head that goes to random places of a
    small region at most half are: just before it, or just behind.  False if
    significantly fewer are."""
    values = np.asarray(values, float)
    n = len(values)
    if n < 16:
        return None, 0.0, float(np.median(values)) if n else 0.0
    middle = float(np.median(values))
    k = int((abs(values - middle) <= width * middle).sum())
    high, low = upper_tail(k, n, share), lower_tail(k, n, share)
    if high < ALPHA:
        return True, min(SURE, 1 - high), middle
    if low < ALPHA:
        return False, min(SURE, 1 - low), middle
    return None, 0.0, middle


def posterior(costs):
    """{hypothesis: -log likelihood} -> {hypothesis: probability}, none more likely
    than any other beforehand."""
    least = min(costs.values())
    weight = {k: math.exp(min(0.0, least - c)) for k, c in costs.items()}
    total = sum(weight.values())
    return {k: w / total for k, w in weight.items()}


def chi2_tail(x, dof):
    """Chance that a chi-square with @dof degrees of freedom is @x or more, by the
    cube root of Wilson and Hilferty."""
    if x <= 0:
        return 1.0
    z = ((x / dof) ** (1 / 3) - (1 - 2 / (9 * dof))) / math.sqrt(2 / (9 * dof))
    return 0.5 * math.erfc(z / math.sqrt(2))


def fisher(a, n, b, m):
    """Two-sided exact test that @a of @n and @b of @m have the same share."""
    total, k = n + m, a + b
    low, high = max(0, k - m), min(k, n)

    def log_mass(i):
        def choose(x, y):
            return math.lgamma(x + 1) - math.lgamma(y + 1) - math.lgamma(x - y + 1)
        return choose(n, i) + choose(m, k - i) - choose(total, k)
    here = log_mass(a)
    return min(1.0, sum(math.exp(log_mass(i)) for i in range(low, high + 1)
                        if log_mass(i) <= here + 1e-9))
