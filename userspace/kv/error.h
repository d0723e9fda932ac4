/* SPDX-License-Identifier: GPL-2.0 */
/* Messages about errors.  Each thread has the message of its last error: kv_error(). */
#ifndef KV_ERROR_H
#define KV_ERROR_H

#include <shim.h>

/* These functions return the error, so that callers can return it directly. */
int kv_says(int err, const char *fmt, ...) __printf(2, 3);
int kv_none(const char *text);
int kv_no_memory(void);

#endif /* KV_ERROR_H */
