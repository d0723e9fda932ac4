/* SPDX-License-Identifier: GPL-2.0 */
/* The interface between a store and its disk; tests supply a disk of their own. */
#ifndef KV_DISK_H
#define KV_DISK_H

#include <shim.h>

#define BLOCK_BYTES	4096U

/**
 * struct kv_io - a request that runs in parallel to others
 * @offset: in bytes, a multiple of BLOCK_BYTES
 * @buf: aligned to BLOCK_BYTES
 * @bytes: size, a multiple of BLOCK_BYTES
 * @writing: the request is a write
 * @busy: the request has begun and not ended
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
 * struct kv_disk_ops - operations of a disk
 * @read: read all bytes, or fail with -errno; from any thread
 * @write: write all bytes, or fail with -errno; durable only after @flush; from any thread
 * @begin: start a request; only from the thread that compacts
 * @end: wait for a request
 * @flush: make all earlier writes durable, or fail with -errno; from any thread
 * @discard: the contents of a range are no longer needed; may do nothing
 * @prepare: a range without needed contents will be written in small pieces, with a flush after
 *	each; may do nothing, or be NULL
 * @level: a discarded range will hold a table of this level of the tree, counted from 0, or with
 *	@moved a range holds one now; only from the thread that compacts; may do nothing, or be NULL
 * @close: close the disk
 * @leave: in a child of fork(): close only the file descriptors, as the parent goes on with the
 *	disk; or NULL
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
	void (*leave)(struct kv_disk *d);
};

/**
 * struct kv_disk - an open disk
 * @ops: its operations
 * @name: its name in messages
 * @bytes: its size
 * @ring_error: errno of the failed setup of io_uring; 0 if it has one or needs none
 */
struct kv_disk {
	const struct kv_disk_ops *ops;
	const char *name;
	u64 bytes;
	int ring_error;
};

/* @begin for a disk without parallel requests: does the request at once by @read or @write. */
static inline int disk_begin_done(struct kv_disk *d, struct kv_io *io)
{
	io->result = io->writing ? d->ops->write(d, io->offset, io->buf, io->bytes) :
				   d->ops->read(d, io->offset, io->buf, io->bytes);
	io->busy = true;
	return 0;
}

/* @end for such a disk. */
static inline int disk_end_done(struct kv_disk *d, struct kv_io *io)
{
	io->busy = false;
	return io->result;
}

int disk_open(struct kv_disk **disk, const char *path, bool writing);

#endif /* KV_DISK_H */
