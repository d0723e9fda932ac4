// SPDX-License-Identifier: GPL-2.0
/* shingle check. */
#include "check.h"

static void print_json(const char *path, const struct image *img, const struct check *c)
{
	struct json j;

	json_begin(&j, stdout);
	json_open(&j, NULL, '{');
	json_str(&j, "device", path);
	json_bool(&j, "clean", !c->found.nr_errors);
	json_u64(&j, "errors", c->found.nr_errors);
	findings_json(&c->found, &j);
	if (c->recovered) {
		json_u64(&j, "checkpoint", img->rec.ckpt_seq);
		json_u64(&j, "checkpoint_chunks", img->rec.ckpt_chunks);
		json_u64(&j, "transactions", img->rec.transactions);
		json_u64(&j, "records", img->rec.records);
		json_u64(&j, "journal_used_blocks", img->rec.used_blocks);
		json_u64(&j, "cached_blocks", img->row->ops->cached_blocks(img->engine));
		json_u64(&j, "bad_blocks", img->bad.nr);
	}
	json_close(&j, '}');
	json_end(&j);
}

static void print(const char *path, const struct image *img, const struct check *c)
{
	findings_print(&c->found);
	if (c->found.nr_errors)
		say("%s: %u error%s; 'shingle repair' says what can be done", path,
		    c->found.nr_errors, c->found.nr_errors == 1 ? "" : "s");
	else
		say("%s: clean; checkpoint %llu, %llu transactions with %llu records after it, %llu blocks cached",
		    path, img->rec.ckpt_seq, img->rec.transactions, img->rec.records,
		    img->row->ops->cached_blocks(img->engine));
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "cache", required_argument, NULL, 'C' },
		{ "meta", required_argument, NULL, 'M' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *data, *cache = NULL, *meta = NULL;
	int opt, ret = EXIT_OPERATION;
	struct check c = { 0 };
	struct image *img;
	bool json = false;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case 'C':
			cache = optarg;
			break;
		case 'M':
			meta = optarg;
			break;
		case 'j':
			json = true;
			break;
		default:
			return option_error(cmd, opt, argv[optind - 1]);
		}
	}
	if (!parse_operands(cmd, argc, argv, 1, "DATA", &data))
		return EXIT_USAGE;
	img = image_new();
	if (img && devices_open(&img->ds, data, cache, meta, DEVICE_READ)) {
		if (check_run(img, &c) || c.found.nr_errors) {
			if (json)
				print_json(data, img, &c);
			else
				print(data, img, &c);
			ret = c.found.nr_errors ? EXIT_UNCORRECTED : EXIT_CLEAN;
		}
		check_free(&c);
	}
	if (img)
		image_free(img);
	return ret;
}

const struct command cmd_check = {
	.name = "check",
	.summary = "look a closed device's metadata over; changes nothing",
	.help = "Usage: shingle check DATA [options]\n\n"
		"Reads superblocks, both checkpoints and the journal, rebuilds the map and\n"
		"verifies it.  The device must not be open.  One line for each finding: errors\n"
		"are damage, notes are what a power cut may leave and recovery deals with.\n\n"
		"  --cache DEV       the cache device, to have its size checked\n"
		"  --meta DEV        the metadata device, if it was formatted with one\n"
		"  --json            in JSON\n\n"
		"Exit codes: 0 clean, 4 errors found, 8 could not be checked, 16 wrong usage.\n",
	.run = run,
};
