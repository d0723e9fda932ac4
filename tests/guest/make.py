#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""For shell scripts: create and format devices for a target, and print its table line.

 eval "$(tests/guest/make.py TARGET [SUITE])"
       sets TABLE, DEVICES, SECTORS, FEATURES, KEYS
"""

import shlex
import sys


from guest import bench
from guest import targets

target = targets.TARGETS[sys.argv[1]]
geo = targets.GEOMETRIES[sys.argv[2] if len(sys.argv) > 2 else "life"][0]
made = targets.stack(bench.Pool(), target, geo)
start, length, kind, words = target.table(made.paths, geo)[0]
print("TABLE=" + shlex.quote(f"{start} {length} {kind} {words}"))
print("DEVICES=" + shlex.quote(" ".join(made.paths.values())))
print("SECTORS=" + str(length))
print("FEATURES=" + shlex.quote(" ".join(target.features)))
print("KEYS=" + shlex.quote(" ".join(f"{k}={v}" for k, v in target.keys)))
