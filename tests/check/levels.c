// SPDX-License-Identifier: GPL-2.0
/*
 * levels-check: the policies of the imr target against the model of
 * shingle-levels, track by track.  The two were written by different people from
 * the same specification.
 */
#include "../levels/model.h"
#include "policy.h"

#define MAX_TRACKS	200

static u64 state;

static u32 random32(u32 below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(state >> 33) % below;
}

/* Take and free tracks on both until they differ; returns how many agreed. */
static u32 compare(enum imr_policy policy, bool first, u64 seed)
{
	static const enum model_policy same[] = {
		[IMR_SEQ] = MODEL_SEQ, [IMR_3PHASE] = MODEL_3PHASE,
		[IMR_ZIGZAG] = MODEL_ZIGZAG, [IMR_COMPACTION] = MODEL_COMPACTION,
	};
	struct model_options opt = { .policy = same[policy], .first_fit = first, .largest = 1 };
	struct imr_tracks t;
	u32 tracks, steps, agreed = 0, taken[MAX_TRACKS], nr = 0, one, i, k;
	struct model m;
	bool miss;

	state = seed;
	tracks = 8 + random32(MAX_TRACKS - 8);
	steps = 20 * tracks;
	assert(!model_init(&m, &opt, tracks) && !imr_tracks_init(&t, tracks));
	t.policy = policy;
	t.first = first;
	for (i = 0; i < steps; i++) {
		/* Now nearly full, now half empty. */
		bool take = nr < tracks && (!nr || random32(100) < (i / tracks % 2 ? 35u : 70u));

		if (take) {
			u32 level = random32(2), track;

			assert(!model_allocate(&m, level, &track, 1));
			one = imr_track_take(&t, level, &miss);
			if (one != track) {
				printf("policy %u, %s, %u tracks, seed %llu, step %u, level %u: the target takes %u, the model %u\n",
				       policy, first ? "first" : "next", tracks, seed, i, level,
				       one, track);
				break;
			}
			taken[nr++] = track;
			agreed++;
		} else {
			k = random32(nr);
			one = taken[k];
			taken[k] = taken[--nr];
			model_free(&m, &one, 1);
			imr_track_give(&t, one);
		}
	}
	model_exit(&m);
	imr_tracks_exit(&t);
	return i == steps ? agreed : 0;
}

int main(int argc, char **argv)
{
	u64 rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100, seed, agreed;
	int failed = 0;
	u32 policy, first, one;

	for (policy = 0; policy < IMR_NR_POLICIES; policy++) {
		for (first = 0; first < 2; first++) {
			agreed = 0;
			for (seed = 1; seed <= rounds; seed++) {
				one = compare(policy, first, seed);
				if (!one) {
					failed = 1;
					break;
				}
				agreed += one;
			}
			printf("policy %u, %s: %llu tracks agree\n", policy,
			       first ? "first" : "next", agreed);
		}
	}
	return failed;
}
