// SPDX-License-Identifier: GPL-2.0
/*
 * Messages in the kernel's log about a mapped device.
 *
 * An ioctl of device mapper only returns a number.  The message of the target, or of device
 * mapper itself, is in the kernel's log: "device-mapper: table: 253:0: stl-set: SENTENCE
 * (-EINVAL)" when a table is refused, "device-mapper: shingle: 253:0: SENTENCE" otherwise.
 */
#include <fcntl.h>
#include <unistd.h>

#include "dm.h"

/* Longer than any record of /dev/kmsg. */
#define RECORD_BYTES	8192

/* Levels of the kernel's log; lower is more severe. */
#define LEVEL_ERR	3
#define LEVEL_WARNING	4

/**
 * kmsg_mark() - remember the end of the kernel's log
 *
 * Return: a mark for kmsg_cause() and kmsg_end(), or -1 if the log cannot be read.
 */
int kmsg_mark(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0 && lseek(fd, 0, SEEK_END) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Read the next record: returns its text, and its level in @level; NULL if there is none. */
static char *next_record(int fd, char *record, u32 *level)
{
	char *text;
	ssize_t n;

	for (;;) {
		n = read(fd, record, RECORD_BYTES - 1);
		/* The log has wrapped: the oldest records are gone, and the next read continues. */
		if (n < 0 && (errno == EPIPE || errno == EINTR))
			continue;
		if (n <= 0)
			return NULL;
		record[n] = '\0';
		text = strchr(record, ';');
		if (!text || sscanf(record, "%u", level) != 1)
			continue;
		*level &= 7;
		/* The record's properties follow the first line. */
		text[strcspn(text, "\n")] = '\0';
		return text + 1;
	}
}

/* Copy the sentence without the target's name and without "(-EINVAL)". */
static void take_sentence(const char *text, const char *target, char *why)
{
	size_t n = strlen(target);
	char *end;

	if (!strncmp(text, target, n) && !strncmp(text + n, ": ", 2))
		text += n + 2;
	snprintf(why, KMSG_SENTENCE, "%s", text);
	end = strrchr(why, '(');
	if (end && end > why && end[1] == '-' && end[strlen(end) - 1] == ')')
		end[-1] = '\0';
}

/**
 * kmsg_cause() - find the reason why an ioctl failed
 * @mark: result of kmsg_mark()
 * @major: of the device
 * @minor: of the device
 * @target: target type of the device, or ""
 * @why: result, KMSG_SENTENCE bytes
 *
 * The first error is the cause; later ones come from callers of the function that failed.
 * Without an error the first warning is used.
 *
 * Return: false if the log cannot be read or has no message about the device.
 */
bool kmsg_cause(int mark, u32 major, u32 minor, const char *target, char *why)
{
	char record[RECORD_BYTES], dev[32], *text, *at;
	bool found = false;
	u32 level;

	if (mark < 0)
		return false;
	snprintf(dev, sizeof(dev), ": %u:%u: ", major, minor);
	while ((text = next_record(mark, record, &level))) {
		if (strncmp(text, "device-mapper: ", 15) || level > LEVEL_WARNING)
			continue;
		at = strstr(text, dev);
		if (!at || (found && level > LEVEL_ERR))
			continue;
		take_sentence(at + strlen(dev), target, why);
		found = true;
		if (level <= LEVEL_ERR)
			break;
	}
	return found;
}

void kmsg_end(int mark)
{
	if (mark >= 0)
		close(mark);
}
