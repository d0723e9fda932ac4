# SPDX-License-Identifier: GPL-2.0
# Read by a show before all else: --help prints what stands at its top.
case ${1-} in
-h | --help)
	sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0"
	exit 0
	;;
esac
