# SPDX-License-Identifier: GPL-2.0
"""ext4, xfs, btrfs, f2fs: make, mount, many random file operations with a known result, remount,
compare, check."""

import hashlib
import os
import random
import shutil

from guest import media
from guest.bench import Skip, expect, modprobe, run

WHERE = "/tmp/fs"
MKFS = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-m", "single"],
    "f2fs": ["mkfs.f2fs", "-q", "-f"],
}
FSCK = {
    "ext4": ["e2fsck", "-fn"],
    "xfs": ["xfs_repair", "-n"],
    "btrfs": ["btrfs", "check", "--readonly"],
    "f2fs": ["fsck.f2fs", "--dry-run"],
}
MODULE = {"btrfs": "btrfs", "ext4": "ext4", "f2fs": "f2fs", "xfs": "xfs"}


class Tree:
    """A directory tree, and its expected contents."""

    def __init__(self, root, rng):
        self.root, self.rng = root, rng
        self.files = {}     # path: content
        self.dirs = [""]
        self.n = 0

    def _new(self):
        self.n += 1
        return f"{self.rng.choice(self.dirs)}/n{self.n}"

    def _path(self):
        return self.rng.choice(list(self.files))

    def step(self):
        rng = self.rng
        dice = rng.random()
        if dice < .30 or len(self.files) < 8:
            name = self._new()
            with open(self.root + name, "wb") as handle:
                self.files[name] = self._write(handle, 0, b"")
        elif dice < .50:
            name = self._path()
            with open(self.root + name, "r+b") as handle:
                at = rng.randrange(len(self.files[name]) + 1)
                self.files[name] = self._write(handle, at, self.files[name])
        elif dice < .60:
            name = self._path()
            length = rng.randrange(2 * len(self.files[name]) + 1)
            os.truncate(self.root + name, length)
            self.files[name] = self.files[name][:length].ljust(length, b"\0")
        elif dice < .70:
            old, new = self._path(), self._new()
            if rng.random() < .4:
                new = self._path()
            if old != new:
                os.rename(self.root + old, self.root + new)
                self.files[new] = self.files.pop(old)
        elif dice < .82:
            name = self._path()
            os.unlink(self.root + name)
            del self.files[name]
        elif dice < .86 and len(self.dirs) < 12:
            name = self._new()
            os.mkdir(self.root + name)
            self.dirs.append(name)
        elif dice < .92:
            handle = os.open(self.root + self._path(), os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
        elif dice < .93:
            os.sync()
        elif dice < .95 and sum(map(len, self.files.values())) > 12 << 20:
            for name in rng.sample(list(self.files), len(self.files) // 2):
                os.unlink(self.root + name)
                del self.files[name]
        else:
            self.compare([self._path()])

    def _write(self, handle, at, old):
        data = self.rng.randbytes(self.rng.choice((1, 500, 4096, 30000,
                                                   200000)))
        handle.seek(at)
        handle.write(data)
        if self.rng.random() < .2:
            handle.flush()
            os.fsync(handle.fileno())
        return old[:at].ljust(at, b"\0") + data + old[at + len(data):]

    def compare(self, names):
        for name in names:
            with open(self.root + name, "rb") as handle:
                got = handle.read()
            expect(hashlib.sha1(got).digest() ==
                   hashlib.sha1(self.files[name]).digest(),
                   f"{name} has other content than was written")

    def compare_all(self):
        found = {os.path.join(d, f)[len(self.root):]
                 for d, _, files in os.walk(self.root) for f in files}
        found = {f for f in found if "lost+found" not in f}
        expect(found == set(self.files), "other files than were made: " +
               ", ".join(sorted(found ^ set(self.files))[:5]))
        self.compare(self.files)


def operations(ctx, geo, kind, seed, steps, medium="ram"):
    for tool in (MKFS[kind][0], FSCK[kind][0]):
        if not shutil.which(tool):
            raise Skip(f"no {tool} here")
    if not modprobe(MODULE[kind]):
        raise Skip(f"no {kind} in this kernel")
    made = media.stack(ctx, geo, medium)
    path = made.open().path
    run(*MKFS[kind], path)
    os.makedirs(WHERE, exist_ok=True)
    tree = Tree(WHERE, random.Random(seed))

    def mount():
        run("mount", "-t", kind, "-o", "discard,noatime"
            if kind in ("ext4", "f2fs") else "noatime", path, WHERE)

    mount()
    cleaned = 0
    try:
        for i in range(steps):
            tree.step()
            if i % (steps // 3) == steps // 3 - 1:
                tree.compare_all()
                run("umount", WHERE)
                cleaned += _steps(made)
                made.close()
                made.check()
                path = made.open().path
                mount()
        tree.compare_all()
        run("fstrim", WHERE, ok=None)
        tree.compare_all()
    finally:
        run("umount", WHERE, ok=None)
    run(*FSCK[kind], path)
    made.verify()
    cleaned += _steps(made)
    made.close()
    made.check()
    judged = media.judge(made)
    size = sum(map(len, tree.files.values())) >> 10
    ctx.note(f"{steps} steps, {len(tree.files)} files, {size} KiB, "
             f"{cleaned} cleaning steps")
    return {"steps": steps, "cleaned": cleaned, **judged}


def _steps(made):
    """Return the cleaning steps since activation."""
    words = made.device.status().split()
    return int(words[2]) if len(words) > 2 else 0


def cases(target, options):
    seed, steps = int(options.get("seed", 1)), int(options.get("steps", 5000))
    out = [(f"{kind} on {geo.name}", lambda ctx, g=geo, k=kind:
            operations(ctx, g, k, seed, steps))
           for geo in target.geometry("fs") for kind in MKFS]
    if target.persistent:
        # Metadata on another device, so that the medium has whole tracks.
        geo = target.on_medium(target.geometry("fs")[0].but(
            band=60, track=16, head=2, meta="separate"))
        out += [(f"{kind} on {geo.name} over platter {target.medium}",
                 lambda ctx, k=kind: operations(ctx, geo, k, seed, steps, target.medium))
                for kind in MKFS]
    return out
