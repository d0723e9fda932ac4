// SPDX-License-Identifier: GPL-2.0
/*
 * Structures of callers that were built with another version of the library: shorter, longer, or
 * without a size.
 */
#include "model.h"

/* As a later header would have them. */
struct later_options {
	struct kv_options now;
	uint64_t more;
};

struct later_stats {
	struct kv_stats now;
	uint64_t more;
};

static void open_sized(struct sim *s, const struct kv_options *opt, int want, const char *words)
{
	struct kv *kv;
	int err = sim_open(&kv, s, opt);

	if (err != want)
		die("options of %zu bytes: %d and not %d", opt->size, err, want);
	if (err && !strstr(kv_error(), words))
		die("options of %zu bytes: %s", opt->size, kv_error());
	if (!err)
		kv_close(kv);
}

static void test_options(struct sim *s)
{
	struct later_options l = { .now = options };
	struct kv_options none = options;

	none.size = 0;
	open_sized(s, &none, -EINVAL, "has an unknown size");
	/* The size alone is not valid. */
	none.size = sizeof(none.size);
	open_sized(s, &none, -EINVAL, "has an unknown size");
	/* From an older header, which ends before a field with an invalid value. */
	none.size = offsetof(struct kv_options, l0_trigger);
	none.l0_trigger = 5000;
	open_sized(s, &none, 0, "");
	none.size = sizeof(none);
	open_sized(s, &none, -EINVAL, "l0_trigger");
	l.now.size = sizeof(l);
	open_sized(s, &l.now, 0, "");
	l.more = 1;
	open_sized(s, &l.now, -E2BIG, "does not know");
}

static void test_stats(struct kv *kv)
{
	struct later_stats l = { .now.size = sizeof(l), .more = 7 };
	struct kv_stats s = { .size = 0 };

	if (kv_stats(kv, &s) != -EINVAL)
		die("figures without a size are given");
	s.size = offsetof(struct kv_stats, bands_free);
	s.bands_free = 12345;
	if (kv_stats(kv, &s) || s.bands != kv->head.bands || s.bands_free != 12345 ||
	    s.size != offsetof(struct kv_stats, bands_free))
		die("a shorter struct: %lu bands, %lu free", s.bands, s.bands_free);
	if (kv_stats(kv, &l.now) || l.now.bands != kv->head.bands || l.more ||
	    l.now.size != sizeof(l))
		die("a longer struct: %lu bands, %lu behind", l.now.bands, l.more);
}

static void test_shape(struct kv *kv)
{
	struct kv_shape s = { .size = 0 };

	if (kv_shape(kv, &s) != -EINVAL)
		die("a shape without a size is given");
	s.size = offsetof(struct kv_shape, bands);
	s.bands = 12345;
	if (kv_shape(kv, &s) || s.band_bytes != BAND || s.bands != 12345)
		die("a shorter shape: %u bytes, %u bands", s.band_bytes, s.bands);
}

void test_sizes(u64 seed, u32 count)
{
	struct kv_format_options shape = { .size = 0 };
	struct sim *s = formatted(BYTES);
	struct kv *kv;

	test_options(s);
	kv = opened(s, "sizes");
	test_stats(kv);
	test_shape(kv);
	kv_close(kv);
	/* The disk is closed with the store, but keeps its contents. */
	if (store_format(sim_disk(s), &shape, (const u8 *)"0123456789abcdef") != -EINVAL)
		die("a store is made without the size of its options");
	sim_free(s);
}
