/* SPDX-License-Identifier: GPL-2.0 */
/* Common part of the offline commands: check, repair, dump. */
#ifndef SHINGLE_OFFLINE_H
#define SHINGLE_OFFLINE_H

#include "check.h"

/**
 * struct offline_args - the command line
 * @path: the devices, by enum shingle_dev
 * @json: print JSON
 * @yes: do not ask for confirmation
 * @dry_run: print the plan and change nothing
 * @journal: dump the journal
 * @map: dump the map
 */
struct offline_args {
	const char *path[SHINGLE_NR_DEVS];
	bool json;
	bool yes;
	bool dry_run;
	bool journal;
	bool map;
};

/* Options of all these commands. */
#define OFFLINE_OPTIONS					\
	{ "cache", required_argument, NULL, 'C' },	\
	{ "meta", required_argument, NULL, 'M' },	\
	{ "help", no_argument, NULL, 'h' }

#define OFFLINE_HELP \
	"  --cache DEV       the cache device, to check its header and size\n" \
	"  --meta DEV        the metadata device, if it was formatted with one\n"

typedef int (*offline_fn)(struct image *img, struct check *c, const struct offline_args *a);

int offline_run(const struct command *cmd, int argc, char **argv, const struct option *options,
		enum device_mode mode, offline_fn fn);

#endif /* SHINGLE_OFFLINE_H */
