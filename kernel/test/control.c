// SPDX-License-Identifier: MIT OR Apache-2.0
/* The module's generic netlink. */
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <poll.h>
#include "test.h"

struct message {
	struct nlmsghdr header;
	struct genlmsghdr command;
	uint8_t room[16384];
};

static void put(struct message *message, uint16_t type, const void *octets, size_t len)
{
	struct nlattr *attr = (void *)((uint8_t *)message + NLMSG_ALIGN(message->header.nlmsg_len));

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	memcpy(attr + 1, octets, len);
	message->header.nlmsg_len = NLMSG_ALIGN(message->header.nlmsg_len) + NLA_ALIGN(attr->nla_len);
}

static void put_number(struct message *message, uint16_t type, uint64_t number)
{
	put(message, type, &number, sizeof(number));
}

static void put_name(struct message *message, uint16_t type, const char *uri)
{
	struct octets name = name_of(uri);

	put(message, type, name.at, name.len);
}

static const struct nlattr *find(const struct message *message, uint16_t type)
{
	const uint8_t *at = message->room, *end = (const uint8_t *)message + message->header.nlmsg_len;

	while (at + NLA_HDRLEN <= end) {
		const struct nlattr *attr = (const void *)at;

		if (attr->nla_type == type)
			return attr;
		at += NLA_ALIGN(attr->nla_len);
	}
	return NULL;
}

static uint64_t number_of(const struct message *message, uint16_t type)
{
	const struct nlattr *attr = find(message, type);
	uint64_t number;

	CHECK(attr && attr->nla_len == NLA_HDRLEN + sizeof(number), "attribute %u", type);
	memcpy(&number, attr + 1, sizeof(number));
	return number;
}

static struct message message_of(uint16_t family, uint8_t command, uint16_t flags)
{
	struct message message = {
		.header = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN), .nlmsg_type = family,
			    .nlmsg_flags = NLM_F_REQUEST | flags },
		.command = { .cmd = command, .version = NNET_VERSION },
	};
	return message;
}

static int netlink(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);

	CHECK(fd >= 0, "generic netlink");
	return fd;
}

void (*around_request)(bool is_begin);

static void receive(int fd, struct message *answer)
{
	ssize_t len = recv(fd, answer, sizeof(*answer), 0);

	CHECK(len >= (ssize_t)sizeof(struct nlmsghdr), "an answer of netlink");
}

/* Sends a request; -errno if it fails, or if there was no memory for its answers. */
static int request(int fd, const struct message *message)
{
	struct message peeked;
	ssize_t sent;

	if (around_request)
		around_request(true);
	sent = send(fd, message, message->header.nlmsg_len, 0);
	if (around_request)
		around_request(false);
	if (sent < 0)
		return -errno;
	return recv(fd, &peeked, sizeof(peeked), MSG_PEEK | (around_request ? MSG_DONTWAIT : 0)) < 0 ? -errno : 0;
}

static int error_of(const struct message *answer)
{
	return *(const int32_t *)NLMSG_DATA(&answer->header);
}

static uint16_t id;	/* of the family; 0 as long as it is not known */

void netlink_forget(void)
{
	id = 0;
}

static uint16_t family(void)
{
	struct message message = message_of(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	int fd;

	if (id)
		return id;
	fd = netlink();
	put(&message, CTRL_ATTR_FAMILY_NAME, NNET_GENL_NAME, sizeof(NNET_GENL_NAME));
	CHECK(send(fd, &message, message.header.nlmsg_len, 0) > 0, "asking for the family");
	receive(fd, &message);
	CHECK(message.header.nlmsg_type != NLMSG_ERROR, "there is a family nnet");
	memcpy(&id, find(&message, CTRL_ATTR_FAMILY_ID) + 1, sizeof(id));
	close(fd);
	return id;
}

uint16_t netlink_family(void)
{
	return family();
}

/* Sends a request. An answer with content replaces the message. */
static int ask(struct message *message)
{
	int fd = netlink(), error;
	struct message answer;

	message->header.nlmsg_type = family();
	message->header.nlmsg_flags |= NLM_F_ACK;
	error = request(fd, message);
	if (error) {
		close(fd);
		return error;
	}
	receive(fd, &answer);
	if (answer.header.nlmsg_type == NLMSG_ERROR) {
		error = error_of(&answer);
		close(fd);
		return error;
	}
	*message = answer;
	error = recv(fd, &answer, sizeof(answer), 0) < 0 ? -errno : error_of(&answer);
	close(fd);
	return error;
}

long face_add(const char *device, const uint8_t *address)
{
	struct message message = message_of(0, NNET_CMD_FACE_NEW, 0);
	uint32_t index = if_nametoindex(device);
	int error;

	put(&message, NNET_A_IFINDEX, &index, sizeof(index));
	if (address)
		put(&message, NNET_A_ADDRESS, address, 6);
	error = ask(&message);
	return error ? error : (long)number_of(&message, NNET_A_FACE);
}

int face_delete(uint64_t face)
{
	struct message message = message_of(0, NNET_CMD_FACE_DEL, 0);

	put_number(&message, NNET_A_FACE, face);
	return ask(&message);
}

static int route(uint8_t command, const char *prefix, uint64_t face)
{
	struct message message = message_of(0, command, 0);

	put_name(&message, NNET_A_NAME, prefix);
	put_number(&message, NNET_A_FACE, face);
	return ask(&message);
}

int route_add(const char *prefix, uint64_t face)
{
	return route(NNET_CMD_ROUTE_NEW, prefix, face);
}

int route_delete(const char *prefix, uint64_t face)
{
	return route(NNET_CMD_ROUTE_DEL, prefix, face);
}

int strategy_set(const char *prefix, const char *strategy)
{
	struct message message = message_of(0, NNET_CMD_STRATEGY_NEW, 0);

	put_name(&message, NNET_A_NAME, prefix);
	put_name(&message, NNET_A_STRATEGY, strategy);
	return ask(&message);
}

int cs_set(uint64_t packets_max)
{
	struct message message = message_of(0, NNET_CMD_CS_SET, 0);

	put_number(&message, NNET_A_COUNT, packets_max);
	return ask(&message);
}

long cs_erase(const char *prefix)
{
	struct message message = message_of(0, NNET_CMD_CS_ERASE, 0);
	int error;

	put_name(&message, NNET_A_NAME, prefix);
	error = ask(&message);
	return error ? error : (long)number_of(&message, NNET_A_COUNT);
}

int plant_panic(uint64_t how)
{
	struct message message = message_of(0, NNET_CMD_PANIC, 0);

	put_number(&message, NNET_A_COUNT, how);
	return ask(&message);
}

int list_count(enum nnet_cmd command)
{
	struct message message = message_of(family(), command, NLM_F_DUMP);
	int fd = netlink(), count = 0;

	CHECK(send(fd, &message, message.header.nlmsg_len, 0) > 0, "asking for a list");
	for (;;) {
		ssize_t len = recv(fd, &message, sizeof(message), 0);
		struct nlmsghdr *at;

		CHECK(len > 0, "a part of a list");
		for (at = &message.header; NLMSG_OK(at, (uint32_t)len); at = NLMSG_NEXT(at, len)) {
			CHECK(at->nlmsg_type != NLMSG_ERROR, "the list is refused");
			if (at->nlmsg_type == NLMSG_DONE) {
				close(fd);
				return count;
			}
			count++;
		}
	}
}

bool list_empties(enum nnet_cmd command)
{
	for (int i = 0; i < 500 && list_count(command); i++)
		usleep(10000);
	return list_count(command) == 0;
}

uint64_t route_to(const uint8_t *address, const char *prefix)
{
	long face = face_add("link", address);

	CHECK(face > 0, "a face: %ld", face);
	CHECK(!route_add(prefix, face), "a route for %s", prefix);
	return face;
}

int events_listen(void)
{
	struct message message = message_of(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	const struct nlattr *groups, *group, *number;
	uint32_t id;
	int fd = netlink();

	put(&message, CTRL_ATTR_FAMILY_NAME, NNET_GENL_NAME, sizeof(NNET_GENL_NAME));
	CHECK(send(fd, &message, message.header.nlmsg_len, 0) > 0, "asking for the family");
	receive(fd, &message);
	groups = find(&message, CTRL_ATTR_MCAST_GROUPS);
	CHECK(groups, "it has groups");
	group = groups + 1;	/* the only one: its name, then its number */
	number = (const void *)memmem(group, groups->nla_len - NLA_HDRLEN, &(struct nlattr){ 8, CTRL_ATTR_MCAST_GRP_ID }, NLA_HDRLEN);
	CHECK(number, "with a number");
	memcpy(&id, number + 1, sizeof(id));
	CHECK(!setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &id, sizeof(id)), "who listens to group %u", id);
	return fd;
}

enum nnet_cmd event_next(int fd, uint64_t *face)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	struct message message;

	*face = 0;
	if (poll(&readable, 1, 2000) != 1)
		return NNET_CMD_UNSPEC;
	receive(fd, &message);
	CHECK(message.header.nlmsg_type == netlink_family(), "an event of ours");
	if (find(&message, NNET_A_FACE))
		*face = number_of(&message, NNET_A_FACE);
	return message.command.cmd;
}

/* ---- an external content store ---- */

/* Static, because the calls are many and the messages are long. */
static struct message store_out, store_in;

static void store_say(int fd, uint8_t command, uint64_t read, const void *data, size_t len)
{
	store_out.header = (struct nlmsghdr){
		.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN), .nlmsg_type = family(), .nlmsg_flags = NLM_F_REQUEST,
	};
	store_out.command = (struct genlmsghdr){ .cmd = command, .version = NNET_VERSION };
	put_number(&store_out, NNET_A_READ, read);
	if (data) {
		put(&store_out, NNET_A_DATA, data, len);
		put_number(&store_out, NNET_A_FRESH_MS, 10000);
	}
	CHECK(send(fd, &store_out, store_out.header.nlmsg_len, 0) > 0, "an answer of the store");
}

int store_attach(int *fd)
{
	struct message message = message_of(family(), NNET_CMD_STORE_ATTACH, NLM_F_ACK), answer;
	int error;

	*fd = netlink();
	error = request(*fd, &message);
	if (!error) {
		receive(*fd, &answer);
		error = error_of(&answer);
	}
	if (error)
		close(*fd);
	return error;
}

void store_found(int fd, uint64_t read, const void *data, size_t len)
{
	store_say(fd, NNET_CMD_STORE_FOUND, read, data, len);
}

void store_absent(int fd, uint64_t read)
{
	store_say(fd, NNET_CMD_STORE_ABSENT, read, NULL, 0);
}

struct store_told store_next(int fd)
{
	struct store_told told = { 0 };
	const struct nlattr *attr;

	receive(fd, &store_in);
	if (store_in.header.nlmsg_type == NLMSG_ERROR) {
		told.error = error_of(&store_in);
		return told;
	}
	told.command = store_in.command.cmd;
	if (told.command == NNET_CMD_STORE_READ)
		told.read = number_of(&store_in, NNET_A_READ);
	attr = find(&store_in, told.command == NNET_CMD_STORE_READ ? NNET_A_NAME : NNET_A_DATA);
	CHECK(attr, "a name or a Data");
	told.octets = (const void *)(attr + 1);
	told.len = attr->nla_len - NLA_HDRLEN;
	return told;
}
