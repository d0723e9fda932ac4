// SPDX-License-Identifier: GPL-2.0
/*
 * Hibernation.
 *
 * After the kernel has copied its memory it thaws the disks, to write the copy to one of them.
 * Workqueues and timers run meanwhile.  A cleaning step, a commit or a checkpoint at that time
 * would change the disks, but not the copy; the map that is restored with the copy would be older
 * than the disks.  So the targets must not start anything by themselves from the copy on until the
 * system runs again.
 *
 * Freezable workqueues are no solution.  Threads of file systems are frozen at the same time and
 * may wait for a write that waits for the cleaner: then the one could not freeze without the other.
 * The .prepare callback of a device comes after all of them are frozen and before the copy, while
 * disks still work.  It cannot distinguish hibernation from suspend to RAM; the notifier can.
 */
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/pm.h>
#include <linux/suspend.h>

#include "base/device.h"
#include "base/loss.h"
#include "target/target.h"

static struct platform_device *guard;
static bool hibernating;

static int notice(struct notifier_block *nb, unsigned long event, void *unused)
{
	switch (event) {
	case PM_HIBERNATION_PREPARE:
		WRITE_ONCE(hibernating, true);
		break;
	case PM_POST_HIBERNATION:
		/* Also in the restored copy, and if hibernation has failed. */
		WRITE_ONCE(hibernating, false);
		shingle_visit_active(shingle_let_go);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block notifier = { .notifier_call = notice };

static int __maybe_unused prepare(struct device *dev)
{
	if (READ_ONCE(hibernating))
		shingle_visit_active(shingle_hold);
	return 0;
}

static const struct dev_pm_ops pm_ops = {
#ifdef CONFIG_PM_SLEEP
	.prepare = prepare,
#endif
};

static struct platform_driver driver = {
	.driver = { .name = "dm-shingle", .pm = &pm_ops },
};

static int __init shingle_init(void)
{
	int err = platform_driver_register(&driver);

	if (err)
		return err;
	guard = platform_device_register_simple("dm-shingle", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(guard)) {
		err = PTR_ERR(guard);
		goto no_device;
	}
	err = register_pm_notifier(&notifier);
	if (!err)
		return 0;
	platform_device_unregister(guard);
no_device:
	platform_driver_unregister(&driver);
	return err;
}

static void __exit shingle_exit(void)
{
	shingle_loss_forget();
	unregister_pm_notifier(&notifier);
	platform_device_unregister(guard);
	platform_driver_unregister(&driver);
}

module_init(shingle_init);
module_exit(shingle_exit);
