// SPDX-License-Identifier: GPL-2.0
/* Sealing and checking of metadata blocks: pure code, see pure.h. */
#include "format/codec.h"

static u32 block_crc(const void *buf)
{
	const struct shingle_header *h = buf;
	const size_t skip = offsetof(struct shingle_header, uuid);

	return crc32c(le32_to_cpu(h->magic), (const u8 *)buf + skip, SHINGLE_BLOCK_SIZE - skip);
}

/**
 * shingle_seal() - complete a block's header, checksum last
 * @buf: 4 KiB block with a final body
 * @magic: SHINGLE_MAGIC_*
 * @uuid: UUID of the device
 * @block: the place to which it will be written, in blocks of its device
 * @seq: generation, transaction or checkpoint number
 *
 * Context: any.
 */
void shingle_seal(void *buf, u32 magic, const u8 *uuid, u64 block, u64 seq)
{
	struct shingle_header *h = buf;

	h->magic = cpu_to_le32(magic);
	memcpy(h->uuid, uuid, SHINGLE_UUID_SIZE);
	h->block = cpu_to_le64(block);
	h->seq = cpu_to_le64(seq);
	h->crc = cpu_to_le32(block_crc(buf));
}

/**
 * shingle_check_block() - is this block the expected one?
 * @buf: 4 KiB block as read
 * @magic: SHINGLE_MAGIC_* expected
 * @uuid: UUID of the device, or NULL for any
 * @block: the place from which it was read, or U64_MAX for any
 *
 * Context: any.
 * Return: SHINGLE_BLOCK_OK or the first fault found.
 */
enum shingle_block_fault shingle_check_block(const void *buf, u32 magic, const u8 *uuid,
					     u64 block)
{
	const struct shingle_header *h = buf;

	if (le32_to_cpu(h->magic) != magic)
		return SHINGLE_BLOCK_FOREIGN;
	if (le32_to_cpu(h->crc) != block_crc(buf))
		return SHINGLE_BLOCK_CORRUPT;
	if (uuid && memcmp(h->uuid, uuid, SHINGLE_UUID_SIZE))
		return SHINGLE_BLOCK_OTHER_UUID;
	if (block != U64_MAX && le64_to_cpu(h->block) != block)
		return SHINGLE_BLOCK_MISPLACED;
	if (le64_to_cpu(h->seq) > SHINGLE_MAX_SEQ)
		return SHINGLE_BLOCK_UNCOUNTABLE;
	return SHINGLE_BLOCK_OK;
}

/**
 * shingle_fault_text() - text of a block fault
 * @fault: result of shingle_check_block()
 *
 * Context: any.
 * Return: the text.
 */
const char *shingle_fault_text(enum shingle_block_fault fault)
{
	switch (fault) {
	case SHINGLE_BLOCK_OK:
		return "sound";
	case SHINGLE_BLOCK_FOREIGN:
		return "no dm-shingle metadata";
	case SHINGLE_BLOCK_CORRUPT:
		return "checksum mismatch";
	case SHINGLE_BLOCK_OTHER_UUID:
		return "belongs to another dm-shingle device";
	case SHINGLE_BLOCK_MISPLACED:
		return "was written for another address";
	case SHINGLE_BLOCK_UNCOUNTABLE:
		return "has a number that cannot be";
	}
	return "unknown fault";
}

/**
 * shingle_bits_encode() - encode a piece of a bitmap for a checkpoint
 * @map: the bitmap
 * @nr: number of its bits
 * @part: number of the piece of SHINGLE_CHUNK_BITS
 * @buf: SHINGLE_CHUNK_BYTES
 *
 * Context: any.
 * Return: number of bytes without trailing zeroes, 0 if none.
 */
u32 shingle_bits_encode(const unsigned long *map, u32 nr, u32 part, u8 *buf)
{
	u32 first = part * SHINGLE_CHUNK_BITS, n = min(nr - first, SHINGLE_CHUNK_BITS);
	u32 i, bytes = 0;

	memset(buf, 0, SHINGLE_CHUNK_BYTES);
	for (i = 0; i < n; i++) {
		if (test_bit(first + i, map)) {
			buf[i / 8] |= 1U << (i % 8);
			bytes = i / 8 + 1;
		}
	}
	return bytes;
}
EXPORT_SYMBOL_GPL(shingle_bits_encode);

/**
 * shingle_bits_decode() - restore a piece of a bitmap
 * @map: the bitmap; bits are only set
 * @nr: number of its bits
 * @part: number of the piece
 * @buf: result of shingle_bits_encode()
 * @bytes: its length
 *
 * Context: any.
 * Return: 0, or -EUCLEAN if the piece has more bits.
 */
int shingle_bits_decode(unsigned long *map, u32 nr, u32 part, const u8 *buf, u32 bytes)
{
	u32 i;

	for (i = 0; i < bytes * 8; i++) {
		if (!(buf[i / 8] & (1U << (i % 8))))
			continue;
		if (i >= nr - part * SHINGLE_CHUNK_BITS)
			return -EUCLEAN;
		__set_bit(part * SHINGLE_CHUNK_BITS + i, map);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_bits_decode);
