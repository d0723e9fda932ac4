# SPDX-License-Identifier: GPL-2.0
# Where udev looks for rules of packages, and of an administrator.
UDEVDIR ?= $(if $(filter /usr,$(PREFIX)),/usr/lib,/etc)/udev/rules.d

# To make a blank ends a word, and what rm would be given is then the folder above.
ifneq ($(words [$(DESTDIR)$(PREFIX)$(UDEVDIR)$(CURDIR)]),1)
$(error DESTDIR, PREFIX, UDEVDIR and the path of this tree may have no blanks: \
	'$(DESTDIR)', '$(PREFIX)', '$(UDEVDIR)', '$(CURDIR)')
endif
# Each room is made in a folder of its own.
override DESTDIR := $(abspath $(DESTDIR))
