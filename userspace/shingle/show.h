/* SPDX-License-Identifier: GPL-2.0 */
/* Layouts for people and for machines. */
#ifndef SHINGLE_SHOW_H
#define SHINGLE_SHOW_H

#include "image.h"

#define UUID_TEXT	37

/* What a device says of itself, as people may see it; by value, as size_text(). */
struct shown_text {
	char s[1100];
};
struct shown_text shown(const char *text);
void uuid_text(const u8 *uuid, char *text);
const char *role_name(enum shingle_role role);
const char *dev_name(enum shingle_dev dev);
void show_layout(const struct shingle_layout *l, const struct engine_row *row);
void show_layout_json(const struct shingle_layout *l, const struct engine_row *row,
		      struct json *j);

#endif /* SHINGLE_SHOW_H */
