# SPDX-License-Identifier: GPL-2.0
"""The guest's part of imr, with the virtual clock: one load on one disk, without a
store except for verification.

  imr.py WORDS OUT    WORDS is a JSON object, see there

The statistics of the store, of the layer and of the medium go to OUT.
"""

import json
import subprocess
import sys
from pathlib import Path

from common.output import store
from guest import bench, dm, media

TOP = Path(bench.TOP)
def platter(words, store, sectors, **keys):
    keys = {**keys, "wcache": words["wcache"], **words["medium"]}
    return dm.Device("medium", [(
        0, sectors, "platter", f"{store} 0 {words['drive']} 0 {2 * len(keys)} " +
        " ".join(f"{k} {v}" for k, v in keys.items()))])


def medium(words):
    """Return a disk with the mechanics of the paper's, interlaced or plain, and the part that is
    used."""
    tracks = words["tracks"] + words["spare"]
    sectors = words["track_bytes"] // 512
    store = "none"
    # RAM for a store, and for metadata; brd allocates it as it is written.
    kib = max(1 << 18, tracks * sectors // 2 if words["store"] else 0)
    bench.modprobe("brd", "rd_nr=2", f"rd_size={kib}")
    if words["store"]:
        store = "/dev/ram0"
    if words["drive_sectors"]:
        # A shorter drive would have other seeks, because they scale with its length.  The drive's
        # own tracks are not interlaced, as in the paper.
        disk = platter(words, store, words["drive_sectors"])
        return disk, dm.Device("outside", [(0, tracks * sectors, "linear", f"{disk.path} 0")])
    disk = platter(words, store, tracks * sectors, track_sectors=sectors,
                   media="imr" if words["layer"] != "plain" else "cmr")
    return disk, disk


def target(path, words):
    """Create the imr target over a disk.  Its metadata are on another device, as the paper's map
    was; the backup region is on the disk."""
    keys = {"policy": words["policy"], "rmw": words["rmw"],
            # A flush makes the gathered tracks durable.
            "buffer_tracks": words["buffer_tracks"], **words["keys"]}
    bench.run("shingle", "create", "imr", "--no-udev", "--force", "--meta",
              "/dev/ram1", "--backup-tracks", 2 * words["file_tracks"],
              *(w for k, v in keys.items() for w in ("--set", f"{k}={v}")),
              path, "upper")
    return dm.made("upper")


def main():
    words, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    disk, used = medium(words)
    path, upper = used.path, None
    if words["layer"] == "target":
        upper = target(path, words)
        path = upper.path
    disk.message("stats_clear")
    done = subprocess.run(
        [TOP / "build/userspace/shingle-levels", "--json", *words["args"], path],
        check=False, text=True, stdout=subprocess.PIPE)
    if done.returncode:
        return done.returncode
    of = json.loads(done.stdout)
    of["words"] = words
    of["medium"] = media.numbers(disk.message("stats"))
    # Write atomically, because --resume uses every result that it finds.
    store(out, json.dumps(of))
    if upper:
        upper.remove()
    if used is not disk:
        used.remove()
    disk.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
