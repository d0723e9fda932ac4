/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One name for each kernel interface that changed between 6.1 and today. core/base/compat-probe.sh
 * finds out which form the kernel tree has.
 */
#ifndef SHINGLE_COMPAT_H
#define SHINGLE_COMPAT_H

#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/dm-io.h>
#include <linux/fcntl.h>
#include <linux/hrtimer.h>
#include <linux/ioprio.h>

/**
 * shingle_hrtimer_setup() - hrtimer_setup() as 6.13 and later have it
 * @timer: the timer
 * @function: its callback
 * @clock: clock id
 * @mode: timer mode
 *
 * Context: any.
 */
static inline void shingle_hrtimer_setup(struct hrtimer *timer,
					 enum hrtimer_restart (*function)(struct hrtimer *),
					 clockid_t clock, enum hrtimer_mode mode)
{
#ifdef SHINGLE_HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, function, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#endif
}

/**
 * shingle_table_writable() - was a table loaded for reading and writing?
 * @t: the table
 *
 * Context: any.
 * Return: false if it was loaded read-only (``dmsetup create -r``).
 */
static inline bool shingle_table_writable(struct dm_table *t)
{
#ifdef SHINGLE_HAVE_BLK_MODE_T
	return !!(dm_table_get_mode(t) & BLK_OPEN_WRITE);
#else
	return !!(dm_table_get_mode(t) & FMODE_WRITE);
#endif
}

/**
 * shingle_dm_io() - dm_io() without an I/O priority
 * @req: see dm_io()
 * @nr: number of regions
 * @where: the regions
 * @error_bits: see dm_io(), NULL for asynchronous requests
 *
 * Context: may sleep if @req has no notify function.
 * Return: as dm_io().
 */
static inline int shingle_dm_io(struct dm_io_request *req, unsigned int nr,
				struct dm_io_region *where, unsigned long *error_bits)
{
#if defined(SHINGLE_HAVE_DM_IO_UNSUP)
	return dm_io(req, nr, where, error_bits, NULL, IOPRIO_DEFAULT);
#elif defined(SHINGLE_HAVE_DM_IO_IOPRIO)
	return dm_io(req, nr, where, error_bits, IOPRIO_DEFAULT);
#else
	return dm_io(req, nr, where, error_bits);
#endif
}

/*
 * SHINGLE_DM_IO_NOTIFY() - head of a dm_io() notify function
 * @name: name of the function
 * @error: name of its parameter with the bits of regions that failed
 * @context: name of its parameter with the context
 */
#ifdef SHINGLE_HAVE_DM_IO_UNSUP
#define SHINGLE_DM_IO_NOTIFY(name, error, context) \
	static void name(unsigned long error, unsigned long unsupported, void *context)
#else
#define SHINGLE_DM_IO_NOTIFY(name, error, context) \
	static void name(unsigned long error, void *context)
#endif

/**
 * SHINGLE_HAS_WRITE_HINTS - do bios have lifetime hints?
 */
#ifdef SHINGLE_HAVE_BIO_WRITE_HINT
#define SHINGLE_HAS_WRITE_HINTS	true
#else
#define SHINGLE_HAS_WRITE_HINTS	false
#endif

/**
 * shingle_bio_write_hint() - lifetime hint of a bio
 * @bio: a write
 *
 * Context: any.
 * Return: RWH_WRITE_LIFE_...; RWH_WRITE_LIFE_NOT_SET on kernels without hints in bios (5.18 to
 * 6.8).
 */
static inline u32 shingle_bio_write_hint(const struct bio *bio)
{
#ifdef SHINGLE_HAVE_BIO_WRITE_HINT
	return bio->bi_write_hint;
#else
	return RWH_WRITE_LIFE_NOT_SET;
#endif
}

/**
 * shingle_aligned() - do blocks of a size begin where those of a device do?
 * @bdev: the device, or a partition
 * @block: bytes of a block, a power of two
 *
 * Context: any.
 * Return: false if each block lies in two physical blocks of @bdev.
 */
static inline bool shingle_aligned(struct block_device *bdev, unsigned int block)
{
	/* -1 if the block layer calls @bdev itself misaligned */
	return !(bdev_alignment_offset(bdev) & (block - 1));
}

/**
 * shingle_limit_blocks() - present a device with a given size of blocks
 * @limits: limits of the queue, as the devices below have left them
 * @block: bytes of a block, logical and physical, a power of two
 * @aligned: shingle_aligned() returned true for all devices below
 *
 * Keeps an optimal size, chunk size or discard alignment of the devices below if it is a multiple
 * of @block, and clears it otherwise.  With other values the block layer would report the device as
 * misaligned: USB bridges report 0xffff sectors as the optimal size, stripes may have any number of
 * sectors, and two devices below may have different physical blocks.
 *
 * Context: io_hints.
 */
static inline void shingle_limit_blocks(struct queue_limits *limits, unsigned int block,
					bool aligned)
{
	limits->logical_block_size = block;
	limits->physical_block_size = block;
	limits->io_min = block;
	if (limits->io_opt % block)
		limits->io_opt = 0;
	if (limits->chunk_sectors % (block >> SECTOR_SHIFT))
		limits->chunk_sectors = 0;
	if (limits->discard_alignment % block)
		limits->discard_alignment = 0;
	limits->alignment_offset = 0;
#ifdef SHINGLE_HAVE_FLAG_MISALIGNED
	limits->flags &= ~BLK_FLAG_MISALIGNED;
	if (!aligned)
		limits->flags |= BLK_FLAG_MISALIGNED;
#else
	limits->misaligned = !aligned;
#endif
}

/**
 * shingle_limit_discards() - set the limits of a discard
 * @limits: limits of the queue
 * @sectors: maximum, in sectors of 512 bytes
 * @granularity: unit of discards in bytes; must be a power of two, since the block layer masks
 *	bits to find the multiples at which it splits discards
 *
 * Context: io_hints.
 */
static inline void shingle_limit_discards(struct queue_limits *limits, unsigned int sectors,
					  unsigned int granularity)
{
	limits->discard_granularity = granularity;
	limits->discard_alignment = 0;
	limits->max_hw_discard_sectors = sectors;
#ifndef SHINGLE_HAVE_MAX_HW_DISCARD_LIMIT_ONLY
	limits->max_discard_sectors = sectors;
#endif
}

/**
 * shingle_limit_write_zeroes() - set the limit of a write of zeroes
 * @limits: limits of the queue
 * @sectors: maximum, in sectors of 512 bytes
 *
 * The device does not promise that a write of zeroes unmaps blocks, even if the devices below do.
 * A kernel with a separate limit for that (max_hw_wzeroes_unmap_sectors) accepts only 0 or the
 * limit of all writes of zeroes.
 *
 * Context: io_hints.
 */
static inline void shingle_limit_write_zeroes(struct queue_limits *limits, unsigned int sectors)
{
	limits->max_write_zeroes_sectors = sectors;
#ifdef SHINGLE_HAVE_MAX_HW_WZEROES_UNMAP
	limits->max_hw_wzeroes_unmap_sectors = 0;
#endif
}

/**
 * shingle_limit_disk() - set the properties of a device as a disk
 * @limits: limits of the queue
 * @rotational: whether it rotates, whatever the devices below are
 *
 * A target never supports polling: its requests wait for cleaning or for the head, are split, and
 * are submitted by other threads, so the host would poll a queue that does not have them.  Kernels
 * before 6.11 have neither property in the limits; there shingle_set_disk_limits() sets them.
 *
 * Context: io_hints.
 */
static inline void shingle_limit_disk(struct queue_limits *limits, bool rotational)
{
#ifdef SHINGLE_HAVE_FEAT_ROTATIONAL
	limits->features &= ~(BLK_FEAT_POLL | BLK_FEAT_ROTATIONAL);
	if (rotational)
		limits->features |= BLK_FEAT_ROTATIONAL;
#endif
}

/**
 * shingle_set_disk_limits() - set the same properties on kernels before 6.11
 * @ti: the target
 * @rotational: whether it rotates
 *
 * These kernels combine the properties of the devices below whenever a table is bound, and do not
 * ask the target.  A target that does not rotate can override them only if it is the whole table.
 *
 * Context: resume.
 */
static inline void shingle_set_disk_limits(struct dm_target *ti, bool rotational)
{
#ifndef SHINGLE_HAVE_FEAT_ROTATIONAL
	struct request_queue *q = dm_disk(dm_table_get_md(ti->table))->queue;

	blk_queue_flag_clear(QUEUE_FLAG_POLL, q);
	if (rotational)
		blk_queue_flag_clear(QUEUE_FLAG_NONROT, q);
	else if (ti->len == dm_table_get_size(ti->table))
		blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
#endif
}

#endif /* SHINGLE_COMPAT_H */
