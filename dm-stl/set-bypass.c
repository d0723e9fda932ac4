// SPDX-License-Identifier: GPL-2.0
/*
 * Set-associative translation layer: streams past the cache.
 *
 * A stream that is alone and long enough writes home, one write at a time and in order, so
 * that what home holds is always a prefix of the band.  Nothing that counts may be in front
 * of its head: a band with content at home is staged first, and the stream then does what
 * WRITEBACK would have done, as far as it gets.  A band whose home holds nothing needs no
 * copy at all.
 *
 * With unsafe_bypass such a band is not staged.  As Skylight has it of its drive (2.4.11) the
 * stream is gathered in the volatile write cache, and a band is written over what is there
 * when all of it has come, or as much as there is when a flush wants it.  Then the rest is
 * read before.  Only the power can come between, and what the head has passed over by then
 * is lost.
 */
#include "set-state.h"

/* The stream will not go on to the end of its band. */
void stl_set_break_stream(struct stl_set *s)
{
	if (s->bypass.band == NO_BAND)
		return;
	s->bypass.band = NO_BAND;
	s->streams_broken++;
}

/*
 * No stream waits for a band to be staged any more.  Nor may others, who were
 * kept from its set for that: with no set being cleaned no step would come.
 */
void stl_set_drop_wanted_band(struct stl_set *s)
{
	s->bypass.wanted_band = NO_BAND;
	if (s->clean.set == NO_SET)
		s->clean.drain_set = NO_SET;
}

/*
 * Is this the stream's, but has overtaken its next write, which had to wait?
 * Who sends several at a time sends them in order; in the cache it would end
 * what it belongs to.  It can be refused, since the end of that write, or of the
 * step that this waits for, will wake both.  Where streams are gathered the next write may
 * never come here again: what the write cache has got of it meanwhile is replaced there.
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
 * These are blocks that are gathered: the stream goes on with them.  It may come again with
 * the last ones, if the write cache had no room for all; older ones are strangers.
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
 * A stream comes to the beginning of a band: 1 if it may write home, 0 if it
 * has to go to the cache, SET_GATHERS, -errno if it has to wait.
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
	/* Others wait for the staging band, or it is a drive that does without. */
	if (s->inplace || s->clean.set != NO_SET || s->clean.wanted_head != NO_SET) {
		stl_set_drop_wanted_band(s);
		return 0;
	}
	s->bypass.wanted_band = band;
	return -ENOSPC;
}

/*
 * Place a write at home, if streams are asked for: 1 if done, 0 if it goes to the cache,
 * SET_GATHERS if it is gathered, -errno to wait.
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
	s->bypassed_blocks += run->n;
	shingle_emit(emit, STL_SET_DIRECT, run->n, 0, run->lblk, 0);
}

/* What home holds ends before it, as ever. */
void stl_set_abort_home(struct stl_set *s, const struct shingle_run *run)
{
	struct shingle_stream *st = shingle_stream_at(&s->bypass.streams, run->lblk + run->n);

	s->bypass.flight_band = NO_BAND;
	stl_set_break_stream(s);
	if (st)
		shingle_stream_end(st);
}

/* An operation of struct shingle_engine_ops.  Runs of a band come together. */
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
