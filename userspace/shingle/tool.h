/* SPDX-License-Identifier: GPL-2.0 */
/* Common helpers of the tool: exit codes, messages, sizes, progress. */
#ifndef SHINGLE_TOOL_H
#define SHINGLE_TOOL_H

#include <getopt.h>
#include <shim.h>

#include "format/format.h"

/* Exit codes, like those of fsck. */
enum {
	EXIT_CLEAN = 0,		/* success, no errors found */
	EXIT_CORRECTED = 1,	/* errors were found and corrected */
	EXIT_UNCORRECTED = 4,	/* errors were found and remain */
	EXIT_OPERATION = 8,	/* devices or kernel prevented the operation */
	EXIT_USAGE = 16,	/* wrong usage of the command line */
};

/**
 * struct command - one of the tool's commands
 * @name: first word after "shingle"
 * @summary: one line for the list of commands
 * @help: the text of --help
 * @more_help: prints the rest of the help; or NULL
 * @run: runs the command; @argv[0] is @name; returns an exit code
 */
struct command {
	const char *name;
	const char *summary;
	const char *help;
	void (*more_help)(void);
	int (*run)(const struct command *cmd, int argc, char **argv);
};

extern const struct command cmd_format, cmd_create, cmd_presets, cmd_open, cmd_remove, cmd_status,
	cmd_list, cmd_stats, cmd_check, cmd_repair, cmd_dump, cmd_reset, cmd_probe, cmd_set;

/* Program name at the start of error messages. */
extern const char *tool_name;

/* Version of the program, taken from dkms.conf. */
extern const char tool_release[];

/* Print an error on stderr and return the exit code.  say() prints a line on stdout. */
int fail(const char *fmt, ...) __printf(1, 2);
int usage(const struct command *cmd, const char *fmt, ...) __printf(2, 3);
void say(const char *fmt, ...) __printf(1, 2);

int next_option(int argc, char **argv, const char *letters, const struct option *options,
		int *which);
/* Handle 'h', ':' or '?' of next_option(): print help or an error, return the exit code. */
int option_error(const struct command *cmd, int c, const char *word);
bool parse_operands(const struct command *cmd, int argc, char **argv, int nr, ...);

/* Run the command that argv[1] names and return its exit code. */
int run_command(const struct command *const *commands, u32 nr, int argc, char **argv);
int output_end(int ret);
void print_option(const char *option, const char *help);
/* Print one line for each command. */
void list_commands(FILE *f, const struct command *const *commands, u32 nr);

bool parse_size(const char *arg, const char *text, u64 *bytes);
bool parse_blocks(const char *arg, const char *text, u64 min_blocks, u64 max_blocks, u64 *blocks);
bool parse_number(const char *arg, const char *text, u64 min_value, u64 max_value, u64 *value);

/* A size as text, returned by value: use .s within the same expression. */
struct size_text {
	char s[32];
};
struct size_text size_text(u64 bytes);
struct size_text blocks_text(u64 blocks);

bool confirm(const char *question);

/**
 * struct progress - progress display of a long operation
 * @what: name of the operation, the start of the line
 * @total: number of units in all, 0 to display nothing
 * @done: number of units done
 * @began: start time in seconds
 * @shown: time of the last display
 * @visible: stderr is a terminal, and @total is not 0
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

/* Safe display of untrusted texts on a terminal. */

/* A text made safe for a terminal, returned by value, as size_text() does. */
struct shown_text {
	char s[4 * PATH_MAX];
};
struct shown_text shown(const char *text);
const char *spelt(const char *text, struct shown_text *room);

#endif /* SHINGLE_TOOL_H */
