/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets straight to a backend, from a port from which the client also has, or has had, a
 * connection to it through a frontend: the backend could not tell the two apart. A connection that
 * has ended gives way; one that lives keeps the port.
 */
#ifndef FAIRLEAD_FLOW_OLDER_H
#define FAIRLEAD_FLOW_OLDER_H

#include "packet/flow/begin.h"

/* --- a SYN straight to a backend ---------------------------------------------------------------
 */

/* The connection p->other leads to the destination, which becomes a frontend of itself. */
static __always_inline void choose_destination(struct packet *p)
{
	const struct conn *other = &p->other.conn;
	struct choice *c = &p->choice;

	c->address = p->wire.destination;
	c->port = p->wire.destination_port;
	c->backend_id = other->backend_id;
	c->frontend_id = other->frontend_id;
	c->generation = other->life.generation;
	c->masquerade = 0;
	c->verdict = VERDICT_LEAVE;
}

/*
 * A SYN to no frontend. If a connection of the client has the answers that it would get, and lives,
 * this one becomes a connection of the table, too, with another port for the client. The SYN of the
 * connection itself, which comes in again by a second device, is left.
 */
static __always_inline int meet_older(enum family family)
{
	struct packet *p = this_packet();

	if (!p || !is_marked(p, MARKS_EGRESS, &p->wire.destination,
			     port_mark(p, p->wire.destination_port), family))
		return LEAVE;
	set_now(p);
	reverse(&p->wire, &p->back);
	if (!find_other(p, family) || !is_middle(&p->other, &p->back, family))
		return LEAVE;
	if (is_over(p, &p->other) && end_other(family))
		return LEAVE;
	if (p->other.conn.life.syn == p->syn)
		return LEAVE;
	choose_destination(p);
	return BEGINS_HERE;
}

__noinline int fl_meet_older4(void)
{
	return meet_older(FAMILY_IPV4);
}

__noinline int fl_meet_older6(void)
{
	return meet_older(FAMILY_IPV6);
}

/* Side by side: nested, both would need more frames than there are. */
static __always_inline int on_direct(hook_context *ctx, enum family family)
{
	int met = family == FAMILY_IPV4 ? fl_meet_older4() : fl_meet_older6();

	if (met != BEGINS_HERE)
		return met;
	return family == FAMILY_IPV4 ? fl_begin4(ctx) : fl_begin6(ctx);
}

/* --- an answer to an older connection ----------------------------------------------------------
 */

/*
 * Gives the answers of p->conn to the older connection, as one whose frontend is the backend
 * itself. The SYN finds that when it is sent again, and the new connection gets another port.
 */
static __always_inline bool leave_to_older(struct packet *p, enum family family)
{
	struct conn *c = &p->conn.conn;

	if (!end_unfollowed(p, family))
		return false;
	c->life.flags.masquerade = 0;
	c->life.state = CONN_ESTABLISHED;
	c->marks.fresh = 0;
	c->progress_client = 0;
	c->client_port = c->middle_port;
	c->frontend_port = c->backend_port;
	c->reply_port = c->middle_port;
	c->seen = p->env.now;
	put_conn_address(&p->conn, CONN_FRONTEND, &p->backend, family);
	put_conn_address(&p->conn, CONN_REPLY, &p->wire.destination, family);
	get_tuple(&p->conn, OF_CLIENT, &p->back, family);
	return put_conn(&p->back, family) == BEGIN_MADE;
}

__noinline int fl_leave_to_older4(void)
{
	struct packet *p = this_packet();

	return p && leave_to_older(p, FAMILY_IPV4);
}

__noinline int fl_leave_to_older6(void)
{
	struct packet *p = this_packet();

	return p && leave_to_older(p, FAMILY_IPV6);
}

#endif
