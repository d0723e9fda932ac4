// SPDX-License-Identifier: GPL-2.0
/* The files of the load on a block device, through ordinary I/O. */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"

#define BLOCK		4096U
#define MAX_UNIT	(1U << 20)	/* what one bio carries */
#define MAGIC		0x736c6576656c2d62ULL
#define MAX_SENTENCES	10

/**
 * struct block - what each 4 KiB block of a file says
 * @magic: MAGIC
 * @file: id of the file
 * @nr: of the block in it
 * @sum: of the three
 * @fill: follows from them
 */
struct block {
	__le64 magic, file, nr, sum;
	__le64 fill[BLOCK / 8 - 4];
};

double disk_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static u64 mix64(u64 v)
{
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ULL;
	v = (v ^ v >> 27) * 0x94d049bb133111ebULL;
	return v ^ v >> 31;
}

static u64 block_sum(u64 file, u64 nr)
{
	return mix64(MAGIC ^ mix64(file + 1) ^ mix64(~nr));
}

static void block_make(struct block *b, u64 file, u64 nr)
{
	u64 sum = block_sum(file, nr), i;

	b->magic = cpu_to_le64(MAGIC);
	b->file = cpu_to_le64(file);
	b->nr = cpu_to_le64(nr);
	b->sum = cpu_to_le64(sum);
	for (i = 0; i < ARRAY_SIZE(b->fill); i++)
		b->fill[i] = cpu_to_le64(sum + (i + 1) * 0x9e3779b97f4a7c15ULL);
}

/* What a block holds that should hold another, for people. */
static void block_describe(const struct block *b, char *text, size_t size)
{
	u64 file = le64_to_cpu(b->file), nr = le64_to_cpu(b->nr);
	static const struct block zeroes;
	struct block whole;

	if (!memcmp(b, &zeroes, sizeof(zeroes))) {
		snprintf(text, size, "zeroes");
		return;
	}
	block_make(&whole, file, nr);
	if (le64_to_cpu(b->magic) != MAGIC || le64_to_cpu(b->sum) != block_sum(file, nr))
		snprintf(text, size, "nothing that was written");
	else if (memcmp(b, &whole, sizeof(whole)))
		snprintf(text, size, "parts of block %llu of file %llu", nr, file);
	else
		snprintf(text, size, "block %llu of file %llu", nr, file);
}

static bool open_checked(struct disk *d)
{
	int flags = O_RDWR | O_DIRECT | O_CLOEXEC;
	struct stat st;

	if (stat(d->opt.path, &st)) {
		fail("DEVICE %s: %s", d->opt.path, strerror(errno));
		return false;
	}
	d->is_block = S_ISBLK(st.st_mode);
	if (!d->is_block && !S_ISREG(st.st_mode)) {
		fail("DEVICE %s is neither a block device nor a file", d->opt.path);
		return false;
	}
	d->fd = open(d->opt.path, flags | (d->is_block ? O_EXCL : 0));
	if (d->fd < 0 && errno == EINVAL && !d->is_block)
		d->fd = open(d->opt.path, flags & ~O_DIRECT);
	if (d->fd < 0) {
		fail("DEVICE %s cannot be opened: %s%s", d->opt.path, strerror(errno),
		     errno == EBUSY ? "; unmount it, or remove what is on top of it" : "");
		return false;
	}
	d->bytes = (u64)st.st_size;
	if (d->is_block && ioctl(d->fd, BLKGETSIZE64, &d->bytes)) {
		fail("size of DEVICE %s cannot be found out: %s", d->opt.path, strerror(errno));
		return false;
	}
	if (d->is_block)
		dm_device_at(st.st_rdev, &d->mapped);
	return true;
}

/**
 * disk_open() - use a device
 * @d: result
 * @opt: how; @opt->path must live as long as @d
 *
 * Returns 0, or a negative errno after saying what is wrong; disk_close() in
 * both cases.
 */
int disk_open(struct disk *d, const struct disk_options *opt)
{
	int err;

	memset(d, 0, sizeof(*d));
	d->opt = *opt;
	d->fd = -1;
	d->ring.ring_fd = -1;
	if (!open_checked(d))
		return -EINVAL;
	if (opt->hints && strcmp(d->mapped.target, "imr")) {
		fail("DEVICE %s takes no levels: it is no imr device; leave the hints out",
		     opt->path);
		return -EINVAL;
	}
	err = io_uring_queue_init(DISK_DEPTH, &d->ring, 0);
	if (err) {
		d->ring.ring_fd = -1;
		fail("io_uring is not to be had: %s", strerror(-err));
		return err;
	}
	d->unit_bytes = min(opt->track_bytes, MAX_UNIT);
	while (opt->track_bytes % d->unit_bytes)
		d->unit_bytes -= BLOCK;
	d->buffer = aligned_alloc(BLOCK, (size_t)DISK_DEPTH * d->unit_bytes);
	d->expected = aligned_alloc(BLOCK, d->unit_bytes);
	return d->buffer && d->expected ? 0 : -ENOMEM;
}

void disk_close(struct disk *d)
{
	if (d->ring.ring_fd >= 0)
		io_uring_queue_exit(&d->ring);
	if (d->fd >= 0)
		close(d->fd);
	dm_line_free(&d->mapped);
	free(d->buffer);
	free(d->expected);
	d->fd = -1;
	d->ring.ring_fd = -1;
	d->buffer = NULL;
	d->expected = NULL;
}

static void fill_unit(u8 *buf, u64 file, u64 at, u32 bytes)
{
	u32 i;

	for (i = 0; i < bytes; i += BLOCK)
		block_make((struct block *)(buf + i), file, (at + i) / BLOCK);
}

static void check_unit(struct disk *d, const struct extent *e, u64 at, const u8 *buf, u32 bytes)
{
	char what[96];
	u32 i;

	d->ledger.verified_blocks += bytes / BLOCK;
	fill_unit(d->expected, e->id, at, bytes);
	if (!memcmp(buf, d->expected, bytes))
		return;
	for (i = 0; i < bytes; i += BLOCK) {
		if (!memcmp(buf + i, d->expected + i, BLOCK))
			continue;
		if (d->ledger.bad_blocks++ >= MAX_SENTENCES)
			continue;
		block_describe((const struct block *)(buf + i), what, sizeof(what));
		fail("block %llu of file %llu, at track %u, is lost: there is %s",
		     (at + i) / BLOCK, e->id, e->track[(at + i) / d->opt.track_bytes], what);
	}
}

/**
 * struct transfer - a part of a file on its way
 * @e: the file
 * @writing: to the device
 * @at: next byte to ask for
 * @end: behind the last
 * @slot: parts under way by their buffer; bytes is 0 for a free one
 */
struct transfer {
	const struct extent *e;
	bool writing;
	u64 at, end;
	struct {
		u64 at;
		u32 bytes;
	} slot[DISK_DEPTH];
};

static u64 device_offset(const struct disk *d, const struct extent *e, u64 at)
{
	return (u64)e->track[at / d->opt.track_bytes] * d->opt.track_bytes +
	       at % d->opt.track_bytes;
}

static void submit(struct disk *d, struct transfer *t, u32 slot)
{
	u8 *buf = d->buffer + (size_t)slot * d->unit_bytes;
	u32 bytes = (u32)min((u64)d->unit_bytes - t->at % d->unit_bytes, t->end - t->at);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&d->ring);
	u64 offset = device_offset(d, t->e, t->at);

	if (t->writing) {
		fill_unit(buf, t->e->id, t->at, bytes);
		io_uring_prep_write(sqe, d->fd, buf, bytes, offset);
		d->ledger.writes++;
		d->ledger.written_bytes += bytes;
	} else {
		io_uring_prep_read(sqe, d->fd, buf, bytes, offset);
		d->ledger.reads++;
		d->ledger.read_bytes += bytes;
	}
	io_uring_sqe_set_data(sqe, (void *)(uintptr_t)slot);
	t->slot[slot].at = t->at;
	t->slot[slot].bytes = bytes;
	t->at += bytes;
}

static int reap(struct disk *d, struct transfer *t, u32 *free_slot)
{
	struct io_uring_cqe *cqe;
	int err, res;
	u32 slot;

	do {
		err = io_uring_wait_cqe(&d->ring, &cqe);
	} while (err == -EINTR);
	if (err)
		return fail("io_uring: %s", strerror(-err)), err;
	slot = (u32)(uintptr_t)io_uring_cqe_get_data(cqe);
	res = cqe->res;
	io_uring_cqe_seen(&d->ring, cqe);
	if (res < 0 || (u32)res != t->slot[slot].bytes) {
		fail("%s %u bytes at byte %llu of file %llu, byte %llu of the device: %s",
		     t->writing ? "writing" : "reading", t->slot[slot].bytes, t->slot[slot].at,
		     t->e->id, device_offset(d, t->e, t->slot[slot].at),
		     res < 0 ? strerror(-res) : "it was cut short");
		err = res < 0 ? res : -EIO;
	} else if (!t->writing && d->opt.verify) {
		check_unit(d, t->e, t->slot[slot].at, d->buffer + (size_t)slot * d->unit_bytes,
			   t->slot[slot].bytes);
	}
	t->slot[slot].bytes = 0;
	*free_slot = slot;
	return err;
}

/* All requests of a part, up to DISK_DEPTH at once. */
static int transfer(struct disk *d, const struct extent *e, bool writing, u64 at, u64 bytes)
{
	struct transfer t = { .e = e, .writing = writing };
	u32 under_way = 0, slot = 0;
	int err = 0;

	t.at = at / BLOCK * BLOCK;
	t.end = round_up(at + bytes, (u64)BLOCK);
	while (t.at < t.end && under_way < DISK_DEPTH) {
		submit(d, &t, slot++);
		under_way++;
	}
	io_uring_submit(&d->ring);
	while (under_way) {
		int one = reap(d, &t, &slot);

		under_way--;
		err = err ?: one;
		if (!err && t.at < t.end) {
			submit(d, &t, slot);
			io_uring_submit(&d->ring);
			under_way++;
		}
	}
	return err;
}

/* Calls @fn for each run of neighbouring tracks of a file. */
static int each_run(struct disk *d, const struct extent *e,
		    int (*fn)(struct disk *d, const struct extent *e, u32 track, u32 n))
{
	u32 i, n;
	int err = 0;

	for (i = 0; i < e->tracks && !err; i += n) {
		for (n = 1; i + n < e->tracks && e->track[i + n] == e->track[i] + n; n++)
			;
		err = fn(d, e, e->track[i], n);
	}
	return err;
}

static int message(struct disk *d, const char *text)
{
	char *reply = dm_device_message(d->mapped.name, text);

	if (!reply)
		return -EIO;
	free(reply);
	d->ledger.messages++;
	return 0;
}

static int say_level(struct disk *d, const struct extent *e, u32 track, u32 n)
{
	char text[64];

	snprintf(text, sizeof(text), "level %u %u %u", track, n, e->level);
	return message(d, text);
}

static int say_relevel(struct disk *d, const struct extent *e, u32 track, u32 n)
{
	char text[64];

	snprintf(text, sizeof(text), "relevel %u %u %u", track, n, e->level);
	return message(d, text);
}

static int discard(struct disk *d, const struct extent *e, u32 track, u32 n)
{
	u64 range[2] = { (u64)track * d->opt.track_bytes, (u64)n * d->opt.track_bytes };

	if (!d->is_block)
		return 0;
	if (ioctl(d->fd, BLKDISCARD, range)) {
		int err = -errno;

		fail("discarding tracks %u to %u of %s: %s", track, track + n - 1, d->opt.path,
		     strerror(-err));
		return err;
	}
	d->ledger.discards++;
	d->ledger.discarded_bytes += range[1];
	return 0;
}

/**
 * disk_write() - persist a file: its level, its blocks, a flush
 * @d: the device
 * @e: the file
 *
 * Returns 0, or a negative errno after saying what is wrong; so do all below.
 */
int disk_write(struct disk *d, const struct extent *e)
{
	double began = disk_now();
	int err = 0;

	if (d->opt.hints)
		err = each_run(d, e, say_level);
	if (!err)
		err = transfer(d, e, true, 0, e->bytes);
	if (!err && fdatasync(d->fd)) {
		err = -errno;
		fail("flushing %s after file %llu: %s", d->opt.path, e->id, strerror(-err));
	}
	d->ledger.flushes++;
	d->ledger.persist_s += disk_now() - began;
	return err;
}

/* Read @bytes of a file from byte @at, for a compaction. */
int disk_read(struct disk *d, const struct extent *e, u64 at, u64 bytes)
{
	double began = disk_now();
	int err = transfer(d, e, false, at, bytes);

	d->ledger.read_s += disk_now() - began;
	return err;
}

/* Read the block that holds byte @at of a file. */
int disk_get(struct disk *d, const struct extent *e, u64 at)
{
	double began = disk_now();
	int err = transfer(d, e, false, at / BLOCK * BLOCK, BLOCK);

	d->ledger.get_s += disk_now() - began;
	return err;
}

/* A file stays where it is, on another level. */
int disk_relevel(struct disk *d, const struct extent *e)
{
	return d->opt.hints ? each_run(d, e, say_relevel) : 0;
}

/* A file is deleted. */
int disk_drop(struct disk *d, const struct extent *e)
{
	double began = disk_now();
	int err = d->opt.discards ? each_run(d, e, discard) : 0;

	d->ledger.discard_s += disk_now() - began;
	return err;
}
