// SPDX-License-Identifier: GPL-2.0
/* Locks, their order, and waiting, see sim/lock.h. */
#include "private.h"

#define MAX_CLASSES	64U

/*
 * after[a] has a bit for each class that was taken while a lock of class a was held, directly or
 * through others.  Classes are numbered as they are met; their order survives a power cut.
 */
static const void *class_of[MAX_CLASSES];
static const char *class_name[MAX_CLASSES];
static u64 after[MAX_CLASSES];
/* A bit for each class whose key is in memory that a power cut loses. */
static u64 registered;

static u32 find(const void *class)
{
	u32 i;

	for (i = 0; i < MAX_CLASSES; i++) {
		if (class_of[i] == class)
			return i;
	}
	return MAX_CLASSES;
}

static u32 find_or_add(const void *class, const char *name)
{
	u32 i = find(class);

	if (i < MAX_CLASSES)
		return i;
	i = find(NULL);
	if (i == MAX_CLASSES)
		sim_fail("more than %u classes of locks", MAX_CLASSES);
	class_of[i] = class;
	class_name[i] = name;
	return i;
}

static u32 number(const struct sim_lock *l)
{
	return find_or_add(l->class, l->name);
}

/* The next key at this address is another class. */
static void forget(u32 i)
{
	u32 k;

	class_of[i] = NULL;
	after[i] = 0;
	for (k = 0; k < MAX_CLASSES; k++)
		after[k] &= ~BIT_ULL(i);
	registered &= ~BIT_ULL(i);
}

/* The running fiber takes @l: check the order. */
static void take(struct sim_lock *l)
{
	u32 to = number(l), i, from, k;

	for (i = 0; i < sim_now->nr_held; i++) {
		from = number(sim_now->held[i]);
		if (from == to)
			sim_fail("%s takes %s with a lock of the same class", sim_now->name,
				 l->name);
		if (after[to] & BIT_ULL(from))
			sim_fail("%s takes %s with %s: elsewhere the order is the other one",
				 sim_now->name, l->name, class_name[from]);
		if (after[from] & BIT_ULL(to))
			continue;
		for (k = 0; k < MAX_CLASSES; k++) {
			if (k == from || after[k] & BIT_ULL(from))
				after[k] |= after[to] | BIT_ULL(to);
		}
	}
	if (sim_now->nr_held == SIM_MAX_HELD)
		sim_fail("%s holds too many locks", sim_now->name);
	sim_now->held[sim_now->nr_held++] = l;
	l->holder = sim_now;
}

static void give(struct sim_lock *l)
{
	u32 i;

	if (l->holder != sim_now)
		sim_fail("%s releases %s, which it does not hold", sim_now->name, l->name);
	for (i = sim_now->nr_held; i && sim_now->held[i - 1] != l; i--)
		;
	if (!i)
		sim_fail("%s has lost the lock %s", sim_now->name, l->name);
	for (; i < sim_now->nr_held; i++)
		sim_now->held[i - 1] = sim_now->held[i];
	sim_now->nr_held--;
	l->holder = NULL;
}

void sim_lock_init(struct sim_lock *l, const char *name, const void *class)
{
	l->class = class;
	l->name = name;
	l->holder = NULL;
}

void sim_spin_lock(spinlock_t *s)
{
	if (s->l.holder)
		sim_fail("%s spins on %s, which %s holds for ever", sim_now->name, s->l.name,
			 s->l.holder->name);
	take(&s->l);
	sim_now->spins++;
}

void sim_spin_unlock(spinlock_t *s)
{
	give(&s->l);
	sim_now->spins--;
	sim_yield();
}

void sim_mutex_init(struct mutex *m, const char *name, const void *class)
{
	sim_lock_init(&m->l, name, class);
	init_waitqueue_head(&m->wait);
}

void sim_mutex_lock(struct mutex *m)
{
	sim_may_sleep("mutex_lock");
	sim_yield();
	if (m->l.holder == sim_now)
		sim_fail("%s takes %s twice", sim_now->name, m->l.name);
	wait_event(m->wait, !m->l.holder);
	take(&m->l);
}

void mutex_unlock(struct mutex *m)
{
	give(&m->l);
	wake_up_all(&m->wait);
}

void lockdep_register_key(struct lock_class_key *key)
{
	registered |= BIT_ULL(find_or_add(key, "a lock with a key of its own"));
}

void lockdep_unregister_key(struct lock_class_key *key)
{
	u32 i = find(key);

	if (i == MAX_CLASSES)
		sim_fail("the key of a lock is unregistered and was not registered");
	forget(i);
}

void sim_locks_reboot(void)
{
	u32 i;

	for (i = 0; i < MAX_CLASSES; i++) {
		if (registered & BIT_ULL(i))
			forget(i);
	}
}

/* ------------------------------------------------------------------------
 * Waiting
 */

void sim_prepare_to_wait(wait_queue_head_t *q, struct sim_waiter *w)
{
	w->fiber = sim_now;
	list_add_tail(&w->entry, &q->waiters);
	sim_yield();
}

void sim_wait(struct sim_waiter *w, const char *why)
{
	/* Woken since sim_prepare_to_wait() */
	if (!list_empty(&w->entry))
		sim_block(why);
}

void sim_finish_wait(struct sim_waiter *w)
{
	if (!list_empty(&w->entry))
		list_del_init(&w->entry);
}

void wake_up_all(wait_queue_head_t *q)
{
	while (!list_empty(&q->waiters)) {
		struct sim_waiter *w = list_first_entry(&q->waiters, struct sim_waiter, entry);

		list_del_init(&w->entry);
		sim_wake(w->fiber);
	}
	sim_yield();
}

void complete(struct completion *c)
{
	c->done++;
	wake_up_all(&c->wait);
}

void wait_for_completion(struct completion *c)
{
	wait_event(c->wait, c->done);
	c->done--;
}
