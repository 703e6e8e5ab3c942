// SPDX-License-Identifier: MIT OR Apache-2.0
/* Frames of every malformation, floods, and buffers of every shape. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include "test.h"

#define ETHERNET_HEAD 14
/* The guest's copy of fuzz/corpus: octets that reached new code in decoders. */
#define CORPUS "/corpus"

int station_new(void)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("link") };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);	/* receives nothing */

	CHECK(fd >= 0, "a packet socket");
	CHECK(!bind(fd, (void *)&address, sizeof(address)), "on link");
	return fd;
}

static void put_head(uint8_t *frame, const uint8_t *to, const uint8_t *from)
{
	memcpy(frame, to, 6);
	memcpy(frame + 6, from, 6);
	frame[12] = 0x86;
	frame[13] = 0x24;
}

/* A device that is full, down or gone takes no frame. This is no error of the sender. */
void station_send(int station, const uint8_t *to, const uint8_t *from, const void *octets, size_t len)
{
	uint8_t frame[ETHERNET_HEAD + NNET_PACKET_MAX];

	CHECK(len <= NNET_PACKET_MAX, "%zu octets", len);
	put_head(frame, to, from);
	memcpy(frame + ETHERNET_HEAD, octets, len);
	CHECK(send(station, frame, ETHERNET_HEAD + len, MSG_DONTWAIT) > 0 || errno == ENOBUFS || errno == ENETDOWN ||
	      errno == EAGAIN || errno == ENXIO || errno == ENODEV || errno == EMSGSIZE, "a frame of %zu octets", len);
}

/* b receives the tests' frames: a face towards a, and a producer behind a route. */
struct target {
	struct nets nets;
	uint64_t face;
	int producer, station;
};

static struct target target_new(uint32_t mtu)
{
	struct target target = { .nets = nets_joined() };

	link_set_mtu("link", mtu);
	target.station = station_new();
	net_enter(target.nets.b);
	link_set_mtu("link", mtu);
	target.face = route_to(address_a, "/up");
	CHECK(!route_add("/t", NNET_FACE_LOCAL), "a route to bound sockets");
	target.producer = socket_new();
	CHECK(!socket_bind(target.producer, "/t"), "bound");
	return target;
}

static void drain(int fd)
{
	uint8_t packet[NNET_PACKET_MAX];

	while (recv(fd, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		;
}

static void throw(const struct target *target, const void *octets, size_t len)
{
	station_send(target->station, address_b, address_a, octets, len);
}

/* A valid Interest still arrives: the frames before it were dropped, and nothing has stopped. */
static void still_serves(const struct target *target)
{
	static int n;
	struct octets interest, got;
	char name[32];

	drain(target->producer);
	for (int tries = 0; tries < 20; tries++) {
		snprintf(name, sizeof(name), "/t/good/%d", n++);
		interest = interest_for(name);
		throw(target, interest.at, interest.len);
		while (!nothing_comes(target->producer, 500)) {
			got = packet_receive(target->producer);
			if (is_same(&got, &interest))
				return;
		}
	}
	CHECK(false, "a good Interest arrives");
}

static void throw_variants(const struct target *target, int application, const struct octets *packet)
{
	static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xfc, 0xfd, 0xfe, 0xff };
	struct octets changed;
	size_t heads = packet->len < 96 ? packet->len : 96;	/* the rest is content */

	for (size_t len = 1; len <= heads; len++)
		throw(target, packet->at, len);
	for (size_t at = 0; at < heads; at++) {
		for (size_t v = 0; v < sizeof(values); v++) {
			changed = *packet;
			changed.at[at] = values[v];
			throw(target, changed.at, changed.len);
			send(application, changed.at, changed.len, MSG_DONTWAIT);
		}
		drain(target->producer);
		drain(application);
	}
}

static int throw_corpus(const struct target *target, int application, const char *kind)
{
	char path[512];
	struct dirent *entry;
	DIR *folder;
	int files = 0;

	snprintf(path, sizeof(path), CORPUS "/%s", kind);
	folder = opendir(path);
	CHECK(folder, "%s", path);
	while ((entry = readdir(folder))) {
		struct octets packet;
		ssize_t len;
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), CORPUS "/%s/%s", kind, entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		len = read(fd, packet.at, sizeof(packet.at));
		CHECK(len >= 0, "%s", path);
		packet.len = len;
		close(fd);
		throw_variants(target, application, &packet);
		files++;
	}
	closedir(folder);
	return files;
}

TEST(frames_of_every_malformation_are_dropped_and_nothing_else_happens)
{
	static const char *const kinds[] = { "link", "lp", "interest", "data" };
	struct octets packets[] = { interest_with("/t/x/y", 9, true, 4000), data_for("/t/x/y", 40) };
	struct target target = target_new(1500);
	int application = socket_new(), files = 0;

	for (size_t i = 0; i < 2; i++)
		throw_variants(&target, application, &packets[i]);
	still_serves(&target);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		files += throw_corpus(&target, application, kinds[i]);
		still_serves(&target);
	}
	CHECK(files > 30, "%d files of the corpus", files);
	CHECK(counter("faces", "truncated") > 100, "what is cut is counted as such");
}

/* One face may fill at most half of the PIT's entries, and nothing grows beyond. */
TEST(a_flood_of_interests_fills_no_more_than_its_part_of_the_pit)
{
	enum { FLOOD = 30000 };
	struct target target = target_new(1500);
	struct octets interest;
	uint64_t held;
	char name[32];

	held = counter("memory", "octets");
	for (int i = 0; i < FLOOD; i++) {
		snprintf(name, sizeof(name), "/t/flood/%d", i);
		interest = interest_with(name, -1, false, 60000);
		throw(&target, interest.at, interest.len);
	}
	CHECK(counter("stats", "in_interests") > FLOOD / 2, "most have come");
	CHECK(counter("stats", "pit_entries") <= 16384 / 2, "%lu entries", counter("stats", "pit_entries"));
	CHECK(counter("drops", "pit_full") + counter("drops", "pit_face_full") > 0, "the others are counted");
	CHECK(counter("memory", "octets") < held + (8 << 20), "%lu octets", counter("memory", "octets") - held);
	/* There is still room for packets from other faces. */
	forwarder_serves("/other");
}

/* First fragments alone: each begins a message that never ends. */
TEST(a_flood_of_fragments_holds_no_more_than_a_mebibyte)
{
	enum { FLOOD = 5000 };
	struct target target = target_new(1500);
	uint8_t frame[1400] = { LP_PACKET, 253, 1400 >> 8, 1400 & 255 };
	size_t at = 4;
	uint64_t held, came;

	frame[2] = (sizeof(frame) - 4) >> 8;
	frame[3] = (sizeof(frame) - 4) & 255;
	memcpy(frame + at, "\x51\x08\0\0\0\0\0\0\0\0\x52\x01\0\x53\x01\3", 16);
	at += 16;
	memcpy(frame + at, "\x50\xfd", 2);
	frame[at + 2] = (sizeof(frame) - at - 4) >> 8;
	frame[at + 3] = (sizeof(frame) - at - 4) & 255;
	frame[at + 4] = DATA;
	held = counter("memory", "octets");
	for (uint32_t i = 0; i < FLOOD; i++) {
		uint32_t sequence = htonl(3 * i);

		memcpy(frame + 10, &sequence, 4);
		throw(&target, frame, sizeof(frame));
		if (i % 500 == 0)
			CHECK(counter("memory", "octets") < held + (3 << 20), "%lu octets more",
			      counter("memory", "octets") - held);
	}
	/* In a slow guest the oldest messages expire before their room is needed. */
	CHECK(counter("faces", "reassembly_evicted") > 0, "older ones make room, counted");
	came = counter("stats", "in_softirq");
	CHECK(came > FLOOD / 10, "a device that is busy drops some");
	CHECK(counter("faces", "reassembly_evicted") + counter_if_any("faces", "reassembly_timeout") > came / 2,
	      "most have gone");
	still_serves(&target);
}

/* ---- buffers ---- */

/* A listener on a device has clones of every frame. The forwarder must not write to them. */
TEST(frames_that_somebody_listens_to_are_forwarded_and_heard_as_they_were)
{
	struct target target = target_new(9000);
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(0x0003) };
	struct octets data, interest, got;
	uint8_t heard[NNET_PACKET_MAX + 64];
	int ears[2], consumer, asked = 0;
	char name[32];

	for (int i = 0; i < 2; i++) {
		net_enter(i ? target.nets.a : target.nets.b);
		address.sll_ifindex = if_nametoindex("link");
		ears[i] = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(0x0003));
		CHECK(ears[i] >= 0 && !bind(ears[i], (void *)&address, sizeof(address)), "who listens");
	}
	route_to(address_b, "/t");
	consumer = socket_new();
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "/t/heard/%d", i);
		interest = interest_with(name, 20, false, 4000);
		data = data_for(name, i % 2 ? 100 : 7000);
		packet_send(consumer, &interest);
		got = packet_receive(target.producer);
		packet_send(target.producer, &data);
		got = packet_receive(consumer);
		CHECK(is_same(&got, &data), "%s comes as it was", name);
		packet_send(consumer, &interest);
		got = packet_receive(consumer);
		CHECK(is_same(&got, &data), "%s once more, from the content store", name);
	}
	for (int i = 0; i < 2; i++) {
		ssize_t len;

		while ((len = recv(ears[i], heard, sizeof(heard), MSG_DONTWAIT)) > 0) {
			if (len < 20 || heard[12] != 0x86 || heard[13] != 0x24)
				continue;
			CHECK(heard[14] == INTEREST || heard[14] == DATA, "a packet: %02x", heard[14]);
			asked += heard[14] == INTEREST;
		}
	}
	CHECK(asked > 10, "%d Interests were heard", asked);
}

/* A packet socket sends long frames in pages: the forwarder linearizes them. */
TEST(a_frame_in_pieces_is_made_whole_and_counted)
{
	struct target target = target_new(9000);
	struct octets data = data_for("/up/long", 8000), interest = interest_for("/up/long"), got;
	int consumer = socket_new();

	packet_send(consumer, &interest);
	usleep(100000);
	throw(&target, data.at, data.len);
	got = packet_receive(consumer);
	CHECK(is_same(&got, &data), "it is whole");
	CHECK(counter("stats", "linearized") == 1, "it was in pieces");
}

/* A tap device with NAPI and fragments: frames come in lists as from a card, each in pieces. */
TEST(frames_of_a_card_come_in_lists_and_in_pieces)
{
	enum { FRAMES = 300 };
	const uint8_t station[6] = { 2, 0, 0, 0, 0, 0x55 };
	struct ifreq request = { .ifr_name = "card" };
	struct octets interest, got;
	uint8_t head[ETHERNET_HEAD], own[6];
	int tap, producer, came = 0;
	char name[32];

	net_new();
	tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	CHECK(tap >= 0, "/dev/net/tun");
	request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_NAPI | IFF_NAPI_FRAGS;
	CHECK(!ioctl(tap, TUNSETIFF, &request), "a tap device");
	link_set_up("card", true);
	link_wait("card");
	CHECK(!ioctl(tap, SIOCGIFHWADDR, &request) || true, "its address");
	memcpy(own, request.ifr_hwaddr.sa_data, 6);
	CHECK(face_add("card", station) > 0, "a face");
	CHECK(!route_add("/t", NNET_FACE_LOCAL), "a route");
	producer = socket_new();
	CHECK(!socket_bind(producer, "/t"), "bound");
	put_head(head, own, station);
	for (int i = 0; i < FRAMES; i++) {
		struct iovec parts[3] = { { head, sizeof(head) } };

		snprintf(name, sizeof(name), "/t/card/of/pieces/%d", i);
		interest = interest_with(name, 30, false, 4000);
		parts[1] = (struct iovec){ interest.at, 20 };
		parts[2] = (struct iovec){ interest.at + 20, interest.len - 20 };
		CHECK(writev(tap, parts, 3) > 0, "a frame in three pieces");
		if (nothing_comes(producer, 1000))
			continue;
		got = packet_receive(producer);
		came += is_packet(&got, INTEREST, name);
	}
	CHECK(came == FRAMES, "%d of %d have come", came, FRAMES);
	CHECK(counter("stats", "linearized") > 0, "in pieces");
}
