// SPDX-License-Identifier: GPL-2.0
/*
 * A drive's electronics. They call dm-platter's mechanics for each sector, at the time when the
 * access to the medium begins.
 */
#include "drive.h"

enum match { MISS, PART, WHOLE };

/*
 * Constants of DiskSim's own code (disk_buffer_block_available() of disksim_diskcache.c), which
 * does not name their source. In a drive with extra write disconnects the medium begins when the
 * buffer has this number of sectors.
 */
#define EXTRA_LONG_SECTORS	45	/* shortest long write, in sectors */
#define EXTRA_SHORT_AWAITS	10	/* sectors, or all of a shorter write */
#define EXTRA_LONG_AWAITS	15	/* sectors of a long one */

/**
 * drive_init - check the parameters and forget all state
 * @d: filled in by the caller up to @zero_latency
 *
 * Return: NULL, or what is wrong.
 */
const char *drive_init(struct drive *d)
{
	u64 next = 0;
	u32 i;

	if (!d->buffer.segments || d->buffer.segments > DRIVE_MAX_SEGMENTS ||
	    d->buffer.segments <= !!d->buffer.write_segment)
		return "A buffer must have 1 to 64 segments, and one of them for reads";
	if (!d->buffer.segment_sectors)
		return "A segment must have at least one sector";
	if (d->buffer.ahead >= DRIVE_AHEAD_KINDS)
		return "Reading ahead must be 0 to 4";
	if (d->buffer.fast_write >= DRIVE_WRITE_KINDS)
		return "The fast write level must be 0 to 2";
	for (i = 0; i < d->map.nr; i++) {
		const struct drive_map *m = &d->map.extent[i];

		if (m->lbn != next || !m->count)
			return "The map must have every LBN once and in order";
		if (m->block >= d->geo->blocks || m->count > d->geo->blocks - m->block)
			return "The map must stay within the zones";
		next += m->count;
	}
	d->map.lbns = d->map.nr ? next : d->geo->blocks;
	d->mech->lookahead_blocks = 0;
	d->state.last_write = false;
	memset(d->state.seg, 0, sizeof(d->state.seg));
	d->state.tick = 0;
	d->state.ahead_seg = -1;
	d->state.ahead_ns = 0;
	d->state.write_end_ns = 0;
	d->state.write_seg = -1;
	return NULL;
}

static u64 block_of(const struct drive *d, u64 lbn)
{
	u32 lo = 0, hi = d->map.nr;

	if (!d->map.nr)
		return lbn;
	while (hi - lo > 1) {
		u32 mid = (lo + hi) / 2;

		if (d->map.extent[mid].lbn <= lbn)
			lo = mid;
		else
			hi = mid;
	}
	return d->map.extent[lo].block + (lbn - d->map.extent[lo].lbn);
}

/**
 * drive_span - the blocks from a request's first to its last
 * @d: an initialised drive
 * @lbn: its first LBN
 * @n: how many LBNs; becomes how many blocks, with what lies unused between
 *
 * A request with a sector elsewhere is taken to be in one piece.
 *
 * Return: the first block.
 */
u64 drive_span(const struct drive *d, u64 lbn, u64 *n)
{
	u64 first = block_of(d, lbn), last = block_of(d, lbn + *n - 1);

	if (last >= first && last - first < 2 * *n)
		*n = last - first + 1;
	*n = min_t(u64, *n, d->geo->blocks - first);
	return first;
}

static void place_of(const struct drive *d, u64 lbn, struct platter_pos *pos)
{
	platter_geo_pos(d->geo, block_of(d, lbn), pos);
}

static bool same_track(const struct platter_pos *a, const struct platter_pos *b)
{
	return a->cyl == b->cyl && a->surface == b->surface;
}

/* Move the head to a sector and over it. Return: the time when it has passed. */
static u64 pass(struct drive *d, u64 at_ns, u64 lbn, bool write,
		struct platter_service *svc)
{
	platter_mech_service(d->mech, at_ns, block_of(d, lbn), 1, write, svc);
	return svc->finish_ns;
}

/* The same, but the head stays where it is. */
static u64 would_pass(struct drive *d, u64 at_ns, u64 lbn, bool write,
		      struct platter_service *svc)
{
	u32 cyl = d->mech->cyl, surface = d->mech->surface;
	u64 end = pass(d, at_ns, lbn, write, svc);

	d->mech->cyl = cyl;
	d->mech->surface = surface;
	return end;
}

static void slide(const struct drive *d, struct drive_segment *s)
{
	if (s->end - s->start > d->buffer.segment_sectors)
		s->start = s->end - d->buffer.segment_sectors;
}

static bool ahead_may_go(struct drive *d, const struct drive_segment *s)
{
	struct platter_pos pos;

	if (s->end >= s->max || s->end >= d->map.lbns)
		return false;
	if (d->buffer.ahead != DRIVE_AHEAD_TRACK && d->buffer.ahead != DRIVE_AHEAD_CYL)
		return true;
	place_of(d, s->end, &pos);
	return pos.cyl == d->mech->cyl &&
	       (d->buffer.ahead == DRIVE_AHEAD_CYL || pos.surface == d->mech->surface);
}

/* Let reading ahead go on until a point in time. */
static void advance(struct drive *d, u64 now_ns)
{
	while (d->state.ahead_seg >= 0) {
		struct drive_segment *s = &d->state.seg[d->state.ahead_seg];
		u32 cyl = d->mech->cyl, surface = d->mech->surface;
		struct platter_service svc;
		u64 end;

		if (!ahead_may_go(d, s)) {
			d->state.ahead_seg = -1;
			return;
		}
		end = pass(d, d->state.ahead_ns, s->end, false, &svc);
		if (end > now_ns) {
			d->mech->cyl = cyl;
			d->mech->surface = surface;
			return;
		}
		d->state.ahead_ns = end;
		s->end++;
		slide(d, s);
	}
}

/*
 * Stop reading ahead. A seek ends at its target, and some drives finish the sector. Return: the
 * time when the arm is free.
 */
static u64 stop_ahead(struct drive *d, u64 now_ns)
{
	struct platter_service svc;
	u64 end, moved, over;
	u32 cyl, surface;

	advance(d, now_ns);
	if (d->state.ahead_seg < 0)
		return now_ns;
	cyl = d->mech->cyl;
	surface = d->mech->surface;
	end = pass(d, d->state.ahead_ns, d->state.seg[d->state.ahead_seg].end, false, &svc);
	moved = d->state.ahead_ns + svc.seek_ns;
	over = moved + svc.rotation_ns;
	d->state.ahead_seg = -1;
	if (now_ns < moved)
		return moved;
	if (moved == d->state.ahead_ns) {
		d->mech->cyl = cyl;
		d->mech->surface = surface;
	}
	if (d->buffer.stop_in_sector)
		return now_ns;
	return now_ns < over ? now_ns : end;
}

/* How far to read ahead for a request that ends at @end. */
static u64 ahead_limit(const struct drive *d, const struct drive_segment *s, u64 lbn,
		       u64 end)
{
	struct platter_pos at, pos;
	u64 first = end, last = end;

	switch (d->buffer.ahead) {
	case DRIVE_AHEAD_NONE:
		return end;
	case DRIVE_AHEAD_NEXT_TRACK:
		if (end >= d->map.lbns)
			return end;
		place_of(d, end, &at);
		while (first) {
			place_of(d, first - 1, &pos);
			if (!same_track(&at, &pos))
				break;
			first--;
		}
		for (; last < d->map.lbns; last++) {
			place_of(d, last, &pos);
			if (!same_track(&at, &pos))
				break;
		}
		return s->start < first ? last + at.track_blocks : last;
	default:
		if (d->buffer.ahead_sectors)
			return end + d->buffer.ahead_sectors;
		return (d->buffer.ahead_keeps ? lbn : end) + d->buffer.segment_sectors;
	}
}

/*
 * Sectors at a water mark: a part of the request, at least one, or a part of a segment, rounded up.
 */
static u64 water_mark(const struct drive *d, u32 permille, u64 n)
{
	if (d->bus.water_by_request)
		return max_t(u64, min_t(u64, d->buffer.segment_sectors, n) * permille / 1000, 1);
	return ((u64)d->buffer.segment_sectors * permille + 999) / 1000;
}

static int find_read(const struct drive *d, u64 lbn, u64 n, enum match *match)
{
	u64 oldest = ~0ULL;
	int best = -1, value = 0;
	u32 i;

	*match = MISS;
	for (i = !!d->buffer.write_segment; i < d->buffer.segments; i++) {
		const struct drive_segment *s = &d->state.seg[i];
		bool whole = s->end >= lbn + n;
		int v;

		if (lbn < s->start || lbn >= s->end)
			continue;
		v = (whole ? 4 : 0) + ((int)i == d->state.ahead_seg);
		if (best < 0 || v > value || (v == value && s->used < oldest)) {
			best = i;
			value = v;
			oldest = s->used;
			*match = whole ? WHOLE : PART;
		}
	}
	return best;
}

/*
 * Choose a segment to reuse: an empty one, else the oldest, and the filling one only as a last
 * resort.
 */
static int take_segment(struct drive *d, u32 from, u32 to, u64 lbn, u64 n, bool write)
{
	u64 oldest = 0;
	int best = -1, value = 0;
	u32 i;

	for (i = from; i < to; i++) {
		const struct drive_segment *s = &d->state.seg[i];
		bool overlaps = s->start < lbn + n && lbn < s->end;
		int v = (int)i == d->state.ahead_seg ? 1 :
			write && overlaps ? 4 : s->end == s->start ? 3 : 2;

		if (best < 0 || v > value || (v == value && s->used < oldest)) {
			best = i;
			value = v;
			oldest = s->used;
		}
	}
	return best;
}

/*
 * Read LBNs from the end of a segment up to @end into it. @there_ns receives the time of each, in
 * order.
 */
static u64 read_medium(struct drive *d, struct drive_segment *s, u64 at_ns, u64 end,
		       u64 *there_ns, struct drive_answer *a)
{
	bool first = true;

	while (s->end < end) {
		u64 from = s->end, to = from + 1, latest = 0, last = from, b;
		struct platter_pos here, pos;
		struct platter_service svc;

		place_of(d, from, &here);
		if (d->buffer.zero_latency)
			for (; to < end; to++) {
				place_of(d, to, &pos);
				if (!same_track(&here, &pos))
					break;
			}
		for (b = from; b < to; b++) {
			u64 over = would_pass(d, at_ns, b, false, &svc);

			if (over > latest) {
				latest = over;
				last = b;
			}
			there_ns[b - from] = latest;
		}
		pass(d, at_ns, last, false, &svc);
		if (first) {
			a->seek_ns = svc.seek_ns;
			a->rotation_ns = svc.rotation_ns;
			a->transfer_ns = 0;
			first = false;
		} else {
			a->transfer_ns += latest - at_ns;
		}
		at_ns = latest;
		there_ns += to - from;
		s->end = to;
	}
	slide(d, s);
	return at_ns;
}

/* Transfer the data of a read over the bus, which the drive already holds or has to acquire. */
static u64 bus_read(const struct drive *d, u64 t, bool held, const u64 *there_ns,
		    u64 n, u64 water)
{
	bool after_write = d->state.last_write;
	u64 out = 0;

	for (;;) {
		u64 have = out;

		if (!held) {
			u64 want = out + water < n ? out + water : n;

			t = max_t(u64, t, there_ns[want - 1]);
			t += d->delay.reselect_ns[0] + d->delay.prep_ns;
		}
		while (have < n && there_ns[have] <= t)
			have++;
		if (have > out) {
			t += (have - out) * d->bus.sector_ns[0];
			out = have;
			if (out == n)
				return t;
			held = true;
			continue;
		}
		if (d->bus.hold_read || d->bus.never_disconnect) {
			t = there_ns[out];
		} else {
			t += d->delay.read_disconnect_ns[after_write];
			held = false;
		}
	}
}

static void serve_read(struct drive *d, u64 arrival_ns, u64 lbn, u64 n,
		       struct drive_answer *a)
{
	u64 *there = d->state.there_ns;
	u64 begin_ns = arrival_ns + d->delay.read_miss_ns[d->state.last_write];
	u64 free_ns = arrival_ns, bus_ns, water, i;
	struct drive_segment *s;
	bool queued, streaming;
	enum match match;
	int nr;

	advance(d, arrival_ns);
	queued = d->state.write_end_ns > arrival_ns;
	if (queued)
		free_ns = d->state.write_end_ns;
	nr = find_read(d, lbn, n, &match);
	streaming = match != MISS && nr == d->state.ahead_seg;
	if (match == MISS)
		nr = take_segment(d, !!d->buffer.write_segment, d->buffer.segments, lbn, n, false);
	if (!streaming)
		free_ns = max_t(u64, free_ns, stop_ahead(d, arrival_ns));
	begin_ns = max_t(u64, begin_ns, free_ns);

	s = &d->state.seg[nr];
	s->used = ++d->state.tick;
	if (match == MISS) {
		s->start = lbn;
		s->end = lbn;
		s->max = 0;
	}
	if (match != WHOLE)
		s->written = false;
	for (i = 0; i < n && lbn + i < s->end; i++)
		there[i] = arrival_ns;
	s->max = max_t(u64, s->max, ahead_limit(d, s, lbn, lbn + n));
	a->hit = match == WHOLE;
	if (match != WHOLE) {
		d->state.ahead_ns = read_medium(d, s, streaming ? d->state.ahead_ns : begin_ns,
					  lbn + n, there + i, a);
		d->state.ahead_seg = nr;
	} else if (!streaming && d->buffer.ahead_on_hit) {
		d->state.ahead_ns = begin_ns;
		d->state.ahead_seg = nr;
	}

	water = max_t(u64, water_mark(d, d->bus.read_water_permille, n), 1);
	if (d->bus.never_disconnect || (match != MISS && !queued)) {
		bus_ns = arrival_ns + d->delay.prep_ns +
			 (match == MISS ? d->delay.read_miss_ns :
			  d->delay.read_hit_ns)[d->state.last_write];
		bus_ns = bus_read(d, bus_ns, true, there, n, water);
	} else {
		bus_ns = arrival_ns + d->delay.read_miss_ns[d->state.last_write] +
			 d->delay.read_disconnect_ns[d->state.last_write];
		if (queued)
			bus_ns = max_t(u64, bus_ns, d->state.write_end_ns);
		bus_ns = bus_read(d, bus_ns, false, there, n, water);
	}
	if (d->buffer.forget_read && s->end >= lbn + n)
		s->start = max_t(u64, s->start, lbn + n);
	a->done_ns = bus_ns + d->delay.read_done_ns;
}

/*
 * The first sectors of a write fill the segment. Return: the time when the bus moves the next one.
 * If the drive holds the bus, it waits for room; if it has released the bus, it acquires it again
 * when the sectors not yet on the medium are down to the low water mark.
 */
static u64 bus_room(const struct drive *d, u64 bus_ns, u64 moved, u64 n, bool extra)
{
	const u64 *written_ns = d->state.there_ns;
	u64 room_ns = written_ns[moved - d->buffer.segment_sectors], left;

	if (room_ns <= bus_ns)
		return bus_ns;
	if (d->bus.hold_write || d->bus.never_disconnect)
		return room_ns;
	left = min_t(u64, water_mark(d, d->bus.write_water_permille, n),
		     d->buffer.segment_sectors - 1);
	bus_ns += extra ? d->delay.extra_ns[3] : d->delay.write_disconnect_ns;
	return max_t(u64, bus_ns, written_ns[moved - left - 1]) + d->delay.reselect_ns[extra] +
	       d->delay.prep_ns;
}

/*
 * Write to the medium.  A sector that has not come over the bus when the head is
 * there waits for the next turn.
 * @bus_ns is when the bus begins, and becomes when it is done.
 */
static u64 write_medium(struct drive *d, u64 at_ns, u64 lbn, u64 n, u64 *bus_ns,
			u64 first_ns, bool extra, struct drive_answer *a)
{
	u64 i, t = at_ns, *written_ns = d->state.there_ns;

	for (i = 0; i < n; i++) {
		struct platter_service svc;
		u64 end = pass(d, t, lbn + i, true, &svc);
		u64 over = end - svc.transfer_ns, have;

		if (i >= d->buffer.segment_sectors)
			*bus_ns = bus_room(d, *bus_ns, i, n, extra);
		*bus_ns += d->bus.sector_ns[1];
		have = max_t(u64, *bus_ns, first_ns);
		if (!i) {
			a->seek_ns = svc.seek_ns;
			a->rotation_ns = svc.rotation_ns;
		}
		while (over < have) {
			over += d->geo->rot_ns;
			end += d->geo->rot_ns;
		}
		t = end;
		written_ns[i] = t;
	}
	a->transfer_ns = t - at_ns - a->seek_ns - a->rotation_ns;
	return t;
}

static void serve_write(struct drive *d, u64 arrival_ns, u64 lbn, u64 n,
			struct drive_answer *a)
{
	bool fast = d->buffer.fast_write != DRIVE_WRITE_THROUGH;
	u64 command_ns = (fast ? d->delay.write_hit_ns :
			  d->delay.write_miss_ns)[d->state.last_write];
	u64 begin_ns = arrival_ns + command_ns, bus_ns, first_ns, stop_ns, end_ns;
	bool busy, joins, extra = false;
	struct platter_service svc;
	struct drive_segment *s;
	int nr;
	u32 i;

	advance(d, arrival_ns);
	busy = d->state.write_end_ns > arrival_ns;
	joins = busy && d->buffer.combine && d->state.write_seg >= 0 &&
		lbn == d->state.seg[d->state.write_seg].end;
	if (joins)
		nr = d->state.write_seg;
	else if (d->buffer.write_segment)
		nr = 0;
	else
		nr = take_segment(d, 0, d->buffer.segments, lbn, n, true);
	s = &d->state.seg[nr];
	if (d->delay.extra_disconnect && !d->bus.never_disconnect && !busy)
		extra = s->written && s->used == d->state.tick && lbn != s->end;
	stop_ns = stop_ahead(d, arrival_ns);
	for (i = 0; i < d->buffer.segments; i++)
		if ((int)i != nr && d->state.seg[i].start < lbn + n &&
		    lbn < d->state.seg[i].end)
			d->state.seg[i].start = d->state.seg[i].end = 0;
	s->used = ++d->state.tick;
	if (!joins)
		s->start = lbn;
	s->end = lbn + n;
	s->written = true;
	slide(d, s);

	if (extra) {
		begin_ns = arrival_ns + d->delay.extra_ns[0] + d->delay.extra_ns[4];
		bus_ns = arrival_ns + d->delay.extra_ns[0] + d->delay.extra_ns[1] +
			 d->delay.extra_ns[2] +
			 d->delay.reselect_ns[0] + d->delay.prep_ns;
	} else if (busy && !joins && !d->bus.never_disconnect) {
		bus_ns = arrival_ns + command_ns + d->delay.write_disconnect_ns;
		bus_ns = max_t(u64, bus_ns, d->state.write_end_ns) +
			 d->delay.reselect_ns[0] + d->delay.prep_ns;
	} else {
		bus_ns = arrival_ns + command_ns + d->delay.prep_ns;
		if (busy && !joins)
			bus_ns = max_t(u64, bus_ns, d->state.write_end_ns);
	}
	begin_ns = max_t(u64, begin_ns, stop_ns);
	if (busy)
		begin_ns = max_t(u64, begin_ns, d->state.write_end_ns);
	if (!joins && d->delay.min_write_seek_ns) {
		would_pass(d, begin_ns, lbn, true, &svc);
		if (svc.seek_ns < d->delay.min_write_seek_ns)
			begin_ns += d->delay.min_write_seek_ns - svc.seek_ns;
	}
	first_ns = 0;
	if (d->delay.extra_disconnect)
		first_ns = bus_ns + d->bus.sector_ns[1] *
				    (n < EXTRA_LONG_SECTORS ?
				     min_t(u64, n, EXTRA_SHORT_AWAITS) : EXTRA_LONG_AWAITS);
	end_ns = write_medium(d, begin_ns, lbn, n, &bus_ns, first_ns, extra, a);
	d->state.write_seg = nr;
	a->hit = fast;
	if (fast) {
		d->state.write_end_ns = end_ns;
		a->done_ns = bus_ns + d->delay.write_done_ns;
		return;
	}
	if (!d->bus.never_disconnect)
		bus_ns += extra ? d->delay.extra_ns[3] : d->delay.write_disconnect_ns;
	a->done_ns = max_t(u64, bus_ns, end_ns) + d->delay.write_done_ns;
	if (!d->bus.never_disconnect)
		a->done_ns += d->delay.reselect_ns[extra];
	d->state.write_end_ns = end_ns;
}

/**
 * drive_serve - carry out one request
 * @d: an initialised drive
 * @arrival_ns: not before the answer to the one before
 * @write: write or read
 * @lbn: first
 * @n: how many, 1 to DRIVE_MAX_REQUEST, within the drive
 * @answer: filled in
 */
void drive_serve(struct drive *d, u64 arrival_ns, bool write, u64 lbn, u64 n,
		 struct drive_answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	if (write)
		serve_write(d, arrival_ns, lbn, n, answer);
	else
		serve_read(d, arrival_ns, lbn, n, answer);
	d->state.last_write = write;
}
