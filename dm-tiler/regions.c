// SPDX-License-Identifier: GPL-2.0
/* Of tests: they need regions only, and no core; those of the module are its own. */
#include "tiler-clean.c"
#include "tiler-map.c"
#include "tiler-region.c"
#include "tiler-write.c"
