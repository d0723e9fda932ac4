# SPDX-License-Identifier: GPL-2.0
"""The arrival processes of kvbench beside those of the thesis that defines them, R. Pitchumani,
"Data Management for Shingled Magnetic Recording Disks", chapter 4: series, autocorrelation, and
Hurst's parameter by five methods beside its Table 4.2.

As in the thesis the rate is 10,000 a second.  "short" are the first gaps of a run, "seconds" the
arrivals of each second of the whole run.  The thesis gives neither the number of gaps nor the
length of a run; here they are --gaps and --seconds.  Each figure is the median over --seeds series,
with the range.  "as drawn" is the diurnal process exactly as the thesis words it: gaps are not
fitted to their second, so it misses its rate.

Writes build/out/arrivals/series.png and acf.png.
"""

import subprocess
import sys

import numpy as np
from lab.cache import TOP

from experiments import hurst, runner
from experiments.tables import Table

OUT = runner.outputs("arrivals")
RATE = 10_000
S, MS = 10 ** 9, 10 ** 6


def diurnal(shape, *more):
    return ("diurnal", "-p", f"diurnal.distribution.shape={shape}", *more)


PROCESSES = {
    "constant": ("constant",),
    "Poisson": ("poisson",),
    "b = 0.65": ("self-similar", "-p", "ss.bias=0.65"),
    "b = 0.75": ("self-similar", "-p", "ss.bias=0.75"),
    "envelope, 1.1": diurnal(1.1),
    "envelope, 1.5": diurnal(1.5),
    "envelope, 1.9": diurnal(1.9),
    "as drawn, 1.1": diurnal(1.1, "--as-drawn"),
    "as drawn, 1.5": diurnal(1.5, "--as-drawn"),
    "as drawn, 1.9": diurnal(1.9, "--as-drawn"),
}
# Table 4.2 as extracted.  Its R/S of Poisson by seconds, 0.002, is probably a misprint.
THESIS = {
    "short": {
        "Poisson": (0.455, 0.505, 0.481, 0.453, 0.5),
        "b = 0.65": (0.728, 0.698, 0.626, 0.695, 0.509),
        "b = 0.75": (0.761, 0.636, 0.757, 0.656, 0.559),
        "envelope, 1.1": (0.465, 0.501, 0.492, 0.559, 0.5),
        "envelope, 1.5": (0.447, 0.491, 0.49, 0.547, 0.5),
        "envelope, 1.9": (0.499, 0.482, 0.504, 0.526, 0.5)},
    "seconds": {
        "Poisson": (0.447, 0.002, 0.469, 0.529, 0.5),
        "b = 0.65": (0.859, 0.777, 1.003, 0.986, 0.954),
        "b = 0.75": (0.862, 0.663, 1.041, 1.122, 0.996),
        "envelope, 1.1": (0.835, 0.666, 0.72, 0.683, 0.766),
        "envelope, 1.5": (0.817, 0.631, 0.673, 0.747, 0.775),
        "envelope, 1.9": (0.784, 0.306, 1.494, 0.585, 0.999)},
}


# --- series ---------------------------------------------------------------------------


def command(name, seed, options, *more):
    return [str(TOP / "build/userspace/kvbench"), "arrivals", "--arrivals", *PROCESSES[name],
            "--target", str(RATE), "--seconds", str(options.seconds), "--seed", str(seed), *more]


def counts(name, seed, options):
    """Return the arrivals of each second."""
    done = subprocess.run(command(name, seed, options, "--format", "counts"),
                          stdout=subprocess.PIPE, check=True)
    return np.array(done.stdout.split(), np.int64)


def begin(name, seed, options, count):
    """Return the due times of the first @count arrivals, in ns."""
    with subprocess.Popen(command(name, seed, options), stdout=subprocess.PIPE) as child:
        lines = [line for line, _ in zip(child.stdout, range(count))]
        child.kill()
    return np.array(lines, np.int64)


# --- table ----------------------------------------------------------------------------


def measured(options):
    """Return {series: {process: {method: [a figure for each seed]}}}, and {process: rates}."""
    table, rates = {"short": {}, "seconds": {}}, {}
    for name in [n for n in PROCESSES if n != "constant"]:
        for seed in range(1, options.seeds + 1):
            if sys.stderr.isatty():
                print(f"\r\033[Karrivals: {name}, seed {seed}", end="", file=sys.stderr)
            each = counts(name, seed, options)
            rates.setdefault(name, []).append(float(each.mean()))
            gaps = np.diff(begin(name, seed, options, options.gaps + 1))
            for series, x in (("short", gaps), ("seconds", each)):
                row = table[series].setdefault(name, {m: [] for m in hurst.METHODS})
                for method, value in hurst.estimates(x).items():
                    row[method].append(value)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return table, rates


def most_above(figures):
    """The thesis's rule: self-similar if most methods give clearly more than 0.5."""
    return sum(v > 0.55 for v in figures) > len(figures) / 2


def cascade(name):
    """Return Hurst's parameter of the b-model: the sum of squared shares falls by b^2 + (1 - b)^2
    at each halving, independent of the random choices.  None for other processes."""
    if not name.startswith("b = "):
        return None
    b = float(name[len("b = "):])
    return (1 - np.log2(b ** 2 + (1 - b) ** 2)) / 2


def tables(table, rates):
    """Return medians and ranges, beside those of the thesis."""
    out = []
    for series, rows in table.items():
        out.append(Table(f"Hurst's parameter, {series}", ["", *hurst.METHODS, "most > 0.55"]))
        for name, row in rows.items():
            medians = [float(np.median(v)) for v in row.values()]
            out[-1].add(name, *(f"{m:.3f} ({min(v):.3f}-{max(v):.3f})"
                                for m, v in zip(medians, row.values())),
                        "yes" if most_above(medians) else "no")
            theirs = THESIS[series].get(name)
            if theirs:
                out[-1].add("... thesis", *(f"{v:.3f}" for v in theirs),
                            "yes" if most_above(theirs) else "no")
            if cascade(name):
                out[-1].add("... in closed form", f"{cascade(name):.3f}",
                            *[""] * len(hurst.METHODS))
    out.append(Table.of_rows("rate, a second", (("median", "median", ".2f"), ("least", "least", ".2f"),
                                                ("most", "most", ".2f")),
                             {name: {"median": np.median(of), "least": min(of), "most": max(of)}
                              for name, of in rates.items()}))
    return out


# --- pictures -------------------------------------------------------------------------

SHOWN = ("constant", "Poisson", "b = 0.65", "b = 0.75", "envelope, 1.1", "envelope, 1.9")


def draw_series(options):
    """Draw Figures 4.6 to 4.8: each millisecond of 100, each second of 60, and each second of the
    run."""
    data = {}
    for name in SHOWN:
        each = counts(name, 1, options)
        first = begin(name, 1, options, 200 * RATE // 1000 * 8)
        at = first[first < first[0] + 100 * MS] - first[0]
        data[name] = (np.bincount(at // MS, minlength=100)[:100], each[:60], each)

    def draw(figure):
        axes = figure.subplots(len(SHOWN), 3)
        for row, (name, series) in zip(axes, data.items()):
            for ax, y, what in zip(row, series, ("each ms of 100", "each s of 60", "each s")):
                ax.plot(y, linewidth=0.7)
                ax.set_ylim(0, None)
                ax.set_title(f"{name}: {what}")
    return draw


def draw_acf(options, lags=200):
    """Draw Figure 4.9: the autocorrelation of short gaps, and of the seconds of the whole run."""
    short, long = {}, {}
    for name in SHOWN[1:]:
        short[name] = hurst.autocorrelation(
            np.diff(begin(name, 1, options, options.gaps + 1)), lags)
        each = counts(name, 1, options)
        long[name] = hurst.autocorrelation(each, min(len(each) // 2, 1200))

    def draw(figure):
        from skylight import plots
        for ax, data, what in zip(plots.panels(figure, 2), (short, long),
                                  ("lag, gaps", "lag, seconds")):
            for name, r in data.items():
                ax.plot(r, label=name)
            ax.axhline(0, color="black", linewidth=0.6)
            ax.set_ylim(-1.05, 1.05)
            ax.set_xlabel(what)
            ax.legend()
    return draw


def main():
    p = runner.Parser("arrivals", __doc__)
    p.add_argument("--seconds", type=int, default=3600, help="of a run (3600)")
    p.add_argument("--gaps", type=int, default=1 << 16, help="of the short series (65536)")
    p.add_argument("--seeds", type=int, default=5, help="series of each process (5)")
    options = p.parse_args()
    runner.prepare("arrivals", "kvbench")
    table, rates = measured(options)
    runner.keep(options, {"rate": RATE, "hurst": table, "rates": rates, "thesis": THESIS})
    runner.show(options, *tables(table, rates))
    from skylight import plots
    plots.png(draw_series(options), OUT / "series.png", (11, 12))
    plots.png(draw_acf(options), OUT / "acf.png", (11, 4))
    print(f"\n{(OUT / 'series.png').relative_to(TOP)}, acf.png")
