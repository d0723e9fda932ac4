// SPDX-License-Identifier: GPL-2.0
/* Reads a device's metadata back; pure code except for the reader. */
#include "format/recover.h"
#include "format/codec.h"

/* Blocks read at a time: long transfers without high-order allocations. */
#define READ_BATCH	64

/**
 * shingle_load_sb() - find the superblock
 * @r: reader
 * @dev: device that should hold it
 * @dev_blocks: size of that device
 * @l: result
 * @why: on error, what was found, a sentence tail
 *
 * The copies are at block 0 and at the last block of the device as it was formatted; of two sound
 * ones the newer is used.  If the device has grown since, the first copy locates the second: at the
 * end of the device there may be a copy of an earlier format.
 *
 * Context: may sleep.
 * Return: 0; -ENODATA if neither copy is there; -EUCLEAN if a damaged one is there;
 * -EPROTONOSUPPORT; -ENOMEM; or the read error.
 */
int shingle_load_sb(const struct shingle_reader *r, enum shingle_dev dev, u64 dev_blocks,
		    struct shingle_layout *l, const char **why)
{
	struct shingle_layout *copy;
	struct shingle_sb *sb;
	u64 last = dev_blocks - 1;
	bool found = false;
	int worst = -ENODATA;
	u32 i;

	*why = "device is too small for a superblock";
	if (dev_blocks < 2)
		return -ENODATA;

	sb = shingle_zalloc_array(1, sizeof(*sb));
	copy = shingle_zalloc_array(1, sizeof(*copy));
	if (!sb || !copy) {
		*why = "out of memory";
		worst = -ENOMEM;
		goto out;
	}

	for (i = 0; i < 2; i++) {
		u64 block = i ? last : 0;
		const char *text = "cannot be read";
		int err = r->read(r->ctx, dev, block, 1, sb);

		/* -ENODATA would mean below that no superblock is there. */
		if (err == -ENODATA)
			err = -EIO;
		if (!err)
			err = shingle_layout_decode(sb, block, copy, &text);
		if (!err && (!found || copy->sb_seq > l->sb_seq)) {
			*l = *copy;
			found = true;
			if (!i && l->dev_blocks[dev] > 1 && l->dev_blocks[dev] < dev_blocks)
				last = l->dev_blocks[dev] - 1;
		} else if (err && (worst == -ENODATA || i == 0)) {
			/* A damaged copy is more informative than a missing one. */
			if (err != -ENODATA || worst == -ENODATA) {
				worst = err;
				*why = text;
			}
		}
	}
out:
	kvfree(copy);
	kvfree(sb);
	return found ? 0 : worst;
}

/* The block is neither a header nor the rest of one: other software has written it. */
static bool is_foreign(const void *buf)
{
	const u8 *byte = buf;
	const struct shingle_member *m = buf;
	char name[80];

	if (shingle_member_name(buf, name, sizeof(name)))
		return true;
	return le32_to_cpu(m->h.magic) != SHINGLE_MAGIC_MEMBER &&
	       (byte[0] || memcmp(byte, byte + 1, SHINGLE_BLOCK_SIZE - 1));
}

/**
 * shingle_check_member() - is this the device that was formatted with the others?
 * @r: reader
 * @l: layout
 * @dev: the device to check; one without superblocks
 * @copy: state of its two copies, in the first and the last block; or NULL
 * @why: on error, what was found and what was expected, SHINGLE_MEMBER_WHY bytes
 *
 * One sound copy is enough, unless the other block contains something else: then other software has
 * used the device since.  An emulated medium that stores no data has no copies; the superblock
 * records that.
 *
 * Context: may sleep.
 * Return: 0; -EINVAL if it is another device; -EUCLEAN if neither copy is sound, but one identifies
 * the device; -EIO if the blocks cannot be read; -ENOMEM.
 */
int shingle_check_member(const struct shingle_reader *r, const struct shingle_layout *l,
			 enum shingle_dev dev, enum shingle_member_fault *copy, char *why)
{
	void *buf = shingle_zalloc_array(1, SHINGLE_BLOCK_SIZE);
	bool sound = l->flags & SHINGLE_SB_UNMARKED(dev), unmarked = sound;
	bool foreign = false, ours = false, unread = false;
	char text[SHINGLE_MEMBER_WHY];
	u32 i;

	snprintf(why, SHINGLE_MEMBER_WHY, "out of memory");
	if (!buf)
		return -ENOMEM;
	for (i = 0; i < 2; i++) {
		u64 block = i ? l->dev_blocks[dev] - 1 : 0;
		int err = r->read(r->ctx, dev, block, 1, buf);
		enum shingle_member_fault fault;
		bool other;

		fault = shingle_member_examine(l, dev, block, err ? NULL : buf, text);
		if (copy)
			copy[i] = unmarked ? SHINGLE_MEMBER_OK : fault;
		if (fault == SHINGLE_MEMBER_OK) {
			sound = true;
			continue;
		}
		other = fault == SHINGLE_MEMBER_STRANGER && is_foreign(buf);
		/* Report what is there rather than what is missing. */
		if (!foreign && (other || !ours))
			memcpy(why, text, sizeof(text));
		foreign |= other;
		ours |= fault == SHINGLE_MEMBER_DAMAGED && !err;
		unread |= err;
	}
	kvfree(buf);
	if (foreign)
		return -EINVAL;
	if (sound)
		return 0;
	return ours ? -EUCLEAN : unread ? -EIO : -EINVAL;
}

/**
 * struct scan - a walk through a checkpoint slot
 * @l: layout
 * @s: results
 * @seq: number of the checkpoint that continues here, 0: not known yet
 * @first: first block of that checkpoint in the slot
 * @crc: checksum over its header crcs
 * @prev_crc: checksum of the footer in front of it
 * @strange: number of consecutive blocks that belong neither to it nor to a later one
 * @broken: there was such a block; no checkpoint from there on is complete
 */
struct scan {
	const struct shingle_layout *l;
	struct shingle_slot_scan *s;
	u64 seq;
	u64 first;
	u32 crc;
	u32 prev_crc;
	u32 strange;
	bool broken;
};

/* Does the checkpoint end here, with all of its chunks in front? */
static bool is_end(const struct scan *c, const struct shingle_footer *f, u64 i)
{
	return le64_to_cpu(f->first) == c->first && le64_to_cpu(f->nr_chunks) == i - c->first &&
	       le32_to_cpu(f->chunks_crc) == c->crc && le32_to_cpu(f->prev_crc) == c->prev_crc &&
	       le64_to_cpu(f->journal_pos) < c->l->journal.blocks &&
	       f->journal_seq && le64_to_cpu(f->journal_seq) <= SHINGLE_MAX_SEQ;
}

/* @buf, sound, is block @i of the slot: does it continue the sequence of blocks so far? */
static bool goes_on(struct scan *c, const void *buf, u64 i)
{
	const struct shingle_header *h = buf;
	const struct shingle_footer *f = buf;

	if (c->broken || (c->seq && le64_to_cpu(h->seq) != c->seq))
		return false;
	c->seq = le64_to_cpu(h->seq);
	if (!i)
		c->s->first_seq = c->seq;
	if (le32_to_cpu(h->magic) == SHINGLE_MAGIC_CHUNK) {
		c->crc = crc32c(c->crc, &h->crc, sizeof(h->crc));
		return true;
	}
	if (!is_end(c, f, i))
		return false;
	c->s->nr++;
	c->s->last = *f;
	c->s->end = i + 1;
	c->seq++;
	c->first = i + 1;
	c->crc = 0;
	c->prev_crc = le32_to_cpu(h->crc);
	return true;
}

static bool is_sound(const struct shingle_layout *l, const void *buf, u64 block)
{
	return !shingle_check_block(buf, SHINGLE_MAGIC_CHUNK, l->uuid, block) ||
	       !shingle_check_block(buf, SHINGLE_MAGIC_FOOTER, l->uuid, block);
}

/* A block of an earlier round, but not a block with only its number damaged. */
static bool is_leftover(const struct scan *c, struct shingle_header *h, u64 block)
{
	__le64 seq = h->seq;
	bool damaged;

	if (le64_to_cpu(seq) >= c->seq)
		return false;
	h->seq = cpu_to_le64(c->seq);
	damaged = is_sound(c->l, h, block);
	h->seq = seq;
	return !damaged;
}

/*
 * The checksum is wrong, but at least two of the three fields that identify a block are right: it
 * belonged to the slot, at this place.  A sound block of another place was copied by a head, or was
 * written to the wrong place.
 */
static bool was_here(const struct scan *c, void *buf, u64 block)
{
	struct shingle_header *h = buf;
	u32 magic = le32_to_cpu(h->magic);

	if (shingle_check_block(buf, magic, NULL, U64_MAX) == SHINGLE_BLOCK_OK)
		return c->l->head_tracks == 1 && !c->l->journal_gap_blocks &&
		       !memcmp(h->uuid, c->l->uuid, SHINGLE_UUID_SIZE);
	return (magic == SHINGLE_MAGIC_CHUNK || magic == SHINGLE_MAGIC_FOOTER) +
	       !memcmp(h->uuid, c->l->uuid, SHINGLE_UUID_SIZE) +
	       (le64_to_cpu(h->block) == block) >= 2 && !is_leftover(c, h, block);
}

/*
 * Behind the last complete checkpoint lie remains of earlier rounds of the slot, or of a checkpoint
 * that a power cut interrupted.  The footer of a later checkpoint, however, proves that the blocks
 * in front of it were complete, for it is written when they are on the medium.
 */
static void look_at(struct scan *c, void *buf, u64 block, u64 i)
{
	const struct shingle_header *h = buf;
	const struct shingle_footer *f = buf;
	bool sound = buf && is_sound(c->l, buf, block), later;

	if (sound && goes_on(c, buf, i))
		return;
	later = sound && (!c->seq || le64_to_cpu(h->seq) >= c->seq);
	if (!c->broken) {
		c->s->unread = !buf && i == c->s->end;
		c->s->more = i > c->s->end;
	}
	c->s->torn |= !c->broken && buf && !sound && was_here(c, buf, block);
	c->broken = true;
	c->s->more |= later;
	c->strange = later ? 0 : c->strange + 1;
	if (!later || le32_to_cpu(h->magic) != SHINGLE_MAGIC_FOOTER ||
	    le64_to_cpu(h->seq) < c->s->beyond_seq)
		return;
	c->s->beyond_seq = le64_to_cpu(h->seq);
	c->s->beyond_journal_seq = le64_to_cpu(f->journal_seq);
}

/**
 * shingle_scan_slot() - find the checkpoints of a slot
 * @r: reader
 * @l: layout
 * @slot: 0 or 1
 * @s: result
 *
 * Context: may sleep.
 * Return: 0; -ENOMEM; or a read error that does not prove a loss of the block.
 */
int shingle_scan_slot(const struct shingle_reader *r, const struct shingle_layout *l, u32 slot,
		      struct shingle_slot_scan *s)
{
	enum shingle_dev dev = shingle_meta_dev(l);
	u64 room = shingle_ckpt_room(l, slot), i;
	struct scan c = { .l = l, .s = s };
	u32 n, k;
	int err = 0;
	u8 *buf;

	memset(s, 0, sizeof(*s));
	buf = shingle_zalloc_array(READ_BATCH, SHINGLE_BLOCK_SIZE);
	if (!buf)
		return -ENOMEM;
	for (i = 0; i < room && c.strange < READ_BATCH; i += n) {
		u64 block = shingle_ckpt_block(l, slot, i);

		n = min_t(u64, READ_BATCH, room - i);
		n = min(n, shingle_ckpt_run(l, i));
		err = r->read(r->ctx, dev, block, n, buf);
		for (k = 0; k < n; k++) {
			u8 *one = buf + k * SHINGLE_BLOCK_SIZE;
			int lost = err ? r->read(r->ctx, dev, block + k, 1, one) : 0;

			if (lost && lost != -ENODATA) {
				err = lost;
				goto out;
			}
			if (lost)
				s->lost_reads += 2;
			look_at(&c, lost ? NULL : one, block + k, i + k);
		}
		err = 0;
		cond_resched();
	}
out:
	kvfree(buf);
	return err;
}

/* ------------------------------------------------------------------------
 * Pages
 */

static int fetch(const struct shingle_reader *r, const struct shingle_layout *l,
		 struct shingle_engine *e, u32 i)
{
	struct shingle_frame *f = &e->pages->frame[i];
	enum shingle_page_place place = shingle_place_of(e->pages->places, f->nr);
	int err = r->read(r->ctx, shingle_meta_dev(l), shingle_page_block(l, f->nr, place), 1,
			  f->block);

	return err ?: shingle_page_check(l, e, f->block, f->nr, place);
}

/**
 * shingle_fetch() - read the page that the last call of the engine lacked
 * @r: reader
 * @l: layout
 * @e: the engine
 *
 * Context: before I/O, may sleep; as shingle_pages_ask().
 * Return: 0 if the call should be repeated; -ESTALE if the page was given up; -ENODATA if the
 * medium has lost it; -EUCLEAN if it is damaged; another read error; -ENOMEM.
 */
int shingle_fetch(const struct shingle_reader *r, const struct shingle_layout *l,
		  struct shingle_engine *e)
{
	int err = shingle_pages_ask(e->pages);
	u32 i;

	if (err == -EAGAIN)
		return shingle_pages_grow(e->pages);
	while ((i = shingle_pages_wanted(e->pages)) != SHINGLE_NO_PAGE)
		shingle_pages_here(e->pages, i, fetch(r, l, e, i));
	return err;
}

/**
 * shingle_fetch_run() - call resolve(), and read the pages that it lacks
 * @r: reader
 * @l: layout
 * @e: the engine
 * @lblk: as resolve()
 * @n: as resolve()
 * @run: as resolve(); SHINGLE_RUN_ABSENT if the page cannot be read
 *
 * Context: not in use, may sleep.
 */
void shingle_fetch_run(const struct shingle_reader *r, const struct shingle_layout *l,
		       struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *run)
{
	bool absent;

	do {
		shingle_pages_begin(e, SHINGLE_ASKER_FRONT);
		e->ops->map.resolve(e, lblk, n, run);
		absent = run->kind == SHINGLE_RUN_ABSENT && !shingle_fetch(r, l, e);
		shingle_pages_end(e, absent);
	} while (absent);
}

/**
 * shingle_fetch_verify() - as shingle_verify(), and read the pages that it lacks
 * @r: reader
 * @l: layout
 * @e: the engine
 * @report: as verify()
 * @ctx: as verify()
 *
 * Reports pages that cannot be read, and leaves out the parts of the map in them.
 *
 * Context: not in use, may sleep.
 * Return: number of broken invariants.
 */
u32 shingle_fetch_verify(const struct shingle_reader *r, const struct shingle_layout *l,
			 struct shingle_engine *e, shingle_report_fn report, void *ctx)
{
	u64 cursor = 0;
	u32 bad = 0;
	bool lacks;

	while (cursor != SHINGLE_NOWHERE) {
		shingle_pages_begin(e, SHINGLE_ASKER_LOOK);
		bad += e->ops->observe.verify(e, &cursor, report, ctx);
		/* The engine leaves out a page once it is known to be unreadable. */
		lacks = shingle_pages_lack(e);
		if (lacks)
			shingle_fetch(r, l, e);
		shingle_pages_end(e, lacks);
	}
	return bad;
}

/* Number of the checkpoint that wrote the content of one of a page's places. */
static int number_of(const struct shingle_reader *r, const struct shingle_layout *l,
		     const struct shingle_engine *e, u32 nr, enum shingle_page_place place,
		     struct shingle_chunk *c, u64 *seq)
{
	int err = r->read(r->ctx, shingle_meta_dev(l), shingle_page_block(l, nr, place), 1, c);

	err = err ?: shingle_page_check(l, e, c, nr, place);
	*seq = err ? 0 : le64_to_cpu(c->h.seq);
	return err;
}

/*
 * The places that an older checkpoint records may have been overwritten since.  Content of the
 * newest complete checkpoint, or of an earlier one, is good: records are replayed onto it.  Content
 * of a checkpoint that was never complete may contain changes that no journal has; then the other
 * place is the one that the newest complete checkpoint recorded.
 */
static int find_pages(const struct shingle_reader *r, const struct shingle_layout *l,
		      const struct shingle_loaded *to, struct shingle_recovery *rec)
{
	struct shingle_pages *p = to->engine->pages;
	struct shingle_chunk *c;
	u32 nr;

	if (!p || !to->lost_seq)
		return 0;
	c = shingle_zalloc_array(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	for (nr = 0; nr < p->nr_pages; nr++) {
		enum shingle_page_place place = shingle_place_of(p->places, nr), other;
		u64 seq;
		int err;

		if (place != SHINGLE_PAGE_A && place != SHINGLE_PAGE_B)
			continue;
		err = number_of(r, l, to->engine, nr, place, c, &seq);
		/* Another error proves nothing; the user of the page will report it. */
		if ((!err && seq <= to->lost_seq) || (err && err != -EUCLEAN && err != -ENODATA))
			continue;
		other = shingle_place_other(place);
		if (!number_of(r, l, to->engine, nr, other, c, &seq) &&
		    seq > rec->ckpt_seq && seq <= to->lost_seq) {
			shingle_pages_found(p, nr, other);
		} else if (!err) {
			err = shingle_pages_give_up(p, nr);
			if (err) {
				kvfree(c);
				return err;
			}
			rec->pages_lost++;
		}
	}
	kvfree(c);
	return 0;
}

static int decode_chunk(const struct shingle_layout *l, const struct shingle_loaded *to,
			const struct shingle_chunk *c)
{
	u64 index = le64_to_cpu(c->index);
	u32 bytes = le32_to_cpu(c->bytes);

	if (!bytes)
		return 0;
	if (index == SHINGLE_CHUNK_CORE)
		return shingle_bad_decode(to->bad, c->payload, bytes);
	if (index > SHINGLE_CHUNK_CORE)
		return shingle_places_decode(to->engine->pages, index, c->payload, bytes);
	return shingle_pieces_decode(to->ops->state.pieces, l, to->engine, index, c->payload,
				     bytes);
}

/* Core has one piece with the unreadable blocks, and pieces with the places of pages. */
static u32 core_pieces(const struct shingle_engine *e)
{
	return 1 + (e->pages ? e->pages->nr_pieces : 0);
}

/* The piece that a chunk holds; the last @core pieces are core's.  @pieces: none. */
static u64 piece_of(const struct shingle_chunk *c, u64 pieces, u32 core)
{
	u64 index = le64_to_cpu(c->index);

	if (le32_to_cpu(c->bytes) > SHINGLE_CHUNK_BYTES)
		return pieces;
	if (index >= SHINGLE_CHUNK_CORE)
		return index - SHINGLE_CHUNK_CORE < core ?
		       pieces - core + (index - SHINGLE_CHUNK_CORE) : pieces;
	return index < pieces - core ? index : pieces;
}

/*
 * Two passes over the chunks of all checkpoints of the slot: the first finds the newest chunk of
 * each piece, the second decodes these.  The caller has checked that they are complete.
 */
static int load_checkpoint(const struct shingle_reader *r, const struct shingle_layout *l,
			   u32 slot, const struct shingle_slot_scan *s,
			   const struct shingle_loaded *to, u8 *buf, u64 *chunks)
{
	enum shingle_dev dev = shingle_meta_dev(l);
	u32 core = core_pieces(to->engine);
	u64 pieces = shingle_pieces_nr(to->ops->state.pieces, U32_MAX, l) + core, at;
	u32 pass, n, i, *newest;
	int err = 0;

	*chunks = 0;
	if (s->end > U32_MAX)
		return -EUCLEAN;
	newest = shingle_zalloc_array(pieces, sizeof(*newest));
	if (!newest)
		return -ENOMEM;
	for (pass = 0; pass < 2; pass++) {
		for (at = 0; at < s->end; at += n) {
			u64 block = shingle_ckpt_block(l, slot, at);

			n = min_t(u64, READ_BATCH, s->end - at);
			n = min(n, shingle_ckpt_run(l, at));
			err = r->read(r->ctx, dev, block, n, buf);
			if (err)
				goto out;
			for (i = 0; i < n; i++) {
				const struct shingle_chunk *c;
				u64 piece;

				c = (void *)(buf + i * SHINGLE_BLOCK_SIZE);
				err = -EUCLEAN;
				if (!is_sound(l, c, block + i))
					goto out;
				err = 0;
				if (le32_to_cpu(c->h.magic) == SHINGLE_MAGIC_FOOTER)
					continue;
				piece = piece_of(c, pieces, core);
				err = -EUCLEAN;
				if (piece == pieces)
					goto out;
				err = 0;
				*chunks += !pass;
				if (!pass)
					newest[piece] = at + i;
				else if (newest[piece] == at + i)
					err = decode_chunk(l, to, c);
				if (err)
					goto out;
			}
			cond_resched();
		}
	}
out:
	kvfree(newest);
	return err;
}

/*
 * The number of the checkpoint at the beginning of a slot, 0 if unknown.
 * @lost: counts reads of lost blocks
 */
static int begins_with(const struct shingle_reader *r, const struct shingle_layout *l, u32 slot,
		       void *buf, u64 *seq, u64 *lost)
{
	u64 block = shingle_ckpt_block(l, slot, 0);
	const struct shingle_header *h = buf;
	int err = r->read(r->ctx, shingle_meta_dev(l), block, 1, buf);

	*seq = 0;
	if (!err && is_sound(l, buf, block))
		*seq = le64_to_cpu(h->seq);
	*lost += err == -ENODATA;
	return err == -ENODATA ? 0 : err;
}

/*
 * Choose the slot that was begun last, if its first checkpoint is complete; otherwise it was being
 * rewritten, and the other is used.  The other is also scanned if its first block is unreadable,
 * since it may be the newer one.
 */
static int find_slot(const struct shingle_reader *r, const struct shingle_layout *l, void *buf,
		     u32 *slot, struct shingle_slot_scan *s, const char **why)
{
	u64 begin[2], newest = 0, beyond = 0, lost = 0;
	struct shingle_slot_scan *one;
	u32 i, k, first;
	int err;

	one = shingle_zalloc_array(1, sizeof(*one));
	*why = "out of memory";
	if (!one)
		return -ENOMEM;
	*why = "a checkpoint cannot be read";
	for (i = 0; i < 2; i++) {
		err = begins_with(r, l, i, buf, &begin[i], &lost);
		if (err)
			goto out;
	}
	first = begin[1] > begin[0];
	*slot = SHINGLE_SLOT_NEWEST;
	for (i = 0; i < 2; i++) {
		k = first ^ i;
		if (*slot != SHINGLE_SLOT_NEWEST && begin[k])
			continue;
		err = shingle_scan_slot(r, l, k, one);
		if (err)
			goto out;
		beyond = max(beyond, one->beyond_seq);
		lost += one->lost_reads;
		if (!one->nr || (*slot != SHINGLE_SLOT_NEWEST && one->first_seq < newest))
			continue;
		*slot = k;
		*s = *one;
		newest = le64_to_cpu(s->last.h.seq);
	}
	err = 0;
	s->lost_reads = lost;
	*why = "neither checkpoint is usable";
	if (*slot == SHINGLE_SLOT_NEWEST)
		err = -EUCLEAN;
	/*
	 * A footer is written last, so a sound footer of an incomplete checkpoint proves damage,
	 * not a power cut.  The journal of the older state may be gone, so only `shingle repair',
	 * on its user's request, goes back to it.
	 */
	if (beyond > newest) {
		*why = "newest checkpoint is damaged";
		err = -EUCLEAN;
	}
out:
	kvfree(one);
	return err;
}

/* Replay a record of the engine; read pages until it lacks none. */
static int replay_engine(const struct shingle_reader *r, const struct shingle_layout *l,
			 const struct shingle_loaded *to, const struct shingle_record *rec,
			 struct shingle_recovery *found)
{
	struct shingle_engine *e = to->engine;
	int err, why = 0;
	u32 nr = SHINGLE_NO_PAGE;

	do {
		shingle_pages_begin(e, SHINGLE_ASKER_LOAD);
		err = to->ops->state.replay(e, rec);
		if (err == SHINGLE_ABSENT) {
			nr = e->pages->missed;
			why = shingle_fetch(r, l, e);
		}
		shingle_pages_end(e, err == SHINGLE_ABSENT && !why);
		/* The record may still change another page, so continue. */
		if (err == SHINGLE_ABSENT && to->give_up && why && why != -ESTALE &&
		    why != -ENOMEM) {
			why = shingle_pages_give_up(e->pages, nr);
			found->pages_lost += !why;
		}
	} while (err == SHINGLE_ABSENT && !why);
	if (err != SHINGLE_ABSENT || why == -ESTALE)
		return err == SHINGLE_ABSENT ? 0 : err;
	if (why == -ENOMEM)
		return why;
	found->bad_page = nr;
	return why;
}

static int replay_record(const struct shingle_reader *r, const struct shingle_layout *l,
			 const struct shingle_loaded *to, const struct shingle_record *rec,
			 struct shingle_recovery *found)
{
	u64 lblk = le64_to_cpu(rec->a);

	switch (le16_to_cpu(rec->type)) {
	case SHINGLE_REC_BAD:
		return lblk < l->logical_blocks && shingle_bad_replay(to->bad, lblk) ? 0 : -EUCLEAN;
	case SHINGLE_REC_GOOD:
		/* The length is in b, since rec->n has too few bits. */
		shingle_bad_remove(to->bad, lblk, le64_to_cpu(rec->b));
		return 0;
	}
	if (le16_to_cpu(rec->type) < SHINGLE_REC_ENGINE)
		return -EUCLEAN;
	return replay_engine(r, l, to, rec, found);
}

struct replay {
	const struct shingle_reader *r;
	const struct shingle_layout *l;
	u8 *buf;	/* READ_BATCH blocks */
	u64 have;	/* ring position of buf[0] */
	u32 nr;		/* blocks in buf */
	int errs[READ_BATCH];	/* read error of each block */
	u64 lost;	/* reads of blocks that the medium has lost */
	u64 edge;	/* ring position that no long read crosses */
	bool forgiving;	/* treat unreadable blocks as lost; the caller accepts that */
};

static u64 ring_next(const struct shingle_layout *l, u64 pos)
{
	return pos + 1 == l->journal.blocks ? 0 : pos + 1;
}

static u64 ring_add(const struct shingle_layout *l, u64 pos, u64 n)
{
	return pos < l->journal.blocks - n ? pos + n : pos - (l->journal.blocks - n);
}

/**
 * shingle_journal_seal_mark() - complete the mark behind a transaction
 * @l: layout
 * @b: the block
 * @count: blocks of the transaction
 * @pos: place of the block in the ring
 * @seq: number of the transaction
 * @prev_crc: checksum of its last block
 *
 * Context: any.
 */
void shingle_journal_seal_mark(const struct shingle_layout *l, struct shingle_journal_block *b,
			       u32 count, u64 pos, u64 seq, u32 prev_crc)
{
	memset(b, 0, sizeof(*b));
	b->prev_crc = cpu_to_le32(prev_crc);
	b->index = cpu_to_le16(count);
	b->count = cpu_to_le16(count);
	shingle_seal(b, SHINGLE_MAGIC_JOURNAL, l->uuid, l->journal.start + pos, seq);
}

/**
 * shingle_journal_seal() - complete the blocks of a transaction
 * @l: layout
 * @b: the blocks with their records, and room for shingle_journal_mark() more
 * @records: number of records
 * @pos: place of the first block in the ring
 * @seq: number of the transaction
 * @prev_crc: checksum of the block before it
 *
 * Context: any.
 * Return: number of blocks of the transaction; the mark comes behind them.
 */
u32 shingle_journal_seal(const struct shingle_layout *l, struct shingle_journal_block *b,
			 u32 records, u64 pos, u64 seq, u32 prev_crc)
{
	u32 nr = DIV_ROUND_UP(records, SHINGLE_JOURNAL_RECORDS), i;

	for (i = 0; i < nr; i++, b++, pos = ring_next(l, pos)) {
		b->prev_crc = cpu_to_le32(prev_crc);
		b->index = cpu_to_le16(i);
		b->count = cpu_to_le16(nr);
		b->nr_records = cpu_to_le32(min(records - i * SHINGLE_JOURNAL_RECORDS,
						(u32)SHINGLE_JOURNAL_RECORDS));
		shingle_seal(b, SHINGLE_MAGIC_JOURNAL, l->uuid, l->journal.start + pos, seq);
		prev_crc = le32_to_cpu(b->h.crc);
	}
	if (shingle_journal_mark(l))
		shingle_journal_seal_mark(l, b, nr, pos, seq, prev_crc);
	return nr;
}

/*
 * On a shingled medium the wide head has destroyed the blocks beyond the last write.  There a
 * medium error is equivalent to a block of other content.  Any other error proves nothing about the
 * content.
 */
static bool is_destroyed(const struct replay *p, int err)
{
	return p->l->journal_gap_blocks && err == -ENODATA;
}

static bool is_forgiven(const struct replay *p, int err)
{
	return p->forgiving && (err == -EIO || err == -ENODATA);
}

/* Number of blocks from the journal's end on that a head may have covered. */
static u64 head_reach(const struct shingle_layout *l)
{
	return l->journal_gap_blocks ? shingle_txn_blocks(l) + l->journal_gap_blocks : 0;
}

static int read_ring(struct replay *p, u64 pos, u32 n)
{
	return p->r->read(p->r->ctx, shingle_meta_dev(p->l), p->l->journal.start + pos, n, p->buf);
}

/* If a long read fails, perhaps only one of its blocks is unreadable. */
static void fill_buf(struct replay *p, u64 pos)
{
	u32 n = min_t(u64, READ_BATCH, p->l->journal.blocks - pos), i;
	int err;

	if (pos < p->edge)
		n = min_t(u64, n, p->edge - pos);
	p->have = pos;
	p->nr = n;
	err = read_ring(p, pos, n);
	if (err && n > 1) {
		err = p->r->read_each(p->r->ctx, shingle_meta_dev(p->l), p->l->journal.start + pos,
				      n, p->buf, p->errs);
		for (i = 0; !err && i < n; i++) {
			if (p->errs[i] == -ENODATA)
				p->lost += 2;
		}
		if (!err)
			return;
	}
	for (i = 0; i < n; i++)
		p->errs[i] = err;
	p->lost += err == -ENODATA;
}

/* The journal block at @pos, from a read-ahead buffer. */
static const struct shingle_journal_block *ring_block(struct replay *p, u64 pos, int *err)
{
	if (pos - p->have >= p->nr)
		fill_buf(p, pos);
	*err = p->errs[pos - p->have];
	return *err ? NULL : (void *)(p->buf + (pos - p->have) * SHINGLE_BLOCK_SIZE);
}

static bool belongs(const struct replay *p, const struct shingle_journal_block *b, u64 pos,
		    u64 seq, u32 index, u32 count, u32 prev_crc)
{
	return !shingle_check_block(b, SHINGLE_MAGIC_JOURNAL, p->l->uuid,
				    p->l->journal.start + pos) &&
	       le64_to_cpu(b->h.seq) == seq && le16_to_cpu(b->index) == index &&
	       (!index || le16_to_cpu(b->count) == count) &&
	       le32_to_cpu(b->prev_crc) == prev_crc &&
	       le32_to_cpu(b->nr_records) <= SHINGLE_JOURNAL_RECORDS;
}

/* Is a complete transaction there?  Sets @count and the checksum of its end. */
static int whole_transaction(struct replay *p, u64 pos, u64 seq, u32 *prev_crc, u32 *count)
{
	u32 index = 0, crc = *prev_crc;
	int err;

	do {
		const struct shingle_journal_block *b = ring_block(p, pos, &err);

		if (err)
			return is_destroyed(p, err) || is_forgiven(p, err) ? 0 : err;
		if (!belongs(p, b, pos, seq, index, *count, crc))
			return 0;
		if (!index)
			*count = le16_to_cpu(b->count);
		if (!*count || *count > p->l->journal.blocks)
			return 0;
		crc = le32_to_cpu(b->h.crc);
		pos = ring_next(p->l, pos);
	} while (++index < *count);
	*prev_crc = crc;
	return 1;
}

/*
 * Did a block that is not sound belong to the next transaction?  One of the three fields that
 * identify it may be damaged.
 */
static bool was_next(const struct replay *p, const struct shingle_journal_block *b, u64 pos,
		     u64 seq, u32 prev_crc)
{
	u32 marks = (le64_to_cpu(b->h.block) == p->l->journal.start + pos) +
		    (le64_to_cpu(b->h.seq) == seq) + (le32_to_cpu(b->prev_crc) == prev_crc);

	return marks >= 2;
}

/**
 * struct beyond - what lies from the journal's end on
 * @index: index of the block of the next transaction that cannot be used, U32_MAX if none
 * @count: number of its blocks, if a readable one contains it
 * @odd: that block cannot be read although no head can have destroyed it
 * @changed: it can be read, but is not the expected block
 * @intact: it is @changed, and is a sound block of an earlier transaction: it was never
 *	overwritten
 * @whole: that transaction was once complete
 */
struct beyond {
	u32 index;
	u32 count;
	bool odd;
	bool changed;
	bool intact;
	bool whole;
};

static bool is_mark(const struct shingle_journal_block *b)
{
	return b->index == b->count;
}

/* Does the sound block behind the last transaction prove that this is complete? */
static bool marks_end(const struct shingle_recovery *rec, const struct shingle_journal_block *b)
{
	u64 seq = le64_to_cpu(b->h.seq);

	return seq >= rec->next_seq || (seq == rec->next_seq - 1 && is_mark(b));
}

/*
 * Was the next transaction, now incomplete, once complete?  On a shingled medium a head writes
 * upwards, and the mark comes last.  So the first block of a transaction is present if any other
 * block of it is, and all are present if the mark is.  An attempt that a power cut interrupted may
 * have left blocks with the same number, but the retry overwrote all of them up to the unreadable
 * one; only a mark proves that the blocks behind the first were written.  For a block that can be
 * read, too, only a mark proves it, by the number of blocks in front of it: a power cut may have
 * torn the first block.
 *
 * A layout may have gaps although its device is a plain disk.  Such a disk writes the blocks of a
 * transaction in any order, perhaps the mark first.  A sound block of an earlier transaction shows
 * that the new block was not written there: then the transaction was never complete, and core
 * acknowledged nothing of it.  Damage does not leave a sound block.
 */
static bool proves_whole(const struct beyond *end, const struct shingle_journal_block *b, u64 seq,
			 u64 at)
{
	if (end->index == U32_MAX || end->intact)
		return false;
	if (!end->index && !end->changed)
		return le64_to_cpu(b->h.seq) >= seq;
	return le64_to_cpu(b->h.seq) == seq && is_mark(b) && at == le16_to_cpu(b->count) &&
	       (!end->index || at == end->count);
}

/*
 * Replay has stopped at a block that is not the next one.  A journal ends like that, but a damaged
 * block in its middle looks the same.  A transaction is written only when the one before it is
 * durable.  So a sound block with a higher number proves damage, and continuing would silently lose
 * acknowledged data.
 */
static int look_beyond(struct replay *p, struct shingle_recovery *rec, struct beyond *end)
{
	u64 left = p->l->journal.blocks - rec->used_blocks, pos = rec->next_pos, i;
	u64 reach = min(head_reach(p->l), left);
	u32 crc = rec->prev_crc, count = 0;
	bool chained = true;
	int err;

	rec->unmarked = reach;
	p->edge = ring_add(p->l, pos, reach);
	if (reach && p->edge > p->have)
		p->nr = min_t(u64, p->nr, p->edge - p->have);
	for (i = 0; i < left; i++, pos = ring_next(p->l, pos)) {
		const struct shingle_journal_block *b = ring_block(p, pos, &err);
		enum shingle_block_fault fault;

		if (err) {
			bool head = is_destroyed(p, err) && i < reach;

			if (!head && !is_forgiven(p, err))
				return err;
			rec->unread_blocks += !head;
			if (chained) {
				end->index = i;
				end->count = count;
				/* The block that a checkpoint records was readable then. */
				end->odd = !head || (!i && !rec->transactions);
				rec->torn_pos = pos;
			}
			chained = false;
			continue;
		}
		fault = shingle_check_block(b, SHINGLE_MAGIC_JOURNAL, p->l->uuid,
					    p->l->journal.start + pos);
		if (!fault) {
			rec->max_seq = max(rec->max_seq, le64_to_cpu(b->h.seq));
			end->whole |= proves_whole(end, b, rec->next_seq, i);
		}
		if (!i && p->l->journal_gap_blocks)
			rec->unmarked = rec->transactions && (fault || !marks_end(rec, b));
		if (!chained)
			continue;

		/* Is this still one of the first blocks of an incomplete transaction? */
		chained = belongs(p, b, pos, rec->next_seq, i, count, crc);
		if (chained) {
			count = le16_to_cpu(b->count);
			crc = le32_to_cpu(b->h.crc);
			continue;
		}
		if ((fault == SHINGLE_BLOCK_ROTTEN || fault == SHINGLE_BLOCK_FOREIGN) &&
		    was_next(p, b, pos, rec->next_seq, crc))
			rec->torn_end = true;
		rec->torn_pos = pos;
		end->index = i;
		end->count = count;
		end->changed = true;
		end->intact = !fault;
	}
	rec->hole = rec->max_seq > rec->next_seq;
	return 0;
}

/* Decide what the journal's end means.  @lost: accept any end. */
static int judge_end(struct shingle_recovery *rec, const struct beyond *end, bool lost,
		     const char **why)
{
	if (end->index != U32_MAX && !end->changed) {
		rec->torn_end = end->odd || end->whole;
		rec->cut = !rec->torn_end && !rec->hole;
	}
	rec->torn_end |= end->whole;
	if (rec->hole && !lost) {
		*why = "journal has a hole: a block in its middle is damaged";
		return -EUCLEAN;
	}
	if (end->whole && !lost) {
		*why = "journal's last transaction is damaged: a block of it is lost";
		return end->changed ? -EUCLEAN : -ENODATA;
	}
	if (end->odd && !lost) {
		*why = "journal has lost a block where no write head has been";
		return -ENODATA;
	}
	return 0;
}

static const char *unread(const struct replay *p, int err)
{
	return is_destroyed(p, err) ? "journal has lost a block where no write head has been" :
				      "journal cannot be read";
}

static int replay_journal(struct replay *p, const struct shingle_loaded *to, bool stop_at_hole,
			  struct shingle_recovery *rec, const char **why)
{
	u64 pos = rec->tail_pos, seq = rec->tail_seq, used = 0;
	struct beyond end = { .index = U32_MAX };
	u32 crc = rec->prev_crc;
	int err;

	for (;;) {
		u32 count = 0, index, i;
		int whole = whole_transaction(p, pos, seq, &crc, &count);

		if (whole < 0) {
			*why = unread(p, whole);
			return whole;
		}
		if (!whole || used + count > p->l->journal.blocks)
			break;
		for (index = 0; index < count; index++) {
			const struct shingle_journal_block *b = ring_block(p, pos, &err);

			if (err) {
				*why = unread(p, err);
				return err;
			}
			for (i = 0; i < le32_to_cpu(b->nr_records); i++) {
				err = replay_record(p->r, p->l, to, &b->records[i], rec);
				if (err) {
					*why = err == -ENOMEM ? "out of memory" :
					       rec->bad_page == SHINGLE_NO_PAGE ?
					       "journal holds a record that makes no sense" :
					       err == -EUCLEAN || err == -ENODATA ?
					       "a page of the map is damaged" :
					       "a page of the map cannot be read";
					return err;
				}
				rec->records++;
			}
			pos = ring_next(p->l, pos);
			cond_resched();
		}
		used += count;
		seq++;
		rec->last_blocks = count;
		rec->transactions++;
	}
	rec->next_pos = pos;
	rec->next_seq = seq;
	rec->prev_crc = crc;
	rec->used_blocks = used;
	rec->max_seq = seq - 1;
	err = look_beyond(p, rec, &end);
	if (err) {
		*why = unread(p, err);
		return err;
	}
	/* The list that the checkpoint holds may be newer than the records before a hole. */
	if (to->bad->nr > SHINGLE_MAX_BAD) {
		*why = "journal holds more unreadable blocks than a device can have";
		return -EUCLEAN;
	}
	return judge_end(rec, &end, stop_at_hole, why);
}

/**
 * shingle_recover_slot() - load a state that a device had
 * @r: reader
 * @l: the device's layout
 * @to: destination; the engine must be fresh from create
 * @slot: checkpoint to start from, or SHINGLE_SLOT_NEWEST
 * @stop_at_hole: if the journal has a hole, or a block that cannot be read, accept what comes
 *	before it
 * @rec: result; on error, as far as recovery got
 * @why: on error, a sentence tail
 *
 * For tools that repair: the caller accepts the loss of the other slot, or of what lies behind the
 * hole.
 *
 * Context: before I/O, may sleep.
 * Return: as shingle_recover().
 */
int shingle_recover_slot(const struct shingle_reader *r, const struct shingle_layout *l,
			 const struct shingle_loaded *to, u32 slot, bool stop_at_hole,
			 struct shingle_recovery *rec, const char **why)
{
	struct replay p = { .r = r, .l = l, .forgiving = stop_at_hole };
	struct shingle_slot_scan *s;
	int err = -ENOMEM;
	u8 *buf;

	memset(rec, 0, sizeof(*rec));
	rec->bad_page = SHINGLE_NO_PAGE;
	*why = "out of memory";
	buf = shingle_zalloc_array(READ_BATCH, SHINGLE_BLOCK_SIZE);
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!buf || !s)
		goto out;

	if (slot == SHINGLE_SLOT_NEWEST) {
		err = find_slot(r, l, buf, &slot, s, why);
	} else {
		*why = "a checkpoint cannot be read";
		err = shingle_scan_slot(r, l, slot, s);
		if (!err && !s->nr) {
			*why = "checkpoint has no sound footer";
			err = -EUCLEAN;
		}
	}
	if (err)
		goto out;

	err = load_checkpoint(r, l, slot, s, to, buf, &rec->ckpt_chunks);
	if (err) {
		*why = err == -EUCLEAN || err == -ENODATA ? "newest checkpoint is damaged" :
		       err == -ENOMEM ? "out of memory" : "newest checkpoint cannot be read";
		goto out;
	}

	rec->ckpt_slot = slot;
	rec->ckpt_seq = le64_to_cpu(s->last.h.seq);
	rec->tail_seq = le64_to_cpu(s->last.journal_seq);
	rec->tail_pos = le64_to_cpu(s->last.journal_pos);
	rec->prev_crc = le32_to_cpu(s->last.journal_prev_crc);

	*why = "out of memory";
	err = find_pages(r, l, to, rec);
	if (err)
		goto out;
	p.buf = buf;
	err = replay_journal(&p, to, stop_at_hole, rec, why);
	rec->lost_reads = s->lost_reads + p.lost;
	if (!err && to->engine->pages && shingle_pages_leave_room(to->engine->pages)) {
		*why = "out of memory";
		err = -ENOMEM;
	}
	if (!err)
		err = to->ops->state.ready(to->engine, why);
out:
	kvfree(s);
	kvfree(buf);
	return err;
}

/**
 * shingle_recover() - load the last sound state of a device
 * @r: reader
 * @l: the device's layout
 * @to: destination; the engine must be fresh from create
 * @rec: result
 * @why: on error, a sentence tail
 *
 * Loads the newest checkpoint and replays every complete transaction after it.  The work is bounded
 * by the sizes of the checkpoint slots and the journal ring. on-disk-format.rst describes the data.
 *
 * Context: before I/O, may sleep.
 * Return: 0; -EUCLEAN if there is no usable checkpoint or the metadata contradict themselves;
 * -ENOMEM; or a read error.
 */
int shingle_recover(const struct shingle_reader *r, const struct shingle_layout *l,
		    const struct shingle_loaded *to, struct shingle_recovery *rec,
		    const char **why)
{
	return shingle_recover_slot(r, l, to, SHINGLE_SLOT_NEWEST, false, rec, why);
}
