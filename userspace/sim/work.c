// SPDX-License-Identifier: GPL-2.0
/* Workqueues and timers, see sim/work.h. */
#include "private.h"

/**
 * struct workqueue_struct - a workqueue
 * @name: for reports
 * @most: workers at most
 * @works: works that wait
 * @workers: fibers of it
 */
struct workqueue_struct {
	char name[40];
	u32 most;
	struct list_head works;
	u32 workers;
};

/**
 * struct worker - a worker that executes a work; on its stack
 * @entry: in the list of all of them
 * @work: the work, which may be freed meanwhile
 * @func: the work's function
 * @wq: the queue of the worker
 * @nr: number of this execution
 */
struct worker {
	struct list_head entry;
	const struct work_struct *work;
	work_func_t func;
	struct workqueue_struct *wq;
	u64 nr;
};

static struct list_head busy = LIST_HEAD_INIT(busy);
static u64 executions;
/* Threads that wait for the end of a work: any end wakes all, and each looks at its own work. */
static wait_queue_head_t ends = { LIST_HEAD_INIT(ends.waiters) };

void sim_work_reboot(void)
{
	INIT_LIST_HEAD(&busy);
	init_waitqueue_head(&ends);
}

static struct worker *executes(const struct work_struct *w)
{
	struct worker *k;

	list_for_each_entry(k, &busy, entry) {
		if (k->work == w && k->func == w->func)
			return k;
	}
	return NULL;
}

/* Is an execution not over yet? */
static bool goes_on(u64 nr)
{
	struct worker *k;

	list_for_each_entry(k, &busy, entry) {
		if (k->nr == nr)
			return true;
	}
	return false;
}

static struct work_struct *next_work(struct workqueue_struct *wq)
{
	struct work_struct *w;

	list_for_each_entry(w, &wq->works, entry) {
		/* Never twice at the same time. */
		if (!executes(w))
			return w;
	}
	return NULL;
}

static void worker(void *arg)
{
	struct workqueue_struct *wq = arg;
	struct worker self = { .wq = wq };
	struct work_struct *w;

	while ((w = next_work(wq))) {
		list_del_init(&w->entry);
		w->pending = false;
		self.work = w;
		self.func = w->func;
		self.nr = ++executions;
		list_add_tail(&self.entry, &busy);
		self.func(w);
		/* The function may have freed the work. */
		if (sim_now->nr_held)
			sim_fail("a work of %s ends with the lock %s", wq->name,
				 sim_now->held[0]->name);
		list_del(&self.entry);
		wake_up_all(&ends);
	}
	wq->workers--;
	wake_up_all(&ends);
}

static void start_worker(struct workqueue_struct *wq)
{
	if (wq->workers < wq->most && next_work(wq)) {
		wq->workers++;
		sim_spawn(wq->name, false, worker, wq);
	}
}

struct workqueue_struct *sim_alloc_workqueue(const char *name, u32 active)
{
	struct workqueue_struct *wq = sim_alloc(1, sizeof(*wq), GFP_KERNEL);

	if (!wq)
		return NULL;
	strscpy(wq->name, name, sizeof(wq->name));
	wq->most = sim_config.serial ? 1 : active;
	INIT_LIST_HEAD(&wq->works);
	return wq;
}

void flush_workqueue(struct workqueue_struct *wq)
{
	wait_event(ends, !wq->workers && list_empty(&wq->works));
}

void destroy_workqueue(struct workqueue_struct *wq)
{
	flush_workqueue(wq);
	sim_free(wq);
}

static void add_work(struct workqueue_struct *wq, struct work_struct *w)
{
	struct worker *k = executes(w);

	w->pending = true;
	/* A work that another queue executes goes there, so that it never runs twice. */
	if (k)
		wq = k->wq;
	list_add_tail(&w->entry, &wq->works);
	start_worker(wq);
}

bool queue_work(struct workqueue_struct *wq, struct work_struct *w)
{
	if (w->pending || w->cancels)
		return false;
	add_work(wq, w);
	sim_yield();
	return true;
}

/* Wait for the end of an execution that goes on; returns false if there is none. */
static bool wait_for_worker(const struct work_struct *w)
{
	struct worker *k = executes(w);
	u64 nr;

	if (!k)
		return false;
	nr = k->nr;
	wait_event(ends, !goes_on(nr));
	return true;
}

/* Wait for the end of what was queued or running at the time of the call. */
static bool wait_for(struct work_struct *w)
{
	bool queued = w->pending, waited = wait_for_worker(w) || queued;

	/* The one that is queued, which may have begun meanwhile, or was cancelled. */
	if (w->pending)
		wait_event(ends, !w->pending);
	if (waited)
		wait_for_worker(w);
	return waited;
}

bool flush_work(struct work_struct *w)
{
	might_sleep();
	sim_yield();
	return wait_for(w);
}

static bool forget(struct work_struct *w)
{
	if (!w->pending)
		return false;
	list_del_init(&w->entry);
	w->pending = false;
	return true;
}

static bool end_work(struct work_struct *w)
{
	bool was = forget(w);

	might_sleep();
	w->cancels++;
	wait_for(w);
	w->cancels--;
	wake_up_all(&ends);
	return was;
}

bool cancel_work_sync(struct work_struct *w)
{
	return end_work(w);
}

/* ------------------------------------------------------------------------
 * Delayed works
 */

static void delay_over(void *arg)
{
	struct delayed_work *w = arg;

	if (!w->work.pending && !w->work.cancels)
		add_work(w->wq, &w->work);
}

static u64 end_of(unsigned long delay)
{
	/* Timers fire at a tick. */
	u64 tick = NSEC_PER_SEC / HZ;

	return (div_u64(sim_time_ns(), tick) + delay + 1) * tick;
}

bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *w, unsigned long delay)
{
	if (w->work.pending || w->timer.armed || w->work.cancels)
		return false;
	w->wq = wq;
	if (delay)
		sim_at(&w->timer, end_of(delay), delay_over, w);
	else
		add_work(wq, &w->work);
	sim_yield();
	return true;
}

bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *w, unsigned long delay)
{
	bool was;

	if (w->work.cancels)
		return true;
	was = sim_disarm(&w->timer);
	was |= forget(&w->work);
	queue_delayed_work(wq, w, delay);
	return was;
}

bool flush_delayed_work(struct delayed_work *w)
{
	if (sim_disarm(&w->timer))
		add_work(w->wq, &w->work);
	return flush_work(&w->work);
}

bool cancel_delayed_work_sync(struct delayed_work *w)
{
	bool was;

	w->work.cancels++;
	was = sim_disarm(&w->timer);
	was |= end_work(&w->work);
	w->work.cancels--;
	return was;
}

/* ------------------------------------------------------------------------
 * High-resolution timers
 */

static void timer_fires(void *arg)
{
	struct hrtimer *timer = arg;

	timer->running++;
	if (timer->function(timer) == HRTIMER_RESTART)
		sim_fail("a timer that restarts itself is not simulated");
	timer->running--;
	wake_up_all(&timer->wait);
}

void sim_hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *timer))
{
	memset(timer, 0, sizeof(*timer));
	init_waitqueue_head(&timer->wait);
	timer->function = fn;
}

void hrtimer_start(struct hrtimer *timer, ktime_t at, enum hrtimer_mode mode)
{
	sim_disarm(&timer->event);
	sim_at(&timer->event, mode == HRTIMER_MODE_REL ? sim_time_ns() + at : (u64)at,
	       timer_fires, timer);
}

int hrtimer_cancel(struct hrtimer *timer)
{
	int was = sim_disarm(&timer->event);

	wait_event(timer->wait, !timer->running);
	return was;
}
