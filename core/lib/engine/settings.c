// SPDX-License-Identifier: GPL-2.0
/*
 * Features and keys that a device stores for tools that open it.  This code does not interpret the
 * words.  Pure.
 */
#include "engine/settings.h"

/* Are these words of a table line, separated by single blanks? */
static bool are_words(const char *words, u32 len)
{
	bool blank = true;
	u32 i;

	for (i = 0; i < len; i++) {
		char c = words[i];

		if (c == ' ' ? blank : c < '!' || c > '~' || c == '\\')
			return false;
		blank = c == ' ';
	}
	return !blank;
}

/**
 * shingle_settings_encode() - encode words for the superblock
 * @words: features and "key=value", separated by blanks; "" for none
 * @s: result
 * @why: on error the reason, a sentence
 *
 * Context: any.
 * Return: 0, -E2BIG or -EINVAL.
 */
int shingle_settings_encode(const char *words, struct shingle_disk_settings *s, const char **why)
{
	size_t len = strlen(words);

	memset(s, 0, sizeof(*s));
	if (!len)
		return 0;
	if (len > SHINGLE_SETTINGS_BYTES) {
		*why = "they are longer than a superblock has room for";
		return -E2BIG;
	}
	if (!are_words(words, len)) {
		*why = "they are no words of a table line";
		return -EINVAL;
	}
	s->version = cpu_to_le16(SHINGLE_SETTINGS_VERSION);
	s->bytes = cpu_to_le16(len);
	memcpy(s->words, words, len);
	return 0;
}

/**
 * shingle_settings_decode() - decode the words in a superblock
 * @s: as read
 * @words: result, SHINGLE_SETTINGS_BYTES + 1 bytes; "" for none, and on error
 * @why: on error the reason, as the tail of a sentence
 *
 * Context: any.
 * Return: 0; -EPROTONOSUPPORT if another version wrote them; -EUCLEAN if they are invalid.
 */
int shingle_settings_decode(const struct shingle_disk_settings *s, char *words, const char **why)
{
	u32 version = le16_to_cpu(s->version), bytes = le16_to_cpu(s->bytes);

	words[0] = '\0';
	if (!version && !memchr_inv(s, 0, sizeof(*s)))
		return 0;
	if (version > SHINGLE_SETTINGS_VERSION) {
		*why = "they are of a newer version than this build knows";
		return -EPROTONOSUPPORT;
	}
	if (!version || bytes > SHINGLE_SETTINGS_BYTES || !are_words(s->words, bytes) ||
	    memchr_inv(s->words + bytes, 0, SHINGLE_SETTINGS_BYTES - bytes)) {
		*why = "they are no words of a table line";
		return -EUCLEAN;
	}
	memcpy(words, s->words, bytes);
	words[bytes] = '\0';
	return 0;
}
