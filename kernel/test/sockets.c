// SPDX-License-Identifier: MIT OR Apache-2.0
/* AF_NNET as programs use it. */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include "test.h"

/* Returns true if an Interest of another socket reaches this one. */
static bool is_asked(int fd, const char *name)
{
	struct octets interest = interest_with(name, -1, false, 500), got;
	int consumer = socket_new();
	bool is_asked;

	packet_send(consumer, &interest);
	is_asked = !nothing_comes(fd, 300);
	if (is_asked) {
		got = packet_receive(fd);
		CHECK(is_same(&got, &interest), "what is asked for is %s", name);
	}
	close(consumer);
	return is_asked;
}

TEST(a_prefix_that_overlaps_a_bound_one_is_refused_until_its_socket_is_closed)
{
	static const char *const refused[] = { "/Alice/videos", "/Alice/videos/old", "/Alice", "/" };
	int first, second;

	net_new();
	first = socket_new();
	second = socket_new();
	CHECK(!socket_bind(first, "/Alice/videos"), "the first");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		CHECK(socket_bind(second, refused[i]) == -EADDRINUSE, "%s overlaps", refused[i]);
	CHECK(!socket_bind(second, "/Alice/video"), "a component beside it does not");
	CHECK(!socket_bind(second, "/Alice/photos"), "nor does a second prefix of one socket");
	close(first);
	first = socket_new();
	CHECK(!socket_bind(first, "/Alice/videos"), "free again");
	CHECK(list_count(NNET_CMD_BINDING_GET) == 3, "three bindings");
}

/* The entries of a closed socket are swept step by step, but a new bind succeeds at once. */
TEST(a_prefix_is_free_as_soon_as_its_socket_is_closed)
{
	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	for (int i = 0; i < 200; i++) {
		int fd = socket_new();

		/* More bindings than one step sweeps. */
		for (int n = 0; i % 20 == 0 && n < 300; n++) {
			char prefix[32];

			snprintf(prefix, sizeof(prefix), "/many/%d", n);
			CHECK(!socket_bind(fd, prefix), "%s, time %d", prefix, i);
		}
		CHECK(!socket_bind(fd, "/again"), "time %d", i);
		close(fd);
	}
}

TEST(a_prefix_that_its_socket_unbinds_is_free_and_the_others_stay)
{
	struct octets name = name_of("/one");
	int first, second;

	net_new();
	first = socket_new();
	second = socket_new();
	CHECK(setsockopt(first, SOL_NNET, NNET_UNBIND, name.at, name.len) && errno == ENOENT, "no face yet");
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(first, "/one") && !socket_bind(first, "/two"), "two prefixes");
	CHECK(setsockopt(second, SOL_NNET, NNET_UNBIND, name.at, name.len) && errno == ENOENT, "not its own");
	CHECK(setsockopt(first, SOL_NNET, NNET_UNBIND, name.at, 2) && errno == EINVAL, "half a name");
	CHECK(!setsockopt(first, SOL_NNET, NNET_UNBIND, name.at, name.len), "unbound");
	CHECK(setsockopt(first, SOL_NNET, NNET_UNBIND, name.at, name.len) && errno == ENOENT, "once");
	CHECK(is_asked(first, "/two/x"), "the other one stays");
	CHECK(!is_asked(first, "/one/x"), "and nothing comes to this one");
	CHECK(!socket_bind(second, "/one"), "which is another's now");
	CHECK(is_asked(second, "/one/y"), "who is asked");
}

TEST(several_packets_leave_by_one_call)
{
	enum { PACKETS = 5 };
	struct octets interests[PACKETS], got;
	struct iovec slices[PACKETS];
	struct mmsghdr messages[PACKETS] = { 0 };
	int consumer, producer;

	net_new();
	consumer = socket_new();
	producer = socket_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL) && !socket_bind(producer, "/app"), "a producer");
	for (int i = 0; i < PACKETS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "/app/%d", i);
		interests[i] = interest_for(name);
		slices[i] = (struct iovec){ interests[i].at, interests[i].len };
		messages[i].msg_hdr.msg_iov = &slices[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	CHECK(sendmmsg(consumer, messages, PACKETS, MSG_DONTWAIT | MSG_NOSIGNAL) == PACKETS, "all of them");
	for (int i = 0; i < PACKETS; i++) {
		got = packet_receive(producer);
		CHECK(is_same(&got, &interests[i]), "packet %d", i);
	}
}

TEST(a_bind_without_a_route_succeeds_and_gets_interests_once_there_is_one)
{
	int fd;

	net_new();
	fd = socket_new();
	CHECK(!socket_bind(fd, "/later/app"), "bound without a route");
	CHECK(!is_asked(fd, "/later/app/1"), "and not asked");
	CHECK(list_count(NNET_CMD_ROUTE_GET) == 0, "a bind is no route");
	CHECK(!route_add("/later", NNET_FACE_LOCAL), "a route");
	CHECK(is_asked(fd, "/later/app/2"), "asked");
	CHECK(!route_delete("/later", NNET_FACE_LOCAL), "the route goes");
	CHECK(!is_asked(fd, "/later/app/3"), "and not asked again");
}

TEST(a_prefix_too_long_for_an_address_is_bound_by_an_option)
{
	static char prefix[4096];
	struct octets name;
	int fd;

	net_new();
	for (int i = 0; i < 20; i++) {
		strcat(prefix, "/");
		memset(prefix + strlen(prefix), 'a' + i, 190);
	}
	fd = socket_new();
	CHECK(!socket_bind(fd, prefix), "a prefix of %zu octets", name_of(prefix).len);
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	CHECK(is_asked(fd, prefix), "asked by its whole name");
	name = name_of("/a");
	CHECK(setsockopt(fd, SOL_NNET, NNET_PREFIX, name.at, 8193) && errno == EINVAL, "one octet too many");
	CHECK(setsockopt(fd, SOL_NNET, NNET_PREFIX, name.at, 2) && errno == EINVAL, "half a name");
}

TEST(only_who_administers_the_network_binds_localhost)
{
	int fd;

	net_new();
	fd = socket_new();
	CHECK(!socket_bind(fd, "/localhost/nfd"), "root does");
	close(fd);
	fd = socket_new();
	CHECK(!setuid(65534), "nobody");
	CHECK(socket_bind(fd, "/localhost/nfd") == -EACCES, "nobody does not");
	CHECK(!socket_bind(fd, "/localhosts"), "but what only looks like it");
}

TEST(what_is_of_localhost_does_not_pass_a_socket_that_stands_for_another_machine)
{
	const struct octets local = interest_with("/localhost/app/1", -1, false, 500);
	const struct octets global = interest_with("/app/1", -1, false, 500), data = data_for("/app/1", 100);
	uint32_t station = NNET_KIND_STATION, none = 77;
	struct octets got;
	int remote, producer;

	net_new();
	producer = socket_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(producer, "/localhost/app") && !socket_bind(producer, "/app"), "two prefixes");
	remote = socket_new();
	CHECK(setsockopt(remote, SOL_NNET, NNET_REMOTE, &none, sizeof(none)) && errno == EINVAL, "no kind");
	CHECK(setsockopt(remote, SOL_NNET, NNET_REMOTE, &station, 2) && errno == EINVAL, "half a number");
	CHECK(!setsockopt(remote, SOL_NNET, NNET_REMOTE, &station, sizeof(station)), "it stands for a station");
	CHECK(setsockopt(remote, SOL_NNET, NNET_REMOTE, &station, sizeof(station)) && errno == EISCONN, "once");
	packet_send(remote, &local);
	CHECK(nothing_comes(producer, 300), "an Interest for /localhost goes nowhere");
	packet_send(remote, &global);
	got = packet_receive(producer);
	CHECK(is_packet(&got, INTEREST, "/app/1"), "another one does");
	packet_send(producer, &data);
	got = packet_receive(remote);
	CHECK(is_same(&got, &data), "and is answered");
	CHECK(is_asked(producer, "/localhost/app/2"), "a program of this machine asks for both");
	CHECK(setsockopt(socket_of(SOCK_DGRAM), SOL_NNET, NNET_REMOTE, &station, sizeof(station)) && errno == ENOPROTOOPT,
	      "of packets alone");
	remote = socket_new();
	CHECK(!setuid(65534), "nobody");
	CHECK(setsockopt(remote, SOL_NNET, NNET_REMOTE, &station, sizeof(station)) && errno == EPERM, "nobody may not");
}

TEST(a_thousand_sockets_under_one_routable_prefix_are_one_fib_entry)
{
	enum { SOCKETS = 1000 };
	static int sockets[SOCKETS];
	char name[64];

	net_new();
	CHECK(!route_add("/Alice", NNET_FACE_LOCAL), "the routable prefix");
	for (int i = 0; i < SOCKETS; i++) {
		snprintf(name, sizeof(name), "/Alice/app%d", i);
		sockets[i] = socket_new();
		CHECK(!socket_bind(sockets[i], name), "%s", name);
	}
	CHECK(list_count(NNET_CMD_ROUTE_GET) == 1, "one route");
	CHECK(counter("stats", "fib_entries") == 1, "one FIB entry");
	CHECK(list_count(NNET_CMD_BINDING_GET) == SOCKETS, "a thousand bindings");
	CHECK(is_asked(sockets[0], "/Alice/app0/1"), "the first is asked");
	CHECK(is_asked(sockets[SOCKETS - 1], "/Alice/app999/1"), "and the last");
}

TEST(a_socket_has_a_face_from_its_first_packet_until_it_is_closed)
{
	struct octets interest = interest_for("/x");
	int fd;

	net_new();
	fd = socket_new();
	CHECK(face_of(fd) == 0, "none before");
	packet_send(fd, &interest);
	CHECK(face_of(fd) >= 256, "one after");
	CHECK(list_count(NNET_CMD_FACE_GET) == 1, "it is listed");
	packet_send(fd, &interest);
	CHECK(list_count(NNET_CMD_FACE_GET) == 1, "and stays the one");
	close(fd);
	CHECK(list_count(NNET_CMD_FACE_GET) == 0, "until the socket is closed");
}

TEST(one_socket_is_consumer_and_producer_at_once)
{
	struct octets packet, got;
	int one, other;

	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	one = socket_new();
	other = socket_new();
	CHECK(!socket_bind(one, "/one") && !socket_bind(other, "/other"), "both produce");
	packet = interest_for("/other/1");
	packet_send(one, &packet);
	packet = interest_for("/one/1");
	packet_send(other, &packet);
	got = packet_receive(one);
	CHECK(is_packet(&got, INTEREST, "/one/1"), "the one is asked");
	got = packet_receive(other);
	CHECK(is_packet(&got, INTEREST, "/other/1"), "and so is the other");
	packet = data_for("/one/1", 10);
	packet_send(one, &packet);
	packet = data_for("/other/1", 10);
	packet_send(other, &packet);
	got = packet_receive(one);
	CHECK(is_packet(&got, DATA, "/other/1"), "the one is answered");
	got = packet_receive(other);
	CHECK(is_packet(&got, DATA, "/one/1"), "and so is the other");
}

TEST(poll_tells_of_packets_and_a_call_that_may_not_wait_does_not)
{
	struct octets interest = interest_for("/x");
	struct pollfd state = { .events = POLLIN | POLLOUT };
	uint8_t room[10];
	int octets;

	net_new();
	state.fd = socket_new();
	CHECK(poll(&state, 1, 0) == 1 && state.revents == POLLOUT, "writable alone: %x", state.revents);
	CHECK(recv(state.fd, room, sizeof(room), MSG_DONTWAIT) < 0 && errno == EAGAIN, "nothing there");
	CHECK(!ioctl(state.fd, SIOCINQ, &octets) && octets == 0, "no octets");
	packet_send(state.fd, &interest);
	state.events = POLLIN;
	CHECK(poll(&state, 1, 2000) == 1 && state.revents == POLLIN, "the Nack can be read");
	CHECK(!ioctl(state.fd, SIOCINQ, &octets) && octets > (int)interest.len, "%d octets", octets);
}

static void interrupted(int signal)
{
	(void)signal;
}

TEST(a_wait_ends_after_its_time_and_by_a_signal)
{
	struct timeval limit = { .tv_usec = 100000 };
	struct itimerval alarm_soon = { .it_value = limit };
	struct sigaction action = { .sa_handler = interrupted };
	uint8_t room[10];
	int fd;

	net_new();
	fd = socket_new();
	CHECK(!sigaction(SIGALRM, &action, NULL), "a signal that is handled");
	CHECK(!setitimer(ITIMER_REAL, &alarm_soon, NULL), "and comes soon");
	CHECK(recv(fd, room, sizeof(room), 0) < 0 && errno == EINTR, "ends the wait");
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), "a time");
	CHECK(recv(fd, room, sizeof(room), 0) < 0 && errno == EAGAIN, "ends it as well");
}

TEST(a_packet_can_be_peeked_at_and_is_cut_to_the_room_there_is)
{
	struct octets interest = interest_for("/x"), whole;
	uint8_t room[10];
	int fd;

	net_new();
	fd = socket_new();
	packet_send(fd, &interest);
	CHECK(!nothing_comes(fd, 2000), "the Nack");
	whole.len = recv(fd, whole.at, sizeof(whole.at), MSG_PEEK);
	CHECK(whole.len > interest.len, "peeked at");
	CHECK(recv(fd, room, sizeof(room), MSG_TRUNC) == (ssize_t)whole.len, "its length is told");
	CHECK(!memcmp(room, whole.at, sizeof(room)), "its begin is there");
	CHECK(recv(fd, room, sizeof(room), MSG_DONTWAIT) < 0 && errno == EAGAIN, "and it is gone");
}

TEST(a_socket_refuses_what_it_does_not_know)
{
	struct sockaddr_nnet address = { .snn_family = AF_NNET, .snn_namelen = 3, .snn_name = "\x08\x01" "a" };
	struct sockaddr *any = (void *)&address;
	struct octets interest = interest_for("/x");
	static uint8_t long_packet[NNET_PACKET_MAX + 1];
	int fd;

	net_new();
	CHECK(socket(AF_NNET, SOCK_STREAM, 0) < 0 && errno == ESOCKTNOSUPPORT, "a stream");
	CHECK(socket(AF_NNET, SOCK_RAW, 1) < 0 && errno == EPROTONOSUPPORT, "a protocol");
	fd = socket_new();
	CHECK(bind(fd, any, 7) && errno == EINVAL, "half an address");
	CHECK(bind(fd, any, 10) && errno == EINVAL, "an address with half a name");
	address.snn_namelen = NNET_NAME_INLINE + 1;
	CHECK(bind(fd, any, sizeof(address)) && errno == EINVAL, "a name beyond its address");
	address.snn_namelen = 2;
	CHECK(bind(fd, any, sizeof(address)) && errno == EINVAL, "half a component");
	address.snn_namelen = 3;
	address.snn_reserved = 1;
	CHECK(bind(fd, any, sizeof(address)) && errno == EINVAL, "a number with a meaning to come");
	CHECK(connect(fd, any, sizeof(address)) && errno == EOPNOTSUPP, "connect");
	CHECK(listen(fd, 1) && errno == EOPNOTSUPP, "listen");
	CHECK(send(fd, interest.at, 0, 0) < 0 && errno == EINVAL, "nothing");
	CHECK(send(fd, interest.at, interest.len, MSG_OOB) < 0 && errno == EOPNOTSUPP, "urgent octets");
	CHECK(send(fd, long_packet, sizeof(long_packet), 0) < 0 && errno == EMSGSIZE, "one octet too many");
	CHECK(send(fd, (void *)8, 100, 0) < 0 && errno == EFAULT, "memory that is not there");
	CHECK(!socket_bind(fd, "/fine"), "and it works as before");
}

TEST(what_no_packet_is_is_counted_and_harms_nobody)
{
	struct octets packet = interest_for("/x/y"), random_octets;
	int fd;

	net_new();
	fd = socket_new();
	for (size_t len = 1; len < packet.len; len++)
		CHECK(send(fd, packet.at, len, 0) == (ssize_t)len, "%zu octets of an Interest", len);
	CHECK(counter("faces", "truncated") == packet.len - 1, "each is counted");
	srandom(1);
	for (int i = 0; i < 2000; i++) {
		random_octets.len = 1 + random() % 200;
		for (size_t n = 0; n < random_octets.len; n++)
			random_octets.at[n] = random();
		random_octets.at[0] = (uint8_t[]){ 5, 6, 100 }[i % 3];
		packet_send(fd, &random_octets);
	}
	while (recv(fd, random_octets.at, sizeof(random_octets.at), MSG_DONTWAIT) > 0)
		;
	packet_send(fd, &packet);
	random_octets = packet_receive(fd);
	CHECK(random_octets.at[0] == LP_PACKET, "the Nack of a good Interest");
}

TEST(a_full_receive_buffer_is_counted_and_nothing_waits)
{
	struct octets interest;
	char name[32];
	int fd, producer, received = 0, room = 4096;

	net_new();
	CHECK(!route_add("/full", NNET_FACE_LOCAL), "a route");
	fd = socket_new();
	producer = socket_new();
	CHECK(!socket_bind(producer, "/full"), "bound");
	CHECK(!setsockopt(producer, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), "a small buffer");
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "/full/%d", i);
		interest = interest_for(name);
		packet_send(fd, &interest);
	}
	while (recv(producer, interest.at, sizeof(interest.at), MSG_DONTWAIT) > 0)
		received++;
	CHECK(received > 0 && received < 200, "%d were taken", received);
	CHECK(counter("stats", "socket_full") == 200u - received, "the others are counted");
}
