// SPDX-License-Identifier: GPL-2.0
/*
 * Fully-associative translation layer: what physical bands are used for.
 *
 * Progress.  Of a zone's bands, @provision are no home: they are free, a log,
 * pending or the destination of the step in progress.  There are at most
 * @provision - 1 logs, so free + pending + destination is at least 1 always: a
 * step turns its destination into a home and that home into a pending band.
 * Pending bands become free by release(), which core sees to when somebody
 * waits.  So if there is a log, some step can be taken, now or after a release;
 * a step empties it of at least one logical band, and a log that is cleaned
 * takes no new blocks.  If there is no log, all of @provision > @threshold are
 * free after a release, and one can be opened.
 */
#include "full/state.h"

void stl_full_set_written(struct stl_full *s, u32 band, bool written)
{
	if (test_bit(band, s->written) == written)
		return;
	if (written)
		__set_bit(band, s->written);
	else
		__clear_bit(band, s->written);
	shingle_mark(&s->engine, s->first_piece[STL_FULL_WRITTEN] + band / SHINGLE_CHUNK_BITS, 1);
}

static void stl_full_set_home(struct stl_full *s, u32 band, u32 to)
{
	s->home[band] = to;
	shingle_mark(&s->engine, s->first_piece[STL_FULL_HOMES] + band / PART_HOMES, 1);
}

void stl_full_set_use(struct stl_full *s, u32 band, u32 kind, u32 which)
{
	struct full_walk *w = &s->walk;

	if (unlikely(band < w->uses &&
		     zone_of_physical(s, band) == zone_of_physical(s, w->uses))) {
		w->nr[use_kind(s, band)]--;
		w->nr[kind]++;
	}
	if (kind == USE_FREE)
		__set_bit(band, s->bands.is_free);
	else
		__clear_bit(band, s->bands.is_free);
	s->bands.use[band] = kind << USE_SHIFT | which;
}

/*
 * A free band of the zone, which has some: the first that did not fail, or the one that
 * failed the longest ago.  Core gives up after a few tries, and each is in another band
 * as long as there are any.
 */
u32 stl_full_free_band(const struct stl_full *s, u32 zone)
{
	u32 end = end_band(s, zone), best = NO_BAND, band;

	for (band = find_next_bit(s->bands.is_free, end, first_band(s, zone)); band < end;
	     band = find_next_bit(s->bands.is_free, end, band + 1)) {
		if (best == NO_BAND || s->bands.failed[band] < s->bands.failed[best])
			best = band;
		if (!s->bands.failed[best])
			break;
	}
	return best;
}

/* The caller says what for. */
u32 stl_full_take_band(struct stl_full *s, u32 zone)
{
	u32 band = stl_full_free_band(s, zone);

	s->zone[zone].free--;
	return band;
}

void stl_full_give_band(struct stl_full *s, u32 band)
{
	stl_full_set_use(s, band, USE_FREE, 0);
	s->zone[zone_of_physical(s, band)].free++;
}

/* What was to be written to @band was not, or perhaps not. */
void stl_full_band_failed(struct stl_full *s, u32 band)
{
	s->bands.failed[band] = ++s->bands.failures;
}

/* Nothing refers to @band any more once transaction @seq is durable. */
void stl_full_retire_band(struct stl_full *s, u32 band, u64 seq)
{
	u32 at = (s->bands.pending_head + s->bands.nr_pending) % s->bands.nr_pending_max;

	stl_full_set_use(s, band, USE_PENDING, 0);
	s->bands.pending[at].seq = seq;
	s->bands.pending[at].band = band;
	s->bands.nr_pending++;
	s->zone[zone_of_physical(s, band)].pending++;
}

/* All of @band is at @to; what it was before and in logs counts no more. */
void stl_full_move_home(struct stl_full *s, u32 band, u32 to, struct shingle_emit *emit)
{
	drop_band(s, band);
	stl_full_retire_band(s, s->home[band], emit->seq);
	stl_full_set_home(s, band, to);
	stl_full_set_use(s, to, USE_HOME, band);
	/* All of it was written. */
	s->bands.failed[to] = 0;
	stl_full_set_written(s, band, true);
	shingle_emit(emit, STL_FULL_HOME, 0, 0, band, to);
}

bool stl_full_release(struct shingle_engine *e, u64 seq)
{
	struct stl_full *s = to_full(e);
	u32 most = SHINGLE_WALK;

	while (s->bands.nr_pending && s->bands.pending[s->bands.pending_head].seq <= seq) {
		u32 band = s->bands.pending[s->bands.pending_head].band;

		s->bands.pending_head = (s->bands.pending_head + 1) % s->bands.nr_pending_max;
		s->bands.nr_pending--;
		s->zone[zone_of_physical(s, band)].pending--;
		stl_full_give_band(s, band);
		if (!--most)
			return true;
	}
	return false;
}

bool stl_full_pending(struct shingle_engine *e)
{
	return to_full(e)->bands.nr_pending;
}
