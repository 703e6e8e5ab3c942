// SPDX-License-Identifier: MIT OR Apache-2.0
/* Failing allocations: each one of each call once, and a part of all while packets flow. */
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "test.h"

/* Of one task's allocations, and copies from and to programs, the kernel fails the n-th. */
#define FAIL_NTH "/proc/thread-self/fail-nth"
#define FAILURES_MAX 4000

static int fail_nth = -1;
static unsigned nth;

static void arm(void)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	if (nth && pwrite(fail_nth, text, len, 0) != len)
		_exit(2);
}

/* Disarms the failure. Returns true if it has occurred. */
static bool disarm(void)
{
	char text[16] = { 0 };
	bool has_failed;
	int error = errno;

	if (!nth || pread(fail_nth, text, sizeof(text) - 1, 0) <= 0)
		return false;
	has_failed = strtoul(text, NULL, 10) == 0;
	/* The copy of these octets may be the allocation that fails. */
	if (pwrite(fail_nth, "0", 1, 0) != 1 && pwrite(fail_nth, "0", 1, 0) != 1)
		_exit(2);
	errno = error;
	return has_failed;
}

/* ---- calls: 0 or more, or -errno. Each leaves things as they were before prepare ---- */

struct call {
	const char *name;
	void (*prepare)(void);
	int (*perform)(void);
	void (*undo)(void);
};

static struct nets nets;
static int fd, other;
static uint64_t face;
static bool has_failed;

static int result_of(long answer)
{
	has_failed = disarm();
	return answer < 0 ? -errno : 0;
}

static void nothing(void)
{
}

static void close_both(void)
{
	close(fd);
	close(other);
	fd = other = -1;
}

static int perform_socket(void)
{
	arm();
	fd = socket(AF_NNET, SOCK_RAW | SOCK_CLOEXEC, 0);
	return result_of(fd);
}

static void make_socket(void)
{
	fd = socket_new();
}

/* A socket with a face, and one that is bound. */
static void make_both(void)
{
	struct octets interest = interest_for("/nowhere"), nack;

	fd = socket_new();
	packet_send(fd, &interest);
	nack = packet_receive(fd);
	CHECK(nack.at[0] == LP_PACKET, "it has a face");
	other = socket_new();
	CHECK(!socket_bind(other, "/other"), "bound");
}

static int bind_to(const char *prefix)
{
	struct sockaddr_nnet address = { .snn_family = AF_NNET };
	struct octets name = name_of(prefix);

	address.snn_namelen = name.len;
	memcpy(address.snn_name, name.at, name.len);
	arm();
	return result_of(bind(fd, (void *)&address, sizeof(address)));
}

static int perform_bind(void)
{
	return bind_to("/memory/bind");
}

static int perform_bind_long(void)
{
	static char prefix[1200];
	struct octets name;

	for (size_t i = 0; i + 1 < sizeof(prefix); i++)
		prefix[i] = i % 100 ? 'a' : '/';
	name = name_of(prefix);
	arm();
	return result_of(setsockopt(fd, SOL_NNET, NNET_PREFIX, name.at, name.len));
}

static int send_armed(const struct octets *packet)
{
	arm();
	return result_of(send(fd, packet->at, packet->len, MSG_DONTWAIT));
}

static int perform_send_nowhere(void)
{
	static int n;
	struct octets interest;
	char name[32];

	snprintf(name, sizeof(name), "/none/%d", n++);
	interest = interest_with(name, 5, false, 300);
	return send_armed(&interest);
}

static int perform_send_interest(void)
{
	static int n;
	struct octets interest;
	char name[32];

	snprintf(name, sizeof(name), "/other/%d", n++);
	interest = interest_with(name, 5, n % 2, 300);
	return send_armed(&interest);
}

/* The second Interest for a name, and the third: records beyond the first. */
static int perform_send_again(void)
{
	static int n;
	struct octets interest;
	char name[32];
	int more[3];
	int result;

	snprintf(name, sizeof(name), "/other/again/%d", n++);
	for (int i = 0; i < 3; i++) {
		more[i] = socket_new();
		interest = interest_with(name, 5, false, 300);
		packet_send(more[i], &interest);
	}
	interest = interest_with(name, 5, false, 300);
	result = send_armed(&interest);
	for (int i = 0; i < 3; i++)
		close(more[i]);
	return result;
}

/* Data for the waiting consumer; from the bound socket. */
static int perform_send_data(void)
{
	static int n;
	struct octets interest, data;
	char name[32];
	int keep = fd, result;

	snprintf(name, sizeof(name), "/other/data/%d", n++);
	interest = interest_for(name);
	packet_send(fd, &interest);
	data = data_for(name, 500);
	fd = other;
	result = send_armed(&data);
	fd = keep;
	return result;
}

/* An answer from the content store. */
static int perform_hit(void)
{
	struct octets interest = interest_for("/other/hit"), data = data_for("/other/hit", 100);

	packet_send(fd, &interest);
	packet_send(other, &data);
	interest = interest_for("/other/hit");
	return send_armed(&interest);
}

/* Through the device: a header, an Interest with a lower HopLimit, and Data in fragments. */
static int perform_send_device(void)
{
	static int n;
	struct octets interest;
	char name[32];

	snprintf(name, sizeof(name), "/remote/%d", n++);
	interest = interest_with(name, 5, false, 300);
	return send_armed(&interest);
}

static void make_remote_demand(void)
{
	struct octets interest = interest_with("/other/far", 5, false, 4000);
	int station;

	make_both();
	CHECK(cs_erase("/") >= 0, "nothing is kept");
	net_enter(nets.b);
	station = station_new();
	station_send(station, address_a, address_b, interest.at, interest.len);
	close(station);
	net_enter(nets.a);
	CHECK(!nothing_comes(other, 2000), "somebody waits for Data");
}

static int perform_send_fragments(void)
{
	struct octets data = data_for("/other/far", 8000);
	int keep = fd, result;

	fd = other;
	result = send_armed(&data);
	fd = keep;
	return result;
}

static void make_packet(void)
{
	struct octets interest = interest_for("/nowhere/for/it");

	make_both();
	packet_send(fd, &interest);
	CHECK(!nothing_comes(fd, 2000), "a Nack");
}

static int perform_recv(void)
{
	uint8_t packet[NNET_PACKET_MAX];

	arm();
	return result_of(recv(fd, packet, sizeof(packet), MSG_DONTWAIT));
}

static int perform_close(void)
{
	arm();
	result_of(close(other));
	other = socket_new();
	return 0;
}

/* ---- names and contents, objects in segments ---- */

static int perform_socket_of_objects(void)
{
	arm();
	fd = socket(AF_NNET, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return result_of(fd);
}

static void make_contents(void)
{
	fd = socket_of(SOCK_DGRAM);
	other = socket_of(SOCK_DGRAM);
	CHECK(!socket_bind(other, "/other"), "bound");
}

static int send_to(int from, const char *name, size_t octets)
{
	static const uint8_t content[500];
	struct sockaddr_nnet address = address_of(name);

	return sendto(from, content, octets, MSG_DONTWAIT, (void *)&address, sizeof(address));
}

static int perform_name(void)
{
	static int n;
	char name[32];

	snprintf(name, sizeof(name), "/other/name/%d", n++);
	arm();
	return result_of(send_to(fd, name, 0));
}

static int perform_content(void)
{
	static int n;
	char name[32];

	snprintf(name, sizeof(name), "/other/content/%d", n++);
	CHECK(send_to(fd, name, 0) == 0, "asked");
	arm();
	return result_of(send_to(other, name, 500));
}

static void make_content(void)
{
	uint32_t on = 1;

	make_contents();
	CHECK(!setsockopt(other, SOL_NNET, NNET_INFO, &on, sizeof(on)), "with all that is said beside it");
	CHECK(send_to(fd, "/other/1", 0) == 0 && !nothing_comes(other, 2000), "asked");
}

static int perform_recv_content(void)
{
	struct sockaddr_nnet address;
	uint8_t octets[64], control[256];
	struct iovec part = { octets, sizeof(octets) };
	struct msghdr message = { .msg_name = &address, .msg_namelen = sizeof(address), .msg_iov = &part, .msg_iovlen = 1,
				  .msg_control = control, .msg_controllen = sizeof(control) };

	arm();
	return result_of(recvmsg(other, &message, MSG_DONTWAIT));
}

static void make_objects(void)
{
	fd = socket_of(SOCK_SEQPACKET);
	other = socket_of(SOCK_SEQPACKET);
	CHECK(!socket_bind(other, "/other"), "offered");
}

static int open_it(void)
{
	struct sockaddr_nnet address = address_of("/other");

	return connect(fd, (void *)&address, sizeof(address));
}

static int perform_open(void)
{
	arm();
	return result_of(open_it());
}

static void make_opened(void)
{
	CHECK(cs_erase("/other") >= 0, "nothing is kept");
	make_objects();
	CHECK(!open_it(), "opened");
}

static int send_segments(size_t octets)
{
	static const uint8_t content[5000];

	return send(other, content, octets, MSG_DONTWAIT);
}

/* A consumer waits for the segment, so it passes into the consumer's buffer. */
static int perform_segment(void)
{
	arm();
	return result_of(send_segments(500));
}

static int perform_offer(void)
{
	arm();
	return result_of(send_segments(5000));
}

static void make_segment(void)
{
	make_opened();
	CHECK(send_segments(5000) == 5000 && !nothing_comes(fd, 5000), "segments come");
}

static int perform_recv_segment(void)
{
	uint8_t octets[2000];

	arm();
	return result_of(recv(fd, octets, sizeof(octets), MSG_DONTWAIT));
}

static int perform_end(void)
{
	arm();
	return result_of(shutdown(other, SHUT_WR));
}

static int perform_close_opened(void)
{
	arm();
	result_of(close(fd));
	fd = socket_new();
	return 0;
}

/* ---- netlink: the request alone is armed ---- */

static void request_hook(bool is_begin)
{
	if (is_begin)
		arm();
	else
		has_failed = disarm();
}

static int asked(long answer)
{
	around_request = NULL;
	return answer < 0 ? (int)answer : 0;
}

static int perform_face_add(void)
{
	const uint8_t station[6] = { 2, 0, 0, 0, 9, 9 };

	around_request = request_hook;
	return asked(face_add("link", station));
}

static void undo_face_add(void)
{
	static char text[65536];
	char *line, *at;

	file_read("faces", text, sizeof(text));
	for (line = text; (at = strstr(line, "station link 02:00:00:00:09:09")); line = at + 1) {
		while (at > text && at[-1] != '\n')
			at--;
		CHECK(!face_delete(strtoull(at, NULL, 10)), "it is deleted");
		return;
	}
}

static int perform_face_delete(void)
{
	const uint8_t station[6] = { 2, 0, 0, 0, 9, 9 };
	long made = face_add("link", station);

	CHECK(made > 0, "a face: %ld", made);
	around_request = request_hook;
	return asked(face_delete(made));
}

static int perform_route_add(void)
{
	around_request = request_hook;
	return asked(route_add("/memory/route/of/components", face));
}

static void undo_route_add(void)
{
	route_delete("/memory/route/of/components", face);
}

static int perform_route_delete(void)
{
	CHECK(!route_add("/memory/route/of/components", face), "a route");
	around_request = request_hook;
	return asked(route_delete("/memory/route/of/components", face));
}

static int perform_strategy_set(void)
{
	around_request = request_hook;
	return asked(strategy_set("/memory/strategy", "/localhost/nfd/strategy/multicast"));
}

static int perform_cs_set(void)
{
	around_request = request_hook;
	return asked(cs_set(1000));
}

static int perform_cs_erase(void)
{
	around_request = request_hook;
	return asked(cs_erase("/"));
}

static int perform_listings(void)
{
	static const enum nnet_cmd lists[] = {
		NNET_CMD_FACE_GET, NNET_CMD_ROUTE_GET, NNET_CMD_STRATEGY_GET, NNET_CMD_BINDING_GET,
	};
	int result = 0;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !result; i++) {
		struct { struct nlmsghdr header; uint8_t command[4]; } message = { .header = {
			.nlmsg_len = sizeof(message), .nlmsg_type = netlink_family(),
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP }, .command = { lists[i], NNET_VERSION } };
		uint8_t part[16384];
		int list = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);

		CHECK(list >= 0, "netlink");
		arm();
		result = result_of(send(list, &message, sizeof(message), 0));
		while (recv(list, part, sizeof(part), MSG_DONTWAIT) > 0)
			;
		close(list);
		if (has_failed)
			return result;
	}
	return result;
}

static int perform_files(void)
{
	static const char *const files[] = { "faces", "fib", "bpt", "strategies", "cs", "stats", "drops", "memory", "stop", "passages" };
	static char text[16384];

	arm();
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[64];
		int file;

		snprintf(path, sizeof(path), "/proc/thread-self/net/nnet/%s", files[i]);
		file = open(path, O_RDONLY | O_CLOEXEC);
		if (file < 0 || read(file, text, sizeof(text)) < 0) {
			close(file);
			return result_of(-1);
		}
		close(file);
	}
	return result_of(0);
}

static const struct call calls[] = {
	{ "a socket", nothing, perform_socket, close_both },
	{ "a bind", make_both, perform_bind, close_both },
	{ "a bind of a socket without a face", make_socket, perform_bind, close_both },
	{ "a bind by option", make_both, perform_bind_long, close_both },
	{ "a first packet", make_socket, perform_send_nowhere, close_both },
	{ "an Interest without a route", make_both, perform_send_nowhere, close_both },
	{ "an Interest to a socket", make_both, perform_send_interest, close_both },
	{ "a fourth Interest for a name", make_both, perform_send_again, close_both },
	{ "a Data", make_both, perform_send_data, close_both },
	{ "a hit", make_both, perform_hit, close_both },
	{ "an Interest to a device", make_both, perform_send_device, close_both },
	{ "a Data in fragments", make_remote_demand, perform_send_fragments, close_both },
	{ "receiving", make_packet, perform_recv, close_both },
	{ "a close", make_both, perform_close, close_both },
	{ "a socket of objects", nothing, perform_socket_of_objects, close_both },
	{ "a name", make_contents, perform_name, close_both },
	{ "a content", make_contents, perform_content, close_both },
	{ "receiving a content", make_content, perform_recv_content, close_both },
	{ "opening an object", make_objects, perform_open, close_both },
	{ "a segment that is waited for", make_opened, perform_segment, close_both },
	{ "segments that nobody waits for", make_objects, perform_offer, close_both },
	{ "receiving a segment", make_segment, perform_recv_segment, close_both },
	{ "the end of an object", make_opened, perform_end, close_both },
	{ "closing in the middle", make_segment, perform_close_opened, close_both },
	{ "a face", nothing, perform_face_add, undo_face_add },
	{ "the end of a face", nothing, perform_face_delete, undo_face_add },
	{ "a route", nothing, perform_route_add, undo_route_add },
	{ "the end of a route", nothing, perform_route_delete, undo_route_add },
	{ "a strategy", nothing, perform_strategy_set, nothing },
	{ "a limit of the content store", nothing, perform_cs_set, nothing },
	{ "erasing", nothing, perform_cs_erase, nothing },
	{ "listings", make_both, perform_listings, close_both },
	{ "files", make_both, perform_files, close_both },
};

static void set_knob(const char *of, const char *knob, const char *value)
{
	char path[128];
	int file;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", of, knob);
	file = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(file >= 0 && write(file, value, strlen(value)) > 0, "%s", path);
	close(file);
}

static void open_fail_nth(void)
{
	static const char *const kinds[] = { "failslab", "fail_page_alloc", "fail_usercopy" };

	for (int i = 0; i < 3; i++)
		set_knob(kinds[i], "verbose", "0");
	set_knob("failslab", "ignore-gfp-wait", "N");
	set_knob("fail_page_alloc", "ignore-gfp-wait", "N");
	set_knob("fail_page_alloc", "min-order", "0");

	fail_nth = open(FAIL_NTH, O_RDWR | O_CLOEXEC);
	CHECK(fail_nth >= 0, FAIL_NTH);
	alarm(0);
}

static void is_running(const char *what)
{
	char text[256];

	file_read("stop", text, sizeof(text));
	CHECK(strncmp(text, "stopped", 7), "%s, failure %u: %s", what, nth, text);
}

/* Fails each allocation of a call in turn, until the call ends before its n-th allocation. */
static unsigned sweep(const struct call *call)
{
	for (unsigned n = 1; n < FAILURES_MAX; n++) {
		int result;

		nth = 0;
		call->prepare();
		nth = n;
		has_failed = false;
		result = call->perform();
		nth = 0;
		is_running(call->name);
		call->undo();
		if (!has_failed) {
			CHECK(!result, "%s, without a failure: %d", call->name, result);
			return n - 1;
		}
	}
	CHECK(false, "%s has no end", call->name);
	return 0;
}

TEST(every_allocation_of_every_call_may_fail)
{
	nets = nets_joined();
	face = route_to(address_b, "/remote");
	CHECK(!route_add("/other", NNET_FACE_LOCAL), "a route");
	CHECK(netlink_family(), "netlink");
	fd = other = -1;
	open_fail_nth();
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		unsigned failures = sweep(&calls[i]);

		printf("  %s: %u failures\n", calls[i].name, failures);
		forwarder_serves("/after");
	}
}

/*
 * The forwarder itself. If a large allocation fails in one way and succeeds in another, the
 * forwarder is created nevertheless. Each attempt therefore has a namespace of its own.
 */
TEST(every_allocation_of_a_new_forwarder_may_fail)
{
	char text[256];
	unsigned n;

	open_fail_nth();
	for (n = 1; n < FAILURES_MAX; n++) {
		int result;

		close(net_new());
		fd = socket_new();
		nth = n;
		has_failed = false;
		result = bind_to("/memory/new");
		nth = 0;
		is_running("a forwarder");
		if (!has_failed) {
			CHECK(!result, "it is made: %d", result);
			break;
		}
		close(fd);
		if (!result)	/* its memory is freed before the next one is made */
			usleep(50000);
	}
	CHECK(n > 20 && n < FAILURES_MAX, "%u failures", n);
	printf("  a new forwarder: %u failures\n", n - 1);
	file_read("stop", text, sizeof(text));
	CHECK(!strcmp(text, "running\n"), "%s", text);
	forwarder_serves("/after");
}

/* A namespace that cannot be made leaves nothing behind; a later one gets a forwarder. */
TEST(every_allocation_of_a_namespace_with_the_module_may_fail)
{
	unsigned n;

	open_fail_nth();
	for (n = 1; n < FAILURES_MAX; n++) {
		int result;

		nth = n;
		arm();
		result = unshare(CLONE_NEWNET);
		has_failed = disarm();
		nth = 0;
		if (!has_failed) {
			CHECK(!result, "a namespace");
			break;
		}
	}
	printf("  a namespace: %u failures\n", n - 1);
	forwarder_serves("/after");
}

static void refuse(const char *percent)
{
	static const char *const kinds[] = { "failslab", "fail_page_alloc" };

	for (int i = 0; i < 2; i++) {
		set_knob(kinds[i], "task-filter", "N");
		set_knob(kinds[i], "interval", "1");
		set_knob(kinds[i], "times", "-1");
		set_knob(kinds[i], "verbose", "0");
		set_knob(kinds[i], "ignore-gfp-wait", "Y");	/* only allocations that may not wait: packets, not programs */
		set_knob(kinds[i], "probability", percent);
	}
}

/* In softirqs no task gets an error: packets are lost and counted, and nothing else happens. */
TEST(a_tenth_of_all_memory_refused_while_packets_flow_loses_packets_alone)
{
	struct octets packet, data;
	char name[32];
	int consumer, producer;
	unsigned answered = 0;

	nets = nets_joined();
	alarm(0);
	net_enter(nets.b);
	CHECK(face_add("link", address_a) > 0, "a face");
	CHECK(!route_add("/flow", NNET_FACE_LOCAL), "a route");
	producer = socket_new();
	CHECK(!socket_bind(producer, "/flow"), "bound");
	net_enter(nets.a);
	route_to(address_b, "/flow");
	consumer = socket_new();
	packet = interest_for("/flow/first");
	packet_send(consumer, &packet);
	refuse("10");
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "/flow/%d", i);
		packet = interest_with(name, 10, i % 3 == 0, 200);
		send(consumer, packet.at, packet.len, MSG_DONTWAIT);
		data = data_for(name, i % 4 ? 500 : 7000);
		send(producer, data.at, data.len, MSG_DONTWAIT);
		while (recv(producer, packet.at, sizeof(packet.at), MSG_DONTWAIT) > 0)
			;
		while (recv(consumer, packet.at, sizeof(packet.at), MSG_DONTWAIT) > 0)
			answered += packet.at[0] == DATA;
	}
	refuse("0");
	is_running("a");
	CHECK(answered > 500, "%u came through", answered);
	forwarder_serves("/after");
	net_enter(nets.b);
	is_running("b");
	forwarder_serves("/after");
}
