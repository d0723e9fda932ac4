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
 * Unsound and unreadable blocks are skipped, and those in which no transaction was written yet.
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
		    le32_to_cpu(b->nr_records) > SHINGLE_JOURNAL_RECORDS || !b->h.seq)
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

/* Are these blocks of the ring sound? */
static bool all_sound(struct image *img, u64 pos, u32 n, const struct shingle_journal_block *b)
{
	u64 block = img->l.journal.start + pos;
	u32 i;

	for (i = 0; i < n; i++) {
		if (shingle_check_block(&b[i], SHINGLE_MAGIC_JOURNAL, img->l.uuid, block + i))
			return false;
	}
	return true;
}

/**
 * ring_make_readable() - overwrite the blocks of the ring that recovery could not judge
 * @img: image with its layout; the contents of the ring are no longer needed
 * @why: on error, a sentence tail
 *
 * Writing repairs an unreadable block, or the disk replaces it.  On a medium where a write
 * destroys the blocks ahead, all blocks from the first one on that is not sound are written: with
 * blocks of no transaction, so that recovery can distinguish a transaction that a power cut tore
 * from a damaged one (shingle_journal_seal_empty()).
 *
 * Return: 0 or -errno.
 */
int ring_make_readable(struct image *img, const char **why)
{
	struct shingle_journal_block *b = shingle_zalloc_array(RING_BATCH, sizeof(*b));
	u64 blocks = img->l.journal.blocks, start = img->l.journal.start, pos;
	struct device *meta = image_meta(img);
	bool writing = false;
	int err = 0;
	u32 n, i;

	*why = "out of memory";
	if (!b)
		return -ENOMEM;
	*why = "a block of the journal can neither be read nor written";
	for (pos = 0; pos < blocks && !err; pos += n) {
		bool unread;

		n = min_t(u64, blocks - pos, RING_BATCH);
		/* Writing has destroyed the first of the next blocks. */
		unread = !writing && device_read(meta, start + pos, n, b);
		if (!img->l.journal_gap_blocks) {
			if (unread)
				err = overwrite_unreadable(meta, start + pos, n, b);
			continue;
		}
		writing = writing || unread || !all_sound(img, pos, n, b);
		if (!writing)
			continue;
		for (i = 0; i < n; i++)
			shingle_journal_seal_empty(&img->l, &b[i], pos + i);
		err = device_write(meta, start + pos, n, b);
	}
	kvfree(b);
	return err ?: device_sync(meta);
}
