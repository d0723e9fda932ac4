// SPDX-License-Identifier: GPL-2.0
/* For tests: a private copy of the algorithms, without core. */
#include "dual/cache.c"
#include "dual/clean.c"
#include "dual/predict.c"
#include "dual/ready.c"
#include "dual/rounds.c"
#include "dual/select.c"
