/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events of a drive; Documentation/tracing.rst describes them for users.
 *
 * The callers pass only values that they have.  The event computes the position of a block, but
 * only when a program listens to it.  Blocks are 4 KiB.  Each event has dev, the drive as dmsetup
 * and lsblk show it (MAJOR:MINOR), and a position on the platter: cyl, head, and sector, the number
 * of the block on its track.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM platter

#if !defined(PLATTER_EVENTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define PLATTER_EVENTS_H

#include <linux/tracepoint.h>

#include "platter.h"

/* MAJOR:MINOR */
#define PLATTER_TRACE_DEV	16

/* Programs that read the formats of events do not know our enums. */
TRACE_DEFINE_ENUM(PLATTER_OP_READ);
TRACE_DEFINE_ENUM(PLATTER_OP_WRITE);
TRACE_DEFINE_ENUM(PLATTER_OP_DESTAGE);
TRACE_DEFINE_ENUM(PLATTER_OP_CACHE_WRITE);
TRACE_DEFINE_ENUM(PLATTER_OP_CACHE_READ);
TRACE_DEFINE_ENUM(PLATTER_OP_LOOKAHEAD);
TRACE_DEFINE_ENUM(PLATTER_DESTAGE_OFF);
TRACE_DEFINE_ENUM(PLATTER_DESTAGE_FLUSH);
TRACE_DEFINE_ENUM(PLATTER_DESTAGE_FULL);
TRACE_DEFINE_ENUM(PLATTER_DESTAGE_BEHIND);
TRACE_DEFINE_ENUM(PLATTER_DESTAGE_IDLE);
TRACE_DEFINE_ENUM(PLATTER_DESTAGE_LEAVE);

#define platter_show_op(op)				\
	__print_symbolic(op,				\
			 { PLATTER_OP_READ, "read" },	\
			 { PLATTER_OP_WRITE, "write" },	\
			 { PLATTER_OP_DESTAGE, "destage" }, \
			 { PLATTER_OP_CACHE_WRITE, "cache-write" }, \
			 { PLATTER_OP_CACHE_READ, "cache-read" }, \
			 { PLATTER_OP_LOOKAHEAD, "lookahead" })

#define platter_show_destage(why)			\
	__print_symbolic(why,				\
			 { PLATTER_DESTAGE_OFF, "off" }, \
			 { PLATTER_DESTAGE_FLUSH, "flush" }, \
			 { PLATTER_DESTAGE_FULL, "full" }, \
			 { PLATTER_DESTAGE_BEHIND, "behind" }, \
			 { PLATTER_DESTAGE_IDLE, "idle" }, \
			 { PLATTER_DESTAGE_LEAVE, "leave" })

/**
 * platter_media - a request was served, by the medium or from memory
 * @p: the drive
 * @op: kind of request
 * @blk: first block
 * @n: number of blocks
 * @took_ns: duration on the model's clock
 * @svc: the head's work, or NULL
 *
 * Fields: op: read, write, destage: served by the medium; cache-write, cache-read,
 * lookahead: served from memory; block, n; cyl, head, sector: position of the first block;
 * distance, in cylinders, in total; seek_us, including head switches and settling;
 * rotation_us, the rotational delay; transfer_us; total_us.  Times are the model's, in
 * microseconds, and 0 with timing none.
 *
 * Context: under p->lock; with timing none perhaps without it.
 */
TRACE_EVENT(platter_media,
	TP_PROTO(struct platter *p, enum platter_op op, u64 blk, u32 n, u64 took_ns,
		 const struct platter_service *svc),
	TP_ARGS(p, op, blk, n, took_ns, svc),
	TP_STRUCT__entry(
		__array(char, dev, PLATTER_TRACE_DEV)
		__field(u64, block)
		__field(u64, distance)
		__field(u64, seek_us)
		__field(u64, rotation_us)
		__field(u64, transfer_us)
		__field(u64, total_us)
		__field(u32, op)
		__field(u32, n)
		__field(u32, cyl)
		__field(u32, head)
		__field(u32, sector)
	),
	TP_fast_assign(
		struct platter_pos pos;

		platter_geo_pos(&p->geo, blk, &pos);
		strscpy(__entry->dev, dm_table_device_name(p->ti->table), PLATTER_TRACE_DEV);
		__entry->block = blk;
		__entry->distance = svc ? svc->distance : 0;
		__entry->seek_us = svc ? div_u64(svc->seek_ns, 1000) : 0;
		__entry->rotation_us = svc ? div_u64(svc->rotation_ns, 1000) : 0;
		__entry->transfer_us = svc ? div_u64(svc->transfer_ns, 1000) : 0;
		__entry->total_us = div_u64(took_ns, 1000);
		__entry->op = op;
		__entry->n = n;
		__entry->cyl = pos.cyl;
		__entry->head = pos.surface;
		__entry->sector = pos.sector;
	),
	TP_printk("%s op=%s block=%llu n=%u cyl=%u head=%u sector=%u distance=%llu seek_us=%llu rotation_us=%llu transfer_us=%llu total_us=%llu",
		  __entry->dev, platter_show_op(__entry->op), __entry->block, __entry->n,
		  __entry->cyl, __entry->head, __entry->sector, __entry->distance,
		  __entry->seek_us, __entry->rotation_us, __entry->transfer_us,
		  __entry->total_us)
);

/**
 * platter_destroy - the head passes over blocks beside those that it writes
 * @p: the drive
 * @blk: first block of the write
 * @n: blocks of the write
 * @first: first block of a run that was intact, lies on one track, and is not rewritten by
 *	this write
 * @count: blocks of the run
 *
 * Fields: block and n, the write; first and count, the blocks that it destroys; cyl, head,
 * sector: position of @first.
 *
 * Context: under p->lock, before the data move.
 */
TRACE_EVENT(platter_destroy,
	TP_PROTO(struct platter *p, u64 blk, u32 n, u64 first, u32 count),
	TP_ARGS(p, blk, n, first, count),
	TP_STRUCT__entry(
		__array(char, dev, PLATTER_TRACE_DEV)
		__field(u64, block)
		__field(u64, first)
		__field(u32, n)
		__field(u32, count)
		__field(u32, cyl)
		__field(u32, head)
		__field(u32, sector)
	),
	TP_fast_assign(
		struct platter_pos pos;

		platter_geo_pos(&p->geo, first, &pos);
		strscpy(__entry->dev, dm_table_device_name(p->ti->table), PLATTER_TRACE_DEV);
		__entry->block = blk;
		__entry->first = first;
		__entry->n = n;
		__entry->count = count;
		__entry->cyl = pos.cyl;
		__entry->head = pos.surface;
		__entry->sector = pos.sector;
	),
	TP_printk("%s block=%llu n=%u first=%llu count=%u cyl=%u head=%u sector=%u",
		  __entry->dev, __entry->block, __entry->n, __entry->first, __entry->count,
		  __entry->cyl, __entry->head, __entry->sector)
);

/**
 * platter_destroyed_read - a read includes destroyed blocks
 * @p: the drive
 * @blk: first block of the read
 * @n: blocks of the read
 * @count: number of destroyed blocks among them
 *
 * Fields: block and n, the read; first, the first destroyed block; count; cyl, head,
 * sector: position of first.  With damage poison the read fails.
 *
 * Context: under p->lock.
 */
TRACE_EVENT(platter_destroyed_read,
	TP_PROTO(struct platter *p, u64 blk, u32 n, u32 count),
	TP_ARGS(p, blk, n, count),
	TP_STRUCT__entry(
		__array(char, dev, PLATTER_TRACE_DEV)
		__field(u64, block)
		__field(u64, first)
		__field(u32, n)
		__field(u32, count)
		__field(u32, cyl)
		__field(u32, head)
		__field(u32, sector)
	),
	TP_fast_assign(
		struct platter_pos pos;
		u64 first = blk;

		damage_next(&p->state.damage, &first, blk + n);
		platter_geo_pos(&p->geo, first, &pos);
		strscpy(__entry->dev, dm_table_device_name(p->ti->table), PLATTER_TRACE_DEV);
		__entry->block = blk;
		__entry->first = first;
		__entry->n = n;
		__entry->count = count;
		__entry->cyl = pos.cyl;
		__entry->head = pos.surface;
		__entry->sector = pos.sector;
	),
	TP_printk("%s block=%llu n=%u first=%llu count=%u cyl=%u head=%u sector=%u",
		  __entry->dev, __entry->block, __entry->n, __entry->first, __entry->count,
		  __entry->cyl, __entry->head, __entry->sector)
);

/**
 * platter_destage - the drive begins to write a run of the write cache to the
 * medium
 * @p: the drive
 * @blk: first block
 * @n: number of blocks
 * @why: the reason
 *
 * Fields: why: full, more than half of the cache is used; flush, a FLUSH waits; idle, the
 * host has paused; behind, a request waits for room, or for blocks that would destroy it;
 * off, the cache was switched off; leave, the drive is being suspended; block, n; cached,
 * blocks in the cache, these included.  platter_media reports the head's work for this run.
 *
 * Context: under p->lock.
 */
TRACE_EVENT(platter_destage,
	TP_PROTO(struct platter *p, u64 blk, u32 n, enum platter_destage_why why),
	TP_ARGS(p, blk, n, why),
	TP_STRUCT__entry(
		__array(char, dev, PLATTER_TRACE_DEV)
		__field(u64, block)
		__field(u32, n)
		__field(u32, why)
		__field(u32, cached)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dm_table_device_name(p->ti->table), PLATTER_TRACE_DEV);
		__entry->block = blk;
		__entry->n = n;
		__entry->why = why;
		__entry->cached = p->wcache.count;
	),
	TP_printk("%s why=%s block=%llu n=%u cached=%u", __entry->dev,
		  platter_show_destage(__entry->why), __entry->block, __entry->n,
		  __entry->cached)
);

#endif /* PLATTER_EVENTS_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE events
#include <trace/define_trace.h>
