// SPDX-License-Identifier: MIT OR Apache-2.0
/* Packets between sockets of two namespaces, through a forwarder of each. */
#include <linux/if_packet.h>
#include <arpa/inet.h>
#include "test.h"

/* A consumer in one namespace, a producer in the other, and a route between them. */
struct pair {
	struct nets nets;
	int consumer, producer;
	uint64_t face;		/* of the consumer's side towards the producer's */
};

static struct pair pair_for(const char *prefix)
{
	struct pair pair = { .nets = nets_joined() };

	net_enter(pair.nets.b);
	CHECK(face_add("link", address_a) > 0, "a face towards a");
	CHECK(!route_add(prefix, NNET_FACE_LOCAL), "a route to bound sockets");
	pair.producer = socket_new();
	CHECK(!socket_bind(pair.producer, prefix), "the producer binds");
	net_enter(pair.nets.a);
	pair.face = route_to(address_b, prefix);
	pair.consumer = socket_new();
	return pair;
}

static void exchange(const struct pair *pair, const char *name, size_t content_octets)
{
	struct octets interest = interest_for(name), data = data_for(name, content_octets), got;

	packet_send(pair->consumer, &interest);
	got = packet_receive(pair->producer);
	CHECK(is_same(&got, &interest), "%s arrives as it was sent", name);
	packet_send(pair->producer, &data);
	got = packet_receive(pair->consumer);
	CHECK(is_same(&got, &data), "%s is answered as it was, %zu octets of %zu", name, got.len, data.len);
}

TEST(an_interest_reaches_the_other_namespace_and_its_data_comes_back)
{
	struct pair pair = pair_for("/Net-A/prdc-01");
	char name[64];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "/Net-A/prdc-01/0/PubFiles/ABCD/%d", i);
		exchange(&pair, name, 1000);
	}
	CHECK(counter("stats", "satisfied_interests") == 100, "a has satisfied them");
	CHECK(counter("stats", "to_network") == 100, "by the path to the network");
	CHECK(counter("stats", "to_local") == 0, "and no other");
	CHECK(counter("stats", "head_copied") == 0, "without a copy of a header");
	net_enter(pair.nets.b);
	CHECK(counter("stats", "to_local") == 100, "b by the path to sockets");
	CHECK(counter("stats", "head_copied") == 0, "without a copy of a header");
	CHECK(counter("stats", "linearized") == 0, "and none was in pieces");
}

TEST(an_interest_without_a_route_is_refused_by_a_nack)
{
	struct octets interest = interest_for("/nowhere/at/all"), got;
	int fd;

	net_new();
	fd = socket_new();
	packet_send(fd, &interest);
	got = packet_receive(fd);
	CHECK(got.at[0] == LP_PACKET, "a link packet: %02x", got.at[0]);
	/* NackReason NoRoute (150) in a Nack (0x0320), and the Interest as its Fragment. */
	CHECK(memmem(got.at, got.len, "\xfd\x03\x20\x05\xfd\x03\x21\x01\x96", 9), "a Nack for NoRoute");
	CHECK(memmem(got.at, got.len, interest.at, interest.len), "with the Interest");
	CHECK(counter("drops", "no_route") == 1, "counted");
}

TEST(a_data_that_was_seen_is_answered_by_the_content_store)
{
	struct pair pair = pair_for("/cached");
	struct octets interest, data = data_for("/cached/1", 500), got;

	exchange(&pair, "/cached/1", 500);
	for (int i = 0; i < 3; i++) {
		interest = interest_for("/cached/1");
		packet_send(pair.consumer, &interest);
		got = packet_receive(pair.consumer);
		CHECK(is_same(&got, &data), "the same Data");
	}
	CHECK(nothing_comes(pair.producer, 200), "the producer is not asked again");
	CHECK(counter("cs", "hits") == 3, "three hits");
	CHECK(counter("cs", "packets") == 1, "one Data");
}

TEST(a_prefix_of_a_cached_name_is_answered_where_it_may_be)
{
	struct pair pair = pair_for("/cached");
	struct octets interest = interest_with("/cached/a", -1, true, 4000), data = data_for("/cached/a/b", 10), got;

	exchange(&pair, "/cached/a/b", 10);
	packet_send(pair.consumer, &interest);
	got = packet_receive(pair.consumer);
	CHECK(is_same(&got, &data), "CanBePrefix finds the longer name");
	interest = interest_with("/cached/a", -1, false, 4000);
	packet_send(pair.consumer, &interest);
	got = packet_receive(pair.producer);
	CHECK(is_same(&got, &interest), "without it the producer is asked");
}

/* The strategy forwards an Interest repeated after 10 ms. In a slow guest some are so late. */
TEST(interests_of_two_sockets_for_one_name_are_one_upstream)
{
	struct pair pair = pair_for("/one");
	struct octets first, other, data, got;
	int second = socket_new();
	char name[32];
	uint64_t aggregated = 0;

	for (int i = 0; i < 100 && !aggregated; i++) {
		snprintf(name, sizeof(name), "/one/%d", i);
		first = interest_for(name);
		other = interest_for(name);
		data = data_for(name, 800);
		packet_send(pair.consumer, &first);
		packet_send(second, &other);
		aggregated = counter("stats", "suppressed_interests");
		CHECK(counter("stats", "pit_entries") == 1, "one entry for both");
		got = packet_receive(pair.producer);
		CHECK(is_same(&got, &first), "the first Interest comes");
		if (aggregated)
			CHECK(nothing_comes(pair.producer, 200), "and the other one does not");
		else if (!nothing_comes(pair.producer, 1000)) /* the other router may suppress it */
			packet_receive(pair.producer);
		packet_send(pair.producer, &data);
		got = packet_receive(pair.consumer);
		CHECK(is_same(&got, &data), "the first has the Data");
		got = packet_receive(second);
		CHECK(is_same(&got, &data), "and so has the second");
	}
	CHECK(aggregated == 1, "one of a hundred was aggregated");
}

TEST(a_packet_longer_than_the_mtu_crosses_in_fragments)
{
	struct pair pair = pair_for("/long");

	exchange(&pair, "/long/1", 8000);
	exchange(&pair, "/long/2", 1500);
	CHECK(counter("faces", "reassembled") == 2, "both were put together");
	CHECK(nothing_comes(pair.consumer, 50), "and came once");
	link_set_mtu("link", 9000);
	net_enter(pair.nets.b);
	link_set_mtu("link", 9000);
	CHECK(counter("faces", "fragmented") == 2, "b has cut them");
	exchange(&pair, "/long/3", 8000);
	CHECK(counter("faces", "fragmented") == 2, "and with a longer MTU cuts no more");
}

TEST(an_interest_loses_a_hop_on_the_way)
{
	struct pair pair = pair_for("/hops");
	struct octets interest = interest_with("/hops/1", 3, false, 4000), expected = interest, got;

	packet_send(pair.consumer, &interest);
	got = packet_receive(pair.producer);
	expected.at[expected.len - 1] = 1;	/* each of the two forwarders takes one */
	CHECK(is_same(&got, &expected), "HopLimit %u", got.at[got.len - 1]);
	interest = interest_with("/hops/2", 1, false, 4000);
	packet_send(pair.consumer, &interest);
	CHECK(nothing_comes(pair.producer, 200), "with one hop it does not arrive");
}

TEST(a_device_that_goes_down_and_up_again_serves_its_face_again)
{
	struct pair pair = pair_for("/down");
	struct octets interest = interest_for("/down/lost");

	exchange(&pair, "/down/1", 100);
	link_set_up("link", false);
	packet_send(pair.consumer, &interest);
	CHECK(nothing_comes(pair.producer, 200), "nothing crosses");
	CHECK(counter("stats", "device_down") == 1, "what the device did not take is counted");
	/* The queues of both ends have been detached before the link is set up again. */
	link_wait_down("link");
	net_enter(pair.nets.b);
	link_wait_down("link");
	net_enter(pair.nets.a);
	link_set_up("link", true);
	link_wait("link");
	net_enter(pair.nets.b);
	link_wait("link");
	net_enter(pair.nets.a);
	exchange(&pair, "/down/2", 100);
}

TEST(a_device_that_is_removed_takes_its_faces_along)
{
	struct pair pair = pair_for("/gone");
	struct octets interest = interest_for("/gone/2"), got;

	exchange(&pair, "/gone/1", 100);
	CHECK(list_count(NNET_CMD_FACE_GET) == 2, "the socket and the device");
	CHECK(!link_delete("link"), "the device is removed");
	CHECK(list_count(NNET_CMD_FACE_GET) == 1, "the socket alone");
	packet_send(pair.consumer, &interest);
	got = packet_receive(pair.consumer);
	CHECK(got.at[0] == LP_PACKET, "its route went along: a Nack");
	net_enter(pair.nets.b);
	CHECK(list_count(NNET_CMD_FACE_GET) == 1, "the other end is gone, too");
}

TEST(an_interest_to_the_group_reaches_the_other_namespace)
{
	struct nets nets = nets_joined();
	struct octets interest = interest_for("/group/1"), data = data_for("/group/1", 100), got;
	int consumer, producer;

	net_enter(nets.b);
	CHECK(face_add("link", NULL) > 0, "the group's face");
	CHECK(!route_add("/group", NNET_FACE_LOCAL), "a route to bound sockets");
	producer = socket_new();
	CHECK(!socket_bind(producer, "/group"), "bound");
	net_enter(nets.a);
	route_to(NULL, "/group");
	consumer = socket_new();
	packet_send(consumer, &interest);
	got = packet_receive(producer);
	CHECK(is_same(&got, &interest), "the Interest");
	packet_send(producer, &data);
	got = packet_receive(consumer);
	CHECK(is_same(&got, &data), "the Data");
}

TEST(three_stations_on_one_device_are_three_faces)
{
	struct nets nets = nets_joined();
	struct sockaddr_ll address = { .sll_family = AF_PACKET };
	uint8_t frame[600] = { 2, 0, 0, 0, 0, 0xa, 2, 0, 0, 0, 1, 0, 0x86, 0x24 };
	uint64_t faces[3];
	char name[32];
	int raw, producer;

	for (int i = 0; i < 3; i++) {
		frame[11] = i;
		faces[i] = face_add("link", frame + 6);
		CHECK((long)faces[i] > 0 && (!i || faces[i] != faces[i - 1]), "face %d", i);
	}
	CHECK(!route_add("/s", NNET_FACE_LOCAL), "a route");
	producer = socket_new();
	CHECK(!socket_bind(producer, "/s"), "bound");
	net_enter(nets.b);
	raw = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_NDN));
	address.sll_ifindex = if_nametoindex("link");
	CHECK(raw >= 0, "the stations");
	for (int i = 0; i < 3; i++) {
		struct octets packet;
		uint8_t got[2000];

		snprintf(name, sizeof(name), "/s/%d", i);
		packet = interest_for(name);
		frame[11] = i;
		memcpy(frame + 14, packet.at, packet.len);
		CHECK(sendto(raw, frame, 14 + packet.len, 0, (void *)&address, sizeof(address)) > 0, "%s", name);
		packet = packet_receive(producer);
		CHECK(is_packet(&packet, INTEREST, name), "%s comes", name);
		packet = data_for(name, 200);
		packet_send(producer, &packet);
		do {	/* the socket receives its own packets, too */
			CHECK(!nothing_comes(raw, 10000), "an answer");
			CHECK(recv(raw, got, sizeof(got), 0) > 14, "which is received");
		} while (got[14] != DATA);
		CHECK(!memcmp(got, frame + 6, 6), "it is for station %d", i);
	}
	net_enter(nets.a);
	CHECK(list_count(NNET_CMD_FACE_GET) == 4, "three faces and a socket's");
}

TEST(frames_of_strangers_are_counted_and_go_nowhere)
{
	struct pair pair = pair_for("/strange");
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("link") };
	struct octets interest = interest_for("/strange/1");
	uint8_t frame[600] = { 2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0x99, 0x86, 0x24 };
	int raw = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_NDN));

	CHECK(raw >= 0, "a packet socket");
	memcpy(frame + 14, interest.at, interest.len);
	CHECK(sendto(raw, frame, 14 + interest.len, 0, (void *)&address, sizeof(address)) > 0, "a frame");
	CHECK(nothing_comes(pair.producer, 200), "a stranger's frame goes nowhere");
	net_enter(pair.nets.b);
	CHECK(counter("stats", "no_neighbor") == 1, "counted");
	frame[11] = 0xa;	/* the neighbor's address, and octets that are no packet */
	memset(frame + 14, 0xff, 50);
	net_enter(pair.nets.a);
	CHECK(sendto(raw, frame, 64, 0, (void *)&address, sizeof(address)) > 0, "garbage");
	exchange(&pair, "/strange/2", 100);
	/* A short frame, padded as a card pads it. */
	interest = interest_for("/strange/3");
	memset(frame + 14, 0, 46);
	memcpy(frame + 14, interest.at, interest.len);
	CHECK(sendto(raw, frame, 60, 0, (void *)&address, sizeof(address)) > 0, "a short frame");
	interest = packet_receive(pair.producer);
	CHECK(is_packet(&interest, INTEREST, "/strange/3"), "its filling is taken away");
}
