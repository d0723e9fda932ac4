// SPDX-License-Identifier: GPL-2.0
/*
 * Fully-associative translation layer: writes, compared with the paper.
 *
 * Aghayev (2020), section 2.3.1:
 *
 *	write(block in logical band a, home b = dyn[a]):
 *		use a free band c of that zone		pick_log(), open_log()
 *		append block				stl_full_place()
 *		cache_map[block] = slot in c		stl_full_commit()
 *
 * Here c is the zone's open log, which takes blocks of any logical band.  A logical band that
 * is written in order from its first block on goes to a log of its own, the stream.  A full
 * log that holds all blocks of one logical band, in order and current, becomes its home
 * without a copy.
 */
#include "full/state.h"

/* After this many failed writes in a row to a log band, another one is used. */
#define ABORTS_IN_A_ROW		2U

static u32 unused_log(const struct stl_full *s, u32 zone)
{
	u32 log = zone * s->g.log_bands, end = log + s->g.log_bands;

	while (log < end && s->log[log].band != NO_BAND)
		log++;
	return log < end ? log : NO_LOG;
}

/*
 * The oldest log band with empty slots that is neither open, nor a stream's, nor being
 * cleaned.
 */
static u32 spare_log(const struct stl_full *s, u32 zone)
{
	const struct full_zone *z = &s->zone[zone];
	u32 log = zone * s->g.log_bands, end = log + s->g.log_bands, best = NO_LOG;

	for (; log < end; log++) {
		if (s->log[log].band == NO_BAND || shingle_slotlog_is_full(&s->logs, log) ||
		    log == z->open || log == z->stream || log == z->victim)
			continue;
		if (best == NO_LOG || s->logs.log[log].age < s->logs.log[best].age)
			best = log;
	}
	return best;
}

/* Could another log band be opened if the zone had @free free bands? */
bool stl_full_room(const struct stl_full *s, u32 zone, u32 free)
{
	return free > s->threshold && unused_log(s, zone) != NO_LOG;
}

static u32 open_log(struct stl_full *s, u32 zone)
{
	u32 log = unused_log(s, zone);
	struct full_log *l = &s->log[log];

	l->band = stl_full_take_band(s, zone);
	shingle_slotlog_open(&s->logs, log);
	l->aborts = 0;
	l->recorded = false;
	stl_full_set_use(s, l->band, USE_LOG, log);
	s->count.logs_opened++;
	return log;
}

/* The stream ends before the end of its band. */
void stl_full_break_stream(struct stl_full *s, struct full_zone *z)
{
	if (z->stream == NO_LOG)
		return;
	z->stream = NO_LOG;
	s->count.streams_broken++;
}

/* Choose the log for a write at @offset of @band. */
static int pick_log(struct stl_full *s, u32 band, u32 offset, u32 *log)
{
	u32 zone = zone_of_band(s, band);
	struct full_zone *z = &s->zone[zone];

	if (z->stream != NO_LOG && z->stream_band == band) {
		*log = z->stream;
		if (offset == s->logs.log[*log].fill)
			return 0;
		stl_full_break_stream(s, z);
	}
	/*
	 * A write to the first block may begin a stream over the whole band.  If an
	 * abandoned log has empty slots it must be filled first; otherwise stray writes to
	 * first blocks would use up all bands.
	 */
	if (!offset && spare_log(s, zone) == NO_LOG) {
		bool room = stl_full_room(s, zone, z->free);

		/* A waiting write needs this room, too. */
		if (room && !z->wanted) {
			stl_full_break_stream(s, z);
			*log = open_log(s, zone);
			z->stream = *log;
			z->stream_band = band;
			return 0;
		}
		/* Waiting for a commit costs less than cleaning the band later. */
		if (!room && z->pending && stl_full_room(s, zone, z->free + z->pending))
			return -EBUSY;
	}
	if (!has_room(s, z->open))
		z->open = spare_log(s, zone);
	if (z->open == NO_LOG && stl_full_room(s, zone, z->free))
		z->open = open_log(s, zone);
	if (z->open == NO_LOG && z->stream != NO_LOG) {
		z->open = z->stream;
		stl_full_break_stream(s, z);
	}
	if (z->open == NO_LOG) {
		s->count.full_zones += !z->wanted;
		z->wanted = true;
		return -ENOSPC;
	}
	/* A waiting write finds this log, too, so the cleaner need not go on. */
	z->wanted = false;
	*log = z->open;
	return 0;
}

int stl_full_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		   struct shingle_run *out)
{
	struct stl_full *s = to_full(e);
	u32 band = (u32)lblk / s->band_blocks, offset = (u32)lblk % s->band_blocks;
	struct full_zone *z = &s->zone[zone_of_band(s, band)];
	u32 log;
	int r;

	/*
	 * A step is moving the band's content, or will when its writes have ended: wait one
	 * step.
	 */
	if (band == s->clean.step_band)
		return -EBUSY;
	/*
	 * The cleaner needs the band.  When its writes have ended, -ENOSPC makes core start
	 * the cleaner, in case it has stopped; the cleaner then lets the write in.
	 */
	if (band == s->clean.drain_band)
		return s->band_inflight[band] ? -EBUSY : -ENOSPC;
	r = pick_log(s, band, offset, &log);
	if (r)
		return r;
	n = min(n, s->band_blocks - offset);
	n = min3(n, s->band_blocks - s->logs.log[log].fill, (u32)SHINGLE_SLOTLOG_RUN);

	out->lblk = lblk;
	out->pblk = band_pblk(s, s->log[log].band) + shingle_slotlog_place(&s->logs, log, n);
	out->n = n;
	out->kind = SHINGLE_RUN_MAPPED;
	s->band_inflight[band]++;
	/* A stream that has reached its end is an ordinary log band. */
	if (log == z->stream && shingle_slotlog_is_full(&s->logs, log))
		z->stream = NO_LOG;
	return 0;
}

/* The log holds nothing current; its number may be used again. */
void stl_full_clear_log(struct stl_full *s, u32 log, struct shingle_emit *emit)
{
	struct full_zone *z = &s->zone[zone_of_log(s, log)];

	shingle_slotlog_clear(&s->logs, log);
	shingle_slotlog_mark(&s->logs, log * s->band_blocks, s->band_blocks);
	s->log[log].band = NO_BAND;
	if (z->open == log)
		z->open = NO_LOG;
	if (z->stream == log)
		z->stream = NO_LOG;
	if (z->victim == log)
		z->victim = NO_LOG;
	shingle_emit(emit, STL_FULL_FREE, 0, 0, log, 0);
}

/*
 * Every slot of @log is current.  If the slots are one band in order, the log becomes its
 * home.
 */
static void try_switch(struct stl_full *s, u32 log, struct shingle_emit *emit)
{
	u32 slot = log * s->band_blocks, lblk = shingle_slot_lblk(&s->logs.map, slot);
	u32 band = lblk / s->band_blocks;

	if (lblk % s->band_blocks ||
	    shingle_slotmap_run(&s->logs.map, slot, s->band_blocks) < s->band_blocks)
		return;
	/* The run is in order, so no lookup per block is needed. */
	shingle_slotlog_drop_run(&s->logs, band, slot, s->band_blocks);
	stl_full_move_home(s, band, s->log[log].band, emit);
	stl_full_clear_log(s, log, emit);
	s->count.bands_switched++;
}

static u32 log_of(const struct stl_full *s, u64 pblk, u32 *offset)
{
	enum shingle_role role;
	u64 band, at;

	shingle_band_of(s->layout, pblk, &role, &band, &at);
	*offset = at;
	return use_which(s, band);
}

void stl_full_commit(struct shingle_engine *e, const struct shingle_run *run,
		     struct shingle_emit *emit)
{
	struct stl_full *s = to_full(e);
	u32 lblk = run->lblk, band = lblk / s->band_blocks, offset;
	u32 log = log_of(s, run->pblk, &offset);
	struct full_log *l = &s->log[log];

	shingle_slotlog_commit(&s->logs, log, offset, lblk, band, run->n);
	l->aborts = 0;
	s->band_inflight[band]--;
	/*
	 * The place of the log must be in the journal before a record that maps a block to
	 * it.
	 */
	if (!l->recorded)
		shingle_emit(emit, STL_FULL_OPEN, 0, s->logs.log[log].age, log, l->band);
	l->recorded = true;
	shingle_emit(emit, STL_FULL_MAP, run->n, 0, lblk, log * s->band_blocks + offset);
	if (s->logs.log[log].live == s->band_blocks)
		try_switch(s, log, emit);
}

/* Can writes that do not go to @log go elsewhere? */
static bool other_log(const struct stl_full *s, u32 zone, u32 log)
{
	const struct full_zone *z = &s->zone[zone];
	u32 spare = spare_log(s, zone);

	return stl_full_room(s, zone, z->free) || (spare != NO_LOG && spare != log) ||
	       (z->open != log && has_room(s, z->open));
}

/*
 * Stop writing to @log if another log can take the writes.  After a recovery it may take
 * writes again: no record distinguishes slots that were given up from slots never placed.
 */
static void give_up_log(struct stl_full *s, u32 log)
{
	u32 zone = zone_of_log(s, log);
	struct full_zone *z = &s->zone[zone];

	if (!other_log(s, zone, log))
		return;
	if (z->stream == log)
		stl_full_break_stream(s, z);
	shingle_slotlog_give_up(&s->logs, log);
}

void stl_full_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct stl_full *s = to_full(e);
	u32 offset, log = log_of(s, run->pblk, &offset);
	struct full_log *l = &s->log[log];

	shingle_slotlog_abort(&s->logs, log, run->n);
	s->band_inflight[(u32)run->lblk / s->band_blocks]--;
	stl_full_band_failed(s, l->band);
	if (++l->aborts >= ABORTS_IN_A_ROW && has_room(s, log))
		give_up_log(s, log);
}
