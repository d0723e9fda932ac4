# SPDX-License-Identifier: GPL-2.0
"""The picture of the README, which scripts/experiments latency makes."""

import random
import re
import xml.etree.ElementTree as xml

import pytest
from experiments import latency as show
from programs import TOP

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
    text = show.svg(data)
    down = show.HEIGHT - show.TOP_EDGE - show.BOTTOM
    for kind, colour in (("cmr", show.PLAIN), ("set20", show.SHINGLED)):
        found = points(text, colour)
        assert len(found) == 2000
        for ms, (_, y) in zip(data[kind], found):
            assert abs((down - y) * show.MOST_MS / down - ms) < .01
        across = [x for x, _ in found]
        assert across == sorted(across) and across[0] == 0
        assert across[-1] == pytest.approx(show.WIDTH - show.LEFT - show.RIGHT, abs=2)


def run(monkeypatch, late):
    """Run the experiment on a simulated host. @late has the number of late events of each
    measurement. Return the exit status and the number of measurements."""
    left = list(late)
    monkeypatch.setattr(show, "measure", lambda kernel, writes: (measured(), left.pop(0)))
    monkeypatch.setattr(show.runner.packages, "setup", lambda: None)
    monkeypatch.setattr("sys.argv", ["latency"])
    return show.main(), len(late) - len(left)


def test_late_measurement_is_repeated(monkeypatch, capsys):
    """A measurement with a late clock is repeated."""
    assert run(monkeypatch, [1, 0, 0]) == (0, 2)
    assert "late 1 times: measured again" in capsys.readouterr().out


def test_repeated_late_measurements_fail(monkeypatch, capsys):
    """After a fixed number of late measurements the experiment fails."""
    assert run(monkeypatch, [1, 1, 2, 0]) == (1, show.TRIES)
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "the host was late 2 times: no exact clock"
    assert sum("measured again" in line for line in out) == show.TRIES - 1


def test_latency_beyond_the_scale_is_drawn_at_the_border():
    """A latency beyond the scale is drawn at the border, not left out."""
    data = measured(writes=10)
    data["cmr"][3] = 99.0
    assert min(y for _, y in points(show.svg(data), show.PLAIN)) == 0


def test_same_data_same_picture():
    assert show.svg(measured()) == show.svg(measured()) != show.svg(measured(seed=2))


@pytest.mark.parametrize("page", PAGES)
def test_readable_on_white_and_on_black(page):
    """All colours have enough contrast on the light and on the dark page of the README."""
    text = show.svg(measured())
    colours = set(re.findall(r'(?:fill|stroke)="(#\w+)"', text))
    assert colours == {show.GREY, show.PLAIN, show.SHINGLED}
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
