// SPDX-License-Identifier: GPL-2.0
/*
 * The state of the engine of interlaced recording on the disk: pieces of a checkpoint,
 * records of the journal, and what is derived when all of it is loaded.
 * See Documentation/on-disk-format.rst.
 */
#include "imr-state.h"

/* Entries in a checkpoint piece.  Tests take less. */
#ifndef PART_SLOTS
#define PART_TRACKS	500U
#define PART_SLOTS	1000U
#endif

/* ------------------------------------------------------------------------
 * Pieces of the state, in their order: tracks, slots
 */

static u32 nr_map_parts(const struct imr *s)
{
	return DIV_ROUND_UP(s->nr_logical, PART_TRACKS);
}

/**
 * imr_mark_track() - what a checkpoint says of a logical track has changed
 * @s: the engine
 * @track: which
 *
 * Context: under the map lock.
 */
void imr_mark_track(struct imr *s, u32 track)
{
	shingle_mark(&s->engine, track / PART_TRACKS, 1);
}

/**
 * imr_mark_slot() - what a checkpoint says of a backup slot has changed
 * @s: the engine
 * @slot: which
 *
 * Context: under the map lock.
 */
void imr_mark_slot(struct imr *s, u32 slot)
{
	shingle_mark(&s->engine, nr_map_parts(s) + slot / PART_SLOTS, 1);
}

/* Operation of an engine. */
u64 imr_max_chunks(const struct shingle_layout *l)
{
	return div64_u64(l->nr_bands[SHINGLE_ROLE_DATA] + PART_TRACKS - 1, PART_TRACKS) +
	       div64_u64(l->nr_bands[SHINGLE_ROLE_STAGING] + PART_SLOTS - 1, PART_SLOTS);
}

static u32 encode_tracks(const struct imr *s, u32 part, __le32 *buf)
{
	u32 first = part * PART_TRACKS, n = min(s->nr_logical - first, PART_TRACKS), i;
	bool any = false;

	for (i = 0; i < n; i++) {
		const struct imr_track *t = &s->map[first + i];

		/* One more, so that zero is what was never written. */
		buf[2 * i] = cpu_to_le32(t->phys + 1);
		buf[2 * i + 1] = cpu_to_le32(t->phys == IMR_NO_TRACK ? 0 :
					     (u32)t->level << 16 | t->valid);
		any |= t->phys != IMR_NO_TRACK;
	}
	return any ? n * 2 * sizeof(*buf) : 0;
}

static u32 encode_slots(const struct imr *s, u32 part, __le32 *buf)
{
	u32 first = part * PART_SLOTS, n = min(s->backup.nr - first, PART_SLOTS), i;
	bool any = false;

	for (i = 0; i < n; i++) {
		buf[i] = cpu_to_le32(s->backup.slot[first + i].owner + 1);
		any |= s->backup.slot[first + i].owner != NO_OWNER;
	}
	return any ? n * sizeof(*buf) : 0;
}

/* Operation of an engine. */
u32 imr_encode(struct shingle_engine *e, u64 *cursor, u64 *index, void *buf)
{
	struct imr *s = to_imr(e);
	u32 parts = nr_map_parts(s), slots = DIV_ROUND_UP(s->backup.nr, PART_SLOTS);
	u64 at = *cursor;

	if (at >= parts + slots) {
		*cursor = SHINGLE_NOWHERE;
		return 0;
	}
	*index = at;
	*cursor = at + 1;
	return at < parts ? encode_tracks(s, at, buf) : encode_slots(s, at - parts, buf);
}

static int decode_tracks(struct imr *s, u32 first, const __le32 *buf, u32 bytes)
{
	u32 n = bytes / (2 * sizeof(*buf)), i;

	if (bytes % (2 * sizeof(*buf)) || n > s->nr_logical - first)
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		struct imr_track *t = &s->map[first + i];
		u32 phys = le32_to_cpu(buf[2 * i]) - 1, rest = le32_to_cpu(buf[2 * i + 1]);

		if (phys == IMR_NO_TRACK)
			continue;
		if (phys >= s->nr_phys || !(rest & 0xffff) || (rest & 0xffff) > s->track_blocks ||
		    rest >> 16 >= NR_LEVELS)
			return -EUCLEAN;
		t->phys = phys;
		t->valid = rest & 0xffff;
		t->level = rest >> 16;
	}
	return 0;
}

static int decode_slots(struct imr *s, u32 first, const __le32 *buf, u32 bytes)
{
	u32 n = bytes / sizeof(*buf), i;

	if (bytes % sizeof(*buf) || n > s->backup.nr - first)
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		u32 owner = le32_to_cpu(buf[i]) - 1;

		if (owner != NO_OWNER && owner >= s->nr_logical)
			return -EUCLEAN;
		s->backup.slot[first + i].owner = owner;
		if (owner != NO_OWNER)
			s->map[owner].saved = true;
	}
	return 0;
}

/* Operation of an engine. */
int imr_decode(struct shingle_engine *e, u64 index, const void *buf, u32 bytes)
{
	struct imr *s = to_imr(e);
	u32 parts = nr_map_parts(s);

	if (index < parts)
		return decode_tracks(s, index * PART_TRACKS, buf, bytes);
	index -= parts;
	if (index < DIV_ROUND_UP(s->backup.nr, PART_SLOTS))
		return decode_slots(s, index * PART_SLOTS, buf, bytes);
	return -EUCLEAN;
}

/*
 * Whatever was saved of tracks [@first, @first + @n) is of no use.  Until ready()
 * says it for good, what is not marked as saved is in no slot.
 */
static void forget_slots(struct imr *s, u32 first, u32 n)
{
	bool some = false;
	u32 i;

	for (i = first; i < first + n; i++) {
		some |= s->map[i].saved;
		s->map[i].saved = false;
	}
	if (!some)
		return;
	for (i = 0; i < s->backup.nr; i++) {
		if (s->backup.slot[i].owner != NO_OWNER && s->backup.slot[i].owner - first < n)
			s->backup.slot[i].owner = NO_OWNER;
	}
}

static int replay_map(struct imr *s, u32 track, u64 phys, u32 valid, u32 level)
{
	struct imr_track *t = &s->map[track];

	if (phys >= s->nr_phys || !valid || valid > s->track_blocks || level >= NR_LEVELS)
		return -EUCLEAN;
	/* What is written is not saved any more. */
	forget_slots(s, track, 1);
	t->phys = phys;
	t->valid = valid;
	t->level = level;
	return 0;
}

/* Operation of an engine. */
int imr_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct imr *s = to_imr(e);
	u64 a = le64_to_cpu(rec->a), b = le64_to_cpu(rec->b), i;
	u32 c = le32_to_cpu(rec->c);

	if (a >= s->nr_logical)
		return -EUCLEAN;
	switch (le16_to_cpu(rec->type)) {
	case IMR_MAP:
		return replay_map(s, a, b, le16_to_cpu(rec->n), c);
	case IMR_UNMAP:
		if (!b || b > s->nr_logical - a)
			return -EUCLEAN;
		forget_slots(s, a, b);
		for (i = a; i < a + b; i++) {
			s->map[i].phys = IMR_NO_TRACK;
			s->map[i].valid = 0;
			s->map[i].level = 0;
			s->map[i].explicit = false;
		}
		return 0;
	case IMR_BACKUP:
		if (b >= s->backup.nr)
			return -EUCLEAN;
		forget_slots(s, a, 1);
		s->backup.slot[b].owner = a;
		s->map[a].saved = true;
		return 0;
	case IMR_RESTORED:
		if (b >= s->backup.nr)
			return -EUCLEAN;
		if (s->backup.slot[b].owner == a)
			s->backup.slot[b].owner = NO_OWNER;
		return 0;
	case IMR_LEVEL:
		if (!b || b > s->nr_logical - a || c >= NR_LEVELS)
			return -EUCLEAN;
		for (i = a; i < a + b; i++) {
			s->map[i].level = c;
			s->map[i].explicit = true;
		}
		return 0;
	}
	return -EUCLEAN;
}

/* Operation of an engine. */
int imr_ready(struct shingle_engine *e, const char **why)
{
	struct imr *s = to_imr(e);
	u32 i;

	*why = NULL;
	for (i = 0; i < s->nr_logical; i++) {
		struct imr_track *t = &s->map[i];

		t->saved = false;
		if (t->phys == IMR_NO_TRACK)
			continue;
		if (s->owner[t->phys] != OWNER_FREE) {
			*why = "two tracks are in one place";
			return -EUCLEAN;
		}
		s->owner[t->phys] = i;
		s->live[t->level]++;
		imr_track_claim(&s->tracks, t->phys);
	}
	for (i = 0; i < s->backup.nr; i++) {
		u32 owner = s->backup.slot[i].owner;

		if (owner == NO_OWNER)
			continue;
		if (!imr_is_mapped(s, owner) || !imr_is_top(s->map[owner].phys) ||
		    s->map[owner].saved) {
			*why = "a backup slot holds what is no top, or twice";
			return -EUCLEAN;
		}
		shingle_slotmap_insert(&s->backup.index, i, owner, 1);
		s->map[owner].saved = true;
		s->backup.slot[i].durable = true;
		s->backup.nr_saved++;
	}
	return 0;
}
