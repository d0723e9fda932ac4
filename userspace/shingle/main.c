// SPDX-License-Identifier: GPL-2.0
/* shingle: format, open, watch, check and repair dm-shingle devices. */
#include "dm.h"
#include "tab.h"

static const struct command *const commands[] = {
	&cmd_format, &cmd_create, &cmd_presets, &cmd_open, &cmd_set, &cmd_remove, &cmd_list,
	&cmd_status, &cmd_stats, &cmd_check, &cmd_repair, &cmd_dump, &cmd_reset, &cmd_probe,
};

static void help(FILE *f)
{
	fprintf(f, "Usage: shingle COMMAND [options] ...\n\nCommands:\n");
	list_commands(f, commands, ARRAY_SIZE(commands));
	fprintf(f, "\n'shingle help COMMAND' and shingle(8) explain them.\n\n"
		"Exit codes: 0 success, no errors found; 1 repair corrected errors; 4 errors were found\n"
		"and remain; 8 devices or kernel prevented the command; 16 wrong usage.\n");
}

int main(int argc, char **argv)
{
	const char *as = argc ? strrchr(argv[0], '/') : NULL;

	if (argc && !strcmp(as ? as + 1 : argv[0], "shingle-generator"))
		return tab_generate(argc, argv);
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (argc > 2 && !strcmp(argv[1], "help")) {
		char *asked[] = { argv[0], argv[2], "--help", NULL };

		if (argc == 3)
			return run_command(commands, ARRAY_SIZE(commands), 3, asked);
		fail("'%s' is one argument too many: 'shingle help COMMAND' explains one command", argv[3]);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		help(stdout);
		return output_end(EXIT_CLEAN);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		say("shingle %s, on-disk format %u", tool_release, SHINGLE_VERSION);
		return output_end(EXIT_CLEAN);
	}
	dm_begin();
	return run_command(commands, ARRAY_SIZE(commands), argc, argv);
}
