/* SPDX-License-Identifier: GPL-2.0 */
/* The front: host bios and the write cache. */
#ifndef SHINGLE_FRONT_H
#define SHINGLE_FRONT_H

#include "base/device.h"
#include "io/wcache.h"
#include "map/map.h"

/* bio.c */
void shingle_finish(struct shingle_device *d, struct bio *bio);
void shingle_put_piece(struct shingle_device *d, struct bio *parent);
void shingle_end_part(struct shingle_device *d, struct bio *bio);
void shingle_end_write(struct shingle_device *d, struct bio *bio);
int shingle_prepare_read(struct shingle_device *d, struct shingle_io *io, u64 lblk, u32 *n,
			 u64 *pblk, struct shingle_hits *hits);
int shingle_steer_gathered(struct shingle_device *d, u64 lblk, u32 n, struct shingle_write *w,
			   struct bio *bio);

/* waiting.c */
void shingle_io_init(struct shingle_device *d);

/**
 * shingle_steer() - shingle_place(), for a host's write
 * @d: the device
 * @lblk: first block
 * @n: how many
 * @w: result
 * @bio: what will be submitted
 *
 * Context: map lock.  Returns as shingle_place().
 */
static inline int shingle_steer(struct shingle_device *d, u64 lblk, u32 n,
				struct shingle_write *w, struct bio *bio)
{
	/* Nothing was gathered: all of it is the engine's to place. */
	if (!d->gathers || RB_EMPTY_ROOT(&d->wcache.tree))
		return shingle_place(d, lblk, n, w, bio);
	return shingle_steer_gathered(d, lblk, n, w, bio);
}

/*
 * The engine is about to be asked for @who, who waits already: the one that has done so
 * longest keeps the pages that he has looked at in vain.  Context: map lock.
 */
static inline void ask_for(struct shingle_device *d, const void *who)
{
	if (d->engine->pages && (!d->pager.oldest || d->pager.oldest == who)) {
		d->pager.oldest = who;
		shingle_pages_begin(d->engine, SHINGLE_ASKER_FRONT);
	}
}

/* It was, in the same critical section; @absent: a page is to come. */
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

static inline void end_zeroes(struct bio *bio)
{
	zero_fill_bio(bio);
	bio_endio(bio);
}

/* What cleaning could not read was lost on the medium: the host is told so. */
static inline void end_unreadable(struct bio *bio)
{
	bio->bi_status = BLK_STS_MEDIUM;
	bio_endio(bio);
}

/* What prepare_read() has found needs no lock any more. */
static inline void follow_map(struct shingle_device *d, struct bio *bio, struct shingle_io *io,
			      int r, u32 n, u64 pblk)
{
	if (r == DM_MAPIO_REMAPPED || r == DM_MAPIO_SUBMITTED)
		this_cpu_add(d->cpu->host_read_blocks, n);
	if (r == DM_MAPIO_REMAPPED)
		shingle_remap(d, bio, pblk);
	io->iter = bio->bi_iter;
}

/* Is a write, of an engine that does not gather, acknowledged by the write cache? */
static inline bool buffers(const struct shingle_device *d, const struct shingle_io *io)
{
	return !io->fua && READ_ONCE(d->wcache.on);
}

#endif /* SHINGLE_FRONT_H */
