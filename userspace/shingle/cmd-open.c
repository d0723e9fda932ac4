// SPDX-License-Identifier: GPL-2.0
/* shingle open, shingle remove. */
#include "dm.h"
#include "engines.h"
#include "lines.h"
#include "tab.h"

/*
 * Report a refused table.  If the stored settings alone are refused, name them and the
 * remedy; otherwise the options given with the command are at fault.
 */
static int refused(struct image *img, const struct table_args *given, const struct preset *preset,
		   const char *kept)
{
	struct table_args alone = { 0 };
	const char *why;

	if (!*kept)
		return EXIT_USAGE;
	if ((preset || given->nr_features || given->nr_keys || given->nr_without) &&
	    !image_fresh_engine(img, &why) && table_take_habits(&alone, NULL, kept) &&
	    table_checked(img, &alone))
		return EXIT_USAGE;
	return fail("the settings stored on %s are not valid: %s; 'shingle set' changes them, --no-settings opens it without them",
		    img->ds.dev[SHINGLE_DEV_DATA].path, kept);
}

static int do_open(struct image *img, const char *const path[], const char *name,
		   struct table_args *t, const struct preset *preset, bool settings, bool dry_run)
{
	char kept[SHINGLE_SETTINGS_BYTES + 1] = "";
	const struct table_args given = *t;
	char text[SIZE_SENTENCE];
	const char *why = "";
	int ret;
	u32 i;

	if (!devices_open(&img->ds, path[SHINGLE_DEV_DATA], path[SHINGLE_DEV_CACHE],
			  path[SHINGLE_DEV_META], DEVICE_READ) || !image_load(img))
		return EXIT_OPERATION;
	if (img->l.dev_blocks[SHINGLE_DEV_CACHE] && !img->ds.dev[SHINGLE_DEV_CACHE].path)
		return fail("%s has its cache on another device: name it with --cache",
			    path[SHINGLE_DEV_DATA]);
	if (preset && strcmp(preset->target, img->row->ops->name))
		return fail("preset %s is for %s, but %s is formatted for %s", preset->name, preset->target,
			    path[SHINGLE_DEV_DATA], img->row->ops->name);
	if (image_fresh_engine(img, &why))
		return fail("%s: %s", img->row->ops->name, why);
	if (settings && !image_settings(img, kept, "--no-settings opens it without them"))
		return EXIT_OPERATION;
	if (!table_known(img->row, t) || !table_take_habits(t, preset, kept))
		return EXIT_USAGE;
	if (!table_checked(img, t))
		return refused(img, &given, preset, kept);
	if (!dry_run && (table_needs_blocks(img) ||
			 !dm_device_possible(name, img->row->ops->name)))
		return EXIT_OPERATION;
	if (img->l.flags & SHINGLE_SB_NEEDS_CHECK)
		fprintf(stderr, "shingle: %s is marked needs_check: run 'shingle check', then 'shingle repair'\n",
			path[SHINGLE_DEV_DATA]);
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (image_larger(img, i, text))
			fprintf(stderr, "shingle: %s\n", text);
	}
	ret = table_open(img, t, name, dry_run);
	if (!ret && !dry_run)
		table_warn(t, preset);
	return ret;
}

/*
 * True if the open device @name is a layer; it may have been opened by hand.  Else prints an
 * error.
 */
static bool is_ours(const char *name)
{
	struct dm_line line;
	bool ours;

	if (!dm_device_status(name, &line))
		return false;
	ours = engine_by_name(line.target);
	if (!ours)
		fail("%s is open, but is a device of type '%s', which is not a translation layer", name,
		     line.target);
	dm_line_free(&line);
	return ours;
}

/* Open the device of a line.  A device that is open already is a success. */
static int open_line(const struct tab *tab, const struct tab_line *line, bool no_udev,
		     bool dry_run)
{
	const char *path[SHINGLE_NR_DEVS] = { NULL };
	struct table_args t = line->table;
	struct image *img;
	bool open = false;
	u32 i;
	int ret;

	if (*line->why) {
		tab_blame(tab, line);
		return EXIT_USAGE;
	}
	if (!dry_run && !dm_device_is_open(line->name, &open))
		return EXIT_OPERATION;
	if (open)
		return is_ours(line->name) ? EXIT_CLEAN : EXIT_OPERATION;
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		path[i] = *line->path[i] ? line->path[i] : NULL;
	t.no_udev = no_udev;
	img = image_new();
	if (!img)
		return EXIT_OPERATION;
	ret = do_open(img, path, line->name, &t, line->preset, !line->no_settings, dry_run);
	image_free(img);
	return ret;
}

/* Check all lines before any device is opened or closed. */
static bool tab_is_sound(const struct tab *tab)
{
	bool ok = true;
	u32 i;

	for (i = 0; i < tab->nr; i++) {
		if (!*tab->line[i].why)
			continue;
		tab_blame(tab, &tab->line[i]);
		ok = false;
	}
	return ok;
}

/* Open all devices; a failure does not stop the others. */
static int open_all(const struct tab *tab, bool no_udev, bool dry_run)
{
	int ret = EXIT_CLEAN, one;
	u32 i;

	for (i = 0; i < tab->nr; i++) {
		if (tab->line[i].noauto)
			continue;
		one = open_line(tab, &tab->line[i], no_udev, dry_run);
		ret = max(ret, one);
	}
	return ret;
}

static int open_named(const struct tab *tab, char **names, int nr, bool no_udev, bool dry_run)
{
	int ret = EXIT_CLEAN, i, one;

	for (i = 0; i < nr; i++) {
		const struct tab_line *line = tab_find(tab, names[i]);

		one = line ? open_line(tab, line, no_udev, dry_run) : EXIT_USAGE;
		ret = max(ret, one);
	}
	return ret;
}

/* Check the operands of --tab: either names or --all. */
static bool names_or_all(const struct command *cmd, int argc, char **argv, bool all)
{
	if (all && optind < argc)
		usage(cmd, "--all takes no names: omit '%s'", argv[optind]);
	else if (!all && optind == argc)
		usage(cmd, "NAME is missing: --tab requires names or --all");
	else
		return true;
	return false;
}

static int run_open_tab(const struct command *cmd, int argc, char **argv, bool all, bool no_udev,
			bool dry_run)
{
	struct tab tab;
	int ret;

	if (!names_or_all(cmd, argc, argv, all))
		return EXIT_USAGE;
	if (!tab_read(&tab))
		return EXIT_OPERATION;
	if (!all)
		ret = open_named(&tab, argv + optind, argc - optind, no_udev, dry_run);
	else
		ret = tab_is_sound(&tab) ? open_all(&tab, no_udev, dry_run) : EXIT_USAGE;
	tab_free(&tab);
	return ret;
}

static int run_open(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "cache", required_argument, NULL, 'C' },
		{ "meta", required_argument, NULL, 'M' },
		{ "preset", required_argument, NULL, 'P' },
		{ "no-settings", no_argument, NULL, 'N' },
		{ "tab", no_argument, NULL, 'T' },
		{ "all", no_argument, NULL, 'A' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		TABLE_OPTIONS,
		{ NULL, 0, NULL, 0 },
	};
	const char *path[SHINGLE_NR_DEVS] = { NULL }, *name;
	struct table_args table = { 0 };
	const struct preset *preset = NULL;
	struct image *img;
	bool settings = true, dry_run = false, tab = false, all = false, own = false;
	int c, ret;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		/* Options that the line in the tab specifies itself. */
		own |= strchr("CMPNFWS", c) != NULL;
		switch (c) {
		case 'T':
			tab = true;
			break;
		case 'A':
			all = true;
			break;
		case 'C':
			path[SHINGLE_DEV_CACHE] = optarg;
			break;
		case 'M':
			path[SHINGLE_DEV_META] = optarg;
			break;
		case 'P':
			preset = table_find_preset(optarg);
			if (!preset)
				return EXIT_USAGE;
			break;
		case 'N':
			settings = false;
			break;
		case 'n':
			dry_run = true;
			break;
		case 'F':
		case 'W':
		case 'S':
		case 'U':
			if (!table_option(&table, c, optarg))
				return EXIT_USAGE;
			break;
		default:
			return option_error(cmd, c, argv[optind - 1]);
		}
	}
	if (tab && own)
		return usage(cmd, "with --tab the options of a device are in its line of the file: omit them here");
	if (all && !tab)
		return usage(cmd, "--all requires --tab");
	if (tab)
		return run_open_tab(cmd, argc, argv, all, table.no_udev, dry_run);
	if (argc - optind > 2 && target_is_platter(argv[optind]))
		return usage(cmd, "a platter stores no metadata, so it cannot be opened: 'shingle create platter %s %s', with the options of its creation, makes it again",
			     argv[optind + 1], argv[optind + 2]);
	if (!parse_operands(cmd, argc, argv, 2, "DATA", &path[SHINGLE_DEV_DATA], "NAME", &name) ||
	    !dm_name_valid(name))
		return EXIT_USAGE;
	img = image_new();
	if (!img)
		return EXIT_OPERATION;
	ret = do_open(img, path, name, &table, preset, settings, dry_run);
	image_free(img);
	return ret;
}

const struct command cmd_open = {
	.name = "open",
	.summary = "make a formatted device usable as /dev/mapper/NAME",
	.help = "Usage: shingle open DATA NAME [options]\n"
		"       shingle open --tab NAME ...|--all [--no-udev] [--dry-run]\n\n"
		"Reads the superblock of DATA and loads a table with the settings that are stored on\n"
		"it (see 'shingle set').  Options given here take precedence, for this opening only.\n"
		"A platter stores nothing and cannot be opened: create it again with the same options.\n\n"
		"  --cache DEV       the cache device, if it was formatted with one\n"
		"  --meta DEV        the metadata device, if it was formatted with one\n"
		"  --preset NAME     the settings of a drive of the literature, see 'shingle presets'\n"
		"  --no-settings     ignore the settings that are stored on DATA\n"
		"  --tab             open NAME as its line in /etc/shingletab says, see shingletab(5)\n"
		"  --all             with --tab: open all lines except those with noauto\n"
		TABLE_HELP TABLE_UDEV_HELP
		"  --dry-run         print the dmsetup command; change nothing\n",
	.more_help = table_help_all,
	.run = run_open,
};

/* Only layers, platters and devices without a table may be removed. */
static bool may_remove(const char *name, bool dry_run)
{
	struct dm_line line;
	bool ours;

	if (!dm_device_status(name, &line))
		return false;
	ours = !*line.target || target_is_ours(line.target);
	if (!ours)
		fail("%s is a device of type '%s', not of dm-shingle: 'dmsetup remove %s' removes it",
		     name, line.target, name);
	if (ours && dry_run) {
		ours = dm_line_idle(&line);
		if (ours)
			say("%s would be closed; its data would be kept", name);
	}
	dm_line_free(&line);
	return ours;
}

/* Remove a device even if it has data that cannot be saved; report the number of lost blocks. */
static int remove_one(const char *name, bool udev, bool dry_run)
{
	unsigned long long unsaved;

	if (!may_remove(name, dry_run))
		return EXIT_OPERATION;
	if (dry_run)
		return EXIT_CLEAN;
	unsaved = dm_device_unsaved(name, udev);
	if (!dm_device_remove(name, udev))
		return EXIT_OPERATION;
	if (!unsaved)
		return EXIT_CLEAN;
	fail("%s is closed, but %llu acknowledged blocks could not be made durable and are lost; see the kernel log (dmesg)",
	     name, unsaved);
	return EXIT_UNCORRECTED;
}

/* Close the device of a line.  A device that is closed already is a success. */
static int remove_line(const struct tab_line *line, bool udev, bool dry_run)
{
	bool open;

	if (!dm_device_is_open(line->name, &open))
		return EXIT_OPERATION;
	return open ? remove_one(line->name, udev, dry_run) : EXIT_CLEAN;
}

static int run_remove_tab(const struct command *cmd, int argc, char **argv, bool all, bool udev,
			  bool dry_run)
{
	int ret = EXIT_CLEAN, one, i;
	struct tab tab;

	if (!names_or_all(cmd, argc, argv, all))
		return EXIT_USAGE;
	if (!tab_read(&tab))
		return EXIT_OPERATION;
	if (all && !tab_is_sound(&tab)) {
		tab_free(&tab);
		return EXIT_USAGE;
	}
	/* A later device may be stacked on an earlier one, so close them in reverse order. */
	for (i = (int)tab.nr - 1; all && i >= 0; i--) {
		one = remove_line(&tab.line[i], udev, dry_run);
		ret = max(ret, one);
	}
	for (i = optind; i < argc; i++) {
		const struct tab_line *line = tab_find(&tab, argv[i]);

		one = line ? remove_line(line, udev, dry_run) : EXIT_USAGE;
		ret = max(ret, one);
	}
	tab_free(&tab);
	return ret;
}

static int run_remove(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "tab", no_argument, NULL, 'T' },
		{ "all", no_argument, NULL, 'A' },
		{ "no-udev", no_argument, NULL, 'U' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *name;
	bool udev = true, dry_run = false, tab = false, all = false;
	int c;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		if (!strchr("TAUn", c))
			return option_error(cmd, c, argv[optind - 1]);
		tab |= c == 'T';
		all |= c == 'A';
		udev &= c != 'U';
		dry_run |= c == 'n';
	}
	if (all && !tab)
		return usage(cmd, "--all requires --tab");
	if (tab)
		return run_remove_tab(cmd, argc, argv, all, udev, dry_run);
	if (!parse_operands(cmd, argc, argv, 1, "NAME", &name) || !dm_name_valid(name))
		return EXIT_USAGE;
	return remove_one(name, udev, dry_run);
}

const struct command cmd_remove = {
	.name = "remove",
	.summary = "close an open device; its data are kept",
	.help = "Usage: shingle remove NAME\n"
		"       shingle remove --tab NAME ...|--all\n\n"
		"Writes pending data and removes /dev/mapper/NAME; 'shingle open' opens it again.  If\n"
		"acknowledged data cannot be written, the device is closed all the same, a message\n"
		"gives the number of lost blocks, and the exit status is 4.  Devices of targets that\n"
		"do not belong to dm-shingle are refused.\n\n"
		"  --tab             close NAME, which must be in /etc/shingletab, if it is open\n"
		"  --all             with --tab: close all devices of the file, the last one first\n"
		"  --no-udev         do not wait for udev\n"
		"  --dry-run         print whether the device could be closed; change nothing\n",
	.run = run_remove,
};
