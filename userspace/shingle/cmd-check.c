// SPDX-License-Identifier: GPL-2.0
/* shingle check. */
#include "check.h"

static void print_json(const char *path, const struct image *img, const struct check *c)
{
	struct json_object *j = json_dict(NULL, NULL);

	json_str(j, "device", path);
	json_bool(j, "clean", !c->found.nr_errors);
	json_u64(j, "errors", c->found.nr_errors);
	findings_json(&c->found, j);
	if (c->recovered) {
		json_u64(j, "checkpoint", img->rec.ckpt_seq);
		json_u64(j, "checkpoint_chunks", img->rec.ckpt_chunks);
		json_u64(j, "transactions", img->rec.transactions);
		json_u64(j, "records", img->rec.records);
		json_u64(j, "journal_used_blocks", img->rec.used_blocks);
		json_u64(j, "cached_blocks", img->row->ops->observe.cached_blocks(img->engine));
		json_u64(j, "bad_blocks", img->bad.nr);
	}
	json_print(j, stdout);
}

static void print(const char *path, const struct image *img, const struct check *c)
{
	findings_print(&c->found);
	if (c->found.nr_errors)
		say("%s: %u error%s; 'shingle repair' can correct them or reports why not", path,
		    c->found.nr_errors, c->found.nr_errors == 1 ? "" : "s");
	else
		say("%s: clean; checkpoint %llu, %llu transactions with %llu records after it, %llu blocks cached",
		    path, img->rec.ckpt_seq, img->rec.transactions, img->rec.records,
		    img->row->ops->observe.cached_blocks(img->engine));
}

static int do_check(struct image *img, struct check *c, const struct offline_args *a)
{
	const char *path = a->path[SHINGLE_DEV_DATA];

	if (!check_run(img, c) && !c->found.nr_errors)
		return EXIT_OPERATION;
	if (a->json)
		print_json(path, img, c);
	else
		print(path, img, c);
	return c->found.nr_errors ? EXIT_UNCORRECTED : EXIT_CLEAN;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		OFFLINE_OPTIONS,
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};

	return offline_run(cmd, argc, argv, options, DEVICE_READ, do_check);
}

const struct command cmd_check = {
	.name = "check",
	.summary = "check the metadata of a closed device; changes nothing",
	.help = "Usage: shingle check DATA [options]\n\n"
		"Reads the superblocks, both checkpoints and the journal, rebuilds the map and\n"
		"verifies it.  The device must be closed.  Prints one line for each finding: errors\n"
		"are damage; notes are legal traces of a power cut, which recovery handles.\n\n"
		OFFLINE_HELP
		"  --json            print JSON\n\n"
		"Exit codes: 0 clean, 4 errors found, 8 could not be checked, 16 wrong usage.\n",
	.run = run,
};
