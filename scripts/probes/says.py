# SPDX-License-Identifier: GPL-2.0
"""What a drive says of itself: zones, rotation rate, TRIM.

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
SMART_ZONES = re.compile(r"^Zoned Device:\s*(host|device|drive)[ -](aware|managed)", re.I)


def of(sys, path):
    """What the device of that folder of sysfs says: {model, zones, rpm, rotational, discard_bytes,
    smartctl}, None for what nobody says.

    zones: host-managed, host-aware or device-managed.  rotational is what the kernel believes,
    which is what the drive says or, of a layer, what is below; rpm is the drive's own."""
    disk = disk_of(sys)
    said = {"model": None, "zones": None, "rpm": None, "layer": not (disk / "device").exists(),
            "rotational": _number(disk / "queue/rotational"),
            "discard_bytes": _number(disk / "queue/discard_max_bytes"), "smartctl": False}
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
    status, text = device.tool("smartctl", "--json=o", "-i", path)
    if status is None:
        return
    try:
        told = json.loads(text)
        lines = told.get("smartctl", {}).get("output", [])
    except (ValueError, AttributeError):
        return
    said["smartctl"] = True
    said["model"] = told.get("model_name") or said["model"]
    if isinstance(told.get("rotation_rate"), int):
        said["rpm"] = told["rotation_rate"]
    if said["zones"] is None:
        zones = next(filter(None, map(SMART_ZONES.match, map(str, lines))), None)
        if zones:
            said["zones"] = "-".join(zones.groups()).lower().replace("drive-", "device-")
    if not said["discard_bytes"] and told.get("trim", {}).get("supported"):
        said["discard_bytes"] = None    # the drive takes it, and the kernel does not send it
        said["trim"] = True


def spins(said):
    """Whether it has platters: True, False, or None if nobody says."""
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
        yield "by sysfs alone, as smartctl is not installed, or may not ask"
