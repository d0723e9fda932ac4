/* SPDX-License-Identifier: GPL-2.0 */
#ifndef REPLAY_REPORT_H
#define REPLAY_REPORT_H

#include "log.h"

/**
 * struct series - long seeks over a run
 * @ops: requests of an interval, 0 = no series
 * @nr: intervals
 * @host: long seeks of the untranslated trace in each
 * @medium: and of the log
 */
struct series {
	u64 ops;
	u64 nr;
	u64 *host;
	u64 *medium;
};

void report_json(struct replay_log *l, const struct series *s, double seconds);
void report_text(struct replay_log *l, double seconds);

#endif /* REPLAY_REPORT_H */
