// SPDX-License-Identifier: GPL-2.0
/* Compaction: merges tables and writes memtables, one at a time, in any thread. */
#include "memtable.h"
#include "pick.h"

/* Distance of the ages of two merges: a merge writes fewer tables than this. */
#define AGES		(1ULL << 32)
/*
 * Entries between two calls of look_up().  An unsorted input needs a random read for each entry, so
 * the merge looks up after each entry there.
 */
#define CHECK_EVERY	256U
#define CHECK_UNSORTED	1U

/*
 * A merge that failed because an input could not be read is not tried again for this time, as it
 * may read much before it fails again.
 */
#define HOLD_US	60000000ULL

/**
 * struct merger - a merge under way
 * @kv: the store
 * @in: parts that are still to be removed; the merge holds a reference to each
 * @nr_in: number of @in
 * @mem: the memtable that is merged instead of parts; or NULL
 * @beyond: the merge ends before the least key of this part; or NULL
 * @level: level of the result
 * @age: age of the next table of the result.  It falls with each table: if the versions of a key
 *	fill several tables, the first table has the newest versions
 * @merge: all inputs, merged into one order
 * @snapshot: sequence numbers of the snapshots, in ascending order
 * @snapshots: number of @snapshot
 * @w: the table that is being written, or NULL
 * @out: tables that are written but not committed
 * @outs: number of @out
 * @last: the last key that was merged
 * @kept: for the last version of @last that was kept, the number of snapshots that are too old to
 *	see it
 * @versions: number of versions of @last that were kept
 * @bytes: bytes of these versions
 * @most_versions: largest number of versions of one key so far, of the keys with more than one
 * @most_bytes: largest number of bytes of the versions of such a key; larger sums than 1 /
 *	MOST_UNUSED of a band do not count
 */
struct merger {
	struct kv *kv;
	struct part **in;
	u32 nr_in;
	struct memtable *mem;
	struct part *beyond;
	u32 level;
	u64 age;
	struct merge merge;
	u64 *snapshot;
	u32 snapshots;
	struct table_writer *w;
	struct part *out[COMMIT_BANDS + 8];
	u32 outs;
	struct buffer last;
	u32 kept, versions, most_versions;
	u64 bytes, most_bytes;
};

static int by_number(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

/* A snapshot that is taken later sees the newest version, which a merge always keeps. */
static int take_snapshots(struct merger *g)
{
	struct kv *kv = g->kv;
	struct kv_snapshot *s;
	u32 n = 0;

	pthread_mutex_lock(&kv->lock);
	for (s = kv->snapshots.next; s != &kv->snapshots; s = s->next)
		n++;
	g->snapshot = malloc((n + 1) * sizeof(*g->snapshot));
	for (s = kv->snapshots.next; s != &kv->snapshots && g->snapshot; s = s->next)
		g->snapshot[g->snapshots++] = s->seq;
	pthread_mutex_unlock(&kv->lock);
	if (!g->snapshot)
		return kv_no_memory();
	qsort(g->snapshot, g->snapshots, sizeof(*g->snapshot), by_number);
	return 0;
}

/* Return: the number of snapshots that are too old to see the version with @seq. */
static u32 too_old(const struct merger *g, u64 seq)
{
	u32 i;

	for (i = 0; i < g->snapshots && g->snapshot[i] < seq; i++)
		;
	return i;
}

/*
 * Can an older version of the key remain when the inputs are gone?  A table that overlaps the
 * inputs but is no input is newer if it lies in a level above, and older if it lies in the level of
 * the result or below.  Tables that are added while the merge runs are newer.
 */
static bool older_elsewhere(const struct merger *g, const struct version *v, struct slice key)
{
	struct part *p;
	u32 level, i;
	u64 age;

	for (level = g->level; level < KV_LEVELS; level++) {
		for (age = U64_MAX; (p = version_older(v, level, key, age)); age = p->age) {
			for (i = 0; i < g->nr_in && g->in[i]->table != p->table; i++)
				;
			if (i == g->nr_in)
				return true;
		}
	}
	return false;
}

/* Can no reader, now or later, need this version? */
static bool unwanted(struct merger *g, const struct entry *e, bool again)
{
	u32 stratum = too_old(g, e->seq);
	struct version *v;
	bool older;

	/* A newer version hides it from the same snapshots. */
	if (again && stratum == g->kept)
		return true;
	g->kept = stratum;
	if (e->op != OP_DELETE || stratum || g->mem)
		return false;
	v = version_get(g->kv);
	older = older_elsewhere(g, v, e->key);
	version_put(g->kv, v);
	return !older;
}

static void forget_outputs(struct merger *g, bool made)
{
	u32 i;

	for (i = 0; i < g->outs; i++) {
		/*
		 * No band table refers to it, so its band is free.  If the store is broken, the
		 * band table on the disk is unknown, and the band stays in use.
		 */
		if (!made && !g->kv->broken.err)
			g->out[i]->table->dead = true;
		part_put(g->kv, g->out[i]);
	}
	g->outs = 0;
}

/* Write a full memtable, so that writers need not wait for the merge. */
static int let_writers_on(struct merger *g)
{
	bool frozen;
	int err;

	if (g->mem)
		return 0;
	pthread_mutex_lock(&g->kv->lock);
	frozen = g->kv->current.frozen;
	pthread_mutex_unlock(&g->kv->lock);
	/*
	 * With KV_STREAM no writer waits for the memtable, and the bands of two tables must not be
	 * written at the same time.
	 */
	err = frozen && !(g->w && streams(g->kv)) ? compact_frozen(g->kv) : 0;
	/* If no band is free for the memtable, the merge itself has to free some. */
	return err == -ENOSPC ? 0 : err;
}

/* Called between entries: does the work that must not wait for the end of the merge. */
static int look_up(void *ctx)
{
	struct merger *g = ctx;
	bool stop;

	pthread_mutex_lock(&g->kv->lock);
	stop = g->kv->worker.stop;
	pthread_mutex_unlock(&g->kv->lock);
	if (stop && !g->mem)
		return kv_says(-ECANCELED, "the store is being closed");
	return let_writers_on(g);
}

/*
 * Discard one band at a time, as a disk may need long for each, and let writers go on in between.
 * For a memtable this is left for later: writers wait for it.
 */
static int reclaim(struct merger *g)
{
	int err = 0;

	while (!err && !g->mem && bands_reclaim(g->kv, 1))
		err = let_writers_on(g);
	return err;
}

/**
 * commit_some() - commit the tables that are written so far
 * @g: the merge
 * @next: the least key that is not written; NULL if all keys are
 *
 * Inputs that have more keys are trimmed: they begin at @next from now on.  So a version that a
 * deletion has hidden does not come back between two commits.
 *
 * Return: 0 or -errno.
 */
static int commit_some(struct merger *g, const struct slice *next)
{
	struct change c = { .memtable = g->mem ? g->mem->number : 0 };
	struct part **part = calloc(g->nr_in + g->outs + 1, sizeof(*part)), *p;
	struct part **trimmed = calloc(g->nr_in + 1, sizeof(*trimmed));
	u32 i, left = 0, gone = 0;
	int err = part && trimmed ? 0 : kv_no_memory();

	memcpy(part ?: g->out, g->out, g->outs * sizeof(*part));
	for (i = 0; i < g->nr_in && !err && next; i++) {
		p = g->in[i];
		if (slice_cmp(p->max, *next) < 0)
			continue;
		/* The merge has not reached this part: it stays as it is. */
		trimmed[i] = slice_cmp(p->min, *next) >= 0 ? p :
			part_new(p->table, p->level, p->age, *next, p->max);
		if (!trimmed[i])
			err = kv_no_memory();
		else if (trimmed[i] != p)
			part[g->outs + left++] = trimmed[i];
	}
	if (!err) {
		struct part **remove = calloc(g->nr_in + 1, sizeof(*remove));

		for (i = 0; i < g->nr_in && remove; i++) {
			if (trimmed[i] != g->in[i])
				remove[gone++] = g->in[i];
		}
		c.remove = remove;
		c.removes = gone;
		c.add = part;
		c.adds = g->outs + left;
		err = !remove ? kv_no_memory() :
			g->mem ? log_retire(g->kv, &c) : commit(g->kv, &c);
		free(remove);
	}
	if (!err) {
		for (i = 0, left = 0; i < g->nr_in; i++) {
			if (trimmed[i] != g->in[i])
				part_put(g->kv, g->in[i]);
			if (trimmed[i])
				g->in[left++] = trimmed[i];
		}
		g->nr_in = left;
		forget_outputs(g, true);
		err = reclaim(g);
	} else if (trimmed) {
		for (i = 0; i < g->nr_in; i++) {
			if (trimmed[i] && trimmed[i] != g->in[i])
				part_put(g->kv, trimmed[i]);
		}
	}
	free(part);
	free(trimmed);
	return err;
}

static int finish_table(struct merger *g)
{
	struct table_writer *w = g->w;
	int err;

	g->w = NULL;
	err = table_finish(w, g->level, g->age--, &g->out[g->outs]);
	g->outs += !err;
	return err;
}

static int begin_table(struct merger *g, const struct entry *e)
{
	uint64_t *counter = g->mem ? &g->kv->stats.flush_bytes :
				     &g->kv->stats.compact_written_bytes;
	bool split = g->last.used && !slice_cmp(buffer_slice(&g->last), e->key);
	int err;

	if (!split && !g->mem && g->outs >= COMMIT_BANDS) {
		err = commit_some(g, &e->key);
		if (err)
			return err;
	}
	err = g->outs < ARRAY_SIZE(g->out) ? table_writer_new(g->kv, counter, g->level, &g->w) :
		kv_says(-E2BIG, "too many versions of one key for snapshots");
	if (err == -ENOSPC && !split && !g->mem && g->outs) {
		err = commit_some(g, &e->key);
		if (!err)
			err = table_writer_new(g->kv, counter, g->level, &g->w);
	}
	if (err == -ENOSPC)
		kv_says(err, "%s: no band is free to merge into", g->kv->disk->name);
	return err;
}

/*
 * A merge can commit only between two keys.  So a table preferably ends before a key, not between
 * two versions of it.  If the versions of a key were too many for one table, the table ends before
 * the next key at which a commit is due.
 */
static bool ends_before(const struct merger *g, const struct entry *e)
{
	return g->w && !g->mem &&
		(g->outs >= COMMIT_BANDS ||
		 !table_has_room(g->w, g->most_versions, g->most_bytes, e->key.bytes));
}

/* Note a version that is kept: the first one of its key, or with @again a further one. */
static void note_versions(struct merger *g, const struct entry *e, bool again)
{
	u64 most = g->kv->head.band_bytes / MOST_UNUSED;

	g->versions = again ? g->versions + 1 : 1;
	g->bytes = again ? g->bytes + entry_bytes(e) : entry_bytes(e);
	if (g->versions > 1 && g->bytes <= most) {
		g->most_versions = max(g->most_versions, g->versions);
		g->most_bytes = max(g->most_bytes, g->bytes);
	}
}

static int keep(struct merger *g, const struct entry *e, bool again)
{
	bool full = !again && ends_before(g, e);
	int err = g->w && !full ? table_add(g->w, e, &full) : 0;

	note_versions(g, e, again);
	if (err || (g->w && !full))
		return err;
	if (g->w)
		err = finish_table(g);
	if (!err)
		err = begin_table(g, e);
	if (!err)
		err = table_add(g->w, e, &full);
	if (!err && full)
		err = kv_says(-EUCLEAN, "an entry is too large for a table");
	return err;
}

static int merge_all(struct merger *g)
{
	u32 n = 0, every = g->kv->head.organisation == KV_BUFFERED ? CHECK_UNSORTED : CHECK_EVERY;
	const struct entry *e;
	bool again;
	int err;

	for (err = merge_seek(&g->merge, slice(NULL, 0)); !err && (e = merge_at(&g->merge));
	     err = err ?: merge_next(&g->merge)) {
		if (g->beyond && slice_cmp(e->key, g->beyond->min) >= 0)
			break;
		if (!(++n % every)) {
			err = look_up(g);
			if (err)
				break;
		}
		again = n > 1 && !slice_cmp(e->key, buffer_slice(&g->last));
		if (!unwanted(g, e, again))
			err = keep(g, e, again);
		if (!err && !again)
			err = buffer_set(&g->last, e->key);
	}
	if (!err && g->w)
		err = finish_table(g);
	return err ?: commit_some(g, g->beyond ? &g->beyond->min : NULL);
}

static int add_inputs(struct merger *g)
{
	u32 i, window = READ_AHEAD / (g->nr_in ?: 1);
	struct cursor *c;
	int err;

	window = clamp(rounddown(window, BLOCK_BYTES), 16 * BLOCK_BYTES, WINDOW_BYTES);
	window = min(window, rounddown(g->kv->head.band_bytes / 4, BLOCK_BYTES));
	err = merge_init(&g->merge, g->nr_in + 1);
	g->merge.between = look_up;
	g->merge.ctx = g;
	for (i = 0; i < g->nr_in && !err; i++) {
		if (__atomic_load_n(&g->in[i]->table->damaged, __ATOMIC_RELAXED))
			return table_damaged(g->in[i]->table, "it is damaged");
		c = table_cursor(g->kv, g->in[i], window, &g->kv->stats.compact_read_bytes,
				 false);
		err = c ? 0 : kv_no_memory();
		if (c)
			merge_add(&g->merge, c);
	}
	if (!err && g->mem) {
		c = memtable_cursor(g->mem);
		err = c ? 0 : kv_no_memory();
		if (c)
			merge_add(&g->merge, c);
	}
	return err;
}

/*
 * Merge the parts of @p, or the memtable @mem; one of the two is NULL.  Takes over the references
 * to the parts of @p, but not that to its @beyond.
 */
static int merge_parts(struct kv *kv, const struct pick *p, struct memtable *mem, u32 level)
{
	struct merger g = { .kv = kv, .mem = mem, .level = level,
			    .beyond = p ? p->beyond : NULL };
	u32 nr = p ? p->nr : 0;
	/*
	 * The caller holds @compacting, so no other thread changes flush_us; flushes within this
	 * merge add to it, and their time does not count as time of the merge.
	 */
	u64 began = now_us() - kv->stats.flush_us;
	u32 i;
	int err;

	/* If the merge is interrupted, its tables stay in order with those of the next attempt. */
	g.age = __atomic_fetch_add(&kv->next.age, AGES, __ATOMIC_RELAXED) + AGES - 1;
	g.in = calloc(nr + 1, sizeof(*g.in));
	err = g.in ? take_snapshots(&g) : kv_no_memory();
	for (i = 0; i < nr; i++) {
		if (g.in)
			g.in[g.nr_in++] = p->part[i];
		else
			part_put(kv, p->part[i]);
	}
	if (!err)
		err = add_inputs(&g);
	if (!err)
		err = merge_all(&g);
	table_abandon(g.w);
	forget_outputs(&g, false);
	merge_free(&g.merge);
	for (i = 0; i < g.nr_in; i++)
		part_put(kv, g.in[i]);
	free(g.in);
	free(g.snapshot);
	free(g.last.data);
	if (!mem) {
		bands_reclaim(kv, U32_MAX);
		count(&kv->stats.compact_us, now_us() - kv->stats.flush_us - began);
	}
	return err;
}

static int move_part(struct kv *kv, struct part *p, u32 level)
{
	u64 age = __atomic_fetch_add(&kv->next.age, 1, __ATOMIC_RELAXED);
	struct part *moved = part_new(p->table, level, age, p->min, p->max);
	struct change c = { .remove = &p, .removes = 1, .add = &moved, .adds = 1 };
	int err;

	if (!moved)
		return kv_no_memory();
	err = commit(kv, &c);
	/* If the commit failed, the part may not have moved. */
	if (!err)
		band_level(kv, p->table->band, level, true);
	part_put(kv, moved);
	count(&kv->stats.moves, !err);
	return err;
}

/*
 * The log of the memtable gets an index and a Bloom filter behind it, and becomes a table of level
 * 0.
 */
static int seal_unit(struct kv *kv, struct memtable *m)
{
	u64 age = __atomic_fetch_add(&kv->next.age, 1, __ATOMIC_RELAXED);
	struct table_writer *w = NULL;
	struct cursor *c = memtable_cursor(m);
	struct part *p = NULL;
	struct change change = { .add = &p, .adds = 1, .memtable = m->number };
	int err = c ? table_behind(kv, &kv->flush.unit, &w) : kv_no_memory();

	/* With KV_STREAM this band must be written to its end before another one is begun. */
	if (err)
		band_fill_up(kv, kv->flush.unit.band, kv->flush.unit.bytes);
	if (!err)
		err = c->ops->seek(c, slice(NULL, 0));
	for (; !err && c->valid; err = err ?: c->ops->next(c))
		err = table_note(w, &c->at);
	if (c)
		c->ops->free(c);
	if (err)
		table_abandon(w);
	else
		err = table_finish(w, 0, age, &p);
	err = err ?: commit(kv, &change);
	if (!err)
		band_level(kv, kv->flush.unit.band, 0, true);
	part_put(kv, p);
	return err;
}

/**
 * compact_frozen() - write the frozen memtable to a band of level 0
 * @kv: the store
 *
 * Return: 0, also if no memtable is frozen; or -errno with the message set.
 */
int compact_frozen(struct kv *kv)
{
	u64 began = now_us();
	struct memtable *m;
	int err = 0;

	pthread_mutex_lock(&kv->lock);
	m = kv->current.frozen;
	pthread_mutex_unlock(&kv->lock);
	if (!m)
		return 0;
	err = kv->flush.unit.band == NO_BAND ? merge_parts(kv, NULL, m, 0) : seal_unit(kv, m);
	/*
	 * A table may now lie behind the log and must not be overwritten; if this failed, the band
	 * stays the log's.
	 */
	kv->flush.unit.band = NO_BAND;
	count(&kv->stats.flush_us, now_us() - began);
	if (err)
		return err;
	count(&kv->stats.flushes, 1);
	pthread_mutex_lock(&kv->lock);
	kv->current.frozen = NULL;
	/* A flush that took long is forgotten after a few others. */
	kv->flush.expected_us = max(now_us() - kv->flush.began_us,
				    kv->flush.expected_us - kv->flush.expected_us / 4);
	pthread_cond_broadcast(&kv->changed);
	pthread_mutex_unlock(&kv->lock);
	memtable_put(m);
	/* The log of the memtable had up to this number of bands. */
	bands_reclaim(kv, LOG_BANDS);
	return 0;
}

static void claim(struct kv *kv, u32 bands)
{
	pthread_mutex_lock(&kv->lock);
	kv->bands.claimed = bands;
	pthread_mutex_unlock(&kv->lock);
}

/* Return: the number of tables of level 1 at a key. */
static u32 cover_at(struct kv *kv, struct slice key)
{
	struct version *v = version_get(kv);
	u32 cover = version_overlaps(v, 1, key, key, NULL, U32_MAX);

	version_put(kv, v);
	return cover;
}

/*
 * A merge within level 1 has ended that was made because @cover tables overlapped at @key.  If the
 * overlap is not smaller now, note this in @pick.stuck.
 */
static void note_overlap(struct kv *kv, struct slice key, u32 cover)
{
	kv->pick.tidied++;
	if (cover_at(kv, key) < cover)
		return;
	pthread_mutex_lock(&kv->lock);
	kv->pick.stuck = max(kv->pick.stuck, cover);
	kv->pick.stuck_released = kv->bands.released;
	pthread_mutex_unlock(&kv->lock);
}

static int do_pick(struct kv *kv, struct pick *p)
{
	u32 from = p->part[0]->level, cover = 0;
	struct buffer key = { .data = NULL };
	int err = 0;

	/* Also if the merge fails: the next attempt then begins with the next part. */
	if (from && kv->head.organisation != KV_SOC)
		err = buffer_set(&kv->pick.begin[from], p->part[0]->min);
	if (!err && p->tidy) {
		err = buffer_set(&key, p->key);
		cover = cover_at(kv, p->key);
	}
	if (err)
		return err;
	claim(kv, p->move ? 0 : pick_bands(kv, p) + RESERVE_MERGE);
	pick_own(kv, p);
	if (p->move) {
		err = move_part(kv, p->part[0], p->level);
		part_put(kv, p->part[0]);
	} else {
		__atomic_fetch_add(&kv->worker.merging, 1, __ATOMIC_RELAXED);
		err = merge_parts(kv, p, NULL, p->level);
		__atomic_fetch_sub(&kv->worker.merging, 1, __ATOMIC_RELAXED);
		count(&kv->stats.compactions, !err);
	}
	claim(kv, 0);
	/* A merge that was cut off leaves the rest of some tables, which may overlap at the key. */
	if (!err && p->tidy && !p->beyond)
		note_overlap(kv, buffer_slice(&key), cover);
	else if (!err)
		kv->pick.tidied = p->tidy ? kv->pick.tidied + 1 : 0;
	part_put(kv, p->beyond);
	free(key.data);
	return err;
}

/* Note a failed merge, so that it is not tried again with each write. */
static void note_failure(struct kv *kv, int err)
{
	pthread_mutex_lock(&kv->lock);
	kv->pick.failed.err = err;
	kv->pick.failed.generation = kv->bandtable.generation;
	/*
	 * A read error may be temporary, so the hold ends after some time.  Damage, lack of room
	 * and too many versions last until the version of the store changes.
	 */
	kv->pick.failed.until = err == -EUCLEAN || err == -ENOSPC || err == -E2BIG ? 0 :
		now_us() + HOLD_US;
	snprintf(kv->pick.failed.text, sizeof(kv->pick.failed.text), "%s", kv_error());
	pthread_mutex_unlock(&kv->lock);
}

static bool failed_lately(struct kv *kv)
{
	bool held;

	pthread_mutex_lock(&kv->lock);
	held = kv->pick.failed.err && kv->pick.failed.generation == kv->bandtable.generation &&
		(!kv->pick.failed.until || now_us() < kv->pick.failed.until);
	pthread_mutex_unlock(&kv->lock);
	return held;
}

static int step(struct kv *kv, bool eager, bool *did)
{
	struct pick p;
	int err;

	*did = false;
	if (failed_lately(kv))
		return kv_says(kv->pick.failed.err, "%s", kv->pick.failed.text);
	err = pick_begin(kv, &p);
	if (err)
		return err;
	p.eager = eager;
	err = kv->head.organisation == KV_SOC ? pick_soc(kv, &p) : pick_loc(kv, &p);
	if (!err && p.nr) {
		*did = true;
		err = do_pick(kv, &p);
	}
	pick_end(kv, &p);
	if (err && err != -ENOMEM && err != -ECANCELED)
		note_failure(kv, err);
	return err;
}

/**
 * compact_step() - do the next merge, if one is due
 * @kv: the store
 * @did: result: a merge was due
 *
 * Return: 0 or -errno with the message set.  A merge that has failed is due again after a later
 * change.
 */
int compact_step(struct kv *kv, bool *did)
{
	return step(kv, false, did);
}

/**
 * compact_due() - do all merges that are due, in a store without a background thread
 * @kv: the store
 *
 * Return: 0, or -errno if the store is broken.  A failed merge alone does not stop writes.
 */
int compact_due(struct kv *kv)
{
	bool did = true;

	while (did) {
		if (compact_step(kv, &did))
			break;
	}
	return store_broken(kv);
}

/**
 * compact_idle() - do the next merge that makes room for a later burst of writes
 * @kv: the store, of KV_BUFFERED
 * @did: result: there was such a merge
 *
 * Return: See compact_step().
 */
int compact_idle(struct kv *kv, bool *did)
{
	return step(kv, true, did);
}

/* Set @to to the largest key below @key. */
static int just_before(struct buffer *to, struct slice key)
{
	int err = buffer_set(to, key);

	if (err || !key.bytes)
		return err;
	if (!to->data[key.bytes - 1]--) {
		to->used--;
		return 0;
	}
	err = buffer_room(to, KV_KEY_MAX - key.bytes);
	if (!err) {
		memset(to->data + to->used, 0xff, KV_KEY_MAX - key.bytes);
		to->used = KV_KEY_MAX;
	}
	return err;
}

/**
 * compact_range() - merge until no tables overlap in a range and no deletion is left there
 * @kv: the store
 * @from: first key of the range; empty: from the first key
 * @to: the range ends before this key; empty: the range has no end
 *
 * Return: 0 or -errno with the message set.
 */
int compact_range(struct kv *kv, struct slice from, struct slice to)
{
	struct buffer after = { .data = NULL };
	u64 oldest = U64_MAX;
	bool more = true, alone;
	struct slice min, max;
	struct pick p;
	int err = just_before(&after, from);

	while (more && !err) {
		err = pick_begin(kv, &p);
		if (err)
			break;
		if (kv->head.organisation != KV_SOC)
			pick_crowded(kv, &p);
		alone = p.nr;
		if (!alone)
			err = pick_component(kv, &p, buffer_slice(&after));
		if (!err && !alone && p.nr && to.bytes) {
			pick_range(&p, &min, &max);
			p.nr = slice_cmp(min, to) < 0 ? p.nr : 0;
		}
		if (!err && kv->head.organisation == KV_SOC)
			alone = pick_piece(kv, &p, &oldest);
		if (!err && alone && !p.nr)
			err = kv_says(-ENOSPC, "%s: no room to merge more",
				      kv->disk->name);
		more = !err && p.nr;
		if (more && !alone) {
			pick_range(&p, &min, &max);
			err = buffer_set(&after, max);
		}
		if (more && !err)
			err = do_pick(kv, &p);
		pick_end(kv, &p);
	}
	free(after.data);
	return err;
}

/* compact_range() for all keys. */
int compact_all(struct kv *kv)
{
	return compact_range(kv, slice(NULL, 0), slice(NULL, 0));
}

/**
 * freeze() - begin a new memtable; the old one is frozen and will become a band
 * @kv: the store; the caller holds @writer, and no memtable is frozen
 *
 * Return: 0 or -errno with the message set.
 */
int freeze(struct kv *kv)
{
	struct memtable *m = memtable_new(kv->current.mem->number + 1);
	struct log_band unit = { .band = NO_BAND };
	int err = m ? 0 : kv_no_memory();

	if (!err && !(kv->opt.flags & KV_NO_LOG))
		err = log_queue(kv);
	if (!err && !(kv->opt.flags & KV_NO_LOG) && !log_take_unit(kv, &unit))
		err = log_end_band(kv);
	if (err) {
		memtable_put(m);
		return err;
	}
	pthread_mutex_lock(&kv->lock);
	kv->flush.unit = unit;
	kv->current.frozen = kv->current.mem;
	kv->flush.began_us = now_us();
	kv->current.mem = m;
	pthread_cond_signal(&kv->worker.work);
	pthread_mutex_unlock(&kv->lock);
	return 0;
}

/*
 * One round of the background thread.  @frozen: a memtable was frozen; @did: the round did
 * something.  Return: 0 or -errno.
 */
static int work(struct kv *kv, bool eager, bool *frozen, bool *did)
{
	int err;

	pthread_mutex_lock(&kv->compacting);
	pthread_mutex_lock(&kv->lock);
	*frozen = kv->current.frozen;
	pthread_mutex_unlock(&kv->lock);
	*did = false;
	err = store_broken(kv) ?: compact_frozen(kv) ?: step(kv, eager, did);
	*did |= *frozen;
	pthread_mutex_unlock(&kv->compacting);
	return err;
}

/* The background thread: runs while there is work, and when a memtable is frozen. */
void *compact_thread(void *arg)
{
	struct kv *kv = arg;
	/*
	 * The store is busy while merges are due or memtables are frozen; idle merges wait until it
	 * is not.
	 */
	bool checks = kv->head.organisation == KV_BUFFERED, eager = false, did, frozen;
	u64 busy = now_us();
	int err;

	pthread_mutex_lock(&kv->lock);
	while (!kv->worker.stop) {
		pthread_mutex_unlock(&kv->lock);
		err = work(kv, eager, &frozen, &did);
		if (frozen || (did && !eager))
			busy = now_us();
		eager = checks && now_us() - busy >= 1000ULL * kv->opt.idle_ms;
		pthread_mutex_lock(&kv->lock);
		if (kv->worker.stop || (did && !err))
			continue;
		/*
		 * After an error, for example for lack of memory or room, the thread tries again
		 * later.
		 */
		if (err || (checks && !kv->current.frozen))
			wait_us(&kv->worker.work, &kv->lock, 1000000);
		else if (!kv->current.frozen)
			pthread_cond_wait(&kv->worker.work, &kv->lock);
	}
	pthread_mutex_unlock(&kv->lock);
	return NULL;
}
