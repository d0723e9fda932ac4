// SPDX-License-Identifier: GPL-2.0
/* Damaged stores, and repairs of their logs. */
#include "model.h"

/* Stores on a disk that has lost or changed some blocks. */

/* Only the result of a check matters here, not its findings. */
void quiet(void *ctx, const char *text)
{
}

/* Blocks of tables; a check must find damage in each of them. */
#define MOST_BLOCKS	((BYTES + SPARE_BYTES) / BLOCK_BYTES)

static u8 in_table[MOST_BLOCKS];
/* For each block, the bytes from its start that are ever read; in a log zeroes follow. */
static u32 counts[MOST_BLOCKS];
static u32 tables, spares;

static void note_chunks(const u8 *data, u64 offset, const struct kv_band *b)
{
	const struct footer_block *f = (void *)(data + offset + b->bytes - BLOCK_BYTES);
	u64 at, end = offset + le32_to_cpu(f->data_bytes), bytes;
	const struct chunk_head *h;

	for (at = offset; at < end; at = round_up(at + bytes, (u64)BLOCK_BYTES)) {
		h = (void *)(data + at);
		bytes = sizeof(*h) + le32_to_cpu(h->bytes);
		if (bytes % BLOCK_BYTES)
			counts[(at + bytes) / BLOCK_BYTES] = (u32)(bytes % BLOCK_BYTES);
	}
}

static int note_table(void *ctx, const struct kv_band *b)
{
	u64 offset = b->offset + (b->offloaded ? BYTES : 0), i;

	if (b->level < 0)
		return 0;
	for (i = offset / BLOCK_BYTES; i < (offset + b->bytes) / BLOCK_BYTES; i++) {
		in_table[i] = 1;
		counts[i] = BLOCK_BYTES;
	}
	if (b->unsorted)
		note_chunks(ctx, offset, b);
	tables++;
	spares += b->offloaded;
	return 0;
}

/*
 * Return: the number of keys that cannot be read.  All other keys have their value, or are missing.
 */
static u32 unreadable(struct kv *kv, u32 block)
{
	char text[64];
	size_t bytes;
	void *value;
	u32 key, lost = 0;
	int err;

	for (key = 0; key < KEYS; key++) {
		err = kv_get(kv, NULL, text, key_of(key, text), &value, &bytes);
		if (!err)
			free(value);
		if (err == -EUCLEAN && !strstr(kv_error(), "band "))
			die("block %u: no band in '%s'", block, kv_error());
		if (err && err != -EUCLEAN && err != -ENOENT)
			die("block %u: %d %s", block, err, kv_error());
		lost += err == -EUCLEAN;
	}
	if (lost == KEYS)
		die("block %u: no key can be read", block);
	return lost;
}

/* Write to a damaged store: it must accept writes, report the damage and not retry for ever. */
static void go_on(struct sim *s, const struct load *l, u32 block)
{
	struct kv_stats before = { .size = sizeof(before) }, after = before;
	struct kv *kv;
	bool synced;
	u32 b;
	int err = sim_open(&kv, s, &options);

	if (err)
		return;
	for (b = l->batches + 1; b < l->batches + 40; b++) {
		err = load_write(kv, l, b, &synced);
		if (err)
			die("block %u: batch %u: %d %s", block, b, err, kv_error());
	}
	kv_stats(kv, &before);
	err = kv_compact(kv);
	if (err && (err != -EUCLEAN || !strstr(kv_error(), "band ")))
		die("block %u: compact: %d %s", block, err, kv_error());
	kv_settle(kv);
	kv_stats(kv, &before);
	for (b = 0; b < 5; b++) {
		if (kv_put(kv, "z", 1, "z", 1, 0))
			die("block %u: %s", block, kv_error());
	}
	kv_stats(kv, &after);
	if (after.compact_read_bytes != before.compact_read_bytes)
		die("block %u: a compaction is tried with each write", block);
	kv_close(kv);
}

void test_damage(u64 seed, u32 batches)
{
	struct load l = { .seed = seed, .batches = batches, .value_bytes = 4000 };
	struct kv_options look = { .size = sizeof(struct kv_options), .flags = KV_READ_ONLY };
	struct sim *s = formatted(BYTES);
	u64 size = sim_bytes(s);
	u8 *whole = malloc(size);
	u32 b, i, end, found = 0, harmless = 0, refused = 0, missed = 0, lost;
	struct kv *kv = opened(s, "new");
	bool synced;
	int err;

	rng = seed;
	for (b = 1; b <= batches; b++) {
		offload_some(kv, b);
		if (load_write(kv, &l, b, &synced))
			die("batch %u: %s", b, kv_error());
	}
	kv_bands(kv, note_table, s->data);
	kv_close(kv);
	free(s->pointer);
	s->pointer = NULL;
	memcpy(whole, s->data, size);
	end = (u32)(s->bands_offset / BLOCK_BYTES);
	for (i = 0; i < size / BLOCK_BYTES; i++) {
		if (i >= end && !in_table[i])
			continue;
		memcpy(s->data, whole, size);
		if (i % 3)
			s->data[(u64)i * BLOCK_BYTES + rnd(counts[i] ?: BLOCK_BYTES)] ^=
				(u8)(1 + rnd(255));
		else
			memset(s->data + (u64)i * BLOCK_BYTES, 0, BLOCK_BYTES);
		err = sim_open(&kv, s, &look);
		if (err) {
			if (err != -EUCLEAN && err != -EMEDIUMTYPE && err != -EPROTONOSUPPORT)
				die("block %u: open: %d %s", i, err, kv_error());
			if (i)
				die("block %u: not even to be read: %s", i, kv_error());
			refused++;
			continue;
		}
		lost = unreadable(kv, i);
		err = kv_check(kv, quiet, NULL);
		if (err && err != -EUCLEAN)
			die("block %u: check: %d %s", i, err, kv_error());
		if (lost && !err)
			die("block %u: a check sees nothing", i);
		found += err == -EUCLEAN;
		harmless += !err && !in_table[i];
		missed += !err && in_table[i];
		kv_close(kv);
		if (in_table[i])
			go_on(s, &l, i);
	}
	printf("%u tables; %u blocks damaged: %u found, %u harmless, %u refused, %u missed\n",
	       tables, found + harmless + refused + missed, found, harmless, refused, missed);
	/* The padding of the block before the histogram is never read. */
	if (has_offload() && !spares)
		die("nothing is offloaded");
	if (missed > tables || !found)
		die("damage is not found");
	free(whole);
	sim_free(s);
}

/*
 * Damage each chunk of a log; all chunks were synced.  The store must not be opened to write after
 * that.  The exception is the last chunk of a store that was not closed: it may never have been
 * whole.
 */
static void damage_log(u32 batches, bool closed)
{
	struct kv_options look = { .size = sizeof(struct kv_options), .flags = KV_READ_ONLY };
	struct sim *s = formatted(BYTES);
	u8 *whole = malloc(BYTES);
	u32 i, j, n, noticed = 0, torn = 0, bands = 0;
	struct kv *kv = opened(s, "new");
	bool buffered = kv->head.organisation == KV_BUFFERED;
	char key[20];
	size_t bytes;
	void *value;
	int err;

	/*
	 * With KV_BUFFERED a log has one band, and becomes a table when the band is full.  Tables
	 * are the subject of test_damage(), so all batches have to fit in one log.
	 */
	if (buffered)
		batches = min(batches, (u32)(BAND / BLOCK_BYTES / 2));
	for (i = 0; i < batches; i++) {
		if (kv_put(kv, key, (size_t)sprintf(key, "%u", i), "x", 1, KV_SYNC))
			die("put: %s", kv_error());
	}
	memcpy(whole, s->data, BYTES);
	kv_close(kv);
	if (closed)
		memcpy(whole, s->data, BYTES);
	free(s->pointer);
	s->pointer = NULL;
	for (i = (u32)(s->bands_offset / BLOCK_BYTES); i < BYTES / BLOCK_BYTES; i++) {
		const struct chunk_head *h = (void *)(whole + (u64)i * BLOCK_BYTES);

		if (le64_to_cpu(h->magic) != LOG_MAGIC)
			continue;
		bands += !le64_to_cpu(h->number);
		memcpy(s->data, whole, BYTES);
		s->data[(u64)i * BLOCK_BYTES + rnd((u32)sizeof(*h) + 8)] ^= 0x10;
		err = sim_open(&kv, s, &look);
		if (err)
			die("chunk at block %u: not even to be read: %s", i, kv_error());
		for (n = 0; n < batches; n++) {
			if (kv_get(kv, NULL, key, (size_t)sprintf(key, "%u", n), &value, &bytes))
				break;
			free(value);
		}
		for (j = n; j < batches; j++) {
			if (!kv_get(kv, NULL, key, (size_t)sprintf(key, "%u", j), &value, &bytes))
				die("block %u: %u is there, %u is not", i, j, n);
		}
		err = kv_check(kv, quiet, NULL);
		kv_close(kv);
		if ((err == -EUCLEAN) == (!closed && n + 1 == batches))
			die("block %u: %u of %u are there, and a check says %d", i, n, batches,
			    err);
		noticed += err == -EUCLEAN;
		torn += !err;
		err = sim_open(&kv, s, &options);
		if ((err == -EUCLEAN) == (!closed && n + 1 == batches))
			die("block %u: opened to be written: %d", i, err);
		if (!err)
			kv_close(kv);
	}
	printf("%s: %u bands of logs: %u damaged chunks noticed, %u taken for torn\n",
	       closed ? "closed" : "not closed", bands, noticed, torn);
	if (torn != !closed || noticed + torn != batches ||
	    bands < (buffered ? 1 : 2))
		die("not each chunk was damaged");
	free(whole);
	sim_free(s);
}

void test_log(u64 seed, u32 batches)
{
	damage_log(batches, false);
	damage_log(batches, true);
}

/* Repairs of logs that have lost something, also with power cuts. */

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
