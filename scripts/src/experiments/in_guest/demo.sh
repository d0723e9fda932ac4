#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The guest's part of the demo; scripts/experiments demo calls it:
# 	guest.sh write KIND	make the disk, fill it, verify, start writing again
# 	guest.sh find KIND	after the power cut: check, recover, verify
# Disks: 0 the platter's store, 1 its damage map, 2 the tree in a tar archive.
# 	guest.sh stores KIND	key-value stores on stl-full and on imr, a power cut in
# 				the middle of their load; saves their contents after it
# Disks: a blank one for each.  Lines for the runner: "FACT name value", "MARK chunk", "STEP text".
set -eu

phase=$1
profile=$2
work=$SHINGLE_TOP/build/demo
here=/mnt/shingled

step() { echo "STEP $*"; }
fact() { echo "FACT $*"; }
now() { cut -d' ' -f1 /proc/uptime; }
since() { echo "$1 $(now)" | awk '{ printf "%.0f", $2 - $1 }'; }

counter() {	# device name
	dmsetup message "$1" 0 stats | awk -v n="$2" '$1 == n { print $2 }'
}

platter() {	# disk profile keys...
	table="0 $(blockdev --getsz "$1") platter $1 0 $2"
	shift 2
	dmsetup create --noudevsync platter --table \
		"$table 0 $(($# + 4)) damage poison timing none $*"
	dmsetup mknodes platter
}

large_platter() {
	platter "$SHINGLE_DISK0" "$profile" surfaces 4 swath_tracks 0 state "$SHINGLE_DISK1"
}

# Compare every file of a list with its checksum, in two processes.
verify() {	# directory list
	cd "$1"
	split -n l/2 "$2" /tmp/part.
	md5sum --quiet -c /tmp/part.aa >/tmp/bad.aa 2>&1 &
	left=$!
	bad=0
	md5sum --quiet -c /tmp/part.ab >/tmp/bad.ab 2>&1 || bad=$?
	wait $left || bad=$?
	if [ $bad != 0 ]; then
		cat /tmp/bad.a[ab] | head -20
		echo "demo: files differ from what was written" >&2
		exit 1
	fi
	rm -f /tmp/part.a[ab]
	cd /
}

oracle() {
	fact "destroyed_blocks_$phase" "$(counter platter destroyed_blocks)"
	fact "destroyed_reads_$phase" "$(counter platter destroyed_reads)"
	fact "r0_violations_$phase" "$(counter shingled r0_violations)"
	fact "bands_cleaned_$phase" "$(counter shingled bands_cleaned)"
	fact "clean_write_blocks_$phase" "$(counter shingled clean_write_blocks)"
	fact "host_write_blocks_$phase" "$(counter shingled host_write_blocks)"
}

# Run a store's load on a layer, cut the power in the middle of it, and save the contents after
# recovery.  The drive's own cache is on: data not flushed are lost.
store() {	# layer disk profile options of shingle create...
	layer=$1 disk=$2 kind=$3
	shift 3
	step "$layer: over platter $kind, whose write cache is on; a store over it"
	platter "$disk" "$kind" surfaces 1 wcache on
	shingle create "$layer" --no-udev "$@" /dev/mapper/platter shingled >/dev/null
	dmsetup mknodes shingled
	kv format /dev/mapper/shingled
	while read -r words; do
		# shellcheck disable=SC2086
		kvbench $words --device /dev/mapper/shingled </dev/null >/tmp/said || {
			cat /tmp/said
			exit 1
		}
		step "$layer: synced: $(sed -n 's/.*: \([0-9]* operations\) in.*/\1/p' /tmp/said)"
	done <"$work/stores/loads"

	dmsetup message platter 0 powercut "$(cat "$work/stores/cut.$layer")"
	rc=0
	# shellcheck disable=SC2046
	kvbench $(cat "$work/stores/last") --device /dev/mapper/shingled \
		--log "$work/stores/log.$layer" >/tmp/said 2>&1 || rc=$?
	if [ "$(counter platter power_cuts)" != 1 ] || [ $rc != 8 ]; then
		cat /tmp/said
		echo "demo: the power did not fail, or nobody noticed: status $rc" >&2
		exit 1
	fi
	step "$layer: the power failed in the middle of the next ones"
	fact "cache_lost_$layer" "$(counter platter wcache_lost_blocks)"
	dmsetup remove --retry --noudevsync shingled

	dmsetup message platter 0 powercut off
	step "$layer: power is back: shingle check, kv check, every key and value"
	shingle check /dev/mapper/platter
	shingle open --no-udev /dev/mapper/platter shingled
	dmsetup mknodes shingled
	dmsetup message platter 0 stats_clear
	kv check /dev/mapper/shingled
	kv scan /dev/mapper/shingled >"$work/stores/scan.$layer"
	fact "destroyed_reads_$layer" "$(counter platter destroyed_reads)"
	fact "r0_violations_$layer" "$(counter shingled r0_violations)"
	dmsetup remove --retry --noudevsync shingled
	dmsetup remove --retry --noudevsync platter
}

fact kernel "$(uname -r)"
mkdir -p "$here"

case $phase in
write)
	step "platter $profile over the disk, stl-set over platter"
	large_platter
	shingle create stl-set --no-udev --label demo /dev/mapper/platter shingled
	dmsetup mknodes shingled
	mkfs.ext4 -q /dev/mapper/shingled
	mount /dev/mapper/shingled "$here"
	fact size_mib "$(($(blockdev --getsz /dev/mapper/shingled) / 2048))"

	step "unpacking the tree"
	t=$(now)
	mkdir "$here/first" "$here/second"
	tar -xf "$SHINGLE_DISK2" -C "$here/first"
	sync -f "$here"
	fact unpack_s "$(since "$t")"

	step "reading it back from the disk, every file by checksum"
	umount "$here"
	mount /dev/mapper/shingled "$here"
	t=$(now)
	verify "$here/first" "$work/first.md5"
	fact verify_write_s "$(since "$t")"
	oracle

	step "a second write-out; the power will fail in the middle"
	n=0
	while read -r chunk; do
		mkdir -p "$here/second/${chunk%/*}"
		cp -a "$here/first/$chunk" "$here/second/$chunk"
		sync -f "$here"
		echo "MARK $chunk"
		n=$((n + 1))
		if [ $n = "$DEMO_CUT_CHUNK" ]; then
			(sleep "$DEMO_CUT_DELAY" && echo "POWER CUT NOW") &
		fi
	done <"$work/chunks"
	sleep 30
	echo "demo: the power did not fail" >&2
	exit 1
	;;
find)
	large_platter
	fact damaged_at_boot "$(counter platter damaged_blocks)"
	step "shingle check"
	shingle check /dev/mapper/platter
	fact shingle_check "clean"
	t=$(now)
	shingle open --no-udev /dev/mapper/platter shingled
	dmsetup mknodes shingled
	fact open_s "$(echo "$t $(now)" | awk '{ printf "%.1f", $2 - $1 }')"

	# Before the end of the journal a drive may read blocks that its own head destroyed.
	fact scan_reads "$(counter platter destroyed_reads)"
	dmsetup message platter 0 stats_clear

	step "e2fsck: the journal is replayed, then a full check"
	e2fsck -p /dev/mapper/shingled || [ $? = 1 ]
	e2fsck -f -n /dev/mapper/shingled >/tmp/e2fsck 2>&1 || {
		cat /tmp/e2fsck
		exit 1
	}
	fact e2fsck "clean"

	step "every file of the first tree by checksum"
	mount /dev/mapper/shingled "$here"
	t=$(now)
	verify "$here/first" "$work/first.md5"
	fact verify_find_s "$(since "$t")"
	step "every file of the second that had been synced"
	verify "$here/second" "$work/synced.md5"
	oracle
	umount "$here"
	dmsetup remove --retry --noudevsync shingled
	shingle check /dev/mapper/platter
	fact shingle_check_again "clean"
	;;
stores)
	store stl-full "$SHINGLE_DISK0" "$profile" --band 2M
	store imr "$SHINGLE_DISK1" kvimr
	;;
esac
