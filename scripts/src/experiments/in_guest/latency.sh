#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The guest's part of latency: random 4 KiB writes at queue depth 1 within 1 GiB of a
# 5 TB drive, on a plain medium and through stl-set.
# 	latency.sh OUT WRITES
set -eu
out=$1
writes=$2
sectors=9767541168	# of the 5 TB drive; no store: only its time is kept

modprobe brd rd_nr=1 rd_size=1048576 2>/dev/null || true

platter() {	# keys
	dmsetup create --noudevsync platter --table \
		"0 $sectors platter none 0 st5000as0011 0 $# $*"
	dmsetup mknodes platter
}

measure() {	# device, log
	rm -f /tmp/lat_*.log
	fio --name=latency --filename="$1" --rw=randwrite --bs=4k --direct=1 \
		--ioengine=psync --iodepth=1 --size=1g --number_ios="$writes" \
		--clocksource=clock_gettime --write_lat_log=/tmp/lat \
		--output=/tmp/fio.out || { cat /tmp/fio.out; exit 1; }
	cut -d, -f2 /tmp/lat_clat.1.log >"/tmp/$2"
}

late() {
	dmsetup message platter 0 stats | awk '$1 == "late" { print $2 }' >>/tmp/late
}

platter media cmr
measure /dev/mapper/platter cmr
late
dmsetup remove --retry --noudevsync platter

for shift in 20 0; do
	platter media smr
	dd if=/dev/zero of=/dev/ram0 bs=1M count=1 status=none
	shingle create stl-set --no-udev --force --meta /dev/ram0 --band 40M \
		--cache-size 37G --set-shift $shift /dev/mapper/platter shingled >/dev/null 2>&1
	dmsetup mknodes shingled
	measure /dev/mapper/shingled "set$shift"
	late
	dmsetup remove --retry --noudevsync shingled
	dmsetup remove --retry --noudevsync platter
done
cp /tmp/cmr /tmp/set20 /tmp/set0 /tmp/late "$out"
