# SPDX-License-Identifier: GPL-2.0
"""Part blocks of scripts/experiments kv without guests: the Diverter, its cases, and its evaluation
of results."""

import json
import shutil
import subprocess
import threading

import pytest
from experiments import kv
from experiments import kv_blocks as show
from experiments.in_guest import blocks as guest
from programs import TOP, make


class Disk(dict):
    """Blocks in memory. @before is called before each write."""

    before = staticmethod(lambda block: None)

    def read(self, block):
        return self.get(block)

    def write(self, block, data):
        self.before(block)
        self[block] = data


class Cleaning:
    """The target's answer to the question whether it is cleaning."""

    now = False

    def __call__(self):
        return self.now


def made(slots=4):
    cleaning = Cleaning()
    return guest.Diverter(Disk(), Disk(), slots, cleaning, 1000), cleaning


def test_writes_go_to_flash_only_during_cleaning():
    """Writes go to the flash only while the target cleans. A block that is on the flash is read
    from there, and a later write to it frees its slot or uses it again."""
    way, cleaning = made()
    way.write(7, "a")
    assert way.target == {7: "a"} and not way.flash
    cleaning.now = True
    way.write(7, "b")
    way.write(8, "c")
    assert way.target == {7: "a"} and len(way.flash) == 2
    assert (way.read(7), way.read(8), way.diverted) == ("b", "c", 2)
    # A second write to a block on the flash stays there.
    way.write(7, "d")
    assert way.read(7) == "d" and len(way.free) == 2
    cleaning.now = False
    way.write(8, "e")
    assert way.target[8] == "e" == way.read(8) and len(way.free) == 3
    assert way.read(9) is None


def test_full_flash():
    """When the flash is full, writes go to the target. A slot is free again as soon as its block
    has been brought home."""
    way, cleaning = made(slots=1)
    cleaning.now = True
    for block in (1, 2, 1):
        way.write(block, block)
    assert way.target == {2: 2} and way.diverted == 2
    assert way.bring_one() and way.target == {1: 1, 2: 2}
    way.write(3, 3)
    assert way.read(3) == 3 and 3 not in way.target


def test_blocks_are_moved_home_in_address_order():
    """Blocks are brought home in the order of their numbers, which is the disk's, not in that of
    the writes."""
    way, cleaning = made()
    cleaning.now, order = True, []
    for block in (9, 3, 6):
        way.write(block, block)
    way.target.before = order.append
    while way.bring_one():
        pass
    assert order == [3, 6, 9] and way.target == {3: 3, 6: 6, 9: 9} and way.returned == 3
    assert not way.away and sorted(way.free) == [0, 1, 2, 3]


def test_newer_write_waits_for_the_move_home():
    """A write to a block that is being brought home waits. Otherwise the old content could
    overwrite the new one."""
    way, cleaning = made()
    cleaning.now = True
    way.write(5, "old")
    cleaning.now = False
    seen = []

    def meanwhile(block):
        del way.target.before
        writer = threading.Thread(target=way.write, args=(block, "new"))
        seen.append(writer)
        writer.start()
        writer.join(.2)
        assert writer.is_alive()
    way.target.before = meanwhile
    assert way.bring_one()
    seen[0].join()
    assert way.target == {5: "new"} and not way.away


def test_blocks_are_moved_home_when_idle(monkeypatch):
    """Blocks are brought home only while the target does not clean, and only after the host has
    been idle for a while."""
    way, cleaning = made()
    cleaning.now = True
    way.write(1, 1)
    way.write(2, 2)
    clock, end, looks = [way.last], threading.Event(), []
    monkeypatch.setattr(guest.stack, "now", lambda: clock[0])

    def look(_):
        looks.append(way.returned)
        if len(looks) == 2:
            clock[0] += way.quiet_s
        if len(looks) == 4:
            cleaning.now = False
        if len(looks) == 6:
            end.set()
    monkeypatch.setattr(guest.time, "sleep", look)
    way.bring(end)
    assert looks == [0, 0, 0, 0, 2, 2]
    cleaning.now = True
    way.write(3, 3)
    cleaning.now = False
    end.clear()
    looks[:] = [0] * 4
    way.bring(end)
    assert way.returned == 2


def test_response_time_starts_when_the_write_is_due(monkeypatch):
    """A response time begins when the write was due, even if it had to wait for a thread."""
    clock = [100.0]
    monkeypatch.setattr(guest.stack, "now", lambda: clock[0])

    def sleep(seconds):
        clock[0] += seconds
    monkeypatch.setattr(guest.time, "sleep", sleep)
    places = []

    def write(block, data):
        assert len(data) == 4096
        places.append(block)
        clock[0] += .5
    took = guest.sent([0, .1, 3], [7, 8, 9], 1, write)
    assert took == pytest.approx([.5, .9, .5]) and places == [7, 8, 9]


def test_percentiles_of_a_run():
    """The percentiles of a run, computed by hand."""
    of = guest.told([.001] * 990 + [.002] * 9 + [1.0])
    assert of["p50_ms"] == 1 and of["p99_ms"] == 2 and of["max_ms"] == 1000
    assert of["requests"] == 1000 and of["p99_9_ms"] == 1000
    assert of["mean_ms"] == pytest.approx(2.008)


def test_cases(monkeypatch, tmp_path):
    """Each kind of arrivals is sent to each target, with the same writes. All targets clean when
    idle."""
    monkeypatch.setattr(show.runner, "outputs", lambda _: tmp_path)
    options = kv.options_of(["--iops", "50", "--block-minutes", "1"])
    make("userspace/kvbench")
    cases = show.cases(options, kv.arrivals(50, 1))
    assert [what for *_, what in cases] == [
        (name, target) for name in ("poisson", "self-similar", "diurnal")
        for target in ("stl-set", "stl-full", "tiler", "dualbuffer")]
    loads = {}
    for _, words, (name, target) in cases:
        assert json.loads(json.dumps(words)) == words      # so --resume finds it
        assert loads.setdefault(name, words["load"]) == words["load"]
        assert words["layer"]["set"]["idle_ms"] == 200
        assert ("cleaning" in words["layer"]["set"]) == target.startswith("stl-")
        medium = words["medium"]
        assert words["span_blocks"] < medium["tracks"] * medium["track"] // 4
    assert len(set(loads.values())) == 3
    for path in loads.values():
        rows = [line.split() for line in guest.requests(path)[1]]
        assert 1800 < len(rows) < 4200 and {r[2] for r in rows} == {"write"}
        assert max(int(r[3]) for r in rows) < 1 << 30 and int(rows[-1][0]) < 60 * 10 ** 6


def test_resume_distinguishes_arrivals(monkeypatch, tmp_path):
    """--resume must not reuse measurements of another run."""
    monkeypatch.setattr(show.runner, "outputs", lambda _: tmp_path)
    monkeypatch.setattr(show.subprocess, "run", lambda *_, **__: None)
    options = kv.options_of([])
    words = kv.arrivals(60, 4)
    one = show.cases(options, words)
    words["self-similar"][-1] = "ss.bias=0.9"
    changed = [a[0] for a, b in zip(one, show.cases(options, words)) if a[1] != b[1]]
    assert len(changed) == 4 and all("self-similar" in name for name in changed)
    monkeypatch.setattr(show, "SPAN_MIB", 512)
    assert all(a[1] != b[1] for a, b in zip(one, show.cases(options, words)))


def test_each_request_is_in_one_log(tmp_path):
    """Each request is in exactly one of the logs, at the time at which it was due."""
    head = ["fio version 3 iolog", "1 device add", "1 device open"]
    body = [f"{n} device write {4096 * n} 4096" for n in range(1, 11)]
    (tmp_path / "whole").write_text("\n".join([*head, *body, "10 device close"]) + "\n")
    parts = [path.read_text().splitlines() for path in guest.split(tmp_path / "whole", tmp_path, 4)]
    assert all(part[:3] == head and part[-1] == "10 device close" for part in parts)
    assert [part[3:-1] for part in parts] == [body[n::4] for n in range(4)]
    assert len(guest.split(tmp_path / "whole", tmp_path, 99)) == 10


def test_fio_accepts_the_log(tmp_path):
    """fio accepts the generated log and reports a result for each request."""
    if not shutil.which("fio"):
        pytest.skip("fio is not here")
    (tmp_path / "disk").write_bytes(bytes(1 << 20))
    make("userspace/kvbench")
    subprocess.run([TOP / "build/userspace/kvbench", "arrivals", "--arrivals", "poisson",
                    "--target", "200", "-n", "100", "--size", "1M", "--format", "iolog3", "--out",
                    tmp_path / "log"], check=True)
    of = guest.by_fio(tmp_path / "disk", tmp_path / "log", 4)
    assert of["requests"] == 100
    assert 0 < of["p50_ms"] <= of["p99_ms"] <= of["p99_9_ms"] <= 1.05 * of["max_ms"]
    assert any((tmp_path / "disk").read_bytes())


def result(p99_9, longest, diverted=0, **more):
    return {"requests": 1000, "mean_ms": 1.0, "p99_ms": 2.0, "p99_9_ms": p99_9,
            "max_ms": longest, "diverted": diverted, "left": diverted // 4, "home_s": 3.0,
            "layer": {"steps": 12, "r0_violations": 0},
            "medium": {"late_max_us": 10_169, "destroyed_reads": 0}, **more}


def results_of(better):
    ways = {"fio": result(50, 900), "threads": result(50, 900),
            "diverted": result(5, 90, 400) if better else result(50, 900, 400)}
    return [(("poisson", "stl-set"), {"ways": ways})]


def test_printed_figures(tmp_path):
    got = show.figures(results_of(True)[0][1])
    assert got["diverted"]["diverted"] == 40 and got["diverted"]["left"] == 25
    assert got["threads"]["left"] is None and got["fio"]["steps"] == 12
    assert all(holds for _, holds in show.relations(results_of(True)))
    assert not any(holds for _, holds in show.relations(results_of(False)))
    assert show.table(results_of(True)).rows[-1] == [
        "poisson, stl-set, diverted", "1.00", "2.0", "5.0", "90.0", "12", "40.0", "25.0", "3.0"]
    pytest.importorskip("matplotlib")
    show.picture(results_of(True), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


@pytest.mark.parametrize("part,name,sentence", (
    ("medium", "late_max_us", "poisson, threads: a request was 10172 us late"),
    ("medium", "destroyed_reads", "poisson, threads: 3 destroyed blocks were read"),
    ("layer", "r0_violations", "poisson, threads: 3 writes would have destroyed"),
))
def test_faults_are_reported(part, name, sentence):
    (_, of), = results_of(True)
    assert not list(show.wrong_of("poisson", of))
    of["ways"]["threads"][part][name] += 3
    wrong, = show.wrong_of("poisson", of)
    assert wrong.startswith(sentence)
