// SPDX-License-Identifier: GPL-2.0
/* shingle set: change the settings that a device stores for 'shingle open'. */
#include "format/codec.h"
#include "dm.h"
#include "engines.h"
#include "engine/settings.h"
#include "table.h"

/**
 * struct set_args - the command line
 * @name: name of an open device, or path of a closed DATA
 * @meta: META of a closed device, or NULL
 * @table: features and keys to store, and features to leave out
 * @unset: keys to reset to their defaults
 * @nr_unset: number of elements used in @unset
 * @one_time: change only the open device, store nothing
 */
struct set_args {
	const char *name;
	const char *meta;
	struct table_args table;
	const char *unset[TABLE_MAX_ARGS];
	u32 nr_unset;
	bool one_time;
};

static bool changes(const struct set_args *a)
{
	return a->table.nr_features || a->table.nr_keys || a->table.nr_without || a->nr_unset;
}

/* True for a key that only a table can set, not a message. */
static bool by_table(const struct engine_row *row, const char *key)
{
	const struct shingle_option *o = table_key(row, key);

	return o && o->when == SHINGLE_OPTION_TABLE;
}

/* Remove the keys of --default from @kept. */
static bool unset(const struct set_args *a, char *kept)
{
	u32 i;

	for (i = 0; i < a->nr_unset; i++) {
		size_t len = strlen(a->unset[i]);
		char *at = kept, *end;

		while (*at && (strncmp(at, a->unset[i], len) || at[len] != '=')) {
			at += strcspn(at, " ");
			at += *at == ' ';
		}
		if (!*at) {
			fail("--default %s: the device stores no such key", a->unset[i]);
			return false;
		}
		end = at + strcspn(at, " ");
		if (*end)
			memmove(at, end + 1, strlen(end + 1) + 1);
		else
			at[-(at > kept)] = '\0';
	}
	return true;
}

/*
 * Compute the new settings and check that the target accepts them, so that the device can
 * still be opened.
 */
static int merge(struct set_args *a, struct image *img, char *kept,
		 struct shingle_disk_settings *s)
{
	const char *why = "";

	if (!unset(a, kept) || !table_take_habits(&a->table, NULL, kept))
		return EXIT_USAGE;
	if (image_fresh_engine(img, &why))
		return fail("%s: %s", img->row->ops->name, why);
	return table_checked(img, &a->table) && table_keep(&a->table, s) ? EXIT_CLEAN : EXIT_USAGE;
}

static int print_words(const char *name, const char *words)
{
	say("settings stored on %s: %s", name, *words ? words : "none");
	return EXIT_CLEAN;
}

static int print_settings(const char *name, const struct shingle_disk_settings *s)
{
	char words[SHINGLE_SETTINGS_BYTES + 1];
	const char *why;

	shingle_settings_decode(s, words, &why);
	return print_words(name, words);
}

/*
 * Find the superblock to overwrite first.  Both must be sound; otherwise refer the user to
 * repair.
 */
static bool find_spare(struct image *img, u32 *spare)
{
	struct shingle_layout *l = shingle_zalloc_array(2, sizeof(*l));
	struct shingle_sb *sb = shingle_zalloc_array(1, sizeof(*sb));
	const char *why = "out of memory";
	bool ok = l && sb;
	u32 i;

	for (i = 0; ok && i < 2; i++) {
		u64 block = i ? image_last_block(img) : 0;

		why = "it cannot be read";
		ok = !device_read(image_meta(img), block, 1, sb) &&
		     !shingle_layout_decode(sb, block, &l[i], &why);
		if (ok && memcmp(l[i].uuid, img->l.uuid, SHINGLE_UUID_SIZE)) {
			why = "it belongs to another device";
			ok = false;
		}
	}
	if (ok)
		*spare = l[0].sb_seq >= l[1].sb_seq;
	else
		fail("a superblock of %s is not sound: %s; run 'shingle check', then 'shingle repair'",
		     image_meta(img)->path, why);
	kvfree(l);
	kvfree(sb);
	return ok;
}

static int set_closed(struct set_args *a, struct image *img)
{
	char kept[SHINGLE_SETTINGS_BYTES + 1];
	u32 spare = 0;
	int ret, err;

	if (a->one_time)
		return fail("%s is closed: --volatile requires an open device, given by its NAME", a->name);
	if (!devices_open(&img->ds, a->name, NULL, a->meta,
			  changes(a) ? DEVICE_WRITE : DEVICE_READ) ||
	    !image_load(img) || !image_settings(img, kept, "run 'shingle check'"))
		return EXIT_OPERATION;
	if (!changes(a))
		return print_settings(a->name, &img->l.settings);
	if (img->l.flags & SHINGLE_SB_NEEDS_CHECK)
		return fail("%s is marked needs_check: run 'shingle check', then 'shingle repair'",
			    a->name);
	if (!find_spare(img, &spare))
		return EXIT_OPERATION;
	if (!table_known(img->row, &a->table))
		return EXIT_USAGE;
	ret = merge(a, img, kept, &img->l.settings);
	if (ret)
		return ret;
	err = image_write_superblocks(img, spare);
	if (err)
		return fail("%s: superblock cannot be written: %s", a->name, strerror(-err));
	return print_settings(a->name, &img->l.settings);
}

/* Set all keys that a message can change. */
static bool set_live(const struct engine_row *row, const char *name, const struct table_args *t)
{
	u32 i;

	for (i = 0; i < t->nr_keys; i++) {
		const char *value = strchr(t->key[i], '=');
		char *text, *reply;

		if (by_table(row, t->key[i]))
			continue;
		/* A truncated number would be a different one. */
		if (asprintf(&text, "%.*s %s", (int)(value - t->key[i]), t->key[i], value + 1) < 0)
			return !fail("out of memory");
		reply = dm_device_message(name, text);
		free(text);
		if (!reply)
			return false;
		free(reply);
	}
	return true;
}

static bool load_open(struct image *img, const char *name)
{
	char *path[SHINGLE_NR_DEVS] = { NULL };
	struct dm_line line;
	bool ok = false;
	u32 i;

	if (!dm_device_table(name, &line))
		return false;
	if (!table_devices(line.params, path))
		fail("the devices below %s cannot be found: %s", name, line.params);
	else
		ok = devices_open(&img->ds, path[SHINGLE_DEV_DATA], path[SHINGLE_DEV_CACHE],
				  path[SHINGLE_DEV_META], DEVICE_LOOK) && image_load(img);
	/* Only the presence of each path matters from here on, so point it to a valid string. */
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (path[i] && ok)
			img->ds.dev[i].path = name;
		free(path[i]);
	}
	dm_line_free(&line);
	return ok;
}

static bool has_no_message(const struct set_args *a, const struct engine_row *row)
{
	const struct table_args *t = &a->table;
	u32 i;

	if (t->nr_features || t->nr_without || a->nr_unset) {
		fail("--volatile changes only keys: features and defaults take effect when the device is opened");
		return true;
	}
	for (i = 0; i < t->nr_keys; i++) {
		if (!by_table(row, t->key[i]))
			continue;
		fail("--volatile: %s can be set only when the device is opened, with 'shingle open --set %s'",
		     table_key(row, t->key[i])->name, t->key[i]);
		return true;
	}
	return false;
}

/* Store the settings through the target. */
static int keep(const char *name, const struct shingle_disk_settings *s)
{
	char words[SHINGLE_SETTINGS_BYTES + 1], text[SHINGLE_SETTINGS_BYTES + 8], *reply;
	const char *why;

	shingle_settings_decode(s, words, &why);
	snprintf(text, sizeof(text), "keep%s%s", *words ? " " : "", words);
	reply = dm_device_message(name, text);
	free(reply);
	return reply ? EXIT_CLEAN : EXIT_OPERATION;
}

static int set_open(struct set_args *a, struct image *img)
{
	struct shingle_disk_settings s = { 0 };
	const struct engine_row *row;
	struct table_args given;
	struct dm_line line;
	char *kept, *end, words[SHINGLE_SETTINGS_BYTES + 1];
	u32 i, spare;
	bool later;
	int ret;

	if (!dm_device_status(a->name, &line))
		return EXIT_OPERATION;
	row = engine_by_name(line.target);
	if (!row)
		ret = fail("%s is a device of type '%s', which stores no settings", a->name, line.target);
	dm_line_free(&line);
	if (!row)
		return ret;
	if (!table_known(row, &a->table))
		return EXIT_USAGE;
	if (a->one_time) {
		if (has_no_message(a, row))
			return EXIT_USAGE;
		return set_live(row, a->name, &a->table) ? EXIT_CLEAN : EXIT_OPERATION;
	}
	kept = dm_device_message(a->name, "settings");
	if (!kept)
		return EXIT_OPERATION;
	end = strchr(kept, '\n');
	if (end)
		*end = '\0';
	snprintf(words, sizeof(words), "%s", kept);
	free(kept);
	if (!changes(a))
		return print_words(a->name, words);
	/* The kernel would overwrite the only sound superblock, too. */
	if (!load_open(img, a->name) || !find_spare(img, &spare))
		return EXIT_OPERATION;
	given = a->table;
	ret = merge(a, img, words, &s);
	if (ret)
		return ret;
	if (!set_live(row, a->name, &given) || keep(a->name, &s))
		return EXIT_OPERATION;
	later = given.nr_features || given.nr_without || a->nr_unset;
	for (i = 0; i < given.nr_keys; i++)
		later |= by_table(row, given.key[i]);
	print_settings(a->name, &s);
	if (later)
		say("features, defaults and keys of a table take effect when the device is opened again");
	return EXIT_CLEAN;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "feature", required_argument, NULL, 'F' },
		{ "no-feature", required_argument, NULL, 'W' },
		{ "default", required_argument, NULL, 'D' },
		{ "volatile", no_argument, NULL, 'V' },
		{ "meta", required_argument, NULL, 'M' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct set_args a = { 0 };
	bool closed;
	struct image *img;
	int c, ret;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case 'F':
		case 'W':
			if (!table_option(&a.table, c, optarg))
				return EXIT_USAGE;
			break;
		case 'D':
			if (a.nr_unset == TABLE_MAX_ARGS)
				return usage(cmd, "--default is given more than %u times", TABLE_MAX_ARGS);
			a.unset[a.nr_unset++] = optarg;
			break;
		case 'V':
			a.one_time = true;
			break;
		case 'M':
			a.meta = optarg;
			break;
		default:
			return option_error(cmd, c, argv[optind - 1]);
		}
	}
	if (optind == argc)
		return usage(cmd, "NAME is missing");
	a.name = argv[optind++];
	for (; optind < argc; optind++) {
		if (!table_option(&a.table, 'S', argv[optind]))
			return EXIT_USAGE;
	}
	closed = strchr(a.name, '/');
	if (a.one_time && !changes(&a))
		return usage(cmd, "KEY=VALUE is missing: --volatile requires one");
	if (a.meta && !closed)
		return usage(cmd, "--meta applies to a closed device, given by its path");
	if (!closed && !dm_name_valid(a.name))
		return EXIT_USAGE;
	img = image_new();
	if (!img)
		return EXIT_OPERATION;
	ret = closed ? set_closed(&a, img) : set_open(&a, img);
	image_free(img);
	return ret;
}

const struct command cmd_set = {
	.name = "set",
	.summary = "change the settings that are stored on a device",
	.help = "Usage: shingle set NAME [KEY=VALUE ...] [options]\n"
		"       shingle set DATA [KEY=VALUE ...] [options]\n\n"
		"'shingle create' stores features and keys on the device, and 'shingle open' uses\n"
		"them.  This command changes them, for an open device given by its NAME, or for a\n"
		"closed one given by its path, with a slash.  On an open device a key takes effect at\n"
		"once if the target accepts it by message.  Without a change it prints what is stored.\n\n"
		"  --feature F       store this feature too (repeatable)\n"
		"  --no-feature F    store this feature no longer (repeatable)\n"
		"  --default KEY     store no value of this key (repeatable)\n"
		"  --volatile        change the open device now and store nothing\n"
		"  --meta DEV        the metadata device of a closed device that has one\n",
	.run = run,
};
