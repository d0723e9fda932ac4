// SPDX-License-Identifier: GPL-2.0
/* Activation: loads the state from the disk. */
#include "base/device.h"
#include "base/mode.h"
#include "log/log.h"
#include "medium/medium.h"

/**
 * shingle_check_members() - are these the devices that were formatted?
 * @d: the device
 * @why: if not, a sentence; SHINGLE_MEMBERS_WHY
 *
 * Checks the headers of the devices without superblocks.
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int shingle_check_members(struct shingle_device *d, char *why)
{
	const struct shingle_reader r = { .read = shingle_reader_read, .ctx = d };
	char found[SHINGLE_MEMBER_WHY];
	int i, err;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (!d->disks.dev[i] || i == shingle_meta_dev(&d->layout))
			continue;
		err = shingle_check_member(&r, &d->layout, i, NULL, found);
		if (err) {
			snprintf(why, SHINGLE_MEMBERS_WHY,
				 "The %s device is not the one that was formatted: %s",
				 shingle_dev_names[i], found);
			return err;
		}
	}
	return 0;
}

/**
 * shingle_load_state() - recover the state from the disk
 * @d: the device
 *
 * Context: before I/O, may sleep.
 * Return: 0 or -errno, with the reason in the log.
 */
int shingle_load_state(struct shingle_device *d)
{
	const struct shingle_reader r = {
		.read = shingle_reader_read, .read_each = shingle_reader_read_each,
		.ctx = d,
	};
	const struct shingle_loaded to = { d->ops, d->engine, &d->bad };
	const char *name = dm_table_device_name(d->ti->table), *why;
	struct shingle_recovery rec;
	char member_why[SHINGLE_MEMBERS_WHY];
	struct shingle_layout *l;
	int err, i;

	/*
	 * Without a power cut the drive may still hold the last writes, and write them after new
	 * ones, for example a bottom after the top beside it.
	 */
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		d->losses.dirty[i] = d->disks.dev[i];
	shingle_flush(d);

	/* The table may have been loaded while another one was still writing. */
	l = shingle_zalloc_array(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	err = shingle_load_sb(&r, shingle_meta_dev(&d->layout),
			      d->disks.blocks[shingle_meta_dev(&d->layout)], l, &why);
	if (!err && memcmp(l->uuid, d->layout.uuid, sizeof(l->uuid))) {
		why = "it was formatted anew after the table was loaded";
		err = -EUCLEAN;
	}
	if (!err) {
		err = shingle_check_members(d, member_why);
		why = member_why;
	}
	if (!err) {
		d->layout.sb_seq = l->sb_seq;
		d->layout.flags = l->flags;
		d->layout.settings = l->settings;
		err = shingle_recover(&r, &d->layout, &to, &rec, &why);
	}
	kvfree(l);
	if (err) {
		DMERR("%s: cannot activate: %s (%d); run 'shingle check'", name, why, err);
		return err;
	}

	shingle_journal_start(d, &rec);
	d->stats.n.load_lost_reads += rec.lost_reads;
	d->log.ckpt_seq = rec.ckpt_seq;
	d->log.ckpt_slot = rec.ckpt_slot;
	d->cleaner.recovering = true;
	if (rec.cut)
		DMINFO("%s: transaction %llu is not whole: a power cut in the middle of its write",
		       name, rec.next_seq);
	if (rec.torn_end)
		DMWARN("%s: transaction %llu, the last one, is damaged and dropped: %s", name,
		       rec.next_seq, shingle_journal_mark(&d->layout) ? "it was never promised" :
		       "a power cut tore it, or what it promised is lost");
	if (rec.transactions)
		DMINFO("%s: replayed %llu transactions with %llu records", name, rec.transactions,
		       rec.records);
	if (d->layout.flags & SHINGLE_SB_NEEDS_CHECK) {
		d->health.needs_check = true;
		DMWARN("%s: read-only: it needs 'shingle check' and 'shingle repair' first", name);
		/* The mode never rises: it may be lower already. */
		spin_lock_irq(&d->map_lock);
		WRITE_ONCE(d->log.dead, true);
		if (d->health.mode < SHINGLE_RO) {
			WRITE_ONCE(d->health.mode, SHINGLE_RO);
			d->health.why = "it was marked needs_check when it was activated";
		}
		spin_unlock_irq(&d->map_lock);
	}
	if (d->health.mode == SHINGLE_RW && rec.unmarked) {
		err = shingle_journal_remark(d, &rec);
		if (err) {
			shingle_set_mode(d, SHINGLE_RO, false, "the journal cannot be written");
			return 0;
		}
	}
	if (d->health.mode != SHINGLE_RW || (!shingle_journal_tight(d) &&
				      !shingle_pages_pressed(d->engine)))
		return 0;
	/* With pages, also because the table may have had room for more of them. */
	err = shingle_checkpoint(d);
	if (!err && d->engine->pages)
		shingle_pages_shrink(d->engine->pages);
	/* After a write error the device is read-only, and its map is complete. */
	return READ_ONCE(d->health.mode) == SHINGLE_RW ? err : 0;
}
