// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of interlaced recording on disks of a few tracks: the worked examples V1 to
 * V11 of Liang (2021), sections 2.2 to 3.4, and the relations E1 to E8 between the
 * policies.
 *
 * Events: Wn writes track n, Rn reads top n, Kn writes its copy to a backup slot, rn writes it
 * back, S is a sync.
 */
#ifdef __KERNEL__
#include <kunit/test.h>
#include <linux/module.h>
#endif

#include "exercise.h"
#include "imr-engine.h"
#include "policy.h"

#ifndef __KERNEL__
#include "kunit-shim.h"
#endif

#define TRACK	4U
#define MAX_SLOTS	64U

/**
 * struct disk - an engine and a record of its actions
 * @e: the engine
 * @l: its layout
 * @seq: sequence number of the open transaction
 * @eager: commit after every step
 * @text: events of the last epoch
 * @rewrites: rewrites in it
 * @backups: backups in it
 * @syncs: syncs in it
 * @peak: most tops saved at one time in it
 * @last: track written last
 * @written: tracks written, in order
 * @nr_written: number of entries in @written
 */
struct disk {
	struct shingle_engine *e;
	struct shingle_layout l;
	u64 seq;
	bool eager;
	char text[512];
	u32 rewrites;
	u32 backups;
	u32 syncs;
	u32 peak;
	u32 last;
	u32 written[64];
	u32 nr_written;
};

static void *zalloc(struct kunit *test, size_t size)
{
#ifdef __KERNEL__
	return kunit_kzalloc(test, size, GFP_KERNEL);
#else
	return kunit_calloc(test, size);
#endif
}

static struct disk *new_disk(struct kunit *test, u32 tracks, const char *const *keys)
{
	struct disk *d = zalloc(test, sizeof(*d));
	const struct shingle_exercise_shape shape = {
		.band_blocks = TRACK, .data_bands = tracks, .staging_bands = MAX_SLOTS,
		.interlaced = true, .head_tracks = 1,
	};
	const char *why = "";

	KUNIT_ASSERT_NOT_NULL(test, d);
	shingle_exercise_layout(&d->l, &imr_engine_ops, &shape, &(struct imr_params){ 0 },
				sizeof(struct imr_params));
	KUNIT_ASSERT_EQ(test, imr_engine_ops.create(&d->e, &d->l, &why), 0);
	d->seq = 1;
	for (; keys && keys[0]; keys += 2)
		KUNIT_ASSERT_EQ(test, shingle_set(d->e, keys[0], keys[1], &why), 0);
	return d;
}

static void end_disk(struct disk *d)
{
	d->e->ops->destroy(d->e);
}

static void note(struct disk *d, const char *what, u64 track)
{
	size_t used = strlen(d->text);

	snprintf(d->text + used, sizeof(d->text) - used, "%s%s", used ? " " : "", what);
	used = strlen(d->text);
	if (track != U64_MAX)
		snprintf(d->text + used, sizeof(d->text) - used, "%u", (u32)track);
}

static void note_step(struct disk *d, const struct shingle_step *step)
{
	enum shingle_role role;
	u64 band, offset;

	if (!step->n) {
		if (step->cookie != IMR_SYNC_MAP) {
			note(d, "S", U64_MAX);
			d->syncs++;
		}
		return;
	}
	shingle_band_of(&d->l, step->dst, &role, &band, &offset);
	if (role == SHINGLE_ROLE_STAGING) {
		shingle_band_of(&d->l, step->base, &role, &band, &offset);
		note(d, "R", band);
		note(d, "K", band);
		d->backups++;
	} else if (step->gathered == SHINGLE_GATHERED_NONE) {
		note(d, "r", band);
		d->rewrites++;
	} else {
		note(d, "W", band);
		d->last = band;
		d->written[d->nr_written++ % ARRAY_SIZE(d->written)] = band;
	}
}

static void commit(struct disk *d)
{
	d->e->ops->clean.release(d->e, d->seq++);
}

/* Run the gathered epoch; check that every step obeys R0 and that nothing is left over. */
static void run_epoch(struct kunit *test, struct disk *d)
{
	struct shingle_record rec[4];
	struct shingle_step step;
	u32 waits = 0;
	int r;

	d->text[0] = '\0';
	d->nr_written = 0;
	d->rewrites = 0;
	d->backups = 0;
	d->syncs = 0;
	d->peak = 0;
	while ((r = d->e->ops->clean.next_step(d->e, SHINGLE_WHY_EPOCH, &step))) {
		struct shingle_emit emit = { .rec = rec, .max = 1, .seq = d->seq };

		KUNIT_ASSERT_LT(test, waits++, 1000U);
		if (r == -EAGAIN) {
			commit(d);
			continue;
		}
		KUNIT_ASSERT_EQ(test, r, 1);
		if (step.n) {
			KUNIT_EXPECT_FALSE(test, shingle_would_destroy(&d->l, d->e, step.dst,
								       step.n));
			KUNIT_EXPECT_TRUE(test, step.gathered == SHINGLE_GATHERED_ONLY ||
					  !shingle_in_use(&d->l, d->e, step.dst, step.n));
		}
		note_step(d, &step);
		d->e->ops->clean.step_done(d->e, &step, &emit);
		d->peak = max_t(u32, d->peak, d->e->ops->observe.cached_blocks(d->e) / TRACK);
		if (step.sync == SHINGLE_SYNC_COMMIT || d->eager)
			commit(d);
	}
	d->e->ops->gather.epoch_end(d->e);
}

/* Persist one epoch of whole logical tracks. */
static void persist(struct kunit *test, struct disk *d, const u32 *tracks, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, d->e->ops->gather.epoch_add(d->e, (u64)tracks[i] * TRACK,
								  TRACK), 0);
	run_epoch(test, d);
}

static void persist_range(struct kunit *test, struct disk *d, u32 first, u32 n)
{
	u32 tracks[64], i;

	KUNIT_ASSERT_LT(test, n, 65U);
	for (i = 0; i < n; i++)
		tracks[i] = first + i;
	persist(test, d, tracks, n);
}

static void level(struct kunit *test, struct disk *d, u32 first, u32 n, u32 level)
{
	struct shingle_record rec;
	struct shingle_emit emit = { .rec = &rec, .max = 1, .seq = d->seq };
	char what[8], a[12], b[12], c[12];
	char *argv[4] = { what, a, b, c };
	const char *why = "";
	u64 done = 0;

	snprintf(what, sizeof(what), "level");
	snprintf(a, sizeof(a), "%u", first);
	snprintf(b, sizeof(b), "%u", n);
	snprintf(c, sizeof(c), "%u", level);
	KUNIT_ASSERT_EQ(test, d->e->ops->observe.message(d->e, 4, argv, &done, &emit, &why), 0);
}

/* Map logical track n to physical track n, for the tracks of a list. */
static void map_some(struct kunit *test, struct disk *d, const u32 *tracks, u32 n)
{
	struct shingle_record rec;
	const char *why = "";
	u32 i;

	for (i = 0; i < n; i++) {
		shingle_record_set(&rec, IMR_MAP, TRACK, 0, tracks[i], tracks[i]);
		KUNIT_ASSERT_EQ(test, d->e->ops->state.replay(d->e, &rec), 0);
	}
	KUNIT_ASSERT_EQ(test, d->e->ops->state.ready(d->e, &why), 0);
}

/* Discard without a commit.  Returns true if anything was dropped. */
static bool discard(struct kunit *test, struct disk *d, u64 lblk, u32 n)
{
	struct shingle_record rec;
	struct shingle_emit emit = { .rec = &rec, .max = 1, .seq = d->seq };
	bool dropped;
	u64 done;

	KUNIT_ASSERT_EQ(test, d->e->ops->map.discard(d->e, lblk, n, &done, &dropped, &emit), 0);
	KUNIT_EXPECT_EQ(test, done, (u64)n);
	KUNIT_EXPECT_EQ(test, emit.nr, (u32)dropped);
	return dropped;
}

static void forget(struct kunit *test, struct disk *d, u32 track)
{
	KUNIT_EXPECT_TRUE(test, discard(test, d, (u64)track * TRACK, TRACK));
	commit(d);
}

static void expect_tracks(struct kunit *test, const char *name, u32 lower, const u32 *want, u32 n)
{
	const char *const keys[] = { "policy", name, NULL };
	struct disk *d = new_disk(test, 8, keys);
	u32 i;

	/* When bottoms are for level 1, level 0, the initial level of all tracks, gets tops. */
	if (lower)
		KUNIT_ASSERT_EQ(test, shingle_set(d->e, "largest", "1", &(const char *){ "" }),
				0);
	for (i = 0; i < n; i++) {
		persist(test, d, &i, 1);
		KUNIT_EXPECT_EQ_MSG(test, d->last, want[i], "%s: track %u of 8", name, i);
	}
	end_disk(d);
}

/* V1: the order of eight single allocations on an empty disk. */
static void imr_v1_orders(struct kunit *test)
{
	static const u32 seq[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	static const u32 phases[] = { 0, 2, 4, 6, 1, 5, 3, 7 };
	static const u32 zigzag[] = { 0, 2, 4, 6, 5, 1, 3, 7 };
	static const u32 largest[] = { 0, 2, 4, 6, 1, 3, 5, 7 };
	static const u32 lower[] = { 1, 3, 5, 7, 0, 2, 4, 6 };

	expect_tracks(test, "seq", 0, seq, 8);
	expect_tracks(test, "3phase", 0, phases, 8);
	expect_tracks(test, "zigzag", 0, zigzag, 8);
	expect_tracks(test, "compaction", 0, largest, 8);
	expect_tracks(test, "compaction", 1, lower, 8);
}

/* V2: levels steer allocation; the rewrites and naive syncs that follow. */
static void imr_v2_levels(struct kunit *test)
{
	static const char *const keys[] = { "rmw", "naive", "largest", "1", NULL };
	static const struct { u32 level, track, rewrites, syncs; } want[] = {
		{ 0, 1, 0, 1 }, { 0, 3, 0, 1 }, { 1, 6, 0, 1 }, { 1, 4, 1, 4 },
		{ 1, 2, 2, 4 }, { 0, 5, 0, 1 }, { 1, 0, 1, 4 },
	};
	struct disk *d = new_disk(test, 8, keys);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(want); i++) {
		level(test, d, i, 1, want[i].level);
		persist(test, d, &i, 1);
		KUNIT_EXPECT_EQ_MSG(test, d->last, want[i].track, "file %u", i);
		KUNIT_EXPECT_EQ_MSG(test, d->rewrites, want[i].rewrites, "file %u: %s", i, d->text);
		KUNIT_EXPECT_EQ_MSG(test, d->syncs, want[i].syncs, "file %u: %s", i, d->text);
	}
	end_disk(d);
}

/* V3: the nearest free bottom; at equal distance the higher one. */
static void imr_v3_nearest(struct kunit *test)
{
	static const u32 tops[] = { 1, 3, 5, 7 };
	static const u32 want[2][3] = { { 4, 2, 0 }, { 4, 6, 0 } };
	static const u32 last[2] = { 6, 2 };
	u32 i, j;

	for (i = 0; i < 2; i++) {
		struct disk *d = new_disk(test, 8, NULL);
		u32 track;

		map_some(test, d, tops, 4);
		/* Continue until the last track taken is last[i]. */
		for (track = 0, d->last = U32_MAX; d->last != last[i]; track += 2)
			persist(test, d, &track, 1);
		for (j = 0; j < track; j += 2) {
			struct shingle_run run;

			d->e->ops->map.resolve(d->e, (u64)j * TRACK, 1, &run);
			if (run.pblk != (u64)last[i] * TRACK)
				forget(test, d, j);
		}
		for (j = 0; j < 3; j++) {
			u32 t = j * 2;

			/* Any logical track that is not mapped. */
			for (;; t = (t + 2) % 8) {
				struct shingle_run run;

				d->e->ops->map.resolve(d->e, (u64)t * TRACK, 1, &run);
				if (run.kind == SHINGLE_RUN_ZERO)
					break;
			}
			persist(test, d, &t, 1);
			KUNIT_EXPECT_EQ_MSG(test, d->last, want[i][j], "last %u, number %u",
					    last[i], j);
		}
		end_disk(d);
	}
}

struct files {
	const char *policy;
	const char *levels;
	u32 naive[4];
	u32 merged[4];
	u32 rewrites[2][4];
	u32 literal;
};

/* V4: four files of two tracks on an empty disk. */
static void imr_v4_files(struct kunit *test)
{
	static const struct files files[] = {
		{ "seq", "0000", { 2, 4, 4, 4 }, { 2, 4, 4, 4 },
		  { { 0, 1, 1, 1 }, { 0, 1, 1, 1 } }, 17 },
		{ "3phase", "0000", { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, { { 0 }, { 0 } }, 8 },
		{ "compaction", "0110", { 1, 4, 7, 1 }, { 1, 4, 3, 1 },
		  { { 0, 1, 3, 0 }, { 0, 1, 2, 0 } }, 14 },
	};
	u32 i, mode, k;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		const struct files *f = &files[i];

		for (mode = 0; mode < 3; mode++) {
			const char *const keys[] = {
				"policy", f->policy, "rmw", mode ? "merged" : "naive",
				"syncs", mode == 2 ? "literal" : "needed", "largest", "1", NULL,
			};
			struct disk *d = new_disk(test, 8, keys);
			u32 literal = 0;

			for (k = 0; k < 4; k++) {
				level(test, d, 2 * k, 2, f->levels[k] - '0');
				persist_range(test, d, 2 * k, 2);
				KUNIT_EXPECT_EQ_MSG(test, d->rewrites, f->rewrites[!!mode][k],
						    "%s mode %u file %u: %s", f->policy, mode, k,
						    d->text);
				literal += d->syncs;
				if (mode < 2)
					KUNIT_EXPECT_EQ_MSG(test, d->syncs,
							    mode ? f->merged[k] : f->naive[k],
							    "%s mode %u file %u: %s", f->policy,
							    mode, k, d->text);
			}
			if (mode == 2)
				KUNIT_EXPECT_EQ_MSG(test, literal, f->literal, "%s literal",
						    f->policy);
			end_disk(d);
		}
	}
}

/* V5: seq, files of 2m tracks one after the other. */
static void imr_v5_seq(struct kunit *test)
{
	static const u32 sizes[] = { 1, 2, 5, 16 };
	u32 i, mode, k;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u32 m = sizes[i];

		for (mode = 0; mode < 2; mode++) {
			const char *const keys[] = {
				"policy", "seq", "rmw", mode ? "merged" : "naive", NULL,
			};
			struct disk *d = new_disk(test, 8 * m, keys);

			for (k = 0; k < 4; k++) {
				u32 rewrites = mode ? !!k : k ? m : m - 1;
				u32 syncs = mode ? k ? m == 1 ? 4 : 5 : 2 : 4 * m - 2 * !k;

				persist_range(test, d, 2 * m * k, 2 * m);
				KUNIT_EXPECT_EQ_MSG(test, d->rewrites, rewrites,
						    "m %u mode %u file %u", m, mode, k);
				KUNIT_EXPECT_EQ_MSG(test, d->syncs, syncs,
						    "m %u mode %u file %u", m, mode, k);
			}
			end_disk(d);
		}
	}
}

static void expect_events(struct kunit *test, const struct disk *d, const char *want)
{
	KUNIT_EXPECT_EQ_MSG(test, strcmp(d->text, want), 0, "%s, not %s", d->text, want);
}

static const u32 all_tracks[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

/* V6: exact events. */
static void imr_v6_events(struct kunit *test)
{
	static const u32 list[] = { 2, 4 };
	static const struct { const char *rmw, *adjsync, *overwrite, *seq; } want[] = {
		{ "naive", "literal",
		  "R1 K1 R3 K3 S W2 S r1 r3 S R3 K3 R5 K5 S W4 S r3 r5 S S",
		  "W0 S W1 S R1 K1 S W2 S r1 S W3 S" },
		{ "naive", "needed",
		  "R1 K1 R3 K3 S W2 S r1 r3 S R3 K3 R5 K5 S W4 S r3 r5 S S",
		  "W0 S W1 R1 K1 S W2 S r1 S W3 S" },
		{ "merged", "literal",
		  "R1 K1 R3 K3 R5 K5 S W2 W4 S r1 r3 r5 S",
		  "W0 W2 S W1 W3 S" },
	};
	u32 i;

	/* Additional commits between the steps change nothing. */
	for (i = 0; i < 2 * ARRAY_SIZE(want); i++) {
		bool eager = i >= ARRAY_SIZE(want);
		u32 w = i % ARRAY_SIZE(want);
		const char *const keys[] = {
			"rmw", want[w].rmw, "adjsync", want[w].adjsync, "policy", "seq", NULL,
		};
		struct disk *d = new_disk(test, 8, keys);

		d->eager = eager;
		persist_range(test, d, 0, 4);
		expect_events(test, d, want[w].seq);
		end_disk(d);

		d = new_disk(test, 8, keys);
		d->eager = eager;
		map_some(test, d, all_tracks, 8);
		persist(test, d, list, 2);
		expect_events(test, d, want[w].overwrite);
		end_disk(d);
	}
}

/* V7: other lists of tracks, all tops valid. */
static void imr_v7_lists(struct kunit *test)
{
	static const struct { u32 n, list[4], naive[2], merged[2]; } want[] = {
		{ 1, { 2 }, { 2, 4 }, { 2, 3 } },
		{ 2, { 0, 2 }, { 3, 7 }, { 2, 3 } },
		{ 2, { 2, 6 }, { 4, 7 }, { 4, 3 } },
		{ 4, { 0, 2, 4, 6 }, { 7, 13 }, { 4, 3 } },
	};
	u32 i, mode;

	for (i = 0; i < ARRAY_SIZE(want); i++) {
		for (mode = 0; mode < 2; mode++) {
			const char *const keys[] = { "rmw", mode ? "merged" : "naive", NULL };
			const u32 *w = mode ? want[i].merged : want[i].naive;
			struct disk *d = new_disk(test, 8, keys);

			map_some(test, d, all_tracks, 8);
			persist(test, d, want[i].list, want[i].n);
			KUNIT_EXPECT_EQ_MSG(test, d->rewrites, w[0], "%s", d->text);
			KUNIT_EXPECT_EQ_MSG(test, d->backups, w[0], "%s", d->text);
			KUNIT_EXPECT_EQ_MSG(test, d->syncs, w[1], "%s", d->text);
			end_disk(d);
		}
	}
}

/* V8: the case of five syncs: bottoms with and without rewrites, and tops. */
static void imr_v8_five(struct kunit *test)
{
	static const u32 mapped[] = { 1, 2, 6 }, list[] = { 2, 6, 3, 4 };
	u32 mode;

	for (mode = 0; mode < 2; mode++) {
		const char *const keys[] = { "rmw", mode ? "merged" : "naive", "largest", "1",
					     NULL };
		struct disk *d = new_disk(test, 8, keys);
		u32 i;

		map_some(test, d, mapped, 3);
		/* Move the start of the search for tops past 3. */
		level(test, d, 5, 1, 0);
		persist(test, d, (const u32[]){ 5 }, 1);
		KUNIT_EXPECT_EQ(test, d->last, 3U);
		forget(test, d, 5);
		for (i = 0; i < 4; i++)
			level(test, d, list[i], 1, 0);
		persist(test, d, list, 4);
		expect_events(test, d, "R1 K1 S W2 S r1 S W6 S W5 W7 S");
		end_disk(d);
	}
}

/* V9: freed tracks are allocated again by class. */
static void imr_v9_frees(struct kunit *test)
{
	static const char *const keys[] = { "policy", "3phase", "rmw", "naive", NULL };
	struct disk *d = new_disk(test, 8, keys);
	u32 i;

	for (i = 0; i < 6; i++)
		persist(test, d, &i, 1);
	forget(test, d, 1);
	persist(test, d, (const u32[]){ 6 }, 1);
	expect_events(test, d, "R1 K1 S W2 S r1 S S");
	forget(test, d, 4);
	forget(test, d, 2);
	persist(test, d, (const u32[]){ 4, 7 }, 2);
	expect_events(test, d, "R5 K5 S W4 S r5 S W1 S");
	end_disk(d);
}

#define MAX_TRACKS	8U
#define POISON		0xdeadU

/**
 * struct medium - contents of tracks and slots, and of the journal after a power cut
 * @track: content of physical tracks
 * @slot: content of backup slots
 * @rec: journal records
 * @nr: number of records
 * @durable: number of durable records
 */
struct medium {
	u32 track[MAX_TRACKS];
	u32 slot[MAX_SLOTS];
	struct shingle_record rec[64];
	u32 nr;
	u32 durable;
};

static u32 *cell(struct disk *d, struct medium *m, u64 pblk)
{
	enum shingle_role role;
	u64 band, offset;

	shingle_band_of(&d->l, pblk, &role, &band, &offset);
	return role == SHINGLE_ROLE_STAGING ? &m->slot[band] : &m->track[band];
}

/* Execute a step; the new content of logical track n is 100 + n. */
static void medium_step(struct disk *d, struct medium *m, const struct shingle_step *step)
{
	u32 *dst = step->n ? cell(d, m, step->dst) : NULL;
	struct shingle_emit emit = { .rec = m->rec + m->nr, .max = 1, .seq = d->seq };

	if (dst)
		*dst = step->gathered == SHINGLE_GATHERED_NONE ? *cell(d, m, step->base) :
		       100 + (u32)step->lblk / TRACK;
	if (dst >= m->track && dst < m->track + MAX_TRACKS && !((dst - m->track) & 1)) {
		if (dst > m->track)
			dst[-1] = POISON;
		dst[1] = POISON;
	}
	d->e->ops->clean.step_done(d->e, step, &emit);
	m->nr += emit.nr;
	if (step->sync == SHINGLE_SYNC_COMMIT) {
		m->durable = m->nr;
		commit(d);
	}
}

static u32 content(struct disk *d, struct medium *m, u32 track)
{
	struct shingle_run run;

	d->e->ops->map.resolve(d->e, (u64)track * TRACK, 1, &run);
	return run.kind == SHINGLE_RUN_ZERO ? 0 : *cell(d, m, run.pblk);
}

/*
 * V10: the epoch {2, 4} of V6, both tracks new, cut after each event.  At every cut tops 1,
 * 3, 5 and 7 read as before, and 2 and 4 are either present or absent.
 */
static void imr_v10_cuts(struct kunit *test)
{
	static const u32 mapped[] = { 0, 1, 3, 5, 7 };
	struct medium *m = zalloc(test, sizeof(*m));
	u32 mode, cut, events, t, i;

	KUNIT_ASSERT_NOT_NULL(test, m);
	for (mode = 0; mode < 2; mode++) {
		const char *const keys[] = { "rmw", mode ? "merged" : "naive", NULL };

		events = U32_MAX;
		for (cut = 0; cut <= events; cut++) {
			struct disk *d = new_disk(test, MAX_TRACKS, keys);
			struct shingle_step step;
			const char *why = "";

			memset(m, 0, sizeof(*m));
			for (i = 0; i < ARRAY_SIZE(mapped); i++) {
				m->track[mapped[i]] = mapped[i];
				shingle_record_set(&m->rec[m->nr++], IMR_MAP, TRACK, 0, mapped[i],
						   mapped[i]);
			}
			m->durable = m->nr;
			map_some(test, d, mapped, ARRAY_SIZE(mapped));
			for (i = 2; i <= 4; i += 2)
				KUNIT_ASSERT_EQ(test, d->e->ops->gather.epoch_add(d->e,
						(u64)i * TRACK, TRACK), 0);
			for (i = 0; i < cut; i++) {
				int r = d->e->ops->clean.next_step(d->e, SHINGLE_WHY_EPOCH, &step);

				if (!r) {
					events = cut;
					break;
				}
				if (r == 1) {
					medium_step(d, m, &step);
				} else {
					m->durable = m->nr;
					commit(d);
				}
			}
			/* Check reads without a cut. */
			for (t = 1; t < MAX_TRACKS; t += 2)
				KUNIT_EXPECT_EQ_MSG(test, content(d, m, t), t,
						    "mode %u event %u: top %u is read wrong", mode,
						    cut, t);
			/* Section 5, point 7: after a clean end nothing remains to be done. */
			for (t = 1; t < MAX_TRACKS && events == cut; t += 2)
				KUNIT_EXPECT_EQ(test, m->track[t], t);
			end_disk(d);

			d = new_disk(test, MAX_TRACKS, keys);
			for (i = 0; i < m->durable; i++)
				KUNIT_ASSERT_EQ(test, d->e->ops->state.replay(d->e, &m->rec[i]), 0);
			KUNIT_ASSERT_EQ(test, d->e->ops->state.ready(d->e, &why), 0);
			while (d->e->ops->clean.next_step(d->e, SHINGLE_WHY_RECOVERY, &step) == 1)
				medium_step(d, m, &step);
			for (t = 1; t < MAX_TRACKS; t += 2) {
				KUNIT_EXPECT_EQ_MSG(test, content(d, m, t), t,
						    "mode %u cut %u: top %u is lost", mode, cut, t);
				KUNIT_EXPECT_EQ(test, m->track[t], t);
			}
			for (t = 2; t <= 4; t += 2) {
				u32 found = content(d, m, t);

				KUNIT_EXPECT_TRUE(test, found == 100 + t ||
						  (!found && events != cut));
			}
			end_disk(d);
		}
		KUNIT_EXPECT_LE(test, 12U, events);
	}
}

/*
 * V11: overwrite a part of a bottom between two valid tops in place: two rewrites and three
 * syncs of data.  The records of the restores take one commit, which the paper spends on
 * the retire mark.  Then overwrite a part of one of these tops, which costs no rewrite.
 */
static void imr_v11_part(struct kunit *test)
{
	struct disk *d = new_disk(test, 8, NULL);
	struct shingle_run run;
	u32 i;

	map_some(test, d, all_tracks, 8);
	KUNIT_ASSERT_EQ(test, d->e->ops->map.place(d->e, 2 * TRACK + 1, 1, SHINGLE_LIFE_UNKNOWN,
						   &run), SHINGLE_GATHER);
	KUNIT_ASSERT_EQ(test, d->e->ops->gather.epoch_add(d->e, 2 * TRACK + 1, 1), 0);
	run_epoch(test, d);
	expect_events(test, d, "R1 K1 R3 K3 S W2 S r1 r3 S");
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(d->e, "imr_sync_map"), 1ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(d->e, "imr_sync_saved"), 1ULL);
	KUNIT_EXPECT_EQ(test, d->e->ops->map.place(d->e, TRACK, 2, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, run.pblk, d->l.groups[0].start + TRACK);
	d->e->ops->map.abort(d->e, &run);
	/* A discard of half a track drops nothing, whichever half it is. */
	for (i = 0; i < TRACK; i += TRACK / 2) {
		KUNIT_EXPECT_FALSE(test, discard(test, d, 2 * TRACK + i, TRACK / 2));
		commit(d);
		d->e->ops->map.resolve(d->e, 2 * TRACK, TRACK, &run);
		KUNIT_EXPECT_EQ(test, run.kind, SHINGLE_RUN_MAPPED);
		KUNIT_EXPECT_EQ(test, run.n, TRACK);
		KUNIT_EXPECT_EQ(test, run.pblk, d->l.groups[0].start + 2 * TRACK);
	}
	end_disk(d);
}

/*
 * V11: a discarded track is not allocated again before the commit.  Other free tracks are
 * taken first.  If there are none, the epoch waits, and the commit of an earlier
 * transaction does not end the wait.
 */
static void imr_v11_reuse(struct kunit *test)
{
	static const char *const keys[] = { "policy", "3phase", NULL };
	struct disk *d = new_disk(test, 8, keys);
	struct shingle_step step;
	u64 pblk;
	u32 i;

	/* As V9, which allocates 2 again; there the discard was committed. */
	for (i = 0; i < 6; i++)
		persist(test, d, &i, 1);
	KUNIT_EXPECT_TRUE(test, discard(test, d, TRACK, TRACK));
	persist(test, d, (const u32[]){ 6 }, 1);
	KUNIT_EXPECT_EQ(test, d->last, 3U);
	persist(test, d, (const u32[]){ 7 }, 1);
	KUNIT_EXPECT_EQ(test, d->last, 2U);
	persist(test, d, (const u32[]){ 1 }, 1);
	KUNIT_EXPECT_EQ(test, d->last, 7U);

	/* The disk is full; discard logical track 7, which is on 2. */
	pblk = d->l.groups[0].start + 2 * TRACK;
	KUNIT_EXPECT_TRUE(test, discard(test, d, 7 * TRACK, TRACK));
	KUNIT_EXPECT_TRUE(test, d->e->ops->clean.pending(d->e));
	KUNIT_ASSERT_EQ(test, d->e->ops->gather.epoch_add(d->e, 7 * TRACK, TRACK), 0);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, d->e->ops->clean.next_step(d->e, SHINGLE_WHY_EPOCH, &step),
				-EAGAIN);
		KUNIT_EXPECT_TRUE(test, shingle_in_use(&d->l, d->e, pblk, TRACK));
		d->e->ops->clean.release(d->e, d->seq - 1);
	}
	commit(d);
	KUNIT_EXPECT_FALSE(test, shingle_in_use(&d->l, d->e, pblk, TRACK));
	KUNIT_EXPECT_FALSE(test, d->e->ops->clean.pending(d->e));
	run_epoch(test, d);
	expect_events(test, d, "R1 K1 R3 K3 S W2 S r1 r3 S");
	end_disk(d);
}

/* E2 and E5: k consecutive bottoms, all tops valid. */
static void imr_e2_runs(struct kunit *test)
{
	u32 k, from, mode, i;

	for (k = 1; k <= 16; k++) {
		for (from = 0; from <= 2; from += 2) {
			for (mode = 0; mode < 3; mode++) {
				const char *const keys[] = {
					"rmw", mode ? "merged" : "naive",
					"syncs", mode == 2 ? "literal" : "needed", NULL,
				};
				struct disk *d = new_disk(test, 64, keys);
				u32 all[64], list[16];

				for (i = 0; i < 64; i++)
					all[i] = i;
				for (i = 0; i < k; i++)
					list[i] = from + 2 * i;
				map_some(test, d, all, 64);
				persist(test, d, list, k);
				KUNIT_EXPECT_EQ(test, d->rewrites,
						mode ? k + !!from : 2 * k - !from);
				KUNIT_EXPECT_EQ(test, d->syncs,
						mode == 2 ? 5 : mode ? 3 : 3 * k + 1);
				KUNIT_EXPECT_EQ(test, d->backups, d->rewrites);
				/* E5 */
				KUNIT_EXPECT_EQ(test, d->peak, mode ? k + !!from :
						min(2U, d->rewrites));
				end_disk(d);
			}
		}
	}
}

static u32 rnd(u32 *rng, u32 below)
{
	*rng = *rng * 1664525U + 1013904223U;
	return (*rng >> 8) % below;
}

/*
 * E7: 3phase without frees, by fill level; also for bottoms that are overwritten.  At the
 * end of a phase each bottom costs its maximum: after phase 2 one top beside it is taken,
 * after phase 3 both are, and bottom 0 has only one.
 */
static void imr_e7_phases(struct kunit *test)
{
	static const char *const keys[] = { "policy", "3phase", NULL };
	struct disk *d = new_disk(test, 64, keys);
	u32 rng = 7, i, j;

	for (i = 0; i < 64; i++) {
		u32 bound = i < 32 ? 0 : i < 48 ? 1 : 2;

		persist(test, d, &i, 1);
		KUNIT_EXPECT_EQ(test, d->rewrites, 0U);
		for (j = 0; j < 4; j++) {
			u32 bottom = rnd(&rng, min(i + 1, 32U));

			persist(test, d, &bottom, 1);
			KUNIT_EXPECT_LE(test, d->rewrites, bound);
		}
		if (i != 31 && i != 47 && i != 63)
			continue;
		/* Logical tracks 0 to 31 are on the bottoms. */
		for (j = 0; j < 32; j++) {
			persist(test, d, &j, 1);
			KUNIT_EXPECT_EQ(test, d->last, 2 * j);
			KUNIT_EXPECT_EQ_MSG(test, d->rewrites, j ? bound : min(bound, 1U),
					    "%u tracks taken: bottom %u", i + 1, d->last);
		}
	}
	end_disk(d);
}

/* Find the physical tracks that hold data. */
static void valid_tracks(struct disk *d, u32 tracks, bool *valid)
{
	struct shingle_run run;
	u32 i;

	memset(valid, 0, tracks);
	for (i = 0; i < tracks; i++) {
		d->e->ops->map.resolve(d->e, (u64)i * TRACK, 1, &run);
		if (run.kind == SHINGLE_RUN_MAPPED)
			valid[(u32)(run.pblk - d->l.groups[0].start) / TRACK] = true;
	}
}

/* E1, E4, E5 for Algorithm 2: check the cost of an epoch against the tracks that it wrote. */
static void expect_merged(struct kunit *test, const struct disk *d, u32 tracks, const bool *valid,
			  bool literal)
{
	bool saved[64] = { false };
	u32 rmw = 0, calm = 0, tops = 0, rewrites = 0, i;

	for (i = 0; i < d->nr_written; i++) {
		u32 t = d->written[i];
		bool below = t && valid[t - 1], above = t + 1 < tracks && valid[t + 1];

		if (imr_is_top(t)) {
			tops++;
			continue;
		}
		rmw += below || above;
		calm += !(below || above);
		if (below)
			saved[t - 1] = true;
		if (above)
			saved[t + 1] = true;
	}
	for (i = 0; i < tracks; i++)
		rewrites += saved[i];
	KUNIT_EXPECT_EQ_MSG(test, d->rewrites, rewrites, "%s", d->text);
	KUNIT_EXPECT_EQ_MSG(test, d->backups, rewrites, "%s", d->text);
	KUNIT_EXPECT_EQ_MSG(test, d->peak, rewrites, "%s", d->text);
	KUNIT_EXPECT_LE(test, d->peak, 2 * rmw);
	i = 3 * !!rmw + (literal || (calm && tops)) + (literal || calm || tops);
	KUNIT_EXPECT_EQ_MSG(test, d->syncs, i, "%s", d->text);
	KUNIT_EXPECT_TRUE(test, d->syncs >= 1 && d->syncs <= 5);
}

/* E1, E4, E5 for Algorithm 1; updates @valid. */
static void expect_naive(struct kunit *test, const struct disk *d, u32 tracks, bool *valid,
			 bool needed)
{
	bool unsynced[65] = { false };
	u32 rewrites = 0, syncs = 1, i;

	for (i = 0; i < d->nr_written; i++) {
		u32 t = d->written[i], tops;

		if (((t && unsynced[t - 1]) || unsynced[t + 1]) && (!needed || imr_is_top(t))) {
			syncs++;
			memset(unsynced, 0, sizeof(unsynced));
		}
		tops = imr_is_top(t) ? 0 : (t && valid[t - 1]) + (t + 1 < tracks && valid[t + 1]);
		rewrites += tops;
		syncs += tops ? 3 : 0;
		if (tops)
			memset(unsynced, 0, sizeof(unsynced));
		else
			unsynced[t] = true;
		valid[t] = true;
	}
	KUNIT_EXPECT_EQ_MSG(test, d->rewrites, rewrites, "%s", d->text);
	KUNIT_EXPECT_EQ_MSG(test, d->backups, rewrites, "%s", d->text);
	KUNIT_EXPECT_LE(test, d->peak, 2U);
	KUNIT_EXPECT_EQ_MSG(test, d->syncs, syncs, "%s", d->text);
}

/* E1, E3, E4, E5: random epochs with new and overwritten tracks, and frees. */
static void imr_e4_costs(struct kunit *test)
{
	static const char *const policies[] = { "seq", "3phase", "zigzag", "compaction" };
	u32 seed, epoch, i;

	for (seed = 0; seed < 64; seed++) {
		bool naive = seed & 1, odd = seed & 2;
		const char *const keys[] = {
			"policy", policies[seed / 4 % 4], "rmw", naive ? "naive" : "merged",
			naive ? "adjsync" : "syncs",
			!odd == naive ? "literal" : "needed", "largest", "1", NULL,
		};
		u32 rng = seed, tracks = 8 + rnd(&rng, 40);
		struct disk *d = new_disk(test, tracks, keys);
		bool valid[64];

		for (epoch = 0; epoch < 30; epoch++) {
			u32 list[12], n = 0, want = 1 + rnd(&rng, 12);

			for (i = rnd(&rng, tracks); i < tracks && n < want;
			     i += 1 + rnd(&rng, 3)) {
				level(test, d, i, 1, rnd(&rng, 2));
				list[n++] = i;
			}
			valid_tracks(d, tracks, valid);
			persist(test, d, list, n);
			if (naive)
				expect_naive(test, d, tracks, valid, !strcmp(keys[5], "needed"));
			else
				expect_merged(test, d, tracks, valid, !strcmp(keys[5], "literal"));
			for (i = rnd(&rng, 6); i < 3; i++)
				forget(test, d, rnd(&rng, tracks));
		}
		end_disk(d);
	}
}

/* The level that gets bottoms: a number, the highest level, or the level with most tracks. */
static void imr_largest(struct kunit *test)
{
	/*
	 * Three tracks of level 1, then one of each level, like a store that has begun
	 * level 2.
	 */
	static const u32 levels[] = { 1, 1, 1, 2, 1, 0 };
	static const struct { const char *largest, *bottoms; } want[] = {
		{ "1", "111110" }, { "2", "000100" }, { "auto", "111100" }, { "most", "111110" },
	};
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(want); i++) {
		const char *const keys[] = { "largest", want[i].largest, NULL };
		struct disk *d = new_disk(test, 32, keys);

		for (k = 0; k < ARRAY_SIZE(levels); k++) {
			level(test, d, k, 1, levels[k]);
			persist(test, d, &k, 1);
			KUNIT_EXPECT_EQ_MSG(test, !imr_is_top(d->last), want[i].bottoms[k] == '1',
					    "largest %s: track %u", want[i].largest, k);
		}
		end_disk(d);
	}
}

/* At a tie the higher level gets bottoms; a level that loses its tracks loses the bottoms. */
static void imr_largest_most(struct kunit *test)
{
	static const char *const keys[] = { "largest", "most", NULL };
	struct disk *d = new_disk(test, 32, keys);
	static const u32 of[] = { 2, 1, 2, 1, 1 };
	static const bool bottom[] = { true, false, true, false, false };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(of); i++) {
		level(test, d, i, 1, of[i]);
		persist(test, d, &i, 1);
		KUNIT_EXPECT_EQ_MSG(test, !imr_is_top(d->last), bottom[i], "track %u", i);
	}
	/* Three tracks of level 1, one left of level 2; then a move without a rewrite. */
	forget(test, d, 0);
	level(test, d, 5, 1, 1);
	persist(test, d, (const u32[]){ 5 }, 1);
	KUNIT_EXPECT_FALSE(test, imr_is_top(d->last));
	level(test, d, 1, 4, 2);
	level(test, d, 6, 1, 1);
	persist(test, d, (const u32[]){ 6 }, 1);
	KUNIT_EXPECT_TRUE(test, imr_is_top(d->last));
	end_disk(d);
}

/*
 * Lifetime hints set levels only with the table key; a write without a hint keeps the level
 * of a message.
 */
static void imr_hints(struct kunit *test)
{
	static const enum shingle_life lives[] = {
		SHINGLE_LIFE_SHORT, SHINGLE_LIFE_EXTREME, SHINGLE_LIFE_UNKNOWN, SHINGLE_LIFE_LONG,
		SHINGLE_LIFE_UNKNOWN,
	};
	static const char *const want[] = { "BBTBT", "TBBTT" };
	struct shingle_run run;
	u32 hints, i;

	for (hints = 0; hints < 2; hints++) {
		const char *const keys[] = { "largest", "3", NULL };
		struct disk *d = new_disk(test, 32, keys);
		const char *why = "";

		KUNIT_EXPECT_EQ(test, shingle_set(d->e, "level", "hint", &why), -EOPNOTSUPP);
		KUNIT_EXPECT_TRUE(test, strstr(why, "lifetime hints"));
		d->e->knows_life = hints;
		if (hints)
			KUNIT_ASSERT_EQ(test, shingle_set(d->e, "level", "hint", &why), 0);
		for (i = 0; i < ARRAY_SIZE(lives); i++) {
			/* Set the level by message where no hint will override it. */
			level(test, d, i, 1, hints ? 3 * (i == 2) : 3 * (want[0][i] == 'B'));
			KUNIT_ASSERT_EQ(test, d->e->ops->map.place(d->e, i * TRACK, TRACK, lives[i],
								   &run), SHINGLE_GATHER);
			persist(test, d, &i, 1);
			KUNIT_EXPECT_EQ_MSG(test, imr_is_top(d->last), want[hints][i] == 'T',
					    "hints %u: track %u", hints, i);
		}
		end_disk(d);
	}
}

/* E6: which tracks the compaction policy may allocate in which state. */
static void imr_e6_tiers(struct kunit *test)
{
	u32 seed, i, k;

	for (seed = 0; seed < 40; seed++) {
		u32 rng = seed, nr = 3 + rnd(&rng, 60);
		struct imr_tracks *t = zalloc(test, sizeof(*t));

		KUNIT_ASSERT_NOT_NULL(test, t);
		KUNIT_ASSERT_EQ(test, imr_tracks_init(t, nr), 0);
		for (k = 0; k < 400; k++) {
			u32 bottoms = 0, calm = 0, tops = 0, track = rnd(&rng, nr);
			bool bottom = rnd(&rng, 2), is_free, miss;

			for (i = 0; i < nr; i++) {
				is_free = imr_track_is_free(t, i);
				tops += is_free && imr_is_top(i);
				bottoms += is_free && !imr_is_top(i);
				calm += is_free && !imr_is_top(i) &&
					(!i || imr_track_is_free(t, i - 1)) &&
					(i + 1 == nr || imr_track_is_free(t, i + 1));
			}
			if (rnd(&rng, 3) == 0) {
				if (!imr_track_is_free(t, track))
					imr_track_give(t, track);
				continue;
			}
			track = imr_track_take(t, bottom, &miss);
			if (track == IMR_NO_TRACK) {
				KUNIT_EXPECT_EQ(test, bottoms + tops, 0U);
				continue;
			}
			KUNIT_EXPECT_EQ(test, miss, imr_is_top(track) == bottom);
			if (imr_is_top(track)) {
				KUNIT_EXPECT_TRUE(test, !bottom || !bottoms);
				continue;
			}
			KUNIT_EXPECT_TRUE(test, bottom || !tops);
			is_free = (!track || imr_track_is_free(t, track - 1)) &&
				  (track + 1 == nr || imr_track_is_free(t, track + 1));
			KUNIT_EXPECT_TRUE(test, is_free || !calm);
		}
		imr_tracks_exit(t);
	}
}

#define STORE_TRACKS	512U

/**
 * struct store - files of two levels: a few of the large level that stay, many that go
 * @size: tracks per file
 * @place: places without a file, in units of files
 * @first: first logical track of each file, U32_MAX if the file does not exist
 * @rewrites: rewrites so far
 * @syncs: syncs so far
 */
struct store {
	u32 size;
	u32 place[STORE_TRACKS];
	u32 first[2][STORE_TRACKS];
	u64 rewrites;
	u64 syncs;
};

static void drop_file(struct kunit *test, struct disk *d, struct store *s, u32 large, u32 i)
{
	u32 t;

	for (t = 0; s->first[large][i] != U32_MAX && t < s->size; t++)
		forget(test, d, s->first[large][i] + t);
	s->first[large][i] = U32_MAX;
}

/* Create and delete whole files of both levels; at the end 88 % of the tracks are in use. */
static void run_store(struct kunit *test, const char *policy, const char *rmw, u32 size, u32 seed,
		      struct store *s)
{
	const char *const keys[] = { "policy", policy, "rmw", rmw, "largest", "1", NULL };
	struct disk *d = new_disk(test, STORE_TRACKS, keys);
	u32 files[2] = { 40 * STORE_TRACKS / 100 / size, 48 * STORE_TRACKS / 100 / size };
	u32 rng = seed, nr = STORE_TRACKS / size, i, large, n, slot;

	s->size = size;
	memset(s->first, 0xff, sizeof(s->first));
	for (i = 0; i < nr; i++)
		s->place[i] = i;
	for (n = 0; n < 8 * nr; n++) {
		large = !rnd(&rng, 4);
		slot = rnd(&rng, files[large]);
		if (s->first[large][slot] != U32_MAX) {
			s->place[nr++] = s->first[large][slot] / size;
			drop_file(test, d, s, large, slot);
		}
		i = rnd(&rng, nr);
		swap(s->place[i], s->place[nr - 1]);
		s->first[large][slot] = s->place[--nr] * size;
		level(test, d, s->first[large][slot], size, large);
		persist_range(test, d, s->first[large][slot], size);
		s->rewrites += d->rewrites;
		s->syncs += d->syncs;
	}
	end_disk(d);
}

/* E8: the trend of the paper's results, over random loads of a store. */
static void imr_e8_shape(struct kunit *test)
{
	static const struct { const char *policy, *rmw; } schemes[] = {
		{ "seq", "naive" }, { "3phase", "naive" }, { "compaction", "naive" },
		{ "compaction", "merged" },
	};
	struct store *s = zalloc(test, sizeof(*s));
	u64 naive = 1, merged = 1;
	u32 size, seed, i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	for (size = 2; size <= 32; size *= 2) {
		u64 rewrites = U64_MAX, syncs = U64_MAX, before = 0;

		for (i = 0; i < ARRAY_SIZE(schemes); i++) {
			before = rewrites;
			s->rewrites = 0;
			s->syncs = 0;
			for (seed = 1; seed <= 4; seed++)
				run_store(test, schemes[i].policy, schemes[i].rmw, size, seed, s);
			KUNIT_EXPECT_LT(test, s->rewrites, rewrites);
			KUNIT_EXPECT_LT(test, s->syncs, syncs);
			rewrites = s->rewrites;
			syncs = s->syncs;
		}
		/* The larger the files, the larger the share of rewrites that merging saves. */
		KUNIT_EXPECT_LT(test, rewrites * naive, merged * before);
		naive = before;
		merged = rewrites;
	}
}

/* Freed tracks wait for a commit, and are counted until then. */
static void imr_pending_tracks(struct kunit *test)
{
	struct disk *d = new_disk(test, 8, NULL);
	u32 turn;

	map_some(test, d, all_tracks, 8);
	KUNIT_EXPECT_TRUE(test, discard(test, d, 2 * TRACK, 3 * TRACK));
	for (turn = 0; turn < 2; turn++) {
		shingle_counters_clear(d->e->ops->counters, d->e);
		KUNIT_EXPECT_EQ(test, shingle_exercise_counter(d->e, "imr_pending_tracks"),
				turn ? 0ULL : 3ULL);
		commit(d);
	}
	end_disk(d);
}

/* A message is handled under a lock, so the number of its tracks is bounded. */
static void imr_message_bound(struct kunit *test)
{
	char what[8] = "relevel", first[4] = "1", count[8], many[4] = "3";
	char *argv[4] = { what, first, count, many };
	struct disk *d = new_disk(test, 65600, NULL);
	struct shingle_record rec;
	struct shingle_emit emit = { .rec = &rec, .max = 1, .seq = d->seq };
	const char *why = "";
	u64 done = 0, calls;

	snprintf(count, sizeof(count), "65537");
	KUNIT_EXPECT_EQ(test, d->e->ops->observe.message(d->e, 4, argv, &done, &emit, &why),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, strcmp(why, "level and relevel take at most 65536 tracks at a time"),
			0);
	KUNIT_EXPECT_EQ(test, emit.nr, 0U);
	snprintf(count, sizeof(count), "65536");
	/* Handled in parts, each with its own record. */
	for (calls = 1; d->e->ops->observe.message(d->e, 4, argv, &done, &emit, &why) == 1;
	     calls++) {
		KUNIT_EXPECT_EQ(test, emit.nr, 1U);
		KUNIT_EXPECT_EQ(test, (u64)le64_to_cpu(rec.b) * calls, done);
		emit.nr = 0;
	}
	KUNIT_EXPECT_EQ(test, done, 65536ULL);
	KUNIT_EXPECT_TRUE(test, calls > 1);
	KUNIT_EXPECT_EQ(test, emit.nr, 1U);
	done = 0;
	snprintf(many, sizeof(many), "16");
	KUNIT_EXPECT_EQ(test, d->e->ops->observe.message(d->e, 4, argv, &done, &emit, &why),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, emit.nr, 1U);
	end_disk(d);
}

static struct kunit_case imr_cases[] = {
	KUNIT_CASE(imr_v1_orders),
	KUNIT_CASE(imr_v2_levels),
	KUNIT_CASE(imr_v3_nearest),
	KUNIT_CASE(imr_v4_files),
	KUNIT_CASE(imr_v5_seq),
	KUNIT_CASE(imr_v6_events),
	KUNIT_CASE(imr_v7_lists),
	KUNIT_CASE(imr_v8_five),
	KUNIT_CASE(imr_v9_frees),
	KUNIT_CASE(imr_v10_cuts),
	KUNIT_CASE(imr_v11_part),
	KUNIT_CASE(imr_v11_reuse),
	KUNIT_CASE(imr_largest),
	KUNIT_CASE(imr_largest_most),
	KUNIT_CASE(imr_hints),
	KUNIT_CASE(imr_e2_runs),
	KUNIT_CASE(imr_e4_costs),
	KUNIT_CASE(imr_e6_tiers),
	KUNIT_CASE(imr_e7_phases),
	KUNIT_CASE(imr_e8_shape),
	KUNIT_CASE(imr_pending_tracks),
	KUNIT_CASE(imr_message_bound),
	{}
};

static struct kunit_suite imr_suite = {
	.name = "imr",
	.test_cases = imr_cases,
};

kunit_test_suites(&imr_suite);

#ifdef __KERNEL__
MODULE_DESCRIPTION("dm-shingle: KUnit tests of interlaced recording");
MODULE_LICENSE("GPL");
#endif
