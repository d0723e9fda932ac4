# SPDX-License-Identifier: GPL-2.0
"""Tests of skylight quick: the drive's identification, the place of its writes, and its
conclusions."""

import contextlib
import errno
import json
import os
import shutil
import stat
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from experiments import probe_drives
from skylight import cli, device, load, quick, report, drive_properties, scratch, stats, tfilled_neighbours
from skylight.clock import Clock, OutOfTime
from skylight.session import DONE, SKIPPED, UNTOLD, Finding, Result

MIB = 1 << 20
needs_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")


# --- the drive's identification -------------------------------------------------------


@pytest.fixture(name="sysfs")
def a_folder_of_sysfs(tmp_path, monkeypatch):
    """sysfs(name=content) makes a sysfs directory; there is no smartctl."""
    monkeypatch.setattr(device, "tool", lambda *_: (None, ""))

    def make(**files):
        for name, content in files.items():
            path = tmp_path / "sys" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())
        return tmp_path / "sys"
    return make


def page(rate, zoned):
    """Return VPD page B1."""
    return bytes((0, 0xb1, 0, 0x3c)) + struct.pack(">H", rate) + bytes((0, 2, zoned << 4)) + \
        bytes(55)


@pytest.mark.parametrize("vpd, queue, zones, spins", [
    (page(5400, 2), "none", "device-managed", True), (page(7200, 1), "none", "host-aware", True),
    (page(7200, 0), "host-managed", "host-managed", True), (page(7200, 0), "none", None, True),
    (page(1, 0), "none", None, False), (page(1, 0), "host-managed", "host-managed", False),
    (b"\0\xb1\0\0", "none", None, True), (bytes(64), "none", None, True),
    (page(0, 0), "none", None, True)])
def test_zones_and_rotation(sysfs, vpd, queue, zones, spins):
    said = drive_properties.of(sysfs(device__model="D1", device__vpd_pgb1=vpd, queue__zoned=queue,
                         queue__rotational=int(spins), queue__discard_max_bytes=0), "/dev/none")
    assert (said["zones"], drive_properties.spins(said), drive_properties.trims(said)) == (zones, spins, False)
    assert said["model"] == "D1" and not said["layer"]
    text = "\n".join(drive_properties.lines(said))
    assert f"zones: {zones or 'reports none'}" in text and "smartctl is not installed" in text


def test_partition_reports_as_its_disk(sysfs):
    disk = sysfs(queue__zoned="none", queue__rotational=1, queue__discard_max_bytes=4096,
                 device__vpd_pgb1=page(5400, 2), sda1__partition=1)
    said = drive_properties.of(disk / "sda1", "/dev/sda1")
    assert said["zones"] == "device-managed" and said["rpm"] == 5400 and drive_properties.trims(said)


def test_device_mapper_layer_is_no_drive(sysfs):
    said = drive_properties.of(sysfs(queue__zoned="none", queue__rotational=1, dm__name="x"), "/dev/dm-0")
    assert said["layer"] and said["rpm"] is None and drive_properties.spins(said)
    assert "a layer of the kernel" in "\n".join(drive_properties.lines(said))


# The output of smartctl 7.2 for a laptop drive.
SMART = {"model_name": "TOSHIBA MQ04UBB400", "rotation_rate": 5400, "trim": {"supported": True},
         "smartctl": {"output": ["Form Factor:      2.5 inches",
                                 "Zoned Device:     Device managed zones"]}}


@pytest.mark.parametrize("text, zones, rpm", [
    (json.dumps(SMART), "device-managed", 5400), ("not JSON", None, None), ("[]", None, None),
    ("{}", None, None)])
def test_smartctl_sees_through_a_bridge(sysfs, monkeypatch, text, zones, rpm):
    asked = []

    def tool(*words):
        asked.append(words)
        return 0, text
    folder = sysfs(device__model="USB", queue__rotational=1, queue__zoned="none")
    monkeypatch.setattr(device, "tool", tool)
    said = drive_properties.of(folder, "/dev/sdq")
    assert asked == [("smartctl", "--json=o", "-i", "/dev/sdq")]
    assert (said["zones"], said["rpm"]) == (zones, rpm)
    assert drive_properties.trims(said) == bool(zones)


def envelope(status, *messages, **more):
    return json.dumps({"smartctl": {"output": ["smartctl 7.4", "", *messages], "exit_status": status,
                                    "messages": [{"string": m} for m in messages]}, **more})


DENIED = "Smartctl open device: /dev/sdq failed: Permission denied"
BRIDGE = "/dev/sdq: Unknown USB bridge [0x0bc2:0xab44 (0x100)]"


@pytest.mark.parametrize("text", [
    envelope(2, DENIED), envelope(1, DENIED), envelope(0, DENIED),
    envelope(2, DENIED, model_name="left over from a failed call")])
def test_failed_smartctl_is_no_answer(sysfs, monkeypatch, text):
    """If smartctl fails, its output is JSON of the same structure. It must not count as an answer,
    and the report quotes the message."""
    folder = sysfs(device__model="USB", queue__rotational=1, queue__zoned="none")
    monkeypatch.setattr(device, "tool", lambda *words: (1, text))
    said = drive_properties.of(folder, "/dev/sdq")
    assert not said["smartctl"] and said["model"] == "USB"
    assert f"smartctl could not ask: {DENIED}" in "\n".join(drive_properties.lines(said))


@pytest.mark.parametrize("helps", [True, False])
def test_unknown_usb_bridge_is_queried_with_sat(sysfs, monkeypatch, helps):
    """If smartctl does not know the USB bridge, a second call with -d sat may reach the drive, as
    behind most bridges."""
    asked = []

    def tool(*words):
        asked.append(words[3:-1])
        return (0, json.dumps(SMART)) if helps and "sat" in words else (1, envelope(1, BRIDGE))
    folder = sysfs(device__model="USB", queue__rotational=1, queue__zoned="none")
    monkeypatch.setattr(device, "tool", tool)
    said = drive_properties.of(folder, "/dev/sdq")
    assert asked == [(), ("-d", "sat")]
    assert (said["smartctl"], said["zones"]) == (helps, "device-managed" if helps else None)
    assert helps or BRIDGE in "\n".join(drive_properties.lines(said))


SCSI = {"scsi_model_name": "SEAGATE ST8000NM0075", "rotation_rate": 7200}


@pytest.mark.parametrize("more, lines, zones", [
    ({}, ["Host aware zoned block capable"], "host-aware"),
    ({}, ["Device managed zoned block capable"], "device-managed"),
    ({"scsi_device_managed_zoned_block_capable": True}, [], "device-managed"),
    ({"scsi_Host aware zoned block capable": True}, [], "host-aware"),
    ({"scsi_host_aware_zoned_block_capable": False}, [], None),
    ({}, ["Device type:          host managed zoned block device"], "host-managed"),
    ({}, ["Device type:          disk", "Product:  Host aware of nothing"], None),
    ({"zoned_device": {"capabilities": "host_aware"}}, [], "host-aware"),
    ({"zoned_device": {"capabilities": "drive_managed"}}, [], "device-managed"),
    ({"trim": True, "zoned_device": None}, [], None)])
def test_smartctl_of_scsi_and_of_newer_versions(sysfs, monkeypatch, more, lines, zones):
    folder = sysfs(queue__rotational=1, queue__zoned="none", device__model="X")
    text = json.dumps({**SCSI, **more, "smartctl": {"output": lines, "exit_status": 4}})
    monkeypatch.setattr(device, "tool", lambda *words: (4, text))
    said = drive_properties.of(folder, "/dev/sdq")
    assert (said["smartctl"], said["zones"], said["rpm"]) == (True, zones, 7200)
    assert said["model"] == "SEAGATE ST8000NM0075"


# --- the place of writes -----------------------------------------------------------------


class Traced:
    """A load that records its requests."""

    def __init__(self, drive):
        self.drive, self.asked = drive, []

    def replay(self, name, ops, iodepth=1, watch=None):
        write, offset, size = load.as_ops(ops)
        self.asked += zip(write.tolist(), offset.tolist(), (offset + size).tolist())
        return self.drive.replay(name, (write, offset, size), iodepth, watch)

    def job(self, name, options, watch=None):
        self.asked.append(("write" in options["rw"], options["offset"],
                           options["offset"] + options["size"]))
        return self.drive.job(name, options, watch)

    def sleep(self, seconds):
        self.drive.sleep(seconds)


def part_of(drive, start=0, size=None):
    return scratch.Part("model", start, drive.bytes - start if size is None else size, drive, "it")


def look(drive, tmp_path, start=0, size=None, seconds=300, writing=quick.write,
         say=lambda text: None):
    """Return (Answer, Session, Traced) of a model, by the model's own clock."""
    traced, part = Traced(drive), part_of(drive, start, size)
    clock = Clock(seconds, lambda: drive.disk.now / 1e6)
    s = quick.session(part, tmp_path / "out", traced, clock, say=say)
    writing(s)
    return quick.answer(None, s.results), s, traced


@pytest.mark.parametrize("made", [
    lambda: probe_drives.Drive(120_000),
    lambda: probe_drives.SetAssociative(64, 1900, 40, idle_us=5e5),
    lambda: probe_drives.FullyAssociative(64, 8, 250, 10, 5)])
def test_all_requests_stay_within_the_part(tmp_path, made):
    """With a part of a drive, quick neither reads nor writes a block outside that part."""
    start, size = 200 * MIB, 128 * MIB
    answer, _, traced = look(made(), tmp_path, start, size)
    assert answer.value and len(traced.asked) > 2000
    assert any(write for write, *_ in traced.asked)
    assert min(first for _, first, _ in traced.asked) >= start
    assert max(end for *_, end in traced.asked) <= start + size


@pytest.mark.parametrize("ask", [
    lambda w: w.replay("x", (True, [0, 8 * MIB], 4096)),
    lambda w: w.replay("x", (False, [8 * MIB - 4096], 8192)),
    lambda w: w.job("x", {"rw": "write", "offset": 4 * MIB, "size": 5 * MIB})])
def test_request_outside_the_part_is_refused(ask):
    """A request that leaves the part is an error of its test, and nothing of it is sent."""
    traced = Traced(probe_drives.Drive(10_000))
    with pytest.raises(load.LoadError, match="nothing was sent"):
        ask(scratch.Within(traced, MIB, 8 * MIB, Clock(9, lambda: 0)))
    assert not traced.asked


@needs_fio
def test_fio_writes_only_the_range(tmp_path):
    """The bytes before and after the range keep their content, and the range has all writes."""
    disk, old = tmp_path / "disk", b"\xa5" * (6 * MIB)
    disk.write_bytes(old)
    within = scratch.Within(load.Fio(str(disk), tmp_path / "jobs"), 2 * MIB, MIB,
                            Clock(600))
    trace = within.replay("few", (True, [0, MIB - 4096], 4096))
    assert trace.offset.tolist() == [0, MIB - 4096]
    within.job("many", {"rw": "randwrite", "bs": 4096, "number_ios": 300, "log": False})
    new = disk.read_bytes()
    assert len(new) == len(old)
    assert new[:2 * MIB] == old[:2 * MIB] and new[3 * MIB:] == old[3 * MIB:]
    assert new[2 * MIB:2 * MIB + 4096] != old[:4096] != new[3 * MIB - 4096:3 * MIB]


@needs_fio
@pytest.mark.parametrize("name", ["notes#2", "notes;2", "notes 2", "notes$2", "notes\\2", 'notes"2',
                                  "notes" + "2" * 250])
def test_file_names_that_fio_splits_are_refused(tmp_path, name):
    """Such names are refused: fio would cut the name off or split it, and write to another file."""
    (tmp_path / "notes").write_bytes(b"\xa5" * 65536)
    (tmp_path / name).write_bytes(bytes(65536))
    fio = load.Fio(str(tmp_path / name), tmp_path / "jobs")
    for send in (lambda: fio.job("x", {"rw": "write", "bs": 4096, "size": 65536, "log": False}),
                 lambda: fio.replay("y", (True, [0], 4096)), fio.require):
        with pytest.raises(load.LoadError, match="can't be told to open"):
            send()
    assert (tmp_path / "notes").read_bytes() == b"\xa5" * 65536


@needs_fio
@pytest.mark.parametrize("name", [b"B\xc3\xbccher", b"B\xfccher", b"a:b%s,c", b"-x", b"[a]"])
def test_file_names_in_other_encodings(tmp_path, name):
    """Names with bytes that are not UTF-8 or with other marks work: desktops make mount points from
    labels in any encoding."""
    (tmp_path / os.fsdecode(name)).write_bytes(bytes(65536))
    fio = load.Fio(str(tmp_path / os.fsdecode(name)), tmp_path / "jobs")
    fio.job("x", {"rw": "write", "bs": 4096, "size": 65536, "direct": 0, "log": False})
    assert len(fio.replay("y", (False, [0, 8192], 4096))) == 2
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == [os.fsdecode(name)]


@pytest.mark.parametrize("text, start, size", [
    ("0+64M", 0, 64 * MIB), ("10G+1G", 10 << 30, 1 << 30), ("4096+8k", 4096, 8192)])
def test_areas_are_parsed(text, start, size):
    assert scratch.parse(text) == (start, size)


class Held:
    """The part of a Device that scratch.area() uses."""

    def __init__(self, path, destroy_data=False, option=""):
        self.path, self.bytes, self.label, self.closed = str(path), 1 << 30, "x", False
        Held.last, self.asked = self, (destroy_data, option)

    def close(self):
        self.closed = True


@pytest.mark.parametrize("text, why", [
    ("1G", "is not START"), ("x+y", "is not START"), ("1G+0", "has no length"),
    ("-4k+1G", "begins before 0"), ("100+64M", "multiples of 4096"),
    ("1000M+64M", "ends behind"), ("0+32M", "too few")])
def test_invalid_areas_are_refused(monkeypatch, text, why):
    monkeypatch.setattr(scratch, "Device", Held)
    with pytest.raises(device.Refused, match=why):
        scratch.area("/dev/x", text)
    assert Held.last.closed


def test_only_the_named_area_is_overwritten(monkeypatch):
    monkeypatch.setattr(scratch, "Device", Held)
    assert scratch.area("/dev/x", "0+64M").bytes == 64 * MIB and Held.last.asked[0] is True
    assert scratch.area("/dev/x", None).bytes == 1 << 30
    assert Held.last.asked == (False, "only --area START+LENGTH")


def test_device_with_content_is_refused(monkeypatch):
    """The error is that of `skylight run`, and names the option that allows it."""
    monkeypatch.setattr(device.Device, "_reach", lambda *_: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(device.Device, "_int", lambda *_: 0)
    monkeypatch.setattr(device.Device, "_size", lambda *_: 1 << 30)
    monkeypatch.setattr(device, "signatures", lambda path: "ext4")
    with pytest.raises(device.Refused, match=r"holds ext4; only --area START\+LENGTH over"):
        scratch.area("/dev/x", None)


def test_existing_files_are_not_overwritten(tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("three years")
    with pytest.raises(device.Refused, match="overwrites no file but its own"):
        scratch.File(path)
    assert path.read_text() == "three years" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("free, at, why", [
    (100 * MIB, "", "too little room"), (1 << 40, "none/file", "no directory"),
    (1 << 40, "", "no block device")])
def test_unsuitable_places_for_a_file(tmp_path, monkeypatch, free, at, why):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free >> 12,
                                                                 f_frsize=4096))
    monkeypatch.setattr(os, "major", lambda _: 0)
    monkeypatch.setattr(os, "minor", lambda _: 9999)
    with pytest.raises(device.Refused, match=why):
        scratch.File(tmp_path / at)
    assert not list(tmp_path.iterdir())


def mapped(monkeypatch, *tables):
    """FIEMAP answers with these tables in turn, [(logical, physical, length, flags)], and repeats
    the last one."""
    tables = list(tables)

    def ioctl(_, number, buf):
        assert number == 0xc020660b and struct.unpack_from("QQII", buf) == (0, 2**64 - 1, 1, 0)
        table = tables.pop(0) if len(tables) > 1 else tables[0]
        if table is None:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        struct.pack_into("I", buf, 20, len(table))
        for i, (logical, physical, length, flags) in enumerate(table):
            struct.pack_into("QQQQQI", buf, 32 + 56 * i, logical, physical, length, 0, 0, flags)
    monkeypatch.setattr(scratch.fcntl, "ioctl", ioctl)


def test_extents_of_a_file(monkeypatch):
    mapped(monkeypatch, [(0, 1 << 30, MIB, 0), (MIB, 3 << 30, MIB, 1)])
    assert scratch.extents(3) == [(0, 1 << 30, MIB), (MIB, 3 << 30, MIB)]


@pytest.mark.parametrize("table, why", [
    (None, "does not say where"), ([], "0 pieces"), ([(0, 0, MIB, 0x2000)], "compressed, shared"),
    ([(0, 0, MIB, 0x800)], "not written yet")])
def test_files_without_known_extents_are_refused(monkeypatch, table, why):
    mapped(monkeypatch, table)
    with pytest.raises(device.Refused, match=why):
        scratch.extents(3)


class Jobs:
    """The part of a Session's fio that a file needs."""

    def __init__(self):
        self.asked = []

    def fio(self, name, **options):
        self.asked.append((name, options["rw"], options["size"]))


@pytest.fixture(name="file")
def a_scratch_file(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=640 * MIB >> 12,
                                                                 f_frsize=4096))
    monkeypatch.setattr(Path, "exists", lambda self: True if str(self).startswith("/sys/dev")
                        else os.path.lexists(self))
    file = scratch.File(tmp_path)
    yield file
    file.close()


def test_scratch_file_is_written_and_removed(file, tmp_path, monkeypatch):
    mapped(monkeypatch, [(0, 1 << 30, 64 * MIB, 0)])
    s = Jobs()
    file.make(s)
    assert s.asked == [("fill", "write", 64 * MIB), ("rewrite", "randwrite", 64 * MIB)]
    there, = tmp_path.iterdir()
    assert there.stat().st_size == 64 * MIB and stat.S_IMODE(there.stat().st_mode) == 0o600
    assert not file.moved()
    file.close()
    assert not list(tmp_path.iterdir())


def test_copy_on_write_filesystem_is_refused(file, tmp_path, monkeypatch):
    mapped(monkeypatch, [(0, 1 << 30, 64 * MIB, 0)], [(0, 2 << 30, 64 * MIB, 0)])
    with pytest.raises(device.Refused, match="puts elsewhere"):
        file.make(Jobs())
    file.close()
    assert not list(tmp_path.iterdir())


@needs_fio
@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("name", ["My Passport", "a;b", 'x"$y', "long" * 60])
def test_mount_point_with_blanks(tmp_path, monkeypatch, name):
    """fio finds a file in a directory that cannot be named on its command line, and writes to no
    other."""
    mapped(monkeypatch, [(0, 1 << 30, 64 * MIB, 0)])
    folder, jobs = tmp_path / name, tmp_path / "jobs"
    folder.mkdir()
    file = scratch.File(folder)
    fio = load.Fio(file.path, jobs, named=file.named)
    fio.require()
    file.make(Jobs())
    fio.job("x", {"rw": "write", "bs": 4096, "size": 65536, "direct": 0, "log": False})
    assert len(fio.replay("y", (True, [0, 8192], 4096))) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "jobs"])
    there, = folder.iterdir()
    assert any(there.read_bytes()[:65536]) and there.stat().st_size == 64 * MIB
    file.close()
    assert not list(folder.iterdir())
    with pytest.raises(OSError):
        os.stat(fio.named)


def test_timeout_is_not_a_moved_file(file, monkeypatch):
    def late(*_, **__):
        raise OutOfTime("time budget of 5 s is used up")
    s = Jobs()
    monkeypatch.setattr(s, "fio", late)
    with pytest.raises(OutOfTime):
        file.make(s)
    assert not file.moved()


def test_existing_scratch_file_is_not_used(file, monkeypatch):
    mapped(monkeypatch, [(0, 1 << 30, 64 * MIB, 0)])
    Path(file.path).write_text("mine")
    with pytest.raises(device.Refused, match="File exists"):
        file.make(Jobs())
    file.close()
    assert Path(file.path).read_text() == "mine"


# --- conclusions ------------------------------------------------------------------------


def test_conventional_disk(tmp_path):
    answer, s, _ = look(probe_drives.Drive(200_000, jitter=30.0), tmp_path)
    assert answer.value == "conventional" and answer.confidence == stats.measured("filled_all")
    assert s.load.clock.spent() < 90 and "11" not in s.results
    assert answer.sentence().startswith("This drive is conventional: nothing shows")
    assert "0 of 120 writes beside what was there" in answer.sentence()


def test_budget_ends_before_bands_are_found(tmp_path):
    drive, said = probe_drives.SetAssociative(2048, 200, 8), []
    answer, s, _ = look(drive, tmp_path, say=said.append)
    assert not said
    assert answer.value == "translated" and "time budget of 300 s is used up" in answer.says
    assert s.results["11"].status == UNTOLD and s.load.clock.spent() < 330
    assert Result.load(s.out, "t11").status == UNTOLD
    assert "can't be told" in answer.sentence()


def test_budget_of_one_second(tmp_path):
    answer, s, _ = look(probe_drives.Drive(200_000), tmp_path, seconds=1)
    assert answer.value is None and "time budget of 1 s is used up" in answer.sentence()
    assert s.results["1"].status == UNTOLD


def test_clock_reserves_time_to_finish():
    now = [5000]
    clock = Clock(300, lambda: now[0])
    assert 295 < clock.left() < 299 and clock.spent() == 0
    now[0] += 295
    clock.check()
    now[0] += 4
    with pytest.raises(OutOfTime, match="^time budget of 300 s is used up$"):
        clock.check()
    assert clock.over and clock.spent() == 299


def test_pause_beyond_the_budget_raises():
    clock = Clock(10, lambda: 0)
    with pytest.raises(OutOfTime):
        scratch.Within(Traced(None), 0, 4096, clock).sleep(60)
    assert clock.over


def test_ram_gives_no_answer(tmp_path):
    answer, s, _ = look(probe_drives.Memory(60_000), tmp_path)
    assert answer.value is None and answer.confidence == 0 and "11" not in s.results


@pytest.mark.parametrize("order", ["adjacent", "halves", "dynamic"])
@pytest.mark.parametrize("before", [0, 0.5, 1])
def test_interlaced_drive_is_not_called_conventional(tmp_path, order, before):
    """An interlaced drive rewrites neighbouring tracks. It gets no answer, however much of it was
    written before."""
    drive = probe_drives.Interlaced(200_000, order)
    drive.job("before", {"rw": "write", "bs": MIB, "number_ios": int(before * drive.bytes / MIB)})
    answer, s, _ = look(drive, tmp_path)
    assert answer.value is None and "rewritten" in answer.says
    assert s.load.clock.spent() < 300


def test_unfilled_interlaced_drive_is_not_called_conventional(tmp_path, monkeypatch):
    monkeypatch.setattr(tfilled_neighbours, "FILL_S", 2)
    answer, s, _ = look(probe_drives.Interlaced(200_000, "dynamic"), tmp_path)
    assert s.results["filled"].numbers["filled"] == "stretches"
    assert answer.value is None and "no time to fill it" in answer.says


@pytest.mark.parametrize("made, seconds, filled", [
    (lambda: probe_drives.Drive(200_000), 300, "all"),
    (lambda: probe_drives.Thin(120_000), 300, "all"),
    (lambda: probe_drives.Drive(3_000_000), 300, "stretches"),
    (lambda: probe_drives.Interlaced(200_000), 300, "nothing")])
def test_fill_is_limited_by_the_budget(tmp_path, made, seconds, filled):
    """The whole drive is filled if the time suffices, otherwise stretches of it. Nothing is filled
    if Test 1 has already seen that blocks are rewritten."""
    drive, begin = made(), None
    if filled == "nothing":
        # Test 1 has enough evidence.
        drive.job("before", {"rw": "write", "bs": MIB, "number_ios": drive.bytes // MIB})
        begin = drive.disk.now
    _, s, traced = look(drive, tmp_path, seconds=seconds)
    assert s.results["filled"].numbers["filled"] == filled
    streams = [(first, end) for write, first, end in traced.asked if write and end - first > MIB]
    assert any(end - first >= drive.bytes - MIB for first, end in streams) == (filled == "all")
    assert bool(streams) == (begin is None)


def test_slow_fill_is_not_reported_as_complete(tmp_path, monkeypatch):
    """If filling takes longer than estimated, the drive is not reported as filled."""
    class Slower(probe_drives.Drive):
        def write(self, block, count):
            super().write(block, count)
            self.disk.now += 5e5 * (count > 1) * (block > self.blocks * 0.95)
    monkeypatch.setattr(tfilled_neighbours, "FILL_S", 30)
    _, s, _ = look(Slower(200_000), tmp_path)
    assert s.results["filled"].numbers["filled"] == "stretches"


def test_written_file_needs_no_fill(tmp_path):
    drive = probe_drives.Drive(200_000)
    part = part_of(drive)
    part.written = True
    traced = Traced(drive)
    clock = Clock(300, lambda: drive.disk.now / 1e6)
    s = quick.session(part, tmp_path / "out", traced, clock, say=lambda text: None)
    quick.write(s)
    assert s.results["filled"].numbers["filled"] == "file"
    assert not any(end - first > MIB for write, first, end in traced.asked if write)
    answer = quick.answer(None, s.results)
    assert answer.value == "conventional"
    assert answer.confidence == stats.measured("filled_part")


def test_filled_partition_is_not_a_filled_drive(tmp_path):
    """The space beside the partition was not filled."""
    drive = probe_drives.Drive(200_000)
    drive.sys = tmp_path / "sda1"
    drive.sys.mkdir()
    assert part_of(drive).whole
    (drive.sys / "partition").write_text("1")
    answer, s, _ = look(drive, tmp_path)
    assert s.results["filled"].numbers["filled"] == "part"
    assert answer.confidence == stats.measured("filled_part")


def test_confidence_of_conventional_is_bounded(tmp_path, monkeypatch):
    """The confidence follows from the errors on random drives of known kind, which are counted
    apart for drives filled wholly and in part."""
    for name, of in (("filled_all", (3, 60)), ("filled_part", (9, 60))):
        monkeypatch.setitem(stats.MEASURED, name, of)
    whole, s, _ = look(probe_drives.Drive(200_000), tmp_path / "a")
    assert whole.confidence == stats.borne_out(3, 60)
    page, _ = report.write(s.out)
    assert "Test filled" in page.read_text() and "no picture" not in page.read_text()
    part, _, _ = look(probe_drives.Drive(3_000_000), tmp_path / "b")
    assert part.confidence == stats.borne_out(9, 60)


def test_budget_ends_before_the_fill(tmp_path):
    answer, s, _ = look(probe_drives.Drive(200_000), tmp_path, seconds=35)
    assert s.results["1"].findings["drive_type"].value == "conventional"
    assert s.results["filled"].status == UNTOLD
    assert answer.value is None and "time budget of 35 s is used up" in answer.says


def test_read_only_run_writes_and_concludes_nothing(tmp_path):
    answer, s, traced = look(probe_drives.Drive(200_000), tmp_path,
                             writing=lambda s: s.run(quick.ReadOnly))
    assert traced.asked and not any(write for write, *_ in traced.asked)
    assert answer.value is None and "--area" in answer.says
    assert s.results["1"].status == SKIPPED
    assert s.results["1"].findings["rotation_ms"].value == 10


SAID = {"model": "D", "zones": None, "rpm": 5400, "layer": False, "rotational": True,
        "discard_bytes": 0, "smartctl": False, "smartctl_says": None}


def found(value, confidence=0.999):
    return {"1": Result(DONE, numbers={"spots": {}}, findings={
        "drive_type": Finding(value, confidence=confidence, says="why")})}


@pytest.mark.parametrize("more, results, value, confidence, words", [
    ({"zones": "device-managed"}, {}, "shingled", None, "device-managed zones"),
    ({"zones": "host-aware"}, found("translated"), "shingled", None, "is translated"),
    ({"zones": "device-managed"}, found("conventional"), "shingled", None, "is conventional"),
    ({"zones": "host-managed", "rpm": 0}, {}, None, 0, "no platters"),
    ({}, found("translated"), "translated", 0.999, "no sign of shingles"),
    ({}, found("conventional"), "conventional", 0.999, "why"),
    ({}, found(None), None, 0, "why"), ({}, {}, None, 0, "nothing was measured")])
def test_report_of_the_drive_decides(more, results, value, confidence, words):
    """The drive's own report decides, and the answer mentions a measurement that differs. Without
    a report the measurement decides."""
    answer = quick.answer({**SAID, **more}, results)
    assert (answer.value, answer.confidence) == (value, confidence) and words in answer.says
    assert answer.sentence().count("\n") == 0 and answer.sentence().endswith(".")


@pytest.mark.parametrize("more, hint", [
    ({"discard_bytes": 4096}, True), ({}, False), ({"discard_bytes": 4096, "rpm": 0}, False),
    ({"discard_bytes": 4096, "layer": True}, False)])
def test_trim_support_is_only_a_hint(more, hint):
    answer = quick.answer({**SAID, **more}, found(None), quick.READ)
    assert answer.value is None and ("TRIM" in answer.says) == hint


# --- the command ------------------------------------------------------------------------


@pytest.fixture(name="command")
def a_command(tmp_path, monkeypatch):
    """Run `skylight quick` on a model. Return (status, directory)."""
    def run(drive, *words):
        args = cli.parser().parse_args(["quick", "/dev/model", "--out", str(tmp_path / "out"),
                                        *words])
        drive.sys, drive.restore_from, drive.unrestored = tmp_path, lambda note: [], {}
        drive.identity = lambda: {"bytes": drive.bytes, "label": "a model", "serial": "1"}
        monkeypatch.setattr(cli.load, "Fio", lambda *_: drive)
        clock = Clock(args.seconds, lambda: drive.disk.now / 1e6)
        return cli.quick_on(part_of(drive), args, quick, clock), tmp_path / "out"
    return run


def test_command_passes_its_whole_budget(tmp_path, monkeypatch):
    clocks = []
    monkeypatch.setattr(cli.load.Fio, "require", lambda self: None)
    monkeypatch.setattr(cli, "quick_on", lambda part, args, quick, clock: clocks.append(clock))
    cli.main(["quick", str(tmp_path), "--seconds", "200"])
    assert clocks[0].seconds == 200


def test_first_line_states_the_budget(command, monkeypatch):
    said = []
    monkeypatch.setattr(cli.Screen, "say", lambda self, text: said.append(text))
    command(probe_drives.Drive(200_000), "--seconds", "90")
    assert "it: what it does (at most 90 s)" in said


def test_json_of_quick(command, capsys):
    status, out = command(probe_drives.Drive(200_000), "--write", "--json")
    said = json.loads(capsys.readouterr().out)
    assert status == 0 and said["answer"] == "conventional" and said["confidence"] == stats.measured("filled_all")
    assert said["basis"] == quick.MEASURED and said["versions"] == cli.versions()
    assert said["says_of_itself"]["zones"] is None and said["seconds"] < 90
    assert said["findings"]["rotation_ms"]["value"] == 10
    info = json.loads((out / "run.json").read_text())
    assert info["quick"] and info["says_of_itself"] == said["says_of_itself"]


@pytest.mark.parametrize("zones, answer", [("device-managed", "shingled"), (None, None)])
def test_answer_without_time_to_write_a_file(command, monkeypatch, capsys,
                                                               zones, answer):
    """If the time ends before the file is written, the answer comes from what the drive reports of
    itself. Without that, the sentence says that the time is used up."""
    def late(_, s):
        s.load.clock.begin -= 1000
        s.load.clock.check()
    monkeypatch.setattr(scratch.Part, "make", late, raising=False)
    monkeypatch.setattr(cli.drive_properties, "of", lambda *_: {**SAID, "zones": zones})
    status, out = command(probe_drives.Drive(200_000), "--json")
    said = json.loads(capsys.readouterr().out)
    assert status == 0 and said["answer"] == answer
    assert "time budget of 300 s is used up" in said["findings"]["drive_type"]["says"]
    assert answer or "time budget of 300 s is used up" in said["sentence"]
    report.write(out)


def test_directory_can_be_reported(command, capsys):
    _, out = command(probe_drives.Drive(200_000), "--write")
    assert "This drive is conventional" in capsys.readouterr().out
    assert cli.main(["report", str(out)]) == 0 and (out / "report.html").stat().st_size > 10000


def test_without_write_option_it_only_reads(command, capsys):
    """Without --write nothing is written, and the report contains that statement."""
    drive = probe_drives.Drive(200_000)
    drive.write = None
    status, out = command(drive)
    assert status == 0 and "can't be told" in capsys.readouterr().out
    page, _ = report.write(out)
    assert "Nothing was written" in page.read_text() and "no picture" not in page.read_text()


def test_quick_replaces_its_results_and_keeps_those_of_run(command, capsys):
    _, out = command(probe_drives.Drive(200_000), "--write")
    assert (out / "tfilled.json").exists()
    _, out = command(probe_drives.Drive(100_000))
    assert not (out / "tfilled.json").exists() and not (out / "tfilled.npz").exists()
    info = json.loads((out / "run.json").read_text())
    del info["quick"]
    (out / "run.json").write_text(json.dumps(info))
    with pytest.raises(device.Refused, match="results of skylight run"):
        command(probe_drives.Drive(100_000))
    assert (out / "t01.json").exists() and capsys.readouterr().out


def test_files_of_the_user_are_kept(command, capsys):
    """With --out . the directory contains files of the user."""
    _, out = command(probe_drives.Drive(100_000))
    for name in ("tsconfig.json", "todo.json", "t.npz"):
        (out / name).write_text("mine")
    command(probe_drives.Drive(100_000))
    assert all((out / name).exists() for name in ("tsconfig.json", "todo.json", "t.npz"))
    assert capsys.readouterr().out


@pytest.mark.parametrize("blocks, run, refused", [
    (100_000, True, False), (50_000, True, True), (100_000, False, True)])
def test_settings_of_another_drive_are_not_restored(command, blocks, run, refused):
    """After a reboot sda may be another drive, with its write cache off for a reason."""
    drive, restored = probe_drives.Drive(blocks), []
    _, out = command(probe_drives.Drive(100_000))
    (out / "restore.json").write_text('{"write_cache": true}')
    if not run:
        (out / "run.json").unlink()
    part = part_of(drive)
    drive.identity = lambda: {"bytes": drive.bytes, "label": "a model", "serial": "1"}
    drive.restore_from = restored.append
    with pytest.raises(device.Refused, match="another drive") if refused else \
            contextlib.nullcontext():
        cli.forget_quick(out, part, quick.TESTS)
    assert bool(restored) != refused and (out / "t01.json").exists() == refused


def test_unusable_output_directory_is_reported(command, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(device.Refused, match="cannot be read"):
        command(probe_drives.Drive(100_000))


def test_failures_are_reported(command, capsys):
    drive = probe_drives.Drive(200_000)

    def fails(*_, **__):
        raise load.LoadError("it is gone")
    drive.replay = fails
    status, _ = command(drive, "--write")
    assert status == cli.FAILED and "it is gone" in capsys.readouterr().out


@pytest.mark.parametrize("words, why", [
    (["/dev/null"], "is there already"), (["/nix/nothing/file"], "no directory"),
    (["/tmp", "--area", "0+1G"], "not a block device"), (["/tmp", "--write"], "not a block device"),
    (["/tmp", "--seconds", "301"], "300 at most"), (["/tmp", "--seconds", "0"], "more than 0")])
def test_refusals_of_quick(words, why, capsys):
    assert cli.main(["quick", *words]) == cli.USAGE
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1
