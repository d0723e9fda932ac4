/* SPDX-License-Identifier: GPL-2.0 */
/* Allocation policies of interlaced recording: which track comes next. */
#ifndef SHINGLE_IMR_POLICY_H
#define SHINGLE_IMR_POLICY_H

#include "pure.h"

#define IMR_NO_TRACK	U32_MAX

/*
 * Classes of tracks: 2i, 4i + 1 and 4i + 3.  The policy "3phase" allocates all of one class before
 * the next.
 */
enum { IMR_BOTTOM, IMR_TOP_A, IMR_TOP_B, IMR_NR_CLASSES };

enum imr_policy {
	IMR_SEQ,
	IMR_3PHASE,
	IMR_ZIGZAG,
	IMR_COMPACTION,
	IMR_NR_POLICIES
};

/**
 * struct imr_tracks - the free tracks and where the search for the next begins
 * @nr: number of tracks
 * @nr_free: free tracks
 * @policy: the policy that chooses
 * @first: search from the low end instead of from the last track taken
 * @free: free tracks of each class, by number in the class
 * @rmw_free: free bottoms with no allocated top beside them: writing them rewrites no top
 * @last: the last track taken of each class, IMR_NO_TRACK before the first
 * @last_any: the last track taken of any class
 * @last_top: the last track taken of both classes of tops
 */
struct imr_tracks {
	u32 nr;
	u32 nr_free;
	enum imr_policy policy;
	bool first;
	unsigned long *free[IMR_NR_CLASSES];
	unsigned long *rmw_free;
	u32 last[IMR_NR_CLASSES];
	u32 last_any;
	u32 last_top;
};

static inline bool imr_is_top(u32 track)
{
	return track & 1;
}

int imr_tracks_init(struct imr_tracks *t, u32 nr);
void imr_tracks_exit(struct imr_tracks *t);
bool imr_track_is_free(const struct imr_tracks *t, u32 track);
void imr_track_claim(struct imr_tracks *t, u32 track);
void imr_track_give(struct imr_tracks *t, u32 track);
bool imr_top_is_left(const struct imr_tracks *t);
u32 imr_track_take(struct imr_tracks *t, bool bottom, bool *miss);

#endif /* SHINGLE_IMR_POLICY_H */
