// SPDX-License-Identifier: GPL-2.0
/*
 * kvbench: loads a key-value store as YCSB and db_bench do, back to back or with requests that
 * arrive by a realistic process.
 */
#include "settings.h"

static const struct command *const commands[] = { &cmd_load, &cmd_run, &cmd_arrivals };

static void help(FILE *f)
{
	fputs("Usage: kvbench COMMAND [OPTION]...\n"
	      "Load a key-value store back to back, or as requests arrive.\n\n", f);
	list_commands(f, commands, ARRAY_SIZE(commands));
	fputs("\n'kvbench COMMAND --help' and kvbench(1) explain them.  Exit status: 0 success, 4 a\n"
	      "value was wrong, 8 the command failed, 16 wrong usage.\n", f);
}

int main(int argc, char **argv)
{
	tool_name = "kvbench";
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		help(stdout);
		return EXIT_CLEAN;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		say("kvbench %s", tool_release);
		return EXIT_CLEAN;
	}
	return run_command(commands, ARRAY_SIZE(commands), argc, argv);
}
