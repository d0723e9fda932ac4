// SPDX-License-Identifier: GPL-2.0
/* The medium shares its geometry with the layers above as source code, not as a module. */
#include "../core/lib/geometry/geometry.c"
