// SPDX-License-Identifier: GPL-2.0
/* The journal ring, block by block. */
#include "format/codec.h"
#include "image.h"

/**
 * ring_walk() - visit the sound blocks of the ring
 * @img: image with its layout
 * @from: first position
 * @blocks: number of blocks, around the end of the ring
 * @fn: called for each sound block; a result other than 0 ends the walk
 * @ctx: passed to @fn
 *
 * Unsound and unreadable blocks are skipped.
 *
 * Return: 0, -ENOMEM, or the result of @fn.
 */
int ring_walk(struct image *img, u64 from, u64 blocks, ring_fn fn, void *ctx)
{
	struct shingle_journal_block *b = shingle_zalloc_array(1, sizeof(*b));
	struct device *meta = image_meta(img);
	int err = b ? 0 : -ENOMEM;
	u64 i;

	for (i = 0; i < blocks && !err; i++) {
		u64 pos = (from + i) % img->l.journal.blocks, at = img->l.journal.start + pos;

		if (device_read(meta, at, 1, b) ||
		    shingle_check_block(b, SHINGLE_MAGIC_JOURNAL, img->l.uuid, at) ||
		    le32_to_cpu(b->nr_records) > SHINGLE_JOURNAL_RECORDS)
			continue;
		err = fn(ctx, pos, b);
	}
	kvfree(b);
	return err;
}

/* Number of blocks that are read or written together. */
#define RING_BATCH	256

/* Overwrite only the unreadable blocks, on a medium where a write destroys no others. */
static int overwrite_unreadable(struct device *meta, u64 block, u32 n, void *b)
{
	int err = 0;

	for (; n && !err; n--, block++) {
		if (!device_read(meta, block, 1, b))
			continue;
		memset(b, 0, SHINGLE_BLOCK_SIZE);
		err = device_write(meta, block, 1, b);
	}
	return err;
}

/**
 * ring_make_readable() - overwrite the unreadable blocks of the ring
 * @img: image with its layout; the contents of the ring are no longer needed
 * @why: on error, a sentence tail
 *
 * Writing repairs an unreadable block, or the disk replaces it.  On a medium where a write
 * destroys the blocks ahead, all blocks from the first unreadable one on are written:
 * recovery tolerates such destroyed blocks only at the journal's end, which is elsewhere from
 * now on.
 *
 * Return: 0 or -errno.
 */
int ring_make_readable(struct image *img, const char **why)
{
	void *b = shingle_zalloc_array(RING_BATCH, SHINGLE_BLOCK_SIZE);
	u64 left = img->l.journal.blocks, block = img->l.journal.start;
	struct device *meta = image_meta(img);
	bool writing = false;
	int err = 0;
	u32 n;

	*why = "out of memory";
	if (!b)
		return -ENOMEM;
	*why = "a block of the journal can neither be read nor written";
	for (; left && !err; left -= n, block += n) {
		n = min_t(u64, left, RING_BATCH);
		if (!writing && !device_read(meta, block, n, b))
			continue;
		writing = img->l.journal_gap_blocks;
		memset(b, 0, (size_t)n * SHINGLE_BLOCK_SIZE);
		err = writing ? device_write(meta, block, n, b) :
				overwrite_unreadable(meta, block, n, b);
	}
	kvfree(b);
	return err ?: device_sync(meta);
}
