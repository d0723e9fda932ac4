// SPDX-License-Identifier: GPL-2.0
/*
 * kv-fuzz HARNESS FILE|DIRECTORY...: passes the bytes of each file to a harness, which aborts if a
 * guarantee is broken.  With libFuzzer, which has a main() of its own, KV_FUZZ names the harness.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

static const struct harness *const all[] = {
	&harness_table, &harness_unsorted, &harness_log, &harness_bands, &harness_formats,
};
static const struct harness *chosen;

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

static void choose(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		if (name && !strcmp(name, all[i]->name))
			chosen = all[i];
	}
	if (!chosen)
		broken("table, unsorted, log, bands or formats, and not '%s'", name ?: "");
	chosen->begin();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	if (!chosen)
		choose(getenv("KV_FUZZ"));
	disk_reset();
	chosen->eat((struct input){ .at = data, .left = bytes });
	return 0;
}

#ifndef WITH_LIBFUZZER
static u32 inputs;

/* The buffer ends where the input does, so that reads behind it are noticed. */
static void replay_file(const char *path)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	size_t bytes;
	u8 *data;

	if (!f || fstat(fileno(f), &st))
		broken("%s cannot be opened", path);
	bytes = (size_t)st.st_size;
	data = malloc(bytes ?: 1);
	if (!data || fread(data, 1, bytes, f) != bytes)
		broken("%s cannot be read", path);
	fclose(f);
	if (getenv("KV_FUZZ_SAY"))
		fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, bytes);
	free(data);
	inputs++;
}

static void replay(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	char *name;

	if (!dir) {
		replay_file(path);
		return;
	}
	while ((d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		if (asprintf(&name, "%s/%s", path, d->d_name) < 0)
			broken("no memory");
		replay_file(name);
		free(name);
	}
	closedir(dir);
}

int main(int argc, char **argv)
{
	int i;

	choose(argc > 1 ? argv[1] : NULL);
	for (i = 2; i < argc; i++)
		replay(argv[i]);
	printf("%s: %u inputs, %u opened, %u clean\n", chosen->name, inputs, use_opened,
	       use_clean);
	return 0;
}
#endif
