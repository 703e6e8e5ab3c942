// SPDX-License-Identifier: MIT OR Apache-2.0
/* Network namespaces, and devices in them, by rtnetlink. */
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sched.h>
#include "test.h"
#include <linux/if.h> /* respects the definitions of net/if.h */

const uint8_t address_a[6] = { 2, 0, 0, 0, 0, 0xa };
const uint8_t address_b[6] = { 2, 0, 0, 0, 0, 0xb };

int net_new(void)
{
	int net;

	CHECK(!unshare(CLONE_NEWNET), "a network namespace");
	net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	CHECK(net >= 0, "its descriptor");
	return net;
}

void net_enter(int net)
{
	CHECK(!setns(net, CLONE_NEWNET), "entering a namespace");
}

/* A request that grows. */
struct request {
	struct nlmsghdr header;
	union {
		struct ifinfomsg link;
		struct tcmsg tc;
	};
	uint8_t room[512];
};

static void *put(struct request *request, uint16_t type, const void *octets, uint16_t len)
{
	struct rtattr *attr = (void *)((uint8_t *)request + NLMSG_ALIGN(request->header.nlmsg_len));

	attr->rta_type = type;
	attr->rta_len = RTA_LENGTH(len);
	if (octets)
		memcpy(RTA_DATA(attr), octets, len);
	request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(attr->rta_len);
	return attr;
}

static void close_nest(struct request *request, struct rtattr *nest)
{
	nest->rta_len = (uint8_t *)request + request->header.nlmsg_len - (uint8_t *)nest;
}

static struct request request_of(uint16_t type, uint16_t flags)
{
	struct request request = { .header = {
		.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = type,
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags,
	} };
	return request;
}

static int ask(struct request *request)
{
	struct { struct nlmsghdr header; struct nlmsgerr error; uint8_t more[512]; } answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	CHECK(fd >= 0, "rtnetlink");
	CHECK(send(fd, request, request->header.nlmsg_len, 0) > 0, "a request");
	CHECK(recv(fd, &answer, sizeof(answer), 0) > 0, "its answer");
	close(fd);
	return answer.error.error;
}

void link_join(int other)
{
	struct request request = request_of(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	struct rtattr *info, *data, *peer;

	put(&request, IFLA_IFNAME, "link", 5);
	put(&request, IFLA_ADDRESS, address_a, 6);
	info = put(&request, IFLA_LINKINFO, NULL, 0);
	put(&request, IFLA_INFO_KIND, "veth", 5);
	data = put(&request, IFLA_INFO_DATA, NULL, 0);
	peer = put(&request, VETH_INFO_PEER, NULL, 0);
	memset((uint8_t *)&request + request.header.nlmsg_len, 0, sizeof(struct ifinfomsg));
	request.header.nlmsg_len += sizeof(struct ifinfomsg);
	put(&request, IFLA_IFNAME, "link", 5);
	put(&request, IFLA_ADDRESS, address_b, 6);
	put(&request, IFLA_NET_NS_FD, &other, sizeof(other));
	close_nest(&request, peer);
	close_nest(&request, data);
	close_nest(&request, info);
	CHECK(!ask(&request), "a veth pair");
}

struct nets nets_joined(void)
{
	struct nets nets;

	nets.b = net_new();
	nets.a = net_new();
	link_join(nets.b);
	link_set_up("link", true);
	net_enter(nets.b);
	link_set_up("link", true);
	link_wait("link");
	net_enter(nets.a);
	link_wait("link");
	return nets;
}

void link_set_up(const char *device, bool is_up)
{
	struct request request = request_of(RTM_NEWLINK, 0);

	request.link.ifi_index = if_nametoindex(device);
	request.link.ifi_change = IFF_UP;
	request.link.ifi_flags = is_up ? IFF_UP : 0;
	CHECK(!ask(&request), "%s %s", device, is_up ? "up" : "down");
}

/* As in RFC 2863: IF_OPER_UP once the kernel's link watch has run. */
static uint8_t link_state(const char *device)
{
	struct { struct nlmsghdr header; struct ifinfomsg link; uint8_t room[4096]; } answer;
	struct request request = request_of(RTM_GETLINK, 0);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct rtattr *attr = IFLA_RTA(&answer.link);
	int left;

	CHECK(fd >= 0, "rtnetlink");
	request.link.ifi_index = if_nametoindex(device);
	CHECK(send(fd, &request, request.header.nlmsg_len, 0) > 0, "a request");
	CHECK(recv(fd, &answer, sizeof(answer), 0) > 0, "its answer");
	close(fd);
	CHECK(answer.header.nlmsg_type == RTM_NEWLINK, "the state of %s", device);
	for (left = IFLA_PAYLOAD(&answer.header); RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == IFLA_OPERSTATE)
			return *(uint8_t *)RTA_DATA(attr);
	return IF_OPER_UNKNOWN;
}

/*
 * A device of a pair takes frames only after its queue is attached, some time after both devices
 * are up. Until then its state is not IF_OPER_UP. A device that always has a carrier stays in
 * IF_OPER_UNKNOWN.
 */
void link_wait(const char *device)
{
	uint8_t state = link_state(device);

	for (int i = 0; i < 20000 && state != IF_OPER_UP && !(state == IF_OPER_UNKNOWN && i > 1000); i++) {
		usleep(1000);
		state = link_state(device);
	}
	CHECK(state == IF_OPER_UP || state == IF_OPER_UNKNOWN, "%s runs", device);
	/* The state is reported in the middle of a change. This request is processed after it. */
	link_set_up(device, true);
}

void link_wait_down(const char *device)
{
	for (int i = 0; i < 20000 && link_state(device) == IF_OPER_UP; i++)
		usleep(1000);
	CHECK(link_state(device) != IF_OPER_UP, "%s has no carrier", device);
}

void link_set_mtu(const char *device, uint32_t mtu)
{
	struct request request = request_of(RTM_NEWLINK, 0);

	request.link.ifi_index = if_nametoindex(device);
	put(&request, IFLA_MTU, &mtu, sizeof(mtu));
	CHECK(!ask(&request), "%s MTU %u", device, mtu);
}

void link_rename(const char *device, const char *name)
{
	struct request request = request_of(RTM_NEWLINK, 0);

	request.link.ifi_index = if_nametoindex(device);
	put(&request, IFLA_IFNAME, name, strlen(name) + 1);
	CHECK(!ask(&request), "%s becomes %s", device, name);
}

void link_move(const char *device, int net)
{
	struct request request = request_of(RTM_NEWLINK, 0);

	request.link.ifi_index = if_nametoindex(device);
	put(&request, IFLA_NET_NS_FD, &net, sizeof(net));
	CHECK(!ask(&request), "%s goes to another namespace", device);
}

int link_delete(const char *device)
{
	struct request request = request_of(RTM_DELLINK, 0);

	request.link.ifi_index = if_nametoindex(device);
	return ask(&request);
}

void link_spoil(const char *device, unsigned lost_percent, unsigned reordered_percent, unsigned delay_us)
{
	const uint32_t one_percent = UINT32_MAX / 100;
	struct tc_netem_qopt options = { .limit = 1000, .loss = lost_percent * one_percent };
	struct tc_netem_reorder reorder = { .probability = reordered_percent * one_percent };
	int64_t latency_ns = delay_us * 1000ll;
	struct request request = request_of(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE);
	struct rtattr *all;

	request.header.nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg));
	request.tc = (struct tcmsg){ .tcm_ifindex = if_nametoindex(device), .tcm_parent = TC_H_ROOT,
				     .tcm_handle = 1 << 16 };
	options.gap = reordered_percent ? 1 : 0;	/* else it reorders nothing */
	put(&request, TCA_KIND, "netem", sizeof("netem"));
	all = put(&request, TCA_OPTIONS, &options, sizeof(options));
	put(&request, TCA_NETEM_LATENCY64, &latency_ns, sizeof(latency_ns));
	if (reordered_percent)
		put(&request, TCA_NETEM_REORDER, &reorder, sizeof(reorder));
	close_nest(&request, all);
	CHECK(!ask(&request), "%s loses", device);
}

void link_limit(const char *device, uint64_t octets_per_second)
{
	/* A queue of 5 ms, and a burst of 1 ms. */
	const uint32_t burst = octets_per_second / 1000;
	struct tc_tbf_qopt options = {
		.rate = { .linklayer = TC_LINKLAYER_ETHERNET, .rate = octets_per_second },
		.limit = octets_per_second / 200, .buffer = burst,
	};
	struct request request = request_of(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE);
	struct rtattr *all;

	request.header.nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg));
	request.tc = (struct tcmsg){ .tcm_ifindex = if_nametoindex(device), .tcm_parent = TC_H_ROOT,
				     .tcm_handle = 1 << 16 };
	put(&request, TCA_KIND, "tbf", sizeof("tbf"));
	all = put(&request, TCA_OPTIONS, NULL, 0);
	put(&request, TCA_TBF_PARMS, &options, sizeof(options));
	put(&request, TCA_TBF_BURST, &burst, sizeof(burst));
	close_nest(&request, all);
	CHECK(!ask(&request), "%s has a rate", device);
}
