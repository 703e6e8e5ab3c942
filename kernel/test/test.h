/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests of a guest share: each runs in a process and network namespaces of its own. */
#ifndef TEST_H
#define TEST_H

#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../module/uapi/nnet.h"

#define AF_NNET AF_NNET_DEFAULT

/* A test is a function of this form, and a row of the table in main.c. */
#define TEST(name) void name(void)
/* So is what prints figures. */
#define FIGURE(name) void name(void)

/* Ends the test unless the condition holds. */
#define CHECK(condition, ...) \
	do { \
		if (!(condition)) { \
			printf("  %s:%d: %s (errno %s): ", __FILE__, __LINE__, #condition, strerror(errno)); \
			printf(__VA_ARGS__); \
			printf("\n"); \
			counters_tell(); \
			fflush(stdout); \
			_exit(1); \
		} \
	} while (0)

/* Says what this namespace's forwarder has counted. */
void counters_tell(void);
/* What the guest was started with, as in calls=1000; else `otherwise`. */
unsigned long number_given(const char *name, unsigned long otherwise);

/* ---- namespaces and devices: nets.c ---- */

/* A new network namespace, which is entered; a descriptor of it. */
int net_new(void);
void net_enter(int net);
/* Two namespaces joined by a veth pair; the device is called `link` in both. */
struct nets {
	int a, b;
};
struct nets nets_joined(void);
void link_set_up(const char *device, bool is_up);
/* Until the kernel has put its queue to work, which it does later than what it says first. */
void link_wait(const char *device);
void link_wait_down(const char *device);
void link_set_mtu(const char *device, uint32_t mtu);
int link_delete(const char *device);
void link_rename(const char *device, const char *name);
void link_move(const char *device, int net);
/* By netem: of what the device sends, so many percent are lost, and some overtake the delayed. */
void link_spoil(const char *device, unsigned lost_percent, unsigned reordered_percent, unsigned delay_us);
/* By a token bucket: so many octets a second of what the device sends, with headers. */
void link_limit(const char *device, uint64_t octets_per_second);
/* A pair as in nets_joined, between the namespace that is entered and another one. */
void link_join(int other);
extern const uint8_t address_a[6], address_b[6];

/* ---- a station that sends what it likes: frames.c ---- */

/* A packet socket on `link`, and frames through it, from one address to another. */
int station_new(void);
void station_send(int station, const uint8_t *to, const uint8_t *from, const void *octets, size_t len);

/* ---- generic netlink: control.c. Negative: -errno ---- */

long face_add(const char *device, const uint8_t *address);
int face_delete(uint64_t face);
int route_add(const char *prefix, uint64_t face);
int route_delete(const char *prefix, uint64_t face);
int strategy_set(const char *prefix, const char *strategy);
int cs_set(uint64_t packets_max);
long cs_erase(const char *prefix);
int plant_panic(uint64_t how);
uint16_t netlink_family(void);
/* A socket that hears events; and the next one, whose face it has: 0 if none comes in time. */
int events_listen(void);
enum nnet_cmd event_next(int fd, uint64_t *face);
/* The module was loaded anew: its family has another number. */
void netlink_forget(void);
/* If set, it is called before and after a request is sent. */
extern void (*around_request)(bool is_begin);
/* How many messages a listing has, and octets of the first name in it. */
int list_count(enum nnet_cmd command);
/* Whether it is empty soon: what a face leaves in tables is swept in turns. */
bool list_empties(enum nnet_cmd command);
/* A face towards the other namespace, and a route by it. */
uint64_t route_to(const uint8_t *address, const char *prefix);

/* A content store outside, behind netlink: control.c. The socket whose closing ends it. */
int store_attach(int *fd);
/* What it is told, until the next call: a name it is asked for, a Data it is given, or an error. */
struct store_told {
	uint8_t command;
	int error;
	uint64_t read;
	const uint8_t *octets;
	size_t len;
};
struct store_told store_next(int fd);
void store_found(int fd, uint64_t read, const void *data, size_t len);
void store_absent(int fd, uint64_t read);

/* ---- packets and sockets: packets.c ---- */

struct octets {
	size_t len;
	uint8_t at[NNET_PACKET_MAX];
};
/* The VALUE of a name that is written as /a/b/c. */
struct octets name_of(const char *uri);
struct octets interest_for(const char *uri);
struct octets interest_with(const char *uri, int hop_limit, bool can_be_prefix, uint32_t lifetime_ms);
struct octets data_for(const char *uri, size_t content_octets);
/* The same that is fresh for so long; and an Interest that takes fresh Data alone. */
struct octets data_fresh_for(const char *uri, size_t content_octets, uint16_t ms);
struct octets interest_for_fresh(const char *uri);

int socket_new(void);
int socket_of(int type);
struct sockaddr_nnet address_of(const char *uri);
int socket_bind(int fd, const char *prefix);
void packet_send(int fd, const struct octets *packet);
/* The next packet; ends the test if none comes within two seconds. */
struct octets packet_receive(int fd);
bool nothing_comes(int fd, int ms);
/* Whether a packet is of this TYPE and has this name. */
bool is_packet(const struct octets *packet, uint8_t type, const char *uri);
bool is_same(const struct octets *one, const struct octets *other);
uint64_t face_of(int fd);
/* That a consumer and a producer of this namespace reach each other: nothing has stopped. */
void forwarder_serves(const char *prefix);
/* A number in a file of /proc/net/nnet. */
uint64_t counter(const char *file, const char *name);
/* 0 where it is not told, as what links drop is not before the first. */
uint64_t counter_if_any(const char *file, const char *name);
void file_read(const char *file, char *text, size_t room);
/* Memory of the machine that is not free. */
long memory_used_kib(void);
/* Of an odd number of values, which are sorted by it. */
double median_of(double *values, size_t count);

enum { INTEREST = 5, DATA = 6, LP_PACKET = 100 };

#endif
