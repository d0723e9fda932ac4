/* SPDX-License-Identifier: GPL-2.0 */
/* Drives of the literature by name: what they mean in options. */
#ifndef SHINGLE_PRESETS_H
#define SHINGLE_PRESETS_H

#include <shim.h>

#define PRESET_MAX_OPTIONS	8
#define PRESET_MAX_SCALE	1000000
#define PRESET_WHY		256

/* Where a preset counts tracks they have 2 MiB. */
#define PRESET_TRACK_BLOCKS	512U

/**
 * struct preset - a drive, at the scale of its source
 * @name: on the command line
 * @target: its translation layer
 * @source: where its figures are from
 * @paper: what stands there: type of layer, cache, cleaning, mapping, size; and bands, where
 *	that is not @band_blocks
 * @band_blocks: blocks in a band
 * @bands: data bands; with @zone_bands all bands
 * @cache_bands: of the persistent cache, 0 with @zone_bands
 * @log_blocks: instead, blocks of the one cache band, at the outer diameter or, with @flash,
 *	there; or 0
 * @flash: the cache is on a device of its own
 * @zone_bands: bands in a zone, 0 where there are no zones
 * @log_bands: of each zone, that may hold cached blocks
 * @least_bands: regions of tracks: a drive has no fewer of these bands; or 0
 * @rows: of a region, which then say how long a band is: @band_blocks on tracks of
 *	PRESET_TRACK_BLOCKS; or 0
 * @columns: of a region, 0 for the whole track
 * @keys: of the table line, as for --set; ends with NULL
 * @features: of the table line, as for --feature; ends with NULL
 * @doc: what these risk, a sentence for who opens the drive; NULL if they risk nothing
 */
struct preset {
	const char *name;
	const char *target;
	const char *source;
	struct {
		const char *layer;
		const char *cache;
		const char *cleaning;
		const char *mapping;
		const char *size;
		const char *bands;
	} paper;
	u32 band_blocks;
	u64 bands;
	u64 cache_bands;
	u32 log_blocks;
	bool flash;
	u32 zone_bands;
	u32 log_bands;
	u32 least_bands;
	u32 rows;
	u32 columns;
	const char *const *keys;
	const char *const *features;
	const char *doc;
};

/**
 * struct preset_option - a layout option and its value
 * @name: without dashes
 * @value: as on the command line
 */
struct preset_option {
	const char *name;
	char value[32];
};

const struct preset *preset_by_index(u32 i);
const struct preset *preset_by_name(const char *name);
const char *preset_names(char *buf, size_t size);
u64 preset_max_scale(const struct preset *p, u64 band_blocks);
int preset_options(const struct preset *p, u64 scale, u64 band_blocks, struct preset_option *opt,
		   char *why);

#endif /* SHINGLE_PRESETS_H */
