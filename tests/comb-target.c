// SPDX-License-Identifier: GPL-2.0
/* A log in two combs: the target. */
#include "comb-engine.h"
#include "shingle.h"

static struct shingle_target targets[] = {
	{ "comb", &comb_engine_ops },
};

SHINGLE_TARGETS(targets, "a log in two combs, for tests");
