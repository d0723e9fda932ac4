// SPDX-License-Identifier: GPL-2.0
/* Interlaced recording: options and counters. */
#include "imr-state.h"

#define DEFAULT_BUFFER	64U
/* Most blocks in the buffer: 1 GiB. */
#define MAX_BUFFER_BLOCKS	(1U << 18)

/**
 * imr_initial_buffer() - default number of tracks in an epoch
 * @of: the engine
 *
 * Context: constructor.
 * Return: the number of tracks.
 */
u32 imr_initial_buffer(const void *of)
{
	const struct imr *s = of;

	return clamp(MAX_BUFFER_BLOCKS / s->track_blocks, 1U, DEFAULT_BUFFER);
}

static int set_buffer(void *of, u32 tracks, const char **why)
{
	struct imr *s = of;

	if ((u64)tracks * s->track_blocks > MAX_BUFFER_BLOCKS)
		return -ERANGE;
	s->engine.buffer_blocks = tracks * s->track_blocks;
	return 0;
}

static int set_levels(void *of, u32 levels, const char **why)
{
	const struct imr *s = of;

	if (levels != LEVELS_HINT || s->engine.knows_life)
		return 0;
	*why = "level hint needs a kernel whose writes carry lifetime hints (Linux 6.9)";
	return -EOPNOTSUPP;
}

#define OPTION(member)	SHINGLE_OPTION_AT(struct imr, member)
#define UNSAFE(word, member, what)	\
	{ SHINGLE_OPTION_UNSAFE(word, struct imr, member, "without " what) }

/* The words follow enum imr_policy, enum imr_levels, LARGEST_AUTO and LARGEST_MOST. */
const struct shingle_option imr_options[] = {
	{ .name = "policy", .kind = SHINGLE_OPTION_WORD, OPTION(tracks.policy),
	  .initial = IMR_COMPACTION,
	  .words = SHINGLE_OPTION_WORDS("seq", "3phase", "zigzag", "compaction"),
	  .range = "policy must be seq, 3phase, zigzag or compaction",
	  .help = "which physical track a logical one gets" },
	{ .name = "start", .kind = SHINGLE_OPTION_WORD, OPTION(tracks.first),
	  .words = SHINGLE_OPTION_WORDS("next", "first"),
	  .range = "start must be first or next",
	  .help = "where seq and zigzag look for a free track" },
	{ .name = "rmw", .kind = SHINGLE_OPTION_WORD, OPTION(opt.naive),
	  .words = SHINGLE_OPTION_WORDS("merged", "naive"),
	  .range = "rmw must be naive or merged",
	  .help = "one rewrite for all bottoms of an epoch, or one for each" },
	{ .name = "adjsync", .kind = SHINGLE_OPTION_WORD, OPTION(opt.adjsync_needed),
	  .words = SHINGLE_OPTION_WORDS("literal", "needed"),
	  .range = "adjsync must be literal or needed",
	  .help = "of naive: a sync before a bottom beside what is not synced" },
	{ .name = "syncs", .kind = SHINGLE_OPTION_WORD, OPTION(opt.syncs_literal),
	  .words = SHINGLE_OPTION_WORDS("needed", "literal"),
	  .range = "syncs must be literal or needed",
	  .help = "of merged: syncs that separate nothing, too, or not" },
	{ .name = "overwrite", .kind = SHINGLE_OPTION_WORD, OPTION(opt.move),
	  .words = SHINGLE_OPTION_WORDS("inplace", "move"),
	  .range = "overwrite must be inplace or move",
	  .help = "mapped tracks are written where they are, or elsewhere" },
	{ .name = "level", .kind = SHINGLE_OPTION_WORD, OPTION(opt.levels), .set = set_levels,
	  .words = SHINGLE_OPTION_WORDS("message", "hint", "lba"),
	  .range = "level must be message, hint or lba",
	  .help = "who says which level a track has" },
	{ .name = "partial", .kind = SHINGLE_OPTION_WORD, OPTION(opt.by_level),
	  .words = SHINGLE_OPTION_WORDS("top", "level"),
	  .range = "partial must be top or level",
	  .help = "where tracks go that are written in parts" },
	{ .name = "largest", .kind = SHINGLE_OPTION_NUMBER, OPTION(opt.largest),
	  .max = NR_LEVELS - 1, .words = SHINGLE_OPTION_WORDS("auto", "most"),
	  .initial = LARGEST_AUTO,
	  .range = "largest must be a level from 0 to 15, auto or most",
	  .help = "the level that bottoms are for, with those beyond it" },
	{ .name = "buffer_tracks", .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_TABLE,
	  OPTION(opt.buffer_tracks), .min = 1, .max = MAX_BUFFER,
	  .find_initial = imr_initial_buffer, .set = set_buffer,
	  .range = "buffer_tracks must be from 1 to 1024, and at most 1 GiB",
	  .busy = "buffer_tracks can only be set by a table, not while the device is in use",
	  .help = "tracks of an epoch at most, and the size of the buffer" },
	UNSAFE("unsafe_record", opt.unsafe_record, "records of saved tops"),
	UNSAFE("unsafe_sync1", opt.unsafe_sync1, "the sync before bottoms"),
	UNSAFE("unsafe_sync2", opt.unsafe_sync2, "the sync before restoring"),
	UNSAFE("unsafe_sync4", opt.unsafe_sync4, "the sync between bottoms and tops"),
	UNSAFE("unsafe_retire", opt.unsafe_retire, "records of restored tops"),
	UNSAFE("unsafe_reuse", opt.unsafe_reuse, "waiting before freed tracks are used again"),
	UNSAFE("unsafe_order", engine.unsafe_order, "the flush of data before their records"),
	{ }
};

#define PARAM(word, member, most) SHINGLE_OPTION_PARAM(word, struct imr_params, member, most)

const struct shingle_option imr_format_options[] = {
	{ PARAM("spare-tracks", spare_tracks, U32_MAX), .from = "0",
	  .help = "tracks that are not addressable" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER("imr_" #name, struct imr, count.name, COUNT)
#define SYNC(name, cause)	\
	SHINGLE_COUNTER("imr_" #name, struct imr, count.syncs[cause], COUNT)

const struct shingle_counter imr_counters[] = {
	COUNT(bottoms_allocated),
	COUNT(tops_allocated),
	COUNT(tier_misses),
	COUNT(bottoms_rmw),
	COUNT(bottoms_rmw_free),
	COUNT(tops_written),
	COUNT(backups),
	COUNT(rewrites),
	SHINGLE_COUNTER("imr_replayed_tops", struct imr, count.replayed, COUNT),
	COUNT(epochs),
	COUNT(epochs_rmw),
	COUNT(epoch_tracks),
	COUNT(partial_tracks),
	COUNT(partial_tops),
	COUNT(overwritten_tracks),
	COUNT(moved_tracks),
	COUNT(direct_blocks),
	SHINGLE_COUNTER("imr_pending_tracks", struct imr, nr_pending, NOW),
	SYNC(sync_adjacent, IMR_SYNC_ADJACENT),
	SYNC(sync_1, IMR_SYNC_1),
	SYNC(sync_2, IMR_SYNC_2),
	SYNC(sync_3, IMR_SYNC_3),
	SYNC(sync_4, IMR_SYNC_4),
	SYNC(sync_5, IMR_SYNC_5),
	SYNC(sync_saved, IMR_SYNC_SAVED),
	SYNC(sync_map, IMR_SYNC_MAP),
	SYNC(sync_redo, IMR_SYNC_REDO),
	{ }
};

static_assert(ARRAY_SIZE(imr_counters) <= SHINGLE_MAX_COUNTERS + 1);
