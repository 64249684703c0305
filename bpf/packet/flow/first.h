/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets without a flow, at ingress: is it for a Service, and does it begin a flow? */
#ifndef FAIRLEAD_FIRST_H
#define FAIRLEAD_FIRST_H

#include "packet/answer/refuse.h"
#include "packet/answer/reset.h"
#include "packet/answer/stale.h"
#include "packet/flow/adopt.h"
#include "packet/flow/new_flow.h"
#include "packet/fragment.h"
#include "packet/geneve/begin.h"
#include "packet/geneve/receive.h"

/*
 * TCP that is neither a first packet nor of a flow. To an address of the node it may be of a
 * connection of the node's own, or of one that netfilter masquerades, which has the number of a
 * NodePort: there the kernel knows, and sends the RST. Elsewhere it may be of a connection that a
 * table of Maglev knows.
 */
static __always_inline int on_unknown(struct __sk_buff *skb, struct packet *p, enum family family)
{
	const struct packet_settings *s = packet_settings();
	bool is_left;
	int action;

	set_now(p);
	is_left = !s || p->now < s->reset_unknown_from || answers_node_ports(&p->request, family);
	if (!is_left) {
		action = family == FAMILY_IPV4 ? fl_adopt4(skb) : fl_adopt6(skb);
		if (action != UNDECIDED)
			return action;
	}
	p->choice.reason = REASON_UNKNOWN_CONNECTION;
	count_choice(&p->choice);
	if (is_left)
		return LEAVE;
	return family == FAMILY_IPV4 ? fl_reset4(skb) : fl_reset6(skb);
}

/*
 * While flows are carried over to other maps, one that begins would be known to half of the
 * programs. Who finds a hold that has ended removes it: its low bits would come again.
 */
static __always_inline bool is_held(struct packet *p)
{
	struct packet_settings *s = packet_settings();

	/* Nobody sends a datagram again. */
	if (!s || !s->hold_until || p->wire.protocol == PROTOCOL_UDP)
		return false;
	set_now(p);
	if ((__u16)(s->hold_until - (__u16)p->now) <= HOLD_SECONDS)
		return true;
	s->hold_until = 0;
	return false;
}

/* For no frontend. */
static __always_inline int on_other(struct __sk_buff *skb, const struct packet *p,
				    enum family family)
{
	if (p->syn)
		return family == FAMILY_IPV4 ? fl_direct4(skb) : fl_direct6(skb);
	if (p->wire.protocol != PROTOCOL_UDP)
		return LEAVE;
	if (unlikely(may_be_geneve(p)))
		return fl_receive(skb);
	if (unlikely(refuses_sockets()))
		return family == FAMILY_IPV4 ? fl_datagram4(skb) : fl_datagram6(skb);
	return LEAVE;
}

static __always_inline int on_first(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	int verdict;

	if (!p)
		return LEAVE;
	if (!frontend_of_destination(p, family))
		return on_other(skb, p, family);
	if (is_held(p))
		return TC_ACT_SHOT;
	set_client(skb, p);
	verdict = family == FAMILY_IPV4 ? fl_select4() : fl_select6();
	if (verdict == VERDICT_LEAVE)
		return LEAVE;
	if (verdict == VERDICT_REFUSE && p->choice.reason == REASON_FLOW_ENDED)
		return on_unknown(skb, p, family);
	count_choice(&p->choice);
	if (verdict == VERDICT_DROP)
		return TC_ACT_SHOT;
	if (verdict == VERDICT_REFUSE)
		return refuse(skb, family);
	if (unlikely(goes_directly(&p->choice))) {
		int action = family == FAMILY_IPV4 ? fl_begin_direct4(skb) : fl_begin_direct6(skb);

		if (action != UNDECIDED)
			return action;
	}
	return family == FAMILY_IPV4 ? fl_begin4(skb) : fl_begin6(skb);
}

__noinline int fl_first4(struct __sk_buff *skb)
{
	return on_first(skb, FAMILY_IPV4);
}

__noinline int fl_first6(struct __sk_buff *skb)
{
	return on_first(skb, FAMILY_IPV6);
}

/* Later fragments are no first packets, whatever their ports. */
static __always_inline int on_no_flow(struct __sk_buff *skb, struct packet *p, enum family family)
{
	if (p->is_later_fragment)
		return family == FAMILY_IPV4 ? fl_stray4() : fl_stray6();
	if (!may_be_frontend(&p->wire.destination, family) &&
	    !may_be_node_port(p->wire.destination_port))
		return on_other(skb, p, family);
	return family == FAMILY_IPV4 ? fl_first4(skb) : fl_first6(skb);
}

#endif
