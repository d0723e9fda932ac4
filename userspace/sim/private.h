/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the files of the simulated kernel share. */
#ifndef SIM_PRIVATE_H
#define SIM_PRIVATE_H

#include "sim.h"

#define SIM_MAX_HELD	16U

/**
 * struct sim_fiber - a thread, a worker, or an interrupt
 * @name: for reports
 * @nr: its number in this run
 * @fn: its function
 * @arg: its argument
 * @irq: it may not sleep
 * @ready: it can run; else it is blocked or idle
 * @why: what it is blocked on
 * @cpu: the processor on which it runs since it was chosen last
 * @held: locks that it holds
 * @nr_held: number of them
 * @spins: number of spinlocks among them
 * @bios: bios that it has submitted while it was submitting another one
 * @entry: in the list of all fibers in use, or of idle ones
 * @context: its stack
 */
struct sim_fiber {
	const char *name;
	u64 nr;
	void (*fn)(void *arg);
	void *arg;
	bool irq;
	bool ready;
	const char *why;
	int cpu;
	const struct sim_lock *held[SIM_MAX_HELD];
	u32 nr_held;
	u32 spins;
	struct bio_list *bios;
	struct list_head entry;
	struct sim_context *context;
};

/* The memory of the last boot is gone. */
void sim_dm_reboot(void);
void sim_disks_reboot(void);
void sim_memory_lost(void);
void sim_modules_reboot(void);
void sim_work_reboot(void);
void sim_locks_reboot(void);
void sim_bios_reboot(void);

#endif /* SIM_PRIVATE_H */
