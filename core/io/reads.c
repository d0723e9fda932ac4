// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of blocks that lie in fragments.
 *
 * A read that one run covers is remapped in .map like any other.  A worker of its own handles the
 * others, so that they never wait behind writes.  It looks up all runs of such a read before it
 * reads the first one, because the remedies for its seeks concern fragmented reads only
 * (reads/remedies.h; Hajkazemi et al. 2018).  Each fragment is then taken from the first of these
 * that has it:
 *
 *   the write cache
 *   the read cache                 filled by fragments of earlier reads (Algorithm 3)
 *   a region of look-ahead-behind  read together with another fragment (Algorithm 2)
 *   the medium
 *
 * The caches are keyed by place.  A place that was written is forgotten before the map refers to
 * it, so an entry that can be found is current.  They are volatile, and a failure of theirs costs
 * nothing but a read of the bare fragment.
 *
 * The read as a whole is counted among the readers (rule R2) from its first look-up to its end.
 */
#include <linux/llist.h>

#include "base/wake.h"
#include "io/io.h"
#include "io/reads.h"
#include "medium/medium.h"

/* Most runs that one critical section looks up. */
#define PLAN_RUNS	64U
#define FRAG_POOL_SIZE	64

/**
 * struct planned - a run of a read
 * @r: result of shingle_look_up()
 * @n: its length
 * @pblk: its place
 * @zero: it was never written: fill with zeroes after reading
 */
struct planned {
	int r;
	u32 n;
	u64 pblk;
	bool zero;
};

/**
 * struct shingle_frag - a fragment that is being read from the medium
 * @d: the device
 * @parent: the read
 * @iter: its part of @parent
 * @zero: as struct planned
 * @fill: the slots of the read cache that it will fill; none if @fill.n is 0
 * @ended: in shingle_reads::ended
 * @bio: its bio; last member, as bio_set requires
 */
struct shingle_frag {
	struct shingle_device *d;
	struct bio *parent;
	struct bvec_iter iter;
	bool zero;
	struct shingle_readcache_fill fill;
	struct llist_node ended;
	struct bio bio;
};

/**
 * struct shingle_reads - the reads that need several fragments
 * @d: the device
 * @todo: them, in the order in which they came; map_lock
 * @wq: runs @work
 * @work: handles @todo
 * @end_wq: runs @end_work; separate, since @work may wait for the memory of fragments
 * @end_work: copies fragments that have been read into the cache
 * @ended: fragments for @end_work
 * @frags: their bios
 * @plan: the runs that are being read; @work only
 * @hits: blocks of one of them in the write cache; @work only
 * @slots: blocks of one of them in the read cache; @work only
 * @kept: what the read cache and the regions of look-ahead-behind have; map_lock
 * @data: the blocks of the read cache; a reader or a fill holds the slot that it copies
 * @region: the buffers of the regions, of REGION_BLOCKS each; @work only
 */
struct shingle_reads {
	struct shingle_device *d;
	struct bio_list todo;
	struct workqueue_struct *wq;
	struct work_struct work;
	struct workqueue_struct *end_wq;
	struct work_struct end_work;
	struct llist_head ended;
	struct bio_set frags;
	struct planned plan[PLAN_RUNS];
	struct shingle_hits hits;
	u32 slots[SHINGLE_KEPT_BLOCKS];
	struct shingle_kept kept;
	u8 *data;
	u8 *region;
};

static struct shingle_reads *reads_of(const struct shingle_device *d)
{
	return container_of(d->kept, struct shingle_reads, kept);
}

#define REGION_BLOCKS	(2 * SHINGLE_AROUND_BLOCKS + SHINGLE_KEPT_BLOCKS)

static u8 *block_of(const struct shingle_reads *rd, u32 slot)
{
	return rd->data + (size_t)slot * SHINGLE_BLOCK_SIZE;
}

/* ------------------------------------------------------------------------
 * Copies between a read and the caches
 */

static struct bvec_iter part_of(struct bio *bio, u32 offset, u32 n)
{
	struct bvec_iter iter = bio->bi_iter;

	bio_advance_iter(bio, &iter, offset << SHINGLE_BLOCK_SHIFT);
	iter.bi_size = n << SHINGLE_BLOCK_SHIFT;
	return iter;
}

static void zero_part(struct bio *bio, struct bvec_iter iter)
{
	struct bvec_iter at;
	struct bio_vec bv;

	__bio_for_each_segment(bv, bio, at, iter)
		memzero_bvec(&bv);
}

/* Copy the content of a fill from the read into its slots. */
static void copy_fill(struct shingle_reads *rd, struct bio *parent, struct bvec_iter iter,
		      const struct shingle_readcache_fill *fill)
{
	u32 skip = (iter.bi_size >> SHINGLE_BLOCK_SHIFT) - fill->n, i, slot = fill->slot;

	bio_advance_iter(parent, &iter, skip << SHINGLE_BLOCK_SHIFT);
	for (i = 0; i < fill->n; i++) {
		shingle_copy_block(parent, &iter, block_of(rd, slot), false);
		slot = shingle_readcache_next(&rd->kept.cache, slot);
	}
}

static void end_fill(struct shingle_device *d, struct shingle_readcache_fill *fill, bool ok)
{
	spin_lock_irq(&d->map_lock);
	if (ok)
		shingle_readcache_filled(&d->kept->cache, fill);
	else
		shingle_readcache_cancel(&d->kept->cache, fill);
	spin_unlock_irq(&d->map_lock);
}

/* ------------------------------------------------------------------------
 * Fragments from the medium
 */

static void frag_end_io(struct bio *bio)
{
	struct shingle_frag *f = container_of(bio, struct shingle_frag, bio);
	struct shingle_device *d = f->d;
	struct bio *parent = f->parent;

	/* An error of blocks that were never written does not matter. */
	if (f->zero) {
		zero_part(parent, f->iter);
		bio->bi_status = BLK_STS_OK;
	}
	if (bio->bi_status)
		shingle_part_failed(parent, bio->bi_status);
	if (f->fill.n) {
		if (llist_add(&f->ended, &reads_of(d)->ended))
			queue_work(reads_of(d)->end_wq, &reads_of(d)->end_work);
		return;
	}
	bio_put(bio);
	shingle_put_piece(d, parent);
}

static void end_work(struct work_struct *work)
{
	struct shingle_reads *rd = container_of(work, struct shingle_reads, end_work);
	struct shingle_frag *f, *next;

	llist_for_each_entry_safe(f, next, llist_del_all(&rd->ended), ended) {
		struct shingle_device *d = f->d;
		struct bio *parent = f->parent;
		bool ok = !f->bio.bi_status;

		if (ok)
			copy_fill(rd, parent, f->iter, &f->fill);
		end_fill(d, &f->fill, ok);
		bio_put(&f->bio);
		shingle_put_piece(d, parent);
	}
}

static struct shingle_frag *new_frag(struct shingle_device *d, struct bio *parent,
				     struct bvec_iter iter)
{
	struct bio *bio = bio_alloc_clone(d->disks.dev[SHINGLE_DEV_DATA]->bdev, parent, GFP_NOIO,
					  &reads_of(d)->frags);
	struct shingle_frag *f = container_of(bio, struct shingle_frag, bio);

	bio->bi_iter = iter;
	/* A polling host polls for @parent and would never find this bio. */
	bio->bi_opf &= ~REQ_POLLED;
	bio->bi_end_io = frag_end_io;
	f->d = d;
	f->parent = parent;
	f->iter = iter;
	f->zero = false;
	f->fill.n = 0;
	return f;
}

/* ------------------------------------------------------------------------
 * The fragments of one read
 */

/* Take a fragment from the read cache, if all of it is there. */
static bool from_cache(struct shingle_device *d, struct bio *bio, struct bvec_iter iter,
		       const struct planned *p)
{
	struct shingle_reads *rd = reads_of(d);
	struct shingle_readside *side;
	bool on, hit;
	u32 i;

	spin_lock_irq(&d->map_lock);
	side = d->engine->reads;
	on = shingle_remedies_keeps(&side->remedies);
	hit = on && shingle_readcache_hit(&rd->kept.cache, p->pblk, p->n, rd->slots);
	side->cache_hits += hit;
	side->cache_misses += on && !hit;
	spin_unlock_irq(&d->map_lock);
	if (!hit)
		return false;
	for (i = 0; i < p->n; i++)
		shingle_copy_block(bio, &iter, block_of(rd, rd->slots[i]), true);
	spin_lock_irq(&d->map_lock);
	shingle_readcache_put(&rd->kept.cache, rd->slots, p->n);
	spin_unlock_irq(&d->map_lock);
	return true;
}

static void copy_region(struct shingle_reads *rd, struct bio *bio, struct bvec_iter iter,
			u32 region, u64 offset, u32 n)
{
	u8 *from = rd->region + ((size_t)region * REGION_BLOCKS + offset) * SHINGLE_BLOCK_SIZE;
	u32 i;

	for (i = 0; i < n; i++)
		shingle_copy_block(bio, &iter, from + (size_t)i * SHINGLE_BLOCK_SIZE, true);
}

/* Take a fragment from a region that is kept. */
static bool from_region(struct shingle_device *d, struct bio *bio, struct bvec_iter iter,
			const struct planned *p)
{
	struct shingle_reads *rd = reads_of(d);
	u32 region = SHINGLE_NO_REGION;
	struct shingle_readside *side;
	u64 place = 0;

	spin_lock_irq(&d->map_lock);
	side = d->engine->reads;
	if (shingle_remedies_looks_around(&side->remedies)) {
		region = shingle_around_hit(&rd->kept.around, p->pblk, p->n);
		side->region_hits += region != SHINGLE_NO_REGION;
		side->region_misses += region == SHINGLE_NO_REGION;
	}
	if (region != SHINGLE_NO_REGION)
		place = rd->kept.around.region[region].place;
	spin_unlock_irq(&d->map_lock);
	if (region == SHINGLE_NO_REGION)
		return false;
	copy_region(rd, bio, iter, region, p->pblk - place, p->n);
	spin_lock_irq(&d->map_lock);
	shingle_around_put(&rd->kept.around, region);
	spin_unlock_irq(&d->map_lock);
	return true;
}

/* Read a fragment together with what lies around it, and wait for that. */
static bool read_around(struct shingle_device *d, struct bio *bio, struct bvec_iter iter,
			const struct planned *p)
{
	struct shingle_reads *rd = reads_of(d);
	struct shingle_readside *side;
	u32 region = SHINGLE_NO_REGION;
	struct shingle_span span;
	u64 lo, hi;
	bool ok;

	spin_lock_irq(&d->map_lock);
	side = d->engine->reads;
	if (shingle_remedies_looks_around(&side->remedies)) {
		d->ops->read.around(d->engine, p->pblk, &lo, &hi);
		span = shingle_remedies_around(&side->remedies,
					       (struct shingle_span){ p->pblk, p->n }, lo, hi,
					       side->seeks.medium.next);
		region = shingle_around_fill(&rd->kept.around, span.place, span.n);
	}
	if (region != SHINGLE_NO_REGION)
		shingle_seeks_medium(&side->seeks, SHINGLE_SEEK_READ, span.place, span.n);
	spin_unlock_irq(&d->map_lock);
	if (region == SHINGLE_NO_REGION)
		return false;
	ok = !shingle_rw(d, REQ_OP_READ, shingle_pblk_dev(span.place),
			 shingle_pblk_block(span.place), span.n,
			 rd->region + (size_t)region * REGION_BLOCKS * SHINGLE_BLOCK_SIZE);
	if (ok)
		copy_region(rd, bio, iter, region, p->pblk - span.place, p->n);
	spin_lock_irq(&d->map_lock);
	if (ok)
		shingle_around_filled(&rd->kept.around, region);
	else
		shingle_around_cancel(&rd->kept.around, region);
	spin_unlock_irq(&d->map_lock);
	return ok;
}

/* Begin to fill the read cache with a fragment that may be kept. */
static void begin_fill(struct shingle_device *d, const struct planned *p,
		       struct shingle_readcache_fill *fill)
{
	lockdep_assert_held(&d->map_lock);
	fill->n = 0;
	if (shingle_remedies_keeps(&d->engine->reads->remedies))
		shingle_readcache_fill(&d->kept->cache, fill, p->pblk, p->n);
}

/* A fragment has come from a region: it enters the read cache, too. */
static void keep(struct shingle_device *d, struct bio *bio, struct bvec_iter iter,
		 const struct planned *p)
{
	struct shingle_readcache_fill fill;

	spin_lock_irq(&d->map_lock);
	begin_fill(d, p, &fill);
	spin_unlock_irq(&d->map_lock);
	if (!fill.n)
		return;
	copy_fill(reads_of(d), bio, iter, &fill);
	end_fill(d, &fill, true);
}

static void read_medium(struct shingle_device *d, struct bio *bio, struct bvec_iter iter,
			const struct planned *p, bool kept)
{
	struct shingle_io *io = shingle_bio_io(bio);
	struct shingle_frag *f = new_frag(d, bio, iter);

	f->zero = p->zero;
	shingle_remap(d, &f->bio, p->pblk);
	spin_lock_irq(&d->map_lock);
	if (kept)
		begin_fill(d, p, &f->fill);
	shingle_seeks_medium(&d->engine->reads->seeks, SHINGLE_SEEK_READ, p->pblk, p->n);
	spin_unlock_irq(&d->map_lock);
	atomic_inc(&io->pieces);
	submit_bio_noacct(&f->bio);
}

static void read_fragment(struct shingle_device *d, struct bio *bio, struct bvec_iter iter,
			  const struct planned *p, bool fragmented)
{
	bool kept = fragmented && p->n <= SHINGLE_KEPT_BLOCKS;

	if (kept && from_cache(d, bio, iter, p))
		return;
	if (kept && (from_region(d, bio, iter, p) || read_around(d, bio, iter, p))) {
		if (p->zero)
			zero_part(bio, iter);
		keep(d, bio, iter, p);
		return;
	}
	read_medium(d, bio, iter, p, kept);
}

static void read_run(struct shingle_device *d, struct bio *bio, const struct planned *p,
		     bool fragmented)
{
	struct shingle_io *io = shingle_bio_io(bio);
	struct bvec_iter iter = part_of(bio, bio_blocks(bio) - io->n, p->n);
	struct shingle_frag *f;

	switch (p->r) {
	case DM_MAPIO_REMAPPED:
		read_fragment(d, bio, iter, p, fragmented);
		break;
	case DM_MAPIO_SUBMITTED:
		zero_part(bio, iter);
		break;
	case -EALREADY:
		f = new_frag(d, bio, iter);
		shingle_wcache_read(d, &f->bio, &reads_of(d)->hits);
		bio_put(&f->bio);
		break;
	case -ENODATA:
		shingle_part_failed(bio, BLK_STS_MEDIUM);
		break;
	default:
		shingle_part_failed(bio, BLK_STS_IOERR);
	}
	io->lblk += p->n;
	io->n -= p->n;
	/* shingle_wcache_find() has counted its blocks. */
	if (p->r == DM_MAPIO_REMAPPED || p->r == DM_MAPIO_SUBMITTED)
		this_cpu_add(d->cpu->host_read_blocks, p->n);
}

/*
 * Look up runs of the rest of a read.  A run in the write cache is the last one, because there is
 * room for the hits of one look-up.  *@next is the place behind the last extent of the read so far.
 * Returns the number of runs, 0 if the first must wait.
 */
static u32 make_plan(struct shingle_device *d, struct bio *bio, u64 *next)
{
	struct shingle_reads *rd = reads_of(d);
	struct shingle_io *io = shingle_bio_io(bio);
	u64 lblk = io->lblk, left = io->n;
	u32 nr = 0;

	spin_lock_irq(&d->map_lock);
	while (left && nr < PLAN_RUNS) {
		struct planned *p = &rd->plan[nr];
		struct shingle_run run;

		p->n = min_t(u64, left, U32_MAX);
		p->r = shingle_look_up(d, io, lblk, &p->n, &run, &rd->hits);
		if (p->r == -EBUSY)
			break;
		if (p->r == DM_MAPIO_REMAPPED) {
			p->pblk = run.pblk;
			p->zero = run.kind == SHINGLE_RUN_UNWRITTEN;
			shingle_join_readers(d, io);
			/* An extent where the one before it has ended continues its fragment. */
			io->seq += run.pblk != *next;
			*next = run.pblk + p->n;
			shingle_seeks_plain(&d->engine->reads->seeks, SHINGLE_SEEK_READ, run.pblk,
					    p->n);
		}
		nr++;
		lblk += p->n;
		left -= p->n;
		if (p->r == -EALREADY)
			break;
	}
	spin_unlock_irq(&d->map_lock);
	return nr;
}

/* All of a read has been begun: count its fragments, and have its data rewritten if they should. */
static void end_plan(struct shingle_device *d, struct bio *bio)
{
	struct shingle_io *io = shingle_bio_io(bio);
	u32 frags = min_t(u64, io->seq, U32_MAX);
	struct shingle_readside *side;
	bool rewrite = false;

	spin_lock_irq(&d->map_lock);
	side = d->engine->reads;
	if (frags)
		shingle_seeks_read(&side->seeks, frags);
	if (shingle_remedies_read(&side->remedies, bio_lblk(d, bio), bio_blocks(bio), frags))
		rewrite = d->ops->read.rewrite(d->engine, bio_lblk(d, bio), bio_blocks(bio));
	d->cleaner.rewrite |= rewrite;
	spin_unlock_irq(&d->map_lock);
	if (rewrite)
		shingle_wake_cleaner(d);
	shingle_end_part(d, bio);
}

/* Returns false if the rest of the read must wait. */
static bool read_all(struct shingle_device *d, struct bio *bio)
{
	struct shingle_io *io = shingle_bio_io(bio);
	u64 next = SHINGLE_NOWHERE;
	u32 nr, i;

	while (io->n) {
		bool fragmented;
		u64 planned = 0;

		nr = make_plan(d, bio, &next);
		if (!nr)
			return false;
		for (i = 0; i < nr; i++)
			planned += reads_of(d)->plan[i].n;
		/* A rest that has not been looked up is assumed to need another one. */
		fragmented = io->seq > 1 || planned < io->n;
		for (i = 0; i < nr; i++)
			read_run(d, bio, &reads_of(d)->plan[i], fragmented);
	}
	end_plan(d, bio);
	return true;
}

static void read_work(struct work_struct *work)
{
	struct shingle_reads *rd = container_of(work, struct shingle_reads, work);
	struct bio_list todo, again = BIO_EMPTY_LIST;
	struct shingle_device *d = rd->d;
	struct bio *bio;

	spin_lock_irq(&d->map_lock);
	todo = rd->todo;
	bio_list_init(&rd->todo);
	spin_unlock_irq(&d->map_lock);
	while ((bio = bio_list_pop(&todo))) {
		if (!read_all(d, bio))
			bio_list_add(&again, bio);
	}
	spin_lock_irq(&d->map_lock);
	bio_list_merge_head(&rd->todo, &again);
	spin_unlock_irq(&d->map_lock);
}

/* ------------------------------------------------------------------------
 * Interface
 */

/**
 * shingle_reads_add() - a read needs several runs
 * @d: the device, with a read side
 * @bio: the read
 *
 * Context: map lock.
 */
void shingle_reads_add(struct shingle_device *d, struct bio *bio)
{
	struct shingle_io *io = shingle_bio_io(bio);

	lockdep_assert_held(&d->map_lock);
	io->lblk = bio_lblk(d, bio);
	io->n = bio_blocks(bio);
	io->seq = 0;
	io->zero = false;
	/* One for the worker. */
	atomic_set(&io->pieces, 1);
	bio_list_add(&reads_of(d)->todo, bio);
	queue_work(reads_of(d)->wq, &reads_of(d)->work);
}

/**
 * shingle_reads_kick() - reads that wait may go on
 * @d: the device
 *
 * Context: process.
 */
void shingle_reads_kick(struct shingle_device *d)
{
	if (d->kept)
		queue_work(reads_of(d)->wq, &reads_of(d)->work);
}

/**
 * shingle_reads_stop() - end all work, when no host I/O is in flight
 * @d: the device
 *
 * Context: may sleep.
 */
void shingle_reads_stop(struct shingle_device *d)
{
	if (!d->kept)
		return;
	flush_work(&reads_of(d)->work);
	flush_work(&reads_of(d)->end_work);
}

/**
 * shingle_reads_init() - prepare the read side of a device
 * @d: the device; its engine has its options
 *
 * Context: constructor.
 * Return: 0 or -ENOMEM.
 */
int shingle_reads_init(struct shingle_device *d)
{
	const struct shingle_readside *side = d->engine->reads;
	struct shingle_reads *rd;
	u32 blocks;

	if (!side)
		return 0;
	rd = shingle_zalloc_array(1, sizeof(*rd));
	if (!rd)
		return -ENOMEM;
	d->kept = &rd->kept;
	rd->d = d;
	blocks = side->cache_kb / (SHINGLE_BLOCK_SIZE / 1024);
	bio_list_init(&rd->todo);
	init_llist_head(&rd->ended);
	INIT_WORK(&rd->work, read_work);
	INIT_WORK(&rd->end_work, end_work);
	shingle_around_init(&rd->kept.around, side->regions, REGION_BLOCKS);
	rd->wq = alloc_workqueue("shingle-read", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	rd->end_wq = alloc_workqueue("shingle-readend", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (blocks)
		rd->data = shingle_zalloc_array(blocks, SHINGLE_BLOCK_SIZE);
	if (side->regions)
		rd->region = shingle_zalloc_array((size_t)side->regions * REGION_BLOCKS,
						  SHINGLE_BLOCK_SIZE);
	if (!rd->wq || !rd->end_wq || (blocks && !rd->data) || (side->regions && !rd->region) ||
	    shingle_readcache_init(&rd->kept.cache, blocks, false))
		return -ENOMEM;
	return bioset_init(&rd->frags, FRAG_POOL_SIZE, offsetof(struct shingle_frag, bio),
			   BIOSET_NEED_BVECS);
}

/**
 * shingle_reads_exit() - undo shingle_reads_init()
 * @d: the device; shingle_reads_init() may have failed
 *
 * Context: may sleep.
 */
void shingle_reads_exit(struct shingle_device *d)
{
	struct shingle_reads *rd;

	if (!d->kept)
		return;
	rd = reads_of(d);
	if (rd->wq)
		destroy_workqueue(rd->wq);
	if (rd->end_wq)
		destroy_workqueue(rd->end_wq);
	bioset_exit(&rd->frags);
	shingle_readcache_exit(&rd->kept.cache);
	kvfree(rd->data);
	kvfree(rd->region);
	kvfree(rd);
	d->kept = NULL;
}
