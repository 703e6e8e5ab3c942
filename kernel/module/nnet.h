/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Shared by the files of the module, and the door of the core (kernel/core/src/door.rs). */
#ifndef NNET_H
#define NNET_H

#include <linux/etherdevice.h>
#include <linux/hashtable.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/sock.h>
#include "uapi/nnet.h"
#include "leaving.h"

struct nnet;
struct seq_file;

/* ---- the core ---- */

struct nn_instance;	/* the forwarder of a network namespace */
struct nn_workspace;	/* the work memory of one processor */
struct nn_link;		/* the link service of a face */
struct nn_transfer;	/* the window of a SOCK_SEQPACKET socket */

enum nn_op {
	NN_MAKE, NN_FREE, NN_MAKE_WORKSPACE, NN_FREE_WORKSPACE, NN_MAKE_LINK, NN_FREE_LINK,
	NN_PACKETS, NN_EXPIRE, NN_FACE_REGISTER, NN_FACE_RELEASE, NN_ROUTE_ADD, NN_ROUTE_REMOVE,
	NN_BIND, NN_STRATEGY_SET, NN_STRATEGY_UNSET, NN_CS_LIMIT, NN_CS_ERASE, NN_ROWS,
	NN_LINK_ROWS, NN_LINK_TICK, NN_PANIC, NN_LINK_MTU,
	NN_CS_SHRINK, NN_WHOLE_NAME, NN_UNBIND,
	NN_SAID = 40, NN_INTEREST, NN_DATA, NN_TRANSFER_MAKE, NN_TRANSFER_FREE, NN_TRANSFER_NEXT,
	NN_TRANSFER_TELL,
	NN_MAKE_ROOM = 60,
	NN_STORE_ANSWERED = 80,
};

/* The tables of NN_ROWS. */
enum nn_table { NN_FIB, NN_STRATEGIES, NN_BINDINGS, NN_COUNTERS, NN_DROPS, NN_CS };
#define NN_ROWS_END U64_MAX

struct nn_limits {
	u32 faces, pit_entries, cs_packets, fib_entries, bindings, strategies;
	u64 cs_octets;
};

/* A frame or a packet; its reference passes to the core. */
struct nn_arrived {
	struct sk_buff *skb;
	struct nn_link *link;
	u64 face;
	u32 len;
	u8 from[ETH_ALEN];
};

/* The fields of a packet, read or to be written; `_at` are offsets in its octets. */
struct nn_said {
	u64 segment, last_segment;	/* or NNET_NO_SEGMENT */
	u32 time_ms;
	u16 name_at, name_len, prefix_len;	/* the prefix: without the segment number */
	u16 content_at, content_len, signature_at, signature_len, reason;
	u8 kind, flags;
};

/* Answers of NN_TRANSFER_NEXT: the Interest is in skb, the time in value. After NN_TRANSFER_TELL
 * the first missing segment is in value. */
enum nn_step {
	NN_STEP_ASK, NN_STEP_WAIT, NN_STEP_ENDED, NN_STEP_TIMED_OUT, NN_STEP_NO_ROUTE, NN_STEP_REFUSED,
};

struct nn_call {
	u32 op, count;
	struct nnet *home;
	struct nn_instance *instance;
	struct nn_workspace *workspace;
	struct nn_link *link;
	const struct nn_arrived *arrived;
	const struct nn_limits *limits;
	const u8 *name, *more;
	u32 name_len, more_len;
	u64 face, value, now_ns;
	s64 answer;
	struct nn_transfer *transfer;
	struct nn_said *said;
	u8 *space;
	struct sk_buff *skb;
	u32 space_len;
};

/* A header and a range of an sk_buff, which are sent after the door has closed. */
struct nn_emitted {
	struct sk_buff *skb;
	const u8 *header;
	u32 offset, len, header_len;
	s32 patch_at;
	u8 patch_value, within;
};

struct nn_row {
	const u8 *name, *more;
	u32 name_len, more_len;
	u64 face, value;
};

/* A request to an external store. */
struct nn_asked {
	const u8 *name;
	u64 ticket;
	u32 name_len;
	u8 can_be_prefix, must_be_fresh;
};

void nn_call(void *call);

/* ---- the guard: guard.S, unwind.S, shim.c ---- */

struct nk_guard {
	unsigned long sp;	/* guard.S writes it: first */
	struct nnet *nn;
	struct nk_guard *outer;
	struct task_struct *task;
	struct list_head calm;
};

/* 0 if fn(arg) returned, 1 if it panicked. */
int nk_guarded(void (*fn)(void *), void *arg, struct nk_guard *guard);
void nk_unwind(struct nk_guard *guard);

/* Passes the door with bottom halves off. -ESHUTDOWN: there is no instance, or it has stopped
 * before, and the call did not enter it. -EIO: the instance stopped in this call. */
int nnet_call(struct nnet *nn, struct nn_call *call);
/* The same for NN_MAKE... and NN_FREE..., from a task that may wait. */
int nnet_call_calm(struct nnet *nn, struct nn_call *call);
/* Makes a call. Returns its answer, or a negative errno. */
s64 nnet_ask(struct nnet *nn, struct nn_call *call);
/* The same for a call that enters its name in a table. The memory for the name is allocated before
 * the call, which may wait. The instance must exist. */
s64 nnet_ask_with_room(struct nnet *nn, enum nn_table table, struct nn_call *call);
/* Called before the first digest that the core requests, and after the last one. */
void nnet_hasher_init(void);
void nnet_hasher_exit(void);
/* Octets allocated by the core and not freed: 0 at the end, except those of stopped instances. */
long nnet_memory_octets(void);
void nnet_memory_show(struct seq_file *seq);

/* ---- a network namespace: main.c ---- */

enum nnet_count {
	NNET_LINEARIZED, NNET_HEAD_COPIED, NNET_FRAGMENT_COPIED, NNET_OCTET_PATCHED, NNET_SOCKET_FULL,
	NNET_DEVICE_REFUSED, NNET_DEVICE_DOWN, NNET_OUT_FULL, NNET_NO_FACE, NNET_NO_MEMORY, NNET_NO_NEIGHBOR,
	NNET_IN_SOFTIRQ, NNET_IN_TASK, NNET_DISPATCHED, NNET_DISPATCHER_FULL,
	NNET_UNREADABLE, NNET_BAD_DIGEST, NNET_NOT_ASKED_FOR, NNET_NO_SUCH_SEGMENT, NNET_COUNTS,
};
extern const char *const nnet_count_names[NNET_COUNTS];

/* Durations of passages of the door, by purpose: in powers of two of a microsecond. */
enum nnet_passage { NNET_FOR_PACKETS, NNET_FOR_TIME, NNET_FOR_LISTS, NNET_FOR_CONTROL, NNET_PASSAGES };
#define NNET_PASSAGE_TIMES 16

#define NNET_LOWER_BITS 8

struct nnet {
	struct net *net;
	struct mutex lock;		/* makes the instance, adds and removes faces */
	struct nn_instance *instance;	/* set once, under the lock */
	bool stopped;
	char why[160];			/* the reason of the stop */
	struct xarray faces;		/* by id; read under RCU */
	DECLARE_HASHTABLE(lower, NNET_LOWER_BITS);	/* by device and address; read under RCU */
	u64 due_ns;			/* the time at which the work runs */
	spinlock_t due_lock;		/* of changes of due_ns, with the timer */
	struct delayed_work work;
	atomic64_t counts[NNET_COUNTS];
	struct nnet_store __rcu *store;	/* changed under the lock */
	atomic64_t passages[NNET_PASSAGES][NNET_PASSAGE_TIMES];
	u64 longest_ns[NNET_PASSAGES];
	/* The receiver of rows while a table is listed; under the lock. */
	bool (*row)(void *into, const struct nn_row *row);
	void *row_into;
};

extern unsigned int nnet_id;
extern bool nnet_planted;

static inline struct nnet *nnet_of(const struct net *net)
{
	return net_generic(net, nnet_id);
}

static inline void nnet_count(struct nnet *nn, enum nnet_count what)
{
	atomic64_inc(&nn->counts[what]);
}

/* Makes the instance unless it exists. The lock is held. */
int nnet_need_instance(struct nnet *nn);
/* Lets the work run at due_ns at the latest. */
void nnet_due(struct nnet *nn, u64 due_ns);
/* Lists a table from *cursor on; the lock is not held. */
int nnet_rows(struct nnet *nn, enum nn_table table, u64 *cursor,
	      bool (*row)(void *into, const struct nn_row *row), void *into);

/* ---- faces: face.c ---- */

struct nnet_face {
	u64 id;
	struct nnet *nn;
	enum nnet_kind kind;
	u8 address[ETH_ALEN];
	struct net_device *dev;
	netdevice_tracker tracker;
	struct sock *sk;
	struct nn_link *link;
	struct hlist_node lower;
	struct rcu_head rcu;
	atomic64_t in, out;
};

struct nnet_cpu {
	struct nn_workspace *workspace;
	struct nnet_leaving leaving;	/* empty while no door is open */
	struct sk_buff_head out;
	struct sk_buff_head made;	/* by sockets during a delivery; as parcels */
	bool is_sending;
	struct nn_arrived arrived[64];
	u64 packets;			/* passed through the door by this processor */
};
extern struct nnet_cpu __percpu *nnet_cpus;

/* A face of a socket; the lock is not held. */
struct nnet_face *nnet_face_of_socket(struct nnet *nn, struct sock *sk, enum nnet_kind as);
/* A face of a device; RTNL is held, the lock is not. */
struct nnet_face *nnet_face_of_device(struct nnet *nn, struct net_device *dev, const u8 *address);
/* Removes a face; the lock is held, and RTNL for one of a device. Does not wait. */
void nnet_face_del(struct nnet_face *face);
/* Processes a packet of a socket in the sender's task. */
int nnet_send(struct nnet_face *face, struct sk_buff *skb);
/* Processes packets that a socket makes by itself, after the end of a delivery under way. */
void nnet_send_made(struct nnet_face *face, struct sk_buff_head *packets);
/* Room before a packet, in which headers are written without a copy. */
#define NNET_HEADROOM (LL_MAX_HEADER + 192)
/* Marks a buffer of which the tables keep the packet, but not the octets before it. */
void nnet_keep_payload_only(struct sk_buff *skb);
/* Ends the entries that are due, and sends the resulting packets; returns the next due time, ns. */
u64 nnet_expire(struct nnet *nn);

/* Makes a call from a task, and sends the resulting packets. */
int nnet_call_and_send(struct nnet *nn, struct nn_call *call);

/* ---- an external content store: store.c ---- */

/* Makes the process behind this netlink port the store; -EBUSY if there is one. */
int nnet_store_attach(struct nnet *nn, u32 portid);
/* The store's answer to read `id`; without data, the store has none. */
int nnet_store_answered(struct nnet *nn, u32 portid, u64 id, const u8 *data, u32 len, u64 fresh_ms);
/* Detaches the store; the lock is held. */
void nnet_store_detach(struct nnet *nn);
int nnet_store_init(void);
void nnet_store_exit(void);

/* ---- the dispatcher: dispatch.c ---- */

/* The state of a packet that waits for another processor, in its cb. */
struct nnet_parcel {
	struct nnet *nn;
	u64 face;
	u8 from[ETH_ALEN] __aligned(2);
};

static inline struct nnet_parcel *nnet_parcel_of(struct sk_buff *skb)
{
	return (struct nnet_parcel *)skb->cb;
}

/* Returns true if another processor got the packet or it was dropped; else the caller has it. */
bool nnet_dispatch(struct nnet_face *face, struct sk_buff *skb, const u8 *from);
/* Queues parcels for the worker of this processor; bottom halves are off. */
void nnet_dispatch_rest(struct sk_buff_head *parcels);
/* Processes a batch of them; face.c. */
void nnet_take_dispatched(struct sk_buff_head *parcels);
/* Waits until all parcels queued so far are processed. */
void nnet_dispatch_flush(void);
int nnet_dispatch_init(void);
void nnet_dispatch_exit(void);

int nnet_face_init(void);
void nnet_face_exit(void);
int nnet_cpus_init(void);
void nnet_cpus_exit(void);

/* ---- the rest ---- */

extern int nnet_family;
/* Delivers a packet to a socket, under RCU; sock.c. */
void nnet_sock_deliver(struct nnet_face *face, struct sk_buff *skb);
extern struct genl_family nnet_genl;
int nnet_sock_init(void);
void nnet_sock_exit(void);
/* Netlink events: a face of a device was added or removed; the forwarder has stopped. */
void nnet_tell_face(const struct nnet_face *face, enum nnet_cmd cmd);
void nnet_tell_stopped(struct nnet *nn);
int nnet_genl_init(void);
void nnet_genl_exit(void);
int nnet_proc_init(struct nnet *nn);
void nnet_proc_exit(struct nnet *nn);

#endif
