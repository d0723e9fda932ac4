// SPDX-License-Identifier: GPL-2.0
/*
 * recover-test SEED [RUNS]: recovery of a journal ring on a shingled medium.
 *
 * The test writes a ring as core does, on a simulated medium whose head destroys the same angle of
 * the tracks ahead, and cuts the power in the middle of writes. After each cut all acknowledged
 * transactions must be there, whatever the head has destroyed. Then the test damages blocks that
 * the head has not reached, or in a way that a medium does not: recovery must refuse the ring, or
 * must have lost nothing.
 *
 * Checkpoints are tested in the same way: the test writes one after the other into their slots.
 * Recovery must find the state of one of them, after a power cut that of the last complete one.
 *
 * A further test measures how much state replay visits for records that name whole bands.
 */
#include <stdio.h>
#include <stdlib.h>

#include "exercise.h"
#include "full/engine.h"
#include "format/recover.h"
#include "set/engine.h"

#define MOST_BLOCKS	640U
#define MOST_TXN	(64U + 1U)

/**
 * struct ring - a device's metadata on a shingled medium
 * @l: its layout
 * @rng: state of the random numbers
 * @plain: a plain disk, though the layout has gaps: a write destroys nothing, and a power cut
 *   leaves any subset of its blocks
 * @track: blocks of a track
 * @head: tracks under the head
 * @skew: blocks by which a track is rotated against the previous one
 * @block: contents
 * @err: permanent result of a read of each block
 * @fault: additional result of a read, for one recovery
 * @seq: number of the next transaction
 * @acked: the last acknowledged transaction
 * @pos: position of the next transaction
 * @tail: where replay begins
 * @used: blocks from @tail to @pos
 * @prev_crc: checksum of the previous block
 * @ckpt: number of the last checkpoint
 * @cuts: power cuts
 * @cut_ends: power cuts that left a destroyed end of the ring
 * @faults: number of times that blocks failed
 * @refused: faults after which recovery refused the ring
 */
struct ring {
	struct shingle_layout l;
	u32 rng;
	bool plain;
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

/* Write to the ring only: guards protect the rest of the metadata. */
static void write_block(struct ring *r, u64 block, const void *data)
{
	const struct shingle_area *ring = &r->l.journal;
	u64 at = block - ring->start, row, col, k;

	memcpy(r->block[block], data, SHINGLE_BLOCK_SIZE);
	r->err[block] = 0;
	if (r->plain || !r->l.journal_gap_blocks || at >= ring->blocks)
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
	u64 block = shingle_ckpt_block(&r->l, slot, 0);
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
	u32 room = rnd(r, 4) ? 4 + rnd(r, 40) : 200 + rnd(r, 200), gap, i;

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
	/* As shingle format. */
	for (i = 0; i < r->l.journal.blocks && gap; i++)
		shingle_journal_seal_empty(&r->l, (struct shingle_journal_block *)
					   r->block[r->l.journal.start + i], i);
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

/* After a power cut: continue where recovery found the end. */
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

/* Write a transaction; the power is cut after @stop blocks. */
static void commit(struct ring *r, u32 blocks, u32 stop)
{
	u32 records = (blocks - 1) * SHINGLE_JOURNAL_RECORDS + 1, all, i;

	for (i = 0; i < records; i++)
		shingle_record_set(&txn[i / SHINGLE_JOURNAL_RECORDS]
				   .records[i % SHINGLE_JOURNAL_RECORDS],
				   SHINGLE_REC_GOOD, 0, 0, r->seq, 1);
	shingle_journal_seal(&r->l, txn, records, r->pos, r->seq, r->prev_crc);
	all = blocks + shingle_journal_mark(&r->l);
	for (i = 0; i < all && (r->plain || i < stop); i++) {
		if (r->plain && stop < all && rnd(r, 2))
			continue;
		write_block(r, r->l.journal.start + (r->pos + i) % r->l.journal.blocks, &txn[i]);
	}
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

/* Some blocks fail for one recovery: it must refuse the ring, or have lost nothing. */
static void fail_some(struct ring *r)
{
	u64 first = rnd(r, r->l.journal.blocks), n = 1 + rnd(r, 3), i;
	bool medium = rnd(r, 2);
	struct shingle_recovery rec;
	int err;

	if (!rnd(r, 8))
		n = r->l.journal.blocks;
	if (medium) {
		/* Acknowledged blocks fail, but not the mark behind them. */
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

/* A block of the last transaction reads as something else, while its mark is there. */
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
		r->plain = r->l.journal_gap_blocks && seed % 4 == 3;
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

/* ------------------------------------------------------------------------
 * Checkpoint slots
 */

#define PIECES		9U
#define MOST_CKPTS	4096U
#define SLOT_MOST	200U

/* An engine with pieces of one number each. */
struct numbers {
	struct shingle_engine engine;
	u32 piece[PIECES];
};

static u32 numbers_found[PIECES];

static int numbers_create(struct shingle_engine **e, const struct shingle_layout *l,
			  const char **why)
{
	struct numbers *s = calloc(1, sizeof(*s));

	*e = &s->engine;
	return s ? 0 : -ENOMEM;
}

static void numbers_destroy(struct shingle_engine *e)
{
	free(container_of(e, struct numbers, engine));
}

static u64 numbers_nr(const struct shingle_layout *l)
{
	return PIECES;
}

static int numbers_decode(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct numbers *s = container_of(e, struct numbers, engine);

	if (bytes != sizeof(u32) || s->piece[at])
		return -EUCLEAN;
	memcpy(&s->piece[at], buf, sizeof(u32));
	return 0;
}

static const struct shingle_piece_kind numbers_pieces[] = {
	{ .nr = numbers_nr, .decode = numbers_decode },
	{ }
};

static int numbers_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	return -EUCLEAN;
}

static int numbers_ready(struct shingle_engine *e, const char **why)
{
	memcpy(numbers_found, container_of(e, struct numbers, engine)->piece,
	       sizeof(numbers_found));
	return 0;
}

static const struct shingle_engine_ops numbers_ops = {
	.create = numbers_create,
	.destroy = numbers_destroy,
	.state = {
		.pieces = numbers_pieces,
		.replay = numbers_replay,
		.ready = numbers_ready,
	},
};

/**
 * struct slots - checkpoints on a medium whose head may destroy the blocks ahead of it
 * @r: the device; nothing is written to its ring
 * @now: the current state
 * @dirty: pieces that have changed
 * @was: the state at each checkpoint, by number
 * @foot: position of the footer of each checkpoint
 * @newest: number of the last complete checkpoint
 * @slot: slot of @newest
 * @end: blocks of the slot up to the end of @newest; 0 if the next checkpoint begins the other slot
 * @crc: checksum of the footer of @newest
 * @cuts: power cuts
 * @changes: checkpoints that wrote only what had changed
 * @faults: number of times that blocks were damaged
 * @refused: faults after which recovery refused the checkpoints
 * @back: faults after which recovery found an older state
 */
struct slots {
	struct ring r;
	u32 now[PIECES];
	bool dirty[PIECES];
	u32 was[MOST_CKPTS][PIECES];
	u64 foot[MOST_CKPTS];
	u64 newest;
	u32 slot;
	u64 end;
	u32 crc;
	u64 cuts;
	u64 changes;
	u64 faults;
	u64 refused;
	u64 back;
};

static void slots_format(struct slots *s)
{
	struct ring *r = &s->r;
	u32 room = PIECES + 2 + rnd(r, SLOT_MOST - PIECES - 2), i;

	r->track = 1 + rnd(r, 12);
	r->head = rnd(r, 3) ? 1 : 2 + rnd(r, 3);
	r->skew = rnd(r, r->track);
	for (i = 0; i < 2; i++)
		r->l.ckpt[i] = (struct shingle_area){ 1 + i * SLOT_MOST, room };
	r->l.journal = (struct shingle_area){ 1 + 2 * SLOT_MOST, 8 };
	/* The slot lies on tops, with bottoms between its stretches. */
	if (!rnd(r, 3) && room > 2 * (PIECES + 2))
		r->l.ckpt_stretch_blocks = 1 + rnd(r, 8);
	if (shingle_ckpt_room(&r->l, 0) < PIECES + 2)
		r->l.ckpt_stretch_blocks = 0;
	r->l.logical_blocks = 1;
	r->l.dev_blocks[SHINGLE_DEV_META] = MOST_BLOCKS;
	s->slot = 1;
}

/*
 * Write a block of a slot. A block that the head destroys may fail, hold noise, or hold a copy of a
 * neighbour.
 */
static void slot_write(struct slots *s, u32 slot, u64 i, const void *data)
{
	struct ring *r = &s->r;
	const struct shingle_area *area = &r->l.ckpt[slot];
	u64 block = shingle_ckpt_block(&r->l, slot, i), at = block - area->start, k, hit;

	memcpy(r->block[block], data, SHINGLE_BLOCK_SIZE);
	r->err[block] = 0;
	if (r->l.ckpt_stretch_blocks)
		return;
	for (k = 1; k < r->head; k++) {
		hit = (at / r->track + k) * r->track +
		      (at % r->track + k * (r->track - r->skew)) % r->track;
		if (hit >= area->blocks)
			continue;
		hit += area->start;
		r->err[hit] = rnd(r, 3) ? 0 : -ENODATA;
		if (rnd(r, 2))
			memset(r->block[hit], rnd(r, 256), SHINGLE_BLOCK_SIZE);
		else
			memcpy(r->block[hit], data, SHINGLE_BLOCK_SIZE);
	}
}

static int slots_recover(struct slots *s, struct shingle_recovery *rec)
{
	const struct shingle_reader reader = { .read = read_blocks, .ctx = &s->r };
	static struct shingle_badlist bad;
	struct shingle_loaded to = { .ops = &numbers_ops, .bad = &bad };
	const char *why = NULL;
	int err;

	bad.nr = 0;
	memset(numbers_found, 0, sizeof(numbers_found));
	if (to.ops->create(&to.engine, &s->r.l, &why))
		die("out of memory");
	err = shingle_recover(&reader, &s->r.l, &to, rec, &why);
	to.ops->destroy(to.engine);
	if (err)
		return err;
	if (rec->ckpt_seq >= MOST_CKPTS ||
	    memcmp(numbers_found, s->was[rec->ckpt_seq], sizeof(numbers_found)))
		die("a state that no checkpoint has had");
	return bad.nr == !!(rec->ckpt_seq % 3) ? 0 : -ERANGE;
}

static void slots_revive(struct slots *s)
{
	struct shingle_recovery rec;

	if (slots_recover(s, &rec))
		die("checkpoints are refused after a power cut");
	if (rec.ckpt_seq != s->newest || rec.ckpt_slot != s->slot)
		die("not the newest checkpoint after a power cut");
	memcpy(s->now, numbers_found, sizeof(s->now));
	s->end = 0;
	s->cuts++;
}

/*
 * Write a checkpoint as core does. If the power is cut before the footer is there, any subset of
 * the blocks that were not flushed may be on disk.
 */
static void slots_checkpoint(struct slots *s, bool cut)
{
	static struct shingle_chunk chunk[PIECES + 1];
	static struct shingle_footer f;
	struct ring *r = &s->r;
	u32 slot = s->slot, nr = 0, crc = 0, i;
	u64 first = s->end, seq = s->newest + 1, n;
	bool all = !first || first + PIECES + 2 > shingle_ckpt_room(&r->l, slot);
	__le64 bad = cpu_to_le64(0);

	if (all) {
		slot = !slot;
		first = 0;
	}
	for (i = 0; i <= PIECES; i++) {
		struct shingle_chunk *c = &chunk[nr];
		bool core = i == PIECES;

		memset(c, 0, sizeof(*c));
		if (core ? all && !(seq % 3) : all ? !s->now[i] : !s->dirty[i])
			continue;
		c->index = cpu_to_le64(core ? SHINGLE_CHUNK_CORE : i);
		if (core)
			c->bytes = cpu_to_le32(seq % 3 ? sizeof(bad) : 0);
		else
			c->bytes = cpu_to_le32(s->now[i] ? sizeof(u32) : 0);
		if (core)
			memcpy(c->payload, &bad, sizeof(bad));
		else
			memcpy(c->payload, &s->now[i], sizeof(u32));
		shingle_seal(c, SHINGLE_MAGIC_CHUNK, r->l.uuid,
			     shingle_ckpt_block(&r->l, slot, first + nr), seq);
		crc = crc32c(crc, &c->h.crc, sizeof(c->h.crc));
		nr++;
	}
	n = cut ? rnd(r, nr + 1) : nr;
	for (i = 0; i < n; i++) {
		/* A wide head writes upwards, so it leaves no holes. */
		if (cut && r->head == 1 && !rnd(r, 3))
			continue;
		slot_write(s, slot, first + i, &chunk[i]);
	}
	if (cut) {
		slots_revive(s);
		return;
	}
	memset(&f, 0, sizeof(f));
	f.nr_chunks = cpu_to_le64(nr);
	f.journal_seq = cpu_to_le64(1);
	f.chunks_crc = cpu_to_le32(crc);
	f.first = cpu_to_le64(first);
	f.prev_crc = cpu_to_le32(first ? s->crc : 0);
	shingle_seal(&f, SHINGLE_MAGIC_FOOTER, r->l.uuid,
		     shingle_ckpt_block(&r->l, slot, first + nr), seq);
	slot_write(s, slot, first + nr, &f);
	memcpy(s->was[seq], s->now, sizeof(s->now));
	memset(s->dirty, 0, sizeof(s->dirty));
	s->newest = seq;
	s->slot = slot;
	s->end = first + nr + 1;
	s->foot[seq] = first + nr;
	s->crc = le32_to_cpu(f.h.crc);
	s->changes += !all;
}

/*
 * Damage or lose a block of the current checkpoint. Recovery may miss this only for the last
 * footer; then it finds an older state, and the journal shows that it is older.
 */
static void slots_damage(struct slots *s)
{
	static u8 saved[SHINGLE_BLOCK_SIZE];
	struct ring *r = &s->r;
	u64 i = rnd(r, s->foot[s->newest] + 1), block = shingle_ckpt_block(&r->l, s->slot, i);
	struct shingle_recovery rec;
	u32 how = rnd(r, 5);
	int err;

	memcpy(saved, r->block[block], sizeof(saved));
	if (how == 0)
		r->block[block][rnd(r, SHINGLE_BLOCK_SIZE)] ^= 1 << rnd(r, 8);
	else if (how == 1)
		memset(r->block[block], 0, SHINGLE_BLOCK_SIZE);
	else if (how == 2)
		memcpy(r->block[block], r->block[r->l.ckpt[!s->slot].start], SHINGLE_BLOCK_SIZE);
	else
		r->fault[block] = how == 3 ? -ENODATA : -EIO;
	err = slots_recover(s, &rec);
	memset(r->fault, 0, sizeof(r->fault));
	memcpy(r->block[block], saved, sizeof(saved));
	s->faults++;
	s->refused += !!err;
	if (!err && how == 4)
		die("an error that says nothing of the medium was not refused");
	if (!err && rec.ckpt_seq == s->newest)
		die("a checkpoint counts of which a block is damaged");
	if (!err && i != s->foot[s->newest])
		die("an older checkpoint counts though the newest is there");
	s->back += !err;
}

static void slots(u32 seed, u32 runs)
{
	u64 cuts = 0, changes = 0, all = 0, faults = 0, refused = 0, back = 0;
	struct slots *s = calloc(1, sizeof(*s));
	u32 end = seed + runs, i, k;

	if (!s)
		die("out of memory");
	for (; seed < end; seed++) {
		memset(s, 0, sizeof(*s));
		failed_seed = seed;
		s->r.rng = seed * 2654435761U + 1;
		slots_format(s);
		slots_checkpoint(s, false);
		for (i = 0; i < 400; i++) {
			for (k = rnd(&s->r, 2 * PIECES); k; k--) {
				u32 piece = rnd(&s->r, PIECES);

				s->now[piece] = rnd(&s->r, 3) ? 1 + rnd(&s->r, 1000) : 0;
				s->dirty[piece] = true;
			}
			slots_checkpoint(s, !rnd(&s->r, 12));
			if (!rnd(&s->r, 12))
				slots_revive(s);
			slots_damage(s);
		}
		cuts += s->cuts;
		changes += s->changes;
		all += s->newest;
		faults += s->faults;
		refused += s->refused;
		back += s->back;
	}
	free(s);
	printf("slots: %u runs, %llu checkpoints, %llu of changes, %llu power cuts, %llu faults, %llu refused, %llu one back, 0 mixed\n",
	       runs, (unsigned long long)all, (unsigned long long)changes,
	       (unsigned long long)cuts, (unsigned long long)faults,
	       (unsigned long long)refused, (unsigned long long)back);
}

static void replay(struct shingle_engine *e, u16 type, u16 n, u64 a, u64 b)
{
	struct shingle_record rec;

	shingle_record_set(&rec, type, n, 0, a, b);
	if (e->ops->state.replay(e, &rec))
		die("a record was refused");
}

/*
 * Replay records that name a whole band, of which one block or many are cached, and change one
 * block: replay must not visit many more.
 */
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
		if (ops->state.ready(e, &why))
			die(why);
		if (ops->observe.cached_blocks(e) != !many)
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
	u32 runs = argc > 2 ? strtoul(argv[2], NULL, 0) : 100;

	rings(seed, runs);
	slots(seed, runs);
	all_looks();
	return 0;
}
