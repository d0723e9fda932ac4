/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whose turn it is to have something cleaned.  Pure.
 *
 * Writes may go on to find no room without end, and then who asked for a clean would wait
 * without end; and a clean is long, and no write is to wait for all of it.  So they take turns, and
 * not by steps but by jobs: a job is what an engine chooses and then does in several steps,
 * whoever asks for these.  By steps, jobs of an even number of them would all be chosen by the
 * same one.
 */
#ifndef SHINGLE_TURNS_H
#define SHINGLE_TURNS_H

#include "engine/engine.h"

/**
 * struct shingle_turns - who wants something cleaned, the two that may do so for long
 * @pressure: a write found no room
 * @forced: somebody asked for a clean
 * @forced_again: the engine has begun one before the last of them asked, and takes no
 *	notice of what came between: when it has come to its end, another one
 * @over: so many of what was asked for have come to their end
 * @forced_next: the turn is of who asked for a clean, else of who found no room
 *
 * The turn is of the one for whom the last job was *not* begun, whatever became of that job.
 * Who has it is asked first, and the other one only if that has nothing to do.  It follows that
 *
 * - nobody starves: who has the turn has it until a job has begun for him, also while he is
 *   told -EAGAIN, or that a page is absent.  Either ends by itself, with the writes under way,
 *   a release, a read; and meanwhile no job can begin for the other one, whose question would
 *   undo what makes it end: that the engine lets in no write where it waits for those under way;
 * - who waits does so for what is under way, one job of the other, and his own: a clean takes
 *   a finite number of jobs, since what comes after it was asked for is not of it.
 *
 * Steps for another reason are nobody's turn.
 */
struct shingle_turns {
	bool pressure;
	bool forced;
	bool forced_again;
	bool forced_next;
	u32 over;
};

/**
 * shingle_turns_ask() - somebody asks for a clean
 * @t: who wants something cleaned
 *
 * Others may ask again and again: what they ask for is not waited for.
 *
 * Context: as next_step().  Returns which one he waits for: shingle_turns_over().
 */
static inline u32 shingle_turns_ask(struct shingle_turns *t)
{
	t->forced_again |= t->forced;
	t->forced = true;
	return t->over + 1 + t->forced_again;
}

/**
 * shingle_turns_over() - has what somebody asked for come to its end?
 * @t: who wants something cleaned
 * @asked: which one it is
 *
 * Context: as next_step().
 */
static inline bool shingle_turns_over(const struct shingle_turns *t, u32 asked)
{
	return (s32)(t->over - asked) >= 0;
}

/* For one of the two. */
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
 * shingle_take_turn() - the next step for who wants something cleaned
 * @e: the engine
 * @t: who does; of whom the engine has nothing more to do he does not any more
 * @step: result
 * @why: result, for whom it is
 *
 * Context: as next_step().  Returns what that does.
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
