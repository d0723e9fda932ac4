/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Output files that the user names.
 *
 * A regular file is replaced as a whole at the end: it has either its old or its new content,
 * its mode and its owner stay, and a link keeps pointing to it.  Anything else that can be
 * written to, such as a pipe, a terminal or /dev/null, is opened and written to.  A block
 * device is refused.
 */
#ifndef OUTFILE_H
#define OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

/**
 * struct outfile - a file that is being written
 * @stream: where to write
 * @target: the regular file that will be replaced, or NULL
 * @part: its new content until then, or NULL
 */
struct outfile {
	FILE *stream;
	char *target;
	char *part;
};

int outfile_begin(struct outfile *o, const char *name);
int outfile_end(struct outfile *o, bool keep);
const char *outfile_reason(int err);

#endif
