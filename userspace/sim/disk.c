// SPDX-License-Identifier: GPL-2.0
/*
 * Disks: blocks of 4 KiB in memory, a volatile cache, overlapping tracks, and faults.
 *
 * A write is in the cache when it has ended.  A FLUSH makes durable what had ended when it came.
 * When the power fails, any of the writes in the cache reach the medium.  So do any blocks of the
 * writes that have not ended; on a disk with tracks, where the head writes upwards, the first ones.
 *
 * A write to a disk with tracks destroys blocks of its neighbours when it ends.  A destroyed block
 * cannot be read until it is written.
 */
#include <sys/mman.h>

#include "private.h"

#define BLOCK_BYTES	4096U
#define BLOCK_SECTORS	(BLOCK_BYTES >> SECTOR_SHIFT)

/*
 * The content of a block: 0, zeroes; an odd number, a word of 63 bits that fills it; otherwise the
 * address of its bytes.
 */
typedef u64 content_t;

/* The head has destroyed the block.  No address is as low as this. */
#define DESTROYED	((content_t)2)

/**
 * struct unsaved - a block in the volatile cache
 * @entry: in the order in which they ended
 * @block: its number
 * @content: what was written
 */
struct unsaved {
	struct list_head entry;
	u64 block;
	content_t content;
};

/**
 * struct request - a bio that the disk has
 * @entry: in the disk's list
 * @disk: the disk
 * @bio: the bio
 * @event: its end, if it takes time
 * @fault: what happens to it
 * @status: its error
 * @saves: a FLUSH saves the blocks up to this one: sim_disk::ended when it came
 */
struct request {
	struct list_head entry;
	struct sim_disk *disk;
	struct bio *bio;
	struct sim_event event;
	enum sim_fault fault;
	blk_status_t status;
	u64 saves;
};

/**
 * struct sim_disk - a disk
 * @config: its parameters
 * @bdev: the device
 * @now: what a read returns, by block
 * @durable: what is there after a power cut if no block in the cache is saved
 * @unsaved: the volatile cache
 * @ended: number of blocks that have ever been put into the cache
 * @saved: number of them that have left it
 * @requests: bios that it has
 * @entry: in the list of disks
 */
struct sim_disk {
	struct sim_disk_config config;
	struct block_device bdev;
	content_t *now;
	content_t *durable;
	struct list_head unsaved;
	u64 ended;
	u64 saved;
	struct list_head requests;
	struct list_head entry;
};

static struct list_head disks = LIST_HEAD_INIT(disks);

/* ------------------------------------------------------------------------
 * Contents
 */

static content_t content_of(const u8 *bytes)
{
	u64 word;
	u8 *copy;

	memcpy(&word, bytes, sizeof(word));
	if (!(word >> 63) && !memcmp(bytes, bytes + sizeof(word), BLOCK_BYTES - sizeof(word)))
		return word ? word << 1 | 1 : 0;
	copy = malloc(BLOCK_BYTES);
	if (!copy)
		abort();
	memcpy(copy, bytes, BLOCK_BYTES);
	return (content_t)(uintptr_t)copy;
}

static void put_content(content_t c, u8 *bytes)
{
	u64 word = c >> 1;
	u32 i;

	if (!c) {
		memset(bytes, 0, BLOCK_BYTES);
	} else if (c & 1) {
		for (i = 0; i < BLOCK_BYTES; i += sizeof(word))
			memcpy(bytes + i, &word, sizeof(word));
	} else {
		memcpy(bytes, (void *)(uintptr_t)c, BLOCK_BYTES);
	}
}

static content_t copy_content(content_t c)
{
	return c > DESTROYED && !(c & 1) ? content_of((u8 *)(uintptr_t)c) : c;
}

static void set_content(content_t *at, content_t c)
{
	if (*at > DESTROYED && !(*at & 1))
		free((void *)(uintptr_t)*at);
	*at = c;
}

static content_t *array_of(u64 blocks)
{
	content_t *p = mmap(NULL, blocks * sizeof(*p), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		fprintf(stderr, "no memory for a disk of %llu blocks\n",
			(unsigned long long)blocks);
		abort();
	}
	return p;
}

/* ------------------------------------------------------------------------
 * The cache
 */

static void save(struct sim_disk *disk, struct unsaved *u)
{
	set_content(&disk->durable[u->block], u->content);
	list_del(&u->entry);
	free(u);
	disk->saved++;
}

/* A block was written: it is in the cache, or durable. */
static void write_block(struct sim_disk *disk, u64 block, content_t c, bool durable)
{
	struct unsaved *u;

	set_content(&disk->now[block], copy_content(c));
	if (disk->config.cached && !durable) {
		u = malloc(sizeof(*u));
		if (!u)
			abort();
		u->block = block;
		u->content = c;
		list_add_tail(&u->entry, &disk->unsaved);
		disk->ended++;
		return;
	}
	/* Older versions cannot be saved later. */
	list_for_each_entry(u, &disk->unsaved, entry) {
		if (u->block == block)
			set_content(&u->content, copy_content(c));
	}
	set_content(&disk->durable[block], c);
}

static void destroy(struct sim_disk *disk, u64 block)
{
	if (block >= disk->config.blocks)
		return;
	if (disk->now[block] != DESTROYED)
		sim_log("debug", disk->config.name, "destroys block %llu",
			(unsigned long long)block);
	/* Older versions in the cache are on the medium by now, and destroyed. */
	write_block(disk, block, DESTROYED, true);
}

/* The head has written a block: destroy its neighbours. */
static void pass_over(struct sim_disk *disk, u64 block)
{
	const struct sim_disk_config *c = &disk->config;
	u64 track, column, k;

	if (!c->track_blocks)
		return;
	track = block / c->track_blocks;
	column = block % c->track_blocks;
	if (c->interlaced) {
		if (track % 2)
			return;
		if (track)
			destroy(disk, block - c->track_blocks);
		destroy(disk, block + c->track_blocks);
		return;
	}
	for (k = 1; k < c->head_tracks; k++)
		destroy(disk, (track + k) * c->track_blocks +
			(column + k * (c->track_blocks - c->skew_blocks)) % c->track_blocks);
}

static void flush(struct sim_disk *disk, u64 saves)
{
	while (disk->saved < saves)
		save(disk, list_first_entry(&disk->unsaved, struct unsaved, entry));
}

static void drop_cache(struct sim_disk *disk)
{
	while (!list_empty(&disk->unsaved)) {
		struct unsaved *u = list_first_entry(&disk->unsaved, struct unsaved, entry);

		set_content(&u->content, 0);
		list_del(&u->entry);
		free(u);
	}
	disk->saved = disk->ended;
}

/* The content of the cache is lost before it reaches the medium. */
static void lose_cache(struct sim_disk *disk)
{
	struct unsaved *u;

	list_for_each_entry(u, &disk->unsaved, entry)
		set_content(&disk->now[u->block], copy_content(disk->durable[u->block]));
	drop_cache(disk);
}

/* ------------------------------------------------------------------------
 * Requests
 */

/*
 * Copy the data of a bio to or from the disk.  @lossy: a write is torn.  Returns false if a block
 * cannot be read.
 */
static bool transfer(struct request *rq, bool lossy, bool durable)
{
	struct sim_disk *disk = rq->disk;
	struct bio *bio = rq->bio;
	u64 block = bio->bi_iter.bi_sector / BLOCK_SECTORS;
	bool write = bio_op(bio) == REQ_OP_WRITE;
	struct bvec_iter iter;
	struct bio_vec bv;
	u64 torn = lossy ? sim_random(bio_sectors(bio) / BLOCK_SECTORS + 1) : U64_MAX, nr = 0;
	u8 bytes[BLOCK_BYTES];
	u32 done = 0;

	bio_for_each_segment(bv, bio, iter) {
		u8 *p = (u8 *)page_address(bv.bv_page) + bv.bv_offset;
		u32 at, n;

		for (at = 0; at < bv.bv_len; at += n) {
			n = min(bv.bv_len - at, BLOCK_BYTES - done);
			if (!write && disk->now[block] == DESTROYED) {
				sim_log("debug", disk->config.name, "block %llu is destroyed",
					(unsigned long long)block);
				return false;
			}
			if (!write && !done)
				put_content(disk->now[block], bytes);
			if (write)
				memcpy(bytes + done, p + at, n);
			else
				memcpy(p + at, bytes + done, n);
			done += n;
			if (done < BLOCK_BYTES)
				continue;
			done = 0;
			if (write && (disk->config.track_blocks ? nr < torn :
				      !lossy || sim_random(2))) {
				write_block(disk, block, content_of(bytes), durable);
				pass_over(disk, block);
			}
			block++;
			nr++;
		}
	}
	return true;
}

static void end_request(void *arg)
{
	struct request *rq = arg;
	struct bio *bio = rq->bio;

	if (rq->fault == SIM_DROPS)
		lose_cache(rq->disk);
	if (rq->fault == SIM_OK || rq->fault == SIM_TEARS) {
		if (bio_has_data(bio) &&
		    !transfer(rq, rq->fault == SIM_TEARS, bio->bi_opf & REQ_FUA))
			bio->bi_status = BLK_STS_MEDIUM;
		if (rq->fault == SIM_OK && bio->bi_opf & REQ_PREFLUSH)
			flush(rq->disk, rq->saves);
	}
	if (rq->fault != SIM_OK)
		bio->bi_status = rq->status;
	list_del(&rq->entry);
	free(rq);
	bio_endio(bio);
}

static void submit(void *owner, struct bio *bio)
{
	struct sim_disk *disk = owner;
	struct request *rq;

	if (bio_op(bio) != REQ_OP_READ && bio_op(bio) != REQ_OP_WRITE) {
		bio->bi_status = BLK_STS_NOTSUPP;
		bio_endio(bio);
		return;
	}
	if (bio->bi_iter.bi_sector % BLOCK_SECTORS || bio_sectors(bio) % BLOCK_SECTORS)
		sim_fail("%s: a request is not in blocks of 4 KiB: %llu+%u", disk->config.name,
			 (unsigned long long)bio->bi_iter.bi_sector, bio_sectors(bio));
	if (bio_op(bio) == REQ_OP_READ && bio->bi_opf & (REQ_FUA | REQ_PREFLUSH))
		sim_fail("%s: a read is a flush", disk->config.name);
	rq = calloc(1, sizeof(*rq));
	if (!rq)
		abort();
	rq->disk = disk;
	rq->bio = bio;
	rq->saves = disk->ended;
	rq->status = BLK_STS_IOERR;
	if (disk->config.fault)
		rq->fault = disk->config.fault(disk->config.ctx, bio, &rq->status);
	list_add_tail(&rq->entry, &disk->requests);
	if (sim_chance(disk->config.slow))
		sim_at(&rq->event, sim_time_ns() + sim_random(disk->config.slow_ns), end_request,
		       rq);
	else
		sim_spawn(disk->config.name, true, end_request, rq);
}

/* ------------------------------------------------------------------------
 * For programs
 */

/**
 * sim_disk_new() - make a disk of zeroes
 * @config: its parameters; the name stays the caller's
 *
 * It survives power cuts.
 *
 * Return: the disk.
 */
struct sim_disk *sim_disk_new(const struct sim_disk_config *config)
{
	struct sim_disk *disk = calloc(1, sizeof(*disk));

	if (!disk)
		abort();
	disk->config = *config;
	disk->now = array_of(config->blocks);
	disk->durable = array_of(config->blocks);
	INIT_LIST_HEAD(&disk->unsaved);
	INIT_LIST_HEAD(&disk->requests);
	disk->bdev = (struct block_device){
		.name = config->name,
		.sectors = config->blocks * BLOCK_SECTORS,
		.limits = { .logical_block_size = SECTOR_SIZE, .physical_block_size = BLOCK_BYTES },
		.submit = submit,
		.owner = disk,
	};
	list_add_tail(&disk->entry, &disks);
	sim_bdev_add(&disk->bdev);
	return disk;
}

static void forget_requests(struct sim_disk *disk)
{
	while (!list_empty(&disk->requests)) {
		struct request *rq = list_first_entry(&disk->requests, struct request, entry);

		list_del(&rq->entry);
		free(rq);
	}
}

/**
 * sim_disk_free() - undo sim_disk_new()
 * @disk: the disk
 */
void sim_disk_free(struct sim_disk *disk)
{
	u64 i;

	forget_requests(disk);
	drop_cache(disk);
	for (i = 0; i < disk->config.blocks; i++) {
		set_content(&disk->now[i], 0);
		set_content(&disk->durable[i], 0);
	}
	munmap(disk->now, disk->config.blocks * sizeof(*disk->now));
	munmap(disk->durable, disk->config.blocks * sizeof(*disk->durable));
	sim_bdev_remove(&disk->bdev);
	list_del(&disk->entry);
	free(disk);
}

/**
 * sim_disk_cut() - the power of a disk fails
 * @disk: the disk
 *
 * Call it before sim_boot(), while the memory of the writes still has their data.
 */
void sim_disk_cut(struct sim_disk *disk)
{
	/* Some caches save all or nothing, others a part. */
	u32 luck = sim_random(4), of = 1 + sim_random(8);
	struct unsaved *u;
	struct request *rq;

	list_for_each_entry(u, &disk->unsaved, entry) {
		if (luck == 1 || (luck > 1 && sim_random(of)))
			set_content(&disk->durable[u->block], copy_content(u->content));
	}
	lose_cache(disk);
	list_for_each_entry(rq, &disk->requests, entry) {
		if (bio_op(rq->bio) == REQ_OP_WRITE && bio_has_data(rq->bio) && luck)
			transfer(rq, true, true);
	}
	forget_requests(disk);
}

/**
 * sim_disk_write() - write a block durably, at once
 * @disk: the disk
 * @block: its number
 * @buf: its content
 */
void sim_disk_write(struct sim_disk *disk, u64 block, const void *buf)
{
	write_block(disk, block, content_of(buf), true);
}

/* Requests of the last run are gone. */
void sim_disks_reboot(void)
{
	struct sim_disk *disk;

	list_for_each_entry(disk, &disks, entry)
		forget_requests(disk);
}
