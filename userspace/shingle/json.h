/* SPDX-License-Identifier: GPL-2.0 */
/* JSON output with json-c, and streamed arrays that do not fit in memory. */
#ifndef SHINGLE_JSON_H
#define SHINGLE_JSON_H

#include <json-c/json.h>
#include <shim.h>

/**
 * struct json_stream - an array with members that are printed as they are made
 * @walk: passes the members to json_stream_put(); json_print() calls it
 * @ctx: passed to @walk
 * @before: text that json_print() has not printed yet
 * @indent: indentation of the array
 * @some: a member has been printed
 */
struct json_stream {
	void (*walk)(struct json_stream *s, void *ctx);
	void *ctx;
	struct printbuf *before;
	int indent;
	bool some;
};

struct json_object *json_put(struct json_object *in, const char *key, struct json_object *v);
void json_str(struct json_object *in, const char *key, const char *v);
struct json_object *json_stream(struct json_object *in, const char *key, struct json_stream *s);
void json_stream_put(struct json_stream *s, struct json_object *v);
void json_print(struct json_object *doc, FILE *f);

#define json_dict(in, key)	json_put(in, key, json_object_new_object())
#define json_list(in, key)	json_put(in, key, json_object_new_array())
#define json_u64(in, key, v)	json_put(in, key, json_object_new_uint64(v))
#define json_double(in, key, v)	json_put(in, key, json_object_new_double(v))
#define json_bool(in, key, v)	json_put(in, key, json_object_new_boolean(v))

#endif /* SHINGLE_JSON_H */
