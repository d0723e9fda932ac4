/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records of the journal as a table: what recovery does with each, and how the tool says
 * it.  Pure.
 */
#ifndef SHINGLE_RECORDS_H
#define SHINGLE_RECORDS_H

#include "format/format.h"
#include "pure.h"

struct shingle_engine;

/**
 * struct shingle_record_kind - a kind of record
 * @type: struct shingle_record::type
 * @name: of the record, in capitals
 * @n: what its n is, in a word; NULL if it is not used; so the others
 * @a: what its a is
 * @b: what its b is
 * @c: what its c is
 * @replay: as replay() of struct shingle_state_ops, with what it says; NULL if it is not the
 *	engine's
 */
struct shingle_record_kind {
	u16 type;
	const char *name;
	const char *n;
	const char *a;
	const char *b;
	const char *c;
	int (*replay)(struct shingle_engine *e, u64 a, u64 b, u32 n, u32 c);
};

/**
 * shingle_record_find() - the kind of a record
 * @table: ends with a NULL name
 * @type: struct shingle_record::type
 *
 * Context: any.  Returns NULL if there is none.
 */
static inline const struct shingle_record_kind *
shingle_record_find(const struct shingle_record_kind *table, u16 type)
{
	for (; table->name; table++) {
		if (table->type == type)
			return table;
	}
	return NULL;
}

/**
 * shingle_record_replay() - replay() of struct shingle_engine_ops
 * @table: ends with a NULL name, and each of it can be replayed
 * @e: as there
 * @rec: as there
 *
 * Context: as there.  Returns 0 or -EUCLEAN.
 */
static inline int shingle_record_replay(const struct shingle_record_kind *table,
					struct shingle_engine *e, const struct shingle_record *rec)
{
	const struct shingle_record_kind *k = shingle_record_find(table, le16_to_cpu(rec->type));

	if (!k)
		return -EUCLEAN;
	return k->replay(e, le64_to_cpu(rec->a), le64_to_cpu(rec->b), le16_to_cpu(rec->n),
			 le32_to_cpu(rec->c));
}

#endif /* SHINGLE_RECORDS_H */
