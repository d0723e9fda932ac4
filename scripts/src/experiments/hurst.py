# SPDX-License-Identifier: GPL-2.0
"""Estimate whether a series is self-similar: its autocorrelation, and Hurst's parameter by the
five methods of Table 4.2 of R. Pitchumani, "Data Management for Shingled Magnetic Recording Disks"
(thesis), which took them from Selfis. 0.5 is independent, a larger value is persistent.

Only numpy is used.  A wavelet library and a statistics library would each serve one of the five
methods, and would be more to install than there is code here.
"""

import numpy as np

LEAST = 8               # blocks or coefficients needed for a point
# Daubechies' filter with three vanishing moments.
DB3 = np.array([0.3326705529500825, 0.8068915093110924, 0.4598775021184914,
                -0.1350110200102546, -0.0854412738820267, 0.0352262918857095])


def autocorrelation(x, lags):
    """Return r(0) to r(@lags), each over all pairs with that lag."""
    x = np.asarray(x, float) - np.mean(x)
    n = len(x)
    padded = np.fft.rfft(x, 2 ** int(np.ceil(np.log2(2 * n))))
    sums = np.fft.irfft(np.abs(padded) ** 2)[:lags + 1]
    return sums / (n - np.arange(lags + 1)) / np.var(x)


def _sizes(n):
    """Return block lengths, spaced evenly on a logarithmic scale."""
    return np.unique(np.logspace(np.log10(LEAST), np.log10(n / LEAST), 25).astype(int))


def _blocks(x, size):
    return x[:len(x) // size * size].reshape(-1, size)


def aggregate_variance(x):
    """Means over m values have a variance proportional to m^(2H - 2)."""
    sizes = _sizes(len(x))
    variance = [np.var(_blocks(x, m).mean(1)) for m in sizes]
    return 1 + np.polyfit(np.log(sizes), np.log(variance), 1)[0] / 2


def rescaled_range(x):
    """R/S of d values grows as d^H."""
    sizes, means = _sizes(len(x)), []
    for d in sizes:
        rows = _blocks(x, d)
        walk = np.cumsum(rows - rows.mean(1, keepdims=True), axis=1)
        spread = rows.std(1)
        some = spread > 0
        span = walk.max(1) - walk.min(1)
        means.append(np.mean(span[some] / spread[some]) if some.any() else np.nan)
    good = np.isfinite(means)
    return np.polyfit(np.log(sizes[good]), np.log(np.array(means)[good]), 1)[0]


def _periodogram(x):
    """Return (angular frequencies, intensities) without the mean."""
    n = len(x)
    power = np.abs(np.fft.rfft(x - np.mean(x))[1:(n - 1) // 2 + 1]) ** 2 / (2 * np.pi * n)
    return 2 * np.pi * np.arange(1, len(power) + 1) / n, power


def periodogram(x):
    """Near 0 the spectrum is f^(1 - 2H); fit the lowest tenth of the frequencies."""
    f, power = _periodogram(x)
    low = slice(0, max(LEAST, len(f) // 10))
    return (1 - np.polyfit(np.log(f[low]), np.log(power[low] + 1e-300), 1)[0]) / 2


def _energies(x):
    """Return (mean square of the wavelet coefficients, their number) for each octave."""
    high = DB3[::-1] * (-1) ** np.arange(len(DB3))
    out, x = [], np.asarray(x, float) - np.mean(x)
    while len(x) >= LEAST + len(DB3):
        detail = np.convolve(x, high, "valid")[::2]
        x = np.convolve(x, DB3, "valid")[::2]
        if len(detail) < LEAST:
            break
        out.append((np.mean(detail ** 2), len(detail)))
    return np.array(out)


def abry_veitch(x, first=3):
    """Energies of the wavelet's octaves grow as 2^(j (2H - 1)).  The fit is weighted and corrects
    the bias of the logarithm of a mean.  It begins at octave @first."""
    energy, n = _energies(x)[first - 1:].T
    j = first + np.arange(len(n))
    half = n / 2
    # digamma(half) - log(half), and trigamma(half)
    bias = (-1 / (2 * half) - 1 / (12 * half ** 2)) / np.log(2)
    variance = (1 / half + 1 / (2 * half ** 2) + 1 / (6 * half ** 3)) / np.log(2) ** 2
    slope = np.polyfit(j, np.log2(energy) - bias, 1, w=1 / np.sqrt(variance))[0]
    return (slope + 1) / 2


def _noise_spectrum(f, h):
    """Return the spectrum of fractional Gaussian noise up to a factor, by Paxson's approximation
    of the sum."""
    d, dd = -2 * h - 1, -2 * h
    k = 2 * np.pi * np.arange(1, 5)[:, None]
    a, b = k + f, k - f
    rest = (a[2] ** dd + b[2] ** dd + a[3] ** dd + b[3] ** dd) / (8 * h * np.pi)
    return (1 - np.cos(f)) * (f ** d + (a[:3] ** d + b[:3] ** d).sum(0) + rest)


def whittle(x, most=1 << 16):
    """Return H of the fractional Gaussian noise with the best fitting spectrum, from the first
    @most values."""
    f, power = _periodogram(x[:most])

    def misfit(h):
        shape = _noise_spectrum(f, h)
        return np.log(np.mean(power / shape)) + np.mean(np.log(shape))
    low, high = 0.01, 0.999
    golden = (np.sqrt(5) - 1) / 2
    while high - low > 1e-4:
        one, other = high - golden * (high - low), low + golden * (high - low)
        if misfit(one) < misfit(other):
            high = other
        else:
            low = one
    return (low + high) / 2


METHODS = {"AggVar": aggregate_variance, "R/S": rescaled_range, "Period.": periodogram,
           "A-V": abry_veitch, "Whittle": whittle}


def estimates(x):
    """{method: Hurst's parameter}"""
    x = np.asarray(x, float)
    return {name: float(method(x)) for name, method in METHODS.items()}
