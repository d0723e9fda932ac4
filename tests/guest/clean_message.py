# SPDX-License-Identifier: GPL-2.0
"""The message `clean` beside more writes than the layer has room for: the clean must end, although
the writes always leave something to clean.

The bound is a count, not a time.  It allows for what had to be cleaned when the clean was sent, for
as much on behalf of the writes, which take turns with it, and for what the target cleans until the
test notices the end.
"""

import errno
import os
import signal
import subprocess

from guest import blk
from guest import media
from guest.bench import Skip, beside, expect, until
from guest.model import stamp
from guest.reset import Child
from guest.targets import Geometry
from guest.wcache import Slow

GEO = Geometry("writes", band=60, data=40, cache=1, cache_band=400, meta="separate",
               journal=64, ckpt=64, options=(("commit_ms", 0),))
OTHERS = {  # Several sets: cleaning a single one for a write would complete the clean as well.
          "stl-set": GEO.but(cache=4, cache_band=100),
          # A buffer of the default size would hold the whole load.
          "imr": GEO.but(options=(*GEO.options, ("buffer_tracks", 4))),
          # Lazy writes destroy nothing, so that no region would need cleaning.
          "tiler": GEO.but(options=(*GEO.options, ("lazy", "off")))}
# More room than the load writes to.
HOT = {"stl-full": GEO.but(band=400, data=10, cache=10)}
HOT_WRITES, HOT_CLEANS = 5000, 20
# {target: (its counters of cleaning or of writing gathered data, the largest sum during a clean)}
COUNTED = {"stl-set": (("sets_cleaned",), 400), "stl-full": (("bands_cleaned",), 2000),
           "stl-log": (("bands_cleaned",), 2000),
           "imr": (("wcache_destages",), 200), "tiler": (("tiler_cleans",), 1000),
           "dualbuffer": (("rounds",), 200),
           "rmwf": (("collections", "collections_forced"), 1000)}
CLEANS = 20     # several, because a clean ends at once if no write waits just then


def clean(ctx):
    """Random writes always find the cache full, and each of CLEANS cleans ends within the bound of
    COUNTED."""
    if not os.path.exists("/usr/bin/fio"):
        raise Skip("no fio")
    made = media.stack(ctx, OTHERS.get(ctx.target.name, GEO), "ram")
    made.open()
    names, most = COUNTED[ctx.target.name]

    def done():
        stats = media.stats(made.device)
        return sum(stats[name] for name in names)

    # Ended by this test; --runtime bounds a hang.
    with subprocess.Popen(["fio", "--name=clean_message", f"--filename={made.device.path}",
                           "--rw=randwrite", "--bs=160k", "--direct=1", "--ioengine=libaio",
                           "--iodepth=256", "--numjobs=2", "--thread", "--time_based",
                           "--runtime=20"], stdout=subprocess.DEVNULL) as fio:
        until(lambda: done() > 10, "writes for which something is cleaned")
        took = [ask(made, done, most, fio) for _ in range(CLEANS)]
        fio.terminate()
    made.verify()
    made.close()
    # ask() ends the load when the bound is exceeded; a clean that ends then proves nothing.
    expect(max(took) <= most, f"beside a clean {took} {' or '.join(names)} were")
    return {"beside": max(took)}


def ask(made, done, most, fio):
    """Send a clean; return how much the target cleans until it ends.  Above @most, end the load
    and return that number."""
    began = done()
    with beside(lambda: made.device.message("clean")) as asked:
        until(lambda: not asked.is_alive() or done() - began > most,
              "a clean that ends, or much that is cleaned beside it")
        took = done() - began
        if took > most:
            fio.terminate()
    return took


def hot(ctx):
    """The host rewrites a few blocks all the time, and there is room for them.  A clean has to wait
    for writes in flight to its band; newer writes must wait behind it, or it would never end."""
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
    """A process that sends `clean`; the constructor returns when the message waits in the kernel.
    """

    def __init__(self, device):
        def ask_for_one():
            # Python's own handler would run only after the message has ended.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            device.message("clean")

        self.code = None
        super().__init__(ask_for_one)
        until(lambda: self.over() or self.sleeps(), "a request for a clean waits")
        expect(not self.over(), f"a clean ended with {self.code} while nothing goes on")

    def sleeps(self):
        """Return whether the process is in state D, in which a waiting message sleeps."""
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as handle:
            return handle.read().rpartition(")")[2].split()[0] == "D"

    def ended(self):
        if self.code is None:
            self.code = super().ended()
        return self.code

    def over(self):
        return self.ended() is not None

    def waits(self):
        """Return whether the message still waits.  A process that is awake at the moment will end
        or sleep again, so wait for either."""
        until(lambda: self.over() or self.sleeps(), "each running request ends or sleeps")
        return not self.over()


class Together:
    """A context for several cleans at once: every band has a cached block, idle cleaning is off, a
    first clean has begun, and all writes below are held until the test lets them go."""

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
        """Let the held writes go; wait until others are held or the first clean has ended."""
        self.slow.stand_still()
        until(lambda: self.slow.stand() or self.first.over(), "something stands")

    def done(self):
        """Expect that the cleans have left no cached block, and close the device."""
        expect(not self.cached(), f"{self.cached()} blocks are cached after a clean")
        self.slow.close()


def together(ctx, sig):
    """Three processes wait for a clean, and a signal ends one of them at once.  Each of the others
    waits for the blocks that were cached when it sent its clean, not for later ones."""
    with Together(ctx) as at:
        killed = at.asker()
        while at.first.waits() and at.cached() > len(at.blocks) // 4:
            at.let_go()
        # The first clean has little left to do when the host writes to every band again.
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
    """Three cleans wait, and a suspend interrupts all of them with EAGAIN; after the resume three
    new cleans succeed."""
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
            asker.end("a second request for a clean")
    at.done()


def cases(target, _options):
    out = [("a clean beside writes", clean)]
    # imr gathers data in memory, and no request waits until they are written.
    if target.name != "imr":
        out.append(("a clean of a band that is being written", hot))
    # The other targets write such blocks in place, or clean many bands in one step.
    if target.name in ("stl-set", "dualbuffer"):
        out += [("one of three requests for a clean is killed",
                 lambda c: together(c, signal.SIGKILL)),
                ("one of three is interrupted", lambda c: together(c, signal.SIGINT)),
                ("a suspend interrupts three", suspended)]
    return out
