/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Core's own view of a device, shared by its layers.  From above to below, each with a
 * header of its folder's name:
 *
 *   face/     constructor, status, messages, suspend and resume, secure erase
 *   clean/    cleaning steps, and the epochs of writes that an engine gathers
 *   front/    host bios, and the volatile write cache
 *   map/      placing, and what the map says when a write has landed
 *   log/      journal, checkpoints, superblock; flush and FUA; what is read back
 *   medium/   reading and writing; who must not overtake whom
 *   base/     this, the failure ladder, lost blocks that no FLUSH has reported, wake.h
 *
 * Each calls those below it.  Upwards there is wake.h, which queues work, and what was
 * handed down to be called: shingle_landed_fn, a bio's end.
 *
 * Locks, outermost first:
 *   reset_lock (mutex)   one reset at a time, and none while suspended
 *   ckpt_lock (mutex)    one checkpoint or superblock write at a time
 *   commit_lock (mutex)  one journal commit at a time
 *   map_lock (spinlock, irq-safe)  the engine and all that says so below
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

/* Records one engine operation may emit, core's own included. */
#define SHINGLE_MAX_EMIT	16

enum shingle_mode {
	SHINGLE_RW,
	SHINGLE_RO,
	SHINGLE_FAIL,
};

/**
 * struct shingle_write - a placed write on its way to the medium
 * @run: where it goes
 * @flight: in shingle_device::order.flight, if order on the medium matters
 * @flight_last: last block of all below @flight in the tree
 * @turn: when it was placed, counted by shingle_device::order.turns
 * @waiters: held writes that wait for this one
 * @wait: if held: in @waiters of another, or in shingle_device::order.woken
 * @bio: what is to be submitted
 * @held: not submitted yet: it must not overtake an earlier one
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
 * struct shingle_cpu - what one processor counts
 * @ios: bios that have begun less those that have ended here; only the sum over all
 *	processors has a meaning
 * @last_io: when one ended, in jiffies
 * @readers: of each set, reads looked up less reads ended here, as @ios
 */
struct shingle_cpu {
	long ios;
	unsigned long last_io;
	long readers[2];
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
 * @iter: what a read of unwritten blocks must fill with zeroes
 * @lblk: next block to be dealt with
 * @n: blocks still to be dealt with
 * @seq: what was acknowledged up to this one by the write cache came before
 * @pieces: parts under way, plus one while more may come
 * @status: of the parts
 * @state: enum shingle_io_state
 * @reader_set: which of the two reader counts it is in
 * @zero: fill with zeroes when read
 * @fua: commit before completion
 * @waits: counted in shingle_wcache::waiting
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
 * struct shingle_piece - part of a bio that did not fit into one run
 * @d: the device
 * @parent: the bio
 * @w: the placement
 * @bio: the part; last, dictated by the bio_set
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
 * @nr: records in it
 * @seq: its number, once it is closed
 * @acked: blocks of host data that its records point to: they are durable when it is
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
 * @open: which one is open; map_lock
 * @closed: the other one is closed and not on the disk; changes under commit_lock and
 *	map_lock
 * @failed: the last attempt to commit has failed; as @closed
 * @reserved: records promised to operations under way; map_lock
 * @awaited: somebody waits until there are fewer of these; map_lock
 * @seq: number of the open transaction; map_lock
 * @durable_seq: last transaction on the disk; map_lock
 * @pos: where in the ring the open transaction will go; changes under
 *	commit_lock and map_lock
 * @used: ring blocks from the tail to @pos; as @pos
 * @keep: so many blocks more than else other commits leave to a checkpoint under
 *	way, which will free less than its own commit may take; map_lock
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
 * struct shingle_front - host bios that wait
 * @deferred: for room, in order; map_lock
 * @awaits_write: one of them, or a destage, may go on when a write ends; map_lock
 * @awaits_room: one of them may go on when the engine has nothing to clean for it, too;
 *	map_lock
 * @no_promise: the journal had no room for one of them: none for others; the worker's
 * @retrying: the worker has them, and those that still have to wait come back;
 *	map_lock
 */
struct shingle_front {
	struct bio_list deferred;
	bool awaits_write;
	bool awaits_room;
	bool no_promise;
	bool retrying;
};

/**
 * struct shingle_order - who must not overtake whom on the medium
 * @flight: writes placed and not completed, by position; map_lock
 * @turns: writes that were in @flight so far; map_lock
 * @woken: held writes whose cause to wait has ended; map_lock
 * @reader_set: which of the two counts of readers counts new ones; map_lock
 * @wq: @work: apart, so that it has a rescuer of its own when memory is short
 * @work: sends writes that waited for others, which shingle_device::work has placed and
 *	may wait for
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
 * struct shingle_log - what survives
 * @commits: flushes and FUA writes that wait for a commit; map_lock
 * @commit_work: commits
 * @commit_lock: one commit at a time
 * @ckpt_lock: one checkpoint or superblock write at a time
 * @wq: @ckpt_work and @sb_work, for which commits may wait: apart, so that they have a
 *	rescuer of their own when memory is short
 * @ckpt_work: takes a checkpoint
 * @sb_work: writes the superblocks
 * @ckpt_seq: of the last checkpoint; ckpt_lock
 * @ckpt_slot: of the last checkpoint; ckpt_lock
 * @ckpt_end: block of that slot behind it, 0 if nothing is to be written there;
 *	ckpt_lock
 * @ckpt_crc: of its footer; ckpt_lock
 * @ckpt_bad: it says that there are unreadable blocks; ckpt_lock
 * @meta_buf: SHINGLE_META_BATCH blocks for checkpoints; ckpt_lock
 * @dead: nothing can be added to the journal in this activation; set under map_lock, never
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
 * struct shingle_pager - pages of the engine's map that are read, and who waits for one
 * @wq: @work, for which everybody else may wait; NULL if the map has no pages
 * @work: reads what is wanted
 * @bios: for that
 * @reading: so many are under way, or have failed and nobody knows; map_lock
 * @failed: so many could not be read, and the mode has not gone down for it yet; map_lock
 * @crowded: somebody waits for a checkpoint to make room; map_lock
 * @beginning: a worker is about to begin some, and wakes who waits when it has; map_lock
 * @again: somebody has looked at enough for one call and waits to be asked again, or a page
 *	has come while others were being begun; map_lock
 * @clean_waits: the cleaner waits for a page; map_lock
 * @oldest: who has waited longest of the host's wishes, a bio or the write cache, and
 *	keeps what he has looked at; map_lock
 * @events: pages read and checkpoints taken so far; map_lock
 */
struct shingle_pager {
	struct workqueue_struct *wq;
	struct work_struct work;
	struct bio_set bios;
	u32 reading;
	u32 failed;
	bool crowded;
	bool beginning;
	bool again;
	bool clean_waits;
	const void *oldest;
	u64 events;
};

/**
 * struct shingle_cleaner - the step in progress, and why there should be one
 * @hold_pblk: reads of this run wait for it; map_lock
 * @hold_n: its length, 0 = none
 * @step_bad: blocks of it that could not be read; map_lock
 * @unwritten: which destination of the step could not be written; cleaner only
 * @turns: who wants something cleaned; map_lock
 * @cleans: so many wait for a clean that they asked for; map_lock
 * @idle: the host is quiet; map_lock
 * @epoch_wanted: gathered writes are to be written; map_lock
 * @epoch_open: some of them are in the epoch; changed by the cleaner under map_lock
 * @recovering: a step interrupted by a power cut is to be finished; map_lock
 * @busy: a step is in progress; map_lock
 * @retries: failures of it in a row; cleaner only
 * @failed_at: the last of them, in jiffies; cleaner only
 * @wq: @work, which may wait for a commit, and @idle_work
 * @work: cleans
 * @idle_work: looks whether the host is quiet
 * @copy_buf: @copy_blocks blocks; cleaner only
 * @copy_blocks: blocks copied at a time
 * @copy_extents: @copy_blocks entries; cleaner only
 * @copy_runs: @copy_blocks entries; cleaner only
 * @step_rec: room for the records of a step; cleaner only
 * @step_rec_max: for so many
 */
struct shingle_cleaner {
	u64 hold_pblk;
	u32 hold_n;
	struct shingle_badlist step_bad;
	struct shingle_unwritten unwritten;
	struct shingle_turns turns;
	u32 cleans;
	bool idle;
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

/* Does anybody want a step, or is there an epoch to be ended?  Context: map lock. */
static inline bool shingle_has_reason(const struct shingle_cleaner *c)
{
	return c->turns.pressure || c->turns.forced || c->idle || c->epoch_open;
}

/**
 * struct shingle_device - a translation target
 * @ti: its target
 * @ops: of its engine
 * @engine: map_lock
 * @layout: constant but for flags, sb_seq and settings, which ckpt_lock protects
 * @bad: unreadable blocks; map_lock
 * @trims: discarded blocks that are not forgotten; map_lock
 * @dev: the devices of the table line
 * @blocks: their sizes
 * @io: for everything that is not a host bio
 * @bios: struct shingle_piece
 * @list: in the list of active devices
 * @gathers: the engine gathers writes; constant
 * @read_only: the table is, or one of the devices: nothing is ever written to them,
 *	not even what is wrong with them; constant
 * @loaded: state was read from the disk: before that no message touches the
 *	engine; set under map_lock, never cleared
 * @spoilt: reading it failed half-way
 * @config: what its keys say; set under map_lock
 * @wcache: see there
 * @cpu: see struct shingle_cpu
 * @map_lock: see above
 * @mode: enum shingle_mode; set under map_lock, read anywhere
 * @mode_why: why it is not SHINGLE_RW, the tail of a sentence that is never freed; NULL if it
 *	is; map_lock
 * @needs_check: the superblock says so, or is about to, or would if it could be written
 * @stopping: no new steps, end the one in progress
 * @held: nothing is started but for the host, because the system hibernates; set under
 *	map_lock, read anywhere
 * @resetting: the same as @stopping, and new bios wait; map_lock
 * @leaving: a suspend has begun, which messages must not keep waiting; map_lock
 * @leavings: so many have; map_lock
 * @suspended: between postsuspend and resume
 * @dirty: per device, written to since the last flush of it that succeeded began; map_lock
 * @unreported: acknowledged blocks that are lost; the next FLUSH fails, and this is 0;
 *	map_lock
 * @loss: where @unreported is kept for the next activation, NULL while it is; see loss.c
 * @front: see there
 * @order: see there
 * @cleaner: see there
 * @wait: for readers, for checkpoints, for the end of cleaning
 * @wq: @work and shingle_log::commit_work
 * @work: looks at the bios that wait
 * @reset_lock: see above
 * @log: see there
 * @journal: see there
 * @pager: see there
 * @n: counters; map_lock
 * @cleared: what @cpu had counted when counters were cleared; map_lock
 * @carried: what engines before a reset have counted; map_lock
 * @step_us: time that steps have taken, by their kind; map_lock
 * @longest_us: and the longest of them; map_lock
 */
struct shingle_device {
	struct dm_target *ti;
	const struct shingle_engine_ops *ops;
	struct shingle_engine *engine;
	struct shingle_layout layout;
	struct shingle_badlist bad;
	struct shingle_trimlist trims;

	struct dm_dev *dev[SHINGLE_NR_DEVS];
	u64 blocks[SHINGLE_NR_DEVS];
	struct dm_io_client *io;
	struct bio_set bios;
	struct list_head list;
	bool gathers;
	bool read_only;
	bool loaded;
	bool spoilt;
	struct shingle_config config;
	struct shingle_wcache wcache;
	struct shingle_cpu __percpu *cpu;

	/* Not beside what others look at without it. */
	spinlock_t map_lock ____cacheline_aligned_in_smp;
	enum shingle_mode mode;
	const char *mode_why;
	bool needs_check;
	bool stopping;
	bool held;
	bool resetting;
	bool leaving;
	u32 leavings;
	bool suspended;
	bool dirty[SHINGLE_NR_DEVS];
	u64 unreported;
	struct shingle_loss *loss;
	struct shingle_front front;
	struct shingle_order order;
	struct shingle_cleaner cleaner;

	wait_queue_head_t wait;
	struct workqueue_struct *wq;
	struct work_struct work;

	struct mutex reset_lock;	/* one reset at a time */
	struct shingle_log log;
	struct shingle_journal journal;
	struct shingle_pager pager;

	struct shingle_counters n;
	struct shingle_cpu cleared;
	u64 carried[SHINGLE_MAX_COUNTERS];
	u64 step_us[SHINGLE_STEP_KINDS];
	u64 longest_us[SHINGLE_STEP_KINDS];
};

#define SHINGLE_META_BATCH	64

static inline struct shingle_io *shingle_bio_io(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct shingle_io));
}

/* Does anybody wait for shingle_kick()?  Context: map lock. */
static inline bool shingle_waiting(const struct shingle_device *d)
{
	return !bio_list_empty(&d->front.deferred) || d->front.retrying || d->wcache.blocked;
}

static inline bool shingle_has_dev(const struct shingle_device *d, enum shingle_dev dev)
{
	return d->dev[dev];
}

#endif /* SHINGLE_DEVICE_H */
