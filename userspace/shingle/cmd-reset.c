// SPDX-License-Identifier: GPL-2.0
/* shingle reset. */
#include "dm.h"
#include "engines.h"

/* Ask for the complete name, because y is too easily typed for this. */
static bool confirm_name(const struct dm_line *line)
{
	char answer[sizeof(line->name) + 2];
	size_t n;

	printf("This erases all contents of %s, %s.  Type its name to continue: ", line->name,
	       size_text(line->sectors << 9).s);
	fflush(stdout);
	if (!fgets(answer, sizeof(answer), stdin))
		return false;
	n = strcspn(answer, "\n");
	answer[n] = '\0';
	return !strcmp(answer, line->name);
}

static int reset(const struct dm_line *line, bool force, bool dry_run)
{
	char *reply;

	if (!engine_by_name(line->target))
		return fail("%s is a device of type '%s', which cannot be reset", line->name,
			    *line->target ? line->target : "none");
	if (!dm_line_idle(line))
		return EXIT_OPERATION;
	if (dry_run) {
		say("all contents of %s, %s, would be erased", line->name,
		    size_text(line->sectors << 9).s);
		return EXIT_CLEAN;
	}
	if (!force && !confirm_name(line))
		return fail("%s: unchanged", line->name);
	reply = dm_device_message(line->name, "reset");
	free(reply);
	return reply ? EXIT_CLEAN : EXIT_OPERATION;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "force", no_argument, NULL, 'f' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool force = false, dry_run = false;
	struct dm_line line;
	const char *name;
	int c, ret;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		if (c != 'f' && c != 'n')
			return option_error(cmd, c, argv[optind - 1]);
		force |= c == 'f';
		dry_run |= c == 'n';
	}
	if (!parse_operands(cmd, argc, argv, 1, "NAME", &name) || !dm_name_valid(name))
		return EXIT_USAGE;
	if (!dm_device_status(name, &line))
		return EXIT_OPERATION;
	ret = reset(&line, force, dry_run);
	dm_line_free(&line);
	return ret;
}

const struct command cmd_reset = {
	.name = "reset",
	.summary = "erase all contents of an open device",
	.help = "Usage: shingle reset NAME [options]\n\n"
		"Erases the device as a drive's secure erase does: every block reads as zeroes from\n"
		"then on, even after 'shingle repair'.  The device must not be in use.  The medium is\n"
		"not overwritten: a program that reads DATA itself still finds the old contents.\n\n"
		"  --force           do not ask for confirmation\n"
		"  --dry-run         print what would be erased; change nothing\n",
	.run = run,
};
