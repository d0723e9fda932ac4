/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A key-value store for shingled disks: a log-structured merge tree on a raw block device or
 * a file.  It writes each band once, in order, from the start of the band.
 *
 *   struct kv *kv;
 *
 *   err = kv_format("/dev/mapper/disk", NULL);	destroys the old contents
 *   err = kv_open(&kv, "/dev/mapper/disk", NULL);
 *   err = kv_put(kv, "key", 3, "value", 5, KV_SYNC);
 *   err = kv_get(kv, NULL, "key", 3, &value, &bytes);
 *   kv_close(kv);
 *
 * Link with the output of pkg-config --libs shingle-kv: the shared library or, with --static,
 * the archive and its dependencies.
 *
 * Keys are strings of bytes in the order of memcmp(); a prefix sorts before a longer key.
 * Sizes and offsets are in bytes.
 *
 * Errors are negative errnos; kv_error() returns the message.  These have the same meaning in
 * every function:
 *
 *   -EINVAL	an argument is out of range
 *   -ENOMEM	no memory; nothing has changed, and the call may be repeated
 *   -EUCLEAN	data that were read are damaged; kv_error() names the band
 *   -EIO, ...	the device failed to read; other keys may still be readable
 *   -EROFS	a write or a flush has failed before, or the store was opened
 *		read-only; nothing can be written until it is opened again
 *   -EPERM	the store was opened for writing by a process that has forked since, and
 *		this is its child
 *   -EOVERFLOW	the numbers of writes, bands or tables are used up, which does not
 *		happen in practice; the store can only be read
 *   -ENOSPC	no room, and no compaction can free any
 *
 * Threads: any function may be called from any thread at the same time on one store, except
 * kv_close(), which must be the last call.  A batch and an iterator belong to one thread at a
 * time.
 *
 * A child of fork() cannot use a store that its parent has open for writing: each call fails
 * with -EPERM.  In the child kv_close() only closes the file descriptors, and the memory of the
 * store stays allocated.  The child should call it, as a block device is in use until then.
 *
 * Structs that a caller fills in begin with their size, which the caller sets to sizeof.  A
 * program thus keeps working with a later library, which may append fields to its structs.  A
 * field that an older library does not know must be 0, otherwise the library returns -E2BIG.
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

#define KV_KEY_MAX	1024U		/* maximum length of a key in bytes; the minimum is 1 */
#define KV_BAND_MIN	(64U << 10)	/* minimum length of a band */
#define KV_BAND_MAX	(1U << 30)	/* maximum length of a band */
#define KV_BAND_USUAL	(80U << 20)	/* default length of a band */
#define KV_BAND_BUFFERED (64U << 20)	/* default with KV_BUFFERED */
#define KV_LEVELS	7		/* KV_SOC uses two of them, KV_BUFFERED four */

struct kv;
struct kv_batch;
struct kv_iter;
struct kv_snapshot;

/**
 * enum kv_organisation - arrangement and compaction of bands, chosen by kv_format()
 * @KV_SOC: two levels; bands of level 1 may overlap, and are merged when that is worth the
 *   cost
 * @KV_LOC: as in LevelDB: levels of growing size; bands of one level do not overlap, except
 *   in level 0
 * @KV_BUFFERED: three levels of 10, 10 and 100 bands before the last one; a band of level 0
 *   is the log as it was written, followed by an index
 */
enum kv_organisation {
	KV_SOC,
	KV_LOC,
	KV_BUFFERED,
};

/**
 * struct kv_format_options - shape of a new store; 0 selects the default in brackets
 * @size: sizeof(struct kv_format_options)
 * @bytes: size of the store (the whole device)
 * @band_bytes: KV_BAND_MIN to KV_BAND_MAX, a multiple of 4096 (KV_BAND_USUAL, or
 *   KV_BAND_BUFFERED)
 * @organisation: see enum kv_organisation (KV_SOC)
 */
struct kv_format_options {
	size_t size;
	uint64_t bytes;
	uint32_t band_bytes;
	enum kv_organisation organisation;
};

/* Flags of struct kv_options, and of writes. */
enum {
	KV_READ_ONLY = 1 << 0,	/* kv_open(): write nothing, not even for recovery */
	KV_NO_THREAD = 1 << 1,	/* kv_open(): no thread; writes and kv_open() run compactions */
	KV_NO_LOG = 1 << 2,	/* kv_open(): write no log; only kv_flush() makes writes durable */
	KV_STREAM = 1 << 3,	/* kv_open(): write bands one after another, each to its end */
	KV_NO_LIVE = 1 << 4,	/* kv_open(): do not answer other programs */
	KV_SYNC = 1 << 0,	/* writes: return when the write is durable */
};

/**
 * struct kv_options - how to use a store; 0 selects the default in brackets
 * @size: sizeof(struct kv_options)
 * @flags: KV_READ_ONLY, KV_NO_THREAD, KV_NO_LOG, KV_STREAM, KV_NO_LIVE.  KV_STREAM is for
 *   layers that must clean unless they recognise a stream: before a table is begun, the rest
 *   of the log's band is filled with zeroes, as is the rest of a table's band, and writes
 *   wait for merges, which run without a thread.  Documentation/kv.rst gives the cost
 * @log_buffer_bytes: amount of writes collected before they go to the log without KV_SYNC:
 *   4096 to a fourth of a band (1 MiB, or a fourth of a band).  Eight times that is used
 * @cache_bytes: size of the cache of blocks, indexes and Bloom filters (64 MiB)
 * @around_bytes: amount read at once around a block that is not in the cache, as long as the
 *   cache has unused room: up to 1 MiB in steps of 4096; 4096 reads only the block (128 KiB)
 * @memtable_bytes: memory for writes that are collected before they become a band; at most,
 *   and by default, the length of a band.  Twice that is used while a band is written
 * @l0_trigger: number of bands of level 0 that starts a compaction, 1 to 1000 (4; 10 with
 *   KV_BUFFERED)
 * @l0_slowdown: number of bands of level 0 that slows writes down, up to 1000 (8; never with
 *   KV_BUFFERED)
 * @slowdown_us: delay of each write then, in microseconds, up to 1000000 (1000)
 * @lead_bytes: with KV_STREAM: amount written in front of a band that does not follow the
 *   previous one, so that the disk detects a stream; up to half a band (64 KiB, or half a
 *   band)
 * @idle_ms: with KV_BUFFERED: time without a due merge after which half-full buffer levels
 *   and offloaded bands are merged too, up to 3600000 (10000)
 * @offload: path of the store's offload device, prepared by kv_offload(); NULL for none.
 *   Writes go there, band by band, only while a merge is in progress
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
 * kv_error() - message of the last error
 *
 * Return: the message of this thread's last call that failed, without a full stop.  It is
 * valid until the thread's next call that fails, and never NULL.
 */
const char *kv_error(void);

/**
 * kv_format() - make an empty store
 * @path: a block device, or an existing file of the right size; its contents are lost
 * @opt: options, or NULL for the defaults
 *
 * Does not check for existing contents; the command kv does.  A device in use is refused.
 *
 * Return: 0; -EBUSY; -EINVAL, for example if the device is too small for 16 bands.
 */
int kv_format(const char *path, const struct kv_format_options *opt);

/**
 * kv_open() - open a store
 * @kv: result
 * @path: see kv_format()
 * @opt: options, or NULL for the defaults
 *
 * Reads the logs into memory and, without KV_READ_ONLY, writes their contents as a band of
 * level 0.  Several stores may have a device open read-only, but only one if it writes; an
 * open that conflicts waits up to a second and then returns -EBUSY.
 *
 * Return: 0; -EMEDIUMTYPE if this is no store; -EPROTONOSUPPORT if its version is not
 * supported; -EUCLEAN if an essential part is damaged, or if the log has lost synced writes:
 * then KV_READ_ONLY still opens it, with the remaining contents; -EIO or another read error
 * if a part cannot be read now: nothing has changed, opening may succeed later, and
 * KV_READ_ONLY opens it if that part is in a log; -ENXIO if writes are on an offload device
 * and @opt names none or another one.
 */
int kv_open(struct kv **kv, const char *path, const struct kv_options *opt);

/**
 * kv_lost() - describe synced writes that the log has lost
 * @kv: the store
 *
 * Only a store opened with KV_READ_ONLY may have lost writes.  Its keys then have earlier
 * values; only this function and kv_check() report that.
 *
 * Return: a message, valid until kv_close(); or NULL if no loss is known.
 */
const char *kv_lost(const struct kv *kv);

/**
 * kv_lost_error() - cause of a loss in the log
 * @kv: the store
 *
 * Return: 0 if kv_lost() returns NULL; -EUCLEAN if the log is damaged; or the error of a
 * failed read, which may succeed when the store is opened again.
 */
int kv_lost_error(const struct kv *kv);

/* Flags of kv_repair(). */
enum {
	KV_REPAIR_UNREADABLE = 1 << 0,	/* give up unreadable parts like damaged ones */
};

/**
 * kv_repair() - recover the intact parts of a log that has lost synced writes
 * @path: a store that kv_open() refuses for that reason; it must not be in use
 * @opt: options, of which only @offload and @cache_bytes are used; or NULL
 * @flags: KV_REPAIR_UNREADABLE or 0
 * @report: called for each part of a log that is given up, with a message that identifies it
 * @ctx: passed to @report
 *
 * Writes of intact chunks become bands of level 0, in their order, including those behind a
 * chunk that is given up.  A key with a value in such a chunk keeps its earlier value.  A
 * power cut leaves the store partly repaired, and the call may be repeated.  If the log is
 * intact, or ends as after a power cut, the store is opened as kv_open() does, and nothing is
 * given up.  Tables are not changed; kv_check() finds damage in them.
 *
 * Return: 0; -EIO or another read error without KV_REPAIR_UNREADABLE: unreadable parts are
 * not given up; or another -errno as for kv_open().
 */
int kv_repair(const char *path, const struct kv_options *opt, uint32_t flags,
	      void (*report)(void *ctx, const char *sentence), void *ctx);

/**
 * kv_offload() - prepare a device as the offload device of a store
 * @path: the store, of KV_BUFFERED; it must not be in use and must have no offloaded writes
 * @offload: a block device, or an existing file of the right size; its contents are lost
 * @bytes: number of bytes to use; 0 for all
 *
 * Does not check for existing contents; the command kv does.  The store is not changed: it
 * refers to the device only while it has writes there.
 *
 * Return: 0; -EBUSY; -ENXIO if the store has writes on its offload device; -EINVAL if the
 * device is too small for two bands, or the store has no unsorted level; or another -errno.
 */
int kv_offload(const char *path, const char *offload, uint64_t bytes);

/**
 * kv_close() - close a store
 * @kv: the store, or NULL; its iterators and snapshots must be freed already
 *
 * Syncs all writes.  In a child of fork() see above.
 *
 * Return: 0 or the error of the sync; the store is closed in both cases.
 */
int kv_close(struct kv *kv);

/**
 * kv_put() - set the value of a key
 * @kv: the store
 * @key: the key
 * @key_bytes: length of @key, 1 to KV_KEY_MAX
 * @value: its new value
 * @value_bytes: length of @value, from 0 to an eighth of a band
 * @flags: KV_SYNC or 0
 *
 * May wait for room.  After an error with KV_SYNC, unless nothing has changed according to
 * the list of errors, the value may or may not be there when the store is opened again.
 *
 * Return: 0 or -errno.
 */
int kv_put(struct kv *kv, const void *key, size_t key_bytes, const void *value,
	   size_t value_bytes, uint32_t flags);

/**
 * kv_delete() - delete a key
 * @kv: the store
 * @key: the key; it need not exist
 * @key_bytes: length of @key
 * @flags: KV_SYNC or 0
 *
 * Return: 0 or -errno, as for kv_put().
 */
int kv_delete(struct kv *kv, const void *key, size_t key_bytes, uint32_t flags);

/**
 * kv_batch_new() - create a batch, a list of writes that is applied atomically
 *
 * Return: an empty batch, or NULL if there is no memory.
 */
struct kv_batch *kv_batch_new(void);

/**
 * kv_batch_put() - add a kv_put() to a batch
 * @batch: the batch
 * @key: the key; it is copied
 * @key_bytes: see kv_put()
 * @value: the value; it is copied
 * @value_bytes: see kv_put()
 *
 * Return: 0; -EINVAL or -ENOMEM: then the batch is unchanged.
 */
int kv_batch_put(struct kv_batch *batch, const void *key, size_t key_bytes, const void *value,
		 size_t value_bytes);

/**
 * kv_batch_delete() - add a kv_delete() to a batch
 * @batch: the batch
 * @key: the key; it is copied
 * @key_bytes: see kv_put()
 *
 * Return: 0; -EINVAL or -ENOMEM: then the batch is unchanged.
 */
int kv_batch_delete(struct kv_batch *batch, const void *key, size_t key_bytes);

/**
 * kv_batch_clear() - remove all writes from a batch
 * @batch: the batch
 */
void kv_batch_clear(struct kv_batch *batch);

/**
 * kv_batch_free() - free a batch
 * @batch: the batch, or NULL
 */
void kv_batch_free(struct kv_batch *batch);

/**
 * kv_write() - apply all writes of a batch, in their order
 * @kv: the store
 * @batch: the batch, at most a fourth of a band including 14 bytes for each write; it is not
 *   changed
 * @flags: KV_SYNC or 0
 *
 * The batch is atomic for readers and for recovery after a power cut.
 *
 * Return: 0 or -errno, as for kv_put(); -E2BIG if the batch is too large.
 */
int kv_write(struct kv *kv, const struct kv_batch *batch, uint32_t flags);

/**
 * kv_delete_range() - delete all keys of a range
 * @kv: the store
 * @from: the first key of the range
 * @from_bytes: length of @from; 0 to begin at the first key of all
 * @to: the first key behind the range
 * @to_bytes: length of @to; 0 for no upper end
 * @flags: KV_SYNC or 0
 *
 * Deletes the keys that had a value at the time of the call, in their order, with batches of
 * a fourth of a band.  Each deletion takes 14 bytes and the key.  Each batch is atomic.
 * After an error or a power cut the keys up to some point are deleted, and the call may be
 * repeated.
 *
 * Return: 0 or -errno, as for kv_put().
 */
int kv_delete_range(struct kv *kv, const void *from, size_t from_bytes, const void *to,
		    size_t to_bytes, uint32_t flags);

/**
 * kv_sync() - make all previous writes durable
 * @kv: the store
 *
 * Return: 0 or -errno.
 */
int kv_sync(struct kv *kv);

/**
 * kv_get() - look a key up
 * @kv: the store
 * @snap: snapshot to read, or NULL for the current state
 * @key: the key
 * @key_bytes: length of @key
 * @value: result, to be freed by free(); never NULL after success
 * @value_bytes: result
 *
 * Return: 0; -ENOENT if the key has no value; or another -errno.
 */
int kv_get(struct kv *kv, const struct kv_snapshot *snap, const void *key, size_t key_bytes,
	   void **value, size_t *value_bytes);

/**
 * kv_get_into() - look a key up and copy the value into the caller's memory
 * @kv: the store
 * @snap: snapshot to read, or NULL for the current state
 * @key: the key
 * @key_bytes: length of @key
 * @value: result
 * @room: size of @value
 * @value_bytes: length of the value after success and -ENOBUFS; else 0
 *
 * Return: 0; -ENOENT if the key has no value; -ENOBUFS if @room is too small; or another
 * -errno.
 */
int kv_get_into(struct kv *kv, const struct kv_snapshot *snap, const void *key, size_t key_bytes,
		void *value, size_t room, size_t *value_bytes);

/**
 * kv_snapshot_new() - preserve the current state for reading
 * @kv: the store
 *
 * Old values are kept while a snapshot needs them.
 *
 * Return: the snapshot; NULL if there is no memory, or in a child of fork(), see above.
 */
struct kv_snapshot *kv_snapshot_new(struct kv *kv);

/**
 * kv_snapshot_free() - free a snapshot
 * @kv: the store
 * @snap: the snapshot, or NULL
 */
void kv_snapshot_free(struct kv *kv, struct kv_snapshot *snap);

/**
 * kv_iter_new() - create an iterator over the keys in order
 * @kv: the store
 * @snap: snapshot to read, or NULL for the current state; may be freed before the iterator
 * @iter: result; it has no position until kv_iter_seek() or a similar function sets one
 *
 * The iterator does not see later writes.  Bands that it may read are not reused, so it
 * should not live long.
 *
 * Return: 0 or -ENOMEM.
 */
int kv_iter_new(struct kv *kv, const struct kv_snapshot *snap, struct kv_iter **iter);

/**
 * kv_iter_seek() - go to the first key that is not below a given one
 * @iter: the iterator
 * @key: the key
 * @key_bytes: length of @key, 0 to KV_KEY_MAX; 0 for the first key of all
 *
 * Return: 0; -ENOENT if there is none; or another -errno: then the iterator has no position,
 * and may seek elsewhere.
 */
int kv_iter_seek(struct kv_iter *iter, const void *key, size_t key_bytes);

/**
 * kv_iter_next() - go to the next key
 * @iter: an iterator with a position
 *
 * Return: as for kv_iter_seek(); -EINVAL if the iterator has no position.
 */
int kv_iter_next(struct kv_iter *iter);

/**
 * kv_iter_prev() - go to the previous key
 * @iter: an iterator with a position
 *
 * Each change of direction costs a seek.
 *
 * Return: 0; -ENOENT if it was at the first key; -EINVAL if it has no position; or another
 * -errno: then it has no position, and may seek elsewhere.
 */
int kv_iter_prev(struct kv_iter *iter);

/**
 * kv_iter_seek_last() - go to the last key of all
 * @iter: the iterator
 *
 * Return: as for kv_iter_seek().
 */
int kv_iter_seek_last(struct kv_iter *iter);

/**
 * kv_iter_seek_for_prev() - go to the last key that is not above a given one
 * @iter: the iterator
 * @key: the key
 * @key_bytes: length of @key, 0 to KV_KEY_MAX
 *
 * Return: as for kv_iter_seek().
 */
int kv_iter_seek_for_prev(struct kv_iter *iter, const void *key, size_t key_bytes);

/**
 * kv_iter_key() - the key at the iterator's position
 * @iter: the iterator
 * @bytes: result, length of the key
 *
 * Return: the key, valid until the iterator moves; NULL if there is no position.
 */
const void *kv_iter_key(const struct kv_iter *iter, size_t *bytes);

/**
 * kv_iter_value() - the value at the iterator's position
 * @iter: the iterator
 * @bytes: result, length of the value
 *
 * Return: the value, valid until the iterator moves; NULL if there is no position.
 */
const void *kv_iter_value(const struct kv_iter *iter, size_t *bytes);

/**
 * kv_iter_free() - free an iterator
 * @iter: the iterator, or NULL
 */
void kv_iter_free(struct kv_iter *iter);

/**
 * kv_checkpoint() - copy the current state to another device or file
 * @kv: the store, which may be read and written meanwhile
 * @path: a block device or a file, which loses its contents.  A file that does not exist or
 *   is empty gets the necessary size; in a directory the copy is a file named UUID.kv, with
 *   the UUID of this store
 * @opt: shape of the copy; NULL for the shape of this store.  With @band_bytes 0 the bands
 *   are as long as those of this store, and with @bytes 0 a whole device is used
 *
 * The copy is a separate store with another UUID.  It has the values of the time of the call,
 * and no older ones.  It becomes a store only when it is complete and durable: after a power
 * cut kv_open() refuses it.  After an error a file that the call created is removed.
 *
 * Return: 0; -ENOSPC if the copy has too little room; -EUCLEAN if data are damaged or lost:
 * then there is no copy; or another -errno.
 */
int kv_checkpoint(struct kv *kv, const char *path, const struct kv_format_options *opt);

/**
 * kv_flush() - write the contents of memory as a band of level 0
 * @kv: the store
 *
 * Return: 0 or -errno.
 */
int kv_flush(struct kv *kv);

/**
 * kv_compact() - compact all bands until none overlap
 * @kv: the store
 *
 * Waits until this is done.  The result holds while there are no other writes.
 *
 * Return: 0; -EUCLEAN if a band is damaged; -ENOSPC if there is too little working room; or
 * another -errno.  Merges completed before an error persist.
 */
int kv_compact(struct kv *kv);

/**
 * kv_compact_range() - compact the bands that have keys of a range
 * @kv: the store
 * @from: the first key of the range
 * @from_bytes: length of @from; 0 to begin at the first key of all
 * @to: the first key behind the range
 * @to_bytes: length of @to; 0 for no upper end
 *
 * Merges each band that has keys of the range with all bands that overlap it, as kv_compact()
 * does.  Bands without such keys are not changed unless their room is needed.
 *
 * Return: as for kv_compact().
 */
int kv_compact_range(struct kv *kv, const void *from, size_t from_bytes, const void *to,
		     size_t to_bytes);

/**
 * kv_approximate_size() - size on the disk of the keys of a range
 * @kv: the store
 * @from: the first key of the range
 * @from_bytes: length of @from; 0 to begin at the first key of all
 * @to: the first key behind the range
 * @to_bytes: length of @to; 0 for no upper end
 * @bytes: result, to within a block for each band at either end; includes old versions and
 *   deletions, but not writes that are only in memory and in the log
 *
 * Return: 0 or -errno.
 */
int kv_approximate_size(struct kv *kv, const void *from, size_t from_bytes, const void *to,
			size_t to_bytes, uint64_t *bytes);

/**
 * kv_settle() - wait until no compaction is due
 * @kv: the store
 *
 * Return: 0, or the error of a compaction that is due and fails.
 */
int kv_settle(struct kv *kv);

/**
 * struct kv_stats - statistics of a store
 * @size: sizeof(struct kv_stats); kv_stats() fills in no more
 * @bands: number of bands
 * @bands_free: number of bands free for writing
 * @bands_log: number of bands used by logs
 * @bands_pinned: number of dead bands that iterators may still read
 * @band_bytes: length of a band
 * @level_bands: number of tables of each level
 * @level_bytes: size of these tables, with indexes
 * @unsorted_bands: number of bands of level 0 in the order of writing
 * @unsorted_bytes: size of @unsorted_bands
 * @offload_bands: number of bands of the offload device; 0 without one
 * @offload_bands_free: number of free bands of the offload device
 * @memtable_bytes: size of writes in memory that are not yet in a band
 * @puts: number of puts since the store was opened, like all following fields
 * @deletes: number of deletes
 * @gets: number of gets
 * @user_bytes: size of the keys and values of @puts and @deletes
 * @offloaded_writes: number of @puts and @deletes that went to the offload device
 * @offloaded_bytes: the part of @user_bytes that went to the offload device
 * @log_bytes: bytes written to logs
 * @flush_bytes: bytes written to bands of level 0; for a log that becomes a band, only those
 *   behind the log
 * @compact_read_bytes: bytes read by compactions
 * @compact_written_bytes: bytes written by compactions
 * @table_bytes: bytes written to the band table
 * @pad_bytes: zeroes written by KV_STREAM; no other figure includes them
 * @read_bytes: other bytes read
 * @syncs: flushes of the device and of the offload device
 * @flushes: number of memtables that became bands
 * @compactions: number of merges
 * @moves: number of bands that changed their level without being rewritten
 * @discards: number of bands discarded on the device
 * @levels_told: number of tables with a level announced to the device, at their start or move
 * @bloom_checks: number of queries of Bloom filters
 * @bloom_passes: number of @bloom_checks with a positive answer
 * @bloom_wrong: number of @bloom_passes for a key that was not in the band
 * @flush_us: microseconds spent writing memtables
 * @compact_us: microseconds spent in compactions, without interleaved @flush_us
 * @slow_us: microseconds that writes were slowed down or waited for room
 * @ring_error: errno with which the kernel refused an io_uring for the device or the offload
 *   device: requests are then made one at a time, by pread() and pwrite(); 0 with an io_uring
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
 * kv_stats() - read the statistics
 * @kv: the store
 * @stats: result; the caller sets its @size
 *
 * If the caller's struct is larger than the library's, the additional fields become 0; if it
 * is smaller, only its fields are filled in.
 *
 * Return: 0; -EINVAL if @size is not set.
 */
int kv_stats(struct kv *kv, struct kv_stats *stats);

/**
 * kv_live_stats() - read the statistics of a store that another program has open
 * @path: device or file of the store
 * @stats: result, see kv_stats()
 *
 * A program answers root and programs of its own user if it has the store open for writing
 * without KV_NO_THREAD and KV_NO_LIVE.  While it makes a checkpoint on request, the answer
 * waits.
 *
 * Return: 0; -ENOTCONN if no program that answers has the store open; -EPERM if the answering
 * program belongs to another user, who is neither root nor the owner of the file; or another
 * -errno.
 */
int kv_live_stats(const char *path, struct kv_stats *stats);

/**
 * kv_live_checkpoint() - make the program that has a store open write a checkpoint
 * @path: device or file of the store
 * @to: @path of kv_checkpoint(), which that program calls with its own rights
 *
 * Return: as for kv_live_stats(), or the result of kv_checkpoint() in that program.
 */
int kv_live_checkpoint(const char *path, const char *to);

/**
 * struct kv_band - a band in use
 * @band: its number; those of the offload device follow the last band of the store
 * @offset: offset of its first byte on its device
 * @bytes: number of bytes used; 0 for a log that is being written
 * @level: level of a table; -1 for a log
 * @age: greater for newer tables of the same level
 * @id: unique number of the table or log, never reused
 * @entries: number of entries of a table
 * @tombstones: number of @entries that are deletions
 * @unsorted: it is a log followed by an index
 * @offloaded: it is on the offload device
 * @min_key: first key of a table; valid until the callback returns
 * @min_bytes: length of @min_key
 * @max_key: last key of a table; valid until the callback returns
 * @max_bytes: length of @max_key
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
 * kv_bands() - list the bands in use
 * @kv: the store
 * @fn: called for each band in use, logs first, then by level and key; it must not call the
 *   store; a result other than 0 ends the walk
 * @ctx: passed to @fn
 *
 * Return: 0, -ENOMEM, or the result of @fn.
 */
int kv_bands(struct kv *kv, int (*fn)(void *ctx, const struct kv_band *band), void *ctx);

/**
 * struct kv_shape - the shape of a store, fixed by kv_format()
 * @size: sizeof(struct kv_shape); kv_shape() fills in no more
 * @uuid: UUID of the store
 * @organisation: see enum kv_organisation
 * @band_bytes: length of a band
 * @bands: number of bands
 * @generation: number of commits of the band table
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
 * kv_shape() - read the shape of a store
 * @kv: the store
 * @shape: result; the caller sets its @size, as for struct kv_stats
 *
 * Return: 0; -EINVAL if @size is not set.
 */
int kv_shape(struct kv *kv, struct kv_shape *shape);

/**
 * kv_check() - read and verify the whole store
 * @kv: the store
 * @report: called for each finding, with a message that names the band; also for a copy of
 *   the band table left by an interrupted commit, which is no damage
 * @ctx: passed to @report
 *
 * Checks all checksums, the order of keys and versions, ranges, counts and Bloom filters, and
 * that no band is used twice.
 *
 * Return: 0 if the store is clean; -EUCLEAN after the last finding; the error of a read if
 * something could not be read and the rest is not damaged; or another -errno.
 */
int kv_check(struct kv *kv, void (*report)(void *ctx, const char *sentence), void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* SHINGLE_KV_H */
