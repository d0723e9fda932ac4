# SPDX-License-Identifier: GPL-2.0
"""Tests of the presets, the drives of the literature by name. Expected numbers come from Skylight's
Table 2.1 and from arithmetic on them, not from the tool."""

import json
import re
import subprocess

import pytest
from test_shingle_cli import FAILED, USAGE, blank
from test_shingle_cli import build_tool, runner     # noqa: F401

MIB = 256                       # in blocks
DISK = 7814037168 // 8          # the 4 TB drive below the emulated ones
BANDS = {1: (40, 92983, 952), 2: (25, 148773, 409), 3: (20, 185966, 0)}


def devices(run, drive, blocks=DISK, meta=True, flash=10300 * MIB):
    out = [blank(run.dir / "data", blocks)]
    if drive == 2:
        out += ["--cache", blank(run.dir / "flash", flash)]
    if meta:
        out += ["--meta", blank(run.dir / "meta", 256 * MIB)]
    return out


def layout(run, drive, *more, **where):
    return json.loads(run("create", "--dry-run", "--json", "--preset", f"emulated-smr-{drive}",
                          *more, *devices(run, drive, **where), "x"))


@pytest.mark.parametrize("meta", [True, False])
@pytest.mark.parametrize("drive", [1, 2, 3])
def test_table_2_1(run, drive, meta):
    """The layout has the bands of the table, and with metadata it still fits on the 4 TB drive."""
    mib, data, cache = BANDS[drive]
    out = layout(run, drive, meta=meta)
    assert out["label"] == f"emulated-smr-{drive}"
    assert out["band_blocks"] == mib * MIB
    assert (out["bands"]["data"], out["bands"]["cache"]) == (data, cache)
    assert out["bands"]["staging"] == (0 if drive == 3 else 1)
    # 3.9 TB of bands, less at most part of a band.
    assert 0 <= 3900 * 10 ** 9 - data * mib * MIB * 4096 < 40 << 20
    # There are no guards: the drive below destroys nothing.
    assert all(g["stride"] == out["band_blocks"] for g in out["groups"])
    roles = {g["role"]: g for g in out["groups"]}
    if drive == 1:      # one cache, at the inner diameter
        assert roles["cache"]["device"] == "DATA"
        assert roles["cache"]["start"] > roles["data"]["start"]
        assert round(cache * mib / 1024, 1) == 37.2
    if drive == 2:
        assert {roles["cache"]["device"], roles["staging"]["device"]} == {"CACHE"}
        assert abs(cache * mib / 1024 - 9.98) < 0.01
    if drive < 3:
        assert out["logical_blocks"] == data * mib * MIB
        assert out["table"].endswith(" 1 inplace 4 cleaning lazy read_home always")
        assert out["params"] == {"set-shift": 0}
    if meta:
        assert roles["data"]["start"] == 1      # after the header


def test_zones_of_emulated_smr_3(run):
    """5 % of each zone of 40 GiB is not addressable; all logs together have 37.2 GiB."""
    out = layout(run, 3)
    zone, provision, logs = (out["params"][k] for k in ("zone-bands", "provision", "log-bands"))
    assert zone * 20 == 40 * 1024 and provision == -(-zone * 5 // 100)
    zones, rest = divmod(185966, zone)
    zones += rest > provision
    assert out["logical_blocks"] == (185966 - zones * provision) * 20 * MIB
    assert abs(zones * logs * 20 / 1024 - 37.2) < 0.2
    assert out["table"].endswith(" 0 6 cleaning aggressive idle_ms 1000 read_home always")


@pytest.mark.parametrize("scale", [2, 7, 10, 100, 409, 952])
@pytest.mark.parametrize("drive", [1, 2, 3])
def test_scale_keeps_ratios(run, drive, scale):
    """A drive at 1/scale has bands of the same length and the same share of cache (or of provision
    and logs)."""
    mib, data, cache = BANDS[drive]
    if drive == 2 and scale > 409:
        return
    out = layout(run, drive, "--scale", scale, blocks=-(-DISK // scale) + 20000)
    got = out["bands"]
    assert out["label"] == f"emulated-smr-{drive}, 1/{scale}"
    assert out["band_blocks"] == mib * MIB
    assert got["data"] <= data / scale + 1
    if drive < 3:
        assert got["cache"] == cache // scale
        assert abs(got["data"] / got["cache"] - data / cache) <= 0.5
        return
    p = out["params"]
    zones = got["data"] // p["zone-bands"]
    # There are as many zones as are large enough for 1 % of logs.
    assert zones >= min(90, data // scale // 195)
    assert 0.05 <= p["provision"] / p["zone-bands"] < 0.056
    assert abs(p["log-bands"] / p["zone-bands"] - 37.2 * 51.2 / data) < 0.003


def test_small_bands_allow_large_scales(run):
    """A small drive for tests: 64 MiB, bands of 48 KiB, and the same ratios."""
    out = layout(run, 1, "--scale", 58200, "--band", "48K", blocks=17000, meta=False)
    assert out["bands"] == {"data": 1270, "staging": 1, "cache": 13}
    assert out["band_blocks"] == 12
    out = layout(run, 3, "--scale", 60000, "--band", "48K", blocks=17000, meta=False)
    assert out["bands"]["data"] == 185966 * 5120 // 60000 // 12
    assert out["params"] == {"zone-bands": 195, "provision": 10, "log-bands": 2}


def test_explicit_options_override_the_preset(run):
    """An option of the command line overrides the preset, before and behind --preset."""
    for order in (0, 1):
        words = ["--cache-size", "5b", "--set-shift", "3", "--label", "mine", "--set",
                 "cleaning=aggressive", "--set", "idle_ms=7"]
        preset = ["--preset", "emulated-smr-1", "--scale", "40"]
        words = preset + words if order else words + preset
        out = json.loads(run("create", "--dry-run", "--json", *words,
                             *devices(run, 1, DISK // 40, meta=False), "x"))
        assert out["bands"]["cache"] == 5 and out["params"] == {"set-shift": 3}
        assert out["label"] == "mine"
        assert out["table"].endswith(" 1 inplace 6 cleaning aggressive idle_ms 7 "
                                     "read_home always")
    out = layout(run, 3, "--scale", "40", "--log-bands", "3", "--set", "commit_ms=5",
                 blocks=DISK // 40)
    assert out["params"]["log-bands"] == 3
    assert out["table"].endswith(" 0 8 commit_ms 5 cleaning aggressive idle_ms 1000 "
                                 "read_home always")
    out = layout(run, 1, "--scale", "40", "--bands", "100", "--cache-location", "od",
                 blocks=DISK // 40)
    assert out["bands"]["data"] == 100
    assert [g["role"] for g in out["groups"]] == ["cache", "staging", "data"]


@pytest.mark.parametrize("scale, band, disk", [(1, 7680, 512 << 30), (100, 7680, 6 << 30),
                                               (2000, 120, 300 << 20), (16117, 7680, 70 << 20)])
def test_layout_of_ma_baseline(run, scale, band, disk):
    """One log at the outer diameter, as one band: 1 % of the 512 GB of a surface."""
    disk = blank(run.dir / "d", disk // 4096)
    more = [] if band == 7680 else ["--band", f"{4 * band}K"]
    out = json.loads(run("create", "--dry-run", "--json", "--preset", "ma-baseline", "--scale",
                         scale, *more, disk, "x"))
    assert out["bands"] == {"data": 16117 * 7680 // (scale * band), "staging": 1, "cache": 1}
    log = next(g for g in out["groups"] if g["role"] == "cache")
    assert log["band_blocks"] == 5 * 10 ** 9 // 4096 // scale
    assert log["start"] == min(g["start"] for g in out["groups"])
    if scale == 1:
        assert abs(out["logical_blocks"] * 4096 + 5e9 - 512e9) < 40 << 20
    assert out["table"].endswith(" 1 inplace 4 cleaning lazy rmw band")
    out = run("create", "--dry-run", "--preset", "ma-baseline", "--no-feature", "inplace",
              "--scale", scale, *more, "--set", "rmw=block", disk, "x")
    assert " 0 4 rmw block cleaning lazy'" in out and "risk" not in out


@pytest.mark.parametrize("scale", [1, 10, 64, 819])
def test_flash_of_ma(run, scale):
    """8 TB with 20 GiB of flash, which ma-smr-2 uses as the cache of its sets, and ma-rmwf for
    blocks that cannot be written in place."""
    disk, flash = blank(run.dir / "d", (9 << 40) // 4096 // scale), blank(
        run.dir / "f", (21 << 30) // 4096 // scale + 80 * 256)
    for name, bands, cache, each in (("ma-smr-2", 305175, 819 // scale, 25),
                                     ("ma-rmwf", 254313, 1, 30)):
        out = json.loads(run("create", "--dry-run", "--json", "--preset", name, "--scale", scale,
                             "--cache", flash, disk, "x"))
        wanted = 254313 // scale if name == "ma-rmwf" else round(cache * bands / 819)
        assert out["bands"] == {"data": wanted, "staging": 1, "cache": cache}
        group = next(g for g in out["groups"] if g["role"] == "cache")
        assert group["device"] == "CACHE"
        got = group["band_blocks"] * cache * 4096 * scale
        assert abs(got / (20 << 30) - 1) < (.02 if scale < 64 else .1)
        if scale == 1:
            assert abs(out["logical_blocks"] * 4096 / 8e12 - 1) < 1e-4
    assert "give a device for it with --cache" in run(
        "create", "--dry-run", "--preset", "ma-rmwf", "--scale", scale, disk, "x", rc=USAGE)


SURFACE = 512 * 10 ** 9 // 4096          # in blocks; one of the 16 surfaces of Ma's drive


def platter(run, tracks, length=512, *, inner=None, conventional=0):
    """One surface under a head 3 tracks wide. The first @conventional tracks are conventional; with
    @inner, the inner half has tracks of that length."""
    path, zones, runs, at = run.dir / "geometry", [], [], 0
    for i, (n, blocks) in enumerate([(tracks, length)] if not inner else
                                    [(tracks // 2, length), (tracks - tracks // 2, inner)]):
        zones.append(f"zone {i} {at} {n * blocks} {n} {blocks} {n} 64 0")
        outer = conventional if not i else 0
        if outer:
            runs.append(f"run {at} {outer} {blocks} {i} 0 0 in conventional")
        runs.append(f"run {at + outer * blocks} {n - outer} {blocks} {i} 0 {outer} in smr")
        at += n * blocks
    path.write_text("\n".join([
        f"platter 1\nblocks {at}\nmedia smr\nhead_tracks 3.000\nwindow_tracks 2\nsurfaces 1",
        "density 1000", *zones, *([f"conventional 0 {conventional * length}"] if conventional
                                  else []), *runs, ""]))
    return ["--geometry", path], blank(run.dir / "surface", at)


def regions(run, name, *more, disk, rc=0):
    geometry, path = disk
    out = run("create", "--dry-run", "--json", "--preset", name, *more, *geometry, path, "x",
              rc=rc)
    return json.loads(out) if rc == 0 else out


@pytest.mark.parametrize("apart", [False, True])
def test_regions_of_the_thesis(run, apart):
    """With 4,096 tracks and combs of one block, a surface of 512 GB has 59 zones of 512 regions.
    One region of all is a spare slot, and a tenth of each is not addressable."""
    disk = platter(run, SURFACE // 512, conventional=0 if apart else 1000)
    more = ["--meta", blank(run.dir / "meta", 2 << 18)] if apart else []
    out = regions(run, "ma-tiler", *more, disk=disk)
    assert out["params"] == {"rows": 4096, "columns": 1, "over-permille": 100,
                             "spare-regions": 1}
    assert out["bands"] == {"data": 59, "staging": 0, "cache": 0}
    assert out["band_blocks"] == 4096 * 512
    assert [g["stride"] for g in out["groups"]] == [4098 * 512]
    assert out["logical_blocks"] == (59 * 512 - 1) * (4096 - 409)
    assert out["label"] == "ma-tiler"
    assert out["table"] == f"{disk[1]} - {more[1] if apart else '-'}"
    # The thesis reserves nothing, and varies the width of a comb.
    for columns in (2, 4, 8):
        out = regions(run, "ma-tiler", *more, "--columns", columns, "--over-permille", 0,
                      disk=disk)
        assert out["logical_blocks"] == (59 * 512 // columns - 1) * 4096 * columns


@pytest.mark.parametrize("apart", [False, True])
def test_regions_of_whole_tracks(run, apart):
    """64 tracks of 2 MiB are 32,768 blocks; without a reserve 17 pages map them."""
    disk = platter(run, SURFACE // 512, conventional=0 if apart else 500)
    more = ["--meta", blank(run.dir / "meta", 1 << 18)] if apart else []
    out = regions(run, "tiler-track", *more, "--over-permille", 0, disk=disk)
    assert out["params"]["columns"] == 0
    assert out["band_blocks"] == 32768 and out["bands"]["data"] == 3690
    assert [g["stride"] for g in out["groups"]] == [66 * 512]
    assert out["logical_blocks"] == 3689 * 32768
    assert out["pages"]["blocks"] == 2 * 17 * 3690
    # On shorter tracks a region has more tracks, and the inner half loses no capacity.
    out = regions(run, "tiler-track", *more, "--scale", 100, "--over-permille", 0,
                  disk=platter(run, 4000, inner=256, conventional=0 if apart else 200))
    assert {g["stride"] for g in out["groups"]} == {66 * 512, 130 * 256}
    assert out["logical_blocks"] == (36 - 2) * 32768


@pytest.mark.parametrize("name, most", [("ma-tiler", 59), ("tiler-track", 1845)])
def test_regions_scaled(run, name, most):
    """A preset of tiler can be scaled down to one region or two, further with smaller bands, and
    the scale that an error proposes fits."""
    meta = ["--meta", blank(run.dir / "meta", 1 << 18)]
    disk = platter(run, 4500)
    out = regions(run, name, "--scale", most, *meta, disk=disk)
    assert out["label"] == f"{name}, 1/{most}"
    assert out["bands"]["data"] == (1 if name == "ma-tiler" else 2)
    assert f"at most {most}," in regions(run, name, "--scale", most + 1, disk=disk, rc=USAGE)
    # Smaller bands allow this scale.
    out = regions(run, name, "--scale", 10 * most, "--band", "8M", *meta, disk=disk)
    assert out["band_blocks"] == 2048 and out["params"]["columns"] == (name == "ma-tiler")
    assert "--scale" in (why := regions(run, name, *meta, disk=disk, rc=FAILED))
    assert why.count("\n") == 1
    regions(run, name, "--scale", re.search(r"--scale (\d+) fits here", why)[1], *meta, disk=disk)


def test_rows_give_the_tracks_of_a_band(run):
    """--rows gives the tracks of a band. The longest tracks determine its length in blocks, unless
    --band is given as well."""
    meta = ["--meta", blank(run.dir / "meta", 1 << 18)]
    disk = platter(run, 3000, 20, inner=10)
    for name, bands in (("ma-tiler", 59 * 4096 // (16 * 2000)), ("tiler-track", 3690 * 64 //
                                                                (16 * 2000))):
        out = regions(run, name, "--scale", 2000, "--rows", 16, *meta, disk=disk)
        assert out["band_blocks"] == 16 * 20 and out["params"]["rows"] == 16
        assert out["bands"]["data"] == bands
        out = regions(run, name, "--scale", 2000, "--rows", 16, "--bands", 3, *meta, disk=disk)
        assert out["bands"]["data"] == 3
        out = regions(run, name, "--scale", 60000, "--rows", 16, "--band", "800K", *meta,
                      disk=disk)
        assert out["band_blocks"] == 200 and out["params"]["rows"] == 16
        assert "--rows 0 is out of bounds: at least 1" in regions(
            run, name, "--scale", 2000, "--rows", 0, *meta, disk=disk, rc=16)
    geometry, path = disk
    for more, band in ((["--rows", 64], 64 * 20), (["--rows", 64, "--band", "4M"], 1024)):
        out = json.loads(run("format", "tiler", "--dry-run", "--json", *more, *meta, *geometry,
                             path))
        assert out["band_blocks"] == band
    # Without tracks a band is as if tracks had 2 MiB, limited to the greatest length of a region.
    plain = blank(run.dir / "d", 4 << 18)
    for rows, band in ((64, 64 * 512), (1000, 65000)):
        out = json.loads(run("format", "tiler", "--dry-run", "--json", "--rows", rows, plain))
        assert out["band_blocks"] == band


def test_region_too_long_without_tracks(run):
    """The error must blame the length of the band, not the size of the device."""
    plain = blank(run.dir / "d", 4 << 18)
    text = run("format", "tiler", "--dry-run", "--band", "512M", plain, rc=None)
    assert "a region has 1 to 65535 blocks: choose smaller bands" in text, text


def test_map_of_regions_needs_conventional_tracks_or_meta(run):
    """On a shingled disk, the pages of tiler's map need conventional tracks or a META device, and
    both the error and the description of the preset say that."""
    disk = platter(run, 2000)
    for name, more in (("tiler-track", []), ("ma-tiler", ["--rows", 64])):
        why = regions(run, name, "--scale", 1000, *more, disk=disk, rc=FAILED)
        assert "--meta" in why and "conventional tracks" in why and why.count("\n") == 1
    for name in ("ma-tiler", "tiler-track"):
        text = run("presets", name)
        told = text[text.index(f"{name}: tiler"):].partition("map ")[2]
        assert "--meta DEV" in told and "conventional" in told


@pytest.mark.parametrize("name, more, what", [
    ("ma-tiler", ["--columns", 16], "a region has 1 to 65535 blocks"),
    ("ma-tiler", ["--cache-size", "5b"], "does not apply to tiler"),
    ("ma-tiler", ["--columns", 9999, "--rows", 4, "--bands", 100],
     "a region is wider than a track"),
    ("tiler-track", ["--rows", "many"], "--rows"),
    ("tiler-track", ["--rows", 70000], "--rows"),
    ("tiler-track", ["--band", "1T"], "too large for tiler-track"),
])
def test_impossible_regions_are_refused(run, name, more, what):
    disk = platter(run, 4500)
    meta = ["--meta", blank(run.dir / "meta", 1 << 18)]
    text = regions(run, name, "--scale", 59, *more, *meta, disk=disk, rc=None)
    assert what in text and text.count("\n") == 1, text


SMALL = ["--preset", "emulated-smr-1", "--scale", "58200", "--band", "48K"]


def test_no_feature_removes_a_feature_of_the_preset(run):
    """--no-feature inplace removes the feature by which a power cut can lose data."""
    data = blank(run.dir / "d", 17000)
    for more, tail in (
            ([], " 1 inplace 4 cleaning lazy read_home always"),
            (["--feature", "inplace"], " 1 inplace 4 cleaning lazy read_home always"),
            (["--no-feature", "inplace"], " 0 4 cleaning lazy read_home always"),
            (["--no-feature", "inplace", "--set", "read_home=needed"],
             " 0 4 read_home needed cleaning lazy")):
        line = run("create", "--dry-run", *SMALL, *more, data, "x").splitlines()[-1]
        assert line.endswith(f"{tail}'"), line


def test_settings_of_a_preset_apply_at_open(run):
    """The settings of a preset are stored with the layout, or are given again when it is opened."""
    data = blank(run.dir / "d", 17000)
    preset = ["open", data, "x", "--dry-run", "--preset", "emulated-smr-1"]
    assert "a power cut meanwhile" in run("format", *SMALL, data)
    assert run("open", data, "x", "--dry-run").endswith(
        " 1 inplace 4 cleaning lazy read_home always'\n")
    run("format", "--force", *SMALL, "--no-feature", "inplace", data)
    assert run("open", data, "x", "--dry-run").endswith(" 0 4 cleaning lazy read_home always'\n")
    run("set", data, "--default", "cleaning", "--default", "read_home")
    assert run("open", data, "x", "--dry-run").endswith(f" stl-set {data} - -'\n")
    assert run(*preset).endswith(" 1 inplace 4 cleaning lazy read_home always'\n")
    assert run(*preset, "--no-feature", "inplace", "--set", "order=greedy").endswith(
        " 0 6 order greedy cleaning lazy read_home always'\n")
    assert "emulated-smr-3 is for stl-full, but" in run(*preset[:-1], "emulated-smr-3", rc=FAILED)
    assert "choose one of emulated-smr-1" in run(*preset[:-1], "emulated", rc=USAGE)
    assert "does not store" in run(*preset[:4], "--no-feature", "inplace", rc=USAGE)
    assert "does not have" in run(*preset, "--no-feature", "in", rc=USAGE)


@pytest.mark.parametrize("target", ["stl-set", "stl-full"])
def test_read_home_is_a_key(run, target):
    data = blank(run.dir / "d", 17000)
    create = ["create", target, "--dry-run", "--band", "48K", data, "x", "--set"]
    assert run(*create, "read_home=always").endswith(" 0 2 read_home always'\n")
    assert run(*create, "read_home=sometimes", rc=USAGE) == \
        "shingle: read_home must be needed or always\n"


def test_proposed_scale_fits(run):
    """If a device is too small, the error names the smallest scale that fits, and the size of DATA
    that would be enough without it."""
    for drive, blocks, flash in ((1, 30 << 18, 1), (2, 30 << 18, 3000 * MIB),
                                 (2, DISK, 500 * MIB), (3, 30 << 18, 1)):
        args = ["create", "--dry-run", "--preset", f"emulated-smr-{drive}",
                *devices(run, drive, blocks, False, flash), "x"]
        text = run(*args, rc=FAILED)
        assert text.count("\n") == 1
        scale = int(re.search(r"--scale (\d+) fits here", text)[1])
        run(*args, "--scale", scale)
        run(*args, "--scale", scale - 1, rc=FAILED)
        need = re.search(r"a DATA of at least (\d+) MiB", text)
        assert bool(need) == (blocks < DISK)
        if need and drive != 2:
            run(*args[:-2], blank(run.dir / "d", int(need[1]) * MIB), "x")
            run(*args[:-2], blank(run.dir / "d", (int(need[1]) - 1) * MIB), "x", rc=FAILED)


@pytest.mark.parametrize("args, what, rc", [
    (["--preset", "emulated-smr-4", "d", "x"], "choose one of emulated-smr-1", USAGE),
    (["--preset", "emulated-smr-1", "--scale", "0", "d", "x"], "at least 1", USAGE),
    (["--preset", "emulated-smr-1", "--scale", "-3", "d", "x"], "digits only", USAGE),
    (["--preset", "emulated-smr-1", "--scale", "953", "d", "x"], "at most 952", USAGE),
    (["--preset", "emulated-smr-2", "--scale", "410", "d", "x"], "at most 409", USAGE),
    (["--preset", "emulated-smr-3", "--scale", "954", "d", "x"], "at most 953", USAGE),
    (["--preset", "emulated-smr-1", "--band", "40G", "d", "x"], "too large", USAGE),
    (["--preset", "emulated-smr-2", "--scale", "400", "d", "x"], "--cache", USAGE),
    (["--preset", "emulated-smr-1", "stl-set", "d", "x"], "omit 'stl-set'", USAGE),
    (["--preset", "emulated-smr-1", "d"], "NAME is missing", USAGE),
    (["--preset", "emulated-smr-1", "--scale", "900", "--set-shift", "a", "d", "x"],
     "not a number", USAGE),
    (["--preset", "emulated-smr-1", "--scale", "900", "--log-bands", "2", "d", "x"],
     "does not apply", USAGE),
    (["--scale", "2", "stl-set", "d", "x"], "requires --preset", USAGE),
    (["--no-feature", "inplace", "stl-set", "d", "x"], "requires --preset", USAGE),
    (["--preset", "emulated-smr-3", "--no-feature", "inplace", "d", "x"], "does not have",
     USAGE),
    (["stl-set", "--bands", "0", "d", "x"], "at least 1", USAGE),
    (["stl-set", "--bands", "100000", "d", "x"], "DATA has room for", FAILED),
])
def test_invalid_options_are_refused(run, args, what, rc):
    blank(run.dir / "d", 10 << 18)
    text = run("create", "--dry-run", *args, rc=rc)
    assert what in text and text.count("\n") == 1


def test_too_small_device_is_not_written(run):
    data = blank(run.dir / "d", 4000)
    assert "needs a DATA" in run("format", "--preset", "emulated-smr-1", data, rc=FAILED)
    assert not any(data.read_bytes())


def test_layout_has_the_requested_bands(run):
    for more, cache in (([], 4), (["--cache-size", "9b"], 9), (["--cache-size", "50%"], 71)):
        out = json.loads(run("format", "stl-set", "--dry-run", "--json", "--band", "40K",
                             "--bands", "70", *more, blank(run.dir / "d", 3000)))
        assert out["bands"] == {"data": 70, "staging": 1, "cache": cache}
    out = json.loads(run("format", "stl-full", "--dry-run", "--json", "--band", "40K",
                         "--bands", "70", blank(run.dir / "d", 3000)))
    assert out["bands"]["data"] == 70


def test_guards_only_where_the_head_destroys_tracks(run):
    """Bands have a guard between them only if the head destroys tracks; without a guard there,
    a write to one band would destroy the next. `--geometry pack` ignores tracks altogether."""
    data, geometry = blank(run.dir / "d", 20000), run.dir / "g"
    for window, stride in ((0, 10), (1, 24)):
        geometry.write_text(f"platter 1\nwindow_tracks {window}\nrun 0 1666 12 0 0 0\n")
        out = json.loads(run("format", "stl-set", "--dry-run", "--json", "--band", "40K",
                             "--geometry", geometry, data))
        assert {g["stride"] for g in out["groups"]} == {12 if not window else stride}
    out = json.loads(run("format", "stl-set", "--dry-run", "--json", "--band", "40K",
                         "--geometry", "pack", data))
    assert {g["stride"] for g in out["groups"]} == {10}


@pytest.mark.parametrize("name, settings", [
    ("hajkazemi-log", "2 clean off"),
    ("hajkazemi-defrag", "4 clean off defrag_frags 2"),
    ("hajkazemi-look-around", "8 clean off look_behind 64 look_ahead 64 look_regions 32"),
    ("hajkazemi-cache", "6 clean off selective on read_cache_kb 65536")])
@pytest.mark.parametrize("scale", [1, 7, 1000, 31789])
def test_a_log_with_its_home(run, name, settings, scale):
    """The paper's log: a home of 4 TB, where blocks that were never written are read, and as much
    log, beside its reserve, which is not cleaned.  A scale keeps that."""
    out = json.loads(run("create", "--dry-run", "--json", "--preset", name, "--scale", scale,
                         blank(run.dir / "data", 2 * 254315 * 30 * MIB // scale + 4000),
                         "--meta", blank(run.dir / "meta", 2048 * MIB), "x"))
    bands = 254315 // scale
    home = (bands - 3) // 2
    assert (out["bands"]["data"], out["params"]["home-bands"]) == (bands, home)
    assert out["logical_blocks"] == home * 30 * MIB and 3 <= bands - 2 * home <= 4
    assert scale > 1 or out["logical_blocks"] * 4096 == pytest.approx(4e12, rel=1e-3)
    assert out["table"].endswith(f" 0 {settings}") and out["params"]["reserve"] >= 3


def test_presets_command(run):
    """The list has all presets with the values of the papers, and names those that cannot be scaled
    as far as requested."""
    rows = json.loads(run("presets", "--json"))
    assert [r["name"] for r in rows] == [*(f"emulated-smr-{i}" for i in (1, 2, 3)),
                                         "ma-baseline", "ma-tiler", "tiler-track",
                                         "ma-dualbuffer", "dualbuffer-small", "ma-smr-2",
                                         "ma-rmwf", "hajkazemi-log", "hajkazemi-defrag",
                                         "hajkazemi-look-around", "hajkazemi-cache"]
    assert {r["name"] for r in rows if r["needs_conventional_tracks_or_meta"]} == {
        "ma-tiler", "tiler-track"}
    for row, (mib, data, _) in zip(rows, BANDS.values()):
        assert row["paper"]["band_blocks"] == mib * MIB and row["paper"]["size"] == "3.9 TB"
        assert row["options"]["bands"] == str(data) and "2.1" in row["source"]
        assert row["name"] in run("presets")
        assert "read_home=always" in row["set"]
        # Presets that rewrite bands in place state the risk; others do not.
        assert row["feature"] == (["inplace"] if row["target"] == "stl-set" else [])
        assert ("power cut" in row.get("doc", "")) == bool(row["feature"])
    # Presets that cannot be scaled that far are left out, and a sentence names them.
    text = run("presets", "--scale", "500")
    assert "\nemulated-smr-1    stl-set " in text and "for emulated-smr-2 with" in text
    assert "at most 409" in text and "at most 59" in text and "\nma-tiler" not in text
    done = subprocess.run([run.tool, "presets", "--json", "--scale", "60"], check=True, text=True,
                          capture_output=True)
    assert "ma-tiler" not in [r["name"] for r in json.loads(done.stdout)]
    assert done.stderr.count("\n") == 1 and "at most 59" in done.stderr
    assert "at most 254313" in run("presets", "--scale", "300000", rc=USAGE)
    assert "at most 31789" in run("presets", "hajkazemi-log", "--scale", "31790", rc=USAGE)
    assert "\nma-rmwf " in run("presets", "--scale", "20000")


def test_one_preset_in_full(run):
    """The list has one line for each preset; a name prints the rest, with the same content as
    JSON."""
    rows = json.loads(run("presets", "--json"))
    lines = run("presets").splitlines()
    assert [x.split()[:2] for x in lines[1:]] == [[r["name"], r["target"]] for r in rows]
    assert [int(re.search(r"iB +(\d+) ", x)[1]) for x in lines[1:]] == \
        [r["max_scale"] for r in rows]
    for row in rows:
        assert json.loads(run("presets", row["name"], "--json")) == row
        text = run("presets", row["name"])
        assert text.startswith(f"{row['name']}: {row['target']}\n")
        assert f"  scale    1 to {row['max_scale']};" in text and row["source"] in text
        for option, value in row["options"].items():
            assert f" --{option} {value}" in text
        assert ("--cache DEV" in text) == row["needs_cache_device"]
        assert all(f"--set {key}" in text for key in row["set"])
    assert " --bands 9279 " in run("presets", "emulated-smr-1", "--scale", "10")
    assert "at most 59" in run("presets", "ma-tiler", "--scale", "60", rc=USAGE)
    assert "choose one of emulated-smr-1" in run("presets", "x", rc=USAGE)
    assert "too many" in run("presets", "ma-tiler", "x", rc=USAGE)


@pytest.mark.parametrize("mib", [20, 64, 1024])
@pytest.mark.parametrize("name", ["emulated-smr-1", "emulated-smr-2", "emulated-smr-3",
                                  "ma-baseline", "ma-tiler", "tiler-track", "ma-dualbuffer",
                                  "dualbuffer-small", "ma-smr-2", "ma-rmwf", "hajkazemi-log"])
def test_proposed_options_fit(run, name, mib):
    """Where no scale fits with the bands of a preset, shorter bands are proposed, too."""
    data = blank(run.dir / "d", mib * MIB)
    more = ["--cache", blank(run.dir / "f", mib * MIB)] if name.endswith(("-2", "rmwf")) and \
        name != "emulated-smr-3" else []
    line = ["create", "--dry-run", "--preset", name, *more, data, "x"]
    text = run(*line, rc=FAILED)
    options = re.search(r"; ((?:--(?:band|rows) \w+ )?--scale \d+) fits here\n", text)
    assert options, text
    words = options[1].split()
    run(*line, *words)
    # No smaller scale fits.
    assert "--scale" in run(*line, *words[:-1], int(words[-1]) - 1, rc=FAILED)


def test_a_device_for_which_no_scale_fits(run):
    data = blank(run.dir / "d", MIB)
    assert run("create", "--dry-run", "--preset", "ma-dualbuffer", data, "x", rc=FAILED).endswith(
        "; no --scale fits here\n")
