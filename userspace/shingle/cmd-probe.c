// SPDX-License-Identifier: GPL-2.0
/* shingle probe: identify a device of dm-shingle, in udev's format. */
#include <blkid/blkid.h>
#include <uuid/uuid.h>

#include "format/codec.h"
#include "show.h"

/*
 * True for a superblock or a header.  The common fields of both structs have the same
 * offsets, see shingle_format_check().
 */
static bool is_ours(const struct shingle_sb *sb)
{
	return !shingle_check_block(sb, SHINGLE_MAGIC_SB, NULL, 0) ||
	       !shingle_check_block(sb, SHINGLE_MAGIC_MEMBER, NULL, 0);
}

/* Role of a device in its target. */
static const char *part_of(const struct shingle_sb *sb)
{
	const struct shingle_member *m = (const void *)sb;

	if (le32_to_cpu(sb->h.magic) == SHINGLE_MAGIC_MEMBER)
		return dev_name(le32_to_cpu(m->dev));
	return sb->dev_blocks[SHINGLE_DEV_META] ? "META" : "DATA";
}

/* Print a label in both forms, like udev's builtin: one safe in a name, and one complete. */
static void say_label(const char *key, const char *text)
{
	char buf[4 * SHINGLE_LABEL_SIZE + 1];

	if (!*text)
		return;
	if (!blkid_safe_string(text, buf, sizeof(buf)))
		say("ID_FS_%s=%s", key, buf);
	if (!blkid_encode_string(text, buf, sizeof(buf)))
		say("ID_FS_%s_ENC=%s", key, buf);
}

static void say_all(const struct shingle_sb *sb)
{
	char text[SHINGLE_LABEL_SIZE + 1] = "", uuid[UUID_STR_LEN];
	char encoded[4 * SHINGLE_ENGINE_NAME_SIZE + 1];

	uuid_unparse_lower(sb->h.uuid, uuid);
	say("ID_FS_TYPE=shingle_member");
	say("ID_FS_USAGE=raid");
	say("ID_FS_VERSION=%u", le32_to_cpu(sb->version));
	say("ID_FS_UUID=%s", uuid);
	say("ID_FS_UUID_ENC=%s", uuid);
	memcpy(text, sb->label, SHINGLE_LABEL_SIZE);
	say_label("LABEL", text);
	/* Encode the name: a forged superblock may contain a line break and another property. */
	memset(text, 0, sizeof(text));
	memcpy(text, sb->engine, SHINGLE_ENGINE_NAME_SIZE);
	if (!blkid_encode_string(text, encoded, sizeof(encoded)))
		say("ID_SHINGLE_TARGET=%s", encoded);
	say("ID_SHINGLE_DEVICE=%s", part_of(sb));
}

static int run(const struct command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct shingle_sb *sb;
	struct device d;
	const char *path;
	int c, ret = EXIT_OPERATION;

	opterr = 0;
	while ((c = next_option(argc, argv, ":h", options, NULL)) != -1)
		return option_error(cmd, c, argv[optind - 1]);
	if (!parse_operands(cmd, argc, argv, 1, "DEV", &path))
		return EXIT_USAGE;
	if (!device_open(&d, "DEV", path, DEVICE_LOOK))
		return EXIT_OPERATION;
	sb = shingle_zalloc_array(1, sizeof(*sb));
	if (!sb) {
		fail("out of memory");
	} else if (!d.blocks || device_read(&d, 0, 1, sb) || !is_ours(sb)) {
		fail("DEV %s is not a device of dm-shingle", path);
	} else {
		say_all(sb);
		ret = EXIT_CLEAN;
	}
	kvfree(sb);
	device_close(&d);
	return ret;
}

const struct command cmd_probe = {
	.name = "probe",
	.summary = "identify a device of dm-shingle, for udev",
	.help = "Usage: shingle probe DEV\n\n"
		"Reads the first block of DEV, open or closed, and prints properties for udev's rules\n"
		"if it belongs to dm-shingle.  All versions of the format are recognised.\n\n"
		"Exit codes: 0 it belongs to dm-shingle, 8 it does not or cannot be read, 16 wrong\n"
		"usage.\n",
	.run = run,
};
