// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <loops.h>

/* Path of a loop device's backing file; false if there is none. */
static bool file_behind(const char *device, char *file, int size)
{
	char path[384];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/sys/block/%s/loop/backing_file", device);
	f = fopen(path, "re");
	ok = f && fgets(file, size, f);
	if (f)
		fclose(f);
	if (ok)
		file[strcspn(file, "\n")] = '\0';
	return ok;
}

/**
 * loop_over() - find the loop device that has a file open
 * @st: status of the file
 * @name: result, the name of the device without its directory
 * @size: size of @name
 *
 * A lock on the file does not help: programs that write to the loop device do not see it.
 *
 * Return: true if there is one.
 */
bool loop_over(const struct stat *st, char *name, size_t size)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *entry;
	bool found = false;

	while (!found && dir && (entry = readdir(dir))) {
		char file[4096];
		struct stat other;

		if (file_behind(entry->d_name, file, sizeof(file)) && !stat(file, &other) &&
		    other.st_dev == st->st_dev && other.st_ino == st->st_ino) {
			snprintf(name, size, "%s", entry->d_name);
			found = true;
		}
	}
	if (dir)
		closedir(dir);
	return found;
}
