// SPDX-License-Identifier: GPL-2.0
/*
 * Crafted images: stores with wrong contents and correct checksums.  The store may refuse or read
 * them, but must not access memory or the disk out of bounds.
 */
#include "model.h"
#include "table.h"

enum { IN_HEADER, IN_BANDS, IN_FOOTER, IN_INDEX, IN_BLOCK, IN_HISTOGRAM, IN_LOG, IN_SPARE,
       NR_PLACES };

/**
 * struct image - places in the image of a store
 * @kv: header, for checksums
 * @data: contents of the device
 * @table: offset of a table
 * @bytes: size of the table
 * @id: id of the table
 * @unsorted: the table is unsorted
 * @log: offset of the log that is written; 0 if there is none
 */
struct image {
	struct kv kv;
	u8 *data;
	u64 table;
	u32 bytes;
	u64 id, log;
	bool unsorted;
};

static void randomize(u8 *at, u32 bytes)
{
	static const u8 odd[] = { 0, 1, 0x7f, 0x80, 0xff };
	u32 i, n = 1 + rnd(3);

	for (i = 0; i < n; i++)
		at[rnd(bytes)] = rnd(2) ? (u8)rnd(256) : odd[rnd(ARRAY_SIZE(odd))];
}

static void damage_header(u8 *at)
{
	struct header *h = (struct header *)at;

	/* Not magic and UUID: without them the header is refused at once. */
	randomize((u8 *)&h->organisation, 56);
	h->crc = 0;
	h->crc = cpu_to_le32(crc32c(~0U, h, sizeof(*h)));
}

static void damage_bands(struct image *m)
{
	struct bands_head *h;
	u32 i;
	bool body = rnd(4);
	u64 was = rng;

	/* Change all copies in the same way; otherwise an unchanged copy would be used. */
	for (i = 0; i < SLOTS; i++) {
		h = (struct bands_head *)(m->data + m->kv.head.slot_offset +
					  i * m->kv.head.slot_bytes);
		rng = was;
		if (body && le32_to_cpu(h->bytes))
			randomize((u8 *)(h + 1), le32_to_cpu(h->bytes));
		else
			randomize((u8 *)&h->next_id, 32);
		h->body_crc = cpu_to_le32(crc32c(~0U, h + 1, le32_to_cpu(h->bytes) %
						 m->kv.head.slot_bytes));
		h->crc = cpu_to_le32(bands_crc(&m->kv, h));
	}
}

static void damage_table(struct image *m, u32 place)
{
	struct footer_block *f = (struct footer_block *)(m->data + m->table + m->bytes -
							 BLOCK_BYTES);
	u32 data = le32_to_cpu(f->data_bytes), index = le32_to_cpu(f->index_bytes), bytes;
	struct histogram *h = (struct histogram *)((u8 *)f - BLOCK_BYTES);
	u8 *at = m->data + m->table;

	switch (place) {
	case IN_FOOTER:
		randomize((u8 *)&f->entries, 80);
		f->crc = cpu_to_le32(footer_crc(f));
		break;
	case IN_INDEX:
		randomize(at + data, index);
		put_le(at + data + index, table_crc(&m->kv, m->id, data, at + data, index), 4);
		break;
	case IN_BLOCK:
		/* The first block; the index begins with its place and size. */
		bytes = (u32)get_le(at + data + 4, 4);
		if (m->unsorted) {
			u32 place = (u32)get_le(at + data, 4);

			randomize(at + place, bytes);
			put_le(at + data + INDEX_HEAD,
			       table_crc(&m->kv, m->id, place, at + place, bytes), 4);
			put_le(at + data + index,
			       table_crc(&m->kv, m->id, data, at + data, index), 4);
			break;
		}
		bytes -= CRC_BYTES;
		randomize(at, bytes);
		put_le(at + bytes, table_crc(&m->kv, m->id, 0, at, bytes), 4);
		break;
	default:
		randomize((u8 *)&h->buckets, BLOCK_BYTES - 12);
		h->crc = cpu_to_le32(histogram_crc(&m->kv, m->id, h));
		break;
	}
}

static void damage_log(struct image *m)
{
	struct chunk_head *h = (struct chunk_head *)(m->data + m->log);
	u32 bytes = le32_to_cpu(h->bytes);

	if (rnd(3))
		randomize((u8 *)(h + 1), min(bytes, 200U));
	else
		randomize((u8 *)&h->bytes, 4);
	bytes = min(le32_to_cpu(h->bytes), BAND - (u32)sizeof(*h));
	h->crc = cpu_to_le32(chunk_crc(&m->kv, h, bytes));
}

static int note(void *ctx, const struct kv_band *b)
{
	struct image *m = ctx;

	if (b->level < 0) {
		m->log = b->offset;
	} else if (b->bytes > m->bytes) {
		m->table = b->offset;
		m->bytes = (u32)b->bytes;
		m->id = b->id;
		m->unsorted = b->unsorted;
	}
	return 0;
}

static void ignore(void *ctx, const char *text)
{
}

static bool use(struct sim *s, const struct kv_options *opt)
{
	char text[64];
	struct kv_iter *it;
	struct kv *kv;
	size_t bytes;
	void *value;
	u32 i;
	int err = sim_open(&kv, s, opt);

	if (err)
		return false;
	for (i = 0; i < KEYS; i += 7) {
		if (!kv_get(kv, NULL, text, key_of(i, text), &value, &bytes))
			free(value);
	}
	if (!kv_iter_new(kv, NULL, &it)) {
		for (i = 0, err = kv_iter_seek(it, "", 0); !err; i++) {
			if (i > 100000)
				die("a scan does not end");
			err = kv_iter_next(it);
		}
		kv_iter_free(it);
	}
	kv_check(kv, ignore, NULL);
	if (!(opt->flags & KV_READ_ONLY)) {
		for (i = 0; i < 20; i++)
			kv_put(kv, text, key_of(i, text), s->data, 4000, KV_SYNC);
		kv_compact(kv);
	}
	kv_close(kv);
	return true;
}

/**
 * test_craft() - use stores with random changes
 * @seed: seed of the changes
 * @count: number of changed images
 */
void test_craft(u64 seed, u32 count)
{
	static const struct kv_options look = { .size = sizeof(struct kv_options), .flags = KV_READ_ONLY };
	struct load l = { .seed = seed, .batches = 300, .value_bytes = 3000 };
	u32 b, i, place, opened_anyway[NR_PLACES] = { 0 };
	struct image m = { .log = 0 };
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u64 size = sim_bytes(s);
	u8 *whole = malloc(size);
	u32 places = s->spare.bytes ? NR_PLACES : IN_SPARE;
	bool synced;

	rng = seed;
	for (b = 1; b <= l.batches; b++) {
		if (load_write(kv, &l, b, &synced))
			die("batch %u: %s", b, kv_error());
	}
	if (kv_sync(kv))
		die("sync: %s", kv_error());
	kv_bands(kv, note, &m);
	m.kv.head = kv->head;
	kv_close(kv);
	free(s->pointer);
	s->pointer = NULL;
	m.data = s->data;
	memcpy(whole, s->data, size);
	if (!m.table || !m.log)
		die("no table, or no log");
	for (i = 0; i < count; i++) {
		memcpy(s->data, whole, size);
		place = i % places;
		if (place == IN_HEADER)
			damage_header(m.data);
		else if (place == IN_SPARE)
			damage_header(m.data + BYTES);
		else if (place == IN_BANDS)
			damage_bands(&m);
		else if (place == IN_LOG)
			damage_log(&m);
		else
			damage_table(&m, place);
		opened_anyway[place] += use(s, &look);
		use(s, &options);
	}
	printf("%u images; opened of header, bands, footer, index, block, histogram, log, offload:", count);
	for (place = 0; place < places; place++)
		printf(" %u", opened_anyway[place]);
	printf("\n");
	/* If a checksum were not corrected, each image would be refused. */
	for (place = IN_BANDS; place < places; place++) {
		if (!opened_anyway[place])
			die("none of place %u was opened", place);
	}
	free(whole);
	sim_free(s);
}
