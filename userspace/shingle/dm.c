// SPDX-License-Identifier: GPL-2.0
/* Interface to device mapper. */
#include <fcntl.h>
#include <libdevmapper.h>
#include <linux/dm-ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dm.h"

/* Suppress libdevmapper's messages, which name ioctls; the tool prints its own. */
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
		return fail("%s %s: there is no such device; 'shingle list' lists them", doing, name);
	if (err == EBUSY)
		return fail("%s %s: the device, or the name, is in use; unmount it, or see 'shingle list'",
			    doing, name);
	if (err == EPERM || err == EACCES)
		return fail("%s %s: only root may do this", doing, name);
	if (!kernel_has_dm())
		return fail("%s %s: this kernel has no device mapper: load dm_mod, or use another kernel",
			    doing, name);
	return fail("%s %s: %s; see the kernel log (dmesg)", doing, name,
		    err ? strerror(err) : "it failed");
}

/* errno of a failed dm_task_create(). */
static int no_task;

/*
 * Create a task.  It fails if the caller has no permission to use device mapper; errno is
 * then the only cause known.
 */
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

/* True if the kernel knows the target type or can load its module. */
static bool target_known(const char *target)
{
	struct dm_task *t = task_on(DM_DEVICE_GET_TARGET_VERSION, target);
	bool known = t && dm_task_run(t);

	if (t)
		dm_task_destroy(t);
	return known;
}

/**
 * dm_name_reserved() - check for a name that is used otherwise in /dev/mapper
 * @name: name of the device
 *
 * Older kernels do not refuse such names.
 *
 * Return: true if it is reserved.
 */
bool dm_name_reserved(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, DM_CONTROL_NODE);
}

/**
 * dm_name_valid() - check the name of a device
 * @name: name as given by the user
 *
 * libdevmapper would take a name with a slash for a path, and use another name.
 *
 * Return: true, or false after printing an error.
 */
bool dm_name_valid(const char *name)
{
	if (*name && !strchr(name, '/') && strlen(name) < DM_NAME_LEN && !dm_name_reserved(name))
		return true;
	fail("NAME '%s' is not valid: 1 to %u characters without '/', and not ., .. or %s",
	     name, DM_NAME_LEN - 1, DM_CONTROL_NODE);
	return false;
}

/* Query a device; false if that fails or it does not exist. */
static bool find_info(const char *name, struct dm_info *info)
{
	struct dm_task *t = task_on(DM_DEVICE_INFO, name);
	bool ok = t && dm_task_run(t) && dm_task_get_info(t, info) && info->exists;

	if (t)
		dm_task_destroy(t);
	return ok;
}

/**
 * dm_device_is_open() - check whether a device of a name exists
 * @name: its name
 * @open: result
 *
 * Return: true, or false after printing an error if the check fails.
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
 * dm_device_possible() - check whether a device can be created, before anything is written
 * @name: its name
 * @target: its target type
 *
 * Return: true, or false after printing an error.
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
		fail("the kernel has no target '%s': load its module first ('make load' in the source tree, or modprobe)",
		     target);
		return false;
	}
	return ok;
}

/* Run a task and wait for udev.  Without udev, libdevmapper creates the node itself. */
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

/* Name of the device with a UUID, to be freed, or NULL. */
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

/* Create the device without a table; the kernel's log identifies it by its number. */
static bool make_device(const char *name, const char *uuid, struct dm_info *info)
{
	struct dm_task *t = task_on(DM_DEVICE_CREATE, name);
	bool ok = t && (!uuid || dm_task_set_uuid(t, uuid)) && dm_task_run(t) &&
		  dm_task_get_info(t, info);
	int err = ok ? 0 : task_errno(t);
	char *other = uuid && err == EBUSY ? name_of_uuid(uuid) : NULL;

	if (t)
		dm_task_destroy(t);
	if (other)
		fail("opening %s: the open device %s has the same UUID: it is the same device or a copy of it; run 'shingle remove %s' first",
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

/* Resume the device.  @node: see dm_device_create(). */
static bool activate(const char *name, bool udev, char **node, int *err)
{
	struct dm_task *t = task_on(DM_DEVICE_RESUME, name);
	bool ok = t && dm_task_set_add_node(t, DM_ADD_NODE_ON_RESUME) && run_with_udev(t, udev);
	char *coded = ok ? dm_task_get_name_mangled(t) : NULL;

	*err = ok ? 0 : task_errno(t);
	if (t)
		dm_task_destroy(t);
	/* Use the encoded name: a node of another name would outlive the device. */
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

/*
 * Describe a version mismatch with the loaded modules, as their format or options may differ;
 * "" if there is none.
 */
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
		snprintf(text, size, "; the modules have version %s and this tool %s: load the matching modules",
			 version, tool_release);
}

/**
 * dm_device_create() - open a device
 * @name: its name
 * @uuid: its UUID, or NULL for none
 * @target: its target type
 * @sectors: its length
 * @params: parameters of the table
 * @read_only: make the device read-only
 * @udev: wait for udev
 * @node: result, the path of its node, to be freed; libdevmapper and udev encode special
 *   characters in it as \\xHH.  NULL if there is no memory for it
 *
 * Runs create, load and resume as separate tasks: with a single task libdevmapper reports
 * neither the step that failed nor the number of the device.
 *
 * Return: true, or false after printing an error.
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
			/* The device existed, so any other errno concerns its table. */
			fail("opening %s: %s; see the kernel log (dmesg)%s", name,
			     err == ENOMEM ? "the kernel has not enough free memory" :
			     err ? strerror(err) : "it failed", modules);
	}
	kmsg_end(mark);
	return ok;
}

/* True if a mount or a device on top uses the device; waiting would not help then. */
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
 * After the last writer has closed a device, udev opens it briefly to look for signatures.
 * The removal then fails with EBUSY, so libdevmapper retries it 25 times, 0.2 s apart.
 *
 * Return: true, or false after printing an error.
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

/* Value of a counter of a device; 0 if it has no such counter. */
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

/* suspend() and resume() print no error: the removal that follows fails too and prints one. */
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
 * dm_device_unsaved() - make all acknowledged data of a device durable
 * @name: its name
 * @udev: wait for udev
 *
 * Suspends the device, which writes the data and waits for no FLUSH, and resumes it.
 *
 * Return: the number of blocks that could not be made durable.
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
	/* Counters of a translation layer, and of a platter. */
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
 * dm_device_at() - query the table of a block device if it is a mapped one
 * @rdev: its number
 * @line: result, its table
 *
 * Return: true, or false without a message if it is not.
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
 * dm_line_idle() - check that a device is not in use
 * @line: the device
 *
 * Return: true, or false after printing an error.
 */
bool dm_line_idle(const struct dm_line *line)
{
	if (!line->users)
		return true;
	fail("%s is in use: unmount it, or end the programs that use it, first", line->name);
	return false;
}

void dm_line_free(struct dm_line *line)
{
	free(line->params);
	line->params = NULL;
}

/* Send a message.  Returns the reply, to be freed; or NULL, with errno in @err. */
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
 * @name: name of the device
 * @message: the text
 *
 * Return: the reply, to be freed, or NULL without a message.
 */
char *dm_device_ask(const char *name, const char *message)
{
	int err;

	return send_message(name, message, &err);
}

/**
 * dm_device_message() - send a message to a device
 * @name: name of the device
 * @message: the text
 *
 * Return: the reply, to be freed, or NULL after printing an error.
 */
char *dm_device_message(const char *name, const char *message)
{
	int mark = kmsg_mark(), err;
	char *reply = send_message(name, message, &err), why[KMSG_SENTENCE];
	struct dm_info info;

	if (!reply && find_info(name, &info) &&
	    kmsg_cause(mark, info.major, info.minor, "", why))
		fail("message to %s: the kernel refuses it: %s", name, why);
	else if (!reply)
		dm_fail("message to", name, err);
	kmsg_end(mark);
	return reply;
}

/**
 * dm_for_each() - visit all mapped devices
 * @fn: called for each device; a result other than 0 ends the walk
 * @ctx: passed to @fn
 *
 * Without device mapper in the kernel there are no devices, which is no error.
 *
 * Return: true, or false after printing an error.
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
