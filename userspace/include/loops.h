/* SPDX-License-Identifier: GPL-2.0 */
/* Files behind loop devices. */
#ifndef SHINGLE_LOOPS_H
#define SHINGLE_LOOPS_H

#include <sys/stat.h>

#include <shim.h>

bool loop_over(const struct stat *st, char *name, size_t size);

#endif /* SHINGLE_LOOPS_H */
