#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A preset, small enough for RAM: made, filled until it cleans, closed, checked,
# opened again.  PRESET (default emulated-smr-1) says which.
PRESET=${PRESET:-emulated-smr-1}
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/kselftest/ktap.sh
. "$HERE/ktap.sh"
X=preset
SCALE=120000 BAND=48K

stat_of() { dmsetup message $X 0 stats | awk -v k="$1" '$1 == k { print $2 }'; }
flash() { [ "$PRESET" != emulated-smr-2 ] || echo "--cache /dev/ram1"; }
create() {
	# shellcheck disable=SC2046
	shingle create --no-udev --preset "$PRESET" $(flash) "$@" /dev/ram0 $X &&
		dmsetup mknodes $X
}
remove() { dmsetup remove --noudevsync $X; }
load() {	# load FIO'S OPTIONS
	fio --name=preset --filename=/dev/mapper/$X --direct=1 --rw=randwrite --bs=4k \
		--ioengine=libaio --iodepth=16 --randseed=3 --verify=crc32c \
		--verify_fatal=1 --clocksource=clock_gettime "$@"
}

# The third cleans when the host is quiet, the others only when they must.
habit() {
	local i cached
	for i in $(seq 120); do
		sleep 1
		cached=$(stat_of cached_blocks)
		echo "after $i s: $cached blocks away from home"
		[ "$PRESET" = emulated-smr-3 ] || [ "$i" -lt 3 ] || [ "$cached" = 0 ] || return 0
		[ "$PRESET" != emulated-smr-3 ] || [ "$cached" != 0 ] || return 0
		[ "$PRESET" = emulated-smr-3 ] || [ "$cached" != 0 ] || return 1
	done
	return 1
}

ktap_begin
ktap_cleanup
modprobe brd rd_nr=2 rd_size=36864

refused "it does not fit without --scale, and says so" create
ok "what was refused has changed nothing" cmp -n 37748736 /dev/ram0 /dev/zero
ok "create" create --scale $SCALE --band $BAND
made=$(dmsetup table $X)
ok "the label is the preset's" eval \
	'shingle dump $(flash) /dev/ram0 | grep -q "$PRESET, 1/$SCALE"'
ok "write it all at random, and find it all" load
ok "it had to clean" eval 'stat_of bands_cleaned; [ "$(stat_of bands_cleaned)" -gt 0 ]'
ok "it cleans in a pause, or does not, as the drive did" habit
ok "no write has harmed another" eval '[ "$(stat_of r0_violations)" = 0 ]'
ok "its map is sound" dmsetup message $X 0 verify
ok "remove" remove
# shellcheck disable=SC2046
ok "check" shingle check $(flash) /dev/ram0
# shellcheck disable=SC2046
ok "open" shingle open --no-udev $(flash) --preset "$PRESET" /dev/ram0 $X
dmsetup mknodes $X
ok "its habits are those that it was made with" eval \
	'[ "$(dmsetup table $X)" = "$made" ] && [[ $made == *"read_home always"* ]]'
ok "everything is still there" load --verify_only
ok "remove again" remove
ktap_end
