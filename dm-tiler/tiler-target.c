// SPDX-License-Identifier: GPL-2.0
/* Autonomous regions: the target. */
#include <linux/module.h>

#include "tiler-engine.h"
#include "shingle.h"

#define DM_MSG_PREFIX "tiler"

static int tiler_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &tiler_engine_ops);
}

static struct target_type tiler_target = {
	.name = "tiler",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = tiler_ctr,
	SHINGLE_TARGET_OPS,
};

static int __init tiler_init(void)
{
	return dm_register_target(&tiler_target);
}

static void __exit tiler_exit(void)
{
	dm_unregister_target(&tiler_target);
}

module_init(tiler_init);
module_exit(tiler_exit);

MODULE_ALIAS("dm-tiler");
MODULE_AUTHOR("the dm-shingle project");
MODULE_DESCRIPTION("dm-shingle: autonomous regions (tiler)");
MODULE_LICENSE("GPL");
MODULE_VERSION(SHINGLE_RELEASE);
