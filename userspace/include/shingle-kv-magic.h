/* SPDX-License-Identifier: GPL-2.0 */
/* What the first eight bytes of a key-value store say, and of its offload device. */
#ifndef SHINGLE_KV_MAGIC_H
#define SHINGLE_KV_MAGIC_H

#define KV_MAGIC		0x45524f5453564bULL	/* "KVSTORE" */
#define KV_OFFLOAD_MAGIC	0x444c46464f564bULL	/* "KVOFFLD" */

#endif /* SHINGLE_KV_MAGIC_H */
