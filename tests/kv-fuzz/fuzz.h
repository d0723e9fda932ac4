/* SPDX-License-Identifier: GPL-2.0 */
/* Functions that the harnesses share: a disk in memory with a store, and the guarantees. */
#ifndef KV_FUZZ_H
#define KV_FUZZ_H

#include "store.h"

#define BAND		KV_BAND_MIN
#define BANDS		16U

/**
 * struct input - an input; bytes are taken from its start
 * @at: the next byte
 * @left: number of bytes left
 */
struct input {
	const u8 *at;
	size_t left;
};

u64 take(struct input *in, u32 bytes);
const u8 *take_bytes(struct input *in, size_t want, size_t *got);

/* disk.c */
struct kv_disk *disk_mem(void);
u8 *disk_at(u64 offset, u64 bytes);
void disk_keep(void);
void disk_reset(void);

/* use.c */
extern const struct kv_options use_options;
extern struct kv use_shape;
/* Number of inputs so far that could be opened, and that were without damage. */
extern u32 use_opened, use_clean;

void use_begin(bool filled, enum kv_organisation organisation);
void use_bands(u64 generation, u64 next_id, u64 next_age, u64 seq, u32 entries,
	       const void *body, size_t bytes);
void use_store(void);
void broken(const char *fmt, ...) __printf(1, 2) __attribute__((noreturn));

/**
 * struct harness - a reader to fuzz
 * @name: its name
 * @begin: called once, before the first input
 * @eat: called for each input; aborts if a guarantee is broken
 */
struct harness {
	const char *name;
	void (*begin)(void);
	void (*eat)(struct input in);
};

extern const struct harness harness_table, harness_unsorted, harness_log, harness_bands,
	harness_formats;

#endif /* KV_FUZZ_H */
