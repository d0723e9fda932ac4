// SPDX-License-Identifier: GPL-2.0
/* shingle: format, open, watch, check and repair dm-shingle devices. */
#include "dm.h"

#ifndef SHINGLE_TOOL_VERSION
#define SHINGLE_TOOL_VERSION "unknown"
#endif

static const struct command *const commands[] = {
	&cmd_format, &cmd_create, &cmd_presets, &cmd_open, &cmd_remove, &cmd_status, &cmd_stats,
	&cmd_check, &cmd_repair, &cmd_dump, &cmd_reset, &cmd_probe,
};

static void help(FILE *f)
{
	u32 i;

	fprintf(f, "Usage: shingle COMMAND [options] ...\n\nCommands:\n");
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(f, "\n'shingle COMMAND --help' says more; so does shingle(8).\n\n"
		"Exit codes: 0 all is well; 1 repair corrected something; 4 damage was found and\n"
		"is still there; 8 could not be done; 16 wrong usage.\n");
}

int main(int argc, char **argv)
{
	u32 i;

	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		help(stdout);
		return EXIT_CLEAN;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		say("shingle %s, on-disk format %u", SHINGLE_TOOL_VERSION, SHINGLE_VERSION);
		return EXIT_CLEAN;
	}
	dm_begin();
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		int ret;

		if (strcmp(argv[1], commands[i]->name))
			continue;
		ret = commands[i]->run(commands[i], argc - 1, argv + 1);
		if (fflush(stdout) && !ret)
			ret = fail("output cannot be written: %s", strerror(errno));
		return ret;
	}
	fail("COMMAND '%s' is not known: 'shingle --help' lists them", argv[1]);
	return EXIT_USAGE;
}
