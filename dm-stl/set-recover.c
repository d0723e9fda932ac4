// SPDX-License-Identifier: GPL-2.0
/*
 * Set-associative translation layer: its pieces in checkpoints and its records, and back
 * from them.
 */
#include "set-state.h"

static u32 encode_globals(const struct stl_set *s, __le32 *p)
{
	p[0] = cpu_to_le32(s->staging.in_use);
	p[1] = cpu_to_le32(s->staging.band);
	p[2] = cpu_to_le32(s->staging.snapshot);
	p[3] = cpu_to_le32(s->staging.home_blocks);
	return s->staging.in_use ? 4 * sizeof(*p) : 0;
}

static u32 encode_whole(const struct stl_set *s, u32 part, u8 *buf)
{
	u32 first = part * SHINGLE_CHUNK_BITS, n = min(s->nr_bands - first, SHINGLE_CHUNK_BITS);
	u32 bytes = 0, i;

	memset(buf, 0, SHINGLE_CHUNK_BYTES);
	for (i = 0; i < n; i++) {
		if (whole_at_home(s, first + i)) {
			buf[i / 8] |= 1U << (i % 8);
			bytes = i / 8 + 1;
		}
	}
	return bytes;
}

static u32 encode_prefixes(const struct stl_set *s, u32 part, __le32 *p)
{
	u32 first = part * PART_BANDS, n = min(s->nr_bands - first, PART_BANDS), i;
	bool some = false;

	for (i = 0; i < n; i++) {
		bool prefix = s->home_blocks[first + i] && !whole_at_home(s, first + i);

		p[i] = prefix ? cpu_to_le32(s->home_blocks[first + i]) : 0;
		some |= prefix;
	}
	return some ? n * sizeof(*p) : 0;
}

static u32 encode_slots(const struct stl_set *s, u32 set, u32 part, __le32 *p)
{
	u32 n;

	/* An emptied set is empty, though its slots are not yet handed out. */
	if (set == s->clean.reset_set && s->clean.reset_seq != U64_MAX)
		return 0;
	n = shingle_slotlog_encode(&s->logs, set, part, p + 1);
	if (!n)
		return 0;
	p[0] = cpu_to_le32(part * PART_SLOTS + n);
	p[n + 1] = cpu_to_le32(s->logs.log[set].age);
	return (n + 2) * sizeof(*p);
}

u32 stl_set_encode(struct shingle_engine *e, u64 *cursor, u64 *index, void *buf)
{
	struct stl_set *s = to_set(e);
	u32 parts = shingle_slotlog_parts(s->band_blocks);
	u32 maps = stl_set_whole_parts(s);
	u64 slots = (u64)s->nr_sets * parts;
	u64 end = 1 + maps + slots + DIV_ROUND_UP(s->nr_bands, PART_BANDS), at = *cursor;

	if (at >= end) {
		*cursor = SHINGLE_NOWHERE;
		return 0;
	}
	*index = at;
	*cursor = at + 1;
	if (!at)
		return encode_globals(s, buf);
	if (at <= maps)
		return encode_whole(s, at - 1, buf);
	at -= 1 + maps;
	if (at < slots)
		return encode_slots(s, div_u64(at, parts), at % parts, buf);
	return encode_prefixes(s, at - slots, buf);
}

/* Early builds knew no bypass: nothing of what they have staged is at home. */
static int decode_globals(struct stl_set *s, const __le32 *p, u32 bytes)
{
	if (bytes != 3 * sizeof(*p) && bytes != 4 * sizeof(*p))
		return -EUCLEAN;
	s->staging.in_use = le32_to_cpu(p[0]);
	s->staging.band = le32_to_cpu(p[1]);
	s->staging.snapshot = le32_to_cpu(p[2]);
	s->staging.home_blocks = bytes == 4 * sizeof(*p) ? le32_to_cpu(p[3]) : 0;
	return 0;
}

static int decode_whole(struct stl_set *s, u32 part, const u8 *buf, u32 bytes)
{
	u32 first = part * SHINGLE_CHUNK_BITS, i;

	for (i = 0; i < bytes * 8; i++) {
		if (!(buf[i / 8] & (1U << (i % 8))))
			continue;
		if (i >= s->nr_bands - first)
			return -EUCLEAN;
		s->home_blocks[first + i] = s->band_blocks;
	}
	return 0;
}

static int decode_prefixes(struct stl_set *s, u32 part, const __le32 *p, u32 bytes)
{
	u32 first = part * PART_BANDS, n = min(s->nr_bands - first, PART_BANDS), i;

	if (bytes != n * sizeof(*p))
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		u32 blocks = le32_to_cpu(p[i]);

		if (blocks > s->band_blocks && blocks != RAGGED)
			return -EUCLEAN;
		if (blocks)
			s->home_blocks[first + i] = blocks;
	}
	return 0;
}

/* The age at the end of a piece is missing in what early builds have written. */
static int decode_slots(struct stl_set *s, u32 set, u32 part, const __le32 *p, u32 bytes)
{
	u32 first = part * PART_SLOTS, words = bytes / sizeof(*p), fill, n, i;

	if (words < 2 || bytes % sizeof(*p))
		return -EUCLEAN;
	fill = le32_to_cpu(p[0]);
	if (fill > s->band_blocks || fill <= first)
		return -EUCLEAN;
	n = min(fill - first, PART_SLOTS);
	if (words != n + 1 && words != n + 2)
		return -EUCLEAN;
	s->logs.log[set].fill = max(s->logs.log[set].fill, fill);
	for (i = 0; i < n; i++)
		s->logs.map.owner[set * s->band_blocks + first + i] = le32_to_cpu(p[i + 1]);
	if (words == n + 2)
		s->logs.log[set].age = le32_to_cpu(p[n + 1]);
	return 0;
}

int stl_set_decode(struct shingle_engine *e, u64 index, const void *buf, u32 bytes)
{
	struct stl_set *s = to_set(e);
	u32 parts = shingle_slotlog_parts(s->band_blocks);
	u32 maps = stl_set_whole_parts(s);

	if (!index)
		return decode_globals(s, buf, bytes);
	if (index <= maps)
		return decode_whole(s, index - 1, buf, bytes);
	index -= 1 + maps;
	if (index < (u64)s->nr_sets * parts)
		return decode_slots(s, div_u64(index, parts), index % parts, buf, bytes);
	index -= (u64)s->nr_sets * parts;
	if (index >= DIV_ROUND_UP(s->nr_bands, PART_BANDS))
		return -EUCLEAN;
	return decode_prefixes(s, index, buf, bytes);
}

/*
 * From the owners that the checkpoint left to the hash.  A block may own several
 * slots, for its pieces are of different moments: the last one wins.
 */
static int hash_owners(struct stl_set *s)
{
	u32 set, offset;

	for (set = 0; set < s->nr_sets; set++) {
		u32 slot = set * s->band_blocks;

		for (offset = 0; offset < s->logs.log[set].fill; offset++, slot++) {
			u32 lblk = s->logs.map.owner[slot];

			if (lblk < SHINGLE_SLOT_OWNED)
				continue;
			lblk -= SHINGLE_SLOT_OWNED;
			s->logs.map.owner[slot] = SHINGLE_SLOT_SPENT;
			if (set_of_band(s, lblk / s->band_blocks) != set ||
			    shingle_slotlog_adopt(&s->logs, slot, lblk))
				return -EUCLEAN;
		}
		cond_resched();
	}
	s->hashed = true;
	return 0;
}

static int replay_discard(struct stl_set *s, u64 band, u64 nr)
{
	u64 i;

	if (band >= s->nr_bands || nr > s->nr_bands - band)
		return -EUCLEAN;
	for (i = band; i < band + nr; i++) {
		if (s->home_blocks[i])
			stl_set_forget_home(s, i);
		if (s->logs.band_live[i])
			drop_band(s, i, U32_MAX);
	}
	s->logs.map.looks += nr;
	return 0;
}

static int replay_direct(struct stl_set *s, u64 lblk, u32 n)
{
	u32 band, offset;

	if (!n || lblk >= s->layout->logical_blocks)
		return -EUCLEAN;
	band = (u32)lblk / s->band_blocks;
	offset = (u32)lblk % s->band_blocks;
	if (n > s->band_blocks - offset)
		return -EUCLEAN;
	stl_set_write_home(s, band, offset + n);
	shingle_slotlog_drop(&s->logs, lblk, n, U32_MAX);
	return 0;
}

int stl_set_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct stl_set *s = to_set(e);
	u64 a = le64_to_cpu(rec->a), b = le64_to_cpu(rec->b);
	u32 n = le16_to_cpu(rec->n);
	struct shingle_log *log;
	int err;

	if (!s->hashed) {
		err = shingle_slotmap_crowd(&s->logs.map, s->layout->logical_blocks) ?:
		      hash_owners(s);
		if (err)
			return err;
	}
	switch (le16_to_cpu(rec->type)) {
	case STL_SET_MAP:
		err = shingle_slotlog_replay(&s->logs, a, b, n);
		if (!err)
			s->logs.log[(u32)b / s->band_blocks].age = le32_to_cpu(rec->c);
		return err;
	case STL_SET_STAGED:
		if (a >= s->nr_bands || b > s->band_blocks)
			return -EUCLEAN;
		s->staging.in_use = true;
		s->staging.band = a;
		s->staging.snapshot = b;
		s->staging.home_blocks = 0;
		/*
		 * Slots of failed writes have no records.  They are below the
		 * snapshot all the same, and must not be handed out as new.
		 */
		log = &s->logs.log[set_of_band(s, a)];
		log->fill = max_t(u32, log->fill, b);
		return 0;
	case STL_SET_CLEANED:
		if (a >= s->nr_bands || b > s->band_blocks)
			return -EUCLEAN;
		s->staging.in_use = false;
		s->home_blocks[a] = s->band_blocks;
		drop_band(s, a, b);
		return 0;
	case STL_SET_RESET:
		if (a >= s->nr_sets)
			return -EUCLEAN;
		shingle_slotlog_replay_clear(&s->logs, a);
		return 0;
	case STL_SET_DISCARD:
		return replay_discard(s, a, b);
	case STL_SET_DROP:
		if (a >= s->layout->logical_blocks ||
		    n > s->band_blocks - (u32)a % s->band_blocks)
			return -EUCLEAN;
		shingle_slotlog_drop(&s->logs, a, n, U32_MAX);
		return 0;
	case STL_SET_DIRECT:
		return replay_direct(s, a, n);
	}
	return -EUCLEAN;
}

int stl_set_ready(struct shingle_engine *e, const char **why)
{
	static const char wrong_set[] = "cache map names a block of another set";
	struct stl_set *s = to_set(e);
	u32 set;

	s->staging.tidied = s->band_blocks;
	if (s->staging.in_use &&
	    (s->staging.band >= s->nr_bands || s->staging.snapshot > s->band_blocks ||
	     s->staging.home_blocks > s->band_blocks)) {
		*why = "staging band holds a band that does not exist";
		return -EUCLEAN;
	}
	if (!s->hashed && hash_owners(s)) {
		*why = wrong_set;
		return -EUCLEAN;
	}
	/* As after tidy(). */
	if (s->staging.in_use)
		drop_band(s, s->staging.band, s->staging.snapshot);
	shingle_slotmap_uncrowd(&s->logs.map);
	for (set = 0; set < s->nr_sets; set++) {
		if (shingle_slotlog_ready(&s->logs, set)) {
			*why = wrong_set;
			return -EUCLEAN;
		}
		cond_resched();
	}
	return 0;
}
