// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The module, and the forwarder of each network namespace that uses one. */
#include <linux/module.h>
#include <linux/random.h>
#include "nnet.h"

int nnet_family = AF_NNET_DEFAULT;
module_param_named(family, nnet_family, int, 0444);
MODULE_PARM_DESC(family, "number of the socket family");

static uint faces_max = 1024, pit_entries_max = 16384, cs_packets_max = 16384;
static uint fib_entries_max = 65536, bindings_max = 4096, strategies_max = 1024;
static ulong cs_octets_max = 64UL << 20;
module_param(faces_max, uint, 0444);
module_param(pit_entries_max, uint, 0444);
module_param(cs_packets_max, uint, 0444);
module_param(fib_entries_max, uint, 0444);
module_param(bindings_max, uint, 0444);
module_param(strategies_max, uint, 0444);
module_param(cs_octets_max, ulong, 0444);

bool nnet_planted;
module_param_named(planted, nnet_planted, bool, 0444);
MODULE_PARM_DESC(planted, "for tests: the forwarder panics on request");

unsigned int nnet_id;

const char *const nnet_count_names[NNET_COUNTS] = {
	[NNET_LINEARIZED] = "linearized", [NNET_HEAD_COPIED] = "head_copied",
	[NNET_FRAGMENT_COPIED] = "fragment_copied", [NNET_OCTET_PATCHED] = "octet_patched",
	[NNET_SOCKET_FULL] = "socket_full", [NNET_DEVICE_REFUSED] = "device_refused", [NNET_DEVICE_DOWN] = "device_down",
	[NNET_OUT_FULL] = "out_full", [NNET_NO_FACE] = "no_face", [NNET_NO_MEMORY] = "no_memory",
	[NNET_NO_NEIGHBOR] = "no_neighbor", [NNET_IN_SOFTIRQ] = "in_softirq", [NNET_IN_TASK] = "in_task",
	[NNET_DISPATCHED] = "dispatched", [NNET_DISPATCHER_FULL] = "dispatcher_full",
	[NNET_UNREADABLE] = "unreadable", [NNET_BAD_DIGEST] = "bad_digest",
	[NNET_NOT_ASKED_FOR] = "not_asked_for", [NNET_NO_SUCH_SEGMENT] = "no_such_segment",
};

int nnet_need_instance(struct nnet *nn)
{
	const struct nn_limits limits = {
		.faces = faces_max, .pit_entries = pit_entries_max, .cs_packets = cs_packets_max,
		.fib_entries = fib_entries_max, .bindings = bindings_max, .strategies = strategies_max,
		.cs_octets = cs_octets_max,
	};
	struct nn_call call = {
		.op = NN_MAKE, .limits = &limits, .value = get_random_u64(), .face = get_random_u64(),
	};
	int err;

	lockdep_assert_held(&nn->lock);
	if (nn->stopped)
		return -EIO;
	if (nn->instance)
		return 0;
	err = nnet_call_calm(nn, &call);
	if (!err && call.answer < 0)
		err = call.answer;
	if (!err)
		smp_store_release(&nn->instance, call.instance);
	return err;
}

/* ---- timers ---- */

void nnet_due(struct nnet *nn, u64 due_ns)
{
	u64 now_ns;

	if (due_ns >= READ_ONCE(nn->due_ns))
		return;
	spin_lock_bh(&nn->due_lock);
	/* Checked again, and the timer set under the lock: of two calls at once the earlier time holds. */
	if (due_ns < nn->due_ns) {
		now_ns = ktime_get_ns();
		WRITE_ONCE(nn->due_ns, due_ns);
		mod_delayed_work(system_wq, &nn->work,
				 due_ns > now_ns ? nsecs_to_jiffies(due_ns - now_ns) + 1 : 0);
	}
	spin_unlock_bh(&nn->due_lock);
}

static void nnet_work(struct work_struct *work)
{
	struct nnet *nn = container_of(work, struct nnet, work.work);
	struct nnet_face *face;
	unsigned long id;
	u64 due_ns;

	/* The entry of a time that was set before this line is in the tables: the expiry finds it. */
	WRITE_ONCE(nn->due_ns, U64_MAX);
	due_ns = nnet_expire(nn);
	rcu_read_lock();
	xa_for_each(&nn->faces, id, face) {
		struct nn_call tick = { .op = NN_LINK_TICK, .link = face->link };

		if (face->dev && !nnet_call(nn, &tick))
			due_ns = min_t(u64, due_ns, tick.answer);
	}
	rcu_read_unlock();
	nnet_due(nn, due_ns);
}

int nnet_rows(struct nnet *nn, enum nn_table table, u64 *cursor,
	      bool (*row)(void *into, const struct nn_row *row), void *into)
{
	struct nn_call call = { .op = NN_ROWS, .value = table, .face = *cursor };
	int err = 0;

	mutex_lock(&nn->lock);
	if (!nn->instance) {
		*cursor = NN_ROWS_END;
	} else {
		nn->row = row;
		nn->row_into = into;
		err = nnet_call(nn, &call);
		*cursor = call.answer;
	}
	mutex_unlock(&nn->lock);
	return err;
}

/* ---- network namespaces ---- */

static int __net_init nnet_net_init(struct net *net)
{
	struct nnet *nn = nnet_of(net);

	nn->net = net;
	nn->due_ns = U64_MAX;
	spin_lock_init(&nn->due_lock);
	mutex_init(&nn->lock);
	xa_init(&nn->faces);
	hash_init(nn->lower);
	INIT_DELAYED_WORK(&nn->work, nnet_work);
	return nnet_proc_init(nn);
}

/* The namespace's sockets and devices are gone; packets under way end under RCU. */
static void __net_exit nnet_net_exit(struct net *net)
{
	struct nnet *nn = nnet_of(net);
	struct nnet_face *face;
	unsigned long id;

	nnet_proc_exit(nn);
	mutex_lock(&nn->lock);
	nnet_store_detach(nn);
	xa_for_each(&nn->faces, id, face)
		nnet_face_del(face);
	mutex_unlock(&nn->lock);
	nnet_dispatch_flush();
	cancel_delayed_work_sync(&nn->work);
}

static void __net_exit nnet_net_exit_batch(struct list_head *nets)
{
	struct net *net;

	rcu_barrier();	/* faces free their links */
	list_for_each_entry(net, nets, exit_list) {
		struct nnet *nn = nnet_of(net);
		struct nn_call call = { .op = NN_FREE, .instance = nn->instance };

		cancel_delayed_work_sync(&nn->work);
		/* The memory of a stopped instance is lost: its state may be inconsistent. */
		if (nn->instance && !nn->stopped)
			nnet_call_calm(nn, &call);
		xa_destroy(&nn->faces);
	}
}

static struct pernet_operations nnet_net_ops = {
	.init = nnet_net_init,
	.exit = nnet_net_exit,
	.exit_batch = nnet_net_exit_batch,
	.id = &nnet_id,
	.size = sizeof(struct nnet),
};

/* ---- the module ---- */

/* The sources of packets start last and end first, because they use the other parts. */
static int __init nnet_init(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct sockaddr_nnet) != sizeof(struct sockaddr_storage));
	nnet_hasher_init();
	err = nnet_cpus_init();
	if (err)
		goto cpus;
	err = nnet_dispatch_init();
	if (err)
		goto cpus;
	err = register_pernet_subsys(&nnet_net_ops);
	if (err)
		goto dispatch;
	err = nnet_face_init();
	if (err)
		goto net;
	err = nnet_sock_init();
	if (err)
		goto face;
	err = nnet_genl_init();
	if (err)
		goto sock;
	return 0;

sock:
	nnet_sock_exit();
face:
	nnet_face_exit();
net:
	unregister_pernet_subsys(&nnet_net_ops);
dispatch:
	nnet_dispatch_exit();
cpus:
	nnet_cpus_exit();
	nnet_hasher_exit();
	return err;
}

static void __exit nnet_exit(void)
{
	nnet_genl_exit();
	nnet_sock_exit();
	nnet_face_exit();
	unregister_pernet_subsys(&nnet_net_ops);
	nnet_dispatch_exit();
	rcu_barrier();
	nnet_cpus_exit();
	nnet_hasher_exit();
	pr_info("nnet: %ld octets left\n", nnet_memory_octets());
}

module_init(nnet_init);
module_exit(nnet_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Named Data Networking: the forwarding core of namely");
