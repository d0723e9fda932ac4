/* SPDX-License-Identifier: GPL-2.0 */
/* The interface of the volatile write cache. */
#ifndef SHINGLE_IO_WCACHE_H
#define SHINGLE_IO_WCACHE_H

#include "base/device.h"

void shingle_wcache_prepare(struct shingle_device *d);
int shingle_wcache_init(struct shingle_device *d);
void shingle_wcache_exit(struct shingle_device *d);
u32 shingle_wcache_take(struct shingle_device *d, u64 lblk, u32 n, struct list_head *slots);
bool shingle_wcache_fill(struct shingle_device *d, struct bio *bio, struct bvec_iter iter,
			 struct list_head *slots);
bool shingle_wcache_find(struct shingle_device *d, u64 lblk, u32 *n, struct shingle_hits *hits);
void shingle_copy_block(struct bio *bio, struct bvec_iter *iter, u8 *mem, bool to_bio);
void shingle_wcache_read(struct shingle_device *d, struct bio *bio, struct shingle_hits *hits);
bool shingle_wcache_in_the_way(struct shingle_device *d, u64 lblk, u64 n, u64 seq);
bool shingle_wcache_flush(struct shingle_device *d, struct bio *bio);
void shingle_wcache_written(struct shingle_device *d, struct list_head *slots, bool failed);
void shingle_wcache_kick(struct shingle_device *d);
void shingle_wcache_look(struct shingle_device *d);
int shingle_wcache_drain(struct shingle_device *d);
int shingle_wcache_switch(struct shingle_device *d, bool on);
void shingle_wcache_stop(struct shingle_device *d);

/* For engines that gather writes, see gather.c. */
u32 shingle_wcache_clear(struct shingle_device *d, u64 lblk, u32 n);
u32 shingle_wcache_freeze(struct shingle_device *d);
u32 shingle_wcache_overlay(struct shingle_device *d, u64 lblk, u32 n, u8 *buf);
u32 shingle_wcache_frozen(struct shingle_device *d, u64 *lblk, u64 end, u32 n, u8 *buf);
bool shingle_wcache_is_frozen(struct shingle_device *d, u64 lblk);
void shingle_wcache_stepped(struct shingle_device *d, u64 lblk, u32 n, bool failed);
void shingle_wcache_epoch_ended(struct shingle_device *d);

#endif /* SHINGLE_IO_WCACHE_H */
