# SPDX-License-Identifier: GPL-2.0
"""Experiments refuse wrong options in one sentence, before they install, build or boot anything.  Options with lists."""

import subprocess

import pytest
from experiments import runner
from programs import TOP

REFUSED = {
    "confidence": (
        (("--drives", "0"), "--drives"),
        (("--drives=-3",), "--drives"),
        (("--seed=-1",), "--seed"),
    ),
    "flash": (
        (("--scale", "3"), "--scale 3 does not divide 4096 rows"),
        (("--without", "RMW-F"), "all others are compared with RMW-F"),
    ),
    "imr": (
        (("--set", "foo"), "--set 'foo' is no KEY=VALUE"),
        (("--scale", "0"), "--scale 0 is less than 1"),
        (("--scale", "3", "--record", "3072"), "--scale is a power of 2 up to 512"),
        (("--scale", "3"), "--scale is a power of 2 up to 512"),
        (("--scale", "1024"), "--scale is a power of 2 up to 512"),
        (("--record", "0"), "--record 0 is less than 1"),
        (("--record", "96"), "files of 64 MB do not hold a whole number of records of 96 KiB"),
        (("--sizes", "x"), "--sizes: 'x' is no number from 1 on"),
        (("--sizes", "64,0"), "--sizes: '0' is no number from 1 on"),
        (("--seeds", ","), "--seeds: '' is no number from 0 on"),
        (("--seeds=-1",), "--seeds: '-1' is no number from 0 on"),
        (("--jobs", "0"), "--jobs 0 is less than 1"),
        (("--timeout", "0"), "--timeout 0 is less than 1"),
        (("--flush-us=-1",), "--flush-us -1 is less than 0"),
        (("--flush-us", "1000001"), "--flush-us 1000001 is more than a second"),
        (("--load", "0"), "--load 0 is less than 1"),
        (("--ops", "0", "--mix", "R50"), "--ops 0 is less than 1"),
        (("--ops", "5"), "--ops are those of a --mix"),
        (("--tracks", "2"), "--tracks 2 is less than 4"),
        (("--tracks", "5001"), "an even number is needed"),
        (("--schemes", "best"), "scheme 'best' is none of"),
        (("--set-up", "paper", "--scale", "32"), "the paper's drive cannot be divided"),
        (("--set-up", "paper", "--verify"), "the paper's drive cannot be divided"),
        (("--set-up", "paper", "--sizes", "32", "--record", "1024"),
         "files of 32 MB do not hold a whole number of records of 1024 KiB"),
    ),
    "kv": (
        (("--parts", "rivals,outside"),
         "--parts 'outside' is none of rivals, native, worst, inside, offload"),
        (("--drives", "imr"), "--drives 'imr' is none of conventional, stl-set, stl-full"),
        (("--scale", "7"), "--scale 7 is not from 8 to 160"),
        (("--scale", "161"), "--scale 161 is not from 8 to 160"),
        (("--drive-mib", "100"), "--drive-mib 100 is less than three times the records"),
        (("--cache", "7"), "--cache 7 is less than 8"),
        (("--rounds", "0"), "--rounds 0 is less than 1"),
        (("--puts", "999"), "--puts 999 is less than 1000"),
        (("--seed", "-1"), "--seed -1 is less than 0"),
    ),
    "kvimr": (
        (("--parts", "load,all"), "part 'all' is none of load, ways, sizes, mixes"),
        (("--seeds", "1,x"), "--seeds: 'x' is no number from 0 on"),
        (("--seeds", ","), "--seeds: '' is no number from 0 on"),
        (("--jobs", "0"), "--jobs 0 is less than 1"),
    ),
    "layers": (
        (("--scale", "3"), "--scale 3 does not divide 4096 rows"),
        (("--loads", "best"), "load 'best' is none of rsrch_0, "),
    ),
    "rebuild": (
        (("--drive-mib", "127"), "--drive-mib 127 is not from 128 to 768"),
        (("--drive-mib", "769"), "--drive-mib 769 is not from 128 to 768"),
        (("--per-s", "0"), "--per-s 0 is less than 1"),
        (("--limit", "0"), "--limit 0 is less than 1"),
        (("--seed", "-1"), "--seed -1 is less than 0"),
        (("--layers", "nonsense"), "invalid choice: 'nonsense'"),
        (("--loads", "heavy"), "invalid choice: 'heavy'"),
    ),
    "regions": (
        (("2",), "shows are 3, 4 and 5"),
        (("--scale", "0"), "--scale 0 does not divide 4096 rows"),
        (("--scale", "3"), "--scale 3 does not divide 4096 rows"),
        (("--dense", "0"), "--dense 0 is not from 1 to 100"),
        (("--dense", "101"), "--dense 101 is not from 1 to 100"),
        (("--requests", "0"), "--requests 0 is less than 1"),
        (("--timeout", "0"), "--timeout 0 is less than 1"),
        (("--seed=-1",), "--seed -1 is less than 0"),
        (("--loads", "rsrch_0,best"), "load 'best' is none of rsrch_0, "),
    ),
}


@pytest.mark.parametrize("name,args,sentence", [
    (name, *row) for name, rows in REFUSED.items() for row in rows])
def test_wrong_options_are_refused(name, args, sentence):
    done = subprocess.run([TOP / "scripts/experiments", name, *args], text=True,
                          capture_output=True, check=False, timeout=600)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"{name}: ")
    assert sentence in done.stderr


def test_what_is_said_twice_is_measured_once():
    """Values that an option repeats count once. Otherwise two guests would write the same file
    at a time, and one run would count as several in the statistics over seeds."""
    assert runner.number_list("3,1,3,03", 0, "--seeds:") == [3, 1]
    assert runner.name_list("seq,plain,seq", ("plain", "seq", "3phase"), "scheme") == ["seq", "plain"]


@pytest.mark.parametrize("text,sentence", (
    ("seq,best", "scheme 'best' is none of plain, seq"), ("", "scheme '' is none of plain, seq"),
    ("seq,", "scheme '' is none of plain, seq")))
def test_unknown_names(text, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        runner.name_list(text, ("plain", "seq"), "scheme")


@pytest.mark.parametrize("text,word", (("1,x", "x"), ("3,0", "0"), ("", ""), ("-1", "-1"), ("1,2.5", "2.5")))
def test_no_numbers(text, word):
    with pytest.raises(ValueError, match=f"^--sizes: '{word}' is no number from 1 on$"):
        runner.number_list(text, 1, "--sizes:")


def test_no_more_than_a_program_takes():
    """The largest number is that of 64 bits, which the programs accept."""
    assert runner.number_list(f"{2 ** 64 - 1}", 0, "--seeds:") == [2 ** 64 - 1]
    with pytest.raises(ValueError, match=f"^--seeds: '{2 ** 64}' is more than {2 ** 64 - 1}$"):
        runner.number_list(f"1,{2 ** 64}", 0, "--seeds:")
