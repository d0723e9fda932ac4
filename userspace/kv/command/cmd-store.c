// SPDX-License-Identifier: GPL-2.0
/* kv dump, check, compact, stats. */
#include <uuid/uuid.h>

#include "command.h"

static int dump_line(void *ctx, const struct kv_band *b)
{
	if (b->level < 0) {
		printf("band %llu: log %llu of memtable %llu, %s%s\n", (u64)b->band, (u64)b->id,
		       (u64)b->age, b->bytes ? size_text(b->bytes).s : "open",
		       b->offloaded ? ", offloaded" : "");
		return 0;
	}
	printf("band %llu: %s%stable %llu, level %d, age %llu, %s, %llu entries, %llu deletions, ",
	       (u64)b->band, b->offloaded ? "offloaded " : "", b->unsorted ? "unsorted " : "",
	       (u64)b->id, b->level, (u64)b->age, size_text(b->bytes).s, (u64)b->entries,
	       (u64)b->tombstones);
	print_text(stdout, b->min_key, b->min_bytes);
	printf(" .. ");
	print_text(stdout, b->max_key, b->max_bytes);
	putchar('\n');
	return 0;
}

static int dump_json(void *ctx, const struct kv_band *b)
{
	struct json_object *j = json_dict(NULL, NULL);

	json_u64(j, "band", b->band);
	json_u64(j, "offset", b->offset);
	json_u64(j, "bytes", b->bytes);
	json_str(j, "kind", b->level < 0 ? "log" : "table");
	json_u64(j, "id", b->id);
	json_u64(j, "age", b->age);
	json_bool(j, "offloaded", b->offloaded);
	if (b->level >= 0) {
		json_u64(j, "level", (u64)b->level);
		json_bool(j, "unsorted", b->unsorted);
		json_u64(j, "entries", b->entries);
		json_u64(j, "tombstones", b->tombstones);
		json_text(j, "min", b->min_key, b->min_bytes);
		json_text(j, "max", b->max_key, b->max_bytes);
	}
	json_stream_put(ctx, j);
	return 0;
}

static void dump_bands(struct json_stream *to, void *ctx)
{
	kv_bands(ctx, dump_json, to);
}

static int dump(const struct command *cmd, int argc, char **argv)
{
	struct json_stream used = { .walk = dump_bands };
	struct kv_shape s = { .size = sizeof(s) };
	const char *path;
	struct words w;
	struct json_object *j;
	struct kv *kv;
	char uuid[UUID_STR_LEN];
	int ret;

	if (!take_words(cmd, argc, argv, "j", &w))
		return w.ret;
	if (!parse_operands(cmd, argc, argv, 1, "DEVICE", &path))
		return EXIT_USAGE;
	ret = open_store(&kv, path, KV_READ_ONLY, &w);
	if (ret)
		return ret;
	kv_shape(kv, &s);
	uuid_unparse_lower(s.uuid, uuid);
	if (!w.json) {
		printf("uuid %s, organisation %s, %u bands of %s, band table %llu\n", uuid,
		       organisation_text(s.organisation), s.bands, size_text(s.band_bytes).s, (u64)s.generation);
		kv_bands(kv, dump_line, NULL);
		return close_store(kv, EXIT_CLEAN);
	}
	j = json_dict(NULL, NULL);
	json_str(j, "uuid", uuid);
	json_str(j, "organisation", organisation_text(s.organisation));
	json_u64(j, "band_bytes", s.band_bytes);
	json_u64(j, "bands", s.bands);
	json_u64(j, "generation", s.generation);
	used.ctx = kv;
	json_stream(j, "used", &used);
	json_print(j, stdout);
	return close_store(kv, EXIT_CLEAN);
}

struct report {
	struct kv *kv;
	struct json_stream *to;
	int err;
};

static void finding(void *ctx, const char *sentence)
{
	struct report *r = ctx;

	if (r->to)
		json_stream_put(r->to, json_object_new_string(sentence));
	else
		say("%s", sentence);
}

static void find(struct json_stream *to, void *ctx)
{
	struct report *r = ctx;

	r->to = to;
	r->err = kv_check(r->kv, finding, r);
}

static int check(const struct command *cmd, int argc, char **argv)
{
	struct report r = { .to = NULL };
	struct json_stream findings = { .walk = find, .ctx = &r };
	struct json_object *j;
	const char *path;
	struct words w;
	int ret;

	if (!take_words(cmd, argc, argv, "j", &w))
		return w.ret;
	if (!parse_operands(cmd, argc, argv, 1, "DEVICE", &path))
		return EXIT_USAGE;
	ret = open_store(&r.kv, path, KV_READ_ONLY, &w);
	if (ret)
		return ret;
	if (w.json) {
		j = json_dict(NULL, NULL);
		json_stream(j, "findings", &findings);
		json_print(j, stdout);
	} else {
		find(NULL, &r);
		if (!r.err)
			say("clean");
	}
	ret = !r.err ? EXIT_CLEAN : r.err == -EUCLEAN ? EXIT_UNCORRECTED : failed(r.err);
	return close_store(r.kv, ret);
}

static void give_up(void *ctx, const char *sentence)
{
	u32 *pieces = ctx;

	say("%s", sentence);
	++*pieces;
}

static int repair(const struct command *cmd, int argc, char **argv)
{
	struct kv_options opt = { .size = sizeof(struct kv_options) };
	const char *path;
	struct words w;
	u32 pieces = 0;
	int err;

	if (!take_words(cmd, argc, argv, "u", &w))
		return w.ret;
	if (!parse_operands(cmd, argc, argv, 1, "DEVICE", &path))
		return EXIT_USAGE;
	opt.offload = w.offload;
	err = kv_repair(path, &opt, w.unreadable ? KV_REPAIR_UNREADABLE : 0, give_up, &pieces);
	if (err)
		return failed(err);
	if (!pieces)
		say("no damage was found");
	return pieces ? EXIT_CORRECTED : EXIT_CLEAN;
}

static int compact(const struct command *cmd, int argc, char **argv)
{
	const char *path;
	struct words w;
	struct kv *kv;
	int err, ret;

	if (!take_words(cmd, argc, argv, "S", &w))
		return w.ret;
	if (!parse_operands(cmd, argc, argv, 1, "DEVICE", &path))
		return EXIT_USAGE;
	ret = open_store(&kv, path, KV_NO_THREAD, &w);
	if (ret)
		return ret;
	err = kv_compact(kv);
	return close_store(kv, err ? failed(err) : EXIT_CLEAN);
}

/* Counters of a program that has a store open. */
static const struct {
	const char *name, *text;
	size_t offset;
	bool bytes;
} counters[] = {
#define COUNTER(name, text, bytes) { #name, text, offsetof(struct kv_stats, name), bytes }
	COUNTER(puts, "values put", false),
	COUNTER(deletes, "keys deleted", false),
	COUNTER(gets, "keys looked up", false),
	COUNTER(user_bytes, "keys and values written", true),
	COUNTER(offloaded_writes, "writes offloaded", false),
	COUNTER(offloaded_bytes, "keys and values offloaded", true),
	COUNTER(log_bytes, "written to logs", true),
	COUNTER(flush_bytes, "written to level 0", true),
	COUNTER(compact_read_bytes, "read by merges", true),
	COUNTER(compact_written_bytes, "written by merges", true),
	COUNTER(table_bytes, "written to the band table", true),
	COUNTER(pad_bytes, "zeroes written", true),
	COUNTER(read_bytes, "read otherwise", true),
	COUNTER(syncs, "flushes of devices", false),
	COUNTER(flushes, "memtables written as tables", false),
	COUNTER(compactions, "merges", false),
	COUNTER(moves, "tables moved", false),
	COUNTER(discards, "bands discarded", false),
	COUNTER(levels_told, "levels passed to the layer", false),
	COUNTER(bloom_checks, "Bloom filter checks", false),
	COUNTER(bloom_passes, "Bloom filter passes", false),
	COUNTER(bloom_wrong, "Bloom filter false positives", false),
	COUNTER(flush_us, "microseconds of writing tables", false),
	COUNTER(compact_us, "microseconds of merging", false),
	COUNTER(slow_us, "microseconds of waiting writes", false),
#undef COUNTER
};

static u64 counter(const struct kv_stats *s, u32 i)
{
	return *(const uint64_t *)((const char *)s + counters[i].offset);
}

/* If no program has the store open, only its state is shown, not counters. */
static int stats(const struct command *cmd, int argc, char **argv)
{
	struct kv_stats s = { .size = sizeof(s) };
	const char *path;
	struct words w;
	struct json_object *j, *levels, *level;
	struct kv *kv = NULL;
	u32 i;
	int ret, err;

	if (!take_words(cmd, argc, argv, "j", &w))
		return w.ret;
	if (!parse_operands(cmd, argc, argv, 1, "DEVICE", &path))
		return EXIT_USAGE;
	err = kv_live_stats(path, &s);
	if (err == -ENOTCONN) {
		ret = open_store(&kv, path, KV_READ_ONLY, &w);
		if (ret)
			return ret;
		kv_stats(kv, &s);
	} else if (err) {
		return failed(err);
	}
	if (!w.json) {
		printf("bands: %llu of %s, %llu free, %llu logs\n", (u64)s.bands,
		       size_text(s.band_bytes).s, (u64)s.bands_free, (u64)s.bands_log);
		for (i = 0; i < KV_LEVELS; i++) {
			if (s.level_bands[i])
				printf("level %u: %llu bands, %s\n", i, (u64)s.level_bands[i],
				       size_text(s.level_bytes[i]).s);
		}
		if (s.offload_bands)
			printf("offload device: %llu bands, %llu free\n",
			       (u64)s.offload_bands, (u64)s.offload_bands_free);
		if (s.unsorted_bands)
			printf("unsorted: %llu bands, %s\n", (u64)s.unsorted_bands,
			       size_text(s.unsorted_bytes).s);
		printf("in logs: %s\n", size_text(s.memtable_bytes).s);
		for (i = 0; i < ARRAY_SIZE(counters) && !kv; i++) {
			if (counters[i].bytes)
				printf("%s: %s\n", counters[i].text,
				       size_text(counter(&s, i)).s);
			else
				printf("%s: %llu\n", counters[i].text, counter(&s, i));
		}
		if (s.ring_error)
			printf("requests are sent one at a time: the kernel has no io_uring (%s)\n",
			       strerror((int)s.ring_error));
		return kv ? close_store(kv, EXIT_CLEAN) : EXIT_CLEAN;
	}
	j = json_dict(NULL, NULL);
	json_u64(j, "bands", s.bands);
	json_u64(j, "band_bytes", s.band_bytes);
	json_u64(j, "bands_free", s.bands_free);
	json_u64(j, "bands_log", s.bands_log);
	json_u64(j, "log_bytes", s.memtable_bytes);
	json_u64(j, "offload_bands", s.offload_bands);
	json_u64(j, "offload_bands_free", s.offload_bands_free);
	json_u64(j, "unsorted_bands", s.unsorted_bands);
	json_u64(j, "unsorted_bytes", s.unsorted_bytes);
	json_u64(j, "ring_error", s.ring_error);
	levels = json_list(j, "levels");
	for (i = 0; i < KV_LEVELS; i++) {
		level = json_dict(levels, NULL);
		json_u64(level, "bands", s.level_bands[i]);
		json_u64(level, "bytes", s.level_bytes[i]);
	}
	if (!kv) {
		level = json_dict(j, "since_open");
		for (i = 0; i < ARRAY_SIZE(counters); i++)
			json_u64(level, counters[i].name, counter(&s, i));
	}
	json_print(j, stdout);
	return kv ? close_store(kv, EXIT_CLEAN) : EXIT_CLEAN;
}

#define JSON_HELP \
	"  --json      print JSON\n" \
	COMMON_HELP

const struct command kv_cmd_dump = {
	.name = "dump",
	.summary = "print the contents of each band",
	.help = "Usage: kv dump [options] DEVICE\n\n"
		"Prints the store, its logs, and its tables by level and key.  Scan prints values.\n\n" JSON_HELP,
	.run = dump,
};

const struct command kv_cmd_check = {
	.name = "check",
	.summary = "read and verify everything; changes nothing",
	.help = "Usage: kv check [options] DEVICE\n\n"
		"Prints one line for each finding, with its band.  The exit status is 4 if there is\n"
		"damage; traces of an interrupted commit are not damage.\n\n" JSON_HELP,
	.run = check,
};

const struct command kv_cmd_repair = {
	.name = "repair",
	.summary = "recover the sound parts of a damaged log",
	.help = "Usage: kv repair [options] DEVICE\n\n"
		"Prints one line for each part of the log that is given up; all sound parts are kept,\n"
		"later ones, too.  The exit status is 1 if a part was given up.  Tables are not\n"
		"changed.\n\n"
		"  --unreadable\n"
		"              give up parts that cannot be read, too\n"
		COMMON_HELP,
	.run = repair,
};

const struct command kv_cmd_compact = {
	.name = "compact",
	.summary = "merge all tables",
	.help = "Usage: kv compact [options] DEVICE\n\n"
		"Afterwards no band overlaps another, there are no deleted or old versions, and the\n"
		"offload device is empty.\n\n" STREAM_HELP,
	.run = compact,
};

const struct command kv_cmd_stats = {
	.name = "stats",
	.summary = "print fill and counters",
	.help = "Usage: kv stats [options] DEVICE\n\n"
		"If a program has the store open, that program answers, and its counters are printed,\n"
		"too.\n\n" JSON_HELP,
	.run = stats,
};
