# SPDX-License-Identifier: GPL-2.0
"""Decisions with a stated error rate.

The error rates are those of noise, which can be computed.  Behaviour of a drive that no test
expects is not included, so no answer claims more than SURE.  Where more than noise decides,
an answer claims no more than was measured on randomly generated drives."""

import math

import numpy as np
from scipy.stats import binom, chi2, fisher_exact, nchypergeom_wallenius

from . import guard

ALPHA = 1e-3            # accepted chance of a wrong decision
SURE = 0.999
SLACK = 0.15            # share of the blocks that may behave differently for other reasons
# (wrong answers, answers) on randomly generated drives: the last lines of the output of
# scripts/experiments confidence --drives 400 --seed 2.
MEASURED = {
    "cleaning_type": (0, 354),
    "cleaning_order": (0, 254),
    "zone_profile": (2, 220),
    "serpentine": (0, 348),
    "track_bytes": (0, 243),
    "streaming_bytes": (0, 270),
    "filled_all": (0, 83),
    "filled_part": (27, 101),
}
# Fingerprint of the probes and drives that MEASURED is of; a unit test compares it with that of a
# few drives.
MEASURED_OF = "3e16a76ce2371124"


def borne_out(wrong, answers):
    """How sure an answer may be of which @wrong of @answers were wrong: the next one is wrong
    with a probability of (wrong + 1) / (answers + 2) (Laplace's rule)."""
    return 1 - guard.ratio(wrong + 1, answers + 2, "share of wrong answers")


def measured(name):
    """How sure a test may be of that answer."""
    return min(SURE, borne_out(*MEASURED[name]))


def upper_tail(k, n, p):
    """Chance of @k or more successes in @n trials of chance @p."""
    return float(binom.sf(k - 1, n, min(max(p, 0), 1)))


def lower_tail(k, n, p):
    """Chance of @k or fewer successes in @n trials of chance @p."""
    return float(binom.cdf(k, n, min(max(p, 0), 1)))


def more_of(one, other):
    """Chance that @one has as many hits or more, if a unit of length is hit equally often in
    @one and in @other.  Each is (hits, members, total length); a longer member is hit more
    often."""
    (k, n, long), (l, m, short) = one, other
    if not n or not m:
        return 1.0
    odds = guard.ratio(long, n, "length") / max(guard.ratio(short, m, "length"), 1e-9)
    return float(nchypergeom_wallenius.sf(k - 1, n + m, n, k + l, max(odds, 1e-9)))


def most(k, n, share=1 - SLACK, none=SLACK):
    """Whether all of @n things are hits (at least @share) or none (at most @none), if @k are.
    Returns (True, False or None, confidence)."""
    if not n:
        return None, 0.0
    all_of_them, none_of_them = lower_tail(k, n, share), upper_tail(k, n, none)
    if none_of_them < ALPHA <= all_of_them:
        return True, min(SURE, 1 - none_of_them)
    if all_of_them < ALPHA <= none_of_them:
        return False, min(SURE, 1 - all_of_them)
    return None, 0.0


def flat(values, width=0.1, share=0.6):
    """Decides whether latencies are constant, as those of a log are.

    Returns (verdict, confidence, middle).  True: significantly more than @share of them are
    within @width of their median.  False: significantly fewer are.  If the head goes to
    random places of a small region, at most half are: those just before the head, or just
    behind it."""
    values = np.asarray(values, float)
    n = len(values)
    if n < 16:
        return None, 0.0, guard.median(values, "latencies") if n else 0.0
    middle = guard.median(values, "latencies")
    k = int((abs(values - middle) <= width * middle).sum())
    high, low = upper_tail(k, n, share), lower_tail(k, n, share)
    if high < ALPHA:
        return True, min(SURE, 1 - high), middle
    if low < ALPHA:
        return False, min(SURE, 1 - low), middle
    return None, 0.0, middle


def posterior(costs):
    """{hypothesis: -log likelihood} -> {hypothesis: probability}, with equal prior
    probabilities."""
    least = min(costs.values())
    weight = {k: math.exp(min(0.0, least - c)) for k, c in costs.items()}
    total = sum(weight.values())
    return {k: guard.ratio(w, total, "probability") for k, w in weight.items()}


def chi2_tail(x, dof):
    """Chance that a chi-square with @dof degrees of freedom is @x or more."""
    return float(chi2.sf(x, dof))


def fisher(a, n, b, m):
    """Two-sided exact test of whether @a of @n and @b of @m are the same share."""
    return float(fisher_exact([[a, n - a], [b, m - b]])[1])
