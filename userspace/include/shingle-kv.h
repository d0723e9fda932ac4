/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A key-value store that knows its disk: a log-structured merge tree on a raw block
 * device or a file, in bands that are written once, from their start, in order.
 *
 *	struct kv *kv;
 *
 *	err = kv_format("/dev/mapper/disk", NULL);	destroys what is there
 *	err = kv_open(&kv, "/dev/mapper/disk", NULL);
 *	err = kv_put(kv, "key", 3, "value", 5, KV_SYNC);
 *	err = kv_get(kv, NULL, "key", 3, &value, &bytes);
 *	kv_close(kv);
 *
 * Link as pkg-config --libs shingle-kv says: to the shared library, or, with --static, to the
 * archive and what that needs.
 *
 * Keys are strings of bytes, in the order of memcmp(), a prefix before what it is the
 * prefix of.  Sizes and offsets are in bytes.
 *
 * Errors are negative errnos; what went wrong in words, kv_error() says.  These mean
 * the same from every function:
 *
 *	-EINVAL		an argument is out of its range
 *	-ENOMEM		no memory: nothing has changed, and the call may be repeated
 *	-EUCLEAN	what was read is damaged; kv_error() names the band
 *	-EIO, ...	the device failed to read; other keys may still be read
 *	-EROFS		a write, or a flush, has failed before, or the store was opened to
 *			be read only: nothing is written any more until it is opened anew
 *	-EOVERFLOW	the numbers of writes, or of what holds them, are used up, which no
 *			store of ours comes to: it can be read only
 *	-ENOSPC		no room, and nothing left that compaction could free
 *
 * Threads: any function may be called from any thread at the same time on one store,
 * except kv_close(), which must be the last.  A batch and an iterator belong to one
 * thread at a time.
 *
 * Structs that a caller fills in begin with their size, which the caller sets to sizeof: so a
 * program keeps working with a later library, whose structs have more fields at their end.  A
 * field that an older library does not know must be 0: else it answers -E2BIG.
 *
 * See Documentation/kv.rst.
 */
#ifndef SHINGLE_KV_H
#define SHINGLE_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KV_KEY_MAX	1024U		/* bytes of the longest key; the shortest has 1 */
#define KV_BAND_MIN	(64U << 10)	/* of the smallest band */
#define KV_BAND_MAX	(1U << 30)	/* of the largest */
#define KV_BAND_USUAL	(80U << 20)	/* where nobody says another */
#define KV_BAND_BUFFERED (64U << 20)	/* and of KV_BUFFERED */
#define KV_LEVELS	7		/* of which KV_SOC uses two, KV_BUFFERED four */

struct kv;
struct kv_batch;
struct kv_iter;
struct kv_snapshot;

/**
 * enum kv_organisation - how bands are arranged and compacted; chosen by kv_format()
 * @KV_SOC: two levels; bands of level 1 may overlap, and are merged when that pays
 * @KV_LOC: as LevelDB: levels of growing size, which but for level 0 do not overlap
 * @KV_BUFFERED: three levels of 10, 10 and 100 bands before the last one; a band of level 0
 *	is the log as it was written, with an index behind it
 */
enum kv_organisation {
	KV_SOC,
	KV_LOC,
	KV_BUFFERED,
};

/**
 * struct kv_format_options - the shape of a new store; a 0 stands for the default
 * @size: sizeof(struct kv_format_options)
 * @bytes: of the device to use (all of it)
 * @band_bytes: KV_BAND_MIN to KV_BAND_MAX, a multiple of 4096 (KV_BAND_USUAL, or
 *	KV_BAND_BUFFERED)
 * @organisation: see there (KV_SOC)
 */
struct kv_format_options {
	size_t size;
	uint64_t bytes;
	uint32_t band_bytes;
	enum kv_organisation organisation;
};

/* Of struct kv_options and of writes. */
enum {
	KV_READ_ONLY = 1 << 0,	/* of kv_open(): nothing is written, not even recovery */
	KV_NO_THREAD = 1 << 1,	/* of kv_open(): writes, and it, compact themselves if due */
	KV_NO_LOG = 1 << 2,	/* of kv_open(): not a log; what no kv_flush() followed is lost */
	KV_STREAM = 1 << 3,	/* of kv_open(): bands one after another, each to its end */
	KV_NO_LIVE = 1 << 4,	/* of kv_open(): other programs are not answered */
	KV_SYNC = 1 << 0,	/* of a write: return when it survives a power cut */
};

/**
 * struct kv_options - how to use a store; a 0 stands for the default
 * @size: sizeof(struct kv_options)
 * @flags: KV_READ_ONLY, KV_NO_THREAD, KV_NO_LOG, KV_STREAM, KV_NO_LIVE.  KV_STREAM is for
 *	layers that
 *	would have to clean what they cannot see coming: a band of the log is filled up
 *	with zeroes before a table is begun, as a table is behind its end, and writes
 *	wait for merges, which no thread does.  Documentation/kv.rst says what it costs
 * @log_buffer_bytes: what is collected before it is written to the log without being
 *	asked for: 4096 to a fourth of a band (1 MiB, or a fourth of a band)
 * @cache_bytes: of blocks, indexes and Bloom filters kept (64 MiB)
 * @around_bytes: so much is read at once around a block that is not in the cache, as long
 *	as the cache has room that nothing else needs: up to 1 MiB in steps of 4096, which
 *	stands for what was asked for and no more (128 KiB)
 * @memtable_bytes: memory of the writes that are collected before they become a band; at
 *	most, and by default, as much as a band has.  Twice that is used while one is written
 * @l0_trigger: bands of level 0 that start a compaction, 1 to 1000 (4; 10 of KV_BUFFERED)
 * @l0_slowdown: bands of level 0 that slow writes down, up to 1000 (8; of KV_BUFFERED none
 *	do)
 * @slowdown_us: by how much, each write, up to 1000000 (1000)
 * @lead_bytes: of KV_STREAM: so much is written in front of a band that does not follow
 *	the one before it: what the disk must see of a stream to believe it, up to half a
 *	band (64 KiB, or half a band)
 * @idle_ms: of KV_BUFFERED: since so long no merge was due: buffer levels that are half
 *	full are merged, too, and what was offloaded, up to 3600000 (10000)
 * @offload: path of the store's offload device, as kv_offload() has made it; NULL for none.
 *	Writes go there while a merge is under way, and only then, band by band
 */
struct kv_options {
	size_t size;
	uint32_t flags;
	uint32_t log_buffer_bytes;
	uint64_t cache_bytes;
	uint32_t around_bytes;
	uint32_t memtable_bytes;
	uint32_t l0_trigger;
	uint32_t l0_slowdown;
	uint32_t slowdown_us;
	uint32_t lead_bytes;
	uint32_t idle_ms;
	const char *offload;
};

/**
 * kv_error() - what went wrong
 *
 * Returns the sentence of this thread's last call that failed, without a full stop.
 * It is good until the thread's next call that fails, and never NULL.
 */
const char *kv_error(void);

/**
 * kv_format() - make an empty store
 * @path: a block device, or a file that exists and has its size; what it holds is lost
 * @opt: or NULL for the defaults
 *
 * It does not ask what is there; the command kv does.  A device in use is refused.
 *
 * Returns 0; -EBUSY; -EINVAL if the device is too small for 16 bands, among others.
 */
int kv_format(const char *path, const struct kv_format_options *opt);

/**
 * kv_open() - use a store
 * @kv: result
 * @path: as for kv_format()
 * @opt: or NULL for the defaults
 *
 * What the logs hold is read back into memory, and unless KV_READ_ONLY is given,
 * written as a band of level 0.  A device is used by one store at a time, but for those
 * that only read: -EBUSY, after a second in which it might have been let go.
 *
 * Returns 0; -EMEDIUMTYPE if this is no store; -EPROTONOSUPPORT if it is one of another
 * version; -EUCLEAN if a part is damaged without which none is readable, or if the log
 * has lost what was synced: then KV_READ_ONLY still opens it, with what is left; -EIO or
 * another error of a read if a part cannot be read now: nothing has changed, and opening it
 * again may succeed; KV_READ_ONLY opens it where that part is in a log; -ENXIO if
 * writes are on an offload device that is not the one that was named, or none was.
 */
int kv_open(struct kv **kv, const char *path, const struct kv_options *opt);

/**
 * kv_lost() - what is missing of the log that was synced
 * @kv: the store
 *
 * Only one that was opened with KV_READ_ONLY may have lost something.  Its keys have the
 * values that they had before that, and this alone says so, but for kv_check().
 *
 * Returns a sentence, good until kv_close(); or NULL if nothing is known to be missing.
 */
const char *kv_lost(const struct kv *kv);

/**
 * kv_lost_error() - is it damaged, or could it not be read?
 * @kv: the store
 *
 * Returns 0 where kv_lost() returns NULL; -EUCLEAN if the log is damaged; or the error of the
 * read that has failed, and may succeed when the store is opened again.
 */
int kv_lost_error(const struct kv *kv);

/* Of kv_repair(). */
enum {
	KV_REPAIR_UNREADABLE = 1 << 0,	/* give up what cannot be read, as what is damaged */
};

/**
 * kv_repair() - take what is whole of a log that has lost something that was synced
 * @path: of a store that kv_open() refuses for that; it is not in use
 * @opt: or NULL; of it only @offload and @cache_bytes count
 * @flags: KV_REPAIR_UNREADABLE or 0
 * @report: called for each piece of a log that is given up, with a sentence that names it
 * @ctx: for @report
 *
 * All writes of chunks that are whole become bands of level 0, in their order, also those
 * behind a chunk that is given up: a key that had a value there has the one of before.  A power
 * cut leaves a store of which some is repaired, and the call may be repeated.  A store whose
 * log is whole, or ends as a power cut leaves it, is opened as kv_open() does it, and nothing
 * is given up.  Tables are left as they are: kv_check() finds what is damaged of them.
 *
 * Returns 0; -EIO or another error of a read, without KV_REPAIR_UNREADABLE: what cannot be read
 * is not given up; or another -errno, as kv_open().
 */
int kv_repair(const char *path, const struct kv_options *opt, uint32_t flags,
	      void (*report)(void *ctx, const char *sentence), void *ctx);

/**
 * kv_offload() - make a device the offload device of a store
 * @path: the store, of KV_BUFFERED; it is not in use, and has nothing on another one
 * @offload: a block device, or a file that exists and has its size; what it holds is lost
 * @bytes: of it to use; 0 for all
 *
 * It does not ask what is there; the command kv does.  The store is not changed: it knows
 * the device from the first write there on, and until nothing is left on it.
 *
 * Returns 0; -EBUSY; -ENXIO if the store has writes on its offload device; -EINVAL if the
 * device is too small for two bands, or the store has no unsorted level; or another -errno.
 */
int kv_offload(const char *path, const char *offload, uint64_t bytes);

/**
 * kv_close() - be done with a store
 * @kv: or NULL; its iterators and snapshots must be closed already
 *
 * What was written and not synced is synced.
 *
 * Returns 0 or why that failed; the store is closed in both cases.
 */
int kv_close(struct kv *kv);

/**
 * kv_put() - give a key a value
 * @kv: the store
 * @key: of 1 to KV_KEY_MAX bytes
 * @key_bytes: of it
 * @value: its new value
 * @value_bytes: of it, from 0; an eighth of a band at most
 * @flags: KV_SYNC or 0
 *
 * May wait for room.  After an error from KV_SYNC other than those that say nothing has
 * changed, the value may or may not be there when the store is opened again.
 *
 * Returns 0 or -errno.
 */
int kv_put(struct kv *kv, const void *key, size_t key_bytes, const void *value,
	   size_t value_bytes, uint32_t flags);

/**
 * kv_delete() - a key has no value any more
 * @kv: the store
 * @key: as for kv_put(); it need not exist
 * @key_bytes: of it
 * @flags: KV_SYNC or 0
 *
 * Returns 0 or -errno, as kv_put().
 */
int kv_delete(struct kv *kv, const void *key, size_t key_bytes, uint32_t flags);

/**
 * kv_batch_new() - begin to collect writes that happen together or not at all
 *
 * Returns an empty batch, or NULL if there is no memory.
 */
struct kv_batch *kv_batch_new(void);

/**
 * kv_batch_put() - add a kv_put() to a batch
 * @batch: the batch
 * @key: copied, as @value
 * @key_bytes: as for kv_put()
 * @value: see there
 * @value_bytes: see there
 *
 * Returns 0, -EINVAL or -ENOMEM; then the batch is as before.
 */
int kv_batch_put(struct kv_batch *batch, const void *key, size_t key_bytes, const void *value,
		 size_t value_bytes);

/**
 * kv_batch_delete() - add a kv_delete() to a batch
 * @batch: the batch
 * @key: copied
 * @key_bytes: as for kv_put()
 *
 * Returns 0, -EINVAL or -ENOMEM; then the batch is as before.
 */
int kv_batch_delete(struct kv_batch *batch, const void *key, size_t key_bytes);

/**
 * kv_batch_clear() - forget what was collected
 * @batch: the batch
 */
void kv_batch_clear(struct kv_batch *batch);

/**
 * kv_batch_free() - be done with a batch
 * @batch: or NULL
 */
void kv_batch_free(struct kv_batch *batch);

/**
 * kv_write() - do all of a batch, in its order
 * @kv: the store
 * @batch: what to do, a fourth of a band at most with 14 bytes for each write; stays as
 *	it is
 * @flags: KV_SYNC or 0
 *
 * Readers see all of it or nothing, and so does recovery after a power cut.
 *
 * Returns 0 or -errno, as kv_put(); -E2BIG if the batch is too large.
 */
int kv_write(struct kv *kv, const struct kv_batch *batch, uint32_t flags);

/**
 * kv_delete_range() - all keys of a range have no value any more
 * @kv: the store
 * @from: the first of the range; of 0 bytes: the first of all
 * @from_bytes: of it
 * @to: the first key behind the range; of 0 bytes: there is no end
 * @to_bytes: of it
 * @flags: KV_SYNC or 0
 *
 * It deletes the keys that had a value when it was called, in their order, as batches of a
 * fourth of a band: a deletion of each, of 14 bytes and the key.  What is one batch happens
 * at once.  After an error, or a power cut, the keys up to some one are deleted, and the call
 * may be repeated.
 *
 * Returns 0 or -errno, as kv_put().
 */
int kv_delete_range(struct kv *kv, const void *from, size_t from_bytes, const void *to,
		    size_t to_bytes, uint32_t flags);

/**
 * kv_sync() - all writes so far survive a power cut when this returns
 * @kv: the store
 *
 * Returns 0 or -errno.
 */
int kv_sync(struct kv *kv);

/**
 * kv_get() - look a key up
 * @kv: the store
 * @snap: as of when, or NULL for now
 * @key: as for kv_put()
 * @key_bytes: of it
 * @value: result, to be freed by free(); never NULL after success
 * @value_bytes: result
 *
 * Returns 0; -ENOENT if the key has no value; or another -errno.
 */
int kv_get(struct kv *kv, const struct kv_snapshot *snap, const void *key, size_t key_bytes,
	   void **value, size_t *value_bytes);

/**
 * kv_get_into() - look a key up, into memory of the caller's
 * @kv: the store
 * @snap: as of when, or NULL for now
 * @key: as for kv_put()
 * @key_bytes: of it
 * @value: result
 * @room: of it
 * @value_bytes: bytes of the value, also where there is no room for it; else 0
 *
 * Returns 0; -ENOENT if the key has no value; -ENOBUFS if there is too little room; or
 * another -errno.
 */
int kv_get_into(struct kv *kv, const struct kv_snapshot *snap, const void *key, size_t key_bytes,
		void *value, size_t room, size_t *value_bytes);

/**
 * kv_snapshot_new() - keep what there is now readable
 * @kv: the store
 *
 * Old values are kept as long as a snapshot needs them.
 *
 * Returns the snapshot, or NULL if there is no memory.
 */
struct kv_snapshot *kv_snapshot_new(struct kv *kv);

/**
 * kv_snapshot_free() - a snapshot is needed no more
 * @kv: the store
 * @snap: or NULL
 */
void kv_snapshot_free(struct kv *kv, struct kv_snapshot *snap);

/**
 * kv_iter_new() - begin to walk through the keys in order
 * @kv: the store
 * @snap: as of when, or NULL for now; may be freed before the iterator
 * @iter: result, which is nowhere yet: kv_iter_seek() comes next
 *
 * It sees nothing that is written later.  Bands are not used anew while it may read
 * them, so it should not live for long.
 *
 * Returns 0 or -ENOMEM.
 */
int kv_iter_new(struct kv *kv, const struct kv_snapshot *snap, struct kv_iter **iter);

/**
 * kv_iter_seek() - go to the first key that is not below a given one
 * @iter: the iterator
 * @key: of 0 to KV_KEY_MAX bytes; with none, the first key of all
 * @key_bytes: of it
 *
 * Returns 0; -ENOENT if there is none; or another -errno: then the iterator is nowhere,
 * and may seek elsewhere.
 */
int kv_iter_seek(struct kv_iter *iter, const void *key, size_t key_bytes);

/**
 * kv_iter_next() - go to the next key
 * @iter: at a key
 *
 * Returns as kv_iter_seek(); -EINVAL if it is nowhere.
 */
int kv_iter_next(struct kv_iter *iter);

/**
 * kv_iter_prev() - go to the key before
 * @iter: at a key
 *
 * Each change of direction costs a seek.
 *
 * Returns 0; -ENOENT if it was at the first one; -EINVAL if it is nowhere; or another -errno:
 * then the iterator is nowhere, and may seek elsewhere.
 */
int kv_iter_prev(struct kv_iter *iter);

/**
 * kv_iter_seek_last() - go to the last key of all
 * @iter: the iterator
 *
 * Returns as kv_iter_seek().
 */
int kv_iter_seek_last(struct kv_iter *iter);

/**
 * kv_iter_seek_for_prev() - go to the last key that is not above a given one
 * @iter: the iterator
 * @key: of 0 to KV_KEY_MAX bytes
 * @key_bytes: of it
 *
 * Returns as kv_iter_seek().
 */
int kv_iter_seek_for_prev(struct kv_iter *iter, const void *key, size_t key_bytes);

/**
 * kv_iter_key() - the key it is at
 * @iter: at a key
 * @bytes: result
 *
 * Returns the key, good until the iterator moves; NULL if it is nowhere.
 */
const void *kv_iter_key(const struct kv_iter *iter, size_t *bytes);

/**
 * kv_iter_value() - the value it is at
 * @iter: at a key
 * @bytes: result
 *
 * Returns the value, good until the iterator moves; NULL if it is nowhere.
 */
const void *kv_iter_value(const struct kv_iter *iter, size_t *bytes);

/**
 * kv_iter_free() - be done with an iterator
 * @iter: or NULL
 */
void kv_iter_free(struct kv_iter *iter);

/**
 * kv_checkpoint() - copy all that there is now to another device or file
 * @kv: the store, which others may read and write meanwhile
 * @path: a block device or a file, of which what it holds is lost; a file that does not exist,
 *	or has no bytes, gets the size; in a directory, a file with the UUID of this store and
 *	.kv behind it
 * @opt: shape of the copy; NULL: as this store's.  Bands of 0 bytes are as long as this
 *	store's, and of a device all is used
 *
 * The copy is a store of its own, with another UUID: the values that keys have when it is
 * called, and no older ones.  Until it is complete and durable it is no store: a power cut
 * leaves something that kv_open() refuses.  A file that was created goes after an error.
 *
 * Returns 0; -ENOSPC if the copy has too little room; -EUCLEAN if something is damaged or was
 * lost: then there is no copy; or another -errno.
 */
int kv_checkpoint(struct kv *kv, const char *path, const struct kv_format_options *opt);

/**
 * kv_flush() - write what is in memory as a band of level 0
 * @kv: the store
 *
 * Returns 0 or -errno.
 */
int kv_flush(struct kv *kv);

/**
 * kv_compact() - clean and order all: no band overlaps another when this returns
 * @kv: the store
 *
 * As long as nobody else writes.  Waits until it is done.
 *
 * Returns 0; -EUCLEAN if a band is damaged; -ENOSPC if there is too little room to work
 * in; or another -errno.  What was done until then stays done.
 */
int kv_compact(struct kv *kv);

/**
 * kv_compact_range() - clean and order the bands that have keys of a range
 * @kv: the store
 * @from: the first of the range; of 0 bytes: the first of all
 * @from_bytes: of it
 * @to: the first key behind the range; of 0 bytes: there is no end
 * @to_bytes: of it
 *
 * A band with keys of the range is merged with all that overlap it, as kv_compact() does it.
 * What has no key of the range is left alone, unless its room is needed.
 *
 * Returns as kv_compact().
 */
int kv_compact_range(struct kv *kv, const void *from, size_t from_bytes, const void *to,
		     size_t to_bytes);

/**
 * kv_approximate_size() - how much of the disk the keys of a range take
 * @kv: the store
 * @from: the first of the range; of 0 bytes: the first of all
 * @from_bytes: of it
 * @to: the first key behind the range; of 0 bytes: there is no end
 * @to_bytes: of it
 * @bytes: result, to within a block for each band at either end; old versions and deletions
 *	count, what is only in memory and in the log does not
 *
 * Returns 0 or -errno.
 */
int kv_approximate_size(struct kv *kv, const void *from, size_t from_bytes, const void *to,
			size_t to_bytes, uint64_t *bytes);

/**
 * kv_settle() - wait until no compaction is due
 * @kv: the store
 *
 * Returns 0, or why a compaction that is due cannot be done.
 */
int kv_settle(struct kv *kv);

/**
 * struct kv_stats - a store in figures
 * @size: sizeof(struct kv_stats); kv_stats() fills in no more
 * @bands: of the store, in all
 * @bands_free: of them ready to be written
 * @bands_log: of them logs
 * @bands_pinned: of them dead, and still readable by iterators
 * @band_bytes: of each
 * @level_bands: tables, by level
 * @level_bytes: of these, with index and all
 * @unsorted_bands: of level 0, that are in the order in which they were written
 * @unsorted_bytes: of these
 * @offload_bands: of the offload device; 0 without one
 * @offload_bands_free: of them
 * @memtable_bytes: in memory, not yet in a band
 * @puts: since the store was opened, as all that follow
 * @deletes: see there
 * @gets: see there
 * @user_bytes: keys and values of @puts and @deletes
 * @offloaded_writes: of @puts and @deletes, those that went to the offload device
 * @offloaded_bytes: of @user_bytes
 * @log_bytes: written to logs
 * @flush_bytes: written to bands of level 0; of one that is a log, what is behind it
 * @compact_read_bytes: read by compactions
 * @compact_written_bytes: written by compactions
 * @table_bytes: written to the band table
 * @pad_bytes: zeroes that only KV_STREAM has written; in no other figure
 * @read_bytes: read otherwise
 * @syncs: flushes of the device, and of the offload device
 * @flushes: memtables that became bands
 * @compactions: merges
 * @moves: bands that changed their level as they are
 * @discards: bands handed back to the device
 * @levels_told: tables of which the device was told the level: as they were begun, or moved
 * @bloom_checks: Bloom filters asked
 * @bloom_passes: of them said maybe
 * @bloom_wrong: of these the key was not in the band
 * @flush_us: microseconds in which memtables became bands
 * @compact_us: microseconds in compactions, but for what of @flush_us came between
 * @slow_us: microseconds that writes were slowed down or waited for room
 * @ring_error: errno with which the kernel has refused an io_uring for the device or the
 *	offload device: requests are made one at a time, by pread() and pwrite(); 0 with one
 */
struct kv_stats {
	uint64_t size;
	uint64_t bands, bands_free, bands_log, bands_pinned, band_bytes;
	uint64_t level_bands[KV_LEVELS], level_bytes[KV_LEVELS];
	uint64_t unsorted_bands, unsorted_bytes;
	uint64_t offload_bands, offload_bands_free;
	uint64_t memtable_bytes;
	uint64_t puts, deletes, gets, user_bytes;
	uint64_t offloaded_writes, offloaded_bytes;
	uint64_t log_bytes, flush_bytes, compact_read_bytes, compact_written_bytes;
	uint64_t table_bytes, pad_bytes, read_bytes;
	uint64_t syncs, flushes, compactions, moves, discards, levels_told;
	uint64_t bloom_checks, bloom_passes, bloom_wrong;
	uint64_t flush_us, compact_us, slow_us;
	uint64_t ring_error;
};

/**
 * kv_stats() - how is it doing?
 * @kv: the store
 * @stats: result; its @size is set by the caller
 *
 * A caller that was built with a larger struct than the library's gets zeroes behind it, and
 * one with a smaller struct gets what that has room for.
 *
 * Returns 0; -EINVAL if @size is not set.
 */
int kv_stats(struct kv *kv, struct kv_stats *stats);

/**
 * kv_live_stats() - how is a store doing that another program has open?
 * @path: of its device or file
 * @stats: result, as of kv_stats()
 *
 * A program that has a store open to write, without KV_NO_THREAD and KV_NO_LIVE, answers
 * root and programs of its own user.  While it makes a checkpoint that it was asked for, the
 * answer waits.
 *
 * Returns 0; -ENOTCONN if no program that answers has the store open; -EPERM if what answers
 * is a program of another user, who neither is root nor owns the file; or another -errno.
 */
int kv_live_stats(const char *path, struct kv_stats *stats);

/**
 * kv_live_checkpoint() - have the program that has a store open make a checkpoint
 * @path: of its device or file
 * @to: as @path of kv_checkpoint(), which that program calls, with its rights
 *
 * Returns as kv_live_stats(), or what kv_checkpoint() has returned there.
 */
int kv_live_checkpoint(const char *path, const char *to);

/**
 * struct kv_band - one band that is in use
 * @band: its number; those of the offload device come behind the last of the store
 * @offset: of its first byte on its device
 * @bytes: used of it; of a log that is being written, 0
 * @level: of a table; -1 for a log
 * @age: within a level, what is newer has more
 * @id: of the table or log; no two have the same, ever
 * @entries: of a table
 * @tombstones: of them deletions
 * @unsorted: it is a log with an index behind it
 * @offloaded: it is on the offload device
 * @min_key: the range of a table; good until the callback returns
 * @min_bytes: of it
 * @max_key: see there
 * @max_bytes: of it
 */
struct kv_band {
	uint64_t band, offset, bytes;
	int level;
	uint64_t age, id, entries, tombstones;
	bool unsorted, offloaded;
	const void *min_key, *max_key;
	size_t min_bytes, max_bytes;
};

/**
 * kv_bands() - what is in which band
 * @kv: the store
 * @fn: called for each band in use, logs first, then by level and key; it must not
 *	call the store; what is not 0 ends the walk
 * @ctx: for @fn
 *
 * Returns 0, -ENOMEM, or what @fn has returned.
 */
int kv_bands(struct kv *kv, int (*fn)(void *ctx, const struct kv_band *band), void *ctx);

/**
 * struct kv_shape - what kv_format() has decided, and kv_open() has found
 * @size: sizeof(struct kv_shape); kv_shape() fills in no more
 * @uuid: of the store
 * @organisation: see there
 * @band_bytes: see there
 * @bands: how many
 * @generation: how often the band table was committed
 */
struct kv_shape {
	size_t size;
	uint8_t uuid[16];
	enum kv_organisation organisation;
	uint32_t band_bytes;
	uint32_t bands;
	uint64_t generation;
};

/**
 * kv_shape() - which store is it?
 * @kv: the store
 * @shape: result; its @size is set by the caller, as that of struct kv_stats
 *
 * Returns 0; -EINVAL if @size is not set.
 */
int kv_shape(struct kv *kv, struct kv_shape *shape);

/**
 * kv_check() - read and verify all
 * @kv: the store
 * @report: called for each finding, with a sentence that names the band; and for a copy of
 *	the band table that an interrupted commit has left, which is no damage
 * @ctx: for @report
 *
 * Checksums of all that was written, order of keys and of versions, ranges, counts,
 * Bloom filters, and that no band is used twice.
 *
 * Returns 0 if all is well; -EUCLEAN after the last finding; the error of a read if something
 * could not be read and nothing that could be read is damaged; or another -errno.
 */
int kv_check(struct kv *kv, void (*report)(void *ctx, const char *sentence), void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* SHINGLE_KV_H */
