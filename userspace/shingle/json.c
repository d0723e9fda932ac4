// SPDX-License-Identifier: GPL-2.0
/* A small JSON writer. */
#include "json.h"

static void quoted(struct json *j, const char *s)
{
	fputc('"', j->f);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			fprintf(j->f, "\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			fprintf(j->f, "\\u%04x", c);
		else
			fputc(c, j->f);
	}
	fputc('"', j->f);
}

static void member(struct json *j, const char *key)
{
	if (j->some[j->depth])
		fputc(',', j->f);
	if (j->depth)
		fprintf(j->f, "\n%*s", 2 * (int)j->depth, "");
	j->some[j->depth] = true;
	if (key) {
		quoted(j, key);
		fputs(": ", j->f);
	}
}

void json_begin(struct json *j, FILE *f)
{
	memset(j, 0, sizeof(*j));
	j->f = f;
}

void json_end(struct json *j)
{
	fputc('\n', j->f);
}

void json_open(struct json *j, const char *key, char bracket)
{
	member(j, key);
	fputc(bracket, j->f);
	if (WARN_ON_ONCE(j->depth + 1 == JSON_DEPTH))
		return;
	j->some[++j->depth] = false;
}

void json_close(struct json *j, char bracket)
{
	bool some = j->some[j->depth--];

	if (some)
		fprintf(j->f, "\n%*s", 2 * (int)j->depth, "");
	fputc(bracket, j->f);
}

void json_u64(struct json *j, const char *key, u64 v)
{
	member(j, key);
	fprintf(j->f, "%llu", v);
}

void json_double(struct json *j, const char *key, double v)
{
	member(j, key);
	fprintf(j->f, "%.4f", v);
}

void json_bool(struct json *j, const char *key, bool v)
{
	member(j, key);
	fputs(v ? "true" : "false", j->f);
}

void json_null(struct json *j, const char *key)
{
	member(j, key);
	fputs("null", j->f);
}

void json_str(struct json *j, const char *key, const char *v)
{
	member(j, key);
	quoted(j, v);
}
