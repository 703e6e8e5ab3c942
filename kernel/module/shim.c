// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Services for the core: the guard around its door, memory, waiting for locks, SHA-256. */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <crypto/hash.h>
#include <crypto/sha2.h>
#include "nnet.h"

/* ---- the door ---- */

/* The guard of the innermost call with bottom halves off, on each processor. */
static DEFINE_PER_CPU(struct nk_guard *, guard_here);
/* The guards of calls from tasks that may wait, and so may change the processor. */
static LIST_HEAD(guards_calm);
static DEFINE_SPINLOCK(guards_calm_lock);

static struct nk_guard *guard_of_caller(void)
{
	struct nk_guard *guard, *found = NULL;

	if (in_softirq())
		return this_cpu_read(guard_here);
	spin_lock_bh(&guards_calm_lock);
	list_for_each_entry(guard, &guards_calm, calm)
		if (guard->task == current)
			found = guard;
	spin_unlock_bh(&guards_calm_lock);
	return found;
}

static void stopped(struct nnet *nn)
{
	bool is_told = !nn || READ_ONCE(nn->stopped);

	if (!nn)
		return;
	WRITE_ONCE(nn->stopped, true);
	pr_err("nnet: the forwarder of network namespace %u has stopped\n", nn->net->ns.inum);
	if (!is_told)
		nnet_tell_stopped(nn);
}

/* The longest passage is not exact: of two calls at once, the shorter one may overwrite it. */
static void note_passage(struct nnet *nn, const struct nn_call *call)
{
	u64 ns = ktime_get_ns() - call->now_ns;
	enum nnet_passage what = NNET_FOR_CONTROL;

	if (call->op == NN_PACKETS)
		what = NNET_FOR_PACKETS;
	else if (call->op == NN_EXPIRE || call->op == NN_LINK_TICK)
		what = NNET_FOR_TIME;
	else if (call->op == NN_ROWS || call->op == NN_LINK_ROWS)
		what = NNET_FOR_LISTS;
	atomic64_inc(&nn->passages[what][min_t(int, fls64(ns >> 10), NNET_PASSAGE_TIMES - 1)]);
	if (ns > READ_ONCE(nn->longest_ns[what]))
		WRITE_ONCE(nn->longest_ns[what], ns);
}

int nnet_call(struct nnet *nn, struct nn_call *call)
{
	struct nk_guard guard = { .nn = nn };
	int err = -ESHUTDOWN;

	call->home = nn;
	call->instance = nn->instance;
	local_bh_disable();
	call->now_ns = ktime_get_ns();
	call->workspace = this_cpu_ptr(nnet_cpus)->workspace;
	if (likely(nn->instance && !READ_ONCE(nn->stopped))) {
		guard.outer = this_cpu_read(guard_here);
		this_cpu_write(guard_here, &guard);
		err = nk_guarded(nn_call, call, &guard) ? -EIO : 0;
		this_cpu_write(guard_here, guard.outer);
		nnet_let_go(&this_cpu_ptr(nnet_cpus)->leaving);
		if (unlikely(err))
			stopped(nn);
		note_passage(nn, call);
	}
	local_bh_enable();
	return err;
}

int nnet_call_calm(struct nnet *nn, struct nn_call *call)
{
	struct nk_guard guard = { .nn = nn, .task = current };
	int panicked;

	might_sleep();
	spin_lock_bh(&guards_calm_lock);
	list_add(&guard.calm, &guards_calm);
	spin_unlock_bh(&guards_calm_lock);
	panicked = nk_guarded(nn_call, call, &guard);
	spin_lock_bh(&guards_calm_lock);
	list_del(&guard.calm);
	spin_unlock_bh(&guards_calm_lock);
	if (panicked)
		stopped(nn);
	return panicked ? -EIO : 0;
}

s64 nnet_ask(struct nnet *nn, struct nn_call *call)
{
	int err = nnet_call(nn, call);

	return err ? err : call->answer;
}

s64 nnet_ask_with_room(struct nnet *nn, enum nn_table table, struct nn_call *call)
{
	struct nn_call room = {
		.op = NN_MAKE_ROOM, .value = table, .instance = nn->instance,
		.name = call->name, .name_len = call->name_len,
	};
	int err = READ_ONCE(nn->stopped) ? -ESHUTDOWN : nnet_call_calm(nn, &room);

	if (!err && room.answer < 0)
		err = room.answer;
	return err ? err : nnet_ask(nn, call);
}

/* ---- called by the core ---- */

void nk_panic(const char *text, size_t len);
void nk_lock_wait(void);
void nk_linger(void);
void *nk_alloc(size_t octets, size_t align);
void nk_free(void *at, size_t octets);
void nk_sha256(const u8 *octets, size_t len, u8 *digest);

/* Does not return. nk_unwind abandons its frame, so KASAN must not mark that. */
void __no_sanitize_address nk_panic(const char *text, size_t len)
{
	struct nk_guard *guard = guard_of_caller();

	pr_err("nnet: the core panicked%s: %.*s\n", in_serving_softirq() ? " in a softirq" : "",
	       (int)len, text);
	if (guard && guard->nn)
		scnprintf(guard->nn->why, sizeof(guard->nn->why), "%.*s", (int)len, text);
	if (guard)
		nk_unwind(guard);
	BUG();
}

/* If the owner of the lock panicked, the lock stays taken: then the waiting call unwinds, too. */
void __no_sanitize_address nk_lock_wait(void)
{
	struct nk_guard *guard = guard_of_caller();

	cpu_relax();
	if (guard && guard->nn && READ_ONCE(guard->nn->stopped))
		nk_unwind(guard);
}

void nk_linger(void)
{
	mdelay(300);
}

static atomic_long_t memory_octets = ATOMIC_LONG_INIT(0);
static atomic_long_t memory_refused = ATOMIC_LONG_INIT(0);
static atomic_long_t memory_at_once = ATOMIC_LONG_INIT(0);
static atomic_long_t memory_at_once_large = ATOMIC_LONG_INIT(0);

void *nk_alloc(size_t octets, size_t align)
{
	bool at_once = in_softirq() || irqs_disabled();
	size_t asked = octets;
	void *at;

	/* Slab objects of a power of two are aligned to their size, and so are pages. */
	if (align > ARCH_KMALLOC_MINALIGN && octets < PAGE_SIZE)
		asked = roundup_pow_of_two(max(octets, align));
	if (at_once) {
		at = kmalloc(asked, GFP_ATOMIC | __GFP_NOWARN);
		atomic_long_inc(&memory_at_once);
		if (octets > PAGE_SIZE)
			atomic_long_inc(&memory_at_once_large);
	} else {
		/* At the limit of a cgroup the call fails, and no process is killed for memory. */
		at = kvmalloc(asked, GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);
	}
	if (at)
		atomic_long_add(octets, &memory_octets);
	else
		atomic_long_inc(&memory_refused);
	return at;
}

void nk_free(void *at, size_t octets)
{
	atomic_long_sub(octets, &memory_octets);
	kvfree(at);
}

long nnet_memory_octets(void)
{
	return atomic_long_read(&memory_octets);
}

void nnet_memory_show(struct seq_file *seq)
{
	seq_printf(seq, "octets %ld\nrefused %ld\nat_once %ld\nat_once_large %ld\n",
		   atomic_long_read(&memory_octets), atomic_long_read(&memory_refused),
		   atomic_long_read(&memory_at_once), atomic_long_read(&memory_at_once_large));
}

/* The kernel's fastest SHA-256 for this processor; null: the C code of the kernel's library. */
static struct crypto_shash *hasher;

void nnet_hasher_init(void)
{
	hasher = crypto_alloc_shash("sha256", 0, 0);
	if (IS_ERR(hasher))
		hasher = NULL;
	pr_info("nnet: SHA-256 by %s\n", hasher ? crypto_shash_driver_name(hasher) : "the library");
}

void nnet_hasher_exit(void)
{
	if (hasher)
		crypto_free_shash(hasher);
}

void nk_sha256(const u8 *octets, size_t len, u8 *digest)
{
	if (!hasher || crypto_shash_tfm_digest(hasher, octets, len, digest))
		sha256(octets, len, digest);
}
