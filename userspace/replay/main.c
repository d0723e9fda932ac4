// SPDX-License-Identifier: GPL-2.0
/* shingle-replay: the seeks of a trace on a log-structured disk, without data. */
#include <time.h>

#include <random.h>

#include "../shingle/tool.h"
#include "input.h"
#include "report.h"

/* As a band that 'shingle create' makes. */
#define DEFAULT_SEGMENT		(30ULL << 20)
#define DEFAULT_CLEAN		"cost-benefit"

static const char help[] =
"Usage: shingle-replay [OPTION]... [FILE]\n"
"Count the seeks of a trace on a log-structured disk without end, or on a finite one, with\n"
"the remedies of Hajkazemi, Abdi and Desnoyers (\"Minimizing Read Seek for SMR Disk\"),\n"
"beside those of the untranslated trace.  FILE contains requests as 'scripts/experiments read-seek'\n"
"writes them; without FILE or with -, they come from standard input.\n"
"\n"
"The log:\n"
"      --unit SIZE        512B or 4K: requests are extended to whole units (512B)\n"
"      --frontier N       unit where the log begins (behind the highest address)\n"
"      --extents N        most extents of the map (twice the writes and rewrites)\n"
"      --segment SIZE     size of a segment, at which requests are split (no segments; with\n"
"                         --full 30M)\n"
"      --guard SIZE       unused space behind each segment (0B; with --full always 2M)\n"
"A finite disk, with the cleaner of the target stl-log; requires --unit 4K:\n"
"      --full PERCENT     the MiB that the trace touches fill this share of it, 1 to 100\n"
"      --clean POLICY     greedy or cost-benefit (cost-benefit)\n"
"      --age N            first write what the trace writes, in random order and uncounted,\n"
"                         until that is N times what the disk presents (0)\n"
"      --check            compare all that is read with what was written\n"
"Opportunistic defragmentation:\n"
"      --defrag-frags N   rewrite reads of at least N fragments (off)\n"
"      --defrag-hits K    at the Kth such read of a MiB of addresses, at most 255 (1)\n"
"      --defrag-max SIZE  rewrite no larger reads\n"
"      --reread           rewrite by a step that reads the data again, as stl-log does: at\n"
"                         most 64 fragments, into one segment\n"
"Look-ahead-behind:\n"
"      --behind SIZE      read this much before a fragment of a fragmented read (0B)\n"
"      --ahead SIZE       and this much behind it (0B)\n"
"      --regions N        regions that are kept, 1 to 32 (1)\n"
"      --per-read         forget them at the end of each read\n"
"Selective caching:\n"
"      --cache SIZE       keep the fragments of fragmented reads (0B)\n"
"      --exact            find a fragment only as it was read, not by its units\n"
"Results:\n"
"      --interval N       count long seeks for each N requests (JSON)\n"
"      --popular          count the accesses of each fragment (JSON)\n"
"      --json             print JSON\n"
"  -h, --help             print this text\n"
"  -V, --version          print the version\n"
"\n"
"SIZE has a unit: B, s, K, M, G, T.  Exit status: 0 success, 8 the command failed, 16\n"
"wrong usage.\n";

enum {
	OPT_UNIT = 256, OPT_FRONTIER, OPT_EXTENTS, OPT_FULL, OPT_SEGMENT, OPT_GUARD, OPT_CLEAN,
	OPT_AGE, OPT_CHECK, OPT_DEFRAG_FRAGS, OPT_DEFRAG_HITS, OPT_DEFRAG_MAX, OPT_REREAD,
	OPT_BEHIND, OPT_AHEAD, OPT_REGIONS, OPT_PER_READ, OPT_CACHE, OPT_EXACT, OPT_INTERVAL,
	OPT_POPULAR, OPT_JSON,
};

static const struct option long_options[] = {
	{ "unit", required_argument, NULL, OPT_UNIT },
	{ "frontier", required_argument, NULL, OPT_FRONTIER },
	{ "extents", required_argument, NULL, OPT_EXTENTS },
	{ "full", required_argument, NULL, OPT_FULL },
	{ "segment", required_argument, NULL, OPT_SEGMENT },
	{ "guard", required_argument, NULL, OPT_GUARD },
	{ "clean", required_argument, NULL, OPT_CLEAN },
	{ "age", required_argument, NULL, OPT_AGE },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "defrag-frags", required_argument, NULL, OPT_DEFRAG_FRAGS },
	{ "defrag-hits", required_argument, NULL, OPT_DEFRAG_HITS },
	{ "defrag-max", required_argument, NULL, OPT_DEFRAG_MAX },
	{ "reread", no_argument, NULL, OPT_REREAD },
	{ "behind", required_argument, NULL, OPT_BEHIND },
	{ "ahead", required_argument, NULL, OPT_AHEAD },
	{ "regions", required_argument, NULL, OPT_REGIONS },
	{ "per-read", no_argument, NULL, OPT_PER_READ },
	{ "cache", required_argument, NULL, OPT_CACHE },
	{ "exact", no_argument, NULL, OPT_EXACT },
	{ "interval", required_argument, NULL, OPT_INTERVAL },
	{ "popular", no_argument, NULL, OPT_POPULAR },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ }
};

/**
 * struct words - the command line; sizes in bytes, U64_MAX = not given
 * @name: file of requests
 * @json: print JSON
 * @unit: size of a unit
 * @frontier: unit where the log begins
 * @extents: most extents
 * @segment: size of a segment
 * @guard: see --guard
 * @age: see --age
 * @defrag_max: largest rewrite
 * @behind: see --behind
 * @ahead: see --ahead
 * @cache: size of the cache
 * @interval: see --interval
 * @opt: options of the log
 */
struct words {
	const char *name;
	bool json;
	u64 unit;
	u64 frontier;
	u64 extents;
	u64 segment;
	u64 guard;
	u64 age;
	u64 defrag_max;
	u64 behind;
	u64 ahead;
	u64 cache;
	u64 interval;
	struct replay_options opt;
};

static int misused(const char *what)
{
	fail("%s; see 'shingle-replay --help'", what);
	return EXIT_USAGE;
}

static bool number(const char *name, u64 least, u64 most, u32 *value)
{
	u64 v;

	if (!parse_number(name, optarg, least, most, &v))
		return false;
	*value = v;
	return true;
}

static bool take(struct words *w, int c)
{
	struct shingle_remedies_settings *set = &w->opt.remedies;

	switch (c) {
	case OPT_UNIT:
		return parse_size("--unit", optarg, &w->unit);
	case OPT_FRONTIER:
		return parse_number("--frontier", optarg, 0, 1ULL << 48, &w->frontier);
	case OPT_EXTENTS:
		return parse_number("--extents", optarg, 1, SHINGLE_EXTENTS_MAX, &w->extents);
	case OPT_FULL:
		return number("--full", 1, 100, &w->opt.disk.full);
	case OPT_SEGMENT:
		return parse_size("--segment", optarg, &w->segment);
	case OPT_GUARD:
		return parse_size("--guard", optarg, &w->guard);
	case OPT_CLEAN:
		w->opt.disk.clean = optarg;
		return true;
	case OPT_AGE:
		return parse_number("--age", optarg, 0, 1000, &w->age);
	case OPT_CHECK:
		w->opt.disk.check = true;
		return true;
	case OPT_DEFRAG_FRAGS:
		return number("--defrag-frags", 2, U32_MAX, &set->defrag_frags);
	case OPT_DEFRAG_HITS:
		return number("--defrag-hits", 1, SHINGLE_DEFRAG_HITS, &set->defrag_hits);
	case OPT_DEFRAG_MAX:
		return parse_size("--defrag-max", optarg, &w->defrag_max);
	case OPT_REREAD:
		w->opt.reread = true;
		return true;
	case OPT_BEHIND:
		return parse_size("--behind", optarg, &w->behind);
	case OPT_AHEAD:
		return parse_size("--ahead", optarg, &w->ahead);
	case OPT_REGIONS:
		return number("--regions", 1, SHINGLE_AROUND_REGIONS, &w->opt.regions);
	case OPT_PER_READ:
		w->opt.per_read = true;
		return true;
	case OPT_CACHE:
		return parse_size("--cache", optarg, &w->cache);
	case OPT_EXACT:
		w->opt.exact = true;
		return true;
	case OPT_INTERVAL:
		return parse_number("--interval", optarg, 1, U64_MAX, &w->interval);
	case OPT_POPULAR:
		w->opt.popular = true;
		return true;
	default:
		w->json = true;
		return true;
	}
}

/**
 * struct range - units of a request
 * @first: the first
 * @n: their number
 */
struct range {
	u64 first;
	u32 n;
};

static struct range range_of(const struct words *w, const struct request *r)
{
	u32 shift = w->opt.unit_shift - 9;
	u64 sector = le64_to_cpu(r->sector), first = sector >> shift;
	u64 last = (sector + le32_to_cpu(r->sectors) - 1) >> shift;

	return (struct range){ first, last - first + 1 };
}

/* A size in units. */
static bool units(const struct words *w, const char *name, u64 bytes, u32 *value)
{
	if (bytes % w->unit || bytes / w->unit > S32_MAX) {
		fail("%s is not a multiple of --unit, or is too large", name);
		return false;
	}
	*value = bytes / w->unit;
	return true;
}

/*
 * The segments that a log can need.  A rewrite that does not fit into the rest of a segment leaves
 * that rest unused, which is shorter than what it writes.
 */
static u64 most_segments(const struct words *w, const struct input *in)
{
	u64 units = 0, i;

	for (i = 0; i < in->nr; i++) {
		u32 kind = le32_to_cpu(in->request[i].kind), n = range_of(w, &in->request[i]).n;

		if (kind == REQUEST_WRITE)
			units += n;
		else if (kind == REQUEST_READ && w->opt.remedies.defrag_frags)
			units += 2ULL * n;
	}
	return units / w->opt.segment_units + 1;
}

/* The segments of a log without end.  Return: false after printing an error. */
static bool settle_segments(struct words *w, const struct input *in, u64 *extents)
{
	struct replay_options *o = &w->opt;

	if (o->disk.full || !w->segment)
		return true;
	if (!units(w, "--segment", w->segment, &o->segment_units) ||
	    !units(w, "--guard", w->guard, &o->guard_units))
		return false;
	o->base = DIV_ROUND_UP(o->base, o->segment_units) * o->segment_units;
	if (w->frontier != U64_MAX && o->base != w->frontier) {
		fail("--frontier is not at the beginning of a segment");
		return false;
	}
	o->segments = min_t(u64, most_segments(w, in), U32_MAX);
	*extents += 2ULL * o->segments;
	return true;
}

/* Translate sizes to units, and look up in the trace what is not given. */
static bool settle(struct words *w, const struct input *in)
{
	struct replay_options *o = &w->opt;
	struct shingle_remedies_settings *set = &o->remedies;
	u64 extents = 2 * (in->nr_of[REQUEST_WRITE] + in->nr_of[REQUEST_DISCARD] + 8);

	o->unit_shift = ilog2(w->unit);
	if (!units(w, "--behind", w->behind, &set->behind) ||
	    !units(w, "--ahead", w->ahead, &set->ahead) ||
	    !units(w, "--cache", w->cache, &o->cache_units) ||
	    !units(w, "--segment", w->segment ?: DEFAULT_SEGMENT, &o->disk.segment_units))
		return false;
	set->keep = o->cache_units;
	set->defrag_units = min_t(u64, w->defrag_max / w->unit, U32_MAX);
	if (set->defrag_frags)
		extents += 2 * in->nr_of[REQUEST_READ];
	o->base = w->frontier != U64_MAX ? w->frontier : DIV_ROUND_UP(in->end, w->unit / 512);
	if (!settle_segments(w, in, &extents))
		return false;
	o->extents = min_t(u64, w->extents ?: extents, SHINGLE_EXTENTS_MAX);
	o->disk.extents = w->extents;
	if (compact_init(&o->compact, in, o->unit_shift, o->disk.full)) {
		fail("out of memory");
		return false;
	}
	if (o->compact.end >= U32_MAX)
		fail("%s uses more than %s: try --unit 4K", w->name,
		     size_text(U32_MAX * w->unit).s);
	return o->compact.end < U32_MAX;
}

/* Replay a request.  Return: 0, or the status after printing an error. */
static int replay_one(const struct words *w, const struct input *in, struct replay_log *l, u64 i)
{
	static int (*const call[NR_REQUEST_KINDS])(struct replay_log *l, u64 lunit, u32 n) = {
		log_read, log_write, log_discard
	};
	const struct request *r = &in->request[i];
	struct range range = range_of(w, r);
	int err = call[le32_to_cpu(r->kind)](l, range.first, range.n);

	if (err == -ENOSPC && w->opt.disk.full)
		return fail("request %llu: no cleaning makes room on the disk, or in its extent map: see --extents",
			    i + 1);
	if (err == -ENOSPC)
		return fail("request %llu: the log is longer than %u units: try --unit 4K", i + 1,
			    U32_MAX);
	if (err)
		return fail("request %llu: out of memory, or more than %u extents: see --extents",
			    i + 1, l->opt.extents);
	return 0;
}

/**
 * struct writes - the writes of a trace
 * @at: their indices in the trace
 * @nr: their number
 * @units: their units
 */
struct writes {
	u64 *at;
	u64 nr;
	u64 units;
};

static bool find_writes(const struct words *w, const struct input *in, struct writes *all)
{
	u64 i;

	all->at = calloc(in->nr_of[REQUEST_WRITE] + 1, sizeof(*all->at));
	for (i = 0; all->at && i < in->nr; i++) {
		if (le32_to_cpu(in->request[i].kind) != REQUEST_WRITE)
			continue;
		all->at[all->nr++] = i;
		all->units += range_of(w, &in->request[i]).n;
	}
	return all->at;
}

/*
 * Write all writes of the trace in random order, again and again.  In the order of the trace, each
 * segment would be empty when its turn comes.
 */
static int age(const struct words *w, const struct input *in, struct replay_log *l,
	       const struct writes *all, u64 times, struct progress *p)
{
	u64 i, random = 1;
	int rc = 0;

	for (; times && !rc; times--) {
		for (i = 0; i < all->nr && !rc; i++) {
			swap(all->at[i], all->at[i + random_below(&random, all->nr - i)]);
			rc = replay_one(w, in, l, all->at[i]);
			progress_add(p, 1);
		}
	}
	log_clear_counts(l);
	return rc;
}

/* Return: 0, or the status after printing an error. */
static int replay(const struct words *w, const struct input *in, struct replay_log *l,
		  struct series *s, struct progress *p)
{
	u64 host = 0, medium = 0, i;

	for (i = 0; i < in->nr; i++) {
		int rc = replay_one(w, in, l, i);
		u32 c;

		if (rc)
			return rc;
		progress_add(p, 1);
		if (!s->ops || ((i + 1) % s->ops && i + 1 < in->nr))
			continue;
		s->host[s->nr] = -host;
		s->medium[s->nr] = -medium;
		for (c = 0, host = 0, medium = 0; c < SHINGLE_NR_SEEK_CLASSES; c++) {
			host += l->seeks.host.long_seeks[c];
			medium += l->seeks.medium.long_seeks[c];
		}
		s->host[s->nr] += host;
		s->medium[s->nr++] += medium;
	}
	return 0;
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int run(struct words *w)
{
	static struct replay_log l;
	struct series s = { .ops = w->interval };
	struct progress p;
	struct input in;
	struct writes all = { .nr = 0 };
	const char *why;
	double began;
	u64 times = 0;
	int rc = input_open(&in, w->name);

	if (rc)
		return rc;
	if (!settle(w, &in)) {
		compact_exit(&w->opt.compact);
		input_close(&in);
		return EXIT_USAGE;
	}
	if (s.ops) {
		s.host = calloc(in.nr / s.ops + 1, sizeof(*s.host));
		s.medium = calloc(in.nr / s.ops + 1, sizeof(*s.medium));
	}
	if (s.ops && (!s.host || !s.medium)) {
		rc = fail("there is not enough memory for --interval");
		goto out;
	}
	if (w->age && !find_writes(w, &in, &all)) {
		rc = fail("there is not enough memory for --age");
		goto out;
	}
	if (log_init(&l, &w->opt, &why)) {
		rc = fail("%s", why);
		goto out;
	}
	if (all.units)
		times = DIV_ROUND_UP(w->age * l.disk.layout.logical_blocks, all.units);
	progress_begin(&p, "replaying", all.nr * times + in.nr);
	rc = age(w, &in, &l, &all, times, &p);
	began = cpu_seconds();
	if (!rc)
		rc = replay(w, &in, &l, &s, &p);
	progress_end(&p);
	if (!rc && w->opt.disk.check)
		disk_verify(&l.disk, w->opt.compact.units);
	if (!rc && w->json)
		report_json(&l, &s, cpu_seconds() - began);
	else if (!rc)
		report_text(&l, cpu_seconds() - began);
out:
	log_exit(&l);
	free(all.at);
	free(s.host);
	free(s.medium);
	input_close(&in);
	return rc;
}

/* The status of the program, unless its output was lost. */
static int told(int rc)
{
	return rc == EXIT_CLEAN ? output_end(rc) : rc;
}

int main(int argc, char **argv)
{
	static struct words w = {
		.name = "-", .unit = 512, .frontier = U64_MAX, .defrag_max = U64_MAX,
		.opt = { .regions = 1, .remedies = { .defrag_hits = 1 } },
	};
	int c;

	tool_name = "shingle-replay";
	opterr = 0;
	while ((c = next_option(argc, argv, ":hV", long_options, NULL)) != -1) {
		if (c == 'h') {
			fputs(help, stdout);
			return told(EXIT_CLEAN);
		}
		if (c == 'V') {
			say("shingle-replay %s", tool_release);
			return told(EXIT_CLEAN);
		}
		if (c == ':')
			return misused("the last option needs a value");
		if (c == '?')
			return misused("an option is not known, or takes no value");
		if (!take(&w, c))
			return EXIT_USAGE;
	}
	if (argc - optind > 1)
		return misused("more than one FILE is given");
	if (argv[optind])
		w.name = argv[optind];
	if (w.unit != 512 && w.unit != 4096)
		return misused("--unit is 512B or 4K");
	if (w.opt.exact && !w.cache)
		return misused("--exact requires --cache");
	if (!w.opt.disk.full && (w.age || w.opt.disk.clean || w.opt.disk.check))
		return misused("--clean, --age and --check require --full");
	if (w.guard && (!w.segment || w.opt.disk.full))
		return misused("--guard requires --segment without --full");
	if (w.opt.reread && (!w.opt.remedies.defrag_frags || w.opt.disk.full))
		return misused("--reread requires --defrag-frags without --full");
	if (w.opt.disk.full && w.unit != 4096)
		return misused("--full requires --unit 4K");
	if (w.segment && w.segment < 1 << 20)
		return misused("--segment is at least 1M");
	w.opt.disk.clean = w.opt.disk.clean ?: DEFAULT_CLEAN;
	if (strcmp(w.opt.disk.clean, "greedy") && strcmp(w.opt.disk.clean, DEFAULT_CLEAN))
		return misused("--clean is greedy or cost-benefit");
	return told(run(&w));
}
