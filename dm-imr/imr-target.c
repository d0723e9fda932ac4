// SPDX-License-Identifier: GPL-2.0
/* Interlaced recording: the target. */
#include <linux/module.h>

#include "imr-engine.h"
#include "shingle.h"

#define DM_MSG_PREFIX "imr"

static int imr_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &imr_engine_ops);
}

static struct target_type imr_target = {
	.name = "imr",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = imr_ctr,
	SHINGLE_TARGET_OPS,
};

static int __init imr_init(void)
{
	return dm_register_target(&imr_target);
}

static void __exit imr_exit(void)
{
	dm_unregister_target(&imr_target);
}

module_init(imr_init);
module_exit(imr_exit);

MODULE_ALIAS("dm-imr");
MODULE_AUTHOR("the dm-shingle project");
MODULE_DESCRIPTION("dm-shingle: interlaced magnetic recording (imr)");
MODULE_LICENSE("GPL");
MODULE_VERSION(SHINGLE_RELEASE);
