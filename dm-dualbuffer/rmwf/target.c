// SPDX-License-Identifier: GPL-2.0
/* RMW-F, direct writes where no read-modify-write is needed, else flash: the target. */
#include "rmwf/engine.h"
#include "shingle.h"

static struct shingle_target targets[] = {
	{ "rmwf", &rmwf_engine_ops },
};

MODULE_ALIAS("dm-rmwf");
SHINGLE_TARGETS(targets, "RMW-free writes by flash (rmwf)");
