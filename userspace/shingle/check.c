// SPDX-License-Identifier: GPL-2.0
/*
 * Offline check of a device's metadata.
 *
 * The check must distinguish damage from the legal traces of a power cut: a block has its old
 * or its new content, and on a shingled medium the blocks just ahead of the last write may
 * hold anything.  An unsound block therefore counts as damaged only if its header shows that
 * it was meant for its place.
 */
#include <stdarg.h>

#include "check.h"
#include "format/codec.h"
#include "pages/pages.h"
#include "engine/settings.h"

/* The metadata may lie on a shingled medium.  With interlaced data this may be META. */
static bool shingled(const struct image *img)
{
	return img->l.head_tracks > 1 || img->l.journal_gap_blocks;
}

/* ------------------------------------------------------------------------
 * Superblocks
 */

struct sb_copy {
	u64 block;
	int err;
	const char *why;
	struct shingle_layout l;
};

static void read_copy(struct image *img, struct sb_copy *copy, u64 block)
{
	struct shingle_sb *sb = shingle_zalloc_array(1, sizeof(*sb));

	copy->block = block;
	copy->why = "out of memory";
	copy->err = -ENOMEM;
	if (!sb)
		return;
	copy->why = "cannot be read";
	copy->err = device_read(image_meta(img), block, 1, sb);
	if (!copy->err)
		copy->err = shingle_layout_decode(sb, block, &copy->l, &copy->why);
	kvfree(sb);
}

/* True if two layouts are equal apart from the generation. */
static bool same_layout(const struct shingle_layout *a, const struct shingle_layout *b)
{
	struct shingle_sb *sa = shingle_zalloc_array(1, sizeof(*sa));
	struct shingle_sb *sb = shingle_zalloc_array(1, sizeof(*sb));
	bool same = false;

	if (sa && sb) {
		shingle_layout_encode(a, 0, sa);
		shingle_layout_encode(b, 0, sb);
		sb->h.seq = sa->h.seq;
		sb->h.crc = sa->h.crc;
		same = !memcmp(sa, sb, sizeof(*sa));
	}
	kvfree(sa);
	kvfree(sb);
	return same;
}

static void compare_copies(struct check *c, const struct sb_copy *one, const struct sb_copy *two)
{
	struct findings *f = &c->found;
	u32 older = one->l.sb_seq < two->l.sb_seq ? 0 : 1;
	const struct sb_copy *old = older ? two : one, *new = older ? one : two;

	if (memcmp(one->l.uuid, two->l.uuid, SHINGLE_UUID_SIZE)) {
		finding_add(f, FINDING_ERROR, old->block,
			    "superblock belongs to another dm-shingle device than the one in block %llu",
			    new->block);
		c->copy[older] = COPY_BAD;
	} else if (one->l.sb_seq != two->l.sb_seq) {
		finding_add(f, FINDING_NOTE, old->block,
			    "superblock is older than the other (generation %llu, %llu): a power cut came between their writes",
			    old->l.sb_seq, new->l.sb_seq);
		c->copy[older] = COPY_OLDER;
	} else if (!same_layout(&one->l, &two->l)) {
		finding_add(f, FINDING_ERROR, two->block,
			    "superblock differs from the one in block %llu, though both are of generation %llu",
			    one->block, one->l.sb_seq);
		c->copy[1] = COPY_BAD;
	}
}

/*
 * Check both superblocks and fill @img->l.  Returns false if neither can be used; a message
 * or findings then give the reason.
 */
static bool check_superblocks(struct image *img, struct check *c)
{
	struct device *meta = image_meta(img);
	enum shingle_dev dev = devices_meta(&img->ds);
	struct sb_copy *copy = shingle_zalloc_array(2, sizeof(*copy));
	u64 last = meta->blocks - 1;
	bool ok = false;
	u32 i;

	if (!copy || meta->blocks < 2) {
		fail("%s %s is too small to be a dm-shingle device", meta->arg, meta->path);
		goto out;
	}
	read_copy(img, &copy[0], 0);
	/* The device has shrunk, so the other copy is gone; image_accept() reports the size. */
	if (!copy[0].err && copy[0].l.dev_blocks[dev] > meta->blocks) {
		img->l = copy[0].l;
		ok = true;
		goto out;
	}
	/* If the device has grown, the other copy is at its former end. */
	if (!copy[0].err && copy[0].l.dev_blocks[dev] > 1 &&
	    copy[0].l.dev_blocks[dev] <= meta->blocks)
		last = copy[0].l.dev_blocks[dev] - 1;
	read_copy(img, &copy[1], last);

	if (copy[0].err == -ENODATA && copy[1].err == -ENODATA) {
		image_no_superblock(img, copy[0].why);
		goto out;
	}
	for (i = 0; i < 2; i++) {
		c->copy[i] = copy[i].err ? COPY_BAD : COPY_SOUND;
		if (copy[i].err)
			finding_add(&c->found, FINDING_ERROR, copy[i].block, "superblock: %s",
				    copy[i].why);
	}
	if (copy[0].err && copy[1].err) {
		finding_add(&c->found, FINDING_ERROR, U64_MAX,
			    "neither superblock is sound: nothing else can be checked");
		goto out;
	}
	if (!copy[0].err && !copy[1].err)
		compare_copies(c, &copy[0], &copy[1]);
	i = copy[0].err || (!copy[1].err && copy[1].l.sb_seq > copy[0].l.sb_seq);
	img->l = copy[i].l;
	ok = true;
out:
	kvfree(copy);
	return ok;
}

static void check_sizes(struct image *img, struct check *c)
{
	char text[SIZE_SENTENCE];
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (image_larger(img, i, text))
			finding_add(&c->found, FINDING_NOTE, U64_MAX, "%s", text);
	}
}

static void check_settings(struct image *img, struct check *c)
{
	char words[SHINGLE_SETTINGS_BYTES + 1];
	const char *why = "";
	int err = shingle_settings_decode(&img->l.settings, words, &why);

	c->bad_settings = err == -EUCLEAN;
	if (err)
		finding_add(&c->found, c->bad_settings ? FINDING_ERROR : FINDING_NOTE, U64_MAX,
			    "settings: %s", why);
}

static void check_members(struct image *img, struct check *c)
{
	u32 i, k;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		for (k = 0; k < 2; k++) {
			if (img->member[i][k] == SHINGLE_MEMBER_OK)
				continue;
			c->bad_members++;
			finding_add(&c->found, FINDING_ERROR, U64_MAX,
				    "header of %s, in its block %llu: %s", img->ds.dev[i].arg,
				    image_member_block(img, i, k),
				    img->member[i][k] == SHINGLE_MEMBER_DAMAGED ?
				    "damaged, or cannot be read" : "missing");
		}
	}
}

/* ------------------------------------------------------------------------
 * Checkpoints
 */

static void scan_slot(struct image *img, struct check *c, u32 slot)
{
	struct shingle_reader r = devices_reader(&img->ds);
	struct slot_state *s = &c->slot[slot];

	if (!shingle_scan_slot(&r, &img->l, slot, &s->scan))
		return;
	s->damaged = true;
	finding_add(&c->found, FINDING_ERROR, img->l.ckpt[slot].start,
		    "checkpoint slot %u cannot be read", slot);
}

/* True if blocks behind the slot's last complete checkpoint may be newer than the newest one. */
static bool may_be_newest(const struct check *c, u32 slot)
{
	const struct shingle_slot_scan *s = &c->slot[slot].scan;

	return c->newest == SHINGLE_SLOT_NEWEST || slot == c->newest || !s->first_seq ||
	       s->first_seq > slot_seq(&c->slot[c->newest]);
}

static void check_slot(struct image *img, struct check *c, u32 slot)
{
	struct slot_state *s = &c->slot[slot];
	u64 newest = c->newest == SHINGLE_SLOT_NEWEST ? 0 : slot_seq(&c->slot[c->newest]);
	u64 room = shingle_ckpt_room(&img->l, slot);
	u64 block = shingle_ckpt_block(&img->l, slot, min(s->scan.end, room - 1));

	if (s->scan.beyond_seq > newest) {
		s->damaged = true;
		if (s->scan.beyond_seq > c->lost_seq) {
			c->lost_seq = s->scan.beyond_seq;
			c->lost_journal_seq = s->scan.beyond_journal_seq;
		}
		finding_add(&c->found, FINDING_ERROR, block,
			    "newest checkpoint, slot %u: a block from here on is damaged; checkpoint %llu was complete",
			    slot, s->scan.beyond_seq);
	} else if (!may_be_newest(c, slot)) {
		return;
	} else if (s->scan.torn || (s->scan.unread && !shingled(img))) {
		s->damaged = true;
		finding_add(&c->found, FINDING_ERROR, block,
			    "checkpoint slot %u: a block from here on %s", slot,
			    s->scan.torn ? "is damaged" : "cannot be read");
	} else if (s->scan.unread) {
		finding_add(&c->found, FINDING_NOTE, block,
			    "checkpoint slot %u: the head destroyed the blocks ahead of the last write", slot);
	} else if (s->scan.more) {
		finding_add(&c->found, FINDING_NOTE, block,
			    "checkpoint slot %u: a power cut interrupted the writing of a checkpoint",
			    slot);
	}
}

static void check_checkpoints(struct image *img, struct check *c, struct progress *p)
{
	u64 total = img->l.journal.blocks;
	u32 i;

	c->newest = SHINGLE_SLOT_NEWEST;
	for (i = 0; i < 2; i++) {
		scan_slot(img, c, i);
		if (c->slot[i].scan.nr &&
		    (c->newest == SHINGLE_SLOT_NEWEST ||
		     slot_seq(&c->slot[i]) > slot_seq(&c->slot[c->newest])))
			c->newest = i;
	}
	/* Recovery reads the newest checkpoint three times. */
	if (c->newest != SHINGLE_SLOT_NEWEST)
		total += 3 * c->slot[c->newest].scan.end;
	progress_begin(p, "Checking", total);
	img->ds.progress = p;
	for (i = 0; i < 2; i++)
		check_slot(img, c, i);
}

/* ------------------------------------------------------------------------
 * Journal and map
 */

static void map_report(void *ctx, const char *fmt, ...) __printf(2, 3);

static void map_report(void *ctx, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	finding_add(ctx, FINDING_ERROR, U64_MAX, "map: %s", text);
}

/**
 * check_map() - check that the recovered map is consistent
 * @img: recovered image
 * @f: receives one finding for each inconsistency
 *
 * Return: the number of inconsistencies.
 */
u32 check_map(struct image *img, struct findings *f)
{
	const struct shingle_reader r = devices_reader(&img->ds);
	u32 broken = shingle_fetch_verify(&r, &img->l, img->engine, map_report, f);
	struct shingle_run run;
	u64 lblk, n;

	for (lblk = 0; lblk < img->l.logical_blocks; lblk += run.n) {
		enum shingle_role role;
		u64 band, offset;

		n = min_t(u64, img->l.logical_blocks - lblk, S32_MAX);
		shingle_fetch_run(&r, &img->l, img->engine, lblk, (u32)n, &run);
		if (!run.n || run.n > n) {
			map_report(f, "block %llu has no location", lblk);
			return broken + 1;
		}
		if (run.kind == SHINGLE_RUN_ZERO || run.kind == SHINGLE_RUN_ABSENT ||
		    (shingle_band_of(&img->l, run.pblk, &role, &band, &offset) &&
		     run.n <= img->l.band_blocks[role] - offset))
			continue;
		map_report(f, "blocks %llu to %llu lie outside every band, at block %llu", lblk,
			   lblk + run.n - 1, shingle_pblk_block(run.pblk));
		broken++;
	}
	return broken;
}

/**
 * check_pages() - check the pages of the map that the last footer refers to
 * @img: recovered image
 * @c: receives a finding and a count for each unsound page
 * @give_up: give unsound pages up; count them, but add no findings
 */
void check_pages(struct image *img, struct check *c, bool give_up)
{
	struct shingle_pages *p = img->engine->pages;
	enum shingle_page_place place;
	struct shingle_chunk chunk;
	u32 nr, lost = 0, first = 0;
	char text[96];
	u64 block;
	int err;

	c->bad_pages = 0;
	c->unread_pages = 0;
	c->idle_pages = 0;
	for (nr = 0; p && nr < p->nr_pages; nr++) {
		place = shingle_place_of(p->places.now, nr);
		if (place == SHINGLE_PAGE_LOST) {
			if (give_up && shingle_pages_clear_lost(p, nr)) {
				c->idle_pages++;
				/* Recovery counted this page if it gave the page up itself. */
				img->rec.pages_lost -= p->given_up && test_bit(nr, p->given_up);
				continue;
			}
			first = lost++ ? first : nr;
			continue;
		}
		if (place == SHINGLE_PAGE_NONE)
			continue;
		err = image_read_page(img, nr, &chunk);
		if (!err)
			continue;
		if (give_up && !shingle_pages_give_up(p, nr)) {
			if (shingle_pages_clear_lost(p, nr)) {
				c->idle_pages++;
				continue;
			}
		}
		c->bad_pages += err == -EUCLEAN || err == -ENODATA;
		c->unread_pages += err != -EUCLEAN && err != -ENODATA;
		if (give_up)
			continue;
		block = shingle_page_block(&img->l, nr, place);
		finding_add(&c->found, FINDING_ERROR, block, "%s, %s",
			    image_page_text(img, nr, text, sizeof(text)),
			    err == -EUCLEAN ? "is damaged" : "cannot be read");
	}
	if (lost && !give_up)
		finding_add(&c->found, FINDING_NOTE, U64_MAX,
			    "a repair gave up %u pages of the map, the first is %s: their blocks cannot be read or written",
			    lost, image_page_text(img, first, text, sizeof(text)));
}

static void journal_findings(struct image *img, struct check *c, int err, const char *why)
{
	const struct shingle_recovery *rec = &img->rec;
	u64 at = img->l.journal.start + (rec->torn_end ? rec->torn_pos : rec->next_pos);
	char text[96];

	if (rec->hole)
		finding_add(&c->found, FINDING_ERROR, at,
			    "journal: transaction %llu is damaged or missing, but later ones up to %llu exist",
			    rec->next_seq, rec->max_seq);
	else if (err && rec->bad_page != SHINGLE_NO_PAGE)
		finding_add(&c->found, FINDING_ERROR, U64_MAX, "%s: %s", why,
			    image_page_text(img, rec->bad_page, text, sizeof(text)));
	else if (err)
		finding_add(&c->found, FINDING_ERROR, U64_MAX, "%s", why);
	else if (rec->torn_end)
		finding_add(&c->found, FINDING_ERROR, at,
			    "journal: transaction %llu, the last one, is damaged", rec->next_seq);
}

static void check_state(struct image *img, struct check *c)
{
	const char *why = "";
	int err;

	if (c->newest == SHINGLE_SLOT_NEWEST) {
		finding_add(&c->found, FINDING_ERROR, U64_MAX, "neither checkpoint has a sound footer");
		return;
	}
	if (c->lost_seq)
		return;		/* already reported */
	err = image_recover(img, SHINGLE_SLOT_NEWEST, false, false, 0, &why);
	journal_findings(img, c, err, why);
	if (err)
		return;
	c->recovered = true;
	check_pages(img, c, false);
	c->broken_map = check_map(img, &c->found);
	if (img->bad.nr)
		finding_add(&c->found, FINDING_NOTE, U64_MAX,
			    "%u blocks are known to be unreadable, the first is %llu: a write makes them readable",
			    img->bad.nr, img->bad.lblk[0]);
}

/**
 * check_run() - check everything
 * @img: image with open devices
 * @c: result, to be freed even on error
 *
 * Return: false if nothing could be checked; a message or findings then give the reason.
 */
bool check_run(struct image *img, struct check *c)
{
	struct progress progress;

	memset(c, 0, sizeof(*c));
	c->newest = SHINGLE_SLOT_NEWEST;
	if (!check_superblocks(img, c) || !image_accept(img))
		return false;
	check_sizes(img, c);
	check_members(img, c);
	if (img->l.flags & SHINGLE_SB_NEEDS_CHECK)
		finding_add(&c->found, FINDING_ERROR, U64_MAX,
			    "device is marked needs_check: a metadata error occurred while it was open");
	check_settings(img, c);
	check_checkpoints(img, c, &progress);
	check_state(img, c);
	progress_end(&progress);
	img->ds.progress = NULL;
	return true;
}

void check_free(struct check *c)
{
	free(c->found.f);
	memset(&c->found, 0, sizeof(c->found));
}
