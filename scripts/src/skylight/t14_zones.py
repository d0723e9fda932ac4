# SPDX-License-Identifier: GPL-2.0
"""Test 14: zones of recording density, from the outer diameter to the inner.

With read-ahead and look-ahead on, the test reads stretches all over the drive in order, in
requests of 1 MiB; a small drive as a whole.  Optimal partitioning cuts the throughput into
plateaus: of all ways to cut the series it takes the one with the least sum of squares, where
each cut costs 2 s^2 ln(n / ALPHA).  s is the scatter from one stretch to the next (a median,
so that steps do not count).  If the scatter is normal, a false cut has a probability of about
ALPHA; a cut must also be at least LEAST high.

Plateaus may be too short to be met often enough.  So the even and the odd stretches are
evaluated separately: if both halves show the same plateaus, twice as many stretches would
hardly show more.  If they do not, or if some steps are hardly higher than LEAST, the test
reads more places, between the others, up to MOST.  If that does not suffice, the number of
plateaus is not told, but only how many both halves have shown.

For the size of a track, the same block is read behind the same anchor alone, and together
with the blocks that follow it.  The difference is the time in which these pass under the
head."""

import math

import numpy as np

from . import guard, stats
from .places import Places
from .session import BLOCK, DONE, MIB, Finding, Result

ID, TITLE, AFTER = "14", "zone structure", ("1",)
STRETCH = 24 * MIB
STRETCHES, MOST = 640, 2560
ALPHA = 1e-3
LEAST = 0.01                # of the throughput, from one plateau to the next
NOISY = 0.1                 # scatter, as a share, in which no plateau can be seen
NOISE = 0.003               # least scatter, as track switches come in turn
# stretches in a plateau, at least, if there are fewer than MANY; else two more
SHORTEST, MANY = 3, 100
TRACK_BLOCKS = 32           # blocks read at once to time them
TRACK_PLACES = 48


def estimate(s):
    """Seconds of the drive's clock."""
    return min(s.dev.bytes, STRETCH * STRETCHES) / 100e6 + 60


def stretches(size):
    """(offsets, bytes of each): all of a small drive, evenly spread stretches of a large one."""
    if size <= STRETCHES * STRETCH:
        # A stretch should contain some tracks of each head.
        each = max(8 * MIB if size >= 64 * MIB else 2 * MIB, size // STRETCHES // MIB * MIB)
        return np.arange(0, size - each + 1, each), each
    return np.linspace(0, size - STRETCH, STRETCHES).astype(np.int64) // MIB * MIB, STRETCH


def partition(y, alpha=ALPHA, raw=None):
    """Indices at which plateaus of @y begin, by optimal partitioning; the scatter is taken from
    @raw if @y was smoothed."""
    n = len(y)
    shortest = SHORTEST if n < MANY else SHORTEST + 2
    if n < 2 * shortest:
        return [0]
    step = np.abs(np.diff(y if raw is None else raw))
    # The median of |difference| of two normal variables is 0.954 s.
    sigma = max(guard.median(step, "steps of throughput") / 0.954,
                guard.mean(y, "throughput") * NOISE)
    cost_of_cut = 2 * sigma ** 2 * np.log(guard.ratio(n, alpha, "stretches"))
    one = np.concatenate([[0], np.cumsum(y)])
    two = np.concatenate([[0], np.cumsum(y ** 2)])
    best, last = np.full(n + 1, np.inf), np.zeros(n + 1, int)
    best[0] = -cost_of_cut
    for end in range(shortest, n + 1):
        begin = np.arange(0, end - shortest + 1)
        rest = two[end] - two[begin] - guard.ratio((one[end] - one[begin]) ** 2, end - begin,
                                                   "squares of throughput")
        total = best[begin] + rest + cost_of_cut
        last[end] = int(np.argmin(total))
        best[end] = total[last[end]]
    cuts, end = [], n
    while end > 0:
        end = int(last[end])
        cuts.append(end)
    return cuts[::-1]


def smooth(y):
    """Running median of five, or of three if there are few: one or two stretches in which the
    head had to go elsewhere (the next zone of a layer, a defect) are no zone of the medium."""
    half = 2 if len(y) >= 40 else 1
    if len(y) < 5:
        return y
    wide = np.pad(y, half, mode="edge")
    return guard.median(np.lib.stride_tricks.sliding_window_view(wide, 2 * half + 1),
                        "throughput", axis=1)


def plateaus(offset, rate, alpha=ALPHA):
    """[first offset, bytes/s] of each plateau; neighbours of the same speed are merged."""
    raw, rate = rate, smooth(rate)
    cuts = partition(rate, alpha, raw)
    out = []
    for begin, end in zip(cuts, [*cuts[1:], len(rate)]):
        mean = guard.mean(rate[begin:end], "throughput")
        if out and abs(guard.ratio(mean, out[-1][1], "step of throughput") - 1) < LEAST:
            a, b = begin - out[-1][2], end - begin
            out[-1][1] = guard.ratio(out[-1][1] * a + mean * b, a + b, "throughput")
        else:
            out.append([int(offset[begin]), mean, begin])
    return [o[:2] for o in out]


def halves(offset, rate):
    """Plateaus of the even stretches, and of the odd ones."""
    return [plateaus(offset[i::2], rate[i::2]) for i in (0, 1)]


def borders(seen):
    """(offset, height as a share) of each step."""
    return [(b[0], guard.ratio(b[1], a[1], "step of throughput") - 1)
            for a, b in zip(seen, seen[1:])]


def borne_out(offset, rate, seen):
    """(how many plateaus of @seen both halves of the stretches show; whether they show these and
    no others)."""
    if len(offset) < 4:
        return 1, False
    near = (SHORTEST + 2) * 2 * guard.mean(np.diff(offset), "distances of stretches")

    def has(half, at, step):
        return any(abs(b - at) <= near and (d > 0) == (step > 0) for b, d in half)
    parts = [borders(p) for p in halves(offset, rate)]
    both = sum(all(has(half, *b) for half in parts) for b in borders(seen))
    # If some steps are hardly higher than LEAST, others may be lower.
    clear = all(abs(step) > 2 * LEAST for _, step in borders(seen))
    return 1 + both, clear and both == len(seen) - 1 and all(len(p) == both for p in parts)


def between(offset, each):
    """Places between those that were read; None if there is no room, or if MOST is reached."""
    room = int(np.min(np.diff(offset))) if len(offset) > 1 else 0
    if room < 2 * each or 2 * len(offset) > MOST:
        return None
    return (offset[:-1] + np.diff(offset) // 2) // MIB * MIB


def track_bytes(s, places, at):
    """Bytes on the track around offset @at, or None."""
    where = (at // BLOCK + np.arange(TRACK_PLACES) * 7) * BLOCK
    ops = places.ops(where)
    alone = places.times(s.trace("track", ops))
    sizes = np.full(2 * TRACK_PLACES, BLOCK, np.uint32)
    sizes[1::2] = TRACK_BLOCKS * BLOCK
    longer = places.times(s.trace("track", (ops[0], ops[1], sizes)))
    took = longer - alone
    # Reads that crossed into the next track took its skew in addition: use the lower half.
    low = np.sort(took[(took > 0) & (took < places.rotation_us)])[:TRACK_PLACES // 2]
    if len(low) < TRACK_PLACES // 3 or low[-1] - low[0] > 0.2 * low[0] + 50:
        return None
    each = guard.median(low, "time of a block") / (TRACK_BLOCKS - 1)
    return guard.ratio(places.rotation_us, each, "blocks on a track") * BLOCK


def read(s, offsets, each):
    """Throughput of each stretch, and the times of the first one."""
    # In one load: during a break the drive would read ahead of the next request.
    at = (offsets[:, None] + np.arange(0, each, MIB)[None, :]).ravel().astype(np.uint64)
    lat = s.trace("read", (False, at, MIB)).lat_us.reshape(len(offsets), -1)
    # The first request of a stretch seeks.
    return guard.ratio(each - MIB, lat[:, 1:].sum(axis=1), "throughput") * 1e6, lat[0]


def run(s):
    """Measures throughput by place, and tracks."""
    out = Result(DONE)
    offsets, each = stretches(s.dev.bytes // MIB * MIB)
    with s.settings(read_ahead=True, look_ahead=True) as missing:
        s.fresh()
        rates, first = read(s, offsets, each)
        while not getattr(s.dev, "discarded", False) and scatter_of(rates) <= NOISY:
            seen = plateaus(offsets, rates)
            more = between(offsets, each)
            if more is None or borne_out(offsets, rates, seen)[1]:
                break
            s.say(f"  {len(seen)} plateaus in {len(offsets)} places; half of them show "
                  f"others: {len(more)} places more")
            order = np.argsort(np.concatenate([offsets, more]))
            rates = np.concatenate([rates, read(s, more, each)[0]])[order]
            offsets = np.concatenate([offsets, more])[order]
    out.arrays = {"offset": offsets, "bytes_s": rates, "first_us": first}
    out.numbers |= {"stretch_bytes": int(each), "stretches": len(offsets),
                    "not_settable": list(missing)}
    if getattr(s.dev, "discarded", False):
        why = ("a discard brought the drive to its first state, and reads of blocks that were "
               "not written since do not reach the medium; write the whole drive and run this "
               "test without --reset")
        out.findings["zone_profile"] = Finding.unknown(why)
        out.findings["track_bytes"] = Finding.unknown(why, "bytes")
        return out
    findings(s, out, offsets, rates)
    with s.settings():
        tracks(s, out)
    return out


def scatter_of(rates):
    """Scatter from one stretch to the next, as a share."""
    return guard.ratio(guard.median(np.abs(np.diff(rates)), "steps of throughput"),
                       guard.mean(rates, "throughput"), "scatter of throughput") \
        if len(rates) > 1 else 1.0


def findings(s, out, offsets, rates):
    """Plateaus, and whether throughput only falls."""
    seen = plateaus(offsets, rates)
    scatter = scatter_of(rates)
    out.numbers["scatter"] = scatter
    rotation = s.value("rotation_ms")
    if rotation and len(seen) == 1 and "look_ahead" in out.numbers["not_settable"]:
        turns = guard.ratio(guard.median(
            guard.ratio(MIB, rates, "time of a request") * 1000, "time of a request"),
                            rotation, "rotations of a request")
        if abs(turns - round(turns)) < 0.02:
            out.findings["zone_profile"] = Finding.unknown(
                "each request misses a rotation: look-ahead is off and can't be switched on")
            return
    if scatter > NOISY:
        out.findings["zone_profile"] = Finding.unknown(
            f"throughput scatters by {scatter:.0%} from place to place")
        return
    listed = [[o, round(r / 1e6, 3)] for o, r in seen]
    least, all_of_them = borne_out(offsets, rates, seen)
    out.numbers |= {"plateaus": listed, "plateaus_at_least": least}
    out.findings["zone_profile"] = profile(offsets, listed, least, all_of_them)
    out.findings["serpentine"] = serpentine(out.numbers, offsets, rates, seen)


def profile(offsets, listed, least, all_of_them):
    """The plateaus, if reading more would hardly show others."""
    fall = "" if len(listed) == 1 else (f", from {listed[0][1]:.1f} to {listed[-1][1]:.1f} "
                                        "MB/s from the first to the last")
    if all_of_them:
        return Finding(listed, confidence=stats.measured("zone_profile"),
                       says=f"{len(listed)} plateaus of throughput{fall}; every other of "
                       f"{len(offsets)} places shows the same")
    short = (SHORTEST + 2) * guard.mean(np.diff(offsets), "distances of stretches") / 2 ** 30 \
        if len(offsets) > 1 else 0.0
    return Finding.unknown(
        f"{least} plateaus of throughput at least{fall}; {len(offsets)} places show "
        f"{len(listed)}, and half of them others: what is shorter than {short:.3g} GiB, or "
        f"differs by less than {LEAST:.0%}, does not show, so how many there are is not known")


def serpentine(numbers, offsets, rates, seen):
    """Whether throughput only falls on the way in."""
    steps = [d for _, d in borders(seen)]
    rises = sum(d > LEAST for d in steps)
    numbers["rises"] = rises
    sure = stats.measured("serpentine")
    if len(seen) >= 4 and rises >= len(seen) // 4:
        # If surfaces took turns, each rise would be due to chance, also the clearest.
        risk = min(1.0, len(rates) * clearest(offsets, rates, seen))
        return Finding("wide", confidence=min(sure, 1 - risk), says=f"throughput rises {rises} "
                       "times on the way in: a surface is filled for a long way before the "
                       "next has its turn")
    if len(seen) >= 4 and not rises:
        # On a drive that goes in and out in turns, half of all steps are rises.
        return Finding("narrow", confidence=min(sure, 1 - 0.5 ** len(steps)),
                       says="throughput only falls: surfaces take turns within less than a "
                       "stretch of it")
    return Finding.unknown(f"{len(seen)} plateaus, {rises} of them faster than the one before")


def clearest(offsets, rates, seen):
    """Probability that scatter makes a rise as clear as the clearest one."""
    at = [int(np.searchsorted(offsets, o)) for o, _ in seen] + [len(rates)]
    parts, best = [rates[a:b] for a, b in zip(at, at[1:])], 0.0
    for one, two in zip(parts, parts[1:]):
        noise = np.sqrt(sum(guard.ratio(guard.variance(part, "throughput"), len(part),
                                        "noise of a plateau") for part in (one, two))) + \
            NOISE * guard.mean(one, "throughput") * np.sqrt(
                sum(guard.ratio(1, len(part), "noise of a plateau") for part in (one, two)))
        best = max(best, guard.ratio(guard.mean(two, "throughput") -
                                     guard.mean(one, "throughput"), noise, "clearest rise"))
    return 0.5 * math.erfc(best * math.sqrt(0.5))


def tracks(s, out):
    """Bytes on a track at the beginning of the drive."""
    blocks = s.dev.bytes // BLOCK
    places = Places(s, int(blocks * 0.93) * BLOCK)
    spread = (s.rng(ID).choice(blocks // 2, 32, replace=False) * BLOCK).astype(np.uint64)
    if not places.calibrate(spread) or not places.rotation_us:
        out.findings["track_bytes"] = Finding.unknown(
            places.why or "what was read comes from a buffer (look-ahead)", "bytes")
        return
    track(s, places, out)


def track(s, places, out):
    """Bytes on a track at the beginning of the drive, by calibrated places.  Test 11 measures
    this, too, as look-ahead is certainly off there."""
    if not places.rotation_us:
        return
    size = track_bytes(s, places, 0)
    if size is None or not TRACK_BLOCKS * BLOCK < size < 64 * MIB:
        out.findings["track_bytes"] = Finding.unknown(
            "blocks that follow each other don't pass the head at a constant speed", "bytes")
        return
    block = round(size / BLOCK) * BLOCK
    error = guard.ratio(2 * places.tolerance_us / TRACK_BLOCKS, places.rotation_us,
                        "error of a rotation") * size / BLOCK * size
    took = guard.ratio(places.rotation_us, size, "time of a block") * BLOCK * TRACK_BLOCKS
    out.findings["track_bytes"] = Finding(
        block, "bytes", size - error, size + error, stats.measured("track_bytes"),
        f"{TRACK_BLOCKS} blocks at the beginning of the drive pass the head in "
        f"{took / 1000:.3f} ms")


def draw(figure, result, arrays):
    """Figures 2.21 and 2.22: throughput by place with its plateaus."""
    from . import plots
    axes = plots.panels(figure, 1)[0]
    gib = arrays["offset"] / 2 ** 30
    plots.dots(axes, arrays["bytes_s"] / 1e6, "read", gib)
    seen = result.numbers.get("plateaus")
    if seen:
        ends = [p[0] / 2 ** 30 for p in seen[1:]] + [gib[-1]]
        for (begin, rate), end in zip(seen, ends):
            axes.plot([begin / 2 ** 30, end], [rate, rate], color=plots.MARK)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("GiB from the beginning")
    axes.set_ylabel("MB/s")
