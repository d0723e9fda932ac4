# SPDX-License-Identifier: GPL-2.0
"""core/lib/engine/trimlist.c against a model with a flag for each block, with short and long lists.
"""

import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "engine/trimlist.h"

#define BLOCKS	400

static struct shingle_trimlist t;
static int model[BLOCKS];	/* 0 written, 1 discarded, 2 and reads as zeroes */

static int fail(const char *why, int i)
{
	printf("step %d: %s\n", i, why);
	return 1;
}

/* Everything that the list says is so; all that is so, if it was never full. */
static int check(int i, bool full)
{
	u64 lblk = rand() % BLOCKS, n = 1 + rand() % (BLOCKS - lblk), left, b, want = 0;
	bool covers = shingle_trim_covers(&t, lblk, n, &left), all = true;
	u32 k;

	for (k = 0; k < t.nr; k++) {
		if (t.trim[k].start >= t.trim[k].end)
			return fail("an empty entry", i);
		if (k && (t.trim[k - 1].end > t.trim[k].start ||
			  (t.trim[k - 1].end == t.trim[k].start &&
			   t.trim[k - 1].gone == t.trim[k].gone)))
			return fail("entries out of order, or not joined", i);
		for (b = t.trim[k].start; b < t.trim[k].end; b++)
			if (model[b] != 1 + t.trim[k].gone)
				return fail("a block that is not so", i);
	}
	for (b = lblk; b < lblk + n; b++) {
		all = all && model[b];
		want += model[b] == 1;
	}
	if (covers && (!all || left != want))
		return fail("covered, and is not", i);
	return !full && all && !covers ? fail("not covered, and is", i) : 0;
}

int main(int argc, char **argv)
{
	bool full = false;
	int i, covered = 0;

	(void)argc;
	srand(atoi(argv[1]));
	for (i = 0; i < 40000; i++) {
		u64 lblk = rand() % BLOCKS, n = 1 + rand() % (i % 3 ? 4 : 40), b, left;
		int what = rand() % 5;

		if (n > BLOCKS - lblk)
			n = BLOCKS - lblk;
		full = full || t.nr + 1 >= SHINGLE_MAX_TRIMS;
		if (what < 2)
			shingle_trim_remove(&t, lblk, n);
		else
			shingle_trim_add(&t, lblk, n, what == 4);
		for (b = lblk; b < lblk + n; b++)
			model[b] = what < 2 ? 0 : what == 4 ? 2 : 1;
		if (what >= 2 && (!shingle_trim_covers(&t, lblk, n, &left) ||
				  left != (what == 4 ? 0 : n)))
			return fail("what was added is not there", i);
		if (check(i, full))
			return 1;
		covered += t.nr > 1;
	}
	printf("%d %d\n", covered, full);
	return 0;
}
"""


@pytest.mark.parametrize("most", (4, 16, 2048))
def test_list_reports_discarded_blocks(tmp_path, most):
    """The list never reports a block as discarded that was written since. A full list may forget
    discards; one with room must know all of them."""
    (tmp_path / "trims.c").write_text(PROGRAM, encoding="ascii")
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
                    f"-DSHINGLE_MAX_TRIMS={most}", "-I", TOP / "userspace/include",
                    "-I", TOP / "core/lib", "-o", tmp_path / "trims", tmp_path / "trims.c",
                    TOP / "core/lib/engine/trimlist.c"], check=True)
    for seed in range(2):
        done = subprocess.run([tmp_path / "trims", str(seed)], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        covered, full = map(int, done.stdout.split())
        assert covered and full == (most < 2048)
