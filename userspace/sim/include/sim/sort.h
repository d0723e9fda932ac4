/* SPDX-License-Identifier: GPL-2.0 */
/* Sorting.  Apart, since files that do not ask for it have a sort() of their own. */
#ifndef SIM_SORT_H
#define SIM_SORT_H

#include <stddef.h>

void sort(void *base, size_t n, size_t size, int (*cmp)(const void *a, const void *b), void *swap);

#endif /* SIM_SORT_H */
