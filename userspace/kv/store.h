/* SPDX-License-Identifier: GPL-2.0 */
/* The inside of a store. */
#ifndef KV_STORE_H
#define KV_STORE_H

#include <pthread.h>
#include <shim.h>
#include <shingle-kv.h>

#include "disk.h"
#include "entry.h"
#include "error.h"
#include "format.h"

#define EXPORTED	__attribute__((__visibility__("default")))

/* Bands that are left to those who free others when writes find no room. */
#define RESERVE_PUT	7U
#define RESERVE_DELETE	4U
#define RESERVE_MERGE	1U
#define RESERVE_NONE	0U

/* Of one memtable: recovery reads no more than twice that. */
#define LOG_BANDS	4U
/* Bands that a merge writes between two commits; tests have less. */
#ifndef COMMIT_BANDS
#define COMMIT_BANDS	4U
#endif
/* A merge leaves such a share of a band free, so that versions of one key are not parted. */
#define MOST_UNUSED	16U
/* Of inputs, all together, in a merge. */
#define READ_AHEAD	(32U << 20)
#define WINDOW_BYTES	(1U << 20)

enum band_state {
	BAND_USED,	/* by a table, a log, or who is about to write it */
	BAND_UNKNOWN,	/* free; what was there may not have been discarded */
	BAND_STALE,	/* free since a short while, and to be discarded */
	BAND_CLEAN,	/* free and discarded */
};

/**
 * struct table - a sorted table in a band
 * @refs: parts and cursors that may read it; of kv::lock
 * @id: no other table or log ever had it
 * @band: where
 * @bytes: used of the band
 * @entries: in it
 * @tombstones: of these deletions
 * @unsorted: it is a log with an index behind it
 * @dead: a part of it has left the band table: the band is free when @refs is 0
 * @damaged: something read from it was wrong: compactions leave it alone
 * @foot: its footer, once @footed
 * @footed: @foot was read; of kv::lock
 * @read_end: where what was last read by the way ended, and
 * @read_bytes: how much it was; both are hints, and read and written atomically
 */
struct table {
	u32 refs;
	u64 id;
	u32 band, bytes;
	u64 entries, tombstones;
	bool unsorted, dead, damaged;
	struct footer foot;
	bool footed;
	u32 read_end, read_bytes;
};

/**
 * struct part - a table as a version has it
 * @refs: versions and others
 * @table: see there
 * @level: see there
 * @age: what is newer within a level has more
 * @min: least key; what the table has below it does not count any more
 * @max: largest key
 * @going: is left out of the version that is being made; of @committing
 * @keys: what @min and @max point to
 */
struct part {
	u32 refs;
	struct table *table;
	u32 level;
	u64 age;
	struct slice min, max;
	bool going;
	u8 keys[];
};

/**
 * struct level - the parts of a level
 * @nr: how many
 * @bytes: in their bands
 * @part: by @min, then age
 * @reach: a balanced tree over @part: the root of parts low to high - 1 is the one in the
 *	middle, low + (high - low) / 2; for each root, which of its parts has the largest @max
 * @newest: the same tree; which of them is the newest
 * @cover: of each part, how many have its @min in their ranges; itself counts
 * @deepest: the part with the largest @cover
 * @before: of each part, bytes of those in front of it; one more has the sum
 */
struct level {
	u32 nr;
	u64 bytes;
	struct part **part;
	u32 *reach, *newest, *cover, deepest;
	u64 *before;
};

/**
 * struct version - which tables there are; does not change
 * @refs: readers, and the store while it is the current one
 * @level: see there
 * @nr: parts in all
 * @most_bytes: of the band table, what they take at most until they are gone: a merge that
 *	has begun with one gives it another least key
 */
struct version {
	u32 refs;
	struct level level[KV_LEVELS];
	u32 nr;
	u64 most_bytes;
};

/**
 * struct log_band - a band of a log
 * @band: where
 * @bytes: used, once nothing is added; 0 before
 * @id: no other table or log ever had it
 * @memtable: whose writes it has
 */
struct log_band {
	u32 band, bytes;
	u64 id, memtable;
};

#define NO_BAND		U32_MAX
#define MAX_LOG_BANDS	(4 * LOG_BANDS)

struct memtable;
struct cache;

/**
 * struct log - where writes go first
 * @io: held while a chunk is written, and while the device is flushed for one
 * @lock: of what follows; taken before that of the store
 * @fill: writes that are not on the disk
 * @spare: takes its place while it is written
 * @batches: were added to @fill, ever
 * @synced: of them durable
 * @covered: of them in the last flush that log_sync() has begun, or before it
 * @leading: a thread flushes for all threads that sync
 * @round: number of that flush
 * @asked: syncs that have waited for a flush, ever
 * @included: of them in the last flush that log_sync() has begun, or before it
 * @answered: of them in one that has ended
 * @together: syncs that waited when the last flush ended, with those that it served
 * @flush_us: what that flush took
 * @turn: threads that wait for a flush with an even number, and for one with an odd number
 * @band: written now
 * @has_band: there is one
 * @pending: @band is in no band table yet, and nothing may be written to it
 * @full: the band before it, which is sealed when @band comes into the band table
 * @before: batches in @full and before
 * @at: bytes used of it
 * @end: of it may be used; @at once it was filled up with zeroes
 * @prepared: bytes of it that the disk has been told of, or more; of @io
 * @chunk: number of the next chunk in it
 * @chunk_synced: chunks below it are durable
 * @bands: of this memtable
 */
struct log {
	pthread_mutex_t io, lock;
	struct { u8 *data; u32 used, room; } fill, spare;
	u64 batches, synced, covered, round;
	u64 asked, included, answered, together, flush_us;
	bool leading;
	pthread_cond_t turn[2];
	struct log_band band, full;
	bool has_band, pending;
	u64 before;
	u32 at, end, prepared;
	u64 chunk, chunk_synced;
	u32 bands;
};

/**
 * struct repair - a log is read for what is whole of it
 * @unreadable: what cannot be read is given up
 * @report: see kv_repair()
 * @ctx: for it
 */
struct repair {
	bool unreadable;
	void (*report)(void *ctx, const char *sentence);
	void *ctx;
};

struct kv_snapshot {
	struct kv_snapshot *next, *prev;
	u64 seq;
};

/**
 * struct kv - a store
 * @disk: see there
 * @head: what the header says
 * @offload: device to which writes go while a merge is under way; or NULL
 * @spare: what its header says; without one it has no bands
 * @opt: how it is used; no field is 0 that should not be
 * @writer: held by who writes to the memtable and the log
 * @compacting: held by who makes tables
 * @committing: held by who writes the band table
 * @flushing: held by who flushes the device
 * @spare_flushing: the same, of the offload device: who syncs there waits for no other
 * @lock: of all else that changes; the last to be taken but for the cache's
 * @changed: something under @lock that others wait for
 * @work: there is something for the thread
 * @thread: compacts in the background
 * @has_thread: it runs
 * @stop: it is to end
 * @merging: merges that are under way
 * @claimed: bands that the merge under way may want: writers leave them
 * @version: current; changes under both @committing and @lock
 * @mem: takes writes
 * @frozen: becomes a table; or NULL
 * @unit: KV_BUFFERED: the log of @frozen, that becomes one as it is; @unit.band is NO_BAND
 *	if it does not
 * @log: see there
 * @logs: in the band table; as @version
 * @nr_logs: how many
 * @snapshots: of all, in no order; a head only
 * @seq: of the last write that readers see
 * @next_seq: of the next write; of @writer
 * @next_id: of tables and logs
 * @next_age: of parts
 * @generation: of the band table; as @version
 * @logged: the newest one that a chunk knows of the logs that were read back
 * @state: enum band_state of each band
 * @free: how many are not BAND_USED
 * @spare_free: of the offload device
 * @stale: how many are BAND_STALE, of both
 * @hand: where the last band was found
 * @next: KV_STREAM: band before which the last one written ended; NO_BAND: nobody knows
 * @copy_bytes: of the band table that was written last
 * @zeroes: KV_STREAM: some
 * @zero_bytes: so many
 * @round: LOC: where the last compaction of each level ended
 * @broken: a write or flush has failed: why; 0 while all is well
 * @broken_text: in words
 * @held: a compaction has failed, and is not tried before the version changes
 * @held_until: of a read that has failed: until then only; 0: until the version changes
 * @held_text: in words
 * @held_generation: which one it was
 * @tidied: SOC: merges within level 1 since the last one from level 0
 * @crowded: SOC: so many tables at a key of level 1 a merge has left as they were, as snapshots
 *	keep versions of one key; fewer are not merged because of that
 * @crowded_released: what @released was then
 * @live: answers other programs; or NULL
 * @repair: what kv_repair() was asked for; NULL of a store that is only opened
 * @lost: what is missing of the log, in words
 * @lost_error: -EUCLEAN, or the error of the read; 0 if nothing is missing
 * @full: since the memtable with this number, nothing could be freed
 * @full_released: what @released was then
 * @released: how often a snapshot or a band was let go
 * @cache: see there
 * @stats: added to atomically
 */
struct kv {
	struct kv_disk *disk;
	struct shape head;
	struct kv_disk *offload;
	struct shape spare;
	struct kv_options opt;
	pthread_mutex_t writer, compacting, committing, flushing, spare_flushing, lock;
	pthread_cond_t changed, work;
	pthread_t thread;
	bool has_thread, stop;
	u32 merging, claimed;
	struct version *version;
	struct memtable *mem, *frozen;
	struct log_band unit;
	struct log log;
	struct log_band logs[MAX_LOG_BANDS];
	u32 nr_logs;
	struct kv_snapshot snapshots;
	u64 seq, next_seq;
	u64 next_id, next_age, generation, logged;
	u8 *state;
	u32 free, spare_free, stale, hand, next, copy_bytes, zero_bytes;
	void *zeroes;
	struct buffer round[KV_LEVELS];
	int broken;
	char broken_text[400];
	int held;
	u64 held_until;
	char held_text[400];
	u64 held_generation;
	u32 tidied, crowded;
	u64 crowded_released;
	struct live *live;
	const struct repair *repair;
	char lost[400];
	int lost_error;
	u64 full, full_released, released;
	struct cache *cache;
	struct kv_stats stats;
};

/* Is a band on the offload device? */
static inline bool is_spare(const struct kv *kv, u32 band)
{
	return band >= kv->head.bands;
}

/* How many levels an organisation has. */
static inline u32 levels_of(const struct shape *s)
{
	return s->organisation == KV_SOC ? 2 : s->organisation == KV_BUFFERED ? 4 : KV_LEVELS;
}

/* Bands are written one after another, by whoever has @writer. */
static inline bool streams(const struct kv *kv)
{
	return kv->opt.flags & KV_STREAM;
}

static inline void count(uint64_t *what, u64 n)
{
	__atomic_fetch_add(what, n, __ATOMIC_RELAXED);
}

/* store.c */
int store_open(struct kv **kv, struct kv_disk *disk, struct kv_disk *offload,
	       const struct kv_options *opt);
int store_begin(struct kv **kv, struct kv_disk *disk, const struct kv_format_options *opt,
		const u8 *uuid);
int store_finish(struct kv *kv);
void store_give_up(struct kv *kv);
int checkpoint_to(struct kv *kv, struct kv_disk *disk, const struct kv_format_options *opt,
		  const u8 *uuid);
int store_repair(struct kv_disk *disk, struct kv_disk *offload, const struct kv_options *opt,
		 const struct repair *repair);
int store_offload(struct kv_disk *disk, const struct shape *head, u64 bytes, const u8 *own);
int store_format(struct kv_disk *disk, const struct kv_format_options *opt, const u8 *uuid);
int store_write(struct kv *kv, struct kv_disk *disk, u64 offset, const void *buf, u32 bytes);
int store_wrote(struct kv *kv, const struct kv_disk *disk, int err, u64 offset);
int store_flush_disk(struct kv *kv, struct kv_disk *disk);
int store_flush(struct kv *kv);
u64 now_us(void);
void wait_init(pthread_cond_t *cond);
void wait_us(pthread_cond_t *cond, pthread_mutex_t *lock, u64 us);
int take_sized(void *to, size_t ours, const void *from, u64 size, const char *name);
void give_sized(void *to, u64 size, const void *from, size_t ours);
int store_broken(struct kv *kv);
void store_break(struct kv *kv, int err, const char *text);

/* header.c */
int header_write(struct kv_disk *disk, const struct shape *s);
int header_read(struct kv_disk *disk, enum header_kind kind, struct shape *s);
struct kv_disk *band_disk(const struct kv *kv, u32 band);
u64 band_offset(const struct kv *kv, u32 band);

/* bands.c */
bool bands_enough(struct kv *kv, u32 reserve);
int band_take(struct kv *kv, u32 reserve, u32 *band);
int band_take_spare(struct kv *kv, u32 reserve, u32 *band);
u32 *bands_free(struct kv *kv, u32 band);
void band_level(struct kv *kv, u32 band, u32 level, bool moved);
int band_lead_in(struct kv *kv, u32 band);
int band_fill_up(struct kv *kv, u32 band, u32 at);
void band_give_back(struct kv *kv, u32 band);
void band_retire(struct kv *kv, u32 band);
bool bands_reclaim(struct kv *kv, u32 most);

/**
 * struct change - of the band table
 * @remove: parts that go
 * @removes: how many
 * @add: parts that come
 * @adds: how many
 * @memtable: logs of it and of older ones go
 * @seal: a log band to which nothing is added any more, with its bytes; or NULL
 * @log: a log band that comes; or NULL
 * @durable: all that the change makes count is durable already
 */
struct change {
	struct part **remove, **add;
	u32 removes, adds;
	u64 memtable;
	const struct log_band *seal, *log;
	bool durable;
};

/* bandtable.c */
u64 bandtable_room(const struct kv *kv);
u32 bands_crc(const struct kv *kv, struct bands_head *h);
int bandtable_write(struct kv *kv, const struct version *v, const struct log_band *logs,
		    u32 nr_logs, u64 generation, bool both);
int bandtable_read(struct kv *kv);
int bandtable_copies(struct kv *kv, void (*report)(void *ctx, const char *text, int err),
		     void *ctx);
int commit(struct kv *kv, const struct change *c);

/* version.c */
struct part *part_new(struct table *t, u32 level, u64 age, struct slice min, struct slice max);
void part_put(struct kv *kv, struct part *p);
struct version *version_new(struct part **part, u32 nr);
struct version *version_get(struct kv *kv);
void version_put(struct kv *kv, struct version *v);
struct version *version_changed(struct version *old, struct part **remove, u32 removes,
				struct part **add, u32 adds);
u32 level_begun(const struct level *l, struct slice key);
u32 level_before(const struct level *l, struct slice key);
u32 version_newer(const struct version *v, u32 level, struct slice min, struct slice max,
		  u64 age, struct part **out, u32 most);
u32 version_overlaps(const struct version *v, u32 level, struct slice min, struct slice max,
		     struct part **out, u32 most);
struct part *version_older(const struct version *v, u32 level, struct slice key, u64 age);

/* log.c */
u32 chunk_crc(const struct kv *kv, struct chunk_head *h, u32 bytes);
int log_init(struct kv *kv);
void log_destroy(struct kv *kv);
int log_push(struct kv *kv);
int log_room(struct kv *kv, const struct kv_batch *b, u32 reserve);
int log_next_band(struct kv *kv, u32 reserve);
int log_enter_band(struct kv *kv);
int log_end_band(struct kv *kv);
bool log_take_unit(struct kv *kv, struct log_band *unit);
u64 log_add(struct kv *kv, const struct kv_batch *batch, u64 seq, u32 *place);
int log_sync(struct kv *kv, u64 number);
int log_replay(struct kv *kv, const struct log_band *b, struct memtable *m, u64 *next_seq,
	       int *lost);
int log_seal(struct kv *kv);
int log_salvage(struct kv *kv, const struct log_band *b, struct memtable *m, u64 *next_seq);
int log_verify(struct kv *kv, struct table *t, u32 bytes);

/* write.c: what may be compacted by the caller, while nobody else compacts */
void begin_compacting(struct kv *kv);
void end_compacting(struct kv *kv);

/* compact.c: all by @compacting, or with nobody else yet, but for the last three */
int compact_frozen(struct kv *kv);
int compact_step(struct kv *kv, bool *did);
int compact_due(struct kv *kv);
int compact_idle(struct kv *kv, bool *did);
int compact_all(struct kv *kv);
int compact_range(struct kv *kv, struct slice from, struct slice to);
void *compact_thread(void *arg);
int freeze(struct kv *kv);

/**
 * struct view - what a reader sees
 * @mem: see struct kv
 * @frozen: see there, or NULL
 * @version: see there
 * @seq: of the last write in it
 */
struct view {
	struct memtable *mem, *frozen;
	struct version *version;
	u64 seq;
};

/* get.c */
void view_take(struct kv *kv, const struct kv_snapshot *snap, struct view *view);
void view_drop(struct kv *kv, struct view *view);

#endif /* KV_STORE_H */
