// SPDX-License-Identifier: GPL-2.0
/* Messages. */
#include "base/device.h"
#include "base/mode.h"
#include "base/wake.h"
#include "target/target.h"
#include "io/wcache.h"
#include "log/log.h"
#include "engine/settings.h"

static void report_verify(void *ctx, const char *fmt, ...)
{
	struct shingle_device *d = ctx;
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	va_start(args, fmt);
	vaf.va = &args;
	DMERR_LIMIT("%s: %pV", dm_table_device_name(d->ti->table), &vaf);
	va_end(args);
}

/*
 * Must a message end early?  A suspend and the removal of a device, which begins with a suspend,
 * wait until all messages have returned, and dm holds I/O back meanwhile.  So a message ends if a
 * suspend has begun since it arrived, when d->phase.presuspends was @since, or if its sender was
 * killed.
 */
static bool must_return(const struct shingle_device *d, u32 since)
{
	return READ_ONCE(d->phase.presuspends) != since || fatal_signal_pending(current) ||
	       (READ_ONCE(d->phase.suspending) && !READ_ONCE(d->phase.suspended));
}

/*
 * Verify part by part while I/O goes on; the lock keeps a reset from replacing the engine.  Returns
 * -EAGAIN if interrupted, -EINTR if killed, -EIO if a part of the map could not be read.
 */
static int verify_parts(struct shingle_device *d, u32 *bad)
{
	u32 since = READ_ONCE(d->phase.presuspends);
	u64 cursor = 0, events;
	bool lacks, waits, unread;
	u32 before = 0;

	if (mutex_lock_killable(&d->phase.reset_lock))
		return -EINTR;
	if (d->engine->pages)
		before = d->engine->pages->unread;
	while (cursor != SHINGLE_NOWHERE && !must_return(d, since)) {
		spin_lock_irq(&d->map_lock);
		shingle_pages_begin(d->engine, SHINGLE_CLIENT_VERIFY);
		*bad += d->ops->observe.verify(d->engine, &cursor, report_verify, d);
		/* The next call treats a page that cannot be read as lost. */
		lacks = shingle_pages_lack(d->engine);
		waits = lacks && shingle_await_page(d) == SHINGLE_ABSENT;
		shingle_pages_end(d->engine, lacks);
		events = d->pager.events;
		spin_unlock_irq(&d->map_lock);
		if (waits)
			wait_event(d->wait, READ_ONCE(d->pager.events) != events ||
				   must_return(d, since));
		cond_resched();
	}
	spin_lock_irq(&d->map_lock);
	unread = d->engine->pages && d->engine->pages->unread != before;
	if (d->engine->pages)
		shingle_pages_drop(d->engine->pages, SHINGLE_CLIENT_VERIFY);
	spin_unlock_irq(&d->map_lock);
	mutex_unlock(&d->phase.reset_lock);
	if (cursor == SHINGLE_NOWHERE)
		return unread ? -EIO : 0;
	return fatal_signal_pending(current) ? -EINTR : -EAGAIN;
}

static void log_interrupted(struct shingle_device *d, const char *what)
{
	DMERR("%s: %s interrupted: a suspend came before its end, ask again",
	      dm_table_device_name(d->ti->table), what);
}

static int verify(struct shingle_device *d)
{
	u32 bad = 0;
	int err = verify_parts(d, &bad);

	if (!bad && err == -EAGAIN)
		log_interrupted(d, "verify");
	if (!bad && err == -EIO)
		DMERR("%s: pages of the map cannot be read now; all that could be is right",
		      dm_table_device_name(d->ti->table));
	if (!bad)
		return err;
	/* The map cannot be trusted any more. */
	shingle_set_mode(d, SHINGLE_FAIL, true, "the map contradicts itself");
	/* If the device is suspended another table may be about to read the superblock. */
	flush_work(&d->log.sb_work);
	return -EUCLEAN;
}

/* Has all been cleaned that was there when the clean was requested? */
static bool all_clean(const struct shingle_device *d, u32 asked)
{
	lockdep_assert_held(&d->map_lock);
	return shingle_turns_over(&d->cleaner.turns, asked) && !d->cleaner.recovering;
}

static bool forced_over(struct shingle_device *d, u32 asked)
{
	bool over;

	spin_lock_irq(&d->map_lock);
	over = all_clean(d, asked) || d->phase.stopping || d->phase.suspending ||
	       d->health.mode != SHINGLE_RW;
	spin_unlock_irq(&d->map_lock);
	return over;
}

/* @left: result, the clean has ended and the engine could not move everything. */
static int clean_all(struct shingle_device *d, bool *left)
{
	struct shingle_turns *turns = &d->cleaner.turns;
	int err, killed;
	u32 asked;

	err = shingle_wcache_drain(d);
	if (err && err != -EIO)		/* Lost blocks need not be cleaned. */
		return err;
	spin_lock_irq(&d->map_lock);
	asked = shingle_turns_ask(turns);
	d->cleaner.cleans++;
	spin_unlock_irq(&d->map_lock);
	mod_delayed_work(d->cleaner.wq, &d->cleaner.work, 0);
	killed = wait_event_killable(d->wait, forced_over(d, asked));
	spin_lock_irq(&d->map_lock);
	err = d->health.mode != SHINGLE_RW ? -EROFS : all_clean(d, asked) ? 0 : -EAGAIN;
	*left = !err && d->ops->clean.left && d->ops->clean.left(d->engine);
	/* No message waits for the rest.  The engine is not told: it is in the middle of it. */
	if (!--d->cleaner.cleans) {
		turns->forced_again |= turns->forced;
		turns->forced = false;
	}
	spin_unlock_irq(&d->map_lock);
	return killed ?: err;
}

/* Commit or checkpoint, including all blocks acknowledged so far. */
static int make_durable(struct shingle_device *d, bool checkpoint)
{
	int err = shingle_wcache_drain(d);

	if (err)
		return err;
	return checkpoint ? shingle_checkpoint(d) : shingle_commit(d, false);
}

/* ``clean``, ``commit`` or ``checkpoint``. */
static int write_all(struct shingle_device *d, const char *what)
{
	const char *name = dm_table_device_name(d->ti->table), *why;
	int err = shingle_may_change(d, &why);
	bool left = false;

	if (err) {
		DMERR("%s: %s refused: %s", name, what, why);
		return err;
	}
	if (!strcmp(what, "clean"))
		err = clean_all(d, &left);
	else
		err = make_durable(d, !strcmp(what, "checkpoint"));
	if (err == -EAGAIN)
		log_interrupted(d, what);
	else if (err)
		DMERR("%s: %s failed (%d): not all could be written", name, what, err);
	if (err || !left)
		return err;
	DMERR("%s: clean ended, but not all could be cleaned: shingle check says why", name);
	return -ENODATA;
}

/* Pass a message of several words to the engine; -ENOENT if it has none of that name. */
static int engine_message(struct shingle_device *d, unsigned int argc, char **argv,
			  const char **why)
{
	struct shingle_record rec[SHINGLE_MAX_EMIT];
	struct shingle_emit emit = { .rec = rec, .max = SHINGLE_MAX_EMIT };
	u32 records = d->ops->discard_records;
	u64 done = 0;
	int err;

	if (!d->ops->observe.message)
		return -ENOENT;
again:
	emit.nr = 0;
	for (;;) {
		spin_lock_irq(&d->map_lock);
		err = shingle_no_change(d, why);
		if (!err && d->phase.resetting) {
			*why = "it is being reset";
			err = -EAGAIN;
		}
		if (err) {
			spin_unlock_irq(&d->map_lock);
			return err;
		}
		if (shingle_journal_reserve(d, records))
			break;
		spin_unlock_irq(&d->map_lock);
		*why = "it cannot be done now";
		err = shingle_journal_make_room(d, records);
		if (err)
			return err;
	}
	emit.seq = d->journal.seq;
	err = d->ops->observe.message(d->engine, argc, argv, &done, &emit, why);
	shingle_journal_add(d, records, &emit);
	spin_unlock_irq(&d->map_lock);
	if (err > 0) {
		cond_resched();
		goto again;
	}
	return err;
}

/* ``keep``: the words are not interpreted here, but by the next table. */
static int keep_words(struct shingle_device *d, unsigned int argc, char **argv)
{
	/* One more byte than allowed, to detect an overflow. */
	char words[SHINGLE_SETTINGS_BYTES + 2] = "";
	struct shingle_disk_settings s;
	size_t used = 0;
	const char *why;
	unsigned int i;
	int err;

	for (i = 1; i < argc; i++)
		used += scnprintf(words + used, sizeof(words) - used, "%s%s", i > 1 ? " " : "",
				  argv[i]);
	err = shingle_settings_encode(words, &s, &why) ?: shingle_may_change(d, &why);
	if (err) {
		DMERR("%s: keep refused: %s", dm_table_device_name(d->ti->table), why);
		return err;
	}
	err = shingle_keep_settings(d, &s);
	if (err)
		DMERR("%s: keep failed (%d): not all could be written",
		      dm_table_device_name(d->ti->table), err);
	return err;
}

/* ``settings``: the stored words. */
static int emit_settings(struct shingle_device *d, char *result, unsigned int maxlen)
{
	char words[SHINGLE_SETTINGS_BYTES + 1];
	unsigned int sz = 0;
	const char *why;
	int err;

	mutex_lock(&d->log.ckpt_lock);
	err = shingle_settings_decode(&d->layout.settings, words, &why);
	mutex_unlock(&d->log.ckpt_lock);
	if (err) {
		DMERR("%s: settings cannot be read: %s", dm_table_device_name(d->ti->table), why);
		return err;
	}
	DMEMIT("%s\n", words);
	return 1;
}

/* Maximum length of a line of an engine's answer. */
#define LINE_BYTES	256

/* The engine answers a word in lines: returns 1, or -ENOENT if it has no such word. */
static int query(struct shingle_device *d, const char *word, char *result, unsigned int maxlen)
{
	char line[LINE_BYTES], asked[32];
	unsigned int sz = 0;
	u64 cursor = 0;
	int r;

	/* dm uses one buffer for the words and the answer. */
	if (!d->ops->observe.query || strscpy(asked, word, sizeof(asked)) < 0)
		return -ENOENT;
	for (;;) {
		spin_lock_irq(&d->map_lock);
		r = d->ops->observe.query(d->engine, asked, &cursor, line, sizeof(line));
		spin_unlock_irq(&d->map_lock);
		if (r <= 0)
			return r ?: 1;
		DMEMIT("%s", line);
	}
}

static bool is_loaded(struct shingle_device *d)
{
	bool yes;

	spin_lock_irq(&d->map_lock);
	yes = d->phase.loaded;
	spin_unlock_irq(&d->map_lock);
	return yes;
}

/**
 * shingle_message() - see struct target_type
 * @ti: the target
 * @argc: number of words
 * @argv: ``mode``, ``stats``, ``stats_clear``, ``clean``, ``commit``, ``checkpoint``,
 *	``verify``, ``reset``, ``settings``, ``keep`` and words, a key and its value, or a message
 *	of the engine
 * @result: buffer for the answer
 * @maxlen: its size
 *
 * dm sends messages while the table is being activated, and a suspend waits for them with all I/O
 * held back.
 *
 * Context: may sleep.
 * Return: 0, 1 with an answer, or -errno.
 */
int shingle_message(struct dm_target *ti, unsigned int argc, char **argv, char *result,
		    unsigned int maxlen)
{
	struct shingle_device *d = ti->private;
	const char *name = dm_table_device_name(ti->table), *why = "it cannot be done now";
	int err;

	if (!is_loaded(d)) {
		DMERR("%s: %s refused: it is not active yet", name, argv[0]);
		return -EAGAIN;
	}
	if (argc == 1 && !strcmp(argv[0], "stats"))
		return shingle_emit_stats(d, result, maxlen);
	if (argc == 1 && !strcmp(argv[0], "mode"))
		return shingle_emit_mode(d, result, maxlen);
	if (argc == 1 && !strcmp(argv[0], "stats_clear")) {
		shingle_clear_stats(d);
		return 0;
	}
	if (argc == 1 && !strcmp(argv[0], "verify"))
		return verify(d);
	if (argc == 1 && (!strcmp(argv[0], "clean") || !strcmp(argv[0], "commit") ||
			  !strcmp(argv[0], "checkpoint")))
		return write_all(d, argv[0]);
	if (argc == 1 && !strcmp(argv[0], "reset"))
		return shingle_reset(d);
	if (argc == 1 && !strcmp(argv[0], "settings"))
		return emit_settings(d, result, maxlen);
	if (!strcmp(argv[0], "keep"))
		return keep_words(d, argc, argv);
	if (argc == 2) {
		err = shingle_set_option(d, argv[0], argv[1]);
		if (err)
			DMERR("%s: %s", name, ti->error);
		else	/* It may have made room for waiting bios. */
			shingle_kick(d);
		return err;
	}
	if (argc == 1) {
		err = query(d, argv[0], result, maxlen);
		if (err != -ENOENT)
			return err;
	}
	err = argc > 2 ? engine_message(d, argc, argv, &why) : -ENOENT;
	if (err && err != -ENOENT)
		DMERR("%s: %s refused: %s", name, argv[0], why);
	if (err != -ENOENT)
		return err;
	DMERR("%s: unknown message %s", name, argv[0]);
	return -EINVAL;
}
