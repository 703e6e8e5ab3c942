// SPDX-License-Identifier: MIT OR Apache-2.0
/* Packets and sockets. */
#include <fcntl.h>
#include <poll.h>
#include "test.h"

static void put(struct octets *to, const void *octets, size_t len)
{
	CHECK(to->len + len <= sizeof(to->at), "the packet is too long");
	memcpy(to->at + to->len, octets, len);
	to->len += len;
}

static void put_tlv(struct octets *to, uint8_t type, const void *value, size_t len)
{
	uint8_t head[4] = { type, len, 0, 0 };
	size_t head_len = 2;

	if (len > 252) {
		head[1] = 253;
		head[2] = len >> 8;
		head[3] = len;
		head_len = 4;
	}
	put(to, head, head_len);
	put(to, value, len);
}

struct octets name_of(const char *uri)
{
	struct octets name = { 0 };

	while (*uri == '/' && uri[1]) {
		size_t len = strcspn(++uri, "/");

		put_tlv(&name, 8, uri, len);
		uri += len;
	}
	return name;
}

static struct octets interest_made(const char *uri, int hop_limit, bool can_be_prefix, bool must_be_fresh,
				   uint32_t lifetime_ms)
{
	struct octets name = name_of(uri), value = { 0 }, interest = { 0 };
	uint32_t nonce = random();
	uint8_t lifetime[4] = { lifetime_ms >> 24, lifetime_ms >> 16, lifetime_ms >> 8, lifetime_ms };
	uint8_t hops = hop_limit;

	put_tlv(&value, 7, name.at, name.len);
	if (can_be_prefix)
		put_tlv(&value, 0x21, NULL, 0);
	if (must_be_fresh)
		put_tlv(&value, 0x12, NULL, 0);
	put_tlv(&value, 0x0a, &nonce, 4);
	put_tlv(&value, 0x0c, lifetime, 4);
	if (hop_limit >= 0)
		put_tlv(&value, 0x22, &hops, 1);
	put_tlv(&interest, INTEREST, value.at, value.len);
	return interest;
}

struct octets interest_with(const char *uri, int hop_limit, bool can_be_prefix, uint32_t lifetime_ms)
{
	return interest_made(uri, hop_limit, can_be_prefix, false, lifetime_ms);
}

struct octets interest_for_fresh(const char *uri)
{
	return interest_made(uri, -1, true, true, 4000);
}

struct octets interest_for(const char *uri)
{
	return interest_with(uri, -1, false, 4000);
}

struct octets data_fresh_for(const char *uri, size_t content_octets, uint16_t ms)
{
	const uint8_t meta_info[4] = { 0x19, 2, ms >> 8, ms };
	static uint8_t content[NNET_PACKET_MAX];
	const uint8_t signature[32] = { 0 };
	struct octets name = name_of(uri), value = { 0 }, data = { 0 };
	size_t i;

	for (i = 0; i < content_octets; i++)
		content[i] = i * 7 + i / 256;
	put_tlv(&value, 7, name.at, name.len);
	put_tlv(&value, 0x14, meta_info, sizeof(meta_info));
	put_tlv(&value, 0x15, content, content_octets);
	put_tlv(&value, 0x16, "\x1b\x01\x00", 3);
	put_tlv(&value, 0x17, signature, sizeof(signature));
	put_tlv(&data, DATA, value.at, value.len);
	return data;
}

struct octets data_for(const char *uri, size_t content_octets)
{
	return data_fresh_for(uri, content_octets, 10000);
}

int socket_of(int type)
{
	int fd = socket(AF_NNET, type | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0, "a socket of AF_NNET");
	return fd;
}

int socket_new(void)
{
	return socket_of(SOCK_RAW);
}

struct sockaddr_nnet address_of(const char *uri)
{
	struct sockaddr_nnet address = { .snn_family = AF_NNET };
	struct octets name = name_of(uri);

	CHECK(name.len <= NNET_NAME_INLINE, "%s fits an address", uri);
	memcpy(address.snn_name, name.at, name.len);
	address.snn_namelen = name.len;
	return address;
}

int socket_bind(int fd, const char *prefix)
{
	struct sockaddr_nnet address = { .snn_family = AF_NNET };
	struct octets name = name_of(prefix);

	if (name.len > NNET_NAME_INLINE)
		return setsockopt(fd, SOL_NNET, NNET_PREFIX, name.at, name.len) ? -errno : 0;
	memcpy(address.snn_name, name.at, name.len);
	address.snn_namelen = name.len;
	return bind(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
}

void packet_send(int fd, const struct octets *packet)
{
	CHECK(send(fd, packet->at, packet->len, 0) == (ssize_t)packet->len, "a packet is sent");
}

struct octets packet_receive(int fd)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	struct octets packet;
	ssize_t len;

	CHECK(poll(&readable, 1, 10000) == 1, "a packet comes");
	len = recv(fd, packet.at, sizeof(packet.at), 0);
	CHECK(len > 0, "it is received");
	packet.len = len;
	return packet;
}

bool nothing_comes(int fd, int ms)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };

	return poll(&readable, 1, ms) == 0;
}

bool is_packet(const struct octets *packet, uint8_t type, const char *uri)
{
	struct octets name = name_of(uri), whole = { 0 };
	size_t head = packet->len > 1 && packet->at[1] == 253 ? 4 : 2;

	put_tlv(&whole, 7, name.at, name.len);
	return packet->len >= head + whole.len && packet->at[0] == type &&
	       !memcmp(packet->at + head, whole.at, whole.len);
}

bool is_same(const struct octets *one, const struct octets *other)
{
	return one->len == other->len && !memcmp(one->at, other->at, one->len);
}

uint64_t face_of(int fd)
{
	uint64_t face = 0;
	socklen_t len = sizeof(face);

	CHECK(!getsockopt(fd, SOL_NNET, NNET_FACE, &face, &len), "the face of a socket");
	return face;
}

void forwarder_serves(const char *prefix)
{
	int consumer = socket_new(), producer = socket_new();
	struct octets packet, got;
	char name[64], text[256];

	file_read("stop", text, sizeof(text));
	CHECK(!strncmp(text, "running", 7) || !strncmp(text, "unused", 6), "it runs: %s", text);
	CHECK(!route_add(prefix, NNET_FACE_LOCAL), "a route");
	CHECK(!socket_bind(producer, prefix), "bound");
	snprintf(name, sizeof(name), "%s/%ld", prefix, random());
	packet = interest_for(name);
	packet_send(consumer, &packet);
	got = packet_receive(producer);
	CHECK(is_same(&got, &packet), "an Interest arrives");
	packet = data_for(name, 100);
	packet_send(producer, &packet);
	got = packet_receive(consumer);
	CHECK(is_same(&got, &packet), "and its Data");
	close(consumer);
	close(producer);
	CHECK(!route_delete(prefix, NNET_FACE_LOCAL), "as before");
}

void file_read(const char *file, char *text, size_t room)
{
	char path[64];
	ssize_t len, all = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/thread-self/net/nnet/%s", file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0, "%s", path);
	while ((len = read(fd, text + all, room - 1 - all)) > 0)
		all += len;
	CHECK(len == 0, "reading %s", path);
	text[all] = 0;
	close(fd);
}

static bool counter_find(const char *file, const char *name, uint64_t *value)
{
	static char text[65536];
	size_t len = strlen(name);
	char *line;

	file_read(file, text, sizeof(text));
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strncmp(line, name, len) && line[len] == ' ') {
			*value = strtoull(line + len, NULL, 10);
			return true;
		}
	return false;
}

uint64_t counter(const char *file, const char *name)
{
	uint64_t value = 0;

	CHECK(counter_find(file, name, &value), "%s has no %s", file, name);
	return value;
}

uint64_t counter_if_any(const char *file, const char *name)
{
	uint64_t value = 0;

	counter_find(file, name, &value);
	return value;
}

static int by_value(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

double median_of(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return values[count / 2];
}

long memory_used_kib(void)
{
	char line[128];
	long total = 0, free = 0;
	FILE *file = fopen("/proc/meminfo", "r");

	CHECK(file != NULL, "/proc/meminfo");
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "MemTotal: %ld", &total);
		sscanf(line, "MemFree: %ld", &free);
	}
	fclose(file);
	return total - free;
}

void counters_tell(void)
{
	static const char *const files[] = { "stats", "drops", "cs", "faces" };
	static char text[1024];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[64];
		FILE *file;

		snprintf(path, sizeof(path), "/proc/thread-self/net/nnet/%s", files[i]);
		file = fopen(path, "r");
		while (file && fgets(text, sizeof(text), file))
			if (strcmp(strrchr(text, ' ') ? strrchr(text, ' ') : "", " 0\n"))
				printf("  %s: %s", files[i], text);
		if (file)
			fclose(file);
	}
}
