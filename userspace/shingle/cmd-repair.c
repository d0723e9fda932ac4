// SPDX-License-Identifier: GPL-2.0
/*
 * shingle repair.
 *
 * A power cut during a repair does no harm: the state is written into the checkpoint slot
 * that is not valid, its footer last, and only then are the superblocks rewritten.
 */
#include <stdarg.h>

#include "check.h"
#include "pages/pages.h"
#include "image.h"

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

/* Destination of the report: stdout, or with --json a buffer that becomes one string a line. */
static FILE *report;

static void note(const char *fmt, ...) __printf(1, 2);

static void note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(report, fmt, ap);
	va_end(ap);
	fputc('\n', report);
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

static void print_loss(struct image *img)
{
	const struct shingle_recovery *rec = &img->rec;
	struct lost lost = { .img = img };

	ring_walk(img, 0, img->l.journal.blocks, count_lost, &lost);
	note("This will be lost: transactions %llu to %llu.", rec->next_seq, rec->max_seq);
	note("  The content of the damaged one is unknown.  The readable ones contain %llu records;",
	     lost.records);
	note("  %llu of them change the mapping of %llu blocks.",
	    lost.maps, lost.named);
	note("  The device returns to the state after transaction %llu.  Blocks written or cleaned",
	     rec->next_seq - 1);
	note("  since may return older data, or data of other blocks: check its contents, or restore");
	note("  them from a backup.");
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
		note("The newest checkpoint is damaged, and the older one cannot be used: %s.", why);
		return false;
	}
	/*
	 * No transaction has number 0, so 0 means that the start of the needed journal is
	 * unknown.
	 */
	if (!needed || img->rec.next_seq < needed) {
		note("The newest checkpoint is damaged, and the journal no longer reaches from the older one");
		note("to it (it ends at transaction %llu, and %llu is needed): it cannot be repaired.",
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
		note("Neither checkpoint has a sound footer: it cannot be repaired.");
		return false;
	}
	r->from = c->newest;
	if (c->recovered)
		return !c->broken_map;
	if (c->lost_seq)
		return fall_back(img, c, r);
	if (image_recover(img, c->newest, true, true, 0, &why)) {
		note("The state cannot be rebuilt: %s: it cannot be repaired.", why);
		return false;
	}
	if (img->rec.hole && !img->rec.transactions &&
	    (c->slot[0].damaged || c->slot[1].damaged)) {
		note("A newer checkpoint is damaged, and the journal no longer reaches from the older one to");
		note("it: it cannot be repaired.");
		return false;
	}
	r->truncated = img->rec.hole;
	return true;
}

static void print_findings(const struct findings *f)
{
	u32 i;

	if (report == stdout)
		findings_print(f);
	for (i = 0; i < f->nr && report != stdout; i++)
		note("%s", f->f[i].text);
}

static bool make_plan(struct image *img, struct check *c, struct repair *r)
{
	struct findings map = { 0 };
	u32 i;

	if (!find_state(img, c, r))
		return false;
	if (!c->recovered && check_map(img, &map)) {
		print_findings(&map);
		free(map.f);
		note("The rebuilt map is inconsistent: it cannot be repaired.");
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

static void print_lost_pages(struct image *img, const struct repair *r)
{
	const struct shingle_pages *p = img->engine->pages;
	u64 lblk, n, end = 0, from = 0;
	u32 nr;

	note("This will be lost: %u pages of the map, and with them the locations of these blocks:",
	    r->pages_lost);
	for (nr = 0; nr <= p->nr_pages; nr++) {
		if (nr < p->nr_pages && shingle_place_of(p->places.now, nr) != SHINGLE_PAGE_LOST)
			continue;
		if (nr < p->nr_pages)
			img->row->ops->pages.blocks(img->engine, nr, &lblk, &n);
		if (end && (nr == p->nr_pages || lblk > end)) {
			note("  %llu to %llu", from, end - 1);
			end = 0;
		}
		if (nr == p->nr_pages)
			break;
		from = end ? from : lblk;
		end = max(end, lblk + n);
	}
	note("  Reads and writes of them will fail; all other blocks are unchanged.");
}

static void print_plan(struct image *img, const struct check *c, const struct repair *r)
{
	u32 i;

	note("Repair plan:");
	if (r->checkpoint)
		note("- write the state after transaction %llu into checkpoint slot %u%s",
		    img->rec.next_seq - 1, !r->from,
		    cut_short(&img->rec) ? ", and start an empty journal" : "");
	for (i = 0; i < 2; i++) {
		if (c->copy[i] != COPY_SOUND)
			note("- rewrite the superblock in block %llu from the other",
			    i ? image_last_block(img) : 0ULL);
	}
	for (i = 0; i < 2 * SHINGLE_NR_DEVS; i++) {
		if (img->member[i / 2][i % 2] != SHINGLE_MEMBER_OK)
			note("- rewrite the header of %s in its block %llu",
			    img->ds.dev[i / 2].arg, image_member_block(img, i / 2, i % 2));
	}
	if (img->l.flags & SHINGLE_SB_NEEDS_CHECK)
		note("- clear the mark needs_check");
	if (c->bad_settings)
		note("- delete the settings, which are invalid; 'shingle set' stores others");
	if (r->pages_idle)
		note("- clear %u damaged pages of the map, which locate no block",
		    r->pages_idle);
	if (r->truncated)
		print_loss(img);
	else if (img->rec.torn_end)
		note("This will be lost: transaction %llu, if it was complete; nothing if a power cut interrupted it.",
		    img->rec.next_seq);
	else if (!r->pages_lost)
		note("Nothing will be lost.");
	if (r->pages_lost)
		print_lost_pages(img, r);
	if (img->rec.unread_blocks)
		note("%llu blocks of the journal cannot be read.", img->rec.unread_blocks);
}

/*
 * Report each device that fails to read without reporting a medium error; such a failure may
 * be temporary.  Returns true if there is one.
 */
static bool print_unread(const struct image *img)
{
	bool any = false;
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		const struct device *d = &img->ds.dev[i];

		if (!d->path || !d->unread)
			continue;
		note("%s %s: reading failed (%s) with an error that is no medium error.",
		    d->arg, d->path, strerror(d->unread));
		any = true;
	}
	if (any)
		note("The cause may be temporary, such as a cable or a link: fix it and check again.  The blocks\nthat cannot be read may contain more than this report assumes.");
	return any;
}

/*
 * Choose @journal so that a damaged block at its new first position cannot pass for a damaged
 * first transaction: neither its number nor its checksum chain matches.
 */
static void print_apart(struct image *img, struct journal_start *journal)
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
		print_apart(img, &journal);
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
		print_findings(&again.found);
		check_free(&again);
		note("%s: repaired, but still not clean", path);
		return EXIT_UNCORRECTED;
	}
	check_free(&again);
	note("%s: repaired and clean", path);
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
		note("%s: clean, nothing to repair", path);
		return EXIT_CLEAN;
	}
	*result = "cannot be repaired";
	if (!make_plan(img, c, &r)) {
		print_unread(img);
		note("%s: unchanged; copy what can be read before you format it again", path);
		return EXIT_UNCORRECTED;
	}
	print_plan(img, c, &r);
	unread = print_unread(img);
	*result = "can be repaired";
	if (a->dry_run) {
		note("%s: unchanged, because of --dry-run", path);
		return EXIT_UNCORRECTED;
	}
	*result = "unchanged";
	if (unread && a->yes) {
		note("%s: unchanged; without --yes, repair asks whether to continue without these blocks", path);
		return EXIT_UNCORRECTED;
	}
	if (!a->yes && !confirm(unread ? "Continue without the blocks that cannot be read?" : "Continue?")) {
		note("%s: unchanged", path);
		return EXIT_UNCORRECTED;
	}
	ret = carry_out(img, c, &r, path);
	*result = ret == EXIT_CORRECTED ? "repaired" :
		  ret == EXIT_UNCORRECTED ? "repaired, but still not clean" : "failed";
	return ret;
}

static int repair(struct image *img, struct check *c, const struct offline_args *a,
		  const char **result)
{
	bool checked = check_run(img, c);

	*result = "cannot be repaired";
	if (report == stdout)
		findings_print(&c->found);
	if (checked)
		return plan_and_do(img, c, a, result);
	print_unread(img);
	if (!c->found.nr_errors)
		return EXIT_OPERATION;
	note("%s: it cannot be repaired", a->path[SHINGLE_DEV_DATA]);
	return EXIT_UNCORRECTED;
}

static void print_json(const struct offline_args *a, const struct check *c, const char *result,
		       char *text)
{
	struct json_object *j = json_dict(NULL, NULL), *lines;
	char *line, *rest = text;

	json_str(j, "device", a->path[SHINGLE_DEV_DATA]);
	json_str(j, "result", result);
	json_u64(j, "errors", c->found.nr_errors);
	findings_json(&c->found, j);
	lines = json_list(j, "report");
	while ((line = strsep(&rest, "\n"))) {
		if (*line)
			json_str(lines, NULL, line);
	}
	json_print(j, stdout);
}

static int do_repair(struct image *img, struct check *c, const struct offline_args *a)
{
	const char *result = "";
	char *text = NULL;
	size_t size;
	int ret;

	report = a->json ? open_memstream(&text, &size) : stdout;
	if (!report)
		return fail("out of memory");
	ret = repair(img, c, a, &result);
	if (!a->json)
		return ret;
	if (fclose(report))
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
	.summary = "restore the last consistent state of a closed device",
	.help = "Usage: shingle repair DATA [options]\n\n"
		"Checks the device as 'shingle check' does.  If there are errors, prints the repair\n"
		"plan and the data that will be lost, and asks for confirmation before it writes.\n"
		"If reads fail for a cause that may be temporary, --yes does not confirm.\n\n"
		OFFLINE_HELP
		"  --yes             do not ask for confirmation\n"
		"  --dry-run         print the plan; change nothing\n"
		"  --json            print JSON; requires --yes or --dry-run\n\n"
		"Exit codes: 0 nothing to repair, 1 repaired, 4 errors remain, 8 devices prevented\n"
		"the repair, 16 wrong usage.\n",
	.run = run,
};
