/* SPDX-License-Identifier: GPL-2.0 */
/* Reports of the results of a run, as text and as JSON. */
#ifndef KVBENCH_REPORT_H
#define KVBENCH_REPORT_H

#include "executor.h"

/**
 * struct report - the contents of a report
 * @name: name of the command
 * @store: kind of store
 * @ctx: the store
 * @run: options of the run
 * @work: options of the workload
 * @result: results of the run
 */
struct report {
	const char *name;
	const struct store_ops *store;
	void *ctx;
	const struct run_options *run;
	const struct workload_options *work;
	const struct run_result *result;
};

void report_text(const struct report *r);
void report_json(const struct report *r);

#endif /* KVBENCH_REPORT_H */
