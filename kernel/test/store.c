// SPDX-License-Identifier: MIT OR Apache-2.0
/* The external content store: a process behind netlink, below the store in the kernel. */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <linux/capability.h>
#include "test.h"

enum { KEPT_MAX = 64 };

/* Stores the Data that it receives by their whole names, and answers with them. */
static void store_serve(int fd)
{
	static struct octets kept[KEPT_MAX];
	size_t count = 0;

	for (;;) {
		struct store_told told = store_next(fd);
		size_t i;

		if (told.command == NNET_CMD_STORE_WRITE) {
			CHECK(count < KEPT_MAX, "more Data than there are");
			memcpy(kept[count].at, told.octets, told.len);
			kept[count++].len = told.len;
			continue;
		}
		CHECK(told.command == NNET_CMD_STORE_READ, "a question");
		/* A Data's name follows two TLV headers; the first has two octets or four. */
		for (i = 0; i < count; i++) {
			size_t at = kept[i].at[1] == 253 ? 4 : 2;

			if (kept[i].at[at + 1] == told.len && !memcmp(kept[i].at + at + 2, told.octets, told.len))
				break;
		}
		if (i < count)
			store_found(fd, told.read, kept[i].at, kept[i].len);
		else
			store_absent(fd, told.read);
	}
}

static pid_t store_start(int *fd)
{
	pid_t child;

	CHECK(!store_attach(fd), "a store outside");
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		store_serve(*fd);
	}
	CHECK(child > 0, "a process");
	return child;
}

static void store_end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* A namespace with room for one Data, a consumer, and a producer of `/s`. */
static void one_place(int *consumer, int *producer)
{
	net_new();
	*consumer = socket_new();
	*producer = socket_new();
	CHECK(!cs_set(1), "one place");
	CHECK(!route_add("/s", NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(*producer, "/s"), "bound");
}

static void exchange(int consumer, int producer, const char *name, size_t octets)
{
	struct octets packet = interest_for(name), got;

	packet_send(consumer, &packet);
	got = packet_receive(producer);
	CHECK(is_packet(&got, INTEREST, name), "the Interest for %s", name);
	packet = data_for(name, octets);
	packet_send(producer, &packet);
	got = packet_receive(consumer);
	CHECK(is_same(&got, &packet), "the Data of %s", name);
}

TEST(what_leaves_the_memory_is_kept_outside_and_found_there)
{
	int consumer, producer, fd;
	struct octets packet, got;
	char name[32];
	pid_t store;

	one_place(&consumer, &producer);
	store = store_start(&fd);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "/s/%d", i);
		exchange(consumer, producer, name, i * 400);
	}
	CHECK(counter("cs", "cs_disk_writes") == 19, "all but the last");
	for (int i = 0; i < 19; i++) {
		struct octets expected;

		snprintf(name, sizeof(name), "/s/%d", i);
		packet = interest_for(name);
		packet_send(consumer, &packet);
		got = packet_receive(consumer);
		expected = data_for(name, i * 400);
		CHECK(is_same(&got, &expected), "%s comes from outside", name);
	}
	CHECK(nothing_comes(producer, 100), "nobody else is asked");
	CHECK(counter("cs", "cs_disk_hits") == 19, "each was found");
	/* Interests for other Data are forwarded upstream. */
	exchange(consumer, producer, "/s/new", 10);
	CHECK(counter("cs", "cs_disk_misses") == 20 + 1, "it was asked each time");
	store_end(store);
}

TEST(a_store_outside_that_reads_nothing_is_passed_by)
{
	int consumer, producer, fd, small = 4096, count = 0;
	struct octets packet, got;
	char name[32];

	one_place(&consumer, &producer);
	CHECK(!store_attach(&fd), "a store outside");
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), "little room");
	/* Interests wait for the store, and reach the producer once its buffer is full. */
	for (int i = 0; i < NNET_STORE_READS_MAX && nothing_comes(producer, i < 2 ? 100 : 0); i++) {
		snprintf(name, sizeof(name), "/s/%d", i);
		packet = interest_for(name);
		packet_send(consumer, &packet);
		count++;
	}
	CHECK(count > 1 && count < NNET_STORE_READS_MAX, "%d were asked for", count);
	CHECK(counter("cs", "cs_disk_reads") == (uint64_t)count - 1, "those that pend");
	CHECK(counter("cs", "cs_disk_bypass_busy") == 1, "and one passed by");
	got = packet_receive(producer);
	CHECK(is_packet(&got, INTEREST, name), "the last one");
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "/s/later/%d", i);
		exchange(consumer, producer, name, 10);
	}
	CHECK(counter("cs", "cs_disk_writes_bypassed") > 0, "Data passes by as well");
	/* A repeated Interest does not wait. */
	packet = interest_for("/s/0");
	packet_send(consumer, &packet);
	got = packet_receive(producer);
	CHECK(is_packet(&got, INTEREST, "/s/0"), "one that waited");
}

/* Sends Interests for `count` names of /s. Returns false if this took 900 ms or more. */
static bool ask_for(int consumer, int count)
{
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < count; i++) {
		struct octets packet;
		char name[32];

		snprintf(name, sizeof(name), "/s/%d", i);
		packet = interest_for(name);
		packet_send(consumer, &packet);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 < 900;
}

TEST(so_many_questions_pend_at_a_store_outside_and_one_more_is_passed_by)
{
	int consumer, producer, fd, large = 4 << 20, tries = 10;
	struct octets packet;

	for (;;) {
		one_place(&consumer, &producer);
		CHECK(!store_attach(&fd), "a store outside");
		CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof(large)), "room");
		if (ask_for(consumer, NNET_STORE_READS_MAX + 1))
			break;
		CHECK(--tries, "a second is too short here");
		close(fd);
	}
	CHECK(counter("cs", "cs_disk_reads") == NNET_STORE_READS_MAX, "so many pend");
	CHECK(counter("cs", "cs_disk_bypass_busy") == 1, "one more does not");
	packet = packet_receive(producer);
	CHECK(packet.at[0] == INTEREST && nothing_comes(producer, 100), "it alone goes upstream");
	usleep(1000000);
	packet = interest_for("/s/late");
	packet_send(consumer, &packet);
	CHECK(counter("cs", "cs_disk_reads") == NNET_STORE_READS_MAX + 1, "the oldest has had its time");
}

TEST(what_pends_at_a_store_outside_that_ends_goes_upstream)
{
	int consumer, producer, fd;
	struct octets packet, got;

	one_place(&consumer, &producer);
	CHECK(!store_attach(&fd), "a store outside");
	packet = interest_for("/s/a");
	packet_send(consumer, &packet);
	CHECK(nothing_comes(producer, 200), "it waits for the store");
	close(fd);
	got = packet_receive(producer);
	CHECK(is_packet(&got, INTEREST, "/s/a"), "it waits no more");
	packet = data_for("/s/a", 10);
	packet_send(producer, &packet);
	got = packet_receive(consumer);
	CHECK(is_same(&got, &packet), "answered");
	exchange(consumer, producer, "/s/b", 10);
	CHECK(!store_attach(&fd), "another store may come");
	close(fd);
}

TEST(a_store_outside_takes_a_capability_and_answers_what_it_was_asked)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	int consumer, producer, fd, other;
	struct store_told told;
	struct octets packet, got;

	one_place(&consumer, &producer);
	CHECK(!store_attach(&fd), "a store outside");
	CHECK(store_attach(&other) == -EBUSY, "there is one");
	packet = interest_for("/s/a");
	packet_send(consumer, &packet);
	told = store_next(fd);
	CHECK(told.command == NNET_CMD_STORE_READ, "it is asked");
	/* Data of another name is no answer: the Interest goes upstream. */
	packet = data_for("/s/b", 10);
	store_found(fd, told.read, packet.at, packet.len);
	got = packet_receive(producer);
	CHECK(is_packet(&got, INTEREST, "/s/a"), "upstream");
	CHECK(counter("cs", "cs_disk_wrong") == 1, "it is counted");
	store_found(fd, told.read, packet.at, packet.len);
	CHECK(store_next(fd).error == -ENOENT, "an answer is given once");
	store_absent(fd, 12345);
	CHECK(store_next(fd).error == -ENOENT, "what it was not asked");
	/* Octets that are no packet do no harm. */
	packet = interest_for("/s/c");
	packet_send(consumer, &packet);
	told = store_next(fd);
	store_found(fd, told.read, "\x06\xff", 2);
	got = packet_receive(producer);
	CHECK(is_packet(&got, INTEREST, "/s/c"), "upstream as well");
	close(fd);
	CHECK(!syscall(SYS_capset, &header, none), "without capabilities");
	CHECK(store_attach(&other) == -EPERM, "only who administers the network");
	/* Only the store may answer. */
	exchange(consumer, producer, "/s/d", 10);
}
