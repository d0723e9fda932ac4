/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sends operations to a store: back to back in each thread (closed loop), or when they are due,
 * even if earlier ones have not ended (open loop).
 */
#ifndef KVBENCH_EXECUTOR_H
#define KVBENCH_EXECUTOR_H

#include "arrivals.h"
#include "histogram.h"
#include "store.h"
#include "workload.h"

/**
 * struct run_options - options of a run
 * @threads: number of threads
 * @ops: number of operations; 0: given by the arrivals; U64_MAX: limited by @max_ns
 * @max_ns: closed loop: no operation begins later; or 0
 * @open: open loop: operations are sent when they are due
 * @arrivals: open loop: the arrival process
 * @late_ns: open loop: an operation counts as late if it begins later than this after it was due
 * @sync: sync each write
 * @verify: compare values that are read with those that were written
 * @log: file for times and kind of each operation; or NULL
 */
struct run_options {
	u32 threads;
	u64 ops, max_ns;
	bool open;
	struct arrival_options arrivals;
	u64 late_ns;
	bool sync, verify;
	FILE *log;
};

/**
 * struct op_result - results of one kind of operation
 * @service: times from the begin to the end
 * @response: open loop: times from the due time to the end
 * @missing: number of operations that found no such key
 * @failed: number of operations that failed with another error
 * @wrong: number of operations that read another value than was written
 * @records: number of records that scans returned
 */
struct op_result {
	struct histogram *service, *response;
	u64 missing, failed, wrong, records;
};

/**
 * struct run_result - results of a run
 * @op: results by kind; histograms are NULL for kinds without operations
 * @lateness: open loop: times from the due time to the begin
 * @done: number of operations that ended
 * @late: number of those that began more than @late_ns after they were due
 * @queued: number of those that were due when no thread was free
 * @written_bytes: bytes of keys and values
 * @wall_ns: time from the earliest possible begin to the last end
 * @sync_ns: duration of the sync after the last operation; not included in @wall_ns
 * @due_ns: open loop: due time of the last operation
 * @error: the first error, negative; or 0
 * @stopped: stopped by a signal
 */
struct run_result {
	struct op_result op[NR_OPS];
	struct histogram *lateness;
	u64 done, late, queued, written_bytes, wall_ns, sync_ns, due_ns;
	int error;
	bool stopped;
};

int execute(const struct run_options *opt, struct workload *w, const struct store_ops *store,
	    void *ctx, struct run_result *result);
void run_result_free(struct run_result *result);

#endif /* KVBENCH_EXECUTOR_H */
