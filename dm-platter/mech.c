// SPDX-License-Identifier: GPL-2.0
/* Mechanics of a disk.  Pure code; times are integer nanoseconds. */
#include "mech.h"

/* Floor of the square root; the same in kernel and user space. */
static u64 isqrt(u64 x)
{
	u64 root = 0, bit = 1ULL << 62;

	while (bit > x)
		bit >>= 2;
	while (bit) {
		if (x >= root + bit) {
			x -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
		bit >>= 2;
	}
	return root;
}

/**
 * platter_seek_init() - check a seek curve
 * @seek: filled in by the caller; a @span of 0 means @cyls
 * @error: set to a sentence on failure
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int platter_seek_init(struct platter_seek *seek, const char **error)
{
	u32 i;

	if (!seek->cyls)
		seek->cyls = 1;
	if (!seek->span)
		seek->span = seek->cyls;
	if (seek->nr > PLATTER_MAX_SEEK_POINTS) {
		*error = "The seek table must not have more than 256 points";
		return -EINVAL;
	}
	for (i = 0; i < seek->nr; i++) {
		if (!seek->point[i].distance ||
		    (i && seek->point[i].distance <= seek->point[i - 1].distance)) {
			*error = "The distances of the seek table must start above 0 and grow";
			return -EINVAL;
		}
	}
	if (!seek->nr && (seek->min_ns > seek->avg_ns || seek->avg_ns > seek->max_ns)) {
		*error = "Seek times must not fall: minimum <= average <= maximum";
		return -EINVAL;
	}
	return 0;
}

static u32 line(u64 d0, u32 t0, u64 d1, u32 t1, u64 d)
{
	if (d1 <= d0)
		return t1;
	if (t1 >= t0)
		return t0 + div64_u64((u64)(t1 - t0) * (d - d0), d1 - d0);
	return t0 - div64_u64((u64)(t0 - t1) * (d - d0), d1 - d0);
}

static u32 seek_table_ns(const struct platter_seek *seek, u64 d)
{
	const struct platter_seek_point *p = seek->point;
	u32 lo = 0, hi = seek->nr;

	if (d <= p[0].distance)
		return p[0].ns;
	while (hi - lo > 1) {
		u32 mid = (lo + hi) / 2;

		if (p[mid].distance <= d)
			lo = mid;
		else
			hi = mid;
	}
	if (lo + 1 == seek->nr)
		return p[lo].ns;
	return line(p[lo].distance, p[lo].ns, p[lo + 1].distance, p[lo + 1].ns, d);
}

/*
 * The arm accelerates and brakes over a third of the stroke (time grows with
 * the root of the distance) and coasts beyond it (time grows with the distance).
 * An average random seek is a third of the stroke, so the given average pins
 * the point where the two halves meet and the curve cannot fall.
 */
static u32 seek_fit_ns(const struct platter_seek *seek, u64 d)
{
	u64 third = seek->span / 3, root;

	if (third < 2)
		return line(1, seek->min_ns, seek->span - 1, seek->max_ns,
			    min_t(u64, d, seek->span - 1));
	if (d >= third)
		return line(third, seek->avg_ns, seek->span - 1, seek->max_ns,
			    min_t(u64, d, seek->span - 1));
	root = isqrt(div64_u64((d - 1) << 24, third - 1));	/* 12 fractional bits */
	return seek->min_ns + (((u64)(seek->avg_ns - seek->min_ns) * root) >> 12);
}

/**
 * platter_seek_ns() - time to move the head
 * @seek: an initialised curve
 * @distance: tracks; 0 takes no time
 *
 * A move of one track always takes the profile's time for one track.  On a drive with fewer
 * cylinders, longer distances are stretched so that the full stroke keeps its time.
 *
 * Context: any.
 * Return: ns.
 */
u32 platter_seek_ns(const struct platter_seek *seek, u32 distance)
{
	u64 d = distance;

	if (!d)
		return 0;
	if (d > 1 && seek->cyls > 2 && seek->span != seek->cyls)
		d = 1 + div64_u64((d - 1) * (max_t(u64, seek->span, 2) - 2),
				  seek->cyls - 2);
	return seek->nr ? seek_table_ns(seek, d) : seek_fit_ns(seek, d);
}

/**
 * platter_mech_init() - park the head at block 0 and empty the buffer
 * @mech: the caller fills in the constants
 * @geo: an initialised geometry that outlives @mech
 *
 * Context: any.
 */
void platter_mech_init(struct platter_mech *mech, const struct platter_geo *geo)
{
	struct platter_pos pos;

	mech->geo = geo;
	platter_geo_pos(geo, 0, &pos);
	mech->cyl = pos.cyl;
	mech->surface = pos.surface;
	mech->free_ns = 0;
	if (!mech->nr_segments || mech->nr_segments > PLATTER_MAX_SEGMENTS)
		mech->nr_segments = PLATTER_MAX_SEGMENTS;
	platter_mech_drop(mech);
}

/* Seek and head switch overlap in time; settling for a write comes after both. */
static u32 move_ns(const struct platter_mech *mech, const struct platter_pos *pos,
		   bool write)
{
	u32 distance = pos->cyl > mech->cyl ? pos->cyl - mech->cyl :
					      mech->cyl - pos->cyl;
	u32 ns = platter_seek_ns(&mech->seek, distance);

	if (pos->surface != mech->surface)
		ns = max_t(u32, ns, mech->head_switch_ns);
	else if (!distance)
		return 0;
	return write ? max_t(s64, ns + mech->write_settle_ns, 0) : ns;
}

static u32 rotation_wait_ns(const struct platter_mech *mech,
			    const struct platter_pos *pos, u64 at_ns)
{
	u32 rot = mech->geo->rot_ns;
	u32 angle = platter_geo_angle_ns(mech->geo, pos, pos->sector);
	u32 now;

	div_u64_rem(at_ns, rot, &now);
	return angle >= now ? angle - now : angle + rot - now;
}

/* Time over @n blocks, computed from the angles so that sums do not drift. */
static u32 transfer_ns(const struct platter_mech *mech, const struct platter_pos *pos,
		       u32 n)
{
	u32 rot = mech->geo->rot_ns, from, to;

	if (n >= pos->track_blocks)
		return rot;
	from = platter_geo_angle_ns(mech->geo, pos, pos->sector);
	to = platter_geo_angle_ns(mech->geo, pos, pos->sector + n);
	return to >= from ? to - from : to + rot - from;
}

/*
 * Serve a part of a request on one track: move, wait, transfer.  Moves the head; returns
 * the end.
 */
static u64 serve_piece(struct platter_mech *mech, u64 at_ns,
		       const struct platter_pos *pos, u32 n, bool write,
		       struct platter_service *svc)
{
	u32 distance = pos->cyl > mech->cyl ? pos->cyl - mech->cyl :
					      mech->cyl - pos->cyl;
	u32 move = move_ns(mech, pos, write);
	u32 wait = rotation_wait_ns(mech, pos, at_ns + move);
	u32 xfer = transfer_ns(mech, pos, n);

	svc->seek_ns += move;
	svc->rotation_ns += wait;
	svc->transfer_ns += xfer;
	svc->distance += distance;
	svc->seeks += !!distance;
	svc->head_switches += pos->surface != mech->surface;
	mech->cyl = pos->cyl;
	mech->surface = pos->surface;
	return at_ns + move + wait + xfer;
}

/**
 * platter_mech_service() - serve a request
 * @mech: the drive
 * @now_ns: when it begins, after the command overhead; not before @mech->free_ns
 * @blk: first block
 * @n: number of blocks, at least 1, within the device
 * @write: write or read
 * @svc: result
 *
 * Blocks are served in ascending order, each track from the request's first block on (no
 * access on arrival).  The head stays where the request ends.
 *
 * Context: any; O(tracks crossed).
 */
void platter_mech_service(struct platter_mech *mech, u64 now_ns, u64 blk, u64 n,
			  bool write, struct platter_service *svc)
{
	struct platter_pos pos;
	u64 t = now_ns, left = n, b = blk;
	bool first = true;

	platter_mech_advance(mech, now_ns);
	memset(svc, 0, sizeof(*svc));
	svc->start_ns = now_ns;
	while (left) {
		u32 piece;

		platter_geo_pos(mech->geo, b, &pos);
		if (first) {
			svc->cyl = pos.cyl;
			svc->surface = pos.surface;
			first = false;
		}
		piece = min_t(u64, left, pos.track_blocks - pos.sector);
		t = serve_piece(mech, t, &pos, piece, write, svc);
		b += piece;
		left -= piece;
	}
	svc->finish_ns = t;
	mech->free_ns = t;
	mech->ahead_seg = -1;

	if (!write && mech->lookahead_blocks) {
		struct platter_segment *s = NULL;
		u32 i;

		/* a stream continues in the segment that it ended */
		for (i = 0; i < mech->nr_segments; i++)
			if (mech->segment[i].end_blk > mech->segment[i].start_blk &&
			    blk >= mech->segment[i].start_blk &&
			    blk <= mech->segment[i].end_blk)
				s = &mech->segment[i];
		if (!s) {
			s = &mech->segment[0];
			for (i = 1; i < mech->nr_segments; i++)
				if (mech->segment[i].used < s->used)
					s = &mech->segment[i];
			s->start_blk = blk;
		}
		s->end_blk = blk + n;
		if (s->end_blk - s->start_blk > mech->lookahead_blocks)
			s->start_blk = s->end_blk - mech->lookahead_blocks;
		s->used = ++mech->tick;
		mech->ahead_seg = s - mech->segment;
		mech->ahead_ns = t;
	}
}

/**
 * platter_mech_flush() - serve a FLUSH, or the similar wait of a FUA write
 * @mech: the drive
 * @ready_ns: when the blocks that it waits for are written
 *
 * Besides writing its cache, a drive takes @mech->flush_ns for a FLUSH, during which it
 * does nothing else.  This time begins when the actuator is free, and the actuator is busy
 * until its end.  The head does not move, and reading ahead ends.  If @mech->flush_ns is 0
 * nothing changes.
 *
 * Context: any; O(tracks read ahead).
 * Return: the end of the FLUSH.
 */
u64 platter_mech_flush(struct platter_mech *mech, u64 ready_ns)
{
	u64 start = max(ready_ns, mech->free_ns);

	if (!mech->flush_ns)
		return ready_ns;
	platter_mech_advance(mech, start);
	mech->ahead_seg = -1;
	mech->free_ns = start + mech->flush_ns;
	return mech->free_ns;
}

/**
 * platter_mech_position_ns() - seek plus rotation before a request could start
 * @mech: the drive; not changed
 * @now_ns: when it would begin
 * @blk: first block
 * @write: write or read
 *
 * For shortest-positioning-first scheduling.
 *
 * Context: any.
 * Return: ns from @now_ns until the first block is under the head.
 */
u64 platter_mech_position_ns(const struct platter_mech *mech, u64 now_ns, u64 blk,
			     bool write)
{
	struct platter_pos pos;
	u32 move;

	platter_geo_pos(mech->geo, blk, &pos);
	move = move_ns(mech, &pos, write);
	return (u64)move + rotation_wait_ns(mech, &pos, now_ns + move);
}

/*
 * Read ahead until @until_ns or until @want_blk has been read, and move the head along.  A
 * segment holds blocks already delivered and blocks ahead of them, @lookahead_blocks in
 * total.
 */
static void read_ahead(struct platter_mech *mech, u64 until_ns, u64 want_blk)
{
	struct platter_segment *s = &mech->segment[mech->ahead_seg];
	u64 limit = min_t(u64, mech->geo->blocks,
			  s->start_blk + mech->lookahead_blocks);

	limit = min_t(u64, limit, want_blk);
	while (s->end_blk < limit) {
		u32 old_cyl = mech->cyl, old_surface = mech->surface;
		struct platter_service svc;
		struct platter_pos pos;
		u64 end, begin;
		u32 piece, fit;

		platter_geo_pos(mech->geo, s->end_blk, &pos);
		piece = min_t(u64, limit - s->end_blk, pos.track_blocks - pos.sector);
		memset(&svc, 0, sizeof(svc));
		end = serve_piece(mech, mech->ahead_ns, &pos, piece, false, &svc);
		if (end <= until_ns) {
			mech->ahead_ns = end;
			s->end_blk += piece;
			continue;
		}
		/* the time ends on this track: keep the whole blocks that have passed */
		begin = mech->ahead_ns + svc.seek_ns + svc.rotation_ns;
		if (begin >= until_ns) {
			mech->cyl = old_cyl;
			mech->surface = old_surface;
			return;
		}
		fit = div_u64((until_ns - begin) * pos.track_blocks, mech->geo->rot_ns);
		fit = min_t(u32, fit, piece);
		if (fit) {
			s->end_blk += fit;
			mech->ahead_ns = begin + transfer_ns(mech, &pos, fit);
		}
		return;
	}
}

/**
 * platter_mech_advance() - let reading ahead continue until a point in time
 * @mech: the drive
 * @now_ns: the time
 *
 * Called before any use of the head's position or of the buffer.
 *
 * Context: any; O(tracks read).
 */
void platter_mech_advance(struct platter_mech *mech, u64 now_ns)
{
	if (mech->ahead_seg >= 0 && mech->lookahead_blocks)
		read_ahead(mech, now_ns, ~0ULL);
}

/**
 * platter_mech_lookahead() - try to serve a read from the buffer
 * @mech: the drive
 * @now_ns: when the command has been processed
 * @blk: first block
 * @n: number of blocks
 * @finish_ns: when the data have reached the host, on a hit
 *
 * On a hit, all blocks are in the buffer, or the head is reading the remaining ones right
 * now; the read then ends when the last block has passed, without a lost rotation.
 *
 * Context: any.
 * Return: true on a hit; the actuator did only what it would have done anyway.
 */
bool platter_mech_lookahead(struct platter_mech *mech, u64 now_ns, u64 blk, u64 n,
			    u64 *finish_ns)
{
	u64 end = blk + n, bus = n * mech->bus_block_ns;
	u32 i;

	if (!mech->lookahead_blocks)
		return false;
	platter_mech_advance(mech, now_ns);
	for (i = 0; i < mech->nr_segments; i++) {
		struct platter_segment *s = &mech->segment[i];
		bool filling = (int)i == mech->ahead_seg;

		if (s->end_blk <= s->start_blk || blk < s->start_blk || blk > s->end_blk)
			continue;
		if (end > s->end_blk && (!filling || n > mech->lookahead_blocks))
			continue;
		if (blk == s->end_blk && !filling)
			continue;
		/* a head that waits for room in the ring continues when there is some */
		if (filling && s->end_blk - s->start_blk >= mech->lookahead_blocks)
			mech->ahead_ns = max_t(u64, mech->ahead_ns, now_ns);
		*finish_ns = now_ns + bus;
		/* the read that began the segment may still be in progress */
		if (filling && mech->free_ns > *finish_ns)
			*finish_ns = mech->free_ns;
		if (end > s->end_blk) {
			/* drop the oldest part of the ring */
			if (end - s->start_blk > mech->lookahead_blocks)
				s->start_blk = end - mech->lookahead_blocks;
			read_ahead(mech, ~0ULL, end);
			if (s->end_blk < end)
				return false;
			if (mech->ahead_ns > *finish_ns)
				*finish_ns = mech->ahead_ns;
			mech->free_ns = max_t(u64, mech->free_ns, mech->ahead_ns);
		}
		/* continue to read: keep half of the ring ahead of the stream */
		if (filling && s->start_blk + mech->lookahead_blocks / 2 < end)
			s->start_blk = end - mech->lookahead_blocks / 2;
		s->used = ++mech->tick;
		return true;
	}
	return false;
}

/**
 * platter_mech_invalidate() - drop buffered blocks that were written or covered
 * @mech: the drive
 * @blk: first block
 * @n: number of blocks
 *
 * Context: any.
 */
void platter_mech_invalidate(struct platter_mech *mech, u64 blk, u64 n)
{
	u32 i;

	for (i = 0; i < mech->nr_segments; i++) {
		struct platter_segment *s = &mech->segment[i];

		if (blk < s->end_blk && blk + n > s->start_blk) {
			s->start_blk = 0;
			s->end_blk = 0;
			s->used = 0;
			if (mech->ahead_seg == (int)i)
				mech->ahead_seg = -1;
		}
	}
}

/**
 * platter_mech_drop() - empty the buffer (power cut, look-ahead switched off)
 * @mech: the drive
 *
 * Context: any.
 */
void platter_mech_drop(struct platter_mech *mech)
{
	memset(mech->segment, 0, sizeof(mech->segment));
	mech->ahead_seg = -1;
	mech->tick = 0;
}
