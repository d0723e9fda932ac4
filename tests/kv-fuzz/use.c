// SPDX-License-Identifier: GPL-2.0
/*
 * Guarantees for any store that can be opened, even a forged one:
 *
 *  - A reader finds the keys in order.  If a check finds no damage, kv_get() finds each of them
 *    with the same value.
 *  - If the store is opened to write, it has the same keys, also after a compaction.
 *  - Writes that are synced then are found when the store is opened again.
 */
#include <stdarg.h>
#include <unistd.h>

#include "fuzz.h"
#include "pick.h"

#define MOST_KEYS	5000U
#define PUTS		6U

const struct kv_options use_options = { .size = sizeof(struct kv_options), .flags = KV_NO_THREAD, .l0_trigger = 2,
					.cache_bytes = 64 << 10 };
static const struct kv_options look = { .size = sizeof(struct kv_options), .flags = KV_READ_ONLY, .cache_bytes = 64 << 10 };
struct kv use_shape;
u32 use_opened, use_clean;

void broken(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	/* The messages of the command are discarded, but not this one. */
	vdprintf(STDERR_FILENO, fmt, args);
	va_end(args);
	dprintf(STDERR_FILENO, "\n");
	abort();
}

/* Take a number; bytes behind the end of the input count as 0. */
u64 take(struct input *in, u32 bytes)
{
	u32 n = (u32)min_t(size_t, bytes, in->left);
	u64 v = get_le(in->at, n);

	in->at += n;
	in->left -= n;
	return v;
}

const u8 *take_bytes(struct input *in, size_t want, size_t *got)
{
	const u8 *at = in->at;

	*got = min(want, in->left);
	in->at += *got;
	in->left -= *got;
	return at;
}

static void must(int err, const char *what)
{
	if (err)
		broken("%s: %d %s", what, err, kv_error());
}

/* Two tables in different levels, one of them newer, and a log of two bands. */
static void fill(void)
{
	static u8 value[900];
	char key[20];
	struct kv *kv;
	u32 i;

	must(store_open(&kv, disk_mem(), NULL, &use_options), "open");
	for (i = 0; i < 60; i++) {
		sprintf(key, "%02u", i * 37 % 60);
		must(i % 9 ? kv_put(kv, key, 2, value, sizeof(value), 0) :
		     kv_delete(kv, key, 2, 0), "put");
		if (i == 30)
			must(kv_compact(kv), "compact");
	}
	must(kv_flush(kv), "flush");
	for (i = 0; i < 20; i++) {
		sprintf(key, "%02u", i * 3);
		must(kv_put(kv, key, 2, "logged", 6, KV_SYNC), "put");
	}
	kv_close(kv);
}

/**
 * use_begin() - make a store that each input finds on the disk
 * @filled: write something to it
 * @organisation: organisation of the store
 */
void use_begin(bool filled, enum kv_organisation organisation)
{
	static const u8 uuid[16] = "kv-fuzz kv-fuzz";
	struct kv_format_options shape = { .size = sizeof(struct kv_format_options), .band_bytes = BAND, .organisation = organisation };
	struct kv *kv;

	must(store_format(disk_mem(), &shape, uuid), "format");
	if (filled)
		fill();
	must(store_open(&kv, disk_mem(), NULL, &look), "open");
	use_shape.head = kv->head;
	use_shape.bandtable.generation = kv->bandtable.generation;
	kv_close(kv);
	disk_keep();
}

/* Write the only band table: both copies, with correct checksums. */
void use_bands(u64 generation, u64 next_id, u64 next_age, u64 seq, u32 entries,
	       const void *body, size_t bytes)
{
	const struct shape *s = &use_shape.head;
	struct bands_head *h;
	u32 i;

	bytes = min_t(size_t, bytes, s->slot_bytes - BLOCK_BYTES);
	for (i = 0; i < SLOTS; i++) {
		h = (struct bands_head *)disk_at(s->slot_offset + i * s->slot_bytes,
						 s->slot_bytes);
		memset(h, 0, BLOCK_BYTES);
		if (i / COPIES != generation % 2)
			continue;
		memset(h, 0, s->slot_bytes);
		if (bytes)
			memcpy(h + 1, body, bytes);
		h->magic = cpu_to_le64(BANDS_MAGIC);
		h->version = cpu_to_le32(FORMAT_VERSION);
		memcpy(h->uuid, s->uuid, sizeof(h->uuid));
		h->generation = cpu_to_le64(generation);
		h->next_id = cpu_to_le64(next_id);
		h->next_age = cpu_to_le64(next_age);
		h->seq = cpu_to_le64(seq);
		h->entries = cpu_to_le32(entries);
		h->bytes = cpu_to_le32((u32)bytes);
		h->body_crc = cpu_to_le32(crc32c(~0U, h + 1, bytes));
		h->crc = cpu_to_le32(bands_crc(&use_shape, h));
	}
}

/* With KV_FUZZ_SAY set, print findings, for the replay of a single input. */
static void heard(void *ctx, const char *text)
{
	if (getenv("KV_FUZZ_SAY"))
		dprintf(STDERR_FILENO, "  %s\n", text);
}

/**
 * struct seen - the result of a scan
 * @sum: sum of the checksums of all keys with their values, independent of their order
 * @keys: number of keys
 * @whole: the scan came to its end
 */
struct seen {
	u32 sum, keys;
	bool whole;
};

static void same_value(struct kv *kv, const void *key, size_t key_bytes, const void *value,
		       size_t bytes)
{
	size_t got_bytes;
	void *got;
	int err = kv_get(kv, NULL, key, key_bytes, &got, &got_bytes);

	if (err)
		broken("a key that was scanned is not found: %d %s", err, kv_error());
	if (got_bytes != bytes || (bytes && memcmp(got, value, bytes)))
		broken("a key has one value when scanned, and another by itself");
	free(got);
}

/* Scan from the first key to the last; with @back, from the last to the first. */
static struct seen scan(struct kv *kv, bool gets, bool back)
{
	struct buffer last = { .data = NULL };
	struct seen seen = { .sum = 0 };
	const void *key, *value;
	size_t key_bytes, bytes;
	struct kv_iter *it;
	int err, order;

	if (kv_iter_new(kv, NULL, &it))
		return seen;
	for (err = back ? kv_iter_seek_last(it) : kv_iter_seek(it, "", 0); !err;
	     err = back ? kv_iter_prev(it) : kv_iter_next(it)) {
		key = kv_iter_key(it, &key_bytes);
		value = kv_iter_value(it, &bytes);
		order = slice_cmp(buffer_slice(&last), slice(key, key_bytes));
		if (seen.keys && (back ? order <= 0 : order >= 0))
			seen.keys = MOST_KEYS;
		if (++seen.keys > MOST_KEYS)
			break;
		must(buffer_set(&last, slice(key, key_bytes)), "a key");
		seen.sum += crc32c(crc32c(~0U, key, (u32)key_bytes), value, (u32)bytes);
		if (gets)
			same_value(kv, key, key_bytes, value, bytes);
	}
	seen.whole = err == -ENOENT;
	free(last.data);
	kv_iter_free(it);
	return seen;
}

static void same(struct seen before, struct seen now, const char *when)
{
	if (!now.whole || now.keys != before.keys || now.sum != before.sum)
		broken("%s: %u keys%s, and there were %u: %s", when, now.keys,
		       now.whole ? "" : " and damage", before.keys, kv_error());
}

static struct kv *again(void)
{
	struct kv *kv;

	if (store_open(&kv, disk_mem(), NULL, &use_options))
		must(store_open(&kv, disk_mem(), NULL, &look), "what was written cannot be read");
	return kv;
}

/* Return: the number of writes that were synced. */
static u32 put_some(struct kv *kv)
{
	static u8 value[2000];
	char key[20];
	u32 i;

	for (i = 0; i < PUTS; i++) {
		if (kv_put(kv, key, (size_t)sprintf(key, "~put %u", i), value, sizeof(value),
			   KV_SYNC))
			break;
	}
	return i;
}

static void want_them(struct kv *kv, u32 nr, const char *when)
{
	char key[20];
	size_t bytes;
	void *got;
	u32 i;

	for (i = 0; i < nr; i++) {
		if (kv_get(kv, NULL, key, (size_t)sprintf(key, "~put %u", i), &got, &bytes))
			broken("%s: write %u of %u is not there: %s", when, i, nr, kv_error());
		free(got);
	}
}

/* Open the store to write, and use it. */
static void use_writing(struct seen before, bool clean)
{
	struct kv *kv;
	u32 nr;
	bool compacted;

	if (store_open(&kv, disk_mem(), NULL, &use_options))
		return;
	if (clean)
		same(before, scan(kv, false, false), "opened to be written");
	compacted = !kv_compact(kv);
	if (clean && compacted)
		same(before, scan(kv, false, false), "compacted");
	nr = clean ? put_some(kv) : 0;
	kv_close(kv);
	kv = again();
	want_them(kv, nr, "opened again");
	if (clean && kv_check(kv, heard, NULL))
		broken("a check finds damage that was not there");
	kv_close(kv);
}

/* Read the histogram of each table, as the choice of a merge does. */
static void estimate(struct kv *kv)
{
	struct version *v = version_get(kv);
	u32 level, i;

	for (level = 0; level < KV_LEVELS; level++) {
		for (i = 0; i < v->level[level].nr; i++)
			sequentiality(kv, v, v->level[level].part[i], &v->level[level].part[i],
				      1);
	}
	version_put(kv, v);
}

/**
 * use_store() - use the store on the disk in all ways
 *
 * Aborts if a guarantee is broken.
 */
void use_store(void)
{
	struct seen before;
	struct kv *kv;
	bool clean;

	if (store_open(&kv, disk_mem(), NULL, &look)) {
		heard(NULL, kv_error());
		return;
	}
	clean = !kv_check(kv, heard, NULL);
	use_opened++;
	use_clean += clean;
	before = scan(kv, clean, false);
	if (clean && !before.whole)
		broken("a check finds nothing, and a scan ends with: %s", kv_error());
	if (clean)
		same(before, scan(kv, false, true), "back");
	else
		scan(kv, false, true);
	estimate(kv);
	kv_close(kv);
	use_writing(before, clean);
}
