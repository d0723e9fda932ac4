/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mechanics of a disk: one actuator, one spindle.  Pure code without a clock: the caller
 * passes the time to every function, in ns on an absolute scale, and the angle of the
 * platter follows from it.
 */
#ifndef PLATTER_MECH_H
#define PLATTER_MECH_H

#include "geometry/geometry.h"

#define PLATTER_MAX_SEEK_POINTS	256
#define PLATTER_MAX_SEGMENTS	16

struct platter_seek_point {
	u32 distance;	/* tracks */
	u32 ns;
};

/**
 * struct platter_seek - seek time as a function of distance
 * @nr: points of the measured table; 0 = fitted from the three times
 * @point: ascending in distance; times do not fall by more than measuring noise
 * @span: cylinders of the drive for which table or times hold
 * @cyls: cylinders of the emulated drive; distances are stretched to @span
 * @min_ns: one track
 * @avg_ns: a third of the span
 * @max_ns: the whole span
 */
struct platter_seek {
	u32 nr;
	u32 span;
	u32 cyls;
	u32 min_ns;
	u32 avg_ns;
	u32 max_ns;
	struct platter_seek_point point[PLATTER_MAX_SEEK_POINTS];
};

int platter_seek_init(struct platter_seek *seek, const char **error);
u32 platter_seek_ns(const struct platter_seek *seek, u32 distance);

/* A segment of the drive's buffer, filled by reading ahead after a request. */
struct platter_segment {
	u64 start_blk;
	u64 end_blk;
	u64 used;	/* for replacement */
};

/**
 * struct platter_mech - a drive's moving parts and its read buffer
 * @geo: its geometry
 * @seek: its seek curve
 * @head_switch_ns: change of surface
 * @write_settle_ns: additional settling before a write, after any move; negative if the
 *	seek curve was measured with writes and reads settle for longer
 * @overhead_ns: command processing before the actuator can move
 * @write_overhead_ns: the same for a write
 * @flush_ns: duration of a FLUSH with an empty cache; 0: none besides its command
 * @bus_block_ns: time to move one block between host and buffer
 * @cyl: cylinder of the head
 * @surface: selected head
 * @free_ns: time when the actuator becomes free
 * @lookahead_blocks: size of a buffer segment; 0 = look-ahead off
 * @nr_segments: segments in the buffer; 0 becomes PLATTER_MAX_SEGMENTS
 * @segment: content of the buffer
 * @tick: counter for replacement
 * @ahead_seg: segment being filled, or -1
 * @ahead_ns: time when the head reached the end of that segment
 */
struct platter_mech {
	const struct platter_geo *geo;
	struct platter_seek seek;
	u32 head_switch_ns;
	s64 write_settle_ns;
	u32 overhead_ns;
	u32 write_overhead_ns;
	u32 flush_ns;
	u32 bus_block_ns;

	u32 cyl;
	u32 surface;
	u64 free_ns;

	u32 lookahead_blocks;
	u32 nr_segments;
	int ahead_seg;
	u64 ahead_ns;
	u64 tick;
	struct platter_segment segment[PLATTER_MAX_SEGMENTS];
};

/**
 * struct platter_service - timing of a request
 * @start_ns: time when the actuator began to move
 * @finish_ns: time when the last block had passed under the head
 * @seek_ns: time spent seeking, switching heads and settling
 * @rotation_ns: time spent waiting for the platter to turn
 * @transfer_ns: time spent over the blocks themselves
 * @distance: tracks travelled, in total
 * @seeks: moves of at least one track
 * @head_switches: changes of surface
 * @cyl: cylinder of the first block
 * @surface: surface of the first block
 */
struct platter_service {
	u64 start_ns;
	u64 finish_ns;
	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
	u64 distance;
	u32 seeks;
	u32 head_switches;
	u32 cyl;
	u32 surface;
};

void platter_mech_init(struct platter_mech *mech, const struct platter_geo *geo);
void platter_mech_service(struct platter_mech *mech, u64 now_ns, u64 blk, u64 n,
			  bool write, struct platter_service *svc);
u64 platter_mech_flush(struct platter_mech *mech, u64 ready_ns);
u64 platter_mech_position_ns(const struct platter_mech *mech, u64 now_ns, u64 blk,
			     bool write);
bool platter_mech_lookahead(struct platter_mech *mech, u64 now_ns, u64 blk, u64 n,
			    u64 *finish_ns);
void platter_mech_advance(struct platter_mech *mech, u64 now_ns);
void platter_mech_invalidate(struct platter_mech *mech, u64 blk, u64 n);
void platter_mech_drop(struct platter_mech *mech);

#endif /* PLATTER_MECH_H */
