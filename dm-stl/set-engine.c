// SPDX-License-Identifier: GPL-2.0
/*
 * Set-associative shingle translation layer: pure code, see engine.h.
 *
 * Data bands have fixed native places.  Writes go to the cache band of their
 * set, one slot after the other; when that band is full, every data band with
 * blocks in it is rewritten and the cache band starts again from its first
 * slot.  Spec: skylight-and-zoned.md 1.3; order of cleaning: 1.6, Algorithm 1.
 *
 * The paper says nothing of crashes.  A band is rewritten in two steps, each
 * ended by a durable record: STAGE merges the band into the staging band,
 * WRITEBACK copies it home.  Between the two the staged copy *is* the band.
 *
 * Bypass.  A stream that is alone and long enough writes home, one write at a
 * time and in order, so that what home holds is always a prefix of the band.
 * Nothing that counts may be in front of its head: a band with content at home
 * is staged first, and the stream then does what WRITEBACK would have done, as
 * far as it gets.  A band whose home holds nothing needs no copy at all.
 */
#include "set-engine.h"
#include "slotlog.h"
#include "streams.h"

/* struct shingle_step::kind */
enum { STEP_STAGE, STEP_WRITEBACK, STEP_INPLACE, STEP_RETIRE };

#define NO_SET		U32_MAX
#define NO_BAND		U32_MAX

/* Bands of prefixes in one checkpoint piece.  Tests take less. */
#ifndef PART_BANDS
#define PART_BANDS	1000U
#endif

/* Blocks that core needs in a checkpoint slot: its own piece and the footer. */
#define CORE_CHUNKS	2U

/*
 * struct stl_set::valid of a band whose home holds nothing any more, but was
 * written to: what the head has destroyed there is not to be read.
 */
#define RAGGED		U32_MAX

#define MAX_BYPASS	(1U << 24)

/* Bands one discard call walks over, to bound the time under the map lock. */
#define DISCARD_BANDS	1024U

/**
 * struct stl_set - the engine's state
 * @engine: what core sees
 * @layout: of the device, core's
 * @band_blocks: blocks per band, data and cache alike
 * @nr_bands: data bands
 * @nr_sets: cache bands
 * @set_shift: see struct stl_set_params
 * @inplace: rewrite bands without staging: loses data at a power cut
 * @aggressive: clean also when the host is quiet
 * @greedy: clean what has the most stale slots first, not the oldest
 * @read_all: all that can be read of a band at home is read, needed or not
 * @logs: the cache bands: a set is a log
 * @hashed: what a checkpoint says of slots is in the hash of @logs, not only in its
 *	owners
 * @valid: per data band, how many of its first blocks the native place holds, or
 *	RAGGED
 * @want: per set, next set + 1 in the queue of full sets; self + 1 at the end
 * @want_head: first set of the queue, or NO_SET
 * @want_tail: last set of the queue
 * @clean_set: the set being cleaned, or NO_SET
 * @drain_set: takes no placements until those in flight are done; or NO_SET
 * @forced: a forced clean is going on
 * @forced_age: it does without sets of this age and later
 * @step_band: band of the step in progress, or U64_MAX
 * @step_live: of its blocks, those that were cached when the step began
 * @staged: the staging band holds @staged_band
 * @staged_band: which data band
 * @staged_snapshot: slots of its set from here on are newer than the copy
 * @staged_valid: how many of its first blocks are home again; @valid says
 *	nothing of it
 * @tidied: of how many of its first blocks the cache has forgotten what is older than
 *	the copy
 * @streams: of which one that is alone for long enough goes home past the cache
 * @direct_band: the stream's next write goes home, behind the prefix of this
 *	band; or NO_BAND
 * @flight_band: data band of the write home under way, or NO_BAND
 * @flight_end: offset behind it
 * @wish_band: to be staged because a stream waits at its beginning; or NO_BAND
 * @held: homes were given up, but recovery or a reader might still look there
 * @held_seq: transaction that gives them up
 * @reset_set: emptied, but recovery might still look into it; or NO_SET
 * @reset_seq: transaction that says that it is empty
 * @bands_cleaned: data bands rewritten
 * @sets_cleaned: cache bands emptied
 * @merged_blocks: cached blocks copied into bands
 * @full_sets: times that a write found a cache band full
 * @bypassed_blocks: written home, past the cache
 * @streams_broken: streams that did not get to the end of a band
 */
struct stl_set {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	u32 band_blocks;
	u32 nr_bands;
	u32 nr_sets;
	u32 set_shift;
	bool inplace;
	bool aggressive;
	bool greedy;
	bool read_all;

	struct shingle_slotlogs logs;
	bool hashed;
	u32 *valid;

	u32 *want;
	u32 want_head;
	u32 want_tail;

	u32 clean_set;
	u32 drain_set;
	bool forced;
	u32 forced_age;
	u64 step_band;
	u32 step_live;

	bool staged;
	u32 staged_band;
	u32 staged_snapshot;
	u32 staged_valid;
	u32 tidied;

	struct shingle_streams streams;
	u32 direct_band;
	u32 flight_band;
	u32 flight_end;
	u32 wish_band;

	bool held;
	u64 held_seq;

	u32 reset_set;
	u64 reset_seq;

	u64 bands_cleaned;
	u64 sets_cleaned;
	u64 merged_blocks;
	u64 full_sets;
	u64 bypassed_blocks;
	u64 streams_broken;
};

static struct stl_set *to_set(struct shingle_engine *e)
{
	return container_of(e, struct stl_set, engine);
}

static u32 set_of_band(const struct stl_set *s, u32 band)
{
	return (band >> s->set_shift) % s->nr_sets;
}

static u64 native(const struct stl_set *s, u32 band)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, band);
}

static u64 slot_pblk(const struct stl_set *s, u32 slot)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_CACHE, slot / s->band_blocks) +
	       slot % s->band_blocks;
}

static u64 staging(const struct stl_set *s)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_STAGING, 0);
}

static bool may_hold(struct shingle_engine *e, u32 set, u32 band)
{
	return set_of_band(to_set(e), band) == set;
}

static bool is_staged(const struct stl_set *s, u32 band)
{
	return s->staged && band == s->staged_band;
}

/* ------------------------------------------------------------------------
 * Pieces of the state, in their order: globals, whole bands, slots, prefixes
 */

static u32 nr_whole_parts(const struct stl_set *s)
{
	return DIV_ROUND_UP(s->nr_bands, SHINGLE_CHUNK_BITS);
}

static void mark_globals(struct stl_set *s)
{
	shingle_mark(&s->engine, 0, 1);
}

static u32 prefix_word(const struct stl_set *s, u32 blocks)
{
	return blocks == s->band_blocks ? 0 : blocks;
}

static void set_valid(struct stl_set *s, u32 band, u32 blocks)
{
	bool was_whole = s->valid[band] == s->band_blocks, whole = blocks == s->band_blocks;
	u32 old = s->valid[band];

	s->valid[band] = blocks;
	if (whole != was_whole)
		shingle_mark(&s->engine, 1 + band / SHINGLE_CHUNK_BITS, 1);
	if (prefix_word(s, old) != prefix_word(s, blocks))
		shingle_mark(&s->engine, 1 + nr_whole_parts(s) +
			     s->nr_sets * shingle_slotlog_parts(s->band_blocks) + band / PART_BANDS, 1);
}

/* So many of the first blocks of @band, where they are not cached, are at home. */
static u32 at_home(const struct stl_set *s, u32 band)
{
	u32 blocks = is_staged(s, band) ? s->staged_valid : s->valid[band];

	return blocks == RAGGED ? 0 : blocks;
}

static void set_at_home(struct stl_set *s, u32 band, u32 blocks)
{
	if (is_staged(s, band)) {
		s->staged_valid = blocks;
		mark_globals(s);
	} else {
		set_valid(s, band, blocks);
	}
}

/* Home holds nothing of @band from now on. */
static void forget_home(struct stl_set *s, u32 band)
{
	set_valid(s, band, s->valid[band] && s->valid[band] != s->band_blocks ? RAGGED : 0);
}

/* The stream will not go on to the end of its band. */
static void break_direct(struct stl_set *s)
{
	if (s->direct_band == NO_BAND)
		return;
	s->direct_band = NO_BAND;
	s->streams_broken++;
}

/*
 * No stream waits for a band to be staged any more.  Nor may others, who were
 * kept from its set for that: with no set being cleaned no step would come.
 */
static void drop_wish(struct stl_set *s)
{
	s->wish_band = NO_BAND;
	if (s->clean_set == NO_SET)
		s->drain_set = NO_SET;
}

/* ------------------------------------------------------------------------
 * Construction
 */

static void stl_set_destroy(struct shingle_engine *e)
{
	struct stl_set *s = to_set(e);

	shingle_slotlogs_exit(&s->logs);
	kvfree(s->valid);
	kvfree(s->want);
	shingle_marks_exit(e);
	kvfree(s);
}

static u64 stl_set_logical_blocks(const struct shingle_layout *l)
{
	return l->nr_bands[SHINGLE_ROLE_DATA] * l->band_blocks;
}

static int check_layout(const struct shingle_layout *l, const struct stl_set_params *p,
			const char **why)
{
	*why = NULL;
	if (!l->nr_bands[SHINGLE_ROLE_CACHE])
		*why = "stl-set needs at least one cache band";
	else if (l->nr_bands[SHINGLE_ROLE_STAGING] != 1)
		*why = "stl-set needs exactly one staging band";
	else if (l->nr_bands[SHINGLE_ROLE_CACHE] > SHINGLE_SLOTMAP_SLOTS / l->band_blocks)
		*why = "stl-set can cache at most 2 TiB less 256 KiB";
	else if (l->logical_blocks != stl_set_logical_blocks(l))
		*why = "stl-set presents its data bands, no more and no less";
	else if (l->logical_blocks > SHINGLE_SLOTMAP_LBLKS)
		*why = "stl-set presents at most 16 TiB";
	else if (le32_to_cpu(p->set_shift) > 31)
		*why = "stl-set's set_shift is above 31";
	return *why ? -EINVAL : 0;
}

static u64 stl_set_max_chunks(const struct shingle_layout *l)
{
	u64 bands = l->nr_bands[SHINGLE_ROLE_DATA];

	return 1 + DIV_ROUND_UP(bands, (u64)SHINGLE_CHUNK_BITS) +
	       l->nr_bands[SHINGLE_ROLE_CACHE] * shingle_slotlog_parts(l->band_blocks) +
	       DIV_ROUND_UP(bands, (u64)PART_BANDS);
}

static int stl_set_create(struct shingle_engine **out, const struct shingle_layout *layout,
			  const char **why)
{
	const struct stl_set_params *p = (const void *)layout->params;
	struct stl_set *s;
	u32 sets, bands;

	BUILD_BUG_ON(sizeof(*p) > SHINGLE_ENGINE_PARAMS_SIZE);
	if (check_layout(layout, p, why))
		return -EINVAL;

	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	sets = layout->nr_bands[SHINGLE_ROLE_CACHE];
	bands = layout->nr_bands[SHINGLE_ROLE_DATA];
	s->engine.ops = &stl_set_engine_ops;
	s->engine.discard_blocks = layout->band_blocks;
	s->layout = layout;
	s->band_blocks = layout->band_blocks;
	s->nr_bands = bands;
	s->nr_sets = sets;
	s->set_shift = le32_to_cpu(p->set_shift);
	s->want_head = NO_SET;
	s->logs.engine = &s->engine;
	s->logs.may_hold = may_hold;
	s->logs.nr_logs = sets;
	s->logs.nr_bands = bands;
	s->logs.band_blocks = s->band_blocks;
	s->logs.first_piece = 1 + nr_whole_parts(s);
	/* A set's copies are all in its log, and what was placed later was written later. */
	s->logs.by_slot = true;
	s->clean_set = NO_SET;
	s->drain_set = NO_SET;
	s->reset_set = NO_SET;
	s->step_band = U64_MAX;
	s->direct_band = NO_BAND;
	s->flight_band = NO_BAND;
	s->wish_band = NO_BAND;

	s->want = shingle_zalloc_array(sets, sizeof(u32));
	s->valid = shingle_zalloc_array(bands, sizeof(u32));
	if (!s->want || !s->valid || shingle_slotlogs_init(&s->logs) ||
	    shingle_marks_init(&s->engine, stl_set_max_chunks(layout))) {
		stl_set_destroy(&s->engine);
		return -ENOMEM;
	}
	s->engine.cache_blocks = s->logs.map.nr_slots;
	*out = &s->engine;
	return 0;
}

static int set_inplace(void *of, u32 yes, const char **why)
{
	struct stl_set *s = of;

	s->engine.copy_blocks = s->band_blocks;
	return 0;
}

static int set_bypass(void *of, u32 blocks, const char **why)
{
	struct stl_set *s = of;
	u64 slot = s->layout->ckpt[0].blocks;

	*why = "bypass_blocks needs larger checkpoints than this device was formatted with";
	if (blocks && slot && slot < stl_set_max_chunks(s->layout) + CORE_CHUNKS)
		return -ERANGE;
	shingle_streams_end(&s->streams);
	break_direct(s);
	drop_wish(s);
	return 0;
}

#define OPTION(member)	SHINGLE_OPTION_AT(struct stl_set, member)

static const struct shingle_option stl_set_options[] = {
	{ .name = "inplace", .kind = SHINGLE_OPTION_FEATURE, .when = SHINGLE_OPTION_TABLE,
	  OPTION(inplace), .set = set_inplace,
	  .help = "rewrite bands without staging: a power cut costs one" },
	{ .name = "cleaning", .kind = SHINGLE_OPTION_WORD, OPTION(aggressive),
	  .words = SHINGLE_OPTION_WORDS("lazy", "aggressive"),
	  .range = "cleaning must be lazy or aggressive",
	  .help = "when a write needs the room, or also when the host is quiet" },
	{ .name = "order", .kind = SHINGLE_OPTION_WORD, OPTION(greedy),
	  .words = SHINGLE_OPTION_WORDS("fifo", "greedy"),
	  .range = "order must be fifo or greedy",
	  .help = "which cache band and which data band are cleaned first" },
	{ .name = "bypass_blocks", .kind = SHINGLE_OPTION_NUMBER, OPTION(streams.alone_blocks),
	  .max = MAX_BYPASS, .set = set_bypass,
	  .range = "bypass_blocks must be from 0 (never) to 16777216 (64 GiB)",
	  .help = "streams of so many blocks go past the cache; 0: none does" },
	{ .name = "read_home", .kind = SHINGLE_OPTION_WORD, OPTION(read_all),
	  .words = SHINGLE_OPTION_WORDS("needed", "always"),
	  .range = "read_home must be needed or always",
	  .help = "what cleaning reads of a band at its native place" },
	{ }
};

/* ------------------------------------------------------------------------
 * Reading and writing
 */

/* Where one block is now. */
static u64 locate(const struct stl_set *s, u32 band, u32 lblk, enum shingle_run_kind *kind)
{
	u32 offset = lblk - band * s->band_blocks;
	u32 slot = shingle_slotlog_find(&s->logs, band, lblk);
	bool staged = is_staged(s, band);

	*kind = SHINGLE_RUN_MAPPED;
	if (slot != SHINGLE_NO_SLOT && !(staged && slot % s->band_blocks < s->staged_snapshot))
		return slot_pblk(s, slot);
	if (offset >= at_home(s, band)) {
		if (staged)
			return staging(s) + offset;
		*kind = s->valid[band] ? SHINGLE_RUN_ZERO : SHINGLE_RUN_UNWRITTEN;
	}
	return native(s, band) + offset;
}

static void stl_set_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct stl_set *s = to_set(e);
	u32 band = (u32)lblk / s->band_blocks, offset = (u32)lblk % s->band_blocks;
	u32 home = at_home(s, band);
	enum shingle_run_kind kind;

	n = min(n, s->band_blocks - offset);
	out->lblk = lblk;
	out->pblk = locate(s, band, lblk, &out->kind);
	out->n = 1;
	if (!s->logs.band_live[band]) {
		out->n = offset < home ? min(n, home - offset) : n;
		return;
	}
	while (out->n < n && locate(s, band, lblk + out->n, &kind) == out->pblk + out->n &&
	       kind == out->kind)
		out->n++;
}

/* A write found @set full: it will be cleaned in its turn. */
static void want_clean(struct stl_set *s, u32 set)
{
	if (s->want[set] || s->clean_set == set)
		return;
	s->full_sets++;
	s->want[set] = set + 1;
	if (s->want_head == NO_SET)
		s->want_head = set;
	else
		s->want[s->want_tail] = set + 1;
	s->want_tail = set;
}

static u32 pop_wanted(struct stl_set *s)
{
	u32 set = s->want_head;

	if (set == NO_SET)
		return NO_SET;
	s->want_head = set == s->want_tail ? NO_SET : s->want[set] - 1;
	s->want[set] = 0;
	return set;
}

/*
 * Is this the stream's, but has overtaken its next write, which had to wait?
 * Who sends several at a time sends them in order; in the cache it would end
 * what it belongs to.  It can be refused, since the end of that write, or of the
 * step that this waits for, will wake both.
 */
static bool runs_ahead(struct stl_set *s, u32 lblk)
{
	const struct shingle_stream *st = shingle_stream_alone(&s->streams);

	if (!st || lblk <= st->next || lblk - st->next >= s->band_blocks)
		return false;
	return s->flight_band != NO_BAND || s->wish_band != NO_BAND || st->awaited;
}

/*
 * A stream comes to the beginning of a band: 1 if it may write home, 0 if it
 * has to go to the cache, -errno if it has to wait.
 */
static int enter_band(struct stl_set *s, u32 band)
{
	if (band == s->step_band)
		return band == s->wish_band ? -EBUSY : 0;
	if (is_staged(s, band))
		return 0;
	if (!at_home(s, band)) {
		break_direct(s);
		s->direct_band = band;
		drop_wish(s);
		return 1;
	}
	/* Others wait for the staging band, or it is a drive that does without. */
	if (s->inplace || s->clean_set != NO_SET || s->want_head != NO_SET) {
		drop_wish(s);
		return 0;
	}
	s->wish_band = band;
	return -ENOSPC;
}

/* Place a write at home: 1 if done, 0 if it goes to the cache, -errno to wait. */
static int place_direct(struct stl_set *s, struct shingle_stream *st, u32 lblk, u32 n,
			struct shingle_run *out)
{
	u32 band = lblk / s->band_blocks, offset = lblk % s->band_blocks;
	bool ready = band == s->direct_band && offset == at_home(s, band);
	int r;

	if (!s->streams.alone_blocks)
		return 0;
	if (!st || st->alone < s->streams.alone_blocks) {
		/* A second stream has ended this one. */
		if (st && ready)
			break_direct(s);
		return runs_ahead(s, lblk) ? -EBUSY : 0;
	}
	if (offset && !ready && s->flight_band != band)
		return 0;
	st->awaited = true;
	if (s->flight_band != NO_BAND)
		return -EBUSY;
	if (!ready) {
		r = enter_band(s, band);
		if (r <= 0)
			return r;
	}
	if (!offset && s->held)
		return -EBUSY;
	if (!s->valid[band])
		set_valid(s, band, RAGGED);
	s->flight_band = band;
	s->flight_end = offset + n;
	if (s->flight_end == s->band_blocks)
		s->direct_band = NO_BAND;
	out->pblk = native(s, band) + offset;
	out->n = n;
	return 1;
}

static int place_cached(struct stl_set *s, u32 band, u32 n, struct shingle_run *out)
{
	u32 set = set_of_band(s, band), slot;

	if (set == s->reset_set || set == s->drain_set)
		return -EBUSY;
	if (shingle_slotlog_is_full(&s->logs, set)) {
		want_clean(s, set);
		return -ENOSPC;
	}
	if (!s->logs.log[set].fill)
		shingle_slotlog_open(&s->logs, set);
	n = min(n, s->band_blocks - s->logs.log[set].fill);
	slot = shingle_slotlog_place(&s->logs, set, n);
	out->pblk = slot_pblk(s, slot);
	out->n = n;
	return 0;
}

static int stl_set_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
			 struct shingle_run *out)
{
	struct stl_set *s = to_set(e);
	struct shingle_stream *st = s->streams.alone_blocks ?
				    shingle_stream_at(&s->streams, lblk) : NULL;
	u32 band = (u32)lblk / s->band_blocks;
	int r;

	n = min3(n, (band + 1) * s->band_blocks - (u32)lblk, (u32)SHINGLE_SLOTLOG_RUN);
	out->lblk = lblk;
	out->kind = SHINGLE_RUN_MAPPED;
	r = place_direct(s, st, lblk, n, out);
	if (!r)
		r = place_cached(s, band, n, out);
	if (r < 0)
		return r;
	if (s->streams.alone_blocks)
		shingle_streams_follow(&s->streams, st, lblk, out->n);
	return 0;
}

/* Forget cached copies of @band in slots of its set in front of @below. */
static void drop_band(struct stl_set *s, u32 band, u32 below)
{
	shingle_slotlog_drop(&s->logs, band * s->band_blocks, s->band_blocks, below);
}

/* Was this write placed at home? */
static bool is_direct(const struct stl_set *s, const struct shingle_run *run)
{
	return run->pblk - native(s, (u32)run->lblk / s->band_blocks) < s->band_blocks;
}

static void commit_direct(struct stl_set *s, const struct shingle_run *run,
			  struct shingle_emit *emit)
{
	u32 band = (u32)run->lblk / s->band_blocks;

	set_at_home(s, band, s->flight_end);
	shingle_slotlog_drop(&s->logs, run->lblk, run->n, U32_MAX);
	s->flight_band = NO_BAND;
	s->bypassed_blocks += run->n;
	shingle_emit(emit, STL_SET_DIRECT, run->n, 0, run->lblk, 0);
}

static void stl_set_commit(struct shingle_engine *e, const struct shingle_run *run,
			   struct shingle_emit *emit)
{
	struct stl_set *s = to_set(e);
	u32 band = (u32)run->lblk / s->band_blocks, set = set_of_band(s, band), slot;

	if (is_direct(s, run)) {
		commit_direct(s, run, emit);
		return;
	}
	slot = set * s->band_blocks +
	       (run->pblk - shingle_band_pblk(s->layout, SHINGLE_ROLE_CACHE, set));
	shingle_slotlog_commit(&s->logs, slot, run->lblk, run->n);
	shingle_emit(emit, STL_SET_MAP, run->n, s->logs.log[set].age, run->lblk, slot);
}

static void stl_set_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct stl_set *s = to_set(e);
	struct shingle_stream *st = shingle_stream_at(&s->streams, run->lblk + run->n);

	if (is_direct(s, run)) {
		/* What home holds ends before it, as ever. */
		s->flight_band = NO_BAND;
		break_direct(s);
		if (st)
			shingle_stream_end(st);
		return;
	}
	shingle_slotlog_abort(&s->logs, set_of_band(s, (u32)run->lblk / s->band_blocks), run->n);
}

static bool band_busy(const struct stl_set *s, u32 band)
{
	return band == s->step_band || band == s->flight_band || is_staged(s, band);
}

/* Forget part of a band.  What is at home or staged would show through. */
static void discard_part(struct stl_set *s, u32 band, u32 lblk, u64 n, u64 *done, bool *dropped,
			 struct shingle_emit *emit)
{
	u32 offset = lblk % s->band_blocks, home = at_home(s, band);

	if (is_staged(s, band))
		home = s->band_blocks;
	else if (band == s->flight_band)
		home = s->flight_end;
	*done = min_t(u64, n, s->band_blocks - offset);
	*done = min_t(u64, *done, SHINGLE_SLOTLOG_RUN);
	*dropped = offset >= home;
	if (!*dropped) {
		*done = min_t(u64, *done, home - offset);
	} else if (s->logs.band_live[band]) {
		shingle_slotlog_drop(&s->logs, lblk, *done, U32_MAX);
		shingle_emit(emit, STL_SET_DROP, *done, 0, lblk, 0);
	}
}

static int stl_set_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			   struct shingle_emit *emit)
{
	struct stl_set *s = to_set(e);
	u32 band = (u32)lblk / s->band_blocks, first = band;
	u64 offset = lblk - (u64)band * s->band_blocks;
	bool changed = false;

	if (band == s->step_band)
		return -EBUSY;
	if (offset || n < s->band_blocks) {
		discard_part(s, band, lblk, n, done, dropped, emit);
		return 0;
	}
	/* A stream must not keep it staged for long. */
	if (is_staged(s, band) && band == s->direct_band)
		break_direct(s);
	if (band_busy(s, band))
		return -EBUSY;

	for (*done = 0; n - *done >= s->band_blocks && band - first < DISCARD_BANDS; band++) {
		if (band_busy(s, band))
			break;
		*done += s->band_blocks;
		if (!s->logs.band_live[band] && !at_home(s, band))
			continue;
		changed = true;
		if (band == s->direct_band)
			break_direct(s);
		if (at_home(s, band)) {
			forget_home(s, band);
			s->held = true;
			s->held_seq = emit->seq;
		}
		if (s->logs.band_live[band]) {
			drop_band(s, band, U32_MAX);
			band++;
			break;
		}
	}
	*dropped = true;
	if (changed)
		shingle_emit(emit, STL_SET_DISCARD, 0, 0, first, band - first);
	return 0;
}

/* ------------------------------------------------------------------------
 * Cleaning
 */

/* Is set @a to be cleaned before set @b? */
static bool set_before(const struct stl_set *s, u32 a, u32 b)
{
	const struct shingle_log *la = &s->logs.log[a], *lb = &s->logs.log[b];
	u32 stale[] = { la->fill - la->live, lb->fill - lb->live };

	if (s->greedy && stale[0] != stale[1])
		return stale[0] > stale[1];
	return la->age < lb->age;
}

/* Of the sets opened before @age that are not empty, the first by the order. */
static u32 pick_by_order(const struct stl_set *s, u32 age)
{
	u32 best = NO_SET, set;

	for (set = 0; set < s->nr_sets; set++) {
		if (s->logs.log[set].fill && s->logs.log[set].age < age &&
		    (best == NO_SET || set_before(s, set, best)))
			best = set;
	}
	return best;
}

static u32 pick_set(struct stl_set *s, enum shingle_why why)
{
	u32 set = pop_wanted(s);

	if (set != NO_SET || why == SHINGLE_WHY_PRESSURE)
		return set;
	if (why == SHINGLE_WHY_IDLE)
		return pick_by_order(s, U32_MAX);
	if (!s->forced) {
		/* What is opened from now on is not asked for. */
		s->forced = true;
		s->forced_age = s->logs.age;
	}
	set = pick_by_order(s, s->forced_age);
	s->forced = set != NO_SET;
	return set;
}

/* The band of the oldest block of a set, or the band with the most blocks in it. */
static u32 pick_band(const struct stl_set *s, u32 set)
{
	u32 slot = set * s->band_blocks, end = slot + s->logs.log[set].fill, best = NO_BAND;

	for (; slot < end; slot++) {
		u32 band = shingle_slotlog_band(&s->logs, slot);

		if (band == NO_BAND)
			continue;
		if (!s->greedy)
			return band;
		if (best == NO_BAND || s->logs.band_live[band] > s->logs.band_live[best])
			best = band;
	}
	return best;
}

/* What a stream brought home is not copied again. */
static void writeback_step(struct stl_set *s, struct shingle_step *step)
{
	u32 from = s->staged_valid;

	s->step_band = s->staged_band;
	step->kind = STEP_WRITEBACK;
	step->n = s->band_blocks - from;
	step->base = staging(s) + from;
	step->dst = native(s, s->staged_band) + from;
	step->lblk = (u64)s->staged_band * s->band_blocks + from;
}

static bool whole_at_home(const struct stl_set *s, u32 band)
{
	return s->valid[band] == s->band_blocks;
}

/*
 * So many of the first blocks at the home of @band can be read.  A home that holds
 * nothing can, unless a stream was there: what the head has destroyed is left alone.
 */
static u32 readable(const struct stl_set *s, u32 band)
{
	return s->valid[band] ? at_home(s, band) : s->band_blocks;
}

/* Neither a write to the set of @band nor one to its home may be under way. */
static int rewrite_step(struct stl_set *s, u32 band, struct shingle_step *step)
{
	u32 set = set_of_band(s, band);

	if (band == s->direct_band)
		break_direct(s);
	if (s->logs.log[set].inflight)
		s->drain_set = set;
	if (s->logs.log[set].inflight || band == s->flight_band)
		return -EAGAIN;
	s->step_band = band;
	s->step_live = s->logs.band_live[band];
	step->kind = s->inplace ? STEP_INPLACE : STEP_STAGE;
	step->n = s->band_blocks;
	step->read_blocks = s->read_all ? readable(s, band) : 0;
	step->base = step->read_blocks || whole_at_home(s, band) ? native(s, band) :
								  SHINGLE_NOWHERE;
	step->dst = s->inplace ? native(s, band) : staging(s);
	step->lblk = (u64)band * s->band_blocks;
	step->cookie = s->logs.log[set].fill;
	step->whole_in_memory = s->inplace;
	return 1;
}

/* Does somebody need the staging band that a stream has got? */
static bool staging_needed(const struct stl_set *s, enum shingle_why why)
{
	switch (why) {
	case SHINGLE_WHY_PRESSURE:
		return s->want_head != NO_SET || s->clean_set != NO_SET || s->wish_band != NO_BAND;
	case SHINGLE_WHY_IDLE:
		return s->aggressive;
	default:
		return why == SHINGLE_WHY_FORCED;
	}
}

static int stl_set_next_step(struct shingle_engine *e, enum shingle_why why,
			     struct shingle_step *step)
{
	struct stl_set *s = to_set(e);
	u32 set, band;

	memset(step, 0, sizeof(*step));
	step->base = SHINGLE_NOWHERE;
	step->lblk = SHINGLE_NOWHERE;

	if (s->step_band != U64_MAX || s->reset_set != NO_SET)
		return -EAGAIN;
	s->drain_set = NO_SET;
	if (s->staged) {
		if (s->direct_band == s->staged_band) {
			if (!staging_needed(s, why))
				return 0;
			break_direct(s);
		}
		if (s->flight_band == s->staged_band)
			return -EAGAIN;
		writeback_step(s, step);
		return 1;
	}
	/* Lazy: nothing is cleaned before a write needs the room. */
	if (why == SHINGLE_WHY_RECOVERY || (why == SHINGLE_WHY_IDLE && !s->aggressive))
		return 0;

again:
	if (s->clean_set == NO_SET) {
		if (why == SHINGLE_WHY_PRESSURE && s->want_head == NO_SET &&
		    s->wish_band != NO_BAND)
			return rewrite_step(s, s->wish_band, step);
		s->clean_set = pick_set(s, why);
		if (s->clean_set == NO_SET)
			return 0;
	}
	set = s->clean_set;
	if (s->logs.log[set].inflight) {
		s->drain_set = set;
		return -EAGAIN;
	}
	band = pick_band(s, set);
	if (band != NO_BAND)
		return rewrite_step(s, band, step);
	s->clean_set = NO_SET;
	if (!s->logs.log[set].fill)
		goto again;
	step->kind = STEP_RETIRE;
	step->cookie = set;
	s->reset_set = set;
	s->reset_seq = U64_MAX;
	return 1;
}

static bool stl_set_step_source(struct shingle_engine *e, const struct shingle_step *step,
				u32 offset, struct shingle_run *out)
{
	struct stl_set *s = to_set(e);
	u32 band = step->lblk / s->band_blocks, slot = SHINGLE_NO_SLOT, home, end;
	bool based = step->base != SHINGLE_NOWHERE;

	if (step->kind == STEP_WRITEBACK)
		return false;
	/*
	 * In front of a prefix there may be anything.  Without a base it is read by
	 * itself; with one, what is not at home is zeroes.
	 */
	home = at_home(s, band);
	for (; offset < step->n; offset++) {
		slot = shingle_slotlog_find(&s->logs, band, step->lblk + offset);
		if (slot != SHINGLE_NO_SLOT || (based ? offset >= home : offset < home))
			break;
	}
	if (offset == step->n)
		return false;
	out->lblk = offset;
	out->kind = SHINGLE_RUN_MAPPED;
	out->n = 1;
	if (slot == SHINGLE_NO_SLOT) {
		out->pblk = native(s, band) + offset;
		if (based)
			out->kind = SHINGLE_RUN_ZERO;
		end = based ? step->n : home;
		while (offset + out->n < end &&
		       shingle_slotlog_find(&s->logs, band, step->lblk + offset + out->n) == SHINGLE_NO_SLOT)
			out->n++;
		return true;
	}
	out->pblk = slot_pblk(s, slot);
	while (offset + out->n < step->n &&
	       shingle_slotlog_find(&s->logs, band, step->lblk + offset + out->n) == slot + out->n)
		out->n++;
	return true;
}

static void emit_reset(struct stl_set *s, u32 set, struct shingle_emit *emit)
{
	shingle_emit(emit, STL_SET_RESET, 0, 0, set, 0);
	shingle_slotlog_mark(&s->logs, set * s->band_blocks, s->band_blocks);
	s->reset_set = set;
	s->reset_seq = emit->seq;
	s->sets_cleaned++;
}

/* The copy of @band at home holds all slots below @snapshot. */
static void band_cleaned(struct stl_set *s, u32 band, u32 snapshot, struct shingle_emit *emit)
{
	u32 set = set_of_band(s, band);

	drop_band(s, band, snapshot);
	set_valid(s, band, s->band_blocks);
	s->bands_cleaned++;
	shingle_emit(emit, STL_SET_CLEANED, 0, 0, band, snapshot);
	if (s->clean_set == set && !s->logs.log[set].live && !s->logs.log[set].inflight) {
		s->clean_set = NO_SET;
		emit_reset(s, set, emit);
	}
}

static void stl_set_step_done(struct shingle_engine *e, const struct shingle_step *step,
			      struct shingle_emit *emit)
{
	struct stl_set *s = to_set(e);

	switch (step->kind) {
	case STEP_STAGE:
		s->merged_blocks += s->step_live;
		s->staged = true;
		s->staged_band = s->step_band;
		s->staged_snapshot = step->cookie;
		s->staged_valid = 0;
		mark_globals(s);
		s->tidied = 0;
		/* Its home is free, once the record is durable and readers are gone. */
		if (s->step_band == s->wish_band && s->clean_set == NO_SET) {
			break_direct(s);
			s->direct_band = s->step_band;
			s->held = true;
			s->held_seq = emit->seq;
		}
		if (s->step_band == s->wish_band)
			drop_wish(s);
		shingle_emit(emit, STL_SET_STAGED, 0, 0, s->step_band, step->cookie);
		break;
	case STEP_WRITEBACK:
		s->staged = false;
		mark_globals(s);
		band_cleaned(s, s->step_band, s->staged_snapshot, emit);
		break;
	case STEP_INPLACE:
		s->merged_blocks += s->step_live;
		band_cleaned(s, s->step_band, step->cookie, emit);
		break;
	case STEP_RETIRE:
		emit_reset(s, step->cookie, emit);
		break;
	}
	s->step_band = U64_MAX;
}

static void stl_set_step_failed(struct shingle_engine *e, const struct shingle_step *step)
{
	struct stl_set *s = to_set(e);

	if (step->kind == STEP_RETIRE)
		s->reset_set = NO_SET;
	s->step_band = U64_MAX;
}

/* The copy is the band: locate() does not look at what is older any more. */
static bool stl_set_tidy(struct shingle_engine *e)
{
	struct stl_set *s = to_set(e);
	u32 n;

	if (!s->staged || s->tidied == s->band_blocks)
		return false;
	n = min(s->band_blocks - s->tidied, SHINGLE_WALK);
	shingle_slotlog_drop(&s->logs, s->staged_band * s->band_blocks + s->tidied, n,
			     s->staged_snapshot);
	s->tidied += n;
	return s->tidied < s->band_blocks;
}

static bool stl_set_release(struct shingle_engine *e, u64 seq)
{
	struct stl_set *s = to_set(e);
	u32 set = s->reset_set;

	if (s->held_seq <= seq)
		s->held = false;
	if (set == NO_SET || s->reset_seq > seq)
		return false;
	shingle_slotlog_clear(&s->logs, set);
	s->reset_set = NO_SET;
	return false;
}

static bool stl_set_pending(struct shingle_engine *e)
{
	const struct stl_set *s = to_set(e);

	return s->reset_set != NO_SET || s->held;
}

static bool band_referenced(const struct stl_set *s, enum shingle_role role, u64 band, u64 offset)
{
	switch (role) {
	case SHINGLE_ROLE_DATA:
		return offset < (band == s->flight_band ? s->flight_end : at_home(s, band));
	case SHINGLE_ROLE_CACHE:
		return offset < s->logs.log[band].fill;
	case SHINGLE_ROLE_STAGING:
		return s->staged;
	default:
		return true;
	}
}

static bool stl_set_referenced(struct shingle_engine *e, u64 pblk, u64 n)
{
	struct stl_set *s = to_set(e);
	u64 end = pblk + n;

	while (pblk < end) {
		const struct shingle_group *g = shingle_group_of(s->layout, pblk);
		enum shingle_role role;
		u64 band, offset;

		if (!g)
			return false;
		/* In a band, in its guard (role and band are those before it), or beyond. */
		if (shingle_band_of(s->layout, pblk, &role, &band, &offset) &&
		    band_referenced(s, role, band, offset))
			return true;
		pblk += g->stride - offset;
	}
	return false;
}

/* ------------------------------------------------------------------------
 * Persistence
 */

static u32 encode_globals(const struct stl_set *s, __le32 *p)
{
	p[0] = cpu_to_le32(s->staged);
	p[1] = cpu_to_le32(s->staged_band);
	p[2] = cpu_to_le32(s->staged_snapshot);
	p[3] = cpu_to_le32(s->staged_valid);
	return s->staged ? 4 * sizeof(*p) : 0;
}

static u32 encode_whole(const struct stl_set *s, u32 part, u8 *buf)
{
	u32 first = part * SHINGLE_CHUNK_BITS, n = min(s->nr_bands - first, SHINGLE_CHUNK_BITS);
	u32 bytes = 0, i;

	memset(buf, 0, SHINGLE_CHUNK_BYTES);
	for (i = 0; i < n; i++) {
		if (whole_at_home(s, first + i)) {
			buf[i / 8] |= 1U << (i % 8);
			bytes = i / 8 + 1;
		}
	}
	return bytes;
}

static u32 encode_prefixes(const struct stl_set *s, u32 part, __le32 *p)
{
	u32 first = part * PART_BANDS, n = min(s->nr_bands - first, PART_BANDS), i;
	bool some = false;

	for (i = 0; i < n; i++) {
		bool prefix = s->valid[first + i] && !whole_at_home(s, first + i);

		p[i] = prefix ? cpu_to_le32(s->valid[first + i]) : 0;
		some |= prefix;
	}
	return some ? n * sizeof(*p) : 0;
}

static u32 encode_slots(const struct stl_set *s, u32 set, u32 part, __le32 *p)
{
	u32 n;

	/* An emptied set is empty, though its slots are not yet handed out. */
	if (set == s->reset_set && s->reset_seq != U64_MAX)
		return 0;
	n = shingle_slotlog_encode(&s->logs, set, part, p + 1);
	if (!n)
		return 0;
	p[0] = cpu_to_le32(part * PART_SLOTS + n);
	p[n + 1] = cpu_to_le32(s->logs.log[set].age);
	return (n + 2) * sizeof(*p);
}

static u32 stl_set_encode(struct shingle_engine *e, u64 *cursor, u64 *index, void *buf)
{
	struct stl_set *s = to_set(e);
	u32 parts = shingle_slotlog_parts(s->band_blocks);
	u32 maps = nr_whole_parts(s);
	u64 slots = (u64)s->nr_sets * parts;
	u64 end = 1 + maps + slots + DIV_ROUND_UP(s->nr_bands, PART_BANDS), at = *cursor;

	if (at >= end) {
		*cursor = SHINGLE_NOWHERE;
		return 0;
	}
	*index = at;
	*cursor = at + 1;
	if (!at)
		return encode_globals(s, buf);
	if (at <= maps)
		return encode_whole(s, at - 1, buf);
	at -= 1 + maps;
	if (at < slots)
		return encode_slots(s, div_u64(at, parts), at % parts, buf);
	return encode_prefixes(s, at - slots, buf);
}

/* Early builds knew no bypass: nothing of what they have staged is at home. */
static int decode_globals(struct stl_set *s, const __le32 *p, u32 bytes)
{
	if (bytes != 3 * sizeof(*p) && bytes != 4 * sizeof(*p))
		return -EUCLEAN;
	s->staged = le32_to_cpu(p[0]);
	s->staged_band = le32_to_cpu(p[1]);
	s->staged_snapshot = le32_to_cpu(p[2]);
	s->staged_valid = bytes == 4 * sizeof(*p) ? le32_to_cpu(p[3]) : 0;
	return 0;
}

static int decode_whole(struct stl_set *s, u32 part, const u8 *buf, u32 bytes)
{
	u32 first = part * SHINGLE_CHUNK_BITS, i;

	for (i = 0; i < bytes * 8; i++) {
		if (!(buf[i / 8] & (1U << (i % 8))))
			continue;
		if (i >= s->nr_bands - first)
			return -EUCLEAN;
		s->valid[first + i] = s->band_blocks;
	}
	return 0;
}

static int decode_prefixes(struct stl_set *s, u32 part, const __le32 *p, u32 bytes)
{
	u32 first = part * PART_BANDS, n = min(s->nr_bands - first, PART_BANDS), i;

	if (bytes != n * sizeof(*p))
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		u32 blocks = le32_to_cpu(p[i]);

		if (blocks > s->band_blocks && blocks != RAGGED)
			return -EUCLEAN;
		if (blocks)
			s->valid[first + i] = blocks;
	}
	return 0;
}

/* The age at the end of a piece is missing in what early builds have written. */
static int decode_slots(struct stl_set *s, u32 set, u32 part, const __le32 *p, u32 bytes)
{
	u32 first = part * PART_SLOTS, words = bytes / sizeof(*p), fill, n, i;

	if (words < 2 || bytes % sizeof(*p))
		return -EUCLEAN;
	fill = le32_to_cpu(p[0]);
	if (fill > s->band_blocks || fill <= first)
		return -EUCLEAN;
	n = min(fill - first, PART_SLOTS);
	if (words != n + 1 && words != n + 2)
		return -EUCLEAN;
	s->logs.log[set].fill = max(s->logs.log[set].fill, fill);
	for (i = 0; i < n; i++)
		s->logs.map.owner[set * s->band_blocks + first + i] = le32_to_cpu(p[i + 1]);
	if (words == n + 2)
		s->logs.log[set].age = le32_to_cpu(p[n + 1]);
	return 0;
}

static int stl_set_decode(struct shingle_engine *e, u64 index, const void *buf, u32 bytes)
{
	struct stl_set *s = to_set(e);
	u32 parts = shingle_slotlog_parts(s->band_blocks);
	u32 maps = nr_whole_parts(s);

	if (!index)
		return decode_globals(s, buf, bytes);
	if (index <= maps)
		return decode_whole(s, index - 1, buf, bytes);
	index -= 1 + maps;
	if (index < (u64)s->nr_sets * parts)
		return decode_slots(s, div_u64(index, parts), index % parts, buf, bytes);
	index -= (u64)s->nr_sets * parts;
	if (index >= DIV_ROUND_UP(s->nr_bands, PART_BANDS))
		return -EUCLEAN;
	return decode_prefixes(s, index, buf, bytes);
}

/*
 * From the owners that the checkpoint left to the hash.  A block may own several
 * slots, for its pieces are of different moments: the last one wins.
 */
static int hash_owners(struct stl_set *s)
{
	u32 set, offset;

	for (set = 0; set < s->nr_sets; set++) {
		u32 slot = set * s->band_blocks;

		for (offset = 0; offset < s->logs.log[set].fill; offset++, slot++) {
			u32 lblk = s->logs.map.owner[slot];

			if (lblk < SHINGLE_SLOT_OWNED)
				continue;
			lblk -= SHINGLE_SLOT_OWNED;
			s->logs.map.owner[slot] = SHINGLE_SLOT_SPENT;
			if (set_of_band(s, lblk / s->band_blocks) != set ||
			    shingle_slotlog_adopt(&s->logs, slot, lblk))
				return -EUCLEAN;
		}
		cond_resched();
	}
	s->hashed = true;
	return 0;
}

static int replay_discard(struct stl_set *s, u64 band, u64 nr)
{
	u64 i;

	if (band >= s->nr_bands || nr > s->nr_bands - band)
		return -EUCLEAN;
	for (i = band; i < band + nr; i++) {
		if (s->valid[i])
			forget_home(s, i);
		if (s->logs.band_live[i])
			drop_band(s, i, U32_MAX);
	}
	s->logs.map.looks += nr;
	return 0;
}

static int replay_direct(struct stl_set *s, u64 lblk, u32 n)
{
	u32 band, offset;

	if (!n || lblk >= s->layout->logical_blocks)
		return -EUCLEAN;
	band = (u32)lblk / s->band_blocks;
	offset = (u32)lblk % s->band_blocks;
	if (n > s->band_blocks - offset)
		return -EUCLEAN;
	set_at_home(s, band, offset + n);
	shingle_slotlog_drop(&s->logs, lblk, n, U32_MAX);
	return 0;
}

static int stl_set_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct stl_set *s = to_set(e);
	u64 a = le64_to_cpu(rec->a), b = le64_to_cpu(rec->b);
	u32 n = le16_to_cpu(rec->n);
	struct shingle_log *log;
	int err;

	if (!s->hashed) {
		err = shingle_slotmap_crowd(&s->logs.map, s->layout->logical_blocks) ?:
		      hash_owners(s);
		if (err)
			return err;
	}
	switch (le16_to_cpu(rec->type)) {
	case STL_SET_MAP:
		err = shingle_slotlog_replay(&s->logs, a, b, n);
		if (!err)
			s->logs.log[(u32)b / s->band_blocks].age = le32_to_cpu(rec->c);
		return err;
	case STL_SET_STAGED:
		if (a >= s->nr_bands || b > s->band_blocks)
			return -EUCLEAN;
		s->staged = true;
		s->staged_band = a;
		s->staged_snapshot = b;
		s->staged_valid = 0;
		/*
		 * Slots of failed writes have no records.  They are below the
		 * snapshot all the same, and must not be handed out as new.
		 */
		log = &s->logs.log[set_of_band(s, a)];
		log->fill = max_t(u32, log->fill, b);
		return 0;
	case STL_SET_CLEANED:
		if (a >= s->nr_bands || b > s->band_blocks)
			return -EUCLEAN;
		s->staged = false;
		s->valid[a] = s->band_blocks;
		drop_band(s, a, b);
		return 0;
	case STL_SET_RESET:
		if (a >= s->nr_sets)
			return -EUCLEAN;
		shingle_slotlog_replay_clear(&s->logs, a);
		return 0;
	case STL_SET_DISCARD:
		return replay_discard(s, a, b);
	case STL_SET_DROP:
		if (a >= s->layout->logical_blocks ||
		    n > s->band_blocks - (u32)a % s->band_blocks)
			return -EUCLEAN;
		shingle_slotlog_drop(&s->logs, a, n, U32_MAX);
		return 0;
	case STL_SET_DIRECT:
		return replay_direct(s, a, n);
	}
	return -EUCLEAN;
}

static int stl_set_ready(struct shingle_engine *e, const char **why)
{
	static const char wrong_set[] = "cache map names a block of another set";
	struct stl_set *s = to_set(e);
	u32 set;

	s->tidied = s->band_blocks;
	if (s->staged && (s->staged_band >= s->nr_bands || s->staged_snapshot > s->band_blocks ||
			  s->staged_valid > s->band_blocks)) {
		*why = "staging band holds a band that does not exist";
		return -EUCLEAN;
	}
	if (!s->hashed && hash_owners(s)) {
		*why = wrong_set;
		return -EUCLEAN;
	}
	/* As after tidy(). */
	if (s->staged)
		drop_band(s, s->staged_band, s->staged_snapshot);
	shingle_slotmap_uncrowd(&s->logs.map);
	for (set = 0; set < s->nr_sets; set++) {
		if (shingle_slotlog_ready(&s->logs, set)) {
			*why = wrong_set;
			return -EUCLEAN;
		}
		cond_resched();
	}
	return 0;
}

/* ------------------------------------------------------------------------
 * Being looked at
 */

static u32 verify_bands(struct stl_set *s, shingle_report_fn report, void *ctx)
{
	const struct shingle_slotlog_walk *w = &s->logs.walk;
	u32 end = w->bands + min(s->nr_bands - w->bands, SHINGLE_WALK), bad = 0;

	while (w->bands < end) {
		u32 band = w->bands;

		shingle_slotlogs_saw_band(&s->logs);
		if (at_home(s, band) > s->band_blocks) {
			report(ctx, "band %u holds %u blocks at home", band, at_home(s, band));
			bad++;
		}
	}
	return bad;
}

static u32 verify_stream(struct stl_set *s, shingle_report_fn report, void *ctx)
{
	u32 bad = 0;

	if (s->flight_band != NO_BAND &&
	    (s->flight_band == s->step_band || s->flight_end <= at_home(s, s->flight_band) ||
	     s->flight_end > s->band_blocks)) {
		report(ctx, "a write up to block %u of band %u is under way, %u are at home",
		       s->flight_end, s->flight_band, at_home(s, s->flight_band));
		bad++;
	}
	if (s->direct_band != NO_BAND &&
	    (s->direct_band == s->step_band || whole_at_home(s, s->direct_band))) {
		if (!is_staged(s, s->direct_band)) {
			report(ctx, "a stream goes on in band %u", s->direct_band);
			bad++;
		}
	}
	return bad;
}

/* Sets, bands, and then the sums, to which counts were kept meanwhile. */
static u32 stl_set_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report,
			  void *ctx)
{
	struct stl_set *s = to_set(e);
	u32 bad;

	if (!*cursor)
		shingle_slotlogs_walk(&s->logs);
	(*cursor)++;
	if (!shingle_slotlogs_walked(&s->logs))
		return shingle_slotlogs_verify(&s->logs, report, ctx);
	if (s->logs.walk.bands < s->nr_bands)
		return verify_bands(s, report, ctx);
	bad = verify_stream(s, report, ctx) + shingle_slotlogs_verify_sums(&s->logs, report, ctx);
	/* Nobody has to keep anything right for a walk that has ended. */
	shingle_slotlogs_walk(&s->logs);
	*cursor = SHINGLE_NOWHERE;
	return bad;
}

#define PARAM(word, member, most)						\
	.name = word, .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_FORMAT,	\
	SHINGLE_OPTION_AT(struct stl_set_params, member), .max = most

static const struct shingle_option stl_set_format[] = {
	{ PARAM("set-shift", set_shift, 31), .from = "0",
	  .help = "2^N neighbouring bands share a set" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER(#name, struct stl_set, name, COUNT)
#define COUNT_OF_LOGS(name)	SHINGLE_COUNTER(#name, struct stl_set, logs.name, COUNT)

static const struct shingle_counter stl_set_counters[] = {
	COUNT_OF_LOGS(placed_blocks),
	COUNT_OF_LOGS(aborted_blocks),
	COUNT(bands_cleaned),
	COUNT(sets_cleaned),
	COUNT(merged_blocks),
	COUNT(full_sets),
	COUNT(bypassed_blocks),
	COUNT(streams_broken),
	SHINGLE_COUNTER("replay_looks", struct stl_set, logs.map.looks, COUNT),
	{ }
};

static_assert(ARRAY_SIZE(stl_set_counters) <= SHINGLE_MAX_COUNTERS + 1);
static_assert(!offsetof(struct stl_set, engine));

static u64 stl_set_map_bytes(struct shingle_engine *e)
{
	struct stl_set *s = to_set(e);

	return shingle_slotlogs_bytes(&s->logs) + (u64)sizeof(u32) * s->nr_sets +
	       (u64)sizeof(u32) * s->nr_bands;
}

static u64 stl_set_cached_blocks(struct shingle_engine *e)
{
	return to_set(e)->logs.map.live;
}

const struct shingle_engine_ops stl_set_engine_ops = {
	.name = "stl-set",
	.commit_records = 1,
	.step_records = 2,
	.step_kinds = {
		[STEP_STAGE] = "stage", [STEP_WRITEBACK] = "writeback",
		[STEP_INPLACE] = "inplace", [STEP_RETIRE] = "retire",
	},
	.discard_records = 1,
	.options = stl_set_options,
	.params = stl_set_format,
	.counters = stl_set_counters,
	.logical_blocks = stl_set_logical_blocks,
	.create = stl_set_create,
	.destroy = stl_set_destroy,
	.resolve = stl_set_resolve,
	.place = stl_set_place,
	.commit = stl_set_commit,
	.abort = stl_set_abort,
	.discard = stl_set_discard,
	.next_step = stl_set_next_step,
	.step_source = stl_set_step_source,
	.step_done = stl_set_step_done,
	.step_failed = stl_set_step_failed,
	.tidy = stl_set_tidy,
	.release = stl_set_release,
	.pending = stl_set_pending,
	.referenced = stl_set_referenced,
	.encode = stl_set_encode,
	.decode = stl_set_decode,
	.replay = stl_set_replay,
	.ready = stl_set_ready,
	.max_chunks = stl_set_max_chunks,
	.verify = stl_set_verify,
	.map_bytes = stl_set_map_bytes,
	.cached_blocks = stl_set_cached_blocks,
};
EXPORT_SYMBOL_GPL(stl_set_engine_ops);
