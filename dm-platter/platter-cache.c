// SPDX-License-Identifier: GPL-2.0
/*
 * The volatile write cache.  It holds the data in memory of its own, so a power cut really
 * loses data that were acknowledged from it.
 *
 * A block is marked while it is written to the medium.  If it is written again meanwhile it
 * gets new memory, so no block is ever torn.
 *
 * Where tracks overlap, an earlier write must not destroy a later one.  So blocks have
 * generations.  A sweep writes the blocks of one generation, which were all cached when it
 * began; blocks that come meanwhile belong to the next generation.  Within a sweep the
 * order is such that no block destroys another, see platter_geo_pass().  Where tracks do
 * not overlap there is only one generation, and the sweep goes round.
 *
 * All calls are made under p->lock, except those from module init and exit.
 */
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "events.h"
#include "platter.h"

/*
 * Do not wait for memory under p->lock, which the writes that would free memory may need.
 * Without memory the caller writes through.
 */
#define CACHE_GFP	(GFP_NOIO | __GFP_NORETRY | __GFP_NOMEMALLOC | __GFP_NOWARN)

/* The mark in p->wcache.blocks of one of the two generations that can exist at a time. */
#define GENERATION(gen)	((gen) & 1 ? XA_MARK_1 : XA_MARK_0)
/* The actuator is writing this block, or a newer version of it. */
#define UNDER_WAY	XA_MARK_2

/* A slab for the blocks of all drives, because a page can have 64 KiB on some machines. */
static struct kmem_cache *block_cache;

/* A block of memory that holds no data yet. */
struct spare {
	struct spare *next;
};

static void *get_spare(struct spare **spares)
{
	struct spare *block = *spares;

	if (block)
		*spares = block->next;
	return block;
}

/* Free a block that leaves the cache, or is about to be replaced there. */
static void put_block(struct platter *p, u64 blk, void *block)
{
	if (p->wcache.covered || !xa_get_mark(&p->wcache.blocks, blk, UNDER_WAY))
		kmem_cache_free(block_cache, block);
	/* otherwise platter_cache_destaged() frees it */
}

static void store_block(struct platter *p, u64 blk, void *block)
{
	u64 gen = platter_cache_generation(p);
	void *old = xa_load(&p->wcache.blocks, blk);

	if (old)
		put_block(p, blk, old);
	else
		p->wcache.count++;
	xa_store(&p->wcache.blocks, blk, block, GFP_NOIO);
	xa_clear_mark(&p->wcache.blocks, blk, UNDER_WAY);
	xa_clear_mark(&p->wcache.blocks, blk, GENERATION(gen + 1));
	xa_set_mark(&p->wcache.blocks, blk, GENERATION(gen));
}

/**
 * platter_cache_generation() - the generation of blocks that are cached now
 * @p: the drive
 *
 * Context: under p->lock.
 * Return: its number, never 0.
 */
u64 platter_cache_generation(struct platter *p)
{
	return p->wcache.gen + !!platter_geo_window(&p->geo);
}

/**
 * platter_cache_write() - take a write into the cache
 * @p: the drive
 * @bio: the write
 * @blk: its first block
 * @n: number of blocks
 *
 * Context: may sleep; GFP_NOIO, and gives up early.
 * Return: 0; -ENOSPC if there is no room now; -ENOMEM if there is no memory (then nothing
 *	is cached and the caller writes through).
 */
int platter_cache_write(struct platter *p, struct bio *bio, u64 blk, u32 n)
{
	struct spare *spares = NULL, *spare;
	struct bvec_iter iter;
	struct bio_vec bv;
	u32 i, off = 0;
	void *block;

	if (p->wcache.count + n > platter_wcache_blocks(p))
		return -ENOSPC;
	/* allocate first, so that a failure leaves the cache unchanged */
	for (i = 0; i < n; i++) {
		spare = kmem_cache_alloc(block_cache, CACHE_GFP);
		if (!spare)
			goto nomem;
		spare->next = spares;
		spares = spare;
		if (!xa_load(&p->wcache.blocks, blk + i) &&
		    xa_reserve(&p->wcache.blocks, blk + i, CACHE_GFP))
			goto nomem;
	}

	block = get_spare(&spares);
	bio_for_each_segment(bv, bio, iter) {
		u32 done = 0;

		while (done < bv.bv_len) {
			u32 len = min(bv.bv_len - done, PLATTER_BLOCK_SIZE - off);

			memcpy_from_page(block + off, bv.bv_page, bv.bv_offset + done, len);
			off += len;
			done += len;
			if (off == PLATTER_BLOCK_SIZE) {
				off = 0;
				store_block(p, blk++, block);
				block = get_spare(&spares);
			}
		}
	}
	return 0;

nomem:
	for (i = 0; i < n; i++)
		xa_release(&p->wcache.blocks, blk + i);
	while ((spare = get_spare(&spares)))
		kmem_cache_free(block_cache, spare);
	return -ENOMEM;
}

/**
 * platter_cache_overlaps() - test which part of a range is cached
 * @p: the drive
 * @blk: first block
 * @n: number of blocks
 * @any: result: at least one block is cached
 *
 * Context: under p->lock.
 * Return: true if every block is cached.
 */
bool platter_cache_overlaps(struct platter *p, u64 blk, u32 n, bool *any)
{
	bool all = true;
	u32 i;

	*any = false;
	if (!p->wcache.count)
		return false;
	for (i = 0; i < n; i++) {
		if (xa_load(&p->wcache.blocks, blk + i))
			*any = true;
		else
			all = false;
	}
	return all;
}

/**
 * platter_cache_read() - copy cached blocks over the data of a read
 * @p: the drive
 * @bio: the read, with the data of the medium where the cache has none
 * @blk: its first block
 *
 * Context: under p->lock.
 */
void platter_cache_read(struct platter *p, struct bio *bio, u64 blk)
{
	struct bvec_iter iter;
	struct bio_vec bv;
	u32 off = 0;

	bio_for_each_segment(bv, bio, iter) {
		u32 done = 0;

		while (done < bv.bv_len) {
			u32 len = min(bv.bv_len - done, PLATTER_BLOCK_SIZE - off);
			void *block = xa_load(&p->wcache.blocks, blk);

			if (block)
				memcpy_to_page(bv.bv_page, bv.bv_offset + done,
					       block + off, len);
			off += len;
			done += len;
			if (off == PLATTER_BLOCK_SIZE) {
				off = 0;
				blk++;
			}
		}
	}
}

/**
 * platter_cache_cover() - a write past the cache begins
 * @p: the drive; no block is being written
 * @blk: its first block
 * @n: number of blocks
 *
 * The versions in the cache were acknowledged.  They stay until the medium has the new
 * ones, because the write may fail.
 *
 * Context: under p->lock.
 */
void platter_cache_cover(struct platter *p, u64 blk, u32 n)
{
	unsigned long i;
	void *block;

	if (!n || !p->wcache.count)
		return;
	p->wcache.covered = true;
	xa_for_each_range(&p->wcache.blocks, i, block, blk, blk + n - 1)
		xa_set_mark(&p->wcache.blocks, i, UNDER_WAY);
}

/**
 * platter_cache_covered() - a write past the cache has ended
 * @p: the drive
 * @blk: its first block
 * @n: number of blocks
 * @ok: the medium has the blocks; if not, the cache keeps the earlier versions
 *
 * A version that was cached meanwhile stays there in any case.
 *
 * Context: under p->lock.
 */
void platter_cache_covered(struct platter *p, u64 blk, u32 n, bool ok)
{
	unsigned long i;
	void *block;

	p->wcache.covered = false;
	if (!n || !p->wcache.count)
		return;
	xa_for_each_range(&p->wcache.blocks, i, block, blk, blk + n - 1) {
		if (!xa_get_mark(&p->wcache.blocks, i, UNDER_WAY))
			continue;
		xa_clear_mark(&p->wcache.blocks, i, UNDER_WAY);
		if (!ok)
			continue;
		xa_erase(&p->wcache.blocks, i);
		p->wcache.count--;
		kmem_cache_free(block_cache, block);
	}
}

/**
 * platter_cache_drop() - lose all content, as at a power cut
 * @p: the drive
 *
 * Blocks that the actuator is writing or superseding are not counted as lost yet.  Their
 * fate is known when the medium is done with them.
 *
 * Context: under p->lock.
 * Return: number of the blocks that the actuator is writing or superseding.
 */
u32 platter_cache_drop(struct platter *p)
{
	unsigned long i;
	u32 under_way = 0;
	void *block;

	xa_for_each(&p->wcache.blocks, i, block) {
		if (!xa_get_mark(&p->wcache.blocks, i, UNDER_WAY))
			platter_count(p, PC_wcache_lost_blocks, 1);
		else
			under_way++;
		put_block(p, i, block);
		xa_erase(&p->wcache.blocks, i);
	}
	p->wcache.count = 0;
	return under_way;
}

/* Find the first block from @from on that belongs to this pass of the sweep. */
static bool next_block(struct platter *p, unsigned long *from)
{
	while (xa_find(&p->wcache.blocks, from, ULONG_MAX, GENERATION(p->wcache.gen))) {
		u64 end;

		if (platter_geo_pass(&p->geo, *from, &end) == p->wcache.pass)
			return true;
		*from = end;
		cond_resched();
	}
	return false;
}

/* Begin again at the outer diameter: the next pass, or the next sweep. */
static void next_pass(struct platter *p)
{
	if (++p->wcache.pass < platter_geo_passes(&p->geo))
		return;
	p->wcache.pass = 0;
	p->wcache.gen = platter_cache_generation(p);
}

/**
 * platter_cache_run() - choose the next run to write to the medium
 * @p: the drive; no destage is in progress
 * @blk: set to the first block
 * @n: set to the number of blocks
 *
 * Sweeps follow each other, each in ascending order, in runs of consecutive blocks.
 *
 * Context: under p->lock; may sleep.
 * Return: a write bio over the cache's memory, without a device, or NULL if the cache is
 *	empty.
 */
struct bio *platter_cache_run(struct platter *p, u64 *blk, u32 *n)
{
	xa_mark_t generation;
	unsigned long i = p->wcache.cursor;
	struct bio *bio;
	u64 end;

	if (!p->wcache.count)
		return NULL;
	while (!next_block(p, &i)) {
		next_pass(p);
		i = 0;
	}
	generation = GENERATION(p->wcache.gen);
	bio = bio_alloc_bioset(NULL, PLATTER_DESTAGE_BLOCKS, REQ_OP_WRITE, GFP_NOIO,
			       &p->wcache.bs);
	*blk = i;
	*n = 0;
	platter_geo_pass(&p->geo, *blk, &end);
	do {
		void *block = xa_load(&p->wcache.blocks, *blk + *n);

		if (bio_add_page(bio, virt_to_page(block), PLATTER_BLOCK_SIZE,
				 offset_in_page(block)) != PLATTER_BLOCK_SIZE)
			break;
		xa_set_mark(&p->wcache.blocks, *blk + *n, UNDER_WAY);
		p->wcache.run[(*n)++] = block;
	} while (*n < PLATTER_DESTAGE_BLOCKS && *blk + *n < end &&
		 xa_get_mark(&p->wcache.blocks, *blk + *n, generation));
	p->wcache.cursor = *blk + *n;
	return bio;
}

static int write_one(struct platter *p, u64 blk, void *block)
{
	struct bio *bio = bio_alloc_bioset(NULL, 1, REQ_OP_WRITE, GFP_NOIO, &p->wcache.bs);
	int r;

	__bio_add_page(bio, virt_to_page(block), PLATTER_BLOCK_SIZE, offset_in_page(block));
	r = platter_media_write_sync(p, bio, blk, 1);
	bio_put(bio);
	return r;
}

/**
 * platter_cache_destaged() - a run has ended
 * @p: the drive
 * @bio: from platter_cache_run(); freed
 * @blk: its first block
 * @n: number of blocks
 * @ok: the run was written
 *
 * If the run failed, each of its blocks is written by itself, outside the model's time, so
 * that one bad block does not cost the others.  Blocks that fail again leave the cache all
 * the same; otherwise the cache would try for ever.
 *
 * Context: under p->lock with nothing on the actuator; sleeps if @ok is false.
 * Return: number of blocks lost.
 */
u32 platter_cache_destaged(struct platter *p, struct bio *bio, u64 blk, u32 n, bool ok)
{
	u32 i, lost = 0;

	for (i = 0; i < n; i++) {
		/* otherwise it was replaced meanwhile, or a power cut emptied the cache */
		bool ours = xa_get_mark(&p->wcache.blocks, blk + i, UNDER_WAY);

		if (ours && !ok && write_one(p, blk + i, p->wcache.run[i]))
			lost++;
		if (ours) {
			xa_erase(&p->wcache.blocks, blk + i);
			p->wcache.count--;
		}
		kmem_cache_free(block_cache, p->wcache.run[i]);
	}
	bio_put(bio);
	return lost;
}

static bool overlaps_generation(struct platter *p, u64 from, u64 end, u64 gen)
{
	unsigned long i = from;

	return xa_find(&p->wcache.blocks, &i, end - 1, GENERATION(gen));
}

/**
 * platter_cache_threatens() - test whether writing the cache to the medium would destroy a
 * range
 * @p: the drive
 * @blk: first block of a write past the cache
 * @n: number of blocks
 * @gen: ignore cached blocks of later generations
 *
 * Context: under p->lock.
 * Return: true if a cached block would destroy part of the range, and that write does not
 *	supersede it.
 */
bool platter_cache_threatens(struct platter *p, u64 blk, u32 n, u64 gen)
{
	struct platter_reach reach;
	u64 from, g;
	u32 count;

	if (!p->wcache.count)
		return false;
	platter_reach_begin(&reach, &p->geo, blk, n, PLATTER_DESTROYED_BY);
	while (platter_reach_next(&reach, &from, &count)) {
		for (g = p->wcache.gen; g <= min(gen, p->wcache.gen + 1); g++) {
			if (overlaps_generation(p, from, from + count, g))
				return true;
		}
	}
	return false;
}

/**
 * platter_cache_flush_untimed() - empty the cache at an orderly power-down
 * @p: the drive; no request is in flight
 *
 * Takes no model time, because the drive is leaving.  Blocks that cannot be written are
 * lost and counted in p->loss.unreported.
 *
 * Context: under p->lock; may sleep.
 */
void platter_cache_flush_untimed(struct platter *p)
{
	struct bio *bio;
	u64 blk;
	u32 n;
	int r;

	while (!p->power.off && (bio = platter_cache_run(p, &blk, &n))) {
		trace_platter_destage(p, blk, n, PLATTER_DESTAGE_LEAVE);
		r = platter_media_write_sync(p, bio, blk, n);
		platter_loss_add(p, platter_cache_destaged(p, bio, blk, n, !r));
		platter_count(p, PC_wcache_destages, 1);
	}
}

/**
 * platter_cache_init() - create the slab for the blocks of all drives
 *
 * Context: module init.
 * Return: 0 or -ENOMEM.
 */
int __init platter_cache_init(void)
{
	block_cache = kmem_cache_create("dm_platter_block", PLATTER_BLOCK_SIZE,
					PLATTER_BLOCK_SIZE, 0, NULL);
	return block_cache ? 0 : -ENOMEM;
}

/**
 * platter_cache_exit() - destroy the slab
 *
 * Context: module init and exit; no drive is left.
 */
void platter_cache_exit(void)
{
	kmem_cache_destroy(block_cache);
}
