// SPDX-License-Identifier: GPL-2.0
/* Allocation of bands, and discards of free ones. */
#include "store.h"

/**
 * band_discard() - discard a band that holds nothing
 * @kv: the store
 * @band: the band
 *
 * Return: True if the disk has discarded it.
 */
bool band_discard(struct kv *kv, u32 band)
{
	struct kv_disk *d = band_disk(kv, band);

	/* A discard is only a hint: a band that was not discarded may be written all the same. */
	if (d->ops->discard(d, band_offset(kv, band), kv->head.band_bytes))
		return false;
	count(&kv->stats.discards, 1);
	return true;
}

/* Consecutive bands are given out in order, so that they are written in order. */
static u32 free_after(const struct kv *kv, u32 i)
{
	while (kv->bands.state[i] == BAND_USED)
		i = i + 1 < kv->head.bands ? i + 1 : 0;
	return i;
}

/* Does the disk see the band as the continuation of the last one? */
static bool follows(const struct kv *kv, u32 band)
{
	/* A band table of at least the length of a lead-in is a stream of its own to the disk. */
	return kv->bands.stream.next == band && kv->bandtable.copy_bytes < kv->opt.lead_bytes;
}

/*
 * Return: the band that follows the last one, if it is free; else the second band of the longest
 * run of free bands, as the first one has room for a lead-in; else any free band.
 */
static u32 free_in_stream(const struct kv *kv)
{
	u32 i, run = 0, longest = 0, best = NO_BAND;

	if (kv->bands.stream.next < kv->head.bands &&
	    kv->bands.state[kv->bands.stream.next] != BAND_USED &&
	    follows(kv, kv->bands.stream.next))
		return kv->bands.stream.next;
	for (i = 0; i < kv->head.bands; i++) {
		run = kv->bands.state[i] == BAND_USED ? 0 : run + 1;
		if (run > longest) {
			longest = run;
			best = i + 1 - run;
		}
	}
	return best + (longest > 1);
}

/*
 * Return: the number of free bands that may be given out, limited by the room in the band table.
 * There is room for all bands of the store's own device, whatever their keys are, but bands of the
 * offload device have entries there, too.
 */
static u32 to_give(const struct kv *kv)
{
	u32 used = kv->head.bands - kv->bands.free + kv->offload.head.bands - kv->bands.spare_free;
	/* Logs, and bands that are not in a band table yet, or no longer. */
	u64 others = (u64)(used - kv->current.version->nr) * BANDS_ENTRY_MAX;
	u64 room = bandtable_room(kv), taken = kv->current.version->most_bytes + others;

	return (u32)min_t(u64, kv->bands.free, room > taken ? (room - taken) / BANDS_ENTRY_MAX : 0);
}

/*
 * Return: the number of bands that a requester must leave free.  A write also leaves the bands that
 * are to come back from the offload device, and at least what the running merge needs: otherwise
 * the merge would stop when the last band is taken, before overlapping inputs could be freed.
 */
static u32 kept(const struct kv *kv, u32 reserve)
{
	if (reserve <= RESERVE_MERGE)
		return reserve;
	return max(reserve + kv->offload.head.bands - kv->bands.spare_free, kv->bands.claimed);
}

/**
 * bands_enough() - would a write or a merge get a band?
 * @kv: the store
 * @reserve: see band_take()
 *
 * Return: True if it would.
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
 * band_take() - allocate a band, to be written from its start
 * @kv: the store
 * @reserve: bands that must stay free besides; for a write also those that are to come back
 * @band: result
 * @clean: result: the band needs no discard before it is written; NULL: discard it here, which may
 *	take long
 *
 * Return: 0, or -ENOSPC without a message.
 */
int band_take(struct kv *kv, u32 reserve, u32 *band, bool *clean)
{
	bool known;
	u32 i;

	pthread_mutex_lock(&kv->lock);
	if (to_give(kv) <= kept(kv, reserve)) {
		pthread_mutex_unlock(&kv->lock);
		return -ENOSPC;
	}
	i = streams(kv) ? free_in_stream(kv) : free_after(kv, kv->bands.search_from);
	known = kv->bands.state[i] == BAND_CLEAN;
	kv->bands.stale -= kv->bands.state[i] == BAND_STALE;
	kv->bands.state[i] = BAND_USED;
	kv->bands.free--;
	kv->bands.search_from = i + 1 < kv->head.bands ? i + 1 : 0;
	pthread_mutex_unlock(&kv->lock);
	if (clean)
		*clean = known;
	else if (!known)
		band_discard(kv, i);
	*band = i;
	return 0;
}

/* Return: the counter of free bands of the disk that a band is on; the caller holds the lock. */
u32 *bands_free(struct kv *kv, u32 band)
{
	return is_spare(kv, band) ? &kv->bands.spare_free : &kv->bands.free;
}

/**
 * band_take_spare() - allocate a band of the offload device
 * @kv: the store
 * @reserve: see band_take()
 * @band: result
 * @clean: likewise
 *
 * None is given out if the store itself would have no room for its contents when they come back.
 *
 * Return: 0, or -ENOSPC without a message.
 */
int band_take_spare(struct kv *kv, u32 reserve, u32 *band, bool *clean)
{
	u32 i = kv->head.bands;
	bool known;

	pthread_mutex_lock(&kv->lock);
	if (!kv->bands.spare_free || to_give(kv) <= kept(kv, reserve) + 1) {
		pthread_mutex_unlock(&kv->lock);
		return -ENOSPC;
	}
	while (kv->bands.state[i] == BAND_USED)
		i++;
	known = kv->bands.state[i] == BAND_CLEAN;
	kv->bands.stale -= kv->bands.state[i] == BAND_STALE;
	kv->bands.state[i] = BAND_USED;
	kv->bands.spare_free--;
	pthread_mutex_unlock(&kv->lock);
	*clean = known;
	*band = i;
	return 0;
}

/**
 * band_level() - tell the disk which level a band will hold, or with @moved holds now
 * @kv: the store
 * @band: the band; it was discarded, or holds a table
 * @level: level of the table
 * @moved: the band holds the table already
 *
 * An interlaced disk puts the level with the most data on tracks that are costly to write, and all
 * other levels on tracks that are free to write.  Bands of logs get no level.  A discarded band
 * counts as level 0 again, and a track that is written in parts goes to a place where that costs
 * nothing only while it has no level.  The same holds for the header and the band table.
 */
void band_level(struct kv *kv, u32 band, u32 level, bool moved)
{
	struct kv_disk *d = kv->disk;

	/* A hint, like a discard. */
	if (!is_spare(kv, band) && d->ops->level &&
	    !d->ops->level(d, band_offset(kv, band), kv->head.band_bytes, level + 1, moved))
		count(&kv->stats.levels_told, 1);
}

/* Write zeroes from @at to the end of a band. */
static int zeroes(struct kv *kv, u32 band, u32 at)
{
	u32 end = kv->head.band_bytes, n;
	int err = 0;

	for (; at < end && !err; at += n) {
		n = min(end - at, kv->bands.stream.zero_bytes);
		err = store_write(kv, kv->disk, band_offset(kv, band) + at,
				  kv->bands.stream.zeroes, n);
		count(&kv->stats.pad_bytes, n);
	}
	return err;
}

/**
 * band_lead_in() - prepare the disk for a band that will be written
 * @kv: the store
 * @band: the band; it is allocated, and nothing is written to it yet
 *
 * Does nothing without KV_STREAM, or if the band follows the one that was written last.  Otherwise,
 * if the band in front of it is free, the end of that band is written, so that the disk sees what
 * follows as the continuation of a stream.  The band in front stays free and is discarded again.
 *
 * Return: 0; or -errno with the message set, and the store is broken.
 */
int band_lead_in(struct kv *kv, u32 band)
{
	u32 front = band - 1;
	bool known = true, room;
	int err;

	if (!streams(kv) || is_spare(kv, band))
		return 0;
	pthread_mutex_lock(&kv->lock);
	room = band && !follows(kv, band) && kv->bands.state[front] != BAND_USED;
	kv->bands.stream.next = band + 1;
	if (room) {
		/*
		 * Only the holder of @writer allocates bands, and bands_reclaim() takes only stale
		 * ones.
		 */
		known = kv->bands.state[front] == BAND_CLEAN;
		kv->bands.stale -= kv->bands.state[front] == BAND_STALE;
		kv->bands.state[front] = BAND_UNKNOWN;
	}
	pthread_mutex_unlock(&kv->lock);
	if (!room)
		return 0;
	if (!known)
		band_discard(kv, front);
	err = zeroes(kv, front, kv->head.band_bytes - kv->opt.lead_bytes);
	if (err)
		return err;
	known = band_discard(kv, front);
	pthread_mutex_lock(&kv->lock);
	kv->bands.state[front] = known ? BAND_CLEAN : BAND_UNKNOWN;
	pthread_mutex_unlock(&kv->lock);
	return 0;
}

/**
 * band_fill_up() - write a band to its end
 * @kv: the store
 * @band: the band
 * @at: number of bytes of it that were written
 *
 * Does nothing without KV_STREAM.
 *
 * Return: 0; or -errno with the message set, and the store is broken.
 */
int band_fill_up(struct kv *kv, u32 band, u32 at)
{
	return streams(kv) && !is_spare(kv, band) ? zeroes(kv, band, at) : 0;
}

/**
 * band_give_back() - free a band that was allocated and is in no band table
 * @kv: the store
 * @band: the band
 */
void band_give_back(struct kv *kv, u32 band)
{
	pthread_mutex_lock(&kv->lock);
	/* The band was not written to its end, if at all. */
	kv->bands.stream.next = NO_BAND;
	band_retire(kv, band);
	pthread_mutex_unlock(&kv->lock);
}

/* Free a band that no reader uses any more; the caller holds the lock. */
void band_retire(struct kv *kv, u32 band)
{
	kv->bands.state[band] = BAND_STALE;
	++*bands_free(kv, band);
	kv->bands.stale++;
	kv->bands.released++;
	pthread_cond_broadcast(&kv->changed);
}

/**
 * bands_reclaim() - discard bands that have become free
 * @kv: the store
 * @most: most bands to discard
 *
 * Return: True if more are left.
 */
bool bands_reclaim(struct kv *kv, u32 most)
{
	bool done, more;
	u32 i;

	pthread_mutex_lock(&kv->lock);
	for (i = 0; i < kv->head.bands + kv->offload.head.bands && kv->bands.stale && most; i++) {
		if (kv->bands.state[i] != BAND_STALE)
			continue;
		/* No other thread may allocate it meanwhile. */
		kv->bands.state[i] = BAND_USED;
		kv->bands.stale--;
		--*bands_free(kv, i);
		pthread_mutex_unlock(&kv->lock);
		done = band_discard(kv, i);
		pthread_mutex_lock(&kv->lock);
		kv->bands.state[i] = done ? BAND_CLEAN : BAND_UNKNOWN;
		++*bands_free(kv, i);
		most--;
	}
	more = kv->bands.stale;
	pthread_mutex_unlock(&kv->lock);
	return more;
}
