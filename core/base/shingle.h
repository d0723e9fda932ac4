/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of core that a translation target uses, besides the engine interface. */
#ifndef SHINGLE_H
#define SHINGLE_H

#include <linux/device-mapper.h>

#include "engine/engine.h"

int shingle_ctr(struct dm_target *ti, unsigned int argc, char **argv,
		const struct shingle_engine_ops *ops);
void shingle_dtr(struct dm_target *ti);
int shingle_map(struct dm_target *ti, struct bio *bio);
int shingle_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error);
void shingle_presuspend(struct dm_target *ti);
void shingle_presuspend_undo(struct dm_target *ti);
void shingle_postsuspend(struct dm_target *ti);
int shingle_preresume(struct dm_target *ti);
void shingle_resume(struct dm_target *ti);
void shingle_status(struct dm_target *ti, status_type_t type, unsigned int flags,
		    char *result, unsigned int maxlen);
int shingle_message(struct dm_target *ti, unsigned int argc, char **argv, char *result,
		    unsigned int maxlen);
int shingle_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data);
void shingle_io_hints(struct dm_target *ti, struct queue_limits *limits);

/* All members of a struct target_type except name, version, module and ctr. */
#define SHINGLE_TARGET_OPS					\
	.dtr = shingle_dtr,					\
	.map = shingle_map,					\
	.end_io = shingle_end_io,				\
	.presuspend = shingle_presuspend,			\
	.presuspend_undo = shingle_presuspend_undo,		\
	.postsuspend = shingle_postsuspend,			\
	.preresume = shingle_preresume,				\
	.resume = shingle_resume,				\
	.status = shingle_status,				\
	.message = shingle_message,				\
	.iterate_devices = shingle_iterate_devices,		\
	.io_hints = shingle_io_hints

#endif /* SHINGLE_H */
