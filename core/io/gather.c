// SPDX-License-Identifier: GPL-2.0
/*
 * The write cache for engines that gather writes: blocks of an epoch are in state FLIGHT, and
 * epochs take the place of destages.
 */
#include "base/device.h"
#include "base/trace.h"
#include "io/slots.h"
#include "io/wcache.h"
#include "log/log.h"

/* The version of a block that is part of the epoch; @s is the newest. */
static struct shingle_wslot *frozen_of(struct shingle_wslot *s)
{
	if (s->state == SHINGLE_WSLOT_FLIGHT)
		return s;
	return s->twin && s->twin->state == SHINGLE_WSLOT_FLIGHT ? s->twin : NULL;
}

/**
 * shingle_wcache_clear() - length of the prefix that is not in the cache
 * @d: the device
 * @lblk: first block
 * @n: maximum
 *
 * Context: map lock.
 * Return: the length.
 */
u32 shingle_wcache_clear(struct shingle_device *d, u64 lblk, u32 n)
{
	struct shingle_wslot *s = shingle_wslot_from(&d->wcache, lblk);

	lockdep_assert_held(&d->map_lock);
	return s ? min_t(u64, n, s->lblk - lblk) : n;
}

/*
 * The next run of blocks at or after *@lblk that can go into an epoch, within one of the engine's
 * units; a whole unit if @whole.  Returns its length; 0 if there is none, or if none is in the part
 * that was looked at and *@lblk is the start of the next part.
 */
static u32 next_run(struct shingle_device *d, u64 *lblk, bool whole)
{
	u32 unit = d->engine->gather_blocks, offset, seen = 0, n;
	struct shingle_wslot *s, *end;
	u64 from = *lblk;

	*lblk = U64_MAX;
	for (s = shingle_wslot_from(&d->wcache, from); s; s = end) {
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

/* Put runs from *@from up to @to into the epoch.  Returns the number of blocks. */
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
		if (*from >= to || d->ops->gather.epoch_add(d->engine, *from, n))
			break;
		for (i = 0, s = shingle_wslot_from(wc, *from); i < n; i++, s = next_of(s)) {
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
 * @d: the device; no epoch is open
 *
 * If the only reason is lack of room, incomplete units are kept back: their rest is likely to come.
 * An epoch begins where the last one had no more room.
 *
 * Context: cleaner.
 * Return: number of blocks in it.
 */
u32 shingle_wcache_freeze(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	u32 n, offset;
	u64 start, at;
	bool whole;

	spin_lock_irq(&d->map_lock);
	/* Start with the whole unit, since the runs of a unit must follow each other. */
	div_u64_rem(wc->destage.cursor, d->engine->gather_blocks, &offset);
	start = wc->destage.cursor - offset;
	whole = wc->on && reached(wc, wc->drain);
	spin_unlock_irq(&d->map_lock);
	for (;;) {
		at = start;
		n = freeze_range(d, &at, U64_MAX, whole);
		wc->destage.cursor = at;
		if (start) {
			u32 more;

			at = 0;
			more = freeze_range(d, &at, start, whole);
			if (more)
				wc->destage.cursor = at;
			n += more;
		}
		if (n || !whole)
			break;
		whole = false;
	}
	spin_lock_irq(&d->map_lock);
	wc->flying += !!n;
	d->stats.n.wcache_destages += !!n;
	d->stats.n.wcache_destage_blocks += n;
	if (n)
		trace_shingle_epoch(d, n);
	spin_unlock_irq(&d->map_lock);
	return n;
}

/* As shingle_wcache_frozen(), but returns the slots instead of copying them. */
static u32 frozen_run(struct shingle_device *d, u64 *lblk, u64 end, u32 n,
		      struct shingle_wslot **slot)
{
	struct shingle_wslot *s;
	u32 got = 0;

	spin_lock_irq(&d->map_lock);
	s = shingle_wslot_from(&d->wcache, *lblk);
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
 * shingle_wcache_overlay() - copy blocks of the epoch over older content
 * @d: the device
 * @lblk: first block
 * @n: number of blocks
 * @buf: their content
 *
 * Blocks of the epoch stay in the cache until the cleaner releases them.
 *
 * Context: cleaner.
 * Return: number of blocks copied.
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
 * shingle_wcache_frozen() - copy the next run of blocks of the epoch
 * @d: the device
 * @lblk: where to begin; result, its first block
 * @end: where to end
 * @n: maximum
 * @buf: receives their content
 *
 * Context: cleaner.
 * Return: its length, 0 if there is none.
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
 * Return: true if it is.
 */
bool shingle_wcache_is_frozen(struct shingle_device *d, u64 lblk)
{
	struct shingle_wslot *s = shingle_wslot_from(&d->wcache, lblk);

	lockdep_assert_held(&d->map_lock);
	return s && s->lblk == lblk && frozen_of(s);
}

/**
 * shingle_wcache_stepped() - a step of the epoch has ended
 * @d: the device
 * @lblk: first block that it wrote
 * @n: number of blocks
 * @failed: it could not write them
 *
 * Context: map lock, held since the engine changed its map, as for shingle_wcache_written().
 */
void shingle_wcache_stepped(struct shingle_device *d, u64 lblk, u32 n, bool failed)
{
	struct shingle_wslot *s;
	u32 blocks = 0;
	LIST_HEAD(slots);

	lockdep_assert_held(&d->map_lock);
	for (s = shingle_wslot_from(&d->wcache, lblk); s && s->lblk - lblk < n; s = next_of(s)) {
		struct shingle_wslot *frozen = frozen_of(s);

		if (frozen) {
			list_add_tail(&frozen->link, &slots);
			blocks++;
		}
	}
	if (!failed)
		shingle_journal_acked(d, blocks);
	shingle_wcache_written(d, &slots, failed);
}

/**
 * shingle_wcache_epoch_ended() - the epoch has ended
 * @d: the device
 *
 * Its unwritten blocks are gathered again.
 *
 * Context: map lock.
 */
void shingle_wcache_epoch_ended(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s, *next;

	lockdep_assert_held(&d->map_lock);
	list_for_each_entry_safe(s, next, &wc->ages, age) {
		struct shingle_wslot *newer = s->twin;

		/* After a completed epoch no block is left. */
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
			shingle_wslot_forget(wc, s);
		} else {
			s->state = SHINGLE_WSLOT_DIRTY;
			wc->dirty++;
		}
	}
	wc->flying--;
	run_now(wc);
}
