// SPDX-License-Identifier: GPL-2.0
/* A map in pages: the target. */
#include "paged-engine.h"
#include "shingle.h"

static struct shingle_target targets[] = {
	{ "paged", &paged_engine_ops },
};

SHINGLE_TARGETS(targets, "a map in pages, for tests");
