/* SPDX-License-Identifier: GPL-2.0 */
/* The metadata of a dm-shingle device in memory, for offline use. */
#ifndef SHINGLE_IMAGE_H
#define SHINGLE_IMAGE_H

#include "device.h"
#include "engines.h"

/**
 * struct image - a device's metadata
 * @ds: the devices
 * @l: layout, from the newer sound superblock
 * @row: its translation layer
 * @engine: the engine, once recovered, or NULL
 * @bad: the list of unreadable blocks, once recovered
 * @rec: result of recovery
 * @member: state of the headers of devices without superblocks, in the first and in the last
 *   block
 */
struct image {
	struct devices ds;
	struct shingle_layout l;
	const struct engine_row *row;
	struct shingle_engine *engine;
	struct shingle_badlist bad;
	struct shingle_recovery rec;
	enum shingle_member_fault member[SHINGLE_NR_DEVS][2];
};

/* Size of a buffer for a sentence about the size of a device. */
#define SIZE_SENTENCE	160

/* Start of the journal behind a checkpoint. */
struct journal_start {
	u64 seq;
	u64 pos;
	u32 prev_crc;
};

struct image *image_new(void);
void image_free(struct image *img);
struct device *image_meta(struct image *img);
bool image_load(struct image *img);
bool image_accept(struct image *img);
bool image_larger(const struct image *img, enum shingle_dev dev, char *text);
void image_drop_engine(struct image *img);
int image_fresh_engine(struct image *img, const char **why);
int image_recover(struct image *img, u32 slot, bool stop_at_hole, bool give_up_pages,
		  u64 lost_seq, const char **why);
int image_read_page(struct image *img, u32 nr, struct shingle_chunk *c);
const char *image_page_text(struct image *img, u32 nr, char *buf, size_t size);
int image_write_checkpoint(struct image *img, u32 slot, u64 seq,
			   const struct journal_start *journal, const char **why);
int image_write_superblock(struct image *img, u64 block);
int image_write_superblocks(struct image *img, u32 first);
bool image_settings(const struct image *img, char *words, const char *way);
int image_write_member(struct image *img, enum shingle_dev dev, u64 block);
u64 image_member_block(const struct image *img, enum shingle_dev dev, u32 copy);
void image_no_superblock(struct image *img, const char *why);
u64 image_last_block(const struct image *img);

/* The journal ring, block by block. */

/*
 * Called for each sound journal block, @pos counted from the ring's start.
 * Returns non-zero to end the walk.
 */
typedef int (*ring_fn)(void *ctx, u64 pos, const struct shingle_journal_block *b);

int ring_walk(struct image *img, u64 from, u64 blocks, ring_fn fn, void *ctx);
int ring_make_readable(struct image *img, const char **why);

#endif /* SHINGLE_IMAGE_H */
