// SPDX-License-Identifier: GPL-2.0
/*
 * Interlaced magnetic recording.  Pure code; see engine.h.
 *
 * Physical tracks alternate: bottom, top, bottom, ...  A write to a bottom destroys the
 * tops on both sides, so these must be saved before and written again after: a rewrite.  A
 * policy (policy.c) gives a logical track its physical track when it is first written.  The
 * engine gathers writes into an epoch and persists the epoch in one of two orders:
 *
 *   naive    track after track, each with a rewrite of its own: Algorithm 1
 *   merged   all rewrites together, bottoms before tops: Algorithm 2
 *
 * Saving a top is a change of the map.  A record says that the content is in the backup
 * slot, and the record is durable before the bottom is written.  So rule R0 holds, reads
 * find the slot, and after a power cut recovery writes back what the map finds in slots.
 * The engine needs neither a checksum nor a generation number: a record becomes durable
 * only after the data that it is about, and a slot is not reused before the record of its
 * restoring is durable.
 *
 * Only steps write bottoms, one at a time.  A flush separates a bottom from a top beside
 * it, because the drive may reorder writes that no flush separates.  A write to a mapped
 * top goes there directly.
 *
 *   imr-engine.c    the device: its construction, and the host's reads, writes and discards
 *   imr-epoch.c     an epoch: what it writes, and where
 *   imr-tiers.c     bottoms or tops: the first step of compaction-aware allocation
 *   policy.c        which track of the tier: the second step, and other policies
 *   imr-persist.c   the order of the steps: Algorithms 1 and 2
 *   imr-steps.c     the steps: save a top, restore it, write a track
 *   imr-state.c     changes of tracks and slots
 *   imr-format.c    the state on the disk
 *   imr-options.c   options and counters
 *   imr-verify.c    consistency checks of the state
 *
 * Liang (2021), sections 2.2 and 3; papers/liang.rst describes the holes that the paper
 * leaves.
 */
#include "imr-state.h"

/* Most tracks that one discard call visits; bounds the time under the map lock. */
#define DISCARD_TRACKS	1024U

/* ------------------------------------------------------------------------
 * Construction
 */

static u32 spare_of(const struct shingle_layout *l)
{
	const struct imr_params *p = (const void *)l->params;

	BUILD_BUG_ON(sizeof(*p) > SHINGLE_ENGINE_PARAMS_SIZE);
	return le32_to_cpu(p->spare_tracks);
}

static const char *unfit(const struct shingle_layout *l)
{
	u64 tracks = l->nr_bands[SHINGLE_ROLE_DATA];

	if (tracks >= MAX_TRACKS)
		return "imr has at most 2^31 - 16 tracks";
	if (l->band_blocks[SHINGLE_ROLE_DATA] > U16_MAX)
		return "imr has tracks of at most 65535 blocks";
	if (l->nr_bands[SHINGLE_ROLE_CACHE])
		return "imr has no cache bands";
	if (l->nr_bands[SHINGLE_ROLE_STAGING] < 2)
		return "imr needs at least 2 backup tracks";
	if (l->band_blocks[SHINGLE_ROLE_STAGING] < l->band_blocks[SHINGLE_ROLE_DATA])
		return "imr needs backup tracks that are no shorter than its tracks";
	if (l->nr_bands[SHINGLE_ROLE_STAGING] > 2 * MAX_BUFFER)
		return "imr needs at most 2048 backup tracks";
	if (spare_of(l) >= tracks)
		return "imr must have more tracks than it keeps spare";
	return NULL;
}

static u64 imr_logical_blocks(const struct shingle_layout *l)
{
	if (unfit(l))
		return 0;
	return (l->nr_bands[SHINGLE_ROLE_DATA] - spare_of(l)) *
	       l->band_blocks[SHINGLE_ROLE_DATA];
}

static void imr_destroy(struct shingle_engine *e)
{
	struct imr *s = to_imr(e);

	imr_tracks_exit(&s->tracks);
	shingle_slotmap_exit(&s->backup.index);
	kvfree(s->map);
	kvfree(s->owner);
	kvfree(s->backup.slot);
	kvfree(s->epoch.track_list);
	kvfree(s->epoch.sorted);
	shingle_marks_exit(e);
	kvfree(s);
}

static bool allocate(struct imr *s)
{
	s->map = shingle_zalloc_array(s->nr_logical, sizeof(*s->map));
	s->owner = shingle_zalloc_array(s->nr_phys, sizeof(*s->owner));
	s->backup.slot = shingle_zalloc_array(s->backup.nr, sizeof(*s->backup.slot));
	s->epoch.track_list = shingle_zalloc_array(MAX_BUFFER, sizeof(*s->epoch.track_list));
	s->epoch.sorted = shingle_zalloc_array(MAX_BUFFER, sizeof(*s->epoch.sorted));
	return !imr_tracks_init(&s->tracks, s->nr_phys) &&
	       !shingle_slotmap_init(&s->backup.index, s->backup.nr) && s->map && s->owner &&
	       s->backup.slot && s->epoch.track_list && s->epoch.sorted &&
	       !shingle_marks_init(&s->engine, s->layout);
}

static int imr_create(struct shingle_engine **out, const struct shingle_layout *layout,
		      const char **why)
{
	struct imr *s;
	u32 i;

	*why = unfit(layout);
	if (!*why && layout->logical_blocks != imr_logical_blocks(layout))
		*why = "imr presents all its tracks but the spare ones";
	if (*why)
		return -EINVAL;
	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->engine.ops = &imr_engine_ops;
	s->layout = layout;
	s->track_blocks = layout->band_blocks[SHINGLE_ROLE_DATA];
	s->nr_phys = layout->nr_bands[SHINGLE_ROLE_DATA];
	s->nr_logical = s->nr_phys - spare_of(layout);
	s->backup.nr = layout->nr_bands[SHINGLE_ROLE_STAGING];
	for (i = 0; i < ARRAY_SIZE(s->first_piece); i++)
		s->first_piece[i] = shingle_pieces_nr(imr_pieces, i, layout);
	s->engine.discard_blocks = s->track_blocks;
	s->engine.gather_blocks = s->track_blocks;
	s->engine.cache_blocks = (u64)s->backup.nr * s->track_blocks;
	s->engine.buffer_blocks = imr_initial_buffer(s) * s->track_blocks;
	s->epoch.quarantined = IMR_NO_TRACK;
	s->epoch.drain = NO_OWNER;
	if (!allocate(s)) {
		imr_destroy(&s->engine);
		return -ENOMEM;
	}
	shingle_options_init(imr_options, s);
	for (i = 0; i < s->nr_logical; i++)
		s->map[i].phys = IMR_NO_TRACK;
	for (i = 0; i < s->nr_phys; i++)
		s->owner[i] = OWNER_FREE;
	for (i = 0; i < s->backup.nr; i++)
		s->backup.slot[i].owner = NO_OWNER;
	*out = &s->engine;
	return 0;
}

/* ------------------------------------------------------------------------
 * Host I/O
 */

static void imr_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct imr *s = to_imr(e);
	u64 track = div_u64(lblk, s->track_blocks);
	u32 offset = lblk - track * s->track_blocks;
	const struct imr_track *t = &s->map[track];

	out->lblk = lblk;
	if (offset >= t->valid) {
		out->kind = SHINGLE_RUN_ZERO;
		out->pblk = 0;
		out->n = min(n, s->track_blocks - offset);
		return;
	}
	out->kind = SHINGLE_RUN_MAPPED;
	out->pblk = imr_where(s, track) + offset;
	out->n = min_t(u32, n, t->valid - offset);
}

/*
 * An overwrite on a top goes directly to its place, because it destroys nothing; every
 * other write is gathered.  The level that a hint gives becomes durable with the next
 * record of the track's place; an overwrite in place emits no record.
 */
static int imr_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		     struct shingle_run *out)
{
	struct imr *s = to_imr(e);
	u64 track = div_u64(lblk, s->track_blocks);
	u32 offset = lblk - track * s->track_blocks;
	struct imr_track *t = &s->map[track];

	out->lblk = lblk;
	out->kind = SHINGLE_RUN_MAPPED;
	out->n = min(n, s->track_blocks - offset);
	if (offset >= t->valid || !imr_is_top(t->phys) || t->busy || t->saved ||
	    track == s->epoch.drain || t->inflight == MAX_INFLIGHT) {
		if (s->opt.levels == LEVELS_HINT && life != SHINGLE_LIFE_UNKNOWN)
			imr_set_level(s, track, life - SHINGLE_LIFE_SHORT);
		return SHINGLE_GATHER;
	}
	out->n = min_t(u32, out->n, t->valid - offset);
	out->pblk = imr_phys_pblk(s, t->phys) + offset;
	t->inflight++;
	return 0;
}

static void imr_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct imr *s = to_imr(e);

	s->map[div_u64(run->lblk, s->track_blocks)].inflight--;
}

static void imr_commit(struct shingle_engine *e, const struct shingle_run *run,
		       struct shingle_emit *emit)
{
	imr_abort(e, run);
	to_imr(e)->count.direct_blocks += run->n;
}

/* Discards whole tracks only; a discard of less has no effect. */
static int imr_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
		       struct shingle_emit *emit)
{
	struct imr *s = to_imr(e);
	u64 first = div_u64(lblk, s->track_blocks);
	u32 offset = lblk - first * s->track_blocks, i, limit;

	*dropped = !offset && n >= s->track_blocks;
	if (!*dropped) {
		*done = min_t(u64, n, s->track_blocks - offset);
		return 0;
	}
	limit = min_t(u64, div_u64(n, s->track_blocks), DISCARD_TRACKS);
	for (i = 0; i < limit; i++) {
		struct imr_track *t = &s->map[first + i];

		if (t->busy || t->saved || t->inflight || first + i == s->epoch.drain)
			break;
		if (imr_is_mapped(s, first + i))
			imr_unmap_track(s, first + i, emit->seq);
		t->level = 0;
		t->explicit = false;
	}
	if (!i)
		return -EBUSY;
	s->changes++;
	shingle_emit(emit, IMR_UNMAP, 0, 0, first, i);
	*done = (u64)i * s->track_blocks;
	return 0;
}

/* ------------------------------------------------------------------------
 * Operations for core
 */

static_assert(!offsetof(struct imr, engine));

static u64 imr_map_bytes(struct shingle_engine *e)
{
	const struct imr *s = to_imr(e);

	return (u64)s->nr_logical * sizeof(*s->map) +
	       (u64)s->nr_phys * sizeof(*s->owner) + s->nr_phys / 8 + s->nr_phys / 16 +
	       (u64)s->backup.nr * sizeof(*s->backup.slot) +
	       shingle_slotmap_bytes(&s->backup.index) +
	       2 * MAX_BUFFER * sizeof(*s->epoch.track_list);
}

const struct shingle_engine_ops imr_engine_ops = {
	.name = "imr",
	.needs = { .interlaced = true },
	.commit_records = 0,
	.step_records = 1,
	.step_kinds = {
		[STEP_BACKUP] = "backup", [STEP_RESTORE] = "restore", [STEP_WRITE] = "write",
		[STEP_SYNC] = "sync",
	},
	.discard_records = 1,
	.options = imr_options,
	.params = imr_format_options,
	.counters = imr_counters,
	.records = imr_records,
	.logical_blocks = imr_logical_blocks,
	.create = imr_create,
	.destroy = imr_destroy,
	.map = {
		.resolve = imr_resolve,
		.place = imr_place,
		.commit = imr_commit,
		.abort = imr_abort,
		.discard = imr_discard,
		.referenced = imr_referenced,
	},
	.clean = {
		.next_step = imr_next_step,
		.step_source = imr_step_source,
		.step_done = imr_step_done,
		.step_failed = imr_step_failed,
		.release = imr_release,
		.pending = imr_pending,
	},
	.state = {
		.pieces = imr_pieces,
		.replay = imr_replay,
		.ready = imr_ready,
	},
	.gather = {
		.epoch_add = imr_epoch_add,
		.epoch_end = imr_epoch_end,
	},
	.observe = {
		.verify = imr_verify,
		.map_bytes = imr_map_bytes,
		.cached_blocks = imr_cached_blocks,
		.message = imr_message,
	},
};
EXPORT_SYMBOL_GPL(imr_engine_ops);
