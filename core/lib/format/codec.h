/* SPDX-License-Identifier: GPL-2.0 */
/* Metadata blocks: sealing, which completes the header with its checksum, and checking. */
#ifndef SHINGLE_CODEC_H
#define SHINGLE_CODEC_H

#include "format/format.h"

/* Reasons to reject a block, in the order of the checks. */
enum shingle_block_fault {
	SHINGLE_BLOCK_OK = 0,
	SHINGLE_BLOCK_FOREIGN,		/* another magic: not ours, or never written */
	SHINGLE_BLOCK_CORRUPT,		/* ours, but the checksum fails */
	SHINGLE_BLOCK_OTHER_UUID,	/* sound, but of another device */
	SHINGLE_BLOCK_MISPLACED,	/* sound, but meant for another place */
	SHINGLE_BLOCK_UNCOUNTABLE,	/* sound, but its number is higher than any valid one */
};

void shingle_seal(void *buf, u32 magic, const u8 *uuid, u64 block, u64 seq);
enum shingle_block_fault shingle_check_block(const void *buf, u32 magic, const u8 *uuid,
					     u64 block);
const char *shingle_fault_text(enum shingle_block_fault fault);

/* Bits in one piece of a bitmap. */
#define SHINGLE_CHUNK_BITS	(SHINGLE_CHUNK_BYTES * 8U)

u32 shingle_bits_encode(const unsigned long *map, u32 nr, u32 part, u8 *buf);
int shingle_bits_decode(unsigned long *map, u32 nr, u32 part, const u8 *buf, u32 bytes);

/**
 * shingle_record_set() - fill in a journal record
 * @r: the record
 * @type: SHINGLE_REC_* or the engine's
 * @n: see struct shingle_record
 * @c: see struct shingle_record
 * @a: see struct shingle_record
 * @b: see struct shingle_record
 *
 * Context: any.
 */
static inline void shingle_record_set(struct shingle_record *r, u16 type, u16 n, u32 c, u64 a,
				      u64 b)
{
	r->type = cpu_to_le16(type);
	r->n = cpu_to_le16(n);
	r->c = cpu_to_le32(c);
	r->a = cpu_to_le64(a);
	r->b = cpu_to_le64(b);
}

#endif /* SHINGLE_CODEC_H */
