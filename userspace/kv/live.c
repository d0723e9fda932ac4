// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of other programs to the program that has a store open: for statistics, and for a
 * checkpoint.
 *
 * The program listens on a socket in the abstract namespace.  The name is derived from the device
 * or file, so nothing is left behind when the program is killed.  A request is a struct
 * live_request and a path.  The answer is a struct live_answer and a struct kv_stats or a message.
 * Both programs are on one machine, so numbers have its byte order.  Only root and the user of the
 * program get answers.
 */
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "store.h"

/* A client that sends nothing must not block others for ever. */
#define PATIENCE_S	5
#define MOST_BYTES	4096U

enum live_what {
	LIVE_STATS = 1,
	LIVE_CHECKPOINT,
};

struct live_request {
	u32 what, bytes;
};

struct live_answer {
	s32 err;
	u32 bytes;
};

/**
 * struct live - the server of a store
 * @kv: the store
 * @thread: the thread that answers
 * @listener: the listening socket
 * @lock: guards @client and @stop
 * @client: the connection that is served now; or -1
 * @stop: the store is being closed
 */
struct live {
	struct kv *kv;
	pthread_t thread;
	int listener;
	pthread_mutex_t lock;
	int client;
	bool stop;
};

/* The name of the socket; it needs an existing file. */
static int name_of(const char *path, struct sockaddr_un *name, socklen_t *bytes, uid_t *owner)
{
	struct stat st;
	int n;

	if (stat(path, &st))
		return kv_says(-errno, "%s: %s", path, strerror(errno));
	*owner = st.st_uid;
	*name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (S_ISBLK(st.st_mode))
		n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "shingle-kv/b%u:%u",
			     major(st.st_rdev), minor(st.st_rdev));
	else
		n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
			     "shingle-kv/f%u:%u:%llu", major(st.st_dev), minor(st.st_dev),
			     (unsigned long long)st.st_ino);
	*bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return 0;
}

static int transfer(int fd, void *data, size_t bytes, bool sending)
{
	u8 *at = data;
	ssize_t n;

	while (bytes) {
		n = sending ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EPIPE;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static bool may_ask(int fd)
{
	struct ucred who;
	socklen_t bytes = sizeof(who);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) &&
		(!who.uid || who.uid == geteuid());
}

static void answer(struct live *l, int fd)
{
	struct timeval patience = { .tv_sec = PATIENCE_S };
	struct kv_stats stats = { .size = sizeof(stats) };
	struct live_answer a = { .err = 0 };
	char path[MOST_BYTES + 1] = "";
	struct live_request q;
	const void *data = "";

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (transfer(fd, &q, sizeof(q), false) || q.bytes > MOST_BYTES ||
	    transfer(fd, path, q.bytes, false))
		return;
	if (!may_ask(fd)) {
		a.err = kv_says(-EPERM, "only root and the user of the program that has %s open may do this",
				l->kv->disk->name);
	} else if (q.what == LIVE_STATS) {
		a.err = kv_stats(l->kv, &stats);
		data = &stats;
		a.bytes = sizeof(stats);
	} else if (q.what == LIVE_CHECKPOINT) {
		a.err = kv_checkpoint(l->kv, path, NULL);
	} else {
		a.err = kv_says(-EINVAL, "a request that this library does not know");
	}
	if (a.err) {
		data = kv_error();
		a.bytes = (u32)strlen(data);
	}
	if (!transfer(fd, &a, sizeof(a), true))
		transfer(fd, (void *)data, a.bytes, true);
}

static void *serve(void *arg)
{
	struct live *l = arg;
	bool stop = false;
	int fd;

	while (!stop) {
		fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
		pthread_mutex_lock(&l->lock);
		stop = l->stop || (fd < 0 && errno != EINTR && errno != ECONNABORTED);
		l->client = stop ? -1 : fd;
		pthread_mutex_unlock(&l->lock);
		if (!stop && fd >= 0)
			answer(l, fd);
		pthread_mutex_lock(&l->lock);
		l->client = -1;
		pthread_mutex_unlock(&l->lock);
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

/**
 * live_start() - start answering other programs
 * @kv: the store
 * @path: path of its device
 *
 * Return: The server; NULL if it cannot be started, which is no error of the store.
 */
struct live *live_start(struct kv *kv, const char *path)
{
	struct live *l = calloc(1, sizeof(*l));
	struct sockaddr_un name;
	socklen_t bytes;
	uid_t owner;

	if (!l)
		return NULL;
	l->kv = kv;
	l->client = -1;
	l->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l->listener < 0 || name_of(path, &name, &bytes, &owner) ||
	    bind(l->listener, (struct sockaddr *)&name, bytes) || listen(l->listener, 16))
		goto fail;
	pthread_mutex_init(&l->lock, NULL);
	if (!thread_start(&l->thread, serve, l))
		return l;
	pthread_mutex_destroy(&l->lock);
fail:
	if (l->listener >= 0)
		close(l->listener);
	free(l);
	return NULL;
}

/**
 * live_stop() - stop answering; returns when the thread has ended
 * @l: the server; or NULL.  The store is stopping, so a running checkpoint ends
 */
void live_stop(struct live *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	shutdown(l->listener, SHUT_RDWR);
	if (l->client >= 0)
		shutdown(l->client, SHUT_RD);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	close(l->listener);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* In a child of fork(): close the socket, on which the parent goes on to answer. */
void live_leave(struct live *l)
{
	if (l)
		close(l->listener);
}

/* Connect to the program that has the store open. */
static int ask(const char *path, int *fd)
{
	struct sockaddr_un name;
	struct ucred who;
	socklen_t bytes, size = sizeof(who);
	uid_t owner;
	int err = name_of(path, &name, &bytes, &owner);

	if (err)
		return err;
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return kv_says(-errno, "a socket: %s", strerror(errno));
	if (connect(*fd, (struct sockaddr *)&name, bytes)) {
		close(*fd);
		return kv_says(-ENOTCONN, "%s is not open in a program that answers", path);
	}
	/* Any user may bind a name that is free. */
	if (!getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
	    (!who.uid || who.uid == geteuid() || who.uid == owner))
		return 0;
	close(*fd);
	return kv_says(-EPERM, "the program that answers for %s belongs to another user", path);
}

/* Send a request.  @out: gets up to @room bytes of the answer; the rest is dropped. */
static int request(const char *path, u32 what, const char *arg, void *out, size_t room)
{
	struct live_request q = { .what = what, .bytes = (u32)strlen(arg) };
	char text[MOST_BYTES + 1] = "";
	struct live_answer a;
	int fd, err;

	if (q.bytes >= MOST_BYTES)
		return kv_says(-ENAMETOOLONG, "%s: the name is too long", arg);
	err = ask(path, &fd);
	if (err)
		return err;
	err = transfer(fd, &q, sizeof(q), true) ?: transfer(fd, (void *)arg, q.bytes, true) ?:
		transfer(fd, &a, sizeof(a), false);
	if (!err && a.bytes > MOST_BYTES)
		err = -EPROTO;
	err = err ?: transfer(fd, text, a.bytes, false);
	close(fd);
	if (err)
		return kv_says(err, "the program that has %s open does not answer: %s", path, strerror(-err));
	if (a.err)
		return kv_says(a.err, "%s", text);
	if (room)
		memcpy(out, text, min_t(size_t, room, a.bytes));
	return 0;
}

EXPORTED int kv_live_stats(const char *path, struct kv_stats *stats)
{
	struct kv_stats all = { .size = 0 };
	int err = 0;

	if (stats->size < 2 * sizeof(stats->size))
		err = kv_says(-EINVAL, "struct kv_stats has an unknown size");
	err = err ?: request(path, LIVE_STATS, "", &all, sizeof(all));
	if (err)
		return err;
	all.size = stats->size;
	give_sized(stats, stats->size, &all, sizeof(all));
	return 0;
}

EXPORTED int kv_live_checkpoint(const char *path, const char *to)
{
	char full[MOST_BYTES], here[MOST_BYTES];
	int n;

	/* The other program may have another working directory. */
	if (*to == '/')
		n = snprintf(full, sizeof(full), "%s", to);
	else if (getcwd(here, sizeof(here)))
		n = snprintf(full, sizeof(full), "%s/%s", here, to);
	else
		return kv_says(-errno, "the current directory: %s", strerror(errno));
	if (n < 0 || (size_t)n >= sizeof(full))
		return kv_says(-ENAMETOOLONG, "%s: the name is too long", to);
	return request(path, LIVE_CHECKPOINT, full, NULL, 0);
}
