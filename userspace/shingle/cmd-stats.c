// SPDX-License-Identifier: GPL-2.0
/* shingle stats. */
#include <unistd.h>

#include "engine/counters.h"
#include "dm.h"
#include "engines.h"
#include "json.h"
#include "latency.h"
#include "lines.h"
#include "tool.h"

#define MAX_STATS	256

struct stat_line {
	char name[48];
	char text[64];
	u64 value;
	bool number;
};

#define MAX_FIELDS	64

/**
 * struct stat_table - a device's answer to the message "stats"
 * @name: name of the device
 * @target: its target type
 * @nr: number of elements used in @s
 * @s: the lines
 */
struct stat_table {
	char name[128];
	char target[32];
	u32 nr;
	struct stat_line s[MAX_STATS];
};

/**
 * struct stat_round - answers of all devices at one time
 * @nr: number of elements used in @t
 * @t: one table for each device
 * @ok: all devices have answered
 */
struct stat_round {
	u32 nr;
	struct stat_table *t;
	bool ok;
};

/**
 * struct stats_args - the command line
 * @name: the only device to show, or NULL for all
 * @fields: fields to show; if there are none, all are shown
 * @nr_fields: number of elements used in @fields
 * @seconds: interval of --watch, 0 for a single output
 * @json: print JSON
 * @prometheus: print the text format of Prometheus
 */
struct stats_args {
	const char *name;
	const char *fields[MAX_FIELDS];
	u32 nr_fields;
	u64 seconds;
	bool json;
	bool prometheus;
};

#define AMPLIFICATION	"write_amplification"

/* Parse lines of "name value"; the target chooses the names. */
static void parse_stats(const char *reply, struct stat_table *t)
{
	const char *line = reply;

	t->nr = 0;
	while (line && *line && t->nr < MAX_STATS) {
		struct stat_line *s = &t->s[t->nr];

		if (sscanf(line, "%47s %63[^\n]", s->name, s->text) == 2) {
			s->number = !kstrtou64(s->text, 10, &s->value);
			t->nr++;
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
}

static u64 value_of(const struct stat_table *t, const char *name)
{
	u32 i;

	for (i = 0; i < t->nr; i++) {
		if (t->s[i].number && !strcmp(t->s[i].name, name))
			return t->s[i].value;
	}
	return 0;
}

/* Blocks written for any purpose per block that the host wrote; 0 if it wrote none. */
static double write_amplification(const struct stat_table *t)
{
	static const char *const written[] = {
		"host_write_blocks", "wcache_destage_blocks", "clean_write_blocks",
		"journal_blocks", "checkpoint_blocks",
	};
	u64 host = value_of(t, "host_write_blocks"), all = 0;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(written); i++)
		all += value_of(t, written[i]);
	/* Host writes into the write cache are written only when they are destaged. */
	all -= value_of(t, "wcache_write_blocks");
	return host ? (double)all / (double)host : 0.0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static bool wanted(const struct stats_args *a, const char *field)
{
	u32 i;

	for (i = 0; i < a->nr_fields; i++) {
		if (!strcmp(a->fields[i], field))
			return true;
	}
	return !a->nr_fields;
}

static bool has_field(const struct stat_table *t, const char *field)
{
	u32 i;

	for (i = 0; i < t->nr; i++) {
		if (!strcmp(t->s[i].name, field))
			return true;
	}
	return !strcmp(field, AMPLIFICATION) && !target_is_platter(t->target);
}

/* True if at least one device has each of the fields; else prints an error. */
static bool fields_known(const struct stats_args *a, const struct stat_round *r)
{
	u32 i, k;

	for (i = 0; i < a->nr_fields; i++) {
		for (k = 0; k < r->nr && !has_field(&r->t[k], a->fields[i]); k++)
			;
		if (k < r->nr || !r->nr)
			continue;
		fail("--fields: %s counter '%s'; 'shingle stats' lists all",
		     a->name ? "the device has no" : "no device has", a->fields[i]);
		return false;
	}
	return true;
}

/* Print one table.  @then is the table one interval ago, or NULL. */
static void print(const struct stats_args *a, const struct stat_table *t,
		  const struct stat_table *then)
{
	double wa = write_amplification(t);
	u32 i;

	for (i = 0; i < t->nr; i++) {
		const struct stat_line *s = &t->s[i];
		u64 before = then ? value_of(then, s->name) : 0;

		struct size_text size = { "" };

		if (!wanted(a, s->name))
			continue;
		if (s->number && ends_with(s->name, "_blocks"))
			size = blocks_text(s->value);
		else if (s->number && ends_with(s->name, "_bytes"))
			size = size_text(s->value);
		printf("%-24s %20s", s->name, s->text);
		if (then && s->number && s->value >= before)
			printf("  %12s %12.1f/s", size.s,
			       (double)(s->value - before) / (double)a->seconds);
		else if (size.s[0])
			printf("  %12s", size.s);
		putchar('\n');
	}
	if (!wanted(a, AMPLIFICATION) || !has_field(t, AMPLIFICATION))
		return;
	if (wa > 0)
		printf("%-24s %20.3f\n", AMPLIFICATION, wa);
	else
		printf("%-24s %20s\n", AMPLIFICATION, "-");
}

static struct json_object *table_json(const struct stats_args *a, const struct stat_table *t)
{
	struct json_object *j = json_dict(NULL, NULL), *stats;
	u32 i;

	json_str(j, "name", t->name);
	json_str(j, "target", t->target);
	stats = json_dict(j, "stats");
	for (i = 0; i < t->nr; i++) {
		if (!wanted(a, t->s[i].name))
			continue;
		if (t->s[i].number)
			json_u64(stats, t->s[i].name, t->s[i].value);
		else
			json_str(stats, t->s[i].name, t->s[i].text);
	}
	if (wanted(a, AMPLIFICATION) && has_field(t, AMPLIFICATION)) {
		if (value_of(t, "host_write_blocks"))
			json_double(j, AMPLIFICATION, write_amplification(t));
		else
			json_object_object_add(j, AMPLIFICATION, NULL);
	}
	return j;
}

static void print_json(const struct stats_args *a, const struct stat_round *r)
{
	struct json_object *all = a->name ? NULL : json_list(NULL, NULL), *j;
	u32 i;

	for (i = 0; i < r->nr; i++) {
		j = json_put(all, NULL, table_json(a, &r->t[i]));
		if (!all)
			json_print(j, stdout);
	}
	if (all)
		json_print(all, stdout);
}

/* A maximum: it only grows, but a rate of it makes no sense. */
static bool is_maximum(const char *name)
{
	return !strncmp(name, "longest_", strlen("longest_")) || strstr(name, "_max_");
}

/* True for values that may decrease or are a maximum: gauges to Prometheus. */
static bool is_gauge(const char *name)
{
	static const char *const now[] = {
#define X(name) #name,
		SHINGLE_GAUGES(X, )
#undef X
		"map_pages", "map_dirty_pages", "damaged_blocks", "damage_map_bytes",
	};
	const struct engine_row *row;
	const struct shingle_counter *c;
	u32 i;

	if (is_maximum(name))
		return true;
	for (i = 0; i < ARRAY_SIZE(now); i++) {
		if (!strcmp(now[i], name))
			return true;
	}
	for (i = 0; (row = engine_by_index(i)); i++) {
		for (c = row->ops->counters; c && c->name; c++) {
			if (!strcmp(c->name, name))
				return c->kind == SHINGLE_COUNTER_NOW;
		}
	}
	return false;
}

/* Suffixes in the targets' names, and the units that Prometheus expects. */
static const struct unit {
	const char *ours;
	const char *what;
	const char *theirs;
	const char *word;
	u32 times;
	bool micro;
} units[] = {
	{ "_blocks", "", "_bytes", "bytes", SHINGLE_BLOCK_SIZE, false },
	/* Platters put the unit in front of the operation. */
	{ "blocks_read", "read", "_bytes", "bytes", SHINGLE_BLOCK_SIZE, false },
	{ "blocks_written", "written", "_bytes", "bytes", SHINGLE_BLOCK_SIZE, false },
	{ "_us", "", "_seconds", "seconds", 1, true },
	{ "_bytes", "", "_bytes", "bytes", 1, false },
	{ "", "", "", NULL, 1, false },
};

static const struct unit *unit_of(const char *name)
{
	const struct unit *u = units;

	while (!ends_with(name, u->ours))
		u++;
	return u;
}

static void print_label(const char *name, const char *value)
{
	struct shown_text t;

	printf("%s=\"", name);
	/* A label that is not UTF-8 would make Prometheus reject the whole answer. */
	for (value = spelt(value, &t); *value; value++) {
		if (*value == '\n')
			fputs("\\n", stdout);
		else if (*value == '"' || *value == '\\')
			printf("\\%c", *value);
		else
			putchar(*value);
	}
	putchar('"');
}

/* Print the name and the labels of a metric. */
static void print_labels(const char *metric, const struct stat_table *t)
{
	printf("%s{", metric);
	print_label("device", t->name);
	putchar(',');
	print_label("target", t->target);
}

/* Print help and type of the metric for counter @name, once for all devices. */
static void print_head(const char *name, bool number, char *metric, size_t size)
{
	const struct unit *u = unit_of(name);
	bool gauge = !number || is_gauge(name);
	int stem = (int)(strlen(name) - strlen(u->ours));
	char words[64];
	u32 i;

	snprintf(metric, size, "shingle_%.*s%s%s%s", stem, name, u->what, u->theirs,
		 gauge ? "" : "_total");
	snprintf(words, sizeof(words), "%.*s%s", stem, name, u->what);
	for (i = 0; words[i]; i++)
		words[i] = words[i] == '_' ? ' ' : words[i];
	printf("# HELP %s %s%s%s, %s; %s of 'shingle stats'.\n", metric, words, u->word ? " in " : "",
	       u->word ?: "", !number ? "1 with the value as label" : is_maximum(name) ?
	       "maximum since the device was opened or cleared" : gauge ? "now" :
	       "since the device was opened or cleared", name);
	printf("# TYPE %s %s\n", metric, gauge ? "gauge" : "counter");
}

static void print_metric(const struct stat_round *r, const char *name, bool number)
{
	const struct unit *u = unit_of(name);
	char metric[96];
	u32 i, k;

	print_head(name, number, metric, sizeof(metric));
	for (i = 0; i < r->nr; i++) {
		for (k = 0; k < r->t[i].nr; k++) {
			const struct stat_line *s = &r->t[i].s[k];

			if (strcmp(s->name, name))
				continue;
			print_labels(metric, &r->t[i]);
			if (!s->number) {
				putchar(',');
				print_label(name, s->text);
				printf("} 1\n");
			} else if (u->micro) {
				printf("} %llu.%06llu\n", s->value / 1000000, s->value % 1000000);
			} else {
				printf("} %llu\n", s->value * u->times);
			}
		}
	}
}

/* True if an earlier line of this or another device has the same name. */
static bool seen_before(const struct stat_round *r, u32 device, u32 line)
{
	const char *name = r->t[device].s[line].name;
	u32 i, k;

	for (i = 0; i <= device; i++) {
		for (k = 0; k < (i < device ? r->t[i].nr : line); k++) {
			if (!strcmp(r->t[i].s[k].name, name))
				return true;
		}
	}
	return false;
}

static void print_prometheus(const struct stats_args *a, const struct stat_round *r)
{
	const char *metric = "shingle_" AMPLIFICATION "_ratio";
	bool any = false;
	u32 i, k;

	for (i = 0; i < r->nr; i++) {
		for (k = 0; k < r->t[i].nr; k++) {
			const struct stat_line *s = &r->t[i].s[k];

			if (wanted(a, s->name) && !seen_before(r, i, k))
				print_metric(r, s->name, s->number);
		}
	}
	for (i = 0; i < r->nr && wanted(a, AMPLIFICATION); i++) {
		if (!value_of(&r->t[i], "host_write_blocks") || !has_field(&r->t[i], AMPLIFICATION))
			continue;
		if (!any) {
			printf("# HELP %s blocks written for each block that the host wrote.\n", metric);
			printf("# TYPE %s gauge\n", metric);
		}
		any = true;
		print_labels(metric, &r->t[i]);
		printf("} %.6f\n", write_amplification(&r->t[i]));
	}
}

static bool ask(const char *name, const char *target, struct stat_round *r)
{
	struct stat_table *t = realloc(r->t, (r->nr + 1) * sizeof(*t));
	char *reply = t ? dm_device_message(name, "stats") : NULL;

	r->t = t ?: r->t;
	if (!t)
		fail("out of memory");
	if (!reply)
		return false;
	t += r->nr++;
	parse_stats(reply, t);
	snprintf(t->name, sizeof(t->name), "%s", name);
	snprintf(t->target, sizeof(t->target), "%s", target);
	free(reply);
	return true;
}

static void visit(const struct dm_line *line, void *ctx)
{
	struct stat_round *r = ctx;

	r->ok &= ask(line->name, line->target, r);
}

/* Query the one device, or all; @r receives the answers. */
static void ask_round(const struct stats_args *a, struct stat_round *r)
{
	struct dm_line line;
	bool all;

	*r = (struct stat_round){ .ok = true };
	if (!a->name) {
		r->ok = for_each_of_ours(visit, r, &all) && all && r->ok;
		return;
	}
	r->ok = line_of_ours(a->name, &line);
	if (!r->ok)
		return;
	r->ok = ask(a->name, line.target, r);
	dm_line_free(&line);
}

static const struct stat_table *same_device(const struct stat_round *r, const char *name)
{
	u32 i;

	for (i = 0; i < r->nr; i++) {
		if (!strcmp(r->t[i].name, name))
			return &r->t[i];
	}
	return NULL;
}

static void print_round(const struct stats_args *a, const struct stat_round *r,
			const struct stat_round *then)
{
	u32 i;

	if (a->prometheus) {
		print_prometheus(a, r);
		return;
	}
	if (a->json) {
		print_json(a, r);
		return;
	}
	if (a->seconds && isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	if (!a->name && !r->nr && r->ok)
		say("no dm-shingle device is open");
	for (i = 0; i < r->nr; i++) {
		if (!a->name)
			say("%s%s: %s", i ? "\n" : "", r->t[i].name, r->t[i].target);
		print(a, &r->t[i], same_device(then, r->t[i].name));
	}
	if (a->seconds && !isatty(STDOUT_FILENO))
		putchar('\n');
}

static int watch(const struct stats_args *a)
{
	struct stat_round now, then = { 0 };
	bool first = true;
	int ret = EXIT_CLEAN;

	for (;;) {
		ask_round(a, &now);
		if (!now.ok)
			ret = EXIT_OPERATION;
		/*
		 * Check fields only once: later the device that has a field may be closed and
		 * reopened.
		 */
		if ((a->name && !now.ok) || (first && !fields_known(a, &now))) {
			ret = now.ok ? EXIT_USAGE : ret;
			break;
		}
		print_round(a, &now, &then);
		first = false;
		free(then.t);
		then = now;
		now.t = NULL;
		/* The output is closed or full; the next round would fail too. */
		if (output_end(EXIT_CLEAN)) {
			ret = EXIT_OPERATION;
			break;
		}
		if (!a->seconds)
			break;
		sleep((u32)a->seconds);
	}
	free(now.t);
	free(then.t);
	return ret;
}

static bool take_fields(struct stats_args *a, char *list)
{
	char *field;

	while ((field = strsep(&list, ","))) {
		if (!*field || a->nr_fields == MAX_FIELDS) {
			fail("--fields needs 1 to %u names separated by commas", MAX_FIELDS);
			return false;
		}
		a->fields[a->nr_fields++] = field;
	}
	return true;
}

static int clear_stats(const char *name)
{
	char *reply = dm_device_message(name, "stats_clear");

	free(reply);
	return reply ? EXIT_CLEAN : EXIT_OPERATION;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "watch", required_argument, NULL, 'w' },
		{ "fields", required_argument, NULL, 'F' },
		{ "prometheus", no_argument, NULL, 'p' },
		{ "latency", required_argument, NULL, 'l' },
		{ "clear", no_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct stats_args a = { 0 };
	bool clear = false;
	u64 latency = 0;
	int c;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			a.json = true;
			break;
		case 'w':
			if (!parse_number("--watch (seconds)", optarg, 1, 86400, &a.seconds))
				return EXIT_USAGE;
			break;
		case 'F':
			if (!take_fields(&a, optarg))
				return EXIT_USAGE;
			break;
		case 'p':
			a.prometheus = true;
			break;
		case 'l':
			if (!parse_number("--latency (seconds)", optarg, 1, 86400, &latency))
				return EXIT_USAGE;
			break;
		case 'c':
			clear = true;
			break;
		default:
			return option_error(cmd, c, argv[optind - 1]);
		}
	}
	if (!parse_operands(cmd, argc, argv, optind < argc, "NAME", &a.name) ||
	    (a.name && !dm_name_valid(a.name)))
		return EXIT_USAGE;
	if (a.prometheus && (a.json || a.seconds))
		return usage(cmd, "--prometheus cannot be combined with --json and --watch: omit them");
	if (clear && (a.json || a.seconds || a.prometheus || a.nr_fields))
		return usage(cmd, "--clear prints nothing: omit the other options");
	if (clear && !a.name)
		return usage(cmd, "NAME is missing: --clear requires one");
	if (latency && (a.seconds || a.prometheus || a.nr_fields || clear))
		return usage(cmd, "--latency can be combined only with --json: omit the other options");
	if (latency && !a.name)
		return usage(cmd, "NAME is missing: --latency requires one");
	if (latency)
		return latency_show(a.name, latency, a.json);
	return clear ? clear_stats(a.name) : watch(&a);
}

const struct command cmd_stats = {
	.name = "stats",
	.summary = "print the counters of open devices",
	.help = "Usage: shingle stats [NAME] [options]\n\n"
		"Prints all counters of the device NAME, or of all open devices, media included, and\n"
		"the write amplification of each layer:\n"
		"(host + cleaning + journal + checkpoint blocks written) / host blocks written.\n"
		"A block in the write cache counts when it is destaged.\n\n"
		"  --fields LIST     print only these counters; names separated by commas\n"
		"  --json            print JSON: an object, or without NAME an array of them\n"
		"  --prometheus      print Prometheus' text format; shingle(8) lists the names\n"
		"  --watch SECONDS   repeat at this interval, with rates\n"
		"  --latency SECONDS measure the latency of NAME for this time or until ^C, and print\n"
		"                    a histogram in powers of two\n"
		"  --clear           set the counters of NAME to zero\n",
	.run = run,
};
