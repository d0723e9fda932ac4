# SPDX-License-Identifier: GPL-2.0
"""The targets under test, a row each.  A suite knows no target by name: it
asks its row for devices, a format, a table line and a check, so that a further
translation layer joins every suite by joining TARGETS."""

import json
import os
import re
import struct
from dataclasses import dataclass, field, replace

import blk
import dm
import ondisk
from bench import TOP, expect, run
from blk import SECTORS

SHINGLE = os.path.join(TOP, "build/userspace/shingle")


@dataclass(frozen=True)
class Geometry:
    """How a device is cut up, in 4 KiB blocks."""
    name: str
    band: int = 3           # blocks in a band
    data: int = 3           # data bands
    cache: int = 2          # cache bands
    staging: int = 1
    set_shift: int = 0
    cache_band: int = 0     # blocks in a cache band, 0: as in another
    meta: str = "same"      # or "separate"
    cache_on: str = "same"  # or "separate"
    staging_on: str = "same"    # or "cache", in front of it there, where `shingle format` has it
    track: int = 0          # blocks in a track, 0: no tracks
    head: int = 1           # tracks under the write head
    journal: int = 24
    gap: int = 0            # of the journal, what its head destroys ahead
    ckpt: int = 8           # blocks in a checkpoint slot
    tops: bool = False      # metadata on tops, slots on several of them each
    tail: int = 0           # blocks after the last band
    places: int = 0         # of a region, 0: a third more than it presents
    columns: int = 0        # blocks of a region on each track, 0: all of them
    skew: int = None        # blocks by which a track is turned against the one before,
                            # None: which columns blocks are in is the medium's to say
    new: int = 0            # of a persistent cache what is new in a round, in percent; 0: it
                            # is predicted
    raises: tuple = ()      # counters that loads at random cannot leave alone
    medium: str = "ram"     # see bench.Pool
    options: tuple = ()     # key words of the table line: (("commit_ms", 0),)
    features: tuple = ()

    @property
    def stride(self):
        """From band to band: whole tracks and a guard, where there are."""
        return self.stride_of(self.band)

    def stride_of(self, band):
        if not self.track:
            return band
        return (-(-band // self.track) + self.head - 1) * self.track

    @property
    def log(self):
        """Blocks in a cache band."""
        return self.cache_band or self.band

    @property
    def logical(self):
        return self.band * self.data

    def but(self, **changes):
        return replace(self, **changes)


class Linear:
    """dm-linear: what a suite must find nothing wrong with."""
    name = "linear"
    persistent = False      # has no metadata to check or damage
    modules = ()
    messages = ()
    features = ()
    unsafe = ()             # of these, what a power cut may cost data with
    shown_by = {}           # {one of these: {case: (geometry, load) for it}}
    in_place = True         # overwrites a block where it lies
    gathers = False         # keeps writes until many can be written together
    cleans = True           # band by band, and counts them
    medium = "smr"          # of platter, that it is for
    caches_all = True       # what is written anywhere is cached first
    forgets_blocks = False  # each block of a discard, not whole bands
    paged = False           # its map is in pages, and no block is away from home
    angles = False          # needs to know what lies under one angle of its medium
    streams = False         # a sequential fill costs nothing beyond itself
    cleans_when_idle = False
    keys = ()               # (key, value that is not the default)
    by_table = ("wcache_blocks",    # keys that no message sets, or not on every
                "bypass_blocks", "rotational")      # device
    variants = {}           # {suite: geometries that only this target has}
    one_length = False      # its medium's tracks all have it
    shapes = {}             # {name: (what `shingle create` is told, counters that a load must
                            # raise)} of those over several surfaces

    def sizes(self, geo):
        """Blocks of each device that the target needs, 0 for none."""
        return {"data": geo.logical, "cache": 0, "meta": 0}

    def areas(self, geo):
        """{role: (device, first block, blocks)} of what can be damaged."""
        return {"data": ("data", 0, geo.logical)}

    def headers(self, geo):
        """{device: the blocks of it that say whose it is}, if it has no superblock."""
        return {}

    def begins(self, geo):
        """{device: the first block that is not its header's, nor spared for that}"""
        return {}

    def destroys(self, geo):
        """None, or what is gone when a block of data is written:
        block -> [(first, blocks)]"""
        return None

    def format(self, paths, geo):
        pass

    def table(self, paths, geo):
        return [(0, geo.logical * SECTORS, "linear", f"{paths['data']} 0")]

    def check(self, paths, geo):
        return 0, ""

    def torn_by(self, geo):
        """Of what is unsafe, what tears writes of this geometry and `replay` does not show."""
        return tuple(f for f in self.unsafe if f not in self.shown_by)

    def lacks(self, geo):
        """What this kernel refuses a geometry for, in words of its sentence."""
        return None

    def state(self, device):
        return "rw"

    def geometry(self, suite):
        return GEOMETRIES[suite] + self.variants.get(suite, ())

    def on_medium(self, geo):
        """A geometry as the target knows its medium."""
        return geo.but(skew=3) if self.angles and geo.track and geo.skew is None else geo


class StlSet(Linear):
    """The set-associative layer."""
    name = "stl-set"
    persistent = True
    in_place = False
    modules = ("dm-shingle", "dm-stl")
    features = ("inplace", "unsafe_bypass")
    unsafe = features
    messages = ("stats", "mode", "stats_clear", "clean", "verify", "checkpoint",
                "commit", "settings", "keep", "keep inplace commit_ms=7")
    keys = (("cleaning", "aggressive"), ("order", "greedy"),
            ("bypass_blocks", 64), ("read_home", "always"), ("rmw", "block"),
            ("idle_ms", 7), ("wcache_blocks", 9), ("destage_ms", 5), ("rotational", "off"))
    shapes = {"": (("--band", "512K"), ("bands_cleaned",))}
    variants = {
        "replay": (Geometry("bypass", band=8, data=20, cache=4, ckpt=12,
                            options=(("bypass_blocks", 8),)),
                   Geometry("bypasswcache", band=8, data=20, cache=4, ckpt=12,
                            cache_band=13,
                            options=(("bypass_blocks", 8),
                                     ("wcache_blocks", 24),
                                     ("destage_ms", 20))),
                   Geometry("policy", band=5, data=24, cache=4, cache_band=3, options=(
                       ("cleaning", "aggressive"), ("order", "greedy"), ("rmw", "block"),
                       ("read_home", "always"), ("idle_ms", 15)))),
        "fio": (Geometry("bypass", band=64, data=100, cache=10, ckpt=64,
                         journal=64, options=(("bypass_blocks", 32),)),),
        "fio-platter": (
            Geometry("bypassguards", band=60, data=80, cache=8, track=16,
                     head=2, meta="separate", ckpt=64, journal=64,
                     options=(("bypass_blocks", 32),)),
            # What the head has destroyed is not read, by habit or otherwise.
            Geometry("habitguards", band=60, data=30, cache=4, track=16,
                     head=2, meta="separate", ckpt=64, journal=64,
                     options=(("bypass_blocks", 32), ("read_home", "always"))),
            # One log for all, emptied block by block.
            Geometry("logguards", band=20, data=40, cache=1, cache_band=160, track=16, head=3,
                     meta="separate", ckpt=64, journal=64, options=(("rmw", "block"),)),),
        "fs": (Geometry("bypass", band=64, data=1536, cache=16, ckpt=64,
                        journal=128, options=(("bypass_blocks", 32),)),),
        "faults": (Geometry("bypass", band=4, data=12, cache=3,
                            cache_on="separate", meta="separate", journal=12,
                            options=(("bypass_blocks", 4),)),),
        "torn": (Geometry("streams", band=24, data=8, cache=2, track=8, head=2, tail=7,
                          options=(("commit_ms", 0), ("idle_ms", 0), ("bypass_blocks", 8))),),
    }

    def torn_by(self, geo):
        """And only streams are torn by that."""
        streams = "bypass_blocks" in dict(geo.options)
        return tuple(f for f in super().torn_by(geo) if (f == "unsafe_bypass") == streams)

    @staticmethod
    def _bands_from(geo):
        """The first block of DATA that is not metadata's, on a track's start; the
        head spares it while block 0 is written."""
        if geo.meta == "separate":
            return geo.head * geo.track if geo.track else 1
        at = 1 + 2 * geo.ckpt + geo.journal
        return -(-at // geo.track) * geo.track if geo.track else at

    def _plan(self, geo):
        """Superblock fields, by the simplest arithmetic there is."""
        apart = geo.meta == "separate"
        devs = [0, 0, 0]
        at = self._bands_from(geo)
        groups = []
        places = [(ondisk.DATA, geo.data)]
        if geo.staging and geo.staging_on == "same":
            places.append((ondisk.STAGING, geo.staging))
        if geo.cache_on == "same":
            places.append((ondisk.CACHE, geo.cache))
        else:
            start = 1
            if geo.staging and geo.staging_on == "cache":
                groups.append((ondisk.STAGING, ondisk.DEV_CACHE, start, geo.band, geo.staging, 0))
                start += geo.staging * geo.band
            groups.append((ondisk.CACHE, ondisk.DEV_CACHE, start, geo.log, geo.cache, 0))
            devs[1] = start + geo.cache * geo.log + 1
        band = {ondisk.DATA: geo.band, ondisk.CACHE: geo.log,
                ondisk.STAGING: geo.band}
        for role, bands in places:
            stride = geo.stride_of(band[role])
            groups.append((role, ondisk.DEV_DATA, at, stride, bands,
                           geo.track))
            at += bands * stride
        groups.sort()
        # With a header a track of its own, so that a platter has whole ones.
        devs[0] = at + (max(geo.tail + 1, geo.track) if apart else geo.tail + 1)
        devs[2] = 2 + 2 * geo.ckpt + geo.journal if apart else 0
        return {"engine": self.name, "logical": geo.logical, "devs": devs,
                "ckpt": ((1, geo.ckpt), (1 + geo.ckpt, geo.ckpt)),
                "journal": (1 + 2 * geo.ckpt, geo.journal), "gap": geo.gap,
                "head": geo.head, "band": band, "groups": groups,
                "params": struct.pack("<II", geo.set_shift, 0)}

    def sizes(self, geo):
        return dict(zip(ondisk.DEVS, self._plan(geo)["devs"]))

    def areas(self, geo):
        plan, out = self._plan(geo), {}
        for role, dev, start, stride, bands, _ in plan["groups"]:
            out[ondisk.ROLES[role]] = (ondisk.DEVS[dev], start, bands * stride)
        where = "meta" if geo.meta == "separate" else "data"
        out["journal"] = (where, *plan["journal"])
        out["checkpoint"] = (where, plan["ckpt"][0][0], 2 * geo.ckpt)
        out["superblock"] = (where, 0, 1)
        if plan.get("pages"):
            out["pages"] = (where, *plan["pages"])
        return out

    def headers(self, geo):
        where = "meta" if geo.meta == "separate" else "data"
        return {dev: (0, blocks - 1) for dev, blocks in
                StlSet.sizes(self, geo).items() if blocks and dev != where}

    def begins(self, geo):
        starts = {}
        for _, dev, start, _, _, _ in self._plan(geo)["groups"]:
            starts.setdefault(ondisk.DEVS[dev], []).append(start)
        return {dev: min(starts[dev]) for dev in self.headers(geo)}

    def format(self, paths, geo):
        plan = self._plan(geo)
        uuid = struct.pack("<16s", geo.name.encode()[:16])
        where = "meta" if geo.meta == "separate" else "data"
        last, flags = plan["devs"][ondisk.DEVS.index(where)] - 1, 0
        for name, places in self.headers(geo).items():
            dev = ondisk.DEVS.index(name)
            with blk.opened(paths[name]) as disk:
                for at in places:
                    disk.write(at, ondisk.member(
                        uuid, at, engine=self.name, dev=dev,
                        blocks=plan["devs"][dev]))
                disk.flush()
                if not disk.read(0).strip(b"\0"):       # it keeps nothing
                    flags |= ondisk.UNMARKED << dev
        with blk.opened(paths[where]) as dev:
            for at in (0, last):
                dev.write(at, ondisk.superblock(uuid, 1, at, flags=flags, **plan))
            for slot in (0, 1):
                start, _ = plan["ckpt"][slot]
                dev.write(start, ondisk.footer(uuid, 1 + slot, start, 1))
            dev.flush()

    def table(self, paths, geo):
        args = [paths["data"]]
        args.append(paths["cache"] if geo.cache_on == "separate" else "-")
        args.append(paths["meta"] if geo.meta == "separate" else "-")
        if geo.features or geo.options:
            args += [len(geo.features), *geo.features]
        if geo.options:
            args.append(2 * len(geo.options))
            for key, value in geo.options:
                args += [key, value]
        return [(0, geo.logical * SECTORS, self.name,
                 " ".join(map(str, args)))]

    def check(self, paths, geo):
        """shingle check: (status, what it said)."""
        if os.environ.get("SHINGLE_NO_CHECK"):      # while it is being built
            return 0, ""
        return run(SHINGLE, "check", *self._devices(paths, geo), ok=None)

    def tool_opens(self, paths, geo, name):
        """What the tool says."""
        return run(SHINGLE, "open", "--no-udev", *self._devices(paths, geo), name)[1]

    def repair(self, paths, geo, asked=False):
        """asked: says yes when it asks, and not before."""
        if asked:
            return run("sh", "-c", 'echo y | "$@"', "sh", SHINGLE, "repair",
                       *self._devices(paths, geo), ok=None)
        return run(SHINGLE, "repair", "--yes", *self._devices(paths, geo),
                   ok=None)

    def dump(self, paths, geo, *more):
        """Closed: what lies on the devices, as the tool finds it."""
        _, text = run(SHINGLE, "dump", "--json", *more, *self._devices(paths, geo))
        return json.loads(text)

    def lies(self, paths, geo):
        """Closed: {logical block: (device, block)} as recovery finds it."""
        return {r["lblk"] + i: (r["device"], r["block"] + i)
                for r in self.dump(paths, geo, "--map")["map"] if r["kind"] == "mapped"
                for i in range(r["blocks"])}

    @staticmethod
    def _devices(paths, geo):
        argv = [paths["data"]]
        if geo.cache_on == "separate":
            argv += ["--cache", paths["cache"]]
        if geo.meta == "separate":
            argv += ["--meta", paths["meta"]]
        return argv

    def state(self, device):
        return device.status(noflush=True).split()[-1]


def data_only(plan, geo):
    """There are no bands but those of data, which present what the geometry says."""
    plan["groups"] = [g for g in plan["groups"] if g[4]]
    plan["logical"] = geo.logical


def add_pages(plan, apart, pages):
    """Blocks for pages of the map, in front of the last superblock: of a metadata device
    that grows by them, or at the tail that was left for them."""
    if apart:
        start = plan["devs"][2] - 1
        plan["devs"][2] += pages
    else:
        start = plan["devs"][0] - 1 - pages
    plan["pages"] = (start, pages)


class StlFull(StlSet):
    """The fully-associative layer: what a geometry calls cache bands are log
    bands here, in each of the zones."""
    name = "stl-full"
    features = ()
    unsafe = ()
    keys = (("cleaning", "lazy"), ("order", "greedy"), ("threshold", 1),
            ("read_home", "always"), ("idle_ms", 0), ("wcache_blocks", 9), ("destage_ms", 5),
            ("rotational", "off"))
    variants = {
        "replay": (Geometry("policy", band=5, data=24, cache=5, options=(
            ("cleaning", "lazy"), ("order", "greedy"), ("threshold", 1),
            ("read_home", "always"))),),
    }
    streams = True
    cleans_when_idle = True

    @staticmethod
    def _zones(geo):
        """Physical bands of a zone, their provision, and how many zones."""
        zones = 2 if geo.data > 8 else 1
        provision = max(3, geo.cache + 1)
        return -(-geo.data // zones) + provision, provision, zones

    def _plan(self, geo):
        zone, provision, zones = self._zones(geo)
        plan = super()._plan(geo.but(data=geo.data + zones * provision,
                                     cache=0, staging=0, cache_on="same"))
        data_only(plan, geo)
        plan["params"] = struct.pack("<IIII", zone, provision,
                                     max(geo.cache, 1), 0)
        return plan

    def sizes(self, geo):
        return super().sizes(self._fit(geo))

    def areas(self, geo):
        return super().areas(self._fit(geo))

    def headers(self, geo):
        return super().headers(self._fit(geo))

    def begins(self, geo):
        return super().begins(self._fit(geo))

    def format(self, paths, geo):
        super().format(paths, self._fit(geo))

    def table(self, paths, geo):
        return super().table(paths, self._fit(geo))

    @staticmethod
    def _devices(paths, geo):
        return StlSet._devices(paths, StlFull._fit(geo))

    @staticmethod
    def _fit(geo):
        """No cache elsewhere; a checkpoint has a piece for every log, and a
        write up to four records."""
        return geo.but(cache_on="same", ckpt=geo.ckpt + 2 * geo.cache,
                       journal=2 * geo.journal)


NAIVE = (("rmw", "naive"), ("policy", "seq"))


class Imr(StlSet):
    """Interlaced tracks: a band is a track, cache bands are tracks to save
    tops in, which lie on tops, and data are behind them."""
    name = "imr"
    modules = ("dm-shingle", "dm-imr")
    medium = "imr"
    gathers = True
    cleans = False
    in_place = True
    features = ("unsafe_record", "unsafe_sync1", "unsafe_sync2", "unsafe_sync4",
                "unsafe_retire", "unsafe_reuse", "unsafe_order")
    unsafe = features
    messages = (*StlSet.messages, "level", "relevel", "largest", "level 0 2",
                "relevel 1 1", "largest auto", "policy seq")
    # Each by both algorithms.  In sequence all bottoms but the first have a top in use
    # beside them and are synced for that; slots that two bottoms in a row take turns
    # in; tracks that are forgotten and taken by others before anything is committed.
    shown_by = {feature: {"merged": ({}, "workload"),
                          "naive": ({"options": NAIVE}, "workload")}
                for feature in unsafe}
    shown_by["unsafe_sync4"] = {
        "merged": ({}, "workload"),
        "by address": ({"options": (
            ("rmw", "naive"), ("level", "lba"))}, "workload")}
    shown_by["unsafe_reuse"] = {
        "slots": ({"cache": 2, "options": NAIVE}, "workload"),
        "tracks": ({"options": (
            ("policy", "seq"), ("start", "first"))}, "forgetful")}
    keys = (("policy", "3phase"), ("start", "first"), ("rmw", "naive"),
            ("adjsync", "needed"), ("syncs", "literal"),
            ("overwrite", "move"), ("level", "lba"), ("partial", "level"),
            ("largest", 2),
            ("buffer_tracks", 3), ("wcache_blocks", 90), ("destage_ms", 5),
            ("rotational", "off"))
    by_table = ("wcache_blocks", "buffer_tracks", "rotational")
    one_length = True
    shapes = {"": (("--backup-tracks", 2), ("imr_rewrites", "imr_bottoms_rmw"))}
    variants = {
        "replay": (
            Geometry("naive", band=5, data=24, cache=4, options=(
                ("rmw", "naive"), ("policy", "seq"), ("buffer_tracks", 6))),
            Geometry("move", band=6, data=24, cache=6, options=(
                ("overwrite", "move"), ("policy", "3phase"),
                ("destage_ms", 20), ("buffer_tracks", 4))),
            # Some chunks of the map, on tops of two blocks.
            Geometry("tops", band=2, data=1200, cache=6, ckpt=8, tops=True),
            Geometry("lba", band=8, data=20, cache=6, options=(
                ("level", "lba"), ("rmw", "naive"), ("adjsync", "needed"),
                ("syncs", "literal"), ("buffer_tracks", 3))),
        ),
        "fio-platter": (
            Geometry("naive", band=64, data=60, cache=8, meta="separate",
                     ckpt=64, journal=64, options=(
                         ("rmw", "naive"), ("policy", "seq"),
                         ("buffer_tracks", 8))),
            Geometry("move", band=32, data=120, cache=16, meta="separate",
                     ckpt=64, journal=64, options=(
                         ("overwrite", "move"), ("policy", "zigzag"),
                         ("buffer_tracks", 16))),
            # And the metadata where they may destroy one another.
            Geometry("tops", band=4, data=1200, cache=6, ckpt=8, journal=4,
                     tops=True, options=(("buffer_tracks", 16),)),
        ),
        # Chunks on both tops of a slot.
        "bitflip": (
            Geometry("tops", band=2, data=1200, cache=3, ckpt=8, tops=True),
        ),
    }

    def lacks(self, geo):
        release = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
        return "level hint needs a kernel whose writes carry lifetime hints" \
            if ("level", "hint") in geo.options and release < (6, 9) else None

    @staticmethod
    def _slots(geo):
        return max(2, geo.cache)

    def _plan(self, geo):
        apart, slots = geo.meta == "separate", self._slots(geo)
        at = 1 if apart else 1 + 2 * geo.ckpt + geo.journal
        if geo.tops:
            at = self._on_tops(geo)[1] + 2 * geo.ckpt + geo.journal
        at = -(-at // (2 * geo.band)) * 2 * geo.band
        data = at + 2 * (slots + 1) * geo.band
        plan = super()._plan(geo.but(staging=0, cache_on="same"))
        plan["groups"] = [
            (ondisk.DATA, ondisk.DEV_DATA, data, geo.band, geo.data, geo.band),
            (ondisk.STAGING, ondisk.DEV_DATA, at + geo.band, 2 * geo.band,
             slots, 0)]
        # Of a platter, whole tracks; what is in the last block on a top of its own.
        tail = 2 * geo.band if geo.tops or apart else 1
        plan["devs"][0] = data + geo.data * geo.band + tail
        plan["params"] = struct.pack("<II", 0, 0)
        plan["media"] = 1
        plan["head"] = 1
        if geo.tops:
            span = 2 * geo.ckpt - geo.band
            plan["ckpt"] = tuple((first, span) for first in self._on_tops(geo))
            plan["journal"] = (plan["ckpt"][1][0] + span + geo.band,
                               geo.journal)
            plan["stretch"] = geo.band
        return plan

    @staticmethod
    def _on_tops(geo):
        """First blocks of the slots: what is between is as long as they are."""
        return 3 * geo.band, 3 * geo.band + 2 * geo.ckpt

    def begins(self, geo):
        # The bottom beside the first saved top, which the header's track spares.
        return {dev: start - geo.band
                for dev, start in super().begins(geo).items()}

    def destroys(self, geo):
        start = self._plan(geo)["groups"][0][2]

        def gone(block):
            track = (block - start) // geo.band
            if block < start or track >= geo.data or track % 2:
                return []
            return [(start + t * geo.band, geo.band)
                    for t in (track - 1, track + 1) if 0 <= t < geo.data]
        return gone

    @staticmethod
    def _devices(paths, geo):
        return StlSet._devices(paths, geo.but(cache_on="same"))

    def table(self, paths, geo):
        return super().table(paths, geo.but(cache_on="same"))


def plain_of(geo, plan, first):
    """What is not for bands, which begin at @first, is written where it is:
    ((first block, how many), ...)"""
    blocks = plan["devs"][0] // geo.track * geo.track
    end = max(g[2] + g[3] * g[4] for g in plan["groups"] if g[1] == ondisk.DEV_DATA)
    return () if geo.meta == "separate" else tuple(
        (at, n) for at, n in ((0, first), (end, blocks - end)) if n > 0)


def behind(geo, blocks, plain=()):
    """What lies under one angle on the tracks behind a block: a function of it, or None."""
    track = geo.track

    def gone(block):
        if any(at <= block < at + n for at, n in plain):
            return []
        row, column = divmod(block, track)
        return [(r * track + (column - (r - row) * (geo.skew or 0)) % track, 1)
                for r in range(row + 1, min(row + geo.head, blocks // track))]
    return gone if track and geo.head > 1 else None


class Tiler(StlSet):
    """Autonomous regions.  What a geometry calls a band is what a region presents.
    There is one slot more."""
    name = "tiler"
    modules = ("dm-shingle", "dm-tiler")
    features = ("unsafe_reuse", "unsafe_inplace")
    unsafe = features
    forgets_blocks = True
    paged = True
    cleans = False
    keys = (("map_cache_kb", 64), ("region_cache", 5), ("lazy", "off"), ("idle_ms", 7),
            ("wcache_blocks", 9), ("destage_ms", 5), ("rotational", "off"))
    by_table = (*StlSet.by_table, "map_cache_kb", "region_cache", "lazy")
    # Six rows under a head of three.
    rows = {"places": 6, "data": 15, "journal": 48, "head": 3, "skew": 0, "meta": "separate"}
    shown_by = {
        "unsafe_reuse": {"updates": ({**rows, "band": 2, "track": 16, "columns": 1}, "updates")},
        "unsafe_inplace": {"rows": ({**rows, "band": 5, "track": 1}, "rows")}}
    # As few frames and regions in memory as can be.
    tight = (("map_cache_kb", 32), ("region_cache", 4))
    lazily = ("tiler_lazy_blocks",)
    cleaning = ("tiler_cleans", "tiler_moved_blocks")
    paging = ("map_page_reads", "map_page_writes", *cleaning)
    shapes = {"whole tracks, ": (("--rows", 4), cleaning),
              "parts of tracks, ": (("--rows", 4, "--columns", 8), (*cleaning, *lazily))}
    variants = {
        "replay": (Geometry("tight", band=12, data=20, journal=48, options=tight),
                   Geometry("full", band=10, data=12, journal=48, places=10),
                   Geometry("wide", band=24, data=8, journal=48, track=8, head=3,
                            meta="separate", options=(*tight, ("lazy", "off"))),
                   # Lazily, as the columns of a medium allow: of some blocks, of one, of
                   # a track.
                   Geometry("combs", band=12, places=24, data=3, journal=48, track=18, columns=4,
                            head=3, skew=5, meta="separate", raises=lazily),
                   Geometry("column", band=6, places=12, data=7, journal=48, track=8, columns=1,
                            head=3, skew=3, meta="separate", options=tight, raises=lazily),
                   Geometry("turned", band=12, places=24, data=3, journal=48, track=4, head=3,
                            skew=1, meta="separate", raises=lazily)),
        # With more pages than frames, and so many writes that no log is long enough.
        "ledger": (Geometry("combs", band=24, places=32, data=39, cache=30, track=16, columns=4,
                            head=3, skew=5, meta="separate", ckpt=32, journal=48,
                            options=tight, raises=(*lazily, *paging)),
                   Geometry("samepages", band=32, places=32, data=40, ckpt=32, journal=48,
                            options=tight, raises=paging)),
        # Combs beside each other on the same tracks, of one block and of several.
        "fio-platter": (Geometry("combs", band=48, data=119, track=16, head=3, columns=4,
                                 meta="separate", ckpt=64, journal=64, options=tight),
                        Geometry("column", band=24, data=127, track=16, head=2, columns=1,
                                 skew=5, meta="separate", ckpt=64, journal=64)),
        "faults": (Geometry("tight", band=12, data=6, journal=48, meta="separate",
                            options=(("commit_ms", 0), *tight)),),
        "torn": (Geometry("combs", band=24, places=32, data=7, track=8, columns=4, head=2, skew=2,
                          tail=7, options=(("commit_ms", 0), ("idle_ms", 0)),
                          raises=(*lazily, *cleaning)),
                 Geometry("turned", band=24, places=48, data=5, track=8, head=3, skew=2, tail=3,
                          options=(("commit_ms", 0), ("idle_ms", 0)),
                          raises=(*lazily, *cleaning))),
        "bitflip": (Geometry("combs", band=6, places=12, data=15, track=8, columns=1, head=3,
                             skew=3, meta="separate"),),
        "storm-platter": (Geometry("combs", band=12, places=24, data=39, track=16, columns=4,
                                   head=3, meta="separate", ckpt=32, journal=48,
                                   options=(*tight, ("idle_ms", 5), ("commit_ms", 10))),),
    }

    @staticmethod
    def _fit(geo):
        """No cache; as many rows as a region without tracks can have."""
        return geo.but(cache_on="same", cache=0, staging=0,
                       ckpt=max(geo.ckpt, 8), journal=max(geo.journal, 24))

    @staticmethod
    def _blocks(geo):
        """Places of a region, in whole rows, and of each 1000 how many are not presented."""
        row = geo.columns or geo.track or 1
        places = geo.places or -(-(geo.band + max(geo.band // 3, 1)) // row) * row
        return places, -(-1000 * (places - geo.band) // places)

    def _plan(self, geo):
        geo = self._fit(geo)
        apart = geo.meta == "separate"
        places, over = self._blocks(geo)
        pages = 2 * (geo.data + 1) * -(-geo.band // 2016)
        beside = geo.track // geo.columns if geo.columns else 1
        zone = places // geo.columns * geo.track if geo.columns else places
        plan = super()._plan(geo.but(band=zone, data=(geo.data + 1) // beside,
                                     tail=geo.tail if apart else geo.tail + pages))
        data_only(plan, geo)
        rows = 0 if geo.track else next(r for r in (8, 4, 2, 5, 3, 1) if places % r == 0)
        plan["params"] = struct.pack("<IIII", rows, geo.columns, over, 1)
        add_pages(plan, apart, pages)
        if geo.skew is not None:
            blocks, first = plan["devs"][0] // geo.track * geo.track, plan["groups"][0][2]
            end = plan["pages"][0] // geo.track * geo.track
            plan["medium"] = ondisk.smr(
                blocks, geo.track, geo.skew, geo.head,
                () if apart else ((0, first), (end, blocks - end)))
        return plan

    def geometry(self, suite):
        """Of those whose metadata are on the medium its pages are on whole tracks."""
        return self.variants[suite] if suite == "torn" else super().geometry(suite)

    def destroys(self, geo):
        """What lies under one angle on the tracks behind it; of a medium that does not
        say so, as if there were no skew."""
        return behind(geo, self._plan(geo)["devs"][0])

    def sizes(self, geo):
        return super().sizes(self._fit(geo))

    def areas(self, geo):
        return super().areas(self._fit(geo))

    def headers(self, geo):
        return super().headers(self._fit(geo))

    def begins(self, geo):
        return super().begins(self._fit(geo))

    def format(self, paths, geo):
        """What lies under one angle the tool asks the medium, if nobody else says so."""
        if not geo.columns or geo.skew is not None:
            super().format(paths, self._fit(geo))
            return
        places, over = self._blocks(geo)
        run(SHINGLE, "format", self.name, "--force", "--columns", geo.columns,
            "--over-permille", over, "--band", f"{places // geo.columns * geo.track * 4}K",
            *self._devices(paths, geo))

    def table(self, paths, geo):
        return super().table(paths, self._fit(geo))

    @staticmethod
    def _devices(paths, geo):
        return StlSet._devices(paths, Tiler._fit(geo))


class Dualbuffer(StlSet):
    """A persistent cache of two buffers: all cache bands of a geometry are one, twice as
    long, since a half of it may be what is kept."""
    name = "dualbuffer"
    angles = True
    modules = ("dm-shingle", "dm-dualbuffer")
    features = ("unsafe_switch", "unsafe_inplace")
    unsafe = features
    messages = (*StlSet.messages, "rounds")
    keys = (("fit", "sat"), ("ratchet", "off"), ("ageing", "off"), ("idle_ms", 7),
            ("wcache_blocks", 9), ("destage_ms", 5), ("rotational", "off"))
    # A head of three, under which both parts lie beside each other.
    wide = {"band": 6, "data": 16, "cache": 1, "cache_band": 48, "track": 12, "head": 3,
            "skew": 5, "meta": "separate", "journal": 48}
    # And bands of two tracks, of which the first destroys the second.
    shown_by = {"unsafe_switch": {"wide": (wide, "workload")},
                "unsafe_inplace": {"tall": ({**wide, "band": 24, "data": 6}, "workload")}}
    cleaning = ("rounds", "kept_blocks", "merged_blocks")
    shapes = {"": (("--band", "512K", "--cache-size", "4M"), cleaning)}
    variants = {
        "replay": (Geometry("angles", **wide, raises=cleaning),
                   Geometry("static", band=5, data=20, cache=1, cache_band=60, track=12, head=2,
                            skew=1, meta="separate", journal=48, new=60, raises=cleaning),
                   Geometry("literal", band=5, data=24, cache=4, journal=24, options=(
                       ("ageing", "off"), ("ratchet", "off"), ("fit", "power")))),
        "fio-platter": (
            Geometry("angles", band=60, data=60, cache=1, cache_band=800, track=16, head=3,
                     skew=5, meta="separate", ckpt=64, journal=64, raises=cleaning),
            Geometry("static", band=48, data=60, cache=1, cache_band=640, track=16, head=2,
                     skew=1, meta="separate", ckpt=64, journal=64, new=70, raises=cleaning)),
        "torn": (Geometry("angles", band=24, data=8, cache=1, cache_band=64, track=8, head=2,
                          skew=2, tail=7, options=(("commit_ms", 0), ("idle_ms", 0)),
                          raises=cleaning),),
        "storm-platter": (Geometry("angles", band=12, data=40, cache=1, cache_band=96, track=12,
                                   head=3, skew=5, meta="separate", ckpt=32, journal=48,
                                   options=(("idle_ms", 5), ("commit_ms", 10))),),
    }

    def geometry(self, suite):
        """Of those whose metadata are on the medium its bands are on known columns; and
        what lies under one angle is always known."""
        found = self.variants[suite] if suite == "torn" else super().geometry(suite)
        return tuple(map(self.on_medium, found))

    @staticmethod
    def _fit(geo):
        """One cache of whole tracks, long enough to be cut in three."""
        log = geo.cache_band if geo.cache == 1 and geo.cache_band else \
            2 * max(geo.cache, 1) * geo.log
        return geo.but(cache=1, cache_band=max(log // geo.track, 1) * geo.track if geo.track
                       else max(log, 12))

    def _plan(self, geo):
        geo = self._fit(geo)
        plan = super()._plan(geo)
        plan["params"] = struct.pack("<IIIIII", geo.new, 50, 0, 25, 2, 0)
        if geo.track:
            plan["medium"] = ondisk.smr(plan["devs"][0] // geo.track * geo.track, geo.track,
                                        geo.skew or 0, geo.head,
                                        plain_of(geo, plan, self._bands_from(geo)))
        return plan

    def destroys(self, geo):
        """What lies under one angle on the tracks behind it."""
        return behind(geo, self._plan(geo)["devs"][0])


class Rmwf(StlSet):
    """Flash beside a shingled disk: it has a device of its own, and bands have tracks, or
    it would never be used."""
    name = "rmwf"
    angles = True
    caches_all = False
    forgets_blocks = True
    in_place = True
    modules = ("dm-shingle", "dm-rmwf")
    features = ("unsafe_pointer", "unsafe_inplace", "literal")
    unsafe = ("unsafe_pointer", "unsafe_inplace")
    keys = (("rule", "pointer"), ("alloc", "pool"), ("hot_threshold", 1),
            ("gc_free_percent", 60), ("idle_ms", 7), ("wcache_blocks", 9), ("destage_ms", 5),
            ("rotational", "off"))
    wide = {"band": 24, "data": 6, "cache": 1, "cache_band": 40, "track": 6, "head": 3,
            "skew": 4, "meta": "separate", "journal": 48}
    shown_by = dict.fromkeys(unsafe, {"wide": (wide, "workload")})
    cleaning = ("direct_blocks", "flash_blocks", "merged_blocks")
    shapes = {"": (("--band", "512K"), cleaning)}
    variants = {
        "replay": (Geometry("angles", **wide, raises=cleaning),
                   Geometry("pointer", **wide, options=(("rule", "pointer"), ("alloc", "pool"))),
                   Geometry("emptied", **{**wide, "cache_band": 12}, options=(
                       ("gc_free_percent", 100), ("hot_threshold", 0))),
                   Geometry("staged", **wide, staging_on="cache", raises=cleaning)),
        "fio-platter": (
            Geometry("angles", band=96, data=40, cache=1, cache_band=400, track=16, head=3,
                     skew=5, meta="separate", ckpt=64, journal=64, raises=cleaning),
            Geometry("pointer", band=96, data=40, cache=1, cache_band=400, track=16, head=2,
                     skew=1, meta="separate", ckpt=64, journal=64, options=(
                         ("rule", "pointer"), ("alloc", "pool")))),
        "torn": (Geometry("angles", band=24, data=8, cache=1, cache_band=64, track=8, head=2,
                          skew=2, tail=7, options=(("commit_ms", 0),), raises=cleaning),),
        "storm-platter": (Geometry("angles", band=24, data=20, cache=1, cache_band=60, track=6,
                                   head=3, skew=4, meta="separate", ckpt=32, journal=48,
                                   options=(("commit_ms", 10),)),),
    }

    def geometry(self, suite):
        """What lies under one angle is always known."""
        found = self.variants[suite] if suite == "torn" else super().geometry(suite)
        return tuple(self.on_medium(self._fit(geo)) for geo in found)

    @staticmethod
    def _fit(geo):
        log = geo.cache_band if geo.cache == 1 and geo.cache_band else max(geo.cache, 1) * geo.log
        return geo.but(cache=1, cache_band=log, cache_on="separate", head=max(geo.head, 2),
                       track=geo.track or max(geo.band // 3, 1))

    def _plan(self, geo):
        plan = super()._plan(self._fit(geo))
        geo = self._fit(geo)
        plan["params"] = struct.pack("<II", min(8, geo.cache_band), 0)
        plan["medium"] = ondisk.smr(plan["devs"][0] // geo.track * geo.track, geo.track,
                                    geo.skew or 0, geo.head,
                                    plain_of(geo, plan, self._bands_from(geo)))
        return plan

    def destroys(self, geo):
        """What lies under one angle on the tracks behind it."""
        geo = self._fit(geo)
        plan = self._plan(geo)
        return behind(geo, plan["devs"][0], plain_of(geo, plan, self._bands_from(geo)))

    def table(self, paths, geo):
        return super().table(paths, self._fit(geo))

    def headers(self, geo):
        return super().headers(self._fit(geo))

    def begins(self, geo):
        return super().begins(self._fit(geo))

    @staticmethod
    def _devices(paths, geo):
        return StlSet._devices(paths, Rmwf._fit(geo))


class Comb(StlSet):
    """A log in two combs, of tests/: no tool knows it."""
    name = "comb"
    modules = ("dm-shingle", "shingle-comb")
    features = ()
    unsafe = ()
    keys = (("idle_ms", 7), ("wcache_blocks", 9), ("destage_ms", 5),
            ("rotational", "off"))
    variants = {
        "replay": (Geometry("comb", band=16, data=12, ckpt=6, journal=48),
                   Geometry("wide", band=8, data=8, ckpt=6, journal=48, track=4,
                            head=2, options=(("idle_ms", 5),)),
                   Geometry("wcache", band=5, data=30, ckpt=6, journal=48,
                            meta="separate", options=(("wcache_blocks", 24),
                                                      ("destage_ms", 20)))),
    }

    def geometry(self, suite):
        return self.variants.get(suite, ())

    def _plan(self, geo):
        """Bands of a tooth of each comb; the head spares the next one.  A quarter of a
        comb's teeth present nothing."""
        pitch = geo.track * geo.head if geo.track else 2
        teeth = geo.logical // 3 * 4 + geo.logical % 3
        plan = super()._plan(geo.but(band=pitch + 1, data=teeth, cache=0, staging=0))
        data_only(plan, geo)
        plan["params"] = struct.pack("<I", pitch)
        return plan

    def check(self, paths, geo):
        return 0, ""


class Paged(StlSet):
    """Regions of two bands whose map is in pages, of tests/: no tool but shingle-toys
    knows it.  What a geometry calls a band is what a region presents: three quarters of
    one of its two."""
    name = "paged"
    modules = ("dm-shingle", "shingle-paged")
    paged = True
    features = ()
    unsafe = ()
    keys = (("map_cache_kb", 64), ("idle_ms", 7), ("wcache_blocks", 9), ("destage_ms", 5),
            ("rotational", "off"))
    # As few frames as can be: 8, for two pages of each region.
    tight = ("map_cache_kb", 32)
    variants = {
        "replay": (Geometry("paged", band=12, data=20, journal=48, options=(tight,)),
                   Geometry("wide", band=6, data=12, journal=48, track=4, head=2,
                            meta="separate", options=(("idle_ms", 5), tight)),
                   Geometry("wcache", band=3, data=30, journal=48, meta="separate",
                            options=(("wcache_blocks", 24), ("destage_ms", 20), tight))),
        "faults": (Geometry("paged", band=12, data=6, journal=48, meta="separate",
                            options=(("commit_ms", 0), tight)),),
    }

    def geometry(self, suite):
        return self.variants.get(suite, ())

    def _plan(self, geo):
        apart = geo.meta == "separate"
        pages = 2 * 2 * geo.data
        plan = super()._plan(geo.but(band=geo.band // 3 * 4, data=2 * geo.data, cache=0,
                                     staging=0, tail=0 if apart else pages))
        data_only(plan, geo)
        plan["params"] = b""
        add_pages(plan, apart, pages)
        return plan

    def check(self, paths, geo):
        return run(SHINGLE + "-toys", "check", *self._devices(paths, geo), ok=None)

    def repair(self, paths, geo, asked=False):
        return run(SHINGLE + "-toys", "repair", "--yes", *self._devices(paths, geo), ok=None)


TARGETS = {row.name: row for row in (Linear(), StlSet(), StlFull(), Imr(), Tiler(), Dualbuffer(), Rmwf(), Comb(),
                                   Paged())}


@dataclass
class Stack:
    """A target over devices: formatted once, opened and closed at will."""
    target: object
    geo: Geometry
    paths: dict
    under: list = field(default_factory=list)   # what holds the paths up
    device: object = None

    def format(self):
        self.target.format(self.paths, self.geo)

    def open(self):
        expect(self.device is None, "already open")
        self.device = dm.Device("target", self.target.table(self.paths,
                                                            self.geo))
        return self.device

    def close(self):
        if self.device:
            device, self.device = self.device, None
            device.remove()

    def blk(self):
        return blk.Blk(self.device.path)

    def verify(self):
        """The engine's own invariants, if it can tell."""
        if "verify" in self.target.messages:
            self.device.message("verify")

    def bypassed(self):
        """A load that is to go past the cache must do so, at least in part, and raise
        what the geometry says."""
        past = dict(self.geo.options).get("bypass_blocks")
        names = [*self.geo.raises, *(("bypassed_blocks",) if past else ())]
        if not names:
            return {}
        stats = dict(line.split(" ", 1)
                     for line in self.device.message("stats").splitlines())
        for name in names:
            expect(int(stats[name]), f"{name} is 0 after all that")
        return {name.removesuffix("_blocks"): int(stats[name]) for name in names}

    def check(self):
        """Closed: is what lies on the devices sound?"""
        status, text = self.target.check(self.paths, self.geo)
        expect(status == 0, f"shingle check ended with {status}: "
                            f"{text.strip()[-600:]}")


def stack(pool, target, geo, formatted=True, name="under"):
    """A fresh, formatted, closed stack on slices of RAM; @name of these."""
    under, paths = [], {}
    for which, blocks in target.sizes(geo).items():
        if blocks:
            under.append(pool.on(geo.medium).slice(blocks, f"{name}-{which}"))
            paths[which] = under[-1].path
    made = Stack(target, geo, paths, under)
    if formatted:
        made.format()
    return made


# What the suites run over.  Names are stable: test reports quote them.
GEOMETRIES = {
    # 76 KiB as in Skylight's own tests, between the headers: bands 0-2 at 0-8,
    # staging at 9, cache bands at 12 and 15, counted from behind the first.
    "exact": (
        Geometry("skylight", meta="separate", tail=1),
    ),
    "replay": (
        Geometry("tiny", band=3, data=24, cache=5),
        Geometry("apart", band=16, data=12, cache=3, meta="separate"),
        Geometry("flash", band=8, data=20, cache=4, cache_on="separate",
                 meta="separate"),
        Geometry("shift", band=5, data=30, cache=4, set_shift=2, journal=12),
        Geometry("onecache", band=32, data=8, cache=1, journal=10),
        Geometry("wcache", band=4, data=24, cache=5,
                 options=(("wcache_blocks", 24), ("destage_ms", 20))),
    ),
    "replay-fs": (
        Geometry("fs", band=32, data=144, cache=8, ckpt=16, journal=48),
        Geometry("fsapart", band=64, data=72, cache=5, ckpt=16, journal=32,
                 meta="separate"),
    ),
    "fio": (
        Geometry("tiny", band=3, data=1000, cache=50, ckpt=64, journal=64),
        Geometry("odd", band=37, data=150, cache=11, ckpt=64, journal=64),
        Geometry("onecache", band=256, data=24, cache=1, ckpt=64, journal=64),
        Geometry("flash", band=64, data=100, cache=10, cache_on="separate",
                 ckpt=64, journal=64),
        Geometry("apart", band=128, data=50, cache=5, meta="separate",
                 ckpt=64, journal=64),
        Geometry("shift", band=64, data=100, cache=7, set_shift=3, ckpt=64,
                 journal=64),
        Geometry("wcache", band=37, data=150, cache=11, ckpt=64, journal=64,
                 options=(("wcache_blocks", 400),)),
    ),
    # Metadata apart: this medium has no conventional tracks.
    "fio-platter": (
        Geometry("guards", band=60, data=80, cache=8, track=16, head=2,
                 meta="separate", ckpt=64, journal=64),
        Geometry("widehead", band=50, data=60, cache=6, track=12, head=3,
                 meta="separate", ckpt=64, journal=64),
    ),
    "fs": (
        # Large enough for the smallest btrfs and xfs, cache small enough
        # that cleaning never rests.
        Geometry("fs", band=64, data=1536, cache=4, ckpt=64, journal=128),
    ),
    "faults": (
        Geometry("faults", band=4, data=12, cache=3, cache_on="separate",
                 meta="separate", journal=12),
        Geometry("wcache", band=4, data=12, cache=3, cache_on="separate",
                 meta="separate", journal=12,
                 options=(("wcache_blocks", 16), ("destage_ms", 0))),
    ),
    # Metadata apart, so that the data device carries data and nothing else; or
    # not, and then they are counted.
    "ledger": (
        Geometry("plain", band=64, data=40, cache=4, meta="separate",
                 ckpt=32, journal=48),
        Geometry("guards", band=60, data=20, cache=3, track=16, head=2,
                 meta="separate", ckpt=32, journal=48),
        Geometry("tight", band=32, data=8, cache=1, meta="separate",
                 ckpt=32, journal=48),
        Geometry("same", band=32, data=20, cache=2, ckpt=32, journal=48),
        Geometry("wcache", band=64, data=40, cache=4, meta="separate",
                 ckpt=32, journal=48, options=(("wcache_blocks", 100),)),
    ),
    # A step takes some 50 ms of the platter's time.
    "idle": (
        Geometry("idle", band=64, data=16, cache=4, track=16, head=2,
                 meta="separate", ckpt=32, journal=48),
    ),
    # Bands of three tracks with a guard, as in Skylight's Figure 2.23; what is
    # left at the end is the track of the second superblock.
    "torn": (
        Geometry("torn", band=24, data=8, cache=1, track=8, head=2, tail=7,
                 options=(("commit_ms", 0), ("idle_ms", 0))),
    ),
    "wcache": (
        Geometry("wcache", band=4, data=24, cache=5, ckpt=16,
                 options=(("wcache_blocks", 32), ("destage_ms", 0))),
    ),
    # So small that everything meets: bands are cleaned, and the journal is full, all
    # the time.
    "storm": (
        Geometry("small", band=8, data=24, cache=4, ckpt=16, journal=32),
        Geometry("wcache", band=8, data=24, cache=4, ckpt=16, journal=32,
                 meta="separate", options=(("wcache_blocks", 48), ("destage_ms", 5),
                                           ("idle_ms", 5), ("commit_ms", 10))),
    ),
    "storm-platter": (
        Geometry("guards", band=12, data=40, cache=6, track=4, head=2,
                 meta="separate", ckpt=32, journal=48,
                 options=(("idle_ms", 5), ("commit_ms", 10))),
    ),
    "bitflip": (
        Geometry("apart", band=4, data=12, cache=3, meta="separate"),
        Geometry("same", band=4, data=12, cache=3),
    ),
    "life": (
        Geometry("life", band=16, data=64, cache=8, ckpt=32, journal=32),
    ),
}
