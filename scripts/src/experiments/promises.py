# SPDX-License-Identifier: GPL-2.0
"""The load of the stores in the demo's last act, and the check after the power cut.  The load is
deterministic, so the state after each operation is known, and the check can tell for each key
whether its value is right, lost, old, or deleted and back."""

import subprocess
from dataclasses import dataclass, field

RECORDS = 4000
VALUE = 1000            # bytes of a loaded value; each round has longer ones
ROUNDS = 3
OPS = 240               # in a round
LAST = 100000           # more than can end before the power cut
# YCSB A with deletions.
MIX = ("-w", "a", "-p", "readproportion=0.3", "-p", "updateproportion=0.6",
       "-p", "deleteproportion=0.1")
MASK = (1 << 64) - 1


@dataclass
class Load:
    """One run of kvbench: its words, and the bytes of the values that it writes."""
    words: list
    value_bytes: int


def loads(seed):
    """Yield the load of the records, then the rounds; the power cut comes in the last round."""
    yield Load(["load", "-r", str(RECORDS), "--value", f"{VALUE}B"], VALUE)
    for number in range(1, ROUNDS + 2):
        size = VALUE + 8 * number
        yield Load(["run", "-r", str(RECORDS), *MIX, "--seed", str(seed + number),
                    "-n", str(OPS if number <= ROUNDS else LAST), "--value", f"{size}B",
                    "--sync"], size)


def operations(kvbench, load):
    """Return [(kind, key)] from a dry run, which draws the operations without a store."""
    done = subprocess.run([str(kvbench), *load.words, "--dry-run"], check=True, text=True,
                          stdout=subprocess.PIPE)
    return [line.split()[:2] for line in done.stdout.splitlines()]


def step(state, load, op):
    kind, key = op
    if kind in ("insert", "update"):
        state[key] = load.value_bytes
    elif kind == "delete":
        state.pop(key, None)
    elif kind != "read":
        raise ValueError(f"nobody knows what {kind} leaves")


def value(record, size):
    """Return the value that kvbench generates: a chain of splitmix64's finalizer."""
    out, word = bytearray(), record
    while len(out) < size:
        word = (word + 0x9e3779b97f4a7c15) & MASK
        word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9 & MASK
        word = (word ^ word >> 27) * 0x94d049bb133111eb & MASK
        word ^= word >> 31
        out += word.to_bytes(8, "little")
    return bytes(out[:size])


def scanned(text):
    """Return {key: value}, in bytes, from the output of kv scan."""
    pairs = (line.split(b"\t", 1) for line in text.splitlines())
    return {key.decode(): data.decode("unicode_escape").encode("latin-1")
            for key, data in pairs}


def acknowledged(log, ops):
    """Return how many operations had ended, by kvbench's log of one thread."""
    lines = [line.split() for line in log.splitlines()]
    for number, (line, op) in enumerate(zip(lines, ops)):
        if line[:2] != [str(number), op[0]]:
            raise ValueError(f"operation {number} is {op[0]}, and the log has {line[:2]}")
    return len(lines)


@dataclass
class Verdict:
    """The acknowledged operations, and the errors after the cut."""
    puts: int = 0           # acknowledged after a sync
    deletes: int = 0
    keys: int = 0           # that must be there
    gone: int = 0           # that must not be there
    under_way: str = ""
    wrong: list = field(default_factory=list)

    def __str__(self):
        return (f"{self.puts} puts and {self.deletes} deletions had been acknowledged: all "
                f"{self.keys} keys are there with their last values, and none of the "
                f"{self.gone} that were deleted; under way was {self.under_way}")


class Promises:
    """The acknowledged state of a store before the last load, in which each operation counts
    singly."""

    def __init__(self, kvbench, seed):
        self.loads = list(loads(seed))
        self.ops = [operations(kvbench, load) for load in self.loads]
        self.record = {key: n for n, (_, key) in enumerate(self.ops[0])}
        self.reference = {}

    def before_last(self):
        state = {}
        for load, ops in zip(self.loads[:-1], self.ops[:-1]):
            for op in ops:
                step(state, load, op)
        return state

    def is_value(self, key, data):
        if key not in self.reference:
            longest = max(load.value_bytes for load in self.loads)
            self.reference[key] = value(self.record[key], longest)
        return self.reference[key].startswith(data)

    def judge(self, log, text):
        """Compare the output of kv scan after the cut with the acknowledged operations.  All of
        these must be there, and beyond them at most the one operation that was in flight."""
        found = scanned(text)
        last, ops = self.loads[-1], self.ops[-1]
        acked = acknowledged(log, ops)
        state = self.before_last()
        for op in ops[:acked]:
            step(state, last, op)
        kinds = [kind for each in [*self.ops[1:-1], ops[:acked]] for kind, _ in each]
        kind, key = ops[acked]
        then = dict(state)
        step(then, last, ops[acked])
        verdict = Verdict(kinds.count("update"), kinds.count("delete"), len(state),
                          len(set(self.record) - set(state)))
        for name in sorted({*found, *state}):
            why = self.amiss(name, found.get(name), {state.get(name), then.get(name)})
            if why:
                verdict.wrong.append(f"{name} {why}")
        done = state != then and then.get(key) == (len(found[key]) if key in found else None)
        verdict.under_way = "a read" if kind == "read" else \
            f"one {kind}, which is {'done' if done else 'not done'}"
        return verdict

    def amiss(self, key, data, may):
        """Return what is wrong with a key, or None.  @may are allowed lengths of values; None
        stands for no value."""
        if key not in self.record:
            return "was never written"
        if data is None:
            return None if None in may else "IS LOST"
        if may == {None}:
            return "WAS DELETED AND IS BACK"
        if not self.is_value(key, data):
            return "has a value that nobody wrote"
        if len(data) not in may:
            return f"has an old value, of {len(data)} bytes"
        return None
