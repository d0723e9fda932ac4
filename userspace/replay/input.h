/* SPDX-License-Identifier: GPL-2.0 */
/* Requests in memory, from a file that scripts/experiments read-seek writes, or from a pipe. */
#ifndef REPLAY_INPUT_H
#define REPLAY_INPUT_H

#include <shim.h>

/* Most sectors of a volume: 2^63 bytes. */
#define REQUESTS_END	(1ULL << 54)
/* First bytes of a file of requests. */
#define REQUESTS_MAGIC	"SHGLREQ1"

enum request_kind { REQUEST_READ, REQUEST_WRITE, REQUEST_DISCARD, NR_REQUEST_KINDS };

/**
 * struct request - a request as the file contains it, little-endian
 * @sector: first sector of 512 bytes
 * @sectors: number of sectors, at least 1
 * @kind: enum request_kind
 */
struct request {
	__le64 sector;
	__le32 sectors;
	__le32 kind;
};

/**
 * struct input - all requests
 * @request: the requests
 * @nr: their number
 * @nr_of: number of requests of each kind
 * @end: sector behind the highest one
 * @start: start of the file in memory
 * @bytes: size of the file
 * @mapped: @start is a mapping of the file
 */
struct input {
	const struct request *request;
	u64 nr;
	u64 nr_of[NR_REQUEST_KINDS];
	u64 end;
	void *start;
	size_t bytes;
	bool mapped;
};

int input_open(struct input *in, const char *name);
void input_close(struct input *in);

#endif /* REPLAY_INPUT_H */
