// SPDX-License-Identifier: GPL-2.0
/* A file of its own, so that another version compiles nothing else again. */
#include "tool.h"

const char tool_release[] = SHINGLE_RELEASE;
