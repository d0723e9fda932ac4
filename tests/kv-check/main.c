// SPDX-License-Identifier: GPL-2.0
/*
 * kv-check TEST [ORGANISATION [SEED [COUNT]]]: tests the store on a simulated disk.
 *
 * ORGANISATION is soc, loc or buffered.  The suffix -stream selects KV_STREAM; buffered-offload has
 * an offload device.  For seeds from 50 to 99, model and cut use a small store, in which nothing is
 * merged before it is full.
 *
 *  model    random writes, snapshots and iterators, compared with a model
 *  cut      a power cut before each request, with all states that the disk may be in
 *  fail     each single request fails once
 *  memory   each single allocation fails once
 *  full     writes until there is no room, then deletions that make room
 *  again    events that make room in a full store
 *  damage   each block of a store is damaged
 *  craft    damage with correct checksums
 *  forge    stores with correct checksums that no store has written (SEED: which)
 *  log      each chunk of a log is damaged
 *  vectors  cases worked out by hand
 *  between  another thread syncs after a write has found room in the log, before it is added
 *  threads  many threads at once
 *  levels   the levels that the disk gets
 *  transient  reads that fail, but not for ever
 *  stress   everything at once: odd keys, held iterators, failures, no room
 *  spent    the statistics about time
 *  estimate the estimate of how sequential a band is
 *  group    threads that sync share flushes
 *  queue    writers do not wait for the log's thread
 *  slow     a write that is slowed down does not block others
 *  picks    the work of soc to choose a merge (COUNT: tables), and the overlap
 *  reads    number and size of reads from the disk
 *  checkpoint  a copy of a store that is written to
 *  repair   logs that have lost something
 *  ranges   ranges of keys: deletion, compaction, estimates
 *  sizes    structures of callers that were built with another version of the library
 *  layers   the cleaning that a store causes in stl-set and stl-full
 */
#include <time.h>

#include "memtable.h"
#include "model.h"
#include "vectors.h"

static enum kv_organisation organisation;
static bool offloading;
static u64 store_bytes = BYTES;
static const u8 uuid[16] = "kv-check kv-chec";
/* The wrappers below count allocations, and let one fail. */
static u64 allocations, fail_allocation;
/* This store is synced once, at the next allocation of at least @sync_bytes. */
static struct kv *sync_then;
static size_t sync_bytes;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);

#define LARGE	(64U << 10)

u64 large_allocations;

static bool no_memory(void)
{
	return __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED) ==
		__atomic_load_n(&fail_allocation, __ATOMIC_RELAXED);
}

void *__wrap_malloc(size_t n)
{
	struct kv *kv = sync_then;

	if (kv && n >= sync_bytes) {
		sync_then = NULL;
		if (kv_sync(kv))
			die("sync: %s", kv_error());
	}
	if (n >= LARGE)
		__atomic_add_fetch(&large_allocations, n, __ATOMIC_RELAXED);
	return no_memory() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
	return no_memory() ? NULL : __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
	return no_memory() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t a, size_t n)
{
	return no_memory() ? NULL : __real_aligned_alloc(a, n);
}

int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until);

/* No wait may use the wall clock as its timeout: people and NTP set it, sometimes back. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (until->tv_sec < now.tv_sec - 3600 || until->tv_sec > now.tv_sec + 3600)
		die("a wait until second %ld, and it is %ld", until->tv_sec, now.tv_sec);
	return __real_pthread_cond_timedwait(cond, lock, until);
}

int __real_usleep(unsigned int us);
int __wrap_usleep(unsigned int us);

/* The sleeps of this store are counted. */
static struct kv *sleeper;
static u32 sleeps;

int __wrap_usleep(unsigned int us)
{
	if (sleeper) {
		sleeps++;
		if (pthread_mutex_trylock(&sleeper->writer))
			die("a write sleeps and keeps others from writing");
		pthread_mutex_unlock(&sleeper->writer);
	}
	return __real_usleep(us);
}

/* Let the @next allocation from now on fail; 0: none. */
void starve(u64 next)
{
	u64 now = __atomic_load_n(&allocations, __ATOMIC_RELAXED);

	__atomic_store_n(&fail_allocation, next ? now + next : 0, __ATOMIC_RELAXED);
}

struct kv_options options = { .size = sizeof(struct kv_options), .flags = KV_NO_THREAD,
			      .l0_trigger = 3, .l0_slowdown = 5, .cache_bytes = 64 << 10 };

unsigned int most_inputs = 6;

bool has_offload(void)
{
	return offloading;
}

static void add_offload(struct sim *s)
{
	static const u8 own[16] = "a device besides";
	struct shape head;

	if (header_read(sim_disk(s), false, &head))
		die("header: %s", kv_error());
	sim_add_spare(s, SPARE_BYTES / BAND * head.band_bytes);
	if (store_offload(&s->spare, &head, 0, own))
		die("offload: %s", kv_error());
}

/*
 * Offload writes in every other stretch of 20 batches, as if a merge were running: without a thread
 * none runs while a batch is written.  Merges that are due are done all the same.
 */
void offload_some(struct kv *kv, u32 batch)
{
	if (kv->offload.disk && kv->opt.flags & KV_NO_THREAD)
		kv->worker.merging = batch / 20 % 2;
}

/* Some writes were offloaded, and some were not. */
static void have_offloaded(const struct kv_stats *s)
{
	if (offloading && (!s->offloaded_writes || s->offloaded_writes == s->puts + s->deletes))
		die("%lu of %lu writes were offloaded", s->offloaded_writes,
		    s->puts + s->deletes);
}

struct sim *formatted_as(u64 bytes, u32 band_bytes)
{
	struct kv_format_options opt = { .size = sizeof(opt), .band_bytes = band_bytes,
					 .organisation = organisation };
	struct sim *s = sim_new(bytes);

	if (store_format(sim_disk(s), &opt, uuid))
		die("format: %s", kv_error());
	sim_bands(s);
	s->stream = options.flags & KV_STREAM;
	if (offloading)
		add_offload(s);
	return s;
}

struct sim *formatted(u64 bytes)
{
	return formatted_as(bytes, BAND);
}

struct kv *opened(struct sim *s, const char *when)
{
	struct kv *kv;
	int err = sim_open(&kv, s, &options);

	if (err)
		die("%s: open: %d %s", when, err, kv_error());
	return kv;
}

static char finding[200];

static void note_finding(void *ctx, const char *text)
{
	snprintf(finding, sizeof(finding), "%s", text);
}

void check_clean(struct kv *kv, const char *when)
{
	int err = kv_check(kv, note_finding, NULL);

	if (err)
		die("%s: check: %d %s: %s", when, err, kv_error(), finding);
}

/* --- model ----------------------------------------------------------------- */

#define SNAPSHOTS	4U

static void test_model(u64 seed, u32 batches)
{
	struct load l = { .seed = seed, .batches = batches, .value_bytes = 4000 };
	struct model m = { .by[0] = 0 }, then[SNAPSHOTS];
	struct kv_snapshot *snap[SNAPSHOTS] = { NULL };
	struct sim *s = formatted(store_bytes);
	struct kv *kv = opened(s, "new");
	struct kv_iter *held = NULL;
	struct kv_stats stats = { .size = sizeof(stats) };
	struct model held_then;
	u64 deep = 0, offloaded = 0;
	u32 b, i, ranges = 0;
	bool synced;

	rng = seed;
	for (b = 1; b <= batches; b++) {
		offload_some(kv, b);
		if (load_write(kv, &l, b, &synced))
			die("batch %u: %s", b, kv_error());
		model_apply(&m, &l, b);
		/*
		 * The bands of the iterator are merged into others meanwhile; a small store has no
		 * room for that.
		 */
		if (!rnd(100) && store_bytes == BYTES) {
			if (held)
				model_walk(held, &l, &held_then, "an old iterator");
			kv_iter_free(held);
			if (kv_iter_new(kv, NULL, &held))
				die("no iterator: %s", kv_error());
			held_then = m;
		}
		if (!rnd(150)) {
			char from[64], to[64];
			size_t from_bytes = key_of(rnd(KEYS), from);
			size_t to_bytes = rnd(4) ? key_of(rnd(KEYS), to) : 0;

			if (kv_delete_range(kv, from, from_bytes, to, to_bytes,
					    rnd(2) ? KV_SYNC : 0))
				die("batch %u: delete a range: %s", b, kv_error());
			model_delete_range(&m, from, from_bytes, to, to_bytes);
			ranges++;
		}
		if (!rnd(300)) {
			char from[64];
			size_t from_bytes = key_of(rnd(KEYS), from);

			if (kv_compact_range(kv, from, from_bytes, "k7", 2))
				die("batch %u: compact a range: %s", b, kv_error());
			model_check(kv, &l, &m, NULL, "compacted a range");
		}
		i = rnd(SNAPSHOTS * 40);
		if (i < SNAPSHOTS) {
			if (snap[i])
				model_check(kv, &l, &then[i], snap[i], "a snapshot");
			kv_snapshot_free(kv, snap[i]);
			snap[i] = kv_snapshot_new(kv);
			then[i] = m;
		}
		if (!rnd(60))
			model_check(kv, &l, &m, NULL, "now");
		if (!rnd(400)) {
			for (i = 0; i < SNAPSHOTS; i++) {
				kv_snapshot_free(kv, snap[i]);
				snap[i] = NULL;
			}
			kv_iter_free(held);
			held = NULL;
			kv_stats(kv, &stats);
			deep += stats.compactions;
			offloaded += stats.offloaded_writes;
			if (kv_close(kv))
				die("close: %s", kv_error());
			/*
			 * The write pointers are still those of the disk, so rewriting a free band
			 * is allowed.
			 */
			kv = opened(s, "again");
			model_check(kv, &l, &m, NULL, "opened again");
		}
		if (!rnd(500)) {
			if (kv_compact(kv))
				die("compact: %s", kv_error());
			model_check(kv, &l, &m, NULL, "compacted");
			check_clean(kv, "compacted");
		}
	}
	for (i = 0; i < SNAPSHOTS; i++) {
		if (snap[i])
			model_check(kv, &l, &then[i], snap[i], "a last snapshot");
		kv_snapshot_free(kv, snap[i]);
	}
	kv_iter_free(held);
	check_clean(kv, "at the end");
	kv_stats(kv, &stats);
	deep += stats.compactions;
	offloaded += stats.offloaded_writes;
	printf("%u batches, %llu merges, level 0 and 1: %lu %lu bands, %llu writes offloaded\n",
	       batches, deep, stats.level_bands[0], stats.level_bands[1], offloaded);
	if (batches >= 2000 && !ranges)
		die("no range was deleted");
	if (batches >= 2000 && deep < 10)
		die("hardly anything was merged");
	if (offloading && offloaded < batches / 4)
		die("hardly anything was offloaded");
	/* Without snapshots, a compaction leaves no hidden version and no deletion. */
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	kv_stats(kv, &stats);
	if (stats.offload_bands != stats.offload_bands_free)
		die("something is still on the offload device");
	if (stats.bands_pinned)
		die("%lu bands are nobody's", stats.bands_pinned);
	kv_close(kv);
	sim_free(s);
}

/* --- cut ------------------------------------------------------------------- */

static void apply(u8 *image, const struct event *e, u64 from, u64 bytes)
{
	if (e->what == SIM_WRITE)
		memcpy(image + e->offset + from, e->data + from, bytes);
	else if (e->what == SIM_DISCARD)
		memset(image + e->offset + from, 0xdd, bytes);
}

/* Make the disk as a power cut before event @end may leave it; see model.h for @state. */
void crash(u8 *image, const struct event *event, u32 first, u32 end, u32 state)
{
	u32 i;
	u64 at, bytes;

	for (i = first; i < end && state != LOSE_ALL; i++) {
		const struct event *e = &event[i];

		if (e->durable || state == (e->spare ? LOSE_SPARE : LOSE_DISK))
			continue;
		bytes = e->bytes;
		if (state == TEAR_LAST && i + 1 == end && bytes)
			bytes = (u64)rnd((u32)(bytes / BLOCK_BYTES)) * BLOCK_BYTES;
		for (at = 0; at < bytes; at += BLOCK_BYTES) {
			if (state != LOSE_ANY || rnd(2))
				apply(image, e, at, BLOCK_BYTES);
		}
	}
}

/*
 * A device was flushed: all earlier events of it are durable.  @first advances over durable events.
 */
void flushed(u8 *durable, struct event *event, u32 *first, u32 end)
{
	u32 i;

	for (i = *first; i < end; i++) {
		if (event[i].durable || event[i].spare != event[end].spare)
			continue;
		apply(durable, &event[i], 0, event[i].bytes);
		event[i].durable = true;
	}
	event[end].durable = true;
	while (*first <= end && event[*first].durable)
		++*first;
}

/* Return: the number of batches that the store has. */
static u32 recovered(struct sim *s, const struct load *l, u32 synced, u32 most, const char *when)
{
	struct kv_options look = { .size = sizeof(struct kv_options), .flags = KV_READ_ONLY };
	struct model m = { .by[0] = 0 };
	bool whole = !rnd(8);
	struct kv *kv;
	u32 n, b;

	/* A power cut does not cause damage, not even before the next open to write. */
	if (whole) {
		if (sim_open(&kv, s, &look))
			die("%s: to be read: %s", when, kv_error());
		check_clean(kv, when);
		kv_close(kv);
	}
	kv = opened(s, when);
	n = model_batches(kv, when);
	if (n < synced || n > most)
		die("%s: %u batches, synced %u of %u", when, n, synced, most);
	for (b = 1; b <= n; b++)
		model_apply(&m, l, b);
	model_check(kv, l, &m, NULL, when);
	if (whole)
		check_clean(kv, when);
	kv_close(kv);
	return n;
}

static void test_cut(u64 seed, u32 batches)
{
	/* Large values fill memtables; small values that are synced fill logs first. */
	struct load l = { .seed = seed, .batches = batches,
			  .value_bytes = seed % 2 ? 6000 : 100 };
	struct kv_options opt = options;
	struct sim *s = formatted(store_bytes), *t = sim_new(store_bytes);
	u64 size = sim_bytes(s);
	u8 *durable = malloc(size);
	struct kv_stats stats = { .size = sizeof(stats) };
	struct kv *kv;
	u32 b, i, j, state, first = 0, cuts = 0, again = 0;
	bool synced;
	char when[100];

	rng = seed;
	if (s->spare.bytes)
		sim_add_spare(t, s->spare.bytes);
	memcpy(durable, s->data, size);
	s->recording = true;
	/* From seed 100 on the store has its background thread, so no two runs are the same. */
	if (seed >= 100)
		opt.flags &= ~(u32)KV_NO_THREAD;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	for (b = 1; b <= batches; b++) {
		s->batches = b;
		offload_some(kv, b);
		if (load_write(kv, &l, b, &synced))
			die("batch %u: %s", b, kv_error());
		if (synced)
			s->synced = b;
		if (b % 90 == 0 && store_bytes == BYTES && kv_compact(kv))
			die("compact: %s", kv_error());
	}
	kv_stats(kv, &stats);
	kv_close(kv);
	for (i = 0; i < s->events; i++) {
		for (state = 0; state < (offloading ? NR_STATES : LOSE_DISK); state++) {
			/* The counts in an event are those from before the cut. */
			memcpy(t->data, durable, size);
			crash(t->data, s->event, first, i, state);
			snprintf(when, sizeof(when), "cut before event %u of %u, state %u", i,
				 s->events, state);
			t->recording = state == LOSE_ANY && !rnd(10);
			recovered(t, &l, s->event[i].synced, s->event[i].batches, when);
			cuts++;
			if (!t->recording)
				continue;
			/* Cut again, during recovery. */
			t->recording = false;
			memcpy(t->data, durable, size);
			crash(t->data, s->event, first, i, LOSE_NONE);
			{
				u8 *base = malloc(size);
				u32 from = 0, cut;

				memcpy(base, t->data, size);
				sim_forget(t);
				t->recording = true;
				kv_close(opened(t, "recording a recovery"));
				t->recording = false;
				cut = t->events ? rnd(t->events) : 0;
				for (j = 0; j < cut; j++) {
					if (t->event[j].what != SIM_FLUSH)
						continue;
					flushed(base, t->event, &from, j);
				}
				crash(base, t->event, from, cut, LOSE_ANY);
				memcpy(t->data, base, size);
				free(base);
				snprintf(when, sizeof(when), "cut in recovery of event %u", i);
				recovered(t, &l, s->event[i].synced, s->event[i].batches, when);
				again++;
			}
			sim_forget(t);
		}
		if (s->event[i].what == SIM_FLUSH) {
			flushed(durable, s->event, &first, i);
		}
	}
	printf("%u cuts, %u of recoveries, in %u requests of %u batches\n", cuts, again,
	       s->events, batches);
	if (!again || !cuts)
		die("nothing was cut");
	/*
	 * With a background thread it is not certain that a merge runs while something is written.
	 */
	if (seed < 100)
		have_offloaded(&stats);
	free(durable);
	sim_free(s);
	sim_free(t);
}

/* --- fail ------------------------------------------------------------------ */

/* Run with one failing request.  Return: false if there is no request with this number. */
static bool fail_once(const struct load *l, const u8 *empty, struct sim *s, u64 nr)
{
	struct model m = { .by[0] = 0 };
	u32 b, done = 0, maybe = 0, synced_to = 0;
	bool synced, bad = false;
	struct kv *kv = NULL;
	char when[60];
	int err;

	snprintf(when, sizeof(when), "request %llu failed", nr);
	memcpy(s->data, empty, sim_bytes(s));
	sim_bands(s);
	s->ops = 0;
	s->fail = nr;
	s->failed = 0;
	err = sim_open(&kv, s, &options);
	if (err) {
		if (!s->failed)
			die("%s: open: %d %s", when, err, kv_error());
		return true;
	}
	for (b = 1; b <= l->batches; b++) {
		offload_some(kv, b);
		err = load_write(kv, l, b, &synced);
		if (err && !s->failed)
			die("%s: before it: %d %s", when, err, kv_error());
		if (bad && err != -EROFS)
			die("%s: a broken store goes on writing: %d", when, err);
		if (!err) {
			model_apply(&m, l, b);
			done = maybe = b;
			synced_to = synced ? b : synced_to;
		} else if (s->failed == SIM_READ + 1) {
			/* A failed read may be repeated. */
			err = load_write(kv, l, b, &synced);
			if (err)
				die("%s: a read: %d %s", when, err, kv_error());
			model_apply(&m, l, b);
			done = maybe = b;
		} else if (!bad) {
			maybe = b;
			bad = true;
		}
	}
	if (s->failed && s->failed != SIM_READ + 1 && s->failed != SIM_DISCARD + 1 && !bad &&
	    done == l->batches && kv_sync(kv) != -EROFS)
		die("%s: no error was reported", when);
	b = s->failed;
	s->fail = 0;
	/* The batch that was being written when the request failed may be there or not. */
	if (maybe == done)
		model_check(kv, l, &m, NULL, when);
	kv_close(kv);
	free(s->pointer);
	s->pointer = NULL;
	recovered(s, l, synced_to, maybe, when);
	return b;
}

static void test_fail(u64 seed, u32 batches)
{
	struct load l = { .seed = seed, .batches = batches, .value_bytes = 6000 };
	struct sim *s = formatted(BYTES);
	u8 *empty = malloc(sim_bytes(s));
	u64 nr = 0;

	rng = seed;
	memcpy(empty, s->data, sim_bytes(s));
	while (fail_once(&l, empty, s, ++nr))
		;
	printf("%llu requests failed, one at a time\n", nr - 1);
	if (nr < batches)
		die("too few requests");
	free(empty);
	sim_free(s);
}

/* --- memory ---------------------------------------------------------------- */

static bool starve_once(const struct load *l, const u8 *empty, struct sim *s, u64 nr)
{
	struct model m = { .by[0] = 0 };
	struct kv *kv = NULL;
	bool synced, starved;
	char when[60];
	u32 b;
	int err;

	snprintf(when, sizeof(when), "allocation %llu failed", nr);
	memcpy(s->data, empty, sim_bytes(s));
	sim_bands(s);
	allocations = 0;
	fail_allocation = nr;
	err = sim_open(&kv, s, &options);
	if (err == -ENOMEM)
		err = sim_open(&kv, s, &options);
	if (err)
		die("%s: open: %d %s", when, err, kv_error());
	for (b = 1; b <= l->batches; b++) {
		offload_some(kv, b);
		err = load_write(kv, l, b, &synced);
		if (err == -ENOMEM) {
			/* Nothing has changed, and a second attempt must succeed. */
			model_check(kv, l, &m, NULL, when);
			err = load_write(kv, l, b, &synced);
		}
		if (err)
			die("%s: batch %u: %d %s", when, b, err, kv_error());
		model_apply(&m, l, b);
	}
	err = kv_compact(kv);
	if (err == -ENOMEM)
		err = kv_compact(kv);
	if (err)
		die("%s: compact: %d %s", when, err, kv_error());
	starved = allocations >= nr;
	fail_allocation = 0;
	model_check(kv, l, &m, NULL, when);
	check_clean(kv, when);
	if (kv_close(kv))
		die("%s: close: %s", when, kv_error());
	return starved;
}

static void test_memory(u64 seed, u32 batches)
{
	struct load l = { .seed = seed, .batches = batches, .value_bytes = 8000 };
	struct sim *s = formatted(BYTES);
	u8 *empty = malloc(sim_bytes(s));
	u64 nr = 1, step = 1;

	rng = seed;
	memcpy(empty, s->data, sim_bytes(s));
	/* Each of the first 300 allocations, then a sample: later ones are much the same. */
	while (starve_once(&l, empty, s, nr)) {
		step = nr > 300 ? 1 + rnd(40) : 1;
		nr += step;
	}
	printf("allocations up to %llu failed, one at a time\n", nr - step);
	free(empty);
	sim_free(s);
}

/* --- full ------------------------------------------------------------------ */

static void test_full(u64 seed, u32 count)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u8 value[4000] = { 0 };
	struct kv_stats before = { .size = sizeof(before) }, after = before;
	u32 n, i, round, was = 0;
	char key[20];
	int err = 0;

	for (round = 0; round < 3; round++) {
		for (n = 0; !err; n++) {
			sprintf(key, "%08u", n * 7919 % 100000);
			err = kv_put(kv, key, 8, value, sizeof(value), 0);
		}
		if (err != -ENOSPC)
			die("round %u: %d %s", round, err, kv_error());
		/* All bands but the reserve must have been used, and in the next rounds as well. */
		if (n * sizeof(value) < BYTES / 5 * 2)
			die("round %u: full after %u values", round, n);
		if (round && n + n / 10 < was)
			die("round %u: full after %u values, and after %u before", round, n, was);
		was = n;
		kv_stats(kv, &before);
		for (i = 0; i < 20; i++) {
			if (kv_put(kv, "aaaaaaaa", 8, value, sizeof(value), 0) != -ENOSPC)
				die("there was room after all");
		}
		kv_stats(kv, &after);
		if (after.compactions != before.compactions)
			die("what cannot be freed is tried with each write");
		for (i = 0; i + 1 < n; i++) {
			sprintf(key, "%08u", i * 7919 % 100000);
			err = kv_delete(kv, key, 8, 0);
			if (err)
				die("round %u: delete %u of %u: %d %s", round, i, n, err,
				    kv_error());
		}
		check_clean(kv, "emptied");
	}
	kv_close(kv);
	sim_free(s);
	printf("full and emptied three times, %u values\n", was);
}

/* --- between --------------------------------------------------------------- */

#define WIDE		(1U << 20)	/* a value needs memory of its own */

/* A large write; another thread syncs an earlier write in the middle of it. */
static void large_write(struct kv *kv, const u8 *value)
{
	if (kv_put(kv, "small", 5, value, 10, 0))
		die("put: %s", kv_error());
	sync_bytes = WIDE / 8;
	sync_then = kv;
	if (kv_put(kv, "large", 5, value, WIDE / 8, 0) || kv_sync(kv))
		die("put: %s", kv_error());
	if (sync_then)
		die("the write has asked for no memory");
}

static void expect(struct kv *kv, const char *key, size_t want)
{
	size_t bytes;
	void *value;

	if (kv_get(kv, NULL, key, strlen(key), &value, &bytes))
		die("%s: %s", key, kv_error());
	if (bytes != want)
		die("%s has %zu bytes, not %zu", key, bytes, want);
	free(value);
}

/* With @chunks chunks of one block each, and log buffers of @buffer bytes. */
static void test_sync_between(u32 chunks, u32 buffer)
{
	struct kv_format_options shape = { .size = sizeof(shape), .band_bytes = WIDE,
					   .organisation = organisation };
	struct kv_options opt = { .size = sizeof(opt), .flags = options.flags,
				  .log_buffer_bytes = buffer };
	struct sim *s = sim_new(24ULL * WIDE);
	u8 *value = calloc(1, WIDE / 8);
	struct kv *kv;
	u32 i;

	if (store_format(sim_disk(s), &shape, uuid))
		die("format: %s", kv_error());
	sim_bands(s);
	s->stream = options.flags & KV_STREAM;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	/* From then on one of the two buffers is large, and they take turns. */
	if (kv_put(kv, "first", 5, value, WIDE / 8, KV_SYNC))
		die("put: %s", kv_error());
	for (i = 0; i < chunks; i++) {
		if (kv_put(kv, "chunk", 5, value, 10, KV_SYNC))
			die("put: %s", kv_error());
	}
	large_write(kv, value);
	if (kv_close(kv) || sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	expect(kv, "small", 10);
	expect(kv, "large", WIDE / 8);
	check_clean(kv, "after a sync between");
	kv_close(kv);
	free(value);
	sim_free(s);
}

static void test_between(u64 seed, u32 count)
{
	u32 i;

	test_sync_between(3, 4 * BLOCK_BYTES);
	/* With one of these the band is filled to its last block. */
	for (i = 0; i < count; i++)
		test_sync_between(170 + i, 0);
	printf("%u syncs between room in the log and a write\n", count);
}

/* --- levels ---------------------------------------------------------------- */

/* A table's band must have its level, a log's band none. */
static int check_level(void *ctx, const struct kv_band *b)
{
	const struct sim *s = ctx;

	if (s->level[b->band] != (u32)(b->level + 1))
		die("band %lu, of level %d, has level %u on the disk", b->band, b->level,
		    s->level[b->band]);
	return 0;
}

static void test_levels(u64 seed, u32 count)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u64 moves = 0, merges = 0, levels = 0;
	u8 value[2000] = { 0 };
	struct kv_stats stats = { .size = sizeof(stats) };
	char key[20];
	u32 i, n;

	rng = seed;
	for (i = 0; i < count; i++) {
		/*
		 * Ascending keys are moved to deeper levels without a merge; random keys are
		 * merged.
		 */
		n = sprintf(key, "%08u", i < count / 2 ? i : rnd(count / 2));
		if (kv_put(kv, key, n, value, sizeof(value), 0))
			die("put %u: %s", i, kv_error());
		kv_bands(kv, check_level, s);
		if ((i + 1) % (count / 8))
			continue;
		kv_stats(kv, &stats);
		moves += stats.moves;
		merges += stats.compactions;
		levels += stats.levels_told;
		kv_close(kv);
		kv = opened(s, "again");
		kv_bands(kv, check_level, s);
	}
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	kv_bands(kv, check_level, s);
	kv_stats(kv, &stats);
	printf("%llu moves, %llu merges, %llu levels told; level 0 to 2: %lu %lu %lu bands\n",
	       moves, merges, levels, stats.level_bands[0], stats.level_bands[1],
	       stats.level_bands[2]);
	if (moves < 5 || merges < 5 || levels < moves + merges)
		die("hardly anything was moved or merged");
	kv_close(kv);
	sim_free(s);
}

/* --- slow ------------------------------------------------------------------ */

static void test_slow(u64 seed, u32 count)
{
	struct sim *s = formatted(BYTES);
	struct kv_stats stats = { .size = sizeof(stats) };
	struct kv *kv;
	u32 i;

	options.l0_trigger = 1000;
	options.l0_slowdown = 2;
	kv = opened(s, "new");
	for (i = 0; i < 3; i++) {
		if (kv_put(kv, "key", 3, "value", 5, 0) || kv_flush(kv))
			die("put: %s", kv_error());
	}
	/* As if the background thread were behind. */
	kv->worker.running = true;
	sleeper = kv;
	if (kv_put(kv, "key", 3, "value", 5, 0))
		die("put: %s", kv_error());
	sleeper = NULL;
	kv->worker.running = false;
	kv_stats(kv, &stats);
	printf("a write is slowed down %u times, %lu us\n", sleeps, stats.slow_us);
	if (sleeps != 1 || !stats.slow_us)
		die("no write was slowed down");
	kv_close(kv);
	sim_free(s);
}

static void run_threads(u64 seed, u32 rounds)
{
	struct kv_options opt = options;
	struct sim *s = formatted(BYTES);
	struct kv *kv;

	opt.flags &= ~(u32)KV_NO_THREAD;
	opt.slowdown_us = 1;
	/* Slow writes leave time for operations that should wait to come between. */
	s->slow = s->stream;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	test_threads(kv, rounds);
	kv = opened(s, "after threads");
	check_clean(kv, "after threads");
	kv_close(kv);
	sim_free(s);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(u64 seed, u32 count);
		u32 count;
	} test[] = {
		{ "model", test_model, 3000 }, { "cut", test_cut, 400 },
		{ "fail", test_fail, 300 }, { "memory", test_memory, 120 },
		{ "full", test_full, 1 }, { "damage", test_damage, 600 },
		{ "craft", test_craft, 700 }, { "forge", test_forge, 1 },
		{ "log", test_log, 40 }, { "vectors", test_vectors, 1 },
		{ "between", test_between, 40 }, { "threads", run_threads, 1500 },
		{ "levels", test_levels, 800 }, { "layers", test_layers, 12000 },
		{ "reads", test_reads, 1 }, { "transient", test_transient, 250 },
		{ "stress", test_stress, 6000 }, { "again", test_again, 1 },
		{ "spent", test_spent, 1 }, { "estimate", test_estimate, 1 },
		{ "group", test_group, 1 }, { "queue", test_queue, 1 },
		{ "slow", test_slow, 1 },
		{ "sizes", test_sizes, 1 }, { "ranges", test_ranges, 400 },
		{ "repair", test_repair, 40 }, { "checkpoint", test_checkpoint, 200 },
		{ "picks", test_picks, 37500 },
	};
	u64 seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	u32 i;

	if (argc > 2)
		organisation = !strncmp(argv[2], "loc", 3) ? KV_LOC :
			!strncmp(argv[2], "buffered", 8) ? KV_BUFFERED : KV_SOC;
	offloading = argc > 2 && strstr(argv[2], "-offload");
	memtable_seed = seed;
	/* Room in the cache for blocks that were not requested. */
	if (seed % 2 == 0)
		options.cache_bytes = 4 << 20;
	if (seed >= 50 && seed < 100) {
		store_bytes = SMALL_BYTES;
		options.l0_trigger = 1000;
		options.l0_slowdown = 1000;
	}
	if (argc > 2 && strstr(argv[2], "-stream"))
		options.flags |= KV_STREAM;
	for (i = 0; i < ARRAY_SIZE(test); i++) {
		if (argc > 1 && !strcmp(argv[1], test[i].name)) {
			test[i].run(seed, argc > 4 ? (u32)atoi(argv[4]) : test[i].count);
			return 0;
		}
	}
	die("usage: kv-check model|cut|fail|memory|full|damage|craft|forge|log|vectors|between|threads|levels|layers|reads|transient|stress|again|spent|estimate|group|queue|slow|sizes|ranges|repair|checkpoint|picks [soc|loc|buffered[-stream|-offload] [SEED [COUNT]]]");
}
