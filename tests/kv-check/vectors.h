/* SPDX-License-Identifier: GPL-2.0 */
/* Cases worked out by hand, by subject. */
#ifndef KV_CHECK_VECTORS_H
#define KV_CHECK_VECTORS_H

#include "model.h"

/* Number of bands by contents; @band: the last one of them. */
struct bands {
	u32 logs, unsorted, sorted, band;
};

/* Put @value for each letter of @keys, and write them to a table of their own. */
void put(struct kv *kv, const char *keys, const char *value);
/* Verify that a key of one letter has this value, or none if @value is NULL. */
void want(struct kv *kv, const char *key, const char *value);
void complain(void *ctx, const char *text);
struct bands bands_of(struct kv *kv);
/* Return: the number of bands of the offload device that are in use. */
u32 offloaded(struct kv *kv);

void vectors_of_merges(void);
void vectors_of_room(void);
void vectors_of_logs(void);
void vectors_of_offloading(void);
void vectors_of_what_is_kept(void);

/* main.c: total bytes of large allocations. */
extern u64 large_allocations;

void vectors_of_memtables(void);

#endif /* KV_CHECK_VECTORS_H */
