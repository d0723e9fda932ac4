// SPDX-License-Identifier: GPL-2.0
/*
 * For tests: a copy of the geometry of the medium, so that they do not depend on other
 * modules.
 */
#include "../core/lib/geometry/geometry.c"
