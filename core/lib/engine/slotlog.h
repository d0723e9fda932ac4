/* SPDX-License-Identifier: GPL-2.0 */
/* Slot logs: bands that are written one slot after the other, whatever block it is for. */
#ifndef SHINGLE_SLOTLOG_H
#define SHINGLE_SLOTLOG_H

#include "engine/engine.h"
#include "engine/slotmap.h"

/* Slots in one checkpoint piece, next to what the engine says of the log.  Tests take less. */
#ifndef PART_SLOTS
#define PART_SLOTS	1000U
#endif

/* Longest run that a record can name. */
#define SHINGLE_SLOTLOG_RUN	U16_MAX

/**
 * struct shingle_log - one log
 * @fill: next empty slot
 * @live: slots that are current
 * @inflight: placements not yet committed or aborted
 * @age: a later one was opened later
 */
struct shingle_log {
	u32 fill;
	u32 live;
	u32 inflight;
	u32 age;
};

/**
 * struct shingle_slotlog_walk - what a walk over all logs has counted so far
 * @log: the log it is in; logs below were seen
 * @live: slots of it that were seen and are current
 * @bands: so many logical bands were seen
 * @in_logs: current blocks of the logs that were seen
 * @in_bands: cached blocks of the bands that were seen
 *
 * Kept right by what happens meanwhile.
 */
struct shingle_slotlog_walk {
	u32 log;
	u32 live;
	u32 bands;
	u64 in_logs;
	u64 in_bands;
};

/**
 * struct shingle_slotlogs - logs of one length, and the logical bands whose blocks they hold
 * @engine: whose they are
 * @may_hold: may blocks of @band be in @log?
 * @nr_logs: logs
 * @nr_bands: logical bands
 * @band_blocks: blocks of a logical band
 * @log_blocks: slots of a log, and blocks of the band that it is in
 * @first_piece: of the engine's state, index of the first one of slots
 * @by_slot: of two copies of a block the one in the later slot counts, else the one
 *	that was committed last
 * @log_pieces: pieces of the state that the slots of one log make
 * @map: which slot holds which block; slot = log * @log_blocks + offset
 * @log: the logs
 * @band_live: per logical band, blocks whose current copy is in a log
 * @age: of the next log that is opened
 * @walk: see struct shingle_slotlog_walk
 * @placed_blocks: slots handed out
 * @aborted_blocks: slots spent on writes that failed
 *
 * The engine fills in what stands above @log_pieces, and then shingle_slotlogs_init() the rest.
 * Every change marks the pieces that it changes.  Map lock.
 */
struct shingle_slotlogs {
	struct shingle_engine *engine;
	bool (*may_hold)(struct shingle_engine *e, u32 log, u32 band);
	u32 nr_logs;
	u32 nr_bands;
	u32 band_blocks;
	u32 log_blocks;
	u32 first_piece;
	bool by_slot;

	u32 log_pieces;
	struct shingle_slotmap map;
	struct shingle_log *log;
	u32 *band_live;
	u32 age;
	struct shingle_slotlog_walk walk;
	u64 placed_blocks;
	u64 aborted_blocks;
};

int shingle_slotlogs_init(struct shingle_slotlogs *l);
void shingle_slotlogs_exit(struct shingle_slotlogs *l);
u64 shingle_slotlogs_bytes(const struct shingle_slotlogs *l);

void shingle_slotlog_commit(struct shingle_slotlogs *l, u32 log, u32 at, u32 lblk, u32 band,
			    u32 n);
void shingle_slotlog_abort(struct shingle_slotlogs *l, u32 log, u32 n);
void shingle_slotlog_give_up(struct shingle_slotlogs *l, u32 log);
void shingle_slotlog_drop_run(struct shingle_slotlogs *l, u32 band, u32 slot, u32 n);
void shingle_slotlog_drop(struct shingle_slotlogs *l, u32 lblk, u32 n, u32 below);
bool shingle_slotlog_discard(struct shingle_slotlogs *l, u32 lblk, u64 n, u32 home, u16 type,
			     u64 *done, struct shingle_emit *emit);
bool shingle_slotlog_clear_some(struct shingle_slotlogs *l, u32 log);
void shingle_slotlog_clear(struct shingle_slotlogs *l, u32 log);

void shingle_slotlog_mark(struct shingle_slotlogs *l, u32 slot, u32 n);
u32 shingle_slotlog_encode(const struct shingle_slotlogs *l, u32 log, u32 part, __le32 *p);
int shingle_slotlog_adopt(struct shingle_slotlogs *l, u32 slot, u32 lblk);
int shingle_slotlog_replay(struct shingle_slotlogs *l, u64 lblk, u64 slot, u32 n);
void shingle_slotlog_replay_clear(struct shingle_slotlogs *l, u32 log);
int shingle_slotlog_ready(struct shingle_slotlogs *l, u32 log);

void shingle_slotlogs_walk(struct shingle_slotlogs *l);
u32 shingle_slotlogs_verify(struct shingle_slotlogs *l, shingle_report_fn report, void *ctx);
u32 shingle_slotlogs_verify_sums(struct shingle_slotlogs *l, shingle_report_fn report, void *ctx);

/* Pieces of the state that the slots of one log make. */
static inline u32 shingle_slotlog_parts(u32 log_blocks)
{
	return DIV_ROUND_UP_ULL(log_blocks, PART_SLOTS);
}

/**
 * shingle_slotlog_find() - where is a block?
 * @l: the logs
 * @band: its band
 * @lblk: logical block
 *
 * Context: map lock.  Returns its slot or SHINGLE_NO_SLOT.
 */
static inline u32 shingle_slotlog_find(const struct shingle_slotlogs *l, u32 band, u32 lblk)
{
	return l->band_live[band] ? shingle_slotmap_find(&l->map, lblk) : SHINGLE_NO_SLOT;
}

/**
 * shingle_slotlog_band() - whose block is in a slot?
 * @l: the logs
 * @slot: which
 *
 * Context: map lock.  Returns the logical band, U32_MAX if the slot is not current.
 */
static inline u32 shingle_slotlog_band(const struct shingle_slotlogs *l, u32 slot)
{
	if (shingle_slot_state(&l->map, slot) != SHINGLE_SLOT_OWNED)
		return U32_MAX;
	return shingle_slot_lblk(&l->map, slot) / l->band_blocks;
}

static inline void shingle_slotlog_open(struct shingle_slotlogs *l, u32 log)
{
	l->log[log].age = l->age++;
}

/* What a checkpoint says of slots has changed: @n of them, at least one, of one log. */
static inline void shingle_slotlog_mark_at(struct shingle_slotlogs *l, u32 log, u32 at, u32 n)
{
	u32 first = at / PART_SLOTS, last = (at + n - 1) / PART_SLOTS;

	shingle_mark(l->engine, l->first_piece + log * l->log_pieces + first, last - first + 1);
}

/**
 * shingle_slotlog_place() - hand out the next slots of a log
 * @l: the logs
 * @log: which
 * @n: how many, which it has
 *
 * Context: map lock.  Returns the first, as its offset in the log.
 */
static inline u32 shingle_slotlog_place(struct shingle_slotlogs *l, u32 log, u32 n)
{
	struct shingle_log *g = &l->log[log];
	u32 *owner = &l->map.owner[log * l->log_blocks + g->fill], at = g->fill, i;

	for (i = 0; i < n; i++)
		owner[i] = SHINGLE_SLOT_SPENT;
	g->fill += n;
	shingle_slotlog_mark_at(l, log, at, n);
	g->inflight++;
	l->placed_blocks += n;
	return at;
}

static inline bool shingle_slotlog_is_full(const struct shingle_slotlogs *l, u32 log)
{
	return l->log[log].fill == l->log_blocks;
}

/* Has the walk over the logs come to its end? */
static inline bool shingle_slotlogs_walked(const struct shingle_slotlogs *l)
{
	return l->walk.log == l->nr_logs;
}

/* So many bands are the walk's next part; the engine has looked at them. */
static inline void shingle_slotlogs_saw_band(struct shingle_slotlogs *l)
{
	l->walk.in_bands += l->band_live[l->walk.bands++];
}

#endif /* SHINGLE_SLOTLOG_H */
