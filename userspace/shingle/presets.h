/* SPDX-License-Identifier: GPL-2.0 */
/* Presets: drives of the literature as layout options. */
#ifndef SHINGLE_PRESETS_H
#define SHINGLE_PRESETS_H

#include <shim.h>

#define PRESET_MAX_OPTIONS	8
#define PRESET_MAX_SCALE	1000000
#define PRESET_WHY		256

/* Track length of presets that count in tracks: 2 MiB. */
#define PRESET_TRACK_BLOCKS	512U

/**
 * struct preset - a drive, at the scale of its source
 * @name: name on the command line
 * @target: its translation layer
 * @source: publication of the figures
 * @paper: figures of the source: type of layer, cache, cleaning, mapping, size; and bands, if
 *   different from @band_blocks
 * @band_blocks: blocks in a band
 * @bands: number of data bands; with @zone_bands, of all bands
 * @cache_bands: number of bands of the persistent cache, 0 with @zone_bands
 * @log_blocks: length of the single cache band of a drive without @cache_bands, at the outer
 *   diameter or, with @flash, on flash; or 0
 * @flash: the cache is on a separate device
 * @zone_bands: bands in a zone, 0 without zones
 * @log_bands: bands of each zone that may hold cached blocks
 * @home_bands: those of @bands that are the home of a log, 0 without a home
 * @least_bands: smallest number of bands of a drive with regions of tracks; or 0
 * @rows: rows of a region, which determine the band length: @band_blocks on tracks of
 *   PRESET_TRACK_BLOCKS; or 0
 * @columns: columns of a region, 0 for the whole track
 * @keys: keys of the table line, as for --set; ends with NULL
 * @features: features of the table line, as for --feature; ends with NULL
 * @doc: a sentence about the risk of @features, printed when the drive is opened; or NULL
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
	u64 home_bands;
	u32 least_bands;
	u32 rows;
	u32 columns;
	const char *const *keys;
	const char *const *features;
	const char *doc;
};

/**
 * struct preset_option - a layout option and its value
 * @name: name without dashes
 * @value: value as on the command line
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
