# SPDX-License-Identifier: GPL-2.0
"""A drive as DiskSim 4 describes it, turned into a geometry file for platter-sim.

A drive NAME is NAME.trace; NAME.diskspecs, which names the .model; the .model,
which names the .seek; and NAME.parv, which has the bus.  Each plain or .xz.
Whatever cannot be followed to the letter is a Problem, in one sentence; what is
not modelled but does not stop the comparison goes into Drive.notes.
"""

import lzma
import math
import re

# Sparing schemes of dm_layout_g1.
(NONE, TRACK, PER_CYL, PER_TRACK, CYL_SLIP, CYL_FRONT, CYL_FRONT_SLIP, AT_END,
 PER_RANGE, PER_ZONE, ZONE_SLIP) = range(11)
# In these a slipped sector turns all that follows by one sector.
TURNING = (PER_CYL, PER_TRACK, CYL_SLIP, CYL_FRONT, CYL_FRONT_SLIP)
MAPPINGS = (0, 1, 2)

# What switches on something that is not modelled here.
UNMODELLED = [
    "Allow almost read hits", "Allow sneaky full read hits",
    "Allow sneaky partial read hits", "Allow sneaky intermediate read hits",
    "Allow write prebuffering", "Preseeking level", "Read any free blocks",
    "Minimum read-ahead (blks)", "Immediate buffer write", "Disconnect write if seek",
    "Percent error in rpms",
]
# What is modelled as if it were on.
ALWAYS = ["Enable caching in buffer", "Allow read hits on write data",
          "Immed transfer partial hit"]


class Problem(Exception):
    """Why a drive cannot be compared."""


class Folder:
    """Files, plain or compressed, by their plain name."""

    def __init__(self, path):
        self.path = path
        self.names = sorted({p.name[:-3] if p.suffix == ".xz" else p.name
                             for p in path.iterdir() if p.is_file()})

    def __contains__(self, name):
        return name in self.names

    def ending(self, suffix):
        return [n for n in self.names if n.endswith(suffix)]

    def read(self, name):
        plain = self.path / name
        if plain.exists():
            return plain.read_text(encoding="latin-1")
        with lzma.open(self.path / (name + ".xz"), "rt", encoding="latin-1") as packed:
            return packed.read()

    def parameters(self, name):
        return re.sub(r"#.*", "", self.read(name))


def word(text, label, default=None):
    found = re.search(rf"(?:^|[{{,\n])\s*{re.escape(label)}\s*=\s*([^,\n\]}}]+)", text)
    if found:
        return found[1].strip()
    if default is None:
        raise Problem(f"'{label}' is missing in the description")
    return default


def number(text, label, default=None):
    value = word(text, label, None if default is None else str(default))
    try:
        return float(value)
    except ValueError:
        raise Problem(f"'{label}' is '{value}', not a number") from None


def integer(text, label, default=None):
    return int(number(text, label, default))


def numbers(text, label):
    found = re.search(re.escape(label) + r"\s*=\s*\[(.*?)\]", text, re.S)
    return [float(x) for x in found[1].split(",") if x.strip()] if found else []


def cut(extents, first, count):
    """Of consecutive extents, what begins after so many sectors."""
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
    """Extents with single sectors taken out; both ascending."""
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


def length_of(extents):
    return sum(length for _, length in extents)


class Zone:
    """One dm_layout_g1_zone: which of its sectors carry LBNs, in their order."""

    def __init__(self, text, surfaces, scheme, range_cyls):
        self.first_cyl = integer(text, "First cylinder number")
        self.cyls = integer(text, "Last cylinder number") - self.first_cyl + 1
        self.track = integer(text, "Blocks per track")
        self.offset = number(text, "Offset of first block")
        self.front = integer(text, "Empty space at zone front")
        self.track_skew = number(text, "Skew for track switch")
        self.cyl_skew = number(text, "Skew for cylinder switch")
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
        """How many LBNs, by DiskSim's arithmetic."""
        spared = {
            NONE: 0,
            TRACK: self.spares * self.track,
            PER_CYL: self.spares * self.cyls,
            PER_TRACK: self.spares * self.cyls * self.surfaces,
            CYL_SLIP: self.spares * self.cyls + len(self.slips),
            CYL_FRONT: self.spares * self.cyls,
            CYL_FRONT_SLIP: self.spares * self.cyls + len(self.slips),
            AT_END: len(self.slips),
            PER_RANGE: self.spares * (self.cyls // self.range_cyls),
            PER_ZONE: self.spares,
            ZONE_SLIP: self.spares + len(self.slips),
        }[self.scheme]
        return self.raw - self.front - spared

    def units(self, size, spares, at_front=False):
        """Units of so many sectors, with spares of their own that slips use up."""
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
        """The sectors that carry LBNs, from the zone's first, before the front is cut."""
        scheme, all_of_it = self.scheme, [(0, self.raw)]
        if scheme == NONE:
            return all_of_it
        if scheme == TRACK:
            tracks = self.cyls * self.surfaces
            good = without([(0, tracks)], self.slips)
            return [(a * self.track, n * self.track) for a, n in good]
        if scheme == PER_TRACK:
            return self.units(self.track, self.spares)
        if scheme in (PER_CYL, CYL_FRONT):
            return self.units(self.cyl, self.spares, scheme == CYL_FRONT)
        if scheme in (CYL_SLIP, CYL_FRONT_SLIP):
            skip = self.spares if scheme == CYL_FRONT_SLIP else 0
            return without([(c * self.cyl + skip, self.cyl - self.spares)
                            for c in range(self.cyls)], self.slips)
        if scheme == PER_RANGE:
            return self.units(self.cyl * self.range_cyls, self.spares)
        return without(all_of_it, self.slips)

    def moved(self, extents):
        """What was found bad later lies where its spare is."""
        size = self.track if self.scheme == TRACK else 1
        for bad, spare in self.remapped:
            bad, spare = bad * size, spare * size
            if self.scheme == PER_RANGE:      # a spare belongs to the range
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
        """Where slips turn the tracks after them: sectors by their angle."""
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
        return self.turned(self.moved(data))


class Layout:
    """All zones, and the map from LBNs to sectors of the bare tracks."""

    def __init__(self, model):
        kind = word(model, "Layout Model", "")
        if not kind.startswith("dm_layout_g1"):
            raise Problem(f"its layout is '{kind.split()[0] if kind else 'missing'}'; "
                          "only dm_layout_g1 is known")
        if word(model, "Skew units", "sectors") != "sectors":
            raise Problem("its skews are not in sectors")
        self.surfaces = integer(model, "Number of data surfaces")
        self.mapping = integer(model, "LBN-to-PBN mapping scheme")
        self.scheme = integer(model, "Sparing scheme used")
        self.range_cyls = integer(model, "Rangesize for sparing")
        if self.mapping not in MAPPINGS:
            raise Problem(f"mapping scheme {self.mapping} is not known")
        if not NONE <= self.scheme <= ZONE_SLIP:
            raise Problem(f"sparing scheme {self.scheme} is not known")
        if self.scheme == PER_RANGE and self.range_cyls < 1:
            raise Problem("a range for sparing has no cylinders")
        self.zones = [Zone(part, self.surfaces, self.scheme, self.range_cyls)
                      for part in re.split(r"dm_layout_g1_zone\s*{", model)[1:]]
        if not self.zones:
            raise Problem("its layout has no zones")
        self.lbns = sum(zone.lbns() for zone in self.zones)

    def gap(self, nth):
        """Cylinders after a zone that belong to none."""
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
            yield (f"zone {cyls} {zone.track} {round(zone.track_skew)} "
                   f"{round(zone.cyl_skew)} {round(zone.offset)}")
        for lbn, block, count in self.map():
            yield f"map {lbn} {block} {count}"


def hpl(values, single):
    """Seek times by the equation of the HP laboratories."""
    if len(values) != 6:
        raise Problem("'HPL seek equation values' are not six")
    knee, a, b, c, d, one = values

    def ms(distance):
        if distance == 1 and one != -1:
            return single
        return a + b * math.sqrt(distance) if distance < knee else c + d * distance
    return ms


def sampled(first, last, ms):
    table, distance = [], first
    while distance < last:
        table.append((distance, ms(distance)))
        distance = max(distance + 1, int(distance * 1.06))
    return table + [(last, ms(last))]


def seek_table(folder, model, notes):
    """(distance, ms), ascending, for every way of DiskSim's to say it but one."""
    kind = word(model, "Seek type")
    last = max(integer(model, "Number of cylinders") - 1, 2)
    if kind == "extracted":
        name = word(model, "Full seek curve")
        if name not in folder:
            raise Problem(f"its seek table {name} is not there")
        table = [(int(float(d)), float(ms)) for d, ms in re.findall(
            r"^\s*([\d.]+)\s*,\s*([\d.]+)", folder.read(name), re.M)]
        if len(table) < 2:
            raise Problem(f"its seek table {name} has fewer than two distances")
        (d0, t0), (d1, t1) = table[-2:]
        if d1 < last:             # as DiskSim does
            table.append((last, max(t1 + (last - d1) * (t1 - t0) / (d1 - d0), 0)))
        if len(table) > 256:
            raise Problem(f"its seek table {name} has more than 256 distances")
        return table
    if kind in ("hpl", "hplplus10"):
        values = numbers(model, "HPL seek equation values")
        single = number(model, "Single cylinder seek time", 0.0)
        first = numbers(model, "First ten seek times") if kind == "hplplus10" else []
        if kind == "hplplus10" and len(first) != 10:
            raise Problem("'First ten seek times' are not ten")
        return [(i + 1, ms) for i, ms in enumerate(first)] + \
            sampled(len(first) + 1, last, hpl(values, single))
    if kind == "constant":
        ms = number(model, "Average seek time")
        return [(1, ms), (last, ms)]
    if kind == "linear":
        notes.append("a straight line between three seek times")
        return [(1, number(model, "Single cylinder seek time")),
                (max(last // 3, 2), number(model, "Average seek time")),
                (last + 1, number(model, "Full strobe seek time"))]
    raise Problem(f"its seek type '{kind}' is not known")


def blocks_of(text, kind):
    """Names and bodies of 'kind NAME {...}'."""
    out = {}
    for found in re.finditer(rf"\b{kind}\s+([\w.-]+)\s*{{", text):
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        out[found[1]] = text[found.end():at - 1]
    return out


class Parameters:
    """NAME.parv: which of the .diskspecs, and the bus it is on."""

    def __init__(self, text):
        self.text = text
        self.kinds = {}
        for names, kind in re.findall(r"instantiate\s*\[([^\]]*)\]\s*as\s+([\w.-]+)", text):
            for name in names.split(","):
                self.kinds[name.strip()] = kind
        found = re.search(r"disksim_bus\s+(\w+)\s*\[\s*disksim_disk\s+(\w+)", text)
        if not found:
            raise Problem("its .parv has no disk on a bus")
        self.disk = self.kinds.get(found[2])
        self.bus = self.kinds.get(found[1])

    def specs(self):
        return re.findall(r"source\s+([\w.-]+\.diskspecs)", self.text)

    def bus_ms(self):
        body = blocks_of(self.text, "disksim_bus").get(self.bus)
        if body is None:
            raise Problem(f"its .parv does not describe the bus {self.bus}")
        return [number(body, f"{op} block transfer time") for op in ("Read", "Write")]


class Drive:
    """Everything of one drive; raises Problem."""

    def __init__(self, folder, name, bus_ms=None):
        self.folder, self.name, self.notes = folder, name, []
        if f"{name}.trace" not in folder:
            raise Problem(f"{name}.trace is not there")
        parv = None
        if f"{name}.parv" in folder:
            parv = Parameters(folder.parameters(f"{name}.parv"))
        self.specs = self.find_specs(parv)
        self.model = self.find_model()
        self.layout = Layout(self.model)
        self.bus_ms = self.find_bus(parv, bus_ms)
        self.seek = seek_table(folder, self.model, self.notes)
        self.head_switch = number(self.model, "Head switch time")
        if not self.layout.mapping and self.head_switch > self.seek[0][1]:
            self.notes.append("surfaces are taken up and down, not always up, and here "
                              "a head switch is longer than a seek")
        said = integer(self.model, "Block count")
        if said != self.layout.lbns:
            self.notes.append(f"'Block count' is {said}, the zones hold {self.layout.lbns}")
        for label in UNMODELLED:
            if number(self.specs + self.model, label, 0):
                self.notes.append(f"'{label}' is not modelled")
        for label in ALWAYS:
            if not number(self.specs, label, 1):
                self.notes.append(f"'{label} = 0' is not modelled")
        self.geometry = "\n".join(self.lines()) + "\n"

    def pick(self, kind, names):
        """The one of several files that could be meant."""
        there = [n for n in names if n in self.folder]
        if not there:
            raise Problem(f"no {kind}: looked for {', '.join(names)}")
        if len(there) > 1:
            raise Problem(f"two candidates for its {kind}, {' and '.join(there)}; "
                          f"nothing says which")
        return there[0]

    def find_specs(self, parv):
        names = parv.specs() if parv else []
        file = self.pick(".diskspecs", names or [f"{self.name}.diskspecs",
                                                 f"{self.name}_validate.diskspecs"])
        found = blocks_of(self.folder.parameters(file), "disksim_disk")
        if parv and parv.disk in found:
            self.kind = parv.disk
        elif len(found) == 1:
            self.kind = next(iter(found))
        else:
            raise Problem(f"{file} describes {len(found)} drives "
                          f"({', '.join(found) or 'none'}); nothing says which")
        return found[self.kind]

    def find_model(self):
        named = re.search(r"\bModel\s*=\s*source\s+([\w.-]+)", self.specs)
        if not named and "dm_layout_" in self.specs:
            return self.specs
        others = [f"{self.name}.model", f"{self.name}_validate.model"]
        if not named:
            file = self.pick(".model", others)
        else:
            file = named[1]
            if file not in self.folder:
                raise Problem(f"its .diskspecs names {file}, which is not there")
            for other in others:
                if other != file and other in self.folder:
                    self.notes.append(f"{other} is there, too; its .diskspecs names {file}")
        return self.folder.parameters(file)

    def find_bus(self, parv, given):
        own = number(self.specs, "Bulk sector transfer time")
        if parv:
            bus = parv.bus_ms()
        elif given:
            bus = given
            self.notes.append(f"no {self.name}.parv: {bus[0]:g} and {bus[1]:g} ms a "
                              "sector are taken for its bus, read and written")
        elif own:
            bus = [own, own]
            self.notes.append(f"no {self.name}.parv: the bus is taken to be as fast "
                              f"as the drive, {own:g} ms a sector")
        else:
            raise Problem(f"the bus's speed is missing: no {self.name}.parv, and "
                          "'Bulk sector transfer time' is 0; give --bus")
        return [max(own, ms) for ms in bus]

    def lines(self):
        """The lines for platter-sim."""
        specs, model = self.specs, self.model
        scale = number(specs, "Time scale for overheads", 1.0)
        always = number(specs, "Per-request overhead time", 0.0)

        def ns(ms):
            return round(ms * 1e6)

        def over(*labels, plus=0.0):
            return " ".join(str(ns((number(specs, label) + plus) * scale))
                            for label in labels)

        def command(kind):
            return over(f"{kind} over. after read", f"{kind} over. after write",
                        plus=always)

        yield f"# {self.name}, {self.kind}"
        yield f"rotation_ns {round(60e9 / number(model, 'Rotation speed (in rpms)'))}"
        yield f"surfaces {self.layout.surfaces}"
        yield from self.layout.lines()
        for distance, ms in self.seek:
            yield f"seek {distance} {ns(ms)}"
        yield f"head_switch_ns {ns(self.head_switch)}"
        yield f"write_settle_ns {ns(number(model, 'Add. write settling delay'))}"
        for key, kind in (("read_hit_ns", "Read hit"), ("read_miss_ns", "Read miss"),
                          ("write_hit_ns", "Write hit"), ("write_miss_ns", "Write miss")):
            yield f"{key} {command(kind)}"
        yield f"read_done_ns {over('Read completion overhead')}"
        yield f"write_done_ns {over('Write completion overhead')}"
        yield f"prep_ns {over('Data preparation overhead')}"
        yield ("read_disconnect_ns " +
               over("Read disconnect afterread", "Read disconnect afterwrite"))
        yield f"write_disconnect_ns {over('Write disconnect overhead')}"
        yield f"reselect_ns {over('First reselect overhead', 'Other reselect overhead')}"
        yield f"extra_disconnect {integer(specs, 'Extra write disconnect')}"
        yield "extra_ns " + over(
            "Extradisc command overhead", "Extradisc disconnect overhead",
            "Extradisc inter-disconnect delay", "Extradisc 2nd disconnect overhead",
            "Extradisc seek delta")
        yield f"min_write_seek_ns {ns(number(specs, 'Minimum seek delay'))}"
        yield f"bus_ns {ns(self.bus_ms[0])} {ns(self.bus_ms[1])}"
        yield f"read_water_permille {round(number(specs, 'High (read) water mark') * 1000)}"
        keeps = integer(specs, "Read-ahead over requested")
        for key, label in (
                ("water_by_request", "Set watermark by reqsize"),
                ("hold_read", "Hold bus entire read xfer"),
                ("never_disconnect", "Never disconnect"),
                ("segments", "Number of buffer segments"),
                ("segment_sectors", "Segment size (in blks)"),
                ("write_segment", "Use separate write segment"),
                ("ahead", "Buffer continuous read"),
                ("ahead_sectors", "Maximum read-ahead (blks)"),
                ("ahead_on_hit", "Read-ahead on idle hit"),
                ("stop_in_sector", "Stop prefetch in sector"),
                ("fast_write", "Fast write level"),
                ("combine", "Combine seq writes"),
                ("zero_latency", "Immediate buffer read")):
            yield f"{key} {integer(specs, label)}"
        yield f"ahead_keeps {int(keeps == 0)}"
        yield f"forget_read {int(keeps == -1)}"

    def trace(self):
        """(op, verdict, LBN, sectors, service us, think us after it)"""
        rows = []
        for line in self.folder.read(f"{self.name}.trace").splitlines():
            part = line.split()
            if len(part) == 6 and part[0] in "RW":
                rows.append((part[0].lower(), part[1], int(part[2]), int(part[3]),
                             float(part[4]), float(part[5])))
        if not rows:
            raise Problem(f"{self.name}.trace has no request")
        return rows
