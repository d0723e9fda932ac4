// SPDX-License-Identifier: GPL-2.0
/*
 * windows-check: the blocks that core and the planner expect a write to destroy, compared with
 * those that dm-platter's head destroys, over random media and layouts.
 *
 *   R0 of bands     all blocks that a write destroys lie in its windows; destroyed data lie
 *                   behind the write in its own band, or on tops beside a bottom; if the
 *                   medium has described itself, nothing else lies in the windows; core
 *                   refuses the write if and only if a block in them is in use
 *   R1              two writes of which one destroys blocks of the other are neighbours;
 *                   if the medium has described itself, no others are
 *   guards          a band in the guard of another is no layout
 *   R0 of metadata  the first and the last block of a device destroy nothing that is
 *                   used, a slot or the ring only itself in front of the write, the
 *                   ring no farther than its gap
 *
 * Core knows each medium as it is written into a superblock and read from there.
 *
 * windows-check SEED MEDIA [narrow]
 * windows-check describe PROFILE	the answer of a platter of a named drive to `geometry'
 */
#include <stdio.h>
#include <stdlib.h>

#include "engines.h"
#include "medium.h"
#include "shingle/dm.h"
#include "shingle/plan.h"

static struct shingle_layout l;
static u64 state, media_drawn, layouts, refused, writes, destroyed, wrong, exact, pairs,
	   guards;
static const char *what;

static u32 below(u32 n)
{
	/* splitmix64 */
	u64 z = (state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (u32)((z ^ (z >> 31)) >> 32) % n;
}

static u32 between(u64 from, u64 to)
{
	return from + below(to - from + 1);
}

/* A write, and what it may destroy. */
struct attempt {
	u32 dev;
	u64 block;
	u64 n;
	u64 from;	/* of metadata: free from here ... */
	u64 to;		/* ... up to here */
	bool band;
};

static void complain(const struct attempt *a, u64 block, const char *why)
{
	wrong++;
	if (wrong <= 20)
		printf("%s: writing %llu blocks at %llu of device %u (%s) destroys block %llu: %s\n",
		       l.engine, (unsigned long long)a->n, (unsigned long long)a->block, a->dev, what,
		       (unsigned long long)block, why);
}

static bool in_metadata(u32 dev, u64 block)
{
	const struct shingle_area *area[] = { &l.ckpt[0], &l.ckpt[1], &l.journal };
	u64 last = l.dev_blocks[dev] - 1, i, k;

	/* Superblocks, or the blocks that identify the owner of the device. */
	if (block == 0 || block == last)
		return true;
	if (dev != shingle_meta_dev(&l))
		return false;
	for (i = 0; i < 2; i++) {
		for (k = 0; k < shingle_ckpt_room(&l, i); k++) {
			if (shingle_ckpt_block(&l, i, k) == block)
				return true;
		}
	}
	return block - area[2]->start < area[2]->blocks;
}

static bool in_windows(const struct attempt *a, u64 block)
{
	struct shingle_windows it;
	struct shingle_window w;

	shingle_windows_begin(&it, &l, shingle_pblk(a->dev, a->block), a->n);
	while (shingle_windows_next(&it, &w)) {
		if (shingle_pblk(a->dev, block) - w.from < w.blocks)
			return true;
	}
	return false;
}

/* All that the engine uses is one block. */
static struct {
	enum shingle_role role;
	u64 band;
	u64 offset;
} used;

static bool is_used(struct shingle_engine *e, enum shingle_role role, u64 band, u64 offset, u64 n)
{
	return role == used.role && band == used.band && used.offset >= offset &&
	       used.offset - offset < n;
}

static const struct shingle_engine_ops of_one_block = { .map.referenced = is_used };
static struct shingle_engine one_block = { .ops = &of_one_block };

/* From now on it uses this one.  Returns whether that is in a band. */
static bool use(u32 dev, u64 block)
{
	return shingle_band_of(&l, shingle_pblk(dev, block), &used.role, &used.band,
			       &used.offset);
}

static bool is_refused(const struct attempt *a)
{
	return shingle_would_destroy(&l, &one_block, shingle_pblk(a->dev, a->block), a->n);
}

/* Compare the use of a random block near by, and of a stretch that begins near by. */
static void judge_use(const struct attempt *a)
{
	u64 reach = 3 * 64, low = a->block > reach ? a->block - reach : 0;
	u64 block = low + below(2 * reach), from = low + below(2 * reach);
	u64 n = between(1, 2 * reach);

	if (!use(a->dev, block))
		return;
	if (is_refused(a) != in_windows(a, block))
		complain(a, block, "or not, and core says the other if it is in use");
	if (shingle_in_use(&l, &one_block, shingle_pblk(a->dev, from), n) != (block - from < n))
		complain(a, block, "of which core does not know whether a stretch has it");
}

static void judge_band(const struct attempt *a, u64 block)
{
	u64 start = shingle_pblk(a->dev, a->block), pblk = shingle_pblk(a->dev, block);
	bool inside = in_windows(a, block);
	enum shingle_role role, own;
	u64 band, offset, own_band, own_offset;

	if (in_metadata(a->dev, block))
		complain(a, block, "metadata");
	shingle_band_of(&l, start, &own, &own_band, &own_offset);
	/* Guards, and tracks that are left alone. */
	if (!shingle_band_of(&l, pblk, &role, &band, &offset))
		return;
	if (!inside)
		complain(a, block, "no window of the write");
	if (!use(a->dev, block) || !is_refused(a))
		complain(a, block, "in use, and not refused");
	if (l.interlaced && (role != SHINGLE_ROLE_DATA || own != SHINGLE_ROLE_DATA ||
			     own_band & 1 || (band + 1 != own_band && band != own_band + 1)))
		complain(a, block, "no top beside a bottom");
	if (!l.interlaced && (role != own || band != own_band))
		complain(a, block, "another band");
}

static void judge_metadata(const struct attempt *a, u64 block)
{
	enum shingle_role role;
	u64 band, offset;

	if (block >= a->from && block < a->to)
		return;
	if (in_metadata(a->dev, block))
		complain(a, block, "metadata");
	else if (shingle_band_of(&l, shingle_pblk(a->dev, block), &role, &band, &offset))
		complain(a, block, "a band");
}

static int judge(void *ctx, uint64_t block, uint32_t n)
{
	const struct attempt *a = ctx;

	for (; n; n--, block++) {
		destroyed++;
		if (block - a->block < a->n)
			complain(a, block, "what it has just written");
		else if (a->band)
			judge_band(a, block);
		else
			judge_metadata(a, block);
	}
	return 0;
}

static int mark(void *ctx, uint64_t block, uint32_t n)
{
	memset((u8 *)ctx + block, 1, n);
	return 0;
}

/* All that its windows name the write has destroyed. */
static void judge_windows(const struct attempt *a)
{
	u8 *gone = calloc(l.dev_blocks[a->dev] + 1, 1);
	struct shingle_windows it;
	struct shingle_window w;
	u64 i;

	if (a->dev >= SHINGLE_NR_MEDIA || !l.medium[a->dev].columns || !gone) {
		free(gone);
		return;
	}
	exact++;
	medium_write(a->dev, a->block, a->n, mark, gone);
	shingle_windows_begin(&it, &l, shingle_pblk(a->dev, a->block), a->n);
	while (shingle_windows_next(&it, &w)) {
		for (i = 0; i < w.blocks; i++) {
			u64 block = shingle_pblk_block(w.from) + i;

			if (block >= l.dev_blocks[a->dev] || !gone[block])
				complain(a, block, "not at all, but a window names it");
		}
	}
	free(gone);
}

struct target {
	u64 block;
	u64 n;
};

static int meets(void *ctx, uint64_t block, uint32_t n)
{
	const struct target *t = ctx;

	return block < t->block + t->n && t->block < block + n;
}

/* May a write near by be under way with this one? */
static void judge_pair(const struct attempt *a)
{
	struct target one = { a->block, a->n }, two;
	u64 reach = 3 * 64, blocks = l.dev_blocks[a->dev];
	bool harm, near = false;
	struct shingle_windows it;
	struct shingle_window w;

	two.block = a->block > reach ? a->block - reach : 0;
	two.block += below(2 * reach);
	two.n = between(1, below(3) ? 4 : 100);
	if (two.block + two.n > blocks ||
	    (two.block < one.block + one.n && one.block < two.block + two.n) ||
	    !shingle_neighbours_begin(&it, &l, shingle_pblk(a->dev, a->block), a->n))
		return;
	pairs++;
	harm = medium_write(a->dev, one.block, one.n, meets, &two) ||
	       medium_write(a->dev, two.block, two.n, meets, &one);
	while (shingle_windows_next(&it, &w))
		near |= meets(&two, shingle_pblk_block(w.from), w.blocks);
	if (near != harm)
		complain(a, two.block, harm ? "or is harmed by what begins there, no neighbour" :
					      "not at all, but it is a neighbour");
}

static void try_write(struct attempt *a, const char *name)
{
	what = name;
	writes++;
	medium_write(a->dev, a->block, a->n, judge, a);
}

static void try_bands(void)
{
	static const char *const names[] = { "data", "cache", "staging" };
	u32 i;

	for (i = 0; i < 60; i++) {
		enum shingle_role role = below(SHINGLE_NR_ROLES);
		struct attempt a = { .band = true };
		u64 offset, pblk;

		if (!l.nr_bands[role])
			continue;
		offset = below(l.band_blocks[role]);
		pblk = shingle_band_pblk(&l, role, below(l.nr_bands[role])) + offset;
		a.dev = shingle_pblk_dev(pblk);
		a.block = shingle_pblk_block(pblk);
		a.n = between(1, below(2) ? l.band_blocks[role] - offset :
					    min(l.band_blocks[role] - offset, 8ULL));
		try_write(&a, names[role]);
		judge_windows(&a);
		judge_pair(&a);
		judge_use(&a);
	}
}

static void try_slots(void)
{
	u32 i;

	for (i = 0; i < 20; i++) {
		u32 slot = below(2);
		u64 room = shingle_ckpt_room(&l, slot), at = below(room);
		struct attempt a = { .dev = shingle_meta_dev(&l),
				     .block = shingle_ckpt_block(&l, slot, at) };

		a.n = between(1, min3(room - at, 64ULL, (u64)shingle_ckpt_run(&l, at)));
		/* The blocks in front of it are not written yet. */
		a.from = a.block + a.n;
		a.to = l.ckpt[slot].start + l.ckpt[slot].blocks;
		try_write(&a, "checkpoint slot");
	}
}

static void try_ring(void)
{
	u32 i;

	for (i = 0; i < 20; i++) {
		u64 at = below(l.journal.blocks);
		struct attempt a = { .dev = shingle_meta_dev(&l),
				     .block = l.journal.start + at };

		a.n = between(1, min(l.journal.blocks - at, 64ULL));
		a.from = a.block + a.n;
		a.to = min(a.from + l.journal_gap_blocks, l.journal.start + l.journal.blocks);
		try_write(&a, "journal");
	}
}

/* One more band, in the guard behind the last of a group, if it is that long. */
static void try_guards(void)
{
	static struct shingle_layout more;
	const char *why;
	u32 i;

	for (i = 0; i < l.nr_groups; i++) {
		const struct shingle_group *g = &l.groups[i];
		u64 end = g->start + (g->nr_bands - 1) * g->stride + l.band_blocks[g->role];
		u32 data = l.band_blocks[SHINGLE_ROLE_DATA];

		if (g->stride < l.band_blocks[g->role] + data ||
		    l.nr_groups == SHINGLE_LAYOUT_GROUPS)
			continue;
		more = l;
		more.groups[more.nr_groups++] = (struct shingle_group){
			.start = end, .stride = data, .nr_bands = 1,
			.first_band = more.nr_bands[SHINGLE_ROLE_DATA]++,
			.role = SHINGLE_ROLE_DATA,
		};
		shingle_layout_index(&more);
		guards++;
		if (shingle_layout_check(&more, &why))
			continue;
		wrong++;
		printf("%s: a band at %llu, in the guard of another one, is accepted\n", l.engine,
		       (unsigned long long)shingle_pblk_block(end));
	}
}

static void try_layout(void)
{
	u32 dev;

	layouts++;
	for (dev = 0; dev < SHINGLE_NR_DEVS; dev++) {
		struct attempt first = { .dev = dev, .block = 0, .n = 1 };
		struct attempt last = { .dev = dev, .block = l.dev_blocks[dev] - 1, .n = 1 };

		if (!l.dev_blocks[dev])
			continue;
		try_write(&first, "first block of a device");
		try_write(&last, "last block of a device");
	}
	try_slots();
	try_ring();
	try_bands();
	try_guards();
}

/* The device mapper is not asked: the medium is drawn. */
bool dm_device_at(dev_t rdev, struct dm_line *line)
{
	return false;
}

char *dm_device_message(const char *name, const char *message)
{
	return NULL;
}

void dm_line_free(struct dm_line *line)
{
}

int fail(const char *fmt, ...)
{
	return 1;
}

/* Core knows of its media what is on them: what the planner knew, written and read. */
static bool read_back(void)
{
	const char *why = "";
	u32 i;

	for (i = 0; i < SHINGLE_NR_MEDIA; i++) {
		struct shingle_disk_medium disk = {};
		struct shingle_medium m;

		if (!l.dev_blocks[i])
			continue;
		shingle_medium_encode(&l.medium[i], &disk);
		if (shingle_medium_decode(&disk, l.dev_blocks[i], &m, &why)) {
			wrong++;
			printf("%s: medium %u is not read as it was written: %s\n", l.engine, i, why);
			return false;
		}
		l.medium[i] = m;
	}
	return true;
}

static bool lay_out(const struct engine_row *row, struct plan_request *req)
{
	char why[PLAN_WHY];
	u32 i;

	memset(&l, 0, sizeof(l));
	snprintf(l.engine, sizeof(l.engine), "%s", row->ops->name);
	for (i = 0; row->ops->params[i].name; i++) {
		/* A few bands a zone, so that there are several; the rest by default. */
		if (!strcmp(row->ops->params[i].name, "zone-bands"))
			engine_param_set(&row->ops->params[i], l.params, between(4, 12));
	}
	req->row = row;
	req->journal_blocks = 0;
	req->cache_first = row->ops->needs.cache && below(2);
	req->band_blocks = row->ops->needs.interlaced ? 0 : between(1, 200);
	req->cache_band_blocks = row->ops->needs.cache && below(2) ? between(1, 400) : 0;
	return !plan_layout(req, &l, why) && l.logical_blocks && read_back();
}

/* A platter for a device, as `shingle create' would ask it. */
static bool draw(u32 dev, bool interlaced, struct shingle_medium *m, u32 *head_tracks)
{
	static char reply[1 << 20];
	char why[PLAN_WHY];
	u32 own;

	media_drawn++;
	plan_no_tracks(m, medium_draw(dev, below, interlaced, reply, sizeof(reply)));
	/* Some tell no more than their runs: then whole tracks are all that is known. */
	if (!below(4))
		memcpy(strstr(reply, "density"), "gravity", 7);
	if (!medium_parse(reply, m, &own, why)) {
		refused++;
		return false;
	}
	*head_tracks = max(*head_tracks, own);
	return true;
}

/* @narrow: core assumes a head one track narrower, so the test must find errors. */
static void try_media(bool narrow)
{
	struct plan_request req = { .head_tracks = 1 };
	u32 i;

	if (!draw(SHINGLE_DEV_DATA, below(4) == 0, &req.medium[SHINGLE_DEV_DATA],
		  &req.head_tracks) ||
	    (!below(3) && !draw(SHINGLE_DEV_META, below(4) == 0, &req.medium[SHINGLE_DEV_META],
				&req.head_tracks)) ||
	    (!below(3) && !draw(SHINGLE_DEV_CACHE, below(4) == 0,
				&req.medium[SHINGLE_DEV_CACHE], &req.head_tracks)))
		return;
	if (narrow && req.head_tracks > 1) {
		req.head_tracks--;
		for (i = 0; i < SHINGLE_NR_DEVS; i++)
			req.medium[i].geo.head_mtracks = req.head_tracks * 1000;
	}
	for (i = 0; engine_by_index(i); i++) {
		const struct engine_row *row = engine_by_index(i);
		struct plan_request r = req;

		if (!row->ops->needs.cache)
			r.medium[SHINGLE_DEV_CACHE].blocks = 0;
		if (lay_out(row, &r))
			try_layout();
		else
			refused++;
	}
}

int main(int argc, char **argv)
{
	static char reply[1 << 20];
	u64 seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	u64 count = argc > 2 ? strtoull(argv[2], NULL, 0) : 1000, i;

	if (argc == 3 && !strcmp(argv[1], "describe")) {
		if (!medium_profile(argv[2], reply, sizeof(reply)))
			return 2;
		fputs(reply, stdout);
		return 0;
	}
	for (i = 0; i < count; i++) {
		state = (seed << 32) + i;
		try_media(argc > 3 && !strcmp(argv[3], "narrow"));
	}
	printf("%llu media, %llu layouts, %llu refused, %llu writes, %llu to the block, %llu pairs, %llu guards, %llu blocks destroyed, %llu that should not be\n",
	       (unsigned long long)media_drawn, (unsigned long long)layouts,
	       (unsigned long long)refused, (unsigned long long)writes,
	       (unsigned long long)exact, (unsigned long long)pairs, (unsigned long long)guards,
	       (unsigned long long)destroyed, (unsigned long long)wrong);
	return !!wrong;
}
