// SPDX-License-Identifier: GPL-2.0
/* Requests in memory, see input.h. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"
#include "../shingle/tool.h"

/* Read a pipe to its end. */
static int slurp(struct input *in, int fd, const char *name)
{
	size_t size = 0;
	ssize_t got;
	void *more;

	do {
		if (size == in->bytes) {
			size = 2 * size + (1 << 20);
			more = realloc(in->start, size);
			if (!more)
				return fail("%s does not fit in memory", name);
			in->start = more;
		}
		got = read(fd, (char *)in->start + in->bytes, size - in->bytes);
		if (got < 0 && errno != EINTR)
			return fail("%s: %s", name, strerror(errno));
		in->bytes += max_t(ssize_t, got, 0);
	} while (got);
	return 0;
}

static int load(struct input *in, int fd, const char *name)
{
	struct stat st;

	if (fstat(fd, &st))
		return fail("%s: %s", name, strerror(errno));
	if (!S_ISREG(st.st_mode) || !st.st_size)
		return slurp(in, fd, name);
	in->start = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (in->start == MAP_FAILED) {
		in->start = NULL;
		return fail("%s: %s", name, strerror(errno));
	}
	in->bytes = st.st_size;
	in->mapped = true;
	return 0;
}

static int check(struct input *in, const char *name)
{
	size_t head = strlen(REQUESTS_MAGIC);
	u64 i;

	if (in->bytes < head || memcmp(in->start, REQUESTS_MAGIC, head))
		return fail("%s is not a file of requests: it does not begin with " REQUESTS_MAGIC,
			    name);
	if ((in->bytes - head) % sizeof(*in->request))
		return fail("%s ends within a request", name);
	in->request = (const void *)((const char *)in->start + head);
	in->nr = (in->bytes - head) / sizeof(*in->request);
	for (i = 0; i < in->nr; i++) {
		const struct request *r = &in->request[i];
		u64 end = le64_to_cpu(r->sector) + le32_to_cpu(r->sectors);

		if (!r->sectors || le32_to_cpu(r->kind) >= NR_REQUEST_KINDS ||
		    le64_to_cpu(r->sector) >= REQUESTS_END || end > REQUESTS_END)
			return fail("%s: request %llu is invalid", name, i + 1);
		in->nr_of[le32_to_cpu(r->kind)]++;
		in->end = max(in->end, end);
	}
	return 0;
}

/**
 * input_open() - load all requests
 * @in: result
 * @name: a file; "-" is standard input
 *
 * Return: 0, or an exit status after printing an error.
 */
int input_open(struct input *in, const char *name)
{
	bool standard = !strcmp(name, "-");
	int fd = standard ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC), err;

	memset(in, 0, sizeof(*in));
	if (fd < 0)
		return fail("%s: %s", name, strerror(errno));
	err = load(in, fd, name);
	if (!standard)
		close(fd);
	if (!err)
		err = check(in, name);
	if (err)
		input_close(in);
	return err;
}

/**
 * input_close() - free the requests
 * @in: the input
 */
void input_close(struct input *in)
{
	if (in->mapped)
		munmap(in->start, in->bytes);
	else
		free(in->start);
	memset(in, 0, sizeof(*in));
}
