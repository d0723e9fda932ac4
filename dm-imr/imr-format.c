// SPDX-License-Identifier: GPL-2.0
/*
 * The state of the engine for interlaced recording on the disk: checkpoint pieces, journal
 * records, and the state that imr_ready() derives after loading.  See
 * Documentation/on-disk-format.rst.
 */
#include "imr-state.h"

/* ------------------------------------------------------------------------
 * Pieces
 */

static u64 nr_track_pieces(const struct shingle_layout *l)
{
	u64 tracks = div64_u64(l->logical_blocks, l->band_blocks[SHINGLE_ROLE_DATA]);

	return DIV_ROUND_UP_ULL(tracks, PART_TRACKS);
}

static u32 encode_tracks(struct shingle_engine *e, u32 at, void *to)
{
	const struct imr *s = to_imr(e);
	u32 first = at * PART_TRACKS, n = min(s->nr_logical - first, PART_TRACKS);
	bool any = false;
	__le32 *buf = to;
	u32 i;

	for (i = 0; i < n; i++) {
		const struct imr_track *t = &s->map[first + i];

		/* Stored plus one, so that zero means "never written". */
		buf[2 * i] = cpu_to_le32(t->phys + 1);
		buf[2 * i + 1] = cpu_to_le32(t->phys == IMR_NO_TRACK ? 0 :
					     (u32)t->level << 16 | t->valid);
		any |= t->phys != IMR_NO_TRACK;
	}
	return any ? n * 2 * sizeof(*buf) : 0;
}

static int decode_tracks(struct shingle_engine *e, u32 at, const void *from, u32 bytes)
{
	struct imr *s = to_imr(e);
	u32 first = at * PART_TRACKS, n = min(s->nr_logical - first, PART_TRACKS), i;
	const __le32 *buf = from;

	if (bytes != n * 2 * sizeof(*buf))
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

static u64 nr_slot_pieces(const struct shingle_layout *l)
{
	return DIV_ROUND_UP_ULL(l->nr_bands[SHINGLE_ROLE_STAGING], PART_SLOTS);
}

static u32 encode_slots(struct shingle_engine *e, u32 at, void *to)
{
	const struct imr *s = to_imr(e);
	u32 first = at * PART_SLOTS, n = min(s->backup.nr - first, PART_SLOTS);
	bool any = false;
	__le32 *buf = to;
	u32 i;

	for (i = 0; i < n; i++) {
		buf[i] = cpu_to_le32(s->backup.slot[first + i].owner + 1);
		any |= s->backup.slot[first + i].owner != NO_OWNER;
	}
	return any ? n * sizeof(*buf) : 0;
}

static int decode_slots(struct shingle_engine *e, u32 at, const void *from, u32 bytes)
{
	struct imr *s = to_imr(e);
	u32 first = at * PART_SLOTS, n = min(s->backup.nr - first, PART_SLOTS), i;
	const __le32 *buf = from;

	if (bytes != n * sizeof(*buf))
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

const struct shingle_piece_kind imr_pieces[] = {
	[IMR_TRACKS] = { nr_track_pieces, encode_tracks, decode_tracks },
	[IMR_SLOTS] = { nr_slot_pieces, encode_slots, decode_slots },
	{ }
};

/* ------------------------------------------------------------------------
 * Records
 */

/*
 * Drop the backup copies of tracks [@first, @first + @n).  Until imr_ready() settles it, a
 * track is in a slot only if it is marked as saved.
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
		struct imr_slot *b = &s->backup.slot[i];

		if (b->owner != NO_OWNER && b->owner - first < n)
			b->owner = NO_OWNER;
	}
}

static int replay_map(struct shingle_engine *e, u64 track, u64 phys, u32 valid, u32 level)
{
	struct imr *s = to_imr(e);
	struct imr_track *t = &s->map[track];

	if (phys >= s->nr_phys || !valid || valid > s->track_blocks || level >= NR_LEVELS)
		return -EUCLEAN;
	/* The write supersedes the saved copy. */
	forget_slots(s, track, 1);
	t->phys = phys;
	t->valid = valid;
	t->level = level;
	return 0;
}

static int replay_unmap(struct shingle_engine *e, u64 first, u64 n, u32 unused, u32 c)
{
	struct imr *s = to_imr(e);
	u64 i;

	if (!n || n > s->nr_logical - first)
		return -EUCLEAN;
	forget_slots(s, first, n);
	for (i = first; i < first + n; i++) {
		s->map[i].phys = IMR_NO_TRACK;
		s->map[i].valid = 0;
		s->map[i].level = 0;
		s->map[i].explicit = false;
	}
	return 0;
}

static int replay_backup(struct shingle_engine *e, u64 track, u64 slot, u32 n, u32 c)
{
	struct imr *s = to_imr(e);

	if (slot >= s->backup.nr)
		return -EUCLEAN;
	forget_slots(s, track, 1);
	s->backup.slot[slot].owner = track;
	s->map[track].saved = true;
	return 0;
}

static int replay_restored(struct shingle_engine *e, u64 track, u64 slot, u32 n, u32 c)
{
	struct imr *s = to_imr(e);

	if (slot >= s->backup.nr)
		return -EUCLEAN;
	if (s->backup.slot[slot].owner == track)
		s->backup.slot[slot].owner = NO_OWNER;
	return 0;
}

static int replay_level(struct shingle_engine *e, u64 first, u64 n, u32 unused, u32 level)
{
	struct imr *s = to_imr(e);
	u64 i;

	if (!n || n > s->nr_logical - first || level >= NR_LEVELS)
		return -EUCLEAN;
	for (i = first; i < first + n; i++) {
		s->map[i].level = level;
		s->map[i].explicit = true;
	}
	return 0;
}

const struct shingle_record_kind imr_records[] = {
	{ IMR_MAP, "MAP", .a = "track", .b = "place", .n = "valid", .c = "level",
	  .replay = replay_map },
	{ IMR_UNMAP, "UNMAP", .a = "track", .b = "tracks", .replay = replay_unmap },
	{ IMR_BACKUP, "BACKUP", .a = "track", .b = "slot", .replay = replay_backup },
	{ IMR_RESTORED, "RESTORED", .a = "track", .b = "slot", .replay = replay_restored },
	{ IMR_LEVEL, "LEVEL", .a = "track", .b = "tracks", .c = "level",
	  .replay = replay_level },
	{ }
};

/*
 * An operation of struct shingle_engine_ops.  The first field of every record is a logical
 * track.
 */
int imr_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	if (le64_to_cpu(rec->a) >= to_imr(e)->nr_logical)
		return -EUCLEAN;
	return shingle_record_replay(imr_records, e, rec);
}

/* An operation of struct shingle_engine_ops. */
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
