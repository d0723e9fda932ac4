// SPDX-License-Identifier: GPL-2.0
/* Properties of YCSB, and of the thesis that added arrivals to it. */
#include <ctype.h>
#include <math.h>

#include "settings.h"

static const char help[] =
"The load, as YCSB properties or as equivalent options; later ones take precedence:\n"
"  -P, --properties FILE  lines of KEY=VALUE\n"
"  -p, --property KEY=VALUE  one property\n"
"  -w, --workload NAME    YCSB's a, b, c, d, e, f, load; db_bench's fillseq,\n"
"                         fillrandom, overwrite, readrandom, readseq, deleterandom;\n"
"                         queue: puts at the end, deletes and scans at the start\n"
"  -n, --ops N            operationcount\n"
"  -r, --records N        recordcount (1000)\n"
"      --requests HOW     requestdistribution: uniform, zipfian, latest, hotspot,\n"
"                         sequential, oldest\n"
"      --seconds N        maxexecutiontime: no operation begins (back to back) or is\n"
"                         due (with a rate) later\n"
"      --seed N           seed of all random numbers (1)\n"
"Arrival of requests:\n"
"      --target X         mean rate, per second\n"
"      --arrivals HOW     arrivalgenerator: constant, poisson, self-similar, diurnal\n"
"  Properties: ss.bias (0.75), diurnal.modulation (0.9 times the target),\n"
"  diurnal.cyclelength, in minutes (15), diurnal.distribution: pareto, exponential or\n"
"  constant (pareto), diurnal.distribution.shape (1.5)\n"
"      --as-drawn         diurnal: do not fit gaps to their second; the mean rate then\n"
"                         differs from --target\n";

static const char *const insert_orders[] = { "hashed", "ordered" };
static const char *const scan_lengths[] = { "uniform", "zipfian" };
/* YCSB has more: values of varying length are a different load. */
static const char *const field_lengths[] = { "constant" };

enum property_type {
	COUNT,		/* a whole number, @low to @high */
	REAL,		/* a number from @low to @high */
	WORD,		/* one of @words; stored as its index */
	IGNORED,	/* a property of YCSB without a meaning here */
};

/**
 * struct property - a property
 * @name: its name
 * @type: type of its value
 * @at: offset in struct settings
 * @low: smallest value
 * @high: largest value, or the number of @words
 * @words: the words, for WORD
 */
static const struct property {
	const char *name;
	enum property_type type;
	size_t at;
	double low, high;
	const char *const *words;
} properties[] = {
#define PLACE(member)	offsetof(struct settings, member)
#define SHARE(name, op)	{ name, REAL, PLACE(work.share[op]), 0, 1, NULL }
#define WORDS(name, member, w) { name, WORD, PLACE(member), 0, ARRAY_SIZE(w), w }
	WORDS("arrivalgenerator", process, arrival_process_name),
	{ "ss.bias", REAL, PLACE(arrivals.bias), 0.5, 0.999999, NULL },
	{ "diurnal.modulation", REAL, PLACE(arrivals.modulation), 0, 1e9, NULL },
	{ "diurnal.cyclelength", REAL, PLACE(arrivals.cycle_minutes), 1e-3, 1e6, NULL },
	WORDS("diurnal.distribution", gaps, gap_distribution_name),
	{ "diurnal.distribution.shape", REAL, PLACE(arrivals.shape), 1.001, 100, NULL },
	{ "target", REAL, PLACE(arrivals.per_second), 0, 1e9, NULL },
	{ "operationcount", COUNT, PLACE(ops), 0, 1e15, NULL },
	{ "recordcount", COUNT, PLACE(records), 0, 1e15, NULL },
	{ "insertstart", COUNT, PLACE(work.insert_from), 0, 1e15, NULL },
	{ "threadcount", COUNT, PLACE(threads), 1, 4096, NULL },
	{ "maxexecutiontime", COUNT, PLACE(seconds), 0, 1e9, NULL },
	SHARE("readproportion", OP_READ),
	SHARE("updateproportion", OP_UPDATE),
	SHARE("insertproportion", OP_INSERT),
	SHARE("scanproportion", OP_SCAN),
	SHARE("readmodifywriteproportion", OP_READ_MODIFY_WRITE),
	SHARE("deleteproportion", OP_DELETE),
	WORDS("requestdistribution", requests, request_name),
	{ "hotspotdatafraction", REAL, PLACE(work.hot_set), 0, 1, NULL },
	{ "hotspotopnfraction", REAL, PLACE(work.hot_ops), 0, 1, NULL },
	{ "zipfian.constant", REAL, PLACE(work.theta), 0.01, 0.999, NULL },
	WORDS("insertorder", insert_order, insert_orders),
	{ "zeropadding", COUNT, PLACE(padding), 1, 100, NULL },
	{ "fieldcount", COUNT, PLACE(fields), 1, 1000, NULL },
	{ "fieldlength", COUNT, PLACE(field_bytes), 0, 1 << 20, NULL },
	{ "minscanlength", COUNT, PLACE(work.scan_min), 1, 1e6, NULL },
	{ "maxscanlength", COUNT, PLACE(work.scan_max), 1, 1e6, NULL },
	WORDS("scanlengthdistribution", scan_lengths, scan_lengths),
	{ "seed", COUNT, PLACE(seed), 0, 1e18, NULL },
	{ "workload", IGNORED, 0, 0, 0, NULL },
	{ "readallfields", IGNORED, 0, 0, 0, NULL },
	{ "writeallfields", IGNORED, 0, 0, 0, NULL },
	WORDS("fieldlengthdistribution", field_lengths, field_lengths),
	{ "table", IGNORED, 0, 0, 0, NULL },
#undef PLACE
#undef SHARE
#undef WORDS
};

void settings_print_help(void)
{
	fputs(help, stdout);
}

/**
 * settings_init() - set the defaults
 * @s: result
 */
void settings_init(struct settings *s)
{
	*s = (struct settings){
		.arrivals = {
			.bias = 0.75, .leaf_ns = 1000000, .modulation = NAN,
			.cycle_minutes = 15, .shape = 1.5,
		},
		.work = {
			.theta = 0.99, .hot_set = 0.2, .hot_ops = 0.8, .scan_min = 1,
			.scan_max = 1000,
		},
		.requests = REQUEST_UNIFORM, .records = 1000, .threads = 1, .padding = 1,
		.fields = 10, .field_bytes = 100, .seed = 1,
	};
}

static bool take_word(const struct property *p, const char *value, u32 *place)
{
	size_t n = (size_t)p->high, i, j, at = 0;
	char known[128] = "";

	for (i = 0; i < n; i++) {
		const char *word = p->words[i];

		/* The thesis writes "self similar". */
		for (j = 0; word[j] && (word[j] == value[j] ||
					(word[j] == '-' && value[j] == ' ')); j++)
			;
		if (word[j] || value[j])
			continue;
		*place = (u32)i;
		return true;
	}
	for (i = 0; i < n; i++)
		at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "",
				       p->words[i]);
	fail("%s '%s' is not known: there %s %s", p->name, value, n == 1 ? "is" : "are", known);
	return false;
}

static bool take_real(const struct property *p, const char *value, double *place)
{
	char *end;
	double v = strtod(value, &end);

	if (end != value && !*end && v >= p->low && v <= p->high) {
		*place = v;
		return true;
	}
	fail("%s '%s' is not a number from %g to %g", p->name, value, p->low, p->high);
	return false;
}

/* Properties of YCSB's core or of its bindings that do not change a load here. */
static const char *const foreign[] = {
	"columnfamily", "core_workload_insertion_retry_interval",
	"core_workload_insertion_retry_limit", "db", "discardscannedrecord", "dotransactions",
	"exporter", "exportfile", "fieldnameprefix", "hosts", "jdbc.", "label", "maxscanrate",
	"measurementtype", "port", "scanoptimelimit", "status.interval", "threadpool",
	"warmupexecutiontime",
};

/* Prefixes of properties with a dot that are known here. */
static const char *const own_prefixes[] = { "diurnal.", "ss.", "zipfian.", "exponential." };

/* Another name with a dot belongs to another store or to the reports of YCSB. */
static bool is_foreign(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(foreign); i++) {
		if (!strcmp(name, foreign[i]))
			return true;
	}
	for (i = 0; i < ARRAY_SIZE(own_prefixes); i++) {
		if (!strncmp(name, own_prefixes[i], strlen(own_prefixes[i])))
			return false;
	}
	return strchr(name, '.');
}

/* Collect the names; settings_derive() prints them once. */
static bool take_foreign(struct settings *s, const char *name)
{
	size_t n = strlen(s->foreign);

	if (!is_foreign(name)) {
		fail("there is no property '%s'; see 'kvbench --help'", name);
		return false;
	}
	snprintf(s->foreign + n, sizeof(s->foreign) - n, "%s%s", n ? ", " : "", name);
	return true;
}

static bool take_property(struct settings *s, const char *name, const char *value)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(properties); i++) {
		const struct property *p = &properties[i];
		void *place = (char *)s + p->at;

		if (strcmp(name, p->name))
			continue;
		if (place == &s->fields || place == &s->field_bytes)
			s->value_bytes = 0;
		switch (p->type) {
		case COUNT:
			return parse_number(name, value, (u64)p->low, (u64)p->high, place);
		case REAL:
			return take_real(p, value, place);
		case WORD:
			return take_word(p, value, place);
		default:
			return true;
		}
	}
	return take_foreign(s, name);
}

/* Parse "key = value"; blanks around both are skipped. */
static bool take_line(struct settings *s, char *line)
{
	char *value = strpbrk(line, "=:"), *end;

	if (!value) {
		fail("'%s' is not KEY=VALUE", line);
		return false;
	}
	for (end = value; end > line && isspace((u8)end[-1]); end--)
		;
	for (value++; isspace((u8)*value); value++)
		;
	*end = '\0';
	return take_property(s, line, value);
}

static char *trimmed(char *line)
{
	size_t n = strlen(line);

	while (n && isspace((u8)line[n - 1]))
		line[--n] = '\0';
	while (isspace((u8)*line))
		line++;
	return line;
}

static bool take_file(struct settings *s, const char *path)
{
	FILE *f = fopen(path, "r");
	bool ok = true, first = true;
	char line[512] = "", *text;

	if (!f) {
		fail("%s: %s", path, strerror(errno));
		return false;
	}
	while (ok && fgets(line, sizeof(line), f)) {
		text = line;
		if (first && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2))) {
			fail("%s is in UTF-16: save it as UTF-8", path);
			ok = false;
			break;
		}
		/* A byte order mark, at the beginning or where files were joined. */
		if (!strncmp(text, "\xef\xbb\xbf", 3))
			text += 3;
		first = false;
		text = trimmed(text);
		/* The end-of-file character of CP/M, which some editors still write. */
		if (*text && *text != '#' && *text != '!' && strcmp(text, "\x1a"))
			ok = take_line(s, text);
	}
	if (ok && ferror(f)) {
		fail("%s: %s", path, strerror(EIO));
		ok = false;
	}
	fclose(f);
	return ok;
}

static bool take_workload(struct settings *s, const char *name)
{
	s->work.value_bytes = 0;
	s->work.ordered = s->insert_order;
	if (!workload_preset(&s->work, name)) {
		fail("there is no workload '%s'; see 'kvbench --help'", name);
		return false;
	}
	s->requests = s->work.requests;
	s->insert_order = s->work.ordered;
	if (s->work.padding)
		s->padding = s->work.padding;
	if (s->work.value_bytes)
		s->value_bytes = s->work.value_bytes;
	return true;
}

static bool take_pair(struct settings *s, const char *pair)
{
	char *copy = strdup(pair);
	bool ok = copy && take_line(s, trimmed(copy));

	free(copy);
	return ok;
}

/**
 * settings_take() - set an option of SETTINGS_LONG
 * @s: the settings
 * @c: result of next_option()
 * @value: value of the option
 *
 * Return: False after printing an error.
 */
bool settings_take(struct settings *s, int c, const char *value)
{
	switch (c) {
	case 'P':
		return take_file(s, value);
	case 'p':
		return take_pair(s, value);
	case 'w':
		return take_workload(s, value);
	case 't':
		return take_property(s, "threadcount", value);
	case 'n':
		return take_property(s, "operationcount", value);
	case 'r':
		return take_property(s, "recordcount", value);
	case SETTING_ARRIVALS:
		return take_property(s, "arrivalgenerator", value);
	case SETTING_TARGET:
		return take_property(s, "target", value);
	case SETTING_SECONDS:
		return take_property(s, "maxexecutiontime", value);
	case SETTING_REQUESTS:
		return take_property(s, "requestdistribution", value);
	case SETTING_SEED:
		return take_property(s, "seed", value);
	default:
		s->arrivals.as_drawn = true;
		return true;
	}
}

/**
 * settings_derive() - derive all other values, after the last option
 * @s: the settings; @arrivals and @work are complete afterwards
 */
void settings_derive(struct settings *s)
{
	struct workload_options *w = &s->work;

	if (*s->foreign)
		fprintf(stderr, "kvbench: ignored properties of other stores: %s\n", s->foreign);
	s->arrivals.process = s->process;
	s->arrivals.gaps = s->gaps;
	if (isnan(s->arrivals.modulation))
		s->arrivals.modulation = 0.9 * s->arrivals.per_second;
	s->arrivals.ops = s->ops;
	s->arrivals.ns = s->seconds * NSEC_PER_SEC;
	s->arrivals.seed = s->seed;
	w->requests = s->requests;
	w->ordered = s->insert_order;
	w->padding = (u32)s->padding;
	w->scan_zipfian = s->scan_lengths;
	w->value_bytes = (u32)(s->value_bytes ? s->value_bytes : s->fields * s->field_bytes);
	w->seed = s->seed;
	/* A workload of inserts only is a load; every other workload finds existing records. */
	w->records = w->share[OP_INSERT] == 1 ? 0 : s->records;
	if (w->records)
		w->insert_from += w->records;
	w->expected_ops = s->ops;
}
