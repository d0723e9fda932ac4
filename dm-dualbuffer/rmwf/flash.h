/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The address translator of RMW-F, Ma (2019), section 5.3.4: the flash page of each cached
 * block, and the number of times it was written to flash.  Also the data that the garbage
 * collector uses.
 *
 * Adjacent columns form a group, and each group has one flash block: this block-level map
 * is arithmetic.  Within the flash block a page-level map finds the block.  With
 * ``alloc=pool`` any page can hold any block.
 *
 * Flash is a device with its own translation layer: a page can be written again as soon as
 * it is free.  So there is no erase here, and no block is moved within flash (rule F3 of
 * Documentation/papers/ma.rst).  A page that held a block is free when the change of the map is
 * durable and no reader uses it.
 *
 * Pure code; 18 bytes and a bit per page.  It has no lock of its own: the map lock protects
 * it.
 */
#ifndef SHINGLE_RMWF_FLASH_H
#define SHINGLE_RMWF_FLASH_H

#include "engine/engine.h"
#include "rmwf/space.h"
#include "engine/slotmap.h"

/* Most pages of a flash block. */
#define RMWF_PAGES		1024U
#define RMWF_DEFAULT_PAGES	64U
/* Most runs of freed pages, one per transaction; further ones wait with the last. */
#define RMWF_FREED		16U

/**
 * struct rmwf_freed - pages that were freed together
 * @seq: they are free when this transaction is durable
 * @n: number of pages
 */
struct rmwf_freed {
	u64 seq;
	u32 n;
};

/**
 * struct rmwf_block - a flash block
 * @free: free pages
 * @waiting: pages that wait to be free
 * @unfit: pages that could not be written, and are not used
 * @at: where the search for the next free page begins
 */
struct rmwf_block {
	u16 free;
	u16 waiting;
	u16 unfit;
	u16 at;
};

/**
 * struct rmwf_flash - the flash
 * @space: the shingled space that it is a cache of
 * @map: the block in each page
 * @count: for each page with a block, writes of the block since it came to flash
 * @age: bitmap of pages with a block; equals @young if the block came after the last
 *	rmwf_flash_age()
 * @young: current value for young blocks; rmwf_flash_age() inverts it
 * @wait: ring of pages that wait to be free, with one entry per page
 * @page_blocks: pages of a flash block
 * @nr_blocks: flash blocks
 * @group_columns: columns of a group
 * @band_groups: groups of a band
 * @block: the flash blocks
 * @open: bitmap of flash blocks with free pages
 * @nr_free: free pages in all flash blocks
 * @pool: any page can hold any block
 * @pool_at: with @pool, the flash block that is being filled
 * @freed: ring of transactions that pages wait for
 * @freed_from: the oldest of them
 * @nr_freed: number of them
 * @wait_from: the oldest page in @wait
 * @nr_wait: pages in @wait
 * @cached: for each band, its blocks in flash
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
 * struct rmwf_want - request for a garbage collection
 * @from: first page of the range to collect
 * @n: number of pages
 * @percent: percentage of these pages that should become free, if possible
 * @hot: a block with a higher count is hot
 * @literal: hot blocks are never brought home, as in the thesis (F5)
 * @of_first: collect the band of the first page, which must hold a block; otherwise the
 *	band with most cached blocks
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
 * struct rmwf_victim - the collection that was chosen
 * @band: the band to rewrite
 * @track: first track to rewrite
 * @end: one past the last track
 * @cold: requested pages with cold blocks that become free
 * @all: requested pages that become free
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
