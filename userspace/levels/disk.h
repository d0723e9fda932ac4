/* SPDX-License-Identifier: GPL-2.0 */
/* The files of the load on a block device, through ordinary I/O. */
#ifndef LEVELS_DISK_H
#define LEVELS_DISK_H

#include <liburing.h>

#include "../shingle/device.h"
#include "../shingle/dm.h"
#include "model.h"
#include "shingle-imr.h"
#include "timed.h"

#define DISK_DEPTH	32

/**
 * struct disk_options - how a device is used
 * @path: of the device, or of a file that plays one
 * @drive: instead of a device, one of platter's profiles, of which only the time is
 *	kept; or NULL
 * @flush_us: what a sync takes by itself there
 * @track_bytes: files begin on multiples of it; a multiple of 4 KiB
 * @hints: send level messages
 * @discards: discard the tracks of deleted files
 * @verify: check everything that is read
 * @contents: blocks say what they are; if not, every request moves the same memory,
 *	for a device that keeps nothing
 * @force: write over what is there
 * @reading: nothing is written
 * @reread: what goes back to tops is read from the backup region, as the paper's
 *	algorithms say; else it is kept in memory, too
 * @copy_each: one top is copied, or restored, after the other: nothing of it goes on
 *	before the request before is done; with @reread
 * @backup_slots: tracks of a backup region behind the others, where the program
 *	protects tops itself; 0 where it need not
 */
struct disk_options {
	const char *path;
	const char *drive;
	u32 flush_us;
	u32 track_bytes;
	bool hints;
	bool discards;
	bool verify;
	bool contents;
	bool force;
	bool reading;
	bool reread;
	bool copy_each;
	u32 backup_slots;
};

/**
 * struct disk_stats - operations sent to the device
 * @writes: requests of at most @unit_bytes
 * @reads: the same
 * @written_bytes: by them
 * @read_bytes: by them
 * @flushes: one for each file
 * @messages: level and relevel
 * @discards: one for each run of tracks
 * @discarded_bytes: by them
 * @verified_blocks: read and checked, of 4 KiB
 * @bad_blocks: of them not what was written
 * @persist_s: seconds in writes and flushes of files
 * @read_s: in reads of compactions
 * @get_s: in reads of records
 * @discard_s: in discards
 * @step_s: of @persist_s, by what the step ended with, where tops are protected.  A
 *	backup's has tracks of the file, too: those written since the sync before it,
 *	which go to the device in one batch with its reads
 */
struct disk_stats {
	u64 writes, reads, written_bytes, read_bytes, flushes, messages;
	u64 discards, discarded_bytes;
	u64 verified_blocks, bad_blocks;
	double persist_s, read_s, get_s, discard_s;
	double step_s[MODEL_NR_SYNCS];
};

/**
 * struct request - one of the device's requests
 * @offset: bytes, on the device
 * @file_at: bytes in the file under way
 * @bytes: at most @unit_bytes of the disk
 * @writing: to the device
 * @data: where from or where to; NULL for the content of the file, or for none
 */
struct request {
	u64 offset, file_at;
	u32 bytes;
	bool writing;
	u8 *data;
};

/**
 * struct extent - a file on the device
 * @id: of the file
 * @level: of it
 * @track: its tracks, in order
 * @tracks: how many
 * @bytes: of the file
 */
struct extent {
	u64 id;
	u32 level;
	const u32 *track;
	u32 tracks;
	u64 bytes;
};

/**
 * struct slot - one track of the backup region
 * @track: top that was copied
 * @data: the copy, in memory too
 */
struct slot {
	u32 track;
	u8 *data;
};

/**
 * struct disk - a device in use
 * @opt: see there
 * @timed: the drive that only keeps time, or NULL
 * @fd: open, past the page cache
 * @is_block: a block device, not a file
 * @bytes: its size
 * @mapped: device mapper's line of it, empty if it has none
 * @imr: target that receives the levels, with hints
 * @ring: of io_uring
 * @unit_bytes: size of a request
 * @buffer: DISK_DEPTH units, or one without contents
 * @registered: the ring knows @buffer, and need not look for its pages each time
 * @expected: one unit, for checks
 * @request: those of the step under way
 * @nr_requests: how many
 * @max_requests: room
 * @file: being persisted, step by step
 * @step_began: when the step under way did
 * @err: of a step
 * @tracks: data tracks; the backup region begins behind them
 * @valid_bytes: written of each track
 * @slot: see there
 * @slots_used: of them
 * @slots_open: not yet written back
 * @stats: see there
 */
struct disk {
	struct disk_options opt;
	struct timed *timed;
	int fd;
	bool is_block;
	u64 bytes;
	struct dm_line mapped;
	struct shingle_imr imr;
	struct io_uring ring;
	u32 unit_bytes;
	u8 *buffer, *expected;
	bool registered;
	struct request *request;
	u32 nr_requests, max_requests;
	const struct extent *file;
	double step_began;
	int err;
	u32 tracks;
	u32 *valid_bytes;
	struct slot *slot;
	u32 slots_used, slots_open;
	struct disk_stats stats;
};

double disk_now(const struct disk *d);
int disk_open(struct disk *d, const struct disk_options *opt);
void disk_close(struct disk *d);
int disk_protect(struct disk *d, u32 tracks);
int disk_write(struct disk *d, const struct extent *e);
int disk_write_by(struct disk *d, const struct extent *e, struct model *m);
int disk_read(struct disk *d, const struct extent *e, u64 at, u64 bytes);
int disk_get(struct disk *d, const struct extent *e, u64 at);
int disk_relevel(struct disk *d, const struct extent *e);
int disk_drop(struct disk *d, const struct extent *e);

#endif /* LEVELS_DISK_H */
