// SPDX-License-Identifier: GPL-2.0
/*
 * recover-test SEED [RUNS]: what recovery makes of a ring on a shingled medium.
 *
 * A ring is written as core writes it, over a simulated medium whose head destroys
 * the same angle of the tracks ahead; the power goes in the middle of writes.  After
 * each cut all that was acknowledged must be there, whatever the head has destroyed.
 * Then blocks fail that no head has been at, or in another way than a medium fails:
 * recovery must refuse, or have lost nothing.
 *
 * And how much replay looks at, for records that name whole bands.
 */
#include <stdio.h>
#include <stdlib.h>

#include "exercise.h"
#include "full-engine.h"
#include "recover.h"
#include "set-engine.h"

#define MOST_BLOCKS	640U
#define MOST_TXN	(64U + 1U)

/**
 * struct ring - a device's metadata on a shingled medium
 * @l: its layout
 * @rng: state of the random numbers
 * @track: blocks of a track
 * @head: tracks under the head
 * @skew: blocks that a track is turned against the one before
 * @block: contents
 * @err: what a read of a block says for good
 * @fault: what it says besides, for one recovery
 * @seq: number of the next transaction
 * @acked: the last one that was acknowledged
 * @pos: its place
 * @tail: where replay begins
 * @used: blocks from there to @pos
 * @prev_crc: of the block before
 * @ckpt: number of the last checkpoint
 * @cuts: power cuts
 * @cut_ends: of them that left an end that was destroyed
 * @faults: times that blocks failed
 * @refused: of them that recovery refused
 */
struct ring {
	struct shingle_layout l;
	u32 rng;
	u32 track;
	u32 head;
	u32 skew;
	u8 block[MOST_BLOCKS][SHINGLE_BLOCK_SIZE];
	int err[MOST_BLOCKS];
	int fault[MOST_BLOCKS];
	u64 seq;
	u64 acked;
	u64 pos;
	u64 tail;
	u64 used;
	u32 prev_crc;
	u64 ckpt;
	u32 last;
	u64 cuts;
	u64 cut_ends;
	u64 faults;
	u64 refused;
};

static struct shingle_journal_block txn[MOST_TXN];
static u32 failed_seed;

static u32 rnd(struct ring *r, u32 below)
{
	r->rng = r->rng * 1664525U + 1013904223U;
	return (r->rng >> 8) % below;
}

static void die(const char *what)
{
	printf("seed %u: %s\n", failed_seed, what);
	exit(1);
}

static int read_one(struct ring *r, u64 block, void *buf)
{
	memcpy(buf, r->block[block], SHINGLE_BLOCK_SIZE);
	return r->fault[block] ?: r->err[block];
}

static int read_blocks(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf)
{
	int err = 0;
	u32 i;

	for (i = 0; i < n && !err; i++)
		err = read_one(ctx, block + i, (u8 *)buf + i * SHINGLE_BLOCK_SIZE);
	return err;
}

static int read_each(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf, int *errs)
{
	u32 i;

	for (i = 0; i < n; i++)
		errs[i] = read_one(ctx, block + i, (u8 *)buf + i * SHINGLE_BLOCK_SIZE);
	return 0;
}

/* Of the ring alone: the rest of the metadata lies behind guards. */
static void write_block(struct ring *r, u64 block, const void *data)
{
	const struct shingle_area *ring = &r->l.journal;
	u64 at = block - ring->start, row, col, k;

	memcpy(r->block[block], data, SHINGLE_BLOCK_SIZE);
	r->err[block] = 0;
	if (!r->l.journal_gap_blocks || at >= ring->blocks)
		return;
	row = at / r->track;
	col = at % r->track;
	for (k = 1; k < r->head; k++) {
		u64 hit = (row + k) * r->track + (col + k * (r->track - r->skew)) % r->track;

		if (hit < ring->blocks)
			r->err[ring->start + hit] = -ENODATA;
	}
}

static void write_footer(struct ring *r, u64 seq, u64 pos, u32 prev_crc)
{
	u32 slot = r->ckpt++ % 2;
	u64 block = shingle_ckpt_block(&r->l, slot, shingle_ckpt_room(&r->l, slot) - 1);
	static struct shingle_footer f;

	memset(&f, 0, sizeof(f));
	f.journal_seq = cpu_to_le64(seq);
	f.journal_pos = cpu_to_le64(pos);
	f.journal_prev_crc = cpu_to_le32(prev_crc);
	shingle_seal(&f, SHINGLE_MAGIC_FOOTER, r->l.uuid, block, r->ckpt);
	write_block(r, block, &f);
}

static void format(struct ring *r)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 4, .data_bands = 4, .staging_bands = 1, .cache_bands = 2,
		.head_tracks = 1,
	};
	struct stl_set_params p = { 0 };
	u32 room = rnd(r, 4) ? 4 + rnd(r, 40) : 200 + rnd(r, 200), gap;

	shingle_exercise_layout(&r->l, &stl_set_engine_ops, &shape, &p, sizeof(p));
	r->track = 1 + rnd(r, 12);
	r->head = 2 + rnd(r, 3);
	r->skew = rnd(r, r->track);
	gap = rnd(r, 8) ? r->track * r->head : 0;
	r->l.ckpt[0] = (struct shingle_area){ 1, 2 };
	r->l.ckpt[1] = (struct shingle_area){ 3, 2 };
	r->l.journal = (struct shingle_area){ 5, gap + room };
	r->l.journal_gap_blocks = gap;
	r->l.dev_blocks[SHINGLE_DEV_META] = MOST_BLOCKS;
	r->seq = 1;
	write_footer(r, 1, 0, 0);
}

static int recover(struct ring *r, struct shingle_recovery *rec)
{
	const struct shingle_reader reader = {
		.read = read_blocks, .read_each = read_each, .ctx = r,
	};
	static struct shingle_badlist bad;
	struct shingle_loaded to = { .ops = &stl_set_engine_ops, .bad = &bad };
	const char *why = NULL;
	int err;

	bad.nr = 0;
	if (to.ops->create(&to.engine, &r->l, &why))
		die(why);
	err = shingle_recover(&reader, &r->l, &to, rec, &why);
	if (err && !why)
		die("refused without a sentence");
	to.ops->destroy(to.engine);
	return err;
}

/* After a power cut: go on where recovery found the end. */
static void revive(struct ring *r)
{
	struct shingle_recovery rec;

	if (recover(r, &rec))
		die("refused after a power cut");
	if (rec.next_seq <= r->acked)
		die("a transaction that was acknowledged is lost");
	if (rec.next_seq > r->acked + 2)
		die("a transaction that was never written is there");
	r->cuts++;
	r->cut_ends += rec.cut || rec.unmarked;
	r->last = 0;
	r->seq = rec.next_seq;
	r->acked = rec.next_seq - 1;
	r->pos = rec.next_pos;
	r->used = rec.used_blocks;
	r->prev_crc = rec.prev_crc;
	if (rec.unmarked) {
		shingle_journal_seal_mark(&r->l, txn, rec.last_blocks, r->pos, r->seq - 1, r->prev_crc);
		write_block(r, r->l.journal.start + r->pos, txn);
	}
}

static void checkpoint(struct ring *r)
{
	write_footer(r, r->seq, r->pos, r->prev_crc);
	r->tail = r->pos;
	r->used = 0;
}

/* A transaction, or what comes of it if the power goes after @stop blocks. */
static void commit(struct ring *r, u32 blocks, u32 stop)
{
	u32 records = (blocks - 1) * SHINGLE_JOURNAL_RECORDS + 1, all, i;

	for (i = 0; i < records; i++)
		shingle_record_set(&txn[i / SHINGLE_JOURNAL_RECORDS]
				   .records[i % SHINGLE_JOURNAL_RECORDS],
				   SHINGLE_REC_GOOD, 0, 0, r->seq, 1);
	shingle_journal_seal(&r->l, txn, records, r->pos, r->seq, r->prev_crc);
	all = blocks + shingle_journal_mark(&r->l);
	for (i = 0; i < all && i < stop; i++)
		write_block(r, r->l.journal.start + (r->pos + i) % r->l.journal.blocks, &txn[i]);
	if (stop < all) {
		revive(r);
		return;
	}
	r->prev_crc = le32_to_cpu(txn[blocks - 1].h.crc);
	r->acked = r->seq++;
	r->pos = (r->pos + blocks) % r->l.journal.blocks;
	r->used += blocks;
	r->last = blocks;
}

/* Blocks fail for one recovery: it refuses, or it has lost nothing. */
static void fail_some(struct ring *r)
{
	u64 first = rnd(r, r->l.journal.blocks), n = 1 + rnd(r, 3), i;
	bool medium = rnd(r, 2);
	struct shingle_recovery rec;
	int err;

	if (!rnd(r, 8))
		n = r->l.journal.blocks;
	if (medium) {
		/* Of what was acknowledged, but not the mark as well. */
		if (!r->used)
			return;
		first = rnd(r, r->used);
		n = min_t(u64, rnd(r, 8) ? n : r->used, r->used - first);
		first += r->tail;
	}
	for (i = first; i < first + n; i++)
		r->fault[r->l.journal.start + i % r->l.journal.blocks] = medium ? -ENODATA : -EIO;
	err = recover(r, &rec);
	memset(r->fault, 0, sizeof(r->fault));
	r->faults++;
	r->refused += err != 0;
	if (!medium && err != -EIO && err != -EUCLEAN)
		die("an error that says nothing of the medium was not refused");
	if (!err && rec.next_seq <= r->acked)
		die("a damaged transaction was dropped in silence");
	if (medium && !err)
		die("a damaged transaction was not noticed");
}

/* A block of the last transaction reads as something else; its mark is there. */
static void rot_one(struct ring *r)
{
	static u8 saved[SHINGLE_BLOCK_SIZE];
	struct shingle_recovery rec;
	u32 how = rnd(r, 3);
	u64 pos, block;
	int err;

	if (!r->used || !r->l.journal_gap_blocks || !r->last)
		return;
	pos = (r->pos + r->l.journal.blocks - 1 - rnd(r, r->last)) % r->l.journal.blocks;
	block = r->l.journal.start + pos;
	memcpy(saved, r->block[block], sizeof(saved));
	if (how == 0)
		r->block[block][100 + rnd(r, 3000)] ^= 1;
	else if (how == 1)
		memset(r->block[block], 0, SHINGLE_BLOCK_SIZE);
	else
		memset(r->block[block], 0x5a, SHINGLE_BLOCK_SIZE);
	err = recover(r, &rec);
	memcpy(r->block[block], saved, sizeof(saved));
	r->faults++;
	r->refused += err != 0;
	if (!err)
		die("a transaction was dropped in silence that its mark proves");
}

static void one_round(struct ring *r)
{
	u32 most = shingle_txn_blocks(&r->l), blocks = 1 + rnd(r, rnd(r, 3) ? min(most, 3U) : most);

	if (!rnd(r, 12) || r->used + most > shingle_journal_room(&r->l))
		checkpoint(r);
	commit(r, blocks, rnd(r, 6) ? U32_MAX : rnd(r, blocks + 1));
	if (!rnd(r, 8))
		revive(r);
	if (!rnd(r, 2))
		fail_some(r);
	rot_one(r);
}

static void rings(u32 seed, u32 runs)
{
	u64 cuts = 0, cut_ends = 0, faults = 0, refused = 0, txns = 0;
	u32 i, end = seed + runs;

	for (; seed < end; seed++) {
		struct ring *r = calloc(1, sizeof(*r));

		if (!r)
			die("out of memory");
		failed_seed = seed;
		r->rng = seed * 2654435761U + 1;
		format(r);
		for (i = 0; i < 200; i++)
			one_round(r);
		cuts += r->cuts;
		cut_ends += r->cut_ends;
		faults += r->faults;
		refused += r->refused;
		txns += r->acked;
		free(r);
	}
	printf("rings: %u runs, %llu transactions, %llu power cuts, %llu ends destroyed, %llu faults, %llu refused, 0 lost\n",
	       runs, (unsigned long long)txns, (unsigned long long)cuts,
	       (unsigned long long)cut_ends, (unsigned long long)faults,
	       (unsigned long long)refused);
}

static void replay(struct shingle_engine *e, u16 type, u16 n, u64 a, u64 b)
{
	struct shingle_record rec;

	shingle_record_set(&rec, type, n, 0, a, b);
	if (e->ops->replay(e, &rec))
		die("a record was refused");
}

/* Records that name a band, of which more is cached, or many, and change one block. */
static void looks(const struct shingle_engine_ops *ops, const void *params, size_t size,
		  const struct shingle_exercise_shape *shape, u16 map, const u16 *types)
{
	const u32 rounds = 2000, band = shape->band_blocks;
	static struct shingle_layout l;
	struct shingle_engine *e;
	const char *why = "";
	u32 i, t;

	shingle_exercise_layout(&l, ops, shape, params, size);
	for (t = 0; types[t]; t++) {
		bool many = types[t] == STL_SET_DISCARD || types[t] == STL_FULL_DISCARD;
		u64 looked;

		if (ops->create(&e, &l, &why))
			die(why);
		if (ops == &stl_full_engine_ops)
			replay(e, STL_FULL_OPEN, 0, 0, l.nr_bands[SHINGLE_ROLE_DATA] - 1);
		if (!many)
			replay(e, map, 1, 0, 0);
		for (i = 0; i < rounds; i++) {
			replay(e, map, 1, 17 + i % 7, 1 + i % (band - 1));
			if (many)
				replay(e, types[t], 0, 0, l.logical_blocks / band);
			else
				replay(e, types[t], band - 1, 1, 0);
		}
		looked = shingle_exercise_counter(e, "replay_looks");
		if (ops->ready(e, &why))
			die(why);
		if (ops->cached_blocks(e) != !many)
			die("what was not forgotten is not all that is left");
		ops->destroy(e);
		printf("%s: record 0x%04x, bands of %u blocks: %llu looks each\n", ops->name,
		       types[t], band, (unsigned long long)looked / rounds);
	}
}

static void all_looks(void)
{
	static const u16 set_types[] = { STL_SET_DROP, STL_SET_DIRECT, STL_SET_DISCARD, 0 };
	static const u16 full_types[] = { STL_FULL_DROP, STL_FULL_DISCARD, 0 };
	const struct stl_set_params set = { 0 };
	const struct stl_full_params full = {
		.zone_bands = cpu_to_le32(8), .provision = cpu_to_le32(4),
		.log_bands = cpu_to_le32(2),
	};
	u32 band;

	for (band = 1024; band <= 16384; band *= 16) {
		const struct shingle_exercise_shape cached = {
			.band_blocks = band, .data_bands = 8, .staging_bands = 1, .cache_bands = 1,
			.head_tracks = 1,
		}, zoned = { .band_blocks = band, .data_bands = 8, .head_tracks = 1 };

		looks(&stl_set_engine_ops, &set, sizeof(set), &cached, STL_SET_MAP, set_types);
		looks(&stl_full_engine_ops, &full, sizeof(full), &zoned, STL_FULL_MAP, full_types);
	}
}

int main(int argc, char **argv)
{
	u32 seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;

	rings(seed, argc > 2 ? strtoul(argv[2], NULL, 0) : 100);
	all_looks();
	return 0;
}
