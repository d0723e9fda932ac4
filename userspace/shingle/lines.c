// SPDX-License-Identifier: GPL-2.0
/* The status lines of the targets, parsed. */
#include "engines.h"
#include "lines.h"

/* True for a translation layer and for a medium. */
bool target_is_ours(const char *target)
{
	return engine_by_name(target) || target_is_platter(target);
}

/**
 * line_of_ours() - query the status of a device that must be one of dm-shingle
 * @name: its name
 * @line: result, to be freed with dm_line_free()
 *
 * Return: true, or false after printing an error.
 */
bool line_of_ours(const char *name, struct dm_line *line)
{
	if (!dm_device_status(name, line))
		return false;
	if (target_is_ours(line->target))
		return true;
	fail("%s is a device of type '%s', not of dm-shingle", name, line->target);
	dm_line_free(line);
	return false;
}

struct visitor {
	void (*fn)(const struct dm_line *line, void *ctx);
	void *ctx;
	bool all;
};

static int visit(const char *name, void *ctx)
{
	struct visitor *v = ctx;
	struct dm_line line;

	if (!dm_device_status(name, &line)) {
		v->all = false;
		return 0;
	}
	if (target_is_ours(line.target))
		v->fn(&line, v->ctx);
	dm_line_free(&line);
	return 0;
}

/**
 * for_each_of_ours() - visit the status of each open device of dm-shingle
 * @fn: called for each device
 * @ctx: passed to @fn
 * @all: result: false if the status of a device could not be read, after printing an error.  A
 *	device that is being closed may not answer; the others are visited.  May be NULL
 *
 * Return: true, or false after printing an error.
 */
bool for_each_of_ours(void (*fn)(const struct dm_line *line, void *ctx), void *ctx, bool *all)
{
	struct visitor v = { .fn = fn, .ctx = ctx, .all = true };
	bool ok = dm_for_each(visit, &v);

	if (all)
		*all = v.all;
	return ok;
}

/**
 * line_is_layer() - parse the status line of a translation layer
 * @line: status of a device
 * @s: result
 *
 * Return: true, or false if the device is none, or its line has another form.
 */
bool line_is_layer(const struct dm_line *line, struct layer_status *s)
{
	return engine_by_name(line->target) &&
	       sscanf(line->params, "%llu/%llu %llu/%llu %llu %15s %15s %15s", &s->cached,
		      &s->capacity, &s->journal_used, &s->journal, &s->steps, s->cleaning,
		      s->needs_check, s->mode) == 8;
}

/**
 * line_is_platter() - parse the status line of a platter
 * @line: status of a device
 * @s: result
 *
 * Return: true, or false if the device is none, or its line has another form.
 */
bool line_is_platter(const struct dm_line *line, struct platter_status *s)
{
	return target_is_platter(line->target) &&
	       sscanf(line->params, "%15s %15s %llu %llu %llu %llu %llu %llu %llu %u/%u %15s",
		      s->media, s->damage, &s->reads, &s->writes, &s->blocks_read,
		      &s->blocks_written, &s->damaged, &s->destroyed_reads, &s->late, &s->dirty,
		      &s->wcache, s->mode) == 12;
}
