/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Shared by the files of AF_NNET: sock.c, sock_dgram.c, sock_seq.c. */
#ifndef NNET_SOCK_H
#define NNET_SOCK_H

#include <linux/jiffies.h>
#include <linux/net.h>
#include <linux/sched.h>
#include <net/sock.h>
#include "nnet.h"

struct nnet_seq;

struct nnet_sock {
	struct sock sk;			/* first */
	struct nnet_face *face;		/* from the first send or bind on; under the socket's lock */
	struct nnet_seq *seq;		/* of a SOCK_SEQPACKET socket, from the beginning */
	bool tells_info;		/* recvmsg gives control messages */
};

static inline struct nnet_sock *nnet_sk(struct sock *sk)
{
	return (struct nnet_sock *)sk;
}

/* The fields of a message beside its content. The octets belong to a struct msghdr. */
struct nnet_message {
	const u8 *name, *signature;
	u32 name_len, signature_len;
	struct nnet_info info;
};

/* Maximum octets of a Data before and after its content, without its name and a given signature.
 * Their sum is PlacedData::OVERHEAD_OCTETS_MAX of crates/wire. */
#define NNET_DATA_HEAD_MAX 96
#define NNET_DATA_TAIL_MAX 48

/* The fields of a packet, which are stored in it while it waits in a socket. */
static inline struct nn_said *nnet_said_of(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct nn_said) > sizeof(skb->cb) - sizeof(struct sock_skb_cb));
	return (struct nn_said *)skb->cb;
}

/* ---- sock.c ---- */

/*
 * Called at the end of a call that may send and began at `start`, jiffies. A tick with bottom
 * halves off is no quiescent state for RCU, and in a task that only sends they are off most of the
 * time. So grace periods, and with them the removal of devices, took four times as long. Therefore
 * other tasks may run once per tick, which is a quiescent state.
 */
static inline void nnet_sock_pause(unsigned long start)
{
	if (unlikely(jiffies != start))
		schedule();
}

/* Makes the face for the first packet or prefix; the socket's lock is held. */
int nnet_sock_need_face(struct sock *sk);
/* Binds the socket's face to a prefix; the socket's lock is held. */
int nnet_sock_bind(struct sock *sk, const u8 *name, u32 len);
/* Sets `name` to the name inside an address. */
int nnet_name_of_address(const struct sockaddr *address, int len, const u8 **name, u32 *name_len);
/* Reads the fields of a message from its address and control messages. */
int nnet_message_of(struct msghdr *msg, struct nnet_message *message);
/* Reads a packet's fields into its nn_said. Frees and counts an invalid one, and returns false. */
bool nnet_sock_read(struct nnet_face *face, struct sk_buff *skb);
/* Queues a packet for the receiver. If the queue is full, frees and counts the packet. */
void nnet_sock_queue(struct nnet_face *face, struct sk_buff *skb);
/* Copies content, name and the requested control messages of a packet to the caller of recvmsg.
 * Returns the length. */
int nnet_sock_give(struct sock *sk, struct sk_buff *skb, struct msghdr *msg, size_t size, int flags);
/* Copies a program's content into a buffer, with room around it for a Data of that name. */
struct sk_buff *nnet_sock_content(struct sock *sk, struct msghdr *msg, size_t len, const struct nnet_message *message);
/* Makes the Data around the content. Frees the buffer if that fails. */
int nnet_sock_seal(struct sock *sk, struct sk_buff *skb, size_t len, const struct nnet_message *message, u64 segment);
/* The errno that a program gets for a Nack. */
int nnet_error_of_nack(u16 reason);

/* ---- sock_dgram.c ---- */

void nnet_dgram_deliver(struct nnet_face *face, struct sk_buff *skb);
int nnet_dgram_sendmsg(struct socket *sock, struct msghdr *msg, size_t len);
int nnet_dgram_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags);

/* ---- sock_seq.c ---- */

int nnet_seq_create(struct sock *sk);
/* The socket is closed; its lock is held. */
void nnet_seq_release(struct sock *sk);
/* The last reference is gone. */
void nnet_seq_destruct(struct sock *sk);
void nnet_seq_deliver(struct nnet_face *face, struct sk_buff *skb);
int nnet_seq_bind(struct sock *sk, const u8 *name, u32 len);
int nnet_seq_open(struct sock *sk, const u8 *name, u32 len);
int nnet_seq_connect(struct socket *sock, struct sockaddr *address, int len, int flags);
int nnet_seq_shutdown(struct socket *sock, int how);
int nnet_seq_sendmsg(struct socket *sock, struct msghdr *msg, size_t len);
int nnet_seq_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags);
__poll_t nnet_seq_poll(struct file *file, struct socket *sock, struct poll_table_struct *wait);
int nnet_seq_set_segment_octets(struct sock *sk, u32 octets);
u32 nnet_seq_not_asked(struct sock *sk);

#endif
