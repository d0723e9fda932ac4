// SPDX-License-Identifier: GPL-2.0
/*
 * The cleaning that a store causes in the layers below.  The store's requests are given in order to
 * the engines of stl-set and stl-full, in the way core does, one at a time and each durable at
 * once.  The engines clean only when they must.  The test counts for each band that the store
 * begins whether the disk sees it as the continuation of a stream, and for each band that an engine
 * cleans its owner.
 */
#include "exercise.h"
#include "full/engine.h"
#include "model.h"
#include "set/engine.h"

#define LAYER_BAND	64U	/* blocks: 256 KiB */
#define LAYER_BANDS	192U
#define STORE_BAND	(LAYER_BAND * BLOCK_BYTES)
/* Spare bands of each of the two zones of stl-full, as in tests/guest/kv.py. */
#define PROVISION	13U
/* Setting of stl-set, as in tests/guest/kv.py. */
#define BYPASS		"16"

/* Owner of a band of the layer: determined by the last write to it. */
enum owner { OWNER_REGION, OWNER_LOG, OWNER_TABLE, OWNER_LEAD, NR_OWNERS };

static const char *const owner_names[NR_OWNERS] = { "region", "log", "table", "lead-in" };

/**
 * struct layer - an engine below the store
 * @e: the engine
 * @l: the layout of @e
 * @seq: number of the open transaction
 * @rec: buffer for records
 * @emit: records of the current call
 * @cleaned: number of bands cleaned, by owner
 */
struct layer {
	struct shingle_engine *e;
	struct shingle_layout l;
	u64 seq;
	struct shingle_record rec[64];
	struct shingle_emit emit;
	u64 cleaned[NR_OWNERS];
};

/**
 * struct watch - the requests of the store to its disk
 * @sim: the disk of the store
 * @layer: engines that get the same requests
 * @owner: owner of each band
 * @at: number of blocks written of each band
 * @next: the block behind the last write to a band
 * @blocks: number of blocks written
 * @zeroes: number of those that are in bands and zero; the store counts zeroes as padding
 * @reported: number of blocks written according to the store's statistics, without those of closing
 *	it
 * @reported_pad: number of those that are zeroes written for KV_STREAM only
 * @begun: number of bands begun, by owner
 * @behind: number of those that follow the write before
 * @led: number of those that follow a lead-in
 * @left: number of bands that were not written to their end before another one was begun
 */
struct watch {
	struct sim *sim;
	struct layer layer[2];
	enum owner owner[LAYER_BANDS];
	u32 at[LAYER_BANDS];
	u64 next, blocks, zeroes, reported, reported_pad;
	u64 begun[NR_OWNERS], behind[NR_OWNERS], led[NR_OWNERS], left[NR_OWNERS];
};

static struct watch watched;

static struct shingle_emit *emit(struct layer *d)
{
	d->emit = (struct shingle_emit){ .rec = d->rec, .max = ARRAY_SIZE(d->rec),
					 .seq = d->seq };
	return &d->emit;
}

static void release(struct layer *d)
{
	shingle_release_all(d->e, d->seq++);
}

static u64 counted(const struct layer *d, const char *name)
{
	return shingle_exercise_counter(d->e, name);
}

static int clean(struct watch *w, struct layer *d, enum shingle_why why)
{
	struct shingle_step step;
	u64 before = counted(d, "bands_cleaned"), band;
	int r = d->e->ops->clean.next_step(d->e, why, &step);

	if (r < 0)
		release(d);
	if (r <= 0)
		return r;
	d->e->ops->clean.step_done(d->e, &step, emit(d));
	shingle_finish_tidy(d->e);
	release(d);
	if (counted(d, "bands_cleaned") != before) {
		band = step.lblk / LAYER_BAND;
		d->cleaned[w->owner[band]]++;
	}
	return r;
}

static void layer_write(struct watch *w, struct layer *d, u64 lblk, u64 n)
{
	struct shingle_run run;
	u32 tries = 0;
	int r;

	while (n) {
		r = d->e->ops->map.place(d->e, lblk, (u32)min_t(u64, n, U32_MAX / 2),
					 SHINGLE_LIFE_UNKNOWN, &run);
		if (r == -EBUSY)
			release(d);
		if (r && ++tries > 100000)
			die("%s finds no room", d->e->ops->name);
		if (r) {
			clean(w, d, SHINGLE_WHY_PRESSURE);
			continue;
		}
		d->e->ops->map.commit(d->e, &run, emit(d));
		release(d);
		lblk += run.n;
		n -= run.n;
		tries = 0;
	}
}

static void layer_discard(struct watch *w, struct layer *d, u64 lblk, u64 n)
{
	bool dropped;
	u32 tries = 0;
	u64 done;
	int r;

	while (n) {
		r = d->e->ops->map.discard(d->e, lblk, n, &done, &dropped, emit(d));
		if (r && ++tries > 1000)
			die("%s cannot discard", d->e->ops->name);
		release(d);
		if (r) {
			clean(w, d, SHINGLE_WHY_PRESSURE);
			continue;
		}
		lblk += done;
		n -= done;
	}
}

static u64 zero_blocks(const u8 *data, u64 n)
{
	static const u8 zeroes[BLOCK_BYTES];
	u64 i, found = 0;

	for (i = 0; i < n; i++)
		found += !memcmp(data + i * BLOCK_BYTES, zeroes, BLOCK_BYTES);
	return found;
}

/* Note a write to the bands of the store, which are also those of the layer. */
static void note_band(struct watch *w, u64 lblk, u64 n, const u8 *data)
{
	u64 band = lblk / LAYER_BAND;
	enum owner o = w->owner[band];
	__le64 magic;
	u32 i;

	if (w->at[band] != lblk % LAYER_BAND) {
		w->owner[band] = OWNER_LEAD;
	} else if (!w->at[band]) {
		memcpy(&magic, data, sizeof(magic));
		o = le64_to_cpu(magic) == LOG_MAGIC ? OWNER_LOG : OWNER_TABLE;
		w->owner[band] = o;
		w->begun[o]++;
		if (w->next == lblk) {
			w->behind[o]++;
			w->led[o] += w->owner[band - 1] == OWNER_LEAD;
		}
		for (i = 0; i < LAYER_BANDS; i++) {
			if (w->at[i] && w->at[i] < LAYER_BAND && w->owner[i] != OWNER_REGION) {
				w->left[w->owner[i]]++;
				/* Count each band once. */
				w->at[i] = LAYER_BAND;
			}
		}
	}
	w->at[band] = (u32)(lblk % LAYER_BAND + n);
	w->next = lblk + n;
	w->zeroes += zero_blocks(data, n);
}

static void watch(enum sim_what what, u64 offset, u64 bytes, const void *data)
{
	u64 lblk = offset / BLOCK_BYTES, n = bytes / BLOCK_BYTES, i;
	bool region = offset < watched.sim->bands_offset;

	if (what == SIM_WRITE) {
		if (!region)
			note_band(&watched, lblk, n, data);
		watched.blocks += n;
		for (i = 0; i < ARRAY_SIZE(watched.layer); i++)
			layer_write(&watched, &watched.layer[i], lblk, n);
	} else if (what == SIM_DISCARD) {
		for (i = lblk / LAYER_BAND; i < (lblk + n) / LAYER_BAND; i++)
			watched.at[i] = 0;
		for (i = 0; i < ARRAY_SIZE(watched.layer); i++)
			layer_discard(&watched, &watched.layer[i], lblk, n);
	}
}

static void layer_new(struct layer *d, const struct shingle_engine_ops *ops,
		      const struct shingle_exercise_shape *shape, const void *params, size_t size)
{
	const char *why = "";

	shingle_exercise_layout(&d->l, ops, shape, params, size);
	if (ops->create(&d->e, &d->l, &why) || ops->state.ready(d->e, &why))
		die("%s: %s", ops->name, why);
	if (d->l.logical_blocks != LAYER_BANDS * LAYER_BAND)
		die("%s has %llu blocks", ops->name, d->l.logical_blocks);
	d->seq = 1;
}

static void layers_new(void)
{
	const struct shingle_exercise_shape set = {
		.band_blocks = LAYER_BAND, .data_bands = LAYER_BANDS, .staging_bands = 1,
		.cache_bands = 12, .head_tracks = 1,
	}, full = {
		.band_blocks = LAYER_BAND, .data_bands = LAYER_BANDS + 2 * PROVISION,
		.head_tracks = 1,
	};
	struct stl_set_params p = { 0 };
	struct stl_full_params q = {
		.zone_bands = cpu_to_le32(LAYER_BANDS / 2 + PROVISION),
		.provision = cpu_to_le32(PROVISION), .log_bands = cpu_to_le32(PROVISION - 1),
	};
	const char *why;

	layer_new(&watched.layer[0], &stl_set_engine_ops, &set, &p, sizeof(p));
	if (shingle_set(watched.layer[0].e, "bypass_blocks", BYPASS, &why))
		die("stl-set: %s", why);
	layer_new(&watched.layer[1], &stl_full_engine_ops, &full, &q, sizeof(q));
}

static void load(struct kv *kv, u32 from, u32 to)
{
	struct kv_batch *b = kv_batch_new();
	char key[16], value[961];
	u32 i;

	for (i = from; i < to; i++) {
		sprintf(key, "k%010u", rnd(6000));
		memset(value, 'a' + (int)rnd(26), sizeof(value));
		if (kv_batch_put(b, key, strlen(key), value, sizeof(value)))
			die("no batch");
		if (i % 50 == 49) {
			if (kv_write(kv, b, i % 1000 == 999 ? KV_SYNC : 0))
				die("write: %s", kv_error());
			kv_batch_clear(b);
		}
	}
	if (kv_write(kv, b, 0))
		die("write: %s", kv_error());
	kv_batch_free(b);
}

static void show_layer(struct layer *d)
{
	static const char *const name[] = {
		"bands_cleaned", "bypassed_blocks", "bands_switched", "streams_broken",
	};
	u32 i;

	printf("%s:", d->e->ops->name);
	for (i = 0; i < ARRAY_SIZE(name); i++) {
		if (counted(d, name[i]) != U64_MAX)
			printf(" %s %llu", name[i], counted(d, name[i]));
	}
	printf("; of them");
	for (i = 0; i < NR_OWNERS; i++)
		printf(" %s %llu", owner_names[i], d->cleaned[i]);
	printf("\n");
}

/* Take the statistics of one session, without the writes of closing the store. */
static void take_stats(struct kv *kv)
{
	struct kv_stats s = { .size = sizeof(s) };

	kv_stats(kv, &s);
	watched.reported += (s.log_bytes + s.flush_bytes + s.compact_written_bytes + s.table_bytes +
			 s.pad_bytes) / BLOCK_BYTES;
	watched.reported_pad += s.pad_bytes / BLOCK_BYTES;
}

/* Load in three sessions, then compact everything. */
void test_layers(u64 seed, u32 count)
{
	struct kv_options opt = options;
	struct sim *s = formatted_as(LAYER_BANDS * STORE_BAND, STORE_BAND);
	u64 blocks = 0, zeroes = 0, before, before_zeroes;
	struct kv *kv;
	u32 i;

	rng = seed;
	opt.l0_trigger = 0;
	opt.l0_slowdown = 0;
	watched.sim = s;
	layers_new();
	s->watch = watch;
	for (i = 0; i < 3; i++) {
		before = watched.blocks;
		before_zeroes = watched.zeroes;
		if (sim_open(&kv, s, &opt))
			die("open: %s", kv_error());
		load(kv, count / 3 * i, count / 3 * (i + 1));
		if (i == 2 && kv_compact(kv))
			die("compact: %s", kv_error());
		take_stats(kv);
		blocks += watched.blocks - before;
		zeroes += watched.zeroes - before_zeroes;
		if (kv_close(kv))
			die("close: %s", kv_error());
	}
	printf("told: blocks %llu written %llu pad %llu zeroes %llu\n", watched.reported, blocks,
	       watched.reported_pad, zeroes);
	printf("%u records, %llu blocks\n", count, watched.blocks);
	for (i = OWNER_LOG; i <= OWNER_LEAD; i++)
		printf("%s: begun %llu behind %llu led %llu left %llu\n", owner_names[i],
		       watched.begun[i], watched.behind[i], watched.led[i], watched.left[i]);
	for (i = 0; i < ARRAY_SIZE(watched.layer); i++) {
		show_layer(&watched.layer[i]);
		watched.layer[i].e->ops->destroy(watched.layer[i].e);
	}
	sim_free(s);
}
