// SPDX-License-Identifier: GPL-2.0
/* kv: a store that was made by 'kv format' on a device. */
#include <shingle-kv.h>
#include <stdatomic.h>

#include "store.h"
#include "tool.h"

/* kv_error() belongs to the thread that failed, but another thread prints the message. */
static char failure[512];
static atomic_flag taken = ATOMIC_FLAG_INIT;
static bool has_log;

static int noted(int err)
{
	if (err && err != -ENOENT && !atomic_flag_test_and_set(&taken))
		snprintf(failure, sizeof(failure), "%s", kv_error());
	return err;
}

static int store_open(void **store, const struct store_options *opt)
{
	const struct kv_options options = {
		.size = sizeof(options),
		.flags = (opt->no_log ? KV_NO_LOG : 0) | (opt->stream ? KV_STREAM : 0) |
			 (opt->no_thread ? KV_NO_THREAD : 0),
		.lead_bytes = opt->lead_bytes,
		.cache_bytes = opt->cache_bytes,
		.around_bytes = opt->around_bytes,
		.memtable_bytes = opt->memtable_bytes,
		.l0_trigger = opt->l0_trigger,
		.l0_slowdown = opt->l0_slowdown,
		.offload = opt->offload,
	};
	struct kv *kv;

	if (kv_open(&kv, opt->path, &options))
		return fail("%s", kv_error());
	has_log = !opt->no_log;
	*store = kv;
	return EXIT_CLEAN;
}

static int store_put(void *store, const void *key, size_t key_bytes, const void *value,
		     size_t value_bytes, bool sync)
{
	return noted(kv_put(store, key, key_bytes, value, value_bytes, sync ? KV_SYNC : 0));
}

static int store_get(void *store, const void *key, size_t key_bytes, void *value, size_t room,
		     size_t *value_bytes)
{
	void *found;
	int err = kv_get(store, NULL, key, key_bytes, &found, value_bytes);

	if (err)
		return noted(err);
	memcpy(value, found, min(room, *value_bytes));
	free(found);
	return 0;
}

static int store_del(void *store, const void *key, size_t key_bytes, bool sync)
{
	return noted(kv_delete(store, key, key_bytes, sync ? KV_SYNC : 0));
}

static int store_scan(void *store, const void *key, size_t key_bytes, u64 records, u64 *found)
{
	struct kv_iter *iter;
	size_t n;
	int err = kv_iter_new(store, NULL, &iter);

	*found = 0;
	if (err)
		return noted(err);
	for (err = kv_iter_seek(iter, key, key_bytes); !err; err = kv_iter_next(iter)) {
		kv_iter_value(iter, &n);
		if (++*found == records)
			break;
	}
	noted(err);
	kv_iter_free(iter);
	return err == -ENOENT ? 0 : err;
}

static int store_sync(void *store)
{
	/* Without a log only tables are durable. */
	return noted(has_log ? kv_sync(store) : kv_flush(store));
}

static const char *store_error(int err)
{
	return *failure ? failure : strerror(-err);
}

static void store_report(void *store, struct json_object *j)
{
	struct json_object *levels;
	struct kv_stats s = { .size = sizeof(s) };
	u32 i;

	kv_stats(store, &s);
#define FIGURE(name)	json_u64(j, #name, s.name)
	FIGURE(bands);
	FIGURE(bands_free);
	FIGURE(band_bytes);
	levels = json_list(j, "level_bands");
	for (i = 0; i < KV_LEVELS; i++)
		json_u64(levels, NULL, s.level_bands[i]);
	FIGURE(unsorted_bands);
	FIGURE(unsorted_bytes);
	FIGURE(offload_bands);
	FIGURE(offload_bands_free);
	FIGURE(memtable_bytes);
	FIGURE(puts);
	FIGURE(deletes);
	FIGURE(gets);
	FIGURE(user_bytes);
	FIGURE(offloaded_writes);
	FIGURE(offloaded_bytes);
	FIGURE(log_bytes);
	FIGURE(flush_bytes);
	FIGURE(compact_read_bytes);
	FIGURE(compact_written_bytes);
	FIGURE(table_bytes);
	FIGURE(pad_bytes);
	FIGURE(read_bytes);
	FIGURE(syncs);
	FIGURE(flushes);
	FIGURE(compactions);
	FIGURE(moves);
	FIGURE(discards);
	FIGURE(levels_told);
	FIGURE(bloom_checks);
	FIGURE(bloom_passes);
	FIGURE(bloom_wrong);
	FIGURE(flush_us);
	FIGURE(compact_us);
	FIGURE(slow_us);
#undef FIGURE
}

static int store_close(void *store)
{
	return kv_close(store) ? fail("%s", kv_error()) : EXIT_CLEAN;
}

const struct store_ops store_kv = {
	.name = "kv",
	.wants_path = true,
	.open = store_open,
	.put = store_put,
	.get = store_get,
	.del = store_del,
	.scan = store_scan,
	.sync = store_sync,
	.error = store_error,
	.report = store_report,
	.close = store_close,
};
