// SPDX-License-Identifier: GPL-2.0
/* Output files: see outfile.h. */
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* True for /dev/stdout and similar names, which refer to an open file and are not replaced. */
static bool is_descriptor(const char *name)
{
	char path[PATH_MAX], target[PATH_MAX];
	int links;

	if (strlen(name) >= sizeof(path))
		return false;
	strcpy(path, name);
	for (links = 0; links < 40; links++) {
		const char *slash = strrchr(path, '/');
		size_t folder = slash ? (size_t)(slash - path) : 0;
		ssize_t n;

		if (!strncmp(path, "/dev/fd/", 8) || (!strncmp(path, "/proc/", 6) && strstr(path, "/fd/")))
			return true;
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			return false;
		target[n] = '\0';
		if (target[0] == '/') {
			strcpy(path, target);
		} else {
			if (folder + 1 + (size_t)n >= sizeof(path))
				return false;
			strcpy(path + (slash ? folder + 1 : 0), target);
		}
	}
	return false;
}

/* Follow the links of @name to its last target, which need not exist; allocated. */
static char *through_links(const char *name)
{
	char target[PATH_MAX], *path = strdup(name);
	int links;

	for (links = 0; path && links < 40; links++) {
		ssize_t n = readlink(path, target, sizeof(target) - 1);
		char *slash, *next;

		if (n < 0)
			return path;
		target[n] = '\0';
		slash = target[0] == '/' ? NULL : strrchr(path, '/');
		if (slash)
			slash[1] = '\0';
		if (asprintf(&next, "%s%s", slash ? path : "", target) < 0)
			next = NULL;
		free(path);
		path = next;
	}
	free(path);
	errno = path ? ELOOP : ENOMEM;
	return NULL;
}

/*
 * The new content has the mode and, if permitted, the owner of the old one; without an old one
 * (@st is NULL), the mode of any new file.
 */
static int like(int fd, const struct stat *st)
{
	mode_t mask;

	if (!st) {
		mask = umask(0);
		umask(mask);
		return fchmod(fd, 0666 & ~mask) ? -errno : 0;
	}
	/* The owner first: changing it clears bits of the mode. */
	if (fchown(fd, st->st_uid, st->st_gid) && errno != EPERM)
		return -errno;
	return fchmod(fd, st->st_mode & 07777) ? -errno : 0;
}

/**
 * outfile_begin() - open a file for writing
 * @o: result
 * @name: the file, as the user has named it
 *
 * Return: 0; -ENOTBLK for a block device; or another -errno.  outfile_reason() explains it.
 */
int outfile_begin(struct outfile *o, const char *name)
{
	struct stat st;
	bool there = !stat(name, &st);
	int fd, err;

	memset(o, 0, sizeof(*o));
	if (!there && errno != ENOENT)
		return -errno;
	if (there && S_ISBLK(st.st_mode))
		return -ENOTBLK;
	if ((there && !S_ISREG(st.st_mode)) || is_descriptor(name)) {
		o->stream = fopen(name, "we");
		return o->stream ? 0 : -errno;
	}
	o->target = through_links(name);
	if (!o->target)
		return -errno;
	/* Never a name that exists: it may be a file of the user, or a link. */
	if (asprintf(&o->part, "%s.XXXXXX", o->target) < 0) {
		o->part = NULL;
		outfile_end(o, false);
		return -ENOMEM;
	}
	fd = mkostemp(o->part, O_CLOEXEC);
	err = fd < 0 ? -errno : like(fd, there ? &st : NULL);
	if (!err) {
		o->stream = fdopen(fd, "w");
		err = o->stream ? 0 : -errno;
	}
	if (err) {
		if (fd >= 0)
			close(fd);
		else
			free(o->part), o->part = NULL;
		outfile_end(o, false);
	}
	return err;
}

/**
 * outfile_end() - the file is complete, or shall stay as it was
 * @o: from outfile_begin(); may be all zeroes
 * @keep: false after an error: a regular file keeps its old content
 *
 * Return: 0 or -errno if not all could be written; then a regular file keeps its old content.
 */
int outfile_end(struct outfile *o, bool keep)
{
	int err = 0;

	if (o->stream) {
		errno = 0;
		if (fflush(o->stream) || ferror(o->stream))
			err = errno ? -errno : -EIO;
		if (!err && keep && o->part && fsync(fileno(o->stream)))
			err = -errno;
		if (fclose(o->stream) && !err)
			err = -errno;
	}
	if (o->part && o->stream && keep && !err && rename(o->part, o->target))
		err = -errno;
	if (o->part && (err || !keep || !o->stream))
		unlink(o->part);
	free(o->part);
	free(o->target);
	memset(o, 0, sizeof(*o));
	return keep ? err : 0;
}

/**
 * outfile_reason() - why a file is no output
 * @err: what outfile_begin() or outfile_end() has returned
 *
 * Return: the end of a sentence.
 */
const char *outfile_reason(int err)
{
	return err == -ENOTBLK ? "it is a block device, which is not overwritten by a file" :
	       strerror(-err);
}
