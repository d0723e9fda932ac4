// SPDX-License-Identifier: GPL-2.0
/*
 * The journal, and the commits of map changes for FLUSH and FUA.
 *
 * Operations leave records in the open transaction.  A commit closes it, flushes the data that its
 * records point to, and writes it to the ring with FUA.  Only then it completes the flushes and FUA
 * writes that waited for it.  So a record on the disk never points to data that are not durable.
 */
#include "base/device.h"
#include "base/mode.h"
#include "base/trace.h"
#include "base/wake.h"
#include "log/log.h"
#include "medium/medium.h"

/* Recovery from an older footer may have found more than there is room for. */
static u64 ring_room(const struct shingle_device *d)
{
	u64 room = shingle_journal_room(&d->layout);

	return room - min(room, d->journal.used);
}

/**
 * shingle_journal_init() - allocate a journal's buffers
 * @d: the device, its layout known
 *
 * Context: constructor, may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_journal_init(struct shingle_device *d)
{
	struct shingle_journal *j = &d->journal;
	u32 i;

	j->max_blocks = shingle_txn_blocks(&d->layout);
	j->room = j->max_blocks * SHINGLE_JOURNAL_RECORDS;
	for (i = 0; i < 2; i++) {
		j->txn[i].blocks = shingle_zalloc_array(j->max_blocks +
							shingle_journal_mark(&d->layout),
							SHINGLE_BLOCK_SIZE);
		if (!j->txn[i].blocks)
			return -ENOMEM;
	}
	return 0;
}

/**
 * shingle_journal_exit() - free a journal's buffers
 * @d: the device
 *
 * Context: may sleep.
 */
void shingle_journal_exit(struct shingle_device *d)
{
	kvfree(d->journal.txn[0].blocks);
	kvfree(d->journal.txn[1].blocks);
}

/**
 * shingle_journal_start() - continue where recovery found the end
 * @d: the device
 * @rec: results of recovery
 *
 * Context: before I/O.
 */
void shingle_journal_start(struct shingle_device *d, const struct shingle_recovery *rec)
{
	struct shingle_journal *j = &d->journal;

	j->seq = rec->next_seq;
	j->durable_seq = rec->next_seq - 1;
	j->pos = rec->next_pos;
	j->used = rec->used_blocks;
	j->prev_crc = rec->prev_crc;
}

/**
 * shingle_journal_remark() - write the mark of the last transaction, which a power cut has lost
 * @d: the device
 * @rec: results of recovery
 *
 * It must be written before the device is used, and before a checkpoint records the place behind
 * the last transaction.
 *
 * Context: before I/O, may sleep.
 * Return: 0 or -errno.
 */
int shingle_journal_remark(struct shingle_device *d, const struct shingle_recovery *rec)
{
	struct shingle_journal *j = &d->journal;
	struct shingle_journal_block *b = j->txn[0].blocks;

	shingle_journal_seal_mark(&d->layout, b, rec->last_blocks, j->pos, j->durable_seq,
				  j->prev_crc);
	d->stats.n.journal_blocks++;
	return shingle_rw(d, REQ_OP_WRITE | REQ_FUA | REQ_SYNC, shingle_meta_dev(&d->layout),
			  d->layout.journal.start + j->pos, 1, b);
}

/**
 * shingle_journal_tight() - is there too little room for two more commits?
 * @d: the device
 *
 * This happens after a power cut between a checkpoint's commit and its footer, or if recovery falls
 * back to an older footer.  Then a checkpoint must be taken before the first record, since a later
 * one could not commit.
 *
 * Context: before I/O.
 * Return: true if there is too little room.
 */
bool shingle_journal_tight(const struct shingle_device *d)
{
	return ring_room(d) < 2 * d->journal.max_blocks;
}

/**
 * shingle_journal_full() - the open transaction has no room: arrange that the bio is woken
 * @d: the device
 *
 * A part of shingle_journal_reserve().
 *
 * Context: map lock.
 */
void shingle_journal_full(struct shingle_device *d)
{
	struct shingle_journal *j = &d->journal;

	lockdep_assert_held(&d->map_lock);
	if (j->txn[j->open].nr)
		mod_delayed_work(d->worker.wq, &d->log.commit_work, 0);
	else
		d->waiters.awaits_write = true;
}

/**
 * shingle_journal_cancel() - return promised room
 * @d: the device
 * @records: as reserved
 *
 * Context: map lock.
 */
void shingle_journal_cancel(struct shingle_device *d, u32 records)
{
	lockdep_assert_held(&d->map_lock);
	d->journal.reserved -= records;
}

/**
 * shingle_journal_add() - put an operation's records into the open transaction
 * @d: the device
 * @reserved: number of records promised to the operation
 * @emit: its records, at most @reserved
 *
 * Never fails: the room was reserved.
 *
 * Context: map lock.
 */
void shingle_journal_add(struct shingle_device *d, u32 reserved, const struct shingle_emit *emit)
{
	struct shingle_journal *j = &d->journal;
	struct shingle_txn *t = &j->txn[j->open];
	u32 i;

	lockdep_assert_held(&d->map_lock);
	j->reserved -= reserved;
	for (i = 0; i < emit->nr; i++, t->nr++)
		t->blocks[t->nr / SHINGLE_JOURNAL_RECORDS]
			.records[t->nr % SHINGLE_JOURNAL_RECORDS] = emit->rec[i];
	d->stats.n.records += emit->nr;
	/* A pending commit will include these records: it must take the lock first. */
	if (emit->nr && d->config.commit_ms && !d->phase.held &&
	    !delayed_work_pending(&d->log.commit_work))
		queue_delayed_work(d->worker.wq, &d->log.commit_work,
				   msecs_to_jiffies(d->config.commit_ms));
}

/*
 * A device that fails a FLUSH may have dropped blocks that it had acknowledged, and reports that
 * only once: the next FLUSH may succeed.  A record of such a block must not be written, because
 * recovery would follow it to other content and forget the place of the earlier version.  A footer
 * must not make a checkpoint valid whose blocks were dropped.  So no later commit is allowed.
 *
 * No later read is allowed either.  The map in memory refers to places that were written since the
 * last flush, by the host or by cleaning; they may have the content of other blocks now.  The map
 * on the disk does not refer to them, and the next activation follows that.  During an activation
 * there is no map in memory yet.
 */
static int flush_dev(struct shingle_device *d, enum shingle_dev dev)
{
	bool loaded;
	int err;

	lockdep_assert_held(&d->log.commit_lock);
	err = blkdev_issue_flush(d->disks.dev[dev]->bdev);
	if (!err)
		return 0;
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->log.dead, true);
	d->journal.failed = true;
	loaded = d->phase.loaded;
	spin_unlock_irq(&d->map_lock);
	shingle_set_mode(d, loaded ? SHINGLE_FAIL : SHINGLE_RO, false, "data could not be flushed");
	return err;
}

/* Write the sealed blocks of a transaction; split the write where the ring ends. */
static int write_blocks(struct shingle_device *d, const struct shingle_txn *t, u32 nr)
{
	const struct shingle_area *ring = &d->layout.journal;
	enum shingle_dev dev = shingle_meta_dev(&d->layout);
	u32 first = min_t(u64, nr, ring->blocks - d->journal.pos);
	int err = 0;

	/* Not by REQ_PREFLUSH: the two errors have different consequences, see flush_dev(). */
	if (!d->engine->unsafe_order)
		err = flush_dev(d, dev);
	if (!err)
		err = shingle_rw(d, REQ_OP_WRITE | REQ_FUA | REQ_SYNC, dev,
				 ring->start + d->journal.pos, first, t->blocks);
	if (!err && nr > first)
		err = shingle_rw(d, REQ_OP_WRITE | REQ_FUA | REQ_SYNC, dev, ring->start,
				 nr - first, t->blocks + first);
	return err;
}

/* Flush the devices that are dirty; the metadata device only if @meta_too. */
static int flush_data(struct shingle_device *d, const bool *dirty, bool meta_too)
{
	int err, i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (!dirty[i] || (!meta_too && i == shingle_meta_dev(&d->layout)))
			continue;
		err = flush_dev(d, i);
		if (err)
			return err;
	}
	return 0;
}

/* Get and clear the dirty devices before they are flushed. */
static void take_dirty(struct shingle_device *d, bool *dirty)
{
	lockdep_assert_held(&d->map_lock);
	memcpy(dirty, d->losses.dirty, sizeof(d->losses.dirty));
	memset(d->losses.dirty, 0, sizeof(d->losses.dirty));
}

/* A transaction is on the disk. */
static void committed(struct shingle_device *d, struct shingle_txn *t, u32 nr)
{
	struct shingle_journal *j = &d->journal;

	lockdep_assert_held(&d->log.commit_lock);
	j->prev_crc = le32_to_cpu(t->blocks[nr - 1].h.crc);
	spin_lock_irq(&d->map_lock);
	t->acked = 0;
	j->closed = false;
	j->durable_seq = t->seq;
	j->pos += nr;
	if (j->pos >= d->layout.journal.blocks)
		j->pos -= d->layout.journal.blocks;
	j->used += nr;
	d->stats.n.commits++;
	d->stats.n.journal_blocks += nr + shingle_journal_mark(&d->layout);
	spin_unlock_irq(&d->map_lock);
}

/*
 * Flush, and write the closed transaction; if there is none, only flush.  If that fails the
 * transaction stays closed.  The next commit writes it again to the same place, where no other
 * block has been written.
 */
static int write_closed(struct shingle_device *d, struct shingle_txn *t, const bool *dirty)
{
	bool unordered = t && d->engine->unsafe_order;
	struct shingle_journal *j = &d->journal;
	u32 nr = 0;
	int err;

	err = unordered ? 0 : flush_data(d, dirty, !t);
	if (!err && t) {
		nr = shingle_journal_seal(&d->layout, t->blocks, t->nr, j->pos, t->seq,
					  j->prev_crc);
		err = write_blocks(d, t, nr + shingle_journal_mark(&d->layout));
	}
	if (unordered && !err)
		err = flush_data(d, dirty, true);
	trace_shingle_commit(d, t ? t->seq : j->seq, t ? t->nr : 0, nr, err);
	spin_lock_irq(&d->map_lock);
	j->failed = err;
	spin_unlock_irq(&d->map_lock);
	/* If a flush has failed, flush_dev() has done this, and the map on the disk is right. */
	if (err && !READ_ONCE(d->log.dead))
		shingle_set_mode(d, SHINGLE_RO, true, "the map could not be committed");
	else if (!err && t)
		committed(d, t, nr);
	return err;
}

static int commit_locked(struct shingle_device *d)
{
	struct shingle_journal *j = &d->journal;
	bool dirty[SHINGLE_NR_DEVS], again;
	struct shingle_txn *t;
	int err;

	/* A transaction that an earlier commit could not write comes first. */
	do {
		spin_lock_irq(&d->map_lock);
		take_dirty(d, dirty);
		again = j->closed;
		/*
		 * A transaction without records stays open and may receive some during the flush.
		 */
		t = &j->txn[j->open];
		if (!again && t->nr) {
			t->seq = j->seq++;
			j->closed = true;
			j->open = !j->open;
			j->txn[j->open].nr = 0;
		}
		t = j->closed ? &j->txn[!j->open] : NULL;
		spin_unlock_irq(&d->map_lock);
		err = write_closed(d, t, dirty);
	} while (!err && again);
	return err;
}

/**
 * shingle_flush() - make the data of all completed writes durable, but not the map
 * @d: the device
 *
 * Context: may sleep.
 * Return: 0, -EROFS if nothing may be written, or the error that made the device read-only; then no
 * later commit is allowed, see flush_dev().
 */
int shingle_flush(struct shingle_device *d)
{
	bool dirty[SHINGLE_NR_DEVS];
	int err = -EROFS;

	/* A commit must not run between take_dirty() and the end of the flush. */
	mutex_lock(&d->log.commit_lock);
	if (shingle_may_log(d)) {
		spin_lock_irq(&d->map_lock);
		take_dirty(d, dirty);
		spin_unlock_irq(&d->map_lock);
		err = flush_data(d, dirty, true);
	}
	mutex_unlock(&d->log.commit_lock);
	return err;
}

/**
 * shingle_write_last() - write a block of metadata after all that was written before it
 * @d: the device
 * @block: its place on the metadata device
 * @buf: the block; vmalloc or kvmalloc memory
 * @alive: fail if the journal has ended, because a flush of the earlier blocks may have failed
 *
 * The flush is separate from the write, see flush_dev().  It must not run beside that of a commit:
 * only one of them would report what the device has dropped.
 *
 * Context: may sleep.
 * Return: 0 when the block is durable, or -errno.
 */
int shingle_write_last(struct shingle_device *d, u64 block, void *buf, bool alive)
{
	enum shingle_dev dev = shingle_meta_dev(&d->layout);
	int err;

	mutex_lock(&d->log.commit_lock);
	err = flush_dev(d, dev);
	if (!err && alive && READ_ONCE(d->log.dead))
		err = -EROFS;
	mutex_unlock(&d->log.commit_lock);
	return err ?: shingle_rw(d, REQ_OP_WRITE | REQ_FUA, dev, block, 1, buf);
}

/* Is there room for a transaction, and for the commit of a checkpoint? */
static bool room_for(struct shingle_device *d, bool for_checkpoint)
{
	const struct shingle_journal *j = &d->journal;
	bool room;

	spin_lock_irq(&d->map_lock);
	room = ring_room(d) >= (for_checkpoint ? j->max_blocks : 2 * j->max_blocks + j->keep);
	spin_unlock_irq(&d->map_lock);
	return room;
}

/* Release space that is free now, even if no request waits for it. */
static void release_soon(struct shingle_device *d)
{
	spin_lock_irq(&d->map_lock);
	if (!d->phase.stopping && d->ops->clean.pending(d->engine))
		shingle_wake_cleaner(d);
	spin_unlock_irq(&d->map_lock);
}

/* Is there no room for a commit, and no checkpoint that could make room? */
static bool ring_is_full(struct shingle_device *d)
{
	return READ_ONCE(d->log.no_ckpt) && !room_for(d, true);
}

/* Records that are not in the journal by now are lost. */
static void give_up(struct shingle_device *d)
{
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->log.dead, true);
	spin_unlock_irq(&d->map_lock);
	shingle_set_mode(d, SHINGLE_RO, true, "the journal is full and a checkpoint has failed");
}

/**
 * shingle_commit() - make every change so far durable, data first
 * @d: the device
 * @for_checkpoint: the caller is a checkpoint, for which room is kept
 *
 * After the call all that the engine had committed, and all writes that had completed before the
 * call, are on the disk.  A device that has become read-only also commits what it has acknowledged.
 * Rule R3.
 *
 * Context: may sleep.  May wait for a checkpoint unless it is one.
 * Return: 0, -EROFS if nothing may be written, or the error that made the device read-only; then
 * another commit tries it again, unless data could not be flushed.
 */
int shingle_commit(struct shingle_device *d, bool for_checkpoint)
{
	int err;

	for (;;) {
		mutex_lock(&d->log.commit_lock);
		if (shingle_may_log(d) && ring_is_full(d))
			give_up(d);
		if (!shingle_may_log(d)) {
			mutex_unlock(&d->log.commit_lock);
			return -EROFS;
		}
		/* If there will be no checkpoint, the room kept for one can be used. */
		if (room_for(d, for_checkpoint || READ_ONCE(d->log.no_ckpt)))
			break;
		mutex_unlock(&d->log.commit_lock);
		queue_work(d->log.wq, &d->log.ckpt_work);
		wait_event(d->wait, room_for(d, false) || READ_ONCE(d->log.no_ckpt) ||
			   !shingle_may_log(d));
	}
	err = commit_locked(d);
	if (!err && d->engine->frees_early)
		release_soon(d);
	/* Long before it is needed, so that no commit has to wait for it. */
	if (!for_checkpoint && ring_room(d) < shingle_journal_room(&d->layout) / 2)
		queue_work(d->log.wq, &d->log.ckpt_work);
	mutex_unlock(&d->log.commit_lock);
	return err;
}

/* Could this number of records be promised once all records so far are committed? */
static bool may_promise(struct shingle_device *d, u32 records)
{
	struct shingle_journal *j = &d->journal;
	bool may;

	spin_lock_irq(&d->map_lock);
	may = j->reserved + records <= j->room;
	j->awaited |= !may;
	spin_unlock_irq(&d->map_lock);
	return may;
}

/**
 * shingle_journal_make_room() - make room after shingle_journal_reserve() found none
 * @d: the device
 * @records: number of records, at most the size of a transaction
 *
 * Context: may sleep, waits for writes in flight if all room is promised to them.
 * Return: 0 if the caller should try again; -EROFS if the device is not read-write; otherwise as
 * shingle_commit().
 */
int shingle_journal_make_room(struct shingle_device *d, u32 records)
{
	int err = shingle_commit(d, false);

	if (err)
		return err;
	wait_event(d->wait, may_promise(d, records) || READ_ONCE(d->health.mode) != SHINGLE_RW);
	return READ_ONCE(d->health.mode) == SHINGLE_RW ? 0 : -EROFS;
}

/**
 * shingle_commit_work() - commit, then complete the bios that waited for it
 * @work: shingle_device::log.commit_work
 *
 * Context: workqueue.
 */
void shingle_commit_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(to_delayed_work(work), struct shingle_device,
						log.commit_work);
	struct bio_list done;
	struct bio *bio;
	bool kick;
	int err;

	spin_lock_irq(&d->map_lock);
	done = d->log.commits;
	bio_list_init(&d->log.commits);
	spin_unlock_irq(&d->map_lock);

	/* A flush may arrive before the state is read, and fails. */
	err = READ_ONCE(d->phase.loaded) ? shingle_commit(d, false) : -EROFS;
	while ((bio = bio_list_pop(&done))) {
		if (err)
			bio->bi_status = BLK_STS_IOERR;
		bio_endio(bio);
	}

	spin_lock_irq(&d->map_lock);
	kick = shingle_waiting(d);
	if (!err && d->ops->clean.pending(d->engine))
		shingle_wake_cleaner(d);
	/* After a temporary error the transaction must not wait for the next FLUSH. */
	if (err && d->journal.closed && shingle_may_log(d) && d->config.commit_ms)
		queue_delayed_work(d->worker.wq, &d->log.commit_work,
				   msecs_to_jiffies(d->config.commit_ms));
	spin_unlock_irq(&d->map_lock);
	if (kick)
		shingle_kick(d);
}
