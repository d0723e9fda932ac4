// SPDX-License-Identifier: GPL-2.0
/*
 * shingle-exercise SEED [RUNS [ROUNDS [ENGINE [FEATURE]]]]: run engines under random loads,
 * optionally with an unsafe feature that the exerciser must catch.
 *
 * Four features work with any engine. With place_busy the engine has room for one or two writes and
 * then answers every write with -EBUSY until core requests a cleaning step, even if there is no
 * step to do. place_full is the same with -ENOSPC. After -EBUSY core leaves a write waiting;
 * after -ENOSPC it tries again at once.
 *
 * With worn, one in 12 to 40 blocks of the cache bands cannot be written; in stl-log, which can
 * leave out a few only, one in 300 to 699 of the log.
 * With warn, the engine hits a WARN_ON() at its first write, and works otherwise.
 *
 * Each run draws a small device and a load from its seed. The program prints one line of totals for
 * each engine, or the seed and the message of the first failure. Exit status 0 or 1.
 */
#include <stdio.h>
#include <stdlib.h>

#include "comb-engine.h"
#include "dual/engine.h"
#include "rmwf/engine.h"
#include "exercise.h"
#include "full/engine.h"
#include "imr-engine.h"
#include "log/engine.h"
#include "paged-engine.h"
#include "set/engine.h"
#include "tiler-engine.h"

static u32 draw(u32 *rng, u32 from, u32 to)
{
	*rng = *rng * 1664525U + 1013904223U;
	return from + (*rng >> 16) % (to - from + 1);
}

static void draw_set(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l)
{
	struct stl_set_params p = { 0 };

	shape->data_bands = draw(rng, 1, 20);
	shape->staging_bands = 1;
	shape->cache_bands = draw(rng, 1, 5);
	/*
	 * Cache bands may be shorter or longer than a data band, staging longer than its content.
	 */
	if (draw(rng, 0, 1))
		shape->cache_band_blocks = draw(rng, 1, 3 * shape->band_blocks);
	if (!draw(rng, 0, 3))
		shape->staging_band_blocks = shape->band_blocks + draw(rng, 0, 9);
	p.set_shift = cpu_to_le32(draw(rng, 0, 4) ? draw(rng, 0, 2) : draw(rng, 30, 31));
	shingle_exercise_layout(l, &stl_set_engine_ops, shape, &p, sizeof(p));
}

/* Zones of a few bands, often with the smallest provision that works. */
static void draw_full(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l)
{
	u32 zone = draw(rng, 6, 20), provision = draw(rng, 2, draw(rng, 0, 1) ? 3 : zone / 2);
	struct stl_full_params p = {
		.zone_bands = cpu_to_le32(zone),
		.provision = cpu_to_le32(provision),
		.log_bands = cpu_to_le32(draw(rng, 1, provision - 1)),
	};

	shape->data_bands = draw(rng, zone, 3 * zone);
	shingle_exercise_layout(l, &stl_full_engine_ops, shape, &p, sizeof(p));
}

/*
 * Logs of a few segments and often of too few extents, with or without a home.  In long segments
 * the cleaner can split many extents.
 */
static void draw_log(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l)
{
	u32 home = draw(rng, 0, 2) ? 0 : draw(rng, 1, 12), reserve = draw(rng, 3, 5);
	u32 bands = home + reserve + draw(rng, 1, 20);
	struct stl_log_params p = {
		.home_bands = cpu_to_le32(home),
		.reserve = cpu_to_le32(reserve),
		.extents = cpu_to_le32(draw(rng, 0, 1) ? bands * shape->band_blocks :
				       draw(rng, 8, 60)),
	};

	if (!draw(rng, 0, 3))
		shape->band_blocks = draw(rng, 48, 96);
	shape->data_bands = bands;
	shingle_exercise_layout(l, &stl_log_engine_ops, shape, &p, sizeof(p));
}

/* Every band is one track. */
static void draw_imr(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l)
{
	struct imr_params p = { .spare_tracks = cpu_to_le32(draw(rng, 0, 2)) };

	shape->band_blocks = draw(rng, 1, draw(rng, 1, 16));
	shape->track_blocks = 0;
	shape->head_tracks = 1;
	shape->interlaced = true;
	shape->data_bands = draw(rng, 3, 24);
	shape->staging_bands = draw(rng, 2, 8);
	shingle_exercise_layout(l, &imr_engine_ops, shape, &p, sizeof(p));
}

/*
 * The distance of two teeth is the width of the head if that is more than one track, else random.
 */
static void draw_comb(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l)
{
	u32 pitch = shape->head_tracks > 1 ? shape->head_tracks * shape->track_blocks :
					     draw(rng, 1, 3);
	struct comb_params p = { .pitch_blocks = cpu_to_le32(pitch) };

	shape->data_bands = draw(rng, 4, 40);
	shingle_exercise_layout(l, &comb_engine_ops, shape, &p, sizeof(p));
}

/* Regions of two bands each, of one or several pages. */
static void draw_paged(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l)
{
	const __le32 none = 0;

	shape->band_blocks = max(shape->band_blocks, 2U);
	shape->data_bands = draw(rng, 2, 40);
	shingle_exercise_layout(l, &paged_engine_ops, shape, &none, sizeof(none));
}

/*
 * Combs beside each other if the layout knows which blocks lie under one angle, else whole tracks.
 */
static void draw_tiler(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l)
{
	bool combs = !shape->track_blocks || shape->columns;
	u32 rows = draw(rng, 1, draw(rng, 2, 20)), track = draw(rng, 1, 16);
	struct tiler_params p = {
		.rows = cpu_to_le32(draw(rng, 0, 3) || !shape->track_blocks ? rows : 0),
		.columns = cpu_to_le32(combs && draw(rng, 0, 2) ?
				       draw(rng, 1, draw(rng, 0, 1) ? track : 1) : 0),
		.over_permille = cpu_to_le32(draw(rng, 0, 1) ? 0 : draw(rng, 0, 600)),
		.spares = cpu_to_le32(draw(rng, 0, 3)),
	};
	u32 slots = p.columns ? track / le32_to_cpu(p.columns) : 1;

	if (shape->track_blocks)
		shape->track_blocks = track;
	shape->skew_units = shape->skew_units / SHINGLE_SUB_UNITS * SHINGLE_SUB_UNITS;
	shape->band_blocks = rows * track;
	/* The engine does not use the part of a track behind the last row. */
	if (shape->track_blocks && !draw(rng, 0, 3))
		shape->band_blocks += draw(rng, 0, track - 1);
	shape->data_bands = le32_to_cpu(p.spares) / slots + draw(rng, 2, 7);
	/* A surface of another density also has another skew. */
	if (shape->track_blocks && !draw(rng, 0, 3))
		shape->density = 500;
	shingle_exercise_layout(l, &tiler_engine_ops, shape, &p, sizeof(p));
}

/* Caches of a few tracks. With a wide head the layout knows which blocks lie under one angle. */
static void draw_dual(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l)
{
	u32 track = draw(rng, 8, 20), tracks = draw(rng, 1, draw(rng, 2, 10));
	struct dual_params p = {
		.m_percent = cpu_to_le32(draw(rng, 0, 3) ? 0 : draw(rng, 1, 99)),
		.sample_percent = cpu_to_le32(draw(rng, 0, 60)),
		.sample_tracks = cpu_to_le32(draw(rng, 0, 3)),
		.min_new_percent = cpu_to_le32(draw(rng, 0, 40)),
		.min_fb_percent = cpu_to_le32(draw(rng, 0, 30)),
		.track_blocks = cpu_to_le32(draw(rng, 0, 1) ? track : 0),
	};

	if (shape->track_blocks)
		shape->track_blocks = track;
	shape->columns = shape->track_blocks;
	shape->staging_bands = 1;
	shape->cache_bands = 1;
	shape->cache_band_blocks = track * tracks;
	/* The engine does not use the rest of the last track. */
	if (!draw(rng, 0, 3))
		shape->cache_band_blocks += draw(rng, 0, track - 1);
	if (!draw(rng, 0, 3))
		shape->staging_band_blocks = shape->band_blocks + draw(rng, 0, 9);
	shape->data_bands = track * tracks / (2 * shape->band_blocks) + draw(rng, 1, 8);
	if (shape->track_blocks && !draw(rng, 0, 3))
		shape->density = 500;
	shingle_exercise_layout(l, &dualbuffer_engine_ops, shape, &p, sizeof(p));
}

/* Flash, which is not shingled, and data bands of several tracks. */
static void draw_rmwf(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l)
{
	u32 track = draw(rng, 4, 12), pages = draw(rng, 0, 3) ? draw(rng, 1, 12) : 0;
	struct rmwf_params p = {
		.page_blocks = cpu_to_le32(pages),
		.group_columns = cpu_to_le32(draw(rng, 0, 1) ? draw(rng, 1, 4) : 0),
	};

	if (shape->track_blocks) {
		shape->track_blocks = track;
		shape->columns = draw(rng, 0, 3);
	}
	shape->band_blocks = track * draw(rng, 1, 6);
	/* The band may end within a track. */
	if (!draw(rng, 0, 3))
		shape->band_blocks += draw(rng, 0, track - 1);
	shape->staging_bands = 1;
	shape->cache_bands = 1;
	shape->cache_apart = true;
	shape->cache_band_blocks = max(pages, 1U) * draw(rng, 2, 12) + draw(rng, 0, 5);
	if (!draw(rng, 0, 3))
		shape->staging_band_blocks = shape->band_blocks + draw(rng, 0, 9);
	shape->data_bands = draw(rng, 1, 8);
	if (shape->columns && !draw(rng, 0, 3))
		shape->density = 500;
	shingle_exercise_layout(l, &rmwf_engine_ops, shape, &p, sizeof(p));
}

static const char *const greedy_keys[] = { "order", "greedy", NULL };
static const char *const tight_keys[] = { "threshold", "1", NULL };
static const char *const always_keys[] = { "read_home", "always", NULL };
static const char *const *const full_keys[] = { NULL, greedy_keys, tight_keys, always_keys };
static const char *const aggressive_keys[] = { "cleaning", "aggressive", NULL };
static const char *const bypass_keys[] = { "bypass_blocks", "1", NULL };
static const char *const long_keys[] = { "bypass_blocks", "4", "cleaning", "aggressive", NULL };
static const char *const read_home_keys[] = { "bypass_blocks", "2", "read_home", "always", NULL };
static const char *const block_keys[] = { "rmw", "block", NULL };
static const char *const few_keys[] = { "rmw", "block", "order", "greedy", "read_home", "always",
					NULL };
static const char *const *const set_keys[] = {
	NULL, aggressive_keys, greedy_keys, bypass_keys, long_keys, always_keys, read_home_keys,
	block_keys, few_keys,
};
static const char *const *const no_keys[] = { NULL };

static const char *const greedy_log_keys[] = { "clean", "greedy", NULL };
static const char *const off_keys[] = { "clean", "off", NULL };
static const char *const kept_keys[] = { "threshold", "3", NULL };
static const char *const *const log_keys[] = { NULL, greedy_log_keys, kept_keys, off_keys };

static const char *const few_regions_keys[] = { "region_cache", "4", NULL };
static const char *const two_state_keys[] = { "region_cache", "5", "lazy", "off", NULL };
static const char *const *const tiler_keys[] = { few_regions_keys, NULL, two_state_keys };

static const char *const once_keys[] = { "ratchet", "off", NULL };
static const char *const literal_keys[] = { "ageing", "off", "fit", "sat", NULL };
static const char *const power_keys[] = { "fit", "power", NULL };
static const char *const *const dual_keys[] = { NULL, once_keys, literal_keys, power_keys };

static const char *const pointer_keys[] = { "rule", "pointer", NULL };
static const char *const pool_keys[] = { "alloc", "pool", "hot_threshold", "0", NULL };
static const char *const empty_keys[] = { "gc_free_percent", "100", NULL };
static const char *const *const rmwf_keys[] = { NULL, pointer_keys, pool_keys, empty_keys };

static const char *const naive_keys[] = { "rmw", "naive", "partial", "level", NULL };
static const char *const seq_keys[] = {
	"policy", "seq", "rmw", "naive", "adjsync", "needed", NULL,
};
static const char *const phase_keys[] = { "policy", "3phase", "overwrite", "move", NULL };
static const char *const zigzag_keys[] = {
	"policy", "zigzag", "start", "first", "syncs", "literal", "buffer_tracks", "2", NULL,
};
static const char *const lba_keys[] = {
	"level", "lba", "overwrite", "move", "rmw", "naive", "buffer_tracks", "3", NULL,
};
static const char *const merged_keys[] = { "policy", "seq", "buffer_tracks", "4", NULL };
static const char *const most_keys[] = {
	"largest", "most", "level", "hint", "buffer_tracks", "5", NULL,
};
static const char *const hint_keys[] = { "level", "hint", "overwrite", "move", NULL };
static const char *const *const imr_keys[] = {
	NULL, naive_keys, seq_keys, phase_keys, zigzag_keys, lba_keys, merged_keys, most_keys,
	hint_keys,
};

/* Keys that may change while the device is in use. */
static const char *const set_turns[] = {
	"cleaning", "lazy", "cleaning", "aggressive", "order", "fifo", "order", "greedy",
	"bypass_blocks", "0", "bypass_blocks", "1", "bypass_blocks", "4",
	"read_home", "needed", "read_home", "always", "rmw", "band", "rmw", "block", NULL,
};
static const char *const full_turns[] = {
	"cleaning", "lazy", "cleaning", "aggressive", "order", "fifo", "order", "greedy",
	"threshold", "1", "read_home", "needed", "read_home", "always", NULL,
};
static const char *const log_turns[] = {
	"clean", "greedy", "clean", "cost-benefit", "clean", "off", "threshold", "2",
	"threshold", "3", NULL,
};
static const char *const dual_turns[] = {
	"fit", "hyper", "fit", "linear", "fit", "power", "fit", "sat", "ratchet", "on",
	"ratchet", "off", "ageing", "on", "ageing", "off", NULL,
};
static const char *const rmwf_turns[] = {
	"rule", "window", "rule", "pointer", "alloc", "static", "alloc", "pool", "hot_threshold", "0",
	"hot_threshold", "3", "gc_free_percent", "1", "gc_free_percent", "80", NULL,
};
static const char *const imr_turns[] = {
	"policy", "seq", "policy", "3phase", "policy", "zigzag", "policy", "compaction",
	"start", "first", "start", "next", "rmw", "naive", "rmw", "merged",
	"adjsync", "literal", "adjsync", "needed", "syncs", "literal", "syncs", "needed",
	"overwrite", "inplace", "overwrite", "move", "level", "message", "level", "hint",
	"level", "lba", "partial", "top", "partial", "level", "largest", "auto",
	"largest", "most", "largest", "1", NULL,
};

static const struct engine {
	const struct shingle_engine_ops *ops;
	void (*draw)(u32 *rng, struct shingle_exercise_shape *shape, struct shingle_layout *l);
	const char *const *const *keys;
	u32 nr_keys;
	const char *const *turns;
} engines[] = {
	{ &stl_set_engine_ops, draw_set, set_keys, ARRAY_SIZE(set_keys), set_turns },
	{ &stl_full_engine_ops, draw_full, full_keys, ARRAY_SIZE(full_keys), full_turns },
	{ &stl_log_engine_ops, draw_log, log_keys, ARRAY_SIZE(log_keys), log_turns },
	{ &imr_engine_ops, draw_imr, imr_keys, ARRAY_SIZE(imr_keys), imr_turns },
	{ &comb_engine_ops, draw_comb, no_keys, ARRAY_SIZE(no_keys), NULL },
	{ &tiler_engine_ops, draw_tiler, tiler_keys, ARRAY_SIZE(tiler_keys), NULL },
	{ &paged_engine_ops, draw_paged, no_keys, ARRAY_SIZE(no_keys), NULL },
	{ &dualbuffer_engine_ops, draw_dual, dual_keys, ARRAY_SIZE(dual_keys), dual_turns },
	{ &rmwf_engine_ops, draw_rmwf, rmwf_keys, ARRAY_SIZE(rmwf_keys), rmwf_turns },
};

/* The engine behind the wrappers below. With the first two some blocks never find room. */
static const struct shingle_engine_ops *inner_ops;

/* Is there no room for @lblk?  Limits @n to the blocks of its unit. */
static bool is_full(const struct shingle_engine *e, u64 lblk, u64 *n)
{
	u32 unit = e->gather_blocks ?: 16;

	*n = min_t(u64, *n, unit - lblk % unit);
	return lblk / unit % 8 == 7;
}

static int place_if_room(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
			 struct shingle_run *out)
{
	u64 most = n;

	return is_full(e, lblk, &most) ? SHINGLE_FULL : inner_ops->map.place(e, lblk, most, life, out);
}

static int discard_if_room(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			   struct shingle_emit *emit)
{
	u64 most = n;

	return is_full(e, lblk, &most) ? SHINGLE_FULL :
					 inner_ops->map.discard(e, lblk, n, done, dropped, emit);
}

/*
 * @refusal is the error of place_busy or place_full, else 0. @room is the number of writes that find
 * room before core must request a step. @turned_away: the engine itself has refused a write; then
 * the wrapper passes writes through, because core must retry that one.
 */
static int refusal;
static bool worn, warns;
static u32 room;
static bool turned_away;

static int place_when_asked(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
			    struct shingle_run *out)
{
	int r;

	if (!room && !turned_away)
		return refusal;
	r = inner_ops->map.place(e, lblk, n, life, out);
	room -= room && !r;
	turned_away |= r == -ENOSPC || r == -EBUSY;
	return r;
}

static int place_with_warning(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
			      struct shingle_run *out)
{
	WARN_ON(warns);
	return inner_ops->map.place(e, lblk, n, life, out);
}

static int ask(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step)
{
	int r = inner_ops->clean.next_step(e, why, step);

	room = 2;
	turned_away &= r || why != SHINGLE_WHY_PRESSURE;
	return r;
}

/* On every fourth device of dualbuffer the round number is close to its wrap. */
static u32 near_the_wrap(const struct shingle_engine_ops *ops, const struct shingle_layout *l,
			 u32 seed, struct shingle_record *rec)
{
	const struct dual_params *p = (const void *)l->params;

	if (ops != &dualbuffer_engine_ops || seed % 4 != 1 || p->m_percent)
		return 0;
	shingle_record_set(rec, DUAL_REC_ROUND, 0, U32_MAX - seed % 3, 0, 0);
	return 1;
}

/* WARN_ON() was hit. */
static bool warned;

void shim_warned(void)
{
	warned = true;
}

static int exercise(const struct engine *engine, u32 seed, u32 runs, u32 rounds,
		    const char *feature)
{
	const char *const features[] = { refusal || worn || warns ? NULL : feature, NULL };
	u64 gathered = 0, epochs = 0, failed_steps = 0;
	u64 writes = 0, steps = 0, cuts = 0, checkpoints = 0, destroyed = 0, emptied = 0, bypassed = 0;
	u64 nonsense = 0, refused = 0, pieces = 0, unchanged = 0, scattered = 0, walks = 0;
	u64 pages_read = 0, pages_written = 0, limit_ckpts = 0, grown = 0, beside = 0;
	struct shingle_engine_ops full = *engine->ops, slow = *engine->ops, warning = *engine->ops;
	struct shingle_exercise_result res;
	struct shingle_record first;
	static struct shingle_layout layout;
	u32 end = seed + runs;

	inner_ops = engine->ops;
	full.map.place = place_if_room;
	full.map.discard = discard_if_room;
	slow.map.place = place_when_asked;
	slow.clean.next_step = ask;
	warning.map.place = place_with_warning;
	for (; seed < end; seed++) {
		struct shingle_exercise_plan plan = {
			.ops = refusal ? &slow : warns ? &warning :
			       seed % 16 == 7 ? &full : engine->ops,
			.layout = &layout, .seed = seed, .rounds = rounds,
			.cuts = true, .features = features, .keys = engine->keys[seed % engine->nr_keys],
			/* Every other device keeps its initial keys. */
			.turns = seed % 2 ? engine->turns : NULL,
			.worn = !worn ? 0 : engine->ops == &stl_log_engine_ops ? 300 + seed % 400 : 12 + seed % 29,
		};
		struct shingle_exercise_shape shape = { 0 };
		u32 rng = seed;

		room = 0;
		turned_away = false;
		shape.band_blocks = draw(&rng, 1, 24);
		shape.head_tracks = draw(&rng, 1, 4);
		shape.track_blocks = shape.head_tracks > 1 ? draw(&rng, 1, 12) : 0;
		shape.columns = (shape.track_blocks || engine->ops == &imr_engine_ops) &&
				seed % 4 < 3;
		shape.skew_units = seed % 4 ? draw(&rng, 0, 0xffff) : 0;
		engine->draw(&rng, &shape, &layout);
		plan.first = &first;
		plan.nr_first = near_the_wrap(engine->ops, &layout, seed, &first);
		if (shingle_exercise(&plan, &res)) {
			printf("%s: seed %u: %s\n", engine->ops->name, seed, res.error);
			return 1;
		}
		if (warned) {
			printf("%s: seed %u: internal error\n", engine->ops->name, seed);
			return 1;
		}
		gathered += res.gathered;
		epochs += res.epochs;
		writes += res.writes;
		steps += res.steps;
		scattered += res.scattered;
		failed_steps += res.failed_steps;
		cuts += res.cuts;
		checkpoints += res.checkpoints;
		pieces += res.pieces;
		unchanged += res.unchanged;
		destroyed += res.destroyed;
		emptied += res.emptied;
		beside += res.beside;
		walks += res.walks;
		bypassed += res.bypassed;
		nonsense += res.nonsense;
		refused += res.refused;
		pages_read += res.pages_read;
		pages_written += res.pages_written;
		limit_ckpts += res.limit_ckpts;
		grown += res.grown;
	}
	printf("%s: %u runs: %llu blocks written, %llu gathered, %llu epochs, "
	       "%llu bypassed the cache, %llu steps, %llu of them scattered, %llu steps failed, "
	       "%llu checkpoints of %llu pieces, %llu pieces unchanged, %llu power cuts, "
	       "%llu full cleans, %llu cleans beside waiting writes, %llu verifications, "
	       "%llu damaged states accepted, %llu requests without room, "
	       "%llu pages read, %llu pages written, %llu checkpoints for page frames, "
	       "%llu recoveries that ended with one, "
	       "%llu blocks destroyed by the head, 0 lost\n",
	       engine->ops->name, runs, (unsigned long long)writes,
	       (unsigned long long)gathered, (unsigned long long)epochs,
	       (unsigned long long)bypassed, (unsigned long long)steps,
	       (unsigned long long)scattered, (unsigned long long)failed_steps,
	       (unsigned long long)checkpoints, (unsigned long long)pieces,
	       (unsigned long long)unchanged, (unsigned long long)cuts,
	       (unsigned long long)emptied, (unsigned long long)beside, (unsigned long long)walks,
	       (unsigned long long)nonsense, (unsigned long long)refused,
	       (unsigned long long)pages_read, (unsigned long long)pages_written,
	       (unsigned long long)limit_ckpts, (unsigned long long)grown,
	       (unsigned long long)destroyed);
	return 0;
}

static int usage(FILE *to)
{
	u32 i;

	fprintf(to, "usage: shingle-exercise [SEED [RUNS [ROUNDS [ENGINE [FEATURE]]]]]\n"
		"Random writes, discards, cleaning and power cuts; default: 1 200 6000, each engine.\n"
		"Prints a line of totals for each engine that has lost nothing (status 0), or the seed\n"
		"and the first error (status 1).  tests/exercise.h explains the totals.\n"
		"ENGINE is one of:");
	for (i = 0; i < ARRAY_SIZE(engines); i++)
		fprintf(to, " %s", engines[i].ops->name);
	fprintf(to, "\n");
	return to == stdout ? 0 : 2;
}

/* A number of the command line, or its default; false if it is no number. */
static bool number(int argc, char **argv, int i, u32 *n)
{
	char *end;

	if (argc <= i)
		return true;
	*n = strtoul(argv[i], &end, 0);
	return *argv[i] && !*end;
}

int main(int argc, char **argv)
{
	u32 seed = 1, runs = 200, rounds = 6000;
	const char *feature = argc > 5 ? argv[5] : NULL;
	int bad = 0, done = 0;
	u32 i;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return usage(stdout);
	if (argc > 6 || !number(argc, argv, 1, &seed) || !number(argc, argv, 2, &runs) ||
	    !number(argc, argv, 3, &rounds))
		return usage(stderr);
	if (feature && !strcmp(feature, "place_busy"))
		refusal = -EBUSY;
	if (feature && !strcmp(feature, "place_full"))
		refusal = -ENOSPC;
	worn = feature && !strcmp(feature, "worn");
	warns = feature && !strcmp(feature, "warn");
	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		if (argc > 4 && strcmp(argv[4], engines[i].ops->name))
			continue;
		bad |= exercise(&engines[i], seed, runs, rounds, feature);
		done++;
	}
	return done ? bad : usage(stderr);
}
