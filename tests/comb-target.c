// SPDX-License-Identifier: GPL-2.0
/* A log in two combs: the target. */
#include <linux/module.h>

#include "comb-engine.h"
#include "shingle.h"

static int comb_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &comb_engine_ops);
}

static struct target_type comb_target = {
	.name = "comb",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = comb_ctr,
	SHINGLE_TARGET_OPS,
};

static int __init comb_init(void)
{
	return dm_register_target(&comb_target);
}

static void __exit comb_exit(void)
{
	dm_unregister_target(&comb_target);
}

module_init(comb_init);
module_exit(comb_exit);

MODULE_DESCRIPTION("dm-shingle: a log in two combs, for tests");
MODULE_LICENSE("GPL");
