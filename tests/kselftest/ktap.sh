# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# TAP version 13 for the scripts here.  Exit: 0 passed, 1 failed, 4 skipped.
KTAP_N=0 KTAP_FAILED=0 KTAP_SKIPPED=0

ktap_begin() {
	echo "TAP version 13"
	if [ "$(id -u)" != 0 ]; then
		echo "1..0 # SKIP needs root"
		exit 4
	fi
	KTAP_DIR=$(mktemp -d)
	trap 'ktap_cleanup; rm -rf "$KTAP_DIR"' EXIT
}

ktap_cleanup() { dmsetup remove_all --force >/dev/null 2>&1; }

# ok NAME COMMAND...: passes if the command does.
ok() {
	local name=$1
	shift
	KTAP_N=$((KTAP_N + 1))
	if "$@" >"$KTAP_DIR/out" 2>&1; then
		echo "ok $KTAP_N $name"
	else
		KTAP_FAILED=$((KTAP_FAILED + 1))
		echo "not ok $KTAP_N $name"
		sed 's/^/# /' "$KTAP_DIR/out" | tail -20
	fi
}

# refused NAME COMMAND...: passes if the command fails, but does not crash.
refused() {
	local name=$1
	shift
	ok "$name" ktap_fails "$@"
}

ktap_fails() {
	"$@"
	local status=$?
	[ $status -gt 0 ] && [ $status -lt 126 ]
}

skip() {
	KTAP_N=$((KTAP_N + 1))
	KTAP_SKIPPED=$((KTAP_SKIPPED + 1))
	echo "ok $KTAP_N $1 # SKIP $2"
}

ktap_end() {
	echo "1..$KTAP_N"
	echo "# Totals: pass:$((KTAP_N - KTAP_FAILED - KTAP_SKIPPED))" \
		"fail:$KTAP_FAILED skip:$KTAP_SKIPPED"
	[ $KTAP_FAILED = 0 ] || exit 1
	[ $KTAP_N != $KTAP_SKIPPED ] || exit 4
	exit 0
}
