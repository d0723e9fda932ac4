/* SPDX-License-Identifier: GPL-2.0 */
/* The failure ladder. */
#ifndef SHINGLE_MODE_H
#define SHINGLE_MODE_H

#include "base/device.h"

extern const char *const shingle_dev_names[SHINGLE_NR_DEVS];

void shingle_set_mode(struct shingle_device *d, enum shingle_mode mode, bool check,
		      const char *why);
int shingle_no_change(const struct shingle_device *d, const char **why);
int shingle_may_change(struct shingle_device *d, const char **why);

#endif /* SHINGLE_MODE_H */
