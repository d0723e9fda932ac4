// SPDX-License-Identifier: GPL-2.0
/* RocksDB, in a directory of a file system. */
#include <rocksdb/c.h>

#define DB(name)	rocksdb_##name
#define DB_NAME		"rocksdb"
#include "store-library.h"

static bool has_log;

static int store_open(void **store, const struct store_options *opt)
{
	rocksdb_block_based_table_options_t *table;
	struct library *l;
	u32 i;

	if (opt->stream || opt->no_thread || opt->around_bytes)
		return fail("RocksDB has neither --stream nor --no-thread nor --around");
	l = library_new(opt);
	if (!l)
		return fail("no memory");
	table = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_block_cache(table, l->cache);
	/* It belongs to the table options, and those to the options of the database. */
	rocksdb_block_based_options_set_filter_policy(
		table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
	rocksdb_options_set_block_based_table_factory(l->options, table);
	rocksdb_block_based_options_destroy(table);
	/* The sizes of files and levels keep their default ratio to the memtable. */
	if (opt->memtable_bytes) {
		rocksdb_options_set_target_file_size_base(l->options, opt->memtable_bytes);
		rocksdb_options_set_max_bytes_for_level_base(l->options,
							     4ULL * opt->memtable_bytes);
	}
	if (opt->l0_trigger)
		rocksdb_options_set_level0_file_num_compaction_trigger(l->options,
								       (int)opt->l0_trigger);
	if (opt->l0_slowdown)
		rocksdb_options_set_level0_slowdown_writes_trigger(l->options,
								   (int)opt->l0_slowdown);
	has_log = !opt->no_log;
	for (i = 0; i < ARRAY_SIZE(l->write); i++)
		rocksdb_writeoptions_disable_WAL(l->write[i], opt->no_log);
	return library_opened(store, l, opt->path);
}

static int store_sync(void *store)
{
	struct library *l = store;
	rocksdb_flushoptions_t *wait;
	char *err = NULL;

	if (has_log) {
		rocksdb_flush_wal(l->db, true, &err);
		return noted(err);
	}
	wait = rocksdb_flushoptions_create();
	rocksdb_flush(l->db, wait, &err);
	rocksdb_flushoptions_destroy(wait);
	return noted(err);
}

const struct store_ops store_rocksdb = {
	LIBRARY_OPS,
	.open = store_open,
	.sync = store_sync,
};
