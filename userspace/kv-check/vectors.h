/* SPDX-License-Identifier: GPL-2.0 */
/* Cases worked out by hand, by what they are about. */
#ifndef KV_CHECK_VECTORS_H
#define KV_CHECK_VECTORS_H

#include "model.h"

/* Bands by what they hold; @band: the last one. */
struct bands {
	u32 logs, unsorted, sorted, band;
};

/* Each letter of @keys gets @value; a table of their own. */
void put(struct kv *kv, const char *keys, const char *value);
/* A key of one letter has this value; or none, if it is NULL. */
void want(struct kv *kv, const char *key, const char *value);
void complain(void *ctx, const char *text);
struct bands bands_of(struct kv *kv);
/* Bands that are in use of the offload device. */
u32 offloaded(struct kv *kv);

void vectors_of_merges(void);
void vectors_of_room(void);
void vectors_of_logs(void);
void vectors_of_offloading(void);
void vectors_of_what_is_kept(void);

/* main.c: bytes of large allocations, ever. */
extern u64 large_allocations;

void vectors_of_memtables(void);

#endif /* KV_CHECK_VECTORS_H */
