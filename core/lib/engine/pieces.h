/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tables of the kinds of pieces of a checkpoint.  Pure.
 *
 * A piece is a part of an engine's state of at most SHINGLE_CHUNK_BYTES, for example the slots of
 * one log.  Each piece has a mark (struct shingle_marks).  A checkpoint usually writes the marked
 * pieces only.
 */
#ifndef SHINGLE_PIECES_H
#define SHINGLE_PIECES_H

#include "format/layout.h"

struct shingle_engine;

/**
 * struct shingle_piece_kind - pieces of one kind of an engine's state
 * @nr: returns the number of pieces
 * @encode: write the piece with number @at of its kind to @buf and return its size in bytes;
 *	0 if it is empty.  Pieces may be encoded while I/O goes on: replaying the records since
 *	then must lead to the same state
 * @decode: restore a piece; -EUCLEAN if it is invalid
 *
 * A table of kinds is in the order of their indices, and ends with a NULL @nr.
 */
struct shingle_piece_kind {
	u64 (*nr)(const struct shingle_layout *l);
	u32 (*encode)(struct shingle_engine *e, u32 at, void *buf);
	int (*decode)(struct shingle_engine *e, u32 at, const void *buf, u32 bytes);
};

/**
 * shingle_pieces_nr() - number of pieces of several kinds
 * @p: table
 * @kinds: number of rows to include, or U32_MAX for all
 * @l: layout
 *
 * Context: any.
 * Return: the number, which is the index of the first piece behind them.
 */
static inline u64 shingle_pieces_nr(const struct shingle_piece_kind *p, u32 kinds,
				    const struct shingle_layout *l)
{
	u64 nr = 0;

	for (; p->nr && kinds; p++, kinds--)
		nr += p->nr(l);
	return nr;
}

/* The kind of the piece with index *@at, which becomes its number in the kind; NULL: none. */
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
 * shingle_pieces_encode() - encode a piece of an engine's state
 * @p: table
 * @l: layout
 * @e: the engine
 * @cursor: index of the piece; becomes that of the next one, or SHINGLE_NOWHERE if there is
 *	no such piece
 * @index: index of the piece
 * @buf: receives the piece, room for SHINGLE_CHUNK_BYTES
 *
 * Context: as an engine's operations.
 * Return: size of the piece in bytes, 0 if it is empty.
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
 * shingle_pieces_decode() - restore a piece of an engine's state
 * @p: table
 * @l: layout
 * @e: the engine
 * @index: index of the piece
 * @buf: the piece
 * @bytes: its size
 *
 * Context: before I/O.
 * Return: 0, or -EUCLEAN if it is invalid or there is no such piece.
 */
static inline int shingle_pieces_decode(const struct shingle_piece_kind *p,
					const struct shingle_layout *l, struct shingle_engine *e,
					u64 index, const void *buf, u32 bytes)
{
	p = shingle_pieces_at(p, l, &index);
	return p ? p->decode(e, index, buf, bytes) : -EUCLEAN;
}

#endif /* SHINGLE_PIECES_H */
