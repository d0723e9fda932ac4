/* SPDX-License-Identifier: GPL-2.0 */
/* What tells a key-value store, and its offload device; and where. */
#ifndef SHINGLE_KV_MAGIC_H
#define SHINGLE_KV_MAGIC_H

#include <shim.h>

/* Of the first eight bytes, and of those of the header's copy. */
#define KV_MAGIC		0x45524f5453564bULL	/* "KVSTORE" */
#define KV_OFFLOAD_MAGIC	0x444c46464f564bULL	/* "KVOFFLD" */
/* Of both while a checkpoint is written: the rest is there only once they are KV_MAGIC. */
#define KV_UNFINISHED_MAGIC	0x59504f43564bULL	/* "KVCOPY" */
/* Of a store's second block. */
#define KV_BANDS_MAGIC		0x53444e4142564bULL	/* "KVBANDS" */

#define KV_BLOCK_BYTES	4096U
#define KV_SLOTS	4U
/* Of a band in the band table, with the longest keys. */
#define KV_ENTRY_MAX	2096U

/**
 * struct kv_places - where a store has what
 * @bands: how many
 * @slot_bytes: of each slot of the band table; the first one begins behind the header
 * @bands_offset: of the first band; the header's copy is in the block before it
 */
struct kv_places {
	u32 bands;
	u64 slot_bytes, bands_offset;
};

/* Of a store of @bytes, with as many bands as there is room for. */
static inline struct kv_places kv_places(u64 bytes, u32 band_bytes)
{
	/* No more than would fit with their entries alone. */
	u64 meta, most = bytes / ((u64)band_bytes + KV_SLOTS * KV_ENTRY_MAX);
	struct kv_places p = { .bands = (u32)min_t(u64, most, U32_MAX / 2) };

	for (; p.bands; p.bands--) {
		p.slot_bytes = KV_BLOCK_BYTES +
			round_up((u64)p.bands * KV_ENTRY_MAX, KV_BLOCK_BYTES);
		meta = KV_BLOCK_BYTES + KV_SLOTS * p.slot_bytes + KV_BLOCK_BYTES;
		/* Bands of a disk that begins with one of its own are the store's, too. */
		p.bands_offset = roundup(meta, (u64)band_bytes);
		if (p.bands_offset + (u64)p.bands * band_bytes <= bytes)
			break;
	}
	return p;
}

#endif /* SHINGLE_KV_MAGIC_H */
