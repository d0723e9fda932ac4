# SPDX-License-Identifier: GPL-2.0
"""Compare what the imr target counts for a load of shingle-levels with the model in shingle-levels
for the same files.

Both were written independently from the same papers.  A discarded track may be reused when its
record is durable, and a timer (commit_ms) can cause that; without the timer nothing depends on
time, and both must agree to the last rewrite and the last sync.  Everything is read back from a
medium that destroys the tops beside a bottom.
"""

import json
import os

from guest import media
from guest.bench import TOP, expect, run
from guest.targets import Geometry

TRACK, FILE = 4, 8          # blocks, tracks
TRACKS = 480
LEVELS = os.path.join(TOP, "build/userspace/shingle-levels")
SCHEMES = tuple((policy, rmw) for policy in ("seq", "3phase", "zigzag", "compaction")
                for rmw in ("naive", "merged"))

# The model's name of each of the target's counters.
SAME = {
    "rewrites": "imr_rewrites", "backups": "imr_backups", "files": "imr_epochs",
    "rmw_files": "imr_epochs_rmw", "tracks": "imr_epoch_tracks",
    "bottoms": "imr_bottoms_allocated", "tops": "imr_tops_allocated",
    "bottoms_rmw": "imr_bottoms_rmw",
}
SYNCS = {
    "adjacent": "imr_sync_adjacent", "backup": "imr_sync_1", "bottom": "imr_sync_2",
    "restore": "imr_sync_3", "free": "imr_sync_4", "last": "imr_sync_5",
}


def counts(of):
    """Return {name: (target's, model's)}."""
    target, model = of["target"], of["models"][0]
    both = {name: (target[theirs], model[name]) for name, theirs in SAME.items()}
    both["tier misses"] = (target["imr_tier_misses"], model["tier_miss"] + model["surplus"])
    for name, theirs in SYNCS.items():
        both[f"syncs: {name}"] = (target[theirs], model["sync"][name])
    return both


def load(ctx, policy, rmw, moves, *options):
    """Run one load; return the report of shingle-levels."""
    geo = Geometry("levels", band=TRACK, data=TRACKS, cache=2 * FILE, meta="separate",
                   journal=64, ckpt=16, options=(
                       ("policy", policy), ("rmw", rmw),
                       ("buffer_tracks", 2 * FILE), ("destage_ms", 0),
                       ("commit_ms", 0), *options))
    made = media.stack(ctx, geo, "imr")
    made.open()
    _, out = run(
        LEVELS, "--json", "--verify", "--hints", "--tracks", TRACKS, "--track",
        f"{4 * TRACK}K", "--file", f"{4 * TRACK * FILE}K", "--level1",
        f"{16 * TRACK * FILE}K", "--factor", 4, "--record", "1K", "--load",
        f"{TRACKS * TRACK * 3}K", "--pick", "overlap", "--moves", moves,
        "--model", ",".join([policy, rmw, "pending", *("=".join(o) for o in options)]),
        made.device.path)
    of = json.loads(out)
    expect(not of["device"]["bad_blocks"], f"{of['device']['bad_blocks']} blocks are lost")
    made.verify()
    media.judge(made)
    made.close()
    return of


def agree(ctx, policy, rmw, moves, *options):
    of = load(ctx, policy, rmw, moves, *options)
    wrong = [f"{name} {a}, of the model {b}"
             for name, (a, b) in counts(of).items() if a != b]
    expect(not wrong, "; ".join(wrong))
    expect(of["target"]["imr_epochs"] > 100, "hardly anything was written")
    return {"rewrites": of["target"]["imr_rewrites"]}


def parts_of_tracks(ctx):
    """Levels consist of whole tracks of the disk, so files begin on these."""
    geo = Geometry("levels", band=TRACK, data=TRACKS, cache=2 * FILE, meta="separate",
                   journal=64, ckpt=16)
    made = media.stack(ctx, geo, "imr")
    made.open()
    for blocks in (TRACK // 2, TRACK + 2):
        _, out = run(LEVELS, "--hints", "--tracks", 64, "--track", f"{4 * blocks}K", "--file",
                     f"{4 * blocks * FILE}K", "--level1", f"{16 * blocks * FILE}K",
                     "--record", "1K", made.device.path, ok=(8,))
        expect(out == f"shingle: tracks of {4 * blocks} KiB are no multiple of those of "
               f"DEVICE {made.device.path}, which are of {4 * TRACK} KiB: choose another "
               "--track\n", f"it says: {out}")
    made.close()
    return {}


def cases(_target, _options):
    out = [(f"{policy} {rmw} {moves}",
            lambda ctx, p=policy, r=rmw, m=moves: agree(ctx, p, r, m))
           for policy, rmw in SCHEMES for moves in ("keep", "silent", "rewrite")]
    out += [(f"compaction {rmw} {moves}, largest most",
             lambda ctx, r=rmw, m=moves: agree(ctx, "compaction", r, m, ("largest", "most")))
            for rmw in ("naive", "merged") for moves in ("keep", "silent", "rewrite")]
    out.append(("levels of parts of tracks", parts_of_tracks))
    return out
