# SPDX-License-Identifier: GPL-2.0
# The sources of the modules, as paths from the top: a new file is a word in one of these lists.
# Kbuild files build them into modules, userspace/ and tests/ into programs.  All but the lists named
# ..._KERNEL know no kernel; only the simulated kernel (userspace/sim) builds those into programs.
CORE_FORMAT := $(addprefix core/lib/,$(addprefix format/,codec.c layout.c bands.c superblock.c \
	checkpoint-scan.c journal-scan.c journal-seal.c fetch.c replay.c recover.c) \
	$(addprefix geometry/,geometry.c tracks.c) engine/badlist.c pages/pages.c)
CORE_EXTENTS := $(addprefix core/lib/extents/,extents.c tree.c build.c verify.c)
CORE_READS  := $(addprefix core/lib/reads/,around.c readcache.c remedies.c seeks.c)
CORE_ENGINE := $(addprefix core/lib/engine/,slotlog.c slotmap.c streams.c) $(CORE_EXTENTS) \
	$(CORE_READS)
CORE_LIB    := $(CORE_FORMAT) $(CORE_ENGINE) $(addprefix core/lib/engine/,keys.c settings.c \
	trimlist.c)

# The files of core that know the kernel, layers from the top to the bottom.
CORE_KERNEL := $(addprefix core/,$(addprefix target/,target.c options.c status.c message.c reset.c \
	hibernate.c) $(addprefix clean/,cleaner.c copy.c epoch.c) $(addprefix io/,bio.c waiting.c \
	reads.c wcache.c destage.c gather.c) map/place.c $(addprefix log/,journal.c checkpoint.c \
	pages.c load.c) $(addprefix medium/,order.c readers.c rw.c) $(addprefix base/,mode.c host.c \
	loss.c))

STL_SET  := $(addprefix dm-stl/set/,engine.c clean.c bypass.c state.c recover.c)
STL_FULL := $(addprefix dm-stl/full/,engine.c log.c clean.c bands.c state.c recover.c)
STL_LOG  := $(addprefix dm-stl/log/,engine.c write.c steps.c clean.c reads.c segments.c \
	state.c recover.c)
STL      := $(STL_SET) $(STL_FULL) $(STL_LOG)

IMR := $(addprefix dm-imr/,$(addprefix imr-,engine.c epoch.c persist.c steps.c tiers.c state.c \
	format.c options.c verify.c) policy.c)

TILER := $(addprefix dm-tiler/tiler-,engine.c resident.c steps.c format.c options.c region.c \
	write.c clean.c map.c)

# The algorithms alone, which tests build without core.
DUAL_ALGORITHMS := $(addprefix dm-dualbuffer/dual/,ready.c cache.c clean.c select.c rounds.c \
	predict.c)
DUAL := $(addprefix dm-dualbuffer/dual/,engine.c steps.c recover.c options.c) $(DUAL_ALGORITHMS)
RMWF := $(addprefix dm-dualbuffer/rmwf/,engine.c steps.c recover.c options.c space.c flash.c \
	collect.c)

ENGINES := $(STL) $(IMR) $(TILER) $(DUAL) $(RMWF)

PLATTER_KERNEL    := $(addprefix dm-platter/,$(addprefix platter-,target.c queue.c actuator.c \
	cache.c loss.c media.c options.c) damage.c)
PLATTER_MECHANICS := $(addprefix dm-platter/,mech.c profiles.c)

# $(call sources-of,DIRECTORY,SOURCES): the objects of SOURCES as DIRECTORY/Kbuild names them.
sources-of = $(patsubst $(1)/%.c,%.o,$(2))
