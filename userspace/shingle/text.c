// SPDX-License-Identifier: GPL-2.0
/* Texts that anybody may have written, for a terminal. */
#include <blkid/blkid.h>

#include "text.h"

/* The character that libblkid wrote as \\xHH and that a terminal may have, or 0. */
static u32 harmless(const char *p)
{
	unsigned int c;

	if (*p != '\\' || sscanf(p, "\\x%2x", &c) != 1)
		return 0;
	return c >= ' ' && c <= '~' && c != '\\' ? c : 0;
}

/**
 * shown() - a text that anybody may have written, for a terminal
 * @text: a label, or a name, read from a device
 *
 * What is no printable character is written as \\xHH, as 'shingle probe' writes it, and
 * so is a backslash.
 */
struct shown_text shown(const char *text)
{
	struct shown_text coded, t;
	const char *p = coded.s;
	size_t at = 0;

	if (blkid_encode_string(text, coded.s, sizeof(coded.s)))
		return (struct shown_text){ "?" };
	while (*p && at + 8 < sizeof(t.s)) {
		u32 c = harmless(p);

		if (c) {
			t.s[at++] = (char)c;
			p += 4;
		} else if ((u8)p[0] == 0xc2 && (u8)p[1] < 0xa0) {
			/* To libblkid these are letters, to a terminal they are commands. */
			at += (size_t)sprintf(t.s + at, "\\xc2\\x%02x", (u8)p[1]);
			p += 2;
		} else {
			t.s[at++] = *p++;
		}
	}
	t.s[at] = '\0';
	return t;
}

/**
 * spelt() - a text that anybody may have written, for what wants UTF-8 and escapes the rest
 * @text: a label, or a name
 * @room: for the result
 *
 * Returns @text, or what shown() makes of it if something in it is no letter beyond ASCII.
 */
const char *spelt(const char *text, struct shown_text *room)
{
	const char *p;

	*room = shown(text);
	for (p = strchr(room->s, '\\'); p; p = strchr(p + 1, '\\')) {
		if (p[2] >= '8')
			return room->s;
	}
	return text;
}
