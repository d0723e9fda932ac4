/* SPDX-License-Identifier: GPL-2.0 */
/* What went wrong, in words. */
#ifndef KV_ERROR_H
#define KV_ERROR_H

#include <shim.h>

/* All return the error, so that callers may return it at once. */
int kv_says(int err, const char *fmt, ...) __printf(2, 3);
int kv_none(const char *text);
int kv_no_memory(void);

#endif /* KV_ERROR_H */
