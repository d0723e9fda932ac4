// SPDX-License-Identifier: GPL-2.0
/*
 * Writes: first make room, then allocate memory, then add to the log.  After that nothing can fail.
 */
#include <unistd.h>

#include "entry.h"
#include "memtable.h"
#include "table.h"

/* Delays that keep writers from getting ahead of a flush; shorter ones take longer than that. */
#define PACE_LEAST_US	100U
#define PACE_MOST_US	1000U

/* Compacting everything cannot help again before something is written or released. */
static bool in_vain(struct kv *kv)
{
	bool is;

	pthread_mutex_lock(&kv->lock);
	is = kv->bands.full == kv->current.mem->number &&
	     kv->bands.full_released == kv->bands.released;
	pthread_mutex_unlock(&kv->lock);
	return is;
}

/* Note that everything was compacted, with the result @err. */
static void has_not_helped(struct kv *kv, int err)
{
	/* After a read error the next attempt may succeed. */
	if (err && err != -ENOSPC && err != -EUCLEAN && err != -E2BIG)
		return;
	pthread_mutex_lock(&kv->lock);
	kv->bands.full = kv->current.mem->number;
	kv->bands.full_released = kv->bands.released;
	pthread_mutex_unlock(&kv->lock);
}

/* Free bands by merges; the caller holds @writer and @compacting. */
static int free_bands(struct kv *kv, u32 reserve)
{
	bool did = true;
	int err = compact_frozen(kv);

	while (!err && did && !in_vain(kv) && !bands_enough(kv, reserve))
		err = compact_step(kv, &did);
	if (err == -ENOMEM || store_broken(kv) || bands_enough(kv, reserve))
		return store_broken(kv) ?: err == -ENOMEM ? err : 0;
	if (!in_vain(kv)) {
		err = compact_all(kv);
		has_not_helped(kv, err);
	}
	if (err == -ENOMEM || store_broken(kv) || bands_enough(kv, reserve))
		return store_broken(kv) ?: err == -ENOMEM ? err : 0;
	if (err)
		return kv_says(-ENOSPC, "%s is full, and compaction has failed: %s",
			       kv->disk->name, kv_error());
	return kv_says(-ENOSPC, "%s is full", kv->disk->name);
}

static int make_space(struct kv *kv, u32 reserve)
{
	int err;

	pthread_mutex_lock(&kv->compacting);
	err = free_bands(kv, reserve);
	pthread_mutex_unlock(&kv->compacting);
	return err;
}

/* Wait until no memtable is frozen.  If no other thread compacts, write it here. */
static int wait_frozen(struct kv *kv)
{
	bool frozen;
	int err;

	for (;;) {
		pthread_mutex_lock(&kv->lock);
		frozen = kv->current.frozen;
		pthread_mutex_unlock(&kv->lock);
		err = store_broken(kv);
		if (!frozen || err)
			return err;
		if (!pthread_mutex_trylock(&kv->compacting)) {
			err = compact_frozen(kv);
			pthread_mutex_unlock(&kv->compacting);
			return err;
		}
		/* A running merge looks for frozen memtables from time to time. */
		pthread_mutex_lock(&kv->lock);
		if (kv->current.frozen)
			wait_us(&kv->changed, &kv->lock, 10000);
		pthread_mutex_unlock(&kv->lock);
	}
}

/* Begin a new memtable; without a background thread, also do the merges that are due. */
static int turn_over(struct kv *kv)
{
	int err = wait_frozen(kv) ?: freeze(kv);

	if (err || kv->worker.running)
		return err;
	pthread_mutex_lock(&kv->compacting);
	err = compact_frozen(kv) ?: compact_due(kv);
	pthread_mutex_unlock(&kv->compacting);
	return err;
}

static int find_room(struct kv *kv, const struct kv_batch *b)
{
	u32 reserve = b->puts ? RESERVE_PUT : RESERVE_DELETE;
	u32 bytes = (u32)b->buf.used;
	int err;

	for (;;) {
		err = store_broken(kv);
		if (err)
			return err;
		err = -EAGAIN;
		if (!kv->current.mem->entries ||
		    (memtable_fits(kv->current.mem, kv->opt.memtable_bytes, b->entries, bytes) &&
		     table_fits(kv->opt.memtable_bytes, (u64)kv->current.mem->entries + b->entries,
				kv->current.mem->bytes + bytes, KV_KEY_MAX)))
			err = kv->opt.flags & KV_NO_LOG ?
				bands_enough(kv, reserve) ? 0 : -ENOSPC :
				log_room(kv, b, reserve);
		if (err == -EAGAIN)
			err = turn_over(kv);
		else if (err == -ENOSPC)
			err = make_space(kv, reserve);
		else
			return err;
		if (err)
			return err;
	}
}

/*
 * The delay that keeps the new memtable from being full before the flush of the frozen one is
 * expected to end.  The caller holds the lock of the store.
 */
static u64 pace_us(struct kv *kv)
{
	u64 most = kv->opt.memtable_bytes;
	u64 used = __atomic_load_n(&kv->current.mem->bytes, __ATOMIC_RELAXED);
	/* Flushes take differently long. */
	u64 due = min(used, most) * (kv->flush.expected_us * 3 / 2) / most;
	u64 passed = now_us() - kv->flush.began_us;

	return due < passed + PACE_LEAST_US ? 0 : min(due - passed, (u64)PACE_MOST_US);
}

/*
 * Delay a write, so that flushes and compactions can keep up: many writes wait a little instead of
 * one for all of a flush.  Each thread waits on its own, without a lock.
 */
static void slow_down(struct kv *kv)
{
	u64 began, us = 0;

	pthread_mutex_lock(&kv->lock);
	if (kv->worker.running && kv->current.version->level[0].nr >= kv->opt.l0_slowdown &&
	    !(kv->pick.failed.err && kv->pick.failed.generation == kv->bandtable.generation))
		us = kv->opt.slowdown_us;
	else if (kv->worker.running && kv->current.frozen)
		us = pace_us(kv);
	pthread_mutex_unlock(&kv->lock);
	if (!us)
		return;
	began = now_us();
	usleep((useconds_t)us);
	count(&kv->stats.slow_us, now_us() - began);
}

/* Add a batch; the caller holds @writer. */
static int add(struct kv *kv, const struct kv_batch *b, u64 *number)
{
	u64 seq = kv->next.seq, began = now_us();
	u32 place = 0;
	int err;

	if (kv->opt.flags & KV_READ_ONLY)
		return kv_says(-EROFS, "%s was opened read-only", kv->disk->name);
	if (b->entries > SEQ_END - seq)
		return kv_says(-EOVERFLOW, "%s has used all its sequence numbers", kv->disk->name);
	err = find_room(kv, b);
	count(&kv->stats.slow_us, now_us() - began);
	if (!err)
		err = memtable_prepare(kv->current.mem, buffer_slice(&b->buf));
	if (err)
		return err;
	__atomic_store_n(&kv->next.seq, seq + b->entries, __ATOMIC_RELAXED);
	if (!(kv->opt.flags & KV_NO_LOG))
		*number = log_add(kv, b, seq, &place);
	memtable_add(kv->current.mem, buffer_slice(&b->buf), seq, place);
	pthread_mutex_lock(&kv->lock);
	kv->current.seq = seq + b->entries - 1;
	pthread_mutex_unlock(&kv->lock);
	count(&kv->stats.puts, b->puts);
	count(&kv->stats.deletes, b->entries - b->puts);
	count(&kv->stats.user_bytes, b->user_bytes);
	if (place && is_spare(kv, kv->log.open.band.band)) {
		count(&kv->stats.offloaded_writes, b->entries);
		count(&kv->stats.offloaded_bytes, b->user_bytes);
	}
	return 0;
}

static int no_log(const struct kv *kv)
{
	return kv->opt.flags & KV_NO_LOG ?
		kv_says(-EINVAL, "without a log a sync is impossible: use kv_flush()") : 0;
}

EXPORTED int kv_write(struct kv *kv, const struct kv_batch *batch, uint32_t flags)
{
	u64 number = 0;
	int err = store_ours(kv);

	if (err)
		return err;
	if (flags & ~KV_SYNC)
		return kv_says(-EINVAL, "unknown flags of a write");
	if (flags & KV_SYNC)
		err = no_log(kv);
	if (err || !batch->entries)
		return err;
	if (batch->buf.used > kv->head.band_bytes / 4)
		return kv_says(-E2BIG, "a batch of %zu bytes: %u at most", batch->buf.used,
			       kv->head.band_bytes / 4);
	if (batch->max_value > kv->head.band_bytes / 8)
		return kv_says(-EINVAL, "a value of %u bytes: %u at most", batch->max_value,
			       kv->head.band_bytes / 8);
	slow_down(kv);
	pthread_mutex_lock(&kv->writer);
	err = add(kv, batch, &number);
	pthread_mutex_unlock(&kv->writer);
	if (!err && (flags & KV_SYNC))
		err = log_sync(kv, number);
	return err;
}

EXPORTED int kv_put(struct kv *kv, const void *key, size_t key_bytes, const void *value,
		    size_t value_bytes, uint32_t flags)
{
	struct kv_batch b = { .entries = 0 };
	int err = kv_batch_put(&b, key, key_bytes, value, value_bytes) ?:
		kv_write(kv, &b, flags);

	free(b.buf.data);
	return err;
}

EXPORTED int kv_delete(struct kv *kv, const void *key, size_t key_bytes, uint32_t flags)
{
	struct kv_batch b = { .entries = 0 };
	int err = kv_batch_delete(&b, key, key_bytes) ?: kv_write(kv, &b, flags);

	free(b.buf.data);
	return err;
}

EXPORTED int kv_sync(struct kv *kv)
{
	u64 number;
	int err = store_ours(kv) ?: no_log(kv);

	if (err || (kv->opt.flags & KV_READ_ONLY))
		return err;
	pthread_mutex_lock(&kv->log.lock);
	number = kv->log.sync.batches;
	pthread_mutex_unlock(&kv->log.lock);
	return log_sync(kv, number) ?: store_broken(kv);
}

static int may_write(struct kv *kv)
{
	if (kv->opt.flags & KV_READ_ONLY)
		return kv_says(-EROFS, "%s was opened read-only", kv->disk->name);
	return store_ours(kv) ?: store_broken(kv);
}

EXPORTED int kv_flush(struct kv *kv)
{
	int err = may_write(kv);

	if (err)
		return err;
	pthread_mutex_lock(&kv->writer);
	err = wait_frozen(kv);
	if (!err && kv->current.mem->entries)
		err = freeze(kv);
	/* No other thread may write to the log while the table is written. */
	if (!err && streams(kv))
		err = wait_frozen(kv);
	pthread_mutex_unlock(&kv->writer);
	return err || streams(kv) ? err : wait_frozen(kv);
}

void begin_compacting(struct kv *kv)
{
	if (streams(kv))
		pthread_mutex_lock(&kv->writer);
	pthread_mutex_lock(&kv->compacting);
}

void end_compacting(struct kv *kv)
{
	pthread_mutex_unlock(&kv->compacting);
	if (streams(kv))
		pthread_mutex_unlock(&kv->writer);
}

EXPORTED int kv_compact(struct kv *kv)
{
	int err = kv_flush(kv);

	if (err)
		return err;
	begin_compacting(kv);
	err = compact_all(kv);
	end_compacting(kv);
	return err;
}

EXPORTED int kv_settle(struct kv *kv)
{
	bool did = true;
	int err = may_write(kv);

	if (err)
		return err;
	begin_compacting(kv);
	/* The caller may have removed the cause of an earlier failure. */
	pthread_mutex_lock(&kv->lock);
	kv->pick.failed.err = 0;
	pthread_mutex_unlock(&kv->lock);
	err = compact_frozen(kv);
	while (!err && did)
		err = compact_step(kv, &did);
	end_compacting(kv);
	return err;
}
