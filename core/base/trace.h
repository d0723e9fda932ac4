/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM shingle

#if !defined(SHINGLE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SHINGLE_TRACE_H

#include <linux/tracepoint.h>

#include "engine.h"

TRACE_EVENT(shingle_place,
	TP_PROTO(const char *dev, const struct shingle_run *run),
	TP_ARGS(dev, run),
	TP_STRUCT__entry(
		__array(char, dev, 32)
		__field(u64, lblk)
		__field(u64, pblk)
		__field(u32, n)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dev, sizeof(__entry->dev));
		__entry->lblk = run->lblk;
		__entry->pblk = run->pblk;
		__entry->n = run->n;
	),
	TP_printk("%s lblk=%llu n=%u -> dev=%u block=%llu", __entry->dev, __entry->lblk,
		  __entry->n, (unsigned int)(__entry->pblk >> SHINGLE_PBLK_DEV_SHIFT),
		  __entry->pblk & SHINGLE_PBLK_MASK)
);

TRACE_EVENT(shingle_destage,
	TP_PROTO(const char *dev, const struct shingle_run *run, u32 dirty),
	TP_ARGS(dev, run, dirty),
	TP_STRUCT__entry(
		__array(char, dev, 32)
		__field(u64, lblk)
		__field(u64, pblk)
		__field(u32, n)
		__field(u32, dirty)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dev, sizeof(__entry->dev));
		__entry->lblk = run->lblk;
		__entry->pblk = run->pblk;
		__entry->n = run->n;
		__entry->dirty = dirty;
	),
	TP_printk("%s lblk=%llu n=%u -> dev=%u block=%llu dirty=%u", __entry->dev,
		  __entry->lblk, __entry->n,
		  (unsigned int)(__entry->pblk >> SHINGLE_PBLK_DEV_SHIFT),
		  __entry->pblk & SHINGLE_PBLK_MASK, __entry->dirty)
);

TRACE_EVENT(shingle_step,
	TP_PROTO(const char *dev, const struct shingle_step *step, const char *what, int err),
	TP_ARGS(dev, step, what, err),
	TP_STRUCT__entry(
		__array(char, dev, 32)
		__array(char, what, 8)
		__field(u32, kind)
		__field(u32, n)
		__field(u64, lblk)
		__field(u64, dst)
		__field(int, err)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dev, sizeof(__entry->dev));
		strscpy(__entry->what, what, sizeof(__entry->what));
		__entry->kind = step->kind;
		__entry->n = step->n;
		__entry->lblk = step->lblk;
		__entry->dst = step->dst;
		__entry->err = err;
	),
	TP_printk("%s %s kind=%u n=%u lblk=%lld -> dev=%u block=%llu err=%d", __entry->dev,
		  __entry->what, __entry->kind, __entry->n, (s64)__entry->lblk,
		  (unsigned int)(__entry->dst >> SHINGLE_PBLK_DEV_SHIFT),
		  __entry->dst & SHINGLE_PBLK_MASK, __entry->err)
);

TRACE_EVENT(shingle_commit,
	TP_PROTO(const char *dev, u64 seq, u32 records, u32 blocks, int err),
	TP_ARGS(dev, seq, records, blocks, err),
	TP_STRUCT__entry(
		__array(char, dev, 32)
		__field(u64, seq)
		__field(u32, records)
		__field(u32, blocks)
		__field(int, err)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dev, sizeof(__entry->dev));
		__entry->seq = seq;
		__entry->records = records;
		__entry->blocks = blocks;
		__entry->err = err;
	),
	TP_printk("%s seq=%llu records=%u blocks=%u err=%d", __entry->dev, __entry->seq,
		  __entry->records, __entry->blocks, __entry->err)
);

TRACE_EVENT(shingle_checkpoint,
	TP_PROTO(const char *dev, u64 seq, u64 chunks, int err),
	TP_ARGS(dev, seq, chunks, err),
	TP_STRUCT__entry(
		__array(char, dev, 32)
		__field(u64, seq)
		__field(u64, chunks)
		__field(int, err)
	),
	TP_fast_assign(
		strscpy(__entry->dev, dev, sizeof(__entry->dev));
		__entry->seq = seq;
		__entry->chunks = chunks;
		__entry->err = err;
	),
	TP_printk("%s seq=%llu chunks=%llu err=%d", __entry->dev, __entry->seq,
		  __entry->chunks, __entry->err)
);

#endif /* SHINGLE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
