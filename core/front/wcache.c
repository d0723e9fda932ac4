// SPDX-License-Identifier: GPL-2.0
/*
 * The volatile write cache.
 *
 * A write is copied and acknowledged; a worker writes it later, by the same way
 * that a host's write goes: placed by the engine, ordered, committed.  Until the
 * instant of the commit reads find the copy, from it on what the engine says.
 *
 * What FLUSH promises rests on the numbers that blocks get when they are
 * acknowledged: a flush has ended when nothing of its number or less is here.
 *
 * An index in order, not slotmap.c's hash: the elevator wants the next block,
 * a read the next border, a discard of any length whether it overlaps.
 */
#include <linux/highmem.h>

#include "device.h"
#include "trace.h"

/* Blocks of one destage: 1 MiB. */
#define RUN_BLOCKS	256U
/* Destages under way. */
#define DEPTH		8
/* Of so many runs one begins with the oldest block, wherever it is. */
#define BATCH		16
/* Attempts to write a block, each in a new place. */
#define MAX_TRIES	3
/* Rounds of attempts of which none succeeded: the device cannot be written. */
#define MAX_ROUNDS	10
#define RETRY_DELAY	msecs_to_jiffies(100)
#define SLOTS_PER_PAGE	(PAGE_SIZE / SHINGLE_BLOCK_SIZE)

/**
 * struct shingle_destage - a run on its way to the medium
 * @d: the device
 * @w: the placement
 * @slots: what is written, ascending
 * @bio: the write; last, dictated by the bio_set
 */
struct shingle_destage {
	struct shingle_device *d;
	struct shingle_write w;
	struct list_head slots;
	struct bio bio;
};

static struct page *page_of(const struct shingle_wcache *wc, const struct shingle_wslot *s)
{
	return wc->pages[(s - wc->slots) / SLOTS_PER_PAGE];
}

static u32 offset_of(const struct shingle_wcache *wc, const struct shingle_wslot *s)
{
	return (s - wc->slots) % SLOTS_PER_PAGE * SHINGLE_BLOCK_SIZE;
}

static void *memory_of(const struct shingle_wcache *wc, const struct shingle_wslot *s)
{
	return page_address(page_of(wc, s)) + offset_of(wc, s);
}

/* The first block at or after @lblk. */
static struct shingle_wslot *find_from(const struct shingle_wcache *wc, u64 lblk)
{
	struct rb_node *node = wc->tree.rb_node;
	struct shingle_wslot *found = NULL;

	while (node) {
		struct shingle_wslot *s = rb_entry(node, struct shingle_wslot, node);

		if (s->lblk < lblk) {
			node = node->rb_right;
		} else {
			found = s;
			node = node->rb_left;
		}
	}
	return found;
}

static struct shingle_wslot *next_of(struct shingle_wslot *s)
{
	return rb_entry_safe(rb_next(&s->node), struct shingle_wslot, node);
}

static void insert(struct shingle_wcache *wc, struct shingle_wslot *s)
{
	struct rb_node **p = &wc->tree.rb_node, *parent = NULL;

	while (*p) {
		parent = *p;
		p = s->lblk < rb_entry(parent, struct shingle_wslot, node)->lblk ?
			&parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&s->node, parent, p);
	rb_insert_color(&s->node, &wc->tree);
}

static void put_slot(struct shingle_wcache *wc, struct shingle_wslot *s)
{
	if (s->pins) {
		s->state = SHINGLE_WSLOT_GONE;
		return;
	}
	s->state = SHINGLE_WSLOT_FREE;
	list_add(&s->link, &wc->free);
	wc->nr_free++;
}

/* @s is not what its block holds any more, or is on the medium. */
static void forget(struct shingle_wcache *wc, struct shingle_wslot *s)
{
	list_del(&s->age);
	wc->nr--;
	put_slot(wc, s);
}

static struct shingle_wslot *oldest(struct shingle_wcache *wc)
{
	return list_first_entry_or_null(&wc->ages, struct shingle_wslot, age);
}

/* Is everything up to @seq on the medium, or never will be? */
static bool reached(struct shingle_wcache *wc, u64 seq)
{
	struct shingle_wslot *s = oldest(wc);

	return !s || s->seq > seq;
}

static void run_now(struct shingle_wcache *wc)
{
	mod_delayed_work(wc->wq, &wc->work, 0);
}

/* ------------------------------------------------------------------------
 * Host writes
 */

static void copy_block(struct bio *bio, struct bvec_iter *iter, u8 *mem, bool to_bio)
{
	u32 done, len;

	for (done = 0; done < SHINGLE_BLOCK_SIZE; done += len) {
		struct bio_vec bv = bio_iter_iovec(bio, *iter);

		len = min_t(u32, bv.bv_len, SHINGLE_BLOCK_SIZE - done);
		if (to_bio)
			memcpy_to_page(bv.bv_page, bv.bv_offset, mem + done, len);
		else
			memcpy_from_page(mem + done, bv.bv_page, bv.bv_offset, len);
		bio_advance_iter(bio, iter, len);
	}
}

/**
 * shingle_wcache_take() - get room for a prefix of a write
 * @d: the device
 * @lblk: first block
 * @n: how many
 * @slots: result, as many slots as there is room for
 *
 * A block that is here already needs no room but while it is copied.
 *
 * Context: map lock.  Returns the length of the prefix, 0 if there is no room;
 * the deferred bios are looked at when there may be some.
 */
u32 shingle_wcache_take(struct shingle_device *d, u64 lblk, u32 n, struct list_head *slots)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *here = find_from(wc, lblk), *s;
	u32 i;

	lockdep_assert_held(&d->map_lock);
	n = min(n, RUN_BLOCKS);
	for (i = 0; i < n; i++) {
		bool replaces = false;

		if (here && here->lblk == lblk + i) {
			replaces = here->state != SHINGLE_WSLOT_FLIGHT;
			here = next_of(here);
		}
		if (wc->nr_free <= (replaces ? 0 : wc->spare))
			break;
		s = list_first_entry(&wc->free, struct shingle_wslot, link);
		list_move_tail(&s->link, slots);
		wc->nr_free--;
		wc->filling++;
		s->state = SHINGLE_WSLOT_FILLING;
		s->lblk = lblk + i;
	}
	return i;
}

/* From here on @s is what its block holds. */
static void publish(struct shingle_device *d, struct shingle_wslot *s)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *old = find_from(wc, s->lblk);

	lockdep_assert_held(&d->map_lock);
	s->state = SHINGLE_WSLOT_DIRTY;
	s->tries = 0;
	s->twin = NULL;
	wc->dirty++;
	if (old && old->lblk != s->lblk)
		old = NULL;
	if (old)
		rb_replace_node(&old->node, &s->node, &wc->tree);
	else
		insert(wc, s);

	if (!old || old->state == SHINGLE_WSLOT_FLIGHT) {
		s->seq = ++wc->seq;
		s->since = jiffies;
		list_add_tail(&s->age, &wc->ages);
		wc->nr++;
		if (old) {
			s->twin = old;
			old->twin = s;
		}
		return;
	}
	s->seq = old->seq;
	s->since = old->since;
	list_add(&s->age, &old->age);
	wc->nr++;
	if (old->state == SHINGLE_WSLOT_LOST) {
		list_del(&old->link);
	} else {
		wc->dirty--;
		s->twin = old->twin;
		if (s->twin)
			s->twin->twin = s;
	}
	forget(wc, old);
	d->n.wcache_replaced_blocks++;
}

/* An engine that gathers is to see as much as there is room for. */
static bool is_full(const struct shingle_device *d)
{
	const struct shingle_wcache *wc = &d->wcache;

	return d->gathers ? wc->waiting : wc->dirty > wc->blocks / 2;
}

/* Destage now, or later if there is nothing else to hurry it. */
static void arm(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;

	if (is_full(d) || !wc->on)
		run_now(wc);
	else if (d->config.destage_ms)
		queue_delayed_work(wc->wq, &wc->work, msecs_to_jiffies(d->config.destage_ms));
}

/**
 * shingle_wcache_fill() - copy a prefix of a write into its slots
 * @d: the device
 * @bio: the write
 * @iter: where in it the prefix begins
 * @slots: what shingle_wcache_take() gave
 *
 * Context: process; no lock held.  Returns false if the device is not read-write
 * any more, and then nothing has changed.
 */
bool shingle_wcache_fill(struct shingle_device *d, struct bio *bio, struct bvec_iter iter,
			 struct list_head *slots)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s, *next;
	bool ok, kick;

	list_for_each_entry(s, slots, link) {
		if (bio_op(bio) == REQ_OP_WRITE)
			copy_block(bio, &iter, memory_of(wc, s), false);
		else
			memset(memory_of(wc, s), 0, SHINGLE_BLOCK_SIZE);
	}

	spin_lock_irq(&d->map_lock);
	ok = d->mode == SHINGLE_RW;
	list_for_each_entry_safe(s, next, slots, link) {
		list_del(&s->link);
		wc->filling--;
		if (ok) {
			publish(d, s);
			d->n.host_write_blocks++;
			d->n.wcache_write_blocks++;
		} else {
			put_slot(wc, s);
		}
	}
	if (ok)
		arm(d);
	kick = wc->waiting;
	/* Even if it is on: perhaps again, while somebody waits to switch it off. */
	if (!wc->filling && wq_has_sleeper(&d->wait))
		wake_up_all(&d->wait);
	spin_unlock_irq(&d->map_lock);
	if (kick)
		shingle_kick(d);
	return ok;
}

/* ------------------------------------------------------------------------
 * Host reads
 */

/**
 * shingle_wcache_find() - is a prefix of a read here?
 * @d: the device
 * @lblk: first block
 * @n: how many; shortened to the next border between here and not here
 * @hits: result, where they are, if they are; none if the first was lost
 *
 * Context: map lock.  Returns whether the prefix is here.
 */
bool shingle_wcache_find(struct shingle_device *d, u64 lblk, u32 *n, struct shingle_hits *hits)
{
	struct shingle_wslot *s = find_from(&d->wcache, lblk);

	lockdep_assert_held(&d->map_lock);
	hits->n = 0;
	if (!s || s->lblk - lblk >= *n)
		return false;
	if (s->lblk != lblk) {
		*n = s->lblk - lblk;
		return false;
	}
	if (s->state == SHINGLE_WSLOT_LOST) {
		*n = 1;
		return true;
	}
	*n = min_t(u32, *n, SHINGLE_WCACHE_HITS);
	do {
		s->pins++;
		hits->slot[hits->n++] = s;
		s = next_of(s);
	} while (hits->n < *n && s && s->lblk == lblk + hits->n &&
		 s->state != SHINGLE_WSLOT_LOST);
	*n = hits->n;
	d->n.host_read_blocks += hits->n;
	d->n.wcache_hits_blocks += hits->n;
	return true;
}

/**
 * shingle_wcache_read() - copy what was found into the read
 * @d: the device
 * @bio: the read, as long as @hits
 * @hits: what shingle_wcache_find() found
 *
 * Context: process; no lock held.
 */
void shingle_wcache_read(struct shingle_device *d, struct bio *bio, struct shingle_hits *hits)
{
	struct shingle_wcache *wc = &d->wcache;
	struct bvec_iter iter = bio->bi_iter;
	bool kick = false;
	u32 i;

	for (i = 0; i < hits->n; i++)
		copy_block(bio, &iter, memory_of(wc, hits->slot[i]), true);

	spin_lock_irq(&d->map_lock);
	for (i = 0; i < hits->n; i++) {
		struct shingle_wslot *s = hits->slot[i];

		if (!--s->pins && s->state == SHINGLE_WSLOT_GONE) {
			put_slot(wc, s);
			kick = wc->waiting;
		}
	}
	spin_unlock_irq(&d->map_lock);
	if (kick)
		shingle_kick(d);
}

/* ------------------------------------------------------------------------
 * What must not overtake
 */

/**
 * shingle_wcache_in_the_way() - must a request wait for blocks that are here?
 * @d: the device
 * @lblk: first block
 * @n: how many
 * @seq: shingle_wcache::seq when the request came: what was acknowledged later
 *	may come before it or after it
 *
 * A version that is under way is waited for in any case: it would land on top of
 * the request's, or below it and hide it until then.
 *
 * Context: map lock.  If true, it is being destaged, and the deferred bios are
 * looked at when it was.
 */
bool shingle_wcache_in_the_way(struct shingle_device *d, u64 lblk, u64 n, u64 seq)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s;

	lockdep_assert_held(&d->map_lock);
	/* Then it will fail, and there is nothing to wait for. */
	if (d->mode != SHINGLE_RW)
		return false;
	for (s = find_from(wc, lblk); s && s->lblk - lblk < n; s = next_of(s)) {
		if (s->seq > seq && !s->twin && s->state != SHINGLE_WSLOT_FLIGHT)
			continue;
		wc->drain = max(wc->drain, s->seq);
		run_now(wc);
		return true;
	}
	return false;
}

/**
 * shingle_wcache_flush() - a flush comes in
 * @d: the device
 * @bio: the flush
 *
 * Context: map lock.  Returns false if there is nothing that it must wait for;
 * else it will be handed to shingle_finish().
 */
bool shingle_wcache_flush(struct shingle_device *d, struct bio *bio)
{
	struct shingle_wcache *wc = &d->wcache;

	lockdep_assert_held(&d->map_lock);
	if (!wc->nr && !wc->error && bio_list_empty(&wc->flushes))
		return false;
	shingle_bio_io(bio)->seq = wc->seq;
	wc->drain = wc->seq;
	bio_list_add(&wc->flushes, bio);
	run_now(wc);
	return true;
}

/* Flushes that need not wait any more. */
static void release_flushes(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	struct bio_list ready = BIO_EMPTY_LIST;
	bool failed = false;
	struct bio *bio;

	spin_lock_irq(&d->map_lock);
	while ((bio = bio_list_peek(&wc->flushes))) {
		if (d->mode == SHINGLE_RW && !reached(wc, shingle_bio_io(bio)->seq))
			break;
		bio_list_add(&ready, bio_list_pop(&wc->flushes));
		failed = wc->error;
	}
	if (failed)
		wc->error = false;
	spin_unlock_irq(&d->map_lock);

	while ((bio = bio_list_pop(&ready))) {
		if (failed)
			shingle_bio_io(bio)->status = BLK_STS_IOERR;
		shingle_end_part(d, bio);
	}
}

/* ------------------------------------------------------------------------
 * Destaging
 */

/* May it set out now? */
static bool eligible(const struct shingle_wslot *s)
{
	return s->state == SHINGLE_WSLOT_DIRTY && !s->twin;
}

/* Where the next run begins: the elevator goes up and begins again below. */
static struct shingle_wslot *pick(struct shingle_wcache *wc)
{
	struct shingle_wslot *s;

	/*
	 * Somebody who writes just before it must not keep others from their flush.
	 * But what was refused comes first: the cursor is there.
	 */
	if (!wc->refused && wc->picks % BATCH == BATCH - 1) {
		list_for_each_entry(s, &wc->ages, age) {
			if (eligible(s))
				return s;
		}
		return NULL;
	}
	for (s = find_from(wc, wc->cursor); s; s = next_of(s)) {
		if (eligible(s))
			return s;
	}
	for (s = find_from(wc, 0); s && s->lblk < wc->cursor; s = next_of(s)) {
		if (eligible(s))
			return s;
	}
	return NULL;
}

static bool wanted(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;

	if (!wc->dirty || wc->flying >= (d->gathers ? 1 : DEPTH) || wc->blocked ||
	    d->mode != SHINGLE_RW || (wc->rounds && time_before(jiffies, wc->retry_at)))
		return false;
	return !wc->on || wc->refused || is_full(d) || !reached(wc, wc->drain);
}

/**
 * shingle_wcache_written() - a destage has ended
 * @d: the device
 * @slots: what it wrote
 * @failed: or did not
 *
 * Context: map lock, held since the engine committed or aborted it: no reader
 * can have found it in neither place.
 */
void shingle_wcache_written(struct shingle_device *d, struct list_head *slots, bool failed)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s, *next;

	lockdep_assert_held(&d->map_lock);
	list_for_each_entry_safe(s, next, slots, link) {
		struct shingle_wslot *newer = s->twin;

		wc->frozen -= d->gathers;
		list_del(&s->link);
		if (newer) {
			newer->twin = NULL;
			if (failed) {	/* Whoever waits for @s waits for it now. */
				newer->seq = s->seq;
				newer->since = s->since;
				list_move(&newer->age, &s->age);
			}
			forget(wc, s);
		} else if (!failed) {
			rb_erase(&s->node, &wc->tree);
			forget(wc, s);
		} else if (++s->tries < MAX_TRIES) {
			s->state = SHINGLE_WSLOT_DIRTY;
			wc->dirty++;
		} else {
			s->state = SHINGLE_WSLOT_LOST;
			list_add_tail(&s->link, &wc->lost);
		}
	}
	if (!failed) {
		wc->rounds = 0;
	} else if (!wc->rounds || time_after_eq(jiffies, wc->retry_at)) {
		wc->rounds++;
		wc->retry_at = jiffies + RETRY_DELAY;
	}
}

static void destage_end_io(struct bio *bio)
{
	struct shingle_destage *g = container_of(bio, struct shingle_destage, bio);
	struct shingle_device *d = g->d;
	unsigned long flags;

	shingle_write_done(d, &g->w, bio->bi_status, &g->slots);
	bio_put(bio);
	/* Last: who waits for it may free the device. */
	spin_lock_irqsave(&d->map_lock, flags);
	d->wcache.flying--;
	run_now(&d->wcache);
	wake_up_all(&d->wait);
	spin_unlock_irqrestore(&d->map_lock, flags);
}

/* ------------------------------------------------------------------------
 * For engines that gather writes: what is part of an epoch is in FLIGHT, and an
 * epoch is what destages are otherwise
 */

/**
 * shingle_wcache_clear() - how many blocks of a prefix are not here?
 * @d: the device
 * @lblk: first block
 * @n: how many at most
 *
 * Context: map lock.
 */
u32 shingle_wcache_clear(struct shingle_device *d, u64 lblk, u32 n)
{
	struct shingle_wslot *s = find_from(&d->wcache, lblk);

	lockdep_assert_held(&d->map_lock);
	return s ? min_t(u64, n, s->lblk - lblk) : n;
}

/* The version of a block that is part of the epoch; @s is the newest. */
static struct shingle_wslot *frozen_of(struct shingle_wslot *s)
{
	if (s->state == SHINGLE_WSLOT_FLIGHT)
		return s;
	return s->twin && s->twin->state == SHINGLE_WSLOT_FLIGHT ? s->twin : NULL;
}

/*
 * The next run of blocks at or after *@lblk that can go into an epoch, within one
 * of the engine's units; a whole one if @whole.  Returns its length; 0 if there is none,
 * or none in the part that was looked at and *@lblk is where the next part begins.
 */
static u32 next_run(struct shingle_device *d, u64 *lblk, bool whole)
{
	u32 unit = d->engine->gather_blocks, offset, seen = 0, n;
	struct shingle_wslot *s, *end;
	u64 from = *lblk;

	*lblk = U64_MAX;
	for (s = find_from(&d->wcache, from); s; s = end) {
		*lblk = s->lblk;
		if (seen >= SHINGLE_WALK)
			return 0;
		div_u64_rem(s->lblk, unit, &offset);
		end = s;
		for (n = 0; end && offset + n < unit && end->lblk == s->lblk + n && eligible(end);
		     n++)
			end = next_of(end);
		if (n && (!whole || n == unit))
			return n;
		if (!n)
			end = next_of(s);
		seen += n ?: 1;
	}
	*lblk = U64_MAX;
	return 0;
}

/* Put runs from *@from up to @to into the epoch.  Returns how many blocks. */
static u32 freeze_range(struct shingle_device *d, u64 *from, u64 to, bool whole)
{
	struct shingle_wcache *wc = &d->wcache;
	u32 total = 0, n, i;
	u64 at = *from;

	for (;;) {
		struct shingle_wslot *s;

		spin_lock_irq(&d->map_lock);
		n = next_run(d, &at, whole);
		if (!n && at < to) {
			spin_unlock_irq(&d->map_lock);
			cond_resched();
			continue;
		}
		if (!n)
			break;
		*from = at;
		if (*from >= to || d->ops->epoch_add(d->engine, *from, n))
			break;
		for (i = 0, s = find_from(wc, *from); i < n; i++, s = next_of(s)) {
			s->state = SHINGLE_WSLOT_FLIGHT;
			wc->dirty--;
		}
		wc->frozen += n;
		spin_unlock_irq(&d->map_lock);
		*from += n;
		at = *from;
		total += n;
	}
	spin_unlock_irq(&d->map_lock);
	return total;
}

/**
 * shingle_wcache_freeze() - put an epoch together
 * @d: the device; none is open
 *
 * If there is only a want of room, what is not whole is kept back: the rest of it
 * is likely to come.  Where the last epoch had no more room the next one begins.
 *
 * Context: cleaner.  Returns how many blocks are in it.
 */
u32 shingle_wcache_freeze(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	u32 n, offset;
	u64 start, at;
	bool whole;

	spin_lock_irq(&d->map_lock);
	/* Of a unit all or nothing is before the others: its runs come together. */
	div_u64_rem(wc->cursor, d->engine->gather_blocks, &offset);
	start = wc->cursor - offset;
	whole = wc->on && reached(wc, wc->drain);
	spin_unlock_irq(&d->map_lock);
	for (;;) {
		at = start;
		n = freeze_range(d, &at, U64_MAX, whole);
		wc->cursor = at;
		if (start) {
			u32 more;

			at = 0;
			more = freeze_range(d, &at, start, whole);
			if (more)
				wc->cursor = at;
			n += more;
		}
		if (n || !whole)
			break;
		whole = false;
	}
	spin_lock_irq(&d->map_lock);
	wc->flying += !!n;
	d->n.wcache_destages += !!n;
	d->n.wcache_destage_blocks += n;
	spin_unlock_irq(&d->map_lock);
	return n;
}

/* As shingle_wcache_frozen(), but says where they are instead of copying them. */
static u32 frozen_run(struct shingle_device *d, u64 *lblk, u64 end, u32 n,
		      struct shingle_wslot **slot)
{
	struct shingle_wslot *s;
	u32 got = 0;

	spin_lock_irq(&d->map_lock);
	s = find_from(&d->wcache, *lblk);
	while (s && s->lblk < end && !frozen_of(s))
		s = next_of(s);
	if (s && s->lblk < end) {
		*lblk = s->lblk;
		n = min_t(u64, min_t(u32, n, SHINGLE_WCACHE_HITS), end - s->lblk);
		for (; got < n && s && s->lblk == *lblk + got && frozen_of(s); s = next_of(s))
			slot[got++] = frozen_of(s);
	}
	spin_unlock_irq(&d->map_lock);
	return got;
}

static void copy_slots(struct shingle_device *d, struct shingle_wslot **slot, u32 n, u8 *buf)
{
	u32 i;

	for (i = 0; i < n; i++)
		memcpy(buf + (size_t)i * SHINGLE_BLOCK_SIZE, memory_of(&d->wcache, slot[i]),
		       SHINGLE_BLOCK_SIZE);
}

/**
 * shingle_wcache_overlay() - copy what is in the epoch over older content
 * @d: the device
 * @lblk: first block
 * @n: how many
 * @buf: their content
 *
 * Context: cleaner.  What is in the epoch stays until the cleaner lets go of it.
 * Returns how many blocks were copied.
 */
u32 shingle_wcache_overlay(struct shingle_device *d, u64 lblk, u32 n, u8 *buf)
{
	struct shingle_wslot *slot[SHINGLE_WCACHE_HITS];
	u64 at = lblk, end = lblk + n;
	u32 got, copied = 0;

	for (; at < end; at += got) {
		got = frozen_run(d, &at, end, end - at, slot);
		if (!got)
			break;
		copy_slots(d, slot, got, buf + (at - lblk) * SHINGLE_BLOCK_SIZE);
		copied += got;
	}
	return copied;
}

/**
 * shingle_wcache_frozen() - the next run of blocks that are in the epoch
 * @d: the device
 * @lblk: where to begin; result, its first block
 * @end: where to end
 * @n: how many at most
 * @buf: for their content
 *
 * Context: cleaner.  Returns its length, 0 if there is none.
 */
u32 shingle_wcache_frozen(struct shingle_device *d, u64 *lblk, u64 end, u32 n, u8 *buf)
{
	struct shingle_wslot *slot[SHINGLE_WCACHE_HITS];
	u32 got = frozen_run(d, lblk, end, n, slot);

	copy_slots(d, slot, got, buf);
	return got;
}

/**
 * shingle_wcache_is_frozen() - is a block in the epoch?
 * @d: the device
 * @lblk: the block
 *
 * Context: map lock.
 */
bool shingle_wcache_is_frozen(struct shingle_device *d, u64 lblk)
{
	struct shingle_wslot *s = find_from(&d->wcache, lblk);

	lockdep_assert_held(&d->map_lock);
	return s && s->lblk == lblk && frozen_of(s);
}

/**
 * shingle_wcache_stepped() - a step of the epoch has ended
 * @d: the device
 * @lblk: first block that it wrote
 * @n: how many
 * @failed: or could not write
 *
 * Context: map lock, held since the engine changed its map, as for
 * shingle_wcache_written().
 */
void shingle_wcache_stepped(struct shingle_device *d, u64 lblk, u32 n, bool failed)
{
	struct shingle_wslot *s;
	LIST_HEAD(slots);

	lockdep_assert_held(&d->map_lock);
	for (s = find_from(&d->wcache, lblk); s && s->lblk - lblk < n; s = next_of(s)) {
		struct shingle_wslot *frozen = frozen_of(s);

		if (frozen)
			list_add_tail(&frozen->link, &slots);
	}
	shingle_wcache_written(d, &slots, failed);
}

/**
 * shingle_wcache_thaw() - the epoch has ended
 * @d: the device
 *
 * What it has not written is gathered again.
 *
 * Context: map lock.
 */
void shingle_wcache_thaw(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s, *next;

	lockdep_assert_held(&d->map_lock);
	list_for_each_entry_safe(s, next, &wc->ages, age) {
		struct shingle_wslot *newer = s->twin;

		/* After an epoch that came to its end there is nothing to look for. */
		if (!wc->frozen)
			break;
		if (s->state != SHINGLE_WSLOT_FLIGHT)
			continue;
		wc->frozen--;
		if (newer) {
			newer->twin = NULL;
			newer->seq = s->seq;
			newer->since = s->since;
			next = newer == next ? list_next_entry(newer, age) : next;
			list_move(&newer->age, &s->age);
			forget(wc, s);
		} else {
			s->state = SHINGLE_WSLOT_DIRTY;
			wc->dirty++;
		}
	}
	wc->flying--;
	run_now(wc);
}

/* ------------------------------------------------------------------------
 * Runs on their way
 */

/* Slots of @n blocks from @s on go to @g. */
static void load(struct shingle_device *d, struct shingle_destage *g, struct shingle_wslot *s,
		 u32 n)
{
	struct shingle_wcache *wc = &d->wcache;

	for (; n; n--, s = next_of(s)) {
		s->state = SHINGLE_WSLOT_FLIGHT;
		wc->dirty--;
		list_add_tail(&s->link, &g->slots);
		__bio_add_page(&g->bio, page_of(wc, s), SHINGLE_BLOCK_SIZE, offset_of(wc, s));
	}
}

/*
 * Destage a run.  As with a piece of a host's write, the bio must be complete
 * when the lock goes: it may be submitted by who ends an earlier one.  Returns
 * false if there is nothing to be done, or no room.
 */
static bool destage(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s, *end;
	struct shingle_destage *g;
	bool held = false;
	struct bio *bio;
	u32 n = 0;
	int r = -ENOENT;

	bio = bio_alloc_bioset(d->dev[SHINGLE_DEV_DATA]->bdev, RUN_BLOCKS, REQ_OP_WRITE,
			       GFP_NOIO, &wc->bios);
	bio->bi_end_io = destage_end_io;
	g = container_of(bio, struct shingle_destage, bio);
	g->d = d;
	INIT_LIST_HEAD(&g->slots);

	spin_lock_irq(&d->map_lock);
	s = wanted(d) ? pick(wc) : NULL;
	if (!s)
		goto out;
	for (end = s; end && n < RUN_BLOCKS && end->lblk == s->lblk + n && eligible(end); n++)
		end = next_of(end);
	r = shingle_place(d, s->lblk, n, &g->w, bio);
	if (r == -EIO || r == SHINGLE_FULL) {
		/* Refused: for these blocks it is as bad as an error of the medium. */
		load(d, g, s, n);
		wc->refused = false;
		shingle_wcache_written(d, &g->slots, true);
	} else if (r) {
		/* Until this one comes again the engine may refuse others. */
		wc->blocked = true;
		wc->refused = true;
		wc->cursor = s->lblk;
	} else {
		n = g->w.run.n;
		load(d, g, s, n);
		shingle_remap(d, bio, g->w.run.pblk);
		wc->flying++;
		wc->picks++;
		wc->refused = false;
		wc->cursor = s->lblk + n;
		d->n.wcache_destages++;
		d->n.wcache_destage_blocks += n;
		held = g->w.held;
		trace_shingle_destage(dm_table_device_name(d->ti->table), &g->w.run, wc->dirty);
	}
out:
	spin_unlock_irq(&d->map_lock);
	if (r)
		bio_put(bio);
	else if (!held)
		submit_bio_noacct(bio);
	return !r || r == -EIO || r == SHINGLE_FULL;
}

/*
 * Blocks that could not be written anywhere become unreadable, as if the medium
 * had lost them, and the next flush says that something is gone.
 */
static void bury(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	bool full = false, kick = false;
	struct shingle_wslot *s;

	spin_lock_irq(&d->map_lock);
	while ((s = list_first_entry_or_null(&wc->lost, struct shingle_wslot, link))) {
		struct shingle_record rec;
		struct shingle_emit emit = { .rec = &rec, .max = 1 };

		if (d->mode != SHINGLE_RW)
			break;
		/* What a reset forgets must not come back with its records. */
		if (d->resetting) {
			wc->blocked = true;
			break;
		}
		full = d->bad.nr == SHINGLE_MAX_BAD;
		if (full)
			break;
		if (!shingle_journal_reserve(d, 1)) {
			wc->blocked = true;
			break;
		}
		shingle_bad_add(&d->bad, s->lblk);
		emit.seq = d->journal.seq;
		shingle_emit(&emit, SHINGLE_REC_BAD, 0, 0, s->lblk, 0);
		shingle_journal_add(d, 1, &emit);
		d->n.wcache_lost_blocks++;
		wc->error = true;
		DMERR_LIMIT("%s: block %llu was acknowledged and cannot be written",
			    dm_table_device_name(d->ti->table), s->lblk);
		list_del(&s->link);
		rb_erase(&s->node, &wc->tree);
		forget(wc, s);
		kick = shingle_waiting(d);
	}
	full |= wc->rounds >= MAX_ROUNDS;
	spin_unlock_irq(&d->map_lock);
	if (kick)
		shingle_kick(d);
	if (full)
		shingle_set_mode(d, SHINGLE_RO, false,
				 "the write cache cannot be emptied, see the errors of its devices");
}

/* When to look again, if nothing that ends before will say so. */
static void rearm(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	unsigned long at, now = jiffies;

	lockdep_assert_held(&d->map_lock);
	if (!wc->dirty || wc->flying || wc->blocked || d->mode != SHINGLE_RW)
		return;
	if (wc->rounds && time_before(now, wc->retry_at))
		at = wc->retry_at;
	else if (d->config.destage_ms)
		at = oldest(wc)->since + msecs_to_jiffies(d->config.destage_ms);
	else
		return;
	queue_delayed_work(wc->wq, &wc->work, time_after(at, now) ? at - now : 1);
}

static void wcache_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(to_delayed_work(work), struct shingle_device,
						wcache.work);
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s;
	bool go;

	spin_lock_irq(&d->map_lock);
	wc->blocked = false;
	s = oldest(wc);
	if (s && d->config.destage_ms &&
	    time_after_eq(jiffies, s->since + msecs_to_jiffies(d->config.destage_ms)))
		wc->drain = wc->seq;
	spin_unlock_irq(&d->map_lock);

	bury(d);
	do {
		spin_lock_irq(&d->map_lock);
		go = wanted(d);
		if (go && d->gathers)
			shingle_want_epoch(d);
		spin_unlock_irq(&d->map_lock);
	} while (go && !d->gathers && destage(d));
	/* What was refused just now, or flushes would wait for it. */
	bury(d);
	release_flushes(d);

	spin_lock_irq(&d->map_lock);
	rearm(d);
	spin_unlock_irq(&d->map_lock);
	wake_up_all(&d->wait);
}

/**
 * shingle_wcache_kick() - something has changed that a destage may wait for
 * @d: the device
 *
 * Context: any.
 */
void shingle_wcache_kick(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	unsigned long flags;

	spin_lock_irqsave(&d->map_lock, flags);
	if (wc->blocked || d->mode != SHINGLE_RW)
		run_now(wc);
	spin_unlock_irqrestore(&d->map_lock, flags);
}

/**
 * shingle_wcache_look() - destage_ms has become another: when is the next block due?
 * @d: the device
 *
 * Context: any.  What is here may wait for a timer set before, or for none.
 */
void shingle_wcache_look(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	unsigned long flags;

	spin_lock_irqsave(&d->map_lock, flags);
	if (wc->dirty && !READ_ONCE(d->suspended))
		run_now(wc);
	spin_unlock_irqrestore(&d->map_lock, flags);
}

/* ------------------------------------------------------------------------
 * Emptying it, switching it, its life
 */

static bool drained(struct shingle_device *d, u64 seq)
{
	bool done;

	spin_lock_irq(&d->map_lock);
	done = d->mode != SHINGLE_RW || d->leaving || reached(&d->wcache, seq);
	spin_unlock_irq(&d->map_lock);
	return done;
}

/**
 * shingle_wcache_drain() - write all that was acknowledged so far
 * @d: the device
 *
 * The map is not committed.
 *
 * Context: a message, may sleep.  Returns 0, -EROFS if it cannot be written, -EIO if
 * some of it could not and no flush has said so yet, -EAGAIN if a suspend came
 * before the end, which writes the rest, -ERESTARTSYS if killed.
 */
int shingle_wcache_drain(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	bool done;
	u64 seq;
	int err;

	if (!wc->blocks)
		return 0;
	spin_lock_irq(&d->map_lock);
	seq = wc->seq;
	wc->drain = seq;
	done = reached(wc, seq);
	if (!done)
		run_now(wc);
	spin_unlock_irq(&d->map_lock);
	if (!done) {
		err = wait_event_killable(d->wait, drained(d, seq));
		if (err)
			return err;
	}
	spin_lock_irq(&d->map_lock);
	if (reached(wc, seq))
		err = wc->error ? -EIO : 0;
	else
		err = d->mode == SHINGLE_RW ? -EAGAIN : -EROFS;
	spin_unlock_irq(&d->map_lock);
	return err;
}

static bool nobody_fills(struct shingle_device *d)
{
	bool done;

	spin_lock_irq(&d->map_lock);
	done = !d->wcache.filling;
	spin_unlock_irq(&d->map_lock);
	return done;
}

/**
 * shingle_wcache_switch() - switch it on, or empty it and switch it off
 * @d: the device
 * @on: which
 *
 * As ``hdparm -W``: when it is off, whatever was acknowledged is on the medium;
 * the caller commits.
 *
 * Context: may sleep.  Returns what shingle_wcache_drain() does.
 */
int shingle_wcache_switch(struct shingle_device *d, bool on)
{
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->wcache.on, on);
	spin_unlock_irq(&d->map_lock);
	if (on)
		return 0;
	/* Who found it on before may still be copying. */
	wait_event(d->wait, nobody_fills(d));
	return shingle_wcache_drain(d);
}

static bool stopped(struct shingle_device *d)
{
	bool done;

	spin_lock_irq(&d->map_lock);
	done = !d->wcache.flying && (!d->wcache.nr || d->mode != SHINGLE_RW);
	spin_unlock_irq(&d->map_lock);
	return done;
}

/**
 * shingle_wcache_stop() - the device is being suspended
 * @d: the device, without host I/O
 *
 * What cannot be written, because the device is not read-write, stays and can
 * be read when it is resumed.
 *
 * Context: may sleep.  Cleaning must still go on.
 */
void shingle_wcache_stop(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;

	if (!wc->blocks)
		return;
	spin_lock_irq(&d->map_lock);
	wc->drain = wc->seq;
	run_now(wc);
	spin_unlock_irq(&d->map_lock);
	wait_event(d->wait, stopped(d));
	cancel_delayed_work_sync(&wc->work);
}

/**
 * shingle_wcache_prepare() - before the table line is read
 * @d: the device
 *
 * Context: constructor.
 */
void shingle_wcache_prepare(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;

	wc->tree = RB_ROOT;
	INIT_LIST_HEAD(&wc->ages);
	INIT_LIST_HEAD(&wc->free);
	INIT_LIST_HEAD(&wc->lost);
	bio_list_init(&wc->flushes);
	INIT_DELAYED_WORK(&wc->work, wcache_work);
}

/**
 * shingle_wcache_init() - allocate all that it will ever need
 * @d: the device, the table line read
 *
 * Context: constructor, may sleep.  Returns 0 or -ENOMEM.
 */
int shingle_wcache_init(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	u32 nr, i;

	if (!wc->blocks)
		return 0;
	wc->spare = min(wc->blocks, RUN_BLOCKS);
	nr = wc->blocks + wc->spare;
	wc->pages = shingle_zalloc_array(DIV_ROUND_UP(nr, SLOTS_PER_PAGE), sizeof(*wc->pages));
	wc->slots = shingle_zalloc_array(nr, sizeof(*wc->slots));
	wc->wq = alloc_workqueue("shingle-destage", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!wc->pages || !wc->slots || !wc->wq)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		if (i % SLOTS_PER_PAGE == 0) {
			struct page *page = alloc_page(GFP_KERNEL);

			if (!page)
				return -ENOMEM;
			wc->pages[i / SLOTS_PER_PAGE] = page;
		}
		list_add_tail(&wc->slots[i].link, &wc->free);
	}
	wc->nr_free = nr;
	return bioset_init(&wc->bios, DEPTH, offsetof(struct shingle_destage, bio),
			   BIOSET_NEED_BVECS);
}

/**
 * shingle_wcache_exit() - undo prepare and init
 * @d: the device, not in use
 *
 * Context: may sleep.
 */
void shingle_wcache_exit(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	u32 i;

	cancel_delayed_work_sync(&wc->work);
	if (wc->nr)
		DMERR("%s: %u acknowledged blocks are lost with the write cache",
		      dm_table_device_name(d->ti->table), wc->nr);
	if (wc->wq)
		destroy_workqueue(wc->wq);
	bioset_exit(&wc->bios);
	if (wc->pages) {
		for (i = 0; i < DIV_ROUND_UP(wc->blocks + wc->spare, SLOTS_PER_PAGE); i++) {
			if (wc->pages[i])
				__free_page(wc->pages[i]);
		}
	}
	kvfree(wc->pages);
	kvfree(wc->slots);
}
