#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The guest's part of traces, with the virtual clock.
set -eu
PATH=$PWD/scripts/trace:$PATH
modprobe brd rd_nr=1 rd_size=524288 2>/dev/null || true
cd /dev/shm

show() {
	printf '\n$ %s\n' "$1"
	sh -c "$1"
}
load="fio --name=w --filename=/dev/mapper/smr --direct=1 --clocksource=clock_gettime \
--rw=randwrite --bs=4k --iodepth=1 --randseed=1 --number_ios=%s --output=fio"

dmsetup create medium --noudevsync --table \
	"0 $(blockdev --getsz /dev/ram0) platter /dev/ram0 0 st5000as0011 0 0"
dmsetup mknodes
show "shingle-trace destroyed sh -c '
  dd if=/dev/zero of=/dev/mapper/medium bs=4k count=1 oflag=direct status=none
  dd if=/dev/mapper/medium of=/dev/null bs=4k count=1 skip=928 iflag=direct status=none'" ||
	true

shingle create stl-set --no-udev /dev/mapper/medium smr >/dev/null
dmsetup mknodes
# shellcheck disable=SC2059
printf "$load\n" 12000 > load
show "shingle-trace -d smr steps sh load"
dmsetup message smr 0 clean
# shellcheck disable=SC2059
printf "$load\n" 2000 > load
show "shingle-trace -d medium seeks sh load"
show "shingle-trace events dd if=/dev/zero of=/dev/mapper/smr bs=4k count=1 oflag=direct,sync status=none | grep -v '^#' | sed 's/^ *[^ ]* *//'"

# shellcheck disable=SC2059
printf "$load\n" 200 > load
show "blktrace -d /dev/dm-1 -d /dev/dm-0 & sh load; kill -INT \$!; wait"
show "blkparse -q -i dm-1 -i dm-0 2>&1 | grep -v '^[CI]' | tail -6"
show "blkparse -q -i dm-1 -d bin -O >/dev/null; btt -i bin | sed -n '/All Devices/,/Q2Cdm/p'"
