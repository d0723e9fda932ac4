# SPDX-License-Identifier: GPL-2.0
"""The places of a drive's LBNs, by DiskSim's dm_layout_g1."""

import re

from experiments.platter.disksim_words import Problem, above_zero, integer, number, numbers, word

MAX_SURFACES = 32           # of platter-sim
MAX_CYLINDERS = 10 ** 6     # of a zone, because the code iterates over all of them

# Sparing schemes of dm_layout_g1.
(NONE, TRACK, PER_CYL, PER_TRACK, CYL_SLIP, CYL_FRONT, CYL_FRONT_SLIP, AT_END,
 PER_RANGE, PER_ZONE, ZONE_SLIP) = range(11)
# With these schemes a slipped sector shifts the angle of all that follow by one sector.
TURNING = (PER_CYL, PER_TRACK, CYL_SLIP, CYL_FRONT, CYL_FRONT_SLIP)
SCHEMES = (
    "no spares", "tracks at a zone's end", "sectors at a cylinder's end",
    "sectors at a track's end", "sectors at a cylinder's end, not for slips",
    "sectors at a cylinder's front", "sectors at a cylinder's front, not for slips",
    "sectors at the disk's end", "sectors at the end of a range of cylinders",
    "sectors at a zone's end", "sectors at a zone's end, not for slips",
)
MAPPINGS = ("always up", "cylinders up and down, each zone anew", "cylinders up and down")


def cut(extents, first, count):
    """Return @count sectors of consecutive extents, after the first @first sectors."""
    out = []
    for start, length in extents:
        skip = min(first, length)
        first -= skip
        take = min(count, length - skip)
        if take > 0:
            out.append((start + skip, take))
            count -= take
    return out


def without(extents, holes):
    """Return extents without single sectors; both are in ascending order."""
    out, at = [], 0
    for start, length in extents:
        end = start + length
        while at < len(holes) and holes[at] < start:
            at += 1
        while at < len(holes) and holes[at] < end:
            if holes[at] > start:
                out.append((start, holes[at] - start))
            start = holes[at] + 1
            at += 1
        if end > start:
            out.append((start, end - start))
    return out


def skew(text, label):
    """DiskSim rounds a skew down to whole sectors."""
    return int(number(text, label))


def length_of(extents):
    return sum(length for _, length in extents)


class Zone:
    """One dm_layout_g1_zone: the sectors that carry LBNs, in their order."""

    def __init__(self, text, surfaces, scheme, range_cyls):
        self.first_cyl = integer(text, "First cylinder number")
        self.last_cyl = integer(text, "Last cylinder number")
        if not -1 <= self.first_cyl - 1 <= self.last_cyl < MAX_CYLINDERS:
            raise Problem(f"its zone from cylinder {self.first_cyl} to {self.last_cyl} is one "
                          "which no drive has")
        self.cyls = self.last_cyl - self.first_cyl + 1
        self.track = above_zero(integer(text, "Blocks per track"), "Blocks per track")
        self.offset = skew(text, "Offset of first block")
        self.front = integer(text, "Empty space at zone front")
        self.track_skew = skew(text, "Skew for track switch")
        self.cyl_skew = skew(text, "Skew for cylinder switch")
        self.spares = integer(text, "Number of spares")
        self.slips = sorted({int(x) for x in numbers(text, "slips")})
        pairs = [int(x) for x in numbers(text, "defects")]
        if len(pairs) % 2:
            raise Problem("'defects' are not in pairs")
        self.remapped = [(a, b) for a, b in zip(pairs[::2], pairs[1::2]) if a != b]
        self.surfaces, self.scheme, self.range_cyls = surfaces, scheme, range_cyls
        self.cyl = surfaces * self.track
        self.raw = self.cyls * self.cyl

    def lbns(self):
        """Return the number of LBNs, by DiskSim's arithmetic."""
        spared = {
            NONE: 0,
            TRACK: self.spares * self.track,
            PER_CYL: self.spares * self.cyls,
            PER_TRACK: self.spares * self.cyls * self.surfaces,
            CYL_SLIP: self.spares * self.cyls + len(self.slips),
            CYL_FRONT: self.spares * self.cyls,
            CYL_FRONT_SLIP: self.spares * self.cyls + len(self.slips),
            AT_END: len(self.slips),
            PER_RANGE: self.spares * (self.cyls // max(self.range_cyls, 1)),
            PER_ZONE: self.spares,
            ZONE_SLIP: self.spares + len(self.slips),
        }[self.scheme]
        return self.raw - self.front - spared

    def units(self, size, spares, at_front=False):
        """Return the extents of units of @size sectors, each with spares that slips use up."""
        out, slips = [], iter(self.slips + [self.raw])
        slip = next(slips)
        for start in range(0, self.raw, size):
            here = []
            while slip < start + size and slip < self.raw:
                here.append(slip)
                slip = next(slips)
            whole = min(size, self.raw - start)
            good = without([(start, whole)], here)
            left = spares if whole == size else 0
            keep = min(whole - left, length_of(good))
            out += cut(good, length_of(good) - keep if at_front else 0, keep)
        return out

    def data(self):
        """Return the sectors that carry LBNs, from the zone's first, before the front is cut off.
        """
        scheme = self.scheme
        unit = {PER_TRACK: self.track, PER_CYL: self.cyl, CYL_FRONT: self.cyl,
                PER_RANGE: self.cyl * self.range_cyls}.get(scheme)
        if unit:
            return self.units(unit, self.spares, scheme == CYL_FRONT)
        if scheme == TRACK:
            good = without([(0, self.cyls * self.surfaces)], self.slips)
            return [(a * self.track, n * self.track) for a, n in good]
        if scheme in (CYL_SLIP, CYL_FRONT_SLIP):
            skip = self.spares if scheme == CYL_FRONT_SLIP else 0
            return without([(c * self.cyl + skip, self.cyl - self.spares)
                            for c in range(self.cyls)], self.slips)
        return without([(0, self.raw)], [] if scheme == NONE else self.slips)

    def moved(self, extents):
        """Replace remapped sectors by their spares."""
        size = self.track if self.scheme == TRACK else 1
        for bad, spare in self.remapped if self.scheme != NONE else ():
            bad, spare = bad * size, spare * size
            if self.scheme == PER_RANGE:      # spares are numbered within a range
                unit = self.cyl * self.range_cyls
                spare = bad // unit * unit + spare % unit
            out = []
            for start, length in extents:
                if start < bad + size and bad < start + length:
                    low, high = max(start, bad), min(start + length, bad + size)
                    out += [(start, low - start), (spare + low - bad, high - low),
                            (high, start + length - high)]
                else:
                    out.append((start, length))
            extents = [e for e in out if e[1]]
        return extents

    def turned(self, extents):
        """Shift sectors by the angle by which slips turn the tracks after them."""
        if self.scheme not in TURNING or not self.slips:
            return extents
        out = []
        for start, length in extents:
            while length:
                track, sector = divmod(start, self.track)
                before = track if self.scheme == PER_TRACK else \
                    track // self.surfaces * self.surfaces
                turn = sum(s < before * self.track for s in self.slips) % self.track
                sector = (sector + turn) % self.track
                here = min(length, self.track - start % self.track, self.track - sector)
                out.append((track * self.track + sector, here))
                start += here
                length -= here
        return out

    def extents(self):
        data = cut(self.data(), self.front, self.lbns())
        if length_of(data) != self.lbns():
            raise Problem(f"the zone from cylinder {self.first_cyl} on holds "
                          f"{length_of(data)} LBNs, by DiskSim's arithmetic {self.lbns()}")
        moved = self.moved(data)
        ascending = sorted(moved)
        for (start, length), (after, _) in zip(ascending, ascending[1:] + [(self.raw, 0)]):
            if start + length > after:
                raise Problem(f"the zone from cylinder {self.first_cyl} on has a defect "
                              f"whose replacement, up to sector {start + length}, is no spare")
        return self.turned(moved)


class Layout:
    """All zones, and the map from LBNs to sectors of the bare tracks."""

    def __init__(self, model):
        kind = word(model, "Layout Model", "")
        if not kind.startswith("dm_layout_g1"):
            raise Problem(f"its layout is '{kind.split()[0] if kind else 'missing'}'; "
                          "only dm_layout_g1 is known")
        if word(model, "Skew units", "sectors") != "sectors":
            raise Problem("its skews are in revolutions; only sectors are known")
        self.surfaces = integer(model, "Number of data surfaces")
        if not 1 <= self.surfaces <= MAX_SURFACES:
            raise Problem(f"it has {self.surfaces} surfaces; platter-sim takes 1 to "
                          f"{MAX_SURFACES}")
        self.mapping = integer(model, "LBN-to-PBN mapping scheme")
        self.scheme = integer(model, "Sparing scheme used")
        self.range_cyls = integer(model, "Rangesize for sparing")
        if not 0 <= self.mapping < len(MAPPINGS):
            raise Problem(f"mapping scheme {self.mapping} is not known")
        if not NONE <= self.scheme <= ZONE_SLIP:
            raise Problem(f"sparing scheme {self.scheme} is not known")
        if self.scheme == PER_RANGE and self.range_cyls < 1:
            raise Problem("a range for sparing has no cylinders")
        self.zones = [Zone(part, self.surfaces, self.scheme, self.range_cyls)
                      for part in re.split(r"dm_layout_g1_zone\s*{", model)[1:]]
        if not self.zones:
            raise Problem("its layout has no zones")
        for zone, after in zip(self.zones, self.zones[1:]):
            if zone.cyls < 1 or zone.first_cyl + zone.cyls > after.first_cyl:
                raise Problem(f"its zones from cylinders {zone.first_cyl} and "
                              f"{after.first_cyl} on overlap")
        self.lbns = sum(zone.lbns() for zone in self.zones)

    def gap(self, nth):
        """Return the number of cylinders after a zone that belong to no zone."""
        if nth + 1 == len(self.zones):
            return 0
        zone = self.zones[nth]
        return self.zones[nth + 1].first_cyl - zone.first_cyl - zone.cyls

    def map(self):
        lbn, base = 0, self.zones[0].first_cyl * self.zones[0].cyl
        for nth, zone in enumerate(self.zones):
            for start, length in zone.extents():
                yield lbn, base + start, length
                lbn += length
            base += (zone.cyls + self.gap(nth)) * zone.cyl

    def lines(self):
        for nth, zone in enumerate(self.zones):
            cyls = zone.cyls + self.gap(nth) + (zone.first_cyl if not nth else 0)
            yield (f"zone {cyls} {zone.track} {zone.track_skew} {zone.cyl_skew} "
                   f"{zone.offset}")
        for lbn, block, count in self.map():
            yield f"map {lbn} {block} {count}"
