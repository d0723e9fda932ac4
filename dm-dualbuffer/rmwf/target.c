// SPDX-License-Identifier: GPL-2.0
/* RMW-F, direct writes where no read-modify-write is needed, else flash: the target. */
#include <linux/module.h>

#include "rmwf/engine.h"
#include "shingle.h"

#define DM_MSG_PREFIX "rmwf"

static int rmwf_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &rmwf_engine_ops);
}

static struct target_type rmwf_target = {
	.name = "rmwf",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = rmwf_ctr,
	SHINGLE_TARGET_OPS,
};

static int __init rmwf_init(void)
{
	return dm_register_target(&rmwf_target);
}

static void __exit rmwf_exit(void)
{
	dm_unregister_target(&rmwf_target);
}

module_init(rmwf_init);
module_exit(rmwf_exit);

MODULE_ALIAS("dm-rmwf");
MODULE_AUTHOR("the dm-shingle project");
MODULE_DESCRIPTION("dm-shingle: RMW-free writes by flash (rmwf)");
MODULE_LICENSE("GPL");
MODULE_VERSION(SHINGLE_RELEASE);
