// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Faces: sockets above, devices with their stations and groups below; packets in and out. */
#include <linux/jhash.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include "nnet.h"

struct nnet_cpu __percpu *nnet_cpus;

/* Batches of 64 packets of sockets' own that one send_out processes; a worker does the rest. */
#define MADE_TURNS_MAX 16

/* The face of an outgoing buffer, stored in its cb until the door has closed. */
static struct nnet_face **face_of(struct sk_buff *skb)
{
	return (struct nnet_face **)skb->cb;
}

/* ---- the tables ---- */

static u32 lower_key(const struct net_device *dev, const u8 *address)
{
	return jhash(address, ETH_ALEN, (u32)(unsigned long)dev ^ (u32)dev->ifindex);
}

/* Under RCU, or with the lock. */
static struct nnet_face *lower_find(struct nnet *nn, const struct net_device *dev, const u8 *address)
{
	struct nnet_face *face;

	hash_for_each_possible_rcu(nn->lower, face, lower, lower_key(dev, address),
				   lockdep_is_held(&nn->lock))
		if (face->dev == dev && ether_addr_equal(face->address, address))
			return face;
	return NULL;
}

static void face_free(struct rcu_head *rcu)
{
	struct nnet_face *face = container_of(rcu, struct nnet_face, rcu);
	struct nn_call call = { .op = NN_FREE_LINK, .link = face->link };

	/* The call does not enter a stopped instance: its links are leaked with it. */
	if (face->link)
		nnet_call(face->nn, &call);
	kfree(face);
}

/* `as` is the kind for the core: the socket of a router may stand for another machine. */
static struct nnet_face *face_new(struct nnet *nn, enum nnet_kind kind, enum nnet_kind as, u32 mtu)
{
	struct nn_call link = { .op = NN_MAKE_LINK, .value = mtu, .now_ns = get_random_u64() };
	struct nn_call call = { .op = NN_FACE_REGISTER, .value = as };
	struct nnet_face *face;
	s64 err;

	lockdep_assert_held(&nn->lock);
	err = nnet_need_instance(nn);
	if (err)
		return ERR_PTR(err);
	face = kzalloc(sizeof(*face), GFP_KERNEL_ACCOUNT);
	if (!face)
		return ERR_PTR(-ENOMEM);
	face->nn = nn;
	face->kind = kind;
	link.instance = nn->instance;
	err = nnet_call_calm(nn, &link);
	if (!err && link.answer < 0)
		err = link.answer;
	if (err)
		goto face;
	face->link = link.link;
	err = nnet_ask(nn, &call);
	if (err < 0)
		goto link;
	face->id = err;
	return face;

link:
	link.op = NN_FREE_LINK;
	nnet_call_calm(nn, &link);
face:
	kfree(face);
	return ERR_PTR(err);
}

/* Enters a face into the table: from then on packets reach it. */
static struct nnet_face *face_enter(struct nnet_face *face)
{
	int err = xa_err(xa_store(&face->nn->faces, face->id, face, GFP_KERNEL_ACCOUNT));

	if (!err)
		return face;
	nnet_face_del(face);
	return ERR_PTR(err);
}

struct nnet_face *nnet_face_of_socket(struct nnet *nn, struct sock *sk, enum nnet_kind as)
{
	struct nnet_face *face;

	mutex_lock(&nn->lock);
	face = face_new(nn, NNET_KIND_SOCKET, as, 0);
	if (!IS_ERR(face)) {
		face->sk = sk;
		face = face_enter(face);
	}
	mutex_unlock(&nn->lock);
	return face;
}

struct nnet_face *nnet_face_of_device(struct nnet *nn, struct net_device *dev, const u8 *address)
{
	enum nnet_kind kind = is_multicast_ether_addr(address) ? NNET_KIND_GROUP : NNET_KIND_STATION;
	struct nnet_face *face;

	ASSERT_RTNL();
	if (dev->reg_state != NETREG_REGISTERED || dev->addr_len != ETH_ALEN)
		return ERR_PTR(-ENODEV);
	mutex_lock(&nn->lock);
	face = ERR_PTR(-EEXIST);
	if (lower_find(nn, dev, address))
		goto out;
	face = face_new(nn, kind, kind, dev->mtu);
	if (IS_ERR(face))
		goto out;
	ether_addr_copy(face->address, address);
	face->dev = dev;
	netdev_hold(dev, &face->tracker, GFP_KERNEL);
	hash_add_rcu(nn->lower, &face->lower, lower_key(dev, address));
	if (kind == NNET_KIND_GROUP)
		dev_mc_add(dev, address);
	face = face_enter(face);
	if (!IS_ERR(face))
		nnet_tell_face(face, NNET_CMD_FACE_NEW);
out:
	mutex_unlock(&nn->lock);
	return face;
}

void nnet_face_del(struct nnet_face *face)
{
	struct nn_call call = { .op = NN_FACE_RELEASE, .face = face->id };
	struct nnet *nn = face->nn;

	lockdep_assert_held(&nn->lock);
	if (xa_erase(&nn->faces, face->id) && face->dev)
		nnet_tell_face(face, NNET_CMD_FACE_DEL);
	if (face->dev) {
		hash_del_rcu(&face->lower);
		if (face->kind == NNET_KIND_GROUP)
			dev_mc_del(face->dev, face->address);
		/* Senders use the device under RCU; its removal waits for them. */
		netdev_put(face->dev, &face->tracker);
	}
	nnet_call(nn, &call);
	nnet_due(nn, 0);	/* the work sweeps its table entries step by step */
	call_rcu(&face->rcu, face_free);
}

/* ---- out: called by the core, with the door open ---- */

const struct nn_link *nk_link_of(struct nnet *nn, u64 id);
void nk_emit(struct nnet *nn, u64 id, const struct nn_emitted *out);
void nk_out_full(struct nnet *nn);
bool nk_row(struct nnet *nn, const struct nn_row *row);
void nk_skb_get(struct sk_buff *skb);
void nk_skb_keep(struct sk_buff *skb);
void nk_skb_put(struct sk_buff *skb);
struct sk_buff *nk_skb_make(size_t len);
const u8 *nk_skb_data(const struct sk_buff *skb);
u32 nk_skb_held(const struct sk_buff *skb);

void nk_skb_get(struct sk_buff *skb)
{
	skb_get(skb);
}

/*
 * Defers the release only in softirq. A call that may wait can change its processor, and would
 * leave the buffer in the list of the old one.
 */
void nk_skb_put(struct sk_buff *skb)
{
	if (in_softirq())
		nnet_leave(&this_cpu_ptr(nnet_cpus)->leaving, skb);
	else
		consume_skb(skb);
}

/*
 * Tables keep a buffer for its packet only, never for the octets before it. So its first sender may
 * write headers there, without a copy. The flags are those of TCP's write queue.
 */
void nnet_keep_payload_only(struct sk_buff *skb)
{
	if (skb->nohdr)
		return;
	skb->nohdr = 1;
	skb->cloned = 1;
	atomic_add(1 << SKB_DATAREF_SHIFT, &skb_shinfo(skb)->dataref);
}

/*
 * Call it after the link's header has been read: from now on another owner that sends the same
 * packet may write there.
 */
void nk_skb_keep(struct sk_buff *skb)
{
	nnet_keep_payload_only(skb);
	skb_get(skb);
}

/* A buffer with room for a packet and the headers of any device; null if there is no memory. */
static struct sk_buff *buffer(size_t len)
{
	struct sk_buff *skb = alloc_skb(NNET_HEADROOM + len, GFP_ATOMIC | __GFP_NOWARN);

	if (skb)
		skb_reserve(skb, NNET_HEADROOM);
	return skb;
}

static struct sk_buff *copy_of(const u8 *octets, size_t len)
{
	struct sk_buff *skb = buffer(len);

	if (skb)
		skb_put_data(skb, octets, len);
	return skb;
}

struct sk_buff *nk_skb_make(size_t len)
{
	struct sk_buff *skb = buffer(len);

	if (!skb)
		return NULL;
	skb_put_zero(skb, len);
	nnet_keep_payload_only(skb);
	return skb;
}

const u8 *nk_skb_data(const struct sk_buff *skb)
{
	return skb->data;
}

u32 nk_skb_held(const struct sk_buff *skb)
{
	return skb->truesize;
}

void nk_out_full(struct nnet *nn)
{
	nnet_count(nn, NNET_OUT_FULL);
}

bool nk_row(struct nnet *nn, const struct nn_row *row)
{
	return nn->row(nn->row_into, row);
}

const struct nn_link *nk_link_of(struct nnet *nn, u64 id)
{
	struct nnet_face *face = xa_load(&nn->faces, id);

	if (!face)
		nnet_count(nn, NNET_NO_FACE);
	return face ? face->link : NULL;
}

/*
 * A buffer with the range of a packet. It is a copy if an octet is replaced or if the packet has
 * octets before the range, else a clone.
 */
static struct sk_buff *range_of(struct nnet *nn, const struct nn_emitted *out)
{
	struct sk_buff *skb;

	if (out->patch_at >= 0) {	/* HopLimit of an Interest, which is small */
		nnet_count(nn, NNET_OCTET_PATCHED);
		skb = copy_of(out->skb->data + out->offset, out->len);
		if (skb)
			skb->data[out->patch_at] = out->patch_value;
		return skb;
	}
	if (out->within) {		/* a later fragment: the packet goes on before it */
		nnet_count(nn, NNET_FRAGMENT_COPIED);
		return copy_of(out->skb->data + out->offset, out->len);
	}
	skb = skb_clone(out->skb, GFP_ATOMIC | __GFP_NOWARN);
	if (skb) {
		__skb_pull(skb, out->offset);
		__skb_trim(skb, out->len);
	}
	return skb;
}

void nk_emit(struct nnet *nn, u64 id, const struct nn_emitted *out)
{
	struct nnet_face *face = xa_load(&nn->faces, id);
	struct sk_buff *skb;
	u32 room = out->header_len;

	if (!face) {
		nnet_count(nn, NNET_NO_FACE);
		return;
	}
	skb = range_of(nn, out);
	if (!skb)
		goto no_memory;
	if (face->dev)
		room += LL_RESERVED_SPACE(face->dev);
	if (room && (skb_header_cloned(skb) || skb_headroom(skb) < room)) {
		nnet_count(nn, NNET_HEAD_COPIED);
		if (skb_cow_head(skb, room)) {
			kfree_skb(skb);
			goto no_memory;
		}
	}
	if (out->header_len)
		memcpy(skb_push(skb, out->header_len), out->header, out->header_len);
	*face_of(skb) = face;
	__skb_queue_tail(&this_cpu_ptr(nnet_cpus)->out, skb);
	return;

no_memory:
	nnet_count(nn, NNET_NO_MEMORY);
}

/* ---- out: with the door closed ---- */

static void transmit(struct nnet_face *face, struct sk_buff *skb)
{
	struct net_device *dev = face->dev;

	if (!netif_running(dev) || !netif_carrier_ok(dev)) {
		nnet_count(face->nn, NNET_DEVICE_DOWN);
		kfree_skb(skb);
		return;
	}
	skb->dev = dev;
	skb->protocol = htons(ETH_P_NDN);
	skb->pkt_type = PACKET_OUTGOING;
	skb->ip_summed = CHECKSUM_NONE;
	skb_reset_network_header(skb);
	memset(skb->cb, 0, sizeof(skb->cb));
	if (dev_hard_header(skb, dev, ETH_P_NDN, face->address, dev->dev_addr, skb->len) < 0) {
		nnet_count(face->nn, NNET_DEVICE_REFUSED);
		kfree_skb(skb);
		return;
	}
	if (dev_queue_xmit(skb) != NET_XMIT_SUCCESS)
		nnet_count(face->nn, NNET_DEVICE_REFUSED);
}

/* Bottom halves are off, and RCU's read lock is held since before the door opened. */
static void send_out(struct nnet_cpu *cpu)
{
	bool is_within = cpu->is_sending;
	int turns;
	struct sk_buff_head out;
	struct sk_buff *skb;

	/* A device may deliver a packet while it sends: that nested call finds the queue empty. */
	cpu->is_sending = true;
	__skb_queue_head_init(&out);
	skb_queue_splice_init(&cpu->out, &out);
	while ((skb = __skb_dequeue(&out))) {
		struct nnet_face *face = *face_of(skb);

		atomic64_inc(&face->out);
		if (face->dev)
			transmit(face, skb);
		else
			nnet_sock_deliver(face, skb);
	}
	if (is_within)
		return;
	/* Packets that sockets made are processed here, not nested: stacks are small. */
	for (turns = 0; turns < MADE_TURNS_MAX && !skb_queue_empty(&cpu->made); turns++)
		nnet_take_dispatched(&cpu->made);
	if (!skb_queue_empty(&cpu->made))
		nnet_dispatch_rest(&cpu->made);
	cpu->is_sending = false;
}

/* ---- in ---- */

/* Prepares a buffer that tables may keep. Without memory, frees it and returns false. */
static bool make_ours(struct nnet *nn, struct sk_buff *skb)
{
	if (skb_is_nonlinear(skb)) {
		nnet_count(nn, NNET_LINEARIZED);
		if (skb_linearize(skb)) {
			nnet_count(nn, NNET_NO_MEMORY);
			kfree_skb(skb);
			return false;
		}
	}
	skb_orphan(skb);
	skb_dst_drop(skb);
	skb_ext_reset(skb);
	nf_reset_ct(skb);
	skb->dev = NULL;
	return true;
}

/* Passes the collected packets through the door. Its caller holds what send_out requires. */
static int process(struct nnet *nn, struct nnet_cpu *cpu, u32 count)
{
	struct nn_call call = {
		.op = NN_PACKETS, .arrived = cpu->arrived, .count = count,
		.value = rcu_access_pointer(nn->store) != NULL,
	};
	int err = nnet_call(nn, &call);
	u32 i;

	cpu->packets += count;
	if (err) {
		if (err == -ESHUTDOWN)	/* the core has taken nothing */
			for (i = 0; i < count; i++)
				kfree_skb(cpu->arrived[i].skb);
		__skb_queue_purge(&cpu->out);
		return err;
	}
	nnet_due(nn, call.answer);
	send_out(cpu);
	return 0;
}

int nnet_call_and_send(struct nnet *nn, struct nn_call *call)
{
	struct nnet_cpu *cpu;
	int err;

	rcu_read_lock();
	local_bh_disable();
	cpu = this_cpu_ptr(nnet_cpus);
	err = nnet_call(nn, call);
	if (err)
		__skb_queue_purge(&cpu->out);
	send_out(cpu);
	local_bh_enable();
	rcu_read_unlock();
	return err;
}

u64 nnet_expire(struct nnet *nn)
{
	struct nn_call call = { .op = NN_EXPIRE };

	return nnet_call_and_send(nn, &call) ? U64_MAX : call.answer;
}

static void collect(struct nnet_cpu *cpu, u32 n, struct nnet_face *face, struct sk_buff *skb,
		    const u8 *from)
{
	struct nn_arrived *arrived = &cpu->arrived[n];

	atomic64_inc(&face->in);
	arrived->skb = skb;
	arrived->link = face->link;
	arrived->face = face->id;
	arrived->len = skb->len;
	ether_addr_copy(arrived->from, from);
}

int nnet_send(struct nnet_face *face, struct sk_buff *skb)
{
	static const u8 nobody[ETH_ALEN] __aligned(2) = {};
	struct nnet *nn = face->nn;
	struct nnet_cpu *cpu;
	int err = -ENOBUFS;

	rcu_read_lock();
	local_bh_disable();
	cpu = this_cpu_ptr(nnet_cpus);
	nnet_count(nn, NNET_IN_TASK);
	if (make_ours(nn, skb)) {
		collect(cpu, 0, face, skb, nobody);
		err = process(nn, cpu, 1);
	}
	local_bh_enable();
	rcu_read_unlock();
	return err;
}

void nnet_send_made(struct nnet_face *face, struct sk_buff_head *packets)
{
	struct nnet_cpu *cpu;
	struct sk_buff *skb;

	rcu_read_lock();
	local_bh_disable();
	cpu = this_cpu_ptr(nnet_cpus);
	while ((skb = __skb_dequeue(packets))) {
		if (!make_ours(face->nn, skb))
			continue;
		*nnet_parcel_of(skb) = (struct nnet_parcel){ .nn = face->nn, .face = face->id };
		__skb_queue_tail(&cpu->made, skb);
	}
	if (!cpu->is_sending)
		send_out(cpu);
	local_bh_enable();
	rcu_read_unlock();
}

/* The face that a frame is for: that of its sender, or the group's. */
static struct nnet_face *face_for(struct nnet *nn, struct sk_buff *skb)
{
	const struct ethhdr *eth = eth_hdr(skb);
	struct nnet_face *face;

	if (skb->pkt_type != PACKET_HOST && skb->pkt_type != PACKET_MULTICAST)
		return NULL;
	if (skb->pkt_type == PACKET_MULTICAST)
		face = lower_find(nn, skb->dev, eth->h_dest);
	else
		face = lower_find(nn, skb->dev, eth->h_source);
	if (!face)
		nnet_count(nn, NNET_NO_NEIGHBOR);
	return face;
}

/* Returns true if this namespace does not use named data: its frames are dropped at once. */
static bool is_unused(const struct nnet *nn)
{
	return !smp_load_acquire(&nn->instance) || READ_ONCE(nn->stopped);
}

/* Takes a frame in. Returns true if it is now the n-th of the collected frames. */
static bool take_frame(struct nnet *nn, struct nnet_cpu *cpu, u32 n, struct sk_buff *skb)
{
	u8 from[ETH_ALEN] __aligned(2);
	struct nnet_face *face;

	if (is_unused(nn))
		goto drop;
	face = face_for(nn, skb);
	if (!face)
		goto drop;
	skb = skb_share_check(skb, GFP_ATOMIC);
	if (!skb)
		return false;
	ether_addr_copy(from, eth_hdr(skb)->h_source);
	if (!make_ours(nn, skb))
		return false;
	nnet_count(nn, NNET_IN_SOFTIRQ);
	if (nnet_dispatch(face, skb, from))
		return false;
	collect(cpu, n, face, skb, from);
	return true;

drop:
	kfree_skb(skb);
	return false;
}

static int frame_in(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
		    struct net_device *orig)
{
	struct nnet *nn = nnet_of(dev_net(skb->dev));
	struct nnet_cpu *cpu;

	/* A device may call from a task, too. */
	local_bh_disable();
	cpu = this_cpu_ptr(nnet_cpus);
	if (take_frame(nn, cpu, 0, skb))
		process(nn, cpu, 1);
	local_bh_enable();
	return NET_RX_SUCCESS;
}

static void frames_in(struct list_head *frames, struct packet_type *type, struct net_device *orig)
{
	struct nnet_cpu *cpu;
	struct nnet *nn = NULL;
	struct sk_buff *skb, *next;
	u32 count = 0;

	local_bh_disable();
	cpu = this_cpu_ptr(nnet_cpus);
	list_for_each_entry_safe(skb, next, frames, list) {
		struct nnet *of = nnet_of(dev_net(skb->dev));

		skb_list_del_init(skb);
		if (count && (of != nn || count == ARRAY_SIZE(cpu->arrived))) {
			process(nn, cpu, count);
			count = 0;
		}
		nn = of;
		count += take_frame(nn, cpu, count, skb);
	}
	if (count)
		process(nn, cpu, count);
	local_bh_enable();
}

void nnet_take_dispatched(struct sk_buff_head *parcels)
{
	struct nnet *nn = NULL;
	struct nnet_cpu *cpu;
	struct sk_buff *skb;
	u32 count = 0;

	rcu_read_lock();
	local_bh_disable();
	cpu = this_cpu_ptr(nnet_cpus);
	while (count < ARRAY_SIZE(cpu->arrived) && (skb = __skb_dequeue(parcels))) {
		struct nnet_parcel parcel = *nnet_parcel_of(skb);
		struct nnet_face *face = xa_load(&parcel.nn->faces, parcel.face);

		if (!face) {
			nnet_count(parcel.nn, NNET_NO_FACE);
			kfree_skb(skb);
			continue;
		}
		if (count && parcel.nn != nn) {
			process(nn, cpu, count);
			count = 0;
		}
		nn = parcel.nn;
		collect(cpu, count++, face, skb, parcel.from);
	}
	if (count)
		process(nn, cpu, count);
	local_bh_enable();
	rcu_read_unlock();
}

static struct packet_type frame_type __read_mostly = {
	.type = cpu_to_be16(ETH_P_NDN),
	.func = frame_in,
	.list_func = frames_in,
};

/* ---- devices ---- */

static int device_event(struct notifier_block *block, unsigned long event, void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	struct nnet *nn = nnet_of(dev_net(dev));
	struct nnet_face *face;
	unsigned long id;

	if (event != NETDEV_UNREGISTER && event != NETDEV_CHANGEMTU)
		return NOTIFY_DONE;
	mutex_lock(&nn->lock);
	xa_for_each(&nn->faces, id, face) {
		struct nn_call mtu = { .op = NN_LINK_MTU, .link = face->link, .value = dev->mtu };

		if (face->dev != dev)
			continue;
		if (event == NETDEV_UNREGISTER)
			nnet_face_del(face);
		else
			nnet_call(nn, &mtu);
	}
	mutex_unlock(&nn->lock);
	return NOTIFY_DONE;
}

static struct notifier_block device_events = { .notifier_call = device_event };

/* ---- begin and end ---- */

int nnet_face_init(void)
{
	int err = register_netdevice_notifier(&device_events);

	if (!err)
		dev_add_pack(&frame_type);
	return err;
}

/*
 * The notifier is unregistered before the namespaces are: this reports every device once more, as
 * removed.
 */
void nnet_face_exit(void)
{
	dev_remove_pack(&frame_type);
	unregister_netdevice_notifier(&device_events);
}

int nnet_cpus_init(void)
{
	int cpu, err;

	nnet_cpus = alloc_percpu(struct nnet_cpu);
	if (!nnet_cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct nn_call call = { .op = NN_MAKE_WORKSPACE };

		__skb_queue_head_init(&per_cpu_ptr(nnet_cpus, cpu)->out);
		__skb_queue_head_init(&per_cpu_ptr(nnet_cpus, cpu)->made);
		err = nnet_call_calm(NULL, &call);
		if (!err)
			err = call.answer;
		if (err)
			return err;
		per_cpu_ptr(nnet_cpus, cpu)->workspace = call.workspace;
	}
	return 0;
}

void nnet_cpus_exit(void)
{
	int cpu;

	if (!nnet_cpus)
		return;
	for_each_possible_cpu(cpu) {
		struct nn_call call = {
			.op = NN_FREE_WORKSPACE, .workspace = per_cpu_ptr(nnet_cpus, cpu)->workspace,
		};

		if (call.workspace)
			nnet_call_calm(NULL, &call);
	}
	free_percpu(nnet_cpus);
}
