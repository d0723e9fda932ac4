// SPDX-License-Identifier: GPL-2.0
/* Detection and removal of existing contents of a device. */
#include <blkid/blkid.h>
#include <fcntl.h>
#include <unistd.h>

#include "image.h"
#include "shingle-kv-magic.h"
#include "tool.h"

/* Bound on errors during a wipe; libblkid knows fewer than 200 signatures and tries each once. */
#define MAX_ERRORS	1000

/**
 * device_member_of() - check whether a device belongs to a dm-shingle device
 * @d: the device
 * @name: result, the role and the dm-shingle device, as the object of a sentence
 * @size: size of @name
 *
 * Return: true if the first or the last block holds a header.
 */
bool device_member_of(struct device *d, char *name, size_t size)
{
	void *buf = shingle_zalloc_array(1, SHINGLE_BLOCK_SIZE);
	bool found = false;
	u32 i;

	for (i = 0; i < 2 && buf && d->blocks && !found; i++)
		found = !device_read(d, i ? d->blocks - 1 : 0, 1, buf) &&
			shingle_member_name(buf, name, size);
	kvfree(buf);
	return found;
}

/* First 8 bytes of a block, or 0 if it cannot be read. */
static u64 kv_magic(struct device *d, u64 block, __le64 *buf)
{
	return block >= d->blocks || device_read(d, block, 1, buf) ? 0 : le64_to_cpu(*buf);
}

static bool is_kv_magic(u64 magic)
{
	return magic == KV_MAGIC || magic == KV_OFFLOAD_MAGIC;
}

/*
 * Name of a key-value store or of its offload device; NULL if it is neither.  The magic may be
 * damaged: then the copy of the header counts, if both have its place and the same UUID.
 */
static const char *find_store(struct device *d)
{
	__le64 *buf = shingle_zalloc_array(2, SHINGLE_BLOCK_SIZE), *copy = buf;
	u64 magic = buf ? kv_magic(d, 0, buf) : 0, place;

	if (magic && !is_kv_magic(magic)) {
		copy += SHINGLE_BLOCK_SIZE / sizeof(*copy);
		place = le64_to_cpu(buf[KV_COPY_OFFSET / sizeof(*buf)]);
		magic = place % SHINGLE_BLOCK_SIZE ? 0 :
			kv_magic(d, place / SHINGLE_BLOCK_SIZE, copy);
		if (copy[KV_COPY_OFFSET / sizeof(*copy)] != cpu_to_le64(place) ||
		    memcmp(copy + 2, buf + 2, 16))
			magic = 0;
	}
	kvfree(buf);
	return magic == KV_MAGIC ? "a key-value store" :
		magic == KV_OFFLOAD_MAGIC ? "the offload device of a key-value store" : NULL;
}

/*
 * Detect a store with a zeroed first block: by its band table, which follows the header, or
 * by the copy of the header at the place for each common band size.
 */
static const char *find_lost_store(struct device *d)
{
	static const u32 odd = 80U << 20;
	__le64 *buf = shingle_zalloc_array(1, SHINGLE_BLOCK_SIZE);
	u64 bytes = d->blocks * SHINGLE_BLOCK_SIZE, magic = 0, of_store;
	u32 band, i, last;

	if (!buf || device_read(d, 0, 1, buf) || memchr_inv(buf, 0, SHINGLE_BLOCK_SIZE))
		goto out;
	magic = kv_magic(d, 1, buf) == KV_BANDS_MAGIC ? KV_MAGIC : 0;
	/* Powers of two from 64 KiB to 1 GiB, then 80 MiB. */
	for (i = 16, last = 31; i <= last && !magic; i++) {
		band = i < last ? 1U << i : odd;
		of_store = kv_places(bytes, band).bands_offset;
		if (of_store && kv_magic(d, of_store / SHINGLE_BLOCK_SIZE - 1, buf) == KV_MAGIC)
			magic = KV_MAGIC;
		else if (kv_magic(d, band / SHINGLE_BLOCK_SIZE - 1, buf) == KV_OFFLOAD_MAGIC)
			magic = KV_OFFLOAD_MAGIC;
	}
out:
	kvfree(buf);
	return !magic ? NULL : magic == KV_MAGIC ?
		"a key-value store without its first block" :
		"the offload device of a key-value store without its first block";
}

static bool find_ours(struct device *d, char *what, size_t size)
{
	struct shingle_layout *l = shingle_zalloc_array(1, sizeof(*l));
	struct devices alone = { .dev = { [SHINGLE_DEV_DATA] = *d } };
	struct shingle_reader r = devices_reader(&alone);
	const char *why = "";
	int err = l ? shingle_load_sb(&r, SHINGLE_DEV_DATA, d->blocks, l, &why) : -ENODATA;
	bool ours = true;
	char name[80];

	if (!err)
		snprintf(what, size, "a dm-shingle device of type %s%s%s%s", shown(l->engine).s,
			 l->label[0] ? " labelled '" : "", shown(l->label).s,
			 l->label[0] ? "'" : "");
	else if (err == -EUCLEAN || err == -EPROTONOSUPPORT)
		snprintf(what, size, "a dm-shingle superblock (%s)", why);
	else if (find_store(d))
		snprintf(what, size, "%s", find_store(d));
	else if (device_member_of(d, name, sizeof(name)))
		snprintf(what, size, "a part of a dm-shingle device (it is %s)", name);
	else
		ours = false;
	kvfree(l);
	return ours;
}

static const char *lookup(blkid_probe pr, const char *name)
{
	const char *value;

	return blkid_probe_lookup_value(pr, name, &value, NULL) ? NULL : value;
}

/**
 * device_has_content() - find contents that formatting would destroy
 * @d: the device
 * @what: result, the contents as the object of a sentence
 * @size: size of @what
 *
 * Return: false if the device is empty.  A device that cannot be read counts as not empty.
 */
bool device_has_content(struct device *d, char *what, size_t size)
{
	const char *type, *label;
	blkid_probe pr;
	bool found = true;
	int got, fd;

	if (!d->blocks)
		return false;
	if (find_ours(d, what, size))
		return true;

	/* libblkid needs its own descriptor: its reads may not be aligned for direct I/O. */
	fd = open(d->path, O_RDONLY | O_CLOEXEC);
	pr = blkid_new_probe();
	if (fd < 0 || !pr || blkid_probe_set_device(pr, fd, 0, 0)) {
		snprintf(what, size, "contents that libblkid cannot read");
		goto out;
	}
	blkid_probe_enable_superblocks(pr, 1);
	blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL);
	blkid_probe_enable_partitions(pr, 1);
	got = blkid_do_safeprobe(pr);
	if (got == -2) {
		snprintf(what, size, "signatures of more than one file system");
	} else if (got < 0) {
		snprintf(what, size, "blocks that cannot be read, so its contents are unknown");
	} else if (got == 0) {
		type = lookup(pr, "TYPE");
		label = lookup(pr, "LABEL");
		if (type)
			snprintf(what, size, "a file system or superblock of type %s%s%s%s", type,
				 label ? " labelled '" : "", shown(label ?: "").s,
				 label ? "'" : "");
		else
			snprintf(what, size, "a partition table of type %s",
				 lookup(pr, "PTTYPE") ?: "unknown");
	} else {
		type = find_lost_store(d);
		found = type;
		if (found)
			snprintf(what, size, "%s", type);
	}
out:
	if (pr)
		blkid_free_probe(pr);
	if (fd >= 0)
		close(fd);
	return found;
}

/**
 * device_raid_type() - check whether a device is part of an array
 * @d: the device
 * @type: result, as libblkid names it
 * @size: size of @type
 *
 * Some arrays have their superblock at the end.  A mirror of that kind begins with the
 * array's own first block, so each part looks like the array but is longer.
 *
 * Return: true if it is.
 */
bool device_raid_type(const struct device *d, char *type, size_t size)
{
	int fd = open(d->path, O_RDONLY | O_CLOEXEC);
	blkid_probe pr = blkid_new_probe();
	bool found = false;

	if (fd >= 0 && pr && !blkid_probe_set_device(pr, fd, 0, 0)) {
		blkid_probe_enable_superblocks(pr, 1);
		blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE);
		blkid_probe_filter_superblocks_usage(pr, BLKID_FLTR_ONLYIN, BLKID_USAGE_RAID);
		found = !blkid_do_probe(pr) && lookup(pr, "TYPE");
		if (found)
			snprintf(type, size, "%s", lookup(pr, "TYPE"));
	}
	if (pr)
		blkid_free_probe(pr);
	if (fd >= 0)
		close(fd);
	return found;
}

/**
 * device_wipe_signatures() - remove all signatures that libblkid knows
 * @d: the device, open for writing
 *
 * Zeroes the signatures and their copies, with valid or invalid checksums, and nothing else.
 * Unreadable places are skipped.
 *
 * Return: 0 or -errno.
 */
int device_wipe_signatures(struct device *d)
{
	int fd = open(d->path, O_RDWR | O_CLOEXEC), got = 0, err = 0;
	blkid_probe pr = blkid_new_probe();
	bool wiped = false;
	u32 errors = 0;

	if (fd < 0 || !pr || blkid_probe_set_device(pr, fd, 0, 0)) {
		err = errno ? -errno : -EIO;
		goto out;
	}
	blkid_probe_enable_superblocks(pr, 1);
	blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_MAGIC |
					      BLKID_SUBLKS_BADCSUM);
	blkid_probe_enable_partitions(pr, 1);
	blkid_probe_set_partitions_flags(pr, BLKID_PARTS_MAGIC | BLKID_PARTS_FORCE_GPT);
	while (!err && got != 1 && errors < MAX_ERRORS) {
		got = blkid_do_probe(pr);
		if (got < 0)
			errors++;
		else if (!got && blkid_do_wipe(pr, 0))
			err = -EIO;
		wiped |= !got;
	}
	if (!err && wiped && fsync(fd))
		err = -errno;
out:
	if (pr)
		blkid_free_probe(pr);
	if (fd >= 0)
		close(fd);
	return err;
}
