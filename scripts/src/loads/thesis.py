# SPDX-License-Identifier: GPL-2.0
"""The traces of C. Ma, "Read-Modify-Write Optimization for Shingled Magnetic Recording Storage
Systems" (2019), by its Tables 4.1 and 4.2 and the text beside them.  All further parameters follow
from these."""

from dataclasses import dataclass

CACHE_BYTES = 5_000_000_000     # its persistent cache, one for each surface


@dataclass(frozen=True)
class Row:
    """A trace.  GB are 10^9 bytes. ideal_percent: the share of the cache at which the data valid in
    it still fit into the rest; None if less than a cache was written."""
    requests: int
    written_gb: float
    read_gb: float
    write_percent: float        # of the requests
    update_percent: float       # of the writes
    ideal_percent: float | None

    @property
    def kb_per_write(self):
        """KB (1000 bytes) of a write."""
        return 1e6 * self.written_gb / (self.requests * self.write_percent / 100)

    @property
    def kb_per_read(self):
        """KB (1000 bytes) of a read."""
        return 1e6 * self.read_gb / (self.requests * (1 - self.write_percent / 100))

    @property
    def fills(self):
        """Written bytes divided by the size of the cache."""
        return 1e9 * self.written_gb / CACHE_BYTES

    @property
    def rho(self):
        """The share of distinct blocks among those written until the ideal point."""
        return None if self.ideal_percent is None else \
            (100 - self.ideal_percent) / self.ideal_percent


MILLION = 1_000_000
ROWS = {
    "rsrch_0": Row(MILLION, 7.63, 0.94, 91.82, 96.34, 95.89),
    "src1_2": Row(MILLION, 33.48, 2.76, 83.70, 89.56, 95.95),
    "src2_0": Row(MILLION, 5.83, 1.11, 86.56, 94.13, 90.80),
    "src2_2": Row(MILLION, 32.63, 20.68, 68.21, 22.64, 79.05),
    "stg_0": Row(MILLION, 10.53, 6.09, 77.51, 94.46, 95.77),
    "stg_1": Row(MILLION, 5.47, 10.94, 20.88, 91.33, 92.93),
    "ts_0": Row(MILLION, 7.69, 1.89, 84.28, 95.81, 94.40),
    "usr_0": Row(MILLION, 11.06, 15.42, 61.41, 91.47, 88.80),
    "web_0": Row(MILLION, 13.17, 10.78, 63.32, 93.93, 57.24),
    "web_2": Row(MILLION, 1.33, 45.21, 1.88, 42.83, None),
    "mds_0": Row(919_569, 19.35, 3.17, 85.91, 96.12, 94.55),
    "proj_0": Row(1_537_898, 22.01, 4.27, 51.37, 92.76, 81.89),
    "proj_2": Row(3_624_879, 28.76, 46.93, 21.79, 32.08, 60.12),
}
