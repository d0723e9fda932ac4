// SPDX-License-Identifier: GPL-2.0
/* A finite disk: the engine of stl-log with its cleaner, see disk.h. */
#include "disk.h"
#include "log/engine.h"
#include "../shingle/log-defaults.h"

/* A track of 2 MiB, the guard of a band under a head of two tracks. */
#define GUARD_UNITS	512U
/* As DEFAULT_COPY_BLOCKS of core/target/target.c. */
#define COPY_UNITS	1024U

/* The layout of the smallest log that presents @units at @full per cent, or more. */
static bool lay_out(struct disk *d, u64 units)
{
	struct shingle_layout *l = &d->layout;
	struct stl_log_params *p = (void *)l->params;
	u64 wanted = max(DIV_ROUND_UP(DIV_ROUND_UP(units * 100, d->opt.full),
				      d->opt.segment_units), 1ULL);
	u64 nr = wanted + 3;

	while (nr - log_default_reserve(nr) < wanted)
		nr++;
	if (nr > U32_MAX || nr * d->opt.segment_units >= U32_MAX)
		return false;
	d->segments = nr;
	d->reserve = log_default_reserve(nr);
	memcpy(l->engine, stl_log_engine_ops.name, strlen(stl_log_engine_ops.name));
	p->reserve = cpu_to_le32(d->reserve);
	p->extents = cpu_to_le32(d->opt.extents ?: log_default_extents(nr * d->opt.segment_units));
	l->head_tracks = 1;
	l->groups[0] = (struct shingle_group){
		.stride = d->opt.segment_units + GUARD_UNITS, .nr_bands = nr,
		.role = SHINGLE_ROLE_DATA,
	};
	l->nr_groups = 1;
	l->nr_bands[SHINGLE_ROLE_DATA] = nr;
	l->band_blocks[SHINGLE_ROLE_DATA] = d->opt.segment_units;
	l->dev_blocks[SHINGLE_DEV_DATA] = nr * l->groups[0].stride;
	shingle_layout_index(l);
	l->logical_blocks = stl_log_engine_ops.logical_blocks(l);
	return true;
}

/* Room for the records of any operation. */
static u32 most_records(const struct shingle_engine *e)
{
	return max3(e->ops->commit_records, e->ops->discard_records,
		    max(e->ops->step_records, e->step_records));
}

/**
 * disk_init() - make a disk and fill it
 * @d: the disk
 * @opt: how
 * @units: addresses from 0 on that are in use: each is written once, in their order
 * @io: see struct disk
 * @ctx: for @io
 * @why: on error, a sentence
 *
 * Return: 0 or -errno.
 */
int disk_init(struct disk *d, const struct disk_options *opt, u64 units, disk_io_fn io, void *ctx,
	      const char **why)
{
	u64 at;
	int err;

	memset(d, 0, sizeof(*d));
	d->opt = *opt;
	d->io = io;
	d->ctx = ctx;
	d->seq = 1;
	d->copy_units = min(opt->segment_units, COPY_UNITS);
	*why = "such a disk would be larger than 16 TiB";
	if (!lay_out(d, units))
		return -EFBIG;
	err = stl_log_engine_ops.create(&d->e, &d->layout, why);
	if (err)
		return err;
	err = shingle_set(d->e, "clean", opt->clean, why);
	if (err)
		return err;
	*why = "out of memory";
	err = d->e->ops->state.ready(d->e, why);
	if (err)
		return err;
	d->max_rec = most_records(d->e);
	d->rec = calloc(d->max_rec, sizeof(*d->rec));
	d->fill = calloc(d->segments, sizeof(*d->fill));
	d->copy = calloc(d->copy_units, sizeof(*d->copy));
	if (!d->rec || !d->fill || !d->copy)
		return -ENOMEM;
	if (opt->check) {
		d->content = calloc(d->layout.dev_blocks[SHINGLE_DEV_DATA], sizeof(*d->content));
		d->newest = calloc(units, sizeof(*d->newest));
		if (!d->content || !d->newest)
			return -ENOMEM;
	}
	*why = "the extent map is full: see --extents";
	for (at = 0; !err && at < units; at += opt->segment_units)
		err = disk_write(d, at, min_t(u64, units - at, opt->segment_units));
	return err;
}

/**
 * disk_exit() - free the memory of a disk
 * @d: the disk; disk_init() may have failed, or @d is zeroed
 */
void disk_exit(struct disk *d)
{
	if (d->e)
		d->e->ops->destroy(d->e);
	free(d->rec);
	free(d->fill);
	free(d->copy);
	free(d->content);
	free(d->newest);
}

/* Segment of a place, and the offset of the place in it. */
static u32 segment_of(const struct disk *d, u64 place, u32 *offset)
{
	enum shingle_role role;
	u64 band, at;

	shingle_band_of(&d->layout, place, &role, &band, &at);
	*offset = at;
	return band;
}

static struct shingle_emit begin(const struct disk *d)
{
	return (struct shingle_emit){ .rec = d->rec, .max = d->max_rec, .seq = d->seq };
}

/* Make the records of an operation durable. */
static void commit(struct disk *d)
{
	while (d->e->ops->clean.release(d->e, d->seq))
		;
	d->seq++;
}

/* The disk writes units of one segment. */
static void written(struct disk *d, enum shingle_seek_class class, u64 place, u32 n)
{
	u32 offset, segment = segment_of(d, place, &offset);

	d->fill[segment] = offset + n;
	d->io(d->ctx, class, place, n);
}

static int by_source(const void *a, const void *b)
{
	const struct shingle_extent *x = a, *y = b;

	return x->src < y->src ? -1 : x->src > y->src;
}

/* Copy extents that fit into core's buffer: read each, and write what has one destination. */
static void copy(struct disk *d, u32 nr)
{
	u64 dst = d->copy[0].dst;
	u32 i, k, n = 0;

	for (i = 0; i < nr; i++)
		n += d->copy[i].n;
	for (i = 0; d->content && i < nr; i++) {
		for (k = 0; k < d->copy[i].n; k++)
			d->content[d->copy[i].dst + k] = d->content[d->copy[i].src + k];
	}
	qsort(d->copy, nr, sizeof(*d->copy), by_source);
	for (i = 0; i < nr; i = k) {
		u64 end = d->copy[i].src + d->copy[i].n;

		for (k = i + 1; k < nr && d->copy[k].src == end; k++)
			end += d->copy[k].n;
		d->io(d->ctx, SHINGLE_SEEK_CLEAN_READ, d->copy[i].src, end - d->copy[i].src);
	}
	written(d, SHINGLE_SEEK_CLEAN_WRITE, dst, n);
}

/* Do a step in parts, each of at most @copy_units. */
static void do_step(struct disk *d, const struct shingle_step *step)
{
	struct shingle_emit emit = begin(d);
	struct shingle_extent x;
	u32 nr = 0, n = 0, part;
	u64 cursor = 0;

	while (d->e->ops->clean.step_extent(d->e, step, &cursor, &x)) {
		for (; x.n; x.src += part, x.dst += part, x.n -= part) {
			part = min(x.n, d->copy_units - n);
			d->copy[nr] = x;
			d->copy[nr++].n = part;
			n += part;
			if (n < d->copy_units)
				continue;
			copy(d, nr);
			nr = 0;
			n = 0;
		}
	}
	if (nr)
		copy(d, nr);
	d->e->ops->clean.step_done(d->e, step, &emit);
	commit(d);
	d->n.steps++;
}

/* A write found no room.  Return: 0, or -ENOSPC if cleaning finds none either. */
static int clean(struct disk *d)
{
	struct shingle_step step;

	if (d->e->ops->clean.next_step(d->e, SHINGLE_WHY_PRESSURE, &step) != 1)
		return -ENOSPC;
	do_step(d, &step);
	return 0;
}

/* Place and write a part of @n units.  Return: its length, or what place() returned. */
static int write_part(struct disk *d, enum shingle_seek_class class, u32 lunit, u32 n)
{
	struct shingle_emit emit = begin(d);
	struct shingle_run run;
	u32 i;
	int err = d->e->ops->map.place(d->e, lunit, n, SHINGLE_LIFE_UNKNOWN, &run);

	if (err)
		return err;
	for (i = 0; d->content && i < run.n; i++)
		d->content[run.pblk + i] = d->newest[lunit + i];
	written(d, class, run.pblk, run.n);
	d->host = run.pblk + run.n;
	d->e->ops->map.commit(d->e, &run, &emit);
	commit(d);
	return run.n;
}

/**
 * disk_write() - the host writes
 * @d: the disk
 * @lunit: first address
 * @n: number of units, at least 1
 *
 * Return: 0, or -ENOSPC if no cleaning makes room.
 */
int disk_write(struct disk *d, u32 lunit, u32 n)
{
	u32 i;
	int part;

	for (i = 0; d->newest && i < n; i++)
		d->newest[lunit + i] = ++d->writes;
	while (n) {
		part = write_part(d, SHINGLE_SEEK_WRITE, lunit, n);
		if (part == -ENOSPC && !clean(d))
			continue;
		if (part < 0)
			return -ENOSPC;
		lunit += part;
		n -= part;
	}
	return 0;
}

/**
 * disk_rewrite() - write what was read at the host's frontier, if no cleaning is needed for it
 * @d: the disk
 * @lunit: first address
 * @n: number of units, at least 1, all of which are in use
 *
 * Return: whether all of it was written.
 */
bool disk_rewrite(struct disk *d, u32 lunit, u32 n)
{
	u32 offset, room;
	int part;

	segment_of(d, d->host - 1, &offset);
	room = d->opt.segment_units - offset - 1;
	if (n > room && (n > d->opt.segment_units || disk_counter(d, "free_bands") < 2))
		part = -ENOSPC;
	else
		part = 0;
	for (; n && part >= 0; lunit += part, n -= part) {
		part = write_part(d, SHINGLE_SEEK_REWRITE, lunit, n);
		if (part < 0)
			break;
	}
	d->n.dropped_rewrites += part < 0;
	return part >= 0;
}

/**
 * disk_discard() - the host discards
 * @d: the disk
 * @lunit: first address
 * @n: number of units, at least 1
 *
 * Return: 0.  A map without room keeps the units, as the target does.
 */
int disk_discard(struct disk *d, u32 lunit, u32 n)
{
	u64 done, i;
	bool dropped;

	for (; n; lunit += done, n -= done) {
		struct shingle_emit emit = begin(d);
		int err = d->e->ops->map.discard(d->e, lunit, n, &done, &dropped, &emit);

		if (err)
			return err;
		for (i = 0; d->newest && dropped && i < done; i++)
			d->newest[lunit + i] = 0;
		commit(d);
	}
	return 0;
}

/**
 * disk_find() - where are these units?
 * @d: the disk
 * @lunit: first address
 * @n: number of units, at least 1
 * @place: result: place of @lunit, or SHINGLE_NOWHERE: zeroes, which need no read
 *
 * Return: length of the run of @lunit, 1 to @n.
 */
u32 disk_find(struct disk *d, u32 lunit, u32 n, u64 *place)
{
	struct shingle_run run;
	u32 i;

	d->e->ops->map.resolve(d->e, lunit, n, &run);
	*place = run.kind == SHINGLE_RUN_MAPPED ? run.pblk : SHINGLE_NOWHERE;
	for (i = 0; d->newest && i < run.n; i++)
		d->n.wrong += d->newest[lunit + i] !=
			      (run.kind == SHINGLE_RUN_MAPPED ? d->content[run.pblk + i] : 0);
	return run.n;
}

/**
 * disk_segment() - the places that may be read together with another one
 * @d: the disk
 * @place: the other one
 * @lo: result: where its segment begins
 * @hi: result: place behind the last that was written there
 */
void disk_segment(const struct disk *d, u64 place, u64 *lo, u64 *hi)
{
	u32 offset, segment = segment_of(d, place, &offset);

	*lo = place - offset;
	*hi = *lo + d->fill[segment];
}

static void __printf(2, 3) found(void *ctx, const char *fmt, ...)
{
	struct disk *d = ctx;

	d->n.wrong++;
}

/**
 * disk_verify() - let the engine check itself, read all addresses, and count what is wrong
 * @d: the disk
 * @units: number of addresses in use
 */
void disk_verify(struct disk *d, u32 units)
{
	u64 cursor = 0, place;
	u32 at;

	while (cursor != SHINGLE_NOWHERE)
		d->e->ops->observe.verify(d->e, &cursor, found, d);
	for (at = 0; at < units; at += disk_find(d, at, units - at, &place))
		;
}

/**
 * disk_clear_counts() - forget what was counted so far, except errors
 * @d: the disk
 */
void disk_clear_counts(struct disk *d)
{
	d->n.steps = 0;
	d->n.dropped_rewrites = 0;
	shingle_counters_clear(d->e->ops->counters, d->e);
}

/**
 * disk_counter() - value of a counter of the engine
 * @d: the disk
 * @name: name of the counter
 *
 * Return: the number; 0 if the engine has no counter of that name.
 */
u64 disk_counter(const struct disk *d, const char *name)
{
	const struct shingle_counter *c;

	for (c = d->e->ops->counters; c->name; c++) {
		if (!strcmp(c->name, name))
			return shingle_counter_get(c, d->e);
	}
	return 0;
}
