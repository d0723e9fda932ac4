/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Locks and waiting.
 *
 * A fiber never changes with a spinlock held, so a spinlock is always free, unless its holder takes
 * it twice.  Locks have classes, as for lockdep: lock.c reports an order of two classes that
 * contradicts an earlier one, and anything that may sleep with a spinlock or in an interrupt.
 */
#ifndef SIM_LOCK_H
#define SIM_LOCK_H

#include "base.h"

struct lock_class_key {
	u8 unused;
};

struct sim_lock {
	const void *class;
	const char *name;
	struct sim_fiber *holder;
};

typedef struct {
	struct sim_lock l;
} spinlock_t;

typedef struct wait_queue_head {
	struct list_head waiters;
} wait_queue_head_t;

struct mutex {
	struct sim_lock l;
	wait_queue_head_t wait;
};

struct completion {
	u32 done;
	wait_queue_head_t wait;
};

void sim_lock_init(struct sim_lock *l, const char *name, const void *class);
void sim_spin_lock(spinlock_t *s);
void sim_spin_unlock(spinlock_t *s);

#define spin_lock_init(s) do {							\
	static struct lock_class_key key_;					\
	sim_lock_init(&(s)->l, #s, &key_);					\
} while (0)
#define spin_lock_irq(s)		sim_spin_lock(s)
#define spin_unlock_irq(s)		sim_spin_unlock(s)
#define spin_lock_irqsave(s, flags)	((void)((flags) = 0), sim_spin_lock(s))
#define spin_unlock_irqrestore(s, flags) ((void)(flags), sim_spin_unlock(s))

void sim_mutex_lock(struct mutex *m);
void mutex_unlock(struct mutex *m);
void sim_mutex_init(struct mutex *m, const char *name, const void *class);

#define mutex_init(m) do {							\
	static struct lock_class_key key_;					\
	sim_mutex_init(m, #m, &key_);						\
} while (0)
#define mutex_lock(m)			sim_mutex_lock(m)
#define mutex_lock_killable(m)		(sim_mutex_lock(m), 0)
#define mutex_destroy(m)		((void)(m))
#define DEFINE_MUTEX(m)								\
	struct mutex m = { .l = { .class = &(m), .name = #m },			\
			   .wait = { LIST_HEAD_INIT((m).wait.waiters) } }

#define lockdep_assert_held(x) do {						\
	if ((x)->l.holder != sim_now)						\
		sim_fail("%s needs %s, which this thread does not hold", __func__, #x); \
} while (0)
void lockdep_register_key(struct lock_class_key *key);
void lockdep_unregister_key(struct lock_class_key *key);
#define lockdep_set_class(x, key)	((void)((x)->l.class = (key)))

/* ------------------------------------------------------------------------
 * Waiting
 */

/**
 * struct sim_waiter - a fiber in a wait queue
 * @entry: in the queue; empty if it has been woken
 * @fiber: the fiber
 */
struct sim_waiter {
	struct list_head entry;
	struct sim_fiber *fiber;
};

void sim_prepare_to_wait(wait_queue_head_t *q, struct sim_waiter *w);
void sim_wait(struct sim_waiter *w, const char *why);
void sim_finish_wait(struct sim_waiter *w);
void wake_up_all(wait_queue_head_t *q);

#define init_waitqueue_head(q)		INIT_LIST_HEAD(&(q)->waiters)
#define waitqueue_active(q)		(!list_empty(&(q)->waiters))
#define wq_has_sleeper(q)		waitqueue_active(q)

/* As the kernel: into the queue first, then the condition, then sleep unless woken meanwhile. */
#define wait_event(q, cond) do {							\
	might_sleep();								\
	while (!(cond)) {							\
		struct sim_waiter w_;						\
		sim_prepare_to_wait(&(q), &w_);					\
		if (!(cond))							\
			sim_wait(&w_, #cond);					\
		sim_finish_wait(&w_);						\
	}									\
} while (0)

/* No thread gets a signal. */
#define wait_event_killable(q, cond)	({ wait_event(q, cond); 0; })
#define wait_event_interruptible(q, cond) wait_event_killable(q, cond)
#define current				(sim_now)
#define fatal_signal_pending(task)	((void)(task), false)

static inline void init_completion(struct completion *c)
{
	c->done = 0;
	init_waitqueue_head(&c->wait);
}

#define reinit_completion(c)		((void)((c)->done = 0))
void complete(struct completion *c);
void wait_for_completion(struct completion *c);
#define wait_for_completion_io(c)	wait_for_completion(c)

/* A reader is never preempted by what waits for readers to end: there is nothing to do. */
#define rcu_read_lock()			do { } while (0)
#define rcu_read_unlock()		do { } while (0)

#endif /* SIM_LOCK_H */
