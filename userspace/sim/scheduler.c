// SPDX-License-Identifier: GPL-2.0
/*
 * The scheduler, see sim/scheduler.h, and virtual time.
 *
 * A fiber begins with makecontext(), and from then on changes with siglongjmp(), which makes no
 * system call.
 */
#undef _FORTIFY_SOURCE	/* it refuses a jump to another stack */
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <random.h>

#include "private.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES	(256UL << 10)
#define GUARD_BYTES	4096UL
/* A boot makes less than a tenth of this.  Then threads only wake each other. */
#define MOST_DECISIONS	(16ULL << 20)

/**
 * struct sim_context - a stack and where it was left
 * @env: where it was left; with the address sanitizer @there
 * @begun: it was left there; otherwise it begins with body()
 * @stack: lowest address
 * @bytes: its size
 * @fake: of the address sanitizer
 */
struct sim_context {
#ifdef __SANITIZE_ADDRESS__
	ucontext_t there;
#else
	sigjmp_buf env;
#endif
	bool begun;
	const void *stack;
	size_t bytes;
	void *fake;
};

struct sim_config sim_config;
char sim_why[1024];
struct sim_fiber *sim_now;

static struct sim_context main_context;
static LIST_HEAD(in_use);
static LIST_HEAD(idle);
static struct sim_fiber **ready;
static u32 nr_ready, max_ready;
static u64 rng, decisions, fibers, now_ns, orders;
static struct rb_root events;
static enum sim_end end;

/* ------------------------------------------------------------------------
 * Chance
 */

/**
 * sim_random() - a number from the generator of the run
 * @below: upper bound, at least 1
 *
 * Return: a number below @below.
 */
u64 sim_random(u64 below)
{
	return random_below(&rng, below);
}

/**
 * sim_chance() - one in a number of cases
 * @one_in: the number; 0: none
 *
 * Return: whether this is the case.
 */
bool sim_chance(u32 one_in)
{
	return one_in && !sim_random(one_in);
}

u64 sim_decisions(void)
{
	return decisions;
}

int sim_cpu(void)
{
	return sim_now ? sim_now->cpu : 0;
}

u64 sim_time_ns(void)
{
	return now_ns;
}

/* ------------------------------------------------------------------------
 * Contexts
 */

static void body(void);

/* Make a context in which body() begins on a stack of its own. */
static void prepare(struct sim_context *c, ucontext_t *there)
{
	c->begun = true;
	getcontext(there);
	there->uc_stack.ss_sp = (void *)c->stack;
	there->uc_stack.ss_size = c->bytes;
	there->uc_link = NULL;
	makecontext(there, body, 0);
}

/* Go to another context; returns when another one goes back to this one. */
#ifdef __SANITIZE_ADDRESS__
static void jump(struct sim_context *from, struct sim_context *to)
{
	if (!to->begun)
		prepare(to, &to->there);
	/* The sanitizer does not know siglongjmp() to another stack. */
	__sanitizer_start_switch_fiber(&from->fake, to->stack, to->bytes);
	swapcontext(&from->there, &to->there);
	__sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
}
#else
static void jump(struct sim_context *from, struct sim_context *to)
{
	if (sigsetjmp(from->env, 0))
		return;
	if (!to->begun) {
		ucontext_t there;

		prepare(to, &there);
		setcontext(&there);
	}
	siglongjmp(to->env, 1);
}
#endif

/* ------------------------------------------------------------------------
 * Choice
 */

static void add_ready(struct sim_fiber *f)
{
	if (nr_ready == max_ready) {
		max_ready = max_ready ? 2 * max_ready : 64;
		ready = realloc(ready, max_ready * sizeof(*ready));
		if (!ready)
			abort();
	}
	ready[nr_ready++] = f;
	f->ready = true;
}

static void fire(void *arg)
{
	struct sim_event *ev = arg;

	/* It was disarmed before this fiber got its turn. */
	if (!ev)
		return;
	ev->armed = false;
	ev->fiber = NULL;
	ev->fn(ev->arg);
}

/* Time moves to the next event; returns false if there is none. */
static bool pass_time(void)
{
	struct rb_node *node = rb_first(&events);
	struct sim_event *ev;

	if (!node)
		return false;
	ev = rb_entry(node, struct sim_event, node);
	if (ev->when_ns > now_ns)
		now_ns = ev->when_ns;
	if (sim_config.limit_ns && now_ns > sim_config.limit_ns)
		return false;
	while (node && ev->when_ns <= now_ns) {
		rb_erase(node, &events);
		ev->fiber = sim_spawn("timer", true, fire, ev);
		node = rb_first(&events);
		ev = rb_entry(node, struct sim_event, node);
	}
	return true;
}

/* Add to the reason of a failure what each thread waits for. */
static void add_blocked(void)
{
	size_t used = strlen(sim_why);
	struct sim_fiber *f;

	list_for_each_entry(f, &in_use, entry) {
		if (!f->ready && used < sizeof(sim_why))
			used += snprintf(sim_why + used, sizeof(sim_why) - used,
					 "\n  %s %llu waits: %s", f->name,
					 (unsigned long long)f->nr, f->why);
	}
}

/* The fiber that runs next; NULL for the program, because the run ends. */
static struct sim_fiber *next_fiber(void)
{
	struct sim_fiber *f;
	u32 i;

	decisions++;
	if (sim_config.cut_at && decisions >= sim_config.cut_at) {
		end = SIM_CUT;
		return NULL;
	}
	while (!nr_ready || decisions > MOST_DECISIONS) {
		if (decisions <= MOST_DECISIONS && pass_time())
			continue;
		snprintf(sim_why, sizeof(sim_why), "%s", !nr_ready && RB_EMPTY_ROOT(&events) ?
			 "deadlock: nothing can run" : "the run does not end");
		add_blocked();
		end = SIM_FAILED;
		return NULL;
	}
	i = sim_random(nr_ready);
	f = ready[i];
	ready[i] = ready[--nr_ready];
	f->cpu = sim_random(SIM_CPUS);
	return f;
}

/* The running fiber cannot go on, or need not. */
static void leave(void)
{
	struct sim_fiber *self = sim_now, *next = next_fiber();

	if (next == self)
		return;
	sim_now = next;
	jump(self->context, next ? next->context : &main_context);
}

static void body(void)
{
#ifdef __SANITIZE_ADDRESS__
	const void *bottom;
	size_t bytes;

	__sanitizer_finish_switch_fiber(NULL, &bottom, &bytes);
	if (!main_context.stack) {
		main_context.stack = bottom;
		main_context.bytes = bytes;
	}
#endif
	for (;;) {
		struct sim_fiber *self = sim_now;

		self->fn(self->arg);
		if (self->nr_held)
			sim_fail("%s ends with the lock %s", self->name, self->held[0]->name);
		self->ready = false;
		list_move(&self->entry, &idle);
		leave();
	}
}

static struct sim_fiber *new_fiber(void)
{
	struct sim_fiber *f = calloc(1, sizeof(*f));
	struct sim_context *c = calloc(1, sizeof(*c));
	char *stack = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!f || !c || stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE)) {
		fprintf(stderr, "no memory for another thread\n");
		abort();
	}
	c->stack = stack + GUARD_BYTES;
	c->bytes = STACK_BYTES;
	f->context = c;
	INIT_LIST_HEAD(&f->entry);
	list_add(&f->entry, &idle);
	return f;
}

/**
 * sim_spawn() - begin a fiber
 * @name: for reports; never freed
 * @irq: it is an interrupt, and may not sleep
 * @fn: its function
 * @arg: the argument of @fn
 *
 * Context: any.
 * Return: the fiber, which is another one again after @fn has returned.
 */
struct sim_fiber *sim_spawn(const char *name, bool irq, void (*fn)(void *arg), void *arg)
{
	struct sim_fiber *f;

	if (list_empty(&idle))
		new_fiber();
	f = list_first_entry(&idle, struct sim_fiber, entry);
	list_move_tail(&f->entry, &in_use);
	f->name = name;
	f->nr = ++fibers;
	f->fn = fn;
	f->arg = arg;
	f->irq = irq;
	f->why = NULL;
	f->nr_held = 0;
	f->spins = 0;
	f->bios = NULL;
	add_ready(f);
	return f;
}

/**
 * sim_yield() - a place where the running fiber can be preempted
 *
 * Context: any.
 */
void sim_yield(void)
{
	if (!sim_now || sim_now->spins || !nr_ready || !sim_chance(sim_config.preempt))
		return;
	add_ready(sim_now);
	leave();
}

/**
 * sim_block() - wait for sim_wake()
 * @why: what for; valid while it waits
 *
 * Context: may sleep.
 */
void sim_block(const char *why)
{
	sim_may_sleep(why);
	sim_now->why = why;
	sim_now->ready = false;
	leave();
	sim_now->why = NULL;
}

/**
 * sim_wake() - a fiber that waits can go on
 * @f: the fiber; nothing happens if it does not wait
 *
 * Context: any.
 */
void sim_wake(struct sim_fiber *f)
{
	if (!f->ready && f != sim_now)
		add_ready(f);
}

/**
 * sim_may_sleep() - fail if the running fiber must not sleep
 * @what: what would sleep
 *
 * Context: any.
 */
void sim_may_sleep(const char *what)
{
	if (!sim_now)
		sim_fail("%s sleeps outside of a thread", what);
	if (sim_now->spins)
		sim_fail("%s may sleep, but %s holds %s", what, sim_now->name,
			 sim_now->held[sim_now->nr_held - 1]->name);
	if (sim_now->irq)
		sim_fail("%s may sleep, in an interrupt", what);
}

static void wake_arg(void *arg)
{
	sim_wake(arg);
}

/**
 * sim_sleep_ns() - sleep
 * @ns: time
 *
 * Context: may sleep.
 */
void sim_sleep_ns(u64 ns)
{
	struct sim_event ev = { .armed = false };

	sim_at(&ev, now_ns + ns, wake_arg, sim_now);
	sim_block("time");
}

/* ------------------------------------------------------------------------
 * Events
 */

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->when_ns != b->when_ns ? a->when_ns < b->when_ns : a->order < b->order;
}

/**
 * sim_at() - have an interrupt call a function at a time
 * @ev: not armed; valid until it has happened
 * @when_ns: the time; at once if it is in the past
 * @fn: the function
 * @arg: the argument of @fn
 *
 * Context: any.
 */
void sim_at(struct sim_event *ev, u64 when_ns, void (*fn)(void *arg), void *arg)
{
	struct rb_node **link = &events.rb_node, *parent = NULL;

	if (ev->armed)
		sim_fail("a timer is set twice");
	ev->when_ns = max(when_ns, now_ns);
	ev->order = ++orders;
	ev->fn = fn;
	ev->arg = arg;
	ev->armed = true;
	while (*link) {
		parent = *link;
		link = is_before(ev, rb_entry(parent, struct sim_event, node)) ?
			&parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&ev->node, parent, link);
	rb_insert_color(&ev->node, &events);
}

/**
 * sim_disarm() - forget an event
 * @ev: the event
 *
 * Context: any.
 * Return: whether it was armed: otherwise its function was called, or never will be.
 */
bool sim_disarm(struct sim_event *ev)
{
	if (!ev->armed)
		return false;
	if (ev->fiber)
		ev->fiber->arg = NULL;
	else
		rb_erase(&ev->node, &events);
	ev->fiber = NULL;
	ev->armed = false;
	return true;
}

/* ------------------------------------------------------------------------
 * Runs
 */

/**
 * sim_run() - run until sim_stop(), a power cut or a failure
 *
 * Afterwards sim_halt() forgets all fibers.
 *
 * Context: the program, not a fiber.
 * Return: how the run has ended.
 */
enum sim_end sim_run(void)
{
	end = SIM_DONE;
	sim_why[0] = '\0';
	sim_now = next_fiber();
	if (sim_now) {
		main_context.begun = true;
		jump(&main_context, sim_now->context);
	}
	sim_now = NULL;
	return end;
}

static void __attribute__((__noreturn__)) leave_for(enum sim_end how)
{
	struct sim_context *self = sim_now->context;

	end = how;
	sim_now = NULL;
	jump(self, &main_context);
	abort();	/* Nothing returns to a fiber of a run that has ended. */
}

/**
 * sim_stop() - end the run
 *
 * Context: a fiber.
 */
void sim_stop(void)
{
	leave_for(SIM_DONE);
}

/**
 * sim_fail() - the code under test has done something wrong: end the run
 * @fmt: a sentence without its period
 *
 * Context: any.
 */
void sim_fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	sim_vscnprintf(sim_why, sizeof(sim_why), fmt, args);
	va_end(args);
	if (!sim_now) {
		fprintf(stderr, "%s\n", sim_why);
		abort();
	}
	add_blocked();
#ifdef __SANITIZE_ADDRESS__
	if (sim_log_to)
		__sanitizer_print_stack_trace();
#endif
	leave_for(SIM_FAILED);
}

/**
 * sim_halt() - forget all fibers, events, mapped devices and memory, as a power cut does
 *
 * Cut the power of the disks before: the data of their requests are in memory.
 *
 * Context: the program.
 */
void sim_halt(void)
{
	struct sim_fiber *f, *next;

	list_for_each_entry_safe(f, next, &in_use, entry)
		list_move(&f->entry, &idle);
	list_for_each_entry(f, &idle, entry) {
		f->ready = false;
		f->context->begun = false;
#ifdef __SANITIZE_ADDRESS__
		ASAN_UNPOISON_MEMORY_REGION(f->context->stack, f->context->bytes);
#endif
	}
	nr_ready = 0;
	events = RB_ROOT;
	sim_dm_reboot();
	sim_disks_reboot();
	sim_memory_lost();
}

/**
 * sim_boot() - begin a run, or boot after a power cut: modules are loaded, no thread runs
 * @config: the run's; the generator begins with its seed
 *
 * Context: the program.
 */
void sim_boot(const struct sim_config *config)
{
	sim_config = *config;
	rng = mix64(config->seed);
	decisions = 0;
	now_ns = 0;
	sim_halt();
	sim_modules_reboot();
	sim_work_reboot();
	sim_locks_reboot();
	sim_bios_reboot();
}
