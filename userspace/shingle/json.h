/* SPDX-License-Identifier: GPL-2.0 */
/* A small JSON writer. */
#ifndef SHINGLE_JSON_H
#define SHINGLE_JSON_H

#include <shim.h>

#define JSON_DEPTH	16

/**
 * struct json - a document being written
 * @f: where to
 * @depth: open objects and arrays
 * @some: per depth, whether it has a member already
 *
 * @key is NULL for members of arrays and for the document itself.
 */
struct json {
	FILE *f;
	u32 depth;
	bool some[JSON_DEPTH];
};

void json_begin(struct json *j, FILE *f);
void json_end(struct json *j);
void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);
void json_u64(struct json *j, const char *key, u64 v);
void json_double(struct json *j, const char *key, double v);
void json_bool(struct json *j, const char *key, bool v);
void json_null(struct json *j, const char *key);
void json_str(struct json *j, const char *key, const char *v);

#endif /* SHINGLE_JSON_H */
