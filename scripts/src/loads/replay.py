# SPDX-License-Identifier: GPL-2.0
"""Replay a load on a block device with fio, and report the response times."""

import numpy as np
from skylight import device as devices
from skylight import load as fio

from .requests import BLOCK, TICKS, Refused

FILL = 1 << 20          # bytes of a request


def counters(dev):
    """Return {mapped device: {name: value}} for those at or below @dev that have statistics."""
    out = {}
    for name in dev.mapped():
        pairs = (line.split() for line in (devices.message(name, "stats") or "").splitlines())
        said = {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}
        if said:
            out[name] = said
    return out


def responses(trace):
    """Return {kind: {requests, mean_ms, p50_ms, p99_ms, worst_ms}} for the kinds that occur."""
    out = {}
    for kind, mask in (("all", np.ones(len(trace), bool)), ("reads", ~trace.write),
                       ("writes", trace.write)):
        ms = trace.lat_us[mask] / 1000
        if len(ms):
            p50, p99 = np.percentile(ms, (50, 99))
            out[kind] = {"requests": len(ms), "mean_ms": float(ms.mean()), "p50_ms": float(p50),
                         "p99_ms": float(p99), "worst_ms": float(ms.max())}
    return out


def due_us(load, speed):
    """Return when each request is due, in us since the first; never before the request ahead of
    it."""
    us = np.floor((load.tick - load.tick[0]) * (1e6 / TICKS) / speed).astype(np.int64)
    return np.maximum.accumulate(np.maximum(us, 0))


def watching(dev, total, show):
    """Return a function for fio that shows how many of the requests have ended."""
    before = dev.served()

    def watch(_):
        show(min(dev.served() - before, total), total)
    return watch


def fill(dev, runner, end_bytes, show):
    """Write sequentially all blocks up to @end_bytes, which the load may touch."""
    size = min(-(-end_bytes // FILL) * FILL, dev.bytes // BLOCK * BLOCK)
    runner.job("fill", {"rw": "write", "bs": FILL, "size": size, "iodepth": 8,
                        "end_fsync": 1, "log": False},
               watching(dev, -(-size // FILL), show))


def replay(dev, load, folder, depth=1, speed=None, filled=False, show=None):
    """Send all of @load to @dev, an open probes.device.Device, which is overwritten.

    @speed: None sends each request as soon as one of @depth has ended; otherwise each is sent when
    it is due, its time divided by @speed.  @filled: first write all blocks.  Files of fio go to
    @folder.
    """
    show = show or (lambda done, total: None)
    end = int((load.first + load.blocks).max()) * BLOCK
    if end > dev.bytes:
        raise Refused(f"the load ends at byte {end}, {dev.path} has {dev.bytes}: convert it "
                      f"with --size {dev.bytes}, or generate it so")
    runner = fio.Fio(dev.path, folder, dev.held)
    runner.require()
    if filled:
        fill(dev, runner, end, show)
    due = None if speed is None else due_us(load, speed)
    before = counters(dev)
    trace = runner.replay("load", (load.write, load.first * BLOCK, load.blocks * BLOCK), depth,
                          watching(dev, len(load), show), due)
    after = counters(dev)
    out = {"device": dev.path, "label": dev.label, "depth": depth, "speed": speed,
           "requests": len(load), "written_bytes": int(load.blocks[load.write].sum()) * BLOCK,
           "read_bytes": int(load.blocks[~load.write].sum()) * BLOCK,
           "added_reads": fio.added_reads(depth),
           "seconds": float((trace.at_us + trace.lat_us).max() / 1e6) if len(trace) else 0.0,
           "responses": responses(trace), "before": before, "after": after}
    if due is not None:
        at = trace.at_us - trace.at_us[0]
        out["due_seconds"] = float(due[-1] / 1e6)
        out["latest_ms"] = float(max(0.0, (at - due).max() / 1000))
    below = [after[n]["blocks_written"] - before[n]["blocks_written"] for n in before
             if "blocks_written" in before[n]]
    if below and out["written_bytes"]:
        out["written_below_times"] = sum(below) * BLOCK / out["written_bytes"]
    return out


def table(out):
    """Yield lines for people."""
    how = f"{out['depth']} at a time" if out["speed"] is None else \
        f"at {out['speed']:g} times its recorded rate, {out['depth']} at a time at most"
    yield f"{out['device']} ({out['label']}): {out['requests']:,} requests, {how}"
    yield f"{out['seconds']:.3f} s" + (
        f", {out['due_seconds']:.3f} s by its times, {out['latest_ms']:.0f} ms late at most"
        if "due_seconds" in out else "")
    yield ""
    yield f"{'response, ms':12}{'requests':>12}" + "".join(
        f"{h:>12}" for h in ("mean", "p50", "p99", "worst"))
    for kind, row in out["responses"].items():
        yield f"{kind:12}{row['requests']:12,}" + "".join(
            f"{row[n]:12.3f}" for n in ("mean_ms", "p50_ms", "p99_ms", "worst_ms"))
    for name, now in out["after"].items():
        was = out["before"].get(name, {})
        changed = [n for n in now if now[n] != was.get(n)]
        yield ""
        yield f"{name:36}{'before':>16}{'after':>16}{'change':>16}"
        for n in changed:
            old = was.get(n, 0)
            yield f"  {n:34}{old:16,}{now[n]:16,}{now[n] - old:16,}"
        if not changed:
            yield "  nothing changed"
    if out["added_reads"]:
        yield ""
        yield f"{out['added_reads']} of the reads are none of the load: fio wants them at its end"
    if "written_below_times" in out:
        yield ""
        yield ("blocks that the media wrote for each that the load did: "
               f"{out['written_below_times']:.3f}")
