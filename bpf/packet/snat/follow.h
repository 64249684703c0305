/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The life of a flow that is a connection of the node, see own.h. No request of it comes in, so
 * egress does for it what ingress does for others.
 */
#ifndef FAIRLEAD_FOLLOW_H
#define FAIRLEAD_FOLLOW_H

#include "packet/flow/request.h"

/* The flow is that of a new connection. */
static __always_inline void begin_anew(struct flow *flow, enum family family)
{
	flow->flags.client_fin = 0;
	flow->flags.reset = 0;
	if (flow->state != FLOW_NEW)
		flow->state = FLOW_ESTABLISHED;
	*progress_of(flow, family) = 0;
}

/* A request on its way out. */
static __always_inline void follow_own(struct packet *p, struct nat *nat, enum family family)
{
	bool is_anew = p->syn && p->syn != nat->syn;
	struct flow *flow;

	p->quoted = p->wire; /* not used otherwise for a packet that is no ICMP error */
	set_flow_key(p, nat, family);
	flow = find_flow_of(p, family);
	if (flow && read_flow(p, flow, family)) {
		if (is_anew) {
			begin_anew(flow, family);
			flow->state = FLOW_NEW;
		}
		account(p, flow, family);
		if (!p->syn)
			flow->state = FLOW_ESTABLISHED;
	}
	p->wire = p->quoted;
	if (is_anew) {
		nat->syn = p->syn;
		nat->flags.backend_fin = 0;
	}
	if (is_anew || goes_on_after_reset(p))
		nat->flags.reset = 0;
}

__noinline int fl_follow_own4(void)
{
	struct packet *p = this_packet();
	struct nat *nat = p ? find_nat_of(p, FAMILY_IPV4) : NULL;

	if (nat)
		follow_own(p, nat, FAMILY_IPV4);
	return 0;
}

__noinline int fl_follow_own6(void)
{
	struct packet *p = this_packet();
	struct nat *nat = p ? find_nat_of(p, FAMILY_IPV6) : NULL;

	if (nat)
		follow_own(p, nat, FAMILY_IPV6);
	return 0;
}

#endif
