// SPDX-License-Identifier: GPL-2.0
/* Parser of /etc/shingletab, see shingletab(5). */
#include <ctype.h>
#include <stdarg.h>

#include "dm.h"
#include "tab.h"

/* Record the first error of a line. */
static bool wrong(struct tab_line *line, const char *fmt, ...) __printf(2, 3);

static bool wrong(struct tab_line *line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!*line->why)
		vsnprintf(line->why, sizeof(line->why), fmt, ap);
	va_end(ap);
	return false;
}

/* Take a name that neither libdevmapper nor udev needs to encode. */
static bool take_name(struct tab_line *line, const char *name)
{
	if (strlen(name) >= sizeof(line->name) || *name == '.' ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#+-.:=@_") !=
	    strlen(name))
		return wrong(line, "'%.40s' is not a valid name: 1 to 127 letters, digits and #+-.:=@_",
			     name);
	if (dm_name_reserved(name))
		return wrong(line, "'%s' is reserved by device mapper", name);
	snprintf(line->name, sizeof(line->name), "%s", name);
	return true;
}

/* True if systemd can make a unit's name of the path: it has a name, and no "." or "..". */
static bool is_plain(const char *path)
{
	bool names = false;
	size_t n;

	for (; *path; path += n) {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		if ((n == 1 && *path == '.') || (n == 2 && !strncmp(path, "..", 2)))
			return false;
		names |= n > 0;
	}
	return names;
}

/* Take a device and convert it to its path under /dev; it need not exist now. */
static bool take_device(struct tab_line *line, enum shingle_dev dev, const char *text)
{
	static const char *const part[] = { "DATA", "CACHE", "META" };
	char *path = line->path[dev];
	const char *value = strchr(text, '=');
	size_t len = value ? strlen(++value) : 0;
	const char *way = NULL;

	if (*path)
		return wrong(line, "%s is given twice", part[dev]);
	if (*text == '/') {
		if (strlen(text) >= TAB_DEVICE)
			return wrong(line, "the path of %s is too long", part[dev]);
		if (!is_plain(text))
			return wrong(line, "%s '%.40s' is not a path as udev writes it: use a path without . and ..",
				     part[dev], text);
		strcpy(path, text);
		return true;
	}
	if (!strncmp(text, "UUID=", 5))
		way = "shingle";
	else if (!strncmp(text, "PARTUUID=", 9))
		way = "partuuid";
	if (!way)
		return wrong(line, "%s '%.40s' is neither a path nor UUID= nor PARTUUID=", part[dev],
			     text);
	if (!len || len > 40 || strspn(value, "0123456789abcdefABCDEF-") != len)
		return wrong(line, "%s '%.40s' is no UUID", part[dev], text);
	len = (size_t)snprintf(path, TAB_DEVICE, "/dev/disk/by-%s/%s", way, value);
	/* udev writes both UUIDs in lower case. */
	for (; *path; path++)
		*path = (char)tolower(*path);
	if (!strcmp(way, "shingle"))
		snprintf(path, TAB_DEVICE - len, "-%s", part[dev]);
	return true;
}

static bool add(struct tab_line *line, const char **list, u32 *nr, const char *value)
{
	if (*nr == TABLE_MAX_ARGS)
		return wrong(line, "an option is given more than %u times", TABLE_MAX_ARGS);
	if (strchr(value, '\\'))
		return wrong(line, "'%.40s' cannot be part of a table line", value);
	list[(*nr)++] = value;
	return true;
}

static bool take_option(struct tab_line *line, char *option)
{
	struct table_args *t = &line->table;
	char *value = strchr(option, '=');
	bool *flag = !strcmp(option, "noauto") ? &line->noauto :
		     !strcmp(option, "nofail") ? &line->nofail :
		     !strcmp(option, "_netdev") ? &line->netdev :
		     !strcmp(option, "no-settings") ? &line->no_settings : NULL;

	if (flag) {
		*flag = true;
		return true;
	}
	/* Ignore options of other programs that read the file. */
	if (!strcmp(option, "defaults") || !strncmp(option, "x-", 2))
		return true;
	if (value)
		*value++ = '\0';
	if (value && *value && !strcmp(option, "cache"))
		return take_device(line, SHINGLE_DEV_CACHE, value);
	if (value && *value && !strcmp(option, "meta"))
		return take_device(line, SHINGLE_DEV_META, value);
	if (value && *value && !strcmp(option, "feature"))
		return add(line, t->feature, &t->nr_features, value);
	if (value && *value && !strcmp(option, "no-feature"))
		return add(line, t->without, &t->nr_without, value);
	if (value && *value && !strcmp(option, "set")) {
		if (!strchr(value, '=') || *value == '=')
			return wrong(line, "set=%.40s has no value: write it as set=KEY=VALUE", value);
		return add(line, t->key, &t->nr_keys, value);
	}
	if (value && !strcmp(option, "preset")) {
		line->preset = preset_by_name(value);
		return line->preset || wrong(line, "the preset '%.40s' is not known", value);
	}
	if (!*option)
		return wrong(line, "an option is empty");
	return wrong(line, "the option '%.40s' is not known, or has no value", option);
}

static bool parse(struct tab_line *line)
{
	static const char blanks[] = " \t\r\n";
	char *rest = NULL, *name = strtok_r(line->text, blanks, &rest);
	char *data = strtok_r(NULL, blanks, &rest), *options = strtok_r(NULL, blanks, &rest), *one;

	if (!take_name(line, name))
		return false;
	if (!data)
		return wrong(line, "DATA is missing after '%s'", line->name);
	if (strtok_r(NULL, blanks, &rest))
		return wrong(line, "there are more than three fields: separate options by commas, without blanks");
	if (!take_device(line, SHINGLE_DEV_DATA, data))
		return false;
	if (options && strcmp(options, "-")) {
		while ((one = strsep(&options, ","))) {
			if (!take_option(line, one))
				return false;
		}
	}
	return true;
}

/**
 * tab_read() - read the tab
 * @tab: result, to be freed
 *
 * A missing file is an empty tab.  An invalid line is included, with its error in @why.
 *
 * Return: true, or false after printing an error if the file cannot be read.
 */
bool tab_read(struct tab *tab)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t length;
	u32 nr = 0, i;
	FILE *f;

	memset(tab, 0, sizeof(*tab));
	tab->file = getenv("SHINGLETAB") ?: "/etc/shingletab";
	f = fopen(tab->file, "re");
	if (!f && errno == ENOENT)
		return true;
	while (f && (length = getline(&text, &room, f)) >= 0) {
		size_t blank = strspn(text, " \t\r\n");
		bool is_text = strlen(text) == (size_t)length;
		struct tab_line *line, *more;

		nr++;
		if (is_text && (!text[blank] || text[blank] == '#'))
			continue;
		more = realloc(tab->line, (tab->nr + 1) * sizeof(*more));
		if (!more)
			break;
		tab->line = more;
		line = &more[tab->nr++];
		memset(line, 0, sizeof(*line));
		line->nr = nr;
		line->text = text;
		text = NULL;
		room = 0;
		if (is_text ? !parse(line) : !wrong(line, "it contains a byte 0"))
			continue;
		for (i = 0; i + 1 < tab->nr; i++) {
			if (!strcmp(tab->line[i].name, line->name))
				wrong(line, "line %u has the same name '%.40s'",
				      tab->line[i].nr, line->name);
		}
	}
	free(text);
	if (f && !ferror(f) && feof(f)) {
		fclose(f);
		return true;
	}
	fail("%s cannot be read: %s", tab->file, strerror(errno));
	if (f)
		fclose(f);
	tab_free(tab);
	return false;
}

void tab_free(struct tab *tab)
{
	u32 i;

	for (i = 0; i < tab->nr; i++)
		free(tab->line[i].text);
	free(tab->line);
	tab->line = NULL;
	tab->nr = 0;
}

/* Print the error of a line. */
void tab_blame(const struct tab *tab, const struct tab_line *line)
{
	fail("%s, line %u: %s", tab->file, line->nr, line->why);
}

/* The first line with a name, or NULL after printing an error. */
const struct tab_line *tab_find(const struct tab *tab, const char *name)
{
	u32 i;

	for (i = 0; i < tab->nr; i++) {
		if (!strcmp(tab->line[i].name, name))
			return &tab->line[i];
	}
	fail("%s has no line for '%s'", tab->file, name);
	return NULL;
}
