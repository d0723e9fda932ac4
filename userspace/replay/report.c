// SPDX-License-Identifier: GPL-2.0
/* Print the results of a run. */
#include "report.h"
#include "../shingle/json.h"
#include "../shingle/tool.h"

/* Number of points of the curve of popular fragments. */
#define POINTS	256U

static const char *const class_name[SHINGLE_NR_SEEK_CLASSES] = {
	[SHINGLE_SEEK_READ] = "read", [SHINGLE_SEEK_WRITE] = "write",
	[SHINGLE_SEEK_REWRITE] = "rewrite", [SHINGLE_SEEK_CLEAN_READ] = "clean_read",
	[SHINGLE_SEEK_CLEAN_WRITE] = "clean_write",
};

static u64 total(const u64 *of)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < SHINGLE_NR_SEEK_CLASSES; i++)
		sum += of[i];
	return sum;
}

/* Are there reads and writes of the cleaner, or of steps like its own? */
static bool cleans(const struct replay_log *l)
{
	return l->opt.disk.full || l->opt.reread;
}

static double share(u64 a, u64 b)
{
	return b ? (double)a / b : 0;
}

static void put_distances(struct json_object *in, const char *key, const u64 *of)
{
	struct json_object *list = json_list(in, key);
	u32 i;

	for (i = 0; i < SHINGLE_DISTANCE_BUCKETS; i++)
		json_u64(list, NULL, of[i]);
}

static void put_stream(struct json_object *in, const char *key,
		       const struct shingle_seek_stream *st, bool with_cleaner)
{
	struct json_object *o = json_dict(in, key), *c;
	u32 i;

	for (i = 0; i < SHINGLE_NR_SEEK_CLASSES; i++) {
		if (i >= SHINGLE_SEEK_CLEAN_READ && !with_cleaner)
			continue;
		c = json_dict(o, class_name[i]);
		json_u64(c, "ops", st->ops[i]);
		json_u64(c, "units", st->units[i]);
		json_u64(c, "seeks", st->seeks[i]);
		json_u64(c, "long_seeks", st->long_seeks[i]);
	}
	json_u64(o, "seeks", total(st->seeks));
	json_u64(o, "long_seeks", total(st->long_seeks));
	put_distances(o, "ahead", st->ahead);
	put_distances(o, "back", st->back);
}

static void put_settings(struct json_object *in, const struct replay_log *l)
{
	const struct shingle_remedies_settings *set = &l->opt.remedies;
	struct json_object *o = json_dict(in, "settings");

	json_u64(o, "frontier", l->opt.base);
	json_u64(o, "segment_units", l->opt.segment_units);
	json_u64(o, "guard_units", l->opt.guard_units);
	json_bool(o, "reread", l->opt.reread);
	json_u64(o, "defrag_frags", set->defrag_frags);
	json_u64(o, "defrag_hits", set->defrag_hits);
	json_u64(o, "defrag_units", set->defrag_units);
	json_u64(o, "behind", set->behind);
	json_u64(o, "ahead", set->ahead);
	json_u64(o, "regions", l->opt.regions);
	json_bool(o, "per_read", l->opt.per_read);
	json_u64(o, "cache_units", l->opt.cache_units);
	json_bool(o, "exact", l->opt.exact);
}

static void put_caches(struct json_object *in, const struct replay_log *l)
{
	const struct shingle_readcache_counts *c = &l->cache.count;
	const struct shingle_around_counts *a = &l->around.count;
	struct json_object *o = json_dict(in, "cache");

	json_u64(o, "hits", c->hits);
	json_u64(o, "misses", c->misses);
	json_u64(o, "hit_units", c->hit_units);
	json_u64(o, "filled_units", c->filled_units);
	json_u64(o, "evicted_units", c->evicted_units);
	json_u64(o, "refused", c->refused);
	json_u64(o, "bytes", shingle_readcache_bytes(&l->cache));
	o = json_dict(in, "around");
	json_u64(o, "hits", a->hits);
	json_u64(o, "misses", a->misses);
	json_u64(o, "read_units", a->read_units);
	json_u64(o, "largest_region_units", l->largest_region);
	o = json_dict(in, "defrag");
	json_u64(o, "rewrites", l->rewrites);
	json_u64(o, "units", l->rewritten);
	json_u64(o, "dropped", l->dropped);
}

/* All units written, divided by those of the host. */
static double amplification(const struct replay_log *l)
{
	const u64 *units = l->seeks.medium.units;

	return share(units[SHINGLE_SEEK_WRITE] + units[SHINGLE_SEEK_REWRITE] +
		     units[SHINGLE_SEEK_CLEAN_WRITE], units[SHINGLE_SEEK_WRITE]);
}

static void put_disk(struct json_object *in, const struct replay_log *l)
{
	const struct disk *d = &l->disk;
	struct json_object *o = json_dict(in, "disk");

	json_u64(o, "full", d->opt.full);
	json_str(o, "clean", d->opt.clean);
	json_u64(o, "segment_units", d->opt.segment_units);
	json_u64(o, "segments", d->segments);
	json_u64(o, "reserve", d->reserve);
	json_u64(o, "used_units", l->opt.compact.units);
	json_double(o, "write_amplification", amplification(l));
	json_u64(o, "steps", d->n.steps);
	json_u64(o, "dropped_rewrites", d->n.dropped_rewrites);
	json_u64(o, "bands_opened", disk_counter(d, "bands_opened"));
	json_u64(o, "bands_cleaned", disk_counter(d, "bands_cleaned"));
	json_u64(o, "moved_units", disk_counter(d, "moved_blocks"));
	json_u64(o, "joined_extents", disk_counter(d, "joined_extents"));
	if (d->opt.check)
		json_u64(o, "wrong", d->n.wrong);
}

static void put_fragments(struct json_object *in, const struct replay_log *l)
{
	struct json_object *list = json_list(in, "frags_of"), *pair;
	u32 i;

	for (i = 0; i < REPLAY_MOST_FRAGS; i++) {
		if (!l->frags_of[i])
			continue;
		pair = json_list(list, NULL);
		json_u64(pair, NULL, i);
		json_u64(pair, NULL, l->frags_of[i]);
	}
}

static int by_accesses(const void *a, const void *b)
{
	const struct popular *p = a, *q = b;

	if (p->accesses != q->accesses)
		return p->accesses < q->accesses ? 1 : -1;
	return p->place < q->place ? -1 : p->place > q->place;
}

/* From the most to the least popular fragment: [rank, its accesses, sum of accesses, of units]. */
static void put_popular(struct json_object *in, struct replay_log *l)
{
	struct json_object *list, *point;
	u64 i, nr = 0, units = 0, accesses = 0, shown = 0;

	if (!l->opt.popular)
		return;
	list = json_list(in, "popular");
	for (i = 0; i < l->max_popular; i++) {
		if (l->popular[i].n)
			l->popular[nr++] = l->popular[i];
	}
	if (nr)
		qsort(l->popular, nr, sizeof(*l->popular), by_accesses);
	for (i = 0; i < nr; i++) {
		units += l->popular[i].n;
		accesses += l->popular[i].accesses;
		if (i * POINTS < shown * nr && i + 1 < nr)
			continue;
		shown++;
		point = json_list(list, NULL);
		json_u64(point, NULL, i + 1);
		json_u64(point, NULL, l->popular[i].accesses);
		json_u64(point, NULL, accesses);
		json_u64(point, NULL, units);
	}
	/* The table is no longer a hash table. */
	l->opt.popular = false;
}

static void put_series(struct json_object *in, const struct series *s)
{
	struct json_object *o = json_dict(in, "series"), *host, *medium;
	u64 i;

	json_u64(o, "ops", s->ops);
	host = json_list(o, "nols_long_seeks");
	medium = json_list(o, "ls_long_seeks");
	for (i = 0; i < s->nr; i++) {
		json_u64(host, NULL, s->host[i]);
		json_u64(medium, NULL, s->medium[i]);
	}
}

/**
 * report_json() - print all results
 * @l: the log; its table of fragments is sorted
 * @s: long seeks over the run
 * @seconds: processor time of the run
 */
void report_json(struct replay_log *l, const struct series *s, double seconds)
{
	struct json_object *doc = json_object_new_object(), *o;

	json_u64(doc, "unit_bytes", 1U << l->opt.unit_shift);
	json_u64(doc, "reads", l->reads);
	json_u64(doc, "writes", l->writes);
	json_u64(doc, "discards", l->discards);
	json_double(doc, "cpu_s", seconds);
	put_settings(doc, l);
	o = json_dict(doc, "streams");
	put_stream(o, "nols", &l->seeks.host, false);
	put_stream(o, "ls", &l->seeks.medium, cleans(l));
	put_stream(o, "plain", &l->seeks.plain, cleans(l));
	json_u64(doc, "log_reads", l->seeks.reads);
	json_u64(doc, "fragmented_reads", l->seeks.fragmented);
	json_u64(doc, "read_fragments", l->seeks.frags);
	json_u64(doc, "fragmented_read_fragments", l->seeks.fragmented_frags);
	json_u64(doc, "misordered_writes", l->seeks.misordered.nr);
	json_u64(doc, "static_fragments", log_fragments(l));
	json_u64(doc, "extents", log_extents(l));
	json_u64(doc, "map_bytes", log_map_bytes(l));
	if (l->opt.disk.full)
		put_disk(doc, l);
	else
		json_u64(doc, "log_units", l->written);
	put_caches(doc, l);
	put_fragments(doc, l);
	put_popular(doc, l);
	if (s->ops)
		put_series(doc, s);
	json_print(doc, stdout);
}

/* A row: seeks without and with the log, and their ratio. */
static void row(const char *name, u64 host, u64 medium)
{
	if (host)
		say("%-24s%16llu%16llu%10.3f", name, host, medium, share(medium, host));
	else
		say("%-24s%16llu%16llu%10s", name, host, medium, "-");
}

/**
 * report_text() - print the results in short
 * @l: the log
 * @seconds: processor time of the run
 */
void report_text(struct replay_log *l, double seconds)
{
	const struct shingle_seek_stream *host = &l->seeks.host, *ls = &l->seeks.medium;
	const u64 *h = host->seeks, *m = ls->seeks;

	say("%llu reads, %llu writes, %llu discards in %.3f s", l->reads, l->writes, l->discards,
	    seconds);
	say("%-24s%16s%16s%10s", "seeks", "untranslated", "log", "ratio");
	row("read", h[SHINGLE_SEEK_READ], m[SHINGLE_SEEK_READ]);
	row("write", h[SHINGLE_SEEK_WRITE], m[SHINGLE_SEEK_WRITE] + m[SHINGLE_SEEK_REWRITE]);
	if (cleans(l))
		row("of cleaning", 0, m[SHINGLE_SEEK_CLEAN_READ] + m[SHINGLE_SEEK_CLEAN_WRITE]);
	row("total", total(h), total(m));
	row("of at least 500 KiB", total(host->long_seeks), total(ls->long_seeks));
	say("%llu of %llu reads are fragmented, with %.1f fragments each; %llu static fragments",
	    l->seeks.fragmented, l->seeks.reads,
	    share(l->seeks.fragmented_frags, l->seeks.fragmented), log_fragments(l));
	say("%llu mis-ordered writes, %.2f %% of all", l->seeks.misordered.nr,
	    100 * share(l->seeks.misordered.nr, l->writes));
	if (l->opt.disk.full)
		say("cleaning: %u segments, %u of them reserve, %llu cleaned; write amplification %.3f",
		    l->disk.segments, l->disk.reserve, disk_counter(&l->disk, "bands_cleaned"),
		    amplification(l));
	if (l->opt.disk.check)
		say("check: %llu units are wrong", l->disk.n.wrong);
	if (l->opt.cache_units)
		say("cache: %llu of %llu fragments found", l->cache.count.hits,
		    l->cache.count.hits + l->cache.count.misses);
	if (shingle_remedies_looks_around(&l->remedies))
		say("look-ahead-behind: %llu of %llu fragments found, %llu units read",
		    l->around.count.hits, l->around.count.hits + l->around.count.misses,
		    l->around.count.read_units);
	if (l->opt.remedies.defrag_frags)
		say("defragmentation: %llu reads rewritten, %llu units", l->rewrites, l->rewritten);
}
