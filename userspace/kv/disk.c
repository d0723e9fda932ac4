// SPDX-License-Identifier: GPL-2.0
/* A block device or a file as a disk, without the page cache. */
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <loops.h>
#include <shingle-imr.h>

#include "error.h"
#include "disk.h"

#define DEPTH	64U

/* The disk of a killed program stays in use until the kernel has torn down its io_uring. */
#define PATIENCE_MS	1000U
#define RETRY_MS	10U

/**
 * struct real - a block device or a file
 * @disk: what the store sees
 * @fd: the open file
 * @is_block: it is a block device, not a file
 * @writing: it is open to write
 * @discards: discards have not been refused so far
 * @imr: interface to an interlaced disk, which takes levels; otherwise @imr.fd is -1
 * @ring: the io_uring
 * @has_ring: @ring is set up; without it, a request is done when it is begun
 * @lock: guards @ring
 */
struct real {
	struct kv_disk disk;
	int fd;
	bool is_block, writing, discards;
	struct shingle_imr imr;
	struct io_uring ring;
	bool has_ring;
	pthread_mutex_t lock;
};

static int real_read(struct kv_disk *d, u64 offset, void *buf, u32 bytes)
{
	struct real *r = container_of(d, struct real, disk);
	ssize_t n;

	while (bytes) {
		n = pread(r->fd, buf, bytes, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		offset += (u64)n;
		buf = (u8 *)buf + n;
		bytes -= (u32)n;
	}
	return 0;
}

static int real_write(struct kv_disk *d, u64 offset, const void *buf, u32 bytes)
{
	struct real *r = container_of(d, struct real, disk);
	ssize_t n;

	while (bytes) {
		n = pwrite(r->fd, buf, bytes, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		offset += (u64)n;
		buf = (const u8 *)buf + n;
		bytes -= (u32)n;
	}
	return 0;
}

static int real_begin(struct kv_disk *d, struct kv_io *io)
{
	struct real *r = container_of(d, struct real, disk);
	struct io_uring_sqe *sqe;
	bool taken = false;
	int n;

	if (!r->has_ring)
		return disk_begin_done(d, io);
	io->busy = true;
	io->done = false;
	pthread_mutex_lock(&r->lock);
	sqe = io_uring_get_sqe(&r->ring);
	if (sqe) {
		if (io->writing)
			io_uring_prep_write(sqe, r->fd, io->buf, io->bytes, io->offset);
		else
			io_uring_prep_read(sqe, r->fd, io->buf, io->bytes, io->offset);
		io_uring_sqe_set_data(sqe, io);
		do
			n = io_uring_submit(&r->ring);
		while (n == -EINTR || n == -EAGAIN);
		/*
		 * A request that was not taken is submitted with the next one; it must do nothing
		 * then.
		 */
		taken = n >= 0 && !io_uring_sq_ready(&r->ring);
		if (!taken) {
			io_uring_prep_nop(sqe);
			io_uring_sqe_set_data(sqe, NULL);
		}
	}
	pthread_mutex_unlock(&r->lock);
	if (taken)
		return 0;
	/*
	 * The ring is full, or the kernel accepts no more requests.  That is no error of the disk:
	 * do the request now.
	 */
	disk_begin_done(d, io);
	io->result = io->result ?: (int)io->bytes;
	io->done = true;
	return 0;
}

/* Do the rest of a request that was done in part. */
static int finish(struct kv_disk *d, struct kv_io *io)
{
	u32 n = (u32)max(io->result, 0) / BLOCK_BYTES * BLOCK_BYTES;
	u8 *buf = (u8 *)io->buf + n;

	if (io->result < 0 && io->result != -EINTR && io->result != -EAGAIN)
		return io->result;
	if (n == io->bytes)
		return 0;
	return io->writing ? real_write(d, io->offset + n, buf, io->bytes - n) :
			     real_read(d, io->offset + n, buf, io->bytes - n);
}

static int real_end(struct kv_disk *d, struct kv_io *io)
{
	struct real *r = container_of(d, struct real, disk);
	struct io_uring_cqe *cqe;
	struct kv_io *other;
	int err = 0;

	if (!r->has_ring)
		return disk_end_done(d, io);
	pthread_mutex_lock(&r->lock);
	while (!io->done && !err) {
		err = io_uring_wait_cqe(&r->ring, &cqe);
		if (err == -EINTR) {
			err = 0;
			continue;
		}
		if (err)
			break;
		other = io_uring_cqe_get_data(cqe);
		if (other) {
			other->result = cqe->res;
			other->done = true;
		}
		io_uring_cqe_seen(&r->ring, cqe);
	}
	pthread_mutex_unlock(&r->lock);
	io->busy = false;
	return err ?: finish(d, io);
}

static int real_flush(struct kv_disk *d)
{
	struct real *r = container_of(d, struct real, disk);

	return fdatasync(r->fd) ? -errno : 0;
}

static int real_discard(struct kv_disk *d, u64 offset, u64 bytes)
{
	struct real *r = container_of(d, struct real, disk);
	u64 range[2] = { offset, bytes };
	int got;

	if (!r->discards)
		return -EOPNOTSUPP;
	got = r->is_block ? ioctl(r->fd, BLKDISCARD, range) :
		fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			  (off_t)bytes);
	if (!got)
		return 0;
	if (errno == EOPNOTSUPP)
		r->discards = false;
	return -errno;
}

#define ZEROES		(64U << 10)
#define ZEROES_MOST	16U

/*
 * A file system must commit its journal in a flush after a write to blocks that the file did not
 * have, or that were never written.  Writing zeroes there first avoids that.
 */
static void real_prepare(struct kv_disk *d, u64 offset, u32 bytes)
{
	static u8 zeroes[ZEROES] __attribute__((__aligned__(BLOCK_BYTES)));
	struct real *r = container_of(d, struct real, disk);
	struct iovec v[ZEROES_MOST];
	u32 n;

	if (r->is_block)
		return;
	for (n = 0; n < ZEROES_MOST && bytes; n++) {
		v[n] = (struct iovec){ .iov_base = zeroes, .iov_len = min(bytes, ZEROES) };
		bytes -= min(bytes, ZEROES);
	}
	/* If this fails, later writes are only slower. */
	if (pwritev(r->fd, v, (int)n, (off_t)offset) < 0)
		return;
}

static int real_level(struct kv_disk *d, u64 offset, u64 bytes, u32 level, bool moved)
{
	struct real *r = container_of(d, struct real, disk);

	/* If two bands shared a track, one level would apply to both. */
	if (r->imr.fd < 0 || offset % r->imr.track_bytes || bytes % r->imr.track_bytes)
		return -EOPNOTSUPP;
	return (moved ? shingle_imr_relevel : shingle_imr_level)(&r->imr, offset, bytes, level);
}

static void real_close(struct kv_disk *d)
{
	struct real *r = container_of(d, struct real, disk);

	shingle_imr_close(&r->imr);
	if (r->has_ring)
		io_uring_queue_exit(&r->ring);
	/* A child of fork() may still have the file open, which would keep the lock. */
	if (r->fd >= 0 && r->writing)
		flock(r->fd, LOCK_UN);
	if (r->fd >= 0)
		close(r->fd);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* The child has no mapping of the ring, so io_uring_queue_exit() must not be called. */
static void real_leave(struct kv_disk *d)
{
	struct real *r = container_of(d, struct real, disk);

	shingle_imr_close(&r->imr);
	if (r->has_ring)
		close(r->ring.ring_fd);
	close(r->fd);
}

static const struct kv_disk_ops real_ops = {
	.read = real_read,
	.write = real_write,
	.begin = real_begin,
	.end = real_end,
	.flush = real_flush,
	.discard = real_discard,
	.prepare = real_prepare,
	.level = real_level,
	.close = real_close,
	.leave = real_leave,
};

/*
 * Open and lock the file.  Return: 0; or -errno, with @fd open only if another store has the file.
 */
static int hold(struct real *r, const char *path, int flags, bool writing)
{
	u32 tries = PATIENCE_MS / RETRY_MS;
	int err;

	for (;;) {
		if (r->fd < 0)
			r->fd = open(path, flags);
		if (r->fd < 0 && errno == EINVAL && !r->is_block)
			r->fd = open(path, flags & ~O_DIRECT);
		if (r->fd < 0)
			err = -errno;
		/*
		 * O_EXCL keeps file systems away; the lock keeps other stores away, for files as
		 * well.
		 */
		else if (!flock(r->fd, (writing ? LOCK_EX : LOCK_SH) | LOCK_NB))
			return 0;
		else
			err = errno == EWOULDBLOCK ? -EBUSY : -errno;
		if (err != -EBUSY || !tries--)
			return err;
		usleep(RETRY_MS * 1000);
	}
}

static int take(struct real *r, const char *path, bool writing)
{
	int flags = (writing ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC;
	char loop[64];
	struct stat st;
	int err;

	if (stat(path, &st))
		return kv_says(-errno, "%s: %s", path, strerror(errno));
	r->is_block = S_ISBLK(st.st_mode);
	if (!r->is_block && !S_ISREG(st.st_mode))
		return kv_says(-EINVAL, "%s is neither a block device nor a file", path);
	if (!r->is_block && loop_over(&st, loop, sizeof(loop)))
		return kv_says(-EBUSY, "%s is in use by the loop device /dev/%s: use that device instead",
			       path, loop);
	if (r->is_block && writing)
		flags |= O_EXCL;
	err = hold(r, path, flags, writing);
	r->writing = writing && !err;
	if (err && r->fd < 0)
		return kv_says(err, "%s cannot be opened: %s", path, strerror(-err));
	if (err)
		return kv_says(err, "%s is in use by another store", path);
	r->disk.bytes = (u64)st.st_size;
	if (r->is_block && ioctl(r->fd, BLKGETSIZE64, &r->disk.bytes))
		return kv_says(-errno, "size of %s: %s", path, strerror(errno));
	/*
	 * A container may forbid io_uring, a limit of locked memory may prevent it, or the kernel
	 * lacks it.
	 */
	err = io_uring_queue_init(DEPTH, &r->ring, 0);
	r->has_ring = !err;
	r->disk.ring_error = -err;
	/* Without access to device mapper, or on another disk, the store sends no levels. */
	if (writing && shingle_imr_open(&r->imr, r->fd))
		r->imr.fd = -1;
	return 0;
}

/**
 * disk_open() - open a block device or a file
 * @disk: result
 * @path: its path
 * @writing: open it to write, exclusively
 *
 * Return: 0, or -errno with the message set.
 */
int disk_open(struct kv_disk **disk, const char *path, bool writing)
{
	size_t len = strlen(path) + 1;
	struct real *r = calloc(1, sizeof(*r) + len);
	int err;

	if (!r)
		return kv_no_memory();
	memcpy(r + 1, path, len);
	r->disk.ops = &real_ops;
	r->disk.name = (const char *)(r + 1);
	r->fd = -1;
	r->discards = true;
	r->imr = (struct shingle_imr){ .fd = -1, .control = -1 };
	pthread_mutex_init(&r->lock, NULL);
	err = take(r, path, writing);
	if (err)
		real_close(&r->disk);
	else
		*disk = &r->disk;
	return err;
}
