// SPDX-License-Identifier: GPL-2.0
/* What engines in other modules call of the pure code, which knows no modules. */
#include <linux/export.h>

#include "codec.h"
#include "exercise.h"
#include "layout.h"
#include "slotmap.h"

EXPORT_SYMBOL_GPL(shingle_record_set);
EXPORT_SYMBOL_GPL(shingle_band_pblk);
EXPORT_SYMBOL_GPL(shingle_band_of);
EXPORT_SYMBOL_GPL(shingle_group_of);
EXPORT_SYMBOL_GPL(shingle_slotmap_init);
EXPORT_SYMBOL_GPL(shingle_slotmap_exit);
EXPORT_SYMBOL_GPL(shingle_slotmap_find);
EXPORT_SYMBOL_GPL(shingle_slotmap_insert);
EXPORT_SYMBOL_GPL(shingle_slotmap_remove);
EXPORT_SYMBOL_GPL(shingle_slotmap_bytes);

#if IS_ENABLED(CONFIG_KUNIT)
EXPORT_SYMBOL_GPL(shingle_exercise);
EXPORT_SYMBOL_GPL(shingle_exercise_layout);
#endif
