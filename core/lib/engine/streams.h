/* SPDX-License-Identifier: GPL-2.0 */
/* Streams: writes that begin where an earlier one has ended.  Pure. */
#ifndef SHINGLE_STREAMS_H
#define SHINGLE_STREAMS_H

#include "pure.h"

/* Number of sequences that are tracked: a stream, a second one, and random writes. */
#define SHINGLE_NR_STREAMS	4

/**
 * struct shingle_stream - writes that each began where the previous one had ended
 * @next: block behind the last write
 * @blocks: blocks written so far, 0 = none: the entry is unused
 * @alone: blocks written since another stream of at least @alone_blocks has written
 * @used: when a write was last added
 * @awaited: the engine refused its next write, and core will repeat that write
 */
struct shingle_stream {
	u64 next;
	u64 blocks;
	u64 alone;
	u64 used;
	bool awaited;
};

/**
 * struct shingle_streams - the tracked sequences of writes
 * @alone_blocks: a stream is sequential when it has written this number of blocks alone; 0:
 *	streams are not tracked
 * @stream: at most one has been @alone for @alone_blocks
 * @clock: source of @stream[].used
 */
struct shingle_streams {
	u32 alone_blocks;
	struct shingle_stream stream[SHINGLE_NR_STREAMS];
	u64 clock;
};

void shingle_streams_follow(struct shingle_streams *s, struct shingle_stream *st, u32 lblk, u32 n);

/**
 * shingle_stream_at() - find the stream that a block continues
 * @s: the streams
 * @lblk: logical block
 *
 * If there are several, it returns the one that has been alone for longest.
 *
 * Context: map lock.
 * Return: the stream, or NULL.
 */
static inline struct shingle_stream *shingle_stream_at(struct shingle_streams *s, u32 lblk)
{
	struct shingle_stream *best = NULL, *st;

	for (st = s->stream; st < s->stream + SHINGLE_NR_STREAMS; st++) {
		if (st->blocks && st->next == lblk && (!best || st->alone > best->alone))
			best = st;
	}
	return best;
}

/**
 * shingle_stream_alone() - find the stream that is alone and sequential
 * @s: the streams
 *
 * Context: map lock.
 * Return: the stream, or NULL.
 */
static inline struct shingle_stream *shingle_stream_alone(struct shingle_streams *s)
{
	struct shingle_stream *st;

	for (st = s->stream; st < s->stream + SHINGLE_NR_STREAMS; st++) {
		if (st->blocks && st->alone >= s->alone_blocks)
			return st;
	}
	return NULL;
}

/* Drop a stream. */
static inline void shingle_stream_end(struct shingle_stream *st)
{
	memset(st, 0, sizeof(*st));
}

/* Drop all streams. */
static inline void shingle_streams_end(struct shingle_streams *s)
{
	memset(s->stream, 0, sizeof(s->stream));
}

#endif /* SHINGLE_STREAMS_H */
