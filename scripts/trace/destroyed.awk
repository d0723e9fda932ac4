# SPDX-License-Identifier: GPL-2.0
# recipe: which writes destroyed what, and which reads met it
# events: platter/platter_destroy platter/platter_destroyed_read

event == "platter_destroy" {
	write = name " " f["block"] "+" f["n"]
	# Blocks that one write destroys come in a row; a repeated block was rewritten in between.
	if (write != last || f["first"] in listed) {
		split("", listed)
		if (!writes++)
			printf "%15s  %-12s %16s  %s\n", "at, s", "medium", "write", "destroys"
		else
			printf "\n"
		printf "%15.6f  %-12s %16s ", at, name, f["block"] "+" f["n"]
		last = write
	}
	listed[f["first"]]
	printf " %s+%s", f["first"], f["count"]
	destroyed += f["count"]
	for (i = 0; i < f["count"] + 0; i++)
		by[name, f["first"] + i] = sprintf("%s+%s at %.6f", f["block"], f["n"], at)
}

event == "platter_destroyed_read" {
	key = name SUBSEP f["first"]
	told[++reads] = sprintf("%15.6f  %-12s %16s  %s, destroyed by %s", at, name,
		f["block"] "+" f["n"], f["first"], key in by ? by[key] : "a write before")
	lost += f["count"]
}

END {
	if (writes)
		printf "\n\n"
	for (i = 1; i <= reads; i++) {
		if (i == 1)
			printf "%15s  %-12s %16s  %s\n", "at, s", "medium", "read", "meets"
		print told[i]
	}
	if (reads)
		printf "\n"
	printf "%d writes destroyed %d blocks; %d reads met %d\n", writes, destroyed, reads, lost
}
