// SPDX-License-Identifier: GPL-2.0
/* Shingle translation layers: the targets. */
#include <linux/module.h>

#include "full/engine.h"
#include "set/engine.h"
#include "shingle.h"

#define DM_MSG_PREFIX "stl"

static int stl_set_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &stl_set_engine_ops);
}

static struct target_type stl_set_target = {
	.name = "stl-set",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = stl_set_ctr,
	SHINGLE_TARGET_OPS,
};

static int stl_full_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &stl_full_engine_ops);
}

static struct target_type stl_full_target = {
	.name = "stl-full",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = stl_full_ctr,
	SHINGLE_TARGET_OPS,
};

static int __init stl_init(void)
{
	int err = dm_register_target(&stl_set_target);

	if (err)
		return err;
	err = dm_register_target(&stl_full_target);
	if (err)
		dm_unregister_target(&stl_set_target);
	return err;
}

static void __exit stl_exit(void)
{
	dm_unregister_target(&stl_full_target);
	dm_unregister_target(&stl_set_target);
}

module_init(stl_init);
module_exit(stl_exit);

MODULE_ALIAS("dm-stl-set");
MODULE_ALIAS("dm-stl-full");
MODULE_AUTHOR("the dm-shingle project");
MODULE_DESCRIPTION("dm-shingle: shingle translation layers (stl-set, stl-full)");
MODULE_LICENSE("GPL");
MODULE_VERSION(SHINGLE_RELEASE);
