/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of core that a translation target uses, besides the engine interface. */
#ifndef SHINGLE_H
#define SHINGLE_H

#include <linux/device-mapper.h>
#include <linux/module.h>

#include "engine/engine.h"

/**
 * struct shingle_target - a translation target
 * @name: its name in table lines
 * @ops: its engine
 * @type: the target as dm knows it; shingle_register() fills it in
 */
struct shingle_target {
	const char *name;
	const struct shingle_engine_ops *ops;
	struct target_type type;
};

int shingle_register(struct shingle_target *targets, u32 nr, struct module *owner);
void shingle_unregister(struct shingle_target *targets, u32 nr);

/*
 * SHINGLE_TARGETS() - the rest of a module that consists of targets
 * @targets: array of struct shingle_target
 * @what: the description that modinfo prints
 *
 * A MODULE_ALIAS() for each target lets dm load the module.
 */
#define SHINGLE_TARGETS(targets, what)						\
static int __init targets##_init(void)						\
{										\
	return shingle_register(targets, ARRAY_SIZE(targets), THIS_MODULE);	\
}										\
static void __exit targets##_exit(void)						\
{										\
	shingle_unregister(targets, ARRAY_SIZE(targets));			\
}										\
module_init(targets##_init);							\
module_exit(targets##_exit);							\
MODULE_AUTHOR("the dm-shingle project");					\
MODULE_DESCRIPTION("dm-shingle: " what);					\
MODULE_LICENSE("GPL");								\
MODULE_VERSION(SHINGLE_RELEASE)

#endif /* SHINGLE_H */
