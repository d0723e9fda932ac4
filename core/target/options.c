// SPDX-License-Identifier: GPL-2.0
/* Options, in a table line and by messages. */
#include "base/device.h"
#include "target/target.h"
#include "io/wcache.h"
#include "log/log.h"

/**
 * shingle_refuse() - set the error sentence of a target
 * @ti: the target; result, in its error
 * @err: value to return
 * @fmt: the sentence
 *
 * A constructor's error sentence must outlive the constructor, and some of ours contain numbers.
 * Constructors fail rarely and at the request of a user: a few buffers are used in turn.
 *
 * Context: process.
 * Return: @err.
 */
int shingle_refuse(struct dm_target *ti, int err, const char *fmt, ...)
{
	static char text[8][192];
	static atomic_t next;
	va_list args;

	ti->error = text[(unsigned int)atomic_inc_return(&next) % ARRAY_SIZE(text)];
	va_start(args, fmt);
	vsnprintf(ti->error, sizeof(text[0]), fmt, args);
	va_end(args);
	return err;
}

/* Switch the write cache by a message. */
static int switch_wcache(struct shingle_device *d, bool on, const char **why)
{
	int err = shingle_wcache_switch(d, on);

	/*
	 * A suspend has already committed everything, and a read-only device has nothing to commit.
	 */
	if (!err && !on && !d->disks.read_only && !READ_ONCE(d->phase.suspended))
		err = shingle_commit(d, false);
	*why = err == -EAGAIN ?
		"The write cache is off, but a suspend came before all was written: ask again" :
		"The write cache is off, but what it held could not all be written";
	return err;
}

/* A key of core has changed: do what follows from it, if a message has set it. */
static int key_changed(struct shingle_device *d, enum shingle_key key, u32 value, const char **why)
{
	switch (key) {
	case SHINGLE_KEY_IDLE_MS:
		/* The worker may wait for an old timer; it computes the remaining time itself. */
		if (value && !READ_ONCE(d->phase.stopping))
			mod_delayed_work(d->cleaner.wq, &d->cleaner.idle_work, 0);
		return 0;
	case SHINGLE_KEY_WCACHE:
		return switch_wcache(d, value, why);
	case SHINGLE_KEY_DESTAGE_MS:
		shingle_wcache_look(d);
		return 0;
	default:
		return 0;
	}
}

static int set_key(struct shingle_device *d, const struct shingle_option *o, const char *text,
		   const char **why)
{
	bool in_use = d->ti->private, sooner = false;
	enum shingle_key key = o - shingle_keys;
	unsigned long flags;
	u32 value;
	int err;

	err = shingle_option_check(o, text, in_use, &value, why);
	if (err)
		return err;
	if (in_use && key == SHINGLE_KEY_WCACHE && !d->wcache.blocks) {
		*why = SHINGLE_NO_WCACHE;
		return value ? -EINVAL : 0;
	}
	spin_lock_irqsave(&d->map_lock, flags);
	/*
	 * Records may wait for an old timer, or for none.  A commit that is too early does no harm.
	 */
	if (in_use && key == SHINGLE_KEY_COMMIT_MS)
		sooner = value && (!d->config.commit_ms || value < d->config.commit_ms);
	if (o->set)
		o->set(&d->config, value, why);
	shingle_option_put(o, &d->config, value);
	if (sooner && d->journal.txn[d->journal.open].nr && !READ_ONCE(d->phase.suspended))
		mod_delayed_work(d->worker.wq, &d->log.commit_work, 0);
	spin_unlock_irqrestore(&d->map_lock, flags);
	return in_use ? key_changed(d, key, value, why) : 0;
}

/**
 * shingle_set_option() - set a feature or a key of the engine or of core
 * @d: the device
 * @name: name of the option
 * @value: value of a key; NULL for a feature
 *
 * Context: may sleep.
 * Return: 0 or -errno with a sentence in the target's error.
 */
int shingle_set_option(struct shingle_device *d, const char *name, const char *value)
{
	const struct shingle_option *o = shingle_option_find(shingle_keys, name, !value);
	struct dm_target *ti = d->ti;
	const char *why = NULL;
	unsigned long flags;
	int err;

	if (o) {
		err = set_key(d, o, value, &why);
	} else {
		spin_lock_irqsave(&d->map_lock, flags);
		err = shingle_set(d->engine, name, value, &why);
		spin_unlock_irqrestore(&d->map_lock, flags);
	}
	if (err == -ENOENT)
		return shingle_refuse(ti, -EINVAL, "Unknown %s %.64s", value ? "key" : "feature",
				      name);
	return err ? shingle_refuse(ti, err == -EAGAIN ? err : -EINVAL, "%s", why) : 0;
}

/**
 * shingle_parse_options() - parse the options of a table line
 * @d: the device
 * @as: the words behind the devices
 *
 * Context: constructor, may sleep.
 * Return: 0 or -errno with a sentence in the target's error.
 */
int shingle_parse_options(struct shingle_device *d, struct dm_arg_set *as)
{
	static const struct dm_arg features[] = {
		{ 0, 16, "Number of feature arguments must be 0 to 16, and they must follow" },
	};
	static const struct dm_arg keys[] = {
		{ 0, 32, "Number of key arguments must be even, 0 to 32, and they must follow" },
	};
	struct dm_target *ti = d->ti;
	unsigned int n;
	int err;

	if (!as->argc)
		return 0;
	err = dm_read_arg_group(features, as, &n, &ti->error);
	for (; !err && n; n--)
		err = shingle_set_option(d, dm_shift_arg(as), NULL);
	/* The defaults of keys depend on the engine's features. */
	shingle_config_init(&d->config, d->engine);
	if (err || !as->argc)
		return err;
	err = dm_read_arg_group(keys, as, &n, &ti->error);
	if (!err && n % 2) {
		ti->error = keys[0].error;
		return -EINVAL;
	}
	for (; !err && n; n -= 2) {
		const char *name = dm_shift_arg(as);

		err = shingle_set_option(d, name, dm_shift_arg(as));
	}
	if (!err && as->argc) {
		ti->error = "Too many arguments: something follows the key arguments";
		return -EINVAL;
	}
	return err;
}

/**
 * shingle_finish_options() - all options are set: check them together and apply them
 * @d: the device
 *
 * Context: constructor.
 * Return: 0 or -errno with a sentence in the target's error.
 */
int shingle_finish_options(struct shingle_device *d)
{
	const char *why;

	if (shingle_config_finish(&d->config, &why))
		return shingle_refuse(d->ti, -EINVAL, "%s", why);
	d->wcache.blocks = d->config.wcache_blocks;
	d->wcache.on = d->config.wcache;
	return 0;
}
