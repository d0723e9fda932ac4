# SPDX-License-Identifier: GPL-2.0
"""Tests of scripts/experiments imr without guests: it reuses only results of this tree, compares no
figure of the mix with the load, and reports wrong options."""

import argparse
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from experiments import imr as show
from experiments import kvimr
from programs import TOP, make

OPTIONS = argparse.Namespace(json=None)


def option(args, name):
    return args[args.index(name) + 1]


def bytes_of(size):
    return int(size[:-1]) << {"B": 0, "K": 10, "M": 20}[size[-1]]


@pytest.mark.parametrize("set_up, schemes, sentence", (
    ("fast", ["plain", "seq"], "nothing destroyed was read, and"),
    ("fast", ["plain", "plain-seq"], "no drive was interlaced, so nothing could be destroyed, and"),
    ("paper", ["plain", "seq"], "no drive was interlaced, so nothing could be destroyed, and")))
def test_final_sentence_claims_only_what_the_drive_shows(set_up, schemes, sentence):
    """The final sentence claims that nothing destroyed was read only if a drive was interlaced."""
    options = argparse.Namespace(**show.SET_UPS[set_up], verify=False)
    assert show.all_well(options, schemes) == f"{sentence} the clock was exact"


@pytest.mark.parametrize("where, what, sentence", (
    (None, None, "nothing destroyed was read, and the clock was exact"),
    ("medium", "late", "seq-silent-67108864-target-1: late 7 times: no exact clock"),
    ("medium", "destroyed_reads", "seq-silent-67108864-target-1: 7 destroyed blocks were read"),
    ("device", "bad_blocks", "seq-silent-67108864-target-1: 7 blocks were lost")))
def test_faults_are_reported_and_set_the_status(monkeypatch, tmp_path, capsys, where, what,
                                                sentence):
    """A late clock, a read of a destroyed block and a lost block are reported in the last line
    and make the exit status 1."""
    def measure(run, _):
        of = result("plain" if run[0] == "plain" else "target", False)
        if where and run[0] == "seq":
            of[where][what] = 7
        return of
    monkeypatch.setattr(show, "measure", measure)
    monkeypatch.setattr(show, "OUT", tmp_path)
    monkeypatch.setattr(show.runner.packages, "setup", lambda: None)
    monkeypatch.setattr(show.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=""))
    monkeypatch.setattr(sys, "argv", ["imr", "--through", "target", "--schemes", "plain,seq",
                                      "--json", str(tmp_path / "all.json")])
    assert show.main() == (1 if where else 0)
    assert capsys.readouterr().out.splitlines()[-1] == sentence
    assert len(json.loads((tmp_path / "all.json").read_text())["results"]) == 2
    # A JSON file that cannot be written is reported before anything runs.
    monkeypatch.setattr(show, "measure", None)
    monkeypatch.setattr(sys, "argv", [*sys.argv[:-1], str(tmp_path / "none/all.json")])
    with pytest.raises(SystemExit):
        show.main()
    assert re.search("^imr: --json .*: No such file or directory$", capsys.readouterr().err)


def test_resume_uses_results_of_equal_options_only(monkeypatch, tmp_path):
    """--resume takes a stored result only if its settings are the same; otherwise the run is
    made again."""
    options = argparse.Namespace(**show.SET_UPS["fast"], verify=False, mix=None, ops=None,
                                 wcache="off", set=[], set_up="fast", resume=True, timeout=1)
    monkeypatch.setattr(show, "OUT", tmp_path)
    monkeypatch.setattr(show.runner, "in_guest", lambda *_, **__: ["false"])
    run = ("seq", "silent", 64 << 20, "target", 3)
    words = {**show.words_of(*run, options), "sources": show.sources(show.SOURCES)}
    assert option(words["args"], "--seed") == "3"
    out = tmp_path / "fast-seq-silent-64-target-32-1024-overlap-off-load-3.json"
    out.write_text(json.dumps({"words": words, "of": "before"}))
    assert show.measure(run, options) == {"words": words, "of": "before"}
    out.write_text(json.dumps({"words": {**words, "policy": "3phase"}, "of": "before"}))
    with pytest.raises(SystemExit, match="ended with status 1$"):
        show.measure(run, options)


def result(layer, mixed):
    """Return a result in the guest's format: a load of 10 files and, if @mixed, a mix that
    writes 30 more."""
    of = {
        "track_bytes": 1 << 21, "record_bytes": 1 << 20,
        "load": {"files": 10, "written_bytes": 320 << 21, "compactions": 3},
        "points": [{"inserted": 75 * i, "seconds": 10. * i} for i in range(1, 76)],
        "device": {"load_s": 750., "load_compact_s": 300., "load_bytes_per_s": 1e6,
                   "mix_s": 100. if mixed else 0, "mix_ops_per_s": 5. if mixed else 0,
                   "verified_blocks": 0, "bad_blocks": 0,
                   "load": {"persist_s": 200., "flushes": 10,
                            "step_s": {"backup": 10., "restore": 30.}},
                   "all": {"flushes": 40 if mixed else 10}},
        "medium": {"late": 0, "destroyed_reads": 0, "destroyed_blocks": 0},
    }
    if layer == "middleware":
        of["done"] = {"rewrites": 160, "syncs": 640}
    elif layer == "target":
        of["target"] = {"type": "imr", "imr_rewrites": 160, "imr_sync_adjacent": 40,
                        "step_backup_us": 10000000, "step_restore_us": 30000000,
                        "imr_sync_map": 7, **{f"imr_sync_{i}": 120 for i in range(1, 6)}}
        of["models"] = [{"rewrites": 160, "syncs": 640}] * 2
    return of


@pytest.mark.parametrize("layer", ("middleware", "target"))
def test_columns_of_a_load(capsys, layer):
    slow = result(layer, False)
    slow["device"].update(load_compact_s=600., load_bytes_per_s=5e5)
    slow["device"]["load"]["persist_s"] = 300.
    got = {"plain": [show.figures(result("plain", False))],
           "seq": [show.figures(slow)],
           "3phase": [show.figures(result(layer, False))]}
    show.table("load", got, OPTIONS)
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.startswith("seq"))
    assert row.split()[-5:-1] == ["160", "640", "16.000", "64.000"]
    # MB/s; then the ratios to plain of speed, compaction time and persisting time, each with the
    # paper's; the share of rewriting in the persisting time.
    assert row.split()[1:10] == ["0.50", "0.500", "0.399", "2.00", "2.59", "1.50", "4.42",
                                 "13.3", "76.1"]


def test_speeds_are_scaled_to_whole_tracks():
    """Speeds on tracks of 1/32 of the size are multiplied by 32."""
    of = result("target", False)
    whole = show.figures(of)
    of["track_bytes"] //= 32
    for what in ("speed", "last", "tenth"):
        assert show.figures(of)[what] == pytest.approx(32 * whole[what])


def test_interval_of_a_mean_uses_students_t(capsys):
    """The interval of a mean uses Student's t: for three seeds, 10, 20 and 30 % are 20 +- 24.8
    %."""
    run = {}
    for seed, more in ((1, 1.1), (2, 1.2), (3, 1.3)):
        for s, speed in (("compaction", 1e6), ("compaction-merged", 1e6 * more)):
            of = result("target", False)
            of["device"]["load_bytes_per_s"] = speed
            run[s, "silent", 64 << 20, "target", seed] = show.figures(of)
    show.growth([64 << 20], [1, 2, 3], run, "silent", "target")
    assert "64 MB: +20.0 % +- 24.8 (95 %) (paper +7.0 %), +10.0 to +30.0" in \
        capsys.readouterr().out
    assert show.STUDENT[5] == 2.776


@pytest.mark.parametrize("layer", ("middleware", "target"))
def test_mix_results_are_not_divided_by_files(capsys, layer):
    """After a mix the counters cover load and mix, so no figure is divided by the load's files."""
    got = {name: show.figures(result("plain" if name == "plain" else layer, True))
           for name in ("plain", "seq", "3phase", "compaction", "compaction-merged")}
    show.table("mix", {name: [g] for name, g in got.items()}, OPTIONS)
    run = {(s, "silent", size, layer, 1): g for s, g in got.items()
           for size in (64 << 20, 128 << 20)}
    show.growth([64 << 20, 128 << 20], [1], run, "silent", layer)
    show.verified(run)
    out = capsys.readouterr().out
    for name in got:
        row = next(line for line in out.splitlines() if line.startswith(name))
        assert row.split()[-5:-1] == ["-"] * 4
    assert "below" not in out and "rewrites saved in 1,000 tracks written -;" in out
    assert "operations/s of the mix: plain 5.0" in out
    # Totals are still printed: the model has totals of the same phases.
    assert "160 rewrites, 640 syncs" in out
    if layer == "target":
        assert "the target 160 rewrites, 640 syncs and 7 of the map" in out


def of_seeds(layer, mixed=False):
    """Results of two seeds: with the second one all schemes except the plain disk are twice as
    fast and have half the rewrites."""
    out = {}
    for name in ("plain", "seq", "3phase", "compaction", "compaction-merged"):
        here = "plain" if name == "plain" else layer
        first, second = result(here, mixed), result(here, mixed)
        if here != "plain":
            second["device"]["load_bytes_per_s"] *= 2
            second["device"]["mix_ops_per_s"] *= 2
            second.get("done", {}).update(rewrites=80)
            second.get("target", {}).update(imr_rewrites=80)
            second["points"][-1]["seconds"] -= 5
        out[name] = [show.figures(of) for of in (first, second)]
    return out


@pytest.mark.parametrize("layer", ("middleware", "target"))
def test_tables_average_over_seeds(capsys, layer):
    """With several seeds the table has means and ranges, and ratios are formed within a seed."""
    got = of_seeds(layer)
    got["compaction-merged"][1]["rewrites"] = 40
    show.table("load", got, OPTIONS)
    out = capsys.readouterr().out
    assert "means of 2 seeds" in out.splitlines()[1]
    row = next(line for line in out.splitlines() if line.startswith("3phase")).split()
    assert row[1:5] == ["1.50", "1.500", "(1.000-2.000)", "0.610"]
    # The mean of the rewrites, and of the rewrites for a file.
    assert row[-5] == "120" and row[-3] == "12.000"
    assert "  compaction-merged over compaction: 1.000 (1.000-1.000) (paper 1.07); the last 1/75 " \
        "1.000 (1.000-1.000) (paper 1.2627), the last tenth 1.000 (1.000-1.000)" in out
    assert "compaction-merged below compaction: rewrites 25.00 (0.00-50.00) % (paper 37.53 %)" \
        in out
    if layer == "target":
        assert "  seq, seed 2 of 2: the target 80 rewrites" in out


def test_mixes_average_over_seeds(capsys):
    show.table("mix", of_seeds("middleware", True), OPTIONS)
    out = capsys.readouterr().out
    assert "operations/s of the mix: plain 5.0 (5.0-5.0), seq 7.5 (5.0-10.0), " in out


def test_operations_of_a_mix():
    """--ops is passed to the guest's program. 7,500,000 is the number of the paper's mix, which
    kvimr uses. Without --ops none is passed."""
    args = words_of("paper", "seq", "middleware", mix="R50", ops=7500000)["args"]
    of = kvimr.arguments("seq", 1, kvimr.MIXED, {"--mix": "R50"})
    assert option(args, "--ops") == option(of, "--ops") == "7500000"
    assert "--ops" not in words_of("paper", "seq", "middleware", mix="R50")["args"]


@pytest.mark.parametrize("us", (0, 8333))
def test_flush_time_is_a_setting_of_platter(us):
    """The time of a flush is a setting of platter, also for the plain disk; 0 leaves platter's
    default."""
    for scheme in ("plain", "seq"):
        words = words_of("fast", scheme, "target", flush_us=us)
        assert words["medium"] == ({"flush_us": us} if us else {})


def words_of(set_up, scheme, through, size=64 << 20, **other):
    options = argparse.Namespace(**{**show.SET_UPS[set_up], "verify": False, "mix": None,
                                    "ops": None, "wcache": "off", "set": [], **other})
    return show.words_of(scheme, options.moves, size, through, 1, options)


@pytest.mark.parametrize("scheme", ("plain", "seq", "3phase-merged", "compaction"))
def test_paper_set_up_equals_that_of_kvimr(scheme):
    """With the paper's set-up, imr through the middleware passes the same arguments as kvimr,
    which runs without a guest. Only the drive differs."""
    args = words_of("paper", scheme, "middleware")["args"]
    other = kvimr.arguments(scheme, 1)
    copies = [] if scheme == "plain" else ["--copy-each"]
    assert [w for w in args if w in ("--copy-each", "--reread")] == copies
    assert [w for w in other if w in ("--copy-each", "--reread")] == copies
    for name in ("--load", "--record", "--file"):
        assert bytes_of(option(args, name)) == bytes_of(option(other, name)), name
    for name in ("--tracks", "--pick", "--moves", "--seed"):
        assert option(args, name) == option(other, name), name
    assert f"{option(args, '--place')},next" == option(other, "--place").replace(",none", "")
    assert option(args, "--scale") == "1"


def test_paper_drive_has_its_full_length():
    """The paper's set-up uses the whole length of the profile's drive: a shorter one would have
    other seek times. The drive is a conventional one."""
    for through in ("middleware", "target"):
        words = words_of("paper", "seq", through)
        assert words["drive"] == "st500dm002" and words["file_tracks"] == 33
        assert words["drive_sectors"] == published_length("st500dm002")
        assert words["medium"] == {"flush_us": 8333}
    assert words_of("fast", "seq", "target")["drive_sectors"] is None


@pytest.mark.parametrize("set_up,mb", [(set_up, mb) for set_up in ("fast", "paper")
                                       for mb in (64, 128, 256, 512)] + [("fast", 1024)])
def test_buffer_has_room_for_a_file(set_up, mb):
    """The target's buffer has room for two files; where its limit does not allow that, it has
    the maximum, which is more than one file."""
    words = words_of(set_up, "seq", "target", size=mb << 20)
    options = (TOP / "dm-imr/imr-options.c").read_text()
    most = 1 << int(options.split("#define MAX_BUFFER_BLOCKS")[1].split("<<")[1].split(")")[0])
    most = most * 4096 // words["track_bytes"]
    files = words["buffer_tracks"] / words["file_tracks"]
    assert words["buffer_tracks"] <= most
    assert files == 2 or (files > 1 and words["buffer_tracks"] == most)


def published_length(name):
    """Return the number of sectors of one of platter's profiles, from its source."""
    text = (TOP / "dm-platter/profiles.c").read_text().split(f'.name = "{name}"')[1]
    return int(text.split(".sectors = ")[1].split("ULL")[0])


@pytest.fixture(name="tool", scope="module")
def the_tool():
    make("userspace/shingle")
    return TOP / "build/userspace/shingle"


@pytest.mark.parametrize("set_up", ("fast", "paper"))
def test_the_target_has_room_for_all_tracks(tool, tmp_path, set_up):
    """The disk of the experiment, formatted as in the guest, has as many data tracks as the
    experiment uses."""
    words = words_of(set_up, "seq", "target")
    disk, meta = tmp_path / "disk", tmp_path / "meta"
    for path, size in ((disk, (words["tracks"] + words["spare"]) * words["track_bytes"]),
                       (meta, 256 << 20)):
        with path.open("wb") as f:
            f.truncate(size)
    subprocess.run([tool, "format", "imr", "--meta", meta, "--track",
                    f"{words['track_bytes']}B", "--backup-tracks",
                    str(2 * words["file_tracks"]), disk], check=True,
                   stdout=subprocess.DEVNULL)
    told = subprocess.run([tool, "dump", disk, "--meta", meta, "--json"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    assert json.loads(told)["bands"]["data"] == words["tracks"]
