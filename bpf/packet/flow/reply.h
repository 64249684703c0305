/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Replies of masqueraded flows, at ingress: the destination becomes the client again. */
#ifndef FAIRLEAD_REPLY_H
#define FAIRLEAD_REPLY_H

#include "packet/rewrite.h"
#include "packet/flow/legs.h"

/* It begins a connection of the node itself from a port that an ended flow has had. */
static __always_inline bool is_of_node(const struct packet *p, const struct snat *snat)
{
	return (p->tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK) && is_ended(snat);
}

static __always_inline int on_reply_in(struct __sk_buff *skb, struct packet *p, enum tier tier,
				       enum family family)
{
	struct snat *found = find_snat(tier, &p->wire, family);
	struct address client;
	struct snat snat;

	if (!found)
		return UNDECIDED;
	snat = *found;
	get_address(client_of(found), &client, family);
	if (snat.check != check_of(p, &p->wire, &client, snat.client_port, family))
		return UNDECIDED;
	if (is_of_node(p, &snat)) {
		delete_snat(tier, &p->wire, family);
		return UNDECIDED;
	}
	if (snat.client_end.reserved)
		return UNDECIDED;
	if (unlikely(!snat.backend_end.answered))
		found->backend_end.answered = 1;
	p->may_end = false; /* the egress program knows, and notes it: see on_end() */
	note_end(p, &found->backend_end);
	if (snat.seen_seconds != p->now)
		found->seen_seconds = p->now;
	return set_destination(skb, p, &client, snat.client_port, family);
}

static __always_inline int on_reply(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	int action;

	if (!p)
		return LEAVE;
	action = on_reply_in(skb, p, TIER_MAIN, family);
	return action == UNDECIDED ? on_reply_in(skb, p, TIER_NEW, family) : action;
}

__noinline int fl_reply4(struct __sk_buff *skb)
{
	return on_reply(skb, FAMILY_IPV4);
}

__noinline int fl_reply6(struct __sk_buff *skb)
{
	return on_reply(skb, FAMILY_IPV6);
}

static __always_inline int reply(struct __sk_buff *skb, enum family family)
{
	return family == FAMILY_IPV4 ? fl_reply4(skb) : fl_reply6(skb);
}

#endif
