// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AF_NNET: the common part of the sockets, and SOCK_RAW, whose messages are packets: bare, or with
 * NDNLPv2 headers if they have any.
 */
#include <linux/module.h>
#include <linux/net.h>
#include <linux/sockios.h>
#include <linux/version.h>
#include <net/sock.h>
#include <asm/ioctls.h>
#include "sock.h"

static struct proto nnet_proto = {
	.name = "NNET",
	.owner = THIS_MODULE,
	.obj_size = sizeof(struct nnet_sock),
};

static int make_face(struct sock *sk, enum nnet_kind as)
{
	struct nnet_face *face = nnet_face_of_socket(nnet_of(sock_net(sk)), sk, as);

	if (IS_ERR(face))
		return PTR_ERR(face);
	WRITE_ONCE(nnet_sk(sk)->face, face);
	return 0;
}

int nnet_sock_need_face(struct sock *sk)
{
	return nnet_sk(sk)->face ? 0 : make_face(sk, NNET_KIND_SOCKET);
}

/* Called after a grace period: no packet is delivered to the socket any more. */
static void nnet_destruct(struct sock *sk)
{
	skb_queue_purge(&sk->sk_receive_queue);
	nnet_seq_destruct(sk);
}

static int nnet_release(struct socket *sock)
{
	struct sock *sk = sock->sk;
	struct nnet_face *face;

	if (!sk)
		return 0;
	lock_sock(sk);
	face = nnet_sk(sk)->face;
	WRITE_ONCE(nnet_sk(sk)->face, NULL);
	nnet_seq_release(sk);
	if (face) {
		mutex_lock(&face->nn->lock);
		nnet_face_del(face);
		mutex_unlock(&face->nn->lock);
	}
	sock_orphan(sk);
	sock->sk = NULL;
	release_sock(sk);
	sock_put(sk);
	return 0;
}

/* Returns true for a prefix of this machine's own management. */
static bool is_localhost(const u8 *name, u32 len)
{
	static const u8 component[] = "\x08\x09localhost";

	return len >= sizeof(component) - 1 && !memcmp(name, component, sizeof(component) - 1);
}

/* Sweeps of 128 bindings each for which a bind waits, if a closed socket may have its prefix. */
#define SWEEPS_MAX 64

/* Longer than the time between two sweeps, TABLES_TURN_NS of crates/forwarder. */
#define SWEEP_TURN_NS (20 * NSEC_PER_MSEC)

int nnet_sock_bind(struct sock *sk, const u8 *name, u32 len)
{
	struct nn_call call = { .op = NN_BIND, .name = name, .name_len = len };
	struct nnet *nn = nnet_of(sock_net(sk));
	bool is_left = true;
	int turn;
	s64 err;

	if (is_localhost(name, len) && !ns_capable(sock_net(sk)->user_ns, CAP_NET_ADMIN))
		return -EACCES;
	err = nnet_sock_need_face(sk);
	if (!err) {
		call.face = nnet_sk(sk)->face->id;
		err = nnet_ask_with_room(nn, NN_BINDINGS, &call);
	}
	for (turn = 0; err == -EADDRINUSE && is_left && turn < SWEEPS_MAX; turn++) {
		flush_delayed_work(&nn->work);
		/* The work sets due_ns at its end, and may have been started again since. */
		is_left = work_busy(&nn->work.work) & WORK_BUSY_RUNNING ||
			  READ_ONCE(nn->due_ns) <= ktime_get_ns() + SWEEP_TURN_NS;
		err = nnet_ask_with_room(nn, NN_BINDINGS, &call);
	}
	return err < 0 ? err : 0;
}

static int bind_prefix(struct sock *sk, const u8 *name, u32 len)
{
	int err;

	lock_sock(sk);
	err = nnet_sk(sk)->seq ? nnet_seq_bind(sk, name, len) : nnet_sock_bind(sk, name, len);
	release_sock(sk);
	return err;
}

int nnet_name_of_address(const struct sockaddr *address, int len, const u8 **name, u32 *name_len)
{
	const struct sockaddr_nnet *nnet = (const void *)address;
	const int fixed = offsetof(struct sockaddr_nnet, snn_name);

	if (len < fixed || nnet->snn_family != nnet_family || nnet->snn_reserved)
		return -EINVAL;
	if (nnet->snn_namelen > NNET_NAME_INLINE || len < fixed + nnet->snn_namelen)
		return -EINVAL;
	*name = nnet->snn_name;
	*name_len = nnet->snn_namelen;
	return 0;
}

static int nnet_bind(struct socket *sock, struct sockaddr *address, int len)
{
	const u8 *name;
	u32 name_len;
	int err = nnet_name_of_address(address, len, &name, &name_len);

	if (!err && ((const struct sockaddr_nnet *)address)->snn_kind)
		err = -EINVAL;
	return err ? err : bind_prefix(sock->sk, name, name_len);
}

static int unbind_prefix(struct sock *sk, const u8 *name, u32 len)
{
	struct nn_call call = { .op = NN_UNBIND, .name = name, .name_len = len };
	s64 err = -ENOENT;

	lock_sock(sk);
	if (nnet_sk(sk)->face) {
		call.face = nnet_sk(sk)->face->id;
		err = nnet_ask(nnet_of(sock_net(sk)), &call);
	}
	release_sock(sk);
	return err < 0 ? err : 0;
}

/* NNET_PREFIX, NNET_UNBIND and NNET_OPEN. */
static int set_name(struct sock *sk, int name, sockptr_t value, unsigned int len)
{
	u8 *octets;
	int err;

	if (len > NNET_PREFIX_MAX)
		return -EINVAL;
	octets = memdup_sockptr(value, len);
	if (IS_ERR(octets))
		return PTR_ERR(octets);
	if (name == NNET_PREFIX) {
		err = bind_prefix(sk, len ? octets : NULL, len);
	} else if (name == NNET_UNBIND) {
		err = unbind_prefix(sk, len ? octets : NULL, len);
	} else {
		lock_sock(sk);
		err = nnet_seq_open(sk, len ? octets : NULL, len);
		release_sock(sk);
	}
	kfree(octets);
	return err;
}

static int set_number(struct sock *sk, int name, sockptr_t value, unsigned int len)
{
	u32 number;

	if (len != sizeof(number))
		return -EINVAL;
	if (copy_from_sockptr(&number, value, sizeof(number)))
		return -EFAULT;
	if (name == NNET_SEGMENT_OCTETS)
		return nnet_seq_set_segment_octets(sk, number);
	if (number > 1)
		return -EINVAL;
	WRITE_ONCE(nnet_sk(sk)->tells_info, number);
	return 0;
}

/* NNET_REMOTE. */
static int set_remote(struct sock *sk, sockptr_t value, unsigned int len)
{
	u32 as;
	int err;

	if (len != sizeof(as))
		return -EINVAL;
	if (copy_from_sockptr(&as, value, sizeof(as)))
		return -EFAULT;
	if (as != NNET_KIND_STATION && as != NNET_KIND_GROUP)
		return -EINVAL;
	if (!ns_capable(sock_net(sk)->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	lock_sock(sk);
	err = nnet_sk(sk)->face ? -EISCONN : make_face(sk, as);
	release_sock(sk);
	return err;
}

static int nnet_setsockopt(struct socket *sock, int level, int name, sockptr_t value, unsigned int len)
{
	bool is_seq = nnet_sk(sock->sk)->seq;

	if (level != SOL_NNET)
		return -ENOPROTOOPT;
	if (name == NNET_PREFIX || name == (is_seq ? NNET_OPEN : NNET_UNBIND))
		return set_name(sock->sk, name, value, len);
	if (name == NNET_REMOTE && sock->type == SOCK_RAW)
		return set_remote(sock->sk, value, len);
	if ((name == NNET_INFO && sock->type != SOCK_RAW) || (name == NNET_SEGMENT_OCTETS && is_seq))
		return set_number(sock->sk, name, value, len);
	return -ENOPROTOOPT;
}

static int nnet_getsockopt(struct socket *sock, int level, int name, char __user *value, int __user *len)
{
	struct sock *sk = sock->sk;
	int room, size = name == NNET_FACE ? sizeof(u64) : sizeof(u32);
	u64 number;

	if (level != SOL_NNET || (name != NNET_FACE && !(name == NNET_NOT_ASKED && nnet_sk(sk)->seq)))
		return -ENOPROTOOPT;
	if (get_user(room, len))
		return -EFAULT;
	if (room < size)
		return -EINVAL;
	lock_sock(sk);
	if (name == NNET_FACE)
		number = nnet_sk(sk)->face ? nnet_sk(sk)->face->id : 0;
	else
		number = nnet_seq_not_asked(sk);
	release_sock(sk);
	if (put_user(size, len))
		return -EFAULT;
	if (name == NNET_FACE)
		return copy_to_user(value, &number, size) ? -EFAULT : 0;
	return put_user((u32)number, (u32 __user *)value);
}

/* ---- names and contents ---- */

int nnet_error_of_nack(u16 reason)
{
	return reason == 150 ? EHOSTUNREACH : ECONNREFUSED;	/* NoRoute */
}

static int message_of_control(struct cmsghdr *cmsg, struct nnet_message *message)
{
	const u32 len = cmsg->cmsg_len - sizeof(*cmsg);

	switch (cmsg->cmsg_type) {
	case NNET_INFO:
		if (len != sizeof(message->info))
			return -EINVAL;
		memcpy(&message->info, CMSG_DATA(cmsg), len);
		if (message->info.kind > NNET_PACKET_DATA || message->info.reason ||
		    message->info.flags & ~(NNET_CAN_BE_PREFIX | NNET_MUST_BE_FRESH))
			return -EINVAL;
		return 0;
	case NNET_NAME:
		if (len > NNET_PREFIX_MAX)
			return -EINVAL;
		message->name = CMSG_DATA(cmsg);
		message->name_len = len;
		return 0;
	case NNET_SIGNATURE:
		if (!len)
			return -EINVAL;
		message->signature = CMSG_DATA(cmsg);
		message->signature_len = len;
		return 0;
	default:
		return -EINVAL;
	}
}

int nnet_message_of(struct msghdr *msg, struct nnet_message *message)
{
	struct sockaddr_nnet *address = msg->msg_name;
	struct cmsghdr *cmsg;
	int err = 0;

	*message = (struct nnet_message){ .info.last_segment = NNET_NO_SEGMENT };
	if (msg->msg_namelen)
		err = nnet_name_of_address(msg->msg_name, msg->msg_namelen, &message->name, &message->name_len);
	for_each_cmsghdr(cmsg, msg) {
		if (err)
			break;
		if (!CMSG_OK(msg, cmsg))
			return -EINVAL;
		if (cmsg->cmsg_level == SOL_NNET)
			err = message_of_control(cmsg, message);
	}
	if (!err && msg->msg_namelen && address->snn_kind) {
		if (address->snn_kind > NNET_PACKET_DATA)
			return -EINVAL;
		message->info.kind = address->snn_kind;
	}
	return err;
}

struct sk_buff *nnet_sock_content(struct sock *sk, struct msghdr *msg, size_t len, const struct nnet_message *message)
{
	const size_t head = NNET_HEADROOM + NNET_DATA_HEAD_MAX + message->name_len;
	const size_t tail = NNET_DATA_TAIL_MAX + message->signature_len;
	struct sk_buff *skb;
	int err = -ENOBUFS;

	if (message->signature_len > NNET_NETWORK_PACKET_MAX)
		return ERR_PTR(-EMSGSIZE);
	if (len)
		skb = sock_alloc_send_skb(sk, head + len + tail, msg->msg_flags & MSG_DONTWAIT, &err);
	else	/* the end of an object does not wait for room */
		skb = sock_wmalloc(sk, head + tail, 1, GFP_KERNEL);
	if (!skb)
		return ERR_PTR(err);
	skb_reserve(skb, head);
	err = len ? memcpy_from_msg(skb_put(skb, len), msg, len) : 0;
	if (err) {
		kfree_skb(skb);
		return ERR_PTR(err);
	}
	return skb;
}

int nnet_sock_seal(struct sock *sk, struct sk_buff *skb, size_t len, const struct nnet_message *message, u64 segment)
{
	const u32 head = NNET_DATA_HEAD_MAX + message->name_len;
	struct nn_said said = {
		.segment = segment, .last_segment = message->info.last_segment, .time_ms = message->info.time_ms,
		.content_at = head, .content_len = len,
	};
	struct nn_call call = {
		.op = NN_DATA, .name = message->name, .name_len = message->name_len, .more = message->signature,
		.more_len = message->signature_len, .said = &said, .space = skb->data - head,
		.space_len = head + len + NNET_DATA_TAIL_MAX + message->signature_len,
	};
	s64 answer = nnet_ask(nnet_of(sock_net(sk)), &call);

	if (answer < 0) {
		kfree_skb(skb);
		return answer;
	}
	skb_push(skb, head - (u32)(answer >> 32));
	skb_put(skb, (u32)answer - head - len);
	return 0;
}

bool nnet_sock_read(struct nnet_face *face, struct sk_buff *skb)
{
	struct nn_call call = {
		.op = NN_SAID, .name = skb->data, .name_len = skb->len, .said = nnet_said_of(skb),
	};
	s64 err = nnet_ask(face->nn, &call);

	if (err >= 0)
		return true;
	nnet_count(face->nn, err == -EBADMSG ? NNET_BAD_DIGEST : NNET_UNREADABLE);
	kfree_skb(skb);
	return false;
}

static void give_name(struct sk_buff *skb, struct msghdr *msg)
{
	const struct nn_said *said = nnet_said_of(skb);
	struct sockaddr_nnet *address = msg->msg_name;

	if (!address)
		return;
	memset(address, 0, sizeof(*address));
	address->snn_family = nnet_family;
	address->snn_kind = said->kind;
	address->snn_namelen = said->name_len;
	memcpy(address->snn_name, skb->data + said->name_at, min_t(u32, said->name_len, NNET_NAME_INLINE));
	msg->msg_namelen = sizeof(*address);
}

static void give_info(struct sk_buff *skb, struct msghdr *msg)
{
	const struct nn_said *said = nnet_said_of(skb);
	struct nnet_info info = {
		.kind = said->kind, .flags = said->flags, .reason = said->reason, .time_ms = said->time_ms,
		.last_segment = said->last_segment,
	};

	put_cmsg(msg, SOL_NNET, NNET_INFO, sizeof(info), &info);
	put_cmsg(msg, SOL_NNET, NNET_NAME, said->name_len, skb->data + said->name_at);
	if (said->signature_len)
		put_cmsg(msg, SOL_NNET, NNET_SIGNATURE, said->signature_len, skb->data + said->signature_at);
}

int nnet_sock_give(struct sock *sk, struct sk_buff *skb, struct msghdr *msg, size_t size, int flags)
{
	const struct nn_said *said = nnet_said_of(skb);
	size_t copied = min_t(size_t, size, said->content_len);
	int err = skb_copy_datagram_msg(skb, said->content_at, msg, copied);

	if (err)
		return err;
	if (copied < said->content_len)
		msg->msg_flags |= MSG_TRUNC;
	sock_recv_cmsgs(msg, sk, skb);
	give_name(skb, msg);
	if (READ_ONCE(nnet_sk(sk)->tells_info))
		give_info(skb, msg);
	return (flags & MSG_TRUNC) ? said->content_len : copied;
}

void nnet_sock_queue(struct nnet_face *face, struct sk_buff *skb)
{
	if (__sock_queue_rcv_skb(face->sk, skb)) {
		nnet_count(face->nn, NNET_SOCKET_FULL);
		kfree_skb(skb);
	}
}

void nnet_sock_deliver(struct nnet_face *face, struct sk_buff *skb)
{
	switch (face->sk->sk_type) {
	case SOCK_DGRAM:
		return nnet_dgram_deliver(face, skb);
	case SOCK_SEQPACKET:
		return nnet_seq_deliver(face, skb);
	default:
		if (sock_queue_rcv_skb(face->sk, skb)) {
			nnet_count(face->nn, NNET_SOCKET_FULL);
			kfree_skb(skb);
		}
	}
}

/* ---- SOCK_RAW ---- */

static int nnet_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	const size_t room = NNET_HEADROOM;
	unsigned long start = jiffies;
	struct sock *sk = sock->sk;
	struct sk_buff *skb;
	int err;

	if (msg->msg_flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_BATCH | MSG_CMSG_COMPAT))
		return -EOPNOTSUPP;
	if (msg->msg_namelen)
		return -EISCONN;
	if (!len)
		return -EINVAL;
	if (len > NNET_PACKET_MAX)
		return -EMSGSIZE;
	skb = sock_alloc_send_skb(sk, room + len, msg->msg_flags & MSG_DONTWAIT, &err);
	if (!skb)
		return err;
	skb_reserve(skb, room);
	err = memcpy_from_msg(skb_put(skb, len), msg, len);
	if (err) {
		kfree_skb(skb);
		return err;
	}
	lock_sock(sk);
	err = nnet_sock_need_face(sk);
	if (err)
		kfree_skb(skb);
	else
		err = nnet_send(nnet_sk(sk)->face, skb);
	release_sock(sk);
	nnet_sock_pause(start);
	return err ? err : len;
}

static int nnet_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	struct sk_buff *skb;
	size_t copied;
	int err;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	skb = skb_recv_datagram(sock->sk, flags, &err);
	if (!skb)
		return err;
	copied = skb->len;
	if (copied > size) {
		copied = size;
		msg->msg_flags |= MSG_TRUNC;
	}
	err = skb_copy_datagram_msg(skb, 0, msg, copied);
	if (!err) {
		sock_recv_cmsgs(msg, sock->sk, skb);
		err = (flags & MSG_TRUNC) ? skb->len : copied;
	}
	skb_free_datagram(sock->sk, skb);
	return err;
}

static int nnet_ioctl(struct socket *sock, unsigned int command, unsigned long argument)
{
	struct sock *sk = sock->sk;
	struct sk_buff *skb;
	int octets = 0;

	switch (command) {
	case SIOCINQ:
		spin_lock_bh(&sk->sk_receive_queue.lock);
		skb = skb_peek(&sk->sk_receive_queue);
		if (skb)
			octets = sock->type == SOCK_RAW ? skb->len : nnet_said_of(skb)->content_len;
		spin_unlock_bh(&sk->sk_receive_queue.lock);
		break;
	case SIOCOUTQ:
		octets = sk_wmem_alloc_get(sk);
		break;
	default:
		return -ENOIOCTLCMD;
	}
	return put_user(octets, (int __user *)argument);
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define NO_SENDPAGE .sendpage = sock_no_sendpage,
#else
#define NO_SENDPAGE
#endif

#define OPERATIONS(name) \
	static struct proto_ops name = { \
		.owner = THIS_MODULE, \
		.release = nnet_release, \
		.bind = nnet_bind, \
		.socketpair = sock_no_socketpair, \
		.accept = sock_no_accept, \
		.getname = sock_no_getname, \
		.ioctl = nnet_ioctl, \
		.gettstamp = sock_gettstamp, \
		.listen = sock_no_listen, \
		.setsockopt = nnet_setsockopt, \
		.getsockopt = nnet_getsockopt, \
		.mmap = sock_no_mmap, \
		NO_SENDPAGE

OPERATIONS(nnet_raw_ops)
	.connect = sock_no_connect,
	.shutdown = sock_no_shutdown,
	.poll = datagram_poll,
	.sendmsg = nnet_sendmsg,
	.recvmsg = nnet_recvmsg,
};

OPERATIONS(nnet_dgram_ops)
	.connect = sock_no_connect,
	.shutdown = sock_no_shutdown,
	.poll = datagram_poll,
	.sendmsg = nnet_dgram_sendmsg,
	.recvmsg = nnet_dgram_recvmsg,
};

OPERATIONS(nnet_seq_ops)
	.connect = nnet_seq_connect,
	.shutdown = nnet_seq_shutdown,
	.poll = nnet_seq_poll,
	.sendmsg = nnet_seq_sendmsg,
	.recvmsg = nnet_seq_recvmsg,
};

static const struct proto_ops *ops_of(int type)
{
	switch (type) {
	case SOCK_RAW:
		return &nnet_raw_ops;
	case SOCK_DGRAM:
		return &nnet_dgram_ops;
	case SOCK_SEQPACKET:
		return &nnet_seq_ops;
	default:
		return NULL;
	}
}

static int nnet_create(struct net *net, struct socket *sock, int protocol, int kern)
{
	struct sock *sk;
	int err = 0;

	if (protocol)
		return -EPROTONOSUPPORT;
	if (!ops_of(sock->type))
		return -ESOCKTNOSUPPORT;
	sk = sk_alloc(net, nnet_family, GFP_KERNEL, &nnet_proto, kern);
	if (!sk)
		return -ENOMEM;
	sock->ops = ops_of(sock->type);
	sock->state = SS_UNCONNECTED;
	sock_init_data(sock, sk);
	sock_set_flag(sk, SOCK_RCU_FREE);	/* packets are delivered under RCU */
	sk->sk_destruct = nnet_destruct;
	if (sock->type == SOCK_SEQPACKET)
		err = nnet_seq_create(sk);
	if (err) {
		sock_orphan(sk);
		sock->sk = NULL;
		sock_put(sk);
	}
	return err;
}

static struct net_proto_family nnet_proto_family = {
	.create = nnet_create,
	.owner = THIS_MODULE,
};

int nnet_sock_init(void)
{
	int err = proto_register(&nnet_proto, 0);

	if (err)
		return err;
	nnet_proto_family.family = nnet_family;
	nnet_raw_ops.family = nnet_family;
	nnet_dgram_ops.family = nnet_family;
	nnet_seq_ops.family = nnet_family;
	err = sock_register(&nnet_proto_family);
	if (err)
		proto_unregister(&nnet_proto);
	return err;
}

void nnet_sock_exit(void)
{
	sock_unregister(nnet_family);
	proto_unregister(&nnet_proto);
}
