// SPDX-License-Identifier: GPL-2.0
/* Status and statistics of a device. */
#include "base/device.h"
#include "base/host.h"
#include "base/mode.h"
#include "target/target.h"

static const char *mode_name(const struct shingle_device *d)
{
	static const char *const name[] = { "rw", "ro", "fail" };

	return name[READ_ONCE(d->health.mode)];
}

/**
 * shingle_emit_mode() - answer of the message ``mode``
 * @d: the device
 * @result: buffer for the answer
 * @maxlen: its size
 *
 * ``rw``, or ``ro`` or ``fail`` and the cause.
 *
 * Context: process.
 * Return: 1, as a message with an answer.
 */
int shingle_emit_mode(struct shingle_device *d, char *result, unsigned int maxlen)
{
	const char *why, *name;
	unsigned int sz = 0;

	spin_lock_irq(&d->map_lock);
	name = mode_name(d);
	why = d->health.why;
	spin_unlock_irq(&d->map_lock);
	DMEMIT("%s%s%s\n", name, why ? " " : "", why ?: "");
	return 1;
}

static unsigned int emit_info(struct shingle_device *d, char *result, unsigned int maxlen)
{
	u64 cached, capacity, used, steps;
	unsigned int sz = 0;
	bool cleaning;

	spin_lock_irq(&d->map_lock);
	cached = d->phase.loaded ? d->ops->observe.cached_blocks(d->engine) : 0;
	capacity = d->engine->cache_blocks;
	used = d->journal.used;
	steps = d->stats.n.steps;
	cleaning = d->health.mode == SHINGLE_RW &&
		   (d->cleaner.busy || shingle_has_reason(&d->cleaner));
	spin_unlock_irq(&d->map_lock);

	DMEMIT("%llu/%llu %llu/%llu %llu %s %s %s", cached, capacity, used,
	       shingle_journal_room(&d->layout), steps,
	       cleaning ? "cleaning" : "idle",
	       READ_ONCE(d->health.needs_check) ? "needs_check" : "-", mode_name(d));
	return sz;
}

/* Output of emit_options(): the number of words, a table line, or data for IMA. */
enum emit_as { EMIT_COUNT, EMIT_TABLE, EMIT_IMA };

/*
 * Emit the features or @keys of @table that differ from the default; add the number of their words
 * to @n.
 */
static unsigned int emit_some(const struct shingle_option *table, const void *of, bool keys,
			      enum emit_as as, unsigned int *n, char *result,
			      unsigned int maxlen)
{
	const struct shingle_option *o;
	unsigned int sz = 0;
	char value[32];

	for (o = table; o->name; o++) {
		if (shingle_is_feature(o) == keys ||
		    !shingle_option_show(o, of, value, sizeof(value)))
			continue;
		*n += keys ? 2 : 1;
		if (as == EMIT_IMA)
			DMEMIT(",%s=%s", o->name, keys ? value : "y");
		else if (as == EMIT_TABLE && keys)
			DMEMIT(" %s %s", o->name, value);
		else if (as == EMIT_TABLE)
			DMEMIT(" %s", o->name);
	}
	return sz;
}

/* Emit the engine's options, then core's; or return only the number of words. */
static unsigned int emit_options(const struct shingle_device *d, bool keys, enum emit_as as,
				 char *result, unsigned int maxlen)
{
	unsigned int n = 0, sz;

	lockdep_assert_held(&d->map_lock);
	sz = emit_some(d->ops->options, d->engine, keys, as, &n, result, maxlen);
	sz += emit_some(shingle_keys, &d->config, keys, as, &n, result + sz, maxlen - sz);
	return as == EMIT_COUNT ? n : sz;
}

static unsigned int emit_table(struct shingle_device *d, char *result, unsigned int maxlen)
{
	unsigned int sz = 0, keys;
	int i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		DMEMIT("%s%s", i ? " " : "", d->disks.dev[i] ? d->disks.dev[i]->name : "-");
	/*
	 * One critical section: a message may change options, and a reset may replace the engine.
	 */
	spin_lock_irq(&d->map_lock);
	for (keys = 0; keys < 2; keys++) {
		DMEMIT(" %u", emit_options(d, keys, EMIT_COUNT, NULL, 0));
		sz += emit_options(d, keys, EMIT_TABLE, result + sz, maxlen - sz);
	}
	spin_unlock_irq(&d->map_lock);
	return sz;
}

static void emit_ima(struct shingle_device *d, char *result, unsigned int maxlen)
{
	unsigned int sz = 0, keys;
	int i;

	DMEMIT_TARGET_NAME_VERSION(d->ti->type);
	DMEMIT(",uuid=%pUb", d->layout.uuid);
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		DMEMIT(",%s=%s", shingle_dev_names[i],
		       d->disks.dev[i] ? d->disks.dev[i]->name : "-");
	spin_lock_irq(&d->map_lock);
	for (keys = 0; keys < 2; keys++)
		sz += emit_options(d, keys, EMIT_IMA, result + sz, maxlen - sz);
	spin_unlock_irq(&d->map_lock);
	DMEMIT(";");
}

/**
 * shingle_status() - see struct target_type
 * @ti: the target
 * @type: type of the status
 * @flags: unused
 * @result: buffer for the answer
 * @maxlen: its size
 *
 * INFO is ``<cached>/<capacity blocks> <used>/<all journal blocks> <steps> idle|cleaning
 * needs_check|- rw|ro|fail``.
 *
 * Context: may sleep, does not.
 */
void shingle_status(struct dm_target *ti, status_type_t type, unsigned int flags,
		    char *result, unsigned int maxlen)
{
	struct shingle_device *d = ti->private;

	switch (type) {
	case STATUSTYPE_INFO:
		emit_info(d, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		emit_table(d, result, maxlen);
		break;
	case STATUSTYPE_IMA:
		emit_ima(d, result, maxlen);
		break;
	}
}

static unsigned int emit_pages(const struct shingle_pages *p, char *result, unsigned int maxlen)
{
	unsigned int sz = 0;

	DMEMIT("map_pages %u\n", p->nr_pages);
	DMEMIT("map_dirty_pages %u\n", p->changes.nr_dirty);
	DMEMIT("map_page_hits %llu\n", p->counts.hits);
	DMEMIT("map_page_waits %llu\n", p->counts.misses);
	DMEMIT("map_page_reads %llu\n", p->counts.reads);
	DMEMIT("map_page_writes %llu\n", p->counts.writes);
	DMEMIT("map_dirty_limit_waits %llu\n", p->counts.dirty_limit_waits);
	return sz;
}

/**
 * shingle_emit_stats() - answer of the message ``stats``
 * @d: the device
 * @result: buffer for the answer
 * @maxlen: its size
 *
 * Context: process.
 * Return: 1, as a message with an answer.
 */
int shingle_emit_stats(struct shingle_device *d, char *result, unsigned int maxlen)
{
	u64 step_us[SHINGLE_STEP_KINDS], longest_us[SHINGLE_STEP_KINDS];
	const struct shingle_counter *c = d->ops->counters;
	u64 own[SHINGLE_MAX_COUNTERS];
	struct shingle_gauges now;
	struct shingle_counters n;
	struct shingle_pages p = { 0 };
	unsigned int sz = 0;
	u32 i;

	spin_lock_irq(&d->map_lock);
	n = d->stats.n;
	shingle_add_counters(d, &n);
	memcpy(step_us, d->stats.step_us, sizeof(step_us));
	memcpy(longest_us, d->stats.longest_us, sizeof(longest_us));
	for (i = 0; c[i].name; i++)
		own[i] = shingle_counter_get(&c[i], d->engine) + d->stats.carried[i];
	now.cached_blocks = d->ops->observe.cached_blocks(d->engine);
	now.map_bytes = d->ops->observe.map_bytes(d->engine);
	if (d->engine->pages) {
		p = *d->engine->pages;
		now.map_bytes += shingle_pages_bytes(&p);
	}
	now.bad_blocks = d->bad.nr;
	now.wcache_dirty_blocks = d->wcache.nr;
	now.unsaved_blocks = shingle_unsaved(d);
	spin_unlock_irq(&d->map_lock);

	DMEMIT("mode %s\n", mode_name(d));
#define X(name) DMEMIT(#name " %llu\n", now.name)
	SHINGLE_GAUGES(X, ;);
#undef X
#define X(name) DMEMIT(#name " %llu\n", n.name)
	SHINGLE_COUNTERS(X, ;);
#undef X
	if (p.nr_pages)
		sz += emit_pages(&p, result + sz, maxlen - sz);
	for (i = 0; i < SHINGLE_STEP_KINDS && d->ops->step_kinds[i]; i++)
		DMEMIT("step_%s_us %llu\n", d->ops->step_kinds[i], step_us[i]);
	for (i = 0; i < SHINGLE_STEP_KINDS && d->ops->step_kinds[i]; i++)
		DMEMIT("longest_%s_us %llu\n", d->ops->step_kinds[i], longest_us[i]);
	for (i = 0; c[i].name; i++)
		DMEMIT("%s %llu\n", c[i].name, own[i]);
	return 1;
}

/**
 * shingle_clear_stats() - restart all counters from zero
 * @d: the device
 *
 * Context: process.
 */
void shingle_clear_stats(struct shingle_device *d)
{
	spin_lock_irq(&d->map_lock);
	shingle_clear_counters(d);
	memset(d->stats.carried, 0, sizeof(d->stats.carried));
	memset(d->stats.step_us, 0, sizeof(d->stats.step_us));
	memset(d->stats.longest_us, 0, sizeof(d->stats.longest_us));
	shingle_counters_clear(d->ops->counters, d->engine);
	if (d->engine->pages)
		shingle_pages_clear(d->engine->pages);
	spin_unlock_irq(&d->map_lock);
}
