/* SPDX-License-Identifier: GPL-2.0 */
/* /etc/shingletab: the devices that are opened at boot. */
#ifndef SHINGLE_TAB_H
#define SHINGLE_TAB_H

#include "table.h"

#define TAB_DEVICE	256

/**
 * struct tab_line - a line of the tab
 * @nr: which line of the file it is, from 1
 * @why: what is wrong with it, as the tail of a sentence; "" if nothing is
 * @name: of the mapped device; "" where it is not even that
 * @path: its devices by enum shingle_dev, "" where there is none
 * @table: features and settings for this opening
 * @preset: or NULL
 * @no_settings: without those that the device keeps
 * @noauto: not at boot, and not with --all
 * @nofail: boot does not wait for it
 * @netdev: its devices come by the network
 * @text: of the line, taken apart: @table points into it
 */
struct tab_line {
	u32 nr;
	char why[160];
	char name[128];
	char path[SHINGLE_NR_DEVS][TAB_DEVICE];
	struct table_args table;
	const struct preset *preset;
	bool no_settings;
	bool noauto;
	bool nofail;
	bool netdev;
	char *text;
};

/**
 * struct tab - all of them, those that are wrong included
 * @file: its name
 * @line: the lines that say something
 * @nr: used of @line
 */
struct tab {
	const char *file;
	struct tab_line *line;
	u32 nr;
};

bool tab_read(struct tab *tab);
void tab_free(struct tab *tab);
void tab_blame(const struct tab *tab, const struct tab_line *line);
const struct tab_line *tab_find(const struct tab *tab, const char *name);
int tab_generate(int argc, char **argv);

#endif /* SHINGLE_TAB_H */
