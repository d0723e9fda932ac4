// SPDX-License-Identifier: GPL-2.0
/*
 * The volatile write cache.  It holds the data really, in pages of its own, so
 * that a power cut really loses what was acknowledged from it.
 *
 * A page on its way to the medium is marked in page_private(); a block written
 * again meanwhile gets a new page, so no block is ever torn.
 *
 * All calls are made under p->lock.
 */
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/mm.h>

#include "platter.h"

/*
 * A shortage has a way out, writing through, so it must not be waited out under
 * p->lock, which the writes that would end it may need.
 */
#define CACHE_GFP	(GFP_NOIO | __GFP_NORETRY | __GFP_NOMEMALLOC | __GFP_NOWARN)

static void put_cache_page(struct page *page)
{
	if (!page_private(page))
		__free_page(page);
	/* else platter_cache_destaged() frees it */
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
	struct bvec_iter iter;
	struct bio_vec bv;
	u32 i = 0, off = 0;
	LIST_HEAD(pages);
	struct page *page, *next;

	if (p->wcache_count + n > p->wcache_blocks)
		return -ENOSPC;
	/* memory first, so that a shortage leaves the cache as it was */
	for (i = 0; i < n; i++) {
		page = alloc_page(CACHE_GFP | __GFP_HIGHMEM);
		if (!page)
			goto nomem;
		set_page_private(page, 0);
		list_add_tail(&page->lru, &pages);
		if (!xa_load(&p->wcache, blk + i) &&
		    xa_reserve(&p->wcache, blk + i, CACHE_GFP)) {
			goto nomem;
		}
	}

	page = list_first_entry(&pages, struct page, lru);
	bio_for_each_segment(bv, bio, iter) {
		u32 done = 0;

		while (done < bv.bv_len) {
			u32 len = min(bv.bv_len - done, PLATTER_BLOCK_SIZE - off);

			memcpy_page(page, off, bv.bv_page, bv.bv_offset + done, len);
			off += len;
			done += len;
			if (off == PLATTER_BLOCK_SIZE) {
				off = 0;
				page = list_next_entry(page, lru);
			}
		}
	}

	i = 0;
	list_for_each_entry_safe(page, next, &pages, lru) {
		struct page *old;

		list_del(&page->lru);
		old = xa_store(&p->wcache, blk + i, page, GFP_NOIO);
		if (old)
			put_cache_page(old);
		else
			p->wcache_count++;
		i++;
	}
	return 0;

nomem:
	for (i = 0; i < n; i++)
		xa_release(&p->wcache, blk + i);
	list_for_each_entry_safe(page, next, &pages, lru) {
		list_del(&page->lru);
		__free_page(page);
	}
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
			struct page *page = xa_load(&p->wcache, blk);

			if (page)
				memcpy_page(bv.bv_page, bv.bv_offset + done, page,
					    off, len);
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
 * platter_cache_forget - drop blocks that a write-through has superseded
 * @p: the drive
 * @blk: first block
 * @n: blocks
 *
 * Context: under p->lock.
 */
void platter_cache_forget(struct platter *p, u64 blk, u32 n)
{
	u32 i;

	for (i = 0; i < n && p->wcache_count; i++) {
		struct page *page = xa_erase(&p->wcache, blk + i);

		if (page) {
			put_cache_page(page);
			p->wcache_count--;
		}
	}
}

/**
 * platter_cache_drop - lose everything, as at a power cut
 * @p: the drive
 *
 * A run under way is not counted as lost: what becomes of it is known when the
 * medium is done with it.
 *
 * Context: under p->lock.
 */
void platter_cache_drop(struct platter *p)
{
	struct page *page;
	unsigned long i;

	xa_for_each(&p->wcache, i, page) {
		xa_erase(&p->wcache, i);
		if (!page_private(page))
			platter_count(p, PC_wcache_lost_blocks, 1);
		put_cache_page(page);
	}
	p->wcache_count = 0;
}

/**
 * platter_cache_run - choose what to write to the medium next
 * @p: the drive
 * @blk: set to the first block
 * @n: set to the number of blocks
 *
 * One sweep after the other in ascending order, in runs of consecutive blocks.
 *
 * Context: under p->lock; may sleep.
 * Return: a write bio over the cache's pages, without a device, or NULL if the
 * cache is empty.
 */
struct bio *platter_cache_run(struct platter *p, u64 *blk, u32 *n)
{
	unsigned long i = p->destage_cursor;
	struct page *page;
	struct bio *bio;

	page = xa_find(&p->wcache, &i, ULONG_MAX, XA_PRESENT);
	if (!page) {
		i = 0;
		page = xa_find(&p->wcache, &i, ULONG_MAX, XA_PRESENT);
	}
	if (!page)
		return NULL;
	bio = bio_alloc_bioset(NULL, PLATTER_DESTAGE_BLOCKS, REQ_OP_WRITE, GFP_NOIO,
			       &p->destage_bs);
	*blk = i;
	*n = 0;
	while (page && *n < PLATTER_DESTAGE_BLOCKS) {
		if (bio_add_page(bio, page, PLATTER_BLOCK_SIZE, 0) != PLATTER_BLOCK_SIZE)
			break;
		set_page_private(page, 1);
		(*n)++;
		page = xa_load(&p->wcache, *blk + *n);
	}
	p->destage_cursor = *blk + *n;
	return bio;
}

/**
 * platter_cache_destaged - the run is on the medium, or could not be
 * @p: the drive
 * @bio: from platter_cache_run(); freed
 * @blk: its first block
 * @ok: whether it was written; if not, the blocks stay cached
 *
 * Context: under p->lock.
 */
void platter_cache_destaged(struct platter *p, struct bio *bio, u64 blk, bool ok)
{
	struct bvec_iter_all iter;
	struct bio_vec *bv;

	/* pages may have been merged into larger segments: walk page by page */
	bio_for_each_segment_all(bv, bio, iter) {
		struct page *page = bv->bv_page;
		bool current_page = xa_load(&p->wcache, blk) == page;

		set_page_private(page, 0);
		if (current_page && ok) {
			xa_erase(&p->wcache, blk);
			p->wcache_count--;
		}
		if (!current_page || ok)
			__free_page(page);
		blk++;
	}
	bio_put(bio);
}

/**
 * platter_cache_flush_untimed - empty the cache at an orderly power-down
 * @p: the drive; no request in flight
 *
 * Takes no model time: the drive is leaving.  But it may be back, so the next
 * flush has to say what was lost.
 *
 * Context: under p->lock; may sleep.
 * Return: 0 or -errno; what could not be written is lost.
 */
int platter_cache_flush_untimed(struct platter *p)
{
	struct bio *bio;
	u64 blk;
	u32 n;
	int r = 0;

	while (!r && !p->powered_off && (bio = platter_cache_run(p, &blk, &n))) {
		r = platter_media_write_sync(p, bio, blk, n);
		platter_cache_destaged(p, bio, blk, !r);
		platter_count(p, PC_wcache_destages, 1);
	}
	if (r) {
		platter_cache_drop(p);
		p->destage_failed = true;
		platter_update_fast(p);
	}
	return r;
}
