# SPDX-License-Identifier: GPL-2.0
"""Part imr of scripts/experiments kv without guests: its cases and its evaluation of
results."""

import json
from types import SimpleNamespace

import pytest
from experiments import kv
from experiments import kv_imr as show
from programs import make


def test_cases():
    """All schemes get the same load on the same disk. The records fill as large a part of it as
    in the paper."""
    options = kv.options_of(["--fraction", "8"])
    cases = show.cases(options)
    assert [scheme for *_, scheme in cases] == list(show.SCHEMES)
    n, tracks = show.records(options), show.tracks(options)
    assert tracks == 5960
    assert n * 1058 / (tracks * 65536) == pytest.approx(75_000 / (47_684 * 2), rel=1e-4)
    for _, words, scheme in cases:
        assert json.loads(json.dumps(words)) == words      # so --resume finds it
        for same in ("sittings", "drive_mib", "band", "options", "organisation"):
            assert words[same] == cases[0][1][same]
        assert words["drive_mib"] * 16 >= tracks + show.spare()
        # The drive has no cache, and a track takes one rotation.
        assert words["layer"]["keys"] == {"track_sectors": 128, "wcache": "off",
                                          "lookahead": "off"}
        create = words["layer"]["create"]
        assert words["layer"]["media"] == ("imr" if create else "cmr")
        assert bool(create) == (scheme != "plain")
        if create:
            assert (f"policy={scheme.partition('-')[0].replace('most', 'compaction')}"
                    in create)
            assert ("rmw=merged" in create) == scheme.endswith("-merged")
            assert ("largest=most" in create) == scheme.startswith("most")
    assert cases[0][1]["band"] == "2112K"


def test_sessions_of_the_paper():
    """The last tenth of the load continues where the load ended, and the mixes use all records."""
    options = kv.options_of(["--fraction", "16"])
    n = show.records(options)
    (sitting,) = show.cases(options)[0][1]["sittings"]
    words = dict(sitting)
    assert list(words) == ["load", "last", "R90", "R50", "R10"]
    first = int(words["load"][words["load"].index("-n") + 1])
    assert first + n // 10 == n and f"insertstart={first}" in words["last"]
    for mix, share in (("R90", .9), ("R50", .5), ("R10", .1)):
        assert f"readproportion={share:g}" in words[mix]
        assert f"updateproportion={1 - share:g}" in words[mix]
        assert words[mix][words[mix].index("-r") + 1] == str(n)
        assert words[mix][words[mix].index("-n") + 1] == str(n // 10)


def test_shingle_levels_gets_the_same_files():
    """shingle-levels gets the same files and schemes as the guest, with records and tracks 32
    times as large, and a level 1 of ten files."""
    options = kv.options_of(["--fraction", "16"])
    told = []

    def run(words, **_):
        told.append(words)
        return SimpleNamespace(stdout="{}")
    for scheme in show.SCHEMES:
        show.middleware(options, scheme, "R50", run)
    places = [words[words.index("--place") + 1] for words in told]
    assert places == ["seq,next", "seq,naive,next", "3phase,naive,next",
                      "compaction,naive,next", "compaction,merged,next",
                      "compaction,naive,next,largest=most", "compaction,merged,next,largest=most"]
    words = dict(zip(told[0][1::1], told[0][2::1]))
    assert words["--file"] == "67584K" and words["--level1"] == "675840K"
    assert words["--record"] == "32768B" and words["--moves"] == "keep"
    assert int(words["--load"][:-1]) == pytest.approx(
        int(words["--tracks"]) * 2 * 75_000 / (47_684 * 2), rel=1e-3)


def test_shingle_levels_accepts_the_options():
    """shingle-levels accepts the options, and its answer has all the figures that the experiment
    needs."""
    make("userspace/levels")
    options = kv.options_of(["--fraction", "12"])
    got = {scheme: show.figures_of_levels({mix: show.middleware(options, scheme, mix)
                                           for mix in ("R90", "R50", "R10")})
           for scheme in ("plain", "seq", "compaction-merged")}
    assert got["plain"]["rewrites"] == 0 < got["seq"]["rewrites"]
    assert got["seq"]["speed"] < got["compaction-merged"]["speed"] < 1.2 * got["plain"]["speed"]
    assert got["seq"]["rewriting"] > .3 and got["plain"]["last"] > 0


def result(seconds, rewrites=0, mix_s=10):
    disk = {"imr_rewrites": rewrites, "imr_sync_adjacent": 1, "imr_sync_map": 99,
            **{f"imr_sync_{i}": rewrites for i in range(1, 6)},
            "step_backup_us": 10 * rewrites, "step_write_us": 60 * rewrites,
            "step_restore_us": 20 * rewrites, "step_sync_us": 10 * rewrites}

    def phase(ops, took):
        return {"operations": ops, "seconds": took - 1, "sync_s": 1, "disk": disk,
                "store_stats": {"flush_bytes": 40, "compact_written_bytes": 160,
                                "band_bytes": 50, "compact_us": 2_000_000,
                                "level_bands": [1, 2]}}
    return {"phases": {"load": phase(900, .75 * seconds), "last": phase(100, .25 * seconds),
                       **{mix: phase(50, mix_s) for mix in ("R90", "R50", "R10")}}}


def test_figures():
    of = show.figures(result(100, 30))
    assert of["speed"] == 10 and of["last"] == 4 and of["compact"] == 4 and of["files"] == 8
    # The figures cover both parts of the load; the syncs of the map do not count in the paper.
    assert of["rewrites"] == 60 / 8 and of["syncs"] == 302 / 8
    assert of["rewriting"] == pytest.approx(.3) and of["R50"] == 5
    assert show.figures(result(100))["rewriting"] is None


def test_least_gain():
    """The least gain is that of the slowest compaction scheme over the better of seq and 3phase."""
    got = {name: {"R50": n} for name, n in
           (("seq", 50), ("3phase", 80), ("compaction", 100), ("compaction-merged", 90))}
    assert show.least_gain(got, "R50") == pytest.approx(12.5)
    got["most"] = {"R50": 60}
    assert show.least_gain(got, "R50", ("most",)) == pytest.approx(-25)


def test_printed_table(capsys):
    options = kv.options_of([])
    took = dict(zip(show.SCHEMES, (100, 250, 125, 115, 105, 110, 100)))
    got = {scheme: show.figures(result(s, 0 if scheme == "plain" else s))
           for scheme, s in took.items()}
    show.print_tables(got, got, options)
    said = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.strip()}
    assert rows["seq"][:3] == ["0.400", "0.400", "0.399"]
    assert rows["plain"][6:9] == ["-", "-", "0.0"]
    assert rows["seq"][6:9] == ["30.0", "30.0", "76.1"]
    assert "compaction over 3phase: 1.087, levels 1.087 (paper 1.44)" in said
    assert "compaction below seq: rewrites 54.0 %, levels 54.0 % (paper 91.11 %)" in said
    assert said.count("+28.93") == 2
