// SPDX-License-Identifier: GPL-2.0
/*
 * A run.
 *
 * A boot loads the modules, creates the device and resumes it.  Then hosts read, write, flush and
 * discard, each one request at a time, and the administrator sends messages, suspends and resumes
 * the device, loads other tables and removes it.  The power fails at a decision of the scheduler;
 * the next boot finds what the disks have kept.  The last boot ends in order: all is read once
 * more, the device removed, the modules unloaded, and no memory may be left.
 */
#include <random.h>

#include "format/layout.h"
#include "world.h"

#define MOST_HOSTS	6U
#define MOST_BLOCKS	48U
#define ANSWER_BYTES	16384U
#define NAME		"layer"
#define MEDIUM		"medium"

static const char *const dev_names[LAYER_DEVS] = { "data", "cache", "meta" };

/* Errors of a disk during one boot. */
enum ailment {
	HEALTHY,
	RARE_ERRORS,		/* of any request */
	WRITE_ERRORS,
	READ_ERRORS,
	FLUSH_ERRORS,
	BAD_BLOCKS,		/* some blocks cannot be written */
	REMOVED,		/* all requests fail after a while */
	NR_AILMENTS
};

struct world;

/**
 * struct patient - a disk and its errors
 * @world: the run
 * @ailment: their kind
 * @drops: a FLUSH that fails has dropped what was in the cache
 * @left: requests until it is removed
 * @bad: first block that cannot be written
 * @nr_bad: number of them
 */
struct patient {
	struct world *world;
	enum ailment ailment;
	bool drops;
	u32 left;
	u64 bad;
	u32 nr_bad;
};

/**
 * struct world - the run
 * @config: its parameters
 * @result: its result
 * @disks: the devices below; NULL if the layer has none
 * @patients: their errors
 * @ill: a disk has errors in this boot
 * @was_ill: a disk had errors in an earlier boot: a superblock may have the mark needs_check
 * @retired: the device is read-only since then, and the run ends
 * @dropped: a disk has dropped what was in its cache, in this boot
 * @flushing: a FLUSH is in flight
 * @oracle: what the layer may return
 * @over_platter: the data device of the layer is a platter over the disk
 * @platter: its table line
 * @medium: the platter, if there is one
 * @md: the layer
 * @bdev: its device
 * @last: this is the last boot
 * @stop: the hosts end
 * @hosts: number of hosts that have not ended
 * @ended: the administrator waits for them
 * @left: requests that the hosts still make
 * @act_left: the administrator acts after the hosts have begun this number of requests
 * @act: the administrator waits for that
 * @cut_left: the power fails soon after the hosts have begun this number of requests; 0: not so
 * @calm: the hosts sleep after one in @calm requests
 * @keys: words of the table line
 * @answer: of the last message
 */
struct world {
	const struct run_config *config;
	struct run_result *result;
	struct sim_disk *disks[LAYER_DEVS];
	struct patient patients[LAYER_DEVS];
	bool ill;
	bool was_ill;
	bool retired;
	bool dropped;
	bool flushing;
	struct oracle *oracle;
	bool over_platter;
	char platter[256];
	struct mapped_device *medium;
	struct mapped_device *md;
	struct block_device *bdev;
	bool last;
	bool stop;
	u32 hosts;
	wait_queue_head_t ended;
	u32 left;
	u32 act_left;
	wait_queue_head_t act;
	u32 cut_left;
	u32 calm;
	char keys[512];
	char answer[ANSWER_BYTES];
};

static u64 blocks_of(const struct world *w)
{
	return w->config->image->sectors >> 3;
}

static bool is_writable(struct world *w)
{
	char answer[256];

	sim_dm_message(w->md, "mode", answer, sizeof(answer));
	return !strncmp(answer, "rw", 2);
}

/* ------------------------------------------------------------------------
 * Requests
 */

/**
 * struct request - a bio of a host, with its memory
 * @bio: the bio
 * @vecs: its pages
 * @pages: memory of @vecs
 */
struct request {
	struct bio bio;
	struct bio_vec vecs[MOST_BLOCKS];
	u8 *pages;
};

static struct request *new_request(void)
{
	struct request *rq = sim_alloc(1, sizeof(*rq), GFP_KERNEL);

	/* One page more, since the memory is not aligned. */
	rq->pages = sim_alloc(MOST_BLOCKS + 1, PAGE_SIZE, GFP_KERNEL);
	return rq;
}

static void free_request(struct request *rq)
{
	sim_free(rq->pages);
	sim_free(rq);
}

static u8 *page_of(struct request *rq, u32 i)
{
	return (u8 *)round_up((unsigned long)rq->pages, PAGE_SIZE) + i * PAGE_SIZE;
}

static const char *name_of(blk_opf_t opf)
{
	switch (opf & REQ_OP_MASK) {
	case REQ_OP_READ:
		return "read";
	case REQ_OP_DISCARD:
		return "discard";
	case REQ_OP_WRITE_ZEROES:
		return "zeroes";
	default:
		return opf & REQ_PREFLUSH ? "FLUSH" : opf & REQ_FUA ? "FUA write" : "write";
	}
}

/* @version: for the trace, the version that the request writes. */
static int submit(struct world *w, struct request *rq, blk_opf_t opf, u64 lblk, u32 n, u64 version)
{
	u32 i;
	int err;

	bio_init(&rq->bio, w->bdev, rq->vecs, MOST_BLOCKS, opf);
	rq->bio.bi_iter.bi_sector = lblk << 3;
	if (opf == REQ_OP_DISCARD || (opf & REQ_OP_MASK) == REQ_OP_WRITE_ZEROES)
		rq->bio.bi_iter.bi_size = n << 12;
	else
		for (i = 0; i < n; i++)
			__bio_add_page(&rq->bio, virt_to_page(page_of(rq, i)), PAGE_SIZE, 0);
	w->result->requests++;
	if (w->act_left && !--w->act_left)
		wake_up_all(&w->act);
	if (w->cut_left && !--w->cut_left)
		sim_config.cut_at = sim_decisions() + 1 + sim_random(1ULL << sim_random(14));
	err = submit_bio_wait(&rq->bio);
	sim_log("host", name_of(opf), "block %llu, %u blocks, version %llu: %d",
		(unsigned long long)lblk, n, (unsigned long long)version, err);
	return err;
}

/* A request or a command has failed.  Returns if a disk may be the reason. */
static void failed(struct world *w, const char *what, int err)
{
	if (!w->ill)
		sim_fail("%s fails (%d)", what, err);
	w->result->errors++;
}

static void check(struct world *w, struct request *rq, u64 lblk, u32 n, bool racy)
{
	char why[512];
	u32 i;

	for (i = 0; i < n; i++) {
		if (!oracle_check(w->oracle, lblk + i, page_of(rq, i), racy, why, sizeof(why)))
			sim_fail("%s", why);
	}
}

static void do_read(struct world *w, struct request *rq, u64 lblk, u32 n)
{
	bool locked = oracle_lock(w->oracle, lblk, n, true);
	/* A disk may return anything until the layer has seen that a FLUSH has failed. */
	bool seen = w->dropped && !is_writable(w);
	char what[64];
	int err;

	memset(page_of(rq, 0), 0xee, n * PAGE_SIZE);
	err = submit(w, rq, REQ_OP_READ, lblk, n, 0);
	scnprintf(what, sizeof(what), "a read of %u blocks at %llu", n, (unsigned long long)lblk);
	/* A block that cleaning could not read stays unreadable until it is written. */
	if (err && !(w->was_ill && err == -ENODATA))
		failed(w, what, err);
	else if (!err && (!w->dropped || seen))
		check(w, rq, lblk, n, !locked);
	if (locked)
		oracle_unlock(w->oracle, lblk, n, true);
}

static void do_write(struct world *w, struct request *rq, u64 lblk, u32 n, blk_opf_t opf)
{
	bool zeroes = (opf & REQ_OP_MASK) != REQ_OP_WRITE;
	bool soft = (opf & REQ_OP_MASK) == REQ_OP_DISCARD;
	u64 version, word;
	char what[64];
	u32 i, k;
	int err;

	if (!oracle_lock(w->oracle, lblk, n, false))
		return;
	version = oracle_begin(w->oracle, lblk, n, zeroes, soft);
	for (i = 0; i < n && !zeroes; i++) {
		word = oracle_word(version, lblk + i);
		for (k = 0; k < PAGE_SIZE; k += sizeof(word))
			memcpy(page_of(rq, i) + k, &word, sizeof(word));
	}
	err = submit(w, rq, opf, lblk, n, version);
	scnprintf(what, sizeof(what), "a request %#x of %u blocks at %llu", opf, n,
		  (unsigned long long)lblk);
	if (err && err != -ENOSPC)
		failed(w, what, err);
	oracle_end(w->oracle, lblk, n, version, !err, opf & REQ_FUA);
	oracle_unlock(w->oracle, lblk, n, false);
}

static void flushed(struct world *w, u64 acked)
{
	char why[128];

	if (!oracle_flush_end(w->oracle, acked, why, sizeof(why)))
		sim_fail("%s", why);
}

/*
 * A failed FLUSH reports the loss of all that was acknowledged before it ended.  A layer reports it
 * once, so that of two at the same time only one may fail: there is one at a time.
 */
static void do_flush(struct world *w, struct request *rq)
{
	u64 acked = oracle_flush_begin(w->oracle);
	int err;

	if (w->ill && w->flushing)
		return;
	w->flushing = true;
	err = submit(w, rq, REQ_OP_WRITE | REQ_PREFLUSH, 0, 0, 0);
	w->flushing = false;
	if (!err) {
		flushed(w, acked);
		return;
	}
	failed(w, "a FLUSH", err);
	oracle_lost(w->oracle);
}

/* A place: mostly where others are, sometimes a sequence. */
static u64 place(struct world *w, u32 n, u64 *stream)
{
	u64 blocks = blocks_of(w), at;

	if (*stream && *stream + n <= blocks && sim_random(3))
		at = *stream;
	else if (sim_random(2))
		at = sim_random(min(blocks - n + 1, 64ULL));
	else
		at = sim_random(blocks - n + 1);
	*stream = sim_random(4) ? at + n : 0;
	return at;
}

static void host(void *arg)
{
	struct world *w = arg;
	struct request *rq = new_request();
	u64 stream = 0;

	while (!w->stop && w->left) {
		u32 dice = sim_random(100), n = 1 + sim_random(sim_random(3) ? 4 : MOST_BLOCKS);

		w->left--;
		n = min_t(u64, n, blocks_of(w));
		if (dice < 50)
			do_write(w, rq, place(w, n, &stream), n, REQ_OP_WRITE);
		else if (dice < 56)
			do_write(w, rq, place(w, n, &stream), n, REQ_OP_WRITE | REQ_FUA);
		else if (dice < 80)
			do_read(w, rq, place(w, n, &stream), n);
		else if (dice < 88)
			do_flush(w, rq);
		else if (dice < 94)
			do_write(w, rq, place(w, n, &stream), n, REQ_OP_DISCARD);
		else if (dice < 98)
			do_write(w, rq, place(w, n, &stream), n, REQ_OP_WRITE_ZEROES);
		if (sim_chance(w->calm))
			sim_sleep_ns(sim_random(sim_random(4) ? 20 * NSEC_PER_MSEC :
							       3 * NSEC_PER_SEC));
	}
	free_request(rq);
	w->hosts--;
	wake_up_all(&w->ended);
	wake_up_all(&w->act);
}

/* ------------------------------------------------------------------------
 * The administrator
 */

/* The device cannot be used any more in this boot, because of its disks: the power fails. */
static void give_up(struct world *w)
{
	w->result->errors++;
	sim_config.cut_at = sim_decisions() + 1;
	sim_sleep_ns(1);
}

static void load(struct world *w)
{
	const struct layer_image *image = w->config->image;
	struct sim_line line = { .len = image->sectors, .target = image->layer->target };
	char params[1024], why[512];
	u32 words = 0, i;

	for (i = 0; w->keys[i]; i++)
		words += w->keys[i] == ' ';
	scnprintf(params, sizeof(params), "%s %s %s %s%s %u%s", w->medium ? MEDIUM : "data",
		  w->disks[1] ? "cache" : "-", w->disks[2] ? "meta" : "-",
		  w->config->feature ? "1 " : "0", w->config->feature ?: "", words, w->keys);
	line.params = params;
	if (!sim_dm_load(w->md, &line, 1, false, why, sizeof(why)))
		return;
	if (!w->ill)
		sim_fail("the table '%s' is refused: %s", params, why);
	give_up(w);
}

static void resume(struct world *w)
{
	int err;

	/* Another table begins, or may: the one before it may not have written everything. */
	if (w->ill)
		oracle_doubt(w->oracle, true);
	err = sim_dm_resume(w->md);
	oracle_doubt(w->oracle, false);
	w->dropped = false;
	if (err && !w->ill)
		sim_fail("the device is not resumed (%d)", err);
	if (err)
		give_up(w);
	w->bdev = sim_dm_bdev(w->md);
}

/* Options for the table, each word after a blank. */
static void choose_keys(struct world *w)
{
	static const char *const commit[] = { "", " commit_ms 0", " commit_ms 10",
					      " commit_ms 1000" };
	static const char *const idle[] = { "", " idle_ms 0", " idle_ms 20", " idle_ms 200" };
	static const char *const cache[] = { "", "", " wcache_blocks 8", " wcache_blocks 64" };
	const struct layer *layer = w->config->image->layer;
	u32 nr = 0;

	while (nr < LAYER_MOST && layer->keys[nr])
		nr++;
	nr = sim_random(nr);
	scnprintf(w->keys, sizeof(w->keys), "%s%s%s%s%s", layer->keys[nr][0] ? " " : "",
		  layer->keys[nr], commit[sim_random(4)], idle[sim_random(4)],
		  layer->gathers ? "" : cache[sim_random(4)]);
}

static int message(struct world *w, const char *text)
{
	int err = sim_dm_message(w->md, text, w->answer, sizeof(w->answer));

	sim_log("message", text, "%d", err);
	return err;
}

/* A counter of the last answer to ``stats``. */
static u64 counter(const struct world *w, const char *name)
{
	const char *p = strstr(w->answer, name);

	return p && p[strlen(name)] == ' ' ? strtoull(p + strlen(name) + 1, NULL, 10) : 0;
}

static void must_be_right(struct world *w)
{
	int err = message(w, "verify");

	if (err && err != -EAGAIN && (!w->ill || err == -EUCLEAN))
		sim_fail("verify says that the map is wrong (%d)", err);
	message(w, "stats");
	if (counter(w, "r0_violations"))
		sim_fail("a write would have destroyed data in use");
	if (!w->ill && !w->retired && !is_writable(w))
		sim_fail("the device is not read-write");
}

/* A message that may come at any time. */
static void random_message(struct world *w)
{
	static const char *const texts[] = { "clean", "commit", "checkpoint", "stats", "mode",
					     "stats_clear", "settings" };
	const struct layer *layer = w->config->image->layer;
	const char *text = texts[sim_random(ARRAY_SIZE(texts))];
	u32 nr = 0;
	int err;

	while (nr < ARRAY_SIZE(layer->turns) && layer->turns[nr])
		nr++;
	if (nr && sim_random(2))
		text = layer->turns[sim_random(nr)];
	err = message(w, text);
	/* An answer is 1; nothing to clean with can be no reason to fail. */
	if (err && err != 1 && err != -EAGAIN && err != -ENODATA)
		failed(w, text, err);
}

static void read_all(struct world *w)
{
	struct request *rq = new_request();
	u64 at, blocks = blocks_of(w);
	u32 n;

	for (at = 0; at < blocks; at += n) {
		n = min_t(u64, MOST_BLOCKS, blocks - at);
		do_read(w, rq, at, n);
	}
	free_request(rq);
}

static void wait_for_hosts(struct world *w)
{
	w->stop = true;
	wait_event(w->ended, !w->hosts);
}

static void spawn_hosts(struct world *w)
{
	u32 i, nr = 1 + sim_random(MOST_HOSTS);

	w->stop = false;
	for (i = 0; i < nr; i++) {
		w->hosts++;
		sim_spawn("host", false, host, w);
	}
}

static void create_medium(struct world *w)
{
	const struct layer *layer = w->config->image->layer;
	struct sim_line line = {
		.len = layer->blocks[SHINGLE_DEV_DATA] * 8, .target = "platter",
		.params = w->platter,
	};
	char why[256];

	w->medium = sim_dm_create(MEDIUM);
	if (sim_dm_load(w->medium, &line, 1, false, why, sizeof(why)))
		sim_fail("the table '%s' is refused: %s", w->platter, why);
	if (sim_dm_resume(w->medium))
		sim_fail("the medium is not resumed");
}

/* Do to the medium what may be done while the layer uses it. */
static void disturb_medium(struct world *w)
{
	if (!w->medium)
		return;
	if (sim_random(2)) {
		if (sim_dm_suspend(w->medium) || sim_dm_resume(w->medium))
			sim_fail("the medium is not suspended and resumed");
		return;
	}
	if (sim_dm_message(w->medium, sim_random(2) ? "wcache on" : "wcache off", w->answer,
			   sizeof(w->answer)) < 0)
		sim_fail("the medium refuses its message");
}

static void create(struct world *w)
{
	w->md = sim_dm_create(NAME);
	load(w);
	resume(w);
}

static void remove_device(struct world *w)
{
	int err = sim_dm_remove(w->md);

	if (err)
		sim_fail("the device is not removed (%d)", err);
	w->md = NULL;
	/* An orderly end saves everything.  With errors, the next FLUSH says whether it did. */
	if (!w->ill)
		flushed(w, oracle_flush_begin(w->oracle));
}

static void reset(struct world *w)
{
	u64 version;
	int err;

	wait_for_hosts(w);
	version = oracle_begin(w->oracle, 0, blocks_of(w), true, false);
	err = message(w, "reset");
	if (err)
		failed(w, "the message 'reset'", err);
	oracle_end(w->oracle, 0, blocks_of(w), version, !err, true);
	spawn_hosts(w);
}

static void administer(struct world *w)
{
	switch (sim_random(13)) {
	case 5:
		disturb_medium(w);
		break;
	case 0:
		if (sim_dm_suspend(w->md))
			sim_fail("the device is not suspended");
		if (sim_random(2))
			sim_sleep_ns(sim_random(2 * NSEC_PER_SEC));
		resume(w);
		break;
	case 1:
		choose_keys(w);
		load(w);
		resume(w);
		break;
	case 2:
		wait_for_hosts(w);
		remove_device(w);
		choose_keys(w);
		create(w);
		spawn_hosts(w);
		break;
	case 3:
		must_be_right(w);
		break;
	case 4:
		if (!sim_random(4))
			reset(w);
		break;
	default:
		random_message(w);
	}
}

static void administrator(void *arg)
{
	struct world *w = arg;
	int err = sim_modules_load();

	if (err)
		sim_fail("the modules are not loaded (%d)", err);
	choose_keys(w);
	if (w->over_platter)
		create_medium(w);
	create(w);
	if (sim_random(4))
		read_all(w);
	w->retired = !w->ill && w->was_ill && !is_writable(w);
	if (w->retired)
		w->left = 0;
	else
		spawn_hosts(w);
	while (w->left) {
		if (sim_random(4)) {
			w->act_left = 1 + sim_random(40);
			wait_event(w->act, !w->act_left || !w->hosts);
		} else {
			sim_sleep_ns(sim_random(2 * NSEC_PER_SEC));
		}
		administer(w);
	}
	wait_for_hosts(w);
	must_be_right(w);
	read_all(w);
	if (!w->retired && sim_random(2)) {
		err = message(w, "clean");
		if (err && err != -ENODATA && err != -EAGAIN)
			sim_fail("the message 'clean' fails (%d)", err);
		read_all(w);
	}
	must_be_right(w);
	remove_device(w);
	if (w->medium && sim_dm_remove(w->medium))
		sim_fail("the medium is not removed");
	sim_modules_unload();
	/* Threads that have ended may not have left yet. */
	sim_sleep_ns(NSEC_PER_SEC);
	if (sim_allocated())
		sim_fail("%llu allocations are left after the modules are unloaded",
			 (unsigned long long)sim_allocated());
	sim_stop();
}

/* ------------------------------------------------------------------------
 * Boots
 */

/*
 * A FLUSH fails.  If that was not the host's, the layer reports it by the next one; what the host
 * reads before that may be gone.
 */
static enum sim_fault fail_flush(struct patient *p)
{
	if (!p->drops)
		return SIM_FAILS;
	p->world->dropped = true;
	oracle_doubt(p->world->oracle, true);
	return SIM_DROPS;
}

/* Decide what happens to a request of a disk. */
static enum sim_fault ail(void *ctx, const struct bio *bio, blk_status_t *status)
{
	struct patient *p = ctx;
	bool write = bio_op(bio) == REQ_OP_WRITE && bio_has_data(bio);
	bool flush = bio->bi_opf & REQ_PREFLUSH;
	u64 block = bio->bi_iter.bi_sector >> 3;

	switch (p->ailment) {
	case RARE_ERRORS:
		if (sim_random(100))
			return SIM_OK;
		return write && sim_random(2) ? SIM_TEARS : flush ? fail_flush(p) : SIM_FAILS;
	case WRITE_ERRORS:
		if (!write || sim_random(20))
			return SIM_OK;
		return sim_random(2) ? SIM_TEARS : SIM_FAILS;
	case READ_ERRORS:
		if (write || flush || sim_random(20))
			return SIM_OK;
		*status = sim_random(2) ? BLK_STS_MEDIUM : BLK_STS_IOERR;
		return SIM_FAILS;
	case FLUSH_ERRORS:
		return flush && !sim_random(4) ? fail_flush(p) : SIM_OK;
	case BAD_BLOCKS:
		if (!write || block >= p->bad + p->nr_bad ||
		    block + (bio_sectors(bio) >> 3) <= p->bad)
			return SIM_OK;
		*status = sim_random(2) ? BLK_STS_MEDIUM : BLK_STS_IOERR;
		return SIM_FAILS;
	case REMOVED:
		if (p->left && --p->left)
			return SIM_OK;
		return SIM_FAILS;
	default:
		return SIM_OK;
	}
}

/* Choose the errors of a boot. */
static void infect(struct world *w, u64 *rng)
{
	u32 i;

	w->ill = w->config->faults && !w->last && random_below(rng, 2);
	for (i = 0; i < LAYER_DEVS; i++) {
		struct patient *p = &w->patients[i];

		p->ailment = w->ill ? random_below(rng, NR_AILMENTS) : HEALTHY;
		p->world = w;
		p->drops = w->config->drops;
		p->left = 1 + random_below(rng, 400);
		p->bad = random_below(rng, w->config->image->layer->blocks[i] + 1);
		p->nr_bad = 1 + random_below(rng, 16);
	}
}

static void describe_platter(struct world *w, u64 *rng, u32 skew)
{
	static const char *const damage[] = { "poison", "shadow" };
	static const char *const timing[] = { "none", "model" };
	const struct layer *layer = w->config->image->layer;
	u64 blocks = layer->blocks[SHINGLE_DEV_DATA];
	u32 track = layer->track_blocks;

	scnprintf(w->platter, sizeof(w->platter),
		  "data 0 generic 0 16 media %s surfaces 1 head_tracks %u zones %llux%u track_skew %u damage %s timing %s wcache %s",
		  layer->interlaced ? "imr" : "smr", layer->interlaced ? 1 : layer->head_tracks,
		  (unsigned long long)blocks / track, track * 8, skew * 8,
		  damage[random_below(rng, 2)], timing[random_below(rng, 2)],
		  random_below(rng, 2) ? "on" : "off");
}

static void make_disks(struct world *w, u64 *rng)
{
	const struct layer_image *image = w->config->image;
	const struct layer *layer = image->layer;
	bool tracks = layer->track_blocks && random_below(rng, 4);
	u32 skew = tracks ? random_below(rng, layer->track_blocks / 2 + 1) : 0;
	u32 i;

	w->over_platter = tracks && !w->config->faults && !random_below(rng, 3);
	if (w->over_platter)
		describe_platter(w, rng, skew);
	for (i = 0; i < LAYER_DEVS; i++) {
		bool data = tracks && !w->over_platter && i == SHINGLE_DEV_DATA;
		struct sim_disk_config config = {
			.name = dev_names[i], .blocks = layer->blocks[i],
			.cached = random_below(rng, 4), .slow = random_below(rng, 3) ? 0 : 8,
			.slow_ns = 50 * NSEC_PER_MSEC,
			.track_blocks = data ? layer->track_blocks : 0,
			.head_tracks = layer->head_tracks,
			.skew_blocks = skew,
			.interlaced = layer->interlaced, .fault = ail, .ctx = &w->patients[i],
		};

		if (config.blocks)
			w->disks[i] = sim_disk_new(&config);
	}
	for (i = 0; i < image->nr; i++)
		sim_disk_write(w->disks[image->at[i].dev], image->at[i].block, image->at[i].bytes);
}

static void free_disks(struct world *w)
{
	u32 i;

	for (i = 0; i < LAYER_DEVS; i++) {
		if (w->disks[i])
			sim_disk_free(w->disks[i]);
	}
}

static void choose(struct sim_config *c, u64 *rng)
{
	static const u32 preempt[] = { 1, 2, 8, 64, 0 };

	*c = (struct sim_config){
		.seed = random64(rng),
		.preempt = preempt[random_below(rng, ARRAY_SIZE(preempt))],
		.serial = random_below(rng, 2),
		.poor = random_below(rng, 2),
		.no_memory = random_below(rng, 2) ? 0 : 4,
		.limit_ns = 3600ULL * NSEC_PER_SEC * 24,
	};
}

static enum sim_end boot(struct world *w, u64 *rng, u32 nr)
{
	const struct run_config *config = w->config;
	struct sim_config c;
	enum sim_end end;
	u32 i;

	choose(&c, rng);
	w->last = nr + 1 == config->boots;
	infect(w, rng);
	w->flushing = false;
	w->dropped = false;
	/* Some cuts come during the activation, most while the hosts are busy. */
	w->cut_left = 0;
	if (!w->last && random_below(rng, 5))
		w->cut_left = 1 + random_below(rng, random_below(rng, 2) ? config->ops :
							config->ops / 8 + 1);
	else if (!w->last)
		c.cut_at = 1 + random_below(rng, 1ULL << (4 + random_below(rng, 8)));
	sim_boot(&c);
	w->md = NULL;
	w->medium = NULL;
	w->hosts = 0;
	w->stop = false;
	init_waitqueue_head(&w->ended);
	init_waitqueue_head(&w->act);
	w->left = w->last ? config->ops : UINT_MAX;
	w->calm = random_below(rng, 2) ? 0 : 1 + random_below(rng, 32);
	sim_spawn("administrator", false, administrator, w);
	end = sim_run();
	w->was_ill |= w->ill;
	w->result->decisions += sim_decisions();
	if (end == SIM_CUT) {
		for (i = 0; i < LAYER_DEVS; i++) {
			if (w->disks[i])
				sim_disk_cut(w->disks[i]);
		}
		oracle_cut(w->oracle);
		w->result->cuts++;
	}
	sim_halt();
	return end;
}

/**
 * world_run() - do a run
 * @config: its parameters
 * @result: what it has done, and what is wrong
 *
 * Return: whether nothing is wrong.
 */
bool world_run(const struct run_config *config, struct run_result *result)
{
	struct world *w = calloc(1, sizeof(*w));
	u64 rng = mix64(config->seed);
	enum sim_end end = SIM_DONE;
	u32 nr;

	if (!w)
		abort();
	memset(result, 0, sizeof(*result));
	w->config = config;
	w->result = result;
	w->oracle = oracle_new(blocks_of(w));
	make_disks(w, &rng);
	for (nr = 0; end != SIM_FAILED && !w->retired && nr < config->boots; nr++)
		end = boot(w, &rng, nr);
	if (end == SIM_FAILED) {
		result->boot = nr - 1;
		strscpy(result->why, sim_why, sizeof(result->why));
	}
	free_disks(w);
	oracle_free(w->oracle);
	free(w);
	return end != SIM_FAILED;
}
