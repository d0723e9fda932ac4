// SPDX-License-Identifier: GPL-2.0
/* LevelDB, in a directory of a file system. */
#include <leveldb/c.h>

#define DB(name)	leveldb_##name
#define DB_NAME		"leveldb"
#include "store-library.h"

static int store_open(void **store, const struct store_options *opt)
{
	struct library *l;

	if (opt->no_log || opt->l0_trigger || opt->l0_slowdown || opt->stream ||
	    opt->no_thread || opt->around_bytes)
		return fail("of kv's options LevelDB has --cache and --memtable");
	l = library_new(opt);
	if (!l)
		return fail("no memory");
	leveldb_options_set_cache(l->options, l->cache);
	l->bloom = leveldb_filterpolicy_create_bloom(BLOOM_BITS);
	leveldb_options_set_filter_policy(l->options, l->bloom);
	return library_opened(store, l, opt->path);
}

/*
 * An empty batch with a sync makes all earlier writes in the same log durable.  LevelDB itself
 * never syncs the log before it if the memtable of that log is still becoming a table.
 */
static int store_sync(void *store)
{
	struct library *l = store;
	leveldb_writebatch_t *nothing = leveldb_writebatch_create();
	char *err = NULL;

	leveldb_write(l->db, l->write[true], nothing, &err);
	leveldb_writebatch_destroy(nothing);
	return noted(err);
}

const struct store_ops store_leveldb = {
	LIBRARY_OPS,
	.open = store_open,
	.sync = store_sync,
};
