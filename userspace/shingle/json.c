// SPDX-License-Identifier: GPL-2.0
/*
 * JSON output with json-c, one line for each member, and streamed arrays that do not fit in
 * memory.
 */
#include <json-c/printbuf.h>

#include "json.h"
#include "tool.h"

/* Destination of json_print(). */
static FILE *out;

/**
 * json_put() - add a member to an object or an array
 * @in: the object or array, or NULL if @v is the document
 * @key: key in an object; NULL to append to an array
 * @v: the value; NULL after a failed allocation, which ends the program
 *
 * Return: @v.
 */
struct json_object *json_put(struct json_object *in, const char *key, struct json_object *v)
{
	if (!v || (in && (key ? json_object_object_add(in, key, v) : json_object_array_add(in, v))))
		exit(fail("out of memory"));
	return v;
}

/* Add an untrusted string; spelt() makes it safe. */
void json_str(struct json_object *in, const char *key, const char *v)
{
	struct shown_text t;

	json_put(in, key, json_object_new_string(spelt(v, &t)));
}

static void print(struct json_object *v, int flags)
{
	const char *text = json_object_to_json_string_ext(v, flags | JSON_C_TO_STRING_SPACED |
							  JSON_C_TO_STRING_NOSLASHESCAPE);

	if (!text)
		exit(fail("out of memory"));
	fputs(text, out);
	json_object_put(v);
}

static int print_stream(struct json_object *array, struct printbuf *text, int level, int flags)
{
	struct json_stream *s = json_object_get_userdata(array);

	s->before = text;
	s->indent = 2 * level;
	sprintbuf(text, "[");
	s->walk(s, s->ctx);
	return sprintbuf(text, s->some ? "\n%*s]" : "]", s->indent, "");
}

/*
 * Like json_list(), but @s->walk supplies the members when json_print() prints them; @s must
 * exist until then.
 */
struct json_object *json_stream(struct json_object *in, const char *key, struct json_stream *s)
{
	struct json_object *array = json_list(in, key);

	json_object_set_serializer(array, print_stream, s, NULL);
	return array;
}

/* Print the next member and free it. */
void json_stream_put(struct json_stream *s, struct json_object *v)
{
	fputs(s->before->buf, out);
	printbuf_reset(s->before);
	fprintf(out, "%s\n%*s", s->some ? "," : "", s->indent + 2, "");
	print(v, 0);
	s->some = true;
}

/* Print @doc and free it. */
void json_print(struct json_object *doc, FILE *f)
{
	out = f;
	json_c_set_serialization_double_format("%.4f", JSON_C_OPTION_GLOBAL);
	print(doc, JSON_C_TO_STRING_PRETTY);
	fputc('\n', f);
}
