/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT OR Apache-2.0 */
/*
 * The interface of the kernel's forwarder for programs: the socket family and generic netlink.
 *
 * Names are the VALUE of a Name TLV: its components one after the other, each with TYPE and LENGTH.
 * Numbers are only added, never given another meaning; NNET_VERSION grows with each addition.
 */
#ifndef _UAPI_NNET_H
#define _UAPI_NNET_H

#include <linux/types.h>

#define NNET_VERSION 3

/* The EtherType of named data. */
#define ETH_P_NDN 0x8624

/* The number of the family, unless the module's parameter `family` sets another one. */
#define AF_NNET_DEFAULT 18

/* ---- sockets ---- */

/* Octets of a name that fit an address. */
#define NNET_NAME_INLINE 120

struct sockaddr_nnet {
	__u16 snn_family;
	__u16 snn_namelen;	/* of the whole name; snn_name has the beginning of a longer one */
	__u16 snn_kind;		/* enum nnet_packet with sendto and recvfrom; else 0 */
	__u16 snn_reserved;	/* 0 */
	__u8 snn_name[NNET_NAME_INLINE];
};

#define SOL_NNET 290
#define NNET_PREFIX 1	/* setsockopt: bind to a prefix that does not fit an address; a name */
#define NNET_FACE 2	/* getsockopt: the face of the socket, __u64; 0 before its first packet */
#define NNET_UNBIND 16	/* setsockopt: undo the binding of a prefix; a name */
/*
 * setsockopt of a SOCK_RAW socket that has no face yet, __u32: makes a face that represents other
 * machines: NNET_KIND_STATION one, NNET_KIND_GROUP several. Packets of /localhost do not pass it.
 * For routers that carry packets over links of their own; requires CAP_NET_ADMIN.
 */
#define NNET_REMOTE 17

/*
 * SOCK_DGRAM: a message is a name and a content. Without content sendto sends an Interest, with
 * content a Data; a kind in snn_kind overrides this rule.
 *
 * SOCK_SEQPACKET: connect opens an object, and recv returns its segments in order. bind and then
 * send offer an object.
 */
enum nnet_packet {
	NNET_PACKET_ANY,
	NNET_PACKET_INTEREST,
	NNET_PACKET_DATA,
	NNET_PACKET_NACK,	/* received, with NNET_INFO set; else Nacks are errors of the socket */
};

/* Control messages of level SOL_NNET; NNET_INFO is an option as well. */
#define NNET_INFO 3		/* struct nnet_info. setsockopt, int: recvmsg gives these three */
#define NNET_NAME 4		/* a name of any length, instead of that of the address */
#define NNET_SIGNATURE 5	/* SignatureInfo and SignatureValue, with TYPE and LENGTH each */

/* Options of SOCK_SEQPACKET. */
#define NNET_OPEN 6		/* setsockopt: connect to a name that does not fit an address */
#define NNET_SEGMENT_OCTETS 7	/* setsockopt, __u32: content of each segment made from now on */
#define NNET_NOT_ASKED 8	/* getsockopt, __u32: segments not requested yet */

#define NNET_CAN_BE_PREFIX 1	/* Interest */
#define NNET_MUST_BE_FRESH 2	/* Interest */
#define NNET_MARKED 4		/* received: congestion on the way */
#define NNET_DENIED 8		/* received Data: ContentType Nack */

#define NNET_NO_SEGMENT 0xffffffffffffffffull

struct nnet_info {
	__u8 kind;		/* enum nnet_packet */
	__u8 flags;
	__u16 reason;		/* NackReason */
	__u32 time_ms;		/* InterestLifetime (0: 4,000) or FreshnessPeriod */
	__u64 last_segment;	/* the segment number in FinalBlockId, or NNET_NO_SEGMENT */
};

/* Octets of a segment's content: the default, which fits a frame, and the maximum. */
#define NNET_SEGMENT_OCTETS_DEFAULT 1200
#define NNET_SEGMENT_OCTETS_MAX 8000

/* Octets of the longest Interest or Data of SOCK_DGRAM and SOCK_SEQPACKET. */
#define NNET_NETWORK_PACKET_MAX 8800

/* Octets of the longest prefix that NNET_PREFIX takes. */
#define NNET_PREFIX_MAX 8192

/* Octets of the longest packet of a SOCK_RAW socket, NDNLPv2 headers included. */
#define NNET_PACKET_MAX 9312

/* ---- generic netlink ---- */

#define NNET_GENL_NAME "nnet"

/* The group of events: faces of devices (FACE_NEW, FACE_DEL), and STOPPED. */
#define NNET_GENL_EVENTS "events"

enum nnet_cmd {
	NNET_CMD_UNSPEC,
	NNET_CMD_FACE_NEW,	/* IFINDEX, and ADDRESS of a station or group; answers FACE */
	NNET_CMD_FACE_DEL,	/* FACE */
	NNET_CMD_FACE_GET,	/* dump: FACE, KIND, IFINDEX, ADDRESS, IN, OUT */
	NNET_CMD_ROUTE_NEW,	/* NAME, FACE, and COST */
	NNET_CMD_ROUTE_DEL,	/* NAME, FACE */
	NNET_CMD_ROUTE_GET,	/* dump: NAME, FACE, COST */
	NNET_CMD_STRATEGY_NEW,	/* NAME, STRATEGY */
	NNET_CMD_STRATEGY_DEL,	/* NAME */
	NNET_CMD_STRATEGY_GET,	/* dump: NAME, STRATEGY */
	NNET_CMD_BINDING_GET,	/* dump: NAME, FACE */
	NNET_CMD_CS_SET,	/* COUNT: Data that the content store may hold */
	NNET_CMD_CS_ERASE,	/* NAME, and COUNT: at most so many; answers COUNT */
	NNET_CMD_PANIC,		/* COUNT: how. Only if the module was loaded with planted=1 */
	NNET_CMD_STOPPED,	/* event alone: the forwarder has stopped; WHY */
	/* An external content store: the socket that sent ATTACH, until it is closed. */
	NNET_CMD_STORE_ATTACH = 40,
	NNET_CMD_STORE_READ,	/* to the store: READ, FLAGS, NAME. Answered by one of the next two */
	NNET_CMD_STORE_FOUND,	/* READ, DATA, and FRESH_MS: for how long it is fresh */
	NNET_CMD_STORE_ABSENT,	/* READ */
	NNET_CMD_STORE_WRITE,	/* to the store: DATA that leaves the memory, FRESH_MS */
	__NNET_CMD_MAX,
};
#define NNET_CMD_MAX (__NNET_CMD_MAX - 1)

enum nnet_attr {
	NNET_A_UNSPEC,
	NNET_A_PAD,
	NNET_A_FACE,		/* u64 */
	NNET_A_KIND,		/* u32, enum nnet_kind */
	NNET_A_IFINDEX,		/* u32 */
	NNET_A_ADDRESS,		/* 6 octets */
	NNET_A_NAME,		/* octets */
	NNET_A_STRATEGY,	/* octets */
	NNET_A_COST,		/* u64 */
	NNET_A_COUNT,		/* u64 */
	NNET_A_IN,		/* u64, packets or frames */
	NNET_A_OUT,		/* u64 */
	NNET_A_WHY,		/* text */
	NNET_A_READ = 40,	/* u64: the number of a request to a store */
	NNET_A_DATA,		/* octets: one Data TLV */
	NNET_A_FRESH_MS,	/* u64 */
	NNET_A_FLAGS,		/* u32: NNET_STORE_... */
	__NNET_A_MAX,
};
#define NNET_A_MAX (__NNET_A_MAX - 1)

/* FLAGS of a request to a store: Data with a longer name matches; stale Data does not. */
#define NNET_STORE_CAN_BE_PREFIX 1
#define NNET_STORE_MUST_BE_FRESH 2

/* Maximum number of requests to a store that wait for an answer. */
#define NNET_STORE_READS_MAX 256

/* The face that leads from routes to bound sockets. */
#define NNET_FACE_LOCAL 1

enum nnet_kind {
	NNET_KIND_SOCKET,
	NNET_KIND_STATION,
	NNET_KIND_GROUP,
};

#endif
