/* SPDX-License-Identifier: GPL-2.0 */
/* Magic numbers and locations that identify a key-value store and its offload device. */
#ifndef SHINGLE_KV_MAGIC_H
#define SHINGLE_KV_MAGIC_H

#include <shim.h>

/* In the first eight bytes of the header and of its copy. */
#define KV_MAGIC		0x45524f5453564bULL	/* "KVSTORE" */
/* Offset in the header of the place of its copy. */
#define KV_COPY_OFFSET		80U
#define KV_OFFLOAD_MAGIC	0x444c46464f564bULL	/* "KVOFFLD" */
/* Replaces KV_MAGIC in both while a checkpoint is written and is not yet complete. */
#define KV_UNFINISHED_MAGIC	0x59504f43564bULL	/* "KVCOPY" */
/* In a store's second block, the start of the band table. */
#define KV_BANDS_MAGIC		0x53444e4142564bULL	/* "KVBANDS" */

#define KV_BLOCK_BYTES	4096U
#define KV_SLOTS	4U
/* Length of a band's entry in the band table, with keys of the maximum length. */
#define KV_ENTRY_MAX	2096U

/**
 * struct kv_places - locations in a store
 * @bands: number of bands
 * @slot_bytes: length of each slot of the band table; the first one follows the header
 * @bands_offset: offset of the first band; the header's copy is in the block before it
 */
struct kv_places {
	u32 bands;
	u64 slot_bytes, bands_offset;
};

/* Locations in a store of @bytes, with as many bands as fit. */
static inline struct kv_places kv_places(u64 bytes, u32 band_bytes)
{
	/* Upper bound: the bands that would fit with only their entries. */
	u64 meta, most = bytes / ((u64)band_bytes + KV_SLOTS * KV_ENTRY_MAX);
	struct kv_places p = { .bands = (u32)min_t(u64, most, U32_MAX / 2) };

	for (; p.bands; p.bands--) {
		p.slot_bytes = KV_BLOCK_BYTES +
			round_up((u64)p.bands * KV_ENTRY_MAX, KV_BLOCK_BYTES);
		meta = KV_BLOCK_BYTES + KV_SLOTS * p.slot_bytes + KV_BLOCK_BYTES;
		/* Align bands to multiples of their length, like the bands of the disk. */
		p.bands_offset = roundup(meta, (u64)band_bytes);
		if (p.bands_offset + (u64)p.bands * band_bytes <= bytes)
			break;
	}
	return p;
}

#endif /* SHINGLE_KV_MAGIC_H */
