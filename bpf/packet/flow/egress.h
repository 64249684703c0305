/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets between clients and backends, at egress: replies come from the frontend, masqueraded
 * requests from the SNAT address. A packet that has another address by now, because something else
 * has masqueraded it, finds no connection and is left alone.
 */
#ifndef FAIRLEAD_EGRESS_H
#define FAIRLEAD_EGRESS_H

#include "packet/flow/older.h"
#include "packet/geneve/clamp.h"
#include "packet/snat/search.h"
#include "packet/uplink/way_back.h"

/* --- replies -----------------------------------------------------------------------------------
 */

static __always_inline int to_client(hook_context *ctx, struct packet *p, enum family family)
{
	const struct conn *c = &p->conn.conn;
	int action;

	get_conn_address(&p->conn, CONN_FRONTEND, &p->shown, family);
	action = set_source(ctx, p, &p->shown, c->frontend_port, family);
	if (action != LEAVE || c->client_port == p->wire.destination_port)
		return action;
	return set_destination(ctx, p, &p->wire.destination, c->client_port, family);
}

/*
 * An answer to a SNAT address has been followed at ingress. One to a client, of a connection whose
 * backend is this node itself, has none.
 */
static __always_inline bool is_followed(const struct packet *p)
{
	return p->conn.conn.life.flags.masquerade && p->conn.conn.reply_port;
}

static __always_inline int on_answer(hook_context *ctx, struct packet *p, enum family family)
{
	const struct conn *c = &p->conn.conn;
	int action;

	if (unlikely(may_be_of_older(p)) && !(is_followed(p) && is_left_at_egress(p, family))) {
		if (forgets_later())
			return LEFT;
		if (family == FAMILY_IPV4 ? fl_leave_to_older4() : fl_leave_to_older6())
			return LEAVE;
	}
	if (with_direct_return && unlikely(p->tcp_flags & TCP_SYN && c->life.flags.in_geneve))
		clamp_mss(ctx);
	if (!is_followed(p)) {
		p->answers_by = c->answers_by;
		if (account(p, true, family) & LEAVES)
			return UNDECIDED;
	}
	action = to_client(ctx, p, family);
	return action == LEAVE ? return_by(ctx, c->answers_by, family) : action;
}

/* --- requests ----------------------------------------------------------------------------------
 */

/* Of p->conn. Its first packet chooses the SNAT address, see begin_snat(). */
static __always_inline int masquerade(hook_context *ctx, struct packet *p, enum family family)
{
	if (unlikely(!p->conn.conn.reply_port))
		return NEEDS_SNAT;
	get_conn_address(&p->conn, CONN_REPLY, &p->shown, family);
	return set_source(ctx, p, &p->shown, p->conn.conn.reply_port, family);
}

/* A request of a connection that lives has renewed it at ingress: what finds an expired one is
 * none. */
static __always_inline bool is_straight_to_backend(const struct packet *p)
{
	return p->wire.protocol != PROTOCOL_TCP && is_over(p, &p->conn) &&
	       ticks_passed(p->conn.conn.seen, p->env.now) > p->env.udp_new;
}

static __always_inline int on_request_out(hook_context *ctx, struct packet *p, enum family family)
{
	if (unlikely(is_straight_to_backend(p)) && end_unfollowed(p, family))
		return UNDECIDED;
	if (!p->conn.conn.life.flags.masquerade)
		return LEAVE;
	return masquerade(ctx, p, family);
}

/* --- both --------------------------------------------------------------------------------------
 */

/*
 * UNDECIDED: the packet is of no connection, or one that has its SNAT address by now. Its reverse
 * is then p->back.
 */
static __always_inline int on_egress(hook_context *ctx, enum family family)
{
	struct packet *p = this_packet();

	if (!p)
		return LEAVE;
	set_now(p);
	if (find_answered(p, &p->wire, family) && is_middle(&p->conn, &p->wire, family))
		return on_answer(ctx, p, family);
	reverse(&p->wire, &p->back);
	if (find_answered(p, &p->back, family) && is_middle(&p->conn, &p->back, family))
		return on_request_out(ctx, p, family);
	return UNDECIDED;
}

/* Whether it may be a reply of a backend, or a request that on_request_out() does not just leave.
 */
static __always_inline bool may_have_conn(const struct packet *p, enum family family)
{
	return is_marked(p, MARKS_EGRESS, &p->wire.source, port_mark(p, p->wire.source_port),
			 family) ||
	       is_marked(p, MARKS_EGRESS, &p->wire.destination,
			 port_mark(p, p->wire.destination_port) | REQUESTS_TO, family);
}

__noinline int fl_egress4(hook_context *ctx)
{
	return on_egress(ctx, FAMILY_IPV4);
}

__noinline int fl_egress6(hook_context *ctx)
{
	return on_egress(ctx, FAMILY_IPV6);
}

/* Beside what finds that it is to be done: nested, both would need more stack than there is. */
static __always_inline int begin_snat(hook_context *ctx, struct packet *p, enum family family)
{
	if (family == FAMILY_IPV4 ? !fl_choose_snat4(ctx) : !fl_choose_snat6(ctx))
		return TC_ACT_SHOT;
	return masquerade(ctx, p, family);
}

static __always_inline int egress(hook_context *ctx, struct packet *p, enum family family)
{
	int action = family == FAMILY_IPV4 ? fl_egress4(ctx) : fl_egress6(ctx);

	return unlikely(action == NEEDS_SNAT) ? begin_snat(ctx, p, family) : action;
}

#endif
