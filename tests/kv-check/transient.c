// SPDX-License-Identifier: GPL-2.0
/*
 * Reads that fail, once or for good.  A read error does not prove damage: the store must not give
 * up a table or a log because of it, and must have everything when the reads succeed again.
 */
#include "model.h"
#include "table.h"

static const char *said;

static void hear(void *ctx, const char *text)
{
	snprintf(ctx, 400, "%s", text);
}

static u32 damaged(struct kv *kv)
{
	u32 level, i, n = 0;

	for (level = 0; level < KV_LEVELS; level++) {
		for (i = 0; i < kv->current.version->level[level].nr; i++)
			n += kv->current.version->level[level].part[i]->table->damaged;
	}
	return n;
}

/*
 * Let each read of a check fail once, one after another: the check may report that it could not
 * read, but marks no table as damaged.  Return the number of reads.
 */
static u64 check_once(struct sim *s)
{
	struct kv *kv = opened(s, "to check");
	char text[400] = "";
	u64 n, reported = 0;
	int err;

	for (n = 1; ; n++) {
		s->failed = 0;
		s->fail = s->ops + n;
		*text = 0;
		err = kv_check(kv, hear, text);
		s->fail = 0;
		if (!s->failed)
			break;
		if ((err && err != -EIO) || (*text && !strstr(text, "cannot be read")))
			die("read %llu of a check failed: %d %s", n, err, text);
		reported += !!*text;
		if (damaged(kv))
			die("read %llu of a check failed, and a table is given up", n);
	}
	if (err)
		die("nothing fails: %d %s", err, text);
	if (reported < n / 2)
		die("of %llu reads that failed a check reported %llu", n - 1, reported);
	/* A table with reads that keep failing is not marked either: they may succeed later. */
	s->hole = band_offset(kv, kv->current.version->level[1].part[0]->table->band);
	s->hole_bytes = BLOCK_BYTES;
	err = kv_check(kv, hear, text);
	if (err != -EIO || !strstr(text, "cannot be read") || damaged(kv))
		die("a table cannot be read: %d %s, %u given up", err, text, damaged(kv));
	s->hole_bytes = 0;
	if (kv_check(kv, hear, text) || kv_compact(kv))
		die("once it can be read: %s", kv_error());
	kv_close(kv);
	return n - 1;
}

/*
 * Open the store while @bytes of the band table cannot be read, from @from on.  If it opens, it
 * must hold the last key.  Return the result of the open.
 */
static int open_without(struct sim *s, u64 from, u64 bytes)
{
	struct kv *kv;
	size_t n;
	void *value;
	int err;

	s->hole = from;
	s->hole_bytes = bytes;
	err = sim_open(&kv, s, &options);
	said = kv_error();
	s->hole_bytes = 0;
	if (err)
		return err;
	if (kv_get(kv, NULL, "last", 4, &value, &n))
		die("an older band table was taken: %s", kv_error());
	free(value);
	kv_close(kv);
	return 0;
}

/*
 * Each slot of the band table has two copies.  One unreadable copy does not matter; with two the
 * store is not opened, because they may hold the newest generation.
 */
static void bandtable_once(struct sim *s)
{
	struct kv *kv = opened(s, "to write");
	u64 slot = kv->head.slot_bytes, at = kv->head.slot_offset, newest;
	u32 i;

	if (kv_put(kv, "last", 4, "1", 1, 0) || kv_flush(kv))
		die("put: %s", kv_error());
	newest = kv->bandtable.generation % 2 * COPIES;
	kv_close(kv);
	for (i = 0; i < COPIES; i++) {
		if (open_without(s, at + (newest + i) * slot, slot))
			die("one copy is enough: %s", said);
	}
	/* It is unknown which generation these copies have. */
	for (i = 0; i < SLOTS; i += COPIES) {
		if (open_without(s, at + i * slot, COPIES * slot) != -EIO ||
		    !strstr(said, "cannot be read"))
			die("two copies cannot be read: %s", said);
	}
	if (open_without(s, 0, 0))
		die("once they can be read: %s", said);
}

/*
 * A chunk of the log is damaged, and the next one, which shows that it was durable, cannot be read:
 * the open fails with -EIO; when that chunk can be read, with -EUCLEAN.  It never succeeds.
 */
static void later_once(struct sim *s)
{
	struct kv *kv = opened(s, "to sync"), *again;
	u64 end;
	u32 i;

	for (i = 0; i < 3; i++) {
		if (kv_put(kv, "last", 4, "2", 1, KV_SYNC))
			die("put: %s", kv_error());
	}
	end = band_offset(kv, kv->log.open.band.band) + kv->log.open.at;
	memset(s->data + end - 2 * BLOCK_BYTES, 0xcc, BLOCK_BYTES);
	s->hole = end - BLOCK_BYTES;
	s->hole_bytes = BLOCK_BYTES;
	if (sim_open(&again, s, &options) != -EIO)
		die("what was synced may be lost, and nobody says so");
	s->hole_bytes = 0;
	if (sim_open(&again, s, &options) != -EUCLEAN)
		die("what was synced is lost, and nobody says so");
	kv_close(kv);
}

/*
 * One block of the log cannot be read: the store cannot be opened for writing, and opened for
 * reading it reports the loss.  When the block can be read again, the whole log is there.
 */
static void log_once(void)
{
	struct kv_options look = { .size = sizeof(look), .flags = KV_READ_ONLY };
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new"), *again;
	size_t bytes;
	void *value;
	u64 end;
	u32 i, blocks;
	int err;

	for (i = 0; i < 20; i++) {
		if (kv_put(kv, "last", 4, &i, sizeof(i), KV_SYNC))
			die("put: %s", kv_error());
	}
	end = band_offset(kv, kv->log.open.band.band) + kv->log.open.at;
	blocks = kv->log.open.at / BLOCK_BYTES;
	kv_close(kv);
	for (i = 1; i <= blocks; i++) {
		s->hole = end - i * BLOCK_BYTES;
		s->hole_bytes = BLOCK_BYTES;
		err = sim_open(&again, s, &options);
		if (err != -EIO || !strstr(kv_error(), "cannot be read") ||
		    strstr(kv_error(), "damaged"))
			die("a log that cannot be read: %d %s", err, kv_error());
		if (sim_open(&again, s, &look))
			die("to be read: %s", kv_error());
		if (kv_lost_error(again) != -EIO || !kv_lost(again) ||
		    kv_check(again, quiet, NULL) != -EIO)
			die("neither kv_lost() nor kv_check() reports that the log cannot be read: %s", kv_error());
		kv_close(again);
	}
	s->hole_bytes = 0;
	again = opened(s, "once it can be read");
	if (kv_lost_error(again) || kv_get(again, NULL, "last", 4, &value, &bytes))
		die("the log is gone: %s", kv_error());
	memcpy(&i, value, sizeof(i));
	if (i != 19)
		die("the last value is %u", i);
	free(value);
	kv_close(again);
	sim_free(s);
}

/* A merge that cannot read its input is tried again after a while, even if no write comes. */
static void merge_once(void)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	char key[20], value[1000];
	bool did;
	struct kv *kv;
	u32 i;

	opt.l0_trigger = 1000;
	opt.l0_slowdown = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	memset(value, 'v', sizeof(value));
	for (i = 0; i < 600; i++) {
		if (kv_put(kv, key, (size_t)sprintf(key, "%u", i * 7919 % 600), value,
			   sizeof(value), 0))
			die("put: %s", kv_error());
	}
	kv->opt.l0_trigger = 3;
	/* No table can be read, and the cache does not have them either. */
	for (i = 0; i < kv->current.version->level[0].nr; i++)
		cache_forget(kv->cache, kv->current.version->level[0].part[i]->table->id);
	s->unreadable = true;
	if (compact_step(kv, &did) != -EIO || !strstr(kv_error(), "cannot be read"))
		die("a merge without its input: %s", kv_error());
	s->unreadable = false;
	if (compact_step(kv, &did) != -EIO || did)
		die("it is tried again at once");
	if (!kv->pick.failed.until || damaged(kv))
		die("a merge is given up until something is written");
	/* As if that time had passed. */
	kv->pick.failed.until = 1;
	if (compact_step(kv, &did) || !did)
		die("a merge is not tried again: %s", kv_error());
	kv_close(kv);
	sim_free(s);
}

void test_transient(u64 seed, u32 count)
{
	struct load l = { .seed = seed, .batches = count, .value_bytes = 6000 };
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	bool synced;
	u32 b;

	for (b = 1; b <= count; b++) {
		if (load_write(kv, &l, b, &synced))
			die("batch %u: %s", b, kv_error());
		if (b == count / 2 && kv_compact(kv))
			die("compact: %s", kv_error());
	}
	kv_close(kv);
	printf("%llu reads of a check failed once\n", check_once(s));
	bandtable_once(s);
	later_once(s);
	log_once();
	merge_once();
	sim_free(s);
}
