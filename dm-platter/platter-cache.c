// SPDX-License-Identifier: GPL-2.0
/*
 * The volatile write cache.  It holds the data really, in memory of its own, so
 * that a power cut really loses what was acknowledged from it.
 *
 * A block on its way to the medium is marked; one that is written again meanwhile
 * gets other memory, so none is ever torn.
 *
 * Where tracks overlap, a write that came later must not be destroyed by one that
 * came before.  So blocks are of generations: a sweep takes those of one, which all
 * were there when it began, and what comes meanwhile is of the next one.  Within a
 * sweep blocks are written in an order in which none destroys another, see
 * platter_geo_pass().  Where nothing overlaps all are of one generation for ever,
 * and the sweep goes round.
 *
 * All calls are made under p->lock, except for those of the module.
 */
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "events.h"
#include "platter.h"

/*
 * A shortage has a way out, writing through, so it must not be waited out under
 * p->lock, which the writes that would end it may need.
 */
#define CACHE_GFP	(GFP_NOIO | __GFP_NORETRY | __GFP_NOMEMALLOC | __GFP_NOWARN)

/* What of p->wcache is of one of the two generations that there can be. */
#define GENERATION(gen)	((gen) & 1 ? XA_MARK_1 : XA_MARK_0)
/* The actuator writes this block, or a newer version of it. */
#define UNDER_WAY	XA_MARK_2

/* Blocks of all drives: a page each would be 64 KiB on some machines. */
static struct kmem_cache *block_cache;

/* A block that is not filled yet. */
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

/* It leaves the cache, or is about to be replaced there. */
static void put_block(struct platter *p, u64 blk, void *block)
{
	bool past_cache = p->active && !p->active->destage;

	if (past_cache || !xa_get_mark(&p->wcache, blk, UNDER_WAY))
		kmem_cache_free(block_cache, block);
	/* else platter_cache_destaged() frees it */
}

static void store_block(struct platter *p, u64 blk, void *block)
{
	u64 gen = platter_cache_generation(p);
	void *old = xa_load(&p->wcache, blk);

	if (old)
		put_block(p, blk, old);
	else
		p->wcache_count++;
	xa_store(&p->wcache, blk, block, GFP_NOIO);
	xa_clear_mark(&p->wcache, blk, UNDER_WAY);
	xa_clear_mark(&p->wcache, blk, GENERATION(gen + 1));
	xa_set_mark(&p->wcache, blk, GENERATION(gen));
}

/**
 * platter_cache_generation - of which generation is what comes now
 * @p: the drive
 *
 * Context: under p->lock.
 * Return: its number, never 0.
 */
u64 platter_cache_generation(struct platter *p)
{
	return p->wcache_gen + !!platter_geo_window(&p->geo);
}

/**
 * platter_cache_write - take a write into the cache
 * @p: the drive
 * @bio: the write
 * @blk: its first block
 * @n: its blocks
 *
 * Context: may sleep; GFP_NOIO, and gives up early.
 * Return: 0; -ENOSPC if there is no room now; -ENOMEM if there is no memory
 * (then nothing is cached and the caller writes through).
 */
int platter_cache_write(struct platter *p, struct bio *bio, u64 blk, u32 n)
{
	struct spare *spares = NULL, *spare;
	struct bvec_iter iter;
	struct bio_vec bv;
	u32 i, off = 0;
	void *block;

	if (p->wcache_count + n > platter_wcache_blocks(p))
		return -ENOSPC;
	/* memory first, so that a shortage leaves the cache as it was */
	for (i = 0; i < n; i++) {
		spare = kmem_cache_alloc(block_cache, CACHE_GFP);
		if (!spare)
			goto nomem;
		spare->next = spares;
		spares = spare;
		if (!xa_load(&p->wcache, blk + i) &&
		    xa_reserve(&p->wcache, blk + i, CACHE_GFP))
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
		xa_release(&p->wcache, blk + i);
	while ((spare = get_spare(&spares)))
		kmem_cache_free(block_cache, spare);
	return -ENOMEM;
}

/**
 * platter_cache_holds - which part of a range is cached
 * @p: the drive
 * @blk: first block
 * @n: blocks
 * @any: set to whether any block is
 *
 * Context: under p->lock.
 * Return: true if every block is.
 */
bool platter_cache_holds(struct platter *p, u64 blk, u32 n, bool *any)
{
	bool all = true;
	u32 i;

	*any = false;
	if (!p->wcache_count)
		return false;
	for (i = 0; i < n; i++) {
		if (xa_load(&p->wcache, blk + i))
			*any = true;
		else
			all = false;
	}
	return all;
}

/**
 * platter_cache_read - lay the cached blocks over a read
 * @p: the drive
 * @bio: the read, its data filled in where the cache has none
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
			void *block = xa_load(&p->wcache, blk);

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
 * platter_cache_cover - a write past the cache begins
 * @p: the drive; the write is p->active
 * @blk: its first block
 * @n: its blocks
 *
 * The versions in the cache were acknowledged.  They stay until the medium has the new
 * ones: the write may fail.
 *
 * Context: under p->lock.
 */
void platter_cache_cover(struct platter *p, u64 blk, u32 n)
{
	unsigned long i;
	void *block;

	if (!n || !p->wcache_count)
		return;
	xa_for_each_range(&p->wcache, i, block, blk, blk + n - 1)
		xa_set_mark(&p->wcache, i, UNDER_WAY);
}

/**
 * platter_cache_covered - that write is over
 * @p: the drive
 * @blk: its first block
 * @n: its blocks
 * @ok: the medium has them; if not, the cache keeps the versions before
 *
 * A version that has come to the cache meanwhile stays there in any case.
 *
 * Context: under p->lock.
 */
void platter_cache_covered(struct platter *p, u64 blk, u32 n, bool ok)
{
	unsigned long i;
	void *block;

	if (!n || !p->wcache_count)
		return;
	xa_for_each_range(&p->wcache, i, block, blk, blk + n - 1) {
		if (!xa_get_mark(&p->wcache, i, UNDER_WAY))
			continue;
		xa_clear_mark(&p->wcache, i, UNDER_WAY);
		if (!ok)
			continue;
		xa_erase(&p->wcache, i);
		p->wcache_count--;
		kmem_cache_free(block_cache, block);
	}
}

/**
 * platter_cache_drop - lose everything, as at a power cut
 * @p: the drive
 *
 * What the actuator writes, or supersedes, is not counted as lost yet: what becomes of
 * it is known when the medium is done with it.
 *
 * Context: under p->lock.
 */
void platter_cache_drop(struct platter *p)
{
	unsigned long i;
	void *block;

	xa_for_each(&p->wcache, i, block) {
		if (!xa_get_mark(&p->wcache, i, UNDER_WAY))
			platter_count(p, PC_wcache_lost_blocks, 1);
		else if (p->active)
			p->active->cut_n++;
		put_block(p, i, block);
		xa_erase(&p->wcache, i);
	}
	p->wcache_count = 0;
}

/* The first block from @from on that this pass of the sweep takes. */
static bool next_block(struct platter *p, unsigned long *from)
{
	while (xa_find(&p->wcache, from, ULONG_MAX, GENERATION(p->wcache_gen))) {
		u64 end;

		if (platter_geo_pass(&p->geo, *from, &end) == p->wcache_pass)
			return true;
		*from = end;
		cond_resched();
	}
	return false;
}

/* Over again, from the outside in: the next pass, or the next sweep. */
static void next_pass(struct platter *p)
{
	if (++p->wcache_pass < platter_geo_passes(&p->geo))
		return;
	p->wcache_pass = 0;
	p->wcache_gen = platter_cache_generation(p);
}

/**
 * platter_cache_run - choose what to write to the medium next
 * @p: the drive; no destage under way
 * @blk: set to the first block
 * @n: set to the number of blocks
 *
 * One sweep after the other in ascending order, in runs of consecutive blocks.
 *
 * Context: under p->lock; may sleep.
 * Return: a write bio over the cache's memory, without a device, or NULL if the
 * cache is empty.
 */
struct bio *platter_cache_run(struct platter *p, u64 *blk, u32 *n)
{
	xa_mark_t generation;
	unsigned long i = p->destage_cursor;
	struct bio *bio;
	u64 end;

	if (!p->wcache_count)
		return NULL;
	while (!next_block(p, &i)) {
		next_pass(p);
		i = 0;
	}
	generation = GENERATION(p->wcache_gen);
	bio = bio_alloc_bioset(NULL, PLATTER_DESTAGE_BLOCKS, REQ_OP_WRITE, GFP_NOIO,
			       &p->destage_bs);
	*blk = i;
	*n = 0;
	platter_geo_pass(&p->geo, *blk, &end);
	do {
		void *block = xa_load(&p->wcache, *blk + *n);

		if (bio_add_page(bio, virt_to_page(block), PLATTER_BLOCK_SIZE,
				 offset_in_page(block)) != PLATTER_BLOCK_SIZE)
			break;
		xa_set_mark(&p->wcache, *blk + *n, UNDER_WAY);
		p->destaging[(*n)++] = block;
	} while (*n < PLATTER_DESTAGE_BLOCKS && *blk + *n < end &&
		 xa_get_mark(&p->wcache, *blk + *n, generation));
	p->destage_cursor = *blk + *n;
	return bio;
}

static int write_one(struct platter *p, u64 blk, void *block)
{
	struct bio *bio = bio_alloc_bioset(NULL, 1, REQ_OP_WRITE, GFP_NOIO, &p->destage_bs);
	int r;

	__bio_add_page(bio, virt_to_page(block), PLATTER_BLOCK_SIZE, offset_in_page(block));
	r = platter_media_write_sync(p, bio, blk, 1);
	bio_put(bio);
	return r;
}

/**
 * platter_cache_destaged - the run is over
 * @p: the drive
 * @bio: from platter_cache_run(); freed
 * @blk: its first block
 * @n: its blocks
 * @ok: whether it was written
 *
 * If it was not, each of its blocks is written by itself, outside the model's time: one
 * bad block does not cost the others.  What fails again leaves the cache all the same,
 * which would else try for ever.
 *
 * Context: under p->lock with nothing on the actuator; sleeps if @ok is false.
 * Return: how many blocks are lost.
 */
u32 platter_cache_destaged(struct platter *p, struct bio *bio, u64 blk, u32 n, bool ok)
{
	u32 i, lost = 0;

	for (i = 0; i < n; i++) {
		/* else it was replaced meanwhile, or the cache has lost it */
		bool ours = xa_get_mark(&p->wcache, blk + i, UNDER_WAY);

		if (ours && !ok && write_one(p, blk + i, p->destaging[i]))
			lost++;
		if (ours) {
			xa_erase(&p->wcache, blk + i);
			p->wcache_count--;
		}
		kmem_cache_free(block_cache, p->destaging[i]);
	}
	bio_put(bio);
	return lost;
}

static bool holds_of(struct platter *p, u64 from, u64 end, u64 gen)
{
	unsigned long i = from;

	return xa_find(&p->wcache, &i, end - 1, GENERATION(gen));
}

/**
 * platter_cache_threatens - would the cache destroy that, were it on the medium?
 * @p: the drive
 * @blk: first block of a write past the cache
 * @n: its blocks
 * @gen: what came after this generation does not count
 *
 * Context: under p->lock.
 * Return: true if a block that is cached, and not written again by that write, would.
 */
bool platter_cache_threatens(struct platter *p, u64 blk, u32 n, u64 gen)
{
	struct platter_reach reach;
	u64 from, g;
	u32 count;

	if (!p->wcache_count)
		return false;
	platter_reach_begin(&reach, &p->geo, blk, n, PLATTER_DESTROYED_BY);
	while (platter_reach_next(&reach, &from, &count)) {
		for (g = p->wcache_gen; g <= min(gen, p->wcache_gen + 1); g++) {
			if (holds_of(p, from, from + count, g))
				return true;
		}
	}
	return false;
}

/**
 * platter_cache_flush_untimed - empty the cache at an orderly power-down
 * @p: the drive; no request in flight
 *
 * Takes no model time: the drive is leaving.  What could not be written is lost, and
 * counted in p->unreported.
 *
 * Context: under p->lock; may sleep.
 */
void platter_cache_flush_untimed(struct platter *p)
{
	struct bio *bio;
	u64 blk;
	u32 n;
	int r;

	while (!p->powered_off && (bio = platter_cache_run(p, &blk, &n))) {
		trace_platter_destage(p, blk, n, PLATTER_DESTAGE_LEAVE);
		r = platter_media_write_sync(p, bio, blk, n);
		platter_loss_add(p, platter_cache_destaged(p, bio, blk, n, !r));
		platter_count(p, PC_wcache_destages, 1);
	}
}

/**
 * platter_cache_init - memory for the blocks of all drives
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
 * platter_cache_exit - give it back
 *
 * Context: module init and exit; no drive is left.
 */
void platter_cache_exit(void)
{
	kmem_cache_destroy(block_cache);
}
