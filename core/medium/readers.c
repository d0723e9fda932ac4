// SPDX-License-Identifier: GPL-2.0
/* Rule R2: a place is not overwritten while a read of it is in flight. */
#include "base/device.h"
#include "medium/medium.h"

/**
 * shingle_reading() - is a read of a set in flight?
 * @d: the device
 * @set: the set, which is not shingle_device::order.reader_set: no read joins it meanwhile
 *
 * All reads that have joined the set are counted, since they joined under the map lock.  A read
 * that ends during the summation can only decrease the sum: if it is zero, all have ended.
 *
 * Context: any, after the map lock was held with another set current.
 * Return: true if a read is in flight.
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
 * shingle_wait_for_readers() - wait for all reads that were looked up before now
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
 * shingle_release() - return freed space to the engine when that is safe
 * @d: the device
 *
 * Rule R2: space is not reused before the reads that were looked up against it have ended.
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
