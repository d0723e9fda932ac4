// SPDX-License-Identifier: GPL-2.0
/* kv: a key-value store on a disk of bands. */
#include "command.h"

static const struct command *const commands[] = {
	&kv_cmd_format, &kv_cmd_put, &kv_cmd_get, &kv_cmd_delete, &kv_cmd_scan, &kv_cmd_load,
	&kv_cmd_dump, &kv_cmd_check, &kv_cmd_compact, &kv_cmd_stats,
};

static void help(FILE *f)
{
	u32 i;

	fprintf(f, "Usage: kv COMMAND [options] DEVICE ...\n\nCommands:\n");
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(f, "\n'kv COMMAND --help' says more; so does kv(8).\n\n"
		"Exit codes: 0 done; 4 something is damaged; 8 it could not be done; 16 wrong\n"
		"usage.\n");
}

int main(int argc, char **argv)
{
	u32 i;
	int ret;

	tool_name = "kv";
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		help(stdout);
		return EXIT_CLEAN;
	}
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[1], commands[i]->name))
			continue;
		ret = commands[i]->run(commands[i], argc - 1, argv + 1);
		if (fflush(stdout) && !ret)
			ret = fail("output cannot be written: %s", strerror(errno));
		return ret;
	}
	fail("COMMAND '%s' is not known: 'kv --help' lists them", argv[1]);
	return EXIT_USAGE;
}
