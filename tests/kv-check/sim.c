// SPDX-License-Identifier: GPL-2.0
/* Implementation of the simulated disk. */
#include <stdarg.h>
#include <unistd.h>

#include "sim.h"

u64 rng = 1;

void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(1);
}

u32 rnd(u32 below)
{
	rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)((rng >> 33) % below);
}

static bool fails(struct sim *s, enum sim_what what)
{
	if (++s->ops != s->fail)
		return false;
	s->failed = (int)what + 1;
	return true;
}

static void record(struct sim *s, bool spare, enum sim_what what, u64 offset, u64 bytes,
		   const void *data)
{
	struct event *e;

	if (!s->recording)
		return;
	if (s->events == s->room) {
		s->room = 2 * s->room + 64;
		s->event = realloc(s->event, s->room * sizeof(*s->event));
	}
	e = &s->event[s->events++];
	*e = (struct event){ .what = what, .spare = spare, .offset = offset, .bytes = bytes,
			     .batches = s->batches, .synced = s->synced };
	if (data) {
		e->data = malloc(bytes);
		memcpy(e->data, data, bytes);
	}
}

/* KV_STREAM: when a band is begun, each other band must be written to its end or be discarded. */
static void obey_stream(struct sim *s, u64 band)
{
	u32 bands = le32_to_cpu(((struct header *)s->data)->bands), i;

	for (i = 0; i < bands; i++) {
		if (i != band && s->pointer[i] && s->pointer[i] != s->band_bytes)
			die("band %llu begun, and band %u left at %u", band, i, s->pointer[i]);
	}
}

/*
 * The rule of a shingled disk: a write to a band begins at its start or behind the last write to
 * it.
 */
static void obey(struct sim *s, u64 offset, u32 bytes)
{
	u64 at, band;

	if (!s->pointer || offset < s->bands_offset)
		return;
	band = (offset - s->bands_offset) / s->band_bytes;
	at = (offset - s->bands_offset) % s->band_bytes;
	if (at + bytes > s->band_bytes)
		die("a write from band %llu into the next", band);
	if (s->stream && !s->pointer[band])
		obey_stream(s, band);
	/* A lead-in is the end of a band without contents. */
	if (s->stream && at && !s->pointer[band])
		s->pointer[band] = (u32)at;
	if (at && at != s->pointer[band])
		die("band %llu written at %llu, not at %u", band, at, s->pointer[band]);
	if (!at && s->pointer[band])
		die("band %llu was not discarded before it is written anew", band);
	s->pointer[band] = (u32)at + bytes;
}

static const struct kv_disk_ops spare_ops;

static bool is_face(const struct kv_disk *d)
{
	return d->ops == &spare_ops;
}

static struct sim *sim_of(struct kv_disk *d)
{
	return is_face(d) ? container_of(d, struct sim, spare) : container_of(d, struct sim, disk);
}

/* Return: the offset in the contents of both devices. */
static u64 in_range(struct kv_disk *d, u64 offset, u64 bytes)
{
	if (offset % BLOCK_BYTES || bytes % BLOCK_BYTES || !bytes || offset + bytes > d->bytes)
		die("a request for %llu bytes at %llu", bytes, offset);
	return offset + (is_face(d) ? sim_of(d)->disk.bytes : 0);
}

/* Any thread may call this, so it has its own random numbers. */
static bool unlucky(struct sim *s)
{
	if (!s->bad_luck)
		return false;
	s->luck = s->luck * 6364136223846793005ULL + 1442695040888963407ULL;
	return (s->luck >> 33) % s->bad_luck == 0;
}

static int do_read(struct kv_disk *d, u64 offset, void *buf, u32 bytes)
{
	struct sim *s = sim_of(d);

	offset = in_range(d, offset, bytes);
	if (fails(s, SIM_READ) || s->unreadable || unlucky(s) ||
	    (offset < s->hole + s->hole_bytes && s->hole < offset + bytes))
		return -EIO;
	memcpy(buf, s->data + offset, bytes);
	return 0;
}

static int do_write(struct kv_disk *d, u64 offset, const void *buf, u32 bytes)
{
	struct sim *s = sim_of(d);

	offset = in_range(d, offset, bytes);
	if ((uintptr_t)buf % BLOCK_BYTES)
		die("a buffer that direct I/O would refuse");
	if (!is_face(d))
		obey(s, offset, bytes);
	if (fails(s, SIM_WRITE))
		return -EIO;
	record(s, is_face(d), SIM_WRITE, offset, bytes, buf);
	memcpy(s->data + offset, buf, bytes);
	if (s->watch)
		s->watch(SIM_WRITE, offset, bytes, buf);
	return 0;
}

static int do_flush(struct kv_disk *d)
{
	struct sim *s = sim_of(d);

	if (fails(s, SIM_FLUSH))
		return -EIO;
	record(s, is_face(d), SIM_FLUSH, 0, 0, NULL);
	return 0;
}

static int do_discard(struct kv_disk *d, u64 offset, u64 bytes)
{
	struct sim *s = sim_of(d);

	offset = in_range(d, offset, bytes);
	if (s->pointer && !is_face(d) && offset >= s->bands_offset) {
		s->pointer[(offset - s->bands_offset) / s->band_bytes] = 0;
		s->level[(offset - s->bands_offset) / s->band_bytes] = 0;
	}
	if (fails(s, SIM_DISCARD))
		return -EIO;
	record(s, is_face(d), SIM_DISCARD, offset, bytes, NULL);
	memset(s->data + offset, 0xdd, bytes);
	if (s->watch)
		s->watch(SIM_DISCARD, offset, bytes, NULL);
	return 0;
}

/* One request at a time; recursive, as a watch function may make another request. */
static pthread_mutex_t one = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static int sim_read(struct kv_disk *d, u64 offset, void *buf, u32 bytes)
{
	int err;

	pthread_mutex_lock(&one);
	err = do_read(d, offset, buf, bytes);
	pthread_mutex_unlock(&one);
	return err;
}

static int sim_write(struct kv_disk *d, u64 offset, const void *buf, u32 bytes)
{
	int err;

	pthread_mutex_lock(&one);
	err = do_write(d, offset, buf, bytes);
	pthread_mutex_unlock(&one);
	if (sim_of(d)->slow)
		usleep(1);
	return err;
}

static int sim_flush(struct kv_disk *d)
{
	int err;

	pthread_mutex_lock(&one);
	err = do_flush(d);
	pthread_mutex_unlock(&one);
	if (sim_of(d)->flushing)
		sim_of(d)->flushing();
	return err;
}

static int sim_discard(struct kv_disk *d, u64 offset, u64 bytes)
{
	int err;

	pthread_mutex_lock(&one);
	err = do_discard(d, offset, bytes);
	pthread_mutex_unlock(&one);
	return err;
}

/*
 * As on an interlaced disk, where a written track has a fixed place: the store must set the level
 * of a band before it writes the band, or with @moved when the band has been written.
 */
static int sim_level(struct kv_disk *d, u64 offset, u64 bytes, u32 level, bool moved)
{
	struct sim *s = container_of(d, struct sim, disk);
	u64 band;

	/* Without rules of bands there are no levels either. */
	if (!s->pointer)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&one);
	in_range(d, offset, bytes);
	if (offset < s->bands_offset || (offset - s->bands_offset) % s->band_bytes ||
	    bytes != s->band_bytes)
		die("a level of %llu bytes at %llu, which are no band", bytes, offset);
	band = (offset - s->bands_offset) / s->band_bytes;
	if (!moved == !!s->pointer[band])
		die("the level of band %llu is set when %u bytes of it are written", band,
		    s->pointer[band]);
	s->level[band] = level;
	pthread_mutex_unlock(&one);
	return 0;
}

static void sim_close(struct kv_disk *d)
{
}

static const struct kv_disk_ops sim_ops = {
	.read = sim_read,
	.write = sim_write,
	.begin = disk_begin_done,
	.end = disk_end_done,
	.flush = sim_flush,
	.discard = sim_discard,
	.level = sim_level,
	.close = sim_close,
};

static const struct kv_disk_ops spare_ops = {
	.read = sim_read,
	.write = sim_write,
	.begin = disk_begin_done,
	.end = disk_end_done,
	.flush = sim_flush,
	.discard = sim_discard,
	.close = sim_close,
};

u64 sim_bytes(const struct sim *s)
{
	return s->disk.bytes + s->spare.bytes;
}

void sim_add_spare(struct sim *s, u64 bytes)
{
	s->data = realloc(s->data, s->disk.bytes + bytes);
	memset(s->data + s->disk.bytes, 0xee, bytes);
	s->spare = (struct kv_disk){ .ops = &spare_ops, .name = "spare", .bytes = bytes };
}

/* Open the store, with its offload device if there is one. */
int sim_open(struct kv **kv, struct sim *s, const struct kv_options *opt)
{
	return store_open(kv, &s->disk, s->spare.bytes ? &s->spare : NULL, opt);
}

struct sim *sim_new(u64 bytes)
{
	struct sim *s = calloc(1, sizeof(*s));

	s->disk = (struct kv_disk){ .ops = &sim_ops, .name = "sim", .bytes = bytes };
	s->data = malloc(bytes);
	memset(s->data, 0xee, bytes);
	return s;
}

void sim_forget(struct sim *s)
{
	while (s->events)
		free(s->event[--s->events].data);
}

void sim_free(struct sim *s)
{
	sim_forget(s);
	free(s->event);
	free(s->pointer);
	free(s->level);
	free(s->data);
	free(s);
}

/* Enforce the rules of bands from now on, with the layout of the header. */
void sim_bands(struct sim *s)
{
	struct header *h = (struct header *)s->data;

	s->bands_offset = le64_to_cpu(h->bands_offset);
	s->band_bytes = le32_to_cpu(h->band_bytes);
	free(s->pointer);
	free(s->level);
	s->pointer = calloc(le32_to_cpu(h->bands), sizeof(*s->pointer));
	s->level = calloc(le32_to_cpu(h->bands), sizeof(*s->level));
}

struct kv_disk *sim_disk(struct sim *s)
{
	return &s->disk;
}
