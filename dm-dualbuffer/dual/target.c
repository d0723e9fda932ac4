// SPDX-License-Identifier: GPL-2.0
/* Dual-buffer, a persistent cache of two buffers: the target. */
#include <linux/module.h>

#include "dual/engine.h"
#include "shingle.h"

#define DM_MSG_PREFIX "dualbuffer"

static int dualbuffer_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &dualbuffer_engine_ops);
}

static struct target_type dualbuffer_target = {
	.name = "dualbuffer",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = dualbuffer_ctr,
	SHINGLE_TARGET_OPS,
};

static int __init dualbuffer_init(void)
{
	return dm_register_target(&dualbuffer_target);
}

static void __exit dualbuffer_exit(void)
{
	dm_unregister_target(&dualbuffer_target);
}

module_init(dualbuffer_init);
module_exit(dualbuffer_exit);

MODULE_ALIAS("dm-dualbuffer");
MODULE_AUTHOR("the dm-shingle project");
MODULE_DESCRIPTION("dm-shingle: a persistent cache of two buffers (dualbuffer)");
MODULE_LICENSE("GPL");
MODULE_VERSION(SHINGLE_RELEASE);
