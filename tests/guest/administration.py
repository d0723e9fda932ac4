# SPDX-License-Identifier: GPL-2.0
"""Tables, messages and suspends, as an administrator meets them: a read-only table writes nothing;
a message to a table that is not active changes nothing; a waiting message does not delay a suspend;
the table shows the actual settings; and the tool passes on what the kernel reports.

badtable.py runs these cases."""

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import time

from guest import blk
from guest import dm
from guest import ondisk
from guest.bench import Failure, Skip, beside, expect, run, until
from guest.blk import BLOCK, SECTORS
from guest.faults import faulty
from guest.media import stats
from guest.model import read_stamp
from guest.reset import Child
from guest.targets import SHINGLE, stack

BLKROSET = 0x125d
WRITING = ("clean", "commit", "checkpoint", "reset")


def refused(ctx, device, text, number, why):
    """Expect that a message fails with errno @number and leaves one message with @why in the log.
    """
    ctx.kernel()
    try:
        device.message(text)
    except OSError as error:
        expect(error.errno == number, f"'{text}': {error}")
    else:
        raise Failure(f"'{text}' was carried out")
    said = [line for line in ctx.kernel() if "device-mapper" in line]
    expect(len(said) == 1 and why in said[0], f"'{text}': {said}")


def contents(game):
    out = {}
    for which, path in game.stack.paths.items():
        with blk.opened(path) as dev:
            out[which] = dev.read(0, blk.size(path))
    return out


def set_ro(path, on):
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, BLKROSET, struct.pack("i", on))
    finally:
        os.close(fd)


def blocks_of(path, logical):
    """Return the version that each block holds, None for blocks that cannot be read."""
    out = []
    with blk.Blk(path, os.O_RDONLY) as dev:
        for b in range(logical):
            try:
                out.append(read_stamp(dev.read(b), b)[0])
            except OSError:
                out.append(None)
    return out


def left_over(game):
    """Leave the closed stack in a state that gives activation much to write: a journal to replay, a
    cleaning step to finish, and blocks to clean."""
    game.fill()
    game.message("checkpoint", must=True)
    for b in range(0, game.geo.logical, game.geo.band):
        game.write(b, must=True)
    game.flush(must=True)
    saved = None
    # Cleaning fails in the middle of a step; the contents saved then are what a power cut leaves.
    game.break_("data", "error_writes")
    game.message("clean")
    game.write(1)
    game.flush()
    game.heal()
    saved = contents(game)
    game.close()
    for which, path in game.stack.paths.items():
        with blk.opened(path) as dev:
            dev.write(0, saved[which])


def read_only(ctx, geo, table_too):
    """With a read-only table on read-only devices the target writes not one byte, whatever I/O and
    messages come; reads return what they return with a writable table.  Without @table_too the
    table is loaded for writing: then dm either refuses it or it is read-only as well."""
    with faulty(ctx, geo) as game:
        left_over(game)
        before = contents(game)
        paths = list(game.stack.paths.values())
        try:
            for path in paths:
                set_ro(path, 1)
            device = dm.Device("target")
            game.stack.device = device
            lines = game.stack.target.table(game.stack.paths, geo)
            try:
                device.load(lines, read_only=table_too)
            except OSError:
                # dm itself refuses to open a read-only device for writing.
                expect(not table_too, "refused")
                return
            device.resume()
            expect(game.state() == "ro", f"it is {device.status(noflush=True)}")
            why = device.message("mode")
            expect(why.startswith("ro its device is read-only: "), f"the cause is '{why}'")
            found = blocks_of(device.path, geo.logical)
            for text in WRITING:
                refused(ctx, device, text, errno.EROFS, "read-only")
            for text in ctx.target.messages:
                if text not in WRITING:
                    with contextlib.suppress(OSError):
                        device.message(text)
            for text in ("commit_ms 5", "idle_ms 5", "destage_ms 5", "wcache off"):
                with contextlib.suppress(OSError):
                    device.message(text)
            above = dm.linear("above", [(device.path, 0, geo.logical * SECTORS)])
            with contextlib.suppress(OSError), blk.opened(above.path) as dev:
                for call in (lambda: dev.write(0, b"x" * BLOCK),
                             lambda: dev.discard(0, geo.logical),
                             lambda: dev.zero(0, geo.logical)):
                    try:
                        call()
                    except OSError:
                        continue
                    raise Failure("a write succeeded")
            above.remove()
            fd = os.open(device.path, os.O_RDONLY)
            # The first flush may fail: it reports a gathered write that was lost when cleaning
            # failed in left_over().
            with contextlib.suppress(OSError):
                os.fsync(fd)
            os.fsync(fd)
            os.close(fd)
            expect(game.state() == "ro", f"it is {device.status(noflush=True)}")
            device.suspend()
            device.resume()
            time.sleep(.05)         # longer than the idle_ms and commit_ms set above
            expect(blocks_of(device.path, geo.logical) == found,
                   "its content has changed")
            game.stack.close()
            after = contents(game)
            for which in before:
                expect(after[which] == before[which],
                       f"the {which} device was written to")
        finally:
            for path in paths:
                set_ro(path, 0)
        game.stack.open()
        expect(blocks_of(game.stack.device.path, geo.logical) == found,
               "for writing it holds something else")
        ctx.note(f"{found.count(None)} of {len(found)} blocks unreadable, as for "
                 f"writing")


def held(game, which, name, start, n):
    """Put blocks [start, start + n) of a device below on a dm device @name of their own, and return
    that: while it is suspended, I/O to these blocks waits."""
    _, length, _, params = game.plain[which][0]
    path, offset = params.split()
    first, count, offset = start * SECTORS, n * SECTORS, int(offset)
    gate = dm.linear(name, [(path, offset + first, count)])
    game.under[which].reload([row for row in (
        (0, first, "linear", f"{path} {offset}"),
        (first, count, "linear", f"{gate.path} 0"),
        (first + count, length - first - count, "linear",
         f"{path} {offset + first + count}")) if row[1]], noflush=True, lockfs=False)
    return gate


def below_waits(path):
    """Return whether a device has requests in flight all the time for 100 ms: they are held."""
    name = os.path.basename(os.path.realpath(path))
    for _ in range(20):
        with open(f"/sys/block/{name}/inflight", encoding="ascii") as handle:
            if not sum(map(int, handle.read().split())):
                return False
        time.sleep(.005)
    return True


def activating(ctx, geo):
    """Messages that come while activation reads the journal fail with EAGAIN, because the state is
    not complete; status and table work, and the activation succeeds."""
    with faulty(ctx, geo) as game:
        game.fill()
        for b in range(0, geo.logical, geo.band):
            game.write(b, must=True)
        game.flush(must=True)
        game.message("checkpoint", must=True)
        game.close()
        which, start, n = game.areas["journal"]
        gate = held(game, which, "gate", start, n)
        device = dm.Device("target")
        game.stack.device = device
        device.load(game.stack.target.table(game.stack.paths, geo))
        gate.suspend(noflush=True, lockfs=False)
        up = Child(device.resume)
        try:
            until(lambda: below_waits(game.stack.paths[which]), "reading the journal")
            expect(up.ended() is None, "it is active already")
            texts = dict.fromkeys((
                "verify", *ctx.target.messages, *WRITING, "wcache off", "idle_ms 5",
                "commit_ms 5",
                *(f"{key} {value}" for key, value in ctx.target.keys)))
            for text in texts:
                refused(ctx, device, text, errno.EAGAIN, "not active yet")
            expect(" - " in device.status(noflush=True), "a check is needed")
            device.table()
            expect(up.ended() is None, "it was not being activated")
        finally:
            gate.resume()
        up.end("the activation")
        game.dev = game.stack.blk()
        expect(game.state() == "rw" and " - " in device.status(noflush=True),
               f"it is {device.status(noflush=True)}")
        game.compare("activated")
        game.dev.close()
        game.stack.close()
        game.heal()
        gate.remove()
        game.stack.open()
        game.dev = game.stack.blk()
        game.alive()


@contextlib.contextmanager
def standstill(game):
    """Hold all I/O to the devices below except the metadata device; yield a function that ends
    this."""
    gates = [held(game, which, f"gate-{which}", 0, device.blocks)
             for which, device in game.under.items() if which != "meta"]
    shut = []

    def go():
        while shut:
            shut.pop().resume()
    try:
        for gate in gates:
            gate.suspend(noflush=True, lockfs=False)
            shut.append(gate)
        yield go
    finally:
        go()
        game.heal()
        for gate in gates:
            gate.remove()


def waits(game):
    """Return whether standstill() holds a request."""
    return any([below_waits(path) for which, path in game.stack.paths.items()
                if which != "meta"])


def interrupted(ctx, game, text):
    """A suspend comes while a message waits for I/O that is held: the message ends at once with
    EAGAIN instead of delaying the suspend, and leaves one message in the log.  Then resume."""
    device = game.stack.device
    ctx.kernel()
    with standstill(game) as go:
        asked = Child(lambda: device.message(text))
        until(lambda: waits(game), f"{text} has begun")
        expect(asked.ended() is None, f"{text} did not wait")
        leaving = Child(device.suspend)
        codes = []

        def ended():
            if not codes:
                code = asked.ended()
                codes.extend([] if code is None else [code])
            return codes

        # All I/O that the message waits for is held: only the suspend can end it.
        until(ended, f"{text} gives way to a suspend")
        expect(codes[0] == errno.EAGAIN,
               f"{text} ended with {os.strerror(codes[0])}")
        expect(leaving.ended() is None, "it is suspended with I/O under way")
        go()
        leaving.end("the suspend")
    said = [line for line in ctx.kernel() if "suspend came" in line]
    expect(len(said) == 1, f"{text}: {said}")
    ctx.note(said[0].split(": ", 2)[-1])
    device.resume()


def suspended_clean(ctx, geo):
    """A suspend interrupts a clean before it has cleaned most bands; a second clean cleans the
    rest.  A suspend that is itself interrupted by a signal leaves the device usable."""
    # No idle cleaning, so that only the message cleans.
    geo = geo.but(options=(*geo.options, ("idle_ms", 0)))
    with faulty(ctx, geo) as game:
        game.fill()
        device = game.stack.device
        for b in range(0, geo.logical, geo.band):
            game.write(b, must=True)
        game.flush(must=True)
        if ctx.target.gathers:      # the clean has work only while blocks are gathered
            for b in range(1, geo.logical, geo.band):
                game.write(b, must=True)
        device.message("stats_clear")
        interrupted(ctx, game, "clean")
        part = stats(device)["steps"]
        cached = int(device.status(noflush=True).split("/")[0])
        game.message("clean", must=True)
        all_ = stats(device)["steps"]
        game.compare("cleaned")
        if not ctx.target.gathers:
            expect((cached or ctx.target.paged or not ctx.target.has_home) and part < all_,
                   f"{part} of {all_} steps were made before the suspend")
        ctx.note(f"{part} of {all_} steps before the suspend")
        # A suspend that cannot complete is given up.
        game.write(0, must=True)
        with standstill(game) as go:
            with beside(lambda: game.dev.read(2)):
                until(lambda: waits(game), "the read")
                leaving = Child(device.suspend)
                # Refused or interrupted, depending on the order of arrival.
                asked = Child(lambda: device.message("clean"))
                until(lambda: asked.ended() is not None, "the clean gives way")
                os.kill(leaving.pid, 9)
                until(lambda: leaving.ended() is not None, "the suspend is given up")
                go()
        game.message("clean", must=True)
        game.alive()


def suspended_clean_again(ctx, geo):
    """A suspend interrupts a clean, and the host writes to other bands: a second clean also cleans
    these, although the first did not know of them."""
    geo = geo.but(options=(*geo.options, ("idle_ms", 0)))
    with faulty(ctx, geo) as game:
        game.fill()
        device = game.stack.device
        # The engine has begun to use only a part of its cache.
        game.write(0, must=True)
        game.flush(must=True)
        interrupted(ctx, game, "clean")
        for b in range(1, geo.logical, geo.band):
            game.write(b, must=True)
        game.message("clean", must=True)
        cached = int(device.status(noflush=True).split("/")[0])
        expect(not cached, f"{cached} blocks are cached after a clean")
        game.compare("cleaned")


def suspended_drain(ctx, geo, text):
    """A suspend interrupts message @text while it waits for the write cache to be written: the
    suspend writes the cache, no data are lost, and the message works when sent again."""
    # No idle cleaning, so that the message alone waits for I/O.
    geo = geo.but(options=(*geo.options, ("idle_ms", 0)))
    with faulty(ctx, geo) as game:
        game.fill()
        for b in range(0, geo.logical, geo.band):
            game.write(b, must=True)
        device = game.stack.device
        dirty = stats(device)["wcache_dirty_blocks"]
        expect(dirty, "nothing is in the write cache")
        interrupted(ctx, game, text)
        expect(not stats(device)["wcache_dirty_blocks"],
               "it was suspended with blocks in the write cache")
        game.compare("suspended and resumed")
        game.message(text, must=True)
        if text == "reset":
            expect(not game.dev.read(0, geo.logical).strip(b"\0"), "not forgotten")
            game.model.ack(game.model.submit(0, geo.logical, zero=True))
        game.compare("asked again")
        game.message("wcache on", must=True)
        game.alive()


def options_agree(ctx, geo):
    """The table is read while messages change keys: the number of options in it always matches the
    options that follow, or the line would not load again."""
    made = stack(ctx.pool, ctx.target, geo)
    device = made.open()

    def change():
        while True:
            for text in ("idle_ms 7", "wcache off", "destage_ms 3", "commit_ms 9",
                         "idle_ms 0", "wcache on", "destage_ms 5", "commit_ms 1000"):
                device.message(text)

    child = Child(change)
    try:
        for _ in range(300):
            words = device.table()[0][3].split()[3:]
            features = int(words[0])
            keys = int(words[1 + features])
            expect(len(words) == 2 + features + keys,
                   f"{features} features and {keys} words of keys: {words}")
        expect(child.ended() is None, "a message was refused")
    finally:
        child.kill()
    made.close()


def measured(ctx, geo):
    """The table that dm passes to IMA for measurement names every key and feature that is set."""
    seen = 0
    made = stack(ctx.pool, ctx.target, geo)
    for options, features in ((ctx.target.keys, ()), ((), ctx.target.features)):
        made.geo = geo.but(options=options, features=features)
        device = made.open()
        text = device.ima()
        expect(text.endswith(";"), text)
        for name, value in (*options, *((f, "y") for f in features)):
            expect(re.search(rf",{name}={value}[,;]", text), f"no {name} in {text}")
            seen += 1
        made.close()
    return {"options": seen}


def regions(device):
    """Return the ids of device mapper's statistics regions."""
    return device.message("@stats_list").split()


def told(ctx, geo):
    """`shingle stats` reports the counters of one device and of all open devices, as JSON and for
    Prometheus; --latency counts each request once and removes its statistics region."""
    made = stack(ctx.pool, ctx.target, geo)
    name, logical = (device := made.open()).name, geo.logical
    watching = subprocess.Popen([SHINGLE, "stats", name, "--latency", "3600", "--json"],
                                stdout=subprocess.PIPE, text=True)
    until(lambda: regions(device), "the region is there")
    with made.blk() as dev:
        for at in (0, 1, 2, logical - 1):
            dev.write(at, b"w" * BLOCK)
        for at in (0, 1):
            dev.read(at, 1)
    watching.send_signal(signal.SIGINT)
    seen = json.loads(watching.communicate()[0])
    expect(watching.returncode == 0, f"it ended with {watching.returncode}")
    expect(not regions(device), "the region is still there")
    # udev and others may read a new device, so there can be more reads.
    expect(seen["writes"] == 4 and seen["reads"] >= 2, seen)
    count = sum(row["requests"] for row in seen["histogram"])
    expect(count == seen["writes"] + seen["reads"], seen)
    told_all = {row["name"]: row for row in json.loads(run(SHINGLE, "stats", "--json")[1])}
    one = json.loads(run(SHINGLE, "stats", name, "--json")[1])
    expect(set(one["stats"]) == set(told_all[name]["stats"]) and
           one["stats"]["host_write_blocks"] == 4, one)
    lines = run(SHINGLE, "stats", "--prometheus", "--fields", "host_write_blocks")[1].splitlines()
    want = f'shingle_host_write_bytes_total{{device="{name}",target="{ctx.target.name}"}} 16384'
    expect(lines[0].startswith("# HELP ") and lines[1].startswith("# TYPE ") and want in lines,
           lines)
    # --clear sets counters to zero and keeps gauges.
    run(SHINGLE, "stats", name, "--clear")
    left = json.loads(run(SHINGLE, "stats", name, "--json")[1])["stats"]
    expect(left["host_write_blocks"] == 0, left)
    made.close()
    return {"requests": count}


def sleeps(pid):
    """Return whether a process is in nanosleep or clock_nanosleep; x86-64 only, as all guests are.
    """
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().split()[0] in ("35", "230")


def spoil_checkpoints(made):
    """Zero both checkpoint slots; return a function that restores them."""
    where, _, _ = made.target.areas(made.geo)["checkpoint"]
    path = made.paths[where]
    with blk.opened(path) as dev:
        sb = ondisk.read_super(dev.read(0))
        was = {at: dev.read(at) for slot in range(2) for at in ondisk.slot_blocks(sb, slot)}
        for at in was:
            dev.write(at, bytes(BLOCK))
        dev.flush()

    def put_back():
        with blk.opened(path) as dev:
            for at, block in was.items():
                dev.write(at, block)
            dev.flush()
    return put_back


def explained(ctx, geo):
    """When the kernel refuses something the tool prints the kernel's message, and `shingle status`
    the cause of a read-only device.  `shingle remove` waits for a device that is open for a moment.
    """
    made = stack(ctx.pool, ctx.target, geo)
    device, opens = made.open(), made.target.tool_opens
    device.suspend()
    try:
        said = run(SHINGLE, "set", device.name, "commit_ms=7", ok=(8,))[1]
        expect("the kernel refuses it: keep refused: it is suspended" in said, said)
    finally:
        device.resume()
    made.close()
    # With the tool's own table and UUID, so that it does not meet the stack's device.
    opens(made.paths, geo, "first")
    with contextlib.ExitStack() as stop:
        fd = os.open(dm.Device.found("first").path, os.O_RDONLY)
        stop.callback(os.close, fd)
        with subprocess.Popen([SHINGLE, "remove", "--no-udev", "first"]) as remove:
            # The tool only sleeps after it has found the device in use.
            until(lambda: sleeps(remove.pid), "the removal waits")
            stop.close()
            expect(remove.wait() == 0, f"remove ended with {remove.returncode}")
    for path in made.paths.values():
        set_ro(path, 1)
    try:
        opens(made.paths, geo, "first")
        said = run(SHINGLE, "status", "first")[1]
        expect("  mode     read-only: its device is read-only: " in said, said)
        run(SHINGLE, "remove", "--no-udev", "first")
    finally:
        for path in made.paths.values():
            set_ro(path, 0)
    saved = spoil_checkpoints(made)
    try:
        opens(made.paths, geo, "first")
    except Failure as failure:
        expect("the kernel refuses it: cannot activate: " in str(failure) and
               "run 'shingle check'" in str(failure), str(failure))
    else:
        raise Failure("a device without a checkpoint was opened")
    expect("first" not in dm.names(), "the device was left behind")
    saved()
    opens(made.paths, geo, "first")
    run(SHINGLE, "remove", "--no-udev", "first")


def beside_udev(ctx, geo):
    """`shingle remove` ends on a machine with a running udevd: it waits for udev's events, and only
    for those that the kernel sends.  The other cases run without udevd."""
    udevd = "/lib/systemd/systemd-udevd"
    if not os.path.exists(udevd):
        raise Skip("no systemd-udevd on this machine")
    os.makedirs("/run/udev", exist_ok=True)
    made = stack(ctx.pool, ctx.target, geo)
    made.open()
    made.close()
    env = {key: value for key, value in os.environ.items() if key != "DM_DISABLE_UDEV"}
    with subprocess.Popen([udevd], stderr=subprocess.DEVNULL) as daemon:
        try:
            until(lambda: os.path.exists("/run/udev/control"), "udevd listens")
            made.target.tool_opens(made.paths, geo, "first")
            done = subprocess.run([SHINGLE, "remove", "first"], env=env, timeout=120, check=False)
            expect(done.returncode == 0, f"remove ended with {done.returncode}")
        finally:
            daemon.terminate()
    os.unlink("/run/udev/control")


def nodes(ctx, geo):
    """The tool escapes characters that udev does not allow in a node's name, and removes the node
    with the device: a node left behind would later name another device with the same number."""
    made = stack(ctx.pool, ctx.target, geo)
    made.open()
    made.close()
    before = sorted(os.listdir("/dev/mapper"))
    for name in ("my disk", "100%", "B\u00fccher", "a'b", "a\\b"):
        said = made.target.tool_opens(made.paths, geo, name)
        added = [n for n in os.listdir("/dev/mapper") if n not in before]
        expect(len(added) == 1 and f"/dev/mapper/{added[0]} is ready" in said, (added, said))
        run(SHINGLE, "remove", "--no-udev", name)
        expect(sorted(os.listdir("/dev/mapper")) == before, os.listdir("/dev/mapper"))


def cases(target, geo, geo2):
    out = [("a read-only table", lambda c: read_only(c, geo, True)),
           ("a read-only table, write cache", lambda c: read_only(c, geo2, True)),
           ("read-only devices", lambda c: read_only(c, geo, False)),
           ("messages while it is activated", lambda c: activating(c, geo)),
           ("a suspend interrupts clean", lambda c: suspended_clean(c, geo))]
    if not target.gathers:
        out.append(("a clean after one that was interrupted",
                    lambda c: suspended_clean_again(c, geo)))
    out += [(f"a suspend interrupts {text}, write cache",
             lambda c, t=text: suspended_drain(c, geo2, t))
            for text in ("wcache off", *WRITING)]
    out += [("the table while messages change it", lambda c: options_agree(c, geo2)),
            ("what is measured", lambda c: measured(c, geo)),
            ("table and status of the tool", lambda c: told(c, geo)),
            ("the tool explains refusals", lambda c: explained(c, geo)),
            ("names of nodes", lambda c: nodes(c, geo)),
            ("beside udev", lambda c: beside_udev(c, geo))]
    return out
