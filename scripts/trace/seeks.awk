# SPDX-License-Identifier: GPL-2.0
# recipe: how far the head goes for each access, and what memory spares it
# events: platter/platter_media

event == "platter_media" {
	op[f["op"]]++
	if (f["op"] != "read" && f["op"] != "write" && f["op"] != "destage")
		next
	accesses++
	for (bin = 0; 2 ^ bin <= f["distance"] + 0; bin++)
		;
	if (bin > most)
		most = bin
	all[bin]++
	of[bin, f["op"]]++
	seek[bin] += f["seek_us"]
	rotation[bin] += f["rotation_us"]
}

END {
	printf "%d accesses of the medium; from memory: %d cache-write, %d cache-read, %d lookahead\n\n",
		accesses, op["cache-write"], op["cache-read"], op["lookahead"]
	printf "%-17s %8s %8s %8s %8s %9s %12s\n", "cylinders", "accesses", "read", "write",
		"destage", "seek, ms", "rotation, ms"
	for (bin = 0; accesses && bin <= most; bin++) {
		if (!all[bin])
			continue
		from = bin ? 2 ^ (bin - 1) : 0
		range = bin < 2 ? bin : from "-" 2 ^ bin - 1
		printf "%-17s %8d %8d %8d %8d %9.3f %12.3f\n", range, all[bin], of[bin, "read"],
			of[bin, "write"], of[bin, "destage"], seek[bin] / all[bin] / 1000,
			rotation[bin] / all[bin] / 1000
	}
}
