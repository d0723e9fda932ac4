/* SPDX-License-Identifier: GPL-2.0 */
/* Pieces of a checkpoint as a table: kinds of pieces, one behind the other.  Pure. */
#ifndef SHINGLE_PIECES_H
#define SHINGLE_PIECES_H

#include "format/layout.h"

struct shingle_engine;

/**
 * struct shingle_piece_kind - pieces of one kind of an engine's state
 * @nr: how many there are
 * @encode: the piece of number @at of its kind: its bytes are left in @buf, and how many
 *	they are is returned; 0 if there is nothing in it.  Pieces may be taken while I/O
 *	goes on: replaying the records since then must lead to the same state.  A piece
 *	that is not marked is what it was when its mark was taken away.
 * @decode: take a piece back; -EUCLEAN if it makes no sense
 *
 * A table of them is in the order of their indices, and ends with a NULL @nr.
 */
struct shingle_piece_kind {
	u64 (*nr)(const struct shingle_layout *l);
	u32 (*encode)(struct shingle_engine *e, u32 at, void *buf);
	int (*decode)(struct shingle_engine *e, u32 at, const void *buf, u32 bytes);
};

/**
 * shingle_pieces_nr() - pieces of several kinds
 * @p: table
 * @kinds: so many of its rows, or U32_MAX for all
 * @l: layout
 *
 * Context: any.  Returns how many, which is the index of the first piece behind them.
 */
static inline u64 shingle_pieces_nr(const struct shingle_piece_kind *p, u32 kinds,
				    const struct shingle_layout *l)
{
	u64 nr = 0;

	for (; p->nr && kinds; p++, kinds--)
		nr += p->nr(l);
	return nr;
}

/* The kind of the piece of index *@at, which becomes its number in it; NULL: there is none. */
static inline const struct shingle_piece_kind *shingle_pieces_at(const struct shingle_piece_kind *p,
							     const struct shingle_layout *l,
							     u64 *at)
{
	for (; p->nr; p++) {
		u64 nr = p->nr(l);

		if (*at < nr)
			return p;
		*at -= nr;
	}
	return NULL;
}

/**
 * shingle_pieces_encode() - a piece of an engine's state
 * @p: table
 * @l: layout
 * @e: the engine
 * @cursor: index of the piece; becomes the next one's, or SHINGLE_NOWHERE if there is no
 *	piece here
 * @index: the piece's
 * @buf: its bytes, room for SHINGLE_CHUNK_BYTES
 *
 * Context: as an engine's operations.  Returns how many bytes, 0 if nothing is in it.
 */
static inline u32 shingle_pieces_encode(const struct shingle_piece_kind *p,
					const struct shingle_layout *l, struct shingle_engine *e,
					u64 *cursor, u64 *index, void *buf)
{
	u64 at = *cursor;

	p = shingle_pieces_at(p, l, &at);
	if (!p) {
		*cursor = SHINGLE_NOWHERE;
		return 0;
	}
	*index = *cursor;
	*cursor += 1;
	return p->encode(e, at, buf);
}

/**
 * shingle_pieces_decode() - take a piece of an engine's state back
 * @p: table
 * @l: layout
 * @e: the engine
 * @index: of the piece
 * @buf: its bytes
 * @bytes: how many
 *
 * Context: before I/O.  Returns 0, or -EUCLEAN if it makes no sense or there is none.
 */
static inline int shingle_pieces_decode(const struct shingle_piece_kind *p,
					const struct shingle_layout *l, struct shingle_engine *e,
					u64 index, const void *buf, u32 bytes)
{
	p = shingle_pieces_at(p, l, &index);
	return p ? p->decode(e, index, buf, bytes) : -EUCLEAN;
}

#endif /* SHINGLE_PIECES_H */
