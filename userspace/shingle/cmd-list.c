// SPDX-License-Identifier: GPL-2.0
/* shingle list. */
#include "json.h"
#include "lines.h"
#include "table.h"

struct list {
	struct json_object *j;
	u32 found;
};

/* Copy the mode of a device; "-" if its status line has another form. */
static void find_mode(const struct dm_line *line, char *mode, size_t size)
{
	struct platter_status platter;
	struct layer_status layer;

	snprintf(mode, size, "%s", line_is_layer(line, &layer) ? layer.mode :
		 line_is_platter(line, &platter) ? platter.mode : "-");
}

/* Devices in a table line, to be freed; their number is in @nr. */
static char **devices_below(const char *name, const char *target, u32 *nr)
{
	u32 most = target_is_platter(target) ? 1 : SHINGLE_NR_DEVS, i;
	char **path = shingle_zalloc_array(SHINGLE_NR_DEVS, sizeof(*path)), *rest, *word;
	struct dm_line line;

	*nr = 0;
	if (!path || !dm_device_table(name, &line))
		return path;
	rest = line.params;
	for (i = 0; i < most && (word = strsep(&rest, " ")); i++) {
		if (strcmp(word, "-"))
			path[(*nr)++] = table_device_name(word);
	}
	dm_line_free(&line);
	return path;
}

static void show(const struct dm_line *line, void *ctx)
{
	struct list *l = ctx;
	struct json_object *j = l->j ? json_dict(l->j, NULL) : NULL, *list = NULL;
	char **path, mode[16];
	u32 nr, i;

	path = devices_below(line->name, line->target, &nr);
	find_mode(line, mode, sizeof(mode));
	if (j) {
		json_str(j, "name", line->name);
		json_str(j, "target", line->target);
		json_str(j, "mode", mode);
		json_u64(j, "sectors", line->sectors);
		json_bool(j, "suspended", line->suspended);
		list = json_list(j, "below");
	} else {
		if (!l->found)
			say("%-16s %-11s %-5s %11s  %s", "NAME", "TARGET", "MODE", "SIZE", "BELOW");
		printf("%-16s %-11s %-5s %11s ", line->name, line->target, mode,
		       size_text(line->sectors << 9).s);
	}
	for (i = 0; i < nr; i++) {
		if (j)
			json_str(list, NULL, path[i] ?: "?");
		else
			printf(" %s", path[i] ?: "?");
		free(path[i]);
	}
	if (!j)
		putchar('\n');
	kvfree(path);
	l->found++;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct list l = { 0 };
	bool json = false;
	int c;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		if (c != 'j')
			return option_error(cmd, c, argv[optind - 1]);
		json = true;
	}
	if (!parse_operands(cmd, argc, argv, 0))
		return EXIT_USAGE;
	if (json)
		l.j = json_list(NULL, NULL);
	if (!for_each_of_ours(show, &l, NULL))
		return EXIT_OPERATION;
	if (json)
		json_print(l.j, stdout);
	else if (!l.found)
		say("no dm-shingle device is open");
	return EXIT_CLEAN;
}

const struct command cmd_list = {
	.name = "list",
	.summary = "list open devices, one a line",
	.help = "Usage: shingle list [--json]\n\n"
		"Lists the open devices of dm-shingle, media included: name, target, mode, size, and\n"
		"the devices below.  The mode of a translation layer is rw, ro or fail; that of a\n"
		"platter may also be lost.  'shingle status' explains it.\n\n"
		"  --json            print a JSON array\n",
	.run = run,
};
