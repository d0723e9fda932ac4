/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Core's own view of a device, shared by its layers.  From top to bottom, each with a header of its
 * folder's name:
 *
 *   target/   constructor, status, messages, suspend and resume, secure erase
 *   clean/    cleaning steps, and the epochs of writes that an engine gathers
 *   io/       host bios, and the volatile write cache
 *   map/      placing, and the change of the map when a write has completed
 *   log/      journal, checkpoints, superblock; flush and FUA; recovery
 *   medium/   reading and writing; order of writes that may destroy each other's blocks (rule R1)
 *   base/     this, the failure ladder (mode.h), lost blocks that no FLUSH has reported, wake.h
 *   lib/      geometry, disk format, engine kit, pages of a map: no kernel, no device
 *
 * Each layer calls those below it.  Calls upwards go through wake.h, which queues work, or through
 * a callback that was handed down: shingle_landed_fn, the end of a bio.
 * Documentation/design.rst explains the layers, Documentation/glossary.rst the words.
 *
 * Locks, outermost first:
 *   reset_lock (mutex)   one reset at a time, and none while suspended
 *   ckpt_lock (mutex)    one checkpoint or superblock write at a time
 *   commit_lock (mutex)  one journal commit at a time
 *   map_lock (spinlock, irq-safe)  the engine and all members marked "map_lock" below
 */
#ifndef SHINGLE_DEVICE_H
#define SHINGLE_DEVICE_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/dm-io.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "engine/badlist.h"
#include "base/compat.h"
#include "engine/counters.h"
#include "engine/engine.h"
#include "engine/keys.h"
#include "pages/pages.h"
#include "format/recover.h"
#include "engine/trimlist.h"
#include "engine/turns.h"
#include "base/wcache.h"

#define DM_MSG_PREFIX "shingle"

/* Maximum of records of one engine operation, core's own included. */
#define SHINGLE_MAX_EMIT	16

enum shingle_mode {
	SHINGLE_RW,
	SHINGLE_RO,
	SHINGLE_FAIL,
};

/**
 * struct shingle_write - a placed write on its way to the medium
 * @run: its place
 * @flight: in shingle_device::order.flight, unless the layout shows that no other write can destroy
 *	its blocks
 * @flight_last: last block of all writes below @flight in the tree
 * @turn: value of shingle_device::order.turns when it was placed
 * @waiters: held writes that wait for this one
 * @wait: if held: in @waiters of another write, or in shingle_device::order.woken
 * @bio: the bio to be submitted
 * @held: not submitted yet: it must not overtake an earlier write
 *
 * map_lock protects all members; @run and @bio do not change while the write is in flight.
 */
struct shingle_write {
	struct shingle_run run;
	struct rb_node flight;
	u64 flight_last;
	u64 turn;
	struct list_head waiters;
	struct list_head wait;
	struct bio *bio;
	bool held;
};

/**
 * struct shingle_cpu - counts of one processor
 * @ios: bios begun minus bios ended on this processor; only the sum over all processors has a
 *	meaning
 * @last_io: time of the last end of a bio, in jiffies
 * @readers: reads looked up minus reads ended on this processor, summed as @ios.  There are two
 *	counts: new reads join the one that shingle_order::reader_set selects, while the cleaner
 *	waits until the other is zero (rule R2, readers.c)
 *
 * Each processor changes only its own struct; no lock protects it.
 */
struct shingle_cpu {
	long ios;
	unsigned long last_io;
	long readers[2];
	/* private: one of each counter of counters.h */
#define X(name) u64 name
	SHINGLE_CPU_COUNTERS(X, ;);
#undef X
};

struct shingle_loss;

/* struct shingle_io::state */
enum shingle_io_state {
	SHINGLE_IO_PLAIN,	/* nothing to do at its end */
	SHINGLE_IO_READ,	/* counted in readers */
	SHINGLE_IO_WRITE,	/* placed as one run, @w is in use */
};

/**
 * struct shingle_io - core's part of a bio
 * @w: the placement, if state is SHINGLE_IO_WRITE
 * @iter: the part that a read of unwritten blocks must fill with zeroes
 * @lblk: next block to be processed
 * @n: blocks still to be processed
 * @seq: value of shingle_wcache::seq when the bio arrived: blocks with this number or a lower one
 *	were acknowledged before.  Of a read that reads.c handles: fragments so far
 * @pieces: parts in flight, plus one while more may be added; 0 if the bio was not split
 * @status: first error of a part
 * @state: enum shingle_io_state
 * @reader_set: the reader count in which it is included, 0 or 1
 * @zero: fill with zeroes after reading
 * @fua: commit before completion
 * @waits: counted in shingle_wcache::waiting
 *
 * The thread that handles the bio owns all members; the parts in flight share @pieces and @status,
 * which are changed atomically.
 */
struct shingle_io {
	struct shingle_write w;
	struct bvec_iter iter;
	u64 lblk;
	u64 n;
	u64 seq;
	atomic_t pieces;
	blk_status_t status;
	u8 state;
	u8 reader_set;
	bool zero;
	bool fua;
	bool waits;
};

/**
 * struct shingle_piece - part of a write that did not fit into one run
 * @d: the device
 * @parent: the bio
 * @w: the placement
 * @bio: the part; last member, as bio_set requires
 */
struct shingle_piece {
	struct shingle_device *d;
	struct bio *parent;
	struct shingle_write w;
	struct bio bio;
};

/**
 * struct shingle_txn - a journal transaction being filled or written
 * @blocks: room for shingle_journal::max_blocks
 * @nr: number of records
 * @seq: its number, once it is closed
 * @acked: blocks of host data that its records point to: they become durable with it
 *
 * map_lock protects the open transaction, commit_lock the closed one.
 */
struct shingle_txn {
	struct shingle_journal_block *blocks;
	u32 nr;
	u64 seq;
	u64 acked;
};

/**
 * struct shingle_journal - the ring
 * @max_blocks: blocks of the longest transaction
 * @room: records that fit into one transaction
 * @txn: one is open, the other may be on its way to the disk
 * @open: index of the open one; map_lock
 * @closed: the other one is closed and not on the disk yet, because a commit is writing it or has
 *	failed; changes under commit_lock and map_lock
 * @failed: the last commit has failed; as @closed
 * @reserved: records for which operations in progress have reserved room; map_lock
 * @awaited: a thread waits on shingle_device::wait until @reserved has decreased; map_lock
 * @seq: number of the open transaction; map_lock
 * @durable_seq: last transaction on the disk; map_lock
 * @pos: place of the open transaction in the ring; changes under commit_lock and map_lock
 * @used: ring blocks from the tail to @pos; as @pos
 * @keep: number of blocks by which a checkpoint in progress may lengthen the journal: its own
 *	commit may fill more blocks than the checkpoint frees.  Other commits leave them free;
 *	map_lock
 * @prev_crc: end of the checksum chain; commit_lock
 */
struct shingle_journal {
	u32 max_blocks;
	u32 room;
	struct shingle_txn txn[2];
	u32 open;
	bool closed;
	bool failed;
	u32 reserved;
	bool awaited;
	u64 seq;
	u64 durable_seq;
	u64 pos;
	u64 used;
	u32 keep;
	u32 prev_crc;
};

/**
 * struct shingle_waiters - host bios that wait; waiting.c lists what they wait for
 * @deferred: the bios, in the order in which they are retried; map_lock
 * @awaits_write: one of them, or a destage, may go on when a write ends; map_lock
 * @awaits_room: retry them also when the engine has nothing left to clean; map_lock
 * @no_promise: in this run of the worker the journal could not reserve records for one of them,
 *	so the worker tries no other write or discard; worker only
 * @retrying: the worker has emptied @deferred to retry the bios, and will put back those that
 *	still have to wait; map_lock
 */
struct shingle_waiters {
	struct bio_list deferred;
	bool awaits_write;
	bool awaits_room;
	bool no_promise;
	bool retrying;
};

/**
 * struct shingle_order - order of writes on the medium
 * @flight: writes placed and not completed, by position; map_lock
 * @turns: number of writes that have entered @flight so far; map_lock
 * @woken: held writes that the end of another write has released: @work submits them, or lets them
 *	wait for a further write; map_lock
 * @reader_set: the count of readers that includes new ones, 0 or 1; map_lock
 * @wq: runs @work; separate, so that it has a rescuer of its own when memory is short
 * @work: submits writes that waited for others.  It must not share a worker with
 *	shingle_device::worker.work, which placed them and may wait for their memory
 */
struct shingle_order {
	struct rb_root_cached flight;
	u64 turns;
	struct list_head woken;
	u8 reader_set;
	struct workqueue_struct *wq;
	struct work_struct work;
};

/**
 * struct shingle_log - journal, checkpoints and superblocks
 * @commits: flushes and FUA writes that wait for a commit; map_lock
 * @commit_work: commits
 * @commit_lock: one commit at a time
 * @ckpt_lock: one checkpoint or superblock write at a time
 * @wq: runs @ckpt_work and @sb_work, for which commits may wait; separate, so that it has a
 *	rescuer of its own when memory is short
 * @ckpt_work: takes a checkpoint
 * @sb_work: writes the superblocks
 * @ckpt_seq: number of the last checkpoint; ckpt_lock
 * @ckpt_slot: slot of the last checkpoint; ckpt_lock
 * @ckpt_end: block of that slot behind the last checkpoint, where the next may continue; 0 if the
 *	next must begin at the start of the other slot; ckpt_lock
 * @ckpt_crc: checksum of its footer; ckpt_lock
 * @ckpt_bad: the last checkpoint contains a list of unreadable blocks that is not empty; ckpt_lock
 * @meta_buf: SHINGLE_META_BATCH blocks for checkpoints; ckpt_lock
 * @dead: the journal accepts no more records in this activation; set under map_lock, never
 *	cleared
 * @no_ckpt: a checkpoint has failed, and there will be no other; as @dead
 */
struct shingle_log {
	struct bio_list commits;
	struct delayed_work commit_work;
	struct mutex commit_lock;	/* one commit at a time */
	struct mutex ckpt_lock;		/* one checkpoint at a time */
	struct workqueue_struct *wq;
	struct work_struct ckpt_work;
	struct work_struct sb_work;
	u64 ckpt_seq;
	u32 ckpt_slot;
	u64 ckpt_end;
	u32 ckpt_crc;
	bool ckpt_bad;
	u8 *meta_buf;
	bool dead;
	bool no_ckpt;
};

/**
 * struct shingle_pager - reads of pages of the engine's map, and their waiters
 * @wq: runs @work.  All other workers may wait for it, so it shares no queue with them.  NULL if
 *	the map has no pages (pages.h)
 * @work: reads the pages that are wanted
 * @bios: bios for these reads
 * @reading: number of reads in flight, or failed and not yet reported; map_lock
 * @failed: number of pages that were needed and cannot be used, for which @work has not yet made
 *	the device read-only; map_lock
 * @over_limit: a waiter may change no further page before a checkpoint has written changed ones;
 *	map_lock
 * @beginning: @work is starting a batch of reads, and wakes the waiters after the last of them;
 *	map_lock
 * @again: an operation has reached the limit of one call and must be called again, or a page
 *	has arrived while other reads were being begun; map_lock
 * @clean_waits: the cleaner waits for a page; map_lock
 * @oldest: the bio or the write cache, whichever has waited for a page longest: the pages that it
 *	has looked at stay in memory (enum shingle_page_client); map_lock
 * @events: number of times that the waiters for pages were woken; map_lock
 */
struct shingle_pager {
	struct workqueue_struct *wq;
	struct work_struct work;
	struct bio_set bios;
	u32 reading;
	u32 failed;
	bool over_limit;
	bool beginning;
	bool again;
	bool clean_waits;
	const void *oldest;
	u64 events;
};

struct shingle_kept;

/**
 * struct shingle_cleaner - the step in progress, and the reasons for one
 * @hold_pblk: reads of this run wait for the step; map_lock
 * @hold_n: its length, 0 = none; map_lock
 * @step_bad: blocks of the step that could not be read; map_lock
 * @unwritten: the destination that the step could not write; only the cleaner uses it
 * @turns: requests for cleaning, see turns.h; map_lock
 * @cleans: number of messages that wait for the clean that they requested; map_lock
 * @idle: the host is idle; map_lock
 * @rewrite: data of a fragmented read are to be written again; map_lock
 * @epoch_wanted: gathered writes (epoch.c) are due; map_lock
 * @epoch_open: the cleaner has handed an epoch to the engine, and it has not ended; the cleaner
 *	changes it under map_lock
 * @recovering: a step that a power cut interrupted is to be finished; map_lock
 * @busy: a step is in progress; map_lock
 * @retries: consecutive failures of the step; cleaner only
 * @failed_at: time of the last failure, in jiffies; cleaner only
 * @wq: runs @work, which may wait for a commit, and @idle_work
 * @work: cleans
 * @idle_work: checks whether the host is idle
 * @copy_buf: @copy_blocks blocks; cleaner only
 * @copy_blocks: blocks copied at a time
 * @copy_extents: @copy_blocks entries; cleaner only
 * @copy_runs: @copy_blocks entries; cleaner only
 * @step_rec: room for the records of a step; cleaner only
 * @step_rec_max: number of records in @step_rec
 */
struct shingle_cleaner {
	u64 hold_pblk;
	u32 hold_n;
	struct shingle_badlist step_bad;
	struct shingle_unwritten unwritten;
	struct shingle_turns turns;
	u32 cleans;
	bool idle;
	bool rewrite;
	bool epoch_wanted;
	bool epoch_open;
	bool recovering;
	bool busy;
	u32 retries;
	unsigned long failed_at;
	struct workqueue_struct *wq;
	struct delayed_work work;
	struct delayed_work idle_work;
	u8 *copy_buf;
	u32 copy_blocks;
	struct shingle_extent *copy_extents;
	struct shingle_run *copy_runs;
	struct shingle_record *step_rec;
	u32 step_rec_max;
};

/* Has the cleaner work: a reason for a step, or an open epoch?  Context: map lock. */
static inline bool shingle_has_reason(const struct shingle_cleaner *c)
{
	return c->turns.pressure || c->turns.forced || c->idle || c->epoch_open;
}

/**
 * struct shingle_disks - the devices of the table line, and I/O to them
 * @dev: the devices
 * @blocks: their sizes
 * @io: for all I/O except host bios
 * @bios: struct shingle_piece
 * @read_only: the table or one of them is read-only: core never writes to them, not even
 *	needs_check
 *
 * Constant once constructed.
 */
struct shingle_disks {
	struct dm_dev *dev[SHINGLE_NR_DEVS];
	u64 blocks[SHINGLE_NR_DEVS];
	struct dm_io_client *io;
	struct bio_set bios;
	bool read_only;
};

/**
 * struct shingle_health - where the device is on the failure ladder, see mode.h
 * @mode: enum shingle_mode; set under map_lock, read without it
 * @why: reason why the mode is not SHINGLE_RW, the tail of a sentence that is never freed;
 *	otherwise NULL; map_lock
 * @needs_check: the superblock has the mark needs_check, or shall get it; stays set if the
 *	superblock cannot be written; set under map_lock, read without it
 */
struct shingle_health {
	enum shingle_mode mode;
	const char *why;
	bool needs_check;
};

/**
 * struct shingle_phase - load, suspend, reset and hibernation
 * @list: in the list of active devices, see hibernate.c
 * @loaded: the state was read from the disk: before that no message touches the engine; set
 *	under map_lock, never cleared
 * @load_failed: reading the state failed half-way
 * @stopping: a suspend stops the cleaner: no new steps; the step in progress ends early
 * @held: the system hibernates: core writes only what the host waits for, see hibernate.c; set
 *	under map_lock, read without it
 * @resetting: a reset is in progress: no new steps, the step in progress ends early, and new bios
 *	wait; map_lock
 * @suspending: a suspend has begun, and messages must not delay it; map_lock
 * @presuspends: number of suspends begun; map_lock
 * @suspended: between postsuspend and resume
 * @reset_lock: one reset at a time, and none while suspended; the outermost lock
 */
struct shingle_phase {
	struct list_head list;
	bool loaded;
	bool load_failed;
	bool stopping;
	bool held;
	bool resetting;
	bool suspending;
	u32 presuspends;
	bool suspended;
	struct mutex reset_lock;	/* one reset at a time */
};

/**
 * struct shingle_losses - acknowledged data that the devices may lose, or have lost
 * @dirty: for each device: written to since its last successful flush began; map_lock
 * @unreported: acknowledged blocks that are lost; the next FLUSH fails and clears the number;
 *	map_lock
 * @memory: an entry, allocated in advance, with which a suspend keeps the number for the next
 *	activation; NULL while it is in the module's table; kept_lock of loss.c
 */
struct shingle_losses {
	bool dirty[SHINGLE_NR_DEVS];
	u64 unreported;
	struct shingle_loss *memory;
};

/**
 * struct shingle_worker - the worker for bios that wait
 * @wq: runs @work and shingle_log::commit_work
 * @work: retries the bios that wait
 */
struct shingle_worker {
	struct workqueue_struct *wq;
	struct work_struct work;
};

/**
 * struct shingle_stats - counters
 * @n: counters of core
 * @cleared: sums of struct shingle_cpu when the counters were last cleared; the status subtracts
 *	them
 * @carried: sums of the counters of former engines; a reset replaces the engine
 * @step_us: time that steps have taken, by kind
 * @longest_us: the longest step of each kind
 *
 * map_lock protects all members.
 */
struct shingle_stats {
	struct shingle_counters n;
	struct shingle_cpu cleared;
	u64 carried[SHINGLE_MAX_COUNTERS];
	u64 step_us[SHINGLE_STEP_KINDS];
	u64 longest_us[SHINGLE_STEP_KINDS];
};

/**
 * struct shingle_device - a translation target
 * @ti: its target
 * @ops: operations of its engine
 * @engine: map_lock
 * @layout: constant but for flags, sb_seq and settings, which ckpt_lock protects
 * @bad: unreadable blocks; map_lock
 * @trims: discarded parts of units that the engine can only discard as a whole; map_lock
 * @disks: the devices of the table line
 * @gathers: the engine gathers writes; constant
 * @config: values of its keys; set under map_lock
 * @wcache: the write cache, wcache.h
 * @kept: what the caches of reads have, map.h; part of the reads that need several fragments,
 *	reads.c.  NULL if the engine has no read side
 * @cpu: see struct shingle_cpu
 * @map_lock: protects the engine and all members marked map_lock; the innermost lock
 * @health: the mode
 * @phase: load, suspend, reset and hibernation
 * @losses: acknowledged data that are lost, or may be
 * @waiters: host bios that wait
 * @order: order of writes on the medium
 * @cleaner: the cleaner
 * @wait: waiters for readers, for checkpoints, for the end of cleaning
 * @worker: the worker for bios that wait
 * @log: commits, checkpoints and superblocks
 * @journal: the journal
 * @pager: reads of pages of the map
 * @stats: counters
 */
struct shingle_device {
	struct dm_target *ti;
	const struct shingle_engine_ops *ops;
	struct shingle_engine *engine;
	struct shingle_layout layout;
	struct shingle_badlist bad;
	struct shingle_trimlist trims;
	struct shingle_disks disks;
	bool gathers;
	struct shingle_config config;
	struct shingle_wcache wcache;
	struct shingle_kept *kept;
	struct shingle_cpu __percpu *cpu;

	/* A cache line of its own: others read the members above without the lock. */
	spinlock_t map_lock ____cacheline_aligned_in_smp;
	struct shingle_health health;
	struct shingle_phase phase;
	struct shingle_losses losses;
	struct shingle_waiters waiters;
	struct shingle_order order;
	struct shingle_cleaner cleaner;
	wait_queue_head_t wait;
	struct shingle_worker worker;
	struct shingle_log log;
	struct shingle_journal journal;
	struct shingle_pager pager;
	struct shingle_stats stats;
};

#define SHINGLE_META_BATCH	64

static inline struct shingle_io *shingle_bio_io(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct shingle_io));
}

/* Does any request wait for shingle_kick()?  Context: map lock. */
static inline bool shingle_waiting(const struct shingle_device *d)
{
	return !bio_list_empty(&d->waiters.deferred) || d->waiters.retrying ||
	       d->wcache.destage.blocked;
}

static inline bool shingle_has_dev(const struct shingle_device *d, enum shingle_dev dev)
{
	return d->disks.dev[dev];
}

#endif /* SHINGLE_DEVICE_H */
