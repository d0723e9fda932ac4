// SPDX-License-Identifier: GPL-2.0
/* Streams, see streams.h.  Pure code. */
#include "engine/streams.h"

/*
 * Replace the stream that has not been used for longest, but never the one that is alone: random
 * writes may come while it waits.
 */
static struct shingle_stream *begin(struct shingle_streams *s)
{
	struct shingle_stream *found = NULL, *o;

	for (o = s->stream; o < s->stream + SHINGLE_NR_STREAMS; o++) {
		if (o->alone < s->alone_blocks && (!found || o->used < found->used))
			found = o;
	}
	shingle_stream_end(found);
	return found;
}

/**
 * shingle_streams_follow() - blocks were placed: add them to a stream
 * @s: the streams, with alone_blocks not 0
 * @st: the stream that they continue, or NULL to begin a new one
 * @lblk: first logical block
 * @n: number of blocks
 *
 * Context: map lock.
 */
void shingle_streams_follow(struct shingle_streams *s, struct shingle_stream *st, u32 lblk, u32 n)
{
	struct shingle_stream *o;

	if (!st)
		st = begin(s);
	st->next = (u64)lblk + n;
	st->blocks += n;
	st->alone += n;
	st->used = ++s->clock;
	st->awaited = false;
	for (o = s->stream; st->blocks >= s->alone_blocks && o < s->stream + SHINGLE_NR_STREAMS;
	     o++) {
		if (o != st)
			o->alone = 0;
	}
}
EXPORT_SYMBOL_GPL(shingle_streams_follow);
