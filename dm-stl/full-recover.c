// SPDX-License-Identifier: GPL-2.0
/*
 * Fully-associative translation layer: its pieces in checkpoints and its records, and back
 * from them.
 */
#include "full-state.h"

static u32 encode_homes(const struct stl_full *s, u32 part, __le32 *p)
{
	u32 first = part * PART_HOMES, n = min(s->nr_bands - first, PART_HOMES), i;
	bool moved = false;

	for (i = 0; i < n; i++) {
		p[i] = cpu_to_le32(s->home[first + i]);
		moved |= s->home[first + i] != first_home(s, first + i);
	}
	return moved ? n * sizeof(*p) : 0;
}

static u32 encode_log(const struct stl_full *s, u32 log, u32 part, __le32 *p)
{
	u32 n;

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

u32 stl_full_encode(struct shingle_engine *e, u64 *cursor, u64 *index, void *buf)
{
	struct stl_full *s = to_full(e);
	u32 maps = stl_full_written_parts(s), homes = stl_full_home_parts(s);
	u32 parts = shingle_slotlog_parts(s->band_blocks);
	u64 end = (u64)maps + homes + (u64)s->logs.nr_logs * parts, at = *cursor;

	if (at >= end) {
		*cursor = SHINGLE_NOWHERE;
		return 0;
	}
	*index = at;
	*cursor = at + 1;
	if (at < maps)
		return shingle_bits_encode(s->written, s->nr_bands, at, buf);
	at -= maps;
	if (at < homes)
		return encode_homes(s, at, buf);
	at -= homes;
	return encode_log(s, div_u64(at, parts), at % parts, buf);
}

static int decode_homes(struct stl_full *s, u32 part, const __le32 *p, u32 bytes)
{
	u32 first = part * PART_HOMES, n = min(s->nr_bands - first, PART_HOMES), i;

	if (bytes != n * sizeof(*p))
		return -EUCLEAN;
	for (i = 0; i < n; i++)
		s->home[first + i] = le32_to_cpu(p[i]);
	return 0;
}

/* Two bands may be under the number of one log: see shingle_slotlog_adopt(). */
static int decode_log(struct stl_full *s, u32 log, u32 part, const __le32 *p, u32 bytes)
{
	u32 first = part * PART_SLOTS, n = bytes / sizeof(*p), i;
	struct shingle_log *l = &s->logs.log[log];

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

int stl_full_decode(struct shingle_engine *e, u64 index, const void *buf, u32 bytes)
{
	struct stl_full *s = to_full(e);
	u32 maps = stl_full_written_parts(s), homes = stl_full_home_parts(s);
	u32 parts = shingle_slotlog_parts(s->band_blocks);

	if (index < maps)
		return shingle_bits_decode(s->written, s->nr_bands, index, buf, bytes);
	index -= maps;
	if (index < homes)
		return decode_homes(s, index, buf, bytes);
	index -= homes;
	if (index >= (u64)s->logs.nr_logs * parts)
		return -EUCLEAN;
	return decode_log(s, div_u64(index, parts), index % parts, buf, bytes);
}

static int replay_discard(struct stl_full *s, u64 band, u64 nr)
{
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

static int replay_drop(struct stl_full *s, u64 lblk, u32 n)
{
	if (lblk >= s->layout->logical_blocks || n > s->band_blocks - (u32)lblk % s->band_blocks)
		return -EUCLEAN;
	shingle_slotlog_drop(&s->logs, lblk, n, U32_MAX);
	return 0;
}

int stl_full_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct stl_full *s = to_full(e);
	u64 a = le64_to_cpu(rec->a), b = le64_to_cpu(rec->b);
	u32 n = le16_to_cpu(rec->n);

	if (!s->logs.map.crowd &&
	    shingle_slotmap_crowd(&s->logs.map, s->layout->logical_blocks))
		return -ENOMEM;
	switch (le16_to_cpu(rec->type)) {
	case STL_FULL_OPEN:
		if (a >= s->logs.nr_logs || b >= s->g.bands)
			return -EUCLEAN;
		/* It is clear: the record that freed it came before. */
		s->log[a].band = b;
		s->logs.log[a].age = le32_to_cpu(rec->c);
		return 0;
	case STL_FULL_MAP:
		return shingle_slotlog_replay(&s->logs, a, b, n);
	case STL_FULL_HOME:
		if (a >= s->nr_bands || b >= s->g.bands)
			return -EUCLEAN;
		s->home[a] = b;
		__set_bit(a, s->written);
		drop_band(s, a);
		return 0;
	case STL_FULL_FREE:
		if (a >= s->logs.nr_logs)
			return -EUCLEAN;
		shingle_slotlog_replay_clear(&s->logs, a);
		s->log[a].band = NO_BAND;
		return 0;
	case STL_FULL_DISCARD:
		return replay_discard(s, a, b);
	case STL_FULL_DROP:
		return replay_drop(s, a, n);
	}
	return -EUCLEAN;
}

/* Give @band a use, unless it has one or is of another zone. */
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

	shingle_slotmap_uncrowd(&s->logs.map);
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
