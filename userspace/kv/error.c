// SPDX-License-Identifier: GPL-2.0
/* The message of the last error of each thread. */
#include <stdarg.h>

#include "error.h"
#include "store.h"

static __thread char sentence[512];

EXPORTED const char *kv_error(void)
{
	return sentence;
}

int kv_says(int err, const char *fmt, ...)
{
	char text[sizeof(sentence)];
	va_list args;

	/* The last message may be an argument of this one. */
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	memcpy(sentence, text, sizeof(sentence));
	return err;
}

/* For a frequent result that is no error to most callers: as cheap as possible. */
int kv_none(const char *text)
{
	size_t bytes = strlen(text) + 1;

	memcpy(sentence, text, min(bytes, sizeof(sentence)));
	return -ENOENT;
}

int kv_no_memory(void)
{
	return kv_says(-ENOMEM, "out of memory");
}
