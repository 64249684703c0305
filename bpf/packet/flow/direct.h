/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets straight to a backend, from a port from which the client also has, or has had, a flow to
 * it through a frontend: the backend could not tell the two apart, and replies would be those of
 * the flow. A flow that has ended is deleted; one that lives keeps the port.
 */
#ifndef FAIRLEAD_DIRECT_H
#define FAIRLEAD_DIRECT_H

#include "packet/flow/legs.h"

/*
 * A packet of the backend that is no answer to a SYN, although nothing has answered the SYN that
 * the nat leg is of: it belongs to an older connection straight to the backend, which the SYN has
 * met there.
 */
static __always_inline bool is_of_older(const struct packet *p, const struct nat *nat)
{
	return p->wire.protocol == PROTOCOL_TCP && nat->flags.fresh && !nat->flags.replied &&
	       !(p->tcp_flags & (TCP_SYN | TCP_RST));
}

/*
 * Leaves the nat leg of p->nat to the older connection, as one whose frontend is the backend
 * itself. The SYN finds that when it is sent again, and the new connection gets another port.
 */
static __always_inline void leave_to_older(struct packet *p, struct nat *nat, enum family family)
{
	bool is_source = nat->flags.client_is_source;
	const struct address *backend = is_source ? &p->nat.destination : &p->nat.source;
	__u16 port = is_source ? p->nat.destination_port : p->nat.source_port;

	nat->flags.fresh = 0;
	nat->flags.masquerade = 0;
	nat->flags.replied = 1;
	nat->frontend_port = port;
	nat->client_port = is_source ? p->nat.source_port : p->nat.destination_port;
	nat->snat_port = 0;
	nat->seen_seconds = p->now;
	put_address(frontend_of(nat), backend, family);
	nat->check = check_of(p, &p->nat, backend, two_ports(port, nat->client_port), family);
}

/* Deletes the nat leg of p->nat, whose flow leg is gone. */
static __always_inline void forget_nat(struct packet *p, struct nat *nat, enum family family)
{
	forget_snat(p, nat, family);
	delete_nat(TIER_MAIN, &p->nat, family);
	delete_nat(TIER_NEW, &p->nat, family);
}

/*
 * Deletes the flow of the nat leg of p->nat if it has ended: if both sides say so, or if it has
 * expired. True: it is gone. False: it lives, and p->flow is its flow leg.
 */
static __always_inline bool forget_ended(struct packet *p, struct nat *nat, enum family family)
{
	struct flow *flow;
	bool is_gone = true;

	p->quoted = p->wire; /* not used otherwise for a packet that is no ICMP error */
	set_flow_key(p, nat, family);
	flow = find_flow_of(p, family);
	if (!flow || !read_flow(p, flow, family))
		forget_nat(p, nat, family);
	else if (state_of(&p->flow, nat) == FLOW_CLOSED || is_over(p, nat))
		forget(p, family);
	else
		is_gone = false;
	p->wire = p->quoted;
	return is_gone;
}

#endif
