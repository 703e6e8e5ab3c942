// SPDX-License-Identifier: GPL-2.0 OR MIT
/* SOCK_DGRAM: names and contents. An Interest is a name, a Data a name and a content. */
#include <linux/module.h>
#include "sock.h"

void nnet_dgram_deliver(struct nnet_face *face, struct sk_buff *skb)
{
	struct sock *sk = face->sk;

	if (!nnet_sock_read(face, skb))
		return;
	if (nnet_said_of(skb)->kind == NNET_PACKET_NACK && !READ_ONCE(nnet_sk(sk)->tells_info)) {
		WRITE_ONCE(sk->sk_err, nnet_error_of_nack(nnet_said_of(skb)->reason));
		sk_error_report(sk);
		consume_skb(skb);
		return;
	}
	nnet_sock_queue(face, skb);
}

/* The lock of the socket is held, and it has a face. */
static int send_interest(struct sock *sk, const struct nnet_message *message)
{
	struct nn_said said = {
		.segment = NNET_NO_SEGMENT, .last_segment = NNET_NO_SEGMENT, .flags = message->info.flags,
		.time_ms = message->info.time_ms ?: 4000,
	};
	struct nn_call call = {
		.op = NN_INTEREST, .name = message->name, .name_len = message->name_len, .said = &said,
		.value = get_random_u32(),
	};
	s64 err = nnet_ask(nnet_of(sock_net(sk)), &call);

	return err < 0 ? err : nnet_send(nnet_sk(sk)->face, call.skb);
}

int nnet_dgram_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	unsigned long start = jiffies;
	struct sock *sk = sock->sk;
	struct nnet_message message;
	struct sk_buff *skb = NULL;
	bool is_interest;
	int err;

	if (msg->msg_flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CMSG_COMPAT))
		return -EOPNOTSUPP;
	err = nnet_message_of(msg, &message);
	if (err)
		return err;
	if (!message.name_len)
		return -EDESTADDRREQ;
	is_interest = message.info.kind ? message.info.kind == NNET_PACKET_INTEREST : !len;
	if (is_interest && (len || message.signature || message.info.last_segment != NNET_NO_SEGMENT))
		return -EINVAL;
	if (!is_interest && message.info.flags)
		return -EINVAL;
	if (len > NNET_NETWORK_PACKET_MAX)
		return -EMSGSIZE;
	if (!is_interest) {
		skb = nnet_sock_content(sk, msg, len, &message);
		if (IS_ERR(skb))
			return PTR_ERR(skb);
	}
	lock_sock(sk);
	err = nnet_sock_need_face(sk);
	if (err) {
		kfree_skb(skb);
	} else if (is_interest) {
		err = send_interest(sk, &message);
	} else {
		err = nnet_sock_seal(sk, skb, len, &message, NNET_NO_SEGMENT);
		if (!err)
			err = nnet_send(nnet_sk(sk)->face, skb);
	}
	release_sock(sk);
	nnet_sock_pause(start);
	return err ? err : len;
}

int nnet_dgram_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	struct sk_buff *skb;
	int err;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	skb = skb_recv_datagram(sock->sk, flags, &err);
	if (!skb)
		return err;
	err = nnet_sock_give(sock->sk, skb, msg, size, flags);
	skb_free_datagram(sock->sk, skb);
	return err;
}
