/* SPDX-License-Identifier: GPL-2.0 */
/* Interface of core/io: host bios and the write cache. */
#ifndef SHINGLE_IO_H
#define SHINGLE_IO_H

#include "base/device.h"
#include "io/wcache.h"
#include "map/map.h"

/* bio.c */
int shingle_map(struct dm_target *ti, struct bio *bio);
int shingle_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error);
void shingle_finish(struct shingle_device *d, struct bio *bio);
void shingle_put_piece(struct shingle_device *d, struct bio *parent);
void shingle_end_part(struct shingle_device *d, struct bio *bio);
void shingle_end_write(struct shingle_device *d, struct bio *bio);
int shingle_look_up(struct shingle_device *d, const struct shingle_io *io, u64 lblk, u32 *n,
		    struct shingle_run *run, struct shingle_hits *hits);
int shingle_prepare_read(struct shingle_device *d, struct shingle_io *io, u64 lblk, u32 *n,
			 u64 *pblk, struct shingle_hits *hits);
int shingle_route_gathered(struct shingle_device *d, u64 lblk, u32 n, struct shingle_write *w,
			   struct bio *bio);

/* waiting.c */
void shingle_io_init(struct shingle_device *d);

/**
 * shingle_route() - shingle_place() for a host's write
 * @d: the device
 * @lblk: first block
 * @n: number of blocks
 * @w: result
 * @bio: the bio that will be submitted
 *
 * Context: map lock.
 * Return: as shingle_place().
 */
static inline int shingle_route(struct shingle_device *d, u64 lblk, u32 n,
				struct shingle_write *w, struct bio *bio)
{
	/* No blocks are gathered: the engine places all of them. */
	if (!d->gathers || RB_EMPTY_ROOT(&d->wcache.tree))
		return shingle_place(d, lblk, n, w, bio);
	return shingle_route_gathered(d, lblk, n, w, bio);
}

/*
 * Call it before an engine operation on behalf of @who, a waiting bio or the write cache.  The
 * first of them that lacked a page keeps the pages that its calls look at until one of its calls
 * has all pages, so that it makes progress.  Context: map lock.
 */
static inline void ask_for(struct shingle_device *d, const void *who)
{
	if (d->engine->pages && (!d->pager.oldest || d->pager.oldest == who)) {
		d->pager.oldest = who;
		shingle_pages_begin(d->engine, SHINGLE_CLIENT_IO);
	}
}

/*
 * Call it after that operation, in the same critical section.  @absent: the operation lacked a
 * page, and will be called again.
 */
static inline void asked_for(struct shingle_device *d, const void *who, bool absent)
{
	if (!d->engine->pages || d->pager.oldest != who)
		return;
	if (!absent)
		d->pager.oldest = NULL;
	shingle_pages_end(d->engine, absent);
}

static inline u64 bio_lblk(const struct shingle_device *d, const struct bio *bio)
{
	return dm_target_offset(d->ti, bio->bi_iter.bi_sector) >> SHINGLE_SECTORS_SHIFT;
}

static inline u32 bio_blocks(const struct bio *bio)
{
	return bio_sectors(bio) >> SHINGLE_SECTORS_SHIFT;
}

/* A part of a host bio has failed: the bio ends with its first error.  Context: any. */
static inline void shingle_part_failed(struct bio *bio, blk_status_t status)
{
	cmpxchg(&shingle_bio_io(bio)->status, BLK_STS_OK, status);
}

static inline void end_zeroes(struct bio *bio)
{
	zero_fill_bio(bio);
	bio_endio(bio);
}

/* The block is in the list of unreadable blocks (badlist.h): report a medium error. */
static inline void end_unreadable(struct bio *bio)
{
	bio->bi_status = BLK_STS_MEDIUM;
	bio_endio(bio);
}

/* The part of the work after shingle_prepare_read() that needs no lock. */
static inline void follow_map(struct shingle_device *d, struct bio *bio, struct shingle_io *io,
			      int r, u32 n, u64 pblk)
{
	if (r == DM_MAPIO_REMAPPED || r == DM_MAPIO_SUBMITTED)
		this_cpu_add(d->cpu->host_read_blocks, n);
	if (r == DM_MAPIO_REMAPPED)
		shingle_remap(d, bio, pblk);
	io->iter = bio->bi_iter;
}

/* Does the write cache acknowledge a write?  For engines that do not gather. */
static inline bool buffers(const struct shingle_device *d, const struct shingle_io *io)
{
	return !io->fua && READ_ONCE(d->wcache.on);
}

#endif /* SHINGLE_IO_H */
