/* SPDX-License-Identifier: GPL-2.0 */
/* Interface of core/target inside core; base/shingle.h is the one for targets. */
#ifndef SHINGLE_TARGET_H
#define SHINGLE_TARGET_H

#include "base/device.h"

/* options.c */
int shingle_refuse(struct dm_target *ti, int err, const char *fmt, ...) __printf(3, 4);
int shingle_set_option(struct shingle_device *d, const char *name, const char *value);
int shingle_parse_options(struct shingle_device *d, struct dm_arg_set *as);
int shingle_finish_options(struct shingle_device *d);

/* status.c */
typedef void shingle_active_fn(struct shingle_device *d);

void shingle_visit_active(shingle_active_fn *fn);
void shingle_hold(struct shingle_device *d);
void shingle_let_go(struct shingle_device *d);
int shingle_emit_mode(struct shingle_device *d, char *result, unsigned int maxlen);
int shingle_emit_stats(struct shingle_device *d, char *result, unsigned int maxlen);
void shingle_clear_stats(struct shingle_device *d);
void shingle_status(struct dm_target *ti, status_type_t type, unsigned int flags,
		    char *result, unsigned int maxlen);

/* message.c */
int shingle_message(struct dm_target *ti, unsigned int argc, char **argv, char *result,
		    unsigned int maxlen);

/* reset.c */
int shingle_reset(struct shingle_device *d);

#endif /* SHINGLE_TARGET_H */
