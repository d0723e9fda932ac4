/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events of core, for tracefs; tracing.rst describes them for users.
 *
 * The callers of an event pass only values that they have; the event computes its fields from them
 * only if tracing is enabled.  A block is 4 KiB.  Each event has dev, the target's device, in the
 * form of dmsetup and lsblk (MAJOR:MINOR).
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM shingle

#if !defined(SHINGLE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SHINGLE_TRACE_H

#include <linux/tracepoint.h>

#include "base/device.h"

#ifndef SHINGLE_TRACE_ONCE
#define SHINGLE_TRACE_ONCE

/* MAJOR:MINOR */
#define SHINGLE_TRACE_DEV	16
/* Length of the name of a kind of steps; engines choose the names. */
#define SHINGLE_TRACE_KIND	16

/* A physical block: its device, the block of that device, and the role of the band there. */
struct shingle_trace_place {
	u64 block;
	u32 on;
	u32 role;
};

/* Without a place the device is SHINGLE_NR_DEVS and the role SHINGLE_NR_ROLES, "none". */
static inline void shingle_trace_where(struct shingle_trace_place *p,
				       const struct shingle_device *d, u64 pblk)
{
	const struct shingle_group *g;

	*p = (struct shingle_trace_place){ .on = SHINGLE_NR_DEVS, .role = SHINGLE_NR_ROLES };
	if (pblk == SHINGLE_NOWHERE)
		return;
	p->block = shingle_pblk_block(pblk);
	p->on = shingle_pblk_dev(pblk);
	g = shingle_group_of(&d->layout, pblk);
	if (g)
		p->role = g->role;
}

/* Destination of a step; a scattered step, or one that only changes the map, has no single one. */
static inline u64 shingle_trace_dst(const struct shingle_step *step)
{
	return step->scattered || !step->n ? SHINGLE_NOWHERE : step->dst;
}

static inline const char *shingle_trace_kind(const struct shingle_device *d,
					     const struct shingle_step *step)
{
	return step->kind < SHINGLE_STEP_KINDS && d->ops->step_kinds[step->kind] ?
	       d->ops->step_kinds[step->kind] : "?";
}

#endif /* SHINGLE_TRACE_ONCE */

/* For programs that read the formats of events and do not know our enums. */
TRACE_DEFINE_ENUM(SHINGLE_DEV_DATA);
TRACE_DEFINE_ENUM(SHINGLE_DEV_CACHE);
TRACE_DEFINE_ENUM(SHINGLE_DEV_META);
TRACE_DEFINE_ENUM(SHINGLE_NR_DEVS);
TRACE_DEFINE_ENUM(SHINGLE_ROLE_DATA);
TRACE_DEFINE_ENUM(SHINGLE_ROLE_CACHE);
TRACE_DEFINE_ENUM(SHINGLE_ROLE_STAGING);
TRACE_DEFINE_ENUM(SHINGLE_NR_ROLES);
TRACE_DEFINE_ENUM(SHINGLE_WHY_RECOVERY);
TRACE_DEFINE_ENUM(SHINGLE_WHY_PRESSURE);
TRACE_DEFINE_ENUM(SHINGLE_WHY_IDLE);
TRACE_DEFINE_ENUM(SHINGLE_WHY_FORCED);
TRACE_DEFINE_ENUM(SHINGLE_WHY_EPOCH);
TRACE_DEFINE_ENUM(SHINGLE_WHY_REWRITE);
TRACE_DEFINE_ENUM(SHINGLE_DESTAGE_OFF);
TRACE_DEFINE_ENUM(SHINGLE_DESTAGE_AGAIN);
TRACE_DEFINE_ENUM(SHINGLE_DESTAGE_FULL);
TRACE_DEFINE_ENUM(SHINGLE_DESTAGE_FLUSH);
TRACE_DEFINE_ENUM(SHINGLE_DESTAGE_DUE);

#define shingle_show_on(on)				\
	__print_symbolic(on,				\
			 { SHINGLE_DEV_DATA, "data" },	\
			 { SHINGLE_DEV_CACHE, "cache" }, \
			 { SHINGLE_DEV_META, "meta" },	\
			 { SHINGLE_NR_DEVS, "none" })

#define shingle_show_role(role)				\
	__print_symbolic(role,				\
			 { SHINGLE_ROLE_DATA, "data" },	\
			 { SHINGLE_ROLE_CACHE, "cache" }, \
			 { SHINGLE_ROLE_STAGING, "staging" }, \
			 { SHINGLE_NR_ROLES, "none" })

#define shingle_show_why(why)				\
	__print_symbolic(why,				\
			 { SHINGLE_WHY_RECOVERY, "recovery" }, \
			 { SHINGLE_WHY_PRESSURE, "pressure" }, \
			 { SHINGLE_WHY_IDLE, "idle" },	\
			 { SHINGLE_WHY_FORCED, "forced" }, \
			 { SHINGLE_WHY_EPOCH, "epoch" },	\
			 { SHINGLE_WHY_REWRITE, "rewrite" })

#define shingle_show_destage(why)			\
	__print_symbolic(why,				\
			 { SHINGLE_DESTAGE_OFF, "off" }, \
			 { SHINGLE_DESTAGE_AGAIN, "again" }, \
			 { SHINGLE_DESTAGE_FULL, "full" }, \
			 { SHINGLE_DESTAGE_FLUSH, "flush" }, \
			 { SHINGLE_DESTAGE_DUE, "due" })

/* Errors as positive numbers, which all programs can look up. */
#define shingle_show_error(error)			\
	__print_symbolic(error,				\
			 { 0, "none" },			\
			 { EINTR, "EINTR" },		\
			 { EIO, "EIO" },		\
			 { EAGAIN, "EAGAIN" },		\
			 { ENOMEM, "ENOMEM" },		\
			 { EINVAL, "EINVAL" },		\
			 { ENOSPC, "ENOSPC" },		\
			 { EROFS, "EROFS" },		\
			 { ENODATA, "ENODATA" },	\
			 { ENOLINK, "ENOLINK" },	\
			 { EOPNOTSUPP, "EOPNOTSUPP" },	\
			 { ETIMEDOUT, "ETIMEDOUT" },	\
			 { EUCLEAN, "EUCLEAN" },	\
			 { EREMOTEIO, "EREMOTEIO" })

/**
 * shingle_place - room was found for a write
 * @d: the device
 * @run: the blocks and their place
 *
 * The write is the host's, or a run of the write cache, which shingle_destage reports, too.
 * Fields: lblk, first logical block; n, number of blocks; on, the target's device with the place;
 * block, the block of that device; role, the role of the band there.
 *
 * Context: under map_lock.
 */
TRACE_EVENT(shingle_place,
	TP_PROTO(const struct shingle_device *d, const struct shingle_run *run),
	TP_ARGS(d, run),
	TP_STRUCT__entry(
		__array(char, dev, SHINGLE_TRACE_DEV)
		__field(u64, lblk)
		__field(u64, block)
		__field(u32, n)
		__field(u32, on)
		__field(u32, role)
	),
	TP_fast_assign(
		struct shingle_trace_place to;

		shingle_trace_where(&to, d, run->pblk);
		strscpy(__entry->dev, dm_table_device_name(d->ti->table), SHINGLE_TRACE_DEV);
		__entry->lblk = run->lblk;
		__entry->block = to.block;
		__entry->n = run->n;
		__entry->on = to.on;
		__entry->role = to.role;
	),
	TP_printk("%s lblk=%llu n=%u on=%s role=%s block=%llu", __entry->dev, __entry->lblk,
		  __entry->n, shingle_show_on(__entry->on), shingle_show_role(__entry->role),
		  __entry->block)
);

/**
 * shingle_destage - a run of the write cache is sent to the medium
 * @d: the device
 * @run: the blocks and their place
 * @why: reason for the destage
 *
 * Fields as shingle_place, and why: off, the cache was switched off; full, more than half of it is
 * dirty; flush, a FLUSH or FUA waits; due, blocks are as old as destage_ms allows, or a suspend or
 * a message writes everything; again, the run was refused before.  dirty: dirty blocks that stay in
 * the cache and are not in flight.
 *
 * Context: under map_lock.
 */
TRACE_EVENT(shingle_destage,
	TP_PROTO(const struct shingle_device *d, const struct shingle_run *run,
		 enum shingle_destage_why why),
	TP_ARGS(d, run, why),
	TP_STRUCT__entry(
		__array(char, dev, SHINGLE_TRACE_DEV)
		__field(u64, lblk)
		__field(u64, block)
		__field(u32, n)
		__field(u32, on)
		__field(u32, role)
		__field(u32, why)
		__field(u32, dirty)
	),
	TP_fast_assign(
		struct shingle_trace_place to;

		shingle_trace_where(&to, d, run->pblk);
		strscpy(__entry->dev, dm_table_device_name(d->ti->table), SHINGLE_TRACE_DEV);
		__entry->lblk = run->lblk;
		__entry->block = to.block;
		__entry->n = run->n;
		__entry->on = to.on;
		__entry->role = to.role;
		__entry->why = why;
		__entry->dirty = d->wcache.dirty;
	),
	TP_printk("%s why=%s lblk=%llu n=%u on=%s role=%s block=%llu dirty=%u", __entry->dev,
		  shingle_show_destage(__entry->why), __entry->lblk, __entry->n,
		  shingle_show_on(__entry->on), shingle_show_role(__entry->role),
		  __entry->block, __entry->dirty)
);

/**
 * shingle_epoch - an engine that gathers writes takes blocks of the write cache
 * @d: the device
 * @n: number of blocks
 *
 * The steps that follow, with the reason epoch, write them.  Fields: n; dirty, blocks that stay in
 * the cache for another epoch.
 *
 * Context: under map_lock.
 */
TRACE_EVENT(shingle_epoch,
	TP_PROTO(const struct shingle_device *d, u32 n),
	TP_ARGS(d, n),
	TP_STRUCT__entry(
		__array(char, dev, SHINGLE_TRACE_DEV)
		__field(u32, n)
		__field(u32, dirty)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dm_table_device_name(d->ti->table), SHINGLE_TRACE_DEV);
		__entry->n = n;
		__entry->dirty = d->wcache.dirty;
	),
	TP_printk("%s n=%u dirty=%u", __entry->dev, __entry->n, __entry->dirty)
);

/**
 * shingle_step_start - a cleaning step begins
 * @d: the device
 * @step: the step
 * @why: its reason
 *
 * Fields: kind, the engine's name for it, as in its step_KIND_us counters; why: pressure, a write
 * found no room; idle, the host is idle; forced, by message clean; recovery, a power cut
 * interrupted it; epoch, gathered writes; rewrite, reads asked for their fragments together; n,
 * blocks that it copies, 0 if it only changes the map; lblk, the first, -1 if its content has no
 * logical address; on, role and block: the destination, none if there are several or none.
 *
 * Context: cleaner.
 */
TRACE_EVENT(shingle_step_start,
	TP_PROTO(const struct shingle_device *d, const struct shingle_step *step,
		 enum shingle_why why),
	TP_ARGS(d, step, why),
	TP_STRUCT__entry(
		__array(char, dev, SHINGLE_TRACE_DEV)
		__array(char, kind, SHINGLE_TRACE_KIND)
		__field(u64, lblk)
		__field(u64, block)
		__field(u32, n)
		__field(u32, on)
		__field(u32, role)
		__field(u32, why)
	),
	TP_fast_assign(
		struct shingle_trace_place to;

		shingle_trace_where(&to, d, shingle_trace_dst(step));
		strscpy(__entry->dev, dm_table_device_name(d->ti->table), SHINGLE_TRACE_DEV);
		strscpy(__entry->kind, shingle_trace_kind(d, step), SHINGLE_TRACE_KIND);
		__entry->lblk = step->lblk;
		__entry->block = to.block;
		__entry->n = step->n;
		__entry->on = to.on;
		__entry->role = to.role;
		__entry->why = why;
	),
	TP_printk("%s kind=%s why=%s n=%u lblk=%lld on=%s role=%s block=%llu", __entry->dev,
		  __entry->kind, shingle_show_why(__entry->why), __entry->n,
		  (s64)__entry->lblk, shingle_show_on(__entry->on),
		  shingle_show_role(__entry->role), __entry->block)
);

/**
 * shingle_step_end - a cleaning step has ended
 * @d: the device
 * @step: the step
 * @why: its reason
 * @took_us: its duration, including its commit if it has one
 * @err: 0 or -errno
 *
 * Fields: kind, why, n and lblk as shingle_step_start; took_us, in microseconds; error, none or the
 * name of an errno.
 *
 * Context: cleaner.
 */
TRACE_EVENT(shingle_step_end,
	TP_PROTO(const struct shingle_device *d, const struct shingle_step *step,
		 enum shingle_why why, u64 took_us, int err),
	TP_ARGS(d, step, why, took_us, err),
	TP_STRUCT__entry(
		__array(char, dev, SHINGLE_TRACE_DEV)
		__array(char, kind, SHINGLE_TRACE_KIND)
		__field(u64, lblk)
		__field(u64, took_us)
		__field(u32, n)
		__field(u32, why)
		__field(u32, error)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dm_table_device_name(d->ti->table), SHINGLE_TRACE_DEV);
		strscpy(__entry->kind, shingle_trace_kind(d, step), SHINGLE_TRACE_KIND);
		__entry->lblk = step->lblk;
		__entry->took_us = took_us;
		__entry->n = step->n;
		__entry->why = why;
		__entry->error = -err;
	),
	TP_printk("%s kind=%s why=%s n=%u lblk=%lld took_us=%llu error=%s", __entry->dev,
		  __entry->kind, shingle_show_why(__entry->why), __entry->n,
		  (s64)__entry->lblk, __entry->took_us, shingle_show_error(__entry->error))
);

/**
 * shingle_commit - the journal's transaction is on the disk, or has failed
 * @d: the device
 * @seq: its number
 * @records: number of records; 0 if only data were flushed
 * @blocks: number of ring blocks that it takes
 * @err: 0 or -errno
 *
 * Fields: seq, records, blocks; error, none or the name of an errno.
 *
 * Context: may sleep.
 */
TRACE_EVENT(shingle_commit,
	TP_PROTO(const struct shingle_device *d, u64 seq, u32 records, u32 blocks, int err),
	TP_ARGS(d, seq, records, blocks, err),
	TP_STRUCT__entry(
		__array(char, dev, SHINGLE_TRACE_DEV)
		__field(u64, seq)
		__field(u32, records)
		__field(u32, blocks)
		__field(u32, error)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dm_table_device_name(d->ti->table), SHINGLE_TRACE_DEV);
		__entry->seq = seq;
		__entry->records = records;
		__entry->blocks = blocks;
		__entry->error = -err;
	),
	TP_printk("%s seq=%llu records=%u blocks=%u error=%s", __entry->dev, __entry->seq,
		  __entry->records, __entry->blocks, shingle_show_error(__entry->error))
);

/**
 * shingle_checkpoint - a checkpoint is valid, or could not be written
 * @d: the device
 * @seq: its number
 * @chunks: blocks of it that were written, without its footer
 * @err: 0 or -errno
 *
 * Fields: seq, chunks; error, none or the name of an errno.
 *
 * Context: may sleep.
 */
TRACE_EVENT(shingle_checkpoint,
	TP_PROTO(const struct shingle_device *d, u64 seq, u64 chunks, int err),
	TP_ARGS(d, seq, chunks, err),
	TP_STRUCT__entry(
		__array(char, dev, SHINGLE_TRACE_DEV)
		__field(u64, seq)
		__field(u64, chunks)
		__field(u32, error)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dm_table_device_name(d->ti->table), SHINGLE_TRACE_DEV);
		__entry->seq = seq;
		__entry->chunks = chunks;
		__entry->error = -err;
	),
	TP_printk("%s seq=%llu chunks=%llu error=%s", __entry->dev, __entry->seq,
		  __entry->chunks, shingle_show_error(__entry->error))
);

#endif /* SHINGLE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
