// SPDX-License-Identifier: GPL-2.0
/* Common part of the offline commands: check, repair, dump. */
#include "check.h"

/**
 * offline_run() - parse the command line, open the devices and run a command
 * @cmd: the command
 * @argc: number of arguments
 * @argv: the arguments
 * @options: OFFLINE_OPTIONS and the command's own
 * @mode: access mode of the devices
 * @fn: function of the command
 *
 * Return: an exit code.
 */
int offline_run(const struct command *cmd, int argc, char **argv, const struct option *options,
		enum device_mode mode, offline_fn fn)
{
	struct offline_args a = { 0 };
	struct check c = { 0 };
	int opt, ret = EXIT_OPERATION;
	struct image *img;

	opterr = 0;
	while ((opt = next_option(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case 'C':
			a.path[SHINGLE_DEV_CACHE] = optarg;
			break;
		case 'M':
			a.path[SHINGLE_DEV_META] = optarg;
			break;
		case 'j':
			a.json = true;
			break;
		case 'y':
			a.yes = true;
			break;
		case 'n':
			a.dry_run = true;
			break;
		case 'J':
			a.journal = true;
			break;
		case 'P':
			a.map = true;
			break;
		default:
			return option_error(cmd, opt, argv[optind - 1]);
		}
	}
	if (!parse_operands(cmd, argc, argv, 1, "DATA", &a.path[SHINGLE_DEV_DATA]))
		return EXIT_USAGE;
	if (mode == DEVICE_WRITE && a.json && !a.yes && !a.dry_run)
		return usage(cmd, "--json cannot ask for confirmation: it requires --yes or --dry-run");

	img = image_new();
	if (!img)
		return EXIT_OPERATION;
	if (devices_open(&img->ds, a.path[SHINGLE_DEV_DATA], a.path[SHINGLE_DEV_CACHE],
			 a.path[SHINGLE_DEV_META], a.dry_run ? DEVICE_READ : mode))
		ret = fn(img, &c, &a);
	check_free(&c);
	image_free(img);
	return ret;
}
