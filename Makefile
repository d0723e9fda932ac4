# SPDX-License-Identifier: GPL-2.0
# make            modules for KDIR (default: the running kernel) and the tools
# make demo       the whole story in a virtual machine, nothing else needed
# make check      every test, in the lab
# make help       the rest

KDIR  ?= /lib/modules/$(shell uname -r)/build
V     ?= 0
TOP   := $(CURDIR)
include version.mk

ROOMS := core dm-platter dm-stl dm-imr dm-tiler dm-dualbuffer tests
# A layer of core and an engine have a directory of their own.
FOLDERS := $(ROOMS) $(patsubst $(TOP)/%/,%,$(wildcard $(addprefix $(TOP)/,core/*/ core/lib/*/ \
	dm-*/*/)))

# A kernel that clang has built takes only modules that clang has built.  LLVM= and CC= on
# the command line have the last word; make hands them on by itself.
KCONFIG := $(firstword $(wildcard $(KDIR)/include/config/auto.conf $(KDIR)/.config))
kconfig  = $(if $(KCONFIG),$(shell grep -sx 'CONFIG_$(1)=y' $(KCONFIG)))
ifeq ($(origin LLVM),undefined)
KCC := $(if $(call kconfig,CC_IS_CLANG),$(if $(call kconfig,LD_IS_LLD),LLVM=1,CC=clang))
endif

kmake  = $(MAKE) -C $(KDIR) $(if $(ARCH),ARCH=$(ARCH)) $(KCC)
# The release that modules carry; Debian's headers answer kernelrelease otherwise.
UTS   := $(KDIR)/include/generated/utsrelease.h
KREL  := $(if $(wildcard $(UTS)),$(shell sed -n 's/.*UTS_RELEASE "\(.*\)".*/\1/p' $(UTS)))
# Modules of several kernels live side by side; the sources are only linked in.
MODDIR ?= $(TOP)/build/$(KREL)$(if $(ARCH),-$(ARCH))

# Without a kernel tree the tools still can be built.
all: $(if $(KREL),modules,no-modules) userspace

.PHONY: all modules no-modules userspace mirror moddir clean help have-kdir

no-modules:
	@echo "No kernel build tree at $(KDIR): building the tools only, no modules."
	@echo "Debian: apt install linux-headers-$$(uname -r); or make KDIR=/path/to/kernel."
	@echo "'make demo' and 'make check' bring kernels of their own."

have-kdir:
	@test -n "$(KREL)" || { \
	  echo "No prepared kernel build tree at $(KDIR)." >&2; \
	  echo "Install the headers of the running kernel (Debian: apt install linux-headers-$$(uname -r))," >&2; \
	  echo "or name another tree: make KDIR=/path/to/kernel [ARCH=um]." >&2; \
	  echo "'make demo' and 'make check' need none: they bring their own kernels." >&2; exit 1; }

mirror: have-kdir
	@mkdir -p $(MODDIR)
	@ln -sf -t $(MODDIR) $(addprefix $(TOP)/,Kbuild dkms.conf version.mk sources.mk)
	@for d in $(FOLDERS); do mkdir -p $(MODDIR)/$$d; \
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

# Exercisers, fuzzers and checkers, which are never installed.
.PHONY: test-programs
test-programs:
	@$(MAKE) -C tests

clean:
	rm -rf build
	@$(MAKE) -s -C userspace clean
	@$(MAKE) -s -C tests clean

# --- on this machine ----------------------------------------------------------
# PREFIX and DESTDIR as everywhere; modules go to updates/ of KDIR's kernel.
PREFIX  ?= /usr/local
DESTDIR ?=
include userspace/dirs.mk
MODINST  = $(DESTDIR)/lib/modules/$(KREL)/updates
.PHONY: load unload install uninstall install-modules install-tools
.PHONY: install-userspace install-skylight install-doc install-dkms deb

load: have-kdir
	@scripts/modules load $(MODDIR)

unload: have-kdir
	@scripts/modules unload $(MODDIR)

install: install-modules install-userspace
	@echo "Completion for bash: $(PREFIX)/share/bash-completion/completions/shingle; new shells"
	@echo "use it if Debian's package bash-completion, or another one of it, is installed."

# All that needs no kernel.
install-userspace: install-tools install-skylight install-doc

install-modules: modules
	+$(kmake) M=$(MODDIR) INSTALL_MOD_PATH=$(DESTDIR) INSTALL_MOD_DIR=updates modules_install
	@rm -rf $(MODINST)/tests	# engines that nobody is to trust with data
	@depmod $(if $(DESTDIR),-b $(DESTDIR)) $(KREL)

TRACE = $(DESTDIR)$(PREFIX)/share/dm-shingle/trace

install-tools:
	@$(MAKE) -C userspace install DESTDIR=$(DESTDIR) PREFIX=$(PREFIX)
	install -D -m 755 scripts/trace/shingle-trace $(TRACE)/shingle-trace
	install -D -m 644 -t $(TRACE) scripts/trace/*.awk dkms.conf
	@mkdir -p $(DESTDIR)$(PREFIX)/sbin
	ln -sf ../share/dm-shingle/trace/shingle-trace $(DESTDIR)$(PREFIX)/sbin/shingle-trace
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 scripts/trace/shingle-trace.8

# The probes find their parts beside themselves, and their version.
SKYLIGHT = $(DESTDIR)$(PREFIX)/share/skylight

install-skylight:
	install -D -m 755 scripts/skylight $(SKYLIGHT)/skylight
	install -D -m 644 dkms.conf $(SKYLIGHT)/dkms.conf
	install -D -m 644 -t $(SKYLIGHT)/src/common scripts/src/common/*.py
	install -D -m 644 -t $(SKYLIGHT)/src/skylight scripts/src/skylight/*.py scripts/src/skylight/*.html
	@mkdir -p $(DESTDIR)$(PREFIX)/sbin
	ln -sf ../share/skylight/skylight $(DESTDIR)$(PREFIX)/sbin/skylight
	install -D -m 644 scripts/src/skylight/skylight.8 $(DESTDIR)$(PREFIX)/share/man/man8/skylight.8

# The manual as HTML, to build/docs/html; a warning of Sphinx is an error.
.PHONY: docs
DOCS ?= build/docs
docs:
	@command -v sphinx-build >/dev/null || { \
	  echo "sphinx-build is missing. Debian: apt install python3-sphinx" >&2; exit 1; }
	@sphinx-build -q -W --keep-going -d $(DOCS)/doctrees Documentation $(DOCS)/html
	@echo "$(DOCS)/html/index.html"

DOCDIR = $(DESTDIR)$(PREFIX)/share/doc/dm-shingle

install-doc:
	install -D -m 644 -t $(DOCDIR) README.md LICENSE $(wildcard CHANGELOG.md)
	cp -r --no-preserve=mode,ownership Documentation $(DOCDIR)

# What `dkms install dm-shingle/VERSION` then builds for one kernel after another.
DKMSDIR = $(DESTDIR)/usr/src/dm-shingle-$(call shingle-version,$(TOP))

install-dkms:
	@rm -rf $(DKMSDIR)
	scripts/dkms-tree $(DKMSDIR)

# Debian's packages, to build/deb/bookworm, from a Debian of its own.
deb: | python
	@scripts/lab/debian build

uninstall:
	rm -f $(if $(KREL),$(foreach r,$(ROOMS),$(MODINST)/$(r)/*.ko*))
	-$(if $(KREL),rmdir $(ROOMS:%=$(MODINST)/%) 2>/dev/null)
	@test -z "$(KREL)" -o -n "$(DESTDIR)" || depmod $(KREL)
	rm -rf $(SKYLIGHT) $(DOCDIR) $(dir $(TRACE))
	rm -f $(DESTDIR)$(PREFIX)/sbin/shingle $(DESTDIR)$(PREFIX)/bin/shingle-levels \
	  $(addprefix $(DESTDIR)$(PREFIX)/,bin/shingle-replay share/man/man1/shingle-replay.1) \
	  $(DESTDIR)$(PREFIX)/bin/platter-sim $(DESTDIR)$(PREFIX)/include/shingle-imr.h \
	  $(DESTDIR)$(PREFIX)/share/man/man8/shingle.8 \
	  $(DESTDIR)$(PREFIX)/bin/kv $(DESTDIR)$(PREFIX)/share/man/man1/kv.1 \
	  $(addprefix $(DESTDIR)$(PREFIX)/,include/shingle-kv.h lib/libshingle-kv.a lib/libshingle-kv.so \
	    lib/libshingle-kv.so.1 lib/libshingle-kv.so.1.0.0 \
	    lib/pkgconfig/shingle-kv.pc) \
	  $(DESTDIR)$(PREFIX)/share/bash-completion/completions/shingle \
	  $(DESTDIR)$(UDEVDIR)/65-shingle.rules \
	  $(addprefix $(DESTDIR)$(PREFIX)/,bin/kvbench share/man/man1/kvbench.1 \
	    sbin/shingle-trace share/man/man8/shingle-trace.8 \
	    sbin/skylight share/man/man8/skylight.8 share/man/man5/shingletab.5 share/man/man1/platter-sim.1 \
	    share/man/man1/shingle-levels.1 lib/systemd/system-generators/shingle-generator)

# --- in virtual machines; each gets what it lacks -----------------------------
.PHONY: demo check kunit bench python

# First of all: Python, which the rest of the set-up is written in.
demo check kunit bench lab lab-setup lint: | python

python:
	@scripts/lab/python

demo:
	@scripts/experiments demo

# tests/run --help says what else it can do; CHECK=--quick for developers.
check:
	@scripts/lab/setup
	@tests/run $(CHECK)

kunit:
	@tests/run --suite kunit

bench:
	@scripts/bench/run

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

help:
	@echo "Nothing needed but a Debian machine:"
	@echo "  make demo        a shingled disk, a file system, a power cut, recovery; a picture"
	@echo "  make check       every test, on every kernel of the lab"
	@echo "  make kunit       the engines' and the mechanics' unit tests only"
	@echo "  make bench       speed and memory against dm-linear and its peers;"
	@echo "                   kv against LevelDB and RocksDB"
	@echo "On a machine with device mapper and its kernel's headers:"
	@echo "  make             modules for the running kernel, and the tools"
	@echo "                   KDIR=TREE ARCH=um for another kernel, W=1, C=1, V=1"
	@echo "  make load        load the modules from the build tree (root)"
	@echo "  make unload      unload them (root)"
	@echo "  make install     modules, tools, probes, manuals; PREFIX=/usr/local DESTDIR="
	@echo "  make uninstall   remove those"
	@echo "  make install-dkms  the modules' sources for DKMS; DESTDIR="
	@echo "  make docs        the manual as HTML, to build/docs/html"
	@echo "  make deb         Debian's packages, to build/deb/bookworm (root)"
	@echo "Parts:"
	@echo "  make modules | userspace | test-programs | clean"
	@echo "  make lab         the lab's kernels and which are ready"
	@echo "  make lab-setup   get all of them ahead of time"
	@echo "  make lint        W=1, sparse over every kernel; checkpatch, kernel-doc"
