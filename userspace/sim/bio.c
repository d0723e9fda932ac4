// SPDX-License-Identifier: GPL-2.0
/* Bios and their pools, see sim/block.h. */
#include "private.h"

/* The pool of bio_alloc(). */
static struct bio_set fs_bio_set = {
	.reserve = BIO_POOL_SIZE, .wait = { LIST_HEAD_INIT(fs_bio_set.wait.waiters) },
};

static const struct {
	blk_status_t status;
	int err;
} errors[] = {
	{ BLK_STS_OK, 0 }, { BLK_STS_NOTSUPP, -EOPNOTSUPP }, { BLK_STS_TIMEOUT, -ETIMEDOUT },
	{ BLK_STS_NOSPC, -ENOSPC }, { BLK_STS_TRANSPORT, -ENOLINK },
	{ BLK_STS_TARGET, -EREMOTEIO }, { BLK_STS_MEDIUM, -ENODATA },
	{ BLK_STS_PROTECTION, -EILSEQ }, { BLK_STS_RESOURCE, -ENOMEM },
	{ BLK_STS_AGAIN, -EAGAIN }, { BLK_STS_OFFLINE, -ENODEV }, { BLK_STS_IOERR, -EIO },
};

int blk_status_to_errno(blk_status_t status)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		if (errors[i].status == status)
			return errors[i].err;
	}
	return -EIO;
}

blk_status_t errno_to_blk_status(int err)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		if (errors[i].err == err)
			return errors[i].status;
	}
	return BLK_STS_IOERR;
}

/* ------------------------------------------------------------------------
 * Pools
 */

void sim_bios_reboot(void)
{
	fs_bio_set.used = 0;
	init_waitqueue_head(&fs_bio_set.wait);
}

int bioset_init(struct bio_set *bs, unsigned int reserve, unsigned int front_pad, int flags)
{
	bs->front_pad = front_pad;
	bs->reserve = reserve;
	bs->used = 0;
	init_waitqueue_head(&bs->wait);
	return 0;
}

/* Also for a pool that was never initialised. */
void bioset_exit(struct bio_set *bs)
{
	if (bs->used)
		sim_fail("a pool of bios is freed with %u of them in use", bs->used);
}

void bio_init(struct bio *bio, struct block_device *bdev, struct bio_vec *table,
	      unsigned short max_vecs, blk_opf_t opf)
{
	memset(bio, 0, sizeof(*bio));
	bio->bi_bdev = bdev;
	bio->bi_opf = opf;
	bio->bi_io_vec = table;
	bio->bi_max_vecs = max_vecs;
	bio->remaining = 1;
}

struct bio *bio_alloc_bioset(struct block_device *bdev, unsigned short vecs, blk_opf_t opf,
			     gfp_t gfp, struct bio_set *bs)
{
	bool waits = gfp & (GFP_KERNEL | GFP_NOIO);
	struct bio *bio;
	char *p;

	if (vecs > BIO_MAX_VECS)
		sim_fail("a bio with %u pages", vecs);
	if (waits)
		sim_may_sleep("bio_alloc_bioset");
	else if (sim_chance(sim_config.no_memory))
		return NULL;
	if (sim_config.poor && bs->used >= bs->reserve) {
		if (!waits)
			return NULL;
		wait_event(bs->wait, bs->used < bs->reserve);
	}
	bs->used++;
	p = sim_alloc(1, bs->front_pad + sizeof(*bio) + vecs * sizeof(struct bio_vec), GFP_NOIO);
	bio = (struct bio *)(p + bs->front_pad);
	bio_init(bio, bdev, bio->bi_inline_vecs, vecs, opf);
	bio->bi_pool = bs;
	return bio;
}

struct bio *bio_alloc(struct block_device *bdev, unsigned short vecs, blk_opf_t opf, gfp_t gfp)
{
	return bio_alloc_bioset(bdev, vecs, opf, gfp, &fs_bio_set);
}

struct bio *bio_alloc_clone(struct block_device *bdev, struct bio *from, gfp_t gfp,
			    struct bio_set *bs)
{
	struct bio *bio = bio_alloc_bioset(bdev, 0, from->bi_opf, gfp, bs);

	if (!bio)
		return NULL;
	bio->bi_io_vec = from->bi_io_vec;
	bio->bi_iter = from->bi_iter;
	bio->bi_write_hint = from->bi_write_hint;
	return bio;
}

void bio_put(struct bio *bio)
{
	struct bio_set *bs = bio->bi_pool;

	if (!bs)
		sim_fail("a bio that is not from a pool is freed");
	sim_free((char *)bio - bs->front_pad);
	bs->used--;
	wake_up_all(&bs->wait);
}

/* ------------------------------------------------------------------------
 * Pages
 */

void __bio_add_page(struct bio *bio, struct page *page, unsigned int len, unsigned int offset)
{
	if (bio->bi_vcnt >= bio->bi_max_vecs)
		sim_fail("a bio has no room for another page");
	bio->bi_io_vec[bio->bi_vcnt++] = (struct bio_vec){ page, len, offset };
	bio->bi_iter.bi_size += len;
}

int bio_add_page(struct bio *bio, struct page *page, unsigned int len, unsigned int offset)
{
	if (bio->bi_vcnt >= bio->bi_max_vecs)
		return 0;
	__bio_add_page(bio, page, len, offset);
	return len;
}

void bio_advance_iter(const struct bio *bio, struct bvec_iter *iter, unsigned int bytes)
{
	iter->bi_sector += bytes >> SECTOR_SHIFT;
	if (bytes > iter->bi_size)
		sim_fail("a bio is advanced beyond its end");
	if (!bio_has_data(bio)) {
		iter->bi_size -= bytes;
		return;
	}
	iter->bi_size -= bytes;
	iter->bi_bvec_done += bytes;
	while (iter->bi_bvec_done && iter->bi_bvec_done >= bio->bi_io_vec[iter->bi_idx].bv_len)
		iter->bi_bvec_done -= bio->bi_io_vec[iter->bi_idx++].bv_len;
}

void bio_trim(struct bio *bio, sector_t offset, sector_t sectors)
{
	bio_advance(bio, offset << SECTOR_SHIFT);
	bio->bi_iter.bi_size = sectors << SECTOR_SHIFT;
}

void zero_fill_bio(struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter)
		memzero_bvec(&bv);
}

/* ------------------------------------------------------------------------
 * Submission and end
 */

void bio_endio(struct bio *bio)
{
	sim_yield();
	/* A target may keep a bio that has ended, and end it once more. */
	if (bio->remaining > 1) {
		bio->remaining--;
		return;
	}
	if (bio->bi_end_io)
		bio->bi_end_io(bio);
}

/* As the block layer: what is submitted meanwhile comes later, that of lower devices first. */
static void submit_all(struct bio *bio)
{
	struct bio_list new[2] = { BIO_EMPTY_LIST, BIO_EMPTY_LIST };

	sim_now->bios = new;
	do {
		struct bio_list lower = BIO_EMPTY_LIST, same = BIO_EMPTY_LIST;
		struct block_device *bdev = bio->bi_bdev;

		new[1] = new[0];
		bio_list_init(&new[0]);
		bdev->submit(bdev->owner, bio);
		while ((bio = bio_list_pop(&new[0])))
			bio_list_add(bio->bi_bdev == bdev ? &same : &lower, bio);
		bio_list_merge(&new[0], &lower);
		bio_list_merge(&new[0], &same);
		bio_list_merge(&new[0], &new[1]);
	} while ((bio = bio_list_pop(&new[0])));
	sim_now->bios = NULL;
}

void submit_bio_noacct(struct bio *bio)
{
	const struct block_device *bdev = bio->bi_bdev;

	sim_yield();
	if (bio->bi_iter.bi_size % SECTOR_SIZE)
		sim_fail("a bio has %u bytes", bio->bi_iter.bi_size);
	if (bio_sectors(bio) && (bio->bi_iter.bi_sector > bdev->sectors ||
				 bio_sectors(bio) > bdev->sectors - bio->bi_iter.bi_sector)) {
		sim_log("warning", "block", "%s: access beyond end of device: %llu+%u of %llu",
			bdev->name, (unsigned long long)bio->bi_iter.bi_sector, bio_sectors(bio),
			(unsigned long long)bdev->sectors);
		bio_io_error(bio);
		return;
	}
	if (sim_now->bios)
		bio_list_add(sim_now->bios, bio);
	else
		submit_all(bio);
}

void submit_bio(struct bio *bio)
{
	submit_bio_noacct(bio);
}

static void wait_endio(struct bio *bio)
{
	complete(bio->bi_private);
}

int submit_bio_wait(struct bio *bio)
{
	struct completion done;

	might_sleep();
	init_completion(&done);
	bio->bi_private = &done;
	bio->bi_end_io = wait_endio;
	submit_bio(bio);
	if (sim_now->bios)
		sim_fail("%s waits for a bio while it submits another one", sim_now->name);
	wait_for_completion(&done);
	return blk_status_to_errno(bio->bi_status);
}

int blkdev_issue_flush(struct block_device *bdev)
{
	struct bio bio;

	bio_init(&bio, bdev, NULL, 0, REQ_OP_WRITE | REQ_PREFLUSH);
	return submit_bio_wait(&bio);
}
