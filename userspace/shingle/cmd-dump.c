// SPDX-License-Identifier: GPL-2.0
/* shingle dump. */
#include "check.h"
#include "image.h"
#include "show.h"

/**
 * struct dump - a dump in progress
 * @img: the device
 * @j: the JSON document, or NULL for text
 * @to: the streamed array of @j that is being printed
 * @recovered: the map could be rebuilt
 * @journal: dump the transactions of the ring
 * @map: dump the recovered map
 */
struct dump {
	struct image *img;
	struct json_object *j;
	struct json_stream *to;
	bool recovered;
	bool journal;
	bool map;
};

static void dump_slot(const struct check *c, u32 slot, struct json_object *slots)
{
	const struct slot_state *s = &c->slot[slot];
	const struct shingle_footer *f = &s->scan.last;
	struct json_object *j;

	if (!slots) {
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
	j = json_dict(slots, NULL);
	json_u64(j, "slot", slot);
	json_bool(j, "sound", s->scan.nr && s->scan.beyond_seq <= slot_seq(s));
	json_bool(j, "damaged", s->damaged);
	json_bool(j, "counts", slot == c->newest);
	if (s->scan.nr) {
		json_u64(j, "checkpoints", s->scan.nr);
		json_u64(j, "blocks", s->scan.end);
		json_u64(j, "number", slot_seq(s));
		json_u64(j, "chunks", le64_to_cpu(f->nr_chunks));
		json_u64(j, "journal_seq", le64_to_cpu(f->journal_seq));
		json_u64(j, "journal_pos", le64_to_cpu(f->journal_pos));
		json_u64(j, "journal_prev_crc", le32_to_cpu(f->journal_prev_crc));
	}
}

static void dump_recovery(const struct dump *d)
{
	const struct shingle_recovery *r = &d->img->rec;
	u64 cached = d->img->row->ops->observe.cached_blocks(d->img->engine);
	struct json_object *j;

	if (!d->j) {
		say("Recovered: checkpoint %llu, %llu transactions with %llu records in %llu journal blocks",
		    r->ckpt_seq, r->transactions, r->records, r->used_blocks);
		say("  next      transaction %llu at position %llu", r->next_seq, r->next_pos);
		say("  cached    %llu blocks, %s", cached, blocks_text(cached).s);
		say("  bad       %u blocks", d->img->bad.nr);
		return;
	}
	j = json_dict(d->j, "recovery");
	json_u64(j, "checkpoint", r->ckpt_seq);
	json_u64(j, "transactions", r->transactions);
	json_u64(j, "records", r->records);
	json_u64(j, "used_blocks", r->used_blocks);
	json_u64(j, "tail_seq", r->tail_seq);
	json_u64(j, "tail_pos", r->tail_pos);
	json_u64(j, "next_seq", r->next_seq);
	json_u64(j, "next_pos", r->next_pos);
	json_u64(j, "max_seq", r->max_seq);
	json_u64(j, "cached_blocks", cached);
}

static void record_print(const struct engine_row *row, const struct shingle_record *r)
{
	u16 type = le16_to_cpu(r->type);
	const struct shingle_record_kind *w = record_kind(row, type);

	if (!w) {
		printf("unknown type=0x%04x n=%u c=%u a=%llu b=%llu", type, le16_to_cpu(r->n),
		       le32_to_cpu(r->c), (u64)le64_to_cpu(r->a), (u64)le64_to_cpu(r->b));
		return;
	}
	printf("%s", w->name);
	if (w->a)
		printf(" %s=%llu", w->a, (u64)le64_to_cpu(r->a));
	if (w->n)
		printf(" %s=%u", w->n, le16_to_cpu(r->n));
	if (w->b)
		printf(" %s=%llu", w->b, (u64)le64_to_cpu(r->b));
	if (w->c)
		printf(" %s=%u", w->c, le32_to_cpu(r->c));
}

static void record_json(const struct engine_row *row, const struct shingle_record *r,
			struct json_object *in)
{
	struct json_object *j = json_dict(in, NULL);
	u16 type = le16_to_cpu(r->type);
	const struct shingle_record_kind *w = record_kind(row, type);

	json_str(j, "record", w ? w->name : "unknown");
	if (!w)
		json_u64(j, "type", type);
	if (!w || w->a)
		json_u64(j, w ? w->a : "a", le64_to_cpu(r->a));
	if (!w || w->n)
		json_u64(j, w ? w->n : "n", le16_to_cpu(r->n));
	if (!w || w->b)
		json_u64(j, w ? w->b : "b", le64_to_cpu(r->b));
	if (!w || w->c)
		json_u64(j, w ? w->c : "c", le32_to_cpu(r->c));
}

static int dump_journal_block(void *ctx, u64 pos, const struct shingle_journal_block *b)
{
	const struct dump *d = ctx;
	u32 nr = le32_to_cpu(b->nr_records), i;
	struct json_object *j, *records;

	if (d->to) {
		j = json_dict(NULL, NULL);
		json_u64(j, "pos", pos);
		json_u64(j, "block", le64_to_cpu(b->h.block));
		json_u64(j, "seq", le64_to_cpu(b->h.seq));
		json_u64(j, "index", le16_to_cpu(b->index));
		json_u64(j, "count", le16_to_cpu(b->count));
		json_u64(j, "prev_crc", le32_to_cpu(b->prev_crc));
		json_u64(j, "crc", le32_to_cpu(b->h.crc));
		records = json_list(j, "records");
		for (i = 0; i < nr; i++)
			record_json(d->img->row, &b->records[i], records);
		json_stream_put(d->to, j);
		return 0;
	}
	say("  position %llu (block %llu): transaction %llu, block %u of %u, %u records", pos,
	    (u64)le64_to_cpu(b->h.block), (u64)le64_to_cpu(b->h.seq), le16_to_cpu(b->index) + 1U,
	    le16_to_cpu(b->count), nr);
	for (i = 0; i < nr; i++) {
		fputs("    ", stdout);
		record_print(d->img->row, &b->records[i]);
		putchar('\n');
	}
	return 0;
}

/* Begin with the replayed part, so that older rounds of the ring come last. */
static void dump_journal(struct json_stream *to, void *ctx)
{
	struct dump *d = ctx;

	d->to = to;
	if (!to)
		say("Journal: all sound blocks, including those of older rounds of the ring");
	ring_walk(d->img, d->recovered ? d->img->rec.tail_pos : 0, d->img->l.journal.blocks,
		  dump_journal_block, d);
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
	struct json_object *j;

	if (!d->to) {
		say("  %12llu %12llu  %-9s %-8s %-6s %12llu", run->lblk, n, kind_name(run->kind),
		    place_name(d->img, run), dev_name(shingle_pblk_dev(run->pblk)),
		    shingle_pblk_block(run->pblk));
		return;
	}
	j = json_dict(NULL, NULL);
	json_u64(j, "lblk", run->lblk);
	json_u64(j, "blocks", n);
	json_str(j, "kind", kind_name(run->kind));
	if (run->kind != SHINGLE_RUN_ZERO && run->kind != SHINGLE_RUN_ABSENT) {
		json_str(j, "role", place_name(d->img, run));
		json_str(j, "device", dev_name(shingle_pblk_dev(run->pblk)));
		json_u64(j, "block", shingle_pblk_block(run->pblk));
	}
	json_stream_put(d->to, j);
}

/* Print the map; adjacent runs with consecutive locations are merged. */
static void dump_map(struct json_stream *to, void *ctx)
{
	struct dump *d = ctx;
	const struct shingle_reader r = devices_reader(&d->img->ds);
	struct shingle_run first = { 0 }, run;
	u64 lblk = 0, n = 0;

	d->to = to;
	if (!to)
		say("Map (blocks of 4 KiB)\n  %12s %12s  %-9s %-8s %-6s %12s", "logical", "blocks",
		    "kind", "role", "device", "block");
	while (lblk < d->img->l.logical_blocks) {
		u64 left = d->img->l.logical_blocks - lblk;

		shingle_fetch_run(&r, &d->img->l, d->img->engine, lblk,
				  (u32)min_t(u64, left, S32_MAX), &run);
		if (!run.n)
			break;
		/* Lost blocks have no location, like zero blocks. */
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
}

static void dump(struct dump *d, const struct check *c)
{
	u32 i;

	show_layout(&d->img->l, d->img->row);
	say("Checkpoints");
	for (i = 0; i < 2; i++)
		dump_slot(c, i, NULL);
	if (d->recovered)
		dump_recovery(d);
	if (d->journal)
		dump_journal(NULL, d);
	if (d->map && d->recovered)
		dump_map(NULL, d);
	findings_print(&c->found);
	if (d->map && !d->recovered)
		say("The map cannot be rebuilt.");
}

static void dump_json(struct dump *d, const struct check *c)
{
	struct json_stream journal = { .walk = dump_journal, .ctx = d };
	struct json_stream map = { .walk = dump_map, .ctx = d };
	struct json_object *slots;
	u32 i;

	d->j = json_dict(NULL, NULL);
	show_layout_json(&d->img->l, d->img->row, d->j);
	slots = json_list(d->j, "slots");
	for (i = 0; i < 2; i++)
		dump_slot(c, i, slots);
	findings_json(&c->found, d->j);
	if (d->recovered)
		dump_recovery(d);
	if (d->journal)
		json_stream(d->j, "journal_blocks", &journal);
	if (d->map && d->recovered)
		json_stream(d->j, "map", &map);
	json_print(d->j, stdout);
}

static int do_dump(struct image *img, struct check *c, const struct offline_args *a)
{
	struct dump d = { .img = img, .journal = a->journal, .map = a->map };

	if (!check_run(img, c)) {
		findings_print(&c->found);
		return EXIT_OPERATION;
	}
	d.recovered = c->recovered;
	(a->json ? dump_json : dump)(&d, c);
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
		"Prints the superblock, the geometry, the checkpoints and the result of recovery.\n"
		"Works on an open device, too, but its metadata change meanwhile.\n\n"
		OFFLINE_HELP
		"  --journal         the transactions in the journal, record by record\n"
		"  --map             the recovered map\n"
		"  --json            print JSON\n",
	.run = run,
};
