# SPDX-License-Identifier: GPL-2.0
# Directory of udev rules: for packages, or for the administrator.
UDEVDIR ?= $(if $(filter /usr,$(PREFIX)),/usr/lib,/etc)/udev/rules.d

# In make a blank ends a word, so rm would be given the parent directory of such a path.
ifneq ($(words [$(DESTDIR)$(PREFIX)$(UDEVDIR)$(CURDIR)]),1)
$(error DESTDIR, PREFIX, UDEVDIR and the path of this tree may have no blanks: \
	'$(DESTDIR)', '$(PREFIX)', '$(UDEVDIR)', '$(CURDIR)')
endif
# Each tool is built in its own directory, so a relative DESTDIR must become absolute.
override DESTDIR := $(abspath $(DESTDIR))
