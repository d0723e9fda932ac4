// SPDX-License-Identifier: GPL-2.0
/* The description of a device's medium, and the places of bands on its tracks: pure code. */
#include "geometry/tracks.h"

/**
 * shingle_medium_init() - check a medium and derive the rest of its description
 * @m: @m->geo as platter_geo_init() expects it, or without zones; @m->blocks
 * @why: on error, the reason, as the tail of a sentence
 *
 * Cuts off what lies beyond the device.
 *
 * Context: any.
 * Return: 0 or -EUCLEAN.
 */
int shingle_medium_init(struct shingle_medium *m, const char **why)
{
	u32 i;

	if (!shingle_medium_has_tracks(m))
		return 0;
	m->geo.sub_units = SHINGLE_SUB_UNITS;
	/* The rotation time does not matter here. */
	m->geo.rot_ns = 1;
	if (platter_geo_init(&m->geo, why))
		return -EUCLEAN;
	if (m->geo.blocks > m->blocks)
		m->geo.blocks = m->blocks;
	for (i = 0; i < m->geo.nr_conv; i++) {
		struct platter_conv *c = &m->geo.conv[i];

		if (c->start_blk >= m->geo.blocks) {
			m->geo.nr_conv = i;
			break;
		}
		c->blocks = min(c->blocks, m->geo.blocks - c->start_blk);
	}
	if (platter_geo_lengths(&m->geo) > SHINGLE_MAX_LENGTHS) {
		*why = "its tracks change their length more than 2048 times";
		return -EUCLEAN;
	}
	return 0;
}

/**
 * shingle_medium_tracks() - find tracks of one length from a block's track on
 * @m: the medium
 * @block: a block
 * @t: result; it may begin before the block, and tracks of the same length before it
 *
 * Context: any.
 * Return: false if the block is on no whole track of a known length.
 */
bool shingle_medium_tracks(const struct shingle_medium *m, u64 block, struct shingle_tracks *t)
{
	u64 end;
	u32 length;

	if (!shingle_medium_has_tracks(m) || block >= m->geo.blocks)
		return false;
	platter_geo_length(&m->geo, block, &t->start, &t->end, &t->track_blocks);
	while (t->end < m->geo.blocks) {
		u64 start;

		platter_geo_length(&m->geo, t->end, &start, &end, &length);
		if (length != t->track_blocks)
			break;
		t->end = end;
	}
	/* The device may end inside its last track. */
	if (t->end > m->geo.blocks)
		t->end = t->start + div_u64(m->geo.blocks - t->start, t->track_blocks) *
				    t->track_blocks;
	return block < t->end;
}

/**
 * shingle_medium_track_start() - first block of the track that contains a block
 * @m: the medium
 * @block: a block of the device
 *
 * Context: any.
 * Return: that block; for a block behind the last whole track, the first block behind that track;
 * @block itself if the medium has no tracks.
 */
u64 shingle_medium_track_start(const struct shingle_medium *m, u64 block)
{
	struct platter_pos pos;

	if (!shingle_medium_has_tracks(m))
		return block;
	platter_geo_track(&m->geo, min(block, m->geo.blocks - 1), &pos);
	if (block >= m->geo.blocks && pos.track_start + pos.track_blocks <= m->geo.blocks)
		return pos.track_start + pos.track_blocks;
	return pos.track_start;
}

/**
 * shingle_medium_is_conventional() - does a stretch lie on full-width tracks only?
 * @m: the medium, with ascending conventional ranges
 * @block: first block
 * @n: number of blocks
 *
 * Context: any.
 * Return: true if it does.
 */
bool shingle_medium_is_conventional(const struct shingle_medium *m, u64 block, u64 n)
{
	u64 end = block + n;
	u32 i;

	/* Ranges may follow each other. */
	for (i = 0; i < m->geo.nr_conv && block < end; i++) {
		const struct platter_conv *c = &m->geo.conv[i];

		if (block >= c->start_blk && block < c->start_blk + c->blocks)
			block = c->start_blk + c->blocks;
	}
	return block >= end;
}

/**
 * shingle_medium_skew() - skew from track to track in a stretch of tracks of one length
 * @m: the medium
 * @start: first block
 * @end: first block behind
 * @track_blocks: the length
 * @skew_units: result, in 512-byte sectors
 *
 * Context: any.
 * Return: false if it is unknown, or not the same everywhere, or if the medium has other tracks
 * there.
 */
bool shingle_medium_skew(const struct shingle_medium *m, u64 start, u64 end, u32 track_blocks,
			 u32 *skew_units)
{
	bool any = false;
	u32 i, skew;

	*skew_units = 0;
	for (i = 0; m->columns && i < m->geo.nr_zones; i++) {
		const struct platter_zone *z = &m->geo.zone[i];

		if (z->start_blk >= end || z->start_blk + z->blocks <= start)
			continue;
		if (!platter_geo_skew(&m->geo, z, track_blocks, &skew) ||
		    (any && skew != *skew_units))
			return false;
		*skew_units = skew;
		any = true;
	}
	return any;
}
EXPORT_SYMBOL_GPL(shingle_medium_skew);

/**
 * shingle_medium_after_write() - first block behind the reach of a write
 * @m: the medium
 * @head_tracks: width of the write head
 * @last: last block written
 *
 * The block is the start of a track.  The result assumes that no boundary stops the head: on a
 * medium with only known lengths of tracks none can be relied upon.
 *
 * Context: any.
 * Return: the block.
 */
u64 shingle_medium_after_write(const struct shingle_medium *m, u32 head_tracks, u64 last)
{
	u64 left = head_tracks, from = last;
	struct shingle_tracks t;

	if (!shingle_medium_has_tracks(m))
		return last + 1;
	while (shingle_medium_tracks(m, from, &t)) {
		u64 track = div_u64(from - t.start, t.track_blocks);
		u64 tracks = div_u64(t.end - t.start, t.track_blocks);

		if (track + left < tracks)
			return t.start + (track + left) * t.track_blocks;
		left -= tracks - track;
		from = t.end;
		if (!left)
			return from;
	}
	return m->blocks;
}

/**
 * shingle_take_bands() - take bands from the next tracks of one length that can hold any
 * @room: the room that is left; reduced on return
 * @want: maximum of bands
 * @b: result
 *
 * Each band begins on a track of its own, with as many tracks behind it as the head destroys.  The
 * superblock relies on this rule: for an entry with only the first block and the number of bands,
 * this function determines their places.
 *
 * Context: any.
 * Return: number of bands, 0 if the device is full.
 */
u64 shingle_take_bands(struct shingle_room *room, u64 want, struct shingle_bands *b)
{
	const struct shingle_medium *m = room->m;
	bool tracks = shingle_medium_has_tracks(m);
	struct shingle_tracks t = { .start = 0, .end = m->blocks, .track_blocks = 1 };
	u64 at = room->at;

	for (; !tracks || shingle_medium_tracks(m, at, &t); at = t.end) {
		u64 guard = tracks ? room->head_tracks - 1 : 0, to = min(t.end, room->end);
		u64 data = div_u64(room->band_blocks + t.track_blocks - 1, t.track_blocks) *
			   t.track_blocks;
		u64 stride = data + guard * t.track_blocks, start, n, next = 0;

		start = max(at, t.start) - t.start;
		start = t.start + div_u64(start + t.track_blocks - 1, t.track_blocks) *
				  t.track_blocks;
		n = start < to && to - start >= data ?
		    min(want, div64_u64(to - start - data, stride) + 1) : 0;
		for (; n; n--) {
			u64 last = start + (n - 1) * stride + data - 1;

			next = start + n * stride;
			if (tracks)
				next = max(next, shingle_medium_after_write(m, room->head_tracks,
									    last));
			if (next <= room->end)
				break;
		}
		if (n) {
			b->start = start;
			b->stride = stride;
			b->nr_bands = n;
			b->track_blocks = tracks ? t.track_blocks : 0;
			room->at = next;
			return n;
		}
		if (!tracks || t.end >= room->end)
			break;
	}
	return 0;
}

/**
 * shingle_medium_encode() - encode a medium's description
 * @m: the medium
 * @d: result, zeroed
 *
 * Context: any.
 */
void shingle_medium_encode(const struct shingle_medium *m, struct shingle_disk_medium *d)
{
	const struct platter_geo *geo = &m->geo;
	u32 i;

	if (!shingle_medium_has_tracks(m))
		return;
	d->blocks = cpu_to_le64(geo->blocks);
	d->kind = cpu_to_le16(geo->media);
	d->columns = cpu_to_le16(m->columns);
	d->surfaces = cpu_to_le16(geo->surfaces);
	d->nr_zones = cpu_to_le16(geo->nr_zones);
	d->nr_conv = cpu_to_le16(geo->nr_conv);
	d->head_mtracks = cpu_to_le32(geo->head_mtracks);
	for (i = 0; i < geo->surfaces; i++)
		d->density[i] = cpu_to_le16(geo->density[i]);
	for (i = 0; i < geo->nr_zones; i++) {
		d->zone[i].cyls = cpu_to_le32(geo->zone[i].cyls);
		d->zone[i].track_blocks = cpu_to_le32(geo->zone[i].track_blocks);
		d->zone[i].swath_cyls = cpu_to_le32(geo->zone[i].swath_cyls);
		d->zone[i].track_skew = cpu_to_le32(geo->zone[i].track_skew_units);
	}
	for (i = 0; i < geo->nr_conv; i++) {
		d->conv[i].start = cpu_to_le64(geo->conv[i].start_blk);
		d->conv[i].blocks = cpu_to_le64(geo->conv[i].blocks);
	}
}

/**
 * shingle_medium_decode() - decode a medium's description
 * @d: as read, with a correct checksum
 * @blocks: size of the device
 * @m: result
 * @why: on error, the reason, as the tail of a sentence
 *
 * Context: any.
 * Return: 0 or -EUCLEAN.
 */
int shingle_medium_decode(const struct shingle_disk_medium *d, u64 blocks,
			  struct shingle_medium *m, const char **why)
{
	struct platter_geo *geo = &m->geo;
	u32 i;

	BUILD_BUG_ON(ARRAY_SIZE(d->density) != PLATTER_MAX_SURFACES);
	BUILD_BUG_ON(ARRAY_SIZE(d->zone) != PLATTER_MAX_ZONES);
	BUILD_BUG_ON(ARRAY_SIZE(d->conv) != PLATTER_MAX_CONV);
	memset(m, 0, sizeof(*m));
	m->blocks = blocks;
	if (!d->nr_zones)
		return 0;
	*why = "description of a medium makes no sense";
	m->columns = le16_to_cpu(d->columns);
	geo->blocks = le64_to_cpu(d->blocks);
	geo->surfaces = le16_to_cpu(d->surfaces);
	geo->nr_zones = le16_to_cpu(d->nr_zones);
	geo->nr_conv = le16_to_cpu(d->nr_conv);
	geo->media = le16_to_cpu(d->kind);
	geo->head_mtracks = le32_to_cpu(d->head_mtracks);
	if (!geo->blocks || geo->blocks > blocks || geo->surfaces > PLATTER_MAX_SURFACES ||
	    geo->nr_zones > PLATTER_MAX_ZONES || geo->nr_conv > PLATTER_MAX_CONV ||
	    geo->media > PLATTER_IMR)
		return -EUCLEAN;
	for (i = 0; i < geo->surfaces; i++) {
		geo->density[i] = le16_to_cpu(d->density[i]);
		if (geo->density[i] > SHINGLE_MAX_DENSITY)
			return -EUCLEAN;
	}
	for (i = 0; i < geo->nr_zones; i++) {
		geo->zone[i].cyls = le32_to_cpu(d->zone[i].cyls);
		geo->zone[i].track_blocks = le32_to_cpu(d->zone[i].track_blocks);
		geo->zone[i].swath_cyls = le32_to_cpu(d->zone[i].swath_cyls);
		geo->zone[i].track_skew_units = le32_to_cpu(d->zone[i].track_skew);
	}
	for (i = 0; i < geo->nr_conv; i++) {
		geo->conv[i].start_blk = le64_to_cpu(d->conv[i].start);
		geo->conv[i].blocks = le64_to_cpu(d->conv[i].blocks);
	}
	return shingle_medium_init(m, why);
}
