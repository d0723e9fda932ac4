// SPDX-License-Identifier: GPL-2.0
/* Memory: each allocation is known, so that a power cut frees it and an unload finds it leaked. */
#include "private.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)		((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n)	((void)(p), (void)(n))
#endif

/**
 * struct head - what comes before each allocation
 * @start: what free() gets
 * @at: its entry in @all
 *
 * Only this file may touch it, see expose().
 */
struct head {
	void *start;
	u64 at;
};

/* Allocations are aligned for all types. */
#define HEAD_BYTES	64U

u8 sim_zero_page[PAGE_SIZE] __attribute__((__aligned__(PAGE_SIZE)));
static struct head **all;
static u64 nr, room;

static struct head *head_of(const void *p)
{
	return (struct head *)((char *)p - HEAD_BYTES);
}

static struct head *expose(struct head *h)
{
	ASAN_UNPOISON_MEMORY_REGION(h, HEAD_BYTES);
	return h;
}

static void hide(struct head *h)
{
	ASAN_POISON_MEMORY_REGION(h, HEAD_BYTES);
}

static void *allocate(size_t bytes, size_t align)
{
	size_t before = max_t(size_t, HEAD_BYTES, align);
	char *start = aligned_alloc(align, round_up(before + bytes, align));
	struct head *h;

	if (nr == room) {
		room = room ? 2 * room : 1024;
		all = realloc(all, room * sizeof(*all));
	}
	if (!start || !all) {
		fprintf(stderr, "out of memory\n");
		abort();
	}
	h = head_of(start + before);
	h->start = start;
	h->at = nr;
	all[nr++] = h;
	hide(h);
	return start + before;
}

/**
 * sim_alloc() - all functions of the kernel that allocate memory
 * @n: number of elements
 * @size: bytes of each
 * @gfp: whether it may wait: otherwise the run may refuse it
 *
 * The memory is zeroed for those that ask for that, and contains a pattern for the others, too:
 * the kernel may initialise all memory.
 *
 * Context: may sleep with GFP_KERNEL and GFP_NOIO.
 * Return: the memory; NULL if there is none.
 */
void *sim_alloc(size_t n, size_t size, gfp_t gfp)
{
	size_t bytes;
	void *p;

	if (gfp & (GFP_KERNEL | GFP_NOIO)) {
		if (sim_now)
			sim_may_sleep("an allocation");
	} else if (sim_chance(sim_config.no_memory)) {
		return NULL;
	}
	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	p = allocate(bytes, 64);
	memset(p, 0, bytes);
	return p;
}

void sim_free(const void *p)
{
	struct head *h, *last;

	if (!p)
		return;
	h = expose(head_of(p));
	last = all[--nr];
	all[h->at] = last;
	expose(last)->at = h->at;
	hide(last);
	free(expose(h)->start);
}

void *sim_alloc_percpu(size_t size)
{
	if (size > SIM_CPU_STRIDE)
		sim_fail("a percpu allocation of %zu bytes is not simulated", size);
	return sim_alloc(SIM_CPUS, SIM_CPU_STRIDE, GFP_KERNEL);
}

char *kstrdup(const char *s, gfp_t gfp)
{
	char *p = sim_alloc(1, strlen(s) + 1, gfp);

	if (p)
		memcpy(p, s, strlen(s) + 1);
	return p;
}

struct page *alloc_page(gfp_t gfp)
{
	if (!(gfp & (GFP_KERNEL | GFP_NOIO)) && sim_chance(sim_config.no_memory))
		return NULL;
	return allocate(PAGE_SIZE, PAGE_SIZE);
}

void __free_page(struct page *page)
{
	sim_free(page);
}

/**
 * struct kmem_cache - objects of one size
 * @size: the size
 */
struct kmem_cache {
	unsigned int size;
};

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned long flags, void (*ctor)(void *p))
{
	struct kmem_cache *cache = sim_alloc(1, sizeof(*cache), GFP_KERNEL);

	if (cache)
		cache->size = size;
	return cache;
}

void kmem_cache_destroy(struct kmem_cache *cache)
{
	sim_free(cache);
}

void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp)
{
	return sim_alloc(1, cache->size, gfp);
}

void kmem_cache_free(struct kmem_cache *cache, void *p)
{
	sim_free(p);
}

/**
 * sim_allocated() - count the allocations that were not freed
 *
 * Return: the number.
 */
u64 sim_allocated(void)
{
	return nr;
}

/* The power has failed: all memory is free. */
void sim_memory_lost(void)
{
	while (nr)
		free(expose(all[--nr])->start);
}
