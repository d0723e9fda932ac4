// SPDX-License-Identifier: GPL-2.0
/*
 * Fully-associative translation layer: encodes and decodes its checkpoint pieces and its
 * journal records.  The tables at the end list them.
 */
#include "full/state.h"

static u64 nr_written(const struct shingle_layout *l)
{
	return DIV_ROUND_UP(stl_full_nr_bands(l), SHINGLE_CHUNK_BITS);
}

static u32 encode_written(struct shingle_engine *e, u32 at, void *buf)
{
	const struct stl_full *s = to_full(e);

	return shingle_bits_encode(s->written, s->nr_bands, at, buf);
}

static u64 nr_homes(const struct shingle_layout *l)
{
	return DIV_ROUND_UP(stl_full_nr_bands(l), PART_HOMES);
}

static u32 encode_homes(struct shingle_engine *e, u32 at, void *buf)
{
	const struct stl_full *s = to_full(e);
	u32 first = at * PART_HOMES, n = min(s->nr_bands - first, PART_HOMES), i;
	bool moved = false;
	__le32 *p = buf;

	for (i = 0; i < n; i++) {
		p[i] = cpu_to_le32(s->home[first + i]);
		moved |= s->home[first + i] != first_home(s, first + i);
	}
	return moved ? n * sizeof(*p) : 0;
}

static u64 nr_log_parts(const struct shingle_layout *l)
{
	return (u64)stl_full_nr_logs(l) *
	       shingle_slotlog_parts(l->band_blocks[SHINGLE_ROLE_DATA]);
}

static u32 encode_log(struct shingle_engine *e, u32 at, void *buf)
{
	const struct stl_full *s = to_full(e);
	u32 parts = shingle_slotlog_parts(s->band_blocks), log = at / parts, part = at % parts, n;
	__le32 *p = buf;

	if (s->log[log].band == NO_BAND)
		return 0;
	n = shingle_slotlog_encode(&s->logs, log, part, p + 3);
	if (!n)
		return 0;
	p[0] = cpu_to_le32(s->log[log].band);
	p[1] = cpu_to_le32(s->logs.log[log].age);
	p[2] = cpu_to_le32(part * PART_SLOTS + n);
	return (n + 3) * sizeof(*p);
}

static int decode_written(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct stl_full *s = to_full(e);

	return shingle_bits_decode(s->written, s->nr_bands, at, buf, bytes);
}

static int decode_homes(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct stl_full *s = to_full(e);
	u32 first = at * PART_HOMES, n = min(s->nr_bands - first, PART_HOMES), i;
	const __le32 *p = buf;

	if (bytes != n * sizeof(*p))
		return -EUCLEAN;
	for (i = 0; i < n; i++)
		s->home[first + i] = le32_to_cpu(p[i]);
	return 0;
}

/* The pieces of one log may name two bands: see shingle_slotlog_adopt(). */
static int decode_log(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct stl_full *s = to_full(e);
	u32 parts = shingle_slotlog_parts(s->band_blocks), log = at / parts;
	u32 first = at % parts * PART_SLOTS, n = bytes / sizeof(__le32), i;
	struct shingle_slotlog *l = &s->logs.log[log];
	const __le32 *p = buf;

	if (n < 4 || bytes % sizeof(*p) || n - 3 > s->band_blocks - first ||
	    le32_to_cpu(p[2]) > s->band_blocks)
		return -EUCLEAN;
	s->log[log].band = le32_to_cpu(p[0]);
	l->age = le32_to_cpu(p[1]);
	l->fill = max(l->fill, le32_to_cpu(p[2]));
	for (i = 0; i < n - 3; i++) {
		u32 lblk = le32_to_cpu(p[i + 3]);

		if (lblk >= SHINGLE_SLOT_OWNED &&
		    shingle_slotlog_adopt(&s->logs, log * s->band_blocks + first + i,
					  lblk - SHINGLE_SLOT_OWNED))
			return -EUCLEAN;
	}
	return 0;
}

static int replay_open(struct shingle_engine *e, u64 log, u64 band, u32 n, u32 age)
{
	struct stl_full *s = to_full(e);

	if (log >= s->logs.nr_logs || band >= s->g.bands)
		return -EUCLEAN;
	/* The log is clear: the record that freed it came before. */
	s->log[log].band = band;
	s->logs.log[log].age = age;
	return 0;
}

static int replay_map(struct shingle_engine *e, u64 lblk, u64 slot, u32 n, u32 c)
{
	return shingle_slotlog_replay(&to_full(e)->logs, lblk, slot, n);
}

static int replay_home(struct shingle_engine *e, u64 band, u64 to, u32 n, u32 c)
{
	struct stl_full *s = to_full(e);

	if (band >= s->nr_bands || to >= s->g.bands)
		return -EUCLEAN;
	s->home[band] = to;
	__set_bit(band, s->written);
	drop_band(s, band);
	return 0;
}

static int replay_free(struct shingle_engine *e, u64 log, u64 b, u32 n, u32 c)
{
	struct stl_full *s = to_full(e);

	if (log >= s->logs.nr_logs)
		return -EUCLEAN;
	shingle_slotlog_replay_clear(&s->logs, log);
	s->log[log].band = NO_BAND;
	return 0;
}

static int replay_discard(struct shingle_engine *e, u64 band, u64 nr, u32 n, u32 c)
{
	struct stl_full *s = to_full(e);
	u32 i;

	if (band >= s->nr_bands || nr > s->nr_bands - band)
		return -EUCLEAN;
	for (i = band; i < band + nr; i++) {
		stl_full_set_written(s, i, false);
		drop_band(s, i);
	}
	s->logs.map.looks += nr;
	return 0;
}

static int replay_drop(struct shingle_engine *e, u64 lblk, u64 b, u32 n, u32 c)
{
	return shingle_slotlog_replay_drop(&to_full(e)->logs, lblk, n);
}

/* Give @band a use; fails if it has one or belongs to another zone. */
static int claim(struct stl_full *s, u32 band, u32 zone, u32 kind, u32 which)
{
	if (band >= s->g.bands || zone_of_physical(s, band) != zone ||
	    use_kind(s, band) != USE_FREE)
		return -EUCLEAN;
	stl_full_set_use(s, band, kind, which);
	return 0;
}

static int ready_log(struct stl_full *s, u32 log, const char **why)
{
	struct full_log *l = &s->log[log];

	if (l->band == NO_BAND) {
		s->logs.log[log].fill = 0;
	} else if (claim(s, l->band, zone_of_log(s, log), USE_LOG, log)) {
		*why = "two bands or logs are at one place";
		return -EUCLEAN;
	}
	if (shingle_slotlog_ready(&s->logs, log)) {
		*why = "a log names a block that it cannot hold";
		return -EUCLEAN;
	}
	if (l->band == NO_BAND)
		return 0;
	l->recorded = true;
	s->logs.age = max(s->logs.age, s->logs.log[log].age + 1);
	return 0;
}

int stl_full_ready(struct shingle_engine *e, const char **why)
{
	struct stl_full *s = to_full(e);
	u32 i;

	shingle_slotmap_drop_groups(&s->logs.map);
	for (i = 0; i < s->nr_bands; i++) {
		if (claim(s, s->home[i], zone_of_band(s, i), USE_HOME, i)) {
			*why = "two bands have one home, or one in another zone";
			return -EUCLEAN;
		}
	}
	for (i = 0; i < s->logs.nr_logs; i++) {
		if (ready_log(s, i, why))
			return -EUCLEAN;
		cond_resched();
	}
	for (i = 0; i < s->g.bands; i++)
		s->zone[zone_of_physical(s, i)].free += use_kind(s, i) == USE_FREE;
	return 0;
}

const struct shingle_piece_kind stl_full_pieces[] = {
	[STL_FULL_WRITTEN] = { nr_written, encode_written, decode_written },
	[STL_FULL_HOMES] = { nr_homes, encode_homes, decode_homes },
	[STL_FULL_LOGS] = { nr_log_parts, encode_log, decode_log },
	{ }
};

const struct shingle_record_kind stl_full_records[] = {
	{ STL_FULL_OPEN, "OPEN", NULL, "log", "place", NULL, replay_open },
	{ STL_FULL_MAP, "MAP", "blocks", "lblk", "slot", NULL, replay_map },
	{ STL_FULL_HOME, "HOME", NULL, "band", "place", NULL, replay_home },
	{ STL_FULL_FREE, "FREE", NULL, "log", NULL, NULL, replay_free },
	{ STL_FULL_DISCARD, "DISCARD", NULL, "band", "bands", NULL, replay_discard },
	{ STL_FULL_DROP, "DROP", "blocks", "lblk", NULL, NULL, replay_drop },
	{ }
};

int stl_full_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct stl_full *s = to_full(e);

	if (!s->logs.map.group_blocks &&
	    shingle_slotmap_count_groups(&s->logs.map, s->layout->logical_blocks))
		return -ENOMEM;
	return shingle_record_replay(stl_full_records, e, rec);
}
