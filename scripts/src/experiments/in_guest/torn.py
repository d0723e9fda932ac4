# SPDX-License-Identifier: GPL-2.0
"""The guest's part of torn: the table of power cuts.

  torn.py CUTS SEED

The cuts and the judgement are those of tests/guest/torn.py.
"""

import sys

from guest import bench, dm, torn
from guest.targets import TARGETS

# Columns side by side: cleaned bands, then streams that bypass the cache.
KINDS = (
    (("stl-set", (), "torn", "stl-set, staged"),
     ("stl-set", ("inplace",), "torn", "stl-set, inplace"),
     ("stl-full", (), "torn", "stl-full")),
    (("stl-set", (), "streams", "streams, staged"),
     ("stl-set", ("unsafe_bypass",), "streams", "streams, unsafe_bypass")),
)
WIDTH = 38


def figure(pool):
    ctx = bench.Context(pool, None, {})
    print("Skylight, Figure 2.23: 3 tracks of 4,000 sectors, head 1.5 tracks, "
          "skew 1,000 sectors")
    torn.figure(ctx)
    for note in ctx.notes:
        print(f"  {note}")
    dm.remove_all()
    pool.reset()


def column(pool, name, features, what, count, seed):
    """Return [(text of the row, hard errors, wrong)]."""
    ctx, out = bench.Context(pool, TARGETS[name], {}), []
    geo, = (g for g in ctx.target.geometry("torn") if g.name == what)
    for at, place, _, hard, wrong in torn.cuts(ctx, geo, features, False,
                                               count, seed):
        out.append((f"{at:5} {place:26}{len(hard) or '-':>6}", hard, wrong))
    dm.remove_all()
    pool.reset()
    return out


def table(titles, columns):
    print("     " + "  ".join(f"{title:{WIDTH}}" for title in titles).rstrip())
    print("cut  " + "  ".join(f"{'after':>5} {'the last one':26}errors"
                              for _ in titles))
    for i in range(max(map(len, columns))):
        print(f"{i + 1:3}  " + "  ".join(
            f"{c[i][0] if i < len(c) else '':{WIDTH}}"
            for c in columns).rstrip())
    print()


def main():
    count, seed = map(int, sys.argv[1:])
    for module in ("dm-shingle", "dm-stl", "dm-platter"):
        bench.modprobe(module)
    pool = bench.Pool()
    figure(pool)
    print("\nThe power fails after this number of written blocks; the last one was "
          "there; blocks that are\nmedium errors then (each predicted by the "
          "geometry, each repaired by writing it)\n")
    totals = []
    for kinds in KINDS:
        columns = [column(pool, name, features, what, count, seed)
                   for name, features, what, _ in kinds]
        totals += [(title, features, rows) for (_, features, _, title), rows in
                   zip(kinds, columns)]
        table([title for *_, title in kinds], columns)
    print("total")
    good = True
    for title, features, rows in totals:
        hit = sum(bool(hard) for _, hard, _ in rows)
        hard = sum(len(hard) for _, hard, _ in rows)
        wrong = sum((wrong for _, _, wrong in rows), [])
        print(f"  {title:24}{len(rows):3} cuts, {hit:2} with medium errors "
              f"({hard} blocks), {len(wrong)} readable blocks that hold what "
              "they must not")
        for sentence in wrong[:5]:
            print(f"    {sentence}")
        good &= not wrong and bool(hit) == bool(features)
    print("so it must be" if good else "THAT IS NOT what it must be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
