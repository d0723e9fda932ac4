// SPDX-License-Identifier: GPL-2.0
/* Table of the translation layers that the tool knows. */
#include "dual/engine.h"
#include "rmwf/engine.h"
#include "engines.h"
#include "full/engine.h"
#include "imr-engine.h"
#include "log/engine.h"
#include "log-defaults.h"
#include "set/engine.h"
#include "tiler-engine.h"
#include "tiler-region.h"
#ifdef SHINGLE_TOYS
#include "paged-engine.h"
#endif

static const struct shingle_record_kind core_records[] = {
	{ SHINGLE_REC_BAD, "BAD", .a = "lblk" },
	{ SHINGLE_REC_GOOD, "GOOD", .a = "lblk", .b = "blocks" },
	{ }
};

#define FULL_ZONE_BLOCKS	((40ULL << 30) / SHINGLE_BLOCK_SIZE)
#define FULL_PROVISION_PERCENT	5

static u64 full_provision(u64 zone_bands)
{
	return max(DIV_ROUND_UP(zone_bands * FULL_PROVISION_PERCENT, 100), 3ULL);
}

/*
 * Fill in defaults: zones of 40 GiB, 5 % not addressable, 1 % log: Aghayev (2020), section
 * 2.3.1.
 */
static void stl_full_derive(struct shingle_layout *l)
{
	struct stl_full_params *p = (void *)l->params;
	u64 bands = le32_to_cpu(p->zone_bands), provision = le32_to_cpu(p->provision);

	if (!bands)
		bands = max(FULL_ZONE_BLOCKS / l->band_blocks[SHINGLE_ROLE_DATA], 1ULL);
	bands = min(bands, l->nr_bands[SHINGLE_ROLE_DATA]);
	if (!provision)
		provision = full_provision(bands);
	if (!p->log_bands)
		p->log_bands = cpu_to_le32(min(max(provision / 5, 2ULL), provision - 1));
	p->zone_bands = cpu_to_le32(bands);
	p->provision = cpu_to_le32(provision);
}

/*
 * Check parameters before the layout is known.  A zone may later get fewer bands, and then a
 * smaller default provision, never a larger one.
 */
static const char *stl_full_wrong(const struct shingle_layout *l)
{
	const struct stl_full_params *p = (const void *)l->params;
	u32 zone = le32_to_cpu(p->zone_bands), provision = le32_to_cpu(p->provision);

	if (!provision && !zone)
		return NULL;
	return stl_full_params_wrong(zone ?: U32_MAX,
				     provision ?: min(full_provision(zone), (u64)U32_MAX),
				     le32_to_cpu(p->log_bands) ?: 1);
}

/* Fill in defaults. */
static void stl_log_derive(struct shingle_layout *l)
{
	struct stl_log_params *p = (void *)l->params;
	u64 bands = l->nr_bands[SHINGLE_ROLE_DATA], home = le32_to_cpu(p->home_bands), blocks;

	if (home >= bands)
		return;
	bands -= home;
	blocks = bands * l->band_blocks[SHINGLE_ROLE_DATA];
	if (!p->reserve)
		p->reserve = cpu_to_le32(log_default_reserve(bands));
	if (!p->extents)
		p->extents = cpu_to_le32(log_default_extents(blocks));
}

/* Check parameters before the layout is known. */
static const char *stl_log_wrong(const struct shingle_layout *l)
{
	const struct stl_log_params *p = (const void *)l->params;

	return p->reserve ? stl_log_params_wrong(U64_MAX, le32_to_cpu(p->home_bands),
						 le32_to_cpu(p->reserve)) : NULL;
}

static const char *tiler_wrong(const struct shingle_layout *l)
{
	const struct tiler_params *p = (const void *)l->params;

	if ((u64)le32_to_cpu(p->rows) * le32_to_cpu(p->columns) <= TILER_MAX_BLOCKS)
		return NULL;
	return "a region has 1 to 65535 blocks, and --rows times --columns are more";
}

/* Assumed length of a track, 2 MiB, on media without tracks. */
#define TILER_TRACK_BLOCKS	512U

/* Length of a band of @rows tracks; the caller passes the longest track. */
static u64 tiler_band(const struct shingle_layout *l, u32 track_blocks)
{
	const struct tiler_params *p = (const void *)l->params;
	u32 rows = le32_to_cpu(p->rows);

	if (!track_blocks && rows)
		track_blocks = p->columns ? TILER_TRACK_BLOCKS :
			       min(TILER_TRACK_BLOCKS, TILER_MAX_BLOCKS / rows);
	return (u64)rows * track_blocks;
}

static const struct engine_row engines[] = {
	{ .ops = &stl_set_engine_ops },
	{ .ops = &stl_full_engine_ops, .derive = stl_full_derive, .wrong = stl_full_wrong },
	{ .ops = &stl_log_engine_ops, .derive = stl_log_derive, .wrong = stl_log_wrong },
	{ .ops = &imr_engine_ops },
	{ .ops = &tiler_engine_ops, .wrong = tiler_wrong, .band = tiler_band },
	{ .ops = &dualbuffer_engine_ops },
	{ .ops = &rmwf_engine_ops },
#ifdef SHINGLE_TOYS
	{ .ops = &paged_engine_ops },
#endif
};

const struct engine_row *engine_by_index(u32 i)
{
	return i < ARRAY_SIZE(engines) ? &engines[i] : NULL;
}

const struct engine_row *engine_by_name(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		if (!strcmp(engines[i].ops->name, name))
			return &engines[i];
	}
	return NULL;
}

const char *engine_names(char *buf, size_t size)
{
	size_t used = 0;
	u32 i;

	buf[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(engines) && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : "",
					 engines[i].ops->name);
	return buf;
}

void engine_param_set(const struct shingle_option *p, u8 *params, u32 value)
{
	__le32 v = cpu_to_le32(value);

	memcpy(params + p->offset, &v, sizeof(v));
}

u32 engine_param_get(const struct shingle_option *p, const u8 *params)
{
	__le32 v;

	memcpy(&v, params + p->offset, sizeof(v));
	return le32_to_cpu(v);
}

/* Name and fields of a record type; NULL if unknown. */
const struct shingle_record_kind *record_kind(const struct engine_row *row, u16 type)
{
	if (type < SHINGLE_REC_ENGINE)
		return shingle_record_find(core_records, type);
	return row ? shingle_record_find(row->ops->records, type) : NULL;
}

const char *record_name(const struct engine_row *row, u16 type)
{
	const struct shingle_record_kind *w = record_kind(row, type);

	return w ? w->name : "unknown";
}
