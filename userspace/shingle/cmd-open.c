// SPDX-License-Identifier: GPL-2.0
/* shingle open, shingle remove. */
#include "dm.h"
#include "engines.h"
#include "table.h"

static int do_open(struct image *img, const char *const path[], const char *name,
		   struct table_args *t, const struct preset *preset, bool settings, bool dry_run)
{
	char kept[SHINGLE_SETTINGS_BYTES + 1] = "";
	const char *why = "";
	int ret;

	if (!devices_open(&img->ds, path[SHINGLE_DEV_DATA], path[SHINGLE_DEV_CACHE],
			  path[SHINGLE_DEV_META], DEVICE_READ) || !image_load(img))
		return EXIT_OPERATION;
	if (img->l.dev_blocks[SHINGLE_DEV_CACHE] && !img->ds.dev[SHINGLE_DEV_CACHE].path)
		return fail("%s keeps its cache on another device: name it with --cache",
			    path[SHINGLE_DEV_DATA]);
	if (preset && strcmp(preset->target, img->row->ops->name))
		return fail("%s is %s, and %s holds %s", preset->name, preset->target,
			    path[SHINGLE_DEV_DATA], img->row->ops->name);
	if (image_fresh_engine(img, &why))
		return fail("%s: %s", img->row->ops->name, why);
	if (settings && !image_settings(img, kept))
		return EXIT_OPERATION;
	if (!table_known(img->row, t) || !table_take_habits(t, preset, kept))
		return EXIT_USAGE;
	if (!table_checked(img, t))
		return *kept ? fail("%s keeps the settings %s: 'shingle set' changes them, --no-settings opens it without them",
				    path[SHINGLE_DEV_DATA], kept) : EXIT_USAGE;
	if (!dry_run && (table_needs_blocks(img) ||
			 !dm_device_possible(name, img->row->ops->name)))
		return EXIT_OPERATION;
	if (img->l.flags & SHINGLE_SB_NEEDS_CHECK)
		fprintf(stderr, "shingle: %s is marked needs_check: run 'shingle check', then 'shingle repair'\n",
			path[SHINGLE_DEV_DATA]);
	ret = table_open(img, t, name, dry_run);
	if (!ret && !dry_run)
		table_warn(t, preset);
	return ret;
}

static int run_open(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "cache", required_argument, NULL, 'C' },
		{ "meta", required_argument, NULL, 'M' },
		{ "preset", required_argument, NULL, 'P' },
		{ "no-settings", no_argument, NULL, 'N' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		TABLE_OPTIONS,
		{ NULL, 0, NULL, 0 },
	};
	const char *path[SHINGLE_NR_DEVS] = { NULL }, *name;
	struct table_args table = { 0 };
	const struct preset *preset = NULL;
	struct image *img;
	bool settings = true, dry_run = false;
	int c, ret;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
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
	.help = "Usage: shingle open DATA NAME [options]\n\n"
		"Reads the superblock, and loads the table that it asks for: with the settings that\n"
		"the device keeps (see 'shingle set'), and what is given here, for this time.\n\n"
		"  --cache DEV       the cache device, if it was formatted with one\n"
		"  --meta DEV        the metadata device, if it was formatted with one\n"
		"  --preset NAME     the settings of a drive of the literature, see 'shingle presets'\n"
		"  --no-settings     without those that the device keeps\n"
		TABLE_HELP TABLE_UDEV_HELP
		"  --dry-run         print the dmsetup line, change nothing\n",
	.more_help = table_help,
	.run = run_open,
};

/* Ours are the translation layers and their medium; one without a table is nobody's. */
static bool may_remove(const char *name, bool dry_run)
{
	struct dm_line line;
	bool ours;

	if (!dm_device_status(name, &line))
		return false;
	ours = !*line.target || engine_by_name(line.target) || !strcmp(line.target, "platter");
	if (!ours)
		fail("%s is a device of type '%s', not one of dm-shingle's: 'dmsetup remove %s' would do it",
		     name, line.target, name);
	if (ours && dry_run) {
		ours = dm_line_idle(&line);
		if (ours)
			say("%s would be closed; its data stay", name);
	}
	dm_line_free(&line);
	return ours;
}

static int run_remove(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "no-udev", no_argument, NULL, 'U' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *name;
	bool udev = true, dry_run = false;
	int c;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		if (c != 'U' && c != 'n')
			return option_error(cmd, c, argv[optind - 1]);
		udev &= c != 'U';
		dry_run |= c == 'n';
	}
	if (!parse_operands(cmd, argc, argv, 1, "NAME", &name) || !dm_name_valid(name))
		return EXIT_USAGE;
	return may_remove(name, dry_run) && (dry_run || dm_device_remove(name, udev)) ? EXIT_CLEAN : EXIT_OPERATION;
}

const struct command cmd_remove = {
	.name = "remove",
	.summary = "close an open device; its data stay",
	.help = "Usage: shingle remove NAME\n\n"
		"Writes what is pending and takes /dev/mapper/NAME away.  Nothing is lost:\n"
		"'shingle open' brings it back.  Devices of other targets than dm-shingle's are\n"
		"left alone.\n\n"
		"  --no-udev         do not wait for udev\n"
		"  --dry-run         say whether it could be closed, and do not\n",
	.run = run_remove,
};
