// SPDX-License-Identifier: MIT OR Apache-2.0
/* SOCK_SEQPACKET: objects in segments. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <time.h>
#include "test.h"

/* The octet of an object at an offset, so that content is compared without a copy. */
static uint8_t octet_of(size_t at)
{
	return (at * 2654435761u) >> 13;
}

static int provider_of(const char *prefix)
{
	int fd = socket_of(SOCK_SEQPACKET);

	CHECK(!socket_bind(fd, prefix), "%s is offered", prefix);
	return fd;
}

static int open_object(int fd, const char *prefix)
{
	struct sockaddr_nnet address = address_of(prefix);

	return connect(fd, (void *)&address, sizeof(address)) ? -errno : 0;
}

static int consumer_of(const char *prefix)
{
	int fd = socket_of(SOCK_SEQPACKET);

	CHECK(!open_object(fd, prefix), "%s is opened", prefix);
	return fd;
}

/* ---- a provider's thread ---- */

struct offer {
	int fd;
	size_t octets, part;
	pthread_t thread;
};

static void *offer_on(void *given)
{
	struct offer *offer = given;
	uint8_t *octets = malloc(offer->part);
	size_t done = 0;

	while (done < offer->octets) {
		size_t part = offer->octets - done < offer->part ? offer->octets - done : offer->part;
		bool is_last = done + part == offer->octets;

		for (size_t i = 0; i < part; i++)
			octets[i] = octet_of(done + i);
		CHECK(send(offer->fd, octets, part, is_last ? MSG_EOR : 0) == (ssize_t)part, "%zu octets at %zu", part, done);
		done += part;
	}
	free(octets);
	return NULL;
}

static struct offer *offer_begin(int fd, size_t octets, size_t part)
{
	struct offer *offer = calloc(1, sizeof(*offer));

	*offer = (struct offer){ .fd = fd, .octets = octets, .part = part };
	CHECK(!pthread_create(&offer->thread, NULL, offer_on, offer), "a provider's thread");
	return offer;
}

static void offer_end(struct offer *offer)
{
	CHECK(!pthread_join(offer->thread, NULL), "it has sent all");
	free(offer);
}

/* Reads to the end, and checks each octet. Returns their number. */
static size_t read_object(int fd)
{
	uint8_t octets[NNET_PACKET_MAX];
	size_t done = 0;
	ssize_t len;

	while ((len = recv(fd, octets, sizeof(octets), 0)) > 0) {
		for (ssize_t i = 0; i < len; i++)
			CHECK(octets[i] == octet_of(done + i), "the octet at %zu", done + i);
		done += len;
	}
	CHECK(len == 0, "the end after %zu octets", done);
	CHECK(recv(fd, octets, sizeof(octets), MSG_DONTWAIT) == 0, "and it stays the end");
	return done;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* A provider in one namespace, and a consumer in the other that reads from its prefix. */
static struct nets nets_for(const char *prefix)
{
	struct nets nets = nets_joined();

	net_enter(nets.b);
	CHECK(face_add("link", address_a) > 0, "a face towards a");
	CHECK(!route_add(prefix, NNET_FACE_LOCAL), "a route to bound sockets");
	net_enter(nets.a);
	route_to(address_b, prefix);
	return nets;
}

/* Transfers an object. Returns the duration, s. */
static double transfer(const struct nets *nets, const char *prefix, size_t octets)
{
	struct offer *offer;
	int consumer, provider;
	double begin, took;

	net_enter(nets->b);
	provider = provider_of(prefix);
	net_enter(nets->a);
	begin = now_s();
	consumer = consumer_of(prefix);
	offer = offer_begin(provider, octets, 10000);
	CHECK(read_object(consumer) == octets, "all of it");
	took = now_s() - begin;
	printf("  %zu octets of %s in %.2f s\n", octets, prefix, took);
	offer_end(offer);
	close(consumer);
	close(provider);
	return took;
}

/* ---- tests ---- */

TEST(an_object_crosses_in_segments_in_their_order_and_ends)
{
	enum { OCTETS = 300000 };
	struct nets nets = nets_for("/Net-A/prdc-01/0/PubFiles/ABCD");
	struct octets expected = name_of("/Net-A/prdc-01/0/PubFiles/ABCD");
	struct sockaddr_nnet from;
	uint8_t octets[NNET_PACKET_MAX];
	size_t done = 0;
	struct offer *offer;
	int consumer, provider;
	unsigned n;

	net_enter(nets.b);
	provider = provider_of("/Net-A/prdc-01/0/PubFiles/ABCD");
	offer = offer_begin(provider, OCTETS, 7000);
	net_enter(nets.a);
	consumer = consumer_of("/Net-A/prdc-01/0/PubFiles/ABCD");
	for (n = 0;; n++) {
		struct octets name = expected;
		socklen_t len = sizeof(from);
		ssize_t got = recvfrom(consumer, octets, sizeof(octets), 0, (void *)&from, &len);

		CHECK(got >= 0, "segment %u", n);
		if (!got)
			break;
		name.at[name.len++] = 50;	/* SegmentNameComponent */
		name.at[name.len++] = n < 256 ? 1 : 2;
		if (n >= 256)
			name.at[name.len++] = n >> 8;
		name.at[name.len++] = n;
		CHECK(from.snn_kind == NNET_PACKET_DATA && from.snn_namelen == name.len &&
		      !memcmp(from.snn_name, name.at, name.len), "the name of segment %u", n);
		CHECK(got <= NNET_SEGMENT_OCTETS_DEFAULT, "%zd octets", got);
		for (ssize_t i = 0; i < got; i++)
			CHECK(octets[i] == octet_of(done + i), "the octet at %zu", done + i);
		done += got;
	}
	CHECK(done == OCTETS, "%zu octets in %u segments", done, n);
	offer_end(offer);
	CHECK(counter("stats", "fragment_copied") == 0, "each in one frame");
}

TEST(an_object_over_a_path_that_loses_and_reorders_is_whole_and_in_order)
{
	static const struct { unsigned lost, reordered; } paths[] = { { 0, 0 }, { 1, 0 }, { 5, 0 }, { 10, 0 }, { 0, 30 }, { 5, 30 } };
	struct nets nets = nets_for("/lossy");

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char prefix[32];

		for (int side = 0; side < 2; side++) {
			net_enter(side ? nets.b : nets.a);
			link_spoil("link", paths[i].lost, paths[i].reordered, 2000);
		}
		snprintf(prefix, sizeof(prefix), "/lossy/%u-%u", paths[i].lost, paths[i].reordered);
		transfer(&nets, prefix, 300000);
	}
}

/*
 * Both directions lose packets, so that one in fifty segments is lost. The measurements with and
 * without losses alternate, and their medians are compared: the guest may be stopped for a while.
 */
TEST(one_percent_of_losses_leaves_half_of_the_rate)
{
	enum { TURNS = 5, OCTETS = 2000000 };
	struct nets nets = nets_for("/percent");
	double took_s[2][TURNS], ratio;

	for (int turn = 0; turn < TURNS; turn++)
		for (unsigned lost = 0; lost < 2; lost++) {
			char prefix[32];

			for (int side = 0; side < 2; side++) {
				net_enter(side ? nets.b : nets.a);
				link_spoil("link", lost, 0, 2000);
			}
			snprintf(prefix, sizeof(prefix), "/percent/%u-%d", lost, turn);
			took_s[lost][turn] = transfer(&nets, prefix, OCTETS);
		}
	ratio = median_of(took_s[0], TURNS) / median_of(took_s[1], TURNS);
	printf("  with losses %.2f of the rate without\n", ratio);
	CHECK(ratio >= 0.5, "%.2f", ratio);
}

TEST(a_lost_segment_comes_from_its_provider_where_nothing_is_cached)
{
	struct nets nets = nets_for("/uncached");

	for (int side = 0; side < 2; side++) {
		net_enter(side ? nets.b : nets.a);
		CHECK(!cs_set(0), "nothing is cached");
		link_spoil("link", 5, 0, 1000);
	}
	transfer(&nets, "/uncached/1", 200000);
	net_enter(nets.b);
	CHECK(counter("cs", "hits") == 0, "no hit");
}

TEST(segments_longer_than_a_frame_cross_in_fragments)
{
	struct nets nets = nets_for("/large");
	uint32_t octets = NNET_SEGMENT_OCTETS_MAX;
	struct offer *offer;
	int consumer, provider;

	net_enter(nets.b);
	provider = provider_of("/large/1");
	CHECK(!setsockopt(provider, SOL_NNET, NNET_SEGMENT_OCTETS, &octets, sizeof(octets)), "the largest");
	octets++;
	CHECK(setsockopt(provider, SOL_NNET, NNET_SEGMENT_OCTETS, &octets, sizeof(octets)) && errno == EINVAL, "one more");
	octets = 0;
	CHECK(setsockopt(provider, SOL_NNET, NNET_SEGMENT_OCTETS, &octets, sizeof(octets)) && errno == EINVAL, "none");
	net_enter(nets.a);
	consumer = consumer_of("/large/1");
	offer = offer_begin(provider, 200000, 30000);
	CHECK(read_object(consumer) == 200000, "all of it");
	offer_end(offer);
}

TEST(one_seqpacket_socket_is_consumer_and_provider_at_once)
{
	struct offer *offers[2];
	int fds[2];

	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	fds[0] = provider_of("/one");
	fds[1] = provider_of("/other");
	CHECK(!open_object(fds[0], "/other") && !open_object(fds[1], "/one"), "both consume");
	for (int i = 0; i < 2; i++)
		offers[i] = offer_begin(fds[i], 100000, 5000);
	CHECK(read_object(fds[0]) == 100000, "the one reads the other's");
	CHECK(read_object(fds[1]) == 100000, "and the other the one's");
	for (int i = 0; i < 2; i++)
		offer_end(offers[i]);
}

TEST(an_object_ends_by_shutdown_and_another_can_be_opened)
{
	char octets[16];
	int consumer, provider;

	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	provider = provider_of("/end/1");
	consumer = consumer_of("/end/1");
	CHECK(send(provider, "abc", 3, 0) == 3, "a segment");
	CHECK(recv(consumer, octets, sizeof(octets), 0) == 3 && !memcmp(octets, "abc", 3), "comes before the end");
	CHECK(open_object(consumer, "/end/2") == -EISCONN, "one object at a time");
	CHECK(!shutdown(provider, SHUT_WR), "the end");
	CHECK(recv(consumer, octets, sizeof(octets), 0) == 0, "comes");
	CHECK(send(provider, "abc", 3, MSG_NOSIGNAL) < 0 && errno == EPIPE, "nothing behind it");
	CHECK(!shutdown(provider, SHUT_WR), "once more means nothing");
	close(provider);
	provider = provider_of("/end/2");
	CHECK(send(provider, NULL, 0, MSG_EOR) == 0, "an object with nothing in it");
	CHECK(!open_object(consumer, "/end/2"), "is opened");
	CHECK(recv(consumer, octets, sizeof(octets), 0) == 0, "and is at its end");
	CHECK(!shutdown(consumer, SHUT_RD), "given up");
	CHECK(recv(consumer, octets, sizeof(octets), 0) < 0 && errno == ENOTCONN, "nothing is open");
}

TEST(whoever_asks_for_a_prefix_gets_its_first_segment)
{
	struct octets interest = interest_with("/discover", -1, true, 4000), data;
	int raw, provider;

	net_new();
	CHECK(!route_add("/discover", NNET_FACE_LOCAL), "a route");
	provider = provider_of("/discover/object");
	raw = socket_new();
	packet_send(raw, &interest);
	data = packet_receive(raw);
	CHECK(data.at[0] == LP_PACKET, "nothing under a shorter name");
	interest = interest_with("/discover/object", -1, true, 4000);
	packet_send(raw, &interest);
	CHECK(nothing_comes(raw, 100), "nothing is made");
	CHECK(send(provider, "abc", 3, MSG_EOR) == 3, "it is made");
	data = packet_receive(raw);
	CHECK(is_packet(&data, DATA, "/discover/object") == false && memmem(data.at, data.len, "\x32\x01\x00", 3), "segment 0");
	CHECK(memmem(data.at, data.len, "\x1a\x03\x32\x01\x00", 5), "with FinalBlockId");
}

TEST(buffers_are_bounded_and_whoever_reads_lets_the_other_send)
{
	struct pollfd state = { .events = POLLOUT };
	static uint8_t octets[4000];
	int consumer, provider, room = 40000, sent = 0, received = 0;
	struct timeval soon = { .tv_usec = 100000 };
	uint32_t not_asked;
	socklen_t len = sizeof(not_asked);

	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	provider = provider_of("/bounded/1");
	consumer = socket_of(SOCK_SEQPACKET);
	CHECK(!setsockopt(provider, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), "a send buffer");
	CHECK(!setsockopt(consumer, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), "a receive buffer");
	while (send(provider, octets, 1000, MSG_DONTWAIT) == 1000)
		sent++;
	CHECK(errno == EAGAIN && sent > 5 && sent < 80, "%d segments fit", sent);
	CHECK(!getsockopt(provider, SOL_NNET, NNET_NOT_ASKED, &not_asked, &len) && not_asked == (uint32_t)sent, "nobody asks");
	state.fd = provider;
	CHECK(poll(&state, 1, 100) == 0, "not writable");
	CHECK(!setsockopt(provider, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)), "a time");
	CHECK(send(provider, octets, 1000, 0) < 0 && errno == EAGAIN, "ends the wait");
	CHECK(!open_object(consumer, "/bounded/1"), "a consumer");
	while (send(provider, octets, 1000, 0) == 1000)
		sent++;
	CHECK(errno == EAGAIN && sent < 200, "until its own is full: %d", sent);
	while (recv(consumer, octets, sizeof(octets), MSG_DONTWAIT) == 1000)
		received++;
	CHECK(received > 5, "%d received", received);
	CHECK(poll(&state, 1, 3000) == 1 && state.revents == POLLOUT, "which makes room");
	while (sent < 1000 && send(provider, octets, 1000, 0) == 1000) {
		sent++;
		while (recv(consumer, octets, sizeof(octets), MSG_DONTWAIT) == 1000)
			received++;
	}
	CHECK(sent == 1000, "whoever reads lets the other send: %d of %d", received, sent);
	CHECK(!shutdown(provider, SHUT_WR), "the end");
	while (recv(consumer, octets, sizeof(octets), 0) == 1000)
		received++;
	CHECK(received == sent, "%d of %d", received, sent);
}

TEST(the_smallest_buffers_carry_an_object)
{
	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	for (int which = 1; which < 4; which++) {	/* the provider's, the consumer's, both */
		int consumer = socket_of(SOCK_SEQPACKET), provider, none = 0;
		struct offer *offer;
		char prefix[32];

		snprintf(prefix, sizeof(prefix), "/small/%d", which);
		provider = provider_of(prefix);
		if (which & 1)
			CHECK(!setsockopt(provider, SOL_SOCKET, SO_SNDBUF, &none, sizeof(none)), "the least");
		if (which & 2)
			CHECK(!setsockopt(consumer, SOL_SOCKET, SO_RCVBUF, &none, sizeof(none)), "the least");
		CHECK(!open_object(consumer, prefix), "opened");
		offer = offer_begin(provider, 50000, 5000);
		CHECK(read_object(consumer) == 50000, "all of it");
		offer_end(offer);
		close(consumer);
		close(provider);
	}
}

static struct octets octets_of(const char *text, size_t len)
{
	struct octets octets = { .len = len };

	memcpy(octets.at, text, len);
	return octets;
}

TEST(what_is_wanted_no_more_and_what_is_there_no_more_is_counted)
{
	struct sockaddr nothing = { .sa_family = AF_UNSPEC };
	struct octets packet, data;
	struct offer *offer;
	int consumer, provider, raw, room = 20000;

	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL) && !cs_set(0), "a route, and nothing is cached");
	raw = socket_new();
	CHECK(!socket_bind(raw, "/given/up"), "bound");
	consumer = consumer_of("/given/up");
	packet = packet_receive(raw);
	CHECK(!connect(consumer, &nothing, sizeof(nothing)), "it is given up");
	data = octets_of("\x06\x19\x07\x0e\x08\x05given\x08\x02up\x32\x01\x00\x15\x00\x16\x03\x1b\x01\xc8\x17\x00", 27);
	packet_send(raw, &data);
	CHECK(counter("stats", "not_asked_for") == 1, "its first segment");
	provider = provider_of("/left");
	CHECK(!setsockopt(provider, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), "a send buffer");
	CHECK(!open_object(consumer, "/left"), "opened");
	offer = offer_begin(provider, 200000, 5000);
	CHECK(read_object(consumer) == 200000, "all of it");
	offer_end(offer);
	packet = octets_of("\x05\x11\x07\x09\x08\x04left\x32\x01\x00\x0a\x04\x01\x02\x03\x04", 19);
	packet_send(raw, &packet);
	CHECK(counter("stats", "no_such_segment") == 1, "it has left");
}

TEST(an_object_that_nobody_has_is_an_error)
{
	struct pollfd state = { .events = POLLIN };
	socklen_t len = sizeof(int);
	char octets[16];
	int fd, error = 0, silent;

	net_new();
	fd = consumer_of("/nowhere");
	state.fd = fd;
	CHECK(poll(&state, 1, 5000) == 1 && state.revents & POLLERR, "poll tells");
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) && error == EHOSTUNREACH, "no route: %d", error);
	CHECK(recv(fd, octets, sizeof(octets), 0) < 0 && errno == EHOSTUNREACH, "and so says each call");
	CHECK(recv(fd, octets, sizeof(octets), MSG_DONTWAIT) < 0 && errno == EHOSTUNREACH, "that may not wait");
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	silent = socket_new();
	CHECK(!socket_bind(silent, "/silent"), "and somebody who never answers");
	CHECK(!open_object(fd, "/silent"), "opened again");
	CHECK(recv(fd, octets, sizeof(octets), 0) < 0 && errno == ETIMEDOUT, "times out");
}

static void interrupted(int signal)
{
	(void)signal;
}

TEST(a_signal_ends_a_wait_for_segments_and_for_room)
{
	struct itimerval alarm_soon = { .it_value.tv_usec = 100000 };
	struct sigaction action = { .sa_handler = interrupted };
	struct timeval limit = { .tv_usec = 100000 };
	static uint8_t octets[1000];
	int consumer, provider;

	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(socket_new(), "/signal/2"), "somebody who never answers");
	provider = provider_of("/signal/1");
	consumer = consumer_of("/signal/2");
	CHECK(!sigaction(SIGALRM, &action, NULL), "a signal that is handled");
	CHECK(!setitimer(ITIMER_REAL, &alarm_soon, NULL), "and comes soon");
	CHECK(recv(consumer, octets, sizeof(octets), 0) < 0 && errno == EINTR, "ends a wait for segments");
	while (send(provider, octets, sizeof(octets), MSG_DONTWAIT) > 0)
		;
	CHECK(!setitimer(ITIMER_REAL, &alarm_soon, NULL), "again");
	CHECK(send(provider, octets, sizeof(octets), 0) < 0 && errno == EINTR, "ends a wait for room");
	CHECK(!setsockopt(consumer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), "a time");
	CHECK(recv(consumer, octets, sizeof(octets), 0) < 0 && errno == EAGAIN, "ends it as well");
}

TEST(either_side_is_closed_in_the_middle_and_nothing_is_left)
{
	struct nets nets = nets_for("/middle");
	uint8_t octets[NNET_PACKET_MAX];

	for (int round = 0; round < 6; round++) {
		char prefix[32];
		int consumer, provider;

		snprintf(prefix, sizeof(prefix), "/middle/%d", round);
		net_enter(nets.b);
		provider = provider_of(prefix);
		net_enter(nets.a);
		consumer = consumer_of(prefix);
		for (int i = 0; i < 40; i++)
			CHECK(send(provider, octets, 1000, MSG_DONTWAIT) == 1000, "segment %d", i);
		CHECK(recv(consumer, octets, sizeof(octets), 0) == 1000, "the first has come");
		close(round % 2 ? provider : consumer);
		usleep(round * 1000);
		close(round % 2 ? consumer : provider);
	}
	CHECK(list_count(NNET_CMD_FACE_GET) == 1, "a has the face of its device alone");
	net_enter(nets.b);
	CHECK(list_count(NNET_CMD_FACE_GET) == 1, "and so has b");
	CHECK(list_empties(NNET_CMD_BINDING_GET), "with no binding");
}

/* IS-49: fifteen consumers at once, each with a full buffer, which is the most that they take. */
TEST(fifteen_consumers_take_less_than_fifty_megabytes)
{
	enum { CONSUMERS = 15 };
	struct nets nets = nets_for("/many");
	int consumers[CONSUMERS], providers[CONSUMERS];
	static uint8_t octets[10000];
	long before, more;
	char prefix[32];

	net_enter(nets.b);
	for (int i = 0; i < CONSUMERS; i++) {
		snprintf(prefix, sizeof(prefix), "/many/%d", i);
		providers[i] = provider_of(prefix);
	}
	net_enter(nets.a);
	CHECK(!cs_set(0), "the paper's own have no content store");
	net_enter(nets.b);
	CHECK(!cs_set(0), "nor has the other side");
	net_enter(nets.a);
	sleep(1);	/* until the memory of earlier tests is freed */
	before = memory_used_kib();
	for (int i = 0; i < CONSUMERS; i++) {
		snprintf(prefix, sizeof(prefix), "/many/%d", i);
		consumers[i] = consumer_of(prefix);
	}
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < CONSUMERS; i++)
			while (send(providers[i], octets, sizeof(octets), MSG_DONTWAIT) > 0)
				;
		usleep(2000);
	}
	more = memory_used_kib() - before;
	printf("  %ld KiB more for %d consumers and their providers\n", more, CONSUMERS);
	CHECK(more < 50 * 1024, "%ld KiB", more);
	for (int i = 0; i < CONSUMERS; i++) {
		int waiting;

		CHECK(!ioctl(consumers[i], SIOCINQ, &waiting) && waiting > 0, "consumer %d has something", i);
		CHECK(recv(consumers[i], octets, sizeof(octets), 0) > 0, "and reads it");
	}
}

TEST(a_seqpacket_socket_refuses_what_it_does_not_know)
{
	struct sockaddr_nnet address = address_of("/x");
	struct octets name = name_of("/x/y");
	static uint8_t octets[100];
	uint32_t number = 1000;
	socklen_t len = 3;
	int fd, other;

	net_new();
	CHECK(!route_add("/", NNET_FACE_LOCAL), "a route");
	fd = socket_of(SOCK_SEQPACKET);
	other = socket_of(SOCK_SEQPACKET);
	CHECK(recv(fd, octets, sizeof(octets), 0) < 0 && errno == ENOTCONN, "nothing is open");
	CHECK(send(fd, octets, 1, 0) < 0 && errno == EDESTADDRREQ, "nothing is offered");
	CHECK(connect(fd, (void *)&address, 7) && errno == EINVAL, "half an address");
	address.snn_kind = NNET_PACKET_DATA;
	CHECK(connect(fd, (void *)&address, sizeof(address)) && errno == EINVAL, "an address of a Data");
	CHECK(bind(fd, (void *)&address, sizeof(address)) && errno == EINVAL, "an address of a Data");
	address.snn_kind = 0;
	address.snn_name[1] = 9;
	CHECK(connect(fd, (void *)&address, sizeof(address)) && errno == EINVAL, "half a name");
	address.snn_namelen = 0;
	CHECK(connect(fd, (void *)&address, sizeof(address)) && errno == EINVAL, "no name");
	CHECK(bind(fd, (void *)&address, sizeof(address)) && errno == EINVAL, "no name");
	CHECK(setsockopt(fd, SOL_NNET, NNET_OPEN, name.at, 8193) && errno == EINVAL, "a name that is too long");
	CHECK(setsockopt(fd, SOL_NNET, NNET_OPEN, (void *)8, 8) && errno == EFAULT, "memory that is not there");
	CHECK(getsockopt(fd, SOL_NNET, NNET_NOT_ASKED, &number, &len) && errno == EINVAL, "no room");
	CHECK(!socket_bind(fd, "/x/y"), "bound");
	CHECK(socket_bind(fd, "/x/z") == -EINVAL, "once");
	CHECK(send(fd, octets, 0, 0) < 0 && errno == EINVAL, "nothing, and no end");
	CHECK(send(fd, octets, 1, MSG_OOB) < 0 && errno == EOPNOTSUPP, "urgent octets");
	CHECK(send(fd, (void *)8, 8, 0) < 0 && errno == EFAULT, "memory that is not there");
	CHECK(sendto(fd, octets, 1, 0, (void *)&address, sizeof(address)) < 0 && errno == EISCONN, "an address");
	CHECK(recv(fd, octets, 1, MSG_OOB) < 0 && errno == EOPNOTSUPP, "urgent octets");
	CHECK(shutdown(fd, 7) && errno == EINVAL, "a way that is none");
	CHECK(listen(fd, 1) && errno == EOPNOTSUPP, "listen");
	CHECK(!setsockopt(other, SOL_NNET, NNET_OPEN, name.at, name.len), "another one opens what it offers");
	CHECK(send(fd, octets, 1, MSG_EOR) == 1, "which is");
	CHECK(recv(other, octets, 100, 0) == 1 && recv(other, octets, 100, 0) == 0, "one octet");
}

/* ---- threads ---- */

static volatile bool is_over;

static void *offer_meanwhile(void *fd)
{
	static const uint8_t octets[3000];

	while (!is_over) {
		socket_bind(*(int *)fd, "/threads/1");
		send(*(int *)fd, octets, sizeof(octets), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	return NULL;
}

static void *read_meanwhile(void *fd)
{
	uint8_t octets[NNET_PACKET_MAX];

	while (!is_over)
		recv(*(int *)fd, octets, sizeof(octets), 0);
	return NULL;
}

static void *open_meanwhile(void *fd)
{
	struct sockaddr nothing = { .sa_family = AF_UNSPEC };

	for (int i = 0; !is_over; i++) {
		open_object(*(int *)fd, "/threads/2");
		usleep(500);
		if (i % 2)
			connect(*(int *)fd, &nothing, sizeof(nothing));
		else
			shutdown(*(int *)fd, SHUT_RD);
	}
	return NULL;
}

/* The fourth thread replaces the socket that the other threads are using. */
TEST(four_threads_on_one_object_that_is_closed_meanwhile_harm_nobody)
{
	enum { ROUNDS = 200 };
	void *(*const work[])(void *) = { offer_meanwhile, read_meanwhile, open_meanwhile };
	struct timeval soon = { .tv_usec = 1000 };
	static const uint8_t octets[1000];
	pthread_t threads[3];
	int fd, provider;

	net_new();
	CHECK(!route_add("/threads", NNET_FACE_LOCAL), "a route");
	provider = provider_of("/threads/2");
	fd = socket_of(SOCK_SEQPACKET);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), "no wait is long");
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work[i], &fd), "a thread");
	for (int i = 0; i < ROUNDS; i++) {
		int new = socket_of(SOCK_SEQPACKET);

		setsockopt(new, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
		send(provider, octets, sizeof(octets), MSG_DONTWAIT);
		usleep(2000);
		CHECK(dup3(new, fd, O_CLOEXEC) == fd, "another one in its place");
		close(new);
	}
	is_over = true;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL), "it ends");
	close(fd);
	close(provider);
	CHECK(list_count(NNET_CMD_FACE_GET) == 0, "no face is left");
	CHECK(!route_delete("/threads", NNET_FACE_LOCAL), "nor a route");
	forwarder_serves("/threads");
}
