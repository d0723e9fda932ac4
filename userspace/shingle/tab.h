/* SPDX-License-Identifier: GPL-2.0 */
/* /etc/shingletab: the devices that are opened at boot. */
#ifndef SHINGLE_TAB_H
#define SHINGLE_TAB_H

#include "table.h"

#define TAB_DEVICE	256

/**
 * struct tab_line - a line of the tab
 * @nr: number of the line in the file, from 1
 * @why: error in the line, as the tail of a sentence; "" if it is valid
 * @name: name of the mapped device; "" if it is invalid
 * @path: paths of the devices by enum shingle_dev, "" for an absent one
 * @table: features and settings for this opening
 * @preset: the preset, or NULL
 * @no_settings: ignore the settings stored on the device
 * @noauto: do not open at boot or with --all
 * @nofail: the boot does not wait for the device
 * @netdev: the devices are on the network
 * @text: the line, split into words; @table points into it
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
 * struct tab - the tab, including invalid lines
 * @file: name of the file
 * @line: all lines except comments and empty ones
 * @nr: number of elements used in @line
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
