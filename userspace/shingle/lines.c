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
