// SPDX-License-Identifier: GPL-2.0
/* Repairs of logs that have lost something, also with power cuts. */
#include "model.h"

static u32 reports;

static void count_report(void *ctx, const char *text)
{
	if (!strstr(text, "log band") && !strstr(text, "band table"))
		die("a report names no band: %s", text);
	reports++;
}

static int repaired(struct sim *s, bool unreadable)
{
	const struct repair r = { .unreadable = unreadable, .report = count_report };

	reports = 0;
	return store_repair(&s->disk, s->spare.bytes ? &s->spare : NULL, &options, &r);
}

/*
 * Count the existing keys and verify their values.  @there: which keys exist; with @same they must
 * match.
 */
static u32 keys(struct sim *s, u32 nr, u8 *there, bool same, const char *when)
{
	struct kv *kv = opened(s, when);
	size_t bytes;
	char key[20];
	u32 i, n = 0, got;
	int err;

	for (i = 0; i < nr; i++) {
		err = kv_get_into(kv, NULL, key, (size_t)sprintf(key, "%u", i), &got, sizeof(got),
				  &bytes);
		if (err && err != -ENOENT)
			die("%s: key %u: %s", when, i, kv_error());
		if (!err && (bytes != sizeof(got) || got != i))
			die("%s: key %u has %u", when, i, got);
		if (same && there[i] != !err)
			die("%s: key %u is%s there", when, i, err ? " not" : "");
		there[i] = !err;
		n += !err;
	}
	check_clean(kv, when);
	kv_close(kv);
	return n;
}

/* Cut the power at each request of a repair, then repair again. */
static u32 cut_repair(struct sim *s, const u8 *spoilt, u32 nr, u8 *there)
{
	u64 size = sim_bytes(s);
	u8 *durable = malloc(size);
	u32 i, state, first = 0, cuts = 0, events;
	struct event *event;
	char when[60];

	memcpy(s->data, spoilt, size);
	memcpy(durable, spoilt, size);
	sim_forget(s);
	s->recording = true;
	if (repaired(s, false))
		die("repair: %s", kv_error());
	s->recording = false;
	keys(s, nr, there, true, "repaired");
	event = s->event;
	events = s->events;
	for (i = 0; i <= events; i++) {
		for (state = 0; state < LOSE_DISK; state++) {
			memcpy(s->data, durable, size);
			crash(s->data, event, first, i, state);
			snprintf(when, sizeof(when), "cut before event %u of %u, state %u", i,
				 events, state);
			if (repaired(s, false))
				die("%s: %s", when, kv_error());
			keys(s, nr, there, true, when);
			cuts++;
		}
		if (i < events && event[i].what == SIM_FLUSH)
			flushed(durable, event, &first, i);
	}
	free(durable);
	return cuts;
}

/* A read error alone must not cause a loss, unless the caller wants that. */
static void unread(struct sim *s, const u8 *whole, u64 at, u32 nr, u8 *there)
{
	u32 n;

	memcpy(s->data, whole, sim_bytes(s));
	s->hole = at;
	s->hole_bytes = BLOCK_BYTES;
	if (repaired(s, false) != -EIO || !strstr(kv_error(), "cannot be read") || reports > 1)
		die("what cannot be read is given up: %s", kv_error());
	s->hole_bytes = 0;
	if (repaired(s, false) || reports)
		die("once it can be read: %s", kv_error());
	n = keys(s, nr, there, false, "read again");
	if (n != nr)
		die("%u of %u are there once it can be read", n, nr);
	memcpy(s->data, whole, sim_bytes(s));
	s->hole_bytes = BLOCK_BYTES;
	if (repaired(s, true) || !reports)
		die("what cannot be read, to be given up: %s", kv_error());
	s->hole_bytes = 0;
	n = keys(s, nr, there, false, "given up");
	if (n + 1 != nr)
		die("%u of %u are there without a block", n, nr);
}

void test_repair(u64 seed, u32 nr)
{
	struct sim *s = formatted(BYTES);
	u8 *whole = malloc(sim_bytes(s)), *spoilt = malloc(sim_bytes(s)), *there = malloc(nr);
	struct kv *kv = opened(s, "new");
	u32 i, b, blocks, in_log, cuts = 0, spoilt_blocks = 0;
	char key[20];
	u64 at = 0, first_log;

	rng = seed;
	for (i = 0; i < nr; i++) {
		if (kv_put(kv, key, (size_t)sprintf(key, "%u", i), &i, sizeof(i), KV_SYNC))
			die("put: %s", kv_error());
	}
	/* Chunks of logs that have become tables do not count. */
	first_log = kv->bandtable.logs[0].id;
	kv_close(kv);
	free(s->pointer);
	s->pointer = NULL;
	memcpy(whole, s->data, sim_bytes(s));
	if (repaired(s, false) || reports)
		die("nothing is wrong, and %u pieces are given up: %s", reports, kv_error());
	blocks = (u32)(BYTES / BLOCK_BYTES);
	for (b = (u32)(s->bands_offset / BLOCK_BYTES), in_log = 0; b < blocks; b++) {
		const struct chunk_head *h = (void *)(whole + (u64)b * BLOCK_BYTES);
		u32 n;

		if (le64_to_cpu(h->magic) != LOG_MAGIC || le64_to_cpu(h->id) < first_log)
			continue;
		at = (u64)b * BLOCK_BYTES;
		memcpy(s->data, whole, sim_bytes(s));
		s->data[at + rnd((u32)sizeof(*h) + 8)] ^= 0x10;
		memcpy(spoilt, s->data, sim_bytes(s));
		if (sim_open(&kv, s, &options) != -EUCLEAN)
			die("block %u: a damaged log is opened", b);
		if (repaired(s, false) || reports < 2)
			die("block %u: %u reports: %s", b, reports, kv_error());
		n = keys(s, nr, there, false, "repaired");
		/* All keys but the one in the chunk. */
		if (n + 1 != nr)
			die("block %u: %u of %u are there", b, n, nr);
		spoilt_blocks++;
		if (in_log++ % 7 == 0)
			cuts += cut_repair(s, spoilt, nr, there);
	}
	unread(s, whole, at, nr, there);
	printf("%u chunks damaged and repaired, %u cuts meanwhile\n", spoilt_blocks, cuts);
	if (!cuts || spoilt_blocks < 4)
		die("hardly anything was damaged");
	free(whole);
	free(spoilt);
	free(there);
	sim_free(s);
}
