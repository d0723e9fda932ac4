// SPDX-License-Identifier: GPL-2.0
/*
 * Latency of requests at the block layer, from device mapper's own statistics.
 *
 * The command creates a statistics region over the whole device, with a histogram in powers
 * of two.  It reads the region after a while and deletes it, also if a signal ends the wait.
 */
#include <signal.h>
#include <unistd.h>

#include "dm.h"
#include "latency.h"

/* Bins: below 2^FIRST us, then powers of two, then from 2^(FIRST + BINS - 2) us on. */
#define FIRST	3
#define BINS	24

/**
 * struct latency - result of a measurement
 * @reads: number of reads completed
 * @read_ns: total time of @reads
 * @writes: number of writes completed
 * @write_ns: total time of @writes
 * @n: number of reads and writes in each bin
 */
struct latency {
	u64 reads, read_ns;
	u64 writes, write_ns;
	u64 n[BINS];
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signo)
{
	interrupted = 1;
}

/* Catch the signals that end a program, but leave SIGHUP ignored under nohup. */
static void catch_signals(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP };
	struct sigaction act = { .sa_handler = interrupt }, old;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		if (ends[i] == SIGHUP && !sigaction(SIGHUP, NULL, &old) &&
		    old.sa_handler == SIG_IGN)
			continue;
		sigaction(ends[i], &act, NULL);
	}
}

/* Create the region.  With precise timestamps the bounds are in nanoseconds. */
static char *begin(const char *name)
{
	char message[512];
	size_t at;
	u32 i;

	at = (size_t)snprintf(message, sizeof(message),
			      "@stats_create - /1 2 precise_timestamps histogram:");
	for (i = 0; i < BINS - 1; i++)
		at += (size_t)snprintf(message + at, sizeof(message) - at, "%s%llu",
				       i ? "," : "", 1000ULL << (FIRST + i));
	snprintf(message + at, sizeof(message) - at, " shingle");
	return dm_device_message(name, message);
}

static bool parse(const char *reply, struct latency *l)
{
	int used = 0;
	const char *p;
	char *end;
	u32 i;

	/* In precise regions times are in nanoseconds, too. */
	if (sscanf(reply, "%*u+%*u %llu %*u %*u %llu %llu %*u %*u %llu %*u %*u %*u %*u %*u %n",
		   &l->reads, &l->read_ns, &l->writes, &l->write_ns, &used) != 4 || !used)
		return false;
	for (i = 0, p = reply + used; i < BINS; i++, p = end + 1) {
		l->n[i] = strtoull(p, &end, 10);
		if (end == p || (i < BINS - 1 && *end != ':'))
			return false;
	}
	return true;
}

/* Sleep in steps of a second: a signal that arrives just before sleep() costs one step. */
static void wait_for(u64 seconds)
{
	while (!interrupted && seconds--)
		sleep(1);
}

static bool measure(const char *name, u64 seconds, struct latency *l)
{
	char message[64], *reply, *region;
	bool ok;

	catch_signals();
	region = begin(name);
	if (!region)
		return false;
	wait_for(seconds);
	snprintf(message, sizeof(message), "@stats_print %.20s", region);
	reply = dm_device_message(name, message);
	ok = reply && parse(reply, l);
	if (reply && !ok)
		fail("%s: the kernel's answer to %s has an unknown form", name, message);
	free(reply);
	snprintf(message, sizeof(message), "@stats_delete %.20s", region);
	free(region);
	reply = dm_device_message(name, message);
	ok &= !!reply;
	free(reply);
	return ok;
}

static u64 bound_us(u32 i)
{
	return 1ULL << (FIRST + i);
}

static double mean_us(u64 ns, u64 n)
{
	return n ? (double)ns / (double)n / 1000.0 : 0.0;
}

static void print(const struct latency *l)
{
	u32 i, first = BINS, last = 0;

	for (i = 0; i < BINS; i++) {
		first = l->n[i] ? min(first, i) : first;
		last = l->n[i] ? i : last;
	}
	say("reads  %12llu  mean %12.1f us", l->reads, mean_us(l->read_ns, l->reads));
	say("writes %12llu  mean %12.1f us", l->writes, mean_us(l->write_ns, l->writes));
	for (i = first; i <= last && first < BINS; i++) {
		if (i < BINS - 1)
			say("  below %12llu us %12llu", bound_us(i), l->n[i]);
		else
			say("  from  %12llu us %12llu", bound_us(i - 1), l->n[i]);
	}
}

static void print_json(const char *name, const struct latency *l)
{
	struct json_object *j = json_dict(NULL, NULL), *bins, *bin;
	u32 i;

	json_str(j, "name", name);
	json_u64(j, "reads", l->reads);
	json_double(j, "read_mean_us", mean_us(l->read_ns, l->reads));
	json_u64(j, "writes", l->writes);
	json_double(j, "write_mean_us", mean_us(l->write_ns, l->writes));
	bins = json_list(j, "histogram");
	for (i = 0; i < BINS; i++) {
		bin = json_dict(bins, NULL);
		if (i < BINS - 1)
			json_u64(bin, "below_us", bound_us(i));
		else
			json_object_object_add(bin, "below_us", NULL);
		json_u64(bin, "requests", l->n[i]);
	}
	json_print(j, stdout);
}

/**
 * latency_show() - measure and print the latency of a device's requests
 * @name: name of the device
 * @seconds: duration, unless a signal ends it
 * @json: print JSON
 *
 * Return: an exit code.
 */
int latency_show(const char *name, u64 seconds, bool json)
{
	struct latency l = { 0 };

	if (!measure(name, seconds, &l))
		return EXIT_OPERATION;
	if (json)
		print_json(name, &l);
	else
		print(&l);
	return EXIT_CLEAN;
}
