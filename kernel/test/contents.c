// SPDX-License-Identifier: MIT OR Apache-2.0
/* SOCK_DGRAM: names and contents. */
#include <poll.h>
#include <signal.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/time.h>
#include "test.h"

/* ---- SHA-256: an independent check of the kernel's signatures ---- */

static uint32_t turned(uint32_t word, int by)
{
	return word >> by | word << (32 - by);
}

/* The first 32 bits of the fraction of a prime's square root or cube root. */
static uint32_t fraction_of_root(unsigned prime, bool is_cube)
{
	unsigned __int128 low = 0, high = (unsigned __int128)1 << 36;

	while (high - low > 1) {
		unsigned __int128 middle = (low + high) / 2;
		unsigned __int128 power = middle * middle * (is_cube ? middle : 1);

		if (power > (unsigned __int128)prime << (is_cube ? 96 : 64))
			high = middle;
		else
			low = middle;
	}
	return low;
}

static void sha256_block(uint32_t state[8], const uint32_t k[64], const uint8_t *block)
{
	uint32_t w[64], v[8];

	for (int i = 0; i < 64; i++)
		w[i] = i < 16 ? (uint32_t)block[4 * i] << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 | block[4 * i + 3]
			      : w[i - 16] + w[i - 7] +
				(turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) +
				(turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(v, state, sizeof(v));
	for (int i = 0; i < 64; i++) {
		uint32_t one = v[7] + (turned(v[4], 6) ^ turned(v[4], 11) ^ turned(v[4], 25)) +
			       ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
		uint32_t two = (turned(v[0], 2) ^ turned(v[0], 13) ^ turned(v[0], 22)) +
			       ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += one;
		v[0] = one + two;
	}
	for (int i = 0; i < 8; i++)
		state[i] += v[i];
}

static void sha256(const uint8_t *octets, size_t len, uint8_t digest[32])
{
	uint32_t state[8], k[64];
	uint8_t last[128] = { 0 };
	size_t whole = len / 64 * 64, rest = len - whole, padded = rest < 56 ? 64 : 128;

	for (unsigned prime = 2, n = 0; n < 64; prime++) {
		bool is_prime = true;

		for (unsigned d = 2; d * d <= prime; d++)
			is_prime &= prime % d != 0;
		if (!is_prime)
			continue;
		if (n < 8)
			state[n] = fraction_of_root(prime, false);
		k[n++] = fraction_of_root(prime, true);
	}
	for (size_t at = 0; at < whole; at += 64)
		sha256_block(state, k, octets + at);
	memcpy(last, octets + whole, rest);
	last[rest] = 0x80;
	for (int i = 0; i < 8; i++)
		last[padded - 1 - i] = (uint64_t)len * 8 >> 8 * i;
	for (size_t at = 0; at < padded; at += 64)
		sha256_block(state, k, last + at);
	for (int i = 0; i < 32; i++)
		digest[i] = state[i / 4] >> (24 - i % 4 * 8);
}

/* ---- messages ---- */

/* The fields sent beside a content, and room for the received ones. */
struct message {
	struct sockaddr_nnet address;
	struct nnet_info info;
	bool has_info;
	struct octets name, signature, content;
	int flags;
	ssize_t result;
};

static struct message message_to(const char *uri)
{
	return (struct message){ .address = address_of(uri), .info.last_segment = NNET_NO_SEGMENT };
}

static size_t put_control(uint8_t *control, size_t len, int type, const void *octets, size_t octets_len)
{
	struct cmsghdr *head = (void *)(control + len);

	head->cmsg_level = SOL_NNET;
	head->cmsg_type = type;
	head->cmsg_len = CMSG_LEN(octets_len);
	memcpy(CMSG_DATA(head), octets, octets_len);
	return len + CMSG_SPACE(octets_len);
}

static int send_message(int fd, const struct message *message)
{
	static uint8_t control[16384] __attribute__((aligned(8)));
	struct iovec part = { (void *)message->content.at, message->content.len };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control };

	if (message->address.snn_family) {
		header.msg_name = (void *)&message->address;
		header.msg_namelen = sizeof(message->address);
	}
	if (message->has_info)
		header.msg_controllen = put_control(control, 0, NNET_INFO, &message->info, sizeof(message->info));
	if (message->name.len)
		header.msg_controllen = put_control(control, header.msg_controllen, NNET_NAME, message->name.at, message->name.len);
	if (message->signature.len)
		header.msg_controllen = put_control(control, header.msg_controllen, NNET_SIGNATURE,
						    message->signature.at, message->signature.len);
	return sendmsg(fd, &header, 0) < 0 ? -errno : 0;
}

static struct message receive_message(int fd, size_t room, int flags)
{
	static uint8_t control[32768] __attribute__((aligned(8)));
	struct message message = { .result = 0 };
	struct iovec part = { message.content.at, room };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_name = &message.address,
				 .msg_namelen = sizeof(message.address), .msg_control = control,
				 .msg_controllen = sizeof(control) };
	struct pollfd readable = { .fd = fd, .events = POLLIN };

	CHECK(poll(&readable, 1, 10000) == 1, "a message comes");
	message.result = recvmsg(fd, &header, flags);
	if (message.result < 0) {
		message.result = -errno;
		return message;
	}
	message.flags = header.msg_flags;
	message.content.len = (size_t)message.result < room ? (size_t)message.result : room;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&header); head; head = CMSG_NXTHDR(&header, head)) {
		struct octets *to = head->cmsg_type == NNET_NAME ? &message.name : &message.signature;
		size_t len = head->cmsg_len - CMSG_LEN(0);

		CHECK(head->cmsg_level == SOL_NNET, "a control message of ours");
		if (head->cmsg_type == NNET_INFO) {
			CHECK(len == sizeof(message.info), "%zu octets", len);
			memcpy(&message.info, CMSG_DATA(head), len);
			message.has_info = true;
		} else {
			memcpy(to->at, CMSG_DATA(head), len);
			to->len = len;
		}
	}
	return message;
}

static bool is_named(const struct message *message, const char *uri, enum nnet_packet kind)
{
	struct octets name = name_of(uri);

	return message->address.snn_family == AF_NNET && message->address.snn_kind == kind &&
	       message->address.snn_namelen == name.len && !memcmp(message->address.snn_name, name.at, name.len);
}

static void tell_info(int fd)
{
	uint32_t on = 1;

	CHECK(!setsockopt(fd, SOL_NNET, NNET_INFO, &on, sizeof(on)), "what is said beside contents");
}

static int dgram_bound(const char *prefix)
{
	int fd = socket_of(SOCK_DGRAM);

	CHECK(!route_add(prefix, NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(fd, prefix), "bound");
	return fd;
}

static void fill(struct octets *content, size_t len)
{
	content->len = len;
	for (size_t i = 0; i < len; i++)
		content->at[i] = i * 7 + i / 256;
}

/* ---- tests ---- */

TEST(a_name_is_answered_by_a_content_between_two_namespaces)
{
	struct nets nets = nets_joined();
	struct message message, got;
	int consumer, producer;
	char name[64];

	net_enter(nets.b);
	CHECK(face_add("link", address_a) > 0, "a face towards a");
	producer = dgram_bound("/Net-A/prdc-01");
	net_enter(nets.a);
	route_to(address_b, "/Net-A/prdc-01");
	consumer = socket_of(SOCK_DGRAM);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "/Net-A/prdc-01/0/PubFiles/ABCD/%d", i);
		message = message_to(name);
		CHECK(!send_message(consumer, &message), "a name is sent");
		got = receive_message(producer, sizeof(got.content.at), 0);
		CHECK(got.result == 0 && is_named(&got, name, NNET_PACKET_INTEREST), "it arrives, %zd", got.result);
		fill(&message.content, i * 400 + 1);
		CHECK(!send_message(producer, &message), "its content is sent");
		got = receive_message(consumer, sizeof(got.content.at), 0);
		CHECK(is_named(&got, name, NNET_PACKET_DATA), "a Data of that name");
		CHECK(is_same(&got.content, &message.content), "with its content, %zd octets", got.result);
	}
	CHECK(counter("stats", "unreadable") == 0 && counter("stats", "bad_digest") == 0, "none was dropped");
}

TEST(one_datagram_socket_is_consumer_and_producer_at_once)
{
	struct message message, got;
	int one, other;

	net_new();
	one = dgram_bound("/one");
	other = dgram_bound("/other");
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "/one/x" : "/other/x";

		message = message_to(name);
		CHECK(!send_message(i ? other : one, &message), "asked");
		got = receive_message(i ? one : other, 100, 0);
		CHECK(is_named(&got, name, NNET_PACKET_INTEREST), "an Interest");
		fill(&message.content, 10);
		CHECK(!send_message(i ? one : other, &message), "answered");
		got = receive_message(i ? other : one, 100, 0);
		CHECK(is_named(&got, name, NNET_PACKET_DATA) && got.result == 10, "a Data");
	}
}

TEST(the_kernel_signs_a_content_by_its_digest)
{
	struct octets interest = interest_for("/signed/1"), data, name = name_of("/signed/1");
	struct message message = message_to("/signed/1");
	uint8_t digest[32];
	int raw, producer;

	sha256((const uint8_t *)"abc", 3, digest);
	CHECK(!memcmp(digest, "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23\xb0\x03\x61\xa3\x96\x17\x7a\x9c"
		      "\xb4\x10\xff\x61\xf2\x00\x15\xad", 32), "the test's own SHA-256");
	net_new();
	producer = dgram_bound("/signed");
	raw = socket_new();
	packet_send(raw, &interest);
	CHECK(!nothing_comes(producer, 2000), "it is asked");
	message.has_info = true;
	message.info.time_ms = 10000;
	message.info.last_segment = 300;
	fill(&message.content, 5);
	CHECK(!send_message(producer, &message), "a content");
	data = packet_receive(raw);
	CHECK(is_packet(&data, DATA, "/signed/1"), "the whole Data");
	/* TYPE, LENGTH, Name, MetaInfo (FreshnessPeriod, FinalBlockId), Content, signature. */
	CHECK(data.len == 2 + 2 + name.len + 12 + 7 + 5 + 34, "%zu octets", data.len);
	CHECK(!memcmp(data.at + 4 + name.len, "\x14\x0a\x19\x02\x27\x10\x1a\x04\x32\x02\x01\x2c\x15\x05", 14), "MetaInfo");
	CHECK(!memcmp(data.at + data.len - 39, "\x16\x03\x1b\x01\x00\x17\x20", 7), "DigestSha256");
	sha256(data.at + 2, data.len - 2 - 34, digest);
	CHECK(!memcmp(digest, data.at + data.len - 32, 32), "the digest of all before it");
}

TEST(a_signature_that_is_given_goes_out_and_comes_in_as_it_is)
{
	struct message message = message_to("/given/1"), got;
	int consumer, producer;

	net_new();
	producer = dgram_bound("/given");
	consumer = socket_of(SOCK_DGRAM);
	tell_info(consumer);
	CHECK(!send_message(consumer, &message), "asked");
	CHECK(!nothing_comes(producer, 2000), "it is asked");
	/* HmacWithSha256 by the key /k: only owners of the key can check its value. */
	message.signature.len = 12 + 34;
	memcpy(message.signature.at, "\x16\x0a\x1b\x01\x04\x1c\x05\x07\x03\x08\x01k\x17\x20", 14);
	memset(message.signature.at + 14, 0x5a, 32);
	message.info.time_ms = 1;
	message.has_info = true;
	fill(&message.content, 100);
	CHECK(!send_message(producer, &message), "a signed content");
	got = receive_message(consumer, sizeof(got.content.at), 0);
	CHECK(got.has_info && got.info.kind == NNET_PACKET_DATA && got.info.time_ms == 1, "what it says of itself");
	CHECK(got.info.last_segment == NNET_NO_SEGMENT && !got.info.flags, "and what not");
	CHECK(is_same(&got.signature, &message.signature), "its signature, %zu octets", got.signature.len);
	CHECK(is_same(&got.content, &message.content), "its content");
	for (size_t len = 1; len < message.signature.len; len++) {
		struct message half = message;

		half.signature.len = len;
		CHECK(send_message(producer, &half) == -EINVAL, "%zu octets of a signature", len);
	}
}

TEST(an_interest_carries_what_its_program_asks_for)
{
	struct message message = message_to("/flags/a"), got;
	struct octets packet;
	int consumer, producer;

	net_new();
	CHECK(!route_add("/flags", NNET_FACE_LOCAL), "a route");
	producer = socket_new();
	CHECK(!socket_bind(producer, "/flags"), "bound");
	consumer = socket_of(SOCK_DGRAM);
	message.has_info = true;
	message.info.flags = NNET_CAN_BE_PREFIX | NNET_MUST_BE_FRESH;
	message.info.time_ms = 300;
	CHECK(!send_message(consumer, &message), "an Interest");
	packet = packet_receive(producer);
	CHECK(is_packet(&packet, INTEREST, "/flags/a"), "it comes");
	CHECK(memmem(packet.at, packet.len, "\x21\x00\x12\x00\x0a\x04", 6), "both flags and a Nonce");
	CHECK(memmem(packet.at, packet.len, "\x0c\x02\x01\x2c", 4), "and its lifetime");
	packet = data_for("/flags/a/b", 10);
	packet.at[packet.len - 1] ^= 1;
	packet_send(producer, &packet);
	CHECK(nothing_comes(consumer, 200), "a content whose digest is wrong does not come");
	CHECK(counter("stats", "bad_digest") == 1, "it is counted");
	close(producer);
	producer = socket_of(SOCK_DGRAM);
	CHECK(!socket_bind(producer, "/flags"), "names and contents under the same prefix");
	message.info.flags = NNET_CAN_BE_PREFIX;
	message.info.time_ms = 0;
	CHECK(cs_erase("/") >= 0, "nothing is kept");
	CHECK(!send_message(consumer, &message), "again");
	message = message_to("/flags/a/b");
	fill(&message.content, 10);
	CHECK(!send_message(producer, &message), "it is answered");
	got = receive_message(consumer, 100, 0);
	CHECK(is_named(&got, "/flags/a/b", NNET_PACKET_DATA), "a longer name");
}

TEST(a_name_too_long_for_an_address_goes_by_a_control_message)
{
	struct message message = { .info.last_segment = NNET_NO_SEGMENT }, got;
	int consumer, producer;

	net_new();
	producer = dgram_bound("/long");
	tell_info(producer);
	consumer = socket_of(SOCK_DGRAM);
	tell_info(consumer);
	message.name = name_of("/long");
	while (message.name.len < 8000) {
		memcpy(message.name.at + message.name.len, "\x08\xc8", 2);
		memset(message.name.at + message.name.len + 2, 'a' + message.name.len % 20, 200);
		message.name.len += 202;
	}
	CHECK(!send_message(consumer, &message), "a name of %zu octets", message.name.len);
	got = receive_message(producer, 100, 0);
	CHECK(is_same(&got.name, &message.name), "it comes whole");
	CHECK(got.address.snn_namelen == message.name.len, "and its length in the address");
	CHECK(!memcmp(got.address.snn_name, message.name.at, NNET_NAME_INLINE), "with its beginning");
	fill(&message.content, 100);
	CHECK(!send_message(producer, &message), "answered");
	got = receive_message(consumer, 200, 0);
	CHECK(is_same(&got.name, &message.name) && is_same(&got.content, &message.content), "the Data comes");
	fill(&message.content, 8000);
	CHECK(send_message(producer, &message) == -EMSGSIZE, "both together are too long");
}

TEST(a_nack_is_an_error_of_a_datagram_socket_or_a_message)
{
	struct message message = message_to("/nowhere/1"), got;
	socklen_t len = sizeof(int);
	struct pollfd state = { .events = POLLIN };
	int fd, error = 0;

	net_new();
	fd = socket_of(SOCK_DGRAM);
	CHECK(!send_message(fd, &message), "a name without a route");
	state.fd = fd;
	CHECK(poll(&state, 1, 2000) == 1 && state.revents & POLLERR, "poll tells of it");
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) && error == EHOSTUNREACH, "SO_ERROR says why: %d", error);
	CHECK(!send_message(fd, &message), "another");
	CHECK(poll(&state, 1, 2000) == 1, "comes back");
	CHECK(recv(fd, &error, sizeof(error), 0) < 0 && errno == EHOSTUNREACH, "and recv says so as well");
	tell_info(fd);
	CHECK(!send_message(fd, &message), "a third");
	got = receive_message(fd, 100, 0);
	CHECK(is_named(&got, "/nowhere/1", NNET_PACKET_NACK), "is told by its name");
	CHECK(got.result == 0 && got.info.kind == NNET_PACKET_NACK && got.info.reason == 150, "and NoRoute");
}

static void interrupted(int signal)
{
	(void)signal;
}

TEST(a_content_can_be_peeked_at_and_is_cut_to_the_room_there_is)
{
	struct message message = message_to("/peek/1"), got;
	struct pollfd state = { .events = POLLIN };
	struct epoll_event event = { .events = EPOLLIN };
	struct timeval soon = { .tv_usec = 50000 };
	struct itimerval alarm_soon = { .it_value = soon };
	struct sigaction action = { .sa_handler = interrupted };
	int consumer, producer, octets, epoll = epoll_create1(EPOLL_CLOEXEC);
	uint8_t room[16];
	fd_set set;

	net_new();
	producer = dgram_bound("/peek");
	consumer = socket_of(SOCK_DGRAM);
	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, consumer, &event), "epoll");
	CHECK(!send_message(consumer, &message), "asked");
	CHECK(epoll_wait(epoll, &event, 1, 0) == 0, "nothing there");
	CHECK(recv(consumer, room, sizeof(room), MSG_DONTWAIT) < 0 && errno == EAGAIN, "nothing there");
	fill(&message.content, 1000);
	CHECK(!send_message(producer, &message), "answered");
	CHECK(epoll_wait(epoll, &event, 1, 2000) == 1, "epoll tells");
	FD_ZERO(&set);
	FD_SET(consumer, &set);
	CHECK(select(consumer + 1, &set, NULL, NULL, &soon) == 1, "select tells");
	state.fd = consumer;
	CHECK(poll(&state, 1, 0) == 1 && state.revents == POLLIN, "poll tells");
	CHECK(!ioctl(consumer, SIOCINQ, &octets) && octets == 1000, "%d octets of content", octets);
	got = receive_message(consumer, sizeof(got.content.at), MSG_PEEK);
	CHECK(is_same(&got.content, &message.content), "peeked at");
	got = receive_message(consumer, 10, MSG_TRUNC);
	CHECK(got.result == 1000 && got.flags & MSG_TRUNC, "its length is told");
	CHECK(!memcmp(got.content.at, message.content.at, 10), "its begin is there");
	CHECK(recv(consumer, room, sizeof(room), MSG_DONTWAIT) < 0 && errno == EAGAIN, "and it is gone");
	soon = (struct timeval){ .tv_usec = 50000 };
	CHECK(!setsockopt(consumer, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), "a time");
	CHECK(recv(consumer, room, sizeof(room), 0) < 0 && errno == EAGAIN, "ends the wait");
	soon = (struct timeval){ 0 };
	CHECK(!setsockopt(consumer, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), "no time");
	CHECK(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &alarm_soon, NULL), "a signal");
	CHECK(recv(consumer, room, sizeof(room), 0) < 0 && errno == EINTR, "ends it as well");
}

TEST(a_datagram_socket_refuses_what_it_does_not_know)
{
	struct message message = message_to("/x"), bad;
	static uint8_t content[9000];
	uint32_t two = 2;
	int fd;

	net_new();
	fd = socket_of(SOCK_DGRAM);
	CHECK(send(fd, content, 10, 0) < 0 && errno == EDESTADDRREQ, "a content without a name");
	bad = message;
	bad.address.snn_reserved = 1;
	CHECK(send_message(fd, &bad) == -EINVAL, "a number with a meaning to come");
	bad = message;
	bad.address.snn_kind = NNET_PACKET_NACK;
	CHECK(send_message(fd, &bad) == -EINVAL, "a Nack");
	bad = message;
	bad.address.snn_name[1] = 9;
	CHECK(send_message(fd, &bad) == -EINVAL, "half a name");
	bad = message;
	bad.address.snn_kind = NNET_PACKET_INTEREST;
	bad.content.len = 1;
	CHECK(send_message(fd, &bad) == -EINVAL, "an Interest with a content");
	bad = message;
	bad.has_info = true;
	bad.info.flags = NNET_MARKED;
	CHECK(send_message(fd, &bad) == -EINVAL, "a flag that is received");
	bad.info.flags = NNET_CAN_BE_PREFIX;
	bad.content.len = 1;
	CHECK(send_message(fd, &bad) == -EINVAL, "a flag of Interests on a Data");
	CHECK(sendto(fd, content, 8800, 0, (void *)&message.address, sizeof(message.address)) < 0 && errno == EMSGSIZE,
	      "a content that leaves no room for its name");
	CHECK(sendto(fd, content, 8801, 0, (void *)&message.address, sizeof(message.address)) < 0 && errno == EMSGSIZE,
	      "a content that is too long");
	CHECK(sendto(fd, content, 8700, 0, (void *)&message.address, sizeof(message.address)) == 8700, "one that fits");
	CHECK(sendto(fd, (void *)8, 8, 0, (void *)&message.address, sizeof(message.address)) < 0 && errno == EFAULT,
	      "memory that is not there");
	CHECK(setsockopt(fd, SOL_NNET, NNET_INFO, &two, sizeof(two)) && errno == EINVAL, "neither on nor off");
	CHECK(setsockopt(fd, SOL_NNET, NNET_INFO, &two, 3) && errno == EINVAL, "three octets");
	CHECK(setsockopt(fd, SOL_NNET, NNET_SEGMENT_OCTETS, &two, sizeof(two)) && errno == ENOPROTOOPT, "an option of others");
	CHECK(setsockopt(socket_new(), SOL_NNET, NNET_INFO, &two, sizeof(two)) && errno == ENOPROTOOPT, "or not of these");
	CHECK(connect(fd, (void *)&message.address, sizeof(message.address)) && errno == EOPNOTSUPP, "connect");
	message.address.snn_kind = NNET_PACKET_DATA;
	CHECK(!send_message(fd, &message), "a Data with nothing in it is one");
}
