/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is asked of a store: the core workloads of YCSB, and the modes of db_bench that
 * have a meaning for any store.
 */
#ifndef KVBENCH_WORKLOAD_H
#define KVBENCH_WORKLOAD_H

#include <pthread.h>
#include <shim.h>
#include <stdatomic.h>
#include <zipfian.h>

#define KEY_BYTES_MAX	128
#define ACK_WINDOW	(1U << 16)	/* inserts under way at a time, at most */

enum op_kind {
	OP_READ,
	OP_UPDATE,
	OP_INSERT,
	OP_SCAN,
	OP_READ_MODIFY_WRITE,
	OP_DELETE,
	NR_OPS,
};

enum request_distribution {
	REQUEST_UNIFORM,
	REQUEST_ZIPFIAN,
	REQUEST_LATEST,
	REQUEST_HOTSPOT,
	REQUEST_SEQUENTIAL,
	REQUEST_OLDEST,
	NR_REQUESTS,
};

extern const char *const op_name[NR_OPS];
extern const char *const request_name[NR_REQUESTS];

/**
 * struct workload_options - a workload
 * @records: that there are before
 * @insert_from: number of the first record that is inserted
 * @share: of each kind of operation; they add up to 1
 * @requests: which records are asked for
 * @theta: skew of Zipfian requests
 * @hot_set: hotspot: share of records that are hot
 * @hot_ops: hotspot: share of operations that go there
 * @ordered: keys have the order in which records are inserted; else they are hashed
 * @bare: keys are digits only, without YCSB's "user"
 * @padding: digits of a key, at least
 * @value_bytes: of each
 * @scan_min: records of the shortest scan
 * @scan_max: and of the longest
 * @scan_zipfian: lengths are Zipfian; else uniform
 * @expected_ops: operations to come, which Zipfian requests take into account
 * @seed: the same one, the same operations
 */
struct workload_options {
	u64 records, insert_from;
	double share[NR_OPS];
	enum request_distribution requests;
	double theta, hot_set, hot_ops;
	bool ordered, bare;
	u32 padding, value_bytes;
	u64 scan_min, scan_max;
	bool scan_zipfian;
	u64 expected_ops, seed;
};

/**
 * struct workload - its state, which all threads share
 * @opt: see there
 * @next_insert: number of the next record to insert
 * @next_oldest: REQUEST_OLDEST: number of the oldest record that no deletion has taken
 * @acked: all records below are there
 * @ack_lock: for @acked and @ack
 * @ack: of the next records, those that are there
 */
struct workload {
	struct workload_options opt;
	atomic_ullong next_insert, next_oldest, acked;
	pthread_mutex_t ack_lock;
	bool ack[ACK_WINDOW];
};

/**
 * struct picker - what a thread needs to choose records
 * @w: see there
 * @ranks: of Zipfian requests
 * @lengths: of scans
 */
struct picker {
	struct workload *w;
	struct zipfian ranks, lengths;
};

/**
 * struct op - one operation
 * @kind: see there
 * @record: its number
 * @records: of a scan
 */
struct op {
	enum op_kind kind;
	u64 record;
	u64 records;
};

u64 fnv64(u64 value);
bool workload_preset(struct workload_options *opt, const char *name);
const char *workload_wrong(const struct workload_options *opt);
void workload_begin(struct workload *w, const struct workload_options *opt);
void workload_end(struct workload *w);
void workload_inserted(struct workload *w, u64 record);
size_t workload_key(const struct workload_options *opt, u64 record, char *key);
void workload_value(const struct workload_options *opt, u64 record, void *value);
void picker_begin(struct picker *p, struct workload *w);
void picker_op(struct picker *p, u64 number, struct op *op);

#endif /* KVBENCH_WORKLOAD_H */
