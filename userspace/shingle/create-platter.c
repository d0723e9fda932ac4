// SPDX-License-Identifier: GPL-2.0
/*
 * shingle create platter.
 *
 * A platter stores no metadata, so there is nothing to format, and no command can open it again
 * without the options of its creation.
 */
#include "dm.h"
#include "platter-options.h"
#include "create-platter.h"

#define DEFAULT_PROFILE	"st5000as0011"

void platter_keys_help(void)
{
	table_describe("platter", platter_options);
}

void platter_help(void)
{
	const struct platter_profile *p;
	char help[256];
	u32 i;

	printf("Usage: shingle create platter [options] DEVICE NAME\n\n"
	       "Makes a medium with the geometry and mechanics of a drive, /dev/mapper/NAME.  DEVICE\n"
	       "holds its contents; with 'none' writes are dropped.  A platter stores no metadata, so\n"
	       "'shingle open' cannot open it: create it again with the same options.  Creating it does\n"
	       "not change the contents.\n\n");
	print_option("--profile NAME", "the drive, see below (default: " DEFAULT_PROFILE ")");
	print_option("--size SIZE", "size of the medium (default: the rest of DEVICE)");
	print_option("--start SIZE", "part of DEVICE in front of the medium (default: 0B)");
	print_option("--feature F", "switch on a feature");
	print_option("--set KEY=VALUE", "set a key (repeatable)");
	print_option("--no-udev", "make the device node without waiting for udev");
	print_option("--dry-run", "print the dmsetup command; change nothing");
	printf("\nProfiles:\n\n");
	for (i = 0; (p = platter_profile_nth(i)); i++) {
		snprintf(help, sizeof(help), "%s (%s)", p->note, platter_media_names[p->media]);
		print_option(p->name, help);
	}
	platter_keys_help();
}

static bool profile_known(const char *name)
{
	const struct platter_profile *p;
	char names[256] = "";
	size_t used = 0;
	u32 i;

	if (platter_profile_find(name))
		return true;
	for (i = 0; (p = platter_profile_nth(i)) && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
					 p->name);
	fail("--profile '%s' is not known: choose one of %s", name, names);
	return false;
}

/* Find the part of the device that the medium takes, in blocks. */
static bool find_room(const struct platter_args *a, struct device *d, u64 *start, u64 *blocks)
{
	u64 most = d->path ? d->blocks : SHINGLE_PBLK_MASK;

	*start = 0;
	if (a->start && !d->path) {
		fail("--start does not apply to a platter over none: omit it");
		return false;
	}
	if (a->start && !parse_blocks("--start", a->start, 0, most - 1, start))
		return false;
	if (!a->size && !d->path) {
		fail("a platter over none needs a --size");
		return false;
	}
	*blocks = most - *start;
	return !a->size || parse_blocks("--size", a->size, 1, most - *start, blocks);
}

/* Open the device to check that it can be used; device mapper opens it again. */
static bool open_device(const struct platter_args *a, struct device *d)
{
	memset(d, 0, sizeof(*d));
	d->fd = -1;
	if (!strcmp(a->device, "none"))
		return true;
	if (!device_open(d, "DEVICE", a->device, a->dry_run ? DEVICE_LOOK : DEVICE_READ))
		return false;
	if (!a->dry_run && table_needs_block(d))
		return false;
	if (d->blocks)
		return true;
	fail("DEVICE %s is smaller than a block, which has %u bytes", d->path, SHINGLE_BLOCK_SIZE);
	return false;
}

/**
 * platter_create() - make a medium
 * @a: the command line
 *
 * Return: an exit code.
 */
int platter_create(const struct platter_args *a)
{
	const char *profile = a->profile ?: DEFAULT_PROFILE;
	struct devices ds = { 0 };
	struct device *d = &ds.dev[SHINGLE_DEV_DATA];
	struct table_line line = { .name = a->name, .target = "platter" };
	int ret = EXIT_OPERATION;
	u64 start, blocks;

	if (a->table->nr_without) {
		fail("--no-feature does not apply to platter: omit it");
		return EXIT_USAGE;
	}
	if (!profile_known(profile) ||
	    !table_options_known("platter", platter_options, NULL, a->table))
		return EXIT_USAGE;
	if (!open_device(a, d))
		goto out;
	if (!find_room(a, d, &start, &blocks)) {
		ret = EXIT_USAGE;
		goto out;
	}
	if (!a->dry_run && !dm_device_possible(a->name, "platter"))
		goto out;
	line.params = table_platter_params(d, start << SHINGLE_SECTORS_SHIFT, profile, a->table);
	line.sectors = blocks << SHINGLE_SECTORS_SHIFT;
	line.read_only = devices_read_only(&ds);
	device_close(d);
	ret = line.params ? table_load(&line, !a->table->no_udev, a->dry_run) :
			    fail("out of memory");
	free(line.params);
out:
	device_close(d);
	return ret;
}
