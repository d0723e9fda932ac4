// SPDX-License-Identifier: GPL-2.0
/* kvbench arrivals: prints due times, or writes them as a load for a block device. */
#include <json.h>

#include "outfile.h"
#include "settings.h"

static const char help[] =
"Usage: kvbench arrivals [OPTION]...\n"
"Print the due times of requests in nanoseconds since the start, or write them as reads\n"
"and writes of a block device, for fio or for scripts/loads/run.\n"
"\n"
"      --format HOW     text: one due time a line; counts: arrivals of each second, one\n"
"                       second a line; json; iolog3: fio's, with times; csv: as MSR\n"
"                       Cambridge's traces (text)\n"
"  -o, --out FILE       output file (standard output)\n"
"      --size SIZE      iolog3, csv: size of the device\n"
"      --block SIZE     size of each request (4K)\n"
"      --reads PERCENT  share of reads (0)\n"
"      --device NAME    iolog3: name of the device (device); fio's replay_redirect\n"
"                       replaces it\n"
"  -h, --help           print this text\n"
"\n"
"--requests selects the positions: uniform, zipfian (scattered), hotspot or sequential.\n"
"\n";

/* The smallest request that a device accepts. */
#define SECTOR_BYTES	512U

enum { OPT_FORMAT = SETTING_END, OPT_SIZE, OPT_BLOCK, OPT_READS, OPT_DEVICE };

static const struct option long_options[] = {
	SETTINGS_LONG,
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "out", required_argument, NULL, 'o' },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "block", required_argument, NULL, OPT_BLOCK },
	{ "reads", required_argument, NULL, OPT_READS },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

enum format { TEXT, COUNTS, JSON, IOLOG3, CSV, NR_FORMATS };

static const char *const format_name[NR_FORMATS] = {
	"text", "counts", "json", "iolog3", "csv",
};

/**
 * struct writer - the output
 * @f: output file
 * @format: its format
 * @device: iolog3: name of the device
 * @block_bytes: size of a request
 * @workload: offsets of requests
 * @picker: state for @workload
 * @due_ns: json: the array
 * @arrivals: the arrival process
 * @last_us: iolog3: time of the last line
 * @second: counts: the current second
 * @count: counts: number of arrivals in it
 */
struct writer {
	FILE *f;
	enum format format;
	const char *device;
	u64 block_bytes;
	struct workload workload;
	struct picker picker;
	struct json_stream *due_ns;
	struct arrivals arrivals;
	u64 last_us, second, count;
};

static bool on_device(enum format format)
{
	return format == IOLOG3 || format == CSV;
}

static void begin(struct writer *w)
{
	/* fio takes a time of 0 for a missing one. */
	if (w->format == IOLOG3)
		fprintf(w->f, "fio version 3 iolog\n1 %s add\n1 %s open\n", w->device,
			w->device);
	w->last_us = 1;
}

/* Print the lines of all seconds before @second. */
static void counts_until(struct writer *w, u64 second)
{
	for (; w->second < second; w->second++, w->count = 0)
		fprintf(w->f, "%llu\n", w->count);
}

static void request(struct writer *w, u64 number, u64 due_ns)
{
	u64 us = 1 + due_ns / 1000, bytes = w->block_bytes;
	struct op op;

	picker_op(&w->picker, number, &op);
	if (w->format == CSV) {
		fprintf(w->f, "%llu,kvbench,0,%s,%llu,%llu,0\n", due_ns / 100,
			op.kind == OP_READ ? "Read" : "Write", op.record * bytes, bytes);
		return;
	}
	fprintf(w->f, "%llu %s %s %llu %llu\n", us, w->device,
		op.kind == OP_READ ? "read" : "write", op.record * bytes, bytes);
	w->last_us = us;
}

static void one(struct writer *w, u64 number, u64 due_ns)
{
	switch (w->format) {
	case TEXT:
		fprintf(w->f, "%llu\n", due_ns);
		break;
	case COUNTS:
		counts_until(w, due_ns / NSEC_PER_SEC);
		w->count++;
		break;
	case JSON:
		json_stream_put(w->due_ns, json_object_new_uint64(due_ns));
		break;
	default:
		request(w, number, due_ns);
	}
}

static void end(struct writer *w, const struct settings *s)
{
	switch (w->format) {
	case COUNTS:
		/* Seconds without arrivals have a line, too. */
		counts_until(w, max(w->second + 1, s->arrivals.ns / NSEC_PER_SEC));
		break;
	case IOLOG3:
		fprintf(w->f, "%llu %s close\n", w->last_us, w->device);
		break;
	default:
		break;
	}
}

static void all(struct json_stream *due_ns, void *ctx)
{
	struct writer *w = ctx;
	u64 at_ns;

	w->due_ns = due_ns;
	while (!ferror(w->f) && arrivals_next(&w->arrivals, &at_ns))
		one(w, w->arrivals.number - 1, at_ns);
}

static void all_json(struct writer *w, const struct arrival_options *a)
{
	struct json_stream due_ns = { .walk = all, .ctx = w };
	struct json_object *j = json_dict(NULL, NULL);

	json_str(j, "arrivals", arrival_process_name[a->process]);
	json_double(j, "target", a->per_second);
	json_u64(j, "seed", a->seed);
	json_stream(j, "due_ns", &due_ns);
	json_print(j, w->f);
}

static int run(struct writer *w, const struct settings *s, const char *name)
{
	begin(w);
	if (w->format == JSON)
		all_json(w, &s->arrivals);
	else
		all(NULL, w);
	end(w, s);
	if (fflush(w->f) || ferror(w->f))
		return fail("%s: %s", name, strerror(errno));
	return EXIT_CLEAN;
}

/* Is the name valid for fio?  It splits lines at blanks, and names at colons. */
static bool good_device(const char *name)
{
	const char *p;

	for (p = name; *p > ' ' && *p < 0x7f && *p != ':'; p++)
		;
	return *name && !*p && p - name <= 256;
}

/* The blocks of the device are the records of the workload. */
static int places(const struct command *cmd, struct writer *w, struct settings *s, u64 size_bytes,
		  u64 reads_percent)
{
	struct workload_options *o = &s->work;

	if (!on_device(w->format))
		return EXIT_CLEAN;
	if (!w->block_bytes || w->block_bytes > 1ULL << 30 || w->block_bytes % SECTOR_BYTES)
		return usage(cmd, "--block must be a multiple of %uB, and at most 1G", SECTOR_BYTES);
	if (size_bytes < w->block_bytes)
		return usage(cmd, "--size must be given, and be at least a block of %s",
			     size_text(w->block_bytes).s);
	if (!good_device(w->device))
		return usage(cmd, "fio does not accept the name '%s' for a device in an iolog", w->device);
	if (s->requests == REQUEST_LATEST)
		return usage(cmd, "--requests latest does not apply to a device");
	memset(o->share, 0, sizeof(o->share));
	o->share[OP_READ] = (double)reads_percent / 100;
	o->share[OP_UPDATE] = 1 - o->share[OP_READ];
	o->records = size_bytes / w->block_bytes;
	o->insert_from = o->records;
	workload_begin(&w->workload, o);
	picker_begin(&w->picker, &w->workload);
	return EXIT_CLEAN;
}

/* A regular file keeps its old contents if an error occurs. */
static int run_to(struct writer *w, const struct settings *s, const char *name)
{
	struct outfile out;
	int rc, err = outfile_begin(&out, name);

	if (err)
		return fail("%s: %s", name, outfile_reason(err));
	w->f = out.stream;
	rc = run(w, s, name);
	err = outfile_end(&out, !rc);
	return err ? fail("%s: %s", name, outfile_reason(err)) : rc;
}

static int arrivals_run(const struct command *cmd, int argc, char **argv)
{
	struct writer *w = calloc(1, sizeof(*w));
	u64 size_bytes = 0, reads_percent = 0;
	const char *out = NULL, *why;
	struct settings s;
	bool ok = true;
	int c, i, rc;

	if (!w)
		return fail("out of memory");
	settings_init(&s);
	w->f = stdout;
	w->block_bytes = 4096;
	w->device = "device";
	while (ok && (c = next_option(argc, argv, ":" SETTINGS_SHORT "o:h", long_options,
				      NULL)) != -1) {
		switch (c) {
		case OPT_FORMAT:
			for (i = 0; i < NR_FORMATS && strcmp(optarg, format_name[i]); i++)
				;
			w->format = (enum format)i;
			ok = i < NR_FORMATS;
			if (!ok)
				fail("--format '%s' is not known; see 'kvbench arrivals --help'",
				     optarg);
			break;
		case 'o':
			out = optarg;
			break;
		case OPT_SIZE:
			ok = parse_size("--size", optarg, &size_bytes);
			break;
		case OPT_BLOCK:
			ok = parse_size("--block", optarg, &w->block_bytes);
			break;
		case OPT_READS:
			ok = parse_number("--reads", optarg, 0, 100, &reads_percent);
			break;
		case OPT_DEVICE:
			w->device = optarg;
			break;
		case 'h':
		case ':':
		case '?':
			free(w);
			return option_error(cmd, c, argv[optind - 1]);
		default:
			ok = settings_take(&s, c, optarg);
		}
	}
	if (!ok || !parse_operands(cmd, argc, argv, 0)) {
		free(w);
		return EXIT_USAGE;
	}
	settings_derive(&s);
	rc = places(cmd, w, &s, size_bytes, reads_percent);
	why = rc ? NULL : arrivals_begin(&w->arrivals, &s.arrivals);
	if (why)
		rc = usage(cmd, "%s", why);
	if (!rc)
		rc = out ? run_to(w, &s, out) : run(w, &s, "standard output");
	free(w);
	return rc;
}

const struct command cmd_arrivals = {
	.name = "arrivals",
	.summary = "print due times of requests, or iologs for fio",
	.help = help,
	.more_help = settings_print_help,
	.run = arrivals_run,
};
