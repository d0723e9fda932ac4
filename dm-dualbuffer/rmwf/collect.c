// SPDX-License-Identifier: GPL-2.0
/*
 * The garbage collector (Ma 2019, section 5.3.5): chooses blocks to bring home by cost and
 * popularity.
 *
 * To bring a block home, its column must be rewritten from its track to the end of the
 * stored data.  A whole track takes as long as one block of each track, so the collector
 * rewrites whole tracks of a band, and brings home all blocks that wait for these tracks.
 * So the only choice is the first track.  The thesis's cost of a block (Figure 5.6) is the
 * number of later tracks, up to the end.
 */
#include "rmwf/flash.h"

static bool is_cached(const struct rmwf_flash *f, u32 slot)
{
	return shingle_slot_state(&f->map, slot) == SHINGLE_SLOT_OWNED;
}

static u32 band_of(const struct rmwf_flash *f, u32 slot)
{
	return shingle_slot_lblk(&f->map, slot) / f->space->band_blocks;
}

/* The band with most cached blocks among the bands of these pages. */
static u32 fullest_band(const struct rmwf_flash *f, const struct rmwf_want *want)
{
	u32 i, best = U32_MAX;

	for (i = want->from; i < want->from + want->n; i++) {
		if (is_cached(f, i) &&
		    (best == U32_MAX || f->cached[band_of(f, i)] > f->cached[best]))
			best = band_of(f, i);
	}
	return best;
}

static u32 choose_band(const struct rmwf_flash *f, const struct rmwf_want *want)
{
	return want->of_first ? band_of(f, want->from) : fullest_band(f, want);
}

/* Count the pages of the band by track: cold ones, and all. */
static u32 count_tracks(struct rmwf_flash *f, const struct rmwf_want *want, u32 band, u16 *cold,
			u16 *all)
{
	u32 i, end = 0;

	for (i = want->from; i < want->from + want->n; i++) {
		u32 track;

		if (!is_cached(f, i) || band_of(f, i) != band)
			continue;
		track = rmwf_locate(f->space, shingle_slot_lblk(&f->map, i)).track;
		all[track]++;
		cold[track] += f->count[i] <= want->hot;
		end = max(end, track + 1);
	}
	return end;
}

/* Popular blocks need not stay popular, so counts are halved. */
static void age(struct rmwf_flash *f, const struct rmwf_want *want)
{
	u32 i;

	for (i = want->from; i < want->from + want->n; i++)
		f->count[i] /= 2;
}

/**
 * rmwf_collect() - choose the band to rewrite, and the first track
 * @f: the flash
 * @want: the request
 * @row: work space: two numbers per track of a band, which are zero before and after
 * @v: result
 *
 * Among the tracks that free enough pages, the one with the most cold pages per rewritten
 * track is chosen.  If no track frees enough, because too many blocks are hot, hot blocks
 * go home, too (R5).
 *
 * Context: map lock; O(requested pages + tracks of a band).
 * Return: false if no page holds a block; with @literal also if all blocks are hot.
 */
bool rmwf_collect(struct rmwf_flash *f, const struct rmwf_want *want, u16 *row,
		  struct rmwf_victim *v)
{
	u32 band = choose_band(f, want), tracks, end, t, cold = 0, all = 0, enough, total = 0;
	u16 *cold_of = row, *all_of;
	bool found = false;

	if (band == U32_MAX)
		return false;
	tracks = DIV_ROUND_UP(f->space->band_blocks, rmwf_track_blocks(f->space, band));
	all_of = row + tracks;
	end = count_tracks(f, want, band, cold_of, all_of);
	for (t = 0; t < end; t++)
		total += all_of[t];
	enough = clamp(DIV_ROUND_UP(want->n * want->percent, 100), 1U, total);
	*v = (struct rmwf_victim){ .band = band, .end = max(end, rmwf_chain_end(f->space, band)) };
	for (t = end; t--;) {
		u32 cost = v->end - t;

		cold += cold_of[t];
		all += all_of[t];
		if (!all_of[t] || (want->literal ? !cold : all < enough))
			continue;
		/* The ratio cold / cost is better. */
		if (!found || (u64)cold * (v->end - v->track) > (u64)v->cold * cost) {
			v->track = t;
			v->cold = cold;
			v->all = all;
			found = true;
		}
	}
	memset(row, 0, 2 * tracks * sizeof(*row));
	age(f, want);
	return found;
}
