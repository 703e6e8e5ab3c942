// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * An external content store: a process below the store in memory, attached by netlink. It receives
 * the Data that leaves the memory, and requests for Data that is not in memory. Messages wait in
 * its socket's receive buffer. If that is full, or if NNET_STORE_READS_MAX requests are pending,
 * the process is bypassed.
 */
#include <linux/bitmap.h>
#include <linux/module.h>
#include <linux/netlink.h>
#include <linux/slab.h>
#include <net/genetlink.h>
#include "nnet.h"

/* A new request may replace one that has had no answer for this time, ns. */
#define READ_NS_MAX NSEC_PER_SEC

enum { STORE_NONE, STORE_BUSY, STORE_TAKEN };

struct nnet_store {
	u32 portid;
	spinlock_t lock;	/* of the fields below; taken with bottom halves off */
	u32 serial;
	DECLARE_BITMAP(pending, NNET_STORE_READS_MAX);
	struct {
		u64 ticket, since_ns;
		u32 serial;
	} reads[NNET_STORE_READS_MAX];
};

/* ---- pending requests ---- */

/* A free slot, else one whose request is older than READ_NS_MAX; -1 if there is none. */
static int place_for_read(struct nnet_store *store, u64 now_ns)
{
	u32 place = find_first_zero_bit(store->pending, NNET_STORE_READS_MAX);

	if (place < NNET_STORE_READS_MAX)
		return place;
	for (place = 0; place < NNET_STORE_READS_MAX; place++)
		if (now_ns - store->reads[place].since_ns > READ_NS_MAX)
			return place;
	return -1;
}

/* Takes a slot for a request. Returns its number for the process; 0 if too many are pending. */
static u64 read_begin(struct nnet_store *store, u64 ticket)
{
	u64 now_ns = ktime_get_ns(), id = 0;
	int place;

	spin_lock(&store->lock);
	place = place_for_read(store, now_ns);
	if (place >= 0) {
		__set_bit(place, store->pending);
		store->serial = max(store->serial + 1, 1U);
		store->reads[place].serial = store->serial;
		store->reads[place].ticket = ticket;
		store->reads[place].since_ns = now_ns;
		id = (u64)store->serial << 32 | place;
	}
	spin_unlock(&store->lock);
	return id;
}

/* Ends the pending read `id`. Returns true if it was still pending. */
static bool read_end(struct nnet_store *store, u64 id, u64 *ticket)
{
	u32 place = (u32)id;
	bool is_pending;

	if (place >= NNET_STORE_READS_MAX)
		return false;
	spin_lock_bh(&store->lock);
	is_pending = test_bit(place, store->pending) && store->reads[place].serial == id >> 32;
	if (is_pending) {
		*ticket = store->reads[place].ticket;
		__clear_bit(place, store->pending);
	}
	spin_unlock_bh(&store->lock);
	return is_pending;
}

/* ---- out: called by the core, with the door open and none of its locks held ---- */

u32 nk_store_read(struct nnet *nn, const struct nn_asked *asked);
u32 nk_store_write(struct nnet *nn, const u8 *data, u32 len, u64 fresh_ms);

/* Creates a message to the process, with room for `octets` of attributes beside numbers. */
static struct sk_buff *message(const struct nnet_store *store, u8 cmd, size_t octets, void **header)
{
	struct sk_buff *msg = genlmsg_new(octets + 64, GFP_ATOMIC | __GFP_NOWARN);

	if (!msg)
		return NULL;
	*header = genlmsg_put(msg, store->portid, 0, &nnet_genl, 0, cmd);
	if (*header)
		return msg;
	nlmsg_free(msg);
	return NULL;
}

/* Sends a message to the process. Never waits. */
static bool tell(struct nnet *nn, const struct nnet_store *store, struct sk_buff *msg, void *header)
{
	genlmsg_end(msg, header);
	return !genlmsg_unicast(nn->net, msg, store->portid);
}

u32 nk_store_read(struct nnet *nn, const struct nn_asked *asked)
{
	struct nnet_store *store = rcu_dereference_bh(nn->store);
	u32 flags = (asked->can_be_prefix ? NNET_STORE_CAN_BE_PREFIX : 0) |
		    (asked->must_be_fresh ? NNET_STORE_MUST_BE_FRESH : 0);
	struct sk_buff *msg;
	void *header;
	u64 id;

	if (!store)
		return STORE_NONE;
	id = read_begin(store, asked->ticket);
	if (!id)
		return STORE_BUSY;
	msg = message(store, NNET_CMD_STORE_READ, asked->name_len, &header);
	if (msg) {
		if (!nla_put_u64_64bit(msg, NNET_A_READ, id, NNET_A_PAD) &&
		    !nla_put_u32(msg, NNET_A_FLAGS, flags) &&
		    !nla_put(msg, NNET_A_NAME, asked->name_len, asked->name)) {
			if (tell(nn, store, msg, header))
				return STORE_TAKEN;
		} else {
			nlmsg_free(msg);
		}
	}
	read_end(store, id, &id);
	return STORE_BUSY;
}

u32 nk_store_write(struct nnet *nn, const u8 *data, u32 len, u64 fresh_ms)
{
	struct nnet_store *store = rcu_dereference_bh(nn->store);
	struct sk_buff *msg;
	void *header;

	if (!store)
		return STORE_NONE;
	msg = message(store, NNET_CMD_STORE_WRITE, len, &header);
	if (!msg)
		return STORE_BUSY;
	if (nla_put_u64_64bit(msg, NNET_A_FRESH_MS, fresh_ms, NNET_A_PAD) ||
	    nla_put(msg, NNET_A_DATA, len, data)) {
		nlmsg_free(msg);
		return STORE_BUSY;
	}
	return tell(nn, store, msg, header) ? STORE_TAKEN : STORE_BUSY;
}

/* ---- in: from the process ---- */

int nnet_store_attach(struct nnet *nn, u32 portid)
{
	struct nnet_store *store = kzalloc(sizeof(*store), GFP_KERNEL_ACCOUNT);
	int err;

	if (!store)
		return -ENOMEM;
	store->portid = portid;
	spin_lock_init(&store->lock);
	mutex_lock(&nn->lock);
	err = rcu_access_pointer(nn->store) ? -EBUSY : nnet_need_instance(nn);
	if (!err)
		rcu_assign_pointer(nn->store, store);
	mutex_unlock(&nn->lock);
	if (err)
		kfree(store);
	return err;
}

/* Passes the store's answer to the core; without data, the store has none. */
static int answer(struct nnet *nn, u64 ticket, const u8 *data, u32 len, u64 fresh_ms)
{
	struct nn_call call = {
		.op = NN_STORE_ANSWERED, .value = ticket, .more = data, .more_len = len, .face = fresh_ms,
	};
	int err = nnet_call_and_send(nn, &call);

	if (!err)
		nnet_due(nn, call.answer);
	return err;
}

int nnet_store_answered(struct nnet *nn, u32 portid, u64 id, const u8 *data, u32 len, u64 fresh_ms)
{
	struct nnet_store *store;
	int err = -ENOENT;
	u64 ticket;

	rcu_read_lock();
	store = rcu_dereference(nn->store);
	if (!store || store->portid != portid)
		err = -EPERM;
	else if (read_end(store, id, &ticket))
		err = answer(nn, ticket, data, len, fresh_ms);
	rcu_read_unlock();
	return err;
}

/* Interests that wait for the store are forwarded upstream. The lock is held. */
void nnet_store_detach(struct nnet *nn)
{
	struct nnet_store *store = rcu_dereference_protected(nn->store, lockdep_is_held(&nn->lock));
	u32 place;

	if (!store)
		return;
	RCU_INIT_POINTER(nn->store, NULL);
	synchronize_rcu();
	for_each_set_bit(place, store->pending, NNET_STORE_READS_MAX)
		answer(nn, store->reads[place].ticket, NULL, 0, 0);
	kfree(store);
}

/* Detaches the store when its socket is closed. */
static int released(struct notifier_block *block, unsigned long event, void *data)
{
	const struct netlink_notify *notify = data;
	struct nnet_store *store;
	struct nnet *nn;

	if (event != NETLINK_URELEASE || notify->protocol != NETLINK_GENERIC)
		return NOTIFY_DONE;
	nn = nnet_of(notify->net);
	if (!rcu_access_pointer(nn->store))
		return NOTIFY_DONE;
	mutex_lock(&nn->lock);
	store = rcu_dereference_protected(nn->store, lockdep_is_held(&nn->lock));
	if (store && store->portid == notify->portid)
		nnet_store_detach(nn);
	mutex_unlock(&nn->lock);
	return NOTIFY_DONE;
}

static struct notifier_block sockets_released = { .notifier_call = released };

int nnet_store_init(void)
{
	return netlink_register_notifier(&sockets_released);
}

void nnet_store_exit(void)
{
	netlink_unregister_notifier(&sockets_released);
}
