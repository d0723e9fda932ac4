/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A drive's electronics as DiskSim's parameters describe them: command overheads,
 * a buffer in segments, reading ahead, a bus that is let go and taken again.
 * The moving parts are dm-platter's.  One request at a time.
 *
 * Times are nanoseconds.  An LBN is the host's number of a sector, a block its
 * number on the bare tracks.
 */
#ifndef DRIVE_H
#define DRIVE_H

#include "mech.h"

#define DRIVE_MAX_SEGMENTS	64
#define DRIVE_MAX_REQUEST	4096

/* How far a drive reads on after what was asked for. */
enum drive_ahead {
	DRIVE_AHEAD_NONE,
	DRIVE_AHEAD_TRACK,	/* not beyond the track the head is on */
	DRIVE_AHEAD_CYL,	/* not beyond the cylinder */
	DRIVE_AHEAD_SEGMENT,	/* until ahead_sectors are ahead */
	DRIVE_AHEAD_NEXT_TRACK,	/* to the end of the track after the segment's first */
	DRIVE_AHEAD_KINDS
};

enum drive_fast_write {
	DRIVE_WRITE_THROUGH,
	DRIVE_WRITE_LIMITED,	/* a write is done when the drive has it */
	DRIVE_WRITE_FULL,
	DRIVE_WRITE_KINDS
};

/**
 * struct drive_map - LBNs that lie side by side on one track
 * @lbn: first
 * @block: where it is
 * @count: how many
 */
struct drive_map {
	u64 lbn;
	u64 block;
	u64 count;
};

/**
 * struct drive_segment - what a part of the buffer holds
 * @start: first LBN
 * @end: LBN after the last
 * @max: how far reading ahead may go
 * @used: for replacement
 * @written: it came from the host
 */
struct drive_segment {
	u64 start;
	u64 end;
	u64 max;
	u64 used;
	bool written;
};

/**
 * struct drive - its parameters, given by the caller, and its state
 * @geo: its geometry
 * @mech: its moving parts, without look-ahead of their own
 * @map: the place of each LBN; given by the caller, except for @map.lbns
 * @map.extent: where LBNs lie, ascending, without holes
 * @map.nr: number of extents; 0: each LBN is at the block of its number
 * @map.lbns: number of LBNs
 * @delay: time of the electronics; given by the caller.  Arrays have a value after a read and one
 *	after a write
 * @delay.read_hit_ns: until the bus moves data that are buffered
 * @delay.read_miss_ns: until the arm moves
 * @delay.write_hit_ns: until the bus moves data, in a drive that writes later
 * @delay.write_miss_ns: the same in a drive that does not
 * @delay.read_done_ns: from the last data to the answer
 * @delay.write_done_ns: the same
 * @delay.prep_ns: before each run of data on the bus
 * @delay.read_disconnect_ns: to release the bus
 * @delay.write_disconnect_ns: the same after the data of a write
 * @delay.reselect_ns: to acquire the bus again; the second value is after an extra disconnection
 * @delay.extra_disconnect: a write after another one elsewhere releases the bus at once
 * @delay.extra_ns: the times of that: command, release, pause, second release, delay of the seek
 * @delay.min_write_seek_ns: minimum time of a write's seek
 * @bus: use of the bus; given by the caller
 * @bus.sector_ns: time of a sector on the bus, read and written
 * @bus.read_water_permille: part of the request or of a segment that must be in the buffer before
 *	the bus is acquired
 * @bus.write_water_permille: part that may still have to be written when the bus is acquired again
 *	for the rest of a write that had filled its segment
 * @bus.water_by_request: the two are parts of the request
 * @bus.hold_read: the bus is held until all is read
 * @bus.hold_write: the bus is held until all data of a write are in the buffer
 * @bus.never_disconnect: the bus is never released
 * @buffer: use of the buffer; given by the caller
 * @buffer.segments: number of segments
 * @buffer.segment_sectors: size of a segment
 * @buffer.write_segment: segment 0 is for writes and for nothing else
 * @buffer.ahead: enum drive_ahead
 * @buffer.ahead_sectors: most sectors after the request; 0: a segment
 * @buffer.ahead_keeps: the size of a segment includes the request
 * @buffer.forget_read: data that the host has read are dropped
 * @buffer.ahead_on_hit: continue to read ahead after a hit in a segment that is at rest
 * @buffer.stop_in_sector: reading ahead stops within a sector
 * @buffer.fast_write: enum drive_fast_write
 * @buffer.combine: a write that continues the one in progress joins it
 * @buffer.zero_latency: a read begins wherever the head arrives
 * @state: what changes from request to request
 * @state.last_write: the previous request was a write
 * @state.seg: the segments
 * @state.tick: number of the last use of a segment, for replacement
 * @state.ahead_seg: segment that is being filled, or -1
 * @state.ahead_ns: time when the head was at the end of that segment
 * @state.write_end_ns: time when the last write is on the medium
 * @state.write_seg: the segment of that write
 * @state.there_ns: time when each sector of the present request is in the buffer
 */
struct drive {
	const struct platter_geo *geo;
	struct platter_mech *mech;
	struct {
		struct drive_map *extent;
		u32 nr;
		u64 lbns;
	} map;
	struct {
		u64 read_hit_ns[2], read_miss_ns[2], write_hit_ns[2], write_miss_ns[2];
		u64 read_done_ns, write_done_ns, prep_ns;
		u64 read_disconnect_ns[2], write_disconnect_ns, reselect_ns[2];
		u32 extra_disconnect;
		u64 extra_ns[5], min_write_seek_ns;
	} delay;
	struct {
		u64 sector_ns[2];
		u32 read_water_permille, write_water_permille, water_by_request;
		u32 hold_read, hold_write, never_disconnect;
	} bus;
	struct {
		u32 segments, segment_sectors, write_segment;
		u32 ahead, ahead_sectors, ahead_keeps, forget_read, ahead_on_hit, stop_in_sector;
		u32 fast_write, combine, zero_latency;
	} buffer;
	struct {
		bool last_write;
		struct drive_segment seg[DRIVE_MAX_SEGMENTS];
		u64 tick;
		int ahead_seg;
		u64 ahead_ns, write_end_ns;
		int write_seg;
		u64 there_ns[DRIVE_MAX_REQUEST];
	} state;
};

/**
 * struct drive_answer - how a request was served
 * @done_ns: when the host had the answer
 * @seek_ns: of the first move
 * @rotation_ns: the wait after it
 * @transfer_ns: over the medium, from the first sector to the last
 * @hit: the medium was not waited for
 */
struct drive_answer {
	u64 done_ns;
	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
	bool hit;
};

const char *drive_init(struct drive *d);
u64 drive_span(const struct drive *d, u64 lbn, u64 *n);
void drive_serve(struct drive *d, u64 arrival_ns, bool write, u64 lbn, u64 n,
		 struct drive_answer *answer);

#endif /* DRIVE_H */
