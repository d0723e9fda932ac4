# SPDX-License-Identifier: GPL-2.0
"""The guest's part of kv, with the virtual clock: a key-value store on one emulated
drive.

  kv.py WORDS OUT         WORDS is a file with a JSON object, see there

Each sitting begins with an empty store on a new drive and runs kvbench several times, one run after
another, with the kernel's caches dropped in between.  The memory of a store may be limited, page
cache included.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from guest import bench, media

from experiments.in_guest import rebuild, stack
from experiments.evaluation import run_phases

TOP = Path(bench.TOP)
KV, KVBENCH = TOP / "build/userspace/kv", TOP / "build/userspace/kvbench"
MOUNT, GROUP = Path("/tmp/store"), Path("/tmp/cgroup")
META = rebuild.MEMBERS + 1      # the index of rebuild.Drive's metadata disk for its first drive
OFFLOAD = f"/dev/ram{META + 1}"
SECTOR = 512
# Counters of layers; 0 for a layer that does not have them.
CLEANING = ("bands_cleaned", "clean_read_blocks", "clean_write_blocks")
INTERLACED = ("imr_rewrites", "imr_epochs", "imr_epoch_tracks", "imr_bottoms_allocated",
              "imr_bottoms_rmw", "imr_tier_misses", "imr_sync_adjacent", "imr_sync_map",
              *(f"imr_sync_{i}" for i in range(1, 6)), "step_backup_us", "step_write_us",
              "step_restore_us", "step_sync_us")


def confined(memory_mib):
    """Create a control group with @memory_mib MiB of memory, or without a limit."""
    GROUP.mkdir()
    bench.run("mount", "-t", "cgroup2", "none", GROUP)
    (GROUP / "cgroup.subtree_control").write_text("+memory")
    (GROUP / "store").mkdir()
    (GROUP / "store/memory.max").write_text(f"{memory_mib << 20}" if memory_mib else "max")


def in_group(*words):
    done = subprocess.run(
        ["sh", "-c", f'echo $$ >{GROUP}/store/cgroup.procs; exec "$@"', "sh",
         *(str(w) for w in words)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise bench.Failure(f"{' '.join(map(str, words))} ended with {done.returncode}: "
                            f"{done.stderr.strip()}")
    return done.stdout


def emptied():
    """Write back all dirty data and drop all caches."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


class Store:
    """An empty store on a drive."""

    def __init__(self, words, drive):
        self.words, self.drive = words, drive
        if words["store"] == "kv":
            self.path = drive.path
            bench.run(KV, "format", "--force", "--band", words["band"], "--organisation",
                      words["organisation"], drive.path)
            if words.get("offload"):
                bench.run(KV, "offload", "--force", drive.path, OFFLOAD)
            return
        bench.run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", drive.path)
        MOUNT.mkdir(exist_ok=True)
        bench.run("mount", "-t", "ext4", drive.path, MOUNT)
        self.path = MOUNT / "db"

    def close(self):
        if self.words["store"] != "kv":
            bench.run("umount", MOUNT)
        self.drive.remove()

    def sums(self):
        """Return the bytes that the store read from and wrote to its device, and the counters
        below it."""
        fields = Path(f"/sys/block/{Path(self.drive.top.path).name}/stat").read_text().split()
        out = {"read_bytes": int(fields[2]) * SECTOR, "written_bytes": int(fields[6]) * SECTOR}
        medium = media.stats(self.drive.medium)
        layer = media.stats(self.drive.layer) if self.drive.layer else {}
        out.update({name: medium[name] for name in
                    ("media_blocks_read", "media_blocks_written", "seeks")})
        out.update({name: layer.get(name, 0) for name in
                    (*CLEANING, *INTERLACED)})
        return out

    def phase(self, words):
        """Run kvbench once."""
        emptied()
        before = self.sums()
        of = json.loads(in_group(
            KVBENCH, "run", "--json", "-s", self.words["store"], "-d", self.path,
            *self.words["options"],
            *(["--offload", OFFLOAD] if self.words.get("offload") else []), *words))
        emptied()
        after = self.sums()
        of["disk"] = {name: after[name] - before[name] for name in after}
        return of


def measure(words):
    bench.modprobe("brd", f"rd_nr={META + 2}",
                   f"rd_size={max(words['drive_mib'], rebuild.META_MIB) << 10}")
    confined(words["memory_mib"])
    out = {"phases": {}, "late_us": 0, "layer": {"r0_violations": 0},
           "medium": {"destroyed_reads": 0}}
    for sitting in words["sittings"]:
        for ram in (0, META, META + 1):
            bench.run("blkdiscard", f"/dev/ram{ram}")
        drive = rebuild.Drive(0, words)
        store = Store(words, drive)
        out["phases"].update(run_phases(sitting, store.phase))
        medium = media.stats(drive.medium)
        out["late_us"] = max(out["late_us"], medium["late_max_us"])
        out["medium"]["destroyed_reads"] += medium["destroyed_reads"]
        out["layer"]["r0_violations"] += media.stats(drive.layer)["r0_violations"] \
            if drive.layer else 0
        store.close()
    return out


if __name__ == "__main__":
    sys.exit(stack.answered(measure))
