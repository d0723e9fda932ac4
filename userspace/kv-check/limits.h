/* SPDX-License-Identifier: GPL-2.0 */
/* Limits of the store that tests change; in front of each source. */
#ifndef KV_CHECK_LIMITS_H
#define KV_CHECK_LIMITS_H

/* So few that small stores have merges that end at a key; test_picks() has the store's own. */
extern unsigned int most_inputs;
#define MOST_INPUTS	most_inputs

void count_comparison(void);
#define COUNT_COMPARISON() count_comparison()

#endif /* KV_CHECK_LIMITS_H */
