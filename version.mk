# SPDX-License-Identifier: GPL-2.0
# The version of all there is here, which dkms.conf has and nobody else.
# $(call shingle-version,TOP) asks for it, TOP being the folder of dkms.conf.
shingle-version = $(or $(shell sed -n 's/^PACKAGE_VERSION="\([^"]*\)"$$/\1/p' $(1)/dkms.conf),\
	$(error $(1)/dkms.conf says no PACKAGE_VERSION))
