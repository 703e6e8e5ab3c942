// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The recipe in a kernel: memory, packets and a panic as in the module, and the depth of the stack.
 * It runs when it is loaded. */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/sched/task_stack.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <crypto/sha2.h>
#include "leaving.h"
#include "recipe.h"

#define STOP() BUG()
ALL_NOT_CALLED

/* guard.S and unwind.S of kernel/module: its first member is the stack pointer. */
struct nk_guard {
	unsigned long sp;
};
int nk_guarded(void (*fn)(void *), void *arg, struct nk_guard *guard);
void nk_unwind(struct nk_guard *guard);

static ulong exchanges = 200000;
module_param(exchanges, ulong, 0444);

/* ---- memory ---- */

static long octets_held, refused;
static ulong at_once, at_once_large;

void *nk_alloc(size_t octets, size_t align)
{
	size_t asked = octets;
	void *at;

	if (align > ARCH_KMALLOC_MINALIGN && octets < PAGE_SIZE)
		asked = roundup_pow_of_two(max(octets, align));
	if (in_softirq()) {
		at = kmalloc(asked, GFP_ATOMIC | __GFP_NOWARN);
		at_once++;
		if (octets > PAGE_SIZE)
			at_once_large++;
	} else {
		at = kvmalloc(asked, GFP_KERNEL | __GFP_NOWARN);
	}
	if (at)
		octets_held += octets;
	else
		refused++;
	return at;
}

void nk_free(void *at, size_t octets)
{
	octets_held -= octets;
	kvfree(at);
}

/* ---- packets ---- */

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

void nk_skb_keep(struct sk_buff *skb)
{
	skb_get(skb);
}

static struct nnet_leaving leaving;

void nk_skb_put(struct sk_buff *skb)
{
	if (in_softirq())
		nnet_leave(&leaving, skb);
	else
		consume_skb(skb);
}

struct sk_buff *nk_skb_make(size_t len)
{
	struct sk_buff *skb = alloc_skb(LL_MAX_HEADER + len, in_softirq() ? GFP_ATOMIC : GFP_KERNEL);

	if (!skb)
		return NULL;
	skb_reserve(skb, LL_MAX_HEADER);
	skb_put_zero(skb, len);
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

void nk_sha256(const u8 *octets, size_t len, u8 *digest)
{
	sha256(octets, len, digest);
}

/* ---- a panic ends the call ---- */

static struct nk_guard *guard_here;

void nk_panic(const char *text, size_t len)
{
	pr_info("recipe: panic: %.*s\n", (int)len, text);
	if (guard_here)
		nk_unwind(guard_here);
	BUG();
}

void nk_lock_wait(void)
{
	cpu_relax();
}

static int guarded(void (*fn)(void *), void *arg)
{
	struct nk_guard guard, *outer = guard_here;
	int panicked;

	guard_here = &guard;
	panicked = nk_guarded(fn, arg, &guard);
	guard_here = outer;
	return panicked;
}

/* ---- the depth of the stack: the part below is filled, and checked later ---- */

#define FILLED 0xa5a5a5a5a5a5a5a5ul

static ulong low, high, top;

static noinline void fill(void)
{
	ulong at, end = (ulong)__builtin_frame_address(0) - 128;

	for (at = low; at < end; at += sizeof(ulong))
		*(ulong *)at = FILLED;
}

static ulong used(void)
{
	ulong at = low;

	while (at < high && *(ulong *)at == FILLED)
		at += sizeof(ulong);
	return high - at;
}

u64 rc_now(void)
{
	return ktime_get_ns();
}

/* From here on the depth of the stack is measured from the caller of the core. */
void rc_begin(void)
{
	high = (ulong)__builtin_frame_address(0);
	local_bh_disable();
}

void rc_end(void)
{
	nnet_let_go(&leaving);
	local_bh_enable();
	cond_resched();
}

void rc_mark(const char *what, size_t octets)
{
	pr_info("recipe: %-14.*s memory_kib %ld stack %lu at_once %lu at_once_large %lu refused %ld\n",
		(int)octets, what, octets_held >> 10, used(), at_once, at_once_large, refused);
	at_once = at_once_large = 0;
	high = top;
	fill();
}

/* ---- ---- */

static struct result result;
static int answer = -EIO;

static void smoke(void *unused)
{
	answer = rc_smoke(exchanges, &result);
}

static void planted(void *unused)
{
	rc_planted();
}

static DECLARE_COMPLETION(done);

static int run(void *unused)
{
	int survived;

	low = (ulong)task_stack_page(current) + 512;
	high = top = (ulong)__builtin_frame_address(0);
	fill();
	if (guarded(smoke, NULL))
		answer = -EIO;
	pr_info(RESULT, RESULT_OF(answer, result));
	local_bh_disable();
	survived = guarded(planted, NULL);
	local_bh_enable();
	pr_info("recipe: planted %s\n", survived ? "survived" : "lost");
	pr_info("recipe: left %ld\n", octets_held);
	complete(&done);
	return 0;
}

static int __init recipe_init(void)
{
	struct task_struct *task = kthread_run(run, NULL, "recipe");

	if (IS_ERR(task))
		return PTR_ERR(task);
	wait_for_completion(&done);
	return 0;
}

static void __exit recipe_exit(void)
{
}

module_init(recipe_init);
module_exit(recipe_exit);
MODULE_DESCRIPTION("The forwarding core of namely, measured");
MODULE_LICENSE("Dual MIT/GPL");
