// SPDX-License-Identifier: GPL-2.0
/*
 * shingle-levels: the writes of a store in levels (RocksDB and its kin) on a
 * block device, or in figures only.
 */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "outfile.h"
#include "run.h"

static const char help[] =
"Usage: shingle-levels [OPTION]... [DEVICE]\n"
"Load a store that keeps sorted files in levels, as RocksDB does, on DEVICE:\n"
"whole files in tracks, a flush for each, discards for deleted ones.  The contents\n"
"of DEVICE are lost.  Without DEVICE nothing is written: models of track allocation\n"
"and read-modify-write on an interlaced disk process the files.\n"
"\n"
"The disk:\n"
"      --track SIZE       size of a track, on which files begin (2M)\n"
"      --tracks N         number of tracks (all of DEVICE; without DEVICE 50000)\n"
"      --place POLICY[,OPTION]...  order of the tracks of DEVICE (seq): as\n"
"                         --model.  With the option naive or merged, DEVICE is an\n"
"                         interlaced disk without a translation layer, and the\n"
"                         program protects tops itself, as a middleware would\n"
"      --reread           with naive or merged: read tops from the backup region before\n"
"                         they are written back, instead of keeping them in memory\n"
"      --copy-each        the same, one top after the other\n"
"      --drive PROFILE    instead of DEVICE: compute the times of one of platter's drives\n"
"      --flush-us N       duration of a sync on that drive (0)\n"
"      --hints            send the level of each file to the target by message\n"
"      --no-discard       do not discard deleted files\n"
"      --force            overwrite the contents of DEVICE\n"
"      --no-contents      write blocks without meaning: faster, for a device that models\n"
"                         time and stores no data\n"
"The store:\n"
"      --load SIZE        data to insert (76.8 % of the disk)\n"
"      --record SIZE      size of a record (1K)\n"
"      --file SIZE        size of files and of the memtable (64M)\n"
"      --level1 SIZE      bound of level 1 (256M)\n"
"      --factor N         ratio of the bounds of successive levels (10)\n"
"      --trigger N        files of level 0 that start a compaction (4)\n"
"      --readahead SIZE   size of a read from an input of a compaction (a track)\n"
"      --scale N          divide track, file, level 1 and the default load by N\n"
"      --keys HOW         uniform (each key once) or zipfian\n"
"      --theta X          skew of zipfian keys (0.99)\n"
"      --moves keep|rewrite|silent  a file that overlaps no file of the next level\n"
"                         moves there.  keep: in place, with a message if --hints;\n"
"                         rewrite: it is written again; silent: in place, without\n"
"                         a message (keep)\n"
"      --pick round|overlap  file of a level to compact: the next one by key, or the\n"
"                         one that overlaps least of the next level (round)\n"
"      --mix R90|R50|R10  after the load: operations on zipfian keys, with this\n"
"                         percentage of reads\n"
"      --ops N            operations of the mix (a tenth of the records)\n"
"      --seed N           seed of the random numbers (1)\n"
"The models of the same load (repeatable):\n"
"      --model POLICY,RMW[,OPTION]...\n"
"                         RMW: naive, merged, none; options: first, next,\n"
"                         adjsync=literal|needed, syncs=literal|needed, map,\n"
"                         pending, surplus-first, largest=LEVEL|most\n"
"      --trace FILE       no load: the model processes FILE (-: standard input), and\n"
"                         each of its steps is printed\n"
"      --record-trace F   write all operations on files to F, for --trace\n"
"Results:\n"
"      --verify           verify all reads, and read everything back at the end\n"
"      --manifest FILE    record the existing files in FILE, on another device\n"
"      --check FILE       no load: read back the files of the manifest FILE\n"
"      --points N         record the progress of the load N times (75)\n"
"      --json             print JSON\n"
"  -h, --help             print this text\n"
"  -V, --version          print the version\n"
"\n"
"SIZE has a unit: B, K, M, G, T.  Exit status: 0 success, 4 data were lost, 8 the\n"
"command failed, 16 wrong usage.\n";

enum {
	OPT_TRACK = 256, OPT_TRACKS, OPT_PLACE, OPT_REREAD, OPT_COPY_EACH, OPT_DRIVE,
	OPT_FLUSH_US, OPT_HINTS, OPT_NO_DISCARD,
	OPT_NO_CONTENTS, OPT_FORCE, OPT_LOAD, OPT_RECORD, OPT_FILE, OPT_LEVEL1, OPT_FACTOR, OPT_TRIGGER, OPT_READAHEAD, OPT_SCALE, OPT_KEYS,
	OPT_THETA, OPT_MOVES, OPT_PICK, OPT_MIX, OPT_OPS, OPT_SEED, OPT_MODEL, OPT_TRACE,
	OPT_RECORD_TRACE, OPT_VERIFY, OPT_MANIFEST, OPT_CHECK, OPT_POINTS, OPT_JSON,
};

static const struct option long_options[] = {
	{ "track", required_argument, NULL, OPT_TRACK },
	{ "tracks", required_argument, NULL, OPT_TRACKS },
	{ "place", required_argument, NULL, OPT_PLACE },
	{ "reread", no_argument, NULL, OPT_REREAD },
	{ "copy-each", no_argument, NULL, OPT_COPY_EACH },
	{ "drive", required_argument, NULL, OPT_DRIVE },
	{ "flush-us", required_argument, NULL, OPT_FLUSH_US },
	{ "hints", no_argument, NULL, OPT_HINTS },
	{ "no-discard", no_argument, NULL, OPT_NO_DISCARD },
	{ "no-contents", no_argument, NULL, OPT_NO_CONTENTS },
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "load", required_argument, NULL, OPT_LOAD },
	{ "record", required_argument, NULL, OPT_RECORD },
	{ "file", required_argument, NULL, OPT_FILE },
	{ "level1", required_argument, NULL, OPT_LEVEL1 },
	{ "factor", required_argument, NULL, OPT_FACTOR },
	{ "trigger", required_argument, NULL, OPT_TRIGGER },
	{ "readahead", required_argument, NULL, OPT_READAHEAD },
	{ "scale", required_argument, NULL, OPT_SCALE },
	{ "keys", required_argument, NULL, OPT_KEYS },
	{ "theta", required_argument, NULL, OPT_THETA },
	{ "moves", required_argument, NULL, OPT_MOVES },
	{ "pick", required_argument, NULL, OPT_PICK },
	{ "mix", required_argument, NULL, OPT_MIX },
	{ "ops", required_argument, NULL, OPT_OPS },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "model", required_argument, NULL, OPT_MODEL },
	{ "trace", required_argument, NULL, OPT_TRACE },
	{ "record-trace", required_argument, NULL, OPT_RECORD_TRACE },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "manifest", required_argument, NULL, OPT_MANIFEST },
	{ "check", required_argument, NULL, OPT_CHECK },
	{ "points", required_argument, NULL, OPT_POINTS },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/**
 * struct words - the command line
 * @disk: how the device is used; @disk.path is NULL without one
 * @load: the store; records are found out later
 * @place: order of the device's tracks
 * @track_bytes: before scaling, as the next ones
 * @file_bytes: see there
 * @level1_bytes: see there
 * @readahead_bytes: 0 for a track
 * @load_bytes: 0 for a share of the disk
 * @tracks: 0 for all
 * @scale: see there
 * @model: see there
 * @model_name: as they were given
 * @models: how many
 * @trace: name of the file, or NULL, as the next ones
 * @record: see there
 * @manifest: see there
 * @check: see there
 * @points: see there
 * @mix: run a mix after the load
 * @json: see there
 */
struct words {
	struct disk_options disk;
	struct load_options load;
	struct model_options place;
	u64 track_bytes, file_bytes, level1_bytes, readahead_bytes, load_bytes;
	u64 tracks, scale;
	struct model_options model[MAX_MODELS];
	const char *model_name[MAX_MODELS];
	u32 models;
	const char *trace, *record, *manifest, *check;
	u32 points;
	bool mix, json;
};

static int misused(const char *text)
{
	fflush(stdout);
	fprintf(stderr, "shingle-levels: %s; see 'shingle-levels --help'\n", text);
	return EXIT_USAGE;
}

static bool one_of(const char *arg, const char *text, const char *a, const char *b, u32 *which)
{
	if (strcmp(text, a) && strcmp(text, b)) {
		fail("%s '%s' is neither %s nor %s", arg, text, a, b);
		return false;
	}
	*which = strcmp(text, a) ? 1 : 0;
	return true;
}

static bool take_number(const char *arg, const char *text, u64 low, u64 high, u32 *value)
{
	u64 v;

	if (!parse_number(arg, text, low, high, &v))
		return false;
	*value = (u32)v;
	return true;
}

/* 0 would be taken for what is not given. */
static bool take_size(const char *arg, const char *text, u64 *bytes)
{
	if (!parse_size(arg, text, bytes))
		return false;
	if (*bytes)
		return true;
	fail("%s %s is not valid: omit it for the default", arg, text);
	return false;
}

static bool take_model(struct words *w, const char *text)
{
	const char *why;

	if (w->models == MAX_MODELS) {
		fail("--model may be given at most %u times", MAX_MODELS);
		return false;
	}
	if (!model_parse(text, &w->model[w->models], &why)) {
		fail("--model '%s': %s", text, why);
		return false;
	}
	w->model_name[w->models++] = text;
	return true;
}

/* RMW may be left out here. */
static bool take_place(struct words *w, const char *text)
{
	size_t len = strcspn(text, ",");
	const char *why;
	char full[128];

	if (model_parse(text, &w->place, &why))
		return true;
	snprintf(full, sizeof(full), "%.*s,none%.64s", (int)min_t(size_t, len, 32), text,
		 text + len);
	if (model_parse(full, &w->place, &why))
		return true;
	fail("--place '%s': %s", text, why);
	return false;
}

static bool take_mix(struct words *w, const char *text)
{
	w->mix = true;
	if (*text == 'R')
		return take_number("--mix R", text + 1, 0, 100, &w->load.read_percent);
	fail("--mix '%s' is not R and a percentage, as R50", text);
	return false;
}

static bool take_theta(struct words *w, const char *text)
{
	char *end;

	w->load.theta = strtod(text, &end);
	if (end != text && !*end && w->load.theta > 0 && w->load.theta < 1)
		return true;
	fail("--theta '%s' is not a number above 0 and below 1", text);
	return false;
}

static bool take_moves(struct words *w, const char *text)
{
	if (!strcmp(text, "keep"))
		w->load.moves = LOAD_KEEP;
	else if (!strcmp(text, "rewrite"))
		w->load.moves = LOAD_REWRITE;
	else if (!strcmp(text, "silent"))
		w->load.moves = LOAD_SILENT;
	else
		return fail("--moves '%s' is none of keep, rewrite, silent", text), false;
	return true;
}

static bool take(struct words *w, int c, const char *v)
{
	u64 seed;
	u32 i;

	switch (c) {
	case OPT_TRACK:
		return parse_size("--track", v, &w->track_bytes);
	case OPT_TRACKS:
		return parse_number("--tracks", v, 4, 1U << 30, &w->tracks);
	case OPT_PLACE:
		return take_place(w, v);
	case OPT_REREAD:
		w->disk.reread = true;
		return true;
	case OPT_COPY_EACH:
		w->disk.copy_each = true;
		w->disk.reread = true;
		return true;
	case OPT_DRIVE:
		w->disk.drive = v;
		w->disk.contents = false;
		return true;
	case OPT_FLUSH_US:
		return take_number("--flush-us", v, 0, 1000000, &w->disk.flush_us);
	case OPT_HINTS:
		w->disk.hints = true;
		return true;
	case OPT_NO_DISCARD:
		w->disk.discards = false;
		return true;
	case OPT_NO_CONTENTS:
		w->disk.contents = false;
		return true;
	case OPT_FORCE:
		w->disk.force = true;
		return true;
	case OPT_LOAD:
		return take_size("--load", v, &w->load_bytes);
	case OPT_RECORD:
		if (!parse_size("--record", v, &seed))
			return false;
		if (seed && seed <= 1U << 30) {
			w->load.record_bytes = (u32)seed;
			return true;
		}
		fail("--record %s is out of bounds: at least 1B, at most 1G", v);
		return false;
	case OPT_FILE:
		return parse_size("--file", v, &w->file_bytes);
	case OPT_LEVEL1:
		return parse_size("--level1", v, &w->level1_bytes);
	case OPT_FACTOR:
		return take_number("--factor", v, 2, 100, &w->load.factor);
	case OPT_TRIGGER:
		return take_number("--trigger", v, 1, 100, &w->load.trigger);
	case OPT_READAHEAD:
		return take_size("--readahead", v, &w->readahead_bytes);
	case OPT_SCALE:
		return parse_number("--scale", v, 1, 512, &w->scale);
	case OPT_KEYS:
		if (!one_of("--keys", v, "uniform", "zipfian", &i))
			return false;
		w->load.keys = i ? LOAD_ZIPFIAN : LOAD_UNIFORM;
		return true;
	case OPT_THETA:
		return take_theta(w, v);
	case OPT_MOVES:
		return take_moves(w, v);
	case OPT_PICK:
		if (!one_of("--pick", v, "round", "overlap", &i))
			return false;
		w->load.pick = i ? LOAD_OVERLAP : LOAD_ROUND;
		return true;
	case OPT_MIX:
		return take_mix(w, v);
	case OPT_OPS:
		return parse_number("--ops", v, 1, U64_MAX, &w->load.ops);
	case OPT_SEED:
		return parse_number("--seed", v, 0, U64_MAX, &w->load.seed);
	case OPT_MODEL:
		return take_model(w, v);
	case OPT_TRACE:
		w->trace = v;
		return true;
	case OPT_RECORD_TRACE:
		w->record = v;
		return true;
	case OPT_VERIFY:
		w->disk.verify = true;
		return true;
	case OPT_MANIFEST:
		w->manifest = v;
		return true;
	case OPT_CHECK:
		w->check = v;
		return true;
	case OPT_POINTS:
		return take_number("--points", v, 1, MAX_POINTS, &w->points);
	default:
		w->json = true;
		return true;
	}
}

/* Sizes divided, and all that must fit each other. */
static bool scale(struct words *w)
{
	u64 *size[] = { &w->track_bytes, &w->file_bytes, &w->level1_bytes };
	u32 i, record = w->load.record_bytes;

	for (i = 0; i < ARRAY_SIZE(size); i++)
		*size[i] /= w->scale;
	if (!w->track_bytes || w->track_bytes % SHINGLE_BLOCK_SIZE || w->track_bytes > 1U << 30) {
		fail("a track of %s is not a multiple of 4K up to 1G", size_text(w->track_bytes).s);
		return false;
	}
	if (w->file_bytes < record || w->file_bytes % record ||
	    w->file_bytes / record > 1U << 28) {
		fail("a file of %s is not a whole number of records of %s, up to 2^28",
		     size_text(w->file_bytes).s, size_text(record).s);
		return false;
	}
	if (w->level1_bytes < record) {
		fail("level 1 of %s has no room for a record of %s",
		     size_text(w->level1_bytes).s, size_text(record).s);
		return false;
	}
	if (!w->readahead_bytes)
		w->readahead_bytes = w->track_bytes;
	if (w->readahead_bytes % SHINGLE_BLOCK_SIZE || w->readahead_bytes > 1U << 30) {
		fail("--readahead %s is not a multiple of 4K up to 1G",
		     size_text(w->readahead_bytes).s);
		return false;
	}
	w->load.file_records = (u32)(w->file_bytes / record);
	w->load.level1_records = w->level1_bytes / record;
	w->load.readahead_bytes = (u32)w->readahead_bytes;
	w->disk.track_bytes = (u32)w->track_bytes;
	return true;
}

/* The size of the disk, and what of it the load takes. */
static bool set_tracks(struct words *w, struct run *r)
{
	u64 tracks = r->on_disk ? r->disk.bytes / w->track_bytes : 50000;
	u64 region = 0;

	if (w->place.rmw != MODEL_NO_RMW) {
		/* A merged RMW needs two tops for each track of a file at worst. */
		u64 file = DIV_ROUND_UP(w->file_bytes, w->track_bytes);

		r->disk.opt.backup_slots = w->place.rmw == MODEL_NAIVE ? 2 : (u32)(2 * file);
		region = 2 * r->disk.opt.backup_slots;
		tracks = (tracks > region ? tracks - region : 0) & ~1ULL;
	}

	if (!w->tracks)
		w->tracks = tracks;
	if (r->on_disk && w->tracks > tracks) {
		fail("%s %s has %llu tracks of %s%s, not %llu",
		     w->disk.drive ? "drive" : "DEVICE", w->disk.drive ?: w->disk.path, tracks,
		     size_text(w->track_bytes).s, region ? " besides the backup region" : "",
		     w->tracks);
		return false;
	}
	if (w->tracks < 4 || w->tracks > 1U << 30) {
		fail("%llu tracks of %s are too few or too many: at least 4, at most 2^30",
		     w->tracks, size_text(w->track_bytes).s);
		return false;
	}
	if (w->place.rmw != MODEL_NO_RMW && w->tracks % 2) {
		fail("%llu tracks: an even number is needed before the backup region", w->tracks);
		return false;
	}
	if (!w->load_bytes)
		w->load_bytes = w->tracks * w->track_bytes / 1000 * 768;
	w->load.records = w->load_bytes / w->load.record_bytes;
	if (!w->load.records) {
		fail("a load of %s is smaller than a record", size_text(w->load_bytes).s);
		return false;
	}
	if (w->mix && !w->load.ops)
		w->load.ops = max(w->load.records / 10, 1ULL);
	if (!w->mix)
		w->load.ops = 0;
	r->tracks = (u32)w->tracks;
	r->track_bytes = (u32)w->track_bytes;
	r->points_wanted = w->points;
	return true;
}

static bool open_trace(const char *path, struct outfile *o, FILE **f)
{
	int err = path ? outfile_begin(o, path) : 0;

	*f = o->stream;
	if (err)
		fail("--record-trace %s: %s", path, outfile_reason(err));
	return !err;
}

/* Each of its lines is synced before the load goes on, so it is written in place. */
static bool open_manifest(const char *path, FILE **f)
{
	struct stat st;
	int err = 0;

	if (!path)
		return true;
	if (!stat(path, &st) && S_ISBLK(st.st_mode)) {
		err = -ENOTBLK;
	} else {
		*f = fopen(path, "we");
		err = *f ? 0 : -errno;
	}
	if (err)
		fail("--manifest %s: %s", path, outfile_reason(err));
	return !err;
}

static bool close_logs(const struct words *w, struct outfile *trace, FILE **manifest, bool keep)
{
	int err = outfile_end(trace, keep);

	if (err)
		fail("--record-trace %s cannot be written: %s", w->record, outfile_reason(err));
	if (*manifest) {
		int failed = ferror(*manifest);

		errno = 0;
		if ((fclose(*manifest) || failed) && keep) {
			err = errno ? -errno : -EIO;
			fail("--manifest %s cannot be written: %s", w->manifest, strerror(-err));
		}
		*manifest = NULL;
	}
	return !err;
}

/* The program's status, if what it has printed went somewhere. */
static int flush_output(int rc)
{
	errno = 0;
	if ((fflush(stdout) || ferror(stdout)) && rc == EXIT_CLEAN)
		return fail("output cannot be written: %s", strerror(errno ?: EIO));
	return rc;
}

static bool init_models(const struct words *w, struct run *r)
{
	bool ok = !r->on_disk || !model_init(&r->place, &w->place, r->tracks);
	u32 i;

	if (ok && r->on_disk && w->place.rmw != MODEL_NO_RMW)
		ok = !disk_protect(&r->disk, r->tracks);

	for (i = 0; i < w->models; i++) {
		r->model_name[i] = w->model_name[i];
		r->models++;
		ok = ok && !model_init(&r->model[i], &w->model[i], r->tracks);
	}
	if (!ok)
		fail("there is not enough memory for %u tracks", r->tracks);
	return ok;
}

static bool has_stats(const struct run *r)
{
	static const char *const known[] = { "imr", "platter", "stl-set", "stl-full" };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		if (r->on_disk && !strcmp(r->disk.mapped.target, known[i]))
			return true;
	}
	return false;
}

/* Its counters begin with the load. */
static bool clear_stats(const struct run *r)
{
	char *reply = has_stats(r) ? dm_device_message(r->disk.mapped.name, "stats_clear") : NULL;

	free(reply);
	return reply || !has_stats(r);
}

static int finish(const struct words *w, struct run *r)
{
	struct target_stats target = { NULL };

	if (has_stats(r)) {
		target.text = dm_device_message(r->disk.mapped.name, "stats");
		if (!target.text)
			return EXIT_OPERATION;
	}
	if (w->disk.verify && run_verify(r)) {
		free(target.text);
		return EXIT_OPERATION;
	}
	if (w->json)
		report_json(r, &target);
	else
		report_people(r, &target);
	free(target.text);
	return r->disk.stats.bad_blocks ? EXIT_UNCORRECTED : EXIT_CLEAN;
}

static int check(const struct words *w, struct run *r)
{
	if (run_check(r, w->check))
		return EXIT_OPERATION;
	say("%llu blocks verified, %llu lost", r->disk.stats.verified_blocks,
	    r->disk.stats.bad_blocks);
	return r->disk.stats.bad_blocks ? EXIT_UNCORRECTED : EXIT_CLEAN;
}

static int run_trace(const struct words *w)
{
	bool standard = !strcmp(w->trace, "-");
	FILE *f = standard ? stdin : fopen(w->trace, "re");
	int err;

	if (!f)
		return fail("--trace %s: %s", w->trace, strerror(errno));
	err = trace(f, &w->model[0], w->tracks ? (u32)w->tracks : 50000);
	if (!standard)
		fclose(f);
	return err ? EXIT_OPERATION : EXIT_CLEAN;
}

static int run(struct words *w)
{
	struct outfile trace = { };
	static struct run r;
	int rc = EXIT_OPERATION;

	r.disk.fd = -1;
	r.disk.ring.ring_fd = -1;
	r.on_disk = w->disk.path || w->disk.drive;
	if (r.on_disk && disk_open(&r.disk, &w->disk))
		goto out;
	if (!set_tracks(w, &r) || !init_models(w, &r) ||
	    !open_trace(w->record, &trace, &r.record) ||
	    !open_manifest(w->manifest, &r.manifest))
		goto out;
	if (w->check)
		rc = check(w, &r);
	else if (clear_stats(&r) && !run_load(&r, &w->load))
		rc = finish(w, &r);
out:
	r.record = NULL;
	if (!close_logs(w, &trace, &r.manifest, rc == EXIT_CLEAN))
		rc = EXIT_OPERATION;
	run_exit(&r);
	return rc;
}

int main(int argc, char **argv)
{
	static struct words w = {
		.disk = { .discards = true, .contents = true },
		.load = {
			.record_bytes = 1024, .factor = 10, .trigger = 4, .theta = 0.99, .seed = 1,
		},
		.place = { .largest = MODEL_LARGEST_ALIVE },
		.track_bytes = 2U << 20, .file_bytes = 64U << 20, .level1_bytes = 256U << 20,
		.scale = 1, .points = 75,
	};
	int c;

	dm_begin();
	opterr = 0;
	while ((c = next_option(argc, argv, ":hV", long_options, NULL)) != -1) {
		if (c == 'h') {
			fputs(help, stdout);
			return flush_output(EXIT_CLEAN);
		}
		if (c == 'V') {
			say("shingle-levels %s", tool_release);
			return flush_output(EXIT_CLEAN);
		}
		if (c == ':')
			return misused("the last option needs a value");
		if (c == '?')
			return misused("an option is not known, or takes no value");
		if (!take(&w, c, optarg))
			return EXIT_USAGE;
	}
	if (argc - optind > 1)
		return misused("more than one DEVICE is given");
	w.disk.path = argv[optind];
	w.disk.reading = w.check;
	if (w.disk.path && w.disk.drive)
		return misused("--drive cannot be combined with a DEVICE");
	if (w.disk.flush_us && !w.disk.drive)
		return misused("--flush-us requires --drive");
	if (w.trace && (w.models != 1 || w.disk.path || w.disk.drive))
		return misused("--trace requires one --model and no DEVICE");
	if (!w.trace && !w.disk.path && !w.disk.drive && !w.models)
		return misused("DEVICE, --drive or --model is missing");
	if (!w.disk.path && (w.disk.hints || w.disk.verify || w.manifest || w.check))
		return misused("hints, verification and manifests require a DEVICE");
	if (w.load.ops && !w.mix)
		return misused("--ops requires --mix");
	if (w.check && (w.manifest || w.record || w.mix || w.models))
		return misused("--check only reads back: omit --manifest, --record-trace, --mix and --model");
	if (!w.disk.contents && (w.disk.verify || w.check))
		return misused("--no-contents cannot be combined with --verify");
	if (w.disk.hints && w.place.rmw != MODEL_NO_RMW)
		return misused("--hints cannot be combined with naive or merged: the target protects tops itself");
	if (w.disk.reread && w.place.rmw == MODEL_NO_RMW)
		return misused("--reread and --copy-each require --place with naive or merged");
	if (!scale(&w))
		return EXIT_USAGE;
	return flush_output(w.trace ? run_trace(&w) : run(&w));
}
