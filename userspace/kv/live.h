/* SPDX-License-Identifier: GPL-2.0 */
/* Answers for other programs, from the one that has a store open. */
#ifndef KV_LIVE_H
#define KV_LIVE_H

struct kv;
struct live;

struct live *live_start(struct kv *kv, const char *path);
void live_stop(struct live *l);

#endif /* KV_LIVE_H */
