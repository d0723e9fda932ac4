// SPDX-License-Identifier: GPL-2.0
/*
 * The medium: what is on it after a write, and what a read of it returns.
 *
 * The content of the blocks is on the backing device, if there is one; the damage map says which of
 * them a head has destroyed.  Nothing here waits for the model's time.
 */
#include <linux/blkdev.h>

#include "compat.h"
#include "events.h"
#include "platter.h"

static bool tracks_damage(struct platter *p)
{
	return p->opt.damage_mode != DAMAGE_NONE &&
	       (p->state.damage.damaged || platter_geo_window(&p->geo));
}

struct effect_ctx {
	struct platter *p;
	u64 blk;
	u32 n;
	bool final;
	u64 newly;
};

/*
 * Report only blocks under the head that were intact and that this write does not rewrite
 * later.
 */
static void trace_covered(struct effect_ctx *c, u64 blk, u32 n, u64 src_blk)
{
	struct platter_damage *damage = &c->p->state.damage;
	u64 end = blk + n, bad;

	if (blk >= src_blk)
		blk = max(blk, min(end, c->blk + c->n));
	while (blk < end) {
		bad = blk;
		if (!damage_next(damage, &bad, end))
			bad = end;
		if (bad > blk)
			trace_platter_destroy(c->p, c->blk, c->n, blk, bad - blk);
		for (blk = bad; blk < end && damage_count(damage, blk, 1); blk++)
			;
	}
}

static int apply_effect(void *context, enum platter_effect effect, u64 blk, u32 n,
			u64 src_blk)
{
	struct effect_ctx *c = context;

	if (effect == PLATTER_COVERED) {
		if (trace_platter_destroy_enabled() && !c->final)
			trace_covered(c, blk, n, src_blk);
		platter_mech_invalidate(&c->p->mech, blk, n);
		return damage_set(&c->p->state.damage, blk, n, &c->newly);
	}
	if (c->final)
		damage_clear(&c->p->state.damage, blk, n);
	return 0;
}

static int trim_effect(void *context, enum platter_effect effect, u64 blk, u32 n,
		       u64 src_blk)
{
	struct effect_ctx *c = context;

	if (effect == PLATTER_WRITTEN)
		damage_trim(&c->p->state.damage, blk, n);
	return 0;
}

/**
 * platter_media_before() - before the data of a write move
 * @p: the drive
 * @blk: first block
 * @n: number of blocks
 *
 * Marks all blocks that the head will pass over as destroyed, in memory and on the mirror.  If the
 * machine crashes in between, an intact block may be marked as destroyed, in a write that was not
 * acknowledged.  The opposite cannot happen, unless the mirror's device has a volatile cache and
 * loses it; then this guarantee holds only for data written before the last flush.
 *
 * Context: under p->lock; may sleep.
 * Return: 0 or -errno.
 */
int platter_media_before(struct platter *p, u64 blk, u32 n)
{
	struct effect_ctx c = { .p = p, .blk = blk, .n = n };
	int r;

	if (!tracks_damage(p))
		return 0;
	r = platter_geo_write(&p->geo, blk, n, apply_effect, &c);
	platter_count(p, PC_destroyed_blocks, c.newly);
	return r ? r : damage_sync(&p->state.damage);
}

/**
 * platter_media_after() - after the data of a write moved, before the acknowledgment
 * @p: the drive
 * @blk: first block
 * @n: number of blocks
 *
 * The same walk in the order of the head.  A later track's own data repair the blocks that an
 * earlier track destroyed.
 *
 * Context: under p->lock; may sleep.
 * Return: 0 or -errno.
 */
int platter_media_after(struct platter *p, u64 blk, u32 n)
{
	struct effect_ctx c = { .p = p, .blk = blk, .n = n, .final = true };
	int r;

	if (!tracks_damage(p))
		return 0;
	r = platter_geo_write(&p->geo, blk, n, apply_effect, &c);
	if (!r)
		r = damage_sync(&p->state.damage);
	platter_geo_write(&p->geo, blk, n, trim_effect, &c);
	return r;
}

/**
 * platter_media_read() - find out whether a read meets destroyed blocks, and count them
 * @p: the drive
 * @blk: first block
 * @n: number of blocks
 *
 * Context: under p->lock.
 * Return: the result of the read as far as damage is concerned.
 */
blk_status_t platter_media_read(struct platter *p, u64 blk, u32 n)
{
	u64 bad;

	if (p->opt.damage_mode == DAMAGE_NONE)
		return BLK_STS_OK;
	bad = damage_count(&p->state.damage, blk, n);
	if (!bad)
		return BLK_STS_OK;
	platter_count(p, PC_destroyed_reads, bad);
	platter_count(p, PC_destroyed_read_ios, 1);
	trace_platter_destroyed_read(p, blk, n, bad);
	DMDEBUG_LIMIT("read of %llu destroyed blocks in %llu+%u",
		      (unsigned long long)bad, (unsigned long long)blk, n);
	return p->opt.damage_mode == DAMAGE_POISON ? BLK_STS_MEDIUM : BLK_STS_OK;
}

static struct bio *make_clone(struct platter *p, struct bio *bio, u64 blk, u32 skip,
			      u32 n)
{
	struct bio *clone = bio_alloc_clone(p->disk.dev->bdev, bio, GFP_NOIO, &p->disk.bs);

	/* A polling submitter polls @bio; it would not reap the clone. */
	bio_clear_polled(clone);
	if (n)
		bio_trim(clone, skip * PLATTER_BLOCK_SECTORS, n * PLATTER_BLOCK_SECTORS);
	clone->bi_iter.bi_sector = p->disk.start + blk * PLATTER_BLOCK_SECTORS;
	return clone;
}

/**
 * platter_media_submit() - send a request to the backing device
 * @p: the drive, with a backing device
 * @bio: the request; a clone of it is sent
 * @blk: first block
 * @n: number of blocks, 0 for all of @bio
 * @end: called when the device is done, with the clone, which it puts
 * @private: bi_private of the clone
 *
 * Context: under p->lock; may sleep.
 */
void platter_media_submit(struct platter *p, struct bio *bio, u64 blk, u32 n, bio_end_io_t *end,
			  void *private)
{
	struct bio *clone = make_clone(p, bio, blk, 0, n);

	clone->bi_private = private;
	clone->bi_end_io = end;
	submit_bio_noacct(clone);
}

struct shadow_ctx {
	struct platter *p;
	struct bio *bio;
	u64 blk;
};

static int shadow_effect(void *context, enum platter_effect effect, u64 blk, u32 n,
			 u64 src_blk)
{
	struct shadow_ctx *c = context;
	struct bio *clone = make_clone(c->p, c->bio, blk, src_blk - c->blk, n);
	int r = submit_bio_wait(clone);

	bio_put(clone);
	return r;
}

/**
 * platter_media_write_shadow() - write what a wide head really leaves
 * @p: the drive, with a backing device
 * @bio: holds the data; is not submitted itself
 * @blk: first block
 * @n: number of blocks
 *
 * The head leaves its own pattern on every track that it covers.
 *
 * Context: under p->lock; sleeps.
 * Return: 0 or -errno.
 */
int platter_media_write_shadow(struct platter *p, struct bio *bio, u64 blk, u32 n)
{
	struct shadow_ctx c = { .p = p, .bio = bio, .blk = blk };

	return platter_geo_write(&p->geo, blk, n, shadow_effect, &c);
}

static int plain_write(struct platter *p, struct bio *bio, u64 blk, u32 n)
{
	struct bio *clone = make_clone(p, bio, blk, 0, n);
	int r = submit_bio_wait(clone);

	bio_put(clone);
	return r;
}

/**
 * platter_media_write_sync() - write to the medium at once, outside the model
 * @p: the drive
 * @bio: holds the data; is not submitted itself
 * @blk: first block
 * @n: number of blocks
 *
 * Context: under p->lock with nothing on the actuator; sleeps.
 * Return: 0 or -errno.
 */
int platter_media_write_sync(struct platter *p, struct bio *bio, u64 blk, u32 n)
{
	int r = platter_media_before(p, blk, n);

	if (r)
		return r;
	if (p->disk.dev)
		r = p->opt.damage_mode == DAMAGE_SHADOW ?
		    platter_media_write_shadow(p, bio, blk, n) : plain_write(p, bio, blk, n);
	if (r)
		return r;
	platter_count(p, PC_media_writes, 1);
	platter_count(p, PC_media_blocks_written, n);
	trace_platter_media(p, PLATTER_OP_DESTAGE, blk, n, 0, NULL);
	return platter_media_after(p, blk, n);
}
