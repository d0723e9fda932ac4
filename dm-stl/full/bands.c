// SPDX-License-Identifier: GPL-2.0
/*
 * Fully-associative translation layer: the uses of physical bands.
 *
 * Progress.  @provision bands of each zone are not a home.  They are free, a log, pending,
 * or the destination of the step in progress.  There are at most @provision - 1 logs, so
 * free + pending + destination is always at least 1: a step turns its destination into a
 * home and the old home into a pending band.  Pending bands become free in release(), which
 * core calls when a write or the cleaner waits.  So while there is a log, a step is
 * possible, now or after a release.  Each step removes at least one logical band from a
 * log, and a log that is being cleaned takes no new blocks.  If there is no log, all
 * @provision > @threshold bands are free after a release, and a log can be opened.
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
 * Choose a free band of the zone, which must have one: the first that has not failed, or
 * else the one that failed longest ago.  Core gives up after a few tries; each try uses
 * another band while there are any.
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

/* The caller sets the band's use. */
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

/* A write to @band failed or was interrupted. */
void stl_full_band_failed(struct stl_full *s, u32 band)
{
	s->bands.failed[band] = ++s->bands.failures;
}

/* The map no longer refers to @band once transaction @seq is durable. */
void stl_full_retire_band(struct stl_full *s, u32 band, u64 seq)
{
	u32 at = (s->bands.pending_head + s->bands.nr_pending) % s->bands.nr_pending_max;

	stl_full_set_use(s, band, USE_PENDING, 0);
	s->bands.pending[at].seq = seq;
	s->bands.pending[at].band = band;
	s->bands.nr_pending++;
	s->zone[zone_of_physical(s, band)].pending++;
}

/* From now on @to is the home of all of @band; the old home and cached copies are stale. */
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
