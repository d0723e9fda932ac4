// SPDX-License-Identifier: GPL-2.0
/*
 * Compute where bands and metadata lie on the devices.
 *
 * From block 0 on: superblock, two checkpoint slots, journal, pages of the map if the engine
 * has them, bands; the second superblock is in the last block.  Other devices have headers in
 * these two blocks and bands between them.  On a medium with tracks every area starts on its
 * own track, behind the tracks that the write head destroys.
 *
 * On interlaced tracks the frequently rewritten areas lie on tops above unused bottoms.
 * Track 0 holds a superblock and track 1 nothing.  Then follow one top for each checkpoint
 * slot, one for the journal, one for each saved top, an unused bottom and top, and the data
 * tracks.  With the metadata on another device track 0 holds a header, and the first saved
 * top is on track 3.
 */
#include <stdarg.h>

#include "pages/pages.h"
#include "plan.h"

#define DEFAULT_BAND_BLOCKS	((30ULL << 20) / SHINGLE_BLOCK_SIZE)
#define DEFAULT_CACHE_PERCENT	5
#define MAX_JOURNAL_BLOCKS	((64ULL << 20) / SHINGLE_BLOCK_SIZE)
#define MIN_JOURNAL_BLOCKS	((u64)PLAN_MIN_JOURNAL_BLOCKS)

static int sorry(char *why, const char *fmt, ...) __printf(2, 3);

static int sorry(char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, PLAN_WHY, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int no_room(char *why, const char *fmt, ...) __printf(2, 3);

static int no_room(char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, PLAN_WHY, fmt, ap);
	va_end(ap);
	return -ENOSPC;
}

void plan_no_tracks(struct shingle_medium *m, u64 blocks)
{
	memset(m, 0, sizeof(*m));
	m->blocks = blocks;
}

/* Describe tracks of one length; returns false if the numbers are out of bounds. */
bool plan_uniform_tracks(struct shingle_medium *m, u64 blocks, u64 track_blocks, bool interlaced)
{
	const char *why;

	if (track_blocks > PLATTER_MAX_TRACK_BLOCKS ||
	    blocks > PLATTER_MAX_CYLINDERS * track_blocks)
		return false;
	plan_no_tracks(m, blocks);
	m->geo.media = interlaced ? PLATTER_IMR : PLATTER_SMR;
	m->geo.surfaces = 1;
	m->geo.nr_zones = 1;
	m->geo.zone[0].track_blocks = (u32)track_blocks;
	m->geo.zone[0].cyls = (u32)DIV_ROUND_UP(blocks, track_blocks);
	return !shingle_medium_init(m, &why);
}

static bool is_interlaced(const struct shingle_medium *m)
{
	return shingle_medium_has_tracks(m) && m->geo.media == PLATTER_IMR;
}

/* Length of all tracks, or 0 if there are none or several lengths. */
static u32 only_length(const struct shingle_medium *m)
{
	struct shingle_tracks t;

	if (!shingle_medium_tracks(m, 0, &t))
		return 0;
	return t.end + t.track_blocks > m->geo.blocks ? t.track_blocks : 0;
}

/* Length of the longest track, 0 if there are none. */
u32 plan_longest_track(const struct shingle_medium *m)
{
	struct shingle_tracks t;
	u32 longest = 0;
	u64 at;

	for (at = 0; shingle_medium_tracks(m, at, &t); at = t.end)
		longest = max(longest, t.track_blocks);
	return longest;
}

static u64 count_bands(struct shingle_room room)
{
	struct shingle_bands b;
	u64 total = 0, n;

	while ((n = shingle_take_bands(&room, U64_MAX, &b)))
		total += n;
	return total;
}

static int place_bands(struct shingle_layout *l, struct shingle_room *room, enum shingle_dev dev,
		       enum shingle_role role, u64 want, char *why)
{
	struct shingle_group g = { .role = role };
	struct shingle_bands b;
	const char *what;
	u64 got;

	if (!want)
		return 0;
	room->band_blocks = l->band_blocks[role];
	got = shingle_take_bands(room, want, &b);
	g.start = shingle_pblk(dev, b.start);
	g.nr_bands = want;
	/* Over tracks of several lengths the place of the first band determines the rest. */
	if (got == want) {
		g.stride = b.stride;
		g.track_blocks = b.track_blocks;
	}
	while (got && want > got) {
		want -= got;
		got = shingle_take_bands(room, want, &b);
	}
	if (!got)
		return sorry(why, "bands do not fit where they were counted to fit");
	if (shingle_layout_add(l, &g, &what))
		return sorry(why, "%s", what);
	return 0;
}

static const struct shingle_bands_needed *needs(const struct plan_request *req)
{
	return &req->row->ops->needs;
}

static u64 journal_gap(const struct plan_request *req, const struct shingle_medium *m)
{
	if (req->head_tracks == 1)
		return 0;
	return (u64)req->head_tracks * plan_longest_track(m);
}

static u64 pages_of(const struct plan_request *req, const struct shingle_layout *l)
{
	return req->row->ops->pages.nr_pages ? req->row->ops->pages.nr_pages(l) : 0;
}

/* Place the metadata at the start of their device, with slots of @slot blocks. */
static u64 place_metadata(const struct plan_request *req, struct shingle_layout *l, u64 slot,
			  u64 journal)
{
	const struct shingle_medium *m = &req->medium[shingle_meta_dev(l)];
	u64 at = shingle_medium_after_write(m, req->head_tracks, 0), pages = pages_of(req, l);
	u32 i;

	for (i = 0; i < 2; i++) {
		l->ckpt[i].start = at;
		l->ckpt[i].blocks = slot;
		at = shingle_medium_after_write(m, req->head_tracks, at + slot - 1);
	}
	l->journal.start = at;
	l->journal.blocks = journal;
	at = shingle_medium_after_write(m, req->head_tracks, at + journal - 1);
	l->pages.blocks = 2 * pages;
	l->pages.start = pages ? at : 0;
	if (!pages)
		return at;
	return shingle_medium_after_write(m, req->head_tracks, at + l->pages.blocks - 1);
}

/* True if all bands have one length. */
static bool one_length(const struct plan_request *req)
{
	return req->cache_band_blocks == req->band_blocks;
}

/* Number of cache bands wanted, if @total bands of the data bands' length fit. */
static u64 wanted_cache(const struct plan_request *req, u64 total)
{
	u64 percent = req->cache ?: DEFAULT_CACHE_PERCENT, each = req->cache_band_blocks;

	if (!req->cache || req->cache_unit == PLAN_CACHE_PERCENT)
		return max((total * req->band_blocks * percent + 50 * each) / (100 * each), 1ULL);
	if (req->cache_unit == PLAN_CACHE_BLOCKS)
		return DIV_ROUND_UP(req->cache, each);
	return req->cache;
}

/* The same for @bands of data.  A percentage refers to all bands, the cache's included. */
static u64 wanted_beside(const struct plan_request *req, u64 bands)
{
	u64 percent = req->cache ?: DEFAULT_CACHE_PERCENT, each = req->cache_band_blocks;
	u64 rest = 100 - percent;

	if (req->cache && req->cache_unit != PLAN_CACHE_PERCENT)
		return wanted_cache(req, 0);
	return max((bands * req->band_blocks * percent + rest * each / 2) / (rest * each), 1ULL);
}

static u64 cache_bands(const struct plan_request *req, u64 total, u64 bands)
{
	return min(wanted_cache(req, total), bands);
}

/* Number of bands of one length that DATA must hold, or U64_MAX if it is not fixed. */
static u64 wanted_bands(const struct plan_request *req)
{
	u64 bands = req->data_bands;

	if (!bands || !needs(req)->cache || req->medium[SHINGLE_DEV_CACHE].blocks)
		return bands ?: U64_MAX;
	if (!one_length(req))
		return U64_MAX;
	bands += needs(req)->staging;
	return bands + wanted_beside(req, bands);
}

/* Take @n bands of a role out of @room; false if they do not fit. */
static bool take_role(const struct shingle_layout *l, struct shingle_room *room,
		      enum shingle_role role, u64 n)
{
	struct shingle_bands b;
	u64 got;

	room->band_blocks = l->band_blocks[role];
	for (; n; n -= got) {
		got = shingle_take_bands(room, n, &b);
		if (!got)
			return false;
	}
	return true;
}

static u64 count_role(const struct shingle_layout *l, struct shingle_room room,
		      enum shingle_role role)
{
	room.band_blocks = l->band_blocks[role];
	return count_bands(room);
}

/* The roles in the order of their location. */
static const enum shingle_role *order_of(const struct plan_request *req)
{
	static const enum shingle_role first[] = {
		SHINGLE_ROLE_CACHE, SHINGLE_ROLE_STAGING, SHINGLE_ROLE_DATA,
	}, last[] = { SHINGLE_ROLE_DATA, SHINGLE_ROLE_STAGING, SHINGLE_ROLE_CACHE };

	return req->cache_first && !req->medium[SHINGLE_DEV_CACHE].blocks ? first : last;
}

static bool all_fit(const struct plan_request *req, const struct shingle_layout *l,
		    struct shingle_room room, const u64 *nr)
{
	const enum shingle_role *role = order_of(req);
	u32 i;

	for (i = 0; i < SHINGLE_NR_ROLES; i++) {
		if (!take_role(l, &room, role[i], nr[role[i]]))
			return false;
	}
	return true;
}

static int no_data_band(const struct shingle_layout *l, char *why)
{
	return sorry(why, "DATA has no room for a band of %u blocks (4 KiB each): choose smaller bands or a larger device",
		     l->band_blocks[SHINGLE_ROLE_DATA]);
}

/* Divide with a separate CACHE: @bands fit on DATA; cache and staging lie on CACHE. */
static int divide_apart(const struct plan_request *req, const struct shingle_layout *l,
			struct shingle_room flash, u64 bands, u64 *nr, char *why)
{
	u32 each = l->band_blocks[SHINGLE_ROLE_CACHE];
	u64 there = 0, all = count_role(l, flash, SHINGLE_ROLE_CACHE);

	if (take_role(l, &flash, SHINGLE_ROLE_STAGING, needs(req)->staging))
		there = count_role(l, flash, SHINGLE_ROLE_CACHE);
	if (!there && one_length(req))
		return no_room(why, "CACHE has room for %llu bands of %u blocks (4 KiB each) and %u are needed: choose smaller bands or a larger device",
			       all, each, needs(req)->staging + 1);
	if (!there)
		return no_room(why, "CACHE has no room for a band of staging of %u blocks and one of the cache of %u (4 KiB each): choose smaller bands or a larger device",
			       l->band_blocks[SHINGLE_ROLE_STAGING], each);
	if (!bands)
		return no_data_band(l, why);
	nr[SHINGLE_ROLE_DATA] = bands;
	if (req->data_bands && req->cache && there < wanted_cache(req, bands))
		return no_room(why, "CACHE has room for %llu of the %llu cache bands of %u blocks (4 KiB each) that are requested",
			       there, wanted_cache(req, bands), each);
	nr[SHINGLE_ROLE_CACHE] = req->cache ? cache_bands(req, bands, there) : min(there, bands);
	return 0;
}

/* Divide @bands on DATA among all roles, if all bands have one length. */
static int divide_evenly(const struct plan_request *req, const struct shingle_layout *l,
			 u64 bands, u64 *nr, char *why)
{
	if (bands < needs(req)->staging + 2)
		return sorry(why, "DATA has room for %llu bands of %u blocks (4 KiB each) and %u are needed (data, staging, cache): choose smaller bands or a larger device",
			     bands, l->band_blocks[SHINGLE_ROLE_DATA], needs(req)->staging + 2);
	nr[SHINGLE_ROLE_CACHE] = req->data_bands ?
		bands - needs(req)->staging - req->data_bands :
		cache_bands(req, bands, bands - needs(req)->staging - 1);
	nr[SHINGLE_ROLE_DATA] = bands - needs(req)->staging - nr[SHINGLE_ROLE_CACHE];
	return 0;
}

/*
 * Divide the room of @bands data bands among all roles, if cache bands have another length:
 * as many data bands as leave room for the cache.
 */
static int divide_unevenly(const struct plan_request *req, const struct shingle_layout *l,
			   struct shingle_room room, u64 bands, u64 *nr, char *why)
{
	u64 exactly = req->data_bands, low = 1, high = bands;

	nr[SHINGLE_ROLE_DATA] = exactly ?: 1;
	nr[SHINGLE_ROLE_CACHE] = exactly ? wanted_beside(req, exactly + needs(req)->staging) :
				 wanted_cache(req, bands);
	if (exactly > bands || !all_fit(req, l, room, nr))
		return no_room(why, "DATA has no room for %llu cache bands of %u blocks beside %llu of data and %u of staging, of %u blocks (4 KiB each)",
			       nr[SHINGLE_ROLE_CACHE], l->band_blocks[SHINGLE_ROLE_CACHE],
			       nr[SHINGLE_ROLE_DATA], needs(req)->staging,
			       l->band_blocks[SHINGLE_ROLE_DATA]);
	while (!exactly && low < high) {
		nr[SHINGLE_ROLE_DATA] = low + (high - low + 1) / 2;
		if (all_fit(req, l, room, nr))
			low = nr[SHINGLE_ROLE_DATA];
		else
			high = nr[SHINGLE_ROLE_DATA] - 1;
	}
	if (!exactly)
		nr[SHINGLE_ROLE_DATA] = low;
	return 0;
}

/*
 * Divide the room among the roles and place the bands.  @limit bounds the room used on DATA,
 * in bands of the data bands' length; @got returns the room used in the same unit.
 */
static int place_all_bands(const struct plan_request *req, struct shingle_layout *l, u64 data_from,
			   u64 limit, u64 *got, char *why)
{
	const struct shingle_medium *cache = &req->medium[SHINGLE_DEV_CACHE];
	bool apart = cache->blocks;
	struct shingle_room room = shingle_layout_room(l, SHINGLE_DEV_DATA, SHINGLE_ROLE_DATA,
						       data_from);
	u64 cache_from = apart ? shingle_medium_after_write(cache, req->head_tracks, 0) : 0;
	struct shingle_room flash = shingle_layout_room(l, SHINGLE_DEV_CACHE, SHINGLE_ROLE_CACHE,
							cache_from);
	const enum shingle_role *role = order_of(req);
	u64 nr[SHINGLE_NR_ROLES] = { 0 }, fit = count_bands(room), bands = min(fit, limit);
	int err = 0;
	u32 i;

	*got = bands;
	if (req->data_bands && limit != U64_MAX && bands < limit)
		return no_room(why, "DATA has room for %llu of the %llu bands of %u blocks (4 KiB each) that are requested",
			       bands, limit, l->band_blocks[SHINGLE_ROLE_DATA]);
	nr[SHINGLE_ROLE_STAGING] = needs(req)->staging;
	nr[SHINGLE_ROLE_DATA] = bands;
	if (!needs(req)->cache && !bands)
		return no_data_band(l, why);
	if (needs(req)->cache && !apart && !one_length(req) && bands < fit) {
		struct shingle_room front = room;

		take_role(l, &front, SHINGLE_ROLE_DATA, bands);
		room.end = front.at;
	}
	if (needs(req)->cache)
		err = apart ? divide_apart(req, l, flash, bands, nr, why) :
		      one_length(req) ? divide_evenly(req, l, bands, nr, why) :
					divide_unevenly(req, l, room, bands, nr, why);
	for (i = 0; i < SHINGLE_NR_ROLES && !err; i++) {
		bool there = apart && role[i] != SHINGLE_ROLE_DATA;

		err = place_bands(l, there ? &flash : &room,
				  there ? SHINGLE_DEV_CACHE : SHINGLE_DEV_DATA, role[i],
				  nr[role[i]], why);
	}
	shingle_layout_index(l);
	if (!err && req->row->derive)
		req->row->derive(l);
	l->logical_blocks = req->row->ops->logical_blocks(l);
	return err;
}

/* Clear the bands of a layout.  @params are the engine's parameters before settling. */
static void forget_bands(struct shingle_layout *l, const u8 *params)
{
	memcpy(l->params, params, sizeof(l->params));
	l->nr_entries = 0;
	l->nr_groups = 0;
	l->logical_blocks = 0;
	memset(l->nr_bands, 0, sizeof(l->nr_bands));
}

static u64 ckpt_blocks(const struct plan_request *req, const struct shingle_layout *l)
{
	return shingle_ckpt_blocks(shingle_pieces_nr(req->row->ops->state.pieces, U32_MAX, l) +
				   shingle_places_pieces(pages_of(req, l)));
}

/* Lay out at most @limit bands, with checkpoint slots of the length that they need. */
static int try_bands(const struct plan_request *req, struct shingle_layout *l, const u8 *params,
		     u64 limit, u64 journal, u64 *got, char *why)
{
	u64 from = shingle_medium_after_write(&req->medium[SHINGLE_DEV_DATA], req->head_tracks, 0);
	bool own_meta = shingle_meta_dev(l) == SHINGLE_DEV_DATA;
	int err;

	forget_bands(l, params);
	err = place_all_bands(req, l, from, limit, got, why);
	if (err)
		return err;
	from = place_metadata(req, l, ckpt_blocks(req, l), journal);
	if (own_meta) {
		forget_bands(l, params);
		err = place_all_bands(req, l, from, limit, got, why);
	}
	return err;
}

/*
 * Find the largest number of bands that fits.  More bands need longer checkpoint slots, which
 * leave less room for bands.
 */
static int most_bands(const struct plan_request *req, struct shingle_layout *l, u64 journal,
		      char *why)
{
	bool apart = req->medium[SHINGLE_DEV_CACHE].blocks || !needs(req)->cache;
	u64 least = apart ? 1 : needs(req)->staging + 2;
	u64 low = least, high = req->medium[SHINGLE_DEV_DATA].blocks / req->band_blocks, got;
	u8 params[SHINGLE_ENGINE_PARAMS_SIZE];
	char ignored[PLAN_WHY];

	memcpy(params, l->params, sizeof(params));
	if (req->data_bands || shingle_meta_dev(l) != SHINGLE_DEV_DATA)
		return try_bands(req, l, params, wanted_bands(req), journal, &got, why);
	while (low < high) {
		u64 middle = low + (high - low + 1) / 2;

		if (!try_bands(req, l, params, middle, journal, &got, ignored) && got == middle)
			low = middle;
		else
			high = middle - 1;
	}
	return try_bands(req, l, params, low, journal, &got, why);
}

static int journal_length(const struct plan_request *req, struct shingle_layout *l, u64 *journal,
			  char *why)
{
	const struct shingle_medium *m = &req->medium[shingle_meta_dev(l)];

	l->journal_gap_blocks = journal_gap(req, m);
	*journal = req->journal_blocks;
	if (!*journal) {
		*journal = min(MAX_JOURNAL_BLOCKS, req->medium[SHINGLE_DEV_DATA].blocks / 64);
		*journal = max(*journal, MIN_JOURNAL_BLOCKS) + l->journal_gap_blocks;
	} else if (*journal < MIN_JOURNAL_BLOCKS + l->journal_gap_blocks) {
		return sorry(why, "--journal must be at least %llu KiB here: 16 blocks and the %llu that the head destroys in front of a write",
			     (MIN_JOURNAL_BLOCKS + l->journal_gap_blocks) * 4,
			     l->journal_gap_blocks);
	}
	return 0;
}

/* True if pages can be rewritten in place: no tracks, or none that a write destroys. */
static bool pages_are_safe(const struct plan_request *req, const struct shingle_layout *l)
{
	const struct shingle_medium *m = &req->medium[shingle_meta_dev(l)];

	return req->head_tracks == 1 || !shingle_medium_has_tracks(m) ||
	       shingle_medium_is_conventional(m, l->pages.start, l->pages.blocks);
}

/* Fit the metadata on META; a journal of default length is shortened if necessary. */
static int fit_apart(const struct plan_request *req, struct shingle_layout *l, char *why)
{
	const struct shingle_medium *m = &req->medium[SHINGLE_DEV_META];
	u64 end = shingle_medium_track_start(m, m->blocks - 1), slot = l->ckpt[0].blocks;
	u64 least = MIN_JOURNAL_BLOCKS + l->journal_gap_blocks, journal = l->journal.blocks;

	if (place_metadata(req, l, slot, journal) <= end)
		return 0;
	if (!req->journal_blocks && l->journal.start < end) {
		for (journal = end - l->journal.start; journal >= least; journal--) {
			if (place_metadata(req, l, slot, journal) <= end)
				return 0;
		}
	}
	return sorry(why, "META has %llu blocks and the metadata need at least %llu (4 KiB each)",
		     m->blocks, place_metadata(req, l, slot, req->journal_blocks ?: least) + 1);
}

#define DEFAULT_TRACK_BLOCKS	512U
#define DEFAULT_BACKUP_TRACKS	128ULL
/* The first top in use. */
#define FIRST_TOP	3

static int interlaced_tracks(const struct shingle_medium *m, u32 *track_blocks, char *why)
{
	*track_blocks = DEFAULT_TRACK_BLOCKS;
	if (!shingle_medium_has_tracks(m))
		return 0;
	*track_blocks = only_length(m);
	if (!*track_blocks)
		return sorry(why, "DATA has tracks of several lengths, and imr needs tracks of one length: give it with --track");
	return 0;
}

/*
 * Place the metadata on tops of DATA, each slot on @tops of them.  Returns the first track
 * behind.
 */
static u64 metadata_on_tops(struct shingle_layout *l, u32 track, u64 tops)
{
	struct shingle_area *area[] = { &l->ckpt[0], &l->ckpt[1], &l->journal };
	u64 top = FIRST_TOP;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(area); i++) {
		u64 n = area[i] == &l->journal ? 1 : tops;

		area[i]->start = top * track;
		area[i]->blocks = (2 * n - 1) * track;
		top += 2 * n;
	}
	l->ckpt_stretch_blocks = tops > 1 ? track : 0;
	return top - 1;
}

/* Place the saved tops from the top behind @from on, and data behind them up to @end. */
static int interlaced_bands(const struct plan_request *req, struct shingle_layout *l, u64 from,
			    u64 end, char *why)
{
	u64 slots = req->backup_tracks, data, n;
	u32 track = l->band_blocks[SHINGLE_ROLE_DATA];
	struct shingle_group g[2] = { };
	u8 params[SHINGLE_ENGINE_PARAMS_SIZE];
	const char *what;

	memcpy(params, l->params, sizeof(params));
	if (!slots)
		slots = min(DEFAULT_BACKUP_TRACKS, max((end - min(from, end)) / 16, 2ULL));
	data = from + 2 * (slots + 1);
	if (slots < 2 || slots > PLAN_MAX_BACKUP_TRACKS)
		return sorry(why, "--backup-tracks must be from 2 to %u",
			     PLAN_MAX_BACKUP_TRACKS);
	if (end < data + 2)
		return no_room(why, "DATA has room for %llu tracks of %u blocks (4 KiB each), and metadata and backup tracks take %llu of them: choose shorter tracks or a larger device",
			       end, track, data);
	n = end - data;
	if (req->data_bands && req->data_bands > n)
		return no_room(why, "DATA has room for %llu of the %llu tracks that are requested", n,
			       req->data_bands);
	g[0].start = shingle_pblk(SHINGLE_DEV_DATA, (from + 1) * track);
	g[0].stride = 2ULL * track;
	g[0].nr_bands = slots;
	g[0].role = SHINGLE_ROLE_STAGING;
	g[1].start = shingle_pblk(SHINGLE_DEV_DATA, data * track);
	g[1].stride = track;
	g[1].nr_bands = req->data_bands ?: n;
	g[1].track_blocks = track;
	g[1].role = SHINGLE_ROLE_DATA;
	forget_bands(l, params);
	if (shingle_layout_add(l, &g[0], &what) || shingle_layout_add(l, &g[1], &what))
		return sorry(why, "%s", what);
	shingle_layout_index(l);
	return 0;
}

static int lay_interlaced(const struct plan_request *req, struct shingle_layout *l, char *why)
{
	const struct shingle_medium *data = &req->medium[SHINGLE_DEV_DATA];
	bool own_meta = shingle_meta_dev(l) == SHINGLE_DEV_DATA;
	u64 from = FIRST_TOP - 1, end, journal = 0;
	u32 track;
	int err;

	err = interlaced_tracks(data, &track, why);
	if (err)
		return err;
	if (req->head_tracks > 1 && shingle_medium_has_tracks(data) && !is_interlaced(data))
		return sorry(why, "DATA is shingled, and imr is for interlaced or conventional tracks");
	if (req->band_blocks && req->band_blocks != track)
		return sorry(why, "--band does not apply to imr: a band is a track, see --track");
	l->interlaced = true;
	l->head_tracks = 1;
	l->band_blocks[SHINGLE_ROLE_DATA] = track;
	l->band_blocks[SHINGLE_ROLE_STAGING] = track;
	/* Exclude the last block's track and its neighbour. */
	end = (data->blocks - 1) / track;
	end -= !!end;
	if (own_meta) {
		from = metadata_on_tops(l, track, 1);
		if (track < MIN_JOURNAL_BLOCKS)
			return sorry(why, "a track of %u blocks is too short for the journal: put the metadata on another device with --meta",
				     track);
		if (req->journal_blocks)
			return sorry(why, "--journal requires --meta here: on DATA the journal is as long as a track");
	}
	err = interlaced_bands(req, l, from, end, why);
	if (err)
		return err;
	l->logical_blocks = req->row->ops->logical_blocks(l);
	if (own_meta && ckpt_blocks(req, l) > track) {
		/*
		 * The length of the slots is computed as if all tracks behind single-track
		 * slots held data.
		 */
		from = metadata_on_tops(l, track,
					DIV_ROUND_UP(ckpt_blocks(req, l), track));
		err = interlaced_bands(req, l, from, end, why);
		if (err)
			return err;
		l->logical_blocks = req->row->ops->logical_blocks(l);
	}
	if (own_meta)
		return 0;
	err = journal_length(req, l, &journal, why);
	if (err)
		return err;
	place_metadata(req, l, ckpt_blocks(req, l), journal);
	return fit_apart(req, l, why);
}

/*
 * Length of the whole cache, a multiple of the longest track, as it lies on tracks of one
 * length.
 */
static u64 whole_cache(const struct plan_request *req)
{
	const struct shingle_medium *data = &req->medium[SHINGLE_DEV_DATA];
	const struct shingle_medium *flash = &req->medium[SHINGLE_DEV_CACHE];
	u64 of = req->data_bands ? req->data_bands * req->band_blocks : data->blocks;
	u64 percent = req->cache ?: DEFAULT_CACHE_PERCENT, blocks = req->cache, most;
	u32 track = plan_longest_track(flash->blocks ? flash : data) ?: 1;

	if (!req->cache || req->cache_unit == PLAN_CACHE_PERCENT)
		blocks = of / 100 * percent + of % 100 * percent / 100;
	else if (req->cache_unit == PLAN_CACHE_BANDS)
		blocks = req->cache * req->band_blocks;
	/* By default it must fit beside the headers and the staging band. */
	most = flash->blocks - min(flash->blocks, req->band_blocks + 2 + 2ULL * track);
	if (flash->blocks && !req->cache)
		blocks = min(blocks, most);
	return max(blocks / track, 1ULL) * track;
}

/**
 * plan_layout() - lay out a device
 * @req: the requirements
 * @l: the engine's name and parameters, uuid and label filled in, the rest zero; on return
 *   the whole layout
 * @why: PLAN_WHY bytes; on error, a sentence
 *
 * Context: Any context.
 *
 * Return: 0; -ENOSPC if DATA or CACHE is too small; or -EINVAL.
 */
int plan_layout(const struct plan_request *req, struct shingle_layout *l, char *why)
{
	const struct shingle_medium *data = &req->medium[SHINGLE_DEV_DATA];
	struct plan_request r = *req;
	struct shingle_tracks t;
	const char *what = "";
	u64 journal;
	u32 i;
	int err;

	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		l->dev_blocks[i] = req->medium[i].blocks;
	for (i = 0; i < SHINGLE_NR_MEDIA; i++)
		l->medium[i] = req->medium[i];
	for (i = SHINGLE_DEV_CACHE; i < SHINGLE_NR_DEVS; i++) {
		if (req->medium[i].blocks && is_interlaced(&req->medium[i]))
			return sorry(why, "%s is interlaced, where every second write would destroy its neighbours: choose another medium, or --geometry none",
				     i == SHINGLE_DEV_CACHE ? "CACHE" : "META");
	}
	l->head_tracks = req->head_tracks;
	l->sb_seq = 1;

	if (needs(req)->interlaced) {
		err = lay_interlaced(&r, l, why);
		if (!err && l->logical_blocks && shingle_layout_check(l, &what))
			err = sorry(why, "these sizes do not fit together: %s", what);
		return err;
	}
	if (is_interlaced(data))
		return sorry(why, "DATA is interlaced, and this target is for shingled tracks: choose another medium, or --geometry none");
	if (!r.band_blocks) {
		/* The default is a multiple of the track length, if all tracks have one length. */
		u32 track = only_length(data) ?: 1;

		r.band_blocks = max((DEFAULT_BAND_BLOCKS + track / 2) / track, 1ULL) * track;
	}
	if (!r.cache_band_blocks && needs(req)->one_cache) {
		r.cache_band_blocks = whole_cache(&r);
		r.cache_unit = PLAN_CACHE_BANDS;
		r.cache = 1;
	}
	if (r.cache_band_blocks > U32_MAX)
		return sorry(why, "the cache of this target is one band, and %llu blocks (4 KiB each) are too long for a band: choose a smaller --cache-size",
			     r.cache_band_blocks);
	if (!r.cache_band_blocks)
		r.cache_band_blocks = r.band_blocks;
	l->band_blocks[SHINGLE_ROLE_DATA] = r.band_blocks;
	if (needs(req)->cache)
		l->band_blocks[SHINGLE_ROLE_CACHE] = r.cache_band_blocks;
	if (needs(req)->staging)
		l->band_blocks[SHINGLE_ROLE_STAGING] = r.band_blocks;
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (req->medium[i].blocks && shingle_medium_has_tracks(&req->medium[i]) &&
		    !shingle_medium_tracks(&req->medium[i], 0, &t))
			return sorry(why, "device is smaller than one track");
	}

	err = journal_length(&r, l, &journal, why) ?: most_bands(&r, l, journal, why);
	if (!err && shingle_meta_dev(l) == SHINGLE_DEV_META)
		err = fit_apart(&r, l, why);
	if (err)
		return err;
	if (l->pages.blocks && !pages_are_safe(req, l))
		return sorry(why, "the map of this target is written in any order, which would destroy its neighbours on shingled tracks: put the metadata on a conventional device with --meta, or on conventional tracks, %llu blocks from block %llu on",
			     l->pages.blocks, l->pages.start);
	/* If no logical blocks are left, the engine itself reports the reason. */
	if (l->logical_blocks && shingle_layout_check(l, &what))
		return sorry(why, "these sizes do not fit together: %s", what);
	return 0;
}
