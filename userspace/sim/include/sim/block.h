/* SPDX-License-Identifier: GPL-2.0 */
/* Bios, their pools, and block devices. */
#ifndef SIM_BLOCK_H
#define SIM_BLOCK_H

#include "lock.h"

typedef u64 sector_t;
typedef u32 blk_opf_t;
typedef u8 blk_status_t;
typedef unsigned int blk_mode_t;

#define SECTOR_SHIFT		9
#define SECTOR_SIZE		512
#define BIO_MAX_VECS		256U
#define BIO_MAX_SECTORS		(UINT_MAX >> SECTOR_SHIFT)
#define BIO_POOL_SIZE		2
#define BLK_OPEN_READ		1U
#define BLK_OPEN_WRITE		2U

enum req_op {
	REQ_OP_READ = 0,
	REQ_OP_WRITE = 1,
	REQ_OP_FLUSH = 2,
	REQ_OP_DISCARD = 3,
	REQ_OP_SECURE_ERASE = 5,
	REQ_OP_WRITE_ZEROES = 9,
};

#define REQ_OP_MASK		0xffU
#define REQ_SYNC		(1U << 11)
#define REQ_META		(1U << 12)
#define REQ_FUA			(1U << 17)
#define REQ_PREFLUSH		(1U << 18)
#define REQ_POLLED		(1U << 22)

enum {
	BLK_STS_OK = 0,
	BLK_STS_NOTSUPP = 1,
	BLK_STS_TIMEOUT = 2,
	BLK_STS_NOSPC = 3,
	BLK_STS_TRANSPORT = 4,
	BLK_STS_TARGET = 5,
	BLK_STS_MEDIUM = 7,
	BLK_STS_PROTECTION = 8,
	BLK_STS_RESOURCE = 9,
	BLK_STS_IOERR = 10,
	BLK_STS_AGAIN = 12,
	BLK_STS_OFFLINE = 17,
};

int blk_status_to_errno(blk_status_t status);
blk_status_t errno_to_blk_status(int err);

enum rw_hint {
	WRITE_LIFE_NOT_SET = 0,
	WRITE_LIFE_NONE,
	WRITE_LIFE_SHORT,
	WRITE_LIFE_MEDIUM,
	WRITE_LIFE_LONG,
	WRITE_LIFE_EXTREME,
};

/* ------------------------------------------------------------------------
 * Devices
 */

#define BLK_FEAT_POLL		1U
#define BLK_FEAT_ROTATIONAL	2U
#define BLK_FLAG_MISALIGNED	1U

struct queue_limits {
	u32 features;
	u32 flags;
	u32 logical_block_size;
	u32 physical_block_size;
	u32 io_min;
	u32 io_opt;
	u32 chunk_sectors;
	u32 max_sectors;
	u32 max_hw_sectors;
	u32 discard_granularity;
	u32 discard_alignment;
	u32 max_hw_discard_sectors;
	u32 max_write_zeroes_sectors;
	u32 alignment_offset;
};

struct bio;
struct block_device;

struct gendisk {
	u64 diskseq;
	int major;
	int first_minor;
};

/**
 * struct block_device - a disk of the simulator, or a mapped device
 * @bd_disk: its disk
 * @name: its path in table lines
 * @sectors: its size
 * @read_only: writes to it are refused
 * @limits: its limits
 * @submit: takes a bio
 * @owner: argument of @submit
 */
struct block_device {
	struct gendisk *bd_disk;
	const char *name;
	u64 sectors;
	bool read_only;
	struct queue_limits limits;
	void (*submit)(void *owner, struct bio *bio);
	void *owner;
	struct gendisk disk;
};

static inline bool bdev_read_only(const struct block_device *bdev)
{
	return bdev->read_only;
}

static inline sector_t bdev_nr_sectors(const struct block_device *bdev)
{
	return bdev->sectors;
}

static inline u64 bdev_nr_bytes(const struct block_device *bdev)
{
	return bdev->sectors << SECTOR_SHIFT;
}

static inline u32 bdev_logical_block_size(const struct block_device *bdev)
{
	return bdev->limits.logical_block_size;
}

static inline int bdev_alignment_offset(const struct block_device *bdev)
{
	return 0;
}

#define get_start_sect(bdev)	((void)(bdev), (sector_t)0)

/* ------------------------------------------------------------------------
 * Bios
 */

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

struct bvec_iter {
	sector_t bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
};

typedef void bio_end_io_t(struct bio *bio);

struct bio_set;

/* See the kernel's; @remaining: ends still to come, as its __bi_remaining. */
struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	blk_opf_t bi_opf;
	u8 bi_write_hint;
	blk_status_t bi_status;
	struct bvec_iter bi_iter;
	bio_end_io_t *bi_end_io;
	void *bi_private;
	unsigned short bi_vcnt;
	unsigned short bi_max_vecs;
	u32 remaining;
	struct bio_vec *bi_io_vec;
	struct bio_set *bi_pool;
	struct bio_vec bi_inline_vecs[];
};

/**
 * struct bio_set - a pool of bios
 * @front_pad: bytes in front of each
 * @reserve: bios that can always be had
 * @used: those in use
 * @wait: threads that wait for one
 */
struct bio_set {
	unsigned int front_pad;
	unsigned int reserve;
	unsigned int used;
	wait_queue_head_t wait;
};

#define BIOSET_NEED_BVECS	1
int bioset_init(struct bio_set *bs, unsigned int reserve, unsigned int front_pad, int flags);
void bioset_exit(struct bio_set *bs);

struct bio *bio_alloc_bioset(struct block_device *bdev, unsigned short vecs, blk_opf_t opf,
			     gfp_t gfp, struct bio_set *bs);
struct bio *bio_alloc(struct block_device *bdev, unsigned short vecs, blk_opf_t opf, gfp_t gfp);
struct bio *bio_alloc_clone(struct block_device *bdev, struct bio *from, gfp_t gfp,
			    struct bio_set *bs);
void bio_init(struct bio *bio, struct block_device *bdev, struct bio_vec *table,
	      unsigned short max_vecs, blk_opf_t opf);
#define bio_uninit(bio)		((void)(bio))
void bio_put(struct bio *bio);
int bio_add_page(struct bio *bio, struct page *page, unsigned int len, unsigned int offset);
void __bio_add_page(struct bio *bio, struct page *page, unsigned int len, unsigned int offset);
void bio_advance_iter(const struct bio *bio, struct bvec_iter *iter, unsigned int bytes);
void bio_trim(struct bio *bio, sector_t offset, sector_t sectors);
void zero_fill_bio(struct bio *bio);
void bio_endio(struct bio *bio);
void submit_bio(struct bio *bio);
void submit_bio_noacct(struct bio *bio);
int submit_bio_wait(struct bio *bio);
int blkdev_issue_flush(struct block_device *bdev);

#define bio_op(bio)		((enum req_op)((bio)->bi_opf & REQ_OP_MASK))
#define bio_sectors(bio)	((bio)->bi_iter.bi_size >> SECTOR_SHIFT)
#define bio_set_dev(bio, bdev)	((void)((bio)->bi_bdev = (bdev)))
#define bio_clear_polled(bio)	((void)((bio)->bi_opf &= ~REQ_POLLED))
#define bio_inc_remaining(bio)	((void)(bio)->remaining++)
#define op_is_write(opf)	(!!((opf) & 1))

static inline bool bio_has_data(const struct bio *bio)
{
	return bio->bi_iter.bi_size && bio_op(bio) != REQ_OP_DISCARD &&
	       bio_op(bio) != REQ_OP_WRITE_ZEROES;
}

static inline void bio_advance(struct bio *bio, unsigned int bytes)
{
	bio_advance_iter(bio, &bio->bi_iter, bytes);
}

static inline void bio_io_error(struct bio *bio)
{
	bio->bi_status = BLK_STS_IOERR;
	bio_endio(bio);
}

static inline struct bio_vec bio_iter_iovec(const struct bio *bio, struct bvec_iter iter)
{
	struct bio_vec bv = bio->bi_io_vec[iter.bi_idx];

	bv.bv_offset += iter.bi_bvec_done;
	bv.bv_len = min(bv.bv_len - iter.bi_bvec_done, iter.bi_size);
	return bv;
}

#define __bio_for_each_segment(bv, bio, iter, start)				\
	for (iter = (start); iter.bi_size &&					\
	     ((bv = bio_iter_iovec(bio, iter)), true);				\
	     bio_advance_iter(bio, &iter, bv.bv_len))
#define bio_for_each_segment(bv, bio, iter) \
	__bio_for_each_segment(bv, bio, iter, (bio)->bi_iter)

static inline void memzero_bvec(struct bio_vec *bv)
{
	memset((char *)page_address(bv->bv_page) + bv->bv_offset, 0, bv->bv_len);
}

struct bio_list {
	struct bio *head;
	struct bio *tail;
};

#define BIO_EMPTY_LIST		{ NULL, NULL }

static inline void bio_list_init(struct bio_list *l)
{
	l->head = l->tail = NULL;
}

static inline bool bio_list_empty(const struct bio_list *l)
{
	return !l->head;
}

static inline struct bio *bio_list_peek(const struct bio_list *l)
{
	return l->head;
}

static inline void bio_list_add(struct bio_list *l, struct bio *bio)
{
	bio->bi_next = NULL;
	if (l->tail)
		l->tail->bi_next = bio;
	else
		l->head = bio;
	l->tail = bio;
}

static inline void bio_list_merge(struct bio_list *l, struct bio_list *more)
{
	if (!more->head)
		return;
	if (l->tail)
		l->tail->bi_next = more->head;
	else
		l->head = more->head;
	l->tail = more->tail;
}

static inline void bio_list_merge_head(struct bio_list *l, struct bio_list *more)
{
	struct bio_list all = *more;

	bio_list_merge(&all, l);
	*l = all;
}

static inline struct bio *bio_list_pop(struct bio_list *l)
{
	struct bio *bio = l->head;

	if (bio) {
		l->head = bio->bi_next;
		if (!l->head)
			l->tail = NULL;
		bio->bi_next = NULL;
	}
	return bio;
}

#endif /* SIM_BLOCK_H */
