# SPDX-License-Identifier: GPL-2.0
"""Small models of drives for the unit tests of scripts/src/skylight.

Each model takes the place of a Session's load and of its device, over a simulated disk that
rotates. The tests therefore need no guest, no fio and little time.

A model has the properties of a real layer that the probes can see: where a block is, what cleaning
moves and how long that takes. Tests of the probes on emulated drives run in guests."""

import contextlib
import subprocess
from pathlib import Path

import numpy as np
from skylight import ground_truth
from skylight.load import Trace, as_ops, join
from skylight.ground_truth import Plateaus

BLOCK = 4096


class Disk:
    """A platter with rotation, seeks and tracks of @track blocks. Times are in microseconds."""

    def __init__(self, blocks, rotation=10000.0, track=120, skew=9, jitter=0.0, seed=1):
        self.blocks, self.rotation, self.track, self.skew = blocks, rotation, track, skew
        self.now, self.head = 0.0, 0
        self.jitter, self.rng = jitter, np.random.default_rng(seed)

    def angle(self, block):
        track, at = divmod(block, self.track)
        return (at + track * self.skew) % self.track / self.track

    def access(self, block, count, settle=0.0):
        """Seek to @block and pass over @count blocks."""
        self.now += 100.0
        track = block // self.track
        away = abs(track - self.head)
        if away:
            self.now += 1000 + 15000 * (away / (self.blocks / self.track)) ** 0.5
        self.now += settle
        wait = (self.angle(block) - self.now / self.rotation) % 1.0
        turned = (block + count - 1) // self.track - track
        self.now += (wait + count / self.track +
                     turned * self.skew / self.track) * self.rotation
        self.head = (block + count - 1) // self.track
        if self.jitter:
            self.now += self.rng.exponential(self.jitter)


class Drive:
    """A plain disk, the base of the other models. It answers a Session as fio on a drive would."""

    label, sys = "a model", Path("/nix/none")       # no partition

    def __init__(self, blocks, commit_us=None, **disk):
        self.blocks = blocks
        self.disk = Disk(2 * blocks, **disk)
        self.bytes, self.block, self.path = blocks * BLOCK, BLOCK, "model"
        self.idle_us = None         # no cleaning in idle time
        self.late = 0.0             # delay of the next request by a cleaning step
        self.cleaned = []
        self.commit_us = commit_us  # a write this long after the last commit commits
        self.committed = 0.0

    # --- overridden by models of layers ----------------------------------------

    def read(self, block, count):
        self.disk.access(block, count)

    def write(self, block, count):
        self.disk.access(block, count, settle=300.0)

    def idle_step(self):
        """Do one step of cleaning. Return False if there is nothing to clean."""
        return False

    def reset(self):
        """Return to the state after construction."""
        self.__init__(*self.made[0], **self.made[1])
        return True

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        self.made = (args, kwargs)
        return self

    # --- a Session's load and device -------------------------------------------

    def settings(self, *_, **__):
        return contextlib.nullcontext([])

    def offers(self, _):
        return False

    def replay(self, name, ops, iodepth=1, watch=None):
        write, offset, size = as_ops(ops)
        at, lat = np.empty(len(offset)), np.empty(len(offset))
        begin = self.disk.now
        for i, (w, o, n) in enumerate(zip(write.tolist(), offset.tolist(), size.tolist())):
            assert o + n <= self.bytes, f"{name}: request past the end"
            at[i] = self.disk.now - begin
            if w and self.commit_us and self.disk.now > self.committed + self.commit_us:
                for _ in range(2):
                    self.disk.access(2 * self.blocks - 64, 8)
                self.committed = self.disk.now
            (self.write if w else self.read)(o // BLOCK, max(1, n // BLOCK))
            lat[i] = self.disk.now - begin - at[i] + self.late
            self.late = 0.0
        if iodepth > 1:
            # A request starts when the request @iodepth places before it has ended.
            end = at + lat
            at = np.concatenate([np.zeros(min(iodepth, len(at))), end[:-iodepth]])[:len(end)]
            lat = end - at
        return Trace(at, lat, offset, size, write)

    def job(self, name, options, watch=None):
        size = int(options.get("bs", BLOCK))
        rng = np.random.default_rng(int(options.get("randseed", 1)))
        count, until = int(options["number_ios"]), self.disk.now + 1e6 * options.get("runtime", 1e9)
        whole = int(options.get("size", self.bytes)) // size
        first = int(options.get("offset", 0))
        if options["rw"].startswith("rand"):
            places = rng.permutation(whole)[:count] if count <= whole else \
                rng.integers(0, whole, count)
        else:
            places = np.arange(count)
        ops = as_ops(("write" in options["rw"], first + places.astype(np.uint64) * size, size))
        if "runtime" not in options:
            return self.replay(name, ops, int(options.get("iodepth", 1)), watch)
        parts = []
        while len(parts) < count and self.disk.now < until:
            parts.append(self.replay(name, tuple(a[len(parts):len(parts) + 1] for a in ops)))
        return join(parts)

    def spaced(self, name, offset, gap_s, count, ops, watch=None):
        for _ in range(count):
            self.replay(name, (False, offset, BLOCK))
            self.sleep(gap_s)
        return np.full(count, gap_s), self.replay(name, ops)

    def sleep(self, seconds):
        end = self.disk.now + seconds * 1e6
        if self.idle_us is not None and self.idle_us < seconds * 1e6:
            self.disk.now += self.idle_us
            while self.disk.now < end and self.idle_step():
                pass
            # A request that arrives during a step waits for the end of the step.
            self.late = max(0.0, self.disk.now - end)
        self.disk.now = max(self.disk.now, end)


class SetAssociative(Drive):
    """stl-set: the cache band is (band >> shift) mod caches. Its slots are filled in order, and a
    full set is cleaned."""

    def __init__(self, band, bands, caches, *, shift=0, flash=False, idle_us=None, bypass=0,
                 **disk):
        super().__init__(band * bands, **disk)
        self.band, self.caches, self.shift, self.flash = band, caches, shift, flash
        self.idle_us, self.bypass = idle_us, bypass
        self.map = {}                   # block -> slot
        self.used = [0] * caches
        self.opened = []                # caches in the order of their first block
        self.stream = (None, 0, False)  # next block, length so far, going home

    def _set(self, block):
        return (block // self.band >> self.shift) % self.caches

    def _slot(self, slot, count=1):
        if self.flash:
            self.disk.now += 80.0
        else:
            self.disk.access(self.blocks + slot, count)

    def read(self, block, count):
        done = 0
        while done < count:
            slot = self.map.get(block + done)
            if slot is not None:
                self._slot(slot)
                done += 1
                continue
            n = 1
            while done + n < count and block + done + n not in self.map:
                n += 1
            self.disk.access(block + done, n)
            done += n

    def write(self, block, count):
        following, length, home = self.stream
        if block != following:
            length, home = 0, False
        run = []
        for b in range(block, block + count):
            if b % self.band == 0:
                home = bool(self.bypass) and length >= self.bypass
            length += 1
            if home:
                self.map.pop(b, None)
                run.append(b)
                continue
            c = self._set(b)
            if self.used[c] == self.band:
                self.clean(c)
            if not self.used[c]:
                self.opened.append(c)
            self.map[b] = c * self.band + self.used[c]
            self.used[c] += 1
            self._slot(self.map[b])
        if run:
            self.disk.access(run[0], len(run))
        self.stream = (block + count, length, home)

    def _rmw(self, a):
        first = a * self.band
        for step in (first, 2 * self.blocks - self.band, first):
            self.disk.access(step, self.band)
        for b in range(first, first + self.band):
            if self.map.pop(b, None) is not None and not self.flash:
                self.disk.now += 50.0
        self.cleaned.append(a)

    def clean(self, c):
        while self._clean_one(c):
            pass
        self.used[c] = 0
        self.opened.remove(c)

    def _clean_one(self, c):
        mine = [(slot, b // self.band) for b, slot in self.map.items()
                if c * self.band <= slot < (c + 1) * self.band]
        if not mine:
            return False
        self._rmw(min(mine)[1])
        return True

    def idle_step(self):
        if not self.opened:
            return False
        c = self.opened[0]
        if not self._clean_one(c):
            self.used[c] = 0
            self.opened.remove(c)
        return True


class FullyAssociative(Drive):
    """stl-full: each zone has log bands. Cleaning moves homes; a log without current blocks is
    freed without I/O. A band that is written completely in order becomes the home."""

    def __init__(self, band, zones, zone_bands, provision, logs, *, idle_us=1e6, **disk):
        self.logical = zone_bands - provision
        super().__init__(band * zones * self.logical, **disk)
        self.disk.blocks = band * zones * zone_bands
        self.band, self.zones, self.zone_bands, self.logs = band, zones, zone_bands, logs
        self.idle_us = idle_us
        self.home = {}                  # logical band -> physical
        self.map = {}                   # block -> physical block
        self.zone = [{"free": [z * zone_bands + self.logical + i for i in range(provision)],
                      "logs": [], "used": band, "age": 0,
                      "open": None} for z in range(zones)]
        self.age = 0
        self.stream = None              # logical band, physical, next

    def _home(self, a):
        z, i = divmod(a, self.logical)
        return self.home.get(a, z * self.zone_bands + i)

    def read(self, block, count):
        for b in range(block, block + count):
            at = self.map.get(b)
            if at is None:
                at = self._home(b // self.band) * self.band + b % self.band
            self.disk.access(at, 1)

    def write(self, block, count):
        for b in range(block, block + count):
            a, i = divmod(b, self.band)
            zone = self.zone[a // self.logical]
            if i == 0 and len(zone["free"]) > 2 and len(zone["logs"]) < self.logs - 1:
                self.stream = [a, zone["free"].pop(0), 0]
                if not zone["logs"]:
                    self.age += 1
                    zone["age"] = self.age
                zone["logs"].append(self.stream[1])
            if self.stream and self.stream[0] == a and self.stream[2] == i:
                at = self.stream[1] * self.band + i
                self.stream[2] += 1
                self.map[b] = at
                self.disk.access(at, 1)
                if self.stream[2] == self.band:
                    self._becomes_home(a, self.stream[1])
                    self.stream = None
                continue
            if zone["used"] == self.band:
                self._room(zone)
            at = zone["open"] * self.band + zone["used"]
            zone["used"] += 1
            self.map[b] = at
            self.disk.access(at, 1)

    def _becomes_home(self, a, physical):
        for b in range(a * self.band, (a + 1) * self.band):
            self.map.pop(b, None)
        self.zone[a // self.logical]["free"].append(self._home(a))
        self.zone[a // self.logical]["logs"].remove(physical)
        self.home[a] = physical

    def _live(self, log):
        return sorted((at, b) for b, at in self.map.items() if at // self.band == log)

    def _room(self, zone):
        if len(zone["logs"]) >= self.logs:
            while live := self._live(zone["logs"][0]):
                self._merge(zone, live[0][1] // self.band)
            if self.stream and self.stream[1] == zone["logs"][0]:
                self.stream = None
            zone["free"].append(zone["logs"].pop(0))
        self.age += 1
        if not zone["logs"]:
            zone["age"] = self.age
        zone["open"] = zone["free"].pop(0)
        zone["logs"].append(zone["open"])
        zone["used"] = 0

    def _merge(self, zone, a):
        new = zone["free"].pop(int(self.disk.rng.integers(len(zone["free"]))))
        self.disk.access(self._home(a) * self.band, self.band)
        self.disk.access(new * self.band, self.band)
        for b in range(a * self.band, (a + 1) * self.band):
            self.map.pop(b, None)
        zone["free"].append(self._home(a))
        self.home[a] = new
        self.cleaned.append(a)
        if self.stream and self.stream[0] == a:
            self.stream = None

    def idle_step(self):
        """Merge one band of the oldest log of all zones that has current blocks."""
        for zone in sorted((z for z in self.zone if z["logs"]), key=lambda z: z["age"]):
            for log in list(zone["logs"]):
                if live := self._live(log):
                    self._merge(zone, live[0][1] // self.band)
                    return True
                zone["free"].append(log)
                zone["logs"].remove(log)
                if zone["open"] == log:
                    zone["used"] = self.band
                if self.stream and self.stream[1] == log:
                    self.stream = None
        return False


class Circular(Drive):
    """The drive that Skylight infers. Each write is an entry of 2.5 rotations in one ring, and
    every 240th write merges the map. Cleaning is FIFO with detection of stale entries, bands are
    static, and the drive cleans when idle."""

    def __init__(self, band, bands, entries, *, idle_us=1.2e6, **disk):
        super().__init__(band * bands, **disk)
        self.band, self.entries, self.idle_us = band, entries, idle_us
        self.ring, self.map, self.count = [], {}, 0

    def read(self, block, count):
        for b in range(block, block + count):
            at = self.map.get(b)
            self.disk.access(b if at is None else self.blocks + at % self.blocks, 1)

    def write(self, block, count):
        while len(self.ring) >= self.entries:
            b, n, entries = self.ring.pop(0)
            for i in range(entries):
                if self.map.get(b + i) == n + i:
                    self._clean((b + i) // self.band)
        self.count += 1
        self.disk.now += 2.5 * self.disk.rotation
        if self.count % 240 == 0:
            self.disk.now += 300_000
        self.disk.head = self.blocks // self.disk.track
        for i in range(count):
            self.map[block + i] = self.count * 61 + i
        self.ring.append((block, self.count * 61, count))

    def _clean(self, a):
        for at in (a * self.band, self.blocks, a * self.band):
            self.disk.access(at, self.band)
        self.disk.now += 20 * self.disk.rotation
        for b in range(a * self.band, (a + 1) * self.band):
            self.map.pop(b, None)
        self.cleaned.append(a)

    def idle_step(self):
        while self.ring:
            b, n, count = self.ring[0]
            for i in range(count):
                if self.map.get(b + i) == n + i:
                    self._clean((b + i) // self.band)
                    return True
            self.ring.pop(0)
        return False


class Memory(Drive):
    """No platter: all requests take the same time, apart from a small random part."""

    def read(self, block, count):
        self.disk.now += 12.0 + self.disk.rng.exponential(2.0)

    write = read


class Thin(Drive):
    """dm-thin over a disk: the first write to a chunk allocates it."""

    CHUNK = 16

    def __init__(self, blocks, **disk):
        super().__init__(blocks, **disk)
        self.chunks = {}

    def read(self, block, count):
        chunk, rest = divmod(block, self.CHUNK)
        if chunk in self.chunks:
            self.disk.access(self.chunks[chunk] * self.CHUNK + rest, count)
        else:
            self.disk.now += 20.0

    def write(self, block, count):
        chunk, rest = divmod(block, self.CHUNK)
        self.chunks.setdefault(chunk, len(self.chunks))
        self.disk.access(self.chunks[chunk] * self.CHUNK + rest, count)


class Interlaced(Drive):
    """Interlaced tracks: a write to a bottom track reads the neighbouring tops that hold data
    before it and rewrites them after it.

    @order: which logical tracks are bottoms: every second one ("adjacent"), the first half
    ("halves"), or those that were written first ("dynamic"). With "dynamic", a read of an unwritten
    track needs no access."""

    def __init__(self, blocks, order="adjacent", **disk):
        super().__init__(blocks, **disk)
        self.order, self.place, self.held = order, {}, set()
        self.tracks = -(-blocks // self.disk.track)

    def _physical(self, track):
        """Return the physical track of a logical track, or None if it has none."""
        if self.order == "adjacent":
            return track
        if self.order == "dynamic":
            track = self.place.get(track)
        under = -(-self.tracks // 2)
        return track if track is None else 2 * track if track < under else 2 * (track - under) + 1

    def _pieces(self, block, count):
        """Yield (logical track, physical track, first block in it, blocks) for each part of a
        request."""
        while count:
            track, at = divmod(block, self.disk.track)
            n = min(count, self.disk.track - at)
            yield track, self._physical(track), at, n
            block, count = block + n, count - n

    def read(self, block, count):
        for _, physical, at, n in self._pieces(block, count):
            if physical is None:
                self.disk.now += 20.0
            else:
                self.disk.access(physical * self.disk.track + at, n)

    def write(self, block, count):
        for track, physical, at, n in self._pieces(block, count):
            if physical is None:
                self.place[track] = len(self.place)
                physical = self._physical(track)
            beside = [] if physical % 2 else [t for t in (physical - 1, physical + 1)
                                              if t in self.held]
            for other in beside:
                self.disk.access(other * self.disk.track, self.disk.track)
            self.disk.access(physical * self.disk.track + at, n, settle=300.0)
            for other in beside:
                self.disk.access(other * self.disk.track, self.disk.track, settle=300.0)
            self.held.add(physical)


class Troubled(Drive):
    """A plain disk that retries some requests for a long time, independent of their address."""

    ODDS, LONGEST_US = 120, 8e5

    def _trouble(self):
        if not self.disk.rng.integers(self.ODDS):
            self.disk.now += self.disk.rng.uniform(3e5, self.LONGEST_US)

    def read(self, block, count):
        super().read(block, count)
        self._trouble()

    def write(self, block, count):
        super().write(block, count)
        self._trouble()


class Backwards(Circular):
    """Cleans the youngest entry first."""

    def idle_step(self):
        while self.ring and self.map.get(self.ring[-1][0]) != self.ring[-1][1]:
            self.ring.pop()
        if not self.ring:
            return False
        self._clean(self.ring[-1][0] // self.band)
        return True


class Fullest(Circular):
    """Cleans the band with the most cached blocks first."""

    def idle_step(self):
        if not self.map:
            return False
        bands = [b // self.band for b in self.map]
        self._clean(max(set(bands), key=lambda a: (bands.count(a), -a)))
        return True


class Zoned(Drive):
    """A disk with zones [(first block, blocks per track)], in the order of LBAs, on one or more
    surfaces. With look-ahead the blocks that follow a read are in the drive's memory."""

    def __init__(self, blocks, zones, **disk):
        super().__init__(blocks, **disk)
        self.starts, self.tracks = (np.array(x) for x in zip(*zones))
        self.next, self.ahead = 0, False

    @contextlib.contextmanager
    def settings(self, *_, look_ahead=False, **__):
        self.ahead = look_ahead
        yield []
        self.ahead = False

    def read(self, block, count):
        disk, zone = self.disk, int(np.searchsorted(self.starts, block, "right")) - 1
        track = int(self.tracks[zone])
        passed, at = divmod(block - int(self.starts[zone]), track)
        if not (self.ahead and block == self.next):
            away = abs(block - self.next) / self.blocks
            disk.now += 100 + (1000 + 15000 * away ** 0.5 if away > track / self.blocks else 0)
            angle = (at + passed * disk.skew) % track / track
            disk.now += (angle - disk.now / disk.rotation) % 1 * disk.rotation
        # Each change of the track costs the skew.
        disk.now += (count + (at + count - 1) // track * disk.skew) / track * disk.rotation
        if disk.jitter:
            disk.now += disk.rng.exponential(disk.jitter)
        self.next = block + count


class FullSize(Drive):
    """A drive of dm-platter at its full size. platter-sim at @sim computes its times."""

    SECTORS = {"st4000nc001": 7814037168, "st5000as0011": 9767541168}

    def __init__(self, sim, profile):
        super().__init__(self.SECTORS[profile] // 8)
        self.sim, self.profile = sim, profile

    def plateaus(self):
        """Return the plateaus that Test 14 should show."""
        return ground_truth.whole(subprocess.run([self.sim, "-p", self.profile, "-z"], text=True,
                                          capture_output=True, check=True).stdout, self.bytes)

    def replay(self, name, ops, iodepth=1, watch=None):
        write, offset, size = as_ops(ops)
        text = "".join(f"0 r {o // BLOCK} {n // BLOCK}\n"
                       for o, n in zip(offset.tolist(), size.tolist()))
        told = subprocess.run([self.sim, "-p", self.profile, "-l", "512"], input=text, text=True,
                              capture_output=True, check=True).stdout
        lat = np.array([float(line.split()[1]) for line in told.splitlines()[:len(offset)]])
        return Trace(np.cumsum(lat) - lat, lat, offset, size, write)


class First(SetAssociative):
    """Like SetAssociative, with the cache before the bands."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.room = self.band * (self.caches + 1)
        self.disk.blocks = self.blocks + self.room

    def _slot(self, slot, count=1):
        if self.flash:
            super()._slot(slot, count)
        else:
            self.disk.access(slot, count)

    def read(self, block, count):
        for b in range(block, block + count):
            if b in self.map:
                self._slot(self.map[b])
            else:
                self.disk.access(self.room + b, 1)


def by_lot(rng, seed):
    """Choose a random drive. Return it and the answers that the probes should give."""
    disk = {"jitter": rng.choice([0, 0, 30.0, 80.0]), "track": int(rng.choice([60, 120, 500])),
            "skew": int(rng.choice([3, 9, 17])), "rotation": rng.choice([8333.0, 10169.0]),
            "seed": seed}
    kind = rng.choice(["cmr", "id", "od", "flash", "full", "full"])
    band, blocks = int(rng.choice([64, 256, 512, 1024])), int(rng.choice([30_000, 200_000]))
    idle, bands = rng.choice([None, 5e5, 1e6, 2e6]), max(20, blocks // band)
    if kind == "cmr":
        return Drive(blocks, **disk), ("conventional", "none", None, None, None)
    if kind == "full":
        zones = int(rng.choice([4, 6, 8, 12]))
        zone = max(8, bands // zones)
        logs = max(2, zone // 20)
        return (FullyAssociative(band, zones, zone + logs + 3, logs + 3, logs,
                                        idle_us=idle or 1e6, **disk),
                ("shingled", "disk", "multiple", "aggressive", "dynamic"))
    caches = max(250 // band + 2, int(bands * rng.uniform(0.01, 0.05)))
    drive = (First if kind == "od" else SetAssociative)(
        band, bands, caches, flash=kind == "flash", idle_us=idle, **disk)
    if kind == "id":
        drive.disk.blocks = drive.blocks + band * caches
    return drive, ("shingled", "flash" if kind == "flash" else "disk",
                   {"id": "single-id", "od": "single-od"}.get(kind),
                   "aggressive" if idle else "lazy", "static")


def zones_by_lot(rng, seed):
    """Choose a random drive with zones. Return it and the expected answers: name -> value, or
    plateaus."""
    blocks = int(rng.choice([10_000_000, 100_000_000, 1_200_000_000]))
    count, longest = int(rng.choice([1, 4, 9, 16, 24, 48, 128, 400])), int(rng.choice([300, 500]))
    wide = bool(count >= 16 and rng.integers(2))
    length = rng.uniform(0.6, 1.4, count)
    starts = (np.cumsum(length) - length) / length.sum() * blocks
    if wide:
        # Tracks become shorter over eight zones and longer over the next eight; overall they become
        # shorter inwards.
        there = np.arange(count) % 16
        fall = np.where(there < 8, there, 15 - there) / 8 + np.arange(count) / count
    else:
        fall = np.arange(count) / max(1, count - 1)
    tracks = np.round(longest * (1 - 0.5 * fall / max(1, fall.max()))).astype(int)
    drive = Zoned(blocks, list(zip(starts.astype(int).tolist(), tracks.tolist())),
                  jitter=rng.choice([0.0, 30.0, 200.0]), skew=int(rng.choice([9, 25])), seed=seed)
    disk, step = drive.disk, abs(np.diff(tracks)) / tracks[1:]
    mib = 256 / tracks * (1 + disk.skew / tracks) * disk.rotation + disk.jitter
    # The probe may or may not detect steps of one percent; smaller steps are not expected.
    seen = np.flatnonzero(np.concatenate([[True], step > 0.007])).tolist()
    stretches = [(int(starts[i]) * BLOCK, float((1 << 20) / np.mean(mib[i:j])))
                 for i, j in zip(seen, [*seen[1:], count])]
    return drive, {"zone_profile": Plateaus(stretches, 1 + int((step > 0.013).sum())),
                   "serpentine": "wide" if wide else "narrow",
                   "track_bytes": int(tracks[0]) * BLOCK}


def streams_by_lot(rng, seed):
    """Choose a small random drive with its own kind of cleaning and of streams. Return it and the
    expected answers. The drive may have been written to before."""
    disk = {"jitter": rng.choice([0.0, 0.0, 15.0, 40.0]), "track": int(rng.choice([120, 500])),
            "skew": int(rng.choice([3, 9])), "seed": seed}
    kind = str(rng.choice(["set", "set", "flash", "full", "ring", "youngest", "fullest"]))
    band, idle = int(rng.choice([64, 96, 150])), rng.choice([None, 1e6])
    bypass = int(rng.choice([0, 17, 57, 300]))
    if kind in ("set", "flash"):
        drive = SetAssociative(band, 400, 8, idle_us=idle, bypass=bypass, flash=kind == "flash",
                               **disk)
        streams = bypass * BLOCK or "none"
    elif kind == "full":
        drive = FullyAssociative(band, 4, 60, 10, 5, idle_us=idle, **disk)
        streams = band * BLOCK
    else:
        drive = {"ring": Circular, "youngest": Backwards, "fullest": Fullest}[kind](
            band, 300, 1500, **disk)
        streams, idle = "none", drive.idle_us
    if rng.integers(2):
        drive.replay("before", (True, rng.integers(0, drive.blocks, 300) * BLOCK, BLOCK))
    return drive, {
        "cleaning_type": "aggressive" if idle else "lazy", "streaming_bytes": streams,
        "cleaning_order": {"youngest": "other", "fullest": "other"}.get(kind, "fifo")
        if idle else None}


def quick_by_lot(rng, seed):
    """Return (drive, first byte, bytes that may be written, expected answers) for skylight quick.
    Half of the drives are interlaced in one of three ways; all were filled to a random degree."""
    disk = {"jitter": rng.choice([0.0, 30.0, 80.0]), "track": int(rng.choice([60, 120, 500])),
            "skew": int(rng.choice([3, 9, 17])), "rotation": rng.choice([8333.0, 10169.0]),
            "seed": seed}
    blocks = int(rng.choice([100_000, 200_000, 400_000, 3_000_000]))
    kind = str(rng.choice(["plain", "plain", "thin", "adjacent", "halves", "dynamic"]))
    made = {"plain": Drive, "thin": Thin}.get(kind)
    drive = made(blocks, **disk) if made else Interlaced(blocks, kind, **disk)
    size = 1 << 20
    drive.job("before", {"rw": "write", "bs": size, "number_ios": int(
        rng.choice([0, 0, 0.3, 0.7, 1]) * drive.bytes / size)})
    answer = "conventional" if made else "interlaced"
    if rng.integers(2):
        return drive, 0, drive.bytes, answer
    part = int(rng.choice([64, 128, 256])) * size
    return drive, int(rng.integers(0, (drive.bytes - part) // size)) * size, part, answer
