/* SPDX-License-Identifier: GPL-2.0 */
/* Tables of the kinds of journal records, for recovery and for the tool's dump.  Pure. */
#ifndef SHINGLE_RECORDS_H
#define SHINGLE_RECORDS_H

#include "format/format.h"
#include "pure.h"

struct shingle_engine;

/**
 * struct shingle_record_kind - a kind of record
 * @type: struct shingle_record::type
 * @name: name of the record, in capitals
 * @n: name of its member n in the tool's dump; NULL if records of this kind do not use the member
 * @a: name of its member a, or NULL
 * @b: name of its member b, or NULL
 * @c: name of its member c, or NULL
 * @replay: as replay() of struct shingle_state_ops, with the decoded values; NULL if the
 *	record is not the engine's
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
 * shingle_record_find() - find the kind of a record
 * @table: ends with a NULL name
 * @type: struct shingle_record::type
 *
 * Context: any.
 * Return: the kind, NULL if there is none.
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
 * shingle_record_replay() - an implementation of replay() of struct shingle_state_ops
 * @table: ends with a NULL name; all kinds have a @replay
 * @e: the engine
 * @rec: the record
 *
 * Context: before I/O, may sleep.
 * Return: 0 or -EUCLEAN.
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
