// SPDX-License-Identifier: GPL-2.0
/* The copy of a cleaning step: read blocks into memory, as many as it holds, and write them. */
#include <linux/sort.h>

#include "base/device.h"
#include "clean/clean.h"
#include "io/wcache.h"
#include "map/map.h"
#include "medium/medium.h"

/* Maximum of blocks of a step that one critical section looks up. */
#define SOURCE_BLOCKS	256U
/* Maximum of extents that one critical section looks up. */
#define EXTENTS		64U

/* ------------------------------------------------------------------------
 * Gathering the content of a stretch of a step into the copy buffer
 */

/**
 * struct stretch - blocks of a step that are in the copy buffer at one time
 * @from: first of them
 * @n: their number
 * @nr: number of extents, in shingle_device::cleaner.copy_extents
 * @cursor: as step_extent()
 * @rest: part of the last extent that did not fit into the copy buffer
 */
struct stretch {
	u32 from;
	u32 n;
	u32 nr;
	u64 cursor;
	struct shingle_extent rest;
};

/* Split the first @n blocks off @x. */
static struct shingle_extent take(struct shingle_extent *x, u32 n)
{
	struct shingle_extent part = *x;

	part.n = min(x->n, n);
	x->n -= part.n;
	x->dst += part.n;
	if (x->lblk != SHINGLE_NOWHERE)
		x->lblk += part.n;
	if (x->src != SHINGLE_NOWHERE)
		x->src += part.n;
	return part;
}

/* Go on to the next stretch.  Returns false if there is none. */
static bool next_stretch(struct shingle_device *d, const struct shingle_step *step,
			 struct stretch *s)
{
	struct shingle_cleaner *c = &d->cleaner;
	bool more = true;
	u32 i;

	s->from += s->n;
	s->n = 0;
	s->nr = 0;
	while (more && s->n < c->copy_blocks) {
		spin_lock_irq(&d->map_lock);
		for (i = 0; i < EXTENTS && s->n < c->copy_blocks; i++) {
			more = s->rest.n ||
			       shingle_step_extent(d->engine, step, &s->cursor, &s->rest);
			if (!more || !s->rest.n)
				break;
			c->copy_extents[s->nr] = take(&s->rest, c->copy_blocks - s->n);
			s->n += c->copy_extents[s->nr++].n;
		}
		spin_unlock_irq(&d->map_lock);
	}
	return s->n;
}

/* The logical block that is block @i of the stretch. */
static u64 lblk_of(const struct shingle_device *d, u32 i)
{
	const struct shingle_extent *x = d->cleaner.copy_extents;

	for (; i >= x->n; x++)
		i -= x->n;
	return x->lblk == SHINGLE_NOWHERE ? SHINGLE_NOWHERE : x->lblk + i;
}

/* The copy reads or writes: count the seek, if the engine has a read side. */
static void count_seek(struct shingle_device *d, enum shingle_seek_class class, u64 pblk, u32 n)
{
	if (!d->kept)
		return;
	spin_lock_irq(&d->map_lock);
	shingle_seeks_direct(&d->engine->reads->seeks, class, pblk, n);
	spin_unlock_irq(&d->map_lock);
}

static void gather_read(struct shingle_device *d, struct shingle_batch *b, u64 pblk, u32 n,
			void *buf)
{
	count_seek(d, SHINGLE_SEEK_CLEAN_READ, pblk, n);
	shingle_batch_io(d, b, REQ_OP_READ, shingle_pblk_dev(pblk), shingle_pblk_block(pblk), n,
			 buf);
}

static int by_place(const void *a, const void *b)
{
	const struct shingle_run *x = a, *y = b;

	return x->pblk < y->pblk ? -1 : x->pblk > y->pblk;
}

/* The runs of a scattered step: its extents, adjacent ones merged. */
static u32 extent_runs(struct shingle_device *d, const struct stretch *s)
{
	struct shingle_run *r = NULL;
	u32 at = s->from, i;

	for (i = 0; i < s->nr; i++) {
		const struct shingle_extent *x = &d->cleaner.copy_extents[i];

		if (r && r->kind == SHINGLE_RUN_MAPPED && r->pblk + r->n == x->src) {
			r->n += x->n;
		} else {
			r = r ? r + 1 : d->cleaner.copy_runs;
			r->lblk = at;
			r->pblk = x->src;
			r->n = x->n;
			r->kind = x->src == SHINGLE_NOWHERE ? SHINGLE_RUN_ZERO : SHINGLE_RUN_MAPPED;
		}
		at += x->n;
	}
	return r - d->cleaner.copy_runs + 1;
}

/*
 * The runs of the stretch that do not come from the step's base.  Collected in parts: the map may
 * change between two parts as it may between two copies.
 */
static u32 source_runs(struct shingle_device *d, const struct shingle_step *step,
		       const struct stretch *s, u32 *covered)
{
	struct shingle_step part = *step;
	u32 at = s->from, end = s->from + s->n, nr = 0;

	while (at < end) {
		part.n = min(at + SOURCE_BLOCKS, end);
		spin_lock_irq(&d->map_lock);
		while (at < part.n) {
			struct shingle_run *r = &d->cleaner.copy_runs[nr];

			if (!d->ops->clean.step_source(d->engine, &part, at, r) ||
			    r->lblk >= part.n)
				break;
			r->n = min_t(u32, r->n, part.n - r->lblk);
			at = r->lblk + r->n;
			*covered += r->n;
			nr++;
		}
		spin_unlock_irq(&d->map_lock);
		at = part.n;
	}
	return nr;
}

static u32 collect_runs(struct shingle_device *d, const struct shingle_step *step,
			const struct stretch *s, u32 *covered)
{
	u32 nr;

	*covered = step->scattered ? s->n : 0;
	nr = step->scattered ? extent_runs(d, s) : source_runs(d, step, s, covered);
	sort(d->cleaner.copy_runs, nr, sizeof(*d->cleaner.copy_runs), by_place, NULL);
	return nr;
}

static bool has_base(const struct shingle_step *step)
{
	return !step->scattered && step->base != SHINGLE_NOWHERE;
}

static u64 source_of(const struct shingle_device *d, const struct shingle_step *step, u32 nr,
		     u32 block)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		const struct shingle_run *r = &d->cleaner.copy_runs[i];

		if (block - r->lblk < r->n)
			return r->kind == SHINGLE_RUN_MAPPED ? r->pblk + block - r->lblk :
							       SHINGLE_NOWHERE;
	}
	return has_base(step) ? step->base + block : SHINGLE_NOWHERE;
}

/*
 * Block @lblk cannot be read at @pblk, with error @err: can the step go on without it?  Nothing is
 * lost if the host has written the block since that copy was made, or if this step writes a
 * gathered version of it.  Otherwise the block is lost if the medium reports so, and that is
 * recorded.  Any other error proves no loss: the block may be readable later.
 */
static int note_unread(struct shingle_device *d, const struct shingle_step *step, u64 lblk,
		       u64 pblk, int err)
{
	struct shingle_run now;
	bool needed;

	spin_lock_irq(&d->map_lock);
	d->stats.n.read_errors++;
	d->ops->map.resolve(d->engine, lblk, 1, &now);
	needed = now.kind == SHINGLE_RUN_MAPPED && now.pblk == pblk &&
		 !(step->gathered && shingle_wcache_is_frozen(d, lblk));
	/* The step holds the page that locates the block, so this cannot happen. */
	if (WARN_ON_ONCE(now.kind == SHINGLE_RUN_ABSENT))
		err = -EIO;
	else if (!needed || (err == -ENODATA && !step->optional &&
			     shingle_bad_add(&d->cleaner.step_bad, lblk)))
		err = 0;
	spin_unlock_irq(&d->map_lock);
	if (err)
		DMERR_LIMIT("%s: cleaning cannot read block %llu, for error %d",
			    dm_table_device_name(d->ti->table), lblk, err);
	return err;
}

/*
 * A read has failed: find out which blocks are lost.  They are moved and marked as bad; the host
 * cannot read them until it writes them.
 */
static int gather_singly(struct shingle_device *d, const struct shingle_step *step,
			 const struct stretch *s, u32 nr)
{
	int err;
	u32 i;

	for (i = 0; i < s->n; i++) {
		u8 *buf = d->cleaner.copy_buf + (size_t)i * SHINGLE_BLOCK_SIZE;
		u64 pblk = source_of(d, step, nr, s->from + i), lblk = lblk_of(d, i);

		if (pblk == SHINGLE_NOWHERE) {
			memset(buf, 0, SHINGLE_BLOCK_SIZE);
			continue;
		}
		err = shingle_rw(d, REQ_OP_READ, shingle_pblk_dev(pblk), shingle_pblk_block(pblk),
				 1, buf);
		if (!err)
			continue;
		if (lblk != SHINGLE_NOWHERE)
			err = note_unread(d, step, lblk, pblk, err);
		if (err)
			return err;
		memset(buf, 0, SHINGLE_BLOCK_SIZE);
	}
	return 0;
}

/* Number of blocks of the stretch to read at the base; @covered blocks come from elsewhere. */
static u32 base_blocks(const struct shingle_step *step, const struct stretch *s, u32 covered)
{
	if (!has_base(step))
		return 0;
	if (step->read_blocks)
		return clamp(step->read_blocks, s->from, s->from + s->n) - s->from;
	return covered < s->n ? s->n : 0;
}

/* @fresh: result, the number of blocks that come from the write cache and are not moved. */
static int gather(struct shingle_device *d, const struct shingle_step *step,
		  const struct stretch *s, u32 *fresh)
{
	struct shingle_batch b;
	u32 covered, nr = collect_runs(d, step, s, &covered), i;
	u32 blocks = base_blocks(step, s, covered);
	int err;

	shingle_batch_init(&b);
	if (covered < s->n && !has_base(step))
		memset(d->cleaner.copy_buf, 0, (size_t)s->n * SHINGLE_BLOCK_SIZE);
	if (blocks) {
		/* One long read; newer blocks are copied over it afterwards. */
		gather_read(d, &b, step->base + s->from, blocks, d->cleaner.copy_buf);
		shingle_batch_wait(&b);
		/* An error does not matter if the base is read only for emulation. */
		if (covered == s->n)
			b.failed = false;
	}
	for (i = 0; i < nr && !b.failed; i++) {
		const struct shingle_run *r = &d->cleaner.copy_runs[i];
		u8 *buf = d->cleaner.copy_buf + (r->lblk - s->from) * SHINGLE_BLOCK_SIZE;

		if (r->kind != SHINGLE_RUN_MAPPED) {
			memset(buf, 0, (size_t)r->n * SHINGLE_BLOCK_SIZE);
			continue;
		}
		gather_read(d, &b, r->pblk, r->n, buf);
		blocks += r->n;
	}
	shingle_batch_wait(&b);

	spin_lock_irq(&d->map_lock);
	d->stats.n.clean_read_blocks += blocks;
	spin_unlock_irq(&d->map_lock);
	err = b.failed ? gather_singly(d, step, s, nr) : 0;
	*fresh = 0;
	if (!err && step->gathered)
		*fresh = shingle_wcache_overlay(d, step->lblk + s->from, s->n, d->cleaner.copy_buf);
	return err;
}

/* ------------------------------------------------------------------------
 * Rule R0, and the writes
 */

/* Rule R0 for steps: neither the destination nor the window after it is in use. */
static bool extent_allowed(struct shingle_device *d, const struct shingle_step *step,
			   const struct shingle_extent *x)
{
	/* A step that writes only gathered blocks overwrites their older versions. */
	return (step->gathered == SHINGLE_GATHERED_ONLY ||
		!shingle_in_use(&d->layout, d->engine, x->dst, x->n)) &&
	       !shingle_would_destroy(&d->layout, d->engine, x->dst, x->n);
}

/**
 * shingle_step_allowed() - does a step preserve all blocks in use?
 * @d: the device
 * @step: the step
 *
 * Context: cleaner.
 * Return: false if it would destroy one.
 */
bool shingle_step_allowed(struct shingle_device *d, const struct shingle_step *step)
{
	struct shingle_extent x = { .dst = 0 };
	bool ok = true, more = true;
	u64 cursor = 0, end = 0;
	/* On an interlaced medium each extent is compared with all others. */
	u32 most = d->layout.interlaced ? 1 : EXTENTS, i;

	/* An unsafe mode, with all content in memory. */
	if (step->whole_in_memory)
		return true;
	while (ok && more) {
		spin_lock_irq(&d->map_lock);
		for (i = 0; i < most && ok; i++) {
			more = shingle_step_extent(d->engine, step, &cursor, &x);
			if (!more || !x.n)
				break;
			/* Otherwise the head would destroy what the step has written itself. */
			ok = x.dst >= end && extent_allowed(d, step, &x) &&
			     !shingle_step_would_destroy(&d->layout, d->engine, step, &x);
			end = x.dst + x.n;
		}
		if (!ok)
			d->stats.n.r0_violations++;
		spin_unlock_irq(&d->map_lock);
	}
	if (!ok)
		DMERR("%s: cleaning refused: it would destroy data in use at block %llu",
		      dm_table_device_name(d->ti->table), shingle_pblk_block(x.dst));
	return ok;
}

static void hold_readers(struct shingle_device *d, const struct shingle_step *step)
{
	spin_lock_irq(&d->map_lock);
	d->cleaner.hold_pblk = step->dst;
	d->cleaner.hold_n = step->n;
	spin_unlock_irq(&d->map_lock);
	shingle_wait_for_readers(d);
}

/* Write copied blocks; @fresh of them have been counted by the write cache already. */
static int clean_write(struct shingle_device *d, u64 dst, u32 n, void *buf, u32 fresh)
{
	int err = shingle_rw(d, REQ_OP_WRITE, shingle_pblk_dev(dst), shingle_pblk_block(dst), n,
			     buf);

	spin_lock_irq(&d->map_lock);
	d->losses.dirty[shingle_pblk_dev(dst)] = true;
	shingle_forget_kept(d, dst, n);
	d->stats.n.clean_write_blocks += n - fresh;
	spin_unlock_irq(&d->map_lock);
	return err;
}

/*
 * A write of the step has failed.  Write each of its blocks alone, in the same order, to find the
 * ones at fault.  Returns 0 if all could be written this time.
 */
static int put_singly(struct shingle_device *d, u64 dst, u32 n, u8 *buf)
{
	struct shingle_unwritten *bad = &d->cleaner.unwritten;
	u32 i, done = 0;

	*bad = (struct shingle_unwritten){ .pblk = dst, .n = n };
	for (i = 0; i < n && bad->nr < SHINGLE_UNWRITTEN; i++) {
		if (READ_ONCE(d->phase.stopping) || READ_ONCE(d->phase.resetting))
			break;
		if (shingle_rw(d, REQ_OP_WRITE, shingle_pblk_dev(dst), shingle_pblk_block(dst) + i,
			       1, buf + (size_t)i * SHINGLE_BLOCK_SIZE))
			bad->block[bad->nr++] = dst + i;
		else
			done++;
	}
	if (done == n) {
		bad->n = 0;
		return 0;
	}
	bad->proven = done && bad->nr;
	return -EIO;
}

/* Write a stretch; adjacent destinations are merged into one write.  @fresh: as gather(). */
static int put(struct shingle_device *d, const struct shingle_step *step, const struct stretch *s,
	       u32 fresh)
{
	enum shingle_seek_class class = step->optional ? SHINGLE_SEEK_REWRITE :
							 SHINGLE_SEEK_CLEAN_WRITE;
	const struct shingle_extent *x = d->cleaner.copy_extents, *end = x + s->nr;
	u8 *buf = d->cleaner.copy_buf;
	u64 dst;
	u32 n;
	int err = 0;

	while (!err && x < end) {
		dst = x->dst;
		for (n = 0; x < end && x->dst == dst + n; x++)
			n += x->n;
		count_seek(d, class, dst, n);
		err = clean_write(d, dst, n, buf, fresh);
		if (err)
			err = put_singly(d, dst, n, buf);
		buf += (size_t)n * SHINGLE_BLOCK_SIZE;
		/* Only steps with one destination have fresh blocks. */
		fresh = 0;
	}
	return err;
}

/* Write only the blocks of a step that are in the epoch. */
static int copy_frozen(struct shingle_device *d, const struct shingle_step *step)
{
	struct shingle_cleaner *c = &d->cleaner;
	u64 at = step->lblk, end = at + step->n;
	u32 n, got;
	int err;

	for (; at < end; at += n) {
		if (READ_ONCE(d->phase.stopping) || READ_ONCE(d->phase.resetting))
			return -EINTR;
		for (n = 0; n < c->copy_blocks; n += got) {
			u64 from = at + n;

			got = shingle_wcache_frozen(d, &from, end, c->copy_blocks - n,
						    c->copy_buf + (size_t)n * SHINGLE_BLOCK_SIZE);
			if (!got || (n && from != at + n))
				break;
			if (!n)
				at = from;
		}
		if (!n)
			break;
		err = clean_write(d, step->dst + (at - step->lblk), n, c->copy_buf, n);
		if (err) {
			c->unwritten = (struct shingle_unwritten){
				.pblk = step->dst + (at - step->lblk), .n = n,
			};
			return err;
		}
	}
	return 0;
}

/**
 * shingle_copy_step() - copy the blocks that a step moves
 * @d: the device
 * @step: the step
 * @unread: result, the step failed because a block could not be read, and nothing is lost
 *
 * If a destination cannot be written, shingle_cleaner::unwritten names it.
 *
 * Context: cleaner, may sleep.
 * Return: 0 or -errno, -EINTR if the step was interrupted.
 */
int shingle_copy_step(struct shingle_device *d, const struct shingle_step *step, bool *unread)
{
	struct stretch s = { .n = 0 };
	u32 fresh;
	int err;

	d->cleaner.unwritten.n = 0;
	if (step->whole_in_memory && step->n > d->cleaner.copy_blocks)
		return -EINVAL;
	if (WARN_ON_ONCE(step->scattered && (step->whole_in_memory || step->gathered)))
		return -EINVAL;
	if (step->gathered == SHINGLE_GATHERED_ONLY)
		return copy_frozen(d, step);
	while (next_stretch(d, step, &s)) {
		if (READ_ONCE(d->phase.stopping) || READ_ONCE(d->phase.resetting))
			return -EINTR;
		err = gather(d, step, &s, &fresh);
		*unread = err;
		if (err)
			return err;
		if (step->whole_in_memory)
			hold_readers(d, step);
		err = put(d, step, &s, fresh);
		if (err)
			return err;
	}
	return 0;
}
