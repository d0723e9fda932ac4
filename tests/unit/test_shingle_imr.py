# SPDX-License-Identifier: GPL-2.0
"""Tests of shingle-imr.h: the messages that it sends to the target for a range of bytes."""

import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
static int heard(unsigned long request, void *what);
#define ioctl(fd, request, what) heard(request, what)
#include "shingle-imr.h"

static int heard(unsigned long request, void *what)
{
	struct shingle_imr_request *r = what;

	if (request == DM_TARGET_MSG)
		printf("%s\n", r->data.room + sizeof(struct dm_target_msg));
	return 0;
}

int main(int argc, char **argv)
{
	struct shingle_imr d = { .track_bytes = 4096, .tracks = 200000 };
	int err = shingle_imr_level(&d, strtoull(argv[1], NULL, 0), strtoull(argv[2], NULL, 0), 3);

	printf("%d %llu\n", err, (unsigned long long)d.messages);
	return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    where = tmp_path_factory.mktemp("imr")
    (where / "tell.c").write_text(PROGRAM, encoding="ascii")
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter",
                    "-I", TOP / "userspace/include", "-o", where / "tell",
                    where / "tell.c"], check=True)
    return where / "tell"


@pytest.mark.parametrize("first, n, said", [
    (5, 1, ["level 5 1 3"]),
    (5, 65536, ["level 5 65536 3"]),
    (5, 65537, ["level 5 65536 3", "level 65541 1 3"]),
    (0, 200000, ["level 0 65536 3", "level 65536 65536 3", "level 131072 65536 3",
                 "level 196608 3392 3"]),
])
def test_long_ranges_take_several_messages(program, first, n, said):
    """A range is extended to whole tracks, and one of more than 65,536 tracks takes several
    messages."""
    done = subprocess.run([program, str(first * 4096 + 1), str(n * 4096 - 1)],
                          capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*said, f"0 {len(said)}"]


@pytest.mark.parametrize("offset, length", [(200000 * 4096, 1), (0, 200001 * 4096),
                                            (4096, 2**64 - 1)])
def test_range_beyond_the_device_is_refused(program, offset, length):
    done = subprocess.run([program, str(offset), str(length)], capture_output=True,
                          text=True, check=True)
    assert done.stdout == "-22 0\n"
