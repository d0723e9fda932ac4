/* SPDX-License-Identifier: GPL-2.0 */
/* All of the simulated kernel; each <linux/...> header of a module is this one. */
#ifndef SIM_KERNEL_H
#define SIM_KERNEL_H

#include "base.h"
#include "block.h"
#include "dm.h"
#include "lock.h"
#include "trace.h"
#include "tree.h"
#include "work.h"

#endif /* SIM_KERNEL_H */
