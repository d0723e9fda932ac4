// SPDX-License-Identifier: GPL-2.0
/*
 * Workloads after YCSB: B. F. Cooper and others, "Benchmarking Cloud Serving Systems with YCSB"
 * (SoCC 2010), and the definitions in its core package.
 */
#include <random.h>
#include <time.h>

#include "workload.h"

/* Draws of a rank until its record exists. */
#define MOST_DRAWS		1000U

/* YCSB scatters Zipfian ranks of this number of items over the existing items. */
#define SCATTERED_ITEMS		10000000000ULL
#define SCATTERED_ZETA		26.46902820178302	/* theta 0.99 */

const char *const op_name[] = {
	"read", "update", "insert", "scan", "readmodifywrite", "delete",
};

const char *const request_name[] = {
	"uniform", "zipfian", "latest", "hotspot", "sequential", "oldest",
};

/* Shares of read, update, insert, scan, readmodifywrite, delete. */
static const struct {
	const char *name;
	double share[NR_OPS];
	enum request_distribution requests;
} presets[] = {
	{ "load", { 0, 0, 1 }, REQUEST_UNIFORM },
	{ "a", { 0.5, 0.5 }, REQUEST_ZIPFIAN },
	{ "b", { 0.95, 0.05 }, REQUEST_ZIPFIAN },
	{ "c", { 1 }, REQUEST_ZIPFIAN },
	{ "d", { 0.95, 0, 0.05 }, REQUEST_LATEST },
	{ "e", { 0, 0, 0.05, 0.95 }, REQUEST_ZIPFIAN },
	{ "f", { 0.5, 0, 0, 0, 0.5 }, REQUEST_ZIPFIAN },
}, modes[] = {
	{ "fillseq", { 0, 0, 1 }, REQUEST_SEQUENTIAL },
	{ "fillrandom", { 0, 1 }, REQUEST_UNIFORM },
	{ "overwrite", { 0, 1 }, REQUEST_UNIFORM },
	{ "readrandom", { 1 }, REQUEST_UNIFORM },
	{ "readseq", { 0, 0, 0, 1 }, REQUEST_SEQUENTIAL },
	{ "deleterandom", { 0, 0, 0, 0, 0, 1 }, REQUEST_UNIFORM },
	{ "queue", { 0, 0, 0.4, 0.2, 0, 0.4 }, REQUEST_OLDEST },
};

/**
 * workload_preset() - set a workload that has a name
 * @opt: what the name implies is set; the rest stays
 * @name: name of a core workload of YCSB, or of a mode of db_bench
 *
 * Return: False if there is no such workload.
 */
bool workload_preset(struct workload_options *opt, const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(presets); i++) {
		if (strcasecmp(name, presets[i].name))
			continue;
		memcpy(opt->share, presets[i].share, sizeof(opt->share));
		opt->requests = presets[i].requests;
		opt->scan_min = 1;
		opt->scan_max = 100;
		return true;
	}
	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		if (strcasecmp(name, modes[i].name))
			continue;
		memcpy(opt->share, modes[i].share, sizeof(opt->share));
		opt->requests = modes[i].requests;
		opt->ordered = true;
		opt->bare = true;
		opt->padding = 16;
		opt->value_bytes = 100;
		opt->scan_min = modes[i].requests == REQUEST_OLDEST ? 1 : 1000;
		opt->scan_max = opt->scan_min;
		return true;
	}
	return false;
}

/* Return: NULL, or a message that says what is wrong with the workload. */
const char *workload_wrong(const struct workload_options *opt)
{
	double sum = 0;
	u32 i;

	for (i = 0; i < NR_OPS; i++)
		sum += opt->share[i];
	if (sum < 0.999 || sum > 1.001)
		return "the proportions of its operations do not add up to 1";
	if (opt->scan_min > opt->scan_max)
		return "minscanlength is above maxscanlength";
	if (!opt->records && sum > opt->share[OP_INSERT])
		return "there are no records (recordcount) to work on";
	return NULL;
}

void workload_begin(struct workload *w, const struct workload_options *opt)
{
	memset(w, 0, sizeof(*w));
	w->opt = *opt;
	atomic_init(&w->next_insert, opt->insert_from);
	atomic_init(&w->acked, opt->insert_from);
	atomic_init(&w->next_oldest, opt->insert_from - opt->records);
	pthread_mutex_init(&w->ack_lock, NULL);
}

void workload_end(struct workload *w)
{
	pthread_mutex_destroy(&w->ack_lock);
}

/**
 * workload_inserted() - note that a record exists; it may be requested once all records before it
 * exist
 * @w: the workload
 * @record: number of the record
 */
void workload_inserted(struct workload *w, u64 record)
{
	u64 acked;

	pthread_mutex_lock(&w->ack_lock);
	/* An earlier insert is slow: the window has no room until it ends. */
	while (record >= (acked = atomic_load(&w->acked)) + ACK_WINDOW) {
		pthread_mutex_unlock(&w->ack_lock);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = 100000 },
				NULL);
		pthread_mutex_lock(&w->ack_lock);
	}
	w->ack[record % ACK_WINDOW] = true;
	while (w->ack[acked % ACK_WINDOW])
		w->ack[acked++ % ACK_WINDOW] = false;
	atomic_store(&w->acked, acked);
	pthread_mutex_unlock(&w->ack_lock);
}

/* FNV-1a over the eight bytes, the lowest first, as an absolute value, as in YCSB. */
u64 fnv64(u64 value)
{
	u64 hash = 0xcbf29ce484222325ULL;
	u32 i;

	for (i = 0; i < 8; i++, value >>= 8) {
		hash ^= value & 0xff;
		hash *= 1099511628211ULL;
	}
	return hash >> 63 ? -hash : hash;
}

/**
 * workload_key() - make the key of a record
 * @opt: the workload
 * @record: number of the record
 * @key: result, with room for KEY_BYTES_MAX bytes
 *
 * Return: The length of the key.
 */
size_t workload_key(const struct workload_options *opt, u64 record, char *key)
{
	return (size_t)snprintf(key, KEY_BYTES_MAX, "%s%0*llu", opt->bare ? "" : "user",
				(int)opt->padding, opt->ordered ? record : fnv64(record));
}

/*
 * The value of a record.  It differs from all others, cannot be compressed, and a reader can verify
 * it.
 */
void workload_value(const struct workload_options *opt, u64 record, void *value)
{
	u64 word = mix64(record), at;
	u8 *to = value;

	for (at = 0; at < opt->value_bytes; at += sizeof(word), word = mix64(word))
		memcpy(to + at, &word, min(sizeof(word), opt->value_bytes - at));
}

void picker_begin(struct picker *p, struct workload *w)
{
	const struct workload_options *o = &w->opt;

	memset(p, 0, sizeof(*p));
	p->w = w;
	if (o->requests == REQUEST_LATEST)
		zipfian_init(&p->ranks, max(1ULL, o->records), o->theta);
	else if (o->requests == REQUEST_ZIPFIAN && o->theta == 0.99)
		zipfian_init_known(&p->ranks, SCATTERED_ITEMS, o->theta, SCATTERED_ZETA);
	else if (o->requests == REQUEST_ZIPFIAN)
		zipfian_init(&p->ranks, max(1ULL, o->records), o->theta);
	if (o->scan_zipfian)
		zipfian_init(&p->lengths, o->scan_max - o->scan_min + 1, o->theta);
}

/*
 * Ranks are scattered over the records that will exist in the end, and drawn again if the record
 * does not exist yet.
 */
static u64 scattered(struct picker *p, u64 there, u64 *rng)
{
	const struct workload_options *o = &p->w->opt;
	u64 items = o->records +
		    (u64)(2 * (double)o->expected_ops * o->share[OP_INSERT]);
	u64 record;
	u32 i = 0;

	do {
		record = fnv64(zipfian_rank(&p->ranks, random_unit(rng))) % items;
	} while (record >= there && ++i < MOST_DRAWS);
	/* Too few of the records exist: drawing would never end. */
	return record < there ? record : record % there;
}

/* The newest record is the most popular one. */
static u64 latest(struct picker *p, u64 there, u64 *rng)
{
	zipfian_grow(&p->ranks, there);
	return there - 1 - min(zipfian_rank(&p->ranks, random_unit(rng)), there - 1);
}

static u64 hotspot(struct picker *p, u64 there, u64 *rng)
{
	const struct workload_options *o = &p->w->opt;
	u64 hot = (u64)(o->hot_set * (double)there);

	if (hot && (hot == there || random_unit(rng) < o->hot_ops))
		return random_below(rng, hot);
	return hot + random_below(rng, there - hot);
}

/* The head of a queue: a deletion takes it, if there is one; other operations only look at it. */
static u64 oldest(struct picker *p, enum op_kind kind, u64 there)
{
	atomic_ullong *next = &p->w->next_oldest;
	unsigned long long head = atomic_load(next);

	while (kind == OP_DELETE && head < there &&
	       !atomic_compare_exchange_weak(next, &head, head + 1))
		;
	return min((u64)head, there - 1);
}

static u64 pick(struct picker *p, const struct op *op, u64 number, u64 *rng)
{
	u64 there = max(1ULL, (u64)atomic_load(&p->w->acked));

	switch (p->w->opt.requests) {
	case REQUEST_ZIPFIAN:
		return scattered(p, there, rng);
	case REQUEST_LATEST:
		return latest(p, there, rng);
	case REQUEST_HOTSPOT:
		return hotspot(p, there, rng);
	case REQUEST_SEQUENTIAL:
		return number * op->records % there;
	case REQUEST_OLDEST:
		return oldest(p, op->kind, there);
	default:
		return random_below(rng, there);
	}
}

static enum op_kind kind_of(const struct workload_options *o, double unit)
{
	enum op_kind kind, last = OP_READ;

	for (kind = 0; kind < NR_OPS; kind++) {
		if (!o->share[kind])
			continue;
		last = kind;
		if (unit < o->share[kind])
			break;
		unit -= o->share[kind];
	}
	return last;
}

/**
 * picker_op() - choose an operation
 * @p: the picker of the thread
 * @number: number of the operation; it determines the choice, except for the effect of records that
 *	other threads have inserted
 * @op: result
 */
void picker_op(struct picker *p, u64 number, struct op *op)
{
	const struct workload_options *o = &p->w->opt;
	u64 rng = mix64(mix64(o->seed) ^ number), span = o->scan_max - o->scan_min + 1;

	op->kind = kind_of(o, random_unit(&rng));
	op->records = 1;
	if (op->kind == OP_INSERT) {
		op->record = atomic_fetch_add(&p->w->next_insert, 1);
		return;
	}
	if (op->kind == OP_SCAN)
		op->records = o->scan_min + (o->scan_zipfian ?
			zipfian_rank(&p->lengths, random_unit(&rng)) : random_below(&rng, span));
	op->record = pick(p, op, number, &rng);
}
