/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Userspace counterpart of core/lib/pure.h: the few kernel names that the pure files use,
 * with the kernel's meaning.
 */
#ifndef SHINGLE_SHIM_H
#define SHINGLE_SHIM_H

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

#define U8_MAX		((u8)~0U)
#define U16_MAX		((u16)~0U)
#define U32_MAX		((u32)~0U)
#define U64_MAX		((u64)~0ULL)
#define S32_MAX		((s32)(U32_MAX >> 1))
#define S64_MAX		((s64)(U64_MAX >> 1))

#define __packed	__attribute__((__packed__))
#define __printf(a, b)	__attribute__((__format__(printf, a, b)))
#define __maybe_unused	__attribute__((__unused__))
#define __must_check	__attribute__((__warn_unused_result__))
#define __uninitialized
#define fallthrough	__attribute__((__fallthrough__))
#define EXPORT_SYMBOL_GPL(symbol)	extern int shim_no_modules

#define cond_resched()	do { } while (0)

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define prefetch(x)	__builtin_prefetch(x)
#define prefetchw(x)	__builtin_prefetch(x, 1)

#define READ_ONCE(x)		(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v)	(*(volatile __typeof__(x) *)&(x) = (v))

#define BUILD_BUG_ON(cond)	static_assert(!(cond), #cond)
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#define struct_size(p, member, n) \
	(sizeof(*(p)) + sizeof(*(p)->member) * (size_t)(n))

/* Called at each internal error that is reported, in programs that define it. */
void shim_warned(void) __attribute__((weak));

/* Report an internal error once and continue, as the kernel does. */
#define WARN_ON_ONCE(cond) ({						\
	static bool warned_;						\
	bool hit_ = !!(cond);						\
	if (hit_ && !warned_) {						\
		warned_ = true;						\
		fprintf(stderr, "internal error at %s:%d: %s\n",	\
			__FILE__, __LINE__, #cond);			\
		if (shim_warned)					\
			shim_warned();					\
	}								\
	hit_; })
#define WARN_ON(cond)		WARN_ON_ONCE(cond)

#define min(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ > b_ ? a_ : b_; })
#define min3(a, b, c)		min(min(a, b), c)
#define max3(a, b, c)		max(max(a, b), c)
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
#define clamp(v, lo, hi)	min(max(v, lo), hi)
#define clamp_t(type, v, lo, hi) min_t(type, max_t(type, v, lo), hi)
#define swap(a, b) do { __typeof__(a) t_ = (a); (a) = (b); (b) = t_; } while (0)

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define round_up(x, y)		(((x) + (y) - 1) & ~((__typeof__(x))(y) - 1))
#define roundup(x, y)		(DIV_ROUND_UP(x, y) * (y))
#define rounddown(x, y)		((x) - (x) % (y))

#ifdef SHINGLE_SHIM_32_BIT
/*
 * tests/unit/test_32_bit.py compiles the pure files for a 32-bit processor and checks their
 * undefined symbols: these functions are allowed, and functions of libgcc are not.
 */
u64 div_u64(u64 a, u32 b);
u64 div64_u64(u64 a, u64 b);
u64 div_u64_rem(u64 a, u32 b, u32 *rem);
u64 div64_u64_rem(u64 a, u64 b, u64 *rem);
s64 div_s64(s64 a, s32 b);
u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c);
#else
static inline u64 div_u64(u64 a, u32 b)
{
	return a / b;
}

static inline u64 div64_u64(u64 a, u64 b)
{
	return a / b;
}

static inline u64 div_u64_rem(u64 a, u32 b, u32 *rem)
{
	*rem = a % b;
	return a / b;
}

static inline u64 div64_u64_rem(u64 a, u64 b, u64 *rem)
{
	*rem = a % b;
	return a / b;
}

static inline s64 div_s64(s64 a, s32 b)
{
	return a / b;
}

static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c)
{
	return (unsigned __int128)a * b / c;
}
#endif

/* Like the kernel's macro, with a divisor of 32 bits. */
#define DIV_ROUND_UP_ULL(n, d)	div_u64((u64)(n) + (d) - 1, d)

static inline u64 mul_u32_u32(u32 a, u32 b)
{
	return (u64)a * b;
}

#define check_add_overflow(a, b, d)	__builtin_add_overflow(a, b, d)
#define check_mul_overflow(a, b, d)	__builtin_mul_overflow(a, b, d)

#define cpu_to_le16(x)		((__le16)htole16(x))
#define cpu_to_le32(x)		((__le32)htole32(x))
#define cpu_to_le64(x)		((__le64)htole64(x))
#define le16_to_cpu(x)		((u16)le16toh((u16)(x)))
#define le32_to_cpu(x)		((u32)le32toh((u32)(x)))
#define le64_to_cpu(x)		((u64)le64toh((u64)(x)))

#define BITS_PER_LONG		(CHAR_BIT * (int)sizeof(long))
#define BITS_TO_LONGS(n)	DIV_ROUND_UP((size_t)(n), (unsigned int)BITS_PER_LONG)
/* BITS_TO_LONGS() must not overflow for the largest map. */
static_assert(sizeof(long) == 4 || BITS_TO_LONGS(UINT_MAX) > 1, "counted in 32 bits");
#define BIT(n)			(1UL << (n))
#define BIT_ULL(n)		(1ULL << (n))

static inline bool test_bit(unsigned long n, const unsigned long *p)
{
	return p[n / BITS_PER_LONG] >> (n % BITS_PER_LONG) & 1;
}

static inline void __set_bit(unsigned long n, unsigned long *p)
{
	p[n / BITS_PER_LONG] |= 1UL << (n % BITS_PER_LONG);
}

static inline void __clear_bit(unsigned long n, unsigned long *p)
{
	p[n / BITS_PER_LONG] &= ~(1UL << (n % BITS_PER_LONG));
}

static inline bool __test_and_set_bit(unsigned long n, unsigned long *p)
{
	bool old = test_bit(n, p);

	__set_bit(n, p);
	return old;
}

static inline bool __test_and_clear_bit(unsigned long n, unsigned long *p)
{
	bool old = test_bit(n, p);

	__clear_bit(n, p);
	return old;
}

static inline unsigned long find_next_bit(const unsigned long *p, unsigned long size,
					  unsigned long from)
{
	while (from < size && !test_bit(from, p)) {
		/* Skip the rest of a word without set bits, as the kernel does. */
		if (p[from / BITS_PER_LONG] >> from % BITS_PER_LONG)
			from++;
		else
			from += BITS_PER_LONG - from % BITS_PER_LONG;
	}
	return from < size ? from : size;
}

static inline void bitmap_set(unsigned long *p, unsigned int from, unsigned int n)
{
	for (; n; n--, from++)
		__set_bit(from, p);
}

static inline void bitmap_clear(unsigned long *p, unsigned int from, unsigned int n)
{
	for (; n; n--, from++)
		__clear_bit(from, p);
}

static inline unsigned long find_next_zero_bit(const unsigned long *p, unsigned long size,
					       unsigned long from)
{
	while (from < size && test_bit(from, p))
		from++;
	return from;
}

/* Returns @size if no bit below it is set. */
static inline unsigned long find_last_bit(const unsigned long *p, unsigned long size)
{
	unsigned long at = size;

	while (at && !test_bit(at - 1, p))
		at--;
	return at ? at - 1 : size;
}

#define find_first_bit(p, size)		find_next_bit(p, size, 0)
#define find_first_zero_bit(p, size)	find_next_zero_bit(p, size, 0)

/* Find the first byte that is not @c. */
static inline void *memchr_inv(const void *start, int c, size_t bytes)
{
	const u8 *p = start;

	/* True if each byte equals the previous one. */
	if (bytes && *p == (u8)c && !memcmp(p, p + 1, bytes - 1))
		return NULL;
	for (; bytes; p++, bytes--) {
		if (*p != (u8)c)
			return (void *)p;
	}
	return NULL;
}

static inline unsigned long hweight_long(unsigned long w)
{
	return (unsigned long)__builtin_popcountl(w);
}

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

static inline int fls(u32 x)
{
	return fls64(x);
}

static inline unsigned long __ffs(unsigned long x)
{
	return (unsigned long)__builtin_ctzl(x);
}

#define ilog2(x)		(fls64(x) - 1)

static inline u32 hash_32(u32 v, unsigned int bits)
{
	return v * 0x61C88647U >> (32 - bits);
}

static inline u32 hash_64(u64 v, unsigned int bits)
{
	return (u32)(v * 0x61C8864680B583EBULL >> (64 - bits));
}

#define GFP_KERNEL	0U
#define GFP_NOIO	0U

static inline void *kvcalloc(size_t n, size_t size, unsigned int gfp)
{
	(void)gfp;
	return calloc(n ? n : 1, size);
}

static inline void *kvzalloc(size_t size, unsigned int gfp)
{
	return kvcalloc(1, size, gfp);
}

static inline void kvfree(const void *p)
{
	free((void *)p);
}

#define kcalloc(n, size, gfp)	kvcalloc(n, size, gfp)
#define kzalloc(size, gfp)	kvzalloc(size, gfp)
#define kfree(p)		kvfree(p)

int kstrtou32(const char *s, unsigned int base, u32 *out);
int kstrtou64(const char *s, unsigned int base, u64 *out);
#define kstrtouint(s, base, out)	kstrtou32(s, base, out)
#define kstrtoull(s, base, out)		kstrtou64(s, base, out)

/* Like the kernel's function: no inversion of the input or the result. */
u32 crc32c(u32 crc, const void *buf, size_t len);

#endif /* SHINGLE_SHIM_H */
