// SPDX-License-Identifier: MIT OR Apache-2.0
/* The dispatcher: the processors that process the packets of a device. */
#include <fcntl.h>
#include <sched.h>
#include "test.h"

/* Frames of each run: fewer than may wait for a processor, or for a socket. */
#define FRAMES 400

static void set_parameter(const char *name, const char *value)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/sys/module/nnet/parameters/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, value, strlen(value)) > 0, "%s", path);
	close(fd);
}

struct bed {
	struct nets nets;
	int station, producer;
};

/* A station whose frames all arrive at processor 0, as from a card with one queue. */
static bool bed_new(struct bed *bed)
{
	const int room = 4 << 20;
	cpu_set_t processor;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("  (not with one processor)\n");
		return false;
	}
	CPU_ZERO(&processor);
	CPU_SET(0, &processor);
	CHECK(!sched_setaffinity(0, sizeof(processor), &processor), "processor 0");
	bed->nets = nets_joined();
	bed->station = station_new();
	net_enter(bed->nets.b);
	CHECK(face_add("link", address_a) > 0, "a face");
	CHECK(!route_add("/d", NNET_FACE_LOCAL), "a route");
	bed->producer = socket_new();
	CHECK(!socket_bind(bed->producer, "/d"), "bound");
	CHECK(!setsockopt(bed->producer, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)), "room for all");
	return true;
}

/* Maximum wait until sent frames are processed, in units of 10 ms. */
#define PATIENCE 1000

/* The frames that each processor has processed, and those that arrived at the producer. */
struct spread {
	uint64_t by[2], arrived;
};

static struct spread throw_names(const struct bed *bed, int names)
{
	struct spread spread, before = { .by = { counter("processors", "0"), counter("processors", "1") } };
	uint64_t full = counter("stats", "dispatcher_full");
	uint8_t packet[NNET_PACKET_MAX];

	for (int i = 0; i < FRAMES; i++) {
		struct octets interest;
		char name[32];

		snprintf(name, sizeof(name), "/d/%d/%d", names, i % names);
		interest = interest_with(name, -1, false, 1);
		station_send(bed->station, address_b, address_a, interest.at, interest.len);
	}
	/* Until each has been processed, or has found no room. */
	for (int i = 0; i < PATIENCE; i++) {
		spread = (struct spread){ .by = { counter("processors", "0") - before.by[0], counter("processors", "1") - before.by[1] } };
		if (spread.by[0] + spread.by[1] + counter("stats", "dispatcher_full") - full >= FRAMES)
			break;
		usleep(10000);
	}
	usleep(50000);	/* by then packets to a socket have arrived, and no others follow */
	while (recv(bed->producer, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		spread.arrived++;
	return spread;
}

TEST(the_dispatcher_brings_one_name_to_one_processor_and_names_to_all)
{
	struct spread spread;
	struct bed bed;

	if (!bed_new(&bed))
		return;
	spread = throw_names(&bed, FRAMES);
	CHECK(spread.by[0] == FRAMES && spread.by[1] == 0, "without it, all where they come to: %lu", spread.by[0]);
	set_parameter("dispatch", "1");
	for (int i = 0; i < 8; i++) {
		/* All frames have one name: one processor processes them. */
		spread = throw_names(&bed, 1);
		CHECK(spread.by[0] + spread.by[1] == FRAMES, "all: %lu and %lu", spread.by[0], spread.by[1]);
		CHECK(spread.by[0] == 0 || spread.by[1] == 0, "by one: %lu and %lu", spread.by[0], spread.by[1]);
	}
	spread = throw_names(&bed, FRAMES);
	CHECK(spread.by[0] + spread.by[1] == FRAMES, "all: %lu and %lu", spread.by[0], spread.by[1]);
	CHECK(spread.by[0] > FRAMES / 4 && spread.by[1] > FRAMES / 4, "by both: %lu and %lu", spread.by[0], spread.by[1]);
	CHECK(spread.arrived == FRAMES, "%lu arrived", spread.arrived);
	set_parameter("dispatch", "0");
	CHECK(counter("stats", "dispatched") > FRAMES / 4, "counted");
	CHECK(counter("stats", "dispatcher_full") == 0, "and none lost");
}

TEST(the_dispatcher_at_random_brings_a_name_to_all_and_may_keep_none)
{
	struct spread spread;
	struct bed bed;

	if (!bed_new(&bed))
		return;
	set_parameter("dispatch", "2");
	spread = throw_names(&bed, FRAMES);
	CHECK(spread.by[0] > FRAMES / 4 && spread.by[1] > FRAMES / 4, "by both: %lu and %lu", spread.by[0], spread.by[1]);
	CHECK(spread.by[0] + spread.by[1] == FRAMES && spread.arrived == FRAMES, "and all");
	set_parameter("dispatch_own", "1");
	spread = throw_names(&bed, FRAMES);
	CHECK(spread.by[0] == 0 && spread.by[1] == FRAMES, "all by the other: %lu and %lu", spread.by[0], spread.by[1]);
	CHECK(spread.arrived == FRAMES, "%lu arrived", spread.arrived);
	set_parameter("dispatch", "1");
	spread = throw_names(&bed, FRAMES);
	CHECK(spread.by[0] == 0 && spread.arrived == FRAMES, "by name as well: %lu", spread.by[0]);
	set_parameter("dispatch", "0");
	set_parameter("dispatch_own", "0");
}

TEST(what_finds_no_room_at_another_processor_is_counted)
{
	struct spread spread;
	uint64_t full;
	struct bed bed;

	if (!bed_new(&bed))
		return;
	set_parameter("dispatch", "2");
	set_parameter("dispatch_queue_max", "0");
	spread = throw_names(&bed, FRAMES);
	full = counter("stats", "dispatcher_full");
	set_parameter("dispatch_queue_max", "1024");
	set_parameter("dispatch", "0");
	CHECK(full > FRAMES / 4, "%lu had no room", full);
	CHECK(spread.by[0] == FRAMES - full && spread.by[1] == 0, "the others were processed: %lu", spread.by[0]);
	CHECK(spread.arrived == FRAMES - full, "and arrived: %lu", spread.arrived);
}

/* The dispatcher does not change packets, fragmented or not. */
TEST(exchanges_by_dispatched_packets_are_whole)
{
	struct octets packet, data;
	struct bed bed;
	int consumer;
	char name[32];

	if (!bed_new(&bed))
		return;
	net_enter(bed.nets.a);
	route_to(address_b, "/d");
	consumer = socket_new();
	for (int i = 0; i < 60; i++) {
		set_parameter("dispatch", i % 3 == 0 ? "0" : i % 3 == 1 ? "1" : "2");
		snprintf(name, sizeof(name), "/d/exchange/%d", i);
		packet = interest_with(name, 20, false, 4000);
		data = data_for(name, i % 2 ? 300 : 7000);
		packet_send(consumer, &packet);
		packet = packet_receive(bed.producer);
		packet_send(bed.producer, &data);
		packet = packet_receive(consumer);
		CHECK(is_same(&packet, &data), "%s", name);
	}
	set_parameter("dispatch", "0");
}
