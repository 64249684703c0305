/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests of direct return, at the node that chose the backend. What the backend answers never
 * comes by: the connection is one-sided, see conn/life/states.h.
 */
#ifndef FAIRLEAD_GENEVE_SEND_H
#define FAIRLEAD_GENEVE_SEND_H

#include "packet/flow/request.h"
#include "packet/geneve/wrap.h"
#include "packet/ipip/wrap.h"

/* --- one packet --------------------------------------------------------------------------------
 */

static __always_inline int tell_too_big(struct __sk_buff *skb, struct packet *p, __u32 overhead,
					enum family family)
{
	__u32 mtu = p->way.mtu - overhead;

	count_reason(REASON_DIRECT_TOO_BIG);
	return family == FAMILY_IPV4 ? fl_tell4(skb, ICMP_FRAGMENTATION, mtu)
				     : fl_tell6(skb, ICMPV6_TOO_BIG, mtu);
}

static __always_inline int tell_time_exceeded(struct __sk_buff *skb, enum family family)
{
	count_reason(REASON_DIRECT_TIME_EXCEEDED);
	return family == FAMILY_IPV4 ? fl_tell4(skb, ICMP_TIME_EXCEEDED, 0)
				     : fl_tell6(skb, ICMPV6_TIME_EXCEEDED, 0);
}

static __always_inline bool may_be_fragmented(struct __sk_buff *skb, const struct packet *p,
					      enum family family)
{
	__be16 field = 0;

	return family == FAMILY_IPV4 && p->wire.protocol == PROTOCOL_UDP &&
	       !bpf_skb_load_bytes(skb, p->network + offsetof(struct iphdr, frag_off), &field,
				   sizeof(field)) &&
	       !(field & bpf_htons(IPV4_DONT_FRAGMENT));
}

/* GOES_DIRECTLY: it may be wrapped. UNDECIDED: it does not fit, and nobody may be told so. */
static __always_inline int check_way(struct __sk_buff *skb, struct packet *p, enum family family)
{
	__u32 overhead = overhead_of_way(p, family);

	if (unlikely(!fits(skb, p, overhead)))
		return may_be_fragmented(skb, p, family) ? UNDECIDED
							 : tell_too_big(skb, p, overhead, family);
	if (unlikely(!has_hops(skb, p, family)))
		return tell_time_exceeded(skb, family);
	return GOES_DIRECTLY;
}

__noinline int fl_check_way4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? check_way(skb, p, FAMILY_IPV4) : TC_ACT_SHOT;
}

__noinline int fl_check_way6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? check_way(skb, p, FAMILY_IPV6) : TC_ACT_SHOT;
}

__noinline int fl_wrap4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? wrap(skb, p, FAMILY_IPV4) : TC_ACT_SHOT;
}

__noinline int fl_wrap6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? wrap(skb, p, FAMILY_IPV6) : TC_ACT_SHOT;
}

/*
 * The packet is of p->conn, and p->way is known. UNDECIDED: as check_way(). Two functions side by
 * side: nested, they and what calls them would need more than a stack of 512 bytes.
 */
static __always_inline int send(struct __sk_buff *skb, const struct packet *p, enum family family)
{
	int action = family == FAMILY_IPV4 ? fl_check_way4(skb) : fl_check_way6(skb);

	if (action != GOES_DIRECTLY)
		return action;
	if (p->conn.conn.life.flags.ipip)
		return family == FAMILY_IPV4 ? fl_wrap_ipip4(skb) : fl_wrap_ipip6(skb);
	return family == FAMILY_IPV4 ? fl_wrap4(skb) : fl_wrap6(skb);
}

/*
 * Without an Ethernet header, and before datagrams that are to be segmented (bpf_skb_adjust_room()
 * makes room for TCP alone), room cannot be made.
 */
static __always_inline bool can_be_wrapped(const struct __sk_buff *skb, const struct packet *p)
{
	return p->has_mac && (p->wire.protocol == PROTOCOL_TCP ||
			      (p->wire.protocol == PROTOCOL_UDP && !skb->gso_size));
}

/* --- a connection that goes on -----------------------------------------------------------------
 */

/* UNDECIDED: the packet begins a connection. */
static __always_inline int direct_request(struct __sk_buff *skb, struct packet *p,
					  enum family family)
{
	int action;

	if (!can_be_wrapped(skb, p)) {
		if (p->wire.protocol != PROTOCOL_UDP)
			return unanswered(REASON_DIRECT_NOT_WRAPPED);
		p->keeps_backend = true;
		end_conn(family);
		return UNDECIDED;
	}
	if (account(p, false, family) & BEGINS) {
		end_conn(family);
		return UNDECIDED;
	}
	if (!fl_find_node()) {
		count_reason(REASON_DIRECT_NO_PEER);
		/* Datagrams go on with SNAT; a connection cannot, and was known here. */
		p->keeps_backend = p->wire.protocol == PROTOCOL_UDP;
		note_former(p, family);
		end_conn(family);
		return UNDECIDED;
	}
	if (!fl_find_way(skb))
		return unanswered(REASON_DIRECT_NO_ROUTE);
	action = send(skb, p, family);
	if (action == UNDECIDED) {
		p->keeps_backend = true;
		end_conn(family);
	}
	return action;
}

__noinline int fl_direct_on4(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? direct_request(skb, p, FAMILY_IPV4) : LEAVE;
}

__noinline int fl_direct_on6(struct __sk_buff *skb)
{
	struct packet *p = this_packet();

	return p ? direct_request(skb, p, FAMILY_IPV6) : LEAVE;
}

static __always_inline int go_on_directly(struct __sk_buff *skb, enum family family)
{
	return family == FAMILY_IPV4 ? fl_direct_on4(skb) : fl_direct_on6(skb);
}

#endif
