// SPDX-License-Identifier: GPL-2.0
/* Choice and order of merges: cases worked out by hand. */
#include "cache.h"
#include "pick.h"
#include "vectors.h"

/* Tables 1 a-c, 2 d-f, 3 b-e: 3 must not go down before 2. */
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

/* A deletion is merged while the version that it deletes is not. */
static void deleted_below(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct kv_stats stats = { .size = sizeof(stats) };

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

/* More versions of one key than fit into a band: each snapshot sees its own. */
static void many_versions(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct kv_snapshot *snap[VERSIONS];
	static u8 value[8000];
	struct kv_stats stats = { .size = sizeof(stats) };
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
	/* Merging one part of the key with newer versions must not pass the other parts. */
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

/*
 * Snapshots keep ten versions of each key, and a band has room for about fifty keys.  So nearly
 * every table of a merge would end within a key, and the merge must still be able to commit.
 */
static void some_versions_of_all(void)
{
	struct sim *s = formatted((u64)120 * BAND);
	struct kv_snapshot *snap[10];
	struct kv_options opt = options;
	u8 value[120] = { 0 };
	struct kv_stats stats = { .size = sizeof(stats) };
	char key[8];
	u32 i, round;
	struct kv *kv;

	opt.l0_trigger = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	for (round = 0; round <= ARRAY_SIZE(snap); round++) {
		for (i = 0; i < 900; i++) {
			if (kv_put(kv, key, (size_t)sprintf(key, "%05u", i), value,
				   sizeof(value), 0))
				die("put: %s", kv_error());
		}
		if (round < ARRAY_SIZE(snap))
			snap[round] = kv_snapshot_new(kv);
	}
	if (kv_compact(kv))
		die("compact with %zu versions of each key: %s", ARRAY_SIZE(snap), kv_error());
	kv_stats(kv, &stats);
	/* 11 versions of 900 keys, plus the share of a band that is left free for the next key. */
	if (stats.level_bands[0] || stats.level_bands[1] + stats.level_bands[2] > 27)
		die("%lu and %lu bands", stats.level_bands[1], stats.level_bands[2]);
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	for (i = 0; i < ARRAY_SIZE(snap); i++)
		kv_snapshot_free(kv, snap[i]);
	kv_close(kv);
	sim_free(s);
}

/* A merge that has failed is tried again after a change, or on request. */
static void not_for_ever(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u64 ops;
	bool did;

	s->unreadable = true;
	put(kv, "ac", "1");
	put(kv, "bd", "2");
	/*
	 * Without a background thread the third table is merged with the others at once, if
	 * possible.
	 */
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

/*
 * Make tables, numbered from 1 within each level; @bytes has their sizes, by default a whole band.
 */
static void draw(struct kv *kv, const struct range *of, const u32 *bytes, struct part **part,
		 u32 nr)
{
	u32 in_level[2] = { 0 }, i;
	struct table *t;

	for (i = 0; i < nr; i++) {
		t = calloc(1, sizeof(*t));
		t->id = 1000 + i;
		t->bytes = bytes ? bytes[i] : BAND;
		part[i] = part_new(t, of[i].level, ++in_level[of[i].level], slice(&of[i].min, 1),
				   slice(&of[i].max, 1));
	}
	version_put(kv, kv->current.version);
	kv->current.version = version_new(part, nr);
	/* As if each table had a band. */
	kv->bands.free -= nr;
}

static void rub_out(struct kv *kv, struct part **part, u32 nr)
{
	while (nr)
		part_put(kv, part[--nr]);
	/* Its version was never written. */
	store_break(kv, -EIO, "a figure was drawn");
	kv_close(kv);
}

/* Return: the numbers of the picked parts of a level in the figure, as bits. */
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
	pick_close(&p, level, newer, older, U32_MAX);
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

	draw(kv, figure, NULL, part, ARRAY_SIZE(figure));
	for (level = 0; level < 2; level++) {
		n += version_overlaps(kv->current.version, level, e, e, NULL, U32_MAX);
		for (age = U64_MAX; (p = version_older(kv->current.version, level, e, age));) {
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
	/*
	 * Whichever part of level 1 was picked, all newer parts that overlap it must be picked,
	 * too.
	 */
	for (i = 0; i < pick.nr; i++) {
		u32 bits = pick.part[i]->level ?
			closed(kv, 1, pick.part[i]->age, true, false) : 0;

		if (bits & ~picked(&pick, 1))
			die("level 1: picked %x, which is not closed", picked(&pick, 1));
	}
	if (!picked(&pick, 1))
		die("nothing of level 1 was picked");
	pick_end(kv, &pick);
	rub_out(kv, part, ARRAY_SIZE(part));
	sim_free(s);
}

/*
 * A complete compaction merges component by component, in order of keys.  The rest of the last
 * component may fit into one band with the first table of the next one, and a table that was
 * flushed meanwhile may reach across everything.  Both must be picked although they begin where
 * everything has been merged.
 */
static void one_behind_the_other(void)
{
	static const struct range merged[] = {
		{ 1, 'a', 'c' }, { 1, 'e', 'h' }, { 1, 'f', 'k' }, { 0, 'b', 'i' },
	};
	static const u32 bytes[] = { BAND / 8, BAND / 4, BAND / 4, BAND / 8 };
	struct sim *s = formatted(BYTES);
	struct part *part[ARRAY_SIZE(merged)];
	struct pick pick;
	struct kv *kv;
	u32 nr, found;

	for (nr = 3; nr <= 4; nr++) {
		kv = opened(s, "new");
		draw(kv, merged, bytes, part, nr);
		if (pick_begin(kv, &pick) || pick_component(kv, &pick, slice("c", 1)))
			die("%s", kv_error());
		found = picked(&pick, 1) | picked(&pick, 0) << 8;
		if (found != (nr == 3 ? 0xc : 0x20e))
			die("behind what is merged: picked %x of %u", found, nr);
		pick.nr = 0;
		if (pick_component(kv, &pick, slice("k", 1)) || pick.nr)
			die("behind all: picked %u", pick.nr);
		pick_end(kv, &pick);
		rub_out(kv, part, nr);
	}
	sim_free(s);
}

/*
 * Snapshots keep versions of one key in several bands.  These bands overlap after each merge, and
 * if there is no room to merge them all, no merge changes that.
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
	while (bands_enough(kv, RESERVE_DELETE) && !band_take(kv, RESERVE_NONE, &held[n], NULL))
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

/*
 * From level 0, loc and buffered merge the oldest tables, as many as there is memory for their
 * indexes.
 */
static void many_indexes(void)
{
	struct sim *s = formatted(BYTES + 10 * BAND);
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
	for (i = 0; i < 10; i++) {
		/* All tables overlap. */
		put(kv, "a", key);
		put(kv, "az", key);
	}
	kv->opt.l0_trigger = 4;
	if (pick_begin(kv, &p) || pick_loc(kv, &p))
		die("pick: %s", kv_error());
	for (i = 0; i < p.nr; i++)
		bytes += pick_index_bytes(p.part[i]);
	if (p.nr < 2 || p.nr == 20 || bytes > MERGE_INDEXES)
		die("%u of 20 tables, with %u bytes of indexes", p.nr, bytes);
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

static struct sim *watched;
static struct kv *watched_kv;
static u64 written_at;
static u32 discards, waited;

/* Note the first write; freeze a memtable when the first of the merged bands is discarded. */
static void note_first(enum sim_what what, u64 offset, u64 bytes, const void *data)
{
	if (what == SIM_WRITE && !written_at)
		written_at = watched->ops;
	if (what != SIM_DISCARD || watched_kv->current.version->level[0].nr >= 12)
		return;
	waited += watched_kv->current.frozen != NULL;
	if (!discards++ && (kv_put(watched_kv, "c", 1, "3", 1, 0) || freeze(watched_kv)))
		die("freeze: %s", kv_error());
}

/*
 * A memtable that is full when a merge begins is written before all inputs have been read.  One
 * that is full when the merge ends is written before all inputs have been discarded.  A writer may
 * wait for either.
 */
static void no_long_waits(void)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	u64 began;
	struct kv *kv;
	u32 i;
	bool did;

	opt.l0_trigger = 1000;
	opt.l0_slowdown = 12;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	if (streams(kv))
		goto out;
	for (i = 0; i < 12; i++)
		put(kv, "amz", "1");
	kv->opt.l0_trigger = 12;
	/* The cache is empty. */
	cache_free(kv->cache);
	kv->cache = cache_new(64 << 10);
	if (kv_put(kv, "b", 1, "2", 1, 0) || freeze(kv))
		die("freeze: %s", kv_error());
	watched = s;
	s->watch = note_first;
	watched_kv = kv;
	written_at = discards = waited = 0;
	began = s->ops;
	if (compact_step(kv, &did) || !did)
		die("step: %s", kv_error());
	s->watch = NULL;
	if (!written_at || written_at - began > 8)
		die("%llu requests before a memtable is written", written_at - began);
	if (discards < 12 || waited > 1 || kv->current.frozen)
		die("%u bands given back, %u while a memtable was full", discards, waited);
	want(kv, "b", "2");
	want(kv, "c", "3");
	want(kv, "m", "1");
out:
	kv_close(kv);
	sim_free(s);
}

void vectors_of_merges(void)
{
	no_long_waits();
	many_indexes();
	kept_versions();
	old_before_new();
	deleted_below();
	many_versions();
	some_versions_of_all();
	not_for_ever();
	as_drawn();
	one_behind_the_other();
}
