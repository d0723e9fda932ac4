// SPDX-License-Identifier: GPL-2.0
/*
 * dualbuffer-check: the prediction of M, and rounds of a persistent cache, without a medium.
 *
 * dualbuffer-check predict
 *	for each line of the input, BLOCKS X:V X:V ..., print the root of each fit
 * dualbuffer-check rounds NEW [ROUNDS] [literal]
 *	rounds of a load with NEW percent of writes to blocks that were never written before and the
 *	others to cached ones, a line for each round
 * dualbuffer-check moves [ROUNDS]
 *	the hot set changes half-way: how much of each set is kept, a line for each round
 * dualbuffer-check ratchet [TRACKS]
 *	blocks without room at the end of the first round, with M predicted once or at each track
 * dualbuffer-check table [TRACKS]
 *	predicted and ideal partition of the first round, for stationary loads
 *
 * The exerciser tests that no data are lost.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dual/cache.h"
#include "random.h"

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
	return (random_u64(state) >> 11) * 0x1p-53;
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

/* ------------------------------------------------------------------------
 * Rounds
 */

/**
 * struct load - writes of single blocks to one cache
 * @seed: seed of the random numbers
 * @rounds: number of rounds
 * @blocks: logical blocks
 * @new_percent: percentage of writes that go to blocks never written before, in ascending order,
 *	from the first again after the last; the others go to cached blocks; 0: use the hot blocks
 * @hot_percent: percentage of blocks that are hot
 * @hot_writes_percent: percentage of writes that go to hot blocks
 * @hot_moves_after: after this many writes other blocks are hot, from the middle on
 * @literal: see struct dual_cache
 * @round_ended: called at the end of each round
 * @ctx: argument of @round_ended
 */
struct load {
	u64 seed;
	u32 rounds;
	u32 blocks;
	u32 new_percent;
	u32 hot_percent;
	u32 hot_writes_percent;
	u32 hot_moves_after;
	bool literal;
	void (*round_ended)(void *ctx, const struct dual_cache *c);
	void *ctx;
};

#define BAND_BLOCKS	1000U

static const struct dual_shape round_shape = {
	.tracks = 27, .track_blocks = 100, .sample_tracks = 3, .sample_percent = 50,
	.fit = DUAL_HYPER, .ratchet = true, .min_new_percent = 25, .min_fb_percent = 5,
};

struct model {
	const struct load *load;
	struct dual_cache c;
	u64 random;
	u64 seq;
	u32 fresh;
	bool drawn;
	u32 next;
	u32 rounds;
	u64 writes;
	u64 kept;
	u64 homed;
	u64 bands;
};

/* A cached block, or the next one that was never written. */
static u32 draw_aged(struct model *m)
{
	u32 slot, tries = m->c.map.live ? 1000 : 0;

	if (random_below(&m->random, 100) < m->load->new_percent)
		tries = 0;
	for (; tries; tries--) {
		slot = random_below(&m->random, m->c.map.nr_slots);
		if (shingle_slot_state(&m->c.map, slot) == SHINGLE_SLOT_OWNED)
			return shingle_slot_lblk(&m->c.map, slot);
	}
	return m->fresh++ % m->load->blocks;
}

static u32 draw_hot(struct model *m)
{
	u32 blocks = m->load->blocks, hot = blocks * m->load->hot_percent / 100, lblk;

	if (random_below(&m->random, 100) < m->load->hot_writes_percent)
		lblk = random_below(&m->random, hot);
	else
		lblk = hot + random_below(&m->random, blocks - hot);
	return m->writes < m->load->hot_moves_after ? lblk : (lblk + blocks / 2) % blocks;
}

/* Return: false if the cache has no room for the write now; the next call retries it. */
static bool try_write(struct model *m)
{
	u32 slot, got;

	if (!m->drawn)
		m->next = m->load->new_percent ? draw_aged(m) : draw_hot(m);
	m->drawn = true;
	if (dual_place(&m->c, 1, &slot, &got))
		return false;
	dual_commit(&m->c, m->next, slot, 1);
	m->drawn = false;
	m->writes++;
	return true;
}

/* The host writes on while a step copies @n blocks. */
static void write_beside(struct model *m, u32 n)
{
	while (n--) {
		if (!random_below(&m->random, 6))
			try_write(m);
	}
}

static void end_round(struct model *m)
{
	m->rounds++;
	m->kept += m->c.predict.last.kept_blocks;
	m->homed += m->c.predict.last.home_blocks;
	m->bands += m->c.predict.last.home_bands;
	m->load->round_ended(m->load->ctx, &m->c);
}

/* Return: false if the cleaner has nothing to do. */
static bool clean(struct model *m)
{
	struct dual_step step;
	int r = dual_clean_next(&m->c, false, &step);

	/* Commit, so that the last step is durable. */
	if (r == -EAGAIN) {
		while (dual_release(&m->c, m->seq))
			;
		m->seq++;
		return true;
	}
	if (r <= 0)
		return false;
	if (step.kind != DUAL_STEP_SWITCH)
		write_beside(m, step.n);
	dual_step_done(&m->c, &step, m->seq);
	while (dual_tidy(&m->c))
		;
	if (step.kind == DUAL_STEP_SWITCH)
		end_round(m);
	return true;
}

static bool run(const struct load *load, const struct dual_shape *shape, struct model *m)
{
	bool good = true, full;

	*m = (struct model){ .load = load, .random = load->seed, .seq = 1 };
	if (dual_cache_init(&m->c, shape, BAND_BLOCKS))
		return false;
	m->c.opt.literal = load->literal;
	while (m->rounds < load->rounds && good) {
		full = !try_write(m);
		if (full || (m->c.phase != DUAL_FILL && random_below(&m->random, 2)))
			good = clean(m) || !full;
	}
	if (!good)
		printf("a write finds no room, and the cleaner has nothing to do\n");
	dual_cache_exit(&m->c);
	return good;
}

static void print_round(void *ctx, const struct dual_cache *c)
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
	const struct load load = {
		.seed = new_percent, .rounds = nr, .blocks = 60 * BAND_BLOCKS,
		.new_percent = new_percent, .literal = literal,
		.round_ended = print_round, .ctx = &fb1,
	};
	struct dual_shape shape = round_shape;
	struct model m;

	if (literal)
		shape.min_new_percent = 0;
	printf("# round    new   M of: predicted, ideal, real  FB_2  used    to FB   home  bands\n");
	if (!run(&load, &shape, &m))
		return 1;
	printf("# %llu blocks written, %llu kept, %llu brought home with %llu bands\n",
	       (unsigned long long)m.writes, (unsigned long long)m.kept,
	       (unsigned long long)m.homed, (unsigned long long)m.bands);
	return 0;
}

#define MOVING_BLOCKS	(40 * BAND_BLOCKS)
#define MOVING_PERCENT	1U
#define MOVES_AFTER	25000U

static void print_hot(void *ctx, const struct dual_cache *c)
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
	const struct load load = {
		.seed = 1, .rounds = nr, .blocks = MOVING_BLOCKS, .hot_percent = MOVING_PERCENT,
		.hot_writes_percent = 80, .hot_moves_after = MOVES_AFTER,
		.round_ended = print_hot,
	};
	struct model m;

	printf("# round    old    new   home  bands; %% of a hot set of %u %% with 80 %% of the writes\n",
	       MOVING_PERCENT);
	return !run(&load, &round_shape, &m);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "predict"))
		return predict();
	if (!strcmp(what, "rounds") && argc >= 3)
		return rounds(strtoul(argv[2], NULL, 0),
			      argc > 3 ? strtoul(argv[3], NULL, 0) : 50, argc > 4);
	if (!strcmp(what, "moves"))
		return moves(argc > 2 ? strtoul(argv[2], NULL, 0) : 30);
	if (!strcmp(what, "ratchet"))
		return ratchet(argc > 2 ? strtoul(argv[2], NULL, 0) : 9);
	if (!strcmp(what, "table"))
		return table(argc > 2 ? strtoul(argv[2], NULL, 0) : 9);
	fprintf(stderr, "Usage: dualbuffer-check predict |\n"
		"       rounds NEW [ROUNDS] [literal] | moves [ROUNDS] |\n"
		"       ratchet [TRACKS] | table [TRACKS]\n");
	return 2;
}
