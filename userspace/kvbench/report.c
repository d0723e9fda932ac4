// SPDX-License-Identifier: GPL-2.0
/* Reports of the results of a run. */
#include "report.h"
#include "tool.h"

static const struct {
	const char *name, *json;
	double percent;
} points[] = {
	{ "50 %", "p50_us", 50 }, { "90 %", "p90_us", 90 }, { "99 %", "p99_us", 99 },
	{ "99.9 %", "p99_9_us", 99.9 }, { "99.99 %", "p99_99_us", 99.99 },
};

static double us(u64 ns)
{
	return (double)ns / 1000;
}

static double per_second(const struct run_result *r)
{
	return r->wall_ns ? (double)r->done * NSEC_PER_SEC / (double)r->wall_ns : 0;
}

/* --- text ------------------------------------------------------------------------- */

static void row(const char *name, const char *what, const struct histogram *h)
{
	u32 i;

	if (!h || !histogram_count(h))
		return;
	printf("%-16s%-10s%12llu%11.1f", name, what, histogram_count(h),
	       histogram_mean(h) / 1000);
	for (i = 0; i < ARRAY_SIZE(points); i++)
		printf("%11.1f", us(histogram_at(h, points[i].percent)));
	printf("%11.1f\n", us(histogram_max(h)));
}

static void text_open(const struct run_options *run, const struct run_result *r)
{
	if (!run->open)
		return;
	say("%s, %.2f a second, due until %.3f s: %llu late by more than %llu us",
	    arrival_process_name[run->arrivals.process], run->arrivals.per_second,
	    (double)r->due_ns / NSEC_PER_SEC, r->late, run->late_ns / 1000);
	say("%llu operations were due while no thread was free", r->queued);
}

/**
 * report_text() - print some lines and a table
 * @r: the report
 */
void report_text(const struct report *r)
{
	const struct run_result *result = r->result;
	u32 i;

	say("%s, %u threads: %llu operations in %.3f s, %.1f a second%s; a sync after them %.3f s",
	    r->store->name, r->run->threads, result->done,
	    (double)result->wall_ns / NSEC_PER_SEC, per_second(result),
	    result->stopped ? ", stopped" : "", (double)result->sync_ns / NSEC_PER_SEC);
	text_open(r->run, result);
	printf("\n%-16s%-10s%12s%11s", "us", "", "operations", "mean");
	for (i = 0; i < ARRAY_SIZE(points); i++)
		printf("%11s", points[i].name);
	printf("%11s\n", "worst");
	for (i = 0; i < NR_OPS; i++) {
		row(op_name[i], "service", result->op[i].service);
		row("", "response", result->op[i].response);
	}
	row("late by", "", result->lateness);
	for (i = 0; i < NR_OPS; i++) {
		const struct op_result *op = &result->op[i];

		if (op->missing)
			say("%s: %llu found no such key", op_name[i], op->missing);
		if (op->wrong)
			say("%s: %llu VALUES WERE WRONG", op_name[i], op->wrong);
		if (op->records)
			say("%s: %llu records", op_name[i], op->records);
	}
}

/* --- JSON ------------------------------------------------------------------------- */

static void json_histogram(struct json_object *in, const char *key, const struct histogram *h)
{
	struct json_object *j;
	u32 i;

	if (!h)
		return;
	j = json_dict(in, key);
	json_u64(j, "count", histogram_count(h));
	json_double(j, "min_us", us(histogram_min(h)));
	json_double(j, "mean_us", histogram_mean(h) / 1000);
	for (i = 0; i < ARRAY_SIZE(points); i++)
		json_double(j, points[i].json, us(histogram_at(h, points[i].percent)));
	json_double(j, "max_us", us(histogram_max(h)));
}

static void json_open_loop(struct json_object *in, const struct run_options *run,
			   const struct run_result *r)
{
	struct json_object *j = json_dict(in, "arrivals");
	const struct arrival_options *a = &run->arrivals;

	json_str(j, "process", arrival_process_name[a->process]);
	json_double(j, "target", a->per_second);
	if (a->process == ARRIVAL_SELF_SIMILAR)
		json_double(j, "ss.bias", a->bias);
	if (a->process == ARRIVAL_DIURNAL) {
		json_double(j, "diurnal.modulation", a->modulation);
		json_double(j, "diurnal.cyclelength", a->cycle_minutes);
		json_str(j, "diurnal.distribution", gap_distribution_name[a->gaps]);
		json_double(j, "diurnal.distribution.shape", a->shape);
	}
	json_double(j, "due_s", (double)r->due_ns / NSEC_PER_SEC);
	json_u64(j, "late", r->late);
	json_double(j, "late_us", us(run->late_ns));
	json_u64(j, "queued", r->queued);
	json_histogram(j, "lateness", r->lateness);
}

static void json_op(struct json_object *in, enum op_kind kind, const struct op_result *op)
{
	struct json_object *j;

	if (!op->service)
		return;
	j = json_dict(in, op_name[kind]);
	json_histogram(j, "service", op->service);
	json_histogram(j, "response", op->response);
	json_u64(j, "missing", op->missing);
	json_u64(j, "wrong", op->wrong);
	json_u64(j, "failed", op->failed);
	if (kind == OP_SCAN)
		json_u64(j, "records", op->records);
}

/**
 * report_json() - print everything as one JSON object
 * @r: the report
 */
void report_json(const struct report *r)
{
	const struct run_result *result = r->result;
	struct json_object *j = json_dict(NULL, NULL), *ops;
	u32 i;

	json_str(j, "command", r->name);
	json_str(j, "store", r->store->name);
	json_u64(j, "threads", r->run->threads);
	json_u64(j, "seed", r->work->seed);
	json_u64(j, "records", r->work->records);
	json_u64(j, "value_bytes", r->work->value_bytes);
	json_str(j, "requests", request_name[r->work->requests]);
	json_bool(j, "sync", r->run->sync);
	json_u64(j, "operations", result->done);
	json_double(j, "seconds", (double)result->wall_ns / NSEC_PER_SEC);
	json_double(j, "ops_per_s", per_second(result));
	json_double(j, "sync_s", (double)result->sync_ns / NSEC_PER_SEC);
	json_u64(j, "written_bytes", result->written_bytes);
	json_bool(j, "stopped", result->stopped);
	json_str(j, "histograms", histogram_library);
	if (r->run->open)
		json_open_loop(j, r->run, result);
	ops = json_dict(j, "ops");
	for (i = 0; i < NR_OPS; i++)
		json_op(ops, i, &result->op[i]);
	if (r->store->report)
		r->store->report(r->ctx, json_dict(j, "store_stats"));
	json_print(j, stdout);
}
