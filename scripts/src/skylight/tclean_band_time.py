# SPDX-License-Identifier: GPL-2.0
"""How long the drive takes to clean one band.

A drive that is forced to clean (see Test 11) delays a write meanwhile.  If the only dirty
band is the one that is written, with five blocks that show when it was cleaned, the latency
of that write is the time of cleaning.  The second case of the thesis (Aghayev 2020) has every
other block of 2 MiB of the band dirty.

A drive that cleans when left alone gets many bands with one dirty block each, and is left
alone for pauses of different length: a longer pause cleans more bands, and the idle time
before cleaning begins is the same in all."""

import numpy as np

from . import guard, rewrite, t11_band_size
from .band_members import NotMoved
from .session import BLOCK, DONE, MIB, Finding, Result
from .t06_raw_size import skipped

ID, TITLE, AFTER = "clean", "time to clean a band", ("3", "6", "11")
TRIES = 5


def estimate(s):
    """Seconds of the drive's clock."""
    return 600 if s.value("cleaning_type") else 60


def run(s):
    """Measures by force where that works, else by pauses."""
    band = s.value("band_bytes")
    if not band:
        return skipped("it takes the band size (Test 11) to make one band dirty")
    with s.settings():
        s.fresh()
        prober, why = t11_band_size.ready(s)
        if not prober:
            return skipped(why)
        eleven = s.results.get("11")
        prober.how = eleven.numbers.get("way") if eleven else None
        if prober.how is None:
            prober.choose(prober.blocks // 5)
        out = Result(DONE, numbers={"way": prober.how})
        try:
            if prober.how != "pause":
                forced(s, prober, band // BLOCK, out)
            else:
                paused(prober, band // BLOCK, out)
        except NotMoved as no:
            out.findings["clean_band_ms"] = Finding.unknown(str(no), "ms")
    return out


def forced(s, prober, band, out):
    """Latency of the write that meets cleaning."""
    # The first block of a band by Test 11, so that all dirty blocks are in that band.
    low = next((v[0] for k, v in sorted(s.results["11"].numbers.items())
                if k.startswith("band")), 0) if "11" in s.results else 0
    at = low + band // 2
    stalls, half = [], []
    many = min(2 * MIB // BLOCK, band) // 2
    for _ in range(TRIES):
        stalls.append(_longest(prober, at, []))
    # A set has about as many places as a band has blocks: leave room in it.
    if 4 <= many <= band // 4:
        near = [b for b in low + 2 * np.arange(many) if abs(b - at) > 1]
        half = [_longest(prober, at, near) for _ in range(TRIES)]
    out.arrays["stalls_us"] = np.asarray(stalls)
    out.arrays["half_us"] = np.asarray(half)
    middle = guard.median(stalls, "stalls") / 1000
    spread = guard.span(stalls, "stalls") / max(guard.median(stalls, "stalls"), 1)
    said = "a write waits so long for a band with five dirty blocks"
    if half:
        out.numbers["alternating_2mib_ms"] = often = guard.median(half, "stalls") / 1000
        said += f"; {often:,.1f} ms with {len(near)} of them"
    if spread > 0.5:
        out.findings["clean_band_ms"] = Finding.unknown(
            f"cleaning took anything from {min(stalls) / 1000:.1f} to "
            f"{max(stalls) / 1000:.1f} ms", "ms")
        return
    # The median of five is within their range in 15 of 16 samples.
    out.findings["clean_band_ms"] = Finding(
        middle, "ms", min(stalls) / 1000, max(stalls) / 1000, 15 / 16, said)


def _longest(prober, at, others):
    lat = prober.members.force(at * BLOCK, np.asarray(others, np.uint64) * BLOCK,
                             name="force").rewrites_us
    return guard.peak(lat, "writes until a cleaning")


def paused(prober, band, out):
    """How many more bands a longer pause cleans."""
    seen = rewrite.bands_by_pause(prober, band)
    out.arrays["pauses_s"] = np.asarray([p for p, _ in seen])
    out.arrays["bands"] = np.asarray([n for _, n in seen])
    out.findings["clean_band_ms"] = rewrite.rate(seen)


def draw(figure, result, arrays):
    """Waiting times, or bands by pause."""
    from . import plots
    axes = plots.panels(figure, 1)[0]
    if "pauses_s" in arrays:
        axes.plot(arrays["pauses_s"], arrays["bands"], "o", color=plots.GREEN)
        axes.set_xlabel("pause, s")
        axes.set_ylabel("bands cleaned")
        return
    for i, name in enumerate(("stalls_us", "half_us")):
        if len(arrays.get(name, ())):
            axes.plot(np.full(len(arrays[name]), i), arrays[name] / 1000, "o",
                      color=plots.CYCLE[i])
    axes.set_xticks([0, 1], ["five dirty blocks", "every other of 2 MiB"])
    axes.set_xlim(-0.6, 1.6)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("a write waits, ms")
