// SPDX-License-Identifier: GPL-2.0
/* A disk in memory.  A reset restores only the blocks that were written since the last one. */
#include "fuzz.h"

#define BYTES	((u64)(BANDS + 4) * BAND)
#define BLOCKS	(BYTES / BLOCK_BYTES)

static u8 data[BYTES], kept[BYTES];
static bool dirty[BLOCKS];

/* Return: the bytes, which the caller may change; NULL beyond the end of the disk. */
u8 *disk_at(u64 offset, u64 bytes)
{
	u64 i;

	if (offset > BYTES || bytes > BYTES - offset)
		return NULL;
	for (i = offset / BLOCK_BYTES; i < DIV_ROUND_UP(offset + bytes, BLOCK_BYTES); i++)
		dirty[i] = true;
	return data + offset;
}

/* Make the current contents those that every input begins with. */
void disk_keep(void)
{
	memcpy(kept, data, BYTES);
	memset(dirty, 0, sizeof(dirty));
}

void disk_reset(void)
{
	u64 i;

	for (i = 0; i < BLOCKS; i++) {
		if (dirty[i])
			memcpy(data + i * BLOCK_BYTES, kept + i * BLOCK_BYTES, BLOCK_BYTES);
		dirty[i] = false;
	}
}

static void in_range(u64 offset, u64 bytes)
{
	if (offset % BLOCK_BYTES || bytes % BLOCK_BYTES || !bytes || offset > BYTES ||
	    bytes > BYTES - offset)
		broken("a request for %llu bytes at %llu", bytes, offset);
}

static int mem_read(struct kv_disk *d, u64 offset, void *buf, u32 bytes)
{
	in_range(offset, bytes);
	memcpy(buf, data + offset, bytes);
	return 0;
}

static int mem_write(struct kv_disk *d, u64 offset, const void *buf, u32 bytes)
{
	in_range(offset, bytes);
	memcpy(disk_at(offset, bytes), buf, bytes);
	return 0;
}

static int mem_flush(struct kv_disk *d)
{
	return 0;
}

static int mem_discard(struct kv_disk *d, u64 offset, u64 bytes)
{
	in_range(offset, bytes);
	/* A store that reads discarded bytes must not find an old magic there. */
	memset(disk_at(offset, bytes), 0xdd, bytes);
	return 0;
}

static void mem_close(struct kv_disk *d)
{
}

struct kv_disk *disk_mem(void)
{
	static const struct kv_disk_ops ops = {
		.read = mem_read, .write = mem_write, .begin = disk_begin_done,
		.end = disk_end_done, .flush = mem_flush, .discard = mem_discard,
		.close = mem_close,
	};
	static struct kv_disk disk = { .ops = &ops, .name = "memory", .bytes = BYTES };

	return &disk;
}
