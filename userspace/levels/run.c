// SPDX-License-Identifier: GPL-2.0
/* The load, on a device and through any number of models at once. */
#include <unistd.h>

#include "run.h"

static u32 tracks_of(const struct run *r, const struct load_file *f)
{
	return (u32)DIV_ROUND_UP(load_file_bytes(&r->load, f), (u64)r->track_bytes);
}

/* The tracks of a file on the device, those in the first model behind them, ... */
static u32 *tracks_in(const struct run *r, const struct load_file *f, u32 nr)
{
	return f->tracks + (size_t)nr * tracks_of(r, f);
}

static struct extent extent_of(const struct run *r, const struct load_file *f)
{
	return (struct extent){
		.id = f->id, .level = f->level, .track = f->tracks,
		.tracks = tracks_of(r, f), .bytes = load_file_bytes(&r->load, f),
	};
}

/* The manifest reaches its medium before any operation relies on it. */
static int manifest_sync(FILE *f)
{
	int err = 0;

	/* EINVAL: a pipe or similar, which supports no fdatasync(). */
	if (fflush(f) || ferror(f) || (fdatasync(fileno(f)) && errno != EINVAL))
		err = -(errno ?: EIO);
	if (err)
		fail("the manifest cannot be written: %s", strerror(-err));
	return err;
}

static int manifest_add(FILE *f, const struct extent *e)
{
	u32 i, n;

	if (!f)
		return 0;
	fprintf(f, "+ %llu %u %llu", e->id, e->level, e->bytes);
	for (i = 0; i < e->tracks; i += n) {
		for (n = 1; i + n < e->tracks && e->track[i + n] == e->track[i] + n; n++)
			;
		fprintf(f, " %u+%u", e->track[i], n);
	}
	fputc('\n', f);
	return manifest_sync(f);
}

static int manifest_remove(FILE *f, u64 id)
{
	if (!f)
		return 0;
	fprintf(f, "- %llu\n", id);
	return manifest_sync(f);
}

static int no_room(const struct run *r, const char *where)
{
	fail("%s is full: its %u tracks have no room for another file after %llu records", where,
	     r->tracks, r->load.stats.inserted);
	return -ENOSPC;
}

static int on_write(void *ctx, struct load_file *f)
{
	struct run *r = ctx;
	u32 n = tracks_of(r, f), i;
	struct extent e;
	int err = 0;

	f->tracks = calloc((size_t)n * (r->models + 1), sizeof(*f->tracks));
	if (!f->tracks)
		return -ENOMEM;
	if (r->record)
		fprintf(r->record, "write %llu %u %u\n", f->id, f->level, n);
	if (r->on_disk) {
		if (model_allocate(&r->place, f->level, f->tracks, n))
			return no_room(r, "the device");
		e = extent_of(r, f);
		err = r->place.opt.rmw == MODEL_NO_RMW ? disk_write(&r->disk, &e) :
			disk_write_by(&r->disk, &e, &r->place);
		err = err ?: manifest_add(r->manifest, &e);
		if (err)
			return err;
	}
	for (i = 0; i < r->models; i++) {
		u32 *list = tracks_in(r, f, i + 1);

		if (model_allocate(&r->model[i], f->level, list, n))
			return no_room(r, r->model_name[i]);
		model_persist(&r->model[i], list, n);
	}
	return 0;
}

static int on_read(void *ctx, struct load_file *f, u64 at, u64 bytes)
{
	struct run *r = ctx;
	struct extent e;

	if (!r->on_disk)
		return 0;
	e = extent_of(r, f);
	return disk_read(&r->disk, &e, at, bytes);
}

static int on_get(void *ctx, struct load_file *f, u64 at, bool found)
{
	struct run *r = ctx;
	struct extent e;

	if (!r->on_disk)
		return 0;
	e = extent_of(r, f);
	return disk_get(&r->disk, &e, at);
}

static int on_move(void *ctx, struct load_file *f, u32 from)
{
	struct run *r = ctx;
	struct extent e = extent_of(r, f);
	u32 i;

	if (r->record)
		fprintf(r->record, "relevel %llu %u\n", f->id, f->level);
	for (i = 0; i < r->models; i++)
		model_relevel(&r->model[i], tracks_in(r, f, i + 1), e.tracks, f->level);
	if (!r->on_disk)
		return 0;
	model_relevel(&r->place, f->tracks, e.tracks, f->level);
	return disk_relevel(&r->disk, &e);
}

static int on_drop(void *ctx, struct load_file *f)
{
	struct run *r = ctx;
	struct extent e = extent_of(r, f);
	int err;
	u32 i;

	if (r->record)
		fprintf(r->record, "delete %llu\n", f->id);
	for (i = 0; i < r->models; i++)
		model_free(&r->model[i], tracks_in(r, f, i + 1), e.tracks);
	if (!r->on_disk)
		return 0;
	err = manifest_remove(r->manifest, f->id);
	if (err)
		return err;
	model_free(&r->place, f->tracks, e.tracks);
	return disk_drop(&r->disk, &e);
}

static struct spent spent_so_far(const struct run *r)
{
	const struct disk_stats *d = &r->disk.stats;

	return (struct spent){
		.s = disk_now(&r->disk), .persist_s = d->persist_s,
		.rewriting_s = d->step_s[MODEL_SYNC_BACKUP] + d->step_s[MODEL_SYNC_RESTORE],
		.rewrites = r->place.stats.rewrites,
	};
}

static void on_compaction(void *ctx, bool begin)
{
	struct run *r = ctx;
	struct spent now = spent_so_far(r);

	if (begin) {
		r->compact_began = now;
		return;
	}
	r->compact.s += now.s - r->compact_began.s;
	r->compact.persist_s += now.persist_s - r->compact_began.persist_s;
	r->compact.rewriting_s += now.rewriting_s - r->compact_began.rewriting_s;
	r->compact.rewrites += now.rewrites - r->compact_began.rewrites;
}

static u64 files_written(const struct load_stats *l)
{
	return l->flushes + l->merged + l->rewritten;
}

static int on_tick(void *ctx)
{
	struct run *r = ctx;
	const struct load *l = &r->load;
	struct point *p = &r->point[r->points];
	u64 due = (r->points + 1) * l->opt.records / max(r->points_wanted, 1U);
	u32 i;

	progress_add(&r->progress, l->stats.inserted - r->shown);
	r->shown = l->stats.inserted;
	/* The mix inserts as well, and is no part of the load. */
	if (!r->filling || r->points >= r->points_wanted || l->stats.inserted < due)
		return 0;
	p->inserted = l->stats.inserted;
	p->files = files_written(&l->stats);
	p->seconds = disk_now(&r->disk) - r->began;
	p->persist_s = r->disk.stats.persist_s;
	p->done_rewrites = r->place.stats.rewrites;
	p->done_syncs = model_syncs(&r->place);
	for (i = 0; i < r->models; i++) {
		p->rewrites[i] = r->model[i].stats.rewrites;
		p->syncs[i] = model_syncs(&r->model[i]);
	}
	r->points++;
	return 0;
}

static const struct load_ops ops = {
	.write = on_write, .read = on_read, .move = on_move, .drop = on_drop,
	.get = on_get, .compaction = on_compaction, .tick = on_tick,
};

/**
 * run_load() - the load, and the mix behind it
 * @r: device and models are ready
 * @opt: the store and what is done to it
 *
 * Returns 0 or a negative errno after saying what is wrong.
 */
int run_load(struct run *r, const struct load_options *opt)
{
	int err = load_init(&r->load, opt, &ops, r);

	r->began = disk_now(&r->disk);
	if (!err) {
		progress_begin(&r->progress, "load", opt->records);
		r->filling = true;
		err = load_fill(&r->load);
		r->filling = false;
		progress_end(&r->progress);
	}
	r->load_s = disk_now(&r->disk) - r->began;
	r->load_compact = r->compact;
	r->load_stats = r->load.stats;
	r->load_disk_stats = r->disk.stats;
	if (!err && opt->ops) {
		double began = disk_now(&r->disk);

		err = load_mix(&r->load);
		r->mix_s = disk_now(&r->disk) - began;
	}
	if (err == -ENOMEM)
		fail("there is not enough memory for %llu keys", opt->records);
	return err;
}

/* Read back all files that are alive. */
int run_verify(struct run *r)
{
	struct load *l = &r->load;
	int err = 0;
	u32 i, j;

	r->disk.opt.verify = true;
	for (i = 0; i < LOAD_LEVELS && !err; i++) {
		for (j = 0; j < l->level[i].n && !err; j++) {
			struct extent e = extent_of(r, l->level[i].file[j]);

			err = disk_read(&r->disk, &e, 0, e.bytes);
		}
	}
	return err;
}

static bool parse_extent(char *line, const struct run *r, struct extent *e)
{
	u32 max = r->tracks, n = 0, first, run, i;
	u32 *track = calloc(max, sizeof(*track));
	int used;

	if (!track || sscanf(line, "+ %llu %u %llu%n", &e->id, &e->level, &e->bytes, &used) != 3)
		goto bad;
	for (line += used; sscanf(line, " %u+%u%n", &first, &run, &used) == 2; line += used) {
		if (first >= max || run > max - first || run > max - n)
			goto bad;
		for (i = 0; i < run; i++)
			track[n++] = first + i;
	}
	if (n != DIV_ROUND_UP(e->bytes, (u64)r->track_bytes))
		goto bad;
	e->track = realloc(track, max(n, 1U) * sizeof(*track)) ?: track;
	e->tracks = n;
	return true;
bad:
	free(track);
	return false;
}

/**
 * run_check() - read back all files that a manifest says are alive
 * @r: the device is ready
 * @path: of the manifest; its last line may have been cut off
 *
 * Returns 0 or a negative errno after saying what is wrong.
 */
int run_check(struct run *r, const char *path)
{
	struct extent *list = NULL;
	u32 n = 0, max = 0, i;
	FILE *f = fopen(path, "re");
	size_t size = 0;
	char *line = NULL;
	ssize_t got;
	int err = 0;
	u64 id;

	if (!f) {
		fail("manifest %s: %s", path, strerror(errno));
		return -EINVAL;
	}
	while (!err && (got = getline(&line, &size, f)) > 0 && line[got - 1] == '\n') {
		if (sscanf(line, "- %llu", &id) == 1) {
			for (i = 0; i < n && list[i].id != id; i++)
				;
			if (i < n) {
				free((void *)list[i].track);
				list[i] = list[--n];
			}
			continue;
		}
		if (n == max) {
			max = 2 * max + 64;
			list = realloc(list, max * sizeof(*list));
			assert(list);
		}
		if (parse_extent(line, r, &list[n])) {
			n++;
		} else {
			fail("manifest %s belongs to another device: %s", path, line);
			err = -EINVAL;
		}
	}
	/* For want of memory it ends, too, without an error of the file. */
	if (ferror(f) || (got < 0 && !feof(f))) {
		err = -(errno ?: EIO);
		fail("manifest %s cannot be read: %s", path, strerror(-err));
	} else if (!err && !n) {
		say("manifest %s lists no file: nothing to check", path);
	}
	r->disk.opt.verify = true;
	for (i = 0; i < n; i++) {
		if (!err)
			err = disk_read(&r->disk, &list[i], 0, list[i].bytes);
		free((void *)list[i].track);
	}
	free(list);
	free(line);
	fclose(f);
	return err;
}

void run_exit(struct run *r)
{
	u32 i;

	load_exit(&r->load);
	for (i = 0; i < r->models; i++)
		model_exit(&r->model[i]);
	if (r->on_disk) {
		model_exit(&r->place);
		disk_close(&r->disk);
	}
	if (r->record)
		fclose(r->record);
	if (r->manifest)
		fclose(r->manifest);
}
