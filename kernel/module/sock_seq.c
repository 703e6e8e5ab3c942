// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * SOCK_SEQPACKET: an object in segments. A consumer opens a name and reads its segments in their
 * order; the core's transfer decides which Interest to send, and when. A provider's contents become
 * segments under its prefix, which wait in a bounded buffer for Interests.
 */
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include "sock.h"

/* Maximum number of segments from the first missing one to the last requested one: SEGMENTS_MAX of
 * crates/window. */
#define SEGMENTS_MAX 256

/* Octets of SO_RCVBUF reckoned for a segment before the first one has arrived. */
#define SEGMENT_TRUESIZE 2304

/* Minimum SO_RCVBUF and SO_SNDBUF of a new socket: a whole window that waits for a lost segment. */
#define BUFFER_OCTETS (SEGMENTS_MAX * SEGMENT_TRUESIZE)

enum seq_state { SEQ_IDLE, SEQ_OPEN, SEQ_ENDED, SEQ_FAILED };

struct nnet_seq {
	/*
	 * Taken with bottom halves off, because packets arrive in softirqs. The core's locks are
	 * taken while it is held.
	 */
	spinlock_t lock;

	/* The consumer. */
	enum seq_state state;
	int fault;			/* of SEQ_FAILED: an errno */
	struct nn_transfer *transfer;
	u8 *name;
	u32 name_len;
	u64 next;			/* the segment that enters the receive queue next */
	u32 truesize;			/* of the largest segment so far */
	struct sk_buff *held[SEGMENTS_MAX];	/* segments that arrived before lower ones */

	/* The provider. */
	struct mutex send;		/* one call of send at a time */
	u8 *prefix;
	u32 prefix_len;
	struct xarray segments;		/* by number, from first to before made */
	u64 first, made, asked;		/* asked: beyond the highest requested */
	u64 room;			/* segments in the buffer when it was last full */
	u32 segment_octets;
	bool is_whole;			/* the last one is made */
};

static struct nnet_seq *seq_of(struct sock *sk)
{
	return nnet_sk(sk)->seq;
}

/* ---- the consumer ---- */

/* Segments for which the receive buffer has room; at least one if it is empty. */
static u32 room_of(struct sock *sk, const struct nnet_seq *seq)
{
	int octets = READ_ONCE(sk->sk_rcvbuf) - atomic_read(&sk->sk_rmem_alloc);

	if (octets <= 0)
		return 0;
	return max_t(u32, octets / seq->truesize, !atomic_read(&sk->sk_rmem_alloc));
}

static void purge_held(struct nnet_seq *seq)
{
	int i;

	for (i = 0; i < SEGMENTS_MAX; i++) {
		kfree_skb(seq->held[i]);
		seq->held[i] = NULL;
	}
}

static int fault_of(s64 step)
{
	switch (step) {
	case NN_STEP_TIMED_OUT:
		return ETIMEDOUT;
	case NN_STEP_NO_ROUTE:
		return EHOSTUNREACH;
	case NN_STEP_REFUSED:
		return ECONNREFUSED;
	default:			/* the forwarder has stopped */
		return EIO;
	}
}

/* The transfer is over; seq's lock is held. */
static void end_transfer(struct sock *sk, struct nnet_seq *seq, s64 step)
{
	seq->state = step == NN_STEP_ENDED ? SEQ_ENDED : SEQ_FAILED;
	seq->fault = step == NN_STEP_ENDED ? 0 : fault_of(step);
	purge_held(seq);
	sk_stop_timer(sk, &sk->sk_timer);
	WRITE_ONCE(sk->sk_err, seq->fault);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | RCV_SHUTDOWN);
}

/*
 * Takes the next steps of the transfer: queues Interests in `out`, sets the timer, or ends the
 * transfer. Returns true at its end: then the caller wakes the waiting calls. seq's lock is held.
 */
static bool pump(struct sock *sk, struct nnet_seq *seq, struct sk_buff_head *out)
{
	int i;

	if (seq->state != SEQ_OPEN)
		return false;
	for (i = 0; i <= 2 * SEGMENTS_MAX; i++) {
		struct nn_call call = {
			.op = NN_TRANSFER_NEXT, .transfer = seq->transfer, .name = seq->name,
			.name_len = seq->name_len, .count = room_of(sk, seq), .value = get_random_u32(),
		};
		s64 step = nnet_ask(nnet_of(sock_net(sk)), &call);

		if (step == NN_STEP_ASK) {
			__skb_queue_tail(out, call.skb);
			continue;
		}
		if (step == -ENOMEM)	/* this Interest is lost; the timer repeats it */
			continue;
		if (step != NN_STEP_WAIT) {
			end_transfer(sk, seq, step);
			return true;
		}
		if (call.value != U64_MAX) {
			u64 wait_ns = call.value > call.now_ns ? call.value - call.now_ns : 0;

			sk_reset_timer(sk, &sk->sk_timer, jiffies + nsecs_to_jiffies(wait_ns) + 1);
		}
		break;
	}
	return false;
}

/* Sends, and wakes waiting calls, without seq's lock. Under RCU, which keeps the face. */
static void tell(struct sock *sk, struct nnet_face *face, struct sk_buff_head *out, bool has_come, bool has_ended)
{
	if (has_come)
		sk->sk_data_ready(sk);
	if (has_ended) {
		sk->sk_state_change(sk);
		if (READ_ONCE(sk->sk_err))
			sk_error_report(sk);
	}
	if (!skb_queue_empty(out))
		nnet_send_made(face, out);
}

/* Continues the transfer when its timer has expired, or when the receive buffer has more room. */
static void go_on(struct sock *sk)
{
	struct nnet_seq *seq = seq_of(sk);
	struct sk_buff_head out;
	struct nnet_face *face;
	bool has_ended = false;

	__skb_queue_head_init(&out);
	rcu_read_lock();
	face = READ_ONCE(nnet_sk(sk)->face);
	if (face) {
		spin_lock_bh(&seq->lock);
		has_ended = pump(sk, seq, &out);
		spin_unlock_bh(&seq->lock);
		tell(sk, face, &out, false, has_ended);
	}
	rcu_read_unlock();
}

static void timer_ended(struct timer_list *timer)
{
	struct sock *sk = from_timer(sk, timer, sk_timer);

	go_on(sk);
	sock_put(sk);
}

static bool is_under(const u8 *name, u32 name_len, const u8 *octets, u32 len)
{
	return name && name_len == len && !memcmp(name, octets, len);
}

/*
 * Returns true if a Data is kept. It is then charged to the socket, and `missing` is the first
 * segment that has not arrived. seq's lock is held.
 */
static bool take(struct nnet_face *face, struct nnet_seq *seq, struct sk_buff *skb, u64 *missing)
{
	struct nn_said *said = nnet_said_of(skb);
	struct nn_call call = { .op = NN_TRANSFER_TELL, .transfer = seq->transfer, .said = said };
	struct sock *sk = face->sk;
	bool is_next = said->segment == seq->next;

	/* The next segment is always taken: the others cannot leave the buffer before it. */
	if (!is_next && atomic_read(&sk->sk_rmem_alloc) >= READ_ONCE(sk->sk_rcvbuf)) {
		nnet_count(face->nn, NNET_SOCKET_FULL);
		return false;
	}
	if (nnet_ask(face->nn, &call)) {
		nnet_count(face->nn, NNET_NOT_ASKED_FOR);
		return false;
	}
	skb_set_owner_r(skb, sk);
	seq->truesize = max(seq->truesize, skb->truesize);
	seq->held[said->segment % SEGMENTS_MAX] = skb;
	*missing = call.value;
	return true;
}

/* Moves the segments that are in order now into the receive queue; seq's lock is held. */
static bool queue_in_order(struct sock *sk, struct nnet_seq *seq, u64 missing)
{
	bool has_come = false;

	for (; seq->next < missing; seq->next++) {
		struct sk_buff *skb = seq->held[seq->next % SEGMENTS_MAX];

		seq->held[seq->next % SEGMENTS_MAX] = NULL;
		if (WARN_ON_ONCE(!skb))
			continue;
		if (!nnet_said_of(skb)->content_len) {	/* an end without content */
			consume_skb(skb);
			continue;
		}
		sock_skb_set_dropcount(sk, skb);
		skb_queue_tail(&sk->sk_receive_queue, skb);
		has_come = true;
	}
	return has_come;
}

static void consume(struct nnet_face *face, struct nnet_seq *seq, struct sk_buff *skb)
{
	struct nn_said *said = nnet_said_of(skb);
	bool has_come = false, has_ended = false, is_kept = false;
	struct sk_buff_head out;
	u64 missing;

	__skb_queue_head_init(&out);
	spin_lock_bh(&seq->lock);
	if (seq->state == SEQ_OPEN && said->segment != NNET_NO_SEGMENT &&
	    is_under(seq->name, seq->name_len, skb->data + said->name_at, said->prefix_len)) {
		if (said->kind == NNET_PACKET_NACK) {
			struct nn_call call = { .op = NN_TRANSFER_TELL, .transfer = seq->transfer, .said = said };

			nnet_call(face->nn, &call);
		} else {
			is_kept = take(face, seq, skb, &missing);
			has_come = is_kept && queue_in_order(face->sk, seq, missing);
		}
		has_ended = pump(face->sk, seq, &out);
	} else {
		nnet_count(face->nn, NNET_NOT_ASKED_FOR);
	}
	spin_unlock_bh(&seq->lock);
	if (!is_kept)
		consume_skb(skb);
	tell(face->sk, face, &out, has_come, has_ended);
}

/* Ends the open object; the caller frees the returned transfer. seq's lock is held. */
static struct nn_transfer *forget_object(struct sock *sk, struct nnet_seq *seq, u8 **name)
{
	struct nn_transfer *transfer = seq->transfer;

	*name = seq->name;
	seq->name = NULL;
	seq->transfer = NULL;
	seq->state = SEQ_IDLE;
	seq->fault = 0;
	purge_held(seq);
	sk_stop_timer(sk, &sk->sk_timer);
	return transfer;
}

static void free_object(struct sock *sk, struct nn_transfer *transfer, u8 *name)
{
	struct nn_call call = { .op = NN_TRANSFER_FREE, .transfer = transfer };

	/* The call does not enter a stopped forwarder: its transfers are leaked with it. */
	if (transfer)
		nnet_call(nnet_of(sock_net(sk)), &call);
	kfree(name);
}

static void close_object(struct sock *sk)
{
	struct nnet_seq *seq = seq_of(sk);
	struct nn_transfer *transfer;
	u8 *name;

	spin_lock_bh(&seq->lock);
	transfer = forget_object(sk, seq, &name);
	skb_queue_purge(&sk->sk_receive_queue);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | RCV_SHUTDOWN);
	spin_unlock_bh(&seq->lock);
	free_object(sk, transfer, name);
	sk->sk_state_change(sk);
}

/* The socket's lock is held. */
int nnet_seq_open(struct sock *sk, const u8 *name, u32 len)
{
	struct nn_call call = { .op = NN_TRANSFER_MAKE, .name = name, .name_len = len };
	struct nnet_seq *seq = seq_of(sk);
	u8 *copy;
	int err;

	if (READ_ONCE(seq->state) == SEQ_OPEN)
		return -EISCONN;
	if (!len)
		return -EINVAL;
	err = nnet_sock_need_face(sk);
	if (err)
		return err;
	copy = kmemdup(name, len, GFP_KERNEL_ACCOUNT);
	if (!copy)
		return -ENOMEM;
	err = nnet_call_calm(nnet_of(sock_net(sk)), &call);
	if (!err && call.answer < 0)
		err = call.answer;
	if (err) {
		kfree(copy);
		return err;
	}
	close_object(sk);
	spin_lock_bh(&seq->lock);
	seq->name = copy;
	seq->name_len = len;
	seq->transfer = call.transfer;
	seq->next = 0;
	seq->truesize = SEGMENT_TRUESIZE;
	seq->state = SEQ_OPEN;
	WRITE_ONCE(sk->sk_err, 0);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown & ~RCV_SHUTDOWN);
	sk->sk_state = TCP_ESTABLISHED;
	spin_unlock_bh(&seq->lock);
	go_on(sk);
	return 0;
}

int nnet_seq_connect(struct socket *sock, struct sockaddr *address, int len, int flags)
{
	struct sock *sk = sock->sk;
	const u8 *name;
	u32 name_len;
	int err;

	if (len >= (int)sizeof(address->sa_family) && address->sa_family == AF_UNSPEC) {
		lock_sock(sk);
		close_object(sk);
		sk->sk_state = TCP_CLOSE;
		release_sock(sk);
		return 0;
	}
	err = nnet_name_of_address(address, len, &name, &name_len);
	if (!err && ((struct sockaddr_nnet *)address)->snn_kind)
		err = -EINVAL;
	if (err)
		return err;
	lock_sock(sk);
	err = nnet_seq_open(sk, name, name_len);
	release_sock(sk);
	return err;
}

int nnet_seq_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	struct sock *sk = sock->sk;
	struct nnet_seq *seq = seq_of(sk);
	unsigned long start;
	struct sk_buff *skb;
	int err;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (READ_ONCE(seq->state) == SEQ_IDLE)
		return -ENOTCONN;
	do {
		skb = skb_recv_datagram(sk, flags, &err);
		if (skb)
			break;
		/* A non-blocking call reports the end, too. */
		if ((err && err != -EAGAIN) || READ_ONCE(seq->state) < SEQ_ENDED)
			return err;
		if (skb_queue_empty_lockless(&sk->sk_receive_queue))
			return -READ_ONCE(seq->fault);
	} while (!skb);	/* the last segments arrived between recv_datagram and the end */
	start = jiffies;
	err = nnet_sock_give(sk, skb, msg, size, flags);
	msg->msg_flags |= MSG_EOR;
	skb_free_datagram(sk, skb);
	if (!(flags & MSG_PEEK))
		go_on(sk);
	nnet_sock_pause(start);
	return err;
}

/* ---- the provider ---- */

/* Evicts the oldest segments of a full buffer if a segment that is not made yet is requested. */
static void make_room(struct sock *sk, struct nnet_seq *seq, struct sk_buff_head *gone)
{
	if (refcount_read(&sk->sk_wmem_alloc) >= READ_ONCE(sk->sk_sndbuf))
		seq->room = max_t(u64, 1, seq->made - seq->first);
	while (seq->room && seq->first < seq->made && seq->first + seq->room < seq->asked) {
		struct sk_buff *skb = xa_erase_bh(&seq->segments, seq->first++);

		if (skb)
			__skb_queue_tail(gone, skb);
	}
}

/* Returns true if an Interest requests a segment: by its number, or any. seq's lock is held. */
static bool is_asked_for(const struct nnet_seq *seq, const struct sk_buff *skb, const struct nn_said *said, u64 *segment)
{
	const u8 *name = skb->data + said->name_at;

	*segment = said->segment;
	if (said->segment != NNET_NO_SEGMENT && is_under(seq->prefix, seq->prefix_len, name, said->prefix_len))
		return true;
	*segment = seq->first;
	return said->flags & NNET_CAN_BE_PREFIX && is_under(seq->prefix, seq->prefix_len, name, said->name_len);
}

static void provide(struct nnet_face *face, struct nnet_seq *seq, struct sk_buff *skb)
{
	struct sk_buff_head out, gone;
	struct sk_buff *answer = NULL;
	u64 segment;

	__skb_queue_head_init(&out);
	__skb_queue_head_init(&gone);
	spin_lock_bh(&seq->lock);
	if (is_asked_for(seq, skb, nnet_said_of(skb), &segment)) {
		answer = xa_load(&seq->segments, segment);
		if (answer)	/* a clone has no owner: the original stays charged */
			answer = skb_clone(answer, GFP_ATOMIC | __GFP_NOWARN);
		if (answer)
			__skb_queue_tail(&out, answer);
		/* At most one window ahead, even if an Interest has a higher number. */
		if (segment >= seq->first && segment < seq->made + SEGMENTS_MAX && (!seq->is_whole || segment < seq->made))
			seq->asked = max(seq->asked, segment + 1);
		make_room(face->sk, seq, &gone);
	}
	/* A requested segment that is not made yet is sent once it is made. */
	if (!answer && segment < seq->first)
		nnet_count(face->nn, NNET_NO_SUCH_SEGMENT);
	spin_unlock_bh(&seq->lock);
	consume_skb(skb);
	__skb_queue_purge(&gone);
	if (!skb_queue_empty(&out))
		nnet_send_made(face, &out);
}

int nnet_seq_bind(struct sock *sk, const u8 *name, u32 len)
{
	struct nnet_seq *seq = seq_of(sk);
	u8 *copy;
	int err;

	if (seq->prefix || !len)
		return -EINVAL;
	copy = kmemdup(name, len, GFP_KERNEL_ACCOUNT);
	if (!copy)
		return -ENOMEM;
	err = nnet_sock_bind(sk, name, len);
	if (err) {
		kfree(copy);
		return err;
	}
	/* An Interest that arrived before this had no effect: there is no segment yet. */
	spin_lock_bh(&seq->lock);
	seq->prefix = copy;
	seq->prefix_len = len;
	spin_unlock_bh(&seq->lock);
	return 0;
}

/* Makes a segment of the next `len` octets of a message. seq->send is held. */
static int make_segment(struct sock *sk, struct msghdr *msg, size_t len, struct nnet_message *message, bool is_last)
{
	struct nnet_seq *seq = seq_of(sk);
	unsigned long start = jiffies;
	u64 segment = seq->made;
	struct sk_buff_head out;
	struct sk_buff *skb;
	int err;

	message->info.last_segment = is_last ? segment : NNET_NO_SEGMENT;
	skb = nnet_sock_content(sk, msg, len, message);
	if (IS_ERR(skb))
		return PTR_ERR(skb);
	err = nnet_sock_seal(sk, skb, len, message, segment);
	if (err)
		return err;
	nnet_keep_payload_only(skb);
	__skb_queue_head_init(&out);
	lock_sock(sk);
	err = nnet_sk(sk)->face ? xa_err(xa_store_bh(&seq->segments, segment, skb, GFP_KERNEL_ACCOUNT)) : -EPIPE;
	if (err) {
		release_sock(sk);
		kfree_skb(skb);
		return err;
	}
	spin_lock_bh(&seq->lock);
	seq->made++;
	seq->is_whole |= is_last;
	if (seq->asked > segment) {	/* a consumer waits for it */
		skb = skb_clone(skb, GFP_ATOMIC | __GFP_NOWARN);
		if (skb)
			__skb_queue_tail(&out, skb);
	}
	spin_unlock_bh(&seq->lock);
	if (!skb_queue_empty(&out))
		nnet_send_made(nnet_sk(sk)->face, &out);
	release_sock(sk);
	nnet_sock_pause(start);
	return 0;
}

/* Cuts a message into segments. Returns the octets taken, or the error if none were taken.
 * seq->send is held. */
static int make_segments(struct sock *sk, struct msghdr *msg, size_t len, struct nnet_message *message)
{
	struct nnet_seq *seq = seq_of(sk);
	bool is_end = msg->msg_flags & MSG_EOR;
	size_t done = 0;
	int err;

	do {
		size_t part = min_t(size_t, len - done, READ_ONCE(seq->segment_octets));

		if (seq->is_whole)
			err = -EPIPE;
		else
			err = make_segment(sk, msg, part, message, is_end && done + part == len);
		if (err)
			return done ? done : err;
		done += part;
	} while (done < len);
	return done;
}

int nnet_seq_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct sock *sk = sock->sk;
	struct nnet_seq *seq = seq_of(sk);
	struct nnet_message message;
	int err;

	if (msg->msg_flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CMSG_COMPAT | MSG_EOR))
		return -EOPNOTSUPP;
	if (msg->msg_namelen)
		return -EISCONN;
	err = nnet_message_of(msg, &message);
	if (err)
		return err;
	if (message.name || message.signature || message.info.kind == NNET_PACKET_INTEREST || message.info.flags ||
	    message.info.last_segment != NNET_NO_SEGMENT || (!len && !(msg->msg_flags & MSG_EOR)))
		return -EINVAL;
	if (msg->msg_flags & MSG_DONTWAIT) {
		if (!mutex_trylock(&seq->send))
			return -EAGAIN;
	} else {
		err = mutex_lock_interruptible(&seq->send);
		if (err)
			return err;
	}
	spin_lock_bh(&seq->lock);	/* bind sets both under the lock */
	message.name = seq->prefix;
	message.name_len = seq->prefix_len;
	spin_unlock_bh(&seq->lock);
	err = message.name ? make_segments(sk, msg, min_t(size_t, len, INT_MAX), &message) : -EDESTADDRREQ;
	mutex_unlock(&seq->send);
	return err;
}

int nnet_seq_shutdown(struct socket *sock, int how)
{
	struct msghdr end = { .msg_flags = MSG_EOR };
	struct sock *sk = sock->sk;
	int err = 0;

	/* SHUT_RD, SHUT_WR and SHUT_RDWR plus one are the bits of sk_shutdown. */
	how++;
	if (how & ~SHUTDOWN_MASK || !how)
		return -EINVAL;
	if (how & SEND_SHUTDOWN) {
		if (sock->file && sock->file->f_flags & O_NONBLOCK)
			end.msg_flags |= MSG_DONTWAIT;
		err = nnet_seq_sendmsg(sock, &end, 0);
		if (err == -EPIPE || err == -EDESTADDRREQ)	/* it is whole, or none is offered */
			err = 0;
	}
	if (how & RCV_SHUTDOWN) {
		lock_sock(sk);
		close_object(sk);
		release_sock(sk);
	}
	return err;
}

int nnet_seq_set_segment_octets(struct sock *sk, u32 octets)
{
	if (!octets || octets > NNET_SEGMENT_OCTETS_MAX)
		return -EINVAL;
	WRITE_ONCE(seq_of(sk)->segment_octets, octets);
	return 0;
}

u32 nnet_seq_not_asked(struct sock *sk)
{
	struct nnet_seq *seq = seq_of(sk);
	u64 count;

	spin_lock_bh(&seq->lock);
	count = seq->made - min(seq->made, seq->asked);
	spin_unlock_bh(&seq->lock);
	return min_t(u64, count, U32_MAX);
}

/* ---- both ---- */

void nnet_seq_deliver(struct nnet_face *face, struct sk_buff *skb)
{
	struct nnet_seq *seq = seq_of(face->sk);

	if (!nnet_sock_read(face, skb))
		return;
	if (nnet_said_of(skb)->kind == NNET_PACKET_INTEREST)
		provide(face, seq, skb);
	else
		consume(face, seq, skb);
}

static bool is_writable(struct sock *sk)
{
	return refcount_read(&sk->sk_wmem_alloc) < READ_ONCE(sk->sk_sndbuf);
}

/*
 * Wakes writers as soon as there is room for one segment, because a full buffer evicts a segment
 * only when a later one is requested.
 */
static void write_space(struct sock *sk)
{
	struct socket_wq *wq;

	rcu_read_lock();
	if (is_writable(sk)) {
		wq = rcu_dereference(sk->sk_wq);
		if (skwq_has_sleeper(wq))
			wake_up_interruptible_sync_poll(&wq->wait, EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
		sk_wake_async(sk, SOCK_WAKE_SPACE, POLL_OUT);
	}
	rcu_read_unlock();
}

__poll_t nnet_seq_poll(struct file *file, struct socket *sock, struct poll_table_struct *wait)
{
	struct sock *sk = sock->sk;
	struct nnet_seq *seq = seq_of(sk);
	__poll_t mask = 0;

	sock_poll_wait(file, sock, wait);
	if (READ_ONCE(sk->sk_err))
		mask |= EPOLLERR;
	if (READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN)
		mask |= EPOLLRDHUP | EPOLLIN | EPOLLRDNORM;
	if (!skb_queue_empty_lockless(&sk->sk_receive_queue))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (READ_ONCE(seq->prefix) && !READ_ONCE(seq->is_whole) && is_writable(sk))
		mask |= EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
	else
		sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
	return mask;
}

int nnet_seq_create(struct sock *sk)
{
	struct nnet_seq *seq = kzalloc(sizeof(*seq), GFP_KERNEL_ACCOUNT);

	if (!seq)
		return -ENOMEM;
	spin_lock_init(&seq->lock);
	mutex_init(&seq->send);
	xa_init_flags(&seq->segments, XA_FLAGS_LOCK_BH);
	seq->segment_octets = NNET_SEGMENT_OCTETS_DEFAULT;
	timer_setup(&sk->sk_timer, timer_ended, 0);
	sk->sk_write_space = write_space;
	sk->sk_rcvbuf = max(sk->sk_rcvbuf, BUFFER_OCTETS);
	sk->sk_sndbuf = max(sk->sk_sndbuf, BUFFER_OCTETS);
	nnet_sk(sk)->seq = seq;
	return 0;
}

/* Segments hold a reference to the socket by their charged memory, so they are freed before it. */
void nnet_seq_release(struct sock *sk)
{
	struct nnet_seq *seq = seq_of(sk);
	struct sk_buff *skb;
	unsigned long segment;
	u8 *prefix;

	if (!seq)
		return;
	close_object(sk);
	spin_lock_bh(&seq->lock);	/* from here on no Interest finds a segment */
	prefix = seq->prefix;
	seq->prefix = NULL;
	spin_unlock_bh(&seq->lock);
	kfree(prefix);
	xa_for_each(&seq->segments, segment, skb) {
		xa_erase_bh(&seq->segments, segment);
		kfree_skb(skb);
	}
}

void nnet_seq_destruct(struct sock *sk)
{
	struct nnet_seq *seq = seq_of(sk);

	if (!seq)
		return;
	xa_destroy(&seq->segments);
	kfree(seq);
}
