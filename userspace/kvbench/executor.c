// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that send operations.  In an open loop a free thread takes the next arrival and waits
 * until it is due.  If no thread is free then, the operation is late, and the next free thread
 * sends it at once.  Due times are absolute, so a late operation does not move later ones.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "executor.h"
#include "tool.h"

#define SLICE_NS	200000000ULL	/* longest sleep before the stop flag is read again */
#define NAPS		10		/* number of sleeps to measure how late they end */
#define NAP_NS		100000ULL
#define EXACT_NS	2000ULL		/* with a smaller delay sleeps count as exact */
#define SPIN_NS_MAX	200000ULL
#define SPIN_TURNS	20000
#define HEAD_START_NS	5000000ULL	/* the threads start before the first operation is due */

/**
 * struct shared - state shared by the threads
 * @opt: options of the run
 * @w: the workload
 * @store: kind of store
 * @ctx: the store
 * @picker: initial state of the picker of each thread
 * @lock: guards all fields below
 * @go: signalled when @state changes
 * @ended: signalled when a thread has ended
 * @state: 0 wait, 1 go, -1 end at once
 * @running: number of threads that run
 * @arrivals: open loop: the arrival process
 * @taken: number of operations taken
 * @done: number of operations done
 * @begin_ns: time 0 of the run
 * @spin_ns: threads wake up this long before an operation is due
 */
struct shared {
	const struct run_options *opt;
	struct workload *w;
	const struct store_ops *store;
	void *ctx;
	struct picker picker;
	pthread_mutex_t lock;
	pthread_cond_t go, ended;
	int state;
	u32 running;
	struct arrivals arrivals;
	atomic_ullong taken, done;
	u64 begin_ns, spin_ns;
};

/**
 * struct worker - a thread
 * @s: shared state
 * @thread: the thread
 * @picker: its picker
 * @value: buffer of values to write
 * @seen: buffer of values that are read
 * @result: its results
 */
struct worker {
	struct shared *s;
	pthread_t thread;
	struct picker picker;
	void *value, *seen;
	struct run_result result;
};

static volatile sig_atomic_t stop;

static void on_signal(int nr)
{
	stop = 1;
}

/* --- time ------------------------------------------------------------------------- */

static u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * NSEC_PER_SEC + (u64)t.tv_nsec;
}

static void sleep_until(u64 ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(ns / NSEC_PER_SEC), .tv_nsec = (long)(ns % NSEC_PER_SEC),
	};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int compare_u64(const void *a, const void *b)
{
	return (*(const u64 *)a > *(const u64 *)b) - (*(const u64 *)a < *(const u64 *)b);
}

/*
 * How long to spin: longer than most sleeps are late.  Where sleeps are exact, no spinning is
 * needed, and a virtual clock that advances only while all threads sleep would hardly advance.
 */
static u64 spin_ns(void)
{
	u64 late[NAPS], due, median;
	u32 i;

	for (i = 0; i < NAPS; i++) {
		due = now_ns() + NAP_NS;
		sleep_until(due);
		late[i] = now_ns() - due;
	}
	qsort(late, NAPS, sizeof(*late), compare_u64);
	median = late[NAPS / 2];
	return median < EXACT_NS ? 0 : min(3 * median, SPIN_NS_MAX);
}

/* Sleep, then spin for a limited number of turns. */
static void wait_until(u64 due_ns, u64 spin_ns)
{
	u64 now = now_ns();
	u32 turns;

	while (now + spin_ns < due_ns && !stop) {
		sleep_until(min(due_ns - spin_ns, now + SLICE_NS));
		now = now_ns();
	}
	for (turns = 0; now < due_ns && turns < SPIN_TURNS; turns++)
		now = now_ns();
	if (now < due_ns && !stop)
		sleep_until(due_ns);
}

/* --- one operation ---------------------------------------------------------------- */

static int read_one(struct worker *k, const struct op *op, const char *key, size_t key_bytes)
{
	struct op_result *r = &k->result.op[op->kind];
	u32 value_bytes = k->s->w->opt.value_bytes;
	size_t got = 0;
	int err = k->s->store->get(k->s->ctx, key, key_bytes, k->seen, value_bytes, &got);

	if (err == -ENOENT) {
		r->missing++;
		return 0;
	}
	if (!err && k->s->opt->verify) {
		workload_value(&k->s->w->opt, op->record, k->value);
		r->wrong += got != value_bytes || memcmp(k->value, k->seen, value_bytes);
	}
	return err;
}

static int write_one(struct worker *k, const struct op *op, const char *key, size_t key_bytes)
{
	const struct workload_options *o = &k->s->w->opt;

	workload_value(o, op->record, k->value);
	k->result.written_bytes += key_bytes + o->value_bytes;
	return k->s->store->put(k->s->ctx, key, key_bytes, k->value, o->value_bytes,
				k->s->opt->sync);
}

static int do_op(struct worker *k, const struct op *op)
{
	struct op_result *r = &k->result.op[op->kind];
	struct shared *s = k->s;
	char key[KEY_BYTES_MAX];
	size_t n = workload_key(&s->w->opt, op->record, key);
	u64 found = 0;
	int err;

	switch (op->kind) {
	case OP_READ:
		return read_one(k, op, key, n);
	case OP_SCAN:
		err = s->store->scan(s->ctx, key, n, op->records, &found);
		r->records += found;
		return err;
	case OP_DELETE:
		return s->store->del(s->ctx, key, n, s->opt->sync);
	case OP_READ_MODIFY_WRITE:
		err = read_one(k, op, key, n);
		return err ? err : write_one(k, op, key, n);
	default:
		err = write_one(k, op, key, n);
		if (op->kind == OP_INSERT)
			workload_inserted(s->w, op->record);
		return err;
	}
}

/* --- threads ---------------------------------------------------------------------- */

static bool take_closed(struct shared *s, u64 *number)
{
	const struct run_options *opt = s->opt;

	if (opt->max_ns && now_ns() - s->begin_ns >= opt->max_ns)
		return false;
	*number = atomic_fetch_add(&s->taken, 1);
	return *number < opt->ops;
}

static bool take_open(struct shared *s, u64 *number, u64 *due_ns)
{
	bool more;

	pthread_mutex_lock(&s->lock);
	more = arrivals_next(&s->arrivals, due_ns);
	*number = s->arrivals.number - 1;
	pthread_mutex_unlock(&s->lock);
	return more;
}

static void note_time(struct worker *k, const struct op *op, u64 number, u64 due, u64 begin,
		      u64 end)
{
	struct run_result *r = &k->result;
	const struct run_options *opt = k->s->opt;

	histogram_record(r->op[op->kind].service, end - begin);
	if (opt->open) {
		histogram_record(r->op[op->kind].response, end - due);
		histogram_record(r->lateness, begin - due);
		r->late += begin - due > opt->late_ns;
		r->due_ns = max(r->due_ns, due - k->s->begin_ns);
	}
	r->done++;
	r->wall_ns = end - k->s->begin_ns;
	if (opt->log)
		fprintf(opt->log, "%llu %s %lld %llu %llu\n", number, op_name[op->kind],
			opt->open ? (long long)(due - k->s->begin_ns) : -1LL,
			begin - k->s->begin_ns, end - k->s->begin_ns);
}

static void work(struct worker *k)
{
	struct shared *s = k->s;
	u64 number, due = 0, begin, end;
	struct op op;
	int err;

	while (!stop) {
		if (s->opt->open ? !take_open(s, &number, &due) : !take_closed(s, &number))
			break;
		picker_op(&k->picker, number, &op);
		if (s->opt->open) {
			due += s->begin_ns;
			k->result.queued += now_ns() > due;
			wait_until(due, s->spin_ns);
			if (stop)
				break;
		}
		begin = now_ns();
		err = do_op(k, &op);
		end = now_ns();
		if (err) {
			k->result.op[op.kind].failed++;
			k->result.error = err;
			stop = 1;
			break;
		}
		note_time(k, &op, number, due, begin, end);
		atomic_fetch_add(&s->done, 1);
	}
}

static void *thread(void *arg)
{
	struct worker *k = arg;
	struct shared *s = k->s;
	int state;

	pthread_mutex_lock(&s->lock);
	while (!s->state)
		pthread_cond_wait(&s->go, &s->lock);
	state = s->state;
	pthread_mutex_unlock(&s->lock);
	if (state > 0)
		work(k);
	pthread_mutex_lock(&s->lock);
	s->running--;
	pthread_cond_signal(&s->ended);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* --- results ---------------------------------------------------------------------- */

static bool result_init(struct run_result *r, const struct run_options *opt,
			const struct workload_options *w)
{
	bool all = true;
	u32 i;

	memset(r, 0, sizeof(*r));
	for (i = 0; i < NR_OPS; i++) {
		if (!w->share[i])
			continue;
		r->op[i].service = histogram_new();
		all = all && r->op[i].service;
		if (!opt->open)
			continue;
		r->op[i].response = histogram_new();
		all = all && r->op[i].response;
	}
	if (opt->open)
		r->lateness = histogram_new();
	return all && (!opt->open || r->lateness);
}

void run_result_free(struct run_result *r)
{
	u32 i;

	for (i = 0; i < NR_OPS; i++) {
		histogram_free(r->op[i].service);
		histogram_free(r->op[i].response);
	}
	histogram_free(r->lateness);
}

static void result_add(struct run_result *to, const struct run_result *from)
{
	u32 i;

	for (i = 0; i < NR_OPS; i++) {
		if (!to->op[i].service)
			continue;
		histogram_add(to->op[i].service, from->op[i].service);
		if (to->op[i].response)
			histogram_add(to->op[i].response, from->op[i].response);
		to->op[i].missing += from->op[i].missing;
		to->op[i].failed += from->op[i].failed;
		to->op[i].wrong += from->op[i].wrong;
		to->op[i].records += from->op[i].records;
	}
	if (to->lateness)
		histogram_add(to->lateness, from->lateness);
	to->done += from->done;
	to->late += from->late;
	to->queued += from->queued;
	to->written_bytes += from->written_bytes;
	to->wall_ns = max(to->wall_ns, from->wall_ns);
	to->due_ns = max(to->due_ns, from->due_ns);
	if (!to->error)
		to->error = from->error;
}

/* --- the run ---------------------------------------------------------------------- */

static bool worker_init(struct worker *k, struct shared *s)
{
	k->s = s;
	k->picker = s->picker;
	k->value = malloc(max(1U, s->w->opt.value_bytes));
	k->seen = malloc(max(1U, s->w->opt.value_bytes));
	return result_init(&k->result, s->opt, &s->w->opt) && k->value && k->seen;
}

static void worker_exit(struct worker *k)
{
	free(k->value);
	free(k->seen);
	run_result_free(&k->result);
}

/* The run is limited by time, not by a number of operations. */
static bool by_time(const struct run_options *opt)
{
	return !opt->ops || opt->ops == U64_MAX;
}

/* Progress, in operations or milliseconds. */
static u64 so_far(struct shared *s)
{
	u64 now = now_ns();

	if (!by_time(s->opt))
		return atomic_load(&s->done);
	return now > s->begin_ns ? (now - s->begin_ns) / 1000000 : 0;
}

static void watch(struct shared *s)
{
	u64 total = by_time(s->opt) ? s->opt->max_ns / 1000000 : s->opt->ops;
	struct progress p;

	progress_begin(&p, "kvbench", total);
	pthread_mutex_lock(&s->lock);
	while (s->running) {
		struct timespec t;
		u64 until = now_ns() + NSEC_PER_SEC / 2;

		if (!p.visible) {
			pthread_cond_wait(&s->ended, &s->lock);
			continue;
		}
		t.tv_sec = (time_t)(until / NSEC_PER_SEC);
		t.tv_nsec = (long)(until % NSEC_PER_SEC);
		pthread_cond_timedwait(&s->ended, &s->lock, &t);
		if (so_far(s) > p.done)
			progress_add(&p, so_far(s) - p.done);
	}
	pthread_mutex_unlock(&s->lock);
	progress_end(&p);
}

static void shared_init(struct shared *s)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->go, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&s->ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static int sync_all(struct shared *s, u64 *took_ns)
{
	u64 begin = now_ns();
	int err = s->store->sync(s->ctx);

	*took_ns = now_ns() - begin;
	return err;
}

static void start(struct shared *s, int state)
{
	pthread_mutex_lock(&s->lock);
	s->begin_ns = now_ns() + (s->opt->open ? HEAD_START_NS : 0);
	s->state = state;
	pthread_cond_broadcast(&s->go);
	pthread_mutex_unlock(&s->lock);
}

static int run_threads(struct shared *s, struct worker *worker)
{
	u32 i, made = 0;

	for (i = 0; i < s->opt->threads; i++)
		if (!worker_init(&worker[i], s))
			return -ENOMEM;
	s->running = s->opt->threads;
	while (made < s->opt->threads &&
	       !pthread_create(&worker[made].thread, NULL, thread, &worker[made]))
		made++;
	if (made < s->opt->threads) {
		pthread_mutex_lock(&s->lock);
		s->running = made;
		pthread_mutex_unlock(&s->lock);
	}
	start(s, made < s->opt->threads ? -1 : 1);
	watch(s);
	for (i = 0; i < made; i++)
		pthread_join(worker[i].thread, NULL);
	return made < s->opt->threads ? -EAGAIN : 0;
}

/**
 * execute() - run operations until all are done, one fails, or a signal comes
 * @opt: options of the run
 * @w: the workload
 * @store: kind of store
 * @ctx: the store
 * @result: the results; free with run_result_free() if this returns 0
 *
 * Return: 0, or a negative errno if the run could not begin.
 */
int execute(const struct run_options *opt, struct workload *w, const struct store_ops *store,
	    void *ctx, struct run_result *result)
{
	struct sigaction on = { .sa_handler = on_signal }, old_int, old_term;
	struct shared s = { .opt = opt, .w = w, .store = store, .ctx = ctx };
	struct worker *worker = calloc(opt->threads, sizeof(*worker));
	int err = worker ? 0 : -ENOMEM;
	u32 i;

	if (!err && opt->open && arrivals_begin(&s.arrivals, &opt->arrivals))
		err = -EINVAL;
	if (!err && !result_init(result, opt, &w->opt)) {
		run_result_free(result);
		err = -ENOMEM;
	}
	if (err) {
		free(worker);
		return err;
	}
	shared_init(&s);
	picker_begin(&s.picker, w);
	stop = 0;
	prctl(PR_SET_TIMERSLACK, 1);
	s.spin_ns = opt->open ? spin_ns() : 0;
	sigaction(SIGINT, &on, &old_int);
	sigaction(SIGTERM, &on, &old_term);
	err = run_threads(&s, worker);
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGTERM, &old_term, NULL);
	for (i = 0; i < opt->threads; i++) {
		if (!err)
			result_add(result, &worker[i].result);
		worker_exit(&worker[i]);
	}
	result->stopped = stop && !result->error;
	if (!err && !result->error)
		result->error = sync_all(&s, &result->sync_ns);
	if (err)
		run_result_free(result);
	free(worker);
	return err;
}
