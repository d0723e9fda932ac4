// SPDX-License-Identifier: GPL-2.0
/* dm-io: reads and writes of memory, in bios of at most 1 MiB. */
#include "private.h"

struct dm_io_client {
	struct bio_set bios;
};

/**
 * struct io - a request
 * @left: bios in flight, and one until all are submitted
 * @error: bit r is set if a bio of region r has failed
 * @req: the request
 * @done: for a caller that waits
 */
struct io {
	u32 left;
	unsigned long error;
	struct dm_io_request req;
	struct completion done;
};

/**
 * struct part - in front of each bio
 * @io: the request
 * @region: number of its region
 * @bio: the bio
 */
struct part {
	struct io *io;
	u32 region;
	struct bio bio;
};

struct dm_io_client *dm_io_client_create(void)
{
	struct dm_io_client *c = sim_alloc(1, sizeof(*c), GFP_KERNEL);

	if (!c)
		return ERR_PTR(-ENOMEM);
	bioset_init(&c->bios, 16, offsetof(struct part, bio), BIOSET_NEED_BVECS);
	return c;
}

void dm_io_client_destroy(struct dm_io_client *c)
{
	bioset_exit(&c->bios);
	sim_free(c);
}

static void put(struct io *io)
{
	struct dm_io_request req = io->req;
	unsigned long error = io->error;

	if (--io->left)
		return;
	if (!req.notify.fn) {
		complete(&io->done);
		return;
	}
	sim_free(io);
	req.notify.fn(error, 0, req.notify.context);
}

static void part_endio(struct bio *bio)
{
	struct part *p = container_of(bio, struct part, bio);
	struct io *io = p->io;

	if (bio->bi_status)
		io->error |= BIT(p->region);
	bio_put(bio);
	put(io);
}

static void submit_region(struct io *io, u32 nr, const struct dm_io_region *where)
{
	blk_opf_t opf = io->req.bi_opf;
	u8 *mem = io->req.mem.ptr.addr;
	u64 bytes = where->count << SECTOR_SHIFT, done = 0;

	do {
		u32 vecs = min_t(u64, DIV_ROUND_UP(bytes - done, PAGE_SIZE) + 1, BIO_MAX_VECS);
		struct bio *bio = bio_alloc_bioset(where->bdev, vecs, opf, GFP_NOIO,
						   &io->req.client->bios);
		struct part *p = container_of(bio, struct part, bio);

		p->io = io;
		p->region = nr;
		bio->bi_iter.bi_sector = where->sector + (done >> SECTOR_SHIFT);
		bio->bi_end_io = part_endio;
		while (done < bytes) {
			u8 *at = mem + done;
			u32 n = min_t(u64, PAGE_SIZE - offset_in_page(at), bytes - done);

			if (bio->bi_vcnt == bio->bi_max_vecs ||
			    bio->bi_iter.bi_size + n > 1U << 20)
				break;
			__bio_add_page(bio, virt_to_page(at), n, offset_in_page(at));
			done += n;
		}
		io->left++;
		submit_bio(bio);
	} while (done < bytes);
}

int dm_io(struct dm_io_request *req, unsigned int nr, struct dm_io_region *where,
	  unsigned long *error_bits, unsigned long *unsupported, unsigned short ioprio)
{
	struct io *io = sim_alloc(1, sizeof(*io), GFP_NOIO);
	unsigned long error;
	u32 i;

	might_sleep();
	io->left = 1;
	io->req = *req;
	init_completion(&io->done);
	for (i = 0; i < nr; i++)
		submit_region(io, i, &where[i]);
	put(io);
	if (req->notify.fn)
		return 0;
	if (sim_now->bios)
		sim_fail("%s waits for dm-io while it submits a bio", sim_now->name);
	wait_for_completion(&io->done);
	error = io->error;
	sim_free(io);
	if (error_bits)
		*error_bits = error;
	return error ? -EIO : 0;
}
