/* SPDX-License-Identifier: GPL-2.0 */
/* Texts that anybody may have written, for a terminal. */
#ifndef SHINGLE_TEXT_H
#define SHINGLE_TEXT_H

#include <shim.h>

/* What a device says of itself, as people may see it; by value, as size_text(). */
struct shown_text {
	char s[4 * PATH_MAX];
};
struct shown_text shown(const char *text);
const char *spelt(const char *text, struct shown_text *room);

#endif /* SHINGLE_TEXT_H */
