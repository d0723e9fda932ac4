/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Options as a table, an entry each, of engines, of core and of platter: what sets them
 * by a table line or a message, says them in a status or to IMA, and what the tool and
 * the documentation know of them comes from it.  Pure.
 */
#ifndef SHINGLE_OPTIONS_H
#define SHINGLE_OPTIONS_H

#include "pure.h"

enum shingle_option_kind {
	SHINGLE_OPTION_FEATURE,	/* is there or not: a bool */
	SHINGLE_OPTION_NUMBER,	/* from min to max: a u32; words stand for max + 1 and on */
	SHINGLE_OPTION_WORD,	/* one of the words: its index, a u32, or of two a bool */
	SHINGLE_OPTION_TEXT,	/* what read() makes of it */
};

enum shingle_option_when {
	SHINGLE_OPTION_MESSAGE,	/* by table and by message */
	SHINGLE_OPTION_TABLE,	/* by table only */
	SHINGLE_OPTION_FORMAT,	/* when a device is formatted */
};

/**
 * struct shingle_option - one of them
 * @name: in the table line
 * @help: what it is, in a line
 * @range: the sentence for every other value
 * @busy: with SHINGLE_OPTION_TABLE, the sentence for a message
 * @words: ends with NULL; or NULL
 * @kind: what values it has
 * @when: it may be set
 * @bytes: of the value: 1, a bool, or 4
 * @offset: of the value in what it is an option of
 * @min: smallest number
 * @max: largest number
 * @initial: the default
 * @from: who says the default, in a word, if it is not the table; or NULL
 * @find_initial: the default if it depends on others, or NULL
 * @set: called before the value is changed, for what else there is to be done: 0, or
 *	-errno with a sentence in @why, which is @range before; or NULL
 * @read: take a text; returns as @set
 */
struct shingle_option {
	const char *name;
	const char *help;
	const char *range;
	const char *busy;
	const char *const *words;
	u8 kind;
	u8 when;
	u8 bytes;
	u32 offset;
	u32 min;
	u32 max;
	u32 initial;
	const char *from;
	u32 (*find_initial)(const void *of);
	int (*set)(void *of, u32 value, const char **why);
	int (*read)(void *of, const char *text, const char **why);
};

/* Where the value is: in an option's initializer. */
#define SHINGLE_OPTION_AT(type, member)		\
	.bytes = sizeof(((type *)0)->member), .offset = offsetof(type, member)

#define SHINGLE_OPTION_WORDS(...)	((const char *const[]){ __VA_ARGS__, NULL })

static inline bool shingle_is_feature(const struct shingle_option *o)
{
	return o->kind == SHINGLE_OPTION_FEATURE;
}

/**
 * shingle_option_get() - the value of an option
 * @o: the option, none of a text
 * @of: what it is an option of
 *
 * Context: as the value asks for.
 */
static inline u32 shingle_option_get(const struct shingle_option *o, const void *of)
{
	const u8 *at = (const u8 *)of + o->offset;

	return o->bytes == sizeof(bool) ? *(const bool *)at : *(const u32 *)at;
}

/**
 * shingle_option_put() - change the value of an option, and nothing else
 * @o: the option
 * @of: what it is an option of
 * @value: a value that it has
 *
 * Context: as the value asks for.
 */
static inline void shingle_option_put(const struct shingle_option *o, void *of, u32 value)
{
	u8 *at = (u8 *)of + o->offset;

	if (o->bytes == sizeof(bool))
		WRITE_ONCE(*(bool *)at, value);
	else
		WRITE_ONCE(*(u32 *)at, value);
}

/**
 * shingle_option_initial() - the default of an option
 * @o: the option
 * @of: what it is an option of
 *
 * Context: any.
 */
static inline u32 shingle_option_initial(const struct shingle_option *o, const void *of)
{
	return o->find_initial ? o->find_initial(of) : o->initial;
}

/**
 * shingle_options_init() - all options have their defaults
 * @o: table, ends with a NULL name
 * @of: what it is a table of
 *
 * Context: constructor.
 */
static inline void shingle_options_init(const struct shingle_option *o, void *of)
{
	for (; o->name; o++) {
		if (o->kind != SHINGLE_OPTION_TEXT)
			shingle_option_put(o, of, shingle_option_initial(o, of));
	}
}

/**
 * shingle_option_find() - the option of a name
 * @o: table, ends with a NULL name
 * @name: its name
 * @feature: a feature, or one that has a value?
 *
 * Context: any.  Returns NULL if there is none.
 */
static inline const struct shingle_option *
shingle_option_find(const struct shingle_option *o, const char *name, bool feature)
{
	for (; o->name; o++) {
		if (shingle_is_feature(o) == feature && !strcmp(o->name, name))
			return o;
	}
	return NULL;
}

/**
 * shingle_option_parse() - does an option take a value?
 * @o: the option
 * @text: what is wanted; NULL for a feature
 * @value: result
 * @why: on error what is wrong, in a sentence
 *
 * Context: any.  Returns 0 or -ERANGE.
 */
static inline int shingle_option_parse(const struct shingle_option *o, const char *text,
				       u32 *value, const char **why)
{
	u32 first = o->kind == SHINGLE_OPTION_NUMBER ? o->max + 1 : 0, i;

	*why = o->range;
	*value = 1;
	if (!text)
		return 0;
	for (i = 0; o->words && o->words[i]; i++) {
		*value = first + i;
		if (!strcmp(o->words[i], text))
			return 0;
	}
	if (o->kind != SHINGLE_OPTION_NUMBER || kstrtouint(text, 10, value) ||
	    *value < o->min || *value > o->max)
		return -ERANGE;
	return 0;
}

/**
 * shingle_option_check() - may an option have a value now?
 * @o: the option
 * @text: what is wanted; NULL for a feature
 * @in_use: a table does not ask any more: messages do
 * @value: result
 * @why: on error what is wrong, in a sentence
 *
 * Context: any.  Returns 0, -ERANGE, or -EBUSY.
 */
static inline int shingle_option_check(const struct shingle_option *o, const char *text,
				       bool in_use, u32 *value, const char **why)
{
	int err = shingle_option_parse(o, text, value, why);

	if (err || !in_use || o->when != SHINGLE_OPTION_TABLE)
		return err;
	*why = o->busy;
	return -EBUSY;
}

/**
 * shingle_option_set() - set an option
 * @table: ends with a NULL name
 * @of: what it is a table of
 * @in_use: as shingle_option_check()
 * @name: of the option
 * @text: its value, NULL for a feature
 * @why: on error what is wrong, in a sentence
 *
 * Context: as the values ask for.  Returns 0; -ENOENT if there is none of that name, and
 * then there is no sentence; -ERANGE; -EBUSY; or what the option says.
 */
static inline int shingle_option_set(const struct shingle_option *table, void *of, bool in_use,
				     const char *name, const char *text, const char **why)
{
	const struct shingle_option *o = shingle_option_find(table, name, !text);
	u32 value;
	int err;

	if (!o)
		return -ENOENT;
	if (o->kind == SHINGLE_OPTION_TEXT) {
		*why = o->range;
		return o->read(of, text, why);
	}
	err = shingle_option_check(o, text, in_use, &value, why);
	if (!err && o->set)
		err = o->set(of, value, why);
	if (!err)
		shingle_option_put(o, of, value);
	return err;
}

/**
 * shingle_option_show() - the value of an option, as it was asked for
 * @o: the option, none of a text
 * @of: what it is an option of
 * @text: result, "" for a feature
 * @size: of @text
 *
 * Context: as the value asks for.  Returns whether it differs from the default.
 */
static inline bool shingle_option_show(const struct shingle_option *o, const void *of,
				       char *text, size_t size)
{
	u32 value = shingle_option_get(o, of);

	if (shingle_is_feature(o))
		text[0] = '\0';
	else if (o->kind == SHINGLE_OPTION_WORD)
		snprintf(text, size, "%s", o->words[value]);
	else if (o->words && value > o->max)
		snprintf(text, size, "%s", o->words[value - o->max - 1]);
	else
		snprintf(text, size, "%u", value);
	return value != shingle_option_initial(o, of);
}

#endif /* SHINGLE_OPTIONS_H */
