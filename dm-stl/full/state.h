/* SPDX-License-Identifier: GPL-2.0 */
/* State of the fully-associative translation layer, and the functions that its files share. */
#ifndef SHINGLE_FULL_STATE_H
#define SHINGLE_FULL_STATE_H

#include "full/engine.h"
#include "engine/slotlog.h"

/* Kinds of steps, for struct shingle_step::kind. */
enum { STEP_MERGE, STEP_FREE };

#define NO_BAND		U32_MAX
#define NO_LOG		U32_MAX

/* Kinds of checkpoint pieces, in the order of stl_full_pieces[]. */
enum { STL_FULL_WRITTEN, STL_FULL_HOMES, STL_FULL_LOGS, STL_FULL_PIECES };

/* Homes in one checkpoint piece.  Tests define a smaller value. */
#ifndef PART_HOMES
#define PART_HOMES	1000U
#endif

/*
 * The use of a physical band: the kind in the high bits, the index within the kind in the
 * low bits.
 */
#define USE_SHIFT	29
enum { USE_FREE, USE_HOME, USE_LOG, USE_PENDING, USE_STEP };

/* Most empty log bands that one step frees in addition; bounds its records. */
#define FREE_AT_ONCE	8U

/**
 * struct full_shape - the parameters, fitted to the layout
 * @bands: physical bands
 * @zone_bands: physical bands of each zone but the last
 * @provision: see struct stl_full_params
 * @log_bands: see struct stl_full_params
 * @nr_zones: number of zones
 */
struct full_shape {
	u32 bands;
	u32 zone_bands;
	u32 provision;
	u32 log_bands;
	u32 nr_zones;
};

/**
 * struct full_log - the place of a log; struct shingle_slotlog describes its slots
 * @band: its physical band, or NO_BAND
 * @aborts: writes to it that failed since the last commit to it
 * @recorded: the journal has a record of its place
 */
struct full_log {
	u32 band;
	u32 aborts;
	bool recorded;
};

/**
 * struct full_zone - a zone
 * @free: number of free bands
 * @pending: number of bands that wait for release()
 * @open: log that writes go to, or NO_LOG
 * @stream: log that holds blocks of @stream_band only, in order; or NO_LOG
 * @stream_band: logical band of the stream
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
 * struct full_walk - counts of verify(), besides those of slots and logical bands
 * @uses: physical bands visited
 * @nr: bands visited in the current zone, by kind of use
 */
struct full_walk {
	u32 uses;
	u32 nr[USE_STEP + 1];
};

/**
 * struct full_bands - the physical bands
 * @use: the use of each band
 * @is_free: bitmap of the free bands
 * @failed: for each band the value of @failures at its last failed write; 0 if none failed
 *	since the band was last written whole.  Not persistent
 * @failures: failed writes to bands, so far
 * @pending: ring of bands that wait for release(), in the order of their transactions
 * @nr_pending_max: size of the ring
 * @pending_head: index of the first entry
 * @nr_pending: number of entries
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
 * struct full_clean - state of the cleaner
 * @next_zone: the zone where next_step() begins to search
 * @drain_band: logical band that takes no placements until the cleaner has looked again
 * @forced: a forced clean is in progress
 * @forced_age: the forced clean leaves out logs of this age and later
 * @step_band: band of the step in progress, or NO_BAND
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
 * @engine: the part that core sees
 * @layout: layout of the device, owned by core
 * @band_blocks: blocks per band
 * @g: zones and their sizes
 * @nr_bands: logical bands
 * @first_piece: index of the first checkpoint piece of each kind
 * @threshold: number of free bands of a zone that writes leave to the cleaner
 * @lazy: clean only when a write needs the room
 * @greedy: clean the log band with the fewest current blocks instead of the oldest
 * @read_all: a step reads the whole home of a band, needed or not
 * @logs: slots of the log bands; those of zone z begin at z * @g.log_bands
 * @log: places of the log bands
 * @zone: the zones
 * @home: physical band of each logical band
 * @written: for each logical band, whether its home holds its content
 * @band_inflight: for each logical band, the placements not yet committed or aborted
 * @bands: the physical bands
 * @clean: state of the cleaner
 * @walk: counts of verify(); changes of the state during a walk adjust them
 * @count: counters of the status
 * @count.merged_blocks: cached blocks copied into bands
 * @count.bands_cleaned: logical bands merged
 * @count.bands_switched: log bands that became a home without a copy
 * @count.logs_opened: log bands taken into use
 * @count.logs_freed: log bands emptied
 * @count.streams_broken: streams that ended before the end of their band
 * @count.full_zones: times a write found no room
 *
 * The map lock protects all of it; see engine.h.
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

	/* Counters of the status */
	struct {
		u64 merged_blocks;
		u64 bands_cleaned;
		u64 bands_switched;
		u64 logs_opened;
		u64 logs_freed;
		u64 streams_broken;
		u64 full_zones;
	} count;
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

/* The home of a band that was never written. */
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
