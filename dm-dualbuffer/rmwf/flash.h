/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The address translator of RMW-F, Ma (2019), section 5.3.4: which
 * page of flash holds which block, and how often it was written there; and what its garbage
 * collector goes by.
 *
 * Columns that lie beside each other are a group, and one flash block is theirs: the block-level
 * map is arithmetic.  Within it a page-level map says where a block is.  With ``alloc=pool``
 * any page is anybody's.
 *
 * Flash is a device with a translation of its own: a page is written again as soon as it is
 * free, nothing is erased, and so nothing is moved within flash (F3).  A page that held a block
 * is free when that is durable, and nobody reads it any more.
 *
 * Pure; 18 bytes and a bit a page.  No locking of its own: the map lock protects it.
 */
#ifndef SHINGLE_RMWF_FLASH_H
#define SHINGLE_RMWF_FLASH_H

#include "engine/engine.h"
#include "rmwf/space.h"
#include "engine/slotmap.h"

/* Pages of a flash block, at most. */
#define RMWF_PAGES		1024U
#define RMWF_DEFAULT_PAGES	64U
/* Stretches of freed pages by transaction; what comes then waits with the last one. */
#define RMWF_FREED		16U

/**
 * struct rmwf_freed - pages that were freed together
 * @seq: they are free when this transaction is durable
 * @n: how many
 */
struct rmwf_freed {
	u64 seq;
	u32 n;
};

/**
 * struct rmwf_block - a flash block
 * @free: free pages
 * @waiting: pages that wait to be free
 * @at: where the search for the next free page begins
 */
struct rmwf_block {
	u16 free;
	u16 waiting;
	u16 at;
};

/**
 * struct rmwf_flash - the flash
 * @space: what it is a cache of
 * @map: which page holds which block
 * @count: of each page that holds a block, how often that was written while it was in flash
 * @age: of each page that holds a block a bit, @young if it came to do so since
 *	rmwf_flash_age()
 * @young: turned round by that: what was young is old
 * @wait: pages that wait to be free, a ring as long as there are pages
 * @page_blocks: pages of a flash block
 * @nr_blocks: flash blocks
 * @group_columns: columns of a group
 * @band_groups: groups of a band
 * @block: flash blocks
 * @open: of each, a bit: it has free pages
 * @nr_free: free pages in all
 * @pool: any page is anybody's
 * @pool_at: then, the flash block that is filled
 * @freed: the transactions that pages wait for, a ring
 * @freed_from: the oldest of them
 * @nr_freed: how many
 * @wait_from: of the pages that wait, the oldest
 * @nr_wait: how many wait
 * @cached: of each band, how many of its blocks are in flash
 * @nr_bands: bands
 */
struct rmwf_flash {
	struct rmwf_space *space;
	struct shingle_slotmap map;
	u16 *count;
	unsigned long *age;
	bool young;
	u32 *wait;
	u32 page_blocks;
	u32 nr_blocks;
	u32 group_columns;
	u32 band_groups;
	struct rmwf_block *block;
	unsigned long *open;
	u32 nr_free;
	u32 pool;
	u32 pool_at;
	struct rmwf_freed freed[RMWF_FREED];
	u32 freed_from;
	u32 nr_freed;
	u32 wait_from;
	u32 nr_wait;
	u32 *cached;
	u32 nr_bands;
};

/**
 * struct rmwf_want - what a garbage collection is to do
 * @from: of these pages
 * @n: how many
 * @percent: so many of them are to be free, if it can be
 * @hot: a count above this is hot
 * @literal: what is hot is never brought home, as in the thesis (F5)
 * @of_first: of the band that the first of them is of, which holds something; else of the one
 *	of which most is cached
 */
struct rmwf_want {
	u32 from;
	u32 n;
	u32 percent;
	u32 hot;
	bool literal;
	bool of_first;
};

/**
 * struct rmwf_victim - and what it does
 * @band: this band is rewritten
 * @track: from this one on
 * @end: to in front of this one
 * @cold: pages that are freed of those it was asked for, which are cold
 * @all: pages that are freed of these
 */
struct rmwf_victim {
	u32 band;
	u32 track;
	u32 end;
	u32 cold;
	u32 all;
};

int rmwf_flash_init(struct rmwf_flash *f, struct rmwf_space *s, u32 slots, u32 page_blocks,
		    u32 group_columns, const char **why);
void rmwf_flash_exit(struct rmwf_flash *f);
u32 rmwf_block_of(const struct rmwf_flash *f, const struct rmwf_place *p, u32 *n);
u32 rmwf_flash_place(struct rmwf_flash *f, const struct rmwf_place *p, u32 n, u32 *slot);
void rmwf_flash_abort(struct rmwf_flash *f, u32 slot, u32 n);
u32 rmwf_flash_hold(struct rmwf_flash *f, u32 slot, u32 lblk, u32 n, u32 band);
void rmwf_flash_forget(struct rmwf_flash *f, u32 slot, u32 band);
void rmwf_flash_free(struct rmwf_flash *f, u32 slot, u64 seq);
bool rmwf_flash_release(struct rmwf_flash *f, u64 seq);
void rmwf_flash_age(struct rmwf_flash *f);
bool rmwf_flash_old(struct rmwf_flash *f, u32 *at);
void rmwf_flash_ready(struct rmwf_flash *f);
bool rmwf_collect(struct rmwf_flash *f, const struct rmwf_want *want, u16 *row,
		  struct rmwf_victim *v);

static inline u32 rmwf_find(const struct rmwf_flash *f, u32 lblk)
{
	return shingle_slotmap_find(&f->map, lblk);
}

#endif /* SHINGLE_RMWF_FLASH_H */
