# SPDX-License-Identifier: GPL-2.0
"""The guest's part of the experiments that use stacks.py, with the virtual clock: a load on one
layer.

  stack.py WORDS OUT      WORDS is a file with a JSON object, see there

Counters and times go to OUT.  Requests follow one another, and after each request the statistics of
layer and medium are read, which shows the requests that met a cleaning step.
"""

import json
import sys
import time
from pathlib import Path

from common.output import store
from guest import bench, blk, dm, media
from guest.blk import BLOCK, SECTORS
from loads import trace
from loads.requests import join

from experiments.evaluation import percentile

MIB = 1 << 20
LOOK_MS = 50            # with MANY requests, read statistics only after longer ones
MANY = 30_000
HEADER_MIB = 1          # at each end of flash
# The counter of cleanings of targets that have one.
FLIPS = {"tiler": "tiler_cleans", "rmwf": "collections"}
# Counters that are 0 without a layer.
NONE = ("clean_us", "steps", "clean_write_blocks", "merged_blocks", "journal_blocks",
        "checkpoint_blocks", "superblock_blocks", "r0_violations", "map_bytes")


class Stack:
    """A layer over a medium, with its metadata in RAM."""

    def __init__(self, words):
        m, self.words, self.flash = words["medium"], words["layer"], None
        self.track = m["track"]
        blocks = m["tracks"] * self.track
        keys = {"media": "smr", "surfaces": 1, "damage": "poison", **m["keys"]}
        keys["zones"] = f"{m['tracks'] // keys['surfaces']}x{self.track * SECTORS}"
        if keys["media"] == "smr":
            keys["head_tracks"] = m["head"]
        flash = self.words.get("flash_mib", 0)
        # brd allocates RAM as it is written.
        bench.modprobe("brd", "rd_nr=3",
                       f"rd_size={max(m['meta_mib'], 2 * HEADER_MIB, blocks // 256) << 10}")
        self.medium = dm.Device("medium", [(
            0, blocks * SECTORS, "platter", f"{'/dev/ram1' if m['store'] else 'none'} 0 "
            f"st5000as0011 0 {2 * len(keys)} " + " ".join(f"{k} {v}" for k, v in keys.items()))])
        if self.words["target"] == "plain":
            # Without translation the medium is the only device with statistics.
            self.layer, self.path = self.medium, self.medium.path
            self.blocks = blk.size(self.path)
            return
        bench.run("shingle", "create", *self._layer(m), *(
            w for k, v in self.words.get("set", {}).items() for w in ("--set", f"{k}={v}")),
            "--no-udev", "--force", "--meta", "/dev/ram0",
            *(("--cache", self._flash(flash)) if flash else ()), self.medium.path, "shingled")
        self.layer = dm.made("shingled")
        self.path = "/dev/mapper/shingled"
        self.blocks = blk.size(self.path)

    def _flash(self, mib):
        """Return a device that takes no time and, like the medium, stores only headers."""
        end = HEADER_MIB * 2048
        between = (mib - 2 * HEADER_MIB) * 2048
        self.flash = dm.Device("flash", [
            (0, end, "linear", "/dev/ram2 0"), (end, between, "zero", ""),
            (end + between, end, "linear", f"/dev/ram2 {end}")])
        return self.flash.path

    def _layer(self, m):
        of = self.words
        if "create" in of:
            return of["create"]
        if of["target"] == "tiler":
            return ("tiler", "--band", f"{of['rows'] * m['track'] * 4}K", "--rows", of["rows"],
                    "--columns", of["columns"], "--over-permille", of["over"])
        if of["target"] == "ma-baseline":
            return ("--preset", "ma-baseline", *(
                ("--scale", of["scale"]) if of["scale"] > 1 else ()))
        return ("stl-set", "--band", of["band"], "--cache-size", of["cache"])

    @property
    def region(self):
        """Blocks of a region that the host can use."""
        of = self.words
        whole = of["rows"] * of["columns"]
        return whole - whole * of["over"] // 1000

    def both(self):
        medium = media.stats(self.medium)
        if self.layer is self.medium:
            return {**dict.fromkeys(NONE, 0), "host_write_blocks":
                    medium["media_blocks_written"]}, medium
        return media.stats(self.layer), medium

    def clear(self):
        if self.layer is not self.medium:
            self.layer.message("stats_clear")
        self.medium.message("stats_clear")

    def remove(self):
        if self.layer is not self.medium:
            self.layer.remove()
        self.medium.remove()
        if self.flash:
            self.flash.remove()


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Cleanings:
    """Derive the cleanings from the statistics between requests.  Cleaning of a region or a flash
    block goes on while the host writes; cleaning of a log is work that one request waits for."""

    def __init__(self, stack):
        self.stack, self.flips = stack, FLIPS.get(stack.words["target"])
        self.each, self.part, self.requests, self.seeks = [], [0.0, 0], 0, 0
        self.last = stack.both()

    def look(self):
        layer, medium = self.stack.both()
        took = (layer["clean_us"] - self.last[0]["clean_us"]) / 1e6
        if took or layer["steps"] != self.last[0]["steps"]:
            self.requests += 1
            self.seeks += medium["seeks"] - self.last[1]["seeks"]
            self.part[0] += took
            self.part[1] += layer["clean_write_blocks"] - self.last[0]["clean_write_blocks"]
            ended = layer[self.flips] - self.last[0][self.flips] if self.flips else 1
            if ended:
                self.each += [[of / ended for of in self.part]] * ended
                self.part = [0.0, 0]
        self.last = layer, medium


def load(stack, words):
    """Send a load, one request at a time."""
    of = join(trace.Reader(Path(words["load"]), limit=words["requests"]))
    at = words["offset"]
    out, lat, text = {}, {True: [], False: []}, b"\1" * MIB
    stack.clear()
    cleanings, few = Cleanings(stack), len(of) < MANY
    begin = now()
    with blk.opened(stack.path) as dev:
        for write, first, n in zip(of.write.tolist(), of.first.tolist(), of.blocks.tolist()):
            sent = now()
            if write:
                dev.write(at + first, memoryview(text)[:n * BLOCK])
            else:
                dev.read(at + first, n)
            took = now() - sent
            lat[write].append(took)
            if few or took * 1000 > LOOK_MS:
                cleanings.look()
        out["seconds"] = now() - begin
        dev.flush()
    if "tell" in stack.words:
        out["told"] = stack.layer.message(stack.words["tell"])
    both = lat[True] + lat[False]
    for name, some in (("all", both), ("writes", lat[True]), ("reads", lat[False])):
        out[name] = {"requests": len(some), "mean_ms": 1000 * sum(some) / max(1, len(some)),
                     "p99_ms": 1000 * percentile(some, .99),
                     "worst_ms": 1000 * max(some, default=0)}
    out["cleanings"] = {"number": len(cleanings.each), "seconds": sum(s for s, _ in cleanings.each),
                        "longest": max((s for s, _ in cleanings.each), default=0.0),
                        "largest": max((n for _, n in cleanings.each), default=0),
                        "requests": cleanings.requests,
                        "seeks": cleanings.seeks if few else None}
    return out


def answered(measure):
    """Call @measure with the words of one file; write the result, with the words, to the other."""
    words, out = json.loads(Path(sys.argv[1]).read_text(encoding="ascii")), Path(sys.argv[2])
    result = {**measure(words), "words": words}
    # Write atomically, because --resume uses every result that it finds.
    store(out, json.dumps(result))
    return 0


def main(experiments):
    """Run the one of @experiments that the words name."""
    def measure(words):
        stack = Stack(words)
        result = experiments[words["what"]](stack, words)
        layer, medium = stack.both()
        result.update(layer=layer, medium=medium, blocks=stack.blocks)
        stack.remove()
        return result
    return answered(measure)


if __name__ == "__main__":
    sys.exit(main({"load": load}))
