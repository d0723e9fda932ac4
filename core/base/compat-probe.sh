#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Finds out which form of an API the kernel tree has by compiling a few lines
# against it.  Version numbers do not suffice: stable branches have changed
# signatures, too (dm_io got its ioprio argument in 6.1.83).
#
#   compat-probe.sh CACHE_DIR CC CFLAGS   prints -D flags for the compiler
#
# CACHE_DIR, beside the build, stores the results by compiler and flags, so
# that incremental builds do not repeat the tests.
set -u
dir=$1 cc=$2 cflags=$3

key=$(printf '%s|%s|%s' "$cc" "$cflags" "$(cksum < "$0")" | cksum | cut -d' ' -f1)
cache="$dir/.compat-$key"
if [ -s "$cache" ]; then
	cat "$cache"
	exit 0
fi

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
flags=

compiles() {
	printf '#include <linux/module.h>\n%s\n' "$1" > "$tmp/t.c"
	# <linux/module.h> and dm's macros need KBUILD_MODNAME.
	$cc $cflags -DMODULE -DKBUILD_MODNAME='"probe"' -DKBUILD_BASENAME='"probe"' \
		-Werror=implicit-function-declaration -c -o "$tmp/t.o" "$tmp/t.c" 2> "$tmp/err"
}

probe() {
	if compiles "$2"; then
		flags="$flags -DSHINGLE_HAVE_$1=1"
	fi
}

# In a tree that cannot compile anything every test would fail, and the build
# would stop much later with a misleading error.
if ! compiles '#include <linux/device-mapper.h>'; then
	echo "FAILED: this kernel tree cannot compile a module: $(grep -m1 error "$tmp/err")"
	exit 0
fi

probe DM_IO_IOPRIO '
#include <linux/dm-io.h>
#include <linux/ioprio.h>
int t(struct dm_io_request *r, struct dm_io_region *w);
int t(struct dm_io_request *r, struct dm_io_region *w)
{ return dm_io(r, 1, w, NULL, IOPRIO_DEFAULT); }'

# dm_io() reports unsupported operations separately from errors.
probe DM_IO_UNSUP '
#include <linux/dm-io.h>
#include <linux/ioprio.h>
int t(struct dm_io_request *r, struct dm_io_region *w);
int t(struct dm_io_request *r, struct dm_io_region *w)
{ return dm_io(r, 1, w, NULL, NULL, IOPRIO_DEFAULT); }'

probe BLK_MODE_T '
#include <linux/blkdev.h>
blk_mode_t t(void);
blk_mode_t t(void) { return BLK_OPEN_READ; }'

probe MAX_HW_DISCARD_LIMIT_ONLY '
#include <linux/blkdev.h>
void t(struct queue_limits *l);
void t(struct queue_limits *l) { l->max_hw_discard_sectors = 1; l->features |= 1; }'

# Before 6.11 it was a flag of the queue.
probe FEAT_ROTATIONAL '
#include <linux/blkdev.h>
void t(struct queue_limits *l);
void t(struct queue_limits *l) { l->features |= BLK_FEAT_ROTATIONAL; }'

# Before 6.11 it was a separate field.
probe FLAG_MISALIGNED '
#include <linux/blkdev.h>
void t(struct queue_limits *l);
void t(struct queue_limits *l) { l->flags |= BLK_FLAG_MISALIGNED; }'

# Since 6.17.
probe MAX_HW_WZEROES_UNMAP '
#include <linux/blkdev.h>
void t(struct queue_limits *l);
void t(struct queue_limits *l) { l->max_hw_wzeroes_unmap_sectors = 0; }'

# Removed in 5.18, restored in 6.9.
probe BIO_WRITE_HINT '
#include <linux/blk_types.h>
unsigned int t(const struct bio *b);
unsigned int t(const struct bio *b) { return b->bi_write_hint; }'

probe TIMER_DELETE_SYNC '
#include <linux/timer.h>
int t(struct timer_list *x);
int t(struct timer_list *x) { return timer_delete_sync(x); }'

probe HRTIMER_SETUP '
#include <linux/hrtimer.h>
void t(struct hrtimer *x, enum hrtimer_restart (*f)(struct hrtimer *));
void t(struct hrtimer *x, enum hrtimer_restart (*f)(struct hrtimer *))
{ hrtimer_setup(x, f, CLOCK_MONOTONIC, HRTIMER_MODE_ABS); }'

echo "$flags" > "$cache"
echo "$flags"
