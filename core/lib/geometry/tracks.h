/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The medium of a device, as far as it is known: its tracks, and the places of bands on them.  Pure
 * code.
 */
#ifndef SHINGLE_TRACKS_H
#define SHINGLE_TRACKS_H

#include "format/format.h"
#include "geometry/geometry.h"

/* Maximum of changes of the track length on a medium. */
#define SHINGLE_MAX_LENGTHS	2048

/* Angular units of a block, for skews: 512-byte sectors. */
#define SHINGLE_SUB_UNITS	8

/**
 * struct shingle_medium - the known properties of a device's medium
 * @blocks: size of the device, 0 if there is no such device
 * @columns: it is known which blocks lie side by side, and therefore exactly which blocks a
 *	write destroys; otherwise only the lengths of tracks are known
 * @geo: the geometry, initialised; without zones the tracks are unknown.  It may be shorter
 *	than the device: the rest has no tracks either
 */
struct shingle_medium {
	u64 blocks;
	bool columns;
	struct platter_geo geo;
};

static inline bool shingle_medium_has_tracks(const struct shingle_medium *m)
{
	return m->geo.nr_zones;
}

/**
 * struct shingle_tracks - consecutive whole tracks of one length
 * @start: first block
 * @end: first block behind
 * @track_blocks: blocks on each
 */
struct shingle_tracks {
	u64 start;
	u64 end;
	u32 track_blocks;
};

/**
 * struct shingle_bands - bands of one role at equal distances
 * @start: first block
 * @stride: blocks from band to band
 * @nr_bands: number of bands
 * @track_blocks: blocks per track, 0 = no tracks
 */
struct shingle_bands {
	u64 start;
	u64 stride;
	u64 nr_bands;
	u32 track_blocks;
};

/**
 * struct shingle_room - the room that is left on a device for bands
 * @m: its medium
 * @head_tracks: width of the write head
 * @band_blocks: blocks per band
 * @at: first free block
 * @end: no block may be written or destroyed from here on
 */
struct shingle_room {
	const struct shingle_medium *m;
	u32 head_tracks;
	u64 band_blocks;
	u64 at;
	u64 end;
};

int shingle_medium_init(struct shingle_medium *m, const char **why);
bool shingle_medium_tracks(const struct shingle_medium *m, u64 block, struct shingle_tracks *t);
u64 shingle_medium_track_start(const struct shingle_medium *m, u64 block);
bool shingle_medium_is_conventional(const struct shingle_medium *m, u64 block, u64 n);
u64 shingle_medium_after_write(const struct shingle_medium *m, u32 head_tracks, u64 last);
bool shingle_medium_skew(const struct shingle_medium *m, u64 start, u64 end, u32 track_blocks,
			 u32 *skew_units);
u64 shingle_take_bands(struct shingle_room *room, u64 want, struct shingle_bands *b);
void shingle_medium_encode(const struct shingle_medium *m, struct shingle_disk_medium *d);
int shingle_medium_decode(const struct shingle_disk_medium *d, u64 blocks,
			  struct shingle_medium *m, const char **why);

#endif /* SHINGLE_TRACKS_H */
