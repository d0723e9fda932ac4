/* SPDX-License-Identifier: GPL-2.0 */
/* Latency of requests at the block layer. */
#ifndef SHINGLE_LATENCY_H
#define SHINGLE_LATENCY_H

#include "json.h"

int latency_show(const char *name, u64 seconds, bool json);

#endif /* SHINGLE_LATENCY_H */
