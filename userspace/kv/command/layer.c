// SPDX-License-Identifier: GPL-2.0
/* The band size of a layer of this suite below the store. */
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "dm.h"

/* Find the device node of a device that a table names by its numbers. */
static bool node_of(const char *numbers, char *path, size_t size)
{
	char name[128], line[256], node[200] = "";
	FILE *f;

	snprintf(name, sizeof(name), "/sys/dev/block/%.32s/uevent", numbers);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "DEVNAME=%199s", node);
	if (f)
		fclose(f);
	snprintf(path, size, "/dev/%s", node);
	return *node;
}

/*
 * Read the layout of a layer from its superblock.  Return: false without a message if there is
 * none.
 */
static bool layout_below(const struct dm_line *line, struct shingle_layout *l)
{
	char data[33], cache[33], meta[33], path[256];
	struct devices ds = { .progress = NULL };
	const char *why = "";
	struct shingle_reader r;
	bool ok;

	if (sscanf(line->params, "%32s %32s %32s", data, cache, meta) != 3 ||
	    !node_of(strcmp(meta, "-") ? meta : data, path, sizeof(path)) ||
	    access(path, R_OK))
		return false;
	if (!device_open(&ds.dev[SHINGLE_DEV_DATA], "DEVICE", path, DEVICE_LOOK))
		return false;
	r = devices_reader(&ds);
	ok = !shingle_load_sb(&r, SHINGLE_DEV_DATA, ds.dev[SHINGLE_DEV_DATA].blocks, l, &why) &&
	     !strcmp(l->engine, line->target) && strcmp(l->engine, "tiler") &&
	     l->logical_blocks << 3 == line->sectors;
	device_close(&ds.dev[SHINGLE_DEV_DATA]);
	return ok;
}

/**
 * layer_bands() - find the size of bands that suits the layer below a store
 * @path: the device of the store
 * @bytes: result
 * @layer: result: name of the layer
 * @size: size of @layer
 *
 * It is the size of the layer's own bands if a store can have it, else a multiple of it.  Tracks of
 * an interlaced disk are small, so a band has many of them.  Regions of tiler are not used: they
 * present less than they have, and a block may be anywhere in a region.
 *
 * Return: False if there is no layer of this suite, or no size suits.
 */
bool layer_bands(const char *path, u32 *bytes, char *layer, size_t size)
{
	struct shingle_layout *l;
	struct dm_line line;
	struct stat st;
	u64 unit = 0, n = 1;

	if (stat(path, &st) || !S_ISBLK(st.st_mode) || !dm_device_at(st.st_rdev, &line))
		return false;
	l = shingle_zalloc_array(1, sizeof(*l));
	if (l && layout_below(&line, l))
		unit = (u64)l->band_blocks[SHINGLE_ROLE_DATA] << SHINGLE_BLOCK_SHIFT;
	if (unit && l->interlaced)
		n = max_t(u64, 1, min_t(u64, KV_BAND_USUAL, (line.sectors << 9) / 64) / unit);
	if (unit && unit * n < KV_BAND_MIN)
		n = (KV_BAND_MIN + unit - 1) / unit;
	snprintf(layer, size, "%s", line.target);
	kvfree(l);
	dm_line_free(&line);
	*bytes = (u32)(unit * n);
	return unit && unit * n <= KV_BAND_MAX;
}
