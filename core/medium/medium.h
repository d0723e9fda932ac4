/* SPDX-License-Identifier: GPL-2.0 */
/* The medium: core's own reads and writes, and the order of all writes. */
#ifndef SHINGLE_MEDIUM_H
#define SHINGLE_MEDIUM_H

#include <linux/completion.h>

#include "base/device.h"

/**
 * struct shingle_batch - I/O in flight together
 * @left: number of parts in flight, plus one until the batch is waited for
 * @failed: a part has failed
 * @done: all parts have ended
 */
struct shingle_batch {
	atomic_t left;
	bool failed;
	struct completion done;
};

/* order.c */
void shingle_order_init(struct shingle_device *d);
void shingle_join_flight(struct shingle_device *d, struct shingle_write *w);
void shingle_leave_flight(struct shingle_device *d, struct shingle_write *w);

/* readers.c */
bool shingle_reading(struct shingle_device *d, u8 set);
void shingle_wait_for_readers(struct shingle_device *d);
void shingle_release(struct shingle_device *d);

/* rw.c */
void shingle_batch_init(struct shingle_batch *b);
void shingle_batch_io(struct shingle_device *d, struct shingle_batch *b, blk_opf_t opf,
		      enum shingle_dev dev, u64 block, u32 n, void *buf);
void shingle_batch_wait(struct shingle_batch *b);
unsigned int shingle_add_buffer(struct bio *bio, const void *buf, size_t bytes);
int shingle_rw(struct shingle_device *d, blk_opf_t opf, enum shingle_dev dev, u64 block, u32 n,
	       void *buf);
int shingle_reader_read(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf);
int shingle_reader_read_each(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf,
			     int *errs);

/* Count a read among the readers, if it is not yet.  Context: map lock. */
static inline void shingle_join_readers(struct shingle_device *d, struct shingle_io *io)
{
	if (io->state == SHINGLE_IO_READ)
		return;
	io->state = SHINGLE_IO_READ;
	io->reader_set = d->order.reader_set;
	this_cpu_inc(d->cpu->readers[io->reader_set]);
}

/*
 * A read that joined the count of readers @set has ended.  There are two counts, see
 * shingle_cpu::readers.
 */
static inline void shingle_leave_readers(struct shingle_device *d, u8 set)
{
	this_cpu_dec(d->cpu->readers[set]);
	/* As in prepare_to_wait(): either the waiter sees the count, or we see the waiter. */
	smp_mb();
	if (likely(READ_ONCE(d->order.reader_set) == set && !READ_ONCE(d->phase.resetting)))
		return;
	/* The barrier above orders this check, too: a waiter that it misses sees the new count. */
	if (waitqueue_active(&d->wait))
		wake_up_all(&d->wait);
}

#endif /* SHINGLE_MEDIUM_H */
