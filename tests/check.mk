# SPDX-License-Identifier: GPL-2.0
# How programs are built that only test: with sanitizers, and never installed.  Their
# Makefile has set ROOM, its directory; PROGRAMS, their names; INCLUDES, from the top;
# and says, after this file, which objects each program has.
TOP      ?= $(abspath ../..)
OUT      ?= $(TOP)/build/tests
SANITIZE ?= address,undefined
V        ?= 0
Q        := $(if $(filter 0,$(V)),@)

include $(TOP)/sources.mk

comma := ,
HERE  := $(TOP)/tests/$(ROOM)
WORK  := $(OUT)/obj/$(ROOM)$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
BINS  := $(addprefix $(OUT)/,$(PROGRAMS))

CFLAGS ?= -O1 -g
CFLAGS += -std=gnu11 -Wall -Wextra -Wno-unused-parameter \
	  $(addprefix -I$(TOP)/,userspace/include core/lib $(INCLUDES)) \
	  $(if $(SANITIZE),-fsanitize=$(SANITIZE))

# $(call objects,SOURCES[,FOLDER]): a source is compiled once for all programs of this
# room, and once more for each FOLDER, whose objects are made with other flags.
objects = $(patsubst $(TOP)/%.c,$(WORK)/$(if $(2),$(2)/)%.o,$(1))

all: $(BINS)

.PHONY: all install clean

$(BINS):
	@mkdir -p $(dir $@)
	@echo "  LD    $(notdir $@)"
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LIBS)

define compile
	@mkdir -p $(dir $@)
	@echo "  CC    $(notdir $(WORK)) $*.c"
	$(Q)$(CC) $(1) -MMD -MP -c -o $@ $<
endef

$(WORK)/%.o: $(TOP)/%.c
	$(call compile,$(CFLAGS))

install:

clean:
	rm -rf $(BINS) $(OUT)/obj/$(ROOM) $(OUT)/obj/$(ROOM)-*

# Of the headers that each object has been made with.
-include $(shell find $(WORK) -name '*.d' 2>/dev/null)
