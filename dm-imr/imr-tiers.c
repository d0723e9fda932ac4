// SPDX-License-Identifier: GPL-2.0
/*
 * The choice between bottoms and tops: level-based bi-tiering, the first step of KVIMR's
 * compaction-aware track allocation.  The largest level of an LSM tree gets bottoms, all
 * other levels get tops.  The second step, the track within the tier, is in policy.c.
 *
 * A track's level comes from messages, from hints of writes, or from its address.
 *
 * Liang (2021), section 3.2.2.
 */
#include "imr-state.h"

/* Most tracks in one message that only sets levels, and most tracks in one call. */
#define LEVEL_TRACKS	65536U
#define LEVEL_AT_ONCE	8192U

static int number(const char *word, u32 below, u32 *n)
{
	return kstrtouint(word, 10, n) || *n >= below ? -EINVAL : 0;
}

/*
 * An operation of struct shingle_engine_ops.  "level FIRST COUNT LEVEL" sets the level of
 * tracks that will be written.  "relevel" sets it for tracks that are mapped: a file moves
 * to another level without being rewritten.  A discarded track loses its level.
 */
int imr_message(struct shingle_engine *e, unsigned int argc, char **argv, u64 *done,
		struct shingle_emit *emit, const char **why)
{
	struct imr *s = to_imr(e);
	u32 first, count, level, n, i;

	if (strcmp(argv[0], "level") && strcmp(argv[0], "relevel"))
		return -ENOENT;
	*why = "level and relevel want the first track, how many, and a level from 0 to 15";
	if (argc != 4 || number(argv[1], s->nr_logical, &first) ||
	    number(argv[2], s->nr_logical - first + 1, &count) || !count ||
	    number(argv[3], NR_LEVELS, &level))
		return -EINVAL;
	if (count > LEVEL_TRACKS) {
		*why = "level and relevel take at most 65536 tracks at a time";
		return -EINVAL;
	}
	first += *done;
	n = min_t(u32, count - *done, LEVEL_AT_ONCE);
	for (i = first; i < first + n; i++)
		imr_set_level(s, i, level);
	shingle_emit(emit, IMR_LEVEL, 0, level, first, n);
	*done += n;
	return *done < count;
}

/* The highest level of a mapped track or of a track in the epoch. */
static u32 highest_level(const struct imr *s)
{
	u32 level = NR_LEVELS - 1, i;

	while (level && !s->live[level])
		level--;
	for (i = 0; i < s->epoch.nr; i++)
		level = max_t(u32, level, s->map[s->epoch.track_list[i].track].level);
	return level;
}

/**
 * imr_tiers_begin() - prepare to allocate the tracks of an epoch
 * @s: the engine
 * @t: result
 *
 * Context: under the map lock.
 */
void imr_tiers_begin(const struct imr *s, struct imr_tiers *t)
{
	u32 i;

	t->largest = s->opt.largest == LARGEST_AUTO ? highest_level(s) : s->opt.largest;
	memcpy(t->tracks, s->live, sizeof(t->tracks));
	for (i = 0; i < s->epoch.nr; i++) {
		const struct imr_item *it = &s->epoch.track_list[i];

		if (it->dst != IMR_NO_TRACK && !imr_is_mapped(s, it->track))
			t->tracks[s->map[it->track].level]++;
	}
}

/* The level with most tracks; at a tie the highest; @level if no track is mapped. */
static u32 largest_level(const struct imr_tiers *t, u32 level)
{
	u32 most = 0, i;

	if (t->largest != LARGEST_MOST)
		return t->largest;
	for (i = 1; i < NR_LEVELS; i++) {
		if (t->tracks[i] >= t->tracks[most])
			most = i;
	}
	return t->tracks[most] ? most : level;
}

/**
 * imr_partial_to_top() - test whether an item goes to a top because it is partly written
 * @s: the engine
 * @it: item of the epoch
 *
 * A partly written track will be written again, and on a top that costs no rewrite.  So it
 * goes to a top unless a message or a hint has set its level.
 *
 * Context: under the map lock.
 * Return: true if the item goes to a top for this reason.
 */
bool imr_partial_to_top(const struct imr *s, const struct imr_item *it)
{
	return s->tracks.policy == IMR_COMPACTION && s->opt.levels != LEVELS_LBA &&
	       !s->opt.by_level && !s->map[it->track].explicit && it->blocks < s->track_blocks;
}

/**
 * imr_wants_bottom() - choose the tier of an item
 * @s: the engine
 * @it: item of the epoch
 * @t: from imr_tiers_begin(), updated with each allocation since then
 *
 * Context: under the map lock.
 * Return: true for a bottom, false for a top.
 */
bool imr_wants_bottom(const struct imr *s, const struct imr_item *it, const struct imr_tiers *t)
{
	u32 level = s->map[it->track].level;

	if (s->opt.levels == LEVELS_LBA)
		return it->track < s->nr_logical / 2;
	return !imr_partial_to_top(s, it) && level >= largest_level(t, level);
}
