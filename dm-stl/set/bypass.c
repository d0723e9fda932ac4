// SPDX-License-Identifier: GPL-2.0
/*
 * Set-associative translation layer: streams past the cache.
 *
 * A stream that is alone and long enough is written home, one write at a time and in order,
 * so home always holds a prefix of the band.  No needed block may be under its head.  So a
 * band with content at home is staged first, and the stream replaces WRITEBACK as far as it
 * gets.  A band with an empty home needs no copy.
 *
 * With unsafe_bypass, a band with content is not staged.  As Skylight reports of its drive
 * (2.4.11), the volatile write cache gathers the stream, and a band is overwritten in place
 * when all of it has been gathered, or, when a flush requires it, as much as there is; the
 * rest is read before.  A power cut during this write loses what the head has destroyed by
 * then.
 */
#include "set/state.h"

/* The stream ends before the end of its band. */
void stl_set_break_stream(struct stl_set *s)
{
	if (s->bypass.band == NO_BAND)
		return;
	s->bypass.band = NO_BAND;
	s->count.streams_broken++;
}

/*
 * No stream waits for a band to be staged any more.  Also let other writes into its set,
 * which was drained for the stream: if no set is being cleaned, no step will end their
 * wait.
 */
void stl_set_drop_wanted_band(struct stl_set *s)
{
	s->bypass.wanted_band = NO_BAND;
	if (s->clean.set == NO_SET)
		s->clean.drain_set = NO_SET;
}

/*
 * Is this a write of the stream that has overtaken the stream's next write, which had to
 * wait?  A host that sends several writes at a time sends them in order.  In the cache
 * this one would end the stream.  It can be refused, since the end of that write, or of the
 * step that it waits for, wakes both.  Where streams are gathered, the next write may never
 * come here again, because the write cache may merge it with a newer one; then the write is
 * not refused.
 */
static bool runs_ahead(struct stl_set *s, u32 lblk)
{
	const struct shingle_stream *st = shingle_stream_alone(&s->bypass.streams);

	if (!st || lblk <= st->next || lblk - st->next >= s->band_blocks)
		return false;
	return s->bypass.flight_band != NO_BAND || s->bypass.wanted_band != NO_BAND ||
	       (st->awaited && !s->unsafe_bypass);
}

/*
 * Gather these blocks and continue the stream after them.  If the write cache had no room
 * for all, core may ask for the last ones again; older blocks are not the stream's.
 */
static int gather(struct stl_set *s, u32 lblk, u32 n)
{
	struct set_bypass *b = &s->bypass;

	stl_set_break_stream(s);
	if (lblk != b->gather_end)
		b->gather_from = lblk;
	b->gather_end = lblk + n;
	b->gather_from = max(b->gather_from, b->gather_end - min(b->gather_end,
								 s->engine.buffer_blocks));
	return SET_GATHERS;
}

/*
 * A stream reaches the beginning of a band.  Returns 1 if it may write home, 0 if it goes
 * to the cache, SET_GATHERS, or -errno if it has to wait.
 */
static int enter_band(struct stl_set *s, u32 band)
{
	if (band == s->clean.step_band)
		return band == s->bypass.wanted_band ? -EBUSY : 0;
	if (is_staged(s, band))
		return 0;
	if (!at_home(s, band)) {
		stl_set_break_stream(s);
		s->bypass.band = band;
		stl_set_drop_wanted_band(s);
		return 1;
	}
	if (s->unsafe_bypass)
		return SET_GATHERS;
	/* The staging band is needed by a clean, or rewrites are in place and use none. */
	if (s->inplace || s->clean.set != NO_SET || s->clean.wanted_head != NO_SET) {
		stl_set_drop_wanted_band(s);
		return 0;
	}
	s->bypass.wanted_band = band;
	return -ENOSPC;
}

/*
 * Place a stream's write at home.  Returns 1 if placed, 0 if it goes to the cache,
 * SET_GATHERS if it is gathered, or -errno if it has to wait.
 */
int stl_set_place_home(struct stl_set *s, struct shingle_stream *st, u32 lblk, u32 n,
		       struct shingle_run *out)
{
	u32 band = lblk / s->band_blocks, offset = lblk % s->band_blocks;
	bool ready = band == s->bypass.band && offset == at_home(s, band);
	int r;

	if (!st || st->alone < s->bypass.streams.alone_blocks) {
		/* A second stream has ended this one. */
		if (st && ready)
			stl_set_break_stream(s);
		return runs_ahead(s, lblk) ? -EBUSY : 0;
	}
	if (offset && lblk == s->bypass.gather_end)
		return gather(s, lblk, n);
	if (offset && !ready && s->bypass.flight_band != band)
		return 0;
	st->awaited = true;
	if (s->bypass.flight_band != NO_BAND)
		return -EBUSY;
	if (!ready) {
		r = enter_band(s, band);
		if (r == SET_GATHERS)
			return gather(s, lblk, n);
		if (r <= 0)
			return r;
	}
	if (!offset && s->bypass.home_pending)
		return -EBUSY;
	if (!s->home_blocks[band])
		stl_set_note_home(s, band, HOME_DESTROYED);
	s->bypass.flight_band = band;
	s->bypass.flight_end = offset + n;
	if (s->bypass.flight_end == s->band_blocks)
		s->bypass.band = NO_BAND;
	out->pblk = native(s, band) + offset;
	out->n = n;
	return 1;
}

void stl_set_commit_home(struct stl_set *s, const struct shingle_run *run,
			 struct shingle_emit *emit)
{
	u32 band = (u32)run->lblk / s->band_blocks;

	stl_set_write_home(s, band, s->bypass.flight_end);
	shingle_slotlog_drop(&s->logs, run->lblk, run->n, U32_MAX);
	s->bypass.flight_band = NO_BAND;
	s->count.bypassed_blocks += run->n;
	shingle_emit(emit, STL_SET_DIRECT, run->n, 0, run->lblk, 0);
}

/* The prefix at home still ends before the failed write. */
void stl_set_abort_home(struct stl_set *s, const struct shingle_run *run)
{
	struct shingle_stream *st = shingle_stream_at(&s->bypass.streams, run->lblk + run->n);

	s->bypass.flight_band = NO_BAND;
	stl_set_break_stream(s);
	if (st)
		shingle_stream_end(st);
}

/* An operation of struct shingle_engine_ops.  Core passes the runs of a band together. */
int stl_set_epoch_add(struct shingle_engine *e, u64 lblk, u32 n)
{
	struct stl_set *s = to_set(e);
	struct set_epoch *ep = &s->epoch;
	u32 band = (u32)lblk / s->band_blocks;

	if (!ep->nr || ep->band[ep->nr - 1] != band) {
		if (ep->nr == SET_EPOCH_BANDS)
			return -ENOSPC;
		ep->band[ep->nr] = band;
		ep->blocks[ep->nr++] = 0;
	}
	ep->blocks[ep->nr - 1] += n;
	return 0;
}

/* An operation of struct shingle_engine_ops. */
void stl_set_epoch_end(struct shingle_engine *e)
{
	struct set_epoch *ep = &to_set(e)->epoch;

	ep->nr = 0;
	ep->at = 0;
}
