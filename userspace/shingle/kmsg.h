/* SPDX-License-Identifier: GPL-2.0 */
/* Messages in the kernel's log about a mapped device. */
#ifndef SHINGLE_KMSG_H
#define SHINGLE_KMSG_H

#include "tool.h"

#define KMSG_SENTENCE	512

int kmsg_mark(void);
bool kmsg_cause(int mark, u32 major, u32 minor, const char *target, char *why);
void kmsg_end(int mark);

#endif /* SHINGLE_KMSG_H */
