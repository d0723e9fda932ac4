// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzes the formats of the command: lines that load reads, bytes that scan prints, sizes and
 * numbers.  The first byte of an input selects one.
 */
/* Its functions are static, as only its own main() needs them. */
#include "../kv/command/cmd-data.c"

#include "fuzz.h"

static const struct kv_options opt = { .size = sizeof(struct kv_options), .flags = KV_NO_THREAD };
static FILE *nowhere;

static struct kv *empty_store(void)
{
	struct kv *kv;

	disk_reset();
	if (store_open(&kv, disk_mem(), NULL, &opt))
		broken("open: %s", kv_error());
	return kv;
}

static void out_to(FILE *f)
{
	fflush(stdout);
	stdout = f;
}

/* Return: the text, to be freed. */
static char *what_scan_prints(struct kv *kv, bool json, size_t *bytes)
{
	struct range all = { .w = { .limit = U64_MAX, .json = json } };
	FILE *was = stdout, *f;
	char *text = NULL;
	size_t i;

	f = open_memstream(&text, bytes);
	if (!f)
		broken("no memory");
	out_to(f);
	if (show_range(kv, &all))
		broken("scan: %s", kv_error());
	out_to(was);
	fclose(f);
	for (i = 0; i < *bytes; i++) {
		if (((u8)text[i] < 0x20 && text[i] != '\n' && text[i] != '\t') ||
		    (u8)text[i] >= 0x7f)
			broken("byte %02x is printed as it is", (u8)text[i]);
	}
	return text;
}

static int loaded(struct kv *kv, const void *text, size_t bytes, u32 batch)
{
	struct words w = { .batch = batch };
	FILE *f = bytes ? fmemopen((void *)text, bytes, "r") : nowhere;
	int ret = load_from(kv, f, &w);

	if (bytes)
		fclose(f);
	return ret;
}

/* Lines that load accepts are printed by scan; that text is accepted and printed again. */
static void lines(struct input *in)
{
	u32 batch = 1 + (u32)take(in, 1) % 8;
	struct kv *kv = empty_store();
	char *first, *second;
	size_t first_bytes, second_bytes;

	loaded(kv, in->at, in->left, batch);
	free(what_scan_prints(kv, true, &first_bytes));
	first = what_scan_prints(kv, false, &first_bytes);
	kv_close(kv);
	kv = empty_store();
	if (loaded(kv, first, first_bytes, 1))
		broken("what scan has printed is not taken: %s", kv_error());
	second = what_scan_prints(kv, false, &second_bytes);
	kv_close(kv);
	if (first_bytes != second_bytes || memcmp(first, second, first_bytes))
		broken("what is printed is not what was loaded");
	free(first);
	free(second);
}

/* Any bytes must survive the way to text and back; any text may be given as bytes. */
static void texts(struct input *in)
{
	char *shown = text_of(in->at, in->left), *typed = strndup((const char *)in->at, in->left);
	size_t bytes, room = strlen(typed);

	if (!take_text(shown, &bytes) || bytes != in->left ||
	    (bytes && memcmp(shown, in->at, bytes)))
		broken("bytes as text are other bytes");
	if (take_text(typed, &bytes) && bytes > room)
		broken("a text of %zu became %zu bytes", room, bytes);
	free(shown);
	free(typed);
}

/* A size in bytes must be printed and read without a change. */
static void numbers(struct input *in)
{
	char *typed = strndup((const char *)in->at, in->left), shown[40];
	u64 bytes, again, number;

	if (parse_size("--size", typed, &bytes)) {
		snprintf(shown, sizeof(shown), "%lluB", bytes);
		if (!parse_size("--size", shown, &again) || again != bytes)
			broken("%llu bytes are read as %llu", bytes, again);
	}
	if (parse_number("--limit", typed, 1, 1000000, &number) &&
	    (number < 1 || number > 1000000))
		broken("%llu is no such number", number);
	free(typed);
}

static void eat(struct input in)
{
	FILE *was = stderr;
	u8 which = (u8)take(&in, 1);

	stderr = nowhere;
	if (which % 3 == 0)
		lines(&in);
	else if (which % 3 == 1)
		texts(&in);
	else
		numbers(&in);
	stderr = was;
}

static void begin(void)
{
	nowhere = fopen("/dev/null", "r+e");
	if (!nowhere)
		broken("/dev/null cannot be opened");
	tool_name = "kv";
	use_begin(false, KV_SOC);
}

const struct harness harness_formats = { .name = "formats", .begin = begin, .eat = eat };
