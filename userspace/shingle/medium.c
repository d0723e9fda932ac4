// SPDX-License-Identifier: GPL-2.0
/* What kind of medium is a device?  A dm `platter' device says it itself. */
#include "medium.h"
#include "dm.h"

static bool add_run(struct plan_medium *m, u64 start, u64 tracks, u32 track_blocks, char *why)
{
	struct plan_run *last = m->nr_runs ? &m->runs[m->nr_runs - 1] : NULL;
	u64 end = last ? last->start + last->tracks * last->track_blocks : 0;

	if (start != end || !track_blocks || tracks > m->blocks) {
		snprintf(why, PLAN_WHY, "its tracks do not follow each other at block %llu", start);
		return false;
	}
	/* The device may end inside its last track. */
	if (start + tracks * track_blocks > m->blocks)
		tracks = (m->blocks - start) / track_blocks;
	if (!tracks)
		return true;
	if (last && last->track_blocks == track_blocks) {
		last->tracks += tracks;
		return true;
	}
	if (m->nr_runs == PLAN_MAX_RUNS) {
		snprintf(why, PLAN_WHY, "its tracks change their length more than %u times, and a superblock has no room for that",
			 (u32)PLAN_MAX_RUNS);
		return false;
	}
	m->runs[m->nr_runs++] = (struct plan_run){ start, tracks, track_blocks };
	return true;
}

/**
 * struct side - which tracks lie side by side
 * @zone: of the last run line
 * @surface: of it
 * @outward: it goes to the outer diameter
 * @odd: so far an odd number of tracks do: the next one of them is a top
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
 * Where tracks of another surface, zone or direction begin, bottoms and tops do so
 * anew: behind an odd number of them two bottoms would follow each other.
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
		snprintf(why, PLAN_WHY, "behind an odd number of interlaced tracks at block %llu a bottom follows a bottom: give it surfaces 1, or even numbers of tracks in zones and swaths",
			 s->start);
		return false;
	}
	*s = now;
	return true;
}

/**
 * medium_parse() - understand platter's answer to `geometry'
 * @reply: the lines
 * @m: result; @m->blocks is what the device has
 * @head_tracks: result
 * @why: PLAN_WHY bytes; on error, a sentence tail
 *
 * Context: any.  Returns whether it was understood.
 */
bool medium_parse(const char *reply, struct plan_medium *m, u32 *head_tracks, char *why)
{
	struct side side = { 0 };
	const char *line;

	*head_tracks = 0;
	m->nr_runs = 0;
	m->interlaced = false;
	for (line = reply; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		unsigned long long start, tracks;
		unsigned int n;

		m->interlaced |= !strncmp(line, "media imr", 9);
		if (sscanf(line, "window_tracks %u", &n) == 1)
			*head_tracks = n + 1;
		else if (sscanf(line, "run %llu %llu %u", &start, &tracks, &n) == 3 &&
			 (!add_run(m, start, tracks, n, why) ||
			  (m->interlaced && !keeps_turns(&side, line, start, tracks, why))))
			return false;
	}
	/* There the head harms both sides, which is another matter. */
	if (m->interlaced)
		*head_tracks = 1;
	if (*head_tracks && m->nr_runs)
		return true;
	snprintf(why, PLAN_WHY, "its answer to 'geometry' lacks window_tracks or runs");
	return false;
}

/**
 * medium_read() - take a device's tracks from a file
 * @path: of a file with what a platter answers to `geometry'
 * @d: the device
 * @m: result
 * @head_tracks: result
 *
 * Returns false after saying what is wrong.
 */
bool medium_read(const char *path, const struct device *d, struct plan_medium *m, u32 *head_tracks)
{
	char why[PLAN_WHY] = "", *text = NULL;
	FILE *f = fopen(path, "re");
	size_t room = 0;
	bool ok;

	if (!f) {
		fail("--geometry %s: %s: give auto, none, or the name of a file", path,
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
 * medium_ask() - find out a device's tracks
 * @d: the device
 * @m: result; no tracks unless it is a platter
 * @head_tracks: result, 1 unless it is a platter
 *
 * Returns false after saying what is wrong.
 */
bool medium_ask(const struct device *d, struct plan_medium *m, u32 *head_tracks)
{
	char why[PLAN_WHY] = "", *reply;
	struct dm_line line;
	bool ok;

	plan_no_tracks(m, d->blocks);
	*head_tracks = 1;
	if (!d->is_block || !dm_device_at(d->rdev, &line))
		return true;
	if (strcmp(line.target, "platter")) {
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
