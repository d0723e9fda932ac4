# SPDX-License-Identifier: GPL-2.0
"""For developers: compares the answers with what the target reports about itself.

No test may import this.  It reads tables, superblocks and the platter's geometry of
dm-shingle's targets, and knows that other devices are not shingled.

right       the answer is true; a number is within the tolerance of Truth
wrong       it is not
cannot tell there was an answer to find, and none was given
not judged  there is nothing to compare it with
"""

import json
import math
import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from . import verdict

BLOCK = 4096
CONFIDENT = 0.9         # a wrong answer with this confidence or more is a confident one
# Chance that an honest run is outside of what balls into bins allow.
OUTSIDE = 1e-3
RAM, LOOP = 1, 7        # majors
# Test 14 takes the median of five places, and throughput of tracks in their order.
BORDER, SPEED = 3, 0.01
WIDE = 256 << 20        # bytes of a surface after which the next has its turn
LAYERS = ("stl-set", "stl-full")
# Targets of Linux that put blocks elsewhere: whether that shows depends on the device below.
ELSEWHERE = ("cache", "writecache", "snapshot", "zoned")


# --- balls into bins ------------------------------------------------------------


def above(n, p, most):
    """Chance that of @n trials of chance @p more than @most succeed."""
    if n <= most:
        return 0.0
    if p >= 1:
        return 1.0

    def log_mass(k):
        return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) +
                k * math.log(p) + (n - k) * math.log1p(-p))
    up = most + 1 > n * p       # sum the smaller of the two tails
    k = most + 1 if up else most
    total = mass = math.exp(log_mass(k))
    while mass > total * 1e-12:
        if up:
            if k == n:
                break
            mass *= (n - k) / (k + 1) * p / (1 - p)
            k += 1
        else:
            if k == 0:
                break
            mass *= k / (n - k + 1) * (1 - p) / p
            k -= 1
        total += mass
    return min(1.0, total if up else 1 - total)


def overflowed(n, shares, slots):
    """Chance that after @n uniform random writes one of the bins got more than its slots.

    shares: [(number of bins, share of the writes of each)].  Bins are taken as independent.
    They are not quite: what one bin gets the others lack, so for few bins the chance is a
    little less."""
    stay = 0.0
    for count, share in shares:
        full = above(n, share, slots)
        if full >= 1:
            return 1.0
        stay += count * math.log1p(-full)
    return -math.expm1(stay)


def first_overflow(shares, slots, chance):
    """The number of the write that, with this chance, is the first one too many or behind it."""
    # When all bins are full, the next write is too many for certain.
    low, high = slots, slots * sum(count for count, _ in shares) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if overflowed(middle, shares, slots) < chance:
            low = middle
        else:
            high = middle
    return high


def bins(layout):
    """(shares, slots of a bin) of a layer's layout, see first_overflow()."""
    params, band = layout["params"], layout["band_blocks"]
    blocks = layout["logical_blocks"]
    size = {}
    if "zone-bands" in params:
        zone, spare = params["zone-bands"], params["provision"]
        full, rest = divmod(layout["bands"]["data"], zone)
        each = [zone - spare] * full
        if rest > spare:
            each.append(rest - spare)
        elif full:
            each[-1] += rest
        slots = params["log-bands"] * band
    else:
        n = layout["bands"]["cache"]
        each = [0] * n
        for a in range(layout["bands"]["data"]):
            each[(a >> params.get("set-shift", 0)) % n] += 1
        slots = next(g["band_blocks"] for g in layout["groups"] if g["role"] == "cache")
    for bands in each:
        size[bands] = size.get(bands, 0) + 1
    return [(count, bands * band / blocks) for bands, count in size.items() if bands], slots


# --- what the targets say ---------------------------------------------------------


def _tool(*argv):
    path = shutil.which(str(argv[0]), path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:" +
                        str(Path(__file__).resolve().parents[3] / "build/userspace"))
    if not path:
        return ""
    done = subprocess.run([path, *map(str, argv[1:])], text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True)
    return done.stdout if done.returncode == 0 else ""


def _numbers(path):
    found = os.stat(path).st_rdev
    return os.major(found), os.minor(found)


def _name(path):
    """The device-mapper name of a device, or an empty text."""
    try:
        major, minor = _numbers(path)
        if not stat.S_ISBLK(os.stat(path).st_mode):
            return ""
        return Path(f"/sys/dev/block/{major}:{minor}/dm/name").read_text("utf-8").strip()
    except OSError:
        return ""


def _path(word):
    """A node for MAJOR:MINOR as tables have it."""
    if ":" not in word:
        return word
    kernel = os.path.basename(os.path.realpath(f"/sys/dev/block/{word}"))
    name = Path(f"/sys/dev/block/{word}/dm/name")
    mapped = name.exists() and f"/dev/mapper/{name.read_text('utf-8').strip()}"
    return mapped if mapped and os.path.exists(mapped) else f"/dev/{kernel}"


def words_of(path):
    """(target, arguments) of the only line of a mapped device's table, or ("", [])."""
    lines = _tool("dmsetup", "table", _name(path)).splitlines() if _name(path) else []
    if len(lines) != 1:
        return "", []
    words = lines[0].split()
    return words[2], words[3:]


def setting(arguments, key, otherwise=None):
    """The value behind a key in a table line."""
    return arguments[arguments.index(key) + 1] if key in arguments[:-1] else otherwise


def geometry(path):
    """The tracks as the platter reports them, or {}."""
    text = _tool("dmsetup", "message", _name(path), 0, "geometry")
    return {**shape_of(text), "media": re.search(r"^media (\w+)", text, re.M)[1]} if text else {}


def shape_of(text):
    """The same from platter-sim, which has no medium."""
    zones = []
    for line in re.findall(r"^zone (.*)", text, re.M):
        _, start, blocks, _, track, swath, skew, head = map(int, line.split())
        zones.append({"start": start * BLOCK, "bytes": blocks * BLOCK, "track": track * BLOCK,
                      "swath": swath, "skew": skew, "head": head})
    return {"rotation_ms": int(re.search(r"^rotation_ns (\d+)", text, re.M)[1]) / 1e6,
            "zones": zones,
            "surfaces": int(re.search(r"^surfaces (\d+)", text, re.M)[1])}


def rate(shape, zone):
    """MB/s of a long read within a zone: whole groups of swaths, with the skew between tracks."""
    surfaces, swath = shape["surfaces"], zone["swath"]
    tracks = surfaces * swath
    turned = (surfaces * (swath - 1) * zone["skew"] + surfaces * zone["head"]) / (
        zone["track"] / 512)
    return tracks * zone["track"] / (shape["rotation_ms"] / 1000 * (tracks + turned)) / 1e6


@dataclass
class Truth:
    """value: the truth, for people.  accept(answer) -> bool, or None: no judgement."""
    value: object
    accept: object = None
    more: dict = field(default_factory=dict)    # for programs that print tables
    vague: tuple = ()       # answers that leave the truth open

    def judge(self, finding):
        """right, wrong, cannot tell or not judged."""
        if self.accept is None:
            return "not judged"
        if finding is None or finding.value is None or (
                isinstance(finding.value, str) and finding.value in self.vague):
            return "cannot tell"
        return "right" if self.accept(finding.value) else "wrong"


def exactly(value):
    """Only this value."""
    return Truth(value, lambda found: found == value)


def about(value, share, text=None):
    """A number within a share of this one."""
    return Truth(value if text is None else text,
                 lambda found: not isinstance(found, str) and abs(found - value) <= share * value)


def between(low, high, text):
    """A number from @low to @high."""
    return Truth(text, lambda found: low <= found <= high)


def plain(shape):
    """A drive without a layer."""
    out = {"drive_type": exactly("conventional"), "cache_medium": exactly("none")}
    out.update(mechanics(shape))
    return out


def mechanics(shape, end=None):
    """The mechanics of a platter below; @end: bytes of it that are visible from above."""
    if not shape:
        return {}
    first = shape["zones"][0]
    wide = first["swath"] * first["track"] > WIDE
    return {
        "rotation_ms": about(shape["rotation_ms"], 0.005),
        "track_bytes": about(first["track"], 0.01),
        "zone_profile": profile(shape, end),
        # If all heads are alike a wide swath does not show.
        "serpentine": Truth("wide") if wide else exactly("narrow"),
    }


def profile(shape, end=None):
    """The zones: each plateau must be one of them, at its speed.  A zone with less than a
    hundredth of the visible bytes need not be seen."""
    zones = [z for z in shape["zones"] if end is None or z["start"] < end]
    rates = [rate(shape, z) for z in zones]
    least = len(zones)
    if end is not None and end - zones[-1]["start"] < end / 100:
        least -= 1

    def accept(found):
        speeds = [p.get("mb_s") if isinstance(p, dict) else p[-1] for p in found]
        return least <= len(speeds) <= len(rates) and all(
            abs(a / b - 1) < 0.05 for a, b in zip(speeds, rates))
    return Truth(f"{len(zones)} zones, {rates[0]:.0f} to {rates[-1]:.0f} MB/s", accept)


@dataclass
class Plateaus:
    """The plateaus that Test 14 should show: [(first byte, MB/s)].  Some steps are too small to
    be required; there are @least plateaus without them."""
    stretches: list
    least: int

    def like(self, found, place):
        """Whether @found has no more plateaus than there are, and each [first byte, MB/s] of it
        matches one: its begin within BORDER times the way from one @place to the next, its
        speed within SPEED."""
        begins, rates = zip(*self.stretches)
        if not self.least <= len(found) <= len(begins):
            return False
        at = [min(range(len(begins)), key=lambda i, b=begin: abs(begins[i] - b))
              for begin, _ in found]
        if at[0] or any(b <= a for a, b in zip(at, at[1:])):
            return False
        for (begin, speed), i, j in zip(found, at, [*at[1:], len(begins)]):
            if abs(begins[i] - begin) > BORDER * place or \
                    not min(rates[i:j]) * (1 - SPEED) <= speed <= max(rates[i:j]) * (1 + SPEED):
                return False
        return True


def whole(text, size):
    """Plateaus of the first @size bytes of a drive in the words of platter-sim -z; each must be
    seen."""
    shape = shape_of(text)
    stretches = [(int(first) * BLOCK, rate(shape, {**shape["zones"][int(zone)],
                                                   "track": int(track) * BLOCK}))
                 for first, track, zone in re.findall(r"^stretch (\d+) \d+ (\d+) (\d+)", text,
                                                      re.M) if int(first) * BLOCK < size]
    return Plateaus(stretches, len(stretches))


def medium_of(word):
    """disk or flash, for a device that holds a cache."""
    path = _path(word)
    kind, arguments = words_of(path)
    if kind == "platter":
        return "flash" if setting(arguments, "timing") == "none" else "disk"
    if _numbers(path)[0] == RAM:
        return "flash"
    rotates = Path(f"/sys/dev/block/{word}/queue/rotational")
    return "disk" if rotates.exists() and rotates.read_text("utf-8").strip() == "1" else "flash"


def layout_of(arguments):
    """The output of shingle dump for an open device's superblock."""
    data, cache, meta = arguments[:3]
    more = ["--cache", _path(cache)] if cache != "-" else []
    more += ["--meta", _path(meta)] if meta != "-" else []
    text = _tool("shingle", "dump", "--json", *more, _path(data))
    return json.loads(text) if text else {}


def reach(layout):
    """Bytes of the data device up to the end of the data bands, or None."""
    ends = [g["start"] + g["stride"] * g["bands"] for g in layout.get("groups", ())
            if g["role"] == "data"]
    return max(ends) * BLOCK if ends else None


def place_of_cache(layout):
    """The end of the data device the cache bands are at."""
    groups = layout["groups"]
    data = min(g["start"] for g in groups if g["role"] == "data")
    cache = min(g["start"] for g in groups if g["role"] == "cache")
    return "single-id" if cache > data else "single-od"


def layered(kind, arguments):
    """A translation layer of dm-shingle."""
    layout, cleaning = layout_of(arguments), setting(arguments, "cleaning")
    shape = geometry(_path(arguments[0]))
    full = kind == "stl-full"
    out = {"drive_type": exactly("shingled"), **mechanics(shape, reach(layout))}
    out["drive_type"].vague = ("translated",)
    medium = medium_of(arguments[1] if arguments[1] != "-" else arguments[0])
    out["cache_medium"] = exactly(medium)
    cleaning = cleaning or ("aggressive" if full else "lazy")
    idle = int(setting(arguments, "idle_ms", 1000 if full else 0))
    if cleaning == "aggressive" and not idle:
        cleaning = "lazy"
    out["cleaning_type"] = exactly(cleaning)
    out["mapping"] = exactly("dynamic" if full else "static")
    # Sets use a slot for each write; in zones, logs that are stale become free.
    out["write_unit_bytes"] = exactly(BLOCK)
    out["log_structure"] = exactly("circular" if full else "append")
    order = setting(arguments, "order", "fifo")
    out["cleaning_order"] = Truth(order)
    if cleaning == "aggressive":
        out["clean_idle_ms"] = about(idle, 0.1)
        out["cleaning_order"] = exactly("fifo" if order == "fifo" else "other")
    bypass = int(setting(arguments, "bypass_blocks", 0))
    if bypass:
        out["streaming_bytes"] = about(bypass * BLOCK, 0.05)
    elif not full:
        out["streaming_bytes"] = exactly("none")
    if "inplace" not in arguments and not (bypass and "unsafe_bypass" in arguments):
        out["torn_writes"] = Truth(False, lambda found: found in (False, "no", "none"))
    elif shape.get("media") == "smr":
        # On a medium without overlap, blocks stay whole.
        out["torn_writes"] = exactly(True)
    if not layout:
        return out
    out["band_bytes"] = exactly(layout["band_blocks"] * BLOCK)
    if full:
        # A band that is written whole and in order is home.
        out["streaming_bytes"] = out["band_bytes"]
        zones = -(-layout["bands"]["data"] // layout["params"]["zone-bands"])
        out["cache_layout"] = Truth(f"multiple ({zones})", (
            lambda found: found == "multiple") if zones > 2 else None)
    elif medium == "disk":
        out["cache_layout"] = exactly(place_of_cache(layout))
    out.update(sizes(layout))
    return out


def sizes(layout):
    """Sizes of the cache.  The first full bin is the cliff; an estimate of the others from that
    is wrong by as much as the cliff itself varies."""
    low, high, slots = cliff(layout)
    middle = first_overflow(*bins(layout), 0.5)
    most = slots * high / middle
    text = (f"{slots * BLOCK} bytes; one bin is full between write {low} and {high} "
            f"({100 * low / slots:.1f} to {100 * high / slots:.1f} %)")
    raw = between(low * BLOCK, most * BLOCK, text)
    raw.more = {"cliff": [low, high, slots]}
    return {"raw_bytes": raw, "writes_until_cleaning": between(low - 1, high, text),
            "cache_bytes": between(low * BLOCK, most * BLOCK, text),
            "map_entries": between(low, most, f"{slots} slots; {text}")}


def cliff(layout):
    """(low, high, slots): the range in which Test 6 must see the cliff, and all slots."""
    shares, slots = bins(layout)
    return (first_overflow(shares, slots, OUTSIDE / 2),
            first_overflow(shares, slots, 1 - OUTSIDE / 2),
            slots * sum(count for count, _ in shares))


def of(path):
    """{name: Truth} of a device."""
    kind, arguments = words_of(path)
    if kind in LAYERS:
        return layered(kind, arguments)
    if kind == "platter":
        shape = geometry(path)
        if shape.get("media") != "cmr":
            return mechanics(shape)
        return plain(shape)
    if kind in ELSEWHERE:
        return {"drive_type": Truth("not shingled", lambda said: said != "shingled")}
    if kind or _numbers(path)[0] in (RAM, LOOP):
        return plain({})
    return {}


# --- marks ------------------------------------------------------------------------


def marks(truths, answers):
    """{name: {mark, truth, value, confidence}}."""
    out = {}
    for name in [*truths, *(n for n in answers if n not in truths)]:
        known, finding = truths.get(name, Truth(None)), answers.get(name)
        out[name] = {"mark": known.judge(finding), "truth": known.value,
                     "value": finding and finding.value,
                     "confidence": finding.confidence if finding else 0.0, **known.more}
    return out


def confidently_wrong(entries):
    """Names of answers that are wrong with confidence."""
    return [name for name, e in entries.items()
            if e["mark"] == "wrong" and e["confidence"] >= CONFIDENT]


def write(s):
    """Marks the answers of a session, into truth.json; yields lines."""
    entries = marks(of(s.dev.path), verdict.answers(s.results))
    (s.out / "truth.json").write_text(json.dumps(entries, indent=1, default=str) + "\n",
                                      encoding="utf-8")
    for name, e in entries.items():
        if e["mark"] != "not judged":
            yield (f"truth: {name}: {e['mark']}" +
                   (f": {e['value']}, and is {e['truth']}" if e["mark"] == "wrong" else ""))
