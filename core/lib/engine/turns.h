/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Turns of the two reasons to clean that may last long: pressure (writes find no room) and a clean
 * that a message requested, which moves all cached blocks home.  Pure.
 *
 * Writes may keep finding no room without end; then a requested clean would never run.  A clean is
 * long, and no write should wait for all of it.  So the two reasons take turns.  The unit is a job,
 * not a step: a job is what an engine chooses once and then does in several steps, whichever reason
 * asks for these.  With steps as the unit, if each job had an even number of steps, the same reason
 * would choose all jobs.
 */
#ifndef SHINGLE_TURNS_H
#define SHINGLE_TURNS_H

#include "engine/engine.h"

/**
 * struct shingle_turns - requests for cleaning by the two reasons that may last
 * @pressure: a write found no room
 * @forced: a message requested a clean
 * @forced_again: the last request came during a clean, which does not cover blocks cached since it
 *	began: another clean follows
 * @over: number of requested cleans that have ended
 * @forced_next: the turn belongs to the clean, otherwise to the write
 *
 * The turn belongs to the reason for which the last job was *not* begun, whatever became of that
 * job.  Core first asks the engine for a step for the reason that has the turn.  It asks for the
 * other reason only if there is nothing to do for the first.  It follows that
 *
 * - neither reason starves: it keeps the turn until a job has begun for it, even while the engine
 *   returns -EAGAIN or lacks a page.  Both conditions end by themselves, with the writes in flight,
 *   a release or a read.  Meanwhile core does not call the engine for the other reason.  Such a
 *   call could make the condition last: while an engine waits for writes in flight it admits no new
 *   write, and a call for another reason would make it admit writes again;
 * - a request waits for the job in progress, one job of the other reason, and its own jobs.  A
 *   clean takes a finite number of jobs, since it does not cover blocks cached after the request.
 *
 * Steps for other reasons take no turn.  The map lock protects all members.
 */
struct shingle_turns {
	bool pressure;
	bool forced;
	bool forced_again;
	bool forced_next;
	u32 over;
};

/**
 * shingle_turns_ask() - request a clean
 * @t: requests for cleaning
 *
 * Further requests do not delay this one.
 *
 * Context: as next_step().
 * Return: a ticket for shingle_turns_over().
 */
static inline u32 shingle_turns_ask(struct shingle_turns *t)
{
	t->forced_again |= t->forced;
	t->forced = true;
	return t->over + 1 + t->forced_again;
}

/**
 * shingle_turns_over() - has a requested clean ended?
 * @t: requests for cleaning
 * @asked: its ticket
 *
 * Context: as next_step().
 * Return: true if it has.
 */
static inline bool shingle_turns_over(const struct shingle_turns *t, u32 asked)
{
	return (s32)(t->over - asked) >= 0;
}

/* Ask the engine for a step for one of the two reasons. */
static inline int shingle_ask_for(struct shingle_engine *e, struct shingle_turns *t, bool forced,
				  struct shingle_step *step)
{
	bool *wanted = forced ? &t->forced : &t->pressure;
	u32 jobs = e->jobs;
	int r = 0;

	while (*wanted && !r) {
		r = e->ops->clean.next_step(e, forced ? SHINGLE_WHY_FORCED : SHINGLE_WHY_PRESSURE,
					    step);
		*wanted = r || (forced && t->forced_again);
		if (!r && forced) {
			t->forced_again = false;
			t->over++;
		}
	}
	if (e->jobs != jobs)
		t->forced_next = !forced;
	return r;
}

/**
 * shingle_take_turn() - the next step for pressure or a requested clean
 * @e: the engine
 * @t: requests for cleaning; a reason for which the engine has nothing more to do is cleared
 * @step: result
 * @why: result, the reason for the step
 *
 * Context: as next_step().
 * Return: as next_step().
 */
static inline int shingle_take_turn(struct shingle_engine *e, struct shingle_turns *t,
				    struct shingle_step *step, enum shingle_why *why)
{
	bool forced = t->forced_next;
	int r = shingle_ask_for(e, t, forced, step);

	if (!r) {
		forced = !forced;
		r = shingle_ask_for(e, t, forced, step);
	}
	*why = forced ? SHINGLE_WHY_FORCED : SHINGLE_WHY_PRESSURE;
	return r;
}

#endif /* SHINGLE_TURNS_H */
