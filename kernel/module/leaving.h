/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Buffers that the core lets go of. One that leaves the content store was last touched tens of
 * thousands of packets ago: to free it at once is to wait for its lines one after the other. So a
 * few are kept back while these come, and let go of later in the same call.
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
	if (second)	/* its own lines have come */
		prefetchw(&skb_shinfo(second)->dataref);
	if (first)
		consume_skb(first);
}

/*
 * With bottom halves still off as they were when these left. Each is taken out first, for the owner
 * of a buffer may pass the door again.
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
