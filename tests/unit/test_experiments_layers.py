# SPDX-License-Identifier: GPL-2.0
"""Experiments that put loads on stacks of devices, without guests: layers, flash, regions, and read-time."""

import ast
import json
import subprocess
from types import SimpleNamespace

import pytest
from experiments import flash, layers, read_time, regions
from experiments.in_guest import regions as guest
from experiments.tables import Table
from programs import TOP


def load_result(target, **parts):
    """Return a result of 200 requests in 4 s, half of that time rotation, with 4 cleanings.  @parts
    has for some parts, such as the layer's counters, the values that differ from these."""
    of = {
        "words": {"layer": {"target": target}}, "seconds": 4.0,
        "layer": {"host_write_blocks": 1000, "map_bytes": 4096, "clean_write_blocks": 500,
                  "journal_blocks": 3, "checkpoint_blocks": 2, "superblock_blocks": 1,
                  "r0_violations": 0},
        "all": {"requests": 200, "mean_ms": 20.0, "worst_ms": 1500.0, "p99_ms": 40.0},
        "reads": {"mean_ms": 10.0}, "writes": {"mean_ms": 22.0},
        "cleanings": {"number": 4, "seconds": 2.0, "longest": .9, "largest": 200,
                      "requests": 5, "seeks": 300},
        "medium": {"rotation_us": 2_000_000, "seeks": 400, "seek_tracks": 9000,
                   "media_blocks_written": 1500, "destroyed_reads": 0, "late": 0}}
    for part, values in parts.items():
        of[part].update(values)
    return of


def test_cases_of_layers(tmp_path):
    """Each layer is measured with each load. The media are equal except for their kind:
    conventional, shingled or interlaced."""
    options = SimpleNamespace(scale=64, loads=("rsrch_0", "web_2"), dense=60, requests=None,
                              layers=None)
    cases = layers.cases(options, lambda *of: tmp_path / "-".join(str(w) for w in of))
    names = [name for name, *_ in cases]
    assert len(set(names)) == len(names) == 2 * len(layers.layers(64))
    media = {}
    for _, words, (_, load, _, name, _) in cases:
        json.dumps(words)
        media[name] = words["medium"].pop("keys").get("media", "smr")
        assert words["medium"] == cases[0][1]["medium"]
        assert load in words["load"]
    assert media.pop("plain") == "cmr" and media.pop("imr") == "imr"
    assert set(media.values()) == {"smr"}
    options.layers = ["imr"]
    some = layers.cases(options, lambda *of: tmp_path / "-".join(str(w) for w in of))
    assert [of[3] for _, _, of in some] == 2 * ["plain", "imr"]


def result_of_layers(name, host, written):
    """Return a result of 200 requests."""
    return ("load", "rsrch_0", 60, name, ""), load_result(
        name, layer={"host_write_blocks": host, "map_bytes": 2048}, all={"mean_ms": 13.0},
        medium={"media_blocks_written": written, "seeks": 100})


def test_printed_table_of_layers(tmp_path):
    groups = layers.rows([result_of_layers("plain", 200, 200),
                          result_of_layers("stl-set", 200, 500)])
    row = groups["rsrch_0"]["stl-set"]
    assert row["medium_amplification"] == 2.5 and row["seeks_each"] == .5
    assert row["ram_kib"] == 2 and row["unturned_ms"] == pytest.approx(3.0)
    table, = layers.tables(groups, SimpleNamespace(scale=64, dense=60))
    assert "1/64" in table.title
    assert dict(zip(table.columns, table.rows[1]))["written"] == "2.50"
    pytest.importorskip("matplotlib")
    layers.picture(groups, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


GB = 10 ** 9


def options(**more):
    return SimpleNamespace(**{"scale": 64, "loads": None, "dense": 60, "requests": None,
                              "without": None, **more})


def test_cases_of_flash(tmp_path):
    """The drive is the thesis's, at a smaller scale: 16 surfaces, 8 TB with guards, 20 GiB of
    flash. The ten loads of its Table 5.1 are in the middle of it."""
    cases = flash.cases(options(), lambda *of: tmp_path / "-".join(str(w) for w in of))
    assert len(cases) == 10 * len(flash.layers(64)) == len({name for name, *_ in cases})
    for _, words, _ in cases:
        json.dumps(words)
        medium = words["medium"]
        assert medium["keys"]["surfaces"] == 16 and medium["head"] == 3
        tracks = medium["tracks"]
        assert tracks % 16 == 0 and tracks * 512 * 4096 * 64 == pytest.approx(10240 * GB, rel=.01)
        assert words["offset"] * 4096 * 64 == pytest.approx(4096 * GB, rel=.01)
        assert words["layer"]["flash_mib"] > (20 << 10) // 64
    without = flash.cases(options(without=[flash.BY_BLOCK], loads=("web_0",)),
                         lambda *of: tmp_path / "x")
    assert [what[3] for *_, what in without] == ["SMR-2, band", "RMW-F", "RMW-F, pool",
                                                 "RMW-F, pointer"]


def result_of_flash(name, written, ms, cleanings):
    """Return a result of 200 requests that wrote 200 blocks."""
    return ("load", "rsrch_0", 60, name, ""), load_result(
        name, layer={"host_write_blocks": 200,
                     **({"direct_blocks": 50} if name.startswith("RMW-F") else {})},
        all={"mean_ms": ms}, cleanings={"number": cleanings, "seeks": 10 * cleanings},
        medium={"media_blocks_written": written})


def test_printed_table_of_flash(tmp_path):
    groups = flash.rows([result_of_flash("SMR-2, band", 900, 16.0, 2),
                         result_of_flash("RMW-F", 300, 8.0, 1),
                        result_of_flash("SMR-2, block", 9000, 80.0, 0)])
    assert groups["rsrch_0"]["RMW-F"]["direct"] == .25
    assert groups["rsrch_0"]["SMR-2, band"]["direct"] is None
    assert flash.normalised(groups, "SMR-2, band", "medium_amplification") == {"rsrch_0": 3.0}
    assert flash.normalised(groups, "SMR-2, band", "cleaning_moves") == {"rsrch_0": 2.0}
    # A layer that has not cleaned has no cleaning times to compare.
    assert flash.normalised(groups, "SMR-2, block", "cleaning_s") == {"rsrch_0": None}
    tables = flash.tables(groups)
    assert tables[-1].title.startswith("Figure 5.11")
    assert tables[1].rows[1] == ["SMR-2, block", "10.00", "10.00"]
    pytest.importorskip("matplotlib")
    flash.picture(groups, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_bound_and_media():
    """The bound of live blocks below which nothing is cleaned, and the sizes of the media,
    computed by hand."""
    assert regions.bound(64, 4, 3) == 88 and regions.bound(60, 8, 4) == 120
    assert regions.bound(4096, 1, 3) == 1366
    # Zones of 64 rows and two more tracks, of two combs each, and one spare.
    assert regions.little(64, 3, 2, 5)["tracks"] == 4 * 66 + 3
    # A 64th of the surface, at 2 MiB a track, with room for the guards of bands.
    assert regions.surface(64)["tracks"] == 4387
    assert regions.surface(64, rpm=60000)["keys"] == {"rpm": 60000}


def test_case_names_are_unique():
    options = regions.parser().parse_args([])
    for quick in (False, True):
        options.quick = quick
        cases = regions.show3(options) + regions.streams(options)
        assert len({name for name, *_ in cases}) == len(cases)
        for _, words, _ in cases:
            json.dumps(words)
            if words["what"] == "valid":
                assert words["live"] <= words["layer"]["rows"] * words["layer"]["columns"]


def covered(path):
    return any(path == TOP / name or TOP / name in path.parents for name in regions.stacks.SOURCES)


def test_sources_include_all_guest_modules():
    """The list has all modules that guest programs import and all sources of the store and its
    load."""
    shows = [path for path in (TOP / "scripts/src/experiments").rglob("*.py")
             if covered(path)]
    assert len(shows) == 6
    seen = set()
    for path in shows:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)] \
                if isinstance(node, ast.ImportFrom) else [
                    alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                for where in ("tests", "scripts/src"):
                    found = TOP / where / f"{name.replace('.', '/')}.py"
                    assert not found.exists() or covered(found), f"{path.name}: {found}"
                    seen |= {name} if found.exists() else set()
    assert {"guest.bench", "experiments.in_guest.stack", "loads.trace"} <= seen
    for tool in "kv", "kvbench":
        subprocess.run(["make", "-s", "-C", TOP / "userspace" / tool], check=True,
                       stdout=subprocess.DEVNULL)
        made = list((TOP / "build/userspace/obj" / tool).rglob("*.d"))
        of = {TOP / "userspace" / tool / word for path in made
              for word in path.read_text().replace("\\\n", " ").split()
              if word.endswith((".c", ".h"))}
        ours = {path.resolve() for path in of if TOP in path.resolve().parents}
        assert len(ours) > 15
        for path in ours:
            assert covered(path), path


def result_of_regions(target, **layer):
    """Return a result with the counters of a layer of that target, and @layer's."""
    more = {"tiler_moved_blocks": 500, "tiler_log_blocks": 600, "tiler_lazy_blocks": 350,
            "tiler_merged_blocks": 50} if target == "tiler" else {"merged_blocks": 70}
    return load_result(target, layer={**more, **layer})


def test_figures():
    f = regions.figures(result_of_regions("tiler"))
    assert f["unturned_ms"] == pytest.approx(10.0) and f["amplification"] == 1.5
    assert f["copies"] == 500 and f["lazy"] == .35 and f["meta_blocks"] == 6
    assert f["cleaning_s"] == .5 and f["longest_s"] == .9 and f["cleaning_seeks"] == .75
    f = regions.figures(result_of_regions("ma-baseline"))
    assert f["copies"] == 70 and f["lazy"] is None
    none = result_of_regions("tiler", clean_write_blocks=0)
    none["cleanings"] = {"number": 0, "seconds": 0.0, "longest": 0.0, "largest": 0,
                         "requests": 0, "seeks": None}
    f = regions.figures(none)
    assert f["cleaning_s"] == 0 and f["cleaning_seeks"] is None and f["amplification"] == 1


def test_ratios():
    """Ratios are to the first row; without a base there is none."""
    rows = [{"x": 4}, {"x": 2}, {"x": 0}]
    assert regions.ratios(rows, "x") == [1, .5, 0]
    assert regions.ratios(rows[::-1], "x") == [None] * 3


def test_faults_are_reported():
    """Writes that would have destroyed data, reads of destroyed blocks and a late clock are each
    reported."""
    assert not list(regions.stacks.wrong_of("a", result_of_regions("tiler")))
    bad = result_of_regions("tiler", r0_violations=2)
    bad["medium"].update(destroyed_reads=3, late=1)
    said = list(regions.stacks.wrong_of("a", bad))
    assert len(said) == 3 and all(s.startswith("a: ") for s in said)


def test_verdict_of_show_3():
    """Experiment 3 passes if nothing is cleaned below the bound and the moved blocks match the
    model. It reports each deviation, and each block that reads wrong."""
    def valid(live, cleans, moved, lazily):
        return {"words": {"live": live, "regions": 4}, "writes": 8000, "layer": {
            "tiler_cleans": cleans, "tiler_moved_blocks": moved, "host_write_blocks": 8000,
            "tiler_lazy_blocks": lazily, "tiler_commit_waits": 2}}

    good = [(("bound", 64, 4, 3), valid(87, 0, 0, 6000)),
            (("table", .8, 0), valid(205, 9, 29_000, 90))]
    rest = [(("table", .8, i), valid(205, 9, moved, 90)) for i, moved in (
        (1, 22_000), (2, 30_640), (3, 5_600), (4, 0), (5, 99))]
    full = (("full", 64, 4), {"blocks": 1280, "writes": 1024, "wrong": 0,
                              "layer": {"tiler_cleans": 9, "tiler_moved_blocks": 2048}})
    tables, said = regions.tables3(good + rest + [full])
    assert not said and len(tables) == 3
    assert tables[1].rows[0][:2] == ["0.80", "4.62 (4.65)"]
    full[1]["wrong"] = 1
    bad = [(("bound", 64, 4, 3), valid(87, 1, 50, 0)),
           (("table", .8, 0), valid(205, 0, 0, 90))]
    _, said = regions.tables3(bad + [full] + rest)
    assert len(said) == 4
    assert "1 cleanings below the bound" in said[0] and "the model's is 4.65" in said[3]


class Ledgers:
    """A stack that returns the given ledgers in order."""

    def __init__(self, target, rows):
        self.words, self.rows = {"target": target}, iter(rows)

    def both(self):
        us, steps, cleans, written, seeks = next(self.rows)
        return ({"clean_us": us, "steps": steps, "tiler_cleans": cleans,
                 "clean_write_blocks": written}, {"seeks": seeks})


def test_a_cleaning_of_a_region_ends_when_it_flips():
    # Two cleanings with steps over several requests, then two within one request.
    """For tiler a cleaning lasts from its first step until the counter of cleanings increases. A
    request that completes several is divided among them."""
    of = guest.stacks.Cleanings(Ledgers("tiler", (
        (0, 0, 0, 0, 0), (100, 1, 0, 20, 9), (100, 1, 0, 20, 11), (300, 3, 1, 50, 30),
        (900, 9, 3, 150, 70))))
    for _ in range(4):
        of.look()
    assert [round(s * 1e6) for s, _ in of.each] == [300, 300, 300]
    assert [n for _, n in of.each] == [50, 50, 50]
    assert of.requests == 3 and of.seeks == 9 + 19 + 40


def test_cleaning_of_a_log_is_one_request():
    """A log is cleaned within one request, so the whole request counts as one cleaning."""
    of = guest.stacks.Cleanings(Ledgers("ma-baseline", (
        (0, 0, 0, 0, 0), (0, 0, 0, 0, 2), (700, 8, 0, 7680, 500), (700, 8, 0, 7680, 502))))
    for _ in range(3):
        of.look()
    assert [(round(s * 1e6), n) for s, n in of.each] == [(700, 7680)]
    assert of.requests == 1 and of.seeks == 498


def test_hot_blocks_are_adjacent():
    """A load is the same for the same seed, covers all live blocks, and sends 90 % of the writes
    to the first 10 %."""
    words = {"live": 200, "hot": 10, "writes": 4000}
    drawn = list(guest.beside(words, 1))
    assert drawn == list(guest.beside(words, 1)) != list(guest.beside(words, 2))
    assert len(drawn) == 4000 and min(drawn) == 0 and max(drawn) == 199
    assert .88 < sum(at < 20 for at in drawn) / 4000 < .92


def test_percentile_of_few_values():
    """The percentile of few values is the largest of them; of none it is 0."""
    assert guest.stacks.percentile([5, 1, 3, 2, 4], .99) == 5
    assert guest.stacks.percentile([], .99) == 0


def test_pictures_of_few_results(tmp_path):
    """The picture is complete although a layer is missing."""
    pytest.importorskip("matplotlib")
    from skylight import plots
    options = SimpleNamespace(dense=60, scale=64)
    loads = [(("load", "rsrch_0", 60, name, ""), result_of_regions("tiler"))
             for name in ("S=1", "S=8")]
    speed = {"write": 4e5, "read": 4e5}
    streams = [(("stream", s, cache), {"alone": speed, "together": speed})
               for s in (1, 8) for cache in ("off", "on")]
    for draw, some in ((regions.picture4, loads), (regions.picture5, loads + streams)):
        plots.png(draw(some, options), tmp_path / "picture.png", (11, 4.2))
        assert (tmp_path / "picture.png").stat().st_size > 5000


def result_of_read_time(name, seconds, seeks):
    counters = {f"{stream}_{op}_seeks": 0 for stream in ("ls", "nols")
                for op in ("read", "write", "rewrite", "clean_read")}
    target = "plain" if name == "plain" else "stl-log"
    layer = {} if name == "plain" else {**counters, "ls_read_seeks": seeks, "nols_read_seeks": 3}
    of = load_result(target, layer=layer, medium={"seeks": 50})
    return ("shuffled", name), {**of, "seconds": seconds}


def test_each_remedy_on_each_load(tmp_path, monkeypatch):
    """All logs have the same disk and are not cleaned; only plain has a conventional medium."""
    monkeypatch.setattr(read_time, "load_file", lambda name, options: tmp_path / name)
    options = read_time.stacks.parser("read-time", "", ("x",)).parse_args(
        ["--loads", "shuffled,updates"])
    cases = read_time.cases(options)
    assert len({name for name, *_ in cases}) == len(cases) == 2 * (1 + len(read_time.REMEDIES))
    for _, words, (load, name) in cases:
        keys = words["layer"]["set"]
        assert words["load"] == str(tmp_path / load)
        assert words["medium"]["keys"].get("media") == ("cmr" if name == "plain" else None)
        assert keys.get("clean") == (None if name == "plain" else "off")
        assert ("defrag_frags" in keys) == ("OD" in name)
        assert ("look_ahead" in keys) == ("LAB" in name)
        assert ("read_cache_kb" in keys) == ("SC" in name)


def test_order_by_seconds_and_by_seeks():
    groups = read_time.rows([result_of_read_time(*of) for of in (
        ("plain", 9, 0), ("LS", 5, 100), ("SC", 3, 40), ("LAB", 4, 10))])
    assert groups["shuffled"]["plain"]["read_seeks"] == 3
    line, = read_time.sentences(groups)
    assert line == "shuffled: by seconds SC, LAB, LS; by seeks LAB, SC, LS; 2 of 3 pairs in the " \
        "same order"
    table = Table.of_rows("x", read_time.COLUMNS, groups["shuffled"], "shuffled")
    assert dict(zip(table.columns, table.rows[1]))["read seeks"] == "100"
