/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The simulated kernel, for programs.
 *
 * A program boots it, makes disks, spawns a fiber that acts as the host, and runs it.  Everything
 * that happens depends on the seed alone.
 */
#ifndef SIM_H
#define SIM_H

#include <sim/kernel.h>

/**
 * struct sim_config - how the kernel behaves
 * @seed: of all decisions
 * @preempt: one in @preempt places where a fiber can be preempted does it; 0: none
 * @serial: each workqueue has a single worker, as when the kernel has no memory for more
 * @poor: memory for bios comes from the reserve of their pool only
 * @no_memory: one in @no_memory allocations that may not wait fails; 0: none
 * @cut_at: the power fails at this decision; 0: never
 * @limit_ns: the run has hung if it has not ended by this time; 0: no limit
 */
struct sim_config {
	u64 seed;
	u32 preempt;
	bool serial;
	bool poor;
	u32 no_memory;
	u64 cut_at;
	u64 limit_ns;
};

/* How sim_run() has ended. */
enum sim_end {
	SIM_DONE,	/* sim_stop() was called */
	SIM_CUT,	/* the power has failed */
	SIM_FAILED,	/* sim_why says why */
};

extern struct sim_config sim_config;
extern char sim_why[1024];

/* scheduler.c */
void sim_boot(const struct sim_config *config);
enum sim_end sim_run(void);
void sim_stop(void) __attribute__((__noreturn__));
void sim_halt(void);
u64 sim_decisions(void);
void sim_sleep_ns(u64 ns);

/* memory.c */
u64 sim_allocated(void);

/* text.c */
typedef void sim_log_fn(const char *line);
extern sim_log_fn *sim_log_to;

/* ------------------------------------------------------------------------
 * Disks
 */

/**
 * enum sim_fault - what a disk does to a request
 * @SIM_OK: serves it
 * @SIM_FAILS: ends it with an error, and nothing has happened
 * @SIM_TEARS: a write: ends it with an error, and some of its blocks are written
 * @SIM_DROPS: a FLUSH: ends it with an error, and the cache has dropped what it had
 */
enum sim_fault { SIM_OK, SIM_FAILS, SIM_TEARS, SIM_DROPS };

/**
 * struct sim_disk_config - a disk
 * @name: its path
 * @blocks: its size in blocks of 4 KiB
 * @cached: it has a volatile write cache
 * @track_blocks: length of a track; 0: no write destroys another block
 * @head_tracks: width of the head: a write destroys the blocks beside it on the next tracks
 * @skew_blocks: a track begins later than the one before by this, at most half a track
 * @interlaced: a write to an even track destroys the blocks beside it on the two odd ones instead
 * @slow: one in @slow requests takes up to @slow_ns; 0: none.  All others take no time, but end in
 *	any order
 * @slow_ns: see @slow
 * @fault: decides about each request, or NULL; @status: result, the error
 * @ctx: argument of @fault
 */
struct sim_disk_config {
	const char *name;
	u64 blocks;
	bool cached;
	u32 track_blocks;
	u32 head_tracks;
	u32 skew_blocks;
	bool interlaced;
	u32 slow;
	u64 slow_ns;
	enum sim_fault (*fault)(void *ctx, const struct bio *bio, blk_status_t *status);
	void *ctx;
};

struct sim_disk;

struct sim_disk *sim_disk_new(const struct sim_disk_config *config);
void sim_disk_free(struct sim_disk *disk);
void sim_disk_cut(struct sim_disk *disk);
void sim_disk_write(struct sim_disk *disk, u64 block, const void *buf);

/* ------------------------------------------------------------------------
 * Mapped devices, as dmsetup has them
 */

/**
 * struct sim_line - a line of a table
 * @start: first sector
 * @len: sectors
 * @target: name of the target
 * @params: its arguments
 */
struct sim_line {
	u64 start;
	u64 len;
	const char *target;
	const char *params;
};

struct mapped_device *sim_dm_create(const char *name);
int sim_dm_load(struct mapped_device *md, const struct sim_line *lines, u32 nr, bool read_only,
		char *why, size_t size);
int sim_dm_suspend(struct mapped_device *md);
int sim_dm_resume(struct mapped_device *md);
int sim_dm_remove(struct mapped_device *md);
int sim_dm_message(struct mapped_device *md, const char *text, char *answer, size_t size);
struct block_device *sim_dm_bdev(struct mapped_device *md);
void sim_bdev_add(struct block_device *bdev);
void sim_bdev_remove(struct block_device *bdev);

/* modules.c */
int sim_modules_load(void);
void sim_modules_unload(void);

#endif /* SIM_H */
