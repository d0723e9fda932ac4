# SPDX-License-Identifier: GPL-2.0
"""The guest's part of "blocks" of kv, with the virtual clock: arrivals on one block
target, which cleans at times of its own.

  blocks.py WORDS OUT     WORDS is a file with a JSON object, see there

The same requests are sent three times, each time to a new, filled disk: by fio; by threads of this
program; and by these threads through a Diverter, with flash beside the target.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from guest import bench, blk
from guest.blk import BLOCK
from skylight.load import GLOBAL

from experiments.in_guest import stack
from experiments.evaluation import percentile

FILL = 256              # blocks
LOOK_S = .02


class Diverter:
    """A block target with flash beside it.

    A write goes to flash only if it comes while the target's status is "cleaning".  The block
    returns to the target when the target does not clean and no request has come for @quiet_s.  The
    table of diverted blocks is in memory only, because this class serves measurements and need not
    survive a crash.  Both devices have read(block) and write(block, data), for many threads.
    """

    def __init__(self, target, flash, slots, cleaning, quiet_s):
        self.target, self.flash, self.cleaning, self.quiet_s = target, flash, cleaning, quiet_s
        self.free, self.away = list(range(slots))[::-1], {}
        self.lock, self.claimed = threading.Condition(), set()
        self.last, self.turn = stack.now(), []
        self.diverted = self.returned = 0

    @contextlib.contextmanager
    def claim(self, block):
        """Exclude other threads from @block."""
        with self.lock:
            self.lock.wait_for(lambda: block not in self.claimed)
            self.claimed.add(block)
        try:
            yield
        finally:
            with self.lock:
                self.claimed.remove(block)
                self.lock.notify_all()

    def read(self, block):
        self.last = stack.now()
        with self.claim(block):
            slot = self.away.get(block)
            return self.target.read(block) if slot is None else self.flash.read(slot)

    def write(self, block, data):
        self.last = stack.now()
        with self.claim(block):
            slot = self._slot(block) if self.cleaning() else None
            if slot is None:
                self.target.write(block, data)
                self._home(block)
                return
            self.flash.write(slot, data)
            with self.lock:
                self.away[block] = slot
                self.diverted += 1

    def _slot(self, block):
        """Return the slot that @block has or gets; None if flash is full."""
        with self.lock:
            if block in self.away:
                return self.away[block]
            return self.free.pop() if self.free else None

    def _home(self, block):
        with self.lock:
            slot = self.away.pop(block, None)
            if slot is not None:
                self.free.append(slot)

    def bring_one(self):
        """Return the next block, in the order of the disk, to the target; False if flash is empty.
        """
        with self.lock:
            if not self.away:
                return False
            self.turn = self.turn or sorted(self.away, reverse=True)
            block = self.turn.pop()
        with self.claim(block):
            slot = self.away.get(block)
            if slot is not None:
                self.target.write(block, self.flash.read(slot))
                self._home(block)
                self.returned += 1
        return True

    def bring(self, end):
        """Return blocks to the target until @end is set, whenever the rule above allows it."""
        while not end.is_set():
            if self.cleaning() or stack.now() - self.last < self.quiet_s or \
                    not self.bring_one():
                time.sleep(LOOK_S)


class Opened:
    """A device opened once for each thread, because each thread needs its own buffer."""

    def __init__(self, path):
        self.path, self.own, self.all = path, threading.local(), []

    def _dev(self):
        if not hasattr(self.own, "dev"):
            self.own.dev = blk.Blk(self.path)
            self.all.append(self.own.dev)
        return self.own.dev

    def read(self, block):
        return self._dev().read(block)

    def write(self, block, data):
        self._dev().write(block, data)

    def close(self):
        for dev in self.all:
            dev.close()


def sent(due_s, blocks, threads, write):
    """Return for each write the seconds from its due time to its end, independent of earlier
    writes."""
    took, lock, at = [0.0] * len(due_s), threading.Lock(), iter(range(len(due_s)))
    data = b"\1" * BLOCK
    begin = stack.now()

    def one_by_one():
        while True:
            with lock:
                i = next(at, None)
            if i is None:
                return
            left = begin + due_s[i] - stack.now()
            if left > 0:
                time.sleep(left)
            write(blocks[i], data)
            took[i] = stack.now() - begin - due_s[i]
    some = [threading.Thread(target=one_by_one) for _ in range(threads)]
    for thread in some:
        thread.start()
    for thread in some:
        thread.join()
    return took


def requests(iolog):
    """Return (head, [line of a request], microseconds of the last) for a log of kvbench."""
    lines = Path(iolog).read_text(encoding="ascii").splitlines()
    body = [line for line in lines if line.split()[2:3] in (["write"], ["read"])]
    return lines[:3], body, lines[-1]


def split(iolog, folder, jobs):
    """Split a log into one for each of @jobs jobs of fio, request by request in turn; return the
    paths."""
    head, body, tail = requests(iolog)
    out = []
    for number in range(min(jobs, len(body))):
        out.append(Path(folder) / f"{number}.iolog")
        out[-1].write_text("\n".join([*head, *body[number::jobs], tail]) + "\n", encoding="ascii")
    return out


def by_fio(path, iolog, jobs):
    """Return fio's times, each from its own start of the request.  Several jobs are needed: one job
    with many requests in flight collects completions only when its queue is full."""
    with tempfile.TemporaryDirectory() as folder:
        keys = {**{k: v for k, v in GLOBAL.items() if k != "log_offset"}, "group_reporting": 1,
                "ioengine": "psync", "replay_redirect": path,
                "percentile_list": "50:99:99.9"}
        job = [f"{key}={value}" for key, value in keys.items()]
        for number, part in enumerate(split(iolog, folder, jobs)):
            job += [f"[j{number}]", f"read_iolog={part}"]
        (Path(folder) / "job").write_text("\n".join(["[global]", *job]) + "\n", encoding="ascii")
        said = subprocess.run(["fio", "--output-format=json", Path(folder) / "job"], check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
    (of,) = json.loads(said[said.index("{"):])["jobs"]
    if of["error"]:
        raise bench.Failure(f"fio ended with error {of['error']}")
    took = of["write"]["clat_ns"]
    return {"requests": of["write"]["total_ios"], "mean_ms": took["mean"] / 1e6,
            **{f"p{name}_ms": took["percentile"][f"{share:.6f}"] / 1e6 for name, share in (
                ("50", 50), ("99", 99), ("99_9", 99.9))}, "max_ms": took["max"] / 1e6}


def told(took):
    return {"requests": len(took), "mean_ms": 1000 * sum(took) / len(took),
            **{name: 1000 * percentile(took, share) for name, share in (
                ("p50_ms", .5), ("p99_ms", .99), ("p99_9_ms", .999))},
            "max_ms": 1000 * max(took)}


def fill(layer, blocks):
    """Write every block of the span, then have the layer move all of them to their native places.
    """
    with blk.opened(layer.path) as dev:
        for at in range(0, blocks, FILL):
            dev.write(at, b"\1" * (min(FILL, blocks - at) * BLOCK))
        dev.flush()
    layer.layer.message("clean")


def run(words, how):
    """Send all requests; @how is fio, threads or diverted."""
    layer = stack.Stack(words)
    fill(layer, words["span_blocks"])
    layer.clear()
    begin = stack.now()
    if how == "fio":
        out = by_fio(layer.path, words["load"], words["threads"])
    else:
        target, flash = Opened(layer.path), Opened("/dev/ram2")
        way = Diverter(target, flash, words["flash_blocks"] if how == "diverted" else 0,
                       lambda: layer.layer.status(True).split()[3] == "cleaning",
                       words["quiet_s"])
        end = threading.Event()
        back = threading.Thread(target=way.bring, args=(end,))
        back.start()
        fields = [line.split() for line in requests(words["load"])[1]]
        out = told(sent([int(f[0]) / 1e6 for f in fields],
                        [int(f[3]) // BLOCK for f in fields], words["threads"], way.write))
        end.set()
        back.join()
        out.update(diverted=way.diverted, returned=way.returned, left=len(way.away))
    out["seconds"] = stack.now() - begin
    # Statistics exclude what returns from flash afterwards.
    out["layer"], out["medium"] = layer.both()
    if how != "fio":
        begin = stack.now()
        while way.bring_one():
            pass
        out["home_s"] = stack.now() - begin
        for dev in (target, flash):
            dev.close()
    layer.remove()
    return out


def measure(words):
    return {"ways": {how: run(words, how) for how in words["ways"]}}


if __name__ == "__main__":
    sys.exit(stack.answered(measure))
