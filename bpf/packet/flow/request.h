/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Request packets of known connections, at ingress: the destination becomes the backend. */
#ifndef FAIRLEAD_REQUEST_H
#define FAIRLEAD_REQUEST_H

#include "packet/flow/follow.h"
#include "packet/hook.h"
#include "packet/rewrite.h"
#include "packet/uplink/arrival.h"

/* The client's port differs for the backend only if two connections would look the same to it. */
static __always_inline int to_backend(hook_context *ctx, struct packet *p, enum family family)
{
	const struct conn *c = &p->conn.conn;
	int action = LEAVE;

	if (unlikely(c->middle_port != p->wire.source_port))
		action = set_source(ctx, p, &p->wire.source, c->middle_port, family);
	if (action != LEAVE)
		return action;
	action = set_destination(ctx, p, &p->backend, c->backend_port, family);
	/* Of TCP the egress program leaves it by its mark alone. */
	if (p->wire.protocol != PROTOCOL_TCP && !c->life.flags.masquerade)
		leave_at_egress(p, family);
	return action;
}

/* The connection is over: the packet begins another one, or is of none. */
static __always_inline int begin_again(struct packet *p, enum family family)
{
	note_former(p, family);
	if (forgets_later()) {
		/* Whoever looks for an answer of the same tuple has p->conn. */
		p->other = p->conn;
		p->other_slot = p->slot;
		return OVER;
	}
	end_conn(family);
	return UNDECIDED;
}

/* Of p->conn. */
static __always_inline int on_request(hook_context *ctx, struct packet *p, enum family family)
{
	const struct conn *c = &p->conn.conn;

	if (is_of_tc(c->life.flags) ||
	    is_left(ctx, p, &p->backend, c->backend_port, false, c->life.state == CONN_NEW, family))
		return LEFT;
	if (unlikely(c->life.flags.direct_return | c->life.flags.ipip))
		return GOES_DIRECTLY;
	if (unlikely(!may_be_usual(p)))
		p->answers_by = find_answers_by(ctx, p);
	else
		p->answers_by = c->answers_by;
	if (unlikely(is_of_other_socket(ctx, p) || account(p, false, family) & BEGINS))
		return begin_again(p, family);
	return to_backend(ctx, p, family);
}

static __always_inline int find_and_follow(hook_context *ctx, bool is_found, enum family family)
{
	struct packet *p = this_packet();

	if (!p)
		return UNDECIDED;
	if (is_found)
		take_found(p, family);
	else if (!find_request(p, family))
		return UNDECIDED;
	return on_request(ctx, p, family);
}

/* `is_found`: p->conn is its connection, see here.h. */
__noinline int fl_request4(hook_context *ctx, bool is_found)
{
	return find_and_follow(ctx, is_found, FAMILY_IPV4);
}

__noinline int fl_request6(hook_context *ctx)
{
	return find_and_follow(ctx, false, FAMILY_IPV6);
}

static __always_inline int request(hook_context *ctx, enum family family)
{
	return family == FAMILY_IPV4 ? fl_request4(ctx, false) : fl_request6(ctx);
}

#endif
