# SPDX-License-Identifier: GPL-2.0
"""Write latency of a shingled disk beside a plain one, under the virtual clock.

Random 4 KiB writes at queue depth 1 within 1 GiB of the 5 TB, 5,900 rpm drive of Skylight (its Test
1).  A plain disk seeks and waits for the sector: any time up to a rotation, plus the seek.  stl-set
appends to a log: the next block has just passed under the head when the next write arrives, so each
write takes one rotation and a block.  Metadata are on another device, so that the head stays in
place.
"""

import os
import statistics
import subprocess
from html import escape
from pathlib import Path

from common.output import store, whole
from lab.cache import TOP

from experiments import runner
from experiments.tables import Table

ROTATION = 60000 / 5900     # milliseconds
BLOCK = ROTATION / 515      # the outermost track has 515 blocks
OUT = runner.outputs("latency")
TRIES = 3
KINDS = (
    ("cmr", "plain disk"),
    ("set20", "stl-set, one log"),
    ("set0", "stl-set, a log per band"),
)


def measure(kernel, writes):
    """Return ({kind: milliseconds of each write}, the number of times the host was late)."""
    rc = subprocess.run(
        runner.in_guest("latency.sh", OUT, writes, kernel=kernel, timeout=600, rw=OUT),
        cwd=TOP, check=False).returncode
    if rc:
        raise SystemExit(f"latency: the guest ended with status {rc}")
    return {kind: [int(x) / 1e6 for x in (OUT / kind).read_text().split()]
            for kind, _ in KINDS}, sum(map(int, (OUT / "late").read_text().split()))


def in_time(kernel, writes):
    """Measure, and repeat while the host was late, as a busy host on QEMU sometimes is."""
    data, late = measure(kernel, writes)
    for _ in range(TRIES - 1):
        if not late:
            break
        print(f"the host was late {late} times: measured again", flush=True)
        data, late = measure(kernel, writes)
    return data, late


def table(data):
    out = Table(f"one rotation at 5,900 rpm: {ROTATION:.3f} ms; milliseconds of each 4 KiB write",
                ["", "writes", "min", "p1", "median", "mean", "p99", "max", "stddev",
                 "within 1 % of a rotation"])
    for kind, name in KINDS:
        ms = sorted(data[kind])
        near = sum(abs(x / ROTATION - 1) <= 0.01 for x in ms) / len(ms)
        out.add(name, str(len(ms)), *(f"{x:.3f}" for x in (
            ms[0], ms[len(ms) // 100], statistics.median(ms), statistics.mean(ms),
            ms[len(ms) * 99 // 100], ms[-1], statistics.stdev(ms))), f"{100 * near:.1f} %")
    return out


def verdict(data, late):
    """Return 0 if the expectations of this experiment hold."""
    mean = statistics.mean(data["set20"])
    flat = abs(mean / ROTATION - 1) <= 0.01
    print(f"stl-set, one log: mean {mean:.3f} ms, "
          f"{100 * (mean / ROTATION - 1):+.2f} % from one rotation: "
          + ("flat within 1 %" if flat else "NOT flat within 1 %"))
    varied = max(data["cmr"]) - min(data["cmr"]) > 0.9 * ROTATION
    if not varied:
        print("plain disk: does NOT vary over a rotation")
    if late:
        print(f"the host was late {late} times: no exact clock")
    return 0 if flat and varied and not late else 1


def draw(data, picture):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(11, 4.6), sharey=True,
        gridspec_kw={"width_ratios": [3, 1], "wspace": 0.07})
    colours = {"cmr": "#b5532a", "set20": "#1f5f8b"}
    for kind, name in KINDS[:2]:
        ms = data[kind]
        left.plot(range(len(ms)), ms, ".", markersize=3, alpha=0.8,
                  color=colours[kind], label=name)
        right.hist(ms, bins=[x / 10 for x in range(0, 145)], alpha=0.8,
                   orientation="horizontal", color=colours[kind])
    for axes in (left, right):
        axes.axhline(ROTATION, color="black", linewidth=0.8, linestyle=":")
        axes.set_ylim(0, 14)
        axes.spines[["top", "right"]].set_visible(False)
    left.set_xlim(0, len(data["cmr"]))
    left.set_xlabel("write")
    left.set_ylabel("latency, ms")
    left.text(len(data["cmr"]) * 0.995, ROTATION - 0.55,
              f"one rotation, {ROTATION:.2f} ms", ha="right", fontsize=9,
              bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none",
                    "pad": 1})
    left.legend(loc="upper left", ncols=2, frameon=False, markerscale=3,
                bbox_to_anchor=(0, 1.0))
    right.set_xscale("log")
    right.set_xlabel("writes per 0.1 ms")
    figure.suptitle("Random 4 KiB writes within 1 GiB of a 5 TB, 5,900 rpm "
                    "drive, one at a time", x=0.125, ha="left", fontsize=11)
    picture.parent.mkdir(parents=True, exist_ok=True)
    with whole(picture) as (part,):
        figure.savefig(part, dpi=120, bbox_inches="tight",
                       format=picture.suffix.lstrip(".") or "png")
    print(f"picture: {os.path.relpath(picture)}")


# --- the picture of the README -------------------------------------------------------

# Dark enough for a white page and light enough for a black one.
GREY, PLAIN, SHINGLED = "#767676", "#c05a28", "#2a7fbe"
WIDTH, HEIGHT = 760, 330
LEFT, RIGHT, TOP_EDGE, BOTTOM = 44, 16, 62, 42      # around the points
MOST_MS = 13


def dots(ms, span):
    """Return a path that consists only of round ends, one for each write."""
    where = [(round(i * span[0] / len(ms)), round(10 * (span[1] - min(x, MOST_MS) *
                                                        span[1] / MOST_MS)))
             for i, x in enumerate(ms)]
    return "".join(f"M{x} {y / 10:g}h0" for x, y in where)


def svg(data):
    """Return the same text for the same data, readable on white and on black; needs no library."""
    plain, one = sorted(data["cmr"]), data["set20"]
    said = (f"plain disk: {plain[0]:.2f} to {plain[-1]:.2f} ms, mean "
            f"{statistics.mean(plain):.2f}; {KINDS[1][1]}: mean {statistics.mean(one):.3f} ms, "
            f"a rotation is {ROTATION:.3f} ms")
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP_EDGE - BOTTOM

    def at(ms):
        return round(down - ms * down / MOST_MS, 1)

    def text(x, y, words, fill=GREY, anchor="start", size=13):
        return (f'<text x="{x}" y="{y}" fill="{fill}" text-anchor="{anchor}" '
                f'font-size="{size}">{escape(words)}</text>')

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" role="img">',
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        "<!-- made by scripts/experiments latency, which prints these figures -->",
        f"<title>Write latency of a plain and of a shingled disk</title><desc>{escape(said)}"
        "</desc>",
        text(LEFT, 20, f"{len(one):,} random writes of 4 KiB, one at a time, within 1 GiB of a "
             "5 TB disk", size=15),
        text(LEFT, 44, "● plain: it seeks, and waits for the sector", PLAIN),
        text(WIDTH - RIGHT, 44, "● shingled: it appends to a log, and waits for a rotation",
             SHINGLED, "end"),
        f'<g transform="translate({LEFT} {TOP_EDGE})" fill="none" stroke="{GREY}">',
        f'<path d="M0 0V{down}H{across}"/>',
    ]
    for ms in range(0, MOST_MS, 2):
        lines.append(f'<path d="M-5 {at(ms)}h5"/>')
    for kind, colour in (("cmr", PLAIN), ("set20", SHINGLED)):
        lines.append(f'<path stroke="{colour}" stroke-width="2.4" stroke-linecap="round" '
                     f'd="{dots(data[kind], (across, down))}"/>')
    lines.append("</g>")
    for ms in range(0, MOST_MS, 2):
        lines.append(text(LEFT - 9, TOP_EDGE + at(ms) + 4, f"{ms}", anchor="end", size=12))
    lines += [text(LEFT + 6, TOP_EDGE + 10, "ms", size=12),
              text(LEFT, HEIGHT - 16, "first write", size=12),
              text(WIDTH - RIGHT, HEIGHT - 16, "last", anchor="end", size=12),
              text((LEFT + WIDTH - RIGHT) // 2, HEIGHT - 16,
                   f"one rotation at 5,900 rpm is {ROTATION:.2f} ms", anchor="middle", size=12),
              "</svg>"]
    return "\n".join(lines) + "\n"


def main():
    p = runner.Parser("latency", __doc__, "kernel")
    p.add_argument("--writes", type=int, default=2000)
    p.add_argument("--picture", type=Path, metavar="PNG")
    p.add_argument("--svg", type=Path, metavar="FILE",
                   help="that of the README, Documentation/latency.svg")
    options = p.parse_args()
    runner.prepare("latency", "shingle")
    data, late = in_time(options.kernel, options.writes)
    runner.keep(options, {"late": late, "ms": data})
    runner.show(options, table(data))
    if options.picture:
        draw(data, options.picture)
    if options.svg:
        store(options.svg, svg(data))
        print(f"picture: {os.path.relpath(options.svg)}")
    return verdict(data, late)
