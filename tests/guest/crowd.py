# SPDX-License-Identifier: GPL-2.0
"""Of writes there are always more than the layer has room for, and beside them somebody
asks for a clean: it is over when little has been cleaned for them meanwhile.

How much is little is no time but a count: of what was there when the clean was asked for,
as much again for the writes, who take turns with it, and what comes until it is noticed
that it is over."""

import errno
import os
import signal
import subprocess

import blk
import media
from bench import Skip, beside, expect, until
from model import stamp
from reset import Child
from targets import Geometry
from wcache import Slow

GEO = Geometry("crowded", band=60, data=40, cache=1, cache_band=400, meta="separate",
               journal=64, ckpt=64, options=(("commit_ms", 0),))
OTHERS = {  # Of a single set all there was is gone with the one that writes have cleaned.
          "stl-set": GEO.but(cache=4, cache_band=100),
          # Of the usual size the buffer would hold all of it.
          "imr": GEO.but(options=(*GEO.options, ("buffer_tracks", 4))),
          # Written lazily, where no head harms anything, regions would never be cleaned.
          "tiler": GEO.but(options=(*GEO.options, ("lazy", "off")))}
# More room than is written to.
HOT = {"stl-full": GEO.but(band=400, data=10, cache=10)}
HOT_WRITES, HOT_CLEANS = 5000, 20
# {target: (what it counts of cleaning or, where writes are gathered, of writing them; most)}
COUNTED = {"stl-set": (("sets_cleaned",), 400), "stl-full": (("bands_cleaned",), 2000),
           "imr": (("wcache_destages",), 200), "tiler": (("tiler_cleans",), 1000),
           "dualbuffer": (("rounds",), 200),
           "rmwf": (("collections", "collections_forced"), 1000)}
CLEANS = 20     # one may find a moment in which no write waits, and is over whatever the turns


def clean(ctx):
    if not os.path.exists("/usr/bin/fio"):
        raise Skip("no fio")
    made = media.stack(ctx, OTHERS.get(ctx.target.name, GEO), "ram")
    made.open()
    names, most = COUNTED[ctx.target.name]

    def done():
        stats = media.stats(made.device)
        return sum(stats[name] for name in names)

    # Ended by us: the time is there to end what hangs, and what does not let us look.
    with subprocess.Popen(["fio", "--name=crowd", f"--filename={made.device.path}",
                           "--rw=randwrite", "--bs=160k", "--direct=1", "--ioengine=libaio",
                           "--iodepth=256", "--numjobs=2", "--thread", "--time_based",
                           "--runtime=20"], stdout=subprocess.DEVNULL) as fio:
        until(lambda: done() > 10, "writes for which something is cleaned")
        took = [ask(made, done, most, fio) for _ in range(CLEANS)]
        fio.terminate()
    made.verify()
    made.close()
    # With the load it is over, too, and that is no turn of its own.
    expect(max(took) <= most, f"beside a clean {took} {' or '.join(names)} were")
    return {"beside": max(took)}


def ask(made, done, most, fio):
    """How much is cleaned until a clean is over, or more than the most."""
    began = done()
    with beside(lambda: made.device.message("clean")) as asked:
        until(lambda: not asked.is_alive() or done() - began > most,
              "a clean that ends, or much that is cleaned beside it")
        took = done() - began
        if took > most:
            fio.terminate()
    return took


def hot(ctx):
    """Some blocks are written all the time, and there is room for that: who waits until none
    of these writes is under way comes before those that wait for him."""
    if not os.path.exists("/usr/bin/fio"):
        raise Skip("no fio")
    slow = Slow(ctx, HOT.get(ctx.target.name, GEO), 2)
    made = slow.made

    def done():
        return media.stats(made.device)["host_writes"]

    with subprocess.Popen(["fio", "--name=hot", f"--filename={made.device.path}",
                           "--rw=randwrite", "--bs=4k", "--size=160k", "--direct=1",
                           "--ioengine=libaio", "--iodepth=4", "--numjobs=2", "--thread",
                           "--time_based", "--runtime=600"], stdout=subprocess.DEVNULL) as fio:
        took = 0
        for _ in range(HOT_CLEANS):
            began = done()
            until(lambda: done() - began > 500, "writes to clean")
            began = done()
            with beside(lambda: made.device.message("clean")) as asked:
                until(lambda: not asked.is_alive() or done() - began > HOT_WRITES,
                      "a clean that ends, or many writes beside it")
                over, took = not asked.is_alive(), max(took, done() - began)
                if not over:
                    fio.terminate()
            if not over:
                break
        fio.terminate()
    slow.close()
    expect(over, f"a clean was not over when {took} writes were")
    return {"beside": took}


class Asker(Child):
    """Asks for a clean, and waits for its end when this is made."""

    def __init__(self, device):
        def ask_for_one():
            # Else Python would wait for the end of it to say that it was interrupted.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            device.message("clean")

        self.code = None
        super().__init__(ask_for_one)
        until(lambda: self.over() or self.sleeps(), "somebody waits for a clean")
        expect(not self.over(), f"a clean ended with {self.code} while nothing goes on")

    def sleeps(self):
        """As who can only be killed does."""
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as handle:
            return handle.read().rpartition(")")[2].split()[0] == "D"

    def ended(self):
        if self.code is None:
            self.code = super().ended()
        return self.code

    def over(self):
        return self.ended() is not None

    def waits(self):
        """Not on its way: awake it looks, and sleeps again or ends."""
        until(lambda: self.over() or self.sleeps(), "somebody who is awake ends or sleeps")
        return not self.over()


class Together:
    """Writes stand still until they are let go, all that have come by then; in each band there
    is something to clean, and nobody cleans it but who asks for it."""

    def __init__(self, ctx):
        geo = OTHERS.get(ctx.target.name, GEO)
        self.slow = Slow(ctx, geo.but(options=(*geo.options, ("idle_ms", 0))), 0)
        self.device, geo = self.slow.made.device, self.slow.geo
        self.blocks = range(0, geo.logical, geo.band)
        for block in self.blocks:
            self.slow.write(block, 1)
        self.askers = []

    def __enter__(self):
        self.slow.stand_still()
        self.first = self.asker()
        until(self.slow.stand, "a clean has begun")
        return self

    def __exit__(self, *exc):
        self.slow.go_on()
        for asker in self.askers:
            if not asker.over():
                asker.kill()

    def asker(self):
        self.askers.append(Asker(self.device))
        return self.askers[-1]

    def cached(self):
        return int(self.device.status(noflush=True).split("/")[0])

    def let_go(self):
        """What stands, and then all waits for what stands next, or the first clean is over."""
        self.slow.stand_still()
        until(lambda: self.slow.stand() or self.first.over(), "something stands")

    def done(self):
        """All went on, and a clean has come to its end after the last write."""
        expect(not self.cached(), f"{self.cached()} blocks are cached after a clean")
        self.slow.close()


def together(ctx, sig):
    """Of three who ask for a clean one is killed, and each of the others waits for what there
    was when he asked, not for what came later."""
    with Together(ctx) as at:
        killed = at.asker()
        while at.first.waits() and at.cached() > len(at.blocks) // 4:
            at.let_go()
        # What he waits for is nearly over; as much again comes.
        queue = blk.Aio(at.slow.dev, len(at.blocks))
        for block in at.blocks:
            queue.write(block + 1, stamp(block + 1, 1), None)
        at.let_go()
        last = at.asker()
        expect(at.first.waits(), "the first clean is over before the last is asked for")
        os.kill(killed.pid, sig)
        until(killed.over, "who is killed ends, while all stands still")
        expect(killed.code == -sig, f"who was killed ended with {killed.code}")
        expect(at.first.waits() and last.waits(), "others end with who is killed")
        while at.first.waits():
            at.let_go()
        left = at.cached()
        expect(at.first.code == 0, f"the first clean ended with {at.first.code}")
        expect(last.waits() and left > len(at.blocks) // 4,
               f"who asked first has waited for what others asked for: {left} blocks are left")
        at.slow.go_on()
        last.end("the last clean")
        queue.close()
    at.done()
    return {"left": left}


def suspended(ctx):
    """Three wait for a clean, and a suspend interrupts them all."""
    with Together(ctx) as at:
        at.asker()
        at.asker()
        ctx.kernel()
        leaving = Child(at.device.suspend)
        for asker in at.askers:
            until(asker.over, "a clean gives way to a suspend, while all stands still")
            expect(asker.code == errno.EAGAIN, f"it ended with {asker.code}")
        expect(leaving.ended() is None, "it is suspended with I/O under way")
        said = [line for line in ctx.kernel() if "clean interrupted: a suspend came" in line]
        expect(len(said) == len(at.askers), said)
        at.slow.go_on()
        leaving.end("the suspend")
        at.device.resume()
        expect(at.cached(), "nothing is left to clean")
        at.slow.stand_still()
        again = [at.asker() for _ in at.askers[:]]
        at.slow.go_on()
        for asker in again:
            asker.end("a clean that is asked for again")
    at.done()


def cases(target, _options):
    out = [("a clean beside writes", clean)]
    # What is gathered is in memory, and nothing waits until it is written.
    if target.name != "imr":
        out.append(("a clean of what is written to", hot))
    # Elsewhere a block in each band is where it belongs, or one step cleans many.
    if target.name in ("stl-set", "dualbuffer"):
        out += [("one of three who ask for a clean is killed",
                 lambda c: together(c, signal.SIGKILL)),
                ("one of three is interrupted", lambda c: together(c, signal.SIGINT)),
                ("a suspend interrupts three", suspended)]
    return out
