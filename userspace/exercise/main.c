// SPDX-License-Identifier: GPL-2.0
/*
 * shingle-exercise SEED [RUNS [ROUNDS]]: put every engine through its paces.
 *
 * Each run draws a small device and a load from its seed.  Prints what was done,
 * or the seed and the sentence of the first failure; exit status 0 or 1.
 */
#include <stdio.h>
#include <stdlib.h>

#include "exercise.h"
#include "set-engine.h"

static u32 draw(u32 *rng, u32 from, u32 to)
{
	*rng = *rng * 1664525U + 1013904223U;
	return from + (*rng >> 16) % (to - from + 1);
}

static void draw_device(u32 seed, struct shingle_layout *l)
{
	struct stl_set_params *p = (void *)l->params;
	struct shingle_exercise_shape shape;
	u32 rng = seed;

	shape.band_blocks = draw(&rng, 1, 24);
	shape.data_bands = draw(&rng, 1, 20);
	shape.cache_bands = draw(&rng, 1, 5);
	shape.head_tracks = draw(&rng, 1, 4);
	shape.track_blocks = shape.head_tracks > 1 ? draw(&rng, 1, 12) : 0;
	shingle_exercise_layout(l, "stl-set", &shape);
	p->set_shift = cpu_to_le32(draw(&rng, 0, 2));
}

int main(int argc, char **argv)
{
	u32 seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	u32 runs = argc > 2 ? strtoul(argv[2], NULL, 0) : 200;
	u32 rounds = argc > 3 ? strtoul(argv[3], NULL, 0) : 6000;
	struct shingle_exercise_result res;
	u64 writes = 0, steps = 0, cuts = 0, checkpoints = 0, destroyed = 0;
	static struct shingle_layout layout;
	u32 end = seed + runs;

	for (; seed < end; seed++) {
		const struct shingle_exercise_plan plan = {
			.ops = &stl_set_engine_ops, .layout = &layout, .seed = seed,
			.rounds = rounds, .cuts = true,
		};

		draw_device(seed, &layout);
		if (shingle_exercise(&plan, &res)) {
			printf("seed %u: %s\n", seed, res.error);
			return 1;
		}
		writes += res.writes;
		steps += res.steps;
		cuts += res.cuts;
		checkpoints += res.checkpoints;
		destroyed += res.destroyed;
	}
	printf("%u runs: %llu blocks written, %llu steps, %llu checkpoints, %llu power cuts, "
	       "%llu blocks destroyed by the head, 0 lost\n", runs, (unsigned long long)writes,
	       (unsigned long long)steps, (unsigned long long)checkpoints,
	       (unsigned long long)cuts, (unsigned long long)destroyed);
	return 0;
}
