/* SPDX-License-Identifier: GPL-2.0 */
/* Device-mapper, as targets see it. */
#ifndef SIM_DM_H
#define SIM_DM_H

#include "block.h"
#include "work.h"

#define IOPRIO_DEFAULT		0
#define DM_MAPIO_SUBMITTED	0
#define DM_MAPIO_REMAPPED	1
#define DM_MAPIO_KILL		4
#define DM_ENDIO_DONE		0
#define DM_ENDIO_INCOMPLETE	1
#define DM_NAME_LEN		128

typedef enum { STATUSTYPE_INFO, STATUSTYPE_TABLE, STATUSTYPE_IMA } status_type_t;

struct mapped_device;
struct dm_table;
struct dm_target;

struct dm_dev {
	struct block_device *bdev;
	blk_mode_t mode;
	char name[16];
};

typedef int (*iterate_devices_callout_fn)(struct dm_target *ti, struct dm_dev *dev,
					  sector_t start, sector_t len, void *data);

struct target_type {
	u64 features;
	const char *name;
	struct module *module;
	unsigned int version[3];
	int (*ctr)(struct dm_target *ti, unsigned int argc, char **argv);
	void (*dtr)(struct dm_target *ti);
	int (*map)(struct dm_target *ti, struct bio *bio);
	int (*end_io)(struct dm_target *ti, struct bio *bio, blk_status_t *error);
	void (*presuspend)(struct dm_target *ti);
	void (*presuspend_undo)(struct dm_target *ti);
	void (*postsuspend)(struct dm_target *ti);
	int (*preresume)(struct dm_target *ti);
	void (*resume)(struct dm_target *ti);
	void (*status)(struct dm_target *ti, status_type_t type, unsigned int flags, char *result,
		       unsigned int maxlen);
	int (*message)(struct dm_target *ti, unsigned int argc, char **argv, char *result,
		       unsigned int maxlen);
	int (*iterate_devices)(struct dm_target *ti, iterate_devices_callout_fn fn, void *data);
	void (*io_hints)(struct dm_target *ti, struct queue_limits *limits);
	struct list_head list;
};

struct dm_target {
	struct dm_table *table;
	struct target_type *type;
	sector_t begin;
	sector_t len;
	u32 max_io_len;
	unsigned int num_flush_bios;
	unsigned int num_discard_bios;
	unsigned int num_secure_erase_bios;
	unsigned int num_write_zeroes_bios;
	unsigned int per_io_data_size;
	void *private;
	char *error;
	bool flush_supported;
	bool discards_supported;
	bool limit_swap_bios;
	bool accounts_remapped_io;
	bool flush_bypasses_map;
};

int dm_register_target(struct target_type *type);
void dm_unregister_target(struct target_type *type);

int dm_get_device(struct dm_target *ti, const char *path, blk_mode_t mode, struct dm_dev **dev);
void dm_put_device(struct dm_target *ti, struct dm_dev *dev);
blk_mode_t dm_table_get_mode(struct dm_table *t);
sector_t dm_table_get_size(struct dm_table *t);
struct mapped_device *dm_table_get_md(struct dm_table *t);
const char *dm_table_device_name(struct dm_table *t);
void dm_table_event(struct dm_table *t);
struct gendisk *dm_disk(struct mapped_device *md);
int dm_suspended(struct dm_target *ti);
void dm_accept_partial_bio(struct bio *bio, unsigned int sectors);
void *dm_per_bio_data(struct bio *bio, size_t size);
#define dm_target_offset(ti, sector)	((sector) - (ti)->begin)

struct dm_arg {
	unsigned int min;
	unsigned int max;
	char *error;
};

struct dm_arg_set {
	unsigned int argc;
	char **argv;
};

const char *dm_shift_arg(struct dm_arg_set *as);
int dm_read_arg(const struct dm_arg *arg, struct dm_arg_set *as, unsigned int *value,
		char **error);
int dm_read_arg_group(const struct dm_arg *arg, struct dm_arg_set *as, unsigned int *argc,
		      char **error);

/* ------------------------------------------------------------------------
 * dm-io
 */

enum dm_io_mem_type { DM_IO_PAGE_LIST, DM_IO_BIO, DM_IO_VMA, DM_IO_KMEM };

typedef void (*io_notify_fn)(unsigned long error, unsigned long unsupported, void *context);

struct dm_io_client;

struct dm_io_region {
	struct block_device *bdev;
	sector_t sector;
	sector_t count;
};

struct dm_io_request {
	blk_opf_t bi_opf;
	struct {
		enum dm_io_mem_type type;
		union {
			void *addr;
		} ptr;
	} mem;
	struct {
		io_notify_fn fn;
		void *context;
	} notify;
	struct dm_io_client *client;
};

struct dm_io_client *dm_io_client_create(void);
void dm_io_client_destroy(struct dm_io_client *client);
int dm_io(struct dm_io_request *req, unsigned int nr, struct dm_io_region *where,
	  unsigned long *error_bits, unsigned long *unsupported, unsigned short ioprio);

/* ------------------------------------------------------------------------
 * Messages
 */

void sim_log(const char *level, const char *prefix, const char *fmt, ...) __printf(3, 4);
#define DMERR(...)		sim_log("error", DM_MSG_PREFIX, __VA_ARGS__)
#define DMERR_LIMIT(...)	DMERR(__VA_ARGS__)
#define DMWARN(...)		sim_log("warning", DM_MSG_PREFIX, __VA_ARGS__)
#define DMWARN_LIMIT(...)	DMWARN(__VA_ARGS__)
#define DMINFO(...)		sim_log("info", DM_MSG_PREFIX, __VA_ARGS__)
#define DMDEBUG_LIMIT(...)	sim_log("debug", DM_MSG_PREFIX, __VA_ARGS__)
#define DMEMIT(...) (sz += (sz >= maxlen) ? 0 : \
		     (unsigned int)scnprintf(result + sz, maxlen - sz, __VA_ARGS__))
#define DMEMIT_TARGET_NAME_VERSION(type) \
	DMEMIT("target_name=%s,target_version=%u.%u.%u", (type)->name, (type)->version[0], \
	       (type)->version[1], (type)->version[2])

#endif /* SIM_DM_H */
