// SPDX-License-Identifier: GPL-2.0
/* Sums over the counts of host bios that each processor keeps for itself. */
#include "base/device.h"
#include "base/host.h"

/**
 * shingle_quiet_for() - how long has the host been idle?
 * @d: the device
 *
 * Context: any.
 * Return: jiffies, 0 if a bio is in flight.
 */
unsigned long shingle_quiet_for(struct shingle_device *d)
{
	unsigned long now = jiffies, quiet = ULONG_MAX;
	long ios = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		ios += READ_ONCE(per_cpu_ptr(d->cpu, cpu)->ios);
	if (ios)
		return 0;
	/* Pairs with the barrier in host_done(). */
	smp_rmb();
	for_each_possible_cpu(cpu) {
		unsigned long last = READ_ONCE(per_cpu_ptr(d->cpu, cpu)->last_io);

		quiet = min(quiet, time_after(last, now) ? 0 : now - last);
	}
	return quiet;
}

static void sum_counters(struct shingle_device *d, struct shingle_cpu *sum)
{
	int cpu;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct shingle_cpu *c = per_cpu_ptr(d->cpu, cpu);

#define X(name) sum->name += READ_ONCE(c->name)
		SHINGLE_CPU_COUNTERS(X, ;);
#undef X
	}
}

/**
 * shingle_add_counters() - add the counters of the processors
 * @d: the device
 * @n: counters; result
 *
 * Context: map lock.
 */
void shingle_add_counters(struct shingle_device *d, struct shingle_counters *n)
{
	struct shingle_cpu sum;

	lockdep_assert_held(&d->map_lock);
	sum_counters(d, &sum);
#define X(name) n->name += sum.name - d->stats.cleared.name
	SHINGLE_CPU_COUNTERS(X, ;);
#undef X
}

/**
 * shingle_clear_counters() - restart all counters from zero
 * @d: the device
 *
 * Context: map lock.
 */
void shingle_clear_counters(struct shingle_device *d)
{
	lockdep_assert_held(&d->map_lock);
	memset(&d->stats.n, 0, sizeof(d->stats.n));
	sum_counters(d, &d->stats.cleared);
}
