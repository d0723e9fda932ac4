// SPDX-License-Identifier: GPL-2.0
/*
 * Fully-associative shingle translation layer: pure code, see engine.h.
 *
 * The disk is cut into zones.  A zone has more physical bands than logical
 * ones; every logical band has a home among them, and home can be anywhere in
 * the zone.  Writes go to the zone's open log band, one slot after the other,
 * whichever logical band they are for.  When free bands run short a log band is
 * cleaned: each logical band with blocks in it is merged with all its cached
 * blocks into a free band, which becomes its home.  Spec:
 * skylight-and-zoned.md 1.4.
 *
 * A logical band that is written in order from its first block on goes to a log
 * band of its own, the stream.  A log band that is full and holds a logical
 * band, whole, in order and current, becomes its home as it is.
 *
 * Nothing is written over before the map that does without it is durable, so a
 * power cut at any moment finds either the old home and the log or the new
 * home, and there is nothing to redo.
 *
 * Of writes that overlap in time the one that is committed last counts, now and
 * after recovery, because journal records are in the order of commits.  Hence
 * nothing here knows the age of a slot, and any log band with empty slots may
 * be the open one.
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
#include "full-engine.h"
#include "slotlog.h"

/* struct shingle_step::kind */
enum { STEP_MERGE, STEP_FREE };

#define NO_BAND		U32_MAX
#define NO_LOG		U32_MAX

/* Homes in one checkpoint piece.  Tests take less. */
#ifndef PART_HOMES
#define PART_HOMES	1000U
#endif

/* Bands one discard call walks over, to bound the time under the map lock. */
#define DISCARD_BANDS	1024U

/* Log bands one step frees besides, for its records are limited. */
#define FREE_AT_ONCE	8U

/* So many writes to a log band in a row fail, and it is left for another one. */
#define ABORTS_IN_A_ROW		2U

#define DEFAULT_THRESHOLD	2U
#define IDLE_MS			1000

/* What a physical band is used for: the kind, and which one of the kind. */
#define USE_SHIFT	29
enum { USE_FREE, USE_HOME, USE_LOG, USE_PENDING, USE_STEP };

/**
 * struct full_shape - the parameters, made to fit the layout
 * @bands: physical bands
 * @zone_bands: of a zone, but for the last
 * @provision: see struct stl_full_params
 * @log_bands: see struct stl_full_params
 * @nr_zones: zones
 */
struct full_shape {
	u32 bands;
	u32 zone_bands;
	u32 provision;
	u32 log_bands;
	u32 nr_zones;
};

/**
 * struct full_log - where a log is, next to what its slots are
 * @band: which physical band, NO_BAND if it is none
 * @aborts: so many failed since the last commit
 * @recorded: a record says that it is there
 */
struct full_log {
	u32 band;
	u32 aborts;
	bool recorded;
};

/**
 * struct full_zone - a zone
 * @free: free bands
 * @pending: bands that wait for release()
 * @open: log that writes go to, or NO_LOG
 * @stream: log that holds @stream_band only and in order, or NO_LOG
 * @stream_band: logical band
 * @victim: log that is being cleaned and takes no writes, or NO_LOG
 * @wanted: a write found no room
 */
struct full_zone {
	u32 free;
	u32 pending;
	u32 open;
	u32 stream;
	u32 stream_band;
	u32 victim;
	bool wanted;
};

/**
 * struct full_pending - a band that must not be used before a release
 * @seq: the transaction that freed it
 * @band: physical band
 */
struct full_pending {
	u64 seq;
	u32 band;
};

/**
 * struct full_walk - what verify() has counted so far, next to slots and bands
 * @uses: so many physical bands were seen
 * @nr: of these, in the zone that it is in, by their use
 */
struct full_walk {
	u32 uses;
	u32 nr[USE_STEP + 1];
};

/**
 * struct stl_full - the engine's state
 * @engine: what core sees
 * @layout: of the device, core's
 * @band_blocks: blocks per band
 * @g: zones and their sizes
 * @nr_bands: logical bands
 * @nr_logs: log bands of all zones; those of zone z begin at z * @g.log_bands
 * @threshold: free bands that writes leave alone
 * @lazy: nothing is cleaned before a write needs the room
 * @greedy: clean the log band with the fewest current blocks, not the oldest
 * @read_all: all of a band is read at home, needed or not
 * @logs: the logs and what is in them
 * @log: where they are
 * @zone: zones
 * @home: per logical band, its physical band
 * @written: per logical band, whether the home holds its content
 * @band_inflight: per logical band, placements not yet committed or aborted
 * @use: per physical band, what it is used for
 * @is_free: those that are used for nothing
 * @suspect: per physical band, which of all failures to write was the last one there; 0:
 *	none since it was last written whole.  Not persistent
 * @failures: to write to a band, so far
 * @pending: ring of bands that wait for release(), in order of @seq
 * @nr_pending_max: its size
 * @pending_head: the first
 * @nr_pending: how many
 * @next_zone: where next_step() looks first
 * @drain: logical band that takes no placements until those in flight are done
 * @forced: a forced clean is going on
 * @forced_age: it does without logs of this age and later
 * @step_band: logical band of the step in progress, or NO_BAND
 * @step_log: log of the step in progress, or NO_LOG
 * @walk: see struct full_walk; kept right by what happens meanwhile
 * @merged_blocks: cached blocks copied into bands
 * @bands_cleaned: logical bands merged
 * @bands_switched: log bands that became home without a copy
 * @logs_opened: log bands taken into use
 * @logs_freed: log bands emptied
 * @streams_broken: streams that did not get to their end
 * @full_zones: times that a write found no room
 */
struct stl_full {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	u32 band_blocks;
	struct full_shape g;
	u32 nr_bands;
	u32 nr_logs;
	u32 threshold;
	bool lazy;
	bool greedy;
	bool read_all;

	struct shingle_slotlogs logs;
	struct full_log *log;
	struct full_zone *zone;
	u32 *home;
	unsigned long *written;
	u32 *band_inflight;
	u32 *use;
	unsigned long *is_free;
	u32 *suspect;
	u32 failures;

	struct full_pending *pending;
	u32 nr_pending_max;
	u32 pending_head;
	u32 nr_pending;

	u32 next_zone;
	u32 drain;
	bool forced;
	u32 forced_age;
	u32 step_band;
	u32 step_log;

	struct full_walk walk;

	u64 merged_blocks;
	u64 bands_cleaned;
	u64 bands_switched;
	u64 logs_opened;
	u64 logs_freed;
	u64 streams_broken;
	u64 full_zones;
};

static struct stl_full *to_full(struct shingle_engine *e)
{
	return container_of(e, struct stl_full, engine);
}

/* ------------------------------------------------------------------------
 * Zones, bands and slots
 */

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
	if (g->provision < 2)
		*why = "stl-full needs a provision of at least 2 bands";
	else if (g->provision >= g->zone_bands)
		*why = "stl-full's zones must have more bands than they keep as provision";
	else if (!g->log_bands || g->log_bands >= g->provision)
		*why = "stl-full needs from 1 log band to one less than the provision";
	if (*why)
		return -EINVAL;
	g->nr_zones = DIV_ROUND_UP(g->bands, g->zone_bands);
	/* A zone needs an addressable band. */
	if (g->bands - (g->nr_zones - 1) * g->zone_bands <= g->provision)
		g->nr_zones--;
	return 0;
}

static u64 stl_full_logical_blocks(const struct shingle_layout *l)
{
	struct full_shape g;
	const char *why;

	if (full_shape(l, &g, &why))
		return 0;
	return (u64)(g.bands - g.nr_zones * g.provision) * l->band_blocks;
}

static u32 first_band(const struct stl_full *s, u32 zone)
{
	return zone * s->g.zone_bands;
}

static u32 end_band(const struct stl_full *s, u32 zone)
{
	return zone == s->g.nr_zones - 1 ? s->g.bands : first_band(s, zone + 1);
}

static u32 zone_of_band(const struct stl_full *s, u32 band)
{
	return min(band / (s->g.zone_bands - s->g.provision), s->g.nr_zones - 1);
}

static u32 zone_of_physical(const struct stl_full *s, u32 band)
{
	return min(band / s->g.zone_bands, s->g.nr_zones - 1);
}

static u32 zone_of_log(const struct stl_full *s, u32 log)
{
	return log / s->g.log_bands;
}

static bool may_hold(struct shingle_engine *e, u32 log, u32 band)
{
	struct stl_full *s = to_full(e);

	return zone_of_band(s, band) == zone_of_log(s, log);
}

/* ------------------------------------------------------------------------
 * Pieces of the state, in their order: written bands, homes, slots
 */

static u32 nr_written_parts(const struct stl_full *s)
{
	return DIV_ROUND_UP(s->nr_bands, SHINGLE_CHUNK_BITS);
}

static u32 nr_home_parts(const struct stl_full *s)
{
	return DIV_ROUND_UP(s->nr_bands, PART_HOMES);
}

static void set_written(struct stl_full *s, u32 band, bool written)
{
	if (test_bit(band, s->written) == written)
		return;
	if (written)
		__set_bit(band, s->written);
	else
		__clear_bit(band, s->written);
	shingle_mark(&s->engine, band / SHINGLE_CHUNK_BITS, 1);
}

static void set_home(struct stl_full *s, u32 band, u32 to)
{
	s->home[band] = to;
	shingle_mark(&s->engine, nr_written_parts(s) + band / PART_HOMES, 1);
}

/* Where a band lives as long as it was never written. */
static u32 first_home(const struct stl_full *s, u32 band)
{
	return band + zone_of_band(s, band) * s->g.provision;
}

static u64 band_pblk(const struct stl_full *s, u32 band)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, band);
}

static u64 slot_pblk(const struct stl_full *s, u32 slot)
{
	return band_pblk(s, s->log[slot / s->band_blocks].band) + slot % s->band_blocks;
}

static u32 use_kind(const struct stl_full *s, u32 band)
{
	return s->use[band] >> USE_SHIFT;
}

static void set_use(struct stl_full *s, u32 band, u32 kind, u32 which)
{
	struct full_walk *w = &s->walk;

	if (unlikely(band < w->uses &&
		     zone_of_physical(s, band) == zone_of_physical(s, w->uses))) {
		w->nr[use_kind(s, band)]--;
		w->nr[kind]++;
	}
	if (kind == USE_FREE)
		__set_bit(band, s->is_free);
	else
		__clear_bit(band, s->is_free);
	s->use[band] = kind << USE_SHIFT | which;
}

static u32 use_which(const struct stl_full *s, u32 band)
{
	return s->use[band] & ((1U << USE_SHIFT) - 1);
}

/*
 * A free band of the zone, which has some: the first that did not fail, or the one that
 * failed the longest ago.  Core gives up after a few tries, and each is in another band
 * as long as there are any.
 */
static u32 free_band(const struct stl_full *s, u32 zone)
{
	u32 end = end_band(s, zone), best = NO_BAND, band;

	for (band = find_next_bit(s->is_free, end, first_band(s, zone)); band < end;
	     band = find_next_bit(s->is_free, end, band + 1)) {
		if (best == NO_BAND || s->suspect[band] < s->suspect[best])
			best = band;
		if (!s->suspect[best])
			break;
	}
	return best;
}

/* The caller says what for. */
static u32 take_band(struct stl_full *s, u32 zone)
{
	u32 band = free_band(s, zone);

	s->zone[zone].free--;
	return band;
}

static void give_band(struct stl_full *s, u32 band)
{
	set_use(s, band, USE_FREE, 0);
	s->zone[zone_of_physical(s, band)].free++;
}

/* What was to be written to @band was not, or perhaps not. */
static void suspect_band(struct stl_full *s, u32 band)
{
	s->suspect[band] = ++s->failures;
}

/* Nothing refers to @band any more once transaction @seq is durable. */
static void retire_band(struct stl_full *s, u32 band, u64 seq)
{
	u32 at = (s->pending_head + s->nr_pending) % s->nr_pending_max;

	set_use(s, band, USE_PENDING, 0);
	s->pending[at].seq = seq;
	s->pending[at].band = band;
	s->nr_pending++;
	s->zone[zone_of_physical(s, band)].pending++;
}

/* ------------------------------------------------------------------------
 * Construction
 */

static void stl_full_destroy(struct shingle_engine *e)
{
	struct stl_full *s = to_full(e);

	shingle_slotlogs_exit(&s->logs);
	kvfree(s->log);
	kvfree(s->zone);
	kvfree(s->home);
	kvfree(s->written);
	kvfree(s->band_inflight);
	kvfree(s->use);
	kvfree(s->is_free);
	kvfree(s->suspect);
	kvfree(s->pending);
	shingle_marks_exit(e);
	kvfree(s);
}

static int check_layout(const struct shingle_layout *l, struct full_shape *g, const char **why)
{
	if (full_shape(l, g, why))
		return -EINVAL;
	if ((u64)g->nr_zones * g->log_bands > SHINGLE_SLOTMAP_SLOTS / l->band_blocks)
		*why = "stl-full can cache at most 2 TiB less 256 KiB";
	else if (l->logical_blocks != stl_full_logical_blocks(l))
		*why = "stl-full presents its data bands without the provision of each zone";
	else if (l->logical_blocks > SHINGLE_SLOTMAP_LBLKS)
		*why = "stl-full presents at most 16 TiB";
	return *why ? -EINVAL : 0;
}

static u64 stl_full_max_chunks(const struct shingle_layout *l)
{
	struct full_shape g;
	const char *why;
	u32 bands;

	if (full_shape(l, &g, &why))
		return 0;
	bands = g.bands - g.nr_zones * g.provision;
	return DIV_ROUND_UP(bands, SHINGLE_CHUNK_BITS) + DIV_ROUND_UP(bands, PART_HOMES) +
	       (u64)g.nr_zones * g.log_bands * shingle_slotlog_parts(l->band_blocks);
}

static bool allocate(struct stl_full *s)
{
	s->log = shingle_zalloc_array(s->nr_logs, sizeof(*s->log));
	s->zone = shingle_zalloc_array(s->g.nr_zones, sizeof(*s->zone));
	s->home = shingle_zalloc_array(s->nr_bands, sizeof(u32));
	s->written = shingle_zalloc_array(BITS_TO_LONGS(s->nr_bands), sizeof(unsigned long));
	s->band_inflight = shingle_zalloc_array(s->nr_bands, sizeof(u32));
	s->use = shingle_zalloc_array(s->g.bands, sizeof(u32));
	s->is_free = shingle_zalloc_array(BITS_TO_LONGS(s->g.bands), sizeof(unsigned long));
	s->suspect = shingle_zalloc_array(s->g.bands, sizeof(u32));
	s->pending = shingle_zalloc_array(s->nr_pending_max, sizeof(*s->pending));
	return s->log && s->zone && s->home && s->written && s->band_inflight && s->use &&
	       s->is_free && s->suspect && s->pending &&
	       !shingle_slotlogs_init(&s->logs) &&
	       !shingle_marks_init(&s->engine, stl_full_max_chunks(s->layout));
}

static u32 initial_threshold(const void *of)
{
	const struct stl_full *s = of;

	return min(DEFAULT_THRESHOLD, s->g.provision - 1);
}

static int set_threshold(void *of, u32 bands, const char **why)
{
	const struct stl_full *s = of;

	return bands < s->g.provision ? 0 : -ERANGE;
}

#define OPTION(member)	SHINGLE_OPTION_AT(struct stl_full, member)

static const struct shingle_option stl_full_options[] = {
	{ .name = "cleaning", .kind = SHINGLE_OPTION_WORD, OPTION(lazy),
	  .words = SHINGLE_OPTION_WORDS("aggressive", "lazy"),
	  .range = "cleaning must be lazy or aggressive",
	  .help = "when a write needs the room, or also when the host is quiet" },
	{ .name = "order", .kind = SHINGLE_OPTION_WORD, OPTION(greedy),
	  .words = SHINGLE_OPTION_WORDS("fifo", "greedy"),
	  .range = "order must be fifo or greedy",
	  .help = "which log band is cleaned first" },
	{ .name = "threshold", .kind = SHINGLE_OPTION_NUMBER, OPTION(threshold),
	  .min = 1, .max = U32_MAX, .find_initial = initial_threshold, .set = set_threshold,
	  .range = "threshold must be at least 1 and less than the provision of a zone",
	  .help = "so many bands of a zone that are free are kept for cleaning" },
	{ .name = "read_home", .kind = SHINGLE_OPTION_WORD, OPTION(read_all),
	  .words = SHINGLE_OPTION_WORDS("needed", "always"),
	  .range = "read_home must be needed or always",
	  .help = "what cleaning reads of a band at its native place" },
	{ }
};

static int stl_full_create(struct shingle_engine **out, const struct shingle_layout *layout,
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
	s->engine.discard_blocks = layout->band_blocks;
	s->engine.idle_ms = IDLE_MS;
	s->layout = layout;
	s->band_blocks = layout->band_blocks;
	s->g = g;
	s->nr_bands = g.bands - g.nr_zones * g.provision;
	s->nr_logs = g.nr_zones * g.log_bands;
	s->nr_pending_max = g.nr_zones * g.provision;
	s->logs.engine = &s->engine;
	s->logs.may_hold = may_hold;
	s->logs.nr_logs = s->nr_logs;
	s->logs.nr_bands = s->nr_bands;
	s->logs.band_blocks = s->band_blocks;
	s->logs.first_piece = nr_written_parts(s) + nr_home_parts(s);
	shingle_options_init(stl_full_options, s);
	s->drain = NO_BAND;
	s->step_band = NO_BAND;
	s->step_log = NO_LOG;
	if (!allocate(s)) {
		stl_full_destroy(&s->engine);
		return -ENOMEM;
	}
	s->engine.cache_blocks = s->logs.map.nr_slots;
	for (i = 0; i < s->nr_logs; i++)
		s->log[i].band = NO_BAND;
	for (i = 0; i < s->nr_bands; i++)
		s->home[i] = first_home(s, i);
	for (i = 0; i < g.bands; i++)
		__set_bit(i, s->is_free);
	for (i = 0; i < g.nr_zones; i++) {
		s->zone[i].open = NO_LOG;
		s->zone[i].stream = NO_LOG;
		s->zone[i].victim = NO_LOG;
	}
	*out = &s->engine;
	return 0;
}

/* ------------------------------------------------------------------------
 * Reading
 */

/* A run is in one log or at home: neighbours in number may be bands apart. */
static void stl_full_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct stl_full *s = to_full(e);
	u32 band = (u32)lblk / s->band_blocks, offset = (u32)lblk % s->band_blocks;
	u32 slot = shingle_slotlog_find(&s->logs, band, lblk);

	n = min(n, s->band_blocks - offset);
	out->lblk = lblk;
	out->n = 1;
	if (slot != SHINGLE_NO_SLOT) {
		out->pblk = slot_pblk(s, slot);
		out->kind = SHINGLE_RUN_MAPPED;
		n = min(n, s->band_blocks - slot % s->band_blocks);
		while (out->n < n && shingle_slotlog_find(&s->logs, band, lblk + out->n) == slot + out->n)
			out->n++;
		return;
	}
	out->pblk = band_pblk(s, s->home[band]) + offset;
	out->kind = test_bit(band, s->written) ? SHINGLE_RUN_MAPPED : SHINGLE_RUN_UNWRITTEN;
	if (!s->logs.band_live[band])
		out->n = n;
	while (out->n < n && shingle_slotlog_find(&s->logs, band, lblk + out->n) == SHINGLE_NO_SLOT)
		out->n++;
}

/* ------------------------------------------------------------------------
 * Writing
 */

static u32 unused_log(const struct stl_full *s, u32 zone)
{
	u32 log = zone * s->g.log_bands, end = log + s->g.log_bands;

	while (log < end && s->log[log].band != NO_BAND)
		log++;
	return log < end ? log : NO_LOG;
}

/* The oldest log band that has empty slots and that nobody uses. */
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

/* Room for one more log band, if all of @free were free? */
static bool room(const struct stl_full *s, u32 zone, u32 free)
{
	return free > s->threshold && unused_log(s, zone) != NO_LOG;
}

static u32 open_log(struct stl_full *s, u32 zone)
{
	u32 log = unused_log(s, zone);
	struct full_log *l = &s->log[log];

	l->band = take_band(s, zone);
	shingle_slotlog_open(&s->logs, log);
	l->aborts = 0;
	l->recorded = false;
	set_use(s, l->band, USE_LOG, log);
	s->logs_opened++;
	return log;
}

/* The stream's band will not be written in order to its end. */
static void break_stream(struct stl_full *s, struct full_zone *z)
{
	if (z->stream == NO_LOG)
		return;
	z->stream = NO_LOG;
	s->streams_broken++;
}

static bool has_room(const struct stl_full *s, u32 log)
{
	return log != NO_LOG && !shingle_slotlog_is_full(&s->logs, log);
}

/* Which log does a write at @offset of @band go to? */
static int pick_log(struct stl_full *s, u32 band, u32 offset, u32 *log)
{
	u32 zone = zone_of_band(s, band);
	struct full_zone *z = &s->zone[zone];

	if (z->stream != NO_LOG && z->stream_band == band) {
		*log = z->stream;
		if (offset == s->logs.log[*log].fill)
			return 0;
		break_stream(s, z);
	}
	/*
	 * The band may be going to be written whole.  One that was begun and
	 * left must be used up first, or stray writes to the first blocks of
	 * bands would use up all bands.
	 */
	if (!offset && spare_log(s, zone) == NO_LOG) {
		if (room(s, zone, z->free)) {
			break_stream(s, z);
			*log = open_log(s, zone);
			z->stream = *log;
			z->stream_band = band;
			return 0;
		}
		/* Waiting for a commit costs less than cleaning the band later. */
		if (z->pending && room(s, zone, z->free + z->pending))
			return -EBUSY;
	}
	if (!has_room(s, z->open))
		z->open = spare_log(s, zone);
	if (z->open == NO_LOG && room(s, zone, z->free))
		z->open = open_log(s, zone);
	if (z->open == NO_LOG && z->stream != NO_LOG) {
		z->open = z->stream;
		break_stream(s, z);
	}
	if (z->open == NO_LOG) {
		s->full_zones += !z->wanted;
		z->wanted = true;
		return -ENOSPC;
	}
	/* Who waits finds it, too: clean no more than that. */
	z->wanted = false;
	*log = z->open;
	return 0;
}

static int stl_full_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
			  struct shingle_run *out)
{
	struct stl_full *s = to_full(e);
	u32 band = (u32)lblk / s->band_blocks, offset = (u32)lblk % s->band_blocks;
	struct full_zone *z = &s->zone[zone_of_band(s, band)];
	u32 log, slot;
	int r;

	/* Its content is being moved, or will be once nobody writes: one step. */
	if (band == s->step_band || (band == s->drain && s->band_inflight[band]))
		return -EBUSY;
	r = pick_log(s, band, offset, &log);
	if (r)
		return r;
	n = min(n, s->band_blocks - offset);
	n = min3(n, s->band_blocks - s->logs.log[log].fill, (u32)SHINGLE_SLOTLOG_RUN);

	slot = shingle_slotlog_place(&s->logs, log, n);
	out->lblk = lblk;
	out->pblk = slot_pblk(s, slot);
	out->n = n;
	out->kind = SHINGLE_RUN_MAPPED;
	s->band_inflight[band]++;
	/* A stream that came to its end is a log band like any other. */
	if (log == z->stream && shingle_slotlog_is_full(&s->logs, log))
		z->stream = NO_LOG;
	return 0;
}

static void drop_band(struct stl_full *s, u32 band)
{
	shingle_slotlog_drop(&s->logs, band * s->band_blocks, s->band_blocks, U32_MAX);
}

/* A log that holds nothing current: its number may be used again. */
static void clear_log(struct stl_full *s, u32 log, struct shingle_emit *emit)
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

/* All of @band is at @to; what it was before and in logs counts no more. */
static void move_home(struct stl_full *s, u32 band, u32 to, struct shingle_emit *emit)
{
	drop_band(s, band);
	retire_band(s, s->home[band], emit->seq);
	set_home(s, band, to);
	set_use(s, to, USE_HOME, band);
	/* All of it was written. */
	s->suspect[to] = 0;
	set_written(s, band, true);
	shingle_emit(emit, STL_FULL_HOME, 0, 0, band, to);
}

/* Every slot of @log is current: is it a band in order?  Then it is home. */
static void try_switch(struct stl_full *s, u32 log, struct shingle_emit *emit)
{
	u32 slot = log * s->band_blocks, lblk = shingle_slot_lblk(&s->logs.map, slot);
	u32 band = lblk / s->band_blocks;

	if (lblk % s->band_blocks ||
	    shingle_slotmap_run(&s->logs.map, slot, s->band_blocks) < s->band_blocks)
		return;
	move_home(s, band, s->log[log].band, emit);
	clear_log(s, log, emit);
	s->bands_switched++;
}

static u32 log_of(const struct stl_full *s, u64 pblk, u32 *offset)
{
	enum shingle_role role;
	u64 band, at;

	shingle_band_of(s->layout, pblk, &role, &band, &at);
	*offset = at;
	return use_which(s, band);
}

static void stl_full_commit(struct shingle_engine *e, const struct shingle_run *run,
			    struct shingle_emit *emit)
{
	struct stl_full *s = to_full(e);
	u32 lblk = run->lblk, offset, log = log_of(s, run->pblk, &offset);
	u32 slot = log * s->band_blocks + offset;
	struct full_log *l = &s->log[log];

	shingle_slotlog_commit(&s->logs, slot, lblk, run->n);
	l->aborts = 0;
	s->band_inflight[lblk / s->band_blocks]--;
	/* Whoever finds a block must know the band that it is in. */
	if (!l->recorded)
		shingle_emit(emit, STL_FULL_OPEN, 0, s->logs.log[log].age, log, l->band);
	l->recorded = true;
	shingle_emit(emit, STL_FULL_MAP, run->n, 0, lblk, slot);
	if (s->logs.log[log].live == s->band_blocks)
		try_switch(s, log, emit);
}

/* Is there another band for what does not go to @log? */
static bool other_log(const struct stl_full *s, u32 zone, u32 log)
{
	const struct full_zone *z = &s->zone[zone];
	u32 spare = spare_log(s, zone);

	return room(s, zone, z->free) || (spare != NO_LOG && spare != log) ||
	       (z->open != log && has_room(s, z->open));
}

/*
 * Take no more writes in @log, if another one can take them.  After a recovery it may:
 * no record tells slots that were given up from those that were never placed.
 */
static void give_up_log(struct stl_full *s, u32 log)
{
	u32 zone = zone_of_log(s, log);
	struct full_zone *z = &s->zone[zone];

	if (!other_log(s, zone, log))
		return;
	if (z->stream == log)
		break_stream(s, z);
	shingle_slotlog_give_up(&s->logs, log);
}

static void stl_full_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct stl_full *s = to_full(e);
	u32 offset, log = log_of(s, run->pblk, &offset);
	struct full_log *l = &s->log[log];

	shingle_slotlog_abort(&s->logs, log, run->n);
	s->band_inflight[(u32)run->lblk / s->band_blocks]--;
	suspect_band(s, l->band);
	if (++l->aborts >= ABORTS_IN_A_ROW && has_room(s, log))
		give_up_log(s, log);
}

static int stl_full_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			    struct shingle_emit *emit)
{
	struct stl_full *s = to_full(e);
	u32 band = (u32)lblk / s->band_blocks, first = band;
	u64 offset = lblk - (u64)band * s->band_blocks;
	bool changed = false;

	if (band == s->step_band)
		return -EBUSY;

	if (offset || n < s->band_blocks) {
		*done = min_t(u64, n, s->band_blocks - offset);
		*done = min_t(u64, *done, SHINGLE_SLOTLOG_RUN);
		*dropped = !test_bit(band, s->written);
		if (*dropped && s->logs.band_live[band]) {
			shingle_slotlog_drop(&s->logs, lblk, *done, U32_MAX);
			shingle_emit(emit, STL_FULL_DROP, *done, 0, lblk, 0);
		}
		return 0;
	}

	for (*done = 0; n - *done >= s->band_blocks && band - first < DISCARD_BANDS; band++) {
		if (band == s->step_band)
			break;
		*done += s->band_blocks;
		if (!s->logs.band_live[band] && !test_bit(band, s->written))
			continue;
		changed = true;
		set_written(s, band, false);
		if (s->logs.band_live[band]) {
			drop_band(s, band);
			band++;
			break;
		}
	}
	*dropped = true;
	if (changed)
		shingle_emit(emit, STL_FULL_DISCARD, 0, 0, first, band - first);
	return 0;
}

/* ------------------------------------------------------------------------
 * Cleaning
 */

/* A log that can simply be freed; else the oldest before @age, or the emptiest. */
static u32 pick_victim(const struct stl_full *s, u32 zone, u32 age)
{
	const struct full_zone *z = &s->zone[zone];
	u32 log = zone * s->g.log_bands, end = log + s->g.log_bands, best = NO_LOG;

	for (; log < end; log++) {
		const struct shingle_log *l = &s->logs.log[log];

		if (s->log[log].band == NO_BAND || l->age >= age)
			continue;
		if (!l->live && !l->inflight && log != z->open && log != z->stream)
			return log;
		if (best == NO_LOG || (s->greedy ? l->live < s->logs.log[best].live :
						   l->age < s->logs.log[best].age))
			best = log;
	}
	return best;
}

/* A logical band with blocks in @log, if possible one that nobody writes to. */
static u32 band_in_log(const struct stl_full *s, u32 log)
{
	u32 slot = log * s->band_blocks, end = slot + s->logs.log[log].fill, busy = NO_BAND;

	for (; slot < end; slot++) {
		u32 band = shingle_slotlog_band(&s->logs, slot);

		if (band == NO_BAND)
			continue;
		if (!s->band_inflight[band])
			return band;
		busy = band;
	}
	return busy;
}

static void set_victim(struct stl_full *s, struct full_zone *z, u32 log)
{
	z->victim = log;
	if (z->open == log)
		z->open = NO_LOG;
	if (z->stream == log)
		break_stream(s, z);
}

static int merge_step(struct stl_full *s, u32 zone, u32 band, struct shingle_step *step)
{
	struct full_zone *z = &s->zone[zone];
	u32 dst = take_band(s, zone);

	set_use(s, dst, USE_STEP, 0);
	/* The stream would go on after blocks that are not its own any more. */
	if (z->stream != NO_LOG && z->stream_band == band)
		break_stream(s, z);
	s->step_band = band;
	step->kind = STEP_MERGE;
	step->n = s->band_blocks;
	step->read_blocks = s->read_all ? s->band_blocks : 0;
	if (s->read_all || test_bit(band, s->written))
		step->base = band_pblk(s, s->home[band]);
	step->dst = band_pblk(s, dst);
	step->lblk = (u64)band * s->band_blocks;
	step->cookie = dst;
	return 1;
}

static int zone_step(struct stl_full *s, u32 zone, enum shingle_why why,
		     struct shingle_step *step)
{
	struct full_zone *z = &s->zone[zone];
	u32 age = why == SHINGLE_WHY_FORCED ? s->forced_age : U32_MAX, band;

	if (why == SHINGLE_WHY_PRESSURE) {
		if (!z->wanted)
			return 0;
		if (room(s, zone, z->free)) {
			z->wanted = false;
			return 0;
		}
		if (room(s, zone, z->free + z->pending))
			return -EAGAIN;
	}
	if (z->victim == NO_LOG || s->logs.log[z->victim].age >= age) {
		u32 log = pick_victim(s, zone, age);

		if (log == NO_LOG)
			return why == SHINGLE_WHY_PRESSURE ? -EAGAIN : 0;
		set_victim(s, z, log);
	}
	if (!s->logs.log[z->victim].live) {
		if (s->logs.log[z->victim].inflight)
			return -EAGAIN;
		step->kind = STEP_FREE;
		s->step_log = z->victim;
		return 1;
	}
	/* A band that waits for a commit is better than one that could not be written. */
	if (!z->free || (z->pending && s->suspect[free_band(s, zone)]))
		return -EAGAIN;
	band = band_in_log(s, z->victim);
	if (s->band_inflight[band]) {
		/* Who is only idle does not make others wait. */
		if (why != SHINGLE_WHY_IDLE)
			s->drain = band;
		return -EAGAIN;
	}
	return merge_step(s, zone, band, step);
}

static int stl_full_next_step(struct shingle_engine *e, enum shingle_why why,
			      struct shingle_step *step)
{
	struct stl_full *s = to_full(e);
	bool again = false;
	u32 i;

	memset(step, 0, sizeof(*step));
	step->base = SHINGLE_NOWHERE;
	step->lblk = SHINGLE_NOWHERE;

	if (s->step_band != NO_BAND || s->step_log != NO_LOG)
		return -EAGAIN;
	s->drain = NO_BAND;
	if (why == SHINGLE_WHY_RECOVERY || (why == SHINGLE_WHY_IDLE && s->lazy))
		return 0;
	if (why == SHINGLE_WHY_FORCED && !s->forced) {
		/* What is opened from now on is not asked for. */
		s->forced = true;
		s->forced_age = s->logs.age;
	}
	for (i = 0; i < s->g.nr_zones; i++) {
		u32 zone = (s->next_zone + i) % s->g.nr_zones;
		int r = zone_step(s, zone, why, step);

		if (r > 0) {
			s->next_zone = zone;
			return r;
		}
		again |= r == -EAGAIN;
	}
	if (!again && why == SHINGLE_WHY_FORCED)
		s->forced = false;
	return again ? -EAGAIN : 0;
}

static bool stl_full_step_source(struct shingle_engine *e, const struct shingle_step *step,
				 u32 offset, struct shingle_run *out)
{
	struct stl_full *s = to_full(e);
	u32 band = step->lblk / s->band_blocks;
	/* Nothing that is read there is content. */
	bool empty = step->base != SHINGLE_NOWHERE && !test_bit(band, s->written);

	for (; offset < step->n; offset++) {
		if (!empty && shingle_slotlog_find(&s->logs, band, step->lblk + offset) == SHINGLE_NO_SLOT)
			continue;
		stl_full_resolve(e, step->lblk + offset, step->n - offset, out);
		out->lblk = offset;
		return true;
	}
	return false;
}

static void free_log(struct stl_full *s, u32 log, struct shingle_emit *emit)
{
	retire_band(s, s->log[log].band, emit->seq);
	clear_log(s, log, emit);
	s->logs_freed++;
}

/* Free logs that hold nothing current and will not be written to. */
static void free_empty_logs(struct stl_full *s, u32 zone, struct shingle_emit *emit)
{
	const struct full_zone *z = &s->zone[zone];
	u32 log = zone * s->g.log_bands, end = log + s->g.log_bands, n = 0;

	for (; log < end && n < FREE_AT_ONCE; log++) {
		const struct shingle_log *l = &s->logs.log[log];

		if (s->log[log].band == NO_BAND || l->live || l->inflight || log == z->open ||
		    log == z->stream)
			continue;
		free_log(s, log, emit);
		n++;
	}
}

static void stl_full_step_done(struct shingle_engine *e, const struct shingle_step *step,
			       struct shingle_emit *emit)
{
	struct stl_full *s = to_full(e);
	u32 zone;

	if (step->kind == STEP_MERGE) {
		zone = zone_of_band(s, s->step_band);
		s->merged_blocks += s->logs.band_live[s->step_band];
		move_home(s, s->step_band, step->cookie, emit);
		s->bands_cleaned++;
	} else {
		zone = zone_of_log(s, s->step_log);
	}
	s->step_band = NO_BAND;
	s->step_log = NO_LOG;
	free_empty_logs(s, zone, emit);
}

static void stl_full_step_failed(struct shingle_engine *e, const struct shingle_step *step)
{
	struct stl_full *s = to_full(e);

	/* Or it was interrupted, or not even begun: then that costs nothing. */
	if (step->kind == STEP_MERGE) {
		suspect_band(s, step->cookie);
		give_band(s, step->cookie);
	}
	s->step_band = NO_BAND;
	s->step_log = NO_LOG;
}

static bool stl_full_release(struct shingle_engine *e, u64 seq)
{
	struct stl_full *s = to_full(e);
	u32 most = SHINGLE_WALK;

	while (s->nr_pending && s->pending[s->pending_head].seq <= seq) {
		u32 band = s->pending[s->pending_head].band;

		s->pending_head = (s->pending_head + 1) % s->nr_pending_max;
		s->nr_pending--;
		s->zone[zone_of_physical(s, band)].pending--;
		give_band(s, band);
		if (!--most)
			return true;
	}
	return false;
}

static bool stl_full_pending(struct shingle_engine *e)
{
	return to_full(e)->nr_pending;
}

static bool band_referenced(const struct stl_full *s, u32 band, u64 offset)
{
	switch (use_kind(s, band)) {
	case USE_HOME:
		return test_bit(use_which(s, band), s->written);
	case USE_LOG:
		return offset < s->logs.log[use_which(s, band)].fill;
	case USE_PENDING:
		return true;
	}
	return false;
}

static bool stl_full_referenced(struct shingle_engine *e, u64 pblk, u64 n)
{
	struct stl_full *s = to_full(e);
	u64 end = pblk + n;

	while (pblk < end) {
		const struct shingle_group *g = shingle_group_of(s->layout, pblk);
		enum shingle_role role;
		u64 band, offset;

		if (!g)
			return false;
		/* In a band, in its guard (role and band are those before it), or beyond. */
		if (shingle_band_of(s->layout, pblk, &role, &band, &offset) &&
		    band_referenced(s, band, offset))
			return true;
		pblk += g->stride - offset;
	}
	return false;
}

/* ------------------------------------------------------------------------
 * Persistence
 */

static u32 encode_homes(const struct stl_full *s, u32 part, __le32 *p)
{
	u32 first = part * PART_HOMES, n = min(s->nr_bands - first, PART_HOMES), i;
	bool moved = false;

	for (i = 0; i < n; i++) {
		p[i] = cpu_to_le32(s->home[first + i]);
		moved |= s->home[first + i] != first_home(s, first + i);
	}
	return moved ? n * sizeof(*p) : 0;
}

static u32 encode_log(const struct stl_full *s, u32 log, u32 part, __le32 *p)
{
	u32 n;

	if (s->log[log].band == NO_BAND)
		return 0;
	n = shingle_slotlog_encode(&s->logs, log, part, p + 3);
	if (!n)
		return 0;
	p[0] = cpu_to_le32(s->log[log].band);
	p[1] = cpu_to_le32(s->logs.log[log].age);
	p[2] = cpu_to_le32(part * PART_SLOTS + n);
	return (n + 3) * sizeof(*p);
}

static u32 stl_full_encode(struct shingle_engine *e, u64 *cursor, u64 *index, void *buf)
{
	struct stl_full *s = to_full(e);
	u32 maps = nr_written_parts(s), homes = nr_home_parts(s);
	u32 parts = shingle_slotlog_parts(s->band_blocks);
	u64 end = (u64)maps + homes + (u64)s->nr_logs * parts, at = *cursor;

	if (at >= end) {
		*cursor = SHINGLE_NOWHERE;
		return 0;
	}
	*index = at;
	*cursor = at + 1;
	if (at < maps)
		return shingle_bits_encode(s->written, s->nr_bands, at, buf);
	at -= maps;
	if (at < homes)
		return encode_homes(s, at, buf);
	at -= homes;
	return encode_log(s, div_u64(at, parts), at % parts, buf);
}

static int decode_homes(struct stl_full *s, u32 part, const __le32 *p, u32 bytes)
{
	u32 first = part * PART_HOMES, n = min(s->nr_bands - first, PART_HOMES), i;

	if (bytes != n * sizeof(*p))
		return -EUCLEAN;
	for (i = 0; i < n; i++)
		s->home[first + i] = le32_to_cpu(p[i]);
	return 0;
}

/* Two bands may be under the number of one log: see shingle_slotlog_adopt(). */
static int decode_log(struct stl_full *s, u32 log, u32 part, const __le32 *p, u32 bytes)
{
	u32 first = part * PART_SLOTS, n = bytes / sizeof(*p), i;
	struct shingle_log *l = &s->logs.log[log];

	if (n < 4 || bytes % sizeof(*p) || n - 3 > s->band_blocks - first ||
	    le32_to_cpu(p[2]) > s->band_blocks)
		return -EUCLEAN;
	s->log[log].band = le32_to_cpu(p[0]);
	l->age = le32_to_cpu(p[1]);
	l->fill = max(l->fill, le32_to_cpu(p[2]));
	for (i = 0; i < n - 3; i++) {
		u32 lblk = le32_to_cpu(p[i + 3]);

		if (lblk >= SHINGLE_SLOT_OWNED &&
		    shingle_slotlog_adopt(&s->logs, log * s->band_blocks + first + i,
					  lblk - SHINGLE_SLOT_OWNED))
			return -EUCLEAN;
	}
	return 0;
}

static int stl_full_decode(struct shingle_engine *e, u64 index, const void *buf, u32 bytes)
{
	struct stl_full *s = to_full(e);
	u32 maps = nr_written_parts(s), homes = nr_home_parts(s);
	u32 parts = shingle_slotlog_parts(s->band_blocks);

	if (index < maps)
		return shingle_bits_decode(s->written, s->nr_bands, index, buf, bytes);
	index -= maps;
	if (index < homes)
		return decode_homes(s, index, buf, bytes);
	index -= homes;
	if (index >= (u64)s->nr_logs * parts)
		return -EUCLEAN;
	return decode_log(s, div_u64(index, parts), index % parts, buf, bytes);
}

static int replay_discard(struct stl_full *s, u64 band, u64 nr)
{
	u32 i;

	if (band >= s->nr_bands || nr > s->nr_bands - band)
		return -EUCLEAN;
	for (i = band; i < band + nr; i++) {
		set_written(s, i, false);
		drop_band(s, i);
	}
	s->logs.map.looks += nr;
	return 0;
}

static int replay_drop(struct stl_full *s, u64 lblk, u32 n)
{
	if (lblk >= s->layout->logical_blocks || n > s->band_blocks - (u32)lblk % s->band_blocks)
		return -EUCLEAN;
	shingle_slotlog_drop(&s->logs, lblk, n, U32_MAX);
	return 0;
}

static int stl_full_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct stl_full *s = to_full(e);
	u64 a = le64_to_cpu(rec->a), b = le64_to_cpu(rec->b);
	u32 n = le16_to_cpu(rec->n);

	if (!s->logs.map.crowd &&
	    shingle_slotmap_crowd(&s->logs.map, s->layout->logical_blocks))
		return -ENOMEM;
	switch (le16_to_cpu(rec->type)) {
	case STL_FULL_OPEN:
		if (a >= s->nr_logs || b >= s->g.bands)
			return -EUCLEAN;
		/* It is clear: the record that freed it came before. */
		s->log[a].band = b;
		s->logs.log[a].age = le32_to_cpu(rec->c);
		return 0;
	case STL_FULL_MAP:
		return shingle_slotlog_replay(&s->logs, a, b, n);
	case STL_FULL_HOME:
		if (a >= s->nr_bands || b >= s->g.bands)
			return -EUCLEAN;
		s->home[a] = b;
		__set_bit(a, s->written);
		drop_band(s, a);
		return 0;
	case STL_FULL_FREE:
		if (a >= s->nr_logs)
			return -EUCLEAN;
		shingle_slotlog_replay_clear(&s->logs, a);
		s->log[a].band = NO_BAND;
		return 0;
	case STL_FULL_DISCARD:
		return replay_discard(s, a, b);
	case STL_FULL_DROP:
		return replay_drop(s, a, n);
	}
	return -EUCLEAN;
}

/* Give @band a use, unless it has one or is of another zone. */
static int claim(struct stl_full *s, u32 band, u32 zone, u32 kind, u32 which)
{
	if (band >= s->g.bands || zone_of_physical(s, band) != zone ||
	    use_kind(s, band) != USE_FREE)
		return -EUCLEAN;
	set_use(s, band, kind, which);
	return 0;
}

static int ready_log(struct stl_full *s, u32 log, const char **why)
{
	struct full_log *l = &s->log[log];

	if (l->band == NO_BAND) {
		s->logs.log[log].fill = 0;
	} else if (claim(s, l->band, zone_of_log(s, log), USE_LOG, log)) {
		*why = "two bands or logs are at one place";
		return -EUCLEAN;
	}
	if (shingle_slotlog_ready(&s->logs, log)) {
		*why = "a log names a block that it cannot hold";
		return -EUCLEAN;
	}
	if (l->band == NO_BAND)
		return 0;
	l->recorded = true;
	s->logs.age = max(s->logs.age, s->logs.log[log].age + 1);
	return 0;
}

static int stl_full_ready(struct shingle_engine *e, const char **why)
{
	struct stl_full *s = to_full(e);
	u32 i;

	shingle_slotmap_uncrowd(&s->logs.map);
	for (i = 0; i < s->nr_bands; i++) {
		if (claim(s, s->home[i], zone_of_band(s, i), USE_HOME, i)) {
			*why = "two bands have one home, or one in another zone";
			return -EUCLEAN;
		}
	}
	for (i = 0; i < s->nr_logs; i++) {
		if (ready_log(s, i, why))
			return -EUCLEAN;
		cond_resched();
	}
	for (i = 0; i < s->g.bands; i++)
		s->zone[zone_of_physical(s, i)].free += use_kind(s, i) == USE_FREE;
	return 0;
}

/* ------------------------------------------------------------------------
 * Being looked at
 */

/* The log is in the band that is its own. */
static u32 verify_log(struct stl_full *s, u32 log, shingle_report_fn report, void *ctx)
{
	const struct shingle_log *l = &s->logs.log[log];
	u32 band = s->log[log].band;

	if (band == NO_BAND ? !l->fill && !l->inflight :
	    s->use[band] == (USE_LOG << USE_SHIFT | log))
		return 0;
	report(ctx, "log %u is not where it should be, in band %u", log, band);
	return 1;
}

/* Slots of the log that the walk is in; with the last one, the log. */
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
		if (s->use[s->home[band]] == (USE_HOME << USE_SHIFT | band))
			continue;
		report(ctx, "band %u is not at home in band %u", band, s->home[band]);
		bad++;
	}
	return bad;
}

/* Every band of the zone is of use for one thing, and what is no home is counted. */
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

/* Physical bands of the zone that the walk is in; with the last one, the zone. */
static u32 verify_uses(struct stl_full *s, shingle_report_fn report, void *ctx)
{
	struct full_walk *w = &s->walk;
	u32 zone = zone_of_physical(s, w->uses), zone_end = end_band(s, zone), bad = 0;
	u32 end = w->uses + min(zone_end - w->uses, SHINGLE_WALK);

	for (; w->uses < end; w->uses++) {
		u32 kind = min_t(u32, use_kind(s, w->uses), USE_STEP);
		bool is_free = kind == USE_FREE;

		w->nr[kind]++;
		if (test_bit(w->uses, s->is_free) == is_free)
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

/* Logs, bands, zones, and then the sums, to which counts were kept meanwhile. */
static u32 stl_full_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report,
			   void *ctx)
{
	struct stl_full *s = to_full(e);
	struct full_walk *w = &s->walk;
	u32 bad;

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
	bad = shingle_slotlogs_verify_sums(&s->logs, report, ctx);
	/* Nobody has to keep anything right for a walk that has ended. */
	shingle_slotlogs_walk(&s->logs);
	memset(w, 0, sizeof(*w));
	*cursor = SHINGLE_NOWHERE;
	return bad;
}

#define PARAM(word, member, most)						\
	.name = word, .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_FORMAT,	\
	SHINGLE_OPTION_AT(struct stl_full_params, member), .max = most

static const struct shingle_option stl_full_format[] = {
	{ PARAM("zone-bands", zone_bands, U32_MAX), .from = "40 GiB worth",
	  .help = "bands in a zone" },
	{ PARAM("provision", provision, U32_MAX), .from = "5 %, at least 3",
	  .help = "bands of each zone kept free for cleaning and logs" },
	{ PARAM("log-bands", log_bands, U32_MAX), .from = "a fifth, at least 2",
	  .help = "of these, how many may hold cached blocks" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER(#name, struct stl_full, name, COUNT)
#define COUNT_OF_LOGS(name)	SHINGLE_COUNTER(#name, struct stl_full, logs.name, COUNT)

static const struct shingle_counter stl_full_counters[] = {
	COUNT_OF_LOGS(placed_blocks),
	COUNT_OF_LOGS(aborted_blocks),
	COUNT(merged_blocks),
	COUNT(bands_cleaned),
	COUNT(bands_switched),
	COUNT(logs_opened),
	COUNT(logs_freed),
	COUNT(streams_broken),
	COUNT(full_zones),
	SHINGLE_COUNTER("replay_looks", struct stl_full, logs.map.looks, COUNT),
	{ }
};

static_assert(ARRAY_SIZE(stl_full_counters) <= SHINGLE_MAX_COUNTERS + 1);
static_assert(!offsetof(struct stl_full, engine));

static u64 stl_full_map_bytes(struct shingle_engine *e)
{
	struct stl_full *s = to_full(e);

	return shingle_slotlogs_bytes(&s->logs) + (u64)sizeof(*s->log) * s->nr_logs +
	       (u64)sizeof(*s->zone) * s->g.nr_zones + 2ULL * sizeof(u32) * s->nr_bands +
	       (BITS_TO_LONGS(s->nr_bands) + BITS_TO_LONGS(s->g.bands)) * sizeof(long) +
	       2ULL * sizeof(u32) * s->g.bands +
	       (u64)sizeof(*s->pending) * s->nr_pending_max;
}

static u64 stl_full_cached_blocks(struct shingle_engine *e)
{
	return to_full(e)->logs.map.live;
}

const struct shingle_engine_ops stl_full_engine_ops = {
	.name = "stl-full",
	.commit_records = 4,
	.step_records = 1 + FREE_AT_ONCE,
	.step_kinds = { [STEP_MERGE] = "merge", [STEP_FREE] = "free" },
	.discard_records = 1,
	.options = stl_full_options,
	.params = stl_full_format,
	.counters = stl_full_counters,
	.logical_blocks = stl_full_logical_blocks,
	.create = stl_full_create,
	.destroy = stl_full_destroy,
	.resolve = stl_full_resolve,
	.place = stl_full_place,
	.commit = stl_full_commit,
	.abort = stl_full_abort,
	.discard = stl_full_discard,
	.next_step = stl_full_next_step,
	.step_source = stl_full_step_source,
	.step_done = stl_full_step_done,
	.step_failed = stl_full_step_failed,
	.release = stl_full_release,
	.pending = stl_full_pending,
	.referenced = stl_full_referenced,
	.encode = stl_full_encode,
	.decode = stl_full_decode,
	.replay = stl_full_replay,
	.ready = stl_full_ready,
	.max_chunks = stl_full_max_chunks,
	.verify = stl_full_verify,
	.map_bytes = stl_full_map_bytes,
	.cached_blocks = stl_full_cached_blocks,
};
EXPORT_SYMBOL_GPL(stl_full_engine_ops);
