/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The blocks that a wide head has destroyed: one bit per 4 KiB block, allocated only where
 * there is damage, and optionally mirrored on a small device.
 */
#ifndef PLATTER_DAMAGE_H
#define PLATTER_DAMAGE_H

#include <linux/bitmap.h>
#include <linux/types.h>
#include <linux/xarray.h>

struct block_device;
struct damage_page;

#define DAMAGE_PAGE_BYTES	4096U
#define DAMAGE_HEAD_BYTES	16U
#define DAMAGE_PAGE_BLOCKS	(8 * (DAMAGE_PAGE_BYTES - DAMAGE_HEAD_BYTES))

/**
 * struct platter_damage - the set of destroyed blocks
 * @pages: pages of bits; index = block / DAMAGE_PAGE_BLOCKS
 * @damaged: number of destroyed blocks
 * @nr_pages: memory in use, in pages of 4 KiB
 * @state: device of the mirror, or NULL
 * @read_only: the mirror is never written
 * @map: identification number of the mirror, stored in each of its blocks
 * @reserve: list of pages for times without free memory
 * @nr_reserve: pages in the reserve
 * @want_reserve: pages that should be in the reserve, see damage_reserve()
 *
 * The caller serialises all calls; they may sleep.
 */
struct platter_damage {
	struct xarray pages;
	u64 damaged;
	u64 nr_pages;
	struct block_device *state;
	bool read_only;
	u32 map;
	struct damage_page *reserve;
	u32 nr_reserve;
	u32 want_reserve;
};

void damage_init(struct platter_damage *d);
void damage_exit(struct platter_damage *d);
int damage_reserve(struct platter_damage *d, u64 blocks, u32 nr);
int damage_set(struct platter_damage *d, u64 blk, u32 n, u64 *newly);
void damage_clear(struct platter_damage *d, u64 blk, u64 n);
u64 damage_count(struct platter_damage *d, u64 blk, u64 n);
bool damage_next(struct platter_damage *d, u64 *blk, u64 end);
void damage_trim(struct platter_damage *d, u64 blk, u64 n);
int damage_open(struct platter_damage *d, struct block_device *bdev, bool read_only,
		u64 blocks, u64 geometry, char **error);
int damage_load(struct platter_damage *d, u64 blocks, u64 geometry, char **error);
int damage_sync(struct platter_damage *d);

#endif /* PLATTER_DAMAGE_H */
