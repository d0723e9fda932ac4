// SPDX-License-Identifier: GPL-2.0
/*
 * The engine of RMW-F on the disk: checkpoint pieces and journal records.  Pure code.  See
 * Documentation/on-disk-format.rst.
 *
 * A record gives the new state of its blocks, whatever the pieces say: in these pages, at
 * home, or nowhere.  The record of a staged band tells where the blocks that belong at home
 * are for now.
 */
#include "counted.h"
#include "rmwf/state.h"

/* ------------------------------------------------------------------------
 * Pieces
 */

/* The first piece: the content of the staging band. */
struct rmwf_disk_state {
	__le32 staged_lblk;
	__le32 staged_blocks;
} __packed;

static u64 nr_states(const struct shingle_layout *l)
{
	return 1;
}

static u32 encode_state(struct shingle_engine *e, u32 at, void *buf)
{
	const struct rmwf *s = to_rmwf(e);
	struct rmwf_disk_state *d = buf;

	d->staged_lblk = cpu_to_le32(s->staging.lblk);
	d->staged_blocks = cpu_to_le32(s->staging.n);
	return sizeof(*d);
}

static int decode_state(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct rmwf *s = to_rmwf(e);
	const struct rmwf_disk_state *d = buf;

	if (bytes != sizeof(*d))
		return -EUCLEAN;
	s->staging = (struct rmwf_span){
		le32_to_cpu(d->staged_lblk), le32_to_cpu(d->staged_blocks),
	};
	return 0;
}

/* Number of pages in @l; its parameters may be invalid. */
static u32 nr_slots(const struct shingle_layout *l)
{
	const struct rmwf_params *p = (const void *)l->params;
	u32 slots = l->band_blocks[SHINGLE_ROLE_CACHE], pages = le32_to_cpu(p->page_blocks);

	pages = pages ?: min(slots, RMWF_DEFAULT_PAGES);
	return pages ? slots / pages * pages : 0;
}

static u64 nr_slot_parts(const struct shingle_layout *l)
{
	return DIV_ROUND_UP(nr_slots(l), PART_SLOTS);
}

static u32 encode_slots(struct shingle_engine *e, u32 at, void *buf)
{
	const struct rmwf_flash *f = &to_rmwf(e)->flash;

	return counted_encode(&f->map, f->count, NULL, at, buf);
}

static int decode_slots(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct rmwf *s = to_rmwf(e);

	return counted_decode(&s->flash.map, s->flash.count, NULL, s->space.blocks, at, buf,
			      bytes);
}

static u64 nr_live_parts(const struct shingle_layout *l)
{
	return DIV_ROUND_UP_ULL(l->logical_blocks, SHINGLE_CHUNK_BITS);
}

static u32 encode_live(struct shingle_engine *e, u32 at, void *buf)
{
	const struct rmwf_space *s = &to_rmwf(e)->space;

	return shingle_bits_encode(s->live, s->blocks, at, buf);
}

static int decode_live(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct rmwf_space *s = &to_rmwf(e)->space;

	return shingle_bits_decode(s->live, s->blocks, at, buf, bytes);
}

const struct shingle_piece_kind rmwf_pieces[] = {
	{ nr_states, encode_state, decode_state },
	{ nr_slot_parts, encode_slots, decode_slots },
	{ nr_live_parts, encode_live, decode_live },
	{ }
};

/**
 * rmwf_mark_state() - the content of the staging band has changed
 * @s: the engine
 *
 * Context: map lock.
 */
void rmwf_mark_state(struct rmwf *s)
{
	shingle_mark(&s->engine, 0, 1);
}

/**
 * rmwf_mark_slots() - the content of pages has changed
 * @s: the engine
 * @slot: the first page
 * @n: number of pages, at least one
 *
 * Context: map lock.
 */
void rmwf_mark_slots(struct rmwf *s, u32 slot, u32 n)
{
	u32 first = slot / PART_SLOTS, last = (slot + n - 1) / PART_SLOTS;

	shingle_mark(&s->engine, 1 + first, last - first + 1);
}

/**
 * rmwf_mark_live() - the live bits of blocks have changed
 * @s: the engine
 * @lblk: the first block
 * @n: number of blocks, at least one
 *
 * Context: map lock.
 */
void rmwf_mark_live(struct rmwf *s, u32 lblk, u32 n)
{
	u32 first = lblk / SHINGLE_CHUNK_BITS, last = (lblk + n - 1) / SHINGLE_CHUNK_BITS;
	u32 slot_parts = DIV_ROUND_UP(s->flash.map.nr_slots, PART_SLOTS);

	shingle_mark(&s->engine, 1 + slot_parts + first, last - first + 1);
}

/* ------------------------------------------------------------------------
 * Records
 */

static bool is_run(const struct rmwf *s, u64 lblk, u64 n)
{
	return n && lblk < s->space.blocks && n <= s->space.blocks - lblk;
}

/* Blocks are no longer in flash. */
static void leave(struct rmwf *s, u32 lblk, u32 n)
{
	struct shingle_slotmap *m = &s->flash.map;
	u32 slot;

	for (; (slot = shingle_slotmap_next(m, &lblk, &n)) != SHINGLE_NO_SLOT; lblk++, n--)
		shingle_slotmap_remove(m, slot, 1);
}

static int replay_flash(struct shingle_engine *e, u64 lblk, u64 slot, u32 n, u32 c)
{
	struct rmwf *s = to_rmwf(e);
	struct rmwf_flash *f = &s->flash;

	if (!is_run(s, lblk, n) || slot >= f->map.nr_slots || n > f->map.nr_slots - slot)
		return -EUCLEAN;
	bitmap_clear(s->space.live, lblk, n);
	for (; n; n--, lblk++, slot++) {
		u32 old = rmwf_find(f, lblk);

		counted_hold(&f->map, f->count, slot, lblk, old == SHINGLE_NO_SLOT ? 1 :
			     min_t(u32, f->count[old] + 1, U16_MAX));
	}
	return 0;
}

static int replay_home(struct shingle_engine *e, u64 lblk, u64 b, u32 n, u32 c)
{
	struct rmwf *s = to_rmwf(e);

	if (!is_run(s, lblk, n))
		return -EUCLEAN;
	leave(s, lblk, n);
	bitmap_set(s->space.live, lblk, n);
	return 0;
}

static int replay_staged(struct shingle_engine *e, u64 lblk, u64 blocks, u32 n, u32 c)
{
	struct rmwf *s = to_rmwf(e);

	if (!is_run(s, lblk, blocks))
		return -EUCLEAN;
	s->staging = (struct rmwf_span){ lblk, blocks };
	return 0;
}

static int replay_back(struct shingle_engine *e, u64 lblk, u64 blocks, u32 n, u32 c)
{
	to_rmwf(e)->staging.n = 0;
	return 0;
}

static int replay_discard(struct shingle_engine *e, u64 lblk, u64 blocks, u32 n, u32 c)
{
	struct rmwf *s = to_rmwf(e);

	if (!is_run(s, lblk, blocks))
		return -EUCLEAN;
	leave(s, lblk, blocks);
	bitmap_clear(s->space.live, lblk, blocks);
	return 0;
}

const struct shingle_record_kind rmwf_records[] = {
	{ RMWF_REC_FLASH, "FLASH", "blocks", "lblk", "slot", NULL, replay_flash },
	{ RMWF_REC_HOME, "HOME", "blocks", "lblk", NULL, NULL, replay_home },
	{ RMWF_REC_STAGED, "STAGED", NULL, "lblk", "blocks", NULL, replay_staged },
	{ RMWF_REC_BACK, "BACK", NULL, "lblk", "blocks", NULL, replay_back },
	{ RMWF_REC_DISCARD, "DISCARD", NULL, "lblk", "blocks", NULL, replay_discard },
	{ }
};

/* An operation of struct shingle_engine_ops. */
int rmwf_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct rmwf *s = to_rmwf(e);
	int err = counted_replay(&s->flash.map, s->flash.count, s->layout->logical_blocks);

	return err ?: shingle_record_replay(rmwf_records, e, rec);
}

/* Is a block both in flash and live at home? */
static bool is_twice(const struct rmwf *s)
{
	const struct shingle_slotmap *m = &s->flash.map;
	u32 slot;

	for (slot = 0; slot < m->nr_slots; slot++) {
		if (shingle_slot_state(m, slot) == SHINGLE_SLOT_OWNED &&
		    test_bit(shingle_slot_lblk(m, slot), s->space.live))
			return true;
		cond_resched();
	}
	return false;
}

/* An operation of struct shingle_engine_ops. */
int rmwf_ready(struct shingle_engine *e, const char **why)
{
	struct rmwf *s = to_rmwf(e);
	const struct rmwf_span *g = &s->staging;
	u32 of = s->space.band_blocks;

	counted_ready(&s->flash.map, s->flash.count);
	*why = "staging band holds what is of no band";
	if (g->n && (!is_run(s, g->lblk, g->n) || g->lblk % of + g->n > of ||
		     g->lblk % of % rmwf_track_blocks(&s->space, g->lblk / of)))
		return -EUCLEAN;
	*why = "a block is in flash, and where it belongs, too";
	if (is_twice(s))
		return -EUCLEAN;
	/*
	 * A direct write in flight at the power cut could have destroyed only blocks that
	 * were not current.
	 */
	memcpy(s->space.claimed, s->space.live,
	       BITS_TO_LONGS(s->space.blocks) * sizeof(*s->space.live));
	s->space.nr_pins = 0;
	s->space.nr_flight = 0;
	rmwf_flash_ready(&s->flash);
	return 0;
}
