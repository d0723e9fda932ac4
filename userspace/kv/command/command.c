// SPDX-License-Identifier: GPL-2.0
/* Opening stores, errors, and bytes as text. */
#include <ctype.h>

#include "command.h"

static const char *const organisations[] = {
	[KV_SOC] = "soc", [KV_LOC] = "loc", [KV_BUFFERED] = "buffered",
};

const char *organisation_text(enum kv_organisation which)
{
	return organisations[which];
}

bool take_organisation(const char *text, enum kv_organisation *which)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(organisations); i++) {
		if (!strcmp(text, organisations[i])) {
			*which = (enum kv_organisation)i;
			return true;
		}
	}
	return false;
}

int failed(int err)
{
	fail("%s", kv_error());
	return err == -EUCLEAN ? EXIT_UNCORRECTED : err == -EINVAL ? EXIT_USAGE : EXIT_OPERATION;
}

int open_store(struct kv **kv, const char *path, uint32_t flags, const struct words *w)
{
	struct kv_options opt = { .size = sizeof(struct kv_options), .flags = flags | (w->stream ? KV_STREAM : 0),
				  .lead_bytes = (uint32_t)w->lead, .offload = w->offload };
	int err = kv_open(kv, path, &opt);

	return err ? failed(err) : EXIT_CLEAN;
}

int close_store(struct kv *kv, int ret)
{
	int err;

	/* kv check has reported it. */
	if (kv_lost(kv) && ret != EXIT_UNCORRECTED) {
		fail("%s", kv_lost(kv));
		ret = kv_lost_error(kv) == -EUCLEAN ? EXIT_UNCORRECTED : EXIT_OPERATION;
	}
	err = kv_close(kv);
	if (err && ret == EXIT_CLEAN)
		ret = failed(err);
	return ret;
}

static size_t put_byte(char *to, u8 c)
{
	if (c >= 0x20 && c < 0x7f && c != '\\') {
		*to = (char)c;
		return 1;
	}
	return (size_t)sprintf(to, "\\x%02x", c);
}

void print_text(FILE *f, const void *data, size_t bytes)
{
	const u8 *from = data;
	char text[8];
	size_t i;

	for (i = 0; i < bytes; i++)
		fwrite(text, 1, put_byte(text, from[i]), f);
}

/* Return: the text, to be freed; NULL without memory. */
char *text_of(const void *data, size_t bytes)
{
	char *text = malloc(4 * bytes + 1);
	const u8 *from = data;
	size_t i, n = 0;

	if (!text)
		return NULL;
	for (i = 0; i < bytes; i++)
		n += put_byte(text + n, from[i]);
	text[n] = 0;
	return text;
}

/* Convert the text of print_text() into bytes, in place.  Return: false if it is no such text. */
bool take_text(char *text, size_t *bytes)
{
	const char *from = text;
	char hex[3] = "";
	size_t n = 0;

	while (*from) {
		if (*from != '\\') {
			text[n++] = *from++;
			continue;
		}
		if (from[1] != 'x' || !isxdigit((u8)from[2]) || !isxdigit((u8)from[3]))
			return false;
		memcpy(hex, from + 2, 2);
		text[n++] = (char)strtoul(hex, NULL, 16);
		from += 4;
	}
	*bytes = n;
	return true;
}

void json_text(struct json_object *j, const char *key, const void *data, size_t bytes)
{
	char *text = text_of(data, bytes);

	json_str(j, key, text ?: "");
	free(text);
}

/**
 * take_words() - parse the options of a command
 * @cmd: the command
 * @argc: as main()
 * @argv: as main()
 * @which: letters of the options that it has: j, s, k, l, b, S, u
 * @w: result
 *
 * Return: False if the command ends here, with the exit code in @w.
 */
bool take_words(const struct command *cmd, int argc, char **argv, const char *which,
		struct words *w)
{
	/* All commands have the first one. */
	static const struct option all[] = {
		{ "offload", required_argument, NULL, 'O' },
		{ "json", no_argument, NULL, 'j' }, { "sync", no_argument, NULL, 's' },
		{ "keys", no_argument, NULL, 'k' }, { "limit", required_argument, NULL, 'l' },
		{ "batch", required_argument, NULL, 'b' },
		{ "stream", optional_argument, NULL, 'S' },
		{ "unreadable", no_argument, NULL, 'u' },
	};
	struct option options[ARRAY_SIZE(all) + 2] = { { "help", no_argument, NULL, 'h' } };
	u32 i, n = 1;
	int c;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		if (!i || strchr(which, all[i].val))
			options[n++] = all[i];
	}
	*w = (struct words){ .limit = U64_MAX, .batch = 1, .ret = EXIT_USAGE };
	while ((c = next_option(argc, argv, "+:h", options, NULL)) != -1) {
		if (c == 'j') {
			w->json = true;
		} else if (c == 's') {
			w->sync = true;
		} else if (c == 'O') {
			w->offload = optarg;
		} else if (c == 'S') {
			w->stream = true;
			if (optarg && !parse_size("--stream", optarg, &w->lead))
				return false;
			/* For the library 0 means the default. */
			if (optarg && (!w->lead || w->lead > KV_BAND_MAX)) {
				w->ret = usage(cmd, "--stream=%s: 4K at least, half a band at most",
					       optarg);
				return false;
			}
		} else if (c == 'u') {
			w->unreadable = true;
		} else if (c == 'k') {
			w->keys = true;
		} else if (c == 'l') {
			if (!parse_number("--limit", optarg, 0, U64_MAX, &w->limit))
				return false;
		} else if (c == 'b') {
			if (!parse_number("--batch", optarg, 1, 1000000, &w->batch))
				return false;
		} else {
			w->ret = option_error(cmd, c, argv[optind - 1]);
			return false;
		}
	}
	return true;
}
