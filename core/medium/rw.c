// SPDX-License-Identifier: GPL-2.0
/* Core's own reads and writes. */
#include "base/device.h"
#include "medium/medium.h"

/* Pages of one read: their array on the stack takes 1 KiB. */
#define READ_PAGES	64

/**
 * shingle_add_buffer() - add memory to a read, as much as fits
 * @bio: the read
 * @buf: vmalloc or kmalloc memory
 * @bytes: its size
 *
 * Context: any.
 * Return: the number of bytes added.
 */
unsigned int shingle_add_buffer(struct bio *bio, const void *buf, size_t bytes)
{
	unsigned int done = 0, part;

	for (; done < bytes; done += part) {
		const void *p = buf + done;
		struct page *page = is_vmalloc_addr(p) ? vmalloc_to_page(p) : virt_to_page(p);

		part = min_t(size_t, PAGE_SIZE - offset_in_page(p), bytes - done);
		if (bio_add_page(bio, page, part, offset_in_page(p)) != part)
			break;
	}
	return done;
}

/* Uses own bios, since dm_io() does not report which error occurred. */
static int read_blocks(struct block_device *bdev, blk_opf_t opf, sector_t sector, u32 n, void *buf)
{
	size_t bytes = (size_t)n << SHINGLE_BLOCK_SHIFT, at;
	struct bio_vec pages[READ_PAGES];
	unsigned int part;
	struct bio bio;
	int err = 0;

	if (is_vmalloc_addr(buf))
		flush_kernel_vmap_range(buf, bytes);
	for (at = 0; !err && at < bytes; at += part) {
		bio_init(&bio, bdev, pages, ARRAY_SIZE(pages), opf);
		bio.bi_iter.bi_sector = sector + (at >> SECTOR_SHIFT);
		part = shingle_add_buffer(&bio, buf + at, bytes - at);
		err = submit_bio_wait(&bio);
		bio_uninit(&bio);
	}
	if (is_vmalloc_addr(buf))
		invalidate_kernel_vmap_range(buf, bytes);
	return err;
}

/**
 * shingle_rw() - read or write blocks and wait
 * @d: the device
 * @opf: REQ_OP_READ or REQ_OP_WRITE with flags
 * @dev: one of its devices
 * @block: first block there
 * @n: number of blocks
 * @buf: vmalloc or kvmalloc memory
 *
 * Context: may sleep.
 * Return: 0; for a read, its error, -ENODATA if the medium has lost one of the blocks; for a write,
 * -EIO, or -EROFS if the table is read-only.
 */
int shingle_rw(struct shingle_device *d, blk_opf_t opf, enum shingle_dev dev, u64 block, u32 n,
	       void *buf)
{
	struct dm_io_region where = {
		.bdev = d->disks.dev[dev]->bdev,
		.sector = block << SHINGLE_SECTORS_SHIFT,
		.count = (sector_t)n << SHINGLE_SECTORS_SHIFT,
	};
	struct dm_io_request req = {
		.bi_opf = opf,
		.mem.type = is_vmalloc_addr(buf) ? DM_IO_VMA : DM_IO_KMEM,
		.mem.ptr.addr = buf,
		.client = d->disks.io,
	};
	unsigned long bits = 0;

	if ((opf & REQ_OP_MASK) == REQ_OP_READ)
		return read_blocks(where.bdev, opf, where.sector, n, buf);
	/* The block layer would let it pass.  The caller should have checked the mode. */
	if (WARN_ON_ONCE(d->disks.read_only && op_is_write(opf)))
		return -EROFS;
	return shingle_dm_io(&req, 1, &where, &bits) || bits ? -EIO : 0;
}

/**
 * shingle_reader_read() - struct shingle_reader's read
 * @ctx: the device
 * @dev: one of its devices
 * @block: first block there
 * @n: number of blocks
 * @buf: receives the blocks
 *
 * Context: may sleep.
 * Return: as shingle_rw().
 */
int shingle_reader_read(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf)
{
	return shingle_rw(ctx, REQ_OP_READ, dev, block, n, buf);
}

/* ------------------------------------------------------------------------
 * Batches
 */

/**
 * shingle_batch_init() - initialise an empty batch
 * @b: the batch
 *
 * Context: any.
 */
void shingle_batch_init(struct shingle_batch *b)
{
	atomic_set(&b->left, 1);
	b->failed = false;
	init_completion(&b->done);
}

static void batch_put(struct shingle_batch *b)
{
	if (atomic_dec_and_test(&b->left))
		complete(&b->done);
}

static void batch_failed(struct shingle_batch *b)
{
	WRITE_ONCE(b->failed, true);
	batch_put(b);
}

/* Reads and writes are always supported, so only errors matter. */
SHINGLE_DM_IO_NOTIFY(batch_io_done, error, context)
{
	if (error)
		batch_failed(context);
	else
		batch_put(context);
}

/**
 * shingle_batch_io() - read or write blocks as a part of a batch
 * @d: the device
 * @b: the batch, which records a failure
 * @opf: REQ_OP_READ or REQ_OP_WRITE, and flags
 * @dev: one of its devices
 * @block: first block there
 * @n: number of blocks
 * @buf: memory for them, valid until the batch was waited for
 *
 * Context: may sleep.
 */
void shingle_batch_io(struct shingle_device *d, struct shingle_batch *b, blk_opf_t opf,
		      enum shingle_dev dev, u64 block, u32 n, void *buf)
{
	struct dm_io_region where = {
		.bdev = d->disks.dev[dev]->bdev,
		.sector = block << SHINGLE_SECTORS_SHIFT,
		.count = (sector_t)n << SHINGLE_SECTORS_SHIFT,
	};
	struct dm_io_request req = {
		.bi_opf = opf,
		.mem.type = is_vmalloc_addr(buf) ? DM_IO_VMA : DM_IO_KMEM,
		.mem.ptr.addr = buf,
		.notify.fn = batch_io_done,
		.notify.context = b,
		.client = d->disks.io,
	};

	atomic_inc(&b->left);
	if (shingle_dm_io(&req, 1, &where, NULL))
		batch_failed(b);
}

/**
 * shingle_batch_wait() - wait for the end of all parts; then the batch can be used again
 * @b: the batch
 *
 * Context: may sleep.
 */
void shingle_batch_wait(struct shingle_batch *b)
{
	batch_put(b);
	wait_for_completion_io(&b->done);
	atomic_set(&b->left, 1);
	reinit_completion(&b->done);
}

/**
 * struct each_read - blocks that are read together, each with its own bio
 * @batch: the batch
 * @bio: bio of each block, NULL if there was no memory for it
 */
struct each_read {
	struct shingle_batch batch;
	struct bio *bio[];
};

static void each_endio(struct bio *bio)
{
	batch_put(bio->bi_private);
}

/**
 * shingle_reader_read_each() - struct shingle_reader's read_each
 * @ctx: the device
 * @dev: one of its devices
 * @block: first block there
 * @n: number of blocks
 * @buf: receives the blocks
 * @errs: error of each block
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_reader_read_each(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf,
			     int *errs)
{
	size_t bytes = (size_t)n << SHINGLE_BLOCK_SHIFT;
	struct shingle_device *d = ctx;
	struct each_read *r;
	u32 i;

	r = kvzalloc(struct_size(r, bio, n), GFP_KERNEL);
	if (!r)
		return -ENOMEM;
	shingle_batch_init(&r->batch);
	if (is_vmalloc_addr(buf))
		flush_kernel_vmap_range(buf, bytes);
	for (i = 0; i < n; i++) {
		/*
		 * A block may lie on two pages.  All bios are held at once, so that no allocation
		 * may wait for another.
		 */
		struct bio *bio = bio_alloc(d->disks.dev[dev]->bdev, 2, REQ_OP_READ,
					    GFP_NOWAIT | __GFP_NOWARN);

		r->bio[i] = bio;
		if (!bio)
			continue;
		bio->bi_iter.bi_sector = (block + i) << SHINGLE_SECTORS_SHIFT;
		bio->bi_private = &r->batch;
		bio->bi_end_io = each_endio;
		shingle_add_buffer(bio, buf + ((size_t)i << SHINGLE_BLOCK_SHIFT),
				   SHINGLE_BLOCK_SIZE);
		atomic_inc(&r->batch.left);
		submit_bio(bio);
	}
	shingle_batch_wait(&r->batch);
	if (is_vmalloc_addr(buf))
		invalidate_kernel_vmap_range(buf, bytes);
	for (i = 0; i < n; i++) {
		if (r->bio[i]) {
			errs[i] = blk_status_to_errno(r->bio[i]->bi_status);
			bio_put(r->bio[i]);
		} else {
			errs[i] = shingle_reader_read(ctx, dev, block + i, 1,
						      buf + ((size_t)i << SHINGLE_BLOCK_SHIFT));
		}
	}
	kvfree(r);
	return 0;
}
