# SPDX-License-Identifier: GPL-2.0
"""Tests of the targets in the simulated kernel, under AddressSanitizer."""

import datetime
import re
import subprocess

import pytest
from programs import TOP, make

PROGRAM = TOP / "build/tests/shingle-explore"
LAYERS = ["stl-set", "stl-set-flat", "stl-full", "stl-log", "stl-log-home", "imr", "tiler",
          "dualbuffer", "rmwf"]
# A fresh seed each day; the report of a failure has it.
TODAY = int(datetime.date.today().strftime("%Y%m%d")) * 1000


@pytest.fixture(scope="module", autouse=True)
def built():
    make("tests", "toys", "simulation")


def explore(*args):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True,
                          timeout=1800, check=False)


def counts(done):
    """Return the runs, cuts, decisions and requests of each layer in the output."""
    rows = re.findall(r"^(\S+) +(\d+) runs +(\d+) cuts +(\d+) decisions +(\d+) requests",
                      done.stdout, re.M)
    return {row[0]: [int(word) for word in row[1:]] for row in rows}


def test_all_layers_are_explored():
    """The list of layers here is the program's."""
    assert explore("--list").stdout.split() == LAYERS


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_survives(layer):
    """No run loses acknowledged data, hangs, leaks, or touches memory that is not its own."""
    done = explore("--layer", layer, "--seed", TODAY, "--runs", 8)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    runs, cuts, decisions, requests = counts(done)[layer]
    assert runs == 8 and cuts == 8 * 23 and decisions > 50000 and requests > 3000


@pytest.mark.parametrize("more", [[], ["--drops"]], ids=["keeps", "drops"])
@pytest.mark.parametrize("layer", LAYERS)
def test_layer_survives_errors_of_disks(layer, more):
    """Disks that fail reads, writes and flushes, or vanish, and caches that drop what they have: no
    read returns what it must not, and no loss is silent."""
    done = explore("--layer", layer, "--seed", TODAY, "--runs", 16, "--faults", *more)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    runs, cuts, decisions, requests = counts(done)[layer]
    assert runs == 16 and cuts > 30 and decisions > 20000 and requests > 3000
    assert int(re.search(r"(\d+) errors", done.stdout)[1]) > 300


def test_a_seed_gives_the_same_run():
    """Two processes make the same decisions, also if one of them prints every tracepoint."""
    first = explore("--layer", "stl-log", "--seed", 5, "--runs", 2)
    second = explore("--layer", "stl-log", "--seed", 5, "--runs", 2, "--trace")
    other = explore("--layer", "stl-log", "--seed", 6, "--runs", 2)
    assert counts(first)["stl-log"] == counts(second)["stl-log"] != counts(other)["stl-log"]
    assert "event shingle_place: " in second.stdout and "event" not in first.stdout


@pytest.mark.parametrize("layer, feature", [
    ("stl-set", "unsafe_bypass"), ("stl-set", "inplace"), ("tiler", "unsafe_inplace"),
    ("imr", "unsafe_order"), ("dualbuffer", "unsafe_switch"), ("rmwf", "unsafe_pointer")])
def test_missing_protection_is_found(layer, feature):
    """Runs of a layer without one of its protections lose data, and the program finds it."""
    done = explore("--layer", layer, "--runs", 150, "--feature", feature)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"fails: (a read of \d+ blocks at \d+ fails|block \d+ has version)",
                     done.stdout), done.stdout


def test_shrink_finds_a_smaller_run():
    """A failure of a long run is repeated by a run with fewer boots and requests."""
    done = explore("--layer", "stl-set", "--runs", 150, "--feature", "inplace", "--shrink")
    again = re.search(r"^smaller: .*\nagain: shingle-explore (.*)$", done.stdout, re.M)
    assert done.returncode == 1 and again, done.stdout + done.stderr
    words = again[1].split()
    assert int(words[words.index("--boots") + 1]) * int(words[words.index("--ops") + 1]) < 24 * 400
    repeated = explore(*words)
    assert repeated.returncode == 1 and "fails: a read of" in repeated.stdout


def test_mutations_apply():
    """Each fault that the program is known to find can still be put into the tree."""
    mutate = TOP / "tests/simulation/mutate"
    done = subprocess.run([mutate, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(re.fullmatch(r"(\d+) mutations apply\n", done.stdout)[1]) >= 100
    done = subprocess.run([mutate, "--check", "--only", "no-such"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and done.stderr == "there is no mutation no-such\n"


def test_bad_options_are_refused():
    """A layer that does not exist, and an option that does not, are errors of usage."""
    done = explore("--layer", "stl-nothing")
    assert done.returncode == 2 and "there is no layer 'stl-nothing', see --list" in done.stderr
    assert explore("--no-such-option").returncode == 2
    assert explore("--help").stdout.startswith("Usage: shingle-explore")
