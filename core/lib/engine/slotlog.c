// SPDX-License-Identifier: GPL-2.0
/*
 * Slot logs, see slotlog.h.  Pure code.
 *
 * A slot is handed out once.  From the commit on it holds the current copy of a block.  It is spent
 * when a later copy is current, or when its write has failed.  It becomes empty when the
 * engine empties the whole log.
 */
#include "engine/slotlog.h"

/**
 * shingle_slotlogs_init() - allocate empty logs
 * @l: the logs, zero except for the members that the engine has set
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM; the caller calls shingle_slotlogs_exit() in either case.
 */
int shingle_slotlogs_init(struct shingle_slotlogs *l)
{
	l->log_pieces = shingle_slotlog_parts(l->log_blocks);
	l->log = shingle_zalloc_array(l->nr_logs, sizeof(*l->log));
	l->band_live = shingle_zalloc_array(l->nr_bands, sizeof(u32));
	if (!l->log || !l->band_live ||
	    shingle_slotmap_init(&l->map, l->nr_logs * l->log_blocks))
		return -ENOMEM;
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_slotlogs_init);

/**
 * shingle_slotlogs_exit() - free their memory
 * @l: the logs
 *
 * Context: may sleep.
 */
void shingle_slotlogs_exit(struct shingle_slotlogs *l)
{
	shingle_slotmap_exit(&l->map);
	kvfree(l->log);
	kvfree(l->band_live);
}
EXPORT_SYMBOL_GPL(shingle_slotlogs_exit);

/**
 * shingle_slotlogs_bytes() - RAM that the logs use
 * @l: the logs
 *
 * Context: any.
 * Return: bytes.
 */
u64 shingle_slotlogs_bytes(const struct shingle_slotlogs *l)
{
	return shingle_slotmap_bytes(&l->map) + (u64)sizeof(*l->log) * l->nr_logs +
	       (u64)sizeof(u32) * l->nr_bands;
}
EXPORT_SYMBOL_GPL(shingle_slotlogs_bytes);

/**
 * shingle_slotlog_mark() - mark the pieces of slots as changed
 * @l: the logs
 * @slot: the first slot
 * @n: number of slots, at least one, of one log
 *
 * Context: map lock.
 */
void shingle_slotlog_mark(struct shingle_slotlogs *l, u32 slot, u32 n)
{
	shingle_slotlog_mark_at(l, slot / l->log_blocks, slot % l->log_blocks, n);
}
EXPORT_SYMBOL_GPL(shingle_slotlog_mark);

/* Count @n slots of @log, from @slot on, that now hold blocks of @band, or no longer do. */
static __always_inline void count_live(struct shingle_slotlogs *l, u32 band, u32 log, u32 slot,
				       u32 n, bool more)
{
	struct shingle_slotlog_walk *w = &l->walk;
	u32 sign = more ? 1 : -1;

	l->band_live[band] += sign * n;
	l->log[log].live += sign * n;
	if (unlikely(log == w->log))
		w->live += sign * shingle_slotmap_seen(&l->map, slot, n);
	if (unlikely(log < w->log))
		w->in_logs += more ? n : -(u64)n;
	if (unlikely(band < w->bands))
		w->in_bands += more ? n : -(u64)n;
}

/* The same, and mark the slots. */
static __always_inline void change_slots(struct shingle_slotlogs *l, u32 band, u32 log, u32 at,
					 u32 n, bool more)
{
	shingle_slotlog_mark_at(l, log, at, n);
	count_live(l, band, log, log * l->log_blocks + at, n, more);
}

/**
 * shingle_slotlog_drop_run() - drop adjacent cached copies
 * @l: the logs
 * @band: band of their blocks
 * @slot: the first slot
 * @n: number of slots, of one log, with consecutive blocks
 *
 * Context: map lock.
 */
void shingle_slotlog_drop_run(struct shingle_slotlogs *l, u32 band, u32 slot, u32 n)
{
	shingle_slotmap_remove(&l->map, slot, n);
	change_slots(l, band, slot / l->log_blocks, slot % l->log_blocks, n, false);
}
EXPORT_SYMBOL_GPL(shingle_slotlog_drop_run);

/* Drop the copies of blocks of @band that are in slots before @below. */
static void drop_range(struct shingle_slotlogs *l, u32 band, u32 lblk, u32 n, u32 below)
{
	u32 part, slot, at;

	for (; l->band_live[band]; n -= part, lblk += part) {
		slot = shingle_slotmap_next(&l->map, &lblk, &n);
		if (slot == SHINGLE_NO_SLOT)
			return;
		at = slot % l->log_blocks;
		if (at < below) {
			part = shingle_slotmap_run(&l->map, slot, min3(n, below - at,
								       l->log_blocks - at));
			shingle_slotlog_drop_run(l, band, slot, part);
		} else {
			part = 1;
		}
	}
}

/*
 * Make slots of a log, from @at on, the current copies of blocks of a band, except for blocks that
 * have a later copy.
 */
static void adopt(struct shingle_slotlogs *l, u32 band, u32 log, u32 at, u32 lblk, u32 n)
{
	u32 first = log * l->log_blocks, below = l->by_slot ? at : U32_MAX, part, old, was;

	for (; n; n -= part, lblk += part, at += part) {
		part = shingle_slotmap_adopt(&l->map, first + at, lblk, n);
		if (part) {
			change_slots(l, band, log, at, part, true);
			continue;
		}
		part = 1;
		old = shingle_slotmap_find(&l->map, lblk);
		was = old % l->log_blocks;
		if (was >= below)
			continue;
		part = shingle_slotmap_run(&l->map, old, min3(n, below - was, l->log_blocks - was));
		shingle_slotmap_move(&l->map, old, first + at, part);
		change_slots(l, band, old / l->log_blocks, was, part, false);
		change_slots(l, band, log, at, part, true);
	}
}

/**
 * shingle_slotlog_commit() - the content of slots is on the medium
 * @l: the logs
 * @log: number of the log
 * @at: the first slot
 * @lblk: its logical block
 * @band: band of the blocks
 * @n: number of slots, as they were placed
 *
 * Context: map lock.
 */
void shingle_slotlog_commit(struct shingle_slotlogs *l, u32 log, u32 at, u32 lblk, u32 band,
			    u32 n)
{
	l->log[log].inflight--;
	adopt(l, band, log, at, lblk, n);
}
EXPORT_SYMBOL_GPL(shingle_slotlog_commit);

/**
 * shingle_slotlog_abort() - the write of slots has failed
 * @l: the logs
 * @log: number of the log
 * @n: number of slots, as they were placed
 *
 * The slots stay spent, since their content on the medium is unknown.
 *
 * Context: map lock.
 */
void shingle_slotlog_abort(struct shingle_slotlogs *l, u32 log, u32 n)
{
	l->log[log].inflight--;
	l->aborted_blocks += n;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_abort);

/**
 * shingle_slotlog_give_up() - hand out no more slots of a log
 * @l: the logs
 * @log: number of the log
 *
 * Context: map lock.
 */
void shingle_slotlog_give_up(struct shingle_slotlogs *l, u32 log)
{
	struct shingle_slotlog *g = &l->log[log];
	u32 slot = log * l->log_blocks;

	shingle_slotlog_mark(l, slot, l->log_blocks);
	for (; g->fill < l->log_blocks; g->fill++)
		l->map.owner[slot + g->fill] = SHINGLE_SLOT_SPENT;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_give_up);

/**
 * shingle_slotlog_drop() - drop cached copies
 * @l: the logs
 * @lblk: first logical block
 * @n: number of blocks, of one band
 * @below: drop only copies in slots of their log before this one; U32_MAX for all
 *
 * Context: map lock.
 */
void shingle_slotlog_drop(struct shingle_slotlogs *l, u32 lblk, u32 n, u32 below)
{
	drop_range(l, lblk / l->band_blocks, lblk, n, below);
}
EXPORT_SYMBOL_GPL(shingle_slotlog_drop);

/* Number of slots that one call empties: 64 KiB of memory. */
#define CLEAR_SLOTS	(16U * SHINGLE_WALK)

/**
 * shingle_slotlog_clear_some() - empty a part of the slots of a log
 * @l: the logs
 * @log: number of the log; none of its slots is current
 *
 * Marks nothing.
 *
 * Context: map lock.
 * Return: whether there are more.
 */
bool shingle_slotlog_clear_some(struct shingle_slotlogs *l, u32 log)
{
	struct shingle_slotlog *g = &l->log[log];
	u32 n = min(g->fill, CLEAR_SLOTS);

	g->fill -= n;
	memset(&l->map.owner[log * l->log_blocks + g->fill], 0, n * sizeof(u32));
	return g->fill;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_clear_some);

/**
 * shingle_slotlog_discard() - discard() of a part of a band
 * @l: the logs
 * @lblk: first logical block
 * @n: number of blocks to discard
 * @home: number of blocks of the band, from its first, that have content at home; without
 *	their cached copy that content would be read
 * @type: type of the record, which contains n blocks from a on
 * @done: as discard()
 * @emit: as discard(); one record
 *
 * Context: map lock.
 * Return: whether the blocks now read as zeroes.
 */
bool shingle_slotlog_discard(struct shingle_slotlogs *l, u32 lblk, u64 n, u32 home, u16 type,
			     u64 *done, struct shingle_emit *emit)
{
	u32 band = lblk / l->band_blocks, offset = lblk % l->band_blocks;
	bool dropped = offset >= home;

	*done = min3(n, (u64)(dropped ? l->band_blocks : home) - offset,
		     (u64)SHINGLE_SLOTLOG_RUN);
	if (dropped && l->band_live[band]) {
		shingle_slotlog_drop(l, lblk, *done, U32_MAX);
		shingle_emit(emit, type, *done, 0, lblk, 0);
	}
	return dropped;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_discard);

/**
 * shingle_slotlog_clear() - empty all slots of a log
 * @l: the logs
 * @log: number of the log; none of its slots is current
 *
 * Marks nothing.
 *
 * Context: map lock.
 */
void shingle_slotlog_clear(struct shingle_slotlogs *l, u32 log)
{
	while (shingle_slotlog_clear_some(l, log))
		;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_clear);

/**
 * shingle_slotlog_encode() - encode the slots of a piece
 * @l: the logs
 * @log: number of the log
 * @part: number of the piece in it
 * @p: a word for each slot
 *
 * The result depends on no slot behind this piece.
 *
 * Context: map lock.
 * Return: number of slots that were handed out, 0 if none.
 */
u32 shingle_slotlog_encode(const struct shingle_slotlogs *l, u32 log, u32 part, __le32 *p)
{
	u32 first = part * PART_SLOTS, n, i;

	if (first >= l->log[log].fill)
		return 0;
	n = min(l->log[log].fill - first, PART_SLOTS);
	for (i = 0; i < n; i++)
		p[i] = cpu_to_le32(l->map.owner[log * l->log_blocks + first + i]);
	return n;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_encode);

/* Drop the content of a slot that is about to receive other content. */
static void overwrite(struct shingle_slotlogs *l, u32 slot)
{
	u32 band = shingle_slotlog_band(l, slot);

	if (band != U32_MAX)
		shingle_slotlog_drop_run(l, band, slot, 1);
}

/**
 * shingle_slotlog_adopt() - restore a slot from a checkpoint
 * @l: the logs
 * @slot: the slot
 * @lblk: logical block
 *
 * Pieces of one checkpoint may contradict each other: a block may be in two slots.  Either choice
 * is right here, since the records since the checkpoint began correct it.
 *
 * Context: before I/O.
 * Return: 0, or -EUCLEAN if there is no such block.
 */
int shingle_slotlog_adopt(struct shingle_slotlogs *l, u32 slot, u32 lblk)
{
	if (lblk / l->band_blocks >= l->nr_bands)
		return -EUCLEAN;
	/* A sound checkpoint contains no piece twice. */
	overwrite(l, slot);
	adopt(l, lblk / l->band_blocks, slot / l->log_blocks, slot % l->log_blocks, lblk, 1);
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_adopt);

/**
 * shingle_slotlog_replay() - replay a record that slots hold blocks
 * @l: the logs
 * @lblk: first logical block
 * @slot: the first slot
 * @n: number of slots
 *
 * Context: before I/O.
 * Return: 0, or -EUCLEAN if the record is invalid.
 */
int shingle_slotlog_replay(struct shingle_slotlogs *l, u64 lblk, u64 slot, u32 n)
{
	u64 blocks = (u64)l->nr_bands * l->band_blocks;
	u32 log, offset, part, i;

	if (!n || lblk >= blocks || n > blocks - lblk || slot >= l->map.nr_slots)
		return -EUCLEAN;
	log = (u32)slot / l->log_blocks;
	offset = (u32)slot % l->log_blocks;
	if (n > l->log_blocks - offset ||
	    !l->may_hold(l->engine, log, (u32)lblk / l->band_blocks))
		return -EUCLEAN;
	for (i = 0; i < n; i++)
		overwrite(l, slot + i);
	l->log[log].fill = max(l->log[log].fill, offset + n);
	/* They may be of several bands. */
	for (i = 0; i < n; i += part) {
		u32 at = (u32)lblk + i, band = at / l->band_blocks;

		part = min(n - i, l->band_blocks - at % l->band_blocks);
		if (!l->may_hold(l->engine, log, band))
			return -EUCLEAN;
		adopt(l, band, log, offset + i, at, part);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_replay);

/**
 * shingle_slotlog_replay_drop() - replay a record that blocks are dropped
 * @l: the logs
 * @lblk: first logical block
 * @n: number of blocks, of one band
 *
 * Context: before I/O.
 * Return: 0, or -EUCLEAN if the record is invalid.
 */
int shingle_slotlog_replay_drop(struct shingle_slotlogs *l, u64 lblk, u32 n)
{
	if (lblk >= (u64)l->nr_bands * l->band_blocks ||
	    n > l->band_blocks - (u32)lblk % l->band_blocks)
		return -EUCLEAN;
	shingle_slotlog_drop(l, lblk, n, U32_MAX);
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_replay_drop);

/**
 * shingle_slotlog_replay_clear() - replay a record that a log is empty
 * @l: the logs
 * @log: number of the log
 *
 * shingle_slotlog_ready() completes it.
 *
 * Context: before I/O.
 */
void shingle_slotlog_replay_clear(struct shingle_slotlogs *l, u32 log)
{
	u32 slot = log * l->log_blocks, i;

	for (i = 0; i < l->log_blocks && l->log[log].live; i++)
		overwrite(l, slot + i);
	l->map.looks += i;
	l->log[log].fill = 0;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_replay_clear);

/**
 * shingle_slotlog_ready() - check a log when its whole state is loaded
 * @l: the logs
 * @log: number of the log
 *
 * Context: before I/O.
 * Return: 0, or -EUCLEAN if it contains a block that it may not hold.
 */
int shingle_slotlog_ready(struct shingle_slotlogs *l, u32 log)
{
	const struct shingle_slotlog *g = &l->log[log];
	u32 *owner = &l->map.owner[log * l->log_blocks], offset;

	for (offset = 0; offset < l->log_blocks; offset++) {
		if (owner[offset] >= SHINGLE_SLOT_OWNED) {
			u32 band = (owner[offset] - SHINGLE_SLOT_OWNED) / l->band_blocks;

			if (offset >= g->fill || !l->may_hold(l->engine, log, band))
				return -EUCLEAN;
			continue;
		}
		/* It was placed, but the power was cut before the commit was durable. */
		owner[offset] = offset < g->fill ? SHINGLE_SLOT_SPENT : SHINGLE_SLOT_FREE;
	}
	if (g->fill)
		l->age = max(l->age, g->age + 1);
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_slotlog_ready);

static u32 verify_slot(const struct shingle_slotlogs *l, u32 slot, shingle_report_fn report,
		       void *ctx)
{
	u32 log = slot / l->log_blocks, offset = slot % l->log_blocks;
	enum shingle_slot_state state = shingle_slot_state(&l->map, slot);
	bool used = state != SHINGLE_SLOT_FREE, below = offset < l->log[log].fill;
	u32 lblk, band;

	if (used != below) {
		report(ctx, "slot %u of log %u is %s, but the fill mark is %u", offset, log,
		       used ? "used" : "free", l->log[log].fill);
		return 1;
	}
	if (state != SHINGLE_SLOT_OWNED)
		return 0;
	lblk = shingle_slot_lblk(&l->map, slot);
	band = lblk / l->band_blocks;
	if (band >= l->nr_bands || !l->may_hold(l->engine, log, band) ||
	    shingle_slotmap_find(&l->map, lblk) != slot) {
		report(ctx, "slot %u of log %u claims block %u wrongly", offset, log, lblk);
		return 1;
	}
	return 0;
}

/**
 * shingle_slotlogs_walk() - begin a walk over all logs
 * @l: the logs
 *
 * Context: map lock.
 */
void shingle_slotlogs_walk(struct shingle_slotlogs *l)
{
	l->map.seen = 0;
	l->map.seen_live = 0;
	memset(&l->walk, 0, sizeof(l->walk));
}
EXPORT_SYMBOL_GPL(shingle_slotlogs_walk);

/**
 * shingle_slotlogs_verify() - report every broken invariant in the walk's next part
 * @l: the logs, not all walked
 * @report: as verify()
 * @ctx: as verify()
 *
 * Checks slots of the log that the walk is in; after its last slot, the log.
 *
 * Context: map lock.
 * Return: number of broken invariants.
 */
u32 shingle_slotlogs_verify(struct shingle_slotlogs *l, shingle_report_fn report, void *ctx)
{
	struct shingle_slotlog_walk *w = &l->walk;
	const struct shingle_slotlog *g = &l->log[w->log];
	struct shingle_slotmap *m = &l->map;
	u32 log_end = (w->log + 1) * l->log_blocks, bad = 0;
	u32 end = m->seen + min(log_end - m->seen, SHINGLE_WALK);

	for (; m->seen < end; m->seen++) {
		bool live = shingle_slot_state(m, m->seen) == SHINGLE_SLOT_OWNED;

		bad += verify_slot(l, m->seen, report, ctx);
		m->seen_live += live;
		w->live += live;
	}
	if (end < log_end)
		return bad;
	if (w->live != g->live) {
		report(ctx, "log %u counts %u current blocks and has %u", w->log, g->live,
		       w->live);
		bad++;
	}
	w->in_logs += g->live;
	w->log++;
	w->live = 0;
	return bad;
}
EXPORT_SYMBOL_GPL(shingle_slotlogs_verify);

/**
 * shingle_slotlogs_verify_sums() - compare the sums at the end of the walk
 * @l: the logs, all walked, and all bands seen
 * @report: as verify()
 * @ctx: as verify()
 *
 * Resets the walk, so that changes need not update its counts any more.
 *
 * Context: map lock.
 * Return: 1 if the sums differ, else 0.
 */
u32 shingle_slotlogs_verify_sums(struct shingle_slotlogs *l, shingle_report_fn report, void *ctx)
{
	const struct shingle_slotlog_walk *w = &l->walk;
	const struct shingle_slotmap *m = &l->map;
	u32 bad = w->in_logs != m->live || w->in_logs != w->in_bands ||
		  w->in_logs != m->seen_live;

	if (bad)
		report(ctx, "cached blocks: %u hashed, %u slots, %llu by log, %llu by band",
		       m->live, m->seen_live, (unsigned long long)w->in_logs,
		       (unsigned long long)w->in_bands);
	shingle_slotlogs_walk(l);
	return bad;
}
EXPORT_SYMBOL_GPL(shingle_slotlogs_verify_sums);
