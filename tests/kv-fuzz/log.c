// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzes the reader of logs.  An input has bands, and chunks in them; their checksums are added
 * here:
 *
 *   B  number, memtable, sealed
 *   C  flags, number, synced, generation, 2 bytes of batches, the batches
 */
#include "fuzz.h"

#define MOST_BANDS	6U
#define NEXT		300U

struct writing {
	struct bands_entry entry[MOST_BANDS];
	u32 nr, at, chunk;
	u8 *band;
};

static void seal(struct writing *w, bool sealed)
{
	if (w->nr && sealed)
		w->entry[w->nr - 1].bytes = cpu_to_le32(w->at);
}

static void next_band(struct writing *w, struct input *in)
{
	struct bands_entry *e = &w->entry[w->nr];

	*e = (struct bands_entry){ .band = cpu_to_le32(w->nr), .kind = KIND_LOG };
	e->id = cpu_to_le64(take(in, 1));
	e->age = cpu_to_le64(take(in, 1));
	w->band = disk_at(use_shape.head.bands_offset + (u64)w->nr * BAND, BAND);
	memset(w->band, 0, BAND);
	w->nr++;
	w->at = 0;
	w->chunk = 0;
}

/* Flags 1, 2 and 4: number, synced and generation are taken from the input. */
static void next_chunk(struct writing *w, struct input *in)
{
	u8 flags = (u8)take(in, 1);
	u64 number = take(in, 1), synced = take(in, 1), generation = take(in, 1);
	size_t want = take(in, 2) % 20000, got;
	const u8 *from = take_bytes(in, want, &got);
	u32 size = (u32)round_up(sizeof(struct chunk_head) + got, (size_t)BLOCK_BYTES);
	struct chunk_head *h = (struct chunk_head *)(w->band + w->at);

	if (size > BAND - w->at)
		return;
	*h = (struct chunk_head){
		.magic = cpu_to_le64(LOG_MAGIC),
		.bytes = cpu_to_le32((u32)got),
		.id = w->entry[w->nr - 1].id,
		.number = cpu_to_le64(flags & 1 ? number : w->chunk),
		.synced = cpu_to_le64(flags & 2 ? synced : w->chunk),
		.generation = cpu_to_le64(flags & 4 ? generation : use_shape.bandtable.generation),
	};
	if (got)
		memcpy(h + 1, from, got);
	h->crc = cpu_to_le32(chunk_crc(&use_shape, h, (u32)got));
	w->at += size;
	w->chunk++;
}

static void eat(struct input in)
{
	struct writing w = { .nr = 0 };
	bool sealed = false;

	while (in.left) {
		u8 what = (u8)take(&in, 1);

		if (what == 'B' && w.nr < MOST_BANDS) {
			seal(&w, sealed);
			next_band(&w, &in);
			sealed = take(&in, 1) & 1;
		} else if (what == 'C' && w.nr) {
			next_chunk(&w, &in);
		}
	}
	seal(&w, sealed);
	use_bands(use_shape.bandtable.generation + 1, NEXT, NEXT, 1, w.nr, w.entry,
		  w.nr * sizeof(w.entry[0]));
	use_store();
}

static void begin(void)
{
	use_begin(false, KV_SOC);
}

const struct harness harness_log = { .name = "log", .begin = begin, .eat = eat };
