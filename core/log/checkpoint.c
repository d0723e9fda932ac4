// SPDX-License-Identifier: GPL-2.0
/* Checkpoints, which bound the journal, and the superblock. */
#include "base/device.h"
#include "base/mode.h"
#include "base/trace.h"
#include "log/log.h"
#include "medium/medium.h"

/**
 * struct ckpt_writer - a checkpoint being written to its slot
 * @d: the device
 * @engine: the engine with the state
 * @all: write all pieces, from the start of a slot; otherwise the changed ones, behind the
 *	last checkpoint
 * @slot: the slot
 * @first: block of the slot at which it begins
 * @seq: number of the checkpoint
 * @nr: blocks of the slot up to its last chunk
 * @crc: checksum over their header crcs
 * @bad: the list of unreadable blocks is not empty
 * @fill: chunks in the batch buffer
 * @written: chunks written, including those of an attempt that found no room
 */
struct ckpt_writer {
	struct shingle_device *d;
	struct shingle_engine *engine;
	bool all;
	u32 slot;
	u64 first;
	u64 seq;
	u64 nr;
	u32 crc;
	bool bad;
	u32 fill;
	u64 written;
};

/* Write all pieces into the slot that is not valid. */
static void begin_slot(struct ckpt_writer *w)
{
	w->all = true;
	w->slot = !w->d->log.ckpt_slot;
	w->first = 0;
	w->nr = 0;
	w->crc = 0;
	w->fill = 0;
}

/*
 * Begin behind the last checkpoint, if the changed pieces fit there, and this activation has
 * written that checkpoint: only then all changes since are marked.
 */
static void begin(struct ckpt_writer *w, bool all)
{
	struct shingle_device *d = w->d;
	u64 changed;

	spin_lock_irq(&d->map_lock);
	changed = d->engine->marks.nr;
	if (d->engine->pages)
		changed += d->engine->pages->places.nr_marked;
	spin_unlock_irq(&d->map_lock);
	/* 2 for core's piece and the footer. */
	if (all || !d->log.ckpt_end ||
	    d->log.ckpt_end + changed + 2 > shingle_ckpt_room(&d->layout, d->log.ckpt_slot)) {
		begin_slot(w);
		return;
	}
	w->slot = d->log.ckpt_slot;
	w->first = d->log.ckpt_end;
	w->nr = d->log.ckpt_end;
}

static int write_batch(struct ckpt_writer *w)
{
	struct shingle_device *d = w->d;
	u32 n = w->fill;

	w->fill = 0;
	if (!n)
		return 0;
	return shingle_rw(d, REQ_OP_WRITE, shingle_meta_dev(&d->layout),
			  shingle_ckpt_block(&d->layout, w->slot, w->nr - n), n, d->log.meta_buf);
}

static struct shingle_chunk *next_chunk(struct ckpt_writer *w)
{
	struct shingle_chunk *c = (void *)(w->d->log.meta_buf + w->fill * SHINGLE_BLOCK_SIZE);

	memset(c, 0, sizeof(*c));
	return c;
}

static int put_chunk(struct ckpt_writer *w, struct shingle_chunk *c, u64 index, u32 bytes)
{
	const struct shingle_layout *l = &w->d->layout;
	u64 block = shingle_ckpt_block(l, w->slot, w->nr);

	if (w->nr + 1 >= shingle_ckpt_room(l, w->slot))
		return -ENOSPC;
	c->index = cpu_to_le64(index);
	c->bytes = cpu_to_le32(bytes);
	shingle_seal(c, SHINGLE_MAGIC_CHUNK, l->uuid, block, w->seq);
	w->crc = crc32c(w->crc, &c->h.crc, sizeof(c->h.crc));
	w->fill++;
	w->nr++;
	w->written++;
	return w->fill == SHINGLE_META_BATCH || shingle_ckpt_run(l, w->nr - 1) == 1 ?
	       write_batch(w) : 0;
}

/* Write the places of the pages of the map, as this checkpoint has set them. */
static int write_places(struct ckpt_writer *w)
{
	struct shingle_pages *p = w->engine->pages;
	struct shingle_device *d = w->d;
	struct shingle_chunk *c;
	u64 cursor = 0, index;
	u32 bytes;
	bool any;
	int err = 0;

	while (p && !err && cursor != SHINGLE_NOWHERE) {
		c = next_chunk(w);
		spin_lock_irq(&d->map_lock);
		any = shingle_places_encode_next(p, w->all, &cursor, &index, c->payload, &bytes);
		spin_unlock_irq(&d->map_lock);
		err = any ? put_chunk(w, c, index, bytes) : 0;
		cond_resched();
	}
	return err;
}

/*
 * The pieces are encoded one at a time while I/O goes on.  Recovery replays the journal from before
 * the first piece on top of them, so that the result is consistent.
 */
static int write_chunks(struct ckpt_writer *w)
{
	struct shingle_device *d = w->d;
	struct shingle_chunk *c;
	u64 cursor = 0, index;
	u32 bytes;
	bool any;
	int err;

	do {
		c = next_chunk(w);
		spin_lock_irq(&d->map_lock);
		any = shingle_encode_next(&d->layout, w->engine, w->all, &cursor, &index,
					  c->payload, &bytes);
		spin_unlock_irq(&d->map_lock);
		err = any ? put_chunk(w, c, index, bytes) : 0;
		if (err)
			return err;
		cond_resched();
	} while (cursor != SHINGLE_NOWHERE);
	err = write_places(w);
	if (err)
		return err;
	c = next_chunk(w);
	spin_lock_irq(&d->map_lock);
	/* A new engine, of a reset, has no unreadable blocks. */
	bytes = w->engine == d->engine ? shingle_bad_encode(&d->bad, c->payload) : 0;
	spin_unlock_irq(&d->map_lock);
	w->bad = bytes;
	/* A list that has become empty must be written, too. */
	if (bytes || (!w->all && d->log.ckpt_bad))
		err = put_chunk(w, c, SHINGLE_CHUNK_CORE, bytes);
	return err ?: write_batch(w);
}

static int write_footer(struct ckpt_writer *w, u64 journal_seq, u64 journal_pos, u32 prev_crc)
{
	struct shingle_device *d = w->d;
	struct shingle_footer *f = (void *)d->log.meta_buf;
	const struct shingle_layout *l = &d->layout;
	u64 block = shingle_ckpt_block(l, w->slot, w->nr);
	int err;

	memset(f, 0, sizeof(*f));
	f->nr_chunks = cpu_to_le64(w->nr - w->first);
	f->first = cpu_to_le64(w->first);
	f->prev_crc = cpu_to_le32(w->first ? d->log.ckpt_crc : 0);
	f->journal_seq = cpu_to_le64(journal_seq);
	f->journal_pos = cpu_to_le64(journal_pos);
	f->journal_prev_crc = cpu_to_le32(prev_crc);
	f->chunks_crc = cpu_to_le32(w->crc);
	shingle_seal(f, SHINGLE_MAGIC_FOOTER, d->layout.uuid, block, w->seq);
	err = shingle_write_last(d, block, f, true);
	if (!err)
		d->log.ckpt_crc = le32_to_cpu(f->h.crc);
	return err;
}

/*
 * Other commits go on meanwhile.  In the end there must be room for the commit of the next
 * checkpoint; without it no room would ever be made.
 */
static void keep_room(struct shingle_device *d, u64 will_free)
{
	struct shingle_journal *j = &d->journal;

	lockdep_assert_held(&d->log.commit_lock);
	spin_lock_irq(&d->map_lock);
	j->keep = j->max_blocks - min_t(u64, will_free, j->max_blocks);
	spin_unlock_irq(&d->map_lock);
}

/**
 * shingle_set_like() - copy the options of a device's engine to another engine
 * @d: the device
 * @fresh: the other engine
 *
 * Context: map lock.
 */
void shingle_set_like(struct shingle_device *d, struct shingle_engine *fresh)
{
	const struct shingle_option *o;
	char value[32];
	const char *why;

	lockdep_assert_held(&d->map_lock);
	for (o = d->ops->options; o->name; o++) {
		if (shingle_option_show(o, d->engine, value, sizeof(value)))
			WARN_ON_ONCE(shingle_set(fresh, o->name, value[0] ? value : NULL, &why));
	}
}

/*
 * Exchange @fresh with the old engine, which is idle; afterwards *@fresh is the old one.  Tunables
 * and counters belong to the device and are kept.
 */
static void switch_engine(struct shingle_device *d, struct shingle_engine **fresh)
{
	const struct shingle_counter *c = d->ops->counters;
	u32 i;

	lockdep_assert_held(&d->map_lock);
	(*fresh)->knows_life = d->engine->knows_life;
	/* Messages may have set options since it was created. */
	shingle_set_like(d, *fresh);
	if (d->engine->pages)
		shingle_pages_carry((*fresh)->pages, d->engine->pages);
	/* Counters that describe the current state are not kept, but counts are. */
	for (i = 0; c[i].name; i++) {
		if (c[i].kind == SHINGLE_COUNTER_COUNT)
			d->stats.carried[i] += shingle_counter_get(&c[i], d->engine);
	}
	swap(d->engine, *fresh);
	d->engine->in_use = true;
	d->config.engine = d->engine;
	d->bad.nr = 0;
	d->cleaner.step_bad.nr = 0;
	d->trims.nr = 0;
	d->stats.n.resets++;
}

/*
 * Skip a transaction number.  If the footer is lost, recovery from the state before the reset finds
 * a hole here and does not replay later transactions onto it.
 */
static void leave_one_out(struct shingle_device *d)
{
	lockdep_assert_held(&d->log.commit_lock);
	spin_lock_irq(&d->map_lock);
	d->journal.seq++;
	spin_unlock_irq(&d->map_lock);
}

/*
 * A checkpoint has failed.  Commits go on as long as the journal has room, but not after a failed
 * reset: recovery would not reach them, see leave_one_out().
 */
static void no_more(struct shingle_device *d, bool reset)
{
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->log.no_ckpt, true);
	if (reset)
		WRITE_ONCE(d->log.dead, true);
	spin_unlock_irq(&d->map_lock);
}

/*
 * Take a checkpoint; of *@fresh, if given, which then replaces the device's engine; @all: of all
 * pieces, changed or not.
 */
static int checkpoint_locked(struct shingle_device *d, struct shingle_engine **fresh, bool all)
{
	struct shingle_journal *j = &d->journal;
	struct ckpt_writer w = {
		.d = d, .engine = fresh ? *fresh : d->engine, .seq = d->log.ckpt_seq + 1,
	};
	bool commit_failed = false;
	u32 prev_crc;
	u64 seq, pos, used;
	int err;

	lockdep_assert_held(&d->log.ckpt_lock);
	/* While no commit is in progress the place of the open transaction is fixed. */
	mutex_lock(&d->log.commit_lock);
	if (fresh)
		leave_one_out(d);
	seq = j->seq;
	pos = j->pos;
	used = j->used;
	prev_crc = j->prev_crc;
	keep_room(d, used);
	mutex_unlock(&d->log.commit_lock);

	err = shingle_pages_write(d, w.engine, w.seq);
	if (!err) {
		begin(&w, all);
		err = write_chunks(&w);
	}
	/* More pieces have changed since it began than there is room for. */
	if (err == -ENOSPC && !w.all) {
		begin_slot(&w);
		err = write_chunks(&w);
	}
	/*
	 * The pieces contain changes that are not in the journal yet, perhaps only a half of some
	 * change: commit all changes before the footer makes the pieces valid.  During activation
	 * there is nothing to commit.
	 */
	if (!err && d->phase.loaded) {
		err = shingle_commit(d, true);
		commit_failed = err;
	}
	if (!err)
		err = write_footer(&w, seq, pos, prev_crc);
	trace_shingle_checkpoint(d, w.seq, w.written, err);
	if (err) {
		shingle_pages_checkpoint_done(d, w.engine, false);
		/* Marks were cleared for pieces that were not written. */
		d->log.ckpt_end = 0;
		no_more(d, fresh);
		if (!commit_failed)
			shingle_set_mode(d, SHINGLE_RO, true, "a checkpoint could not be written");
		wake_up_all(&d->wait);
		return err;
	}

	d->log.ckpt_seq = w.seq;
	d->log.ckpt_slot = w.slot;
	d->log.ckpt_end = w.nr + 1;
	d->log.ckpt_bad = w.bad;
	shingle_pages_checkpoint_done(d, w.engine, true);
	spin_lock_irq(&d->map_lock);
	j->used -= used;
	j->keep = 0;
	if (fresh)
		switch_engine(d, fresh);
	d->stats.n.checkpoints++;
	d->stats.n.checkpoint_blocks += w.written + 1;
	spin_unlock_irq(&d->map_lock);
	wake_up_all(&d->wait);
	return 0;
}

/**
 * shingle_checkpoint() - write the changed part of the state and empty the journal
 * @d: the device
 *
 * Host I/O goes on meanwhile.  The first checkpoint of an activation, and one that finds its slot
 * full, writes all of the state.
 *
 * Context: may sleep.
 * Return: 0 or -errno, -EAGAIN if a suspend came first; on a write error the device has become
 * read-only.
 */
int shingle_checkpoint(struct shingle_device *d)
{
	int err = -EROFS;

	mutex_lock(&d->log.ckpt_lock);
	if (READ_ONCE(d->health.mode) == SHINGLE_RW)
		err = READ_ONCE(d->phase.suspending) ? -EAGAIN : checkpoint_locked(d, NULL, false);
	mutex_unlock(&d->log.ckpt_lock);
	return err;
}

/**
 * shingle_checkpoint_reset() - replace the device's engine by a new one
 * @d: the device, idle, with nothing to commit
 * @fresh: the new engine; afterwards the old one, unless this failed
 *
 * The second checkpoint overwrites the older slot, from which `shingle repair' could restore what
 * the reset deletes.
 *
 * Context: may sleep.
 * Return: as shingle_checkpoint().
 */
int shingle_checkpoint_reset(struct shingle_device *d, struct shingle_engine **fresh)
{
	int err = -EROFS;

	mutex_lock(&d->log.ckpt_lock);
	if (READ_ONCE(d->health.mode) == SHINGLE_RW)
		err = checkpoint_locked(d, fresh, true);
	if (!err)
		err = checkpoint_locked(d, NULL, true);
	mutex_unlock(&d->log.ckpt_lock);
	return err;
}

/**
 * shingle_checkpoint_work() - take a checkpoint if one is still needed
 * @work: shingle_device::log.ckpt_work
 *
 * Context: workqueue.
 */
void shingle_checkpoint_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(work, struct shingle_device, log.ckpt_work);
	u64 ring = shingle_journal_room(&d->layout), used;
	bool pages, may;

	mutex_lock(&d->log.ckpt_lock);
	/*
	 * Two commits may have requested the same checkpoint, or one that has just ended is enough.
	 */
	spin_lock_irq(&d->map_lock);
	used = d->journal.used;
	pages = shingle_pages_want_checkpoint(d);
	spin_unlock_irq(&d->map_lock);
	/* While the device is read-only a checkpoint is taken only to make room for commits. */
	may = shingle_may_log(d) && !READ_ONCE(d->log.no_ckpt);
	if (READ_ONCE(d->health.mode) != SHINGLE_RW) {
		shingle_pages_look_again(d);
		pages = false;
	}
	if (may && (pages || used >= ring / 2 || ring - used < 2 * d->journal.max_blocks))
		checkpoint_locked(d, NULL, false);
	mutex_unlock(&d->log.ckpt_lock);
	wake_up_all(&d->wait);
}

static bool is_sound(struct shingle_device *d, u64 block)
{
	struct shingle_sb *sb = (void *)d->log.meta_buf;

	return !shingle_rw(d, REQ_OP_READ, shingle_meta_dev(&d->layout), block, 1, sb) &&
	       !shingle_check_block(sb, SHINGLE_MAGIC_SB, d->layout.uuid, block);
}

/*
 * Write both copies, one after the other, with the next generation; return the number of successful
 * writes.  A failed write may have torn its block, so a single sound copy is written last.
 *
 * @all: try the second copy even if the first has failed, since one new copy is better than none;
 * otherwise stop, and the old state is unchanged.
 */
static int write_superblocks(struct shingle_device *d, bool all)
{
	enum shingle_dev dev = shingle_meta_dev(&d->layout);
	u64 block[2] = { 0, d->disks.blocks[dev] - 1 };
	int i, written = 0;

	lockdep_assert_held(&d->log.ckpt_lock);
	if (!is_sound(d, block[1]) && is_sound(d, block[0]))
		swap(block[0], block[1]);
	d->layout.sb_seq++;
	for (i = 0; i < 2 && (all || written == i); i++) {
		struct shingle_sb *sb = (void *)d->log.meta_buf;

		shingle_layout_encode(&d->layout, block[i], sb);
		if (shingle_write_last(d, block[i], sb, false))
			continue;
		written++;
		spin_lock_irq(&d->map_lock);
		d->stats.n.superblock_blocks++;
		spin_unlock_irq(&d->map_lock);
	}
	return written;
}

/**
 * shingle_superblock_work() - mark the superblocks needs_check
 * @work: shingle_device::log.sb_work
 *
 * Context: workqueue.
 */
void shingle_superblock_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(work, struct shingle_device, log.sb_work);
	int written;

	mutex_lock(&d->log.ckpt_lock);
	d->layout.flags |= SHINGLE_SB_NEEDS_CHECK;
	written = write_superblocks(d, true);
	mutex_unlock(&d->log.ckpt_lock);
	if (!written)
		DMERR("%s: no superblock could be marked for a check",
		      dm_table_device_name(d->ti->table));
}

/**
 * shingle_keep_settings() - store other settings in the superblocks
 * @d: the device
 * @s: settings for tools that open the device later
 *
 * Context: process, may sleep.
 * Return: 0 when they are durable, -EROFS or -EIO.
 */
int shingle_keep_settings(struct shingle_device *d, const struct shingle_disk_settings *s)
{
	struct shingle_disk_settings old;
	int written;

	mutex_lock(&d->log.ckpt_lock);
	if (READ_ONCE(d->health.mode) != SHINGLE_RW) {
		mutex_unlock(&d->log.ckpt_lock);
		return -EROFS;
	}
	old = d->layout.settings;
	d->layout.settings = *s;
	written = write_superblocks(d, false);
	if (!written)
		d->layout.settings = old;
	mutex_unlock(&d->log.ckpt_lock);
	if (written == 2)
		return 0;
	shingle_set_mode(d, SHINGLE_RO, true, "a superblock could not be written");
	return -EIO;
}
