// SPDX-License-Identifier: GPL-2.0
/* The layers that are explored, see layers.h. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layers.h"
#include "format/format.h"
#include "format/layout.h"

#undef snprintf

#define K	(1024 / 4)	/* blocks of 1 MiB */

const struct layer layers[] = {
	{ .name = "stl-set", .target = "stl-set", .blocks = { 2 * K }, .track_blocks = 4,
	  .head_tracks = 2,
	  .format = "--band 32K --cache-size 20% --journal 128K --track 16K",
	  .keys = { "", "cleaning aggressive", "order greedy", "bypass_blocks 1",
		    "bypass_blocks 4 cleaning aggressive", "read_home always",
		    "bypass_blocks 2 read_home always", "rmw block" },
	  .turns = { "cleaning lazy", "cleaning aggressive", "order fifo", "order greedy",
		     "bypass_blocks 0", "bypass_blocks 4", "read_home needed",
		     "read_home always", "rmw band", "rmw block" } },
	{ .name = "stl-set-flat", .target = "stl-set", .blocks = { 2 * K, 0, 1 * K },
	  .format = "--band 36K --cache-size 4b --journal 128K --geometry none --set-shift 1",
	  .keys = { "", "cleaning aggressive", "bypass_blocks 2" },
	  .turns = { "cleaning lazy", "cleaning aggressive" } },
	{ .name = "stl-full", .target = "stl-full", .blocks = { 2 * K }, .track_blocks = 4,
	  .head_tracks = 2, .format = "--band 32K --journal 128K --track 16K --zone-bands 12",
	  .keys = { "", "order greedy", "threshold 1", "read_home always",
		    "cleaning aggressive" },
	  .turns = { "cleaning lazy", "cleaning aggressive", "order fifo", "order greedy",
		     "threshold 1", "read_home needed", "read_home always" } },
	{ .name = "stl-log", .target = "stl-log", .blocks = { 2 * K }, .track_blocks = 4,
	  .head_tracks = 2, .format = "--band 64K --journal 128K --track 16K",
	  .keys = { "", "clean greedy", "threshold 3",
		    "defrag_frags 2 defrag_hits 1 defrag_blocks 64",
		    "look_behind 4 look_ahead 4 look_regions 4",
		    "selective on read_cache_kb 64",
		    "defrag_frags 2 defrag_hits 1 defrag_blocks 64 look_behind 2 look_ahead 2 look_regions 2 selective on read_cache_kb 128" },
	  .turns = { "clean greedy", "clean cost-benefit", "threshold 2", "threshold 3",
		     "defrag_frags 2", "defrag_frags 0", "selective off", "selective on" } },
	{ .name = "stl-log-home", .target = "stl-log", .blocks = { 3 * K, 0, 1 * K },
	  .format = "--band 64K --journal 128K --geometry none --home-bands 20 --extents 300",
	  .keys = { "", "clean greedy", "selective on read_cache_kb 64" },
	  .turns = { "clean greedy", "clean cost-benefit" } },
	{ .name = "imr", .target = "imr", .blocks = { 2 * K, 0, 1 * K }, .gathers = true,
	  .track_blocks = 8, .interlaced = true,
	  .format = "--track 32K --journal 128K",
	  .keys = { "", "rmw naive partial level", "policy seq rmw naive adjsync needed",
		    "policy 3phase overwrite move", "policy zigzag start first syncs literal",
		    "level lba overwrite move rmw naive" },
	  .turns = { "policy seq", "policy 3phase", "policy zigzag", "policy compaction",
		     "rmw naive", "rmw merged", "overwrite inplace", "overwrite move" } },
	{ .name = "tiler", .target = "tiler", .blocks = { 2 * K, 0, 1 * K }, .track_blocks = 4,
	  .head_tracks = 2, .format = "--journal 128K --track 16K --rows 8",
	  .keys = { "", "region_cache 4", "region_cache 5 lazy off" },
	  .turns = { NULL } },
	{ .name = "dualbuffer", .target = "dualbuffer", .blocks = { 2 * K, 0, 1 * K },
	  .format = "--journal 128K --band 64K --cache-size 512K --geometry none --cache-track 8",
	  .keys = { "", "ratchet off", "ageing off fit sat", "fit power" },
	  .turns = { "fit hyper", "fit linear", "ratchet on", "ratchet off", "ageing on",
		     "ageing off" } },
	{ .name = "rmwf", .target = "rmwf", .blocks = { 2 * K, 2 * K, 1 * K }, .track_blocks = 4,
	  .head_tracks = 2,
	  .format = "--journal 128K --track 16K --band 64K --cache-size 1M --page-blocks 8",
	  .keys = { "", "rule pointer", "alloc pool hot_threshold 0", "gc_free_percent 100" },
	  .turns = { "rule window", "rule pointer", "alloc static", "alloc pool",
		     "gc_free_percent 1", "gc_free_percent 80" } },
	{ .name = NULL }
};

static struct layer_image images[ARRAY_SIZE(layers)];

static void die(const char *what)
{
	perror(what);
	exit(2);
}

/* Keep the blocks of a formatted file that are not zero. */
static void take(struct layer_image *image, u32 dev, int fd)
{
	static const u8 zeroes[4096];
	u64 block, blocks = image->layer->blocks[dev];
	u8 bytes[4096];

	for (block = 0; block < blocks; block++) {
		if (pread(fd, bytes, sizeof(bytes), block * 4096) != sizeof(bytes))
			die("a formatted file cannot be read");
		if (!memcmp(bytes, zeroes, sizeof(bytes)))
			continue;
		image->at = realloc(image->at, (image->nr + 1) * sizeof(*image->at));
		if (!image->at)
			abort();
		image->at[image->nr].dev = dev;
		image->at[image->nr].block = block;
		memcpy(image->at[image->nr++].bytes, bytes, sizeof(bytes));
	}
}

/**
 * layer_image() - format a layer
 * @layer: an entry of @layers
 * @tool: path of the shingle tool
 *
 * Return: the blocks; they are kept for the next call.
 */
const struct layer_image *layer_image(const struct layer *layer, const char *tool)
{
	static const char *const options[LAYER_DEVS] = { "", "--cache", "--meta" };
	struct layer_image *image = &images[layer - layers];
	char command[1024], path[LAYER_DEVS][64];
	struct shingle_layout l;
	int fd[LAYER_DEVS];
	const char *why;
	u32 i, meta;
	size_t used;

	if (image->nr)
		return image;
	image->layer = layer;
	used = snprintf(command, sizeof(command), "'%s' format %s --json --force %s", tool,
			layer->target, layer->format);
	for (i = LAYER_DEVS; i--;) {
		fd[i] = -1;
		if (!layer->blocks[i])
			continue;
		strcpy(path[i], "/tmp/shingle-explore-XXXXXX");
		fd[i] = mkstemp(path[i]);
		if (fd[i] < 0 || ftruncate(fd[i], layer->blocks[i] * 4096))
			die("a file for formatting cannot be made");
		used += snprintf(command + used, sizeof(command) - used, " %s '%s'", options[i],
				 path[i]);
	}
	snprintf(command + used, sizeof(command) - used, " >/dev/null");
	if (system(command)) {
		fprintf(stderr, "this has failed: %s\n", command);
		exit(2);
	}
	for (i = 0; i < LAYER_DEVS; i++) {
		if (fd[i] < 0)
			continue;
		take(image, i, fd[i]);
		close(fd[i]);
		unlink(path[i]);
	}
	meta = layer->blocks[SHINGLE_DEV_META] ? SHINGLE_DEV_META : SHINGLE_DEV_DATA;
	for (i = 0; i < image->nr; i++) {
		if (image->at[i].dev == meta && !image->at[i].block)
			break;
	}
	if (i == image->nr || shingle_layout_decode((struct shingle_sb *)image->at[i].bytes, 0, &l,
						    &why)) {
		fprintf(stderr, "%s was not formatted\n", layer->name);
		exit(2);
	}
	image->sectors = l.logical_blocks << SHINGLE_SECTORS_SHIFT;
	return image;
}

void layer_images_free(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(images); i++)
		free(images[i].at);
}
