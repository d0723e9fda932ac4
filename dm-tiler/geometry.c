// SPDX-License-Identifier: GPL-2.0
/* Of tests: the medium that they write to is not asked of the layers in between. */
#include "../core/lib/geometry/geometry.c"
