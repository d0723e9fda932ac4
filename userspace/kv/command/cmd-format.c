// SPDX-License-Identifier: GPL-2.0
/* kv format, offload, checkpoint. */
#include <sys/stat.h>

#include "command.h"

/* May the device be overwritten: does it hold nothing known, or is @force set? */
static bool may_be_written(const char *name, const char *path, bool force)
{
	struct device look;
	char what[256];
	bool found;

	if (!device_open(&look, name, path, DEVICE_READ))
		return false;
	found = device_has_content(&look, what, sizeof(what));
	device_close(&look);
	if (found && !force)
		fail("%s %s contains %s and was not changed; --force overwrites it", name, path, what);
	return !found || force;
}

static int wipe(const char *name, const char *path)
{
	struct device d;
	int err;

	if (!device_open(&d, name, path, DEVICE_WRITE))
		return EXIT_OPERATION;
	err = device_wipe_signatures(&d);
	device_close(&d);
	return err ? fail("%s %s: its old contents cannot be wiped: %s", name, path, strerror(-err)) :
		EXIT_CLEAN;
}

/* Use the band size of the layer below, unless the user has given one. */
static void take_bands(const char *path, struct kv_format_options *opt)
{
	char layer[32];
	u32 bytes;

	if (opt->band_bytes || !layer_bands(path, &bytes, layer, sizeof(layer)))
		return;
	opt->band_bytes = bytes;
	say("bands of %s, because of the bands of %s below", size_text(bytes).s, layer);
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "band", required_argument, NULL, 'b' },
		{ "organisation", required_argument, NULL, 'o' },
		{ "size", required_argument, NULL, 's' }, { "force", no_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	struct kv_format_options opt = { .size = sizeof(struct kv_format_options), .bytes = 0 };
	const char *path;
	bool force = false;
	u64 bytes;
	int c, err;

	while ((c = next_option(argc, argv, "+:h", options, NULL)) != -1) {
		if (c == 'b') {
			if (!parse_size("--band", optarg, &bytes))
				return EXIT_USAGE;
			if (bytes < KV_BAND_MIN || bytes > KV_BAND_MAX)
				return usage(cmd, "--band %s: %s to %s", optarg,
					     size_text(KV_BAND_MIN).s, size_text(KV_BAND_MAX).s);
			opt.band_bytes = (uint32_t)bytes;
		} else if (c == 's') {
			if (!parse_size("--size", optarg, &bytes))
				return EXIT_USAGE;
			opt.bytes = bytes;
		} else if (c == 'o') {
			if (!take_organisation(optarg, &opt.organisation))
				return usage(cmd, "--organisation '%s' is not known: choose soc, loc or buffered",
					     optarg);
		} else if (c == 'f') {
			force = true;
		} else {
			return option_error(cmd, c, argv[optind - 1]);
		}
	}
	if (!parse_operands(cmd, argc, argv, 1, "DEVICE", &path))
		return EXIT_USAGE;
	if (!may_be_written("DEVICE", path, force))
		return EXIT_OPERATION;
	take_bands(path, &opt);
	err = kv_format(path, &opt);
	if (err)
		return failed(err);
	/* Wipe only after the store has been made. */
	return force ? wipe("DEVICE", path) : EXIT_CLEAN;
}

static int offload(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' }, { "force", no_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	const char *path, *to;
	bool force = false;
	u64 bytes = 0;
	int c, err;

	while ((c = next_option(argc, argv, "+:h", options, NULL)) != -1) {
		if (c == 's') {
			if (!parse_size("--size", optarg, &bytes))
				return EXIT_USAGE;
		} else if (c == 'f') {
			force = true;
		} else {
			return option_error(cmd, c, argv[optind - 1]);
		}
	}
	if (!parse_operands(cmd, argc, argv, 2, "DEVICE", &path, "OFFLOAD", &to))
		return EXIT_USAGE;
	if (!may_be_written("OFFLOAD", to, force))
		return EXIT_OPERATION;
	err = kv_offload(path, to, bytes);
	if (err)
		return failed(err);
	return force ? wipe("OFFLOAD", to) : EXIT_CLEAN;
}

/* A missing file, an empty file and a directory hold nothing that could be lost. */
static bool may_get_copy(const char *path, bool force)
{
	struct stat st;

	if (stat(path, &st) || S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !st.st_size))
		return true;
	return may_be_written("TO", path, force);
}

static int checkpoint(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "force", no_argument, NULL, 'f' },
		{ "offload", required_argument, NULL, 'O' },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	struct words w = { .json = false };
	const char *path, *to;
	struct stat st;
	bool force = false;
	struct kv *kv;
	int c, err, ret;

	while ((c = next_option(argc, argv, "+:h", options, NULL)) != -1) {
		if (c == 'f')
			force = true;
		else if (c == 'O')
			w.offload = optarg;
		else
			return option_error(cmd, c, argv[optind - 1]);
	}
	if (!parse_operands(cmd, argc, argv, 2, "DEVICE", &path, "TO", &to))
		return EXIT_USAGE;
	if (!may_get_copy(to, force))
		return EXIT_OPERATION;
	err = kv_live_checkpoint(path, to);
	ret = err ? EXIT_OPERATION : EXIT_CLEAN;
	if (err == -ENOTCONN) {
		ret = open_store(&kv, path, KV_READ_ONLY, &w);
		if (ret)
			return ret;
		err = kv_checkpoint(kv, to, NULL);
		ret = close_store(kv, err ? failed(err) : EXIT_CLEAN);
	} else if (err) {
		ret = failed(err);
	}
	return !ret && force && !stat(to, &st) && !S_ISDIR(st.st_mode) ? wipe("TO", to) : ret;
}

const struct command kv_cmd_checkpoint = {
	.name = "checkpoint",
	.summary = "copy a store, even one that is in use",
	.help = "Usage: kv checkpoint [options] DEVICE TO\n\n"
		"Makes TO a store with all keys and values that DEVICE has now.  TO is a block device\n"
		"or a file; a missing file is created; in a directory its name is the store's UUID\n"
		"with .kv.  TO is refused if it has known contents.  If a program has DEVICE open,\n"
		"that program makes the copy.\n\n"
		"  --force     overwrite the contents of TO\n"
		COMMON_HELP,
	.run = checkpoint,
};

const struct command kv_cmd_format = {
	.name = "format",
	.summary = "create an empty store",
	.help = "Usage: kv format [options] DEVICE\n\n"
		"DEVICE is a block device or a file of the intended size.  It is refused if it has\n"
		"known contents.\n\n"
		"  --band SIZE           size of a band: 64K to 1G (as the dm-shingle layer below\n"
		"                        has them, else 80M, or 64M with buffered)\n"
		"  --organisation WHICH  soc: two levels, merged where it pays; loc: as\n"
		"                        LevelDB; buffered: the log is the first of four\n"
		"                        (soc)\n"
		"  --size SIZE           part of DEVICE to use (all)\n"
		"  --force               overwrite the contents of DEVICE\n"
		"  -h, --help            print this text\n",
	.run = run,
};

const struct command kv_cmd_offload = {
	.name = "offload",
	.summary = "set up a device for the writes that arrive while a store merges",
	.help = "Usage: kv offload [options] DEVICE OFFLOAD\n\n"
		"Makes OFFLOAD the offload device of the store on DEVICE.  The organisation of the\n"
		"store must be buffered, and no other offload device may have its writes.  OFFLOAD is\n"
		"a block device or a file of the intended size; it is refused if it has known\n"
		"contents.\n\n"
		"  --size SIZE  part of OFFLOAD to use (all)\n"
		"  --force      overwrite the contents of OFFLOAD\n"
		"  -h, --help   print this text\n",
	.run = offload,
};
