// SPDX-License-Identifier: GPL-2.0
/* Loads the state of a device: its newest checkpoint, then the journal. */
#include "format/scan.h"

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
	struct shingle_slot_scan *s;
	int err = -ENOMEM;
	u8 *buf;

	memset(rec, 0, sizeof(*rec));
	rec->bad_page = SHINGLE_NO_PAGE;
	*why = "out of memory";
	buf = shingle_zalloc_array(SHINGLE_READ_BATCH, SHINGLE_BLOCK_SIZE);
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!buf || !s)
		goto out;

	if (slot == SHINGLE_SLOT_NEWEST) {
		err = shingle_find_checkpoint(r, l, buf, &slot, s, why);
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

	err = shingle_load_checkpoint(r, l, slot, s, to, buf, &rec->ckpt_chunks);
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
	err = shingle_find_pages(r, l, to, rec);
	if (err)
		goto out;
	rec->lost_reads = s->lost_reads;
	err = shingle_scan_journal(r, l, to, buf, stop_at_hole, rec, why);
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
