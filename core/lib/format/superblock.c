// SPDX-License-Identifier: GPL-2.0
/*
 * The first and the last block of a device: superblocks, headers of devices that have none, and how
 * they are found.
 */
#include "format/codec.h"
#include "format/recover.h"

/**
 * shingle_layout_encode() - encode a layout as a superblock
 * @l: layout, accepted by shingle_layout_check()
 * @block: place of this copy, on the metadata device
 * @sb: result, sealed
 *
 * Context: any.
 */
void shingle_layout_encode(const struct shingle_layout *l, u64 block, struct shingle_sb *sb)
{
	u32 i;

	memset(sb, 0, sizeof(*sb));
	sb->version = cpu_to_le32(SHINGLE_VERSION);
	sb->flags = cpu_to_le32(l->flags);
	memcpy(sb->engine, l->engine, SHINGLE_ENGINE_NAME_SIZE);
	memcpy(sb->label, l->label, SHINGLE_LABEL_SIZE);
	sb->logical_blocks = cpu_to_le64(l->logical_blocks);
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		sb->dev_blocks[i] = cpu_to_le64(l->dev_blocks[i]);
	for (i = 0; i < 2; i++) {
		sb->ckpt[i].start = cpu_to_le64(l->ckpt[i].start);
		sb->ckpt[i].blocks = cpu_to_le64(l->ckpt[i].blocks);
	}
	sb->journal.start = cpu_to_le64(l->journal.start);
	sb->journal.blocks = cpu_to_le64(l->journal.blocks);
	sb->journal_gap_blocks = cpu_to_le64(l->journal_gap_blocks);
	sb->pages.start = cpu_to_le64(l->pages.start);
	sb->pages.blocks = cpu_to_le64(l->pages.blocks);
	sb->ckpt_stretch_blocks = cpu_to_le32(l->ckpt_stretch_blocks);
	sb->head_tracks = cpu_to_le32(l->head_tracks);
	sb->media = cpu_to_le32(l->interlaced ? SHINGLE_MEDIA_INTERLACED :
						SHINGLE_MEDIA_SHINGLED);
	sb->nr_groups = cpu_to_le32(l->nr_entries);
	sb->ctime = cpu_to_le64(l->ctime);
	memcpy(sb->params, l->params, sizeof(sb->params));
	for (i = 0; i < l->nr_entries; i++) {
		const struct shingle_group *g = &l->entries[i];
		struct shingle_disk_group *d = &sb->groups[i];

		d->start = cpu_to_le64(shingle_pblk_block(g->start));
		d->stride = cpu_to_le64(g->stride);
		d->nr_bands = cpu_to_le64(g->nr_bands);
		d->track_blocks = cpu_to_le32(g->track_blocks);
		d->role = cpu_to_le16(g->role);
		d->dev = cpu_to_le16(shingle_pblk_dev(g->start));
		d->band_blocks = cpu_to_le32(l->band_blocks[g->role]);
	}
	for (i = 0; i < SHINGLE_NR_MEDIA; i++)
		shingle_medium_encode(&l->medium[i], &sb->medium[i]);
	sb->settings = l->settings;
	shingle_seal(sb, SHINGLE_MAGIC_SB, l->uuid, block, l->sb_seq);
}

/* Set the length of bands of a role; all groups of the role must have the same. */
static int set_band_blocks(struct shingle_layout *l, enum shingle_role role, u32 band_blocks,
			   const char **why)
{
	if (!band_blocks) {
		*why = "group of bands does not say how long they are";
		return -EUCLEAN;
	}
	if (l->band_blocks[role] && l->band_blocks[role] != band_blocks) {
		*why = "groups of one role have bands of different lengths";
		return -EUCLEAN;
	}
	l->band_blocks[role] = band_blocks;
	return 0;
}

static const char * const other_version[] = {
	"format version is newer than this build knows",
	"format version is an older one: copy the data out with the older dm-shingle, then format anew",
};

/**
 * shingle_layout_decode() - decode a superblock
 * @sb: 4 KiB as read
 * @block: the place from which it was read
 * @l: result
 * @why: on error, the reason, as the tail of a sentence
 *
 * Context: any.
 * Return: 0; -ENODATA if the block is not a superblock; -EUCLEAN if it is one, but damaged,
 * misplaced or invalid; -EPROTONOSUPPORT if another version wrote it.
 */
int shingle_layout_decode(const struct shingle_sb *sb, u64 block, struct shingle_layout *l,
			  const char **why)
{
	enum shingle_block_fault fault = shingle_check_block(sb, SHINGLE_MAGIC_SB, NULL, block);
	u32 nr_entries, i;

	if (fault) {
		*why = shingle_check_block(sb, SHINGLE_MAGIC_MEMBER, NULL, block) ?
		       shingle_fault_text(fault) :
		       "it belongs to a dm-shingle device whose metadata are on another one";
		return fault == SHINGLE_BLOCK_FOREIGN ? -ENODATA : -EUCLEAN;
	}
	if (le32_to_cpu(sb->version) != SHINGLE_VERSION) {
		*why = other_version[le32_to_cpu(sb->version) < SHINGLE_VERSION];
		return -EPROTONOSUPPORT;
	}

	memset(l, 0, sizeof(*l));
	memcpy(l->uuid, sb->h.uuid, sizeof(l->uuid));
	l->sb_seq = le64_to_cpu(sb->h.seq);
	l->flags = le32_to_cpu(sb->flags);
	memcpy(l->engine, sb->engine, SHINGLE_ENGINE_NAME_SIZE);
	memcpy(l->label, sb->label, SHINGLE_LABEL_SIZE);
	l->logical_blocks = le64_to_cpu(sb->logical_blocks);
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		l->dev_blocks[i] = le64_to_cpu(sb->dev_blocks[i]);
	for (i = 0; i < 2; i++) {
		l->ckpt[i].start = le64_to_cpu(sb->ckpt[i].start);
		l->ckpt[i].blocks = le64_to_cpu(sb->ckpt[i].blocks);
	}
	l->journal.start = le64_to_cpu(sb->journal.start);
	l->journal.blocks = le64_to_cpu(sb->journal.blocks);
	l->journal_gap_blocks = le64_to_cpu(sb->journal_gap_blocks);
	l->pages.start = le64_to_cpu(sb->pages.start);
	l->pages.blocks = le64_to_cpu(sb->pages.blocks);
	l->ckpt_stretch_blocks = le32_to_cpu(sb->ckpt_stretch_blocks);
	if (le32_to_cpu(sb->media) > SHINGLE_MEDIA_INTERLACED) {
		*why = "medium is of a kind that this build does not know";
		return -EUCLEAN;
	}
	l->interlaced = le32_to_cpu(sb->media) == SHINGLE_MEDIA_INTERLACED;
	l->head_tracks = le32_to_cpu(sb->head_tracks);
	l->ctime = le64_to_cpu(sb->ctime);
	memcpy(l->params, sb->params, sizeof(l->params));
	for (i = 0; i < SHINGLE_NR_MEDIA; i++) {
		if (shingle_medium_decode(&sb->medium[i], l->dev_blocks[i], &l->medium[i], why))
			return -EUCLEAN;
	}
	l->settings = sb->settings;
	nr_entries = le32_to_cpu(sb->nr_groups);
	if (nr_entries > SHINGLE_MAX_GROUPS) {
		*why = "group table is longer than a superblock can hold";
		return -EUCLEAN;
	}
	for (i = 0; i < nr_entries; i++) {
		const struct shingle_disk_group *d = &sb->groups[i];
		struct shingle_group g;

		if (le16_to_cpu(d->role) >= SHINGLE_NR_ROLES ||
		    le16_to_cpu(d->dev) >= SHINGLE_NR_DEVS ||
		    le64_to_cpu(d->start) > SHINGLE_PBLK_MASK) {
			*why = "group table names an unknown role or device";
			return -EUCLEAN;
		}
		g.role = le16_to_cpu(d->role);
		g.start = shingle_pblk(le16_to_cpu(d->dev), le64_to_cpu(d->start));
		g.stride = le64_to_cpu(d->stride);
		g.nr_bands = le64_to_cpu(d->nr_bands);
		g.track_blocks = le32_to_cpu(d->track_blocks);
		if (set_band_blocks(l, g.role, le32_to_cpu(d->band_blocks), why))
			return -EUCLEAN;
		if (shingle_layout_add(l, &g, why))
			return -EUCLEAN;
	}
	shingle_layout_index(l);
	return shingle_layout_check(l, why);
}

static const char *const member_names[SHINGLE_NR_DEVS] = { "data", "cache", "metadata" };

static const char *member_kind(u32 dev)
{
	return dev < SHINGLE_NR_DEVS ? member_names[dev] : "unknown";
}

#define UUID_FORMAT "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x"
#define UUID_BYTES(u) (u)[0], (u)[1], (u)[2], (u)[3], (u)[4], (u)[5], (u)[6], (u)[7], \
	(u)[8], (u)[9], (u)[10], (u)[11], (u)[12], (u)[13], (u)[14], (u)[15]

/**
 * shingle_member_encode() - encode the header of a device that has no superblocks
 * @l: layout
 * @dev: the device
 * @block: place of this copy: 0 or the last block of the device
 * @m: result, sealed
 *
 * Context: any.
 */
void shingle_member_encode(const struct shingle_layout *l, enum shingle_dev dev, u64 block,
			   struct shingle_member *m)
{
	memset(m, 0, sizeof(*m));
	m->version = cpu_to_le32(SHINGLE_VERSION);
	memcpy(m->engine, l->engine, SHINGLE_ENGINE_NAME_SIZE);
	memcpy(m->label, l->label, SHINGLE_LABEL_SIZE);
	m->blocks = cpu_to_le64(l->dev_blocks[dev]);
	m->dev = cpu_to_le32(dev);
	m->ctime = cpu_to_le64(l->ctime);
	shingle_seal(m, SHINGLE_MAGIC_MEMBER, l->uuid, block, 1);
}

/**
 * shingle_member_name() - name the device to which a header belongs
 * @buf: 4 KiB as read
 * @name: result, such as "the cache device of 01234567-89ab-cdef-0123-456789abcdef"
 * @size: size of @name
 *
 * Context: any.
 * Return: false if the block is neither a sound superblock nor a sound header of another device.
 */
bool shingle_member_name(const void *buf, char *name, size_t size)
{
	const struct shingle_member *m = buf;
	const u8 *uuid = m->h.uuid;

	if (!shingle_check_block(buf, SHINGLE_MAGIC_SB, NULL, U64_MAX)) {
		snprintf(name, size, "the superblock of " UUID_FORMAT, UUID_BYTES(uuid));
		return true;
	}
	if (shingle_check_block(buf, SHINGLE_MAGIC_MEMBER, NULL, U64_MAX))
		return false;
	snprintf(name, size, "the %s device of " UUID_FORMAT, member_kind(le32_to_cpu(m->dev)),
		 UUID_BYTES(uuid));
	return true;
}

/**
 * shingle_member_examine() - is this block the header of the target's device?
 * @l: layout
 * @dev: the device
 * @block: the place from which it was read: 0 or the last block of the device
 * @buf: 4 KiB as read, or NULL if it could not be read
 * @why: if not, what was found and what was expected, SHINGLE_MEMBER_WHY bytes
 *
 * Context: any.
 * Return: state of the block.
 */
enum shingle_member_fault shingle_member_examine(const struct shingle_layout *l,
						 enum shingle_dev dev, u64 block, const void *buf,
						 char *why)
{
	enum shingle_member_fault fault = SHINGLE_MEMBER_FOREIGN;
	const struct shingle_member *m = buf;
	char found[80] = "no dm-shingle header";

	if (!buf) {
		snprintf(found, sizeof(found), "a header that cannot be read");
		fault = SHINGLE_MEMBER_DAMAGED;
	} else if (shingle_check_block(m, SHINGLE_MAGIC_MEMBER, l->uuid, block)) {
		bool ours = !memcmp(m->h.uuid, l->uuid, SHINGLE_UUID_SIZE);

		/*
		 * Its UUID and another identifying field match: it was the header of this device.
		 */
		if (!shingle_member_name(buf, found, sizeof(found)) && ours &&
		    (le32_to_cpu(m->h.magic) == SHINGLE_MAGIC_MEMBER ||
		     le64_to_cpu(m->h.block) == block)) {
			snprintf(found, sizeof(found), "a damaged header");
			fault = SHINGLE_MEMBER_DAMAGED;
		}
	} else if (le32_to_cpu(m->version) != SHINGLE_VERSION) {
		snprintf(found, sizeof(found), "a header of format version %u",
			 le32_to_cpu(m->version));
	} else if (le32_to_cpu(m->dev) != dev) {
		shingle_member_name(buf, found, sizeof(found));
	} else if (le64_to_cpu(m->blocks) != l->dev_blocks[dev]) {
		snprintf(found, sizeof(found), "one of %llu blocks, not %llu",
			 (unsigned long long)le64_to_cpu(m->blocks),
			 (unsigned long long)l->dev_blocks[dev]);
	} else {
		return SHINGLE_MEMBER_OK;
	}
	snprintf(why, SHINGLE_MEMBER_WHY, "found %s; wanted the %s device of " UUID_FORMAT, found,
		 member_kind(dev), UUID_BYTES(l->uuid));
	return fault;
}

/**
 * shingle_load_sb() - find the superblock
 * @r: reader
 * @dev: device that should hold it
 * @dev_blocks: size of that device
 * @l: result
 * @why: on error, what was found, a sentence tail
 *
 * The copies are at block 0 and at the last block of the device as it was formatted; of two sound
 * ones the newer is used.  If the device has grown since, the first copy locates the second: at the
 * end of the device there may be a copy of an earlier format.
 *
 * Context: may sleep.
 * Return: 0; -ENODATA if neither copy is there; -EUCLEAN if a damaged one is there;
 * -EPROTONOSUPPORT; -ENOMEM; or the read error.
 */
int shingle_load_sb(const struct shingle_reader *r, enum shingle_dev dev, u64 dev_blocks,
		    struct shingle_layout *l, const char **why)
{
	struct shingle_layout *copy;
	struct shingle_sb *sb;
	u64 last = dev_blocks - 1;
	bool found = false;
	int worst = -ENODATA;
	u32 i;

	*why = "device is too small for a superblock";
	if (dev_blocks < 2)
		return -ENODATA;

	sb = shingle_zalloc_array(1, sizeof(*sb));
	copy = shingle_zalloc_array(1, sizeof(*copy));
	if (!sb || !copy) {
		*why = "out of memory";
		worst = -ENOMEM;
		goto out;
	}

	for (i = 0; i < 2; i++) {
		u64 block = i ? last : 0;
		const char *text = "cannot be read";
		int err = r->read(r->ctx, dev, block, 1, sb);

		/* -ENODATA would mean below that no superblock is there. */
		if (err == -ENODATA)
			err = -EIO;
		if (!err)
			err = shingle_layout_decode(sb, block, copy, &text);
		if (!err && (!found || copy->sb_seq > l->sb_seq)) {
			*l = *copy;
			found = true;
			if (!i && l->dev_blocks[dev] > 1 && l->dev_blocks[dev] < dev_blocks)
				last = l->dev_blocks[dev] - 1;
		} else if (err && (worst == -ENODATA || i == 0)) {
			/* A damaged copy is more informative than a missing one. */
			if (err != -ENODATA || worst == -ENODATA) {
				worst = err;
				*why = text;
			}
		}
	}
out:
	kvfree(copy);
	kvfree(sb);
	return found ? 0 : worst;
}

/* The block is neither a header nor the rest of one: other software has written it. */
static bool is_foreign(const void *buf)
{
	const u8 *byte = buf;
	const struct shingle_member *m = buf;
	char name[80];

	if (shingle_member_name(buf, name, sizeof(name)))
		return true;
	return le32_to_cpu(m->h.magic) != SHINGLE_MAGIC_MEMBER &&
	       (byte[0] || memcmp(byte, byte + 1, SHINGLE_BLOCK_SIZE - 1));
}

/**
 * shingle_check_member() - is this the device that was formatted with the others?
 * @r: reader
 * @l: layout
 * @dev: the device to check; one without superblocks
 * @copy: state of its two copies, in the first and the last block; or NULL
 * @why: on error, what was found and what was expected, SHINGLE_MEMBER_WHY bytes
 *
 * One sound copy is enough, unless the other block contains something else: then other software has
 * used the device since.  An emulated medium that stores no data has no copies; the superblock
 * records that.
 *
 * Context: may sleep.
 * Return: 0; -EINVAL if it is another device; -EUCLEAN if neither copy is sound, but one identifies
 * the device; -EIO if the blocks cannot be read; -ENOMEM.
 */
int shingle_check_member(const struct shingle_reader *r, const struct shingle_layout *l,
			 enum shingle_dev dev, enum shingle_member_fault *copy, char *why)
{
	void *buf = shingle_zalloc_array(1, SHINGLE_BLOCK_SIZE);
	bool sound = l->flags & SHINGLE_SB_UNMARKED(dev), unmarked = sound;
	bool foreign = false, ours = false, unread = false;
	char text[SHINGLE_MEMBER_WHY];
	u32 i;

	snprintf(why, SHINGLE_MEMBER_WHY, "out of memory");
	if (!buf)
		return -ENOMEM;
	for (i = 0; i < 2; i++) {
		u64 block = i ? l->dev_blocks[dev] - 1 : 0;
		int err = r->read(r->ctx, dev, block, 1, buf);
		enum shingle_member_fault fault;
		bool other;

		fault = shingle_member_examine(l, dev, block, err ? NULL : buf, text);
		if (copy)
			copy[i] = unmarked ? SHINGLE_MEMBER_OK : fault;
		if (fault == SHINGLE_MEMBER_OK) {
			sound = true;
			continue;
		}
		other = fault == SHINGLE_MEMBER_FOREIGN && is_foreign(buf);
		/* Report what is there rather than what is missing. */
		if (!foreign && (other || !ours))
			memcpy(why, text, sizeof(text));
		foreign |= other;
		ours |= fault == SHINGLE_MEMBER_DAMAGED && !err;
		unread |= err;
	}
	kvfree(buf);
	if (foreign)
		return -EINVAL;
	if (sound)
		return 0;
	return ours ? -EUCLEAN : unread ? -EIO : -EINVAL;
}
