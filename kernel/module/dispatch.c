// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The dispatcher. A card that cannot spread frames without IP over its queues delivers all of them
 * to one processor. The dispatcher passes packets on to other processors, by the hash of the whole
 * name or at random.
 */
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/siphash.h>
#include <linux/workqueue.h>
#include "nnet.h"

enum { DISPATCH_OFF, DISPATCH_BY_NAME, DISPATCH_AT_RANDOM };

static uint dispatch, dispatch_queue_max = 1024;
static bool dispatch_own;
module_param(dispatch, uint, 0644);
MODULE_PARM_DESC(dispatch, "who processes what a device brings: 0 the processor it came to, 1 one for each name, 2 any");
module_param(dispatch_own, bool, 0644);
MODULE_PARM_DESC(dispatch_own, "the processor that dispatches keeps none for itself");
module_param(dispatch_queue_max, uint, 0644);
MODULE_PARM_DESC(dispatch_queue_max, "packets that wait for one processor");

/* Packets that wait for a processor. */
struct processor {
	struct sk_buff_head waiting;
	struct work_struct work;
};

static struct processor __percpu *processors;
static struct workqueue_struct *queue;
static siphash_key_t key;

/* The hash of the whole name; for fragments and packets without a name, the hash of the face. */
static u32 hash_of(struct nnet *nn, const struct nnet_face *face, const struct sk_buff *skb)
{
	struct nn_call call = { .op = NN_WHOLE_NAME, .name = skb->data, .name_len = skb->len };
	u32 offset, len;

	if (nnet_call(nn, &call) || call.answer <= 0)
		return siphash_1u64(face->id, &key);
	offset = call.answer >> 32;
	len = (u32)call.answer;
	return siphash(skb->data + offset, len, &key);
}

static int pick(u32 hash, int here)
{
	bool is_own = READ_ONCE(dispatch_own);
	u32 count = num_online_cpus() - is_own, nth;
	int cpu;

	if (!count)
		return here;
	nth = reciprocal_scale(hash, count);
	for_each_online_cpu(cpu)
		if (!(is_own && cpu == here) && !nth--)
			return cpu;
	return here;
}

bool nnet_dispatch(struct nnet_face *face, struct sk_buff *skb, const u8 *from)
{
	int here = smp_processor_id(), cpu;
	struct nnet *nn = face->nn;
	struct processor *to;

	switch (READ_ONCE(dispatch)) {
	case DISPATCH_BY_NAME:
		cpu = pick(hash_of(nn, face, skb), here);
		break;
	case DISPATCH_AT_RANDOM:
		cpu = pick(get_random_u32(), here);
		break;
	default:
		return false;
	}
	if (cpu == here)
		return false;
	to = per_cpu_ptr(processors, cpu);
	if (skb_queue_len_lockless(&to->waiting) >= READ_ONCE(dispatch_queue_max)) {
		nnet_count(nn, NNET_DISPATCHER_FULL);
		kfree_skb(skb);
		return true;
	}
	nnet_count(nn, NNET_DISPATCHED);
	*nnet_parcel_of(skb) = (struct nnet_parcel){ .nn = nn, .face = face->id };
	ether_addr_copy(nnet_parcel_of(skb)->from, from);
	skb_queue_tail(&to->waiting, skb);
	queue_work_on(cpu, queue, &to->work);
	return true;
}

void nnet_dispatch_rest(struct sk_buff_head *parcels)
{
	struct processor *here = this_cpu_ptr(processors);

	spin_lock(&here->waiting.lock);
	skb_queue_splice_tail_init(parcels, &here->waiting);
	spin_unlock(&here->waiting.lock);
	queue_work_on(smp_processor_id(), queue, &here->work);
}

/* If the processor went offline meanwhile, another one runs its work. */
static void run(struct work_struct *work)
{
	struct processor *processor = container_of(work, struct processor, work);
	struct sk_buff_head parcels;

	__skb_queue_head_init(&parcels);
	spin_lock_bh(&processor->waiting.lock);
	skb_queue_splice_init(&processor->waiting, &parcels);
	spin_unlock_bh(&processor->waiting.lock);
	while (!skb_queue_empty(&parcels)) {
		nnet_take_dispatched(&parcels);
		cond_resched();
	}
}

void nnet_dispatch_flush(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		flush_work(&per_cpu_ptr(processors, cpu)->work);
}

int nnet_dispatch_init(void)
{
	int cpu;

	BUILD_BUG_ON(sizeof(struct nnet_parcel) > sizeof_field(struct sk_buff, cb));
	get_random_bytes(&key, sizeof(key));
	processors = alloc_percpu(struct processor);
	if (!processors)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		skb_queue_head_init(&per_cpu_ptr(processors, cpu)->waiting);
		INIT_WORK(&per_cpu_ptr(processors, cpu)->work, run);
	}
	queue = alloc_workqueue("nnet", WQ_HIGHPRI, 0);
	if (queue)
		return 0;
	free_percpu(processors);
	processors = NULL;
	return -ENOMEM;
}

void nnet_dispatch_exit(void)
{
	if (!processors)
		return;
	destroy_workqueue(queue);
	free_percpu(processors);
}
