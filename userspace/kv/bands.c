// SPDX-License-Identifier: GPL-2.0
/* Which bands are free, and that the disk knows it. */
#include "store.h"

static bool discard(struct kv *kv, u32 band)
{
	/* It is a courtesy: a band that was not discarded may be written all the same. */
	if (kv->disk->ops->discard(kv->disk, band_offset(kv, band), kv->head.band_bytes))
		return false;
	count(&kv->stats.discards, 1);
	return true;
}

/**
 * band_take() - a band to be written from its start
 * @kv: the store
 * @reserve: bands that must be free besides
 * @band: result
 *
 * Returns 0 or -ENOSPC, which says nothing.
 */
int band_take(struct kv *kv, u32 reserve, u32 *band)
{
	bool known;
	u32 i;

	pthread_mutex_lock(&kv->lock);
	if (kv->free <= reserve) {
		pthread_mutex_unlock(&kv->lock);
		return -ENOSPC;
	}
	/* Bands behind each other are written behind each other. */
	for (i = kv->hand; kv->state[i] == BAND_USED; i = i + 1 < kv->head.bands ? i + 1 : 0)
		;
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

/**
 * band_give_back() - a band that was taken, and that no band table has
 * @kv: the store
 * @band: which
 */
void band_give_back(struct kv *kv, u32 band)
{
	pthread_mutex_lock(&kv->lock);
	band_retire(kv, band);
	pthread_mutex_unlock(&kv->lock);
}

/* The same, of one whose last reader has gone, under the lock. */
void band_retire(struct kv *kv, u32 band)
{
	kv->state[band] = BAND_STALE;
	kv->free++;
	kv->stale++;
	pthread_cond_broadcast(&kv->changed);
}

/**
 * bands_reclaim() - tell the disk of bands that have become free
 * @kv: the store
 */
void bands_reclaim(struct kv *kv)
{
	bool done;
	u32 i;

	pthread_mutex_lock(&kv->lock);
	for (i = 0; i < kv->head.bands && kv->stale; i++) {
		if (kv->state[i] != BAND_STALE)
			continue;
		/* Nobody may take it meanwhile. */
		kv->state[i] = BAND_USED;
		kv->stale--;
		kv->free--;
		pthread_mutex_unlock(&kv->lock);
		done = discard(kv, i);
		pthread_mutex_lock(&kv->lock);
		kv->state[i] = done ? BAND_CLEAN : BAND_UNKNOWN;
		kv->free++;
	}
	pthread_mutex_unlock(&kv->lock);
}
