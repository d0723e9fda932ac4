/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names of the kernel that have nothing to do with time, threads or disks: types, memory, lists,
 * atomic operations, processors, messages.
 *
 * Threads are fibers and change only where scheduler.h says, so an atomic operation is an ordinary
 * one and a barrier is none.
 */
#ifndef SIM_BASE_H
#define SIM_BASE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <shim.h>

#include "scheduler.h"

/* ------------------------------------------------------------------------
 * Compiler
 */

#define __percpu
#define __init
#define __exit
#define noinline		__attribute__((__noinline__))
#define ____cacheline_aligned_in_smp
#define barrier()		do { } while (0)
#undef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#define IS_ERR(p)		((unsigned long)(p) >= (unsigned long)-4095)
#define IS_ERR_OR_NULL(p)	(!(p) || IS_ERR(p))
#define PTR_ERR(p)		((long)(p))
#define ERR_PTR(err)		((void *)(long)(err))

typedef unsigned int gfp_t;

/* An internal error of the code under test ends the run. */
#undef WARN_ON_ONCE
#undef WARN_ON
#define WARN_ON_ONCE(cond) ({						\
	bool hit_ = !!(cond);						\
	if (unlikely(hit_))						\
		sim_fail("internal error at %s:%d: %s", __FILE__, __LINE__, #cond); \
	hit_; })
#define WARN_ON(cond)		WARN_ON_ONCE(cond)

#undef cond_resched
#define cond_resched()		sim_yield()
#define might_sleep()		sim_may_sleep(__func__)

/* ------------------------------------------------------------------------
 * Memory
 */

#undef GFP_KERNEL
#undef GFP_NOIO
#define GFP_KERNEL		0x1U
#define GFP_NOIO		0x2U
#define GFP_NOWAIT		0x4U
#define __GFP_NOWARN		0x100U
#define __GFP_NORETRY		0x400U
#define __GFP_NOMEMALLOC	0x1000U

void *sim_alloc(size_t n, size_t size, gfp_t gfp);
void sim_free(const void *p);

#undef kcalloc
#undef kzalloc
#undef kfree
#define kvcalloc(n, size, gfp)	sim_alloc(n, size, gfp)
#define kvzalloc(size, gfp)	sim_alloc(1, size, gfp)
#define kvmalloc(size, gfp)	sim_alloc(1, size, gfp)
#define kcalloc(n, size, gfp)	sim_alloc(n, size, gfp)
#define kzalloc(size, gfp)	sim_alloc(1, size, gfp)
#define kmalloc(size, gfp)	sim_alloc(1, size, gfp)
#define vmalloc(size)		sim_alloc(1, size, GFP_KERNEL)
#define kvfree(p)		sim_free(p)
#define kfree(p)		sim_free(p)
char *kstrdup(const char *s, gfp_t gfp);

/* A page is its memory. */
#define PAGE_SHIFT		12
#define PAGE_SIZE		(1UL << PAGE_SHIFT)
#define offset_in_page(p)	((unsigned long)(p) & (PAGE_SIZE - 1))
struct page;

static inline struct page *virt_to_page(const void *p)
{
	return (struct page *)((unsigned long)p & ~(PAGE_SIZE - 1));
}

static inline void *page_address(const struct page *page)
{
	return (void *)page;
}

#define vmalloc_to_page(p)	virt_to_page(p)
#define is_vmalloc_addr(p)	false
#define flush_kernel_vmap_range(p, bytes)	do { } while (0)
#define invalidate_kernel_vmap_range(p, bytes)	do { } while (0)

extern u8 sim_zero_page[1 << PAGE_SHIFT];
#define ZERO_PAGE(x)		((struct page *)sim_zero_page)

static inline void memcpy_to_page(struct page *page, size_t offset, const void *from, size_t len)
{
	memcpy((char *)page_address(page) + offset, from, len);
}

static inline void memcpy_from_page(void *to, struct page *page, size_t offset, size_t len)
{
	memcpy(to, (char *)page_address(page) + offset, len);
}

struct page *alloc_page(gfp_t gfp);
void __free_page(struct page *page);

struct kmem_cache;
struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned long flags, void (*ctor)(void *p));
void kmem_cache_destroy(struct kmem_cache *cache);
void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp);
void kmem_cache_free(struct kmem_cache *cache, void *p);

/* GFP_KERNEL between these two is GFP_NOIO, which makes no difference here. */
static inline unsigned int memalloc_noio_save(void)
{
	return 0;
}

static inline void memalloc_noio_restore(unsigned int flags)
{
}

/* ------------------------------------------------------------------------
 * Lists
 */

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *l)
{
	l->next = l->prev = l;
}

static inline void list_between(struct list_head *e, struct list_head *prev,
				struct list_head *next)
{
	next->prev = e;
	e->next = next;
	e->prev = prev;
	prev->next = e;
}

static inline void list_add(struct list_head *e, struct list_head *head)
{
	list_between(e, head, head->next);
}

static inline void list_add_tail(struct list_head *e, struct list_head *head)
{
	list_between(e, head->prev, head);
}

/* A second list_del() of an entry crashes, as in the kernel. */
static inline void list_del(struct list_head *e)
{
	e->next->prev = e->prev;
	e->prev->next = e->next;
	e->next = (void *)0x100;
	e->prev = (void *)0x122;
}

static inline void list_del_init(struct list_head *e)
{
	e->next->prev = e->prev;
	e->prev->next = e->next;
	INIT_LIST_HEAD(e);
}

static inline void list_move(struct list_head *e, struct list_head *head)
{
	list_del(e);
	list_add(e, head);
}

static inline void list_move_tail(struct list_head *e, struct list_head *head)
{
	list_del(e);
	list_add_tail(e, head);
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	list->next->prev = head->prev;
	head->prev->next = list->next;
	list->prev->next = head;
	head->prev = list->prev;
	INIT_LIST_HEAD(list);
}

#define list_entry(p, type, member)	container_of(p, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(e, member)	list_entry((e)->member.next, __typeof__(*(e)), member)
#define list_for_each_entry(e, head, member)					\
	for (e = list_first_entry(head, __typeof__(*e), member); &e->member != (head); \
	     e = list_next_entry(e, member))
#define list_for_each_entry_safe(e, n, head, member)				\
	for (e = list_first_entry(head, __typeof__(*e), member),			\
	     n = list_next_entry(e, member); &e->member != (head);		\
	     e = n, n = list_next_entry(n, member))

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};


/* Returns whether the list was empty. */
static inline bool llist_add(struct llist_node *e, struct llist_head *head)
{
	e->next = head->first;
	head->first = e;
	return !e->next;
}

static inline void init_llist_head(struct llist_head *head)
{
	head->first = NULL;
}

static inline struct llist_node *llist_del_all(struct llist_head *head)
{
	struct llist_node *first = head->first;

	head->first = NULL;
	return first;
}

#define llist_entry(p, type, member) ({						\
	struct llist_node *node_ = (p);						\
	node_ ? container_of(node_, type, member) : NULL; })
#define llist_for_each_entry_safe(e, n, node, member)				\
	for (e = llist_entry(node, __typeof__(*e), member);	\
	     e && (n = llist_entry(e->member.next, __typeof__(*e), member), true); e = n)

/* ------------------------------------------------------------------------
 * Atomic operations, processors
 */

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

#define atomic_read(a)		((a)->counter)
#define atomic_read_acquire(a)	((a)->counter)
#define atomic_set(a, v)	((void)((a)->counter = (v)))
#define atomic_set_release(a, v) atomic_set(a, v)
#define atomic_inc(a)		((void)(a)->counter++)
#define atomic_inc_return(a)	(++(a)->counter)
#define atomic_dec_and_test(a)	(!--(a)->counter)
#define atomic64_read(a)	((a)->counter)
#define atomic64_set(a, v)	((void)((a)->counter = (v)))
#define atomic64_add(n, a)	((void)((a)->counter += (n)))

#define cmpxchg(p, old, new) ({							\
	__typeof__(*(p)) was_ = *(p);						\
	if (was_ == (old))							\
		*(p) = (new);							\
	was_; })
#define smp_mb()		barrier()
#define smp_rmb()		barrier()
#define smp_wmb()		barrier()


/* Each processor's copy is this far behind that of the one before. */
#define SIM_CPU_STRIDE		(16UL << 10)
#define alloc_percpu(type)	((type *)sim_alloc_percpu(sizeof(type)))
void *sim_alloc_percpu(size_t size);
#define free_percpu(p)		sim_free(p)
#define per_cpu_ptr(p, cpu)	((__typeof__(p))((char *)(p) + (size_t)(cpu) * SIM_CPU_STRIDE))
#define sim_this(lvalue)	(*per_cpu_ptr(&(lvalue), sim_cpu()))
#define this_cpu_inc(v)		((void)sim_this(v)++)
#define this_cpu_dec(v)		((void)sim_this(v)--)
#define this_cpu_add(v, n)	((void)(sim_this(v) += (n)))
#define this_cpu_write(v, n)	((void)(sim_this(v) = (n)))
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < SIM_CPUS; (cpu)++)

#define swab32(x)		__builtin_bswap32(x)
#define swab64(x)		__builtin_bswap64(x)
#define get_random_u32()	((u32)sim_random(1ULL << 32))

/* ------------------------------------------------------------------------
 * Text
 */

struct va_format {
	const char *fmt;
	va_list *va;
};

/* With the kernel's %pU, %pV and %pe. */
int sim_vscnprintf(char *buf, size_t size, const char *fmt, va_list args);
int sim_vsnprintf(char *buf, size_t size, const char *fmt, va_list args);
int sim_scnprintf(char *buf, size_t size, const char *fmt, ...);
int sim_snprintf(char *buf, size_t size, const char *fmt, ...);
#define scnprintf		sim_scnprintf
#undef snprintf
#define snprintf		sim_snprintf
#undef vsnprintf
#define vsnprintf		sim_vsnprintf

/* Returns the length, or -E2BIG if it did not fit. */
ssize_t sim_strscpy(char *to, const char *from, size_t size);
#define strscpy(to, from, size)	sim_strscpy(to, from, size)

/* ------------------------------------------------------------------------
 * Modules
 */

struct module {
	const char *name;
};

#define THIS_MODULE		((struct module *)NULL)
/* SIM_MODULE is the name of the module to which the file belongs; modules.c calls these two. */
#define SIM_PASTE_(a, b)	a##b
#define SIM_PASTE(a, b)		SIM_PASTE_(a, b)
#define SIM_LOAD		SIM_PASTE(sim_load_, SIM_MODULE)
#define SIM_UNLOAD		SIM_PASTE(sim_unload_, SIM_MODULE)
#define module_init(fn)		int SIM_LOAD(void); int SIM_LOAD(void) { return fn(); } \
				extern int shim_no_modules
#define module_exit(fn)		void SIM_UNLOAD(void); void SIM_UNLOAD(void) { fn(); } \
				extern int shim_no_modules
#define MODULE_AUTHOR(x)	extern int shim_no_modules
#define MODULE_DESCRIPTION(x)	extern int shim_no_modules
#define MODULE_LICENSE(x)	extern int shim_no_modules
#define MODULE_VERSION(x)	extern int shim_no_modules
#define MODULE_ALIAS(x)		extern int shim_no_modules
#undef EXPORT_SYMBOL_GPL
#define EXPORT_SYMBOL_GPL(x)	extern int shim_no_modules

/* ------------------------------------------------------------------------
 * Power management: the system never hibernates here
 */

struct device;
struct platform_device;

struct notifier_block {
	int (*notifier_call)(struct notifier_block *nb, unsigned long event, void *data);
};

struct dev_pm_ops {
	int (*prepare)(struct device *dev);
};

struct device_driver {
	const char *name;
	const struct dev_pm_ops *pm;
};

struct platform_driver {
	struct device_driver driver;
};

#define CONFIG_PM_SLEEP			1
#define NOTIFY_DONE			0
#define PM_HIBERNATION_PREPARE		1
#define PM_POST_HIBERNATION		2
#define PLATFORM_DEVID_NONE		(-1)
#define platform_driver_register(d)	0
#define platform_driver_unregister(d)	((void)(d))
#define platform_device_register_simple(...) ((struct platform_device *)sim_zero_page)
#define platform_device_unregister(d)	((void)(d))

int register_pm_notifier(struct notifier_block *nb);
void unregister_pm_notifier(struct notifier_block *nb);

#endif /* SIM_BASE_H */
