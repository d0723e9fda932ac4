/* SPDX-License-Identifier: GPL-2.0 */
/* What the first eight bytes of a key-value store say. */
#ifndef SHINGLE_KV_MAGIC_H
#define SHINGLE_KV_MAGIC_H

#define KV_MAGIC	0x45524f5453564bULL	/* "KVSTORE" */

#endif /* SHINGLE_KV_MAGIC_H */
