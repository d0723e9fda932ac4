# SPDX-License-Identifier: GPL-2.0
# make            modules for KDIR (default: the running kernel) and userspace
# make demo       the whole story in a virtual machine, nothing else needed
# make check      every test, in the lab
# make help       the rest

KDIR  ?= /lib/modules/$(shell uname -r)/build
V     ?= 0
TOP   := $(CURDIR)

ROOMS := core dm-platter dm-stl

kmake  = $(MAKE) -C $(KDIR) $(if $(ARCH),ARCH=$(ARCH))
KREL  := $(if $(wildcard $(KDIR)/Makefile),$(shell $(MAKE) -s --no-print-directory -C $(KDIR) $(if $(ARCH),ARCH=$(ARCH)) kernelrelease 2>/dev/null))
# Modules of several kernels live side by side; the sources are only linked in.
MODDIR ?= $(TOP)/build/$(KREL)$(if $(ARCH),-$(ARCH))

all: modules userspace

.PHONY: all modules userspace mirror moddir check clean help have-kdir

have-kdir:
	@test -n "$(KREL)" || { \
	  echo "No kernel build tree at $(KDIR)." >&2; \
	  echo "Install the headers of the running kernel (Debian: apt install linux-headers-$$(uname -r))," >&2; \
	  echo "or name another tree: make KDIR=/path/to/kernel [ARCH=um]." >&2; \
	  echo "'make demo' and 'make check' need none: they bring their own kernels." >&2; exit 1; }

mirror: have-kdir
	@mkdir -p $(MODDIR)
	@ln -sf $(TOP)/Kbuild $(MODDIR)/Kbuild
	@for d in $(ROOMS); do mkdir -p $(MODDIR)/$$d; \
	  find $(TOP)/$$d -maxdepth 1 \( -name '*.[ch]' -o -name Kbuild -o -name '*.sh' \) \
	    -exec ln -sf -t $(MODDIR)/$$d {} +; \
	  find $(MODDIR)/$$d -maxdepth 1 -xtype l -delete; done

modules: mirror
	+$(kmake) M=$(MODDIR) $(if $(W),W=$(W)) $(if $(C),C=$(C)) $(if $(KCFLAGS),KCFLAGS="$(KCFLAGS)") V=$(V) modules

# Where the modules of this KDIR/ARCH land, for scripts.
moddir: have-kdir
	@echo $(MODDIR)

userspace:
	@$(MAKE) -C userspace

# tests/run --help says what else it can do; CHECK=--quick for developers.
check:
	@tests/run $(CHECK)

clean:
	rm -rf build
	@$(MAKE) -s -C userspace clean

# --- the lab: kernels in virtual machines, see Documentation/lab.rst ---------
.PHONY: lab lab-setup lint

# What there is; run something with: scripts/lab/run -- COMMAND
lab:
	@scripts/lab/run --list

# Everything the lab needs, ahead of time.
lab-setup:
	@scripts/lab/setup all

lint:
	@scripts/lab/lint
