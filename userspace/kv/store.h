/* SPDX-License-Identifier: GPL-2.0 */
/* Structures and functions inside a store. */
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

/*
 * Free bands that the requester must leave for others.  A write leaves the most, so that deletions
 * and merges, which free bands, still find some.
 */
#define RESERVE_PUT	7U
#define RESERVE_DELETE	4U
#define RESERVE_MERGE	1U
#define RESERVE_NONE	0U

/* Most log bands of one memtable; recovery reads at most twice as many. */
#define LOG_BANDS	4U
/* Bands that a merge writes between two commits; tests set a smaller number. */
#ifndef COMMIT_BANDS
#define COMMIT_BANDS	4U
#endif
/*
 * A merge may leave 1 / MOST_UNUSED of a band free, to keep the versions of one key in one table.
 */
#define MOST_UNUSED	16U
/* Read-ahead of all inputs of a merge together, in bytes. */
#define READ_AHEAD	(32U << 20)
#define WINDOW_BYTES	(1U << 20)

enum band_state {
	BAND_USED,	/* holds a table or a log, or will be written soon */
	BAND_UNKNOWN,	/* free; the old contents may not have been discarded */
	BAND_STALE,	/* became free a short while ago; is to be discarded */
	BAND_CLEAN,	/* free and discarded */
};

/**
 * struct table - a sorted table in a band
 * @refs: number of parts and cursors that may read it; guarded by kv::lock
 * @id: number that no other table or log has or had
 * @band: the band that holds it
 * @bytes: bytes used of the band
 * @entries: number of entries
 * @tombstones: number of entries that are deletions
 * @unsorted: the table is a log with an index behind it
 * @dead: a part of it has left the band table: the band becomes free when @refs is 0
 * @damaged: a read has found damage: compactions do not read the table
 * @foot: its footer, valid if @footed
 * @footed: @foot has been read; set under kv::lock
 * @read_end: where the last read beyond a block (table_read_by()) ended; a hint, accessed
 *	atomically
 * @read_bytes: length of that read; a hint, accessed atomically
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
 * struct part - the place of a table in a version
 * @refs: number of versions and other users
 * @table: the table
 * @level: its level
 * @age: within a level, a newer part has a larger age
 * @min: least key; smaller keys in the table no longer count
 * @max: largest key
 * @going: the part is left out of the version that is being built; guarded by @committing
 * @keys: the bytes that @min and @max point to
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
 * @nr: number of parts
 * @bytes: bytes used of their bands
 * @part: the parts in ascending order of @min, then of age
 * @reach: a balanced tree over @part.  The root of the parts low to high - 1 is the middle one, low
 *	+ (high - low) / 2.  For each root: which part of its subtree has the largest @max
 * @newest: the same tree; for each root, the newest part of its subtree
 * @cover: for each part, the number of parts with its @min in their ranges, itself included
 * @deepest: the part with the largest @cover
 * @before: for each part, the sum of the bytes of the parts before it; one more element has the
 *	total
 */
struct level {
	u32 nr;
	u64 bytes;
	struct part **part;
	u32 *reach, *newest, *cover, deepest;
	u64 *before;
};

/**
 * struct version - the set of tables at one moment; immutable
 * @refs: number of readers, plus the store while the version is current
 * @level: the parts by level
 * @nr: number of parts of all levels
 * @most_bytes: most bytes that the parts can take in the band table until they are gone; a merge
 *	may give a part a longer least key
 */
struct version {
	u32 refs;
	struct level level[KV_LEVELS];
	u32 nr;
	u64 most_bytes;
};

/**
 * struct log_band - a band of a log
 * @band: the band
 * @bytes: bytes used, set when nothing is added any more; 0 before
 * @id: number that no other table or log has or had
 * @memtable: number of the memtable that has the same writes
 */
struct log_band {
	u32 band, bytes;
	u64 id, memtable;
};

#define NO_BAND		U32_MAX
#define MAX_LOG_BANDS	(4 * LOG_BANDS)

struct memtable;
struct cache;

/* Chunks that wait for the disk.  Commits that take 5 ms let writers add about a MiB. */
#define LOG_QUEUE	7U

/**
 * struct log_buffer - the contents of a chunk
 * @data: the head of the chunk, which is filled in when the chunk is written, and its batches
 * @used: bytes used
 * @room: size of @data
 */
struct log_buffer {
	u8 *data;
	u32 used, room;
};

/**
 * struct log_chunk - a chunk that is to be written
 * @buffer: its contents
 * @band: its band
 * @at: its offset in the band
 * @number: its number in the band
 * @synced: chunks of the band with a smaller number were durable when this one was queued
 */
struct log_chunk {
	struct log_buffer buffer;
	struct log_band band;
	u32 at;
	u64 number, synced;
};

#define LOG_PENDING	4U

/**
 * struct log_pending - a log band that is to enter the band table
 * @band: the band
 * @full: the band before, which is sealed then
 * @before: number of batches in @full and in earlier bands
 * @clean: @band needs no discard
 */
struct log_pending {
	struct log_band band, full;
	u64 before;
	bool clean;
};

/**
 * struct log - the write-ahead log, to which writes go first
 * @io: held while a chunk is written, a band is committed, and the device is flushed for the log
 * @lock: guards the fields below; taken after @io and before the lock of the store
 * @worker: the thread that writes chunks; guarded by @lock
 * @worker.thread: log_thread(), if the store has threads
 * @worker.stop: the thread shall end
 * @worker.work: signalled when the thread has something to do
 * @fill: buffer of writes that are in no chunk yet; guarded by @lock
 * @queue: chunks that are to be written; guarded by @lock
 * @queue.chunk: number n is at n modulo LOG_QUEUE.  The holder of @io may read them without @lock
 * @queue.added: number of chunks ever added
 * @queue.written: number of those that are written or no longer needed; changes only under @io and
 *	@lock
 * @sync: flushes that threads share; guarded by @lock
 * @sync.batches: number of batches ever added to @fill
 * @sync.synced: number of those that are durable
 * @sync.covered: number of those in the last flush that log_sync() has begun, or in an earlier one
 * @sync.round: number of that flush
 * @sync.requested: number of syncs that have ever waited for a flush
 * @sync.included: number of those in the last flush that log_sync() has begun, or in an earlier one
 * @sync.answered: number of those with a flush that has ended
 * @sync.together: number of syncs that waited when the last flush ended, plus those it served
 * @sync.flush_us: duration of that flush
 * @sync.leading: a thread is flushing for all threads that wait in log_sync()
 * @sync.turn: wait queues, one for flushes with an even number and one for those with an odd number
 * @open: the band that is written now; guarded by @lock
 * @open.band: the band
 * @open.valid: there is such a band
 * @open.at: bytes used of it
 * @open.end: bytes of it that may be used; equal to @open.at once it has been filled with zeroes
 * @open.prepared: end of the range that was last passed to the disk's prepare(); guarded by @io
 * @open.prepared_id: the band of that range, likewise
 * @open.chunk: number of the next chunk in the band
 * @open.chunk_synced: chunks with a smaller number are durable
 * @pending: bands that are not in the band table yet, so they must not be written to; guarded by
 *	@lock
 * @pending.band: number n is at n modulo LOG_PENDING.  The holder of @io may read them without
 *	@lock
 * @pending.begun: number of bands ever added
 * @pending.entered: number of those that entered the band table or are no longer needed; changes
 *	only under @io and @lock
 * @bands: number of log bands of the current memtable; guarded by @lock
 */
struct log {
	pthread_mutex_t io, lock;
	struct {
		pthread_t thread;
		bool stop;
		pthread_cond_t work;
	} worker;
	struct log_buffer fill;
	struct {
		struct log_chunk chunk[LOG_QUEUE];
		u64 added, written;
	} queue;
	struct {
		u64 batches, synced, covered, round;
		u64 requested, included, answered, together, flush_us;
		bool leading;
		pthread_cond_t turn[2];
	} sync;
	struct {
		struct log_band band;
		bool valid;
		u32 at, end, prepared;
		u64 prepared_id, chunk, chunk_synced;
	} open;
	struct {
		struct log_pending band[LOG_PENDING];
		u64 begun, entered;
	} pending;
	u32 bands;
};

/**
 * struct repair - how to read a damaged log
 * @unreadable: give up pieces that cannot be read
 * @report: see kv_repair()
 * @ctx: argument of @report
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
 * struct view - what a reader sees
 * @mem: the memtable that takes writes
 * @frozen: memtable that is becoming a table; or NULL
 * @version: the set of tables
 * @seq: number of the last write that is visible
 */
struct view {
	struct memtable *mem, *frozen;
	struct version *version;
	u64 seq;
};

/**
 * struct kv - an open store
 * @disk: the disk
 * @head: contents of the header
 * @offload: device that takes writes while a merge runs; does not change, except for its lock
 * @offload.disk: the device; or NULL
 * @offload.head: contents of its header; all zero without a device
 * @offload.flushing: held to flush the device; a separate lock, so that syncs there do not wait
 *	for flushes of @disk
 * @opt: options, with defaults filled in
 * @writer: held to write to the memtable and the log
 * @compacting: held to make tables
 * @committing: held to write the band table
 * @flushing: held to flush @disk
 * @lock: guards all other fields that change; taken last, except for the locks of the cache
 * @changed: signalled when something under @lock changes that other threads wait for
 * @worker: the background thread, which compacts; guarded by @lock
 * @worker.thread: the thread
 * @worker.work: signalled when there is work for it
 * @worker.running: the thread exists
 * @worker.stop: the thread must end
 * @worker.merging: number of merges that are running, in any thread; accessed atomically
 * @current: what new readers see; guarded by @lock.  Its version changes under both @committing and
 *	@lock
 * @flush: how the frozen memtable becomes a table; guarded by @lock
 * @flush.began_us: time when it was frozen
 * @flush.expected_us: time from there until it is expected to be a table
 * @flush.unit: KV_BUFFERED: its log, if that becomes a table as it is; else the band is NO_BAND
 * @log: the log
 * @bandtable: what the band table has besides the version; changes under both @committing and @lock
 * @bandtable.logs: log bands
 * @bandtable.nr_logs: number of @logs
 * @bandtable.generation: generation of the newest copy
 * @bandtable.copy_bytes: bytes of the last copy that was written; set by the holder of @committing,
 *	read without a lock
 * @snapshots: head of the list of all snapshots, in no order; guarded by @lock
 * @next: the next numbers; accessed atomically
 * @next.seq: of a write; changed by the holder of @writer
 * @next.id: of a table or log
 * @next.age: of a part
 * @bands: the free bands; guarded by @lock
 * @bands.state: enum band_state of each band
 * @bands.free: number of bands that are not BAND_USED
 * @bands.spare_free: the same for the offload device
 * @bands.stale: number of bands that are BAND_STALE, on both devices
 * @bands.claimed: bands that the running merge may need; writers leave them free
 * @bands.search_from: where the search for a free band begins
 * @bands.full: number of the memtable since which nothing could be freed
 * @bands.full_released: value of @bands.released at that time
 * @bands.released: number of snapshots and bands ever released
 * @bands.stream: KV_STREAM: where the next band begins
 * @bands.stream.next: the band behind the one that was written last; NO_BAND if unknown
 * @bands.stream.zeroes: a buffer of zeroes; does not change
 * @bands.stream.zero_bytes: size of @bands.stream.zeroes
 * @pick: what the choice of a merge remembers; @pick.begin and @pick.tidied are guarded by
 *	@compacting, the others by @lock
 * @pick.begin: KV_LOC and KV_BUFFERED: for each level, the key where its last compaction began
 * @pick.tidied: KV_SOC: number of merges within level 1 since the last merge from level 0
 * @pick.stuck: KV_SOC: number of tables at a key of level 1 that a merge could not reduce because
 *	snapshots keep versions of the key; that number or a smaller one causes no merge
 * @pick.stuck_released: value of @bands.released at that time
 * @pick.failed: the compaction that failed, after which none is tried for a while
 * @pick.failed.err: its error; 0 if none has failed
 * @pick.failed.until: end of the wait after a read error; 0: wait until the version changes
 * @pick.failed.generation: generation of the band table at that time
 * @pick.failed.text: its message
 * @broken: the write or flush that failed, after which nothing is written; guarded by @lock
 * @broken.err: its error; 0 if none has failed
 * @broken.text: its message
 * @recovery: what was read when the store was opened; does not change afterwards
 * @recovery.repair: what kv_repair() shall do; NULL for a store that is only opened
 * @recovery.generation: newest generation that is named by a chunk of the logs that were read
 * @recovery.err: -EUCLEAN, or the error of the read, if a part of the log is missing; else 0
 * @recovery.text: message about what is missing of the log
 * @live: answers other programs; or NULL
 * @cache: the cache
 * @forks: number of forks that had led to this process when the store was opened
 * @stats: counters, updated atomically
 */
struct kv {
	struct kv_disk *disk;
	struct shape head;
	struct {
		struct kv_disk *disk;
		struct shape head;
		pthread_mutex_t flushing;
	} offload;
	struct kv_options opt;
	pthread_mutex_t writer, compacting, committing, flushing, lock;
	pthread_cond_t changed;
	struct {
		pthread_t thread;
		pthread_cond_t work;
		bool running, stop;
		u32 merging;
	} worker;
	struct view current;
	struct {
		u64 began_us, expected_us;
		struct log_band unit;
	} flush;
	struct log log;
	struct {
		struct log_band logs[MAX_LOG_BANDS];
		u32 nr_logs, copy_bytes;
		u64 generation;
	} bandtable;
	struct kv_snapshot snapshots;
	struct {
		u64 seq, id, age;
	} next;
	struct {
		u8 *state;
		u32 free, spare_free, stale, claimed, search_from;
		u64 full, full_released, released;
		struct {
			u32 next, zero_bytes;
			void *zeroes;
		} stream;
	} bands;
	struct {
		struct buffer begin[KV_LEVELS];
		u32 tidied, stuck;
		u64 stuck_released;
		struct {
			int err;
			char text[400];
			u64 until, generation;
		} failed;
	} pick;
	struct {
		int err;
		char text[400];
	} broken;
	struct {
		const struct repair *repair;
		u64 generation;
		int err;
		char text[400];
	} recovery;
	struct live *live;
	struct cache *cache;
	u32 forks;
	struct kv_stats stats;
};

/* Is a band on the offload device? */
static inline bool is_spare(const struct kv *kv, u32 band)
{
	return band >= kv->head.bands;
}

/* Number of levels of an organisation. */
static inline u32 levels_of(const struct shape *s)
{
	return s->organisation == KV_SOC ? 2 : s->organisation == KV_BUFFERED ? 4 : KV_LEVELS;
}

/* KV_STREAM: bands are written one after another, by the holder of @writer. */
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
int store_ours(const struct kv *kv);
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);
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
int header_copies(struct kv *kv, void (*report)(void *ctx, const char *text, int err), void *ctx);
struct kv_disk *band_disk(const struct kv *kv, u32 band);
u64 band_offset(const struct kv *kv, u32 band);

/* bands.c */
bool bands_enough(struct kv *kv, u32 reserve);
int band_take(struct kv *kv, u32 reserve, u32 *band, bool *clean);
bool band_discard(struct kv *kv, u32 band);
int band_take_spare(struct kv *kv, u32 reserve, u32 *band, bool *clean);
u32 *bands_free(struct kv *kv, u32 band);
void band_level(struct kv *kv, u32 band, u32 level, bool moved);
int band_lead_in(struct kv *kv, u32 band);
int band_fill_up(struct kv *kv, u32 band, u32 at);
void band_give_back(struct kv *kv, u32 band);
void band_retire(struct kv *kv, u32 band);
bool bands_reclaim(struct kv *kv, u32 most);

/**
 * struct change - a change of the band table
 * @remove: parts to remove
 * @removes: number of @remove
 * @add: parts to add
 * @adds: number of @add
 * @memtable: logs of this memtable and of older ones are removed
 * @seal: a log band to which nothing is added any more, with its length; or NULL
 * @log: a log band to add; or NULL
 * @durable: all contents that the change makes valid are already durable
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
int log_queue(struct kv *kv);
int log_retire(struct kv *kv, const struct change *c);
void *log_thread(void *arg);
void log_stop(struct kv *kv);
int log_room(struct kv *kv, const struct kv_batch *b, u32 reserve);
int log_next_band(struct kv *kv, u32 reserve);
int log_enter_bands(struct kv *kv);
int log_end_band(struct kv *kv);
bool log_take_unit(struct kv *kv, struct log_band *unit);
u64 log_add(struct kv *kv, const struct kv_batch *batch, u64 seq, u32 *place);
int log_sync(struct kv *kv, u64 number);
int log_seal(struct kv *kv);

/* log-read.c */
int log_replay(struct kv *kv, const struct log_band *b, struct memtable *m, u64 *next_seq,
	       int *lost);
int log_salvage(struct kv *kv, const struct log_band *b, struct memtable *m, u64 *next_seq);
int log_verify(struct kv *kv, struct table *t, u32 bytes);

/* write.c: between these two calls no other thread compacts */
void begin_compacting(struct kv *kv);
void end_compacting(struct kv *kv);

/*
 * compact.c: the caller holds @compacting, or no other thread runs yet; except for compact_thread()
 * and freeze()
 */
int compact_frozen(struct kv *kv);
int compact_step(struct kv *kv, bool *did);
int compact_due(struct kv *kv);
int compact_idle(struct kv *kv, bool *did);
int compact_all(struct kv *kv);
int compact_range(struct kv *kv, struct slice from, struct slice to);
void *compact_thread(void *arg);
int freeze(struct kv *kv);

/* get.c */
void view_take(struct kv *kv, const struct kv_snapshot *snap, struct view *view);
void view_drop(struct kv *kv, struct view *view);

/* Answers requests of other programs, in the program that has the store open. */
struct kv;
struct live;

struct live *live_start(struct kv *kv, const char *path);
void live_stop(struct live *l);
void live_leave(struct live *l);

#endif /* KV_STORE_H */
