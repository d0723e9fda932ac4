/* SPDX-License-Identifier: GPL-2.0 */
/* A run: a layer over disks, hosts that use it, and an administrator. */
#ifndef WORLD_H
#define WORLD_H

#include "layers.h"
#include "oracle.h"

/**
 * struct run_config - what a run is made of
 * @image: the formatted layer
 * @seed: everything else depends on it
 * @boots: number of boots; every one but the last ends by a power cut
 * @ops: requests of all hosts in the last boot; earlier ones are cut by chance
 * @faults: some boots have disks with errors
 * @drops: with @faults: a FLUSH that fails has dropped what was in the disk's cache
 * @feature: a feature for the table line, or NULL
 */
struct run_config {
	const struct layer_image *image;
	u64 seed;
	u32 boots;
	u32 ops;
	bool faults;
	bool drops;
	const char *feature;
};

/**
 * struct run_result - what a run has done
 * @cuts: power cuts survived
 * @decisions: decisions of the scheduler
 * @requests: requests of the hosts
 * @errors: requests of the hosts that have failed because a disk has
 * @boot: the boot that has failed
 * @why: what is wrong; empty if nothing is
 */
struct run_result {
	u64 cuts;
	u64 decisions;
	u64 requests;
	u64 errors;
	u32 boot;
	char why[1024];
};

bool world_run(const struct run_config *config, struct run_result *result);

#endif /* WORLD_H */
