// SPDX-License-Identifier: GPL-2.0
/* One model, told what happens to files line by line; each step in events. */
#include "run.h"

/**
 * struct traced - a file of the trace
 * @id: as the trace calls it
 * @track: its tracks
 * @tracks: how many; 0 when it was deleted
 */
struct traced {
	u64 id;
	u32 *track;
	u32 tracks;
};

static void print_event(void *ctx, char op, u32 track)
{
	if (op == 'S')
		printf(" S");
	else
		printf(" %c%u", op, track);
}

static struct traced *find(struct traced *list, u32 n, u64 id)
{
	u32 i;

	/* Files are deleted soon after they were written, mostly. */
	for (i = n; i--; ) {
		if (list[i].id == id && list[i].tracks)
			return &list[i];
	}
	return NULL;
}

static void do_write(struct model *m, struct traced *f, u64 id, u32 level, u32 tracks)
{
	struct model_stats before = m->stats;
	u64 syncs = model_syncs(m);
	u32 i;

	f->id = id;
	f->tracks = tracks;
	f->track = calloc(tracks, sizeof(*f->track));
	assert(f->track);
	if (model_allocate(m, level, f->track, tracks)) {
		free(f->track);
		f->track = NULL;
		f->tracks = 0;
		printf("%llu no room\n", id);
		return;
	}
	printf("%llu tracks", id);
	for (i = 0; i < tracks; i++)
		printf("%c%u", i ? ',' : ' ', f->track[i]);
	printf(" events");
	model_persist(m, f->track, tracks);
	printf(" rewrites %llu syncs %llu\n", m->stats.rewrites - before.rewrites,
	       model_syncs(m) - syncs);
}

/**
 * trace() - run a model over lines
 * @in: "write ID LEVEL TRACKS", "delete ID", "relevel ID LEVEL", one a line
 * @opt: the model
 * @tracks: of its disk
 *
 * For each write a line is printed: the tracks, what was done in order, and
 * how many rewrites and syncs that makes.  Returns 0 or a negative errno after
 * saying what is wrong.
 */
int trace(FILE *in, const struct model_options *opt, u32 tracks)
{
	struct traced *list = NULL, *f;
	u32 n = 0, max = 0, level, count, nr = 0;
	struct model m;
	char line[128];
	int err = model_init(&m, opt, tracks);
	u64 id;

	m.event = print_event;
	while (!err && fgets(line, sizeof(line), in)) {
		nr++;
		if (line[strspn(line, " \t\n")] == '\0')
			continue;
		if (n == max) {
			max = 2 * max + 64;
			list = realloc(list, max * sizeof(*list));
			assert(list);
		}
		if (sscanf(line, "write %llu %u %u", &id, &level, &count) == 3 && count &&
		    level < MODEL_LEVELS) {
			do_write(&m, &list[n++], id, level, count);
			continue;
		}
		f = sscanf(line, "%*s %llu", &id) == 1 ? find(list, n, id) : NULL;
		if (f && sscanf(line, "relevel %*u %u", &level) == 1 && level < MODEL_LEVELS) {
			model_relevel(&m, f->track, f->tracks, level);
		} else if (f && !strncmp(line, "delete ", 7)) {
			model_free(&m, f->track, f->tracks);
			free(f->track);
			*f = list[--n];
		} else {
			line[strcspn(line, "\n")] = '\0';
			fail("line %u, '%s', is not 'write ID LEVEL TRACKS', 'delete ID' or 'relevel ID LEVEL' of a file that is there",
			     nr, line);
			err = -EINVAL;
		}
	}
	while (n)
		free(list[--n].track);
	free(list);
	model_exit(&m);
	return err;
}
