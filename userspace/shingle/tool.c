// SPDX-License-Identifier: GPL-2.0
/* Messages, sizes, options and progress display. */
#include <stdarg.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

const char *tool_name = "shingle";

int fail(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s: ", tool_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EXIT_OPERATION;
}

int usage(const struct command *cmd, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s %s: ", tool_name, cmd->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "; see '%s %s --help'\n", tool_name, cmd->name);
	return EXIT_USAGE;
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* True if @word is "--name" or "--name=value" with the complete name of an option. */
static bool named_in_full(const char *word, const struct option *options)
{
	size_t n = strcspn(word, "=");

	for (; options->name; options++) {
		if (n == strlen(options->name) && !strncmp(word, options->name, n))
			return true;
	}
	return false;
}

static bool is_option(const char *word)
{
	return word[0] == '-' && word[1];
}

/**
 * next_option() - getopt_long() without abbreviated long options
 * @argc: of the command
 * @argv: of the command
 * @letters: see getopt_long()
 * @options: see getopt_long()
 * @which: see getopt_long(); or NULL
 *
 * An abbreviation that is unique now may become ambiguous with the next version.
 *
 * Return: the result of getopt_long(), or '?' for an abbreviated name.  After '?' the word is
 * in argv[optind - 1], and parsing cannot continue.
 */
int next_option(int argc, char **argv, const char *letters, const struct option *options,
		int *which)
{
	int index = -1, was = optind, c = getopt_long(argc, argv, letters, options, &index);
	const char *word;

	/* After an error inside a group of letters, getopt_long() has not yet passed the word. */
	if (c == '?' && (optind == was || !is_option(argv[optind - 1])))
		optind++;
	if (c == -1 || optind < 2)
		return c;
	/* A value may be a separate word. */
	if (index >= 0 && optarg && optarg == argv[optind - 1])
		word = argv[optind - 2];
	else
		word = argv[optind - 1];
	if (which && index >= 0)
		*which = index;
	if ((index < 0 && c != ':') || strncmp(word, "--", 2) || named_in_full(word + 2, options))
		return c;
	optind -= word != argv[optind - 1];
	return '?';
}

int option_error(const struct command *cmd, int c, const char *word)
{
	if (c == 'h') {
		fputs(cmd->help, stdout);
		if (cmd->more_help)
			cmd->more_help();
		return EXIT_CLEAN;
	}
	if (c == ':')
		return usage(cmd, "option %s needs a value", word);
	return usage(cmd, "option %s is not known, or takes no value", word);
}

/* Parse exactly @nr operands; their names and result pointers follow as arguments. */
bool parse_operands(const struct command *cmd, int argc, char **argv, int nr, ...)
{
	va_list ap;
	int i;

	if (argc - optind > nr) {
		usage(cmd, "'%s' is one argument too many", argv[optind + nr]);
		return false;
	}
	va_start(ap, nr);
	for (i = 0; i < nr; i++) {
		const char *name = va_arg(ap, const char *);
		const char **place = va_arg(ap, const char **);

		if (optind + i >= argc) {
			va_end(ap);
			usage(cmd, "%s is missing", name);
			return false;
		}
		*place = argv[optind + i];
	}
	va_end(ap);
	return true;
}

#define HELP_COLUMN	24
#define HELP_WIDTH	79

/**
 * print_option() - print an option and its explanation, for --help
 * @option: the option with the name of its value
 * @help: the explanation, which is wrapped at blanks
 */
void print_option(const char *option, const char *help)
{
	int at = printf("  %s", option);
	bool begins = true;

	while (*help) {
		int len = (int)strcspn(help, " ");

		if (begins ? at > HELP_COLUMN - 2 : at + 1 + len > HELP_WIDTH) {
			putchar('\n');
			at = 0;
			begins = true;
		}
		at += printf("%*s%.*s", begins ? HELP_COLUMN - at : 1, "", len, help);
		begins = false;
		help += len + (help[len] == ' ');
	}
	putchar('\n');
}

void list_commands(FILE *f, const struct command *const *commands, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		fprintf(f, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
}

/**
 * output_end() - check that all output was written
 * @ret: exit code so far
 *
 * Return: @ret if it is not 0 or all output was written, else EXIT_OPERATION after printing
 * an error.
 */
int output_end(int ret)
{
	bool short_of = ferror(stdout);

	if (!fflush(stdout) && !short_of)
		return ret;
	/* After an earlier failure, errno may belong to another call by now. */
	return ret ?: fail("output cannot be written: %s", short_of ? "it was cut short" :
			   strerror(errno));
}

int run_command(const struct command *const *commands, u32 nr, int argc, char **argv)
{
	u32 i;
	int ret;

	for (i = 0; i < nr; i++) {
		if (strcmp(argv[1], commands[i]->name))
			continue;
		ret = commands[i]->run(commands[i], argc - 1, argv + 1);
		return output_end(ret);
	}
	fail("COMMAND '%s' is not known: '%s --help' lists them", argv[1], tool_name);
	return EXIT_USAGE;
}

/**
 * parse_size() - parse a size in bytes with its unit
 * @arg: name of the argument, for the error message
 * @text: digits and a unit: B, s (sectors of 512 bytes), or K, M, G, T (binary) in either
 *   case
 * @bytes: result
 *
 * Return: true, or false after printing an error.
 */
bool parse_size(const char *arg, const char *text, u64 *bytes)
{
	static const struct {
		const char *name;
		u32 shift;
	} unit[] = {
		{ "B", 0 }, { "s", 9 }, { "K", 10 }, { "KiB", 10 }, { "M", 20 }, { "MiB", 20 },
		{ "G", 30 }, { "GiB", 30 }, { "T", 40 }, { "TiB", 40 },
	};
	unsigned long long v;
	char *end;
	u32 i;

	if (*text < '0' || *text > '9')
		goto bad;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno)
		goto bad;
	for (i = 0; i < ARRAY_SIZE(unit); i++) {
		/* Case matters only for B and s: b is the unit of bands, and S is no unit. */
		if (unit[i].shift < 10 ? strcmp(end, unit[i].name) : strcasecmp(end, unit[i].name))
			continue;
		if (v > U64_MAX >> unit[i].shift)
			goto bad;
		*bytes = (u64)v << unit[i].shift;
		return true;
	}
	if (!*end) {
		fail("%s %s has no unit: write it as %sK, %sM, %sG, %sT (binary), %ss (sectors) or %sB",
		     arg, text, text, text, text, text, text, text);
		return false;
	}
bad:
	fail("%s '%s' is not a size: write digits and a unit, as 4K, 30M, 2G, 1T, 24s or 4096B",
	     arg, text);
	return false;
}

/* Text of a bound.  It is exact, so that it can be used as a value: no rounded fractions. */
static struct size_text bound_text(u64 blocks)
{
	struct size_text t = blocks_text(blocks);

	if (strchr(t.s, '.'))
		snprintf(t.s, sizeof(t.s), "%lluK", blocks << (SHINGLE_BLOCK_SHIFT - 10));
	return t;
}

/**
 * parse_blocks() - parse a size that is a whole number of 4 KiB blocks
 * @arg: name of the argument
 * @text: see parse_size()
 * @min_blocks: lower bound
 * @max_blocks: upper bound
 * @blocks: result
 *
 * Return: true, or false after printing an error.
 */
bool parse_blocks(const char *arg, const char *text, u64 min_blocks, u64 max_blocks, u64 *blocks)
{
	u64 bytes;

	if (!parse_size(arg, text, &bytes))
		return false;
	if (bytes % SHINGLE_BLOCK_SIZE) {
		fail("%s %s is not a multiple of 4K, the size of a block", arg, text);
		return false;
	}
	*blocks = bytes >> SHINGLE_BLOCK_SHIFT;
	if (*blocks < min_blocks || *blocks > max_blocks) {
		fail("%s %s is out of bounds: at least %s, at most %s", arg, text,
		     bound_text(min_blocks).s, bound_text(max_blocks).s);
		return false;
	}
	return true;
}

/**
 * parse_number() - parse a plain decimal number
 * @arg: name of the argument
 * @text: digits
 * @min_value: lower bound
 * @max_value: upper bound
 * @value: result
 *
 * Return: true, or false after printing an error.
 */
bool parse_number(const char *arg, const char *text, u64 min_value, u64 max_value, u64 *value)
{
	if (kstrtou64(text, 10, value)) {
		fail("%s '%s' is not a number: write digits only", arg, text);
		return false;
	}
	if (*value < min_value || *value > max_value) {
		fail("%s %s is out of bounds: at least %llu, at most %llu", arg, text, min_value,
		     max_value);
		return false;
	}
	return true;
}

struct size_text size_text(u64 bytes)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	struct size_text t;
	u32 i = 0;

	while (i + 1 < ARRAY_SIZE(unit) && bytes >> (10 * (i + 1)))
		i++;
	if (bytes & ((1ULL << (10 * i)) - 1))
		snprintf(t.s, sizeof(t.s), "%.2f %s", (double)bytes / (double)(1ULL << (10 * i)),
			 unit[i]);
	else
		snprintf(t.s, sizeof(t.s), "%llu %s", bytes >> (10 * i), unit[i]);
	return t;
}

struct size_text blocks_text(u64 blocks)
{
	return size_text(blocks > U64_MAX >> SHINGLE_BLOCK_SHIFT ? U64_MAX :
			 blocks << SHINGLE_BLOCK_SHIFT);
}

bool confirm(const char *question)
{
	char line[16];

	printf("%s [y/N] ", question);
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) && (*line == 'y' || *line == 'Y');
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void progress_begin(struct progress *p, const char *what, u64 total)
{
	memset(p, 0, sizeof(*p));
	p->what = what;
	p->total = total;
	p->began = now();
	p->shown = p->began;
	p->visible = total && isatty(STDERR_FILENO);
}

/* Show progress at most twice a second; a short operation shows nothing. */
void progress_add(struct progress *p, u64 units)
{
	double t, left;

	p->done += units;
	if (!p->visible)
		return;
	t = now();
	if (t - p->shown < 0.5)
		return;
	p->shown = t;
	left = (t - p->began) * (double)(p->total - min(p->done, p->total)) / (double)p->done;
	fprintf(stderr, "\r%s: %3.0f %%, %.0f s left \033[K", p->what,
		100.0 * (double)min(p->done, p->total) / (double)p->total, left);
}

void progress_end(struct progress *p)
{
	if (p->visible && p->shown > p->began)
		fputs("\r\033[K", stderr);
	p->visible = false;
}
