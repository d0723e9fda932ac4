# SPDX-License-Identifier: GPL-2.0
# Where udev looks for rules of packages, and of an administrator.
UDEVDIR ?= $(if $(filter /usr,$(PREFIX)),/usr/lib,/etc)/udev/rules.d
