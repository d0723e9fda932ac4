# SPDX-License-Identifier: GPL-2.0
"""scripts/src/experiments/evaluation.py: the speed of the last part of a load."""


import pytest
from experiments.evaluation import last_speed


def course(records, memtable, parts, seconds):
    """Return a course as shingle-levels reports it: the point of a part is where the memtable is
    full after that part."""
    ends = [*range(memtable, records, memtable), records]
    due = [next(end for end in ends if end * parts >= nr * records)
           for nr in range(1, parts + 1)]
    return {"record_bytes": 1 << 20,
            "points": [{"inserted": end, "seconds": seconds(end)} for end in due]}


def test_speed_of_the_last_75th_is_interpolated():
    """Points do not lie where the last 75th begins, so the speed is interpolated between two of
    them. With 75,000 records in memtables of 65, this is the paper's last million of 75."""
    def seconds(inserted):
        return inserted if inserted <= 73060 else 73060 + 2 * (inserted - 73060)
    of = course(75000, 65, 75, seconds)
    beside = [p["inserted"] for p in of["points"][-3:]]
    assert beside == [73060, 74035, 75000]
    # The records from 73,060 to 75,000 take 2 s each, those before 1 s.
    assert last_speed(of, 1 / 75) == pytest.approx((1 << 20) / 2)
    # The share of 1,000 records begins between two points: 35 take 2 s each, 965 take 4 s.
    of["points"][-2]["seconds"] = of["points"][-1]["seconds"] - 965 * 4
    of["points"][-3]["seconds"] = of["points"][-2]["seconds"] - 975 * 2
    assert last_speed(of, 1 / 75) == pytest.approx(1000 * (1 << 20) / (965 * 4 + 35 * 2))


def test_point_at_the_begin_of_a_share_is_not_interpolated():
    """With 76,800 records in memtables of 64, a point lies where the last 75th begins, and
    nothing is interpolated."""
    of = course(76800, 64, 75, lambda inserted: inserted + 3 * max(0, inserted - 75776))
    assert [p["inserted"] for p in of["points"][-2:]] == [75776, 76800]
    assert last_speed(of, 1 / 75) == pytest.approx((1 << 20) / 4)


def test_speed_of_the_whole_load():
    """The speed of the whole load, and of a share that begins before the second point."""
    of = course(1000, 65, 5, lambda inserted: 3 * inserted)
    assert last_speed(of, 1) == pytest.approx((1 << 20) / 3)
    assert last_speed(of, 0.9) == pytest.approx((1 << 20) / 3)
