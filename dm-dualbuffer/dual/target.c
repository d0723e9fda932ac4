// SPDX-License-Identifier: GPL-2.0
/* Dual-buffer, a persistent cache of two buffers: the target. */
#include "dual/engine.h"
#include "shingle.h"

static struct shingle_target targets[] = {
	{ "dualbuffer", &dualbuffer_engine_ops },
};

MODULE_ALIAS("dm-dualbuffer");
SHINGLE_TARGETS(targets, "a persistent cache of two buffers (dualbuffer)");
