/* SPDX-License-Identifier: GPL-2.0 */
/* Limits of the store that tests change; included before each source file. */
#ifndef KV_CHECK_LIMITS_H
#define KV_CHECK_LIMITS_H

/*
 * Small enough that merges in small stores end at a key. test_picks() sets the limit of the store.
 */
extern unsigned int most_inputs;
#define MOST_INPUTS	most_inputs

void count_comparison(void);
#define COUNT_COMPARISON() count_comparison()

#endif /* KV_CHECK_LIMITS_H */
