// SPDX-License-Identifier: GPL-2.0
/* Statistics: the store's, the device's, the target's and the models'. */
#include "../shingle/json.h"
#include "run.h"

#define LABEL	26

static u64 files_written(const struct load_stats *l)
{
	return l->flushes + l->merged + l->rewritten;
}

static double per(double a, double b)
{
	return b ? a / b : 0;
}

static void line(const char *label, u64 v)
{
	printf("  %-*s%14llu\n", LABEL, label, v);
}

static void line_size(const char *label, u64 bytes)
{
	printf("  %-*s%14llu  %s\n", LABEL, label, bytes, size_text(bytes).s);
}

static void line_seconds(const char *label, double s)
{
	printf("  %-*s%14.3f\n", LABEL, label, s);
}

static double load_bytes(const struct run *r)
{
	return (double)r->load_stats.inserted * r->load.opt.record_bytes;
}

/* How fast the last of the load went; 0 if that is not known. */
static double last_point_speed(const struct run *r)
{
	const struct point *p;

	if (r->points < 2)
		return 0;
	p = &r->point[r->points - 1];
	return per((double)(p[0].inserted - p[-1].inserted) * r->load.opt.record_bytes,
		   p[0].seconds - p[-1].seconds);
}

/* Does the program itself what the target would? */
static bool protects(const struct run *r)
{
	return r->on_disk && r->place.opt.rmw != MODEL_NO_RMW;
}

static void people_store(const struct run *r)
{
	const struct load *l = &r->load;
	const struct load_stats *g = &l->stats;
	u32 i;

	say("store");
	line("records inserted", g->inserted);
	line("files written", files_written(g));
	line("  from the memtable", g->flushes);
	line("  by compactions", g->merged);
	line("  because they moved", g->rewritten);
	line("files moved in place", g->moved);
	line("files deleted", g->dropped);
	line("compactions", g->compactions);
	line_size("bytes written", g->written_bytes);
	line_size("bytes read to compact", g->read_bytes);
	if (g->gets) {
		line("records asked for", g->gets);
		line("  found in memory", g->got_memtable);
		line("  files read in vain", g->false_positives);
	}
	for (i = 0; i < LOAD_LEVELS; i++) {
		if (!l->level[i].n)
			continue;
		printf("  level %u%*s%14u  files, %s\n", i, LABEL - 7, "", l->level[i].n,
		       size_text(l->level[i].records * l->opt.record_bytes).s);
	}
}

static void people_device(const struct run *r)
{
	const struct disk_stats *d = &r->disk.stats;

	say("\ndevice");
	line("writes", d->writes);
	line_size("bytes written", d->written_bytes);
	line("reads", d->reads);
	line_size("bytes read", d->read_bytes);
	line("flushes", d->flushes);
	line("level messages", d->messages);
	line("discards", d->discards);
	line_seconds("seconds of the load", r->load_s);
	line_seconds("  persisting files", r->load_disk_stats.persist_s);
	/* With the few tracks of files that went along, see struct disk_stats. */
	if (protects(r))
		line_seconds("    backing up, restoring",
			     r->load_disk_stats.step_s[MODEL_SYNC_BACKUP] +
			     r->load_disk_stats.step_s[MODEL_SYNC_RESTORE]);
	line_seconds("  reading to compact", r->load_disk_stats.read_s);
	line_seconds("  discarding", r->load_disk_stats.discard_s);
	line_seconds("  in compactions", r->load_compact.s);
	line_seconds("    persisting files", r->load_compact.persist_s);
	line_seconds("load, MB/s", per(load_bytes(r), r->load_s) / 1e6);
	if (r->points > 1)
		line_seconds("its last part, MB/s", last_point_speed(r) / 1e6);
	if (r->mix_s) {
		line_seconds("seconds of the mix", r->mix_s);
		line_seconds("mix, operations/s", per((double)r->load.opt.ops, r->mix_s));
	}
	if (d->verified_blocks) {
		line("blocks verified", d->verified_blocks);
		line("  lost", d->bad_blocks);
	}
}

static void people_model(const char *title, const struct model *m)
{
	const struct model_stats *g = &m->stats;
	u32 i;

	printf("\n%s\n", title);
	line("tracks written", g->tracks);
	line("  bottoms", g->bottoms);
	line("  of them with RMW", g->bottoms_rmw);
	line("  tops", g->tops);
	line("track rewrites", g->rewrites);
	line("files with RMW", g->rmw_files);
	line("most backup tracks", g->backup_peak);
	line("syncs", model_syncs(m));
	for (i = 0; i < MODEL_NR_SYNCS; i++) {
		char label[32];

		if (!g->sync[i])
			continue;
		snprintf(label, sizeof(label), "  %s", model_sync_name[i]);
		line(label, g->sync[i]);
	}
	line_seconds("rewrites a file", per((double)g->rewrites, (double)g->files));
	line_seconds("syncs a file", per((double)model_syncs(m), (double)g->files));
	if (m->opt.policy == MODEL_COMPACTION) {
		line("bottoms for lower levels", g->tier_miss);
		line("tops for the largest", g->surplus);
	}
}

/**
 * report_people() - all statistics, as a table
 * @r: the run
 * @target: the target's own
 */
void report_people(const struct run *r, const struct target_stats *target)
{
	u32 i;

	people_store(r);
	if (r->on_disk)
		people_device(r);
	for (i = 0; i < r->models; i++)
		people_model(r->model_name[i], &r->model[i]);
	if (protects(r))
		people_model("done on the device", &r->place);
	if (target->text) {
		char *copy = strdup(target->text), *save, *row;

		printf("\ntarget %s\n", r->disk.mapped.target);
		for (row = copy ? strtok_r(copy, "\n", &save) : NULL; row;
		     row = strtok_r(NULL, "\n", &save)) {
			size_t name = strcspn(row, " ");

			printf("  %-*.*s%14s\n", LABEL, (int)name, row,
			       row + name + strspn(row + name, " "));
		}
		free(copy);
	}
}

static void json_store(struct json_object *in, const char *key, const struct load_stats *g)
{
	struct json_object *j = json_dict(in, key);

	json_u64(j, "inserted", g->inserted);
	json_u64(j, "files", files_written(g));
	json_u64(j, "flushed", g->flushes);
	json_u64(j, "merged", g->merged);
	json_u64(j, "rewritten", g->rewritten);
	json_u64(j, "moved", g->moved);
	json_u64(j, "deleted", g->dropped);
	json_u64(j, "compactions", g->compactions);
	json_u64(j, "written_bytes", g->written_bytes);
	json_u64(j, "read_bytes", g->read_bytes);
	json_u64(j, "gets", g->gets);
	json_u64(j, "got_memtable", g->got_memtable);
	json_u64(j, "false_positives", g->false_positives);
}

static void json_levels(struct json_object *in, const struct run *r)
{
	struct json_object *levels = json_list(in, "levels"), *j;
	u32 i;

	for (i = 0; i < LOAD_LEVELS; i++) {
		j = json_dict(levels, NULL);
		json_u64(j, "files", r->load.level[i].n);
		json_u64(j, "records", r->load.level[i].records);
	}
}

static void json_disk(struct json_object *in, const char *key, const struct disk_stats *d)
{
	struct json_object *j = json_dict(in, key), *steps;
	u32 i;

	json_u64(j, "writes", d->writes);
	json_u64(j, "written_bytes", d->written_bytes);
	json_u64(j, "reads", d->reads);
	json_u64(j, "read_bytes", d->read_bytes);
	json_u64(j, "flushes", d->flushes);
	json_u64(j, "messages", d->messages);
	json_u64(j, "discards", d->discards);
	json_u64(j, "discarded_bytes", d->discarded_bytes);
	json_double(j, "persist_s", d->persist_s);
	json_double(j, "read_s", d->read_s);
	json_double(j, "get_s", d->get_s);
	json_double(j, "discard_s", d->discard_s);
	steps = json_dict(j, "step_s");
	for (i = 0; i < MODEL_NR_SYNCS; i++)
		json_double(steps, model_sync_name[i], d->step_s[i]);
}

static void json_device(struct json_object *in, const struct run *r)
{
	struct json_object *j = json_dict(in, "device");

	if (r->disk.opt.drive) {
		json_str(j, "drive", r->disk.opt.drive);
		json_u64(j, "flush_us", r->disk.opt.flush_us);
	}
	json_double(j, "load_s", r->load_s);
	json_double(j, "load_compact_s", r->load_compact.s);
	json_double(j, "load_compact_persist_s", r->load_compact.persist_s);
	json_double(j, "load_compact_rewriting_s", r->load_compact.rewriting_s);
	json_u64(j, "load_compact_rewrites", r->load_compact.rewrites);
	json_double(j, "load_bytes_per_s", per(load_bytes(r), r->load_s));
	json_double(j, "last_bytes_per_s", last_point_speed(r));
	json_double(j, "mix_s", r->mix_s);
	json_double(j, "mix_ops_per_s", per((double)r->load.opt.ops, r->mix_s));
	json_disk(j, "load", &r->load_disk_stats);
	json_disk(j, "all", &r->disk.stats);
	json_u64(j, "verified_blocks", r->disk.stats.verified_blocks);
	json_u64(j, "bad_blocks", r->disk.stats.bad_blocks);
}

static void json_model(struct json_object *in, const char *key, const char *name,
		       const struct model *m)
{
	struct json_object *j = json_dict(in, key), *syncs;
	const struct model_stats *g = &m->stats;
	u32 i;

	json_str(j, "name", name);
	json_u64(j, "files", g->files);
	json_u64(j, "tracks", g->tracks);
	json_u64(j, "freed", g->freed);
	json_u64(j, "bottoms", g->bottoms);
	json_u64(j, "bottoms_rmw", g->bottoms_rmw);
	json_u64(j, "tops", g->tops);
	json_u64(j, "tier_miss", g->tier_miss);
	json_u64(j, "surplus", g->surplus);
	json_u64(j, "rewrites", g->rewrites);
	json_u64(j, "backups", g->backups);
	json_u64(j, "rmw_files", g->rmw_files);
	json_u64(j, "backup_peak", g->backup_peak);
	json_u64(j, "syncs", model_syncs(m));
	syncs = json_dict(j, "sync");
	for (i = 0; i < MODEL_NR_SYNCS; i++)
		json_u64(syncs, model_sync_name[i], g->sync[i]);
}

static void json_points(struct json_object *in, const struct run *r)
{
	struct json_object *points = json_list(in, "points"), *j, *each;
	u32 i, k;

	for (i = 0; i < r->points; i++) {
		const struct point *p = &r->point[i];

		j = json_dict(points, NULL);
		json_u64(j, "inserted", p->inserted);
		json_u64(j, "files", p->files);
		json_double(j, "seconds", p->seconds);
		json_double(j, "persist_s", p->persist_s);
		if (protects(r)) {
			json_u64(j, "done_rewrites", p->done_rewrites);
			json_u64(j, "done_syncs", p->done_syncs);
		}
		each = json_list(j, "rewrites");
		for (k = 0; k < r->models; k++)
			json_u64(each, NULL, p->rewrites[k]);
		each = json_list(j, "syncs");
		for (k = 0; k < r->models; k++)
			json_u64(each, NULL, p->syncs[k]);
	}
}

static void json_target(struct json_object *in, const struct run *r,
			const struct target_stats *target)
{
	struct json_object *j = json_dict(in, "target");
	char *copy = strdup(target->text), *save, *row;

	json_str(j, "type", r->disk.mapped.target);
	for (row = copy ? strtok_r(copy, "\n", &save) : NULL; row;
	     row = strtok_r(NULL, "\n", &save)) {
		char *value = row + strcspn(row, " ");
		u64 v;

		if (*value)
			*value++ = '\0';
		if (kstrtou64(value, 10, &v))
			json_str(j, row, value);
		else
			json_u64(j, row, v);
	}
	free(copy);
}

/**
 * report_json() - all statistics, as one object
 * @r: the run
 * @target: the target's own
 */
void report_json(const struct run *r, const struct target_stats *target)
{
	struct json_object *j = json_dict(NULL, NULL), *models;
	u32 i;

	json_u64(j, "tracks", r->tracks);
	json_u64(j, "track_bytes", r->track_bytes);
	json_u64(j, "record_bytes", r->load.opt.record_bytes);
	json_u64(j, "file_records", r->load.opt.file_records);
	json_store(j, "load", &r->load_stats);
	json_store(j, "store", &r->load.stats);
	json_levels(j, r);
	if (r->on_disk)
		json_device(j, r);
	models = json_list(j, "models");
	for (i = 0; i < r->models; i++)
		json_model(models, NULL, r->model_name[i], &r->model[i]);
	if (protects(r))
		json_model(j, "done", "done", &r->place);
	json_points(j, r);
	if (target->text)
		json_target(j, r, target);
	json_print(j, stdout);
}
