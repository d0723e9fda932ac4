// SPDX-License-Identifier: GPL-2.0
/* shingle status. */
#include "json.h"
#include "lines.h"

struct walk {
	struct json_object *j;
	u32 found;
};

static double percent(u64 part, u64 whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

/*
 * Reason why a layer is not read-write, to be freed; NULL if it is, or if the reason is
 * unknown.
 */
static char *mode_why(const struct dm_line *line, const struct layer_status *s)
{
	char *reply = strcmp(s->mode, "rw") ? dm_device_ask(line->name, "mode") : NULL;
	char *why = reply ? strchr(reply, ' ') : NULL;

	if (why)
		why[strcspn(why, "\n")] = '\0';
	why = why ? strdup(why + 1) : NULL;
	free(reply);
	return why;
}

static void print_mode(const struct dm_line *line, const struct layer_status *s)
{
	char *why = mode_why(line, s);

	printf("  mode     %s", !strcmp(s->mode, "rw") ? "read-write" :
	       !strcmp(s->mode, "ro") ? "read-only" : "failed");
	if (why)
		printf(": %s", why);
	else if (strcmp(s->mode, "rw"))
		printf("; see the kernel log");
	/*
	 * The target sets needs_check for an error that may have damaged the metadata.  After a
	 * power cut it has damaged nothing, and the mark is not on the medium.  Only check can
	 * tell the two apart.
	 */
	puts(strcmp(s->needs_check, "-") ?
	     "; close it and run 'shingle check', which reports whether it needs a repair" : "");
	free(why);
}

static void print_layer(const struct dm_line *line, const struct layer_status *s)
{
	print_mode(line, s);
	say("  cache    %s of %s used, %.1f %%", blocks_text(s->cached).s,
	    blocks_text(s->capacity).s, percent(s->cached, s->capacity));
	say("  journal  %s of %s used, %.1f %%", blocks_text(s->journal_used).s,
	    blocks_text(s->journal).s, percent(s->journal_used, s->journal));
	say("  cleaning %s, %llu steps done", s->cleaning, s->steps);
}

/* A word of a status line and its meaning. */
struct word {
	const char *word;
	const char *text;
};

static const char *meaning(const struct word *w, const char *word)
{
	for (; w->word; w++) {
		if (!strcmp(w->word, word))
			return w->text;
	}
	return word;
}

static const struct word platter_modes[] = {
	{ "rw", "read-write" },
	{ "ro", "read-only" },
	{ "lost", "read-write; acknowledged blocks could not be written, and the next FLUSH fails" },
	{ "fail", "power is off; all I/O fails until 'dmsetup message NAME 0 powercut off'" },
	{ }
};

static const struct word platter_media[] = {
	{ "cmr", "conventional tracks (cmr)" },
	{ "smr", "shingled tracks (smr)" },
	{ "imr", "interlaced tracks (imr)" },
	{ }
};

static const struct word platter_damage[] = {
	{ "none", "destroyed blocks are not tracked" },
	{ "count", "destroyed blocks are counted" },
	{ "poison", "a read of a destroyed block fails" },
	{ "shadow", "a read of a destroyed block returns what the head wrote over it" },
	{ }
};

static void print_platter(const struct platter_status *s)
{
	say("  mode     %s", meaning(platter_modes, s->mode));
	/* No head of conventional tracks destroys anything. */
	if (strcmp(s->media, "cmr"))
		say("  media    %s; %s", meaning(platter_media, s->media),
		    meaning(platter_damage, s->damage));
	else
		say("  media    %s", meaning(platter_media, s->media));
	say("  reads    %llu, %s", s->reads, blocks_text(s->blocks_read).s);
	say("  writes   %llu, %s", s->writes, blocks_text(s->blocks_written).s);
	if (strcmp(s->damage, "none"))
		say("  damage   %llu blocks are destroyed; %llu reads of destroyed blocks",
		    s->damaged, s->destroyed_reads);
	if (s->wcache)
		say("  cache    %s of %s not yet on the medium", blocks_text(s->dirty).s,
		    blocks_text(s->wcache).s);
	if (s->late)
		say("  timing   %llu requests completed more than 1 ms later than in the model", s->late);
}

static void print(const struct dm_line *line)
{
	struct platter_status platter;
	struct layer_status layer;

	say("%s: %s, %s%s", line->name, line->target, size_text(line->sectors << 9).s,
	    line->suspended ? ", suspended" : "");
	if (line_is_layer(line, &layer))
		print_layer(line, &layer);
	else if (line_is_platter(line, &platter))
		print_platter(&platter);
	else
		say("  status   %s", *line->params ? line->params : "none");
}

static void layer_json(const struct dm_line *line, const struct layer_status *s,
		       struct json_object *j)
{
	char *why = mode_why(line, s);

	json_u64(j, "cached_blocks", s->cached);
	json_u64(j, "cache_blocks", s->capacity);
	json_u64(j, "journal_used_blocks", s->journal_used);
	json_u64(j, "journal_blocks", s->journal);
	json_u64(j, "cleaning_steps", s->steps);
	json_bool(j, "cleaning", !strcmp(s->cleaning, "cleaning"));
	json_bool(j, "needs_check", strcmp(s->needs_check, "-"));
	json_str(j, "mode", s->mode);
	if (why)
		json_str(j, "mode_why", why);
	free(why);
}

static void platter_json(const struct platter_status *s, struct json_object *j)
{
	json_str(j, "media", s->media);
	json_str(j, "damage", s->damage);
	json_u64(j, "reads", s->reads);
	json_u64(j, "writes", s->writes);
	json_u64(j, "blocks_read", s->blocks_read);
	json_u64(j, "blocks_written", s->blocks_written);
	json_u64(j, "damaged_blocks", s->damaged);
	json_u64(j, "destroyed_reads", s->destroyed_reads);
	json_u64(j, "late", s->late);
	json_u64(j, "wcache_dirty_blocks", s->dirty);
	json_u64(j, "wcache_blocks", s->wcache);
	json_str(j, "mode", s->mode);
}

static void print_json(const struct dm_line *line, struct json_object *j)
{
	struct platter_status platter;
	struct layer_status layer;

	json_str(j, "name", line->name);
	json_str(j, "target", line->target);
	json_u64(j, "sectors", line->sectors);
	json_bool(j, "suspended", line->suspended);
	json_str(j, "status", line->params);
	if (line_is_layer(line, &layer))
		layer_json(line, &layer, j);
	else if (line_is_platter(line, &platter))
		platter_json(&platter, j);
}

static void show(const struct dm_line *line, void *ctx)
{
	struct walk *w = ctx;

	w->found++;
	if (w->j)
		print_json(line, json_dict(w->j, NULL));
	else
		print(line);
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

		if (!line_of_ours(name, &line))
			return EXIT_OPERATION;
		if (w.j)
			print_json(&line, w.j);
		else
			print(&line);
		dm_line_free(&line);
	} else {
		ok = for_each_of_ours(show, &w, NULL);
		if (!json && ok && !w.found)
			say("no dm-shingle device is open");
	}
	if (json)
		json_print(w.j, stdout);
	return ok ? EXIT_CLEAN : EXIT_OPERATION;
}

const struct command cmd_status = {
	.name = "status",
	.summary = "print the state of open devices",
	.help = "Usage: shingle status [NAME] [--json]\n\n"
		"Prints the state of the device NAME, or of all open devices of dm-shingle, media\n"
		"included.  'shingle list' prints one line for each.\n\n"
		"  --json            print JSON: an object, or without NAME an array of them\n",
	.run = run,
};
