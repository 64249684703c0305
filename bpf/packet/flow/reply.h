/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Replies to SNAT addresses, at ingress: the destination becomes the client again. Those to clients
 * themselves are of the egress program.
 */
#ifndef FAIRLEAD_REPLY_H
#define FAIRLEAD_REPLY_H

#include "packet/flow/follow.h"
#include "packet/hook.h"
#include "packet/rewrite.h"

/* A port of the node that it has noted as its own, see snat/own.h. */
static __always_inline bool is_nodes(const struct packet *p)
{
	return !p->conn.conn.backend_id;
}

/* What is noted stays for as long as it is used. */
static __always_inline void renew(const struct packet *p, enum family family)
{
	struct conn *record = conn_at(p->slot.index, family);

	if (record)
		record->seen = p->env.now;
}

/* The backend has answered: no flood of others takes its place, and its port. */
static __always_inline int leave_to_node(struct packet *p, enum family family)
{
	renew(p, family);
	confirm_conn(family);
	return forgets_later() ? LEFT : LEAVE;
}

/* Of p->conn. */
static __always_inline int on_reply(hook_context *ctx, struct packet *p, enum family family)
{
	const struct conn *c = &p->conn.conn;
	bool is_told;
	int action;

	if (!c->life.flags.masquerade)
		return is_nodes(p) ? leave_to_node(p, family) : UNDECIDED;
	get_conn_address(&p->conn, CONN_CLIENT, &p->shown, family);
	if (is_left(ctx, p, &p->shown, c->middle_port, true, c->life.state == CONN_NEW, family) ||
	    unlikely(leaves_other_way(p, c->answers_by)))
		return LEFT;
	/* The packet is the node's own, by a port that the connection no longer needs. */
	if (account(p, true, family) & LEAVES) {
		end_conn(family);
		return UNDECIDED;
	}
	is_told = may_be_of_older(p);
	action = set_destination(ctx, p, &p->shown, c->middle_port, family);
	/* It answers this connection, whatever it is: the egress program is told. */
	if (unlikely(is_told))
		leave_at_egress(p, family);
	return action;
}

static __always_inline int find_and_reply(hook_context *ctx, bool is_found, enum family family)
{
	struct packet *p = this_packet();

	if (!p)
		return UNDECIDED;
	if (is_found)
		take_found(p, family);
	else if (!find_answered(p, &p->wire, family) ||
		 !has_tuple(&p->conn, OF_REPLY, &p->wire, family))
		return UNDECIDED;
	return on_reply(ctx, p, family);
}

/* `is_found`: p->conn is its connection, see here.h. */
__noinline int fl_reply_in4(hook_context *ctx, bool is_found)
{
	return find_and_reply(ctx, is_found, FAMILY_IPV4);
}

__noinline int fl_reply_in6(hook_context *ctx)
{
	return find_and_reply(ctx, false, FAMILY_IPV6);
}

static __always_inline int reply(hook_context *ctx, enum family family)
{
	return family == FAMILY_IPV4 ? fl_reply_in4(ctx, false) : fl_reply_in6(ctx);
}

#endif
