/* SPDX-License-Identifier: GPL-2.0 */
/* What the tool knows of each translation layer. */
#ifndef SHINGLE_ENGINES_H
#define SHINGLE_ENGINES_H

#include "engine/engine.h"

/**
 * struct engine_row - a translation layer
 * @ops: the engine
 * @cached: it has cache bands, which may be on a device of their own
 * @one_cache: there is one, as long as the whole cache
 * @staging_bands: that it needs
 * @interlaced: it is for interlaced tracks
 * @settle: fill in the parameters that were left 0 for @l's data bands; or NULL
 * @wrong: what no layout would make right in @l's parameters, a sentence; or NULL, as where
 *	this is NULL
 * @band: blocks that @l's parameters want in a band on tracks of so many, 0 of which if
 *	there are no tracks; 0 if they want nothing; or NULL
 */
struct engine_row {
	const struct shingle_engine_ops *ops;
	bool cached;
	bool one_cache;
	u32 staging_bands;
	bool interlaced;
	void (*settle)(struct shingle_layout *l);
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
