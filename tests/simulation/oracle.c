// SPDX-License-Identifier: GPL-2.0
/*
 * The oracle: for each block, the versions that a read may return.
 *
 * A version is one write of the block.  The versions of a block are in the order in which the
 * writes were submitted; the oracle does not let two writes of a block be in flight at the same
 * time.  The first version in the list is the newest one that is certainly durable.
 *
 * A read may return the newest acknowledged version, or a later one that was not acknowledged: it
 * failed, and may have been written nevertheless.  After a power cut a read may return any version
 * in the list; from then on it is the only one.
 */
#include "oracle.h"

/**
 * struct version - a write of a block
 * @nr: number of the write; 0 for the zeroes of a new device
 * @acked: number of its acknowledgement, counted over all writes; 0: not acknowledged
 * @zero: it wrote zeroes
 * @soft: an older version may be returned in its place: a discard that the device need not do, or
 *	a write that the device has reported as lost
 * @doubtful: it may be lost, since a table has ended that could not write everything; the next
 *	FLUSH says whether it is
 */
struct version {
	u64 nr;
	u64 acked;
	bool zero;
	bool soft;
	bool doubtful;
};

/**
 * struct cell - a block
 * @v: its versions
 * @n: number of them
 * @room: room in @v
 * @cut: the first @cut versions are from before a power cut: one of them has survived, and the
 *	first read shows which
 * @users: requests in flight: -1, one that changes it; otherwise the number of reads
 */
struct cell {
	struct version *v;
	u32 n;
	u32 room;
	u32 cut;
	int users;
};

/**
 * struct oracle - the oracle of a device
 * @blocks: number of blocks
 * @writes: number of versions
 * @acks: number of acknowledgements
 * @ending: a table is about to end: what is acknowledged now is doubtful
 * @lost: a read has returned an older version of this block than a doubtful one; 0 or block + 1
 * @cell: the blocks
 */
struct oracle {
	u64 blocks;
	u64 writes;
	u64 acks;
	bool ending;
	u64 lost;
	struct cell cell[];
};

#define WORD_BLOCK_BITS	24

/**
 * oracle_new() - the oracle of a new device: zeroes
 * @blocks: its size
 *
 * Return: the oracle.
 */
struct oracle *oracle_new(u64 blocks)
{
	struct oracle *o = calloc(1, sizeof(*o) + blocks * sizeof(o->cell[0]));
	u64 i;

	if (!o || blocks >> WORD_BLOCK_BITS)
		abort();
	o->blocks = blocks;
	for (i = 0; i < blocks; i++) {
		struct cell *c = &o->cell[i];

		c->room = 4;
		c->v = calloc(c->room, sizeof(*c->v));
		if (!c->v)
			abort();
		c->v[0] = (struct version){ .acked = 1, .zero = true };
		c->n = 1;
	}
	o->acks = 1;
	return o;
}

void oracle_free(struct oracle *o)
{
	u64 i;

	for (i = 0; i < o->blocks; i++)
		free(o->cell[i].v);
	free(o);
}

/* Forget the first @n versions. */
static void forget(struct cell *c, u32 n)
{
	c->n -= n;
	c->cut -= min(c->cut, n);
	memmove(c->v, c->v + n, c->n * sizeof(*c->v));
}

/* Version @k has survived a power cut; the others from before it are gone. */
static void survived(struct cell *c, u32 k)
{
	struct version v = c->v[k];

	v.soft = false;
	v.acked = 1;
	forget(c, c->cut - 1);
	c->v[0] = v;
	c->cut = 0;
}

/**
 * oracle_word() - the word that fills a block
 * @version: what oracle_begin() returned
 * @lblk: the block
 *
 * Return: the word; below 2^63, as sim_disk stores it in little memory.
 */
u64 oracle_word(u64 version, u64 lblk)
{
	return version << WORD_BLOCK_BITS | lblk;
}

/**
 * oracle_begin() - a request that changes blocks is about to be submitted
 * @o: the oracle
 * @lblk: first block, locked
 * @n: number of blocks
 * @zeroes: it writes zeroes
 * @soft: the device need not do it
 *
 * Return: the number of the version.
 */
u64 oracle_begin(struct oracle *o, u64 lblk, u32 n, bool zeroes, bool soft)
{
	u64 nr = ++o->writes;

	for (; n; n--, lblk++) {
		struct cell *c = &o->cell[lblk];

		if (c->n == c->room) {
			c->room *= 2;
			c->v = realloc(c->v, c->room * sizeof(*c->v));
			if (!c->v)
				abort();
		}
		c->v[c->n++] = (struct version){ .nr = nr, .zero = zeroes, .soft = soft };
	}
	return nr;
}

/**
 * oracle_end() - that request has ended
 * @o: the oracle
 * @lblk: first block
 * @n: number of blocks
 * @version: what oracle_begin() returned
 * @acked: it has succeeded
 * @durable: it was a FUA write, so that no older version can come back
 */
void oracle_end(struct oracle *o, u64 lblk, u32 n, u64 version, bool acked, bool durable)
{
	u64 ack = acked ? ++o->acks : 0;

	for (; n; n--, lblk++) {
		struct cell *c = &o->cell[lblk];
		struct version *v = &c->v[c->n - 1];

		if (v->nr != version)
			abort();
		v->acked = ack;
		v->doubtful = o->ending;
		if (acked && durable && !v->soft)
			forget(c, c->n - 1);
	}
}

/**
 * oracle_flush_begin() - a FLUSH is about to be submitted
 * @o: the oracle
 *
 * Return: what oracle_flush_end() needs.
 */
u64 oracle_flush_begin(const struct oracle *o)
{
	return o->acks;
}

/**
 * oracle_flush_end() - a FLUSH has succeeded: what was acknowledged before it is durable
 * @o: the oracle
 * @acked: what oracle_flush_begin() returned
 * @why: result, a sentence if it should have failed
 * @size: size of @why
 *
 * Return: false if a loss was seen before that no FLUSH has reported.
 */
bool oracle_flush_end(struct oracle *o, u64 acked, char *why, size_t size)
{
	u64 i;
	u32 k;

	if (o->lost) {
		snprintf(why, size, "a FLUSH succeeds, and block %llu has lost its newest version",
			 (unsigned long long)o->lost - 1);
		return false;
	}

	for (i = 0; i < o->blocks; i++) {
		struct cell *c = &o->cell[i];

		for (k = c->n; k-- > 1;) {
			if (!c->v[k].soft && c->v[k].acked && c->v[k].acked <= acked) {
				forget(c, k);
				break;
			}
		}
		for (k = 0; k < c->n; k++)
			c->v[k].doubtful &= c->v[k].acked > acked;
	}
	return true;
}

/**
 * oracle_doubt() - a table is about to end, or has ended, that may not have written everything
 * @o: the oracle
 * @ending: it is about to end
 *
 * A read may return an older version from now on, but then the next FLUSH must fail.
 */
void oracle_doubt(struct oracle *o, bool ending)
{
	u64 i;
	u32 k;

	o->ending = ending;
	if (!ending)
		return;
	for (i = 0; i < o->blocks; i++) {
		for (k = 1; k < o->cell[i].n; k++)
			o->cell[i].v[k].doubtful = true;
	}
}

/**
 * oracle_lost() - the device has reported that acknowledged writes are lost
 * @o: the oracle
 *
 * Any version since the last one that is certainly durable may be returned now.
 */
void oracle_lost(struct oracle *o)
{
	u64 i;
	u32 k;

	o->lost = 0;
	for (i = 0; i < o->blocks; i++) {
		for (k = 1; k < o->cell[i].n; k++)
			o->cell[i].v[k].soft = true;
	}
}

/**
 * oracle_cut() - the power has failed
 * @o: the oracle
 *
 * No request is in flight any more, and any version in the lists may be on the disk.
 */
void oracle_cut(struct oracle *o)
{
	u64 i;
	u32 k;

	o->ending = false;
	o->lost = 0;
	for (i = 0; i < o->blocks; i++) {
		struct cell *c = &o->cell[i];

		c->users = 0;
		c->cut = c->n;
		for (k = 1; k < c->n; k++) {
			c->v[k].soft = true;
			c->v[k].doubtful = false;
			c->v[k].acked = 0;
		}
	}
}

static bool matches(const struct version *v, u64 lblk, u64 word)
{
	return word == (v->zero ? 0 : oracle_word(v->nr, lblk));
}

/**
 * oracle_check() - check what a read has returned
 * @o: the oracle
 * @lblk: the block
 * @content: its content
 * @racy: a write of it may have been in flight: check only that the content is one of the block's
 * @why: result, a sentence if it is wrong
 * @size: size of @why
 *
 * A version that was lost at a power cut cannot come back once another one was read.
 *
 * Return: whether it is right.
 */
bool oracle_check(struct oracle *o, u64 lblk, const u8 *content, bool racy, char *why, size_t size)
{
	struct cell *c = &o->cell[lblk];
	u32 k = c->n;
	bool lost = false;
	u64 word;

	memcpy(&word, content, sizeof(word));
	if (memcmp(content, content + sizeof(word), 4096 - sizeof(word))) {
		snprintf(why, size, "block %llu is torn: it begins with the word %#llx",
			 (unsigned long long)lblk, (unsigned long long)word);
		return false;
	}
	if (racy && (!word || (word & (BIT_ULL(WORD_BLOCK_BITS) - 1)) == lblk))
		return true;
	while (k--) {
		if (matches(&c->v[k], lblk, word)) {
			if (k < c->cut)
				survived(c, k);
			if (lost)
				o->lost = lblk + 1;
			return true;
		}
		if (c->v[k].acked && !c->v[k].soft && !c->v[k].doubtful)
			break;
		lost |= c->v[k].acked && !c->v[k].soft;
	}
	snprintf(why, size,
		 "block %llu has version %llu of block %llu; its newest version is %llu, its durable one %llu, of %u",
		 (unsigned long long)lblk, (unsigned long long)(word >> WORD_BLOCK_BITS),
		 (unsigned long long)(word & (BIT_ULL(WORD_BLOCK_BITS) - 1)),
		 (unsigned long long)c->v[c->n - 1].nr, (unsigned long long)c->v[0].nr, c->n);
	return false;
}

/**
 * oracle_lock() - reserve blocks for a request
 * @o: the oracle
 * @lblk: first block
 * @n: number of blocks
 * @shared: it is a read
 *
 * Return: false if a request in flight is in the way.
 */
bool oracle_lock(struct oracle *o, u64 lblk, u32 n, bool shared)
{
	u32 i;

	for (i = 0; i < n; i++) {
		if (o->cell[lblk + i].users < 0 || (!shared && o->cell[lblk + i].users))
			return false;
	}
	for (i = 0; i < n; i++)
		o->cell[lblk + i].users = shared ? o->cell[lblk + i].users + 1 : -1;
	return true;
}

void oracle_unlock(struct oracle *o, u64 lblk, u32 n, bool shared)
{
	u32 i;

	for (i = 0; i < n; i++)
		o->cell[lblk + i].users = shared ? o->cell[lblk + i].users - 1 : 0;
}
