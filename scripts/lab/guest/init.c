// SPDX-License-Identifier: GPL-2.0
/*
 * The first process of a lab guest, statically linked.
 *
 * It makes a root file system that can be written to without touching the
 * host (a tmpfs over the host's root), runs guest/rc there, carries that
 * script's output to the channels that the runner reads, reports the exit
 * status and switches the guest off.  The same program serves user-mode Linux
 * (started from hostfs, the root is mounted already) and QEMU (started from an
 * initramfs, which holds the few modules needed to reach the host's root).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define P9_OPTIONS "trans=virtio,version=9p2000.L,msize=512000,access=any,cache="

enum { OUT, ERR, CTL, CHANNELS };

static int channel[CHANNELS] = { 1, 2, 2 };

static void off(void)
{
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void control(const char *format, ...)
{
	char line[256];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[len] = '\n';
	if (write(channel[CTL], line, len + 1) < 0)
		perror("lab: control channel");
}

static void must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	control("error %s: %s", what, strerror(errno));
	off();
}

static void mount_at(const char *source, const char *dir, const char *type,
		     unsigned long flags, const char *options)
{
	mkdir(dir, 0755);
	must(mount(source, dir, type, flags, options), dir);
}

/* /modules lists the modules of the initramfs in the order of loading. */
static void load_initramfs_modules(void)
{
	FILE *list = fopen("/modules", "re");
	char name[256];

	while (list && fgets(name, sizeof(name), list)) {
		int fd;

		name[strcspn(name, "\n")] = 0;
		fd = open(name, O_RDONLY | O_CLOEXEC);
		must(fd, name);
		if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
			fprintf(stderr, "lab: %s: %m\n", name);
		close(fd);
	}
	if (list)
		fclose(list);
}

static void open_channels(int uml)
{
	static const char * const tty[CHANNELS] = {
		"/dev/tty1", "/dev/tty2", "/dev/tty3"
	};
	char pattern[32];
	int i, tries;

	for (i = 0; i < CHANNELS; i++) {
		if (uml) {
			struct termios t;

			channel[i] = open(tty[i], O_RDWR | O_NOCTTY | O_CLOEXEC);
			must(channel[i], tty[i]);
			if (!tcgetattr(channel[i], &t)) {
				cfmakeraw(&t);
				tcsetattr(channel[i], TCSANOW, &t);
			}
			continue;
		}
		/* The ports appear a moment after their driver. */
		snprintf(pattern, sizeof(pattern), "/dev/vport*p%d", i + 1);
		for (tries = 0; tries < 500; tries++) {
			glob_t found;

			if (!glob(pattern, 0, NULL, &found)) {
				channel[i] = open(found.gl_pathv[0],
						  O_WRONLY | O_CLOEXEC);
				globfree(&found);
				break;
			}
			usleep(10000);
		}
		must(tries < 500 ? channel[i] : -1, pattern);
	}
}

static void enter_root(int uml)
{
	const char *lower = "/";

	if (!uml) {
		lower = "/lower";
		mount_at("root", lower, "9p", MS_RDONLY, P9_OPTIONS "loose");
	}
	/* On user-mode Linux /tmp is the host's: hide it, use it as scratch. */
	mount_at("lab", "/tmp", "tmpfs", 0, "mode=755,size=75%");
	must(mkdir("/tmp/upper", 0755), "upper");
	must(mkdir("/tmp/work", 0755), "work");
	must(mkdir("/tmp/root", 0755), "root");
	must(mount("lab", "/tmp/root", "overlay", 0, uml ?
		   "lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work" :
		   "lowerdir=/lower,upperdir=/tmp/upper,workdir=/tmp/work"),
	     "overlay");
	must(mount("/dev", "/tmp/root/dev", NULL, MS_MOVE, NULL), "move /dev");
	must(chdir("/tmp/root"), "chdir");
	must(mount(".", "/", NULL, MS_MOVE, NULL), "move root");
	must(chroot("."), "chroot");
	must(chdir("/"), "chdir");
}

static void mount_host_dir(int uml, const char *host, const char *tag,
			   const char *dir)
{
	char *parent = strdup(dir), *slash = parent;

	while ((slash = strchr(slash + 1, '/'))) {
		*slash = 0;
		mkdir(parent, 0755);
		*slash = '/';
	}
	free(parent);
	if (uml)
		mount_at("lab", dir, "hostfs", 0, host);
	else
		mount_at(tag, dir, "9p", 0, P9_OPTIONS "mmap");
}

/* /run/lab/rw: a directory a line, which the guest may change on the host. */
static void mount_rw_dirs(int uml)
{
	FILE *list = fopen("/run/lab/rw", "re");
	char dir[4096], tag[16];
	int n = 0;

	while (list && fgets(dir, sizeof(dir), list)) {
		dir[strcspn(dir, "\n")] = 0;
		snprintf(tag, sizeof(tag), "rw%d", n++);
		mount_host_dir(uml, dir, tag, dir);
	}
	if (list)
		fclose(list);
}

static void put(int fd, const char *data, ssize_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return;
		if (n > 0) {
			data += n;
			len -= n;
		}
	}
}

/*
 * Carries output until @pid has ended and what it wrote has been passed on.
 * SIGCHLD is blocked except in ppoll(), so that no end goes unnoticed.
 */
static int relay(pid_t pid, int *from, const sigset_t *waiting)
{
	static const struct timespec now;
	static char buffer[65536];
	int ended = 0, status = 0, i, s;
	pid_t dead;

	for (;;) {
		struct pollfd p[2] = {
			{ .fd = from[0], .events = POLLIN },
			{ .fd = from[1], .events = POLLIN },
		};
		int ready = ppoll(p, 2, ended ? &now : NULL, waiting);

		/* Daemons left behind may hold the pipes: do not wait for them. */
		if (ended && ready <= 0)
			return status;
		for (i = 0; i < 2; i++) {
			ssize_t n;

			if (ready <= 0 || !p[i].revents)
				continue;
			n = read(from[i], buffer, sizeof(buffer));
			if (n > 0) {
				put(channel[i], buffer, n);
			} else if (!n || errno != EINTR) {
				close(from[i]);
				from[i] = -1;
			}
		}
		while ((dead = waitpid(-1, &s, WNOHANG)) > 0) {
			if (dead == pid) {
				ended = 1;
				status = s;
			}
		}
	}
}

static void on_child(int signo)
{
	(void)signo;	/* its only purpose is to interrupt ppoll() */
}

int main(void)
{
	struct sigaction child = { .sa_handler = on_child };
	int uml = access("/modules", F_OK) != 0;
	int out[2], err[2], from[2], status;
	const char *run = getenv("LAB_RUN");
	sigset_t blocked, waiting;
	pid_t pid;

	if (getpid() != 1) {
		fprintf(stderr, "lab: this is the init of a lab guest\n");
		return 2;
	}
	umask(022);
	if (!uml)
		load_initramfs_modules();
	mount_at("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	open_channels(uml);
	enter_root(uml);
	mount_at("proc", "/proc", "proc", 0, NULL);
	mount_at("sys", "/sys", "sysfs", 0, NULL);
	mount_at("run", "/run", "tmpfs", 0, "mode=755");
	mount_host_dir(uml, run, "run", "/run/lab");
	mount_rw_dirs(uml);

	must(pipe2(out, O_CLOEXEC), "pipe");
	must(pipe2(err, O_CLOEXEC), "pipe");
	sigaction(SIGCHLD, &child, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, &waiting);
	pid = fork();
	must(pid, "fork");
	if (!pid) {
		sigprocmask(SIG_SETMASK, &waiting, NULL);
		setsid();
		close(0);
		if (open("/dev/null", O_RDONLY) == 0 && dup2(out[1], 1) == 1 &&
		    dup2(err[1], 2) == 2)
			execl("/bin/sh", "sh", "/run/lab/rc", (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	close(err[1]);
	from[0] = out[0];
	from[1] = err[0];
	status = relay(pid, from, &waiting);
	control("status %d", WIFSIGNALED(status) ? 128 + WTERMSIG(status)
						 : WEXITSTATUS(status));
	off();
	return 0;
}
