// SPDX-License-Identifier: GPL-2.0
/* Interlaced recording: the target. */
#include "imr-engine.h"
#include "shingle.h"

static struct shingle_target targets[] = {
	{ "imr", &imr_engine_ops },
};

MODULE_ALIAS("dm-imr");
SHINGLE_TARGETS(targets, "interlaced magnetic recording (imr)");
