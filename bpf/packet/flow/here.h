/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Plain packets of known connections that go on as usual, which most packets of Services are:
 * found, followed and written without a call. All else is left, as it was, to the other files of
 * this folder.
 */
#ifndef FAIRLEAD_FLOW_HERE_H
#define FAIRLEAD_FLOW_HERE_H

#include "packet/conn/here.h"
#include "packet/flow/egress.h"
#include "packet/flow/reply.h"

/* A constant: where helpers have to write checksums, there is nothing to gain. */
static __always_inline bool may_be_here(const struct packet *p)
{
	return ip_summed_at && p->has_checksum && !(p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST));
}

/* --- to find it --------------------------------------------------------------------------------
 */

/* p->conn is then a copy of the record. */
static __always_inline bool copy_if(struct packet *p, __u32 index, enum conn_side side,
				    const struct tuple *t)
{
	if (!read_record(index, &p->conn, FAMILY_IPV4))
		return false;
	barrier(); /* see read_record_of() */
	return has_tuple(&p->conn, side, t, FAMILY_IPV4);
}

/* One that is not found leaves p->slot as it was: it would be taken for that of another one. */
static __always_inline bool is_found_at(struct packet *p, __u32 index)
{
	if (!is_whole(&p->conn, p->env.secret, FAMILY_IPV4))
		return false;
	p->slot.index = index;
	return true;
}

/* At ingress. Whether p->conn is its connection: a request's, or else that of an answer. */
static __always_inline bool find_in(struct packet *p, bool is_request)
{
	const struct tuple *t = &p->wire;
	__u32 index;

	if (is_request) {
		index = client_here(t, p->env.secret, FAMILY_IPV4);
		if (!copy_if(p, index, OF_CLIENT, t))
			return false;
	} else {
		index = reply_here(t, p->env.secret, FAMILY_IPV4);
		if (!copy_if(p, index, OF_REPLY, t))
			return false;
	}
	/* Once for both: the factors of a proof take much of the stack. */
	return is_found_at(p, index);
}

/* At egress. The roles that are left: found in one, or perhaps to be found, or none. */
static __always_inline __u32 find_out(struct packet *p, __u32 roles)
{
	const struct tuple *t = &p->wire;
	__u32 index, role = IS_ANSWER;

	if (!(roles & IS_ANSWER)) {
		reverse(&p->wire, &p->back);
		t = &p->back;
		role = IS_REQUEST;
	}
	index = reply_here(t, p->env.secret, FAMILY_IPV4);
	if (index == NOWHERE)
		return roles & ~role;
	/* Of one that is not masqueraded this is the tuple of the answer, too. */
	if (copy_if(p, index, OF_MIDDLE, t) && is_found_at(p, index))
		return role | IS_FOUND;
	return roles;
}

/* --- to follow and write it --------------------------------------------------------------------
 */

/* Of p->conn: no other file of this folder would do more to the packet than these steps. */
static __always_inline bool is_usual_in(const struct packet *p, bool is_request)
{
	const struct conn *c = &p->conn.conn;

	if (!may_be_usual(p))
		return false;
	if (!is_request)
		return c->life.flags.masquerade;
	return c->middle_port == p->wire.source_port &&
	       !(c->life.flags.direct_return | c->life.flags.ipip | c->life.flags.of_stale);
}

/* Of UDP, and no answer: egress need not look it up. Of TCP it knows by its mark alone. */
static __always_inline bool is_done_in(const struct packet *p)
{
	return p->wire.protocol != PROTOCOL_TCP && !p->conn.conn.life.flags.masquerade;
}

/* As on_request() and on_reply(). UNDECIDED: it is no usual packet, and nothing has changed. */
static __always_inline int ingress_here(struct __sk_buff *skb, struct packet *p, bool is_request)
{
	const struct conn *c = &p->conn.conn;
	__be32 to;
	__u16 port;
	int action;

	HIDE(is_request); /* the compiler would make two copies of all that follows */
	to = addresses4(&p->conn)->word[is_request ? CONN_BACKEND : CONN_CLIENT];
	port = is_request ? c->backend_port : c->middle_port;
	if (!is_usual_in(p, is_request) || !note_usual(p, !is_request, FAMILY_IPV4))
		return UNDECIDED;
	count_packet(p->slot.index, p->length, !is_request, FAMILY_IPV4);
	action = action_of(rewrite_head4(skb, p, SIDE_DESTINATION, to, port));
	if (is_done_in(p)) {
		p->wire.destination.word[3] = to;
		p->wire.destination_port = port;
		leave_at_egress(p, FAMILY_IPV4);
	}
	return action;
}

static __always_inline bool is_usual_out(const struct __sk_buff *skb, const struct packet *p,
					 bool is_answer)
{
	const struct conn *c = &p->conn.conn;

	if (!may_be_usual(p))
		return false;
	if (!is_answer)
		return !c->life.flags.masquerade || c->reply_port;
	return c->client_port == p->wire.destination_port &&
	       (!c->answers_by || c->answers_by == skb->ifindex);
}

/* As on_answer() and on_request_out(). */
static __always_inline int egress_here(struct __sk_buff *skb, struct packet *p, bool is_answer)
{
	const struct conn *c = &p->conn.conn;
	__be32 to;
	__u16 port;

	HIDE(is_answer);
	to = addresses4(&p->conn)->word[is_answer ? CONN_FRONTEND : CONN_REPLY];
	port = is_answer ? c->frontend_port : c->reply_port;
	if (!is_usual_out(skb, p, is_answer))
		return UNDECIDED;
	if (is_answer && !is_followed(p)) {
		if (!note_usual(p, true, FAMILY_IPV4))
			return UNDECIDED;
		count_packet(p->slot.index, p->length, true, FAMILY_IPV4);
	}
	if (!is_answer && !c->life.flags.masquerade)
		return LEAVE;
	return action_of(rewrite_head4(skb, p, SIDE_SOURCE, to, port));
}

#endif
