/* SPDX-License-Identifier: GPL-2.0 */
/* Time, timers and workqueues.  Time is virtual: it moves when no fiber can run. */
#ifndef SIM_WORK_H
#define SIM_WORK_H

#include "lock.h"
#include "tree.h"

/* ------------------------------------------------------------------------
 * Time
 */

#define HZ			100
#define NSEC_PER_SEC		1000000000L
#define NSEC_PER_MSEC		1000000L
#define NSEC_PER_USEC		1000L

typedef s64 ktime_t;

u64 sim_time_ns(void);
#define ktime_get()		((ktime_t)sim_time_ns())
#define ktime_get_ns()		sim_time_ns()
#define ktime_us_delta(a, b)	(((a) - (b)) / NSEC_PER_USEC)
#define ns_to_ktime(ns)		((ktime_t)(ns))
/* A boot begins five minutes before jiffies wrap in 32 bits, as in the kernel. */
#define INITIAL_JIFFIES		((unsigned long)(unsigned int)(-300 * HZ))
#define jiffies			(INITIAL_JIFFIES + (unsigned long)(sim_time_ns() / (NSEC_PER_SEC / HZ)))
#define msecs_to_jiffies(ms)	((unsigned long)DIV_ROUND_UP((u64)(ms) * HZ, 1000))
#define time_after(a, b)	((long)((b) - (a)) < 0)
#define time_before(a, b)	time_after(b, a)
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)

/**
 * struct sim_event - a function that an interrupt calls at a time
 * @node: in the queue of events, by time
 * @when_ns: the time
 * @order: events of the same time happen in this order, unless the generator decides
 * @fn: the function
 * @arg: its argument
 * @armed: in the queue, or due and not begun
 * @fiber: the fiber that will call @fn, if it is due
 */
struct sim_event {
	struct rb_node node;
	u64 when_ns;
	u64 order;
	void (*fn)(void *arg);
	void *arg;
	bool armed;
	struct sim_fiber *fiber;
};

void sim_at(struct sim_event *ev, u64 when_ns, void (*fn)(void *arg), void *arg);
bool sim_disarm(struct sim_event *ev);

enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };
enum hrtimer_mode { HRTIMER_MODE_ABS, HRTIMER_MODE_REL };

struct hrtimer {
	struct sim_event event;
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	u32 running;
	wait_queue_head_t wait;
};

void sim_hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *timer));
#define hrtimer_setup(timer, fn, clock, mode) ((void)(clock), (void)(mode), sim_hrtimer_setup(timer, fn))
void hrtimer_start(struct hrtimer *timer, ktime_t at, enum hrtimer_mode mode);
int hrtimer_cancel(struct hrtimer *timer);

/* ------------------------------------------------------------------------
 * Workqueues
 */

struct workqueue_struct;
struct work_struct;
typedef void (*work_func_t)(struct work_struct *work);

/**
 * struct work_struct - see the kernel's
 * @entry: in its queue
 * @func: its function
 * @pending: queued, and not begun
 * @cancels: threads that cancel it: it cannot be queued meanwhile
 */
struct work_struct {
	struct list_head entry;
	work_func_t func;
	bool pending;
	u32 cancels;
};

struct delayed_work {
	struct work_struct work;
	struct sim_event timer;
	struct workqueue_struct *wq;
};

#define WQ_MEM_RECLAIM		1U
#define WQ_UNBOUND		2U
#define WQ_HIGHPRI		4U

static inline void sim_work_init(struct work_struct *w, work_func_t fn)
{
	memset(w, 0, sizeof(*w));
	INIT_LIST_HEAD(&w->entry);
	w->func = fn;
}

#define INIT_WORK(w, fn)	sim_work_init(w, fn)
#define INIT_DELAYED_WORK(w, fn) (memset(w, 0, sizeof(*(w))), sim_work_init(&(w)->work, fn))
#define to_delayed_work(w)	container_of(w, struct delayed_work, work)

struct workqueue_struct *sim_alloc_workqueue(const char *name, u32 active);
#define alloc_workqueue(name, flags, active, ...) \
	((void)(flags), sim_alloc_workqueue(name, (active) ? (active) : 256))
#define alloc_ordered_workqueue(name, flags, ...) ((void)(flags), sim_alloc_workqueue(name, 1))
void destroy_workqueue(struct workqueue_struct *wq);
void flush_workqueue(struct workqueue_struct *wq);
bool queue_work(struct workqueue_struct *wq, struct work_struct *w);
bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *w, unsigned long delay);
bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *w, unsigned long delay);
bool flush_work(struct work_struct *w);
bool flush_delayed_work(struct delayed_work *w);
bool cancel_work_sync(struct work_struct *w);
bool cancel_delayed_work_sync(struct delayed_work *w);
#define delayed_work_pending(w)	((w)->work.pending || (w)->timer.armed)

#endif /* SIM_WORK_H */
