// SPDX-License-Identifier: GPL-2.0
/*
 * Set-associative translation layer: creates the state, tracks the content of homes,
 * verifies.
 */
#include "set/state.h"

void stl_set_mark_globals(struct stl_set *s)
{
	shingle_mark(&s->engine, s->first_piece[STL_SET_GLOBALS], 1);
}

static u32 prefix_word(const struct stl_set *s, u32 blocks)
{
	return blocks == s->band_blocks ? 0 : blocks;
}

void stl_set_note_home(struct stl_set *s, u32 band, u32 blocks)
{
	bool was_whole = s->home_blocks[band] == s->band_blocks, whole = blocks == s->band_blocks;
	u32 old = s->home_blocks[band];

	s->home_blocks[band] = blocks;
	if (whole != was_whole)
		shingle_mark(&s->engine, s->first_piece[STL_SET_WHOLE] + band / SHINGLE_CHUNK_BITS,
			     1);
	if (prefix_word(s, old) != prefix_word(s, blocks))
		shingle_mark(&s->engine, s->first_piece[STL_SET_PREFIXES] + band / PART_BANDS, 1);
}

void stl_set_write_home(struct stl_set *s, u32 band, u32 blocks)
{
	if (is_staged(s, band)) {
		s->staging.home_blocks = blocks;
		stl_set_mark_globals(s);
	} else {
		stl_set_note_home(s, band, blocks);
	}
}

/* Home is empty of @band from now on. */
void stl_set_forget_home(struct stl_set *s, u32 band)
{
	bool destroyed = s->home_blocks[band] && !whole_at_home(s, band);

	stl_set_note_home(s, band, destroyed ? HOME_DESTROYED : 0);
}

static bool may_hold(struct shingle_engine *e, u32 set, u32 band)
{
	return set_of_band(to_set(e), band) == set;
}

void stl_set_destroy(struct shingle_engine *e)
{
	struct stl_set *s = to_set(e);

	shingle_slotlogs_exit(&s->logs);
	kvfree(s->home_blocks);
	kvfree(s->clean.wanted);
	shingle_marks_exit(e);
	kvfree(s);
}

u64 stl_set_logical_blocks(const struct shingle_layout *l)
{
	return l->nr_bands[SHINGLE_ROLE_DATA] * l->band_blocks[SHINGLE_ROLE_DATA];
}

static int check_layout(const struct shingle_layout *l, const struct stl_set_params *p,
			const char **why)
{
	*why = NULL;
	if (!l->nr_bands[SHINGLE_ROLE_CACHE])
		*why = "stl-set needs at least one cache band";
	else if (l->nr_bands[SHINGLE_ROLE_STAGING] != 1)
		*why = "stl-set needs exactly one staging band";
	else if (l->band_blocks[SHINGLE_ROLE_STAGING] < l->band_blocks[SHINGLE_ROLE_DATA])
		*why = "stl-set needs a staging band that is no shorter than its data bands";
	else if (l->nr_bands[SHINGLE_ROLE_CACHE] >
		 SHINGLE_SLOTMAP_SLOTS / l->band_blocks[SHINGLE_ROLE_CACHE])
		*why = "stl-set can cache at most 2 TiB less 256 KiB";
	else if (l->logical_blocks != stl_set_logical_blocks(l))
		*why = "stl-set presents its data bands, no more and no less";
	else if (l->logical_blocks > SHINGLE_SLOTMAP_LBLKS)
		*why = "stl-set presents at most 16 TiB";
	else if (le32_to_cpu(p->set_shift) > 31)
		*why = "stl-set's set_shift is above 31";
	return *why ? -EINVAL : 0;
}

int stl_set_create(struct shingle_engine **out, const struct shingle_layout *layout,
		   const char **why)
{
	const struct stl_set_params *p = (const void *)layout->params;
	struct stl_set *s;
	u32 sets, bands, i;

	BUILD_BUG_ON(sizeof(*p) > SHINGLE_ENGINE_PARAMS_SIZE);
	if (check_layout(layout, p, why))
		return -EINVAL;

	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	sets = layout->nr_bands[SHINGLE_ROLE_CACHE];
	bands = layout->nr_bands[SHINGLE_ROLE_DATA];
	s->engine.ops = &stl_set_engine_ops;
	s->engine.discard_blocks = layout->band_blocks[SHINGLE_ROLE_DATA];
	s->layout = layout;
	s->band_blocks = layout->band_blocks[SHINGLE_ROLE_DATA];
	s->nr_bands = bands;
	s->nr_sets = sets;
	s->set_shift = le32_to_cpu(p->set_shift);
	s->clean.wanted_head = NO_SET;
	s->logs.engine = &s->engine;
	s->logs.may_hold = may_hold;
	s->logs.nr_logs = sets;
	s->logs.nr_bands = bands;
	s->logs.band_blocks = s->band_blocks;
	s->logs.log_blocks = layout->band_blocks[SHINGLE_ROLE_CACHE];
	for (i = 0; i < ARRAY_SIZE(s->first_piece); i++)
		s->first_piece[i] = shingle_pieces_nr(stl_set_pieces, i, layout);
	s->logs.first_piece = s->first_piece[STL_SET_SLOTS];
	/* All copies of a set are in its log, and slots are in the order of the writes. */
	s->logs.by_slot = true;
	s->clean.set = NO_SET;
	s->clean.drain_set = NO_SET;
	s->clean.reset_set = NO_SET;
	s->clean.step_band = NO_BAND;
	s->bypass.band = NO_BAND;
	s->bypass.flight_band = NO_BAND;
	s->bypass.wanted_band = NO_BAND;

	s->clean.wanted = shingle_zalloc_array(sets, sizeof(u32));
	s->home_blocks = shingle_zalloc_array(bands, sizeof(u32));
	if (!s->clean.wanted || !s->home_blocks || shingle_slotlogs_init(&s->logs) ||
	    shingle_marks_init(&s->engine, layout)) {
		stl_set_destroy(&s->engine);
		return -ENOMEM;
	}
	s->engine.cache_blocks = s->logs.map.nr_slots;
	*out = &s->engine;
	return 0;
}

static u32 verify_bands(struct stl_set *s, shingle_report_fn report, void *ctx)
{
	const struct shingle_slotlog_walk *w = &s->logs.walk;
	u32 end = w->bands + min(s->nr_bands - w->bands, SHINGLE_WALK), bad = 0;

	while (w->bands < end) {
		u32 band = w->bands;

		shingle_slotlogs_saw_band(&s->logs);
		if (at_home(s, band) > s->band_blocks) {
			report(ctx, "band %u holds %u blocks at home", band, at_home(s, band));
			bad++;
		}
	}
	return bad;
}

static u32 verify_stream(struct stl_set *s, shingle_report_fn report, void *ctx)
{
	const struct set_bypass *b = &s->bypass;
	u32 bad = 0;

	if (b->flight_band != NO_BAND &&
	    (b->flight_band == s->clean.step_band || b->flight_end > s->band_blocks ||
	     b->flight_end <= at_home(s, b->flight_band))) {
		report(ctx, "a write up to block %u of band %u is under way, %u are at home",
		       b->flight_end, b->flight_band, at_home(s, b->flight_band));
		bad++;
	}
	if (b->band != NO_BAND && !is_staged(s, b->band) &&
	    (b->band == s->clean.step_band || whole_at_home(s, b->band))) {
		report(ctx, "a stream goes on in band %u", b->band);
		bad++;
	}
	return bad;
}

/* Check sets, bands, and then the sums, with counts adjusted during the walk. */
u32 stl_set_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report,
		   void *ctx)
{
	struct stl_set *s = to_set(e);

	if (!*cursor)
		shingle_slotlogs_walk(&s->logs);
	(*cursor)++;
	if (!shingle_slotlogs_walked(&s->logs))
		return shingle_slotlogs_verify(&s->logs, report, ctx);
	if (s->logs.walk.bands < s->nr_bands)
		return verify_bands(s, report, ctx);
	*cursor = SHINGLE_NOWHERE;
	return verify_stream(s, report, ctx) +
	       shingle_slotlogs_verify_sums(&s->logs, report, ctx);
}
