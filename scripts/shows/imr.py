# SPDX-License-Identifier: GPL-2.0
"""In a guest with the virtual clock, for scripts/shows/imr: one load on one
disk, without a store but for verification.

    imr.py WORDS OUT    WORDS is a JSON object, see there

The ledgers of the store, of the layer and of the medium go to OUT."""

import json
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tests/guest"))

# pylint: disable=wrong-import-position,import-error
import bench
import dm
import media


def platter(words, store, sectors, **keys):
    keys = {**keys, "wcache": words["wcache"], **words["medium"]}
    return dm.Device("medium", [(
        0, sectors, "platter", f"{store} 0 {words['drive']} 0 {2 * len(keys)} " +
        " ".join(f"{k} {v}" for k, v in keys.items()))])


def medium(words):
    """A disk with the mechanics of the paper's, interlaced or plain, and what of it is used."""
    tracks = words["tracks"] + words["spare"]
    sectors = words["track_bytes"] // 512
    store = "none"
    # RAM for a store, and for metadata; it is taken as it is written.
    kib = max(1 << 18, tracks * sectors // 2 if words["store"] else 0)
    bench.modprobe("brd", "rd_nr=2", f"rd_size={kib}")
    if words["store"]:
        store = "/dev/ram0"
    if words["drive_sectors"]:
        # A shorter drive is another one: its seeks are stretched.  Its own tracks are not
        # what is interlaced, as they were not in the paper.
        disk = platter(words, store, words["drive_sectors"])
        return disk, dm.Device("outside", [(0, tracks * sectors, "linear", f"{disk.path} 0")])
    disk = platter(words, store, tracks * sectors, track_sectors=sectors,
                   media="imr" if words["layer"] != "plain" else "cmr")
    return disk, disk


def target(path, words):
    """The imr target over a disk, its metadata on a device of their own, as the
    paper's map was; the backup region is on the disk."""
    keys = {"policy": words["policy"], "rmw": words["rmw"],
            # It is the flush that persists what is gathered.
            "buffer_tracks": words["buffer_tracks"], **words["keys"]}
    bench.run("shingle", "create", "imr", "--no-udev", "--force", "--meta",
              "/dev/ram1", "--backup-tracks", 2 * words["file_tracks"],
              *(w for k, v in keys.items() for w in ("--set", f"{k}={v}")),
              path, "upper")
    bench.run("dmsetup", "mknodes")
    return "/dev/mapper/upper"


def main():
    words, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    disk, used = medium(words)
    path, upper = used.path, None
    if words["layer"] == "target":
        upper = target(path, words)
        path = upper
    disk.message("stats_clear")
    done = subprocess.run(
        [TOP / "build/userspace/shingle-levels", "--json", *words["args"], path],
        check=False, text=True, stdout=subprocess.PIPE)
    if done.returncode:
        return done.returncode
    of = json.loads(done.stdout)
    of["words"] = words
    of["medium"] = media.numbers(disk.message("stats"))
    # All or nothing: --resume takes what it finds.
    fresh = out.with_name(out.name + ".new")
    fresh.write_text(json.dumps(of), encoding="ascii")
    fresh.replace(out)
    if upper:
        subprocess.run(["dmsetup", "remove", "--retry", "--noudevsync", "upper"], check=True)
    if used is not disk:
        used.remove()
    disk.remove()
    return 0


sys.exit(main())
