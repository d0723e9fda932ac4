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

static void tell(const struct preset *p, const struct preset_option *opt, u64 scale)
{
	u64 bands = strtoull(value_of(opt, "bands"), NULL, 10);
	u32 i;

	printf("%s", p->name);
	if (scale > 1)
		printf(" --scale %llu", scale);
	say(": %s", p->target);
	say("  paper    %s; cache: %s; cleaning %s; mapping %s; bands of %s; %s", p->paper.layer,
	    p->paper.cache, p->paper.cleaning, p->paper.mapping,
	    p->paper.bands ?: blocks_text(p->band_blocks).s, p->paper.size);
	say("  source   %s", p->source);
	printf("  options ");
	for (; opt->name; opt++)
		printf(" --%s %s", opt->name, opt->value);
	for (i = 0; p->features[i]; i++)
		printf(" --feature %s", p->features[i]);
	for (i = 0; p->keys[i]; i++)
		printf(" --set %s", p->keys[i]);
	say("%s", p->flash ? " --cache DEV" : "");
	say("  takes    %llu bands, %s%s", bands, blocks_text(bands * p->band_blocks).s,
	    p->rows ? " on tracks of 2 MiB" : p->zone_bands || p->least_bands ? "" :
	    p->flash ? ", and its cache on DEV" : ", and its cache");
	if (p->least_bands) {
		say("  map      in pages that are written all over: on shingled tracks it needs --meta DEV,");
		say("           or a medium whose first tracks are conventional");
	}
	if (p->doc)
		say("  risk     %s", p->doc);
}

static void tell_json(const struct preset *p, const struct preset_option *opt, u64 scale,
		      struct json_object *in)
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
}

static int list(u64 scale, bool machine)
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
		fail("--scale %llu leaves too little of every preset: at most %llu", scale, most);
		return EXIT_USAGE;
	}
	if (machine)
		j = json_list(NULL, NULL);
	for (i = 0; (p = preset_by_index(i)); i++) {
		bool there = !preset_options(p, scale, 0, opt, why);

		if (there && machine)
			tell_json(p, opt, scale, j);
		else if (there)
			tell(p, opt, scale);
		else
			fprintf(stderr, "shingle: %s\n", why);
	}
	if (machine)
		json_print(j, stdout);
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
	bool machine = false;
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
			machine = true;
			break;
		default:
			return option_error(cmd, c, argv[optind - 1]);
		}
	}
	if (!parse_operands(cmd, argc, argv, 0))
		return EXIT_USAGE;
	return list(scale, machine);
}

const struct command cmd_presets = {
	.name = "presets",
	.summary = "list the drives of the literature that --preset knows",
	.help = "Usage: shingle presets [options]\n\n"
		"What the source says of each drive, and the options that it stands for.\n\n"
		"  --scale N         all capacities divided by N\n"
		"  --json            the same in JSON\n",
	.run = run,
};
