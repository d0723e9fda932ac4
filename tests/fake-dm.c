// SPDX-License-Identifier: GPL-2.0
/*
 * A fake device mapper made of files, for tests of the tools: preloaded instead of libdevmapper.
 *
 * Each device is a directory in the directory FAKE_DM, with the files target, status, table,
 * sectors, users, and one for each message that it answers, named by the first word. After an
 * answer the file of the same name with .next appended replaces it. The file busy holds the number
 * of removals that fail with EBUSY. Every message and every change adds a line to the file
 * FAKE_DM.log. While the file FAKE_DM.denied exists, all access is denied.
 *
 * A file named *.blk is a block device. Files of that name with .ro and .ssz appended hold the
 * answers to BLKROGET and BLKSSZGET. The files FAKE_DM.create, FAKE_DM.reload and FAKE_DM.resume
 * make that ioctl fail, FAKE_DM.message a message that the device has no answer to: each holds an
 * errno number, and lines that the kernel logs meanwhile. Without the file FAKE_DM.kmsg the
 * kernel's log cannot be read. FAKE_DM.version holds the version of the modules. FAKE_DM.log also
 * records the memory use of the program when it loads a table.
 */
#define _FILE_OFFSET_BITS 64
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libdevmapper.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Number of a created device, as the kernel's log and its users name it. */
#define FAKE_MAJOR	253
#define FAKE_MINOR	7

static int kmsg[2] = { -1, -1 };

struct dm_task {
	int type;
	char name[128];
	char message[512];
	char target[64];
	char uuid[129];
	char *params;
	uint64_t sectors;
	bool read_only;
	char *reply;
	char *names;
	bool retry;
	bool cookie;
	int err;
};

/* Return: the content of a device's file, which the caller frees, or NULL. */
static char *content(const char *name, const char *file)
{
	char path[4096], *text = NULL;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s", getenv("FAKE_DM"), name, file);
	f = fopen(path, "re");
	if (!f)
		return NULL;
	if (getdelim(&text, &room, '\0', f) < 0) {
		free(text);
		text = strdup("");
	}
	fclose(f);
	return text;
}

static void log_line(const char *what, const char *name, const char *message)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s.log", getenv("FAKE_DM"));
	f = fopen(path, "ae");
	if (!f)
		abort();
	fprintf(f, "%s %s%s%s\n", what, name, *message ? " " : "", message);
	fclose(f);
}

struct dm_task *dm_task_create(int type)
{
	struct dm_task *t;
	char path[4096];

	/* The library first reads the kernel's version. */
	snprintf(path, sizeof(path), "%s.denied", getenv("FAKE_DM"));
	if (!access(path, F_OK)) {
		errno = EACCES;
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	t->type = type;
	return t;
}

void dm_task_destroy(struct dm_task *t)
{
	free(t->reply);
	free(t->params);
	free(t->names);
	free(t);
}

int dm_task_set_uuid(struct dm_task *t, const char *uuid)
{
	snprintf(t->uuid, sizeof(t->uuid), "%s", uuid);
	return 1;
}

int dm_task_add_target(struct dm_task *t, uint64_t start, uint64_t size, const char *ttype,
		       const char *params)
{
	snprintf(t->target, sizeof(t->target), "%s", ttype);
	t->sectors = size;
	t->params = strdup(params);
	return 1;
}

int dm_task_set_ro(struct dm_task *t)
{
	t->read_only = true;
	return 1;
}

int dm_task_set_add_node(struct dm_task *t, dm_add_node_t add_node)
{
	return 1;
}

char *dm_task_get_name_mangled(const struct dm_task *t)
{
	return strdup(t->name);
}

int dm_mknodes(const char *name)
{
	return 1;
}

int dm_task_set_name(struct dm_task *t, const char *name)
{
	snprintf(t->name, sizeof(t->name), "%s", name);
	return 1;
}

int dm_task_set_message(struct dm_task *t, const char *message)
{
	snprintf(t->message, sizeof(t->message), "%s", message);
	return 1;
}

int dm_task_set_sector(struct dm_task *t, uint64_t sector)
{
	return 1;
}

int dm_task_skip_lockfs(struct dm_task *t)
{
	return 1;
}

int dm_task_no_flush(struct dm_task *t)
{
	return 1;
}

/* There is no udev here, so the caller does not wait. */
int dm_task_set_cookie(struct dm_task *t, uint32_t *cookie, uint16_t flags)
{
	t->cookie = true;
	return 0;
}

int dm_task_retry_remove(struct dm_task *t)
{
	t->retry = true;
	return 1;
}

int dm_task_get_errno(struct dm_task *t)
{
	return t->err;
}

static int fail(struct dm_task *t, int err)
{
	t->err = err;
	return 0;
}

static int list(struct dm_task *t)
{
	DIR *d = opendir(getenv("FAKE_DM"));
	char *at, *last = NULL;
	struct dirent *e;

	t->names = calloc(1, 1 << 16);
	at = t->names;
	while (d && (e = readdir(d))) {
		struct dm_names *n = (void *)at;

		if (*e->d_name == '.')
			continue;
		n->dev = 1;
		n->next = (uint32_t)(sizeof(*n) + strlen(e->d_name) + 8) & ~7U;
		memcpy(n->name, e->d_name, strlen(e->d_name) + 1);
		last = at;
		at += n->next;
	}
	if (last)
		((struct dm_names *)last)->next = 0;
	if (d)
		closedir(d);
	return 1;
}

/* Log the lines of an ioctl. Return: 0, or the errno with which it must fail. */
static int refused(const char *stage)
{
	char path[4096], line[1024];
	int err = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s.%s", getenv("FAKE_DM"), stage);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%d\n", &err) != 1)
		abort();
	while (fgets(line, sizeof(line), f)) {
		if (kmsg[1] >= 0 && send(kmsg[1], line, strlen(line), MSG_DONTWAIT) < 0)
			abort();
	}
	fclose(f);
	return err;
}

static int message(struct dm_task *t)
{
	char word[512], path[8192], next[8200];

	log_line("message", t->name, t->message);
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(t->message, " "), t->message);
	t->reply = content(t->name, word);
	if (!t->reply)
		return fail(t, refused("message") ?: EINVAL);
	snprintf(path, sizeof(path), "%s/%s/%s", getenv("FAKE_DM"), t->name, word);
	snprintf(next, sizeof(next), "%s.next", path);
	if (!access(next, F_OK) && rename(next, path))
		abort();
	return 1;
}

static uint64_t number(struct dm_task *t, const char *file)
{
	char *text = content(t->name, file);
	uint64_t n = text ? strtoull(text, NULL, 10) : 0;

	free(text);
	return n;
}

static void put(const char *name, const char *file, const char *text)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s", getenv("FAKE_DM"), name, file);
	f = fopen(path, "we");
	if (!f)
		abort();
	fputs(text, f);
	fclose(f);
}

/* Find the device with the UUID and put its name into @t. Return: false if there is none. */
static bool find_uuid(struct dm_task *t)
{
	DIR *d = opendir(getenv("FAKE_DM"));
	bool found = false;
	struct dirent *e;

	while (!found && d && (e = readdir(d))) {
		char *uuid = *e->d_name == '.' ? NULL : content(e->d_name, "uuid");

		found = uuid && !strcmp(uuid, t->uuid);
		if (found)
			snprintf(t->name, sizeof(t->name), "%s", e->d_name);
		free(uuid);
	}
	if (d)
		closedir(d);
	return found;
}

static int create(struct dm_task *t)
{
	int err = refused("create");
	char path[4096];

	if (err)
		return fail(t, err);
	snprintf(path, sizeof(path), "%s/%s", getenv("FAKE_DM"), t->name);
	if (mkdir(path, 0777))
		return fail(t, errno);
	put(t->name, "target", "");
	put(t->name, "uuid", t->uuid);
	log_line("create", t->name, "");
	return 1;
}

static int reload(struct dm_task *t)
{
	struct mallinfo2 m = mallinfo2();
	int err = refused("reload");
	char text[128];

	snprintf(text, sizeof(text), "%s%zu KiB", t->read_only ? "ro " : "",
		 (m.uordblks + m.hblkhd) >> 10);
	log_line("reload", t->name, text);
	if (err)
		return fail(t, err);
	put(t->name, "target", t->target);
	put(t->name, "table", t->params);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)t->sectors);
	put(t->name, "sectors", text);
	return 1;
}

static int drop(struct dm_task *t)
{
	char command[8192];

	log_line("remove", t->name, "");
	/* Devices that the test itself has made, without a UUID, stay: later calls look at them. */
	snprintf(command, sizeof(command), "test ! -e '%s/%s/uuid' || rm -r '%s/%s'",
		 getenv("FAKE_DM"), t->name, getenv("FAKE_DM"), t->name);
	return system(command) ? fail(t, EIO) : 1;
}

/* Retry 25 times as the library does, without its 0.2 s between two attempts. */
static int remove_device(struct dm_task *t)
{
	uint64_t busy = number(t, "busy"), tries = t->retry ? 26 : 1;

	return busy < tries ? drop(t) : fail(t, EBUSY);
}

int dm_task_run(struct dm_task *t)
{
	char *target;
	int err;

	if (t->type == DM_DEVICE_LIST)
		return list(t);
	if (t->type == DM_DEVICE_GET_TARGET_VERSION)
		return 1;
	if (t->type == DM_DEVICE_CREATE)
		return create(t);
	if (t->type == DM_DEVICE_RELOAD)
		return reload(t);
	if (t->type == DM_DEVICE_INFO && *t->uuid && !find_uuid(t))
		return 1;
	if (t->type == DM_DEVICE_RESUME) {
		err = refused("resume");
		return err ? fail(t, err) : 1;
	}
	target = content(t->name, "target");
	if (!target)
		return t->type == DM_DEVICE_INFO ? 1 : fail(t, ENXIO);
	snprintf(t->target, sizeof(t->target), "%.*s", (int)strcspn(target, "\n"), target);
	free(target);
	if (t->type == DM_DEVICE_TARGET_MSG)
		return message(t);
	if (t->type == DM_DEVICE_STATUS || t->type == DM_DEVICE_TABLE ||
	    t->type == DM_DEVICE_INFO)
		return 1;
	if (t->type == DM_DEVICE_REMOVE)
		return remove_device(t);
	/* The kernel sends no event when it suspends a device: a wait for udev would not end. */
	if (t->type == DM_DEVICE_SUSPEND && t->cookie)
		log_line("cookie", t->name, "");
	/* Suspend and resume belong to a removal, which has its own line. */
	if (t->type == DM_DEVICE_SUSPEND || t->type == DM_DEVICE_RESUME)
		return 1;
	log_line("other", t->name, "");
	return 1;
}

int dm_task_get_info(struct dm_task *t, struct dm_info *info)
{
	memset(info, 0, sizeof(*info));
	info->exists = *t->target != '\0' || t->type == DM_DEVICE_CREATE;
	info->major = FAKE_MAJOR;
	info->minor = FAKE_MINOR;
	info->open_count = (int)number(t, "users");
	return 1;
}

const char *dm_task_get_name(const struct dm_task *t)
{
	return t->name;
}

void *dm_get_next_target(struct dm_task *t, void *next, uint64_t *start, uint64_t *length,
			 char **target, char **params)
{
	*start = 0;
	*length = number(t, "sectors");
	*target = t->target;
	free(t->reply);
	t->reply = content(t->name, t->type == DM_DEVICE_TABLE ? "table" : "status");
	*params = t->reply;
	return NULL;
}

const char *dm_task_get_message_response(struct dm_task *t)
{
	return t->reply;
}

struct dm_names *dm_task_get_names(struct dm_task *t)
{
	return (void *)t->names;
}

/* ------------------------------------------------------------------------
 * Block devices of files, and the kernel's log
 */

static bool plays_block(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && !strcmp(path + n - 4, ".blk");
}

int stat(const char *path, struct stat *st)
{
	int ret = fstatat(AT_FDCWD, path, st, 0);

	if (!ret && S_ISREG(st->st_mode) && plays_block(path)) {
		st->st_mode = (st->st_mode & ~(mode_t)S_IFMT) | S_IFBLK;
		st->st_rdev = makedev(FAKE_MAJOR + 1, (unsigned int)st->st_ino & 0xfffff);
	}
	return ret;
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, int) : 0;
	va_end(ap);
	if (!strcmp(path, "/dev/kmsg") && getenv("FAKE_DM")) {
		char file[4096];

		snprintf(file, sizeof(file), "%s.kmsg", getenv("FAKE_DM"));
		if (access(file, F_OK)) {
			errno = EPERM;
			return -1;
		}
		/* Each read returns one record, as from /dev/kmsg. */
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, kmsg))
			abort();
		return kmsg[0];
	}
	if (!strcmp(path, "/sys/module/dm_shingle/version") && getenv("FAKE_DM")) {
		char file[4096];

		snprintf(file, sizeof(file), "%s.version", getenv("FAKE_DM"));
		return (int)syscall(SYS_openat, AT_FDCWD, file, flags, 0);
	}
	/* File systems without direct I/O have none for a block device either. */
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

/* The machine that runs the tests may have no device mapper. */
int access(const char *path, int mode)
{
	if (!strcmp(path, "/sys/class/misc/device-mapper"))
		return 0;
	return faccessat(AT_FDCWD, path, mode, 0);
}

off_t lseek(int fd, off_t offset, int whence)
{
	return fd == kmsg[0] ? 0 : (off_t)syscall(SYS_lseek, fd, offset, whence);
}

/* Return: the number in a file beside the device's, or @without. */
static int beside(int fd, const char *end, int without)
{
	char link[64], path[4096];
	ssize_t n;
	FILE *f;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 8);
	if (n < 0)
		return without;
	snprintf(path + n, sizeof(path) - (size_t)n, "%s", end);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &without) != 1)
		abort();
	if (f)
		fclose(f);
	return without;
}

int ioctl(int fd, unsigned long request, ...)
{
	struct stat st;
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
		switch (request) {
		case BLKGETSIZE64:
			*(uint64_t *)arg = (uint64_t)st.st_size;
			return 0;
		case BLKROGET:
			*(int *)arg = beside(fd, ".ro", 0);
			return 0;
		case BLKSSZGET:
			*(int *)arg = beside(fd, ".ssz", 512);
			return 0;
		}
	}
	return (int)syscall(SYS_ioctl, fd, request, arg);
}
