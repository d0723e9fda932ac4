/* SPDX-License-Identifier: GPL-2.0 */
/* Compute where bands and metadata lie on the devices. */
#ifndef SHINGLE_PLAN_H
#define SHINGLE_PLAN_H

#include "device.h"
#include "engines.h"

enum plan_cache_unit {
	PLAN_CACHE_PERCENT,	/* percentage of all bands */
	PLAN_CACHE_BLOCKS,
	PLAN_CACHE_BANDS,
};

/**
 * struct plan_request - requirements for a layout
 * @row: the engine
 * @medium: the devices; without SHINGLE_DEV_META the metadata lie on the data device, and
 *   without SHINGLE_DEV_CACHE the cache does
 * @head_tracks: width of the write head, 1 on a conventional medium
 * @band_blocks: blocks per band, 0 for the default
 * @cache_band_blocks: blocks per cache band, 0 for the same as @band_blocks or, if the engine has
 *   one cache band, for the whole cache
 * @cache_unit: unit of @cache
 * @cache: size of the cache, 0 for the default
 * @data_bands: exact number of data bands, and then @cache is exact too; 0 for as many as fit
 * @cache_first: the cache lies at the outer diameter instead of the inner one
 * @backup_tracks: number of tracks for saved tops on interlaced tracks; 0 for the default
 * @journal_blocks: length of the ring, 0 for the default
 */
struct plan_request {
	const struct engine_row *row;
	struct shingle_medium medium[SHINGLE_NR_DEVS];
	u32 head_tracks;
	u64 band_blocks;
	u64 cache_band_blocks;
	enum plan_cache_unit cache_unit;
	u64 cache;
	u64 data_bands;
	bool cache_first;
	u64 backup_tracks;
	u64 journal_blocks;
};

#define PLAN_WHY	256
#define PLAN_MIN_JOURNAL_BLOCKS	16U
#define PLAN_MAX_BACKUP_TRACKS	2048U

void plan_no_tracks(struct shingle_medium *m, u64 blocks);
u32 plan_longest_track(const struct shingle_medium *m);
bool plan_uniform_tracks(struct shingle_medium *m, u64 blocks, u64 track_blocks, bool interlaced);
int plan_layout(const struct plan_request *req, struct shingle_layout *l, char *why);

/* Find the tracks of a medium. */
bool medium_parse(const char *reply, struct shingle_medium *m, u32 *head_tracks, char *why);
bool medium_read(const char *path, const struct device *d, struct shingle_medium *m,
		 u32 *head_tracks);
bool medium_ask(const struct device *d, struct shingle_medium *m, u32 *head_tracks);

#endif /* SHINGLE_PLAN_H */
