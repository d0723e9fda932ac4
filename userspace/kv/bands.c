// SPDX-License-Identifier: GPL-2.0
/* Which bands are free, and that the disk knows it. */
#include "store.h"

static bool discard(struct kv *kv, u32 band)
{
	struct kv_disk *d = band_disk(kv, band);

	/* It is a courtesy: a band that was not discarded may be written all the same. */
	if (d->ops->discard(d, band_offset(kv, band), kv->head.band_bytes))
		return false;
	count(&kv->stats.discards, 1);
	return true;
}

/* Bands behind each other are written behind each other. */
static u32 free_after(const struct kv *kv, u32 i)
{
	while (kv->state[i] == BAND_USED)
		i = i + 1 < kv->head.bands ? i + 1 : 0;
	return i;
}

/* Does the disk see a band coming when it is written next? */
static bool follows(const struct kv *kv, u32 band)
{
	/* A band table that is as long as a lead-in would be a stream of its own. */
	return kv->next == band && kv->copy_bytes < kv->opt.lead_bytes;
}

/*
 * The band that follows the last one, if it is free; else the second of the longest run of
 * free ones, for which the first has room for a lead-in; else any.
 */
static u32 free_in_stream(const struct kv *kv)
{
	u32 i, run = 0, longest = 0, best = NO_BAND;

	if (kv->next < kv->head.bands && kv->state[kv->next] != BAND_USED &&
	    follows(kv, kv->next))
		return kv->next;
	for (i = 0; i < kv->head.bands; i++) {
		run = kv->state[i] == BAND_USED ? 0 : run + 1;
		if (run > longest) {
			longest = run;
			best = i + 1 - run;
		}
	}
	return best + (longest > 1);
}

/*
 * Bands that may be given out: free ones, as long as the band table has room for what comes of
 * them.  It has for as many as are our own, whatever their keys; those of the offload device
 * have their entries there, too.
 */
static u32 to_give(const struct kv *kv)
{
	u32 used = kv->head.bands - kv->free + kv->spare.bands - kv->spare_free;
	/* Logs, and what no band table has yet, or has no more. */
	u64 others = (u64)(used - kv->version->nr) * BANDS_ENTRY_MAX;
	u64 room = bandtable_room(kv), taken = kv->version->most_bytes + others;

	return (u32)min_t(u64, kv->free, room > taken ? (room - taken) / BANDS_ENTRY_MAX : 0);
}

/*
 * Whoever writes leaves besides what is to come back from the offload device, and no less than
 * the merge under way wants: without them it would end with the last band taken, and inputs
 * that are in each other's range still there.
 */
static u32 kept(const struct kv *kv, u32 reserve)
{
	if (reserve <= RESERVE_MERGE)
		return reserve;
	return max(reserve + kv->spare.bands - kv->spare_free, kv->claimed);
}

/**
 * bands_enough() - would a write, or a merge, be given a band?
 * @kv: the store
 * @reserve: see band_take()
 */
bool bands_enough(struct kv *kv, u32 reserve)
{
	bool is;

	pthread_mutex_lock(&kv->lock);
	is = to_give(kv) > kept(kv, reserve);
	pthread_mutex_unlock(&kv->lock);
	return is;
}

/**
 * band_take() - a band to be written from its start
 * @kv: the store
 * @reserve: bands that must be free besides; of a write, and those that are to come back
 * @band: result
 *
 * Returns 0 or -ENOSPC, which says nothing.
 */
int band_take(struct kv *kv, u32 reserve, u32 *band)
{
	bool known;
	u32 i;

	pthread_mutex_lock(&kv->lock);
	if (to_give(kv) <= kept(kv, reserve)) {
		pthread_mutex_unlock(&kv->lock);
		return -ENOSPC;
	}
	i = streams(kv) ? free_in_stream(kv) : free_after(kv, kv->hand);
	known = kv->state[i] == BAND_CLEAN;
	kv->stale -= kv->state[i] == BAND_STALE;
	kv->state[i] = BAND_USED;
	kv->free--;
	kv->hand = i + 1 < kv->head.bands ? i + 1 : 0;
	pthread_mutex_unlock(&kv->lock);
	if (!known)
		discard(kv, i);
	*band = i;
	return 0;
}

/* How many bands are free of the disk that a band is on; under the lock. */
u32 *bands_free(struct kv *kv, u32 band)
{
	return is_spare(kv, band) ? &kv->spare_free : &kv->free;
}

/**
 * band_take_spare() - a band of the offload device
 * @kv: the store
 * @reserve: see band_take()
 * @band: result
 *
 * None is given if the store itself would have no room for what is there, when it comes back.
 *
 * Returns 0 or -ENOSPC, which says nothing.
 */
int band_take_spare(struct kv *kv, u32 reserve, u32 *band)
{
	u32 i = kv->head.bands;
	bool known;

	pthread_mutex_lock(&kv->lock);
	if (!kv->spare_free || to_give(kv) <= kept(kv, reserve) + 1) {
		pthread_mutex_unlock(&kv->lock);
		return -ENOSPC;
	}
	while (kv->state[i] == BAND_USED)
		i++;
	known = kv->state[i] == BAND_CLEAN;
	kv->stale -= kv->state[i] == BAND_STALE;
	kv->state[i] = BAND_USED;
	kv->spare_free--;
	pthread_mutex_unlock(&kv->lock);
	if (!known)
		discard(kv, i);
	*band = i;
	return 0;
}

/**
 * band_level() - tell the disk what a band is to hold, or @moved, what it holds now
 * @kv: the store
 * @band: which; it was discarded, or holds a table
 * @level: of that table
 * @moved: it holds it
 *
 * An interlaced disk has the level that has most on tracks that are costly to write, and
 * all others where writing is free.  Logs are told nothing: what is discarded is of level 0
 * again, and a track that is written in parts goes where that costs nothing only as long as
 * nobody has said a level of it.  The same goes for the header and the band table.
 */
void band_level(struct kv *kv, u32 band, u32 level, bool moved)
{
	struct kv_disk *d = kv->disk;

	/* A courtesy, as a discard is. */
	if (!is_spare(kv, band) && d->ops->level &&
	    !d->ops->level(d, band_offset(kv, band), kv->head.band_bytes, level + 1, moved))
		count(&kv->stats.levels_told, 1);
}

/* Zeroes from @at up to the end of a band. */
static int zeroes(struct kv *kv, u32 band, u32 at)
{
	u32 end = kv->head.band_bytes, n;
	int err = 0;

	for (; at < end && !err; at += n) {
		n = min(end - at, kv->zero_bytes);
		err = store_write(kv, kv->disk, band_offset(kv, band) + at, kv->zeroes, n);
		count(&kv->stats.pad_bytes, n);
	}
	return err;
}

/**
 * band_lead_in() - let the disk see coming that a band will be written
 * @kv: the store
 * @band: which was taken, and nothing is written before its first block
 *
 * Without KV_STREAM, and of a band that follows the one before it, nothing is to be done.
 * Else the end of the free band in front of it is written: what follows that is a stream
 * to the disk, though it begins.  That band stays free, and is discarded.
 *
 * Returns 0 or -errno after saying why; then the store is broken.
 */
int band_lead_in(struct kv *kv, u32 band)
{
	u32 front = band - 1;
	bool known = true, room;
	int err;

	if (!streams(kv) || is_spare(kv, band))
		return 0;
	pthread_mutex_lock(&kv->lock);
	room = band && !follows(kv, band) && kv->state[front] != BAND_USED;
	kv->next = band + 1;
	if (room) {
		/* Only who has @writer takes any, and what is not stale is not reclaimed. */
		known = kv->state[front] == BAND_CLEAN;
		kv->stale -= kv->state[front] == BAND_STALE;
		kv->state[front] = BAND_UNKNOWN;
	}
	pthread_mutex_unlock(&kv->lock);
	if (!room)
		return 0;
	if (!known)
		discard(kv, front);
	err = zeroes(kv, front, kv->head.band_bytes - kv->opt.lead_bytes);
	if (err)
		return err;
	known = discard(kv, front);
	pthread_mutex_lock(&kv->lock);
	kv->state[front] = known ? BAND_CLEAN : BAND_UNKNOWN;
	pthread_mutex_unlock(&kv->lock);
	return 0;
}

/**
 * band_fill_up() - write a band to its end
 * @kv: the store
 * @band: which
 * @at: so many bytes of it were written
 *
 * Without KV_STREAM nothing is to be done.
 *
 * Returns 0 or -errno after saying why; then the store is broken.
 */
int band_fill_up(struct kv *kv, u32 band, u32 at)
{
	return streams(kv) && !is_spare(kv, band) ? zeroes(kv, band, at) : 0;
}

/**
 * band_give_back() - a band that was taken, and that no band table has
 * @kv: the store
 * @band: which
 */
void band_give_back(struct kv *kv, u32 band)
{
	pthread_mutex_lock(&kv->lock);
	/* Not written to its end, if at all. */
	kv->next = NO_BAND;
	band_retire(kv, band);
	pthread_mutex_unlock(&kv->lock);
}

/* The same, of one whose last reader has gone, under the lock. */
void band_retire(struct kv *kv, u32 band)
{
	kv->state[band] = BAND_STALE;
	++*bands_free(kv, band);
	kv->stale++;
	kv->released++;
	pthread_cond_broadcast(&kv->changed);
}

/**
 * bands_reclaim() - tell the disk of bands that have become free
 * @kv: the store
 * @most: of so many at most
 *
 * Returns whether there are more.
 */
bool bands_reclaim(struct kv *kv, u32 most)
{
	bool done, more;
	u32 i;

	pthread_mutex_lock(&kv->lock);
	for (i = 0; i < kv->head.bands + kv->spare.bands && kv->stale && most; i++) {
		if (kv->state[i] != BAND_STALE)
			continue;
		/* Nobody may take it meanwhile. */
		kv->state[i] = BAND_USED;
		kv->stale--;
		--*bands_free(kv, i);
		pthread_mutex_unlock(&kv->lock);
		done = discard(kv, i);
		pthread_mutex_lock(&kv->lock);
		kv->state[i] = done ? BAND_CLEAN : BAND_UNKNOWN;
		++*bands_free(kv, i);
		most--;
	}
	more = kv->stale;
	pthread_mutex_unlock(&kv->lock);
	return more;
}
