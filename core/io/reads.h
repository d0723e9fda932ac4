/* SPDX-License-Identifier: GPL-2.0 */
/* Reads of blocks that lie in fragments, for an engine with a read side. */
#ifndef SHINGLE_READS_H
#define SHINGLE_READS_H

#include "base/device.h"

int shingle_reads_init(struct shingle_device *d);
void shingle_reads_exit(struct shingle_device *d);
void shingle_reads_add(struct shingle_device *d, struct bio *bio);
void shingle_reads_kick(struct shingle_device *d);
void shingle_reads_stop(struct shingle_device *d);

#endif /* SHINGLE_READS_H */
