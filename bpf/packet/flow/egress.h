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

/* What a packet at egress may be; each takes a look-up. */
enum roles {
	IS_ANSWER = 1,	/* of a backend */
	IS_REQUEST = 2, /* one that on_request_out() does not just leave */
	IS_FOUND = 4,	/* p->conn is its connection, see here.h: it has one role */
	ANY_ROLE = IS_ANSWER | IS_REQUEST,
};

/* By the marks. */
static __always_inline __u32 roles_of(const struct packet *p, enum family family)
{
	__u32 roles = 0;

	if (is_marked(p, MARKS_EGRESS, &p->wire.source, port_mark(p, p->wire.source_port), family))
		roles |= IS_ANSWER;
	if (is_marked(p, MARKS_EGRESS, &p->wire.destination,
		      port_mark(p, p->wire.destination_port) | REQUESTS_TO, family))
		roles |= IS_REQUEST;
	return roles;
}

static __always_inline bool is_of_conn(struct packet *p, const struct tuple *answer, bool is_found,
				       enum family family)
{
	if (!is_found)
		return find_answered(p, answer, family) && is_middle(&p->conn, answer, family);
	take_found(p, family);
	return true;
}

/*
 * UNDECIDED: the packet is of no connection, or one that has its SNAT address by now. Its reverse
 * is then p->back.
 */
static __always_inline int on_egress(hook_context *ctx, __u32 roles, enum family family)
{
	struct packet *p = this_packet();
	bool is_found = family == FAMILY_IPV4 && roles & IS_FOUND;

	if (!p)
		return LEAVE;
	set_now(p);
	if (roles & IS_ANSWER && is_of_conn(p, &p->wire, is_found, family))
		return on_answer(ctx, p, family);
	reverse(&p->wire, &p->back);
	if (roles & IS_REQUEST && is_of_conn(p, &p->back, is_found, family))
		return on_request_out(ctx, p, family);
	return UNDECIDED;
}

__noinline int fl_egress4(hook_context *ctx, __u32 roles)
{
	return on_egress(ctx, roles, FAMILY_IPV4);
}

__noinline int fl_egress6(hook_context *ctx, __u32 roles)
{
	return on_egress(ctx, roles, FAMILY_IPV6);
}

/* Beside what finds that it is to be done: nested, both would need more stack than there is. */
static __always_inline int begin_snat(hook_context *ctx, struct packet *p, enum family family)
{
	if (family == FAMILY_IPV4 ? !fl_choose_snat4(ctx) : !fl_choose_snat6(ctx))
		return TC_ACT_SHOT;
	return masquerade(ctx, p, family);
}

/* `roles`: enum roles. */
static __always_inline int egress(hook_context *ctx, struct packet *p, __u32 roles,
				  enum family family)
{
	int action = family == FAMILY_IPV4 ? fl_egress4(ctx, roles) : fl_egress6(ctx, roles);

	return unlikely(action == NEEDS_SNAT) ? begin_snat(ctx, p, family) : action;
}

#endif
