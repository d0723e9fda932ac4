// SPDX-License-Identifier: GPL-2.0
/* A store as a whole: format, open, close, and the state after a failed write. */
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "store.h"
#include "memtable.h"
#include "table.h"

/* Expected of a disk that has other work, too: MB/s, or bytes a us. */
#define USUAL_MB_S	100U

#define DEFAULT_CACHE	(64ULL << 20)
#define DEFAULT_AROUND	(128U << 10)
#define MIN_BANDS	16U
#define DEFAULT_LEAD	(64U << 10)
/* Size of one write of zeroes. */
#define MOST_ZEROES	(1U << 20)

/* Number of forks that have led to this process since the first store was opened. */
static u32 forks;

static void forked(void)
{
	forks++;
}

static void count_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

static bool inherited(const struct kv *kv)
{
	return kv->forks != forks;
}

/**
 * store_ours() - may this process use the store?
 * @kv: the store
 *
 * A child of fork() has the memory of its parent's store, but not its threads, and any lock may be
 * held for ever.  If both wrote, each would overwrite what the other has synced.  Without writes,
 * both can read.
 *
 * Return: 0; or -EPERM with the message set.
 */
int store_ours(const struct kv *kv)
{
	if (!inherited(kv) || (kv->opt.flags & KV_READ_ONLY))
		return 0;
	return kv_says(-EPERM, "%s was opened before a fork, by the parent of this process",
		       kv->disk->name);
}

/**
 * thread_start() - start a thread of the library
 * @thread: result
 * @run: its function
 * @arg: argument of @run
 *
 * All signals are blocked in it: they are for the threads of the program itself, which may block a
 * signal later in order to wait for it.
 *
 * Return: 0 or an errno.
 */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

u64 now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000 + (u64)t.tv_nsec / 1000;
}

/**
 * wait_init() - initialise a condition for wait_us()
 * @cond: the condition
 *
 * It uses the monotonic clock, as people and NTP set the wall clock, sometimes back.
 */
void wait_init(pthread_cond_t *cond)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

/**
 * wait_us() - wait for a condition with a timeout
 * @cond: initialised by wait_init()
 * @lock: held
 * @us: longest wait in microseconds
 */
void wait_us(pthread_cond_t *cond, pthread_mutex_t *lock, u64 us)
{
	u64 until_us = now_us() + us;
	struct timespec until = { .tv_sec = (time_t)(until_us / 1000000),
				  .tv_nsec = (long)(until_us % 1000000 * 1000) };

	pthread_cond_timedwait(cond, lock, &until);
}

/**
 * take_sized() - copy a structure of a caller that may have been built with another version of the
 * library
 * @to: result, in the layout of this version; unchanged if @from is NULL
 * @ours: size of @to
 * @from: the caller's structure, or NULL
 * @size: size of @from, as the structure says
 * @name: name of the structure
 *
 * Return: 0; -EINVAL or -E2BIG with the message set.
 */
int take_sized(void *to, size_t ours, const void *from, u64 size, const char *name)
{
	const u8 *bytes = from;
	u64 i;

	if (!from)
		return 0;
	/* A caller that has not set the size has 0 there. */
	if (size < 2 * sizeof(size_t))
		return kv_says(-EINVAL, "struct %s has an unknown size", name);
	for (i = ours; i < size; i++) {
		if (bytes[i])
			return kv_says(-E2BIG, "struct %s has fields that this library does not know",
				       name);
	}
	memcpy(to, from, min_t(u64, ours, size));
	return 0;
}

/* The reverse of take_sized(); fields that this version does not know become 0. */
void give_sized(void *to, u64 size, const void *from, size_t ours)
{
	u64 n = min_t(u64, ours, size);

	memcpy(to, from, n);
	memset((u8 *)to + n, 0, size - n);
}

/**
 * store_break() - stop all further writes
 * @kv: the store
 * @err: the reason; a reason from before is kept
 * @text: message for @err
 */
void store_break(struct kv *kv, int err, const char *text)
{
	pthread_mutex_lock(&kv->lock);
	if (!kv->broken.err) {
		snprintf(kv->broken.text, sizeof(kv->broken.text), "%s", text);
		__atomic_store_n(&kv->broken.err, err, __ATOMIC_RELEASE);
	}
	pthread_cond_broadcast(&kv->changed);
	pthread_mutex_unlock(&kv->lock);
}

/* Return: -EROFS with the message set, or 0 while the store is not broken. */
int store_broken(struct kv *kv)
{
	if (!__atomic_load_n(&kv->broken.err, __ATOMIC_ACQUIRE))
		return 0;
	return kv_says(-EROFS, "the store is read-only, because %s", kv->broken.text);
}

/**
 * store_wrote() - handle the end of a write
 * @kv: the store
 * @disk: the disk
 * @err: result of the write
 * @offset: its offset
 *
 * Return: @err, with the message set and the store broken if it is not 0.
 */
int store_wrote(struct kv *kv, const struct kv_disk *disk, int err, u64 offset)
{
	if (!err)
		return 0;
	kv_says(err, "a write to %s at byte %llu has failed: %s", disk->name, offset,
		strerror(-err));
	store_break(kv, err, kv_error());
	return err;
}

int store_write(struct kv *kv, struct kv_disk *disk, u64 offset, const void *buf, u32 bytes)
{
	return store_broken(kv) ?:
		store_wrote(kv, disk, disk->ops->write(disk, offset, buf, bytes), offset);
}

static int flush(struct kv_disk *disk)
{
	int err = disk->ops->flush(disk);

	return err ? kv_says(err, "a flush of %s has failed: %s", disk->name, strerror(-err)) : 0;
}

/**
 * store_flush_disk() - make all earlier writes to a disk durable
 * @kv: the store
 * @disk: the store's own disk, or its offload device
 *
 * The kernel reports lost writes to one caller only.  So a second flush that succeeds proves
 * nothing.
 *
 * Return: 0; or -errno with the message set, and the store is broken.
 */
int store_flush_disk(struct kv *kv, struct kv_disk *disk)
{
	pthread_mutex_t *flushing = disk == kv->offload.disk ? &kv->offload.flushing :
								 &kv->flushing;
	int err;

	pthread_mutex_lock(flushing);
	err = store_broken(kv);
	if (!err) {
		err = flush(disk);
		count(&kv->stats.syncs, 1);
		if (err)
			store_break(kv, err, kv_error());
	}
	pthread_mutex_unlock(flushing);
	return err;
}

/* store_flush_disk() for both disks. */
int store_flush(struct kv *kv)
{
	return (kv->offload.disk ? store_flush_disk(kv, kv->offload.disk) : 0) ?:
		store_flush_disk(kv, kv->disk);
}

static void store_free(struct kv *kv)
{
	memtable_put(kv->current.mem);
	memtable_put(kv->current.frozen);
	version_put(kv, kv->current.version);
	cache_free(kv->cache);
	log_destroy(kv);
	free(kv->bands.state);
	free(kv->bands.stream.zeroes);
	for (u32 i = 0; i < KV_LEVELS; i++)
		free(kv->pick.begin[i].data);
	for (u32 i = 0; i < ARRAY_SIZE(kv->log.sync.turn); i++)
		pthread_cond_destroy(&kv->log.sync.turn[i]);
	pthread_cond_destroy(&kv->log.worker.work);
	pthread_cond_destroy(&kv->worker.work);
	pthread_cond_destroy(&kv->changed);
	pthread_mutex_destroy(&kv->log.lock);
	pthread_mutex_destroy(&kv->log.io);
	pthread_mutex_destroy(&kv->lock);
	pthread_mutex_destroy(&kv->offload.flushing);
	pthread_mutex_destroy(&kv->flushing);
	pthread_mutex_destroy(&kv->committing);
	pthread_mutex_destroy(&kv->compacting);
	pthread_mutex_destroy(&kv->writer);
	if (kv->disk)
		kv->disk->ops->close(kv->disk);
	if (kv->offload.disk)
		kv->offload.disk->ops->close(kv->offload.disk);
	free(kv);
}

static struct kv *store_new(struct kv_disk *disk)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct kv *kv = calloc(1, sizeof(*kv));

	if (!kv)
		return NULL;
	pthread_once(&once, count_forks);
	kv->forks = forks;
	kv->disk = disk;
	kv->bands.stream.next = NO_BAND;
	kv->flush.unit.band = NO_BAND;
	kv->snapshots.next = &kv->snapshots;
	kv->snapshots.prev = &kv->snapshots;
	pthread_mutex_init(&kv->writer, NULL);
	pthread_mutex_init(&kv->compacting, NULL);
	pthread_mutex_init(&kv->committing, NULL);
	pthread_mutex_init(&kv->flushing, NULL);
	pthread_mutex_init(&kv->offload.flushing, NULL);
	pthread_mutex_init(&kv->lock, NULL);
	pthread_mutex_init(&kv->log.io, NULL);
	pthread_mutex_init(&kv->log.lock, NULL);
	for (u32 i = 0; i < ARRAY_SIZE(kv->log.sync.turn); i++)
		wait_init(&kv->log.sync.turn[i]);
	wait_init(&kv->changed);
	wait_init(&kv->log.worker.work);
	wait_init(&kv->worker.work);
	return kv;
}

static int too_small(const struct kv_disk *disk, u64 bytes)
{
	return kv_says(-EINVAL, "%s has %llu bytes, not %llu", disk->name, disk->bytes, bytes);
}

static int shape_of(struct kv_disk *disk, const struct kv_format_options *opt,
		    const u8 *uuid, struct shape *s)
{
	u64 bytes = opt->bytes ?: disk->bytes;
	struct kv_places at;

	static_assert(KV_COPY_OFFSET == offsetof(struct header, copy_offset) &&
		      KV_BLOCK_BYTES == BLOCK_BYTES && KV_SLOTS == SLOTS &&
		      KV_ENTRY_MAX == BANDS_ENTRY_MAX, "others look for another store");
	memset(s, 0, sizeof(*s));
	memcpy(s->uuid, uuid, sizeof(s->uuid));
	s->organisation = opt->organisation;
	s->band_bytes = opt->band_bytes ?:
		opt->organisation == KV_BUFFERED ? KV_BAND_BUFFERED : KV_BAND_USUAL;
	s->device_bytes = rounddown(bytes, BLOCK_BYTES);
	s->slot_offset = BLOCK_BYTES;
	if (bytes > disk->bytes)
		return too_small(disk, bytes);
	if (opt->organisation > KV_BUFFERED)
		return kv_says(-EINVAL, "organisation %u is not known", opt->organisation);
	if (s->band_bytes < KV_BAND_MIN || s->band_bytes > KV_BAND_MAX ||
	    s->band_bytes % BLOCK_BYTES)
		return kv_says(-EINVAL, "bands of %u bytes: %u to %u in steps of %u",
			       s->band_bytes, KV_BAND_MIN, KV_BAND_MAX, BLOCK_BYTES);
	at = kv_places(bytes, s->band_bytes);
	s->bands = at.bands;
	s->slot_bytes = at.slot_bytes;
	s->bands_offset = at.bands_offset;
	if (s->bands < MIN_BANDS)
		return kv_says(-EINVAL, "%s: %llu bytes have room for %u bands of %u bytes, but %u are needed",
			       disk->name, bytes, s->bands, s->band_bytes, MIN_BANDS);
	return 0;
}

static int format_all(struct kv *kv)
{
	void *zeroes = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
	struct kv_disk *disk = kv->disk;
	struct part *none = NULL;
	int err;

	if (!zeroes)
		return kv_no_memory();
	memset(zeroes, 0, BLOCK_BYTES);
	kv->next.id = 1;
	kv->next.age = 1;
	kv->next.seq = 1;
	kv->current.version = version_new(&none, 0);
	err = kv->current.version ? 0 : kv_no_memory();
	/* Until the end there is no valid store. */
	if (!err)
		err = store_write(kv, disk, 0, zeroes, BLOCK_BYTES) ?: store_flush(kv);
	if (!err)
		disk->ops->discard(disk, kv->head.bands_offset,
				   (u64)kv->head.bands * kv->head.band_bytes);
	err = err ?: bandtable_write(kv, kv->current.version, NULL, 0, 2, true) ?:
		store_flush(kv) ?: header_write(disk, &kv->head) ?: store_flush(kv);
	free(zeroes);
	return err;
}

/* Format a disk, which stays open. */
static int format_disk(struct kv_disk *disk, const struct kv_format_options *opt, const u8 *uuid,
		       enum header_kind kind)
{
	struct kv_format_options all = { .size = sizeof(all) };
	struct kv *kv = store_new(disk);
	int err;

	if (!kv)
		return kv_no_memory();
	err = take_sized(&all, sizeof(all), opt, opt ? opt->size : 0, "kv_format_options") ?:
		shape_of(disk, &all, uuid, &kv->head);
	kv->head.kind = kind;
	err = err ?: format_all(kv);
	kv->disk = NULL;
	store_free(kv);
	return err;
}

/**
 * store_format() - make an empty store
 * @disk: the disk; closed in any case
 * @opt: options, or NULL
 * @uuid: UUID of the store
 *
 * Return: 0 or -errno with the message set.
 */
int store_format(struct kv_disk *disk, const struct kv_format_options *opt, const u8 *uuid)
{
	int err = format_disk(disk, opt, uuid, HEADER_STORE);

	disk->ops->close(disk);
	return err;
}

EXPORTED int kv_format(const char *path, const struct kv_format_options *opt)
{
	struct kv_disk *disk;
	uuid_t uuid;
	int err = disk_open(&disk, path, true);

	uuid_generate_random(uuid);
	return err ?: store_format(disk, opt, uuid);
}

/**
 * store_offload() - format an offload device
 * @disk: the device; closed in any case
 * @head: header of the store
 * @bytes: bytes of @disk to use; 0 for all
 * @own: UUID of the device
 *
 * Return: 0 or -errno with the message set.
 */
int store_offload(struct kv_disk *disk, const struct shape *head, u64 bytes, const u8 *own)
{
	struct shape s = {
		.organisation = head->organisation, .band_bytes = head->band_bytes,
		.device_bytes = rounddown(bytes ?: disk->bytes, BLOCK_BYTES),
		.slot_offset = BLOCK_BYTES, .bands_offset = head->band_bytes, .kind = HEADER_OFFLOAD,
	};
	int err = 0;

	memcpy(s.uuid, head->uuid, sizeof(s.uuid));
	memcpy(s.own, own, sizeof(s.own));
	s.bands = (u32)min_t(u64, s.device_bytes / s.band_bytes, U32_MAX / 2);
	if (bytes > disk->bytes)
		err = too_small(disk, bytes);
	else if (head->organisation != KV_BUFFERED)
		err = kv_says(-EINVAL, "only a store of the organisation buffered offloads writes");
	else if (s.bands < 3)
		err = kv_says(-EINVAL, "%s has no room for two bands of %u bytes behind a header",
			      disk->name, s.band_bytes);
	/* The header takes the first band. */
	s.bands--;
	if (!err)
		err = header_write(disk, &s) ?: flush(disk);
	disk->ops->close(disk);
	return err;
}

EXPORTED int kv_offload(const char *path, const char *offload, uint64_t bytes)
{
	static const struct kv_options look = { .size = sizeof(struct kv_options), .flags = KV_READ_ONLY };
	struct kv_disk *disk;
	struct shape head;
	struct kv *kv;
	uuid_t own;
	int err = kv_open(&kv, path, &look);

	if (err)
		return err;
	uuid_generate_random(own);
	head = kv->head;
	err = disk_open(&disk, offload, true) ?: store_offload(disk, &head, bytes, own);
	kv_close(kv);
	return err;
}

static int take_options(struct kv *kv, const struct kv_options *opt)
{
	u32 band = kv->head.band_bytes, quarter = rounddown(band / 4, BLOCK_BYTES), half;
	bool buffered = kv->head.organisation == KV_BUFFERED;
	struct kv_options *o = &kv->opt;
	int err = take_sized(o, sizeof(*o), opt, opt ? opt->size : 0, "kv_options");

	if (err)
		return err;
	o->log_buffer_bytes = o->log_buffer_bytes ?: min(1U << 20, quarter);
	o->cache_bytes = o->cache_bytes ?: DEFAULT_CACHE;
	o->around_bytes = o->around_bytes ?: DEFAULT_AROUND;
	o->memtable_bytes = min(o->memtable_bytes ?: band, band);
	/* Until a flush was measured. */
	kv->flush.expected_us = o->memtable_bytes / USUAL_MB_S;
	o->slowdown_us = o->slowdown_us ?: 1000;
	o->idle_ms = o->idle_ms ?: 10000;
	half = rounddown(band / 2, BLOCK_BYTES);
	o->lead_bytes = o->lead_bytes ?: min(DEFAULT_LEAD, half);
	if (o->flags & ~(u32)(KV_READ_ONLY | KV_NO_THREAD | KV_NO_LOG | KV_STREAM |
				 KV_NO_LIVE))
		return kv_says(-EINVAL, "unknown flags");
	if (o->log_buffer_bytes % BLOCK_BYTES || o->log_buffer_bytes > quarter)
		return kv_says(-EINVAL, "a log buffer of %u bytes: %u to %u in steps of that",
			       o->log_buffer_bytes, BLOCK_BYTES, quarter);
	if (o->around_bytes % BLOCK_BYTES || o->around_bytes > WINDOW_BYTES)
		return kv_says(-EINVAL, "%u bytes around a block: %u to %u in steps of that",
			       o->around_bytes, BLOCK_BYTES, WINDOW_BYTES);
	if (o->lead_bytes % BLOCK_BYTES || o->lead_bytes > half)
		return kv_says(-EINVAL, "a lead-in of %u bytes: %u to %u in steps of that",
			       o->lead_bytes, BLOCK_BYTES, half);
	if (o->l0_trigger > 1000 || o->l0_slowdown > 1000 || o->slowdown_us > 1000000 ||
	    o->idle_ms > 3600000)
		return kv_says(-EINVAL, "l0_trigger, l0_slowdown: 1 to 1000; slowdown_us: up to 1000000; idle_ms: up to 3600000");
	/* With a cheap first level, writes are never slowed down by pending merges. */
	o->l0_trigger = o->l0_trigger ?: buffered ? 10 : 4;
	o->l0_slowdown = o->l0_slowdown ?: buffered ? U32_MAX : 8;
	return 0;
}

/* Before a repair: does a log lack anything?  The writes that are read are dropped again. */
static int look_through(struct kv *kv, int *lost)
{
	struct memtable *m;
	u64 next_seq = 0;
	u32 i;
	int err = 0;

	*lost = 0;
	for (i = 0; i < kv->bandtable.nr_logs && !err && !*lost; i++) {
		m = memtable_new(0);
		err = m ? log_replay(kv, &kv->bandtable.logs[i], m, &next_seq, lost) :
			  kv_no_memory();
		memtable_put(m);
	}
	return err;
}

/* Read all logs.  Unless the store is read only, each of their memtables becomes a table. */
static int replay(struct kv *kv)
{
	struct log_band logs[MAX_LOG_BANDS];
	bool read_only = kv->opt.flags & KV_READ_ONLY;
	u32 nr = kv->bandtable.nr_logs, i;
	u64 next_seq = 0;
	int err = 0, lost = 0, damaged = 0;

	if (kv->recovery.repair)
		err = look_through(kv, &damaged);
	if (damaged && !err)
		kv->recovery.repair->report(kv->recovery.repair->ctx, kv_error());
	memcpy(logs, kv->bandtable.logs, sizeof(logs));
	for (i = 0; i < nr && !err && !lost; i++) {
		err = damaged ? log_salvage(kv, &logs[i], kv->current.mem, &next_seq) :
				log_replay(kv, &logs[i], kv->current.mem, &next_seq, &lost);
		kv->next.seq = max(kv->next.seq, next_seq);
		if (lost && !err)
			snprintf(kv->recovery.text, sizeof(kv->recovery.text), "%s", kv_error());
		if (err || read_only ||
		    (i + 1 < nr && logs[i + 1].memtable == logs[i].memtable))
			continue;
		if (lost)
			break;
		kv->current.mem->number = logs[i].memtable;
		kv->current.frozen = kv->current.mem;
		kv->current.mem = memtable_new(logs[i].memtable + 1);
		kv->current.seq = kv->next.seq - 1;
		err = kv->current.mem ? compact_frozen(kv) : kv_no_memory();
	}
	kv->recovery.err = lost;
	if (!err && lost && !read_only)
		err = kv_says(lost, "%s; %s", kv->recovery.text, lost == -EUCLEAN ?
			      "the rest can only be read" :
			      "nothing was changed, and the next read may succeed");
	return err;
}

/* Does the offload device belong to this store? */
static int take_offload(struct kv *kv)
{
	int err = header_read(kv->offload.disk, HEADER_OFFLOAD, &kv->offload.head);

	if (err)
		return err;
	if (memcmp(kv->offload.head.uuid, kv->head.uuid, sizeof(kv->head.uuid)) ||
	    kv->offload.head.band_bytes != kv->head.band_bytes ||
	    kv->offload.head.organisation != kv->head.organisation)
		return kv_says(-EMEDIUMTYPE, "%s is the offload device of another store than %s",
			       kv->offload.disk->name, kv->disk->name);
	return 0;
}

static int begin_threads(struct kv *kv)
{
	bool logs = !(kv->opt.flags & KV_NO_LOG);

	if (logs && thread_start(&kv->log.worker.thread, log_thread, kv))
		return kv_says(-EAGAIN, "no thread can be started");
	if (thread_start(&kv->worker.thread, compact_thread, kv)) {
		if (logs)
			log_stop(kv);
		return kv_says(-EAGAIN, "no thread can be started");
	}
	kv->worker.running = true;
	return 0;
}

static int open_all(struct kv *kv, const struct kv_options *opt)
{
	bool read_only;
	int err = header_read(kv->disk, kv->head.kind, &kv->head);

	if (!err)
		err = take_options(kv, opt);
	if (!err && kv->offload.disk)
		err = take_offload(kv);
	if (err)
		return err;
	read_only = kv->opt.flags & KV_READ_ONLY;
	/* Until the band table is read, all bands are BAND_UNKNOWN. */
	kv->bands.state = malloc((size_t)kv->head.bands + kv->offload.head.bands);
	kv->cache = cache_new(kv->opt.cache_bytes);
	kv->current.mem = memtable_new(1);
	if (!kv->bands.state || !kv->cache || !kv->current.mem)
		return kv_no_memory();
	memset(kv->bands.state, BAND_UNKNOWN, (size_t)kv->head.bands + kv->offload.head.bands);
	if (streams(kv) && !read_only) {
		kv->bands.stream.zero_bytes = min(MOST_ZEROES, kv->head.band_bytes);
		kv->bands.stream.zeroes = aligned_alloc(BLOCK_BYTES, kv->bands.stream.zero_bytes);
		if (!kv->bands.stream.zeroes)
			return kv_no_memory();
		memset(kv->bands.stream.zeroes, 0, kv->bands.stream.zero_bytes);
	}
	kv->bands.free = kv->head.bands;
	kv->bands.spare_free = kv->offload.head.bands;
	err = bandtable_read(kv);
	if (!err && !read_only)
		err = header_copies(kv, NULL, NULL) ?: bandtable_copies(kv, NULL, NULL) ?:
			log_init(kv);
	if (!err)
		err = replay(kv);
	if (err)
		return err;
	kv->current.seq = kv->next.seq - 1;
	if (read_only)
		return 0;
	/* A program that opens the store for a single write has no later time for due merges. */
	if (kv->opt.flags & (KV_NO_THREAD | KV_STREAM))
		return kv->stats.flushes ? compact_due(kv) : 0;
	return begin_threads(kv);
}

/**
 * store_open() - open a store
 * @kv: result
 * @disk: its disk; closed with the store, and after an error, as @offload is
 * @offload: its offload device; or NULL
 * @opt: options, or NULL
 *
 * Return: 0 or -errno with the message set.
 */
int store_open(struct kv **kv, struct kv_disk *disk, struct kv_disk *offload,
	       const struct kv_options *opt)
{
	struct kv *n = store_new(disk);
	int err;

	if (!n) {
		disk->ops->close(disk);
		if (offload)
			offload->ops->close(offload);
		return kv_no_memory();
	}
	n->offload.disk = offload;
	err = open_all(n, opt);
	if (err)
		store_free(n);
	else
		*kv = n;
	return err;
}

/**
 * store_begin() - begin to make a store that is not valid before store_finish()
 * @kv: result, for store_finish() or store_give_up()
 * @disk: the disk; closed with the store, and after an error
 * @opt: options, or NULL
 * @uuid: UUID of the store
 *
 * Return: 0 or -errno with the message set.
 */
int store_begin(struct kv **kv, struct kv_disk *disk, const struct kv_format_options *opt,
		const u8 *uuid)
{
	static const struct kv_options plain = { .size = sizeof(plain),
						 .flags = KV_NO_LOG | KV_NO_THREAD };
	int err = format_disk(disk, opt, uuid, HEADER_UNFINISHED);
	struct kv *n = err ? NULL : store_new(disk);

	if (!n) {
		disk->ops->close(disk);
		return err ?: kv_no_memory();
	}
	n->head.kind = HEADER_UNFINISHED;
	err = open_all(n, &plain);
	if (err)
		store_free(n);
	else
		*kv = n;
	return err;
}

/**
 * store_finish() - make a store valid that was begun with store_begin()
 * @kv: the store; closed in any case
 *
 * Return: 0; or -errno with the message set, and the store is not valid.
 */
int store_finish(struct kv *kv)
{
	int err = kv_flush(kv);

	kv->head.kind = HEADER_STORE;
	err = err ?: header_write(kv->disk, &kv->head) ?: store_flush(kv);
	store_give_up(kv);
	return err;
}

/* Close a store without a change of its header. */
void store_give_up(struct kv *kv)
{
	store_free(kv);
}

/**
 * store_repair() - read all whole chunks of the logs, write them to tables, and close the store
 * @disk: the disk; closed in any case, as @offload is
 * @offload: the offload device; or NULL
 * @opt: options, or NULL
 * @repair: how to repair
 *
 * Return: 0 or -errno with the message set.
 */
int store_repair(struct kv_disk *disk, struct kv_disk *offload, const struct kv_options *opt,
		 const struct repair *repair)
{
	/* Without a background thread, so that no merge begins. */
	struct kv_options plain = { .size = sizeof(plain), .flags = KV_NO_THREAD,
				    .l0_trigger = 1000,
				    .cache_bytes = opt ? opt->cache_bytes : 0 };
	struct kv *kv = store_new(disk);
	int err;

	if (!kv) {
		disk->ops->close(disk);
		if (offload)
			offload->ops->close(offload);
		return kv_no_memory();
	}
	kv->offload.disk = offload;
	kv->recovery.repair = repair;
	err = open_all(kv, &plain);
	if (err) {
		store_free(kv);
		return err;
	}
	return kv_close(kv);
}

/* Open the disk of a store and, if it is named, its offload device. */
static int open_disks(const char *path, const char *offload_path, bool writing,
		      struct kv_disk **disk, struct kv_disk **offload)
{
	int err = disk_open(disk, path, writing);

	*offload = NULL;
	if (err || !offload_path)
		return err;
	err = disk_open(offload, offload_path, writing);
	if (err)
		(*disk)->ops->close(*disk);
	return err;
}

EXPORTED int kv_repair(const char *path, const struct kv_options *opt, uint32_t flags,
		       void (*report)(void *ctx, const char *sentence), void *ctx)
{
	struct repair r = { .unreadable = flags & KV_REPAIR_UNREADABLE, .report = report,
			    .ctx = ctx };
	struct kv_options all = { .size = sizeof(all) };
	struct kv_disk *disk, *offload;
	int err = take_sized(&all, sizeof(all), opt, opt ? opt->size : 0, "kv_options");

	if (!err && (flags & ~(uint32_t)KV_REPAIR_UNREADABLE))
		err = kv_says(-EINVAL, "unknown flags of a repair");
	err = err ?: open_disks(path, all.offload, true, &disk, &offload);
	return err ?: store_repair(disk, offload, &all, &r);
}

EXPORTED int kv_open(struct kv **kv, const char *path, const struct kv_options *opt)
{
	struct kv_options all = { .size = sizeof(all) };
	struct kv_disk *disk, *offload;
	int err = take_sized(&all, sizeof(all), opt, opt ? opt->size : 0, "kv_options");

	if (err)
		return err;
	all.size = sizeof(all);
	err = open_disks(path, all.offload, !(all.flags & KV_READ_ONLY), &disk, &offload) ?:
		store_open(kv, disk, offload, &all);
	if (!err && !(all.flags & (KV_READ_ONLY | KV_NO_THREAD | KV_NO_LIVE)))
		(*kv)->live = live_start(*kv, path);
	return err;
}

EXPORTED const char *kv_lost(const struct kv *kv)
{
	return *kv->recovery.text ? kv->recovery.text : NULL;
}

EXPORTED int kv_lost_error(const struct kv *kv)
{
	return kv->recovery.err;
}

/* In a child of fork() the memory stays: a lock of the parent may be held for ever. */
static void leave(struct kv *kv)
{
	live_leave(kv->live);
	if (kv->disk->ops->leave)
		kv->disk->ops->leave(kv->disk);
	if (kv->offload.disk && kv->offload.disk->ops->leave)
		kv->offload.disk->ops->leave(kv->offload.disk);
}

EXPORTED int kv_close(struct kv *kv)
{
	int err = 0;

	if (!kv)
		return 0;
	if (inherited(kv)) {
		leave(kv);
		return 0;
	}
	pthread_mutex_lock(&kv->lock);
	kv->worker.stop = true;
	pthread_cond_broadcast(&kv->worker.work);
	pthread_mutex_unlock(&kv->lock);
	live_stop(kv->live);
	if (kv->worker.running)
		pthread_join(kv->worker.thread, NULL);
	if (kv->worker.running && !(kv->opt.flags & KV_NO_LOG))
		log_stop(kv);
	if (!(kv->opt.flags & (KV_READ_ONLY | KV_NO_LOG)))
		err = kv_sync(kv) ?: log_end_band(kv) ?: log_seal(kv);
	store_free(kv);
	return err;
}
