/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints: each event is a line of text, as in tracefs. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "dm.h"

struct sim_symbol {
	long value;
	const char *name;
};

extern bool sim_tracing;
const char *sim_symbol(long value, const struct sim_symbol *symbols);

#define TRACE_DEFINE_ENUM(x)		extern int shim_no_modules
#define TP_PROTO(...)			__VA_ARGS__
#define TP_ARGS(...)			__VA_ARGS__
#define TP_STRUCT__entry(...)		__VA_ARGS__
#define TP_fast_assign(...)		__VA_ARGS__
#define TP_printk(...)			__VA_ARGS__
#define __field(type, name)		type name;
#define __array(type, name, n)		type name[n];
#define __print_symbolic(value, ...) \
	sim_symbol((long)(value), (const struct sim_symbol[]){ __VA_ARGS__, { 0, NULL } })
#define __TRACE_EVENT(event, proto, fields, assign, ...)			\
static inline void trace_##event(proto)						\
{										\
	if (unlikely(sim_tracing)) {						\
		struct {							\
			fields							\
		} entry_, *__entry = &entry_;					\
		assign								\
		sim_log("event", #event, __VA_ARGS__);				\
	}									\
}										\
static inline bool trace_##event##_enabled(void)				\
{										\
	return sim_tracing;							\
}
#define TRACE_EVENT(event, proto, args, fields, assign, print) \
	__TRACE_EVENT(event, TP_PROTO(proto), TP_PROTO(fields), TP_PROTO(assign), print)

#endif /* SIM_TRACE_H */
