/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The dual-space manager of RMW-F, Ma (2019), section 5.3.2: which places of the shingled
 * space hold current data, and which writes need no read-modify-write.
 *
 * The thesis has a pointer for each column, to the last track written.  Here each block has
 * a bit that tells whether its home is current.  The pointer follows from these bits; they
 * also show which writes beyond the pointer are safe.
 *
 * A place without current data is not free yet.  The map that recovery would rebuild may
 * still refer to it until the change is durable, or a write to it may be in flight.  So
 * each block has a second bit: its home is claimed.
 *
 * Pure code; the layout knows which blocks lie at one angle.  It has no lock of its own:
 * the map lock protects it.
 */
#ifndef SHINGLE_RMWF_SPACE_H
#define SHINGLE_RMWF_SPACE_H

#include "engine/engine.h"

/*
 * Most ranges that wait to be free, and most writes in flight: beyond that, wait for a
 * commit.
 */
#define RMWF_PINS	2048U
#define RMWF_FLIGHT	256U

/**
 * struct rmwf_span - consecutive logical blocks
 * @lblk: the first block
 * @n: number of blocks; 0: unused
 */
struct rmwf_span {
	u32 lblk;
	u32 n;
};

/**
 * struct rmwf_flight - a write in flight
 * @span: the blocks
 * @direct: it goes to their home
 */
struct rmwf_flight {
	struct rmwf_span span;
	bool direct;
};

/**
 * struct rmwf_pin - a range with places that are no longer current
 * @span: the range
 * @seq: they are free when this transaction is durable
 */
struct rmwf_pin {
	struct rmwf_span span;
	u64 seq;
};

/**
 * struct rmwf_space - the shingled space
 * @engine: the engine
 * @layout: layout of the device, owned by core
 * @only: the group of all data bands, NULL if there are several groups
 * @columns: columns of its tracks
 * @whole_tracks: the angles of blocks are unknown, so a write is taken to cover all of the
 *	next track
 * @blocks: data blocks
 * @band_blocks: blocks per band
 * @live: bitmap of blocks with current data at home
 * @claimed: bitmap of homes that are live, or that recovery could make live, or that a
 *	write in flight goes to; in the second case a pin includes the block
 * @pin: ring of pins
 * @pins_from: the oldest pin
 * @nr_pins: number of pins
 * @returned: a pin may include a place that was written again
 * @loose_pins: a pin may include places that were not claimed
 * @flight: all writes in flight
 * @nr_flight: number of writes in flight
 */
struct rmwf_space {
	struct shingle_engine *engine;
	const struct shingle_layout *layout;
	const struct shingle_group *only;
	u32 columns;
	bool whole_tracks;
	u32 blocks;
	u32 band_blocks;
	unsigned long *live;
	unsigned long *claimed;
	struct rmwf_pin pin[RMWF_PINS];
	u32 pins_from;
	u32 nr_pins;
	bool returned;
	bool loose_pins;
	struct rmwf_flight flight[RMWF_FLIGHT];
	u32 nr_flight;
};

/**
 * struct rmwf_place - the home of a block: the sector locator
 * @band: band of the surface
 * @track: track of the band, from 0
 * @column: column of the track, from 0
 * @columns: columns of the tracks of this band
 */
struct rmwf_place {
	u32 band;
	u32 track;
	u32 column;
	u32 columns;
};

int rmwf_space_init(struct rmwf_space *s, struct shingle_engine *e,
		    const struct shingle_layout *l);
void rmwf_space_exit(struct rmwf_space *s);
u64 rmwf_native(const struct rmwf_space *s, u32 lblk);
u32 rmwf_track_blocks(const struct rmwf_space *s, u32 band);
struct rmwf_place rmwf_locate(const struct rmwf_space *s, u32 lblk);
u64 rmwf_pblk_of(const struct rmwf_space *s, const struct rmwf_place *p);
u32 rmwf_direct(const struct rmwf_space *s, const struct rmwf_place *p, u32 lblk, u32 n,
		bool pointer);
u32 rmwf_not_direct(const struct rmwf_space *s, const struct rmwf_place *p, u32 lblk, u32 n,
		    bool pointer);
u32 rmwf_chain_end(const struct rmwf_space *s, u32 band);
void rmwf_space_live(struct rmwf_space *s, u32 lblk, u32 n, bool taken);
void rmwf_space_take(struct rmwf_space *s, u32 lblk, u32 n, bool direct);
void rmwf_space_landed(struct rmwf_space *s, u32 lblk, u32 n, bool direct);
void rmwf_space_failed(struct rmwf_space *s, u32 lblk, u32 n, bool direct);
bool rmwf_in_flight(const struct rmwf_space *s, u32 lblk, u32 n);
void rmwf_space_leave(struct rmwf_space *s, u32 lblk, u32 n, u64 seq);
bool rmwf_space_release(struct rmwf_space *s, u64 seq);

static inline bool rmwf_claimed(const struct rmwf_space *s, u32 lblk, u32 n)
{
	return find_next_bit(s->claimed, lblk + n, lblk) < lblk + n;
}

/* Each write in flight may need a pin when it ends, and a discard needs one. */
static inline bool rmwf_space_full(const struct rmwf_space *s)
{
	return s->nr_flight == RMWF_FLIGHT || s->nr_pins + s->nr_flight + 1 >= RMWF_PINS;
}

static inline bool rmwf_pending(const struct rmwf_space *s)
{
	return s->nr_pins;
}

#endif /* SHINGLE_RMWF_SPACE_H */
