// SPDX-License-Identifier: GPL-2.0 OR MIT
/* AF_NNET. SOCK_RAW: packets, bare or with NDNLPv2's headers where there are some to tell. */
#include <linux/module.h>
#include <linux/net.h>
#include <linux/sockios.h>
#include <linux/version.h>
#include <net/sock.h>
#include <asm/ioctls.h>
#include "nnet.h"

struct nnet_sock {
	struct sock sk;			/* first */
	struct nnet_face *face;		/* from the first send or bind on; under the socket's lock */
};

static struct nnet_sock *nnet_sk(struct sock *sk)
{
	return (struct nnet_sock *)sk;
}

static struct proto nnet_proto = {
	.name = "NNET",
	.owner = THIS_MODULE,
	.obj_size = sizeof(struct nnet_sock),
};

/* What the first packet or prefix needs; the socket's lock is held. */
static int need_face(struct sock *sk)
{
	struct nnet_face *face;

	if (nnet_sk(sk)->face)
		return 0;
	face = nnet_face_of_socket(nnet_of(sock_net(sk)), sk);
	if (IS_ERR(face))
		return PTR_ERR(face);
	nnet_sk(sk)->face = face;
	return 0;
}

/* After a grace period: nobody delivers to it any more. */
static void nnet_destruct(struct sock *sk)
{
	skb_queue_purge(&sk->sk_receive_queue);
}

static int nnet_release(struct socket *sock)
{
	struct sock *sk = sock->sk;
	struct nnet_face *face;

	if (!sk)
		return 0;
	lock_sock(sk);
	face = nnet_sk(sk)->face;
	nnet_sk(sk)->face = NULL;
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

/* Prefixes of this machine's own management. */
static bool is_localhost(const u8 *name, u32 len)
{
	static const u8 component[] = "\x08\x09localhost";

	return len >= sizeof(component) - 1 && !memcmp(name, component, sizeof(component) - 1);
}

static int bind_prefix(struct sock *sk, const u8 *name, u32 len)
{
	struct nn_call call = { .op = NN_BIND, .name = name, .name_len = len };
	s64 err;

	if (is_localhost(name, len) && !ns_capable(sock_net(sk)->user_ns, CAP_NET_ADMIN))
		return -EACCES;
	lock_sock(sk);
	err = need_face(sk);
	if (!err) {
		call.face = nnet_sk(sk)->face->id;
		err = nnet_ask(nnet_of(sock_net(sk)), &call);
	}
	release_sock(sk);
	return err < 0 ? err : 0;
}

static int nnet_bind(struct socket *sock, struct sockaddr *address, int len)
{
	const struct sockaddr_nnet *nnet = (const void *)address;
	const int fixed = offsetof(struct sockaddr_nnet, snn_name);

	if (len < fixed || nnet->snn_family != nnet_family || nnet->snn_reserved)
		return -EINVAL;
	if (nnet->snn_namelen > NNET_NAME_INLINE || len < fixed + nnet->snn_namelen)
		return -EINVAL;
	return bind_prefix(sock->sk, nnet->snn_name, nnet->snn_namelen);
}

static int nnet_setsockopt(struct socket *sock, int level, int name, sockptr_t value, unsigned int len)
{
	u8 *prefix;
	int err;

	if (level != SOL_NNET || name != NNET_PREFIX)
		return -ENOPROTOOPT;
	if (len > NNET_PREFIX_MAX)
		return -EINVAL;
	prefix = memdup_sockptr(value, len);
	if (IS_ERR(prefix))
		return PTR_ERR(prefix);
	err = bind_prefix(sock->sk, len ? prefix : NULL, len);
	kfree(prefix);
	return err;
}

static int nnet_getsockopt(struct socket *sock, int level, int name, char __user *value, int __user *len)
{
	struct sock *sk = sock->sk;
	u64 face;
	int room;

	if (level != SOL_NNET || name != NNET_FACE)
		return -ENOPROTOOPT;
	if (get_user(room, len))
		return -EFAULT;
	if (room < (int)sizeof(face))
		return -EINVAL;
	lock_sock(sk);
	face = nnet_sk(sk)->face ? nnet_sk(sk)->face->id : 0;
	release_sock(sk);
	if (put_user((int)sizeof(face), len) || copy_to_user(value, &face, sizeof(face)))
		return -EFAULT;
	return 0;
}

static int nnet_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	/* Headers go before a packet without a copy. */
	const size_t room = LL_MAX_HEADER + 192;
	struct sock *sk = sock->sk;
	struct sk_buff *skb;
	int err;

	if (msg->msg_flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CMSG_COMPAT))
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
	err = need_face(sk);
	if (err)
		kfree_skb(skb);
	else
		err = nnet_send(nnet_sk(sk)->face, skb);
	release_sock(sk);
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
			octets = skb->len;
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

static struct proto_ops nnet_raw_ops = {
	.owner = THIS_MODULE,
	.release = nnet_release,
	.bind = nnet_bind,
	.connect = sock_no_connect,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = sock_no_getname,
	.poll = datagram_poll,
	.ioctl = nnet_ioctl,
	.gettstamp = sock_gettstamp,
	.listen = sock_no_listen,
	.shutdown = sock_no_shutdown,
	.setsockopt = nnet_setsockopt,
	.getsockopt = nnet_getsockopt,
	.sendmsg = nnet_sendmsg,
	.recvmsg = nnet_recvmsg,
	.mmap = sock_no_mmap,
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	.sendpage = sock_no_sendpage,
#endif
};

static int nnet_create(struct net *net, struct socket *sock, int protocol, int kern)
{
	struct sock *sk;

	if (protocol)
		return -EPROTONOSUPPORT;
	if (sock->type != SOCK_RAW)
		return -ESOCKTNOSUPPORT;
	sk = sk_alloc(net, nnet_family, GFP_KERNEL, &nnet_proto, kern);
	if (!sk)
		return -ENOMEM;
	sock->ops = &nnet_raw_ops;
	sock->state = SS_UNCONNECTED;
	sock_init_data(sock, sk);
	sock_set_flag(sk, SOCK_RCU_FREE);	/* packets are delivered under RCU */
	sk->sk_destruct = nnet_destruct;
	return 0;
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
