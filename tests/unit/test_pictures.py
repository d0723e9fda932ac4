# SPDX-License-Identifier: GPL-2.0
"""Pictures: that of the README, which scripts/experiments latency makes, and those of the manual,
which their script makes."""

import random
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest
from experiments import latency
from programs import TOP
from test_documents import DOCUMENTS
from test_documents import PAGES as DOCUMENTED

PICTURE = TOP / "Documentation/latency.svg"
SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 60_000
PAGES = ("#ffffff", "#0d1117")          # light and dark, as where the README is shown


def measured(seed=1, writes=2000):
    draw = random.Random(seed)
    return {"cmr": [draw.uniform(1.5, 12) for _ in range(writes)],
            "set20": [10.2 if draw.random() < .99 else 11.5 for _ in range(writes)],
            "set0": [5.0] * writes}


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(share * (x / 12.92 if x <= .04045 else ((x + .055) / 1.055) ** 2.4)
               for share, x in zip((.2126, .7152, .0722), parts))


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + .05) / (low + .05)


def points(text, colour):
    """Return [(x, y)] of a series, in the picture's own units."""
    path = next(p for p in xml.fromstring(text).iter(f"{SVG}path") if p.get("stroke") == colour)
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", path.get("d"))]


def test_each_write_is_a_point_of_the_picture():
    """Each write is one point: in the order of time across, and at the height of its latency."""
    data = measured()
    text = latency.svg(data)
    down = latency.HEIGHT - latency.TOP_EDGE - latency.BOTTOM
    for kind, colour in (("cmr", latency.PLAIN), ("set20", latency.SHINGLED)):
        found = points(text, colour)
        assert len(found) == 2000
        for ms, (_, y) in zip(data[kind], found):
            assert abs((down - y) * latency.MOST_MS / down - ms) < .01
        across = [x for x, _ in found]
        assert across == sorted(across) and across[0] == 0
        assert across[-1] == pytest.approx(latency.WIDTH - latency.LEFT - latency.RIGHT, abs=2)


def run(monkeypatch, late):
    """Run the experiment on a simulated host. @late has the number of late events of each
    measurement. Return the exit status and the number of measurements."""
    left = list(late)
    monkeypatch.setattr(latency, "measure", lambda kernel, writes: (measured(), left.pop(0)))
    monkeypatch.setattr(latency.runner.packages, "setup", lambda: None)
    monkeypatch.setattr("sys.argv", ["latency"])
    return latency.main(), len(late) - len(left)


def test_late_measurement_is_repeated(monkeypatch, capsys):
    """A measurement with a late clock is repeated."""
    assert run(monkeypatch, [1, 0, 0]) == (0, 2)
    assert "late 1 times: measured again" in capsys.readouterr().out


def test_repeated_late_measurements_fail(monkeypatch, capsys):
    """After a fixed number of late measurements the experiment fails."""
    assert run(monkeypatch, [1, 1, 2, 0]) == (1, latency.TRIES)
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "the host was late 2 times: no exact clock"
    assert sum("measured again" in line for line in out) == latency.TRIES - 1


def test_latency_beyond_the_scale_is_drawn_at_the_border():
    """A latency beyond the scale is drawn at the border, not left out."""
    data = measured(writes=10)
    data["cmr"][3] = 99.0
    assert min(y for _, y in points(latency.svg(data), latency.PLAIN)) == 0


def test_same_data_same_picture():
    assert latency.svg(measured()) == latency.svg(measured()) != latency.svg(measured(seed=2))


@pytest.mark.parametrize("page", PAGES)
def test_latency_is_readable_on_white_and_on_black(page):
    """All colours have enough contrast on the light and on the dark page of the README."""
    text = latency.svg(measured())
    colours = set(re.findall(r'(?:fill|stroke)="(#\w+)"', text))
    assert colours == {latency.GREY, latency.PLAIN, latency.SHINGLED}
    for colour in colours:
        assert contrast(colour, page) > 4, colour
    # Each text has a fill of its own: without one it would be black.
    for node in xml.fromstring(text).iter(f"{SVG}text"):
        assert node.get("fill") in colours


def test_picture_in_the_readme():
    """The picture in the tree is small, refers to no other file, and has the figures of
    results.rst."""
    text, readme = (path.read_text(encoding="utf-8") for path in (PICTURE, TOP / "README.md"))
    assert len(text.encode()) < MOST_BYTES
    assert not re.search(r"(?:href|src)=|url\(|<script|<style", text)
    assert 'font-family="sans-serif"' in text
    before = readme[:readme.index("## ")]
    assert re.search(r"^!\[.+\]\(Documentation/latency\.svg\)$", before, re.M | re.S)
    said = xml.fromstring(text).find(f"{SVG}desc").text
    results = (TOP / "Documentation/results.rst").read_text(encoding="utf-8")
    plain = re.search(r"plain\n +- ([\d.]+ to [\d.]+ ms, mean [\d.]+)\n", results)[1]
    shingled = re.search(r"with one log\n +- mean ([\d.]+) ms,", results)[1]
    assert plain in said and f"mean {shingled} ms" in said


PICTURES = DOCUMENTS / "pictures"
NAMES = sorted(path.name for path in PICTURES.glob("*.svg"))


def test_the_script_draws_the_same_bytes(tmp_path):
    subprocess.run([sys.executable, PICTURES / "draw.py", tmp_path], check=True)
    assert NAMES and sorted(path.name for path in tmp_path.iterdir()) == NAMES
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (PICTURES / name).read_bytes(), name


@pytest.mark.parametrize("name", NAMES)
def test_readable_on_white_and_on_black(name):
    """The picture needs no other file, has a title and a description, and enough contrast on both
    backgrounds."""
    text = (PICTURES / name).read_text(encoding="utf-8")
    assert not re.search(r"(?:href|src)=|url\(|<script|<style", text)
    colours = set(re.findall(r'(?:fill|stroke)="(#\w+)"', text))
    assert colours and all(contrast(c, page) > 4 for c in colours for page in PAGES)
    root = xml.fromstring(text)
    assert root.find(f"{SVG}title").text and len(root.find(f"{SVG}desc").text) > 100
    for node in root.iter(f"{SVG}text"):
        assert node.get("fill") in colours


def extent(node):
    """Return the left and the right end of a text, for a font as wide as DejaVu Sans."""
    width = 0.55 * float(node.get("font-size")) * len(node.text)
    x = float(node.get("x"))
    return {"start": (x, x + width), "middle": (x - width / 2, x + width / 2),
            "end": (x - width, x)}[node.get("text-anchor")]


@pytest.mark.parametrize("name", NAMES)
def test_text_is_inside_the_picture(name):
    root = xml.fromstring((PICTURES / name).read_text(encoding="utf-8"))
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for node in root.iter(f"{SVG}text"):
        left, right = extent(node)
        assert 0 <= left and right <= width and 0 < float(node.get("y")) < height, node.text


@pytest.mark.parametrize("name", NAMES)
def test_pages_show_the_picture_with_a_description(name):
    shown = [found for page in DOCUMENTED for found in re.findall(
        rf"^\.\. image:: pictures/{name}\n   :alt: (.+)\n", page.read_text("utf-8"), re.M)]
    assert shown and all(len(alt) > 20 for alt in shown)
