# SPDX-License-Identifier: GPL-2.0
# Rules to build a tool.  The including Makefile sets ROOM, the tool's directory; BIN, its
# name; PKGS, the libraries for pkg-config, and DEBIAN, their packages; SRCS, relative to the
# top directory; and optionally more LIBS and INCLUDES, and BINDIR, bin for a program that does
# not administer the system.
TOP      ?= $(abspath ../..)
OUT      ?= $(TOP)/build/userspace
PREFIX   ?= /usr/local
SANITIZE ?=
BINDIR   ?= sbin
CC       ?= cc
V        ?= 0
Q        := $(if $(filter 0,$(V)),@)

include $(TOP)/version.mk

# Every tool contains its version.
SRCS   := $(sort $(SRCS) userspace/shingle/version.c)
comma  := ,
SUFFIX := $(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
WORK   := $(OUT)/obj/$(ROOM)$(SUFFIX)
OBJS   := $(SRCS:%.c=$(WORK)/%.o)
TOOL   := $(OUT)/$(BIN)$(SUFFIX)

CFLAGS   ?= -O2 -g
WARN     := -std=gnu11 -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes \
	    -Wno-unused-parameter
CPPFLAGS += -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 \
	    $(addprefix -I$(TOP)/,userspace/include core/lib $(INCLUDES))
SAN      := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)

all: $(TOOL)

.PHONY: all install clean need-pkgs

need-pkgs:
	@pkg-config --exists $(PKGS) 2>/dev/null || { \
	  echo "$(BIN) needs the development files of: $(PKGS)." >&2; \
	  echo "Debian: apt install pkg-config $(DEBIAN)" >&2; exit 1; }

$(TOOL): $(OBJS)
	@mkdir -p $(dir $@)
	@echo "  LD    $(notdir $@)"
	$(Q)$(CC) $(CFLAGS) $(SAN) $(LDFLAGS) -o $@ $(OBJS) $$(pkg-config --libs $(PKGS)) $(LIBS)

$(WORK)/%.o: $(TOP)/%.c | need-pkgs
	@mkdir -p $(dir $@)
	@echo "  CC    $*.c"
	$(Q)$(CC) $(CPPFLAGS) $$(pkg-config --cflags $(PKGS)) $(CFLAGS) $(WARN) $(SAN) \
	  -MMD -MP -c -o $@ $<

$(WORK)/userspace/shingle/version.o: $(TOP)/dkms.conf
$(WORK)/userspace/shingle/version.o: CPPFLAGS += -DSHINGLE_RELEASE='"$(call shingle-version,$(TOP))"'

install: all
	install -D -m 755 $(TOOL) $(DESTDIR)$(PREFIX)/$(BINDIR)/$(BIN)

clean:
	rm -rf $(addprefix $(OUT)/,$(BIN) $(BIN)-address* $(BIN)-undefined* obj/$(ROOM) obj/$(ROOM)-*)

-include $(OBJS:.o=.d)
