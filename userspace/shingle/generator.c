// SPDX-License-Identifier: GPL-2.0
/*
 * systemd generator: writes a unit for each line of shingletab, as
 * systemd-veritysetup-generator does for veritytab.  It runs early in the boot, so an error
 * in one line is reported and affects only that line.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "tab.h"

#define UNIT_NAME_BYTES	255U

/* Write a part of a unit's name, escaped as systemd-escape does; "/" becomes "-". */
static void put_escaped(FILE *f, const char *text)
{
	const char *at;

	for (at = text; *at; at++) {
		if (*at == '/')
			fputc('-', f);
		else if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.", *at) ||
			 (at == text && *at == '.'))
			fprintf(f, "\\x%02x", (unsigned char)*at);
		else
			fputc(*at, f);
	}
}

/* Build the name of a unit.  Returns it, to be freed, or NULL after printing an error. */
static char *unit_name(const char *begin, const char *text, const char *end)
{
	char *unit = NULL;
	size_t size;
	FILE *f = open_memstream(&unit, &size);

	if (f) {
		fputs(begin, f);
		put_escaped(f, text);
		fputs(end, f);
	}
	if (!f || fclose(f)) {
		fail("out of memory");
	} else if (size > UNIT_NAME_BYTES) {
		fail("'%.40s...' is too long: the name of its systemd unit, with escapes, would exceed %u bytes",
		     text, UNIT_NAME_BYTES);
	} else {
		return unit;
	}
	free(unit);
	return NULL;
}

/* Name of the unit of a device; superfluous slashes in @path are dropped. */
static char *device_unit(const char *path)
{
	char plain[TAB_DEVICE];
	size_t n = 0;

	for (; *path && n + 1 < sizeof(plain); path++) {
		if (*path != '/' || (n && path[1] && path[1] != '/'))
			plain[n++] = *path;
	}
	plain[n] = '\0';
	return unit_name("", plain, ".device");
}

static int unwritten(const char *path)
{
	return fail("%s cannot be written: %s", path, strerror(errno));
}

/* Link @of into the directory @unit.@way, for example sysinit.target.wants. */
static int link_into(const char *dest, const char *unit, const char *way, const char *of)
{
	char path[3 * 1024], target[1024];
	size_t n;

	n = (size_t)snprintf(path, sizeof(path), "%s/%s.%s", dest, unit, way);
	if (mkdir(path, 0755) && errno != EEXIST)
		return unwritten(path);
	snprintf(path + n, sizeof(path) - n, "/%s", of);
	snprintf(target, sizeof(target), "../%s", of);
	return symlink(target, path) && errno != EEXIST ? unwritten(path) : 0;
}

static FILE *begin(const char *path)
{
	FILE *f = fopen(path, "wxe");

	if (!f)
		unwritten(path);
	return f;
}

/* Disable the job timeout of the device, because reading its map may take long. */
static int write_timeout(const char *dest, const char *device)
{
	char path[3 * 1024];
	size_t n = (size_t)snprintf(path, sizeof(path), "%s/%s.d", dest, device);
	FILE *f;

	if (mkdir(path, 0755) && errno != EEXIST)
		return unwritten(path);
	snprintf(path + n, sizeof(path) - n, "/40-device-timeout.conf");
	f = begin(path);
	if (!f)
		return EXIT_OPERATION;
	fputs("# Written by shingle-generator\n[Unit]\nJobTimeoutSec=infinity\n", f);
	return fclose(f) ? unwritten(path) : 0;
}

/* Write the service.  The unit opens and closes the device by running @tool, this program. */
static int write_service(FILE *f, const char *tool, const struct tab *tab,
			 const struct tab_line *line, char *const device[])
{
	const char *pre = line->netdev ? "remote-fs-pre.target" : "local-fs-pre.target";
	u32 i;

	fprintf(f, "# Written by shingle-generator, from line %u\n[Unit]\n", line->nr);
	fprintf(f, "Description=Shingled disk %s\n", line->name);
	fputs("Documentation=man:shingletab(5) man:shingle(8)\n", f);
	fprintf(f, "SourcePath=%s\n", tab->file);
	fputs("DefaultDependencies=no\nIgnoreOnIsolate=true\n", f);
	/* Opening and closing wait for udev, so udevd must not be stopped earlier. */
	fputs("After=systemd-udevd.service systemd-udevd-kernel.socket\n", f);
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (device[i])
			fprintf(f, "BindsTo=%s\nAfter=%s\n", device[i], device[i]);
	}
	/* File systems on the device are mounted after this unit and unmounted before it stops. */
	fputs("Wants=blockdev@dev-mapper-", f);
	put_escaped(f, line->name);
	fputs(".target\nBefore=blockdev@dev-mapper-", f);
	put_escaped(f, line->name);
	fputs(".target\n", f);
	if (!line->noauto && !line->nofail)
		fprintf(f, "Wants=%s\nBefore=%s\n", pre, pre);
	fputs("Conflicts=umount.target\nBefore=umount.target\n\n[Service]\nType=oneshot\n", f);
	fputs("RemainAfterExit=yes\nTimeoutSec=infinity\n", f);
	fprintf(f, "ExecStart=%s open --tab -- %s\n", tool, line->name);
	fprintf(f, "ExecStop=%s remove --tab -- %s\n", tool, line->name);
	return ferror(f) ? EXIT_OPERATION : 0;
}

static int write_line(const char *dest, const char *tool, const struct tab *tab,
		      const struct tab_line *line)
{
	char *unit = unit_name("shingle-", line->name, ".service"), *own;
	char *device[SHINGLE_NR_DEVS] = { NULL }, node[TAB_DEVICE];
	char path[2 * 1024];
	int ret;
	FILE *f;
	u32 i;

	snprintf(node, sizeof(node), "/dev/mapper/%s", line->name);
	own = device_unit(node);
	ret = unit && own ? 0 : EXIT_OPERATION;
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (*line->path[i])
			device[i] = device_unit(line->path[i]);
		if (*line->path[i] && !device[i])
			ret = EXIT_OPERATION;
	}
	if (!ret) {
		snprintf(path, sizeof(path), "%s/%s", dest, unit);
		f = begin(path);
		ret = f ? write_service(f, tool, tab, line, device) : EXIT_OPERATION;
		if (f && (fclose(f) || ret))
			ret = unwritten(path);
		ret = ret ?: link_into(dest, own, "requires", unit) ?: write_timeout(dest, own);
		if (!ret && !line->noauto)
			ret = link_into(dest, line->netdev ? "remote-fs.target" : "sysinit.target",
					"wants", unit);
	}
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		free(device[i]);
	free(own);
	free(unit);
	return ret;
}

/**
 * tab_generate() - run as the systemd generator
 * @argc: number of arguments
 * @argv: one directory for units, or three: normal, early and late
 *
 * Return: an exit code.
 */
int tab_generate(int argc, char **argv)
{
	/* argv[0] is a link to the tool; the units need the tool's own path. */
	char *tool = realpath("/proc/self/exe", NULL);
	struct tab tab;
	int ret = EXIT_CLEAN;
	u32 i;

	tool_name = "shingle-generator";
	if (argc != 2 && argc != 4) {
		free(tool);
		fail("usage: shingle-generator DIRECTORY [DIRECTORY DIRECTORY]; systemd runs it");
		return EXIT_USAGE;
	}
	if (!tool)
		return fail("the path of this program is unknown: %s", strerror(errno));
	if (!tab_read(&tab)) {
		free(tool);
		return EXIT_OPERATION;
	}
	for (i = 0; i < tab.nr; i++) {
		const struct tab_line *line = &tab.line[i];

		if (*line->why) {
			tab_blame(&tab, line);
			ret = EXIT_USAGE;
		} else if (write_line(argv[1], tool, &tab, line)) {
			ret = EXIT_OPERATION;
		}
	}
	tab_free(&tab);
	free(tool);
	return ret;
}
