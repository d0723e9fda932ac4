/* SPDX-License-Identifier: GPL-2.0 */
/* Pieces of a checkpoint as a table: kinds of pieces, one behind the other.  Pure. */
#ifndef SHINGLE_PIECES_H
#define SHINGLE_PIECES_H

#include "engine.h"

/**
 * struct shingle_piece_kind - pieces of one kind of an engine's state
 * @nr: how many there are
 * @encode: as encode(), the piece of this number
 * @decode: as decode()
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
 * shingle_pieces_encode() - encode() of an engine whose pieces are in a table
 * @p: table
 * @l: layout
 * @e: as encode()
 * @cursor: as encode()
 * @index: as encode()
 * @buf: as encode()
 *
 * Context: as encode(), and so the value.
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
 * shingle_pieces_decode() - decode() of such an engine
 * @p: table
 * @l: layout
 * @e: as decode()
 * @index: as decode()
 * @buf: as decode()
 * @bytes: as decode()
 *
 * Context: as decode(), and so the value; -EUCLEAN if there is no such piece.
 */
static inline int shingle_pieces_decode(const struct shingle_piece_kind *p,
					const struct shingle_layout *l, struct shingle_engine *e,
					u64 index, const void *buf, u32 bytes)
{
	p = shingle_pieces_at(p, l, &index);
	return p ? p->decode(e, index, buf, bytes) : -EUCLEAN;
}

#endif /* SHINGLE_PIECES_H */
