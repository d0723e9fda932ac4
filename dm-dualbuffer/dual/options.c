// SPDX-License-Identifier: GPL-2.0
/* The engine of Dual-buffer: options, counters, and statistics of rounds. */
#include "dual/state.h"

static int set_inplace(void *of, u32 yes, const char **why)
{
	struct dualbuffer *s = of;

	s->engine.copy_blocks = s->band_blocks;
	return 0;
}

#define OPTION(member)	SHINGLE_OPTION_AT(struct dualbuffer, member)

const struct shingle_option dual_options[] = {
	{ .name = "fit", .kind = SHINGLE_OPTION_WORD, OPTION(shape.fit),
	  .words = SHINGLE_OPTION_WORDS("hyper", "linear", "power", "sat"),
	  .range = "fit must be hyper, linear, power or sat",
	  .help = "the family of curves that foretells M" },
	{ .name = "ratchet", .kind = SHINGLE_OPTION_WORD, OPTION(shape.ratchet), .initial = 1,
	  .words = SHINGLE_OPTION_WORDS("off", "on"),
	  .range = "ratchet must be on or off",
	  .help = "M is foretold again at the start of each track, and may become less" },
	{ .name = "ageing", .kind = SHINGLE_OPTION_WORD, OPTION(cache.opt.literal),
	  .words = SHINGLE_OPTION_WORDS("on", "off"),
	  .range = "ageing must be on or off",
	  .help = "what is never written again goes home at last; off: counts begin at zero" },
	{ SHINGLE_OPTION_UNSAFE("unsafe_switch", struct dualbuffer, cache.opt.unsafe_switch,
				"the next round does not wait until it is durable") },
	{ SHINGLE_OPTION_UNSAFE("unsafe_inplace", struct dualbuffer, cache.opt.unsafe_inplace,
				"bands are rewritten without staging, from memory"),
	  .set = set_inplace },
	{ }
};

#define PARAM(word, member, most) SHINGLE_OPTION_PARAM(word, struct dual_params, member, most)

const struct shingle_option dual_format_options[] = {
	{ PARAM("m-percent", m_percent, 99), .from = "predicted",
	  .help = "share of the cache that is new, in each round" },
	{ PARAM("sample-percent", sample_percent, 100), .initial = 50, .from = "50",
	  .help = "of a track V(X) is sampled on so much" },
	{ PARAM("sample-tracks", sample_tracks, DUAL_MAX_BLOCKS), .from = "a ninth",
	  .help = "of the first so many tracks of the cache" },
	{ PARAM("min-new-percent", min_new_percent, 90), .initial = 25, .from = "25",
	  .help = "of the cache that is new at least" },
	{ PARAM("min-fb-percent", min_fb_percent, 50), .initial = 2, .from = "2",
	  .help = "of it that is kept at least" },
	{ PARAM("cache-track", track_blocks, PLATTER_MAX_TRACK_BLOCKS), .from = "512",
	  .help = "blocks of a track of the cache, where there are no tracks" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER(#name, struct dualbuffer, count.name, COUNT)
#define NOW(name, member) SHINGLE_COUNTER(#name, struct dualbuffer, member, NOW)

const struct shingle_counter dual_counters[] = {
	COUNT(placed_blocks),
	COUNT(late_blocks),
	COUNT(aborted_blocks),
	COUNT(full_rounds),
	COUNT(cleans_pressure),
	COUNT(cleans_forced),
	COUNT(rounds),
	COUNT(kept_blocks),
	COUNT(tail_blocks),
	COUNT(merged_blocks),
	COUNT(bands_cleaned),
	COUNT(rmw_pressure),
	COUNT(rmw_forced),
	COUNT(rmw_home_blocks),
	COUNT(rmw_staged_blocks),
	COUNT(lowered),
	NOW(round_number, cache.round.number),
	NOW(fb1_columns, cache.round.fb1_columns),
	NOW(new_columns, cache.round.drop[0].columns),
	NOW(most_cached_blocks, cache.predict.most),
	NOW(unfit_blocks, cache.bad.nr),
	{ }
};

static_assert(ARRAY_SIZE(dual_counters) <= SHINGLE_MAX_COUNTERS + 1);

static u32 permille(u32 part, u32 of)
{
	return of ? div_u64(mul_u32_u32(part, 1000), of) : 0;
}

/**
 * dual_query() - statistics of the last rounds, for the message ``rounds``
 * @e: the engine
 * @word: the message
 * @cursor: position in the list of lines
 * @line: result
 * @size: size of @line
 *
 * Context: as an engine's operations.
 * Return: 1; 0 if there is no further line; -ENOENT if @word is another message.
 */
int dual_query(struct shingle_engine *e, const char *word, u64 *cursor, char *line, size_t size)
{
	const struct dualbuffer *s = to_dual(e);
	u32 now = s->cache.round.number, blocks = dual_blocks(&s->shape), number = *cursor;
	const struct dual_history *h;

	if (strcmp(word, "rounds"))
		return -ENOENT;
	/* No round has the number 0, so it marks the beginning of the list. */
	if (!number || now - number > DUAL_PAST)
		number = dual_round_back(now, DUAL_PAST);
	/* Rounds before the device was opened have no statistics. */
	while (number != now && s->past[number % DUAL_PAST].number != number)
		number = dual_round_after(number);
	*cursor = number;
	if (number == now)
		return 0;
	*cursor = dual_round_after(number);
	h = &s->past[number % DUAL_PAST];
	snprintf(line, size,
		 "round %u predicted %u allocated %u ideal %u fb_blocks %u fb_use %u hot %u cold %u bands %u\n",
		 number, permille(h->predicted, blocks), permille(h->allocated, blocks),
		 permille(h->ideal, blocks), h->fb_blocks,
		 permille(h->kept_blocks, h->fb_blocks), h->kept_blocks, h->home_blocks,
		 h->home_bands);
	return 1;
}
