// SPDX-License-Identifier: GPL-2.0
/*
 * Targets that run out of room for good: full-stl-set, full-stl-full, full-stl-log, full-imr,
 * full-tiler, full-dualbuffer, full-rmwf. They behave as the target in their name, but blocks from
 * from_block up to until_block never find room, whatever is cleaned. For tests/guest/faults.py.
 */
#include "../dm-dualbuffer/dual/engine.h"
#include "../dm-dualbuffer/rmwf/engine.h"
#include "../dm-imr/imr-engine.h"
#include "../dm-stl/full/engine.h"
#include "../dm-stl/log/engine.h"
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

static const struct shingle_engine_ops *const like[] = {
	&stl_set_engine_ops, &stl_full_engine_ops, &imr_engine_ops,
	&tiler_engine_ops, &dualbuffer_engine_ops, &rmwf_engine_ops,
	&stl_log_engine_ops,
};

static struct shingle_engine_ops ops[ARRAY_SIZE(like)];

static struct shingle_target targets[] = {
	{ "full-stl-set", &ops[0] }, { "full-stl-full", &ops[1] }, { "full-imr", &ops[2] },
	{ "full-tiler", &ops[3] }, { "full-dualbuffer", &ops[4] }, { "full-rmwf", &ops[5] },
	{ "full-stl-log", &ops[6] },
};

static int __init full_init(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(like); i++) {
		ops[i] = *like[i];
		ops[i].map.place = full_place;
		ops[i].map.discard = full_discard;
	}
	return shingle_register(targets, ARRAY_SIZE(targets), THIS_MODULE);
}

static void __exit full_exit(void)
{
	shingle_unregister(targets, ARRAY_SIZE(targets));
}

module_init(full_init);
module_exit(full_exit);

MODULE_DESCRIPTION("dm-shingle: targets that are full, for tests");
MODULE_LICENSE("GPL");
