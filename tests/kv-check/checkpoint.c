// SPDX-License-Identifier: GPL-2.0
/* Copies of a store that is written to meanwhile, with a power cut at each request of the copy. */
#include "model.h"

static const u8 other[16] = "the copy's UUID!";

/* At each write of the copy, one batch is written to the store. */
static struct {
	struct kv *kv;
	struct load load;
	struct model now;
	u32 batch;
	bool busy;
} beside;

static void write_beside(enum sim_what what, u64 offset, u64 bytes, const void *data)
{
	bool synced;

	if (what != SIM_WRITE || beside.busy)
		return;
	/* A write to the store must not cause another one. */
	beside.busy = true;
	beside.batch++;
	if (load_write(beside.kv, &beside.load, beside.batch, &synced))
		die("batch %u beside a copy: %s", beside.batch, kv_error());
	model_apply(&beside.now, &beside.load, beside.batch);
	if (beside.batch % 50 == 0 && kv_compact(beside.kv))
		die("compact beside a copy: %s", kv_error());
	beside.busy = false;
}

/* Return: 1 if it is the copy; 0 if it is no store, with the right error. */
static u32 is_copy(struct sim *t, const struct model *then, const char *when)
{
	struct kv *kv;
	int err = sim_open(&kv, t, &options);

	if (err) {
		if (err != -EMEDIUMTYPE)
			die("%s: %d %s", when, err, kv_error());
		return 0;
	}
	model_check(kv, &beside.load, then, NULL, when);
	check_clean(kv, when);
	kv_close(kv);
	return 1;
}

static void cut_copy(struct sim *t, const u8 *before, const struct model *then)
{
	u64 size = sim_bytes(t);
	u8 *durable = malloc(size);
	u32 i, state, first = 0, whole = 0, none = 0, events = t->events;
	struct event *event = t->event;
	char when[60];

	memcpy(durable, before, size);
	t->recording = false;
	for (i = 0; i <= events; i++) {
		for (state = 0; state < LOSE_DISK; state++) {
			u32 is;

			/* Test all of the last events, but only some of the others. */
			if (i + 12 < events && rnd(8))
				continue;
			memcpy(t->data, durable, size);
			crash(t->data, event, first, i, state);
			snprintf(when, sizeof(when), "cut before event %u of %u, state %u", i,
				 events, state);
			is = is_copy(t, then, when);
			if (whole && !is && state == LOSE_ALL)
				die("%s: it was durable before", when);
			whole += is && state == LOSE_ALL;
			none += !is;
		}
		if (i < events && event[i].what == SIM_FLUSH)
			flushed(durable, event, &first, i);
	}
	printf("%u events of a copy, %u states in which there is none\n", events, none);
	if (!whole || none < 20)
		die("the copy was never begun, or never there");
	free(durable);
}

void test_checkpoint(u64 seed, u32 batches)
{
	struct sim *s = formatted(BYTES), *t = sim_new(BYTES);
	struct kv_format_options small = { .size = sizeof(small), .bytes = 16 * BAND };
	struct model then;
	bool synced;
	u8 *before;
	int err;

	rng = seed;
	memset(&beside, 0, sizeof(beside));
	beside.load = (struct load){ .seed = seed, .batches = 2 * batches, .value_bytes = 4000 };
	beside.kv = opened(s, "new");
	for (beside.batch = 1; beside.batch <= batches; beside.batch++) {
		offload_some(beside.kv, beside.batch);
		if (load_write(beside.kv, &beside.load, beside.batch, &synced))
			die("batch %u: %s", beside.batch, kv_error());
		model_apply(&beside.now, &beside.load, beside.batch);
	}
	beside.kv->worker.merging = 0;
	beside.batch--;
	then = beside.now;
	before = malloc(sim_bytes(t));
	memcpy(before, t->data, sim_bytes(t));
	t->recording = true;
	t->watch = write_beside;
	if (checkpoint_to(beside.kv, sim_disk(t), NULL, other))
		die("checkpoint: %s", kv_error());
	t->watch = NULL;
	if (beside.batch < batches + 10 || !memcmp(&then, &beside.now, sizeof(then)))
		die("only %u batches were written meanwhile", beside.batch - batches);
	model_check(beside.kv, &beside.load, &beside.now, NULL, "the store behind a copy");
	check_clean(beside.kv, "the store behind a copy");
	cut_copy(t, before, &then);
	/* A copy without enough room must not be a valid store. */
	memcpy(t->data, before, sim_bytes(t));
	err = checkpoint_to(beside.kv, sim_disk(t), &small, other);
	if (err != -ENOSPC && err != -EINVAL)
		die("a copy of less than there is: %d %s", err, kv_error());
	if (is_copy(t, &then, "without room"))
		die("half of a store is one");
	kv_close(beside.kv);
	free(before);
	sim_free(s);
	sim_free(t);
}
