# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments arrivals: its estimates of the Hurst parameter for noise with a known
parameter, its autocorrelation against the defining sum, and its table."""


import numpy as np
import pytest
from experiments import arrivals as show
from experiments import hurst

# How far the mean over some series may be off: the first two are biased by their nature.
OFF = {"AggVar": 0.07, "R/S": 0.09, "Period.": 0.03, "A-V": 0.02, "Whittle": 0.01}


def noise(h, n, seed):
    """Return exact fractional Gaussian noise, by the method of Davies and Harte."""
    k = np.arange(n + 1)
    cov = (abs(k + 1) ** (2 * h) - 2 * k ** (2 * h) + abs(k - 1) ** (2 * h)) / 2
    power = np.fft.rfft(np.concatenate([cov, cov[-2:0:-1]])).real
    assert power.min() > -1e-9
    rng = np.random.default_rng(seed)
    wave = rng.normal(size=(2, n + 1)) * [[1], [1]]
    wave = (wave[0] + 1j * wave[1]) * np.sqrt(np.maximum(power, 0) / 2)
    wave[[0, -1]] = wave[[0, -1]].real * np.sqrt(2)
    return np.fft.irfft(wave, 2 * n)[:n] * np.sqrt(2 * n)


@pytest.mark.parametrize("h", (0.5, 0.6, 0.7, 0.8, 0.9))
def test_estimates_of_known_noise(h):
    """Each method estimates the Hurst parameter of noise of which it is known, within the
    method's own bias."""
    series = [noise(h, 1 << 14, seed) for seed in range(6)]
    assert np.mean([np.var(x) for x in series]) == pytest.approx(1, abs=0.2)
    for name, method in hurst.METHODS.items():
        assert np.mean([method(x) for x in series]) == pytest.approx(h, abs=OFF[name]), name


def test_estimates_do_not_depend_on_scale_or_mean():
    x = noise(0.7, 1 << 12, 1)
    one, other = hurst.estimates(x), hurst.estimates(1e6 + 1e3 * x)
    assert one == pytest.approx(other, abs=1e-3)


def test_autocorrelation_is_the_sum_that_defines_it():
    x = np.random.default_rng(1).exponential(size=300)
    mean = x.mean()
    slow = [np.sum((x[:300 - k] - mean) * (x[k:] - mean)) / (300 - k) / x.var()
            for k in range(40)]
    assert hurst.autocorrelation(x, 39) == pytest.approx(slow)
    assert slow[0] == pytest.approx(1)
    wave = np.sin(2 * np.pi * np.arange(1000) / 50)
    assert hurst.autocorrelation(wave, 50)[[25, 50]] == pytest.approx([-1, 1], abs=0.01)


@pytest.mark.parametrize("bias", (0.6, 0.65, 0.75))
def test_the_b_model_has_the_parameter_of_its_closed_form(bias):
    """The closed form for the b-model is right: a cascade of exact shares, made here in numpy,
    has the variance by blocks of the formula."""
    rng, x = np.random.default_rng(3), np.ones(1)
    for _ in range(16):
        left = np.where(rng.random(len(x)) < 0.5, bias, 1 - bias)
        x = np.stack([x * left, x * (1 - left)], 1).ravel()
    variance = [np.var(x.reshape(-1, 1 << j).mean(1)) + np.mean(x) ** 2 for j in range(17)]
    slope = np.polyfit(np.arange(17), np.log2(variance), 1)[0]
    assert 1 + slope / 2 == pytest.approx(show.cascade(f"b = {bias}"))
    assert hurst.abry_veitch(x) == pytest.approx(show.cascade(f"b = {bias}"), abs=0.12)
    assert show.cascade("Poisson") is None


def test_table():
    row = dict(zip(hurst.METHODS, ([0.5, 0.7, 0.6],) * 5))
    tables = show.tables({"short": {"b = 0.65": row}, "seconds": {"as drawn, 1.1": row}},
                        {"b = 0.65": [9.0, 10.0, 12.0]})
    said = "\n".join(table.text() for table in tables)
    assert said.count("0.600 (0.500-0.700)") == 10
    assert said.count("... thesis") == 1 and "0.509" in said and "0.938" in said
    assert tables[-1].rows == [["b = 0.65", "10.00", "9.00", "12.00"]]
    for theirs in show.THESIS.values():
        assert all(len(r) == len(hurst.METHODS) for r in theirs.values())
