// SPDX-License-Identifier: GPL-2.0
/* Safe display of untrusted texts on a terminal. */
#include <blkid/blkid.h>

#include "tool.h"

/* The printable character that libblkid encoded as \\xHH at @p, or 0. */
static u32 harmless(const char *p)
{
	unsigned int c;

	if (*p != '\\' || sscanf(p, "\\x%2x", &c) != 1)
		return 0;
	return c >= ' ' && c <= '~' && c != '\\' ? c : 0;
}

/**
 * shown() - make an untrusted text safe for a terminal
 * @text: a label or a name, read from a device
 *
 * Return: the text with every unprintable character and every backslash written as \\xHH, as
 * in the output of 'shingle probe'.
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
			/* libblkid takes C1 controls for letters; a terminal would execute them. */
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
 * spelt() - make an untrusted text safe for a writer of UTF-8 that escapes control characters
 * @text: a label or a name
 * @room: buffer for the result
 *
 * Return: @text, or the text that shown() makes of it if it contains invalid non-ASCII bytes.
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
