/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tables of options, of engines, of core and of platter.  All code that handles options uses these
 * tables: parsing of table lines and messages, status and IMA, the tool and the documentation.
 * The owner of a table is the struct that contains the values: an engine, struct shingle_config, or
 * struct platter_options.  Pure.
 */
#ifndef SHINGLE_OPTIONS_H
#define SHINGLE_OPTIONS_H

#include "pure.h"

enum shingle_option_kind {
	SHINGLE_OPTION_FEATURE,	/* present or not: a bool */
	SHINGLE_OPTION_NUMBER,	/* from min to max: a u32; words have the values max + 1 and up */
	SHINGLE_OPTION_WORD,	/* one of the words: its index, a u32, or a bool if there are two */
	SHINGLE_OPTION_TEXT,	/* a text, parsed by read() */
};

enum shingle_option_when {
	SHINGLE_OPTION_MESSAGE,	/* by table and by message */
	SHINGLE_OPTION_TABLE,	/* by table only */
	SHINGLE_OPTION_FORMAT,	/* when a device is formatted */
};

/**
 * struct shingle_option - one option
 * @name: name in the table line
 * @help: description in one line
 * @range: error sentence for an invalid value
 * @busy: with SHINGLE_OPTION_TABLE, error sentence for a message
 * @words: ends with NULL; or NULL
 * @kind: type of its values
 * @when: when it may be set
 * @bytes: size of the value: 1, a bool, or 4
 * @offset: offset of the value in the struct of its owner
 * @min: smallest number
 * @max: largest number
 * @initial: the default
 * @from: a word for the source of the default, if it is not this table; or NULL
 * @find_initial: returns the default if it depends on others, or NULL
 * @set: called before the value is changed, for further actions: returns 0, or -errno with a
 *	sentence in @why, which is @range before; or NULL
 * @read: parses a text; returns as @set
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

/* For an option's initializer: the place of the value. */
#define SHINGLE_OPTION_AT(type, member)		\
	.bytes = sizeof(((type *)0)->member), .offset = offsetof(type, member)

/* Initializer of a parameter of a format. */
#define SHINGLE_OPTION_PARAM(word, type, member, most)				\
	.name = word, .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_FORMAT,	\
	SHINGLE_OPTION_AT(type, member), .max = most

/* Initializer of a feature that gives up a guarantee, for tests. */
#define SHINGLE_OPTION_UNSAFE(word, type, member, what)				\
	.name = word, .kind = SHINGLE_OPTION_FEATURE, .when = SHINGLE_OPTION_TABLE,	\
	SHINGLE_OPTION_AT(type, member), .help = "for tests, " what

#define SHINGLE_OPTION_WORDS(...)	((const char *const[]){ __VA_ARGS__, NULL })

static inline bool shingle_is_feature(const struct shingle_option *o)
{
	return o->kind == SHINGLE_OPTION_FEATURE;
}

/**
 * shingle_option_get() - value of an option
 * @o: the option, except a text
 * @of: its owner
 *
 * Context: as the value requires.
 * Return: the value.
 */
static inline u32 shingle_option_get(const struct shingle_option *o, const void *of)
{
	const u8 *at = (const u8 *)of + o->offset;

	return o->bytes == sizeof(bool) ? *(const bool *)at : *(const u32 *)at;
}

/**
 * shingle_option_put() - change the value of an option, without further actions
 * @o: the option
 * @of: its owner
 * @value: a valid value
 *
 * Context: as the value requires.
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
 * shingle_option_initial() - default of an option
 * @o: the option
 * @of: its owner
 *
 * Context: any.
 * Return: the default.
 */
static inline u32 shingle_option_initial(const struct shingle_option *o, const void *of)
{
	return o->find_initial ? o->find_initial(of) : o->initial;
}

/**
 * shingle_options_init() - set all options to their defaults
 * @o: table, ends with a NULL name
 * @of: owner of the table
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
 * shingle_option_find() - find an option by its name
 * @o: table, ends with a NULL name
 * @name: its name
 * @feature: whether it is a feature
 *
 * Context: any.
 * Return: the option, NULL if there is none.
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
 * shingle_option_parse() - parse a value of an option
 * @o: the option
 * @text: the text; NULL for a feature
 * @value: result
 * @why: on error the reason, a sentence
 *
 * Context: any.
 * Return: 0 or -ERANGE.
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
 * @text: the text; NULL for a feature
 * @in_use: the value comes from a message, not from a table
 * @value: result
 * @why: on error the reason, a sentence
 *
 * Context: any.
 * Return: 0, -ERANGE, or -EBUSY.
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
 * @of: owner of the table
 * @in_use: as shingle_option_check()
 * @name: name of the option
 * @text: its value, NULL for a feature
 * @why: on error the reason, a sentence
 *
 * Context: as the values require.
 * Return: 0; -ENOENT without a sentence if there is no option of that name; -ERANGE; -EBUSY; or an
 * error of its set() or read().
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
 * shingle_option_show() - format the value of an option
 * @o: the option, except a text
 * @of: its owner
 * @text: result, "" for a feature
 * @size: size of @text
 *
 * Context: as the value requires.
 * Return: whether it differs from the default.
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
