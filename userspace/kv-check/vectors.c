// SPDX-License-Identifier: GPL-2.0
/* What is merged with what: cases worked out by hand. */
#include <time.h>

#include "model.h"
#include "pick.h"

static void put(struct kv *kv, const char *keys, const char *value)
{
	for (; *keys; keys++) {
		if (kv_put(kv, keys, 1, value, strlen(value), 0))
			die("put: %s", kv_error());
	}
	if (kv_flush(kv))
		die("flush: %s", kv_error());
}

static void complain(void *ctx, const char *text)
{
	fprintf(stderr, "%s\n", text);
}

static void want(struct kv *kv, const char *key, const char *value)
{
	size_t bytes;
	void *got;
	int err = kv_get(kv, NULL, key, 1, &got, &bytes);

	if (!value) {
		if (err != -ENOENT)
			die("'%s' is back: %d", key, err);
		return;
	}
	if (err || bytes != strlen(value) || memcmp(got, value, bytes))
		die("'%s' is not '%s': %d", key, value, err);
	free(got);
}

/* 1 a-c, 2 d-f, 3 b-e: 3 must not go down before 2. */
static void old_before_new(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");

	put(kv, "ac", "1");
	put(kv, "df", "2");
	put(kv, "bde", "3");
	if (kv_settle(kv))
		die("settle: %s", kv_error());
	want(kv, "d", "3");
	want(kv, "c", "1");
	want(kv, "f", "2");
	kv_close(kv);
	sim_free(s);
}

/* A deletion that is merged while what it deletes is not. */
static void deleted_below(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct kv_stats stats;

	put(kv, "agz", "1");
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	kv_delete(kv, "g", 1, 0);
	put(kv, "fh", "2");
	put(kv, "f", "3");
	put(kv, "h", "4");
	if (kv_settle(kv))
		die("settle: %s", kv_error());
	want(kv, "g", NULL);
	want(kv, "a", "1");
	want(kv, "h", "4");
	kv_stats(kv, &stats);
	if (stats.level_bands[0])
		die("%lu bands in level 0", stats.level_bands[0]);
	kv_close(kv);
	sim_free(s);
}

#define VERSIONS	24U

/* More versions of one key than a band has room for: each snapshot sees its own. */
static void many_versions(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct kv_snapshot *snap[VERSIONS];
	static u8 value[8000];
	struct kv_stats stats;
	u32 i, round;
	size_t bytes;
	void *got;

	for (i = 0; i < VERSIONS; i++) {
		memset(value, (int)i + 1, sizeof(value));
		if (kv_put(kv, "k", 1, value, sizeof(value), 0))
			die("put: %s", kv_error());
		if (i % 5 == 4)
			put(kv, "aez", "1");
		snap[i] = kv_snapshot_new(kv);
	}
	for (round = 0; round < 3; round++) {
		if (round == 1 && kv_settle(kv))
			die("settle: %s", kv_error());
		if (round == 2 && kv_compact(kv))
			die("compact: %s", kv_error());
		for (i = 0; i < VERSIONS; i++) {
			if (kv_get(kv, snap[i], "k", 1, &got, &bytes))
				die("round %u, snapshot %u: %s", round, i, kv_error());
			if (bytes != sizeof(value) || *(u8 *)got != i + 1)
				die("round %u: snapshot %u sees version %u", round, i,
				    *(u8 *)got - 1);
			free(got);
		}
	}
	kv_stats(kv, &stats);
	if (stats.level_bands[0] + stats.level_bands[1] + stats.level_bands[2] < 3)
		die("they did fit");
	for (i = 0; i < VERSIONS; i++)
		kv_snapshot_free(kv, snap[i]);
	/* Merging one part of the key with what is newer must not pass the others. */
	put(kv, "k", "now");
	put(kv, "jl", "1");
	put(kv, "k", "later");
	if (kv_settle(kv))
		die("settle: %s", kv_error());
	want(kv, "k", "later");
	if (kv_check(kv, complain, NULL) || kv_compact(kv) || kv_check(kv, complain, NULL))
		die("%s", kv_error());
	want(kv, "k", "later");
	kv_stats(kv, &stats);
	if (stats.level_bytes[0] + stats.level_bytes[1] + stats.level_bytes[2] > BAND / 2)
		die("old versions are still there");
	kv_close(kv);
	sim_free(s);
}

/* What has failed is tried again when something has changed, or somebody asks for it. */
static void not_for_ever(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u64 ops;
	bool did;

	s->unreadable = true;
	put(kv, "ac", "1");
	put(kv, "bd", "2");
	/* Without a thread the third is merged with the others at once, if it can be. */
	put(kv, "ce", "3");
	if (compact_step(kv, &did) != -EIO)
		die("tables that cannot be read are merged");
	ops = s->ops;
	if (compact_step(kv, &did) != -EIO || did || s->ops != ops)
		die("it is tried again though nothing has changed");
	put(kv, "z", "4");
	ops = s->ops;
	if (compact_step(kv, &did) != -EIO || s->ops == ops)
		die("it is not tried again though something has changed");
	s->unreadable = false;
	if (kv_settle(kv))
		die("settle: %s", kv_error());
	want(kv, "c", "3");
	kv_close(kv);
	sim_free(s);
}

/* Without a log what was not flushed is lost, and nothing claims that it is not. */
static void without_log(void)
{
	struct kv_options opt = { .flags = options.flags | KV_NO_LOG };
	struct sim *s = formatted(BYTES);
	struct kv_stats stats;
	struct kv *kv;

	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	if (kv_put(kv, "a", 1, "1", 1, KV_SYNC) != -EINVAL || kv_sync(kv) != -EINVAL)
		die("something was synced without a log");
	want(kv, "a", NULL);
	put(kv, "ab", "1");
	if (kv_put(kv, "b", 1, "2", 1, 0))
		die("put: %s", kv_error());
	want(kv, "b", "2");
	kv_stats(kv, &stats);
	if (stats.log_bytes || stats.bands_log)
		die("a log was written");
	kv_close(kv);
	kv = opened(s, "again");
	want(kv, "a", "1");
	want(kv, "b", "1");
	kv_close(kv);
	sim_free(s);
}

struct range {
	u32 level;
	char min, max;
};

/* The figure of the thesis that shows both levels. */
static const struct range figure[] = {
	{ 0, 'a', 's' }, { 0, 'k', 'z' }, { 0, 'a', 'z' }, { 0, 'c', 'g' }, { 0, 'd', 'n' },
	{ 1, 'e', 'f' }, { 1, 'g', 'h' }, { 1, 'i', 'j' }, { 1, 'k', 'l' }, { 1, 'm', 'n' },
	{ 1, 'o', 'r' }, { 1, 's', 'v' }, { 1, 'w', 'z' }, { 1, 'a', 'b' }, { 1, 'c', 'd' },
	{ 1, 'e', 'j' }, { 1, 'k', 'r' }, { 1, 's', 'z' }, { 1, 'a', 'd' }, { 1, 'k', 'z' },
};

static u32 nr_in_level(u32 i)
{
	return figure[i].level ? i - 4 : i + 1;
}

static void draw(struct kv *kv, struct part **part)
{
	struct table *t;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(figure); i++) {
		t = calloc(1, sizeof(*t));
		t->id = 1000 + i;
		t->bytes = BAND;
		part[i] = part_new(t, figure[i].level, nr_in_level(i), slice(&figure[i].min, 1),
				   slice(&figure[i].max, 1));
	}
	version_put(kv, kv->version);
	kv->version = version_new(part, ARRAY_SIZE(figure));
}

/* Bits of the numbers in the figure. */
static u32 picked(const struct pick *p, u32 level)
{
	u32 i, bits = 0;

	for (i = 0; i < p->nr; i++) {
		if (p->part[i]->level == level)
			bits |= 1U << p->part[i]->age;
	}
	return bits;
}

static struct part *numbered(struct pick *p, u32 level, u64 nr)
{
	u32 i;

	for (i = 0; p->version->level[level].part[i]->age != nr; i++)
		;
	return p->version->level[level].part[i];
}

static u32 closed(struct kv *kv, u32 level, u64 nr, bool newer, bool older)
{
	struct pick p;
	u32 bits;

	if (pick_begin(kv, &p))
		die("%s", kv_error());
	p.part[p.nr++] = numbered(&p, level, nr);
	pick_close(&p, level, newer, older);
	bits = picked(&p, level);
	pick_end(kv, &p);
	return bits;
}

static void as_drawn(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct part *part[ARRAY_SIZE(figure)], *p;
	struct slice e = slice("e", 1);
	u32 level, n = 0, i;
	struct pick pick;
	u64 age, last;

	draw(kv, part);
	for (level = 0; level < 2; level++) {
		n += version_overlaps(kv->version, level, e, e, NULL);
		for (age = U64_MAX; (p = version_older(kv->version, level, e, age));) {
			last = age;
			age = p->age;
			if (age >= last)
				die("what is older comes first");
		}
	}
	if (n != 6)
		die("a key may be in %u bands, not in 6", n);
	if (closed(kv, 0, 5, false, true) != 0x3e || closed(kv, 0, 1, false, true) != 0x02)
		die("level 0: 5 needs 1 to 4, and 1 goes alone");
	if (closed(kv, 1, 11, true, false) != 1U << 11 ||
	    closed(kv, 1, 1, true, false) != (1U << 1 | 1U << 11))
		die("level 1: 11 goes alone, and 1 not without it");
	if (pick_begin(kv, &pick) || pick_soc(kv, &pick))
		die("%s", kv_error());
	if (picked(&pick, 0) != 0x3e || pick.level != 1 || pick.move)
		die("level 0: picked %x", picked(&pick, 0));
	/* Whatever the worst one of level 1 is, what is newer and overlaps is with it. */
	for (i = 0; i < pick.nr; i++) {
		u32 bits = pick.part[i]->level ?
			closed(kv, 1, pick.part[i]->age, true, false) : 0;

		if (bits & ~picked(&pick, 1))
			die("level 1: picked %x, which is not closed", picked(&pick, 1));
	}
	if (!picked(&pick, 1))
		die("nothing of level 1 was picked");
	pick_end(kv, &pick);
	for (i = 0; i < ARRAY_SIZE(part); i++)
		part_put(kv, part[i]);
	/* What it has now was never written. */
	store_break(kv, -EIO, "a figure was drawn");
	kv_close(kv);
	sim_free(s);
}

/* Keys from @from on below @to, of a table of their own. */
static void put_range(struct kv *kv, char first, u32 from, u32 to, u32 value_bytes)
{
	char key[20], value[600] = { 0 };
	u32 i;

	for (i = from; i < to; i++) {
		sprintf(key, "%c%04u", first, i);
		if (value_bytes ? kv_put(kv, key, 5, value, value_bytes, 0) :
				  kv_delete(kv, key, 5, 0))
			die("%s: %s", key, kv_error());
	}
	if (kv_flush(kv))
		die("flush: %s", kv_error());
}

/*
 * A frozen memtable that finds no band, and merges that find some for it: the first has
 * nothing left to write, and the next one is in the midst of a table when it looks for
 * what else must go on.
 */
static void frozen_meanwhile(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u32 held[BANDS], n = 0;
	struct kv_stats stats;

	/* There it wants no band. */
	if (kv->head.organisation == KV_BUFFERED)
		goto out;

	put_range(kv, 'a', 1, 60, 550);
	put_range(kv, 'a', 0, 60, 0);
	put_range(kv, 'k', 0, 200, 170);
	put_range(kv, 'k', 0, 200, 171);
	if (kv_put(kv, "x", 1, "1", 1, 0))
		die("put: %s", kv_error());
	while (n < ARRAY_SIZE(held) && !band_take(kv, RESERVE_NONE, &held[n]))
		n++;
	if (kv_flush(kv) != -ENOSPC)
		die("there was a band for a table");
	/* Who holds all others is in the way of writes, but not of what was written. */
	if (kv_put(kv, "y", 1, "2", 1, 0) != -ENOSPC)
		die("there was a band for a log");
	kv_stats(kv, &stats);
	if (stats.compactions != 2)
		die("%lu merges, not 2", stats.compactions);
	while (n)
		band_give_back(kv, held[--n]);
	if (kv_flush(kv) || kv_put(kv, "y", 1, "2", 1, 0) || kv_flush(kv))
		die("flush: %s", kv_error());
	want(kv, "x", "1");
	want(kv, "y", "2");
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
out:
	kv_close(kv);
	sim_free(s);
}

/* With the first block that a merge writes, and what is in its way since then. */
static struct {
	struct kv *kv;
	bool freezes;
	u32 band[BANDS], nr;
} meanwhile;

static void take_meanwhile(enum sim_what what, u64 offset, u64 bytes, const void *data)
{
	struct kv *kv = meanwhile.kv;
	u32 reserve = meanwhile.freezes ? RESERVE_NONE : RESERVE_PUT;

	if (what != SIM_WRITE || offset < kv->head.bands_offset)
		return;
	meanwhile.kv = NULL;
	container_of(kv->disk, struct sim, disk)->watch = NULL;
	if (meanwhile.freezes && freeze(kv))
		die("freeze: %s", kv_error());
	while (!band_take(kv, reserve, &meanwhile.band[meanwhile.nr]))
		meanwhile.nr++;
}

/*
 * Others take all bands that they are given while a merge is under way: a memtable that has
 * none is no reason to end it, and writers leave it what it wants.
 */
static void taken_meanwhile(bool freezes)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	u32 i, j, tables = freezes ? 2 : 12;
	char key[20], value[350] = { 0 };
	struct kv *kv;

	opt.l0_trigger = 1000;
	opt.l0_slowdown = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	/* In streams no table is begun beside another; where logs are tables, none wants a band. */
	if (freezes && (streams(kv) || kv->head.organisation == KV_BUFFERED))
		goto out;
	for (i = 0; i < tables; i++) {
		for (j = i; j < 150 * tables; j += tables) {
			if (kv_put(kv, key, (size_t)sprintf(key, "%05u", j), value,
				   freezes ? 150 : sizeof(value), 0))
				die("put: %s", kv_error());
		}
		if (kv_flush(kv))
			die("flush: %s", kv_error());
	}
	if (freezes && kv_put(kv, "x", 1, "1", 1, 0))
		die("put: %s", kv_error());
	meanwhile.kv = kv;
	meanwhile.freezes = freezes;
	meanwhile.nr = 0;
	s->watch = take_meanwhile;
	pthread_mutex_lock(&kv->compacting);
	if (compact_all(kv))
		die("compact: %s", kv_error());
	pthread_mutex_unlock(&kv->compacting);
	if (meanwhile.kv || !meanwhile.nr)
		die("nothing was taken meanwhile");
	while (meanwhile.nr)
		band_give_back(kv, meanwhile.band[--meanwhile.nr]);
	if (kv_flush(kv))
		die("flush: %s", kv_error());
	if (freezes)
		want(kv, "x", "1");
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
out:
	kv_close(kv);
	sim_free(s);
}

struct bands {
	u32 logs, unsorted, sorted, band;
};

static int count_band(void *ctx, const struct kv_band *b)
{
	struct bands *n = ctx;

	n->logs += b->level < 0;
	n->unsorted += b->unsorted;
	n->sorted += b->level >= 0 && !b->unsorted;
	n->band = (u32)b->band;
	if (b->unsorted && b->level)
		die("level %d is unsorted", b->level);
	return 0;
}

static struct bands bands_of(struct kv *kv)
{
	struct bands n = { .logs = 0 };

	kv_bands(kv, count_band, &n);
	return n;
}

/* The log is the table, in the same band, and no other is taken for it. */
static void log_is_table(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u32 held[BANDS], n = 0, log;
	struct kv_snapshot *snap;
	struct bands b;
	size_t bytes;
	void *value;

	if (kv->head.organisation != KV_BUFFERED)
		goto out;
	if (kv_put(kv, "m", 1, "old", 3, 0) || kv_put(kv, "z", 1, "", 0, KV_SYNC))
		die("put: %s", kv_error());
	snap = kv_snapshot_new(kv);
	log = bands_of(kv).band;
	while (n < ARRAY_SIZE(held) && !band_take(kv, RESERVE_NONE, &held[n]))
		n++;
	if (kv_delete(kv, "z", 1, 0) || kv_put(kv, "a", 1, "1", 1, 0))
		die("put: %s", kv_error());
	put(kv, "m", "new");
	b = bands_of(kv);
	if (b.unsorted != 1 || b.logs || b.sorted || b.band != log)
		die("the log did not become a table");
	while (n)
		band_give_back(kv, held[--n]);
	want(kv, "m", "new");
	want(kv, "a", "1");
	want(kv, "z", NULL);
	if (kv_get(kv, snap, "m", 1, &value, &bytes) || bytes != 3 || memcmp(value, "old", 3))
		die("a snapshot does not see what was before");
	free(value);
	if (kv_get(kv, snap, "z", 1, &value, &bytes) || bytes)
		die("a snapshot does not see an empty value");
	free(value);
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	kv_snapshot_free(kv, snap);
	kv_close(kv);
	kv = opened(s, "again");
	if (bands_of(kv).unsorted != 1)
		die("it is none any more");
	want(kv, "m", "new");
	want(kv, "z", NULL);
	/* A log that was found is written anew: where a power cut has left it, none can tell. */
	if (kv_put(kv, "b", 1, "2", 1, 0) || kv_close(kv))
		die("put: %s", kv_error());
	kv = opened(s, "recovered");
	b = bands_of(kv);
	if (b.unsorted != 1 || b.sorted != 1 || b.logs)
		die("%u unsorted, %u sorted, %u logs", b.unsorted, b.sorted, b.logs);
	want(kv, "b", "2");
	/* Also if it is alone, it is not moved as it is. */
	if (kv_compact(kv) || bands_of(kv).unsorted || kv_check(kv, complain, NULL))
		die("compact: %s", kv_error());
	want(kv, "m", "new");
	put(kv, "p", "3");
	if (bands_of(kv).unsorted != 1 || kv_compact(kv) || bands_of(kv).unsorted)
		die("compact: %s", kv_error());
	want(kv, "p", "3");
out:
	kv_close(kv);
	sim_free(s);
}

/* Alone, or overlapping nothing, a log is merged and not moved: below level 0 all is sorted. */
static void unsorted_alone(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct bands b;

	if (kv->head.organisation != KV_BUFFERED)
		goto out;
	put(kv, "ca", "1");
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	b = bands_of(kv);
	if (b.unsorted || b.sorted != 1)
		die("a table is moved as it is");
	put(kv, "d", "1");
	put(kv, "e", "1");
	put(kv, "f", "1");
	if (kv_settle(kv))
		die("settle: %s", kv_error());
	b = bands_of(kv);
	if (b.unsorted > 2 || b.sorted < 2)
		die("nothing was merged");
	want(kv, "d", "1");
out:
	kv_close(kv);
	sim_free(s);
}

/* Three start a merge; when nothing is due, two do. */
static void room_for_a_burst(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	bool did;

	if (kv->head.organisation != KV_BUFFERED)
		goto out;
	put(kv, "ac", "1");
	if (compact_step(kv, &did) || did || compact_idle(kv, &did) || did)
		die("one band of level 0 was merged");
	put(kv, "bd", "2");
	if (compact_step(kv, &did) || did)
		die("two bands of level 0 were merged at once");
	if (compact_idle(kv, &did) || !did || bands_of(kv).unsorted)
		die("two bands of level 0 are left");
	want(kv, "a", "1");
	want(kv, "d", "2");
out:
	kv_close(kv);
	sim_free(s);
}

/* One in a hundred keys that are not there seems to be; none that is there does not. */
static void bloom(void)
{
	u32 i, wrong = 0, bytes = 10000 * 10 / 8;
	u8 *bits = calloc(1, bytes);
	char key[20];

	for (i = 0; i < 10000; i++)
		bloom_set(bits, bytes, bloom_hash(slice(key, (size_t)sprintf(key, "%u", i))));
	for (i = 0; i < 10000; i++) {
		if (!bloom_has(bits, bytes, slice(key, (size_t)sprintf(key, "%u", i))))
			die("the Bloom filter denies key %u", i);
	}
	for (; i < 110000; i++)
		wrong += bloom_has(bits, bytes, slice(key, (size_t)sprintf(key, "%u", i)));
	free(bits);
	printf("of 100000 keys that are not there, %u seem to be\n", wrong);
	if (wrong < 300 || wrong > 1500)
		die("that is not one in a hundred");
}

static int count_offloaded(void *ctx, const struct kv_band *b)
{
	*(u32 *)ctx += b->offloaded;
	return 0;
}

static u32 offloaded(struct kv *kv)
{
	u32 n = 0;

	kv_bands(kv, count_offloaded, &n);
	return n;
}

/* A disk that has, or has not, what was offloaded, or is another's. */
static void refused(struct sim *s, struct kv_disk *spare, int why, const char *text)
{
	struct kv_options look = { .flags = KV_READ_ONLY };
	struct kv *kv;
	u32 i;
	int err;

	for (i = 0; i < 2; i++) {
		err = store_open(&kv, sim_disk(s), spare, i ? &look : &options);
		if (err != why || !strstr(kv_error(), text))
			die("%d '%s', not %d '%s'", err, err ? kv_error() : "", why, text);
	}
}

static void own_disk(struct sim *s, const u8 *uuid, const u8 *own)
{
	struct shape head;

	if (header_read(sim_disk(s), false, &head))
		die("header: %s", kv_error());
	memcpy(head.uuid, uuid ?: head.uuid, sizeof(head.uuid));
	if (store_offload(&s->spare, &head, 0, own))
		die("offload: %s", kv_error());
}

/* While merges are under way, and only then; and nobody goes on without what is there. */
static void while_merging(void)
{
	static const u8 first[16] = "a first one", second[16] = "a second one";
	struct sim *s = formatted(BYTES);
	u32 held[BANDS], n = 0, i;
	struct kv_stats stats;
	bool did;
	u64 ops;
	struct kv *kv;

	own_disk(s, NULL, first);
	kv = opened(s, "new");
	if (kv_put(kv, "a", 1, "1", 1, KV_SYNC) || offloaded(kv))
		die("a write is offloaded while nothing is merged");
	put(kv, "b", "1");
	kv->merging = 1;
	if (kv_put(kv, "a", 1, "2", 1, 0) || offloaded(kv) != 1)
		die("a write is not offloaded");
	/* The write and the flush are the other device's. */
	s->recording = true;
	ops = s->ops;
	if (kv_put(kv, "c", 1, "2", 1, KV_SYNC) || s->ops != ops + 2 || s->events != 2 ||
	    !s->event[0].spare || !s->event[1].spare)
		die("a sync asks the disk that is merged on");
	s->recording = false;
	sim_forget(s);
	kv_stats(kv, &stats);
	if (stats.offloaded_writes != 2 || stats.offloaded_bytes != 4 ||
	    stats.offload_bands_free + 1 != stats.offload_bands)
		die("%lu writes, %lu bytes", stats.offloaded_writes, stats.offloaded_bytes);
	kv_close(kv);
	refused(s, NULL, -ENXIO, "which must be named");
	own_disk(s, NULL, second);
	refused(s, &s->spare, -ENXIO, "on another offload device than spare");
	own_disk(s, second, first);
	refused(s, &s->spare, -EMEDIUMTYPE, "of another store than sim");
	memset(s->data + BYTES, 0, BLOCK_BYTES);
	memset(s->data + BYTES + BAND - BLOCK_BYTES, 0, BLOCK_BYTES);
	refused(s, &s->spare, -EMEDIUMTYPE, "spare is no offload device");
	refused(s, sim_disk(s), -EMEDIUMTYPE, "sim is no offload device");
	own_disk(s, NULL, first);
	if (store_open(&kv, &s->spare, NULL, &options) != -EMEDIUMTYPE)
		die("an offload device is opened as a store");
	/* What is recovered is on the store's own disk. */
	kv = opened(s, "again");
	if (offloaded(kv))
		die("a log that was read back is still offloaded");
	kv_close(kv);
	if (store_open(&kv, sim_disk(s), NULL, &options))
		die("open: %s", kv_error());
	want(kv, "a", "2");
	want(kv, "c", "2");
	kv_close(kv);
	/* A table there; it comes back by itself, before two are half of three. */
	kv = opened(s, "tables");
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	kv->merging = 1;
	put(kv, "ad", "3");
	kv->merging = 0;
	if (offloaded(kv) != 1 || bands_of(kv).unsorted != 1)
		die("there is no table on the offload device");
	want(kv, "a", "3");
	want(kv, "b", "1");
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	kv_close(kv);
	refused(s, NULL, -ENXIO, "which must be named");
	kv = opened(s, "tables");
	if (compact_step(kv, &did) || did || compact_idle(kv, &did) || !did || offloaded(kv))
		die("what was offloaded does not come back");
	want(kv, "a", "3");
	want(kv, "d", "3");
	/* When it is full, and when the store has no room for what is there. */
	kv->merging = 1;
	kv_stats(kv, &stats);
	for (i = 0; i < stats.offload_bands + 1; i++)
		put(kv, "e", "4");
	if (offloaded(kv) != stats.offload_bands || bands_of(kv).unsorted != i)
		die("%u bands of %u are offloaded", offloaded(kv), i);
	kv->merging = 0;
	if (kv_compact(kv) || offloaded(kv))
		die("compact: %s", kv_error());
	kv->merging = 1;
	while (kv->free > RESERVE_PUT + 1 && !band_take(kv, RESERVE_NONE, &held[n]))
		n++;
	put(kv, "f", "5");
	if (offloaded(kv))
		die("nothing of it would have room when it comes back");
	while (n)
		band_give_back(kv, held[--n]);
	want(kv, "e", "4");
	want(kv, "f", "5");
	kv_close(kv);
	sim_free(s);
}

static void repeat(u8 *data, const struct event *e)
{
	if (e->what == SIM_WRITE)
		memcpy(data + e->offset, e->data, e->bytes);
	else if (e->what == SIM_DISCARD)
		memset(data + e->offset, 0xdd, e->bytes);
}

/*
 * Who commits is killed before the flush, the store is opened anew, and then the power is
 * cut: the disk may have lost the commit, and kept what was done to bands that were free by it.
 */
static void killed_at_commit(void)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	u8 *durable = malloc(sim_bytes(s));
	u32 i, first, commit, end;
	struct kv *kv;

	opt.flags |= KV_NO_LOG;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	put(kv, "ac", "1");
	put(kv, "bd", "2");
	memcpy(durable, s->data, sim_bytes(s));
	s->recording = true;
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	kv_close(kv);
	for (i = 0; i < s->events && (s->event[i].what != SIM_WRITE ||
				      s->event[i].offset >= s->bands_offset); i++)
		repeat(durable, &s->event[i]);
	commit = i;
	memcpy(s->data, durable, sim_bytes(s));
	for (; i < s->events && s->event[i].what == SIM_WRITE; i++)
		repeat(s->data, &s->event[i]);
	if (i != commit + COPIES)
		die("a commit of %u writes", i - commit);
	free(s->pointer);
	s->pointer = NULL;
	first = s->events;
	kv = opened(s, "killed");
	if (kv_put(kv, "e", 1, "3", 1, KV_SYNC))
		die("put: %s", kv_error());
	end = s->events;
	kv_close(kv);
	s->recording = false;
	for (i = first; i < end && s->event[i].what != SIM_FLUSH; i++)
		repeat(durable, &s->event[i]);
	memcpy(s->data, durable, sim_bytes(s));
	kv = opened(s, "cut");
	want(kv, "a", "1");
	want(kv, "d", "2");
	kv_close(kv);
	free(durable);
	sim_free(s);
}

/* The band table says how long a log is whose memtable is not a table yet. */
static void frozen_log(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new"), *again;
	u64 last;

	if (kv->head.organisation != KV_BUFFERED || streams(kv))
		goto out;
	if (kv_put(kv, "a", 1, "1", 1, KV_SYNC) || kv_put(kv, "b", 1, "1", 1, KV_SYNC))
		die("put: %s", kv_error());
	last = band_offset(kv, kv->log.band.band) + kv->log.at - BLOCK_BYTES;
	if (freeze(kv) || kv_put(kv, "c", 1, "1", 1, KV_SYNC))
		die("put: %s", kv_error());
	memset(s->data + last, 0xcc, BLOCK_BYTES);
	if (sim_open(&again, s, &options) != -EUCLEAN)
		die("what was synced is lost, and nobody says so");
out:
	kv_close(kv);
	sim_free(s);
}

#define CROWD		2000U

/* Write @n of a crowd: a value, now and then for an older key; or an older one goes. */
static int one_of_crowd(struct kv *kv, u32 n, u32 *last)
{
	u32 value[500] = { n }, of = n % 5 == 4 && n > 100 ? n - 100 : n;
	char key[20];
	int err;

	if (n % 7 == 6 && n > 150) {
		of = n - 150;
		err = kv_delete(kv, key, (size_t)sprintf(key, "%08u", of * 7919 % 100000), 0);
		n = 0;
	} else {
		err = kv_put(kv, key, (size_t)sprintf(key, "%08u", of * 7919 % 100000), value,
			     sizeof(value), 0);
	}
	if (!err)
		last[of] = n;
	return err;
}

static void want_crowd(struct kv *kv, u32 n, const u32 *last)
{
	char key[20];
	size_t bytes;
	u32 i, *got;
	int err;

	for (i = 1; i < n; i++) {
		err = kv_get(kv, NULL, key, (size_t)sprintf(key, "%08u", i * 7919 % 100000),
			     (void **)&got, &bytes);
		if (err != (last[i] ? 0 : -ENOENT))
			die("get %u of %u: %d %s", i, n, err, kv_error());
		if (!err && *got != last[i])
			die("%u of %u is of write %u, not %u", i, n, *got, last[i]);
		if (!err)
			free(got);
	}
}

/*
 * More tables that are in each other's range than there are free bands: what is merged must
 * get by with those, when a write finds no room or, not @full, just before.
 */
static void crowded(bool full)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	u32 last[CROWD] = { 0 }, n, i;
	const struct level *l;
	struct kv *kv;
	int err = 0;

	opt.l0_trigger = 1000;
	opt.l0_slowdown = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	/* A spell in which no merge has come to anything, part of it with one under way. */
	for (n = 1; n < CROWD && !err && (full || bands_enough(kv, RESERVE_PUT + 1)); n++) {
		kv->merging = kv->offload && n % 100 < 50;
		err = one_of_crowd(kv, n, last);
	}
	kv->merging = 0;
	if (err != (full ? -ENOSPC : 0))
		die("put: %d %s", err, kv_error());
	n -= full;
	if (kv_delete(kv, "99999999", 8, 0))
		die("not even a deletion has room: %s", kv_error());
	kv->opt.l0_trigger = 4;
	kv->opt.l0_slowdown = 8;
	if (kv_settle(kv))
		die("settle: %s", kv_error());
	if (kv->version->level[0].nr >= 4)
		die("%u bands of level 0 are left", kv->version->level[0].nr);
	want_crowd(kv, n, last);
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	if (offloaded(kv))
		die("%u bands have no room to come back", offloaded(kv));
	l = &kv->version->level[1];
	for (i = 1; i < l->nr; i++) {
		if (slice_cmp(l->part[i - 1]->max, l->part[i]->min) >= 0)
			die("a band of level 1 overlaps another");
	}
	want_crowd(kv, n, last);
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	printf("%u writes, settled when %s\n", n, full ? "full" : "nearly full");
	kv_close(kv);
	sim_free(s);
}

/*
 * Versions of one key in several bands, which snapshots keep: they overlap whatever is merged,
 * and where there is no room to merge all of them, no merge brings that about.
 */
static void kept_versions(void)
{
	struct sim *s = formatted(BYTES);
	struct kv_snapshot *snap[60];
	struct kv *kv = opened(s, "new");
	u32 held[BANDS], n = 0, i;
	u8 value[5000] = { 0 };
	int err;

	for (i = 0; i < ARRAY_SIZE(snap); i++) {
		if (kv_put(kv, "v", 1, value, sizeof(value), 0) || (i % 9 == 8 && kv_flush(kv)))
			die("put: %s", kv_error());
		snap[i] = kv_snapshot_new(kv);
	}
	if (kv_flush(kv))
		die("flush: %s", kv_error());
	while (bands_enough(kv, RESERVE_DELETE) && !band_take(kv, RESERVE_NONE, &held[n]))
		n++;
	err = kv_compact(kv);
	if (err && err != -ENOSPC)
		die("compact: %d %s", err, kv_error());
	while (n)
		band_give_back(kv, held[--n]);
	for (i = 0; i < ARRAY_SIZE(snap); i++)
		kv_snapshot_free(kv, snap[i]);
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	kv_close(kv);
	sim_free(s);
}

/* Of level 0, loc and buffered merge what there is memory for the indexes of, and the oldest. */
static void many_indexes(void)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	char key[2] = "a";
	u32 i, bytes = 0;
	struct kv *kv;
	struct pick p;

	opt.l0_trigger = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	if (kv->head.organisation == KV_SOC || streams(kv))
		goto out;
	for (i = 0; i < 6; i++) {
		/* All overlap. */
		put(kv, "a", key);
		put(kv, "az", key);
	}
	kv->opt.l0_trigger = 4;
	if (pick_begin(kv, &p) || pick_loc(kv, &p))
		die("pick: %s", kv_error());
	for (i = 0; i < p.nr; i++)
		bytes += pick_index_bytes(p.part[i]);
	if (p.nr < 2 || p.nr == 12 || bytes > MERGE_INDEXES)
		die("%u of 12 tables, with %u bytes of indexes", p.nr, bytes);
	for (i = 1; i < p.nr; i++) {
		if (p.part[i]->age < p.part[i - 1]->age)
			die("they are not the oldest");
	}
	pick_end(kv, &p);
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	want(kv, "a", "a");
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
out:
	kv_close(kv);
	sim_free(s);
}

/* What is forgotten of a table is all of it, and of no other. */
static void forgotten(void)
{
	struct cache *c = cache_new(64 << 20);
	struct cache_item *item;
	u32 tables = 5000, i;

	for (i = 0; i < 3 * tables; i++) {
		item = cache_item_new(i % tables, i / tables, 10);
		if (!item)
			die("no memory");
		cache_put(c, cache_add(c, item));
	}
	for (i = 0; i < tables; i += 2)
		cache_forget(c, i);
	for (i = 0; i < 3 * tables; i++) {
		item = cache_get(c, i % tables, i / tables);
		if (!item != !(i % tables % 2))
			die("table %u is%s forgotten", i % tables, item ? " not" : "");
		cache_put(c, item);
	}
	cache_free(c);
}

static void *sync_one(void *kv)
{
	if (kv_put(kv, "b", 1, "2", 1, KV_SYNC))
		die("put: %s", kv_error());
	return NULL;
}

/* A flush of the disk, until which another thread syncs a write that is offloaded. */
static struct kv *syncing;
static int (*flush_of_disk)(struct kv_disk *d);

static int sync_meanwhile(struct kv_disk *d)
{
	struct timespec until;
	pthread_t thread;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	if (pthread_create(&thread, NULL, sync_one, syncing) ||
	    pthread_timedjoin_np(thread, NULL, &until))
		die("a sync there waits until the disk that is merged on is flushed");
	return flush_of_disk(d);
}

static void flush_meanwhile(void)
{
	struct sim *s = formatted(BYTES);
	const struct kv_disk_ops *ops = s->disk.ops;
	struct kv_disk_ops slow = *ops;
	struct kv *kv = opened(s, "new");

	kv->merging = 1;
	if (kv_put(kv, "a", 1, "1", 1, 0) || offloaded(kv) != 1)
		die("a write is not offloaded");
	syncing = kv;
	flush_of_disk = ops->flush;
	slow.flush = sync_meanwhile;
	s->disk.ops = &slow;
	if (store_flush_disk(kv, kv->disk))
		die("flush: %s", kv_error());
	s->disk.ops = ops;
	want(kv, "b", "2");
	kv->merging = 0;
	kv_close(kv);
	sim_free(s);
}

void test_vectors(u64 seed, u32 count)
{
	killed_at_commit();
	crowded(false);
	crowded(true);
	frozen_log();
	forgotten();
	many_indexes();
	kept_versions();

	old_before_new();
	deleted_below();
	many_versions();
	not_for_ever();
	without_log();
	as_drawn();
	frozen_meanwhile();
	taken_meanwhile(true);
	taken_meanwhile(false);
	log_is_table();
	unsorted_alone();
	room_for_a_burst();
	if (has_offload()) {
		while_merging();
		flush_meanwhile();
	}
	bloom();
}
