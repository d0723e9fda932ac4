/* SPDX-License-Identifier: GPL-2.0 */
/* Defaults of the parameters of an stl-log, for programs that make one. */
#ifndef SHINGLE_LOG_DEFAULTS_H
#define SHINGLE_LOG_DEFAULTS_H

#include <shim.h>

#define LOG_RESERVE_PERCENT	7
/* Every block may be an extent of its own up to this number of them; then one in LOG_SHARE. */
#define LOG_EXTENTS		(1U << 20)
#define LOG_SHARE		16
#define LOG_MOST_EXTENTS	10000000U

/* Bands of the reserve of a log of @bands. */
static inline u64 log_default_reserve(u64 bands)
{
	return max(DIV_ROUND_UP(bands * LOG_RESERVE_PERCENT, 100), 3ULL);
}

/* Most extents of the map of a log of @blocks. */
static inline u32 log_default_extents(u64 blocks)
{
	return min3(blocks, max(blocks / LOG_SHARE, (u64)LOG_EXTENTS), (u64)LOG_MOST_EXTENTS);
}

#endif /* SHINGLE_LOG_DEFAULTS_H */
