// SPDX-License-Identifier: GPL-2.0
/* shingle format, shingle create. */
#include <time.h>
#include <uuid/uuid.h>

#include "format/codec.h"
#include "dm.h"
#include "lines.h"
#include "plan.h"
#include "create-platter.h"
#include "presets.h"
#include "image.h"
#include "show.h"
#include "table.h"

enum tracks_from { TRACKS_AUTO, TRACKS_PACK, TRACKS_NONE, TRACKS_UNIFORM, TRACKS_FILE };

#define MAX_GIVEN	64
#define MAX_PARAMS	32

/**
 * struct format_args - the command line
 * @target: name of the translation layer
 * @preset: the preset of --preset, or NULL
 * @scale: divisor of the preset's capacities, 0 if not given
 * @of_preset: the options that @preset stands for
 * @data: path of DATA
 * @cache: path of CACHE, or NULL
 * @meta: path of META, or NULL
 * @name: name of the mapped device, for create
 * @label: label for the superblock, or NULL
 * @preset_label: label derived from @preset, used without --label
 * @given: layout options of the command line, in their order
 * @nr_given: number of elements used in @given
 * @req: the plan, as far as options determine it
 * @tracks: source of the track layout of DATA
 * @track_blocks: length of a track with TRACKS_UNIFORM
 * @geometry: file name with TRACKS_FILE
 * @param: engine parameters as given
 * @nr_params: number of elements used in @param
 * @force: overwrite existing contents
 * @dry_run: only print the plan
 * @json: print the layout in JSON
 * @one_time: do not store the settings on the device
 * @table: features and keys to store, which create also loads
 */
struct format_args {
	const char *target;
	const struct preset *preset;
	u64 scale;
	struct preset_option of_preset[PRESET_MAX_OPTIONS];
	const char *data;
	const char *cache;
	const char *meta;
	const char *name;
	const char *label;
	char preset_label[SHINGLE_LABEL_SIZE + 1];
	struct {
		const char *option;
		const char *value;
	} given[MAX_GIVEN];
	u32 nr_given;
	struct plan_request req;
	enum tracks_from tracks;
	u64 track_blocks;
	const char *geometry;
	struct {
		const char *option;
		const char *value;
	} param[TABLE_MAX_ARGS];
	u32 nr_params;
	bool force;
	bool dry_run;
	bool json;
	bool one_time;
	struct table_args table;
};

/* Targets that an option of the layout is for. */
enum layout_for { FOR_ALL, FOR_PRESETS, FOR_BANDS, FOR_CACHED, FOR_INTERLACED };

static const struct layout_text {
	enum layout_for who;
	const char *option;
	const char *help;
} layout_texts[] = {
	{ FOR_PRESETS, "--preset NAME",
	  "options and settings of a drive of the literature, see 'shingle presets'; "
	  "TARGET is then omitted, and other options take precedence" },
	{ FOR_PRESETS, "--scale N",
	  "with --preset: divide all capacities by N; bands keep their length" },
	{ FOR_BANDS, "--band SIZE",
	  "data in a band (default: 30M, rounded to whole tracks; with --rows that many "
	  "tracks)" },
	{ FOR_ALL, "--bands N",
	  "exactly N bands of data, and a cache of exactly the requested size (default: "
	  "as many bands as fit)" },
	{ FOR_CACHED, "--cache DEV",
	  "put the persistent cache and staging on another device" },
	{ FOR_CACHED, "--cache-size N",
	  "size of the cache: N% of all bands (default: 5%), a SIZE, or Nb for N bands" },
	{ FOR_CACHED, "--cache-band SIZE",
	  "length of a band of the cache (default: as --band; dualbuffer and rmwf: the "
	  "whole cache)" },
	{ FOR_CACHED, "--cache-location L",
	  "id: after the data bands (default); od: before them" },
	{ FOR_ALL, "--meta DEV",
	  "put superblocks, checkpoints and journal on another device, so that DATA "
	  "receives only data" },
	{ FOR_ALL, "--journal SIZE",
	  "length of the journal (default: 64M, at most 1/64 of DATA; imr without --meta: "
	  "a track)" },
	{ FOR_ALL, "--geometry auto|pack|none|FILE",
	  "tracks of DATA. auto: as the platter below reports them (default); pack: the "
	  "same, but no tracks if its head destroys none; none: no tracks; FILE: a "
	  "platter's answer to the message geometry" },
	{ FOR_ALL, "--track SIZE",
	  "all tracks of DATA have this length (default for imr: 2M)" },
	{ FOR_ALL, "--head-tracks K",
	  "the write head is K tracks wide (default with --track: 2)" },
	{ FOR_INTERLACED, "--backup-tracks N",
	  "tracks to save tops in (default: 1/16 of all, 2 to 128)" },
	{ FOR_ALL, "--label TEXT",
	  "a label of up to 32 bytes" },
	{ FOR_ALL, "--force",
	  "format even if DATA has contents, and wipe their signatures" },
	{ FOR_ALL, "--dry-run",
	  "print the layout and the dmsetup command; change nothing" },
	{ FOR_ALL, "--json",
	  "print the layout in JSON" },
};

static bool cache_size(struct plan_request *req, const char *text)
{
	size_t len = strlen(text);
	char number[24];

	if (len && len < sizeof(number) && (text[len - 1] == '%' || text[len - 1] == 'b')) {
		snprintf(number, sizeof(number), "%.*s", (int)len - 1, text);
		req->cache_unit = text[len - 1] == '%' ? PLAN_CACHE_PERCENT : PLAN_CACHE_BANDS;
		return parse_number(text[len - 1] == '%' ? "--cache-size (percent)" :
				    "--cache-size (bands)", number, 1,
				    text[len - 1] == '%' ? 90 : U32_MAX, &req->cache);
	}
	req->cache_unit = PLAN_CACHE_BLOCKS;
	return parse_blocks("--cache-size", text, 1, SHINGLE_PBLK_MASK, &req->cache);
}

static bool choice(const char *arg, const char *text, const char *no, const char *yes, bool *result)
{
	*result = !strcmp(text, yes);
	if (*result || !strcmp(text, no))
		return true;
	fail("%s '%s' is not known: choose %s or %s", arg, text, no, yes);
	return false;
}

/* Apply one option by its name.  Options of a preset come before those of the command line. */
static bool layout_option(struct format_args *a, const char *name, const char *value)
{
	u64 v;

	if (!strcmp(name, "band"))
		return parse_blocks("--band", value, 1, U32_MAX, &a->req.band_blocks);
	if (!strcmp(name, "cache-band"))
		return parse_blocks("--cache-band", value, 1, U32_MAX, &a->req.cache_band_blocks);
	if (!strcmp(name, "bands"))
		return parse_number("--bands", value, 1, U32_MAX, &a->req.data_bands);
	if (!strcmp(name, "cache-size"))
		return cache_size(&a->req, value);
	if (!strcmp(name, "cache-location"))
		return choice("--cache-location", value, "id", "od", &a->req.cache_first);
	if (!strcmp(name, "backup-tracks"))
		return parse_number("--backup-tracks", value, 2, PLAN_MAX_BACKUP_TRACKS,
				    &a->req.backup_tracks);
	if (!strcmp(name, "journal"))
		return parse_blocks("--journal", value, PLAN_MIN_JOURNAL_BLOCKS, U32_MAX,
				    &a->req.journal_blocks);
	if (!strcmp(name, "geometry")) {
		a->geometry = value;
		a->tracks = !strcmp(value, "auto") ? TRACKS_AUTO :
			    !strcmp(value, "pack") ? TRACKS_PACK :
			    !strcmp(value, "none") ? TRACKS_NONE : TRACKS_FILE;
		return true;
	}
	if (!strcmp(name, "track")) {
		a->tracks = TRACKS_UNIFORM;
		return parse_blocks("--track", value, 1, PLATTER_MAX_TRACK_BLOCKS,
				    &a->track_blocks);
	}
	if (!strcmp(name, "head-tracks")) {
		if (!parse_number("--head-tracks", value, 1, 64, &v))
			return false;
		a->req.head_tracks = (u32)v;
		return true;
	}
	if (!strcmp(name, "label")) {
		a->label = value;
		if (strlen(value) <= SHINGLE_LABEL_SIZE)
			return true;
		fail("--label is %zu bytes long: at most %u fit", strlen(value), SHINGLE_LABEL_SIZE);
		return false;
	}
	/* All other options are parameters of an engine; take_params() checks them. */
	if (a->nr_params == TABLE_MAX_ARGS) {
		fail("too many parameters");
		return false;
	}
	a->param[a->nr_params].option = name;
	a->param[a->nr_params++].value = value;
	return true;
}

static bool give(struct format_args *a, const char *option, const char *value)
{
	if (a->nr_given == MAX_GIVEN) {
		fail("more than %u options", MAX_GIVEN);
		return false;
	}
	a->given[a->nr_given].option = option;
	a->given[a->nr_given++].value = value;
	return true;
}

static const char *last_given(const struct format_args *a, const char *name)
{
	u32 i = a->nr_given;

	while (i--) {
		if (!strcmp(a->given[i].option, name))
			return a->given[i].value;
	}
	return NULL;
}

/* Value of --rows if it determines the band length instead of the preset; else NULL. */
static const char *rows_instead(const struct format_args *a)
{
	if (!a->preset || !a->preset->least_bands || last_given(a, "band"))
		return NULL;
	return last_given(a, "rows");
}

/* Band length that the options beside a preset ask for; 0 blocks for the preset's own. */
static bool band_wanted(const struct format_args *a, u64 *blocks)
{
	const char *band = last_given(a, "band"), *rows = rows_instead(a);

	*blocks = 0;
	if (band)
		return parse_blocks("--band", band, 1, U32_MAX, blocks);
	if (rows && !parse_number("--rows", rows, 1, U16_MAX, blocks))
		return false;
	*blocks *= PRESET_TRACK_BLOCKS;
	return true;
}

/* Apply the options of the preset at @scale, then those of the command line. */
static bool take_options(struct format_args *a, u64 scale, char *why)
{
	const char *rows = rows_instead(a);
	struct preset_option *o = a->of_preset;
	u64 band_blocks;
	u32 i;

	if (a->preset) {
		if (!band_wanted(a, &band_blocks))
			return false;
		if (preset_options(a->preset, scale, band_blocks, o, why)) {
			fail("%s", why);
			return false;
		}
		for (; o->name; o++) {
			if (rows && !strcmp(o->name, "band"))
				continue;
			if (!layout_option(a, o->name, o->value))
				return false;
		}
		snprintf(a->preset_label, sizeof(a->preset_label), scale > 1 ? "%s, 1/%llu" : "%s",
			 a->preset->name, scale);
		a->label = a->preset_label;
	}
	for (i = 0; i < a->nr_given; i++) {
		if (!layout_option(a, a->given[i].option, a->given[i].value))
			return false;
	}
	return true;
}

static bool take_params(const struct format_args *a, const struct engine_row *row,
			struct shingle_layout *l)
{
	const struct shingle_option *o;
	u32 i, k;

	for (o = row->ops->params; o->name; o++)
		engine_param_set(o, l->params, o->initial);
	for (i = 0; i < a->nr_params; i++) {
		const struct shingle_option *p = row->ops->params;
		char arg[64];
		u64 v;

		for (k = 0; p[k].name && strcmp(p[k].name, a->param[i].option); k++)
			;
		if (!p[k].name) {
			fail("--%s does not apply to %s: omit it", a->param[i].option,
			     row->ops->name);
			return false;
		}
		snprintf(arg, sizeof(arg), "--%s", p[k].name);
		if (!parse_number(arg, a->param[i].value, p[k].min, p[k].max, &v))
			return false;
		engine_param_set(&p[k], l->params, (u32)v);
	}
	return true;
}

static bool find_media(struct format_args *a, struct image *img)
{
	u32 head = 1, i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		const struct device *d = &img->ds.dev[i];
		struct shingle_medium *m = &a->req.medium[i];
		u32 k = 1;

		if (!d->path)
			continue;
		if (a->tracks == TRACKS_UNIFORM && i == SHINGLE_DEV_DATA) {
			if (a->track_blocks > d->blocks) {
				fail("--track is longer than DATA, which has %s",
				     blocks_text(d->blocks).s);
				return false;
			}
			if (!plan_uniform_tracks(m, d->blocks, a->track_blocks,
						 img->row->ops->needs.interlaced)) {
				fail("--track of %s is out of bounds: DATA, which has %s, may have at most 2^30 tracks",
				     blocks_text(a->track_blocks).s, blocks_text(d->blocks).s);
				return false;
			}
			k = img->row->ops->needs.interlaced ? 1 : 2;
		} else if (a->tracks == TRACKS_NONE) {
			plan_no_tracks(m, d->blocks);
		} else if (a->tracks == TRACKS_FILE && i == SHINGLE_DEV_DATA) {
			if (!medium_read(a->geometry, d, m, &k))
				return false;
		} else if (!medium_ask(d, m, &k)) {
			return false;
		} else if (a->tracks == TRACKS_PACK && k == 1) {
			plan_no_tracks(m, d->blocks);
		}
		head = max(head, k);
	}
	if (!a->req.head_tracks)
		a->req.head_tracks = head;
	/* An explicit --head-tracks also replaces the head width in the media's geometry. */
	for (i = 0; i < SHINGLE_NR_DEVS && a->req.head_tracks != head; i++)
		a->req.medium[i].geo.head_mtracks = a->req.head_tracks * 1000;
	return true;
}

/* Fill in the length of a band that the target's parameters ask for, unless one is given. */
static void find_band(struct plan_request *req, const struct engine_row *row,
		      const struct shingle_layout *l)
{
	if (!req->band_blocks && row->band)
		req->band_blocks =
			row->band(l, plan_longest_track(&req->medium[SHINGLE_DEV_DATA]));
}

/*
 * Check whether the preset fits at scale @scale and, unless @data_blocks is 0, on a DATA of
 * that size.  CACHE is then assumed to be just as large.  With @engine_too the target must
 * accept the layout.
 */
static bool preset_fits(const struct format_args *a, const struct engine_row *row, u64 scale,
			u64 data_blocks, bool engine_too)
{
	struct format_args *other = shingle_zalloc_array(1, sizeof(*other));
	struct shingle_layout *l = shingle_zalloc_array(1, sizeof(*l));
	struct shingle_engine *engine = NULL;
	const char *engine_why;
	char why[PLAN_WHY];
	bool ok = false;

	if (other && l) {
		*other = *a;
		other->nr_params = 0;
		other->req.band_blocks = 0;
		other->req.row = row;
		if (data_blocks)
			plan_no_tracks(&other->req.medium[SHINGLE_DEV_DATA], data_blocks);
		if (data_blocks && a->cache)
			plan_no_tracks(&other->req.medium[SHINGLE_DEV_CACHE], data_blocks);
		ok = take_options(other, scale, why) && take_params(other, row, l);
		find_band(&other->req, row, l);
		ok = ok && !plan_layout(&other->req, l, why) &&
		     (!engine_too || !row->ops->create(&engine, l, &engine_why));
		if (engine)
			row->ops->destroy(engine);
	}
	kvfree(other);
	kvfree(l);
	return ok;
}

/* Smallest value from @low to @high that fits, or @high if none below it does. */
static u64 least_fit(const struct format_args *a, const struct engine_row *row, u64 low, u64 high,
		     bool is_scale)
{
	while (low < high) {
		u64 middle = low + (high - low) / 2;

		if (is_scale ? preset_fits(a, row, middle, 0, false) :
			       preset_fits(a, row, a->scale, middle, false))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Smallest scale that fits with the band length of @a; 0 if none does. */
static u64 fitting_scale(const struct format_args *a, const struct engine_row *row)
{
	u64 blocks, scale, most;

	if (!band_wanted(a, &blocks))
		return 0;
	most = min_t(u64, preset_max_scale(a->preset, blocks), PRESET_MAX_SCALE);
	if (!most)
		return 0;
	scale = least_fit(a, row, 1, most, true);
	return preset_fits(a, row, scale, 0, true) ? scale : 0;
}

/*
 * Describe options with which the preset fits: a scale, or else shorter bands and a scale.  The
 * band is halved until a scale fits.
 */
static void describe_fit(const struct format_args *a, const struct engine_row *row, char *text,
			 size_t size)
{
	struct format_args *other = shingle_zalloc_array(1, sizeof(*other));
	const char *option = a->preset->rows ? "rows" : "band";
	u64 scale = fitting_scale(a, row), length;
	char value[32];

	*text = '\0';
	if (scale)
		snprintf(text, size, "; --scale %llu fits here", scale);
	if (scale || !other || !band_wanted(a, &length))
		goto out;
	length = length ?: a->preset->band_blocks;
	*other = *a;
	if (!give(other, option, value))
		goto out;
	if (a->preset->rows)
		length /= PRESET_TRACK_BLOCKS;
	for (length /= 2; length && !scale; length /= 2) {
		snprintf(value, sizeof(value), a->preset->rows ? "%llu" : "%lluK",
			 a->preset->rows ? length : length * (SHINGLE_BLOCK_SIZE / 1024));
		scale = fitting_scale(other, row);
		if (scale)
			snprintf(text, size, "; --%s %s --scale %llu fits here", option, value, scale);
	}
	if (!scale)
		snprintf(text, size, "; no --scale fits here");
out:
	kvfree(other);
}

/* Report that a preset cannot be laid out, and what can. */
static void preset_too_large(const struct format_args *a, const struct engine_row *row,
			     const char *why)
{
	u64 have = a->req.medium[SHINGLE_DEV_DATA].blocks;
	u64 need = least_fit(a, row, have, 4 * a->preset->bands * a->preset->band_blocks, false);
	char data[96] = "", fits[128];

	if (need > have)
		snprintf(data, sizeof(data), "; %s needs a DATA of at least %llu MiB",
			 a->preset->name, DIV_ROUND_UP(need, 256ULL));
	describe_fit(a, row, fits, sizeof(fits));
	fail("%s%s%s", why, data, fits);
}

/* In imr a band is a track, and a journal on DATA has the length of a track. */
static bool interlaced_means_something(const struct format_args *a)
{
	bool own_meta = !a->meta, is_track = a->tracks == TRACKS_UNIFORM;

	if (a->req.band_blocks)
		fail("--band does not apply to imr: a band is a track, see --track");
	else if (own_meta && a->req.journal_blocks)
		fail("--journal requires --meta here: on DATA the journal is as long as a track");
	else if (own_meta && is_track && a->track_blocks < PLAN_MIN_JOURNAL_BLOCKS)
		fail("a track of %s is too short for the journal: put the metadata on another device with --meta",
		     blocks_text(a->track_blocks).s);
	else
		return true;
	return false;
}

/* A journal on the tracks of DATA must be longer than the gap that the head needs. */
static bool journal_is_long_enough(const struct format_args *a)
{
	u32 head = a->req.head_tracks ?: 2;
	u64 gap = head > 1 ? head * a->track_blocks : 0;

	if (!a->req.journal_blocks || a->tracks != TRACKS_UNIFORM || a->meta ||
	    a->req.journal_blocks >= PLAN_MIN_JOURNAL_BLOCKS + gap)
		return true;
	fail("--journal must be at least %llu KiB here: 16 blocks and the %llu that the head destroys in front of a write",
	     (PLAN_MIN_JOURNAL_BLOCKS + gap) * 4, gap);
	return false;
}

/* An engine with a single cache band uses it for the whole cache; its length has 32 bits. */
static bool cache_is_short_enough(const struct format_args *a, const struct engine_row *row)
{
	if (!row->ops->needs.one_cache || a->req.cache_band_blocks ||
	    a->req.cache_unit != PLAN_CACHE_BLOCKS || a->req.cache <= U32_MAX)
		return true;
	fail("the cache of this target is one band, and %llu blocks (4 KiB each) are too long for a band: choose a smaller --cache-size",
	     a->req.cache);
	return false;
}

/* Check the options against the target, independent of the devices. */
static bool means_something(const struct format_args *a, struct image *img)
{
	const struct engine_row *row = img->row;
	const char *why;

	if (!row->ops->needs.interlaced && a->req.backup_tracks) {
		fail("--backup-tracks does not apply to %s: omit it", row->ops->name);
		return false;
	}
	if (!row->ops->needs.cache && (a->req.cache || a->req.cache_first || a->req.cache_band_blocks ||
			     a->cache)) {
		fail("%s does not apply to %s, which has no cache bands: omit it",
		     a->cache ? "--cache" : a->req.cache ? "--cache-size" :
		     a->req.cache_first ? "--cache-location" : "--cache-band",
		     row->ops->name);
		return false;
	}
	if (row->ops->needs.interlaced ? !interlaced_means_something(a) : !journal_is_long_enough(a))
		return false;
	if (!cache_is_short_enough(a, row) || !take_params(a, row, &img->l))
		return false;
	why = row->wrong ? row->wrong(&img->l) : NULL;
	if (why)
		fail("%s", why);
	return !why && table_known(row, &a->table);
}

/* Text of all parameters in force, including those derived from the devices. */
static const char *params_in_force(const struct image *img, char *out, size_t size)
{
	const struct shingle_option *p = img->row->ops->params;
	int n = 0;

	for (out[0] = '\0'; p->name && n >= 0 && (size_t)n < size; p++)
		n += snprintf(out + n, size - n, "%s%s %u", n ? ", " : " (", p->name,
			      engine_param_get(p, img->l.params));
	if (n && (size_t)n < size)
		snprintf(out + n, size - n, ")");
	return out;
}

static bool plan(struct format_args *a, struct image *img)
{
	char why[PLAN_WHY];
	const char *engine_why = "";
	int err;

	if (!find_media(a, img))
		return false;
	uuid_generate_random(img->l.uuid);
	snprintf(img->l.engine, sizeof(img->l.engine), "%s", img->row->ops->name);
	snprintf(img->l.label, sizeof(img->l.label), "%s", a->label ?: "");
	img->l.ctime = (u64)time(NULL);
	a->req.row = img->row;
	find_band(&a->req, img->row, &img->l);
	err = plan_layout(&a->req, &img->l, why);
	if (err) {
		if (a->preset)
			preset_too_large(a, img->row, why);
		else
			fail("%s", why);
		return false;
	}
	if (image_fresh_engine(img, &engine_why)) {
		char with[256];

		fail("%s refuses this layout: %s%s", img->row->ops->name, engine_why,
		     params_in_force(img, with, sizeof(with)));
		return false;
	}
	return true;
}

/* Refuse an empty device: later code would treat it as absent and use DATA instead. */
static bool have_blocks(const struct image *img)
{
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		const struct device *d = &img->ds.dev[i];

		if (!d->path || d->blocks)
			continue;
		fail("%s %s is smaller than a block, which has %u bytes", d->arg, d->path,
		     SHINGLE_BLOCK_SIZE);
		return false;
	}
	return true;
}

/* True if no device has contents that formatting would destroy; else prints an error. */
static bool nothing_there(struct image *img, bool creating)
{
	char what[256];
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		struct device *d = &img->ds.dev[i];

		if (!d->path || !device_has_content(d, what, sizeof(what)))
			continue;
		if (creating && strstr(what, "a dm-shingle device"))
			fail("%s %s already contains %s: 'shingle open' opens it; --force formats it again, and its data are lost",
			     d->arg, d->path, what);
		else
			fail("%s %s contains %s and was not changed; --force formats it, and its contents are lost",
			     d->arg, d->path, what);
		return false;
	}
	return true;
}

static void tell_overwritten(struct image *img)
{
	char what[256];
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		struct device *d = &img->ds.dev[i];

		if (d->path && device_has_content(d, what, sizeof(what)))
			say("%s %s contained %s: overwritten, because of --force", d->arg, d->path, what);
	}
}

/* Without this, libblkid would still find the old file systems and arrays. */
static bool wipe_signatures(struct image *img)
{
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		struct device *d = &img->ds.dev[i];
		int err = d->path ? device_wipe_signatures(d) : 0;

		if (err) {
			fail("%s %s: the signatures of its contents cannot be wiped: %s", d->arg,
			     d->path, strerror(-err));
			return false;
		}
	}
	return true;
}

/* Make the kernel forget the partitions of the table that was overwritten. */
static void forget_partitions(struct image *img)
{
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		struct device *d = &img->ds.dev[i];

		if (d->path && device_forget_partitions(d))
			fprintf(stderr, "shingle: %s %s: the kernel still shows the old partitions: %s\n",
				d->arg, d->path, strerror(errno));
	}
}

/*
 * Zero the first and the last block if they hold, or may have held, a superblock or header.
 * A block that cannot be read is zeroed, too.
 */
static int forget_old(struct device *d)
{
	u8 *buf = shingle_zalloc_array(1, SHINGLE_BLOCK_SIZE);
	int err = buf ? 0 : -ENOMEM;
	bool changed = false;
	u32 i;

	for (i = 0; i < 2 && !err && d->blocks; i++) {
		u64 block = i ? d->blocks - 1 : 0;

		if (!device_read(d, block, 1, buf) &&
		    shingle_check_block(buf, SHINGLE_MAGIC_SB, NULL, U64_MAX) ==
		    SHINGLE_BLOCK_FOREIGN &&
		    shingle_check_block(buf, SHINGLE_MAGIC_MEMBER, NULL, U64_MAX) ==
		    SHINGLE_BLOCK_FOREIGN)
			continue;
		memset(buf, 0, SHINGLE_BLOCK_SIZE);
		err = device_write(d, block, 1, buf);
		changed = true;
	}
	if (!err && changed)
		err = device_sync(d);
	kvfree(buf);
	return err;
}

/*
 * Set @nothing if the headers at @places read as zeroes, as they do on a medium without a
 * store.  Such a medium is allowed, so that large disks can be emulated in little memory.
 */
static int keeps_nothing(struct device *d, const u64 *places, bool *nothing)
{
	u8 *buf = shingle_zalloc_array(1, SHINGLE_BLOCK_SIZE);
	int err = buf ? 0 : -ENOMEM;
	u32 i, k;

	*nothing = true;
	for (i = 0; i < 2 && !err; i++) {
		err = device_read(d, places[i], 1, buf);
		for (k = 0; !err && k < SHINGLE_BLOCK_SIZE; k++)
			*nothing &= !buf[k];
	}
	kvfree(buf);
	return err;
}

static int write_headers(struct image *img, enum shingle_dev dev, bool quiet)
{
	const u64 places[] = { image_member_block(img, dev, 1), image_member_block(img, dev, 0) };
	struct device *d = &img->ds.dev[dev];
	bool nothing;
	int err;

	err = image_write_member(img, dev, places[0]) ?:
	      image_write_member(img, dev, places[1]) ?: keeps_nothing(d, places, &nothing);
	if (err || !nothing)
		return err;
	img->l.flags |= SHINGLE_SB_UNMARKED(dev);
	if (!quiet)
		say("%s %s does not store what is written: it gets no header, so that another device in its place cannot be detected",
		    d->arg, d->path);
	return 0;
}

/*
 * Check whether a device discards what is written, as a platter without a store does.  The
 * test uses a block of zeroes and restores it.
 */
static int forgets(struct device *d, u64 block, bool *yes)
{
	u8 *buf = shingle_zalloc_array(2, SHINGLE_BLOCK_SIZE);
	u8 *zero = buf + SHINGLE_BLOCK_SIZE;
	int err = buf ? device_read(d, block, 1, buf) : -ENOMEM;

	*yes = false;
	/* An unreadable block can still be written, and a block with contents proves a store. */
	if (!buf || err || memcmp(buf, zero, SHINGLE_BLOCK_SIZE)) {
		kvfree(buf);
		return buf ? 0 : err;
	}
	memset(buf, 0x5a, SHINGLE_BLOCK_SIZE);
	err = device_write(d, block, 1, buf) ?: device_read(d, block, 1, buf);
	*yes = !err && !memcmp(buf, zero, SHINGLE_BLOCK_SIZE);
	if (!*yes)
		err = device_write(d, block, 1, zero) ?: err;
	kvfree(buf);
	return err;
}

/* Check that the metadata device stores what is written; prints an error if it does not. */
static bool keeps_metadata(struct image *img)
{
	struct device *d = image_meta(img);
	bool yes;
	int err = forgets(d, image_last_block(img), &yes);

	if (err) {
		fail("formatting %s: cannot be written: %s", d->path, strerror(-err));
		return false;
	}
	if (!yes)
		return true;
	if (devices_meta(&img->ds) == SHINGLE_DEV_DATA)
		fail("DATA %s does not store what is written, like a platter over 'none', and cannot hold superblocks and journal: give a device for them with --meta",
		     d->path);
	else
		fail("META %s does not store what is written and cannot hold superblocks and journal: choose another device",
		     d->path);
	return false;
}

/*
 * Write the whole format.  The old superblocks are removed first and the new ones written
 * last, so that neither the old nor the new device can be opened in between, and one new
 * superblock proves that everything else is in place.
 *
 * @wipe also removes signatures.  This comes after the old superblocks are gone, because a
 *   match may have been data of the old device.
 */
static int write_format(struct image *img, bool wipe, bool quiet)
{
	const struct journal_start journal = { .seq = 1 };
	const char *why = "cannot be written";
	enum shingle_dev meta = devices_meta(&img->ds);
	struct device *d = image_meta(img);
	int err = forget_old(d);
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS && !err; i++) {
		if (!img->ds.dev[i].path || i == meta)
			continue;
		d = &img->ds.dev[i];
		err = forget_old(d);
	}
	if (!err && wipe && !wipe_signatures(img))
		return EXIT_OPERATION;
	for (i = 0; i < SHINGLE_NR_DEVS && !err; i++) {
		if (!img->ds.dev[i].path || i == meta)
			continue;
		d = &img->ds.dev[i];
		err = write_headers(img, i, quiet);
	}
	if (!err) {
		d = image_meta(img);
		/*
		 * Recovery reads the whole ring, so unreadable blocks in it are overwritten
		 * first.
		 */
		err = ring_make_readable(img, &why);
		if (!err)
			why = "cannot be written";
		err = err ?: image_write_checkpoint(img, 0, 1, &journal, &why);
	}
	err = err ?: image_write_superblock(img, image_last_block(img));
	err = err ?: image_write_superblock(img, 0);
	if (err)
		return fail("formatting %s: %s: %s", d->path, why, strerror(-err));
	return EXIT_CLEAN;
}

static void show_plan(const struct format_args *a, struct image *img)
{
	u64 ram = img->row->ops->observe.map_bytes(img->engine);
	struct json_object *j;

	if (img->l.pages.blocks)
		ram += shingle_pages_bytes_for(img->engine, img->l.pages.blocks / 2);

	if (!a->json) {
		show_layout(&img->l, img->row);
		say("RAM for the map: %s", size_text(ram).s);
		return;
	}
	j = json_dict(NULL, NULL);
	show_layout_json(&img->l, img->row, j);
	json_u64(j, "map_bytes", ram);
	if (a->name) {
		char *params = table_params(img, &a->table);

		json_u64(j, "sectors", img->l.logical_blocks << SHINGLE_SECTORS_SHIFT);
		json_str(j, "table", params ?: "");
		free(params);
	}
	json_print(j, stdout);
}

static int do_format(struct format_args *a, struct image *img)
{
	char names[256];
	bool creating = a->name;
	int ret;

	if (a->preset && a->preset->flash && !a->cache) {
		fail("%s has its cache on flash: give a device for it with --cache",
		     a->preset->name);
		return EXIT_USAGE;
	}
	img->row = engine_by_name(a->target);
	if (!img->row) {
		fail("TARGET '%s' is not known: choose one of %s", a->target,
		     engine_names(names, sizeof(names)));
		return EXIT_USAGE;
	}
	if (!means_something(a, img))
		return EXIT_USAGE;
	if (!devices_open(&img->ds, a->data, a->cache, a->meta,
			  a->dry_run ? DEVICE_READ : DEVICE_WRITE))
		return EXIT_OPERATION;
	if (!have_blocks(img) || (!a->force && !nothing_there(img, creating)) || !plan(a, img))
		return EXIT_OPERATION;
	if (!table_checked(img, &a->table) ||
	    (!a->one_time && !table_keep(&a->table, &img->l.settings)))
		return EXIT_USAGE;
	if (creating && !a->dry_run &&
	    (table_needs_blocks(img) || !dm_device_possible(a->name, a->target)))
		return EXIT_OPERATION;

	if (a->dry_run || a->json)
		show_plan(a, img);
	if (a->dry_run)
		return creating && !a->json ? table_open(img, &a->table, a->name, true) : EXIT_CLEAN;
	if (!keeps_metadata(img))
		return EXIT_OPERATION;
	if (a->force && !a->json)
		tell_overwritten(img);
	ret = write_format(img, a->force, a->json);
	if (ret)
		return ret;
	if (!creating)
		table_warn(&a->table, a->preset);
	if (a->force)
		forget_partitions(img);
	if (!a->json) {
		say("%s formatted: %s, %s in %llu bands of %s", a->data, a->target,
		    blocks_text(img->l.logical_blocks).s, img->l.nr_bands[SHINGLE_ROLE_DATA],
		    blocks_text(img->l.band_blocks[SHINGLE_ROLE_DATA]).s);
		show_capacity(&img->l);
	}
	if (!creating)
		return EXIT_CLEAN;
	ret = table_open(img, &a->table, a->name, false);
	if (!ret)
		table_warn(&a->table, a->preset);
	return ret;
}

/* Parse the operands.  With --preset there is no TARGET operand. */
static bool operands(const struct command *cmd, struct format_args *a, int argc, char **argv)
{
	if (cmd == &cmd_create && a->preset)
		return parse_operands(cmd, argc, argv, 2, "DATA", &a->data, "NAME", &a->name);
	if (cmd == &cmd_create)
		return parse_operands(cmd, argc, argv, 3, "TARGET", &a->target, "DATA", &a->data,
				      "NAME", &a->name);
	if (a->preset)
		return parse_operands(cmd, argc, argv, 1, "DATA", &a->data);
	return parse_operands(cmd, argc, argv, 2, "TARGET", &a->target, "DATA", &a->data);
}

/* Append the parameters of all engines to the options, and the end of the list. */
static void add_params(struct option *to)
{
	const struct option like = { NULL, required_argument, NULL, 'L' };
	const struct engine_row *row;
	const struct shingle_option *o;
	u32 i, nr = 0;

	for (i = 0; (row = engine_by_index(i)); i++) {
		for (o = row->ops->params; o->name && nr < MAX_PARAMS; o++, nr++) {
			to[nr] = like;
			to[nr].name = o->name;
		}
	}
	memset(&to[nr], 0, sizeof(to[nr]));
}

/* Print the options of the layout that @row uses, or with NULL all of them. */
static void layout_help(const struct engine_row *row)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(layout_texts); i++) {
		const struct layout_text *t = &layout_texts[i];

		if (!row || t->who == FOR_ALL || (t->who == FOR_BANDS && !row->ops->needs.interlaced) ||
		    (t->who == FOR_CACHED && row->ops->needs.cache) ||
		    (t->who == FOR_INTERLACED && row->ops->needs.interlaced))
			print_option(t->option, t->help);
	}
}

/* Print the parameters of a target. */
static void params_help(const struct engine_row *row)
{
	const struct shingle_option *o;
	char option[64], help[256];

	for (o = row->ops->params; o->name; o++) {
		snprintf(option, sizeof(option), "--%s N", o->name);
		snprintf(help, sizeof(help), "%s (default: %s)", o->help, o->from);
		print_option(option, help);
	}
}

/* Target in the words of a command line that asks for help, or NULL. */
static const char *target_of_help(const struct format_args *a, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && !a->preset; i++) {
		if (target_is_ours(argv[i]))
			return argv[i];
	}
	return a->target;
}

static int help(const struct command *cmd, const struct format_args *a, int argc, char **argv)
{
	const char *target = target_of_help(a, argc, argv);
	const struct engine_row *row = target ? engine_by_name(target) : NULL;
	bool creating = cmd == &cmd_create;
	u32 i;

	if (target && !row) {
		platter_help();
		return EXIT_CLEAN;
	}
	if (row)
		printf("Usage: shingle %s %s [options] DATA%s\n\nOptions:\n\n", cmd->name, target,
		       creating ? " NAME" : "");
	else
		fputs(cmd->help, stdout);
	layout_help(row);
	if (row)
		params_help(row);
	print_option("--feature F", "switch on a feature of the target (repeatable)");
	print_option("--no-feature F", "omit a feature of the preset (repeatable)");
	print_option("--set KEY=VALUE", "set a tunable of the target (repeatable)");
	if (creating) {
		print_option("--no-udev", "make the device node without waiting for udev");
		print_option("--volatile", "do not store features and settings on DATA");
	}
	puts("\nSIZE is a number with a unit: K, M, G, T (powers of 1024, in either case), s (sectors of\n512 bytes) or B.");
	for (i = 0; !row && (row = engine_by_index(i)); i++, row = NULL) {
		printf("\nOptions of the layout of %s:\n\n", row->ops->name);
		params_help(row);
	}
	table_help(target);
	if (!target && creating)
		platter_keys_help();
	return EXIT_CLEAN;
}

/* Create a platter from the options that have been parsed.  The operands follow @argv[optind]. */
static int create_platter(const struct command *cmd, const struct format_args *a, int argc,
			  char **argv)
{
	struct platter_args p = { .table = &a->table, .dry_run = a->dry_run };
	const char *other = a->cache ? "cache" : a->meta ? "meta" : a->force ? "force" :
			    a->json ? "json" : a->one_time ? "volatile" : NULL;
	u32 i;

	if (cmd != &cmd_create)
		return usage(cmd, "a platter stores no metadata and has no format: use 'shingle create platter DEVICE NAME'");
	for (i = 0; i < a->nr_given && !other; i++) {
		const char *name = a->given[i].option, *value = a->given[i].value;

		if (!strcmp(name, "profile"))
			p.profile = value;
		else if (!strcmp(name, "size"))
			p.size = value;
		else if (!strcmp(name, "start"))
			p.start = value;
		else
			other = name;
	}
	if (other) {
		fail("--%s does not apply to platter: omit it", other);
		return EXIT_USAGE;
	}
	optind++;
	if (!parse_operands(cmd, argc, argv, 2, "DEVICE", &p.device, "NAME", &p.name) ||
	    !dm_name_valid(p.name))
		return EXIT_USAGE;
	return platter_create(&p);
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option own[] = {
		{ "band", required_argument, NULL, 'L' },
		{ "bands", required_argument, NULL, 'L' },
		{ "cache-size", required_argument, NULL, 'L' },
		{ "cache-band", required_argument, NULL, 'L' },
		{ "cache-location", required_argument, NULL, 'L' },
		{ "journal", required_argument, NULL, 'L' },
		{ "geometry", required_argument, NULL, 'L' },
		{ "track", required_argument, NULL, 'L' },
		{ "head-tracks", required_argument, NULL, 'L' },
		{ "label", required_argument, NULL, 'L' },
		{ "backup-tracks", required_argument, NULL, 'L' },
		{ "profile", required_argument, NULL, 'L' },
		{ "size", required_argument, NULL, 'L' },
		{ "start", required_argument, NULL, 'L' },
		{ "preset", required_argument, NULL, 'P' },
		{ "scale", required_argument, NULL, 's' },
		{ "cache", required_argument, NULL, 'C' },
		{ "meta", required_argument, NULL, 'M' },
		{ "force", no_argument, NULL, 'f' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ "volatile", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		TABLE_OPTIONS,
	};
	struct option options[ARRAY_SIZE(own) + MAX_PARAMS + 1];
	bool creating = cmd == &cmd_create, ok;
	struct format_args *a = shingle_zalloc_array(1, sizeof(*a));
	struct image *img = image_new();
	int c, ret = EXIT_OPERATION, which = 0;
	char why[PRESET_WHY];

	if (!a || !img)
		goto out;
	memcpy(options, own, sizeof(own));
	add_params(options + ARRAY_SIZE(own));
	ret = EXIT_USAGE;
	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, &which)) != -1) {
		ok = true;
		switch (c) {
		case 'L':
			ok = give(a, options[which].name, optarg);
			break;
		case 'P':
			a->preset = table_find_preset(optarg);
			ok = a->preset;
			a->target = ok ? a->preset->target : NULL;
			break;
		case 's':
			ok = parse_number("--scale", optarg, 1, PRESET_MAX_SCALE, &a->scale);
			break;
		case 'C':
			a->cache = optarg;
			break;
		case 'M':
			a->meta = optarg;
			break;
		case 'f':
			a->force = true;
			break;
		case 'n':
			a->dry_run = true;
			break;
		case 'j':
			a->json = true;
			break;
		case 'U':
		case 'V':
			if (!creating) {
				usage(cmd, "option %s applies only to 'shingle create', which opens the device",
				      argv[optind - 1]);
				goto out;
			}
			a->one_time |= c == 'V';
			ok = c == 'V' || table_option(&a->table, c, optarg);
			break;
		case 'F':
		case 'W':
		case 'S':
			ok = table_option(&a->table, c, optarg);
			break;
		case 'h':
			ret = help(cmd, a, argc, argv);
			goto out;
		default:
			ret = option_error(cmd, c, argv[optind - 1]);
			goto out;
		}
		if (!ok)
			goto out;
	}
	if (a->scale && !a->preset) {
		usage(cmd, "--scale divides the capacities of a preset: it requires --preset");
		goto out;
	}
	if (!a->preset && optind < argc && target_is_platter(argv[optind])) {
		ret = create_platter(cmd, a, argc, argv);
		goto out;
	}
	if (a->preset && argc - optind == (creating ? 3 : 2) && engine_by_name(argv[optind])) {
		usage(cmd, "--preset %s selects the target, %s: omit '%s'", a->preset->name,
		      a->preset->target, argv[optind]);
		goto out;
	}
	a->scale = max(a->scale, 1ULL);
	ok = take_options(a, a->scale, why) && operands(cmd, a, argc, argv);
	ok = ok && (!creating || dm_name_valid(a->name)) && table_take_preset(&a->table, a->preset);
	if (ok)
		ret = do_format(a, img);
out:
	kvfree(a);
	if (img)
		image_free(img);
	return ret;
}

const struct command cmd_format = {
	.name = "format",
	.summary = "lay out a device and write its metadata",
	.help = "Usage: shingle format TARGET [options] DATA\n"
		"       shingle format --preset NAME [options] DATA\n"
		"       shingle format TARGET --help\n\n"
		"Writes two superblocks and an empty checkpoint, and a header at the start and the\n"
		"end of every device without superblocks; nothing else.  Refuses a device that is in\n"
		"use, and without --force one that has contents.  The features and settings are\n"
		"stored on the device for 'shingle open'.\n\n",
	.run = run,
};

const struct command cmd_create = {
	.name = "create",
	.summary = "format a device and open it; or make a medium, a platter",
	.help = "Usage: shingle create TARGET [options] DATA NAME\n"
		"       shingle create --preset NAME [options] DATA NAME\n"
		"       shingle create platter [options] DEVICE NAME\n"
		"       shingle create TARGET|platter --help\n\n"
		"Formats DATA as 'shingle format' does and opens it as /dev/mapper/NAME.  A platter is\n"
		"a medium for the other targets: it has options of its own and no format.\n\n",
	.run = run,
};
