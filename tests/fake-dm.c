// SPDX-License-Identifier: GPL-2.0
/*
 * A device mapper of files, for tests of the tools: preloaded in the place of libdevmapper.
 *
 * In the directory FAKE_DM each device is a directory, with files target, status, table,
 * sectors, users, and one for each message that it answers, by the first word.  A file with .next
 * behind its name takes the place of an answer that was given.  A file busy holds how often its
 * removal fails with EBUSY.  What changes something, and every message, gets a line in the file
 * FAKE_DM.log.  While there is a file FAKE_DM.denied, it is nobody's to ask.
 */
#include <dirent.h>
#include <errno.h>
#include <libdevmapper.h>
#include <linux/dm-ioctl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dm_task {
	int type;
	char name[128];
	char message[512];
	char target[64];
	char *reply;
	char *names;
	bool retry;
	int err;
};

/* The content of a device's file, to be freed, or NULL. */
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

	/* The library wants to know of which version the kernel's is, first of all. */
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
	free(t->names);
	free(t);
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

int dm_task_set_cookie(struct dm_task *t, uint32_t *cookie, uint16_t flags)
{
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

static int message(struct dm_task *t)
{
	char word[512], path[8192], next[8200];

	log_line("message", t->name, t->message);
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(t->message, " "), t->message);
	t->reply = content(t->name, word);
	if (!t->reply)
		return fail(t, EINVAL);
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

/* As the library: 25 times more, without its 0.2 s between two of them. */
static int remove_device(struct dm_task *t)
{
	uint64_t busy = number(t, "busy"), tries = t->retry ? 26 : 1;

	if (busy >= tries)
		return fail(t, EBUSY);
	log_line("remove", t->name, "");
	return 1;
}

int dm_task_run(struct dm_task *t)
{
	char *target;

	if (t->type == DM_DEVICE_LIST)
		return list(t);
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
	/* Of a removal, which is one line. */
	if (t->type == DM_DEVICE_SUSPEND || t->type == DM_DEVICE_RESUME)
		return 1;
	log_line("other", t->name, "");
	return 1;
}

int dm_task_get_info(struct dm_task *t, struct dm_info *info)
{
	memset(info, 0, sizeof(*info));
	info->exists = *t->target != '\0';
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
