/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The options that a device stores in its superblock.  The targets do not use them; a tool that
 * opens the device puts them into its table line.
 */
#ifndef SHINGLE_SETTINGS_H
#define SHINGLE_SETTINGS_H

#include "format/format.h"

int shingle_settings_encode(const char *words, struct shingle_disk_settings *s, const char **why);
int shingle_settings_decode(const struct shingle_disk_settings *s, char *words, const char **why);

#endif /* SHINGLE_SETTINGS_H */
