/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slot logs.  A log is a band that is written in order.  Its places, the slots, are handed out one
 * after the other, each to any logical block that the log may hold.
 */
#ifndef SHINGLE_SLOTLOG_H
#define SHINGLE_SLOTLOG_H

#include "engine/engine.h"
#include "engine/slotmap.h"

/* Slots in one checkpoint piece, besides the engine's data of the log.  Tests define fewer. */
#ifndef PART_SLOTS
#define PART_SLOTS	1000U
#endif

/* Longest run that a record can contain. */
#define SHINGLE_SLOTLOG_RUN	U16_MAX

/**
 * struct shingle_slotlog - one log
 * @fill: next empty slot
 * @live: number of current slots
 * @inflight: placements not yet committed or aborted
 * @age: a log that was opened later has a higher one
 */
struct shingle_slotlog {
	u32 fill;
	u32 live;
	u32 inflight;
	u32 age;
};

/**
 * struct shingle_slotlog_walk - counts of a walk over all logs
 * @log: the log that the walk is in; lower ones have been walked
 * @live: current slots in the walked part of that log
 * @bands: number of logical bands walked
 * @in_logs: current blocks of the walked logs
 * @in_bands: cached blocks of the walked bands
 *
 * Changes during the walk update the counts.
 */
struct shingle_slotlog_walk {
	u32 log;
	u32 live;
	u32 bands;
	u64 in_logs;
	u64 in_bands;
};

/**
 * struct shingle_slotlogs - logs of one length, and the logical bands that they serve
 * @engine: the engine
 * @may_hold: may blocks of @band be in @log?
 * @nr_logs: logs
 * @nr_bands: logical bands
 * @band_blocks: blocks of a logical band
 * @log_blocks: slots of a log: all blocks of the physical band that it occupies
 * @first_piece: index of the first piece with slots in the engine's state
 * @by_slot: of two copies of a block the one in the later slot is current; otherwise the one
 *	that was committed last
 * @log_pieces: number of pieces for the slots of one log
 * @map: maps blocks to slots; slot = log * @log_blocks + offset
 * @log: the logs
 * @band_live: for each logical band, number of blocks with their current copy in a log
 * @age: age of the next log that is opened
 * @walk: see struct shingle_slotlog_walk
 * @placed_blocks: number of slots handed out
 * @aborted_blocks: number of slots spent on writes that failed
 *
 * The engine sets the members before @log_pieces, and then shingle_slotlogs_init() the others.
 * Every change marks the pieces that it changes.  The map lock protects all members.
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
	struct shingle_slotlog *log;
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
int shingle_slotlog_replay_drop(struct shingle_slotlogs *l, u64 lblk, u32 n);
void shingle_slotlog_replay_clear(struct shingle_slotlogs *l, u32 log);
int shingle_slotlog_ready(struct shingle_slotlogs *l, u32 log);

void shingle_slotlogs_walk(struct shingle_slotlogs *l);
u32 shingle_slotlogs_verify(struct shingle_slotlogs *l, shingle_report_fn report, void *ctx);
u32 shingle_slotlogs_verify_sums(struct shingle_slotlogs *l, shingle_report_fn report, void *ctx);

/* Number of pieces of the state for the slots of one log. */
static inline u32 shingle_slotlog_parts(u32 log_blocks)
{
	return DIV_ROUND_UP_ULL(log_blocks, PART_SLOTS);
}

/**
 * shingle_slotlog_find() - find the slot of a block
 * @l: the logs
 * @band: its band
 * @lblk: logical block
 *
 * Context: map lock.
 * Return: its slot or SHINGLE_NO_SLOT.
 */
static inline u32 shingle_slotlog_find(const struct shingle_slotlogs *l, u32 band, u32 lblk)
{
	return l->band_live[band] ? shingle_slotmap_find(&l->map, lblk) : SHINGLE_NO_SLOT;
}

/**
 * shingle_slotlog_band() - the band of the block in a slot
 * @l: the logs
 * @slot: the slot
 *
 * Context: map lock.
 * Return: the logical band, U32_MAX if the slot is not current.
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

/* Mark the pieces of @n slots, at least one, of one log as changed. */
static inline void shingle_slotlog_mark_at(struct shingle_slotlogs *l, u32 log, u32 at, u32 n)
{
	u32 first = at / PART_SLOTS, last = (at + n - 1) / PART_SLOTS;

	shingle_mark(l->engine, l->first_piece + log * l->log_pieces + first, last - first + 1);
}

/**
 * shingle_slotlog_place() - hand out the next slots of a log
 * @l: the logs
 * @log: number of the log
 * @n: number of slots; there must be that many
 *
 * Context: map lock.
 * Return: the first, as its offset in the log.
 */
static inline u32 shingle_slotlog_place(struct shingle_slotlogs *l, u32 log, u32 n)
{
	struct shingle_slotlog *g = &l->log[log];
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

/* Has the walk over the logs ended? */
static inline bool shingle_slotlogs_walked(const struct shingle_slotlogs *l)
{
	return l->walk.log == l->nr_logs;
}

/* The engine has walked one more band. */
static inline void shingle_slotlogs_saw_band(struct shingle_slotlogs *l)
{
	l->walk.in_bands += l->band_live[l->walk.bands++];
}

#endif /* SHINGLE_SLOTLOG_H */
