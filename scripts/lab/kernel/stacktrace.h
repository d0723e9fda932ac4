/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Put in front of arch/um/kernel/stacktrace.c by the lab, in kernels with checkers.
 *
 * To save a trace it asks of every word of the stack whether that is the address of code,
 * and each answer that is no takes a lock, which is what lockdep looks at longest: half of
 * the time of a kernel with KASAN, kmemleak and lockdep went there.  It keeps none but
 * return addresses of frames, and where these are it knows; so only these are asked of.
 * What is printed of a stack is as before.
 */
#include <linux/kernel.h>
#include <asm/stacktrace.h>

static const struct stacktrace_ops dump_ops;

#define __kernel_text_address(addr)						\
	((ops != &dump_ops || (unsigned long)sp == bp + sizeof(long)) &&	\
	 __kernel_text_address(addr))
