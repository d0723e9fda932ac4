// SPDX-License-Identifier: GPL-2.0
/* What the tool knows of each translation layer: one row each. */
#include "engines.h"
#include "full-engine.h"
#include "imr-engine.h"
#include "set-engine.h"

static const struct record_words core_records[] = {
	{ SHINGLE_REC_BAD, "BAD", NULL, "lblk", NULL },
	{ SHINGLE_REC_GOOD, "GOOD", NULL, "lblk", "blocks" },
	{ 0, NULL, NULL, NULL, NULL },
};

static const struct record_words stl_set_records[] = {
	{ STL_SET_MAP, "MAP", "blocks", "lblk", "slot" },
	{ STL_SET_STAGED, "STAGED", NULL, "band", "snapshot" },
	{ STL_SET_CLEANED, "CLEANED", NULL, "band", "snapshot" },
	{ STL_SET_RESET, "RESET", NULL, "set", NULL },
	{ STL_SET_DISCARD, "DISCARD", NULL, "band", "bands" },
	{ STL_SET_DROP, "DROP", "blocks", "lblk", NULL },
	{ STL_SET_DIRECT, "DIRECT", "blocks", "lblk", NULL },
	{ 0, NULL, NULL, NULL, NULL },
};

static const struct record_words stl_full_records[] = {
	{ STL_FULL_OPEN, "OPEN", NULL, "log", "place" },
	{ STL_FULL_MAP, "MAP", "blocks", "lblk", "slot" },
	{ STL_FULL_HOME, "HOME", NULL, "band", "place" },
	{ STL_FULL_FREE, "FREE", NULL, "log", NULL },
	{ STL_FULL_DISCARD, "DISCARD", NULL, "band", "bands" },
	{ STL_FULL_DROP, "DROP", "blocks", "lblk", NULL },
	{ 0, NULL, NULL, NULL, NULL },
};

#define FULL_ZONE_BLOCKS	((40ULL << 30) / SHINGLE_BLOCK_SIZE)
#define FULL_PROVISION_PERCENT	5

/* Zones of 40 GiB, of which 5 % is not addressable and 1 % is log: spec 1.4. */
static void stl_full_settle(struct shingle_layout *l)
{
	struct stl_full_params *p = (void *)l->params;
	u64 bands = le32_to_cpu(p->zone_bands), provision = le32_to_cpu(p->provision);

	if (!bands)
		bands = max(FULL_ZONE_BLOCKS / l->band_blocks, 1ULL);
	bands = min(bands, l->nr_bands[SHINGLE_ROLE_DATA]);
	if (!provision)
		provision = max(DIV_ROUND_UP(bands * FULL_PROVISION_PERCENT, 100), 3ULL);
	if (!p->log_bands)
		p->log_bands = cpu_to_le32(min(max(provision / 5, 2ULL), provision - 1));
	p->zone_bands = cpu_to_le32(bands);
	p->provision = cpu_to_le32(provision);
}

static const struct record_words imr_records[] = {
	{ IMR_MAP, "MAP", "valid", "track", "place" },
	{ IMR_UNMAP, "UNMAP", NULL, "track", "tracks" },
	{ IMR_BACKUP, "BACKUP", NULL, "track", "slot" },
	{ IMR_RESTORED, "RESTORED", NULL, "track", "slot" },
	{ IMR_LEVEL, "LEVEL", NULL, "track", "tracks" },
	{ 0, NULL, NULL, NULL, NULL },
};

static const struct engine_row engines[] = {
	{ &stl_set_engine_ops, true, 1, false, stl_set_records, NULL },
	{ &stl_full_engine_ops, false, 0, false, stl_full_records, stl_full_settle },
	{ &imr_engine_ops, false, 0, true, imr_records, NULL },
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

static const struct record_words *words_of(const struct engine_row *row, u16 type)
{
	const struct record_words *w = core_records;

	if (type >= SHINGLE_REC_ENGINE)
		w = row ? row->records : NULL;
	while (w && w->name && w->type != type)
		w++;
	return w && w->name ? w : NULL;
}

const char *record_name(const struct engine_row *row, u16 type)
{
	const struct record_words *w = words_of(row, type);

	return w ? w->name : "unknown";
}

void record_print(const struct engine_row *row, const struct shingle_record *r, FILE *f)
{
	u16 type = le16_to_cpu(r->type);
	const struct record_words *w = words_of(row, type);

	if (!w) {
		fprintf(f, "unknown type=0x%04x n=%u c=%u a=%llu b=%llu", type, le16_to_cpu(r->n),
			le32_to_cpu(r->c), (u64)le64_to_cpu(r->a), (u64)le64_to_cpu(r->b));
		return;
	}
	fprintf(f, "%s", w->name);
	if (w->a)
		fprintf(f, " %s=%llu", w->a, (u64)le64_to_cpu(r->a));
	if (w->n)
		fprintf(f, " %s=%u", w->n, le16_to_cpu(r->n));
	if (w->b)
		fprintf(f, " %s=%llu", w->b, (u64)le64_to_cpu(r->b));
}

void record_json(const struct engine_row *row, const struct shingle_record *r, struct json *j)
{
	u16 type = le16_to_cpu(r->type);
	const struct record_words *w = words_of(row, type);

	json_open(j, NULL, '{');
	json_str(j, "record", w ? w->name : "unknown");
	if (!w)
		json_u64(j, "type", type);
	if (!w || w->a)
		json_u64(j, w ? w->a : "a", le64_to_cpu(r->a));
	if (!w || w->n)
		json_u64(j, w ? w->n : "n", le16_to_cpu(r->n));
	if (!w || w->b)
		json_u64(j, w ? w->b : "b", le64_to_cpu(r->b));
	json_close(j, '}');
}
