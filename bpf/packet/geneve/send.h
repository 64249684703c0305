/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests of direct return, at the node that chose the backend. Their flow has its flow leg here,
 * and no other: what the backend answers never comes by. So its state is what the client's packets
 * tell.
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
 * The packet is of p->flow, and p->way is known. UNDECIDED: as check_way(). Two functions side by
 * side: nested, they and what calls them would need more than a stack of 512 bytes.
 */
static __always_inline int send(struct __sk_buff *skb, const struct packet *p, enum family family)
{
	int action = family == FAMILY_IPV4 ? fl_check_way4(skb) : fl_check_way6(skb);

	if (action != GOES_DIRECTLY)
		return action;
	if (p->flow.flags.ipip)
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

/* --- a flow that goes on -----------------------------------------------------------------------
 */

/*
 * A SYN of a connection in which the client has sent a FIN. Whether the backend has sent one, too,
 * is not known here: it may be half-closed, and anybody can send a SYN; or it has ended, as most
 * have, and the client begins another one. So the backend stays if it takes new ones, and for as
 * long as nf_conntrack remembers a connection that both sides have ended.
 */
static __always_inline bool keeps_half_closed(const struct packet *p, enum family family)
{
	return age_of(p->now, p->flow.seen_seconds) <= RESERVED_SECONDS &&
	       backend_state_of(p, family) == BACKEND_ACTIVE;
}

/* As goes_on(), without a nat leg. */
static __always_inline bool direct_goes_on(const struct packet *p, enum family family)
{
	const struct packet_settings *s = packet_settings();

	if (!s)
		return true;
	if (!backend_is_there(p, family))
		return !is_first(p) && !s->flags.reset_gone;
	if (!is_first(p))
		return true;
	if (p->flow.state == FLOW_HALF_CLOSED)
		return keeps_half_closed(p, family);
	return p->flow.state != FLOW_CLOSED &&
	       age_of(p->now, p->flow.seen_seconds) <=
		       timeout_of(s, p->wire.protocol, p->flow.state);
}

/* What follows shows whether the SYN begins another connection: until then the state stays. */
static __always_inline void note_syn(const struct packet *p, struct flow *flow, enum family family)
{
	if (!p->syn || !flow->flags.client_fin)
		return;
	flow->flags.client_fin = 0;
	*progress_of(flow, family) = p->progress;
}

/* An ACK follows an answer; a datagram does if it is sent later than in the first second. */
static __always_inline enum flow_state direct_state(const struct packet *p, const struct flow *flow)
{
	if (flow->flags.reset)
		return FLOW_CLOSED;
	if (flow->flags.client_fin)
		return FLOW_HALF_CLOSED;
	if (flow->state != FLOW_NEW || p->wire.protocol == PROTOCOL_TCP)
		return p->tcp_flags & TCP_ACK ? FLOW_ESTABLISHED : flow->state;
	return flow->born_seconds != p->now ? FLOW_ESTABLISHED : FLOW_NEW;
}

/* Into a full table: once a second. */
static __always_inline void promote_direct(struct packet *p, struct flow *flow, enum family family)
{
	if (flow->state == FLOW_NEW ||
	    (flow->state == p->flow.state && p->flow.seen_seconds == p->now))
		return;
	if (put_flow(TIER_MAIN, &p->wire, flow, BPF_ANY, family))
		count_reason(REASON_FLOW_TABLE_FULL);
	else
		delete_flow(TIER_NEW, &p->wire, family);
}

static __always_inline void forget_direct(struct packet *p, enum family family)
{
	keep_traffic(&p->flow, NULL);
	forget_flow(p, family);
}

/* Global, see backend.h: a request ends its flow in several ways. */
__noinline int fl_forget_direct4(void)
{
	struct packet *p = this_packet();

	if (p)
		forget_direct(p, FAMILY_IPV4);
	return 0;
}

__noinline int fl_forget_direct6(void)
{
	struct packet *p = this_packet();

	if (p)
		forget_direct(p, FAMILY_IPV6);
	return 0;
}

static __always_inline int end_direct(enum family family)
{
	return family == FAMILY_IPV4 ? fl_forget_direct4() : fl_forget_direct6();
}

/* What it does not return it leaves to whoever begins flows. */
static __always_inline int direct_request(struct __sk_buff *skb, struct packet *p,
					  enum family family)
{
	struct flow *flow = find_flow(TIER_MAIN, &p->wire, family);
	bool is_in_main = flow != NULL;
	int action;

	if (!flow)
		flow = find_flow(TIER_NEW, &p->wire, family);
	if (!flow || !read_flow(p, flow, family))
		return UNDECIDED;
	if (!can_be_wrapped(skb, p)) {
		if (p->wire.protocol != PROTOCOL_UDP)
			return unanswered(REASON_DIRECT_NOT_WRAPPED);
		p->keeps_backend = true;
		end_direct(family);
		return UNDECIDED;
	}
	if (!direct_goes_on(p, family)) {
		end_direct(family);
		return UNDECIDED;
	}
	if (!fl_find_node()) {
		count_reason(REASON_DIRECT_NO_PEER);
		/* Datagrams go on with SNAT; a connection cannot, and was known here. */
		p->keeps_backend = p->wire.protocol == PROTOCOL_UDP;
		note_former(p, p->flow.backend_id);
		end_direct(family);
		return UNDECIDED;
	}
	account(p, flow, family);
	note_syn(p, flow, family);
	flow->state = direct_state(p, flow);
	if (!is_in_main)
		promote_direct(p, flow, family);
	if (!fl_find_way(skb))
		return unanswered(REASON_DIRECT_NO_ROUTE);
	action = send(skb, p, family);
	if (action == UNDECIDED) {
		p->keeps_backend = true;
		end_direct(family);
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
