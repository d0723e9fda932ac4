// SPDX-License-Identifier: GPL-2.0
/*
 * Targets that run out of room for good: full-stl-set, full-stl-full, full-imr, full-tiler,
 * full-dualbuffer, full-rmwf. They behave as the target in their name, but blocks from from_block
 * up to until_block never find room, whatever is cleaned. For tests/guest/faults.py.
 */
#include <linux/module.h>

#include "../dm-dualbuffer/dual/engine.h"
#include "../dm-dualbuffer/rmwf/engine.h"
#include "../dm-imr/imr-engine.h"
#include "../dm-stl/full/engine.h"
#include "../dm-stl/set/engine.h"
#include "../dm-tiler/tiler-engine.h"
#include "shingle.h"

static unsigned long from_block = ULONG_MAX;
module_param(from_block, ulong, 0644);
MODULE_PARM_DESC(from_block, "first logical block that there is no room for");

static unsigned long until_block = ULONG_MAX;
module_param(until_block, ulong, 0644);
MODULE_PARM_DESC(until_block, "first logical block behind these");

/* Return: the number of the @n blocks that precede the first block without room. */
static u64 before_full(u64 lblk, u64 n)
{
	u64 from = READ_ONCE(from_block);

	if (lblk >= READ_ONCE(until_block))
		return n;
	return lblk < from ? min_t(u64, n, from - lblk) : 0;
}

static int full_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		      struct shingle_run *out)
{
	n = before_full(lblk, n);
	return n ? e->ops->map.place(e, lblk, n, life, out) : SHINGLE_FULL;
}

static int full_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			struct shingle_emit *emit)
{
	n = before_full(lblk, n);
	return n ? e->ops->map.discard(e, lblk, n, done, dropped, emit) : SHINGLE_FULL;
}

static struct shingle_engine_ops set_ops, full_ops, imr_ops, tiler_ops, dual_ops, rmwf_ops;

static int set_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &set_ops);
}

static int full_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &full_ops);
}

static int imr_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &imr_ops);
}

static int tiler_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &tiler_ops);
}

static int dual_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &dual_ops);
}

static int rmwf_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	return shingle_ctr(ti, argc, argv, &rmwf_ops);
}

static struct target_type targets[] = {
	{ .name = "full-stl-set", .version = { 1, 0, 0 }, .module = THIS_MODULE,
	  .ctr = set_ctr, SHINGLE_TARGET_OPS },
	{ .name = "full-stl-full", .version = { 1, 0, 0 }, .module = THIS_MODULE,
	  .ctr = full_ctr, SHINGLE_TARGET_OPS },
	{ .name = "full-imr", .version = { 1, 0, 0 }, .module = THIS_MODULE,
	  .ctr = imr_ctr, SHINGLE_TARGET_OPS },
	{ .name = "full-tiler", .version = { 1, 0, 0 }, .module = THIS_MODULE,
	  .ctr = tiler_ctr, SHINGLE_TARGET_OPS },
	{ .name = "full-dualbuffer", .version = { 1, 0, 0 }, .module = THIS_MODULE,
	  .ctr = dual_ctr, SHINGLE_TARGET_OPS },
	{ .name = "full-rmwf", .version = { 1, 0, 0 }, .module = THIS_MODULE,
	  .ctr = rmwf_ctr, SHINGLE_TARGET_OPS },
};

static void make_full(struct shingle_engine_ops *ops, const struct shingle_engine_ops *like)
{
	*ops = *like;
	ops->map.place = full_place;
	ops->map.discard = full_discard;
}

static int __init full_init(void)
{
	int err = 0, i;

	make_full(&set_ops, &stl_set_engine_ops);
	make_full(&full_ops, &stl_full_engine_ops);
	make_full(&imr_ops, &imr_engine_ops);
	make_full(&tiler_ops, &tiler_engine_ops);
	make_full(&dual_ops, &dualbuffer_engine_ops);
	make_full(&rmwf_ops, &rmwf_engine_ops);
	for (i = 0; !err && i < ARRAY_SIZE(targets); i++)
		err = dm_register_target(&targets[i]);
	if (!err)
		return 0;
	for (i -= 2; i >= 0; i--)
		dm_unregister_target(&targets[i]);
	return err;
}

static void __exit full_exit(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(targets); i++)
		dm_unregister_target(&targets[i]);
}

module_init(full_init);
module_exit(full_exit);

MODULE_DESCRIPTION("dm-shingle: targets that are full, for tests");
MODULE_LICENSE("GPL");
