// SPDX-License-Identifier: GPL-2.0
/* The load: a store of sorted files in levels, in keys and sizes only. */
#include <random.h>

#include "load.h"

/* RocksDB's max_compaction_bytes, in files: a moved file may not overlap more files below. */
#define MOVE_OVERLAP_FILES	25

/*
 * With a filter of 10 bits a key, one in BLOOM_ONE_IN files with a matching range is read in vain.
 */
#define BLOOM_ONE_IN		100

static u64 rank(struct load *l)
{
	return zipfian_rank(&l->zipfian, random_unit(&l->rng));
}

/* The n-th key. The order of keys is random, and no key comes twice. */
static u64 key_of(const struct load *l, u64 n)
{
	return mix64(n + mix64(l->opt.seed));
}

/**
 * load_init() - create an empty store
 * @l: result
 * @opt: options; copied
 * @ops: callbacks
 * @ctx: argument for @ops
 *
 * The caller must call load_exit() in either case.
 *
 * Return: 0 or -ENOMEM.
 */
int load_init(struct load *l, const struct load_options *opt, const struct load_ops *ops,
	      void *ctx)
{
	memset(l, 0, sizeof(*l));
	l->opt = *opt;
	l->ops = ops;
	l->ctx = ctx;
	l->next_id = 1;
	l->rng = mix64(~opt->seed);
	l->mem = malloc(opt->file_records * sizeof(*l->mem));
	if (opt->keys == LOAD_ZIPFIAN || opt->ops)
		zipfian_init(&l->zipfian, opt->records, opt->theta);
	return l->mem ? 0 : -ENOMEM;
}

static void file_free(struct load_file *f)
{
	free(f->key);
	free(f->tracks);
	free(f);
}

void load_exit(struct load *l)
{
	u32 i, j;

	for (i = 0; i < LOAD_LEVELS; i++) {
		for (j = 0; j < l->level[i].n; j++)
			file_free(l->level[i].file[j]);
		free(l->level[i].file);
	}
	free(l->mem);
	free(l->seen);
	memset(l, 0, sizeof(*l));
}

/* Find the first file of a sorted level that ends at @key or above. */
static u32 level_find(const struct load_level *v, u64 key)
{
	u32 lo = 0, hi = v->n;

	while (lo < hi) {
		u32 mid = (lo + hi) / 2;
		const struct load_file *f = v->file[mid];

		if (f->key[f->records - 1] < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Find the files of a sorted level that overlap keys @first to @last. */
static u32 level_overlap(const struct load_level *v, u64 first, u64 last, u32 *n)
{
	u32 at = level_find(v, first), end = at;

	while (end < v->n && v->file[end]->key[0] <= last)
		end++;
	*n = end - at;
	return at;
}

static int level_insert(struct load *l, struct load_file *f)
{
	struct load_level *v = &l->level[f->level];
	u32 at = f->level ? level_find(v, f->key[0]) : v->n;

	if (v->n == v->max) {
		u32 max = 2 * v->max + 16;
		struct load_file **more = realloc(v->file, max * sizeof(*more));

		if (!more)
			return -ENOMEM;
		v->file = more;
		v->max = max;
	}
	memmove(v->file + at + 1, v->file + at, (v->n - at) * sizeof(*v->file));
	v->file[at] = f;
	v->n++;
	v->records += f->records;
	return 0;
}

static void level_remove(struct load *l, struct load_file *f)
{
	struct load_level *v = &l->level[f->level];
	u32 i;

	for (i = 0; v->file[i] != f; i++)
		;
	v->n--;
	v->records -= f->records;
	memmove(v->file + i, v->file + i + 1, (v->n - i) * sizeof(*v->file));
}

/* Create a file with @key, which it then owns, and report it to the callbacks. */
static struct load_file *file_new(struct load *l, u32 level, u64 *key, u32 n, int *err)
{
	struct load_file *f = calloc(1, sizeof(*f));

	if (!f) {
		free(key);
		*err = -ENOMEM;
		return NULL;
	}
	f->id = l->next_id++;
	f->level = level;
	f->records = n;
	f->key = key;
	*err = l->ops->write(l->ctx, f);
	if (*err) {
		file_free(f);
		return NULL;
	}
	l->stats.written_bytes += load_file_bytes(l, f);
	return f;
}

static int drop(struct load *l, struct load_file *f)
{
	int err = l->ops->drop(l->ctx, f);

	l->stats.dropped++;
	file_free(f);
	return err;
}

static int read_part(struct load *l, struct load_file *f, u64 at)
{
	u64 bytes = min((u64)l->opt.readahead_bytes, load_file_bytes(l, f) - at);

	l->stats.read_bytes += bytes;
	return l->ops->read(l->ctx, f, at, bytes);
}

/**
 * struct stream - consecutive sorted files, an input of a merge
 * @file: the remaining files
 * @n: number of @file
 * @pos: next record of the first file
 * @ahead: bytes of the first file that have been read
 */
struct stream {
	struct load_file **file;
	u32 n, pos;
	u64 ahead;
};

/* Read until the next record of a stream is in memory. */
static int stream_ready(struct load *l, struct stream *s)
{
	int err = 0;

	if (s->pos == s->file[0]->records) {
		s->file++;
		s->n--;
		s->pos = 0;
		s->ahead = 0;
	}
	while (s->n && !err && s->ahead < (u64)(s->pos + 1) * l->opt.record_bytes) {
		err = read_part(l, s->file[0], s->ahead);
		s->ahead = min(s->ahead + l->opt.readahead_bytes,
			       load_file_bytes(l, s->file[0]));
	}
	return err;
}

static int merge_one(struct load *l, struct stream *s, u32 streams, u64 *key)
{
	u64 low = U64_MAX;
	int err = 0;
	u32 i;

	for (i = 0; i < streams; i++) {
		if (s[i].n)
			low = min(low, s[i].file[0]->key[s[i].pos]);
	}
	for (i = 0; i < streams && !err; i++) {
		if (s[i].n && s[i].file[0]->key[s[i].pos] == low) {
			s[i].pos++;
			err = stream_ready(l, &s[i]);
		}
	}
	*key = low;
	return err;
}

static u32 streams_left(const struct stream *s, u32 streams)
{
	u32 i, n = 0;

	for (i = 0; i < streams; i++)
		n += s[i].n;
	return n;
}

/* Merge the streams into new files of @level, in @out. */
static int merge(struct load *l, struct stream *s, u32 streams, u32 level,
		 struct load_file **out, u32 *nr_out)
{
	int err = 0;
	u32 i;

	for (i = 0; i < streams && !err; i++)
		err = stream_ready(l, &s[i]);
	while (!err && streams_left(s, streams)) {
		u64 *key = malloc(l->opt.file_records * sizeof(*key));
		struct load_file *f;
		u32 n = 0;

		if (!key)
			return -ENOMEM;
		while (n < l->opt.file_records && !err && streams_left(s, streams))
			err = merge_one(l, s, streams, &key[n++]);
		if (err) {
			free(key);
			return err;
		}
		key = realloc(key, n * sizeof(*key)) ?: key;
		f = file_new(l, level, key, n, &err);
		if (!f)
			return err;
		out[(*nr_out)++] = f;
		l->stats.merged++;
	}
	return err;
}

/* Compact the files @in: the first @upper are of @level, the others of the next level. */
static int compact(struct load *l, u32 level, struct load_file **in, u32 nr_in, u32 upper)
{
	struct stream *s = calloc(nr_in + 1, sizeof(*s));
	u64 records = 0;
	struct load_file **out;
	u32 nr_out = 0, streams = 0, i;
	int err = 0;

	for (i = 0; i < nr_in; i++)
		records += in[i]->records;
	out = calloc(records / l->opt.file_records + 1, sizeof(*out));
	if (!s || !out) {
		free(s);
		free(out);
		return -ENOMEM;
	}
	for (i = 0; i < upper; i++)
		s[streams++] = (struct stream){ .file = in + i, .n = 1 };
	if (upper < nr_in)
		s[streams++] = (struct stream){ .file = in + upper, .n = nr_in - upper };

	l->ops->compaction(l->ctx, true);
	err = merge(l, s, streams, level + 1, out, &nr_out);
	if (err) {
		for (i = 0; i < nr_out; i++)
			file_free(out[i]);
		goto out;
	}
	for (i = 0; i < nr_in; i++)
		level_remove(l, in[i]);
	for (i = 0; i < nr_out && !err; i++)
		err = level_insert(l, out[i]);
	for (i = 0; i < nr_in; i++) {
		int one = drop(l, in[i]);

		err = err ?: one;
	}
	l->ops->compaction(l->ctx, false);
	l->stats.compactions++;
out:
	free(s);
	free(out);
	return err;
}

static int move(struct load *l, struct load_file *f)
{
	u32 from = f->level;
	struct load_file *copy;
	u64 at, *key;
	int err = 0;

	if (l->opt.moves != LOAD_REWRITE) {
		level_remove(l, f);
		f->level++;
		l->stats.moved++;
		if (l->opt.moves == LOAD_KEEP)
			err = l->ops->move(l->ctx, f, from);
		return err ?: level_insert(l, f);
	}
	key = malloc(f->records * sizeof(*key));
	if (!key)
		return -ENOMEM;
	memcpy(key, f->key, f->records * sizeof(*key));
	for (at = 0; at < load_file_bytes(l, f) && !err; at += l->opt.readahead_bytes)
		err = read_part(l, f, at);
	if (err) {
		free(key);
		return err;
	}
	copy = file_new(l, from + 1, key, f->records, &err);
	if (!copy)
		return err;
	l->stats.rewritten++;
	level_remove(l, f);
	err = level_insert(l, copy);
	return drop(l, f) ?: err;
}

static struct load_file *pick_file(struct load *l, u32 level)
{
	struct load_level *v = &l->level[level];
	u32 best = U32_MAX, at = 0, i, n;

	if (l->opt.pick == LOAD_ROUND) {
		for (i = 0; i < v->n; i++) {
			if (v->file[i]->key[0] > v->cursor)
				return v->file[i];
		}
		return v->file[0];
	}
	for (i = 0; i < v->n; i++) {
		const struct load_file *f = v->file[i];

		level_overlap(&l->level[level + 1], f->key[0], f->key[f->records - 1], &n);
		if (n < best) {
			best = n;
			at = i;
		}
	}
	return v->file[at];
}

static int compact_level0(struct load *l)
{
	struct load_level *v = &l->level[0], *below = &l->level[1];
	struct load_file **in = malloc((v->n + below->n) * sizeof(*in));
	u64 first = U64_MAX, last = 0;
	u32 upper = v->n, at, n, i;
	int err;

	if (!in)
		return -ENOMEM;
	for (i = 0; i < upper; i++) {
		in[i] = v->file[i];
		first = min(first, in[i]->key[0]);
		last = max(last, in[i]->key[in[i]->records - 1]);
	}
	at = level_overlap(below, first, last, &n);
	for (i = 0; i < n; i++)
		in[upper + i] = below->file[at + i];
	err = compact(l, 0, in, upper + n, upper);
	free(in);
	return err;
}

static int compact_level(struct load *l, u32 level)
{
	struct load_file *f = pick_file(l, level), **in;
	struct load_level *below = &l->level[level + 1];
	u64 first = f->key[0], last = f->key[f->records - 1];
	u32 at, n, beyond = 0, i;
	int err;

	l->level[level].cursor = last;
	at = level_overlap(below, first, last, &n);
	if (!n && level + 2 < LOAD_LEVELS)
		level_overlap(&l->level[level + 2], first, last, &beyond);
	if (!n && beyond <= MOVE_OVERLAP_FILES)
		return move(l, f);

	in = malloc((n + 1) * sizeof(*in));
	if (!in)
		return -ENOMEM;
	in[0] = f;
	for (i = 0; i < n; i++)
		in[1 + i] = below->file[at + i];
	err = compact(l, level, in, 1 + n, 1);
	free(in);
	return err;
}

/* The level that exceeds its bound most; -1 if none does. */
static int fullest_level(const struct load *l)
{
	double bound = (double)l->opt.level1_records, best = 1;
	int level = -1;
	u32 i;

	if (l->level[0].n >= l->opt.trigger) {
		best = (double)l->level[0].n / l->opt.trigger;
		level = 0;
	}
	for (i = 1; i + 1 < LOAD_LEVELS; i++) {
		double score = (double)l->level[i].records / bound;

		if (score > best) {
			best = score;
			level = (int)i;
		}
		bound *= l->opt.factor;
	}
	return level;
}

static int by_value(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

/* Write the memtable to a file of level 0, and bring all levels within their bounds. */
static int flush(struct load *l)
{
	struct load_file *f;
	u32 n = 0, i;
	u64 *key;
	int err, level;

	if (!l->nr_mem)
		return 0;
	qsort(l->mem, l->nr_mem, sizeof(*l->mem), by_value);
	key = malloc(l->nr_mem * sizeof(*key));
	if (!key)
		return -ENOMEM;
	for (i = 0; i < l->nr_mem; i++) {
		if (!n || key[n - 1] != l->mem[i])
			key[n++] = l->mem[i];
	}
	l->nr_mem = 0;
	if (l->seen)
		memset(l->seen, 0, (l->seen_mask + 1) * sizeof(*l->seen));
	f = file_new(l, 0, key, n, &err);
	if (!f)
		return err;
	l->stats.flushes++;
	err = level_insert(l, f);
	while (!err && (level = fullest_level(l)) >= 0)
		err = level ? compact_level(l, (u32)level) : compact_level0(l);
	return err ?: l->ops->tick(l->ctx);
}

/* Is @key in the memtable?  If not and @put is set, add it. */
static bool mem_seen(struct load *l, u64 key, bool put)
{
	u64 i;

	for (i = key & l->seen_mask; l->seen[i]; i = (i + 1) & l->seen_mask) {
		if (l->seen[i] == key)
			return true;
	}
	if (put)
		l->seen[i] = key;
	return false;
}

static int insert(struct load *l, u64 key)
{
	l->stats.inserted++;
	l->mem[l->nr_mem++] = key;
	return l->nr_mem == l->opt.file_records ? flush(l) : 0;
}

/**
 * load_fill() - insert the records and write the rest of the memtable
 * @l: the store
 *
 * Return: 0, or the error of a callback.
 */
int load_fill(struct load *l)
{
	int err = 0;
	u64 i;

	for (i = 0; i < l->opt.records && !err; i++) {
		u64 n = l->opt.keys == LOAD_ZIPFIAN ? rank(l) : i;

		err = insert(l, key_of(l, n));
	}
	return err ?: flush(l);
}

static bool file_find(const struct load_file *f, u64 key, u32 *pos)
{
	u32 lo = 0, hi = f->records;

	while (lo < hi) {
		u32 mid = (lo + hi) / 2;

		if (f->key[mid] < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	*pos = min(lo, f->records - 1);
	return lo < f->records && f->key[lo] == key;
}

/* Look into one file; 1 if the record is there. */
static int get_from(struct load *l, struct load_file *f, u64 key)
{
	bool found;
	int err;
	u32 pos;

	if (key < f->key[0] || key > f->key[f->records - 1])
		return 0;
	found = file_find(f, key, &pos);
	if (!found && mix64(key ^ f->id) % BLOOM_ONE_IN)
		return 0;
	l->stats.false_positives += !found;
	err = l->ops->get(l->ctx, f, (u64)pos * l->opt.record_bytes, found);
	return err ?: found;
}

static int get(struct load *l, u64 key)
{
	int done = 0;
	u32 i;

	l->stats.gets++;
	if (mem_seen(l, key, false)) {
		l->stats.got_memtable++;
		return 0;
	}
	for (i = l->level[0].n; i-- && !done; )
		done = get_from(l, l->level[0].file[i], key);
	for (i = 1; i < LOAD_LEVELS && !done; i++) {
		u32 at = level_find(&l->level[i], key);

		if (at < l->level[i].n)
			done = get_from(l, l->level[i].file[at], key);
	}
	return min(done, 0);
}

/**
 * load_mix() - read and update by Zipfian keys
 * @l: the store, filled
 *
 * Return: 0, or the error of a callback.
 */
int load_mix(struct load *l)
{
	u64 i, size = 16;
	int err = 0;

	while (size < 2ULL * l->opt.file_records)
		size *= 2;
	l->seen_mask = size - 1;
	l->seen = calloc(size, sizeof(*l->seen));
	if (!l->seen)
		return -ENOMEM;
	for (i = 0; i < l->opt.ops && !err; i++) {
		u64 key = key_of(l, rank(l));

		if (random64(&l->rng) % 100 < l->opt.read_percent) {
			err = get(l, key);
		} else {
			mem_seen(l, key, true);
			err = insert(l, key);
		}
	}
	return err;
}
