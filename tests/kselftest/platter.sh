#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kselftest of dm-platter.  Run as root in a guest of the lab, modules loaded:
#   scripts/lab/run --kernel uml --clock virtual -- tests/kselftest/platter.sh
# On a real clock the exact timings are skipped.

KSFT_SKIP=4
T=plt$$			# device names begin with this
TMP=$(mktemp -d)
nr=0 failed=0 skipped=0

result() {	# result STATUS NAME
	nr=$((nr + 1))
	if [ "$1" = 0 ]; then
		echo "ok $nr $2"
	else
		failed=$((failed + 1))
		echo "not ok $nr $2"
	fi
}
skip() {
	nr=$((nr + 1)); skipped=$((skipped + 1))
	echo "ok $nr $1 # SKIP $2"
}
note() { echo "# $*"; }
die() { echo "Bail out! $*"; exit 1; }

dms() { dmsetup "$@" 2> "$TMP/err"; }
msg() { local n=$1; shift; dms message "$T-$n" 0 "$@"; }
stat_of() {	# a process less than with awk: they take long where a processor is emulated
	local all
	all=$(msg "$1" stats)
	[[ $'\n'$all =~ $'\n'"$2 "([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}
until_stat() {	# until_stat NAME COUNTER N: as long as that takes
	local i
	for i in $(seq 6000); do
		[ "$(stat_of "$1" "$2")" -ge "$3" ] && return
		sleep 0.01
	done
	return 1
}
node() {
	[ -b "/dev/mapper/$T-$1" ] || dmsetup mknodes "$T-$1" > /dev/null 2>&1
	echo "/dev/mapper/$T-$1"
}
create() {	# create NAME SECTORS LINE...
	local n=$1 s=$2; shift 2
	dms create "$T-$n" --noudevsync --table "0 $s platter $*"
}
remove() { dms remove --noudevsync --retry "$T-$1"; }
cleanup() {
	local n
	for n in $(dmsetup ls 2> /dev/null | awk -v t="$T" 'index($1, t) == 1 { print $1 }' | sort -r); do
		dmsetup remove --retry --noudevsync -f "$n" > /dev/null 2>&1
	done
	[ -n "$LOOP" ] && losetup -d "$LOOP"
	[ -n "$LOOP2" ] && losetup -d "$LOOP2"
	rm -rf "$TMP"
}
trap cleanup EXIT

# wblk DEV BLOCK COUNT BYTE ; rblk DEV BLOCK COUNT > data
filled() { [ -e "$TMP/all-$1" ] || head -c 1M /dev/zero | tr '\0' "$1" > "$TMP/all-$1"; }
wblk() {
	filled "$4"
	dd if="$TMP/all-$4" of="$1" bs=4096 seek="$2" count="$3" oflag=direct conv=notrunc \
		status=none 2> "$TMP/dd"
}
rblk() { dd if="$1" bs=4096 skip="$2" count="$3" iflag=direct status=none 2> "$TMP/dd"; }
holds() {	# holds DEV BLOCK COUNT BYTE
	filled "$4"
	rblk "$1" "$2" "$3" > "$TMP/out" && cmp -s -n $(($3 * 4096)) "$TMP/out" "$TMP/all-$4"
}
# Median total_us of the last operations of one kind in the head log.
log_us() { msg "$1" headlog | awk -v o="$2" '$2 == o { print $9 }' | sort -n |
	awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] + 0 }'; }

[ "$(id -u)" = 0 ] || { echo "1..0 # SKIP must be root"; exit $KSFT_SKIP; }
dmsetup targets 2> /dev/null | grep -q '^platter' || {
	echo "1..0 # SKIP target platter is not loaded"; exit $KSFT_SKIP; }

# Find out whether idle time costs real time.
s0=$(date +%s%N); read -r u0 _ < /proc/uptime
VIRTUAL=0
grep -q time-travel=inf-cpu /proc/cmdline && VIRTUAL=1
: "$s0" "$u0"

modprobe -q loop 2> /dev/null
truncate -s 16M "$TMP/disk"; truncate -s 64K "$TMP/state"
LOOP=$(losetup -f --show "$TMP/disk" 2> /dev/null)
LOOP2=$(losetup -f --show "$TMP/state" 2> /dev/null)
[ -b "$LOOP" ] && [ -b "$LOOP2" ] || die "no loop devices"

echo "TAP version 13"

### table lines
for line in \
	"none 0 st8000as0002" \
	"none 0 st8000as0002 0" \
	"none 0 st8000as0002 0 0" \
	"none 0 st5000as0011 1 discard 4 media smr head_tracks 1.5" \
	"$LOOP 8 generic 0 10 media imr track_sectors 128 damage count queue sptf queue_depth 4" \
	"$LOOP 0 generic 0 8 media smr damage shadow wcache on lookahead on" \
	"none 0 generic 0 12 zones 100x256,50x128 seek 1:800,10:2000,50:9000 conventional 0+2048,8192+256 media smr time_scale 100 headlog 64" \
	"none 0 generic 0 26 rpm 7200 surfaces 2 swath_tracks 8 seek_min_us 1 seek_avg_us 2 seek_max_us 3 head_switch_us 4 write_settle_us 5 overhead_us 6 bus_mb_s 600 wcache_kib 64 lookahead_kib 64 track_skew 16" \
	"none 0 kvimr 0 4 timing none rotational off" \
	"none 0 st500dm002 0 2 flush_us 8333" \
	"none 0 st500dm002 0 4 flush_us 0 wcache on"; do
	create rt 16384 "$line" || note "$line: $(cat "$TMP/err")"
	a=$(dms table "$T-rt"); a2=$(dmsetup table "$T-rt" | dms load "$T-rt"; echo $?)
	dms resume --noudevsync "$T-rt"; b=$(dms table "$T-rt")
	[ -n "$a" ] && [ "$a2" = 0 ] && [ "$a" = "$b" ]
	result $? "table round trip: ${line//$LOOP/LOOP}"
	remove rt
done

bad=0
while IFS= read -r line; do
	[ -n "$line" ] || continue
	if create bad 16384 "$line"; then
		note "accepted: $line"; bad=1; remove bad
	fi
done << LINES

none
none 0
none 8 generic
none x generic
/dev/does-not-exist 0 generic
$LOOP 99999999 generic
$LOOP 4 generic
$LOOP 32768 generic
none 0 nosuchdrive
none 0 generic 2 discard discard
none 0 generic 1 frobnicate
none 0 generic 0 1 media
none 0 generic 0 3 media smr damage
none 0 generic 0 2 media
none 0 generic 0 2 media tape
none 0 generic 0 2 media smr extra
none 0 generic 0 2 damage maybe
none 0 generic 0 2 damage shadow media smr
none 0 generic 0 4 damage shadow media smr
none 0 generic 0 2 rpm 59
none 0 generic 0 2 rpm -1
none 0 generic 0 2 rpm 99999999999999999999
none 0 generic 0 2 queue_depth 0
none 0 generic 0 2 queue_depth 33
none 0 generic 0 2 queue lifo
none 0 generic 0 2 rotational yes
none 0 generic 0 2 head_tracks 0
none 0 generic 0 2 head_tracks 0.9
none 0 generic 0 2 head_tracks 1.
none 0 generic 0 2 head_tracks 65
none 0 generic 0 2 head_tracks 2x
none 0 generic 0 2 head_tracks 1.5001
none 0 generic 0 2 track_sectors 0
none 0 generic 0 2 track_sectors 12
none 0 generic 0 2 track_sectors 524296
none 0 generic 0 2 zones x
none 0 generic 0 2 zones 10
none 0 generic 0 2 zones 10x
none 0 generic 0 2 zones 0x8
none 0 generic 0 2 zones 10x9
none 0 generic 0 2 zones 10x8,
none 0 generic 0 4 zones 1x8,1x524288 track_sectors 524288
none 0 generic 0 6 zones 1x8,1x65536 track_sectors 524288 track_skew 8
none 0 generic 0 2 seek 0:5
none 0 generic 0 2 seek 5:5,4:6
none 0 generic 0 2 seek 5
none 0 generic 0 2 seek 1:99999999
none 0 generic 0 2 conventional 0
none 0 generic 0 2 conventional 0+0
none 0 generic 0 2 conventional 0+4
none 0 generic 0 2 conventional 99992+8
none 0 generic 0 2 time_scale 0
none 0 generic 0 2 time_scale 2001
none 0 generic 0 2 seek_min_us 9000
none 0 generic 0 2 flush_us 1000001
none 0 generic 0 2 flush_us -1
none 0 generic 0 2 flush_us
none 0 generic 0 2 headlog 65537
none 0 generic 0 2 wcache maybe
none 0 generic 0 2 timing lies
none 0 generic 0 2 state $LOOP2
none 0 generic 0 4 media smr state /dev/does-not-exist
$LOOP 0 generic 0 4 media smr state $LOOP
none 0 generic 0 2 nosuchkey 1
LINES
result $bad "bad table lines are refused"
create bad 16383 "none 0 generic"; [ $? != 0 ]
result $? "a length that is not a multiple of 8 sectors is refused"

# Repeated keys appear once in the table, which leaves room for those set by messages.
twice=
for i in $(seq 40); do twice="$twice rpm $((5400 + i))"; done
create rt 16384 "none 0 generic 0 80$twice" && msg rt wcache on && msg rt lookahead on
a=$(dms table "$T-rt"); dmsetup table "$T-rt" | dms load "$T-rt"; r=$?
dms resume --noudevsync "$T-rt"; b=$(dms table "$T-rt")
note "$(echo "$a" | wc -w) words"
[ $r = 0 ] && [ -n "$a" ] && [ "$a" = "$b" ] && [[ $a == *"rpm 5440"* ]]
result $? "table round trip: a key forty times, wcache and lookahead by message"
remove rt

### timing
D=
create t 262144 "none 0 st8000as0002 0 4 damage none headlog 64" && D=$(node t)
if [ $VIRTUAL = 1 ]; then
	dd if=/dev/zero of="$D" bs=4k count=32 oflag=direct conv=notrunc status=none
	us=$(log_us t w)
	msg t stats_clear
	# one rotation and one block, minus the 100 us of command overhead
	note "adjacent 4 KiB writes: $us us on the actuator"
	[ "$us" -ge 10085 ] && [ "$us" -le 10091 ]
	result $? "adjacent writes at queue depth 1 cost a rotation each"
	late=$(stat_of t late); [ "$late" = 0 ]
	result $? "never late on the virtual clock"
	msg t headlog clear
	dd if="$D" of=/dev/null bs=1M count=8 iflag=direct status=none
	msg t headlog > "$TMP/log"; note "$(tail -1 "$TMP/log")"
	us=$(log_us t r)
	# 256 of 496 blocks of a track, plus the rest of a rotation
	[ "$us" -ge 5200 ] && [ "$us" -le 26000 ]
	result $? "sequential reads run at media rate plus a wait"
	msg t headlog clear
	rblk "$D" 0 1 > /dev/null; rblk "$D" 32000 1 > /dev/null
	seek=$(msg t headlog | tail -1 | awk '{ print $7 }')
	note "full stroke: $seek us"
	[ "$seek" -ge 14000 ] && [ "$seek" -le 16000 ]
	result $? "the full stroke of a short drive takes the profile's time"
else
	skip "adjacent writes at queue depth 1 cost a rotation each" "real clock"
	skip "never late on the virtual clock" "real clock"
	skip "sequential reads run at media rate plus a wait" "real clock"
	skip "the full stroke of a short drive takes the profile's time" "real clock"
fi
msg t lookahead on
dd if="$D" of=/dev/null bs=64k count=64 iflag=direct status=none
[ "$(stat_of t lookahead_hits)" -ge 60 ]
result $? "look-ahead serves a sequential stream"
msg t geometry | awk '
	$1 == "blocks" { blocks = $2 }
	$1 == "run" { if ($2 != next_blk) bad = 1; next_blk = $2 + $3 * $4 }
	END { exit bad || next_blk < blocks || blocks != 32768 }'
result $? "geometry lists runs without gap to the end"
remove t

### cost of a FLUSH: the command's 100 us, the writes it waits for, and flush_us
fsync() { dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none 2> "$TMP/dd"; }
sync_block() { dd if=/dev/zero of="$D" bs=4096 count=1 oflag=direct,dsync conv=notrunc status=none; }
took() {	# took COMMAND...: sets us
	local from
	from=$(date +%s%N)
	"$@"
	us=$((($(date +%s%N) - from) / 1000))
}
cost() {	# cost US: the last command did, beside what running one takes; what the head did is counted
	local head
	head=$(($(stat_of f seek_us) + $(stat_of f rotation_us) + $(stat_of f transfer_us)))
	note "took $us us: $head of the head, $process to run, $(stat_of f flushing_us) in $(stat_of f flushes) FLUSH, $(stat_of f fua_writes) FUA"
	[ $((us - head - process - $1)) -ge -10 ] && [ $((us - head - process - $1)) -le 10 ]
}
paid() { [ "$(stat_of f flushing_us)" = "$1" ]; }
drive() { create f 65536 "none 0 generic 0 $1 damage none wcache_idle_ms 600000 $2" && D=$(node f); }
if [ $VIRTUAL = 1 ]; then
	drive 8 "timing none flush_us 20000"; took fsync; process=$us
	paid 0 && [ "$(stat_of f flushes)" = 1 ] && [ "$process" -lt 100 ]
	result $? "flush: none at timing none"
	remove f
	drive 4; took fsync; cost 100 && paid 0
	result $? "flush: without flush_us it is a command and no more"
	remove f
	drive 6 "flush_us 20000"; took fsync; cost 20100 && paid 20000
	result $? "flush: with the cache off it takes flush_us more"
	# dd sends a FLUSH after its FUA write.
	msg f stats_clear; took sync_block; n=$(stat_of f flushes)
	cost $((n * 20100 + 100)) && paid $((n * 20000)) && [ "$(stat_of f fua_writes)" = 1 ]
	result $? "flush: with the cache off FUA costs none"
	msg f wcache on; wblk "$D" 16 4 x; msg f stats_clear; took fsync
	cost 20100 && paid 20000 && [ "$(stat_of f media_blocks_written)" = 4 ]
	result $? "flush: with the cache on it comes when that is written"
	msg f stats_clear; took sync_block; n=$(stat_of f flushes)
	cost $(((n + 1) * 20100)) && paid $(((n + 1) * 20000)) && [ "$(stat_of f fua_writes)" = 1 ]
	result $? "flush: with the cache on FUA costs one, when its data are written"
	wblk "$D" 16 4 x; msg f stats_clear; msg f wcache off
	paid 0 && [ "$(stat_of f media_blocks_written)" = 4 ]
	result $? "flush: a cache that is switched off costs none"
	msg f wcache on; wblk "$D" 16 4 x; fsync & flush=$!
	sleep 0.015; took rblk "$D" 16 1 > /dev/null; wait $flush
	# The head reaches its block after a rotation of 8.3 ms at most, then come 20.1 ms.
	note "a hit 15 ms behind it: $us us"
	[ "$us" -ge 5000 ] && [ "$us" -le 20000 ]
	result $? "flush: what comes behind it waits, reads from the cache as well"
	[ "$(stat_of f late)" = 0 ]
	result $? "flush: and nobody is late"
	remove f
	drive 8 "flush_us 20000 time_scale 100"; took fsync; cost 2010 && paid 2000
	result $? "flush: time_scale holds for it"
	remove f
else
	drive 8 "flush_us 20000 wcache on"; fsync; sync_block
	note "$(stat_of f flushes) FLUSH, $(stat_of f fua_writes) FUA, $(stat_of f flushing_us) us"
	[ "$(stat_of f fua_writes)" = 1 ] && [ "$(stat_of f flushes)" -ge 1 ] &&
		paid $((($(stat_of f flushes) + 1) * 20000))
	result $? "flush: FLUSH and FUA are charged"
	remove f
	skip "flush: takes as long as it costs" "real clock"
fi

### rotational by default and by option; it cannot be polled
for keys in "0" "2 rotational on" "2 rotational off"; do
	for dev in none "$LOOP"; do
		create q 8192 "$dev 0 generic 0 $keys"
		q=/sys/dev/block/$(dms info -c --noheadings --separator : -o major,minor "$T-q")/queue
		want=1; [ "${keys##* }" != off ] || want=0
		[ "$(cat "$q/rotational" "$q/io_poll")" = "$want"$'\n0' ]
		result $? "queue: $keys over ${dev//$LOOP/LOOP}"
		remove q
	done
done

### overlap: tiny8 has 8 tracks of 8 blocks, skew 2 blocks
for fast in model none; do
	create o 512 "$LOOP 0 tiny8 0 4 timing $fast time_scale 10" && D=$(node o)
	wblk "$D" 0 64 x
	[ "$(stat_of o damaged_blocks)" = 0 ] && holds "$D" 0 64 x
	result $? "timing $fast: a sequential fill leaves nothing ruined"
	skew=$(msg o geometry | awk '$1 == "zone" { print $8 / 8 }')
	wblk "$D" 8 1 y		# track 1, block 0, under it track 2
	want=$((16 + (8 - skew) % 8))
	got=$(msg o damaged 0 64 | tr '\n' ';')
	note "skew $skew blocks, ruined: $got"
	[ "$got" = "$want 1;" ]
	result $? "timing $fast: one write ruins the block at its angle on the next track"
	! rblk "$D" "$want" 1 > /dev/null && rblk "$D" $((want - 1)) 1 > /dev/null &&
		[ "$(stat_of o destroyed_reads)" = 1 ]
	result $? "timing $fast: reading a ruined block is a medium error, its neighbour is not"
	wblk "$D" "$want" 1 z && holds "$D" "$want" 1 z
	result $? "timing $fast: rewriting heals"
	remove o
done

create o 512 "$LOOP 0 tiny8 0 8 media imr timing none damage poison head_tracks 1" && D=$(node o)
wblk "$D" 0 64 x
n=$(stat_of o damaged_blocks)
wblk "$D" 8 8 x; wblk "$D" 24 8 x; wblk "$D" 40 8 x; wblk "$D" 56 8 x
[ "$n" -gt 0 ] && [ "$(stat_of o damaged_blocks)" = 0 ]
result $? "imr: tops written last leave nothing ruined"
wblk "$D" 16 8 y	# bottom track 2
[ "$(msg o damaged 0 64 | tr '\n' ';')" = "8 8;24 8;" ]
result $? "imr: a bottom write ruins both tops beside it"
remove o

create o 512 "$LOOP 0 tiny8 0 4 damage shadow timing none" && D=$(node o)
wblk "$D" 0 64 x; wblk "$D" 8 8 y
holds "$D" 16 8 y && holds "$D" 24 8 x && [ "$(stat_of o damaged_blocks)" = 8 ]
result $? "shadow: covered cells hold the head's own pattern"
remove o

create o 512 "$LOOP 0 tiny8 0 4 damage count timing none" && D=$(node o)
wblk "$D" 0 64 x; wblk "$D" 8 8 y
holds "$D" 16 8 x && [ "$(stat_of o destroyed_reads)" -ge 8 ]
result $? "count: reads succeed and are counted"
remove o

create o 512 "$LOOP 0 tiny8 0 6 conventional 128+64 timing none head_tracks 3" && D=$(node o)
wblk "$D" 0 64 x; wblk "$D" 8 8 y; wblk "$D" 16 8 y
[ "$(stat_of o damaged_blocks)" = 0 ]
result $? "conventional tracks are neither ruined nor ruin"
wblk "$D" 24 8 y
[ "$(msg o damaged 0 64 | awk '{ n += $2 } END { print n + 0 }')" = 16 ]
result $? "beyond them a head of 3 tracks ruins two"
remove o

create o 512 "none 0 generic 0 4 media smr track_sectors 64"
msg o geometry | grep -qx 'window_tracks 1'
result $? "media smr brings a head that shingles"
remove o

sum() { dd if="$1" bs=4096 iflag=direct status=none | cksum; }

### the damage map survives
dd if=/dev/zero of="$LOOP2" bs=4096 count=16 status=none conv=fsync
create s 512 "$LOOP 0 tiny8 0 4 state $LOOP2 time_scale 10" && D=$(node s)
wblk "$D" 0 64 x; wblk "$D" 8 8 y; before=$(msg s damaged 0 64)
remove s
create s 512 "$LOOP 0 tiny8 0 4 state $LOOP2 time_scale 10" && D=$(node s)
after=$(msg s damaged 0 64)
[ -n "$before" ] && [ "$before" = "$after" ] && ! rblk "$D" 16 1 > /dev/null
result $? "the damage map survives on a state device"
wblk "$D" 8 24 x; wblk "$D" 32 32 x; healed=$(msg s damaged 0 64)
dmsetup table "$T-s" | dms load "$T-s"
wblk "$D" 24 8 y; before=$(msg s damaged 0 64)
dms suspend --noudevsync "$T-s"; dms resume --noudevsync "$T-s"
note "ruined before the load: $healed, before the reload: $before, after: $(msg s damaged 0 64)"
[ -n "$before" ] && [ "$healed" != "$before" ] && [ "$before" = "$(msg s damaged 0 64)" ] &&
	! rblk "$D" 32 1 > /dev/null
result $? "a reload knows what was ruined after its table was loaded"
remove s
dms create "$T-st" --noudevsync --table "0 8 linear $LOOP2 0
8 8 error"
S=$(node st)
dms create "$T-s" --noudevsync --notable
dms load "$T-s" --table "0 512 platter $LOOP 0 tiny8 0 4 state $S time_scale 10" &&
	! dms resume --noudevsync "$T-s"; resumed=$?
dms load "$T-st" --table "0 16 linear $LOOP2 0"; dms resume --noudevsync "$T-st"
dms load "$T-s" --table "0 512 platter $LOOP 0 tiny8 0 4 state $S time_scale 10" &&
	dms resume --noudevsync "$T-s" && [ "$resumed" = 0 ] &&
	[ "$before" = "$(msg s damaged 0 64)" ]
result $? "a damage map that cannot be read is no empty one"
remove s
remove st
! create s 512 "$LOOP 0 tiny8 0 6 state $LOOP2 time_scale 10 head_tracks 3"
result $? "a damage map of another geometry is refused"
dd if="$LOOP2" of="$TMP/map" bs=4096 count=2 status=none
printf '\001' | dd of="$LOOP2" bs=1 seek=$((4096 + 16 + 7)) status=none conv=notrunc,fsync
was=$(sum "$LOOP2")
! create s 512 "$LOOP 0 tiny8 0 4 state $LOOP2 time_scale 10" && [ "$was" = "$(sum "$LOOP2")" ]
result $? "a damage map with a bit that has changed is refused and left as it is"
dd if="$TMP/map" of="$LOOP2" bs=4096 status=none conv=notrunc,fsync
create s 512 "$LOOP 0 tiny8 0 4 state $LOOP2 time_scale 10" && [ "$before" = "$(msg s damaged 0 64)" ]
result $? "a damage map that is as it was again is taken"
remove s
dd if=/dev/zero of="$LOOP2" bs=4096 count=16 status=none conv=fsync
create s 512 "$LOOP 0 tiny8 0 4 state $LOOP2 time_scale 10"; remove s
dd if="$TMP/map" of="$LOOP2" bs=4096 skip=1 seek=1 count=1 status=none conv=notrunc,fsync
was=$(sum "$LOOP2")
! create s 512 "$LOOP 0 tiny8 0 4 state $LOOP2 time_scale 10" && [ "$was" = "$(sum "$LOOP2")" ]
result $? "a block of another drive's damage map is refused, of the same layout or not"
printf junk | dd of="$LOOP2" bs=4 count=1 status=none conv=notrunc,fsync
! create s 512 "$LOOP 0 tiny8 0 4 state $LOOP2 time_scale 10"
result $? "a rotten damage map is refused"

### power cut
create c 512 "$LOOP 0 tiny8 0 4 damage count time_scale 10" && D=$(node c)
wblk "$D" 0 64 o
msg c powercut 3
! wblk "$D" 8 8 n && ! rblk "$D" 0 1 > /dev/null &&
	[ "$(dms status "$T-c" | awk '{ print $NF }')" = fail ]
result $? "powercut n: the write fails, then everything does"
msg c powercut off
holds "$D" 8 3 n && holds "$D" 11 5 o && [ "$(dms status "$T-c" | awk '{ print $NF }')" = rw ]
result $? "powercut n: torn exactly after the n-th block"
remove c

# Blocks that the device below refused as well are unchanged: destroyed.
printf '0 1024 linear %s 0\n1024 1024 error\n2048 4096 linear %s 2048\n' "$LOOP" "$LOOP" |
	dms create "$T-broken" --noudevsync
create c 6144 "$(node broken) 0 generic 0 8 media smr track_sectors 128 damage poison timing none" &&
	D=$(node c)
msg c poison 128 8; msg c powercut 4
! dd if=/dev/zero of="$D" bs=32768 seek=16 count=1 oflag=direct conv=notrunc status=none \
	2> "$TMP/dd"; r=$?
msg c powercut off
note "$(msg c damaged 128 8)"
[ $r = 0 ] && [ "$(msg c damaged 128 8)" = "128 8" ]
result $? "powercut n: what the device below did not take heals nothing"
remove c; remove broken

### volatile write cache
create w 512 "$LOOP 0 tiny8 0 8 media cmr wcache on wcache_kib 128 wcache_idle_ms 600000" && D=$(node w)
msg w wcache off; wblk "$D" 0 16 o; msg w wcache on
wblk "$D" 0 4 n; holds "$D" 0 4 n
result $? "wcache: read back from the cache"
msg w powercut 0; msg w powercut off
holds "$D" 0 4 o && [ "$(stat_of w wcache_lost_blocks)" = 4 ]
result $? "wcache: what was not flushed is lost at a power cut"
wblk "$D" 0 4 n; sync -d "$D" 2> /dev/null || blockdev --flushbufs "$D"
dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none
[ "$(stat_of w wcache_dirty_blocks)" = 0 ]
result $? "wcache: a flush empties it"
msg w powercut 0; msg w powercut off
holds "$D" 0 4 n
result $? "wcache: what was flushed survives"
filled f; dd if="$TMP/all-f" of="$D" bs=4096 seek=9 count=1 oflag=direct,dsync conv=notrunc status=none
msg w powercut 0; msg w powercut off
holds "$D" 9 1 f
result $? "wcache: a durable write survives"
wblk "$D" 24 8 o; dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none
wblk "$D" 24 8 n; msg w stats_clear; msg w powercut 4
! dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none 2> "$TMP/dd"; r=$?
until_stat w wcache_lost_blocks 4; msg w powercut off
note "$(stat_of w wcache_lost_blocks) of 8 blocks lost"
[ $r = 0 ] && [ "$(stat_of w wcache_lost_blocks)" = 4 ] && holds "$D" 24 4 n && holds "$D" 28 4 o
result $? "wcache: a power cut inside a destage loses what was not yet written, counted once"
dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none 2> "$TMP/dd"
result $? "wcache: a destage that the power cut tore fails no later flush"
# Powering on waits for a destage in flight.
if modprobe -q dm-delay 2> /dev/null && dms create "$T-slow" --noudevsync --notable; then
	for keys in "6 timing none" "4"; do
		# Writes are held there until the table is replaced; reads and flushes are not.
		dms load "$T-slow" --table "0 16384 delay $LOOP 0 0 $LOOP 0 3600000 $LOOP 0 0"
		dms resume --noudevsync "$T-slow"
		create s 16384 "$(node slow) 0 generic 0 $keys wcache on wcache_idle_ms 0" &&
			S=$(node s)
		wblk "$S" 8 1 d; until_stat s media_writes 1; r=$?
		msg s powercut 0; msg s wcache off; msg s powercut off
		dd if=/dev/zero of="$S" bs=4096 count=0 conv=notrunc,fsync status=none & flush=$!
		sleep 0.2; kill -0 $flush || r=1
		was=$(stat_of s wcache_destages)
		dms load "$T-slow" --table "0 16384 linear $LOOP 0"
		dms suspend --noflush --nolockfs --noudevsync "$T-slow"
		dms resume --noudevsync "$T-slow"; wait $flush || r=1
		note "destages ended: $was, after the flush $(stat_of s wcache_destages)"
		[ $r = 0 ] && [ "$was" = 0 ] && [ "$(stat_of s wcache_destages)" = 1 ]
		result $? "wcache: a flush after a power cut waits for a destage under way: $keys"
		remove s
	done
	remove slow
else
	skip "wcache: a flush after a power cut waits for a destage under way" "no dm-delay"
fi
wblk "$D" 20 4 s; remove w
create w 512 "$LOOP 0 tiny8 0 2 media cmr" && D=$(node w); holds "$D" 20 4 s
result $? "wcache: removal writes it back"
remove w

### on overlapping tracks the cache keeps the order of overlapping writes
flush() { dd if=/dev/zero of="$1" bs=4096 count=0 conv=notrunc,fsync status=none; }
durable() { filled "$3"; dd if="$TMP/all-$3" of="$1" bs=32768 seek=$(($2 / 8)) count=1 \
	oflag=direct,dsync conv=notrunc status=none; }
lasts() {	# lasts BLOCK BYTE BLOCK BYTE RUINED: what the medium holds in the end
	note "ruined: $(msg o damaged 0 64 | tr '\n' ';')"
	holds "$D" "$1" 8 "$2" && holds "$D" "$3" 8 "$4" && [ "$(msg o damaged 0 64)" = "$5" ]
}
keys="timing none wcache on wcache_kib 512 wcache_idle_ms"
create o 512 "$LOOP 0 tiny8 0 8 $keys 600000" && D=$(node o)
wblk "$D" 8 8 a; durable "$D" 16 b; flush "$D"
note "$(stat_of o fua_writes) durable writes"
[ "$(stat_of o fua_writes)" = 1 ] && lasts 8 a 16 b "24 8"
result $? "wcache on smr: a durable write outlives what was written before it"
remove o

create o 512 "$LOOP 0 tiny8 0 8 $keys 600000" && D=$(node o)
wblk "$D" 36 1 x; flush "$D"	# the sweep is in the middle of track 4
wblk "$D" 32 8 a; wblk "$D" 40 8 b; flush "$D"
lasts 32 a 40 b "48 8"
result $? "wcache on smr: a sweep begins again with what is below it"
remove o

create o 512 "$LOOP 0 tiny8 0 10 media imr $keys 600000" && D=$(node o)
wblk "$D" 16 8 a; wblk "$D" 8 8 b; wblk "$D" 24 8 c; flush "$D"
lasts 16 a 8 b "" && holds "$D" 24 8 c
result $? "wcache on imr: tops come after the bottoms beside them"
remove o

dms create "$T-u" --noudevsync --table "0 512 linear $LOOP 0"; U=$(node u)
# From here on nothing below ends.
stand() { dms suspend --noflush --nolockfs --noudevsync "$T-u"; }
create o 512 "$U 0 tiny8 0 8 $keys 0" && D=$(node o); stand
wblk "$D" 0 8 x; until_stat o media_writes 1; r=$?
wblk "$D" 0 8 a; wblk "$D" 8 8 b
dms resume --noudevsync "$T-u"; flush "$D"
[ $r = 0 ] && lasts 0 a 8 b "16 8"
result $? "wcache on smr: written again on its way, and then what it covers"
remove o

create o 512 "$U 0 tiny8 0 8 $keys 600000" && D=$(node o); stand
wblk "$D" 0 8 x; wblk "$D" 16 8 a
dmsetup message "$T-o" 0 wcache off 2> /dev/null & off=$!
until_stat o media_writes 1; r=$?
wblk "$D" 24 8 b & through=$!
until_stat o writes 3 || r=1
dms resume --noudevsync "$T-u"; wait $through && wait $off && [ $r = 0 ] && lasts 16 a 24 b "8 8
32 8"
result $? "wcache on smr: a write past a cache that is switched off waits for what would destroy it"
remove o

remove u

# Data ready in the drive go to the medium without missing a rotation: at first the head waits for a
# block, then never longer than the skew of tracks; runs of 1 MiB end inside a track.  Two rotations
# of 8333 us are more than begin and end cost.
create w 131072 "none 0 generic 0 4 track_sectors 3584 wcache on" && D=$(node w)
dd if=/dev/zero of="$D" bs=1M count=16 oflag=direct conv=notrunc,fsync status=none
got=$(stat_of w rotation_us)
note "$(stat_of w wcache_destages) destages, $got us of waiting for the platter"
if [ $VIRTUAL = 1 ]; then
	[ "$got" -le 16667 ]
	result $? "wcache: a stream is destaged without losing rotations"
else
	skip "wcache: a stream is destaged without losing rotations" "real clock"
fi
remove w

create w 131072 "none 0 generic 0 6 queue_depth 1 wcache on wcache_idle_ms 600000" && D=$(node w)
wblk "$D" 0 1 x; msg w stats_clear
readers=
for b in 3000 9000 6000 12000; do
	rblk "$D" $b 1 > /dev/null & readers="$readers $!"
done
sleep 0.001; rblk "$D" 0 1 > /dev/null; wait $readers
got="$(stat_of w wcache_read_hits) $(stat_of w late)"
note "read hits and late: $got"
if [ $VIRTUAL = 1 ]; then
	[ "$got" = "1 0" ]
	result $? "wcache: a hit that waited for a place in the queue is not late"
else
	skip "wcache: a hit that waited for a place in the queue is not late" "real clock"
fi
remove w

dmsetup create "$T-bad" --noudevsync --table "0 64 linear $LOOP 0
64 64 error
128 384 linear $LOOP 128"
dmsetup mknodes "$T-bad" > /dev/null 2>&1
create w 512 "/dev/mapper/$T-bad 0 tiny8 0 6 media cmr wcache on wcache_idle_ms 600000" && D=$(node w)
wblk "$D" 8 4 x; wrote=$?
! dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none 2> "$TMP/dd" && [ $wrote = 0 ]
result $? "wcache: a flush fails when the medium would not take the data"
remove w
create w 512 "/dev/mapper/$T-bad 0 tiny8 0 6 media cmr wcache on wcache_idle_ms 600000" && D=$(node w)
wblk "$D" 8 4 x; wrote=$?
dms suspend --noudevsync "$T-w"; dms resume --noudevsync "$T-w"
! dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none 2> "$TMP/dd" && [ $wrote = 0 ] &&
	dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none
result $? "wcache: what a suspend could not write fails the next flush, and only that"
remove w
create w 512 "/dev/mapper/$T-bad 0 tiny8 0 8 media cmr timing none wcache on wcache_idle_ms 600000" && D=$(node w)
wblk "$D" 8 4 x; wrote=$?
msg w wcache off
! dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none 2> "$TMP/dd" && [ $wrote = 0 ] &&
	dd if=/dev/zero of="$D" bs=4096 count=0 conv=notrunc,fsync status=none
result $? "wcache: what switching it off could not write fails the next flush, and only that"
remove w
for fast in model none; do
	create w 512 "/dev/mapper/$T-bad 0 tiny8 0 4 timing $fast time_scale 10" && D=$(node w)
	msg w poison 8 2
	! wblk "$D" 8 2 z && [ "$(msg w damaged 0 64 | head -1)" = "8 2" ]
	result $? "timing $fast: a write that the device below fails heals nothing"
	remove w
done
remove bad

### a suspend interrupts a message that waits for the cache to be empty
dms create "$T-u" --noudevsync --table "0 512 linear $LOOP 0"; U=$(node u)
create w 512 "$U 0 tiny8 0 8 media cmr timing none wcache on wcache_idle_ms 600000" && D=$(node w)
wblk "$D" 8 4 x
dms suspend --noflush --nolockfs --noudevsync "$T-u"	# nothing below ends any more
dmsetup message "$T-w" 0 wcache off 2> /dev/null & off=$!
until_stat w media_writes 1
dmsetup suspend --noudevsync "$T-w" & suspended=$!
for i in $(seq 6000); do kill -0 $off 2> /dev/null || break; sleep 0.02; done
kill -0 $off 2> /dev/null; waits=$?
dms resume --noudevsync "$T-u"
wait $off; said=$?
wait $suspended && dms resume --noudevsync "$T-w" && msg w wcache off &&
	[ $waits = 1 ] && [ $said != 0 ] && [ "$(stat_of w wcache_dirty_blocks)" = 0 ] &&
	holds "$D" 8 4 x && holds "$LOOP" 8 4 x
result $? "wcache: a suspend interrupts switching it off, which can be asked again"
remove w; remove u

### a read-only table, or device, is never written to
dd if=/dev/zero of="$LOOP2" bs=4096 count=16 status=none conv=fsync
dms create "$T-r" --readonly --noudevsync --table "0 512 platter $LOOP 0 tiny8 0 4 timing none state $LOOP2"
msg r poison 8 2; said=$?
[ "$(sum "$LOOP2")" = "$(head -c 65536 /dev/zero | cksum)" ] && [ $said != 0 ] &&
	[ -z "$(msg r damaged 0 64)" ]
result $? "read-only: an empty state device stays empty"
remove r
create r 512 "$LOOP 0 tiny8 0 4 timing none state $LOOP2" && D=$(node r)
wblk "$D" 0 64 x; wblk "$D" 8 8 y; before=$(msg r damaged 0 64)
remove r
disk=$(sum "$LOOP") state=$(sum "$LOOP2") ok=0
for how in table device; do
	readonly=--readonly
	[ $how = device ] && { readonly=; blockdev --setro "$LOOP"; blockdev --setro "$LOOP2"; }
	# Some kernels refuse to open a read-only device for writing.
	if dms create "$T-r" $readonly --noudevsync --table "0 512 platter $LOOP 0 tiny8 0 4 timing none state $LOOP2"; then
		D=$(node r)
		case $(dmsetup status "$T-r") in *" ro") ;; *) ok=1 ;; esac
		[ "$(msg r damaged 0 64)" = "$before" ] || ok=1
		msg r poison 40 2 && ok=1
		msg r heal && ok=1
		dms create "$T-q" --noudevsync --table "0 512 linear $D 0" && {
			wblk "$(node q)" 40 2 z && ok=1; remove q; }
		holds "$D" 0 8 x || ok=1
		dms suspend --noudevsync "$T-r" && dms resume --noudevsync "$T-r" && remove r || ok=1
	else
		[ $how = device ] || ok=1
	fi
	[ $how = device ] && { blockdev --setrw "$LOOP"; blockdev --setrw "$LOOP2"; }
	[ "$(sum "$LOOP") $(sum "$LOOP2")" = "$disk $state" ] || ok=1
	note "$how: $ok"
done
result $ok "read-only: neither the contents nor the map of destroyed blocks is written"

### no message changes a map of destroyed blocks before it has been read
dms create "$T-u" --noudevsync --table "0 $(blockdev --getsz "$LOOP2") linear $LOOP2 0"; U=$(node u)
dms create "$T-r" --noudevsync --notable
dms load "$T-r" --table "0 512 platter $LOOP 0 tiny8 0 4 timing none state $U"
dms load "$T-u" --table "0 16 error"; dms resume --noudevsync "$T-u"
! dms resume --noudevsync "$T-r" && ! msg r poison 40 2 && ! msg r heal && ! msg r damaged 0 64
ok=$?
remove r; remove u
create r 512 "$LOOP 0 tiny8 0 4 timing none state $LOOP2"
[ $ok = 0 ] && [ "$(msg r damaged 0 64)" = "$before" ]
result $? "messages before the map of destroyed blocks is read are refused"
remove r

### suspend, resume and reload under load; every queue order
ok=0
for q in fifo sptf; do
	create l 32768 "$LOOP 0 generic 0 14 media smr damage count time_scale 100 queue $q lookahead on wcache on wcache_kib 256" || ok=1
	D=$(node l)
	fio --name=l --filename="$D" --rw=randrw --bs=4k --bsrange=4k-64k --direct=1 \
		--ioengine=libaio --iodepth=32 --size=15m --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --norandommap=0 --randseed=7 --fsync=32 \
		--clocksource=clock_gettime --output="$TMP/fio" > /dev/null 2>&1 &
	pid=$!
	loaded=0
	until_stat l media_writes 1
	for i in 1 2 3 4 5 6 7 8; do
		sleep 0.1
		[ "$(stat_of l media_writes)" -gt 0 ] && loaded=$((loaded + 1))
		dms suspend --noudevsync "$T-l" || ok=1
		dmsetup table "$T-l" | dms load "$T-l" || ok=1
		dms resume --noudevsync "$T-l" || ok=1
	done
	wait $pid || { ok=1; sed 's/^/# /' "$TMP/fio" | tail -20; }
	note "$q: $loaded of 8 reloads under load"
	[ "$loaded" -ge 1 ] || ok=1
	remove l || ok=1
done
result $ok "suspend, reload and resume under load lose nothing"

### a huge drive without a store
create h 15628053168 "none 0 st8000as0002 0 2 timing none" && D=$(node h)
wblk "$D" 1000000000 256 x
[ "$(stat_of h damage_map_bytes)" -le 16384 ] && [ "$(stat_of h media_blocks_written)" = 256 ]
result $? "8 TB without a store need little memory"
remove h

echo "1..$nr"
echo "# Totals: pass:$((nr - failed - skipped)) fail:$failed xfail:0 xpass:0 skip:$skipped error:0"
[ $failed = 0 ]
