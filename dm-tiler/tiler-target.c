// SPDX-License-Identifier: GPL-2.0
/* Autonomous regions: the target. */
#include "tiler-engine.h"
#include "shingle.h"

static struct shingle_target targets[] = {
	{ "tiler", &tiler_engine_ops },
};

MODULE_ALIAS("dm-tiler");
SHINGLE_TARGETS(targets, "autonomous regions (tiler)");
