/* SPDX-License-Identifier: GPL-2.0 */
/* Cleaning. */
#ifndef SHINGLE_CLEAN_H
#define SHINGLE_CLEAN_H

#include "base/device.h"

/* cleaner.c */
void shingle_clean_init(struct shingle_device *d);

/* copy.c */
bool shingle_step_allowed(struct shingle_device *d, const struct shingle_step *step);
int shingle_copy_step(struct shingle_device *d, const struct shingle_step *step, bool *unread);

/* epoch.c */
void shingle_epoch_open(struct shingle_device *d);
void shingle_epoch_close(struct shingle_device *d);
void shingle_epoch_stepped(struct shingle_device *d, const struct shingle_step *step);

#endif /* SHINGLE_CLEAN_H */
