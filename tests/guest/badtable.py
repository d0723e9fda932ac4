# SPDX-License-Identifier: GPL-2.0
"""Wrong table lines, messages and devices, some random (hypothesis) and some that users will try.

A table line either works, and then the table that the device shows loads again unchanged; or it is
refused with exactly one message in the kernel's log, and then not one byte on the devices has
changed.  An oops in the guest fails the case.
"""

import errno
import hashlib
import itertools
import random
import re
import time

from guest import blk
from guest import dm
from guest import administration
from guest import ondisk
from guest.bench import Failure, Skip, expect, run, until
from guest.blk import SECTORS
from guest.media import platter
from guest.model import read_stamp, stamp
from guest.reset import Child
from guest.targets import GEOMETRIES, SHINGLE, stack

SENTENCE = re.compile(r"device-mapper: table: \S+ \S+ ?(.*) \((-\w+)\)$")
NUMBERS = ["0", "1", "2", "3", "4", "16", "32", "33", "-1", "4294967295",
           "4294967296", "18446744073709551615", "99999999999999999999999",
           "0x10", "1.5", "1e3", "08"]
WORDS = ["-", "--", "", "a", "%s%n%d", "inplace", "commit_ms", "commit_ms=1",
         "INPLACE", "inplace,inplace", "x" * 300, "\u00e9", "stl-set", "/dev",
         "/dev/null", "/dev/nowhere", "/dev/dm-99", "253:99", "7:0", "999999"]


def _hypothesis():
    try:
        import hypothesis
        return hypothesis
    except ImportError as error:
        raise Skip("no hypothesis here") from error


def settings(hypothesis, count):
    return hypothesis.settings(
        max_examples=count, derandomize=True, database=None, deadline=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck))


def uuid_text(name):
    """Return the UUID of a set that targets.format() made."""
    raw = name.encode().ljust(16, b"\0").hex()
    return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))


def content(made):
    digest = hashlib.blake2b()
    for path, under in zip(made.paths.values(), made.under):
        with blk.opened(path) as dev:
            digest.update(dev.read(0, under.blocks))
    return digest.digest()


def refusals(lines):
    """Return the target's messages about refused tables, without the lines that dm itself adds."""
    out = []
    for line in lines:
        if "cannot activate" in line or "is in use by" in line:
            out.append(line.split(": ", 3)[-1])
        elif "device-mapper: table:" in line and \
                "preresume failed" not in line:
            found = SENTENCE.search(line)
            out.append(found[1] if found else line)
    return out


def lines(ctx, geo, count):
    """Try @count random variations of a good table line, see the head of this file."""
    hypothesis = _hypothesis()
    given, st = hypothesis.given, hypothesis.strategies
    made = stack(ctx.pool, ctx.target, geo)
    good = made.target.table(made.paths, geo)[0]
    tally = {"worked": 0, "refused": 0}
    sentences = set()
    tokens = st.one_of(
        st.sampled_from(NUMBERS + WORDS + list(made.paths.values())),
        st.text(st.characters(min_codepoint=33, max_codepoint=126),
                min_size=1, max_size=12))
    options = st.lists(st.sampled_from(
        ["1", "2", "0", "inplace", "commit_ms", "idle_ms", "cleaning", "order",
         "wcache_blocks", "wcache", "on", "off", "destage_ms", "rotational",
         "threshold", "lazy", "aggressive", "greedy", "read_home", "always", "needed",
         "0", "50", "-1"]), max_size=7)
    changes = st.lists(st.tuples(
        st.sampled_from(["drop", "replace", "insert", "swap"]),
        st.integers(0, 8), tokens), max_size=3)
    lengths = st.one_of(st.just(good[1]), st.just(good[1]), st.sampled_from(
        [8, good[1] - 8, good[1] + 8, good[1] // 2, 2 * good[1], 1, 1 << 40]))

    @settings(hypothesis, count)
    @given(changes, options, lengths)
    def one(change, tail, length):
        words = good[3].split() + tail
        for what, at, token in change:
            at = min(at, len(words))
            if what == "insert":
                words.insert(at, token)
            elif at < len(words):
                if what == "drop":
                    del words[at]
                elif what == "replace":
                    words[at] = token
                else:
                    words[at], words[0] = words[0], words[at]
        before = content(made)
        ctx.kernel()
        try:
            device = dm.Device("bad", [(0, length, good[2], " ".join(words))])
        except OSError:
            said = refusals(ctx.kernel())
            expect(len(said) == 1, f"'{' '.join(words)}' with {length} "
                                   f"sectors: {len(said)} sentences: {said}")
            expect(re.match(r"[A-Z0-9a-z].{8,}", said[0]) and
                   said[0].isprintable() and "nknown error" not in said[0],
                   f"'{' '.join(words)}': no sentence: '{said[0]}'")
            expect(content(made) == before,
                   f"refused '{' '.join(words)}' changed the disk")
            sentences.add(re.sub(r"\d+|/\S+|'.*'", "#", said[0]))
            tally["refused"] += 1
            return
        with device:
            table = device.table()
            device.reload(table)
            expect(device.table() == table, f"{table} loads as "
                                            f"{device.table()}")
        made.format()
        tally["worked"] += 1

    one()
    ctx.note(f"{tally['worked']} lines worked, {tally['refused']} refused "
             f"with {len(sentences)} different sentences")
    for sentence in sorted(sentences):
        ctx.note(f"  {sentence}")
    return tally


def messages(ctx, geo, count, jobs=0):
    """Try @count random messages: each works or is refused with one message in the log, and the
    device stays writable.

    @jobs: processes that write and read meanwhile; each read returns what was written, or zeroes
    after a reset."""
    hypothesis = _hypothesis()
    given, st = hypothesis.given, hypothesis.strategies
    made = stack(ctx.pool, ctx.target, geo)
    device = made.open()
    writers = [Child(lambda i=i: scribbler(device.path, range(i, geo.logical, jobs)))
               for i in range(jobs)]
    known = [*ctx.target.messages, "commit_ms 5", "commit_ms", "reset",
             "wcache off", "wcache on", "wcache_blocks 5"]
    tally = {"worked": 0, "refused": 0}
    message = st.lists(st.one_of(
        st.sampled_from(known + NUMBERS + WORDS),
        st.text(st.characters(min_codepoint=32, max_codepoint=126),
                max_size=10)), min_size=1, max_size=4)
    numbered = st.builds(lambda word, numbers: [word, *numbers],
                         st.sampled_from(known),
                         st.lists(st.sampled_from(NUMBERS), max_size=3))

    @settings(hypothesis, count)
    @given(st.one_of(message, numbered))
    def one(words):
        text = " ".join(words)
        ctx.kernel()
        try:
            device.message(text)
            tally["worked"] += 1
        except OSError:
            said = [line for line in ctx.kernel() if "device-mapper" in line]
            expect(len(said) == 1, f"message '{text}': {len(said)} sentences: "
                                   f"{said}")
            tally["refused"] += 1
        expect(ctx.target.state(device) == "rw", f"'{text}' left it "
                                                 f"{device.status()}")

    try:
        one()
        expect(all(child.ended() is None for child in writers), "a writer has failed")
    finally:
        for child in writers:
            child.kill()
    made.verify()
    made.close()
    made.check()
    ctx.note(f"{tally['worked']} messages worked, {tally['refused']} refused")
    return tally


def scribbler(path, mine):
    """Write and read these blocks until killed."""
    rng, newest = random.Random(mine[0]), {}
    with blk.opened(path) as dev:
        for version in itertools.count(1):
            b = rng.choice(mine)
            found, _ = read_stamp(dev.read(b), b)
            if found not in (0, newest.get(b, 0)):
                raise OSError(errno.EILSEQ, "not what was written")
            dev.write(b, stamp(b, version))
            newest[b] = version
            if version % 16 == 0:
                dev.flush()
            elif version % 16 == 8:
                dev.discard(b, 1)


def sentence(device, table, what, ctx):
    """Expect that loading a table fails with one message in the log; return the message."""
    ctx.kernel()
    try:
        device.load(table)
    except OSError:
        said = refusals(ctx.kernel())
    else:
        device.clear()
        raise Failure(f"{what}: {table} was accepted")
    expect(len(said) == 1, f"{what}: {len(said)} sentences: {said}")
    ctx.note(f"{what}: {said[0]}")
    return said[0]


def resized(ctx, made):
    """A table of another length is refused, also while the device is open, and so is a device below
    that has shrunk; the message names the right length and what to do.  A device below that has
    grown is used up to its old size."""
    good = made.target.table(made.paths, made.geo)
    device = made.open()
    with made.blk() as dev:
        dev.write(0, b"a" * blk.BLOCK)
        dev.flush()
    before = content(made)
    for what, length in (("one block less", -SECTORS), ("one more", SECTORS),
                         ("twice", good[0][1])):
        said = sentence(device, [(0, good[0][1] + length, *good[0][2:])],
                        what, ctx)
        expect(f"must say 0 {good[0][1]};" in said and "resizing" in said and
               "shingle format" in said, f"{what}: {said}")
    expect(content(made) == before, "what was refused changed the disk")
    made.close()
    before = content(made)
    tables = [under.table() for under in made.under]
    for which, under, table in zip(made.paths, made.under, tables):
        start, length, kind, words = table[0]
        # This cuts off the superblock's copy at the end.
        under.reload([(start, length - SECTORS, kind, words)])
        device = dm.Device("resized")
        with device:
            said = sentence(device, good, f"{which} -1 block", ctx)
        expect(f"has {under.blocks - 1} blocks of 4096 bytes, fewer than the {under.blocks} "
               in said and "restore its size" in said, f"{which} -1: {said}")
        under.reload([table[0]])
    expect(content(made) == before, "what was refused changed the disk")
    for at, (which, under, table) in enumerate(zip(made.paths, made.under, tables)):
        start, length, kind, words = table[0]
        for change in (1, 7 * SECTORS + 1):
            under.reload([(start, length + change, kind, words)])
            ctx.kernel()
            made.open()
            said = [x for x in ctx.kernel() if "the rest is not used" in x]
            expect(len(said) == (change >= SECTORS), f"{which} {change:+} sectors: {said}")
            with made.blk() as dev:
                expect(dev.read(0) == b"a" * blk.BLOCK, f"{which} {change:+}: not its content")
                dev.write(1 + at, bytes([at + 1]) * blk.BLOCK)
                dev.flush()
            made.close()
            # At the old size again: the second copies of the headers are still in their places.
            under.reload([table[0]])
            made.open().message("verify")
            made.close()
    made.open()
    with made.blk() as dev:
        expect(dev.read(0) == b"a" * blk.BLOCK, "the content has changed")
        for at in range(len(made.under)):
            expect(dev.read(1 + at) == bytes([at + 1]) * blk.BLOCK, f"block {1 + at} is lost")
    made.close()


def matrix(ctx, geo):
    """Mistakes that users make in a table line: each is refused with one message in the log, and
    the devices stay unchanged."""
    made = stack(ctx.pool, ctx.target, geo)
    paths, sectors = made.paths, geo.logical * SECTORS
    name = made.target.name
    line = made.target.table(paths, geo)[0][3]
    other = ctx.pool.slice(16, "other")
    small = ctx.pool.slice(max(1, made.under[0].blocks // 2), "small")
    splinter = dm.linear("splinter", [(other.path, 0, SECTORS - 1)])
    first, rest = line.split(" ", 1)
    wrong = [
        ("too few arguments", sectors, first),
        ("no arguments", sectors, ""),
        ("no such device", sectors, f"/dev/nowhere {rest}"),
        ("not a block device", sectors, f"/dev/null {rest}"),
        ("a device that was not formatted", sectors, f"{other.path} - -"),
        ("a device too small", sectors, f"{small.path} {rest}"),
        ("a device of less than a block", sectors, f"{splinter.path} {rest}"),
        ("too short", sectors - 8, line),
        ("too long", sectors + 8, line),
        ("an unknown feature", sectors, f"{line} 1 frobnicate"),
        ("an unknown key", sectors, f"{line} 0 2 frobnicate 1"),
        ("a key without its value", sectors, f"{line} 0 1 commit_ms"),
        ("a value that is no number", sectors, f"{line} 0 2 commit_ms soon"),
        ("a negative value", sectors, f"{line} 0 2 commit_ms -1"),
        ("a write cache too large", sectors, f"{line} 0 2 wcache_blocks 65537"),
        *([] if made.target.gathers else
          [("no write cache to switch on", sectors, f"{line} 0 2 wcache on")]),
        ("a write cache half on", sectors,
         f"{line} 0 4 wcache_blocks 8 wcache half"),
        ("too many features announced", sectors, f"{line} 9 inplace"),
        ("something after the end", sectors, f"{line} 0 0 more"),
    ]
    before = content(made)
    for what, length, words in wrong:
        ctx.kernel()
        try:
            dm.Device("bad", [(0, length, name, words)]).remove()
        except OSError:
            said = refusals(ctx.kernel())
            expect(len(said) == 1, f"{what}: {len(said)} sentences: {said}")
            ctx.note(f"{what}: {said[0]}")
        else:
            expect(False, f"{what}: '{words}' was accepted")
        expect(content(made) == before, f"{what}: the disk was changed")
    resized(ctx, made)
    # The devices are already in use.
    made.open()
    ctx.kernel()
    try:
        dm.Device("bad", made.target.table(paths, geo)).remove()
    except OSError:
        said = refusals(ctx.kernel())
        expect(len(said) == 1, f"in use: {len(said)} sentences: {said}")
        ctx.note(f"in use: {said[0]}")
    else:
        expect(False, "two targets on the same devices")
    made.close()
    return {"lines": len(wrong) + 1}


def strangers(ctx, geo):
    """Every device has a header that names the target it was formatted for.  A device of another
    target, an empty one and metadata of another version are refused when the table is loaded, and a
    device exchanged after that when it is activated."""
    made = stack(ctx.pool, ctx.target, geo)
    other = stack(ctx.pool, ctx.target, geo.but(name="another"), name="other")
    good = made.target.table(made.paths, geo)
    before = content(made) + content(other)
    ours, theirs = (uuid_text(g.name) for g in (made.geo, other.geo))
    tried = 0
    with dm.Device("bad") as device:
        for which, path in other.paths.items():
            wanted, found = (theirs, ours) if which == "meta" else (ours, theirs)
            said = sentence(device, made.target.table(
                {**made.paths, which: path}, geo), f"another {which}", ctx)
            expect("not the one that was formatted" in said and
                   re.search(f"found the .* device of {found}; wanted the .* "
                             f"device of {wanted}", said), said)
            tried += 1
        for which, under in zip(made.paths, made.under):
            if which == "meta":
                continue
            empty = ctx.pool.slice(under.blocks, f"empty-{which}")
            said = sentence(device, made.target.table(
                {**made.paths, which: empty.path}, geo), f"an empty {which}", ctx)
            expect("found no dm-shingle header" in said and ours in said, said)
            tried += 1
        with blk.opened(made.paths["meta"]) as meta:
            sound = meta.read(0)
            for version, words in ((ondisk.VERSION - 1, "older dm-shingle"),
                                   (ondisk.VERSION + 1, "is newer")):
                raw = bytearray(sound)
                raw[40:44] = version.to_bytes(4, "little")
                for at in (0, made.under[-1].blocks - 1):
                    meta.write(at, ondisk.seal(raw, at=at))
                said = sentence(device, good, f"version {version}", ctx)
                expect(words in said, said)
            for at in (0, made.under[-1].blocks - 1):
                meta.write(at, ondisk.seal(bytearray(sound), at=at))
        expect(content(made) + content(other) == before,
               "what was refused changed the disk")

        device.load(good)       # the device is replaced after loading
        with blk.opened(made.paths["data"]) as data, \
                blk.opened(other.paths["data"]) as another:
            sound = data.read(0)
            data.write(0, another.read(0))
            ctx.kernel()
            try:
                device.resume()
            except OSError:
                said = refusals(ctx.kernel())
            else:
                raise Failure("a stranger was activated")
            expect(len(said) == 1 and "not the one that was formatted" in said[0],
                   f"at activation: {said}")
            ctx.note(f"at activation: {said[0]}")
            data.write(0, sound)
    expect(content(made) + content(other) == before,
           "what was refused changed the disk")
    made.open()
    with made.blk() as dev:
        dev.write(0, b"a" * blk.BLOCK)
        dev.flush()
    made.device.message("reset")
    made.close()
    made.open()                 # a reset keeps the headers
    with made.blk() as dev:
        expect(not any(dev.read(0)), "the content is still there")
    made.close()
    made.check()
    return {"tables": tried}


def forgetful(ctx):
    """A medium that stores nothing can hold the data, with the metadata on another device, although
    its headers cannot be read back.  That exemption must not admit a device with the header of
    another target."""
    tool = ctx.target.name
    words = ["--track", "80K"] if tool == "imr" else ["--band", "40K"]
    meta = ctx.pool.slice(4000, "meta")
    stranger = ctx.pool.slice(6000, "stranger")
    run(SHINGLE, "format", tool, *words, stranger.path, "--meta",
        ctx.pool.slice(4000, "another").path)
    with dm.Device("forgets", [(0, 6000 * SECTORS, "zero", "")]) as data:
        said = refused_by_tool("metadata that nobody keeps", "format", tool, *words, data.path)
        expect("does not store what is written" in said and "with --meta" in said, said)
        _, said = run(SHINGLE, "format", tool, *words, data.path, "--meta", meta.path)
        expect("does not store what is written" in said, said)
        for _ in range(2):
            run(SHINGLE, "check", data.path, "--meta", meta.path)
            run(SHINGLE, "open", "--no-udev", data.path, "--meta", meta.path, "over")
            run(SHINGLE, "remove", "--no-udev", "over")
    said = refused_by_tool("a stranger", "open", stranger.path, "--meta", meta.path, "over")
    expect("not the one that was formatted" in said, said)
    ctx.note(said.strip())


def interrupting(ctx):
    """Removing a device interrupts a running `verify`.  The map is so large that the removal can
    come in the middle; the case repeats until it does."""
    size = (256 << 30) // blk.BLOCK
    meta = ctx.pool.slice(20000, "meta")
    with dm.Device("forgets", [(0, size * SECTORS, "zero", "")]) as data:
        create = ["create", ctx.target.name, "--journal", "4M", "--cache-size", "16G", data.path,
                  "--meta", meta.path, "over"]
        line = re.search(r"--table '(\d+) (\d+) (\S+) (.*)'",
                         run(SHINGLE, *create, "--dry-run")[1])
        run(SHINGLE, "format", *create[1:-1])
        table = [(int(line[1]), int(line[2]), line[3], line[4])]
        with dm.Device("over", table) as over:
            begin = time.monotonic()
            over.message("verify")
            took = time.monotonic() - begin
        ctx.note(f"a whole one takes {took * 1000:.0f} ms")
        # The child's start-up time depends on other load on the machine.
        for tries in range(1, 301):
            over = dm.Device("over", table)
            ctx.kernel()
            asked = Child(lambda over=over: over.message("verify"))
            time.sleep(took * (tries % 10) / 10 * (1 + tries / 30))
            over.remove()
            until(lambda asked=asked: (code := asked.ended()) is not None and [code],
                  "the verify ends")
            if any("verify interrupted" in text for text in ctx.kernel()):
                return {"tries": tries}
        raise Failure(f"no verify was interrupted by any of {tries} removals")


def refused_by_tool(what, *args):
    """Expect that the tool fails with status 8 and one line; return the line."""
    status, said = run(SHINGLE, *args, ok=None)
    expect(status == 8 and said.count("\n") == 1, f"{what}: {status}: {said}")
    return said


def rotten(ctx):
    """`shingle format` refuses a device of which it cannot read the places where others keep their
    signatures, because it may not be empty; --force formats it and leaves no old signature."""
    under = ctx.pool.slice(4096, "under")
    run("mkfs.ext4", "-q", "-F", under.path)
    end = under.blocks * SECTORS
    whole = (0, end, "linear", f"{under.path} 0")
    # Targets with a map in pages, or that need the angles of the medium, take no --track here.
    tracks = [] if ctx.target.paged or ctx.target.angles else ["--track", "64K"]
    command = ["format", ctx.target.name, *tracks,
               *([] if ctx.target.medium == "imr" else ["--band", "160K"])]

    def content_of():
        with blk.opened(under.path) as dev:
            return dev.read(0, under.blocks)

    before = content_of()
    with dm.Device("rotten", [whole]) as device:
        said = refused_by_tool("ext4", *command, device.path)
        expect("type ext4" in said, said)
        for what, at, after in (("end", end - 128, end), ("beginning", 0, 8),
                                ("btrfs's place", 128, 136)):
            device.reload([row for row in (
                (0, at, "linear", f"{under.path} 0"), (at, after - at, "error", ""),
                (after, end - after, "linear", f"{under.path} {after}"))
                if row[1]])
            said = refused_by_tool(what, *command, device.path)
            expect("cannot be read" in said, f"{what}: {said}")
            ctx.note(said.strip())
            expect(content_of() == before, f"{what}: the disk was changed")
        run(SHINGLE, *command, "--force", device.path)
        expect(content_of() != before, "--force has written nothing")
        device.reload([whole])
        run(SHINGLE, "check", device.path)
        said = run("wipefs", "-n", device.path)[1]
        expect(not said, f"--force has left {said}")


def removing(ctx, geo):
    """`shingle remove` removes this project's devices, also suspended ones and ones without a
    table, and refuses all others."""
    made = stack(ctx.pool, ctx.target, geo)
    other = ctx.pool.slice(256, "other")
    with dm.Device("mixed", [
            (0, 8, "linear", f"{other.path} 0"), (8, 8, "zero", "")]):
        for name in ("mixed", "other", "under-data"):
            said = refused_by_tool(name, "remove", "--no-udev", name)
            expect("'linear'" in said and f"dmsetup remove {name}" in said, said)
            ctx.note(said.strip())
            expect(name in dm.names(), f"{name} is gone")
    said = refused_by_tool("no device", "remove", "--no-udev", "nowhere")
    expect("no such device" in said, said)

    def gone(device, what):
        expect(device.name in dm.names(), f"{what}: there was none")
        run(SHINGLE, "remove", "--no-udev", device.name)
        expect(device.name not in dm.names(), f"{what}: still there")

    gone(dm.Device("empty"), "without a table")
    gone(platter("disk", other, geo.but(band=4, track=4), ctx.target.medium),
         "platter")
    device = made.open()
    device.suspend()
    gone(device, "suspended")
    made.device = None
    gone(made.open(), "open")
    made.device = None
    made.check()


def medium_messages(ctx, geo):
    """A dm-platter changes the keys that may change by message, and refuses all others with one
    message in the log, without an effect."""
    other = ctx.pool.slice(256, "other")
    with platter("disk", other, geo.but(band=4, track=4), ctx.target.medium) as disk:
        before = disk.table()
        for text, why in (("rpm 5400", "rpm can only be set by a table"),
                          ("media cmr", "media can only be set by a table"),
                          ("state none", "state can only be set by a table"),
                          ("wcache half", "wcache must be on or off"),
                          ("lookahead 1", "lookahead must be on or off"),
                          ("rmp 5400", "unrecognised message")):
            administration.refused(ctx, disk, text, errno.EINVAL, why)
        expect(disk.table() == before, f"{before} has become {disk.table()}")
        for text in ("wcache on", "lookahead on"):
            disk.message(text)
            expect(text in disk.table()[0][3], f"{text}: {disk.table()}")
        for text in ("wcache off", "lookahead off"):
            disk.message(text)
        expect(disk.table() == before, f"{before} has become {disk.table()}")


def cases(target, options):
    if not target.persistent:
        return []
    geo = GEOMETRIES["bitflip"][0]
    count = int(options.get("examples", 400))
    return [("matrix of options", lambda ctx: matrix(ctx, geo)),
            ("table lines", lambda ctx: lines(ctx, geo, count)),
            ("messages", lambda ctx: messages(ctx, geo, count)),
            ("devices of other sets", lambda ctx: strangers(ctx, GEOMETRIES["faults"][0])),
            ("a medium that stores nothing", forgetful),
            ("messages beside I/O", lambda ctx: messages(ctx, geo, count // 2, 2)),
            ("unreadable blocks", rotten),
            ("a medium's keys by message", lambda ctx: medium_messages(
                ctx, GEOMETRIES["faults"][0])),
            ("removing", lambda ctx: removing(ctx, geo)),
            *([("a removal interrupts verify", interrupting)]
              if target.name == "stl-set" else []),
            *administration.cases(target, *GEOMETRIES["faults"][:2])]
