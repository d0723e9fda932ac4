// SPDX-License-Identifier: GPL-2.0
/* Fully-associative translation layer: creates the state and verifies it. */
#include "full/state.h"

#define IDLE_MS			1000

/**
 * stl_full_params_wrong() - check the parameters of zones
 * @zone_bands: see struct stl_full_params
 * @provision: see struct stl_full_params
 * @log_bands: see struct stl_full_params
 *
 * Context: any.
 * Return: a sentence that says what is wrong, or NULL.
 */
const char *stl_full_params_wrong(u32 zone_bands, u32 provision, u32 log_bands)
{
	if (provision < 2)
		return "stl-full needs a provision of at least 2 bands";
	if (provision >= zone_bands)
		return "stl-full's zones must have more bands than they keep as provision";
	if (!log_bands || log_bands >= provision)
		return "stl-full needs from 1 log band to one less than the provision";
	return NULL;
}

static int full_shape(const struct shingle_layout *l, struct full_shape *g, const char **why)
{
	const struct stl_full_params *p = (const void *)l->params;

	BUILD_BUG_ON(sizeof(*p) > SHINGLE_ENGINE_PARAMS_SIZE);
	*why = NULL;
	if (l->nr_bands[SHINGLE_ROLE_DATA] >= 1U << USE_SHIFT)
		*why = "stl-full has at most 2^29 - 1 bands";
	else if (l->nr_bands[SHINGLE_ROLE_CACHE] || l->nr_bands[SHINGLE_ROLE_STAGING])
		*why = "stl-full has no cache bands and no staging bands of its own";
	if (*why)
		return -EINVAL;
	g->bands = l->nr_bands[SHINGLE_ROLE_DATA];
	g->zone_bands = min(le32_to_cpu(p->zone_bands), g->bands);
	g->provision = le32_to_cpu(p->provision);
	g->log_bands = le32_to_cpu(p->log_bands);
	*why = stl_full_params_wrong(g->zone_bands, g->provision, g->log_bands);
	if (*why)
		return -EINVAL;
	g->nr_zones = DIV_ROUND_UP(g->bands, g->zone_bands);
	/* A zone needs at least one addressable band. */
	if (g->bands - (g->nr_zones - 1) * g->zone_bands <= g->provision)
		g->nr_zones--;
	return 0;
}

/* Number of logical bands; 0 if the layout is invalid. */
u32 stl_full_nr_bands(const struct shingle_layout *l)
{
	struct full_shape g;
	const char *why;

	return full_shape(l, &g, &why) ? 0 : g.bands - g.nr_zones * g.provision;
}

u64 stl_full_logical_blocks(const struct shingle_layout *l)
{
	return (u64)stl_full_nr_bands(l) * l->band_blocks[SHINGLE_ROLE_DATA];
}

static bool may_hold(struct shingle_engine *e, u32 log, u32 band)
{
	struct stl_full *s = to_full(e);

	return zone_of_band(s, band) == zone_of_log(s, log);
}

void stl_full_destroy(struct shingle_engine *e)
{
	struct stl_full *s = to_full(e);

	shingle_slotlogs_exit(&s->logs);
	kvfree(s->log);
	kvfree(s->zone);
	kvfree(s->home);
	kvfree(s->written);
	kvfree(s->band_inflight);
	kvfree(s->bands.use);
	kvfree(s->bands.is_free);
	kvfree(s->bands.failed);
	kvfree(s->bands.pending);
	shingle_marks_exit(e);
	kvfree(s);
}

static int check_layout(const struct shingle_layout *l, struct full_shape *g, const char **why)
{
	if (full_shape(l, g, why))
		return -EINVAL;
	if ((u64)g->nr_zones * g->log_bands >
	    SHINGLE_SLOTMAP_SLOTS / l->band_blocks[SHINGLE_ROLE_DATA])
		*why = "stl-full can cache at most 2 TiB less 256 KiB";
	else if (l->logical_blocks != stl_full_logical_blocks(l))
		*why = "stl-full presents its data bands without the provision of each zone";
	else if (l->logical_blocks > SHINGLE_SLOTMAP_LBLKS)
		*why = "stl-full presents at most 16 TiB";
	return *why ? -EINVAL : 0;
}

/* Number of log bands in all zones; 0 if the layout is invalid. */
u32 stl_full_nr_logs(const struct shingle_layout *l)
{
	struct full_shape g;
	const char *why;

	return full_shape(l, &g, &why) ? 0 : g.nr_zones * g.log_bands;
}

static bool allocate(struct stl_full *s)
{
	s->log = shingle_zalloc_array(s->logs.nr_logs, sizeof(*s->log));
	s->zone = shingle_zalloc_array(s->g.nr_zones, sizeof(*s->zone));
	s->home = shingle_zalloc_array(s->nr_bands, sizeof(u32));
	s->written = shingle_zalloc_array(BITS_TO_LONGS(s->nr_bands), sizeof(unsigned long));
	s->band_inflight = shingle_zalloc_array(s->nr_bands, sizeof(u32));
	s->bands.use = shingle_zalloc_array(s->g.bands, sizeof(u32));
	s->bands.is_free = shingle_zalloc_array(BITS_TO_LONGS(s->g.bands), sizeof(unsigned long));
	s->bands.failed = shingle_zalloc_array(s->g.bands, sizeof(u32));
	s->bands.pending = shingle_zalloc_array(s->bands.nr_pending_max, sizeof(*s->bands.pending));
	return s->log && s->zone && s->home && s->written && s->band_inflight && s->bands.use &&
	       s->bands.is_free && s->bands.failed && s->bands.pending &&
	       !shingle_slotlogs_init(&s->logs) &&
	       !shingle_marks_init(&s->engine, s->layout);
}

int stl_full_create(struct shingle_engine **out, const struct shingle_layout *layout,
		    const char **why)
{
	struct full_shape g;
	struct stl_full *s;
	u32 i;

	if (check_layout(layout, &g, why))
		return -EINVAL;
	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->engine.ops = &stl_full_engine_ops;
	s->engine.discard_blocks = layout->band_blocks[SHINGLE_ROLE_DATA];
	s->engine.idle_ms = IDLE_MS;
	s->layout = layout;
	s->band_blocks = layout->band_blocks[SHINGLE_ROLE_DATA];
	s->g = g;
	s->nr_bands = g.bands - g.nr_zones * g.provision;
	s->logs.nr_logs = g.nr_zones * g.log_bands;
	s->bands.nr_pending_max = g.nr_zones * g.provision;
	s->logs.engine = &s->engine;
	s->logs.may_hold = may_hold;
	s->logs.nr_bands = s->nr_bands;
	s->logs.band_blocks = s->band_blocks;
	/* A log may become a home, so it has the size of a band. */
	s->logs.log_blocks = s->band_blocks;
	for (i = 0; i < ARRAY_SIZE(s->first_piece); i++)
		s->first_piece[i] = shingle_pieces_nr(stl_full_pieces, i, layout);
	s->logs.first_piece = s->first_piece[STL_FULL_LOGS];
	shingle_options_init(s->engine.ops->options, s);
	s->clean.drain_band = NO_BAND;
	s->clean.step_band = NO_BAND;
	s->clean.step_log = NO_LOG;
	if (!allocate(s)) {
		stl_full_destroy(&s->engine);
		return -ENOMEM;
	}
	s->engine.cache_blocks = s->logs.map.nr_slots;
	for (i = 0; i < s->logs.nr_logs; i++)
		s->log[i].band = NO_BAND;
	for (i = 0; i < s->nr_bands; i++)
		s->home[i] = first_home(s, i);
	for (i = 0; i < g.bands; i++)
		__set_bit(i, s->bands.is_free);
	for (i = 0; i < g.nr_zones; i++) {
		s->zone[i].open = NO_LOG;
		s->zone[i].stream = NO_LOG;
		s->zone[i].victim = NO_LOG;
	}
	*out = &s->engine;
	return 0;
}

/* Check that the log and its physical band refer to each other. */
static u32 verify_log(struct stl_full *s, u32 log, shingle_report_fn report, void *ctx)
{
	const struct shingle_slotlog *l = &s->logs.log[log];
	u32 band = s->log[log].band;

	if (band == NO_BAND ? !l->fill && !l->inflight :
	    s->bands.use[band] == (USE_LOG << USE_SHIFT | log))
		return 0;
	report(ctx, "log %u is not where it should be, in band %u", log, band);
	return 1;
}

/* Check slots of the log that the walk has reached; with the last slot, check the log. */
static u32 verify_slots(struct stl_full *s, shingle_report_fn report, void *ctx)
{
	u32 log = s->logs.walk.log, bad = shingle_slotlogs_verify(&s->logs, report, ctx);

	return log == s->logs.walk.log ? bad : bad + verify_log(s, log, report, ctx);
}

static u32 verify_bands(struct stl_full *s, shingle_report_fn report, void *ctx)
{
	const struct shingle_slotlog_walk *w = &s->logs.walk;
	u32 end = w->bands + min(s->nr_bands - w->bands, SHINGLE_WALK), bad = 0;

	while (w->bands < end) {
		u32 band = w->bands;

		shingle_slotlogs_saw_band(&s->logs);
		if (s->bands.use[s->home[band]] == (USE_HOME << USE_SHIFT | band))
			continue;
		report(ctx, "band %u is not at home in band %u", band, s->home[band]);
		bad++;
	}
	return bad;
}

/*
 * Check that the counts of a zone add up, and that the bands that are no home number
 * @provision.
 */
static u32 verify_zone(struct stl_full *s, u32 zone, const u32 *nr, shingle_report_fn report,
		       void *ctx)
{
	const struct full_zone *z = &s->zone[zone];
	u32 logs = 0, i;

	for (i = zone * s->g.log_bands; i < (zone + 1) * s->g.log_bands; i++)
		logs += s->log[i].band != NO_BAND;
	if (nr[USE_FREE] == z->free && nr[USE_PENDING] == z->pending && nr[USE_LOG] == logs &&
	    nr[USE_FREE] + nr[USE_PENDING] + nr[USE_LOG] + nr[USE_STEP] == s->g.provision &&
	    nr[USE_FREE] + nr[USE_PENDING] + nr[USE_STEP])
		return 0;
	report(ctx, "zone %u has %u free, %u pending, %u log bands of %u, counted %u, %u, %u",
	       zone, nr[USE_FREE], nr[USE_PENDING], nr[USE_LOG], s->g.provision, z->free,
	       z->pending, logs);
	return 1;
}

/* Check physical bands of the zone that the walk has reached; with the last one, the zone. */
static u32 verify_uses(struct stl_full *s, shingle_report_fn report, void *ctx)
{
	struct full_walk *w = &s->walk;
	u32 zone = zone_of_physical(s, w->uses), zone_end = end_band(s, zone), bad = 0;
	u32 end = w->uses + min(zone_end - w->uses, SHINGLE_WALK);

	for (; w->uses < end; w->uses++) {
		u32 kind = min_t(u32, use_kind(s, w->uses), USE_STEP);
		bool is_free = kind == USE_FREE;

		w->nr[kind]++;
		if (test_bit(w->uses, s->bands.is_free) == is_free)
			continue;
		report(ctx, "band %u is free and is not", w->uses);
		bad++;
	}
	if (end < zone_end)
		return bad;
	bad += verify_zone(s, zone, w->nr, report, ctx);
	memset(w->nr, 0, sizeof(w->nr));
	return bad;
}

/* Check logs, logical bands, zones, and then the sums, with counts adjusted during the walk. */
u32 stl_full_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report,
		    void *ctx)
{
	struct stl_full *s = to_full(e);
	struct full_walk *w = &s->walk;

	if (!*cursor) {
		shingle_slotlogs_walk(&s->logs);
		memset(w, 0, sizeof(*w));
	}
	(*cursor)++;
	if (!shingle_slotlogs_walked(&s->logs))
		return verify_slots(s, report, ctx);
	if (s->logs.walk.bands < s->nr_bands)
		return verify_bands(s, report, ctx);
	if (w->uses < s->g.bands)
		return verify_uses(s, report, ctx);
	memset(w, 0, sizeof(*w));
	*cursor = SHINGLE_NOWHERE;
	return shingle_slotlogs_verify_sums(&s->logs, report, ctx);
}
