# SPDX-License-Identifier: GPL-2.0
"""Fictive drives in DiskSim's format: one for each sparing scheme, and together with every setting
that disksim_drive.py reads.  Their traces have requests but no meaningful times.  They show what
the model computes without anyone's measured data."""

MODEL = """dm_disk {name}_model {{
   Number of data surfaces = {surfaces},
   Number of cylinders = 60,
   Block count = {lbns},
   Layout Model = dm_layout_g1 {{
      LBN-to-PBN mapping scheme = {mapping},
      Sparing scheme used = {scheme},
      Rangesize for sparing = 4,
      Zones = [
{zones}
      ]
   }},
   Mechanical Model = dm_mech_g1 {{
      Access time type = trackSwitchPlusRotation,
      Seek type = {seek},
      Single cylinder seek time = 1.2,
      Average seek time = 5.0,
      Constant seek time = 5.0,
      Full strobe seek time = 9.0,
      Full seek curve = {name}.seek,
      HPL seek equation values = [ 20, 1.0, 0.5, 2.0, 0.08, -1.0 ],
      First ten seek times = [ 1.2, 1.4, 1.5, 1.6, 1.7, 1.8, 2.0, 1.9, 2.1, 2.2 ],
      Add. write settling delay = {settle},
      Head switch time = 0.8, # shorter than a seek
      Rotation speed (in rpms) = 6000,
      Percent error in rpms = 0.0
   }}
}}
"""

ZONE = """         dm_layout_g1_zone {{
            First cylinder number = {first},
            Last cylinder number = {last},
            Blocks per track = {track},
            Offset of first block = {offset},
            Empty space at zone front = {front},
            Skew for track switch = 9,
            Skew for cylinder switch = 14,
            Number of spares = {spares},
            slips = [ {slips} ],
            defects = [ {defects} ]
         }}"""

SPECS = """disksim_disk {name}_drive {{
   Model = source {name}.model,
   Per-request overhead time = 0.05,
   Time scale for overheads = 1.0,
   Bulk sector transfer time = 0.04,
   Hold bus entire read xfer = {hold},
   Hold bus entire write xfer = {hold_write},
   Allow almost read hits = 0,
   Allow sneaky full read hits = 0,
   Allow sneaky partial read hits = 0,
   Allow sneaky intermediate read hits = 0,
   Allow read hits on write data = 1,
   Allow write prebuffering = 0,
   Preseeking level = 0,
   Never disconnect = {never},
   Print stats = 1,
   Avg sectors per cylinder = 120,
   Max queue length = 1,
   Scheduler = disksim_ioqueue {{
      Scheduling policy = 1,
      Maximum concat size = 0
   }},
   Number of buffer segments = {segments},
   Maximum number of write segments = 1,
   Segment size (in blks) = {segment},
   Use separate write segment = {separate},
   Low (write) water mark = {low_water},
   High (read) water mark = {water},
   Set watermark by reqsize = {by_request},
   Calc sector by sector = 1,
   Enable caching in buffer = 1,
   Buffer continuous read = {ahead},
   Minimum read-ahead (blks) = 0,
   Maximum read-ahead (blks) = {ahead_blocks},
   Read-ahead over requested = {over},
   Read-ahead on idle hit = {on_hit},
   Read any free blocks = 0,
   Fast write level = {fast},
   Immediate buffer read = {immediate},
   Immediate buffer write = 0,
   Combine seq writes = 1,
   Stop prefetch in sector = {stop},
   Disconnect write if seek = 0,
   Write hit stop prefetch = 1,
   Read directly to buffer = 1,
   Immed transfer partial hit = 1,
   Read hit over. after read = 0.3,
   Read hit over. after write = 0.5,
   Read miss over. after read = 0.6,
   Read miss over. after write = 0.7,
   Write hit over. after read = 0.45,
   Write hit over. after write = 0.35,
   Write miss over. after read = 0.9,
   Write miss over. after write = 0.8,
   Read completion overhead = 0.06,
   Write completion overhead = 0.05,
   Data preparation overhead = 0.02,
   First reselect overhead = 0.16,
   Other reselect overhead = 0.13,
   Read disconnect afterread = 0.02,
   Read disconnect afterwrite = 0.03,
   Write disconnect overhead = 0.17,
   Extra write disconnect = {extra},
   Extradisc command overhead = 0.64,
   Extradisc disconnect overhead = 0.05,
   Extradisc inter-disconnect delay = 0.43,
   Extradisc 2nd disconnect overhead = 0.13,
   Extradisc seek delta = 0.25,
   Minimum seek delay = 0.6
}}
"""

PARV = """disksim_bus BUS0 {{
   Arbitration time = 0.0,
   Read block transfer time = 0.0,
   Write block transfer time = 0.0
}}
disksim_bus BUS1 {{
   Arbitration time = 0.0,
   Read block transfer time = {read_ms},
   Write block transfer time = {write_ms}
}}
disksim_ctlr CTLR0 {{
   Scale for delays = 0.0,
   Bulk sector transfer time = {controller_ms}
}}
source {name}.diskspecs
instantiate [ bus0 ] as BUS0
instantiate [ bus1 ] as BUS1
instantiate [ ctlr0 ] as CTLR0
instantiate [ disk0 ] as {name}_drive
topology disksim_iodriver driver0 [
   disksim_bus bus0 [ disksim_ctlr ctlr0 [ disksim_bus bus1 [ disksim_disk disk0 [] ] ] ]
]
"""

SEEK = "Seek distances measured: 4\n1,\t1.2\n5,\t1.9\n20,\t3.9\n40,\t5.5\n"

# By sparing scheme: spares in each unit, and the LBNs of both zones by DiskSim's arithmetic.  3
# surfaces; 40 cylinders of 60 sectors a track, with 30 sectors empty at the front and 3 slips, and
# 16 of 40 sectors.
SPARES = {0: 0, 1: 8, 2: 5, 3: 2, 4: 5, 5: 5, 6: 5, 7: 0, 8: 12, 9: 20, 10: 20}
RAW = 40 * 3 * 60 - 30, 16 * 3 * 40
LBNS = {
    0: sum(RAW),
    1: sum(RAW) - 8 * 60 - 8 * 40,
    2: sum(RAW) - 5 * 40 - 5 * 16,
    3: sum(RAW) - 2 * 40 * 3 - 2 * 16 * 3,
    4: sum(RAW) - 5 * 40 - 5 * 16 - 3,
    5: sum(RAW) - 5 * 40 - 5 * 16,
    6: sum(RAW) - 5 * 40 - 5 * 16 - 3,
    7: sum(RAW) - 3,
    8: sum(RAW) - 12 * 10 - 12 * 4,
    9: sum(RAW) - 20 - 20,
    10: sum(RAW) - 20 - 3 - 20,
}
SEEKS = "extracted", "hplplus10", "hpl", "constant", "linear"


def model(name, scheme, **change):
    slips = "70, 11, 33" if scheme == 1 else "4000, 130, 2500"
    # a bad track on the last of the zone, or a bad sector among the spares of its range
    defects = {1: "20, 119", 8: "500, 715"}.get(scheme, "")
    spares = SPARES[scheme]
    zones = ",\n".join((
        ZONE.format(first=0, last=39, track=60, offset=0, front=30, spares=spares,
                    slips=slips if scheme else "", defects=defects),
        ZONE.format(first=41, last=56, track=40, offset=7, front=0, spares=spares,
                    slips="", defects="")))
    words = {"name": name, "surfaces": 3, "lbns": LBNS[scheme], "mapping": scheme % 3,
             "scheme": scheme, "zones": zones, "seek": SEEKS[scheme % 5],
             "settle": (-0.4, 0.0, 0.3)[scheme % 3]}
    return MODEL.format(**{**words, **change})


def specs(name, nth, **change):
    words = {"name": name, "hold": nth % 2, "never": int(nth % 4 == 3),
             "hold_write": nth // 2 % 2, "low_water": (0.0, 0.75, 0.25, 1.0)[nth % 4],
             "segments": 2 + nth % 3, "segment": (16, 90, 200)[nth % 3],
             "separate": nth // 2 % 2, "water": (0.0, 0.75, 0.5, 1.0)[nth % 4],
             "by_request": int(nth % 5 != 4), "ahead": nth % 5,
             "ahead_blocks": (0, 30, 60)[nth % 3], "over": nth % 3 - 1,
             "on_hit": nth // 3 % 2, "fast": nth % 3, "immediate": nth // 5 % 2,
             "stop": nth // 2 % 2, "extra": int(nth % 3 == 0)}
    return SPECS.format(**{**words, **change})


def random_numbers(seed):
    """Yield numbers that are the same on every machine and in every release of Python."""
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        yield seed >> 33


def trace(lbns, seed, count=150):
    rnd = random_numbers(seed)
    lines, at, n, write = [], 0, 1, False
    for _ in range(count):
        kind = next(rnd) % 10
        if kind < 5:
            n, write = 1 + next(rnd) % 24, bool(next(rnd) % 3 == 0)
            at = next(rnd) % (lbns - 100)
        elif kind < 8:
            at = (at + n) % (lbns - 100)
        else:
            at, write = max(0, at - next(rnd) % 10), not write
        lines.append(f"{'RW'[write]} Miss {at} {n} 5000.0 {next(rnd) % 30000}.0")
    return "\n".join(lines) + "\n"


def make(folder, schemes=range(11)):
    for scheme in schemes:
        name = f"fictive{scheme}"
        files = {
            "model": model(name, scheme), "diskspecs": specs(name, scheme), "seek": SEEK,
            "trace": trace(LBNS[scheme], scheme),
            "parv": PARV.format(name=name, read_ms=(0.0, 0.17)[scheme % 2],
                                write_ms=0.19, controller_ms=0.03)}
        for suffix, text in files.items():
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
