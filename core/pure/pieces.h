/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pieces of a checkpoint as a table: arrays of an engine's state, cut into as many entries
 * as a piece holds, one array behind the other.  Pure.
 */
#ifndef SHINGLE_PIECES_H
#define SHINGLE_PIECES_H

#include "engine.h"

/**
 * struct shingle_piece_kind - an array
 * @name: what its entries are
 * @entries: in a piece
 * @entry_bytes: each
 * @nr: how many entries there are
 * @encode: write entries @first to @first + @n - 1; false if all are as on a new device,
 *	and then the piece is left out
 * @decode: take them back: 0 or -EUCLEAN
 */
struct shingle_piece_kind {
	const char *name;
	u32 entries;
	u32 entry_bytes;
	u32 (*nr)(const struct shingle_engine *e);
	bool (*encode)(const struct shingle_engine *e, u32 first, u32 n, void *buf);
	int (*decode)(struct shingle_engine *e, u32 first, u32 n, const void *buf);
};

/* How many pieces is one array? */
static inline u32 shingle_pieces_of(const struct shingle_piece_kind *k,
				    const struct shingle_engine *e)
{
	return DIV_ROUND_UP(k->nr(e), k->entries);
}

/**
 * shingle_pieces_mark() - an entry has changed
 * @table: all arrays
 * @kind: of which the entry is
 * @e: the engine
 * @entry: its number
 *
 * Context: inside an engine operation.
 */
static inline void shingle_pieces_mark(const struct shingle_piece_kind *table,
				       const struct shingle_piece_kind *kind,
				       struct shingle_engine *e, u32 entry)
{
	u32 piece = entry / kind->entries;

	for (; table != kind; table++)
		piece += shingle_pieces_of(table, e);
	shingle_mark(e, piece, 1);
}

/* Which array is piece *@piece of?  Becomes its number there.  NULL: there is no such piece. */
static inline const struct shingle_piece_kind *
shingle_pieces_find(const struct shingle_piece_kind *table, const struct shingle_engine *e,
		    u64 *piece)
{
	for (; table->name; table++) {
		if (*piece < shingle_pieces_of(table, e))
			return table;
		*piece -= shingle_pieces_of(table, e);
	}
	return NULL;
}

/**
 * shingle_pieces_encode() - encode() of struct shingle_engine_ops
 * @table: ends with a NULL name
 * @e: as there
 * @cursor: as there
 * @index: as there
 * @buf: as there
 *
 * Context: as there.  Returns as there.
 */
static inline u32 shingle_pieces_encode(const struct shingle_piece_kind *table,
					struct shingle_engine *e, u64 *cursor, u64 *index,
					void *buf)
{
	const struct shingle_piece_kind *k;
	u64 piece = *cursor;
	u32 first, n;

	k = shingle_pieces_find(table, e, &piece);
	if (!k) {
		*cursor = SHINGLE_NOWHERE;
		return 0;
	}
	*index = (*cursor)++;
	first = piece * k->entries;
	n = min(k->nr(e) - first, k->entries);
	return k->encode(e, first, n, buf) ? n * k->entry_bytes : 0;
}

/**
 * shingle_pieces_decode() - decode() of struct shingle_engine_ops
 * @table: ends with a NULL name
 * @e: as there
 * @index: as there
 * @buf: as there
 * @bytes: as there
 *
 * Context: as there.  Returns 0 or -EUCLEAN.
 */
static inline int shingle_pieces_decode(const struct shingle_piece_kind *table,
					struct shingle_engine *e, u64 index, const void *buf,
					u32 bytes)
{
	const struct shingle_piece_kind *k = shingle_pieces_find(table, e, &index);
	u32 first, n;

	if (!k || bytes % k->entry_bytes)
		return -EUCLEAN;
	first = index * k->entries;
	n = bytes / k->entry_bytes;
	if (n > k->nr(e) - first)
		return -EUCLEAN;
	return k->decode(e, first, n, buf);
}

#endif /* SHINGLE_PIECES_H */
