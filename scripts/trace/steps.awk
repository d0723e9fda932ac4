# SPDX-License-Identifier: GPL-2.0
# recipe: what cleaning steps took, and why they were taken
# events: shingle/shingle_step_end

event == "shingle_step_end" {
	key = sprintf("%-12s %-10s %-9s", name, f["kind"], f["why"])
	if (!(key in steps))
		order[++rows] = key
	steps[key]++
	blocks[key] += f["n"]
	took[key] += f["took_us"]
	if (f["took_us"] + 0 > longest[key])
		longest[key] = f["took_us"] + 0
	if (f["error"] != "none") {
		failed[key]++
		errors[key] = f["error"]
	}
}

END {
	printf "%-12s %-10s %-9s %8s %10s %12s %11s %7s\n", "device", "kind", "why", "steps",
		"blocks", "in all, ms", "longest, ms", "failed"
	for (i = 1; i <= rows; i++) {
		key = order[i]
		printf "%s %8d %10d %12.1f %11.1f %7d %s\n", key, steps[key], blocks[key],
			took[key] / 1000, longest[key] / 1000, failed[key], errors[key]
	}
}
