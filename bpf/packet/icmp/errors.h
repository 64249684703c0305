/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about packets of flows. What an error quotes travelled in the opposite direction, as
 * it was on the wire where the error was made; so its reverse is the key of a leg:
 *
 *   ingress   quotes SNAT address -> backend    for the client; the reverse is a snat leg
 *             quotes frontend -> client         for the backend; the reverse is a flow leg
 *   egress    quotes client -> backend          for the client: shows the frontend
 *             quotes backend -> client          for the backend: shows the SNAT address
 *
 * The sender of the error stays, unless it is the side that must not show.
 */
#ifndef FAIRLEAD_ERRORS_H
#define FAIRLEAD_ERRORS_H

#include "packet/flow/legs.h"
#include "packet/geneve/error.h"
#include "packet/icmp/quoted.h"
#include "packet/uplink/way_back.h"

/* The error itself goes to another address. */
static __always_inline int forward_to(struct __sk_buff *skb, struct packet *p,
				      const struct address *a, enum family family)
{
	count_reason(REASON_ICMP_TRANSLATED);
	return set_destination(skb, p, a, 0, family);
}

/* --- ingress -----------------------------------------------------------------------------------
 */

static __always_inline int error_to_client(struct __sk_buff *skb, struct packet *p, enum tier tier,
					   enum family family)
{
	struct snat *found = find_snat(tier, &p->snat, family);
	__u16 port;
	int action;

	if (!found)
		return UNDECIDED;
	get_address(client_of(found), &p->frontend, family);
	port = found->client_port;
	if (found->check != check_of(p, &p->snat, &p->frontend, port, family))
		return UNDECIDED;
	action = set_quoted(skb, p, SIDE_SOURCE, &p->frontend, port, family);
	return action == LEAVE ? forward_to(skb, p, &p->frontend, family) : action;
}

static __always_inline int error_to_backend(struct __sk_buff *skb, struct packet *p, enum tier tier,
					    enum family family)
{
	struct flow *found = find_flow(tier, &p->snat, family);
	int action;

	if (!found)
		return UNDECIDED;
	p->flow = *found;
	get_address(backend_of(found), &p->backend, family);
	if (p->flow.check != check_of(p, &p->snat, &p->backend,
				      two_ports(p->flow.backend_port, p->flow.client_port), family))
		return UNDECIDED;
	action = set_quoted(skb, p, SIDE_SOURCE, &p->backend, p->flow.backend_port, family);
	if (action == LEAVE && p->flow.client_port != p->quoted.destination_port)
		action = set_quoted(skb, p, SIDE_DESTINATION, &p->quoted.destination,
				    p->flow.client_port, family);
	return action == LEAVE ? forward_to(skb, p, &p->backend, family) : action;
}

/* p->snat is the key of either leg. */
static __always_inline int on_error_in(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	int action;

	if (!p)
		return LEAVE;
	reverse(&p->quoted, &p->snat);
	action = error_to_client(skb, p, TIER_MAIN, family);
	if (action == UNDECIDED)
		action = error_to_client(skb, p, TIER_NEW, family);
	if (action == UNDECIDED)
		action = error_to_backend(skb, p, TIER_MAIN, family);
	if (action == UNDECIDED)
		action = error_to_backend(skb, p, TIER_NEW, family);
	return action == UNDECIDED ? fl_geneve_error(skb) : action;
}

__noinline int fl_error_in4(struct __sk_buff *skb)
{
	return on_error_in(skb, FAMILY_IPV4);
}

__noinline int fl_error_in6(struct __sk_buff *skb)
{
	return on_error_in(skb, FAMILY_IPV6);
}

/* --- egress ------------------------------------------------------------------------------------
 */

/* The sender of an error is shown as `shown` if it is `hidden`. */
static __always_inline int show_sender(struct __sk_buff *skb, struct packet *p,
				       const struct address *hidden, const struct address *shown,
				       enum family family)
{
	if (!is_same_address(&p->wire.source, hidden))
		return LEAVE;
	return set_source(skb, p, shown, 0, family);
}

static __always_inline int show_frontend(struct __sk_buff *skb, struct packet *p,
					 const struct nat *nat, enum family family)
{
	int action = show_sender(skb, p, &p->quoted.destination, &p->frontend, family);

	if (action == LEAVE)
		action = set_quoted(skb, p, SIDE_DESTINATION, &p->frontend, nat->frontend_port,
				    family);
	if (action == LEAVE && nat->client_port != p->quoted.source_port)
		action = set_quoted(skb, p, SIDE_SOURCE, &p->quoted.source, nat->client_port,
				    family);
	return action;
}

static __always_inline int show_snat(struct __sk_buff *skb, struct packet *p, const struct nat *nat,
				     enum family family)
{
	int action;

	if (!nat->flags.masquerade || !nat->snat_port)
		return LEAVE;
	action = show_sender(skb, p, &p->quoted.destination, &p->backend, family);
	if (action == LEAVE)
		action = set_quoted(skb, p, SIDE_DESTINATION, &p->backend, nat->snat_port, family);
	return action;
}

static __always_inline int on_error_out(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	struct nat *found;
	struct nat nat;
	int action;

	if (!p)
		return LEAVE;
	set_sorted(&p->quoted, &p->nat);
	found = find_nat_of(p, family);
	if (!found)
		return LEAVE;
	nat = *found;
	get_address(frontend_of(found), &p->frontend, family);
	get_address(snat_address_of(found, family), &p->backend, family);
	if (nat.check != check_of(p, &p->nat, &p->frontend,
				  two_ports(nat.frontend_port, nat.client_port), family))
		return LEAVE;
	if (ascends(&p->quoted) != nat.flags.client_is_source)
		return show_snat(skb, p, &nat, family);
	action = show_frontend(skb, p, &nat, family);
	return action == LEAVE ? return_by(skb, nat.answers_by, family) : action;
}

__noinline int fl_error_out4(struct __sk_buff *skb)
{
	return on_error_out(skb, FAMILY_IPV4);
}

__noinline int fl_error_out6(struct __sk_buff *skb)
{
	return on_error_out(skb, FAMILY_IPV6);
}

#endif
