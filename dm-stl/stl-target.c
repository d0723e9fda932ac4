// SPDX-License-Identifier: GPL-2.0
/* Shingle translation layers: the targets. */
#include "full/engine.h"
#include "log/engine.h"
#include "set/engine.h"
#include "shingle.h"

static struct shingle_target targets[] = {
	{ "stl-set", &stl_set_engine_ops },
	{ "stl-full", &stl_full_engine_ops },
	{ "stl-log", &stl_log_engine_ops },
};

MODULE_ALIAS("dm-stl-set");
MODULE_ALIAS("dm-stl-full");
MODULE_ALIAS("dm-stl-log");
SHINGLE_TARGETS(targets, "shingle translation layers (stl-set, stl-full, stl-log)");
