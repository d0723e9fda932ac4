# SPDX-License-Identifier: GPL-2.0
"""In a guest, for scripts/shows/torn: the table of power cuts.

    torn.py CUTS SEED

The cuts and the judgement are those of tests/guest/torn.py."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/guest"))

# pylint: disable=wrong-import-position,import-error
import bench
import dm
import torn
from targets import TARGETS

KINDS = (
    ("stl-set", (), "stl-set, staged"),
    ("stl-set", ("inplace",), "stl-set, inplace"),
    ("stl-full", (), "stl-full"),
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


def column(pool, name, features, count, seed):
    """[(text of the row, hard errors, wrong)]"""
    ctx, out = bench.Context(pool, TARGETS[name], {}), []
    geo = ctx.target.geometry("torn")[0]
    for at, place, _, hard, wrong in torn.cuts(ctx, geo, features, False,
                                               count, seed):
        out.append((f"{at:5} {place:26}{len(hard) or '-':>6}", hard, wrong))
    dm.remove_all()
    pool.reset()
    return out


def main():
    count, seed = map(int, sys.argv[1:])
    for module in ("dm-shingle", "dm-stl", "dm-platter"):
        bench.modprobe(module)
    pool = bench.Pool()
    figure(pool)
    columns = [column(pool, name, features, count, seed)
               for name, features, _ in KINDS]
    print("\nThe power fails when so many blocks were written; the last one was "
          "there; blocks that are\nmedium errors then (each predicted by the "
          "geometry, each mended by writing it)\n")
    print("     " + "  ".join(f"{title:{WIDTH}}"
                              for _, _, title in KINDS).rstrip())
    print("cut  " + "  ".join(f"{'after':>5} {'the last one':26}errors"
                              for _ in KINDS))
    for i in range(max(map(len, columns))):
        print(f"{i + 1:3}  " + "  ".join(
            f"{c[i][0] if i < len(c) else '':{WIDTH}}"
            for c in columns).rstrip())
    print("\ntotal")
    good = True
    for (_, features, title), rows in zip(KINDS, columns):
        hit = sum(bool(hard) for _, hard, _ in rows)
        hard = sum(len(hard) for _, hard, _ in rows)
        wrong = sum((wrong for _, _, wrong in rows), [])
        print(f"  {title:18}{len(rows):3} cuts, {hit:2} with medium errors "
              f"({hard} blocks), {len(wrong)} readable blocks that hold what "
              "they must not")
        for sentence in wrong[:5]:
            print(f"    {sentence}")
        good &= not wrong and bool(hit) == bool(features)
    print("so it must be" if good else "THAT IS NOT what it must be")
    return 0 if good else 1


sys.exit(main())
