/* SPDX-License-Identifier: GPL-2.0 */
/* Streams: which writes go on where another one has ended.  Pure. */
#ifndef SHINGLE_STREAMS_H
#define SHINGLE_STREAMS_H

#include "pure.h"

/* Sequences of writes that are told apart: a stream, a second one, and strays. */
#define SHINGLE_NR_STREAMS	4

/**
 * struct shingle_stream - writes of which each began where the last one had ended
 * @next: block behind the last one
 * @blocks: written so far, 0 = none: it is no stream
 * @alone: of these, since another stream of at least @alone_blocks has written
 * @used: when it was last added to
 * @awaited: its next write was refused, and will come again
 */
struct shingle_stream {
	u64 next;
	u64 blocks;
	u64 alone;
	u64 used;
	bool awaited;
};

/**
 * struct shingle_streams - what goes on sequentially
 * @alone_blocks: a stream that has written so many by itself is sequential; 0: nobody asks
 * @stream: at most one has been @alone for @alone_blocks
 * @clock: counts @stream[].used
 */
struct shingle_streams {
	u32 alone_blocks;
	struct shingle_stream stream[SHINGLE_NR_STREAMS];
	u64 clock;
};

void shingle_streams_follow(struct shingle_streams *s, struct shingle_stream *st, u32 lblk, u32 n);

/**
 * shingle_stream_at() - what goes on with a block?
 * @s: the streams
 * @lblk: logical block
 *
 * Of several the one that has been alone for longest.
 *
 * Context: map lock.  Returns it, or NULL.
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
 * shingle_stream_alone() - the one that is sequential by itself
 * @s: the streams
 *
 * Context: map lock.  Returns it, or NULL.
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

/* Forget one: it goes on no more. */
static inline void shingle_stream_end(struct shingle_stream *st)
{
	memset(st, 0, sizeof(*st));
}

/* Forget them all. */
static inline void shingle_streams_end(struct shingle_streams *s)
{
	memset(s->stream, 0, sizeof(s->stream));
}

#endif /* SHINGLE_STREAMS_H */
