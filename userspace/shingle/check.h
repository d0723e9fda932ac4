/* SPDX-License-Identifier: GPL-2.0 */
/* Looking a device's metadata over, offline. */
#ifndef SHINGLE_CHECK_H
#define SHINGLE_CHECK_H

#include "image.h"
#include "json.h"

enum severity {
	FINDING_NOTE,	/* legal, though worth a line */
	FINDING_ERROR,	/* damage */
};

/**
 * struct finding - one thing worth a line
 * @severity: how bad it is
 * @block: where, in blocks of the metadata device; U64_MAX if nowhere
 * @text: a sentence
 */
struct finding {
	enum severity severity;
	u64 block;
	char text[360];
};

/**
 * struct findings - a list of them
 * @nr: used of @f
 * @room: of @f
 * @nr_errors: how many are errors
 * @dropped: how many did not fit
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
 * @damaged: something in it is broken that no power cut breaks
 * @scan: what it holds
 */
struct slot_state {
	bool damaged;
	struct shingle_slot_scan scan;
};

/**
 * struct check - what checking found
 * @found: the lines
 * @copy: the superblocks
 * @bad_settings: the settings make no sense
 * @bad_members: headers of other devices that are not sound
 * @slot: the checkpoints
 * @newest: the slot with the newest whole checkpoint, SHINGLE_SLOT_NEWEST if there is none
 * @lost_seq: number of a newer one that is damaged, 0 if there is none
 * @lost_journal_seq: first transaction to replay on that one
 * @recovered: the state could be loaded
 * @broken_map: the engine found its map broken
 * @bad_pages: pages of the map that are damaged
 * @unread_pages: pages that cannot be read for a reason that may pass
 * @idle_pages: of the lost ones, that say of no block where it is: they hold nothing now
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

#endif /* SHINGLE_CHECK_H */
