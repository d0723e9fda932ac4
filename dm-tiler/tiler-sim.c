// SPDX-License-Identifier: GPL-2.0
/*
 * For tests: regions under random load and power cuts.  Pure code; see tiler-sim.h.
 *
 * The regions lie on tracks of dm-platter's geometry, which alone decides what a write
 * destroys; the region's own idea of the window is not used.  After each block that reaches
 * the medium, everything that the current map refers to must be intact, and everything that
 * the durable map refers to, as if the power failed now.  A power cut leaves only the
 * durable map.
 */
#ifndef __KERNEL__
#include <stdarg.h>
#endif

#include "tiler-sim.h"
#include "sim-random.h"

#define DEPTH		16U
#define NO_SLOT		U32_MAX
/* Value of a slot's seq while the slot is neither free nor waiting to be. */
#define IN_USE		U64_MAX
/* Content of the medium: the lower bits are the version, the rest is the block. */
#define VERSION_BITS	40
/* After this number of attempts without a commit the run counts as stuck. */
#define PATIENCE	200000U

/* A write in flight: placed, then on the medium, then committed. */
struct sim_write {
	u32 region;
	u32 laro;
	struct tiler_run run;
	u64 version;
	bool hit;
	bool failed;
};

/* The state that a power cut leaves. */
struct sim_snap {
	__le16 *entry;
	u32 *at;
	u32 *to;
	u64 *version;
	u64 seq;
};

enum sim_stage { SIM_OPEN, SIM_CLOSED, SIM_DURABLE };

struct sim {
	const struct tiler_sim_plan *plan;
	struct tiler_sim_result *res;
	u64 random;
	u64 seq;
	u64 version;
	struct platter_geo geo;
	struct tiler_stretch st;
	struct tiler_shape *shape;
	u32 used;
	struct tiler_slot *slot;
	u64 *free_seq;
	struct tiler_region *region;
	u64 *medium;
	u64 *current_version;
	u64 *copy;
	struct sim_snap closed;
	struct sim_snap durable;
	enum sim_stage stage;
	u32 since_commit;
	struct sim_write write[DEPTH];
	u32 nr_writes;
	struct sim_write next;
	u32 filled;
	u64 value;
	u32 quiet;
	void *mem[24];
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

static u64 block_of(const struct sim *s, u32 slot, u32 paro)
{
	u32 n = 1;

	return tiler_map_block(&s->st, slot, paro, &n);
}

static u64 lblk_of(const struct sim *s, u32 region, u32 laro)
{
	return (u64)region * s->shape->logical_blocks + laro;
}

static u64 value_of(u64 lblk, u64 version)
{
	return (lblk + 1) << VERSION_BITS | version;
}

static u32 snap_entry(const struct sim *s, u32 slot, u32 laro)
{
	return le16_to_cpu(s->durable.entry[slot * s->shape->logical_blocks + laro]);
}

/* The block where recovery would find the data. */
static bool find_durable(const struct sim *s, u32 region, u32 laro, u64 *block)
{
	u32 slot = s->durable.to[region], paro = TILER_NONE;

	if (slot != NO_SLOT)
		paro = snap_entry(s, slot, laro);
	if (paro == TILER_NONE) {
		slot = s->durable.at[region];
		paro = snap_entry(s, slot, laro);
	}
	if (paro != TILER_NONE)
		*block = block_of(s, slot, paro);
	return paro != TILER_NONE;
}

static void check_region(struct sim *s, u32 region)
{
	const struct tiler_region *r = &s->region[region];
	/* In the thesis, a clean in place holds the whole region in memory. */
	bool in_memory = r->stepping && r->to == r->at;
	u32 laro;

	for (laro = 0; laro < s->shape->logical_blocks; laro++) {
		u64 lblk = lblk_of(s, region, laro), version = s->current_version[lblk], block = 0;
		struct tiler_run run;

		tiler_lookup(r, laro, 1, &run);
		if (!run.slot != !version)
			fail(s, "block %llu is written, and is not, says the map",
			     (unsigned long long)lblk);
		else if (run.slot && !in_memory &&
			 s->medium[block_of(s, run.slot->number, run.paro)] !=
			 value_of(lblk, version))
			fail(s, "block %llu is lost", (unsigned long long)lblk);
		version = s->durable.version[lblk];
		if (find_durable(s, region, laro, &block) != !!version)
			fail(s, "block %llu is durable, and is not, says the map",
			     (unsigned long long)lblk);
		else if (version && s->medium[block] != value_of(lblk, version))
			fail(s, "block %llu is lost if the power goes now",
			     (unsigned long long)lblk);
	}
}

static void check(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->st.nr_regions && s->plan->check && !failed(s); i++)
		check_region(s, i);
}

static void write_block(struct sim *s, u32 slot, u32 paro, u64 value)
{
	s->value = value;
	platter_geo_write(&s->geo, block_of(s, slot, paro), 1, effect, s);
	check(s);
}

/* ------------------------------------------------------------------------
 * Transactions
 */

static void take_snap(struct sim *s)
{
	u32 i, laro, logical = s->shape->logical_blocks;

	s->closed.seq = s->seq++;
	if (!s->plan->check && !s->plan->trouble)
		return;
	for (i = 0; i < s->st.nr_regions; i++) {
		const struct tiler_region *r = &s->region[i];

		s->closed.at[i] = r->at->number;
		s->closed.to[i] = r->to ? r->to->number : NO_SLOT;
	}
	for (i = 0; i < s->st.nr_slots; i++) {
		for (laro = 0; laro < logical; laro++)
			s->closed.entry[i * logical + laro] =
				cpu_to_le16(tiler_entry(&s->slot[i], laro));
	}
	memcpy(s->closed.version, s->current_version,
	       (size_t)s->st.nr_regions * logical * sizeof(*s->closed.version));
}

static void release_all(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->st.nr_regions; i++)
		tiler_release(&s->region[i], s->durable.seq);
	for (i = 0; i < s->st.nr_slots; i++) {
		if (s->free_seq[i] <= s->durable.seq)
			s->free_seq[i] = 0;
	}
}

/* A transaction is first closed, then durable, and then its last reader leaves. */
static void advance_commit(struct sim *s)
{
	switch (s->stage) {
	case SIM_OPEN:
		take_snap(s);
		s->since_commit = 0;
		s->stage = SIM_CLOSED;
		break;
	case SIM_CLOSED:
		swap(s->closed, s->durable);
		s->res->commits++;
		s->stage = SIM_DURABLE;
		break;
	case SIM_DURABLE:
		release_all(s);
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

/* Only the durable state of slots and map remains. */
static void cut_power(struct sim *s)
{
	u32 i, k, laro, logical = s->shape->logical_blocks;
	const char *why;

	s->res->cuts++;
	for (i = 0; i < s->st.nr_slots; i++) {
		struct tiler_slot *slot = &s->slot[i];

		tiler_slot_init(s->shape, slot);
		for (laro = 0; laro < logical; laro++)
			tiler_set_entry(slot, laro, snap_entry(s, i, laro));
		s->free_seq[i] = 0;
	}
	for (i = 0; i < s->st.nr_regions; i++) {
		struct tiler_region *r = &s->region[i];

		memset(r, 0, sizeof(*r));
		r->shape = s->shape;
		r->count = &s->res->count;
		r->at = &s->slot[s->durable.at[i]];
		if (s->durable.to[i] != NO_SLOT)
			r->to = &s->slot[s->durable.to[i]];
		s->free_seq[r->at->number] = IN_USE;
		for (k = 0; k < tiler_pages(s->shape); k++) {
			if (tiler_region_add_page(r, k))
				fail(s, "region %u has a page that makes no sense", i);
		}
		if (r->to)
			s->free_seq[r->to->number] = IN_USE;
		if (tiler_region_ready(r, &why))
			fail(s, "region %u: %s", i, why);
	}
	memcpy(s->current_version, s->durable.version,
	       (size_t)s->st.nr_regions * logical * sizeof(*s->current_version));
	s->nr_writes = 0;
	s->next.run.n = 0;
	s->stage = SIM_OPEN;
	check(s);
}

/* ------------------------------------------------------------------------
 * The host's writes
 */

static bool meets(const struct sim *s, const struct sim_write *a, const struct sim_write *b)
{
	const struct tiler_shape *shape = s->shape;
	u32 i, k;

	if (a->run.slot != b->run.slot)
		return false;
	for (i = 0; i < a->run.n; i++) {
		for (k = 0; k < b->run.n; k++) {
			u32 one = tiler_cell(shape, a->run.paro + i);
			u32 two = tiler_cell(shape, b->run.paro + k);
			u32 rows = (max(one, two) - min(one, two)) / shape->columns;

			if (one % shape->columns == two % shape->columns &&
			    rows < shape->head_tracks)
				return true;
		}
	}
	return false;
}

/* Advance a random write; of those that may meet, the earlier goes first (R1). */
static void go_on_writing(struct sim *s)
{
	u32 i = sim_below(&s->random, s->nr_writes), k;
	struct sim_write *w;
	u32 n;

	for (k = 0; k < i; k++) {
		if (meets(s, &s->write[k], &s->write[i])) {
			i = k;
			k = U32_MAX;
		}
	}
	w = &s->write[i];
	if (!w->hit) {
		w->hit = true;
		w->failed = s->plan->trouble && !sim_below(&s->random, 40);
		n = w->failed ? sim_below(&s->random, w->run.n + 1) : w->run.n;
		for (k = 0; k < n; k++)
			write_block(s, w->run.slot->number, w->run.paro + k,
				    value_of(lblk_of(s, w->region, w->laro + k), w->version));
		return;
	}
	if (w->failed) {
		tiler_abort(&s->region[w->region], &w->run);
		s->res->fails++;
	} else {
		tiler_commit(&s->region[w->region], w->laro, &w->run, s->seq);
		for (k = 0; k < w->run.n; k++)
			s->current_version[lblk_of(s, w->region, w->laro + k)] = w->version;
		s->res->writes += w->run.n;
		s->since_commit++;
		s->quiet = 0;
	}
	s->nr_writes--;
	memmove(w, w + 1, (s->nr_writes - i) * sizeof(*w));
	if (!s->plan->commit_every)
		settle(s);
}

static void draw_write(struct sim *s)
{
	struct sim_write *w = &s->next;
	u32 hot = s->used * s->plan->hot_percent / 100, n;

	if (s->plan->fill && s->filled < s->st.nr_regions * s->used) {
		w->region = s->filled / s->used;
		w->laro = s->filled++ % s->used;
		w->run.n = 1;
		return;
	}
	w->region = sim_below(&s->random, s->st.nr_regions);
	if (!hot || hot == s->used)
		w->laro = sim_below(&s->random, s->used);
	else if (sim_below(&s->random, 100) < s->plan->hot_writes_percent)
		w->laro = sim_below(&s->random, hot);
	else
		w->laro = hot + sim_below(&s->random, s->used - hot);
	n = 1 + sim_below(&s->random, s->plan->most_blocks);
	w->run.n = min(n, s->used - w->laro);
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

static struct tiler_region *being_moved(struct sim *s)
{
	u32 i, from = sim_below(&s->random, s->st.nr_regions);

	for (i = 0; i < s->st.nr_regions; i++) {
		struct tiler_region *r = &s->region[(from + i) % s->st.nr_regions];

		if (r->to)
			return r;
	}
	return NULL;
}

static void flip(struct sim *s, struct tiler_region *r)
{
	struct tiler_slot *old = tiler_clean_flip(r);

	if (!old)
		return;
	tiler_slot_init(s->shape, old);
	s->free_seq[old->number] = s->seq;
}

/* The power may fail in the middle; then none of the step's effects remain. */
static bool copy_step(struct sim *s, struct tiler_region *r, const struct tiler_step *step)
{
	u32 region = r - s->region, nr = 0, done, n, i, last = U32_MAX;
	bool broken = s->plan->trouble && !sim_below(&s->random, 25);
	struct tiler_extent x;
	struct tiler_run run;
	u64 cursor;

	for (cursor = 0; tiler_clean_extent(r, step, cursor, &x);
	     cursor = tiler_clean_behind(step, &x, n)) {
		n = x.n;
		tiler_map_block(&s->st, r->at->number, x.src, &n);
		tiler_map_block(&s->st, r->to->number, x.dst, &n);
		for (i = 0; i < n; i++)
			s->copy[nr++] = s->medium[block_of(s, r->at->number, x.src + i)];
		for (i = 0; i < n && !step->whole_in_memory; i++) {
			u64 lblk = lblk_of(s, region, x.laro + i);

			if (s->copy[nr - n + i] != value_of(lblk, s->current_version[lblk]))
				fail(s, "block %llu is moved, and is not there",
				     (unsigned long long)lblk);
		}
		if (last != U32_MAX && x.dst != last)
			fail(s, "a step leaves places out");
		last = x.dst + n;
	}
	if (nr != step->n)
		fail(s, "a step moves %u of %u blocks", nr, step->n);
	for (done = 0, cursor = 0; tiler_clean_moved(r, step, cursor, &x); done++)
		cursor = tiler_clean_behind(step, &x, x.n);
	if (done != step->runs)
		fail(s, "a step leaves %u records of %u", done, step->runs);
	for (i = 0; i < nr && !failed(s); i++) {
		if (!step->whole_in_memory &&
		    tiler_referenced(r, r->to, step->dst + i, 1))
			fail(s, "a step goes where something is");
		write_block(s, r->to->number, step->dst + i, s->copy[i]);
		if (tiler_place(r, 0, 1, &run) != -EBUSY)
			fail(s, "a write is placed beside a step");
		if (s->plan->trouble && !sim_below(&s->random, 200)) {
			cut_power(s);
			return false;
		}
		if (broken && !sim_below(&s->random, 4))
			break;
	}
	return i == nr;
}

static void step(struct sim *s, struct tiler_region *r)
{
	u64 cuts = s->res->cuts;
	struct tiler_step step;
	int more = tiler_clean_next(r, s->plan->step_blocks, &step);

	if (more == -EAGAIN) {
		go_on_writing(s);
		return;
	}
	if (!more) {
		flip(s, r);
		return;
	}
	s->res->steps++;
	if (copy_step(s, r, &step)) {
		tiler_clean_done(r, &step);
	} else if (cuts == s->res->cuts) {
		tiler_clean_failed(r, &step, sim_below(&s->random, 2));
		s->res->fails++;
	}
	if (!s->plan->commit_every)
		settle(s);
}

static struct tiler_slot *take_slot(struct sim *s)
{
	u32 i;

	for (i = 0; i < s->st.nr_slots; i++) {
		if (!s->free_seq[i])
			return &s->slot[i];
	}
	return NULL;
}

static void begin_clean(struct sim *s, struct tiler_region *r)
{
	struct tiler_slot *to = take_slot(s);
	struct tiler_region *other = being_moved(s);
	u32 laro;

	if (!to && !s->plan->unsafe_inplace) {
		/* Another clean is in progress. */
		if (other && sim_below(&s->random, 2))
			step(s, other);
		else
			let_others(s);
		return;
	}
	if (r->inflight) {
		tiler_clean_begin(r, to);
		go_on_writing(s);
		return;
	}
	if (!s->res->count.cleans && !s->res->first_clean)
		s->res->first_clean = s->res->writes;
	if (!s->plan->unsafe_inplace) {
		tiler_slot_init(s->shape, to);
		for (laro = 0; laro < s->shape->logical_blocks; laro++)
			tiler_set_entry(to, laro, TILER_NONE);
		s->free_seq[to->number] = IN_USE;
	}
	tiler_clean_begin(r, to);
	/* There is room for the write that waits, and for no other. */
	if (r->left == tiler_blocks(s->shape) && !s->plan->unsafe_inplace)
		return;
	while (r->to && (s->plan->whole || s->plan->unsafe_inplace) && !failed(s))
		step(s, r);
}

/* ------------------------------------------------------------------------
 * The simulation
 */

static void try_write(struct sim *s)
{
	struct sim_write *w = &s->write[s->nr_writes];
	struct tiler_region *r;
	int err;

	if (!s->next.run.n)
		draw_write(s);
	*w = s->next;
	r = &s->region[w->region];
	err = tiler_place(r, w->laro, w->run.n, &w->run);
	if (!err) {
		w->version = ++s->version;
		w->hit = false;
		s->next.laro += w->run.n;
		s->next.run.n -= w->run.n;
		s->nr_writes++;
	} else if (err == -EBUSY) {
		if (!s->nr_writes && !tiler_pending(r))
			fail(s, "a write is to wait for nothing");
		let_others(s);
	} else if (r->to) {
		step(s, r);
	} else {
		begin_clean(s, r);
	}
}

static void make_trouble(struct sim *s)
{
	struct tiler_region *r = &s->region[sim_below(&s->random, s->st.nr_regions)];
	u32 laro = sim_below(&s->random, s->used), n, i;

	if (!sim_below(&s->random, 300))
		cut_power(s);
	if (!sim_below(&s->random, 60)) {
		n = 1 + sim_below(&s->random, min(s->used - laro, 8U));
		tiler_drop(r, laro, n, s->seq);
		for (i = 0; i < n; i++)
			s->current_version[lblk_of(s, r - s->region, laro + i)] = 0;
	}
	for (i = 0; i < s->st.nr_regions && !sim_below(&s->random, 8) && !failed(s); i++)
		tiler_verify(&s->region[i], fail, s);
}

static void run(struct sim *s)
{
	const struct tiler_sim_plan *plan = s->plan;
	struct tiler_region *r;

	while (s->res->writes < plan->writes && !failed(s)) {
		if (plan->trouble)
			make_trouble(s);
		if (s->nr_writes < plan->depth && (!s->nr_writes || sim_below(&s->random, 4)))
			try_write(s);
		else
			go_on_writing(s);
		r = being_moved(s);
		if (r && !sim_below(&s->random, 3))
			step(s, r);
		if (plan->commit_every && (s->stage != SIM_OPEN ? !sim_below(&s->random, 3) :
					   s->since_commit >= plan->commit_every))
			advance_commit(s);
		if (++s->quiet > PATIENCE)
			fail(s, "nothing makes progress");
	}
}

/* One run of one surface, with all zones and their guards. */
static int make_medium(struct sim *s)
{
	const struct tiler_zones *z = &s->plan->zones;
	struct platter_zone *pz = &s->geo.zone[0];
	const char *why = "";
	struct tiler_map map = { .stretch = &s->st, .max = 1 };

	if (tiler_map_add(&map, z, &why) || map.nr_regions > 64) {
		fail(s, "no such regions: %s", why);
		return -EINVAL;
	}
	s->shape = &s->st.shape;
	s->shape->lazy = !s->plan->two_states;
	s->shape->unsafe_reuse = s->plan->unsafe_reuse;
	s->shape->unsafe_inplace = s->plan->unsafe_inplace;
	s->used = s->plan->used ?: s->shape->logical_blocks;
	s->geo.sub_units = SHINGLE_SUB_UNITS;
	s->geo.rot_ns = 1;
	s->geo.surfaces = 1;
	s->geo.nr_zones = 1;
	s->geo.media = PLATTER_SMR;
	s->geo.head_mtracks = z->head_tracks * 1000;
	pz->cyls = div_u64(z->start + s->st.zone_blocks * z->nr, z->track_blocks) + 1;
	pz->track_blocks = z->track_blocks;
	pz->track_skew_units = z->skew_units;
	return platter_geo_init(&s->geo, &why);
}

static void *alloc(struct sim *s, size_t n, size_t size)
{
	void *p = shingle_zalloc_array(n, size);

	if (!p)
		fail(s, "out of memory");
	s->mem[s->nr_mem++] = p;
	return p;
}

static void make_snap(struct sim *s, struct sim_snap *snap)
{
	u32 logical = s->shape->logical_blocks, i;

	snap->entry = alloc(s, (size_t)s->st.nr_slots * logical, sizeof(*snap->entry));
	snap->at = alloc(s, s->st.nr_regions, sizeof(*snap->at));
	snap->to = alloc(s, s->st.nr_regions, sizeof(*snap->to));
	snap->version = alloc(s, (size_t)s->st.nr_regions * logical, sizeof(*snap->version));
	if (failed(s))
		return;
	memset(snap->entry, 0xff, (size_t)s->st.nr_slots * logical * sizeof(*snap->entry));
	for (i = 0; i < s->st.nr_regions; i++) {
		snap->at[i] = i;
		snap->to[i] = NO_SLOT;
	}
}

static void make_slots(struct sim *s)
{
	u32 longs = BITS_TO_LONGS(tiler_blocks(s->shape)), pages = tiler_pages(s->shape), i, k;
	unsigned long *bits = alloc(s, (size_t)3 * longs * s->st.nr_slots, sizeof(long));
	__le16 *page = alloc(s, (size_t)pages * s->st.nr_slots, SHINGLE_CHUNK_BYTES);

	s->slot = alloc(s, s->st.nr_slots, sizeof(*s->slot));
	s->free_seq = alloc(s, s->st.nr_slots, sizeof(*s->free_seq));
	if (failed(s))
		return;
	for (i = 0; i < s->st.nr_slots; i++) {
		struct tiler_slot *slot = &s->slot[i];

		slot->number = i;
		slot->column = tiler_map_column(&s->st, i);
		for (k = 0; k < pages; k++, page += TILER_PAGE_ENTRIES)
			slot->page[k] = page;
		slot->taken = bits;
		slot->pins[0].cells = bits + longs;
		slot->pins[1].cells = bits + 2 * longs;
		bits += 3 * longs;
	}
}

static int make_all(struct sim *s)
{
	size_t blocks;

	if (make_medium(s))
		return -EINVAL;
	blocks = (size_t)s->st.nr_regions * s->shape->logical_blocks;
	s->medium = alloc(s, s->geo.blocks, sizeof(*s->medium));
	s->current_version = alloc(s, blocks, sizeof(*s->current_version));
	s->copy = alloc(s, tiler_blocks(s->shape), sizeof(*s->copy));
	s->region = alloc(s, s->st.nr_regions, sizeof(*s->region));
	make_slots(s);
	make_snap(s, &s->closed);
	make_snap(s, &s->durable);
	if (failed(s))
		return -ENOMEM;
	/* Begin like after a power cut before the first write. */
	cut_power(s);
	s->res->cuts = 0;
	s->seq = 1;
	return 0;
}

/**
 * tiler_sim() - run a load on regions
 * @plan: the load
 * @res: result
 *
 * Context: may sleep.
 * Return: 0, or -EIO with a sentence in @res->error.
 */
int tiler_sim(const struct tiler_sim_plan *plan, struct tiler_sim_result *res)
{
	struct sim *s = shingle_zalloc_array(1, sizeof(*s));

	memset(res, 0, sizeof(*res));
	if (!s)
		return -ENOMEM;
	s->plan = plan;
	s->res = res;
	s->random = plan->seed;
	if (!make_all(s))
		run(s);
	while (s->nr_mem)
		kvfree(s->mem[--s->nr_mem]);
	kvfree(s);
	return res->error[0] ? -EIO : 0;
}

/**
 * tiler_sim_draw() - draw a random shape of regions and a load with all kinds of events
 * @state: state of the generator
 * @head_tracks: width of the head
 * @plan: result, except the number of writes
 *
 * Context: any.
 */
void tiler_sim_draw(u64 *state, u32 head_tracks, struct tiler_sim_plan *plan)
{
	struct tiler_zones *z = &plan->zones;
	u32 slots;

	memset(plan, 0, sizeof(*plan));
	z->head_tracks = head_tracks;
	z->rows = sim_between(state, 1, sim_between(state, 2, 14));
	z->columns = sim_between(state, 1, 5);
	slots = sim_between(state, 1, 3);
	z->track_blocks = z->columns * slots + sim_between(state, 0, z->columns - 1);
	if (slots == 1 && sim_between(state, 0, 1))
		z->track_blocks = z->columns;
	z->nr = sim_between(state, slots == 1 ? 2 : 1, 3);
	z->spares = sim_between(state, 1, z->nr);
	if (z->spares >= z->nr * slots)
		z->spares = 1;
	if (sim_between(state, 0, 3))
		z->skew_units = sim_between(state, 0, z->track_blocks - 1) * SHINGLE_SUB_UNITS;
	z->start = sim_between(state, 0, 2) * z->track_blocks;
	z->over_permille = sim_between(state, 0, 2) ? 0 : sim_between(state, 0, 400);
	plan->seed = sim_random(state);
	plan->two_states = !sim_between(state, 0, 7);
	plan->depth = sim_between(state, 1, 8);
	plan->most_blocks = sim_between(state, 1, 6);
	plan->commit_every = sim_between(state, 0, 12);
	plan->step_blocks = sim_between(state, 1, 9);
	plan->whole = !sim_between(state, 0, 3);
	plan->fill = sim_between(state, 0, 1);
	plan->check = true;
	plan->trouble = true;
	/* Use only a part of the L-AROs in some runs: unused ones leave more places free. */
	if (sim_between(state, 0, 2) && !z->over_permille)
		plan->used = sim_between(state, 1, z->rows * z->columns);
}
