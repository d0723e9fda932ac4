// SPDX-License-Identifier: GPL-2.0
/* A store that keeps nothing; each operation may take a given time. */
#include <time.h>

#include "arrivals.h"
#include "store.h"
#include "tool.h"

static int null_open(void **store, const struct store_options *opt)
{
	struct store_options *mine = malloc(sizeof(*mine));

	if (!mine)
		return fail("no memory");
	*mine = *opt;
	*store = mine;
	return EXIT_CLEAN;
}

static int wait_a_bit(const struct store_options *opt)
{
	struct timespec t = {
		.tv_sec = (time_t)(opt->delay_us / 1000000),
		.tv_nsec = (long)(opt->delay_us % 1000000 * 1000),
	};

	if (opt->delay_us)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return 0;
}

static int null_put(void *store, const void *key, size_t key_bytes, const void *value,
		    size_t value_bytes, bool sync)
{
	return wait_a_bit(store);
}

static int null_get(void *store, const void *key, size_t key_bytes, void *value, size_t room,
		    size_t *value_bytes)
{
	*value_bytes = 0;
	return wait_a_bit(store);
}

static int null_del(void *store, const void *key, size_t key_bytes, bool sync)
{
	return wait_a_bit(store);
}

static int null_scan(void *store, const void *key, size_t key_bytes, u64 records, u64 *found)
{
	*found = 0;
	return wait_a_bit(store);
}

static int null_sync(void *store)
{
	return wait_a_bit(store);
}

static int null_close(void *store)
{
	free(store);
	return EXIT_CLEAN;
}

const struct store_ops store_null = {
	.name = "null",
	.open = null_open,
	.put = null_put,
	.get = null_get,
	.del = null_del,
	.scan = null_scan,
	.sync = null_sync,
	.close = null_close,
};
