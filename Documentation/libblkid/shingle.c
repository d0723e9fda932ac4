/*
 * dm-shingle: devices of shingled and interlaced translation layers
 *
 * This file may be redistributed under the terms of the
 * GNU Lesser General Public License.
 */

/*
 * Specification of the on-disk format: Documentation/on-disk-format.rst in the
 * sources of dm-shingle
 *
 * Every device of a target begins with a block of 4 KiB that bears the target's UUID:
 * a superblock where the metadata are, a header on data and cache devices without
 * metadata.  Up to the label they have the same fields.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>

#include "superblocks.h"
#include "crc32c.h"

#define SHINGLE_BLOCK_SIZE	4096

struct shingle_header {
	uint8_t magic[4];		/* SHSB or SHMB */
	uint32_t crc;			/* from uuid to the end of the block */
	uint8_t uuid[16];		/* of the target, the same on all its devices */
	uint64_t block;			/* own address: 0 */
	uint64_t seq;
	uint32_t version;
	uint32_t flags;
	uint8_t engine[16];
	uint8_t label[32];
} __attribute__ ((__packed__));

/* The start value is the magic, and the result is not inverted. */
static int shingle_verify_csum(blkid_probe pr, const unsigned char *block)
{
	const struct shingle_header *h = (const struct shingle_header *) block;
	const size_t skip = offsetof(struct shingle_header, uuid);
	uint32_t seed = h->magic[0] | h->magic[1] << 8 | h->magic[2] << 16 |
			(uint32_t) h->magic[3] << 24;

	return blkid_probe_verify_csum(pr,
			crc32c(seed, block + skip, SHINGLE_BLOCK_SIZE - skip),
			le32_to_cpu(h->crc));
}

static int probe_shingle(blkid_probe pr,
		const struct blkid_idmag *mag __attribute__((__unused__)))
{
	const struct shingle_header *h;
	const unsigned char *block;

	block = blkid_probe_get_buffer(pr, 0, SHINGLE_BLOCK_SIZE);
	if (!block)
		return errno ? -errno : 1;

	h = (const struct shingle_header *) block;
	if (le64_to_cpu(h->block) != 0)
		return 1;
	if (!shingle_verify_csum(pr, block))
		return 1;

	blkid_probe_set_uuid(pr, h->uuid);
	blkid_probe_sprintf_version(pr, "%u", le32_to_cpu(h->version));
	if (*h->label)
		blkid_probe_set_label(pr, h->label, sizeof(h->label));
	return 0;
}

const struct blkid_idinfo shingle_idinfo =
{
	.name		= "shingle_member",
	.usage		= BLKID_USAGE_RAID,
	.probefunc	= probe_shingle,
	.minsz		= 2 * SHINGLE_BLOCK_SIZE,
	.magics		=
	{
		{ .magic = "SHSB", .len = 4 },
		{ .magic = "SHMB", .len = 4 },
		{ NULL }
	}
};
