# SPDX-License-Identifier: GPL-2.0
# An experiment sources this file first: --help prints the comment at the experiment's top.
case ${1-} in
-h | --help)
	sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0"
	exit 0
	;;
esac
