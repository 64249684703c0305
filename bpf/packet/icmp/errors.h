/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about packets of connections. What an error quotes travelled in the opposite
 * direction, as it was on the wire where the error was made; so a connection is found by its
 * reverse:
 *
 *   ingress   quotes SNAT address -> backend    for the client
 *             quotes frontend -> client         for the backend
 *   egress    quotes client -> backend          for the client: shows the frontend
 *             quotes backend -> client          for the backend: shows the SNAT address
 *
 * The sender of the error stays, unless it is the side that must not show.
 */
#ifndef FAIRLEAD_ERRORS_H
#define FAIRLEAD_ERRORS_H

#include "packet/flow/known.h"
#include "packet/flow/stateless.h"
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

/* It quotes SNAT address -> backend. */
static __always_inline int error_to_client(struct __sk_buff *skb, struct packet *p,
					   enum family family)
{
	int action;

	if (!find_answered(p, &p->back, family) || !p->conn.conn.life.flags.masquerade ||
	    !has_tuple(&p->conn, OF_REPLY, &p->back, family))
		return UNDECIDED;
	get_conn_address(&p->conn, CONN_CLIENT, &p->shown, family);
	action = set_quoted(skb, p, SIDE_SOURCE, &p->shown, p->conn.conn.middle_port, family);
	return action == LEAVE ? forward_to(skb, p, &p->shown, family) : action;
}

/* It quotes frontend -> client. */
static __always_inline int error_to_backend(struct __sk_buff *skb, struct packet *p,
					    enum family family)
{
	const struct conn *c = &p->conn.conn;
	int action;

	if (find_client(&p->back, &p->env, &p->conn, &p->slot, family))
		get_conn_address(&p->conn, CONN_BACKEND, &p->backend, family);
	else if (!with_direct_return ||
		 !(family == FAMILY_IPV4 ? fl_find_stateless4() : fl_find_stateless6()))
		return UNDECIDED;
	action = set_quoted(skb, p, SIDE_SOURCE, &p->backend, c->backend_port, family);
	if (action == LEAVE && c->middle_port != p->quoted.destination_port)
		action = set_quoted(skb, p, SIDE_DESTINATION, &p->quoted.destination,
				    c->middle_port, family);
	return action == LEAVE ? forward_to(skb, p, &p->backend, family) : action;
}

static __always_inline int on_error_in(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();
	int action;

	if (!p)
		return LEAVE;
	set_now(p);
	reverse(&p->quoted, &p->back);
	action = error_to_client(skb, p, family);
	if (action == UNDECIDED)
		action = error_to_backend(skb, p, family);
	if (action != UNDECIDED)
		return action;
	return with_direct_return ? fl_geneve_error(skb) : LEAVE;
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

/* It quotes client -> backend. */
static __always_inline int show_frontend(struct __sk_buff *skb, struct packet *p,
					 enum family family)
{
	const struct conn *c = &p->conn.conn;
	int action;

	get_conn_address(&p->conn, CONN_FRONTEND, &p->shown, family);
	action = show_sender(skb, p, &p->quoted.destination, &p->shown, family);
	if (action == LEAVE)
		action = set_quoted(skb, p, SIDE_DESTINATION, &p->shown, c->frontend_port, family);
	if (action == LEAVE && c->client_port != p->quoted.source_port)
		action = set_quoted(skb, p, SIDE_SOURCE, &p->quoted.source, c->client_port, family);
	return action == LEAVE ? return_by(skb, c->answers_by, family) : action;
}

/* It quotes backend -> client. */
static __always_inline int show_snat(struct __sk_buff *skb, struct packet *p, enum family family)
{
	const struct conn *c = &p->conn.conn;
	int action;

	if (!c->life.flags.masquerade || !c->reply_port)
		return LEAVE;
	get_conn_address(&p->conn, CONN_REPLY, &p->shown, family);
	action = show_sender(skb, p, &p->quoted.destination, &p->shown, family);
	if (action == LEAVE)
		action = set_quoted(skb, p, SIDE_DESTINATION, &p->shown, c->reply_port, family);
	return action;
}

static __always_inline int on_error_out(struct __sk_buff *skb, enum family family)
{
	struct packet *p = this_packet();

	if (!p)
		return LEAVE;
	set_now(p);
	reverse(&p->quoted, &p->back);
	if (find_answered(p, &p->back, family) && is_middle(&p->conn, &p->back, family))
		return show_frontend(skb, p, family);
	if (find_answered(p, &p->quoted, family) && is_middle(&p->conn, &p->quoted, family))
		return show_snat(skb, p, family);
	return LEAVE;
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
