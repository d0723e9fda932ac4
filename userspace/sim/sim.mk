# SPDX-License-Identifier: GPL-2.0
# How a program is built that contains the simulated kernel and the unmodified modules.  A Makefile
# includes it after tests/check.mk, and links $(SIM_KERNEL) and $(SIM_MODULES).
#
# The modules find a header for each <linux/...> that they name in $(SIM_HEADERS); each is
# userspace/sim/include/sim/kernel.h.  objcopy gives the sections of their data the names that
# modules.c restores at each boot.
SIM         := $(TOP)/userspace/sim
SIM_WORK    := $(WORK)/sim
SIM_HEADERS := $(SIM_WORK)/include
SIM_NAMES   := $(addprefix linux/,atomic.h bio.h bitmap.h bitops.h blk_types.h blkdev.h build_bug.h \
	completion.h crc32c.h device-mapper.h dm-io.h export.h fcntl.h highmem.h hrtimer.h \
	interval_tree_generic.h ioprio.h kernel.h list.h llist.h lockdep.h math64.h mm.h \
	module.h mutex.h percpu.h platform_device.h pm.h prefetch.h random.h rbtree.h rcupdate.h \
	sched.h sched/mm.h slab.h sort.h spinlock.h string.h suspend.h timer.h tracepoint.h \
	vmalloc.h wait.h workqueue.h xarray.h)

TARGETS     := dm-stl/stl-target.c dm-imr/imr-target.c dm-tiler/tiler-target.c \
	dm-dualbuffer/dual/target.c dm-dualbuffer/rmwf/target.c
MODULES     := $(CORE_LIB) $(CORE_KERNEL) $(ENGINES) $(TARGETS) $(PLATTER_KERNEL) \
	$(PLATTER_MECHANICS)
SIM_SOURCES := $(wildcard $(SIM)/*.c)

SIM_MODULES := $(addprefix $(SIM_WORK)/modules/,$(MODULES:.c=.o))
SIM_KERNEL  := $(patsubst $(SIM)/%.c,$(SIM_WORK)/kernel/%.o,$(SIM_SOURCES)) \
	$(SIM_WORK)/kernel/shim.o

# No position independence: it would put constants that contain addresses into further sections.
SIM_CFLAGS  := $(filter-out -W%,$(CFLAGS)) -Wall -Wno-unused-variable -fno-pie -fno-strict-aliasing -D_GNU_SOURCE
SIM_MODULE_CFLAGS := $(addprefix -I,$(SIM_HEADERS) $(SIM)/include $(SIM_HEADERS)/sim) \
	-D__KERNEL__ $(addprefix -I$(TOP)/,userspace/include core core/lib core/base dm-platter \
	dm-stl dm-imr dm-tiler dm-dualbuffer) $(SIM_CFLAGS) -DSHINGLE_RELEASE='"simulated"' \
	$(addprefix -DSHINGLE_HAVE_,HRTIMER_SETUP BLK_MODE_T DM_IO_UNSUP BIO_WRITE_HINT \
	FLAG_MISALIGNED MAX_HW_DISCARD_LIMIT_ONLY FEAT_ROTATIONAL)
module_of = $(if $(filter core/%,$(1)),shingle,$(if $(filter dm-dualbuffer/rmwf/%,$(1)),rmwf,$(word 2,\
	$(subst -, ,$(firstword $(subst /, ,$(1)))))))

$(SIM_HEADERS)/made: $(SIM)/sim.mk
	@mkdir -p $(SIM_HEADERS)/linux/sched $(SIM_HEADERS)/trace
	@for n in $(SIM_NAMES); do echo '#include <sim/kernel.h>' > $(SIM_HEADERS)/$$n; done
	@echo '#include <sim/sort.h>' >> $(SIM_HEADERS)/linux/sort.h
	@: > $(SIM_HEADERS)/trace/define_trace.h
	@touch $@

$(SIM_WORK)/modules/%.o: $(TOP)/%.c $(SIM_HEADERS)/made
	@mkdir -p $(dir $@)
	@echo "  CC    sim $*.c"
	$(Q)$(CC) $(SIM_MODULE_CFLAGS) -DSIM_MODULE=$(call module_of,$*) -MMD -MP -c -o $@ $<
	$(Q)objcopy --rename-section .data=module_data,alloc,load,data,contents \
		--rename-section .bss=module_bss,alloc,load,data,contents $@

$(SIM_WORK)/kernel/%.o: $(SIM)/%.c
	@mkdir -p $(dir $@)
	@echo "  CC    sim $*.c"
	$(Q)$(CC) -I$(SIM)/include -I$(SIM) -I$(TOP)/userspace/include $(SIM_CFLAGS) \
		-MMD -MP -c -o $@ $<

$(SIM_WORK)/kernel/shim.o: $(TOP)/userspace/include/shim.c
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(SIM_CFLAGS) -MMD -MP -c -o $@ $<
