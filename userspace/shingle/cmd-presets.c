// SPDX-License-Identifier: GPL-2.0
/* shingle presets. */
#include "json.h"
#include "presets.h"
#include "tool.h"

static const char *value_of(const struct preset_option *opt, const char *name)
{
	for (; opt->name; opt++) {
		if (!strcmp(opt->name, name))
			return opt->value;
	}
	return NULL;
}

static u64 data_blocks(const struct preset *p, const struct preset_option *opt)
{
	return strtoull(value_of(opt, "bands"), NULL, 10) * p->band_blocks;
}

/* Print one line of the list. */
static void print_line(const struct preset *p, const struct preset_option *opt)
{
	say("%-17s %-11s %11s  %9llu  %s", p->name, p->target,
	    blocks_text(data_blocks(p, opt)).s, preset_max_scale(p, 0), p->paper.layer);
}

/* Print a preset in full. */
static void print(const struct preset *p, const struct preset_option *opt, u64 scale)
{
	u64 blocks = data_blocks(p, opt);
	u32 i;

	printf("%s", p->name);
	if (scale > 1)
		printf(" --scale %llu", scale);
	say(": %s", p->target);
	say("  paper    %s; cache: %s; cleaning %s; mapping %s; bands of %s; %s", p->paper.layer,
	    p->paper.cache, p->paper.cleaning, p->paper.mapping,
	    p->paper.bands ?: blocks_text(p->band_blocks).s, p->paper.size);
	say("  source   %s", p->source);
	say("  data     %s bands, %s%s", value_of(opt, "bands"), blocks_text(blocks).s,
	    p->rows ? " on tracks of 2 MiB" :
	    p->zone_bands || p->least_bands || p->home_bands ? "" :
	    p->flash ? ", and the cache on another device" : ", and the cache");
	say("  scale    1 to %llu; smaller bands (--band, or --rows with the option) allow more",
	    preset_max_scale(p, 0));
	printf("  options ");
	for (; opt->name; opt++)
		printf(" --%s %s", opt->name, opt->value);
	for (i = 0; p->features[i]; i++)
		printf(" --feature %s", p->features[i]);
	for (i = 0; p->keys[i]; i++)
		printf(" --set %s", p->keys[i]);
	say("%s", p->flash ? " --cache DEV" : "");
	if (p->least_bands) {
		say("  map      in pages that are written in any order: on shingled tracks it needs --meta DEV,");
		say("           or a medium whose first tracks are conventional");
	}
	if (p->doc)
		say("  risk     %s", p->doc);
}

static struct json_object *print_json(const struct preset *p, const struct preset_option *opt,
				      u64 scale, struct json_object *in)
{
	struct json_object *j = json_dict(in, NULL), *each;
	u32 i;

	json_str(j, "name", p->name);
	json_str(j, "target", p->target);
	json_str(j, "source", p->source);
	each = json_dict(j, "paper");
	json_str(each, "layer", p->paper.layer);
	json_str(each, "cache", p->paper.cache);
	json_str(each, "cleaning", p->paper.cleaning);
	json_str(each, "mapping", p->paper.mapping);
	if (p->paper.bands)
		json_str(each, "bands", p->paper.bands);
	else
		json_u64(each, "band_blocks", p->band_blocks);
	json_str(each, "size", p->paper.size);
	json_u64(j, "scale", scale);
	json_u64(j, "max_scale", preset_max_scale(p, 0));
	json_bool(j, "needs_cache_device", p->flash);
	json_bool(j, "needs_conventional_tracks_or_meta", p->least_bands);
	each = json_dict(j, "options");
	for (; opt->name; opt++)
		json_str(each, opt->name, opt->value);
	each = json_list(j, "feature");
	for (i = 0; p->features[i]; i++)
		json_str(each, NULL, p->features[i]);
	if (p->doc)
		json_str(j, "doc", p->doc);
	each = json_list(j, "set");
	for (i = 0; p->keys[i]; i++)
		json_str(each, NULL, p->keys[i]);
	return j;
}

static int list(u64 scale, bool json)
{
	struct preset_option opt[PRESET_MAX_OPTIONS];
	const struct preset *p;
	char why[PRESET_WHY];
	struct json_object *j = NULL;
	u64 most = 0;
	u32 i;

	for (i = 0; (p = preset_by_index(i)); i++)
		most = max(most, preset_max_scale(p, 0));
	if (scale > most) {
		fail("--scale %llu is too large for every preset: at most %llu", scale, most);
		return EXIT_USAGE;
	}
	if (json)
		j = json_list(NULL, NULL);
	else
		say("%-17s %-11s %11s  %9s  %s", "NAME", "TARGET", "DATA", "MAX SCALE", "LAYER");
	for (i = 0; (p = preset_by_index(i)); i++) {
		if (preset_options(p, scale, 0, opt, why))
			fprintf(stderr, "shingle: %s\n", why);
		else if (json)
			print_json(p, opt, scale, j);
		else
			print_line(p, opt);
	}
	if (json)
		json_print(j, stdout);
	return EXIT_CLEAN;
}

static int show_one(const char *name, u64 scale, bool json)
{
	struct preset_option opt[PRESET_MAX_OPTIONS];
	const struct preset *p = preset_by_name(name);
	char text[256];

	if (!p) {
		fail("PRESET '%s' is not known: choose one of %s", name,
		     preset_names(text, sizeof(text)));
		return EXIT_USAGE;
	}
	if (preset_options(p, scale, 0, opt, text)) {
		fail("%s", text);
		return EXIT_USAGE;
	}
	if (json)
		json_print(print_json(p, opt, scale, NULL), stdout);
	else
		print(p, opt, scale);
	return EXIT_CLEAN;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "scale", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *name = NULL;
	bool json = false;
	u64 scale = 1;
	int c;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case 's':
			if (!parse_number("--scale", optarg, 1, PRESET_MAX_SCALE, &scale))
				return EXIT_USAGE;
			break;
		case 'j':
			json = true;
			break;
		default:
			return option_error(cmd, c, argv[optind - 1]);
		}
	}
	if (!parse_operands(cmd, argc, argv, optind < argc, "PRESET", &name))
		return EXIT_USAGE;
	return name ? show_one(name, scale, json) : list(scale, json);
}

const struct command cmd_presets = {
	.name = "presets",
	.summary = "list the drives of the literature for --preset",
	.help = "Usage: shingle presets [PRESET] [options]\n\n"
		"Lists the presets, or prints one in full: the figures of its source, and the options\n"
		"and settings that it stands for.\n\n"
		"  --scale N         divide all capacities by N\n"
		"  --json            print JSON: an array, or with PRESET an object\n",
	.run = run,
};
