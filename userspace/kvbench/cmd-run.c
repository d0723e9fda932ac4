// SPDX-License-Identifier: GPL-2.0
/* kvbench load and run: operations on a store, and their results. */
#include "outfile.h"
#include "report.h"
#include "settings.h"

static const char help[] =
"Usage: kvbench load|run [OPTION]...\n"
"Send operations to a store and print their latencies.  Operations are sent back to back,\n"
"or with --target at their due times, independent of earlier ones; latencies are then also\n"
"measured from the due times.  'load' inserts the records that 'run' uses.  The default\n"
"workload of 'run' is a.\n"
"\n"
"  -s, --store KIND     null, memory, kv, leveldb, rocksdb (null); the last three if\n"
"                       kvbench was built with them\n"
"  -d, --device DEV     kv: a device with a store of 'kv format'; leveldb, rocksdb: a\n"
"                       directory, which is created if missing.  Implies --store kv\n"
"      --no-log         write no log: a power cut loses writes since the last flush;\n"
"                       not leveldb\n"
"      --cache SIZE     cache for blocks, indexes and Bloom filters; leveldb and rocksdb\n"
"                       always keep the latter two (64M)\n"
"      --around SIZE    kv: bytes to read around a block while the cache has room; 4K:\n"
"                       only the block (128K)\n"
"      --memtable SIZE  writes to collect before they become a table\n"
"      --l0-trigger N, --l0-slowdown N  tables of level 0 that start a compaction, and\n"
"                       that slow writes down; not leveldb\n"
"      --stream[=SIZE]  kv: write bands one after another, each to its end; SIZE is the\n"
"                       lead-in, see kv(1)\n"
"      --no-thread      kv: writers do the merges that are due, as with --stream\n"
"      --offload DEV    kv: offload device of the store\n"
"  -t, --threads N      threadcount: most operations in flight (1)\n"
"      --value SIZE     size of a record (fieldcount times fieldlength: 1000B)\n"
"      --load           run: insert the records first, unmeasured\n"
"      --sync           make each write durable before the next one\n"
"      --verify         check that the values read are those written\n"
"      --late US        lateness from which an operation counts as late (1000)\n"
"      --delay US       null: duration of each operation (0)\n"
"      --log FILE       write for each operation: number, kind, due time (-1: back to\n"
"                       back), begin and end, in nanoseconds\n"
"      --dry-run        print the operations, one a line: kind, key, and number of\n"
"                       records of a scan; send none\n"
"      --json           print JSON\n"
"  -h, --help           print this text\n"
"\n";

enum {
	OPT_VALUE = SETTING_END, OPT_LOAD, OPT_SYNC, OPT_VERIFY, OPT_LATE, OPT_DELAY, OPT_LOG,
	OPT_DRY_RUN, OPT_JSON, OPT_NO_LOG, OPT_CACHE, OPT_AROUND, OPT_MEMTABLE,
	OPT_L0_TRIGGER, OPT_L0_SLOWDOWN, OPT_OFFLOAD, OPT_STREAM, OPT_NO_THREAD,
};

static const struct option long_options[] = {
	SETTINGS_LONG,
	{ "store", required_argument, NULL, 's' },
	{ "device", required_argument, NULL, 'd' },
	{ "no-log", no_argument, NULL, OPT_NO_LOG },
	{ "cache", required_argument, NULL, OPT_CACHE },
	{ "around", required_argument, NULL, OPT_AROUND },
	{ "memtable", required_argument, NULL, OPT_MEMTABLE },
	{ "l0-trigger", required_argument, NULL, OPT_L0_TRIGGER },
	{ "l0-slowdown", required_argument, NULL, OPT_L0_SLOWDOWN },
	{ "offload", required_argument, NULL, OPT_OFFLOAD },
	{ "stream", optional_argument, NULL, OPT_STREAM },
	{ "no-thread", no_argument, NULL, OPT_NO_THREAD },
	{ "value", required_argument, NULL, OPT_VALUE },
	{ "load", no_argument, NULL, OPT_LOAD },
	{ "sync", no_argument, NULL, OPT_SYNC },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "late", required_argument, NULL, OPT_LATE },
	{ "delay", required_argument, NULL, OPT_DELAY },
	{ "log", required_argument, NULL, OPT_LOG },
	{ "dry-run", no_argument, NULL, OPT_DRY_RUN },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const struct store_ops *const stores[] = {
	&store_null, &store_memory, &store_kv, &store_leveldb, &store_rocksdb,
};

/**
 * struct job - the command line
 * @s: settings
 * @store: kind of store
 * @open: options of the store
 * @run: options of the run
 * @log: name of the log file, or NULL
 * @load: insert the records before the run
 * @dry: print the operations only
 * @json: report in JSON
 */
struct job {
	struct settings s;
	const struct store_ops *store;
	struct store_options open;
	struct run_options run;
	const char *log;
	bool load, dry, json;
};

static bool take_store(struct job *job, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(stores); i++) {
		if (!stores[i] || strcmp(name, stores[i]->name))
			continue;
		job->store = stores[i];
		return true;
	}
	fail("there is no store '%s'; see 'kvbench run --help'", name);
	return false;
}

/* Parse a number of 32 bits, or with @size a size. */
static bool take_small(const char *arg, const char *v, bool size, u64 high, u32 *place)
{
	u64 n;

	if (!(size ? parse_size(arg, v, &n) : parse_number(arg, v, 1, high, &n)))
		return false;
	if (n > high) {
		fail("%s %s is above %s", arg, v, size_text(high).s);
		return false;
	}
	*place = (u32)n;
	return true;
}

static bool take(struct job *job, int c, const char *v)
{
	u32 value_bytes;
	u64 n;

	switch (c) {
	case 's':
		return take_store(job, v);
	case 'd':
		job->open.path = v;
		return true;
	case OPT_VALUE:
		if (!take_small("--value", v, true, 1U << 30, &value_bytes))
			return false;
		job->s.value_bytes = value_bytes;
		/* Otherwise 0 would mean the size given by the fields. */
		if (!value_bytes)
			job->s.field_bytes = 0;
		return true;
	case OPT_NO_LOG:
		job->open.no_log = true;
		return true;
	case OPT_CACHE:
		return parse_size("--cache", v, &job->open.cache_bytes);
	case OPT_AROUND:
		return take_small("--around", v, true, 1U << 20, &job->open.around_bytes);
	case OPT_MEMTABLE:
		return take_small("--memtable", v, true, 1U << 30, &job->open.memtable_bytes);
	case OPT_L0_TRIGGER:
		return take_small("--l0-trigger", v, false, 1000, &job->open.l0_trigger);
	case OPT_OFFLOAD:
		job->open.offload = v;
		return true;
	case OPT_L0_SLOWDOWN:
		return take_small("--l0-slowdown", v, false, 1000, &job->open.l0_slowdown);
	case OPT_STREAM:
		job->open.stream = true;
		return !v || take_small("--stream", v, true, 1U << 30, &job->open.lead_bytes);
	case OPT_NO_THREAD:
		job->open.no_thread = true;
		return true;
	case OPT_LOAD:
		job->load = true;
		return true;
	case OPT_SYNC:
		job->run.sync = true;
		return true;
	case OPT_VERIFY:
		job->run.verify = true;
		return true;
	case OPT_LATE:
		if (!parse_number("--late", v, 0, 1ULL << 40, &n))
			return false;
		job->run.late_ns = n * 1000;
		return true;
	case OPT_DELAY:
		return parse_number("--delay", v, 0, 1000000000, &job->open.delay_us);
	case OPT_LOG:
		job->log = v;
		return true;
	case OPT_DRY_RUN:
		job->dry = true;
		return true;
	case OPT_JSON:
		job->json = true;
		return true;
	default:
		return settings_take(&job->s, c, v);
	}
}

/* Derive all other values after the last option.  Return: an exit code. */
static int derive(const struct command *cmd, struct job *job)
{
	struct settings *s = &job->s;
	const char *why;

	if (cmd == &cmd_load) {
		memset(s->work.share, 0, sizeof(s->work.share));
		s->work.share[OP_INSERT] = 1;
	}
	settings_derive(s);
	if (!s->ops && s->work.share[OP_INSERT] == 1)
		s->ops = s->records;
	why = workload_wrong(&s->work);
	if (why)
		return usage(cmd, "%s", why);
	job->run.threads = (u32)s->threads;
	job->run.open = s->arrivals.per_second > 0;
	job->run.max_ns = s->arrivals.ns;
	job->run.arrivals = s->arrivals;
	job->run.arrivals.ops = s->ops;
	job->run.ops = s->ops;
	if (!job->run.open && s->process != ARRIVAL_CONSTANT)
		return usage(cmd, "--arrivals requires a rate: --target");
	why = job->run.open ? arrivals_wrong(&job->run.arrivals) : NULL;
	if (why)
		return usage(cmd, "%s", why);
	if (!job->run.open && !job->run.ops && job->run.max_ns)
		job->run.ops = U64_MAX;
	if (!job->run.open && !job->run.ops)
		return usage(cmd, "give --ops or --seconds");
	if (!job->store && !job->open.path)
		job->store = &store_null;
	if (!job->store && !take_store(job, "kv"))
		return EXIT_USAGE;
	if (job->store->wants_path != !!job->open.path)
		return usage(cmd, job->open.path ? "--store %s uses no device" :
			     "--store %s needs --device", job->store->name);
	return EXIT_CLEAN;
}

static int exit_code(const struct job *job, const struct run_result *r)
{
	u64 wrong = 0;
	u32 i;

	for (i = 0; i < NR_OPS; i++)
		wrong += r->op[i].wrong;
	if (r->error)
		return fail("an operation failed after %llu others: %s", r->done,
			    job->store->error ? job->store->error(r->error) :
			    strerror(-r->error));
	return wrong ? EXIT_UNCORRECTED : EXIT_CLEAN;
}

static int measured(const struct command *cmd, const struct job *job,
		    const struct run_options *run, const struct workload_options *work, void *ctx,
		    bool quiet)
{
	struct workload *w = malloc(sizeof(*w));
	struct run_result result;
	int err;

	if (!w)
		return fail("out of memory");
	workload_begin(w, work);
	err = execute(run, w, job->store, ctx, &result);
	workload_end(w);
	free(w);
	if (err)
		return fail("the threads could not be started: %s", strerror(-err));
	if (!quiet) {
		const struct report r = {
			.name = cmd->name, .store = job->store, .ctx = ctx, .run = run,
			.work = work, .result = &result,
		};

		(job->json ? report_json : report_text)(&r);
	}
	err = exit_code(job, &result);
	run_result_free(&result);
	return err;
}

/* Insert each record that the run works on once. */
static int loaded(const struct command *cmd, const struct job *job, void *ctx)
{
	struct workload_options work = job->s.work;
	struct run_options run = {
		.threads = job->run.threads, .ops = job->s.work.records,
	};

	memset(work.share, 0, sizeof(work.share));
	work.share[OP_INSERT] = 1;
	work.requests = REQUEST_UNIFORM;
	work.insert_from -= work.records;
	work.records = 0;
	return measured(cmd, job, &run, &work, ctx, true);
}

static int dry(const struct job *job)
{
	struct workload *w = malloc(sizeof(*w));
	struct picker p;
	char key[KEY_BYTES_MAX];
	struct op op;
	u64 i;

	if (!w)
		return fail("out of memory");
	workload_begin(w, &job->s.work);
	picker_begin(&p, w);
	for (i = 0; i < job->run.ops && !ferror(stdout); i++) {
		picker_op(&p, i, &op);
		workload_key(&w->opt, op.record, key);
		printf("%s %s", op_name[op.kind], key);
		if (op.kind == OP_SCAN)
			printf(" %llu", op.records);
		putchar('\n');
		if (op.kind == OP_INSERT)
			workload_inserted(w, op.record);
	}
	workload_end(w);
	free(w);
	return fflush(stdout) || ferror(stdout) ? fail("standard output: %s", strerror(errno)) :
	       EXIT_CLEAN;
}

static int executed(const struct command *cmd, struct job *job)
{
	void *ctx;
	struct outfile log = { };
	int rc, closed, err;

	if (job->log) {
		err = outfile_begin(&log, job->log);
		if (err)
			return fail("%s: %s", job->log, outfile_reason(err));
		job->run.log = log.stream;
	}
	rc = job->store->open(&ctx, &job->open);
	if (!rc) {
		if (job->load && job->s.work.records)
			rc = loaded(cmd, job, ctx);
		if (!rc)
			rc = measured(cmd, job, &job->run, &job->s.work, ctx, false);
		closed = job->store->close(ctx);
		rc = rc ? rc : closed;
	}
	/* The log of the operations before an error is worth keeping. */
	err = job->log ? outfile_end(&log, true) : 0;
	if (err && !rc)
		rc = fail("%s: %s", job->log, outfile_reason(err));
	return rc;
}

static int run_run(const struct command *cmd, int argc, char **argv)
{
	struct job job = { .run.late_ns = 1000000 };
	int c, rc;

	settings_init(&job.s);
	settings_take(&job.s, 'w', "a");
	while ((c = next_option(argc, argv, ":" SETTINGS_SHORT "s:d:h", long_options,
				NULL)) != -1) {
		if (c == 'h' || c == ':' || c == '?')
			return option_error(cmd, c, argv[optind - 1]);
		if (!take(&job, c, optarg))
			return EXIT_USAGE;
	}
	if (!parse_operands(cmd, argc, argv, 0))
		return EXIT_USAGE;
	rc = derive(cmd, &job);
	if (rc)
		return rc;
	return job.dry ? dry(&job) : executed(cmd, &job);
}

const struct command cmd_load = {
	.name = "load",
	.summary = "insert records",
	.help = help,
	.more_help = settings_print_help,
	.run = run_run,
};

const struct command cmd_run = {
	.name = "run",
	.summary = "run operations on existing records",
	.help = help,
	.more_help = settings_print_help,
	.run = run_run,
};
