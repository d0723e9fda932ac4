// SPDX-License-Identifier: GPL-2.0
/*
 * Modules.
 *
 * The data of all modules lie in two sections of the program, which the Makefile gives their
 * names.  A boot restores the content that these had when the program began.
 */
#include "private.h"

extern char __start_module_data[], __stop_module_data[];
extern char __start_module_bss[], __stop_module_bss[];

/* The order of loading is that of their dependencies. */
#define MODULES(X)	\
	X(shingle)	\
	X(platter)	\
	X(stl)		\
	X(imr)		\
	X(tiler)	\
	X(dualbuffer)	\
	X(rmwf)

#define X(name) int sim_load_##name(void); void sim_unload_##name(void);
MODULES(X)
#undef X

static char *image;

/* The sections contain what the address sanitizer forbids to touch. */
__attribute__((__no_sanitize__("address"), __optimize__("no-tree-loop-distribute-patterns")))
static void copy(char *to, const char *from, size_t n)
{
	const u64 *f = (const u64 *)from;
	u64 *t = (u64 *)to;

	/* Sections are padded to their alignment. */
	for (; n >= sizeof(*t); n -= sizeof(*t))
		*t++ = *f++;
	for (to = (char *)t, from = (const char *)f; n; n--)
		*to++ = *from++;
}

void sim_modules_reboot(void)
{
	size_t data = __stop_module_data - __start_module_data;
	size_t bss = __stop_module_bss - __start_module_bss;

	if (!image) {
		image = malloc(data + bss);
		if (!image)
			abort();
		copy(image, __start_module_data, data);
		copy(image + data, __start_module_bss, bss);
		return;
	}
	copy(__start_module_data, image, data);
	copy(__start_module_bss, image + data, bss);
}

/* ``modprobe`` of all of them.  Context: a thread. */
int sim_modules_load(void)
{
	int err = 0;

#define X(name) err = err ?: sim_load_##name();
	MODULES(X)
#undef X
	return err;
}

/* ``rmmod`` of all of them, in the opposite order. */
void sim_modules_unload(void)
{
	sim_unload_rmwf();
	sim_unload_dualbuffer();
	sim_unload_tiler();
	sim_unload_imr();
	sim_unload_stl();
	sim_unload_platter();
	sim_unload_shingle();
}
