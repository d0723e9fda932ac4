/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the files of the platter target share.
 *
 *   platter-target.c    table line, status, messages
 *   platter-queue.c     accepts, chooses and completes requests
 *   platter-actuator.c  serves one request at a time, in the model's time
 *   platter-cache.c     volatile write cache
 *   platter-loss.c      acknowledged blocks that are lost, until a FLUSH reports it
 *   platter-media.c     what is on the medium after a write
 *   damage.c            the set of destroyed blocks
 *   platter-options.c mech.c profiles.c   pure; so is geometry.c, which belongs to core/
 *
 * A file calls files below it only.  The end of a request on the backing device comes up by the
 * callback given to platter_media_submit(), which wakes the queue's worker by platter_kick().
 */
#ifndef PLATTER_H
#define PLATTER_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "damage.h"
#include "platter-options.h"

#define DM_MSG_PREFIX "platter"

#define PLATTER_BLOCK_SHIFT	12
#define PLATTER_BLOCK_SIZE	(1U << PLATTER_BLOCK_SHIFT)
#define PLATTER_DESTAGE_BLOCKS	256U

/* A completion later than the model's time by more than this is counted. */
#define PLATTER_LATE_NS		1000000ULL
/* Shortest-positioning-first serves a request of this age out of turn. */
#define PLATTER_STARVED_NS	500000000ULL

#define PLATTER_COUNTERS(X)		\
	X(reads)			\
	X(writes)			\
	X(blocks_read)			\
	X(blocks_written)		\
	X(media_reads)			\
	X(media_writes)			\
	X(media_blocks_read)		\
	X(media_blocks_written)		\
	X(flushes)			\
	X(fua_writes)			\
	X(discards)			\
	X(seeks)			\
	X(seek_tracks)			\
	X(seek_us)			\
	X(rotation_us)			\
	X(transfer_us)			\
	X(flushing_us)			\
	X(head_switches)		\
	X(wcache_writes)		\
	X(wcache_read_hits)		\
	X(wcache_destages)		\
	X(wcache_lost_blocks)		\
	X(lookahead_hits)		\
	X(destroyed_blocks)		\
	X(destroyed_reads)		\
	X(destroyed_read_ios)		\
	X(late)				\
	X(late_max_us)			\
	X(reanchored)			\
	X(power_cuts)			\
	X(errors)

enum platter_counter {
#define X(name) PC_##name,
	PLATTER_COUNTERS(X)
#undef X
	PC_NR
};

/* Kind of service, by the medium or from memory; platter_log_io() maps it to letters. */
enum platter_op {
	PLATTER_OP_READ,
	PLATTER_OP_WRITE,
	PLATTER_OP_DESTAGE,
	PLATTER_OP_CACHE_WRITE,
	PLATTER_OP_CACHE_READ,
	PLATTER_OP_LOOKAHEAD,
};

/* Reason for writing the write cache. */
enum platter_destage_why {
	PLATTER_DESTAGE_NOT,	/* not written */
	PLATTER_DESTAGE_OFF,	/* it was switched off */
	PLATTER_DESTAGE_FLUSH,	/* a FLUSH waits */
	PLATTER_DESTAGE_FULL,	/* more than half of it is used */
	PLATTER_DESTAGE_BEHIND,	/* a request waits for room, or for blocks that would destroy it */
	PLATTER_DESTAGE_IDLE,	/* the host has paused */
	PLATTER_DESTAGE_LEAVE,	/* the drive is being suspended */
};

struct platter_log_entry {
	u64 time_us;
	u64 blk;
	u32 n;
	u32 cyl;
	u32 surface;
	u32 seek_us;
	u32 rotation_us;
	u32 total_us;
	char op;
};

enum platter_io_state {
	IO_QUEUED,	/* visible to the scheduler */
	IO_SPACE,	/* waits for room in the write cache */
	IO_MEDIA,	/* on the actuator */
	IO_TIMED,	/* needs only time, and perhaps the backing device */
};

/**
 * struct platter_io - a request; lives in the bio's per-bio data
 * @list: entry in one of the lists of struct platter_queue
 * @target: its drive
 * @bio: the request; for a destage, a bio of the cache
 * @arrival_ns: time of arrival
 * @due_ns: time of completion according to the model
 * @held_ns: time when a cache hit got its place in the queue, if it had to wait for one; or
 *	0
 * @blk: first block
 * @behind: for a write past the cache: cached blocks up to this generation would destroy
 *	it, so it waits for them; or 0
 * @n: number of blocks; 0 for a flush
 * @media_n: blocks that reached the medium before a power cut
 * @cut_n: blocks that a power cut took from the cache while this request wrote or
 *	superseded them
 * @pending: 1 while the backing device works on it
 * @state: enum platter_io_state
 * @status: result
 * @write: it is a write
 * @fua: must reach the medium
 * @destage: written from the cache
 * @overlay: cached blocks are newer than the data from the medium
 * @failed: the backing device failed, whatever @status says
 *
 * Under the drive's lock, except that the end of a bio of the backing device sets @status and
 * @failed before it clears @pending.
 */
struct platter_io {
	struct list_head list;
	struct platter *target;
	struct bio *bio;
	u64 arrival_ns;
	u64 due_ns;
	u64 held_ns;
	u64 blk;
	u64 behind;
	u32 n;
	u32 media_n;
	u32 cut_n;
	atomic_t pending;
	enum platter_io_state state;
	blk_status_t status;
	bool write;
	bool fua;
	bool destage;
	bool overlay;
	bool failed;
};

/**
 * struct platter_saved - key arguments, for the table line
 * @nr: words in @arg
 * @arg: the words
 *
 * Not changed after .ctr.
 */
struct platter_saved {
	unsigned int nr;
	char **arg;
};

/**
 * struct platter_disk - the device with the content
 * @dev: the device, or NULL
 * @start: first sector on @dev
 * @bs: bios issued to @dev
 *
 * Not changed after .ctr.
 */
struct platter_disk {
	struct dm_dev *dev;
	sector_t start;
	struct bio_set bs;
};

/**
 * struct platter_state - destroyed blocks
 * @dev: device with the map of them, or NULL; not changed after .ctr
 * @damage: the map; its number of blocks is also read without the lock
 * @loaded: @damage was read from @dev, and no other table writes to it
 *
 * Under the drive's lock.
 */
struct platter_state {
	struct dm_dev *dev;
	struct platter_damage damage;
	bool loaded;
};

/**
 * struct platter_worker - admits, serves and completes requests
 * @wq: workqueue of @work
 * @work: the work; takes the drive's lock
 * @timer: wakes @work at the model's next event; set under the drive's lock
 */
struct platter_worker {
	struct workqueue_struct *wq;
	struct work_struct work;
	struct hrtimer timer;
};

/**
 * struct platter_queue - requests that are not on the actuator
 * @in_lock: protects @incoming; taken in any context, also under the lock of the drive
 * @incoming: requests that the worker has not seen
 * @pending: requests beyond the depth of the queue
 * @visible: requests that the scheduler sees
 * @timed: requests that need only time, and perhaps the backing device
 * @flushing: a flush that waits until the write cache is empty
 * @nr_visible: requests admitted and not completed
 * @flushed_ns: end of the last FLUSH that took model time (flush_us); no request is admitted before
 * @full_ns: time when the queue last had no place for @pending
 * @last_host_ns: time when the last request of the host ended
 * @fast: .map may remap bios directly (no model, nothing to order); read in any context
 *
 * All but @in_lock and @incoming are under the drive's lock.
 */
struct platter_queue {
	spinlock_t in_lock;	/* protects @incoming; in any context */
	struct list_head incoming;

	/* under the drive's lock */
	struct list_head pending;
	struct list_head visible;
	struct list_head timed;
	struct list_head flushing;
	unsigned int nr_visible;
	u64 flushed_ns;
	u64 full_ns;
	u64 last_host_ns;
	bool fast;
};

/**
 * struct platter_actuator - the request that the medium serves
 * @io: the request, or NULL; read in any context
 * @was_destage: the last work of the actuator was for the write cache
 * @destaged_ns: end of the destage that has just ended; or 0
 * @lookahead_on: look-ahead is on
 *
 * Under the drive's lock.
 */
struct platter_actuator {
	struct platter_io *io;
	bool was_destage;
	u64 destaged_ns;
	bool lookahead_on;
};

/**
 * struct platter_power - suspend and power cuts
 * @suspending: a suspend has begun; messages must not delay it; not under the lock
 * @quiescing: about to be suspended: no new work is started
 * @off: every request fails; read in any context
 * @cut_armed: @cut_left counts
 * @cut_left: blocks until the power fails
 *
 * All but @suspending are under the drive's lock.
 */
struct platter_power {
	bool suspending;
	bool quiescing;
	bool off;
	bool cut_armed;
	u64 cut_left;
};

/**
 * struct platter_wcache - the volatile write cache
 * @on: it is on
 * @blocks: cached data, by block
 * @count: blocks in it; read in any context
 * @covered: a write past the cache is on the actuator, not a run of the cache
 * @gen: the generation that is being written, see platter-cache.c
 * @pass: current pass over the medium: 0 for bottoms and 1 for tops of an interlaced one
 * @cursor: block from which the search for the next run begins
 * @run: the data of the run being written
 * @io: the request of that run
 * @bs: bios that write the cache
 * @drained: wait queue for the end of the cache's work
 *
 * Under the drive's lock.
 */
struct platter_wcache {
	bool on;
	struct xarray blocks;
	u32 count;
	bool covered;
	u64 gen;
	u32 pass;
	unsigned long cursor;
	void *run[PLATTER_DESTAGE_BLOCKS];
	struct platter_io io;
	struct bio_set bs;
	wait_queue_head_t drained;
};

/**
 * struct platter_losses - acknowledged blocks that are lost
 * @unreported: number of them; the next FLUSH fails and resets this to 0; read in any context
 * @kept: the module's table has @unreported, see platter-loss.c
 *
 * Under the drive's lock.
 */
struct platter_losses {
	u64 unreported;
	bool kept;
};

/**
 * struct platter_log - the head log, a ring
 * @entry: the entries
 * @size: number of them; not changed after .ctr
 * @head: entries written since the start
 *
 * Under the drive's lock.
 */
struct platter_log {
	struct platter_log_entry *entry;
	u32 size;
	u64 head;
};

/**
 * struct platter - a drive
 * @ti: its target
 * @read_only: the table or one of the devices is read-only; neither device is written
 * @opt: options of the table line; not changed after .ctr.  The current values of wcache and
 *	lookahead are in @wcache and @act
 * @saved: key arguments
 * @disk: the device with the content
 * @geo: geometry, built from @opt; not changed after .ctr
 * @worker: its work does everything under @lock
 * @queue: requests that wait
 * @lock: a mutex for all parts that are under the drive's lock.  It is held while requests are
 *	sent to a lower drive, which may take its own lock: drives are stacked,
 *	never in a ring
 * @lock_key: lockdep class of @lock, one per drive because drives are stacked
 * @mech: mechanics
 * @state: destroyed blocks
 * @act: the request that the medium serves
 * @power: suspend and power cuts
 * @wcache: the write cache
 * @loss: acknowledged blocks that are lost
 * @log: the head log
 * @counter: by enum platter_counter; atomic, not under @lock
 */
struct platter {
	struct dm_target *ti;
	bool read_only;
	struct platter_options opt;
	struct platter_saved saved;
	struct platter_disk disk;
	struct platter_geo geo;
	struct platter_worker worker;
	struct platter_queue queue;

	/* protects everything below, and the queue but for @incoming */
	struct mutex lock;
	struct lock_class_key lock_key;
	struct platter_mech mech;
	struct platter_state state;
	struct platter_actuator act;
	struct platter_power power;
	struct platter_wcache wcache;
	struct platter_losses loss;
	struct platter_log log;

	atomic64_t counter[PC_NR];
};

/* Size of the write cache, on or off. */
static inline u32 platter_wcache_blocks(const struct platter *p)
{
	return p->opt.cfg.profile.wcache_kib / 4;
}

/* Size of a look-ahead segment, when look-ahead is on. */
static inline u32 platter_lookahead_blocks(const struct platter *p)
{
	return p->opt.cfg.profile.lookahead_kib / 4;
}

static inline void platter_count(struct platter *p, enum platter_counter c, u64 n)
{
	atomic64_add(n, &p->counter[c]);
}

/**
 * platter_kick() - let the worker look for changes
 * @p: the drive
 *
 * Context: any.
 */
static inline void platter_kick(struct platter *p)
{
	queue_work(p->worker.wq, &p->worker.work);
}

/* platter-queue.c */
int platter_map_bio(struct platter *p, struct bio *bio);
void platter_queue_init(struct platter *p);
void platter_queue_exit(struct platter *p);
void platter_update_fast(struct platter *p);
void platter_power_off(struct platter *p, struct list_head *done);
void platter_end_ios(struct list_head *done);

/* platter-actuator.c */
void platter_log_io(struct platter *p, enum platter_op op, u64 blk, u32 n, u64 start_ns, u64 end_ns,
		    const struct platter_service *svc);
void platter_issue(struct platter *p, struct platter_io *io, u32 n);
u64 platter_pay_flush(struct platter *p, u64 ready_ns);
bool platter_actuator_start(struct platter *p, struct platter_io *io, u64 now);
struct platter_io *platter_actuator_finish(struct platter *p, u64 now);

/* platter-media.c */
int platter_media_before(struct platter *p, u64 blk, u32 n);
int platter_media_after(struct platter *p, u64 blk, u32 n);
blk_status_t platter_media_read(struct platter *p, u64 blk, u32 n);
void platter_media_submit(struct platter *p, struct bio *bio, u64 blk, u32 n, bio_end_io_t *end,
			  void *private);
int platter_media_write_shadow(struct platter *p, struct bio *bio, u64 blk, u32 n);
int platter_media_write_sync(struct platter *p, struct bio *bio, u64 blk, u32 n);

/* platter-cache.c */
int platter_cache_init(void);
void platter_cache_exit(void);
u64 platter_cache_generation(struct platter *p);
bool platter_cache_threatens(struct platter *p, u64 blk, u32 n, u64 gen);
int platter_cache_write(struct platter *p, struct bio *bio, u64 blk, u32 n);
bool platter_cache_overlaps(struct platter *p, u64 blk, u32 n, bool *any);
void platter_cache_read(struct platter *p, struct bio *bio, u64 blk);
void platter_cache_cover(struct platter *p, u64 blk, u32 n);
void platter_cache_covered(struct platter *p, u64 blk, u32 n, bool ok);
u32 platter_cache_drop(struct platter *p);
struct bio *platter_cache_run(struct platter *p, u64 *blk, u32 *n);
u32 platter_cache_destaged(struct platter *p, struct bio *bio, u64 blk, u32 n, bool ok);
void platter_cache_flush_untimed(struct platter *p);

/* platter-loss.c */
void platter_loss_add(struct platter *p, u32 blocks);
bool platter_loss_report(struct platter *p);
void platter_loss_keep(struct platter *p);
void platter_loss_take(struct platter *p);

#endif /* PLATTER_H */
