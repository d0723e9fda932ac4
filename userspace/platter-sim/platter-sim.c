// SPDX-License-Identifier: GPL-2.0
/*
 * Feeds dm-platter's mechanics a list of requests, offline.
 *
 *   platter-sim [-p PROFILE [-b BLOCKS] | -g FILE] [-l BLOCKS] [-o] [-q] [REQUESTS]
 *
 * A request is a line "TIME r|w BLOCK COUNT": TIME in microseconds is the think
 * time since the last completion, or with -o the time of arrival.  The answer is
 * a line "ARRIVAL_US SERVICE_US SEEK_US ROTATION_US TRANSFER_US h|m", h for what
 * was in the buffer; with -q there is none but the mean.  -b: the drive has so many
 * blocks; -l: a look-ahead segment has so many, 0: no look-ahead.
 *
 * A geometry file has lines of words, numbers in the drive's own sectors and in
 * nanoseconds; # begins a comment:
 *   rotation_ns N          surfaces N
 *   zone CYLINDERS TRACK_SECTORS TRACK_SKEW CYLINDER_SKEW [FIRST_BLOCK_OFFSET]
 *   seek DISTANCE NS       (ascending; or seek_min_ns, seek_avg_ns, seek_max_ns)
 *   head_switch_ns N       write_settle_ns N (may be negative)
 *   read_overhead_ns N     write_overhead_ns N
 *   read_hit_overhead_ns N write_hit_overhead_ns N
 *   bus_sector_ns N        overlap_bus 0|1 (a read's bus transfer hides under
 *                          the media transfer but for the last sector)
 *   segments N             segment_sectors N
 *   write_cache 0|1        (a write is done when the drive has it)
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiles.h"

static struct platter_geo geo;
static struct platter_mech mech;
static s64 write_settle_ns;
static u64 read_hit_ns, write_hit_ns;
static u64 bus_ns;
static int overlap_bus = 1, write_cache;
static u32 zone_offset[PLATTER_MAX_ZONES];
static bool have_offset;

static void die(const char *what, const char *detail)
{
	fprintf(stderr, "platter-sim: %s%s%s\n", what, detail ? ": " : "",
		detail ? detail : "");
	exit(2);
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
		unsigned long long a = 0, b = 0, c = 0, d = 0, e = 0;
		long long s = 0;
		struct platter_zone *z = &geo.zone[geo.nr_zones];
		int n;

		if (sscanf(line, "%63s", key) != 1 || key[0] == '#')
			continue;
		n = sscanf(line, "%*s %llu %llu %llu %llu %llu", &a, &b, &c, &d, &e);
		sscanf(line, "%*s %lld", &s);
		if (!strcmp(key, "zone") && n >= 4 && geo.nr_zones < PLATTER_MAX_ZONES) {
			z->cyls = a;
			z->track_blocks = b;
			z->head_skew_units = c;
			z->group_skew_units = d;
			z->swath_cyls = 1;
			zone_offset[geo.nr_zones++] = n > 4 ? e : 0;
			have_offset |= n > 4;
		} else if (!strcmp(key, "seek") && n == 2 &&
			   mech.seek.nr < PLATTER_MAX_SEEK_POINTS) {
			mech.seek.point[mech.seek.nr].distance = a;
			mech.seek.point[mech.seek.nr++].ns = b;
		} else if (!strcmp(key, "write_settle_ns")) {
			write_settle_ns = s;
		} else if (n < 1) {
			die("not understood", line);
		} else if (!strcmp(key, "rotation_ns")) {
			geo.rot_ns = a;
		} else if (!strcmp(key, "surfaces")) {
			geo.surfaces = a;
		} else if (!strcmp(key, "seek_min_ns")) {
			mech.seek.min_ns = a;
		} else if (!strcmp(key, "seek_avg_ns")) {
			mech.seek.avg_ns = a;
		} else if (!strcmp(key, "seek_max_ns")) {
			mech.seek.max_ns = a;
		} else if (!strcmp(key, "head_switch_ns")) {
			mech.head_switch_ns = a;
		} else if (!strcmp(key, "read_overhead_ns")) {
			mech.overhead_ns = a;
		} else if (!strcmp(key, "write_overhead_ns")) {
			mech.write_overhead_ns = a;
		} else if (!strcmp(key, "read_hit_overhead_ns")) {
			read_hit_ns = a;
		} else if (!strcmp(key, "write_hit_overhead_ns")) {
			write_hit_ns = a;
		} else if (!strcmp(key, "bus_sector_ns")) {
			bus_ns = a;
		} else if (!strcmp(key, "overlap_bus")) {
			overlap_bus = a;
		} else if (!strcmp(key, "segments")) {
			mech.nr_segments = a;
		} else if (!strcmp(key, "segment_sectors")) {
			mech.lookahead_blocks = a;
		} else if (!strcmp(key, "write_cache")) {
			write_cache = a;
		} else {
			die("not understood", line);
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
	mech.bus_block_ns = bus_ns;
	if (write_settle_ns > 0)
		mech.write_settle_ns = write_settle_ns;
	platter_mech_init(&mech, &geo);
}

static void use_profile(const char *name, u64 blocks)
{
	static struct platter_config cfg;
	const struct platter_profile *p = platter_profile_find(name);
	const char *error = "";

	if (!p)
		die("no such profile", name);
	cfg.profile = *p;
	cfg.blocks = blocks ? blocks : p->sectors / 8;
	cfg.swath_tracks = PLATTER_AUTO;
	cfg.track_skew_sectors = PLATTER_AUTO;
	cfg.head_skew_sectors = PLATTER_AUTO;
	cfg.time_permille = 1000;
	if (platter_config_build(&cfg, &geo, &mech, &error))
		die(name, error);
	bus_ns = mech.bus_block_ns;
	read_hit_ns = mech.overhead_ns;
	write_hit_ns = mech.write_overhead_ns;
}

/*
 * Reads settle, writes settle for longer; a drive measured by its writes has a
 * seek table that must be shortened for a write's sake when the time is negative.
 */
static u64 write_shift(void)
{
	return write_settle_ns < 0 ? -write_settle_ns : 0;
}

static u64 serve(u64 arrival, bool write, u64 blk, u64 n, struct platter_service *svc,
		 bool *hit)
{
	u64 bus = n * bus_ns, start, done;

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
		return svc->finish_ns + (overlap_bus ? bus_ns : bus);
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
	if (write_shift() && start > write_shift())
		start -= write_shift();
	platter_mech_service(&mech, start, blk, n, true, svc);
	return svc->finish_ns;
}

int main(int argc, char **argv)
{
	const char *profile = NULL, *file = NULL;
	u64 blocks = 0, clock = 0, count = 0, skipped = 0, total = 0;
	long lookahead = -1;
	bool open_loop = false, quiet = false;
	char line[256];
	FILE *in = stdin;
	int c;

	while ((c = getopt(argc, argv, "p:b:g:l:oq")) != -1) {
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
		default:
			fprintf(stderr, "usage: platter-sim [-p PROFILE [-b BLOCKS] | -g FILE] [-l BLOCKS] [-o] [-q] [REQUESTS]\n");
			return 2;
		}
	}
	if (!profile == !file)
		die("give one of -p and -g", NULL);
	if (profile)
		use_profile(profile, blocks);
	else
		read_geometry(file);
	if (lookahead >= 0)
		mech.lookahead_blocks = lookahead;
	if (optind < argc && !(in = fopen(argv[optind], "r")))
		die("cannot open", argv[optind]);

	while (fgets(line, sizeof(line), in)) {
		struct platter_service svc;
		double time_us;
		char op;
		u64 blk, n, arrival, done;
		bool hit;

		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "%lf %c %" SCNu64 " %" SCNu64, &time_us, &op, &blk, &n) != 4 ||
		    time_us < 0 || (op != 'r' && op != 'w') || !n)
			die("not a request", line);
		if (blk >= geo.blocks || n > geo.blocks - blk) {
			skipped++;
			continue;
		}
		arrival = (open_loop ? 0 : clock) + (u64)(time_us * 1000);
		done = serve(arrival, op == 'w', blk, n, &svc, &hit);
		clock = done;
		total += done - arrival;
		count++;
		if (!quiet)
			printf("%.3f %.3f %.3f %.3f %.3f %c\n", arrival / 1e3,
			       (done - arrival) / 1e3, svc.seek_ns / 1e3,
			       svc.rotation_ns / 1e3, svc.transfer_ns / 1e3,
			       hit ? 'h' : 'm');
	}
	fprintf(stderr, "%" PRIu64 " requests, mean %.3f ms", count,
		count ? total / 1e6 / count : 0.0);
	if (skipped)
		fprintf(stderr, ", %" PRIu64 " beyond the drive", skipped);
	fprintf(stderr, "\n");
	return 0;
}
