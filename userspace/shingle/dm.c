// SPDX-License-Identifier: GPL-2.0
/* Device mapper, as far as the tool needs it. */
#include <fcntl.h>
#include <libdevmapper.h>
#include <linux/dm-ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dm.h"
#include "kmsg.h"

/* libdevmapper's own sentences name ioctls; the tool says it in its words. */
static void quiet(int level, const char *file, int line, int dm_errno, const char *f, ...)
{
}

void dm_begin(void)
{
	dm_log_with_errno_init(quiet);
}

static bool kernel_has_dm(void)
{
	return !access("/sys/class/misc/device-mapper", F_OK);
}

static int dm_fail(const char *doing, const char *name, int err)
{
	if (err == ENXIO && kernel_has_dm())
		return fail("%s %s: there is no such device; 'shingle status' lists them", doing, name);
	if (err == EBUSY)
		return fail("%s %s: it is in use, or the name or the device is taken; unmount it, or 'shingle status'",
			    doing, name);
	if (err == EPERM || err == EACCES)
		return fail("%s %s: only root may do that", doing, name);
	if (!kernel_has_dm())
		return fail("%s %s: this kernel has no device mapper: load dm_mod, or use one that has it",
			    doing, name);
	return fail("%s %s: %s; the kernel log says more (dmesg)", doing, name,
		    err ? strerror(err) : "it failed");
}

/* Why libdevmapper made no task at all. */
static int no_task;

/* Without leave to talk to the kernel there is no task, which says no more. */
static struct dm_task *task_on(int type, const char *name)
{
	struct dm_task *t;

	errno = 0;
	t = dm_task_create(type);
	no_task = t ? 0 : errno;
	if (t && name && !dm_task_set_name(t, name)) {
		dm_task_destroy(t);
		return NULL;
	}
	return t;
}

static int task_errno(struct dm_task *t)
{
	return t ? dm_task_get_errno(t) : no_task;
}

/* Does the kernel know the type of target, or find its module? */
static bool target_known(const char *target)
{
	struct dm_task *t = task_on(DM_DEVICE_GET_TARGET_VERSION, target);
	bool known = t && dm_task_run(t);

	if (t)
		dm_task_destroy(t);
	return known;
}

/**
 * dm_name_reserved() - would a device's node have another's place in /dev/mapper?
 * @name: of the device
 *
 * Older kernels take such names.
 */
bool dm_name_reserved(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, DM_CONTROL_NODE);
}

/**
 * dm_name_valid() - can a device have this name?
 * @name: as it was given
 *
 * With a slash libdevmapper would take it for a path, and look for another name.
 * Returns false after saying what is wrong.
 */
bool dm_name_valid(const char *name)
{
	if (*name && !strchr(name, '/') && strlen(name) < DM_NAME_LEN && !dm_name_reserved(name))
		return true;
	fail("NAME '%s' cannot be a device's name: 1 to %u characters without '/', and not ., .. or %s",
	     name, DM_NAME_LEN - 1, DM_CONTROL_NODE);
	return false;
}

/* False if it is not known, or there is no such device. */
static bool find_info(const char *name, struct dm_info *info)
{
	struct dm_task *t = task_on(DM_DEVICE_INFO, name);
	bool ok = t && dm_task_run(t) && dm_task_get_info(t, info) && info->exists;

	if (t)
		dm_task_destroy(t);
	return ok;
}

/**
 * dm_device_is_open() - is there a device of this name?
 * @name: its name
 * @open: result
 *
 * Returns false after saying why nobody knows.
 */
bool dm_device_is_open(const char *name, bool *open)
{
	struct dm_task *t = task_on(DM_DEVICE_INFO, name);
	struct dm_info info = { 0 };
	bool ok = t && dm_task_run(t) && dm_task_get_info(t, &info);

	if (!ok)
		dm_fail("looking for", name, task_errno(t));
	*open = ok && info.exists;
	if (t)
		dm_task_destroy(t);
	return ok;
}

/**
 * dm_device_possible() - could a device be created?
 * @name: its name
 * @target: its type
 *
 * Before anything is written.  Returns false after saying why not.
 */
bool dm_device_possible(const char *name, const char *target)
{
	bool open, ok;

	if (!dm_name_valid(name))
		return false;
	ok = dm_device_is_open(name, &open);
	if (open) {
		fail("NAME %s is taken by an open device: choose another, or 'shingle remove %s'",
		     name, name);
		return false;
	}
	if (ok && !target_known(target)) {
		fail("the kernel knows no target '%s': load its module first ('make load' in the source tree, or modprobe)",
		     target);
		return false;
	}
	return ok;
}

/* Without udev, libdevmapper makes the node itself. */
static bool run_with_flags(struct dm_task *t, bool udev, u16 flags)
{
	u32 cookie = 0;
	bool ok;

	dm_udev_set_sync_support(udev);
	if (!dm_task_set_cookie(t, &cookie, flags))
		return dm_task_run(t);
	ok = dm_task_run(t);
	dm_udev_wait(cookie);
	return ok;
}

static bool run_with_udev(struct dm_task *t, bool udev)
{
	return run_with_flags(t, udev, 0);
}

/* The device that has a UUID, to be freed, or NULL. */
static char *name_of_uuid(const char *uuid)
{
	struct dm_task *t = task_on(DM_DEVICE_INFO, NULL);
	struct dm_info info = { 0 };
	bool found = t && dm_task_set_uuid(t, uuid) && dm_task_run(t) &&
		     dm_task_get_info(t, &info) && info.exists;
	char *name = found ? strdup(dm_task_get_name(t)) : NULL;

	if (t)
		dm_task_destroy(t);
	return name;
}

/* A device without a table: it has a number, by which the kernel's log names it. */
static bool make_device(const char *name, const char *uuid, struct dm_info *info)
{
	struct dm_task *t = task_on(DM_DEVICE_CREATE, name);
	bool ok = t && dm_task_set_uuid(t, uuid) && dm_task_run(t) && dm_task_get_info(t, info);
	int err = ok ? 0 : task_errno(t);
	char *other = err == EBUSY ? name_of_uuid(uuid) : NULL;

	if (t)
		dm_task_destroy(t);
	if (other)
		fail("opening %s: the open device %s has its UUID: it is the same device, or one is a copy of the other; 'shingle remove %s' first",
		     name, other, other);
	else if (!ok)
		dm_fail("opening", name, err);
	free(other);
	return ok;
}

static bool load_table(const char *name, const char *target, u64 sectors, const char *params,
		       bool read_only, int *err)
{
	struct dm_task *t = task_on(DM_DEVICE_RELOAD, name);
	bool ok = t && dm_task_add_target(t, 0, sectors, target, params) &&
		  (!read_only || dm_task_set_ro(t)) && dm_task_run(t);

	*err = ok ? 0 : task_errno(t);
	if (t)
		dm_task_destroy(t);
	return ok;
}

/* @node: as of dm_device_create(). */
static bool activate(const char *name, bool udev, char **node, int *err)
{
	struct dm_task *t = task_on(DM_DEVICE_RESUME, name);
	bool ok = t && dm_task_set_add_node(t, DM_ADD_NODE_ON_RESUME) && run_with_udev(t, udev);
	char *coded = ok ? dm_task_get_name_mangled(t) : NULL;

	*err = ok ? 0 : task_errno(t);
	if (t)
		dm_task_destroy(t);
	/* One by any other name would stay when the device has gone, and be the next one's. */
	if (coded && asprintf(node, "%s/%s", dm_dir(), coded) < 0)
		*node = NULL;
	if (*node && access(*node, F_OK))
		dm_mknodes(coded);
	free(coded);
	return ok;
}

static void take_back(const char *name, bool udev)
{
	struct dm_task *t = task_on(DM_DEVICE_REMOVE, name);

	if (t) {
		dm_task_retry_remove(t);
		run_with_udev(t, udev);
		dm_task_destroy(t);
	}
}

/* Modules of another version may know another format, or fewer options: @text, or "". */
static void other_modules(char *text, size_t size)
{
	int fd = open("/sys/module/dm_shingle/version", O_RDONLY | O_CLOEXEC);
	char version[64];
	ssize_t n = fd >= 0 ? read(fd, version, sizeof(version) - 1) : 0;

	*text = '\0';
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return;
	version[n] = '\0';
	version[strcspn(version, "\n")] = '\0';
	if (strcmp(version, tool_release))
		snprintf(text, size, "; the modules are of version %s, and this tool is of %s: load its own",
			 version, tool_release);
}

/**
 * dm_device_create() - open a device
 * @name: its name
 * @uuid: its UUID
 * @target: its type
 * @sectors: its length
 * @params: of its table
 * @read_only: nothing may be written to it
 * @udev: wait for udev
 * @node: result, the path of its node, to be freed: what in a name is no letter to libdevmapper
 *	and udev is \\xHH there.  NULL if there is no memory for it
 *
 * libdevmapper would make, load and resume in one task, and not say which of them failed, nor
 * which number the device had.
 *
 * Returns false after saying why there is no device.
 */
bool dm_device_create(const char *name, const char *uuid, const char *target, u64 sectors,
		      const char *params, bool read_only, bool udev, char **node)
{
	char why[KMSG_SENTENCE], modules[160];
	struct dm_info info;
	int mark, err;
	bool ok;

	*node = NULL;
	if (!make_device(name, uuid, &info))
		return false;
	mark = kmsg_mark();
	ok = load_table(name, target, sectors, params, read_only, &err) &&
	     activate(name, udev, node, &err);
	if (!ok) {
		take_back(name, udev);
		other_modules(modules, sizeof(modules));
		if (kmsg_cause(mark, info.major, info.minor, target, why))
			fail("opening %s: the kernel refuses it: %s%s", name, why, modules);
		else
			/* The device was there: what else errno says is of its table. */
			fail("opening %s: %s; the kernel log says more (dmesg)%s", name,
			     err == ENOMEM ? "the kernel has not enough free memory" :
			     err ? strerror(err) : "it failed", modules);
	}
	kmsg_end(mark);
	return ok;
}

/* A mount or a device on top does not end by itself. */
static bool held_for_good(const char *name)
{
	struct dm_info info;

	return find_info(name, &info) && (dm_device_has_holders(info.major, info.minor) ||
					  dm_device_has_mounted_fs(info.major, info.minor));
}

/**
 * dm_device_remove() - close a device
 * @name: its name
 * @udev: wait for udev
 *
 * After the last writer has closed a device udev opens it to look for signatures.  Such a
 * short reader makes the removal fail with EBUSY, so libdevmapper tries 25 times more, 0.2 s
 * apart.
 *
 * Returns false after saying why the device is still there.
 */
bool dm_device_remove(const char *name, bool udev)
{
	bool retry = !held_for_good(name);
	struct dm_task *t = task_on(DM_DEVICE_REMOVE, name);
	bool ok = t && (!retry || dm_task_retry_remove(t)) && run_with_udev(t, udev);
	int err = ok ? 0 : task_errno(t);

	if (t)
		dm_task_destroy(t);
	if (!ok)
		dm_fail("removing", name, err);
	return ok;
}

/* A number that a device counts; 0 if it counts none of that name. */
static u64 counted(const char *name, const char *what)
{
	struct dm_task *t = task_on(DM_DEVICE_TARGET_MSG, name);
	bool ok = t && dm_task_set_sector(t, 0) && dm_task_set_message(t, "stats") &&
		  dm_task_run(t);
	const char *at = ok ? dm_task_get_message_response(t) : NULL;
	size_t len = strlen(what);
	u64 n = 0;

	while (at && *at) {
		if (!strncmp(at, what, len) && at[len] == ' ') {
			n = strtoull(at + len, NULL, 10);
			break;
		}
		at = strchr(at, '\n');
		at += at ? 1 : 0;
	}
	if (t)
		dm_task_destroy(t);
	return n;
}

/* These two print no error: the removal that follows fails, too, and prints its own. */
static bool suspend(const char *name)
{
	struct dm_task *t = task_on(DM_DEVICE_SUSPEND, name);
	/* No cookie: a suspend sends no event that udev could answer. */
	bool ok = t && dm_task_skip_lockfs(t) && dm_task_run(t);

	if (t)
		dm_task_destroy(t);
	return ok;
}

static void resume(const char *name, bool udev)
{
	struct dm_task *t = task_on(DM_DEVICE_RESUME, name);

	if (!t)
		return;
	run_with_flags(t, udev, DM_UDEV_DISABLE_DISK_RULES_FLAG |
		       DM_UDEV_DISABLE_OTHER_RULES_FLAG);
	dm_task_destroy(t);
}

/**
 * dm_device_unsaved() - make all durable that a device has acknowledged
 * @name: its name
 * @udev: wait for udev
 *
 * A suspend does that, and waits for no FLUSH.  The device takes I/O afterwards as it did
 * before.
 *
 * Returns how many blocks could not be.
 */
u64 dm_device_unsaved(const char *name, bool udev)
{
	struct dm_line line;
	bool active;
	u64 n;

	if (held_for_good(name) || !dm_device_status(name, &line))
		return 0;
	active = !line.suspended && *line.target;
	dm_line_free(&line);
	if (active && !suspend(name))
		return 0;
	/* As a translation layer counts, and as platter does. */
	n = counted(name, "unsaved_blocks") + counted(name, "unreported_blocks");
	if (active)
		resume(name, udev);
	return n;
}

static bool take_line(struct dm_task *t, struct dm_line *line)
{
	uint64_t start = 0, length = 0;
	char *target = NULL, *params = NULL;
	struct dm_info info;

	memset(line, 0, sizeof(*line));
	if (!dm_task_get_info(t, &info) || !info.exists)
		return false;
	dm_get_next_target(t, NULL, &start, &length, &target, &params);
	snprintf(line->name, sizeof(line->name), "%s", dm_task_get_name(t) ?: "");
	snprintf(line->target, sizeof(line->target), "%s", target ?: "");
	line->params = strdup(params ?: "");
	line->sectors = length;
	line->suspended = info.suspended;
	line->users = info.open_count > 0 ? (u32)info.open_count : 0;
	return line->params;
}

static bool line_of(int type, const char *name, struct dm_line *line)
{
	struct dm_task *t = task_on(type, name);
	bool ok = t && dm_task_no_flush(t) && dm_task_run(t);
	int err = ok ? ENXIO : task_errno(t);

	ok = ok && take_line(t, line);
	if (t)
		dm_task_destroy(t);
	if (!ok)
		dm_fail(type == DM_DEVICE_STATUS ? "status of" : "table of", name, err);
	return ok;
}

bool dm_device_status(const char *name, struct dm_line *line)
{
	return line_of(DM_DEVICE_STATUS, name, line);
}

bool dm_device_table(const char *name, struct dm_line *line)
{
	return line_of(DM_DEVICE_TABLE, name, line);
}

/**
 * dm_device_at() - is a block device a mapped one?
 * @rdev: its number
 * @line: result, its table
 *
 * Returns false if it is not, without a word.
 */
bool dm_device_at(dev_t rdev, struct dm_line *line)
{
	struct dm_task *t;
	char path[64];
	bool ok;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/dm", major(rdev), minor(rdev));
	if (access(path, F_OK))
		return false;
	t = task_on(DM_DEVICE_TABLE, NULL);
	ok = t && dm_task_set_major_minor(t, (int)major(rdev), (int)minor(rdev), 0) &&
	     dm_task_run(t) && take_line(t, line);
	if (t)
		dm_task_destroy(t);
	return ok;
}

/**
 * dm_line_idle() - does nobody have a device open?
 * @line: of the device
 *
 * Returns false after saying what to do.
 */
bool dm_line_idle(const struct dm_line *line)
{
	if (!line->users)
		return true;
	fail("%s is in use: unmount it, or end what uses it, first", line->name);
	return false;
}

void dm_line_free(struct dm_line *line)
{
	free(line->params);
	line->params = NULL;
}

/* The reply to a message, to be freed; else NULL, and errno in @err. */
static char *send_message(const char *name, const char *message, int *err)
{
	struct dm_task *t = task_on(DM_DEVICE_TARGET_MSG, name);
	bool ok = t && dm_task_set_sector(t, 0) && dm_task_set_message(t, message) &&
		  dm_task_run(t);
	const char *reply = ok ? dm_task_get_message_response(t) : NULL;
	char *copy = ok ? strdup(reply ?: "") : NULL;

	*err = ok ? 0 : task_errno(t);
	if (t)
		dm_task_destroy(t);
	return copy;
}

/**
 * dm_device_ask() - send a message that the target may not know
 * @name: of the device
 * @message: the text
 *
 * Returns the reply, to be freed, or NULL without a word.
 */
char *dm_device_ask(const char *name, const char *message)
{
	int err;

	return send_message(name, message, &err);
}

/**
 * dm_device_message() - send a message to a device
 * @name: of the device
 * @message: the text
 *
 * Returns its reply, to be freed, or NULL after saying what is wrong.
 */
char *dm_device_message(const char *name, const char *message)
{
	int mark = kmsg_mark(), err;
	char *reply = send_message(name, message, &err), why[KMSG_SENTENCE];
	struct dm_info info;

	if (!reply && find_info(name, &info) &&
	    kmsg_cause(mark, info.major, info.minor, "", why))
		fail("asking %s: the kernel refuses it: %s", name, why);
	else if (!reply)
		dm_fail("asking", name, err);
	kmsg_end(mark);
	return reply;
}

/**
 * dm_for_each() - visit all mapped devices
 * @fn: what to do with each; anything but 0 ends it
 * @ctx: for @fn
 *
 * Without a device mapper there are none.  Returns false after saying what is wrong.
 */
bool dm_for_each(int (*fn)(const char *name, void *ctx), void *ctx)
{
	struct dm_task *t = task_on(DM_DEVICE_LIST, NULL);
	struct dm_names *n;
	bool ok = t && dm_task_run(t);

	if (!ok && !kernel_has_dm()) {
		if (t)
			dm_task_destroy(t);
		return true;
	}
	if (!ok)
		dm_fail("listing", "devices", task_errno(t));
	n = ok ? dm_task_get_names(t) : NULL;
	while (ok && n && n->dev) {
		if (fn(n->name, ctx))
			break;
		if (!n->next)
			break;
		n = (void *)((char *)n + n->next);
	}
	if (t)
		dm_task_destroy(t);
	return ok;
}
