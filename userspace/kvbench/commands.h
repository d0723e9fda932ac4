/* SPDX-License-Identifier: GPL-2.0 */
/* The commands of kvbench. */
#ifndef KVBENCH_COMMANDS_H
#define KVBENCH_COMMANDS_H

#include "tool.h"

extern const struct command cmd_load, cmd_run, cmd_arrivals;

#endif /* KVBENCH_COMMANDS_H */
