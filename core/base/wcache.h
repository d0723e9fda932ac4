/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The volatile write cache of a drive.  It acknowledges a write when the data are in memory, and
 * writes them to the medium later: it destages them.
 */
#ifndef SHINGLE_WCACHE_H
#define SHINGLE_WCACHE_H

#include <linux/bio.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/workqueue.h>

struct shingle_device;

/* Blocks of a read that are served at a time. */
#define SHINGLE_WCACHE_HITS	32

enum shingle_wslot_state {
	SHINGLE_WSLOT_FREE,
	SHINGLE_WSLOT_FILLING,	/* being copied into; not in the tree yet */
	SHINGLE_WSLOT_DIRTY,	/* the newest version of its block */
	SHINGLE_WSLOT_FLIGHT,	/* in flight to the medium; there may be a newer version */
	SHINGLE_WSLOT_LOST,	/* could not be written: reads fail */
	SHINGLE_WSLOT_GONE,	/* becomes FREE when the last read has copied from it */
};

/**
 * struct shingle_wslot - room for one block
 * @node: in shingle_wcache::tree, if it is the newest version of its block
 * @age: in shingle_wcache::ages, if DIRTY, FLIGHT or LOST
 * @link: in shingle_wcache::free or ::lost, or in the list of the write that fills it or of
 *	the destage that contains it
 * @twin: the other slot, if two hold versions of the same block, else NULL.  The older version is
 *	in FLIGHT; the newer is DIRTY, and is not submitted before the older has completed
 * @lblk: logical block
 * @seq: number of the acknowledgment.  A version that replaces one which is not in flight takes
 *	over its number, so that a flush which waits for the old version waits for the new one
 * @since: time of the acknowledgment in jiffies
 * @pins: reads that copy from it
 * @state: enum shingle_wslot_state
 * @tries: failed attempts to write it
 *
 * The content of a slot never changes from DIRTY on: an overwrite takes another slot.  So no read
 * sees half a block, and copying needs no lock.  map_lock protects all members.
 */
struct shingle_wslot {
	struct rb_node node;
	struct list_head age;
	struct list_head link;
	struct shingle_wslot *twin;
	u64 lblk;
	u64 seq;
	unsigned long since;
	u32 pins;
	u8 state;
	u8 tries;
};

/* Reason for a destage. */
enum shingle_destage_why {
	SHINGLE_DESTAGE_NOT,	/* no reason */
	SHINGLE_DESTAGE_OFF,	/* the cache has been switched off */
	SHINGLE_DESTAGE_AGAIN,	/* the engine or journal had no room for a run: try it first */
	SHINGLE_DESTAGE_FULL,	/* room runs out */
	SHINGLE_DESTAGE_FLUSH,	/* a FLUSH waits for it */
	SHINGLE_DESTAGE_DUE,	/* a block is old enough, or all are to be written */
};

/**
 * struct shingle_hits - blocks of a read that were found
 * @n: number of slots
 * @slot: their slots, pinned
 */
struct shingle_hits {
	u32 n;
	struct shingle_wslot *slot[SHINGLE_WCACHE_HITS];
};

/**
 * struct shingle_wcache - the cache of a device
 * @blocks: its size, 0 = none; constant once constructed
 * @on: accept writes; set under map_lock, read without it
 * @wq: runs @work; separate, since it may wait for bios that other workers submit
 * @work: destages, completes flushes
 * @bios: struct shingle_destage
 * @pages: the pages of all slots
 * @slots: the slots: @blocks, and @spare more
 * @spare: number of slots that only overwrites of cached blocks may use
 * @tree: newest versions, by block
 * @ages: all slots that are not on the medium, by @seq
 * @free: free slots
 * @lost: slots in state LOST, not yet in the list of unreadable blocks
 * @flushes: flushes that wait for destaging, in order
 * @nr_free: length of @free
 * @nr: length of @ages
 * @dirty: slots in state DIRTY
 * @filling: slots in state FILLING
 * @flying: destages in flight; an epoch counts as one
 * @frozen: blocks in the epoch
 * @waiting: number of deferred bios that wait for room in the cache (shingle_io::waits)
 * @seq: number of the last block acknowledged
 * @drain: destage all blocks with this @seq or a lower one
 * @destage: state of the worker that destages; map_lock
 * @destage.cursor: the worker looks for the next run from this block upwards, and then from block 0
 * @destage.picks: number of runs that the worker has destaged
 * @destage.rounds: number of times that destaging has failed since it last succeeded;
 *	failures before @destage.retry_at count as one
 * @destage.retry_at: earliest time of the next attempt in jiffies, if @destage.rounds is not 0
 * @destage.blocked: the worker waits for room in the engine or in the journal, or for the end
 *	of a reset
 * @destage.refused: a run that begins at @destage.cursor found no room, and comes before all others
 *
 * map_lock protects all members that change, unless stated otherwise.
 */
struct shingle_wcache {
	u32 blocks;
	bool on;

	struct workqueue_struct *wq;
	struct delayed_work work;
	struct bio_set bios;
	struct page **pages;
	struct shingle_wslot *slots;
	u32 spare;

	struct rb_root tree;
	struct list_head ages;
	struct list_head free;
	struct list_head lost;
	struct bio_list flushes;
	u32 nr_free;
	u32 nr;
	u32 dirty;
	u32 filling;
	u32 flying;
	u32 frozen;
	u32 waiting;
	u64 seq;
	u64 drain;

	/* State of the worker that destages; map_lock */
	struct {
		u64 cursor;
		u32 picks;
		u32 rounds;
		unsigned long retry_at;
		bool blocked;
		bool refused;
	} destage;
};

#endif /* SHINGLE_WCACHE_H */
