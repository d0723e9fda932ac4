# SPDX-License-Identifier: GPL-2.0
"""The targets under test, one class each.  A class says which devices its target needs, how they
are formatted, which table line it takes and how it is checked, so that a new translation layer
takes part in the suites as soon as it is in TARGETS.

The layouts are calculated here independently of the tool, as a check of both."""

import json
import os
import re
import struct
from dataclasses import dataclass, field, replace

from guest import blk
from guest import dm
from guest import ondisk
from guest.bench import TOP, expect, run
from guest.blk import SECTORS

SHINGLE = os.path.join(TOP, "build/userspace/shingle")


@dataclass(frozen=True)
class Geometry:
    """The layout of a device, in 4 KiB blocks."""
    name: str
    band: int = 3           # blocks in a band
    data: int = 3           # data bands
    cache: int = 2          # cache bands
    staging: int = 1
    set_shift: int = 0
    cache_band: int = 0     # blocks in a cache band, 0: as in other bands
    meta: str = "same"      # or "separate"
    cache_on: str = "same"  # or "separate"
    staging_on: str = "same"    # or "cache", in front of the cache, as `shingle format` does
    track: int = 0          # blocks in a track, 0: no tracks
    head: int = 1           # tracks under the write head
    journal: int = 24
    gap: int = 0            # blocks of the journal that a write there destroys ahead of it
    ckpt: int = 8           # blocks in a checkpoint slot
    tops: bool = False      # imr: metadata on tops, each checkpoint slot on several of them
    tail: int = 0           # blocks after the last band
    places: int = 0         # tiler: blocks of a region, 0: a third more than it presents
    columns: int = 0        # tiler: blocks of a region on each track, 0: whole tracks
    skew: int = None        # blocks by which a track is shifted against the one before;
                            # None: the tool asks the medium for it
    home: bool = False      # stl-log: a home in front of a log of the same size
    extents: int = 0        # stl-log: extents of the map, 0: as many as it presents blocks
    new: int = 0            # dualbuffer: percent of the persistent cache for new data in a
                            # round; 0: the engine predicts it
    raises: tuple = ()      # counters that random loads must raise
    medium: str = "ram"     # see bench.Pool
    options: tuple = ()     # keys of the table line: (("commit_ms", 0),)
    features: tuple = ()

    @property
    def stride(self):
        """Blocks from the start of a band to the start of the next: with tracks, the band is
        rounded up to whole tracks and followed by head - 1 guard tracks."""
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
    """dm-linear: a control, with which no suite may find an error, and the defaults of the other
    classes."""
    name = "linear"
    persistent = False      # has no metadata to check or damage
    modules = ()
    messages = ()
    features = ()
    unsafe = ()             # features that may cost data in a power cut
    shown_by = {}           # {unsafe feature: {case: (geometry, load) that shows it}}
    in_place = True         # overwrites a block in its place
    gathers = False         # holds writes until many can be written together
    cleans = True           # cleans band by band, and counts bands
    medium = "smr"          # the platter's media key
    caches_all = True       # a write to any place is cached first
    forgets_blocks = False  # discards single blocks, not only whole bands
    paged = False           # its map is in pages
    angles = False          # needs to know which blocks lie at one angle of its medium
    has_home = True         # blocks have a place to which cleaning returns them
    streams = False         # a sequential fill causes no further writes
    cleans_when_idle = False
    keys = ()               # (key, a value that is not the default)
    by_table = ("wcache_blocks",    # keys that a message cannot change, at least not on
                "bypass_blocks", "rotational")      # every device
    variants = {}           # {suite: geometries that only this target has}
    one_length = False      # all tracks of its medium have one length
    shapes = {}             # {name: (options of `shingle create`, counters that a load must
                            # raise)} for media with several surfaces

    def sizes(self, geo):
        """Return the blocks of each device that the target needs, 0 for none."""
        return {"data": geo.logical, "cache": 0, "meta": 0}

    def areas(self, geo):
        """Return {role: (device, first block, blocks)} of areas that a test can damage."""
        return {"data": ("data", 0, geo.logical)}

    def headers(self, geo):
        """Return {device: its header blocks} for devices without a superblock.  A header names the
        target that owns the device."""
        return {}

    def begins(self, geo):
        """Return {device: the first block after its header and the blocks that the target leaves
        free beside it} for the devices of headers()."""
        return {}

    def destroys(self, geo):
        """Return None, or a function from a data block to the extents that writing it destroys:
        block -> [(first, blocks)]."""
        return None

    def format(self, paths, geo):
        pass

    def table(self, paths, geo):
        return [(0, geo.logical * SECTORS, "linear", f"{paths['data']} 0")]

    def check(self, paths, geo):
        return 0, ""

    def torn_by(self, geo):
        """Return the unsafe features with which a torn write to this geometry must lose data, and
        for which no case of `replay` (shown_by) shows the loss."""
        return tuple(f for f in self.unsafe if f not in self.shown_by)

    def lacks(self, geo):
        """Return the message with which a table of this geometry fails on the running kernel, or
        None if it does not fail."""
        return None

    def state(self, device):
        return "rw"

    def geometry(self, suite):
        return GEOMETRIES[suite] + self.variants.get(suite, ())

    def on_medium(self, geo):
        """Return a geometry with the skew of its medium, for targets that need it."""
        return geo.but(skew=3) if self.angles and geo.track and geo.skew is None else geo


class StlSet(Linear):
    """The set-associative layer, and the on-disk layout that the classes below share."""
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
            # Reads must avoid blocks that the head has destroyed.
            Geometry("habitguards", band=60, data=30, cache=4, track=16,
                     head=2, meta="separate", ckpt=64, journal=64,
                     options=(("bypass_blocks", 32), ("read_home", "always"))),
            # One log for all bands, emptied block by block.
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
        """unsafe_bypass tears only streams, the other features only other writes."""
        streams = "bypass_blocks" in dict(geo.options)
        return tuple(f for f in super().torn_by(geo) if (f == "unsafe_bypass") == streams)

    @staticmethod
    def _bands_from(geo):
        """Return the first block of the bands on the data device: after the metadata, at the start
        of a track, and where a write of block 0 does not destroy it."""
        if geo.meta == "separate":
            return geo.head * geo.track if geo.track else 1
        at = 1 + 2 * geo.ckpt + geo.journal
        return -(-at // geo.track) * geo.track if geo.track else at

    def _plan(self, geo):
        """Return the arguments of ondisk.superblock() for a geometry."""
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
        # With a header at the end, give it a track, so that the device has whole tracks.
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
                if not disk.read(0).strip(b"\0"):       # a device that stores nothing
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
        """Run `shingle check`; return (status, output)."""
        if os.environ.get("SHINGLE_NO_CHECK"):      # set while there is no tool yet
            return 0, ""
        return run(SHINGLE, "check", *self._devices(paths, geo), ok=None)

    def tool_opens(self, paths, geo, name):
        """Activate as device @name with `shingle open`; return the output."""
        return run(SHINGLE, "open", "--no-udev", *self._devices(paths, geo), name)[1]

    def repair(self, paths, geo, asked=False):
        """Run `shingle repair`; return (status, output).

        @asked: answer its prompt with y instead of giving --yes."""
        if asked:
            return run("sh", "-c", 'echo y | "$@"', "sh", SHINGLE, "repair",
                       *self._devices(paths, geo), ok=None)
        return run(SHINGLE, "repair", "--yes", *self._devices(paths, geo),
                   ok=None)

    def dump(self, paths, geo, *more):
        """Return the metadata of a closed stack, as `shingle dump` prints them."""
        _, text = run(SHINGLE, "dump", "--json", *more, *self._devices(paths, geo))
        return json.loads(text)

    def lies(self, paths, geo):
        """Return {logical block: (device, block)} of a closed stack, as recovery finds it."""
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
    """Remove the groups without bands (cache and staging), and present what @geo presents rather
    than what the bands would hold."""
    plan["groups"] = [g for g in plan["groups"] if g[4]]
    plan["logical"] = geo.logical


def add_pages(plan, apart, pages):
    """Add blocks for pages of the map in front of the last superblock: on a metadata device, which
    grows by them, or in the tail reserved for them."""
    if apart:
        start = plan["devs"][2] - 1
        plan["devs"][2] += pages
    else:
        start = plan["devs"][0] - 1 - pages
    plan["pages"] = (start, pages)


class Fitted(StlSet):
    """A layer that adapts the geometries made for stl-set, by its _fit()."""

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

    def _devices(self, paths, geo):
        return super()._devices(paths, self._fit(geo))


class StlFull(Fitted):
    """The fully-associative layer; a geometry's cache bands are the log bands of each zone."""
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
        """Return the physical bands of a zone, how many of them are over-provisioning, and the
        number of zones."""
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

    @staticmethod
    def _fit(geo):
        """Adapt a geometry made for stl-set: no cache on another device, room in a checkpoint for
        a piece of every log, and a longer journal, as a write has up to four records."""
        return geo.but(cache_on="same", ckpt=geo.ckpt + 2 * geo.cache,
                       journal=2 * geo.journal)


class StlLog(Fitted):
    """The log-structured layer; a geometry's cache bands are the reserve of the log."""
    name = "stl-log"
    # The exerciser shows what it costs: a checkpoint of several pieces must be under way.
    features = ("unsafe_no_rest",)
    unsafe = ()
    keys = (("clean", "greedy"), ("threshold", 3), ("defrag_frags", 2), ("defrag_hits", 3),
            ("defrag_blocks", 64), ("look_behind", 5), ("look_ahead", 6), ("look_regions", 2),
            ("selective", "on"), ("read_cache_kb", 64), ("idle_ms", 7), ("wcache_blocks", 9),
            ("destage_ms", 5), ("rotational", "off"))
    by_table = (*Linear.by_table, "look_regions", "read_cache_kb")
    shapes = {"": (("--band", "512K"), ("bands_cleaned",))}
    forgets_blocks = True
    caches_all = False
    has_home = False
    streams = True
    joining = ("joined_extents",)
    # All remedies for the seeks of reads, with caches that are much smaller than the log.
    remedies = (("defrag_frags", 2), ("look_behind", 3), ("look_ahead", 4), ("look_regions", 2),
                ("selective", "on"), ("read_cache_kb", 64))
    variants = {
        "replay": (Geometry("remedies", band=8, data=24, cache=4,
                            options=(*remedies, ("idle_ms", 5))),
                   Geometry("remedieswcache", band=8, data=12, cache=3, home=True,
                            options=(*remedies, ("wcache_blocks", 24), ("destage_ms", 20))),
                   Geometry("home", band=5, data=12, cache=3, home=True),
                   Geometry("few", band=16, data=12, cache=3, extents=20, journal=24,
                            options=(("clean", "greedy"), ("idle_ms", 5))),
                   Geometry("guards", band=8, data=12, cache=3, track=4, head=2, journal=24,
                            meta="separate", options=(("idle_ms", 5), ("threshold", 5)))),
        "counters": (Geometry("few", band=32, data=20, cache=3, meta="separate", ckpt=32,
                              journal=48, extents=100, raises=joining),),
        "torn": (Geometry("home", band=24, data=5, cache=3, track=8, head=2, tail=7, home=True,
                          options=(("commit_ms", 0), ("idle_ms", 0))),),
        "fio": (Geometry("remedies", band=64, data=100, cache=10, ckpt=64, journal=64,
                         options=remedies),),
        "faults": (Geometry("remedies", band=4, data=12, cache=3, meta="separate", journal=24,
                            options=remedies),),
        "stress": (Geometry("remedies", band=8, data=24, cache=4, ckpt=16, journal=32, home=True,
                            options=(*remedies, ("wcache_blocks", 24), ("destage_ms", 5),
                                     ("idle_ms", 5), ("commit_ms", 10))),),
    }

    @staticmethod
    def _reserve(geo):
        return max(3, geo.cache) + 2

    def _plan(self, geo):
        geo = self._fit(geo)
        bands = geo.data * (1 + geo.home) + self._reserve(geo)
        plan = super()._plan(geo.but(data=bands, cache=0, staging=0))
        data_only(plan, geo)
        plan["params"] = struct.pack("<IIII", geo.data * geo.home, self._reserve(geo),
                                     geo.extents or geo.logical, 0)
        return plan

    @staticmethod
    def _fit(geo):
        """Adapt a geometry made for stl-set: no cache on another device, room in a checkpoint for
        the pieces of the extent map, and a longer journal, as a step has up to 193 records."""
        if geo.cache_on == "same" and geo.staging == 0:
            return geo
        extents = (geo.extents or geo.logical) + geo.data * 2 + StlLog._reserve(geo) + 64
        return geo.but(cache_on="same", staging=0, ckpt=max(geo.ckpt, 4 + -(-extents // 336)),
                       journal=max(2 * geo.journal, 24))


NAIVE = (("rmw", "naive"), ("policy", "seq"))


class Imr(StlSet):
    """Interlaced tracks: a geometry's band is a track, and its cache bands are the backup slots,
    which lie on tops in front of the data."""
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
    # Each feature is shown with both algorithms of rewriting.  With policy=seq all bottoms except
    # the first have a top in use beside them, so that rewriting one needs syncs; two successive
    # bottoms use different slots; and tracks are discarded and reallocated before a commit.
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
            # A map of several chunks; a top has two blocks.
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
            # The metadata lie on the interlaced medium, where a bottom destroys its tops.
            Geometry("tops", band=4, data=1200, cache=6, ckpt=8, journal=4,
                     tops=True, options=(("buffer_tracks", 16),)),
        ),
        # A checkpoint slot with chunks on both of its tops.
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
        # Whole tracks; the last block, a superblock or header, lies on a top without other data.
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
        """Return the first blocks of the two checkpoint slots, which stretch over several tops."""
        return 3 * geo.band, 3 * geo.band + 2 * geo.ckpt

    def begins(self, geo):
        # The first backup slot is a top; the bottom before it is not used.
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
    """Return the conventional extents of the data device, where the metadata lie and a write
    destroys nothing: ((first block, blocks), ...).

    @first: the first block of the bands."""
    blocks = plan["devs"][0] // geo.track * geo.track
    end = max(g[2] + g[3] * g[4] for g in plan["groups"] if g[1] == ondisk.DEV_DATA)
    return () if geo.meta == "separate" else tuple(
        (at, n) for at, n in ((0, first), (end, blocks - end)) if n > 0)


def behind(geo, blocks, plain=()):
    """Return a function from a block to the extents that writing it destroys: the blocks at the
    same angle on the tracks after it that the head covers.  None if a write destroys nothing.

    @blocks: length of the device
    @plain: extents in which a write destroys nothing."""
    track = geo.track

    def gone(block):
        if any(at <= block < at + n for at, n in plain):
            return []
        row, column = divmod(block, track)
        return [(r * track + (column - (r - row) * (geo.skew or 0)) % track, 1)
                for r in range(row + 1, min(row + geo.head, blocks // track))]
    return gone if track and geo.head > 1 else None


class Tiler(Fitted):
    """Autonomous regions.  A geometry's band is the part of a region that it presents; the device
    has one region more than the geometry has bands."""
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
    # As few page frames and regions in memory as the target allows.
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
                   # Lazy writes with columns of several blocks, of one block, and of a track.
                   Geometry("combs", band=12, places=24, data=3, journal=48, track=18, columns=4,
                            head=3, skew=5, meta="separate", raises=lazily),
                   Geometry("column", band=6, places=12, data=7, journal=48, track=8, columns=1,
                            head=3, skew=3, meta="separate", options=tight, raises=lazily),
                   Geometry("turned", band=12, places=24, data=3, journal=48, track=4, head=3,
                            skew=1, meta="separate", raises=lazily)),
        # More pages than frames, and more writes than any log can hold.
        "counters": (Geometry("combs", band=24, places=32, data=39, cache=30, track=16, columns=4,
                            head=3, skew=5, meta="separate", ckpt=32, journal=48,
                            options=tight, raises=(*lazily, *paging)),
                   Geometry("samepages", band=32, places=32, data=40, ckpt=32, journal=48,
                            options=tight, raises=paging)),
        # Several regions beside each other on the same tracks, each with columns of several blocks
        # or of one.
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
        "stress-platter": (Geometry("combs", band=12, places=24, data=39, track=16, columns=4,
                                   head=3, meta="separate", ckpt=32, journal=48,
                                   options=(*tight, ("idle_ms", 5), ("commit_ms", 10))),),
    }

    @staticmethod
    def _fit(geo):
        """Adapt a geometry made for stl-set: no cache and no staging, and metadata of a minimum
        size."""
        return geo.but(cache_on="same", cache=0, staging=0,
                       ckpt=max(geo.ckpt, 8), journal=max(geo.journal, 24))

    @staticmethod
    def _blocks(geo):
        """Return the blocks of a region, rounded up to whole rows, and the part of them that is
        over-provisioning, in permille."""
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
        """For "torn" only geometries with whole tracks of pages, because the metadata are on the
        medium."""
        return self.variants[suite] if suite == "torn" else super().geometry(suite)

    def destroys(self, geo):
        """As behind(); an unknown skew is taken for 0."""
        return behind(geo, self._plan(geo)["devs"][0])

    def format(self, paths, geo):
        """Format with the tool if the geometry leaves the skew to the medium."""
        if not geo.columns or geo.skew is not None:
            super().format(paths, geo)
            return
        places, over = self._blocks(geo)
        run(SHINGLE, "format", self.name, "--force", "--columns", geo.columns,
            "--over-permille", over, "--band", f"{places // geo.columns * geo.track * 4}K",
            *self._devices(paths, geo))


class Dualbuffer(StlSet):
    """A persistent cache of two buffers: all cache bands of a geometry form one cache of twice
    their length, because half of it may hold kept blocks."""
    name = "dualbuffer"
    angles = True
    modules = ("dm-shingle", "dm-dualbuffer")
    features = ("unsafe_switch", "unsafe_inplace")
    unsafe = features
    messages = (*StlSet.messages, "rounds")
    keys = (("fit", "sat"), ("ratchet", "off"), ("ageing", "off"), ("idle_ms", 7),
            ("wcache_blocks", 9), ("destage_ms", 5), ("rotational", "off"))
    # A head of three tracks, which covers both parts of the cache.
    wide = {"band": 6, "data": 16, "cache": 1, "cache_band": 48, "track": 12, "head": 3,
            "skew": 5, "meta": "separate", "journal": 48}
    # Bands of two tracks; writing the first destroys the second.
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
        "stress-platter": (Geometry("angles", band=12, data=40, cache=1, cache_band=96, track=12,
                                   head=3, skew=5, meta="separate", ckpt=32, journal=48,
                                   options=(("idle_ms", 5), ("commit_ms", 10))),),
    }

    def geometry(self, suite):
        """For "torn" only geometries with known columns, because the metadata are on the medium;
        the skew is always known."""
        found = self.variants[suite] if suite == "torn" else super().geometry(suite)
        return tuple(map(self.on_medium, found))

    @staticmethod
    def _fit(geo):
        """Adapt a geometry made for stl-set: one cache band, of whole tracks if there are tracks,
        otherwise of at least 12 blocks."""
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
        """Return the blocks at the same angle on the tracks after it."""
        return behind(geo, self._plan(geo)["devs"][0])


class Rmwf(Fitted):
    """Flash beside a shingled disk.  The cache of every geometry becomes a flash device, and bands
    get tracks: without tracks a write destroys nothing, and the engine never uses the flash."""
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
        "stress-platter": (Geometry("angles", band=24, data=20, cache=1, cache_band=60, track=6,
                                   head=3, skew=4, meta="separate", ckpt=32, journal=48,
                                   options=(("commit_ms", 10),)),),
    }

    def geometry(self, suite):
        """For "torn" only its own geometries; every geometry gets a skew, which the engine needs.
        """
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
        geo = self._fit(geo)
        plan = self._plan(geo)
        return behind(geo, plan["devs"][0], plain_of(geo, plan, self._bands_from(geo)))


class Comb(StlSet):
    """A log in two combs, an engine of tests/ that no tool knows."""
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
        """A band holds one tooth of each comb, so far from the next tooth that a write does not
        destroy it.  A quarter of the teeth is over-provisioning."""
        pitch = geo.track * geo.head if geo.track else 2
        teeth = geo.logical // 3 * 4 + geo.logical % 3
        plan = super()._plan(geo.but(band=pitch + 1, data=teeth, cache=0, staging=0))
        data_only(plan, geo)
        plan["params"] = struct.pack("<I", pitch)
        return plan

    def check(self, paths, geo):
        return 0, ""


class Paged(StlSet):
    """Regions of two bands with a map in pages, an engine of tests/ that only shingle-toys knows.
    A geometry's band is the part of a region that it presents: three quarters of one of its two
    bands."""
    name = "paged"
    modules = ("dm-shingle", "shingle-paged")
    paged = True
    features = ()
    unsafe = ()
    keys = (("map_cache_kb", 64), ("idle_ms", 7), ("wcache_blocks", 9), ("destage_ms", 5),
            ("rotational", "off"))
    # As few frames as the target allows: 8.
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


TARGETS = {row.name: row for row in (Linear(), StlSet(), StlFull(), StlLog(), Imr(), Tiler(), Dualbuffer(), Rmwf(), Comb(),
                                   Paged())}


@dataclass
class Stack:
    """A target on its devices, which a suite formats once and activates (open) and removes (close)
    as often as it needs.

    @paths: {device: path}; @device: the active target, None while closed."""
    target: object
    geo: Geometry
    paths: dict
    under: list = field(default_factory=list)   # devices below the paths
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
        """Have the engine check its own invariants, if the target has the message for that."""
        if "verify" in self.target.messages:
            self.device.message("verify")

    def bypassed(self):
        """Expect that the load raised the counters in geo.raises and, if the geometry has a
        bypass, that some blocks bypassed the cache: otherwise the load has not tested what the
        geometry is for.  Return these counters."""
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
        """Expect that `shingle check` finds no error in the closed stack."""
        status, text = self.target.check(self.paths, self.geo)
        expect(status == 0, f"shingle check ended with {status}: "
                            f"{text.strip()[-600:]}")


def stack(pool, target, geo, formatted=True, name="under"):
    """Return a new closed stack on slices of the pool's medium for @geo.

    @formatted: format it as well
    @name: prefix of the slices' names."""
    under, paths = [], {}
    for which, blocks in target.sizes(geo).items():
        if blocks:
            under.append(pool.on(geo.medium).slice(blocks, f"{name}-{which}"))
            paths[which] = under[-1].path
    made = Stack(target, geo, paths, under)
    if formatted:
        made.format()
    return made


# The geometries of the suites.  Names are stable: test reports quote them.
GEOMETRIES = {
    # 76 KiB between the headers, as in Skylight's own tests.  Counted from behind the first header:
    # data bands at blocks 0-8, the staging band at 9, cache bands at 12 and 15.
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
    # Metadata on another device, because this medium has no conventional tracks.
    "fio-platter": (
        Geometry("guards", band=60, data=80, cache=8, track=16, head=2,
                 meta="separate", ckpt=64, journal=64),
        Geometry("widehead", band=50, data=60, cache=6, track=12, head=3,
                 meta="separate", ckpt=64, journal=64),
    ),
    "fs": (
        # Large enough for the smallest btrfs and xfs, with a cache small enough to keep cleaning
        # going.
        Geometry("fs", band=64, data=1536, cache=4, ckpt=64, journal=128),
    ),
    "faults": (
        Geometry("faults", band=4, data=12, cache=3, cache_on="separate",
                 meta="separate", journal=12),
        Geometry("wcache", band=4, data=12, cache=3, cache_on="separate",
                 meta="separate", journal=12,
                 options=(("wcache_blocks", 16), ("destage_ms", 0))),
    ),
    # Metadata on another device, so that the data device receives only data; or on the same device,
    # where the suite counts them as well.
    "counters": (
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
    # Bands of three tracks with a guard, as in Skylight's Figure 2.23; tail completes the track of
    # the second superblock.
    "torn": (
        Geometry("torn", band=24, data=8, cache=1, track=8, head=2, tail=7,
                 options=(("commit_ms", 0), ("idle_ms", 0))),
    ),
    "wcache": (
        Geometry("wcache", band=4, data=24, cache=5, ckpt=16,
                 options=(("wcache_blocks", 32), ("destage_ms", 0))),
    ),
    # So small that the engine is always cleaning and the journal is nearly always full.
    "stress": (
        Geometry("small", band=8, data=24, cache=4, ckpt=16, journal=32),
        Geometry("wcache", band=8, data=24, cache=4, ckpt=16, journal=32,
                 meta="separate", options=(("wcache_blocks", 48), ("destage_ms", 5),
                                           ("idle_ms", 5), ("commit_ms", 10))),
    ),
    "stress-platter": (
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
