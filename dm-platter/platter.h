/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the rooms of the platter target share.
 *
 *   platter-target.c   table line, status, messages
 *   platter-io.c       queue, actuator, completion
 *   platter-cache.c    volatile write cache
 *   platter-loss.c     acknowledged blocks that are lost, until a FLUSH reports it
 *   damage.c           the set of ruined blocks
 *   platter-options.c mech.c profiles.c   pure, as is geometry.c, which is core/'s
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

/* A completion this much behind the model's time is counted. */
#define PLATTER_LATE_NS		1000000ULL
/* Shortest-positioning-first serves a request this old out of turn. */
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

/* What is served, by the medium or from memory; platter-io.c has letters for it. */
enum platter_op {
	PLATTER_OP_READ,
	PLATTER_OP_WRITE,
	PLATTER_OP_DESTAGE,
	PLATTER_OP_CACHE_WRITE,
	PLATTER_OP_CACHE_READ,
	PLATTER_OP_LOOKAHEAD,
};

/* Why the write cache is written. */
enum platter_destage_why {
	PLATTER_DESTAGE_NOT,	/* it is not */
	PLATTER_DESTAGE_OFF,	/* it has been switched off */
	PLATTER_DESTAGE_FLUSH,	/* a FLUSH waits */
	PLATTER_DESTAGE_FULL,	/* more than half of it is used */
	PLATTER_DESTAGE_BEHIND,	/* a request waits for room, or for what would destroy it */
	PLATTER_DESTAGE_IDLE,	/* the host has paused */
	PLATTER_DESTAGE_LEAVE,	/* the drive is suspended */
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
 * @list: on one of the lists of struct platter
 * @target: whose
 * @bio: the request, or the cache's own for a destage
 * @arrival_ns: when it arrived
 * @due_ns: when the model says it is done
 * @held_ns: when a cache hit got its place in the queue, if it waited for one; or 0
 * @blk: first block
 * @n: blocks; 0 for a flush
 * @behind: a write past the cache that waits for blocks of the cache up to this
 *	generation, which would destroy it; or 0
 * @media_n: blocks that reached the medium before a power cut
 * @cut_n: blocks that a power cut took from the cache while this wrote or superseded them
 * @pending: 1 while the backing device is at work
 * @state: where it is
 * @status: result
 * @write: direction
 * @fua: must reach the medium
 * @destage: from the cache
 * @overlay: cached blocks are newer than what the medium returned
 * @failed: the backing device did, whatever @status says
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
 * struct platter - a drive
 * @ti: its target
 * @dev: holds the contents, or NULL
 * @state_dev: keeps the map of destroyed blocks, or NULL
 * @start: first sector on @dev
 * @damage_mode: what becomes of blocks that the head destroys
 * @timing: requests take the model's time
 * @sptf: the queue is served by position, not in order of arrival
 * @discard: discards pass to @dev
 * @read_only: the table is, or one of the devices: nothing is ever written to them
 * @rotational: the queue says that it rotates
 * @queue_depth: requests that the scheduler sees
 * @wcache_idle_ms: it is written when the host has paused for so long
 * @nr_saved: words in @saved
 * @saved: key arguments, for the table line
 * @bs: for what is issued to @dev
 * @destage_bs: for what the write cache writes
 * @wq: @work
 * @work: admits, serves and completes requests
 * @timer: when the model has something to do
 * @in_lock: protects @incoming; taken in any context
 * @incoming: requests that @work has not seen
 * @lock: everything below it; sleeps.  Held while requests are sent below, where another
 *	drive may take its own: drives are stacked, never in a ring
 * @lock_key: the class of @lock, of its own for that reason
 * @pending: requests beyond @queue_depth
 * @visible: requests that the scheduler sees
 * @timed: requests that need only time, and perhaps @dev
 * @flushing: a flush that waits until the write cache is empty
 * @nr_visible: requests admitted and not completed
 * @flushed_ns: when the last FLUSH that has a price is over; nothing is admitted before
 * @full_ns: when the queue last had no place for @pending
 * @active: what the actuator does, or NULL
 * @last_host_ns: when the last request of the host ended
 * @fast: bios may be remapped straight from .map (no model, nothing to order)
 * @suspending: a suspend has begun, which messages must not keep waiting; read anywhere
 * @leaving: about to be suspended: nothing new is started
 * @powered_off: every request fails
 * @cut_armed: @cut_left counts
 * @cut_left: blocks until the power fails
 * @wcache_on: writes go to the write cache
 * @lookahead_on: the head reads on
 * @unreported: acknowledged blocks that are lost; the next FLUSH fails, and this is 0
 * @loss_kept: the module's table has @unreported, see platter-loss.c
 * @last_was_destage: the last thing the actuator did was for the write cache
 * @destaged_ns: when the destage that has just ended did; or 0
 * @wcache: memory by block
 * @wcache_count: blocks in it
 * @wcache_gen: the generation that is being written, see platter-cache.c
 * @wcache_pass: in which pass over the medium
 * @destage_cursor: where its next run begins
 * @destaging: the memory of the run under way
 * @destage: its request
 * @drained: for the end of the write cache's work
 * @log: the head log, a ring
 * @log_size: its entries
 * @log_head: entries ever made
 * @counter: by enum platter_counter
 * @damage: destroyed blocks
 * @damage_loaded: @damage has been read from @state_dev, which no other table writes to
 * @geo: geometry
 * @mech: mechanics
 * @cfg: what both were made from
 */
struct platter {
	struct dm_target *ti;
	struct dm_dev *dev;
	struct dm_dev *state_dev;
	sector_t start;
	enum platter_damage_mode damage_mode;
	bool timing;
	bool sptf;
	bool discard;
	bool read_only;
	bool rotational;
	u32 queue_depth;
	u32 wcache_idle_ms;

	unsigned int nr_saved;
	char **saved;

	struct bio_set bs;
	struct bio_set destage_bs;
	struct workqueue_struct *wq;
	struct work_struct work;
	struct hrtimer timer;

	/* protects @incoming; in any context */
	spinlock_t in_lock;
	struct list_head incoming;

	/* everything below, the model and the damage map */
	struct mutex lock;
	struct lock_class_key lock_key;
	struct list_head pending;
	struct list_head visible;
	struct list_head timed;
	struct list_head flushing;
	unsigned int nr_visible;
	u64 flushed_ns;
	u64 full_ns;
	struct platter_io *active;
	u64 last_host_ns;
	bool fast;
	bool suspending;
	bool leaving;
	bool powered_off;
	bool cut_armed;
	u64 cut_left;

	bool wcache_on;
	bool lookahead_on;
	u64 unreported;
	bool loss_kept;
	bool last_was_destage;
	u64 destaged_ns;
	struct xarray wcache;
	u32 wcache_count;
	u64 wcache_gen;
	u32 wcache_pass;
	unsigned long destage_cursor;
	void *destaging[PLATTER_DESTAGE_BLOCKS];
	struct platter_io destage;
	wait_queue_head_t drained;

	struct platter_log_entry *log;
	u32 log_size;
	u64 log_head;

	atomic64_t counter[PC_NR];

	struct platter_damage damage;
	bool damage_loaded;
	struct platter_geo geo;
	struct platter_mech mech;
	struct platter_config cfg;
};

/* Size of the write cache, whether it is on or not. */
static inline u32 platter_wcache_blocks(const struct platter *p)
{
	return p->cfg.profile.wcache_kib / 4;
}

/* Size of a look-ahead segment, when it is on. */
static inline u32 platter_lookahead_blocks(const struct platter *p)
{
	return p->cfg.profile.lookahead_kib / 4;
}

static inline void platter_count(struct platter *p, enum platter_counter c, u64 n)
{
	atomic64_add(n, &p->counter[c]);
}

/* platter-io.c */
int platter_map_bio(struct platter *p, struct bio *bio);
void platter_io_init(struct platter *p);
void platter_io_exit(struct platter *p);
void platter_kick(struct platter *p);
void platter_update_fast(struct platter *p);
void platter_power_off(struct platter *p, struct list_head *done);
void platter_end_ios(struct list_head *done);
int platter_media_write_sync(struct platter *p, struct bio *bio, u64 blk, u32 n);

/* platter-cache.c */
int platter_cache_init(void);
void platter_cache_exit(void);
u64 platter_cache_generation(struct platter *p);
bool platter_cache_threatens(struct platter *p, u64 blk, u32 n, u64 gen);
int platter_cache_write(struct platter *p, struct bio *bio, u64 blk, u32 n);
bool platter_cache_holds(struct platter *p, u64 blk, u32 n, bool *any);
void platter_cache_read(struct platter *p, struct bio *bio, u64 blk);
void platter_cache_cover(struct platter *p, u64 blk, u32 n);
void platter_cache_covered(struct platter *p, u64 blk, u32 n, bool ok);
void platter_cache_drop(struct platter *p);
struct bio *platter_cache_run(struct platter *p, u64 *blk, u32 *n);
u32 platter_cache_destaged(struct platter *p, struct bio *bio, u64 blk, u32 n, bool ok);
void platter_cache_flush_untimed(struct platter *p);

/* platter-loss.c */
void platter_loss_add(struct platter *p, u32 blocks);
bool platter_loss_report(struct platter *p);
void platter_loss_keep(struct platter *p);
void platter_loss_take(struct platter *p);

#endif /* PLATTER_H */
