// SPDX-License-Identifier: GPL-2.0
/*
 * The set of destroyed blocks and its mirror.
 *
 * Mirror, little-endian, in units of 4 KiB: block 0 is the header.  Block 1 + i has 16
 * bytes of its own, and then the bits of blocks i * 32640 onwards: bit b of byte a stands
 * for block i * 32640 + a * 8 + b, set = destroyed.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/crc32c.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "damage.h"

#define DAMAGE_MAGIC	0x3174616d44746c50ULL	/* "PltDmat1" */
#define DAMAGE_VERSION	3
#define DAMAGE_DIRTY	XA_MARK_0

#define DAMAGED_MAP \
	"state device: a block of its map is damaged or belongs to another device: zero its header for a new map"

/* A block of the mirror; in memory only the byte order of @bits may differ, see swap_bits(). */
struct damage_block {
	__le32 crc;		/* crc32c of the rest of the 4 KiB */
	__le32 map;		/* as in the header */
	__le64 index;		/* number of the block, from 0 */
	unsigned long bits[DAMAGE_PAGE_BLOCKS / BITS_PER_LONG];
};

struct damage_page {
	u32 count;
	struct damage_block *block;
	struct damage_page *next;	/* when in the reserve */
};

struct damage_header {
	__le64 magic;
	__le32 version;
	__le32 crc;		/* crc32c of the 4 KiB with this field 0 */
	__le64 blocks;
	__le64 geometry;
	__le32 map;		/* a random number, chosen when the mirror is made */
} __packed;

static_assert(sizeof(struct damage_block) == DAMAGE_PAGE_BYTES);
static_assert(offsetof(struct damage_block, bits) == DAMAGE_HEAD_BYTES);

/* The page with a block's bit; sets @off to the index of the bit. */
static unsigned long page_of(u64 blk, u32 *off)
{
	return div_u64_rem(blk, DAMAGE_PAGE_BLOCKS, off);
}

/* The last page of a medium of @blocks blocks. */
static unsigned long last_page(u64 blocks)
{
	u32 off;

	return page_of(blocks - 1, &off);
}

/**
 * damage_init() - make an empty set
 * @d: the set
 *
 * Context: any.
 */
void damage_init(struct platter_damage *d)
{
	memset(d, 0, sizeof(*d));
	xa_init(&d->pages);
}

static void free_page_entry(struct damage_page *p)
{
	kfree(p->block);
	kfree(p);
}

static struct damage_page *new_page_entry(gfp_t gfp)
{
	struct damage_page *p = kzalloc(sizeof(*p), gfp);

	if (!p)
		return NULL;
	p->block = kzalloc(DAMAGE_PAGE_BYTES, gfp);
	if (p->block)
		return p;
	kfree(p);
	return NULL;
}

/* Put an unreferenced entry with all bits clear into the reserve, or free it. */
static void put_page_entry(struct platter_damage *d, struct damage_page *p)
{
	if (d->nr_reserve >= d->want_reserve) {
		free_page_entry(p);
		return;
	}
	p->next = d->reserve;
	d->reserve = p;
	d->nr_reserve++;
}

static bool fill_reserve(struct platter_damage *d, gfp_t gfp)
{
	while (d->nr_reserve < d->want_reserve) {
		struct damage_page *p = new_page_entry(gfp);

		if (!p)
			return false;
		put_page_entry(d, p);
	}
	return true;
}

/**
 * damage_exit() - free all memory
 * @d: the set
 *
 * Context: may sleep.
 */
void damage_exit(struct platter_damage *d)
{
	struct damage_page *p;
	unsigned long i;

	xa_for_each(&d->pages, i, p)
		free_page_entry(p);
	xa_destroy(&d->pages);
	while ((p = d->reserve)) {
		d->reserve = p->next;
		free_page_entry(p);
	}
	d->nr_reserve = 0;
	d->nr_pages = 0;
	d->damaged = 0;
}

/**
 * damage_reserve() - reserve memory, so that writes need not allocate any
 * @d: an empty set
 * @blocks: blocks of the medium
 * @nr: most pages that one write may need
 *
 * Allocates the whole index, 9 bytes for 127.5 MiB, and @nr pages.  Pages taken from the
 * reserve are replaced before the next write, as soon as there is free memory.
 *
 * Context: may sleep and recurse into I/O.
 * Return: 0 or -ENOMEM.
 */
int damage_reserve(struct platter_damage *d, u64 blocks, u32 nr)
{
	unsigned long i, last = last_page(blocks);

	/* One entry more: the xarray frees a node when its last entry is removed. */
	for (i = 0; i <= last + 1; i++) {
		if (xa_reserve(&d->pages, i, GFP_KERNEL))
			return -ENOMEM;
		cond_resched();
	}
	d->want_reserve = nr;
	return fill_reserve(d, GFP_KERNEL) ? 0 : -ENOMEM;
}

static struct damage_page *get_page_entry(struct platter_damage *d, unsigned long i)
{
	struct damage_page *p = xa_load(&d->pages, i);

	if (p)
		return p;
	p = new_page_entry(GFP_NOIO | __GFP_NORETRY | __GFP_NOWARN);
	if (!p && d->reserve) {
		p = d->reserve;
		d->reserve = p->next;
		d->nr_reserve--;
	}
	/* Here it is worth waiting for memory. */
	if (!p)
		p = new_page_entry(GFP_NOIO);
	if (!p)
		return NULL;
	if (xa_err(xa_store(&d->pages, i, p, GFP_NOIO))) {
		put_page_entry(d, p);
		return NULL;
	}
	d->nr_pages++;
	return p;
}

static void drop_page_entry(struct platter_damage *d, unsigned long i)
{
	struct damage_page *p = xa_erase(&d->pages, i);

	/*
	 * Keeps the entry reserved.  This needs no memory, because its node exists, see
	 * damage_reserve().
	 */
	WARN_ON_ONCE(d->want_reserve && xa_reserve(&d->pages, i, GFP_NOIO));
	put_page_entry(d, p);
	d->nr_pages--;
}

static u32 weight(const unsigned long *bits, u32 off, u32 n)
{
	u32 sum = 0;

	while (n) {
		u32 bit = off % BITS_PER_LONG;
		u32 len = min_t(u32, n, BITS_PER_LONG - bit);
		unsigned long mask = len == BITS_PER_LONG ? ~0UL :
				     ((1UL << len) - 1) << bit;

		sum += hweight_long(bits[off / BITS_PER_LONG] & mask);
		off += len;
		n -= len;
	}
	return sum;
}

/**
 * damage_set() - mark blocks as destroyed
 * @d: the set
 * @blk: first block
 * @n: number of blocks
 * @newly: incremented by the number of blocks that were intact before
 *
 * Context: may sleep; allocates with GFP_NOIO, and from the reserve.
 * Return: 0, or -ENOMEM.  In the latter case some of the blocks may be marked; marking too
 *	many is safe.
 */
int damage_set(struct platter_damage *d, u64 blk, u32 n, u64 *newly)
{
	if (d->nr_reserve < d->want_reserve)
		fill_reserve(d, GFP_NOIO | __GFP_NORETRY | __GFP_NOWARN);
	while (n) {
		u32 off, len, fresh;
		unsigned long i = page_of(blk, &off);
		struct damage_page *p = get_page_entry(d, i);

		if (!p)
			return -ENOMEM;
		len = min(n, DAMAGE_PAGE_BLOCKS - off);
		fresh = len - weight(p->block->bits, off, len);
		if (fresh) {
			bitmap_set(p->block->bits, off, len);
			p->count += fresh;
			d->damaged += fresh;
			*newly += fresh;
			xa_set_mark(&d->pages, i, DAMAGE_DIRTY);
		}
		blk += len;
		n -= len;
	}
	return 0;
}

/**
 * damage_clear() - mark blocks as intact
 * @d: the set
 * @blk: first block
 * @n: number of blocks
 *
 * damage_trim() frees the memory.
 *
 * Context: any.
 */
void damage_clear(struct platter_damage *d, u64 blk, u64 n)
{
	while (n) {
		u32 off;
		unsigned long i = page_of(blk, &off);
		u32 len = min_t(u64, n, DAMAGE_PAGE_BLOCKS - off);
		struct damage_page *p = xa_load(&d->pages, i);
		u32 gone = p ? weight(p->block->bits, off, len) : 0;

		if (gone) {
			bitmap_clear(p->block->bits, off, len);
			p->count -= gone;
			d->damaged -= gone;
			xa_set_mark(&d->pages, i, DAMAGE_DIRTY);
		}
		blk += len;
		n -= len;
	}
}

/**
 * damage_count() - count the destroyed blocks in a range
 * @d: the set
 * @blk: first block
 * @n: number of blocks
 *
 * Context: any.
 * Return: the number.
 */
u64 damage_count(struct platter_damage *d, u64 blk, u64 n)
{
	u64 sum = 0;

	if (!d->damaged)
		return 0;
	while (n) {
		u32 off;
		struct damage_page *p = xa_load(&d->pages, page_of(blk, &off));
		u32 len = min_t(u64, n, DAMAGE_PAGE_BLOCKS - off);

		if (p)
			sum += weight(p->block->bits, off, len);
		blk += len;
		n -= len;
	}
	return sum;
}

/**
 * damage_next() - find the next destroyed block
 * @d: the set
 * @blk: where to begin; set to the block found
 * @end: where to stop
 *
 * Context: any.
 * Return: false if there is none below @end.
 */
bool damage_next(struct platter_damage *d, u64 *blk, u64 end)
{
	u32 off;
	unsigned long i = page_of(*blk, &off), want = i;
	struct damage_page *p;

	for (p = xa_find(&d->pages, &i, ULONG_MAX, XA_PRESENT); p;
	     p = xa_find_after(&d->pages, &i, ULONG_MAX, XA_PRESENT)) {
		u64 base = (u64)i * DAMAGE_PAGE_BLOCKS;

		if (base >= end)
			return false;
		off = find_next_bit(p->block->bits, DAMAGE_PAGE_BLOCKS, i == want ? off : 0);
		if (off < DAMAGE_PAGE_BLOCKS) {
			*blk = base + off;
			return *blk < end;
		}
	}
	return false;
}

/**
 * damage_trim() - free pages that became empty
 * @d: the set
 * @blk: first block of the range
 * @n: number of blocks
 *
 * Pages not yet written to the mirror stay.
 *
 * Context: any.
 */
void damage_trim(struct platter_damage *d, u64 blk, u64 n)
{
	unsigned long i, last = last_page(blk + n);
	u32 off;

	for (i = page_of(blk, &off); n && i <= last; i++) {
		struct damage_page *p = xa_load(&d->pages, i);

		if (!p || p->count)
			continue;
		if (d->state && xa_get_mark(&d->pages, i, DAMAGE_DIRTY))
			continue;
		drop_page_entry(d, i);
	}
}

/* @buf is from kmalloc(), hence aligned to its size and within one page. */
static int mirror_io(struct platter_damage *d, unsigned long index, void *buf,
		     blk_opf_t opf)
{
	struct bio_vec bvec;
	struct bio bio;
	int r;

	if (WARN_ON_ONCE(d->read_only && op_is_write(opf)))
		return -EROFS;
	bio_init(&bio, d->state, &bvec, 1, opf);
	bio.bi_iter.bi_sector = (sector_t)index << 3;
	__bio_add_page(&bio, virt_to_page(buf), DAMAGE_PAGE_BYTES, offset_in_page(buf));
	r = submit_bio_wait(&bio);
	bio_uninit(&bio);
	return r;
}

/* Bits are stored little-endian; on a little-endian machine a page is stored as it is. */
static void swap_bits(unsigned long *bits)
{
#ifdef __BIG_ENDIAN
	u32 i;

	for (i = 0; i < DAMAGE_PAGE_BLOCKS / BITS_PER_LONG; i++)
		bits[i] = BITS_PER_LONG == 64 ? swab64(bits[i]) : swab32(bits[i]);
#endif
}

static u32 block_crc(const struct damage_block *b)
{
	return crc32c(~0, &b->map, DAMAGE_PAGE_BYTES - sizeof(b->crc));
}

static int write_block(struct platter_damage *d, unsigned long i, struct damage_block *b)
{
	int r;

	swap_bits(b->bits);
	b->map = cpu_to_le32(d->map);
	b->index = cpu_to_le64(i);
	b->crc = cpu_to_le32(block_crc(b));
	r = mirror_io(d, i + 1, b, REQ_OP_WRITE | REQ_SYNC);
	swap_bits(b->bits);
	return r;
}

/* Returns -EUCLEAN if the content is not what was written there. */
static int read_block(struct platter_damage *d, unsigned long i, struct damage_block *b)
{
	int r = mirror_io(d, i + 1, b, REQ_OP_READ);

	if (r)
		return r;
	if (le32_to_cpu(b->crc) != block_crc(b) || le32_to_cpu(b->map) != d->map ||
	    le64_to_cpu(b->index) != i)
		return -EUCLEAN;
	swap_bits(b->bits);
	return 0;
}

/**
 * damage_sync() - bring the mirror up to date
 * @d: the set
 *
 * Marks of destroyed blocks must be on the mirror before the write that destroys them.
 * Marks of intact blocks must be there after the write that repairs them and before it is
 * acknowledged.  The caller calls this function at both points.
 *
 * Context: may sleep; submits and waits.
 * Return: 0 or -errno.
 */
int damage_sync(struct platter_damage *d)
{
	struct damage_page *p;
	unsigned long i;

	if (!d->state)
		return 0;
	xa_for_each_marked(&d->pages, i, p, DAMAGE_DIRTY) {
		int r = write_block(d, i, p->block);

		if (r)
			return r;
		xa_clear_mark(&d->pages, i, DAMAGE_DIRTY);
	}
	return 0;
}

static u32 header_crc(void *page)
{
	struct damage_header *h = page;
	__le32 crc = h->crc;
	u32 sum;

	h->crc = 0;
	sum = crc32c(~0, page, DAMAGE_PAGE_BYTES);
	h->crc = crc;
	return sum;
}

/* Replaces the content of the set.  After a failure the caller must repeat the call. */
static int read_mirror(struct platter_damage *d, u64 blocks, struct damage_block *buf)
{
	unsigned long i, last = last_page(blocks);

	for (i = 0; i <= last; i++) {
		struct damage_page *p;
		int r = read_block(d, i, buf);
		u32 count;

		if (r)
			return r;
		count = weight(buf->bits, 0, DAMAGE_PAGE_BLOCKS);
		p = count ? get_page_entry(d, i) : xa_load(&d->pages, i);
		if (count && !p)
			return -ENOMEM;
		if (!p)
			continue;
		d->damaged -= p->count;
		d->damaged += count;
		p->count = count;
		memcpy(p->block->bits, buf->bits, sizeof(buf->bits));
		if (!count)
			drop_page_entry(d, i);
	}
	return 0;
}

static int format_mirror(struct platter_damage *d, u64 blocks, u64 geometry, void *buf)
{
	unsigned long i, last = last_page(blocks);
	struct damage_header *h = buf;
	int r;

	d->map = get_random_u32();
	memset(buf, 0, DAMAGE_PAGE_BYTES);
	for (i = 0; i <= last; i++) {
		r = write_block(d, i, buf);
		if (r)
			return r;
	}
	memset(buf, 0, DAMAGE_PAGE_BYTES);
	h->magic = cpu_to_le64(DAMAGE_MAGIC);
	h->version = cpu_to_le32(DAMAGE_VERSION);
	h->blocks = cpu_to_le64(blocks);
	h->geometry = cpu_to_le64(geometry);
	h->map = cpu_to_le32(d->map);
	h->crc = cpu_to_le32(header_crc(buf));
	return mirror_io(d, 0, buf, REQ_OP_WRITE | REQ_FUA | REQ_PREFLUSH);
}

static int check_header(struct platter_damage *d, void *buf, u64 blocks, u64 geometry,
			char **error)
{
	struct damage_header *h = buf;

	if (le64_to_cpu(h->magic) != DAMAGE_MAGIC) {
		*error = "state device holds something else: neither zeroes nor a damage map";
		return -EINVAL;
	}
	if (le32_to_cpu(h->crc) != header_crc(buf)) {
		*error = "state device: the header of its damage map has a bad checksum";
		return -EINVAL;
	}
	if (le32_to_cpu(h->version) != DAMAGE_VERSION) {
		*error = "state device: its damage map is of a version that is not known here";
		return -EINVAL;
	}
	if (le64_to_cpu(h->blocks) != blocks || le64_to_cpu(h->geometry) != geometry) {
		*error = "state device belongs to a medium of another length or geometry";
		return -EINVAL;
	}
	d->map = le32_to_cpu(h->map);
	return 0;
}

/* Allocates *@buf, a page, and reads the header into it. */
static int read_header(struct platter_damage *d, void **buf, char **error)
{
	int r;

	*buf = kzalloc(DAMAGE_PAGE_BYTES, GFP_NOIO);
	if (!*buf) {
		*error = "Out of memory";
		return -ENOMEM;
	}
	r = mirror_io(d, 0, *buf, REQ_OP_READ);
	if (r)
		*error = "Cannot read the header of the state device";
	return r;
}

/**
 * damage_open() - attach the mirror, or create it on a zeroed device
 * @d: an empty set
 * @bdev: the device; must outlive @d
 * @read_only: never write to the device; a zeroed one is left as it is, and no block counts
 *	as destroyed
 * @blocks: blocks of the medium
 * @geometry: hash of the parameters that decide where damage falls
 * @error: set to a sentence on failure
 *
 * Reads only the header, because another set may still write to the mirror.
 *
 * Context: may sleep; allocates with GFP_NOIO.
 * Return: 0 or -errno; a foreign or damaged mirror is never overwritten.
 */
int damage_open(struct platter_damage *d, struct block_device *bdev, bool read_only,
		u64 blocks, u64 geometry, char **error)
{
	u64 need = (u64)(last_page(blocks) + 2) << 3;
	void *buf;
	int r;

	if (bdev_nr_sectors(bdev) < need) {
		*error = "state device too small: needs 8 sectors plus 8 per 127.5 MiB of medium";
		return -ENOSPC;
	}
	d->state = bdev;
	d->read_only = read_only;
	r = read_header(d, &buf, error);
	if (!r && memchr_inv(buf, 0, DAMAGE_PAGE_BYTES)) {
		r = check_header(d, buf, blocks, geometry, error);
	} else if (!r && !read_only) {
		r = format_mirror(d, blocks, geometry, buf);
		if (r)
			*error = "Cannot format the state device";
	}
	if (r)
		d->state = NULL;
	kfree(buf);
	return r;
}

/**
 * damage_load() - read the content of the mirror
 * @d: a set that damage_open() has attached
 * @blocks: blocks of the medium
 * @geometry: hash of the parameters that decide where damage falls
 * @error: set to a sentence on failure
 *
 * To be called when no other set will write to the mirror any more.
 *
 * Context: may sleep; allocates with GFP_NOIO.
 * Return: 0 or -errno; the set must not be used before a call has succeeded.
 */
int damage_load(struct platter_damage *d, u64 blocks, u64 geometry, char **error)
{
	void *buf;
	int r = read_header(d, &buf, error);
	bool none = !r && d->read_only && !memchr_inv(buf, 0, DAMAGE_PAGE_BYTES);

	if (!r && !none)
		r = check_header(d, buf, blocks, geometry, error);
	if (!r && !none) {
		r = read_mirror(d, blocks, buf);
		if (r == -EUCLEAN)
			*error = DAMAGED_MAP;
		else if (r)
			*error = "Cannot read the damage map from the state device";
	}
	kfree(buf);
	return r;
}
