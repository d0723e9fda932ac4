# SPDX-License-Identifier: GPL-2.0
"""Translate a drive's description for DiskSim 4 into a geometry file for platter-sim.

A drive NAME is NAME.trace; NAME.diskspecs, which names the .model; the .model, which names the
.seek; and NAME.parv, which has the bus.  Each may be plain or .xz.  A description that cannot be
followed exactly raises Problem with one sentence.  A feature that is not modelled but does not stop
the comparison is added to Drive.notes.
"""

import re

from experiments.platter.disksim_layout import MAPPINGS, SCHEMES, Layout
from experiments.platter.disksim_seek import seek_file, seek_table
from experiments.platter.disksim_words import (
    ASKED,
    MOST,
    Problem,
    above_zero,
    blocks_of,
    integer,
    labels,
    number,
    word,
)

# Labels that turn on something that is not modelled here.
UNMODELLED = [
    "Allow almost read hits", "Allow sneaky full read hits",
    "Allow sneaky partial read hits", "Allow sneaky intermediate read hits",
    "Allow write prebuffering", "Preseeking level", "Read any free blocks",
    "Minimum read-ahead (blks)", "Immediate buffer write", "Disconnect write if seek",
    "Percent error in rpms",
]
# Labels that are modelled as if they were 1.
ALWAYS = ["Enable caching in buffer", "Allow read hits on write data",
          "Immed transfer partial hit", "Write hit stop prefetch",
          "Read directly to buffer"]
# Labels that make no difference when requests come one at a time, and why.
IRRELEVANT = {
    "Print stats": "of DiskSim's own output",
    "Calc sector by sector": "as if 1 in every DiskSim since",
    "Avg sectors per cylinder": "for the order in a queue",
    "Max queue length": "for a queue",
    "Scheduler": "for the order in a queue",
    "Constant access time": "for an access time type that is refused",
    # the seek type that uses a label reads it
    "Single cylinder seek time": "of another seek type",
    "Average seek time": "of another seek type",
    "Full strobe seek time": "of another seek type",
    "Constant seek time": "of another seek type",
    "First ten seek times": "of another seek type",
    "HPL seek equation values": "of another seek type",
    "Full seek curve": "of another seek type",
    # labels that contain others
    "Model": "a description", "Mechanical Model": "a description", "Zones": "a list",
}
# The same for the buses and controllers above a drive, with the labels that are read there.
ABOVE = {
    "type", "Print stats", "Arbitration type", "Scheduler", "Maximum queue length",
    "Max per-disk pending count", "Arbitration time", "Read block transfer time",
    "Write block transfer time", "Scale for delays", "Bulk sector transfer time",
}


def unknown(found):
    """Return a sentence about unknown labels."""
    return [f"not known here and not modelled: {', '.join(sorted(found))}"] if found else []


def disks(text):
    """Return for each disk of a topology the components above it, and the disk itself."""
    above, out = [], []
    for kind, name, end in re.findall(r"disksim_(\w+)\s+([\w.-]+)\s*\[|(\])", text):
        if not end:
            above.append((kind, name))
            if kind == "disk":
                out.append(above[:])
        elif above:
            above.pop()
    return out


class Parameters:
    """NAME.parv: the .diskspecs that is used, and the bus of the disk."""

    def __init__(self, text):
        self.text, self.notes = text, []
        self.kinds = {}
        for names, kind in re.findall(r"instantiate\s*\[([^\]]*)\]\s*as\s+([\w.-]+)", text):
            for name in names.split(","):
                self.kinds[name.strip()] = kind
        found = disks(text.partition("topology")[2])
        if len(found) != 1:
            raise Problem(f"its .parv has {len(found) or 'no'} disks; a trace is of one")
        self.path = found[0]
        self.disk = self.kinds.get(self.path[-1][1])

    def specs(self):
        return re.findall(r"source\s+([\w.-]+\.diskspecs)", self.text)

    def nearest(self, kind):
        """Return the description of the last component of @kind above the disk, or None."""
        for what, name in reversed(self.path):
            if what == kind:
                body = blocks_of(self.text, f"disksim_{kind}").get(self.kinds.get(name))
                if body is None:
                    raise Problem(f"its .parv does not describe {name}")
                return body
        return None

    def bus_ms(self):
        """Return ms for a sector read and written: the slower one of bus and controller."""
        bus, controller = self.nearest("bus"), self.nearest("ctlr")
        if bus is None:
            raise Problem("its .parv has the disk on no bus")
        slowest = 0.0
        self.notes += unknown((labels(bus) | labels(controller or "")) - ABOVE)
        if controller is not None:
            slowest = number(controller, "Bulk sector transfer time")
            if number(controller, "Scale for delays"):
                self.notes.append("the controller's delays are not modelled")
        if number(bus, "Arbitration time"):
            self.notes.append("the bus's 'Arbitration time' is not modelled")
        return [max(slowest, number(bus, f"{op} block transfer time"))
                for op in ("Read", "Write")]


MAX_REQUEST = 4096      # of platter-sim
MAX_SEEK_MS = 4294      # of platter-sim, which has 32 bits of ns


class Drive:
    """All data of one drive; raises Problem."""

    def __init__(self, folder, name, bus_ms=None, bus_by="--bus"):
        self.folder, self.name, self.notes = folder, name, []
        ASKED.clear()
        self.files = [f"{name}.trace"]
        if self.files[0] not in folder:
            raise Problem(f"{self.files[0]} is not there")
        parv = None
        if f"{name}.parv" in folder:
            self.files.append(f"{name}.parv")
            parv = Parameters(folder.parameters(self.files[-1]))
        self.specs = self.find_specs(parv)
        self.model = self.find_model()
        access = word(self.model, "Access time type")
        if access != "trackSwitchPlusRotation":
            raise Problem(f"its access times are '{access}': no seek, or no angle, to compare")
        self.layout = Layout(self.model)
        self.bus_ms = self.find_bus(parv, bus_ms, bus_by)
        self.seek = seek_table(folder, self.model, self.notes)
        if seek_file(self.model):
            self.files.append(seek_file(self.model))
        self.trace = self.read_trace()
        self.check()
        self.geometry = "\n".join(self.lines()) + "\n"
        self.notes += unknown((labels(self.specs) | labels(self.model)) - ASKED -
                              set(IRRELEVANT))

    def found(self):
        """Return a sentence about what was found."""
        layout = self.layout
        return (f"{', '.join(self.files)}: {self.kind}, {layout.surfaces} surfaces, "
                f"{len(layout.zones)} zones, {layout.lbns} LBNs, "
                f"spares: {SCHEMES[layout.scheme]} ({layout.scheme}), "
                f"surfaces: {MAPPINGS[layout.mapping]} ({layout.mapping}), "
                f"{len(self.trace)} requests")

    def check(self):
        """Note the features of the description that this model does not have."""
        model, specs, layout, note = self.model, self.specs, self.layout, self.notes.append
        switch = number(model, "Head switch time")
        if layout.mapping != 2 and switch > min(ms for _, ms in self.seek):
            note(f"surfaces are taken up and down, not {MAPPINGS[layout.mapping]}, and here "
                 "a head switch is longer than a seek")
        last, count = layout.zones[-1].last_cyl, integer(model, "Number of cylinders")
        if last >= count:
            note(f"'Number of cylinders' is {count}, the last zone ends with cylinder {last}")
        said = integer(model, "Block count")
        if said != layout.lbns:
            note(f"'Block count' is {said}, the zones hold {layout.lbns}")
        for label in UNMODELLED:
            if number(specs + model, label):
                note(f"'{label}' is not modelled")
        for label in ALWAYS:
            if number(specs, label) != 1:
                note(f"'{label} = {word(specs, label)}' is not modelled")
        if integer(specs, "Immediate buffer read") > 1:
            note("'Immediate buffer read' is taken to be 1")
        if integer(specs, "Maximum number of write segments") > 1 and \
                integer(specs, "Fast write level"):
            note("more than one write segment is not modelled")
        segment = integer(specs, "Segment size (in blks)")
        longer = sum(row[0] == "r" and row[3] > segment for row in self.trace)
        if longer:
            note(f"{longer} reads are longer than a segment; that the medium waits where "
                 "the bus has not made room is not modelled")

    def pick(self, kind, names):
        """Return the only one of several possible files that exists."""
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
        self.files.append(file)
        found = blocks_of(self.folder.parameters(file), "disksim_disk")
        if parv:
            self.kind = parv.disk
            if self.kind not in found:
                raise Problem(f"its .parv has the drive {self.kind}, and {file} describes "
                              f"{', '.join(found) or 'none'}")
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
        if not named and word(self.specs, "Model", "") != "":
            raise Problem(f"its model is '{word(self.specs, 'Model')}', neither a source "
                          "nor a description")
        if not named:
            file = self.pick(".model", others)
        else:
            file = named[1]
            if file not in self.folder:
                raise Problem(f"its .diskspecs names {file}, which is not there")
            for other in others:
                if other != file and other in self.folder:
                    self.notes.append(f"{other} is there, too; its .diskspecs names {file}")
        self.files.append(file)
        return self.folder.parameters(file)

    def find_bus(self, parv, given, given_by):
        own = number(self.specs, "Bulk sector transfer time")
        if parv:
            bus = parv.bus_ms()
            self.notes += parv.notes
            if given and given_by == "--bus":
                self.notes.append(f"its bus is what {self.name}.parv says, not --bus")
        elif given:
            bus = given
            self.notes.append(f"no {self.name}.parv: by {given_by} its bus takes {bus[0]:g} ms "
                              f"to read a sector and {bus[1]:g} to write it, the drive "
                              f"{own:g}")
        elif own:
            bus = [own, own]
            self.notes.append(f"no {self.name}.parv: the bus is taken to be as fast "
                              f"as the drive, {own:g} ms a sector")
        else:
            raise Problem(f"the bus's speed is missing: no {self.name}.parv, and "
                          "'Bulk sector transfer time' is 0; give --bus")
        return [max(own, ms) for ms in bus]

    def lines(self):
        """Yield the lines for platter-sim."""
        specs, model = self.specs, self.model
        scale = number(specs, "Time scale for overheads")
        always = number(specs, "Per-request overhead time")

        def ns(ms):
            if not abs(ms) <= MOST:
                raise Problem(f"a time of its description comes to {ms:g} ms, longer than any "
                              "drive takes")
            return round(ms * 1e6)

        def over(*labels, plus=0.0):
            return " ".join(str(ns((number(specs, label) + plus) * scale))
                            for label in labels)

        def command(kind):
            return over(f"{kind} over. after read", f"{kind} over. after write",
                        plus=always)

        yield f"# {self.name}, {self.kind}"
        speed = "Rotation speed (in rpms)"
        yield f"rotation_ns {round(60e9 / above_zero(number(model, speed), speed))}"
        yield f"surfaces {self.layout.surfaces}"
        yield from self.layout.lines()
        for distance, ms in self.seek:
            if not 0 <= ms <= MAX_SEEK_MS:
                raise Problem(f"its arm would take {ms:g} ms over {distance} cylinders, which "
                              "no arm does")
            yield f"seek {distance} {ns(ms)}"
        yield f"head_switch_ns {ns(number(model, 'Head switch time'))}"
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
        for key, label in (("read_water_permille", "High (read) water mark"),
                           ("write_water_permille", "Low (write) water mark")):
            yield f"{key} {round(number(specs, label) * 1000)}"
        keeps = integer(specs, "Read-ahead over requested")
        for key, label in (
                ("water_by_request", "Set watermark by reqsize"),
                ("hold_read", "Hold bus entire read xfer"),
                ("hold_write", "Hold bus entire write xfer"),
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

    def read_trace(self):
        """Return rows (op, verdict, LBN, sectors, service us, think us after it)."""
        rows, others = [], 0
        for nr, line in enumerate(self.folder.read(self.files[0]).splitlines(), 1):
            part = line.split()
            try:
                op = {"R": "r", "W": "w"}[part[0]]
                lbn, count, service, think = (f(x) for f, x in zip(
                    (int, int, float, float), part[2:], strict=True))
            except (LookupError, ValueError):
                others += bool(part)
                continue
            where = f"line {nr} of {self.files[0]}, '{line.strip()}',"
            if lbn < 0 or not 1 <= count <= MAX_REQUEST:
                raise Problem(f"{where} asks for no sectors that there can be, or not for 1 to "
                              f"{MAX_REQUEST} of them")
            if not (0 <= service <= MOST and 0 <= think <= MOST):
                raise Problem(f"{where} has a time that is no time")
            rows.append((op, part[1], lbn, count, service, think))
        if not rows:
            raise Problem(f"{self.files[0]} has no request")
        if others:
            self.notes.append(f"{others} lines of {self.files[0]} are no requests")
        return rows
