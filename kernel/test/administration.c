// SPDX-License-Identifier: MIT OR Apache-2.0
/* Netlink and procfs, rights, and a forwarder that panics. */
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "test.h"

TEST(routes_strategies_bindings_and_faces_are_listed)
{
	enum { ROUTES = 3000 };
	static char text[1 << 18];
	char name[64];
	uint64_t face;
	int fd;

	nets_joined();
	face = route_to(address_b, "/a/b");
	CHECK(!route_add("/a/b", NNET_FACE_LOCAL), "a second next hop");
	for (int i = 0; i < ROUTES; i++) {
		snprintf(name, sizeof(name), "/r/%d", i);
		CHECK(!route_add(name, face), "%s", name);
	}
	CHECK(list_count(NNET_CMD_ROUTE_GET) == ROUTES + 2, "every route is listed once");
	file_read("fib", text, sizeof(text));
	CHECK(strstr(text, "/a/b 1 0\n"), "as a name, a face and a cost");
	CHECK(strstr(text, "/r/2999 "), "and all of them in the file");
	CHECK(!strategy_set("/a", "/localhost/nfd/strategy/multicast"), "a strategy");
	CHECK(strategy_set("/a", "/localhost/nfd/strategy/none") == -EOPNOTSUPP, "one that there is not");
	CHECK(list_count(NNET_CMD_STRATEGY_GET) == 2, "that of / and that of /a");
	file_read("strategies", text, sizeof(text));
	CHECK(strstr(text, "/a /localhost/nfd/strategy/multicast"), "as two names: %s", text);
	fd = socket_new();
	CHECK(!socket_bind(fd, "/a/b/..."), "a name that a URI writes otherwise");
	file_read("bpt", text, sizeof(text));
	CHECK(strstr(text, "/a/b/...... "), "is written so: %s", text);
	file_read("faces", text, sizeof(text));
	CHECK(strstr(text, "1 local"), "the face local: %s", text);
	CHECK(strstr(text, "station link 02:00:00:00:00:0b 0 0"), "that of the device: %s", text);
	CHECK(strstr(text, "socket - - 0 0"), "that of the socket: %s", text);
	CHECK(list_count(NNET_CMD_FACE_GET) == 2, "both by netlink");
	CHECK(face_add("link", address_b) == -EEXIST, "a second one like the first");
	CHECK(!face_delete(face), "it is deleted");
	CHECK(face_delete(face) == -ENOENT, "once");
	file_read("faces", text, sizeof(text));
	CHECK(!strstr(text, "station"), "and gone: %s", text);
}

/* A message has room for the longest name there is. */
TEST(a_listing_with_the_longest_names_is_whole)
{
	static char prefix[NNET_PREFIX_MAX];
	int fd;

	net_new();
	for (size_t i = 0; i + 200 < sizeof(prefix) - 300; i++)
		prefix[i] = i % 200 ? 'a' : '/';
	fd = socket_new();
	CHECK(!socket_bind(fd, prefix), "a prefix of %zu octets", name_of(prefix).len);
	CHECK(!route_add(prefix, NNET_FACE_LOCAL), "a route for it");
	CHECK(!strategy_set(prefix, "/localhost/nfd/strategy/multicast"), "a strategy");
	for (int i = 0; i < 20; i++) {
		char other[32];

		snprintf(other, sizeof(other), "/b/%d", i);
		CHECK(!socket_bind(fd, other) && !route_add(other, NNET_FACE_LOCAL), "%s", other);
	}
	CHECK(list_count(NNET_CMD_BINDING_GET) == 21, "bindings");
	CHECK(list_count(NNET_CMD_ROUTE_GET) == 21, "routes");
	CHECK(list_count(NNET_CMD_STRATEGY_GET) == 2, "strategies");
}

TEST(writing_takes_a_capability_and_reading_none)
{
	struct nets nets = nets_joined();
	struct octets interest = interest_for("/a/1"), got;
	uint64_t face = route_to(address_b, "/a");
	int fd;

	(void)nets;
	CHECK(!setuid(65534), "nobody");
	CHECK(face_add("link", address_a) == -EPERM, "no face");
	CHECK(face_delete(face) == -EPERM, "of others neither");
	CHECK(route_add("/b", face) == -EPERM, "no route");
	CHECK(route_delete("/a", face) == -EPERM, "of others neither");
	CHECK(strategy_set("/a", "/localhost/nfd/strategy/multicast") == -EPERM, "no strategy");
	CHECK(cs_set(1) == -EPERM && cs_erase("/") == -EPERM, "not the content store");
	fd = socket_new();
	CHECK(!socket_bind(fd, "/b"), "a bind is free");
	CHECK(list_count(NNET_CMD_ROUTE_GET) == 1, "and leaves the routes as they were");
	packet_send(fd, &interest);
	interest = interest_for("/b/1");
	packet_send(fd, &interest);
	got = packet_receive(fd);
	CHECK(got.at[0] == LP_PACKET, "so is sending: without a route a Nack");
}

TEST(the_face_local_and_those_of_sockets_cannot_be_deleted)
{
	int fd;

	net_new();
	fd = socket_new();
	CHECK(!socket_bind(fd, "/a"), "bound");
	CHECK(face_delete(NNET_FACE_LOCAL) == -EBUSY, "the face local");
	CHECK(face_delete(face_of(fd)) == -EBUSY, "a socket's");
	CHECK(face_delete(9999) == -ENOENT, "one that there is not");
	CHECK(list_count(NNET_CMD_FACE_GET) == 1, "it is still there");
}

TEST(the_face_local_counts_what_goes_by_it_to_bound_sockets)
{
	static char text[65536];

	net_new();
	for (int i = 0; i < 3; i++)
		forwarder_serves("/counted");
	file_read("faces", text, sizeof(text));
	CHECK(!strncmp(text, "1 local - - 0 3\n", 16), "three Interests: %s", text);
	CHECK(counter("stats", "to_local") == 3, "and so say the counters");
}

TEST(faces_of_devices_that_come_and_go_are_told_to_who_listens)
{
	struct nets nets = nets_joined();
	uint64_t told, face;
	int events = events_listen(), fd;

	face = face_add("link", address_b);
	CHECK(event_next(events, &told) == NNET_CMD_FACE_NEW && told == face, "one comes: %lu", (unsigned long)told);
	fd = socket_new();
	CHECK(!socket_bind(fd, "/a"), "those of sockets are not told");
	CHECK(!face_delete(face), "it is deleted");
	CHECK(event_next(events, &told) == NNET_CMD_FACE_DEL && told == face, "which is told");
	face = face_add("link", address_b);
	CHECK(event_next(events, &told) == NNET_CMD_FACE_NEW && told == face, "another one");
	CHECK(face_add("link", address_b) < 0, "is there already");
	net_enter(nets.b);
	CHECK(face_add("link", address_a) > 0, "what another namespace does");
	CHECK(!link_delete("link"), "and its device goes");
	CHECK(event_next(events, &told) == NNET_CMD_FACE_DEL && told == face, "is not told, but what follows here is");
	CHECK(event_next(events, &told) == NNET_CMD_UNSPEC, "nothing else");
}

TEST(erasing_and_shrinking_empty_the_content_store)
{
	struct octets packet;
	char name[32];
	int consumer, producer;

	net_new();
	CHECK(!route_add("/cs", NNET_FACE_LOCAL), "a route");
	producer = socket_new();
	CHECK(!socket_bind(producer, "/cs"), "bound");
	consumer = socket_new();
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "/cs/%c/%d", i % 2 ? 'a' : 'b', i);
		packet = interest_for(name);
		packet_send(consumer, &packet);
		packet = packet_receive(producer);
		packet = data_for(name, 100);
		packet_send(producer, &packet);
		packet = packet_receive(consumer);
	}
	CHECK(counter("cs", "packets") == 20, "all are kept");
	CHECK(counter("cs", "octets") > 20 * packet.len, "with the buffers that they lie in");
	CHECK(cs_erase("/cs/a") == 10, "ten are erased");
	CHECK(counter("cs", "packets") == 10, "ten stay");
	CHECK(!cs_set(4), "room for four");
	CHECK(counter("cs", "packets") == 4 && counter("cs", "packets_max") == 4, "four stay");
	CHECK(!cs_set(0) && counter("cs", "packets") == 0 && counter("cs", "octets") == 0, "none");
}

TEST(a_namespace_that_uses_none_has_no_forwarder)
{
	char text[64];
	int fd;

	net_new();
	file_read("stop", text, sizeof(text));
	CHECK(!strcmp(text, "unused\n"), "%s", text);
	fd = socket_new();
	file_read("stop", text, sizeof(text));
	CHECK(!strcmp(text, "unused\n"), "a socket alone makes none: %s", text);
	CHECK(!socket_bind(fd, "/a"), "bound");
	file_read("stop", text, sizeof(text));
	CHECK(!strcmp(text, "running\n"), "%s", text);
	CHECK(counter("memory", "octets") > 1 << 20, "it has memory");
}

TEST(the_module_stays_while_a_socket_is_open)
{
	int fd;

	net_new();
	fd = socket_new();
	CHECK(syscall(SYS_delete_module, "nnet", O_NONBLOCK) && errno == EWOULDBLOCK, "it is in use");
	CHECK(!socket_bind(fd, "/a"), "and the socket works");
}

TEST(a_panic_stops_one_namespace_and_no_other)
{
	struct octets interest = interest_for("/x"), got;
	char text[256];
	int other_net = net_new(), other, fd, events;
	uint64_t face;

	other = socket_new();
	packet_send(other, &interest);
	got = packet_receive(other);
	net_new();
	fd = socket_new();
	packet_send(fd, &interest);
	got = packet_receive(fd);
	events = events_listen();
	CHECK(plant_panic(0) == -EIO, "the call that panics says so");
	CHECK(event_next(events, &face) == NNET_CMD_STOPPED, "who listens is told");
	file_read("stop", text, sizeof(text));
	CHECK(strstr(text, "stopped") && strstr(text, "planted"), "and why is told: %s", text);
	CHECK(send(fd, interest.at, interest.len, 0) < 0 && errno == ESHUTDOWN, "its sockets end");
	CHECK(socket_bind(fd, "/a") < 0, "and bind no more");
	close(fd);
	net_enter(other_net);
	interest = interest_for("/y");
	packet_send(other, &interest);
	got = packet_receive(other);
	CHECK(got.at[0] == LP_PACKET, "the other one goes on");
	net_new();
	fd = socket_new();
	packet_send(fd, &interest);
	got = packet_receive(fd);
	CHECK(got.at[0] == LP_PACKET, "and a new one can be made");
}

TEST(who_waits_for_a_lock_of_a_stopped_forwarder_leaves)
{
	cpu_set_t processor;
	pid_t holder, waiter;
	int status;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("  (not with one processor)\n");
		return;
	}
	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a forwarder");
	CPU_ZERO(&processor);
	holder = fork();
	if (!holder) {
		CPU_SET(0, &processor);
		CHECK(!sched_setaffinity(0, sizeof(processor), &processor), "processor 0");
		_exit(plant_panic(1) == -EIO ? 0 : 1);
	}
	waiter = fork();
	if (!waiter) {
		CPU_SET(1, &processor);
		CHECK(!sched_setaffinity(0, sizeof(processor), &processor), "processor 1");
		status = plant_panic(1);	/* the second caller waits */
		_exit(status == -EIO || status == -ESHUTDOWN ? 0 : 1);
	}
	CHECK(waitpid(holder, &status, 0) == holder && !status, "the one ends");
	CHECK(waitpid(waiter, &status, 0) == waiter && !status, "and so does the other");
}
