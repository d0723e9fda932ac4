// SPDX-License-Identifier: GPL-2.0
/* The statistics about time. */
#include <unistd.h>

#include "model.h"

#define PAUSE_US	200000U

/*
 * Freeze a memtable at the first block that a merge writes; the next block belongs to that
 * memtable.
 */
static struct kv *merging;
static enum { BEFORE, FREEZING, FROZEN, PAUSED } state;

static void freeze_meanwhile(enum sim_what what, u64 offset, u64 bytes, const void *data)
{
	if (what != SIM_WRITE || offset < merging->head.bands_offset)
		return;
	if (state == BEFORE) {
		state = FREEZING;
		if (freeze(merging))
			die("freeze: %s", kv_error());
		state = FROZEN;
	} else if (state == FROZEN) {
		state = PAUSED;
		usleep(PAUSE_US);
	}
}

static void put_some(struct kv *kv, u32 nr)
{
	char key[20], value[150] = { 0 };
	u32 i;

	for (i = 0; i < nr; i++) {
		if (kv_put(kv, key, (size_t)sprintf(key, "%04u", i), value, sizeof(value), 0))
			die("put: %s", kv_error());
	}
}

/*
 * No time counts twice, and the time for a memtable does not count for the merge that it
 * interrupts.
 */
void test_spent(u64 seed, u32 count)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct kv_stats before = { .size = sizeof(before) }, after = before;
	u64 began, took;

	put_some(kv, 220);
	if (kv_flush(kv))
		die("flush: %s", kv_error());
	put_some(kv, 220);
	if (kv_flush(kv))
		die("flush: %s", kv_error());
	kv_stats(kv, &before);
	if (!before.flush_us || before.compact_us)
		die("%lu us with memtables, %lu with merges", before.flush_us,
		    before.compact_us);
	put_some(kv, 10);
	merging = kv;
	s->watch = freeze_meanwhile;
	began = now_us();
	pthread_mutex_lock(&kv->compacting);
	if (compact_all(kv))
		die("compact: %s", kv_error());
	pthread_mutex_unlock(&kv->compacting);
	took = now_us() - began;
	s->watch = NULL;
	kv_stats(kv, &after);
	printf("%llu us, of them %lu with memtables and %lu with merges\n", took,
	       after.flush_us - before.flush_us, after.compact_us - before.compact_us);
	if (after.flushes != before.flushes + 1 || after.compactions == before.compactions)
		die("no memtable came between");
	if (after.flush_us - before.flush_us < PAUSE_US || !after.compact_us ||
	    after.flush_us - before.flush_us + after.compact_us > took)
		die("some of it counts twice, or not at all");
	kv_close(kv);
	sim_free(s);
}
