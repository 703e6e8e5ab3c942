/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the tests of a guest: each runs in a process and network namespaces of its own. */
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
/* So are the programs that print figures. */
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

/* Prints the counters of this namespace's forwarder. */
void counters_tell(void);
/* The value of a guest's parameter, such as calls=1000; `otherwise` if it is not set. */
unsigned long number_given(const char *name, unsigned long otherwise);

/* ---- namespaces and devices: nets.c ---- */

/* Creates and enters a network namespace. Returns a descriptor of it. */
int net_new(void);
void net_enter(int net);
/* Two namespaces joined by a veth pair; the device is called `link` in both. */
struct nets {
	int a, b;
};
struct nets nets_joined(void);
void link_set_up(const char *device, bool is_up);
/* Waits until the device's queue works, which is later than the kernel's first report. */
void link_wait(const char *device);
void link_wait_down(const char *device);
void link_set_mtu(const char *device, uint32_t mtu);
int link_delete(const char *device);
void link_rename(const char *device, const char *name);
void link_move(const char *device, int net);
/* Makes netem drop a percentage of the device's packets, and let others overtake delayed ones. */
void link_spoil(const char *device, unsigned lost_percent, unsigned reordered_percent, unsigned delay_us);
/* Limits the device's rate with a token bucket, in octets per second with headers. */
void link_limit(const char *device, uint64_t octets_per_second);
/* A pair as in nets_joined, between the namespace that is entered and another one. */
void link_join(int other);
extern const uint8_t address_a[6], address_b[6];

/* ---- a station that sends arbitrary frames: frames.c ---- */

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
/* A socket for events, and the face of the next event: 0 if none arrives in time. */
int events_listen(void);
enum nnet_cmd event_next(int fd, uint64_t *face);
/* To be called after the module was loaded anew: its family has another number. */
void netlink_forget(void);
/* If set, it is called before and after a request is sent. */
extern void (*around_request)(bool is_begin);
/* Returns the number of messages of a listing. */
int list_count(enum nnet_cmd command);
/* Returns true if a listing is empty soon: the entries of a face are swept in turns. */
bool list_empties(enum nnet_cmd command);
/* A face towards the other namespace, and a route by it. */
uint64_t route_to(const uint8_t *address, const char *prefix);

/* An external content store, behind netlink: control.c. Closing the socket ends it. */
int store_attach(int *fd);
/* Its next message, valid until the next call: a requested name, a Data to store, or an error. */
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
/* The same with a FreshnessPeriod; and an Interest with MustBeFresh. */
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
/* Returns true if a packet has this TYPE and this name. */
bool is_packet(const struct octets *packet, uint8_t type, const char *uri);
bool is_same(const struct octets *one, const struct octets *other);
uint64_t face_of(int fd);
/* Checks that a consumer and a producer of this namespace reach each other. */
void forwarder_serves(const char *prefix);
/* A number in a file of /proc/net/nnet. */
uint64_t counter(const char *file, const char *name);
/* 0 if it is not listed: a drop counter of a link is listed once it is not 0. */
uint64_t counter_if_any(const char *file, const char *name);
void file_read(const char *file, char *text, size_t room);
/* Memory of the machine that is not free. */
long memory_used_kib(void);
/* The median of an odd number of values, which it sorts. */
double median_of(double *values, size_t count);

enum { INTEREST = 5, DATA = 6, LP_PACKET = 100 };

#endif
