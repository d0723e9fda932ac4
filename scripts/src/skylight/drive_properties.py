# SPDX-License-Identifier: GPL-2.0
"""Properties that a drive reports: zones, rotation rate, TRIM.

From sysfs, which has the kernel's view of the queue and the drive's own page of block device
characteristics (VPD B1; libata makes it of word 69 of the identify data), and from smartctl,
where it is installed.  Nothing of it is measured, and nothing of it needs the drive's time."""

import json
import re
from pathlib import Path

from . import device

# Field ZONED of VPD page B1, as bits 1:0 of word 69 of the identify data.
ZONED = {1: "host-aware", 2: "device-managed"}
SPINS = range(0x401, 0xffff)    # rotations a minute; 1 is a drive without platters
# "Zoned Device: Device managed zones" of an ATA drive, "Host aware zoned block capable" of a SCSI
# drive, "Device type: host managed zoned block device"; and the same in names and values of JSON.
SMART_ZONES = re.compile(r"(?:^|\b|_)(host|device|drive)[ _-](aware|managed)", re.I)
SMART_LINES = re.compile(r"^(?:Zoned Device:|Device type:|(?:host|device) (?:aware|managed) zoned)",
                         re.I)
# Bits of smartctl's exit status: a command line that it does not accept, a device that it cannot
# open, and a command of the drive that failed.
NOT_ASKED = 0x3


def of(sys, path):
    """Return the properties that sysfs has for a device: {model, zones, rpm, rotational, discard_bytes,
    smartctl, smartctl_says}; None for a value that the device does not report.

    zones: host-managed, host-aware or device-managed.  rotational is the kernel's value: the
    drive's, or for a layer that of the device below.  rpm is the drive's own.  smartctl: whether
    smartctl could ask the drive; smartctl_says: its message if not."""
    disk = disk_of(sys)
    said = {"model": None, "zones": None, "rpm": None, "layer": not (disk / "device").exists(),
            "rotational": _number(disk / "queue/rotational"),
            "discard_bytes": _number(disk / "queue/discard_max_bytes"), "smartctl": False,
            "smartctl_says": None}
    if said["rotational"] is not None:
        said["rotational"] = bool(said["rotational"])
    said["model"] = " ".join(filter(None, (device.read(disk / "device" / n)
                                           for n in ("vendor", "model")))) or None
    queue = device.read(disk / "queue/zoned")
    _page(said, disk / "device/vpd_pgb1")
    if queue in ("host-managed", "host-aware"):
        said["zones"] = queue
    if not said["layer"]:
        _smart(said, path)
    return said


def disk_of(sys):
    """The folder of the disk that a partition's folder of sysfs is of; or itself."""
    sys = Path(sys).resolve()
    return sys.parent if (sys / "partition").exists() else sys


def _number(path):
    text = device.read(path)
    return int(text) if text.isdigit() else None


def _page(said, path):
    """VPD page B1."""
    try:
        page = path.read_bytes()
    except OSError:
        return
    if len(page) > 8 and page[1] == 0xb1:
        rate = int.from_bytes(page[4:6], "big")
        said["rpm"] = rate if rate in SPINS else 0 if rate == 1 else None
        said["zones"] = ZONED.get(page[8] >> 4 & 3)


def _smart(said, path):
    """smartctl reads the identify data itself, also behind a bridge that hides them."""
    told, why = _ask(path)
    if told is None and why and re.search(r"USB bridge|device type|'-d sat'", why):
        # Nearly all bridges pass commands on in this way, known to smartctl or not.
        told, _ = _ask(path, "-d", "sat")
    if told is None:
        said["smartctl_says"] = why
        return
    lines = told.get("smartctl", {}).get("output", [])
    said["smartctl"] = True
    said["model"] = told.get("model_name") or told.get("scsi_model_name") or said["model"]
    if isinstance(told.get("rotation_rate"), int):
        said["rpm"] = told["rotation_rate"]
    if said["zones"] is None:
        words = [str(told.get("zoned_device", "")),
                 *(name for name in told if name.startswith("scsi_") and "zoned" in name and
                   told[name] is True),
                 *(line for line in map(str, lines) if SMART_LINES.match(line))]
        zones = next(filter(None, map(SMART_ZONES.search, words)), None)
        if zones:
            said["zones"] = "-".join(zones.groups()).lower().replace("drive-", "device-")
    if not said["discard_bytes"] and _of(told, "trim").get("supported"):
        said["discard_bytes"] = None    # the drive takes it, and the kernel does not send it
        said["trim"] = True


def _of(told, name):
    """The object of that name, or an empty one."""
    value = told.get(name)
    return value if isinstance(value, dict) else {}


def _ask(path, *options):
    """(smartctl's answer, None); or (None, why there is none): its own message, or None if it is
    not installed.  smartctl also prints JSON when it could not ask the drive."""
    status, text = device.tool("smartctl", "--json=o", "-i", *options, path)
    if status is None:
        return None, None
    try:
        told = json.loads(text)
        own = _of(told, "smartctl")
        status = own.get("exit_status", status)
        said = [str(message.get("string", "")) for message in own.get("messages", [])]
        lines = list(map(str, own.get("output", [])))
    except (ValueError, AttributeError, TypeError):
        return None, "smartctl printed no JSON"
    # Without its model a drive has not answered, whatever the status says.
    known = {"model_name", "scsi_model_name", "scsi_product"} & told.keys()
    if known and not (isinstance(status, int) and status & NOT_ASKED):
        return told, None
    return None, next(filter(None, (*said, *(line.strip() for line in lines
                                             if not line.startswith(("smartctl ", "Copyright"))))),
                      f"smartctl ended with {status}")


def spins(said):
    """Whether it has platters: True, False, or None if unknown."""
    return bool(said["rpm"]) if said["rpm"] is not None else said["rotational"]


def trims(said):
    """Whether it takes TRIM."""
    return bool(said["discard_bytes"] or said.get("trim"))


def lines(said):
    """For people."""
    yield f"model: {said['model'] or 'does not say'}"
    yield "zones: " + (said["zones"] or "reports none, which does not mean that it has none")
    turns = {True: "yes", False: "no", None: "does not say"}[spins(said)]
    yield f"platters: {turns}" + (f", {said['rpm']} rotations a minute" if said["rpm"] else "")
    yield f"TRIM: {'yes' if trims(said) else 'no'}"
    if said["layer"]:
        yield "a layer of the kernel, and no drive: what is below may say more"
    elif not said["smartctl"]:
        yield "by sysfs alone, as smartctl " + (
            f"could not ask: {said['smartctl_says']}" if said["smartctl_says"] else
            "is not installed")
