// SPDX-License-Identifier: GPL-2.0
/* The kernel's printf, its log, and tracepoints. */
#include <sim/sort.h>

#include "private.h"

#undef snprintf
#undef vsnprintf

sim_log_fn *sim_log_to;
bool sim_tracing;

/* One conversion of a format, after its %: copies it to @spec and returns its end. */
static const char *conversion(const char *fmt, char *spec, size_t room, int *longs, bool *star)
{
	size_t n = 0;

	*longs = 0;
	*star = false;
	spec[n++] = '%';
	for (; *fmt && strchr("-+ #0123456789.*hlzt", *fmt); fmt++) {
		*longs += *fmt == 'l' || *fmt == 'z' || *fmt == 't';
		*star |= *fmt == '*';
		if (n < room - 2)
			spec[n++] = *fmt;
	}
	spec[n++] = *fmt;
	spec[n] = '\0';
	return *fmt ? fmt + 1 : fmt;
}

static int uuid(char *buf, size_t room, const u8 *u)
{
	return snprintf(buf, room,
			"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
			u[12], u[13], u[14], u[15]);
}

int sim_vsnprintf(char *buf, size_t size, const char *fmt, va_list from)
{
	size_t used = 0;
	va_list args;

	va_copy(args, from);
	while (*fmt) {
		size_t room = used < size ? size - used : 0;
		char *to = room ? buf + used : NULL, spec[32];
		int longs, n, width = 0;
		bool star;

		if (*fmt != '%') {
			if (room > 1)
				*to = *fmt;
			used++;
			fmt++;
			continue;
		}
		fmt = conversion(fmt + 1, spec, sizeof(spec), &longs, &star);
		if (star)
			width = va_arg(args, int);
#define PUT(type) (star ? snprintf(to, room, spec, width, va_arg(args, type)) : \
			  snprintf(to, room, spec, va_arg(args, type)))
		switch (spec[strlen(spec) - 1]) {
		case 'p':
			if (*fmt == 'U') {
				n = uuid(to, room, va_arg(args, const u8 *));
				fmt += 2;
			} else if (*fmt == 'V') {
				struct va_format *vaf = va_arg(args, struct va_format *);

				n = sim_vsnprintf(to, room, vaf->fmt, *vaf->va);
				fmt++;
			} else if (*fmt == 'e') {
				n = snprintf(to, room, "%ld", (long)va_arg(args, void *));
				fmt++;
			} else {
				n = snprintf(to, room, "%p", va_arg(args, void *));
			}
			break;
		case 's':
			n = PUT(const char *);
			break;
		case '%':
			n = snprintf(to, room, "%%");
			break;
		case 'c':
			n = PUT(int);
			break;
		default:
			n = longs > 1 ? PUT(long long) : longs ? PUT(long) : PUT(int);
		}
#undef PUT
		used += n;
	}
	va_end(args);
	if (size)
		buf[min(used, size - 1)] = '\0';
	return used;
}

int sim_vscnprintf(char *buf, size_t size, const char *fmt, va_list args)
{
	size_t n = sim_vsnprintf(buf, size, fmt, args);

	return size ? min(n, size - 1) : 0;
}

int sim_scnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = sim_vscnprintf(buf, size, fmt, args);
	va_end(args);
	return n;
}

int sim_snprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = sim_vsnprintf(buf, size, fmt, args);
	va_end(args);
	return n;
}

ssize_t sim_strscpy(char *to, const char *from, size_t size)
{
	size_t len = strnlen(from, size);

	if (!size)
		return -E2BIG;
	if (len == size) {
		memcpy(to, from, size - 1);
		to[size - 1] = '\0';
		return -E2BIG;
	}
	memcpy(to, from, len + 1);
	return len;
}

void sim_log(const char *level, const char *prefix, const char *fmt, ...)
{
	char line[512];
	va_list args;
	size_t used;

	if (!sim_log_to)
		return;
	used = sim_scnprintf(line, sizeof(line), "%llu.%06llu %s %s: ",
			     (unsigned long long)(sim_time_ns() / 1000000000),
			     (unsigned long long)(sim_time_ns() / 1000 % 1000000), level, prefix);
	va_start(args, fmt);
	sim_vscnprintf(line + used, sizeof(line) - used, fmt, args);
	va_end(args);
	sim_log_to(line);
}

const char *sim_symbol(long value, const struct sim_symbol *symbols)
{
	for (; symbols->name; symbols++) {
		if (symbols->value == value)
			return symbols->name;
	}
	return "?";
}

void sort(void *base, size_t n, size_t size, int (*cmp)(const void *a, const void *b), void *swap)
{
	qsort(base, n, size, cmp);
}
