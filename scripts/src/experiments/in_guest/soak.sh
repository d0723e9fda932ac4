#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2046
# The guest's part of soak, with the virtual clock: fio writes and verifies over
# stl-set on a shingled medium that destroys what its head covers, until the guest's clock has
# advanced by SECONDS.
# 	soak.sh SECONDS [SEED]
set -eu
limit=$1
seed=${2:-0}
modprobe brd rd_nr=2 rd_size=270336 2>/dev/null || true

counter() {	# device name
	dmsetup message "$1" 0 stats | awk -v n="$2" '$1 == n { print $2 }'
}
clock() { cut -d. -f1 /proc/uptime; }

dmsetup create --noudevsync platter --table \
	"0 $(blockdev --getsz /dev/ram0) platter /dev/ram0 0 st5000as0011 0 4 damage poison track_sectors 512"
dmsetup mknodes platter
shingle create stl-set --no-udev --band 2M --cache-size 10% --journal 4M \
	/dev/mapper/platter shingled >/dev/null
dmsetup mknodes shingled

pass() {	# name, fio's options
	name=$1
	shift
	fio --name="$name" --filename=/dev/mapper/shingled --direct=1 \
		--clocksource=clock_gettime --gtod_reduce=1 \
		--verify=crc32c --verify_fatal=1 \
		--randseed=$((seed + n)) --ioengine=io_uring --group_reporting \
		--output=/tmp/fio.out "$@" || {
		cat /tmp/fio.out
		echo "soak: pass $n ($name) failed" >&2
		exit 1
	}
}

# In batches: a system call costs more than the requests in it.
depth() {
	echo "--iodepth=$1 --iodepth_batch=$1 --iodepth_batch_complete_min=$1"
}

begin=$(clock)
n=0
told=0
while [ $(($(clock) - begin)) -lt "$limit" ]; do
	n=$((n + 1))
	# One size for each pass: fio's random map does not end with mixed sizes here.
	case $((n % 6)) in
	1 | 4) pass small --rw=randwrite --bs=4k $(depth 16) --size=10% \
		--offset=$((n % 10 * 10))% ;;
	2) pass middle --rw=randwrite --bs=16k $(depth 32) --io_size=32m ;;
	3) pass large --rw=randwrite --bs=256k $(depth 8) ;;
	5) pass trims --rw=randtrimwrite --bs=16k $(depth 8) --io_size=32m
	   pass bands --rw=randtrimwrite --bs=2m $(depth 2) --io_size=64m ;;
	0) pass stream --rw=write --bs=1m $(depth 4) ;;
	esac
	hours=$((($(clock) - begin) / 3600))
	[ $hours = $told ] && continue
	told=$hours
	echo "hour $hours: pass $n, $(counter shingled host_write_blocks) blocks written, $(counter shingled bands_cleaned) bands cleaned, $(counter platter destroyed_blocks) destroyed, $(counter platter destroyed_reads) of them read"
done
echo "RESULT virtual_hours $(echo "$begin $(clock)" | awk '{ printf "%.2f", ($2 - $1) / 3600 }')"
echo "RESULT passes $n"
for name in host_write_blocks host_read_blocks clean_write_blocks bands_cleaned discard_blocks r0_violations; do
	echo "RESULT $name $(counter shingled $name)"
done
for name in blocks_written destroyed_blocks destroyed_reads late; do
	echo "RESULT medium_$name $(counter platter $name)"
done
[ "$(counter platter destroyed_reads)" = 0 ]
[ "$(counter shingled r0_violations)" = 0 ]
dmsetup remove --retry --noudevsync shingled
shingle check /dev/mapper/platter >/tmp/check || { cat /tmp/check; exit 1; }
echo "RESULT shingle_check clean"
