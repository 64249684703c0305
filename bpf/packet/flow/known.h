/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The connection of a packet: finds its record, and ends it. */
#ifndef FAIRLEAD_FLOW_KNOWN_H
#define FAIRLEAD_FLOW_KNOWN_H

#include "common/count.h"
#include "packet/conn/end.h"
#include "packet/conn/find.h"
#include "packet/packet.h"

/* --- to find it --------------------------------------------------------------------------------
 */

/* The connection of the request on the wire becomes p->conn. */
static __always_inline bool find_request(struct packet *p, enum family family)
{
	if (!find_client(&p->wire, &p->env, &p->conn, &p->slot, family))
		return false;
	get_conn_address(&p->conn, CONN_BACKEND, &p->backend, family);
	return true;
}

/* The same for what a backend has sent, or for its reverse. */
static __always_inline bool find_answered(struct packet *p, const struct tuple *answer,
					  enum family family)
{
	if (!find_reply(answer, &p->env, &p->conn, &p->slot.index, family))
		return false;
	get_conn_address(&p->conn, CONN_BACKEND, &p->backend, family);
	return true;
}

/* p->conn has been copied already, see here.h. */
static __always_inline void take_found(struct packet *p, enum family family)
{
	get_conn_address(&p->conn, CONN_BACKEND, &p->backend, family);
}

/* The connection that a backend would answer by p->back becomes p->other. */
static __always_inline bool find_other(struct packet *p, enum family family)
{
	return find_reply(&p->back, &p->env, &p->other, &p->other_slot.index, family);
}

/* The answer has the client's address, as the network stack sees it. */
static __always_inline bool is_middle(const union conn_record *r, const struct tuple *answer,
				      enum family family)
{
	return !r->conn.life.flags.masquerade || has_tuple(r, OF_MIDDLE, answer, family);
}

/* --- whether it goes on ------------------------------------------------------------------------
 */

static __always_inline enum conn_liveness liveness(const struct packet *p,
						   const union conn_record *r)
{
	const struct packet_settings *s = packet_settings();

	if (!s)
		return CONN_LIVES;
	return liveness_of(r->conn.life, ticks_passed(r->conn.seen, p->env.now),
			   &s->timeout_seconds);
}

/* A SYN would begin another connection. */
static __always_inline bool is_over(const struct packet *p, const union conn_record *r)
{
	return liveness(p, r) >= CONN_ENDED;
}

/* BACKEND_FREE: it is gone, or its id is another backend's. */
static __always_inline enum backend_state backend_state_of(const struct packet *p,
							   enum family family)
{
	const struct conn *c = &p->conn.conn;
	struct backend b;

	if (!read_backend(c->backend_id, family, &b) || b.generation != c->life.generation)
		return BACKEND_FREE;
	return b.state;
}

/*
 * A packet of the backend that is no answer to a SYN, although nothing has answered the SYN of
 * p->conn. If it has not come to the SNAT address, it belongs to an older connection straight to
 * the backend, which the SYN has met there.
 */
static __always_inline bool may_be_of_older(const struct packet *p)
{
	const struct conn *c = &p->conn.conn;

	return p->wire.protocol == PROTOCOL_TCP && c->marks.fresh && c->life.state == CONN_NEW &&
	       !(p->tcp_flags & (TCP_SYN | TCP_RST));
}

/* --- to end it ---------------------------------------------------------------------------------
 */

/* p->conn. Global, see backend.h, as the next ones. */
__noinline int fl_lock_conn4(void)
{
	struct packet *p = this_packet();

	return p && lock_record(&p->conn, &p->slot, FAMILY_IPV4);
}

__noinline int fl_lock_conn6(void)
{
	struct packet *p = this_packet();

	return p && lock_record(&p->conn, &p->slot, FAMILY_IPV6);
}

/* Ends p->conn, whose packet has decided it. */
__noinline int fl_end_conn4(void)
{
	struct packet *p = this_packet();

	return p && end_record(&p->conn, &p->slot, &p->env, FAMILY_IPV4);
}

__noinline int fl_end_conn6(void)
{
	struct packet *p = this_packet();

	return p && end_record(&p->conn, &p->slot, &p->env, FAMILY_IPV6);
}

static __always_inline bool end_conn(enum family family)
{
	return family == FAMILY_IPV4 ? fl_end_conn4() : fl_end_conn6();
}

/* Ends p->other, by what the copy says. */
__noinline int fl_end_other4(void)
{
	struct packet *p = this_packet();

	return p && end_unchanged(&p->other, &p->other_slot, &p->env, FAMILY_IPV4);
}

__noinline int fl_end_other6(void)
{
	struct packet *p = this_packet();

	return p && end_unchanged(&p->other, &p->other_slot, &p->env, FAMILY_IPV6);
}

static __always_inline bool end_other(enum family family)
{
	return family == FAMILY_IPV4 ? fl_end_other4() : fl_end_other6();
}

/* Ends p->conn, which its packet has not changed. */
static __always_inline bool end_unfollowed(struct packet *p, enum family family)
{
	p->other = p->conn;
	p->other_slot = p->slot;
	return end_other(family);
}

/* p->conn ends, and begins anew: see keep_former_port(). */
static __always_inline void note_former(struct packet *p, enum family family)
{
	const struct conn *c = &p->conn.conn;

	p->former_backend = c->backend_id;
	p->former_port = c->life.flags.masquerade ? c->reply_port : 0;
	get_conn_address(&p->conn, CONN_REPLY, &p->former, family);
}

#endif
