// SPDX-License-Identifier: GPL-2.0
/* Of tests: they need the algorithms only, and no core; those of the module are its own. */
#include "dual/cache.c"
#include "dual/clean.c"
#include "dual/predict.c"
#include "dual/rounds.c"
#include "dual/select.c"
