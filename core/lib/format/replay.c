// SPDX-License-Identifier: GPL-2.0
/* Applies one record of the journal to a state. */
#include "format/scan.h"

/* Replay a record of the engine; read pages until it lacks none. */
static int replay_engine(const struct shingle_reader *r, const struct shingle_layout *l,
			 const struct shingle_loaded *to, const struct shingle_record *rec,
			 struct shingle_recovery *found)
{
	struct shingle_engine *e = to->engine;
	int err, why = 0;
	u32 nr = SHINGLE_NO_PAGE;

	do {
		shingle_pages_begin(e, SHINGLE_CLIENT_LOAD);
		err = to->ops->state.replay(e, rec);
		if (err == SHINGLE_ABSENT) {
			nr = e->pages->call.missed;
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

/**
 * shingle_replay_record() - apply a record of the journal
 * @r: reader, for pages that the engine lacks
 * @l: layout
 * @to: the state to change
 * @rec: the record
 * @found: @bad_page is the page that could not be used, if there is one; @pages_lost counts pages
 *	that are given up
 *
 * Context: may sleep.
 * Return: 0; -EUCLEAN if the record makes no sense; -ENOMEM; or the error of a page's read.
 */
int shingle_replay_record(const struct shingle_reader *r, const struct shingle_layout *l,
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
