// SPDX-License-Identifier: GPL-2.0
/* Reads pages of a map for an engine that lacks them, and finds their newest places. */
#include "format/codec.h"
#include "format/scan.h"

static int fetch(const struct shingle_reader *r, const struct shingle_layout *l,
		 struct shingle_engine *e, u32 i)
{
	struct shingle_frame *f = &e->pages->frames.frame[i];
	enum shingle_page_place place = shingle_place_of(e->pages->places.now, f->nr);
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
		shingle_pages_begin(e, SHINGLE_CLIENT_IO);
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
		shingle_pages_begin(e, SHINGLE_CLIENT_VERIFY);
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

/**
 * shingle_find_pages() - find the pages that checkpoints behind the loaded one have written
 * @r: reader
 * @l: layout
 * @to: the loaded state
 * @rec: @ckpt_seq is the loaded checkpoint; @pages_lost counts pages that are given up
 *
 * The places that an older checkpoint records may have been overwritten since.  Content of the
 * newest complete checkpoint, or of an earlier one, is good: records are replayed onto it.  Content
 * of a checkpoint that was never complete may contain changes that no journal has; then the other
 * place is the one that the newest complete checkpoint recorded.
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_find_pages(const struct shingle_reader *r, const struct shingle_layout *l,
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
		enum shingle_page_place place = shingle_place_of(p->places.now, nr), other;
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
