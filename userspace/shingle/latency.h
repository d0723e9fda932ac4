/* SPDX-License-Identifier: GPL-2.0 */
/* How long requests take as the block layer sees them. */
#ifndef SHINGLE_LATENCY_H
#define SHINGLE_LATENCY_H

#include "json.h"

int latency_show(const char *name, u64 seconds, bool json);

#endif /* SHINGLE_LATENCY_H */
