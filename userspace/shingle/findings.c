// SPDX-License-Identifier: GPL-2.0
/* A list of findings. */
#include <stdarg.h>

#include "check.h"

/* A longer list would not be read. */
#define MAX_FINDINGS	1000

/**
 * finding_add() - add a finding
 * @f: the list
 * @severity: note or error
 * @block: position, U64_MAX for none
 * @fmt: a sentence without its full stop
 */
void finding_add(struct findings *f, enum severity severity, u64 block, const char *fmt, ...)
{
	struct finding *one;
	va_list ap;

	f->nr_errors += severity == FINDING_ERROR;
	if (f->nr == f->room && f->room < MAX_FINDINGS) {
		u32 room = f->room ? 2 * f->room : 16;

		one = realloc(f->f, room * sizeof(*one));
		if (one) {
			f->f = one;
			f->room = room;
		}
	}
	if (f->nr == f->room) {
		f->dropped++;
		return;
	}
	one = &f->f[f->nr++];
	one->severity = severity;
	one->block = block;
	va_start(ap, fmt);
	vsnprintf(one->text, sizeof(one->text), fmt, ap);
	va_end(ap);
}

static const char *severity_name(enum severity s)
{
	return s == FINDING_ERROR ? "error" : "note";
}

void findings_print(const struct findings *f)
{
	u32 i;

	for (i = 0; i < f->nr; i++) {
		if (f->f[i].block != U64_MAX)
			say("%s: block %llu: %s", severity_name(f->f[i].severity), f->f[i].block,
			    f->f[i].text);
		else
			say("%s: %s", severity_name(f->f[i].severity), f->f[i].text);
	}
	if (f->dropped)
		say("and %u more", f->dropped);
}

void findings_json(const struct findings *f, struct json_object *j)
{
	struct json_object *list = json_list(j, "findings"), *each;
	u32 i;

	for (i = 0; i < f->nr; i++) {
		each = json_dict(list, NULL);
		json_str(each, "severity", severity_name(f->f[i].severity));
		if (f->f[i].block != U64_MAX)
			json_u64(each, "block", f->f[i].block);
		json_str(each, "text", f->f[i].text);
	}
	json_u64(j, "findings_left_out", f->dropped);
}
