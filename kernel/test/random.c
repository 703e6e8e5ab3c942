// SPDX-License-Identifier: MIT OR Apache-2.0
/* Random calls: of sockets, of netlink, of the files of procfs. A seed repeats a run. */
#include <fcntl.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include "test.h"

/* Calls of all processes together, unless the guest is started with calls=N. */
#define CALLS 300000
#define PROCESSES 2

enum { SOCKETS = 16, ROOM = 1 << 17 };

static uint64_t state;
static int sockets[SOCKETS], netlink, unix_pair[2];
static uint8_t room[ROOM];

static uint32_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 16;
}

static uint32_t below(uint32_t n)
{
	return any() % n;
}

static bool one_in(uint32_t n)
{
	return below(n) == 0;
}

/* A length: mostly small, else one next to a limit. */
static uint32_t length(uint32_t usual)
{
	static const uint32_t odd[] = {
		0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 119, 120, 121, 127, 128, 129, 252, 253, 254, 255, 256, 1499,
		1500, 4095, 4096, 4097, 8191, 8192, 8193, 8799, 8800, 8801, 9311, 9312, 9313, 65535, 65536,
		0x7fffffff, 0x80000000, 0xffffffff,
	};

	return below(3) ? below(usual + 1) : odd[below(sizeof(odd) / sizeof(odd[0]))];
}

/* The same, within the available memory. */
static uint32_t length_within(uint32_t usual)
{
	return length(usual) % ROOM;
}

/* A valid pointer, or an invalid one. */
static void *memory(void)
{
	static void *const bad[] = { NULL, (void *)8, (void *)-8, (void *)0x7fffffffe000 };

	return below(12) ? room : bad[below(4)];
}

/* Few names, so that different calls use the same ones. */
static size_t put_name(uint8_t *at)
{
	size_t len = 0;

	for (int components = below(5); components >= 0; components--) {
		uint8_t octets = one_in(40) ? 0 : 1 + below(3);

		at[len++] = one_in(30) ? 1 + below(60) : 8;
		at[len++] = octets;
		for (int i = 0; i < octets; i++)
			at[len++] = 'a' + below(2);
	}
	return len;
}

static size_t put_tlv(uint8_t *at, uint8_t type, const uint8_t *value, uint8_t len)
{
	at[0] = type;
	at[1] = len;
	memcpy(at + 2, value, len);
	return 2u + len;
}

/* An Interest or a Data of less than 253 octets; some are corrupted, some have a link header. */
static size_t put_packet(uint8_t *at)
{
	uint8_t name[64], value[300], content[120];
	size_t len = put_tlv(value, 7, name, put_name(name));
	bool is_interest = below(2);

	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = any();
	if (is_interest) {
		if (one_in(4))
			len += put_tlv(value + len, 0x21, content, 0);
		if (one_in(4))
			len += put_tlv(value + len, 0x12, content, 0);
		if (one_in(8))
			len += put_tlv(value + len, 0x1e, (uint8_t *)"\x07\x03\x08\x01" "a", 5);
		if (below(4))
			len += put_tlv(value + len, 0x0a, content, 4);
		if (below(3))
			len += put_tlv(value + len, 0x0c, content, 1 << below(3));
		if (one_in(3))
			len += put_tlv(value + len, 0x22, content, 1);
		if (one_in(8))
			len += put_tlv(value + len, 0x24, content, below(40));
	} else {
		if (below(2))
			len += put_tlv(value + len, 0x14, (uint8_t *)"\x19\x01\x10", 3);
		len += put_tlv(value + len, 0x15, content, below(100));
		len += put_tlv(value + len, 0x16, (uint8_t *)"\x1b\x01\x00", 3);
		len += put_tlv(value + len, 0x17, content, 32);
	}
	len = put_tlv(at, is_interest ? INTEREST : DATA, value, len > 248 ? 248 : len);
	if (one_in(6)) {	/* PitToken, a mark, or half of a message, and the packet as its Fragment */
		static const char *const fields[] = {
			"\x62\x04\x01\x02\x03\x04", "\xfd\x03\x40\x01\x01", "\xfd\x03\x20\x05\xfd\x03\x21\x01\x32",
			"\x51\x08\0\0\0\0\0\0\0\1\x52\x01\0\x53\x01\2",
		};
		static const uint8_t lens[] = { 6, 5, 9, 16 };
		uint8_t which = below(4), lp[300] = { LP_PACKET, 253, 0, 0 };
		size_t lp_len = 4;

		memcpy(lp + lp_len, fields[which], lens[which]);
		lp_len += lens[which];
		lp_len += put_tlv(lp + lp_len, 0x50, at, len > 250 ? 250 : len);
		lp[2] = (lp_len - 4) >> 8;
		lp[3] = lp_len - 4;
		memcpy(at, lp, lp_len);
		len = lp_len;
	}
	if (one_in(3))
		for (int spoiled = below(4); spoiled >= 0; spoiled--)
			at[below(len)] = any();
	return one_in(10) ? below(len + 1) : len;
}

/* ---- calls: true if one succeeded. None may wait ---- */

static bool open_one(int i)
{
	static const int types[] = { SOCK_RAW, SOCK_RAW, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM, 7, 77 };

	sockets[i] = socket(AF_NNET, types[below(7)] | SOCK_NONBLOCK, below(10) ? 0 : any());
	return sockets[i] >= 0;
}

static bool close_one(int i)
{
	bool closed = close(sockets[i]) == 0;

	sockets[i] = -1;
	return closed;
}

static bool call_bind(int fd)
{
	uint8_t octets[256];
	struct sockaddr_nnet *address = (void *)octets;

	for (size_t i = 0; i < sizeof(octets); i++)
		octets[i] = any();
	address->snn_family = below(10) ? AF_NNET : any();
	address->snn_reserved = below(10) ? 0 : any();
	address->snn_kind = below(10) ? 0 : any();
	address->snn_namelen = below(5) ? put_name(address->snn_name) : length(200);
	return bind(fd, below(20) ? (void *)octets : memory(), below(4) ? sizeof(*address) : length(250)) == 0;
}

static bool call_send(int fd)
{
	size_t len = put_packet(room);

	return send(fd, room, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

static bool call_send_anything(int fd)
{
	return sendto(fd, memory(), length_within(9000), MSG_DONTWAIT | MSG_NOSIGNAL | (below(4) ? 0 : any()),
		      below(4) ? NULL : memory(), length(128)) >= 0;
}

static bool call_sendmsg(int fd)
{
	uint8_t control[128];
	struct iovec parts[3] = { { room, 0 }, { room, 0 }, { memory(), below(60) } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 + one_in(4) };
	size_t len = put_packet(room);

	parts[0].iov_len = below(len + 1);
	parts[1] = (struct iovec){ room + parts[0].iov_len, len - parts[0].iov_len };
	if (one_in(3)) {
		struct cmsghdr *head = (void *)control;

		for (size_t i = 0; i < sizeof(control); i++)
			control[i] = any();
		head->cmsg_len = below(3) ? CMSG_LEN(below(40)) : length(100);
		head->cmsg_level = below(3) ? SOL_NNET : below(300);
		head->cmsg_type = below(8);
		message.msg_control = below(10) ? control : memory();
		message.msg_controllen = below(3) ? head->cmsg_len : length(128);
	}
	if (one_in(6)) {
		message.msg_name = memory();
		message.msg_namelen = length(128);
	}
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL | (below(6) ? 0 : any())) >= 0;
}

static struct sockaddr_nnet any_address(void)
{
	struct sockaddr_nnet address = { .snn_family = AF_NNET };

	address.snn_namelen = put_name(address.snn_name);
	return address;
}

/* Messages of SOCK_DGRAM: a name, a content, and the optional fields. */
static bool call_send_message(int fd)
{
	struct sockaddr_nnet address = any_address();
	struct nnet_info info = { .kind = below(4), .flags = below(5), .time_ms = any(), .last_segment = below(2) ? ~0ull : any() };
	uint8_t control[256] __attribute__((aligned(8)));
	struct iovec part = { memory(), below(2) ? 0 : length_within(300) };
	struct msghdr message = { .msg_name = &address, .msg_namelen = sizeof(address), .msg_iov = &part,
				  .msg_iovlen = 1, .msg_control = control };
	struct cmsghdr *head = (void *)control;

	address.snn_kind = below(3);
	if (one_in(3)) {
		*head = (struct cmsghdr){ CMSG_LEN(sizeof(info)), SOL_NNET, NNET_INFO };
		memcpy(CMSG_DATA(head), &info, sizeof(info));
		message.msg_controllen = CMSG_SPACE(sizeof(info));
	}
	if (one_in(3)) {
		static const uint8_t signature[] = "\x16\x03\x1b\x01\xc8\x17\x00";

		head = (void *)(control + message.msg_controllen);
		*head = (struct cmsghdr){ CMSG_LEN(7), SOL_NNET, NNET_SIGNATURE };
		memcpy(CMSG_DATA(head), signature, 7);
		if (one_in(4))
			CMSG_DATA(head)[below(7)] = any();
		message.msg_controllen += CMSG_SPACE(7);
	}
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* Calls of SOCK_SEQPACKET: objects opened, offered, ended, abandoned. */
static bool call_of_objects(int fd)
{
	struct sockaddr_nnet address = any_address();
	uint32_t octets = 1 + below(3000);

	switch (below(8)) {
	case 0:
	case 1:
		return connect(fd, (void *)&address, sizeof(address)) == 0;
	case 2:
		return one_in(10) && shutdown(fd, below(3)) == 0;
	case 3:
		return setsockopt(fd, SOL_NNET, NNET_SEGMENT_OCTETS, &octets, sizeof(octets)) == 0;
	case 4:
		octets = below(2);
		return setsockopt(fd, SOL_NNET, NNET_INFO, &octets, sizeof(octets)) == 0;
	case 5:
		return setsockopt(fd, SOL_NNET, NNET_OPEN, address.snn_name, address.snn_namelen) == 0;
	default:
		return send(fd, room, 1 + below(5000), MSG_DONTWAIT | MSG_NOSIGNAL | (one_in(30) ? MSG_EOR : 0)) >= 0;
	}
}

static bool call_recv(int fd)
{
	socklen_t len = length(128);

	return recvfrom(fd, memory(), length_within(9000), MSG_DONTWAIT | (below(3) ? 0 : any()),
			below(3) ? NULL : memory(), below(3) ? NULL : &len) >= 0;
}

static bool call_recvmsg(int fd)
{
	struct iovec parts[2] = { { memory(), length_within(9000) }, { memory(), below(40) } };
	uint8_t control[128];
	struct msghdr message = {
		.msg_iov = parts, .msg_iovlen = below(3), .msg_control = below(3) ? control : memory(),
		.msg_controllen = below(128), .msg_name = below(2) ? NULL : memory(), .msg_namelen = length(128),
	};

	return recvmsg(fd, &message, MSG_DONTWAIT | (below(3) ? 0 : any())) >= 0;
}

static bool call_setsockopt(int fd)
{
	int level = below(3) ? SOL_NNET : below(2) ? SOL_SOCKET : (int)below(300);
	int option = level == SOL_NNET && below(3) ? 1 + below(12) : below(80);
	size_t len = below(2) ? put_name(room) : length(300);

	if (!below(3))
		memset(room, below(2), 16);
	return setsockopt(fd, level, option, memory(), len) == 0;
}

static bool call_getsockopt(int fd)
{
	socklen_t len = length(300);

	return getsockopt(fd, below(2) ? SOL_NNET : SOL_SOCKET, below(80), memory(),
			  below(10) ? &len : memory()) == 0;
}

static bool call_other(int fd)
{
	struct pollfd state = { fd, any(), 0 };
	socklen_t len = length(128);

	switch (below(8)) {
	case 0:
		return poll(&state, 1, 0) >= 0;
	case 1:
		return ioctl(fd, below(2) ? 0x541b : 0x8900 + below(256), memory()) >= 0;
	case 2:
		return listen(fd, any()) == 0;
	case 3:
		return one_in(20) && shutdown(fd, below(4)) == 0;
	case 4:
		call_bind(fd);
		return connect(fd, memory(), length(128)) == 0;
	case 5:
		return getsockname(fd, memory(), &len) == 0;
	case 6:
		return getpeername(fd, memory(), &len) == 0;
	default:
		return accept4(fd, memory(), &len, SOCK_NONBLOCK) >= 0;
	}
}

/* Replaces another socket by a duplicate of this one, or passes this one through a Unix socket. */
static bool call_pass(int i)
{
	union { struct cmsghdr head; uint8_t octets[CMSG_SPACE(sizeof(int))]; } control = { .head = {
		.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct iovec part = { room, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	int other = below(SOCKETS);

	if (below(2))
		return sockets[other] >= 0 && dup2(sockets[i], sockets[other]) >= 0;
	memcpy(CMSG_DATA(&control.head), &sockets[i], sizeof(int));
	if (sendmsg(unix_pair[0], &message, MSG_DONTWAIT) < 0)
		return false;
	close(sockets[i]);
	CHECK(recvmsg(unix_pair[1], &message, MSG_DONTWAIT) == 1, "it comes back");
	memcpy(&sockets[i], CMSG_DATA(&control.head), sizeof(int));
	return true;
}

static size_t put_attribute(uint8_t *at)
{
	struct nlattr *attr = (void *)at;
	uint8_t *value = at + NLA_HDRLEN;
	size_t len;

	for (int i = 0; i < 32; i++)
		value[i] = any();
	switch (below(5)) {
	case 0:
		len = put_name(value);
		break;
	case 1:		/* plausible numbers: a face, a device, a cost */
		len = 4 << below(2);
		memset(value, 0, len);
		value[0] = below(16);
		value[1] = below(2);
		break;
	case 2:
		len = put_name(value + 10);
		memmove(value, "\x08\x09localhost\x08\x03nfd\x08\x08strategy\x08\x09multicast\xfd\x00", len = 38);
		break;
	case 3:
		len = 6;
		break;
	default:
		len = length(60) % 300;
	}
	attr->nla_type = below(12) ? 2 + below(10) : any();
	attr->nla_len = below(20) ? NLA_HDRLEN + len : any();
	return NLA_ALIGN(NLA_HDRLEN + len);
}

static bool call_netlink(void)
{
	struct { struct nlmsghdr header; struct genlmsghdr command; uint8_t room[4096]; } message = {
		.header = { .nlmsg_type = netlink_family(),
			    .nlmsg_flags = NLM_F_REQUEST | (below(3) ? 0 : NLM_F_ACK) | (below(4) ? 0 : NLM_F_DUMP) },
		.command = { .cmd = below(20), .version = NNET_VERSION },
	};
	size_t len = 0;

	for (int attributes = below(5); attributes > 0; attributes--)
		len += put_attribute(message.room + len);
	len += NLMSG_LENGTH(GENL_HDRLEN);
	message.header.nlmsg_len = below(20) ? len : length(len);
	if (one_in(30))
		message.header.nlmsg_flags = any();
	if (send(netlink, &message, below(20) ? len : below(len + 1), MSG_DONTWAIT) < 0)
		return false;
	while (recv(netlink, room, ROOM, MSG_DONTWAIT) > 0)
		;
	return true;
}

static bool call_file(void)
{
	static const char *const files[] = { "faces", "fib", "bpt", "strategies", "cs", "stats", "drops", "memory", "stop" };
	char path[64];
	bool succeeded;
	int fd;

	snprintf(path, sizeof(path), "/proc/thread-self/net/nnet/%s", files[below(9)]);
	fd = open(path, below(10) ? O_RDONLY : O_RDWR);
	succeeded = fd >= 0 && pread(fd, memory(), length_within(5000), below(2) ? 0 : length(5000)) >= 0;
	if (fd >= 0)
		close(fd);
	return succeeded;
}

static bool call_one(void)
{
	static bool (*const calls[])(int) = {
		call_bind, call_send, call_send, call_send, call_send, call_send_anything, call_sendmsg, call_recv,
		call_recv, call_recvmsg, call_setsockopt, call_getsockopt, call_other, call_send_message, call_send_message,
		call_of_objects, call_of_objects, call_of_objects,
	};
	enum { CALLS_OF_SOCKETS = sizeof(calls) / sizeof(calls[0]) };
	int i = below(SOCKETS);

	if (one_in(20))
		return call_netlink();
	if (one_in(400))
		return call_file();
	if (sockets[i] < 0)
		return open_one(i);
	if (one_in(60))
		return close_one(i);
	if (one_in(100))
		return call_pass(i);
	return calls[below(CALLS_OF_SOCKETS)](sockets[i]);
}

static void calls_of(uint64_t seed, unsigned long count)
{
	unsigned long succeeded = 0;

	state = seed * 0x9e3779b97f4a7c15ull + 1;
	signal(SIGPIPE, SIG_IGN);
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	CHECK(netlink >= 0 && netlink_family(), "netlink");
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, unix_pair), "sockets that pass descriptors");
	memset(sockets, -1, sizeof(sockets));
	for (unsigned long n = 0; n < count; n++)
		succeeded += call_one();
	CHECK(succeeded > count / 10, "%lu of %lu calls succeeded: they must reach what they call", succeeded, count);
}

static void random_calls(unsigned long count)
{
	pid_t children[PROCESSES];

	for (int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (!children[i]) {
			alarm(0);
			calls_of(number_given("seed", 1) + i, count / PROCESSES);
			_exit(0);
		}
	}
	alarm(0);
	for (int i = 0; i < PROCESSES; i++) {
		int status;

		CHECK(waitpid(children[i], &status, 0) == children[i] && !status, "process %d ended: %x", i, status);
	}
}

/* The forwarder works afterwards as before. */
TEST(random_calls_harm_nobody)
{
	struct nets nets = nets_joined();

	random_calls(number_given("calls", CALLS));
	forwarder_serves("/after/random");
	net_enter(nets.b);
	forwarder_serves("/after/random");
}

/* ---- threads ---- */

static volatile bool is_over;

static void *send_on(void *fd)
{
	struct octets interest = interest_for("/shared/1");

	while (!is_over)
		send(*(int *)fd, interest.at, interest.len, MSG_DONTWAIT);
	return NULL;
}

static void *receive_on(void *fd)
{
	uint8_t packet[NNET_PACKET_MAX];

	while (!is_over)
		recv(*(int *)fd, packet, sizeof(packet), 0);
	return NULL;
}

static void *bind_on(void *fd)
{
	struct timeval soon = { .tv_usec = 1000 };

	for (int i = 0; !is_over; i++) {
		char prefix[32];

		snprintf(prefix, sizeof(prefix), "/shared/%d", i % 50);
		socket_bind(*(int *)fd, prefix);
		setsockopt(*(int *)fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	}
	return NULL;
}

/* The fourth thread replaces the socket that the other threads are using. */
TEST(four_threads_on_one_socket_that_is_closed_meanwhile_harm_nobody)
{
	enum { ROUNDS = 200 };
	void *(*const work[])(void *) = { send_on, receive_on, bind_on };
	struct timeval soon = { .tv_usec = 1000 };
	struct octets interest = interest_for("/shared/last"), got;
	pthread_t threads[3];
	int fd;

	net_new();
	CHECK(!route_add("/shared", NNET_FACE_LOCAL), "a route");
	fd = socket_new();
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), "no wait is long");
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work[i], &fd), "a thread");
	for (int i = 0; i < ROUNDS; i++) {
		int new = socket_new();

		setsockopt(new, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
		usleep(2000);
		CHECK(dup3(new, fd, O_CLOEXEC) == fd, "another one in its place");
		close(new);
	}
	is_over = true;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL), "it ends");
	close(fd);
	CHECK(list_count(NNET_CMD_FACE_GET) == 0, "no face is left");
	fd = socket_new();
	packet_send(fd, &interest);
	got = packet_receive(fd);
	CHECK(got.at[0] == LP_PACKET, "and a new one works");
}

/* A socket lives as long as one process that has it. */
TEST(a_socket_outlives_the_process_that_made_it)
{
	struct octets interest = interest_for("/fork/1"), got;
	pid_t child;
	int fd, status;

	net_new();
	CHECK(!route_add("/fork", NNET_FACE_LOCAL), "a route");
	fd = socket_new();
	child = fork();
	if (!child) {
		CHECK(!socket_bind(fd, "/fork"), "the child binds it");
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status, "and ends");
	packet_send(socket_new(), &interest);
	got = packet_receive(fd);
	CHECK(is_same(&got, &interest), "its parent has the binding");
	close(fd);
	CHECK(list_empties(NNET_CMD_BINDING_GET), "until it closes it");
}
