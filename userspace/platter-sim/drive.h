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
	DRIVE_AHEAD_SEGMENT,	/* until so many are ahead */
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
 * @map: where LBNs lie, ascending, without holes
 * @nr_map: 0 = each at the block of its number
 * @lbns: how many there are
 * @read_hit_ns: until the bus moves data that are buffered, after a read, a write
 * @read_miss_ns: until the arm moves
 * @write_hit_ns: until the bus moves data, in a drive that writes later
 * @write_miss_ns: the same in one that does not
 * @read_done_ns: from the last data to the answer
 * @write_done_ns: the same
 * @prep_ns: before each run of data on the bus
 * @read_disconnect_ns: letting the bus go, after a read, a write
 * @write_disconnect_ns: the same after a write's data
 * @reselect_ns: taking the bus again; after an extra disconnect
 * @extra_disconnect: a write after another elsewhere lets the bus go at once
 * @extra_ns: then: command, letting go, pause, letting go again, seek later by
 * @min_write_seek_ns: no seek of a write is shorter
 * @bus_ns: a sector on the bus, read, written
 * @read_water_permille: of the request or a segment, that must be there before
 *	the bus is taken
 * @write_water_permille: the same, that may be left to write when the bus is taken
 *	again for the rest of a write that had filled its segment
 * @water_by_request: of the request
 * @hold_read: the bus is held until all is read
 * @hold_write: the bus is held until all data of a write are in the buffer
 * @never_disconnect: the bus is never let go
 * @segments: of the buffer
 * @segment_sectors: size of one
 * @write_segment: segment 0 is for writes and nothing else
 * @ahead: how far to read ahead
 * @ahead_sectors: at most, after the request; 0 = a segment
 * @ahead_keeps: a segment's size counts the request
 * @forget_read: what has been read out is dropped
 * @ahead_on_hit: go on reading ahead after a hit in a segment that is at rest
 * @stop_in_sector: reading ahead is broken off at once
 * @fast_write: when a write is done
 * @combine: a write that continues the one under way joins it
 * @zero_latency: a read begins wherever the head arrives
 * @last_write: the request before was one
 * @seg: the buffer
 * @tick: for replacement
 * @ahead_seg: segment that is being filled, or -1
 * @ahead_ns: when the head was at its end
 * @write_end_ns: when the last write is on the medium
 * @write_seg: its segment
 */
struct drive {
	const struct platter_geo *geo;
	struct platter_mech *mech;
	struct drive_map *map;
	u32 nr_map;
	u64 lbns;

	u64 read_hit_ns[2];
	u64 read_miss_ns[2];
	u64 write_hit_ns[2];
	u64 write_miss_ns[2];
	u64 read_done_ns;
	u64 write_done_ns;
	u64 prep_ns;
	u64 read_disconnect_ns[2];
	u64 write_disconnect_ns;
	u64 reselect_ns[2];
	u32 extra_disconnect;
	u64 extra_ns[5];
	u64 min_write_seek_ns;
	u64 bus_ns[2];
	u32 read_water_permille;
	u32 write_water_permille;
	u32 water_by_request;
	u32 hold_read;
	u32 hold_write;
	u32 never_disconnect;

	u32 segments;
	u32 segment_sectors;
	u32 write_segment;
	u32 ahead;
	u32 ahead_sectors;
	u32 ahead_keeps;
	u32 forget_read;
	u32 ahead_on_hit;
	u32 stop_in_sector;
	u32 fast_write;
	u32 combine;
	u32 zero_latency;

	bool last_write;
	struct drive_segment seg[DRIVE_MAX_SEGMENTS];
	u64 tick;
	int ahead_seg;
	u64 ahead_ns;
	u64 write_end_ns;
	int write_seg;
	u64 there_ns[DRIVE_MAX_REQUEST];
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
