/* SPDX-License-Identifier: GPL-2.0 */
/* What a store must hold, and a load that puts it there. */
#ifndef KV_CHECK_MODEL_H
#define KV_CHECK_MODEL_H

#include "sim.h"

#define BANDS		40U
#define BAND		KV_BAND_MIN
#define BYTES		((u64)(BANDS + 10) * BAND)
#define SMALL_BYTES	((u64)20 * BAND)
/* Of an offload device: fewer bands than there are bursts to fill. */
#define SPARE_BYTES	((u64)7 * BAND)

#define KEYS		160U
#define MAX_BATCHES	6000U
#define MAX_OPS		6U

/**
 * struct model - numbers of the batch that last wrote each key; 0 if it has no value
 * @by: see there
 */
struct model {
	u32 by[KEYS];
};

/**
 * struct load - random writes, the same for the same seed
 * @seed: see there
 * @batches: how many
 * @value_bytes: of the largest value
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
 * What the disk may hold when the power is cut behind an event, and what was before some other
 * one is durable, as is what is said to be: nothing of what came since, all of it, all but a
 * part of the last one, any blocks of it, or all of one device and nothing of the other.
 */
enum { LOSE_ALL, LOSE_NONE, TEAR_LAST, LOSE_ANY, LOSE_DISK, LOSE_SPARE, NR_STATES };

/*
 * damage.c, craft.c, forge.c, vectors.c, threads.c, layers.c, reads.c, transient.c, storm.c,
 * again.c, spent.c, estimate.c, group.c, sizes.c, ranges.c,
 * repair.c, checkpoint.c, picks.c
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
void test_storm(u64 seed, u32 count);
void test_again(u64 seed, u32 count);
void test_spent(u64 seed, u32 count);
void test_estimate(u64 seed, u32 count);
void test_group(u64 seed, u32 count);
void test_sizes(u64 seed, u32 count);
void test_ranges(u64 seed, u32 count);
void test_repair(u64 seed, u32 count);
void test_checkpoint(u64 seed, u32 count);
void test_picks(u64 seed, u32 count);

#endif /* KV_CHECK_MODEL_H */
