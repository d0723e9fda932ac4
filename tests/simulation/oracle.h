/* SPDX-License-Identifier: GPL-2.0 */
/* The contents that a device may return after writes, flushes and power cuts. */
#ifndef ORACLE_H
#define ORACLE_H

#include <sim/kernel.h>

struct oracle;

struct oracle *oracle_new(u64 blocks);
void oracle_free(struct oracle *o);

u64 oracle_begin(struct oracle *o, u64 lblk, u32 n, bool zeroes, bool soft);
u64 oracle_word(u64 version, u64 lblk);
void oracle_end(struct oracle *o, u64 lblk, u32 n, u64 version, bool acked, bool durable);
u64 oracle_flush_begin(const struct oracle *o);
bool oracle_flush_end(struct oracle *o, u64 acked, char *why, size_t size);
void oracle_doubt(struct oracle *o, bool ending);
void oracle_lost(struct oracle *o);
void oracle_cut(struct oracle *o);
bool oracle_check(struct oracle *o, u64 lblk, const u8 *content, bool racy, char *why, size_t size);

bool oracle_lock(struct oracle *o, u64 lblk, u32 n, bool shared);
void oracle_unlock(struct oracle *o, u64 lblk, u32 n, bool shared);

#endif /* ORACLE_H */
