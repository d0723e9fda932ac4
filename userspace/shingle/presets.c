// SPDX-License-Identifier: GPL-2.0
/*
 * Presets: drives of the literature as layout options.  Documentation/presets.rst gives the
 * source of each figure and the effect of a scale.
 */
#include "format/format.h"
#include "presets.h"

#define MIB_BLOCKS	(1024 * 1024 / SHINGLE_BLOCK_SIZE)
#define SKYLIGHT	"A. Aghayev, P. Desnoyers, Skylight, FAST 2015; A. Aghayev, thesis, CMU 2020, Table 2.1"

#define MA	"C. Ma, Read-modify-write optimization for shingled magnetic recording storage systems, thesis, 2019"

#define HAJKAZEMI	"M. H. Hajkazemi, M. Abdi, P. Desnoyers, Minimizing Read Seek for SMR Disk, IISWC 2018"

/* Smallest disk with a home and a log of the same size, which has its reserve and a band. */
#define LEAST_LOG_BANDS		8
/* Bands of a log beyond those that can hold blocks in use. */
#define LOG_RESERVE		3
/* The paper has an infinite disk.  Here the home presents 4 TB, and the log can hold as much. */
#define LOG_PRESET(preset, settings) {							\
		.name = preset, .target = "stl-log", .source = HAJKAZEMI,		\
		.paper = { "log-structured", "none", "none, writing stops when it is full",	\
			   "extents, dynamic", "infinite", "not given" },		\
		.band_blocks = 30 * MIB_BLOCKS, .bands = 254315, .home_bands = 127156,	\
		.keys = settings, .features = safe,					\
	}

/* Percentage of its bands that a zone keeps free at the beginning. */
#define PROVISION_PERCENT	5
/* Smallest zone: two logs, the least that a zone needs, are 1 % of it. */
#define LEAST_ZONE_BANDS	195

static const char *const lazy[] = { "cleaning=lazy", "read_home=always", NULL };
static const char *const aggressive[] = {
	"cleaning=aggressive", "idle_ms=1000", "read_home=always", NULL
};
static const char *const by_band[] = { "cleaning=lazy", "rmw=band", NULL };
static const char *const unstaged[] = { "inplace", NULL };
static const char *const safe[] = { NULL };
static const char *const defaults[] = { NULL };
static const char *const archive[] = { "clean=off", NULL };
static const char *const defrag[] = { "clean=off", "defrag_frags=2", NULL };
static const char *const look_around[] = {
	"clean=off", "look_behind=64", "look_ahead=64", "look_regions=32", NULL
};
static const char *const read_cache[] = {
	"clean=off", "selective=on", "read_cache_kb=65536", NULL
};
static const char over_doc[] =
	"bands are cleaned by writing over them: a power cut meanwhile loses up to a band, also what was flushed long before; --no-feature inplace stages them";
static const char unstaged_doc[] =
	"bands are cleaned by writing over them, as the original did: a power cut meanwhile loses up to a band, also what was flushed long before; --no-feature inplace stages them";

static const struct preset presets[] = {
	{
		.name = "emulated-smr-1", .target = "stl-set", .source = SKYLIGHT,
		.paper = { "set-associative", "disk, single, at ID, 37.2 GiB", "lazy", "static",
			   "3.9 TB" },
		.band_blocks = 40 * MIB_BLOCKS, .bands = 92983, .cache_bands = 952, .keys = lazy,
		.features = unstaged, .doc = unstaged_doc,
	}, {
		.name = "emulated-smr-2", .target = "stl-set", .source = SKYLIGHT,
		.paper = { "set-associative", "flash, 9.98 GiB", "lazy", "static", "3.9 TB" },
		.band_blocks = 25 * MIB_BLOCKS, .bands = 148773, .cache_bands = 409, .flash = true,
		.keys = lazy, .features = unstaged, .doc = unstaged_doc,
	}, {
		.name = "emulated-smr-3", .target = "stl-full", .source = SKYLIGHT,
		.paper = { "fully-associative", "disk, multiple, 37.2 GiB", "aggressive",
			   "dynamic", "3.9 TB" },
		.band_blocks = 20 * MIB_BLOCKS, .bands = 185966, .zone_bands = 2048,
		.log_bands = 21, .keys = aggressive, .features = safe,
	}, {
		.name = "ma-baseline", .target = "stl-set", .source = MA,
		.paper = { "log-structured", "disk, single, at OD, 1 %, 5 GB",
			   "when the cache is full, all of it", "static",
			   "512 GB, one of 16 surfaces", "15 to 40 MB" },
		.band_blocks = 30 * MIB_BLOCKS, .bands = 16117, .log_blocks = 1220703,
		.keys = by_band, .features = unstaged, .doc = over_doc,
	}, {
		.name = "ma-tiler", .target = "tiler", .source = MA,
		.paper = { "autonomous regions", "none", "when a region is full",
			   "static, dynamic within a region", "512 GB, one of 16 surfaces",
			   "4,096 tracks, of which a region has 1 to 8 blocks each" },
		.band_blocks = 4096 * PRESET_TRACK_BLOCKS, .bands = 59, .least_bands = 1,
		.rows = 4096, .columns = 1, .keys = defaults, .features = safe,
	}, {
		.name = "tiler-track", .target = "tiler",
		.source = "none: the regions of ma-tiler, as wide as their tracks",
		.paper = { "autonomous regions", "none", "when a region is full",
			   "static, dynamic within a region", "512 GB, one of 16 surfaces",
			   "64 tracks, which are a region" },
		.band_blocks = 64 * PRESET_TRACK_BLOCKS, .bands = 3690, .least_bands = 2,
		.keys = defaults, .features = safe,
	}, {
		.name = "ma-dualbuffer", .target = "dualbuffer", .source = MA,
		.paper = { "log-structured, two buffers", "disk, single, at OD, 1 %, 5 GB",
			   "when the cache is full, what is cold", "static",
			   "512 GB, one of 16 surfaces", "15 to 40 MB" },
		.band_blocks = 30 * MIB_BLOCKS, .bands = 16117, .log_blocks = 1220703,
		.keys = defaults, .features = safe,
	}, {
		.name = "dualbuffer-small", .target = "dualbuffer",
		.source = "none: an eightieth of ma-dualbuffer, in shorter bands",
		.paper = { "log-structured, two buffers", "disk, single, at OD, 64 MiB",
			   "when the cache is full, what is cold", "static", "6.3 GiB" },
		.band_blocks = 4 * MIB_BLOCKS, .bands = 1600, .log_blocks = 64 * MIB_BLOCKS,
		.keys = defaults, .features = safe,
	}, {
		.name = "ma-smr-2", .target = "stl-set", .source = MA,
		.paper = { "set-associative", "flash, 20 GiB", "lazy", "static",
			   "8 TB, 16 surfaces" },
		.band_blocks = 25 * MIB_BLOCKS, .bands = 305175, .cache_bands = 819, .flash = true,
		.keys = lazy, .features = unstaged, .doc = unstaged_doc,
	}, {
		.name = "ma-rmwf", .target = "rmwf", .source = MA,
		.paper = { "in place, or in flash", "flash, 20 GiB",
			   "when a flash block is full, what is cold", "static",
			   "8 TB, 16 surfaces", "M tracks; the thesis does not give M" },
		.band_blocks = 30 * MIB_BLOCKS, .bands = 254313,
		.log_blocks = 20 * 1024 * MIB_BLOCKS, .flash = true,
		.keys = defaults, .features = safe,
	},
	/* The log alone, and with each of the three remedies. */
	LOG_PRESET("hajkazemi-log", archive),
	LOG_PRESET("hajkazemi-defrag", defrag),
	LOG_PRESET("hajkazemi-look-around", look_around),
	LOG_PRESET("hajkazemi-cache", read_cache),
};

/**
 * preset_by_index() - walk the presets
 * @i: 0, 1, ...
 *
 * Context: Any context.
 *
 * Return: the preset, or NULL past the last one.
 */
const struct preset *preset_by_index(u32 i)
{
	return i < ARRAY_SIZE(presets) ? &presets[i] : NULL;
}

/**
 * preset_by_name() - find a preset
 * @name: its name
 *
 * Context: Any context.
 *
 * Return: the preset, or NULL if there is none.
 */
const struct preset *preset_by_name(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(presets); i++) {
		if (!strcmp(presets[i].name, name))
			return &presets[i];
	}
	return NULL;
}

/**
 * preset_names() - list the names of all presets
 * @buf: result
 * @size: size of @buf in bytes
 *
 * Context: Any context.
 *
 * Return: @buf.
 */
const char *preset_names(char *buf, size_t size)
{
	size_t used = 0;
	u32 i;

	buf[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(presets) && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : "",
					 presets[i].name);
	return buf;
}

/**
 * preset_max_scale() - the largest scale of a preset
 * @p: the preset
 * @band_blocks: blocks in a band, 0 for the preset's own
 *
 * Context: Any context.
 *
 * Return: the largest scale that leaves at least, depending on the layer: one cache band; one
 * block of the single cache band and one data band; one zone with its share of logs; the
 * regions and a spare slot; or LEAST_LOG_BANDS.  0 if the bands are too large at any scale.
 */
u64 preset_max_scale(const struct preset *p, u64 band_blocks)
{
	u64 band = band_blocks ?: p->band_blocks;

	if (p->zone_bands)
		return p->bands * p->band_blocks / (LEAST_ZONE_BANDS * band);
	if (p->home_bands)
		return p->bands * p->band_blocks / (LEAST_LOG_BANDS * band);
	if (p->least_bands)
		return p->bands * p->band_blocks / (p->least_bands * band);
	if (p->log_blocks)
		return min(p->bands * p->band_blocks / band, (u64)p->log_blocks);
	return p->cache_bands * p->band_blocks / band;
}

static void put(struct preset_option **opt, const char *name, u64 value, const char *unit)
{
	(*opt)->name = name;
	snprintf((*opt)->value, sizeof((*opt)->value), "%llu%s", value, unit);
	(*opt)++;
}

static void put_text(struct preset_option **opt, const char *name, const char *value)
{
	(*opt)->name = name;
	snprintf((*opt)->value, sizeof((*opt)->value), "%s", value);
	(*opt)++;
}

/*
 * Scale by the number of bands and use small zones of at least LEAST_ZONE_BANDS, because
 * caches all over the disk are characteristic of this drive.
 */
static void put_zones(const struct preset *p, u64 scale, u64 band, struct preset_option **opt)
{
	u64 bands = p->bands * p->band_blocks / (scale * band);
	u64 zone = (u64)p->zone_bands * p->band_blocks / (scale * band);

	zone = min(max(zone, (u64)LEAST_ZONE_BANDS), bands);
	put(opt, "bands", bands, "");
	put(opt, "zone-bands", zone, "");
	put(opt, "provision", DIV_ROUND_UP(zone * PROVISION_PERCENT, 100), "");
	put(opt, "log-bands", max((zone * p->log_bands + p->zone_bands / 2) / p->zone_bands, 2ULL),
	    "");
}

/* Use whole cache bands, with the drive's own ratio of data bands to cache bands. */
static void put_sets(const struct preset *p, u64 scale, u64 band, struct preset_option **opt)
{
	u64 cache = p->cache_bands * p->band_blocks / (scale * band);

	put(opt, "bands", (cache * p->bands + p->cache_bands / 2) / p->cache_bands, "");
	put(opt, "cache-size", cache, "b");
}

/* Use a single cache band with the length of the cache or of the flash. */
static void put_log(const struct preset *p, u64 scale, u64 band, struct preset_option **opt)
{
	put(opt, "bands", p->bands * p->band_blocks / (scale * band), "");
	put(opt, "cache-band", p->log_blocks / scale * (SHINGLE_BLOCK_SIZE / 1024), "K");
	put(opt, "cache-size", 1, "b");
	if (!p->flash)
		put_text(opt, "cache-location", "od");
}

/* Keep the home's share of the bands. */
static void put_home(const struct preset *p, u64 scale, u64 band, struct preset_option **opt)
{
	u64 bands = p->bands * p->band_blocks / (scale * band);

	put(opt, "bands", bands, "");
	put(opt, "home-bands",
	    (bands - LOG_RESERVE) * p->home_bands / (p->bands - LOG_RESERVE), "");
}

/* A region fills its band and begins with a track. */
static void put_regions(const struct preset *p, u64 scale, u64 band, struct preset_option **opt)
{
	put(opt, "bands", p->bands * p->band_blocks / (scale * band), "");
	if (p->rows)
		put(opt, "rows", p->rows, "");
	if (p->columns)
		put(opt, "columns", p->columns, "");
}

/**
 * preset_options() - the layout options of a preset
 * @p: the preset
 * @scale: divisor of all capacities, 1 to PRESET_MAX_SCALE
 * @band_blocks: blocks in a band, 0 for the preset's own
 * @opt: result, PRESET_MAX_OPTIONS elements; ends with a NULL name
 * @why: PRESET_WHY bytes; on error, a sentence
 *
 * Context: Any context.
 *
 * Return: 0, or -EINVAL if nothing is left at that scale.
 */
int preset_options(const struct preset *p, u64 scale, u64 band_blocks, struct preset_option *opt,
		   char *why)
{
	u64 band = band_blocks ?: p->band_blocks, most = preset_max_scale(p, band_blocks);

	if (scale > most && most) {
		snprintf(why, PRESET_WHY, "--scale %llu is too large for %s with bands of %llu KiB: at most %llu, or smaller bands with --band",
			 scale, p->name, band * (SHINGLE_BLOCK_SIZE / 1024), most);
		return -EINVAL;
	}
	if (!most) {
		snprintf(why, PRESET_WHY, "--band of %llu KiB is too large for %s: its own is %u KiB",
			 band * (SHINGLE_BLOCK_SIZE / 1024), p->name,
			 p->band_blocks * (SHINGLE_BLOCK_SIZE / 1024));
		return -EINVAL;
	}
	if (!p->rows)
		put(&opt, "band", band * (SHINGLE_BLOCK_SIZE / 1024), "K");
	if (p->least_bands)
		put_regions(p, scale, band, &opt);
	else if (p->home_bands)
		put_home(p, scale, band, &opt);
	else if (p->zone_bands)
		put_zones(p, scale, band, &opt);
	else if (p->log_blocks)
		put_log(p, scale, band, &opt);
	else
		put_sets(p, scale, band, &opt);
	if (!p->least_bands)
		put_text(&opt, "geometry", "pack");
	opt->name = NULL;
	return 0;
}
