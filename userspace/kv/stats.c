// SPDX-License-Identifier: GPL-2.0
/* Statistics of a store. */
#include "memtable.h"
#include "store.h"

/* Number of logs and tables on the offload device; the caller holds the lock. */
static u32 spares(const struct kv *kv)
{
	const struct level *l = &kv->current.version->level[0];
	u32 i, n = 0;

	for (i = 0; i < kv->bandtable.nr_logs; i++)
		n += is_spare(kv, kv->bandtable.logs[i].band);
	for (i = 0; i < l->nr; i++)
		n += is_spare(kv, l->part[i]->table->band);
	return n;
}

/*
 * Return: the number of log bands that are in no band table yet; the caller holds both locks.
 * @spares: result: number of those on the offload device
 */
static u32 pending(const struct kv *kv, u32 *spares)
{
	const struct log *l = &kv->log;
	u32 i, n = 0;

	*spares = 0;
	for (u64 at = l->pending.entered; at != l->pending.begun; at++) {
		const struct log_band *b = &l->pending.band[at % LOG_PENDING].band;

		/* For a short while after its commit, a band is still pending. */
		for (i = 0; i < kv->bandtable.nr_logs && kv->bandtable.logs[i].id != b->id; i++)
			;
		n += i == kv->bandtable.nr_logs;
		*spares += i == kv->bandtable.nr_logs && is_spare(kv, b->band);
	}
	return n;
}

/* All statistics that this version of the library knows. */
static void all_stats(struct kv *kv, struct kv_stats *stats)
{
	const uint64_t *from = (const uint64_t *)&kv->stats;
	uint64_t *to = (uint64_t *)stats;
	u32 i, used, logs, spare_logs;

	for (i = 0; i < sizeof(*stats) / sizeof(*to); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	stats->ring_error = (uint64_t)(kv->disk->ring_error ?:
				       kv->offload.disk ? kv->offload.disk->ring_error : 0);
	pthread_mutex_lock(&kv->log.lock);
	pthread_mutex_lock(&kv->lock);
	logs = pending(kv, &spare_logs);
	stats->bands = kv->head.bands;
	stats->bands_free = kv->bands.free;
	stats->bands_log = kv->bandtable.nr_logs + logs;
	stats->band_bytes = kv->head.band_bytes;
	for (i = 0; i < KV_LEVELS; i++) {
		stats->level_bands[i] = kv->current.version->level[i].nr;
		stats->level_bytes[i] = kv->current.version->level[i].bytes;
	}
	for (i = 0; i < kv->current.version->level[0].nr; i++) {
		const struct table *t = kv->current.version->level[0].part[i]->table;

		stats->unsorted_bands += t->unsorted;
		stats->unsorted_bytes += t->unsorted ? t->bytes : 0;
	}
	stats->offload_bands = kv->offload.head.bands;
	stats->offload_bands_free = kv->bands.spare_free;
	used = kv->current.version->nr + kv->bandtable.nr_logs + kv->bands.free - spares(kv) +
		logs - spare_logs;
	/* Bands that are being written count, too. */
	stats->bands_pinned = kv->head.bands > used ? kv->head.bands - used : 0;
	stats->memtable_bytes = __atomic_load_n(&kv->current.mem->bytes, __ATOMIC_RELAXED) +
		(kv->current.frozen ? kv->current.frozen->bytes : 0);
	pthread_mutex_unlock(&kv->lock);
	pthread_mutex_unlock(&kv->log.lock);
}

EXPORTED int kv_stats(struct kv *kv, struct kv_stats *stats)
{
	struct kv_stats all;

	if (stats->size < 2 * sizeof(stats->size))
		return kv_says(-EINVAL, "struct kv_stats has an unknown size");
	if (store_ours(kv))
		return -EPERM;
	all_stats(kv, &all);
	all.size = stats->size;
	give_sized(stats, stats->size, &all, sizeof(all));
	return 0;
}

EXPORTED int kv_shape(struct kv *kv, struct kv_shape *shape)
{
	struct kv_shape all;

	if (shape->size < 2 * sizeof(shape->size))
		return kv_says(-EINVAL, "struct kv_shape has an unknown size");
	if (store_ours(kv))
		return -EPERM;
	pthread_mutex_lock(&kv->lock);
	all = (struct kv_shape){ .size = shape->size, .organisation = kv->head.organisation,
				    .band_bytes = kv->head.band_bytes,
				    .bands = kv->head.bands,
				    .generation = kv->bandtable.generation };
	memcpy(all.uuid, kv->head.uuid, sizeof(all.uuid));
	pthread_mutex_unlock(&kv->lock);
	give_sized(shape, shape->size, &all, sizeof(all));
	return 0;
}

EXPORTED int kv_bands(struct kv *kv, int (*fn)(void *ctx, const struct kv_band *band),
		      void *ctx)
{
	struct log_band logs[MAX_LOG_BANDS];
	struct version *v;
	u32 i, level, nr;
	int got = store_ours(kv);

	if (got)
		return got;
	pthread_mutex_lock(&kv->lock);
	v = kv->current.version;
	__atomic_fetch_add(&v->refs, 1, __ATOMIC_RELAXED);
	nr = kv->bandtable.nr_logs;
	memcpy(logs, kv->bandtable.logs, nr * sizeof(*logs));
	pthread_mutex_unlock(&kv->lock);
	for (i = 0; i < nr && !got; i++) {
		struct kv_band b = { .band = logs[i].band,
				     .offset = band_offset(kv, logs[i].band),
				     .bytes = logs[i].bytes, .level = -1,
				     .age = logs[i].memtable, .id = logs[i].id,
				     .offloaded = is_spare(kv, logs[i].band) };

		got = fn(ctx, &b);
	}
	for (level = 0; level < KV_LEVELS; level++) {
		for (i = 0; i < v->level[level].nr && !got; i++) {
			const struct part *p = v->level[level].part[i];
			struct kv_band b = {
				.band = p->table->band,
				.offset = band_offset(kv, p->table->band),
				.bytes = p->table->bytes, .level = (int)level,
				.age = p->age, .id = p->table->id,
				.entries = p->table->entries,
				.tombstones = p->table->tombstones,
				.unsorted = p->table->unsorted,
				.offloaded = is_spare(kv, p->table->band),
				.min_key = p->min.data, .min_bytes = p->min.bytes,
				.max_key = p->max.data, .max_bytes = p->max.bytes,
			};

			got = fn(ctx, &b);
		}
	}
	version_put(kv, v);
	return got;
}
