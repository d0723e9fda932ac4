// SPDX-License-Identifier: GPL-2.0
/*
 * kvbench: loads a key-value store as YCSB and db_bench do, back to back or when
 * requests arrive by a process that is like real ones.
 */
#include "commands.h"

static const struct command *const commands[] = { &cmd_load, &cmd_run, &cmd_arrivals };

static void print_help(FILE *f)
{
	u32 i;

	fputs("Usage: kvbench COMMAND [OPTION]...\n"
	      "Load a key-value store back to back, or as requests arrive.\n\n", f);
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n'kvbench COMMAND --help' says more.  Exit status: 0 done, 4 a value was\n"
	      "wrong, 8 it could not be done, 16 usage.\n", f);
}

int main(int argc, char **argv)
{
	u32 i;

	tool_name = "kvbench";
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		print_help(stdout);
		return EXIT_CLEAN;
	}
	for (i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i]->name))
			return commands[i]->run(commands[i], argc - 1, argv + 1);
	if (argc > 1)
		fprintf(stderr, "kvbench: there is no command '%s'\n", argv[1]);
	print_help(stderr);
	return EXIT_USAGE;
}
