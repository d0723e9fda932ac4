// SPDX-License-Identifier: GPL-2.0
/*
 * For tests: caches under random load and power cuts.  Pure code; see dual/sim.h.
 *
 * Each surface is one run of dm-platter's geometry: the cache, k - 1 empty tracks, the
 * staging band, k - 1 empty tracks, and the bands, each followed by k - 1 empty tracks.
 * The geometry alone decides what a write destroys; the cache's own idea of columns is not
 * used.  After each block that reaches the medium, everything that the current map refers
 * to must be intact, and everything that the durable map refers to, as if the power failed
 * now.  A power cut leaves only the durable map.
 */
#ifndef __KERNEL__
#include <stdarg.h>
#endif

#include "dual/sim.h"
#include "sim-random.h"

#define DEPTH		16U
#define MAX_SURFACES	4U
/* Content of the medium: the lower bits are the version, the rest is the block. */
#define VERSION_BITS	40
/* After this number of attempts without a commit the run counts as stuck. */
#define PATIENCE	200000U

/* A write in flight: placed, then on the medium, then committed. */
struct sim_write {
	u32 surface;
	u32 lblk;
	u32 slot;
	u32 n;
	u64 version;
	bool hit;
	bool failed;
};

/* The state of a cache that a power cut leaves. */
struct sim_snap {
	u32 *owner;
	u16 *count;
	u32 *slot;
	struct dual_round round;
	struct dual_staging staging;
	u64 *version;
};

enum sim_stage { SIM_OPEN, SIM_CLOSED, SIM_DURABLE };

struct sim {
	const struct dual_sim_plan *plan;
	struct dual_sim_result *res;
	u64 random;
	u64 seq;
	u64 closed_seq;
	u64 version;
	struct platter_geo geo;
	u32 slots;
	u32 band_blocks;
	u32 lblks;
	u64 band_stride;
	u64 surface_blocks;
	struct dual_cache cache[MAX_SURFACES];
	struct dual_round recorded[MAX_SURFACES];
	u64 *medium;
	u64 *current_version;
	u64 *copy;
	const struct dual_cache *in_memory;
	u32 memory_band;
	struct sim_snap closed[MAX_SURFACES];
	struct sim_snap durable[MAX_SURFACES];
	enum sim_stage stage;
	u32 since_commit;
	struct sim_write write[DEPTH];
	u32 nr_writes;
	struct sim_write next;
	u32 fresh;
	u64 value;
	u32 quiet;
	void *mem[64];
	u32 nr_mem;
};

static bool failed(const struct sim *s)
{
	return s->res->error[0];
}

/* Only the first error is kept. */
static void __printf(2, 3) fail(void *ctx, const char *fmt, ...)
{
	struct sim *s = ctx;
	va_list args;

	if (failed(s))
		return;
	va_start(args, fmt);
	vsnprintf(s->res->error, sizeof(s->res->error), fmt, args);
	va_end(args);
}

/* ------------------------------------------------------------------------
 * The medium
 */

static int effect(void *ctx, enum platter_effect effect, u64 block, u32 n, u64 src)
{
	struct sim *s = ctx;

	for (; n; n--, block++) {
		s->medium[block] = effect == PLATTER_WRITTEN ? s->value : 0;
		s->res->destroyed += effect == PLATTER_COVERED;
	}
	return 0;
}

static u64 slot_block(const struct sim *s, u32 surface, u32 slot)
{
	return surface * s->surface_blocks + slot;
}

/* Band 0 is the staging band. */
static u64 band_block(const struct sim *s, u32 surface, u32 band, u32 offset)
{
	u32 guard = (s->plan->head_tracks - 1) * s->plan->shape.track_blocks;

	return slot_block(s, surface, s->slots) + guard + band * s->band_stride + offset;
}

static u64 home_block(const struct sim *s, u32 surface, u32 lblk)
{
	struct dual_home h = dual_home_of((u64)surface * s->lblks + lblk, s->plan->bands,
					  s->plan->band_tracks, s->plan->shape.track_blocks);

	return band_block(s, h.surface, 1 + h.band,
			  h.track * s->plan->shape.track_blocks + h.block);
}

static u64 value_of(const struct sim *s, u32 surface, u32 lblk, u64 version)
{
	return (u64)(surface * s->lblks + lblk + 1) << VERSION_BITS | version;
}

static u64 block_of(const struct sim *s, u32 surface, u32 lblk, u32 slot, bool staged)
{
	if (slot != SHINGLE_NO_SLOT)
		return slot_block(s, surface, slot);
	if (staged)
		return band_block(s, surface, 0, lblk % s->band_blocks);
	return home_block(s, surface, lblk);
}

static bool is_there(const struct sim *s, u32 surface, u32 lblk, u64 block, u64 version)
{
	return !version || s->medium[block] == value_of(s, surface, lblk, version);
}

/* In the thesis, the whole band is in memory while it is rewritten in place. */
static bool in_memory(const struct sim *s, const struct dual_cache *c, u32 lblk)
{
	return c == s->in_memory && lblk / s->band_blocks == s->memory_band;
}

static void check(struct sim *s)
{
	u32 surface, lblk;

	for (surface = 0; surface < s->plan->surfaces; surface++) {
		const struct dual_cache *c = &s->cache[surface];
		const struct sim_snap *d = &s->durable[surface];
		const u64 *version = &s->current_version[surface * s->lblks];

		for (lblk = 0; lblk < s->lblks && s->plan->check && !failed(s); lblk++) {
			bool staged = d->staging.in_use &&
				      lblk / s->band_blocks == d->staging.band;
			u64 block = block_of(s, surface, lblk, dual_find(c, lblk),
					     dual_staged(c, lblk));

			if (!in_memory(s, c, lblk) &&
			    !is_there(s, surface, lblk, block, version[lblk]))
				fail(s, "block %u of surface %u is lost", lblk, surface);
			if (!is_there(s, surface, lblk, block_of(s, surface, lblk, d->slot[lblk],
								 staged), d->version[lblk]))
				fail(s, "block %u of surface %u is lost if the power goes now",
				     lblk, surface);
		}
	}
}

static void write_block(struct sim *s, u64 block, u64 value)
{
	s->value = value;
	platter_geo_write(&s->geo, block, 1, effect, s);
	check(s);
}

/* ------------------------------------------------------------------------
 * Transactions
 */

/* Record the changes of rounds, as an engine would. */
static void record_rounds(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->plan->surfaces; i++) {
		struct dual_cache *c = &s->cache[i];

		if (dual_round_changed(c))
			s->recorded[i] = c->round;
		if (memcmp(&s->recorded[i], &c->round, sizeof(c->round)))
			fail(s, "round %u of surface %u has changed in silence",
			     c->round.number, i);
	}
}

static void take_snap(struct sim *s)
{
	u32 i, lblk;

	s->closed_seq = s->seq++;
	record_rounds(s);
	if (!s->plan->check && !s->plan->trouble)
		return;
	for (i = 0; i < s->plan->surfaces; i++) {
		const struct dual_cache *c = &s->cache[i];
		struct sim_snap *snap = &s->closed[i];

		memcpy(snap->owner, c->map.owner, s->slots * sizeof(*snap->owner));
		memcpy(snap->count, c->count, s->slots * sizeof(*snap->count));
		for (lblk = 0; lblk < s->lblks; lblk++)
			snap->slot[lblk] = dual_find(c, lblk);
		snap->round = c->round;
		snap->staging = c->staging;
		memcpy(snap->version, &s->current_version[i * s->lblks],
		       s->lblks * sizeof(*snap->version));
	}
}

/* A transaction is first closed, then durable, and then its last reader leaves. */
static void advance_commit(struct sim *s)
{
	u32 i;

	switch (s->stage) {
	case SIM_OPEN:
		take_snap(s);
		s->since_commit = 0;
		s->stage = SIM_CLOSED;
		break;
	case SIM_CLOSED:
		for (i = 0; i < s->plan->surfaces; i++)
			swap(s->closed[i], s->durable[i]);
		s->res->commits++;
		s->stage = SIM_DURABLE;
		break;
	case SIM_DURABLE:
		for (i = 0; i < s->plan->surfaces; i++) {
			while (dual_release(&s->cache[i], s->closed_seq))
				;
		}
		s->stage = SIM_OPEN;
		break;
	}
}

static void settle(struct sim *s)
{
	while (s->stage != SIM_OPEN)
		advance_commit(s);
	do
		advance_commit(s);
	while (s->stage != SIM_OPEN);
}

static void cut_power(struct sim *s)
{
	const char *why;
	u32 i;

	s->res->cuts++;
	s->in_memory = NULL;
	for (i = 0; i < s->plan->surfaces; i++) {
		struct dual_cache *c = &s->cache[i];

		memcpy(c->map.owner, s->durable[i].owner, s->slots * sizeof(*c->map.owner));
		memcpy(c->count, s->durable[i].count, s->slots * sizeof(*c->count));
		c->round = s->durable[i].round;
		s->recorded[i] = c->round;
		c->staging = s->durable[i].staging;
		if (dual_ready(c, &why))
			fail(s, "surface %u: %s", i, why);
		memcpy(&s->current_version[i * s->lblks], s->durable[i].version,
		       s->lblks * sizeof(*s->current_version));
	}
	s->nr_writes = 0;
	s->next.n = 0;
	s->stage = SIM_OPEN;
	check(s);
}

/* ------------------------------------------------------------------------
 * The host's writes
 */

static bool under_one_head(const struct sim *s, u32 a, u32 b)
{
	const struct dual_shape *shape = &s->plan->shape;
	u32 first = a / shape->track_blocks, second = b / shape->track_blocks, apart;
	u64 turn = (u64)shape->track_blocks * DUAL_SUB_UNITS, x, y;

	if (max(first, second) - min(first, second) >= s->plan->head_tracks)
		return false;
	div64_u64_rem((u64)a * DUAL_SUB_UNITS + (u64)first * shape->skew_units, turn, &x);
	div64_u64_rem((u64)b * DUAL_SUB_UNITS + (u64)second * shape->skew_units, turn, &y);
	apart = max(x, y) - min(x, y);
	return apart < DUAL_SUB_UNITS || apart > turn - DUAL_SUB_UNITS;
}

static bool meets(const struct sim *s, const struct sim_write *a, const struct sim_write *b)
{
	u32 i, k;

	for (i = 0; i < a->n && a->surface == b->surface; i++) {
		for (k = 0; k < b->n; k++) {
			if (under_one_head(s, a->slot + i, b->slot + k))
				return true;
		}
	}
	return false;
}

/* Advance a random write; of those that may meet, the earlier goes first (R1). */
static void go_on_writing(struct sim *s)
{
	u32 i = sim_below(&s->random, s->nr_writes), k, n;
	struct dual_cache *c;
	struct sim_write *w;

	for (k = 0; k < i; k++) {
		if (!s->write[k].hit && meets(s, &s->write[k], &s->write[i])) {
			i = k;
			k = U32_MAX;
		}
	}
	w = &s->write[i];
	c = &s->cache[w->surface];
	if (!w->hit) {
		w->hit = true;
		w->failed = s->plan->trouble && !sim_below(&s->random, 40);
		n = w->failed ? sim_below(&s->random, w->n + 1) : w->n;
		for (k = 0; k < n; k++)
			write_block(s, slot_block(s, w->surface, w->slot + k),
				    value_of(s, w->surface, w->lblk + k, w->version));
		return;
	}
	if (w->failed) {
		dual_abort(c);
		s->res->fails++;
	} else {
		dual_commit(c, w->lblk, w->slot, w->n);
		for (k = 0; k < w->n; k++)
			s->current_version[w->surface * s->lblks + w->lblk + k] = w->version;
		s->res->writes += w->n;
		s->since_commit++;
		s->quiet = 0;
	}
	s->nr_writes--;
	memmove(w, w + 1, (s->nr_writes - i) * sizeof(*w));
	if (!s->plan->commit_every)
		settle(s);
}

/* Draw a cached block, or the next one that was never written. */
static void draw_aged(struct sim *s, struct sim_write *w)
{
	const struct dual_cache *c = &s->cache[w->surface];
	u32 slot, tries = c->map.live ? 1000 : 0;

	w->n = 1;
	if (sim_below(&s->random, 100) < s->plan->new_percent)
		tries = 0;
	for (; tries; tries--) {
		slot = sim_below(&s->random, s->slots);
		if (shingle_slot_state(&c->map, slot) == SHINGLE_SLOT_OWNED) {
			w->lblk = shingle_slot_lblk(&c->map, slot);
			return;
		}
	}
	w->lblk = s->fresh++ % s->lblks;
}

static void draw_write(struct sim *s)
{
	u32 hot = s->lblks * s->plan->hot_percent / 100, n;
	struct sim_write *w = &s->next;

	w->surface = sim_below(&s->random, s->plan->surfaces);
	if (s->plan->new_percent) {
		draw_aged(s, w);
		return;
	}
	if (!hot || hot == s->lblks)
		w->lblk = sim_below(&s->random, s->lblks);
	else if (sim_below(&s->random, 100) < s->plan->hot_writes_percent)
		w->lblk = sim_below(&s->random, hot);
	else
		w->lblk = hot + sim_below(&s->random, s->lblks - hot);
	if (s->plan->hot_moves_after && s->res->writes >= s->plan->hot_moves_after)
		w->lblk = (w->lblk + s->lblks / 2) % s->lblks;
	n = 1 + sim_below(&s->random, s->plan->most_blocks);
	w->n = min(n, s->lblks - w->lblk);
}

/* Do something else, so that a waiting operation can continue. */
static void let_others(struct sim *s)
{
	if (s->nr_writes && (s->stage == SIM_OPEN || sim_below(&s->random, 2)))
		go_on_writing(s);
	else
		advance_commit(s);
}

/* ------------------------------------------------------------------------
 * Cleaning
 */

static bool power_goes(struct sim *s)
{
	if (s->plan->trouble && !sim_below(&s->random, 150)) {
		cut_power(s);
		return true;
	}
	return false;
}

static int try_write(struct sim *s);

/* Other activity while a step is copied. */
static void beside(struct sim *s)
{
	if (sim_below(&s->random, 3))
		return;
	if (s->nr_writes < s->plan->depth && sim_below(&s->random, 2))
		try_write(s);
	else if (s->nr_writes)
		go_on_writing(s);
}

/* Returns 0, -EIO, or -EINTR if the power failed. */
static int copy_moves(struct sim *s, u32 surface, struct dual_cache *c)
{
	bool broken = s->plan->trouble && !sim_below(&s->random, 20);
	struct dual_move first;
	u32 cursor = 0, n, i;

	while (dual_step_extent(c, &cursor, &first, &n)) {
		for (i = 0; i < n; i++) {
			if (dual_referenced(c, first.dst + i))
				fail(s, "a step goes where something is");
			write_block(s, slot_block(s, surface, first.dst + i),
				    s->medium[slot_block(s, surface, first.src + i)]);
			if (power_goes(s))
				return -EINTR;
			if (broken && !sim_below(&s->random, 4))
				return -EIO;
			beside(s);
		}
	}
	return 0;
}

static u64 merged(const struct sim *s, u32 surface, const struct dual_cache *c, u32 lblk)
{
	u32 slot = dual_merge_source(c, lblk);

	return s->medium[block_of(s, surface, lblk, slot, dual_staged(c, lblk))];
}

static int copy_band(struct sim *s, u32 surface, struct dual_cache *c,
		     const struct dual_step *step)
{
	bool broken = s->plan->trouble && !sim_below(&s->random, 20);
	u32 i, first = step->band * s->band_blocks;

	/* In the unsafe mode the whole band is in memory. */
	for (i = 0; i < step->n; i++)
		s->copy[i] = step->kind == DUAL_STEP_HOME ?
			     s->medium[band_block(s, surface, 0, i)] :
			     merged(s, surface, c, first + i);
	if (step->kind == DUAL_STEP_INPLACE) {
		s->in_memory = c;
		s->memory_band = step->band;
	}
	for (i = 0; i < step->n && !failed(s); i++) {
		write_block(s, step->kind == DUAL_STEP_STAGE ? band_block(s, surface, 0, i) :
			    home_block(s, surface, first + i), s->copy[i]);
		if (power_goes(s))
			return -EINTR;
		if (step->kind == DUAL_STEP_INPLACE)
			continue;
		if (broken && !sim_below(&s->random, 4))
			return -EIO;
		beside(s);
	}
	s->in_memory = NULL;
	return 0;
}

static void count_round(struct sim *s, u32 surface, const struct dual_cache *c)
{
	s->res->rounds++;
	s->res->kept += c->predict.last.kept_blocks;
	s->res->homed += c->predict.last.home_blocks;
	s->res->rmws += c->predict.last.home_bands;
	if (s->plan->told)
		s->plan->told(s->plan->ctx, surface, c);
}

/* Fail a read; a write of some of its slots; or one slot that cannot be written. */
static void fail_step(struct sim *s, struct dual_cache *c)
{
	struct dual_failure f = { .nr = 0 };

	if (c->step.nr && sim_below(&s->random, 2)) {
		f.slot[0] = c->step.move[sim_below(&s->random, c->step.nr)].dst;
		f.end = f.slot[0] + 1;
		f.nr = 1;
		f.proven = sim_below(&s->random, 2);
	}
	dual_step_failed(c, &f);
}

static void clean(struct sim *s, u32 surface)
{
	struct dual_cache *c = &s->cache[surface];
	u32 drops = c->round.nr_drops;
	struct dual_step step;
	int err;

	err = dual_clean_next(c, s->plan->trouble && !sim_below(&s->random, 20), &step);
	if (err == -EAGAIN)
		let_others(s);
	if (err <= 0)
		return;
	s->res->steps++;
	err = step.kind == DUAL_STEP_COPY ? copy_moves(s, surface, c) :
	      step.kind == DUAL_STEP_SWITCH ? 0 : copy_band(s, surface, c, &step);
	if (err == -EINTR)
		return;
	if (err) {
		fail_step(s, c);
		s->res->fails++;
		return;
	}
	s->quiet = 0;
	dual_step_done(c, &step, s->seq);
	while (dual_tidy(c))
		;
	if (step.kind == DUAL_STEP_SWITCH) {
		s->res->lowered += drops ? drops - 1 : 0;
		count_round(s, surface, c);
	}
	check(s);
	if (!s->plan->commit_every)
		settle(s);
}

/* ------------------------------------------------------------------------
 * The simulation
 */

static int try_write(struct sim *s)
{
	struct sim_write *w = &s->write[s->nr_writes];
	struct dual_cache *c;
	u32 slot = 0, i;
	int err;

	if (!s->next.n)
		draw_write(s);
	*w = s->next;
	c = &s->cache[w->surface];
	err = dual_place(c, w->n, &w->slot, &w->n);
	if (err)
		return err;
	for (i = 0; i < w->n; i++) {
		slot = w->slot + i;
		if (shingle_slot_state(&c->map, slot) != SHINGLE_SLOT_SPENT)
			fail(s, "slot %u was placed, and is not spent", slot);
	}
	w->version = ++s->version;
	w->hit = false;
	s->next.lblk += w->n;
	s->next.n -= w->n;
	s->nr_writes++;
	if (c->phase != DUAL_FILL)
		s->res->late += w->n;
	return 0;
}

static void host(struct sim *s)
{
	int err = try_write(s);

	if (err == -EBUSY) {
		if (!s->nr_writes && !s->cache[s->next.surface].sync.waiting &&
		    s->cache[s->next.surface].phase == DUAL_FILL &&
		    !s->cache[s->next.surface].wanted && !s->plan->trouble)
			fail(s, "a write is to wait for nothing");
		if (sim_below(&s->random, 2))
			let_others(s);
		else
			clean(s, s->next.surface);
	} else if (err) {
		clean(s, s->next.surface);
	}
}

static void make_trouble(struct sim *s)
{
	u32 i;

	if (!sim_below(&s->random, 300))
		cut_power(s);
	for (i = 0; i < s->plan->surfaces && !sim_below(&s->random, 8) && !failed(s); i++)
		dual_verify(&s->cache[i], fail, s);
}

static void run(struct sim *s)
{
	const struct dual_sim_plan *plan = s->plan;
	u32 surface;

	while ((s->res->writes < plan->writes || s->res->rounds < plan->rounds) && !failed(s)) {
		if (plan->trouble)
			make_trouble(s);
		if (s->nr_writes < plan->depth && (!s->nr_writes || sim_below(&s->random, 4)))
			host(s);
		else
			go_on_writing(s);
		surface = sim_below(&s->random, plan->surfaces);
		if (s->cache[surface].phase != DUAL_FILL && sim_below(&s->random, 2))
			clean(s, surface);
		if (plan->commit_every && (s->stage != SIM_OPEN ? !sim_below(&s->random, 3) :
					   s->since_commit >= plan->commit_every))
			advance_commit(s);
		if (++s->quiet > PATIENCE)
			fail(s, "nothing makes progress");
	}
}

static int make_medium(struct sim *s)
{
	const struct dual_sim_plan *plan = s->plan;
	struct platter_zone *pz = &s->geo.zone[0];
	u32 guard = plan->head_tracks - 1;
	const char *why = "";

	if (dual_shape_check(&plan->shape, &why)) {
		fail(s, "no such cache: %s", why);
		return -EINVAL;
	}
	s->slots = plan->shape.tracks * plan->shape.track_blocks;
	s->band_blocks = plan->band_tracks * plan->shape.track_blocks;
	s->lblks = plan->bands * s->band_blocks;
	s->band_stride = (u64)(plan->band_tracks + guard) * plan->shape.track_blocks;
	s->geo.sub_units = DUAL_SUB_UNITS;
	s->geo.rot_ns = 1;
	s->geo.surfaces = plan->surfaces;
	s->geo.nr_zones = 1;
	s->geo.media = PLATTER_SMR;
	s->geo.head_mtracks = plan->head_tracks * 1000;
	pz->cyls = plan->shape.tracks + guard + (plan->bands + 1) * (plan->band_tracks + guard);
	pz->swath_cyls = pz->cyls;
	pz->track_blocks = plan->shape.track_blocks;
	pz->track_skew_units = plan->shape.skew_units;
	s->surface_blocks = (u64)pz->cyls * pz->track_blocks;
	if (platter_geo_init(&s->geo, &why)) {
		fail(s, "no such medium: %s", why);
		return -EINVAL;
	}
	return 0;
}

static void *alloc(struct sim *s, size_t n, size_t size)
{
	void *p = shingle_zalloc_array(n, size);

	if (!p)
		fail(s, "out of memory");
	s->mem[s->nr_mem++] = p;
	return p;
}

static void make_snap(struct sim *s, u32 surface, struct sim_snap *snap)
{
	u32 i;

	snap->owner = alloc(s, s->slots, sizeof(*snap->owner));
	snap->count = alloc(s, s->slots, sizeof(*snap->count));
	snap->slot = alloc(s, s->lblks, sizeof(*snap->slot));
	snap->version = alloc(s, s->lblks, sizeof(*snap->version));
	snap->round = s->cache[surface].round;
	for (i = 0; i < s->lblks && !failed(s); i++)
		snap->slot[i] = SHINGLE_NO_SLOT;
}

static int make_all(struct sim *s)
{
	const struct dual_sim_plan *plan = s->plan;
	u32 i;

	if (make_medium(s))
		return -EINVAL;
	s->medium = alloc(s, s->geo.blocks, sizeof(*s->medium));
	s->current_version = alloc(s, (size_t)plan->surfaces * s->lblks,
				   sizeof(*s->current_version));
	s->copy = alloc(s, s->band_blocks, sizeof(*s->copy));
	for (i = 0; i < plan->surfaces && !failed(s); i++) {
		struct dual_cache *c = &s->cache[i];

		if (dual_cache_init(c, &plan->shape, s->band_blocks)) {
			fail(s, "no such cache");
			break;
		}
		c->opt.literal = plan->literal;
		c->opt.unsafe_switch = plan->unsafe_switch;
		c->opt.unsafe_inplace = plan->unsafe_inplace;
		s->recorded[i] = c->round;
		make_snap(s, i, &s->closed[i]);
		make_snap(s, i, &s->durable[i]);
	}
	s->seq = 1;
	return failed(s) ? -ENOMEM : 0;
}

/**
 * dual_sim() - run a load on caches
 * @plan: the load
 * @res: result
 *
 * Context: may sleep.
 * Return: 0, or -EIO with a sentence in @res->error.
 */
int dual_sim(const struct dual_sim_plan *plan, struct dual_sim_result *res)
{
	struct sim *s = shingle_zalloc_array(1, sizeof(*s));
	u32 i;

	memset(res, 0, sizeof(*res));
	if (!s)
		return -ENOMEM;
	s->plan = plan;
	s->res = res;
	s->random = plan->seed;
	if (!make_all(s))
		run(s);
	for (i = 0; i < MAX_SURFACES; i++)
		dual_cache_exit(&s->cache[i]);
	while (s->nr_mem)
		kvfree(s->mem[--s->nr_mem]);
	kvfree(s);
	return res->error[0] ? -EIO : 0;
}

/**
 * dual_sim_draw() - draw a random shape of caches and a load with all kinds of events
 * @state: state of the generator
 * @head_tracks: width of the head
 * @plan: result, except the number of writes
 *
 * Context: any.
 */
void dual_sim_draw(u64 *state, u32 head_tracks, struct dual_sim_plan *plan)
{
	struct dual_shape *shape = &plan->shape;
	const char *why;

	do {
		memset(plan, 0, sizeof(*plan));
		shape->tracks = sim_between(state, 1, 14);
		shape->track_blocks = sim_between(state, 4, 24);
		if (sim_between(state, 0, 3))
			shape->skew_units = sim_between(state, 0, shape->track_blocks - 1) *
					    DUAL_SUB_UNITS;
		if (!sim_between(state, 0, 2))
			shape->skew_units += sim_between(state, 0, DUAL_SUB_UNITS - 1);
		shape->sample_tracks = sim_between(state, 1, shape->tracks);
		shape->sample_percent = sim_between(state, 0, 60);
		shape->min_new_percent = sim_between(state, 0, 40);
		shape->min_fb_percent = sim_between(state, 0, 30);
		shape->fit = sim_between(state, 0, DUAL_NR_FITS - 1);
		shape->ratchet = sim_between(state, 0, 1);
		if (!sim_between(state, 0, 3)) {
			shape->sample_tracks = 0;
			shape->static_percent = sim_between(state, 1, 99);
		}
	} while (dual_shape_check(shape, &why));
	plan->head_tracks = head_tracks;
	plan->surfaces = sim_between(state, 1, 2);
	plan->bands = sim_between(state, 1, 6);
	plan->band_tracks = sim_between(state, 1, 3);
	plan->seed = sim_random(state);
	plan->hot_percent = sim_between(state, 0, 30);
	plan->hot_writes_percent = sim_between(state, 0, 95);
	plan->depth = sim_between(state, 1, 8);
	plan->most_blocks = sim_between(state, 1, 6);
	plan->commit_every = sim_between(state, 0, 12);
	plan->check = true;
	plan->trouble = true;
}
