// SPDX-License-Identifier: GPL-2.0
/*
 * The platter target: a recording medium with geometry, mechanics and a head wider than a
 * track.  It has no translation layer.
 *
 * Table line, status and messages; see Documentation/dm-platter.rst.
 */
#include <linux/blkdev.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "platter.h"

#define CREATE_TRACE_POINTS
#include "events.h"

#define PLATTER_MAX_KEYS	40

/* ------------------------------------------------------------------ parsing */

static int save_arg(struct platter *p, const char *arg)
{
	p->saved.arg[p->saved.nr] = kstrdup(arg, GFP_KERNEL);
	if (!p->saved.arg[p->saved.nr])
		return -ENOMEM;
	p->saved.nr++;
	return 0;
}

/* A key that is given again replaces its earlier value. */
static int save_pair(struct platter *p, const char *key, const char *value)
{
	unsigned int i;

	for (i = 0; i < p->saved.nr && strcmp(p->saved.arg[i], key); i += 2)
		;
	if (i == p->saved.nr)
		return save_arg(p, key) ?: save_arg(p, value);
	kfree(p->saved.arg[i + 1]);
	p->saved.arg[i + 1] = kstrdup(value, GFP_KERNEL);
	return p->saved.arg[i + 1] ? 0 : -ENOMEM;
}

static int parse_features(struct platter_options *s, struct dm_arg_set *as, char **error)
{
	static const struct dm_arg args[] = {
		{ 0, 1, "Invalid number of feature arguments: 0 or 1" },
	};
	unsigned int argc;
	int r;

	if (!as->argc)
		return 0;
	r = dm_read_arg_group(args, as, &argc, error);
	if (r)
		return r;
	while (argc--) {
		const char *why;

		if (shingle_option_set(platter_options, s, false, dm_shift_arg(as), NULL, &why)) {
			*error = "Unknown feature argument: only discard is known";
			return -EINVAL;
		}
	}
	return 0;
}

static int set_key(struct platter_options *s, const char *key, const char *value, char **error)
{
	const char *why = "Unknown key argument";
	int r = shingle_option_set(platter_options, s, false, key, value, &why);

	*error = (char *)why;
	return r ? -EINVAL : 0;
}

/* May a message set the key?  Then the table line shows its current value. */
static bool is_runtime(const char *key)
{
	const struct shingle_option *o = shingle_option_find(platter_options, key, false);

	return o && o->when == SHINGLE_OPTION_MESSAGE;
}

static int parse_keys(struct platter *p, struct platter_options *s, struct dm_arg_set *as,
		      char **error)
{
	static const struct dm_arg args[] = {
		{ 0, 2 * PLATTER_MAX_KEYS,
		  "Invalid number of key arguments: an even number up to 80" },
	};
	unsigned int argc;
	int r;

	if (!as->argc)
		return 0;
	r = dm_read_arg_group(args, as, &argc, error);
	if (r)
		return r;
	if (argc % 2) {
		*error = "Key arguments come in pairs: the number must be even";
		return -EINVAL;
	}
	p->saved.arg = kcalloc(argc + 1, sizeof(*p->saved.arg), GFP_KERNEL);
	if (!p->saved.arg) {
		*error = "Out of memory";
		return -ENOMEM;
	}
	for (; argc; argc -= 2) {
		const char *key = dm_shift_arg(as);
		const char *value = dm_shift_arg(as);

		r = set_key(s, key, value, error);
		if (r)
			return r;
		if (is_runtime(key))
			continue;
		if (save_pair(p, key, value)) {
			*error = "Out of memory";
			return -ENOMEM;
		}
	}
	if (as->argc) {
		*error = "More arguments than the counts of features and keys announce";
		return -EINVAL;
	}
	return 0;
}

/* -------------------------------------------------------------- constructor */

static int open_device(struct platter *p, const char *path, const char *start,
		       char **error)
{
	struct dm_target *ti = p->ti;
	unsigned long long sector;
	int r;

	if (kstrtoull(start, 10, &sector) || sector % PLATTER_BLOCK_SECTORS) {
		*error = "The start sector must be a number and a multiple of 8";
		return -EINVAL;
	}
	p->disk.start = sector;
	if (!strcmp(path, "none")) {
		if (sector) {
			*error = "The start sector must be 0 when there is no device";
			return -EINVAL;
		}
		return 0;
	}
	r = dm_get_device(ti, path, dm_table_get_mode(ti->table), &p->disk.dev);
	if (r) {
		*error = p->read_only ? "Cannot open the device" :
					"Cannot open the device for writing";
		return r;
	}
	/* Some kernels open read-only devices for writing, too. */
	p->read_only |= bdev_read_only(p->disk.dev->bdev);
	if (bdev_logical_block_size(p->disk.dev->bdev) > PLATTER_BLOCK_SIZE) {
		*error = "The device's logical blocks are larger than 4096 bytes";
		return -EINVAL;
	}
	if (sector > bdev_nr_sectors(p->disk.dev->bdev) ||
	    ti->len > bdev_nr_sectors(p->disk.dev->bdev) - sector) {
		*error = "The device is too small: start sector plus length lie beyond its end";
		return -EINVAL;
	}
	return 0;
}

/*
 * Hash of the parameters that decide where damage falls.  A damage map is valid only for a
 * medium with the same hash.
 */
static u64 geometry_hash(const struct platter_geo *geo)
{
	u64 h = 0xcbf29ce484222325ULL;
	u32 i;

#define MIX(v)	(h = (h ^ (v)) * 0x100000001b3ULL)
	MIX(geo->blocks);
	MIX(geo->media);
	MIX(geo->head_mtracks);
	MIX(geo->surfaces);
	for (i = 0; i < geo->surfaces; i++)
		MIX(geo->density[i]);
	for (i = 0; i < geo->nr_zones; i++) {
		MIX(geo->zone[i].cyls);
		MIX(geo->zone[i].track_blocks);
		MIX(geo->zone[i].swath_cyls);
		MIX(geo->zone[i].track_skew_units);
	}
	for (i = 0; i < geo->nr_conv; i++) {
		MIX(geo->conv[i].start_blk);
		MIX(geo->conv[i].blocks);
	}
#undef MIX
	return h;
}

static int build(struct platter *p, char **error)
{
	struct platter_config *cfg = &p->opt.cfg;
	const char *why = "Invalid geometry";
	u32 i;
	int r;

	if (cfg->profile.media == PLATTER_CMR) {
		/* no block can be destroyed, and surfaces alternate too often to differ */
		cfg->profile.density_spread = 0;
		p->opt.damage_mode = DAMAGE_NONE;
	}
	r = platter_config_build(cfg, &p->geo, &p->mech, &why);
	if (r) {
		*error = (char *)why;
		return r;
	}
	p->mech.lookahead_blocks = p->act.lookahead_on ? platter_lookahead_blocks(p) : 0;
	if (p->opt.damage_mode == DAMAGE_SHADOW) {
		if (!p->disk.dev) {
			*error = "damage shadow needs a device to hold the shadows";
			return -EINVAL;
		}
		for (i = 0; i < p->geo.nr_zones; i++) {
			if (p->geo.zone[i].track_skew_units % p->geo.sub_units) {
				*error = "damage shadow needs a track_skew that is a multiple of 8";
				return -EINVAL;
			}
		}
	}
	return 0;
}

static int open_state(struct platter *p, const char *path, char **error)
{
	struct dm_target *ti = p->ti;
	int r;

	if (!path)
		return 0;
	if (p->opt.damage_mode == DAMAGE_NONE) {
		*error = "A state device needs media smr or imr and damage other than none";
		return -EINVAL;
	}
	r = dm_get_device(ti, path, dm_table_get_mode(ti->table), &p->state.dev);
	if (r) {
		*error = "Cannot open the state device";
		return r;
	}
	p->read_only |= bdev_read_only(p->state.dev->bdev);
	if (bdev_logical_block_size(p->state.dev->bdev) > PLATTER_BLOCK_SIZE) {
		*error = "The state device's logical blocks are larger than 4096 bytes";
		return -EINVAL;
	}
	if (p->disk.dev && p->state.dev->bdev == p->disk.dev->bdev) {
		*error = "The state device must be another one than the device of the contents";
		return -EINVAL;
	}
	return damage_open(&p->state.damage, p->state.dev->bdev, p->read_only, p->geo.blocks,
			   geometry_hash(&p->geo), error);
}

static void platter_free(struct platter *p)
{
	unsigned int i;

	if (p->worker.wq) {
		hrtimer_cancel(&p->worker.timer);
		flush_work(&p->worker.work);
		hrtimer_cancel(&p->worker.timer);
		destroy_workqueue(p->worker.wq);
	}
	platter_cache_drop(p);
	xa_destroy(&p->wcache.blocks);
	damage_exit(&p->state.damage);
	bioset_exit(&p->disk.bs);
	bioset_exit(&p->wcache.bs);
	if (p->state.dev)
		dm_put_device(p->ti, p->state.dev);
	if (p->disk.dev)
		dm_put_device(p->ti, p->disk.dev);
	for (i = 0; i < p->saved.nr; i++)
		kfree(p->saved.arg[i]);
	kfree(p->saved.arg);
	kvfree(p->log.entry);
	platter_queue_exit(p);
	kvfree(p);
}

/*
 * Pages that one write may need: the area that the head covers may begin and end at any
 * block, on both sides of the write.
 */
static u32 damage_pages(const struct platter *p)
{
	u32 i, track = 0;

	for (i = 0; i < p->geo.nr_zones; i++)
		track = max(track, p->geo.zone[i].track_blocks);
	return 4 + 2 * DIV_ROUND_UP(platter_geo_window(&p->geo) * track, DAMAGE_PAGE_BLOCKS);
}

static int init_resources(struct platter *p, char **error)
{
	*error = "Out of memory";
	if (p->log.size) {
		p->log.entry = kvcalloc(p->log.size, sizeof(*p->log.entry), GFP_KERNEL);
		if (!p->log.entry)
			return -ENOMEM;
	}
	if (p->opt.damage_mode != DAMAGE_NONE &&
	    damage_reserve(&p->state.damage, p->geo.blocks, damage_pages(p)))
		return -ENOMEM;
	if (bioset_init(&p->disk.bs, 64, 0, 0) ||
	    bioset_init(&p->wcache.bs, 2, 0, BIOSET_NEED_BVECS))
		return -ENOMEM;
	p->worker.wq = alloc_ordered_workqueue("dm-" DM_MSG_PREFIX, WQ_MEM_RECLAIM | WQ_HIGHPRI);
	return p->worker.wq ? 0 : -ENOMEM;
}

/*
 * platter <dev|none> <start sector> <profile>
 *	[<#feature args> [<feature>]* [<#key args> [<key> <value>]*]]
 */
static int platter_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	const struct platter_profile *profile;
	const char *path, *start, *name;
	struct dm_arg_set as = { .argc = argc, .argv = argv };
	struct platter_options *s;
	struct platter *p;
	int r;

	if (argc < 3) {
		ti->error = "Needed at least: a device or none, a start sector, a profile";
		return -EINVAL;
	}
	if (!ti->len || ti->len % PLATTER_BLOCK_SECTORS) {
		ti->error = "The length of the target must be a multiple of 8 sectors";
		return -EINVAL;
	}
	p = kvzalloc(sizeof(*p), GFP_KERNEL);
	if (!p) {
		ti->error = "Out of memory";
		return -ENOMEM;
	}
	s = &p->opt;
	p->ti = ti;
	p->read_only = !shingle_table_writable(ti->table);
	xa_init(&p->wcache.blocks);
	p->wcache.gen = 1;
	damage_init(&p->state.damage);
	platter_queue_init(p);

	path = dm_shift_arg(&as);
	start = dm_shift_arg(&as);
	name = dm_shift_arg(&as);
	r = -EINVAL;
	profile = platter_profile_find(name);
	if (!profile) {
		ti->error = "Unknown profile; Documentation/dm-platter.rst lists them";
		goto bad;
	}
	platter_options_init(s, profile, ti->len / PLATTER_BLOCK_SECTORS);
	r = parse_features(s, &as, &ti->error);
	if (r)
		goto bad;
	r = parse_keys(p, s, &as, &ti->error);
	if (r)
		goto bad;
	/* a drive turned into a shingled one needs a wide head */
	if (s->cfg.profile.media == PLATTER_SMR && profile->media != PLATTER_SMR &&
	    !s->head_given)
		s->cfg.profile.head_mtracks = 2000;
	p->wcache.on = s->wcache_on;
	p->act.lookahead_on = s->lookahead_on;
	p->log.size = s->headlog;
	r = open_device(p, path, start, &ti->error);
	if (r)
		goto bad;
	r = build(p, &ti->error);
	if (r)
		goto bad;
	r = open_state(p, s->state, &ti->error);
	/* It points into the table line. */
	s->state = NULL;
	if (r)
		goto bad;
	r = init_resources(p, &ti->error);
	if (r)
		goto bad;

	platter_update_fast(p);
	ti->num_flush_bios = 1;
	ti->flush_supported = true;
	if (p->opt.discard)
		ti->num_discard_bios = 1;
	ti->per_io_data_size = sizeof(struct platter_io);
	ti->private = p;
	ti->error = NULL;
	return 0;

bad:
	platter_free(p);
	return r;
}

static void platter_dtr(struct dm_target *ti)
{
	struct platter *p = ti->private;

	/* if another target refused the resume, the losses taken over are still unreported */
	mutex_lock(&p->lock);
	platter_loss_keep(p);
	mutex_unlock(&p->lock);
	platter_free(p);
}

static int platter_map(struct dm_target *ti, struct bio *bio)
{
	return platter_map_bio(ti->private, bio);
}

/* Earlier tables are suspended by now and have written their state. */
static int platter_preresume(struct dm_target *ti)
{
	struct platter *p = ti->private;
	char *error = "Unknown error";
	int r = 0;

	mutex_lock(&p->lock);
	if (p->state.dev && !p->state.loaded) {
		r = damage_load(&p->state.damage, p->geo.blocks, geometry_hash(&p->geo), &error);
		p->state.loaded = !r;
	}
	mutex_unlock(&p->lock);
	if (r) {
		DMERR("cannot resume: %s", error);
		return r;
	}
	mutex_lock(&p->lock);
	platter_loss_take(p);
	platter_update_fast(p);
	mutex_unlock(&p->lock);
	WRITE_ONCE(p->power.suspending, false);
	return 0;
}

/* From now on dm holds back I/O until all messages have returned. */
static void platter_presuspend(struct dm_target *ti)
{
	struct platter *p = ti->private;

	WRITE_ONCE(p->power.suspending, true);
	wake_up_all(&p->wcache.drained);
}

static void platter_presuspend_undo(struct dm_target *ti)
{
	struct platter *p = ti->private;

	WRITE_ONCE(p->power.suspending, false);
}

static void platter_resume(struct dm_target *ti)
{
	struct platter *p = ti->private;

	shingle_set_disk_limits(ti, p->opt.rotational);
}

/* An orderly power-down: write the cache to the medium. */
static void platter_postsuspend(struct dm_target *ti)
{
	struct platter *p = ti->private;

	/* No host request is in flight, but a destage may be. */
	mutex_lock(&p->lock);
	p->power.quiescing = true;
	mutex_unlock(&p->lock);
	wait_event(p->wcache.drained, !READ_ONCE(p->act.io));
	hrtimer_cancel(&p->worker.timer);
	flush_work(&p->worker.work);
	mutex_lock(&p->lock);
	p->power.quiescing = false;
	if (p->act.io || !list_empty(&p->queue.timed))
		DMERR("suspended with requests in flight");
	else
		platter_cache_flush_untimed(p);
	platter_update_fast(p);
	if (p->loss.unreported)
		DMERR("%s: %llu acknowledged blocks could not be written; the next FLUSH fails",
		      dm_table_device_name(ti->table), p->loss.unreported);
	platter_loss_keep(p);
	wake_up_all(&p->wcache.drained);
	mutex_unlock(&p->lock);
}

/* ------------------------------------------------------------------- status */

static u64 counter(struct platter *p, enum platter_counter c)
{
	return atomic64_read(&p->counter[c]);
}

/* Read each value that messages change only once, so that the count and the words agree. */
static void emit_table(struct platter *p, char *result, unsigned int maxlen)
{
	bool wcache_on = READ_ONCE(p->wcache.on), lookahead_on = READ_ONCE(p->act.lookahead_on);
	unsigned int i, sz = 0;

	DMEMIT("%s %llu %s %u%s %u", p->disk.dev ? p->disk.dev->name : "none",
	       (unsigned long long)p->disk.start, p->opt.cfg.profile.name, p->opt.discard,
	       p->opt.discard ? " discard" : "", p->saved.nr + 2 * wcache_on + 2 * lookahead_on);
	for (i = 0; i < p->saved.nr; i++)
		DMEMIT(" %s", p->saved.arg[i]);
	if (wcache_on)
		DMEMIT(" wcache on");
	if (lookahead_on)
		DMEMIT(" lookahead on");
}

/* A list of zones has commas, which separate attributes here. */
static unsigned int emit_escaped(const char *value, char *result, unsigned int maxlen)
{
	unsigned int sz = 0;

	for (; *value; value++)
		DMEMIT("%s%c", strchr(",;=\\", *value) ? "\\" : "", *value);
	return sz;
}

static void emit_ima(struct platter *p, char *result, unsigned int maxlen)
{
	unsigned int i, sz = 0;

	DMEMIT_TARGET_NAME_VERSION(p->ti->type);
	DMEMIT(",device=%s,start=%llu,profile=%s,media=%s,damage=%s",
	       p->disk.dev ? p->disk.dev->name : "none", (unsigned long long)p->disk.start,
	       p->opt.cfg.profile.name, platter_media_names[p->geo.media],
	       platter_damage_names[p->opt.damage_mode]);
	DMEMIT(",discard=%c,wcache=%s,lookahead=%s", p->opt.discard ? 'y' : 'n',
	       platter_onoff_names[READ_ONCE(p->wcache.on)],
	       platter_onoff_names[READ_ONCE(p->act.lookahead_on)]);
	for (i = 0; i + 1 < p->saved.nr; i += 2) {
		/* These are printed already, with their current values. */
		if (!strcmp(p->saved.arg[i], "media") || !strcmp(p->saved.arg[i], "damage"))
			continue;
		DMEMIT(",%s=", p->saved.arg[i]);
		sz += emit_escaped(p->saved.arg[i + 1], result + sz, maxlen - sz);
	}
	DMEMIT(";");
}

static void emit_info(struct platter *p, char *result, unsigned int maxlen)
{
	unsigned int sz = 0;

	DMEMIT("%s %s %llu %llu %llu %llu %llu %llu %llu %u/%u %s",
	       platter_media_names[p->geo.media], platter_damage_names[p->opt.damage_mode],
	       counter(p, PC_reads), counter(p, PC_writes),
	       counter(p, PC_blocks_read), counter(p, PC_blocks_written),
	       READ_ONCE(p->state.damage.damaged), counter(p, PC_destroyed_reads),
	       counter(p, PC_late), READ_ONCE(p->wcache.count), platter_wcache_blocks(p),
	       READ_ONCE(p->power.off) ? "fail" : READ_ONCE(p->loss.unreported) ? "lost" :
	       p->read_only ? "ro" : "rw");
}

static void platter_status(struct dm_target *ti, status_type_t type,
			   unsigned int status_flags, char *result, unsigned int maxlen)
{
	struct platter *p = ti->private;

	switch (type) {
	case STATUSTYPE_INFO:
		emit_info(p, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		emit_table(p, result, maxlen);
		break;
	case STATUSTYPE_IMA:
		emit_ima(p, result, maxlen);
		break;
	}
}

/* ----------------------------------------------------------------- messages */

static const char * const counter_names[] = {
#define X(name) #name,
	PLATTER_COUNTERS(X)
#undef X
};

static int msg_stats(struct platter *p, char *result, unsigned int maxlen)
{
	unsigned int sz = 0, i;

	for (i = 0; i < PC_NR; i++) {
		u64 n = counter(p, i);

		/* times are summed in ns, so that rounding errors do not add up */
		if (i == PC_seek_us || i == PC_rotation_us || i == PC_transfer_us ||
		    i == PC_flushing_us)
			n = div_u64(n, 1000);
		DMEMIT("%s %llu\n", counter_names[i], n);
	}
	DMEMIT("damaged_blocks %llu\n", p->state.damage.damaged);
	DMEMIT("damage_map_bytes %llu\n", p->state.damage.nr_pages * DAMAGE_PAGE_BYTES);
	DMEMIT("wcache_dirty_blocks %u\n", p->wcache.count);
	DMEMIT("unreported_blocks %llu\n", p->loss.unreported);
	return 1;
}

static int msg_headlog(struct platter *p, bool clear, char *result, unsigned int maxlen)
{
	u64 i, first = p->log.head > p->log.size ? p->log.head - p->log.size : 0;
	unsigned int sz = 0;

	if (clear) {
		p->log.head = 0;
		return 0;
	}
	for (i = first; i < p->log.head; i++) {
		const struct platter_log_entry *e;
		u32 slot;

		div_u64_rem(i, p->log.size, &slot);
		e = &p->log.entry[slot];
		DMEMIT("%llu %c %llu %u %u %u %u %u %u\n", e->time_us, e->op,
		       e->blk, e->n, e->cyl, e->surface, e->seek_us,
		       e->rotation_us, e->total_us);
	}
	return 1;
}

static int msg_geometry(struct platter *p, char *result, unsigned int maxlen)
{
	const struct platter_geo *g = &p->geo;
	struct platter_run run;
	unsigned int sz = 0;
	u64 b;
	u32 i;

	DMEMIT("platter 1\n");
	DMEMIT("blocks %llu\n", g->blocks);
	DMEMIT("media %s\n", platter_media_names[g->media]);
	DMEMIT("head_tracks %u.%03u\n", g->head_mtracks / 1000, g->head_mtracks % 1000);
	DMEMIT("window_tracks %u\n", platter_geo_window(g));
	DMEMIT("surfaces %u\n", g->surfaces);
	DMEMIT("density");
	for (i = 0; i < g->surfaces; i++)
		DMEMIT(" %u", g->density[i]);
	DMEMIT("\n");
	DMEMIT("cylinders %u\n", g->cyls);
	DMEMIT("rotation_ns %u\n", g->rot_ns);
	for (i = 0; i < g->nr_zones; i++)
		DMEMIT("zone %u %llu %llu %u %u %u %u %u\n", i, g->zone[i].start_blk,
		       min(g->zone[i].blocks, g->blocks - g->zone[i].start_blk),
		       g->zone[i].cyls, g->zone[i].track_blocks,
		       g->zone[i].swath_cyls, g->zone[i].track_skew_units,
		       g->zone[i].head_skew_units);
	for (i = 0; i < g->nr_conv; i++)
		DMEMIT("conventional %llu %llu\n", g->conv[i].start_blk,
		       g->conv[i].blocks);
	for (b = 0; platter_geo_run(g, b, &run); b = run.start_blk + run.blocks) {
		DMEMIT("run %llu %llu %u %u %d %u %s %s\n", run.start_blk,
		       div_u64(run.blocks + run.track_blocks - 1, run.track_blocks),
		       run.track_blocks, run.zone, run.surface, run.first_cyl,
		       run.inward ? "in" : "out",
		       run.conventional ? "conventional" : platter_media_names[g->media]);
		cond_resched();
	}
	return 1;
}

static int msg_where(struct platter *p, char *result, unsigned int maxlen)
{
	u64 now = ktime_get_ns();
	unsigned int sz = 0;
	u32 angle;

	div_u64_rem(now, p->geo.rot_ns, &angle);
	DMEMIT("cylinder %u\nsurface %u\nangle_us %u\nbusy_us %llu\n", p->mech.cyl,
	       p->mech.surface, angle / 1000,
	       p->mech.free_ns > now ? div_u64(p->mech.free_ns - now, 1000) : 0);
	return 1;
}

static int parse_range(struct platter *p, char **argv, u64 *blk, u64 *n)
{
	if (kstrtou64(argv[1], 10, blk) || kstrtou64(argv[2], 10, n) ||
	    *blk > p->geo.blocks || *n > p->geo.blocks - *blk)
		return -EINVAL;
	return 0;
}

static int msg_damaged(struct platter *p, u64 blk, u64 n, char *result,
		       unsigned int maxlen)
{
	u64 end = blk + n, from;
	unsigned int sz = 0;

	while (damage_next(&p->state.damage, &blk, end)) {
		from = blk++;
		while (blk < end && damage_count(&p->state.damage, blk, 1))
			blk++;
		DMEMIT("%llu %llu\n", from, blk - from);
		if (sz + 64 > maxlen) {
			/* full: make dmsetup call again with a larger buffer */
			sz = maxlen;
			memset(result, ' ', maxlen - 1);
			result[maxlen - 1] = 0;
			break;
		}
		cond_resched();
	}
	return 1;
}

static int msg_poison(struct platter *p, u64 blk, u64 n, bool heal)
{
	u64 newly = 0;
	int r = 0;

	if (p->opt.damage_mode == DAMAGE_NONE)
		return -EINVAL;
	while (n && !r) {
		u32 piece = min_t(u64, n, DAMAGE_PAGE_BLOCKS);

		if (heal)
			damage_clear(&p->state.damage, blk, piece);
		else
			r = damage_set(&p->state.damage, blk, piece, &newly);
		if (!r)
			r = damage_sync(&p->state.damage);
		damage_trim(&p->state.damage, blk, piece);
		platter_mech_invalidate(&p->mech, blk, piece);
		blk += piece;
		n -= piece;
	}
	return r;
}

static int msg_powercut(struct platter *p, const char *arg)
{
	LIST_HEAD(done);
	u64 n;

	mutex_lock(&p->lock);
	if (!strcmp(arg, "off")) {
		p->power.cut_armed = false;
		if (p->power.off) {
			u64 now = ktime_get_ns();

			platter_mech_init(&p->mech, &p->geo);
			p->mech.free_ns = now;
		}
		WRITE_ONCE(p->power.off, false);
		platter_update_fast(p);
	} else if (!kstrtou64(arg, 10, &n)) {
		if (n) {
			p->power.cut_left = n;
			p->power.cut_armed = true;
			platter_update_fast(p);
		} else {
			platter_power_off(p, &done);
		}
	} else {
		mutex_unlock(&p->lock);
		return -EINVAL;
	}
	mutex_unlock(&p->lock);
	platter_end_ios(&done);
	platter_kick(p);
	return 0;
}

/*
 * When switching the cache off, return when the cache is empty, like the drive's own
 * command, or when a suspend begins, which will empty it.
 */
static int msg_wcache(struct platter *p, bool on)
{
	int r = 0;

	mutex_lock(&p->lock);
	p->wcache.on = on;
	platter_update_fast(p);
	mutex_unlock(&p->lock);
	if (on)
		return 0;
	platter_kick(p);
	if (dm_suspended(p->ti))
		return 0;
	if (wait_event_interruptible(p->wcache.drained,
				     !READ_ONCE(p->wcache.count) || READ_ONCE(p->power.suspending)))
		r = -EINTR;
	mutex_lock(&p->lock);
	if (!r && p->wcache.count && !p->wcache.on)
		r = -EAGAIN;
	platter_update_fast(p);
	mutex_unlock(&p->lock);
	if (r == -EAGAIN)
		DMERR("%s: wcache off interrupted: a suspend came before it was empty, ask again",
		      dm_table_device_name(p->ti->table));
	return r;
}

static int msg_lookahead(struct platter *p, bool on)
{
	mutex_lock(&p->lock);
	p->act.lookahead_on = on;
	platter_mech_drop(&p->mech);
	p->mech.lookahead_blocks = on ? platter_lookahead_blocks(p) : 0;
	mutex_unlock(&p->lock);
	return 0;
}

/* A message that sets a key.  Returns -ENOENT if there is no such key. */
static int msg_option(struct platter *p, const char *key, const char *text)
{
	const struct shingle_option *o = shingle_option_find(platter_options, key, false);
	const char *name = dm_table_device_name(p->ti->table), *why;
	u32 value;

	if (!o)
		return -ENOENT;
	if (o->when == SHINGLE_OPTION_TABLE) {
		DMERR("%s: %s can only be set by a table, not while the device is in use", name,
		      key);
		return -EINVAL;
	}
	if (shingle_option_parse(o, text, &value, &why)) {
		DMERR("%s: %s", name, why);
		return -EINVAL;
	}
	return strcmp(key, "wcache") ? msg_lookahead(p, value) : msg_wcache(p, value);
}

/* The mirror's content is unknown before the first resume, and must not be changed before. */
static int may_touch_map(struct platter *p, const char *what)
{
	bool heal = !strcmp(what, "heal"), poison = !strcmp(what, "poison");
	const char *name = dm_table_device_name(p->ti->table);

	if (p->state.dev && !p->state.loaded && (heal || poison || !strcmp(what, "damaged"))) {
		DMERR("%s: %s refused: it is not active yet", name, what);
		return -EAGAIN;
	}
	if (p->read_only && (heal || poison)) {
		DMERR("%s: %s refused: its table or a device of it is read-only", name, what);
		return -EROFS;
	}
	return 0;
}

static int locked_message(struct platter *p, unsigned int argc, char **argv,
			  char *result, unsigned int maxlen)
{
	u64 blk, n;
	unsigned int i;
	int r;

	if (argc == 1 && !strcmp(argv[0], "stats"))
		return msg_stats(p, result, maxlen);
	if (argc == 1 && !strcmp(argv[0], "stats_clear")) {
		for (i = 0; i < PC_NR; i++)
			atomic64_set(&p->counter[i], 0);
		return 0;
	}
	if (argc == 1 && !strcmp(argv[0], "headlog"))
		return msg_headlog(p, false, result, maxlen);
	if (argc == 2 && !strcmp(argv[0], "headlog") && !strcmp(argv[1], "clear"))
		return msg_headlog(p, true, result, maxlen);
	if (argc == 1 && !strcmp(argv[0], "geometry"))
		return msg_geometry(p, result, maxlen);
	if (argc == 1 && !strcmp(argv[0], "where"))
		return msg_where(p, result, maxlen);
	r = may_touch_map(p, argv[0]);
	if (r)
		return r;
	if (argc == 1 && !strcmp(argv[0], "heal"))
		return msg_poison(p, 0, p->geo.blocks, true);
	if (argc == 3 && parse_range(p, argv, &blk, &n))
		return -EINVAL;
	if (argc == 3 && !strcmp(argv[0], "damaged"))
		return msg_damaged(p, blk, n, result, maxlen);
	if (argc == 3 && !strcmp(argv[0], "poison"))
		return msg_poison(p, blk, n, false);
	if (argc == 3 && !strcmp(argv[0], "heal"))
		return msg_poison(p, blk, n, true);
	DMWARN("unrecognised message: %s", argv[0]);
	return -EINVAL;
}

static int platter_message(struct dm_target *ti, unsigned int argc, char **argv,
			   char *result, unsigned int maxlen)
{
	struct platter *p = ti->private;
	int r;

	if (!argc)
		return -EINVAL;
	if (argc == 2 && !strcmp(argv[0], "powercut"))
		return msg_powercut(p, argv[1]);
	if (argc == 2 && strcmp(argv[0], "headlog")) {
		r = msg_option(p, argv[0], argv[1]);
		if (r != -ENOENT)
			return r;
	}
	mutex_lock(&p->lock);
	r = locked_message(p, argc, argv, result, maxlen);
	mutex_unlock(&p->lock);
	return r;
}

/* -------------------------------------------------------------------- rest */

static int platter_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn,
				   void *data)
{
	struct platter *p = ti->private;

	return p->disk.dev ? fn(ti, p->disk.dev, p->disk.start, ti->len, data) : 0;
}

static void platter_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct platter *p = ti->private;

	shingle_limit_blocks(limits, PLATTER_BLOCK_SIZE,
			     !p->disk.dev ||
			     shingle_aligned(p->disk.dev->bdev, PLATTER_BLOCK_SIZE));
	limits->discard_granularity = round_up(limits->discard_granularity, PLATTER_BLOCK_SIZE);
	shingle_limit_disk(limits, p->opt.rotational);
}

static struct target_type platter_target = {
	.name = "platter",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = platter_ctr,
	.dtr = platter_dtr,
	.map = platter_map,
	.presuspend = platter_presuspend,
	.presuspend_undo = platter_presuspend_undo,
	.postsuspend = platter_postsuspend,
	.preresume = platter_preresume,
	.resume = platter_resume,
	.status = platter_status,
	.message = platter_message,
	.iterate_devices = platter_iterate_devices,
	.io_hints = platter_io_hints,
};

static int __init dm_platter_init(void)
{
	int r = platter_cache_init();

	if (r)
		return r;
	r = dm_register_target(&platter_target);
	if (r < 0) {
		DMERR("register failed: %d", r);
		platter_cache_exit();
	}
	return r;
}

static void __exit dm_platter_exit(void)
{
	dm_unregister_target(&platter_target);
	platter_cache_exit();
}

module_init(dm_platter_init);
module_exit(dm_platter_exit);

MODULE_ALIAS("dm-platter");
MODULE_AUTHOR("the dm-shingle project");
MODULE_DESCRIPTION(DM_NAME " target: a recording medium with geometry, mechanics and overlap");
MODULE_LICENSE("GPL");
MODULE_VERSION(SHINGLE_RELEASE);
