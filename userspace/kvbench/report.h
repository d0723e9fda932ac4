/* SPDX-License-Identifier: GPL-2.0 */
/* What became of a run, for people and for machines. */
#ifndef KVBENCH_REPORT_H
#define KVBENCH_REPORT_H

#include "executor.h"

/**
 * struct report - all that is told
 * @name: of the command
 * @store: see there
 * @ctx: the store
 * @run: see there
 * @work: see there
 * @result: see there
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
