/* SPDX-License-Identifier: GPL-2.0 */
/* The subset of KUnit that runs the tests in user space, with TAP output. */
#ifndef KUNIT_SHIM_H
#define KUNIT_SHIM_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

struct kunit {
	const char *name;
	void *priv;
	int failures;
	jmp_buf abort;
	void *mem[4096];
	int nr_mem;
};

struct kunit_case {
	void (*run)(struct kunit *test);
	const char *name;
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(fn)	{ fn, #fn }

static inline void *kunit_calloc(struct kunit *test, size_t size)
{
	void *p = calloc(1, size);

	if (test->nr_mem == ARRAY_SIZE(test->mem)) {
		fprintf(stderr, "too many allocations in one test\n");
		exit(1);
	}
	test->mem[test->nr_mem++] = p;
	return p;
}

#define kunit_kzalloc(test, size, gfp)	kunit_calloc(test, size)
#define kunit_kcalloc(test, n, size, gfp) kunit_calloc(test, (size_t)(n) * (size))

#define KUNIT_CHECK(test, cond, fatal, text) do {			\
	if (!(cond)) {							\
		(test)->failures++;					\
		if ((test)->failures < 10)				\
			printf("# %s:%d: %s\n", __FILE__, __LINE__, text); \
		if (fatal)						\
			longjmp((test)->abort, 1);			\
	}								\
} while (0)

/* A comparison that fails prints both values; each side is evaluated once, as in the kernel. */
#define KUNIT_COMPARE(test, left, op, right, fatal) do {		\
	const typeof(left) left_ = (left);				\
	const typeof(right) right_ = (right);				\
									\
	if (!(left_ op right_) && (test)->failures < 9)			\
		printf("# left %lld, right %lld:\n", (long long)left_, (long long)right_); \
	KUNIT_CHECK(test, left_ op right_, fatal, #left " " #op " " #right); \
} while (0)

#define KUNIT_EXPECT_EQ(t, a, b)	KUNIT_COMPARE(t, a, ==, b, 0)
#define KUNIT_EXPECT_LT(t, a, b)	KUNIT_COMPARE(t, a, <, b, 0)
#define KUNIT_EXPECT_LE(t, a, b)	KUNIT_COMPARE(t, a, <=, b, 0)
#define KUNIT_EXPECT_GE(t, a, b)	KUNIT_COMPARE(t, a, >=, b, 0)
#define KUNIT_EXPECT_TRUE(t, a)		KUNIT_CHECK(t, a, 0, #a)
#define KUNIT_EXPECT_FALSE(t, a)	KUNIT_CHECK(t, !(a), 0, "not " #a)
#define KUNIT_ASSERT_EQ(t, a, b)	KUNIT_COMPARE(t, a, ==, b, 1)
#define KUNIT_ASSERT_LT(t, a, b)	KUNIT_COMPARE(t, a, <, b, 1)
#define KUNIT_ASSERT_GE(t, a, b)	KUNIT_COMPARE(t, a, >=, b, 1)
#define KUNIT_ASSERT_TRUE(t, a)		KUNIT_CHECK(t, a, 1, #a)
#define KUNIT_ASSERT_NOT_NULL(t, a)	KUNIT_CHECK(t, (a) != NULL, 1, #a " != NULL")
#define KUNIT_EXPECT_EQ_MSG(t, a, b, fmt, ...) do {			\
	if ((a) != (b) && (t)->failures < 10)				\
		printf("# " fmt "\n", __VA_ARGS__);			\
	KUNIT_EXPECT_EQ(t, a, b);					\
} while (0)

#define kunit_test_suites(suite)					\
int main(void)								\
{									\
	struct kunit_case *volatile c;					\
	volatile int nr = 0, bad = 0;					\
									\
	printf("TAP version 13\n");					\
	for (c = (suite)->test_cases; c->run; c++) {			\
		static struct kunit test;				\
									\
		memset(&test, 0, sizeof(test));				\
		test.name = c->name;					\
		if (!setjmp(test.abort))				\
			c->run(&test);					\
		printf("%sok %d %s\n", test.failures ? "not " : "", ++nr, c->name); \
		bad += !!test.failures;					\
		while (test.nr_mem)					\
			free(test.mem[--test.nr_mem]);			\
	}								\
	printf("1..%d\n", nr);						\
	return bad ? 1 : 0;						\
}									\
extern int platter_kunit_end

#endif /* KUNIT_SHIM_H */
