// SPDX-License-Identifier: GPL-2.0
/*
 * A log in two combs: pure code, see engine.h.
 *
 * Teeth are single blocks, at a pitch that protects each tooth from the write of the one before.
 * Even teeth are one comb, odd ones the other.  One comb is open: a write goes to its next tooth.
 * When it has no tooth left, one step moves all current blocks to the other comb, from its first
 * tooth on: one extent for each block, and one commit.
 *
 * While a step is in progress nothing else changes, and a step begins only after the last write
 * has ended: calls in between must wait.
 */
#include "comb-engine.h"

/* Not written, or discarded since. */
#define NO_TOOTH	U32_MAX

/* Blocks in one checkpoint piece.  Tests take less. */
#ifndef PART_BLOCKS
#define PART_BLOCKS	1000U
#endif

/**
 * struct comb - the engine's state
 * @engine: what core sees
 * @layout: of the device, core's
 * @pitch: blocks from tooth to tooth
 * @teeth: of each comb
 * @map: per logical block its tooth, or NO_TOOTH
 * @live: blocks that have one
 * @open: comb that is written to
 * @fill: per comb, its first empty tooth; what is not open is empty, or was freed
 * @freed_seq: by this transaction
 * @inflight: placements not yet committed or aborted
 * @drain: none is made until these are done
 * @stepping: a step is in progress
 * @asked: a clean was requested
 * @cleaned: there was a step since
 * @moved_blocks: by steps
 */
struct comb {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	u32 pitch;
	u32 teeth;
	u32 *map;
	u32 live;
	u32 open;
	u32 fill[2];
	u64 freed_seq;
	u32 inflight;
	bool drain;
	bool stepping;
	bool asked;
	bool cleaned;
	u64 moved_blocks;
};

static struct comb *to_comb(struct shingle_engine *e)
{
	return container_of(e, struct comb, engine);
}

/* ------------------------------------------------------------------------
 * Combs and teeth
 */

static u32 pitch_of(const struct shingle_layout *l)
{
	return le32_to_cpu(((const struct comb_params *)l->params)->pitch_blocks);
}

static u32 teeth_per_band(const struct shingle_layout *l)
{
	return DIV_ROUND_UP(l->band_blocks[SHINGLE_ROLE_DATA], pitch_of(l));
}

static u32 teeth_per_comb(const struct shingle_layout *l)
{
	return min_t(u64, l->nr_bands[SHINGLE_ROLE_DATA] * teeth_per_band(l) / 2, S32_MAX);
}

/* Both combs' teeth have numbers in the order in which they lie. */
static u32 tooth_of(u32 comb, u32 i)
{
	return 2 * i + comb;
}

static u64 tooth_pblk(const struct comb *s, u32 tooth)
{
	u32 per_band = teeth_per_band(s->layout);

	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, tooth / per_band) +
	       tooth % per_band * s->pitch;
}

/*
 * A quarter of a comb is room for the log, and one transaction has room for half as
 * many records as it can hold: others need some meanwhile.
 */
static u64 comb_logical_blocks(const struct shingle_layout *l)
{
	u32 records = shingle_txn_blocks(l) * SHINGLE_JOURNAL_RECORDS / 2, teeth;

	if (!pitch_of(l))
		return 0;
	teeth = teeth_per_comb(l);
	return min(teeth - max(teeth / 4, min(teeth, 1U)), records - 1);
}

/* ------------------------------------------------------------------------
 * Construction
 */

static int check_layout(const struct shingle_layout *l, const char **why)
{
	u32 i;

	*why = NULL;
	if (l->interlaced || l->nr_bands[SHINGLE_ROLE_CACHE] || l->nr_bands[SHINGLE_ROLE_STAGING])
		*why = "comb has data bands on a shingled medium, and nothing else";
	else if (!comb_logical_blocks(l) || l->logical_blocks != comb_logical_blocks(l))
		*why = "comb presents three quarters of its teeth, or what its journal can move";
	for (i = 0; i < l->nr_groups && l->head_tracks > 1; i++) {
		if (pitch_of(l) < (u64)l->groups[i].track_blocks * l->head_tracks)
			*why = "comb's teeth are closer than the head is wide";
	}
	return *why ? -EINVAL : 0;
}

static void comb_destroy(struct shingle_engine *e)
{
	shingle_marks_exit(e);
	kvfree(to_comb(e)->map);
	kvfree(to_comb(e));
}

static int comb_create(struct shingle_engine **out, const struct shingle_layout *layout,
		       const char **why)
{
	struct comb *s;

	if (check_layout(layout, why))
		return -EINVAL;
	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->engine.ops = &comb_engine_ops;
	s->map = shingle_zalloc_array(layout->logical_blocks, sizeof(*s->map));
	if (!s->map || shingle_marks_init(&s->engine, layout)) {
		comb_destroy(&s->engine);
		return -ENOMEM;
	}
	memset(s->map, 0xff, layout->logical_blocks * sizeof(*s->map));
	s->engine.discard_blocks = 1;
	/* One for each block, and one for the comb. */
	s->engine.step_records = layout->logical_blocks + 1;
	s->layout = layout;
	s->pitch = pitch_of(layout);
	s->teeth = teeth_per_comb(layout);
	*out = &s->engine;
	return 0;
}

/* ------------------------------------------------------------------------
 * Reads and writes
 */

static void comb_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct comb *s = to_comb(e);

	*out = (struct shingle_run){ .lblk = lblk, .n = 1, .kind = SHINGLE_RUN_ZERO };
	if (s->map[lblk] == NO_TOOTH)
		return;
	out->pblk = tooth_pblk(s, s->map[lblk]);
	out->kind = SHINGLE_RUN_MAPPED;
}

/* A checkpoint: piece 0 is the open comb, the others are the map. */
static void mark_open(struct comb *s)
{
	shingle_mark(&s->engine, 0, 1);
}

static void mark_block(struct comb *s, u32 lblk)
{
	shingle_mark(&s->engine, 1 + lblk / PART_BLOCKS, 1);
}

static int comb_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		      struct shingle_run *out)
{
	struct comb *s = to_comb(e);

	if (s->stepping || (s->drain && s->inflight))
		return -EBUSY;
	if (s->fill[s->open] == s->teeth)
		return -ENOSPC;
	*out = (struct shingle_run){ .lblk = lblk, .n = 1, .kind = SHINGLE_RUN_MAPPED };
	out->pblk = tooth_pblk(s, tooth_of(s->open, s->fill[s->open]++));
	mark_open(s);
	s->inflight++;
	return 0;
}

static void set_tooth(struct comb *s, u64 lblk, u32 tooth)
{
	s->live += (tooth != NO_TOOTH) - (s->map[lblk] != NO_TOOTH);
	s->map[lblk] = tooth;
	mark_block(s, lblk);
}

static u32 tooth_at(const struct comb *s, u64 pblk)
{
	enum shingle_role role;
	u64 band, offset;

	if (!shingle_band_of(s->layout, pblk, &role, &band, &offset) || (u32)offset % s->pitch)
		return NO_TOOTH;
	return band * teeth_per_band(s->layout) + (u32)offset / s->pitch;
}

static void comb_commit(struct shingle_engine *e, const struct shingle_run *run,
			struct shingle_emit *emit)
{
	struct comb *s = to_comb(e);
	u32 tooth = tooth_at(s, run->pblk);

	s->inflight--;
	set_tooth(s, run->lblk, tooth);
	shingle_emit(emit, COMB_MAP, 0, 0, run->lblk, tooth);
}

/* The tooth stays spent. */
static void comb_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	to_comb(e)->inflight--;
}

static int comb_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			struct shingle_emit *emit)
{
	struct comb *s = to_comb(e);
	u64 i;

	if (s->stepping)
		return -EBUSY;
	*done = min_t(u64, n, SHINGLE_WALK);
	*dropped = true;
	for (i = lblk; i < lblk + *done; i++)
		set_tooth(s, i, NO_TOOTH);
	shingle_emit(emit, COMB_DROP, 0, 0, lblk, *done);
	return 0;
}

/* ------------------------------------------------------------------------
 * Cleaning
 */

/* Is there work to do for this reason?  One step after the request completes the clean. */
static bool has_reason(struct comb *s, enum shingle_why why)
{
	bool full = s->fill[s->open] == s->teeth, stale = s->fill[s->open] > s->live;

	if (why == SHINGLE_WHY_RECOVERY)
		return false;
	if (why != SHINGLE_WHY_FORCED)
		return why == SHINGLE_WHY_PRESSURE ? full : stale;
	if (!s->asked)
		s->cleaned = false;
	s->asked = stale && !s->cleaned;
	return s->asked;
}

static int comb_next_step(struct shingle_engine *e, enum shingle_why why,
			  struct shingle_step *step)
{
	struct comb *s = to_comb(e);

	memset(step, 0, sizeof(*step));
	s->drain = false;
	if (s->stepping)
		return -EAGAIN;
	if (!has_reason(s, why))
		return 0;
	/* Idle cleaning does not make writes wait. */
	s->drain = why != SHINGLE_WHY_IDLE;
	if (s->inflight || s->fill[!s->open])
		return -EAGAIN;
	s->stepping = true;
	s->engine.jobs++;
	step->n = s->live;
	step->records = s->live + 1;
	step->scattered = true;
	return 1;
}

/* The next block that has a tooth, from *@lblk on. */
static bool next_live(const struct comb *s, u32 *lblk)
{
	while (*lblk < s->layout->logical_blocks && s->map[*lblk] == NO_TOOTH)
		(*lblk)++;
	return *lblk < s->layout->logical_blocks;
}

/* The cursor: in its upper half how many were moved, in the lower one where to go on. */
static bool comb_step_extent(struct shingle_engine *e, const struct shingle_step *step,
			     u64 *cursor, struct shingle_extent *out)
{
	struct comb *s = to_comb(e);
	u32 lblk = *cursor, i = *cursor >> 32;

	if (!next_live(s, &lblk))
		return false;
	out->lblk = lblk;
	out->src = tooth_pblk(s, s->map[lblk]);
	out->dst = tooth_pblk(s, tooth_of(!s->open, i));
	out->n = 1;
	*cursor = (u64)(i + 1) << 32 | (lblk + 1);
	return true;
}

static void comb_step_done(struct shingle_engine *e, const struct shingle_step *step,
			   struct shingle_emit *emit)
{
	struct comb *s = to_comb(e);
	u32 lblk, i = 0;

	s->open = !s->open;
	shingle_emit(emit, COMB_OPEN, 0, 0, s->open, 0);
	for (lblk = 0; next_live(s, &lblk); lblk++) {
		s->map[lblk] = tooth_of(s->open, i++);
		mark_block(s, lblk);
		shingle_emit(emit, COMB_MAP, 0, 0, lblk, s->map[lblk]);
	}
	s->fill[s->open] = i;
	mark_open(s);
	s->freed_seq = emit->seq;
	s->moved_blocks += i;
	s->stepping = false;
	s->cleaned = true;
}

static bool comb_step_failed(struct shingle_engine *e, const struct shingle_step *step,
			     const struct shingle_unwritten *bad)
{
	to_comb(e)->stepping = false;
	return false;
}

static bool comb_release(struct shingle_engine *e, u64 seq)
{
	struct comb *s = to_comb(e);

	if (s->freed_seq <= seq)
		s->fill[!s->open] = 0;
	return false;
}

static bool comb_pending(struct shingle_engine *e)
{
	struct comb *s = to_comb(e);

	return s->fill[!s->open];
}

/* All that was ever written to a comb: recovery may need an older version of a block. */
static bool comb_referenced(struct shingle_engine *e, enum shingle_role role, u64 band,
			    u64 offset, u64 n)
{
	const struct comb *s = to_comb(e);
	u32 at = DIV_ROUND_UP((u32)offset, s->pitch);

	for (; at * s->pitch < offset + n; at++) {
		u32 tooth = band * teeth_per_band(s->layout) + at;

		if (tooth / 2 < s->fill[tooth % 2])
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------------
 * Checkpoints and recovery
 */

static u64 nr_open(const struct shingle_layout *l)
{
	return 1;
}

static u32 encode_open(struct shingle_engine *e, u32 at, void *buf)
{
	const struct comb *s = to_comb(e);
	__le32 *p = buf;

	p[0] = cpu_to_le32(s->open);
	p[1] = cpu_to_le32(s->fill[s->open]);
	return 2 * sizeof(*p);
}

static int decode_open(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct comb *s = to_comb(e);
	const __le32 *p = buf;

	if (bytes != 2 * sizeof(*p) || le32_to_cpu(p[0]) > 1 || le32_to_cpu(p[1]) > s->teeth)
		return -EUCLEAN;
	s->open = le32_to_cpu(p[0]);
	s->fill[s->open] = le32_to_cpu(p[1]);
	return 0;
}

static u64 nr_map_parts(const struct shingle_layout *l)
{
	return DIV_ROUND_UP_ULL(l->logical_blocks, PART_BLOCKS);
}

/* Blocks in a piece of the map; the first of them is *@first. */
static u32 part(const struct comb *s, u32 at, u32 *first)
{
	*first = at * PART_BLOCKS;
	return min_t(u64, s->layout->logical_blocks - *first, PART_BLOCKS);
}

static u32 encode_map(struct shingle_engine *e, u32 at, void *buf)
{
	const struct comb *s = to_comb(e);
	u32 first, n = part(s, at, &first), i;
	__le32 *p = buf;

	for (i = 0; i < n; i++)
		p[i] = cpu_to_le32(s->map[first + i]);
	return n * sizeof(*p);
}

static int decode_map(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct comb *s = to_comb(e);
	u32 first, n = part(s, at, &first), i;
	const __le32 *p = buf;

	if (bytes != n * sizeof(*p))
		return -EUCLEAN;
	for (i = 0; i < n; i++)
		s->map[first + i] = le32_to_cpu(p[i]);
	return 0;
}

static const struct shingle_piece_kind comb_pieces[] = {
	{ nr_open, encode_open, decode_open },
	{ nr_map_parts, encode_map, decode_map },
	{ }
};

static int comb_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	u64 a = le64_to_cpu(rec->a), b = le64_to_cpu(rec->b), blocks;
	struct comb *s = to_comb(e);

	blocks = s->layout->logical_blocks;
	switch (le16_to_cpu(rec->type)) {
	case COMB_MAP:
		if (a >= blocks || b >= 2ULL * s->teeth)
			return -EUCLEAN;
		s->map[a] = b;
		s->fill[b % 2] = max(s->fill[b % 2], (u32)b / 2 + 1);
		return 0;
	case COMB_DROP:
		if (a >= blocks || b > blocks - a)
			return -EUCLEAN;
		while (b--)
			s->map[a++] = NO_TOOTH;
		return 0;
	case COMB_OPEN:
		if (a > 1)
			return -EUCLEAN;
		s->open = a;
		s->fill[a] = 0;
		return 0;
	}
	return -EUCLEAN;
}

/* Is @tooth, if any, one of the open comb that was written? */
static bool in_open_comb(const struct comb *s, u32 tooth)
{
	return tooth == NO_TOOTH || (tooth % 2 == s->open && tooth / 2 < s->fill[s->open]);
}

static int comb_ready(struct shingle_engine *e, const char **why)
{
	struct comb *s = to_comb(e);
	unsigned long *taken = shingle_zalloc_array(BITS_TO_LONGS(s->teeth), sizeof(*taken));
	int err = 0;
	u32 lblk;

	if (!taken)
		return -ENOMEM;
	/* Nothing points to the other one: that was free, or could have been. */
	s->fill[!s->open] = 0;
	for (lblk = 0; !err && next_live(s, &lblk); lblk++) {
		u32 tooth = s->map[lblk];

		if (!in_open_comb(s, tooth) || __test_and_set_bit(tooth / 2, taken))
			err = -EUCLEAN;
		s->live++;
	}
	if (err)
		*why = "a block is at no tooth of the open comb, or two are at one";
	kvfree(taken);
	return err;
}

/* ------------------------------------------------------------------------
 * Being looked at
 */

/* In one go: there are no more blocks than a transaction has records. */
static u32 comb_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx)
{
	struct comb *s = to_comb(e);
	u32 lblk, live = 0, bad = 0;

	for (lblk = 0; next_live(s, &lblk); lblk++, live++) {
		if (in_open_comb(s, s->map[lblk]))
			continue;
		report(ctx, "block %u is at tooth %u, which holds nothing", lblk, s->map[lblk]);
		bad++;
	}
	if (live != s->live) {
		report(ctx, "%u blocks have a tooth, counted %u", live, s->live);
		bad++;
	}
	*cursor = SHINGLE_NOWHERE;
	return bad;
}

static const struct shingle_counter comb_counters[] = {
	SHINGLE_COUNTER("moved_blocks", struct comb, moved_blocks, COUNT),
	{ }
};

/* There is nothing to be set. */
static const struct shingle_option comb_options[] = {
	{ }
};

static u64 comb_map_bytes(struct shingle_engine *e)
{
	return to_comb(e)->layout->logical_blocks * sizeof(u32);
}

/* No block has a home that it could be away from. */
static u64 comb_cached_blocks(struct shingle_engine *e)
{
	return 0;
}

const struct shingle_engine_ops comb_engine_ops = {
	.name = "comb",
	.commit_records = 1,
	.step_records = 1,
	.step_kinds = { "move" },
	.discard_records = 1,
	.options = comb_options,
	.counters = comb_counters,
	.logical_blocks = comb_logical_blocks,
	.create = comb_create,
	.destroy = comb_destroy,
	.map = {
		.resolve = comb_resolve,
		.place = comb_place,
		.commit = comb_commit,
		.abort = comb_abort,
		.discard = comb_discard,
		.referenced = comb_referenced,
	},
	.clean = {
		.next_step = comb_next_step,
		.step_extent = comb_step_extent,
		.step_done = comb_step_done,
		.step_failed = comb_step_failed,
		.release = comb_release,
		.pending = comb_pending,
	},
	.state = {
		.pieces = comb_pieces,
		.replay = comb_replay,
		.ready = comb_ready,
	},
	.observe = {
		.verify = comb_verify,
		.map_bytes = comb_map_bytes,
		.cached_blocks = comb_cached_blocks,
	},
};
EXPORT_SYMBOL_GPL(comb_engine_ops);
