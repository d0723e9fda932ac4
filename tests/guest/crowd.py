# SPDX-License-Identifier: GPL-2.0
"""Of writes there are always more than the layer has room for, and beside them somebody
asks for a clean: it is over when little has been cleaned for them meanwhile.

How much is little is no time but a count: of what was there when the clean was asked for,
as much again for the writes, who take turns with it, and what comes until it is noticed
that it is over."""

import os
import subprocess

import media
from bench import Skip, beside, expect, until
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


def cases(target, _options):
    # What is gathered is in memory, and nothing waits until it is written.
    return [("a clean beside writes", clean)] + \
        [("a clean of what is written to", hot)] * (target.name != "imr")
