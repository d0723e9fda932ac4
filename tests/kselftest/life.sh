#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The life of a translation target through dmsetup: load, create, read status, send messages,
# suspend, reload, remove.  TARGET (default stl-set) is the target.
TARGET=${TARGET:-stl-set}
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/kselftest/ktap.sh
. "$HERE/ktap.sh"
X=life

node() { echo "/dev/dm-$(dmsetup info -c --noheadings -o minor $X)"; }
create() { dmsetup create $X --noudevsync --table "$TABLE"; }
remove() { dmsetup remove --retry --noudevsync $X; }
message() { dmsetup message $X 0 "$@"; }
field() { dmsetup status $X | cut -d' ' -f"$((3 + $1))"; }

ktap_begin
ktap_cleanup
eval "$("$HERE/../guest/make.py" "$TARGET")"
if [ -z "$TABLE" ]; then
	skip "everything" "no devices could be made for $TARGET"
	ktap_end
fi

many_times() {
	local i
	for i in $(seq 30); do
		create && remove || return 1
	done
}
ok "create and remove, 30 times" many_times

# Table lines with every combination of options load again unchanged.
round_trip() {
	local first second
	dmsetup create $X --noudevsync --table "$TABLE $1" || return 1
	first=$(dmsetup table $X)
	dmsetup table $X | dmsetup load $X && dmsetup resume --noudevsync $X &&
		second=$(dmsetup table $X)
	remove
	echo "first:  $first"
	echo "second: $second"
	[ -n "$second" ] && [ "$first" = "$second" ] || return 1
	case "$1" in *inplace*) [[ $second == *inplace* ]] || return 1 ;; esac
	case "$1" in
	*" 2 "*) [[ $second == *" ${1##* 2 }"* ]] || return 1 ;;
	esac
}
ok "table round trip, no options" round_trip ""
if [ "$TARGET" != linear ]; then
	ok "table round trip, counts of zero" round_trip "0 0"
	for feature in "0" ${FEATURES:+"$(wc -w <<< "$FEATURES") $FEATURES"}; do
		ok "table round trip, '$feature'" round_trip "$feature"
		for ms in 0 1 7 600000; do
			ok "table round trip, '$feature 2 commit_ms $ms'" \
				round_trip "$feature 2 commit_ms $ms"
		done
	done
	for pair in $KEYS; do
		ok "table round trip, '0 2 ${pair%=*} ${pair#*=}'" \
			round_trip "0 2 ${pair%=*} ${pair#*=}"
	done
fi

create || exit 1
N=$(node)

status_words() { # every word as documented
	local words
	words=$(dmsetup status $X)
	echo "$words"
	[[ $words =~ ^0\ $SECTORS\ $TARGET\ [0-9]+/[0-9]+\ [0-9]+/[0-9]+\ [0-9]+\ (idle|cleaning)\ (needs_check|-)\ (rw|ro|fail)$ ]]
}
alive() { [ "$(dmsetup status $X | awk '{print $NF}')" = rw ]; }
write_some() { dd if=/dev/urandom of="$N" bs=4k count="$1" oflag=direct conv=fsync; }

if [ "$TARGET" != linear ]; then
	ok "status has the documented words" status_words
	ok "state is rw" alive
	ok "ima measurement does not crash" dmsetup table --inactive $X
	stats() { message stats | grep -Eq '^host_writes [0-9]+$'; }
	counted() { write_some 8 && [ "$(message stats | awk '$1 == "host_write_blocks" {print $2}')" = 8 ]; }
	cleared() { message stats_clear && [ "$(message stats | awk '$1 == "host_write_blocks" {print $2}')" = 0 ]; }
	ok "message stats" stats
	ok "stats_clear" cleared
	ok "stats count" counted
	cleaned() { message clean && [[ $(field 1) == 0/* ]]; }
	ok "message clean empties the cache" cleaned
	ok "message verify" message verify
	ok "message commit" message commit
	ok "message checkpoint" message checkpoint
	ok "message commit_ms" message commit_ms 20
	commit_ms_shown() { dmsetup table $X | grep -q 'commit_ms 20'; }
	ok "commit_ms shows in the table" commit_ms_shown
	kept() { [ "$(message settings)" = "$1" ]; }
	once_more() { # what is read back from the disk
		remove && create
	}
	suspended_keep() {
		dmsetup suspend --noudevsync $X || return 1
		message keep soon
		local r=$?
		dmsetup resume --noudevsync $X
		return $r
	}
	too_long() { # shellcheck disable=SC2046
		message keep $(printf 'commit_ms=%d ' $(seq 1000 1014))
	}
	ok "message settings: none" kept ""
	ok "message keep" message keep inplace commit_ms=7
	ok "settings are those" kept "inplace commit_ms=7"
	ok "they are there in the next life" once_more
	N=$(node)
	ok "and the same" kept "inplace commit_ms=7"
	refused "keep while suspended" suspended_keep
	refused "keep of more than there is room for" too_long
	ok "what was refused has changed nothing" kept "inplace commit_ms=7"
	ok "a table loaded over them has them" eval 'dmsetup table $X | dmsetup load $X &&
		message keep idle_ms=9 && dmsetup resume --noudevsync $X && kept "idle_ms=9"'
	ok "message keep, none" message keep
	ok "settings: none again" kept ""
	refused "message commit_ms with nonsense" message commit_ms soon
	refused "an unknown message" message frobnicate
	refused "a message with too many words" message clean now please
fi

# Under load.
LOAD="--direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --bsrange=4k-64k
	--verify=crc32c --verify_fatal=1 --verify_backlog=16 --loops=4
	--serialize_overlap=1 --verify_state_save=0 --clocksource=clock_gettime"
under_load() { # under_load COMMAND: as often as it can while fio verifies, but not only once
	local pid i n=0
	for i in $(seq 50); do
		# shellcheck disable=SC2086
		(cd "$KTAP_DIR" && exec fio --name=load --filename="$N" $LOAD) >"$KTAP_DIR/fio" 2>&1 &
		pid=$!
		while kill -0 $pid 2>/dev/null; do
			"$@" || { kill $pid; wait $pid; return 1; }
			n=$((n + 1))
		done
		wait $pid || { cat "$KTAP_DIR/fio"; return 1; }
		[ $n -le 1 ] || break
	done
	echo "$n times, $i runs of fio"
	[ $n -gt 1 ] && ! dmsetup info $X | grep -q SUSPENDED
}
suspend_resume() { dmsetup suspend --noudevsync $X && dmsetup resume --noudevsync $X; }
noflush() { dmsetup suspend --noflush --noudevsync $X && dmsetup resume --noudevsync $X; }
reload() { dmsetup table $X | dmsetup load $X && dmsetup resume --noudevsync $X; }
look() { dmsetup status $X && dmsetup table $X; }
talk() { message stats && message verify && message checkpoint; }
ok "suspend and resume under load" under_load suspend_resume
ok "suspend without flush under load" under_load noflush
ok "reload under load" under_load reload
ok "status and table under load" under_load look
if [ "$TARGET" != linear ]; then
	ok "messages under load" under_load talk
	ok "clean under load" under_load message clean
	ok "still sound" message verify
	ok "still rw" alive
fi

held() { # an open device cannot be removed
	local r
	exec 9<"$N"
	remove
	r=$?
	exec 9<&-
	return $r
}
refused "remove while open" held
suspended_io_waits() {
	dmsetup suspend --noudevsync $X || return 1
	dd if="$N" of=/dev/null bs=4k count=1 iflag=direct &
	dmsetup resume --noudevsync $X && wait $!
}
ok "I/O waits for resume" suspended_io_waits
if [ "$TARGET" != linear ]; then
	longer() { echo "${TABLE/ $SECTORS / $((SECTORS + 8)) }" | dmsetup load $X; }
	refused "resize" longer
	ok "a refused table leaves the old one" alive
	ok "clear" dmsetup clear $X
fi
suspended_removal() { dmsetup suspend --noudevsync $X && remove; }
ok "remove while suspended" suspended_removal

if [ "$TARGET" != linear ]; then
	create
	second() { dmsetup create ${X}2 --noudevsync --table "$TABLE"; }
	refused "a second target on the same devices" second
	dmsetup remove --retry --noudevsync ${X}2 2>/dev/null
	ok "the first one is unharmed" alive
	MODULE=dm-stl
	case $TARGET in
	imr | tiler | dualbuffer | rmwf) MODULE=dm-$TARGET ;;
	esac
	in_use() { rmmod $MODULE; }
	refused "unloading a module in use" in_use
	remove

	TARGETS="dm-stl dm-imr dm-tiler dm-dualbuffer dm-rmwf"
	MODULES=$(awk '$1 ~ /^dm_(stl|imr|tiler|dualbuffer|rmwf|shingle)$/ {print $1}' /proc/modules)
	if [ -n "$SHINGLE_MODDIR" ] && [ -n "$MODULES" ]; then
		# Targets of tests depend on these modules.
		awk '$1 ~ /^shingle_/ {print $1}' /proc/modules | xargs -r rmmod
		cycle() {
			local i module
			for i in 1 2 3; do
				rmmod $TARGETS dm-shingle || return 1
				insmod "$SHINGLE_MODDIR/core/dm-shingle.ko" || return 1
				for module in $TARGETS; do
					insmod "$SHINGLE_MODDIR"/*/$module.ko || return 1
				done
			done
		}
		ok "unload and load the modules" cycle
		ok "create again" create
		ok "remove again" remove
	else
		skip "unload and load the modules" "they are not modules here"
	fi
fi
ktap_end
