/* SPDX-License-Identifier: GPL-2.0 */
/* A simulated disk in memory, with a volatile cache, failures and power cuts. */
#ifndef KV_CHECK_SIM_H
#define KV_CHECK_SIM_H

#include "store.h"

enum sim_what { SIM_READ, SIM_WRITE, SIM_FLUSH, SIM_DISCARD };

/**
 * struct event - a recorded request to the disk
 * @what: kind of request
 * @spare: the request was for the offload device
 * @durable: its device was flushed afterwards
 * @offset: offset of the request
 * @bytes: size of the request
 * @data: data of a write
 * @batches: number of batches written before the request
 * @synced: number of batches synced before the request
 */
struct event {
	enum sim_what what;
	bool spare, durable;
	u64 offset, bytes;
	u8 *data;
	u32 batches, synced;
};

/**
 * struct sim - a disk, and optionally an offload device; requests to both have one order
 * @disk: the disk, as the store sees it
 * @spare: the offload device, as the store sees it; size 0 if there is none
 * @data: contents of both, as reads see them
 * @recording: record requests in @event
 * @event: recorded requests, without reads
 * @events: number of @event
 * @room: number of elements allocated for @event
 * @batches: value for the next events
 * @synced: value for the next events
 * @ops: number of requests, with reads
 * @fail: number of the request that fails, counted from 1; 0 for none
 * @unreadable: all reads fail
 * @bad_luck: one read in this number fails, at random; 0 for none
 * @luck: state of the random number generator for @bad_luck
 * @hole: reads of this range fail
 * @hole_bytes: size of the range
 * @failed: kind of the request that failed, plus 1
 * @bands_offset: offset of the first band
 * @band_bytes: size of a band; each band is written from its start, in order
 * @pointer: for each band, the number of bytes written
 * @level: for each band, the level that it got since it was discarded; 0: none
 * @stream: each band must be written to its end before another one is begun
 * @slow: writes sleep, so that other threads can run
 * @flushing: called in each flush of the disk, while other requests go on; or NULL
 * @watch: called after each write and discard; or NULL
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
	u32 *pointer, *level;
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
