# SPDX-License-Identifier: GPL-2.0
# A line of the trace: at, in seconds; event; name, of the device; f[], its fields.

/^# device / { known[$3] = $4 }
/^#/ { next }
{
	if (!match($0, /[0-9]+\.[0-9]+: [a-z_]+: /))
		next
	split(substr($0, RSTART, RLENGTH), head, ": ")
	at = head[1]
	event = head[2]
	words = split(substr($0, RSTART + RLENGTH), word, " ")
	name = word[1] in known ? known[word[1]] : word[1]
	split("", f)
	for (i = 2; i <= words; i++) {
		equals = index(word[i], "=")
		f[substr(word[i], 1, equals - 1)] = substr(word[i], equals + 1)
	}
}
