#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A test of the guest's own kernel: written data stay in memory while the kernel moves pages.  All
other tests rely on that."""

import mmap
import os
import time
from pathlib import Path

PAGE = mmap.PAGESIZE
PAGES = 8192
ENOUGH = 500
LIMIT_S = 300   # ends a run that hangs
ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


def moved():
    return int(Path("/proc/vmstat").read_text().split("pgmigrate_success ")[1].split()[0])


def sweep(shared):
    """Check every second page, so that the kernel has pages to gather: each must hold what was
    last written.  While @shared[0] is set few system calls are made, because each of them would
    update the processor's view of memory."""
    while not shared[1]:
        memory = mmap.mmap(-1, 2 * PAGES * PAGE, ANONYMOUS)
        for at in range(0, len(memory), PAGE):
            memory[at] = 0
        for at in range(PAGE, len(memory), 2 * PAGE):
            memory.madvise(mmap.MADV_DONTNEED, at, PAGE)
        words = memoryview(memory)[::2 * PAGE]
        wrote = bytes(PAGES)
        shared[0] = 1
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            for value in range(256):
                found = words.tobytes()
                if found != wrote:
                    lost = sum(map(int.__ne__, found, wrote))
                    shared[2:6] = (int.from_bytes(shared[2:6], "big") + lost).to_bytes(4, "big")
                words[:] = wrote = bytes([value]) * PAGES
        shared[0] = 0
        words.release()
        memory.close()


def main():
    shared, before = mmap.mmap(-1, PAGE), moved()
    child = os.fork()
    if not child:
        sweep(shared)
        os._exit(0)
    end = time.monotonic() + LIMIT_S
    while moved() - before < ENOUGH and time.monotonic() < end:
        if shared[0]:
            Path("/proc/sys/vm/compact_memory").write_text("1", encoding="ascii")
        time.sleep(0.001)
    shared[1] = 1
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    pages, lost = moved() - before, int.from_bytes(shared[2:6], "big")
    print("TAP version 13\n1..2")
    print("not ok" if pages < ENOUGH else "ok", f"1 the kernel moved {pages} pages")
    print("not ok" if lost or ended else "ok", f"2 {lost} writes to them were lost")


if __name__ == "__main__":
    main()
