# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments rebuild without guests: its cases and its evaluation of results."""

import contextlib
import errno
import json

import pytest
from experiments import rebuild as show
from experiments.in_guest import rebuild as guest
from programs import TOP


def test_cases():
    """Four layers are rebuilt under three loads. Each case has its own file, and its settings
    can be stored as JSON."""
    cases = show.cases(show.options_of([]))
    assert len(cases) == 12 == len({name for name, *_ in cases})
    assert [what for *_, what in cases][:4] == [
        ("conventional", "idle"), ("conventional", "load"), ("conventional", "load, raised"),
        ("stl-set", "idle")]
    for _, words, (name, load) in cases:
        json.dumps(words)
        assert bool(words["per_s"]) == (load != "idle")
        assert words["min_kib_s"] == (100_000 if load == "load, raised" else 0)
        assert words["layer"]["media"] == ("cmr" if name == "conventional" else "smr")
        assert not words["used"]
    used = show.cases(show.options_of(["--used", "--layers", "stl-full", "--loads", "idle"]))
    (name, words, what), = used
    assert what == ("stl-full", "idle") and words["used"]
    assert name not in [n for n, *_ in cases]


def test_steps_agree():
    """The guest counts latencies in steps. The host must turn a step into the bound that the
    guest used."""
    source = (TOP / "scripts/src/experiments/in_guest/rebuild.py").read_text(encoding="utf-8")
    line = next(x for x in source.splitlines() if x.startswith("BOUNDS_NS = "))
    bounds = eval(line.removeprefix("BOUNDS_NS = "))
    for i in (0, 1, 100, len(bounds) - 1):
        steps = [0] * (len(bounds) + 1)
        steps[i] = 3
        assert show.longest_s(steps) == pytest.approx(bounds[i] / 1e9, rel=1e-4)
    assert bounds[-1] > 1000 * 10 ** 9


def test_longest_latency_is_a_bound():
    """The longest latency is the bound of the last step in use. Beyond the last bound it is
    unknown."""
    steps = [0] * 336
    assert show.longest_s(steps) is None and show.longer_than(steps, 30) == 0
    steps[0] = 5
    assert show.longest_s(steps) == 1e-4
    assert show.longest_s([0] * 335 + [1]) is None


def test_requests_longer_than_a_limit():
    """Only requests that certainly took longer are counted, so not those in the step that
    contains 30 s."""
    at = next(i for i in range(335) if 1e-4 * 1.05 ** i >= 30)
    assert 1e-4 * 1.05 ** (at - 1) < 30
    steps = [0] * 336
    steps[at] = 7
    assert show.longer_than(steps, 30) == 0
    steps[at + 1] = 2
    steps[335] = 1
    assert show.longer_than(steps, 30) == 3


class Dev:
    """An array of two blocks."""

    def __init__(self, load, refuses=(), ends=None):
        self.load, self.refuses, self.ends, self.held = load, refuses, ends, {}

    def write(self, at, data):
        if len(self.held) == self.ends:
            self.load.end.set()
        if at in self.refuses:
            raise OSError(errno.EIO, "no")
        self.held[at] = data


@pytest.mark.parametrize("refuses", ((), (0,)))
def test_expected_content_after_failed_writes(monkeypatch, refuses):
    """The guest knows what each block must contain, even if the last write was not sent or one
    was refused."""
    monkeypatch.setattr(guest.stack, "now", lambda: 0)
    load = guest.Load(1e9, 2, 1)
    load.begin = 0
    dev = Dev(load, refuses, ends=2 - len(refuses))
    monkeypatch.setattr(guest.blk, "opened", lambda _: contextlib.nullcontext(dev))
    for _ in range(1 + len(refuses)):
        load._writer()
    assert {at: guest.text(at, n) for at, n in load.wrote.items()} == dev.held
    assert load.busy == set(refuses) and len(load.failed) == len(refuses)


def test_rate_of_a_rebuild():
    """The rate of a rebuild, or of its last part; 1,000,000 sectors are 512 MB."""
    seen = [[1.0, 250_000], [4.0, 500_000], [9.0, 1_000_000]]
    assert show.rate(seen) == pytest.approx(512 / 9)
    assert show.rate(seen, .5) == pytest.approx(256 / 5)
    # The rebuild ended before the first sample.
    assert show.rate([[2.0, 1_000_000]], .5) is None
    assert show.rate([[2.0, 1_000_000]]) == pytest.approx(256)


def result(seconds, latencies=(), ended=True, **more):
    steps = [0] * 336
    steps[100] = 4
    return {"seen": [[seconds / 4, 500_000], [seconds, 1_000_000]], "ended": ended,
            "degraded": 0, "latencies": list(latencies), "failed": [], "survivors": steps,
            "new": steps, "late_us": 0, "wrong_blocks": 0 if ended else None,
            "mismatches": 0 if ended else None, "medium": {"destroyed_reads": 0, "late": 9},
            "layer": {"r0_violations": 0}, **more}


@pytest.mark.parametrize("more,sentence", (
    ({}, None),
    ({"ended": False, "degraded": 1}, None),        # degraded means nothing before the end
    ({"degraded": 1}, "still degraded"),
    ({"mismatches": 8}, "8 sectors do not fit their parity"),
    ({"wrong_blocks": 2}, "2 blocks are not what was written"),
    ({"late_us": 10_170}, "10170 us late"),
    ({"late_us": 10_169}, None),
    ({"failed": ["Input/output error"]}, "1 writers were refused: Input/output error"),
    ({"medium": {"destroyed_reads": 3, "late": 0}}, "3 destroyed blocks were read"),
    ({"layer": {"r0_violations": 1}}, "1 writes would have destroyed data in use"),
))
def test_faults_are_reported(more, sentence):
    """An array that is still degraded, wrong parity or content, a late clock, refused writers,
    destroyed blocks and violations are each reported."""
    wrong = list(show.wrong_of("x", {**result(8.0), **more}))
    if sentence:
        assert len(wrong) == 1 and wrong[0].startswith("x: ") and sentence in wrong[0]
    else:
        assert not wrong


def test_printed_table(tmp_path):
    """The table compares each rebuild with that of the conventional disk under the same load,
    and marks a rebuild that did not end."""
    groups = show.rows([
        (("conventional", "idle"), result(4.0)), (("stl-set", "idle"), result(40.0)),
        (("stl-set", "load"), result(80.0, (.001, .5, 29.0), ended=False))])
    assert groups["stl-set", "idle"]["times"] == pytest.approx(10)
    # There is no conventional disk under the same load to compare with.
    assert groups["stl-set", "load"]["times"] is None
    assert groups["stl-set", "load"]["median_s"] == .5
    assert groups["stl-set", "load"]["worst_s"] == 29
    assert groups["stl-set", "idle"]["worst_s"] is None
    names = [row[0] for row in show.table(groups).rows]
    assert names == ["conventional: idle", "stl-set: idle",
                     "stl-set: load (not ended: as far as it went)"]
    del groups["stl-set", "load"]
    pytest.importorskip("matplotlib")
    show.picture(groups, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
