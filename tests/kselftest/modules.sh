#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Installed modules, below /lib/modules: each is loaded when a table names one of its targets, loads
# its dependencies, and reports its version.
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/kselftest/ktap.sh
. "$HERE/ktap.sh"
X=modules
TOP=$(readlink -f "$HERE/../..")
HOME_OF_MODULES=/lib/modules/$(uname -r)
OURS="dm-platter dm-stl dm-imr dm-tiler dm-dualbuffer dm-rmwf dm-shingle"

ktap_begin
ktap_cleanup
if [ -z "$SHINGLE_MODDIR" ] || ! [ -e /proc/modules ]; then
	skip "everything" "no modules were built for this kernel"
	ktap_end
fi
if [ ! -x "$(cat /proc/sys/kernel/modprobe)" ] || ! command -v depmod >/dev/null; then
	skip "everything" "no modprobe, or no depmod, here"
	ktap_end
fi

release() { sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$TOP/dkms.conf"; }
file() { echo "$SHINGLE_MODDIR"/*/"$1.ko"; }
loaded() { [ -d "/sys/module/${1//-/_}" ]; }
unloaded() {
	local module
	# Targets of tests depend on these modules.
	awk '$1 ~ /^shingle_/ { print $1 }' /proc/modules | xargs -r rmmod
	for module in $OURS; do
		! loaded "$module" || rmmod "$module" || return 1
	done
}

for module in $OURS; do
	said() { [ "$(modinfo -F "$1" "$(file "$module")")" = "$2" ]; }
	described() { [ -n "$(modinfo -F description "$(file "$module")")" ]; }
	ok "$module has dkms.conf's version" said version "$(release)"
	ok "$module has an author" said author "the dm-shingle project"
	ok "$module is described" described
done

# Only this project's modules where depmod and modprobe look; the kernel's own are loaded already.
eval "$("$HERE/../guest/make.py" stl-set)"
ok "unload all" unloaded
mkdir -p "$KTAP_DIR/modules/updates"
for module in $OURS; do cp "$(file "$module")" "$KTAP_DIR/modules/updates/"; done
cp "$HOME_OF_MODULES"/modules.builtin* "$HOME_OF_MODULES"/modules.order "$KTAP_DIR/modules/" \
	2>/dev/null
[ -d "$HOME_OF_MODULES" ] || mkdir -p "$HOME_OF_MODULES"
mount --bind "$KTAP_DIR/modules" "$HOME_OF_MODULES" || exit 1
trap 'ktap_cleanup; umount "$HOME_OF_MODULES"; rm -rf "$KTAP_DIR"' EXIT
depmod

# The table is invalid, but dm looks for the target first.
brings() {	# brings TARGET MODULE [MODULE THAT IT NEEDS]
	unloaded || return 1
	! loaded "$2" || return 1
	dmsetup create $X --noudevsync --table "0 8 $1" && return 1
	dmsetup targets
	loaded "$2" && dmsetup targets | grep -q "^$1 " && { [ -z "$3" ] || loaded "$3"; }
}
ok "platter loads itself" brings platter dm-platter
for target in stl-set stl-full stl-log imr tiler dualbuffer rmwf; do
	case $target in
	stl-*) module=dm-stl ;;
	*) module=dm-$target ;;
	esac
	ok "$target loads itself and the core" brings $target $module dm-shingle
done
same() { [ "$(cat /sys/module/dm_rmwf/version)" = "$(release)" ]; }
ok "a loaded module says the version, too" same

nobody() {
	unloaded || return 1
	dmsetup create $X --noudevsync --table "0 8 full-stl-set"
	! loaded dm-stl && ! loaded dm-shingle
}
ok "a name that is nobody's loads nothing" nobody

whole() {
	unloaded || return 1
	dmsetup create $X --noudevsync --table "$TABLE" &&
		[ "$(dmsetup status $X | awk '{ print $NF }')" = rw ] &&
		dmsetup remove --retry --noudevsync $X
}
ok "a device is there at once" whole
ktap_end
