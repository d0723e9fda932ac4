// SPDX-License-Identifier: GPL-2.0
/*
 * Forged stores: worked out by hand, with correct checksums but contents that the code never
 * writes.  The store must find each of their keys, or report damage.
 */
#include "model.h"
#include "table.h"

#define WRITES	40U

/* Where filled() has put its contents: the table, or the number of log bands. */
struct forged {
	struct kv kv;
	u64 table, id;
	u32 bytes, logs;
};

static int note(void *ctx, const struct kv_band *b)
{
	struct forged *f = ctx;

	if (b->level < 0) {
		f->logs++;
	} else {
		f->table = b->offset;
		f->bytes = (u32)b->bytes;
		f->id = b->id;
	}
	return 0;
}

/* The even numbers are keys; odd ones fall between two keys. */
static size_t name(u32 i, char *key)
{
	return (size_t)sprintf(key, "%02u", i);
}

/*
 * A store with all keys in one table, or in three bands of a log.  Rules of bands no longer apply.
 */
static struct sim *filled(struct forged *f, u32 value_bytes, u32 flags, bool flush)
{
	static const u8 value[3000];
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	char key[20];
	u32 i;

	for (i = 0; i < 2 * WRITES; i += 2) {
		if (kv_put(kv, key, name(i, key), value, value_bytes, flags))
			die("put: %s", kv_error());
	}
	if (flush && kv_flush(kv))
		die("flush: %s", kv_error());
	*f = (struct forged){ .table = 0 };
	kv_bands(kv, note, f);
	f->kv.head = kv->head;
	kv_close(kv);
	free(s->pointer);
	s->pointer = NULL;
	return s;
}

static struct bands_head *slot(struct sim *s, const struct forged *f, u32 i)
{
	return (struct bands_head *)(s->data + f->kv.head.slot_offset +
				     i * f->kv.head.slot_bytes);
}

static void seal(const struct forged *f, struct bands_head *h)
{
	h->body_crc = cpu_to_le32(crc32c(~0U, h + 1, le32_to_cpu(h->bytes)));
	h->crc = cpu_to_le32(bands_crc(&f->kv, h));
}

/* Return: the number of missing keys for which no damage is reported. */
static u32 silently_lost(struct kv *kv)
{
	u32 i, lost = 0;
	char key[20];
	size_t bytes;
	void *value;
	int err;

	for (i = 0; i < 2 * WRITES; i += 2) {
		err = kv_get(kv, NULL, key, name(i, key), &value, &bytes);
		if (!err)
			free(value);
		else if (err != -EUCLEAN && err != -ENOENT)
			die("key %s: %d %s", key, err, kv_error());
		lost += err == -ENOENT;
	}
	return lost;
}

/*
 * The index gets @last as the last key of the first block.  If that is larger than the last key in
 * the block, readers that need the next block are sent to the first one.
 */
static void wrong_last_key(const char *last, bool readers_see)
{
	struct forged f;
	struct kv_options look = { .size = sizeof(struct kv_options), .flags = KV_READ_ONLY };
	struct sim *s = filled(&f, 1000, 0, true);
	u8 *at = s->data + f.table, *index;
	struct footer_block *foot = (void *)(at + f.bytes - BLOCK_BYTES);
	u32 data = le32_to_cpu(foot->data_bytes), bytes = le32_to_cpu(foot->index_bytes), lost;
	struct kv *kv;

	index = at + data;
	if (get_le(index + 8, 2) != 2 || memcmp(index + INDEX_HEAD, "08", 2))
		die("the first block does not end with 08");
	memcpy(index + INDEX_HEAD, last, 2);
	put_le(index + bytes, table_crc(&f.kv, f.id, data, index, bytes), CRC_BYTES);
	if (sim_open(&kv, s, &look))
		die("open: %s", kv_error());
	lost = silently_lost(kv);
	if (readers_see && lost)
		die("the index says %s: %u keys are not there, and nobody says why", last, lost);
	if (kv_check(kv, quiet, NULL) != -EUCLEAN)
		die("the index says %s: a check sees nothing", last);
	kv_close(kv);
	/* A merge must not turn it into a table without a fault either. */
	kv = opened(s, "a wrong index");
	kv_put(kv, "08", 2, "new", 3, 0);
	if (kv_compact(kv) != -EUCLEAN)
		die("the index says %s: merged", last);
	kv_close(kv);
	sim_free(s);
}

static void wants_write(struct kv *kv, const char *key, u32 nr, const char *what)
{
	size_t bytes;
	void *got;

	if (kv_get(kv, NULL, key, strlen(key), &got, &bytes))
		die("%s: write %u is not there: %s", what, nr, kv_error());
	if (bytes < sizeof(nr) || memcmp(got, &nr, sizeof(nr)))
		die("%s: '%s' has not what write %u gave it", what, key, nr);
	free(got);
}

/* Open a store again; if its numbers are used up, it can still be read. */
static struct kv *again(struct sim *s, const char *what)
{
	struct kv_options look = { .size = sizeof(struct kv_options), .flags = KV_READ_ONLY };
	struct kv *kv;
	int err = sim_open(&kv, s, &options);

	if (err == -EOVERFLOW)
		err = sim_open(&kv, s, &look);
	if (err)
		die("%s: open: %d %s", what, err, kv_error());
	return kv;
}

/* If the store can be opened, it must keep each write that it accepts. */
static void keeps(struct sim *s, const char *what)
{
	static u8 value[3000];
	struct kv *kv;
	u32 i, nr = 0, last = U32_MAX;
	char key[20];

	if (sim_open(&kv, s, &options)) {
		sim_free(s);
		return;
	}
	for (i = 0; i < 150; i++) {
		memcpy(value, &i, sizeof(i));
		sprintf(key, "new %u", i);
		if (kv_put(kv, key, strlen(key), value, sizeof(value), KV_SYNC))
			break;
		nr = i + 1;
		/* A key with many versions. */
		if (kv_put(kv, "same", 4, value, 100, KV_SYNC))
			break;
		last = i;
		if (i % 20 == 10 && kv_flush(kv))
			break;
		if (i % 50 == 20 && kv_compact(kv))
			break;
		if (i % 7 == 6) {
			kv_close(kv);
			kv = again(s, what);
		}
	}
	kv_close(kv);
	kv = again(s, what);
	for (i = 0; i < nr; i++) {
		sprintf(key, "new %u", i);
		wants_write(kv, key, i, what);
	}
	if (last < nr)
		wants_write(kv, "same", last, what);
	kv_close(kv);
	sim_free(s);
}

/* Set memtable and id of each log band in the newest generation of the band table. */
static void logs_of(const u64 *memtable, const u64 *id, u32 nr, bool fine)
{
	struct bands_entry *e;
	struct forged f;
	struct sim *s = filled(&f, 10, KV_SYNC, false);
	struct bands_head *h;
	struct kv *kv;
	u32 i, j, lost;

	if (f.logs != nr)
		die("%u log bands, not %u", f.logs, nr);
	for (i = 0; i < SLOTS; i++) {
		h = slot(s, &f, i);
		if (le32_to_cpu(h->entries) != nr) {
			memset(h, 0, sizeof(*h));
			continue;
		}
		e = (struct bands_entry *)(h + 1);
		for (j = 0; j < nr; j++) {
			e[j].age = cpu_to_le64(memtable[j]);
			if (id)
				e[j].id = cpu_to_le64(id[j]);
		}
		seal(&f, h);
	}
	if (sim_open(&kv, s, &options)) {
		if (fine || !strstr(kv_error(), "the band table is inconsistent"))
			die("logs: %s", kv_error());
		sim_free(s);
		return;
	}
	lost = silently_lost(kv);
	if (lost)
		die("logs of memtables %llu, %llu, %llu: %u keys are lost", memtable[0],
		    memtable[1], memtable[2], lost);
	if (!fine)
		die("logs that nobody has written are taken");
	/* New logs get larger numbers. */
	for (i = 0; i < 6 && !kv_put(kv, "more", 4, "x", 1, KV_SYNC); i++) {
		if (i < 5 && kv_flush(kv))
			break;
	}
	kv_close(kv);
	kv_close(again(s, "logs in order"));
	keeps(s, "logs in order");
}

static void logs_out_of_order(void)
{
	static const u64 fine[] = { 1, 1, 2 }, back[] = { 1, 2, 1 }, down[] = { 3, 2, 2 },
			 none[] = { 0, 0, 0 }, last[] = { 1, 1, U64_MAX },
			 most[] = { 1, 1, NUMBERS_END - 2 }, same[] = { 1, 1, 1 };

	logs_of(fine, NULL, ARRAY_SIZE(fine), true);
	logs_of(back, NULL, ARRAY_SIZE(back), false);
	logs_of(down, NULL, ARRAY_SIZE(down), false);
	logs_of(none, NULL, ARRAY_SIZE(none), false);
	logs_of(last, NULL, ARRAY_SIZE(last), false);
	logs_of(most, NULL, ARRAY_SIZE(most), true);
	logs_of(same, same, ARRAY_SIZE(same), false);
}

/* Set one number of the band table, in all copies. */
static void large_number(size_t field, u64 number, const char *what)
{
	struct forged f;
	struct sim *s = filled(&f, 1000, 0, true);
	struct bands_head *h, *newest = NULL;
	u8 *copy = malloc(f.kv.head.slot_bytes);
	__le64 le = cpu_to_le64(number);
	u32 i, parity;

	for (i = 0; i < SLOTS; i++) {
		h = slot(s, &f, i);
		if (!newest || le64_to_cpu(h->generation) > le64_to_cpu(newest->generation))
			newest = h;
	}
	memcpy(copy, newest, f.kv.head.slot_bytes);
	h = (struct bands_head *)copy;
	memcpy(copy + field, &le, sizeof(le));
	parity = le64_to_cpu(h->generation) % 2;
	for (i = 0; i < SLOTS; i++) {
		memset(slot(s, &f, i), 0, BLOCK_BYTES);
		if (i / COPIES == parity) {
			memcpy(slot(s, &f, i), copy, f.kv.head.slot_bytes);
			seal(&f, slot(s, &f, i));
		}
	}
	free(copy);
	keeps(s, what);
}

/* Set the number of the only write in a log. */
static void large_write(u64 number, const char *what)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct forged f = { .kv.head = kv->head };
	struct chunk_head *h = NULL;
	u64 at;

	if (kv_put(kv, "k", 1, "v", 1, KV_SYNC))
		die("put: %s", kv_error());
	kv_close(kv);
	free(s->pointer);
	s->pointer = NULL;
	for (at = f.kv.head.bands_offset; !h && at < BYTES; at += BLOCK_BYTES) {
		h = (struct chunk_head *)(s->data + at);
		if (le64_to_cpu(h->magic) != LOG_MAGIC)
			h = NULL;
	}
	if (!h)
		die("there is no log");
	put_le((u8 *)(h + 1) + sizeof(struct batch_head) + 6, number << 8 | OP_PUT, 8);
	h->crc = 0;
	h->crc = cpu_to_le32(crc32c(crc32c(~0U, f.kv.head.uuid, sizeof(f.kv.head.uuid)), h,
				    sizeof(*h) + le32_to_cpu(h->bytes)));
	keeps(s, what);
}

/*
 * Set the key of an entry in a block to @key.  A merge that did not notice would write entries that
 * no reader finds, or a range that ends before it begins.
 */
static void keys_out_of_order(u32 block, u32 nr, const char *key)
{
	struct forged f;
	struct sim *s = filled(&f, 1000, 0, true);
	u8 *at = s->data + f.table, *index;
	struct footer_block *foot = (void *)(at + f.bytes - BLOCK_BYTES);
	struct kv *kv;
	u32 offset, bytes;

	index = at + le32_to_cpu(foot->data_bytes) + block * (INDEX_HEAD + 2);
	offset = (u32)get_le(index, 4);
	bytes = (u32)get_le(index + 4, 4) - CRC_BYTES;
	at += offset;
	memcpy(at + nr * (ENTRY_HEAD + 2 + 1000) + ENTRY_HEAD, key, 2);
	put_le(at + bytes, table_crc(&f.kv, f.id, offset, at, bytes), CRC_BYTES);
	kv = opened(s, "keys out of order");
	if (kv_check(kv, quiet, NULL) != -EUCLEAN)
		die("keys out of order: a check sees nothing");
	kv_close(kv);
	kv = opened(s, "keys out of order");
	kv_put(kv, "02", 2, "new", 3, 0);
	if (kv_compact(kv) != -EUCLEAN)
		die("keys out of order are merged");
	kv_close(kv);
	kv_close(opened(s, "after what could not be merged"));
	sim_free(s);
}

static void large_numbers(void)
{
	static const struct {
		size_t field;
		const char *name;
	} field[] = {
		{ offsetof(struct bands_head, seq), "number of the next write" },
		{ offsetof(struct bands_head, next_id), "number of the next table" },
		{ offsetof(struct bands_head, next_age), "next age" },
		{ offsetof(struct bands_head, generation), "generation" },
	};
	static const u64 number[] = {
		1ULL << 55, (1ULL << 56) - 40, (1ULL << 56) - 2, (1ULL << 56) - 1, 1ULL << 56,
		1ULL << 60, (1ULL << 62) - 20, (1ULL << 62) - (20ULL << 32), 1ULL << 62,
		1ULL << 63, U64_MAX - 20, U64_MAX - (20ULL << 32), U64_MAX - 1, U64_MAX,
	};
	char what[80];
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(field); i++) {
		for (j = 0; j < ARRAY_SIZE(number); j++) {
			snprintf(what, sizeof(what), "%s %llu", field[i].name, number[j]);
			large_number(field[i].field, number[j], what);
		}
	}
	for (j = 0; number[j] < 1ULL << 56; j++) {
		snprintf(what, sizeof(what), "a write with number %llu", number[j]);
		large_write(number[j], what);
	}
}

/**
 * test_forge() - test one kind of forged store
 * @seed: number of the kind
 * @count: unused
 */
void test_forge(u64 seed, u32 count)
{
	switch (seed) {
	case 1:
		wrong_last_key("13", true);
		/* A reader that looks for 08 learns from the index that the key cannot be there. */
		wrong_last_key("05", false);
		break;
	case 2:
		logs_out_of_order();
		break;
	case 3:
		large_numbers();
		break;
	case 4:
		keys_out_of_order(0, 1, "07");
		keys_out_of_order(0, 3, "01");
		keys_out_of_order(1, 0, "07");
		/* The same key twice, and the second version is not older. */
		keys_out_of_order(0, 2, "02");
		break;
	default:
		die("no such forgery");
	}
}
