// SPDX-License-Identifier: GPL-2.0
/* For tests: a private copy of the region code, without core. */
#include "tiler-clean.c"
#include "tiler-map.c"
#include "tiler-region.c"
#include "tiler-write.c"
