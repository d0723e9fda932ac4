/* SPDX-License-Identifier: GPL-2.0 */
/* Find the tracks of a medium. */
#ifndef SHINGLE_MEDIUM_H
#define SHINGLE_MEDIUM_H

#include "device.h"
#include "plan.h"

bool medium_parse(const char *reply, struct shingle_medium *m, u32 *head_tracks, char *why);
bool medium_read(const char *path, const struct device *d, struct shingle_medium *m,
		 u32 *head_tracks);
bool medium_ask(const struct device *d, struct shingle_medium *m, u32 *head_tracks);

#endif /* SHINGLE_MEDIUM_H */
