// SPDX-License-Identifier: GPL-2.0
/* shingle stats. */
#include <unistd.h>

#include "dm.h"
#include "json.h"

#define MAX_STATS	256

struct stat_line {
	char name[48];
	char text[64];
	u64 value;
	bool number;
};

/**
 * struct stat_table - an answer to the message "stats"
 * @nr: used of @s
 * @s: the lines
 */
struct stat_table {
	u32 nr;
	struct stat_line s[MAX_STATS];
};

/* Lines of "name value"; names are the target's own. */
static void parse_stats(const char *reply, struct stat_table *t)
{
	const char *line = reply;

	t->nr = 0;
	while (line && *line && t->nr < MAX_STATS) {
		struct stat_line *s = &t->s[t->nr];

		if (sscanf(line, "%47s %63[^\n]", s->name, s->text) == 2) {
			s->number = !kstrtou64(s->text, 10, &s->value);
			t->nr++;
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
}

static u64 value_of(const struct stat_table *t, const char *name)
{
	u32 i;

	for (i = 0; i < t->nr; i++) {
		if (t->s[i].number && !strcmp(t->s[i].name, name))
			return t->s[i].value;
	}
	return 0;
}

/* Everything written, for each block that the host wrote; 0 if it wrote none. */
static double write_amplification(const struct stat_table *t)
{
	static const char *const written[] = {
		"host_write_blocks", "wcache_destage_blocks", "clean_write_blocks",
		"journal_blocks", "checkpoint_blocks",
	};
	u64 host = value_of(t, "host_write_blocks"), all = 0;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(written); i++)
		all += value_of(t, written[i]);
	/* What the write cache took was not written then. */
	all -= value_of(t, "wcache_write_blocks");
	return host ? (double)all / (double)host : 0.0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

/* @then is the table one interval ago, or NULL. */
static void print(const struct stat_table *t, const struct stat_table *then, double seconds)
{
	double wa = write_amplification(t);
	u32 i;

	for (i = 0; i < t->nr; i++) {
		const struct stat_line *s = &t->s[i];
		u64 before = then ? value_of(then, s->name) : 0;

		struct size_text size = { "" };

		if (s->number && ends_with(s->name, "_blocks"))
			size = blocks_text(s->value);
		else if (s->number && ends_with(s->name, "_bytes"))
			size = size_text(s->value);
		printf("%-24s %20s", s->name, s->text);
		if (then && s->number && s->value >= before)
			printf("  %12s %12.1f/s", size.s, (double)(s->value - before) / seconds);
		else if (size.s[0])
			printf("  %12s", size.s);
		putchar('\n');
	}
	if (wa > 0)
		printf("%-24s %20.3f\n", "write_amplification", wa);
	else
		printf("%-24s %20s\n", "write_amplification", "-");
}

static void print_json(const char *name, const struct stat_table *t)
{
	struct json j;
	u32 i;

	json_begin(&j, stdout);
	json_open(&j, NULL, '{');
	json_str(&j, "name", name);
	json_open(&j, "stats", '{');
	for (i = 0; i < t->nr; i++) {
		if (t->s[i].number)
			json_u64(&j, t->s[i].name, t->s[i].value);
		else
			json_str(&j, t->s[i].name, t->s[i].text);
	}
	json_close(&j, '}');
	if (value_of(t, "host_write_blocks"))
		json_double(&j, "write_amplification", write_amplification(t));
	else
		json_null(&j, "write_amplification");
	json_close(&j, '}');
	json_end(&j);
	fflush(stdout);
}

static int watch(const char *name, bool json, u64 seconds, struct stat_table t[2])
{
	u32 turn;

	for (turn = 0; ; turn++) {
		struct stat_table *now = &t[turn & 1], *then = turn ? &t[!(turn & 1)] : NULL;
		char *reply = dm_device_message(name, "stats");

		if (!reply)
			return EXIT_OPERATION;
		parse_stats(reply, now);
		free(reply);
		if (json) {
			print_json(name, now);
		} else {
			if (seconds && isatty(STDOUT_FILENO))
				fputs("\033[H\033[J", stdout);
			print(now, then, (double)seconds);
			fflush(stdout);
		}
		if (!seconds)
			return EXIT_CLEAN;
		if (!json && !isatty(STDOUT_FILENO))
			putchar('\n');
		sleep((u32)seconds);
	}
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "watch", required_argument, NULL, 'w' },
		{ "clear", no_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool json = false, clear = false;
	struct stat_table *t;
	const char *name;
	u64 seconds = 0;
	int c, ret;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			json = true;
			break;
		case 'w':
			if (!parse_number("--watch (seconds)", optarg, 1, 86400, &seconds))
				return EXIT_USAGE;
			break;
		case 'c':
			clear = true;
			break;
		default:
			return option_error(cmd, c, argv[optind - 1]);
		}
	}
	if (!parse_operands(cmd, argc, argv, 1, "NAME", &name) || !dm_name_valid(name))
		return EXIT_USAGE;
	if (clear) {
		char *reply = dm_device_message(name, "stats_clear");

		free(reply);
		return reply ? EXIT_CLEAN : EXIT_OPERATION;
	}
	t = shingle_zalloc_array(2, sizeof(*t));
	if (!t)
		return fail("out of memory");
	ret = watch(name, json, seconds, t);
	kvfree(t);
	return ret;
}

const struct command cmd_stats = {
	.name = "stats",
	.summary = "what an open device did",
	.help = "Usage: shingle stats NAME [options]\n\n"
		"Everything that the target counts, and from that its write amplification:\n"
		"(host + cleaning + journal + checkpoint blocks written) / host blocks written;\n"
		"what the write cache took counts when it is destaged.\n\n"
		"  --json            in JSON\n"
		"  --watch SECONDS   again and again, with rates\n"
		"  --clear           set the counters to zero instead\n",
	.run = run,
};
