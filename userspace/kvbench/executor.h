/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sends operations to a store: back to back from each thread (closed loop), or when they
 * are due, whatever became of those before (open loop).
 */
#ifndef KVBENCH_EXECUTOR_H
#define KVBENCH_EXECUTOR_H

#include "arrivals.h"
#include "histogram.h"
#include "store.h"
#include "workload.h"

/**
 * struct run_options - how operations are sent
 * @threads: how many send them
 * @ops: in all; 0 leaves it to the arrivals, U64_MAX to @max_ns
 * @max_ns: back to back, none begins later; or 0
 * @open: when they are due; else back to back
 * @arrivals: open loop: when that is
 * @late_ns: open loop: what begins later than this after it was due is counted as late
 * @sync: each write
 * @verify: values that are read must be those that were written
 * @log: of each operation, times and kind; or NULL
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
 * struct op_result - of one kind of operation
 * @service: from its begin to its end
 * @response: from when it was due to its end; open loop only
 * @missing: of them found no such key
 * @failed: of them ended in another error
 * @wrong: of them read another value than was written
 * @records: that scans returned
 */
struct op_result {
	struct histogram *service, *response;
	u64 missing, failed, wrong, records;
};

/**
 * struct run_result - what became of them
 * @op: see there; histograms are NULL where none was asked for
 * @lateness: open loop: from when each was due to its begin
 * @done: operations that ended
 * @late: of them began later than @late_ns after they were due
 * @queued: of them were due when no thread was free
 * @written_bytes: keys and values
 * @wall_ns: from the first begin that was possible to the last end
 * @sync_ns: what a sync took behind the last one, which is not in @wall_ns
 * @due_ns: open loop: when the last one was due
 * @error: the first, negative, or 0
 * @stopped: by a signal
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
