/* SPDX-License-Identifier: GPL-2.0 */
/*
 * LevelDB, and RocksDB, which is derived from it.  Their C interfaces differ by a prefix, and in
 * how a database is opened and synced; that part is in the file that includes this one.  The file
 * defines DB(name), which adds the prefix, and DB_NAME.
 */
#include <stdatomic.h>

#include "store.h"
#include "tool.h"

#define LEVELS		7	/* as in both libraries */
#define BLOOM_BITS	10	/* bits for each key, as in kv */
#define CACHE_BYTES	(64ULL << 20)	/* as in kv */

/**
 * struct library - a database
 * @db: the database
 * @options: its options
 * @cache: cache of blocks
 * @bloom: Bloom filter policy, if no other object frees it
 * @read: options of reads
 * @write: options of writes: without and with a sync
 */
struct library {
	DB(t) *db;
	DB(options_t) *options;
	DB(cache_t) *cache;
	DB(filterpolicy_t) *bloom;
	DB(readoptions_t) *read;
	DB(writeoptions_t) *write[2];
};

/* Another thread prints the message. */
static char failure[512];
static atomic_flag taken = ATOMIC_FLAG_INIT;

static int noted(char *err)
{
	if (!err)
		return 0;
	if (!atomic_flag_test_and_set(&taken))
		snprintf(failure, sizeof(failure), "%s", err);
	DB(free)(err);
	return -EIO;
}

static int library_put(void *store, const void *key, size_t key_bytes, const void *value,
		       size_t value_bytes, bool sync)
{
	struct library *l = store;
	char *err = NULL;

	DB(put)(l->db, l->write[sync], key, key_bytes, value, value_bytes, &err);
	return noted(err);
}

static int library_get(void *store, const void *key, size_t key_bytes, void *value, size_t room,
		       size_t *value_bytes)
{
	struct library *l = store;
	char *err = NULL, *found = DB(get)(l->db, l->read, key, key_bytes, value_bytes, &err);

	if (err)
		return noted(err);
	if (!found)
		return -ENOENT;
	memcpy(value, found, min(room, *value_bytes));
	DB(free)(found);
	return 0;
}

static int library_del(void *store, const void *key, size_t key_bytes, bool sync)
{
	struct library *l = store;
	char *err = NULL;

	DB(delete)(l->db, l->write[sync], key, key_bytes, &err);
	return noted(err);
}

static int library_scan(void *store, const void *key, size_t key_bytes, u64 records, u64 *found)
{
	struct library *l = store;
	DB(iterator_t) *iter = DB(create_iterator)(l->db, l->read);
	char *err = NULL;
	size_t n;

	*found = 0;
	for (DB(iter_seek)(iter, key, key_bytes); DB(iter_valid)(iter); DB(iter_next)(iter)) {
		DB(iter_value)(iter, &n);
		if (++*found == records)
			break;
	}
	DB(iter_get_error)(iter, &err);
	DB(iter_destroy)(iter);
	return noted(err);
}

static const char *library_error(int err)
{
	return *failure ? failure : strerror(-err);
}

static void library_report(void *store, struct json_object *j)
{
	struct library *l = store;
	struct json_object *levels;
	char name[64], *text;
	u32 i;

	levels = json_list(j, "level_files");
	for (i = 0; i < LEVELS; i++) {
		snprintf(name, sizeof(name), DB_NAME ".num-files-at-level%u", i);
		text = DB(property_value)(l->db, name);
		json_u64(levels, NULL, text ? strtoull(text, NULL, 10) : 0);
		if (text)
			DB(free)(text);
	}
	/* A text for people that contains what compactions read and wrote. */
	text = DB(property_value)(l->db, DB_NAME ".stats");
	json_str(j, "stats", text ? text : "");
	DB(free)(text);
}

/* Free everything but the database. */
static void library_free(struct library *l)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(l->write); i++)
		DB(writeoptions_destroy)(l->write[i]);
	DB(readoptions_destroy)(l->read);
	DB(options_destroy)(l->options);
	if (l->bloom)
		DB(filterpolicy_destroy)(l->bloom);
	DB(cache_destroy)(l->cache);
	free(l);
}

static struct library *library_new(const struct store_options *opt)
{
	struct library *l = calloc(1, sizeof(*l));
	u32 i;

	if (!l)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(l->write); i++) {
		l->write[i] = DB(writeoptions_create)();
		DB(writeoptions_set_sync)(l->write[i], i);
	}
	l->read = DB(readoptions_create)();
	l->options = DB(options_create)();
	DB(options_set_create_if_missing)(l->options, 1);
	DB(options_set_compression)(l->options, 0);
	if (opt->memtable_bytes)
		DB(options_set_write_buffer_size)(l->options, opt->memtable_bytes);
	l->cache = DB(cache_create_lru)(opt->cache_bytes ? opt->cache_bytes : CACHE_BYTES);
	return l;
}

/* Return: an exit code; after a failure everything is freed. */
static int library_opened(void **store, struct library *l, const char *path)
{
	char *err = NULL;
	int rc;

	l->db = DB(open)(l->options, path, &err);
	if (!err) {
		*store = l;
		return EXIT_CLEAN;
	}
	rc = fail("%s", err);
	DB(free)(err);
	library_free(l);
	return rc;
}

static int library_close(void *store)
{
	struct library *l = store;

	DB(close)(l->db);
	library_free(l);
	return EXIT_CLEAN;
}

/* The operations that both kinds of store share. */
#define LIBRARY_OPS							\
	.name = DB_NAME,						\
	.wants_path = true,						\
	.put = library_put,						\
	.get = library_get,						\
	.del = library_del,						\
	.scan = library_scan,						\
	.error = library_error,						\
	.report = library_report,					\
	.close = library_close
