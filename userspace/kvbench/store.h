/* SPDX-License-Identifier: GPL-2.0 */
/* What kvbench asks of a store; each kind of store is one file. */
#ifndef KVBENCH_STORE_H
#define KVBENCH_STORE_H

#include <json.h>
#include <shim.h>

/**
 * struct store_options - which store, and how it is opened
 * @path: of the device or directory, or NULL
 * @delay_us: null: what each operation takes
 * @no_log: as all that follow, see struct kv_options; who has no such thing refuses it
 * @cache_bytes: see there
 * @around_bytes: see there
 * @memtable_bytes: see there
 * @l0_trigger: see there
 * @l0_slowdown: see there
 * @offload: see there
 * @stream: KV_STREAM
 * @no_thread: KV_NO_THREAD
 * @lead_bytes: see there
 */
struct store_options {
	const char *path;
	u64 delay_us;
	bool no_log;
	u64 cache_bytes;
	u32 around_bytes, memtable_bytes, l0_trigger, l0_slowdown;
	const char *offload;
	bool stream, no_thread;
	u32 lead_bytes;
};

/**
 * struct store_ops - a kind of store
 * @name: for --store
 * @wants_path: of a device, or of a directory
 * @open: @store is the result; says why not, and returns an exit code
 * @put: the key need not be there, nor absent; @sync: return when it is safe
 * @get: -ENOENT if it is not there; @value has room for @room bytes
 * @del: the key need not be there
 * @scan: up to @records from the first that is not below the key; @found is how many
 * @sync: all that was put so far is safe
 * @error: the last failure of any thread in words, given its errno; or NULL
 * @report: figures of its own, as members of an object; or NULL
 * @close: returns an exit code
 *
 * All but @open and @close may be called by many threads at a time, and return 0 or a
 * negative errno.
 */
struct store_ops {
	const char *name;
	bool wants_path;
	int (*open)(void **store, const struct store_options *opt);
	int (*put)(void *store, const void *key, size_t key_bytes, const void *value,
		   size_t value_bytes, bool sync);
	int (*get)(void *store, const void *key, size_t key_bytes, void *value, size_t room,
		   size_t *value_bytes);
	int (*del)(void *store, const void *key, size_t key_bytes, bool sync);
	int (*scan)(void *store, const void *key, size_t key_bytes, u64 records, u64 *found);
	int (*sync)(void *store);
	const char *(*error)(int err);
	void (*report)(void *store, struct json_object *j);
	int (*close)(void *store);
};

extern const struct store_ops store_null, store_memory;

/* Those that this was built with; the others are nowhere. */
extern const struct store_ops store_kv __attribute__((__weak__));
extern const struct store_ops store_leveldb __attribute__((__weak__));
extern const struct store_ops store_rocksdb __attribute__((__weak__));

#endif /* KVBENCH_STORE_H */
