// SPDX-License-Identifier: GPL-2.0
/* Find the tracks of a medium: a dm `platter' device describes them itself. */
#include "plan.h"
#include "dm.h"
#include "lines.h"

/* Append a run of tracks.  A medium that only lists runs gets a zone for each change of length. */
static bool add_run(struct shingle_medium *m, u64 start, u64 tracks, u32 track_blocks, char *why)
{
	struct platter_geo *geo = &m->geo;
	struct platter_zone *last = geo->nr_zones ? &geo->zone[geo->nr_zones - 1] : NULL;

	if (start != geo->blocks || !track_blocks || tracks > m->blocks) {
		snprintf(why, PLAN_WHY, "its tracks do not follow each other at block %llu", start);
		return false;
	}
	/* The device may end inside its last track. */
	if (start >= m->blocks || !tracks)
		return true;
	geo->blocks += tracks * track_blocks;
	if (last && last->track_blocks == track_blocks) {
		last->cyls += tracks;
		return true;
	}
	if (geo->nr_zones == PLATTER_MAX_ZONES) {
		snprintf(why, PLAN_WHY, "its tracks change their length more than %u times, and it gives no surfaces and densities",
			 PLATTER_MAX_ZONES);
		return false;
	}
	geo->zone[geo->nr_zones].cyls = tracks;
	geo->zone[geo->nr_zones++].track_blocks = track_blocks;
	return true;
}

/* Parse the density of each surface, in per mille of the zone's track length. */
static bool take_densities(struct platter_geo *geo, const char *text)
{
	char *end;
	u32 i;

	for (i = 0; *text == ' '; i++, text = end) {
		unsigned long v = strtoul(text, &end, 10);

		if (end == text + 1 || i == PLATTER_MAX_SURFACES || !v || v > SHINGLE_MAX_DENSITY)
			return false;
		geo->density[i] = v;
	}
	return i == geo->surfaces;
}

/* Parse the head width in tracks, with up to three decimals, into 1/1000 tracks. */
static bool take_head(struct platter_geo *geo, const char *text)
{
	char digits[4] = "000";
	unsigned int tracks, i;
	int n = 0;

	if (sscanf(text, "%u%n", &tracks, &n) != 1 || tracks > PLATTER_MAX_HEAD_MTRACKS / 1000)
		return false;
	text += n;
	if (*text == '.') {
		for (i = 0, text++; i < 3 && *text >= '0' && *text <= '9'; i++)
			digits[i] = *text++;
		if (!i)
			return false;
	}
	geo->head_mtracks = tracks * 1000 + (u32)strtoul(digits, NULL, 10);
	return *text == '\0' || *text == '\n';
}

/*
 * Parse a line of the description.  @found collects what has been found: 1 densities, 2 zones,
 * 4 an error, 8 the head width.  Returns false on an error.
 */
static bool take_line(struct platter_geo *geo, const char *line, u32 *found)
{
	struct platter_zone *z = &geo->zone[geo->nr_zones];
	unsigned long long start, blocks;
	unsigned int a;

	if (sscanf(line, "blocks %llu", &start) == 1)
		geo->blocks = start;
	else if (!strncmp(line, "head_tracks ", 12))
		*found |= take_head(geo, line + 12) ? 8 : 4;
	else if (sscanf(line, "surfaces %u", &a) == 1)
		geo->surfaces = a;
	else if (!strncmp(line, "media smr", 9))
		geo->media = PLATTER_SMR;
	else if (!strncmp(line, "media imr", 9))
		geo->media = PLATTER_IMR;
	else if (!strncmp(line, "density ", 8))
		*found |= take_densities(geo, line + 7) ? 1 : 4;
	else if (sscanf(line, "conventional %llu %llu", &start, &blocks) == 2) {
		if (geo->nr_conv == PLATTER_MAX_CONV)
			return false;
		geo->conv[geo->nr_conv].start_blk = start;
		geo->conv[geo->nr_conv++].blocks = blocks;
	} else if (!strncmp(line, "zone ", 5)) {
		if (geo->nr_zones == PLATTER_MAX_ZONES ||
		    sscanf(line, "zone %*u %*u %*u %u %u %u %u %*u", &z->cyls, &z->track_blocks,
			   &z->swath_cyls, &z->track_skew_units) != 4)
			return false;
		geo->nr_zones++;
		*found |= 2;
	}
	return !(*found & 4);
}

static const char *next_line(const char *line)
{
	line = strchr(line, '\n');
	return line ? line + 1 : NULL;
}

/*
 * Parse a complete description, as platter gives it.  Returns 1, 0 if it is not complete, or
 * -EINVAL with @why.
 */
static int take_description(const char *reply, struct shingle_medium *m, char *why)
{
	const char *line, *what = "its zones or its head are not valid";
	u32 found = 0;

	for (line = reply; line; line = next_line(line)) {
		if (!take_line(&m->geo, line, &found)) {
			snprintf(why, PLAN_WHY, "%s", what);
			return -EINVAL;
		}
	}
	/* On CMR, surfaces may alternate every few tracks: use the runs, not the zones. */
	if (found != 11 || m->geo.media == PLATTER_CMR)
		return 0;
	m->columns = true;
	if (shingle_medium_init(m, &what)) {
		snprintf(why, PLAN_WHY, "%s", what);
		return -EINVAL;
	}
	return 1;
}

/* Check that a run line agrees with the zones. */
static bool same_run(const struct shingle_medium *m, u64 start, u32 track_blocks, char *why)
{
	struct platter_run run;

	if (start >= m->geo.blocks ||
	    (platter_geo_run(&m->geo, start, &run) && run.start_blk == start &&
	     run.track_blocks == track_blocks))
		return true;
	snprintf(why, PLAN_WHY, "its zones and its runs do not agree at block %llu", start);
	return false;
}

/**
 * struct side - state of the check of adjacent tracks
 * @zone: zone of the last run line
 * @surface: surface of the last run line
 * @outward: the last run goes to the outer diameter
 * @odd: the number of tracks so far is odd, so the next one is a top
 * @start: first block of the last run line
 */
struct side {
	unsigned int zone;
	int surface;
	bool outward;
	bool odd;
	unsigned long long start;
};

/*
 * Check that bottoms and tops alternate.  The alternation restarts where the surface, the
 * zone or the direction changes, so an odd number of tracks in front of that point would put
 * two bottoms side by side.
 */
static bool keeps_turns(struct side *s, const char *line, u64 start, u64 tracks, char *why)
{
	struct side now = { .start = start };
	char way[4] = "";

	if (sscanf(line, "run %*u %*u %*u %u %d %*u %3s", &now.zone, &now.surface, way) != 3)
		now.surface = -1;
	now.outward = !strcmp(way, "out");
	now.odd = tracks & 1;
	if (start && now.surface >= 0 && now.zone == s->zone && now.surface == s->surface &&
	    now.outward == s->outward) {
		now.odd ^= s->odd;
	} else if (start && s->odd) {
		snprintf(why, PLAN_WHY, "after an odd number of interlaced tracks at block %llu a bottom follows a bottom: use surfaces 1, or even numbers of tracks in zones and swaths",
			 s->start);
		return false;
	}
	*s = now;
	return true;
}

/**
 * medium_parse() - parse platter's answer to `geometry'
 * @reply: the lines
 * @m: result; @m->blocks is the size of the device
 * @head_tracks: result
 * @why: PLAN_WHY bytes; on error, a sentence tail
 *
 * Lines `run' suffice, but then it is unknown which blocks lie side by side.
 *
 * Context: Any context.
 *
 * Return: true, or false on an error.
 */
bool medium_parse(const char *reply, struct shingle_medium *m, u32 *head_tracks, char *why)
{
	struct side side = { 0 };
	const char *line, *what;
	bool interlaced;
	int described;

	*head_tracks = 0;
	plan_no_tracks(m, m->blocks);
	described = take_description(reply, m, why);
	if (described < 0)
		return false;
	interlaced = m->geo.media == PLATTER_IMR;
	if (!described) {
		plan_no_tracks(m, m->blocks);
		m->geo.surfaces = 1;
		m->geo.media = interlaced ? PLATTER_IMR : PLATTER_SMR;
	}
	for (line = reply; line; line = next_line(line)) {
		unsigned long long start, tracks;
		unsigned int n;

		if (sscanf(line, "window_tracks %u", &n) == 1)
			*head_tracks = n + 1;
		else if (sscanf(line, "run %llu %llu %u", &start, &tracks, &n) == 3 &&
			 (!(described ? same_run(m, start, n, why) :
					add_run(m, start, tracks, n, why)) ||
			  (interlaced && !keeps_turns(&side, line, start, tracks, why))))
			return false;
	}
	if (!described && shingle_medium_init(m, &what)) {
		snprintf(why, PLAN_WHY, "%s", what);
		return false;
	}
	/* On interlaced tracks the layout itself protects both neighbours of a track. */
	if (interlaced)
		*head_tracks = 1;
	if (*head_tracks && shingle_medium_has_tracks(m))
		return true;
	snprintf(why, PLAN_WHY, "its answer to 'geometry' lacks window_tracks or runs");
	return false;
}

/**
 * medium_read() - read a device's tracks from a file
 * @path: file with a platter's answer to `geometry'
 * @d: the device
 * @m: result
 * @head_tracks: result
 *
 * Return: true, or false after printing an error.
 */
bool medium_read(const char *path, const struct device *d, struct shingle_medium *m, u32 *head_tracks)
{
	char why[PLAN_WHY] = "", *text = NULL;
	FILE *f = fopen(path, "re");
	size_t room = 0;
	bool ok;

	if (!f) {
		fail("--geometry %s: %s: use auto, pack, none, or the name of a file", path,
		     strerror(errno));
		return false;
	}
	ok = getdelim(&text, &room, '\0', f) > 0;
	plan_no_tracks(m, d->blocks);
	if (!ok)
		snprintf(why, sizeof(why), "it is empty");
	ok = ok && medium_parse(text, m, head_tracks, why);
	if (!ok)
		fail("--geometry %s: %s", path, why);
	free(text);
	fclose(f);
	return ok;
}

/**
 * medium_ask() - query a device's tracks
 * @d: the device
 * @m: result; no tracks unless the device is a platter
 * @head_tracks: result, 1 unless the device is a platter
 *
 * Return: true, or false after printing an error.
 */
bool medium_ask(const struct device *d, struct shingle_medium *m, u32 *head_tracks)
{
	char why[PLAN_WHY] = "", *reply;
	struct dm_line line;
	bool ok;

	plan_no_tracks(m, d->blocks);
	*head_tracks = 1;
	if (!d->is_block || !dm_device_at(d->rdev, &line))
		return true;
	if (!target_is_platter(line.target)) {
		dm_line_free(&line);
		return true;
	}
	reply = dm_device_message(line.name, "geometry");
	ok = reply && medium_parse(reply, m, head_tracks, why);
	if (reply && !ok)
		fail("%s %s is a platter, but %s: choose another medium, or --geometry none",
		     d->arg, d->path, why);
	free(reply);
	dm_line_free(&line);
	return ok;
}
