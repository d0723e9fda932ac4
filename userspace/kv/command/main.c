// SPDX-License-Identifier: GPL-2.0
/* kv: a key-value store for disks with bands. */
#include "command.h"
#include "dm.h"

static const struct command *const commands[] = {
	&kv_cmd_format, &kv_cmd_put, &kv_cmd_get, &kv_cmd_delete, &kv_cmd_scan, &kv_cmd_load,
	&kv_cmd_dump, &kv_cmd_check, &kv_cmd_compact, &kv_cmd_stats, &kv_cmd_offload,
	&kv_cmd_repair, &kv_cmd_checkpoint,
};

static void help(FILE *f)
{
	fprintf(f, "Usage: kv COMMAND [options] DEVICE ...\n\nCommands:\n");
	list_commands(f, commands, ARRAY_SIZE(commands));
	fprintf(f, "\n'kv COMMAND --help' and kv(1) explain them.\n\n"
		"Exit codes: 0 success; 1 repair gave up a part of the log; 4 damage was found; 8\n"
		"devices prevented the command; 16 wrong usage.\n");
}

int main(int argc, char **argv)
{
	tool_name = "kv";
	dm_begin();
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		help(stdout);
		return EXIT_CLEAN;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		say("kv %s", tool_release);
		return EXIT_CLEAN;
	}
	return run_command(commands, ARRAY_SIZE(commands), argc, argv);
}
