/* SPDX-License-Identifier: GPL-2.0 */
/* The status lines of the targets, parsed. */
#ifndef SHINGLE_LINES_H
#define SHINGLE_LINES_H

#include "dm.h"

/**
 * struct layer_status - status line of a translation layer
 * @cached: number of blocks in the cache
 * @capacity: capacity of the cache in blocks
 * @journal_used: number of journal blocks in use
 * @journal: length of the journal in blocks
 * @steps: number of cleaning steps done
 * @cleaning: "idle" or "cleaning"
 * @needs_check: "needs_check" or "-"
 * @mode: "rw", "ro" or "fail"
 */
struct layer_status {
	unsigned long long cached;
	unsigned long long capacity;
	unsigned long long journal_used;
	unsigned long long journal;
	unsigned long long steps;
	char cleaning[16];
	char needs_check[16];
	char mode[16];
};

/**
 * struct platter_status - status line of a platter
 * @media: "cmr", "smr" or "imr"
 * @damage: treatment of blocks that the head destroys
 * @reads: number of reads
 * @writes: number of writes
 * @blocks_read: number of blocks read
 * @blocks_written: number of blocks written
 * @damaged: number of blocks that are destroyed now
 * @destroyed_reads: number of reads of destroyed blocks
 * @late: number of requests that completed later than in the model
 * @dirty: number of blocks in the write cache
 * @wcache: size of the write cache in blocks
 * @mode: "rw", "ro", "lost" or "fail"
 */
struct platter_status {
	char media[16];
	char damage[16];
	unsigned long long reads;
	unsigned long long writes;
	unsigned long long blocks_read;
	unsigned long long blocks_written;
	unsigned long long damaged;
	unsigned long long destroyed_reads;
	unsigned long long late;
	unsigned int dirty;
	unsigned int wcache;
	char mode[16];
};

static inline bool target_is_platter(const char *target)
{
	return !strcmp(target, "platter");
}

bool target_is_ours(const char *target);
bool line_of_ours(const char *name, struct dm_line *line);
bool for_each_of_ours(void (*fn)(const struct dm_line *line, void *ctx), void *ctx, bool *all);
bool line_is_layer(const struct dm_line *line, struct layer_status *s);
bool line_is_platter(const struct dm_line *line, struct platter_status *s);

#endif /* SHINGLE_LINES_H */
