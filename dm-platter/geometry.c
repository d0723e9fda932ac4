// SPDX-License-Identifier: GPL-2.0
/* The medium shares its geometry with the layers above it as source: it needs none of them. */
#include "../core/lib/geometry/geometry.c"
