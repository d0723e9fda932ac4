/* SPDX-License-Identifier: GPL-2.0 */
/* State of the fully-associative translation layer, and how its parts call each other. */
#ifndef SHINGLE_FULL_STATE_H
#define SHINGLE_FULL_STATE_H

#include "full/engine.h"
#include "engine/slotlog.h"

/* struct shingle_step::kind */
enum { STEP_MERGE, STEP_FREE };

#define NO_BAND		U32_MAX
#define NO_LOG		U32_MAX

/* Pieces of the state, in their order: stl_full_pieces[]. */
enum { STL_FULL_WRITTEN, STL_FULL_HOMES, STL_FULL_LOGS, STL_FULL_PIECES };

/* Homes in one checkpoint piece.  Tests take less. */
#ifndef PART_HOMES
#define PART_HOMES	1000U
#endif

/* What a physical band is used for: the kind, and which one of the kind. */
#define USE_SHIFT	29
enum { USE_FREE, USE_HOME, USE_LOG, USE_PENDING, USE_STEP };

/* Log bands one step frees besides, for its records are limited. */
#define FREE_AT_ONCE	8U

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
 * struct full_bands - physical bands
 * @use: what each is used for
 * @is_free: those that are used for nothing
 * @failed: which of all failures to write was the last one there; 0: none since it was
 *	last written whole.  Not persistent
 * @failures: to write to a band, so far
 * @pending: ring of bands that wait for release(), in order of their transactions
 * @nr_pending_max: its size
 * @pending_head: the first
 * @nr_pending: how many
 */
struct full_bands {
	u32 *use;
	unsigned long *is_free;
	u32 *failed;
	u32 failures;
	struct full_pending *pending;
	u32 nr_pending_max;
	u32 pending_head;
	u32 nr_pending;
};

/**
 * struct full_clean - what is being cleaned
 * @next_zone: where next_step() looks first
 * @drain_band: logical band that takes no placements until the cleaner has looked again
 * @forced: a forced clean is going on
 * @forced_age: it does without logs of this age and later
 * @step_band: logical band of the step in progress, or NO_BAND
 * @step_log: log of the step in progress, or NO_LOG
 */
struct full_clean {
	u32 next_zone;
	u32 drain_band;
	bool forced;
	u32 forced_age;
	u32 step_band;
	u32 step_log;
};

/**
 * struct stl_full - the engine's state
 * @engine: what core sees
 * @layout: of the device, core's
 * @band_blocks: blocks per band
 * @g: zones and their sizes
 * @nr_bands: logical bands
 * @first_piece: index of the first piece of each kind
 * @threshold: free bands that writes leave alone
 * @lazy: nothing is cleaned before a write needs the room
 * @greedy: clean the log band with the fewest current blocks, not the oldest
 * @read_all: all of a band is read at home, needed or not
 * @logs: the log bands and what is in them; those of zone z begin at z * @g.log_bands
 * @log: where they are
 * @zone: zones
 * @home: per logical band, its physical band
 * @written: per logical band, whether the home holds its content
 * @band_inflight: per logical band, placements not yet committed or aborted
 * @bands: physical bands
 * @clean: cleaning
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
	u32 first_piece[STL_FULL_PIECES];
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

	struct full_bands bands;
	struct full_clean clean;
	struct full_walk walk;

	u64 merged_blocks;
	u64 bands_cleaned;
	u64 bands_switched;
	u64 logs_opened;
	u64 logs_freed;
	u64 streams_broken;
	u64 full_zones;
};

static_assert(!offsetof(struct stl_full, engine));

static inline struct stl_full *to_full(struct shingle_engine *e)
{
	return container_of(e, struct stl_full, engine);
}

static inline u32 first_band(const struct stl_full *s, u32 zone)
{
	return zone * s->g.zone_bands;
}

static inline u32 end_band(const struct stl_full *s, u32 zone)
{
	return zone == s->g.nr_zones - 1 ? s->g.bands : first_band(s, zone + 1);
}

static inline u32 zone_of_band(const struct stl_full *s, u32 band)
{
	return min(band / (s->g.zone_bands - s->g.provision), s->g.nr_zones - 1);
}

static inline u32 zone_of_physical(const struct stl_full *s, u32 band)
{
	return min(band / s->g.zone_bands, s->g.nr_zones - 1);
}

static inline u32 zone_of_log(const struct stl_full *s, u32 log)
{
	return log / s->g.log_bands;
}

/* Where a band lives as long as it was never written. */
static inline u32 first_home(const struct stl_full *s, u32 band)
{
	return band + zone_of_band(s, band) * s->g.provision;
}

static inline u64 band_pblk(const struct stl_full *s, u32 band)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, band);
}

static inline u64 slot_pblk(const struct stl_full *s, u32 slot)
{
	return band_pblk(s, s->log[slot / s->band_blocks].band) + slot % s->band_blocks;
}

static inline u32 use_kind(const struct stl_full *s, u32 band)
{
	return s->bands.use[band] >> USE_SHIFT;
}

static inline u32 use_which(const struct stl_full *s, u32 band)
{
	return s->bands.use[band] & ((1U << USE_SHIFT) - 1);
}

static inline u32 find_slot(const struct stl_full *s, u32 band, u32 lblk)
{
	return shingle_slotlog_find(&s->logs, band, lblk);
}

static inline bool has_room(const struct stl_full *s, u32 log)
{
	return log != NO_LOG && !shingle_slotlog_is_full(&s->logs, log);
}

static inline void drop_band(struct stl_full *s, u32 band)
{
	shingle_slotlog_drop(&s->logs, band * s->band_blocks, s->band_blocks, U32_MAX);
}

/* full/state.c */
u32 stl_full_nr_bands(const struct shingle_layout *l);
u64 stl_full_logical_blocks(const struct shingle_layout *l);
u32 stl_full_nr_logs(const struct shingle_layout *l);
int stl_full_create(struct shingle_engine **out, const struct shingle_layout *layout,
		    const char **why);
void stl_full_destroy(struct shingle_engine *e);
u32 stl_full_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx);

/* full/recover.c */
extern const struct shingle_piece_kind stl_full_pieces[];
extern const struct shingle_record_kind stl_full_records[];

int stl_full_replay(struct shingle_engine *e, const struct shingle_record *rec);
int stl_full_ready(struct shingle_engine *e, const char **why);

/* full/bands.c */
void stl_full_set_written(struct stl_full *s, u32 band, bool written);
void stl_full_set_use(struct stl_full *s, u32 band, u32 kind, u32 which);
u32 stl_full_free_band(const struct stl_full *s, u32 zone);
u32 stl_full_take_band(struct stl_full *s, u32 zone);
void stl_full_give_band(struct stl_full *s, u32 band);
void stl_full_band_failed(struct stl_full *s, u32 band);
void stl_full_retire_band(struct stl_full *s, u32 band, u64 seq);
void stl_full_move_home(struct stl_full *s, u32 band, u32 to, struct shingle_emit *emit);
bool stl_full_release(struct shingle_engine *e, u64 seq);
bool stl_full_pending(struct shingle_engine *e);

/* full/log.c */
bool stl_full_room(const struct stl_full *s, u32 zone, u32 free);
void stl_full_break_stream(struct stl_full *s, struct full_zone *z);
void stl_full_clear_log(struct stl_full *s, u32 log, struct shingle_emit *emit);
int stl_full_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		   struct shingle_run *out);
void stl_full_commit(struct shingle_engine *e, const struct shingle_run *run,
		     struct shingle_emit *emit);
void stl_full_abort(struct shingle_engine *e, const struct shingle_run *run);

/* full/clean.c */
int stl_full_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step);
void stl_full_step_done(struct shingle_engine *e, const struct shingle_step *step,
			struct shingle_emit *emit);
bool stl_full_step_failed(struct shingle_engine *e, const struct shingle_step *step,
			  const struct shingle_unwritten *bad);

#endif /* SHINGLE_FULL_STATE_H */
