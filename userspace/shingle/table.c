// SPDX-License-Identifier: GPL-2.0
/* The table line of a device, and the options that go into it. */
#include <sys/sysmacros.h>
#include <uuid/uuid.h>

#include "dm.h"
#include "engine/keys.h"
#include "engine/settings.h"
#include "show.h"
#include "table.h"

/* Print the name, the values and the help text of one table option. */
static void describe(const struct shingle_option *o)
{
	char values[64] = "";
	size_t used = 0;
	int width;
	u32 i;

	if (o->kind == SHINGLE_OPTION_NUMBER)
		used += (size_t)snprintf(values, sizeof(values), "=N");
	for (i = 0; o->words && o->words[i] && used < sizeof(values); i++)
		used += (size_t)snprintf(values + used, sizeof(values) - used, "%s%s",
					 used ? "|" : "=", o->words[i]);
	width = printf("  %s%s", o->name, values);
	if (width > 22)
		printf("\n%24s%s\n", "", o->help);
	else
		printf("%*s%s\n", 24 - width, "", o->help);
}

/**
 * table_help() - print the features and keys of all targets, for --help
 */
void table_help(void)
{
	const struct engine_row *row;
	const struct shingle_option *o;
	u32 i;

	printf("\nKeys of every target (--set):\n\n");
	for (o = shingle_keys; o->name; o++)
		describe(o);
	for (i = 0; (row = engine_by_index(i)); i++) {
		printf("\nFeatures and keys of %s:\n\n", row->ops->name);
		for (o = row->ops->options; o->name; o++)
			describe(o);
	}
}

static bool too_many(void)
{
	fail("at most %u features and %u settings can be given", TABLE_MAX_ARGS, TABLE_MAX_ARGS);
	return false;
}

/**
 * table_option() - add one of TABLE_OPTIONS to a table
 * @t: table to extend
 * @c: letter of the option
 * @value: value of the option
 *
 * Return: true, or false after printing an error.
 */
bool table_option(struct table_args *t, int c, const char *value)
{
	if (c == 'U') {
		t->no_udev = true;
		return true;
	}
	if (t->nr_features == TABLE_MAX_ARGS || t->nr_keys == TABLE_MAX_ARGS ||
	    t->nr_without == TABLE_MAX_ARGS)
		return too_many();
	if (!*value || strpbrk(value, " \t\n\\")) {
		fail("'%s' cannot be part of a table line: it is empty or holds blanks", value);
		return false;
	}
	if (c == 'F') {
		t->feature[t->nr_features++] = value;
		return true;
	}
	if (c == 'W') {
		t->without[t->nr_without++] = value;
		return true;
	}
	if (!strchr(value, '=') || *value == '=') {
		fail("'%s' has no value: a setting is written as KEY=VALUE, and a feature goes with --feature",
		     value);
		return false;
	}
	t->key[t->nr_keys++] = value;
	return true;
}

/**
 * table_find_preset() - find a preset by name
 * @name: its name
 *
 * Return: the preset, or NULL after printing the known names.
 */
const struct preset *table_find_preset(const char *name)
{
	const struct preset *p = preset_by_name(name);
	char names[256];

	if (!p)
		fail("--preset '%s' is not known: choose one of %s", name,
		     preset_names(names, sizeof(names)));
	return p;
}

static bool among(const char *name, size_t len, const char *const *list, u32 nr)
{
	u32 i;

	for (i = 0; i < nr && list[i]; i++) {
		if (!strncmp(list[i], name, len))
			return true;
	}
	return false;
}

/* Add those features and keys of two NULL-terminated lists that @t does not name yet. */
static bool take(struct table_args *t, const char *const *features, const char *const *keys)
{
	u32 nr_features = t->nr_features, nr_keys = t->nr_keys, i;

	for (i = 0; features[i]; i++) {
		size_t len = strlen(features[i]) + 1;

		if (among(features[i], len, t->feature, nr_features) ||
		    among(features[i], len, t->without, t->nr_without))
			continue;
		if (t->nr_features == TABLE_MAX_ARGS)
			return too_many();
		t->feature[t->nr_features++] = features[i];
	}
	for (i = 0; keys[i]; i++) {
		size_t len = (size_t)(strchr(keys[i], '=') - keys[i]) + 1;

		if (among(keys[i], len, t->key, nr_keys))
			continue;
		if (t->nr_keys == TABLE_MAX_ARGS)
			return too_many();
		t->key[t->nr_keys++] = keys[i];
	}
	return true;
}

/**
 * table_take_habits() - add the defaults of a preset and of the device
 * @t: table to extend; its own features and keys take precedence
 * @p: the preset, which takes precedence over @kept; or NULL
 * @kept: settings stored on the device, or NULL
 *
 * Return: true, or false after printing an error.
 */
bool table_take_habits(struct table_args *t, const struct preset *p, const char *kept)
{
	/* With its blank, a word has at least two bytes. */
	const char *features[SHINGLE_SETTINGS_BYTES / 2 + 2] = { NULL };
	const char *keys[SHINGLE_SETTINGS_BYTES / 2 + 2] = { NULL };
	u32 nr_features = 0, nr_keys = 0, i;
	char *word, *rest = t->kept;

	snprintf(t->kept, sizeof(t->kept), "%s", kept ?: "");
	while ((word = strsep(&rest, " "))) {
		if (strchr(word, '=') > word)
			keys[nr_keys++] = word;
		else if (*word)
			features[nr_features++] = word;
	}
	for (i = 0; i < t->nr_without; i++) {
		const char *name = t->without[i];
		size_t len = strlen(name) + 1;

		if ((p && among(name, len, p->features, TABLE_MAX_ARGS)) ||
		    among(name, len, features, nr_features))
			continue;
		if (p)
			fail("--no-feature %s leaves out what %s does not have", name, p->name);
		else if (kept)
			fail("--no-feature %s leaves out what the device does not keep, and there is no --preset",
			     name);
		else
			fail("--no-feature %s leaves out what a preset has: it goes with --preset",
			     name);
		return false;
	}
	return (!p || take(t, p->features, p->keys)) && take(t, features, keys);
}

/**
 * table_take_preset() - add the features and keys of a preset that @t does not name
 * @t: table to extend
 * @p: the preset, or NULL
 *
 * Return: true, or false after printing an error.
 */
bool table_take_preset(struct table_args *t, const struct preset *p)
{
	return table_take_habits(t, p, NULL);
}

/* True if no later element has the same name: the last value of a key is in force. */
static bool is_last(const char *const *list, u32 nr, u32 i)
{
	size_t len = strcspn(list[i], "=") + 1;

	return !among(list[i], len, list + i + 1, nr - i - 1);
}

/**
 * table_keep() - encode features and keys for storage on the device
 * @t: features and keys to store
 * @s: result
 *
 * Return: true, or false after printing an error.
 */
bool table_keep(const struct table_args *t, struct shingle_disk_settings *s)
{
	const char *why = "out of memory";
	char *words = NULL;
	size_t size;
	FILE *f = open_memstream(&words, &size);
	int err = f ? 0 : -ENOMEM;
	u32 i;

	for (i = 0; f && i < t->nr_features; i++) {
		if (is_last(t->feature, t->nr_features, i))
			fprintf(f, "%s%s", ftell(f) ? " " : "", t->feature[i]);
	}
	for (i = 0; f && i < t->nr_keys; i++) {
		if (is_last(t->key, t->nr_keys, i))
			fprintf(f, "%s%s", ftell(f) ? " " : "", t->key[i]);
	}
	if (f && fclose(f))
		err = -ENOMEM;
	err = err ?: shingle_settings_encode(words, s, &why);
	if (err)
		fail("the settings cannot be kept with the device: %s", why);
	free(words);
	return !err;
}

/**
 * table_warn() - print the risk that the features of a preset carry
 * @t: the table that was loaded
 * @p: the preset, or NULL
 */
void table_warn(const struct table_args *t, const struct preset *p)
{
	if (p && p->doc && among(p->features[0], strlen(p->features[0]) + 1, t->feature,
				 t->nr_features))
		fprintf(stderr, "shingle: %s: %s\n", p->name, p->doc);
}

/* Print the names of features, or of keys. */
static void list_options(const struct shingle_option *o, bool features)
{
	for (; o->name; o++) {
		if (shingle_is_feature(o) == features)
			fprintf(stderr, "  %s\n", o->name);
	}
}

static bool no_feature(const struct engine_row *row, const char *name)
{
	fail("%s has no feature '%s'; it has:", row->ops->name, name);
	list_options(row->ops->options, true);
	return false;
}

static bool no_key(const struct engine_row *row, const char *name)
{
	fail("%s has no key '%s'; it has:", row->ops->name, name);
	list_options(shingle_keys, false);
	list_options(row->ops->options, false);
	return false;
}

/**
 * table_key() - find the option of a key
 * @row: the target
 * @key: its name, or KEY=VALUE
 *
 * Return: the option, or NULL if the target has no such key.
 */
const struct shingle_option *table_key(const struct engine_row *row, const char *key)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(key, "="), key);
	return shingle_option_find(shingle_keys, name, false) ?:
	       shingle_option_find(row->ops->options, name, false);
}

/**
 * table_known() - check features, keys and values without the devices
 * @row: the target
 * @t: table to check
 *
 * table_checked() makes the checks that depend on the devices.
 *
 * Return: true, or false after printing an error.
 */
bool table_known(const struct engine_row *row, const struct table_args *t)
{
	const struct shingle_option *o;
	const char *why = "";
	char name[64];
	u32 i, value;

	for (i = 0; i < t->nr_features; i++) {
		if (!shingle_option_find(row->ops->options, t->feature[i], true))
			return no_feature(row, t->feature[i]);
	}
	for (i = 0; i < t->nr_keys; i++) {
		const char *text = strchr(t->key[i], '=') + 1;

		snprintf(name, sizeof(name), "%.*s", (int)(text - 1 - t->key[i]), t->key[i]);
		o = table_key(row, t->key[i]);
		if (!o)
			return no_key(row, name);
		if (o->kind != SHINGLE_OPTION_TEXT && shingle_option_parse(o, text, &value, &why)) {
			fail("%s", why);
			return false;
		}
	}
	return true;
}

static bool key_checked(const struct image *img, const char *key, struct shingle_config *config)
{
	const char *value = strchr(key, '=') + 1, *why = "";
	char name[64];
	int err;

	snprintf(name, sizeof(name), "%.*s", (int)(value - 1 - key), key);
	err = shingle_option_set(shingle_keys, config, false, name, value, &why);
	if (err == -ENOENT)
		err = shingle_set(img->engine, name, value, &why);
	if (err == -ENOENT) {
		no_key(img->row, name);
	} else if (err < 0) {
		fail("%s", why);
	}
	return err >= 0;
}

/**
 * table_checked() - check that the target will accept the features and keys
 * @img: image with an engine
 * @t: table to check
 *
 * Checks in the order of the table line, as the kernel does.  Checks that depend on the
 * running kernel are left to it.
 *
 * Return: true, or false after printing an error.
 */
bool table_checked(const struct image *img, const struct table_args *t)
{
	struct shingle_config config = { 0 };
	const char *why = "";
	u32 i;

	img->engine->knows_life = true;
	shingle_config_init(&config, img->engine);
	for (i = 0; i < t->nr_features; i++) {
		if (!shingle_set(img->engine, t->feature[i], NULL, &why))
			continue;
		return no_feature(img->row, t->feature[i]);
	}
	for (i = 0; i < t->nr_keys; i++) {
		if (!key_checked(img, t->key[i], &config))
			return false;
	}
	if (!shingle_config_finish(&config, &why))
		return true;
	fail("%s", why);
	return false;
}

/**
 * table_needs_blocks() - check whether one of the devices is a regular file
 * @img: image with open devices
 *
 * Return: true after printing an error if one is, else false.
 */
bool table_needs_blocks(const struct image *img)
{
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		const struct device *d = &img->ds.dev[i];

		if (d->path && !d->is_block) {
			fail("%s %s is a file, and device mapper needs block devices: 'losetup --find --show %s' makes one of it",
			     d->arg, d->path, d->path);
			return true;
		}
	}
	return false;
}

/* Write a device into a table line: its path, or its number if the path has blanks. */
static void put_device(FILE *f, const struct device *d)
{
	char *path = d->path && *d->path != '/' ? realpath(d->path, NULL) : NULL;
	const char *name = path ?: d->path;

	if (!d->path)
		fputs(" -", f);
	else if (strpbrk(name, " \t\\") && d->is_block)
		fprintf(f, " %u:%u", major(d->rdev), minor(d->rdev));
	else
		fprintf(f, " %s", name);
	free(path);
}

/* Path of a device in a table line, to be freed; NULL if it cannot be found. */
static char *find_device(const char *word)
{
	char path[64], line[256], *name = NULL;
	u32 major, minor;
	int len = 0;
	FILE *f;

	if (sscanf(word, "%u:%u%n", &major, &minor, &len) != 2 || word[len])
		return strdup(word);
	/* Without udev there is no /dev/block. */
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/uevent", major, minor);
	f = fopen(path, "re");
	while (f && !name && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "DEVNAME=", 8) && asprintf(&name, "/dev/%s", line + 8) < 0)
			name = NULL;
	}
	if (f)
		fclose(f);
	return name;
}

/**
 * table_devices() - the devices in a table line
 * @params: the part of the line after the target's name; strsep() modifies it
 * @path: result, by enum shingle_dev, to be freed; NULL for an absent device
 *
 * Return: true, or false if a device cannot be found.
 */
bool table_devices(char *params, char *path[])
{
	bool ok = true;
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		char *word = strsep(&params, " ");

		path[i] = NULL;
		if (!word || !strcmp(word, "-"))
			continue;
		path[i] = find_device(word);
		ok &= path[i] != NULL;
	}
	return ok && path[SHINGLE_DEV_DATA];
}

/**
 * table_params() - the part of a table line after the target's name
 * @img: image with its layout
 * @t: features and keys
 *
 * Return: the text, to be freed, or NULL if memory is short.
 */
char *table_params(const struct image *img, const struct table_args *t)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	u32 i;

	if (!f)
		return NULL;
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		put_device(f, &img->ds.dev[i]);
	if (t->nr_features || t->nr_keys)
		fprintf(f, " %u", t->nr_features);
	for (i = 0; i < t->nr_features; i++)
		fprintf(f, " %s", t->feature[i]);
	if (t->nr_keys)
		fprintf(f, " %u", 2 * t->nr_keys);
	for (i = 0; i < t->nr_keys; i++) {
		const char *value = strchr(t->key[i], '=');

		fprintf(f, " %.*s %s", (int)(value - t->key[i]), t->key[i], value + 1);
	}
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	memmove(text, text + 1, strlen(text));	/* remove the first blank */
	return text;
}

/* Print a word quoted for a shell, so that the printed line can be pasted into one. */
static void say_quoted(const char *word)
{
	if (strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.:=@_") ==
	    strlen(word)) {
		fputs(word, stdout);
		return;
	}
	putchar('\'');
	for (; *word; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){ *word, '\0' }, stdout);
	putchar('\'');
}

/* Print the dmsetup command; the whole table is one word of it. */
static bool say_dmsetup(const char *name, u64 sectors, const char *target, const char *params,
			bool read_only)
{
	char *table;

	if (asprintf(&table, "0 %llu %s %s", sectors, target, params) < 0) {
		fail("out of memory");
		return false;
	}
	fputs("dmsetup create ", stdout);
	say_quoted(name);
	fputs(read_only ? " --readonly --table " : " --table ", stdout);
	say_quoted(table);
	putchar('\n');
	free(table);
	return true;
}

/**
 * table_open() - load the table
 * @img: image with its layout; unless @dry_run, its devices are closed and its engine freed
 * @t: features and keys
 * @name: name of the mapped device
 * @dry_run: only print the dmsetup line
 *
 * Return: an exit code.
 */
int table_open(struct image *img, const struct table_args *t, const char *name, bool dry_run)
{
	u64 sectors = img->l.logical_blocks << SHINGLE_SECTORS_SHIFT;
	char *params = table_params(img, t), uuid[UUID_STR_LEN], dm_uuid[64];
	bool read_only = devices_read_only(&img->ds), ok;
	char *node = NULL;

	if (!params)
		return fail("out of memory");
	if (dry_run) {
		ok = say_dmsetup(name, sectors, img->row->ops->name, params, read_only);
	} else {
		uuid_unparse_lower(img->l.uuid, uuid);
		snprintf(dm_uuid, sizeof(dm_uuid), "SHINGLE-%s", uuid);
		/* The kernel opens the devices exclusively and allocates a map of its own. */
		devices_close(&img->ds);
		image_drop_engine(img);
		ok = dm_device_create(name, dm_uuid, img->row->ops->name, sectors, params,
				      read_only, !t->no_udev, &node);
		if (ok)
			say("%s is ready: %s, %s", node ?: name, img->row->ops->name,
			    blocks_text(img->l.logical_blocks).s);
		free(node);
	}
	free(params);
	return ok ? EXIT_CLEAN : EXIT_OPERATION;
}
