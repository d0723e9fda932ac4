// SPDX-License-Identifier: GPL-2.0
/* A map in pages: the target. */
#include <linux/module.h>

#include "paged-engine.h"
#include "shingle.h"

static int paged_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &paged_engine_ops);
}

static struct target_type paged_target = {
	.name = "paged",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = paged_ctr,
	SHINGLE_TARGET_OPS,
};

static int __init paged_init(void)
{
	return dm_register_target(&paged_target);
}

static void __exit paged_exit(void)
{
	dm_unregister_target(&paged_target);
}

module_init(paged_init);
module_exit(paged_exit);

MODULE_DESCRIPTION("dm-shingle: a map in pages, for tests");
MODULE_LICENSE("GPL");
