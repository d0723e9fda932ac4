#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A preset, small enough for RAM: created, filled until it cleans, closed, checked, opened again.
# PRESET (default emulated-smr-1) is the preset.
PRESET=${PRESET:-emulated-smr-1}
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/kselftest/ktap.sh
. "$HERE/ktap.sh"
X=preset
SCALE=120000 BAND=48K DATA=/dev/ram0
# Regions of tracks need a medium with tracks, under a head that destroys.  Those of the thesis keep
# their number of rows, on tracks of two blocks.
case $PRESET in
ma-tiler) TRACK=16 SCALE=59 BAND="" ;;
tiler-track) TRACK=128 SCALE=60000 BAND=1M ;;
ma-rmwf) TRACK=32 SCALE=440000 ;;
hajkazemi-*) TRACK="" SCALE=240000 ;;
*) TRACK="" ;;
esac

stat_of() { dmsetup message $X 0 stats | awk -v k="$1" '$1 == k { print $2 }'; }
flash() {
	case $PRESET in
	emulated-smr-2 | ma-rmwf) echo "--cache /dev/ram1" ;;
	esac
}
create() {
	# shellcheck disable=SC2046
	shingle create --no-udev --preset "$PRESET" $(flash) "$@" $DATA $X &&
		dmsetup mknodes $X
}
shingled() {
	DATA=/dev/mapper/tracks
	dmsetup create --noudevsync tracks --table "0 73728 platter /dev/ram0 0 generic 0 12 \
		media smr head_tracks 3 surfaces 1 track_sectors $TRACK timing none \
		conventional 0+7168" && dmsetup mknodes tracks
}
remove() { dmsetup remove --retry --noudevsync $X; }
load() {	# load FIO'S OPTIONS
	fio --name=preset --filename=/dev/mapper/$X --direct=1 --rw=randwrite --bs=4k \
		--ioengine=libaio --iodepth=16 --randseed=3 --verify=crc32c \
		--verify_fatal=1 --clocksource=clock_gettime "$@"
}

# The third preset cleans when the host is idle, the others only when they must.
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
[ -z "$TRACK" ] || ok "tracks" shingled

refused "it does not fit without --scale, and says so" create
ok "what was refused has changed nothing" cmp -n 37748736 /dev/ram0 /dev/zero
# shellcheck disable=SC2086
ok "create" create --scale $SCALE ${BAND:+--band $BAND}
made=$(dmsetup table $X)
ok "the label is the preset's" eval \
	'shingle dump $(flash) $DATA | grep -q "$PRESET, 1/$SCALE"'
if [ -n "$TRACK" ]; then
	ok "write it all at random" load --randrepeat=0 --randseed=5 --do_verify=0
	CLEANED=tiler_cleans HABIT=tiler
else
	CLEANED=bands_cleaned HABIT="read_home always"
fi
case $PRESET in
ma-dualbuffer) HABIT=dualbuffer ;;
ma-rmwf) CLEANED=collections HABIT=rmwf ;;
hajkazemi-*) CLEANED="" HABIT="clean off" ;;
esac
ok "write it all at random, and find it all" load
if [ -n "$CLEANED" ]; then
	ok "it had to clean" eval 'stat_of $CLEANED; [ "$(stat_of $CLEANED)" -gt 0 ]'
else
	ok "it has not cleaned" eval '[ "$(stat_of bands_cleaned)" = 0 ]'
	ok "all blocks are in the log" eval \
		'[ $((8 * $(stat_of placed_blocks))) = "$(blockdev --getsz /dev/mapper/$X)" ]'
fi
[ "$PRESET" != ma-dualbuffer ] || ok "each round that has ended has a line" eval \
	'[ "$(dmsetup message $X 0 rounds | grep -c "^round ")" -gt 1 ]'
[ -n "$TRACK" ] || [ -z "$CLEANED" ] || ok "it cleans in a pause, or does not, as the drive did" habit
ok "no write has harmed another" eval '[ "$(stat_of r0_violations)" = 0 ]'
ok "its map is sound" dmsetup message $X 0 verify
ok "remove" remove
# shellcheck disable=SC2046
ok "check" shingle check $(flash) $DATA
# shellcheck disable=SC2046
ok "open" shingle open --no-udev $(flash) --preset "$PRESET" $DATA $X
dmsetup mknodes $X
ok "its habits are those that it was made with" eval \
	'[ "$(dmsetup table $X)" = "$made" ] && [[ $made == *"$HABIT"* ]]'
ok "everything is still there" load --verify_only
ok "remove again" remove
# shellcheck disable=SC2046
ok "open, without its name" shingle open --no-udev $(flash) $DATA $X
dmsetup mknodes $X
ok "it keeps its habits" eval '[ "$(dmsetup table $X)" = "$made" ]'
kept() { [ "$(dmsetup message $X 0 settings)" = "$1" ]; }
before=$(dmsetup message $X 0 settings)
# shellcheck disable=SC2086
ok "set" shingle set $X commit_ms=77
ok "it counts at once" eval '[[ $(dmsetup table $X) == *"commit_ms 77"* ]]'
ok "set, for this time" shingle set $X commit_ms=78 --volatile
ok "it counts at once, too" eval '[[ $(dmsetup table $X) == *"commit_ms 78"* ]]'
ok "and remove" remove
# shellcheck disable=SC2046
ok "what was set has left it sound" shingle check $(flash) $DATA
# shellcheck disable=SC2046
ok "open once more" shingle open --no-udev $(flash) $DATA $X
dmsetup mknodes $X
ok "what was kept is there, and no more" eval '[[ $(dmsetup table $X) == *"commit_ms 77"* ]]'
ok "set to what it was" shingle set $X --default commit_ms
ok "it is" kept "$before"
ok "remove for good" remove
ktap_end
