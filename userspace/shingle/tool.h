/* SPDX-License-Identifier: GPL-2.0 */
/* What every file of the tool uses: exit codes, sentences, sizes, progress. */
#ifndef SHINGLE_TOOL_H
#define SHINGLE_TOOL_H

#include <getopt.h>
#include <shim.h>

#include "format/format.h"

/* Exit codes, as fsck's. */
enum {
	EXIT_CLEAN = 0,		/* done; nothing wrong */
	EXIT_CORRECTED = 1,	/* repair corrected something */
	EXIT_UNCORRECTED = 4,	/* damage was found and is still there */
	EXIT_OPERATION = 8,	/* could not do what was asked, as devices and kernel are */
	EXIT_USAGE = 16,	/* was not asked properly: other words are needed */
};

/**
 * struct command - one of the tool's commands
 * @name: first word after "shingle"
 * @summary: one line for the list of commands
 * @help: the text of --help
 * @more_help: prints the rest of it; or NULL
 * @run: does it; @argv[0] is @name; returns an exit code
 */
struct command {
	const char *name;
	const char *summary;
	const char *help;
	void (*more_help)(void);
	int (*run)(const struct command *cmd, int argc, char **argv);
};

extern const struct command cmd_format, cmd_create, cmd_presets, cmd_open, cmd_remove, cmd_status,
	cmd_stats, cmd_check, cmd_repair, cmd_dump, cmd_reset, cmd_probe, cmd_set;

/* Who says so. */
extern const char *tool_name;

/* Of which version it is: dkms.conf's, as all that is built here. */
extern const char tool_release[];

/* Print a sentence on stderr and return the exit code. */
int fail(const char *fmt, ...) __printf(1, 2);
int usage(const struct command *cmd, const char *fmt, ...) __printf(2, 3);
void say(const char *fmt, ...) __printf(1, 2);

int next_option(int argc, char **argv, const char *letters, const struct option *options,
		int *which);
/* next_option() answered 'h', ':' or '?': help or a sentence; the exit code. */
int option_error(const struct command *cmd, int c, const char *word);
bool parse_operands(const struct command *cmd, int argc, char **argv, int nr, ...);


/* The command that the first word names, with the rest of the line; the exit code. */
int run_command(const struct command *const *commands, u32 nr, int argc, char **argv);
int output_end(int ret);
/* A line for each command. */
void list_commands(FILE *f, const struct command *const *commands, u32 nr);

bool parse_size(const char *arg, const char *text, u64 *bytes);
bool parse_blocks(const char *arg, const char *text, u64 min_blocks, u64 max_blocks, u64 *blocks);
bool parse_number(const char *arg, const char *text, u64 min_value, u64 max_value, u64 *value);

/* A size for people, returned by value: use .s within the same expression. */
struct size_text {
	char s[32];
};
struct size_text size_text(u64 bytes);
struct size_text blocks_text(u64 blocks);

bool confirm(const char *question);

/**
 * struct progress - how far a long operation has come
 * @what: the operation, as the start of a line
 * @total: units in all, 0 to stay silent
 * @done: so far
 * @began: when, in seconds
 * @shown: when it was shown last
 * @visible: on a terminal, and not silent
 */
struct progress {
	const char *what;
	u64 total;
	u64 done;
	double began;
	double shown;
	bool visible;
};

void progress_begin(struct progress *p, const char *what, u64 total);
void progress_add(struct progress *p, u64 units);
void progress_end(struct progress *p);

#endif /* SHINGLE_TOOL_H */
