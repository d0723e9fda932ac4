// SPDX-License-Identifier: GPL-2.0
/* The options of a platter's table line.  Pure code. */
#include "platter-options.h"

const char *const platter_media_names[] = { "cmr", "smr", "imr", NULL };
const char *const platter_damage_names[] = { "none", "count", "poison", "shadow", NULL };
const char *const platter_onoff_names[] = { "off", "on", NULL };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Parse "2" or "1.5" as thousandths of a track. */
static int parse_milli(const char *value, u32 *milli)
{
	u32 scale = 100, sum = 0;
	const char *c = value;

	if (!is_digit(*c))
		return -EINVAL;
	for (; is_digit(*c); c++) {
		sum = sum * 10 + *c - '0';
		if (sum > 1000)
			return -EINVAL;
	}
	sum *= 1000;
	if (*c == '.') {
		if (!is_digit(c[1]))
			return -EINVAL;
		for (c++; is_digit(*c); c++) {
			if (!scale)
				return -EINVAL;
			sum += (*c - '0') * scale;
			scale /= 10;
		}
	}
	if (*c)
		return -EINVAL;
	*milli = sum;
	return 0;
}

/* Parse "a<sep>b,a<sep>b,..."; @value is unchanged afterwards. */
static int parse_pairs(const char *value, char sep, unsigned int max, u64 (*pair)[2])
{
	unsigned int nr = 0;
	const char *c = value;

	while (*c) {
		unsigned int i;

		if (nr == max)
			return -E2BIG;
		for (i = 0; i < 2; i++) {
			unsigned long long v = 0;

			if (!is_digit(*c))
				return -EINVAL;
			for (; is_digit(*c); c++) {
				if (v > (~0ULL - 9) / 10)
					return -EINVAL;
				v = v * 10 + *c - '0';
			}
			pair[nr][i] = v;
			if (!i && *c++ != sep)
				return -EINVAL;
		}
		nr++;
		if (*c == ',' && c[1])
			c++;
		else if (*c)
			return -EINVAL;
	}
	return nr ? (int)nr : -EINVAL;
}

static int read_head_tracks(void *of, const char *value, const char **why)
{
	struct platter_options *s = of;
	u32 milli;

	if (parse_milli(value, &milli) || milli < 1000 || milli > PLATTER_MAX_HEAD_MTRACKS)
		return -ERANGE;
	s->cfg.profile.head_mtracks = milli;
	s->head_given = true;
	return 0;
}

static int read_track_sectors(void *of, const char *value, const char **why)
{
	struct platter_options *s = of;
	u32 v;

	if (kstrtouint(value, 10, &v) || !v || v % PLATTER_BLOCK_SECTORS ||
	    v > PLATTER_MAX_TRACK_BLOCKS * 8)
		return -ERANGE;
	s->cfg.track_blocks = v / PLATTER_BLOCK_SECTORS;
	return 0;
}

static int read_zones(void *of, const char *value, const char **why)
{
	struct platter_options *s = of;
	struct platter_config *cfg = &s->cfg;
	int i, nr;

	nr = parse_pairs(value, 'x', PLATTER_MAX_ZONES, s->pair);
	if (nr < 0)
		return -ERANGE;
	for (i = 0; i < nr; i++) {
		if (!s->pair[i][0] || s->pair[i][0] > PLATTER_MAX_CYLINDERS ||
		    !s->pair[i][1] || s->pair[i][1] % PLATTER_BLOCK_SECTORS ||
		    s->pair[i][1] > PLATTER_MAX_TRACK_BLOCKS * 8)
			return -ERANGE;
		cfg->zone[i].tracks = s->pair[i][0];
		cfg->zone[i].track_sectors = s->pair[i][1];
	}
	cfg->nr_zones = nr;
	return 0;
}

static int read_seek(void *of, const char *value, const char **why)
{
	struct platter_options *s = of;
	struct platter_config *cfg = &s->cfg;
	int i, nr;

	nr = parse_pairs(value, ':', PLATTER_MAX_SEEK_POINTS, s->pair);
	if (nr < 0)
		return -ERANGE;
	for (i = 0; i < nr; i++) {
		if (!s->pair[i][0] || s->pair[i][0] > PLATTER_MAX_CYLINDERS ||
		    s->pair[i][1] > 1000000)
			return -ERANGE;
		cfg->seek[i].distance = s->pair[i][0];
		cfg->seek[i].ns = s->pair[i][1];
	}
	cfg->nr_seek = nr;
	return 0;
}

static int read_conventional(void *of, const char *value, const char **why)
{
	struct platter_options *s = of;
	struct platter_config *cfg = &s->cfg;
	int i, nr;

	nr = parse_pairs(value, '+', PLATTER_MAX_CONV, s->pair);
	if (nr < 0)
		return -ERANGE;
	for (i = 0; i < nr; i++) {
		if ((s->pair[i][0] | s->pair[i][1]) % PLATTER_BLOCK_SECTORS)
			return -ERANGE;
		cfg->conv[i].start_blk = s->pair[i][0] / PLATTER_BLOCK_SECTORS;
		cfg->conv[i].blocks = s->pair[i][1] / PLATTER_BLOCK_SECTORS;
	}
	cfg->nr_conv = nr;
	return 0;
}

static int read_state(void *of, const char *value, const char **why)
{
	struct platter_options *s = of;

	s->state = value;
	return 0;
}

#define NUMBER(word, member, least, most)						\
	.name = word, .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_TABLE,	\
	SHINGLE_OPTION_AT(struct platter_options, member), .min = least, .max = most
#define WORD(word, member, of)							\
	.name = word, .kind = SHINGLE_OPTION_WORD, .when = SHINGLE_OPTION_TABLE, .words = of, \
	SHINGLE_OPTION_AT(struct platter_options, member)
#define MESSAGE(word, member)							\
	.name = word, .kind = SHINGLE_OPTION_WORD, .when = SHINGLE_OPTION_MESSAGE,	\
	.words = platter_onoff_names, SHINGLE_OPTION_AT(struct platter_options, member)
#define TEXT(word, how)								\
	.name = word, .kind = SHINGLE_OPTION_TEXT, .when = SHINGLE_OPTION_TABLE, .read = how

const struct shingle_option platter_options[] = {
	{ .name = "discard", .kind = SHINGLE_OPTION_FEATURE, .when = SHINGLE_OPTION_TABLE,
	  SHINGLE_OPTION_AT(struct platter_options, discard),
	  .help = "discards pass to the device" },
	{ WORD("media", cfg.profile.media, platter_media_names), .from = "profile",
	  .range = "media must be cmr, smr or imr",
	  .help = "recording technique" },
	{ TEXT("head_tracks", read_head_tracks), .from = "profile",
	  .range = "head_tracks must be 1 to 64, with up to three decimals",
	  .help = "width of the write head in tracks" },
	{ WORD("damage", damage_mode, platter_damage_names), .initial = DAMAGE_POISON,
	  .range = "damage must be none, count, poison or shadow",
	  .help = "what becomes of blocks that the head destroys" },
	{ TEXT("conventional", read_conventional), .from = "none",
	  .range = "conventional must be 1 to 16 START+LENGTH,... in sectors, multiples of 8",
	  .help = "ranges of full-width tracks" },
	{ TEXT("zones", read_zones), .from = "profile",
	  .range = "zones must be 1 to 64 TRACKSxTRACK_SECTORS,... (8 to 524288, by 8)",
	  .help = "zones from the outside in, tracks per surface" },
	{ TEXT("track_sectors", read_track_sectors), .from = "profile",
	  .range = "track_sectors must be 8 to 524288 and a multiple of 8",
	  .help = "a track at the outer diameter; the other zones follow" },
	{ NUMBER("surfaces", cfg.surfaces, 1, PLATTER_MAX_SURFACES),
	  .from = "profile",
	  .range = "surfaces must be 1 to 32",
	  .help = "recording surfaces" },
	{ NUMBER("swath_tracks", cfg.swath_tracks, 0, PLATTER_MAX_CYLINDERS),
	  .from = "profile",
	  .range = "swath_tracks must be 0 (a whole zone) to 2^30",
	  .help = "tracks of one surface before the next; 0: a whole zone" },
	{ NUMBER("density_spread", cfg.profile.density_spread, 0, 500),
	  .from = "profile",
	  .range = "density_spread must be 0 to 500 per mille",
	  .help = "heads differ by so many per mille in track capacity" },
	{ NUMBER("track_skew", cfg.track_skew_sectors, 0, PLATTER_MAX_TRACK_BLOCKS * 8),
	  .from = "fitted",
	  .range = "track_skew must be 0 to 524288 sectors",
	  .help = "sectors that a track begins after the one before" },
	{ NUMBER("head_skew", cfg.head_skew_sectors, 0, PLATTER_MAX_TRACK_BLOCKS * 8),
	  .from = "fitted",
	  .range = "head_skew must be 0 to 524288 sectors",
	  .help = "the same from surface to surface" },
	{ NUMBER("rpm", cfg.profile.rpm, 60, 60000),
	  .from = "profile",
	  .range = "rpm must be 60 to 60000",
	  .help = "speed of the spindle" },
	{ TEXT("seek", read_seek), .from = "none",
	  .range = "seek must be 1 to 256 TRACKS:MICROSECONDS,... (at most 1000000 us)",
	  .help = "a table of seeks instead of the curve of the profile" },
	{ NUMBER("seek_min_us", cfg.profile.seek_min_us, 0, 1000000),
	  .from = "profile",
	  .range = "seek_min_us must be 0 to 1000000",
	  .help = "a seek over one track, if there is no table of seeks" },
	{ NUMBER("seek_avg_us", cfg.profile.seek_avg_us, 0, 1000000),
	  .from = "profile",
	  .range = "seek_avg_us must be 0 to 1000000",
	  .help = "a seek over a third of the stroke" },
	{ NUMBER("seek_max_us", cfg.profile.seek_max_us, 0, 1000000),
	  .from = "profile",
	  .range = "seek_max_us must be 0 to 1000000",
	  .help = "a seek over the whole stroke" },
	{ NUMBER("head_switch_us", cfg.profile.head_switch_us, 0, 1000000),
	  .from = "profile",
	  .range = "head_switch_us must be 0 to 1000000",
	  .help = "a change of the surface" },
	{ NUMBER("write_settle_us", cfg.profile.write_settle_us, 0, 1000000),
	  .from = "profile",
	  .range = "write_settle_us must be 0 to 1000000",
	  .help = "more settling before a write" },
	{ NUMBER("overhead_us", cfg.profile.overhead_us, 0, 1000000),
	  .from = "profile",
	  .range = "overhead_us must be 0 to 1000000",
	  .help = "command processing" },
	{ NUMBER("flush_us", cfg.profile.flush_us, 0, 1000000),
	  .from = "profile",
	  .range = "flush_us must be 0 to 1000000",
	  .help = "a FLUSH by itself, beside what it waits for" },
	{ NUMBER("bus_mb_s", cfg.profile.bus_mb_s, 1, 100000),
	  .from = "profile",
	  .range = "bus_mb_s must be 1 to 100000",
	  .help = "speed of the interface in 10^6 bytes/s, for cache hits" },
	{ WORD("queue", sptf, SHINGLE_OPTION_WORDS("fifo", "sptf")),
	  .range = "queue must be fifo or sptf",
	  .help = "in order of arrival, or by position" },
	{ NUMBER("queue_depth", queue_depth, 1, PLATTER_MAX_QUEUE_DEPTH),
	  .initial = PLATTER_MAX_QUEUE_DEPTH,
	  .range = "queue_depth must be 1 to 32",
	  .help = "requests that the scheduler sees" },
	{ MESSAGE("wcache", wcache_on),
	  .range = "wcache must be on or off",
	  .help = "writes are acknowledged from the write cache" },
	{ NUMBER("wcache_kib", cfg.profile.wcache_kib, 8, 1048576),
	  .from = "profile",
	  .range = "wcache_kib must be 8 to 1048576",
	  .help = "size of the write cache" },
	{ WORD("rotational", rotational, platter_onoff_names), .initial = true,
	  .range = "rotational must be on or off",
	  .help = "what the queue says" },
	{ NUMBER("wcache_idle_ms", wcache_idle_ms, 0, 3600000),
	  .initial = PLATTER_DESTAGE_IDLE_MS,
	  .range = "wcache_idle_ms must be 0 to 3600000",
	  .help = "write the cache when the host has paused for so long" },
	{ MESSAGE("lookahead", lookahead_on),
	  .range = "lookahead must be on or off",
	  .help = "the head reads on after a read" },
	{ NUMBER("lookahead_kib", cfg.profile.lookahead_kib, 4, 1048576),
	  .from = "profile",
	  .range = "lookahead_kib must be 4 to 1048576",
	  .help = "size of a look-ahead segment" },
	{ WORD("timing", timing, SHINGLE_OPTION_WORDS("none", "model")), .initial = true,
	  .range = "timing must be none or model",
	  .help = "whether requests take time" },
	{ NUMBER("time_scale", cfg.time_permille, 1, 2000),
	  .initial = 1000,
	  .range = "time_scale must be 1 to 2000 (1000 = the drive's own pace)",
	  .help = "durations in per mille of those of the drive" },
	{ NUMBER("headlog", headlog, 0, PLATTER_MAX_HEADLOG),
	  .range = "headlog must be 0 to 65536 entries",
	  .help = "entries of the head log" },
	{ TEXT("state", read_state), .from = "none",
	  .help = "a device that keeps the map of destroyed blocks" },
	{ }
};

/**
 * platter_options_init() - set defaults before a table line is parsed
 * @o: result
 * @profile: the drive
 * @blocks: 4 KiB blocks of the drive
 *
 * Context: any.
 */
void platter_options_init(struct platter_options *o, const struct platter_profile *profile,
			  u64 blocks)
{
	shingle_options_init(platter_options, o);
	/* The call above does not know the drive; set what depends on the drive here. */
	platter_config_init(&o->cfg, profile, blocks);
}
