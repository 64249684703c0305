/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of no connection, at ingress: whether one is for a Service, and begins a connection. */
#ifndef FAIRLEAD_FIRST_H
#define FAIRLEAD_FIRST_H

#include "packet/answer/stale.h"
#include "packet/flow/choose.h"
#include "packet/flow/fragment.h"
#include "packet/flow/older.h"
#include "packet/geneve/begin.h"
#include "packet/geneve/receive.h"

/* For no frontend. */
static __always_inline int on_other(struct __sk_buff *skb, const struct packet *p,
				    enum family family)
{
	if (p->syn)
		return on_direct(skb, family);
	if (p->wire.protocol != PROTOCOL_UDP)
		return LEAVE;
	if (unlikely(may_be_geneve(p)))
		return on_geneve(skb);
	return LEAVE;
}

static __always_inline int refuse_stale(struct __sk_buff *skb, enum family family)
{
	count_reason(REASON_REFUSED_STALE_SOCKET);
	return refuse(skb, family);
}

/* UNDECIDED: it is for no frontend. */
static __always_inline int on_first(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	int action;

	if (!p)
		return LEAVE;
	if (!frontend_of_destination(p, family)) {
		action = unlikely(may_be_of_stale(p)) ? fl_stale_datagrams(skb) : 0;
		if (!action)
			return UNDECIDED;
		if (action == STALE_REFUSED)
			return refuse_stale(skb, family);
		p->of_stale = true;
	}
	action = choose_backend(skb, p, true, family);
	if (action != UNDECIDED)
		return action == LEAVE && p->of_stale ? refuse_stale(skb, family) : action;
	/* Geneve has no place for the address that answers of a stale socket's are to come from. */
	if (with_direct_return && unlikely(goes_directly(p) && !p->of_stale)) {
		action = family == FAMILY_IPV4 ? fl_begin_direct4(skb) : fl_begin_direct6(skb);
		if (action != UNDECIDED)
			return action;
	}
	/* What the table knew, and gets a record after all: others have been asked before. */
	if (with_direct_return && is_held(p))
		return unanswered(REASON_DROPPED_BUSY);
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
static __always_inline int on_no_conn(struct __sk_buff *skb, struct packet *p, enum family family)
{
	int action = UNDECIDED;

	if (p->is_later_fragment)
		return family == FAMILY_IPV4 ? fl_stray4() : fl_stray6();
	if (may_be_frontend(&p->wire.destination, family) ||
	    may_be_node_port(p->wire.destination_port) || may_be_of_stale(p))
		action = family == FAMILY_IPV4 ? fl_first4(skb) : fl_first6(skb);
	return action == UNDECIDED ? on_other(skb, p, family) : action;
}

#endif
