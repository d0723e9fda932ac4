/* SPDX-License-Identifier: GPL-2.0 */
/* Acknowledged blocks that are lost, and that no FLUSH has reported yet. */
#ifndef SHINGLE_LOSS_H
#define SHINGLE_LOSS_H

#include "base/device.h"

int shingle_loss_init(struct shingle_device *d);
void shingle_loss_free(struct shingle_device *d);
void shingle_loss_keep(struct shingle_device *d);
void shingle_loss_forget(void);
void shingle_loss_take(struct shingle_device *d, bool again);

#endif /* SHINGLE_LOSS_H */
