/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Nodes learn of an endpoint, and of its end, at different times. A request that the node of the
 * backend cannot deliver goes back to the node that sent it, in Geneve again, with a flag; that one
 * begins the connection anew, with SNAT, which needs nothing of the other node. So nothing is lost.
 * What is given back is never sent in Geneve again: no packet goes round.
 */
#ifndef FAIRLEAD_GENEVE_BACK_H
#define FAIRLEAD_GENEVE_BACK_H

#include "packet/flow/begin.h"
#include "packet/flow/choose.h"
#include "packet/geneve/send.h"
#include "packet/geneve/unwrap.h"

/* --- at the node of the backend ----------------------------------------------------------------
 */

/* Source and destination change places, which no checksum tells. */
static __always_inline long turn_round(struct __sk_buff *skb, const struct packet *p, __u32 outer)
{
	struct address both[2] = {p->way.source, p->way.node};

	if (family_of(&p->way.node) == FAMILY_IPV6)
		return bpf_skb_store_bytes(skb, outer + offsetof(struct ipv6hdr, saddr), both,
					   sizeof(both), 0);
	both[0].word[0] = p->way.source.word[3];
	both[0].word[1] = p->way.node.word[3];
	return bpf_skb_store_bytes(skb, outer + offsetof(struct iphdr, saddr), both,
				   2 * sizeof(__be32), 0);
}

/* The packet inside has been parsed; around it Geneve is as it came. */
__noinline int fl_give_back(struct __sk_buff *skb)
{
	__u8 flags = GENEVE_GIVEN_BACK;
	struct packet *p = this_packet();
	__u32 outer, udp;
	__be16 port;

	if (!p)
		return TC_ACT_SHOT;
	outer = p->network - overhead_by(&p->way, p->way.inner);
	udp = outer + size_of_outer(p);
	port = bpf_htons(port_of(peer_at(&p->way.node)));
	__builtin_memset(&p->conn.conn, 0, sizeof(p->conn.conn)); /* what the way is asked for */
	p->way.mtu = 0;
	if (!fl_find_way(skb))
		return unanswered(REASON_DIRECT_NO_ROUTE);
	if (turn_round(skb, p, outer) ||
	    bpf_skb_store_bytes(skb, udp + offsetof(struct udphdr, dest), &port, sizeof(port), 0) ||
	    bpf_skb_store_bytes(skb, udp + sizeof(struct udphdr) + OPTION_FLAGS, &flags,
				sizeof(flags), 0))
		return unanswered(REASON_DIRECT_NOT_WRAPPED);
	return send_by(&p->way.fib);
}

/* --- at the node that has sent it --------------------------------------------------------------
 */

/* That of p->conn is p->choice, which the option names. */
static __always_inline bool is_of_named(const struct packet *p)
{
	return p->conn.conn.backend_port == p->choice.port &&
	       is_same_address(&p->backend, &p->choice.address);
}

/* UNDECIDED: the packet begins a connection, with the backend of p->conn if that is there. */
static __always_inline int end_direct_conn(struct __sk_buff *skb, struct packet *p,
					   enum family family)
{
	if (!find_request(p, family)) {
		__builtin_memset(&p->conn.conn, 0, sizeof(p->conn.conn));
		return UNDECIDED;
	}
	/* An earlier packet has been given back. */
	if (!p->conn.conn.life.flags.direct_return)
		return request(skb, family);
	if (!is_of_named(p))
		return unanswered(REASON_DIRECT_OUTDATED);
	end_conn(family);
	return UNDECIDED;
}

static __always_inline int take_back(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	int action;

	if (!p)
		return TC_ACT_SHOT;
	count_reason(REASON_DIRECT_GIVEN_BACK);
	set_now(p);
	action = end_direct_conn(skb, p, family);
	if (action != UNDECIDED)
		return action;
	if (!frontend_of_destination(p, family))
		return unanswered(REASON_GENEVE_NOT_A_FRONTEND);
	p->keeps_backend = true;
	action = choose_backend(skb, p, false, family);
	if (action != UNDECIDED)
		return action;
	return family == FAMILY_IPV4 ? fl_begin4(skb) : fl_begin6(skb);
}

__noinline int fl_take_back4(struct __sk_buff *skb)
{
	return take_back(skb, FAMILY_IPV4);
}

__noinline int fl_take_back6(struct __sk_buff *skb)
{
	return take_back(skb, FAMILY_IPV6);
}

#endif
