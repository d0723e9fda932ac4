/* SPDX-License-Identifier: GPL-2.0 */
/* Answers requests of other programs, in the program that has the store open. */
#ifndef KV_LIVE_H
#define KV_LIVE_H

struct kv;
struct live;

struct live *live_start(struct kv *kv, const char *path);
void live_stop(struct live *l);
void live_leave(struct live *l);

#endif /* KV_LIVE_H */
