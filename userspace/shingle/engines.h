/* SPDX-License-Identifier: GPL-2.0 */
/* Table of the translation layers that the tool knows. */
#ifndef SHINGLE_ENGINES_H
#define SHINGLE_ENGINES_H

#include "engine/engine.h"

/**
 * struct engine_row - a translation layer
 * @ops: the engine
 * @derive: derives parameters that are 0 from @l's data bands; or NULL
 * @wrong: returns an error in @l's parameters that no layout can avoid, or NULL if there is
 *   none; may be NULL
 * @band: returns the length of a band that @l's parameters ask for with tracks of
 *   @track_blocks (0 without tracks), or 0 if they ask for none; may be NULL
 */
struct engine_row {
	const struct shingle_engine_ops *ops;
	void (*derive)(struct shingle_layout *l);
	const char *(*wrong)(const struct shingle_layout *l);
	u64 (*band)(const struct shingle_layout *l, u32 track_blocks);
};

const struct engine_row *engine_by_index(u32 i);
const struct engine_row *engine_by_name(const char *name);
const char *engine_names(char *buf, size_t size);
void engine_param_set(const struct shingle_option *p, u8 *params, u32 value);
u32 engine_param_get(const struct shingle_option *p, const u8 *params);

const struct shingle_record_kind *record_kind(const struct engine_row *row, u16 type);
const char *record_name(const struct engine_row *row, u16 type);

#endif /* SHINGLE_ENGINES_H */
