// SPDX-License-Identifier: GPL-2.0
/* kv put, get, delete, scan, load. */
#include <unistd.h>

#include "command.h"

#define TEXT_HELP \
	"Keys and values are text.  Control characters, the backslash (\\x5c) and bytes from\n" \
	"\\x7f on are written as \\xNN.\n\n"

/* Bytes of a write in a batch besides key and value: see shingle-kv.h. */
#define WRITE_BYTES	14U

static bool take_operand(const struct command *cmd, const char *name, char *text, size_t *bytes)
{
	if (take_text(text, bytes))
		return true;
	usage(cmd, "%s: write a backslash as \\x5c", name);
	return false;
}

/*
 * Read a value: all of a file.  Return: NULL after an error was printed, with the exit code in
 * @ret.
 */
static char *read_value(FILE *f, size_t *bytes, int *ret)
{
	/* The band size is unknown before the store is open, and opening may have to wait. */
	const size_t most = KV_BAND_MAX / 8;
	size_t room = 0, n;
	char *data = NULL, *more;

	*bytes = 0;
	*ret = EXIT_OPERATION;
	do {
		if (*bytes == room) {
			room = room ? min(2 * room, most + 1) : 65536;
			more = realloc(data, room);
			if (!more) {
				fail("out of memory");
				goto out;
			}
			data = more;
		}
		n = fread(data + *bytes, 1, room - *bytes, f);
		*bytes += n;
	} while (n && *bytes <= most);
	if (ferror(f)) {
		fail("the standard input cannot be read");
	} else if (*bytes > most) {
		fail("the value is larger than %s and does not fit in a band",
		     size_text(most).s);
		*ret = EXIT_USAGE;
	} else {
		return data;
	}
out:
	free(data);
	return NULL;
}

static int put(const struct command *cmd, int argc, char **argv)
{
	size_t key_bytes, value_bytes = 0;
	char *read = NULL, *value;
	struct words w;
	struct kv *kv;
	int err, ret;

	if (!take_words(cmd, argc, argv, "sS", &w))
		return w.ret;
	if (argc - optind < 2 || argc - optind > 3)
		return usage(cmd, "the operands are DEVICE KEY [VALUE]");
	if (!take_operand(cmd, "KEY", argv[optind + 1], &key_bytes))
		return EXIT_USAGE;
	value = argv[optind + 2];
	if (value && !take_operand(cmd, "VALUE", value, &value_bytes))
		return EXIT_USAGE;
	if (!value) {
		value = read = read_value(stdin, &value_bytes, &ret);
		if (!read)
			return ret;
	}
	ret = open_store(&kv, argv[optind], KV_NO_THREAD, &w);
	if (!ret) {
		err = kv_put(kv, argv[optind + 1], key_bytes, value, value_bytes,
			     w.sync ? KV_SYNC : 0);
		ret = close_store(kv, err ? failed(err) : EXIT_CLEAN);
	}
	free(read);
	return ret;
}

static int get(const struct command *cmd, int argc, char **argv)
{
	const char *path, *key;
	size_t key_bytes, bytes;
	struct words w;
	struct kv *kv;
	void *value;
	int err, ret;

	if (!take_words(cmd, argc, argv, "", &w))
		return w.ret;
	if (!parse_operands(cmd, argc, argv, 2, "DEVICE", &path, "KEY", &key) ||
	    !take_operand(cmd, "KEY", argv[optind + 1], &key_bytes))
		return EXIT_USAGE;
	ret = open_store(&kv, path, KV_READ_ONLY, &w);
	if (ret)
		return ret;
	err = kv_get(kv, NULL, key, key_bytes, &value, &bytes);
	if (err == -ENOENT) {
		ret = fail("there is no such key");
	} else if (err) {
		ret = failed(err);
	} else {
		fwrite(value, 1, bytes, stdout);
		if (isatty(STDOUT_FILENO))
			putchar('\n');
		free(value);
	}
	return close_store(kv, ret);
}

static int delete(const struct command *cmd, int argc, char **argv)
{
	const char *path, *key;
	size_t key_bytes;
	struct words w;
	struct kv *kv;
	int err, ret;

	if (!take_words(cmd, argc, argv, "sS", &w))
		return w.ret;
	if (!parse_operands(cmd, argc, argv, 2, "DEVICE", &path, "KEY", &key) ||
	    !take_operand(cmd, "KEY", argv[optind + 1], &key_bytes))
		return EXIT_USAGE;
	ret = open_store(&kv, path, KV_NO_THREAD, &w);
	if (ret)
		return ret;
	err = kv_delete(kv, key, key_bytes, w.sync ? KV_SYNC : 0);
	return close_store(kv, err ? failed(err) : EXIT_CLEAN);
}

/* Print a key as a line, or as an element of a JSON array. */
static void show(struct json_stream *to, const struct words *w, const void *key,
		 size_t key_bytes, const void *value, size_t bytes)
{
	struct json_object *j;

	if (to) {
		j = json_dict(NULL, NULL);
		json_text(j, "key", key, key_bytes);
		if (!w->keys)
			json_text(j, "value", value, bytes);
		json_stream_put(to, j);
		return;
	}
	print_text(stdout, key, key_bytes);
	if (!w->keys) {
		putchar('\t');
		print_text(stdout, value, bytes);
	}
	putchar('\n');
}

static bool before(const void *key, size_t bytes, const char *end, size_t end_bytes)
{
	size_t n = min(bytes, end_bytes);
	int c = memcmp(key, end, n);

	return c ? c < 0 : bytes < end_bytes;
}

/**
 * struct range - the range of a scan
 * @w: options
 * @it: iterator
 * @from: first key, or NULL
 * @to: the range ends before this key; or NULL
 * @from_bytes: of @from
 * @to_bytes: of @to
 * @err: result
 */
struct range {
	struct words w;
	struct kv_iter *it;
	char *from, *to;
	size_t from_bytes, to_bytes;
	int err;
};

static void walk(struct json_stream *to, void *ctx)
{
	struct range *r = ctx;
	size_t key_bytes, bytes;
	const void *key, *value;
	u64 n = 0;

	for (r->err = kv_iter_seek(r->it, r->from, r->from_bytes); !r->err && n < r->w.limit;
	     r->err = kv_iter_next(r->it), n++) {
		key = kv_iter_key(r->it, &key_bytes);
		if (r->to && !before(key, key_bytes, r->to, r->to_bytes))
			break;
		value = kv_iter_value(r->it, &bytes);
		show(to, &r->w, key, key_bytes, value, bytes);
	}
}

static int show_range(struct kv *kv, struct range *r)
{
	struct json_stream all = { .walk = walk, .ctx = r };
	int err = kv_iter_new(kv, NULL, &r->it);

	if (err)
		return err;
	if (r->w.json)
		json_print(json_stream(NULL, NULL, &all), stdout);
	else
		walk(NULL, r);
	kv_iter_free(r->it);
	return r->err == -ENOENT ? 0 : r->err;
}

static int scan(const struct command *cmd, int argc, char **argv)
{
	struct range r = { .it = NULL };
	struct kv *kv;
	int err, ret;

	if (!take_words(cmd, argc, argv, "jkl", &r.w))
		return r.w.ret;
	if (argc - optind < 1 || argc - optind > 3)
		return usage(cmd, "the operands are DEVICE [FROM [TO]]");
	if (argc - optind > 1)
		r.from = argv[optind + 1];
	if (argc - optind > 2)
		r.to = argv[optind + 2];
	if ((r.from && !take_operand(cmd, "FROM", r.from, &r.from_bytes)) ||
	    (r.to && !take_operand(cmd, "TO", r.to, &r.to_bytes)))
		return EXIT_USAGE;
	ret = open_store(&kv, argv[optind], KV_READ_ONLY, &r.w);
	if (ret)
		return ret;
	err = show_range(kv, &r);
	return close_store(kv, err ? failed(err) : EXIT_CLEAN);
}

/**
 * struct lines - the input of load
 * @f: the file
 * @nr: number of the current line
 * @text: the line without its end, with a zero appended
 * @bytes: length of the line
 * @room: of @text
 * @most: length of the longest line that a store with these bands accepts
 */
struct lines {
	FILE *f;
	u64 nr;
	char *text;
	size_t bytes, room, most;
};

/*
 * Read the next line.  Return: false at the end, or after an error was printed, with the exit code
 * in @ret.
 */
static bool next_line(struct lines *l, int *ret)
{
	char *more;
	int c;

	l->bytes = 0;
	while ((c = getc_unlocked(l->f)) != EOF && c != '\n') {
		if (l->bytes == l->most) {
			*ret = fail("line %llu is longer than the longest key with its value", l->nr + 1);
			return false;
		}
		if (l->bytes + 1 >= l->room) {
			more = realloc(l->text, 2 * l->room);
			if (!more) {
				*ret = fail("line %llu: out of memory", l->nr + 1);
				return false;
			}
			l->text = more;
			l->room *= 2;
		}
		l->text[l->bytes++] = (char)c;
	}
	if (c == EOF && ferror(l->f))
		*ret = fail("the input cannot be read");
	if (*ret || (c == EOF && !l->bytes))
		return false;
	l->text[l->bytes] = 0;
	l->nr++;
	return true;
}

/* Add a line to the batch, and its size to @batch_bytes. */
static int take_line(struct kv_batch *b, const struct lines *l, u64 *batch_bytes)
{
	char *tab = strchr(l->text, '\t');
	size_t key_bytes, bytes;
	int err;

	/* The rest of the line would be lost. */
	if (strlen(l->text) != l->bytes)
		return fail("line %llu: write a zero byte as \\x00", l->nr);
	if (!tab)
		return fail("line %llu has no tab between key and value", l->nr);
	*tab = 0;
	if (!take_text(l->text, &key_bytes) || !take_text(tab + 1, &bytes))
		return fail("line %llu: write a backslash as \\x5c", l->nr);
	err = kv_batch_put(b, l->text, key_bytes, tab + 1, bytes);
	*batch_bytes += WRITE_BYTES + key_bytes + bytes;
	return err ? fail("line %llu: %s", l->nr, kv_error()) : EXIT_CLEAN;
}

static int load_from(struct kv *kv, FILE *f, const struct words *w)
{
	struct lines l = { .f = f, .room = 4096 };
	struct kv_batch *b = kv_batch_new();
	u64 in = 0, batch_bytes = 0;
	struct kv_shape shape = { .size = sizeof(shape) };
	int ret, err = 0;

	kv_shape(kv, &shape);
	/* Key, tab and value; each byte may be written as four. */
	l.most = 4 * ((size_t)KV_KEY_MAX + shape.band_bytes / 8) + 1;
	l.text = malloc(l.room);
	ret = b && l.text ? EXIT_CLEAN : fail("out of memory");
	while (!ret && !err && next_line(&l, &ret)) {
		ret = take_line(b, &l, &batch_bytes);
		/*
		 * A batch that is too large is written now, which fails, before it grows further.
		 */
		if (!ret && (++in == w->batch || batch_bytes > shape.band_bytes / 4)) {
			err = kv_write(kv, b, w->sync ? KV_SYNC : 0);
			kv_batch_clear(b);
			in = 0;
			batch_bytes = 0;
		}
	}
	if (!ret && !err && in)
		err = kv_write(kv, b, w->sync ? KV_SYNC : 0);
	if (!ret && err)
		ret = fail("line %llu: %s", l.nr, kv_error());
	free(l.text);
	kv_batch_free(b);
	return ret;
}

static int load(const struct command *cmd, int argc, char **argv)
{
	struct words w;
	struct kv *kv;
	FILE *f = stdin;
	int ret;

	if (!take_words(cmd, argc, argv, "sbS", &w))
		return w.ret;
	if (argc - optind < 1 || argc - optind > 2)
		return usage(cmd, "the operands are DEVICE [FILE]");
	if (argc - optind > 1 && strcmp(argv[optind + 1], "-")) {
		f = fopen(argv[optind + 1], "re");
		if (!f)
			return fail("FILE %s: %s", argv[optind + 1], strerror(errno));
	}
	ret = open_store(&kv, argv[optind], 0, &w);
	if (!ret)
		ret = close_store(kv, load_from(kv, f, &w));
	if (f != stdin)
		fclose(f);
	return ret;
}

const struct command kv_cmd_put = {
	.name = "put",
	.summary = "store a value under a key",
	.help = "Usage: kv put [options] DEVICE KEY [VALUE]\n\n"
		"Without VALUE, stores the bytes of the standard input.\n"
		TEXT_HELP
		"  --sync      make the write durable at once (the end of the command does, too)\n"
		STREAM_HELP,
	.run = put,
};

const struct command kv_cmd_get = {
	.name = "get",
	.summary = "print the bytes of a value",
	.help = "Usage: kv get [options] DEVICE KEY\n\n" TEXT_HELP
		"The exit status is 8 if there is no such key.\n\n"
		COMMON_HELP,
	.run = get,
};

const struct command kv_cmd_delete = {
	.name = "delete",
	.summary = "delete a key",
	.help = "Usage: kv delete [options] DEVICE KEY\n\n" TEXT_HELP
		"  --sync      as for put\n"
		STREAM_HELP,
	.run = delete,
};

const struct command kv_cmd_scan = {
	.name = "scan",
	.summary = "print keys and values in order",
	.help = "Usage: kv scan [options] DEVICE [FROM [TO]]\n\n"
		"Prints keys from FROM (inclusive) to TO (exclusive), one line each: key, tab, value.\n"
		TEXT_HELP
		"  --keys      print no values\n"
		"  --limit N   print at most N\n"
		"  --json      print JSON\n"
		COMMON_HELP,
	.run = scan,
};

const struct command kv_cmd_load = {
	.name = "load",
	.summary = "store the output of scan",
	.help = "Usage: kv load [options] DEVICE [FILE]\n\n"
		"Stores lines of key, tab, value from FILE or the standard input.\n"
		TEXT_HELP
		"  --batch N   write N lines atomically (1)\n"
		"  --sync      make each batch durable before the next one is written\n"
		STREAM_HELP,
	.run = load,
};
