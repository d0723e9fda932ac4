# SPDX-License-Identifier: GPL-2.0
"""Test 2: where the cache is.

The thesis (Aghayev 2020) writes every other block of a range and reads the range in order.
Where written blocks are elsewhere, the head moves there and back for each; the further the
cache, the slower.

Here the test first measures distances: it reads three groups of blocks, at the outer
diameter, in the middle and at the inner diameter, each behind anchors at all three.  Then it
writes the blocks and reads them behind the same anchors.  This gives nine mean latencies
before and nine after.  If those after the writes are, for all groups, like those of one group
before, the cache is where that group is.  If those of each group are as before although its
blocks have moved, each place has a cache of its own."""

import numpy as np

from . import guard, stats
from .load import chain
from .places import Places
from .session import BLOCK, Finding, Result
from .t01_translation import FAST_US, headroom, tells, too_many, window

ID, TITLE, AFTER = "2", "location and layout of the cache", ("1",)

BLOCKS = 64
GROUPS = {"low": 0.005, "mid": 0.495, "high": 0.975}
ANCHORS = {"low": 0.03, "mid": 0.53, "high": 0.94}
RANGES = 4              # fragmented at each place, for the picture
ROUGH = 0.10            # share of the seek over the whole stroke; the cache has a width, too
LAYOUTS = {"low": "single-od", "mid": "single-middle", "high": "single-id"}
NAMES = {"single-od": "one cache at the outer diameter (low LBAs)",
         "single-middle": "one cache in the middle",
         "single-id": "one cache at the inner diameter (high LBAs)",
         "multiple": "a cache near each place that is written"}


def holes(s):
    """Blocks written in one range with holes: 512, as in the thesis, over all ranges."""
    return max(8, min(512, s.scale.many // 8) // RANGES)


def estimate(s):
    """Seconds."""
    return 0.02 * (3 * 3 * 2 * 2 * BLOCKS + 3 * RANGES * 6 * holes(s)) + 5


def run(s):
    """Runs the test."""
    with s.settings() as missing:
        places = {a: Places(s, int(s.dev.bytes * at)) for a, at in ANCHORS.items()}
        groups = {g: window(s, at, s.rng(f"{ID}-{g}"), BLOCKS) for g, at in GROUPS.items()}
        telling = all([tells(places[a], groups["mid"]) for a in ANCHORS])
        before, after, writes = {}, {}, {}
        for g, offsets in groups.items():
            before[g] = {a: places[a].read(f"{g}-{a}-before", offsets) for a in ANCHORS}
            trace = s.trace(f"{g}-after", chain(
                (True, s.rng(f"{ID}-{g}-order").permutation(offsets), BLOCK),
                *(places[a].ops(offsets) for a in ANCHORS)))
            n = len(offsets)
            writes[g] = trace.lat_us[:n]
            after[g] = {a: places[a].times(trace[n + 2 * n * i:n + 2 * n * (i + 1)])
                        for i, a in enumerate(ANCHORS)}
        gaps = {g: _fragmented(s, g, at) for g, at in GROUPS.items()}
    moved = {g: int((~places["mid"].same(before[g]["mid"], after[g]["mid"])).sum())
             for g in GROUPS}
    fast = {g: int((after[g]["mid"] < FAST_US).sum()) for g in GROUPS}
    result = Result(numbers={
        "not_offered": list(missing), "telling": bool(telling),
        "why": next((p.why for p in places.values() if p.why), ""),
        "blocks": {g: len(o) for g, o in groups.items()}, "moved": moved, "fast": fast,
        "coincidence": max(p.coincidence for p in places.values()),
        "before_us": _means(before), "after_us": _means(after),
        "write_us": {g: guard.median(w, "writes") for g, w in writes.items()},
        "fragmented": {g: gap["numbers"] for g, gap in gaps.items()}})
    for g in GROUPS:
        result.arrays[f"{g}_fresh_us"] = gaps[g]["fresh"].astype(np.float32)
        result.arrays[f"{g}_range_us"] = gaps[g]["read"].astype(np.float32)
        for a in ANCHORS:
            result.arrays[f"{g}_{a}_before_us"] = before[g][a].astype(np.float32)
            result.arrays[f"{g}_{a}_after_us"] = after[g][a].astype(np.float32)
    result.findings = decide(result.numbers, before, after)
    return result


def _means(latencies):
    return {g: {a: guard.mean(lat, "reads") for a, lat in row.items()}
            for g, row in latencies.items()}


def _fragmented(s, group, share):
    """The steps of the thesis: write every other block, read all.  It uses several ranges, as
    within one the angle between two places hardly changes."""
    n, rng = holes(s), s.rng(f"{ID}-{group}-ranges")
    room = min(s.scale.region_bytes, s.dev.bytes // 64)
    base = int(s.dev.bytes * share) + room      # behind the blocks of the group
    step = max(2 * n * BLOCK, room // RANGES)
    fresh, read = [], []
    for i in range(RANGES):
        slack = max(1, (step - 2 * n * BLOCK) // BLOCK)
        first = (base + i * step) // BLOCK + int(rng.integers(slack))
        first = min(first, s.dev.bytes // BLOCK - 2 * n)
        whole = (first + np.arange(2 * n)) * BLOCK
        trace = s.trace(f"{group}-range{i}", chain(
            (False, whole, BLOCK), (True, whole[::2], BLOCK), (False, whole, BLOCK)))
        fresh.append(trace.lat_us[:2 * n])
        read.append(trace.lat_us[3 * n:])
    fresh, read = np.concatenate(fresh), np.concatenate(read)
    return {"fresh": fresh, "read": read, "numbers": {
        "fresh_us": guard.mean(fresh, "reads"), "mean_us": guard.mean(read, "reads"),
        "written_us": guard.median(read[::2], "reads"),
        "others_us": guard.median(read[1::2], "reads")}}


# --- decision ---------------------------------------------------------------------------


def costs(before, after):
    """{layout: -log likelihood} of the means after, and the chi-square of each."""
    n = len(next(iter(before["low"].values())))
    mean_before, mean_after = _means(before), _means(after)
    stroke = max(v for row in mean_before.values() for v in row.values()) - \
        min(v for row in mean_before.values() for v in row.values())
    chi = {}
    for name, at in {**{v: k for k, v in LAYOUTS.items()}, "multiple": None}.items():
        chi[name] = 0.0
        for g in GROUPS:
            for a in ANCHORS:
                noise = sum(guard.ratio(guard.variance(lat, "reads"), n, "noise of a mean")
                            for lat in (after[g][a], before[at or g][a]))
                noise += (ROUGH * stroke) ** 2
                chi[name] += guard.ratio((mean_after[g][a] - mean_before[at or g][a]) ** 2, noise,
                                         "distance of two means against their noise")
    return {k: v / 2 for k, v in chi.items()}, chi, stroke


def decide(numbers, before, after):
    """Findings of all measurements."""
    blocks = sum(numbers["blocks"].values())
    out = {}
    if not numbers["telling"]:
        why = numbers["why"]
        return {"cache_layout": Finding.unknown(why), "drive_type": Finding.unknown(why),
                "cache_medium": Finding.unknown(why)}
    moved, fast = sum(numbers["moved"].values()), sum(numbers["fast"].values())
    moves, sure = stats.most(moved, blocks, 1 - stats.SLACK - numbers["coincidence"])
    quick, quick_sure = stats.most(fast, blocks)
    off = [too_many(numbers["fast"][g], n) for g, n in numbers["blocks"].items()]
    if moves is False and any(off) and not all(off):
        # A buffer would hold the other groups as well.
        why = ("it is not the same everywhere: read without a rotation, once written, were " +
               ", ".join(f"{numbers['fast'][g]} of {n} {g}" for g, n in
                         numbers["blocks"].items()) + " LBAs")
        return {"drive_type": Finding.unknown(why, against="conventional"),
                "cache_layout": Finding.unknown(why)}
    if moves is False:
        says = (f"{blocks - moved} of {blocks} blocks stayed where they were when written, "
                "so reading past them costs nothing more")
        return {"drive_type": Finding("conventional", confidence=sure, says=says),
                "cache_layout": Finding.unknown("there is no cache that blocks go to",
                                                none=True)}
    if quick:
        says = (f"{fast} of {blocks} blocks that were written are read without a rotation, "
                "wherever they belong")
        out["cache_layout"] = Finding.unknown(
            f"{says}: what holds them has no place on the platters", none=True)
        # Test 1 decides whether it is a volatile buffer.
        return out
    if moves is None:
        why = f"of {blocks} blocks {moved} were elsewhere after writing"
        return {"cache_layout": Finding.unknown(why)}
    says = f"{moved} of {blocks} blocks were elsewhere after writing"
    out["drive_type"] = Finding("translated", confidence=sure, says=says)
    if not fast:
        out["cache_medium"] = Finding(
            "disk", confidence=sure, says="what was written is read with seeks and rotations")
    out["cache_layout"] = _layout(numbers, before, after)
    return out


def _layout(numbers, before, after):
    cost, chi, stroke = costs(before, after)
    numbers["chi2"], numbers["stroke_us"] = chi, stroke
    share = stats.posterior(cost)
    best = max(share, key=share.get)
    cells = len(GROUPS) * len(ANCHORS)
    fits = stats.chi2_tail(chi[best], cells)
    means = {g: guard.mean(list(row.values()), "reads") / 1000
             for g, row in numbers["after_us"].items()}
    told = ", ".join(f"{g} {ms:.1f} ms" for g, ms in means.items())
    if fits < stats.ALPHA:
        return Finding.unknown("no layout that the test knows explains the latencies "
                               f"(blocks written at {told})")
    if share[best] < 0.99:
        second = sorted(share, key=share.get)[-2]
        return Finding.unknown(f"{best} and {second} explain the latencies about as well")
    return Finding(best, confidence=min(stats.SURE, share[best]),
                   says=f"{NAMES[best]}: read behind the same anchors, written blocks take "
                   "as long as others of that place did")


# --- picture ------------------------------------------------------------------------------


def draw(figure, result, arrays):
    """As Figure 2.7 of the thesis, and the nine means."""
    from . import plots
    left, right = plots.panels(figure, 2, ratios=(3, 2))
    for i, g in enumerate(GROUPS):
        plots.dots(left, arrays[f"{g}_range_us"] / 1000, color=plots.CYCLE[i],
                   label=f"{g} LBAs")
    left.set(title="reading ranges of which every other block was written", xlabel="block",
             ylabel="latency, ms")
    headroom(left)
    at = np.arange(len(ANCHORS))
    for i, g in enumerate(GROUPS):
        right.plot(at, [result.numbers["before_us"][g][a] / 1000 for a in ANCHORS],
                   linestyle=":", color=plots.CYCLE[i])
        right.plot(at, [result.numbers["after_us"][g][a] / 1000 for a in ANCHORS],
                   marker="o", color=plots.CYCLE[i], label=g)
    right.set(title="before (dotted) and after writing", xticks=at,
              xlabel="head comes from LBAs", ylabel="mean latency, ms", ylim=(0, None))
    right.set_xticklabels(list(ANCHORS))
    right.legend(loc="lower right")
