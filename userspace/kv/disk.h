/* SPDX-License-Identifier: GPL-2.0 */
/* What a store asks of its disk; tests put one of their own behind it. */
#ifndef KV_DISK_H
#define KV_DISK_H

#include <shim.h>

#define BLOCK_BYTES	4096U

/**
 * struct kv_io - a request that is under way beside others
 * @offset: in bytes, as @bytes a multiple of BLOCK_BYTES
 * @buf: aligned to BLOCK_BYTES
 * @bytes: of it
 * @writing: to the disk
 * @busy: begun and not ended
 * @done: the disk has answered
 * @result: 0 or -errno
 */
struct kv_io {
	u64 offset;
	void *buf;
	u32 bytes;
	bool writing, busy, done;
	int result;
};

struct kv_disk;

/**
 * struct kv_disk_ops - a disk
 * @read: all of it or -errno; any thread
 * @write: all of it or -errno; durable after @flush only; any thread
 * @begin: start a request; who compacts only
 * @end: wait for it
 * @flush: what was written before it is durable, or -errno; any thread
 * @discard: a range means nothing any more; may do nothing
 * @prepare: a range that means nothing is about to be written in small pieces, each of which is
 *	flushed; may do nothing, or be NULL
 * @level: a discarded range is about to hold, or one that @moved holds, a table of this
 *	level of the tree, from 0; who compacts only; may do nothing, or be NULL
 * @close: the disk is not used any more
 */
struct kv_disk_ops {
	int (*read)(struct kv_disk *d, u64 offset, void *buf, u32 bytes);
	int (*write)(struct kv_disk *d, u64 offset, const void *buf, u32 bytes);
	int (*begin)(struct kv_disk *d, struct kv_io *io);
	int (*end)(struct kv_disk *d, struct kv_io *io);
	int (*flush)(struct kv_disk *d);
	int (*discard)(struct kv_disk *d, u64 offset, u64 bytes);
	void (*prepare)(struct kv_disk *d, u64 offset, u32 bytes);
	int (*level)(struct kv_disk *d, u64 offset, u64 bytes, u32 level, bool moved);
	void (*close)(struct kv_disk *d);
};

/**
 * struct kv_disk - a disk in use
 * @ops: see there
 * @name: for sentences
 * @bytes: its size
 * @ring_error: errno for which it has no io_uring; 0 with one, and where none is wanted
 */
struct kv_disk {
	const struct kv_disk_ops *ops;
	const char *name;
	u64 bytes;
	int ring_error;
};

/* @begin of a disk that does all as it is asked, by its @read and @write. */
static inline int disk_begin_done(struct kv_disk *d, struct kv_io *io)
{
	io->result = io->writing ? d->ops->write(d, io->offset, io->buf, io->bytes) :
				   d->ops->read(d, io->offset, io->buf, io->bytes);
	io->busy = true;
	return 0;
}

/* @end of such a disk. */
static inline int disk_end_done(struct kv_disk *d, struct kv_io *io)
{
	io->busy = false;
	return io->result;
}

int disk_open(struct kv_disk **disk, const char *path, bool writing);

#endif /* KV_DISK_H */
