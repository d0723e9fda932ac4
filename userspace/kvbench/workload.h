/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The operations on a store: the core workloads of YCSB, and the modes of db_bench that are
 * meaningful for any store.
 */
#ifndef KVBENCH_WORKLOAD_H
#define KVBENCH_WORKLOAD_H

#include <pthread.h>
#include <shim.h>
#include <stdatomic.h>
#include <zipfian.h>

#define KEY_BYTES_MAX	128
#define ACK_WINDOW	(1U << 16)	/* most inserts in flight */

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
 * @records: number of records that exist before
 * @insert_from: number of the first record that is inserted
 * @share: share of each kind of operation; the sum is 1
 * @requests: distribution of the requested records
 * @theta: skew of Zipfian requests
 * @hot_set: hotspot: share of records that are hot
 * @hot_ops: hotspot: share of operations on hot records
 * @ordered: keys are in the order in which records are inserted; otherwise they are hashed
 * @bare: keys are digits only, without YCSB's "user"
 * @padding: least number of digits of a key
 * @value_bytes: size of each value
 * @scan_min: number of records of the shortest scan
 * @scan_max: number of records of the longest scan
 * @scan_zipfian: lengths of scans are Zipfian; otherwise uniform
 * @expected_ops: number of operations to come, for Zipfian requests
 * @seed: determines the operations
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
 * struct workload - state of a workload, shared by all threads
 * @opt: options
 * @next_insert: number of the next record to insert
 * @next_oldest: REQUEST_OLDEST: number of the oldest record that no deletion has taken
 * @acked: all records with smaller numbers exist
 * @ack_lock: guards @acked and @ack
 * @ack: which of the next records exist
 */
struct workload {
	struct workload_options opt;
	atomic_ullong next_insert, next_oldest, acked;
	pthread_mutex_t ack_lock;
	bool ack[ACK_WINDOW];
};

/**
 * struct picker - state of a thread for choosing records
 * @w: the workload
 * @ranks: ranks of Zipfian requests
 * @lengths: lengths of scans
 */
struct picker {
	struct workload *w;
	struct zipfian ranks, lengths;
};

/**
 * struct op - one operation
 * @kind: kind of operation
 * @record: number of the record
 * @records: number of records of a scan
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
