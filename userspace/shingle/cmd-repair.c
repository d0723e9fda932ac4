// SPDX-License-Identifier: GPL-2.0
/*
 * shingle repair.
 *
 * A power cut during a repair does no harm: the state is written into the checkpoint slot
 * that is not valid, its footer last, and only then are the superblocks rewritten.
 */
#include <stdarg.h>

#include "offline.h"
#include "pages/pages.h"
#include "ring.h"

/**
 * struct repair - the plan of a repair
 * @checkpoint: write the recovered state into a new checkpoint
 * @from: slot that the state was recovered from
 * @superblock: rewrite the superblocks
 * @truncated: the journal ends at a hole, so transactions are lost
 * @pages_lost: number of damaged pages of the map; the locations in them are lost
 * @pages_idle: number of damaged pages of the map that locate no block
 */
struct repair {
	bool checkpoint;
	u32 from;
	bool superblock;
	bool truncated;
	u32 pages_lost;
	u32 pages_idle;
};

/* Destination of the messages: stdout, or with --json a buffer that becomes one string a line. */
static FILE *told;

static void tell(const char *fmt, ...) __printf(1, 2);

static void tell(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(told, fmt, ap);
	va_end(ap);
	fputc('\n', told);
}

/* Contents of the journal behind a hole: blocks, records, records that change the map. */
struct lost {
	const struct image *img;
	u64 blocks;
	u64 records;
	u64 named;
	u64 maps;
};

static int count_lost(void *ctx, u64 pos, const struct shingle_journal_block *b)
{
	struct lost *lost = ctx;
	const struct shingle_record_kind *k;
	u32 i;

	if (le64_to_cpu(b->h.seq) < lost->img->rec.next_seq)
		return 0;
	lost->blocks++;
	for (i = 0; i < le32_to_cpu(b->nr_records); i++) {
		const struct shingle_record *r = &b->records[i];

		lost->records++;
		k = shingle_record_find(lost->img->row->ops->records, le16_to_cpu(r->type));
		if (k && k->n) {
			lost->maps++;
			lost->named += le16_to_cpu(r->n);
		}
	}
	return 0;
}

static void tell_loss(struct image *img)
{
	const struct shingle_recovery *rec = &img->rec;
	struct lost lost = { .img = img };

	ring_walk(img, 0, img->l.journal.blocks, count_lost, &lost);
	tell("What will be lost: transactions %llu to %llu.", rec->next_seq, rec->max_seq);
	tell("  What the damaged one held is not known.  The others that can still be read hold");
	tell("  %llu records; %llu of them change the mapping of %llu blocks.", lost.records,
	    lost.maps, lost.named);
	tell("  The device goes back to transaction %llu.  Blocks written or cleaned since may read",
	    rec->next_seq - 1);
	tell("  as older data, or as data of other blocks: check what is on it, or restore it.");
}

/*
 * Use the older checkpoint in place of the unreadable newest one.  It leads to the same state
 * if the journal still holds every transaction since.
 */
static bool fall_back(struct image *img, struct check *c, struct repair *r)
{
	u64 needed = c->lost_journal_seq;
	const char *why = "";

	if (image_recover(img, c->newest, true, true, c->lost_seq, &why)) {
		tell("The newest checkpoint is damaged, and the older one is of no use either: %s.", why);
		return false;
	}
	/*
	 * No transaction has number 0, so 0 means that the start of the needed journal is
	 * unknown.
	 */
	if (!needed || img->rec.next_seq < needed) {
		tell("The newest checkpoint is damaged, and the journal no longer reaches from the older one");
		tell("to it (it has transactions up to %llu, and %llu are needed): this cannot be repaired.",
		    img->rec.next_seq - 1, needed - 1);
		return false;
	}
	r->truncated = img->rec.hole;
	return true;
}

/* Load the best state available.  Prints the reason and returns false if there is none. */
static bool find_state(struct image *img, struct check *c, struct repair *r)
{
	const char *why = "";

	if (c->newest == SHINGLE_SLOT_NEWEST) {
		tell("Neither checkpoint has a sound footer: this cannot be repaired.");
		return false;
	}
	r->from = c->newest;
	if (c->recovered)
		return !c->broken_map;
	if (c->lost_seq)
		return fall_back(img, c, r);
	if (image_recover(img, c->newest, true, true, 0, &why)) {
		tell("The state cannot be rebuilt: %s: this cannot be repaired.", why);
		return false;
	}
	if (img->rec.hole && !img->rec.transactions &&
	    (c->slot[0].damaged || c->slot[1].damaged)) {
		tell("A newer checkpoint is damaged, and the journal no longer reaches from the older one to");
		tell("it: this cannot be repaired.");
		return false;
	}
	r->truncated = img->rec.hole;
	return true;
}

static void tell_findings(const struct findings *f)
{
	u32 i;

	if (told == stdout)
		findings_print(f);
	for (i = 0; i < f->nr && told != stdout; i++)
		tell("%s", f->f[i].text);
}

static bool make_plan(struct image *img, struct check *c, struct repair *r)
{
	struct findings map = { 0 };
	u32 i;

	if (!find_state(img, c, r))
		return false;
	if (!c->recovered && check_map(img, &map)) {
		tell_findings(&map);
		free(map.f);
		tell("The map that can be rebuilt contradicts itself: this cannot be repaired.");
		return false;
	}
	free(map.f);
	/* Recovery has already given up the pages that journal records refer to. */
	if (img->engine->pages) {
		check_pages(img, c, true);
		r->pages_lost = c->bad_pages + c->unread_pages + (u32)img->rec.pages_lost;
		r->pages_idle = c->idle_pages;
	}
	r->checkpoint = !c->recovered || img->rec.torn_end || r->pages_lost || r->pages_idle;
	for (i = 0; i < 2; i++) {
		r->checkpoint |= c->slot[i].damaged;
		r->superblock |= c->copy[i] != COPY_SOUND;
	}
	r->superblock |= c->bad_settings || img->l.flags & SHINGLE_SB_NEEDS_CHECK;
	return true;
}

/* True if the last part of the journal cannot be replayed. */
static bool cut_short(const struct shingle_recovery *rec)
{
	return rec->hole || rec->torn_end;
}

static void tell_lost_pages(struct image *img, const struct repair *r)
{
	const struct shingle_pages *p = img->engine->pages;
	u64 lblk, n, end = 0, from = 0;
	u32 nr;

	tell("What will be lost: %u pages of the map, and with them where these blocks are:",
	    r->pages_lost);
	for (nr = 0; nr <= p->nr_pages; nr++) {
		if (nr < p->nr_pages && shingle_place_of(p->places.now, nr) != SHINGLE_PAGE_LOST)
			continue;
		if (nr < p->nr_pages)
			img->row->ops->pages.blocks(img->engine, nr, &lblk, &n);
		if (end && (nr == p->nr_pages || lblk > end)) {
			tell("  %llu to %llu", from, end - 1);
			end = 0;
		}
		if (nr == p->nr_pages)
			break;
		from = end ? from : lblk;
		end = max(end, lblk + n);
	}
	tell("  They cannot be read or written any more, and say so; all others are as they were.");
}

static void tell_plan(struct image *img, const struct check *c, const struct repair *r)
{
	u32 i;

	tell("To be done:");
	if (r->checkpoint)
		tell("- write the state after transaction %llu into checkpoint slot %u%s",
		    img->rec.next_seq - 1, !r->from,
		    cut_short(&img->rec) ? ", and begin the journal anew" : "");
	for (i = 0; i < 2; i++) {
		if (c->copy[i] != COPY_SOUND)
			tell("- rewrite the superblock in block %llu from the other",
			    i ? image_last_block(img) : 0ULL);
	}
	for (i = 0; i < 2 * SHINGLE_NR_DEVS; i++) {
		if (img->member[i / 2][i % 2] != SHINGLE_MEMBER_OK)
			tell("- write the header of %s in its block %llu anew",
			    img->ds.dev[i / 2].arg, image_member_block(img, i / 2, i % 2));
	}
	if (img->l.flags & SHINGLE_SB_NEEDS_CHECK)
		tell("- clear the mark needs_check");
	if (c->bad_settings)
		tell("- forget the settings, which make no sense: 'shingle set' gives it others");
	if (r->pages_idle)
		tell("- let %u pages of the map, which say of no block where it is, hold nothing",
		    r->pages_idle);
	if (r->truncated)
		tell_loss(img);
	else if (img->rec.torn_end)
		tell("What will be lost: transaction %llu, if it was complete; nothing if a power cut tore it.",
		    img->rec.next_seq);
	else if (!r->pages_lost)
		tell("Nothing will be lost.");
	if (r->pages_lost)
		tell_lost_pages(img, r);
	if (img->rec.unread_blocks)
		tell("%llu blocks of the journal cannot be read.", img->rec.unread_blocks);
}

/*
 * Report each device that fails to read without reporting a medium error; such a failure may
 * be temporary.  Returns true if there is one.
 */
static bool tell_unread(const struct image *img)
{
	bool any = false;
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		const struct device *d = &img->ds.dev[i];

		if (!d->path || !d->unread)
			continue;
		tell("%s %s: reading failed (%s), and it does not say that its medium has lost what is there.",
		    d->arg, d->path, strerror(d->unread));
		any = true;
	}
	if (any)
		tell("That may pass, as with a cable or a link: see to it, and check again.  What cannot be read\nmay hold more than is said here.");
	return any;
}

/*
 * Choose @journal so that a damaged block at its new first position cannot pass for a damaged
 * first transaction: neither its number nor its checksum chain matches.
 */
static void tell_apart(struct image *img, struct journal_start *journal)
{
	struct shingle_journal_block *b = shingle_zalloc_array(1, sizeof(*b));

	if (b && !device_read(image_meta(img), img->l.journal.start + journal->pos, 1, b)) {
		journal->seq += le64_to_cpu(b->h.seq) == journal->seq;
		journal->prev_crc = ~le32_to_cpu(b->prev_crc);
	}
	kvfree(b);
}

/*
 * Write the recovered state.  The new checkpoint has a higher number than every existing one,
 * and its first transaction a higher number than any in the ring, so no old block can be
 * taken for a new one.
 */
static int write_checkpoint(struct image *img, const struct check *c, const struct repair *r,
			    const char **why)
{
	const struct shingle_recovery *rec = &img->rec;
	struct journal_start journal = {
		.seq = rec->next_seq, .pos = rec->next_pos, .prev_crc = rec->prev_crc,
	};
	u64 seq = rec->ckpt_seq;
	u32 i;

	if (cut_short(rec)) {
		journal.seq = max(rec->max_seq, rec->next_seq) + 1;
		/*
		 * A block that is unreadable now may come back; each holds at most one
		 * transaction.
		 */
		if (rec->unread_blocks)
			journal.seq += img->l.journal.blocks;
		journal.pos = 0;
		journal.prev_crc = 0;
		tell_apart(img, &journal);
	}
	for (i = 0; i < 2; i++) {
		seq = max3(seq, slot_seq(&c->slot[i]), c->slot[i].scan.beyond_seq);
	}
	return image_write_checkpoint(img, !r->from, seq + 1, &journal, why);
}

static int write_superblocks(struct image *img, const struct check *c)
{
	img->l.flags &= ~SHINGLE_SB_NEEDS_CHECK;
	if (c->bad_settings)
		memset(&img->l.settings, 0, sizeof(img->l.settings));
	return image_write_superblocks(img, c->copy[0] == COPY_SOUND);
}

static int write_members(struct image *img)
{
	int err = 0;
	u32 i;

	for (i = 0; i < 2 * SHINGLE_NR_DEVS && !err; i++) {
		if (img->member[i / 2][i % 2] != SHINGLE_MEMBER_OK)
			err = image_write_member(img, i / 2, image_member_block(img, i / 2, i % 2));
	}
	return err;
}

static int carry_out(struct image *img, struct check *c, const struct repair *r, const char *path)
{
	const char *why = "superblock cannot be written";
	struct check again;
	int err = 0;

	if (c->bad_members) {
		why = "header cannot be written";
		err = write_members(img);
	}
	if (!err && r->checkpoint)
		err = write_checkpoint(img, c, r, &why) ?: ring_make_readable(img, &why);
	if (!err && r->superblock) {
		why = "superblock cannot be written";
		err = write_superblocks(img, c);
	}
	if (err)
		return fail("%s: %s: %s", path, why, strerror(-err));

	if (!check_run(img, &again) || again.found.nr_errors) {
		tell_findings(&again.found);
		check_free(&again);
		tell("%s: repaired, and still not clean", path);
		return EXIT_UNCORRECTED;
	}
	check_free(&again);
	tell("%s: repaired and clean", path);
	return EXIT_CORRECTED;
}

/* Plan the repair of the errors in @c, confirm it and carry it out.  Return: an exit code. */
static int plan_and_do(struct image *img, struct check *c, const struct offline_args *a,
		       const char **result)
{
	const char *path = a->path[SHINGLE_DEV_DATA];
	struct repair r = { 0 };
	bool unread;
	int ret;

	*result = "clean";
	if (!c->found.nr_errors) {
		tell("%s: clean, nothing to repair", path);
		return EXIT_CLEAN;
	}
	*result = "cannot be repaired";
	if (!make_plan(img, c, &r)) {
		tell_unread(img);
		tell("%s: left as it is; what can be read, read before formatting it anew", path);
		return EXIT_UNCORRECTED;
	}
	tell_plan(img, c, &r);
	unread = tell_unread(img);
	*result = "can be repaired";
	if (a->dry_run) {
		tell("%s: left as it is, as --dry-run says", path);
		return EXIT_UNCORRECTED;
	}
	*result = "left as it is";
	if (unread && a->yes) {
		tell("%s: left as it is; without --yes you are asked whether to go on without that", path);
		return EXIT_UNCORRECTED;
	}
	if (!a->yes && !confirm(unread ? "Go on without what cannot be read?" : "Go on?")) {
		tell("%s: left as it is", path);
		return EXIT_UNCORRECTED;
	}
	ret = carry_out(img, c, &r, path);
	*result = ret == EXIT_CORRECTED ? "repaired" :
		  ret == EXIT_UNCORRECTED ? "repaired, and still not clean" : "failed";
	return ret;
}

static int repair(struct image *img, struct check *c, const struct offline_args *a,
		  const char **result)
{
	bool checked = check_run(img, c);

	*result = "cannot be repaired";
	if (told == stdout)
		findings_print(&c->found);
	if (checked)
		return plan_and_do(img, c, a, result);
	tell_unread(img);
	if (!c->found.nr_errors)
		return EXIT_OPERATION;
	tell("%s: this cannot be repaired", a->path[SHINGLE_DEV_DATA]);
	return EXIT_UNCORRECTED;
}

static void print_json(const struct offline_args *a, const struct check *c, const char *result,
		       char *text)
{
	struct json_object *j = json_dict(NULL, NULL), *told;
	char *line, *rest = text;

	json_str(j, "device", a->path[SHINGLE_DEV_DATA]);
	json_str(j, "result", result);
	json_u64(j, "errors", c->found.nr_errors);
	findings_json(&c->found, j);
	told = json_list(j, "told");
	while ((line = strsep(&rest, "\n"))) {
		if (*line)
			json_str(told, NULL, line);
	}
	json_print(j, stdout);
}

static int do_repair(struct image *img, struct check *c, const struct offline_args *a)
{
	const char *result = "";
	char *text = NULL;
	size_t size;
	int ret;

	told = a->json ? open_memstream(&text, &size) : stdout;
	if (!told)
		return fail("out of memory");
	ret = repair(img, c, a, &result);
	if (!a->json)
		return ret;
	if (fclose(told))
		ret = fail("out of memory");
	else if (ret != EXIT_OPERATION || c->found.nr_errors)
		print_json(a, c, result, text);
	free(text);
	return ret;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		OFFLINE_OPTIONS,
		{ "yes", no_argument, NULL, 'y' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};

	return offline_run(cmd, argc, argv, options, DEVICE_WRITE, do_repair);
}

const struct command cmd_repair = {
	.name = "repair",
	.summary = "bring a closed device back to its last consistent state",
	.help = "Usage: shingle repair DATA [options]\n\n"
		"Checks the device as 'shingle check' does.  If there are errors, says what can\n"
		"be done and what will be lost, and asks before it writes anything.  Where reading\n"
		"fails for a reason that may pass, --yes is no answer.\n\n"
		OFFLINE_HELP
		"  --yes             do not ask\n"
		"  --dry-run         say what would be done, change nothing\n"
		"  --json            in JSON; with --yes or --dry-run, since nobody is asked\n\n"
		"Exit codes: 0 nothing to repair, 1 repaired, 4 errors remain, 8 could not be\n"
		"done, 16 wrong usage.\n",
	.run = run,
};
