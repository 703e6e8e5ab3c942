/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Buffers that the core releases. A buffer that the content store evicts was last touched tens of
 * thousands of packets ago, and freeing it at once would wait for one cache line after the other.
 * So the last few buffers are retained while their lines are prefetched, and are freed later in the
 * same call.
 */
#ifndef NNET_LEAVING_H
#define NNET_LEAVING_H

#include <linux/prefetch.h>
#include <linux/skbuff.h>

struct nnet_leaving {
	struct sk_buff *kept[4];
	unsigned int next;	/* the oldest of kept */
};

/* With bottom halves off. */
static inline void nnet_leave(struct nnet_leaving *leaving, struct sk_buff *skb)
{
	struct sk_buff *first = leaving->kept[leaving->next], *second;

	prefetchw(&skb->users);
	prefetch(&skb->end);
	leaving->kept[leaving->next] = skb;
	leaving->next = (leaving->next + 1) % ARRAY_SIZE(leaving->kept);
	second = leaving->kept[leaving->next];
	if (second)	/* its lines have arrived, which hold the address of the next one */
		prefetchw(&skb_shinfo(second)->dataref);
	if (first)
		consume_skb(first);
}

/*
 * Frees the retained buffers. Bottom halves have been off since they were retained. Each buffer is
 * taken out before it is freed, because its destructor may pass the door again.
 */
static inline void nnet_let_go(struct nnet_leaving *leaving)
{
	struct sk_buff *skb;
	int i;

	for (i = 0; i < ARRAY_SIZE(leaving->kept); i++) {
		skb = leaving->kept[i];
		leaving->kept[i] = NULL;
		if (skb)
			consume_skb(skb);
	}
}

#endif
