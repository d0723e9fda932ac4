# SPDX-License-Identifier: GPL-2.0
"""The drive under test: whether it may be written to, and the settings that can be changed: the
kernel's read-ahead, look-ahead and write cache of the drive."""

import contextlib
import errno
import fcntl
import glob
import json
import os
import re
import shutil
import stat
import struct
import subprocess
from pathlib import Path

from common.output import store

BLKROGET, BLKRAGET, BLKRASET, BLKSSZGET, BLKPBSZGET, BLKGETSIZE64 = (
    0x125e, 0x1263, 0x1262, 0x1268, 0x127b, 0x80081272)
BLOCK = 4096
SMALLEST = 4 << 20      # bytes; a smaller device has no room for the tests
SHINGLE_MAGIC = b"SHSB"     # superblock of dm-shingle's layers, which libblkid does not know


class Refused(Exception):
    """The device is not tested; the text says why."""


def tool(*command):
    """(status, output) of a program, or (None, "") if it is not installed."""
    path = shutil.which(command[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        return None, ""
    done = subprocess.run([path, *map(str, command[1:])], text=True, check=False,
                          errors="replace", stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def read(path):
    """The contents of a file of sysfs or procfs, or an empty text."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def message(name, text):
    """Sends a message to a mapped device; returns its answer, or None if it was refused."""
    status, said = tool("dmsetup", "message", name, "0", text)
    return said if status == 0 else None


class Device:
    """A block device, held open exclusively so that it is not mounted meanwhile.

    path, bytes, block (bytes; the unit of the tests), label (for the report)."""


    _lost = False       # another drive has its name now
    discarded = False   # reset() discarded everything, so that nothing is read from the medium

    def __init__(self, path, destroy_data=False, option="--destroy-data"):
        """@option is the command line's name for @destroy_data."""
        self.path, self._option = str(path), option
        self._fd = self._open(destroy_data)
        self._look()
        self.block = max(BLOCK, self._int(BLKPBSZGET))
        self._switches = {"read_ahead": ReadAhead(self)}
        self._switches.update(_drive_switches(self))
        self.unrestored = {}        # by name of the switch: the value that could not be restored

    def _look(self):
        """Reads size, place in sysfs and label."""
        self.bytes = self._size()
        number = os.fstat(self._fd).st_rdev
        # The number may change when the drive disappears and returns.
        self.sys = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
        self.label = self._label()

    # --- may it be written to? -----------------------------------------------

    def _reach(self, flags):
        """Opens it for reading; Refused if that fails, or if it is no block device."""
        path = self.path
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from error
        if not stat.S_ISBLK(mode):
            raise Refused(f"{path} is not a block device")
        try:
            return os.open(path, os.O_RDONLY | flags | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise Refused(f"{path} is in use: {_who(path)}") from error
            if error.errno in (errno.EACCES, errno.EPERM):
                raise Refused(f"{path} may only be opened by root") from error
            raise Refused(f"{path}: {error.strerror}") from error

    def _open(self, destroy_data):
        path, fd = self.path, self._reach(os.O_EXCL)
        try:
            self._fd = fd
            if self._int(BLKROGET):
                raise Refused(f"{path} is read-only")
            if self._size() < SMALLEST:
                raise Refused(f"{path} has {self._size()} bytes; tests need "
                              f"{SMALLEST >> 20} MiB at least")
            if self._int(BLKSSZGET) > BLOCK:
                raise Refused(f"{path} has sectors of {self._int(BLKSSZGET)} bytes; "
                              f"tests write {BLOCK}")
            found = signatures(path)
            if found and not destroy_data:
                raise Refused(f"{path} holds {found}; {self._option} overwrites it")
            # Find out now, before any test, whether it can be opened for writing.
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            os.close(fd)
            raise Refused(f"{path} can't be written to: {error.strerror}") from error
        except Refused:
            os.close(fd)
            raise
        return fd

    def _leads_to_it(self):
        """Whether the path still leads to the device that is held; a link may have been
        replaced."""
        try:
            return os.stat(self.path).st_rdev == os.fstat(self._fd).st_rdev
        except OSError:
            return False

    def held(self):
        """The descriptor; OSError if the device has gone, or another one has its name."""
        if self._fd < 0 or not self._leads_to_it():
            raise OSError(errno.ENODEV, f"{self.path} is not there any more, or is another "
                          "drive: it is left alone")
        return self._fd

    def _ioctl(self, number, buf):
        fcntl.ioctl(self.held(), number, buf)
        return buf

    def _int(self, number):
        return struct.unpack("i", self._ioctl(number, bytearray(4)))[0]

    def _size(self):
        return struct.unpack("Q", self._ioctl(BLKGETSIZE64, bytearray(8)))[0]

    def _label(self):
        """The model as the drive reports it, or the kernel's name of the device."""
        words = [read(self.sys / "device" / n) for n in ("vendor", "model")]
        return " ".join(w for w in words if w) or read(self.sys / "dm/name") \
            or os.path.basename(os.path.realpath(self.path))

    def identity(self):
        """The properties that a resumed run must find again."""
        return {"bytes": self.bytes, "label": self.label,
                "serial": read(self.sys / "device/serial") or read(self.sys / "wwid")
                or read(self.sys / "device/wwid") or read(self.sys / "dm/uuid")}

    # --- settings --------------------------------------------------------------

    def offers(self, name):
        """Whether read_ahead, look_ahead or write_cache can be switched here."""
        return name in self._switches

    @contextlib.contextmanager
    def settings(self, note, **wanted):
        """Changes the settings that the device offers, and restores them after the block.

        The file @note has the values to restore, for the case that the run is killed, and
        values that an earlier block could not restore; these are tried again first, and at
        the end.  Yields the names of settings that could not be changed; see unrestored."""
        self.restore_from(note)
        before, missing = dict(self.unrestored), []
        try:
            for name, value in wanted.items():
                switch = self._switches.get(name)
                had = switch.get() if switch else None
                if had is None:
                    missing.append(name)
                    continue
                new = switch.value(value)
                if had == new:
                    continue
                before.setdefault(name, had)
                store(note, json.dumps(before))
                if not self._turn(name, new):
                    missing.append(name)
            yield missing
        finally:
            self._restore(before, note)

    def _turn(self, name, value):
        """Sets a switch; returns whether it has that value afterwards."""
        switch = self._switches.get(name)
        if switch is None or self._lost or (self._fd >= 0 and not self._leads_to_it()):
            return False
        try:
            switch.set(value)
            return switch.get() == value
        except OSError:
            return False

    def _restore(self, before, note):
        """Restores what it can; @note keeps the rest for the next block or run."""
        left = [name for name in reversed(list(before)) if not self._turn(name, before[name])]
        self.unrestored = {name: value for name, value in before.items() if name in left}
        if not left:
            note.unlink(missing_ok=True)
        elif len(left) < len(before):
            # Without room for the shorter note the longer one stays, which does no harm.
            with contextlib.suppress(OSError):
                store(note, json.dumps(self.unrestored))

    def restore_from(self, note):
        """Restores settings after a run that was killed; returns their names, see unrestored."""
        try:
            before = dict(json.loads(note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            self.unrestored = {}
            return []
        self._restore(before, note)
        return [name for name in before if name not in self.unrestored]

    def by_hand(self):
        """Commands that restore by hand what could not be restored."""
        return "; ".join(self._switches[name].by_hand(value) if name in self._switches
                         else f"{name} back to {value}"
                         for name, value in self.unrestored.items())

    # --- default state ---------------------------------------------------------

    def reset(self):
        """Secure erase, or discard of everything; False if the device offers neither."""
        self.held()
        if (self.sys / "dm").exists() and self.message("reset") is not None:
            self.discarded = False
            return True
        if int(read(self.sys / "queue/discard_max_bytes") or 0) and \
                tool("blkdiscard", "--force", self.path)[0] == 0:
            self.discarded = True
            return True
        return False

    def unmapped(self):
        """A sentence if a discard takes the room of blocks away from this device, or from one
        below it, so that they are read from nowhere afterwards; else an empty text."""
        todo = [self.sys]
        while todo:
            at = todo.pop(0)
            if (at / "loop").exists():
                return "it is a loop device, or on one, and a discard punches holes into its file"
            name = read(at / "dm/name")
            _, table = tool("dmsetup", "table", name) if name else (0, "")
            if any(line.split()[2:3] == ["thin"] for line in table.splitlines()):
                return "it is a thin volume, or on one, and a discard unmaps its chunks"
            todo += sorted(Path(p) for p in glob.glob(f"{at}/slaves/*"))
        return ""

    def holds_zeros(self, offsets):
        """Whether the blocks at all these offsets hold nothing but zeros."""
        return not any(any(os.pread(self.held(), BLOCK, int(o))) for o in offsets)

    def message(self, text):
        """Sends a message to a mapped device; returns its answer, or None if it was refused."""
        return message(read(self.sys / "dm/name"), text)

    def mapped(self):
        """Names of the mapped devices in this stack: the device itself first, then those below
        it."""
        names, todo = [], [self.sys]
        while todo:
            at = todo.pop(0)
            name = read(at / "dm/name")
            if name and name not in names:
                names.append(name)
            todo += sorted(Path(p) for p in glob.glob(f"{at}/slaves/*"))
        return names

    def served(self):
        """Requests that the device has completed since it was created."""
        words = read(self.sys / "stat").split()
        return int(words[0]) + int(words[4]) if len(words) > 4 else 0

    def close(self):
        """Closes the device."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    @contextlib.contextmanager
    def released(self):
        """Closes the device for the time of the block, in which it may disappear and return
        (Test 13).  If another drive has its name then, that drive is closed, too, and OSError
        is raised."""
        was = self.identity()
        self.close()
        try:
            yield
        finally:
            self._take_again(was)

    def _take_again(self, was):
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        except OSError as error:
            raise OSError(error.errno, f"{self.path} did not come back: {error.strerror}"
                          ) from error
        try:
            self._look()
            now = self.identity()
            if now != was:
                raise OSError(errno.ENODEV, f"{self.path} came back as another drive, which "
                              f"is left alone: it was {_named(was)}, and is {_named(now)}")
        except OSError:
            self.close()
            self._lost = True
            self.bytes, self.label = was["bytes"], was["label"]
            raise

    def read_ahead_sectors(self, value=None):
        """Gets or sets the kernel's read-ahead of the device."""
        if value is None:
            return struct.unpack("l", self._ioctl(BLKRAGET, bytearray(8)))[0]
        fcntl.ioctl(self.held(), BLKRASET, value)
        return value


class Seen(Device):
    """A device that is only read, and that may be in use."""

    def _open(self, destroy_data):
        return self._reach(0)


def _named(identity):
    return " ".join(filter(None, (identity["label"], identity["serial"]))) + \
        f" with {identity['bytes']} bytes"


def signatures(path):
    """The contents, as far as libblkid and dm-shingle's tools know them, or an empty text."""
    with open(path, "rb", buffering=0) as handle:
        if handle.read(BLOCK)[:4] == SHINGLE_MAGIC:
            return "a shingled layer (shingle check tells more)"
    status, said = tool("wipefs", "--no-act", "--parsable", path)
    if status is None:
        raise Refused("wipefs is not installed, and no other program finds what "
                      f"{path} holds: apt install util-linux")
    if status:
        raise Refused(f"{path}: wipefs cannot look at it: {said.strip()}")
    kinds = [line.split(",")[3] for line in said.splitlines()
             if line and not line.startswith("#")]
    return " and ".join(dict.fromkeys(kinds))


def _who(path):
    """The user of the device, or of a partition: a mount, swap, a device above it."""
    number = os.stat(path).st_rdev
    top = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    parts = [top, *(os.path.dirname(p) for p in glob.glob(f"{top}/*/partition"))]
    numbers = {read(f"{part}/dev") for part in parts} - {""}
    for line in read("/proc/self/mountinfo").splitlines():
        words = line.split()
        if words[2] in numbers:
            return f"mounted on {words[4]}"
    names = {os.path.basename(part) for part in parts}
    for line in read("/proc/swaps").splitlines()[1:]:
        if os.path.basename(os.path.realpath(line.split()[0])) in names:
            return "swap"
    holders = [read(f"{h}/dm/name") or os.path.basename(h)
               for part in parts for h in glob.glob(f"{part}/holders/*")]
    return f"by {', '.join(holders)}" if holders else "another program has it open exclusively"


# --- switches -------------------------------------------------------------------

class ReadAhead:
    """The kernel's read-ahead.  Direct I/O does not use it; the thesis (Aghayev 2020) switched
    it."""

    def __init__(self, dev):
        self.dev = dev

    def get(self):
        """Sectors."""
        return self.dev.read_ahead_sectors()

    def value(self, wanted):
        """The setting for on or off."""
        return max(self.get(), 256) if wanted else 0

    def set(self, value):
        """Sets sectors: whole pages, as get() and value() return them."""
        self.dev.read_ahead_sectors(value)

    def by_hand(self, value):
        """A command that restores it."""
        return f"blockdev --setra {value} {self.dev.path}"


class Hdparm:
    """An option letter of hdparm with the values 0 and 1."""

    def __init__(self, dev, letter):
        self.dev, self.letter = dev, letter

    def get(self):
        """True or False, or None if the drive does not report it."""
        status, said = tool("hdparm", f"-{self.letter}", self.dev.path)
        found = re.search(r"=\s+(\d) ", said)
        return bool(int(found[1])) if status == 0 and found else None

    @staticmethod
    def value(wanted):
        """The same value."""
        return bool(wanted)

    def set(self, value):
        """Sets it on or off."""
        tool("hdparm", f"-{self.letter}{int(value)}", self.dev.path)

    def by_hand(self, value):
        """A command that restores it."""
        return f"hdparm -{self.letter}{int(value)} {self.dev.path}"


class CacheType:
    """The write cache of a SCSI or SATA disk, by its mode page."""

    def __init__(self, path):
        self.path = path

    def get(self):
        """True or False."""
        return read(self.path) == "write back"

    @staticmethod
    def value(wanted):
        """The same value."""
        return bool(wanted)

    def set(self, value):
        """Sets it on or off."""
        with contextlib.suppress(OSError):
            Path(self.path).write_text(self._word(value), encoding="ascii")

    def by_hand(self, value):
        """A command that restores it."""
        return f"echo {self._word(value)} > {self.path}"

    @staticmethod
    def _word(value):
        return "write back" if value else "write through"


class Message:
    """A message of a mapped device; stands for -W or -A of a drive."""

    def __init__(self, dev, word, now):
        self.dev, self.word, self.now = dev, word, now

    def get(self):
        """The value that was set last."""
        return self.now

    @staticmethod
    def value(wanted):
        """The same value."""
        return bool(wanted)

    def set(self, value):
        """Sets it on or off."""
        if self.dev.message(f"{self.word} {'on' if value else 'off'}") is not None:
            self.now = value

    def by_hand(self, value):
        """A command that restores it."""
        return (f"dmsetup message {read(self.dev.sys / 'dm/name')} 0 {self.word} "
                f"{'on' if value else 'off'}")


def _drive_switches(dev):
    """The switches that the drive itself has."""
    if (dev.sys / "dm").exists():
        return _mapped(dev)
    found = {}
    for name, letter in (("write_cache", "W"), ("look_ahead", "A")):
        switch = Hdparm(dev, letter)
        if switch.get() is not None:
            found[name] = switch
    cache_type = glob.glob(f"{dev.sys}/device/scsi_disk/*/cache_type")
    if "write_cache" not in found and cache_type:
        found["write_cache"] = CacheType(cache_type[0])
    return found


def _mapped(dev):
    """The switches of a mapped device, with the state that its table shows.

    Nothing else is read from the table.  A layer that gathers writes has a write cache that
    its table does not show: it is on, and only then does the layer accept the message that
    switches it on.  A platter always accepts the message, and its table shows the state."""
    _, table = tool("dmsetup", "table", read(dev.sys / "dm/name"))
    found = {}
    for name, word in (("write_cache", "wcache"), ("look_ahead", "lookahead")):
        state = re.search(rf"\b{word} (on|off)\b", table)
        tacit = not state and word == "wcache" and table.split()[2:3] != ["platter"]
        now = state[1] == "on" if state else tacit and dev.message("wcache on") is not None
        # Setting the present value changes nothing, and shows whether the message is accepted.
        if dev.message(f"{word} {'on' if now else 'off'}") is not None:
            found[name] = Message(dev, word, now)
    return found
