# SPDX-License-Identifier: GPL-2.0
"""Run each known input of the kv fuzzers (tests/kv-fuzz) once. tests/kv-fuzz/fuzz searches for new
ones."""

import random
import re
import subprocess
import sys
import tarfile

import pytest
from programs import TOP

FUZZ = TOP / "tests/kv-fuzz"
# The least numbers of seeds that a store opens, and that a check finds sound. Without them a
# harness would pass if all its inputs were refused at once.
HARNESSES = {"table": (28, 8), "unsorted": (25, 7), "log": (23, 16), "bands": (34, 30),
             "formats": (0, 0)}


@pytest.fixture(scope="session", name="replay")
def build_replay():
    subprocess.run(["make", "-s", "-C", str(FUZZ)], check=True)
    return str(TOP / "build/tests/kv-fuzz")


@pytest.fixture(scope="session", name="seeds")
def make_seeds(tmp_path_factory):
    to = tmp_path_factory.mktemp("seeds")
    subprocess.run([sys.executable, str(FUZZ / "seeds"), str(to)], check=True)
    return to


def eaten(replay, harness, *what):
    """Run a harness over inputs. Return the number of inputs, of those that a store opened, and
    of those that a check found sound."""
    done = subprocess.run([replay, harness, *map(str, what)], check=False, timeout=300,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    print(done.stdout)
    found = re.fullmatch(r"\w+: (\d+) inputs, (\d+) opened, (\d+) clean\n", done.stdout)
    return [int(n) for n in found.groups()]


@pytest.mark.parametrize("harness", HARNESSES)
def test_seeds_are_accepted(replay, seeds, harness):
    """Stores made by seeds are accepted in the expected number."""
    inputs, opened, clean = eaten(replay, harness, seeds / harness)
    assert inputs == len(list((seeds / harness).iterdir())) >= 25
    assert opened >= HARNESSES[harness][0] and clean >= HARNESSES[harness][1]


@pytest.mark.parametrize("harness", HARNESSES)
def test_corpus_causes_no_error(replay, harness, tmp_path):
    """The inputs that libFuzzer has selected cause no error."""
    with tarfile.open(FUZZ / "corpus.tar") as corpus:
        corpus.extractall(tmp_path)
    inputs, _, _ = eaten(replay, harness, tmp_path / harness)
    assert inputs == len(list((tmp_path / harness).iterdir())) > 0


@pytest.mark.parametrize("harness", HARNESSES)
def test_mutated_seeds_cause_no_error(replay, seeds, harness, tmp_path):
    """Seeds with a few bytes changed, cut out or doubled cause no error. The changes are the
    same in each run."""
    rng = random.Random(harness)
    for seed in sorted((seeds / harness).iterdir()):
        for turn in range(3):
            data = bytearray(seed.read_bytes())
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data) + 1)
                some = rng.randint(1, 8)
                data[at:at + rng.choice((0, some, some))] = rng.choice((
                    b"", data[at:at + 2 * some], rng.randbytes(some),
                    bytes(some), b"\xff" * some))
            (tmp_path / f"{seed.name}-{turn}").write_bytes(data)
    eaten(replay, harness, tmp_path)
