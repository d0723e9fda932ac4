/* SPDX-License-Identifier: GPL-2.0 */
/* Settings of a run, by YCSB's properties and by options with the same meaning. */
#ifndef KVBENCH_SETTINGS_H
#define KVBENCH_SETTINGS_H

#include "arrivals.h"
#include "tool.h"
#include "workload.h"

/**
 * struct settings - all settings that have a property
 * @arrivals: the arrival process
 * @work: the workload
 * @process: arrivalgenerator
 * @gaps: diurnal.distribution
 * @requests: requestdistribution
 * @insert_order: insertorder: 0 hashed, 1 ordered
 * @scan_lengths: scanlengthdistribution: 0 uniform, 1 zipfian
 * @field_lengths: fieldlengthdistribution, with one possible value
 * @foreign: names of properties of other stores, for a message
 * @records: recordcount
 * @ops: operationcount
 * @threads: threadcount
 * @seconds: maxexecutiontime
 * @padding: zeropadding
 * @fields: fieldcount
 * @field_bytes: fieldlength
 * @value_bytes: size of a value; 0: @fields times @field_bytes
 * @seed: seed of arrivals and operations
 */
struct settings {
	struct arrival_options arrivals;
	struct workload_options work;
	u32 process, gaps, requests, insert_order, scan_lengths, field_lengths;
	u64 records, ops, threads, seconds, padding, fields, field_bytes, value_bytes, seed;
	char foreign[256];
};

/* Options that all commands share, for next_option(). */
#define SETTINGS_SHORT	"P:p:w:t:n:r:"
#define SETTINGS_LONG							\
	{ "properties", required_argument, NULL, 'P' },			\
	{ "property", required_argument, NULL, 'p' },			\
	{ "workload", required_argument, NULL, 'w' },			\
	{ "threads", required_argument, NULL, 't' },			\
	{ "ops", required_argument, NULL, 'n' },			\
	{ "records", required_argument, NULL, 'r' },			\
	{ "arrivals", required_argument, NULL, SETTING_ARRIVALS },	\
	{ "target", required_argument, NULL, SETTING_TARGET },		\
	{ "seconds", required_argument, NULL, SETTING_SECONDS },	\
	{ "requests", required_argument, NULL, SETTING_REQUESTS },	\
	{ "seed", required_argument, NULL, SETTING_SEED },		\
	{ "as-drawn", no_argument, NULL, SETTING_AS_DRAWN }

enum {
	SETTING_ARRIVALS = 256, SETTING_TARGET, SETTING_SECONDS, SETTING_REQUESTS,
	SETTING_SEED, SETTING_AS_DRAWN, SETTING_END,
};

void settings_print_help(void);
void settings_init(struct settings *s);
bool settings_take(struct settings *s, int c, const char *value);
void settings_derive(struct settings *s);

/* The commands of kvbench. */
extern const struct command cmd_load, cmd_run, cmd_arrivals;

#endif /* KVBENCH_SETTINGS_H */
