/* SPDX-License-Identifier: GPL-2.0 */
/* Placing of blocks, and changes of the map when writes complete. */
#ifndef SHINGLE_MAP_H
#define SHINGLE_MAP_H

#include "base/device.h"
#include "reads/around.h"
#include "reads/readcache.h"

/* Called when a placed write has completed or failed.  Context: map lock, interrupts included. */
typedef void (*shingle_landed_fn)(struct shingle_device *d, struct shingle_write *w, bool failed);

int shingle_place(struct shingle_device *d, u64 lblk, u32 n, struct shingle_write *w,
		  struct bio *bio);
void shingle_write_done(struct shingle_device *d, struct shingle_write *w, blk_status_t status,
			shingle_landed_fn landed);

/* Is @r a result of shingle_place() that no retry can change, so that the bio fails? */
static inline bool shingle_is_final(int r)
{
	return r == -EIO || r == -EROFS || r == SHINGLE_FULL;
}

/**
 * struct shingle_kept - places of which the caches of io/reads.c have the content; map_lock
 * @cache: the read cache
 * @around: the regions of look-ahead-behind
 */
struct shingle_kept {
	struct shingle_readcache cache;
	struct shingle_around around;
};

/*
 * The content of these places is new: no cache has it.  Call it before the map refers to them, for
 * at most SHINGLE_WALK places.  Context: map lock.
 */
static inline void shingle_forget_kept(struct shingle_device *d, u64 pblk, u32 n)
{
	lockdep_assert_held(&d->map_lock);
	if (likely(!d->kept))
		return;
	WARN_ON_ONCE(shingle_readcache_forget(&d->kept->cache, pblk, n) < n);
	shingle_around_forget(&d->kept->around, pblk, n);
}

static inline void shingle_remap(const struct shingle_device *d, struct bio *bio, u64 pblk)
{
	bio_set_dev(bio, d->disks.dev[shingle_pblk_dev(pblk)]->bdev);
	bio->bi_iter.bi_sector = shingle_pblk_block(pblk) << SHINGLE_SECTORS_SHIFT;
}

#endif /* SHINGLE_MAP_H */
