// SPDX-License-Identifier: GPL-2.0
/*
 * dualbuffer-check: Dual-buffer without a device.
 *
 * dualbuffer-check predict
 *	of each line of the input, BLOCKS X:V X:V ..., where each fit has its root
 * dualbuffer-check run SEED SHAPES [unsafe_switch|unsafe_inplace]
 *	so many random caches for each width of the head, 1 to 8: is all there after every
 *	block that is written, and would it be if the power went
 * dualbuffer-check rounds NEW [ROUNDS] [literal]
 *	rounds of a load of which NEW percent go to blocks that were never written before,
 *	the others to cached ones: a line for each
 * dualbuffer-check moves [ROUNDS]
 *	a hot set that is another one half-way: how much of each is kept, a line a round
 * dualbuffer-check ratchet [TRACKS]
 *	what has no room at the end of the first round, M being foretold once or at each track
 * dualbuffer-check table [TRACKS]
 *	predicted and ideal partition of the first round, of stationary loads
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dual/sim.h"
#include "sim-random.h"
#include "sim-sums.h"

#define WIDEST	8U
/* The numbers of a result. */
#define NUMBERS	(offsetof(struct dual_sim_result, error) / sizeof(u64))

static const char *const fits[DUAL_NR_FITS] = { "hyper", "linear", "power", "sat" };

static int predict(void)
{
	char *line = NULL, *at, *end;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0) {
		struct dual_curve c;
		u32 blocks = strtoul(line, &at, 0), x, v, fit;

		dual_curve_begin(&c);
		for (; x = strtoul(at, &end, 0), *end == ':'; at = end) {
			v = strtoul(end + 1, &end, 0);
			dual_curve_note(&c, x, v);
		}
		for (fit = 0; fit < DUAL_NR_FITS; fit++) {
			if (dual_predict(&c, fit, blocks, &x))
				printf("%s - ", fits[fit]);
			else
				printf("%s %u ", fits[fit], x);
		}
		printf("\n");
		fflush(stdout);
	}
	free(line);
	return 0;
}

static double unit(u64 *state)
{
	return (sim_random(state) >> 11) * 0x1p-53;
}

/* Loads over a share of the cache, in percent, by which the fits are compared. */
static const struct {
	const char *name;
	u32 percent;
	double zipf;
	bool hot;
} loads[] = {
	{ "uniform over 5 %", 5, 0, false },
	{ "uniform over 30 %", 30, 0, false },
	{ "uniform over 200 %", 200, 0, false },
	{ "zipf 1.0 over 50 %", 50, 1.0, false },
	{ "zipf 1.2 over 50 %", 50, 1.2, false },
	{ "90 % to 10 % of 50 %", 50, 0, true },
};

#define BLOCKS	120000U

static u32 draw(u32 load, u32 n, const double *sum, u64 *state)
{
	u32 low = 0, high = n - 1;
	double at;

	if (loads[load].hot)
		return unit(state) < .9 ? unit(state) * (n / 10) :
					  n / 10 + unit(state) * (n - n / 10);
	if (!loads[load].zipf)
		return unit(state) * n;
	at = unit(state) * sum[n - 1];
	while (low < high) {
		u32 mid = (low + high) / 2;

		if (sum[mid] > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* The blocks of a load, and how often each was drawn. */
struct population {
	u32 load;
	u32 n;
	u64 state;
	u8 *seen;
	double *sum;
};

static bool begin(struct population *p, u32 load)
{
	u32 i;

	p->load = load;
	p->n = BLOCKS / 100 * loads[load].percent;
	p->state = load + 1;
	p->seen = calloc(2 * p->n, 1);
	p->sum = calloc(p->n, sizeof(*p->sum));
	for (i = 0; i < p->n && loads[load].zipf && p->sum; i++)
		p->sum[i] = (i ? p->sum[i - 1] : 0) + pow(i + 1, -loads[load].zipf);
	return p->seen && p->sum;
}

/* Writes one of them, or of as many others; returns 1 if it was not written before. */
static u32 write_one(struct population *p, bool others)
{
	u32 at = draw(p->load, p->n, p->sum, &p->state) + (others ? p->n : 0), first = !p->seen[at];

	p->seen[at] = 1;
	return first;
}

static void end(struct population *p)
{
	free(p->seen);
	free(p->sum);
}

static int table(u32 tracks)
{
	u32 load, fit, x, v, root;
	struct population p;
	struct dual_curve c;

	printf("# %u blocks on %u tracks, of the first of which half is sampled\n", BLOCKS, tracks);
	printf("# %-20s %6s", "load", "ideal");
	for (fit = 0; fit < DUAL_NR_FITS; fit++)
		printf(" %6s", fits[fit]);
	printf("\n");
	for (load = 0; load < ARRAY_SIZE(loads); load++) {
		if (!begin(&p, load))
			return 1;
		dual_curve_begin(&c);
		for (x = 0, v = 0; v + x < BLOCKS; x++) {
			v += write_one(&p, false);
			if (x + 1 <= BLOCKS / tracks / 2)
				dual_curve_note(&c, x + 1, v);
		}
		printf("%-22s %6.1f", loads[load].name, 100.0 * x / BLOCKS);
		for (fit = 0; fit < DUAL_NR_FITS; fit++) {
			if (dual_predict(&c, fit, BLOCKS, &root))
				return 1;
			printf(" %6.1f", 100.0 * root / BLOCKS);
		}
		printf("\n");
		end(&p);
	}
	return 0;
}

/* One round: what has no room in FB_2, and how much of that is used, in percent. */
static int round_of(u32 load, u32 tracks, bool jumps, bool ratchet)
{
	const struct dual_shape s = {
		.tracks = tracks, .track_blocks = BLOCKS / tracks, .sample_percent = 50,
		.sample_tracks = DIV_ROUND_UP(tracks, 9), .fit = DUAL_HYPER,
	};
	u32 x = 0, v = 0, n, slot, root, fb2, blocks = dual_blocks(&s);
	struct dual_cursor at = { 0 };
	struct dual_curve c;
	struct dual_round r;
	struct population p;

	if (!begin(&p, load))
		return 1;
	dual_curve_begin(&c);
	dual_round_first(&s, &r);
	for (;;) {
		n = dual_next(&s, &r, DUAL_NEW, &at, 50, &slot);
		if (!n && r.nr_drops)
			break;
		if (!n || (ratchet && !at.at && at.row >= 2 * s.sample_tracks)) {
			if (dual_predict(&c, s.fit, blocks, &root))
				return 1;
			if (!n)
				dual_round_decide(&s, &r, root);
			if (!n || dual_round_lower(&s, &r, at.row - s.sample_tracks, root, x))
				continue;
		}
		dual_advance(&s, &r, DUAL_NEW, &at, n);
		while (n--) {
			v += write_one(&p, jumps && x > blocks * 2 / 5);
			dual_curve_note(&c, ++x, v);
		}
	}
	fb2 = dual_part_blocks(&s, &r, DUAL_FB2);
	printf(" %8.1f %5.0f", 100.0 * (v > fb2 ? v - fb2 : 0) / blocks, 100.0 * min(v, fb2) / fb2);
	end(&p);
	return 0;
}

static int ratchet(u32 tracks)
{
	u32 load, jumps, bad = 0;

	printf("# %u tracks, a ninth of them sampled: what has no room, and the use of FB_2\n", tracks);
	printf("# %-30s %14s %14s\n", "load", "once", "each track");
	for (jumps = 0; jumps < 2; jumps++) {
		for (load = 0; load < ARRAY_SIZE(loads); load++) {
			printf("%-22s %8s", loads[load].name, jumps ? "jumps" : "");
			bad |= round_of(load, tracks, jumps, false);
			bad |= round_of(load, tracks, jumps, true);
			printf("\n");
		}
	}
	return bad;
}

static void print_sum(u32 k, u32 shapes, u32 lost, const struct dual_sim_result *sum)
{
	const struct sim_word word[] = {
		{ "written", sum->writes }, { "destroyed", sum->destroyed },
		{ "rounds", sum->rounds }, { "kept", sum->kept }, { "brought home", sum->homed },
		{ "bands", sum->rmws }, { "late", sum->late }, { "lowered", sum->lowered },
		{ "steps", sum->steps }, { "commits", sum->commits },
		{ "power cuts", sum->cuts }, { "failed", sum->fails },
	};

	print_words(k, shapes, lost, word, ARRAY_SIZE(word));
}

/* Returns how many shapes lost something. */
static u32 run(u64 seed, u32 shapes, const char *feature)
{
	u32 k, i, bad = 0, skewed = 0, shared = 0, fixed = 0;

	for (k = 1; k <= WIDEST; k++) {
		struct dual_sim_result sum = { 0 }, res;
		u32 lost = 0;

		for (i = 0; i < shapes; i++) {
			u64 state = seed << 32 | k << 24 | i;
			struct dual_sim_plan plan;

			dual_sim_draw(&state, k, &plan);
			plan.writes = 1000;
			plan.unsafe_switch = !strcmp(feature, "unsafe_switch");
			plan.unsafe_inplace = !strcmp(feature, "unsafe_inplace");
			skewed += !!plan.shape.skew_units;
			shared += !!(plan.shape.skew_units % DUAL_SUB_UNITS);
			fixed += !!plan.shape.static_percent;
			if (dual_sim(&plan, &res) && !lost++)
				printf("k=%u, shape %u: %u tracks of %u, skew=%u/8, M=%u: %s\n", k,
				       i, plan.shape.tracks, plan.shape.track_blocks,
				       plan.shape.skew_units, plan.shape.static_percent,
				       res.error);
			add_numbers(&sum, &res, NUMBERS);
		}
		bad += lost;
		print_sum(k, shapes, lost, &sum);
	}
	printf("%u shapes lost something, %u were skewed, %u by a part of a block, %u static\n",
	       bad, skewed, shared, fixed);
	return bad;
}

static void tell(void *ctx, u32 surface, const struct dual_cache *c)
{
	const struct dual_history *h = &c->predict.last;
	double blocks = dual_blocks(c->shape) / 100.0;
	/* FB_2 is FB_1 by now. */
	double fb2 = c->round.fb1_columns, columns = c->shape->track_blocks / 100.0;
	double *fb1 = ctx;

	printf("%5u %6.1f %6.1f %6.1f %6.1f %6.1f %6.1f %8u %6u %6u\n", h->number,
	       (c->shape->track_blocks - *fb1 - fb2) / columns, h->predicted / blocks,
	       h->ideal / blocks, h->allocated / blocks, h->fb_blocks / blocks,
	       100.0 * h->kept_blocks / h->fb_blocks, h->kept_blocks, h->home_blocks,
	       h->home_bands);
	*fb1 = fb2;
}

static int rounds(u32 new_percent, u32 nr, bool literal)
{
	double fb1 = 0;
	struct dual_sim_plan plan = {
		.seed = new_percent, .head_tracks = 3, .surfaces = 1, .bands = 60,
		.band_tracks = 10, .writes = 1, .rounds = nr, .new_percent = new_percent,
		.depth = 4, .most_blocks = 1, .commit_every = 20, .literal = literal,
		.shape = {
			.tracks = 27, .track_blocks = 100, .skew_units = 7 * DUAL_SUB_UNITS,
			.sample_tracks = 3, .sample_percent = 50, .fit = DUAL_HYPER,
			.ratchet = true, .min_new_percent = literal ? 0 : 25,
			.min_fb_percent = 5,
		},
		.told = tell, .ctx = &fb1,
	};
	struct dual_sim_result res;

	printf("# round    new   M of: foretold, ideal, real  FB_2   used    to FB   home  bands\n");
	if (dual_sim(&plan, &res)) {
		printf("%s\n", res.error);
		return 1;
	}
	printf("# %llu blocks written, %llu kept, %llu brought home with %llu bands\n",
	       (unsigned long long)res.writes, (unsigned long long)res.kept,
	       (unsigned long long)res.homed, (unsigned long long)res.rmws);
	return 0;
}

#define MOVING_BLOCKS	(40 * 1000U)
#define MOVING_PERCENT	1U
#define MOVES_AFTER	25000U

static void tell_hot(void *ctx, u32 surface, const struct dual_cache *c)
{
	u32 hot = MOVING_BLOCKS * MOVING_PERCENT / 100, i, lblk, kept[2] = { 0 };

	for (i = 0; i < c->map.nr_slots; i++) {
		if (shingle_slot_state(&c->map, i) != SHINGLE_SLOT_OWNED)
			continue;
		lblk = shingle_slot_lblk(&c->map, i);
		kept[0] += lblk < hot;
		kept[1] += lblk >= MOVING_BLOCKS / 2 && lblk < MOVING_BLOCKS / 2 + hot;
	}
	printf("%5u %6.1f %6.1f %6u %6u\n", c->predict.last.number, 100.0 * kept[0] / hot,
	       100.0 * kept[1] / hot, c->predict.last.home_blocks, c->predict.last.home_bands);
}

static int moves(u32 nr)
{
	struct dual_sim_plan plan = {
		.seed = 1, .head_tracks = 3, .surfaces = 1, .bands = 40, .band_tracks = 10,
		.writes = 2 * MOVES_AFTER, .rounds = nr, .hot_percent = MOVING_PERCENT,
		.hot_writes_percent = 80, .hot_moves_after = MOVES_AFTER,
		.depth = 4, .most_blocks = 1, .commit_every = 20,
		.shape = {
			.tracks = 27, .track_blocks = 100, .sample_tracks = 3,
			.sample_percent = 50, .fit = DUAL_HYPER, .ratchet = true,
			.min_new_percent = 25, .min_fb_percent = 5,
		},
		.told = tell_hot,
	};
	struct dual_sim_result res;

	printf("# round    old    new   home  bands; %% of a hot set of %u %% with 80 %% of the writes\n",
	       MOVING_PERCENT);
	if (dual_sim(&plan, &res)) {
		printf("%s\n", res.error);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "predict"))
		return predict();
	if (!strcmp(what, "run") && argc >= 4)
		return !!run(strtoull(argv[2], NULL, 0), strtoul(argv[3], NULL, 0),
			     argc > 4 ? argv[4] : "");
	if (!strcmp(what, "rounds") && argc >= 3)
		return rounds(strtoul(argv[2], NULL, 0),
			      argc > 3 ? strtoul(argv[3], NULL, 0) : 50, argc > 4);
	if (!strcmp(what, "moves"))
		return moves(argc > 2 ? strtoul(argv[2], NULL, 0) : 30);
	if (!strcmp(what, "ratchet"))
		return ratchet(argc > 2 ? strtoul(argv[2], NULL, 0) : 9);
	if (!strcmp(what, "table"))
		return table(argc > 2 ? strtoul(argv[2], NULL, 0) : 9);
	fprintf(stderr, "Usage: dualbuffer-check predict | run SEED SHAPES [FEATURE] |\n"
		"       rounds NEW [ROUNDS] [literal] | moves [ROUNDS] |\n"
		"       ratchet [TRACKS] | table [TRACKS]\n");
	return 2;
}
