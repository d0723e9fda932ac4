/* SPDX-License-Identifier: GPL-2.0 */
/* A disk in memory, with a volatile cache, that can fail and lose its power. */
#ifndef KV_CHECK_SIM_H
#define KV_CHECK_SIM_H

#include "store.h"

enum sim_what { SIM_READ, SIM_WRITE, SIM_FLUSH, SIM_DISCARD };

/**
 * struct event - what was asked of the disk
 * @what: see there
 * @spare: of the offload device
 * @durable: a flush of its device came behind it
 * @offset: of it
 * @bytes: of it
 * @data: of a write
 * @batches: that had been written when it was asked
 * @synced: of these had been synced
 */
struct event {
	enum sim_what what;
	bool spare, durable;
	u64 offset, bytes;
	u8 *data;
	u32 batches, synced;
};

/**
 * struct sim - the disk, and perhaps an offload device, in one order of requests
 * @disk: what the store sees
 * @spare: what it sees of the offload device; of no bytes: there is none
 * @data: content of both, as reads see it
 * @borrowed: @data stays when the disk is closed
 * @recording: to @event
 * @event: what was asked, but reads
 * @events: how many
 * @room: for so many
 * @batches: for events
 * @synced: for events
 * @ops: were asked for, with reads
 * @fail: this one fails, counted from 1; 0 for none
 * @unreadable: all reads fail
 * @bad_luck: one in so many reads fails; 0 for none
 * @luck: random numbers of it
 * @hole: reads of these bytes fail
 * @hole_bytes: how many
 * @failed: which kind it was, + 1
 * @bands_offset: bands begin there
 * @band_bytes: and have so many bytes; each is written from its start, in order
 * @pointer: how much of each is written
 * @told: the level that was told of each since it was discarded; 0: none was
 * @stream: each to its end, before another one is begun
 * @slow: who writes lets others run meanwhile
 * @flushing: is called in each flush of the disk, while other requests go on; or NULL
 * @watch: is told what was done, but of reads and flushes; or NULL
 */
struct sim {
	struct kv_disk disk, spare;
	u8 *data;
	bool recording;
	struct event *event;
	u32 events, room;
	u32 batches, synced;
	u64 ops, fail, hole, hole_bytes;
	bool unreadable;
	u32 bad_luck;
	u64 luck;
	int failed;
	u64 bands_offset;
	u32 band_bytes;
	u32 *pointer, *told;
	bool stream, slow;
	void (*flushing)(void);
	void (*watch)(enum sim_what what, u64 offset, u64 bytes, const void *data);
};

struct sim *sim_new(u64 bytes);
void sim_free(struct sim *s);
void sim_bands(struct sim *s);
struct kv_disk *sim_disk(struct sim *s);
int sim_open(struct kv **kv, struct sim *s, const struct kv_options *opt);
void sim_add_spare(struct sim *s, u64 bytes);
u64 sim_bytes(const struct sim *s);
void sim_forget(struct sim *s);

void die(const char *fmt, ...) __printf(1, 2) __attribute__((noreturn));
u32 rnd(u32 below);
extern u64 rng;

#endif /* KV_CHECK_SIM_H */
