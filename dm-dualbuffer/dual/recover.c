// SPDX-License-Identifier: GPL-2.0
/*
 * The engine of Dual-buffer on the disk: the cache of a layout, checkpoint pieces, journal
 * records.  Pure code.  See Documentation/on-disk-format.rst.
 *
 * A record describes the state from then on.  The record of a staged band implies that
 * cached blocks of the band are older than the copy; which ones follows from the round.
 * The pieces may already describe a later round.  So each such record follows records that
 * describe its round.
 *
 * Update counts are only as exact as the pieces and the records: a write after a checkpoint
 * counts once more each time it is replayed.  No data depend on the counts.
 */
#include "dual/state.h"

/* Blocks per track of a medium without tracks. */
#define TRACK_BLOCKS	512U
/* V(X) is sampled on one of this number of parts of a cache; the thesis has nine tracks. */
#define PARTS		9U
/* The shortest track that can be divided into three parts. */
#define LEAST_TRACK	4U

/* ------------------------------------------------------------------------
 * The cache of a layout
 */

static u32 nominal_track(u32 wanted, u32 blocks)
{
	return wanted ?: clamp(blocks / PARTS, LEAST_TRACK, TRACK_BLOCKS);
}

/**
 * dual_layout_shape() - the cache of a layout
 * @l: the layout
 * @shape: result, except what options set
 * @why: on error, a sentence
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int dual_layout_shape(const struct shingle_layout *l, struct dual_shape *shape, const char **why)
{
	const struct dual_params *p = (const void *)l->params;
	u64 start = shingle_band_pblk(l, SHINGLE_ROLE_CACHE, 0);
	const struct shingle_group *g = shingle_group_of(l, start);
	u32 blocks = l->band_blocks[SHINGLE_ROLE_CACHE], tracks;
	enum shingle_dev dev = shingle_pblk_dev(start);

	memset(shape, 0, sizeof(*shape));
	*why = "the cache of dualbuffer is in no band";
	if (!g || dev >= SHINGLE_NR_MEDIA)
		return -EINVAL;
	shape->track_blocks = g->track_blocks ?:
			      nominal_track(le32_to_cpu(p->track_blocks), blocks);
	shape->tracks = blocks / shape->track_blocks;
	shape->static_percent = le32_to_cpu(p->m_percent);
	shape->sample_percent = le32_to_cpu(p->sample_percent);
	shape->min_new_percent = le32_to_cpu(p->min_new_percent);
	shape->min_fb_percent = le32_to_cpu(p->min_fb_percent);
	tracks = le32_to_cpu(p->sample_tracks) ?: max(shape->tracks / PARTS, 1U);
	if (!shape->static_percent)
		shape->sample_tracks = min(tracks, shape->tracks);
	*why = "the cache of dualbuffer is shorter than a track";
	if (!shape->tracks)
		return -EINVAL;
	*why = "dualbuffer caches at most 2 TiB less 256 KiB";
	if (blocks > SHINGLE_SLOTMAP_SLOTS)
		return -EINVAL;
	*why = "parts of a track need a medium that says, block by block, what is under an angle";
	if (g->track_blocks && l->head_tracks > 1 &&
	    !shingle_medium_skew(&l->medium[dev], shingle_pblk_block(start),
				 shingle_pblk_block(start) + blocks, g->track_blocks,
				 &shape->skew_units))
		return -EINVAL;
	return dual_shape_check(shape, why);
}

/* ------------------------------------------------------------------------
 * Pieces
 */

struct disk_drop {
	__le32 track;
	__le32 columns;
} __packed;

/* Piece DUAL_PIECE_STATE: the round, and the content of the staging band. */
struct disk_state {
	__le32 round;
	__le32 fb1_at;
	__le32 fb1_columns;
	__le32 nr_drops;
	__le32 staged;
	__le32 staged_band;
	__le32 staged_row;
	__le32 staged_at;
	struct disk_drop drop[DUAL_DROPS];
} __packed;

struct disk_sample {
	__le32 x;
	__le32 v;
} __packed;

/* Piece DUAL_PIECE_CURVE: the samples of V(X). */
struct disk_curve {
	__le32 round;
	__le32 step;
	struct disk_sample at[DUAL_SAMPLES];
} __packed;

static_assert(sizeof(struct disk_curve) <= SHINGLE_CHUNK_BYTES);

static u64 nr_alone(const struct shingle_layout *l)
{
	return 1;
}

static u32 encode_state(struct shingle_engine *e, u32 at, void *buf)
{
	const struct dual_cache *c = &to_dual(e)->cache;
	const struct dual_round *r = &c->round;
	struct disk_state *d = buf;
	u32 i;

	memset(d, 0, sizeof(*d));
	d->round = cpu_to_le32(r->number);
	d->fb1_at = cpu_to_le32(r->fb1_at);
	d->fb1_columns = cpu_to_le32(r->fb1_columns);
	d->nr_drops = cpu_to_le32(r->nr_drops);
	if (c->staging.in_use) {
		d->staged = cpu_to_le32(1);
		d->staged_band = cpu_to_le32(c->staging.band);
		d->staged_row = cpu_to_le32(c->staging.mark.row);
		d->staged_at = cpu_to_le32(c->staging.mark.at);
	}
	for (i = 0; i < r->nr_drops; i++) {
		d->drop[i].track = cpu_to_le32(r->drop[i].track);
		d->drop[i].columns = cpu_to_le32(r->drop[i].columns);
	}
	return sizeof(*d);
}

static int decode_state(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct dual_cache *c = &to_dual(e)->cache;
	const struct disk_state *d = buf;
	struct dual_round *r = &c->round;
	u32 i;

	if (bytes != sizeof(*d) || le32_to_cpu(d->nr_drops) > DUAL_DROPS)
		return -EUCLEAN;
	memset(r, 0, sizeof(*r));
	r->number = le32_to_cpu(d->round);
	r->fb1_at = le32_to_cpu(d->fb1_at);
	r->fb1_columns = le32_to_cpu(d->fb1_columns);
	r->nr_drops = le32_to_cpu(d->nr_drops);
	for (i = 0; i < r->nr_drops; i++) {
		r->drop[i].track = le32_to_cpu(d->drop[i].track);
		r->drop[i].columns = le32_to_cpu(d->drop[i].columns);
	}
	c->staging = (struct dual_staging){
		.in_use = le32_to_cpu(d->staged), .band = le32_to_cpu(d->staged_band),
		.mark = { le32_to_cpu(d->staged_row), le32_to_cpu(d->staged_at) },
	};
	return dual_round_check(c->shape, r);
}

static u32 encode_curve(struct shingle_engine *e, u32 at, void *buf)
{
	const struct dual_cache *c = &to_dual(e)->cache;
	struct disk_curve *d = buf;
	u32 i;

	d->round = cpu_to_le32(c->predict.curve_round);
	d->step = cpu_to_le32(c->predict.curve.step);
	for (i = 0; i < c->predict.curve.nr; i++) {
		d->at[i].x = cpu_to_le32(c->predict.curve.at[i].x);
		d->at[i].v = cpu_to_le32(c->predict.curve.at[i].v);
	}
	return i ? offsetof(struct disk_curve, at) + i * sizeof(d->at[0]) : 0;
}

static int decode_curve(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	const u32 head = offsetof(struct disk_curve, at);
	struct dual_cache *c = &to_dual(e)->cache;
	const struct disk_curve *d = buf;
	u32 i;

	if (bytes < head || (bytes - head) % sizeof(d->at[0]) || bytes > sizeof(*d))
		return -EUCLEAN;
	dual_curve_begin(&c->predict.curve);
	c->predict.curve_round = le32_to_cpu(d->round);
	c->predict.curve.step = le32_to_cpu(d->step);
	c->predict.curve.nr = (bytes - head) / sizeof(d->at[0]);
	for (i = 0; i < c->predict.curve.nr; i++) {
		c->predict.curve.at[i].x = le32_to_cpu(d->at[i].x);
		c->predict.curve.at[i].v = le32_to_cpu(d->at[i].v);
	}
	return dual_curve_check(&c->predict.curve, c->map.nr_slots);
}

/* Number of slots in @l, which may have no valid cache. */
static u32 nr_slots(const struct shingle_layout *l)
{
	struct dual_shape shape;
	const char *why;

	if (l->nr_bands[SHINGLE_ROLE_CACHE] != 1 || dual_layout_shape(l, &shape, &why))
		return 0;
	return shape.tracks * shape.track_blocks;
}

static u64 nr_slot_parts(const struct shingle_layout *l)
{
	return DIV_ROUND_UP(nr_slots(l), PART_SLOTS);
}

static u32 encode_slots(struct shingle_engine *e, u32 at, void *buf)
{
	const struct dual_cache *c = &to_dual(e)->cache;

	return counted_encode(&c->map, c->count, c->bad.unfit, at, buf);
}

static int decode_slots(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct dualbuffer *s = to_dual(e);

	return counted_decode(&s->cache.map, s->cache.count, s->cache.bad.unfit,
			      s->layout->logical_blocks, at, buf, bytes);
}

static u64 nr_homes(const struct shingle_layout *l)
{
	return DIV_ROUND_UP_ULL(l->nr_bands[SHINGLE_ROLE_DATA], SHINGLE_CHUNK_BITS);
}

static u32 encode_homes(struct shingle_engine *e, u32 at, void *buf)
{
	const struct dualbuffer *s = to_dual(e);

	return shingle_bits_encode(s->home, s->nr_bands, at, buf);
}

static int decode_homes(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct dualbuffer *s = to_dual(e);

	return shingle_bits_decode(s->home, s->nr_bands, at, buf, bytes);
}

/**
 * dual_home_piece() - the piece that tells whether a band is at home
 * @s: the engine
 * @band: the band
 *
 * Context: any.
 * Return: number of the piece.
 */
u32 dual_home_piece(const struct dualbuffer *s, u32 band)
{
	return DUAL_PIECE_SLOTS + DIV_ROUND_UP(s->cache.map.nr_slots, PART_SLOTS) +
	       band / SHINGLE_CHUNK_BITS;
}

/**
 * dual_set_home() - record whether the native place of a band holds its content
 * @s: the engine
 * @band: the band
 * @there: it does; otherwise it is empty
 *
 * Context: map lock.
 */
void dual_set_home(struct dualbuffer *s, u32 band, bool there)
{
	if (test_bit(band, s->home) == there)
		return;
	if (there)
		__set_bit(band, s->home);
	else
		__clear_bit(band, s->home);
	shingle_mark(&s->engine, dual_home_piece(s, band), 1);
}

const struct shingle_piece_kind dual_pieces[] = {
	[DUAL_PIECE_STATE] = { nr_alone, encode_state, decode_state },
	[DUAL_PIECE_CURVE] = { nr_alone, encode_curve, decode_curve },
	[DUAL_PIECE_SLOTS] = { nr_slot_parts, encode_slots, decode_slots },
	{ nr_homes, encode_homes, decode_homes },
	{ }
};

/* ------------------------------------------------------------------------
 * Records
 */

/* Blocks leave the cache; with a mark, only those that are older. */
static void leave(struct dualbuffer *s, u32 lblk, u32 n, const struct dual_cursor *mark)
{
	struct dual_cache *c = &s->cache;
	bool fresh;
	u32 slot;

	for (; (slot = shingle_slotmap_next(&c->map, &lblk, &n)) != SHINGLE_NO_SLOT; lblk++, n--) {
		if (!mark || dual_is_older(c, slot, mark, &fresh))
			shingle_slotmap_remove(&c->map, slot, 1);
	}
}

static int put(struct dualbuffer *s, u64 lblk, u64 slot, u32 n, bool moved)
{
	u64 blocks = s->layout->logical_blocks;
	struct dual_cache *c = &s->cache;

	if (!n || lblk >= blocks || n > blocks - lblk || slot >= c->map.nr_slots ||
	    n > c->map.nr_slots - slot)
		return -EUCLEAN;
	for (; n; n--, lblk++, slot++) {
		u32 old = dual_find(c, lblk);
		u16 count = 0;

		if (old != SHINGLE_NO_SLOT && !moved)
			count = dual_count_up(c->count[old]);
		else if (old != SHINGLE_NO_SLOT && !c->opt.literal)
			count = c->count[old] / 2;
		counted_hold(&c->map, c->count, slot, lblk, count);
	}
	return 0;
}

static int replay_map(struct shingle_engine *e, u64 lblk, u64 slot, u32 n, u32 c)
{
	return put(to_dual(e), lblk, slot, n, false);
}

static int replay_keep(struct shingle_engine *e, u64 lblk, u64 slot, u32 n, u32 c)
{
	return put(to_dual(e), lblk, slot, n, true);
}

static int replay_round(struct shingle_engine *e, u64 fb1_at, u64 fb1_columns, u32 n, u32 number)
{
	struct dual_cache *c = &to_dual(e)->cache;

	if (fb1_at > U32_MAX || fb1_columns > U32_MAX)
		return -EUCLEAN;
	c->round = (struct dual_round){
		.number = number, .fb1_at = fb1_at, .fb1_columns = fb1_columns,
	};
	return 0;
}

/*
 * A record of another round is ignored: the pieces know that this round is over.  Where later
 * records depend on a round, all of it was recorded again before them.
 */
static int replay_m(struct shingle_engine *e, u64 track, u64 columns, u32 n, u32 number)
{
	struct dual_round *r = &to_dual(e)->cache.round;

	if (r->number != number)
		return 0;
	if (n > r->nr_drops || n >= DUAL_DROPS || track > U32_MAX || columns > U32_MAX)
		return -EUCLEAN;
	r->drop[n] = (struct dual_drop){ track, columns };
	r->nr_drops = max(r->nr_drops, n + 1);
	return 0;
}

/* Forget the cached blocks that are older than the copy of a band. */
static int copied(struct dualbuffer *s, u64 band, u64 row, u32 at, bool staged)
{
	struct dual_cache *c = &s->cache;

	if (band >= s->nr_bands || row > U32_MAX || dual_round_check(c->shape, &c->round) ||
	    !c->round.nr_drops)
		return -EUCLEAN;
	c->staging = (struct dual_staging){
		.in_use = staged, .band = band, .mark = { row, at },
	};
	leave(s, band * s->band_blocks, s->band_blocks, &c->staging.mark);
	return 0;
}

static int replay_staged(struct shingle_engine *e, u64 band, u64 row, u32 n, u32 at)
{
	return copied(to_dual(e), band, row, at, true);
}

static int replay_cleaned(struct shingle_engine *e, u64 band, u64 row, u32 n, u32 at)
{
	struct dualbuffer *s = to_dual(e);
	int err = copied(s, band, row, at, false);

	if (!err)
		__set_bit(band, s->home);
	return err;
}

static int replay_discard(struct shingle_engine *e, u64 band, u64 nr, u32 n, u32 c)
{
	struct dualbuffer *s = to_dual(e);

	if (band >= s->nr_bands || nr > s->nr_bands - band)
		return -EUCLEAN;
	for (; nr; nr--, band++) {
		__clear_bit(band, s->home);
		leave(s, band * s->band_blocks, s->band_blocks, NULL);
	}
	return 0;
}

static int replay_drop(struct shingle_engine *e, u64 lblk, u64 b, u32 n, u32 c)
{
	struct dualbuffer *s = to_dual(e);
	u64 blocks = s->layout->logical_blocks;

	if (lblk >= blocks || n > blocks - lblk)
		return -EUCLEAN;
	leave(s, lblk, n, NULL);
	return 0;
}

const struct shingle_record_kind dual_records[] = {
	{ DUAL_REC_MAP, "MAP", "blocks", "lblk", "slot", NULL, replay_map },
	{ DUAL_REC_KEEP, "KEEP", "blocks", "lblk", "slot", NULL, replay_keep },
	{ DUAL_REC_ROUND, "ROUND", NULL, "fb1", "columns", "round", replay_round },
	{ DUAL_REC_M, "M", "index", "track", "columns", "round", replay_m },
	{ DUAL_REC_STAGED, "STAGED", NULL, "band", "row", "at", replay_staged },
	{ DUAL_REC_CLEANED, "CLEANED", NULL, "band", "row", "at", replay_cleaned },
	{ DUAL_REC_DISCARD, "DISCARD", NULL, "band", "bands", NULL, replay_discard },
	{ DUAL_REC_DROP, "DROP", "blocks", "lblk", NULL, NULL, replay_drop },
	{ }
};

/* An operation of struct shingle_engine_ops. */
int dual_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct dualbuffer *s = to_dual(e);
	int err = counted_replay(&s->cache.map, s->cache.count, s->layout->logical_blocks);

	return err ?: shingle_record_replay(dual_records, e, rec);
}

/* An operation of struct shingle_engine_ops. */
int dual_engine_ready(struct shingle_engine *e, const char **why)
{
	struct dualbuffer *s = to_dual(e);
	const struct dual_staging *g = &s->cache.staging;

	counted_ready(&s->cache.map, s->cache.count);
	*why = "staging band holds a band that does not exist";
	if (g->in_use && g->band >= s->nr_bands)
		return -EUCLEAN;
	return dual_ready(&s->cache, why);
}
