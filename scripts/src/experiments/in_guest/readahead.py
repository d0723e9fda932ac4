# SPDX-License-Identifier: GPL-2.0
"""The guest's part of readahead, with the virtual clock: readers through the page
cache of an stl-set with bands of 30 MiB on the 5 TB drive."""

import mmap
import os
import random
import threading
import time
from pathlib import Path

from guest import bench, blk, dm

MIB = 1 << 20
SECTORS = 9767541168    # of the 5 TB drive; no store, only its time is emulated
BAND_MIB = 30
LENGTHS_KIB = (0, 128, 512, 1024, 2048, 4096, 16384, 2 * BAND_MIB * 1024)
READ = 64 << 10         # bytes of one read call
STREAM_MIB = 192        # MiB of a stream, or of all streams together
APART = 1 << 40         # bytes between the begins of two streams
FILES = 100


def drive():
    """Create an stl-set over the platter; return its path."""
    for module in ("dm-shingle", "dm-stl", "dm-platter"):
        bench.modprobe(module)
    bench.run("modprobe", "brd", "rd_nr=1", f"rd_size={1 << 20}")
    dm.create("platter", f"0 {SECTORS} platter none 0 st5000as0011 0 0")
    bench.run("dd", "if=/dev/zero", "of=/dev/ram0", "bs=1M", "count=1")
    bench.run("shingle", "create", "stl-set", "--no-udev", "--force", "--meta", "/dev/ram0",
              "--band", f"{BAND_MIB}M", "--cache-size", "1%", "/dev/mapper/platter",
              "shingled")
    dm.made("shingled")
    return "/dev/mapper/shingled"


class Reader:
    """Read one device through the page cache, from many threads."""

    def __init__(self, path):
        self.path = path
        self.ahead = Path(blk.attribute(path, "read_ahead_kb"))

    def fresh(self, kib):
        self.ahead.write_text(str(kib), encoding="ascii")
        Path("/proc/sys/vm/drop_caches").write_text("1", encoding="ascii")

    def stream(self, start, mib, rate):
        fd = os.open(self.path, os.O_RDONLY)
        begin = time.monotonic()
        for at in range(start, start + mib * MIB, READ):
            os.pread(fd, READ, at)
        rate.append(mib * MIB / 1e6 / (time.monotonic() - begin))
        os.close(fd)

    def together(self, count):
        """Return the total MB/s of @count concurrent streams."""
        rates = []
        threads = [threading.Thread(target=self.stream, args=(
            i * APART, STREAM_MIB // count, rates)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(rates)

    def files(self, rng):
        """Return the mean milliseconds to read a file of 1 MiB at a random place."""
        fd = os.open(self.path, os.O_RDONLY)
        begin = time.monotonic()
        for _ in range(FILES):
            start = rng.randrange(SECTORS // 2 // 2048) * MIB
            for at in range(start, start + MIB, READ):
                os.pread(fd, READ, at)
        took = time.monotonic() - begin
        os.close(fd)
        return took * 1000 / FILES

    def beside(self, rng):
        """Return a stream's MB/s, and the milliseconds of random reads (4 KiB, direct) beside it.
        """
        rate, took = [], []
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, 4096)
        thread = threading.Thread(target=self.stream, args=(0, STREAM_MIB // 2, rate))
        thread.start()
        while thread.is_alive():
            begin = time.monotonic()
            os.preadv(fd, [buffer], rng.randrange(SECTORS // 2 // 8) * 4096)
            took.append(time.monotonic() - begin)
        thread.join()
        os.close(fd)
        return rate[0], sum(took) * 1000 / len(took)


def main():
    reader = Reader(drive())
    asked = int(reader.ahead.read_text(encoding="ascii"))
    print(f"{'':15}{'streams, MB/s in all':>24}   {'files of':>9}   {'a stream beside random reads'}")
    print(f"{'read_ahead_kb':15}{'one':>8}{'two':>8}{'four':>8}   {'1 MiB, ms':>9}   "
          f"{'MB/s':>8}{'ms a read':>12}")
    for kib in LENGTHS_KIB:
        cells = []
        for count in (1, 2, 4):
            reader.fresh(kib)
            cells.append(reader.together(count))
        reader.fresh(kib)
        cells.append(reader.files(random.Random(1)))
        reader.fresh(kib)
        cells += reader.beside(random.Random(2))
        one, two, four, files, rate, read = cells
        print(f"{kib:<8,}{'(ours)' if kib == asked else '':7}{one:8.1f}{two:8.1f}{four:8.1f}"
              f"   {files:9.1f}   {rate:8.1f}{read:12.1f}", flush=True)


if __name__ == "__main__":
    main()
