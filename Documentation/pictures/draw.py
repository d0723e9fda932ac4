#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Draw the pictures of the manual as SVG, beside this file or in a given directory:

    Documentation/pictures/draw.py [DIRECTORY]

Each picture is a function of PICTURES.  The three colours have enough contrast on a white page and
on a dark one, so a picture has no background.  Arrow heads are drawn as triangles, because markers
do not take the colour of their line in every viewer."""

import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

GREY, ORANGE, BLUE = "#767676", "#c05a28", "#2a7fbe"


def number(value):
    """Return a coordinate without trailing zeroes, the same on every machine."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


class Picture:
    """A drawing of a given size; methods add to it from the back to the front."""

    def __init__(self, width, height, title, text):
        self.head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                     f'width="{width}" height="{height}" font-family="sans-serif" role="img">\n'
                     "<!-- SPDX-License-Identifier: GPL-2.0 -->\n"
                     "<!-- made by Documentation/pictures/draw.py -->\n"
                     f"<title>{escape(title)}</title><desc>{escape(text)}</desc>\n")
        self.parts = []

    def box(self, x, y, width, height, colour=GREY, fill=0.0, dashed=False, thick=1.0):
        """A rectangle; fill is the opacity of its area."""
        self.parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}" fill="{colour}" fill-opacity="{fill:g}" '
            f'stroke="{colour}" stroke-width="{thick:g}"'
            f'{" stroke-dasharray=" + chr(34) + "4 3" + chr(34) if dashed else ""}/>')

    def line(self, *points, colour=GREY, dashed=False, thick=1.4):
        path = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" '
                          f'stroke-width="{thick:g}"{dash}/>')

    def arrow(self, *points, colour=GREY, dashed=False):
        """A line through points that ends with a triangle at the last one."""
        (ax, ay), (bx, by) = points[-2:]
        length = math.hypot(bx - ax, by - ay)
        dx, dy = (bx - ax) / length, (by - ay) / length
        self.line(*points[:-1], (bx - 8 * dx, by - 8 * dy), colour=colour, dashed=dashed)
        corners = ((bx, by), (bx - 9 * dx - 4 * dy, by - 9 * dy + 4 * dx),
                   (bx - 9 * dx + 4 * dy, by - 9 * dy - 4 * dx))
        path = "L".join(f"{number(x)} {number(y)}" for x, y in corners)
        self.parts.append(f'<path d="M{path}Z" fill="{colour}"/>')

    def area(self, path, colour, fill):
        """An area with any outline, as the d of a path."""
        self.parts.append(f'<path d="{path}" fill="{colour}" fill-opacity="{fill:g}" '
                          f'stroke="{colour}"/>')

    def text(self, x, y, words, colour=GREY, anchor="start", size=13, bold=False):
        """One line of text; y is its base line."""
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}" fill="{colour}" '
                          f'text-anchor="{anchor}" font-size="{size}"{weight}>'
                          f"{escape(words)}</text>")

    def lines(self, x, y, words, step=17, **how):
        for i, line in enumerate(words):
            self.text(x, y + i * step, line, **how)

    def svg(self):
        return self.head + "\n".join(self.parts) + "\n</svg>\n"


# --- a head, tracks, bands and guards --------------------------------------------------------

def head():
    """Tracks from above: what a head of two tracks destroys on a shingled disk, and what a head
    destroys on an interlaced one."""
    p = Picture(760, 372, "What a head covers",
                "Left, a shingled disk: a head two tracks wide writes a block of one track and "
                "destroys the block beside it on the next track; behind the last track of a band "
                "the head covers a guard, which holds nothing. Right, an interlaced disk: writing "
                "a bottom track destroys the blocks beside it on both top tracks; writing a top "
                "track destroys nothing.")
    size, left = 24, 96

    def track(x, y, name, height, colour=GREY, fill=0.0, dashed=False, blocks=8):
        for i in range(blocks):
            p.box(x + i * size, y, size, height, colour, fill, dashed)
        p.text(x - 8, y + height / 2 + 5, name, anchor="end")

    p.text(left + 96, 20, "shingled: head of 2 tracks", anchor="middle", bold=True)
    top, high = 52, 26
    for i, name in enumerate(("track 0", "track 1", "track 2", "track 3")):
        track(left, top + i * high, name, high, BLUE, 0.12)
    track(left, top + 4 * high, "guard", high, GREY, 0.0, dashed=True)
    for i, name in enumerate(("track 0", "track 1")):
        track(left, top + (5 + i) * high, name, high, BLUE, 0.12)
    edge = left + 8 * size + 10
    for first, last, name in ((0, 3, "band A"), (5, 6, "band B")):
        a, b = top + first * high + 2, top + (last + 1) * high - 2
        p.line((edge, a), (edge + 6, a), (edge + 6, b), (edge, b))
        p.text(edge + 12, (a + b) / 2 + 5, name)
    # One write within the band, one at its end.
    for column, row, beside in ((2, 1, ORANGE), (5, 3, GREY)):
        x, y = left + column * size, top + row * high
        p.box(x, y, size, high, BLUE, 0.75)
        p.box(x, y + high, size, high, beside, 0.75 if beside == ORANGE else 0.0)
        p.box(x - 3, y - 3, size + 6, 2 * high + 6, GREY, 0.0, thick=2.4)
    y = top + 7 * high + 24
    p.lines(left - 84, y, ("Tracks are written from 0 on. The head writes a",
                           "block and destroys the one beside it on the",
                           "next track. Behind the last track of a band it",
                           "covers a guard, so band B is not touched."))

    left = 500
    p.text(left + 96, 20, "interlaced: bottoms and tops", anchor="middle", bold=True)
    y, places = 52, []
    for i in range(7):
        high = 18 if i % 2 else 32
        if i % 2:
            track(left, y, f"top {i}", high, BLUE, 0.12)
        else:
            track(left, y, f"bottom {i}", high, BLUE, 0.12)
        places.append((y, high))
        y += high
    # A bottom destroys parts of two tops; a top nothing.
    x = left + 2 * size
    for i in (1, 3):
        p.box(x, places[i][0], size, places[i][1], ORANGE, 0.75)
    p.box(x, places[2][0], size, places[2][1], BLUE, 0.75)
    p.box(x - 3, places[1][0] - 3, size + 6,
          places[3][0] + places[3][1] - places[1][0] + 6, GREY, 0.0, thick=2.4)
    x = left + 5 * size
    p.box(x, places[5][0], size, places[5][1], BLUE, 0.75)
    p.box(x - 3, places[5][0] - 3, size + 6, places[5][1] + 6, GREY, 0.0, thick=2.4)
    y = 52 + 7 * 26 + 24
    p.lines(left - 84, y, ("Writing a bottom destroys what lies beside it",
                           "on both tops; they have to be saved before",
                           "and written again. Writing a top destroys",
                           "nothing."))
    y = 354
    for x, colour, fill, words in ((12, BLUE, 0.12, "data"), (92, BLUE, 0.75, "written now"),
                                   (216, ORANGE, 0.75, "destroyed by it"),
                                   (368, GREY, 0.0, "the head")):
        p.box(x, y - 12, 16, 14, colour, fill, thick=2.4 if words == "the head" else 1)
        p.text(x + 24, y, words)
    return p


# --- a cleaning step of stl-set --------------------------------------------------------------

def clean():
    """The two steps of stl-set, with their sources, destinations and the current copy."""
    p = Picture(760, 400, "Cleaning a band in stl-set",
                "Step 1, stage: the band and its cached blocks are read and written to the staging "
                "band, the data are flushed, a record says that the staging band holds the band. "
                "Step 2, write back: the staging band is copied to the native place, flushed, and "
                "a record says that the band is at its native place. Before the first record the "
                "native place and the cache are current, between the two the staging band, after "
                "the second the native place.")
    size, high = 30, 30

    def row(x, y, cells):
        for i, (name, kind) in enumerate(cells):
            colour, fill = {"old": (BLUE, 0.12), "new": (ORANGE, 0.3), "stale": (GREY, 0.0),
                            "other": (GREY, 0.12)}[kind]
            p.box(x + i * size, y, size, high, colour, fill, dashed=kind == "stale")
            p.text(x + i * size + size / 2, y + 20, name, anchor="middle",
                   colour=ORANGE if kind == "new" else GREY, size=12)

    native = [(f"a{i}", "old") for i in range(8)]
    result = [(f"a{i}", "new" if i in (1, 4, 6) else "old") for i in range(8)]
    cached = [("a4", "stale"), ("b2", "other"), ("a1", "new"), ("a4", "new"), ("c0", "other"),
              ("a6", "new")]
    p.text(20, 24, "band a at its native place", bold=True)
    row(20, 34, native)
    p.text(310, 24, "cache band", bold=True)
    row(310, 34, cached)
    # Both flow into the staging band.
    p.text(150, 172, "staging band", bold=True, anchor="end")
    row(160, 152, result)
    p.arrow((140, 66), (140, 104), (235, 104), (235, 150), colour=BLUE)
    for i, (_, kind) in enumerate(cached):
        if kind == "new":
            p.line((310 + (i + 0.5) * size, 66), (310 + (i + 0.5) * size, 104), colour=ORANGE)
    p.arrow((310 + 5.5 * size, 104), (325, 104), (325, 150), colour=ORANGE)
    p.text(150, 288, "band a at its", bold=True, anchor="end")
    p.text(150, 305, "native place", bold=True, anchor="end")
    row(160, 276, result)
    p.arrow((280, 184), (280, 274), colour=BLUE)
    p.line((562, 16), (562, 316), dashed=True)
    for y, words in ((24, ("current: native place", "and, over it, cache")),
                     (180, ("current: staging band",)), (308, ("current: native place",))):
        p.lines(578, y, words)
    for y, name, words in ((84, "1 stage", ("read both, write,", "flush, record")),
                           (224, "2 write back", ("copy, flush, record",))):
        p.text(578, y, name, bold=True)
        p.lines(578, y + 18, words)
    for y in (156, 286):
        p.line((552, y), (572, y), colour=ORANGE, thick=3)
        p.text(578, y + 5, "record", colour=ORANGE)
    p.lines(20, 350, (
        "A power cut leaves the state that the last durable record names.  Between the records the",
        "write back is repeated.  From the first record on, all slots of band a in the cache band",
        "are stale, as the dashed one was before."))
    return p


# --- a comb: imr -----------------------------------------------------------------------------

def comb():
    """Tracks of an interlaced disk in cross-section, and the order in which an epoch writes."""
    p = Picture(760, 436, "The order of a merged rewrite",
                "A cross-section of the tracks 0 to 11, even ones bottoms, odd ones tops. In time "
                "from above: tops 1, 3 and 5 are copied to backup slots; F1; bottoms 2 and 4 are "
                "written; F2; tops 1, 3 and 5 are restored; F3; the new bottoms 8 and 10 are "
                "written; F4; the new tops 9 and 11 are written; F5.")
    left, pitch, tracks = 146, 45, 12
    right = left + tracks * pitch
    centre = [left + i * pitch + pitch / 2 for i in range(tracks)]
    p.text(left, 24, "tracks side by side, in cross-section; dashed ones hold nothing yet")
    p.text(12, 58, "tops", bold=True)
    p.text(12, 84, "bottoms", bold=True)
    for i in range(tracks):
        x, y, wide, colour = (centre[i] - 38, 66, 76, BLUE) if i % 2 == 0 else \
            (centre[i] - 22, 40, 44, GREY)
        p.box(x, y, wide, 26, colour, 0.12 if i < 7 else 0.0, dashed=i >= 7)
        p.text(centre[i], y + 18, str(i), anchor="middle")
    # Time runs downwards.
    y = 118
    for sync, (words, mark, of, colour) in enumerate((
            ("save the tops", "K", (1, 3, 5), GREY), ("write the bottoms", "W", (2, 4), ORANGE),
            ("restore the tops", "r", (1, 3, 5), BLUE), ("write new bottoms", "W", (8, 10), ORANGE),
            ("write new tops", "W", (9, 11), ORANGE)), 1):
        p.text(12, y + 18, words)
        for i in of:
            p.box(centre[i] - 19, y, 38, 26, colour, 0.12 if colour == GREY else 0.3)
            p.text(centre[i], y + 18, f"{mark}{i}", anchor="middle", colour=colour)
        p.line((12, y + 37), (right, y + 37), dashed=True)
        p.text(right + 12, y + 42, f"F{sync}", bold=True)
        y += 52
    p.lines(12, y + 14, (
        "K copies a top to a backup slot, W writes a track, r restores a top, F is a sync.",
        "Bottoms 2 and 4 both destroy top 3, which is saved and restored once: merging saves that.",
        "The tops beside bottoms 8 and 10 hold nothing yet, so these need no rewrite."))
    return p


# --- two buffers divided by angle: dualbuffer ------------------------------------------------

def angle():
    """The parts of the cache of dualbuffer, as they lie on the disk and from round to round."""
    p = Picture(760, 380, "A cache divided by angle",
                "The cache of dualbuffer as a ring of tracks, divided by angle into three parts "
                "that follow each other: new, which takes this round's writes; FB_2, to which the "
                "blocks to be kept are copied at the end of the round; and FB_1, which holds the "
                "blocks kept from the last round. In the next round FB_2 is FB_1, new begins "
                "behind it, and the next FB_2 lies in front of it.")
    cx, cy, inner, outer = 165, 180, 60, 130

    def at(radius, degrees):
        return " ".join(number(v) for v in (cx + radius * math.cos(math.radians(degrees)),
                                            cy + radius * math.sin(math.radians(degrees))))

    def arc(radius, first, last, sweep=1):
        return f"A{number(radius)} {number(radius)} 0 {int(abs(last - first) > 180)} {sweep} " \
            f"{at(radius, last)}"

    def sector(first, last, colour, fill):
        p.area(f"M{at(outer, first)}{arc(outer, first, last)}L{at(inner, last)}"
               f"{arc(inner, last, first, 0)}Z", colour, fill)

    look = {"new": (GREY, 0.12), "FB_2": (ORANGE, 0.3), "FB_1": (BLUE, 0.3)}
    first = -90
    for name, share in (("new", 0.56), ("FB_2", 0.22), ("FB_1", 0.22)):
        colour, fill = look[name]
        last = first + 360 * share
        sector(first, last, colour, fill)
        middle = math.radians((first + last) / 2)
        p.text(cx + (inner + outer) / 2 * math.cos(middle),
               cy + (inner + outer) / 2 * math.sin(middle) + 5, name, anchor="middle", bold=True,
               colour=colour)
        first = last
    p.text(cx, 26, "the tracks of the cache", anchor="middle", bold=True)
    p.lines(cx, 336, ("A head destroys only blocks of the",
                      "columns that it writes: writes to FB_2",
                      "destroy nothing of FB_1 and new."), anchor="middle")

    left, width, high = 370, 374, 58
    p.text(left, 26, "unrolled: each column is an angle", bold=True)
    rounds = ((56, "round 1", ((0.56, "new", "writes of this round"),
                               (0.22, "FB_2", "empty"), (0.22, "FB_1", "kept before"))),
              (226, "round 2", ((0.34, "new", "empty"), (0.22, "FB_2", "empty"),
                                (0.22, "FB_1", "kept before"), (0.22, "new", "empty"))))
    for y, words, parts in rounds:
        p.text(left, y - 8, words)
        x = left
        for share, name, state in parts:
            p.box(x, y, share * width, high, *look[name])
            p.text(x + share * width / 2, y + 25, name, anchor="middle", bold=True,
                   colour=look[name][0])
            p.text(x + share * width / 2, y + 44, state, anchor="middle", size=11)
            x += share * width
    # The end of a round.
    y = 56 + high
    into = left + 0.67 * width
    for share in (0.28, 0.89):
        p.line((left + share * width, y), (left + share * width, y + 20), (into, y + 20),
               colour=ORANGE)
    p.arrow((into, y + 20), (into, y), colour=ORANGE)
    p.lines(left, y + 42, ("Hot blocks of new and FB_1 are copied to FB_2 at",
                           "the end, the others move to their native places."),
            colour=ORANGE)
    p.lines(left, 226 + high + 24, ("The old FB_2 is FB_1; new begins behind it.  M, the",
                                    "share of new columns, is predicted in each round."))
    return p


# --- the way of a bio ------------------------------------------------------------------------

def bio():
    """The files of core that a write passes, on its way to the device and back."""
    p = Picture(760, 508, "The way of a write through core",
                "A bio is mapped by target.c and io/bio.c. It waits in io/waiting.c if it finds no "
                "room or an obstacle. With a write cache it is copied into io/wcache.c and written "
                "later by io/destage.c. map/place.c asks the engine for a place and checks rule "
                "R0, medium/order.c checks rule R1, then the device writes the block. After that "
                "io/bio.c completes a write without FUA; the engine changes its map, "
                "log/journal.c takes the records, and a commit completes FLUSH and FUA.")

    def room(x, y, width, name, words, colour=BLUE):
        p.box(x, y, width, 46, colour, 0.12)
        p.text(x + width / 2, y + 19, name, anchor="middle", bold=True, colour=colour)
        p.text(x + width / 2, y + 36, words, anchor="middle", size=12)

    p.text(110, 28, "on the way to the device", anchor="middle", bold=True)
    p.text(596, 28, "when the device has written", anchor="middle", bold=True)
    room(20, 46, 180, "target/target.c", ".map, from device mapper")
    p.arrow((110, 92), (110, 130))
    room(20, 130, 180, "io/bio.c", "which way?")
    p.arrow((110, 176), (110, 256))
    room(20, 256, 180, "map/place.c", "finds the place; R0")
    p.arrow((110, 302), (110, 340))
    room(20, 340, 180, "medium/order.c", "R1: held back if need be")
    p.arrow((110, 386), (110, 424))
    p.box(20, 424, 676, 36, GREY, 0.0)
    p.text(358, 447, "the device", anchor="middle")

    # Only some writes.
    room(262, 90, 190, "io/waiting.c", "no room, or an obstacle", GREY)
    room(262, 166, 190, "io/wcache.c, destage.c", "if there is a write cache", GREY)
    p.arrow((200, 144), (235, 144), (235, 113), (262, 113), dashed=True)
    p.arrow((200, 162), (235, 162), (235, 189), (262, 189), dashed=True)
    p.arrow((357, 212), (357, 270), (200, 270), dashed=True)
    p.line((452, 113), (468, 113), (468, 240), (357, 240), dashed=True)
    room(262, 298, 190, "the engine", "map.place(), map.commit()", ORANGE)
    p.arrow((200, 288), (235, 288), (235, 321), (262, 321), colour=ORANGE)

    # The way back.
    p.arrow((596, 424), (596, 386))
    room(516, 340, 160, "io/bio.c", "shingle_end_io()")
    p.arrow((596, 340), (596, 302))
    room(516, 256, 160, "map/place.c", "shingle_write_done()")
    p.arrow((516, 279), (484, 279), (484, 321), (452, 321), colour=ORANGE)
    p.arrow((596, 256), (596, 214))
    room(516, 168, 160, "log/journal.c", "collects the records")
    p.arrow((596, 168), (596, 126), dashed=True)
    room(516, 80, 160, "a commit", "flush, then records")
    for y, words in ((103, "FUA"), (363, "others")):
        p.arrow((676, y), (744, y))
        p.text(684, y - 6, words, size=12)
    p.lines(20, 480, ("Solid: every write.  Dashed: some.  Orange: calls of the engine, under the "
                      "map lock.  To the right:", "the write is completed; one that the write "
                      "cache takes is completed as soon as it is copied."), size=12)
    return p


PICTURES = {"head": head, "clean": clean, "comb": comb, "angle": angle, "bio": bio}


def main(folder):
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
