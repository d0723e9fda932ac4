/* SPDX-License-Identifier: GPL-2.0 */
/* Print layouts as text and as JSON. */
#ifndef SHINGLE_SHOW_H
#define SHINGLE_SHOW_H

#include "image.h"
#include "json.h"
#include "tool.h"

const char *role_name(enum shingle_role role);
const char *dev_name(enum shingle_dev dev);
void show_capacity(const struct shingle_layout *l);
void show_layout(const struct shingle_layout *l, const struct engine_row *row);
void show_layout_json(const struct shingle_layout *l, const struct engine_row *row,
		      struct json_object *j);

#endif /* SHINGLE_SHOW_H */
