// SPDX-License-Identifier: MIT OR Apache-2.0
/* Lists of faces and tables, the cost of a packet, and the time for which the door is open. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include "test.h"

static void on_processor(int number)
{
	cpu_set_t processor;

	CPU_ZERO(&processor);
	CPU_SET(number, &processor);
	CHECK(!sched_setaffinity(0, sizeof(processor), &processor), "processor %d", number);
}

static bool has_two_processors(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) >= 2)
		return true;
	printf("  (not with one processor)\n");
	return false;
}

/* The fields of a row of `faces` after id and kind. */
static void face_row(uint64_t id, char *row, size_t room)
{
	static char text[65536];
	char *line;

	file_read("faces", text, sizeof(text));
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (strtoull(line, NULL, 10) == id) {
			snprintf(row, room, "%s", line);
			return;
		}
	CHECK(false, "no face %lu", (unsigned long)id);
}

TEST(faces_of_sockets_and_devices_have_ids_of_one_kind_and_bound_ones_alone_get_interests)
{
	struct nets nets = nets_joined();
	const uint8_t station[6] = { 2, 0, 0, 0, 0, 0x77 };
	struct octets packet = interest_for("/upper/1"), got;
	int bound = socket_new(), other = socket_new(), consumer = socket_new();
	uint64_t ids[5];
	char row[128];

	net_enter(nets.a);
	ids[0] = face_add("link", address_b);
	ids[1] = face_add("link", station);
	CHECK(!route_add("/upper", NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(bound, "/upper"), "bound");
	packet_send(consumer, &packet);
	got = packet_receive(bound);
	CHECK(is_same(&got, &packet), "who has bound the prefix gets the Interest");
	packet = interest_for("/nowhere");
	packet_send(other, &packet);
	packet_receive(other);	/* a Nack */
	packet = interest_for("/upper/2");
	packet_send(consumer, &packet);
	packet_receive(bound);
	CHECK(nothing_comes(other, 100), "who has not gets none");
	ids[2] = face_of(bound);
	ids[3] = face_of(other);
	ids[4] = face_of(consumer);
	for (int i = 0; i < 5; i++) {
		CHECK((int64_t)ids[i] >= 256, "face %d: %ld", i, (long)ids[i]);
		for (int k = 0; k < i; k++)
			CHECK(ids[i] != ids[k], "ids are different");
		face_row(ids[i], row, sizeof(row));
		CHECK(strstr(row, i < 2 ? " station link " : " socket - - "), "%s", row);
	}
}

TEST(data_for_a_socket_that_was_closed_goes_nowhere_and_is_counted)
{
	struct octets interest, data, got;
	uint64_t gone, freed;
	int producer, consumer;
	char name[32];

	net_new();
	producer = socket_new();
	CHECK(!route_add("/gone", NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(producer, "/gone"), "bound");
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "/gone/%d", i);
		interest = interest_for(name);
		data = data_for(name, 100);
		consumer = socket_new();
		packet_send(consumer, &interest);
		got = packet_receive(producer);
		CHECK(is_same(&got, &interest), "it is asked for");
		close(consumer);
		packet_send(producer, &data);
	}
	gone = counter("drops", "face_gone") + counter("drops", "unsolicited") + counter("stats", "no_face");
	CHECK(gone == 20, "each Data is counted where it went: %lu", (unsigned long)gone);
	freed = counter("stats", "faces_freed") + counter("stats", "faces_orphaned");
	CHECK(freed == 20 && !counter("stats", "orphans"), "%lu faces, of which none is held", (unsigned long)freed);
	CHECK(counter("stats", "out_data") == 0, "nobody got one");
	forwarder_serves("/after");
}

TEST(must_be_fresh_is_answered_by_the_content_store_while_it_is_fresh)
{
	struct octets interest = interest_for("/fresh/1/a"), data = data_fresh_for("/fresh/1/a", 50, 700), got;
	int consumer, producer;

	net_new();
	consumer = socket_new();
	producer = socket_new();
	CHECK(!route_add("/fresh", NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(producer, "/fresh"), "bound");
	packet_send(consumer, &interest);
	packet_receive(producer);
	packet_send(producer, &data);
	packet_receive(consumer);
	interest = interest_for_fresh("/fresh/1");
	packet_send(consumer, &interest);
	got = packet_receive(consumer);
	CHECK(is_same(&got, &data), "as long as it is fresh");
	CHECK(nothing_comes(producer, 1000), "and the producer is not asked");
	interest = interest_for_fresh("/fresh/1");
	packet_send(consumer, &interest);
	got = packet_receive(producer);
	CHECK(is_same(&got, &interest), "then the producer is");
	interest = interest_with("/fresh/1", -1, true, 4000);
	packet_send(consumer, &interest);
	got = packet_receive(consumer);
	CHECK(is_same(&got, &data), "and who takes any gets it still");
}

/* ---- probes: how often a function of the kernel has run ---- */

static const char *const copies[] = {
	"pskb_expand_head", "skb_copy", "skb_copy_expand", "__pskb_copy_fclone", "skb_linearize",
};

static bool trace_write(const char *file, int flags, const char *text)
{
	char path[96];
	bool is_done;
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/%s", file);
	fd = open(path, O_WRONLY | O_CLOEXEC | flags);
	is_done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return is_done;
}

/* Returns the number of probes; 0 if this kernel has none. */
static int probes_set(void)
{
	char text[96];
	int set = 0;

	mount("trace", "/sys/kernel/tracing", "tracefs", 0, NULL);
	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		snprintf(text, sizeof(text), "p:nnet_test/%s %s\n", copies[i], copies[i]);
		if (!trace_write("kprobe_events", O_APPEND, text))
			continue;
		snprintf(text, sizeof(text), "events/nnet_test/%s/enable", copies[i]);
		set += trace_write(text, 0, "1");
	}
	return set;
}

static void probes_take_away(void)
{
	trace_write("events/nnet_test/enable", 0, "0");
	trace_write("kprobe_events", O_TRUNC, "\n");
}

static unsigned long probes_hit(void)
{
	FILE *file = fopen("/sys/kernel/tracing/kprobe_profile", "r");
	unsigned long hits, all = 0;
	char name[64];

	CHECK(file, "kprobe_profile");
	while (fscanf(file, "%63s %lu %*u", name, &hits) == 2)
		all += hits;
	fclose(file);
	return all;
}

#define SOCKETS 20

TEST(a_data_for_many_sockets_is_one_upstream_and_copied_for_none)
{
	struct nets nets = nets_joined();
	int sockets[SOCKETS], producer, probes;
	struct octets packet, data, got;
	unsigned long before, hits;
	char name[32];

	net_enter(nets.b);
	CHECK(face_add("link", address_a) > 0, "a face");
	CHECK(!route_add("/many", NNET_FACE_LOCAL), "a route");
	producer = socket_new();
	CHECK(!socket_bind(producer, "/many"), "bound");
	net_enter(nets.a);
	route_to(address_b, "/many");
	for (int i = 0; i < SOCKETS; i++)
		sockets[i] = socket_new();
	probes = probes_set();
	before = probes ? probes_hit() : 0;
	for (int round = 0; round < 30; round++) {
		snprintf(name, sizeof(name), "/many/%d", round);
		data = data_for(name, 1200);
		for (int i = 0; i < SOCKETS; i++) {
			packet = interest_with(name, -1, false, 30000);
			packet_send(sockets[i], &packet);
		}
		CHECK(counter("stats", "pit_entries") == 1, "one entry for all");
		/* The strategy forwards an Interest repeated after 10 ms: more may follow. */
		do
			got = packet_receive(producer);
		while (!is_packet(&got, INTEREST, name));
		packet_send(producer, &data);
		for (int i = 0; i < SOCKETS; i++) {
			got = packet_receive(sockets[i]);
			CHECK(is_same(&got, &data), "socket %d has it", i);
		}
	}
	hits = probes ? probes_hit() - before : 0;
	probes_take_away();
	printf("  %d probes, %lu copies of heads or payloads in %d exchanges\n", probes, hits, 30 * SOCKETS);
	/* The probes see the whole machine, and IPv6 sends packets on a new link now and then. */
	CHECK(hits < 10, "nothing of ours was copied");
	CHECK(counter("stats", "suppressed_interests") > 30 * SOCKETS / 2, "most of them went no further");
	CHECK(!counter("stats", "head_copied") && !counter("stats", "linearized"), "by its own count");
}

TEST(can_be_prefix_by_one_processor_is_answered_by_what_comes_to_another)
{
	struct octets interest, data, got;
	int consumer, producer;
	char name[32], longer[48];

	net_new();
	if (!has_two_processors())
		return;
	consumer = socket_new();
	producer = socket_new();
	CHECK(!route_add("/across", NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(producer, "/across"), "bound");
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "/across/%d", i);
		snprintf(longer, sizeof(longer), "/across/%d/v/%d", i, i);
		interest = interest_with(name, -1, true, 4000);
		data = data_for(longer, 100);
		on_processor(0);
		packet_send(consumer, &interest);
		on_processor(1);
		got = packet_receive(producer);
		CHECK(got.at[0] == INTEREST, "bare: there is no token");
		packet_send(producer, &data);
		got = packet_receive(consumer);
		CHECK(is_same(&got, &data), "the longer name answers");
	}
}

/* ---- the time for which the door is open ---- */

struct passages {
	uint64_t up_to_1_ms, more, longest_us;
};

/* The passages of one kind, which is its column in the file, from 1 on; 0 for all. */
static struct passages passages_of(int column)
{
	struct passages passages = { 0 };
	static char text[8192];
	char *line, *rest;

	file_read("passages", text, sizeof(text));
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		unsigned long long n[5] = { 0 }, chosen;
		char first[16];

		if (sscanf(line, "%15s %llu %llu %llu %llu", first, &n[1], &n[2], &n[3], &n[4]) != 5)
			continue;
		chosen = column ? n[column] : n[1] + n[2] + n[3] + n[4];
		if (!strcmp(first, "longest"))
			passages.longest_us = chosen;
		else if (strcmp(first, "more") && strtoul(first, NULL, 10) <= 1024)
			passages.up_to_1_ms += chosen;
		else
			passages.more += chosen;
	}
	return passages;
}

enum { FOR_PACKETS = 1, FOR_TIME, FOR_LISTS, FOR_CONTROL };

/* All ticks of the processors since the start, and the busy ones. */
static void ticks_of_processors(unsigned long long *all, unsigned long long *busy)
{
	unsigned long long ticks[8] = { 0 };
	FILE *file = fopen("/proc/stat", "r");

	CHECK(file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
			     &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) == 8, "/proc/stat");
	fclose(file);
	*all = *busy = 0;
	for (int i = 0; i < 8; i++) {
		*all += ticks[i];
		*busy += i == 3 || i == 4 ? 0 : ticks[i];
	}
}

/* The busy share of the processors in the idlest of five seconds. */
static double share_when_idle(void)
{
	double least = 1;

	for (int turn = 0; turn < 5; turn++) {
		unsigned long long all[2], busy[2];

		ticks_of_processors(&all[0], &busy[0]);
		sleep(1);
		ticks_of_processors(&all[1], &busy[1]);
		if (all[1] > all[0] && (busy[1] - busy[0]) / (double)(all[1] - all[0]) < least)
			least = (busy[1] - busy[0]) / (double)(all[1] - all[0]);
	}
	return least;
}

TEST(nothing_passes_the_door_while_nothing_happens)
{
	struct passages before, after;
	double share;

	nets_joined();
	route_to(address_b, "/idle");
	forwarder_serves("/after");
	sleep(3);
	before = passages_of(0);
	share = share_when_idle();
	after = passages_of(0);
	CHECK(after.up_to_1_ms + after.more == before.up_to_1_ms + before.more,
	      "%lu passages in five seconds",
	      (unsigned long)(after.up_to_1_ms + after.more - before.up_to_1_ms - before.more));
	printf("  %.2f %% of the processors\n", 100 * share);
	CHECK(share < 0.01, "under 1 %% when idle");
}

#define ROUTES 3000
#define DATA_KEPT 6000

static uint64_t count_of(int column)
{
	struct passages passages = passages_of(column);

	return passages.up_to_1_ms + passages.more;
}

/* Maximum number of table entries in one passage, because long work is done step by step. */
#define PER_PASSAGE 128

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* Returns true if the guest was stopped: 0.2 ms outside of the door took more than 1 ms. */
static bool was_stopped(void)
{
	double start = seconds(), now;

	do
		now = seconds();
	while (now < start + 0.0002);
	return now > start + 0.001;
}

TEST(full_tables_are_listed_cleared_and_expired_in_short_passages)
{
	static const char *const kinds[] = { "", "packets", "time", "lists", "control" };
	const uint8_t station[6] = { 2, 0, 0, 0, 0, 0x77 };
	struct octets packet;
	uint64_t before, more = 0, all = 0, stops = 0;
	int consumer, producer;
	long face;
	char name[32];

	nets_joined();
	face = face_add("link", station);
	CHECK(face > 0, "a face");
	for (int i = 0; i < ROUTES; i++) {
		snprintf(name, sizeof(name), "/route/%d", i);
		CHECK(!route_add(name, face), "route %d", i);
	}
	consumer = socket_new();
	producer = socket_new();
	CHECK(!route_add("/data", NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(producer, "/data"), "bound");
	for (int i = 0; i < DATA_KEPT; i++) {
		snprintf(name, sizeof(name), "/data/%d", i);
		packet = interest_with(name, -1, false, 1000);
		packet_send(consumer, &packet);
		packet_receive(producer);
		stops += was_stopped();
		if (i >= DATA_KEPT / 2)	/* the others expire */
			continue;
		packet = data_for(name, 10);
		packet_send(producer, &packet);
		packet_receive(consumer);
	}
	before = count_of(FOR_LISTS);
	CHECK(list_count(NNET_CMD_ROUTE_GET) >= ROUTES, "all are listed");
	CHECK(count_of(FOR_LISTS) - before >= ROUTES / PER_PASSAGE, "in turns");
	before = count_of(FOR_CONTROL);
	CHECK(!cs_set(10), "the content store shrinks");
	CHECK(count_of(FOR_CONTROL) - before >= (DATA_KEPT / 2 - 10) / PER_PASSAGE, "in turns");
	before = count_of(FOR_TIME);
	CHECK(!face_delete(face), "the face goes");
	for (int i = 0; i < 200 && counter("stats", "fib_entries") > 1; i++)
		usleep(20000);
	CHECK(counter("stats", "fib_entries") == 1, "and its routes");
	CHECK(count_of(FOR_TIME) - before >= ROUTES / PER_PASSAGE, "in turns");
	for (int i = 0; i < 300 && counter("stats", "pit_entries"); i++)
		usleep(20000);
	CHECK(!counter("stats", "pit_entries"), "what was pending has expired");
	for (int i = FOR_PACKETS; i <= FOR_CONTROL; i++) {
		struct passages passages = passages_of(i);

		printf("  %s: %lu passages, of which %lu took more than a millisecond; the longest %lu us\n", kinds[i],
		       (unsigned long)(passages.up_to_1_ms + passages.more), (unsigned long)passages.more,
		       (unsigned long)passages.longest_us);
		more += passages.more;
		all += passages.up_to_1_ms + passages.more;
	}
	printf("  of %d moments outside %lu did\n", DATA_KEPT, (unsigned long)stops);
	/* An emulated processor is stopped now and then by the machine that runs it. */
	CHECK(more * 100 * DATA_KEPT <= (DATA_KEPT + 100 * stops) * all, "%lu of %lu took more than a millisecond",
	      (unsigned long)more, (unsigned long)all);
}

/* ---- under load ---- */

static int by_size(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;

	return (difference > 0) - (difference < 0);
}

static double p99(const double *took, int count)
{
	double sorted[count];

	memcpy(sorted, took, sizeof(sorted));
	qsort(sorted, count, sizeof(*sorted), by_size);
	return sorted[count * 99 / 100];
}

/* The time of closing a socket with a face, a binding and a pending Interest. */
static double time_of_close(void)
{
	static int closed;
	struct octets packet = interest_with("/load/never", -1, false, 200);
	int fd = socket_new();
	char name[32];
	double start;

	snprintf(name, sizeof(name), "/close/%d", closed++);
	CHECK(!socket_bind(fd, name), "bound");
	packet_send(fd, &packet);
	start = seconds();
	close(fd);
	return seconds() - start;
}

static int net_beside;

static double time_of_removal(void)
{
	const uint8_t station[6] = { 2, 0, 0, 0, 0, 0x55 };
	double start;

	link_join(net_beside);
	CHECK(face_add("link", station) > 0, "a face");
	start = seconds();
	CHECK(!link_delete("link"), "the device goes");
	return seconds() - start;
}

static void load_forever(void)
{
	struct octets interest = interest_with("/load/x", -1, false, 100), data = data_for("/load/x", 1000);
	int consumer = socket_new(), producer = socket_new();
	uint8_t packet[NNET_PACKET_MAX];

	CHECK(!socket_bind(producer, "/load"), "bound");
	for (;;) {
		send(consumer, interest.at, interest.len, MSG_DONTWAIT);
		send(producer, data.at, data.len, MSG_DONTWAIT);
		while (recv(producer, packet, sizeof(packet), MSG_DONTWAIT) > 0)
			;
		while (recv(consumer, packet, sizeof(packet), MSG_DONTWAIT) > 0)
			;
	}
}

#define TURNS_MAX 5
#define BLOCKS 10

/*
 * Measures idle and under load alternately, in short blocks, so that a pause of the guest affects
 * both. Compares the 99th percentiles of all values. While they differ too much it measures more,
 * because a single pause decides the percentile of few values.
 */
static void compare(double (*measure)(void), pid_t load, const char *what, int block)
{
	int turn_len = BLOCKS * block, count = 0;
	double took[2][TURNS_MAX * turn_len], idle = 0, loaded = 0;

	for (int turn = 0; turn < TURNS_MAX && (!turn || loaded > 3 * idle); turn++) {
		for (int end = count + turn_len; count < end; count += block) {
			for (int under = 0; under < 2; under++) {
				kill(load, under ? SIGCONT : SIGSTOP);
				usleep(10000);
				for (int i = 0; i < block; i++)
					took[under][count + i] = measure();
			}
		}
		idle = p99(took[0], count);
		loaded = p99(took[1], count);
	}
	printf("  %s %d times: %.2f ms idle, %.2f ms under load\n", what, count, idle * 1e3, loaded * 1e3);
	CHECK(loaded <= 3 * idle, "%s", what);
}

TEST(closing_and_removing_under_load_takes_no_longer_than_three_times_as_idle)
{
	int status, here;
	pid_t load;

	here = net_new();
	if (!has_two_processors())
		return;
	net_beside = net_new();
	net_enter(here);
	CHECK(!route_add("/load", NNET_FACE_LOCAL), "a route");
	on_processor(0);
	load = fork();
	if (!load) {
		on_processor(1);
		load_forever();
	}
	compare(time_of_close, load, "closing", 20);
	compare(time_of_removal, load, "removing a device", 4);
	kill(load, SIGKILL);
	CHECK(waitpid(load, &status, 0) == load && WIFSIGNALED(status), "the load went on");
}

/* ---- beside TCP ---- */

static void address_set(const char *address)
{
	struct ifreq request = { .ifr_name = "link" };
	struct sockaddr_in *of = (void *)&request.ifr_addr;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	of->sin_family = AF_INET;
	CHECK(inet_pton(AF_INET, address, &of->sin_addr) == 1, "%s", address);
	CHECK(!ioctl(fd, SIOCSIFADDR, &request), "address %s", address);
	close(fd);
}

static struct sockaddr_in sink_address(void)
{
	struct sockaddr_in sink = { .sin_family = AF_INET, .sin_port = htons(7000) };

	inet_pton(AF_INET, "10.9.0.2", &sink.sin_addr);
	return sink;
}

/* Receives everything, until it is ended. */
static pid_t sink_start(void)
{
	struct sockaddr_in sink = sink_address();
	static char room[65536];
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
	pid_t child;

	CHECK(!bind(listener, (void *)&sink, sizeof(sink)) && !listen(listener, 4), "a listener");
	child = fork();
	if (child) {
		close(listener);
		return child;
	}
	for (;;) {
		fd = accept(listener, NULL, NULL);
		while (read(fd, room, sizeof(room)) > 0)
			;
		close(fd);
	}
}

#define RATE_SECONDS 1

/* Octets in each second, by one TCP connection. */
static double tcp_rate(void)
{
	struct sockaddr_in sink = sink_address();
	static char room[65536];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	double end, octets = 0;
	ssize_t len;

	CHECK(!connect(fd, (void *)&sink, sizeof(sink)), "connected");
	for (end = seconds() + RATE_SECONDS; seconds() < end; octets += len) {
		len = write(fd, room, sizeof(room));
		CHECK(len > 0, "TCP goes on");
	}
	close(fd);
	return octets / RATE_SECONDS;
}

/* Exchanges per second that the other forwarder answers. This one caches no Data. */
static double ndn_rate(int fd)
{
	struct octets interest, got;
	double end, answered = 0;

	for (end = seconds() + RATE_SECONDS; seconds() < end; answered++) {
		interest = interest_for("/tcp/beside");
		packet_send(fd, &interest);
		got = packet_receive(fd);
		CHECK(got.at[0] == DATA, "it is answered: %02x", got.at[0]);
	}
	return answered / RATE_SECONDS;
}

TEST(tcp_and_named_data_share_a_device_and_neither_starves)
{
	struct nets nets = nets_joined();
	struct octets packet = interest_for("/tcp/beside"), data = data_fresh_for("/tcp/beside", 1000, 60000);
	enum { TURNS = 5 };
	double alone[2][TURNS], beside[2][TURNS], one[2], both[2];
	int consumer, producer, ends[2];
	pid_t sink, other;

	net_enter(nets.b);
	address_set("10.9.0.2");
	CHECK(face_add("link", address_a) > 0, "a face");
	CHECK(!route_add("/tcp", NNET_FACE_LOCAL), "a route");
	producer = socket_new();
	CHECK(!socket_bind(producer, "/tcp"), "bound");
	sink = sink_start();
	net_enter(nets.a);
	address_set("10.9.0.1");
	route_to(address_b, "/tcp");
	CHECK(!cs_set(0), "nothing is kept here");
	consumer = socket_new();
	packet_send(consumer, &packet);
	packet_receive(producer);
	packet_send(producer, &data);
	packet_receive(consumer);
	CHECK(!pipe(ends), "a pipe");
	/* Alternates. The medians count, because the guest may be stopped for a while. */
	for (int i = 0; i < TURNS; i++) {
		alone[0][i] = tcp_rate();
		alone[1][i] = ndn_rate(consumer);
		other = fork();
		if (!other) {
			double rate = tcp_rate();

			_exit(write(ends[1], &rate, sizeof(rate)) != sizeof(rate));
		}
		beside[1][i] = ndn_rate(consumer);
		CHECK(read(ends[0], &beside[0][i], sizeof(double)) == sizeof(double), "TCP's rate");
		waitpid(other, NULL, 0);
	}
	kill(sink, SIGKILL);
	waitpid(sink, NULL, 0);
	for (int i = 0; i < 2; i++) {
		one[i] = median_of(alone[i], TURNS);
		both[i] = median_of(beside[i], TURNS);
	}
	printf("  TCP %.1f MB/s alone, %.1f beside; named data %.0f exchanges/s alone, %.0f beside\n", one[0] / 1e6,
	       both[0] / 1e6, one[1], both[1]);
	/* Half is fair. On a busy host the guest's turns are uneven (0.22 was seen); a starved flow
	 * has nearly nothing.
	 */
	CHECK(both[0] >= 0.1 * one[0], "TCP");
	CHECK(both[1] >= 0.1 * one[1], "named data");
}
