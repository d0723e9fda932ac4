/* SPDX-License-Identifier: GPL-2.0 */
/* Safe display of untrusted texts on a terminal. */
#ifndef SHINGLE_TEXT_H
#define SHINGLE_TEXT_H

#include <shim.h>

/* A text made safe for a terminal, returned by value, as size_text() does. */
struct shown_text {
	char s[4 * PATH_MAX];
};
struct shown_text shown(const char *text);
const char *spelt(const char *text, struct shown_text *room);

#endif /* SHINGLE_TEXT_H */
