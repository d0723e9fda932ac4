# SPDX-License-Identifier: GPL-2.0
"""Unit tests of scripts/src/experiments/demo.py. The last
part of the demo checks a store after a power cut. It must find every fault, and must find none in a
store that has kept all acknowledged writes."""

import os
import random
import subprocess

import pytest
from experiments import promises
from programs import TOP, make

KVBENCH = TOP / "build/userspace/kvbench"
KV = TOP / "build/userspace/kv"
ACKED = 300


def call(tool, *args, **more):
    return subprocess.run([str(tool), *map(str, args)], check=True,
                          stdout=subprocess.PIPE, **more).stdout


@pytest.fixture(scope="module", name="promised")
def make_promises():
    make("userspace/kvbench")
    make("userspace/kv")
    return promises.Promises(KVBENCH, 5)


@pytest.fixture(scope="module", name="store")
def make_store(promised, tmp_path_factory):
    """Return (log, scan) of a store on a plain file after @promised's operations up to ACKED of the
    last round."""
    folder = tmp_path_factory.mktemp("store")
    path, log = folder / "store", folder / "log"
    path.touch()
    os.truncate(path, 128 << 20)
    call(KV, "format", "--band", "2M", path)
    *loads, last = promised.loads
    for load in loads:
        call(KVBENCH, *load.words, "--device", path)
    words = list(last.words)
    words[words.index("-n") + 1] = str(ACKED)
    call(KVBENCH, *words, "--device", path, "--log", log)
    return log.read_text(), call(KV, "scan", path)


def judged(promised, store, change=lambda pairs: None, short=0):
    """Judge the store after changes. @change modifies the scanned pairs. The last @short
    operations are removed from the log, as if they had not been acknowledged."""
    log, text = store
    pairs = dict(line.split(b"\t") for line in text.splitlines())
    change(pairs)
    lines = log.splitlines()
    return promised.judge("\n".join(lines[:len(lines) - short]),
                          b"".join(k + b"\t" + v + b"\n" for k, v in pairs.items()))


def states(promised, n):
    """Return the expected state after the first @n operations of the last round."""
    state = promised.before_last()
    for op in promised.ops[-1][:n]:
        promises.step(state, promised.loads[-1], op)
    return state


def test_load_overwrites_and_deletes(promised):
    """The load contains what a faulty store could get wrong: values that grow in each round,
    deletions that last, and deleted keys that return."""
    assert len(promised.record) == promises.RECORDS
    sizes = [load.value_bytes for load in promised.loads]
    assert sizes == sorted(set(sizes))
    for ops in promised.ops[1:]:
        kinds = [kind for kind, _ in ops]
        assert kinds.count("update") > len(ops) / 2 and kinds.count("delete") > len(ops) / 20
    back = set()
    deleted = set()
    for each in promised.ops[1:-1]:
        for kind, key in each:
            if kind == "delete":
                deleted.add(key)
            elif kind == "update" and key in deleted:
                back.add(key)
    assert len(back) > 4 and len(set(promised.record) - set(promised.before_last())) > 10
    # The same seed gives the same load, and another seed another load.
    assert promises.Promises(KVBENCH, 5).ops == promised.ops
    assert promises.Promises(KVBENCH, 6).ops[1] != promised.ops[1]


def test_sound_store_passes(promised, store):
    """A sound store passes, and the numbers in the verdict are right."""
    verdict = judged(promised, store)
    assert not verdict.wrong
    assert verdict.keys == len(states(promised, ACKED))
    assert verdict.keys + verdict.gone == promises.RECORDS and verdict.gone > 10
    ops = [op for each in (*promised.ops[1:-1], promised.ops[-1][:ACKED]) for op in each]
    assert verdict.puts == sum(kind == "update" for kind, _ in ops)
    assert verdict.deletes == sum(kind == "delete" for kind, _ in ops)


def test_only_the_operation_in_flight_may_be_missing(promised, store):
    """The operation in flight at the power cut may be in the store or not. All others must be as
    acknowledged.

    The test removes acknowledgements from the log. With one removed, that operation is in flight
    and the store is right; with more, the store is wrong for each key for which the later
    operations make a difference."""
    seen = set()
    for short in range(1, 60):
        fewer, now = states(promised, ACKED - short), states(promised, ACKED)
        one = states(promised, ACKED - short + 1)
        differs = {k for k in {*fewer, *now} if now.get(k) not in (fewer.get(k), one.get(k))}
        verdict = judged(promised, store, short=short)
        assert len(verdict.wrong) == len(differs), short
        if short == 1:
            assert not verdict.wrong
        seen.add(verdict.under_way)
    assert {"a read", "one update, which is done", "one delete, which is done"} <= seen


def test_each_fault_is_reported_with_its_key(promised, store):
    """Each kind of fault is reported with its key. A right value in another spelling is no
    fault."""
    rng = random.Random(1)
    state = states(promised, ACKED)
    under_way = promised.ops[-1][ACKED][1]
    there = [k for k in rng.sample(sorted(state), 60) if k != under_way]
    gone = sorted(set(promised.record) - set(state) - {under_way})
    text = dict(line.split(b"\t") for line in store[1].splitlines())
    newest = max(load.value_bytes for load in promised.loads)
    updated = next(k for k in sorted(state) if state[k] == newest and k != under_way)

    def plain(key, size):
        return "".join(f"\\x{b:02x}" for b in
                       promises.value(promised.record[key], size)).encode()

    def one(key, value, word):
        verdict = judged(promised, store, lambda pairs: pairs.pop(key.encode(), None)
                         if value is None else pairs.update({key.encode(): value}))
        assert len(verdict.wrong) == 1 and verdict.wrong[0] == f"{key} {word}", verdict.wrong

    one(there[0], None, "IS LOST")
    one(gone[0], plain(gone[0], promises.VALUE), "WAS DELETED AND IS BACK")
    one(updated, plain(updated, newest - 8), f"has an old value, of {newest - 8} bytes")
    one(there[1], text[there[2].encode()], "has a value that nobody wrote")
    one(there[3], plain(there[3], state[there[3]])[:-4] + rb"\x2a",
        "has a value that nobody wrote")
    one("user1", b"x", "was never written")
    verdict = judged(promised, store, lambda pairs: pairs.update(
        {there[4].encode(): plain(there[4], state[there[4]])}))
    assert not verdict.wrong


def test_log_of_other_operations_is_refused(promised, store):
    """A log that does not match the expected operations would make the verdict meaningless."""
    log, text = store
    with pytest.raises(ValueError, match="operation 0 is"):
        promised.judge("\n".join(log.splitlines()[1:]), text)
