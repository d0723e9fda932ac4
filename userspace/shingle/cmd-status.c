// SPDX-License-Identifier: GPL-2.0
/* shingle status. */
#include "dm.h"
#include "engines.h"
#include "json.h"

/**
 * struct status - fields of a target's STATUSTYPE_INFO line
 * @cached: number of blocks in the cache
 * @capacity: capacity of the cache in blocks
 * @journal_used: number of journal blocks in use
 * @journal: length of the journal in blocks
 * @steps: number of cleaning steps done
 * @cleaning: "idle" or "cleaning"
 * @needs_check: "needs_check" or "-"
 * @mode: "rw", "ro" or "fail"
 */
struct status {
	unsigned long long cached;
	unsigned long long capacity;
	unsigned long long journal_used;
	unsigned long long journal;
	unsigned long long steps;
	char cleaning[16];
	char needs_check[16];
	char mode[16];
};

struct walk {
	struct json_object *j;
	u32 found;
};

static bool parse_status(const char *text, struct status *s)
{
	return sscanf(text, "%llu/%llu %llu/%llu %llu %15s %15s %15s", &s->cached, &s->capacity,
		      &s->journal_used, &s->journal, &s->steps, s->cleaning, s->needs_check,
		      s->mode) == 8;
}

static double percent(u64 part, u64 whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

/* Reason why a device is not read-write, to be freed; NULL if it is, or if it is unknown. */
static char *mode_why(const struct dm_line *line, const struct status *s)
{
	char *reply = strcmp(s->mode, "rw") ? dm_device_ask(line->name, "mode") : NULL;
	char *why = reply ? strchr(reply, ' ') : NULL;

	if (why)
		why[strcspn(why, "\n")] = '\0';
	why = why ? strdup(why + 1) : NULL;
	free(reply);
	return why;
}

static void print_mode(const struct dm_line *line, const struct status *s)
{
	char *why = mode_why(line, s);

	printf("  mode     %s", !strcmp(s->mode, "rw") ? "read-write" :
	       !strcmp(s->mode, "ro") ? "read-only" : "failed");
	if (why)
		printf(": %s", why);
	else if (strcmp(s->mode, "rw"))
		printf("; the kernel log says why");
	puts(strcmp(s->needs_check, "-") ? "; needs 'shingle check' and 'shingle repair'" : "");
	free(why);
}

static void print(const struct dm_line *line)
{
	struct status s;

	say("%s: %s, %s%s", line->name, line->target, size_text(line->sectors << 9).s,
	    line->suspended ? ", suspended" : "");
	if (!parse_status(line->params, &s)) {
		say("  status   %s", *line->params ? line->params : "nothing to say");
		return;
	}
	print_mode(line, &s);
	say("  cache    %s of %s used, %.1f %%", blocks_text(s.cached).s,
	    blocks_text(s.capacity).s, percent(s.cached, s.capacity));
	say("  journal  %s of %s used, %.1f %%", blocks_text(s.journal_used).s,
	    blocks_text(s.journal).s, percent(s.journal_used, s.journal));
	say("  cleaning %s, %llu steps done", s.cleaning, s.steps);
}

static void print_json(const struct dm_line *line, struct json_object *j)
{
	struct status s;
	char *why;

	json_str(j, "name", line->name);
	json_str(j, "target", line->target);
	json_u64(j, "sectors", line->sectors);
	json_bool(j, "suspended", line->suspended);
	json_str(j, "status", line->params);
	if (parse_status(line->params, &s)) {
		json_u64(j, "cached_blocks", s.cached);
		json_u64(j, "cache_blocks", s.capacity);
		json_u64(j, "journal_used_blocks", s.journal_used);
		json_u64(j, "journal_blocks", s.journal);
		json_u64(j, "cleaning_steps", s.steps);
		json_bool(j, "cleaning", !strcmp(s.cleaning, "cleaning"));
		json_bool(j, "needs_check", strcmp(s.needs_check, "-"));
		json_str(j, "mode", s.mode);
		why = mode_why(line, &s);
		if (why)
			json_str(j, "mode_why", why);
		free(why);
	}
}

static int visit(const char *name, void *ctx)
{
	struct walk *w = ctx;
	struct dm_line line;

	if (!dm_device_status(name, &line))
		return 0;
	if (engine_by_name(line.target)) {
		w->found++;
		if (w->j)
			print_json(&line, json_dict(w->j, NULL));
		else
			print(&line);
	}
	dm_line_free(&line);
	return 0;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *name = NULL;
	bool json = false, ok = true;
	struct walk w = { 0 };
	int c;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		if (c != 'j')
			return option_error(cmd, c, argv[optind - 1]);
		json = true;
	}
	if (!parse_operands(cmd, argc, argv, optind < argc, "NAME", &name) ||
	    (name && !dm_name_valid(name)))
		return EXIT_USAGE;
	if (json)
		w.j = name ? json_dict(NULL, NULL) : json_list(NULL, NULL);
	if (name) {
		struct dm_line line;

		if (!dm_device_status(name, &line))
			return EXIT_OPERATION;
		if (!engine_by_name(line.target)) {
			fail("%s is a device of type '%s', not one of dm-shingle's", name,
			     line.target);
			dm_line_free(&line);
			return EXIT_OPERATION;
		}
		if (w.j)
			print_json(&line, w.j);
		else
			print(&line);
		dm_line_free(&line);
	} else {
		ok = dm_for_each(visit, &w);
		if (!json && ok && !w.found)
			say("no dm-shingle device is open");
	}
	if (json)
		json_print(w.j, stdout);
	return ok ? EXIT_CLEAN : EXIT_OPERATION;
}

const struct command cmd_status = {
	.name = "status",
	.summary = "how open devices are",
	.help = "Usage: shingle status [NAME] [--json]\n\n"
		"All open dm-shingle devices, or the one of that name.\n",
	.run = run,
};
