/* SPDX-License-Identifier: GPL-2.0 */
/* Counts of host bios, which each processor keeps for itself, and their sums. */
#ifndef SHINGLE_HOST_H
#define SHINGLE_HOST_H

#include "base/device.h"

unsigned long shingle_quiet_for(struct shingle_device *d);
void shingle_add_counters(struct shingle_device *d, struct shingle_counters *n);
void shingle_clear_counters(struct shingle_device *d);

#endif /* SHINGLE_HOST_H */
