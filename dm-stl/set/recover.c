// SPDX-License-Identifier: GPL-2.0
/*
 * Set-associative translation layer: encodes and decodes its checkpoint pieces and its
 * journal records.  The tables at the end list them.
 */
#include "set/state.h"

static u64 nr_globals(const struct shingle_layout *l)
{
	return 1;
}

static u32 encode_globals(struct shingle_engine *e, u32 at, void *buf)
{
	const struct stl_set *s = to_set(e);
	__le32 *p = buf;

	p[0] = cpu_to_le32(s->staging.in_use);
	p[1] = cpu_to_le32(s->staging.band);
	p[2] = cpu_to_le32(s->staging.snapshot);
	p[3] = cpu_to_le32(s->staging.home_blocks);
	return s->staging.in_use ? 4 * sizeof(*p) : 0;
}

static u64 nr_whole(const struct shingle_layout *l)
{
	return DIV_ROUND_UP(l->nr_bands[SHINGLE_ROLE_DATA], (u64)SHINGLE_CHUNK_BITS);
}

static u32 encode_whole(struct shingle_engine *e, u32 at, void *to)
{
	const struct stl_set *s = to_set(e);
	u32 first = at * SHINGLE_CHUNK_BITS, n = min(s->nr_bands - first, SHINGLE_CHUNK_BITS);
	u32 bytes = 0, i;
	u8 *buf = to;

	memset(buf, 0, SHINGLE_CHUNK_BYTES);
	for (i = 0; i < n; i++) {
		if (whole_at_home(s, first + i)) {
			buf[i / 8] |= 1U << (i % 8);
			bytes = i / 8 + 1;
		}
	}
	return bytes;
}

static u64 nr_prefixes(const struct shingle_layout *l)
{
	return DIV_ROUND_UP_ULL(l->nr_bands[SHINGLE_ROLE_DATA], PART_BANDS);
}

static u32 encode_prefixes(struct shingle_engine *e, u32 at, void *buf)
{
	const struct stl_set *s = to_set(e);
	u32 first = at * PART_BANDS, n = min(s->nr_bands - first, PART_BANDS), i;
	bool some = false;
	__le32 *p = buf;

	for (i = 0; i < n; i++) {
		bool prefix = s->home_blocks[first + i] && !whole_at_home(s, first + i);

		p[i] = prefix ? cpu_to_le32(s->home_blocks[first + i]) : 0;
		some |= prefix;
	}
	return some ? n * sizeof(*p) : 0;
}

static u64 nr_slot_parts(const struct shingle_layout *l)
{
	return l->nr_bands[SHINGLE_ROLE_CACHE] *
	       shingle_slotlog_parts(l->band_blocks[SHINGLE_ROLE_CACHE]);
}

static u32 encode_slots(struct shingle_engine *e, u32 at, void *buf)
{
	const struct stl_set *s = to_set(e);
	u32 parts = s->logs.log_pieces, set = at / parts, part = at % parts, n;
	__le32 *p = buf;

	/* An emptied set is stored as empty, even while its slots may not be placed yet. */
	if (set == s->clean.reset_set && s->clean.reset_seq != U64_MAX)
		return 0;
	n = shingle_slotlog_encode(&s->logs, set, part, p + 1);
	if (!n)
		return 0;
	p[0] = cpu_to_le32(part * PART_SLOTS + n);
	p[n + 1] = cpu_to_le32(s->logs.log[set].age);
	return (n + 2) * sizeof(*p);
}

/* Early builds had no bypass; nothing that they staged is at home. */
static int decode_globals(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct stl_set *s = to_set(e);
	const __le32 *p = buf;

	if (bytes != 3 * sizeof(*p) && bytes != 4 * sizeof(*p))
		return -EUCLEAN;
	s->staging.in_use = le32_to_cpu(p[0]);
	s->staging.band = le32_to_cpu(p[1]);
	s->staging.snapshot = le32_to_cpu(p[2]);
	s->staging.home_blocks = bytes == 4 * sizeof(*p) ? le32_to_cpu(p[3]) : 0;
	return 0;
}

static int decode_whole(struct shingle_engine *e, u32 at, const void *from, u32 bytes)
{
	struct stl_set *s = to_set(e);
	const u8 *buf = from;
	u32 first = at * SHINGLE_CHUNK_BITS, i;

	for (i = 0; i < bytes * 8; i++) {
		if (!(buf[i / 8] & (1U << (i % 8))))
			continue;
		if (i >= s->nr_bands - first)
			return -EUCLEAN;
		s->home_blocks[first + i] = s->band_blocks;
	}
	return 0;
}

static int decode_prefixes(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct stl_set *s = to_set(e);
	u32 first = at * PART_BANDS, n = min(s->nr_bands - first, PART_BANDS), i;
	const __le32 *p = buf;

	if (bytes != n * sizeof(*p))
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		u32 blocks = le32_to_cpu(p[i]);

		if (blocks > s->band_blocks && blocks != HOME_DESTROYED)
			return -EUCLEAN;
		if (blocks)
			s->home_blocks[first + i] = blocks;
	}
	return 0;
}

/* Pieces of early builds have no age at the end. */
static int decode_slots(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct stl_set *s = to_set(e);
	u32 parts = s->logs.log_pieces, set = at / parts;
	u32 first = at % parts * PART_SLOTS, words = bytes / sizeof(__le32), fill, n, i;
	const __le32 *p = buf;

	if (words < 2 || bytes % sizeof(*p))
		return -EUCLEAN;
	fill = le32_to_cpu(p[0]);
	if (fill > s->logs.log_blocks || fill <= first)
		return -EUCLEAN;
	n = min(fill - first, PART_SLOTS);
	if (words != n + 1 && words != n + 2)
		return -EUCLEAN;
	s->logs.log[set].fill = max(s->logs.log[set].fill, fill);
	for (i = 0; i < n; i++)
		s->logs.map.owner[set * s->logs.log_blocks + first + i] = le32_to_cpu(p[i + 1]);
	if (words == n + 2)
		s->logs.log[set].age = le32_to_cpu(p[n + 1]);
	return 0;
}

/*
 * Fill the hash from the owners in the checkpoint.  A block may own several slots, because
 * the pieces were written at different moments; the last slot wins.
 */
static int hash_owners(struct stl_set *s)
{
	u32 set, offset;

	for (set = 0; set < s->nr_sets; set++) {
		u32 slot = set * s->logs.log_blocks;

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
	return 0;
}

static int replay_map(struct shingle_engine *e, u64 lblk, u64 slot, u32 n, u32 age)
{
	struct stl_set *s = to_set(e);
	int err = shingle_slotlog_replay(&s->logs, lblk, slot, n);

	if (!err)
		s->logs.log[(u32)slot / s->logs.log_blocks].age = age;
	return err;
}

static int replay_staged(struct shingle_engine *e, u64 band, u64 snapshot, u32 n, u32 home)
{
	struct stl_set *s = to_set(e);
	struct shingle_slotlog *log;

	if (band >= s->nr_bands || snapshot > s->logs.log_blocks || home > s->band_blocks)
		return -EUCLEAN;
	s->staging.in_use = true;
	s->staging.band = band;
	s->staging.snapshot = snapshot;
	s->staging.home_blocks = home;
	/*
	 * Slots of failed writes have no records.  They are below the snapshot all the
	 * same, and must not be placed as new.
	 */
	log = &s->logs.log[set_of_band(s, band)];
	log->fill = max_t(u32, log->fill, snapshot);
	return 0;
}

static int replay_cleaned(struct shingle_engine *e, u64 band, u64 snapshot, u32 n, u32 c)
{
	struct stl_set *s = to_set(e);

	if (band >= s->nr_bands || snapshot > s->logs.log_blocks)
		return -EUCLEAN;
	s->staging.in_use = false;
	s->home_blocks[band] = s->band_blocks;
	drop_band(s, band, snapshot);
	return 0;
}

static int replay_reset(struct shingle_engine *e, u64 set, u64 b, u32 n, u32 c)
{
	struct stl_set *s = to_set(e);

	if (set >= s->nr_sets)
		return -EUCLEAN;
	shingle_slotlog_replay_clear(&s->logs, set);
	return 0;
}

static int replay_discard(struct shingle_engine *e, u64 band, u64 nr, u32 n, u32 c)
{
	struct stl_set *s = to_set(e);
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

static int replay_drop(struct shingle_engine *e, u64 lblk, u64 b, u32 n, u32 c)
{
	return shingle_slotlog_replay_drop(&to_set(e)->logs, lblk, n);
}

static int replay_direct(struct shingle_engine *e, u64 lblk, u64 b, u32 n, u32 c)
{
	struct stl_set *s = to_set(e);
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

int stl_set_ready(struct shingle_engine *e, const char **why)
{
	static const char wrong_set[] = "cache map names a block of another set";
	struct stl_set *s = to_set(e);
	u32 set;

	s->staging.tidied = s->band_blocks;
	if (s->staging.in_use &&
	    (s->staging.band >= s->nr_bands || s->staging.snapshot > s->logs.log_blocks ||
	     s->staging.home_blocks > s->band_blocks)) {
		*why = "staging band holds a band that does not exist";
		return -EUCLEAN;
	}
	if (!s->logs.map.group_blocks && hash_owners(s)) {
		*why = wrong_set;
		return -EUCLEAN;
	}
	/* The same state as after tidy(). */
	if (s->staging.in_use)
		drop_band(s, s->staging.band, s->staging.snapshot);
	shingle_slotmap_drop_groups(&s->logs.map);
	for (set = 0; set < s->nr_sets; set++) {
		if (shingle_slotlog_ready(&s->logs, set)) {
			*why = wrong_set;
			return -EUCLEAN;
		}
		cond_resched();
	}
	return 0;
}

const struct shingle_piece_kind stl_set_pieces[] = {
	[STL_SET_GLOBALS] = { nr_globals, encode_globals, decode_globals },
	[STL_SET_WHOLE] = { nr_whole, encode_whole, decode_whole },
	[STL_SET_SLOTS] = { nr_slot_parts, encode_slots, decode_slots },
	[STL_SET_PREFIXES] = { nr_prefixes, encode_prefixes, decode_prefixes },
	{ }
};

const struct shingle_record_kind stl_set_records[] = {
	{ STL_SET_MAP, "MAP", "blocks", "lblk", "slot", NULL, replay_map },
	{ STL_SET_STAGED, "STAGED", NULL, "band", "snapshot", "home", replay_staged },
	{ STL_SET_CLEANED, "CLEANED", NULL, "band", "snapshot", NULL, replay_cleaned },
	{ STL_SET_RESET, "RESET", NULL, "set", NULL, NULL, replay_reset },
	{ STL_SET_DISCARD, "DISCARD", NULL, "band", "bands", NULL, replay_discard },
	{ STL_SET_DROP, "DROP", "blocks", "lblk", NULL, NULL, replay_drop },
	{ STL_SET_DIRECT, "DIRECT", "blocks", "lblk", NULL, NULL, replay_direct },
	{ }
};

int stl_set_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct stl_set *s = to_set(e);
	int err = 0;

	if (!s->logs.map.group_blocks)
		err = shingle_slotmap_count_groups(&s->logs.map, s->layout->logical_blocks) ?:
		      hash_owners(s);
	return err ?: shingle_record_replay(stl_set_records, e, rec);
}
