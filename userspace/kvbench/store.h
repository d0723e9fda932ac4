/* SPDX-License-Identifier: GPL-2.0 */
/* The interface between kvbench and a store; each kind of store has one file. */
#ifndef KVBENCH_STORE_H
#define KVBENCH_STORE_H

#include <json.h>
#include <shim.h>

/**
 * struct store_options - options for opening a store
 * @path: path of the device or directory, or NULL
 * @delay_us: null: duration of each operation
 * @no_log: this and the following options are those of struct kv_options; a store without such an
 *	option refuses it
 * @cache_bytes: see struct kv_options
 * @around_bytes: see struct kv_options
 * @memtable_bytes: see struct kv_options
 * @l0_trigger: see struct kv_options
 * @l0_slowdown: see struct kv_options
 * @offload: see struct kv_options
 * @stream: KV_STREAM
 * @no_thread: KV_NO_THREAD
 * @lead_bytes: see struct kv_options
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
 * @name: name for --store
 * @wants_path: it needs a device or a directory
 * @open: open a store, which becomes @store; prints errors and returns an exit code
 * @put: write a value; the key may exist or not; with @sync, return when it is durable
 * @get: read a value into @room bytes at @value; -ENOENT if the key does not exist
 * @del: delete a key, which may exist or not
 * @scan: read up to @records records from the first key that is not below @key; @found is their
 *	number
 * @sync: make all earlier writes durable
 * @error: message of the last failure of any thread, given its errno; or NULL
 * @report: add statistics of the store to an object; or NULL
 * @close: close the store; returns an exit code
 *
 * All but @open and @close may be called by many threads at a time, and return 0 or a negative
 * errno.
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

/* Kinds of store that kvbench may have been built with; the others are NULL. */
extern const struct store_ops store_kv __attribute__((__weak__));
extern const struct store_ops store_leveldb __attribute__((__weak__));
extern const struct store_ops store_rocksdb __attribute__((__weak__));

#endif /* KVBENCH_STORE_H */
