# SPDX-License-Identifier: GPL-2.0
"""Platter against real drives.

The tests check that descriptions in DiskSim's format are interpreted exactly, that descriptions
which the model cannot follow are refused, and that the table in the documentation belongs to the
present model.

The measured drives are not part of the project. With SHINGLE_DISKSIM=DIRECTORY, which contains
them, the whole table is checked. Without it only the table's fingerprint is checked: the results of
the model for fictive drives (scripts/src/experiments/platter/fictive.py)."""

import lzma
import os
import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TOP, platter_sim
from experiments.platter import disksim_compare
from experiments.platter import disksim_drive
from experiments.platter import disksim_layout
from experiments.platter import disksim_seek
from experiments.platter import disksim_words
from experiments.platter import fictive

COMPARE = TOP / "scripts/experiments"
RST = TOP / "Documentation/reports/platter-validation.rst"


@pytest.fixture(scope="session", name="sim")
def build_sim():
    return platter_sim()


@pytest.fixture(name="folder")
def one_drive(tmp_path):
    """A directory with one complete drive, with spares on each track."""
    fictive.make(tmp_path, [3])
    return tmp_path


def change(folder, file, old, new, name="fictive3"):
    path = folder / f"{name}.{file}"
    text = path.read_text(encoding="utf-8")
    assert re.search(old, text), f"no {old} in {file}"
    path.write_text(re.sub(old, new, text), encoding="utf-8")


def drive(folder, name="fictive3", bus=None):
    return disksim_drive.Drive(disksim_words.Folder(folder), name, bus)


def refused(folder, words, name="fictive3"):
    with pytest.raises(disksim_words.Problem) as problem:
        drive(folder, name)
    for word in words:
        assert word in str(problem.value)


# --- the places of LBNs ---------------------------------------------------------

def sector(zone, lbn):
    """Translate an LBN of a zone to a sector, counted from the zone's first.

    This follows layout_g1 of DiskSim for each scheme. Slips that rotate tracks are not applied:
    the test compares the extents before Zone.turned()."""
    scheme, slips, lbn = zone.scheme, zone.slips, lbn + zone.front
    if scheme == 0:
        return lbn
    if scheme == 1:
        track, rest = divmod(lbn, zone.track)
        for slip in slips:
            track += slip <= track
        for bad, spare in zone.remapped:
            if bad == track:
                track = spare
                break
        return track * zone.track + rest
    if scheme == 3:
        track, rest = divmod(lbn, zone.track - zone.spares)
        for slip in slips:
            rest += 0 <= slip - track * zone.track <= rest
        return track * zone.track + rest
    if scheme in (2, 4, 7):
        per = zone.cyl - (zone.spares if scheme != 7 else 0)
        cyl, rest = divmod(lbn, per)
        count = 0
        for slip in slips:
            count += (scheme != 2 and slip // zone.cyl < cyl) or \
                0 <= slip - cyl * zone.cyl <= rest + count
        rest += count
        if scheme != 2:
            cyl, rest = cyl + rest // per, rest % per
        return cyl * zone.cyl + rest
    if scheme == 8:
        size = zone.cyl * zone.range_cyls
        nth, rest = divmod(lbn, size - zone.spares)
        count = 0
        for slip in slips:
            count += 0 <= slip - nth * size <= rest + count
        rest += count
        for bad, spare in zone.remapped:
            if bad == nth * size + rest:
                rest = spare % size
                break
        return nth * size + rest
    assert scheme in (9, 10)
    for slip in slips:
        lbn += slip <= lbn
    return lbn


def lbn_at_front(zone, number):
    """Translate a sector to its LBN, or to None if it is a spare or a slip. This is for the
    schemes with spares at the front of a cylinder, for which DiskSim has only this direction."""
    cyl, rest = divmod(number, zone.cyl)
    here = [s for s in zone.slips if s // zone.cyl == cyl]
    if number in here:
        return None
    if zone.scheme == 6:
        if rest < zone.spares:
            return None
        lbn = cyl * (zone.cyl - zone.spares) + rest - zone.spares
        return lbn - sum(s < number and s % zone.cyl >= zone.spares for s in zone.slips)
    # Slips use up spares, from the last sound sectors of the cylinder.
    after = zone.cyl - rest - 1 - sum(s > number for s in here)
    per = zone.cyl - zone.spares
    return None if after >= per else cyl * per + per - 1 - after


@pytest.mark.parametrize("scheme", range(11))
def test_lbns_are_where_disksim_has_them(tmp_path, scheme):
    """For each sparing scheme, the LBNs are in the same sectors as by DiskSim's translation,
    which sector() and lbn_at_front() reproduce."""
    fictive.make(tmp_path, [scheme])
    layout = drive(tmp_path, f"fictive{scheme}").layout
    assert layout.lbns == fictive.LBNS[scheme]
    for zone in layout.zones:
        data = disksim_layout.cut(zone.data(), zone.front, zone.lbns())
        ours = [a + i for a, n in zone.moved(data) for i in range(n)]
        assert len(ours) == zone.lbns()
        if scheme in (5, 6):
            theirs = {lbn_at_front(zone, s): s for s in range(zone.raw)}
            assert ours == [theirs[lbn + zone.front] for lbn in range(zone.lbns())]
        else:
            assert ours == [sector(zone, lbn) for lbn in range(zone.lbns())]


@pytest.mark.parametrize("scheme", range(11))
def test_every_lbn_has_a_sector_of_its_own(tmp_path, scheme):
    """The map has all LBNs without a gap, and no sector twice."""
    fictive.make(tmp_path, [scheme])
    layout = drive(tmp_path, f"fictive{scheme}").layout
    seen, next_lbn = set(), 0
    for lbn, block, count in layout.map():
        assert lbn == next_lbn
        next_lbn += count
        assert not seen & set(range(block, block + count))
        seen |= set(range(block, block + count))
    assert next_lbn == layout.lbns


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10), st.integers(1, 4), st.integers(2, 9), st.integers(5, 12),
       st.integers(0, 4), st.integers(0, 9), st.integers(1, 4), st.data())
def test_random_zones_have_each_lbn_once(scheme, surfaces, cyls, track, spares, front, ranges,
                                         data):
    """In random zones, each LBN has one sector of the zone, and no LBN is in a slipped sector."""
    slips = data.draw(st.sets(st.integers(0, cyls * surfaces * track - 1), max_size=spares))
    if scheme == 1:
        slips = {s // track for s in slips}
    text = fictive.ZONE.format(first=0, last=cyls - 1, track=track, offset=0, front=front,
                               spares=spares, slips=", ".join(map(str, slips)), defects="")
    zone = disksim_layout.Zone(text, surfaces, scheme, ranges)
    try:
        extents = zone.extents()
    except disksim_words.Problem:
        return  # refused with a message: more slips than spares in one place, or slips in spares
    assert sum(n for _, n in extents) == zone.lbns()
    sectors = [a + i for a, n in extents for i in range(n)]
    assert len(set(sectors)) == len(sectors)
    assert all(0 <= s < zone.raw for s in sectors)
    if scheme not in disksim_layout.TURNING:
        assert not set(sectors) & (slips if scheme not in (0, 1) else set())


def test_a_slip_rotates_the_tracks_behind_it(tmp_path):
    """A slip rotates the LBNs of all later tracks by one sector."""
    fictive.make(tmp_path, [3])
    zone = drive(tmp_path).layout.zones[0]
    extents = zone.turned([(2 * 60, 60), (3 * 60, 60), (131 * 60, 60)])
    assert extents == [(120, 60),                          # the slip at 130 is on it
                       (181, 59), (180, 1),                # one before it
                       (131 * 60 + 3, 57), (131 * 60, 3)]  # three


# --- complete and incomplete directories ----------------------------------------

@pytest.mark.parametrize("file, old, new, words", [
    ("model", "Sparing scheme used = 3", "Sparing scheme used = 11",
     ["sparing scheme 11 is not known"]),
    ("model", "mapping scheme = 0", "mapping scheme = 3", ["mapping scheme 3 is not known"]),
    ("model", "Layout Model = dm_layout_g1", "Layout Model = dm_layout_g4",
     ["dm_layout_g4", "only dm_layout_g1"]),
    ("model", "Seek type = constant", "Seek type = quick", ["seek type 'quick'"]),
    ("model", "Constant seek time = 5.0,", "", ["'Constant seek time' is missing"]),
    ("model", "trackSwitchPlusRotation", "averageRotation", ["access times", "averageRotation"]),
    ("model", "Blocks per track = 40,", "Blocks per track = 40,\n Skew units = revolutions,",
     ["revolutions", "only sectors"]),
    ("model", r"slips = \[.*\]", "", ["'slips' is missing"]),
    ("model", "Last cylinder number = 39", "Last cylinder number = 41", ["overlap"]),
    ("model", "Number of spares = 2", "Number of spares = 2.5", ["not a whole number"]),
    ("model", r"defects = \[ *\]", "defects = [ 200, 201 ]", ["replacement", "no spare"]),
    ("model", "Head switch time = 0.8", "Head switch time = 0.8,\n Head switch time = 0.9",
     ["more than once", "0.8", "0.9"]),
    ("model", r"(?s)Seek type = constant,(.*)= fictive3\.seek",
     r"Seek type = extracted,\1= other.seek", ["other.seek is not there"]),
    ("model", "Head switch time = 0.8", "Head switch time = soon", ["'soon', not a number"]),
    ("model", "Rangesize for sparing = 4,", "", ["'Rangesize for sparing' is missing"]),
    ("diskspecs", "Read hit over. after write = 0.5,", "",
     ["'Read hit over. after write' is missing"]),
    ("diskspecs", "source fictive3.model", "fictive3",
     ["its model is 'fictive3', neither a source"]),
    ("diskspecs", "source fictive3.model", "source gone.model",
     ["names gone.model, which is not there"]),
    ("diskspecs", "Per-request overhead time = 0.05,", "",
     ["'Per-request overhead time' is missing"]),
    ("diskspecs", "Preseeking level = 0,", "", ["'Preseeking level' is missing"]),
    ("diskspecs", "disksim_disk fictive3_drive", "disksim_disk another",
     ["has the drive fictive3_drive", "describes another"]),
    ("model", "rpms. = 6000", "rpms) = 0", ["'Rotation speed (in rpms)' is 0", "above 0"]),
    ("model", "Number of cylinders = 60", "Number of cylinders = 0",
     ["'Number of cylinders' is 0", "above 0"]),
    ("model", "Last cylinder number = 56", "Last cylinder number = 1e12", ["which no drive has"]),
    ("model", r"slips = \[ 4000", "slips = [ nan", ["'slips' has nan, which no drive has"]),
    ("model", "Constant seek time = 5.0", "Constant seek time = -5", ["arm would take -5 ms"]),
    ("model", "Constant seek time = 5.0", "Constant seek time = 5e3", ["arm would take 5000 ms"]),
    ("model", "Head switch time = 0.8", "Head switch time = nan",
     ["'Head switch time' is nan, which no drive has"]),
    ("diskspecs", r"0\.05,(\s+Time scale for overheads) = 1\.0", r"10,\1 = 1e12",
     ["longer than any drive takes"]),
    ("parv", "Write block transfer time = 0.19", "", ["'Write block transfer time'"]),
    ("parv", "Bulk sector transfer time = 0.03", "", ["'Bulk sector transfer time'"]),
    ("parv", r"disksim_disk disk0 \[\]", "disksim_disk disk0 [], disksim_disk disk1 []",
     ["2 disks"]),
    ("trace", "(?s).*", "", ["has no request"]),
    ("trace", r"\Z", "R Miss 100 4 nan 0\n", ["line 151 of fictive3.trace",
                                              "'R Miss 100 4 nan 0'", "no time"]),
    ("trace", r"\Z", "R Miss 100 4 inf 0\n", ["line 151 of fictive3.trace", "no time"]),
    ("trace", r"\Z", "R Miss 100 4 -5 0\n", ["line 151 of fictive3.trace", "no time"]),
    ("trace", r"\Z", "R Miss 100 4 1e300 0\n", ["line 151 of fictive3.trace", "no time"]),
    ("trace", r"\A", "R Miss 100 4 5000 nan\n", ["line 1 of fictive3.trace", "no time"]),
    ("trace", r"\A", "W Miss 100 4 5000 inf\n", ["line 1 of fictive3.trace", "no time"]),
    ("trace", r"\A", "R Miss 100 4 5000 -1\n", ["line 1 of fictive3.trace", "no time"]),
    ("trace", r"\A", "R Miss -1 4 5000 0\n", ["line 1 of fictive3.trace", "asks for no sectors"]),
    ("trace", r"\A", "R Miss 1 0 5000 0\n", ["line 1 of fictive3.trace", "asks for no sectors"]),
    ("trace", r"\A", "R Miss 1 4097 5000 0\n", ["line 1 of fictive3.trace", "1 to 4096"]),
])
def test_unknown_values_are_refused(folder, file, old, new, words):
    """A drive that the model cannot follow is refused, and the message names the parameter."""
    change(folder, file, old, new)
    if "Rangesize" in new or "Rangesize" in old:
        change(folder, "model", "Sparing scheme used = 3", "Sparing scheme used = 8")
    refused(folder, words)


@pytest.mark.parametrize("value", ["nan", "-inf", "1e300", "1e12", "0", "-1"])
@pytest.mark.parametrize("kind", ["model", "diskspecs", "parv"])
def test_impossible_numbers_cause_no_traceback(tmp_path, sim, kind, value):
    """Each number of a description is replaced by an impossible one. The drive is accepted, or
    refused with a message of one line; there is never a traceback."""
    for scheme in (3, 8) if kind == "model" else (8,):
        fictive.make(tmp_path, [scheme])
        change(tmp_path, "trace", r"(?s)((.*?\n){20}).*", r"\1", f"fictive{scheme}")
        path = tmp_path / f"fictive{scheme}.{kind}"
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(r"([A-Za-z][^=\n]*) = (-?[\d.]+)", text):
            path.write_text(text[:found.start(2)] + value + text[found.end(2):],
                            encoding="utf-8")
            try:
                changed = drive(tmp_path, f"fictive{scheme}")
                if value != "1e12":     # the clock of platter-sim has the same limit
                    disksim_compare.Comparison(sim, changed).run()
            except disksim_words.Problem as problem:
                assert re.fullmatch(".+", str(problem)), found[1]
        path.write_text(text, encoding="utf-8")


def test_bus_without_a_speed_is_refused(folder):
    """Without a .parv file the bus is taken to be as fast as the drive. If the drive's own speed
    is missing too, it is refused unless --bus gives a speed."""
    (folder / "fictive3.parv").unlink()
    assert drive(folder).bus_ms == [0.04, 0.04]
    assert any("as fast as the drive" in n for n in drive(folder).notes)
    change(folder, "diskspecs", "Bulk sector transfer time = 0.04",
           "Bulk sector transfer time = 0.0")
    refused(folder, ["bus's speed is missing", "no fictive3.parv", "--bus"])
    assert drive(folder, bus=(0.1, 0.2)).bus_ms == [0.1, 0.2]


def test_bus_comes_from_the_parameter_file(folder):
    """The time of a sector on the bus is that of the slowest of the drive, the bus and the
    controller."""
    assert drive(folder).bus_ms == [0.17, 0.19]      # slower than the drive's 0.04
    change(folder, "parv", r"0\.17", "0.01")
    assert drive(folder).bus_ms == [0.04, 0.19]
    change(folder, "parv", r"Bulk sector transfer time = 0\.03",
           "Bulk sector transfer time = 0.5")
    assert drive(folder).bus_ms == [0.5, 0.5]        # a still slower controller


def test_two_candidate_files_for_a_drive(folder):
    """If two files could describe a drive, the one that another file names is used. Without such
    a file the drive is refused."""
    model = (folder / "fictive3.model").read_text(encoding="utf-8")
    (folder / "fictive3_validate.model").write_text(model, encoding="utf-8")
    assert any("fictive3_validate.model is there, too" in n for n in drive(folder).notes)
    change(folder, "diskspecs", "Model = source fictive3.model,", "")
    refused(folder, ["two candidates for its .model", "fictive3.model",
                     "fictive3_validate.model"])
    change(folder, "diskspecs", "disksim_disk", "disksim_disk other {{ }}\ndisksim_disk")
    assert drive_kind(folder) == "fictive3_drive"    # according to the .parv
    (folder / "fictive3.parv").unlink()
    refused(folder, ["describes 2 drives", "nothing says which"])


def drive_kind(folder):
    (folder / "fictive3_validate.model").unlink()
    return drive(folder).kind


def test_unmodelled_parameters_are_reported(folder):
    """A parameter that has a meaning in DiskSim and none in the model is reported as a note."""
    change(folder, "diskspecs", "Preseeking level = 0", "Preseeking level = 1")
    change(folder, "model", "Block count = ", "Block count = 1")
    notes = " ".join(drive(folder).notes)
    assert "'Preseeking level' is not modelled" in notes and "'Block count' is 1" in notes


@pytest.mark.parametrize("file, old, new, note", [
    ("model", "Number of cylinders = 60", "Number of cylinders = 56",
     "the last zone ends with cylinder 56"),
    ("parv", "Arbitration time = 0.0", "Arbitration time = 0.1", "'Arbitration time'"),
    ("parv", "Scale for delays = 0.0", "Scale for delays = 1.0", "controller's delays"),
    ("diskspecs", "Write hit stop prefetch = 1", "Write hit stop prefetch = 0",
     "'Write hit stop prefetch = 0'"),
    ("diskspecs", "Maximum number of write segments = 1",
     "Maximum number of write segments = 2", "more than one write segment"),
    ("diskspecs", "Segment size .in blks. = 90", "Segment size (in blks) = 5",
     "reads are longer than a segment"),
    ("parv", "Arbitration time = 0.0", "Arbitration time = 0.0,\n Parity delay = 0.1",
     "not known here and not modelled: Parity delay"),
    ("trace", "(?m)^R Miss", "RR Miss", "are no requests"),
])
def test_unmodelled_settings_are_reported(tmp_path, file, old, new, note):
    """Each of these settings of a description causes a note. fictive4 acknowledges writes late
    and disconnects from the bus."""
    fictive.make(tmp_path, [4])
    assert not any(note in n for n in drive(tmp_path, "fictive4").notes)
    change(tmp_path, file, old, new, "fictive4")
    assert any(note in n for n in drive(tmp_path, "fictive4").notes)


# All parameters that DiskSim 4 defines for a disk, its layout and its mechanics, except for those
# in OPTIONAL.
FORMAT = """
Access time type, Add. write settling delay, Allow almost read hits,
Allow read hits on write data, Allow sneaky full read hits,
Allow sneaky intermediate read hits, Allow sneaky partial read hits,
Allow write prebuffering, Average seek time, Avg sectors per cylinder, Block count,
Blocks per track, Buffer continuous read, Bulk sector transfer time, Calc sector by sector,
Combine seq writes, Constant seek time, Data preparation overhead, Disconnect write if seek,
Empty space at zone front, Enable caching in buffer, Extra write disconnect,
Extradisc 2nd disconnect overhead, Extradisc command overhead,
Extradisc disconnect overhead, Extradisc inter-disconnect delay, Extradisc seek delta,
Fast write level, First cylinder number, First reselect overhead, First ten seek times,
Full seek curve, Full strobe seek time, HPL seek equation values, Head switch time,
High (read) water mark, Hold bus entire read xfer, Hold bus entire write xfer,
Immed transfer partial hit, Immediate buffer read, Immediate buffer write,
LBN-to-PBN mapping scheme, Last cylinder number, Layout Model, Low (write) water mark,
Max queue length, Maximum number of write segments, Maximum read-ahead (blks),
Mechanical Model, Minimum read-ahead (blks), Minimum seek delay, Model, Never disconnect,
Number of buffer segments, Number of cylinders, Number of data surfaces, Number of spares,
Offset of first block, Other reselect overhead, Per-request overhead time,
Percent error in rpms, Preseeking level, Print stats, Rangesize for sparing,
Read any free blocks, Read completion overhead, Read directly to buffer,
Read disconnect afterread, Read disconnect afterwrite, Read hit over. after read,
Read hit over. after write, Read miss over. after read, Read miss over. after write,
Read-ahead on idle hit, Read-ahead over requested, Rotation speed (in rpms), Scheduler,
Seek type, Segment size (in blks), Set watermark by reqsize, Single cylinder seek time,
Skew for cylinder switch, Skew for track switch, Sparing scheme used,
Stop prefetch in sector, Time scale for overheads, Use separate write segment,
Write completion overhead, Write disconnect overhead, Write hit over. after read,
Write hit over. after write, Write hit stop prefetch, Write miss over. after read,
Write miss over. after write, Zones, defects, slips
"""
# Optional parameters, which fictive drives leave out.
OPTIONAL = {"Skew units", "Constant access time"}


def seen(folder):
    """Return the interpretation of a description, or the reason of its refusal."""
    try:
        found = drive(folder, "fictive8")
    except disksim_words.Problem as problem:
        return str(problem)
    return found.geometry, found.notes


def test_every_parameter_is_used_irrelevant_or_reported(tmp_path):
    """A parameter of DiskSim that is not listed as irrelevant makes a difference: another value
    changes the geometry or the notes."""
    fictive.make(tmp_path, [8])
    files = {kind: (tmp_path / f"fictive8.{kind}").read_text(encoding="utf-8")
             for kind in ("diskspecs", "model")}
    found = set().union(*map(disksim_words.labels, files.values()))
    assert found == set(re.split(r",\s+", FORMAT.strip()))
    before = seen(tmp_path)
    assert not any("not known" in note for note in before[1])
    assert set(disksim_drive.IRRELEVANT) <= found | OPTIONAL
    for kind, text in files.items():
        for label in disksim_words.labels(text) - set(disksim_drive.IRRELEVANT):
            value = re.search(rf"(?<=[\s]){re.escape(label)} = (-?[\d.]+)", text)
            if not value:
                continue
            other = []
            for step in (1, -1):
                (tmp_path / f"fictive8.{kind}").write_text(
                    f"{text[:value.start(1)]}{float(value[1]) + step:g}{text[value.end(1):]}",
                    encoding="utf-8")
                other.append(seen(tmp_path))
            assert other != [before, before], f"'{label}' makes no difference"
        (tmp_path / f"fictive8.{kind}").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("file, after", [
    ("diskspecs", "Preseeking level = 0,"), ("model", "Number of cylinders = 60,"),
    ("model", "Number of spares = 2,")])
def test_unknown_parameters_are_reported(folder, file, after):
    """A parameter that DiskSim does not define is reported as not modelled."""
    change(folder, file, after, f"{after} Helium = 0.5,")
    assert "not known here and not modelled: Helium" in drive(folder).notes


def test_plain_and_packed_file_must_be_equal(folder):
    """A file and its .xz archive may both be present if they are equal."""
    text = (folder / "fictive3.model").read_bytes()
    (folder / "fictive3.model.xz").write_bytes(lzma.compress(text))
    drive(folder)
    (folder / "fictive3.model.xz").write_bytes(lzma.compress(text + b" "))
    refused(folder, ["fictive3.model.xz", "differ"])
    (folder / "fictive3.model.xz").write_bytes(b"no archive")
    refused(folder, ["cannot be unpacked"])


def test_skew_is_rounded_down_to_sectors(folder):
    """The fraction of a skew is dropped."""
    change(folder, "model", "Skew for track switch = 9", "Skew for track switch = 9.75")
    assert "\nzone 41 60 9 14 0\n" in drive(folder).geometry


# --- the arm ----------------------------------------------------------------------

def test_seek_times(folder):
    """The seek table of each of DiskSim's seek types, against its formula."""
    def table(kind):
        model = fictive.model("fictive3", 3, seek=kind)
        return dict(disksim_seek.seek_table(disksim_words.Folder(folder), model, []))

    assert table("constant") == {1: 5.0, 59: 5.0}
    assert table("linear")[19] == 5.0
    assert table("extracted")[20] == 3.9
    assert table("extracted")[59] == pytest.approx(5.5 + 19 * 1.6 / 20)
    hpl = table("hpl")
    assert hpl[4] == pytest.approx(1.0 + 0.5 * 2) and hpl[59] == pytest.approx(2.0 + 0.08 * 59)
    assert table("hplplus10")[8] == 1.9
    curve = table("curve")                # Lee's curve, through 1.2, 5.0 and 9.0 ms
    assert curve[1] == 1.2
    root, line = (75 - 12 - 45) / 3, (8.4 - 75 + 72) / 3
    assert curve[59] == pytest.approx(1.2 + root * (58 / 60) ** 0.5 + line * 58 / 60)


def test_invalid_seek_tables_are_refused(tmp_path):
    """A seek table with a wrong separator, or with fewer than two distances, is refused."""
    fictive.make(tmp_path, [0])
    change(tmp_path, "seek", "20,\t3.9", "20;\t3.9", "fictive0")
    refused(tmp_path, ["seek table fictive0.seek", "20;"], "fictive0")
    change(tmp_path, "seek", "(?s): 4.*", ": 1\n1,\t1.2\n", "fictive0")
    refused(tmp_path, ["fewer than two"], "fictive0")


@pytest.mark.parametrize("old, new, words", [
    ("40,.*\n", "", ["has 3 distances", "first line says 4"]),
    (r"\Z", "50,\t6.0\n", ["has 5 distances", "first line says 4"]),
    (": 4", ": many", ["first line", "'Seek distances measured: many'"]),
    ("3.9", "nan", ["'20,\tnan' is no distance and time"]),
    ("3.9", "inf", ["'20,\tinf' is no distance and time"]),
    ("3.9", "-3.9", ["'20,\t-3.9' is no distance and time"]),
])
def test_incomplete_seek_tables_are_refused(tmp_path, old, new, words):
    """A seek table is refused if its first line has another number of distances, or if a time is
    impossible."""
    fictive.make(tmp_path, [0])
    change(tmp_path, "seek", old, new, "fictive0")
    refused(tmp_path, ["seek table fictive0.seek", *words], "fictive0")


WORD = f"a\n{disksim_compare.BEGIN}\n{disksim_compare.END}\nb\n"


def tool(*args, rc=0):
    done = subprocess.run([COMPARE, "platter", *map(str, args)], text=True,
                          capture_output=True, check=False, timeout=1800)
    assert done.returncode == rc, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_all_complete_drives_of_a_directory(tmp_path, sim):
    """All complete drives of a directory are in the table, and incomplete ones are reported.
    While a drive is left out, --rst does not replace the table."""
    fictive.make(tmp_path, [1, 8])
    (tmp_path / "lonely.diskspecs").write_text("", encoding="utf-8")
    (tmp_path / "fictive1.model").rename(tmp_path / "shared.model")
    change(tmp_path, "diskspecs", "source fictive1.model", "source shared.model", "fictive1")
    said = tool(tmp_path, "--sim", sim)
    assert "fictive1_drive" in said and "fictive8_drive" in said
    assert "fictive1.trace, fictive1.parv, fictive1.diskspecs, shared.model" in said
    assert "shared.model without" not in said
    assert f"{fictive.LBNS[8]} LBNs, spares: sectors at the end of a range" in said
    assert "lonely.diskspecs without a lonely.trace" in said
    change(tmp_path, "model", "Sparing scheme used = 8", "Sparing scheme used = 77",
           "fictive8")
    said = tool(tmp_path, "--sim", sim, rc=1)
    assert "fictive8: left out: sparing scheme 77" in said and "fictive1_drive" in said
    rst = tmp_path / "table.rst"
    rst.write_text(WORD, encoding="utf-8")
    before = rst.read_text(encoding="utf-8")
    assert "stays as it is" in tool(tmp_path, "--sim", sim, "--rst", rst, rc=1)
    assert rst.read_text(encoding="utf-8") == before
    for file in tmp_path.glob("fictive8.*"):
        file.unlink()
    tool(tmp_path, "--sim", sim, "--check", rst, rc=1)
    tool(tmp_path, "--sim", sim, "--rst", rst)
    tool(tmp_path, "--sim", sim, "--check", rst)


def test_directory_without_a_drive_is_an_error(tmp_path, sim):
    """A directory without a drive is an error that names what a drive needs and what is there."""
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    said = tool(tmp_path, "--sim", sim, rc=1)
    assert "no drive found" in said and "NAME.trace" in said and "notes.txt" in said


@pytest.mark.parametrize("trace, dashes", [
    ("R Miss 100 5 5000 100\nR Miss 900 5 5000 0\n", (False, True)),
    ("W Miss 100 5 5000 0\n", (True, False))])
def test_trace_with_reads_or_writes_only(tmp_path, sim, trace, dashes):
    """A trace without reads, or without writes, has a dash in that column."""
    fictive.make(tmp_path, [0])
    for file in list(tmp_path.iterdir()):
        file.write_text(file.read_text(encoding="utf-8").replace("fictive0", "dec_rz26"),
                        encoding="utf-8")
        file.rename(tmp_path / f"dec_rz26{file.suffix}")
    (tmp_path / "dec_rz26.trace").write_text(trace, encoding="utf-8")
    lines = tool(tmp_path, "--sim", sim).split("experiment")[1].splitlines()
    rows = [re.split(r"\s{2,}", line.strip())
            for line in lines if line.startswith("dec_rz26_drive")]
    assert len(rows) == sum(e[0] == "dec_rz26" for e in disksim_compare.EXPERIMENTS)
    for row in rows:
        assert tuple(cell == "-" for cell in row[-2:]) == dashes and "-" not in row[:-2]


def test_trace_beyond_the_drive_is_left_out(folder, sim):
    """A drive is left out if no request of its trace is within it."""
    (folder / "fictive3.trace").write_text("R Miss 99999999 4 5000 0\n", encoding="utf-8")
    said = tool(folder, "--sim", sim, rc=1)
    assert "fictive3: left out: none of its requests is within its" in said


@pytest.mark.parametrize("text", [
    None, "", WORD + WORD, f"{disksim_compare.END}\n{disksim_compare.BEGIN}\n",
    disksim_compare.BEGIN, disksim_compare.END])
@pytest.mark.parametrize("option", ["--rst", "--check"])
def test_document_without_a_place_for_the_tables(folder, sim, option, text):
    """A document that is missing, or that has not exactly one place for the tables, is reported
    in one line and left as it is."""
    rst = folder / "table.rst"
    if text is not None:
        rst.write_text(text, encoding="utf-8")
    said = tool(folder, "--sim", sim, option, rst, rc=1)
    assert said.count("\n") == 1 and str(rst) in said
    assert ("No such file" if text is None else "'.. begin disksim_compare' and then one") in said
    assert text is None or rst.read_text(encoding="utf-8") == text


@pytest.fixture(name="rst")
def the_document(tmp_path):
    """A document with a place for the tables, beside two drives."""
    fictive.make(tmp_path, [1, 8])
    rst = tmp_path / "table.rst"
    rst.write_text(WORD, encoding="utf-8")
    return rst


@pytest.mark.parametrize("args, words", [
    (["fictive1"], "not go with the name of a drive"),
    (["--dump", "fictive1"], "not go with the name of a drive")])
@pytest.mark.parametrize("option", ["--rst", "--check"])
def test_single_drive_excludes_writing_tables(tmp_path, sim, rst, option, args, words):
    """A single drive cannot be combined with --rst or --check, which work on the whole table."""
    assert words in tool(tmp_path, *args, "--sim", sim, option, rst, rc=2)
    assert rst.read_text(encoding="utf-8") == WORD


def test_written_table_must_have_all_drives(tmp_path, sim, rst):
    """--rst refuses to write a table that lacks a drive of the present one; new drives are
    accepted."""
    tool(tmp_path, "--sim", sim, "--rst", rst)
    before = rst.read_text(encoding="utf-8")
    for file in tmp_path.glob("fictive8.*"):
        file.unlink()
    said = tool(tmp_path, "--sim", sim, "--rst", rst, rc=1)
    assert f"{rst} stays as it is: {tmp_path} lacks fictive8_drive" in said
    assert rst.read_text(encoding="utf-8") == before
    fictive.make(tmp_path, [3, 8])               # a new drive may be added
    tool(tmp_path, "--sim", sim, "--rst", rst)
    assert "fictive3_drive" in rst.read_text(encoding="utf-8")


def test_status_of_a_check(tmp_path, sim, rst):
    """--check fails if a digit, the model's fingerprint or the set of drives differs."""
    tool(tmp_path, "--sim", sim, "--rst", rst)
    good = rst.read_text(encoding="utf-8")
    tool(tmp_path, "--sim", sim, "--check", rst)
    digit = re.search(r"fictive8_drive.*(\d)", good)
    rst.write_text(good[:digit.start(1)] + str((int(digit[1]) + 1) % 10) + good[digit.end(1):],
                   encoding="utf-8")
    assert f"the table in {rst} differs" in tool(tmp_path, "--sim", sim, "--check", rst, rc=1)
    rst.write_text(re.sub("model .", "model x", good), encoding="utf-8")
    tool(tmp_path, "--sim", sim, "--check", rst, rc=1)
    rst.write_text(good, encoding="utf-8")
    change(tmp_path, "model", "Sparing scheme used = 8", "Sparing scheme used = 77", "fictive8")
    said = tool(tmp_path, "--sim", sim, "--check", rst, rc=1)
    assert f"{rst} is not checked: fictive8 left out" in said


@pytest.mark.parametrize("value, words", [
    ("fictive3=inf", "is not DRIVE=READ_MS"), ("fictive3=nan", "is not DRIVE=READ_MS"),
    ("fictive3=0.1,nan", "is not DRIVE=READ_MS"), ("fictive3=1e300", "is not DRIVE=READ_MS"),
    ("fictive3=-1", "is not DRIVE=READ_MS"), ("nosuch=1", "--bus nosuch: ")])
def test_impossible_bus_times_are_refused(folder, sim, value, words):
    """--bus refuses impossible times and unknown drives without a traceback."""
    said = tool(folder, "--sim", sim, "--bus", value, rc=2)
    assert words in said and "Traceback" not in said


def test_parameter_file_overrides_bus_option(folder, sim):
    """The bus in the .parv file takes precedence over --bus."""
    assert "its bus is what fictive3.parv says, not --bus" in \
        tool(folder, "--sim", sim, "--bus", "fictive3=1")
    (folder / "fictive3.parv").unlink()
    assert "by --bus its bus takes 1 ms" in tool(folder, "--sim", sim, "--bus", "fictive3=1")


@pytest.mark.parametrize("program, words", [
    ("/nonexistent", "/nonexistent cannot be run: No such file"),
    ("/bin/false", "/bin/false ended with status 1 and said nothing"),
    ("/bin/true", "150 requests, 0 answers"), ("/bin/echo", "/bin/echo answers '-g ")])
@pytest.mark.parametrize("more", [[], ["--dump", "fictive3"], ["--check"]])
def test_wrong_simulator_program_is_reported(folder, program, words, more):
    """A program that is not platter-sim is reported with the reason, and without a traceback."""
    if more == ["--check"]:
        rst = folder / "table.rst"
        rst.write_text(WORD, encoding="utf-8")
        more = ["--check", rst]
    said = tool(folder, "--sim", program, *more, rc=1)
    assert words in said and "Traceback" not in said and "left out: \n" not in said


# --- the measures, against figures computed by hand ---------------------------------

def test_distance_of_two_distributions():
    """Pairs are in us, the result is in ms. The pairing does not influence the result."""
    assert disksim_compare.distribution_rms([(1000, 4000), (2000, 6000)]) == \
        pytest.approx(((3 ** 2 + 4 ** 2) / 2) ** 0.5)
    assert disksim_compare.distribution_rms([(1000, 6000), (2000, 4000)]) == \
        pytest.approx(((3 ** 2 + 4 ** 2) / 2) ** 0.5)
    assert disksim_compare.distribution_rms([(7000, 8000), (8000, 7000)]) == 0
    # The curves are compared at 10,000 quantiles; the last of three values has 3,334 of them.
    assert disksim_compare.distribution_rms([(0, 0), (0, 0), (0, 3000)]) == \
        pytest.approx((9 * 3334 / 10000) ** 0.5)


def test_difference_request_by_request():
    pairs = [(1000, 4000), (6000, 2000)]
    assert disksim_compare.per_request_rms(pairs) == pytest.approx((25 / 2) ** 0.5)
    assert disksim_compare.per_request_rms([(b, a) for a, b in pairs]) == \
        pytest.approx((25 / 2) ** 0.5)


@pytest.mark.parametrize("pairs, value", [
    ([(1, 10), (2, 20), (3, 30)], 1), ([(1, 30), (2, 20), (3, 10)], -1),
    # The covariance of 1, 2, 3 and 1, 3, 2 is 1, the product of their deviations (2 * 2) ** 0.5.
    ([(1, 1), (2, 3), (3, 2)], 0.5), ([(1, 3), (2, 1), (3, 2)], -0.5),
    ([(1, 2), (2, 2), (3, 2)], 0), ([(5, 1), (5, 2)], 0), ([(5, 1)], 0)])
def test_correlation(pairs, value):
    assert disksim_compare.correlation(pairs) == pytest.approx(value)


# --- the electronics, against vectors computed by hand ------------------------------

# A rotation takes 10 ms, a track has 100 sectors of 0.1 ms, and each seek takes 1 ms.
PLAIN = """rotation_ns 10000000
surfaces 1
zone 100 100 0 0
seek 1 1000000
seek 99 1000000
segments 2
segment_sectors 50
write_segment 1
"""


def serve(sim, tmp_path, words, *requests):
    """Return the answers of platter-sim: (service, seek, rotation, transfer) in ms, and h or m
    for a hit or a miss."""
    path = tmp_path / "geometry"
    path.write_text(PLAIN + words, encoding="utf-8")
    done = subprocess.run([sim, "-g", str(path)], input="\n".join(requests) + "\n",
                          text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return [tuple(float(x) / 1000 for x in line.split()[1:5]) + (line.split()[5],)
            for line in done.stdout.splitlines()]


def test_settling_time_only_if_the_arm_moves(sim, tmp_path):
    """The settling time of writes changes the seek time, also downwards, and only if the arm
    moves."""
    words = "write_settle_ns -400000\nwrite_miss_ns 1000000 1000000\nbus_ns 0 0\n"
    there, moved = serve(sim, tmp_path, words, "0 w 10 1", "0 w 110 1")
    assert there[:4] == (1.1, 0.0, 0.0, 0.1)
    assert moved[1] == 0.6


@pytest.mark.parametrize("bus, water, hold, ms", [
    (0.2, 0, 0, 2.1),  # the drive waits for one sector, then the slower bus determines the time
    (0.2, 1000, 0, 3.0),    # the drive waits for all ten
    (0.2, 500, 0, 2.5),
    (0.05, 0, 1, 1.05),     # the medium is slower: the bus has only the last sector left
    (0.05, 0, 0, 1.05),     # disconnecting costs nothing here
])
def test_read_water_mark(sim, tmp_path, bus, water, hold, ms):
    """The water mark determines how much of a read has to be in the buffer before the bus
    transfer begins."""
    words = (f"bus_ns {int(bus * 1e6)} 0\nread_water_permille {water}\n"
             f"water_by_request 1\nhold_read {hold}\n")
    [read] = serve(sim, tmp_path, words, "0 r 0 10")
    assert read[0] == pytest.approx(ms)


def test_disconnection_overhead_of_reads(sim, tmp_path):
    """Each disconnection and reconnection during a read adds its overhead."""
    words = ("bus_ns 50000 0\nread_water_permille 500\nwater_by_request 1\n"
             "read_disconnect_ns 20000 0\nreselect_ns 30000 0\nprep_ns 5000\n"
             "read_done_ns 7000\n")
    [read] = serve(sim, tmp_path, words, "0 r 0 10")
    # Five sectors have been read at 0.5. The drive is connected at 0.535, has sent five at 0.785,
    # and then sends up to the seventh (0.885), the eighth (0.935) and the ninth (0.985). Then it
    # disconnects; the tenth has been read, and the drive reconnects.
    assert read[0] == pytest.approx(0.985 + 0.02 + 0.035 + 0.05 + 0.007)


def test_overhead_depends_on_the_previous_request(sim, tmp_path):
    """The overhead of a request depends on whether it hits the cache, and on whether the request
    before was a read or a write."""
    words = ("bus_ns 50000 50000\nahead 3\nahead_sectors 40\nread_hit_ns 300000 500000\n"
             "write_hit_ns 450000 350000\nfast_write 1\n")
    got = serve(sim, tmp_path, words, "0 r 0 4", "100000 r 4 4", "100000 w 5000 2",
                "100000 r 8 4", "100000 w 6000 2", "100000 w 7000 2")
    assert [round(g[0], 6) for g in got[1:]] == [0.5, 0.55, 0.7, 0.55, 0.45]
    assert [g[4] for g in got] == list("mhhhhh")


def test_long_read_ahead_evicts_first_sectors(sim, tmp_path):
    """If the drive reads ahead more than a segment holds, the first sectors are lost and a
    sequential read misses."""
    asked = "0 r 0 4", "100000 r 4 4"
    assert serve(sim, tmp_path, "ahead 3\nahead_sectors 40\n", *asked)[1][4] == "h"
    # The drive reads ahead to the end of the track; the segment holds the last fifty sectors.
    assert serve(sim, tmp_path, "ahead 4\n", *asked)[1][4] == "m"
    assert serve(sim, tmp_path, "ahead 4\nsegment_sectors 100\n", *asked)[1][4] == "h"


def test_writes_invalidate_cached_sectors(sim, tmp_path):
    """A write invalidates the cached sectors that it overwrites."""
    words = "ahead 3\nahead_sectors 40\nfast_write 1\n"
    got = serve(sim, tmp_path, words, "0 r 0 4", "100 w 2 4", "100000 r 0 4")
    assert got[2][4] == "m"


def test_late_write_data_costs_a_rotation(sim, tmp_path):
    """A sector that arrives over the bus after the head has passed costs a rotation. With
    fast_write the drive does not wait for the medium."""
    [write] = serve(sim, tmp_path, "bus_ns 0 200000\n", "0 w 0 3")
    assert write[0] == pytest.approx(10.3)     # the first sector had just passed
    write = serve(sim, tmp_path, "bus_ns 0 200000\n", "0 w 3 3")[0]
    assert write[0] == pytest.approx(10.6)     # the second sector arrived too late
    [write] = serve(sim, tmp_path, "bus_ns 0 200000\nfast_write 1\n", "0 w 3 3")
    assert write[0] == pytest.approx(0.6)


def test_write_longer_than_its_segment_waits(sim, tmp_path):
    """A write that is longer than its segment waits until sectors have reached the medium."""
    words = "bus_ns 0 10000\nfast_write 1\nhold_write 1\n"
    assert serve(sim, tmp_path, words, "0 w 3 50")[0][0] == pytest.approx(0.5)
    # Sector 3 is under the head from 0.3 to 0.4 ms; then there is room for the fifty-first.
    assert serve(sim, tmp_path, words, "0 w 3 51")[0][0] == pytest.approx(0.51)
    words = "segment_sectors 4\n" + words
    # The last sector may arrive when all but the last four have been written.
    assert serve(sim, tmp_path, words, "0 w 3 50")[0][0] == pytest.approx(0.3 + 4.6 + 0.01)


FULL = ("segment_sectors 4\nfast_write 1\nbus_ns 0 10000\nprep_ns 5000\n"
        "write_disconnect_ns 20000\nreselect_ns 30000 0\n")


@pytest.mark.parametrize("words, ms", [
    # Four sectors have arrived at 0.045; they are on the medium one by one from 0.4 on.
    ("hold_write 1\n", 0.51),
    ("never_disconnect 1\n", 0.51),
    # Reconnection when two are left, at 0.5; the fifth arrives at 0.545, then there is room for the
    # sixth.
    ("write_water_permille 500\nwater_by_request 1\n", 0.555),
    ("write_water_permille 0\nwater_by_request 1\n", 0.655),      # when one is left
    # Reconnection when there is room for one; then the drive disconnects once more.
    ("write_water_permille 1000\nwater_by_request 1\n", 0.545),
    ("write_water_permille 0\nwater_by_request 0\n", 0.755),      # when none is left
])
def test_drive_disconnects_when_the_segment_is_full(sim, tmp_path, words, ms):
    """The drive disconnects when the segment is full. The water mark determines when it
    reconnects."""
    [write] = serve(sim, tmp_path, FULL + words, "0 w 3 6")
    assert write[0] == pytest.approx(ms)


def test_never_disconnect_saves_the_overhead(sim, tmp_path):
    """never_disconnect saves the overhead of the disconnection, with and without fast_write."""
    words = ("write_disconnect_ns 200000\nreselect_ns 300000 0\nprep_ns 50000\n"
             "bus_ns 0 100000\nwrite_done_ns 40000\n")
    # The data are on the medium at 1.1.
    assert serve(sim, tmp_path, words, "0 w 10 1")[0][0] == pytest.approx(1.44)
    held = words + "never_disconnect 1\n"
    assert serve(sim, tmp_path, held, "0 w 10 1")[0][0] == pytest.approx(1.14)
    # The write completes at 0.19; the drive is busy until 1.1.
    words, held = words + "fast_write 2\n", held + "fast_write 2\n"
    asked = "0 w 10 1", "0 w 50 1"
    got = serve(sim, tmp_path, words, *asked)
    assert [g[0] for g in got] == pytest.approx([0.19, 1.1 + 0.35 + 0.14 - 0.19])
    got = serve(sim, tmp_path, held, *asked)
    assert [g[0] for g in got] == pytest.approx([0.19, 1.1 + 0.14 - 0.19])


def test_hold_write_of_the_parameter_file(tmp_path, sim):
    """The parameters about holding the bus have the expected effect on the time of a write.
    fictive9 writes through and disconnects from the bus; its overheads are not 0, and its
    segment has 16 sectors."""
    fictive.make(tmp_path, [9])

    def ms(sectors):
        (tmp_path / "fictive9.trace").write_text(f"W Miss 100 {sectors} 0 0\n",
                                                 encoding="utf-8")
        found = drive(tmp_path, "fictive9")
        return disksim_compare.Comparison(sim, found).run()[0] / 1000

    def say(label, before, after):
        change(tmp_path, "diskspecs", f"{label} = {before}", f"{label} = {after}", "fictive9")

    short = ms(5)
    say("Hold bus entire write xfer", 0, 1)
    assert ms(5) == short               # the bus is held for the data, not for the medium
    say("Never disconnect", 0, 1)
    assert ms(5) == pytest.approx(short - 0.16)       # the first reselect overhead
    say("Never disconnect", 1, 0)
    say("Fast write level", 0, 2)
    held = ms(24)
    say("Hold bus entire write xfer", 1, 0)
    marked = ms(24)
    change(tmp_path, "diskspecs", r"Low .write. water mark = 0\.75",
           "Low (write) water mark = 0.1", "fictive9")
    assert held + 0.16 < marked < ms(24)


def test_zero_latency_read(sim, tmp_path):
    """With zero_latency a read begins with whichever of its sectors first comes under the head,
    so it takes one rotation at most."""
    words = "read_miss_ns 500000 0\nbus_ns 0 0\n"
    assert serve(sim, tmp_path, words, "0 r 0 50")[0][0] == pytest.approx(15.0)
    words += "zero_latency 1\n"
    assert serve(sim, tmp_path, words, "0 r 0 50")[0][0] == pytest.approx(10.5)


def test_platter_sim_uses_the_map(sim, tmp_path):
    """A sector that the map puts elsewhere costs a seek there and back."""
    words = "map 0 0 5\nmap 5 5050 1\nmap 6 6 90\n"
    [read] = serve(sim, tmp_path, words, "0 r 4 1")
    assert read[0] == pytest.approx(0.5)
    [read] = serve(sim, tmp_path, words, "0 r 4 3")
    # Seek to cylinder 50, read from its sector 50, then back to the sixth sector of the next
    # rotation.
    assert read[0] == pytest.approx(10.7)


@pytest.mark.parametrize("words, why", [
    ("map 0 0 5\nmap 6 6 1\n", "every LBN once"), ("map 0 9999 2\n", "within the zones"),
    ("segments 1\n", "1 to 64 segments"), ("ahead 5\n", "0 to 4"),
    ("bus_ns 1\n", "wrong number of values"), ("bus_ns -1 0\n", "is negative"),
    ("rotation_ns 4294967296\n", "exceeds 32 bits: rotation_ns 4294967296"),
    ("zone 4294967297 10 0 0\n", "exceeds 32 bits"), ("zone 1 10 -1 0\n", "is negative"),
    ("seek 1 4294967297\n", "exceeds 32 bits"), ("seek -1 1\n", "is negative"),
    ("nonsense 1\n", "unknown word")])
def test_invalid_geometry_is_refused(sim, tmp_path, words, why):
    """platter-sim refuses a wrong geometry with the reason."""
    path = tmp_path / "geometry"
    path.write_text(PLAIN + words, encoding="utf-8")
    done = subprocess.run([sim, "-g", str(path)], input="", text=True,
                          capture_output=True, check=False)
    assert done.returncode == 2 and why in done.stderr


# --- the table -----------------------------------------------------------------------

def test_table_is_of_the_present_model(sim):
    """The table is valid as long as the present model gives the same results for the fictive
    drives as when the table was written. If this fails, write the table again with
    `scripts/experiments platter DIRECTORY --rst ...`."""
    _, section, _ = disksim_compare.split(RST)
    model, tables, body = re.search(r"\.\. model (\w+), tables (\w+)\n\n(.*)\n\n\.\. end",
                                    section, re.S).groups()
    assert model == disksim_compare.fingerprint(sim)
    assert tables == disksim_compare.checksum(body)
    header, *rows = [re.split(r"\s{2,}", line)
                     for line in section.split("experiment")[0].splitlines()
                     if re.match(r"drive|[A-Z]", line)]
    assert tuple(header) == disksim_compare.COLUMNS
    assert len(rows) >= 5
    for row in rows:
        published, ours, ratio = (float(row[i]) for i in (2, 4, 5))
        assert published in disksim_compare.PUBLISHED.values()
        assert ratio == pytest.approx(ours / published, abs=0.01)


def test_aim_of_the_document_is_met():
    """The aim is to be below DiskSim's own figure on most drives, and within 1.5 times of it on
    all. It must be met by the first column, not by the one that was adopted after the traces had
    been examined."""
    _, section, _ = disksim_compare.split(RST)
    ratios = [float(row[3]) / float(row[2]) for row in
              (re.split(r"\s{2,}", line) for line in section.split("experiment")[0].splitlines()
               if re.match("[A-Z]", line))]
    assert sum(ratio < 1 for ratio in ratios) > len(ratios) / 2
    assert max(ratios) <= 1.5


def test_readme_has_the_tables_figures():
    """The README has the same figures as the table."""
    _, section, _ = disksim_compare.split(RST)
    rows = [re.split(r"\s{2,}", line) for line in section.split("experiment")[0].splitlines()
            if re.match("[A-Z]", line)]
    [line] = re.findall(r"\| `platter` against five real drives.*",
                        (TOP / "README.md").read_text(encoding="utf-8"))
    assert re.findall(r"\d\.\d{3}", line) == [row[i] for i in (3, 2) for row in rows]


@pytest.mark.skipif(not os.environ.get("SHINGLE_DISKSIM"),
                    reason="SHINGLE_DISKSIM names no folder with the measured drives")
def test_table_is_of_the_measured_drives(sim):
    """With the measured drives, the whole table is what the present model gives."""
    said = tool(os.environ["SHINGLE_DISKSIM"], "--sim", sim, "--check", RST)
    assert "not known" not in said
