// SPDX-License-Identifier: GPL-2.0
/* shingle-explore: runs of the targets in the simulated kernel until one fails. */
#include <getopt.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

static void usage(FILE *to)
{
	fputs("Usage: shingle-explore [options]\n"
	      "\n"
	      "Runs the translation layers in a simulated kernel, under random loads, messages,\n"
	      "suspends and power cuts, until a run fails.  A seed gives the same run everywhere.\n"
	      "\n"
	      "  --layer NAME     only this one (default: all in turn)\n"
	      "  --seed N         first seed (default: 1)\n"
	      "  --runs N         number of runs for each layer (default: 1)\n"
	      "  --seconds N      run until this time has passed instead\n"
	      "  --boots N        boots of a run (default: 24)\n"
	      "  --ops N          requests of a boot, at most (default: 400)\n"
	      "  --faults         disks with errors in some boots\n"
	      "  --drops          with --faults: a FLUSH that fails has dropped the cache\n"
	      "  --feature F      switch a feature of the target on\n"
	      "  --tool PATH      the shingle tool, for formatting\n"
	      "  --shrink         look for a smaller run that fails in the same way\n"
	      "  --trace          print what the kernel logs, and all tracepoints\n"
	      "  --quiet          print only a failure\n"
	      "  --list           the layers\n", to);
}

static void print_line(const char *line)
{
	puts(line);
}

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static const char *default_tool(void)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);

	if (n < 0)
		return "shingle";
	path[n] = '\0';
	strcpy(strrchr(path, '/') + 1, "../userspace/shingle");
	return path;
}

/**
 * struct total - what all runs of a layer have done
 */
struct total {
	u64 runs;
	u64 cuts;
	u64 decisions;
	u64 requests;
	u64 errors;
	double cpu_s;
};

static void print_failure(const struct run_config *config, const struct run_result *result)
{
	printf("%s, seed %llu: boot %u of %u fails: %s\n"
	       "again: shingle-explore --layer %s --seed %llu --boots %u --ops %u%s%s%s\n",
	       config->image->layer->name, (unsigned long long)config->seed, result->boot + 1,
	       config->boots, result->why, config->image->layer->name,
	       (unsigned long long)config->seed, config->boots, config->ops,
	       config->faults ? config->drops ? " --faults --drops" : " --faults" : "",
	       config->feature ? " --feature " : "", config->feature ?: "");
}

/* Have two runs failed in the same way?  Numbers differ. */
static bool same_failure(const char *a, const char *b)
{
	for (; *a && *b && *a != '\n' && *b != '\n'; a++, b++) {
		while (*a >= '0' && *a <= '9')
			a++;
		while (*b >= '0' && *b <= '9')
			b++;
		if (*a != *b)
			return false;
	}
	return true;
}

/* Seeds that shrink() tries for each size. */
#define SHRINK_SEEDS	500U

/*
 * A run cannot be cut down, since each of its decisions depends on the ones before.  So look for a
 * run of another seed that fails in the same way, from few boots and requests to more.
 */
static void shrink(const struct run_config *from, const char *why)
{
	u32 boots, ops, most = 16 * from->boots * from->ops, size, seed;
	struct run_result result;

	for (size = 4; size < most; size *= 2) {
		for (boots = 1; boots <= from->boots && boots <= size; boots *= 2) {
			struct run_config config = *from;

			ops = size / boots;
			if (ops > from->ops)
				continue;
			config.boots = boots;
			config.ops = ops;
			for (seed = 0; seed < SHRINK_SEEDS; seed++) {
				config.seed = from->seed + seed;
				if (world_run(&config, &result) ||
				    !same_failure(result.why, why))
					continue;
				printf("smaller: ");
				print_failure(&config, &result);
				return;
			}
		}
	}
	printf("no smaller run was found that fails in this way\n");
}

static bool one_run(struct run_config *config, struct total *t, bool shrinks)
{
	double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
	struct run_result result;
	bool ok = world_run(config, &result);

	t->runs++;
	t->cuts += result.cuts;
	t->decisions += result.decisions;
	t->requests += result.requests;
	t->errors += result.errors;
	t->cpu_s += seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
	if (!ok)
		print_failure(config, &result);
	if (!ok && shrinks)
		shrink(config, result.why);
	return ok;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "layer", required_argument, NULL, 'l' },
		{ "seed", required_argument, NULL, 's' },
		{ "runs", required_argument, NULL, 'r' },
		{ "seconds", required_argument, NULL, 't' },
		{ "boots", required_argument, NULL, 'b' },
		{ "ops", required_argument, NULL, 'o' },
		{ "faults", no_argument, NULL, 'e' },
		{ "drops", no_argument, NULL, 'd' },
		{ "feature", required_argument, NULL, 'f' },
		{ "tool", required_argument, NULL, 'p' },
		{ "shrink", no_argument, NULL, 'S' },
		{ "trace", no_argument, NULL, 'v' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "list", no_argument, NULL, 'L' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	struct run_config config = { .boots = 24, .ops = 400 };
	const char *only = NULL, *tool = NULL;
	u64 seed = 1, runs = 1, i;
	double limit = 0, begun;
	const struct layer *layer;
	bool quiet = false, shrinks = false, ok = true;
	u32 nr = 0;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'l':
			only = optarg;
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			runs = strtoull(optarg, NULL, 0);
			break;
		case 't':
			limit = atof(optarg);
			break;
		case 'b':
			config.boots = max(1, atoi(optarg));
			break;
		case 'o':
			config.ops = max(1, atoi(optarg));
			break;
		case 'e':
			config.faults = true;
			break;
		case 'd':
			config.drops = true;
			break;
		case 'f':
			config.feature = optarg;
			break;
		case 'p':
			tool = optarg;
			break;
		case 'v':
			sim_log_to = print_line;
			sim_tracing = true;
			break;
		case 'S':
			shrinks = true;
			break;
		case 'q':
			quiet = true;
			break;
		case 'L':
			for (layer = layers; layer->name; layer++)
				puts(layer->name);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	tool = tool ?: default_tool();
	for (layer = layers; layer->name; layer++)
		nr += !only || !strcmp(only, layer->name);
	if (!nr) {
		fprintf(stderr, "shingle-explore: there is no layer '%s', see --list\n", only);
		return 2;
	}
	for (layer = layers; ok && layer->name; layer++) {
		struct total t = { 0 };

		if (only && strcmp(only, layer->name))
			continue;
		config.image = layer_image(layer, tool);
		begun = seconds(CLOCK_MONOTONIC);
		for (i = 0; ok && (limit ? seconds(CLOCK_MONOTONIC) - begun < limit / nr :
				   i < runs); i++) {
			config.seed = seed + i;
			ok = one_run(&config, &t, shrinks);
		}
		if (!quiet)
			printf("%-14s %7llu runs %8llu cuts %11llu decisions %9llu requests %7llu errors %6.0f cuts/s of CPU\n",
			       layer->name, (unsigned long long)t.runs, (unsigned long long)t.cuts,
			       (unsigned long long)t.decisions, (unsigned long long)t.requests,
			       (unsigned long long)t.errors,
			       t.cpu_s ? t.cuts / t.cpu_s : 0);
		fflush(stdout);
	}
	layer_images_free();
	return ok ? 0 : 1;
}
