// SPDX-License-Identifier: GPL-2.0
/* The metadata of a dm-shingle device in memory, for offline use. */
#include "image.h"
#include "format/codec.h"
#include "pages/pages.h"
#include "engine/settings.h"
#include "show.h"

/* Pages of a map that are kept in memory, unless an engine needs more. */
#define PAGE_FRAMES	16384U

struct image *image_new(void)
{
	struct image *img = shingle_zalloc_array(1, sizeof(*img));
	u32 i;

	if (!img) {
		fail("out of memory");
		return NULL;
	}
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		img->ds.dev[i].fd = -1;
	return img;
}

/**
 * image_drop_engine() - free the map
 * @img: with or without an engine
 *
 * The map of an 8 TiB disk may take more than 1 GB, which the kernel needs for its own copy.
 */
void image_drop_engine(struct image *img)
{
	if (img->engine) {
		shingle_pages_destroy(img->engine);
		img->row->ops->destroy(img->engine);
	}
	img->engine = NULL;
}

void image_free(struct image *img)
{
	image_drop_engine(img);
	devices_close(&img->ds);
	kvfree(img);
}

struct device *image_meta(struct image *img)
{
	return &img->ds.dev[devices_meta(&img->ds)];
}

/* Location of the second superblock; the device may have grown since formatting. */
u64 image_last_block(const struct image *img)
{
	return img->l.dev_blocks[shingle_meta_dev(&img->l)] - 1;
}

/**
 * image_larger() - check whether a device has grown since it was formatted
 * @img: image with its layout
 * @dev: the device
 * @text: result if it has, a sentence; SIZE_SENTENCE bytes
 *
 * This happens after dd onto a larger disk.  The target uses only the formatted size.
 *
 * Return: true if it has grown.
 */
bool image_larger(const struct image *img, enum shingle_dev dev, char *text)
{
	const struct device *d = &img->ds.dev[dev];

	if (!d->path || d->blocks <= img->l.dev_blocks[dev])
		return false;
	snprintf(text, SIZE_SENTENCE,
		 "%s has %llu blocks of 4 KiB, more than the %llu when it was formatted: the rest is not used",
		 d->arg, d->blocks, img->l.dev_blocks[dev]);
	return true;
}

static bool size_fits(const struct image *img, enum shingle_dev dev)
{
	const struct device *d = &img->ds.dev[dev];
	char type[64];

	if (!d->path || d->blocks == img->l.dev_blocks[dev])
		return true;
	if (d->blocks < img->l.dev_blocks[dev]) {
		fail("%s %s has %llu blocks of 4 KiB, but had %llu when it was formatted: it was shortened, or is the wrong device; restore its size of %llu blocks",
		     d->arg, d->path, d->blocks, img->l.dev_blocks[dev], img->l.dev_blocks[dev]);
		return false;
	}
	if (!device_raid_type(d, type, sizeof(type)))
		return true;
	fail("%s %s is a member of an array of type %s, and the array was formatted: assemble it and use it instead",
	     d->arg, d->path, type);
	return false;
}

/* Location of a device's header: @copy 0 at the start, 1 at the end. */
u64 image_member_block(const struct image *img, enum shingle_dev dev, u32 copy)
{
	return copy ? img->l.dev_blocks[dev] - 1 : 0;
}

static bool has_member(const struct image *img, enum shingle_dev dev)
{
	return img->ds.dev[dev].path && dev != shingle_meta_dev(&img->l);
}

/* Check that the devices belong together.  With @damage_too a damaged header is accepted. */
static bool members_fit(struct image *img, bool damage_too)
{
	struct shingle_reader r = devices_reader(&img->ds);
	char why[SHINGLE_MEMBER_WHY];
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		const struct device *d = &img->ds.dev[i];
		int err = has_member(img, i) ?
			  shingle_check_member(&r, &img->l, i, img->member[i], why) : 0;

		if (!err || (err == -EUCLEAN && damage_too))
			continue;
		fail("%s %s is not the one that was formatted: %s%s", d->arg, d->path, why,
		     err == -EUCLEAN ? "; 'shingle repair' may correct it" : "");
		return false;
	}
	return true;
}

/**
 * image_accept() - check that the tool supports the layout on these devices
 * @img: image; @img->l is filled in
 *
 * Damaged headers are accepted and recorded in @img->member.
 *
 * Return: true, or false after printing an error.
 */
bool image_accept(struct image *img)
{
	struct device *meta = image_meta(img);
	char names[256];

	img->row = engine_by_name(img->l.engine);
	if (!img->row) {
		fail("%s %s is of type '%s', which this version does not know (it knows %s): use a newer one",
		     meta->arg, meta->path, shown(img->l.engine).s,
		     engine_names(names, sizeof(names)));
		return false;
	}
	if (shingle_meta_dev(&img->l) != devices_meta(&img->ds)) {
		fail("%s %s has the metadata of a device that %s: name the devices as when they were formatted",
		     meta->arg, meta->path, img->l.dev_blocks[SHINGLE_DEV_META] ?
		     "has a metadata device (--meta)" :
		     "has no metadata device (--meta)");
		return false;
	}
	if (img->ds.dev[SHINGLE_DEV_CACHE].path && !img->l.dev_blocks[SHINGLE_DEV_CACHE]) {
		fail("CACHE %s was given, but %s %s has its cache on the data device: omit --cache",
		     img->ds.dev[SHINGLE_DEV_CACHE].path, meta->arg, meta->path);
		return false;
	}
	return size_fits(img, SHINGLE_DEV_DATA) && size_fits(img, SHINGLE_DEV_CACHE) &&
	       size_fits(img, SHINGLE_DEV_META) && members_fit(img, true);
}

/**
 * image_no_superblock() - report a missing superblock and a remedy
 * @img: image with open devices
 * @why: contents found instead, as the tail of a sentence
 */
void image_no_superblock(struct image *img, const char *why)
{
	bool apart = devices_meta(&img->ds) == SHINGLE_DEV_META;
	struct device *meta = image_meta(img);
	char name[80];

	if (device_member_of(meta, name, sizeof(name)))
		fail("%s %s has no dm-shingle superblock: it is %s; %s", meta->arg, meta->path,
		     name, apart ? "use the device with its metadata" :
		     "give its metadata device with --meta");
	else
		fail("%s %s has no dm-shingle superblock (%s): %s", meta->arg, meta->path, why,
		     apart ? "is it the right device?" :
		     "format it, or give its metadata device with --meta; a platter has none, 'shingle create platter' makes it again");
}

/**
 * image_load() - read the superblock
 * @img: image with open devices
 *
 * Return: true, or false after printing an error.
 */
bool image_load(struct image *img)
{
	struct shingle_reader r = devices_reader(&img->ds);
	struct device *meta = image_meta(img);
	const char *why = "";
	int err = shingle_load_sb(&r, devices_meta(&img->ds), meta->blocks, &img->l, &why);

	if (err == -ENODATA) {
		image_no_superblock(img, why);
		return false;
	}
	if (err) {
		fail("superblock of %s %s: %s; run 'shingle check'", meta->arg, meta->path, why);
		return false;
	}
	return image_accept(img) && members_fit(img, false);
}

/**
 * image_fresh_engine() - create the engine in the state after formatting
 * @img: image with layout and row
 * @why: on error, a sentence
 *
 * Return: 0 or -errno.
 */
int image_fresh_engine(struct image *img, const char **why)
{
	int err;

	image_drop_engine(img);
	memset(&img->bad, 0, sizeof(img->bad));
	err = img->row->ops->create(&img->engine, &img->l, why);
	if (err)
		return err;
	return shingle_pages_create_for(img->engine, &img->l,
					max(shingle_pages_least(img->engine), PAGE_FRAMES), why);
}

/* Read the valid copy of a page.  Returns 0 or the reason why it cannot be used. */
int image_read_page(struct image *img, u32 nr, struct shingle_chunk *c)
{
	enum shingle_page_place place = shingle_place_of(img->engine->pages->places.now, nr);
	int err = device_read(image_meta(img), shingle_page_block(&img->l, nr, place), 1, c);

	return err ?: shingle_page_check(&img->l, img->engine, c, nr, place);
}

/* Describe a page for a message: its number, and the blocks that it locates. */
const char *image_page_text(struct image *img, u32 nr, char *buf, size_t size)
{
	u64 lblk, n;

	img->row->ops->pages.blocks(img->engine, nr, &lblk, &n);
	if (n)
		snprintf(buf, size, "page %u of the map, which locates blocks %llu to %llu",
			 nr, lblk, lblk + n - 1);
	else
		snprintf(buf, size, "page %u of the map, which locates no block", nr);
	return buf;
}

/**
 * image_recover() - load the state
 * @img: image with layout and row
 * @slot: see shingle_recover_slot()
 * @stop_at_hole: see shingle_recover_slot()
 * @give_up_pages: see struct shingle_loaded
 * @lost_seq: see struct shingle_loaded
 * @why: on error, a sentence tail
 *
 * Return: 0 or -errno.
 */
int image_recover(struct image *img, u32 slot, bool stop_at_hole, bool give_up_pages,
		  u64 lost_seq, const char **why)
{
	struct shingle_reader r = devices_reader(&img->ds);
	struct shingle_loaded to;
	int err;

	/* Valid result if creating the engine fails and recovery never starts. */
	img->rec = (struct shingle_recovery){ .bad_page = SHINGLE_NO_PAGE };
	err = image_fresh_engine(img, why);
	if (err)
		return err;
	to = (struct shingle_loaded){ .ops = img->row->ops, .engine = img->engine,
				      .bad = &img->bad, .give_up = give_up_pages,
				      .lost_seq = lost_seq };
	return shingle_recover_slot(&r, &img->l, &to, slot, stop_at_hole, &img->rec, why);
}

/* Write all changed pages, each to the place that is not valid now. */
static int write_pages(struct image *img, u64 seq, struct shingle_chunk *c)
{
	struct shingle_pages *p = img->engine->pages;
	enum shingle_page_place place;
	u32 cursor = 0, nr, n;
	int err = 0;

	while (p && !err && cursor != SHINGLE_NO_PAGE) {
		n = shingle_pages_dirty(p, &cursor, &nr, 1);
		if (!n)
			continue;
		shingle_pages_copy(p, nr, c->payload);
		place = shingle_place_of(p->places.next, nr);
		shingle_page_seal(&img->l, c, nr, place, seq);
		err = device_write(image_meta(img), shingle_page_block(&img->l, nr, place), 1, c);
	}
	return err;
}

static void pages_written(struct image *img, bool good)
{
	u32 cursor = 0;

	while (img->engine->pages && shingle_pages_written(img->engine->pages, &cursor, good))
		;
}

/* Fill in the next chunk of the locations of pages.  Returns 0 at the end. */
static u32 next_places(struct image *img, u64 *cursor, struct shingle_chunk *c)
{
	u64 index = 0;
	u32 bytes = 0;

	memset(c, 0, sizeof(*c));
	while (img->engine->pages && *cursor != SHINGLE_NOWHERE &&
	       !shingle_places_encode_next(img->engine->pages, true, cursor, &index, c->payload,
					   &bytes))
		;
	if (!img->engine->pages || *cursor == SHINGLE_NOWHERE)
		return 0;
	c->index = cpu_to_le64(index);
	c->bytes = cpu_to_le32(bytes);
	return bytes;
}

/* Fill in the next chunk of the state: first those of the engine, then those of core. */
static u32 next_chunk(struct image *img, u64 *cursor, bool *core_done, u64 *places,
		      struct shingle_chunk *c)
{
	u64 index = 0;
	u32 bytes;

	if (*core_done)
		return next_places(img, places, c);
	memset(c, 0, sizeof(*c));
	bytes = shingle_encode(&img->l, img->engine, cursor, &index, c->payload);
	if (!bytes) {
		*core_done = true;
		index = SHINGLE_CHUNK_CORE;
		memset(c->payload, 0, sizeof(c->payload));
		bytes = shingle_bad_encode(&img->bad, c->payload);
		if (!bytes)
			return next_places(img, places, c);
	}
	/* Clear what the engine left behind the encoded bytes. */
	memset(c->payload + bytes, 0, sizeof(c->payload) - bytes);
	c->index = cpu_to_le64(index);
	c->bytes = cpu_to_le32(bytes);
	return bytes;
}

/**
 * image_write_checkpoint() - write the state into a checkpoint slot
 * @img: image with an engine
 * @slot: 0 or 1
 * @seq: number of the checkpoint, above that of every other one
 * @journal: start of the journal behind the checkpoint
 * @why: on error, a sentence tail
 *
 * Writes the footer last, behind a flush; until then the slot's old state or the other slot
 * is valid.
 *
 * Return: 0 or -errno.
 */
int image_write_checkpoint(struct image *img, u32 slot, u64 seq,
			   const struct journal_start *journal, const char **why)
{
	u64 room = shingle_ckpt_room(&img->l, slot), cursor = 0, places = 0, nr = 0, block;
	struct device *meta = image_meta(img);
	bool core_done = false;
	u32 crc = 0;
	union {
		struct shingle_chunk chunk;
		struct shingle_footer footer;
	} *u = shingle_zalloc_array(1, sizeof(*u));
	int err = -ENOMEM;

	*why = "out of memory";
	if (!u)
		return err;
	*why = "checkpoint cannot be written";
	err = write_pages(img, seq, &u->chunk);
	if (err)
		goto out;
	while (next_chunk(img, &cursor, &core_done, &places, &u->chunk)) {
		err = -ENOSPC;
		if (nr + 1 >= room)
			goto out;
		block = shingle_ckpt_block(&img->l, slot, nr++);
		shingle_seal(&u->chunk, SHINGLE_MAGIC_CHUNK, img->l.uuid, block, seq);
		crc = crc32c(crc, &u->chunk.h.crc, sizeof(u->chunk.h.crc));
		err = device_write(meta, block, 1, &u->chunk);
		if (err)
			goto out;
	}
	err = device_sync(meta);
	if (err)
		goto out;

	memset(u, 0, sizeof(*u));
	u->footer.nr_chunks = cpu_to_le64(nr);
	u->footer.journal_seq = cpu_to_le64(journal->seq);
	u->footer.journal_pos = cpu_to_le64(journal->pos);
	u->footer.journal_prev_crc = cpu_to_le32(journal->prev_crc);
	u->footer.chunks_crc = cpu_to_le32(crc);
	block = shingle_ckpt_block(&img->l, slot, nr);
	shingle_seal(&u->footer, SHINGLE_MAGIC_FOOTER, img->l.uuid, block, seq);
	err = device_write(meta, block, 1, &u->footer) ?: device_sync(meta);
	if (err || nr + 1 == room)
		goto out;
	/* Clear the next block: remains of a damaged checkpoint could pass for the next one. */
	memset(u, 0, sizeof(*u));
	err = device_write(meta, shingle_ckpt_block(&img->l, slot, nr + 1), 1, u) ?:
	      device_sync(meta);
out:
	pages_written(img, !err);
	kvfree(u);
	return err;
}

/**
 * image_write_superblock() - write one copy of the superblock
 * @img: image with its layout, including the generation
 * @block: location
 *
 * Return: 0 or -errno.
 */
int image_write_superblock(struct image *img, u64 block)
{
	struct shingle_sb *sb = shingle_zalloc_array(1, sizeof(*sb));
	struct device *meta = image_meta(img);
	int err;

	if (!sb)
		return -ENOMEM;
	shingle_layout_encode(&img->l, block, sb);
	err = device_write(meta, block, 1, sb) ?: device_sync(meta);
	kvfree(sb);
	return err;
}

/**
 * image_write_superblocks() - write both copies, with the next generation
 * @img: image with its layout
 * @first: the copy to overwrite first, which must not be the only sound one: 0 at the start,
 *   1 at the end
 *
 * Return: 0 or -errno.
 */
int image_write_superblocks(struct image *img, u32 first)
{
	u64 block[2] = { 0, image_last_block(img) };

	img->l.sb_seq++;
	return image_write_superblock(img, block[first]) ?:
	       image_write_superblock(img, block[!first]);
}

/**
 * image_settings() - decode the settings that the device stores for opening
 * @img: image with its layout
 * @words: result, SHINGLE_SETTINGS_BYTES + 1 bytes
 * @way: remedy if they cannot be used, as the tail of a sentence
 *
 * Return: true, or false after printing an error.
 */
bool image_settings(const struct image *img, char *words, const char *way)
{
	const char *why = "";

	if (!shingle_settings_decode(&img->l.settings, words, &why))
		return true;
	fail("the settings stored on %s cannot be used: %s; %s",
	     img->ds.dev[SHINGLE_DEV_DATA].path, why, way);
	return false;
}

/**
 * image_write_member() - write one copy of the header of a device without superblocks
 * @img: image with its layout
 * @dev: the device
 * @block: location
 *
 * Return: 0 or -errno.
 */
int image_write_member(struct image *img, enum shingle_dev dev, u64 block)
{
	struct shingle_member *m = shingle_zalloc_array(1, sizeof(*m));
	struct device *d = &img->ds.dev[dev];
	int err;

	if (!m)
		return -ENOMEM;
	shingle_member_encode(&img->l, dev, block, m);
	err = device_write(d, block, 1, m) ?: device_sync(d);
	kvfree(m);
	return err;
}
