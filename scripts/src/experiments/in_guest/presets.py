# SPDX-License-Identifier: GPL-2.0
"""The guest's part of presets, with the virtual clock: one preset over a medium
without a store.

  presets.py OUT DRIVE WRITES SCALE FILL UNTIL    DRIVE is 1, 2 or 3

Lines that begin with "mark" are for the host's clock; results go to OUT.
"""

import json
import mmap
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

from guest import dm

SECTORS = 7814037168        # of the 4 TB drive below the emulated drives
FLASH_SECTORS = 410 * 25 * 2048 + 16    # 409 cache bands, one staging band, two headers
PROFILE = "st4000nc001"
BLOCK = 4096
MIB = 1 << 20
STREAM = 1000 * MIB         # whole bands of 20, 25 and 40 MiB


def mark(what):
    print("mark", what, flush=True)


def sh(*argv):
    done = subprocess.run([str(a) for a in argv], check=False, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise SystemExit(f"presets: {' '.join(map(str, argv))}: "
                         f"{done.stdout}{done.stderr}")
    return done.stdout


class Disk:
    """A block device opened with O_DIRECT."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.buf = mmap.mmap(-1, MIB)

    def write(self, at, n):
        if os.pwrite(self.fd, memoryview(self.buf)[:n], at) != n:
            raise SystemExit(f"presets: a write at {at} was short")

    def read(self, at, n):
        if os.preadv(self.fd, [memoryview(self.buf)[:n]], at) != n:
            raise SystemExit(f"presets: a read at {at} was short")

    def close(self):
        os.fsync(self.fd)
        os.close(self.fd)


def counters(text):
    pairs = (line.split() for line in text.splitlines())
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}


class Stack:
    """A preset over a medium, with a flash device that takes no time if the preset needs flash.
    Metadata are in RAM, because a medium without a store could not return them."""

    def __init__(self, drive, scale):
        self.media = {"data": self.platter("platter", SECTORS // scale // 8 * 8, PROFILE)}
        more = []
        if drive == 2:
            # A medium that takes no time.
            self.media["flash"] = self.platter("flash", FLASH_SECTORS, "generic",
                                               "timing", "none")
            more = ["--cache", self.media["flash"].path]
        self.words = ["--no-udev", "--force", "--preset", f"emulated-smr-{drive}", *more, "--meta",
                      "/dev/ram0", *(["--scale", scale] if scale > 1 else []),
                      self.media["data"].path, "shingled"]
        self.layout = json.loads(sh("shingle", "create", "--dry-run", "--json",
                                    *self.words))
        mark("create")
        sh("shingle", "create", *self.words)
        mark("created")
        self.layer = dm.made("shingled")
        # Clear the reads with which the tool looked for a file system.
        for medium in self.media.values():
            medium.message("stats_clear")
        self.bytes = self.layout["logical_blocks"] * BLOCK
        self.band = self.layout["band_blocks"] * BLOCK

    @staticmethod
    def platter(name, sectors, profile, *keys):
        return dm.Device(name, [(0, sectors, "platter", " ".join(
            ["none 0", profile, "0", str(len(keys)), *keys]))])

    def disk(self):
        return Disk("/dev/mapper/shingled")

    def stats(self):
        return counters(self.layer.message("stats"))

    def ledgers(self):
        """Return the blocks written and read as reported by the layer and as counted by the media.
        """
        said, media = self.stats(), [counters(m.message("stats"))
                                     for m in self.media.values()]
        return {"written_said": said["host_write_blocks"] + said["clean_write_blocks"],
                "written": sum(m["blocks_written"] for m in media),
                "read_said": said["host_read_blocks"] + said["clean_read_blocks"],
                "read": sum(m["blocks_read"] for m in media),
                "late": sum(m["late"] for m in media),
                "r0_violations": said["r0_violations"]}

    def close(self):
        self.layer.remove()
        for medium in self.media.values():
            medium.remove()


def profile(medium):
    """Return zones as (first byte, bytes/s over a whole group of swaths, bytes/s of a track).  The
    first rate includes the skew between tracks."""
    text = medium.message("geometry")
    surfaces = int(re.search(r"^surfaces (\d+)", text, re.M)[1])
    rotation = int(re.search(r"^rotation_ns (\d+)", text, re.M)[1]) / 1e9
    zones = []
    for line in re.findall(r"^zone (.*)", text, re.M):
        _, start, _, _, track, swath, skew, head = map(int, line.split())
        tracks = surfaces * swath
        turned = (surfaces * (swath - 1) * skew + surfaces * head) / (track * 8)
        zones.append((start * BLOCK, tracks * track * BLOCK /
                      (rotation * (tracks + turned)), track * BLOCK / rotation))
    return zones


def rate_at(zones, at, media=False):
    return [z[2 if media else 1] for z in zones if z[0] <= at][-1] / 1e6


def place_of(layout, at):
    """Return the medium's byte address for logical byte @at, which was never written."""
    band, rest = divmod(at, layout["band_blocks"] * BLOCK)
    params = layout["params"]
    if "zone-bands" in params:
        zone, index = divmod(band, params["zone-bands"] - params["provision"])
        band = zone * params["zone-bands"] + index
    group = next(g for g in layout["groups"] if g["role"] == "data")
    return (group["start"] + band * group["stride"]) * BLOCK + rest


def stream(disk, at, write):
    """Return the MB/s of STREAM bytes in requests of 1 MiB, flush included."""
    once = disk.write if write else disk.read
    begin = time.clock_gettime(time.CLOCK_MONOTONIC)
    for step in range(0, STREAM, MIB):
        once(at + step, MIB)
    if write:
        os.fsync(disk.fd)
    return STREAM / (time.clock_gettime(time.CLOCK_MONOTONIC) - begin) / 1e6


def sequential(stack, places=5):
    """Read and write from OD to ID, with the drive's caches on, as in Test 14."""
    data = stack.media["data"]
    zones, raw, out = profile(data), Disk(data.path), []
    disk = stack.disk()
    cache = next((g for g in stack.layout["groups"] if g["role"] == "cache"), None)
    data.message("lookahead on")
    data.message("wcache on")
    for i in range(places):
        at = (stack.bytes - 2 * STREAM) * i // (places - 1) // STREAM * STREAM
        place = place_of(stack.layout, at)
        row = {"offset": at, "place": place, "track_rate": rate_at(zones, place, True),
               "profile": rate_at(zones, place), "medium": stream(raw, place, False),
               "read": stream(disk, at, False), "write": stream(disk, at, True)}
        # Writes go to the cache if there is one.
        if cache:
            row["write_profile"] = (rate_at(zones, cache["start"] * BLOCK)
                                    if cache["device"] == "DATA" else None)
        else:
            row["write_profile"] = row["profile"]
        out.append(row)
    raw.close()
    disk.close()
    data.message("wcache off")
    data.message("lookahead off")
    return out


def timed(disk, places):
    """Return each write's latency in ns."""
    now, out = time.clock_gettime_ns, []
    for at in places:
        begin = now(time.CLOCK_MONOTONIC)
        disk.write(at, BLOCK)
        out.append(now(time.CLOCK_MONOTONIC) - begin)
    return out


def until_cleaning(stack, disk, rng):
    """Write at random until a write finds no room and takes seconds, as in Test 6; return their
    number."""
    now, blocks, n = time.clock_gettime_ns, stack.layout["logical_blocks"], 0
    took = 0
    while took < 10 ** 9:
        begin = now(time.CLOCK_MONOTONIC)
        disk.write(rng.randrange(blocks) * BLOCK, BLOCK)
        took = now(time.CLOCK_MONOTONIC) - begin
        n += 1
    return n


def summary(ns):
    ns.sort()
    return {"writes": len(ns), "mean_ms": sum(ns) / len(ns) / 1e6,
            "median_ms": ns[len(ns) // 2] / 1e6, "p99_ms": ns[len(ns) * 99 // 100] / 1e6,
            "max_ms": ns[-1] / 1e6}


def fill_places(stack, rng, slack):
    """Yield random blocks of one set, or of one zone, @slack more than its cache takes."""
    layout, params = stack.layout, stack.layout["params"]
    if "zone-bands" in params:
        bands = range(params["zone-bands"] - params["provision"])
        slots = params["log-bands"] * layout["band_blocks"]
    else:
        bands = range(0, layout["bands"]["data"], layout["bands"]["cache"])
        slots = next(g["band_blocks"] for g in layout["groups"] if g["role"] == "cache")
    for _ in range(slots + slack):
        yield (bands[rng.randrange(len(bands))] * layout["band_blocks"] +
               rng.randrange(layout["band_blocks"])) * BLOCK


def main():
    out = Path(sys.argv[1])
    drive, writes, scale, fill, until = map(int, sys.argv[2:])
    rng = random.Random(drive)
    sh("modprobe", "brd", "rd_nr=1", "rd_size=262144")
    result = {"drive": drive, "scale": scale}

    stack = Stack(drive, scale)
    result["layout"] = {k: stack.layout[k] for k in
                        ("bands", "band_blocks", "logical_blocks", "params", "map_bytes")}
    disk = stack.disk()
    blocks = stack.layout["logical_blocks"]
    mark("random")
    result["random"] = summary(timed(disk, (rng.randrange(blocks) * BLOCK
                                            for _ in range(writes))))
    mark("randomised")
    os.fsync(disk.fd)
    said = stack.stats()
    result["random"].update(steps=said["steps"], cached=said["cached_blocks"],
                            ledgers=stack.ledgers())
    if until:
        result["until"] = writes + until_cleaning(stack, disk, rng)
        result["until_ledgers"] = stack.ledgers()
        mark("until")
    if fill:
        mark("fill")
        before = stack.stats()
        result["fill"] = summary(timed(disk, fill_places(stack, rng, 1)))
        os.fsync(disk.fd)
        mark("filled")
        said = stack.stats()
        for name in ("steps", "bands_cleaned", "clean_write_blocks", "host_write_blocks",
                     "clean_us"):
            result["fill"][name] = said[name] - before[name]
        result["fill"]["ledgers"] = stack.ledgers()
    disk.close()
    stack.close()

    stack = Stack(drive, scale)
    result["sequential"] = sequential(stack)
    mark("end")
    stack.close()
    (out / f"emulated-smr-{drive}.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
