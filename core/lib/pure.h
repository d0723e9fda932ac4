/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engines, codec and recovery are pure code: the same source is compiled into the modules, into the
 * KUnit tests and into the userspace tools.  Only this header depends on which of them is being
 * built.
 */
#ifndef SHINGLE_PURE_H
#define SHINGLE_PURE_H

#ifdef __KERNEL__

#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/prefetch.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/vmalloc.h>
#include <asm/byteorder.h>

#else /* userspace */

#include <shim.h>	/* userspace/include/shim.h: the few names used below */

#endif

/**
 * shingle_zalloc_array() - zeroed memory for a map, possibly large
 * @n: number of elements
 * @size: bytes of each
 *
 * For constructors only: may sleep and recurse into I/O.  Freed with kvfree().
 *
 * Context: may sleep.
 * Return: the memory, NULL if there is none, or for more than INT_MAX bytes, which the kernel never
 * allocates.
 */
static inline void *shingle_zalloc_array(size_t n, size_t size)
{
	/* kvcalloc() would warn about a larger size, as about a bug of the caller. */
	if (size && n > INT_MAX / size)
		return NULL;
	return kvcalloc(n, size, GFP_KERNEL);
}

#endif /* SHINGLE_PURE_H */
