/* SPDX-License-Identifier: GPL-2.0 */
/* Functions that the commands of kv share. */
#ifndef KV_COMMAND_H
#define KV_COMMAND_H

#include <shingle-kv.h>

#include "device.h"
#include "json.h"
#include "tool.h"

extern const struct command kv_cmd_format, kv_cmd_put, kv_cmd_get, kv_cmd_delete, kv_cmd_scan,
	kv_cmd_load, kv_cmd_dump, kv_cmd_check, kv_cmd_compact, kv_cmd_stats,
	kv_cmd_offload, kv_cmd_repair, kv_cmd_checkpoint;

const char *organisation_text(enum kv_organisation which);
bool take_organisation(const char *text, enum kv_organisation *which);
/* Print the library's message.  Return: the exit code for @err. */
int failed(int err);
/* Close the store after a command with the exit code @ret.  Return: the exit code of both. */
int close_store(struct kv *kv, int ret);
bool layer_bands(const char *path, u32 *bytes, char *layer, size_t size);

/*
 * Keys and values as text without tabs and line ends, and back.  The bytes are never longer than
 * @text.
 */
void print_text(FILE *f, const void *data, size_t bytes);
char *text_of(const void *data, size_t bytes);
bool take_text(char *text, size_t *bytes);
void json_text(struct json_object *j, const char *key, const void *data, size_t bytes);

/* Options of the commands; one structure for all, as most have few. */
struct words {
	bool json, sync, keys, stream, unreadable;
	const char *offload;
	u64 lead;
	u64 limit, batch;
	int ret;
};
int open_store(struct kv **kv, const char *path, uint32_t flags, const struct words *w);
bool take_words(const struct command *cmd, int argc, char **argv, const char *which,
		struct words *w);

/* For all commands that open a store. */
#define COMMON_HELP \
	"  --offload OFFLOAD\n" \
	"              the offload device of the store\n" \
	"  -h, --help  print this text\n"

#define STREAM_HELP \
	"  --stream[=SIZE]\n" \
	"              write bands one after another, each to its end, so that the layer\n" \
	"              below cleans less; write SIZE zeroes (64K) in front of a band that\n" \
	"              does not follow the last one\n" \
	COMMON_HELP

#endif /* KV_COMMAND_H */
