/* SPDX-License-Identifier: GPL-2.0 */
/* Commands that look at the metadata of a device: check, repair, dump. */
#ifndef SHINGLE_OFFLINE_H
#define SHINGLE_OFFLINE_H

#include "check.h"

/**
 * struct offline_args - their command lines
 * @path: the devices, by enum shingle_dev
 * @json: in JSON
 * @yes: do not ask
 * @dry_run: say what would be done, and do not
 * @journal: the journal too
 * @map: the map too
 */
struct offline_args {
	const char *path[SHINGLE_NR_DEVS];
	bool json;
	bool yes;
	bool dry_run;
	bool journal;
	bool map;
};

/* Options that they all have. */
#define OFFLINE_OPTIONS					\
	{ "cache", required_argument, NULL, 'C' },	\
	{ "meta", required_argument, NULL, 'M' },	\
	{ "help", no_argument, NULL, 'h' }

#define OFFLINE_HELP \
	"  --cache DEV       the cache device, to have its header and size checked\n" \
	"  --meta DEV        the metadata device, if it was formatted with one\n"

typedef int (*offline_fn)(struct image *img, struct check *c, const struct offline_args *a);

int offline_run(const struct command *cmd, int argc, char **argv, const struct option *options,
		enum device_mode mode, offline_fn fn);

#endif /* SHINGLE_OFFLINE_H */
