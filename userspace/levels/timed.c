// SPDX-License-Identifier: GPL-2.0
/* A drive that keeps its time and nothing else. */
#include "../shingle/tool.h"
#include "profiles.h"
#include "timed.h"

/**
 * timed_init() - a drive at rest, at time 0
 * @t: result
 * @profile: one of platter's
 * @flush_us: what a sync takes, beside the writes that it waits for
 *
 * Returns false after saying what is wrong.
 */
bool timed_init(struct timed *t, const char *profile, u32 flush_us)
{
	const struct platter_profile *p = platter_profile_find(profile);
	static struct platter_config cfg;
	const char *why = "";

	if (!p || !p->sectors) {
		fail("--drive '%s' is not a profile of platter that has a size", profile);
		return false;
	}
	platter_config_init(&cfg, p, p->sectors / 8);
	cfg.profile.flush_us = flush_us;
	memset(t, 0, sizeof(*t));
	if (platter_config_build(&cfg, &t->geo, &t->mech, &why)) {
		fail("--drive '%s': %s", profile, why);
		return false;
	}
	t->bytes = t->geo.blocks * SHINGLE_BLOCK_SIZE;
	return true;
}

/**
 * timed_serve() - carry out a request
 * @t: the drive; its clock is left alone
 * @arrival_ns: of the request, not before that of the one before
 * @writing: write or read
 * @offset: bytes, a multiple of a block
 * @bytes: a multiple of a block
 *
 * Requests are served in their order; the command of one that waits is over when
 * its turn comes, so that what follows closely misses no turn.
 *
 * Returns when it is done.
 */
u64 timed_serve(struct timed *t, u64 arrival_ns, bool writing, u64 offset, u32 bytes)
{
	u64 ready = arrival_ns + (writing ? t->mech.write_overhead_ns : t->mech.overhead_ns);
	struct platter_service svc;

	platter_mech_service(&t->mech, max(ready, t->mech.free_ns),
			     offset / SHINGLE_BLOCK_SIZE,
			     DIV_ROUND_UP(bytes, SHINGLE_BLOCK_SIZE), writing, &svc);
	return svc.finish_ns;
}
