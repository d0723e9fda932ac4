/* SPDX-License-Identifier: GPL-2.0 */
/* The volatile write cache of a drive: acknowledged from memory, written later. */
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
	SHINGLE_WSLOT_GONE,	/* would be free, but a read still copies from it */
};

/**
 * struct shingle_wslot - room for one block
 * @node: in shingle_wcache::tree, if it is the newest version of its block
 * @age: in shingle_wcache::ages, if DIRTY, FLIGHT or LOST
 * @link: in shingle_wcache::free or ::lost, or in the list of the write that fills it or of
 *	the destage that contains it
 * @twin: the other one of two versions of a block: the older is in FLIGHT; the newer is DIRTY
 *	and must not be submitted before the older has completed
 * @lblk: logical block
 * @seq: number of the acknowledgment; an overwrite keeps that of the version which it
 *	replaces, so that a flush that waits for the one waits for the other
 * @since: time of the acknowledgment in jiffies
 * @pins: reads that copy from it
 * @state: enum shingle_wslot_state
 * @tries: failed attempts to write it
 *
 * The content of a slot never changes from DIRTY on: an overwrite takes another slot.  So no read
 * sees half a block, and copying needs no lock.
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
	SHINGLE_DESTAGE_AGAIN,	/* an attempt that was refused comes first */
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
 * @slots: @blocks and @spare
 * @spare: slots for overwrites of cached blocks
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
 * @waiting: deferred writes that found no room
 * @seq: number of the last block acknowledged
 * @drain: destage all blocks up to this number
 * @cursor: position of the elevator
 * @picks: runs chosen
 * @rounds: attempts since the last one that succeeded
 * @retry_at: time of the next attempt in jiffies, if @rounds
 * @blocked: the engine or the journal had no room
 * @refused: the engine or the journal had no room for the block at @cursor
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
	u64 cursor;
	u32 picks;
	u32 rounds;
	unsigned long retry_at;
	bool blocked;
	bool refused;
};

#endif /* SHINGLE_WCACHE_H */
