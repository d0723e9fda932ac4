// SPDX-License-Identifier: GPL-2.0
/*
 * Feeds dm-platter's mechanics a list of requests, offline.
 *
 *   platter-sim [-p PROFILE [-b BLOCKS] | -g FILE [-t]] [-l BLOCKS] [-o] [-q] [REQUESTS]
 *   platter-sim -p PROFILE [-b BLOCKS] -z
 *
 * A request is a line "TIME r|w BLOCK COUNT": TIME in microseconds is the think
 * time since the last completion, or with -o the time of arrival.  The answer is
 * a line "ARRIVAL_US SERVICE_US SEEK_US ROTATION_US TRANSFER_US h|m", h for what
 * was in the buffer; with -q there is none but the mean.  -b: size of the drive in blocks;
 * -l: size of a look-ahead segment in blocks, 0: no look-ahead; -t: the target's own look-ahead
 * replaces the electronics of a geometry file.  -z: print the zones as the target's message
 * geometry has them, without any request, and the parts with tracks of equal size:
 * "stretch START BLOCKS TRACK_BLOCKS ZONE".
 *
 * A geometry file has lines of words, numbers in the drive's own sectors and in
 * nanoseconds; # begins a comment:
 *   rotation_ns N          surfaces N
 *   zone CYLINDERS TRACK_SECTORS TRACK_SKEW CYLINDER_SKEW [FIRST_BLOCK_OFFSET]
 *   map LBN SECTOR COUNT   (where LBNs lie, ascending; none: where they count)
 *   seek DISTANCE NS       (ascending; or seek_min_ns, seek_avg_ns, seek_max_ns)
 *   head_switch_ns N       write_settle_ns N (may be negative)
 * and of the drive's electronics, in the words of struct drive (drive.h); those
 * with two numbers say them for after a read and after a write, bus_ns for a
 * sector read and written.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "drive.h"
#include "profiles.h"

static const char usage[] =
"Usage: platter-sim [-p PROFILE [-b BLOCKS] | -g FILE [-t]] [-l BLOCKS] [-o] [-q] [REQUESTS]\n"
"       platter-sim -p PROFILE [-b BLOCKS] -z\n";

static struct platter_geo geo;
static struct platter_mech mech;
static struct drive drive = {
	.buffer = { .segments = 1, .segment_sectors = 1 },
};
static u64 read_hit_ns, write_hit_ns;
static u64 bus_ns[2];
static bool write_cache;
static u32 zone_offset[PLATTER_MAX_ZONES];
static bool have_offset;

static void die(const char *what, const char *detail)
{
	fprintf(stderr, "platter-sim: %s%s%s\n", what, detail ? ": " : "",
		detail ? detail : "");
	exit(2);
}

/* A line's word, where its numbers go, how wide each is and how many there are. */
static const struct word {
	const char *name;
	size_t width;
	int nr;
	void *to;
} words[] = {
#define U32(name, member)	{ name, 4, 1, &(member) }
#define U64(name, member)	{ name, 8, sizeof(member) / 8, &(member) }
	U32("rotation_ns", geo.rot_ns),
	U32("surfaces", geo.surfaces),
	U32("seek_min_ns", mech.seek.min_ns),
	U32("seek_avg_ns", mech.seek.avg_ns),
	U32("seek_max_ns", mech.seek.max_ns),
	U32("head_switch_ns", mech.head_switch_ns),
	U64("write_settle_ns", mech.write_settle_ns),
	U64("read_hit_ns", drive.delay.read_hit_ns),
	U64("read_miss_ns", drive.delay.read_miss_ns),
	U64("write_hit_ns", drive.delay.write_hit_ns),
	U64("write_miss_ns", drive.delay.write_miss_ns),
	U64("read_done_ns", drive.delay.read_done_ns),
	U64("write_done_ns", drive.delay.write_done_ns),
	U64("prep_ns", drive.delay.prep_ns),
	U64("read_disconnect_ns", drive.delay.read_disconnect_ns),
	U64("write_disconnect_ns", drive.delay.write_disconnect_ns),
	U64("reselect_ns", drive.delay.reselect_ns),
	U32("extra_disconnect", drive.delay.extra_disconnect),
	U64("extra_ns", drive.delay.extra_ns),
	U64("min_write_seek_ns", drive.delay.min_write_seek_ns),
	U64("bus_ns", drive.bus.sector_ns),
	U32("read_water_permille", drive.bus.read_water_permille),
	U32("write_water_permille", drive.bus.write_water_permille),
	U32("water_by_request", drive.bus.water_by_request),
	U32("hold_read", drive.bus.hold_read),
	U32("hold_write", drive.bus.hold_write),
	U32("never_disconnect", drive.bus.never_disconnect),
	U32("segments", drive.buffer.segments),
	U32("segment_sectors", drive.buffer.segment_sectors),
	U32("write_segment", drive.buffer.write_segment),
	U32("ahead", drive.buffer.ahead),
	U32("ahead_sectors", drive.buffer.ahead_sectors),
	U32("ahead_keeps", drive.buffer.ahead_keeps),
	U32("forget_read", drive.buffer.forget_read),
	U32("ahead_on_hit", drive.buffer.ahead_on_hit),
	U32("stop_in_sector", drive.buffer.stop_in_sector),
	U32("fast_write", drive.buffer.fast_write),
	U32("combine", drive.buffer.combine),
	U32("zero_latency", drive.buffer.zero_latency),
};

static void within(const char *line, const s64 *v, int n, s64 least, s64 most)
{
	while (n--) {
		if (v[n] < least)
			die("a value is negative", line);
		if (v[n] > most)
			die("a value exceeds 32 bits", line);
	}
}

static void read_word(const char *key, const char *line, const s64 *v, int n)
{
	u32 i;
	int k;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		const struct word *w = &words[i];

		if (strcmp(key, w->name))
			continue;
		within(line, v, n, w->to == &mech.write_settle_ns ? -S64_MAX : 0,
		       w->width == 4 ? U32_MAX : S64_MAX);
		if (n != w->nr)
			die("wrong number of values", line);
		for (k = 0; k < n; k++) {
			if (w->width == 8)
				((s64 *)w->to)[k] = v[k];
			else
				((u32 *)w->to)[k] = v[k];
		}
		return;
	}
	die("unknown word", line);
}

static void read_map(u64 lbn, u64 block, u64 count)
{
	if (!(drive.map.nr & (drive.map.nr + 1)) || !drive.map.extent) {
		drive.map.extent = realloc(drive.map.extent, (2 * (size_t)drive.map.nr + 2) *
					       sizeof(*drive.map.extent));
		if (!drive.map.extent)
			die("out of memory", NULL);
	}
	drive.map.extent[drive.map.nr++] = (struct drive_map){ lbn, block, count };
}

static void read_geometry(const char *path)
{
	char line[512], key[64];
	const char *error = "";
	FILE *f = fopen(path, "r");
	u32 i;

	if (!f)
		die("cannot open", path);
	geo.sub_units = 1;
	geo.media = PLATTER_CMR;
	geo.head_mtracks = 1000;
	while (fgets(line, sizeof(line), f)) {
		struct platter_zone *z = &geo.zone[geo.nr_zones];
		s64 v[5] = { 0 };
		int n;

		if (sscanf(line, "%63s", key) != 1 || key[0] == '#')
			continue;
		n = sscanf(line, "%*s %lld %lld %lld %lld %lld",
			   &v[0], &v[1], &v[2], &v[3], &v[4]);
		if (!strcmp(key, "zone") && n >= 4 && geo.nr_zones < PLATTER_MAX_ZONES) {
			within(line, v, n, 0, U32_MAX);
			z->cyls = v[0];
			z->track_blocks = v[1];
			z->head_skew_units = v[2];
			z->group_skew_units = v[3];
			z->swath_cyls = 1;
			zone_offset[geo.nr_zones++] = n > 4 ? v[4] : 0;
			have_offset |= n > 4;
		} else if (!strcmp(key, "seek") && n == 2 &&
			   mech.seek.nr < PLATTER_MAX_SEEK_POINTS) {
			within(line, v, n, 0, U32_MAX);
			mech.seek.point[mech.seek.nr].distance = v[0];
			mech.seek.point[mech.seek.nr++].ns = v[1];
		} else if (!strcmp(key, "map") && n == 3) {
			read_map(v[0], v[1], v[2]);
		} else {
			read_word(key, line, v, n);
		}
	}
	fclose(f);
	if (platter_geo_init(&geo, &error))
		die(path, error);
	for (i = 0; have_offset && i < geo.nr_zones; i++)
		geo.zone[i].base_ns = (u64)zone_offset[i] % geo.zone[i].track_blocks *
				      geo.rot_ns / geo.zone[i].track_blocks;
	mech.seek.cyls = geo.cyls;
	if (platter_seek_init(&mech.seek, &error))
		die(path, error);
	platter_mech_init(&mech, &geo);
	drive.geo = &geo;
	drive.mech = &mech;
	error = drive_init(&drive);
	if (error)
		die(path, error);
}

/* The target's own buffer in the place of a drive's: one overhead, one bus. */
static void use_target(void)
{
	mech.overhead_ns = (drive.delay.read_miss_ns[0] + drive.delay.read_miss_ns[1]) / 2 +
			   drive.delay.read_done_ns;
	mech.write_overhead_ns = (drive.delay.write_miss_ns[0] + drive.delay.write_miss_ns[1]) / 2 +
				 drive.delay.write_done_ns;
	read_hit_ns = (drive.delay.read_hit_ns[0] + drive.delay.read_hit_ns[1]) / 2 +
		      drive.delay.read_done_ns;
	write_hit_ns = (drive.delay.write_hit_ns[0] + drive.delay.write_hit_ns[1]) / 2 +
		       drive.delay.write_done_ns;
	bus_ns[0] = drive.bus.sector_ns[0];
	bus_ns[1] = drive.bus.sector_ns[1];
	mech.bus_block_ns = bus_ns[0];
	mech.nr_segments = drive.buffer.segments;
	mech.lookahead_blocks = drive.buffer.segment_sectors;
	write_cache = drive.buffer.fast_write != DRIVE_WRITE_THROUGH;
	platter_mech_init(&mech, &geo);
}

static void use_profile(const char *name, u64 blocks)
{
	static struct platter_config cfg;
	const struct platter_profile *p = platter_profile_find(name);
	const char *error = "";

	if (!p)
		die("unknown profile", name);
	platter_config_init(&cfg, p, blocks ? blocks : p->sectors / 8);
	if (platter_config_build(&cfg, &geo, &mech, &error))
		die(name, error);
	bus_ns[0] = mech.bus_block_ns;
	bus_ns[1] = mech.bus_block_ns;
	read_hit_ns = mech.overhead_ns;
	write_hit_ns = mech.write_overhead_ns;
}

static void show_zones(void)
{
	struct platter_run run, last = {};
	u64 b;
	u32 i;

	printf("surfaces %u\nrotation_ns %u\n", geo.surfaces, geo.rot_ns);
	for (i = 0; i < geo.nr_zones; i++)
		printf("zone %u %llu %llu %u %u %u %u %u\n", i, geo.zone[i].start_blk,
		       min(geo.zone[i].blocks, geo.blocks - geo.zone[i].start_blk),
		       geo.zone[i].cyls, geo.zone[i].track_blocks, geo.zone[i].swath_cyls,
		       geo.zone[i].track_skew_units, geo.zone[i].head_skew_units);
	for (b = 0; platter_geo_run(&geo, b, &run); b = run.start_blk + run.blocks) {
		if (last.blocks && run.track_blocks == last.track_blocks &&
		    run.zone == last.zone) {
			last.blocks += run.blocks;
			continue;
		}
		if (last.blocks)
			printf("stretch %llu %llu %u %u\n", last.start_blk, last.blocks,
			       last.track_blocks, last.zone);
		last = run;
	}
	printf("stretch %llu %llu %u %u\n", last.start_blk, last.blocks, last.track_blocks,
	       last.zone);
}

static u64 serve(u64 arrival, bool write, u64 blk, u64 n, struct platter_service *svc,
		 bool *hit)
{
	u64 bus = n * bus_ns[write], start, done;

	*hit = false;
	memset(svc, 0, sizeof(*svc));
	if (!write) {
		if (platter_mech_lookahead(&mech, arrival + read_hit_ns, blk, n, &done)) {
			*hit = true;
			return done;
		}
		start = arrival + mech.overhead_ns;
		if (start < mech.free_ns)
			start = mech.free_ns;
		platter_mech_service(&mech, start, blk, n, false, svc);
		/* the bus goes on while the medium is read, but for the last block */
		return svc->finish_ns + bus_ns[0];
	}
	platter_mech_invalidate(&mech, blk, n);
	if (write_cache) {
		done = arrival + write_hit_ns + bus;
		start = done < mech.free_ns ? mech.free_ns : done;
		/* one write is held while the one before it goes to the medium */
		if (done < mech.free_ns)
			done = mech.free_ns;
		platter_mech_service(&mech, start, blk, n, true, svc);
		*hit = true;
		return done;
	}
	start = arrival + mech.write_overhead_ns;
	if (start < mech.free_ns)
		start = mech.free_ns;
	platter_mech_service(&mech, start, blk, n, true, svc);
	return svc->finish_ns;
}

int main(int argc, char **argv)
{
	const char *profile = NULL, *file = NULL;
	u64 blocks = 0, clock = 0, count = 0, skipped = 0, total = 0;
	long lookahead = -1;
	bool open_loop = false, quiet = false, target = false, zones = false;
	char line[256];
	FILE *in = stdin;
	int c;

	if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		printf("platter-sim %s\n", SHINGLE_RELEASE);
		return 0;
	}
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(usage, stdout);
		return 0;
	}
	while ((c = getopt(argc, argv, "p:b:g:l:oqtz")) != -1) {
		switch (c) {
		case 'p':
			profile = optarg;
			break;
		case 'b':
			blocks = strtoull(optarg, NULL, 0);
			break;
		case 'g':
			file = optarg;
			break;
		case 'l':
			lookahead = atol(optarg);
			break;
		case 'o':
			open_loop = true;
			break;
		case 'q':
			quiet = true;
			break;
		case 't':
			target = true;
			break;
		case 'z':
			zones = true;
			break;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (!profile == !file)
		die("give either -p or -g", NULL);
	if (zones && !profile)
		die("-z requires -p", NULL);
	if (profile)
		use_profile(profile, blocks);
	else
		read_geometry(file);
	if (profile)
		target = true;
	else if (target)
		use_target();
	if (zones) {
		show_zones();
		return 0;
	}
	if ((lookahead >= 0 || open_loop) && !target)
		die("-l and -o require -p or -t", NULL);
	if (lookahead >= 0)
		mech.lookahead_blocks = lookahead;
	if (optind < argc && !(in = fopen(argv[optind], "r")))
		die("cannot open", argv[optind]);

	while (fgets(line, sizeof(line), in)) {
		struct platter_service svc;
		double time_us;
		char op;
		u64 blk, n, limit, arrival, done;
		bool hit;

		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "%lf %c %llu %llu", &time_us, &op, &blk, &n) != 4 ||
		    time_us < 0 || (op != 'r' && op != 'w') || !n)
			die("not a request", line);
		limit = profile ? geo.blocks : drive.map.lbns;
		if (blk >= limit || n > limit - blk || n > DRIVE_MAX_REQUEST) {
			skipped++;
			continue;
		}
		arrival = (open_loop ? 0 : clock) + (u64)(time_us * 1000);
		if (target) {
			if (file)
				blk = drive_span(&drive, blk, &n);
			done = serve(arrival, op == 'w', blk, n, &svc, &hit);
		} else {
			struct drive_answer a;

			drive_serve(&drive, arrival, op == 'w', blk, n, &a);
			svc.seek_ns = a.seek_ns;
			svc.rotation_ns = a.rotation_ns;
			svc.transfer_ns = a.transfer_ns;
			done = a.done_ns;
			hit = a.hit;
		}
		clock = done;
		total += done - arrival;
		count++;
		if (!quiet)
			printf("%.3f %.3f %.3f %.3f %.3f %c\n", arrival / 1e3,
			       (done - arrival) / 1e3, svc.seek_ns / 1e3,
			       svc.rotation_ns / 1e3, svc.transfer_ns / 1e3,
			       hit ? 'h' : 'm');
	}
	fprintf(stderr, "%llu requests, mean %.3f ms", count,
		count ? total / 1e6 / count : 0.0);
	if (skipped)
		fprintf(stderr, ", %llu beyond the drive", skipped);
	fprintf(stderr, "\n");
	return 0;
}
