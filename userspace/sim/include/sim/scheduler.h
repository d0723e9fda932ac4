/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The scheduler of the simulated kernel.
 *
 * Threads, workers, timers and ends of bios are fibers of one process.  One seeded generator
 * decides which of them runs next.  A fiber can be preempted where it ends a critical section,
 * queues work, waits, wakes another fiber, ends a bio or calls cond_resched(); nowhere else, and
 * never with a spinlock.  Time stands still while a fiber can run.
 */
#ifndef SIM_SCHEDULER_H
#define SIM_SCHEDULER_H

#include <shim.h>

#define SIM_CPUS		4

struct sim_fiber;
struct task_struct;

/* The running fiber; NULL outside the scheduler. */
extern struct sim_fiber *sim_now;

struct sim_fiber *sim_spawn(const char *name, bool irq, void (*fn)(void *arg), void *arg);
void sim_yield(void);
void sim_block(const char *why);
void sim_wake(struct sim_fiber *f);
void sim_may_sleep(const char *what);
int sim_cpu(void);
u64 sim_random(u64 below);
bool sim_chance(u32 one_in);
void sim_fail(const char *fmt, ...) __printf(1, 2) __attribute__((__noreturn__));

#endif /* SIM_SCHEDULER_H */
