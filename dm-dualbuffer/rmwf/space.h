/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The dual-space manager of RMW-F, Ma (2019), section 5.3.2: what
 * of the shingled space holds something, and which writes need no read-modify-write.
 *
 * The thesis has a pointer for each column, to the last track that was written.  Here is a
 * bit for each block: whether its place holds what is current.  What the pointer says follows
 * from the bits, and so does what would have been safe beyond it.
 *
 * A place that holds nothing current is not free yet: the map that a power cut leaves may
 * say that it does, until what says otherwise is durable; or a write may be under way to
 * it.  So there is a second bit for each block: whether it is claimed.
 *
 * Pure: what lies under which angle is the layout's to know.  No locking of its own: the map
 * lock protects it.
 */
#ifndef SHINGLE_RMWF_SPACE_H
#define SHINGLE_RMWF_SPACE_H

#include "engine/engine.h"

/* Stretches that wait to be free, and writes that are under way: more wait for a commit. */
#define RMWF_PINS	2048U
#define RMWF_FLIGHT	256U

/**
 * struct rmwf_span - consecutive logical blocks
 * @lblk: the first
 * @n: how many; 0: nobody's
 */
struct rmwf_span {
	u32 lblk;
	u32 n;
};

/**
 * struct rmwf_flight - a write that is under way
 * @span: what is written
 * @direct: to where it belongs
 */
struct rmwf_flight {
	struct rmwf_span span;
	bool direct;
};

/**
 * struct rmwf_pin - a stretch of which something is not current any more
 * @span: the stretch
 * @seq: it is free when this transaction is durable
 */
struct rmwf_pin {
	struct rmwf_span span;
	u64 seq;
};

/**
 * struct rmwf_space - the shingled space
 * @engine: whose it is
 * @layout: of the device, core's
 * @only: the group of all data bands, NULL if there are several
 * @columns: of its tracks
 * @whole_tracks: a write covers all of the next track, as far as anybody knows
 * @blocks: data blocks
 * @band_blocks: of a band
 * @live: of each block, its place holds what is current
 * @claimed: or what a power cut would bring back, or will hold it: then it is in a pin, or a
 *	write to it is under way
 * @pin: a ring
 * @pins_from: the oldest of it
 * @nr_pins: how many
 * @returned: one of them may be of a place that has been written to since
 * @holey: one of them may be of places, too, at which nothing was
 * @flight: writes under way, wherever they go
 * @nr_flight: how many
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
	bool holey;
	struct rmwf_flight flight[RMWF_FLIGHT];
	u32 nr_flight;
};

/**
 * struct rmwf_place - where a block belongs: the sector locator
 * @band: of the surface
 * @track: of the band, from 0
 * @column: of the track, from 0
 * @columns: of the tracks of this band
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

/* Each write may need a pin when it lands, and a discard one. */
static inline bool rmwf_space_full(const struct rmwf_space *s)
{
	return s->nr_flight == RMWF_FLIGHT || s->nr_pins + s->nr_flight + 1 >= RMWF_PINS;
}

static inline bool rmwf_pending(const struct rmwf_space *s)
{
	return s->nr_pins;
}

#endif /* SHINGLE_RMWF_SPACE_H */
