// SPDX-License-Identifier: MIT OR Apache-2.0
/* Devices, namespaces and the module itself come and go while packets flow; memory runs out. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "test.h"

/* Rounds of each loop, unless the guest is started with rounds=N. */
#define ROUNDS 30

static const uint8_t stranger[6] = { 2, 0, 0, 0, 0, 0x77 };

/* ---- load: processes that send until they are ended ---- */

/* Interests and Data between sockets of two namespaces, as fast as they go. */
static void consume(const char *prefix)
{
	uint8_t packet[NNET_PACKET_MAX];
	int fd = socket_new();

	for (uint32_t n = 0;; n++) {
		struct octets interest;
		char name[64];

		snprintf(name, sizeof(name), "%s/%u", prefix, n % 5000);
		interest = interest_with(name, 10, n % 7 == 0, 500);
		send(fd, interest.at, interest.len, MSG_DONTWAIT);
		while (recv(fd, packet, sizeof(packet), MSG_DONTWAIT) > 0)
			;
		if (n % 200 == 199) {	/* as applications do, now and then */
			close(fd);
			fd = socket_new();
		}
	}
}

static void produce(const char *prefix)
{
	struct octets packet, data = data_for("/load/1", 900);
	int fd = socket_new();

	CHECK(!socket_bind(fd, prefix), "bound");
	for (uint32_t n = 0;; n++) {
		ssize_t len = recv(fd, packet.at, sizeof(packet.at), 0);

		if (len <= 0)
			continue;
		/* Data of the requested name, if that is short. */
		if (packet.at[0] == INTEREST && len > 4 && packet.at[3] < 60) {
			struct octets answer = { 0 };
			size_t name = 2u + packet.at[3];

			answer.at[0] = DATA;
			answer.at[1] = name + 2 + 5 + 34;
			memcpy(answer.at + 2, packet.at + 2, name);
			memcpy(answer.at + 2 + name, "\x15\0\x16\3\x1b\1\0\x17\x20", 9);
			answer.len = 2 + answer.at[1];
			send(fd, answer.at, answer.len, MSG_DONTWAIT);
		}
		if (n % 100 == 0)
			send(fd, data.at, data.len, MSG_DONTWAIT);
	}
}

/* Frames of a neighbor, of a stranger, and invalid ones. The device may vanish at any time. */
static void throw_frames(void)
{
	int station = -1;

	for (uint32_t n = 0;; n++) {
		struct octets interest;
		char name[64];

		if (n % 1000 == 0) {
			if (station >= 0)
				close(station);
			while (!if_nametoindex("link"))
				usleep(1000);
			station = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
			close(station);
			station = station_new();
		}
		snprintf(name, sizeof(name), "/load/thrown/%u", n % 3000);
		interest = interest_for(name);
		if (n % 11 == 0)
			interest.at[n % interest.len] ^= n;
		station_send(station, address_b, n % 5 ? address_a : stranger, interest.at, interest.len);
		if (n % 64 == 0)
			usleep(1);
	}
}

enum { WORKERS_MAX = 8 };

struct load {
	pid_t workers[WORKERS_MAX];
	int count;
};

static pid_t worker(void)
{
	pid_t child = fork();

	CHECK(child >= 0, "a process");
	if (!child)
		alarm(0);
	return child;
}

static void load_stop(struct load *load)
{
	for (int i = 0; i < load->count; i++) {
		int status;

		kill(load->workers[i], SIGKILL);
		CHECK(waitpid(load->workers[i], &status, 0) == load->workers[i], "a worker ends");
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "not before: %x", status);
	}
	load->count = 0;
}

/* a requests, b answers, and a station throws frames at b. */
static struct load load_start(struct nets nets)
{
	struct load load = { .count = 3 };

	net_enter(nets.b);
	if (!(load.workers[0] = worker()))
		produce("/load");
	net_enter(nets.a);
	if (!(load.workers[1] = worker()))
		consume("/load");
	if (!(load.workers[2] = worker()))
		throw_frames();
	return load;
}

/* Faces of both ends, and a route from a to b's sockets. */
static void connect_nets(struct nets nets)
{
	net_enter(nets.b);
	CHECK(face_add("link", address_a) > 0, "b's face");
	CHECK(!route_add("/load", NNET_FACE_LOCAL), "b's route");
	net_enter(nets.a);
	route_to(address_b, "/load");
}

static unsigned rounds(void)
{
	return number_given("rounds", ROUNDS);
}

/* Checks that packets have flowed meanwhile. */
static void has_flowed(struct nets nets)
{
	net_enter(nets.b);
	CHECK(counter("stats", "in_interests") > 100, "Interests came: %lu", counter("stats", "in_interests"));
	net_enter(nets.a);
	CHECK(counter("stats", "in_data") > 10, "and Data: %lu", counter("stats", "in_data"));
}

TEST(a_device_goes_up_and_down_under_load)
{
	struct nets nets = nets_joined();
	struct load load;

	connect_nets(nets);
	load = load_start(nets);
	for (unsigned i = 0; i < rounds(); i++) {
		net_enter(i % 2 ? nets.a : nets.b);
		link_set_up("link", false);
		usleep(5000);
		link_set_mtu("link", 1000 + 100 * (i % 8));
		link_set_up("link", true);
		usleep(20000);
	}
	load_stop(&load);
	has_flowed(nets);
	net_enter(nets.b);
	forwarder_serves("/after");
	net_enter(nets.a);
	CHECK(list_count(NNET_CMD_FACE_GET) == 1, "the face is the one it was");
	forwarder_serves("/after");
}

/* Each change that ends or keeps a face: the device is renamed, moved and removed. */
TEST(a_device_is_renamed_moved_and_removed_under_load)
{
	struct nets nets = nets_joined();
	struct load load;
	int third = net_new();

	net_enter(nets.a);
	connect_nets(nets);
	load = load_start(nets);
	for (unsigned i = 0; i < rounds(); i++) {
		net_enter(nets.a);
		link_set_up("link", false);
		link_rename("link", "other");
		CHECK(list_count(NNET_CMD_ROUTE_GET) == 1, "a name means nothing to a face");
		link_rename("other", "link");
		link_set_up("link", true);
		usleep(10000);
		if (i % 2) {
			link_move("link", third);
			CHECK(list_empties(NNET_CMD_ROUTE_GET), "what has gone has no face");
			net_enter(third);
			link_move("link", nets.a);
			net_enter(nets.a);
			link_set_up("link", true);
			link_wait("link");
			route_to(address_b, "/load");
		} else {
			CHECK(!link_delete("link"), "removed");
			link_join(nets.b);
			link_set_up("link", true);
			net_enter(nets.b);
			link_set_up("link", true);
			link_wait("link");
			CHECK(face_add("link", address_a) > 0, "b's face");
			net_enter(nets.a);
			link_wait("link");
			route_to(address_b, "/load");
		}
		usleep(20000);
	}
	load_stop(&load);
	has_flowed(nets);
	forwarder_serves("/after");
	net_enter(nets.b);
	forwarder_serves("/after");
}

/* Waits until all forwarders together hold no more octets than before. */
static void memory_falls_to(uint64_t octets)
{
	uint64_t now = 0;

	for (int i = 0; i < 1000; i++) {
		now = counter("memory", "octets");
		if (now <= octets)
			return;
		usleep(10000);
	}
	CHECK(false, "%lu octets are left of a namespace, before it there were %lu", now, octets);
}

TEST(a_namespace_goes_with_its_sockets_open_and_its_device_under_load)
{
	uint64_t before;
	int home = net_new();

	before = counter("memory", "octets");
	for (unsigned i = 0; i < rounds() / 3; i++) {
		struct nets nets = nets_joined();
		struct load load;
		int fd;

		connect_nets(nets);
		fd = socket_new();
		CHECK(!socket_bind(fd, "/open"), "bound");
		load = load_start(nets);
		usleep(30000);
		net_enter(home);
		close(nets.a);
		close(nets.b);
		/* The open sockets keep the namespaces, which end one after the other with them. */
		CHECK(!socket_bind(fd, "/open/still") || errno == EADDRINUSE, "a socket of it works");
		load_stop(&load);
		close(fd);
	}
	memory_falls_to(before);
}

/* ---- the module ---- */

static void module_load(void)
{
	int fd = open("/modules/nnet.ko", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0, "the module's file");
	CHECK(!syscall(SYS_finit_module, fd, "", 0), "loading it");
	close(fd);
	netlink_forget();
}

static int module_unload(void)
{
	return syscall(SYS_delete_module, "nnet", O_NONBLOCK) ? -errno : 0;
}

/* Octets left by the module's last report; -1 without a report since the last call. */
static long octets_left(int log)
{
	char line[1024];
	ssize_t len;
	long left = -1;

	while ((len = read(log, line, sizeof(line) - 1)) > 0) {
		const char *at;

		line[len] = 0;
		at = strstr(line, "nnet: ");
		if (at && strstr(at, " octets left"))
			left = strtol(at + 6, NULL, 10);
	}
	return left;
}

/* Frames never cease. An open socket keeps the module; without one it can be unloaded. */
TEST(the_module_goes_and_comes_under_load_and_leaves_nothing)
{
	struct nets nets = nets_joined();
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	pid_t thrower, sender;

	CHECK(log >= 0, "the kernel's log");
	lseek(log, 0, SEEK_END);
	if (!(thrower = worker()))
		throw_frames();
	for (unsigned i = 0; i < number_given("unloads", 30); i++) {
		struct load load = { .count = 1 };
		int status = 0, tries;

		connect_nets(nets);
		load.workers[0] = sender = worker();
		if (!sender)
			consume("/load");
		usleep(3000);
		for (tries = 0; tries < 1000 && counter("stats", "in_interests") == 0; tries++)
			usleep(1000);
		CHECK(module_unload() == -EWOULDBLOCK, "it stays while a socket is open");
		load_stop(&load);
		/* The memory of a socket is freed after a grace period. */
		for (tries = 0; tries < 2000 && (status = module_unload()) == -EWOULDBLOCK; tries++)
			usleep(1000);
		CHECK(!status, "it goes: %d", status);
		CHECK(octets_left(log) == 0, "and leaves nothing, the %u. time", i + 1);
		module_load();
	}
	kill(thrower, SIGKILL);
	waitpid(thrower, NULL, 0);
	forwarder_serves("/after");
}

/* ---- memory ---- */

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0, "%s", path);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s to %s", text, path);
	close(fd);
}

/* A forwarder is charged to its creator, which gets an error without room; none is killed. */
TEST(a_memory_cgroup_at_its_limit_gets_no_forwarder_and_lives)
{
	struct octets interest = interest_for("/cgroup/1");
	pid_t child;
	int status;

	mkdir("/cgroup", 0755);
	if (mount("cgroup", "/cgroup", "cgroup2", 0, NULL) && errno != EBUSY) {
		CHECK(errno == ENODEV, "no memory cgroups here");
		return;
	}
	write_file("/cgroup/cgroup.subtree_control", "+memory");
	CHECK(!mkdir("/cgroup/small", 0755) || errno == EEXIST, "a cgroup");
	write_file("/cgroup/small/memory.max", "6291456");
	net_new();
	child = fork();
	if (!child) {
		int fd;

		write_file("/cgroup/small/cgroup.procs", "0");
		fd = socket_new();
		for (int i = 0; i < 5; i++)
			CHECK(send(fd, interest.at, interest.len, 0) < 0 && errno == ENOMEM, "no room for a forwarder");
		CHECK(socket_bind(fd, "/cgroup") == -ENOMEM, "by no way");
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status, "who asked lives: %x", status);
	/* In the same namespace a process with room makes one. */
	forwarder_serves("/cgroup");
	child = fork();
	if (!child) {
		struct octets data = data_for("/cgroup/large", 8000);
		int fd;

		/* With a forwarder, packets of a process without room are answered or refused. */
		write_file("/cgroup/small/cgroup.procs", "0");
		fd = socket_new();
		for (int i = 0; i < 5000; i++)
			CHECK(send(fd, data.at, data.len, MSG_DONTWAIT) > 0 || errno == ENOMEM || errno == ENOBUFS ||
			      errno == EAGAIN, "sent or refused");
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status, "who sent lives: %x", status);
	forwarder_serves("/cgroup");
}
