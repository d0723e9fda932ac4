// SPDX-License-Identifier: GPL-2.0
/* Rule R2: nothing is written over what somebody still reads. */
#include "base/device.h"
#include "medium/medium.h"

/**
 * shingle_reading() - is any read under way that belongs to a set?
 * @d: the device
 * @set: which, and not shingle_device::order.reader_set: no read joins it meanwhile
 *
 * What has joined it is counted, since that was under the map lock, and what leaves it
 * meanwhile makes the sum less: if it comes to zero, all have left.
 *
 * Context: any, after the map lock was held with another set current.
 */
bool shingle_reading(struct shingle_device *d, u8 set)
{
	long nr = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		nr += READ_ONCE(per_cpu_ptr(d->cpu, cpu)->readers[set]);
	return nr;
}

/**
 * shingle_wait_for_readers() - until nobody reads by a map looked up before now
 * @d: the device
 *
 * Context: cleaner, may sleep.
 */
void shingle_wait_for_readers(struct shingle_device *d)
{
	u8 old;

	spin_lock_irq(&d->map_lock);
	old = d->order.reader_set;
	d->order.reader_set = !old;
	spin_unlock_irq(&d->map_lock);
	wait_event(d->wait, !shingle_reading(d, old));
}

/**
 * shingle_release() - give freed space back to the engine, if it is safe by now
 * @d: the device
 *
 * Rule R2: space is not reused before the reads that were looked up against it
 * have ended.
 *
 * Context: cleaner, may sleep.
 */
void shingle_release(struct shingle_device *d)
{
	bool more;
	u64 seq;

	spin_lock_irq(&d->map_lock);
	seq = d->journal.durable_seq;
	spin_unlock_irq(&d->map_lock);

	shingle_wait_for_readers(d);

	do {
		spin_lock_irq(&d->map_lock);
		more = d->ops->clean.release(d->engine, seq);
		spin_unlock_irq(&d->map_lock);
		cond_resched();
	} while (more);
}
