/* SPDX-License-Identifier: GPL-2.0 */
/* A load of random writes, and a model of the contents that a store must have after them. */
#ifndef KV_CHECK_MODEL_H
#define KV_CHECK_MODEL_H

#include "sim.h"

#define BANDS		40U
#define BAND		KV_BAND_MIN
#define BYTES		((u64)(BANDS + 10) * BAND)
#define SMALL_BYTES	((u64)20 * BAND)
/* Size of the offload device: it has fewer bands than a burst fills. */
#define SPARE_BYTES	((u64)7 * BAND)

#define KEYS		160U
#define MAX_BATCHES	6000U
#define MAX_OPS		6U

/**
 * struct model - for each key the number of the batch that last wrote it; 0 if it has no value
 * @by: the numbers
 */
struct model {
	u32 by[KEYS];
};

/**
 * struct load - random writes, determined by a seed
 * @seed: the seed
 * @batches: number of batches
 * @value_bytes: size of the largest value
 */
struct load {
	u64 seed;
	u32 batches, value_bytes;
};

size_t key_of(u32 key, char *text);
void model_apply(struct model *m, const struct load *l, u32 batch);
int load_write(struct kv *kv, const struct load *l, u32 batch, bool *synced);
void model_check(struct kv *kv, const struct load *l, const struct model *m,
		 const struct kv_snapshot *snap, const char *when);
void model_walk(struct kv_iter *it, const struct load *l, const struct model *m,
		const char *when);
void model_delete_range(struct model *m, const char *from, size_t from_bytes, const char *to,
			size_t to_bytes);
u32 model_batches(struct kv *kv, const char *when);

/* main.c */
extern struct kv_options options;
struct sim *formatted(u64 bytes);
struct sim *formatted_as(u64 bytes, u32 band_bytes);
struct kv *opened(struct sim *s, const char *when);
bool has_offload(void);
void offload_some(struct kv *kv, u32 batch);
void starve(u64 next);
void crash(u8 *image, const struct event *event, u32 first, u32 end, u32 state);
void flushed(u8 *durable, struct event *event, u32 *first, u32 end);
void check_clean(struct kv *kv, const char *when);

/*
 * States of the disk after a power cut.  All events before some event, and all events marked
 * durable, are on the disk.  The disk has, of the other events: none; all; all but a part of the
 * last one; any blocks of them; or all of one device and none of the other.
 */
enum { LOSE_ALL, LOSE_NONE, TEAR_LAST, LOSE_ANY, LOSE_DISK, LOSE_SPARE, NR_STATES };

/*
 * Tests of damage.c, craft.c, forge.c, vectors.c, threads.c, layers.c, reads.c, transient.c,
 * stress.c, again.c, spent.c, estimate.c, group.c, sizes.c, ranges.c, repair.c, checkpoint.c and
 * picks.c.
 */
void quiet(void *ctx, const char *text);
void test_damage(u64 seed, u32 batches);
void test_log(u64 seed, u32 batches);
void test_craft(u64 seed, u32 count);
void test_forge(u64 seed, u32 count);
void test_vectors(u64 seed, u32 count);
void test_threads(struct kv *kv, u32 rounds);
void test_layers(u64 seed, u32 count);
void test_reads(u64 seed, u32 count);
void test_transient(u64 seed, u32 count);
void test_stress(u64 seed, u32 count);
void test_again(u64 seed, u32 count);
void test_spent(u64 seed, u32 count);
void test_estimate(u64 seed, u32 count);
void test_group(u64 seed, u32 count);
void test_queue(u64 seed, u32 count);
void test_sizes(u64 seed, u32 count);
void test_ranges(u64 seed, u32 count);
void test_repair(u64 seed, u32 count);
void test_checkpoint(u64 seed, u32 count);
void test_picks(u64 seed, u32 count);

#endif /* KV_CHECK_MODEL_H */
