// SPDX-License-Identifier: GPL-2.0
/* Track allocation and protection of an interlaced disk, in figures only. */
#include "model.h"

const char *const model_sync_name[MODEL_NR_SYNCS] = {
	"adjacent", "backup", "bottom", "restore", "free", "last", "map",
};

static const struct {
	const char *name;
	enum model_policy policy;
} policies[] = {
	{ "seq", MODEL_SEQ }, { "3phase", MODEL_3PHASE },
	{ "zigzag", MODEL_ZIGZAG }, { "compaction", MODEL_COMPACTION },
};

static bool word_is(const char *word, size_t len, const char *name)
{
	return strlen(name) == len && !strncmp(word, name, len);
}

static bool parse_option(const char *w, size_t len, struct model_options *opt)
{
	if (word_is(w, len, "first"))
		opt->first_fit = true;
	else if (word_is(w, len, "next"))
		opt->first_fit = false;
	else if (word_is(w, len, "adjsync=literal"))
		opt->adjacent_needed = false;
	else if (word_is(w, len, "adjsync=needed"))
		opt->adjacent_needed = true;
	else if (word_is(w, len, "syncs=literal"))
		opt->syncs_literal = true;
	else if (word_is(w, len, "syncs=needed"))
		opt->syncs_literal = false;
	else if (word_is(w, len, "pending"))
		opt->pending = true;
	else if (word_is(w, len, "surplus-first"))
		opt->surplus_first = true;
	else if (word_is(w, len, "map"))
		opt->map = true;
	else if (word_is(w, len, "largest=most"))
		opt->largest = MODEL_LARGEST_MOST;
	else if (len > 8 && len <= 10 && !strncmp(w, "largest=", 8) &&
		 strspn(w + 8, "0123456789") >= len - 8 && atoi(w + 8) < MODEL_LEVELS)
		opt->largest = atoi(w + 8);
	else
		return false;
	return true;
}

/**
 * model_parse() - what to model, from POLICY,RMW[,OPTION]...
 * @text: the words
 * @opt: result
 * @why: what is wrong, a part of a sentence
 *
 * Returns false if something is.
 */
bool model_parse(const char *text, struct model_options *opt, const char **why)
{
	u32 nr = 0, i;

	memset(opt, 0, sizeof(*opt));
	opt->largest = MODEL_LARGEST_ALIVE;
	for (;; nr++) {
		size_t len = strcspn(text, ",");

		if (!nr) {
			for (i = 0; i < ARRAY_SIZE(policies); i++) {
				if (word_is(text, len, policies[i].name))
					break;
			}
			*why = "the policy is one of seq, 3phase, zigzag, compaction";
			if (i == ARRAY_SIZE(policies))
				return false;
			opt->policy = policies[i].policy;
		} else if (nr == 1) {
			*why = "behind the policy comes naive, merged or none";
			if (word_is(text, len, "naive"))
				opt->rmw = MODEL_NAIVE;
			else if (word_is(text, len, "merged"))
				opt->rmw = MODEL_MERGED;
			else if (!word_is(text, len, "none"))
				return false;
		} else {
			*why = "options are first, next, adjsync=literal|needed, syncs=literal|needed, pending, surplus-first, map, largest=0..15|most";
			if (!parse_option(text, len, opt))
				return false;
		}
		if (!text[len])
			break;
		text += len + 1;
	}
	*why = "behind the policy comes naive, merged or none";
	return nr > 0;
}

static bool is_top(u32 t)
{
	return t & 1;
}

/* Class of a track, and its index there. */
static u32 class_of(const struct model *m, u32 t, u32 *index)
{
	u32 i = t / 2;

	if (m->opt.policy == MODEL_SEQ) {
		*index = t;
		return 0;
	}
	if (!is_top(t) || m->opt.policy == MODEL_COMPACTION) {
		*index = i;
		return is_top(t);
	}
	*index = i / 2;
	return 1 + i % 2;
}

static u32 track_of(const struct model *m, u32 class, u32 index)
{
	if (m->opt.policy == MODEL_SEQ)
		return index;
	if (!class)
		return 2 * index;
	if (m->opt.policy == MODEL_COMPACTION)
		return 2 * index + 1;
	return 2 * (2 * index + class - 1) + 1;
}

static void update_safe(struct model *m, s64 t)
{
	bool safe;

	if (t < 0 || t >= m->tracks || is_top((u32)t))
		return;
	safe = !bits_test(&m->used, (u32)t) && (!t || !bits_test(&m->used, (u32)t - 1)) &&
	       (t + 1 == m->tracks || !bits_test(&m->used, (u32)t + 1));
	bits_put(&m->safe, (u32)t / 2, safe);
}

static void set_used(struct model *m, u32 t, bool used)
{
	u32 index, class = class_of(m, t, &index);

	bits_put(&m->used, t, used);
	bits_put(&m->avail[class], index, !used);
	update_safe(m, (s64)t - 1);
	update_safe(m, t);
	update_safe(m, (s64)t + 1);
}

/**
 * model_init() - an empty disk
 * @m: result
 * @opt: what is modelled; copied
 * @tracks: on the disk, at least 1
 *
 * Returns 0 or -ENOMEM; model_exit() in both cases.
 */
int model_init(struct model *m, const struct model_options *opt, u32 tracks)
{
	bool ok;
	u32 i;

	memset(m, 0, sizeof(*m));
	m->opt = *opt;
	m->tracks = tracks;
	ok = bits_init(&m->used, tracks) && bits_init(&m->valid, tracks) &&
	     bits_init(&m->unsynced, tracks) && bits_init(&m->safe, tracks / 2 + 1);
	for (i = 0; i < MODEL_CLASSES; i++) {
		ok = ok && bits_init(&m->avail[i], tracks);
		m->last[i] = -1;
	}
	m->level = calloc(tracks, sizeof(*m->level));
	m->dirty = calloc(tracks, sizeof(*m->dirty));
	if (!ok || !m->level || !m->dirty)
		return -ENOMEM;
	for (i = 0; i < tracks; i++)
		set_used(m, i, false);
	return 0;
}

void model_exit(struct model *m)
{
	u32 i;

	bits_free(&m->used);
	bits_free(&m->valid);
	bits_free(&m->unsynced);
	bits_free(&m->safe);
	for (i = 0; i < MODEL_CLASSES; i++)
		bits_free(&m->avail[i]);
	free(m->level);
	free(m->dirty);
	free(m->held);
	memset(m, 0, sizeof(*m));
}

/* The next in the order of the class; -1 if there is none. */
static s64 next_in(const struct model *m, const struct bits *b, u32 class)
{
	/* Phase 2 of zigzag walks outward. */
	bool down = m->opt.policy == MODEL_ZIGZAG && class == 1;
	s64 last = m->opt.first_fit ? -1 : m->last[class], i;

	if (down) {
		i = bits_down(b, last < 0 ? (s64)b->n - 1 : last - 1, 0);
		return i < 0 ? bits_down(b, (s64)b->n - 1, 0) : i;
	}
	i = bits_up(b, last + 1, b->n);
	return i < 0 ? bits_up(b, 0, last + 1) : i;
}

/* The free bottom nearest to the last one; of two, the higher. */
static s64 nearest_bottom(const struct model *m)
{
	const struct bits *b = &m->avail[0];
	s64 last = m->last[0];
	s64 up = bits_up(b, last < 0 ? 0 : last, b->n);
	s64 down = last < 0 ? -1 : bits_down(b, last, 0);

	if (up < 0 || down < 0)
		return up < 0 ? down : up;
	return up - last <= last - down ? up : down;
}

static u32 largest_level(const struct model *m, u32 level)
{
	u32 i, most = 0;

	if (m->opt.largest >= 0)
		return (u32)m->opt.largest;
	if (m->opt.largest == MODEL_LARGEST_MOST) {
		for (i = 1; i < MODEL_LEVELS; i++) {
			if (m->alive[i] >= m->alive[most])
				most = i;
		}
		return m->alive[most] ? most : level;
	}
	for (i = MODEL_LEVELS - 1; i > level; i--) {
		if (m->alive[i])
			return i;
	}
	return level;
}

/* A bottom, the harmless ones first; -1 if none is free. */
static s64 pick_bottom(const struct model *m)
{
	s64 i = next_in(m, &m->safe, 0);

	if (i < 0 && m->opt.surplus_first && m->avail[1].set)
		return -1;
	return i < 0 ? nearest_bottom(m) : i;
}

static u32 pick(struct model *m, u32 level)
{
	u32 class = 0, track;
	s64 i = -1;

	if (m->opt.policy == MODEL_COMPACTION) {
		bool largest = level >= largest_level(m, level);

		if (largest)
			i = pick_bottom(m);
		if (i < 0) {
			class = 1;
			i = next_in(m, &m->avail[1], 1);
			if (i >= 0 && largest)
				m->stats.surplus++;
		}
		if (i < 0) {
			class = 0;
			i = pick_bottom(m);
			if (i >= 0 && !largest)
				m->stats.tier_miss++;
		}
	} else {
		for (class = 0; class < MODEL_CLASSES; class++) {
			i = next_in(m, &m->avail[class], class);
			if (i >= 0)
				break;
		}
	}
	m->last[class] = i;
	track = track_of(m, class, (u32)i);
	set_used(m, track, true);
	m->level[track] = (u8)level;
	m->alive[level]++;
	if (is_top(track))
		m->stats.tops++;
	else
		m->stats.bottoms++;
	return track;
}

/**
 * model_allocate() - tracks for a file
 * @m: the disk
 * @level: of the file, below MODEL_LEVELS
 * @list: result, in the order of allocation
 * @n: how many
 *
 * Returns 0, or -ENOSPC when fewer are free; then nothing has changed.
 */
int model_allocate(struct model *m, u32 level, u32 *list, u32 n)
{
	u32 i;

	if (n > m->tracks - m->used.set)
		return -ENOSPC;
	for (i = 0; i < n; i++)
		list[i] = pick(m, level);
	return 0;
}

static void emit(struct model *m, char op, u32 track)
{
	if (m->event)
		m->event(m->ctx, op, track);
}

static void count_sync(struct model *m, enum model_sync why)
{
	while (m->nr_dirty)
		bits_put(&m->unsynced, m->dirty[--m->nr_dirty], false);
	m->stats.sync[why]++;
	emit(m, 'S', why);
}

static void write_track(struct model *m, char op, u32 t)
{
	if (!bits_test(&m->unsynced, t)) {
		bits_put(&m->unsynced, t, true);
		m->dirty[m->nr_dirty++] = t;
	}
	bits_put(&m->valid, t, true);
	emit(m, op, t);
}

static void back_up(struct model *m, u32 top)
{
	m->stats.backups++;
	emit(m, 'R', top);
	emit(m, 'K', top);
}

static void restore(struct model *m, u32 top)
{
	m->stats.rewrites++;
	write_track(m, 'r', top);
}

/* The valid tops that writing a track would destroy. */
static u32 tops_destroyed(const struct model *m, u32 t, u32 *top)
{
	u32 n = 0;

	if (is_top(t))
		return 0;
	if (t && bits_test(&m->valid, t - 1))
		top[n++] = t - 1;
	if (t + 1 < m->tracks && bits_test(&m->valid, t + 1))
		top[n++] = t + 1;
	return n;
}

static bool neighbour_unsynced(const struct model *m, u32 t)
{
	if (m->opt.adjacent_needed && !is_top(t))
		return false;
	return (t && bits_test(&m->unsynced, t - 1)) ||
	       (t + 1 < m->tracks && bits_test(&m->unsynced, t + 1));
}

/* Algorithm 1. */
static void persist_naive(struct model *m, const u32 *list, u32 n)
{
	bool any = false;
	u32 i, j;

	for (i = 0; i < n; i++) {
		u32 top[2], tops;

		if (neighbour_unsynced(m, list[i]))
			count_sync(m, MODEL_SYNC_ADJACENT);
		tops = tops_destroyed(m, list[i], top);
		if (!tops) {
			write_track(m, 'W', list[i]);
			continue;
		}
		any = true;
		m->stats.bottoms_rmw++;
		m->stats.backup_peak = max_t(u64, m->stats.backup_peak, tops);
		for (j = 0; j < tops; j++)
			back_up(m, top[j]);
		count_sync(m, MODEL_SYNC_BACKUP);
		write_track(m, 'W', list[i]);
		count_sync(m, MODEL_SYNC_BOTTOM);
		for (j = 0; j < tops; j++)
			restore(m, top[j]);
		count_sync(m, MODEL_SYNC_RESTORE);
	}
	count_sync(m, MODEL_SYNC_LAST);
	m->stats.rmw_files += any;
}

/*
 * Algorithm 2.  The tops are collected before anything is written, so those of
 * the file itself are not yet valid, and one between two bottoms is taken once.
 */
static void persist_merged(struct model *m, const u32 *list, u32 n)
{
	u32 *tops = malloc(2 * n * sizeof(*tops));
	bool *rmw = calloc(n, sizeof(*rmw));
	u32 nr_tops = 0, safe = 0, own = 0, i, j;

	assert(tops && rmw);
	for (i = 0; i < n; i++) {
		u32 top[2], nr = tops_destroyed(m, list[i], top);

		rmw[i] = nr;
		m->stats.bottoms_rmw += rmw[i];
		for (j = 0; j < nr; j++) {
			if (bits_test(&m->unsynced, top[j]))
				continue;
			/* Marks it as taken; nothing is unsynced between files. */
			bits_put(&m->unsynced, top[j], true);
			m->dirty[m->nr_dirty++] = top[j];
			tops[nr_tops++] = top[j];
		}
		own += is_top(list[i]);
		safe += !is_top(list[i]) && !rmw[i];
	}
	if (nr_tops) {
		m->stats.rmw_files++;
		m->stats.backup_peak = max_t(u64, m->stats.backup_peak, nr_tops);
		for (i = 0; i < nr_tops; i++)
			back_up(m, tops[i]);
		count_sync(m, MODEL_SYNC_BACKUP);
		for (i = 0; i < n; i++) {
			if (rmw[i])
				write_track(m, 'W', list[i]);
		}
		count_sync(m, MODEL_SYNC_BOTTOM);
		for (i = 0; i < nr_tops; i++)
			restore(m, tops[i]);
		count_sync(m, MODEL_SYNC_RESTORE);
	}
	for (i = 0; i < n; i++) {
		if (!is_top(list[i]) && !rmw[i])
			write_track(m, 'W', list[i]);
	}
	if (m->opt.syncs_literal || (safe && own))
		count_sync(m, MODEL_SYNC_FREE);
	for (i = 0; i < n; i++) {
		if (is_top(list[i]))
			write_track(m, 'W', list[i]);
	}
	if (m->opt.syncs_literal || safe || own)
		count_sync(m, MODEL_SYNC_LAST);
	free(tops);
	free(rmw);
}

/* The content of a track is no longer needed: no model step saves it. */
static void forget(struct model *m, u32 t)
{
	bits_put(&m->valid, t, false);
	m->alive[m->level[t]]--;
	m->stats.freed++;
}

/**
 * model_persist() - write a file to the tracks it was given
 * @m: the disk; nothing is under way
 * @list: the tracks, from model_allocate()
 * @n: how many
 */
void model_persist(struct model *m, const u32 *list, u32 n)
{
	u32 i;

	switch (m->opt.rmw) {
	case MODEL_NO_RMW:
		for (i = 0; i < n; i++)
			write_track(m, 'W', list[i]);
		count_sync(m, MODEL_SYNC_LAST);
		break;
	case MODEL_NAIVE:
		persist_naive(m, list, n);
		break;
	case MODEL_MERGED:
		persist_merged(m, list, n);
		break;
	}
	m->stats.files++;
	m->stats.tracks += n;
	if (m->opt.map)
		count_sync(m, MODEL_SYNC_MAP);
	while (m->nr_held)
		set_used(m, m->held[--m->nr_held], false);
}

/**
 * model_free() - a file is deleted
 * @m: the disk
 * @list: its tracks
 * @n: how many
 */
void model_free(struct model *m, const u32 *list, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		forget(m, list[i]);
	if (!m->opt.pending) {
		for (i = 0; i < n; i++)
			set_used(m, list[i], false);
		return;
	}
	if (m->nr_held + n > m->max_held) {
		m->max_held = 2 * (m->nr_held + n);
		m->held = realloc(m->held, m->max_held * sizeof(*m->held));
		assert(m->held);
	}
	memcpy(m->held + m->nr_held, list, n * sizeof(*list));
	m->nr_held += n;
}

/**
 * model_relevel() - a file moves to another level as it is
 * @m: the disk
 * @list: its tracks
 * @n: how many
 * @level: the new one
 */
void model_relevel(struct model *m, const u32 *list, u32 n, u32 level)
{
	u32 i;

	for (i = 0; i < n; i++) {
		m->alive[m->level[list[i]]]--;
		m->level[list[i]] = (u8)level;
		m->alive[level]++;
	}
}

/* Syncs of all causes. */
u64 model_syncs(const struct model *m)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < MODEL_NR_SYNCS; i++)
		sum += m->stats.sync[i];
	return sum;
}
