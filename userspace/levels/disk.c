// SPDX-License-Identifier: GPL-2.0
/* The files of the load on a block device, through ordinary I/O. */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"

#define BLOCK		4096U
#define MAX_UNIT	(1U << 20)	/* largest size of one bio */
#define MAGIC		0x736c6576656c2d62ULL
#define MAX_SENTENCES	10

/**
 * struct block - content of each 4 KiB block of a file
 * @magic: MAGIC
 * @file: id of the file
 * @nr: number of the block in the file
 * @sum: checksum of the three
 * @fill: derived from them
 */
struct block {
	__le64 magic, file, nr, sum;
	__le64 fill[BLOCK / 8 - 4];
};

/* Return: the time in seconds, of the drive model if there is one, else of the host. */
double disk_now(const struct disk *d)
{
	struct timespec t;

	if (d->timed)
		return (double)d->timed->now_ns / 1e9;
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

/* Describe a block with wrong content, for messages. */
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

static bool can_discard(dev_t rdev)
{
	unsigned long long most = 0;
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/discard_max_bytes", major(rdev),
		 minor(rdev));
	f = fopen(path, "re");
	if (f && fscanf(f, "%llu", &most) != 1)
		most = 0;
	if (f)
		fclose(f);
	return most;
}

/* May the device be overwritten: does it hold nothing that a user may need? */
static bool may_be_written(const struct disk_options *opt)
{
	struct device look;
	char what[256];
	bool found;

	if (!device_open(&look, "DEVICE", opt->path, DEVICE_READ))
		return false;
	found = device_has_content(&look, what, sizeof(what));
	device_close(&look);
	if (found && !opt->force)
		fail("DEVICE %s holds %s: it was left alone; --force writes over it", opt->path,
		     what);
	return !found || opt->force;
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
	if (!d->opt.reading && !may_be_written(&d->opt))
		return false;
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
	if (d->is_block) {
		dm_device_at(st.st_rdev, &d->mapped);
		d->opt.discards = d->opt.discards && can_discard(st.st_rdev);
	}
	return true;
}

/* Choose the unit of requests: as large as possible, and a divisor of a track. */
static void choose_unit(struct disk *d)
{
	d->unit_bytes = min(d->opt.track_bytes, MAX_UNIT);
	while (d->opt.track_bytes % d->unit_bytes)
		d->unit_bytes -= BLOCK;
}

static int open_timed(struct disk *d)
{
	d->timed = malloc(sizeof(*d->timed));
	if (!d->timed)
		return -ENOMEM;
	if (!timed_init(d->timed, d->opt.drive, d->opt.flush_us))
		return -EINVAL;
	d->bytes = d->timed->bytes;
	choose_unit(d);
	return 0;
}

/**
 * disk_open() - open a device or a drive model
 * @d: result
 * @opt: options; @opt->path and @opt->drive must live as long as @d
 *
 * The caller must call disk_close() in either case.
 *
 * Return: 0, or a negative errno after an error message.
 */
int disk_open(struct disk *d, const struct disk_options *opt)
{
	struct iovec buffer;
	size_t size;
	int err;

	memset(d, 0, sizeof(*d));
	d->opt = *opt;
	d->fd = -1;
	d->imr.control = -1;
	d->ring.ring_fd = -1;
	if (opt->drive)
		return open_timed(d);
	if (!open_checked(d))
		return -EINVAL;
	err = opt->hints ? shingle_imr_open(&d->imr, d->fd) : 0;
	if (err) {
		fail("DEVICE %s takes no levels: %s; leave the hints out", opt->path,
		     err == -ENOTTY ? "it is no imr device" : strerror(-err));
		return -EINVAL;
	}
	if (opt->hints && opt->track_bytes % d->imr.track_bytes) {
		fail("tracks of %s are no multiple of those of DEVICE %s, which are of %s: choose another --track",
		     size_text(opt->track_bytes).s, opt->path, size_text(d->imr.track_bytes).s);
		return -EINVAL;
	}
	err = io_uring_queue_init(DISK_DEPTH, &d->ring, 0);
	if (err) {
		d->ring.ring_fd = -1;
		fail("io_uring is not to be had: %s", strerror(-err));
		return err;
	}
	choose_unit(d);
	size = (size_t)(opt->contents ? DISK_DEPTH : 1) * d->unit_bytes;
	d->buffer = aligned_alloc(BLOCK, size);
	d->expected = aligned_alloc(BLOCK, d->unit_bytes);
	if (!d->buffer || !d->expected)
		return -ENOMEM;
	memset(d->buffer, 0, size);
	buffer = (struct iovec){ .iov_base = d->buffer, .iov_len = size };
	/*
	 * Registered buffers are only faster: without permission to lock memory they are not used.
	 */
	d->registered = !io_uring_register_buffers(&d->ring, &buffer, 1);
	return 0;
}

void disk_close(struct disk *d)
{
	u32 i;

	if (d->ring.ring_fd >= 0)
		io_uring_queue_exit(&d->ring);
	if (d->fd >= 0)
		close(d->fd);
	shingle_imr_close(&d->imr);
	dm_line_free(&d->mapped);
	for (i = 0; d->slot && i < d->opt.backup_slots; i++)
		free(d->slot[i].data);
	free(d->slot);
	free(d->valid_bytes);
	free(d->request);
	free(d->buffer);
	free(d->expected);
	free(d->timed);
	d->fd = -1;
	d->ring.ring_fd = -1;
	d->buffer = NULL;
	d->expected = NULL;
	d->timed = NULL;
	d->request = NULL;
	d->valid_bytes = NULL;
	d->slot = NULL;
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

	d->stats.verified_blocks += bytes / BLOCK;
	fill_unit(d->expected, e->id, at, bytes);
	if (!memcmp(buf, d->expected, bytes))
		return;
	for (i = 0; i < bytes; i += BLOCK) {
		if (!memcmp(buf + i, d->expected + i, BLOCK))
			continue;
		if (d->stats.bad_blocks++ >= MAX_SENTENCES)
			continue;
		block_describe((const struct block *)(buf + i), what, sizeof(what));
		fail("block %llu of file %llu, at track %u, is lost: there is %s",
		     (at + i) / BLOCK, e->id, e->track[(at + i) / d->opt.track_bytes], what);
	}
}

static u64 device_offset(const struct disk *d, const struct extent *e, u64 at)
{
	return (u64)e->track[at / d->opt.track_bytes] * d->opt.track_bytes +
	       at % d->opt.track_bytes;
}

/* Add a request to the current step, cut into units. */
static int add_request(struct disk *d, struct request r)
{
	u64 left = r.bytes;

	while (left) {
		r.bytes = (u32)min(left, (u64)d->unit_bytes - r.offset % d->unit_bytes);
		if (d->nr_requests == d->max_requests) {
			u32 max = 2 * d->max_requests + 64;
			struct request *more = realloc(d->request, max * sizeof(*more));

			if (!more)
				return -ENOMEM;
			d->request = more;
			d->max_requests = max;
		}
		d->request[d->nr_requests++] = r;
		left -= r.bytes;
		r.offset += r.bytes;
		r.file_at += r.bytes;
		if (r.data)
			r.data += r.bytes;
	}
	return 0;
}

static void count(struct disk *d, const struct request *r)
{
	if (r->writing) {
		d->stats.writes++;
		d->stats.written_bytes += r->bytes;
	} else {
		d->stats.reads++;
		d->stats.read_bytes += r->bytes;
	}
}

static void submit(struct disk *d, const struct extent *e, u32 nr, u32 slot)
{
	const struct request *r = &d->request[nr];
	u8 *buf = r->data ?: d->buffer + (d->opt.contents ? (size_t)slot * d->unit_bytes : 0);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&d->ring);
	bool fixed = d->registered && !r->data;

	if (r->writing) {
		if (!r->data && d->opt.contents)
			fill_unit(buf, e->id, r->file_at, r->bytes);
		if (fixed)
			io_uring_prep_write_fixed(sqe, d->fd, buf, r->bytes, r->offset, 0);
		else
			io_uring_prep_write(sqe, d->fd, buf, r->bytes, r->offset);
	} else {
		if (fixed)
			io_uring_prep_read_fixed(sqe, d->fd, buf, r->bytes, r->offset, 0);
		else
			io_uring_prep_read(sqe, d->fd, buf, r->bytes, r->offset);
	}
	count(d, r);
	io_uring_sqe_set_data64(sqe, (u64)nr << 8 | slot);
}

static int reap(struct disk *d, const struct extent *e, u32 *slot)
{
	const struct request *r;
	struct io_uring_cqe *cqe;
	int err, res;
	u64 mark;

	/* One call submits new requests and waits for the next completion: there are millions. */
	do {
		err = io_uring_submit_and_wait(&d->ring, 1);
		err = err < 0 ? err : io_uring_peek_cqe(&d->ring, &cqe);
	} while (err == -EINTR || err == -EAGAIN);
	if (err)
		return fail("io_uring: %s", strerror(-err)), err;
	mark = io_uring_cqe_get_data64(cqe);
	res = cqe->res;
	io_uring_cqe_seen(&d->ring, cqe);
	*slot = mark & 0xff;
	r = &d->request[mark >> 8];
	if (res < 0 || (u32)res != r->bytes) {
		fail("%s %u bytes at byte %llu of %s, for file %llu: %s",
		     r->writing ? "writing" : "reading", r->bytes, r->offset, d->opt.path, e->id,
		     res < 0 ? strerror(-res) : "it was cut short");
		return res < 0 ? res : -EIO;
	}
	if (!r->writing && !r->data && d->opt.verify)
		check_unit(d, e, r->file_at, d->buffer + (size_t)*slot * d->unit_bytes, r->bytes);
	return 0;
}

/* The same on a drive model, which serves requests in order. */
static void execute_timed(struct disk *d)
{
	u64 done[DISK_DEPTH], arrival = d->timed->now_ns;
	u32 i;

	for (i = 0; i < d->nr_requests; i++) {
		const struct request *r = &d->request[i];

		/* Each completion lets one more request arrive. */
		if (i >= DISK_DEPTH)
			arrival = done[i % DISK_DEPTH];
		done[i % DISK_DEPTH] = timed_serve(d->timed, arrival, r->writing, r->offset,
						   r->bytes);
		d->timed->now_ns = done[i % DISK_DEPTH];
		count(d, r);
	}
	d->nr_requests = 0;
}

/* Execute all requests of the step in order, up to DISK_DEPTH in flight. */
static int execute(struct disk *d, const struct extent *e)
{
	u32 in_flight = 0, next = 0, slot;
	int err = 0;

	if (d->timed) {
		execute_timed(d);
		return 0;
	}
	while (next < d->nr_requests && in_flight < DISK_DEPTH)
		submit(d, e, next++, in_flight++);
	while (in_flight) {
		int one = reap(d, e, &slot);

		in_flight--;
		err = err ?: one;
		if (!err && next < d->nr_requests) {
			submit(d, e, next++, slot);
			in_flight++;
		}
	}
	d->nr_requests = 0;
	return err;
}

/* Read or write a part of a file. */
static int transfer(struct disk *d, const struct extent *e, bool writing, u64 at, u64 bytes)
{
	u64 end = round_up(at + bytes, (u64)BLOCK);
	int err = 0;

	for (at = at / BLOCK * BLOCK; at < end && !err; ) {
		struct request r = {
			.offset = device_offset(d, e, at), .file_at = at, .writing = writing,
			.bytes = (u32)min(d->opt.track_bytes - at % d->opt.track_bytes, end - at),
		};

		err = add_request(d, r);
		at += r.bytes;
	}
	return err ?: execute(d, e);
}

/* Call @fn for each run of adjacent tracks of a file. */
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

/* Send a message of shingle-imr.h about @n tracks of a file. */
static int send_message(struct disk *d, const struct extent *e, u32 track, u32 n,
		int (*message)(struct shingle_imr *imr, uint64_t offset, uint64_t length,
			       unsigned int level))
{
	int err = message(&d->imr, (u64)track * d->opt.track_bytes,
			  (u64)n * d->opt.track_bytes, e->level);

	if (err)
		fail("telling %s that tracks %u to %u are of level %u: %s", d->opt.path, track,
		     track + n - 1, e->level, strerror(-err));
	else
		d->stats.messages++;
	return err;
}

static int send_level(struct disk *d, const struct extent *e, u32 track, u32 n)
{
	return send_message(d, e, track, n, shingle_imr_level);
}

static int send_relevel(struct disk *d, const struct extent *e, u32 track, u32 n)
{
	return send_message(d, e, track, n, shingle_imr_relevel);
}

static int discard(struct disk *d, const struct extent *e, u32 track, u32 n)
{
	u64 range[2] = { (u64)track * d->opt.track_bytes, (u64)n * d->opt.track_bytes };
	int err;

	if (!d->is_block)
		return 0;
	if (d->opt.hints)
		err = shingle_imr_discard(&d->imr, range[0], range[1]);
	else
		err = ioctl(d->fd, BLKDISCARD, range) ? -errno : 0;
	if (err) {
		fail("discarding tracks %u to %u of %s: %s", track, track + n - 1, d->opt.path,
		     strerror(-err));
		return err;
	}
	d->stats.discards++;
	d->stats.discarded_bytes += range[1];
	return 0;
}

static int flush(struct disk *d, const struct extent *e)
{
	int err = 0;

	if (d->timed)
		d->timed->now_ns = platter_mech_flush(&d->timed->mech, d->timed->now_ns);
	else if (fdatasync(d->fd))
		err = -errno;
	if (err)
		fail("flushing %s for file %llu: %s", d->opt.path, e->id, strerror(-err));
	d->stats.flushes++;
	return err;
}

/**
 * disk_protect() - prepare to protect tops
 * @d: the device, an interlaced disk without a translation layer
 * @tracks: tracks for data, an even number; the backup region follows. Only its tops are used: no
 * bottom beside them is ever written
 *
 * Return: 0 or -ENOMEM.
 */
int disk_protect(struct disk *d, u32 tracks)
{
	u32 i;

	d->tracks = tracks;
	d->valid_bytes = calloc(tracks, sizeof(*d->valid_bytes));
	d->slot = calloc(d->opt.backup_slots, sizeof(*d->slot));
	if (!d->valid_bytes || !d->slot)
		return -ENOMEM;
	for (i = 0; i < d->opt.backup_slots && d->opt.contents; i++) {
		d->slot[i].data = aligned_alloc(BLOCK, d->opt.track_bytes);
		if (!d->slot[i].data)
			return -ENOMEM;
	}
	return 0;
}

static struct slot *slot_of(struct disk *d, u32 track)
{
	u32 i;

	for (i = d->slots_used; i--; ) {
		if (d->slot[i].track == track)
			return &d->slot[i];
	}
	return NULL;
}

/* Write a copy to the backup region, or read it there. */
static int add_copy_request(struct disk *d, const struct slot *s, bool writing)
{
	struct request r = {
		/* The copies lie on tops of the region, and its bottoms stay empty. */
		.offset = (d->tracks + 2ULL * (s - d->slot) + 1) * d->opt.track_bytes,
		.bytes = d->valid_bytes[s->track], .data = s->data, .writing = writing,
	};

	return add_request(d, r);
}

/* The same with all copies of the current read-modify-write. */
static int copies(struct disk *d, bool writing)
{
	int err = 0;
	u32 i;

	for (i = 0; i < d->slots_used && !err; i++)
		err = add_copy_request(d, &d->slot[i], writing);
	return err ?: execute(d, d->file);
}

/* Write or read one copy and wait until it is done. */
static int copy_one(struct disk *d, const struct slot *s, bool writing)
{
	/* First execute the earlier requests: when saving, they include the read of the top. */
	int err = execute(d, d->file);

	err = err ?: add_copy_request(d, s, writing);
	return err ?: execute(d, d->file);
}

/* Read the content of a top from the backup region, unless it is in memory. */
static int fetch_copies(struct disk *d, const struct slot *s)
{
	if (d->opt.copy_each)
		return copy_one(d, s, false);
	/* Read all copies before the first one is restored. */
	return d->opt.reread && d->slots_open == d->slots_used ? copies(d, false) : 0;
}

/* Do one step of persisting the file; requests collect until the next sync. */
static int step(struct disk *d, char op, u32 track)
{
	const struct extent *e = d->file;
	struct request r = { .offset = (u64)track * d->opt.track_bytes };
	struct slot *s;
	int err;
	u32 i;

	switch (op) {
	case 'R':
		if (!d->slots_open)
			d->slots_used = 0;
		if (d->slots_used == d->opt.backup_slots)
			return -ENOSPC;
		s = &d->slot[d->slots_used++];
		s->track = track;
		d->slots_open++;
		r.bytes = d->valid_bytes[track];
		r.data = s->data;
		return add_request(d, r);
	case 'K':
		/* Without copy_each the copies are written after all reads of the step. */
		return d->opt.copy_each ? copy_one(d, slot_of(d, track), true) : 0;
	case 'r':
		s = slot_of(d, track);
		err = fetch_copies(d, s);
		if (err)
			return err;
		d->slots_open--;
		r.bytes = d->valid_bytes[track];
		r.data = s->data;
		r.writing = true;
		err = add_request(d, r);
		return err ?: d->opt.copy_each ? execute(d, e) : 0;
	case 'W':
		for (i = 0; e->track[i] != track; i++)
			;
		r.file_at = (u64)i * d->opt.track_bytes;
		r.bytes = (u32)round_up(min((u64)d->opt.track_bytes, e->bytes - r.file_at),
					(u64)BLOCK);
		r.writing = true;
		d->valid_bytes[track] = r.bytes;
		return add_request(d, r);
	}
	err = execute(d, e);
	if (track == MODEL_SYNC_BACKUP && !d->opt.copy_each)
		err = err ?: copies(d, true);
	return err ?: flush(d, e);
}

static void on_step(void *ctx, char op, u32 track)
{
	struct disk *d = ctx;
	double now;

	if (!d->err)
		d->err = step(d, op, track);
	if (op != 'S')
		return;
	now = disk_now(d);
	d->stats.step_s[track] += now - d->step_began;
	d->step_began = now;
}

/**
 * disk_write_by() - persist a file as a model does, protecting tops
 * @d: the device, after disk_protect()
 * @e: the file, allocated in @m
 * @m: the model
 */
int disk_write_by(struct disk *d, const struct extent *e, struct model *m)
{
	double began = disk_now(d);

	d->file = e;
	d->err = 0;
	d->step_began = began;
	m->event = on_step;
	m->ctx = d;
	model_persist(m, e->track, e->tracks);
	d->stats.persist_s += disk_now(d) - began;
	return d->err;
}

/**
 * disk_write() - persist a file: its level, its blocks, a flush
 * @d: the device
 * @e: the file
 *
 * Return: 0, or a negative errno after an error message, as for all functions below.
 */
int disk_write(struct disk *d, const struct extent *e)
{
	double began = disk_now(d);
	int err = 0;

	if (d->opt.hints)
		err = each_run(d, e, send_level);
	if (!err)
		err = transfer(d, e, true, 0, e->bytes);
	err = err ?: flush(d, e);
	d->stats.persist_s += disk_now(d) - began;
	return err;
}

/* Read @bytes of a file from byte @at, for a compaction. */
int disk_read(struct disk *d, const struct extent *e, u64 at, u64 bytes)
{
	double began = disk_now(d);
	int err = transfer(d, e, false, at, bytes);

	d->stats.read_s += disk_now(d) - began;
	return err;
}

/* Read the block that holds byte @at of a file. */
int disk_get(struct disk *d, const struct extent *e, u64 at)
{
	double began = disk_now(d);
	int err = transfer(d, e, false, at / BLOCK * BLOCK, BLOCK);

	d->stats.get_s += disk_now(d) - began;
	return err;
}

/* A file stays where it is, on another level. */
int disk_relevel(struct disk *d, const struct extent *e)
{
	return d->opt.hints ? each_run(d, e, send_relevel) : 0;
}

/* A file is deleted. */
int disk_drop(struct disk *d, const struct extent *e)
{
	double began = disk_now(d);
	int err = d->opt.discards ? each_run(d, e, discard) : 0;

	d->stats.discard_s += disk_now(d) - began;
	return err;
}
