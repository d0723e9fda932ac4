// SPDX-License-Identifier: GPL-2.0
/* Walking over the journal ring block by block. */
#include "codec.h"
#include "ring.h"

/**
 * ring_walk() - visit the sound blocks of the ring
 * @img: its layout is known
 * @from: first position
 * @blocks: how many, round the end of the ring
 * @fn: called for each
 * @ctx: for @fn
 *
 * Blocks that are not sound, or unreadable, are passed over.  Returns 0,
 * -ENOMEM, or what @fn returned to end the walk.
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
