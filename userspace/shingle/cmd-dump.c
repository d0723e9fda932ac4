// SPDX-License-Identifier: GPL-2.0
/* shingle dump. */
#include "offline.h"
#include "ring.h"
#include "show.h"

/**
 * struct dump - what to dump
 * @img: of which device
 * @j: in JSON, or NULL
 * @journal: the ring's transactions too
 * @map: the recovered map too
 */
struct dump {
	struct image *img;
	struct json *j;
	bool journal;
	bool map;
};

static void dump_slot(const struct dump *d, const struct check *c, u32 slot)
{
	const struct slot_state *s = &c->slot[slot];
	const struct shingle_footer *f = &s->scan.last;

	if (!d->j) {
		if (!s->scan.nr)
			say("  slot %u    %s", slot, s->damaged ? "damaged" : "empty");
		else
			say("  slot %u    %llu checkpoints in %llu blocks, up to number %llu, %llu chunks%s; journal from transaction %llu at position %llu, after checksum 0x%08x%s",
			    slot, s->scan.nr, s->scan.end, slot_seq(s),
			    (u64)le64_to_cpu(f->nr_chunks), s->damaged ? " (damage behind it)" : "",
			    (u64)le64_to_cpu(f->journal_seq),
			    (u64)le64_to_cpu(f->journal_pos), le32_to_cpu(f->journal_prev_crc),
			    slot == c->newest ? "; counts" : "");
		return;
	}
	json_open(d->j, NULL, '{');
	json_u64(d->j, "slot", slot);
	json_bool(d->j, "sound", s->scan.nr && s->scan.beyond_seq <= slot_seq(s));
	json_bool(d->j, "damaged", s->damaged);
	json_bool(d->j, "counts", slot == c->newest);
	if (s->scan.nr) {
		json_u64(d->j, "checkpoints", s->scan.nr);
		json_u64(d->j, "blocks", s->scan.end);
		json_u64(d->j, "number", slot_seq(s));
		json_u64(d->j, "chunks", le64_to_cpu(f->nr_chunks));
		json_u64(d->j, "journal_seq", le64_to_cpu(f->journal_seq));
		json_u64(d->j, "journal_pos", le64_to_cpu(f->journal_pos));
		json_u64(d->j, "journal_prev_crc", le32_to_cpu(f->journal_prev_crc));
	}
	json_close(d->j, '}');
}

static void dump_recovery(const struct dump *d)
{
	const struct shingle_recovery *r = &d->img->rec;
	u64 cached = d->img->row->ops->observe.cached_blocks(d->img->engine);

	if (!d->j) {
		say("Recovered: checkpoint %llu, %llu transactions with %llu records in %llu journal blocks",
		    r->ckpt_seq, r->transactions, r->records, r->used_blocks);
		say("  next      transaction %llu at position %llu", r->next_seq, r->next_pos);
		say("  cached    %llu blocks, %s", cached, blocks_text(cached).s);
		say("  bad       %u blocks", d->img->bad.nr);
		return;
	}
	json_open(d->j, "recovery", '{');
	json_u64(d->j, "checkpoint", r->ckpt_seq);
	json_u64(d->j, "transactions", r->transactions);
	json_u64(d->j, "records", r->records);
	json_u64(d->j, "used_blocks", r->used_blocks);
	json_u64(d->j, "tail_seq", r->tail_seq);
	json_u64(d->j, "tail_pos", r->tail_pos);
	json_u64(d->j, "next_seq", r->next_seq);
	json_u64(d->j, "next_pos", r->next_pos);
	json_u64(d->j, "max_seq", r->max_seq);
	json_u64(d->j, "cached_blocks", cached);
	json_close(d->j, '}');
}

static int dump_journal_block(void *ctx, u64 pos, const struct shingle_journal_block *b)
{
	const struct dump *d = ctx;
	u32 nr = le32_to_cpu(b->nr_records), i;

	if (d->j) {
		json_open(d->j, NULL, '{');
		json_u64(d->j, "pos", pos);
		json_u64(d->j, "block", le64_to_cpu(b->h.block));
		json_u64(d->j, "seq", le64_to_cpu(b->h.seq));
		json_u64(d->j, "index", le16_to_cpu(b->index));
		json_u64(d->j, "count", le16_to_cpu(b->count));
		json_u64(d->j, "prev_crc", le32_to_cpu(b->prev_crc));
		json_u64(d->j, "crc", le32_to_cpu(b->h.crc));
		json_open(d->j, "records", '[');
		for (i = 0; i < nr; i++)
			record_json(d->img->row, &b->records[i], d->j);
		json_close(d->j, ']');
		json_close(d->j, '}');
		return 0;
	}
	say("  position %llu (block %llu): transaction %llu, block %u of %u, %u records", pos,
	    (u64)le64_to_cpu(b->h.block), (u64)le64_to_cpu(b->h.seq), le16_to_cpu(b->index) + 1U,
	    le16_to_cpu(b->count), nr);
	for (i = 0; i < nr; i++) {
		fputs("    ", stdout);
		record_print(d->img->row, &b->records[i], stdout);
		putchar('\n');
	}
	return 0;
}

/* From the replayed part on round the ring, so that old rounds come last. */
static void dump_journal(struct dump *d, bool recovered)
{
	u64 from = recovered ? d->img->rec.tail_pos : 0;

	if (d->j)
		json_open(d->j, "journal_blocks", '[');
	else
		say("Journal: the blocks that are sound, older rounds of the ring included");
	ring_walk(d->img, from, d->img->l.journal.blocks, dump_journal_block, d);
	if (d->j)
		json_close(d->j, ']');
}

static const char *kind_name(enum shingle_run_kind kind)
{
	return kind == SHINGLE_RUN_MAPPED ? "mapped" : kind == SHINGLE_RUN_ABSENT ? "lost" :
	       kind == SHINGLE_RUN_UNWRITTEN ? "unwritten" : "zero";
}

static const char *place_name(const struct image *img, const struct shingle_run *run)
{
	enum shingle_role role;
	u64 band, offset;

	if (run->kind == SHINGLE_RUN_ZERO || run->kind == SHINGLE_RUN_ABSENT)
		return "-";
	return shingle_band_of(&img->l, run->pblk, &role, &band, &offset) ? role_name(role) : "?";
}

static void dump_run(const struct dump *d, const struct shingle_run *run, u64 n)
{
	if (!d->j) {
		say("  %12llu %12llu  %-9s %-8s %-6s %12llu", run->lblk, n, kind_name(run->kind),
		    place_name(d->img, run), dev_name(shingle_pblk_dev(run->pblk)),
		    shingle_pblk_block(run->pblk));
		return;
	}
	json_open(d->j, NULL, '{');
	json_u64(d->j, "lblk", run->lblk);
	json_u64(d->j, "blocks", n);
	json_str(d->j, "kind", kind_name(run->kind));
	if (run->kind != SHINGLE_RUN_ZERO && run->kind != SHINGLE_RUN_ABSENT) {
		json_str(d->j, "role", place_name(d->img, run));
		json_str(d->j, "device", dev_name(shingle_pblk_dev(run->pblk)));
		json_u64(d->j, "block", shingle_pblk_block(run->pblk));
	}
	json_close(d->j, '}');
}

/* Neighbouring runs are put together where they go on. */
static void dump_map(struct dump *d)
{
	const struct shingle_reader r = devices_reader(&d->img->ds);
	struct shingle_run first = { 0 }, run;
	u64 lblk = 0, n = 0;

	if (d->j)
		json_open(d->j, "map", '[');
	else
		say("Map (blocks of 4 KiB)\n  %12s %12s  %-9s %-8s %-6s %12s", "logical", "blocks",
		    "kind", "role", "device", "block");
	while (lblk < d->img->l.logical_blocks) {
		u64 left = d->img->l.logical_blocks - lblk;

		shingle_fetch_run(&r, &d->img->l, d->img->engine, lblk,
				  (u32)min_t(u64, left, S32_MAX), &run);
		if (!run.n)
			break;
		/* Nowhere, as those that are zeroes. */
		if (run.kind == SHINGLE_RUN_ABSENT)
			run.pblk = 0;
		if (n && run.kind == first.kind &&
		    (run.kind == SHINGLE_RUN_ZERO || run.kind == SHINGLE_RUN_ABSENT ||
		     run.pblk == first.pblk + n)) {
			n += run.n;
		} else {
			if (n)
				dump_run(d, &first, n);
			first = run;
			n = run.n;
		}
		lblk += run.n;
	}
	if (n)
		dump_run(d, &first, n);
	if (d->j)
		json_close(d->j, ']');
}

static void dump(struct dump *d, const struct check *c)
{
	u32 i;

	if (d->j) {
		json_open(d->j, NULL, '{');
		show_layout_json(&d->img->l, d->img->row, d->j);
		json_open(d->j, "slots", '[');
	} else {
		show_layout(&d->img->l, d->img->row);
		say("Checkpoints");
	}
	for (i = 0; i < 2; i++)
		dump_slot(d, c, i);
	if (d->j) {
		json_close(d->j, ']');
		findings_json(&c->found, d->j);
	}
	if (c->recovered)
		dump_recovery(d);
	if (d->journal)
		dump_journal(d, c->recovered);
	if (d->map && c->recovered)
		dump_map(d);
	if (d->j) {
		json_close(d->j, '}');
		json_end(d->j);
	} else {
		findings_print(&c->found);
		if (d->map && !c->recovered)
			say("The map cannot be rebuilt.");
	}
}

static int do_dump(struct image *img, struct check *c, const struct offline_args *a)
{
	struct dump d = { .img = img, .journal = a->journal, .map = a->map };
	struct json j;

	if (!check_run(img, c)) {
		findings_print(&c->found);
		return EXIT_OPERATION;
	}
	json_begin(&j, stdout);
	d.j = a->json ? &j : NULL;
	dump(&d, c);
	return c->recovered ? EXIT_CLEAN : EXIT_UNCORRECTED;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		OFFLINE_OPTIONS,
		{ "json", no_argument, NULL, 'j' },
		{ "journal", no_argument, NULL, 'J' },
		{ "map", no_argument, NULL, 'P' },
		{ NULL, 0, NULL, 0 },
	};

	return offline_run(cmd, argc, argv, options, DEVICE_LOOK, do_dump);
}

const struct command cmd_dump = {
	.name = "dump",
	.summary = "print a device's metadata",
	.help = "Usage: shingle dump DATA [options]\n\n"
		"Superblock, geometry, checkpoints and what recovery makes of them.  Works on a\n"
		"device that is open, too; what it shows is then already past.\n\n"
		OFFLINE_HELP
		"  --journal         the transactions in the journal, record by record\n"
		"  --map             the recovered map\n"
		"  --json            in JSON\n",
	.run = run,
};
