/* SPDX-License-Identifier: GPL-2.0 */
/* Offline check of a device's metadata. */
#ifndef SHINGLE_CHECK_H
#define SHINGLE_CHECK_H

#include "image.h"
#include "json.h"

enum severity {
	FINDING_NOTE,	/* legal, but worth reporting */
	FINDING_ERROR,	/* damage */
};

/**
 * struct finding - one result of a check
 * @severity: note or error
 * @block: position in blocks of the metadata device; U64_MAX for none
 * @text: one sentence
 */
struct finding {
	enum severity severity;
	u64 block;
	char text[360];
};

/**
 * struct findings - a list of findings
 * @nr: number of elements used in @f
 * @room: number of elements allocated in @f
 * @nr_errors: number of errors
 * @dropped: number of findings that did not fit
 * @f: the list
 */
struct findings {
	u32 nr;
	u32 room;
	u32 nr_errors;
	u32 dropped;
	struct finding *f;
};

enum copy_state { COPY_SOUND, COPY_OLDER, COPY_BAD };

/**
 * struct slot_state - a checkpoint slot
 * @damaged: the slot has damage that a power cut cannot cause
 * @scan: contents of the slot
 */
struct slot_state {
	bool damaged;
	struct shingle_slot_scan scan;
};

/**
 * struct check - result of a check
 * @found: the findings
 * @copy: state of the two superblocks
 * @bad_settings: the stored settings are invalid
 * @bad_members: number of unsound headers on other devices
 * @slot: the checkpoint slots
 * @newest: slot of the newest complete checkpoint, or SHINGLE_SLOT_NEWEST
 * @lost_seq: number of a newer, damaged checkpoint; 0 if there is none
 * @lost_journal_seq: first transaction to replay on checkpoint @lost_seq
 * @recovered: the state could be loaded
 * @broken_map: number of inconsistencies in the map
 * @bad_pages: number of damaged pages of the map
 * @unread_pages: number of pages that cannot be read, possibly only for now
 * @idle_pages: number of lost pages that locate no block; they are empty now
 */
struct check {
	struct findings found;
	enum copy_state copy[2];
	bool bad_settings;
	u32 bad_members;
	struct slot_state slot[2];
	u32 newest;
	u64 lost_seq;
	u64 lost_journal_seq;
	bool recovered;
	u32 broken_map;
	u32 bad_pages;
	u32 unread_pages;
	u32 idle_pages;
};

void finding_add(struct findings *f, enum severity severity, u64 block, const char *fmt, ...)
	__printf(4, 5);
void findings_print(const struct findings *f);
void findings_json(const struct findings *f, struct json_object *j);

bool check_run(struct image *img, struct check *c);
void check_free(struct check *c);
void check_pages(struct image *img, struct check *c, bool give_up);
u32 check_map(struct image *img, struct findings *f);

static inline u64 slot_seq(const struct slot_state *s)
{
	return le64_to_cpu(s->scan.last.h.seq);
}

/* Common part of the offline commands: check, repair, dump. */

/**
 * struct offline_args - the command line
 * @path: the devices, by enum shingle_dev
 * @json: print JSON
 * @yes: do not ask for confirmation
 * @dry_run: print the plan and change nothing
 * @journal: dump the journal
 * @map: dump the map
 */
struct offline_args {
	const char *path[SHINGLE_NR_DEVS];
	bool json;
	bool yes;
	bool dry_run;
	bool journal;
	bool map;
};

/* Options of all these commands. */
#define OFFLINE_OPTIONS					\
	{ "cache", required_argument, NULL, 'C' },	\
	{ "meta", required_argument, NULL, 'M' },	\
	{ "help", no_argument, NULL, 'h' }

#define OFFLINE_HELP \
	"  --cache DEV       the cache device, to check its header and size\n" \
	"  --meta DEV        the metadata device, if it was formatted with one\n"

typedef int (*offline_fn)(struct image *img, struct check *c, const struct offline_args *a);

int offline_run(const struct command *cmd, int argc, char **argv, const struct option *options,
		enum device_mode mode, offline_fn fn);

#endif /* SHINGLE_CHECK_H */
