#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Devices that shingletab opens and closes, with the settings that they keep.  As at boot, but
# without systemd and udev.
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/kselftest/ktap.sh
. "$HERE/ktap.sh"

ktap_begin
ktap_cleanup
modprobe brd rd_nr=3 rd_size=36864
export SHINGLETAB=$KTAP_DIR/shingletab
ONE=/dev/ram0 TWO=/dev/ram1 META=/dev/ram2

tab() { printf '%s\n' "$@" >"$SHINGLETAB"; }
there() { # exactly these
	local now
	now=$(dmsetup ls | awk '$1 != "No" { print $1 }' | sort | xargs)
	echo "there is: $now"
	[ "$now" = "$*" ]
}
open() { shingle open --tab --no-udev "$@" && dmsetup mknodes; }
remove() { shingle remove --tab --no-udev "$@"; }
first() { dd if=/dev/mapper/one bs=4k count=64 iflag=direct 2>/dev/null | md5sum; }

ok "create one, with settings" shingle create stl-set --no-udev --band 256K \
	--feature inplace --set commit_ms=77 $ONE one
ok "create two, with its metadata apart" shingle create stl-full --no-udev --band 256K \
	--meta $META $TWO two
dmsetup mknodes
made=$(dmsetup table one)
ok "write to one" dd if=/dev/urandom of=/dev/mapper/one bs=4k count=64 oflag=direct conv=fsync
sum=$(first)
tab "# both" "one $ONE" "" "two $TWO meta=$META"
ok "remove all of the tab" remove --all
ok "they are gone" there
ok "remove all, once more" remove --all

ok "open all of the tab" open --all
ok "they are there" there one two
ok "with the settings that were kept" eval '[ "$(dmsetup table one)" = "$made" ]'
ok "and what was written" eval '[ "$(first)" = "$sum" ]'
ok "open all, once more" open --all
ok "open one that is open" open one
ok "it is left as it is" eval '[ "$(dmsetup table one)" = "$made" ]'

held() {
	local r
	exec 9</dev/mapper/one
	remove --all
	r=$?
	exec 9<&-
	return $r
}
refused "remove what is in use" held
ok "the other one is closed all the same" there one
tab "one $ONE set=commit_ms=5" "two $TWO meta=$META,noauto"
ok "remove by name" remove one two
ok "open all, but for noauto" open --all
ok "it is left alone" there one
ok "what the line says counts for this time" eval \
	'[[ $(dmsetup table one) == *"commit_ms 5"* && $(dmsetup message one 0 settings) == *commit_ms=77* ]]'
ok "it is opened by its name" open two
ok "remove them" remove two one
tab "one $ONE" "bad ram1" "two $TWO"
refused "open all of a tab with a bad line" open --all
ok "nothing was opened" there
refused "open a line that is bad" open bad
refused "open a device without its metadata" open two
ok "open one beside them" open one
ok "set for good, by its name" shingle set one commit_ms=78 --no-feature inplace
ok "close it" remove one
ok "open it" open one
ok "that is what it has now" eval \
	'[[ $(dmsetup table one) == *"commit_ms 78"* && $(dmsetup table one) != *inplace* ]]'
ok "close it for good" remove one
ok "check" shingle check $ONE
ktap_end
