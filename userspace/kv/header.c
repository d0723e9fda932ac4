// SPDX-License-Identifier: GPL-2.0
/* The header in the first block, and its copy: identity and layout of the store. */
#include "store.h"

struct kv_disk *band_disk(const struct kv *kv, u32 band)
{
	return band < kv->head.bands ? kv->disk : kv->offload.disk;
}

/* Return: the offset of a band on its disk. */
u64 band_offset(const struct kv *kv, u32 band)
{
	if (band < kv->head.bands)
		return kv->head.bands_offset + (u64)band * kv->head.band_bytes;
	return kv->offload.head.bands_offset + (u64)(band - kv->head.bands) * kv->head.band_bytes;
}

static u32 header_crc(struct header *h)
{
	__le32 was = h->crc;
	u32 crc;

	h->crc = 0;
	crc = crc32c(~0U, h, sizeof(*h));
	h->crc = was;
	return crc;
}

static const struct {
	u64 magic;
	const char *name;
} kinds[] = {
	[HEADER_STORE] = { KV_MAGIC, "a key-value store" },
	[HEADER_OFFLOAD] = { KV_OFFLOAD_MAGIC, "an offload device" },
	[HEADER_UNFINISHED] = { KV_UNFINISHED_MAGIC, "a checkpoint that is being written" },
};

/* The copy is in the last block before the bands. */
static u64 copy_offset(const struct shape *s)
{
	return s->bands_offset - BLOCK_BYTES;
}

static void fill(struct header *h, const struct shape *s)
{
	memset(h, 0, sizeof(*h));
	h->magic = cpu_to_le64(kinds[s->kind].magic);
	h->version = cpu_to_le32(FORMAT_VERSION);
	memcpy(h->uuid, s->uuid, sizeof(h->uuid));
	h->organisation = cpu_to_le32(s->organisation);
	h->band_bytes = cpu_to_le32(s->band_bytes);
	h->bands = cpu_to_le32(s->bands);
	h->device_bytes = cpu_to_le64(s->device_bytes);
	h->slot_offset = cpu_to_le64(s->slot_offset);
	h->slot_bytes = cpu_to_le64(s->slot_bytes);
	h->bands_offset = cpu_to_le64(s->bands_offset);
	h->copy_offset = cpu_to_le64(copy_offset(s));
	memcpy(h->own, s->own, sizeof(h->own));
	h->crc = cpu_to_le32(header_crc(h));
}

/**
 * header_write() - write both copies of the header
 * @disk: the disk
 * @s: the contents
 *
 * Return: 0 or -errno; nothing is flushed.
 */
int header_write(struct kv_disk *disk, const struct shape *s)
{
	struct header *h = aligned_alloc(BLOCK_BYTES, sizeof(*h));
	int err;

	if (!h)
		return kv_no_memory();
	fill(h, s);
	/* Without a first copy no reader looks for the second: the first is written last. */
	err = disk->ops->write(disk, copy_offset(s), h, sizeof(*h));
	if (!err)
		err = disk->ops->write(disk, 0, h, sizeof(*h));
	free(h);
	return err ? kv_says(err, "%s: the header cannot be written: %s", disk->name,
			     strerror(-err)) : 0;
}

/* Are the values of a header possible? */
static bool sane(const struct shape *s)
{
	u64 size;

	if (s->kind == HEADER_OFFLOAD ? s->organisation != KV_BUFFERED || s->slot_bytes :
			 s->slot_bytes < BLOCK_BYTES)
		return false;
	return s->organisation <= KV_BUFFERED && s->band_bytes >= KV_BAND_MIN &&
		s->band_bytes <= KV_BAND_MAX && !(s->band_bytes % BLOCK_BYTES) && s->bands &&
		s->bands <= U32_MAX / 2 && s->slot_offset == BLOCK_BYTES &&
		!(s->slot_bytes % BLOCK_BYTES) && s->slot_bytes <= U64_MAX / 16 &&
		!(s->bands_offset % BLOCK_BYTES) &&
		s->bands_offset >= s->slot_offset + SLOTS * s->slot_bytes + BLOCK_BYTES &&
		!check_add_overflow(s->bands_offset, (u64)s->bands * s->band_bytes, &size) &&
		size <= s->device_bytes;
}

static int parse(struct kv_disk *disk, enum header_kind kind, struct header *h, struct shape *s)
{
	if (kind == HEADER_STORE && le64_to_cpu(h->magic) == KV_UNFINISHED_MAGIC)
		return kv_says(-EMEDIUMTYPE, "%s has a checkpoint that was not finished",
			       disk->name);
	if (le64_to_cpu(h->magic) != kinds[kind].magic)
		return kv_says(-EMEDIUMTYPE, "%s is not %s", disk->name, kinds[kind].name);
	if (le32_to_cpu(h->version) != FORMAT_VERSION)
		return kv_says(-EPROTONOSUPPORT, "%s: format %u is not supported, only %u",
			       disk->name, le32_to_cpu(h->version), FORMAT_VERSION);
	if (le32_to_cpu(h->crc) != header_crc(h))
		return kv_says(-EUCLEAN, "%s: the header is damaged", disk->name);
	memcpy(s->uuid, h->uuid, sizeof(s->uuid));
	s->organisation = le32_to_cpu(h->organisation);
	s->band_bytes = le32_to_cpu(h->band_bytes);
	s->bands = le32_to_cpu(h->bands);
	s->device_bytes = le64_to_cpu(h->device_bytes);
	s->slot_offset = le64_to_cpu(h->slot_offset);
	s->slot_bytes = le64_to_cpu(h->slot_bytes);
	s->bands_offset = le64_to_cpu(h->bands_offset);
	s->kind = kind;
	memcpy(s->own, h->own, sizeof(s->own));
	if (!sane(s))
		return kv_says(-EUCLEAN, "%s: the header is inconsistent", disk->name);
	if (s->device_bytes > disk->bytes)
		return kv_says(-EUCLEAN, "%s has %llu bytes, but had %llu when it was formatted",
			       disk->name, disk->bytes, s->device_bytes);
	return 0;
}

/*
 * The first copy, in @h, is damaged: look for the other one where two of its fields say it is.  It
 * must have its own place in it.  Return: true, with the contents in @s, or false with the message
 * unchanged.
 */
static bool find_copy(struct kv_disk *disk, enum header_kind kind, struct header *h,
		      struct shape *s)
{
	const u64 place[] = { le64_to_cpu(h->copy_offset),
			      le64_to_cpu(h->bands_offset) - BLOCK_BYTES };
	struct shape found = { .kind = kind };
	char text[400];
	u32 i;

	snprintf(text, sizeof(text), "%s", kv_error());
	for (i = 0; i < ARRAY_SIZE(place); i++) {
		if (!place[i] || place[i] % BLOCK_BYTES || place[i] > disk->bytes - BLOCK_BYTES ||
		    disk->ops->read(disk, place[i], h, sizeof(*h)) ||
		    parse(disk, kind, h, &found) || copy_offset(&found) != place[i])
			continue;
		*s = found;
		return true;
	}
	kv_says(0, "%s", text);
	return false;
}

/**
 * header_read() - read the header
 * @disk: the disk
 * @kind: expected kind
 * @s: result
 *
 * If the first copy has a wrong checksum, the second one is used.
 *
 * Return: 0, or -errno with the message set.
 */
int header_read(struct kv_disk *disk, enum header_kind kind, struct shape *s)
{
	struct header *h = aligned_alloc(BLOCK_BYTES, sizeof(*h));
	int err;

	if (!h)
		return kv_no_memory();
	err = disk->bytes < sizeof(*h) ? -EMEDIUMTYPE :
		disk->ops->read(disk, 0, h, sizeof(*h));
	if (err) {
		kv_says(err, "%s: %s", disk->name, err == -EMEDIUMTYPE ?
			"it is too small for a key-value store" : strerror(-err));
		goto out;
	}
	err = parse(disk, kind, h, s);
	/* Magic and version may be what is damaged. */
	if (err && le32_to_cpu(h->crc) != header_crc(h) && find_copy(disk, kind, h, s))
		err = 0;
out:
	free(h);
	return err;
}

static int copies_of(struct kv *kv, struct kv_disk *disk, const struct shape *s,
		     void (*report)(void *ctx, const char *text, int err), void *ctx)
{
	struct header *h = aligned_alloc(BLOCK_BYTES, 2 * sizeof(*h));
	const u64 place[] = { 0, copy_offset(s) };
	int err = 0, unread;
	char text[120];
	u32 i;

	if (!h)
		return kv_no_memory();
	fill(h + 1, s);
	for (i = 0; i < ARRAY_SIZE(place) && !err; i++) {
		unread = disk->ops->read(disk, place[i], h, sizeof(*h));
		if (!unread && !memcmp(h, h + 1, sizeof(*h)))
			continue;
		snprintf(text, sizeof(text), "%sheader: copy %u of 2 %s%s",
			 s->kind == HEADER_OFFLOAD ? "offload device: " : "", i + 1,
			 unread ? "cannot be read: " : "is damaged",
			 unread ? strerror(-unread) : "");
		if (report)
			report(ctx, text, unread ?: -EUCLEAN);
		/* A copy that cannot be read may be readable the next time. */
		else if (!unread)
			err = store_write(kv, disk, place[i], h + 1, sizeof(*h));
	}
	free(h);
	return err;
}

/**
 * header_copies() - are both copies of the header whole, also on the offload device?
 * @kv: the store
 * @report: called for a copy that is damaged, or with the error of its read; NULL: write a damaged
 *	copy again
 * @ctx: for @report
 *
 * Return: 0 or -errno; nothing is flushed.
 */
int header_copies(struct kv *kv, void (*report)(void *ctx, const char *text, int err), void *ctx)
{
	return copies_of(kv, kv->disk, &kv->head, report, ctx) ?:
		(kv->offload.disk ?
		 copies_of(kv, kv->offload.disk, &kv->offload.head, report, ctx) : 0);
}
